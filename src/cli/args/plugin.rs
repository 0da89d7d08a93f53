//! Arguments of the commands that only the plugin uses.

use std::path::PathBuf;

use clap::Args;

use crate::protocol::ShellId;

/// `aish-helper propose`
#[derive(Debug, Args)]
pub struct ProposeArgs {
    /// The shell
    #[arg(long, value_name = "ID")]
    pub shell: ShellId,
    /// The proposal whose edited text is on stdin
    #[arg(long, value_name = "TOKEN")]
    pub edited: Option<String>,
    /// Print the command instead of asking, so that zsh can parse it
    #[arg(long, conflicts_with_all = ["edited", "incomplete"])]
    pub check: bool,
    /// Do not offer to run the command, which zsh cannot parse
    #[arg(long)]
    pub incomplete: bool,
    /// Only say how many commands are left, after Ctrl-C
    #[arg(long, conflicts_with_all = ["edited", "incomplete", "check"])]
    pub interrupted: bool,
}

/// `aish-helper capture`, with the nonce of the approval on stdin
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// The shell
    #[arg(long, value_name = "ID")]
    pub shell: ShellId,
    /// Run the pump of this pty
    #[arg(long, value_name = "PTY")]
    pub pump: Option<PathBuf>,
    /// The proposal
    pub token: String,
}

/// `aish-helper exec-done`, with the nonce of the approval on stdin
#[derive(Debug, Args)]
pub struct ExecDoneArgs {
    /// The shell
    #[arg(long, value_name = "ID")]
    pub shell: ShellId,
    /// The exit code of the command
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub exit: i32,
    /// The proposal
    pub token: String,
}

/// `aish-helper fix`, with the description of the failed command on stdin
#[derive(Debug, Args)]
pub struct FixArgs {
    /// The shell
    #[arg(long, value_name = "ID")]
    pub shell: ShellId,
    /// Read the command line, as it was typed, from this file descriptor
    #[arg(long, value_name = "N")]
    pub line_fd: Option<u32>,
    /// Use this model
    #[arg(short, long, value_name = "NAME")]
    pub model: Option<String>,
}

/// `aish-helper record-pane`, with the output of the pane on stdin
#[derive(Debug, Args)]
pub struct RecordPaneArgs {
    /// The directory of the recordings
    #[arg(long, value_name = "DIR")]
    pub recordings: PathBuf,
    /// The directory of the configuration
    #[arg(long, value_name = "DIR")]
    pub config: PathBuf,
    /// The maximum size of the recording
    #[arg(long, value_name = "N")]
    pub max_bytes: u64,
    /// The shell
    #[arg(long, value_name = "ID")]
    pub shell: ShellId,
    /// The file of the notices for the shell
    #[arg(long, value_name = "FILE")]
    pub notice: PathBuf,
    /// The terminal of the pane
    #[arg(long, value_name = "TTY")]
    pub tty: PathBuf,
    /// TERM in the pane
    #[arg(long, value_name = "NAME", default_value = "")]
    pub term: String,
}
