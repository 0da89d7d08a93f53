//! Secrets in the columns of tables: a heading such as `user,password` names what stands in the rows below it.
//!
//! Tables of CSV, with tabs, with `|` as psql, mysql and Markdown write them, with borders, in columns with blanks between them, and the
//! rows of `INSERT` and `COPY` in SQL.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use super::super::{BACK, value_class};
use super::FormatRules;
use super::cells::{TableForm, characters, is_ruler, quoted_end, trimmed};
use super::context::{key_like, lower, password_like};
use super::secret_names::{is_secret_suffix, names_a_secret};
use crate::safety::redact::stage::SecretMatch;

/// Maximum length of a heading, and of the name of a column.
const MAX_HEADING: usize = 1 << 10;
const MAX_NAME: usize = 40;
/// Maximum number of words of the name of a column: a longer one is a sentence.
const MAX_WORDS: usize = 3;
/// Maximum length of a row.
const MAX_ROW: usize = 4 << 10;
/// Minimum length of a key in a cell: a shorter one is often an abbreviation.
const MIN_KEY: usize = 12;

/// A column of secrets.
#[derive(Debug, Clone)]
struct SecretColumn {
    /// Its number; of an aligned table the characters of its line that its heading takes.
    place: Range<usize>,
    kind: Arc<str>,
    is_password: bool,
}

/// A table whose rows are read. Positions are those of the whole text.
#[derive(Debug, Clone)]
struct Table {
    form: TableForm,
    /// Number of cells of each row.
    cells: usize,
    /// The first cell of the heading. A row that begins with it too is a line with a prefix, such as `web-1 | `.
    first: Vec<u8>,
    columns: Vec<SecretColumn>,
    /// A line without text must follow the heading: words with `|` between them are a pipeline.
    needs_ruler: bool,
    /// Where the next row begins.
    row: usize,
}

/// What is known of tables between two chunks of a text.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct TableState {
    table: Option<Table>,
    /// Secrets in the row that was read last.
    cells: VecDeque<(Range<usize>, Arc<str>)>,
    /// End of the last line that was read as a heading.
    read_to: usize,
}

/// What comes next in a table.
pub(super) enum TableEvent {
    /// There is no table.
    None,
    /// A secret in a cell.
    Secret(SecretMatch),
    /// A row that is not complete begins here.
    Incomplete(usize),
}

/// A row of a table.
enum Row {
    Incomplete,
    /// The table has ended.
    End,
    /// A line between rows.
    Ruler(usize),
    /// The cells, and where the next row begins.
    Cells(Vec<Range<usize>>, usize),
}

impl TableState {
    /// Returns what comes next at `at` or later in a text that begins at `base` of the whole text.
    pub(super) fn next(&mut self, text: &[u8], base: usize, at: usize, last: bool) -> TableEvent {
        loop {
            while let Some((cell, kind)) = self.cells.front() {
                if cell.end <= base + at {
                    self.cells.pop_front();
                    continue;
                }
                return TableEvent::Secret(SecretMatch {
                    range: cell.start.max(base + at) - base..cell.end - base,
                    kind: kind.clone(),
                    more: None,
                });
            }
            // A secret that goes on in the next rows ends the table.
            let Some(table) = self.table.as_mut().filter(|table| table.row >= base + at) else {
                self.table = None;
                return TableEvent::None;
            };
            let start = table.row - base;
            match table.read_row(text, start, last) {
                Row::Incomplete => return TableEvent::Incomplete(start),
                Row::End => {
                    // Its rows are no headings.
                    self.read_to = self.read_to.max(table.row);
                    self.table = None;
                }
                Row::Ruler(next) => {
                    table.needs_ruler = false;
                    table.row = base + next;
                }
                Row::Cells(cells, next) => {
                    let found = table.secrets(text, start, &cells);
                    let found =
                        found.map(|(cell, kind)| (base + cell.start..base + cell.end, kind));
                    self.cells = found.collect();
                    table.row = base + next;
                }
            }
        }
    }

