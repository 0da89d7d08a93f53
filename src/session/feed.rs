//! The feed of a turn: its events, the watchers that follow them, and its open questions.
//!
//! A watcher is a cursor into the feed, not a queue: a slow, stopped or disconnected client uses no memory of
//! its own and never delays the turn.

mod attendance;
mod live;
mod origin;
mod page_answer;
mod watcher;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::live::{FeedPosition, LiveOutputText, LiveText};
pub use self::origin::{FeedOrigin, HangUpPolicy};
pub use self::page_answer::{AnswerPlace, AnswerRefusal, ClosedQuestion, THE_API, THE_PAGE};
pub use self::watcher::{FeedItem, FeedWatcher};
use super::changes::SessionChanges;
use super::lock;
use crate::error::{Error, ErrorKind, Result};
use crate::protocol::tools::{
    ApprovalRequest, CallFinished, CallStarted, ElicitationPrompt, NewTools, Reaction,
};
use crate::protocol::{AnswerSummary, QuestionOutcome, RequestFailure};

/// Length of [`TurnFeed::tag`], in characters.
const TAG_LENGTH: usize = 8;

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
    /// A line for the user.
    Notice(String),
    /// What the turn waits for before it starts. Once it has started, nobody is shown this any more.
    Waiting(String),
    /// The model proposes a command.
    Proposal(String),
    /// Tools that the user has not seen yet.
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
    /// Output of the command that a tool call runs, as it is printed.
    CallOutput(String),
    /// A tool call has ended, or was not executed.
    CallFinished(CallFinished),
}

/// How a turn ended: the summary of its answer, or the failure.
pub type TurnEnd = std::result::Result<AnswerSummary, RequestFailure>;

/// An answer to a question, and where it was given.
#[derive(Debug, PartialEq)]
pub struct GivenAnswer {
    /// The answer.
    pub reaction: Reaction,
    /// The terminal, as its client names it; [`THE_PAGE`] for an answer of a paired browser.
    pub answered_in: Option<String>,
    /// The same, as it is recorded.
    pub place: AnswerPlace,
}

/// The events of one turn, or of another request that reports progress.
#[derive(Debug)]
pub struct TurnFeed {
    /// Who started it.
    pub origin: FeedOrigin,
    /// Distinguishes this feed from others, including those of an earlier daemon.
    pub tag: String,
    /// Id of the session, once the turn runs in it.
    session: OnceLock<String>,
    /// Id of the prompt, once it is known.
    prompt_id: OnceLock<String>,
    /// Notifies the watchers of all sessions that a question was opened or closed.
    changes: OnceLock<SessionChanges>,
    cancel: CancellationToken,
    /// Set once somebody reads the redacted text of the running answer.
    read_live: AtomicBool,
    /// Wakes the turn then.
    first_read: Notify,
    state: Mutex<FeedState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct FeedState {
    entries: Vec<FeedEntry>,
    /// The whole text and the reasoning, in order of arrival. The turn bounds both.
    text: String,
    /// Change counter and text of the latest progress; the text is empty after its call has ended.
    progress: (u64, String),
    questions: Vec<OpenQuestion>,
    question_time: attendance::QuestionTime,
    watchers: HashMap<u64, WatcherInfo>,
    last_watcher: u64,
    end: Option<TurnEnd>,
    live: live::LiveAnswer,
    /// The output of each call that prints, in the order of their starts.
    outputs: Vec<live::LiveOutput>,
    /// For each record of the session that was written while the turn runs: its number, and how many entries there were.
    marks: Vec<(usize, usize)>,
}

#[derive(Debug)]
enum FeedEntry {
    /// A range of the turn's text.
    Text {
        start: usize,
        end: usize,
        is_reasoning: bool,
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
    /// Watchers that reported that they cannot ask the user.
    declined: HashSet<u64>,
    /// Since when no attached watcher can answer.
    unattended_since: Option<Instant>,
    /// The user was notified since then.
    announced: bool,
    reply: oneshot::Sender<GivenAnswer>,
}

impl FeedState {
    fn is_open(&self, id: &str) -> bool {
        self.questions.iter().any(|q| q.id == id)
    }

