//! The process at the other end of a connection: whether it may act for the person.
//!
//! A process that aish started for a model, and all its descendants, may not. Those of the daemon are recognized by their
//! ancestors, which lead to the daemon since it adopts orphans, and by a variable that each of them gets; those of an approved
//! command by its shell among their ancestors, and by the session of its terminal. Only a client in the foreground of a
//! terminal may answer a question. Without `/proc`, none of this can be checked.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::Daemon;
use crate::error::{Error, ErrorKind, Result};
use crate::history::record::{PolicyChange, RecordBody, RecordIds};
use crate::paths::CHILD_MARK;
use crate::protocol::policy::PolicyRequest;
use crate::protocol::tools::McpRequest;
use crate::protocol::{Request, ServerRequest, ShareRequest, ShellId};
use crate::session::lock;

/// Maximum number of ancestors that are followed.
const MAX_ANCESTORS: usize = 256;
/// How often the ancestors are read again until two readings agree.
const MAX_WALKS: usize = 5;
/// Maximum number of refusals in the audit log within [`REFUSAL_WINDOW`].
const MAX_REFUSALS: u32 = 20;
/// Time after which refusals are recorded again.
const REFUSAL_WINDOW: Duration = Duration::from_secs(60);

/// A process, identified so that another one with the same id is noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerProcess {
    pid: i32,
    start: u64,
}

/// The fields of `/proc/PID/stat` that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    group: i32,
    /// Process id of the session's leader.
    session: i32,
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
            session: number(3)?,
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

    /// Whether the process still runs.
    pub fn exists(self) -> bool {
        self.stat().is_ok()
    }

    fn stat(self) -> Result<ProcessStat> {
        let stat = ProcessStat::of(self.pid).filter(|stat| stat.start == self.start);
        stat.ok_or_else(|| refused("the client has ended"))
    }

    /// Returns the process and its ancestors up to the first process of the system, as two readings in a row show them: while
    /// one is made, a process may get another parent.
    ///
    /// # Errors
    /// There are too many, one of them ended meanwhile, or they keep changing.
    fn ancestors(self, stat: impl Fn(i32) -> Option<ProcessStat>) -> Result<Vec<PeerProcess>> {
        let mut last = self.walk(&stat)?;
        for _ in 0..MAX_WALKS {
            let again = self.walk(&stat)?;
            if again == last {
                return Ok(last);
            }
            last = again;
        }
        Err(refused("the client's ancestors keep changing"))
    }

    fn walk(self, stat: &impl Fn(i32) -> Option<ProcessStat>) -> Result<Vec<PeerProcess>> {
        let mut walked: Vec<PeerProcess> = Vec::new();
        let mut pid = self.pid;
        while walked.len() < MAX_ANCESTORS {
            let stat = stat(pid).ok_or_else(|| refused("the client or its parent has ended"))?;
            let start = stat.start;
            let is_expected = match walked.last() {
                None => start == self.start,
                // A parent starts before its child; otherwise its id belongs to another process now.
                Some(child) => start <= child.start,
            };
            if !is_expected {
                return Err(refused("the client or its parent has ended"));
            }
            walked.push(PeerProcess { pid, start });
            if stat.parent <= 0 {
                return Ok(walked);
            }
            pid = stat.parent;
        }
        Err(refused("the client has too many ancestors"))
    }

    /// Checks that the process was not started by the daemon, and returns it and its ancestors.
    fn check_origin(self) -> Result<Vec<PeerProcess>> {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let mark = format!("{CHILD_MARK}=");
        let environment = fs::read(format!("/proc/{}/environ", self.pid)).unwrap_or_default();
        let marked = environment
            .split(|byte| *byte == 0)
            .any(|variable| variable.starts_with(mark.as_bytes()));
        let ancestors = self.ancestors(ProcessStat::of)?;
        match marked || has(&ancestors, own) {
            true => Err(refused("aish has started this program for a model")),
            false => Ok(ancestors),
        }
    }
}

/// Whether one of the processes has this id.
fn has(processes: &[PeerProcess], pid: i32) -> bool {
    processes.iter().any(|process| process.pid == pid)
}

/// An approved command as its processes show it.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandProcesses {
    /// The shell in which the command runs.
    pub shell: Option<i32>,
    /// The leader of the session in which it runs.
    pub leader: Option<PeerProcess>,
    /// The client that decided. The processes of the command started later.
    pub decider: Option<PeerProcess>,
}

