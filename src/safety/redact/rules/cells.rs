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

/// The cells of a line.
pub(super) struct Cells {
    pub ranges: Vec<Range<usize>>,
    /// A quote that no other one closes: the cell goes on in the next line.
    pub open_quote: Option<usize>,
}

impl TableForm {
    /// Returns the cells of a line.
    pub(super) fn cells(self, text: &[u8], line: Range<usize>) -> Cells {
        match self {
            TableForm::Separated(sign) => separated(text, line, sign.as_bytes()),
            TableForm::Aligned => Cells {
                ranges: aligned(text, line),
                open_quote: None,
            },
            TableForm::Lists => Cells {
                ranges: Vec::new(),
                open_quote: None,
            },
        }
    }
}

/// Returns the length of the sign between cells at the start of a text; 0 if there is none. Vertical lines of boxes are alike: the heading
/// may have heavy ones.
fn sign_length(text: &[u8], sign: &[u8]) -> usize {
    let is_line = |sign: &[u8]| matches!(sign, [0xe2, 0x94, 0x82 | 0x83] | [0xe2, 0x95, 0x91]);
    let is_sign =
        text.starts_with(sign) || is_line(sign) && text.get(..sign.len()).is_some_and(is_line);
    if is_sign { sign.len() } else { 0 }
}

/// Returns the number of signs between cells in a line.
pub(super) fn count_signs(line: &[u8], sign: &str) -> usize {
    let sign = sign.as_bytes();
    // Signs that are alike have the first byte in common.
    let places = memchr::memchr_iter(sign[0], line);
    places
        .filter(|at| sign_length(&line[*at..], sign) > 0)
        .count()
}

/// Returns the cells of a line that are separated by `sign`. Borders at both ends are none.
fn separated(text: &[u8], mut line: Range<usize>, sign: &[u8]) -> Cells {
    // The borders of a table within another one.
    let content = text[line.clone()].trim_ascii();
    if content.starts_with(b"||") && content.ends_with(b"||") && content.len() > 2 {
        line = trimmed(text, line);
        line = line.start + 1..line.end - 1;
    }
    let is_border = !matches!(sign[0], b',' | b';' | b'\t');
    let content = &text[..line.end];
    let (mut cells, mut open_quote) = (Vec::new(), None);
    let (mut start, mut at, mut is_blank) = (line.start, line.start, true);
    while at < line.end {
        let length = sign_length(&content[at..], sign);
        if content[at] == b'"' && !is_border && is_blank {
            is_blank = false;
            let end = quoted_end(content, at);
            open_quote = end.is_none().then_some(at);
            at = end.unwrap_or(line.end);
        } else if length > 0 {
            cells.push(trimmed(text, start..at));
            at += length;
            (start, is_blank) = (at, true);
        } else {
            is_blank &= content[at] == b' ';
            // Markdown has a backslash before a sign that is not one.
            let is_escape = is_border && content[at..].starts_with(b"\\|");
            at += if is_escape { 2 } else { 1 };
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
    Cells {
        ranges: cells,
        open_quote,
    }
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

/// A list of values in SQL.
pub(super) struct List {
    pub cells: Vec<Range<usize>>,
    /// Its end; `None` if the text ends within it.
    pub end: Option<usize>,
}

/// Returns the list in the parentheses that open at `open`. The cell of an expression, such as `md5('…')`, is the first text in quotes
/// in it.
pub(super) fn list(text: &[u8], open: usize) -> List {
    let mut cells = Vec::new();
    let (mut start, mut at, mut depth, mut quoted) = (open + 1, open + 1, 0, None);
    let mut end = None;
    while let Some(&byte) = text.get(at).filter(|_| end.is_none()) {
        match byte {
            b'\'' | b'"' => {
                let close = quoted_end(text, at).map_or(text.len(), |end| end - 1);
                quoted.get_or_insert(at + 1..close);
                at = close;
            }
            b'(' => depth += 1,
            b')' if depth > 0 => depth -= 1,
            b',' | b')' if depth == 0 => {
                let cell = quoted.take();
                cells.push(cell.unwrap_or_else(|| trimmed(text, start..at)));
                start = at + 1;
                end = (byte == b')').then_some(start);
            }
            _ => {}
        }
        at += 1;
    }
    if end.is_none() {
        cells.push(quoted.unwrap_or_else(|| trimmed(text, start.min(text.len())..text.len())));
    }
    #[cfg(test)]
    crate::safety::redact::tests::INSPECTED.with(|n| n.set(n.get() + at - open));
    List { cells, end }
}
