//! The lines of a text as a file has them and as JSON has them in a string, without what a program prints before and behind each.

use std::ops::Range;

use super::super::stage::ByteClass;
use super::byte_classes::{is_quote, is_space};
use super::line_prefix::{border, readings};
use super::{SecretSpan, run_length};

/// Maximum number of bytes of a line that are read.
const MAX_LINE: usize = 1 << 10;
/// Maximum number of blanks and borders behind a line.
const MAX_BORDER: usize = 96;
/// Maximum number of backslashes of an escape, that of a string within strings.
const MAX_BACKSLASHES: usize = 8;

/// Returns the length of the line end at `at`: as a file has it, or `\n` as JSON has it, with more backslashes in a string within a string.
pub(super) fn line_end(text: &[u8], at: usize) -> usize {
    if !matches!(text.get(at), Some(b'\r' | b'\n' | b'\\')) {
        return 0;
    }
    let sign = |at: usize, byte: u8, letter: u8| {
        let text = &text[..text.len().min(at + MAX_BACKSLASHES)];
        let backslashes = run_length(text, at, |b| b == b'\\');
        match text.get(at + backslashes) {
            Some(&b) if backslashes == 0 && b == byte => 1,
            Some(&b) if backslashes > 0 && b == letter => backslashes + 1,
            _ => 0,
        }
    };
    let carriage_return = sign(at, b'\r', b'r');
    match sign(at + carriage_return, b'\n', b'n') {
        0 => 0,
        length => carriage_return + length,
    }
}

/// Returns the part of the last line of a text, whichever form its line ends have.
pub(super) fn last_line(text: &[u8]) -> &[u8] {
    let start = memchr::memrchr(b'\n', text);
    let line = &text[start.map_or(0, |at| at + 1)..];
    let mut escapes = memchr::memrchr_iter(b'\\', line);
    let escape = escapes.find(|at| line.get(at + 1) == Some(&b'n'));
    &line[escape.map_or(0, |at| at + 2)..]
}

/// Returns the end of blanks and of the border of a table or box at `at`.
pub(super) fn border_end(text: &[u8], at: usize) -> usize {
    let text = &text[..text.len().min(at + MAX_BORDER)];
    let mut end = at;
    while let Some(&byte) = text.get(end) {
        end += match byte {
            b' ' | b'\t' | b'|' | b'`' => 1,
            _ if border(&text[end..]) > 0 => border(&text[end..]),
            _ => break,
        };
    }
    end
}

/// Returns where the first line end is that begins at `at` or within this many bytes behind it.
pub(super) fn first_line_end(text: &[u8], at: usize, length: usize) -> Option<usize> {
    let part = &text[at..text.len().min(at + length)];
    let mut ends = memchr::memchr3_iter(b'\r', b'\n', b'\\', part).map(|end| at + end);
    ends.find(|&end| line_end(text, end) > 0)
}

/// Returns the line behind the one whose content ends at `at`.
pub(super) fn next_line(text: &[u8], at: usize) -> Option<Range<usize>> {
    let at = border_end(text, at);
    let length = line_end(text, at);
    let start = at + length;
    (length > 0).then(|| {
        let rest = &text[start..text.len().min(start + MAX_LINE)];
        let end = first_line_end(text, start, rest.len());
        start..end.unwrap_or(start + rest.len())
    })
}

/// What stands before the content of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct LineStart {
    /// Number of prefixes that programs have printed.
    prefixes: usize,
    /// Number of blanks behind them.
    pub indentation: usize,
}

impl LineStart {
    /// Reads the part of a line before its content.
    pub(super) fn of(before: &[u8]) -> LineStart {
        let blanks = before.iter().rev().take_while(|b| b" \t".contains(b));
        match readings(before).position(<[u8]>::is_empty) {
            Some(prefixes) => LineStart {
                prefixes,
                indentation: blanks.count(),
            },
            // Other text follows them.
            None => LineStart {
                prefixes: readings(before).count() - 1,
                indentation: 0,
            },
        }
    }
}

/// The content of a line.
#[derive(Debug)]
pub(super) struct Row {
    pub start: usize,
    pub end: usize,
    /// Number of blanks before it.
    pub indentation: usize,
}

/// Returns the content of the line behind the one whose content ends at `at`, in a text whose lines begin like this one.
pub(super) fn next_row(text: &[u8], at: usize, before: LineStart) -> Option<Row> {
    let line = next_line(text, at)?;
    let row = row_of(&text[line.clone()], before);
    Some(Row {
        start: line.start + row.start,
        end: line.end,
        ..row
    })
}