impl CommandProcesses {
    /// Returns the processes of the command among `all`: those of its session, and those below a new child of its shell.
    fn among(self, all: &HashMap<i32, ProcessStat>) -> Vec<PeerProcess> {
        let Some(decider) = self.decider else {
            return Vec::new();
        };
        let is_new = |stat: &ProcessStat| stat.start >= decider.start;
        let descends = |stat: &ProcessStat| {
            let mut stat = stat;
            for _ in 0..MAX_ANCESTORS {
                if Some(stat.parent) == self.shell {
                    return is_new(stat);
                }
                match all.get(&stat.parent) {
                    Some(parent) => stat = parent,
                    None => return false,
                }
            }
            false
        };
        let in_session = |stat: &ProcessStat| self.leader.is_some_and(|l| l.pid == stat.session);
        let of_command = all
            .iter()
            .filter(|(_, stat)| is_new(stat) && (in_session(stat) || descends(stat)));
        let process = |(pid, stat): (&i32, &ProcessStat)| PeerProcess {
            pid: *pid,
            start: stat.start,
        };
        of_command.map(process).collect()
    }
}

/// Processes that approved commands have left behind: jobs in the background, stopped jobs.
#[derive(Debug, Default)]
pub struct Leftovers(Mutex<HashSet<PeerProcess>>);

impl Leftovers {
    /// Adds what remains of a command that has ended, and forgets processes that have ended.
    pub async fn add(&self, command: CommandProcesses) {
        // On a machine with many processes this takes milliseconds.
        let Ok(all) = tokio::task::spawn_blocking(all_processes).await else {
            return;
        };
        let mut leftovers = lock(&self.0);
        leftovers.retain(|process| {
            all.get(&process.pid)
                .is_some_and(|s| s.start == process.start)
        });
        leftovers.extend(command.among(&all));
    }

    fn contain_any(&self, processes: &[PeerProcess]) -> bool {
        let leftovers = lock(&self.0);
        processes.iter().any(|process| leftovers.contains(process))
    }
}

fn all_processes() -> HashMap<i32, ProcessStat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, ProcessStat::of(pid)?)))
        .collect()
}

/// Limits how many refusals are recorded.
#[derive(Debug, Default)]
pub struct RefusalLimit(Mutex<Option<(Instant, u32)>>);

impl RefusalLimit {
    /// Counts a refusal, and returns its number within its window.
    fn count(&self, now: Instant) -> u32 {
        let mut window = lock(&self.0);
        let (since, count) = window
            .filter(|(since, _)| now.duration_since(*since) < REFUSAL_WINDOW)
            .unwrap_or((now, 0));
        *window = Some((since, count.saturating_add(1)));
        count.saturating_add(1)
    }
}

