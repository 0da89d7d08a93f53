//! Takes numbered lines out of a text that arrives in pieces.

use super::read_context::{OutputLimits, grouped};

/// Maximum number of characters of a line that are shown.
pub(super) const MAX_LINE_CHARS: usize = 2000;

/// Bytes of a line that are kept: enough for [`MAX_LINE_CHARS`] characters.
const MAX_LINE_BYTES: usize = MAX_LINE_CHARS * 4;

/// Collects the lines from a number on, as `NUMBER`, a tab and the text, until a limit is reached.
#[derive(Debug)]
pub(super) struct LineWindow {
    first: u64,
    limits: OutputLimits,
    text: String,
    shown: u64,
    /// Number of the line that is being read.
    number: u64,
    line: Vec<u8>,
    line_bytes: u64,
    crlf: u64,
    invalid: u64,
    nul: u64,
    cut: u64,
    is_full: bool,
    ends_in_newline: bool,
}

/// The shown lines, and remarks about them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WindowText {
    pub text: String,
    pub shown: u64,
    /// Number of complete and incomplete lines up to where reading stopped.
    pub lines: u64,
    /// Shown lines that end in CRLF.
    pub crlf: u64,
    /// Shown bytes that are not UTF-8.
    pub invalid: u64,
    /// Shown bytes that are NUL.
    pub nul: u64,
    /// Shown lines that were cut.
    pub cut: u64,
    /// There are lines after the shown ones.
    pub has_more: bool,
    pub ends_in_newline: bool,
}

impl LineWindow {
    /// `first` counts from 1.
    pub fn new(first: u64, limits: OutputLimits) -> LineWindow {
        LineWindow {
            first,
            limits,
            text: String::new(),
            shown: 0,
            number: 1,
            line: Vec::new(),
            line_bytes: 0,
            crlf: 0,
            invalid: 0,
            nul: 0,
            cut: 0,
            is_full: false,
            ends_in_newline: true,
        }
    }

    /// Whether nothing more will be shown.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Adds a piece of the text.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let end = memchr::memchr(b'\n', bytes);
            let (line, rest) = match end {
                Some(at) => bytes.split_at(at + 1),
                None => (bytes, &[][..]),
            };
            bytes = rest;
            self.ends_in_newline = end.is_some();
            if self.number >= self.first && !self.is_full {
                let space = MAX_LINE_BYTES.saturating_sub(self.line.len());
                self.line
                    .extend_from_slice(line.get(..space).unwrap_or(line));
                // The last two bytes show whether a long line ends in CRLF.
                if let (Some(b'\r'), true) = (line.iter().rev().nth(1), end.is_some())
                    && self.line.len() >= MAX_LINE_BYTES
                {
                    self.crlf += 1;
                }
            }
            self.line_bytes += line.len() as u64;
            if end.is_some() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        if self.number >= self.first && !self.is_full {
            self.show();
        }
        self.number += 1;
        self.line.clear();
        self.line_bytes = 0;
    }

    fn show(&mut self) {
        let whole = self.line_bytes == self.line.len() as u64;
        let mut line = self.line.as_slice();
        let mut crlf = 0;
        if whole {
            line = line.strip_suffix(b"\n").unwrap_or(line);
            if let Some(text) = line.strip_suffix(b"\r")
                && self.ends_in_newline
            {
                line = text;
                crlf = 1;
            }
        }
        let nul = memchr::memchr_iter(0, line).count() as u64;
        let (mut shown, invalid) = lossy(line);
        let mut cut = 0;
        if let Some((at, _)) = shown.char_indices().nth(MAX_LINE_CHARS) {
            shown.truncate(at);
            cut = 1;
        }
        if cut > 0 || !whole {
            cut = 1;
            let bytes = grouped(self.line_bytes);
            shown.push_str(&format!("… [line cut, {bytes} bytes]"));
        }
        let row = format!("{}\t{shown}\n", self.number);
        let full = self.shown >= self.limits.lines as u64;
        if full || (self.shown > 0 && self.text.len() + row.len() > self.limits.bytes) {
            self.is_full = true;
            return;
        }
        self.text.push_str(&row);
        self.shown += 1;
        self.crlf += crlf;
        self.invalid += invalid;
        self.nul += nul;
        self.cut += cut;
    }

    /// Ends the text.
    pub fn finish(mut self) -> WindowText {
        if self.line_bytes > 0 {
            self.end_line();
        }
        WindowText {
            text: self.text,
            shown: self.shown,
            lines: self.number - 1,
            crlf: self.crlf,
            invalid: self.invalid,
            nul: self.nul,
            cut: self.cut,
            has_more: self.is_full,
            ends_in_newline: self.ends_in_newline,
        }
    }
}

/// Writes bytes that are not UTF-8 as `\xff`, and counts them; NUL is written as `\x00`. A character that is cut at the end is left out.
fn lossy(bytes: &[u8]) -> (String, u64) {
    let mut text = String::new();
    let mut invalid = 0;
    for piece in bytes.utf8_chunks() {
        text.push_str(&piece.valid().replace('\0', "\\x00"));
        for byte in piece.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
            invalid += 1;
        }
    }
    (text, invalid)
}
