//! Store of long tool results. The model gets the beginning, cut at a record boundary; the whole text is kept for two
//! hours, readable only by the session whose call it was.
//!
//! Offsets are bytes of the whole text on character boundaries; the parts concatenate to that text. The caller redacts
//! a text before storing it.

mod split_points;

use std::collections::{HashMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use self::split_points::RecordLayout;
use crate::error::{ErrorContext, Result};
use crate::paths::{make_dir, read_own};

/// How long a result is kept, in milliseconds.
const RESULT_TTL_MS: u64 = 2 * 60 * 60 * 1000;

/// Maximum number of bytes of all stored results.
const MAX_STORED_BYTES: usize = 64 << 20;

/// Maximum number of bytes of one result; the rest is discarded on arrival.
pub const MAX_RESULT_BYTES: usize = 16 << 20;

/// Bytes reserved for the line about the omitted part, and for the line before a part.
const NOTE_BYTES: usize = 240;

/// Stored results: the texts in files, their index in memory.
#[derive(Debug)]
pub struct ResultStore {
    dir: PathBuf,
    index: Mutex<StoreIndex>,
}

#[derive(Debug, Default)]
struct StoreIndex {
    by_key: HashMap<String, StoredResult>,
    /// Oldest first.
    keys: VecDeque<String>,
    bytes: usize,
    /// Number of the next file. Keys are not used as file names, so that listing the directory does not reveal them.
    next: u64,
}

#[derive(Debug)]
struct StoredResult {
    session: String,
    file: PathBuf,
    bytes: usize,
    expires_ms: u64,
}

/// The arguments of `read_result`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRequest {
    /// Key of the result.
    pub key: String,
    /// First byte to read.
    pub offset: usize,
    /// Maximum number of text bytes in the answer.
    pub limit: usize,
}

impl ReadRequest {
    /// Parses the arguments of `read_result`; an answer has at most `max` bytes.
    ///
    /// # Errors
    /// An argument is invalid; the text is for the caller.
    pub fn parse(
        arguments: &Map<String, Value>,
        max: usize,
    ) -> std::result::Result<ReadRequest, String> {
        let number = |key: &str| match arguments.get(key).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => value
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .map(Some)
                .ok_or_else(|| format!("{key} must be a whole number of bytes, 0 or more")),
        };
        let key = arguments.get("key").and_then(Value::as_str);
        let key = key.ok_or("key is required: it is at the end of the truncated result")?;
        let room = max.saturating_sub(NOTE_BYTES).max(1);
        Ok(ReadRequest {
            key: key.trim().to_owned(),
            offset: number("offset")?.unwrap_or(0),
            limit: number("limit")?.unwrap_or(room).clamp(1, room),
        })
    }
}

impl ResultStore {
    /// Creates an empty store. Removes the files that an earlier daemon left in `dir`, since nobody has their keys.
    pub fn new(dir: PathBuf) -> ResultStore {
        let results = ResultStore {
            dir,
            index: Mutex::default(),
        };
        results.clear();
        results
    }

