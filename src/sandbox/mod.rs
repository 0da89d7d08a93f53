//! Runs a command in a sandbox: `aish-helper sandbox`.
//!
//! On Linux the supervisor is a process outside the sandbox. It starts a stage of the same program that restricts itself with
//! Landlock and seccomp, in namespaces where they work, and becomes the command. `docs/sandbox.md` has the guarantees and limits.

mod command_files;
mod denials;
mod git_config;
mod guarded_files;
mod home_files;
mod implied_files;
mod links;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod macos;
mod outside_access;
mod path_rules;
mod places;
mod planned_files;
mod policy;
mod process_mark;
mod secret_places;
mod written_places;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

pub use self::denials::{Denial, DeniedAccess, denials};
pub use self::guarded_files::GuardedFiles;
pub use self::home_files::{HomeFile, HomeFiles};
pub use self::outside_access::works_outside;
pub use self::path_rules::PathRules;
pub use self::policy::{SandboxLevel, SandboxLimits, SandboxPolicy};
pub use self::process_mark::{PROCESS_MARK, kill_marked};
pub use self::written_places::place_of_write;

use crate::error::{Error, ErrorContext, Result};

/// With this signal the supervisor kills the command immediately, and then does the same as at every end: it ends remaining processes,
/// reports what the command has changed, and removes the temporary directory. SIGKILL would end the supervisor before it can do so.
/// macOS has no supervisor.
pub const END_SIGNAL: Signal = match cfg!(target_os = "linux") {
    true => Signal::SIGALRM,
    false => Signal::SIGKILL,
};
/// Maximum time for ending a command in this way: large workspaces are searched for changes.
pub const END_TIME: Duration = Duration::from_secs(10);

/// Exit code when the command cannot be found, as in a shell.
const NOT_FOUND: u8 = 127;

/// Exit code when the command cannot be run, as in a shell.
const NOT_RUN: u8 = 126;

/// Inner stages of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxStage {
    /// Enters namespaces and starts [`SandboxStage::First`].
    Namespaces,
    /// The first process of the process namespace: restricts itself and starts the command.
    First,
    /// Restricts itself and becomes the command, without namespaces.
    Plain,
}

impl SandboxStage {
    /// Returns the name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            SandboxStage::Namespaces => "namespaces",
            SandboxStage::First => "first",
            SandboxStage::Plain => "plain",
        }
    }
}

/// A command and the sandbox that it runs in.
#[derive(Debug, Clone)]
pub struct SandboxInvocation {
    /// Its permissions.
    pub policy: SandboxPolicy,
    /// The command and its arguments; empty for a trial, which only builds the sandbox.
    pub command: Vec<OsString>,
    /// The entire environment, before the variables of the policy.
    pub environment: Vec<(OsString, OsString)>,
    /// Directories of programs, in the order of the search.
    pub programs: Vec<PathBuf>,
    /// Which stage this process is; `None` is the supervisor.
    pub stage: Option<SandboxStage>,
    /// Descriptor on which an inner stage reports to the supervisor.
    pub status_fd: Option<i32>,
}

impl SandboxInvocation {
    /// Sets the paths that the supervisor found and made: the private temporary directory, and the protected files.
    pub fn set_prepared(&mut self, private_tmp: Option<PathBuf>, guarded: Vec<PathBuf>) {
        self.policy.private_tmp = private_tmp;
        self.policy.guarded = guarded;
    }
}

/// How a sandboxed command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxOutcome {
    /// Its exit code, or 128 and the number of the signal that ended it.
    pub code: u8,
    /// Notices for the user, one line each.
    pub notices: Vec<String>,
    /// The sandbox in which it ran.
    pub support: SandboxSupport,
}

/// The layers of the sandbox on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSupport {
    /// Version of Landlock; 0 if there is none.
    pub landlock_abi: i32,
    /// Whether seccomp filters system calls.
    pub seccomp: bool,
    /// Whether namespaces separate the command.
    pub namespaces: bool,
    /// Time that the rules of Landlock and seccomp took, in microseconds.
    pub policy_us: u64,
    /// Why namespaces are not used.
    pub without_namespaces: Option<String>,
}

impl SandboxSupport {
    /// Describes the support in one line.
    pub fn describe(&self) -> String {
        if cfg!(target_os = "macos") {
            return "sandbox-exec (untested)".into();
        }
        let namespaces = match (&self.without_namespaces, self.namespaces) {
            (_, true) => "namespaces".to_owned(),
            (Some(reason), _) => format!("no namespaces ({reason})"),
            (None, _) => "no namespaces".to_owned(),
        };
        format!("Landlock {}, seccomp, {namespaces}", self.landlock_abi)
    }
}

/// Finds out which layers the sandbox has, by building one without a command. `helper` is the path of aish-helper.
///
/// # Errors
/// There is no sandbox on this machine; the message says why.
pub fn support(helper: &Path) -> Result<SandboxSupport> {
    let output = std::process::Command::new(helper)
        .args(["sandbox", "--trial", "--level=read-only", "--dir=/usr"])
        .current_dir("/usr")
        .stdin(std::process::Stdio::null())
        .output()
        .context(|| "cannot run aish-helper sandbox".into())?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let mut lines = text.lines().map(str::trim);
        let message = lines.next().unwrap_or_default();
        let message = message.strip_prefix("aish: ").unwrap_or(message);
        let error = Error::config(message);
        return Err(match lines.next() {
            Some(hint) => error.hint(hint),
            None => error,
        });
    }
    serde_json::from_slice(&output.stdout)
        .context(|| "cannot read the answer of aish-helper sandbox".into())
}

/// Runs a command in the sandbox, or an inner stage of it.
///
/// # Errors
/// The sandbox is unavailable or cannot be built; the command has not run.
pub fn run(invocation: SandboxInvocation) -> Result<SandboxOutcome> {
    #[cfg(target_os = "linux")]
    return linux::run(invocation);
    #[cfg(target_os = "macos")]
    return macos::run(invocation);
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        let _ = invocation;
        Err(Error::config("the sandbox is unavailable on this system")
            .hint("set sandbox = \"off\" to run commands without it"))
    }
}

/// Removes private temporary directories that killed sandboxes have left. It reads the directory for temporary files.
pub fn remove_abandoned() {
    #[cfg(target_os = "linux")]
    linux::remove_abandoned();
}

/// Describes why a command could not be started, with the exit code of a shell.
fn not_run(command: &[OsString], error: &std::io::Error) -> (u8, String) {
    let name = command.first().map(|name| name.to_string_lossy());
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUN,
    };
    (
        code,
        format!("cannot run {}: {error}", name.unwrap_or_default()),
    )
}
