//! The text of a file with everything that an edit must keep: encoding, byte order mark, the end of each line, the missing
//! newline at the end. Pure.

use std::borrow::Cow;

use super::failure::WorkspaceError;

/// Largest file that is edited, moved or deleted. Larger ones would have to be kept in memory and in the kept copies.
pub const MAX_FILE_BYTES: u64 = 32 << 20;

/// How the characters of a file are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8 without a byte order mark.
    Utf8,
    /// UTF-8 with a byte order mark.
    Utf8Bom,
    /// UTF-16, little endian, with a byte order mark.
    Utf16Le,
    /// UTF-16, big endian, with a byte order mark.
    Utf16Be,
    /// Not valid UTF-8: an 8-bit encoding, or damaged. Edited as bytes, so that unreplaced parts stay as they are.
    Unknown,
}

/// The end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineEnd {
    /// `\n`
    Lf,
    /// `\r\n`
    CrLf,
    /// `\r`
    Cr,
}

impl LineEnd {
    /// Returns the bytes of the line end.
    pub fn as_str(self) -> &'static str {
        match self {
            LineEnd::Lf => "\n",
            LineEnd::CrLf => "\r\n",
            LineEnd::Cr => "\r",
        }
    }

    /// Returns the line end at the start of `bytes`.
    fn at_start(bytes: &[u8]) -> Option<LineEnd> {
        match bytes {
            [b'\r', b'\n', ..] => Some(LineEnd::CrLf),
            [b'\r', ..] => Some(LineEnd::Cr),
            [b'\n', ..] => Some(LineEnd::Lf),
            _ => None,
        }
    }
}

/// One line of a [`TextFile`]. The last line of a file has no end; it is empty if the file ends with a line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LineSpan {
    start: usize,
    length: usize,
    end: Option<LineEnd>,
}

/// Where the text of a line of the new version comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LineContent {
    /// The line of the old version with this index, byte for byte.
    Kept(usize),
    /// New text.
    New(Vec<u8>),
}

/// Which end a line of the new version gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndRule {
    /// The end of the line of the old version with this index, or that of the file if it is the last one.
    Of(usize),
    /// The most frequent end of the file.
    FileStyle,
    /// This end.
    Exactly(LineEnd),
}

/// A line of the new version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OutputLine {
    /// Its text.
    pub content: LineContent,
    /// Its end; the last line gets none.
    pub end: EndRule,
}

impl OutputLine {
    /// The line of the old version with this index, unchanged.
    pub fn kept(index: usize) -> OutputLine {
        OutputLine {
            content: LineContent::Kept(index),
            end: EndRule::Of(index),
        }
    }
}

/// A text file in memory.
#[derive(Debug, Clone)]
pub struct TextFile {
    encoding: TextEncoding,
    /// The text without byte order mark: UTF-8, or the bytes of the file for [`TextEncoding::Unknown`].
    text: Vec<u8>,
    lines: Vec<LineSpan>,
    style: LineEnd,
}

impl TextFile {
    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// The file is binary, or its UTF-16 is damaged, so that it could not be written back unchanged.
    pub fn parse(bytes: &[u8]) -> Result<TextFile, WorkspaceError> {
        let (encoding, text) = match bytes {
            [0xFF, 0xFE, 0, 0, ..] | [0, 0, 0xFE, 0xFF, ..] => {
                return Err(WorkspaceError::new("UTF-32 files cannot be edited")
                    .hint("convert the file to UTF-8 first"));
            }
            [0xEF, 0xBB, 0xBF, text @ ..] => (TextEncoding::Utf8Bom, text.to_vec()),
            [0xFF, 0xFE, text @ ..] => (TextEncoding::Utf16Le, utf16(text, u16::from_le_bytes)?),
            [0xFE, 0xFF, text @ ..] => (TextEncoding::Utf16Be, utf16(text, u16::from_be_bytes)?),
            text => (TextEncoding::Utf8, text.to_vec()),
        };
        if memchr::memchr(0, &text).is_some() {
            return Err(
                WorkspaceError::new("the file is binary: it contains NUL bytes")
                    .hint("only text files can be edited"),
            );
        }
        let encoding = match (encoding, std::str::from_utf8(&text)) {
            (TextEncoding::Utf8, Err(_)) => TextEncoding::Unknown,
            // The mark is text then: with it removed, nothing else would be known about the encoding.
            (TextEncoding::Utf8Bom, Err(_)) => {
                return Ok(TextFile::of(TextEncoding::Unknown, bytes.to_vec()));
            }
            (encoding, _) => encoding,
        };
        Ok(TextFile::of(encoding, text))
    }

