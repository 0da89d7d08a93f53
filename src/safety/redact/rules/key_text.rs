//! Secret keys and codes as programs print them, in rows below a heading.

use super::super::stage::ByteClass;
use super::super::value_class::is_random;
use super::byte_classes::{alnum, base64, hex, is_space, upper, xdigit};
use super::command_words::in_quotes;
use super::context::{assigned, at_word_start, format_at};
use super::line_prefix::readings;
use super::rows::{next_line, next_run};
use super::{KeywordMatch, SecretSpan, run_length};

/// Returns the rows below a line that ends at `at`, which consist of the class; the first has at least this length.
fn rows_below(text: &[u8], at: usize, class: ByteClass, least: usize) -> Option<SecretSpan> {
    let first = next_run(text, at, class).filter(|row| row.len() >= least)?;
    let mut end = first.end;
    while let Some(row) = next_run(text, end, class) {
        end = row.end;
    }
    Some(SecretSpan {
        more: (end == text.len()).then_some(class),
        ..SecretSpan::new(first.start, end)
    })
}

/// A number of a private key in rows of pairs of digits, as `openssl … -text` prints it. The keyword is its name.
pub(super) fn private_number(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let is_pair: ByteClass = |b| xdigit(b) || b == b':';
    let rows = rows_below(place.text, place.end, is_pair, 17)?;
    let row = &place.text[rows.start..rows.end];
    (at_word_start(place) && row[2] == b':').then_some(rows)
}

/// The rows of a file or a string that Ansible has encrypted. The keyword begins the line before them.
pub(super) fn ansible_vault(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let header = run_length(text, end, |b| b.is_ascii_graphic() && b != b'\\');
    rows_below(text, end + header, hex, 40)
}

/// Number of digits of a number of 256 bits.
const SCALAR: usize = 64;

fn is_scalar(text: &[u8], at: usize) -> bool {
    run_length(text, at, alnum) == SCALAR && run_length(text, at, xdigit) == SCALAR
}

/// A private key of 256 bits behind the keyword, which ends with `0x`.
pub(super) fn private_scalar(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    is_scalar(text, end).then(|| SecretSpan::new(end, end + SCALAR))
}

/// The private keys of 256 bits in the lines below the keyword, from the first to the last.
pub(super) fn listed_scalars(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Maximum number of bytes before the first, and between two of them.
    const MAX_GAP: usize = 48;
    let KeywordMatch { text, end, .. } = *place;
    let mut at = end;
    let mut span: Option<SecretSpan> = None;
    while let Some(sign) = memchr::memmem::find(&text[at..text.len().min(at + MAX_GAP)], b"0x")
        && is_scalar(text, at + sign + 2)
    {
        let start = at + sign + 2;
        at = start + SCALAR;
        span = Some(SecretSpan::new(span.map_or(start, |span| span.start), at));
    }
    span
}

/// At least 24 random characters of base64 or hexadecimal digits behind the keyword.
pub(super) fn encoded(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let length = run_length(text, end, base64);
    let fits = length >= 24 && is_random(&text[end..end + length]);
    fits.then(|| SecretSpan {
        more: Some(base64),
        ..SecretSpan::new(end, end + length)
    })
}

/// A key of whole bytes in base64, in the quotes that the keyword ends with.
pub(super) fn quoted_key(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let (start, end) = in_quotes(place)?;
    let value = &place.text[start..end];
    let fits = value.len() >= 20
        && value.len().is_multiple_of(4)
        && value.iter().all(|b| base64(*b))
        && is_random(value);
    (fits && !format_at(place.text, start)).then(|| SecretSpan::new(start, end))
}

/// A key of recovery of BitLocker, eight groups of six digits, soon behind the keyword.
pub(super) fn bitlocker(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const LENGTH: usize = 8 * 6 + 7;
    /// Maximum number of bytes before it.
    const MAX_BEFORE: usize = 64;
    let KeywordMatch { text, end, .. } = *place;
    let is_key: ByteClass = |b| b.is_ascii_digit() || b == b'-';
    let before = &text[end..text.len().min(end + MAX_BEFORE)];
    let start = end + before.iter().position(u8::is_ascii_digit)?;
    let mut groups = text[start..].get(..LENGTH)?.split(|b| *b == b'-');
    let fits = run_length(text, start, is_key) == LENGTH
        && groups.all(|group| group.len() == 6 && group.iter().all(u8::is_ascii_digit));
    fits.then(|| SecretSpan::new(start, start + LENGTH))
}

/// Codes of recovery in the lines below the keyword, perhaps numbered: `0f3c8-9a1b2`, `1. 6934 2170`.
pub(super) fn recovery_codes(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    /// Maximum length of the words behind the keyword in its line.
    const MAX_WORDS: usize = 48;
    let heading = run_length(&text[..text.len().min(end + MAX_WORDS)], end, |b| {
        b != b'\n' && b != b'\\'
    });
    let is_code = |code: &[u8]| {
        let digits = code.iter().filter(|b| b.is_ascii_digit()).count();
        let is_part = |part: &[u8]| part.len() >= 3 && part.iter().all(|b| alnum(*b));
        (8..=24).contains(&code.len())
            && digits >= 2
            && code.split(|b| b"- ".contains(b)).all(is_part)
            && code.split(|b| *b == b' ').count() <= 3
            && !code.split(|b| b"- ".contains(b)).any(|part| {
                part.len() > 3
                    && part.iter().all(u8::is_ascii_alphabetic)
                    && !part.iter().all(|b| upper(*b))
            })
    };
    let mut at = end + heading;
    let mut span: Option<SecretSpan> = None;
    let mut rows = 0;
    while let Some(line) = next_line(text, at) {
        let content = &text[line.clone()];
        let code = readings(content).find(|rest| is_code(rest.trim_ascii_end()));
        match code {
            Some(code) => {
                let end = line.end - code.len() + code.trim_ascii_end().len();
                let start = span.map_or(line.end - code.len(), |span| span.start);
                span = Some(SecretSpan::new(start, end));
                rows += 1;
            }
            // An empty line before the first one.
            None if rows == 0 && content.iter().all(|b| is_space(*b)) => {}
            None => break,
        }
        at = line.end;
    }
    span.filter(|_| rows >= 2)
}

/// The id of a secret that is one itself: a UUID, as opposed to the name of a secret in a store.
pub(super) fn secret_id(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let is_uuid = |value: &SecretSpan| {
        let value = &place.text[value.start..value.end];
        value.len() >= 32 && value.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-')
    };
    assigned(place).filter(is_uuid)
}

/// A personal access token, as opposed to a pattern: `AZURE_DEVOPS_EXT_PAT=…`.
pub(super) fn access_token(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let is_token = |value: &SecretSpan| {
        let value = &place.text[value.start..value.end];
        value.len() >= 20
            && value
                .iter()
                .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(b))
    };
    let name = &place.text[place.at..place.end];
    let is_variable = !name.iter().any(u8::is_ascii_lowercase);
    assigned(place).filter(|value| is_variable && is_token(value))
}
