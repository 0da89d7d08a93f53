//! What a server prints for people: kept in a file of bounded size, and its last lines in memory for errors.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::super::failure::brief;
use crate::safety::redact::{Lines, ours};
use crate::secret::Secret;

/// A log that grows past this begins again at its top.
const MAX_FILE: u64 = 1 << 20;

/// A longer line is several.
const MAX_LINE: usize = 8192;

/// How many characters of a line are shown.
const WORDS: usize = 200;

/// How many lines are looked at for what went wrong.
const LAST: usize = 16;

/// A value of the environment that is shorter or ordinary is no secret, and masking it would spoil the log.
const MIN_SECRET: usize = 6;
const ORDINARY: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// What of an environment must not be shown.
pub(in super::super) fn secrets(env: &[(String, Secret)]) -> Vec<Secret> {
    let hidden = env.iter().filter(|(name, value)| {
        value.expose().len() >= MIN_SECRET && !ORDINARY.contains(&name.as_str())
    });
    hidden.map(|(_, value)| value.clone()).collect()
}

/// The log of one server. A file that cannot be written is done without: a full disk must not stop a server.
#[derive(Debug)]
pub(in super::super) struct Log {
    kept: Mutex<Kept>,
    secrets: Vec<Secret>,
}

#[derive(Debug, Default)]
struct Kept {
    file: Option<File>,
    size: u64,
    /// Of those that are not blank, oldest first.
    last: VecDeque<String>,
    lines: Lines,
}

impl Log {
    /// Goes on with the file. The values of `env` do not come to stand in it.
    pub(in super::super) fn open(path: &Path, env: &[(String, Secret)]) -> Log {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path);
        let file = file
            .inspect_err(|e| tracing::warn!("cannot write {}: {e}", path.display()))
            .ok();
        let size = file.as_ref().and_then(|f| f.metadata().ok());
        Log {
            kept: Mutex::new(Kept {
                file,
                size: size.map_or(0, |m| m.len()),
                last: VecDeque::new(),
                lines: Lines::default(),
            }),
            secrets: secrets(env),
        }
    }

    /// Adds a line, given without its end.
    pub(in super::super) fn line(&self, line: &[u8]) {
        for piece in line.chunks(MAX_LINE) {
            let mut line = String::from_utf8_lossy(piece).into_owned();
            for secret in &self.secrets {
                line = secret.mask(&line);
            }
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(line) = kept.lines.line(ours(), &line) else {
                continue;
            };
            kept.write(&line);
            if !line.trim().is_empty() {
                if kept.last.len() == LAST {
                    kept.last.pop_front();
                }
                // Colours are meant for a terminal, and say nothing in an error.
                let plain = strip_ansi_escapes::strip_str(&line);
                kept.last
                    .push_back(plain.trim_end().chars().take(WORDS).collect());
            }
        }
    }

    /// What it said last, not yet fit to be shown: the last line, unless one shortly before speaks of an error and is
    /// no part of a stack. Launchers and runtimes like to end with something else than what went wrong.
    pub(super) fn last_words(&self) -> Option<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let tells = |line: &&String| {
            !line.starts_with(char::is_whitespace) && line.to_ascii_lowercase().contains("error")
        };
        let words = kept.last.iter().find(tells).or(kept.last.back())?;
        Some(brief(words))
    }
}

impl Kept {
    fn write(&mut self, line: &str) {
        let Some(file) = &mut self.file else {
            return;
        };
        let mut write = || -> io::Result<()> {
            if self.size > MAX_FILE {
                file.set_len(0)?;
                self.size = 0;
            }
            // In one piece: another connection of the same server may write to the file as well.
            let line = format!("{line}\n");
            file.write_all(line.as_bytes())?;
            self.size += line.len() as u64;
            Ok(())
        };
        if write().is_err() {
            self.file = None;
        }
    }
}

/// Adds what comes, line by line, until it ends.
pub(super) async fn copy(mut from: impl AsyncRead + Unpin, log: &Log) {
    let mut buffer = [0; 8192];
    let mut line = Vec::new();
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let chunk = buffer.get(..n).unwrap_or_default();
        for part in chunk.split_inclusive(|&b| b == b'\n') {
            line.extend_from_slice(part);
            if let Some(text) = line.strip_suffix(b"\n") {
                log.line(text.strip_suffix(b"\r").unwrap_or(text));
                line.clear();
            } else if line.len() >= MAX_LINE {
                // Between words: half a secret would not be known for one.
                let word = line.iter().rposition(u8::is_ascii_whitespace);
                let end = word.map_or(line.len(), |at| at + 1);
                log.line(&line[..end]);
                line.drain(..end);
            }
        }
    }
    if !line.is_empty() {
        log.line(&line);
    }
}

#[cfg(test)]
mod tests;
