//! Secrets in the fields of an object: the data of a Secret of Kubernetes, and values whose name is another field.

use super::super::known::names_secret;
use super::byte_classes::base64;
use super::byte_classes::{is_quote, is_space};
use super::context::{at_word_start, chosen_password, format_at, key_like, lower, password_like};
use super::rows::{LineStart, last_line, next_row};
use super::{KeywordMatch, SecretSpan, run_length};

/// The values of base64 in an object that may be a Secret.
struct Data {
    /// The values, and where the text behind them begins.
    values: Option<(SecretSpan, usize)>,
    /// The text ends within them.
    is_open: bool,
}

impl Data {
    const NONE: Data = Data {
        values: None,
        is_open: false,
    };
}

fn is_name_byte(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"._-".contains(&b)
}

fn is_encoded(value: &[u8]) -> bool {
    value.len() >= 4 && value.len().is_multiple_of(4) && value.iter().all(|b| base64(*b))
}

/// Reads the lines of YAML below `data:`.
fn yaml_data(place: &KeywordMatch<'_>) -> Data {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let before = LineStart::of(last_line(&text[from..at]));
    let mut span: Option<SecretSpan> = None;
    let mut behind = end;
    loop {
        let Some(row) = next_row(text, behind, before) else {
            return Data {
                values: span.map(|span| (span, behind)),
                is_open: behind == text.len(),
            };
        };
        let content = &text[row.start..row.end];
        let name = run_length(content, 0, is_name_byte);
        let value = name + 1 + run_length(content, name + 1, |b| is_space(b) || is_quote(b));
        let length = run_length(content, value, base64);
        let is_entry = row.indentation > before.indentation
            && name > 0
            && content[name..].starts_with(b": ")
            && is_encoded(&content[value..value + length])
            && content[value + length..].iter().all(|b| is_quote(*b));
        if !is_entry {
            // The end of the text may cut a value off.
            return Data {
                values: span.map(|span| (span, row.start)),
                is_open: row.end == text.len(),
            };
        }
        let start = span.map_or(row.start + value, |span| span.start);
        span = Some(SecretSpan::new(start, row.start + value + length));
        behind = row.end;
    }
}

/// Reads the fields of JSON behind `"data":`.
fn json_data(text: &[u8], end: usize) -> Data {
    let blank = |at: usize| at + run_length(text, at, |b| b.is_ascii_whitespace());
    let mut span: Option<SecretSpan> = None;
    let mut at = blank(end);
    if text.get(at).is_some_and(|b| *b != b'{') {
        return Data::NONE;
    }
    loop {
        let name = blank(at + 1) + 1;
        let colon = name + run_length(text, name, is_name_byte) + 1;
        let value = blank(colon + 1) + 1;
        let length = run_length(text, value, base64);
        let next = blank(value + length + 1);
        let is = |at: usize, sign: u8| text.get(at).is_none_or(|b| *b == sign);
        let is_entry = is(name - 1, b'"')
            && is(colon - 1, b'"')
            && is(colon, b':')
            && is(value - 1, b'"')
            && is(value + length, b'"');
        if !is_entry {
            return Data::NONE;
        }
        let Some(sign) = text.get(next) else {
            return Data {
                values: None,
                is_open: true,
            };
        };
        if !is_encoded(&text[value..value + length]) {
            return Data::NONE;
        }
        let start = span.map_or(value, |span| span.start);
        let values = SecretSpan::new(start, value + length);
        match sign {
            b',' => (span, at) = (Some(values), next),
            b'}' => {
                return Data {
                    values: Some((values, next + 1)),
                    is_open: false,
                };
            }
            _ => return Data::NONE,
        }
    }
}

fn data(place: &KeywordMatch<'_>) -> Data {
    match place.text[place.end - 2] {
        b'"' => json_data(place.text, place.end),
        _ if !at_word_start(place) => Data::NONE,
        _ => yaml_data(place),
    }
}

/// Whether a text says that the object is a Secret.
fn is_secret_kind(text: &[u8]) -> bool {
    let kinds: [&[u8]; 3] = [
        b"kind: Secret",
        b"\"kind\": \"Secret\"",
        b"\"kind\":\"Secret\"",
    ];
    kinds
        .iter()
        .any(|kind| memchr::memmem::find(text, kind).is_some())
}

