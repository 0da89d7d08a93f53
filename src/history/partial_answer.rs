//! Partial answers: the text of a running answer on disk, so that a killed daemon does not lose the text that it has shown.
//!
//! Each running answer has a file: a header line and the redacted text so far. A secret is recognised only when enough of
//! it was received. Text that the redactor has not decided on yet is written as a tail, which the next append overwrites;
//! the tail ends before the beginning of a possible secret. The file is removed when the answer's record is in the
//! journal; that of an answer with tool calls stays until the next answer begins or the turn ends. [`recover`] turns files
//! left by a killed daemon into records with the finish `cut_off`.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::cut_off;
use super::journal::{Journal, now_ms};
use super::record::{Record, RecordBody, RecordIds};
use crate::chat::FinishReason;
use crate::error::{ErrorContext, Result};
use crate::paths;
use crate::safety::redact::{RedactStream, Redactor, global_redactor};

/// Version of the file format. Files of other versions are left alone.
const VERSION: u32 = 1;

/// Maximum number of bytes read from a file.
const MAX_FILE: u64 = 64 << 20;

/// Version in the first line of a file, whatever its other fields.
#[derive(Debug, Deserialize)]
struct HeaderVersion {
    v: u32,
}

/// First line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct PartialHeader {
    v: u32,
    started_ms: u64,
    model: String,
    ids: RecordIds,
    /// The turn runs in the background.
    #[serde(default)]
    background: bool,
}

/// A running answer. Dropping it leaves the file, as a kill does. If the file cannot be written, the answer is shown
/// anyway, but cannot be recovered after a kill.
#[derive(Debug, Default)]
pub struct PartialAnswer {
    text: Option<RedactedText>,
    file: Option<PartialFile>,
}

impl PartialAnswer {
    /// Creates the file of an answer in `dir`; an answer outside of sessions (`session` is empty) has none. `ids` are those
    /// of the answer's record, with its turn; `model` is the model's name in the configuration; `background`
    /// says whether the turn runs in the background.
    pub fn create(
        dir: &Path,
        session: &str,
        ids: &RecordIds,
        model: &str,
        background: bool,
    ) -> PartialAnswer {
        if session.is_empty() {
            return PartialAnswer::default();
        }
        let ids = RecordIds {
            session: Some(session.to_owned()),
            ..ids.clone()
        };
        let created = PartialFile::create(dir, ids, model, background);
        let file = created.inspect_err(|e| tracing::warn!("{}", e.message));
        PartialAnswer {
            text: Some(RedactedText::new()),
            file: file.ok(),
        }
    }

    /// Appends text with one small write. Called before the text is shown. A file that cannot be written is removed.
    pub fn append(&mut self, text: &str) {
        let Some(redacted) = &mut self.text else {
            return;
        };
        redacted.push(text.as_bytes());
        if let Some(file) = &mut self.file
            && let Err(e) = file.append(&redacted.certain, &redacted.tail)
        {
            tracing::warn!("{}", e.message);
            remove(&mut self.file);
        }
    }

    /// Returns the redacted text that no later text changes, as far as it was not returned yet. Together, these parts are the
    /// beginning of the text of the answer's record.
    pub fn settled(&mut self) -> &[u8] {
        self.text.as_mut().map_or(&[], RedactedText::settled)
    }

    /// Removes the file, once the answer's record and the results of its calls are in the journal.
    pub fn finish(mut self) {
        remove(&mut self.file);
    }
}

fn remove(file: &mut Option<PartialFile>) {
    if let Some(file) = file.take() {
        // A file that remains is recognised by its turn in `recover`.
        let _ = fs::remove_file(&file.path);
    }
}

/// The text of a running answer as the redactor decides on it.
#[derive(Debug)]
struct RedactedText {
    redactor: &'static Redactor,
    stream: RedactStream,
    /// Text that the last push has made certain.
    certain: Vec<u8>,
    /// The text after it, up to the beginning of a possible secret. The next push may change this text.
    tail: Vec<u8>,
    /// Text that was made certain since [`RedactedText::settled`] was last called, then the settled text after it.
    unread: Vec<u8>,
    /// The bytes at the start of `unread` that were returned, because they were settled before they were certain.
    early: Vec<u8>,
    returned: Vec<u8>,
}

