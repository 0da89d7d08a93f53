//! Hands output to the writer on a separate thread, so that the process that copies output does not wait for the disk.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use super::event::GapReason;
use super::marks::Mark;
use super::writer::{RecordingWriter, Seen};
use crate::error::{ErrorContext, Result};

/// Number of bytes that may wait for the disk.
const MAX_QUEUED: usize = 256 << 10;

/// Maximum number of events that may wait for the disk.
const MAX_EVENTS: usize = 4096;

/// How long a burst may be held up until the writer has caught up. After that, bytes are dropped.
const PATIENCE: Duration = Duration::from_millis(50);

/// Stack of the writer's thread.
const STACK: usize = 128 << 10;

/// A recording in progress. The recording ends with [`Recorder::end`].
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
    start: Instant,
    /// Bytes are dropped until the queue is half empty.
    dropping: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The queue is no longer empty.
    filled: Condvar,
    /// The queue is empty.
    taken: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    seen: Vec<(u64, Seen)>,
    bytes: Vec<u8>,
    /// The writer waits for more.
    waits: bool,
    ended: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // The queue is whole at any time.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder {
    /// Starts to record. Times are counted from here.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start(mut writer: RecordingWriter) -> Result<Recorder> {
        let shared = Arc::new(Shared::default());
        let thread = std::thread::Builder::new()
            .name("recording".into())
            .stack_size(STACK)
            .spawn({
                let shared = Arc::clone(&shared);
                move || write(&shared, &mut writer)
            })
            .context(|| "cannot start a thread".into())?;
        Ok(Recorder {
            shared,
            thread,
            start: Instant::now(),
            dropping: false,
        })
    }

    /// Records output, or only counts it.
    pub fn output(&mut self, bytes: &[u8], left_out: Option<GapReason>) {
        if bytes.is_empty() {
            return;
        }
        let us = self.now();
        let mut queue = self.shared.queue();
        let is_full = |queue: &Queue| {
            !queue.bytes.is_empty() && queue.bytes.len() + bytes.len() > MAX_QUEUED
                || queue.seen.len() >= MAX_EVENTS
        };
        if self.dropping {
            let level = queue
                .bytes
                .len()
                .max(queue.seen.len() * (MAX_QUEUED / MAX_EVENTS));
            self.dropping = level > MAX_QUEUED / 2;
        } else if is_full(&queue) {
            let waited = self
                .shared
                .taken
                .wait_timeout_while(queue, PATIENCE, |queue| is_full(queue));
            let (emptier, _) = waited.unwrap_or_else(PoisonError::into_inner);
            queue = emptier;
            self.dropping = is_full(&queue);
        }
        if self.dropping {
            let more = bytes.len() as u64;
            match queue.seen.last_mut() {
                Some((_, Seen::Dropped(bytes))) => *bytes += more,
                _ => queue.seen.push((us, Seen::Dropped(more))),
            }
        } else {
            queue.bytes.extend_from_slice(bytes);
            let bytes = bytes.len();
            queue.seen.push((us, Seen::Output { bytes, left_out }));
        }
        self.wake(queue);
    }

    /// Records a mark of the shell.
    pub fn mark(&self, mark: Mark) {
        self.event(Seen::Mark(mark));
    }

    /// Records a new size of the terminal.
    pub fn resize(&self, cols: u16, rows: u16) {
        self.event(Seen::Resize(cols, rows));
    }

    /// Ends the recording and waits until it is written.
    pub fn end(self, exit: Option<i32>, hung_up: bool) {
        let us = self.now();
        let mut queue = self.shared.queue();
        queue.seen.push((us, Seen::End { exit, hung_up }));
        queue.ended = true;
        self.wake(queue);
        // A panic of the thread has been reported.
        let _ = self.thread.join();
    }

    fn event(&self, seen: Seen) {
        let us = self.now();
        let mut queue = self.shared.queue();
        queue.seen.push((us, seen));
        self.wake(queue);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn wake(&self, mut queue: MutexGuard<'_, Queue>) {
        if std::mem::take(&mut queue.waits) {
            drop(queue);
            self.shared.filled.notify_one();
        }
    }
}

/// Returns the time in milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// Writes the queued output until the end.
fn write(shared: &Shared, writer: &mut RecordingWriter) {
    let mut batch = Queue::default();
    loop {
        let mut queue = shared.queue();
        while queue.seen.is_empty() {
            if queue.ended {
                return;
            }
            queue.waits = true;
            queue = shared
                .filled
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut queue.seen, &mut batch.seen);
        std::mem::swap(&mut queue.bytes, &mut batch.bytes);
        drop(queue);
        shared.taken.notify_one();
        writer.record(&batch.seen, &batch.bytes);
        batch.seen.clear();
        batch.bytes.clear();
    }
}
