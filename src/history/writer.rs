//! The writer thread of the journal.
//!
//! The daemon's runtime is a single thread that a slow disk must not block. Records are queued in order and written by
//! this thread, each group with one `write`. Approvals wait until they are synced; a record that is acknowledged to a
//! client is awaited with [`JournalLog::written`](super::journal::JournalLog::written); nothing else waits.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{Error, Result, reason};

/// Time from a record to its sync, if nothing waits for it. An immediate sync would take time from the next prompt of the shell.
const SYNC_DELAY: Duration = Duration::from_millis(50);

/// Opens a file that could not be opened before.
pub(super) type Reopen = fn(&std::path::Path) -> Result<File>;

/// A file that the thread appends to.
#[derive(Debug)]
pub(super) struct LogFile {
    pub path: PathBuf,
    /// Locked for a moment only, to read or replace the pointer.
    file: Mutex<Option<Arc<File>>>,
    reopen: Reopen,
    /// First failure since the last call of `outcome`.
    failure: Mutex<Option<Error>>,
    /// Number of failures so far.
    failures: AtomicU64,
}

impl LogFile {
    pub fn new(path: PathBuf, file: Option<File>, reopen: Reopen) -> LogFile {
        LogFile {
            path,
            file: Mutex::new(file.map(Arc::new)),
            reopen,
            failure: Mutex::default(),
            failures: AtomicU64::default(),
        }
    }

    /// Returns the open file, opening it if it could not be opened before: a full disk may have space again.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn file(&self) -> Result<Arc<File>> {
        let mut file = locked(&self.file);
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        let opened = Arc::new((self.reopen)(&self.path)?);
        *file = Some(opened.clone());
        Ok(opened)
    }

    /// Continues in another file, which has taken the place of this one. Called on the writer thread.
    pub fn replace(&self, file: File) {
        *locked(&self.file) = Some(Arc::new(file));
    }

    fn append(&self, bytes: &[u8]) -> Result<()> {
        let file = self.file()?;
        let length = file.metadata().ok().map(|m| m.len());
        (&*file).write_all(bytes).map_err(|e| {
            // A part of a line would spoil the next record. `/dev/full` and the like cannot be cut.
            let _ = length.map(|length| file.set_len(length));
            unwritable(&self.path, &e)
        })
    }

    fn sync(&self) -> Result<()> {
        self.file()?
            .sync_data()
            .map_err(|e| unwritable(&self.path, &e))
    }

    fn note(&self, result: Result<()>) {
        if let Err(e) = result {
            tracing::warn!("{}", e.message);
            self.failures.fetch_add(1, Ordering::Relaxed);
            locked(&self.failure).get_or_insert(e);
        }
    }

    /// Returns how many tasks have failed so far.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the first failure since this was called last.
    fn outcome(&self) -> Result<()> {
        locked(&self.failure).take().map_or(Ok(()), Err)
    }
}

/// Called on the thread with the result of a task.
type Acknowledge = Box<dyn FnOnce(Result<()>) + Send>;

/// A task of the writer thread.
enum WriterTask {
    Append(Arc<LogFile>, Vec<u8>),
    /// Reports whether everything queued before was written.
    Report(Arc<LogFile>, Acknowledge),
    /// Same, after a sync.
    Sync(Arc<LogFile>, Acknowledge),
    /// Runs between two writes.
    Run(Box<dyn FnOnce() + Send>),
    /// Syncs all files with unsynced records (`history.sync`), then acknowledges.
    SyncAll(Sender<()>),
}

/// A handle to the thread, which starts with the first task. It ends when the last handle is dropped.
#[derive(Debug, Clone, Default)]
pub(super) struct JournalWriter {
    shared: Arc<WriterState>,
}

#[derive(Debug, Default)]
struct WriterState {
    queue: OnceLock<Sender<WriterTask>>,
    sync_all: Arc<AtomicBool>,
}

impl JournalWriter {
    /// Sets whether every record is synced soon after it was written. Callers do not wait for that sync.
    pub fn sync_all(&self, every_record: bool) {
        self.shared.sync_all.store(every_record, Ordering::Relaxed);
    }

    /// Queues an append.
    ///
    /// # Errors
    /// The thread has stopped.
    pub fn append(&self, log: &Arc<LogFile>, bytes: Vec<u8>) -> Result<()> {
        self.queue(WriterTask::Append(log.clone(), bytes))
    }

    /// Calls `acknowledge` when everything queued before was written.
    ///
    /// # Errors
    /// The thread has stopped; `acknowledge` is not called.
    pub fn report(
        &self,
        log: &Arc<LogFile>,
        acknowledge: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        self.queue(WriterTask::Report(log.clone(), Box::new(acknowledge)))
    }

