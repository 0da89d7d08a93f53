//! Passwords in the arguments of functions: `NetworkCredential("bob", "…")`, `auth=("bob", "…")`.

use super::super::stage::ByteClass;
use super::byte_classes::{is_quote, is_space};
use super::context::{chosen_password, format_at};
use super::{KeywordMatch, SecretSpan, run_length};

/// Maximum length of the first argument.
const MAX_USER: usize = 64;

/// The second argument of a call, or the second value of a pair; it is in quotes. The keyword ends with the bracket.
pub(super) fn second_argument(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let blank = |at: usize| at + run_length(text, at, |b| b.is_ascii_whitespace()).min(8);
    let first = blank(end);
    let user = run_length(&text[..text.len().min(first + MAX_USER)], first, |b| {
        !b.is_ascii_control() && !b",;()[]{}".contains(&b) && (!is_space(b))
    });
    let comma = blank(first + user);
    let is_number = text[first..first + user].iter().all(u8::is_ascii_digit);
    if is_number || text.get(comma) != Some(&b',') {
        return None;
    }
    let quotes = blank(comma + 1);
    let start = quotes + run_length(text, quotes, is_quote).min(2);
    let class: ByteClass = |b| !is_quote(b) && b != b'\n';
    let length = run_length(text, start, class);
    let value = &text[start..start + length];
    let is_ended = text.get(start + length).copied().is_none_or(is_quote);
    let fits = start > quotes && is_ended && chosen_password(value, 4) && !value.contains(&b' ');
    (fits && !format_at(text, start)).then(|| SecretSpan::open(text, start, start + length, class))
}
