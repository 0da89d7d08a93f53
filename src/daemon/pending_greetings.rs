//! Clients that have connected and sent no request yet: a bounded number.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio_util::sync::CancellationToken;

use crate::session::lock;

/// Maximum number of clients that have sent no request yet.
const MAX_GREETINGS: usize = 64;

/// The clients that have sent no request yet, oldest first. A real client sends hello and request at once, so that in a
/// flood of silent connections the oldest one is closed, and a real client is still served.
#[derive(Debug, Default)]
pub struct PendingGreetings(Mutex<VecDeque<CancellationToken>>);

impl PendingGreetings {
    /// Adds a client, and cancels the oldest one if there are too many. The client cancels its token after its request.
    pub fn admit(&self) -> CancellationToken {
        let mut pending = lock(&self.0);
        pending.retain(|greeting| !greeting.is_cancelled());
        if pending.len() >= MAX_GREETINGS
            && let Some(oldest) = pending.pop_front()
        {
            oldest.cancel();
        }
        let greeting = CancellationToken::new();
        pending.push_back(greeting.clone());
        greeting
    }
}
