//! The rest of a secret that was broken: a line end, a hidden character or an end of emphasis within it.

use super::rules::{
    AWS_SECRET_KEY, begins_assignment, has_fixed_length, is_context_kind, run_length,
};
use super::{RULES, value_class};

/// Shortest rest of a secret in the next line.
const MIN_REST: usize = 16;
/// Shortest row of a secret that continues in rows.
const MIN_ROW: usize = 8;
/// Shortest rest of a secret in the same word.
const MIN_END: usize = 4;
/// Length of a secret access key of AWS.
const AWS_SECRET_LENGTH: usize = 40;
/// Number of bytes that decide whether a text is the rest of a secret.
const INSPECTED_BYTES: usize = 1 << 10;

/// The position of text that may be the rest of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestPlace {
    /// Directly after a break within a word.
    SameWord,
    /// Directly after a mark or a secret, without a break.
    Behind,
    /// At the start of the next line.
    NextLine,
}

/// The beginning of a secret whose rest is looked for.
#[derive(Debug, Clone, Copy)]
pub struct SecretStart<'k> {
    /// Kind of the secret.
    pub kind: &'k str,
    /// Length without breaks; 0 if a mark replaces it.
    pub length: usize,
    /// Length of its last row; 0 if a mark replaces it.
    pub row: usize,
    /// It has several rows.
    pub is_wrapped: bool,
}

/// Whether a line can be the value of a name at the end of the line before: one word that is not a name with a sign itself. Base64 may end
/// with signs.
pub fn may_be_value(line: &str) -> bool {
    let word = line.trim();
    let is_base64 = || {
        let digits = word.trim_end_matches('=');
        value_class::is_random(digits.as_bytes()) && !digits.contains([':', '='])
    };
    !word.contains(char::is_whitespace) && (!begins_assignment(word.as_bytes()) || is_base64())
}

/// Whether a byte is a part of keys.
pub(super) fn is_key_sign(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_+/.~".contains(&b)
}

/// Returns the length of the rest of a secret at the start of a text, with marks of Markdown before it; 0 if it does not look like one.
pub fn rest_of_secret(text: &[u8], place: RestPlace, start: &SecretStart<'_>) -> usize {
    let marks = run_length(text, 0, |b| b"*`\\".contains(&b));
    match length_of_rest(&text[marks..], place, start) {
        0 => 0,
        length => marks + length,
    }
}

fn length_of_rest(text: &[u8], place: RestPlace, start: &SecretStart<'_>) -> usize {
    // A longer one is inspected to its end only if it is the rest, so that no text is inspected for many secrets before it.
    let head = &text[..text.len().min(INSPECTED_BYTES)];
    let mut signs = run_length(head, 0, is_key_sign);
    let word = &head[..signs];
    let count = |class: fn(&u8) -> bool| word.iter().filter(|b| class(b)).count();
    let padding = run_length(&head[signs..], 0, |b| b == b'=');
    // The name of a value; the next secret.
    let behind = text.get(signs + padding);
    let is_name = padding > 0 && behind.is_some_and(|b| !b.is_ascii_whitespace());
    if is_name || RULES.at(text, 0, false).is_some() {
        return 0;
    }
    let is_rest = match place {
        RestPlace::SameWord => {
            count(u8::is_ascii_alphanumeric) >= MIN_END
                && (word[0].is_ascii_alphanumeric() || value_class::is_random(word))
        }
        RestPlace::Behind => {
            signs >= MIN_REST
                && count(u8::is_ascii_alphabetic) >= 2
                && !value_class::is_identifier(word)
                && !value_class::has_words(word)
        }
        RestPlace::NextLine => is_row(word, padding, is_line(head, signs + padding), start),
    };
    if is_rest && signs == head.len() {
        signs = run_length(text, 0, is_key_sign);
    }
    if is_rest { signs + padding } else { 0 }
}

/// Whether a word at the start of a line continues a secret; `is_line` says that it is the whole line.
fn is_row(word: &[u8], padding: usize, is_line: bool, start: &SecretStart<'_>) -> bool {
    let length = word.len() + padding;
    let has = |class: fn(&u8) -> bool| word.iter().any(class);
    let is_base64 = word
        .iter()
        .all(|b| b.is_ascii_alphanumeric() || b"+/".contains(b));
    let is_mixed =
        has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_same = is_line && start.row > 0 && length == start.row;
    // A key of AWS, of which the length says how much is missing.
    if start.kind == AWS_SECRET_KEY && is_line && is_base64 && start.row > 0 {
        let total = start.length + length;
        if total == AWS_SECRET_LENGTH || total < AWS_SECRET_LENGTH && is_same {
            return true;
        }
    }
    let is_plain_word =
        value_class::is_identifier(word) && !has(u8::is_ascii_digit) && !is_mixed_case(word);
    // The last row, which is shorter than those before it.
    if is_line && start.is_wrapped && start.row > length {
        return length > 0 && !is_plain_word && !word.contains(&b'.');
    }
    // Ids and names, but for a row of base64, which may contain anything.
    let is_long_base64 = is_line && is_base64 && is_mixed && length >= MIN_REST;
    if is_uuid(word) || value_class::has_words(word) && !is_long_base64 {
        return false;
    }
    let changes = value_class::group_changes(word);
    // A row as long as the one before it.
    if is_same && length >= MIN_ROW {
        return !is_plain_word && (has(u8::is_ascii_digit) || changes * 3 >= length);
    }
    // By its own form.
    if length >= MIN_REST {
        let is_random = !value_class::is_identifier(word) && value_class::is_random(word);
        return is_random
            && (is_mixed || is_line && !is_context_kind(start.kind))
            && !value_class::is_camel_case(word);
    }
    // A short row behind a mark, which hides how long the rows are.
    is_line
        && start.row == 0
        && length >= MIN_ROW
        && is_mixed
        && is_base64
        && changes * 5 >= length * 2
        && !value_class::is_camel_case(word)
        && !has_fixed_length(start.kind)
}

/// Whether a word has letters of both cases in another way than a capitalised one.
fn is_mixed_case(word: &[u8]) -> bool {
    let rest = word.get(1..).unwrap_or_default();
    let has = |class: fn(&u8) -> bool| rest.iter().any(class);
    has(u8::is_ascii_uppercase) && word.iter().any(u8::is_ascii_lowercase)
}

/// Whether what looks like the value of a name is none: parts some of which are words were joined to it.
pub fn is_joined_name(kind: &str, joined: &str) -> bool {
    is_context_kind(kind) && value_class::has_words(joined.as_bytes())
}

/// Whether a text is a UUID, as the id of a record has it.
fn is_uuid(text: &[u8]) -> bool {
    let lengths = text.split(|b| *b == b'-').map(<[u8]>::len);
    lengths.eq([8, 4, 4, 4, 12]) && text.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-')
}

/// Whether a text has one line, of this length.
fn is_line(text: &[u8], length: usize) -> bool {
    let rest = text.get(length..).unwrap_or_default();
    rest.iter()
        .find(|b| !b" \t\r".contains(b))
        .is_none_or(|b| *b == b'\n')
}
