//! Formats of vendors that a keyword and a run of characters cannot describe.

use super::super::value_class::is_random;
use super::byte_classes::{alnum, dash};
use super::context::at_word_start;
use super::{KeywordMatch, SecretSpan, run_length};

/// Returns where the parts of these lengths end that begin at `at`, with a separator between each two of them.
fn parts_end(
    text: &[u8],
    at: usize,
    lengths: &[usize],
    separator: u8,
    class: fn(u8) -> bool,
) -> Option<usize> {
    let mut end = at;
    for (index, &length) in lengths.iter().enumerate() {
        if index > 0 {
            if text.get(end) != Some(&separator) {
                return None;
            }
            end += 1;
        }
        if run_length(text, end, class) != length {
            return None;
        }
        end += length;
    }
    Some(end)
}

/// Whether the keyword has its own case and begins a word.
fn begins_word(place: &KeywordMatch<'_>, key: &[u8]) -> bool {
    place.text[place.at..].starts_with(key) && at_word_start(place)
}

/// A key of Resend, `re_…_…`.
pub(super) fn resend(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let whole = parts_end(text, end, &[8, 24], b'_', alnum)?;
    let fits = begins_word(place, b"re_") && is_random(&text[end + 9..whole]);
    fits.then(|| SecretSpan::new(at, whole))
}

/// A key of Harness, `pat.…` and `sat.…`.
pub(super) fn harness(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let whole = parts_end(text, end, &[22, 24, 20], b'.', dash)?;
    let fits = begins_word(place, b"pat.") || begins_word(place, b"sat.");
    fits.then(|| SecretSpan::new(at, whole))
}

/// A license key of MaxMind, whose end is the keyword.
pub(super) fn maxmind(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const LENGTH: usize = 6 + 1 + 29;
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let start = at.checked_sub(LENGTH).filter(|start| *start >= from)?;
    let is_end = !text.get(end).copied().is_some_and(alnum);
    let fits = is_end && parts_end(&text[..at], start, &[6, 29], b'_', alnum) == Some(at);
    fits.then(|| SecretSpan::new(start, end))
}

/// A personal access token of Asana: a number, one or two ids, and a key.
pub(super) fn asana(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let id = |at| run_length(text, at, |b| b.is_ascii_digit());
    let first = id(end);
    let mut colon = end + first;
    if first < 15 || !at_word_start(place) {
        return None;
    }
    if text.get(colon) == Some(&b'/') {
        let second = id(colon + 1);
        colon += 1 + second;
        if second < 15 {
            return None;
        }
    }
    let key = run_length(text, colon + 1, alnum);
    (text.get(colon) == Some(&b':') && key >= 32).then(|| SecretSpan {
        more: Some(alnum),
        ..SecretSpan::new(at, colon + 1 + key)
    })
}

/// A key of 84 characters that Azure issues, with a signature behind the 52 random ones.
pub(super) fn azure_signed(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const RANDOM: usize = 52;
    const LENGTH: usize = 84;
    let KeywordMatch { text, from, at, .. } = *place;
    let start = at.checked_sub(RANDOM).filter(|start| *start >= from)?;
    let is_start = start == 0 || !alnum(text[start - 1]);
    let fits =
        text[at..].starts_with(b"JQQJ9") && is_start && run_length(text, start, alnum) == LENGTH;
    fits.then(|| SecretSpan::new(start, start + LENGTH))
}
