//! The shells that run the plugin, and their last commands, as reported by the hooks.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use super::is_alive;
use crate::context::align::{OpenLine, UnrecordedLine};
use crate::history::journal::{JournalLog, new_record};
use crate::history::record::{CommandOutput, Record, RecordBody, RecordIds, is_aish};
use crate::protocol::{DecidingKey, ShellId};
use crate::safety::redact::global_redactor;

/// Number of commands kept for each shell.
const KEPT: usize = 64;
/// Number of approved commands of each shell whose output is kept.
const KEPT_OUTPUTS: usize = 8;
/// Number of unrecorded lines kept after each of them.
const KEPT_UNRECORDED: usize = 256;

/// An event of a hook.
#[derive(Debug, Clone, PartialEq)]
pub enum ShellEvent {
    /// A shell has loaded the plugin.
    Hello {
        /// The process id of the shell.
        pid: i32,
        /// The terminal.
        tty: String,
        /// `ZSH_VERSION`.
        zsh: String,
        /// The variables that identify its terminal.
        terminal: BTreeMap<String, String>,
    },
    /// Variables of the shell's environment whose values must not be recorded, as name and value.
    SecretVariables(Vec<(String, String)>),
    /// A command has ended.
    Command {
        /// The process id of the shell.
        pid: i32,
        /// The terminal.
        tty: String,
        /// Start, milliseconds since 1970.
        start_ms: u64,
        /// Duration in milliseconds.
        duration_ms: u64,
        /// The exit code.
        exit: i32,
        /// The directory it was started in.
        cwd: String,
        /// The configured environment variables, as `NAME=value`.
        env: Vec<String>,
        /// The command line.
        command: String,
        /// Columns and rows of the terminal at its end.
        size: Option<(u16, u16)>,
        /// How zsh treats an output without a line end.
        open_line: OpenLine,
    },
    /// A line was entered that is not a recorded command: an empty one, an abandoned one, or one that is kept out of the history.
    UnrecordedLine(UnrecordedLine),
    /// An action that a client of the HTTP API has asked for was performed or refused.
    ActionEnded {
        /// The number of the action.
        number: u64,
        /// A word for the outcome.
        outcome: String,
    },
    /// A shell is ending.
    Bye,
}

/// One shell.
#[derive(Debug, Default)]
struct ShellState {
    pid: Option<i32>,
    /// The terminal device.
    tty: String,
    /// The variables that identify the terminal; `None` if the shell has not greeted this daemon.
    terminal: Option<BTreeMap<String, String>>,
    /// The number of its last greeting among those of all shells.
    greeting: u64,
    commands: VecDeque<KeptCommand>,
    /// Another shell has greeted from the same terminal since the last line; lines that are entered there are not counted here.
    hosts_shell: bool,
    /// The user was notified that the text of the terminal cannot be read.
    told_unreadable: bool,
    /// When a prompt last was about the last command, so that whether its output is sent was decided: milliseconds since 1970.
    decided_ms: u64,
    /// The key that decided the last proposal, and when.
    deciding_key: Option<(u8, Instant)>,
}

impl ShellState {
    fn push(&mut self, command: KeptCommand) {
        if self.commands.len() == KEPT {
            self.commands.pop_front();
        }
        self.commands.push_back(command);
    }

    fn last_typed(&mut self) -> Option<&mut KeptCommand> {
        let mut newest = self.commands.iter_mut().rev();
        newest.find(|kept| kept.approved.is_none())
    }
}

/// A command of a shell.
#[derive(Debug, Clone)]
pub struct KeptCommand {
    /// Its record, a [`RecordBody::ShellCommand`].
    pub body: RecordBody,
    /// The lines that were entered after it, up to the next command, and are not recorded; `None` if events may have been lost.
    pub unrecorded_after: Option<Vec<UnrecordedLine>>,
    /// How zsh treated an output without a line end.
    pub open_line: OpenLine,
    /// Another shell with the plugin ran in it, whose lines cannot be told from its own.
    pub hosts_shell: bool,
    /// An approved command, whose output was captured as it ran. It is no line on the screen.
    pub approved: Option<ApprovedOutput>,
}

