//! Runs writes to disk in order, away from the runtime thread.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;

use crate::session::lock;

type WriteJob = Box<dyn FnOnce() + Send>;

/// A queue of writes. They run one at a time on the blocking pool; without a runtime, on the caller's thread.
#[derive(Clone, Default)]
pub struct OrderedWrites {
    shared: Arc<WriteQueue>,
}

#[derive(Default)]
struct WriteQueue {
    pending: Mutex<VecDeque<WriteJob>>,
    /// Held while a job runs.
    running: Mutex<()>,
}

impl fmt::Debug for OrderedWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = lock(&self.shared.pending).len();
        f.debug_struct("OrderedWrites")
            .field("pending", &pending)
            .finish()
    }
}

impl OrderedWrites {
    /// Queues a write.
    pub fn push(&self, job: impl FnOnce() + Send + 'static) {
        lock(&self.shared.pending).push_back(Box::new(job));
        match Handle::try_current() {
            Ok(runtime) => {
                let writes = self.clone();
                drop(runtime.spawn_blocking(move || writes.finish()));
            }
            Err(_) => self.finish(),
        }
    }

    /// Runs everything queued, and waits for the job that is running: before the process ends.
    pub fn finish(&self) {
        let _running = lock(&self.shared.running);
        loop {
            // In a separate statement, so that the queue is not locked while the job runs.
            let job = lock(&self.shared.pending).pop_front();
            match job {
                Some(job) => job(),
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test]
    async fn a_blocked_write_does_not_block_the_caller_and_order_is_kept() {
        let writes = OrderedWrites::default();
        let (open_gate, gate) = channel::<()>();
        let (send, written) = channel();
        // Stands for a disk that does not respond.
        writes.push(move || gate.recv().unwrap());
        for n in 0..10 {
            let send = send.clone();
            writes.push(move || send.send(n).unwrap());
        }
        drop(send);
        assert!(written.try_recv().is_err());
        open_gate.send(()).unwrap();
        writes.finish();
        let order: Vec<i32> = written.iter().collect();
        assert_eq!(order, (0..10).collect::<Vec<i32>>());
    }
}
