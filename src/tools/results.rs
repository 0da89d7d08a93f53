//! Results that are longer than a model is to have at once: what it gets is cut where a record ends, and the rest is
//! kept for two hours, for the conversation whose call it was and for no other.
//!
//! Offsets are in bytes of the whole text and stand where a character begins; the parts, one after the other, are
//! that text again. Whoever keeps a text has taken secrets out of it before.

mod border;

use std::collections::{HashMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};

use self::border::Shape;
use crate::error::{Context, Result};
use crate::paths::make_dir;

/// How long a result is kept, in milliseconds.
const KEPT_MS: u64 = 2 * 60 * 60 * 1000;

/// The most bytes of all that are kept.
const MAX_KEPT: usize = 64 << 20;

/// The most bytes of one result that anybody looks at.
pub const MAX_RESULT: usize = 16 << 20;

/// Room for the line that says what was left out, and for the one in front of a part.
const NOTE: usize = 240;

/// The results that are kept.
#[derive(Debug)]
pub struct Results {
    dir: PathBuf,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_key: HashMap<String, Entry>,
    /// Oldest first.
    keys: VecDeque<String>,
    bytes: usize,
    /// Names the next file. A key is no name: who may list the directory learns none.
    next: u64,
}

#[derive(Debug)]
struct Entry {
    session: String,
    file: PathBuf,
    bytes: usize,
    until_ms: u64,
}

/// What a model asks of `read_result`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The key that it was told.
    pub key: String,
    /// From which byte on.
    pub offset: usize,
    /// The most bytes of the answer's text.
    pub limit: usize,
}

impl Reading {
    /// Reads the arguments of `read_result`; an answer has at most `max` bytes.
    ///
    /// # Errors
    /// One is wrong: what the caller is told.
    pub fn read(
        arguments: &Map<String, Value>,
        max: usize,
    ) -> std::result::Result<Reading, String> {
        let number = |key: &str| match arguments.get(key).filter(|value| !value.is_null()) {
            None => Ok(None),
            Some(value) => value
                .as_u64()
                .and_then(|n| usize::try_from(n).ok())
                .map(Some)
                .ok_or_else(|| format!("{key} must be a whole number of bytes, 0 or more")),
        };
        let key = arguments.get("key").and_then(Value::as_str);
        let key = key.ok_or("key is required: the one that stands at the end of the cut result")?;
        let room = max.saturating_sub(NOTE).max(1);
        Ok(Reading {
            key: key.trim().to_owned(),
            offset: number("offset")?.unwrap_or(0),
            limit: number("limit")?.unwrap_or(room).clamp(1, room),
        })
    }
}

impl Results {
    /// Nothing is kept yet. What another daemon has left in `dir` is removed: nobody has its keys.
    pub fn new(dir: PathBuf) -> Results {
        let results = Results {
            dir,
            kept: Mutex::default(),
        };
        results.clear();
        results
    }

