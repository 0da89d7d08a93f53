//! Secrets in URLs: the password of a user, and URLs that are secret as a whole.

use super::super::stage::ByteClass;
use super::super::value_class::{is_placeholder, is_random};
use super::context::format_at;
use super::{KeywordMatch, SecretSpan, run_length};

/// Maximum length of `user:password@host` in a URL.
const MAX_AUTHORITY: usize = 1024;

fn is_authority_byte(b: u8) -> bool {
    (b.is_ascii_graphic() || b >= 0x80) && !b"/?\"'<>`\\[]{}()|".contains(&b)
}

/// `scheme://user:password@host`
pub(super) fn url(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    if !text[from..at].last()?.is_ascii_alphanumeric() {
        return None;
    }
    let n = run_length(text, end, is_authority_byte).min(MAX_AUTHORITY);
    let authority = &text[end..end + n];
    let host = authority.iter().rposition(|&b| b == b'@')?;
    let user = &authority[..host];
    let start = user.iter().position(|&b| b == b':').map(|at| at + 1);
    let value = &user[start.unwrap_or(0)..];
    let secret = match start {
        Some(_) => value.len() >= 3 && !is_placeholder(value),
        // A token in place of the user name.
        None => is_random(value) && value.len() >= 20,
    };
    let start = end + start.unwrap_or(0);
    (secret && !format_at(text, start)).then(|| SecretSpan::new(start, end + host))
}

/// Returns where a password begins in a URL that the text cuts off before the `@`; the length of the text if there is
/// none. The rules recognise such a password only by the `@` that follows it.
pub(super) fn unfinished_url_password(text: &[u8]) -> usize {
    let end = &text[text.len().saturating_sub(MAX_AUTHORITY)..];
    let run = end.iter().rev().take_while(|&&b| is_authority_byte(b));
    let start = text.len() - run.count();
    let authority = &text[start..];
    match authority.iter().position(|&b| b == b':') {
        Some(colon) if text[..start].ends_with(b"://") && !authority.contains(&b'@') => {
            start + colon + 1
        }
        _ => text.len(),
    }
}

/// A URL that is secret as a whole.
pub(super) fn long_url(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let class: ByteClass = |b| b.is_ascii_alphanumeric() || b"/_@.-%".contains(&b);
    let n = run_length(text, end, class);
    let fits = n >= 24 && is_random(&text[end..end + n]) && !is_placeholder(&text[end..end + n]);
    fits.then(|| SecretSpan {
        more: Some(class),
        ..SecretSpan::new(end, end + n)
    })
}

/// The password in the address of an Oracle database: `jdbc:oracle:thin:user/password@host`.
pub(super) fn oracle(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let user = run_length(text, end, |b| {
        b.is_ascii_alphanumeric() || b"_$#".contains(&b)
    });
    let start = end + user + 1;
    let length = run_length(text, start, |b| is_authority_byte(b) && b != b'@');
    let is_between = text.get(start - 1) == Some(&b'/') && text.get(start + length) == Some(&b'@');
    let value = text.get(start..start + length)?;
    let fits = user > 0 && is_between && length >= 3 && !is_placeholder(value);
    fits.then(|| SecretSpan::new(start, start + length))
}