    /// Reads the line or list around a keyword at `at` as a heading. Returns whether a table begins there.
    pub(super) fn open(
        &mut self,
        rules: &FormatRules,
        text: &[u8],
        base: usize,
        at: usize,
    ) -> bool {
        if self.table.is_some() || base + at < self.read_to {
            return false;
        }
        let Some(line) = heading_line(text, at, base == 0) else {
            return false;
        };
        self.read_to = base + line.end;
        self.table = sql_heading(rules, text, &line, at)
            .or_else(|| line_heading(rules, text, &line))
            .map(|table| Table {
                row: base + table.row,
                ..table
            });
        self.table.is_some()
    }

    /// Reads all rows of the table. Returns where text begins that may belong to a row which is not complete.
    pub(super) fn read_rows(&mut self, text: &[u8], base: usize) -> Option<usize> {
        let mut at = 0;
        loop {
            match self.next(text, base, at, false) {
                TableEvent::None => return None,
                TableEvent::Secret(secret) => at = secret.range.end,
                TableEvent::Incomplete(row) => return Some(row),
            }
        }
    }

    /// Returns the state for another part of the text, after a gap, and where its first whole row begins; 0 without a table.
    pub(in super::super) fn after_gap(self, part: &[u8]) -> (TableState, usize) {
        let table = self.table.filter(|table| table.form != TableForm::Lists);
        let Some(table) = table else {
            return (TableState::default(), 0);
        };
        let row = memchr::memchr(b'\n', part).map_or(part.len(), |at| at + 1);
        let state = TableState {
            table: Some(Table { row: 0, ..table }),
            ..TableState::default()
        };
        (state, row)
    }
}

/// Returns the line around `at` without its end; `None` if it is longer than a heading or not complete.
fn heading_line(text: &[u8], at: usize, is_start: bool) -> Option<Range<usize>> {
    let from = at.saturating_sub(BACK);
    let start = match text[from..at].iter().rposition(|&b| b == b'\n') {
        Some(before) => from + before + 1,
        None if is_start && from == 0 => 0,
        None => return None,
    };
    let end = line_end(text, at, MAX_HEADING)?;
    Some(start..end)
}

/// Returns the end of the line at `at`, if it has at most `max` bytes.
fn line_end(text: &[u8], at: usize, max: usize) -> Option<usize> {
    let line = &text[at..text.len().min(at + max)];
    #[cfg(test)]
    super::super::tests::INSPECTED.with(|n| n.set(n.get() + line.len()));
    memchr::memchr(b'\n', line).map(|length| at + length)
}

/// Reads a line as the heading of a table of lines.
fn line_heading(rules: &FormatRules, text: &[u8], line: &Range<usize>) -> Option<Table> {
    let content = &text[line.clone()];
    let count = |sign: &str| memchr::memmem::find_iter(content, sign).count();
    let by_sign = ["|", "│", "┃", "\t", ";", ","];
    // Programs write no blank behind these signs, prose and code do.
    if count(", ") + count("; ") > 0 {
        return None;
    }
    let form = match by_sign.into_iter().find(|sign| count(sign) > 0) {
        Some(sign) => TableForm::Separated(sign),
        None => TableForm::Aligned,
    };
    let cells = form.cells(text, line.clone());
    let is_name = |cell: &Range<usize>| is_column_name(&text[cell.clone()]);
    // Only the column of row numbers has no name: a comma may end a line of a program.
    let has_names = cells.iter().skip(1).all(|cell| !cell.is_empty());
    if cells.len() < 2 || !has_names || !cells.iter().all(is_name) {
        return None;
    }
    let places = match form {
        TableForm::Aligned => characters(text, line.start, &cells),
        _ => (0..cells.len()).map(|number| number..number + 1).collect(),
    };
    let column = |(cell, place): (&Range<usize>, Range<usize>)| {
        let (kind, is_password) = rules.column_kind(&text[cell.clone()])?;
        Some(SecretColumn {
            place,
            kind,
            is_password,
        })
    };
    let columns: Vec<_> = cells.iter().zip(places).filter_map(column).collect();
    (!columns.is_empty()).then_some(Table {
        form,
        cells: cells.len(),
        first: text[cells[0].clone()].to_vec(),
        columns,
        needs_ruler: count(" | ") > 0,
        row: line.end + 1,
    })
}