/// Returns the content of a line of a text whose lines begin like this one.
pub(super) fn row_of(line: &[u8], before: LineStart) -> Row {
    let content = readings(line).take(1 + before.prefixes).last();
    let start = line.len() - content.map_or(0, <[u8]>::len);
    let blanks = line[..start].iter().rev();
    Row {
        start,
        end: line.len(),
        indentation: blanks.take_while(|b| b" \t".contains(b)).count(),
    }
}

/// Whether nothing but a border, or a quote, follows in the line at `at`.
pub(super) fn ends_row(text: &[u8], at: usize) -> bool {
    let end = border_end(text, at);
    end == text.len()
        || line_end(text, end) > 0
        || text.get(at).is_some_and(|b| b"\"'\\".contains(b))
}

/// Returns the run of bytes of a class that is the whole content of the line behind the one whose content ends at `at`.
pub(super) fn next_run(text: &[u8], at: usize, class: ByteClass) -> Option<Range<usize>> {
    let line = next_line(text, at)?;
    let runs = readings(&text[line.clone()]).map(|content| {
        let start = line.end - content.len();
        start..start + run_length(content, 0, class)
    });
    let mut whole = runs.filter(|run| !run.is_empty() && ends_row(text, run.end));
    whole.next()
}

/// Whether a text has a line end.
pub(super) fn has_line_end(text: &[u8]) -> bool {
    let mut ends = memchr::memchr2_iter(b'\n', b'\\', text);
    ends.any(|at| line_end(text, at) > 0)
}

/// Whether a text, behind the content of a line, has the whole next line.
pub(super) fn has_line(text: &[u8]) -> bool {
    let mut ends = memchr::memchr2_iter(b'\n', b'\\', text);
    let first = ends.find(|&at| line_end(text, at) > 0);
    first.is_some_and(|at| has_line_end(&text[at + line_end(text, at)..]))
}

/// Whether a line ends soon behind a name, without further words, so that its value may be in the next line.
pub(super) fn ends_soon(behind: &[u8]) -> bool {
    /// Maximum length of the rest of a name and of the signs behind it.
    const MAX_REST: usize = 48;
    let name = run_length(behind, 0, |b| {
        b.is_ascii_alphanumeric() || b"_-".contains(&b)
    });
    let is_word = |b: &u8| b.is_ascii_alphanumeric();
    let rest = &behind[name..];
    let end = first_line_end(rest, 0, MAX_REST + MAX_BORDER);
    // The end of an element of a property list.
    let rest = rest.strip_prefix(b"</key>").map_or(rest, |_| b"");
    end.is_some_and(|end| !rest[..end.min(rest.len())].iter().any(is_word))
}

/// Returns a value with the rows that follow it: lines of one word of a class, with at least this indentation, that begin like
/// the line of the name.
pub(super) fn with_rows(
    text: &[u8],
    value: SecretSpan,
    before: LineStart,
    indentation: usize,
    class: ByteClass,
) -> SecretSpan {
    let mut end = value.end;
    while let Some(row) = next_row(text, end, before) {
        let length = run_length(&text[..row.end], row.start, class);
        let word = &text[row.start..row.start + length];
        let digits = word.trim_ascii_end();
        let padding = digits.iter().rev().take_while(|&&b| b == b'=').count();
        let is_value = length > 0
            && row.indentation >= indentation
            && ends_row(text, row.start + length)
            && !word.ends_with(b":")
            && !begins_assignment(&digits[..digits.len() - padding]);
        if !is_value {
            break;
        }
        end = row.start + length;
    }
    let reaches_end = end == text.len();
    SecretSpan {
        more: reaches_end.then_some(class),
        ..SecretSpan::new(value.start, end)
    }
}

/// Returns the length of a line end that a backslash hides, with what stands before the content of the next line.
pub(super) fn continuation(text: &[u8], at: usize, line: LineStart) -> usize {
    // It may have been read as a quote.
    let sign = usize::from(!text[..at].ends_with(b"\\"));
    let has_sign = sign == 0 || text.get(at) == Some(&b'\\');
    let is_end = |&end: &usize| b"\r\n".contains(text.get(end).unwrap_or(&0));
    let end = Some(border_end(text, at + sign)).filter(is_end);
    let row = end
        .filter(|_| has_sign)
        .and_then(|end| next_row(text, end, line));
    row.map_or(0, |row| row.start - at)
}

/// Whether the text begins with a name and a sign, as in `name=value`.
pub(in super::super) fn begins_assignment(text: &[u8]) -> bool {
    let quotes = run_length(text, 0, is_quote);
    let name = run_length(text, quotes, |b| {
        b.is_ascii_alphanumeric() || b"_.-".contains(&b)
    });
    let end = quotes + name;
    let end = end + run_length(text, end, is_quote);
    let end = end + run_length(text, end, is_space);
    name > 0
        && text[quotes].is_ascii_alphabetic()
        && text.get(end).is_some_and(|b| b":=".contains(b))
}