/// Maximum length of the fields up to the kind.
const MAX_KIND: usize = 64;

/// The values of a Secret of Kubernetes, whatever their names. The keyword is the name of the field that has them.
pub(super) fn secret_data(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, from, at, .. } = *place;
    let (span, behind) = data(place).values?;
    let behind = &text[behind..text.len().min(behind + MAX_KIND)];
    (is_secret_kind(&text[from..at]) || is_secret_kind(behind)).then_some(span)
}

/// Whether text that follows can make an object that begins here a Secret.
pub(super) fn may_be_secret_data(place: &KeywordMatch<'_>) -> bool {
    let data = data(place);
    let is_kind_open = |(_, behind)| place.text.len() < behind + MAX_KIND;
    data.is_open || data.values.is_some_and(is_kind_open)
}

/// Returns the string that begins with a quote at `at`, behind blanks, and where it ends.
fn string_at(text: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let start = at + run_length(text, at, |b| b.is_ascii_whitespace()).min(8) + 1;
    let length = run_length(text, start, |b| b != b'"' && b != b'\n');
    let is_string = text.get(start - 1) == Some(&b'"') && text.get(start + length) == Some(&b'"');
    is_string.then(|| (&text[start..start + length], start + length))
}

/// The value of an object whose name stands behind it, or before it with other fields between: `{"value": "…", "name": "DB_PASSWORD"}`,
/// parameters of AWS and secrets of Azure. The keyword is the name of the field.
pub(super) fn named_value(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Longest value before its name.
    const MAX_FIRST: usize = 72;
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let (value, value_end) = string_at(text, end)?;
    let before = &text[from..at];
    let has = |part: &str| memchr::memmem::rfind(before, part.as_bytes());
    let is_secret_name = |name: &[u8]| names_secret(&String::from_utf8_lossy(name));
    let is_named_before = || {
        let name = has("\"Name\":")?;
        let is_same = !before[name..].iter().any(|b| b"{}".contains(b));
        let (name, _) = string_at(before, name + 7)?;
        (is_same && name.starts_with(b"/") && is_secret_name(name)).then_some(())
    };
    let is_named_behind = || {
        let comma = value_end + 1;
        let name = comma + 1 + run_length(text, comma + 1, |b| b.is_ascii_whitespace()).min(24);
        let is_field = text.get(comma) == Some(&b',')
            && value.len() <= MAX_FIRST
            && lower(text.get(name..name + 7)?) == "\"name\":";
        let (name, _) = string_at(text, name + 7)?;
        (is_field && is_secret_name(name)).then_some(())
    };
    let is_named = has("\"SecureString\"").is_some()
        || has(".vault.azure.net/secrets/").is_some()
        || is_named_before().is_some();
    let is_secret = match is_named {
        true => chosen_password(value, 6),
        false => is_named_behind().is_some() && (password_like(value, false) || key_like(value)),
    };
    let start = value_end - value.len();
    (is_secret && !format_at(text, start)).then(|| SecretSpan::new(start, value_end))
}

/// The password that Terraform has made: `random_password` and, soon behind it, `"result": "…"`. The keyword is the name of the field.
pub(super) fn random_result(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    memchr::memmem::find(&text[from..at], b"random_password")?;
    let (value, value_end) = string_at(text, end)?;
    (value.len() >= 6).then(|| SecretSpan::new(value_end - value.len(), value_end))
}

/// The value in the cell behind one with the name of a secret, in HTML. The keyword is what is between their contents.
pub(super) fn html_cell(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let before = &text[from..at];
    let name = &before[before.iter().rposition(|b| *b == b'>')? + 1..];
    let length = run_length(text, end, |b| b != b'<' && !b.is_ascii_whitespace());
    let value = &text[end..end + length];
    let fits = name.len() <= 24
        && names_secret(&String::from_utf8_lossy(name))
        && text.get(end + length) == Some(&b'<')
        && (password_like(value, false) || key_like(value));
    (fits && !format_at(text, end)).then(|| SecretSpan::new(end, end + length))
}