/// The output of an approved command.
#[derive(Debug, Clone)]
pub struct ApprovedOutput {
    /// The session whose model proposed the command.
    pub session: String,
    /// The output; `None` if it was not captured.
    pub output: Option<CommandOutput>,
}

/// An approved command that has ended.
#[derive(Debug)]
pub struct ApprovedCommand {
    /// The command line.
    pub command: String,
    /// The directory it was approved in.
    pub cwd: String,
    /// Time of the approval, milliseconds since 1970.
    pub start_ms: u64,
    /// Duration in milliseconds.
    pub duration_ms: u64,
    /// The exit code.
    pub exit: i32,
    /// The output, and who proposed the command.
    pub output: ApprovedOutput,
}

/// Known facts about the screen of a shell.
#[derive(Debug, Clone)]
pub struct ShellOnScreen {
    /// The last commands, oldest first.
    pub commands: Vec<KeptCommand>,
    /// The terminal device.
    pub tty: String,
    /// The variables that identify the terminal; `None` if the shell has not greeted this daemon.
    pub terminal: Option<BTreeMap<String, String>>,
}

/// All shells that have reported events.
#[derive(Debug)]
pub struct ShellRegistry {
    shells: HashMap<ShellId, ShellState>,
    /// Shells that ended since [`ShellRegistry::ended`] was last called.
    ended: HashSet<ShellId>,
    /// Number of greetings.
    greetings: u64,
    log: Option<Arc<JournalLog>>,
    /// The login name of the user.
    user: Option<String>,
}

impl ShellRegistry {
    /// Creates a registry with the commands of the journal. `user` is the login name.
    pub fn new(
        log: Option<JournalLog>,
        records: Vec<Record>,
        user: Option<String>,
    ) -> ShellRegistry {
        let mut shells = ShellRegistry {
            shells: HashMap::new(),
            ended: HashSet::new(),
            greetings: 0,
            log: log.map(Arc::new),
            user,
        };
        for record in records {
            if let RecordBody::ShellCommand { shell, tty, .. } = &record.body
                && let Ok(shell) = ShellId::parse(shell.as_str())
            {
                let state = shells.shells.entry(shell.clone()).or_default();
                state.tty.clone_from(tty);
                // Nobody counted the lines after it.
                shells.keep(&shell, record.body, None, OpenLine::default());
            }
        }
        shells
    }

    fn keep(
        &mut self,
        shell: &ShellId,
        body: RecordBody,
        unrecorded_after: Option<Vec<UnrecordedLine>>,
        open_line: OpenLine,
    ) {
        let state = self.shells.entry(shell.clone()).or_default();
        let hosts_shell = std::mem::take(&mut state.hosts_shell);
        state.push(KeptCommand {
            body,
            unrecorded_after,
            open_line,
            hosts_shell,
            approved: None,
        });
    }

    /// Keeps an approved command as the newest one of its shell. Its session records it.
    pub fn keep_approved(&mut self, shell: &ShellId, approved: ApprovedCommand) {
        let state = self.shells.entry(shell.clone()).or_default();
        // It ran in the environment that the last typed command left.
        let env = match state.last_typed().map(|kept| &kept.body) {
            Some(RecordBody::ShellCommand { env, .. }) => env.clone(),
            _ => Vec::new(),
        };
        let body = RecordBody::ShellCommand {
            shell: shell.to_string(),
            command: global_redactor().redact(&approved.command).into_owned(),
            cwd: approved.cwd,
            tty: state.tty.clone(),
            start_ms: approved.start_ms,
            duration_ms: approved.duration_ms,
            exit: approved.exit,
            session: Some(approved.output.session.clone()),
            env,
            size: None,
        };
        let newest = state.commands.iter_mut().rev();
        let outputs = newest.filter_map(|kept| kept.approved.as_mut());
        for older in outputs.skip(KEPT_OUTPUTS - 1) {
            older.output = None;
        }
        state.push(KeptCommand {
            body,
            unrecorded_after: None,
            open_line: OpenLine::default(),
            hosts_shell: false,
            approved: Some(approved.output),
        });
    }

