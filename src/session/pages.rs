//! Paired browsers that follow a session: a person at one can answer questions of its turn.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How long a page may be away that is reloaded or has lost its connection.
const GRACE: Duration = Duration::from_secs(5);

/// Number of paired browsers that follow each session.
#[derive(Debug, Clone)]
pub struct PairedPages(Arc<watch::Sender<HashMap<String, usize>>>);

impl Default for PairedPages {
    fn default() -> PairedPages {
        PairedPages(Arc::new(watch::Sender::new(HashMap::new())))
    }
}

/// A paired browser that follows a session, until this is dropped.
#[derive(Debug)]
pub struct FollowingPage {
    pages: PairedPages,
    session: String,
}

impl PairedPages {
    /// Counts a paired browser that follows a session.
    pub fn follow(&self, session: &str) -> FollowingPage {
        self.0
            .send_modify(|counts| *counts.entry(session.to_owned()).or_default() += 1);
        FollowingPage {
            pages: self.clone(),
            session: session.to_owned(),
        }
    }

    /// Whether a paired browser follows a session.
    pub fn are_following(&self, session: &str) -> bool {
        self.0.borrow().contains_key(session)
    }

    /// Waits until no paired browser follows a session.
    pub async fn left(&self, session: &str) {
        let mut counts = self.0.subscribe();
        loop {
            // The sender lives as long as `self`.
            let _ = counts
                .wait_for(|counts| !counts.contains_key(session))
                .await;
            let back = counts.wait_for(|counts| counts.contains_key(session));
            if tokio::time::timeout(GRACE, back).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for FollowingPage {
    fn drop(&mut self) {
        self.pages.0.send_modify(|counts| {
            if let Some(count) = counts.get_mut(&self.session) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&self.session);
                }
            }
        });
    }
}