    /// Returns whether an attached watcher can answer this question.
    fn is_answerable(&self, id: &str) -> bool {
        let question = self.questions.iter().find(|q| q.id == id);
        question.is_some_and(|question| {
            let mut watchers = self.watchers.iter();
            watchers.any(|(watcher, info)| question.accepts(*watcher, info))
        })
    }

    /// Updates since when each question is unattended. Called after every change of the watchers.
    fn update_attendance(&mut self) {
        let watchers = &self.watchers;
        for question in &mut self.questions {
            let mut all = watchers.iter();
            if all.any(|(watcher, info)| question.accepts(*watcher, info)) {
                question.unattended_since = None;
                question.announced = false;
            } else {
                question.unattended_since.get_or_insert_with(Instant::now);
            }
        }
    }
}

impl OpenQuestion {
    /// Returns whether this watcher may answer.
    fn accepts(&self, watcher: u64, info: &WatcherInfo) -> bool {
        info.can_answer && !self.declined.contains(&watcher)
    }
}

impl TurnFeed {
    /// Creates an empty feed. `cancel` cancels the turn.
    pub fn new(origin: FeedOrigin, cancel: CancellationToken) -> Arc<TurnFeed> {
        Arc::new(TurnFeed {
            origin,
            tag: uuid::Uuid::new_v4().simple().to_string()[..TAG_LENGTH].to_owned(),
            session: OnceLock::new(),
            prompt_id: OnceLock::new(),
            changes: OnceLock::new(),
            cancel,
            read_live: AtomicBool::new(false),
            first_read: Notify::new(),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Returns the token that cancels the turn.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Sets the id of the prompt. Only the first call has an effect.
    pub fn set_prompt_id(&self, id: &str) {
        self.prompt_id.get_or_init(|| id.to_owned());
    }

    /// Returns the id of the prompt, if the turn answers one.
    pub fn prompt_id(&self) -> Option<&str> {
        self.prompt_id.get().map(String::as_str)
    }

    /// Sets the session in which the turn runs. Only the first call has an effect.
    pub fn set_session(&self, id: &str, changes: &SessionChanges) {
        self.session.get_or_init(|| id.to_owned());
        self.changes.get_or_init(|| changes.clone());
    }

    fn announce(&self) {
        if let Some(changes) = self.changes.get() {
            changes.announce();
        }
    }

    /// Returns the id of the session, once the turn runs in it.
    pub fn session(&self) -> Option<&str> {
        self.session.get().map(String::as_str)
    }

    /// Appends text of the answer.
    pub fn push_text(&self, text: &str) {
        self.append(text, false);
    }

    /// Appends text of the model's reasoning.
    pub fn push_reasoning(&self, text: &str) {
        self.append(text, true);
    }

    fn append(&self, text: &str, is_reasoning: bool) {
        let mut state = lock(&self.state);
        let start = state.text.len();
        state.text.push_str(text);
        let end = state.text.len();
        match state.entries.last_mut() {
            Some(FeedEntry::Text {
                end: last,
                is_reasoning: kind,
                ..
            }) if *kind == is_reasoning => *last = end,
            _ => state.entries.push(FeedEntry::Text {
                start,
                end,
                is_reasoning,
            }),
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Appends an event.
    pub fn push(&self, event: TurnEvent) {
        let mut state = lock(&self.state);
        match event {
            TurnEvent::CallProgress(text) => state.progress = (state.progress.0 + 1, text),
            event => {
                let entry = state.entries.len();
                match &event {
                    TurnEvent::CallStarted(call) if call.prints => {
                        state.outputs.push(live::LiveOutput::begin(&call.id, entry));
                    }
                    TurnEvent::CallOutput(text) => {
                        if let Some(output) = state.outputs.last_mut() {
                            output.push(text);
                        }
                    }
                    TurnEvent::CallFinished(call) => {
                        // A watcher that attaches later must not see the progress of a call that has ended.
                        state.progress.1.clear();
                        if let Some(output) = state.outputs.last_mut() {
                            output.end(&call.id, entry);
                        }
                    }
                    _ => {}
                }
                state.entries.push(FeedEntry::Event(Arc::new(event)));
            }
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Appends a line for the user.
    pub fn notice(&self, text: impl Into<String>) {
        self.push(TurnEvent::Notice(text.into()));
    }

    /// Appends a line for the user, unless this turn has shown it.
    pub fn notice_once(&self, text: impl Into<String>) {
        let text = text.into();
        let is_shown = lock(&self.state).entries.iter().any(|entry| match entry {
            FeedEntry::Event(event) => {
                matches!(&**event, TurnEvent::Notice(shown) if *shown == text)
            }
            FeedEntry::Text { .. } => false,
        });
        if !is_shown {
            self.notice(text);
        }
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

    /// Returns the failure of a turn that has failed.
    pub fn failure(&self) -> Option<RequestFailure> {
        let state = lock(&self.state);
        state.end.as_ref()?.as_ref().err().cloned()
    }

    /// Waits for the end of the turn.
    pub async fn finished(&self) -> TurnEnd {
        self.wait_for(|state| state.end.clone()).await
    }

    /// Waits until `find` returns a value.
    async fn wait_for<T>(&self, mut find: impl FnMut(&FeedState) -> Option<T>) -> T {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Before `find`, so that a change in between is not missed.
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
    /// Those of `work`; [`ErrorKind::Interrupted`] when the turn is cancelled.
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
        state.update_attendance();
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

    /// Returns whether a question waits for an answer.
    pub fn has_open_question(&self) -> bool {
        !lock(&self.state).questions.is_empty()
    }

    /// Opens a question. The receiver gets the first valid answer; [`TurnFeed::close_question`] ends it.
    pub fn open_question(
        &self,
        id: &str,
        digest: &str,
        event: TurnEvent,
    ) -> oneshot::Receiver<GivenAnswer> {
        let (reply, answer) = oneshot::channel();
        let mut state = lock(&self.state);
        state.questions.push(OpenQuestion {
            id: id.to_owned(),
            is_approval: matches!(event, TurnEvent::ApprovalRequested(_)),
            digest: digest.to_owned(),
            declined: HashSet::new(),
            unattended_since: None,
            announced: false,
            reply,
        });
        state.update_attendance();
        state.update_question_time();
        drop(state);
        self.push(event);
        self.announce();
        answer
    }

    /// Closes a question and reports its outcome to every watcher.
    pub fn close_question(&self, id: &str, answered_in: Option<String>, outcome: QuestionOutcome) {
        let mut state = lock(&self.state);
        state.questions.retain(|q| q.id != id);
        state.update_question_time();
        drop(state);
        self.push(TurnEvent::QuestionClosed {
            id: id.to_owned(),
            answered_in,
            outcome,
        });
        self.announce();
    }

    /// Returns whether a watcher could answer this question now.
    pub fn is_answerable(&self, id: &str) -> bool {
        lock(&self.state).is_answerable(id)
    }

    /// Takes the answer of a watcher that may answer. The first one with the digest of the question wins; others are
    /// ignored.
    fn answer(&self, watcher: u64, reaction: Reaction, terminal: Option<String>) {
        let (id, digest, to_approval) = match &reaction {
            Reaction::Call { id, digest, .. } => (id, digest, true),
            Reaction::Elicit { id, digest, .. } => (id, digest, false),
        };
        let mut state = lock(&self.state);
        let matches =
            |q: &OpenQuestion| q.id == *id && q.digest == *digest && q.is_approval == to_approval;
        let Some(at) = state.questions.iter().position(matches) else {
            tracing::debug!(id, "discarded an answer: no such open question");
            return;
        };
        if !reaction.is_answer() {
            state.questions[at].declined.insert(watcher);
            state.update_attendance();
            drop(state);
            self.changed.notify_waiters();
            return;
        }
        let info = state.watchers.get(&watcher);
        if !info.is_some_and(|info| state.questions[at].accepts(watcher, info)) {
            tracing::debug!(id, "discarded an answer: this client may not answer");
            return;
        }
        let question = state.questions.remove(at);
        let answered_in = state.watchers.get(&watcher).and_then(|w| w.tty.clone());
        drop(state);
        // The receiver may have stopped waiting.
        let _ = question.reply.send(GivenAnswer {
            reaction,
            answered_in,
            place: AnswerPlace::terminal(terminal),
        });
    }
}

#[cfg(test)]
mod tests;
