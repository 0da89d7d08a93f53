//! Waiting for questions that no attached client can answer, and the time that questions are open.

use std::time::Duration;

use tokio::time::Instant;

use super::{FeedState, HangUpPolicy, TurnFeed};
use crate::protocol::QuestionOutcome;
use crate::session::lock;
use crate::session::pages::PairedPages;

/// The notice for a foreground client without a terminal while a question waits for a paired browser.
const WAITS_FOR_PAGE: &str = "the question waits for an answer in the paired browser";

/// How long questions have been open.
#[derive(Debug, Default)]
pub(super) struct QuestionTime {
    /// Time until the last question was closed.
    closed: Duration,
    /// Since when at least one is open.
    since: Option<Instant>,
}

impl FeedState {
    /// Counts the time after a question was opened or closed.
    pub(super) fn update_question_time(&mut self) {
        let time = &mut self.question_time;
        match (self.questions.is_empty(), time.since) {
            (false, None) => time.since = Some(Instant::now()),
            (true, Some(since)) => {
                time.closed += since.elapsed();
                time.since = None;
            }
            _ => {}
        }
    }
}

impl TurnFeed {
    /// Returns how many milliseconds of `elapsed`, the time since the turn began, the model and the tools have used: the time in which a
    /// question was open is the person's.
    pub fn working_ms(&self, elapsed: Duration) -> u64 {
        let time = &lock(&self.state).question_time;
        let asked = time.closed + time.since.map_or(Duration::ZERO, |since| since.elapsed());
        u64::try_from(elapsed.saturating_sub(asked).as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits until a turn that outlives its client has an open question that no watcher can answer.
    pub async fn unattended_question(&self) {
        if self.origin.hang_up == HangUpPolicy::Cancel {
            // Its questions are denied immediately instead.
            return std::future::pending().await;
        }
        let unattended = |state: &FeedState| {
            let mut open = state.questions.iter();
            open.any(|q| !state.is_answerable(&q.id)).then_some(())
        };
        self.wait_for(unattended).await;
    }

    /// Waits until a question can no longer be answered. In a foreground turn: when neither an attached client nor a paired browser
    /// can answer, or only a browser could for `patience`. In a background turn: when no client could for `patience`; calls
    /// `announce` each time its question becomes unattended. Cancel-safe: a new call continues the same wait.
    pub async fn unanswerable(
        &self,
        id: &str,
        patience: Duration,
        announce: impl Fn(),
    ) -> QuestionOutcome {
        loop {
            let unattended = |state: &FeedState| {
                let question = state.questions.iter().find(|q| q.id == id);
                question.map_or(Some(Instant::now()), |q| q.unattended_since)
            };
            let since = self.wait_for(unattended).await;
            let pages = self.pages_for(id);
            let is_foreground = self.origin.hang_up == HangUpPolicy::Cancel;
            if is_foreground && pages.is_none() {
                return QuestionOutcome::NoTerminal;
            }
            if self.mark_announced(id) {
                match is_foreground {
                    true => self.notice(WAITS_FOR_PAGE),
                    false => announce(),
                }
            }
            // Compares times, because a client may attach and leave before this task runs again.
            let attached = self.wait_for(|state| {
                let question = state.questions.iter().find(|q| q.id == id)?;
                (question.unattended_since != Some(since)).then_some(())
            });
            let pages_left = async {
                match pages.filter(|_| is_foreground) {
                    Some((pages, session)) => pages.left(session).await,
                    None => std::future::pending().await,
                }
            };
            let left = patience.saturating_sub(since.elapsed());
            tokio::select! {
                biased;
                () = attached => {}
                () = pages_left => return QuestionOutcome::NoTerminal,
                () = tokio::time::sleep(left) => return QuestionOutcome::TimedOut,
            }
        }
    }

    /// Returns the paired browsers that can answer a question, if there are any, and the session that they follow. They
    /// answer approvals only.
    fn pages_for(&self, id: &str) -> Option<(&PairedPages, &str)> {
        let (session, pages) = (self.session()?, &self.changes.get()?.pages);
        let state = lock(&self.state);
        let is_approval = state.questions.iter().any(|q| q.id == id && q.is_approval);
        (is_approval && pages.are_following(session)).then_some((pages, session))
    }

    /// Marks an unattended question as announced. Returns false if it already was, or is attended again.
    fn mark_announced(&self, id: &str) -> bool {
        let mut state = lock(&self.state);
        let question = state.questions.iter_mut().find(|q| q.id == id);
        question.is_some_and(|q| {
            q.unattended_since.is_some() && !std::mem::replace(&mut q.announced, true)
        })
    }
}
