//! The hub of a session: the feed of its running turn, and those of the turns that wait for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::changes::SessionChanges;
use super::feed::{ClosedQuestion, TurnFeed};
use super::lock;
use crate::protocol::RequestFailure;

/// Number of closed questions of earlier turns that are remembered.
const MAX_CLOSED: usize = 32;

/// The feeds of the running turn of a session and of those that wait for it, and the failure of its last turn.
#[derive(Debug, Default)]
pub struct SessionHub {
    /// The session's id.
    session: String,
    changes: SessionChanges,
    current: Mutex<Option<Arc<TurnFeed>>>,
    /// In the order in which they get the turn lock.
    waiting: Mutex<Vec<Arc<TurnFeed>>>,
    last_failure: Mutex<Option<FailedTurn>>,
    /// Number of turns that have ended since the session was opened.
    ended_turns: AtomicU64,
    /// Number of records, and the number within `seq` of the last status that was sent since the newest of them.
    last_status_seq: Mutex<(usize, u64)>,
    /// Questions of turns that have ended.
    closed: Mutex<VecDeque<ClosedQuestion>>,
}

/// A turn that ended with a failure.
#[derive(Debug, Clone)]
pub struct FailedTurn {
    /// The text of the prompt.
    pub prompt: String,
    /// The id of the prompt.
    pub prompt_id: Option<String>,
    /// Start time, milliseconds since 1970.
    pub started_ms: u64,
    /// The failure.
    pub failure: RequestFailure,
}

impl SessionHub {
    /// Creates the hub of a session.
    pub fn new(session: String, changes: SessionChanges) -> SessionHub {
        SessionHub {
            session,
            changes,
            ..SessionHub::default()
        }
    }

    /// Adds the feed of a turn that waits for the session's turn lock, until [`SessionHub::install`] or
    /// [`SessionHub::clear`].
    pub fn wait(&self, feed: Arc<TurnFeed>) {
        lock(&self.waiting).push(feed);
        self.changes.announce();
    }

    /// Returns the ids of the prompts whose turns wait, in order.
    pub fn waiting(&self) -> Vec<String> {
        let waiting = lock(&self.waiting);
        let ids = waiting.iter().filter_map(|feed| feed.prompt_id());
        ids.map(str::to_owned).collect()
    }

    /// Installs the feed of a starting turn. The caller holds the session's turn lock.
    pub fn install(&self, feed: Arc<TurnFeed>) {
        feed.set_session(&self.session, &self.changes);
        lock(&self.waiting).retain(|waiting| !Arc::ptr_eq(waiting, &feed));
        *lock(&self.last_failure) = None;
        *lock(&self.current) = Some(feed);
        self.changes.announce();
    }

    /// Notifies the watchers of all sessions that this one has changed.
    pub fn announce(&self) {
        self.changes.announce();
    }

    /// Returns the feed of the running turn.
    pub fn running(&self) -> Option<Arc<TurnFeed>> {
        let current = lock(&self.current).clone();
        current.filter(|feed| !feed.is_finished())
    }

    /// Returns the feed of the turn of this prompt, which runs or waits.
    pub fn turn_of(&self, prompt: &str) -> Option<Arc<TurnFeed>> {
        let waiting = lock(&self.waiting).clone();
        let mut turns = self.running().into_iter().chain(waiting);
        turns.find(|feed| feed.prompt_id() == Some(prompt))
    }

    /// Drops the feeds of finished turns: the journal has the answer. The failure of a turn that had begun is kept, since a turn
    /// that fails before its prompt is recorded is not in the journal.
    pub fn clear(&self) {
        lock(&self.waiting).retain(|feed| !feed.is_finished());
        let mut current = lock(&self.current);
        let Some(feed) = current.take_if(|feed| feed.is_finished()) else {
            drop(current);
            self.changes.announce();
            return;
        };
        let mut closed = lock(&self.closed);
        closed.extend(feed.closed_questions());
        let too_many = closed.len().saturating_sub(MAX_CLOSED);
        closed.drain(..too_many);
        drop((current, closed));
        *lock(&self.last_failure) = feed.failure().map(|failure| FailedTurn {
            prompt: feed.origin.prompt.clone(),
            prompt_id: feed.prompt_id().map(str::to_owned),
            started_ms: feed.origin.started_ms,
            failure,
        });
        self.ended_turns.fetch_add(1, Ordering::Relaxed);
        self.changes.announce();
    }

    /// Returns the number of a state that is sent now: at least `number`, and greater than that of every state that was sent to any
    /// client since the same record.
    pub fn next_state(&self, records: usize, number: u64) -> u64 {
        let mut told = lock(&self.last_status_seq);
        let after = if told.0 == records { told.1 + 1 } else { 0 };
        *told = (records, number.max(after));
        told.1
    }

    /// Returns the number of turns that have ended since the session was opened.
    pub fn ended_turns(&self) -> u64 {
        self.ended_turns.load(Ordering::Relaxed)
    }

    /// Returns how a question of the last turns was closed.
    pub fn closed_question(&self, id: &str) -> Option<ClosedQuestion> {
        let current = lock(&self.current);
        let of_current = current.as_ref().map(|feed| feed.closed_questions());
        let closed = lock(&self.closed);
        let mut all = closed.iter().chain(of_current.iter().flatten());
        all.find(|question| question.id == id).cloned()
    }

    /// Returns the failure of the last turn, if it failed.
    pub fn last_failure(&self) -> Option<FailedTurn> {
        lock(&self.last_failure).clone()
    }
}
