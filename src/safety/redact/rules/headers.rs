//! The `Authorization` header, and its parameters that prove who sends a request.

use super::super::value_class::{is_placeholder, is_random};
use super::byte_classes::{blanks_length, is_quote, lower};
use super::context::{SPACES, at_word_start, format_at, key_like};
use super::rows::last_line;
use super::{KeywordMatch, SecretSpan, run_length};

/// The name of the header, in lower case.
const NAME: &[u8] = b"authorization";

pub(super) fn is_token68(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._~+/=%".contains(&b)
}

/// Whether a value behind the name of a scheme is a token of an `Authorization` header in this line, or looks like a key soon behind one;
/// `None` without such a header.
fn is_authorized(place: &KeywordMatch<'_>, value: &[u8]) -> Option<bool> {
    // By bytes: a text that is not UTF-8 would become longer.
    let has_header = |text: &[u8]| memchr::memmem::rfind(&text.to_ascii_lowercase(), NAME);
    let before = place.before();
    let line = last_line(before);
    let Some(at) = has_header(line) else {
        return has_header(before).map(|_| value.len() >= 8 && key_like(value));
    };
    // Directly behind the header, and not in a sentence about it.
    let is_header = line.len() - at - NAME.len() <= 8;
    let is_word = value.iter().all(|b| b.is_ascii_lowercase() || *b == b'.');
    Some(value.len() >= 8 && !is_placeholder(value) && (is_header || !is_word))
}

/// `Bearer …`, and `SSWS …` of Okta
pub(super) fn bearer(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let n = run_length(place.text, place.end, is_token68);
    let value = &place.text[place.end..place.end + n];
    let fits = is_authorized(place, value).unwrap_or_else(|| {
        n >= 20 && is_random(value) && !is_placeholder(value) && at_word_start(place)
    });
    (fits && !format_at(place.text, place.end)).then(|| SecretSpan {
        more: Some(is_token68),
        ..SecretSpan::new(place.end, place.end + n)
    })
}

/// `Authorization: Basic …`
pub(super) fn basic(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let n = run_length(place.text, place.end, is_token68);
    let value = &place.text[place.end..place.end + n];
    (is_authorized(place, value) == Some(true)).then(|| SecretSpan {
        more: Some(is_token68),
        ..SecretSpan::new(place.end, place.end + n)
    })
}

/// `Authorization: token …`; `Bearer` and `Basic` have their own functions.
pub(super) fn authorization(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let mut at = end + run_length(text, end, is_quote).min(6);
    at += blanks_length(text, at, SPACES);
    let signs = run_length(text, at, |b| b":=>,".contains(&b));
    if !(1..=3).contains(&signs) {
        return None;
    }
    at += signs;
    at += blanks_length(text, at, SPACES);
    at += run_length(text, at, is_quote).min(6);
    let scheme = run_length(text, at, |b| b.is_ascii_alphabetic() || b == b'-');
    if text.get(at + scheme) == Some(&b' ') && scheme > 0 {
        if matches!(&*lower(&text[at..at + scheme]), "bearer" | "basic") {
            return None;
        }
        at += scheme + 1;
    }
    let mut n = run_length(text, at, is_token68);
    // An account and a signature: `SharedKey account:…`, `AWS key:…`
    if text.get(at + n) == Some(&b':') {
        at += n + 1;
        n = run_length(text, at, is_token68);
    }
    let fits = key_like(&text[at..at + n]) && !format_at(text, at);
    fits.then(|| SecretSpan {
        more: Some(is_token68),
        ..SecretSpan::new(at, at + n)
    })
}

/// `response="…"` of Digest, `oauth_signature="…"` of OAuth 1 and `Signature=…` of AWS. The parameters before it say which scheme it is.
pub(super) fn header_parameter(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let n = run_length(text, end, is_token68);
    let before = place.line_before();
    let others: [&[u8]; 4] = [b"nonce=", b"uri=", b"SignedHeaders=", b"oauth_"];
    let fits = n >= 20
        && others
            .iter()
            .any(|other| memchr::memmem::find(before, other).is_some());
    fits.then(|| SecretSpan {
        more: (end + n == text.len()).then_some(is_token68),
        ..SecretSpan::new(end, end + n)
    })
}
