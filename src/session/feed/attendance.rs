//! Waiting for questions that no attached client can answer.

use std::time::Duration;

use tokio::time::Instant;

use super::{FeedState, HangUpPolicy, TurnFeed};
use crate::protocol::QuestionOutcome;
use crate::session::lock;

impl TurnFeed {
    /// Waits until a turn that outlives its client has an open question that no watcher can answer.
    pub async fn unattended_question(&self) {
        if self.origin.hang_up == HangUpPolicy::Cancel {
            // Its questions are denied at once instead.
            return std::future::pending().await;
        }
        let unattended = |state: &FeedState| {
            let mut open = state.questions.iter();
            open.any(|q| !state.is_answerable(&q.id)).then_some(())
        };
        self.wait_for(unattended).await;
    }

    /// Waits until a question can no longer be answered. In a foreground turn that is when no attached client can answer;
    /// in a background turn, when none could for `patience`. `announce` is called each time a question of a background
    /// turn becomes unattended. Cancel-safe: a new call continues the same wait.
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
            if self.origin.hang_up == HangUpPolicy::Cancel {
                return QuestionOutcome::NoTerminal;
            }
            if self.mark_announced(id) {
                announce();
            }
            // Compares times, because a client may attach and leave before this task runs again.
            let attached = self.wait_for(|state| {
                let question = state.questions.iter().find(|q| q.id == id)?;
                (question.unattended_since != Some(since)).then_some(())
            });
            let left = patience.saturating_sub(since.elapsed());
            if tokio::time::timeout(left, attached).await.is_err() {
                return QuestionOutcome::TimedOut;
            }
        }
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