/// Reads the columns of `INSERT INTO table (…) VALUES` and `COPY table (…) FROM stdin;`, one of which is at `at`.
fn sql_heading(rules: &FormatRules, text: &[u8], line: &Range<usize>, at: usize) -> Option<Table> {
    let open = text[line.start..at].iter().rposition(|&b| b == b'(')?;
    let open = line.start + open;
    let lead = lower(&text[line.start..open]);
    let is_insert = ["insert into ", "replace into "]
        .iter()
        .any(|words| lead.contains(words));
    let close = at + text[at..line.end].iter().position(|&b| b == b')')?;
    let behind = lower(&text[close + 1..text.len().min(close + 64)]);
    let blanks = behind.len() - behind.trim_ascii_start().len();
    let (form, row) = if is_insert && behind[blanks..].starts_with("values") {
        (TableForm::Lists, close + 1 + blanks + "values".len())
    } else if lead.trim_ascii_start().starts_with("copy ") && behind.starts_with(" from stdin") {
        (TableForm::Separated("\t"), line.end + 1)
    } else {
        return None;
    };
    let cells = TableForm::Separated(",").cells(text, open + 1..close);
    let column = |(number, cell): (usize, &Range<usize>)| {
        let (kind, is_password) = rules.column_kind(&text[cell.clone()])?;
        Some(SecretColumn {
            place: number..number + 1,
            kind,
            is_password,
        })
    };
    let columns: Vec<_> = cells.iter().enumerate().filter_map(column).collect();
    (!columns.is_empty()).then_some(Table {
        form,
        cells: cells.len(),
        first: text[cells[0].clone()].to_vec(),
        columns,
        needs_ruler: false,
        row,
    })
}

/// Whether a cell can be the name of a column.
fn is_column_name(cell: &[u8]) -> bool {
    let is_sign = |b: &u8| b.is_ascii_alphanumeric() || b" _-./#*".contains(b) || *b >= 0x80;
    let words = cell.split(|&b| b == b' ').filter(|word| !word.is_empty());
    cell.len() <= MAX_NAME
        && cell.iter().all(is_sign)
        && !cell.first().is_some_and(u8::is_ascii_digit)
        && !cell.starts_with(b"-")
        && words.count() <= MAX_WORDS
}

impl FormatRules {
    /// Returns the kind of the secrets in a column with this name, and whether they are passwords.
    fn column_kind(&self, name: &[u8]) -> Option<(Arc<str>, bool)> {
        let kind_at = |at: usize| {
            let mut rules = self.keys_at(name, at).filter(super::FormatRule::is_name);
            rules.find_map(|rule| {
                let (lead, rest) = name.split_at(at);
                let (key, suffix) = rest.split_at(rule.key.len());
                let keyword = lower(key);
                let is_suffix = !suffix.contains(&b' ') && is_secret_suffix(&keyword, suffix);
                let is_password = keyword.starts_with("pass")
                    || keyword.ends_with("pw")
                    || matches!(&*keyword, "pwd" | "psk");
                (is_suffix && names_a_secret(lead, key)).then(|| (rule.kind.into(), is_password))
            })
        };
        (0..name.len()).find_map(kind_at)
    }
}

