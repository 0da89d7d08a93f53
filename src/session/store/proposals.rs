//! Proposed commands that wait for a decision.

use std::collections::VecDeque;
use std::time::Instant;

use super::SessionStore;
use crate::error::{Error, Result};
use crate::history::record::RecordIds;
use crate::protocol::ShellId;
use crate::safety::policy::RuleEffect;
use crate::session::lock;

/// A proposed command that waits for the user's decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCommand {
    /// Unique token of the proposal.
    pub token: String,
    /// The command.
    pub command: String,
    /// Position among the commands of the answer, from 1.
    pub number: usize,
    /// Number of commands of the answer.
    pub of: usize,
    /// Id of the session.
    pub session: String,
    /// Ids of the answer's record.
    pub record_ids: RecordIds,
    /// A failed command of the user whose output is missing.
    pub again: Option<String>,
    /// Decision of the rules about commands when the turn began, and the rule. Later rules only tighten it.
    pub effect: (RuleEffect, String),
}

/// The proposed commands of one shell.
#[derive(Debug)]
pub(super) struct ProposalQueue {
    pub(super) commands: VecDeque<WaitingCommand>,
    /// Session of the answer that the shell has shown last; only its commands are asked about.
    shown: String,
    /// Time of the last offer.
    pub(super) offered: Instant,
}

impl SessionStore {
    /// Offers the commands of an answer to the shell. They replace those of an earlier answer of the same session;
    /// commands of other sessions keep waiting. The shell is asked about them after [`Self::show_waiting`]: a background answer may
    /// arrive while the last command of another answer runs. `again` is a command of the user whose output is missing.
    pub fn offer(
        &self,
        shell: &ShellId,
        session: &str,
        record_ids: &RecordIds,
        commands: Vec<String>,
        again: Option<String>,
        effect: (RuleEffect, String),
    ) {
        let of = commands.len();
        let offered = commands.into_iter().enumerate();
        let offered = offered.map(|(at, command)| WaitingCommand {
            token: uuid::Uuid::now_v7().to_string(),
            command,
            number: at + 1,
            of,
            session: session.to_string(),
            record_ids: record_ids.clone(),
            again: again.clone(),
            effect: effect.clone(),
        });
        let mut waiting = lock(&self.waiting);
        let queue = waiting
            .entry(shell.clone())
            .or_insert_with(|| ProposalQueue {
                commands: VecDeque::new(),
                shown: session.to_string(),
                offered: Instant::now(),
            });
        queue.offered = Instant::now();
        queue.commands.retain(|w| w.session != session);
        queue.commands.extend(offered);
    }

    /// Makes the commands of this session those that the shell is asked about, and returns their number. Under its
    /// answer, a command of another one would be taken for its own.
    pub fn show_waiting(&self, shell: &ShellId, session: &str) -> usize {
        let mut waiting = lock(&self.waiting);
        let Some(queue) = waiting.get_mut(shell) else {
            return 0;
        };
        queue.shown = session.to_string();
        let own = queue.commands.iter().filter(|w| w.session == session);
        own.count()
    }

    /// Returns the first command of the shown answer that waits for a decision in this shell.
    pub fn next_waiting(&self, shell: &ShellId) -> Option<WaitingCommand> {
        let waiting = lock(&self.waiting);
        let queue = waiting.get(shell)?;
        let mut commands = queue.commands.iter();
        commands.find(|w| w.session == queue.shown).cloned()
    }

    /// Whether commands of this session wait for a decision in this shell.
    pub fn has_waiting(&self, shell: &ShellId, session: &str) -> bool {
        let waiting = lock(&self.waiting);
        let queue = waiting.get(shell);
        queue.is_some_and(|queue| queue.commands.iter().any(|w| w.session == session))
    }

    /// Returns the number of commands of the shown answer that wait for a decision in this shell.
    pub fn count_waiting(&self, shell: &ShellId) -> usize {
        let waiting = lock(&self.waiting);
        let shown = |queue: &ProposalQueue| {
            let commands = queue.commands.iter();
            commands.filter(|w| w.session == queue.shown).count()
        };
        waiting.get(shell).map_or(0, shown)
    }

    /// Returns the command with this token.
    ///
    /// # Errors
    /// It does not wait for a decision in this shell.
    pub fn find_waiting(&self, shell: &ShellId, token: &str) -> Result<WaitingCommand> {
        let waiting = lock(&self.waiting);
        let mut commands = waiting.get(shell).into_iter().flat_map(|q| &q.commands);
        let found = commands.find(|w| w.token == token).cloned();
        found.ok_or_else(no_longer_waiting)
    }

    /// Removes and returns the command with this token, wherever it is in the queue. `all` also removes the other
    /// commands of its session.
    ///
    /// # Errors
    /// The command no longer waits: it was decided, or a later answer of its session replaced it.
    pub fn take_waiting(&self, shell: &ShellId, token: &str, all: bool) -> Result<WaitingCommand> {
        let mut waiting = lock(&self.waiting);
        let taken = waiting.get_mut(shell).and_then(|queue| {
            let at = queue.commands.iter().position(|w| w.token == token)?;
            let taken = queue.commands.remove(at)?;
            if all {
                queue.commands.retain(|w| w.session != taken.session);
            }
            Some(taken)
        });
        taken.ok_or_else(no_longer_waiting)
    }

    /// Puts the command that can be run again before the command with this token, as a proposal like any other.
    ///
    /// # Errors
    /// The command no longer waits, or there is none to run again.
    pub fn insert_again(&self, shell: &ShellId, token: &str) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        let queue = waiting.get_mut(shell).ok_or_else(no_longer_waiting)?;
        let at = queue.commands.iter().position(|w| w.token == token);
        let at = at.ok_or_else(no_longer_waiting)?;
        let first = queue.commands.get(at).ok_or_else(no_longer_waiting)?;
        let command = first.again.clone().ok_or_else(no_longer_waiting)?;
        let again = WaitingCommand {
            token: uuid::Uuid::now_v7().to_string(),
            command,
            number: 1,
            of: 1,
            again: None,
            ..first.clone()
        };
        for other in &mut queue.commands {
            other.again = None;
        }
        queue.commands.insert(at, again);
        Ok(())
    }
}

fn no_longer_waiting() -> Error {
    Error::runtime(
        "this proposal is no longer open: it was decided, a later answer replaced it, or the daemon was restarted",
    )
    .hint("ask again; llm :last shows the answer with its commands")
}
