//! The feed of a turn: its events, the watchers that follow them, and its open questions.
//!
//! A watcher is a cursor into the feed, not a queue: a slow, stopped or vanished client costs nothing and never
//! holds up the turn. Consecutive text is one buffer, so that a watcher that was away gets it in one piece.

mod watcher;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::watcher::{FeedItem, FeedWatcher};
use super::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::tools::{
    ApprovalRequest, ApprovalVerdict, CallFinished, CallStarted, ElicitationAction,
    ElicitationPrompt, NewTools, Reaction,
};
use crate::protocol::{AnswerSummary, QuestionOutcome, RequestFailure, ShellId};

/// Maximum text kept for watchers. Beyond it the oldest text is dropped; the journal has all of it.
const TEXT_LIMIT: usize = 4 << 20;
/// Maximum length of the prompt's words in messages on other terminals, in characters.
const WORDS: usize = 40;

/// An event of a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    /// The turn has a model and starts.
    Started {
        /// The session's id.
        session: String,
        /// The model's name.
        model: String,
    },
    /// A line for the person.
    Notice(String),
    /// The model proposes a command.
    Proposal(String),
    /// Tools that the person has not seen yet.
    NewTools(NewTools),
    /// A tool call needs an approval.
    ApprovalRequested(Box<ApprovalRequest>),
    /// An MCP server asks for input.
    ElicitationRequested(Box<ElicitationPrompt>),
    /// A question is no longer open.
    QuestionClosed {
        /// The question.
        id: String,
        /// The terminal the answer was given on.
        answered_in: Option<String>,
        /// The answer.
        outcome: QuestionOutcome,
    },
    /// A tool call has started.
    CallStarted(CallStarted),
    /// Progress of a tool call. Only the latest one is kept.
    CallProgress(String),
    /// A tool call has ended, or was not made.
    CallFinished(CallFinished),
}

/// What a hang-up of the client that started a turn means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HangUpPolicy {
    /// The turn is cancelled.
    Cancel,
    /// The turn continues.
    Continue,
}

/// Who started a turn, and how.
#[derive(Debug, Clone)]
pub struct FeedOrigin {
    /// The shell.
    pub shell: Option<ShellId>,
    /// The terminal, `pts/3`.
    pub tty: Option<String>,
    /// The words of the prompt.
    pub prompt: String,
    /// Start time, milliseconds since 1970.
    pub started_ms: u64,
    /// What a hang-up means.
    pub hang_up: HangUpPolicy,
}

impl FeedOrigin {
    /// Returns the first words of the prompt in one line, for messages on other terminals.
    pub fn words(&self) -> String {
        let line = self.prompt.split_whitespace().collect::<Vec<_>>().join(" ");
        let visible = |c: &char| !c.is_control();
        match line.chars().filter(visible).count() > WORDS {
            true => {
                line.chars()
                    .filter(visible)
                    .take(WORDS - 1)
                    .collect::<String>()
                    + "…"
            }
            false => line.chars().filter(visible).collect(),
        }
    }
}

/// How a turn ended: the summary of its answer, or the failure.
pub type TurnEnd = std::result::Result<AnswerSummary, RequestFailure>;

/// An answer to a question, and the terminal it was given on.
#[derive(Debug, PartialEq)]
pub struct GivenAnswer {
    /// The answer.
    pub reaction: Reaction,
    /// The terminal.
    pub answered_in: Option<String>,
}

