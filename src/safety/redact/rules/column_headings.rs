//! The headings of tables whose columns have secrets: a line of names, and the names in `INSERT` and `COPY`.

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::Input;

use super::super::BACK;
use super::FormatRules;
use super::byte_classes::{is_quote, lower};
use super::cells::{TableForm, characters, count_signs};
use super::column_rows::{Prefixes, SecretColumn, Table, has_extension, letters, line_end};

use super::fields::is_column;
use super::line_prefix::readings;
use super::secret_names::{is_secret_suffix, names_a_secret};

/// Maximum length of a heading, and of the name of a column.
const MAX_HEADING: usize = 1 << 10;
const MAX_NAME: usize = 40;
/// Maximum length of the names of columns in a statement of SQL.
const MAX_NAMES: usize = 4 << 10;
/// Maximum number of words of the name of a column: a longer one is a sentence.
const MAX_WORDS: usize = 3;
/// Maximum number of words of a statement of SQL before its columns, and of bytes between its columns and its rows.
const MAX_VERBS: usize = 6;
const MAX_BETWEEN: usize = 96;

/// Last words of the names of columns that name the values in another column.
const NAME_COLUMNS: [&str; 10] = [
    "name",
    "key",
    "variable",
    "setting",
    "option",
    "parameter",
    "property",
    "label",
    "field",
    "output",
];

/// Last words of the names of columns of a table of words, whose names say where a program shows each word.
const LANGUAGE_COLUMNS: [&str; 5] = ["lang", "language", "locale", "translation", "i18n"];

/// The names of the columns in a statement of SQL.
pub(super) enum SqlHeading {
    /// There is none around the names before this position.
    None(usize),
    /// What follows the text decides.
    Incomplete,
    Table(Table),
}

/// A line with the one before it, as far as they may be inspected.
pub(super) struct HeadingLine<'t> {
    pub range: Range<usize>,
    before: &'t [u8],
    /// The line before goes on to the left.
    is_cut: bool,
}

/// Returns the line around `at` without its end; `None` if it is longer than a heading or not complete.
pub(super) fn heading_line(text: &[u8], at: usize, is_start: bool) -> Option<HeadingLine<'_>> {
    let from = at.saturating_sub(BACK);
    let start = match memchr::memrchr(b'\n', &text[from..at]) {
        Some(before) => from + before + 1,
        None if is_start && from == 0 => 0,
        None => return None,
    };
    let end = line_end(text, at, MAX_HEADING)?;
    let before = &text[from..start.saturating_sub(1).max(from)];
    let line = memchr::memrchr(b'\n', before);
    Some(HeadingLine {
        range: start..end,
        before: &before[line.map_or(0, |at| at + 1)..],
        is_cut: line.is_none() && !(is_start && from == 0),
    })
}

/// Reads a line with a name at `at` as the heading of a table of lines, or what stands in it behind the prefixes of programs.
pub(super) fn line_heading(
    rules: &FormatRules,
    text: &[u8],
    line: &HeadingLine<'_>,
    at: usize,
) -> Option<Table> {
    let end = line.range.end;
    let contents = readings(&text[line.range.clone()]).enumerate().skip(1);
    let contents = contents.map(|(count, content)| (count, end - content.len()));
    let plain = std::iter::once((0, line.range.start));
    let readings = plain.chain(contents).filter(|(_, start)| *start <= at);
    let mut tables = readings.filter_map(|(count, start)| {
        let prefixes = Prefixes {
            count,
            letters: letters(&text[line.range.start..start]).copied().collect(),
        };
        names_heading(rules, text, line, start, prefixes)
    });
    let table = tables.next()?;
    let other = match table.needs_ruler {
        true => tables.next().map(Box::new),
        false => None,
    };
    Some(Table { other, ..table })
}

