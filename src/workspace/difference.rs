//! The difference between two versions of a file, as it is shown to the user and approved. Pure.
//!
//! Nothing that changes stays invisible: a changed line end, trailing space, byte order mark, or newline at the end of the
//! file is written out after the line. Only unchanged lines are left out. The text is that of the file: print it through
//! `safety/text`.

use std::borrow::Cow;
use std::fmt;

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 3;

/// Longest unchanged line that is shown around a change, in bytes: a file of data may be one line of many megabytes.
const MAX_CONTEXT_BYTES: usize = 64 << 10;

/// Maximum number of lines, both versions together, whose difference is looked for. The time grows with the square of the
/// changes; above this, the part between the common beginning and end is shown as replaced.
const COMPARED_LINES: usize = 40_000;

/// A sign at the start of a line of the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineSign {
    /// The line is in both versions.
    Unchanged,
    /// The line is in the old version only.
    Removed,
    /// The line is in the new version only.
    Added,
    /// Unchanged lines are left out here; the line has their number.
    Gap,
}

impl LineSign {
    /// Returns the sign of a unified diff.
    pub fn as_char(self) -> char {
        match self {
            LineSign::Unchanged => ' ',
            LineSign::Removed => '-',
            LineSign::Added => '+',
            LineSign::Gap => '⋮',
        }
    }
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferenceLine {
    /// Kind of the line.
    pub sign: LineSign,
    /// Number of the line in the old version, from 1.
    pub old_number: Option<usize>,
    /// Number of the line in the new version, from 1.
    pub new_number: Option<usize>,
    /// Text of the line, without its end.
    pub text: String,
    /// Invisible properties of the text: its line end, trailing space, a byte order mark, a missing newline.
    pub note: Option<String>,
}

impl fmt::Display for DifferenceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.sign.as_char(), self.text)?;
        match &self.note {
            Some(note) => write!(f, "  [{note}]"),
            None => Ok(()),
        }
    }
}

/// The difference between two versions of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDifference {
    /// The changed lines with unchanged ones around them.
    pub lines: Vec<DifferenceLine>,
    /// Number of added lines.
    pub added: usize,
    /// Number of removed lines.
    pub removed: usize,
}

/// Compares two versions of a file; one that does not exist is empty.
pub fn difference(old: &[u8], new: &[u8]) -> FileDifference {
    let (old, new) = (decoded(old), decoded(new));
    let (old_lines, new_lines) = (lines_of(&old), lines_of(&new));
    let mut result = FileDifference {
        lines: Vec::new(),
        added: 0,
        removed: 0,
    };
    let shows_ends = has_mixed_ends(old_lines.iter().chain(&new_lines));
    let mut shown_until = 0;
    for group in group_diff_ops(operations(&old_lines, &new_lines), CONTEXT_LINES) {
        if let Some(first) = group.first() {
            result.gap(first.old_range().start - shown_until);
        }
        for operation in &group {
            result.operation(operation, &old_lines, &new_lines, shows_ends);
            shown_until = operation.old_range().end;
        }
    }
    if !result.lines.is_empty() {
        result.gap(old_lines.len() - shown_until);
    }
    result
}

/// Returns the text of a file: UTF-16 is decoded, everything else stays as it is.
fn decoded(bytes: &[u8]) -> Cow<'_, [u8]> {
    let utf16 = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let mut text: Vec<u8> = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)))
            .map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect::<String>()
            .into_bytes();
        text.extend_from_slice(rest);
        text
    };
    match bytes {
        [0xFF, 0xFE, ..] => Cow::Owned(utf16(bytes, u16::from_le_bytes)),
        [0xFE, 0xFF, ..] => Cow::Owned(utf16(bytes, u16::from_be_bytes)),
        bytes => Cow::Borrowed(bytes),
    }
}

/// Splits a text after each line end: `\n`, `\r\n` or a lone `\r`.
fn lines_of(text: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let found = memchr::memchr2(b'\n', b'\r', rest);
        let length = found.map_or(rest.len(), |at| {
            let is_crlf = rest.get(at..at + 2) == Some(b"\r\n");
            at + 1 + usize::from(is_crlf)
        });
        let (line, behind) = rest.split_at(length);
        lines.push(line);
        rest = behind;
    }
    lines
}

