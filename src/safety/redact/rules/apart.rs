//! Values that are separated from the name of a secret: `name: DB_PASSWORD` and `value: …`, `#define API_KEY "…"`, `the password is …`.

use std::ops::Range;

use super::byte_classes::{is_quote, is_space, lower};

use super::line_prefix::readings;
use super::rows::{
    LineStart, Row, first_line_end, has_line_end, last_line, line_end, next_line, next_row,
};
use super::{KeywordMatch, run_length};

/// Maximum number of bytes between a name and its value.
const MAX_GAP: usize = 48;

/// Maximum number of bytes between a name and a value in the next line, with what a program prints before it.
const MAX_APART: usize = 192;

/// How a value that stands apart is tied to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// By the form of a setting, which has a value in this place.
    Setting,
    /// By the order in a row of a table.
    Cell,
    /// By the words of a sentence.
    Told,
    /// By the order in the arguments of some function.
    Words,
}

/// Returns where the value of a name begins, and how it is tied to the name; `at` is past the quotes and blanks after the name.
pub(super) fn value_apart(
    place: &KeywordMatch<'_>,
    name: &Range<usize>,
    at: usize,
) -> Option<(usize, ValueForm)> {
    let text = place.text;
    let before = &text[place.from..name.start];
    let behind = &text[at..text.len().min(at + MAX_GAP)];
    let spaces = |at: usize| run_length(text, at, is_space).min(MAX_GAP);
    let setting = |at| Some((at, ValueForm::Setting));
    if names_next(before) {
        let value = pair_value(text, name.end);
        return setting(value.or_else(|| form_value(text, name.end))?);
    }
    if before.ends_with(b"<key>") && text[name.end..].starts_with(b"</key>") {
        return setting(next_element(text, name.end + 6)?);
    }
    let lead = without_marks(before);
    // The name may have parts: `setProperty("javax.net.ssl.keyStorePassword", "…")`.
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || b"._-".contains(b);
    let name_start = before.iter().rposition(|b| !is_part(b));
    let call = &before[..name_start.map_or(0, |at| at + 1)];
    // `define('DB_PASSWORD', '…')` of PHP, `setenv("API_KEY", "…")`
    if without_marks(call).ends_with(b"(") && call.last().copied().is_some_and(is_quote) {
        let value = at + 1 + spaces(at + 1);
        let is_next = behind.starts_with(b",") && text.get(value).copied().is_some_and(is_quote);
        let is_variable = !text[name.clone()].iter().any(u8::is_ascii_lowercase);
        let form = match is_variable || sets_value(without_marks(call)) {
            true => ValueForm::Setting,
            false => ValueForm::Words,
        };
        return is_next.then_some((value, form));
    }
    if at > name.end && sets_variable(place.line_before()) {
        return setting(at);
    }
    if at > name.end && sets_key(before) {
        return Some((at, ValueForm::Cell));
    }
    // The expanded output of psql.
    let starts_line = || readings(last_line(before)).any(<[u8]>::is_empty);
    if behind.starts_with(b"|") && has_record(before) && starts_line() {
        return setting(at + 1 + spaces(at + 1));
    }
    let bar = bar_length(behind);
    if bar > 0 && ends_with_bar(lead) {
        return Some((at + bar + spaces(at + bar), ValueForm::Cell));
    }
    if let Some(value) = next_reply(text, last_line(before), name.end) {
        return setting(value);
    }
    // An automatic property of C#.
    let property = b"{ get; set; } = ";
    if behind.starts_with(property) {
        return setting(at + property.len());
    }
    if !text[..at].ends_with(b" ") {
        return None;
    }
    // `the password for the database is …`
    let phrase = run_length(behind, 0, |b| {
        b.is_ascii_alphanumeric() || b" '-_:".contains(&b)
    });
    let verb = |verb: &str| {
        let start = memchr::memmem::find(&behind[..phrase], verb.as_bytes());
        start.map(|at| at + verb.len())
    };
    // `has been set to "…"`
    let set = [" set to", "changed to"].into_iter().find_map(verb);
    // `password was changed from "…"`, `Changed password for bob from "…"`
    let from = || match lower(last_line(before)).contains("changed ") {
        true => verb(" from"),
        false => verb("changed from"),
    };
    let is = match behind.starts_with(b"is") && set.is_none() {
        true => 2,
        false => set.or_else(from).or_else(|| verb(" is"))?,
    };
    let is = is + usize::from(behind.get(is) == Some(&b':'));
    let blanks = spaces(at + is);
    let is_quoted = text.get(at + is + blanks).copied().is_some_and(is_quote);
    let form = match set.is_some() && is_quoted {
        true => ValueForm::Setting,
        false => ValueForm::Told,
    };
    (blanks > 0).then_some((at + is + blanks, form))
}