/// Reads the rest of a line from `start` as a heading.
fn names_heading(
    rules: &FormatRules,
    text: &[u8],
    line: &HeadingLine<'_>,
    start: usize,
    prefixes: Prefixes,
) -> Option<Table> {
    let content = &text[start..line.range.end];
    let count = |sign: &str| count_signs(content, sign);
    let has_prefixes = prefixes.count > 0;
    // Prose and code write a blank behind these signs, most programs do not.
    let is_spaced = count(", ") > 0;
    let sign = ["|", "│", "\t", ";", ","]
        .into_iter()
        .find(|sign| count(sign) > 0);
    let form = match sign {
        Some(",") if is_spaced && count(", ") == count(",") => TableForm::Separated(", "),
        _ if is_spaced || count("; ") > 0 => return None,
        Some(sign) => TableForm::Separated(sign),
        None => TableForm::Aligned,
    };
    let cells = form.cells(text, start..line.range.end).ranges;
    let name = |cell: &Range<usize>| &text[cell.clone()];
    // A comma may end a line of a program.
    let ends_open = form == TableForm::Separated(",") && cells.last().is_some_and(Range::is_empty);
    let named = &cells[..cells.len() - usize::from(ends_open)];
    // Only the column of row numbers has no name.
    let has_names = named.iter().skip(1).all(|cell| !cell.is_empty());
    if named.len() < 2 || !has_names || !named.iter().all(|cell| is_column_name(name(cell))) {
        return None;
    }
    let has_blank = |cell: &Range<usize>| name(cell).contains(&b' ');
    let is_code = has_prefixes || content[0] == b' ' || named.iter().any(has_blank);
    let is_line_of_code = ends_open || is_spaced;
    // A listing of files has lines of these forms.
    let is_listing = matches!(form, TableForm::Aligned | TableForm::Separated("\t"));
    let is_file = |cell: &Range<usize>| has_extension(name(cell));
    if is_line_of_code && is_code || is_listing && named.iter().any(is_file) {
        return None;
    }
    let before = form.cells(line.before, 0..line.before.len()).ranges.len();
    let follows_row = before >= if line.is_cut { 2 } else { cells.len() };
    let is_capitalised = named.iter().all(|cell| is_capitalised(name(cell)));
    let places = match form {
        TableForm::Aligned => characters(text, line.range.start, &cells),
        _ => (0..cells.len()).map(|number| number..number + 1).collect(),
    };
    let table = table(rules, text, form, &cells, places)?;
    Some(Table {
        needs_ruler: count(" | ") > 0 || is_listing && follows_row,
        is_weak: is_line_of_code || (is_listing || has_prefixes) && !is_capitalised,
        prefixes,
        row: line.range.end + 1,
        ..table
    })
}

/// Returns a table with these columns, if one of them has secrets.
fn table(
    rules: &FormatRules,
    text: &[u8],
    form: TableForm,
    cells: &[Range<usize>],
    places: Vec<Range<usize>>,
) -> Option<Table> {
    let column = |(cell, place): (&Range<usize>, Range<usize>)| {
        let (kind, is_password) = rules.column_kind(&text[cell.clone()])?;
        Some(SecretColumn {
            place,
            kind,
            is_password,
        })
    };
    let place_of = |words: &[&str]| {
        let mut named = cells.iter().zip(&places);
        let place = named.find(|(cell, _)| is_column(&text[(*cell).clone()], words))?;
        Some(place.1.clone())
    };
    let pair = place_of(&NAME_COLUMNS).zip(place_of(&["value"]));
    let pair = pair.filter(|_| place_of(&LANGUAGE_COLUMNS).is_none());
    let columns = cells.iter().zip(places.iter().cloned());
    let columns: Vec<_> = columns.filter_map(column).collect();
    (!columns.is_empty() || pair.is_some()).then(|| Table {
        form,
        cells: cells.len(),
        first: text[cells[0].clone()].to_vec(),
        columns,
        pair,
        needs_ruler: false,
        is_weak: false,
        prefixes: Prefixes::default(),
        other: None,
        row: 0,
        is_within: false,
    })
}