impl RedactedText {
    fn new() -> RedactedText {
        RedactedText {
            redactor: global_redactor(),
            stream: global_redactor().stream(),
            certain: Vec::new(),
            tail: Vec::new(),
            unread: Vec::new(),
            early: Vec::new(),
            returned: Vec::new(),
        }
    }

    fn settled(&mut self) -> &[u8] {
        let certain = self.unread.len();
        // Only text without an incomplete piece at its beginning follows the certain part.
        self.stream.peek(&mut self.unread);
        let pairs = self.early.iter().zip(&self.unread);
        let mut from = pairs.take_while(|(early, now)| early == now).count();
        let is_ahead = from == self.unread.len();
        // Text that was settled by mistake is followed by what it should have been, from the start of a character.
        let is_within = |byte: Option<&u8>| byte.is_some_and(|byte| byte & 0xc0 == 0x80);
        while from < self.early.len() && from > 0 && is_within(self.unread.get(from)) {
            from -= 1;
        }
        self.returned.clear();
        self.returned
            .extend_from_slice(self.unread.get(from..).unwrap_or_default());
        if !is_ahead {
            self.early.clone_from(&self.unread);
        }
        self.early.drain(..certain.min(self.early.len()));
        self.unread.clear();
        &self.returned
    }

    fn push(&mut self, text: &[u8]) {
        self.certain.clear();
        self.stream.push(text, &mut self.certain);
        self.unread.extend_from_slice(&self.certain);
        // The positions of the secrets are not needed, and would grow with the answer.
        self.stream.take_found();
        self.tail.clear();
        self.stream.clone().finish(&mut self.tail);
        self.tail.truncate(self.redactor.certain_end(&self.tail));
    }
}

/// File of a running answer.
#[derive(Debug)]
struct PartialFile {
    path: PathBuf,
    file: File,
    /// Start of the tail, which the next append overwrites.
    certain_end: u64,
    /// Length of the file.
    file_end: u64,
    buffer: Vec<u8>,
}

impl PartialFile {
    fn create(dir: &Path, ids: RecordIds, model: &str, background: bool) -> Result<PartialFile> {
        paths::make_dir(dir)?;
        let path = dir.join(format!("{}.partial", uuid::Uuid::now_v7()));
        let what = || format!("cannot write {}", path.display());
        let header = PartialHeader {
            v: VERSION,
            started_ms: now_ms(),
            model: model.to_owned(),
            ids,
            background,
        };
        let mut line = serde_json::to_vec(&header).context(what)?;
        line.push(b'\n');
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .context(what)?;
        file.write_all(&line)
            .inspect_err(|_| {
                // On a full disk the empty file would remain.
                let _ = fs::remove_file(&path);
            })
            .context(what)?;
        let end = line.len() as u64;
        Ok(PartialFile {
            path,
            file,
            certain_end: end,
            file_end: end,
            buffer: Vec::new(),
        })
    }

    fn append(&mut self, certain: &[u8], tail: &[u8]) -> Result<()> {
        self.buffer.clear();
        self.buffer.extend_from_slice(certain);
        self.buffer.extend_from_slice(tail);
        let file_end = self.certain_end + self.buffer.len() as u64;
        let written = self.file.write_all_at(&self.buffer, self.certain_end);
        let written = match file_end < self.file_end {
            // A secret was recognised, and its mark is shorter than the tail was.
            true => written.and_then(|()| self.file.set_len(file_end)),
            false => written,
        };
        written.context(|| format!("cannot write {}", self.path.display()))?;
        self.certain_end += certain.len() as u64;
        self.file_end = file_end;
        Ok(())
    }
}

/// An answer that was running when its daemon was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredAnswer {
    /// The session.
    pub session: String,
    /// The shell of the prompt.
    pub shell: Option<String>,
    /// The turn ran in the background.
    pub background: bool,
}

/// The outcome of [`recover_file`].
#[derive(Debug, Clone, PartialEq, Eq)]
enum Recovery {
    /// The text, if any, was added to its session; the file is to be removed.
    Added(RecoveredAnswer),
    /// Nothing to add: no text, the answer is in the journal, or its session was deleted; the file is to be removed.
    Obsolete,
    /// Not a file of this version; it stays.
    Foreign,
}