/// Whether a text ends with the call of a function that sets the value of a name.
fn sets_value(lead: &[u8]) -> bool {
    let calls: [&[u8]; 6] = [
        b"define(",
        b"Pair(",
        b".put(",
        b".append(",
        b"setProperty(",
        b"setProperty (",
    ];
    calls.iter().any(|call| lead.ends_with(call))
}

/// Returns the length of the border between two cells at the start of a text.
fn bar_length(text: &[u8]) -> usize {
    match text {
        [b'|', ..] => 1,
        [0xe2, 0x94, 0x82 | 0x83, ..] | [0xe2, 0x95, 0x91, ..] => 3,
        _ => 0,
    }
}

/// Whether a text ends with the border of a cell.
fn ends_with_bar(text: &[u8]) -> bool {
    let last = text.len().saturating_sub(3);
    text.ends_with(b"|") || bar_length(&text[last..]) == 3
}

/// Returns where the reply of Redis begins that follows a name in quotes: `1) "requirepass"` and `2) "…"`. `line` is the one before the
/// name.
fn next_reply(text: &[u8], line: &[u8], name_end: usize) -> Option<usize> {
    let number = |text: &[u8]| {
        let digits = run_length(text, 0, |b| b.is_ascii_digit());
        let number = std::str::from_utf8(&text[..digits]).ok()?.parse::<u32>();
        text[digits..].starts_with(b") \"").then(|| number.ok())?
    };
    let first = number(line.trim_ascii_start()).filter(|number| number % 2 == 1)?;
    let next = next_line(text, name_end + 1).filter(|_| text.get(name_end) == Some(&b'"'))?;
    let content = text[next.clone()].trim_ascii_start();
    let quote = memchr::memchr(b'"', content)?;
    (number(content)? == first + 1).then(|| next.end - content.len() + quote)
}

/// Whether a text has the head of a record in the expanded output of psql.
fn has_record(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"-[ RECORD ").is_some()
}

/// Returns a text without blanks, quotes and marks of emphasis at its end.
fn without_marks(text: &[u8]) -> &[u8] {
    let is_mark = |b: u8| is_space(b) || is_quote(b) || b == b'*';
    let end = text.iter().rposition(|b| !is_mark(*b));
    &text[..end.map_or(0, |end| end + 1)]
}

/// Whether a text ends with a field `name`, or `key`, whose value follows.
fn names_next(before: &[u8]) -> bool {
    let Some((sign, field)) = without_marks(before).split_last() else {
        return false;
    };
    let field = without_marks(field);
    let ends = |name: &[u8]| {
        let at = field.len().checked_sub(name.len());
        at.is_some_and(|at| {
            field[at..].eq_ignore_ascii_case(name)
                && (at == 0 || !field[at - 1].is_ascii_alphanumeric())
        })
    };
    b":=".contains(sign) && (ends(b"name") || ends(b"key"))
}

/// Returns where the value of a field `value` begins that follows the end of a name, in the same line or the next.
fn pair_value(text: &[u8], name_end: usize) -> Option<usize> {
    let mut at = name_end;
    // Each backslash may begin the escape of a line end.
    while line_end(text, at) == 0
        && text
            .get(at)
            .is_some_and(|&b| is_space(b) || is_quote(b) || b == b',')
    {
        at += 1;
    }
    let value = |start: usize| {
        let is_name = text.get(start..start + 5)?.eq_ignore_ascii_case(b"value");
        let end = start + 5 + run_length(text, start + 5, is_quote);
        let end = end + run_length(text, end, is_space);
        let is_field = is_name && b":=".contains(text.get(end)?);
        is_field.then(|| end + 1 + run_length(text, end + 1, is_space))
    };
    let next = || {
        let line = next_line(text, at)?;
        readings(&text[line.clone()]).find_map(|rest| value(line.end - rest.len()))
    };
    value(at)
        .or_else(next)
        .filter(|start| start - name_end <= MAX_APART)
}

/// Returns where the value of a field of a form begins behind the end of its name, `form-data; name="password"`, and an empty line.
fn form_value(text: &[u8], name_end: usize) -> Option<usize> {
    let line = name_end + run_length(text, name_end, |b| b == b'"').min(1);
    let empty = line + line_end(text, line);
    let end = line_end(text, empty);
    (empty > line && end > 0).then_some(empty + end)
}

/// Returns where the content of an element `string` begins in the line at `at` or the next, as in a property list.
fn next_element(text: &[u8], at: usize) -> Option<usize> {
    // Its first sign may have been read as that of a quotation.
    let content = |start: usize| {
        let rest = text.get(start..)?;
        let is_element = rest.starts_with(b"<string>") || rest.starts_with(b"string>");
        is_element.then(|| start + run_length(text, start, |b| b != b'>') + 1)
    };
    let next = || {
        let line = next_line(text, at)?;
        readings(&text[line.clone()]).find_map(|rest| content(line.end - rest.len()))
    };
    let start = content(at + run_length(text, at, is_space)).or_else(next);
    start.filter(|start| start - at <= MAX_APART)
}

