//! The process at the other end of a connection: whether it may act for the person.
//!
//! A process that aish started for a model, and all its descendants, may not: they are recognized by their ancestors, which
//! lead to the daemon since it adopts orphans, and by a variable that each of them gets. Only a client in the foreground of a
//! terminal may answer a question. Where there is no `/proc`, nothing of this can be checked.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::Daemon;
use crate::error::{Error, ErrorKind, Result};
use crate::history::record::{PolicyChange, RecordBody, RecordIds};
use crate::paths::CHILD_MARK;
use crate::protocol::{Request, ShellId};
use crate::session::lock;

/// Maximum number of ancestors that are followed.
const MAX_ANCESTORS: usize = 256;

/// A process, identified so that another one with the same id is noticed.
#[derive(Debug, Clone, Copy)]
pub struct PeerProcess {
    pid: i32,
    start: u64,
}

/// The fields of `/proc/PID/stat` that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    group: i32,
    /// Device of the controlling terminal; 0 if there is none.
    terminal: i32,
    /// Foreground process group of the terminal.
    foreground: i32,
    start: u64,
}

impl ProcessStat {
    fn of(pid: i32) -> Option<ProcessStat> {
        ProcessStat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<ProcessStat> {
        // The name of the program is in parentheses and may contain anything.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        Some(ProcessStat {
            parent: number(1)?,
            group: number(2)?,
            terminal: number(4)?,
            foreground: number(5)?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Whether this system has the information.
fn can_check() -> bool {
    cfg!(target_os = "linux")
}

fn refused(reason: &str) -> Error {
    Error::new(ErrorKind::Approval, format!("refused: {reason}"))
}

impl PeerProcess {
    /// Returns the process with this id, at the time of its connection. `None` if it has ended.
    pub fn new(pid: Option<i32>) -> Option<PeerProcess> {
        let pid = pid?;
        let start = ProcessStat::of(pid)?.start;
        Some(PeerProcess { pid, start })
    }

    fn stat(self) -> Result<ProcessStat> {
        let stat = ProcessStat::of(self.pid).filter(|stat| stat.start == self.start);
        stat.ok_or_else(|| refused("the client has ended"))
    }

    /// Returns the process and its ancestors up to the first process of the system.
    ///
    /// # Errors
    /// There are too many, or one of them ended meanwhile: its child may have got another parent.
    fn ancestors(self) -> Result<Vec<i32>> {
        let mut ancestors = vec![self.pid];
        let mut pid = self.pid;
        while ancestors.len() < MAX_ANCESTORS {
            let stat =
                ProcessStat::of(pid).ok_or_else(|| refused("the client's parent has ended"))?;
            if stat.parent <= 0 {
                return Ok(ancestors);
            }
            pid = stat.parent;
            ancestors.push(pid);
        }
        Err(refused("the client has too many ancestors"))
    }

    /// Checks that the process was not started by the daemon.
    fn check_origin(self) -> Result<()> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let mark = format!("{CHILD_MARK}=");
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        let marked = environment
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(mark.as_bytes()));
        match marked || self.ancestors()?.contains(&own) {
            true => Err(refused("aish has started this program for a model")),
            false => Ok(()),
        }
    }
}

/// The client of a connection, and what is needed to check it.
#[derive(Debug, Clone)]
pub struct Peer {
    daemon: Arc<Daemon>,
    process: Option<PeerProcess>,
    record_ids: RecordIds,
}

impl Peer {
    /// The client with this process id.
    pub fn new(daemon: &Arc<Daemon>, pid: Option<i32>, record_ids: &RecordIds) -> Peer {
        Peer {
            daemon: daemon.clone(),
            process: PeerProcess::new(pid),
            record_ids: record_ids.clone(),
        }
    }

    /// Checks that the client was not started by aish for a model. A refusal is recorded as an attempt at `what`.
    ///
    /// # Errors
    /// It was, or it has ended.
    pub fn check_origin(&self, what: &str) -> Result<()> {
        if !can_check() {
            return Ok(());
        }
        let process = self.process.ok_or_else(|| refused("the client has ended"));
        self.recorded(what, process.and_then(PeerProcess::check_origin))
    }

    /// Checks that a person at a terminal uses the client, and returns the terminal. With a shell, the client must belong to
    /// it. A refusal is recorded as an attempt at `what`.
    ///
    /// # Errors
    /// No person uses it.
    pub fn check_person(&self, what: &str, shell: Option<&ShellId>) -> Result<Option<String>> {
        if !can_check() {
            return Ok(None);
        }
        self.recorded(what, self.person(shell))
    }

    /// Whether a person could be asked through the client.
    pub fn is_at_terminal(&self) -> bool {
        can_check() && self.person(None).is_ok()
    }

