//! An approved command that runs in a shell.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use tokio::sync::oneshot;

use super::peer::CommandProcesses;
use crate::error::{Error, ErrorKind, Result};
use crate::history::record::RecordIds;
use crate::protocol::{CapturedOutput, ShellId};
use crate::session::is_alive;

/// Approved commands that are running, by token.
pub type RunningCommands = Mutex<HashMap<String, RunningCommand>>;

/// An approved command.
#[derive(Debug)]
pub struct RunningCommand {
    pub(super) shell: ShellId,
    pub(super) session: String,
    /// Ids of the answer that proposed the command.
    pub(super) record_ids: RecordIds,
    pub(super) command: String,
    /// The directory it was approved in.
    pub(super) cwd: String,
    /// Time of the approval, milliseconds since 1970.
    pub(super) since_ms: u64,
    /// Unknown if it was approved under an earlier daemon.
    pub(super) processes: CommandProcesses,
    /// The nonce that a report about the command must contain. The shell has it, the command does not.
    pub(super) nonce: String,
    /// Asks the output pump for the captured output, if a pump has registered.
    pub(super) pump: Option<oneshot::Sender<oneshot::Sender<CapturedOutput>>>,
}

impl RunningCommand {
    /// What identifies its processes.
    pub fn processes(&self) -> CommandProcesses {
        self.processes
    }

    /// Whether its shell has ended. That `ended` contains the shell does not prove it: the command can report that itself.
    pub(super) fn is_orphaned(&self, ended: &HashSet<ShellId>) -> bool {
        match (self.shell.pid(), self.processes.leader) {
            (Some(pid), _) => !is_alive(pid),
            (None, Some(leader)) => !leader.exists(),
            (None, None) => ended.contains(&self.shell),
        }
    }

    /// Checks that a report about the command is from its shell.
    pub(super) fn check_report(&self, shell: &ShellId, nonce: &str) -> Result<()> {
        if self.shell != *shell {
            return Err(unknown());
        }
        match self.nonce == nonce {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::Approval,
                "refused: the report is not from the shell that runs the command",
            )),
        }
    }
}

/// Returns the error about a report for no command.
pub(super) fn unknown() -> Error {
    Error::runtime("no approved command has this token")
}

#[cfg(test)]
mod tests {
    use super::super::peer::PeerProcess;
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_command_runs_as_long_as_its_shell_whatever_the_hooks_report() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = i32::try_from(child.id()).unwrap();
        let gone = PeerProcess::new(Some(dead));
        child.wait().unwrap();
        for (shell, leader, expected) in [
            (format!("{own}-a"), None, false),
            (format!("{dead}-a"), None, true),
            ("s1".to_owned(), PeerProcess::new(Some(own)), false),
            ("s1".to_owned(), gone, true),
            ("s1".to_owned(), None, true),
        ] {
            let shell = ShellId::parse(shell).unwrap();
            let ended = HashSet::from([shell.clone()]);
            let command = RunningCommand {
                shell,
                session: String::new(),
                record_ids: RecordIds::default(),
                command: String::new(),
                cwd: String::new(),
                since_ms: 0,
                processes: CommandProcesses {
                    leader,
                    ..CommandProcesses::default()
                },
                nonce: String::new(),
                pump: None,
            };
            assert_eq!(command.is_orphaned(&ended), expected, "{command:?}");
        }
    }
}
