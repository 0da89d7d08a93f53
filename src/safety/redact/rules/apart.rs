//! Values that are separated from the name of a secret: `name: DB_PASSWORD` and `value: …`, `#define API_KEY "…"`, `the password is …`.

use std::ops::Range;

use super::{KeywordMatch, run_length};

/// Maximum number of bytes between a name and its value.
const MAX_GAP: usize = 48;

/// How a value that stands apart is tied to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// By the form of a setting, which has a value in this place.
    Setting,
    /// By the order in a row of a table.
    Cell,
    /// By words, or by the order in the arguments of some function.
    Words,
}

pub(super) fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

pub(super) fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`' | b'\\')
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
        return setting(at + pair_value(behind)?);
    }
    let lead = without_marks(before);
    // `define('DB_PASSWORD', '…')` of PHP, `setenv("API_KEY", "…")`
    if lead.ends_with(b"(") && before.last().copied().is_some_and(is_quote) {
        let value = at + 1 + spaces(at + 1);
        let is_next = behind.starts_with(b",") && text.get(value).copied().is_some_and(is_quote);
        let is_variable = !text[name.clone()].iter().any(u8::is_ascii_lowercase);
        let form = match is_variable || lead.ends_with(b"define(") {
            true => ValueForm::Setting,
            false => ValueForm::Words,
        };
        return is_next.then_some((value, form));
    }
    if at > name.end && sets_variable(place.line_before()) {
        return setting(at);
    }
    if behind.starts_with(b"|") && lead.ends_with(b"|") {
        return Some((at + 1 + spaces(at + 1), ValueForm::Cell));
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
    let is = match behind.starts_with(b"is") {
        true => 2,
        false => memchr::memmem::find(&behind[..phrase], b" is")? + 3,
    };
    let is = is + usize::from(behind.get(is) == Some(&b':'));
    let blanks = spaces(at + is);
    (blanks > 0).then_some((at + is + blanks, ValueForm::Words))
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

/// Returns the length of a field `value` up to its value, in the same line or the next.
fn pair_value(text: &[u8]) -> Option<usize> {
    let gap = run_length(text, 0, |b| {
        b.is_ascii_whitespace() || is_quote(b) || b == b','
    });
    if text[..gap].iter().filter(|b| **b == b'\n').count() > 1 {
        return None;
    }
    let name = text.get(gap..gap + 5)?;
    let end = gap + 5 + run_length(text, gap + 5, is_quote);
    let end = end + run_length(text, end, is_space);
    let is_field = name.eq_ignore_ascii_case(b"value") && b":=".contains(text.get(end)?);
    is_field.then(|| end + 1 + run_length(text, end + 1, is_space))
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

/// Returns the length of the type of a constant with the sign behind it, such as `&str = `, before a value in quotes; 0 if the text does
/// not begin with one.
pub(super) fn type_length(text: &[u8]) -> usize {
    let text = &text[..text.len().min(MAX_GAP)];
    let length = run_length(text, 0, |b| {
        b.is_ascii_alphanumeric() || b"_&'<>[].*? ".contains(&b)
    });
    let is_type = length > 1 && text[..length].ends_with(b" ") && !is_space(text[0]);
    let is_assigned = text[length..].starts_with(b"= ");
    let quote = text.get(length + 2).copied();
    match is_type && is_assigned && quote.is_some_and(is_quote) {
        true => length + 2,
        false => 0,
    }
}

/// Returns the length of what YAML has before a value: a tag such as `!!str`, an anchor, and the sign of a value in the next line, such as
/// `>-`, with the indentation behind it.
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
    at + block_scalar(&text[at..])
}

/// Returns the length of the sign of a value in the next line, such as `>-`, with the indentation behind it; 0 if there is none.
fn block_scalar(text: &[u8]) -> usize {
    let sign = run_length(text, 0, |b| b">|".contains(&b));
    let style = run_length(text, sign, |b| b"+-".contains(&b) || b.is_ascii_digit());
    let mut at = sign + style;
    let blanks = run_length(text, at, is_space);
    at += blanks;
    if blanks > 0 && text.get(at) == Some(&b'#') {
        at += run_length(text, at, |b| b != b'\n');
    }
    let ends = run_length(text, at, |b| b"\r\n".contains(&b));
    let lines = text[at..at + ends].iter().filter(|b| **b == b'\n').count();
    at += ends;
    let indentation = run_length(text, at, is_space);
    match sign == 1 && style <= 2 && (1..=2).contains(&lines) && indentation > 0 {
        true => at + indentation,
        false => 0,
    }
}