    /// Removes all results, including their files.
    pub fn clear(&self) {
        // A result that is being written keeps its reservation.
        let _ = self.lock().remove_matching(|_| true);
        match fs::remove_dir_all(&self.dir) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(
                    "cannot remove the results stored in {}: {e}",
                    self.dir.display()
                );
            }
            _ => {}
        }
    }

    /// Returns what the model of `session` gets of a result: all of it, or at most `max` bytes with a line that says
    /// what was left out and how to continue. A text that cannot be stored is cut as well, and the line says so.
    pub fn fit(&self, session: &str, text: String, max: usize, now_ms: u64) -> String {
        if text.len() <= max {
            return text;
        }
        let key = self.store(session, &text, now_ms);
        if let Err(e) = &key {
            tracing::warn!("a result was not stored: {}", e.message);
        }
        truncate(&text, max, key.ok().as_deref())
    }

    /// Same for the output of a command, whose end is most important: the middle is left out.
    pub fn fit_ends(&self, session: &str, text: String, max: usize, now_ms: u64) -> String {
        if text.len() <= max {
            return text;
        }
        let key = self.store(session, &text, now_ms);
        if let Err(e) = &key {
            tracing::warn!("a result was not stored: {}", e.message);
        }
        let half = max.saturating_sub(NOTE_BYTES) / 2;
        let (head, tail) = (
            line_end_before(&text, half),
            line_start_after(&text, text.len() - half),
        );
        let read = match key {
            Ok(key) => format!("read_result with key {key} and offset {head} reads on"),
            Err(_) => "not stored".to_owned(),
        };
        format!(
            "{}\n[… {} of {} bytes left out; {read}]\n{}",
            text.get(..head).unwrap_or_default().trim_end_matches('\n'),
            tail - head,
            text.len(),
            text.get(tail..).unwrap_or_default()
        )
    }

    /// Stores a text for a session and returns its key. Removes the oldest results if space is needed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store(&self, session: &str, text: &str, now_ms: u64) -> Result<String> {
        let (file, gone) = {
            let mut kept = self.lock();
            let mut gone = kept.remove_matching(|entry| entry.expires_ms <= now_ms);
            while kept.bytes + text.len() > MAX_STORED_BYTES && !kept.keys.is_empty() {
                let mut oldest = true;
                gone.extend(kept.remove_matching(|_| std::mem::take(&mut oldest)));
            }
            // Reserved before writing, so that concurrent writers cannot exceed the limit together.
            kept.bytes += text.len();
            kept.next += 1;
            (self.dir.join(kept.next.to_string()), gone)
        };
        // Outside the lock: a slow disk must not delay readers of the index.
        remove(&gone);
        let written = make_dir(&self.dir).and_then(|()| write(&file, text));
        let mut kept = self.lock();
        if let Err(e) = written {
            kept.bytes -= text.len();
            return Err(e);
        }
        let key = uuid::Uuid::new_v4().simple().to_string();
        kept.keys.push_back(key.clone());
        let entry = StoredResult {
            session: session.to_owned(),
            file,
            bytes: text.len(),
            expires_ms: now_ms + RESULT_TTL_MS,
        };
        kept.by_key.insert(key.clone(), entry);
        Ok(key)
    }

    /// Removes expired results; called by a timer, so that they go even without new requests.
    pub fn expire(&self, now_ms: u64) {
        let gone = self
            .lock()
            .remove_matching(|entry| entry.expires_ms <= now_ms);
        remove(&gone);
    }

    /// Returns the answer of `read_result`: a line with the position of the part and the next offset, then the part.
    ///
    /// # Errors
    /// No such result, or the offset is past its end; the text is for the model.
    pub fn read(
        &self,
        session: &str,
        reading: &ReadRequest,
        now_ms: u64,
    ) -> std::result::Result<String, String> {
        self.expire(now_ms);
        let file = {
            let kept = self.lock();
            let entry = kept.by_key.get(&reading.key);
            // A key of another session is treated as unknown, so that its existence is not revealed.
            let own = entry.filter(|entry| entry.session == session);
            own.map(|entry| entry.file.clone())
        };
        let file = file.ok_or(
            "There is no result with this key: results are kept for two hours, within a size limit. Call the tool again.",
        )?;
        let text = read_own(&file)
            .and_then(io::read_to_string)
            .map_err(|_| "The result can no longer be read. Call the tool again.")?;
        let total = text.len();
        if reading.offset >= total {
            return Err(format!("The result ends at byte {total}."));
        }
        let mut start = reading.offset;
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let end = RecordLayout::of(&text).end(&text, start, reading.limit);
        let next = match end {
            _ if end == total => "end of the result".to_owned(),
            end => format!("next offset: {end}"),
        };
        let part = text.get(start..end).unwrap_or_default();
        Ok(format!(
            "[bytes {start} to {end} of {total}; {next}]\n{part}"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, StoreIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StoreIndex {
    /// Forgets the entries that match `which`, asked oldest first, and returns their files for removal.
    #[must_use]
    fn remove_matching(&mut self, mut which: impl FnMut(&StoredResult) -> bool) -> Vec<PathBuf> {
        let StoreIndex {
            by_key,
            keys,
            bytes,
            ..
        } = self;
        let mut gone = Vec::new();
        keys.retain(|key| {
            if by_key.get(key).is_some_and(|entry| !which(entry)) {
                return true;
            }
            if let Some(entry) = by_key.remove(key) {
                *bytes -= entry.bytes;
                gone.push(entry.file);
            }
            false
        });
        gone
    }
}

/// Returns the end of the last whole line before a place, or the last character boundary if there is none.
fn line_end_before(text: &str, place: usize) -> usize {
    let mut end = place.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let line = text.get(..end).and_then(|head| head.rfind('\n'));
    line.map_or(end, |line| line + 1)
}

/// Returns the start of the first whole line after a place, or the next character boundary if there is none.
fn line_start_after(text: &str, place: usize) -> usize {
    let mut start = place.min(text.len());
    while !text.is_char_boundary(start) {
        start += 1;
    }
    let line = text.get(start..).and_then(|tail| tail.find('\n'));
    line.filter(|line| start + line + 1 < text.len())
        .map_or(start, |line| start + line + 1)
}

fn write(file: &Path, text: &str) -> Result<()> {
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)
        .and_then(|mut opened| opened.write_all(text.as_bytes()));
    if written.is_err() {
        let _ = fs::remove_file(file);
    }
    written.context(|| format!("cannot write {}", file.display()))
}

/// A file that cannot be removed stays until the daemon restarts and is no longer counted.
fn remove(files: &[PathBuf]) {
    for file in files {
        if let Err(e) = fs::remove_file(file) {
            tracing::warn!("cannot remove {}: {e}", file.display());
        }
    }
}

/// Returns at most `max` bytes of a text, with a line that says what was left out and with which key to read on.
pub fn truncate(text: &str, max: usize, key: Option<&str>) -> String {
    let total = text.len();
    if total <= max {
        return text.to_owned();
    }
    let shape = RecordLayout::of(text);
    let end = shape.end(text, 0, max.saturating_sub(NOTE_BYTES).max(1));
    let (head, rest) = text.split_at(end);
    let left = shape.remaining(text, end);
    let read = match key {
        Some(key) => format!("read_result with key {key} and offset {end} reads on"),
        None => "not stored: request less".to_owned(),
    };
    format!(
        "{head}\n[… {} of {total} bytes left out{left}; {read}]",
        rest.len()
    )
}

#[cfg(test)]
mod tests;