    /// Forgets all, on the disk too.
    pub fn clear(&self) {
        // One that is just being written still has its room.
        let _ = self.lock().forget(|_| true);
        match fs::remove_dir_all(&self.dir) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(
                    "cannot remove the results kept in {}: {e}",
                    self.dir.display()
                );
            }
            _ => {}
        }
    }

    /// What the model of `session` gets of a result: all of it, or as much as `max` bytes hold, with a line that says
    /// what was left out and how to read on. What cannot be kept is cut all the same, and the line says so.
    pub fn fit(&self, session: &str, text: String, max: usize, now_ms: u64) -> String {
        if text.len() <= max {
            return text;
        }
        let key = self.keep(session, &text, now_ms);
        if let Err(e) = &key {
            tracing::warn!("a result was not kept: {}", e.message);
        }
        cut(&text, max, key.ok().as_deref())
    }

    /// Keeps a text for a session, and says with which key it is read. The oldest go where room is wanted.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, session: &str, text: &str, now_ms: u64) -> Result<String> {
        let (file, gone) = {
            let mut kept = self.lock();
            let mut gone = kept.forget(|entry| entry.until_ms <= now_ms);
            while kept.bytes + text.len() > MAX_KEPT && !kept.keys.is_empty() {
                let mut oldest = true;
                gone.extend(kept.forget(|_| std::mem::take(&mut oldest)));
            }
            // Counted before it is written: several at once must not take the same room.
            kept.bytes += text.len();
            kept.next += 1;
            (self.dir.join(kept.next.to_string()), gone)
        };
        // A disk may be slow, and those who ask what there is do not wait for it.
        remove(&gone);
        let written = make_dir(&self.dir).and_then(|()| write(&file, text));
        let mut kept = self.lock();
        if let Err(e) = written {
            kept.bytes -= text.len();
            return Err(e);
        }
        let key = uuid::Uuid::new_v4().simple().to_string();
        kept.keys.push_back(key.clone());
        let entry = Entry {
            session: session.to_owned(),
            file,
            bytes: text.len(),
            until_ms: now_ms + KEPT_MS,
        };
        kept.by_key.insert(key.clone(), entry);
        Ok(key)
    }

    /// Forgets what has been kept for its time, though nobody keeps or reads anything any more.
    pub fn expire(&self, now_ms: u64) {
        let gone = self.lock().forget(|entry| entry.until_ms <= now_ms);
        remove(&gone);
    }

    /// Whether something is kept for a session, which it can read on in.
    pub fn has(&self, session: &str, now_ms: u64) -> bool {
        let kept = self.lock();
        let mut of_it = kept.by_key.values().filter(|e| e.session == session);
        of_it.any(|e| now_ms < e.until_ms)
    }

    /// The answer of `read_result`: a line that says where the part is and what comes next, and the part.
    ///
    /// # Errors
    /// There is no such result, or nothing of it at that offset: what the model is told.
    pub fn read(
        &self,
        session: &str,
        reading: &Reading,
        now_ms: u64,
    ) -> std::result::Result<String, String> {
        self.expire(now_ms);
        let file = {
            let kept = self.lock();
            let entry = kept.by_key.get(&reading.key);
            // Another conversation's key is no key: nobody learns that it exists.
            let own = entry.filter(|entry| entry.session == session);
            own.map(|entry| entry.file.clone())
        };
        let file = file.ok_or(
            "There is no result with this key: results are kept for two hours, as long as there is room. Call the tool again.",
        )?;
        let text = fs::read_to_string(file)
            .map_err(|_| "The result can be read no more. Call the tool again.")?;
        let total = text.len();
        if reading.offset >= total {
            return Err(format!("The result ends at byte {total}."));
        }
        let mut start = reading.offset;
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let end = Shape::of(&text).end(&text, start, reading.limit);
        let next = match end {
            _ if end == total => "this is its end".to_owned(),
            end => format!("next offset: {end}"),
        };
        let part = text.get(start..end).unwrap_or_default();
        Ok(format!(
            "[bytes {start} to {end} of {total}; {next}]\n{part}"
        ))
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Forgets those that `which` says, asked oldest first; their files, to be removed.
    #[must_use]
    fn forget(&mut self, mut which: impl FnMut(&Entry) -> bool) -> Vec<PathBuf> {
        let Kept {
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

/// A file that stays is one too many on the disk until the daemon ends, and is no more counted.
fn remove(files: &[PathBuf]) {
    for file in files {
        if let Err(e) = fs::remove_file(file) {
            tracing::warn!("cannot remove {}: {e}", file.display());
        }
    }
}

/// As much of a text as `max` bytes hold, with a line that says what was left out, and by which key it is read.
pub fn cut(text: &str, max: usize, key: Option<&str>) -> String {
    let total = text.len();
    if total <= max {
        return text.to_owned();
    }
    let shape = Shape::of(text);
    let end = shape.end(text, 0, max.saturating_sub(NOTE).max(1));
    let (head, rest) = text.split_at(end);
    let left = shape.left(text, end);
    let read = match key {
        Some(key) => format!("read_result with key {key} and offset {end} reads on"),
        None => "it is kept nowhere: ask for less".to_owned(),
    };
    format!(
        "{head}\n[… {} of {total} bytes left out{left}; {read}]",
        rest.len()
    )
}

#[cfg(test)]
mod tests;