impl Table {
    /// Reads the row at `start`.
    fn read_row(&self, text: &[u8], start: usize, last: bool) -> Row {
        if self.form == TableForm::Lists {
            return self.read_list(text, start, last);
        }
        let rest = text.get(start..).unwrap_or_default();
        let end = match line_end(text, start.min(text.len()), MAX_ROW) {
            Some(end) => end,
            None if rest.len() >= MAX_ROW => return Row::End,
            None if !last || rest.is_empty() => return Row::Incomplete,
            None => text.len(),
        };
        let next = text.len().min(end + 1);
        let line = &text[start..end];
        if line.trim_ascii().is_empty() {
            return Row::End;
        }
        if is_ruler(line) {
            return Row::Ruler(next);
        }
        let cells = self.form.cells(text, start..end);
        let is_row = !self.needs_ruler
            && match self.form {
                // A cell may be empty.
                TableForm::Aligned => cells.len() >= 2,
                _ => cells.len() == self.cells && text[cells[0].clone()] != *self.first,
            };
        match is_row {
            true => Row::Cells(cells, next),
            false => Row::End,
        }
    }

    /// Reads the list in parentheses behind the blanks or the comma at `start`.
    fn read_list(&self, text: &[u8], start: usize, last: bool) -> Row {
        let rest = &text[start.min(text.len())..text.len().min(start + MAX_ROW)];
        let is_between = |b: &u8| b.is_ascii_whitespace() || *b == b',';
        let open = rest.iter().position(|b| !is_between(b));
        let unfinished = match last || rest.len() == MAX_ROW {
            true => Row::End,
            false => Row::Incomplete,
        };
        let Some(open) = open else {
            return unfinished;
        };
        if rest[open] != b'(' {
            return Row::End;
        }
        let mut cells = Vec::new();
        let (mut cell, mut at, mut depth) = (open + 1, open + 1, 0);
        while let Some(&byte) = rest.get(at) {
            match byte {
                b'\'' | b'"' => match quoted_end(rest, at) {
                    Some(end) => at = end - 1,
                    None => return unfinished,
                },
                b'(' => depth += 1,
                b')' if depth > 0 => depth -= 1,
                b',' | b')' if depth == 0 => {
                    cells.push(trimmed(text, start + cell..start + at));
                    cell = at + 1;
                    if byte == b')' {
                        return match cells.len() == self.cells {
                            true => Row::Cells(cells, start + at + 1),
                            false => Row::End,
                        };
                    }
                }
                _ => {}
            }
            at += 1;
        }
        unfinished
    }

    /// Returns the secrets in the cells of a row that begins at `start`.
    fn secrets(
        &self,
        text: &[u8],
        start: usize,
        cells: &[Range<usize>],
    ) -> impl Iterator<Item = (Range<usize>, Arc<str>)> {
        let places = match self.form {
            TableForm::Aligned => characters(text, start, cells),
            _ => Vec::new(),
        };
        let under = |column: &SecretColumn| match self.form {
            TableForm::Aligned => {
                let first = places.partition_point(|place| place.end <= column.place.start);
                let is_under = places.get(first)?.start < column.place.end;
                cells.get(first).filter(|_| is_under)
            }
            _ => cells.get(column.place.start),
        };
        let secret = |column: &SecretColumn| {
            let cell = under(column)?.clone();
            let is_secret = is_cell_secret(&text[cell.clone()], column.is_password);
            is_secret.then(|| (cell, column.kind.clone()))
        };
        let mut found: Vec<_> = self.columns.iter().filter_map(secret).collect();
        found.sort_by_key(|(cell, _)| cell.start);
        found.dedup_by_key(|(cell, _)| cell.start);
        found.into_iter()
    }
}

/// Whether the value of a cell is a secret, as opposed to a word about it.
fn is_cell_secret(value: &[u8], is_password: bool) -> bool {
    let is_word = !value.iter().all(|b| b.is_ascii_graphic() || *b >= 0x80)
        || value.starts_with(super::super::MARK_START.as_bytes());
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let is_short_key = value.len() >= MIN_KEY && digits >= 2 && password_like(value, false);
    !is_word
        && match is_password {
            true => password_like(value, false) || value_class::mixes_characters(value),
            false => key_like(value) || is_short_key && !value_class::has_words(value),
        }
}