    fn of(encoding: TextEncoding, text: Vec<u8>) -> TextFile {
        let mut lines = Vec::new();
        let mut start = 0;
        for found in memchr::memchr2_iter(b'\n', b'\r', &text) {
            // The second byte of a CRLF.
            if found < start {
                continue;
            }
            let end = text.get(found..).and_then(LineEnd::at_start);
            lines.push(LineSpan {
                start,
                length: found - start,
                end,
            });
            start = found + end.map_or(1, |end| end.as_str().len());
        }
        lines.push(LineSpan {
            start,
            length: text.len() - start,
            end: None,
        });
        TextFile {
            encoding,
            style: most_frequent(&lines),
            text,
            lines,
        }
    }

    /// Returns the encoding.
    pub fn encoding(&self) -> TextEncoding {
        self.encoding
    }

    /// Returns the most frequent line end, the first one of equally frequent ones, `\n` without any.
    pub fn line_end(&self) -> LineEnd {
        self.style
    }

    /// Returns the number of lines. The empty text after a final line end counts as a line.
    pub(super) fn line_count(&self) -> usize {
        self.lines.len()
    }

    /// Returns the number of lines, not counting the empty text after a final line end.
    pub(super) fn real_line_count(&self) -> usize {
        match self.lines.last() {
            Some(last) if last.length == 0 => self.lines.len() - 1,
            _ => self.lines.len(),
        }
    }

    /// Returns a line without its end; empty past the end of the file.
    pub(super) fn line(&self, index: usize) -> &[u8] {
        self.lines
            .get(index)
            .and_then(|line| self.text.get(line.start..line.start + line.length))
            .unwrap_or_default()
    }

    /// Whether the last line has an end.
    pub fn ends_with_newline(&self) -> bool {
        self.lines.last().is_some_and(|last| last.length == 0) && self.lines.len() > 1
    }