    /// Returns whether the notice that the text of a shell's terminal cannot be read was not shown yet, and counts it as shown.
    pub fn tell_unreadable(&mut self, shell: &ShellId) -> bool {
        let state = self.shells.entry(shell.clone()).or_default();
        !std::mem::replace(&mut state.told_unreadable, true)
    }

    /// Remembers the key that decided a proposal.
    pub fn set_deciding_key(&mut self, shell: &ShellId, key: Option<u8>) {
        let key = key.map(|key| (key, Instant::now()));
        self.shells.entry(shell.clone()).or_default().deciding_key = key;
    }

    /// Returns the key that decided the last proposal of the shell.
    pub fn deciding_key(&self, shell: &ShellId) -> Option<DecidingKey> {
        let (key, since) = self.shells.get(shell)?.deciding_key?;
        let age_ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(DecidingKey { key, age_ms })
    }

    /// Returns the journal file of the commands, if it could be opened.
    pub fn log(&self) -> Option<Arc<JournalLog>> {
        self.log.clone()
    }

    /// Applies an event.
    pub fn take(&mut self, shell: &ShellId, event: ShellEvent, session: Option<String>) {
        match event {
            ShellEvent::Bye => {
                self.shells.remove(shell);
                self.ended.insert(shell.clone());
            }
            // `DrivenShells::ended` takes it.
            ShellEvent::ActionEnded { .. } => {}
            ShellEvent::SecretVariables(variables) => {
                for (name, value) in &variables {
                    global_redactor().add_shell_variable(name, value);
                }
            }
            ShellEvent::Hello {
                pid, tty, terminal, ..
            } => {
                // `exec zsh` runs no exit hook.
                let is_replaced = |id: &ShellId, other: &mut ShellState| {
                    id != shell && other.pid == Some(pid) && other.tty == tty
                };
                let replaced = self.shells.extract_if(|id, other| is_replaced(id, other));
                self.ended.extend(replaced.map(|(id, _)| id));
                self.greetings += 1;
                let others = self.shells.iter_mut();
                for (_, other) in others.filter(|(id, other)| *id != shell && other.tty == tty) {
                    other.hosts_shell = true;
                }
                let state = self.shells.entry(shell.clone()).or_default();
                state.pid = Some(pid);
                state.tty = tty;
                state.terminal = Some(terminal);
                state.greeting = self.greetings;
                // A shell greets again when an event could not be sent.
                if let Some(last) = state.last_typed() {
                    last.unrecorded_after = None;
                }
            }
            ShellEvent::UnrecordedLine(line) => {
                let state = self.shells.get_mut(shell);
                let last = state.and_then(|state| {
                    state.hosts_shell = false;
                    state.last_typed()
                });
                if let Some(lines) = last.and_then(|last| last.unrecorded_after.as_mut())
                    && lines.len() < KEPT_UNRECORDED
                {
                    lines.push(line);
                }
            }
            ShellEvent::Command {
                pid,
                tty,
                start_ms,
                duration_ms,
                exit,
                cwd,
                env,
                command,
                size,
                open_line,
            } => {
                let state = self.shells.entry(shell.clone()).or_default();
                state.pid = Some(pid);
                state.tty.clone_from(&tty);
                let record_ids = RecordIds {
                    user: self.user.clone(),
                    session: session.clone(),
                    shell: Some(shell.to_string()),
                    command: Some(format!("{shell}@{start_ms}")),
                    ..RecordIds::default()
                };
                global_redactor().add_found(&command);
                let body = RecordBody::ShellCommand {
                    shell: shell.to_string(),
                    command,
                    cwd,
                    tty,
                    start_ms,
                    duration_ms,
                    exit,
                    session,
                    env,
                    size,
                };
                let record = new_record(record_ids, body);
                let log = self.log.as_ref();
                if let Some(Err(e)) = log.map(|log| log.write(std::slice::from_ref(&record))) {
                    tracing::warn!("{}", e.message);
                }
                self.keep(shell, record.body, Some(Vec::new()), open_line);
            }
        }
    }

