//! The output of an approved command within a fixed size, as the text that its terminal shows.

use std::collections::VecDeque;

use crate::protocol::CapturedText;
use crate::recording::screen::captured_text;

/// The first and the last bytes of an output.
#[derive(Debug)]
pub(super) struct BoundedOutput {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl BoundedOutput {
    /// Creates an empty output; `limit` is the number of bytes that are kept.
    pub(super) fn new(limit: usize) -> BoundedOutput {
        BoundedOutput {
            half: limit / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
        }
    }

    /// Whether nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.tail.is_empty()
    }

    /// Adds bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let head_space = self.half.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..head_space]);
        self.tail.extend(&bytes[head_space..]);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.omitted += over as u64;
    }

    /// Returns the output as a terminal of this size (columns, rows) shows it.
    pub(super) fn captured(&self, size: (usize, usize)) -> CapturedText {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let (head, tail) = match self.omitted {
            0 => ([&self.head[..], &tail].concat(), Vec::new()),
            _ => (self.head.clone(), tail),
        };
        CapturedText {
            head: captured_text(&head, size),
            tail: captured_text(&tail, size),
            omitted: self.omitted,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const SIZE: (usize, usize) = (80, 24);

    #[test]
    fn head_and_tail_are_kept_and_omitted_bytes_are_counted() {
        let mut output = BoundedOutput::new(10);
        for part in ["abc", "defgh", "ijklmnop", "q"] {
            output.push(part.as_bytes());
        }
        let captured = output.captured(SIZE);
        assert_eq!(
            (
                captured.head.as_str(),
                captured.tail.as_str(),
                captured.omitted
            ),
            ("abcde", "mnopq", 7)
        );
        let mut output = BoundedOutput::new(10);
        output.push(b"abcdefgh");
        assert_eq!(
            (
                output.captured(SIZE).head.as_str(),
                output.captured(SIZE).omitted
            ),
            ("abcdefgh", 0)
        );
    }

    #[test]
    fn captured_text_is_the_text_on_the_screen() {
        for (bytes, text) in [
            (&b"\x1b[31mred\x1b[0m\r\n"[..], "red\n"),
            (b" 10%\r 50%\r100%\ndone", "100%\ndone"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"one\n\ntwo\n", "one\n\ntwo\n"),
            // Two lines that are drawn again.
            (b"a 1\nb 1\n\x1b[2A\x1b[2Ka 2\n\x1b[2Kb 2\n", "a 2\nb 2\n"),
            // The alternate screen.
            (b"\x1b[?1049hhidden\x1b[?1049lseen\n", "seen\n"),
        ] {
            assert_eq!(captured_text(bytes, SIZE), text, "{bytes:?}");
        }
        let long = "x".repeat(200);
        assert_eq!(captured_text(long.as_bytes(), SIZE), long);
        let many: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert_eq!(captured_text(many.as_bytes(), SIZE), many);
    }

    #[test]
    fn output_that_takes_long_to_draw_keeps_its_text() {
        // Each repeats a character 65,535 times.
        let bytes = [&b"start\n"[..], &b"a\x1b[65535b".repeat(6000)].concat();
        let begun = Instant::now();
        let text = captured_text(&bytes, SIZE);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
        assert_eq!(text, format!("start\n{}", "a".repeat(6000)));
    }
}
