//! The journal: append-only JSON Lines, one file per session, one for the commands of all shells, and the audit log for
//! everything outside of sessions.
//!
//! Records that belong together are written with one `write`, so that a killed daemon leaves at most one torn last line,
//! which was never acknowledged and is cut off by the next open. One thread does all writing (`history::writer`).

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::cut_off;
use super::record::{Record, RecordBody, RecordIds};
use super::writer::{JournalWriter, LogFile, unwritable};
use crate::error::{Error, ErrorContext, Result};
use crate::paths;

/// Name of the file with the commands of all shells.
const SHELLS: &str = "shells.jsonl";

/// Name of the audit log, for everything outside of sessions.
const AUDIT: &str = "audit.jsonl";

/// Name of the audit log in version 1. It is renamed when the audit log is opened.
const OLD_AUDIT: &str = "acts.jsonl";

/// Number of bytes at the end of the file that are read to restore the last commands.
const TAIL: u64 = 256 << 10;

/// The directory of the journal.
#[derive(Debug, Clone)]
pub struct Journal {
    dir: PathBuf,
    writer: JournalWriter,
}

/// File of the journal, open for appending.
#[derive(Debug)]
pub struct JournalLog {
    pub(super) file: Arc<LogFile>,
    pub(super) writer: JournalWriter,
}

/// A session in the list of session files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// Its id.
    pub id: String,
    /// When it was last written, milliseconds since 1970.
    pub updated_ms: u64,
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    milliseconds(SystemTime::now())
}

/// Converts a time to milliseconds since 1970.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX))
}

/// Returns a redacted record with a new id and the current time.
pub fn new_record(record_ids: RecordIds, body: RecordBody) -> Record {
    let body = super::redacted::body(body);
    // The time is that of the id: the index filters by id and shows the time, and two readings of the clock may differ.
    let id = Uuid::now_v7();
    let at_ms = id.get_timestamp().map_or_else(now_ms, |timestamp| {
        let (seconds, nanos) = timestamp.to_unix();
        seconds * 1000 + u64::from(nanos) / 1_000_000
    });
    Record::new(id, at_ms, record_ids, body)
}

impl Journal {
    /// Returns the journal in `dir`, which is created (0700) by the first write.
    pub fn new(dir: PathBuf) -> Journal {
        let writer = JournalWriter::default();
        Journal { dir, writer }
    }

    /// Sets whether every record is synced to disk soon after it was written (`history.sync`).
    pub fn sync_every_record(&self, every_record: bool) {
        self.writer.sync_all(every_record);
    }

    /// Waits until everything that was recorded is written and, with `history.sync`, synced: before the process ends.
    pub fn close(&self) {
        self.writer.close();
    }

    /// Waits until everything that was recorded is written: before a file is read again.
    pub fn drain(&self) {
        self.writer.drain();
    }

    fn log(&self, path: PathBuf, file: Option<File>) -> JournalLog {
        JournalLog {
            file: Arc::new(LogFile::new(path, file, |path| opened(path, true))),
            writer: self.writer.clone(),
        }
    }

    pub(super) fn path(&self, session: &str) -> PathBuf {
        self.dir.join(format!("{session}.jsonl"))
    }

    /// Creates the file of a session.
    ///
    /// # Errors
    /// The file cannot be created, or exists already.
    pub fn create(&self, session: &str) -> Result<JournalLog> {
        paths::make_dir(&self.dir)?;
        let path = self.path(session);
        let mut options = OpenOptions::new();
        options.append(true).read(true).create_new(true);
        let file = paths::open_own(&mut options, &path).map_err(|e| unwritable(&path, &e))?;
        Ok(self.log(path, Some(file)))
    }

