//! The output of a worker: lines of progress, and the beginning of stdout as text.

use std::os::fd::OwnedFd;

use nix::errno::Errno;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

/// Longest line of progress, in bytes; more is cut into several.
const MAX_LINE: usize = 2000;
/// Maximum number of lines of one call.
const MAX_LINES: usize = 2000;
/// Maximum size of the text that is kept of one call.
const MAX_TEXT: usize = 4 << 20;

/// A pipe with the output of a worker.
#[derive(Debug)]
pub(super) struct OutputPipe {
    receiver: pipe::Receiver,
    is_open: bool,
    bytes: Vec<u8>,
}

impl OutputPipe {
    /// Takes the read end of a pipe. Must run in a runtime.
    pub(super) fn new(reader: OwnedFd) -> std::io::Result<OutputPipe> {
        Ok(OutputPipe {
            receiver: pipe::Receiver::from_owned_fd(reader)?,
            is_open: true,
            bytes: Vec::new(),
        })
    }

    /// Waits for output; for ever if the pipe is closed. Cancel-safe.
    pub(super) async fn more(&mut self) {
        if !self.is_open {
            std::future::pending::<()>().await;
        }
        match self.receiver.read_buf(&mut self.bytes).await {
            Ok(0) | Err(_) => self.is_open = false,
            Ok(_) => {}
        }
    }

    /// Discards the output read so far.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Reads the current content of the pipe. Text that a worker printed before it answered is in the pipe when the answer arrives.
    pub(super) fn read_waiting(&mut self) {
        let mut buffer = [0; 65536];
        // Bounded: another process of the worker may print without end.
        for _ in 0..64 {
            match nix::unistd::read(&self.receiver, &mut buffer) {
                Ok(0) => {
                    self.is_open = false;
                    return;
                }
                Ok(length) => self.bytes.extend(buffer.iter().take(length)),
                Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// The output of one call.
#[derive(Debug)]
pub(super) struct CallOutput<'a> {
    progress: &'a mpsc::Sender<String>,
    lines: usize,
    text: Vec<u8>,
    left_out: usize,
}

impl<'a> CallOutput<'a> {
    pub(super) fn new(progress: &'a mpsc::Sender<String>) -> CallOutput<'a> {
        CallOutput {
            progress,
            lines: 0,
            text: Vec::new(),
            left_out: 0,
        }
    }

    /// Sends the complete lines of a pipe on. `keeps` says whether they also become text.
    pub(super) fn take(&mut self, pipe: &mut OutputPipe, keeps: bool) {
        let bytes = std::mem::take(&mut pipe.bytes);
        let mut rest = bytes.as_slice();
        loop {
            let end = match memchr::memchr(b'\n', rest) {
                Some(end) if end < MAX_LINE => end + 1,
                _ if rest.len() > MAX_LINE => MAX_LINE,
                _ => break,
            };
            let (line, after) = rest.split_at(end);
            self.line(line, keeps);
            rest = after;
        }
        pipe.bytes = rest.to_vec();
    }

    /// Sends everything on that a pipe holds.
    pub(super) fn finish(&mut self, pipe: &mut OutputPipe, keeps: bool) {
        pipe.read_waiting();
        self.take(pipe, keeps);
        let rest = std::mem::take(&mut pipe.bytes);
        if !rest.is_empty() {
            self.line(&rest, keeps);
        }
    }

    fn line(&mut self, line: &[u8], keeps: bool) {
        if keeps {
            let fits = line.len().min(MAX_TEXT.saturating_sub(self.text.len()));
            self.text.extend(line.iter().take(fits));
            self.left_out += line.len() - fits;
        }
        self.lines += 1;
        if self.lines > MAX_LINES {
            return;
        }
        let text = match self.lines {
            MAX_LINES => "further output is not shown".to_owned(),
            _ => String::from_utf8_lossy(line).trim_end().to_owned(),
        };
        // Who shows progress may be slow or gone: a worker must not wait for it.
        if !text.is_empty() {
            let _ = self.progress.try_send(text);
        }
    }

    /// Returns the kept text.
    pub(super) fn into_text(self) -> String {
        let mut text = String::from_utf8_lossy(&self.text).into_owned();
        if self.left_out > 0 {
            text.push_str(&format!("\n[… {} bytes left out]\n", self.left_out));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a pipe that holds these bytes, and whose write end is closed.
    fn pipe_with(bytes: &[u8]) -> OutputPipe {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(writer);
        let mut pipe = OutputPipe::new(reader.into()).unwrap();
        pipe.bytes = bytes.to_vec();
        pipe
    }

    #[tokio::test]
    async fn lines_are_cut_at_their_ends_and_at_the_limit() {
        let (progress, mut shown) = mpsc::channel(16);
        let mut output = CallOutput::new(&progress);
        let long = "x".repeat(MAX_LINE + 10);
        let mut pipe = pipe_with(format!("one\n\n{long}\ntail").as_bytes());
        output.take(&mut pipe, true);
        assert_eq!(pipe.bytes, b"tail");
        output.finish(&mut pipe, true);
        let mut lines = Vec::new();
        while let Ok(line) = shown.try_recv() {
            lines.push(line);
        }
        assert_eq!(lines, ["one", &long[..MAX_LINE], &long[..10], "tail"]);
        assert_eq!(output.into_text(), format!("one\n\n{long}\ntail"));
    }

    /// Millions of lines in one read take time in proportion to them, because the runtime thread does nothing else meanwhile.
    #[tokio::test]
    async fn a_read_full_of_empty_lines_is_taken_at_once() {
        let (progress, mut shown) = mpsc::channel(1);
        let mut output = CallOutput::new(&progress);
        let mut pipe = pipe_with(&vec![b'\n'; 4 << 20]);
        output.take(&mut pipe, true);
        assert_eq!(pipe.bytes, b"");
        assert_eq!(shown.try_recv().unwrap(), "further output is not shown");
        assert_eq!(output.into_text().len(), 4 << 20);
    }
}
