//! What a server prints: kept in a file of bounded size, and its last line in memory for errors.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};

/// A log that grows past this begins again at its top.
const MAX_FILE: u64 = 1 << 20;

/// How much of a line is kept.
const MAX_LINE: usize = 300;

/// The last line that is not blank.
#[derive(Default)]
pub(super) struct LastLine(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    whole: Vec<u8>,
    current: Vec<u8>,
}

impl LastLine {
    fn push(&self, bytes: &[u8]) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for &byte in bytes {
            if byte == b'\n' {
                let line = std::mem::take(&mut lines.current);
                if !line.trim_ascii().is_empty() {
                    lines.whole = line;
                }
            } else if lines.current.len() < MAX_LINE {
                lines.current.push(byte);
            }
        }
    }

    /// The line as text; it comes from the server, so it is not to be trusted.
    pub(super) fn text(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let current = lines.current.trim_ascii();
        let line = if current.is_empty() {
            lines.whole.trim_ascii()
        } else {
            current
        };
        String::from_utf8_lossy(line).into_owned()
    }
}

/// Copies what the server prints until it ends. A file that cannot be written is done without:
/// a full disk must not stop the model.
pub(super) async fn copy(mut from: impl AsyncRead + Unpin, path: &Path, last: &LastLine) {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .await
        .ok();
    let mut buffer = [0; 8192];
    let mut size = 0;
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        let chunk = buffer.get(..n).unwrap_or_default();
        last.push(chunk);
        size += n as u64;
        if let Some(open) = &mut file
            && write(open, chunk, &mut size).await.is_err()
        {
            file = None;
        }
    }
}

async fn write(file: &mut File, chunk: &[u8], size: &mut u64) -> std::io::Result<()> {
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

    fn last(chunks: &[&[u8]]) -> String {
        let last = LastLine::default();
        for chunk in chunks {
            last.push(chunk);
        }
        last.text()
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(last(&[]), "");
        assert_eq!(last(&[b"one\ntwo\n\n  \n"]), "two");
        assert_eq!(last(&[b"one\ntw", b"o\r\n", b" thr", b"ee"]), "three");
        assert_eq!(last(&[b"a\xffb\n"]), "a\u{fffd}b");
        assert_eq!(last(&[&[b'x'; 5000]]).len(), MAX_LINE);
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
