//! The text of an answer that is still coming, so that a killed daemon does not lose what was shown.
//!
//! Each running answer has a file: a header line and the text so far, without secrets. A secret is recognised only when
//! enough of it has come. What is not certain yet is written as well, as a tail that the next append overwrites, in which
//! the beginning of a possible secret is left out. The file is removed when the answer's record is in the journal;
//! [`recover`] turns leftovers into records marked `cut_off`.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::journal::{Journal, now_ms};
use super::record::{RecordBody, RecordIds};
use crate::error::{ErrorContext, Result};
use crate::paths;
use crate::safety::redact::{RedactStream, Redactor, global_redactor};

/// Version of the files.
const VERSION: u32 = 1;

/// `finish` of a recovered answer.
pub const CUT_OFF: &str = "cut_off";

/// The first line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct PartialHeader {
    v: u32,
    started_ms: u64,
    model: String,
    ids: RecordIds,
}

/// An answer that is coming. Dropping it leaves the file, as a kill does. Where the file cannot be written the answer is
/// shown all the same, and would be lost with the daemon.
#[derive(Debug, Default)]
pub struct PartialAnswer {
    file: Option<PartialFile>,
}

impl PartialAnswer {
    /// Creates the file of an answer of this session in `dir`; an answer outside of sessions (without an id) has none. `ids` are those of the answer's record, its turn among them;
    /// `model` is the model's name in the configuration.
    pub fn create(dir: &Path, session: &str, ids: &RecordIds, model: &str) -> PartialAnswer {
        if session.is_empty() {
            return PartialAnswer::default();
        }
        let ids = RecordIds {
            session: Some(session.to_owned()),
            ..ids.clone()
        };
        let created = PartialFile::create(dir, ids, model);
        let file = created.inspect_err(|e| tracing::warn!("{}", e.message));
        PartialAnswer { file: file.ok() }
    }

    /// Adds text, before it is shown to anyone: one small write.
    pub fn append(&mut self, text: &str) {
        if let Some(file) = &mut self.file
            && let Err(e) = file.append(text)
        {
            tracing::warn!("{}", e.message);
            self.file = None;
        }
    }

    /// Removes the file: the answer's record is in the journal.
    pub fn finish(self) {
        if let Some(file) = self.file {
            // A file that stays is recognised by its turn when it is recovered.
            let _ = fs::remove_file(&file.path);
        }
    }
}

/// The file of an answer.
#[derive(Debug)]
struct PartialFile {
    path: PathBuf,
    file: File,
    redactor: &'static Redactor,
    stream: RedactStream,
    /// Where the text begins that the next append overwrites.
    certain_end: u64,
    /// Where the file ends.
    file_end: u64,
    buffer: Vec<u8>,
    tail: Vec<u8>,
}

impl PartialFile {
    fn create(dir: &Path, ids: RecordIds, model: &str) -> Result<PartialFile> {
        paths::make_dir(dir)?;
        let path = dir.join(format!("{}.partial", uuid::Uuid::now_v7()));
        let what = || format!("cannot write {}", path.display());
        let header = PartialHeader {
            v: VERSION,
            started_ms: now_ms(),
            model: model.to_owned(),
            ids,
        };
        let mut line = serde_json::to_vec(&header).context(what)?;
        line.push(b'\n');
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .context(what)?;
        file.write_all(&line).context(what)?;
        let end = line.len() as u64;
        Ok(PartialFile {
            path,
            file,
            redactor: global_redactor(),
            stream: global_redactor().stream(),
            certain_end: end,
            file_end: end,
            buffer: Vec::new(),
            tail: Vec::new(),
        })
    }

    fn append(&mut self, text: &str) -> Result<()> {
        self.buffer.clear();
        self.stream.push(text.as_bytes(), &mut self.buffer);
        // Where the secrets stood is not needed, and would grow with the answer.
        self.stream.take_found();
        let certain = self.buffer.len() as u64;
        self.tail.clear();
        self.stream.clone().finish(&mut self.tail);
        let end = self.redactor.certain_end(&self.tail);
        self.buffer.extend_from_slice(&self.tail[..end]);
        let file_end = self.certain_end + self.buffer.len() as u64;
        let written = self.file.write_all_at(&self.buffer, self.certain_end);
        let written = match file_end < self.file_end {
            // A secret became certain: its mark is shorter.
            true => written.and_then(|()| self.file.set_len(file_end)),
            false => written,
        };
        written.context(|| format!("cannot write {}", self.path.display()))?;
        self.certain_end += certain;
        self.file_end = file_end;
        Ok(())
    }
}

/// Adds the answers that a killed daemon left in `dir` to their sessions, and returns how many. To be called before a
/// session is opened.
///
/// # Errors
/// The directory cannot be read. An answer that cannot be recovered now is left for the next start.
pub fn recover(journal: &Journal, dir: &Path) -> Result<usize> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(0),
        Err(e) => return Err(e).context(|| format!("cannot list {}", dir.display())),
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "partial"));
    // Their names sort by time.
    files.sort();
    let mut recovered = 0;
    for path in files {
        match recover_file(journal, &path) {
            Ok(added) => {
                recovered += usize::from(added);
                let _ = fs::remove_file(&path);
            }
            Err(e) => tracing::warn!("cannot recover {}: {}", path.display(), e.message),
        }
    }
    Ok(recovered)
}

/// Adds the answer in this file to its session, unless it is there or is empty.
fn recover_file(journal: &Journal, path: &Path) -> Result<bool> {
    let bytes = fs::read(path).context(|| format!("cannot read {}", path.display()))?;
    let mut parts = bytes.splitn(2, |b| *b == b'\n');
    let (Some(header), Some(text)) = (parts.next(), parts.next()) else {
        return Ok(false);
    };
    let Ok(header) = serde_json::from_slice::<PartialHeader>(header) else {
        return Ok(false);
    };
    // The last character may be incomplete.
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end_matches('\u{fffd}');
    let Some(session) = header.ids.session.clone().filter(|_| !text.is_empty()) else {
        return Ok(false);
    };
    // Without a file for the session there is nothing it could be added to.
    if journal.find(&session).is_err() {
        return Ok(false);
    }
    let (log, records) = journal.open(&session)?;
    let is_same = |ids: &RecordIds| ids.turn.is_some() && ids.turn == header.ids.turn;
    let mut answers = records
        .iter()
        .filter(|r| matches!(r.body, RecordBody::Assistant { .. }));
    if answers.any(|r| is_same(&r.ids)) {
        return Ok(false);
    }
    let modified = fs::metadata(path).and_then(|m| m.modified()).ok();
    let last_ms = modified.map_or(header.started_ms, super::journal::milliseconds);
    let answer = RecordBody::Assistant {
        text: text.to_owned(),
        calls: Vec::new(),
        model: header.model,
        finish: CUT_OFF.to_owned(),
        error: None,
        prompt_tokens: None,
        completion_tokens: None,
        ms: last_ms.saturating_sub(header.started_ms),
    };
    log.append(header.ids, answer)?;
    log.sync()?;
    Ok(true)
}

#[cfg(test)]
mod tests;
