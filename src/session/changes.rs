//! Tells watchers that something in a session has changed: a record, a turn, or a question.

use std::sync::Arc;

use tokio::sync::watch;

use super::pages::PairedPages;

/// The signal that all sessions share. Watchers find out themselves what has changed.
#[derive(Debug, Clone)]
pub struct SessionChanges {
    signal: Arc<watch::Sender<u64>>,
    /// The paired browsers among the watchers.
    pub pages: PairedPages,
}

impl Default for SessionChanges {
    fn default() -> SessionChanges {
        SessionChanges {
            signal: Arc::new(watch::Sender::new(0)),
            pages: PairedPages::default(),
        }
    }
}

impl SessionChanges {
    /// Wakes the watchers.
    pub fn announce(&self) {
        self.signal
            .send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Whether anybody watches.
    pub fn has_watchers(&self) -> bool {
        self.signal.receiver_count() > 0
    }

    /// Returns a receiver that sees every change from now on.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.signal.subscribe()
    }
}