/// Adds the answers that a killed daemon left in `dir` to their sessions, and returns them. Must be called before
/// a session is opened, on a thread that may block.
///
/// # Errors
/// The directory cannot be read. An answer that cannot be recovered now is left for the next start.
pub fn recover(journal: &Journal, dir: &Path) -> Result<Vec<RecoveredAnswer>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).context(|| format!("cannot list {}", dir.display())),
    };
    let regular = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    let mut files: Vec<PathBuf> = regular.map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "partial"));
    // Their names sort by time.
    files.sort();
    let mut recovered = Vec::new();
    for path in files {
        match recover_file(journal, &path) {
            Ok(Recovery::Foreign) => tracing::warn!(
                "left {} alone: not a partial answer of version {VERSION}",
                path.display()
            ),
            Ok(recovery) => {
                if let Recovery::Added(answer) = recovery {
                    recovered.push(answer);
                }
                let _ = fs::remove_file(&path);
            }
            Err(e) => tracing::warn!("cannot recover {}: {}", path.display(), e.message),
        }
    }
    Ok(recovered)
}

/// Reads at most [`MAX_FILE`] bytes of a regular file. A FIFO or a symlink in its place must not block the daemon.
fn read_regular(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = paths::read_own(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Adds the answer in this file to its session, unless the answer is there already or is empty.
fn recover_file(journal: &Journal, path: &Path) -> Result<Recovery> {
    let bytes = read_regular(path).context(|| format!("cannot read {}", path.display()))?;
    let mut parts = bytes.splitn(2, |b| *b == b'\n');
    // Without a line end the header is torn.
    let (Some(header), Some(text)) = (parts.next(), parts.next()) else {
        return Ok(Recovery::Obsolete);
    };
    let version = serde_json::from_slice::<HeaderVersion>(header).map(|header| header.v);
    let (Ok(VERSION), Ok(header)) = (version, serde_json::from_slice::<PartialHeader>(header))
    else {
        return Ok(Recovery::Foreign);
    };
    // The last character may be incomplete.
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end_matches('\u{fffd}');
    let text = global_redactor().redact_unfinished(text);
    let Some(session) = header.ids.session.clone() else {
        return Ok(Recovery::Obsolete);
    };
    // The session was deleted.
    if journal.find(&session).ok().as_ref() != Some(&session) {
        return Ok(Recovery::Obsolete);
    }
    let recovered = RecoveredAnswer {
        session: session.clone(),
        shell: header.ids.shell.clone(),
        background: header.background,
    };
    // This adds the results of tool calls that were running.
    let (log, records) = journal.open(&session)?;
    let of_turn = |ids: &RecordIds| ids.turn.is_some() && ids.turn == header.ids.turn;
    let of_prompt = |ids: &RecordIds| ids.prompt.is_some() && ids.prompt == header.ids.prompt;
    let is_answer = |r: &&Record| matches!(r.body, RecordBody::Assistant { .. });
    let mut answers = records.iter().filter(is_answer);
    let last = answers.clone().rfind(|r| of_prompt(&r.ids));
    let is_recorded = answers.any(|r| of_turn(&r.ids));
    let (goes_on, was_cut_off) = match last.map(|answer| &answer.body) {
        Some(RecordBody::Assistant { calls, finish, .. }) => (
            !calls.is_empty() || *finish == FinishReason::Paused,
            *finish == FinishReason::CutOff,
        ),
        _ => (false, false),
    };
    let modified = fs::metadata(path).and_then(|m| m.modified()).ok();
    let last_ms = modified.map_or(header.started_ms, super::journal::milliseconds);
    let ms = last_ms.saturating_sub(header.started_ms);
    let (ids, answer) = match (is_recorded, goes_on) {
        // The tool calls were running, or had just ended.
        (true, false) if was_cut_off => return Ok(Recovery::Added(recovered)),
        (true, false) => return Ok(Recovery::Obsolete),
        (true, true) => cut_off::unsent_round(&header.ids, header.model),
        // Nothing was shown, but the shell of a background turn waits for a notice.
        (false, false) if text.is_empty() => {
            return Ok(match header.background {
                true => Recovery::Added(recovered),
                false => Recovery::Obsolete,
            });
        }
        (false, _) => {
            let answer = cut_off::cut_off_answer(text, header.model, None, ms);
            (header.ids, answer)
        }
    };
    log.append(ids, answer)?;
    log.sync()?;
    Ok(Recovery::Added(recovered))
}

#[cfg(test)]
mod tests;
