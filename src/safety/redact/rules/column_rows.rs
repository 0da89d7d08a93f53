//! The rows of a table whose heading names secrets.

use std::ops::Range;
use std::sync::Arc;

use super::super::{MARK_START, value_class};
use super::cells::{TableForm, characters, is_ruler, list, quoted_end};
use super::context::{key_like, password_like};
use super::fields::is_named_secret;
use super::line_prefix::readings;

/// Maximum length of a row in a line, of one in SQL, and of the part of a row in which a quoted cell has several lines.
const MAX_ROW: usize = 16 << 10;
const MAX_LIST: usize = 8 << 10;
const MAX_LINES: usize = 4 << 10;
/// Maximum number of quoted cells of a row that have several lines.
const MAX_LONG_CELLS: usize = 3;
/// Minimum length of a key in a cell: a shorter one is often an abbreviation.
const MIN_KEY: usize = 12;

/// A column of secrets.
#[derive(Debug, Clone)]
pub(super) struct SecretColumn {
    /// Its number; of an aligned table the characters of its line that its heading takes.
    pub place: Range<usize>,
    pub kind: Arc<str>,
    pub is_password: bool,
}

/// What programs print before each line of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct Prefixes {
    pub count: usize,
    /// Their letters: numbers, blanks and signs change from line to line.
    pub letters: Vec<u8>,
}

/// A table whose rows are read. Positions are those of the whole text.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub form: TableForm,
    /// Number of cells of each row.
    pub cells: usize,
    /// The first cell of the heading. A row that begins with it too is a line with a prefix, such as `web-1 | `, or another heading.
    pub first: Vec<u8>,
    pub columns: Vec<SecretColumn>,
    /// The places of a column of names and of one with their values.
    pub pair: Option<(Range<usize>, Range<usize>)>,
    /// A line without text must follow the heading: words with `|` between them are a pipeline.
    pub needs_ruler: bool,
    /// Nothing but its words says that the heading is one: a listing of files has such lines too.
    pub is_weak: bool,
    pub prefixes: Prefixes,
    /// The table that the heading has with a prefix, if the line that must follow it does not: `db-1 | id | password`.
    pub other: Option<Box<Table>>,
    /// Where the next row begins.
    pub row: usize,
    /// The next row begins within a line.
    pub is_within: bool,
}

/// A row of a table.
pub(super) enum Row {
    Incomplete,
    /// The table has ended.
    End,
    /// A line between rows.
    Ruler(usize),
    /// Text that is not a row of this table, and whether what follows it is the rest of a line.
    Misfit(usize, bool),
    /// The cells, and where the next row begins if one can be read.
    Cells(Vec<Range<usize>>, Option<usize>),
}

/// Returns the end of the line at `at`, if it has at most `max` bytes.
pub(super) fn line_end(text: &[u8], at: usize, max: usize) -> Option<usize> {
    let line = &text[at..text.len().min(at + max)];
    let end = memchr::memchr(b'\n', line);
    #[cfg(test)]
    super::super::tests::INSPECTED.with(|n| n.set(n.get() + end.unwrap_or(line.len())));
    end.map(|length| at + length)
}

/// Returns the letters of prefixes of a line.
pub(super) fn letters(prefixes: &[u8]) -> impl Iterator<Item = &u8> {
    prefixes.iter().filter(|b| b.is_ascii_alphabetic())
}

/// Whether a text ends as the name of a file does.
pub(super) fn has_extension(text: &[u8]) -> bool {
    let dot = text.iter().rposition(|&b| b == b'.');
    dot.is_some_and(|dot| {
        let extension = &text[dot + 1..];
        let is_sign = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        dot > 0 && (1..=4).contains(&extension.len()) && extension.iter().all(is_sign)
    })
}

impl Table {
    /// Reads the row at `start`.
    pub(super) fn read_row(&self, text: &[u8], start: usize, last: bool) -> Row {
        if self.form == TableForm::Lists {
            return self.read_list(text, start, last);
        }
        let start = start.min(text.len());
        let end_of = |at: usize| match line_end(text, at, MAX_ROW) {
            Some(end) => Ok(end),
            None if text.len() - at >= MAX_ROW => Err(Row::Misfit(at + MAX_ROW, true)),
            None if !last || at == text.len() => Err(Row::Incomplete),
            None => Ok(text.len()),
        };
        let mut end = match end_of(start) {
            Ok(end) => end,
            Err(row) => return row,
        };
        let next = text.len().min(end + 1);
        if self.is_within {
            return Row::Misfit(next, false);
        }
        let line = &text[start..end];
        let Some(content) = self.content(line) else {
            return Row::Misfit(next, false);
        };
        if line[content..].trim_ascii().is_empty() {
            return Row::End;
        }
        if is_ruler(line) || is_ruler(&line[content..]) {
            return Row::Ruler(next);
        }
        let mut cells = self.form.cells(text, start + content..end);
        let mut long_cells = 0;
        while let Some(quote) = cells.open_quote {
            let limit = text.len().min(start + MAX_LINES);
            let close = quoted_end(&text[..limit], quote.min(limit));
            if close.is_none() && limit < start + MAX_LINES && !last {
                return Row::Incomplete;
            }
            long_cells += 1;
            match close.filter(|_| long_cells <= MAX_LONG_CELLS).map(end_of) {
                Some(Ok(behind)) => end = behind,
                Some(Err(Row::Incomplete)) if !last => return Row::Incomplete,
                // The end of the text cuts the cell.
                _ if end == text.len() => break,
                _ => return Row::Misfit(next, false),
            }
            cells = self.form.cells(text, start + content..end);
        }
        let cells = cells.ranges;
        let is_row = match self.form {
            // A cell may be empty.
            TableForm::Aligned => cells.len() >= 2,
            _ => {
                let is_cut = end == text.len() && cells.len() < self.cells;
                let first = cells.first().map(|cell| &text[cell.clone()]);
                (is_cut || cells.len() == self.cells)
                    && first.is_some_and(|first| first != self.first)
            }
        };
        // A comment, or a row of one word; other lines are text behind the table.
        let may_be_between = || match self.form {
            TableForm::Aligned => line.starts_with(b"#") || !line.trim_ascii().contains(&b' '),
            _ => true,
        };
        match self.needs_ruler {
            false if is_row => Row::Cells(cells, Some(text.len().min(end + 1))),
            false if may_be_between() => Row::Misfit(next, false),
            _ => Row::End,
        }
    }