/// Whether a line has a command that sets a variable to the word after its name: of C, Windows and, as its first word, fish.
fn sets_variable(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace);
    let is_command = |word: &[u8]| word.ends_with(b"#define") || word.ends_with(b"setx");
    match words.find(|word| !word.is_empty()) {
        Some(word) if word.ends_with(b"set") => {
            words.any(|word| matches!(word, b"-x" | b"-gx" | b"-Ux" | b"-xg" | b"-xU"))
        }
        Some(word) => is_command(word) || words.any(is_command),
        None => false,
    }
}

/// Whether a text ends with the command of Redis, or of Tcl, that sets a key whose name follows to the word behind it: in its shell, in
/// the arguments of its program and in a script.
fn sets_key(before: &[u8]) -> bool {
    const SET: usize = "set ".len();
    let line = last_line(before);
    // The parts of a key: `SET db:password "…"`.
    let part = line.iter().rposition(|b| is_space(*b));
    let line = &line[..part.map_or(0, |at| at + 1)];
    let Some((line, command)) = line.split_at_checked(line.len().saturating_sub(SET)) else {
        return false;
    };
    let has = |word: &str| memchr::memmem::find(line, word.as_bytes()).is_some();
    let is_prompt = || line.ends_with(b"> ") && line.contains(&b':');
    command.eq_ignore_ascii_case(b"set ")
        && (is_prompt()
            || has("redis-cli ")
            || has("valkey-cli ")
            || readings(line).any(<[u8]>::is_empty))
}

/// Returns the length of the type of a constant with the sign behind it, such as `&str = `, before a value in quotes; 0 if the text does
/// not begin with one.
pub(super) fn type_length(text: &[u8]) -> usize {
    let text = &text[..text.len().min(MAX_GAP)];
    let length = run_length(text, 0, |b| {
        b.is_ascii_alphanumeric() || b"_&'<>[].*?@% ".contains(&b)
    });
    let is_type = length > 1 && text[..length].ends_with(b" ") && !is_space(text[0]);
    let is_assigned = text[length..].starts_with(b"= ");
    let quote = text.get(length + 2).copied();
    match is_type && is_assigned && quote.is_some_and(is_quote) {
        true => length + 2,
        false => 0,
    }
}

/// Returns the length of what YAML has before a value: a tag such as `!!str`, and an anchor.
pub(super) fn before_yaml_value(text: &[u8]) -> usize {
    let text = &text[..text.len().min(2 * MAX_GAP)];
    let mut at = 0;
    for sign in [b"!!".as_slice(), b"&"] {
        if text[at..].starts_with(sign) {
            let is_name = |b: u8| b.is_ascii_alphabetic() || b"_-".contains(&b);
            let end = at + sign.len() + run_length(text, at + sign.len(), is_name);
            let blanks = run_length(text, end, is_space);
            at = if blanks > 0 { end + blanks } else { at };
        }
    }
    at
}

/// Returns the first row of a value in the lines behind a sign at `at`, such as `>-`. `name` is what stands before the name.
pub(super) fn block_scalar(text: &[u8], at: usize, name: LineStart) -> Option<Row> {
    let sign = run_length(text, at, |b| b">|".contains(&b));
    let style = run_length(text, at + sign, |b| {
        b"+-".contains(&b) || b.is_ascii_digit()
    });
    if sign != 1 || style > 2 {
        return None;
    }
    let mut end = at + sign + style;
    let blanks = run_length(text, end, is_space);
    if blanks > 0 && text.get(end + blanks) == Some(&b'#') {
        let comment = &text[end..text.len().min(end + 2 * MAX_GAP)];
        end += first_line_end(comment, 0, comment.len())?;
    }
    let first = next_row(text, end, name)?;
    let row = match first.start == first.end {
        true => next_row(text, first.end, name)?,
        false => first,
    };
    let is_row = row.indentation > name.indentation.min(1) && row.start < end + MAX_APART;
    is_row.then_some(row)
}

/// Returns where the value behind a prompt begins whose last words begin at `at`, such as `for bob: ` of `[sudo] password for bob: `.
pub(super) fn prompt_end(text: &[u8], at: usize) -> Option<usize> {
    /// Maximum length of the words between the name and the colon.
    const MAX_WORDS: usize = 96;
    const LAST_WORDS: [&[u8]; 3] = [b"for ", b"is generated for ", b"generated for "];
    let rest = &text[at..text.len().min(at + MAX_WORDS)];
    if !text[..at].ends_with(b" ") || !LAST_WORDS.iter().any(|words| rest.starts_with(words)) {
        return None;
    }
    let colon = memchr::memmem::find(rest, b": ")?;
    (!has_line_end(&rest[..colon])).then_some(at + colon + 2)
}