fn operations(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffOp> {
    if old.len() + new.len() <= COMPARED_LINES {
        return capture_diff_slices(Algorithm::Myers, old, new);
    }
    let prefix = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - prefix;
    let ends = old.iter().rev().zip(new.iter().rev()).take(most);
    let suffix = ends.take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (old.len() - suffix, new.len() - suffix);
    let old_middle = old.get(prefix..old_end).unwrap_or_default();
    let new_middle = new.get(prefix..new_end).unwrap_or_default();
    let equal = |old_index, new_index, len| DiffOp::Equal {
        old_index,
        new_index,
        len,
    };
    let mut operations = vec![equal(0, 0, prefix)];
    if old_middle.len() + new_middle.len() <= COMPARED_LINES {
        let middle = capture_diff_slices(Algorithm::Myers, old_middle, new_middle);
        operations.extend(middle.into_iter().map(|operation| match operation {
            DiffOp::Equal {
                old_index,
                new_index,
                len,
            } => equal(old_index + prefix, new_index + prefix, len),
            other => replaced(other.old_range(), other.new_range(), prefix),
        }));
    } else {
        operations.push(replaced(0..old_middle.len(), 0..new_middle.len(), prefix));
    }
    operations.push(equal(old_end, new_end, suffix));
    operations
        .retain(|operation| !operation.old_range().is_empty() || !operation.new_range().is_empty());
    operations
}

fn replaced(old: std::ops::Range<usize>, new: std::ops::Range<usize>, offset: usize) -> DiffOp {
    DiffOp::Replace {
        old_index: old.start + offset,
        old_len: old.len(),
        new_index: new.start + offset,
        new_len: new.len(),
    }
}

impl FileDifference {
    fn gap(&mut self, lines: usize) {
        if lines > 0 {
            let plural = if lines == 1 { "" } else { "s" };
            self.lines.push(DifferenceLine {
                sign: LineSign::Gap,
                old_number: None,
                new_number: None,
                text: format!(" {lines} unchanged line{plural}"),
                note: None,
            });
        }
    }

    fn operation(&mut self, operation: &DiffOp, old: &[&[u8]], new: &[&[u8]], shows_ends: bool) {
        let (from, to) = (operation.old_range(), operation.new_range());
        if let DiffOp::Equal { .. } = operation {
            for (old_index, new_index) in from.zip(to) {
                let line = old.get(old_index).copied().unwrap_or_default();
                if line.len() > MAX_CONTEXT_BYTES {
                    self.gap(1);
                    continue;
                }
                self.lines.push(DifferenceLine {
                    sign: LineSign::Unchanged,
                    old_number: Some(old_index + 1),
                    new_number: Some(new_index + 1),
                    text: text_of(line),
                    note: None,
                });
            }
            return;
        }
        let removed = old.get(from.clone()).unwrap_or_default();
        let added = new.get(to.clone()).unwrap_or_default();
        let keeps_open_end = keeps_open_end(removed, added);
        let note = |line: &[u8]| note_of(line, shows_ends, keeps_open_end);
        for (offset, line) in removed.iter().enumerate() {
            self.removed += 1;
            self.lines.push(DifferenceLine {
                sign: LineSign::Removed,
                old_number: Some(from.start + offset + 1),
                new_number: None,
                text: text_of(line),
                note: note(line),
            });
        }
        for (offset, line) in added.iter().enumerate() {
            self.added += 1;
            self.lines.push(DifferenceLine {
                sign: LineSign::Added,
                old_number: None,
                new_number: Some(to.start + offset + 1),
                text: text_of(line),
                note: note(line),
            });
        }
    }
}

/// Whether the last line has no newline before and after the change. Where one of the two lines only gets or loses its newline, the note
/// is what tells them apart.
fn keeps_open_end(removed: &[&[u8]], added: &[&[u8]]) -> bool {
    let (Some(old), Some(new)) = (removed.last(), added.last()) else {
        return false;
    };
    let ((old, old_end), (new, new_end)) = (split_end(old), split_end(new));
    let has_text = |lines: &[&[u8]], text| lines.iter().any(|line| split_end(line).0 == text);
    let is_open = old_end.is_empty() && new_end.is_empty();
    is_open && !has_text(added, old) && !has_text(removed, new)
}

/// Splits a line into its text and its end.
fn split_end(line: &[u8]) -> (&[u8], &[u8]) {
    let length = line
        .iter()
        .rposition(|b| !matches!(b, b'\n' | b'\r'))
        .map_or(0, |last| last + 1);
    line.split_at(length)
}

/// Whether the lines have several kinds of ends: then each changed line is shown with its own.
fn has_mixed_ends<'a>(lines: impl Iterator<Item = &'a &'a [u8]>) -> bool {
    let mut ends = lines
        .map(|line| split_end(line).1)
        .filter(|end| !end.is_empty());
    let first = ends.next();
    ends.any(|end| Some(end) != first)
}

/// Returns the text of a line as characters; bytes that are not UTF-8 are written as `\xNN`.
fn text_of(line: &[u8]) -> String {
    let mut text = String::new();
    for chunk in split_end(line).0.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn note_of(line: &[u8], shows_ends: bool, keeps_open_end: bool) -> Option<String> {
    let (text, end) = split_end(line);
    let mut notes = Vec::new();
    let (bytes, mark) = (text, "\u{FEFF}".as_bytes());
    if bytes.starts_with(mark) {
        notes.push("byte order mark".to_owned());
    }
    let trailing = text.len() - text.trim_ascii_end().len();
    if trailing > 0 {
        let spaces: Vec<String> = text
            .iter()
            .skip(text.len() - trailing)
            .map(|byte| {
                if *byte == b'\t' {
                    "tab".to_owned()
                } else {
                    "space".to_owned()
                }
            })
            .collect();
        notes.push(match spaces.len() {
            1..=3 => format!("ends with {}", spaces.join(" ")),
            count => format!("ends with {count} spaces or tabs"),
        });
    }
    match end {
        b"" if keeps_open_end => {}
        b"" => notes.push("no newline at end of file".to_owned()),
        b"\n" if shows_ends => notes.push("LF".to_owned()),
        b"\r\n" if shows_ends => notes.push("CRLF".to_owned()),
        b"\r" => notes.push("CR".to_owned()),
        _ => {}
    }
    (!notes.is_empty()).then(|| notes.join(", "))
}

#[cfg(test)]
mod tests;