    /// Returns where the content of a line begins, behind the same prefixes as the heading has.
    fn content(&self, line: &[u8]) -> Option<usize> {
        if self.prefixes.count == 0 {
            return Some(0);
        }
        let content = readings(line).nth(self.prefixes.count)?;
        let start = line.len() - content.len();
        letters(&line[..start])
            .eq(&self.prefixes.letters)
            .then_some(start)
    }

    /// Reads the list in parentheses behind the blanks or the comma at `start`.
    fn read_list(&self, text: &[u8], start: usize, last: bool) -> Row {
        let text = &text[..text.len().min(start + MAX_LIST)];
        let is_cut = last || text.len() == start + MAX_LIST;
        let mut open = start;
        loop {
            open += match text.get(open..).unwrap_or_default() {
                [b',', ..] => 1,
                [byte, ..] if byte.is_ascii_whitespace() => 1,
                // In a string of JSON or of a program.
                [b'\\', b'n' | b'r' | b't', ..] => 2,
                [b'(', ..] => break,
                [] | [b'\\'] if !is_cut => return Row::Incomplete,
                _ => return Row::End,
            };
        }
        let list = list(text, open);
        match list.end {
            None if !is_cut => Row::Incomplete,
            Some(end) if list.cells.len() != self.cells => Row::Misfit(end, false),
            // The beginning of a list that is too long, or that the end of the text cuts.
            end => Row::Cells(list.cells, end),
        }
    }

    /// Returns the secrets in the cells of a row that begins at `start`.
    pub(super) fn secrets(
        &self,
        text: &[u8],
        start: usize,
        cells: &[Range<usize>],
    ) -> impl Iterator<Item = (Range<usize>, Arc<str>)> {
        let places = match self.form {
            TableForm::Aligned => characters(text, start, cells),
            _ => Vec::new(),
        };
        let under = |column: &Range<usize>| match self.form {
            TableForm::Aligned => {
                let first = places.partition_point(|place| place.end <= column.start);
                let is_under = places.get(first)?.start < column.end;
                cells.get(first).filter(|_| is_under)
            }
            _ => cells.get(column.start),
        };
        let is_clear = |value: &[u8]| {
            let looks_alike = || value_class::mixes_characters(value) || key_like(value);
            !self.is_weak || !has_extension(value) && looks_alike()
        };
        let secret = |column: &SecretColumn| {
            let cell = under(&column.place)?.clone();
            let value = &text[cell.clone()];
            let is_secret = is_clear(value) && is_cell_secret(value, column.is_password);
            is_secret.then(|| (cell, column.kind.clone()))
        };
        let named = || {
            let (name, value) = self.pair.as_ref()?;
            let (name, cell) = (&text[under(name)?.clone()], under(value)?.clone());
            let value = &text[cell.clone()];
            let is_word = value.iter().all(|b| b.is_ascii_graphic() || *b >= 0x80);
            // More columns may be those of any table, such as one of words.
            let is_text = self.cells > 2 && value_class::is_identifier(value);
            let is_secret = is_word
                && !is_text
                && !value.starts_with(MARK_START.as_bytes())
                && is_clear(value)
                && is_named_secret(name, value);
            is_secret.then(|| (cell, "secret".into()))
        };
        let mut found: Vec<_> = self.columns.iter().filter_map(secret).collect();
        found.extend(named());
        found.sort_by_key(|(cell, _)| cell.start);
        found.dedup_by_key(|(cell, _)| cell.start);
        found.into_iter()
    }
}

/// Whether the value of a cell is a secret, as opposed to a word about it.
fn is_cell_secret(value: &[u8], is_password: bool) -> bool {
    let is_word = !value.iter().all(|b| b.is_ascii_graphic() || *b >= 0x80)
        || !value.iter().any(|b| b.is_ascii_alphabetic() || *b >= 0x80)
        || value.starts_with(MARK_START.as_bytes());
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let is_short_key = value.len() >= MIN_KEY && digits >= 2 && password_like(value, false);
    !is_word
        && match is_password {
            true => password_like(value, false) || value_class::mixes_characters(value),
            false => key_like(value) || is_short_key && !value_class::has_words(value),
        }
}