    /// Opens the file of a session, cuts off a torn last line, reads the rest, and adds the records that are missing because the
    /// daemon was killed during tool calls. No turn of the session may be running.
    ///
    /// # Errors
    /// The file cannot be read or repaired.
    pub fn open(&self, session: &str) -> Result<(JournalLog, Vec<Record>)> {
        self.drain();
        let path = self.path(session);
        let file = opened(&path, false)?;
        let mut records = read_from(&file, &path, 0)?;
        let log = self.log(path, Some(file));
        let (read, missing) = (records.len(), cut_off::missing_records(&records));
        if !missing.is_empty() {
            records.extend(missing.into_iter().map(|(ids, body)| new_record(ids, body)));
            // On a full disk the session is usable all the same.
            if let Err(e) = log.write(&records[read..]).and_then(|()| log.flush()) {
                tracing::warn!("{}", e.message);
            }
        }
        Ok((log, records))
    }

    /// Opens the file with the commands of all shells and reads the last of them. A file that cannot be opened now, such
    /// as on a full disk, is opened by the first command that can be written.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open_shells(&self) -> Result<(JournalLog, Vec<Record>)> {
        let path = self.dir.join(SHELLS);
        let file = match opened(&path, true) {
            Ok(file) => file,
            Err(e) => {
                tracing::warn!("{}", e.message);
                return Ok((self.log(path, None), Vec::new()));
            }
        };
        let length = file.metadata().map_or(0, |m| m.len());
        let records = read_from(&file, &path, length.saturating_sub(TAIL))?;
        Ok((self.log(path, Some(file)), records))
    }

    /// Returns the directories in which the commands of these ids began, by the ids.
    ///
    /// # Errors
    /// The file with the commands cannot be read.
    pub fn directories_of(&self, commands: &HashSet<&str>) -> Result<HashMap<String, String>> {
        let path = self.dir.join(SHELLS);
        let what = || format!("cannot read {}", path.display());
        let file = match paths::read_own(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(HashMap::new()),
            file => file.context(what)?,
        };
        let mut directories = HashMap::new();
        for line in BufReader::new(file).split(b'\n') {
            let Ok(record) = serde_json::from_slice::<Record>(&line.context(what)?) else {
                continue;
            };
            if let RecordBody::ShellCommand { cwd, .. } = record.body
                && let Some(id) = record.ids.command
                && commands.contains(&*id)
            {
                directories.insert(id, cwd);
            }
        }
        Ok(directories)
    }

    /// Opens the audit log.
    ///
    /// # Errors
    /// The file cannot be created or repaired.
    pub fn open_audit_log(&self) -> Result<JournalLog> {
        paths::make_dir(&self.dir)?;
        let (path, old) = (self.dir.join(AUDIT), self.dir.join(OLD_AUDIT));
        // If both exist, an older version ran in between: its file stays, and is read under its old name.
        if old.exists() && !path.exists() {
            fs::rename(&old, &path)
                .context(|| format!("cannot rename {} to {AUDIT}", old.display()))?;
        }
        let file = opened(&path, true)?;
        Ok(self.log(path, Some(file)))
    }

    /// Reads the records of a session with the current field names. The file is not changed.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, session: &str) -> Result<Vec<serde_json::Value>> {
        self.drain();
        let path = self.path(session);
        let file = paths::read_own(&path).context(|| format!("cannot read {}", path.display()))?;
        let mut records = Vec::new();
        for line in BufReader::new(file).split(b'\n') {
            let line = line.context(|| format!("cannot read {}", path.display()))?;
            if let Ok(mut record) = serde_json::from_slice(&line) {
                super::redacted::value(&mut record);
                records.push(record);
            }
        }
        Ok(records)
    }

    /// Returns the sessions, last used first; none if there is no journal yet.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn sessions(&self) -> Result<Vec<SessionFile>> {
        // Queued records count as written: the order is by time of writing.
        self.drain();
        let mut sessions = Vec::new();
        self.each_file(|name, meta| {
            if let Some(id) = session_of(name) {
                sessions.push(SessionFile {
                    id: id.to_string(),
                    updated_ms: updated(meta),
                });
            }
        })?;
        // Ids sort by time too, for files written in the same tick.
        sessions.sort_by(|a, b| (b.updated_ms, &b.id).cmp(&(a.updated_ms, &a.id)));
        Ok(sessions)
    }

    /// Removes the file of a session that was last written at `updated_ms`. Returns `false` if it was written since. Does
    /// not wait for the writer thread, since the caller holds a lock: drain before, so that queued records count.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, session: &str, updated_ms: u64) -> Result<bool> {
        let path = self.path(session);
        let what = || format!("cannot remove {}", path.display());
        if updated(&fs::metadata(&path).context(what)?) != updated_ms {
            return Ok(false);
        }
        fs::remove_file(&path).context(what)?;
        Ok(true)
    }

    /// Removes the file of a session, whenever it was written. One that was never written is not an error.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn delete(&self, session: &str) -> Result<()> {
        let path = self.path(session);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(e).context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }

    /// Whether a session has a file.
    pub fn has(&self, session: &str) -> bool {
        fs::symlink_metadata(self.path(session)).is_ok()
    }

    /// Returns the session whose id is `wanted`, or the only one whose id contains it.
    ///
    /// # Errors
    /// No id or several ids match.
    pub fn find(&self, wanted: &str) -> Result<String> {
        let sessions = self.sessions()?;
        if let Some(s) = sessions.iter().find(|s| s.id == wanted) {
            return Ok(s.id.clone());
        }
        let mut fits = sessions.iter().filter(|s| s.id.contains(wanted));
        match (fits.next(), fits.next()) {
            (Some(s), None) if !wanted.is_empty() => Ok(s.id.clone()),
            (Some(_), Some(_)) => Err(Error::usage(format!(
                "several sessions have '{wanted}' in their id"
            ))
            .hint("give more of the id; see: aish-helper session list")),
            _ => Err(Error::usage(format!("no session has '{wanted}' in its id"))
                .hint("see: aish-helper session list")),
        }
    }

    /// Returns the size of all files in bytes.
    pub fn size(&self) -> u64 {
        let mut size = 0;
        // A journal that cannot be listed counts as empty; `doctor` reports the cause.
        let _ = self.each_file(|_, meta| size += meta.len());
        size
    }

    fn each_file(&self, mut f: impl FnMut(&str, &fs::Metadata)) -> Result<()> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(e).context(|| format!("cannot list {}", self.dir.display())),
        };
        for entry in entries.flatten() {
            if let (Some(name), Ok(meta)) = (entry.file_name().to_str(), entry.metadata()) {
                f(name, &meta);
            }
        }
        Ok(())
    }
}