/// The events of one turn, or of another request that reports progress.
#[derive(Debug)]
pub struct TurnFeed {
    /// Who started it.
    pub origin: FeedOrigin,
    cancel: CancellationToken,
    state: Mutex<FeedState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct FeedState {
    entries: Vec<FeedEntry>,
    /// The text that is kept, and the offset of its first byte in all text of the turn.
    text: String,
    text_start: u64,
    /// The latest progress, and how many there were.
    progress: (u64, String),
    questions: Vec<OpenQuestion>,
    watchers: HashMap<u64, WatcherInfo>,
    last_watcher: u64,
    end: Option<TurnEnd>,
}

#[derive(Debug)]
enum FeedEntry {
    /// A range of the turn's text.
    Text {
        start: u64,
        end: u64,
    },
    Event(Arc<TurnEvent>),
}

#[derive(Debug)]
struct WatcherInfo {
    can_answer: bool,
    tty: Option<String>,
}

#[derive(Debug)]
struct OpenQuestion {
    id: String,
    is_approval: bool,
    digest: String,
    /// Watchers that could not ask anybody.
    declined: HashSet<u64>,
    reply: oneshot::Sender<GivenAnswer>,
}

impl FeedState {
    fn text_end(&self) -> u64 {
        self.text_start + self.text.len() as u64
    }

    fn is_open(&self, id: &str) -> bool {
        self.questions.iter().any(|q| q.id == id)
    }