/// Reads the columns of `INSERT INTO table (…) VALUES` and `COPY table (…) FROM stdin;`, one of which is at `at`.
pub(super) fn sql_heading(rules: &FormatRules, text: &[u8], at: usize) -> SqlHeading {
    let from = at.saturating_sub(BACK);
    let is_part = |b: &u8| {
        b.is_ascii_alphanumeric()
            || b.is_ascii_whitespace()
            || b"_.,$[]-".contains(b)
            || is_quote(*b)
            || *b >= 0x80
    };
    let open = memchr::memrchr(b'(', &text[from..at]).map(|open| from + open);
    let Some(open) = open.filter(|open| text[open + 1..at].iter().all(is_part)) else {
        return SqlHeading::None(at);
    };
    let lead = text[from..open].to_ascii_lowercase();
    let words = lead.rsplit(u8::is_ascii_whitespace);
    let mut words = words.filter(|word| !word.is_empty()).take(MAX_VERBS);
    let is_copy = words.find_map(|word| match word {
        _ if word.ends_with(b"insert") || word.ends_with(b"replace") => Some(false),
        _ if word.ends_with(b"copy") => Some(true),
        _ => None,
    });
    let Some(is_copy) = is_copy else {
        return SqlHeading::None(at);
    };
    let unfinished = |start: usize, max: usize| match text.len() < start + max {
        true => SqlHeading::Incomplete,
        false => SqlHeading::None(start + max),
    };
    let names = &text[at..text.len().min(at + MAX_NAMES)];
    let length = names.iter().position(|b| !is_part(b));
    #[cfg(test)]
    super::super::tests::INSPECTED.with(|n| n.set(n.get() + length.unwrap_or(names.len())));
    let close = match length {
        Some(length) if names[length] == b')' => at + length,
        Some(length) => return SqlHeading::None(at + length),
        None => return unfinished(at, MAX_NAMES),
    };
    let behind = lower(&text[close + 1..text.len().min(close + 1 + MAX_BETWEEN)]);
    let (form, row) = if is_copy {
        let Some(end) = line_end(text, close, MAX_HEADING) else {
            return unfinished(close, MAX_HEADING);
        };
        // The rest of the statement may be in the next line.
        let statement = lower(&text[close + 1..end]);
        let sign = if statement.contains("csv") { "," } else { "\t" };
        match behind.trim_ascii_start().starts_with("from stdin") {
            true => (TableForm::Separated(sign), end + 1),
            false => return SqlHeading::None(close),
        }
    } else {
        let Some(next) = text[close + 1..]
            .iter()
            .take(MAX_BETWEEN)
            .position(|b| b"(;)".contains(b))
        else {
            return unfinished(close + 1, MAX_BETWEEN);
        };
        // In a string of JSON or of a program.
        let words = lower(&text[close + 1..close + 1 + next]).replace("\\n", " ");
        let words = words.trim_ascii_end();
        match words.ends_with("values") || words.ends_with("value") {
            true => (TableForm::Lists, close + 1 + next),
            false => return SqlHeading::None(close),
        }
    };
    let cells = TableForm::Separated(",").cells(text, open + 1..close);
    let numbers = (0..cells.ranges.len()).map(|number| number..number + 1);
    let table = table(rules, text, form, &cells.ranges, numbers.collect());
    table.map_or(SqlHeading::None(close), |table| {
        SqlHeading::Table(Table { row, ..table })
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

/// Whether a name begins with a capital letter, or has no letters.
fn is_capitalised(name: &[u8]) -> bool {
    let first = name.iter().find(|b| b.is_ascii_alphabetic());
    first.is_none_or(u8::is_ascii_uppercase)
}

impl FormatRules {
    /// Returns the kind of the secrets in a column with this name, and whether they are passwords.
    pub(super) fn column_kind(&self, name: &[u8]) -> Option<(Arc<str>, bool)> {
        // The number of a secret, as opposed to a `secret_id`.
        if lower(name).ends_with(" id") {
            return None;
        }
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
        let mut from = 0;
        let keywords = std::iter::from_fn(|| {
            let finder = self.finder.as_ref()?;
            let keyword = finder.find(Input::new(name).range(from.min(name.len())..))?;
            from = keyword.start() + 1;
            Some(keyword.start())
        });
        let mut kinds = keywords.filter_map(kind_at);
        let first = kinds.next()?;
        let is_password = |(_, is_password): &(_, bool)| *is_password;
        match is_password(&first) {
            true => Some(first),
            false => Some(kinds.find(is_password).unwrap_or(first)),
        }
    }
}
