//! Log of a server's stderr and log messages: a file of bounded size, and the last lines in memory for errors.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::super::excerpt::excerpt;
use crate::paths::open_own;
use crate::safety::redact::{LineRedactor, global_redactor};
use crate::secret::Secret;

/// Maximum size of the file in bytes; it is then truncated.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum length of a line in bytes; longer lines are split.
const MAX_LINE_BYTES: usize = 8192;

/// Maximum length in characters of a line kept in memory.
const MAX_KEPT_CHARS: usize = 200;

/// Number of lines kept in memory, among which an error message is searched.
const KEPT_LINES: usize = 16;

/// Minimum length in bytes of an environment value that is masked, and variables that are never masked.
const MIN_SECRET_BYTES: usize = 6;
const PUBLIC_VARIABLES: &[&str] = &[
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ",
    "USER",
];

/// Values of an environment that must not appear in logs or errors.
pub(in super::super) fn environment_secrets(env: &[(String, Secret)]) -> Vec<Secret> {
    let hidden = env.iter().filter(|(name, value)| {
        value.expose().len() >= MIN_SECRET_BYTES && !PUBLIC_VARIABLES.contains(&name.as_str())
    });
    hidden.map(|(_, value)| value.clone()).collect()
}

/// Log of one server. Write errors are ignored: a full disk must not stop a server.
#[derive(Debug)]
pub(in super::super) struct ServerLog {
    state: Mutex<LogState>,
    secrets: Vec<Secret>,
}

#[derive(Debug, Default)]
struct LogState {
    file: Option<File>,
    size: u64,
    /// Last lines that are not blank, oldest first.
    last: VecDeque<String>,
    lines: LineRedactor,
}

impl ServerLog {
    /// Opens the log file for appending. Values of `env` are masked in it.
    pub(in super::super) fn open(path: &Path, env: &[(String, Secret)]) -> ServerLog {
        let file = open_own(OpenOptions::new().append(true).create(true), path);
        let file = file
            .inspect_err(|e| tracing::warn!("cannot write {}: {e}", path.display()))
            .ok();
        let size = file.as_ref().and_then(|f| f.metadata().ok());
        ServerLog {
            state: Mutex::new(LogState {
                file,
                size: size.map_or(0, |m| m.len()),
                last: VecDeque::new(),
                lines: LineRedactor::default(),
            }),
            secrets: environment_secrets(env),
        }
    }

    /// Appends a line, given without its line end.
    pub(in super::super) fn append_line(&self, line: &[u8]) {
        for piece in line.chunks(MAX_LINE_BYTES) {
            let mut line = String::from_utf8_lossy(piece).into_owned();
            for secret in &self.secrets {
                line = secret.mask(&line);
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(line) = state.lines.line(global_redactor(), &line) else {
                continue;
            };
            state.write(&line);
            if !line.trim().is_empty() {
                if state.last.len() == KEPT_LINES {
                    state.last.pop_front();
                }
                // Colour codes are useless in an error message.
                let plain = strip_ansi_escapes::strip_str(&line);
                state
                    .last
                    .push_back(plain.trim_end().chars().take(MAX_KEPT_CHARS).collect());
            }
        }
    }

    /// Most relevant of the last lines, not cleaned for display: the first one that mentions an error and is not indented
    /// like a stack trace, else the last line. Launchers and runtimes often print further lines after the error.
    pub(super) fn last_error_line(&self) -> Option<String> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mentions_error = |line: &&String| {
            !line.starts_with(char::is_whitespace) && line.to_ascii_lowercase().contains("error")
        };
        let words = state
            .last
            .iter()
            .find(mentions_error)
            .or(state.last.back())?;
        Some(excerpt(words))
    }
}

impl LogState {
    fn write(&mut self, line: &str) {
        let Some(file) = &mut self.file else {
            return;
        };
        let mut write = || -> io::Result<()> {
            if self.size > MAX_FILE_BYTES {
                file.set_len(0)?;
                self.size = 0;
            }
            // One write: another connection of the same server may append to the same file.
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

/// Appends lines from a stream until it ends.
pub(super) async fn copy_lines(mut from: impl AsyncRead + Unpin, log: &ServerLog) {
    let mut buffer = [0; 8192];
    let mut line = Vec::new();
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let chunk = buffer.get(..n).unwrap_or_default();
        for part in chunk.split_inclusive(|&b| b == b'\n') {
            line.extend_from_slice(part);
            if let Some(text) = line.strip_suffix(b"\n") {
                log.append_line(text.strip_suffix(b"\r").unwrap_or(text));
                line.clear();
            } else if line.len() >= MAX_LINE_BYTES {
                // Split between words, so that a secret is not split and missed by the mask.
                let last_space = line.iter().rposition(u8::is_ascii_whitespace);
                let end = last_space.map_or(line.len(), |at| at + 1);
                log.append_line(&line[..end]);
                line.drain(..end);
            }
        }
    }
    if !line.is_empty() {
        log.append_line(&line);
    }
}

#[cfg(test)]
mod tests;
