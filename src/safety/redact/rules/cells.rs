//! The cells of a row of a table, as programs print tables.

use std::ops::Range;

use super::byte_classes::is_quote;

/// How the rows of a table are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableForm {
    /// Lines whose cells are separated by this sign, and may be quoted.
    Separated(&'static str),
    /// Lines whose cells are separated by two blanks or more; a cell belongs to the heading above it.
    Aligned,
    /// Lists in parentheses, separated by commas, of SQL.
    Lists,
}

/// Returns the characters of its line that each cell takes.
pub(super) fn characters(text: &[u8], line: usize, cells: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut at, mut number) = (line, 0);
    let mut number_of = |end: usize| {
        #[cfg(test)]
        crate::safety::redact::tests::INSPECTED.with(|n| n.set(n.get() + end - at));
        let starts = text[at..end].iter().filter(|&&b| b & 0xc0 != 0x80);
        (at, number) = (end, number + starts.count());
        number
    };
    let places = cells.iter();
    places
        .map(|cell| number_of(cell.start)..number_of(cell.end))
        .collect()
}

/// Whether a line has no text: the line under a heading, or the border of a table.
pub(super) fn is_ruler(line: &[u8]) -> bool {
    let text = String::from_utf8_lossy(line);
    text.chars()
        .all(|c| "-+|=: \t\r".contains(c) || ('\u{2500}'..='\u{257f}').contains(&c))
}

/// Returns the end of the text in quotes at `at`, in which doubled quotes and backslashes stand for others.
pub(super) fn quoted_end(text: &[u8], at: usize) -> Option<usize> {
    let quote = text[at];
    let mut end = at + 1;
    loop {
        match text.get(end)? {
            b'\\' => end += 2,
            &b if b == quote && text.get(end + 1) == Some(&quote) => end += 2,
            &b if b == quote => return Some(end + 1),
            _ => end += 1,
        }
    }
}

/// Returns a range without the blanks, the quotes and the marks of emphasis around its text.
pub(super) fn trimmed(text: &[u8], range: Range<usize>) -> Range<usize> {
    let is_mark = |b: &u8| b.is_ascii_whitespace() || is_quote(*b) || *b == b'*';
    let content = &text[range.clone()];
    let Some(first) = content.iter().position(|b| !is_mark(b)) else {
        return range.start..range.start;
    };
    let last = content.iter().rposition(|b| !is_mark(b)).unwrap_or(first);
    range.start + first..range.start + last + 1
}

impl TableForm {
    /// Returns the cells of a line.
    pub(super) fn cells(self, text: &[u8], line: Range<usize>) -> Vec<Range<usize>> {
        match self {
            TableForm::Separated(sign) => separated(text, line, sign.as_bytes()),
            TableForm::Aligned => aligned(text, line),
            TableForm::Lists => Vec::new(),
        }
    }
}

/// Returns the cells of a line that are separated by `sign`. Borders at both ends are none.
fn separated(text: &[u8], line: Range<usize>, sign: &[u8]) -> Vec<Range<usize>> {
    let is_border = !matches!(sign, b"," | b";" | b"\t");
    let content = &text[..line.end];
    let mut cells = Vec::new();
    let (mut start, mut at) = (line.start, line.start);
    while at < line.end {
        let is_first = content[start..at].iter().all(|b| *b == b' ');
        if content[at] == b'"' && !is_border && is_first {
            // An open quote may go on in the next line: no row then.
            at = quoted_end(content, at).unwrap_or(line.end);
        } else if content[at..].starts_with(sign) {
            cells.push(trimmed(text, start..at));
            at += sign.len();
            start = at;
        } else {
            at += 1;
        }
    }
    cells.push(trimmed(text, start..line.end));
    if is_border && cells.len() > 1 {
        if cells.last().is_some_and(Range::is_empty) {
            cells.pop();
        }
        if cells.first().is_some_and(Range::is_empty) {
            cells.remove(0);
        }
    }
    cells
}

/// Returns the cells of a line that are separated by two blanks or more.
fn aligned(text: &[u8], line: Range<usize>) -> Vec<Range<usize>> {
    let content = &text[line.clone()];
    let mut cells = Vec::new();
    let mut start = None;
    for (at, &byte) in content.iter().enumerate() {
        let is_gap = byte == b'\r'
            || byte == b' ' && matches!(content.get(at + 1), None | Some(b' ' | b'\r'));
        match (start, is_gap) {
            (None, false) if byte != b' ' => start = Some(at),
            (Some(begun), true) => {
                cells.push(line.start + begun..line.start + at);
                start = None;
            }
            _ => {}
        }
    }
    let last = start.map(|begun| line.start + begun..line.end);
    cells.extend(last);
    cells
}