/// Returns when a file was last written, in milliseconds since 1970.
fn updated(meta: &fs::Metadata) -> u64 {
    meta.modified().map_or(0, milliseconds)
}

/// Returns the session id in the name of a session file.
fn session_of(name: &str) -> Option<&str> {
    let id = name.strip_suffix(".jsonl")?;
    (![SHELLS, AUDIT, OLD_AUDIT].contains(&name)).then_some(id)
}

/// Opens a file for appending and cuts off a torn last line.
fn opened(path: &Path, create: bool) -> Result<File> {
    if create {
        if let Some(dir) = path.parent() {
            paths::make_dir(dir)?;
        }
        // Left by a daemon that was killed while it shortened this file.
        let _ = fs::remove_file(path.with_extension("new"));
    }
    let mut options = OpenOptions::new();
    options.append(true).read(true).create(create);
    let file = paths::open_own(&mut options, path).map_err(|e| unwritable(path, &e))?;
    repair(&file, path)?;
    Ok(file)
}

/// Cuts off everything after the last LF.
fn repair(file: &File, path: &Path) -> Result<()> {
    let what = || format!("cannot repair {}", path.display());
    let length = file.metadata().context(what)?.len();
    let mut end = length;
    let mut block = vec![0; 64 << 10];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        // The difference is at most the block's length.
        let part = &mut block[..(end - start) as usize];
        file.read_exact_at(part, start).context(what)?;
        if let Some(at) = part.iter().rposition(|b| *b == b'\n') {
            end = start + at as u64 + 1;
            break;
        }
        end = start;
    }
    if end < length {
        tracing::warn!(file = %path.display(), bytes = length - end, "cut off a torn record");
        file.set_len(end).context(what)?;
    }
    Ok(())
}

