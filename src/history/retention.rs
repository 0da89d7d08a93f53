//! Retention: removes the oldest records beyond limits of age, number and size.
//!
//! A session is as old as its last record and is removed as a whole; `shells.jsonl` and the audit log lose their first
//! records. Open sessions are neither removed nor counted: one long session must not evict all others.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::journal::{Journal, JournalLog};
use crate::error::{ErrorContext, Result};
use crate::paths;

/// When a limit is exceeded, records are removed until a sixteenth of the limit is free, so that the next record does not
/// exceed it again.
const SLACK: u64 = 16;

/// Number of passes that copy what was appended meanwhile, before the rest is copied on the writer thread.
const COPY_PASSES: usize = 8;

/// Number of bytes at the start of a line in which the time of a record is searched.
const TIME_WITHIN: usize = 128;

/// Limits of the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionLimits {
    /// Records before this time are removed (milliseconds since 1970).
    pub since_ms: u64,
    /// Maximum number of records.
    pub records: u64,
    /// Maximum number of bytes in all files.
    pub bytes: u64,
}

/// Number of removed sessions and records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DroppedCounts {
    /// Whole sessions.
    pub sessions: usize,
    /// Records of the shared files.
    pub records: u64,
}

/// Applies limits to a journal, and caches the number of records of each file.
#[derive(Debug, Default)]
pub struct Retention {
    counted: HashMap<String, CountedFile>,
}

/// Cached number of records of a file, valid for this length and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CountedFile {
    length: u64,
    modified: Option<SystemTime>,
    records: u64,
}

/// A candidate for removal.
enum DropCandidate<'a> {
    /// A whole session.
    Session(&'a str),
    /// A record: index of its log, and its end offset.
    Record(usize, u64),
}

/// Number of records and bytes.
#[derive(Debug, Clone, Copy, Default)]
struct RecordAmount {
    records: u64,
    bytes: u64,
}

impl Retention {
    /// Removes what exceeds the limits. Sessions in `in_use` are kept; `logs` are the shared files. `remove` removes a session
    /// that was last written at the given time, unless it is in use by then.
    ///
    /// # Errors
    /// The journal cannot be read. The next call tries again to remove the rest.
    pub fn apply(
        &mut self,
        journal: &Journal,
        limits: RetentionLimits,
        in_use: &HashSet<String>,
        logs: &[Arc<JournalLog>],
        mut remove: impl FnMut(&str, u64) -> Result<bool>,
    ) -> Result<DroppedCounts> {
        let mut dropped = DroppedCounts::default();
        let mut cuts = vec![0; logs.len()];
        let (mut all, mut old) = (RecordAmount::default(), Vec::new());
        let sessions = journal.sessions()?;
        let mut counted = HashMap::new();
        for session in sessions.iter().filter(|s| !in_use.contains(&s.id)) {
            // The user has removed the file meanwhile.
            let Some(count) = self.count(&journal.path(&session.id), &session.id) else {
                continue;
            };
            counted.insert(session.id.clone(), count);
            let amount = RecordAmount {
                records: count.records,
                bytes: count.length,
            };
            all.add(amount);
            old.push((
                session.updated_ms,
                amount,
                DropCandidate::Session(&session.id),
            ));
        }
        for log in logs {
            let name = log.path().display().to_string();
            let Some(count) = self.count(log.path(), &name) else {
                continue;
            };
            counted.insert(name, count);
            all.add(RecordAmount {
                records: count.records,
                bytes: count.length,
            });
        }
        self.counted = counted;
        // The times of single records are read only if some of them must be removed.
        let is_over = all.records > limits.records || all.bytes > limits.bytes;
        for (at, log) in logs.iter().enumerate() {
            each_record(log, |at_ms, length, end| {
                let amount = RecordAmount {
                    records: 1,
                    bytes: length,
                };
                let goes_on = is_over || at_ms < limits.since_ms;
                if goes_on {
                    old.push((at_ms, amount, DropCandidate::Record(at, end)));
                }
                goes_on
            })?;
        }
        // Stable: the records of a file stay in their order.
        old.sort_by_key(|(at_ms, ..)| *at_ms);
        let target = match is_over {
            true => RecordAmount {
                records: limits.records - limits.records / SLACK,
                bytes: limits.bytes - limits.bytes / SLACK,
            },
            false => all,
        };
        for (at_ms, amount, what) in old {
            let fits = all.records <= target.records && all.bytes <= target.bytes;
            if fits && at_ms >= limits.since_ms {
                break;
            }
            match what {
                DropCandidate::Session(id) => match remove(id, at_ms) {
                    Ok(true) => dropped.sessions += 1,
                    Ok(false) => continue,
                    Err(e) => {
                        tracing::warn!("{}", e.message);
                        continue;
                    }
                },
                DropCandidate::Record(log, end) => {
                    cuts[log] = end;
                    dropped.records += 1;
                }
            }
            all.records -= amount.records;
            all.bytes -= amount.bytes;
        }
        for (log, start) in logs.iter().zip(cuts).filter(|(_, start)| *start > 0) {
            log.drop_before(start)?;
        }
        Ok(dropped)
    }

