//! Values that stand apart from the name of a secret: `name: DB_PASSWORD` and `value: …`, `#define API_KEY "…"`, `the password is …`.

use super::{KeywordMatch, run_length};

/// Maximum number of bytes between a name and its value.
const MAX_GAP: usize = 48;

pub(super) fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

pub(super) fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`' | b'\\')
}

/// Returns where the value begins of a name from `start` to `end`; `at` is behind the quotes and blanks after the name.
pub(super) fn value_apart(
    place: &KeywordMatch<'_>,
    start: usize,
    end: usize,
    at: usize,
) -> Option<usize> {
    let text = place.text;
    let before = &text[place.from..start];
    let line = place.line_before();
    let behind = &text[at..text.len().min(at + MAX_GAP)];
    let spaces = |at: usize| run_length(text, at, is_space).min(MAX_GAP);
    if names_next(before) {
        return pair_value(behind).map(|length| at + length);
    }
    if before.ends_with(b"define('") || before.ends_with(b"define(\"") {
        return behind.starts_with(b",").then(|| at + 1 + spaces(at + 1));
    }
    if at > end && sets_variable(line) {
        return Some(at);
    }
    if behind.starts_with(b"|") && before.trim_ascii_end().ends_with(b"|") {
        return Some(at + 1 + spaces(at + 1));
    }
    // An automatic property of C#.
    let property = b"{ get; set; } = ";
    if behind.starts_with(property) {
        return Some(at + property.len());
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
    (blanks > 0).then_some(at + is + blanks)
}

/// Whether a text ends with a field `name`, or `key`, whose value follows.
fn names_next(before: &[u8]) -> bool {
    let trimmed = |text: &[u8]| {
        let end = text.iter().rposition(|b| !is_space(*b) && !is_quote(*b));
        end.map_or(0, |end| end + 1)
    };
    let Some((sign, field)) = before[..trimmed(before)].split_last() else {
        return false;
    };
    let field = &field[..trimmed(field)];
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

/// Whether a line begins with a command that sets a variable to the word behind its name: of C, Windows and fish.
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