    fn person(&self, shell: Option<&ShellId>) -> Result<Option<String>> {
        let process = self
            .process
            .ok_or_else(|| refused("the client has ended"))?;
        process.check_origin()?;
        let ancestors = process.ancestors()?;
        let of_shell = |shell: &ShellId| shell.pid().filter(|pid| ancestors.contains(pid));
        let is_running = {
            let running = lock(&self.daemon.running);
            running
                .values()
                .any(|command| of_shell(command.shell()).is_some())
        };
        if is_running {
            return Err(refused("an approved command runs in its shell"));
        }
        // After the ancestors: a process that has ended meanwhile may have had others.
        let stat = process.stat()?;
        if stat.terminal == 0 {
            return Err(refused("the client has no terminal"));
        }
        if stat.group != stat.foreground {
            return Err(refused(
                "the client is not in the foreground of its terminal",
            ));
        }
        if let Some(shell) = shell.filter(|shell| shell.pid().is_some()) {
            let terminal = of_shell(shell)
                .and_then(ProcessStat::of)
                .map(|s| s.terminal);
            if terminal != Some(stat.terminal) {
                return Err(refused("the client does not belong to that shell"));
            }
        }
        Ok(Some(terminal_name(stat.terminal)))
    }

    /// Returns the result, after a refusal was queued for the audit log.
    fn recorded<T>(&self, what: &str, result: Result<T>) -> Result<T> {
        let Err(e) = &result else {
            return result;
        };
        let pid = self.process.map_or(0, |process| process.pid);
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let program = program.display();
        let record = RecordBody::Policy {
            change: PolicyChange::Refused,
            what: format!("{what} by process {pid} ({program})"),
            grant: None,
            why: Some(e.message.clone()),
        };
        tracing::warn!("{what} by process {pid} ({program}): {}", e.message);
        // A failure is in the daemon's log, as is the refusal.
        let audit_log = &self.daemon.services.audit_log;
        if let Err(e) = audit_log.record(&self.record_ids, record) {
            tracing::warn!("{}", e.message);
        }
        result
    }
}

/// Returns what a request does that a program of a model may not do. `None` for prompts and for requests that only read.
pub fn privileged_action(request: &Request) -> Option<&'static str> {
    Some(match request {
        Request::Ask(_)
        | Request::Attach(_)
        | Request::Status { .. }
        | Request::Sessions { .. }
        | Request::Transcript { .. }
        | Request::Models { .. }
        | Request::NextProposal { .. } => return None,
        // Checked with the shell.
        Request::Decide { .. } | Request::ConfirmConfig { .. } => return None,
        Request::Policy { .. } => "a request about the policy",
        Request::Mcp { .. } => "a request about MCP servers",
        Request::Call(_) => "a call of a tool",
        Request::Capture { .. } | Request::ExecDone { .. } => "a report about a command",
        Request::NewSession { .. }
        | Request::UseModel { .. }
        | Request::ContinueSession { .. }
        | Request::RenameSession { .. }
        | Request::DeleteSession { .. } => "a change of a session",
        Request::Stop { .. } => "a stop of the daemon",
    })
}

/// Returns the path of a terminal by its device number.
fn terminal_name(device: i32) -> String {
    let device = u32::from_ne_bytes(device.to_ne_bytes());
    let (major, minor) = (
        (device >> 8) & 0xfff,
        (device & 0xff) | ((device >> 12) & 0xfff00),
    );
    let name = match major {
        136..=143 => format!("/dev/pts/{}", (major - 136) * (1 << 20) + minor),
        4 if minor < 64 => format!("/dev/tty{minor}"),
        _ => format!("/dev/char/{major}:{minor}"),
    };
    match Path::new(&name).exists() {
        true => name,
        // Of another mount namespace.
        false => format!("{major}:{minor}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_program_may_contain_anything() {
        let text = "42 (a) 1 (b) R 7 8 9 34816 10 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        let stat = ProcessStat {
            parent: 7,
            group: 8,
            terminal: 34816,
            foreground: 10,
            start: 777,
        };
        assert_eq!(ProcessStat::parse(text), Some(stat));
        assert_eq!(ProcessStat::parse("42 (a"), None);
        assert_eq!(ProcessStat::parse("42 (a) R 1"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn ancestors_lead_from_a_process_to_the_first() {
        let own = i32::try_from(std::process::id()).unwrap();
        let process = PeerProcess::new(Some(own)).unwrap();
        let ancestors = process.ancestors().unwrap();
        assert_eq!(ancestors[0], own);
        assert_eq!(ancestors[1], nix::unistd::getppid().as_raw());
        // The test is the daemon here.
        assert!(process.check_origin().is_err());
        let later = PeerProcess {
            start: 1,
            ..process
        };
        assert!(later.stat().is_err());
    }
}
