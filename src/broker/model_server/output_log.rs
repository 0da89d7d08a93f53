//! Keeps a server's output in a file of bounded size, and its last line in memory for error messages.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

use crate::safety::redact::{self, global_redactor};

/// Maximum size of the log; a longer log is overwritten from its beginning.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Maximum length of a line; a longer line is split.
const MAX_LINE_BYTES: usize = 8192;

/// Maximum length of the line in memory, in characters.
const LAST_LINE_CHARS: usize = 300;

/// The last line of the output that is not blank.
#[derive(Default)]
pub(super) struct LastLine(Mutex<String>);

impl LastLine {
    fn put(&self, line: &str) {
        let line = line.trim();
        if !line.is_empty() {
            let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *last = line.chars().take(LAST_LINE_CHARS).collect();
        }
    }

    /// Returns the line, which is untrusted text from the server.
    pub(super) fn text(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }
}

/// Creates the log. The one of an earlier run is removed, not emptied: another program may have put a link to a file there.
async fn create(path: &Path) -> Option<File> {
    // Fails if there is none.
    let _ = tokio::fs::remove_file(path).await;
    let mut options = OpenOptions::new();
    let created = options.write(true).create_new(true).mode(0o600).open(path);
    created
        .await
        .inspect_err(|e| tracing::warn!("cannot create the log of a model server: {e}"))
        .ok()
}

/// Copies a server's output until its end, without secrets, since servers may print prompts. If the file cannot be
/// written, only the last line is kept: a full disk must not stop the model.
pub(super) async fn copy(mut from: impl AsyncRead + Unpin, path: &Path, last: &LastLine) {
    let file = create(path).await;
    let mut log = OutputLog {
        file,
        size: 0,
        lines: redact::LineRedactor::default(),
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
            } else if line.len() >= MAX_LINE_BYTES {
                // Split between words, since half a secret would not be recognized.
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

/// The destination of a server's output.
struct OutputLog<'a> {
    file: Option<File>,
    size: u64,
    lines: redact::LineRedactor,
    last: &'a LastLine,
}

impl OutputLog<'_> {
    /// Appends a line to `text` without its secrets.
    fn line(&mut self, line: &[u8], text: &mut String) {
        let line = String::from_utf8_lossy(line);
        let end = if line.ends_with('\n') { "\n" } else { "" };
        let Some(line) = self
            .lines
            .line(global_redactor(), line.trim_end_matches('\n'))
        else {
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
    if *size > MAX_FILE_BYTES {
        file.set_len(0).await?;
        file.rewind().await?;
        *size = chunk.len() as u64;
    }
    file.write_all(chunk).await?;
    // Without this a failed write would be reported only by the next one.
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
    async fn the_last_line_is_not_blank() {
        assert_eq!(last(&[]).await, "");
        assert_eq!(last(&[b"one\ntwo\n\n  \n"]).await, "two");
        assert_eq!(last(&[b"one\ntw", b"o\r\n", b" thr", b"ee"]).await, "three");
        assert_eq!(last(&[b"a\xffb\n"]).await, "a\u{fffd}b");
        assert_eq!(last(&[&[b'x'; 5000]]).await.len(), LAST_LINE_CHARS);
    }

    #[tokio::test]
    async fn the_log_holds_no_secret() {
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
        assert!(kept.len() as u64 <= MAX_FILE_BYTES, "{}", kept.len());
        assert!(kept.ends_with(b"the end\n"));
        assert_eq!(last.text(), "the end");
        let mode = std::fs::metadata(&path)
            .expect("a log")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn a_link_in_place_of_the_log_is_not_written_to() {
        let dir = tempfile::tempdir().expect("a scratch directory");
        let (path, other) = (dir.path().join("log"), dir.path().join("other"));
        std::fs::write(&other, "mine").expect("a file");
        for second in [std::fs::hard_link, |other, path| {
            std::os::unix::fs::symlink(other, path)
        }] {
            second(&other, &path).expect("a second name");
            let last = LastLine::default();
            copy(&b"all is well\n"[..], &path, &last).await;
            assert_eq!(last.text(), "all is well");
            assert_eq!(std::fs::read_to_string(&other).expect("text"), "mine");
            std::fs::remove_file(&path).expect("the second name");
        }
    }

    #[tokio::test]
    async fn the_last_line_is_kept_without_a_file() {
        let last = LastLine::default();
        copy(&b"all is well\n"[..], Path::new("/nonexistent/log"), &last).await;
        assert_eq!(last.text(), "all is well");
    }
}