    /// Returns the last commands of a shell that ended after `told_ms` (milliseconds since 1970), at most `limit`, without
    /// calls of aish itself and without approved commands of this session, which has their results.
    pub fn since(
        &self,
        shell: &ShellId,
        session: &str,
        told_ms: u64,
        limit: usize,
    ) -> Vec<RecordBody> {
        let Some(shell) = self.shells.get(shell) else {
            return Vec::new();
        };
        let is_told =
            |kept: &&KeptCommand| kept.approved.as_ref().is_some_and(|a| a.session == session);
        let kept = shell.commands.iter().filter(|kept| !is_told(kept));
        let fresh = kept.map(|kept| &kept.body).filter(|body| match body {
            RecordBody::ShellCommand {
                start_ms,
                duration_ms,
                command,
                ..
            } => start_ms.saturating_add(*duration_ms) > told_ms && !is_aish(command),
            _ => false,
        });
        let all: Vec<_> = fresh.cloned().collect();
        all[all.len().saturating_sub(limit)..].to_vec()
    }

    /// Remembers that a prompt was about the last command, or about none.
    pub fn decide_output(&mut self, shell: &ShellId, now_ms: u64) {
        if let Some(state) = self.shells.get_mut(shell) {
            state.decided_ms = now_ms;
        }
    }

    /// Returns the last command of a shell that is not a call of aish itself, unless a prompt was about it.
    pub fn undecided(&self, shell: &ShellId, session: &str) -> Option<RecordBody> {
        let decided_ms = self.shells.get(shell)?.decided_ms;
        self.since(shell, session, decided_ms, 1).pop()
    }

    /// Returns the last commands of a shell, oldest first, its terminal device, and the variables that identify its terminal.
    pub fn on_screen(&self, shell: &ShellId) -> Option<ShellOnScreen> {
        let state = self.shells.get(shell)?;
        let mut commands: Vec<KeptCommand> = state.commands.iter().cloned().collect();
        let mut newest = commands.iter_mut().rev();
        let last = newest.find(|kept| kept.approved.is_none());
        if let Some(last) = last.filter(|_| state.hosts_shell) {
            last.unrecorded_after = None;
        }
        Some(ShellOnScreen {
            commands,
            tty: state.tty.clone(),
            terminal: state.terminal.clone(),
        })
    }

    /// Returns whether a shell has greeted this daemon.
    pub fn has_greeted(&self, shell: &ShellId) -> bool {
        let state = self.shells.get(shell);
        state.is_some_and(|state| state.terminal.is_some())
    }

    /// Returns the shell of each terminal that has greeted this daemon last, of those whose process exists.
    pub fn last_greeted(&self) -> Vec<ShellId> {
        let mut last: HashMap<&str, (u64, &ShellId)> = HashMap::new();
        for (shell, state) in &self.shells {
            if state.terminal.is_some() && state.pid.is_some_and(is_alive) {
                let found = last.entry(&state.tty).or_insert((state.greeting, shell));
                if state.greeting > found.0 {
                    *found = (state.greeting, shell);
                }
            }
        }
        last.into_values().map(|(_, shell)| shell.clone()).collect()
    }

    /// Returns the shell of a terminal device that ran a command last.
    pub fn of_tty(&self, tty: &str) -> Option<ShellId> {
        self.last_used(|_, state| state.tty == tty)
    }

    /// Returns the shells whose process exists, that which ran a command last first.
    pub fn latest_first(&self) -> Vec<ShellId> {
        let shells = self.shells.iter();
        let mut alive: Vec<_> = shells
            .filter(|(_, state)| state.pid.is_some_and(is_alive))
            .map(|(shell, state)| (last_start(state), shell))
            .collect();
        alive.sort_by_key(|(start_ms, _)| std::cmp::Reverse(*start_ms));
        alive.into_iter().map(|(_, shell)| shell.clone()).collect()
    }

    fn last_used(&self, is_wanted: impl Fn(&ShellId, &ShellState) -> bool) -> Option<ShellId> {
        let shells = self.shells.iter();
        let wanted = shells.filter(|(shell, state)| state.pid.is_some() && is_wanted(shell, state));
        let last = wanted.max_by_key(|(_, state)| last_start(state));
        last.map(|(shell, _)| shell.clone())
    }