    /// Calls `acknowledge` when everything queued before is on the disk.
    ///
    /// # Errors
    /// The thread has stopped; `acknowledge` is not called.
    pub fn sync(
        &self,
        log: &Arc<LogFile>,
        acknowledge: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        self.queue(WriterTask::Sync(log.clone(), Box::new(acknowledge)))
    }

    /// Runs `task` on the writer thread, after everything queued before, and waits for it. Must not be called on the runtime
    /// thread.
    ///
    /// # Errors
    /// The thread has stopped.
    pub fn run<T: Send + 'static>(&self, task: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        let (send, done) = channel();
        self.queue(WriterTask::Run(Box::new(move || {
            // Fails only if the caller no longer waits.
            let _ = send.send(task());
        })))?;
        done.recv().map_err(|_| stopped())
    }

    /// Waits until everything queued was written and, with `history.sync`, synced: before the process ends.
    pub fn close(&self) {
        if self.shared.queue.get().is_some() {
            let (send, done) = channel();
            // A thread that has stopped has nothing queued.
            let _ = self.queue(WriterTask::SyncAll(send)).map(|()| done.recv());
        }
    }

    /// Waits until everything queued was written, if there is a queue.
    pub fn drain(&self) {
        if self.shared.queue.get().is_some() {
            // A thread that has stopped has nothing queued.
            let _ = self.run(|| ());
        }
    }

    fn queue(&self, task: WriterTask) -> Result<()> {
        let queue = self.shared.queue.get_or_init(|| {
            let (sender, receiver) = channel();
            let sync_all = self.shared.sync_all.clone();
            let thread = std::thread::Builder::new().name("journal".into());
            // Without a thread the receiver is dropped, and queueing fails below.
            if let Err(e) = thread.spawn(move || write_all(&receiver, &sync_all)) {
                tracing::error!("cannot start the journal's thread: {e}");
            }
            sender
        });
        queue.send(task).map_err(|_| stopped())
    }
}

fn stopped() -> Error {
    Error::runtime("cannot write the history: its thread has stopped")
        .hint("restart the daemon: aish-helper restart")
}

/// Performs the tasks in order, until the last handle is dropped.
fn write_all(tasks: &Receiver<WriterTask>, sync_all: &AtomicBool) {
    // Files with unsynced records, if every record is to be synced.
    let mut unsynced: HashMap<PathBuf, Arc<LogFile>> = HashMap::new();
    let mut sync_at = Instant::now();
    loop {
        // Also if records come without end.
        if !unsynced.is_empty() && sync_at <= Instant::now() {
            sync_files(&mut unsynced);
        }
        let task = match unsynced.is_empty() {
            true => tasks.recv().map_err(RecvTimeoutError::from),
            false => tasks.recv_timeout(sync_at.saturating_duration_since(Instant::now())),
        };
        let task = match task {
            Ok(task) => task,
            Err(end) => {
                sync_files(&mut unsynced);
                match end {
                    RecvTimeoutError::Timeout => continue,
                    RecvTimeoutError::Disconnected => return,
                }
            }
        };
        match task {
            WriterTask::Append(log, bytes) => {
                log.note(log.append(&bytes));
                if sync_all.load(Ordering::Relaxed) {
                    if unsynced.is_empty() {
                        sync_at = Instant::now() + SYNC_DELAY;
                    }
                    unsynced.insert(log.path.clone(), log);
                }
            }
            WriterTask::Report(log, acknowledge) => acknowledge(log.outcome()),
            WriterTask::Sync(log, acknowledge) => {
                let result = log.outcome().and_then(|()| log.sync());
                if result.is_ok() {
                    unsynced.remove(&log.path);
                }
                acknowledge(result);
            }
            WriterTask::Run(task) => task(),
            WriterTask::SyncAll(acknowledge) => {
                sync_files(&mut unsynced);
                // A caller that was cancelled does not wait.
                let _ = acknowledge.send(());
            }
        }
    }
}

fn sync_files(unsynced: &mut HashMap<PathBuf, Arc<LogFile>>) {
    for (_, log) in unsynced.drain() {
        log.note(log.sync());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn unwritable(path: &Path, e: &std::io::Error) -> Error {
    let reason = reason(e);
    Error::runtime(format!("cannot write the history: {}: {reason}", path.display()))
        .hint("free disk space, make the directory writable, or set AISH_HOME; what is not recorded cannot be resumed")
}

#[cfg(test)]
mod tests;
