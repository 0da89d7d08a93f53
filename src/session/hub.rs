//! The hub of a session: where clients find the turn that runs.

use std::sync::{Arc, Mutex};

use super::feed::TurnFeed;
use super::lock;

/// The feed of the turn that runs in a session, or of its last turn.
#[derive(Debug, Default)]
pub struct SessionHub {
    current: Mutex<Option<Arc<TurnFeed>>>,
}

impl SessionHub {
    /// Installs the feed of a turn that starts. The caller holds the session's turn lock.
    pub fn install(&self, feed: Arc<TurnFeed>) {
        *lock(&self.current) = Some(feed);
    }

    /// Returns the feed of the running turn.
    pub fn running(&self) -> Option<Arc<TurnFeed>> {
        let current = lock(&self.current).clone();
        current.filter(|feed| !feed.is_finished())
    }

    /// Drops the feed of a finished turn: the journal has the answer.
    pub fn clear(&self) {
        lock(&self.current).take_if(|feed| feed.is_finished());
    }
}
