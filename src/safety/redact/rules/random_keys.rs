//! Values of names that end in `key` whatever stands before it, such as `COOKIE_KEY=…` and `"stripeKey": "…"`. Most of such names are
//! those of places in a store, of columns and of public keys, so the value must look random.

use super::super::value_class::{entropy, is_random};
use super::context::assigned_like;
use super::{KeywordMatch, SecretSpan};

/// The keyword. A word in small letters would be the name of a column of secrets.
pub(super) const RANDOM_KEY: &str = "Key";

/// Words before `key` of names whose values are no secrets: places in a store, columns, and public keys.
const HARMLESS: &[&str] = &[
    "artifact",
    "blob",
    "bucket",
    "build",
    "cache",
    "chunk",
    "content",
    "correlation",
    "dedup",
    "dedupe",
    "dns",
    "entity",
    "etag",
    "file",
    "foreign",
    "gpg",
    "group",
    "host",
    "hot",
    "i18n",
    "idempotency",
    "idempotent",
    "image",
    "index",
    "item",
    "job",
    "kms",
    "lock",
    "lookup",
    "message",
    "object",
    "page",
    "parent",
    "partition",
    "path",
    "peer",
    "pgp",
    "pub",
    "public",
    "query",
    "range",
    "react",
    "reg",
    "registry",
    "request",
    "restore",
    "row",
    "s3",
    "site",
    "sort",
    "store",
    "trace",
    "translation",
    "upload",
    "verification",
    "verify",
    "verifying",
    "websocket",
];

/// Minimum length of a value.
const MIN_LENGTH: usize = 16;

/// Whether the keyword at `at..end` ends a name of several words that may be that of a secret: `COOKIE_KEY`, `cookieKey`, `jwt.key`, but not
/// `monkey`, `key` and `CACHE_KEY`.
pub(super) fn ends_key_name(text: &[u8], from: usize, at: usize, end: usize) -> bool {
    let is_upper = text[at].is_ascii_uppercase();
    let goes_on = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    let before = &text[from..at];
    let is_word = before.last().is_some_and(|last| match last {
        b'_' | b'-' | b'.' => true,
        last => is_upper && last.is_ascii_lowercase(),
    });
    if !is_word || text.get(end).is_some_and(goes_on) {
        return false;
    }
    let lead = before.strip_suffix(b"_").or(before.strip_suffix(b"-"));
    let lead = lead.or(before.strip_suffix(b".")).unwrap_or(before);
    let letters = lead.iter().rev().take_while(|b| b.is_ascii_alphanumeric());
    let word = &lead[lead.len() - letters.count()..];
    let is_lead = |harmless: &&str| {
        let start = word.len().checked_sub(harmless.len());
        start.is_some_and(|start| {
            let is_start = start == 0 || word[start].is_ascii_uppercase();
            is_start && word[start..].eq_ignore_ascii_case(harmless.as_bytes())
        })
    };
    !word.is_empty() && !HARMLESS.iter().any(is_lead)
}

/// Whether a value looks like a key, as opposed to a digest, an id and the name of a place. `is_variable` says that its name is that of a
/// variable of the environment, whose value may consist of hexadecimal digits.
pub(super) fn is_random_key(value: &[u8], is_variable: bool) -> bool {
    const UUID: usize = 36;
    let has = |class: fn(&u8) -> bool| value.iter().any(class);
    if value.len() < MIN_LENGTH || entropy(value) < 3.0 || !has(u8::is_ascii_digit) {
        return false;
    }
    let is_mixed = || has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    // The digest of a commit and the fingerprint of a key of OpenPGP.
    let is_digest = value.len() == 40 || value.len() == UUID && value[8] == b'-';
    let is_hex = value.iter().all(|b| b.is_ascii_hexdigit() || *b == b'-');
    let is_kind = match is_hex {
        true => is_variable && !is_digest && value.len() >= 32,
        false => is_variable || is_mixed(),
    };
    is_kind && is_random(value) && value.iter().all(|b| is_value_byte(*b)) && !is_place(value)
}

/// Whether a value consists of words and an id between signs, as the name of a place in a store does.
fn is_place(value: &[u8]) -> bool {
    let is_word = |part: &&[u8]| part.len() >= 3 && part.iter().all(u8::is_ascii_lowercase);
    let words = value.split(|b| b"-_./:".contains(b)).filter(is_word);
    let length: usize = words.clone().map(<[u8]>::len).sum();
    words.count() >= 2 || length * 3 >= value.len()
}

/// The value of a name that ends with the keyword.
pub(super) fn random_key(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    if !ends_key_name(text, from, at, end) || !may_have_key(&text[end..]) {
        return None;
    }
    let is_variable = text[at..end].iter().all(u8::is_ascii_uppercase);
    let is_key: fn(&[u8]) -> bool = match is_variable {
        true => |value| is_random_key(value, true),
        false => |value| is_random_key(value, false),
    };
    assigned_like(place, is_key).filter(|value| is_key(&text[value.start..value.end]))
}

/// Whether a byte may be that of a value, as opposed to a blank and the sign of an expression.
fn is_value_byte(byte: u8) -> bool {
    !byte.is_ascii_whitespace() && !b"()[]{}<>,;\"'".contains(&byte)
}

/// Whether the text behind a name has a word that is long enough for a key and has a digit. To read names without a value takes most of
/// the time.
fn may_have_key(text: &[u8]) -> bool {
    /// More than stands before the first digit of a key: the space between a name and its value, and the beginning of the value.
    const MAX_BEFORE: usize = 448;
    let head = &text[..text.len().min(MAX_BEFORE)];
    let (mut length, mut has_digit) = (0, false);
    let end = head.iter().position(|&byte| {
        (length, has_digit) = match is_value_byte(byte) {
            true => (length + 1, has_digit || byte.is_ascii_digit()),
            false => (0, false),
        };
        length >= MIN_LENGTH && has_digit
    });
    #[cfg(test)]
    super::super::tests::INSPECTED.with(|n| n.set(n.get() + end.unwrap_or(head.len())));
    end.is_some()
}
