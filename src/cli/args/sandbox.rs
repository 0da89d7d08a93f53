//! `aish-helper sandbox`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::sandbox::{SandboxLevel, SandboxStage};

/// `aish-helper sandbox`
#[derive(Debug, Args)]
pub struct SandboxArgs {
    /// What the command may change: nothing, or the workspace
    #[arg(long, value_enum, default_value_t = LevelArg::Workspace)]
    pub level: LevelArg,
    /// The workspace; by default the current directory
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Another directory that the command may change
    #[arg(long, value_name = "DIR")]
    pub write: Vec<PathBuf>,
    /// Another file or directory that the command may read
    #[arg(long, value_name = "PATH")]
    pub read: Vec<PathBuf>,
    /// Allow IP sockets
    #[arg(long)]
    pub network: bool,
    /// A variable for the command, in addition to the harmless ones that it always gets
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<OsString>,
    /// Keep this file descriptor open
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..))]
    pub keep_fd: Option<i32>,
    /// Private memory of each process in MiB
    #[arg(long, value_name = "MIB", hide = true)]
    pub max_memory: Option<u64>,
    /// Size of the temporary directory in MiB
    #[arg(long, value_name = "MIB", hide = true)]
    pub max_temporary: Option<u64>,
    /// Size of a file in MiB
    #[arg(long, value_name = "MIB", hide = true)]
    pub max_file: Option<u64>,
    /// Number of processes
    #[arg(long, value_name = "N", hide = true)]
    pub max_processes: Option<u64>,
    /// CPU time of each process
    #[arg(long, value_name = "SECONDS", hide = true)]
    pub max_cpu: Option<u64>,
    /// A file or directory that the command may not read
    #[arg(long, value_name = "PATH", hide = true)]
    pub hide: Vec<PathBuf>,
    /// What may be read although it is below something hidden
    #[arg(long, value_name = "PATH", hide = true)]
    pub show: Vec<PathBuf>,
    /// What stays as it is in the workspace (internal)
    #[arg(long, value_name = "PATH", hide = true, requires = "stage")]
    pub guard: Vec<PathBuf>,
    /// The home directory
    #[arg(long, value_name = "DIR", hide = true)]
    pub home: Option<PathBuf>,
    /// Orphaned processes become children of the command
    #[arg(long, hide = true)]
    pub adopt: bool,
    /// Use no namespaces (for tests)
    #[arg(long, hide = true)]
    pub no_namespaces: bool,
    /// Build the sandbox without a command, and print what it consists of
    #[arg(long, hide = true, conflicts_with = "command")]
    pub trial: bool,
    /// The inner stage (internal)
    #[arg(long, value_enum, hide = true, requires = "private_tmp")]
    pub stage: Option<StageArg>,
    /// The private temporary directory (internal)
    #[arg(long, value_name = "DIR", hide = true, requires = "stage")]
    pub private_tmp: Option<PathBuf>,
    /// The descriptor for the report (internal)
    #[arg(long, value_name = "N", hide = true, requires = "stage")]
    pub status_fd: Option<i32>,
    /// The command
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "trial")]
    pub command: Vec<OsString>,
}

/// Value of `--level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LevelArg {
    /// Nothing but a private temporary directory
    ReadOnly,
    /// The workspace and the directories of --write
    Workspace,
}

impl From<LevelArg> for SandboxLevel {
    fn from(level: LevelArg) -> SandboxLevel {
        match level {
            LevelArg::ReadOnly => SandboxLevel::ReadOnly,
            LevelArg::Workspace => SandboxLevel::Workspace,
        }
    }
}

/// Value of `--stage`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StageArg {
    /// Enters namespaces
    Namespaces,
    /// First process of the namespace
    First,
    /// Without namespaces
    Plain,
}

impl From<StageArg> for SandboxStage {
    fn from(stage: StageArg) -> SandboxStage {
        match stage {
            StageArg::Namespaces => SandboxStage::Namespaces,
            StageArg::First => SandboxStage::First,
            StageArg::Plain => SandboxStage::Plain,
        }
    }
}