/// Reads the records from `start` on. Lines that are not records (`start` may be within one) stay in the file and are
/// skipped.
fn read_from(mut file: &File, path: &Path, start: u64) -> Result<Vec<Record>> {
    let what = || format!("cannot read {}", path.display());
    file.seek(SeekFrom::Start(start)).context(what)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).context(what)?;
    Ok(bytes
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect())
}

impl JournalLog {
    /// The path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.file.path
    }

    /// Queues one record with the current time and returns it.
    ///
    /// # Errors
    /// As for [`JournalLog::write`].
    pub fn append(&self, record_ids: RecordIds, body: RecordBody) -> Result<Record> {
        let record = new_record(record_ids, body);
        self.write(std::slice::from_ref(&record))?;
        Ok(record)
    }

    /// Queues records, which are written with one `write`. A failure of that write is returned by the next
    /// [`JournalLog::written`] or [`JournalLog::sync`]; a partly written line is cut off again.
    ///
    /// # Errors
    /// The writer thread has stopped.
    pub fn write(&self, records: &[Record]) -> Result<()> {
        let mut lines = Vec::new();
        for record in records {
            serde_json::to_writer(&mut lines, record)
                .context(|| format!("cannot write to {}", self.path().display()))?;
            lines.push(b'\n');
        }
        self.writer.append(&self.file, lines)
    }

    /// Returns the number of failed writes so far, including those that were already reported to a caller.
    pub fn failures(&self) -> u64 {
        self.file.failures()
    }

    /// Waits until everything queued was written.
    ///
    /// # Errors
    /// A write failed since the last report.
    pub fn written(&self) -> impl Future<Output = Result<()>> + use<> {
        let (send, done) = tokio::sync::oneshot::channel();
        // Queued now and not when the future is polled: a failure that happened before belongs to this caller.
        let queued = self.when_written(move |result| {
            // A caller that was cancelled does not wait.
            let _ = send.send(result);
        });
        async move {
            queued?;
            done.await.unwrap_or_else(|_| Err(no_answer()))
        }
    }

    /// Calls `acknowledge` on the writer thread when everything queued was written, or with the failure.
    ///
    /// # Errors
    /// The writer thread has stopped.
    pub fn when_written(
        &self,
        acknowledge: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        self.writer.report(&self.file, acknowledge)
    }

    /// Waits until everything queued is synced to disk, for records that permit an action.
    ///
    /// # Errors
    /// A write failed since the last report, or the sync failed: the action must not be done.
    pub async fn synced(&self) -> Result<()> {
        let (send, done) = tokio::sync::oneshot::channel();
        self.writer.sync(&self.file, move |result| {
            let _ = send.send(result);
        })?;
        done.await.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Same as [`JournalLog::written`], for a thread that may block.
    ///
    /// # Errors
    /// A write failed since the last report.
    pub fn flush(&self) -> Result<()> {
        let (send, done) = std::sync::mpsc::channel();
        self.writer.report(&self.file, move |result| {
            let _ = send.send(result);
        })?;
        done.recv().unwrap_or_else(|_| Err(no_answer()))
    }

    /// Same as [`JournalLog::synced`], for a thread that may block.
    ///
    /// # Errors
    /// A write failed since the last report, or the sync failed.
    pub fn sync(&self) -> Result<()> {
        let (send, done) = std::sync::mpsc::channel();
        self.writer.sync(&self.file, move |result| {
            let _ = send.send(result);
        })?;
        done.recv().unwrap_or_else(|_| Err(no_answer()))
    }
}

fn no_answer() -> Error {
    Error::runtime("cannot write the history: its thread has stopped")
}

#[cfg(test)]
mod tests;