    /// Returns whether a watcher could still answer this question.
    fn is_answerable(&self, id: &str) -> bool {
        let question = self.questions.iter().find(|q| q.id == id);
        question.is_some_and(|question| {
            self.watchers
                .iter()
                .any(|(watcher, info)| info.can_answer && !question.declined.contains(watcher))
        })
    }
}

impl TurnFeed {
    /// Creates an empty feed. `cancel` cancels the turn.
    pub fn new(origin: FeedOrigin, cancel: CancellationToken) -> Arc<TurnFeed> {
        Arc::new(TurnFeed {
            origin,
            cancel,
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Returns the token that cancels the turn.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Appends text of the answer.
    pub fn push_text(&self, text: &str) {
        let mut state = lock(&self.state);
        let start = state.text_end();
        state.text.push_str(text);
        let end = state.text_end();
        match state.entries.last_mut() {
            Some(FeedEntry::Text { end: last, .. }) => *last = end,
            _ => state.entries.push(FeedEntry::Text { start, end }),
        }
        if state.text.len() > TEXT_LIMIT {
            // More than needed, so that this is rare.
            let mut cut = state.text.len() - TEXT_LIMIT / 4 * 3;
            while !state.text.is_char_boundary(cut) {
                cut += 1;
            }
            state.text.drain(..cut);
            state.text_start += cut as u64;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Appends an event.
    pub fn push(&self, event: TurnEvent) {
        let mut state = lock(&self.state);
        match event {
            TurnEvent::CallProgress(text) => state.progress = (state.progress.0 + 1, text),
            event => state.entries.push(FeedEntry::Event(Arc::new(event))),
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Appends a line for the person.
    pub fn notice(&self, text: impl Into<String>) {
        self.push(TurnEvent::Notice(text.into()));
    }

    /// Ends the feed. Open questions are withdrawn.
    pub fn finish(&self, end: TurnEnd) {
        let open: Vec<String> = lock(&self.state)
            .questions
            .iter()
            .map(|q| q.id.clone())
            .collect();
        for id in open {
            self.close_question(&id, None, QuestionOutcome::Withdrawn);
        }
        lock(&self.state).end = Some(end);
        self.changed.notify_waiters();
    }

    /// Returns whether the turn has ended.
    pub fn is_finished(&self) -> bool {
        lock(&self.state).end.is_some()
    }

    /// Waits for the end of the turn.
    pub async fn finished(&self) -> TurnEnd {
        self.wait_for(|state| state.end.clone()).await
    }

    /// Waits until `find` finds something in the state.
    async fn wait_for<T>(&self, mut find: impl FnMut(&FeedState) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Before the look, so that a change in between is not missed.
            changed.as_mut().enable();
            if let Some(found) = find(&lock(&self.state)) {
                return found;
            }
            changed.await;
        }
    }

    /// Runs `work` until it completes or the turn is cancelled.
    ///
    /// # Errors
    /// Those of `work`; [`Kind::Interrupted`] when the turn is cancelled.
    pub async fn unless_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.cancel.cancelled() => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
        }
    }

    /// Adds a watcher that sees everything from the start.
    pub fn watch(self: &Arc<TurnFeed>, can_answer: bool, tty: Option<String>) -> FeedWatcher {
        let mut state = lock(&self.state);
        state.last_watcher += 1;
        let id = state.last_watcher;
        state.watchers.insert(id, WatcherInfo { can_answer, tty });
        drop(state);
        self.changed.notify_waiters();
        FeedWatcher {
            feed: self.clone(),
            id,
            entry: 0,
            offset: 0,
            progress: 0,
        }
    }

    /// Returns whether a client watches.
    pub fn is_watched(&self) -> bool {
        !lock(&self.state).watchers.is_empty()
    }

    /// Asks a question. The receiver gets the first valid answer; [`TurnFeed::close_question`] ends it.
    pub fn open_question(
        &self,
        id: &str,
        digest: &str,
        event: TurnEvent,
    ) -> oneshot::Receiver<GivenAnswer> {
        let (reply, answer) = oneshot::channel();
        lock(&self.state).questions.push(OpenQuestion {
            id: id.to_owned(),
            is_approval: matches!(event, TurnEvent::ApprovalRequested(_)),
            digest: digest.to_owned(),
            declined: HashSet::new(),
            reply,
        });
        self.push(event);
        answer
    }

    /// Ends a question and tells every watcher how it ended.
    pub fn close_question(&self, id: &str, answered_in: Option<String>, outcome: QuestionOutcome) {
        lock(&self.state).questions.retain(|q| q.id != id);
        self.push(TurnEvent::QuestionClosed {
            id: id.to_owned(),
            answered_in,
            outcome,
        });
    }

    /// Returns whether a watcher could answer this question now.
    pub fn is_answerable(&self, id: &str) -> bool {
        lock(&self.state).is_answerable(id)
    }

    /// Waits until nobody can answer a question: at once where the turn does not outlive its client, else until
    /// `deadline` has passed without a client that could.
    pub async fn unanswerable(&self, id: &str, deadline: Instant) -> QuestionOutcome {
        loop {
            self.wait_for(|state| (!state.is_answerable(id)).then_some(()))
                .await;
            if self.origin.hang_up == HangUpPolicy::Cancel {
                return QuestionOutcome::NoTerminal;
            }
            let attached = self.wait_for(|state| state.is_answerable(id).then_some(()));
            if tokio::time::timeout_at(deadline, attached).await.is_err() {
                return QuestionOutcome::TimedOut;
            }
        }
    }

    /// Takes a watcher's answer. The first one with the digest of what was asked wins; others are ignored.
    fn answer(&self, watcher: u64, reaction: Reaction) {
        let (id, digest, no_terminal, to_approval) = match &reaction {
            Reaction::Call {
                id,
                digest,
                verdict,
                ..
            } => (id, digest, *verdict == ApprovalVerdict::NoTerminal, true),
            Reaction::Elicit {
                id, digest, action, ..
            } => (id, digest, *action == ElicitationAction::NoTerminal, false),
        };
        let mut state = lock(&self.state);
        let matches =
            |q: &OpenQuestion| q.id == *id && q.digest == *digest && q.is_approval == to_approval;
        let Some(at) = state.questions.iter().position(matches) else {
            tracing::debug!(id, "an answer to no open question");
            return;
        };
        if no_terminal {
            state.questions[at].declined.insert(watcher);
            drop(state);
            self.changed.notify_waiters();
            return;
        }
        let question = state.questions.remove(at);
        let answered_in = state.watchers.get(&watcher).and_then(|w| w.tty.clone());
        drop(state);
        // The asker may have stopped waiting.
        let _ = question.reply.send(GivenAnswer {
            reaction,
            answered_in,
        });
    }
}

#[cfg(test)]
mod tests;