/// The client of a connection, and the state that is needed to check it.
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

    /// Checks that the client acts for the person: neither the daemon has started it, nor an approved command that still runs.
    /// A refusal is recorded as an attempt at `what`.
    ///
    /// # Errors
    /// It does not, or it has ended.
    pub fn check_origin(&self, what: &str) -> Result<()> {
        if !can_check() {
            return Ok(());
        }
        self.recorded(what, self.origin().map(drop))
    }

    /// Checks that the daemon has not started the client, which an approved command may have done.
    fn check_ancestors(&self, what: &str) -> Result<()> {
        if !can_check() {
            return Ok(());
        }
        let origin = self.process().and_then(PeerProcess::check_origin);
        self.recorded(what, origin.map(drop))
    }

    /// Checks that the client may send this request. A prompt, a decision and a confirmation are checked where they are
    /// served.
    ///
    /// # Errors
    /// The request changes something for the person, and a program of a model sends it.
    pub fn check_request(&self, request: &Request) -> Result<()> {
        match request {
            Request::Ask(_)
            | Request::Preview(_)
            | Request::Attach(_)
            | Request::Status { .. }
            | Request::Sessions { .. }
            | Request::Transcript { .. }
            | Request::Models { .. }
            | Request::ServerModels { .. }
            | Request::CountProposals { .. }
            | Request::Decide { .. }
            | Request::ConfirmConfig { .. }
            | Request::ApprovePack { .. } => Ok(()),
            // The shell of the command sends it while the command runs; the nonce shows that.
            Request::Capture { .. } | Request::ExecDone { .. } => {
                self.check_ancestors("a report about a command")
            }
            Request::Policy {
                request:
                    PolicyRequest::List
                    | PolicyRequest::Explain { .. }
                    | PolicyRequest::ExplainCommand { .. },
                ..
            } => self.check_ancestors("a request about the policy"),
            Request::Mcp {
                request:
                    McpRequest::Connect { .. }
                    | McpRequest::Disconnect { .. }
                    | McpRequest::Reconnect { .. },
                ..
            } => self.check_origin("a change of an MCP server"),
            // Only read.
            Request::Mcp { .. } => self.check_ancestors("a request about MCP servers"),
            Request::TerminalOutput { .. } => {
                self.check_origin("a request for the output of a command")
            }
            Request::NextProposal { .. } => self.check_origin("a request for a proposed command"),
            Request::Policy { .. } => self.check_origin("a change of the policy"),
            Request::Share(ShareRequest::List) | Request::Server(ServerRequest::Status) => Ok(()),
            Request::Server(
                ServerRequest::Pair { .. }
                | ServerRequest::PairingCode { .. }
                | ServerRequest::DecidePairing { .. },
            ) => self.check_person("a pairing of a browser", None).map(drop),
            Request::Share(_) => self.check_origin("a request to share a session"),
            Request::Server(_) => self.check_origin("a request to the HTTP server"),
            Request::Call(_) => self.check_origin("a call of a tool"),
            Request::Changes(_) => self.check_origin("a request about changed files"),
            Request::NewSession { .. }
            | Request::UseModel { .. }
            | Request::ContinueSession { .. }
            | Request::SessionSettings(_)
            | Request::RenameSession { .. }
            | Request::DeleteSession { .. } => self.check_origin("a change of a session"),
            Request::Stop { .. } => self.check_origin("a stop of the daemon"),
        }
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

    /// Whether aish has started the client for a model: the daemon, or an approved command that still runs.
    pub fn is_of_aish(&self) -> bool {
        can_check() && self.origin().is_err()
    }

    /// Returns what identifies the processes of a command on which the client decides for this shell.
    pub fn command_of(&self, shell: &ShellId) -> CommandProcesses {
        let stat = self.process.and_then(|process| process.stat().ok());
        CommandProcesses {
            shell: shell.pid(),
            // The shell of the terminal, as a rule.
            leader: stat.and_then(|stat| PeerProcess::new(Some(stat.session))),
            decider: self.process,
        }
    }

    fn process(&self) -> Result<PeerProcess> {
        self.process.ok_or_else(|| refused("the client has ended"))
    }

    /// Returns the client and its ancestors, and the state of the client, if it acts for the person.
    fn origin(&self) -> Result<(Vec<PeerProcess>, ProcessStat)> {
        let process = self.process()?;
        let ancestors = process.check_origin()?;
        // After the ancestors: a process that has ended meanwhile may have had others.
        let stat = process.stat()?;
        let leader = PeerProcess::new(Some(stat.session));
        let is_running = lock(&self.daemon.running).values().any(|command| {
            let CommandProcesses {
                shell, leader: own, ..
            } = command.processes();
            // The session too: a process whose parent has ended no longer descends from the shell.
            shell.is_some_and(|pid| has(&ancestors, pid)) || leader.is_some() && own == leader
        });
        if !is_running && self.daemon.leftovers.contain_any(&ancestors) {
            return Err(refused("an approved command has started this program")
                .hint("use a terminal that no approved command has started"));
        }
        match is_running {
            true => Err(refused("an approved command runs in its shell")
                .hint("wait for its end; if exec has replaced the shell, use another terminal")),
            false => Ok((ancestors, stat)),
        }
    }

    fn person(&self, shell: Option<&ShellId>) -> Result<Option<String>> {
        let (ancestors, stat) = self.origin()?;
        if stat.terminal == 0 {
            return Err(refused("the client has no terminal"));
        }
        if stat.group != stat.foreground {
            return Err(refused(
                "the client is not in the foreground of its terminal",
            ));
        }
        // Processes that an ended command has left behind in the session of its shell.
        if !has(&ancestors, stat.session) {
            return Err(refused("the program that started the client has ended"));
        }
        // Other ids are made by scripts, which run a command themselves: such an id names no process to compare with.
        if let Some(pid) = shell.and_then(ShellId::pid) {
            let of_shell = has(&ancestors, pid).then(|| ProcessStat::of(pid));
            if of_shell.flatten().map(|s| s.terminal) != Some(stat.terminal) {
                return Err(refused("the client does not belong to that shell"));
            }
        }
        Ok(Some(terminal_name(stat.terminal)))
    }

    /// Returns the result, after a refusal was queued for the audit log.
    ///
    /// # Errors
    /// The error in `result`.
    pub fn recorded<T>(&self, what: &str, result: Result<T>) -> Result<T> {
        let Some(e) = result
            .as_ref()
            .err()
            .filter(|e| e.kind == ErrorKind::Approval)
        else {
            return result;
        };
        let refusals = self.daemon.refusals.count(Instant::now());
        if refusals > MAX_REFUSALS + 1 {
            return result;
        }
        let pid = self.process.map_or(0, |process| process.pid);
        let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        let program = program.display();
        let what = match refusals {
            0..=MAX_REFUSALS => format!("{what} by process {pid} ({program})"),
            _ => format!("more attempts within a minute, the first by process {pid} ({program})"),
        };
        tracing::warn!("{what}: {}", e.message);
        let record = RecordBody::Policy {
            change: PolicyChange::Refused,
            what,
            grant: None,
            why: Some(e.message.clone()),
        };
        // A failure is in the daemon's log, as is the refusal.
        let audit_log = &self.daemon.services.audit_log;
        if let Err(e) = audit_log.record(&self.record_ids, record) {
            tracing::warn!("{}", e.message);
        }
        result
    }
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
mod tests;