    /// Returns the number of shells whose process exists.
    pub fn alive(&mut self) -> usize {
        let gone = |shell: &ShellState| shell.pid.is_some_and(|pid| !is_alive(pid));
        let gone = self.shells.extract_if(|_, shell| gone(shell));
        self.ended.extend(gone.map(|(id, _)| id));
        self.shells.values().filter(|s| s.pid.is_some()).count()
    }

    /// Returns the shells that have ended since the last call.
    pub fn ended(&mut self) -> HashSet<ShellId> {
        self.alive();
        std::mem::take(&mut self.ended)
    }
}

/// Returns when the last command of a shell began, in milliseconds since 1970; 0 without one.
fn last_start(state: &ShellState) -> u64 {
    match state.commands.back().map(|kept| &kept.body) {
        Some(RecordBody::ShellCommand { start_ms, .. }) => *start_ms,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(shell: &str) -> ShellId {
        ShellId::parse(shell).unwrap()
    }

    fn hello(pid: i32) -> ShellEvent {
        ShellEvent::Hello {
            pid,
            tty: "/dev/pts/1".into(),
            zsh: String::new(),
            terminal: BTreeMap::new(),
        }
    }

    #[test]
    fn the_last_shell_of_a_terminal_counts_and_one_that_was_replaced_has_ended() {
        let mut shells = ShellRegistry::new(None, Vec::new(), None);
        let ours = i32::try_from(std::process::id()).unwrap();
        let mut child = std::process::Command::new("cat");
        let child = child.stdin(std::process::Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let inner = i32::try_from(child.id()).unwrap();
        for (shell, pid) in [("outer", ours), ("inner", inner)] {
            shells.take(&id(shell), hello(pid), None);
            assert_eq!(shells.last_greeted(), [id(shell)]);
        }
        assert_eq!(shells.ended(), HashSet::new());
        shells.take(&id("replacing"), hello(inner), None);
        assert_eq!(shells.last_greeted(), [id("replacing")]);
        assert_eq!(shells.ended(), HashSet::from([id("inner")]));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(shells.last_greeted(), [id("outer")]);
    }

    #[test]
    fn what_is_entered_in_another_shell_of_the_terminal_is_not_counted() {
        let mut shells = ShellRegistry::new(None, Vec::new(), None);
        let command = |text: &str| ShellEvent::Command {
            pid: 1,
            tty: "/dev/pts/1".into(),
            start_ms: 1,
            duration_ms: 1,
            exit: 0,
            cwd: "/".into(),
            env: Vec::new(),
            command: text.into(),
            size: None,
            open_line: OpenLine::default(),
        };
        let told = |shells: &ShellRegistry| -> Vec<_> {
            let commands = shells.on_screen(&id("outer")).unwrap().commands;
            let told = commands
                .iter()
                .map(|kept| (kept.unrecorded_after.is_some(), kept.hosts_shell));
            told.collect()
        };
        for event in [hello(1), command("ls")] {
            shells.take(&id("outer"), event, None);
        }
        assert_eq!(told(&shells), [(true, false)]);
        shells.take(&id("inner"), hello(2), None);
        assert_eq!(told(&shells), [(false, false)]);
        shells.take(&id("outer"), command("zsh"), None);
        assert_eq!(told(&shells), [(true, false), (true, true)]);
    }

    #[test]
    fn a_shell_that_has_ended_is_reported_once() {
        let mut shells = ShellRegistry::new(None, Vec::new(), None);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let dead = i32::try_from(child.id()).unwrap();
        child.wait().unwrap();
        let ours = i32::try_from(std::process::id()).unwrap();
        for (shell, pid) in [("dead", dead), ("polite", ours), ("here", ours)] {
            let (tty, zsh) = (String::new(), String::new());
            let terminal = BTreeMap::new();
            let hello = ShellEvent::Hello {
                pid,
                tty,
                zsh,
                terminal,
            };
            shells.take(&id(shell), hello, None);
        }
        shells.take(&id("polite"), ShellEvent::Bye, None);
        // Counting the shells does not consume the ended ones.
        assert_eq!(shells.alive(), 1);
        let ended = HashSet::from([id("dead"), id("polite")]);
        assert_eq!(shells.ended(), ended);
        assert!(shells.ended().is_empty());
    }
}
