//! What a server prints: kept in a file of bounded size, and its last line in memory for errors.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use crate::safety::redact::{self, ours};

/// A log that grows past this begins again at its top.
const MAX_FILE: u64 = 1 << 20;

/// A longer line is several.
const MAX_LINE: usize = 8192;

/// How much of a line is kept in memory, in characters.
const WORDS: usize = 300;

/// The last line that is not blank.
#[derive(Default)]
pub(super) struct LastLine(Mutex<String>);

impl LastLine {
    fn put(&self, line: &str) {
        let line = line.trim();
        if !line.is_empty() {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *last = line.chars().take(WORDS).collect();
        }
    }

    /// The line as text; it comes from the server, so it is not to be trusted.
    pub(super) fn text(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

/// Copies what the server prints until it ends, without secrets: it may print what it is asked. A file that cannot be
/// written is done without: a full disk must not stop the model.
pub(super) async fn copy(mut from: impl AsyncRead + Unpin, path: &Path, last: &LastLine) {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .await
        .ok();
    let mut log = Log {
        file,
        size: 0,
        lines: redact::Lines::default(),
        last,
    };
    let mut buffer = [0; 8192];
    let mut line = Vec::new();
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let mut text = String::new();
        for part in buffer[..n].split_inclusive(|&b| b == b'\n') {
            line.extend_from_slice(part);
            if line.ends_with(b"\n") {
                log.line(&line, &mut text);
                line.clear();
            } else if line.len() >= MAX_LINE {
                // Between words: half a secret would not be known for one.
                let word = line.iter().rposition(u8::is_ascii_whitespace);
                let rest = line.split_off(word.map_or(line.len(), |at| at + 1));
                log.line(&line, &mut text);
                line = rest;
            }
        }
        log.write(&text).await;
    }
    let mut text = String::new();
    log.line(&line, &mut text);
    log.write(&text).await;
}

/// Where what was printed goes.
struct Log<'a> {
    file: Option<File>,
    size: u64,
    lines: redact::Lines,
    last: &'a LastLine,
}

impl Log<'_> {
    /// A line with its end, without its secrets.
    fn line(&mut self, line: &[u8], text: &mut String) {
        let line = String::from_utf8_lossy(line);
        let end = if line.ends_with('\n') { "\n" } else { "" };
        let Some(line) = self.lines.line(ours(), line.trim_end_matches('\n')) else {
            return;
        };
        self.last.put(&line);
        text.push_str(&line);
        text.push_str(end);
    }

    async fn write(&mut self, text: &str) {
        if let Some(file) = &mut self.file
            && write(file, text.as_bytes(), &mut self.size).await.is_err()
        {
            self.file = None;
        }
    }
}

async fn write(file: &mut File, chunk: &[u8], size: &mut u64) -> std::io::Result<()> {
    *size += chunk.len() as u64;
    if *size > MAX_FILE {
        file.set_len(0).await?;
        file.rewind().await?;
        *size = chunk.len() as u64;
    }
    file.write_all(chunk).await?;
    // Otherwise a failed write would show up at the next one only.
    file.flush().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn last(chunks: &[&[u8]]) -> String {
        let (from, mut to) = tokio::io::simplex(16);
        let last = LastLine::default();
        let write = async move {
            for chunk in chunks {
                to.write_all(chunk).await.expect("it is read");
            }
            to.shutdown().await.expect("it is read to its end");
        };
        tokio::join!(write, copy(from, Path::new("/nonexistent/log"), &last));
        last.text()
    }

    #[tokio::test]
    async fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(last(&[]).await, "");
        assert_eq!(last(&[b"one\ntwo\n\n  \n"]).await, "two");
        assert_eq!(last(&[b"one\ntw", b"o\r\n", b" thr", b"ee"]).await, "three");
        assert_eq!(last(&[b"a\xffb\n"]).await, "a\u{fffd}b");
        assert_eq!(last(&[&[b'x'; 5000]]).await.len(), WORDS);
    }

    #[tokio::test]
    async fn no_secret_comes_to_stand_in_it() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let path = dir.path().join("log");
        let token = concat!("ghp_", "q7Rk2ZpL9vXw3TbN5mHs8YdJ4cFg6aQe1uVo");
        let filler = "word ".repeat(2000);
        let text = format!("prompt: {token}\n{filler}{token} end\nkey {token}");
        let last = LastLine::default();
        copy(text.as_bytes(), &path, &last).await;
        let mark = "[REDACTED:github-token]";
        let kept = std::fs::read_to_string(&path).expect("a log");
        assert_eq!(
            kept,
            format!("prompt: {mark}\n{filler}{mark} end\nkey {mark}")
        );
        assert_eq!(last.text(), format!("key {mark}"));
    }

    #[tokio::test]
    async fn the_file_is_bounded_and_private_and_keeps_the_end() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().expect("a scratch directory");
        let path = dir.path().join("log");
        let mut text = b"line\n".repeat(500_000);
        text.extend_from_slice(b"the end\n");
        let last = LastLine::default();
        copy(text.as_slice(), &path, &last).await;
        let kept = std::fs::read(&path).expect("a log");
        assert!(kept.len() as u64 <= MAX_FILE, "{}", kept.len());
        assert!(kept.ends_with(b"the end\n"));
        assert_eq!(last.text(), "the end");
        let mode = std::fs::metadata(&path)
            .expect("a log")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn without_a_file_the_last_line_is_still_known() {
        let last = LastLine::default();
        copy(&b"all is well\n"[..], Path::new("/nonexistent/log"), &last).await;
        assert_eq!(last.text(), "all is well");
    }
}