    /// Returns the text with `\n` at the end of each line, without byte order mark.
    pub(super) fn logical(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.text.len());
        for (index, line) in self.lines.iter().enumerate() {
            text.extend_from_slice(self.line(index));
            if line.end.is_some() {
                text.push(b'\n');
            }
        }
        text
    }

    /// Returns the bytes of the file with these lines, in the encoding of this file. New text must have passed
    /// [`Self::check_new`].
    pub(super) fn with_lines(&self, lines: &[OutputLine]) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.text.len());
        for (position, line) in lines.iter().enumerate() {
            match &line.content {
                LineContent::Kept(index) => text.extend_from_slice(self.line(*index)),
                LineContent::New(content) => text.extend_from_slice(content),
            }
            if position + 1 < lines.len() {
                let end = match line.end {
                    EndRule::Of(index) => self.lines.get(index).and_then(|line| line.end),
                    EndRule::FileStyle => None,
                    EndRule::Exactly(end) => Some(end),
                };
                text.extend_from_slice(end.unwrap_or(self.style).as_str().as_bytes());
            }
        }
        self.encode(&text)
    }

    /// Returns the bytes of the file with `text` in place of all of its text. Encoding and byte order mark stay; the line
    /// ends do where all of them are alike and `text` has only `\n`.
    ///
    /// # Errors
    /// The text cannot be stored in the encoding of the file.
    pub fn rewritten(&self, text: &str) -> Result<Vec<u8>, WorkspaceError> {
        let text = match self.encoding {
            TextEncoding::Utf8 | TextEncoding::Unknown => text,
            _ => text.strip_prefix('\u{FEFF}').unwrap_or(text),
        };
        self.check_nul(text.as_bytes())?;
        let is_uniform = self
            .lines
            .iter()
            .all(|line| line.end.is_none_or(|end| end == self.style));
        let text = if is_uniform && !text.contains('\r') && self.style != LineEnd::Lf {
            Cow::Owned(text.replace('\n', self.style.as_str()))
        } else {
            Cow::Borrowed(text)
        };
        // The new text replaces all of the old, so that the unknown encoding no longer matters.
        Ok(self.encode(text.as_bytes()))
    }

    /// Checks that text of a model can be put into the file.
    ///
    /// # Errors
    /// It cannot be stored in the encoding of the file, or would make the file a binary one.
    pub(super) fn check_new(&self, text: &str) -> Result<(), WorkspaceError> {
        self.check_nul(text.as_bytes())?;
        if self.encoding == TextEncoding::Unknown && !text.is_ascii() && !self.is_damaged_utf8() {
            return Err(WorkspaceError::new(
                "the file is not UTF-8, so that only ASCII text can be put into it",
            )
            .hint("convert the file to UTF-8 first, or use ASCII characters"));
        }
        Ok(())
    }

    /// Whether most non-ASCII bytes are UTF-8, which an 8-bit encoding is not by chance.
    fn is_damaged_utf8(&self) -> bool {
        let (mut valid, mut invalid) = (0, 0);
        for chunk in self.text.utf8_chunks() {
            valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
            invalid += usize::from(!chunk.invalid().is_empty());
        }
        valid > invalid
    }

    fn check_nul(&self, text: &[u8]) -> Result<(), WorkspaceError> {
        if memchr::memchr(0, text).is_some() {
            return Err(WorkspaceError::new("the new text contains a NUL character"));
        }
        Ok(())
    }

    fn encode(&self, text: &[u8]) -> Vec<u8> {
        let utf16 = |mark: u16, bytes: fn(u16) -> [u8; 2]| {
            let text = String::from_utf8_lossy(text);
            std::iter::once(mark)
                .chain(text.encode_utf16())
                .flat_map(bytes)
                .collect()
        };
        match self.encoding {
            TextEncoding::Utf8 | TextEncoding::Unknown => text.to_vec(),
            TextEncoding::Utf8Bom => [b"\xEF\xBB\xBF", text].concat(),
            TextEncoding::Utf16Le => utf16(0xFEFF, u16::to_le_bytes),
            TextEncoding::Utf16Be => utf16(0xFEFF, u16::to_be_bytes),
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<Vec<u8>, WorkspaceError> {
    let damaged =
        || WorkspaceError::new("the file has a UTF-16 byte order mark, but is not valid UTF-16");
    let (pairs, []) = bytes.as_chunks::<2>() else {
        return Err(damaged());
    };
    let text = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    let text = text.collect::<Result<String, _>>();
    text.map(String::into_bytes).map_err(|_| damaged())
}

fn most_frequent(lines: &[LineSpan]) -> LineEnd {
    let mut counts: Vec<(LineEnd, usize)> = Vec::new();
    for end in lines.iter().filter_map(|line| line.end) {
        match counts.iter_mut().find(|(seen, _)| *seen == end) {
            Some((_, count)) => *count += 1,
            None => counts.push((end, 1)),
        }
    }
    // `max_by_key` returns the last maximum; the first one is wanted.
    let most = counts.iter().rev().max_by_key(|(_, count)| *count);
    most.map_or(LineEnd::Lf, |(end, _)| *end)
}

/// Splits text of a model into lines without their ends. The text after the last line end is a line, too.
pub(super) fn split_lines(text: &[u8]) -> Vec<ModelLine<'_>> {
    let mut lines = Vec::new();
    let mut rest = text;
    loop {
        let found = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (content, tail) = rest.split_at(found);
        let end = LineEnd::at_start(tail);
        lines.push(ModelLine {
            content,
            is_cr: end == Some(LineEnd::Cr),
        });
        match end {
            Some(end) => rest = tail.get(end.as_str().len()..).unwrap_or_default(),
            None => return lines,
        }
    }
}

/// A line of the text of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ModelLine<'a> {
    /// Its text.
    pub content: &'a [u8],
    /// It ends with a lone `\r`, which is meant as that. `\n` and `\r\n` both mean the line end of the file.
    pub is_cr: bool,
}

#[cfg(test)]
mod tests;