    /// Returns the number of records of a file. An unchanged file is not read again.
    fn count(&self, path: &Path, name: &str) -> Option<CountedFile> {
        let meta = fs::metadata(path).ok()?;
        let (length, modified) = (meta.len(), meta.modified().ok());
        let known = self.counted.get(name);
        if let Some(known) = known.filter(|c| c.length == length && c.modified == modified) {
            return Some(*known);
        }
        let mut file = paths::read_own(path).ok()?;
        let (mut records, mut block) = (0, vec![0; 256 << 10]);
        loop {
            match file.read(&mut block) {
                Ok(0) => break,
                Ok(n) => records += memchr::memchr_iter(b'\n', &block[..n]).count() as u64,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        Some(CountedFile {
            length,
            modified,
            records,
        })
    }
}

impl RecordAmount {
    fn add(&mut self, more: RecordAmount) {
        self.records += more.records;
        self.bytes += more.bytes;
    }
}

/// Calls `take` with time, length and end offset of each record until it returns `false`. Times never decrease: a line
/// without a time, or from a clock that was set back, gets the time of the line before, so that later records are not
/// removed first.
fn each_record(log: &JournalLog, mut take: impl FnMut(u64, u64, u64) -> bool) -> Result<()> {
    let what = || format!("cannot read {}", log.path().display());
    let file = paths::read_own(log.path()).context(what)?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let (mut line, mut at_ms, mut end) = (Vec::new(), 0, 0);
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).context(what)? as u64;
        // The last line may be written at this moment.
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
        end += length;
        at_ms = time_of(&line).map_or(at_ms, |time| time.max(at_ms));
        if !take(at_ms, length, end) {
            return Ok(());
        }
    }
}

/// Returns the time of a record without parsing its line.
fn time_of(line: &[u8]) -> Option<u64> {
    // Versions 2 and 1.
    const KEYS: [&[u8]; 2] = [b"\"timestamp_ms\":", b"\"at_ms\":"];
    let head = &line[..line.len().min(TIME_WITHIN)];
    let end_of = |key: &[u8]| memchr::memmem::find(head, key).map(|at| at + key.len());
    let at = KEYS.into_iter().find_map(end_of)?;
    let digits = head[at..].iter().take_while(|b| b.is_ascii_digit());
    let text: String = digits.map(|b| char::from(*b)).collect();
    text.parse().ok()
}

impl JournalLog {
    /// Drops all records before `start`, where a record begins. The rest is copied to a new file, which replaces the old one
    /// once it is synced. The caller's thread copies most of it while records are still appended to the old file; the
    /// writer thread copies the remainder and replaces the file, so that no record is appended to the old file after its
    /// last byte was copied.
    ///
    /// # Errors
    /// The new file cannot be written: the old one stays.
    pub fn drop_before(&self, start: u64) -> Result<()> {
        let temporary = self.path().with_extension("new");
        self.replace(start, &temporary).inspect_err(|_| {
            // If this fails too, the file is removed at the next start.
            let _ = fs::remove_file(&temporary);
        })
    }

    fn replace(&self, start: u64, temporary: &Path) -> Result<()> {
        let what = |path: &Path| format!("cannot shorten {}", path.display());
        let old = self.file.file()?;
        let copied = || -> io::Result<(File, u64)> {
            let new = OpenOptions::new()
                .append(true)
                .read(true)
                .create_new(true)
                .mode(0o600)
                .open(temporary)?;
            let mut copied = start;
            for _ in 0..COPY_PASSES {
                let more = copy(&old, copied, &new)?;
                new.sync_data()?;
                copied += more;
                if more == 0 {
                    break;
                }
            }
            Ok((new, copied))
        };
        let (new, copied) = copied().context(|| what(self.path()))?;
        let (log, temporary) = (self.file.clone(), temporary.to_path_buf());
        let replaced = self.writer.run(move || -> io::Result<()> {
            let dir = log.path.parent().map(File::open).transpose()?;
            if copy(&old, copied, &new)? > 0 {
                new.sync_data()?;
            }
            fs::rename(&temporary, &log.path)?;
            log.replace(new);
            // Nothing is appended before the new name is synced: after a power failure the old file would be there, without
            // the records that were synced into the new one.
            dir.map_or(Ok(()), |dir| dir.sync_all())
        })?;
        replaced.context(|| what(self.path()))
    }
}

/// Copies everything after `from` and returns its length.
fn copy(old: &File, from: u64, mut new: &File) -> io::Result<u64> {
    let (mut at, mut block) = (from, vec![0; 256 << 10]);
    loop {
        let n = old.read_at(&mut block, at)?;
        if n == 0 {
            return Ok(at - from);
        }
        new.write_all(&block[..n])?;
        at += n as u64;
    }
}

#[cfg(test)]
mod tests;
