//! Secrets in URLs: the password of a user, and URLs that are secret as a whole.

use super::super::stage::ByteClass;
use super::super::value_class::{is_placeholder, is_random, mixes_characters};
use super::byte_classes::dash;
use super::context::{at_word_start, format_at};
use super::line_prefix::readings;
use super::rows::last_line;
use super::vendor_formats::is_uuid4;
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
    let host = authority_end(text, end)?;
    let user = &text[end..host];
    let colon = user.iter().position(|&b| b == b':');
    let is_token = |user: &[u8]| user.len() >= 20 && is_random(user);
    let (start, is_secret) = match colon {
        // A token in place of the user name, whatever stands for the password.
        Some(at) if is_token(&user[..at]) || at >= 20 && format_at(text, end) => (0, true),
        Some(at) => {
            let value = &user[at + 1..];
            (at + 1, value.len() >= 3 && !is_placeholder(value))
        }
        // The public key in an address of Sentry, which is a part of every page that reports errors.
        None => (0, is_token(user) && !is_sentry(&text[host..])),
    };
    let start = end + start;
    let is_format = || colon.is_none_or(|at| start > end + at) && format_at(text, start);
    (is_secret && !is_format()).then(|| SecretSpan::new(start, end + user.len()))
}

/// Whether a host is that of an address of Sentry.
fn is_sentry(host: &[u8]) -> bool {
    let host = &host[..run_length(host, 0, is_authority_byte).min(MAX_AUTHORITY)];
    host.ends_with(b".sentry.io")
}

/// Returns where the user and the password of a URL end that begin at `at`: before the last `@` of its authority, or if that has none,
/// before an `@` and a host in the same word, for a password with signs that are not encoded.
fn authority_end(text: &[u8], at: usize) -> Option<usize> {
    /// Maximum length of a user and a password with such signs.
    const MAX_SIGNS: usize = 120;
    let length = run_length(text, at, is_authority_byte).min(MAX_AUTHORITY);
    let authority = &text[at..at + length];
    if let Some(host) = authority.iter().rposition(|&b| b == b'@') {
        return Some(at + host);
    }
    let word = &text[at..text.len().min(at + MAX_SIGNS)];
    let word = &word[..run_length(word, 0, |b| b.is_ascii_graphic())];
    if !may_have_password(word) {
        return None;
    }
    let host = word.iter().rposition(|&b| b == b'@')?;
    let colon = word.iter().position(|&b| b == b':')?;
    let password = word.get(colon + 1..host)?;
    let is_host = run_length(word, host + 1, |b| b.is_ascii_alphanumeric()) > 0;
    let is_password = mixes_characters(password) || is_random(password);
    (is_host && is_password).then_some(at + host)
}

/// Whether what may be a user and a password, up to a sign that ends them in a URL, is no host and port.
fn may_have_password(word: &[u8]) -> bool {
    let Some(colon) = word.iter().position(|&b| b == b':') else {
        return false;
    };
    let is_user = |b: &u8| b.is_ascii_alphanumeric() || b"._%+-".contains(b);
    let first = run_length(word, colon + 1, is_authority_byte);
    let is_port = word[colon + 1..colon + 1 + first]
        .iter()
        .all(u8::is_ascii_digit);
    let is_path = word
        .get(colon + 1 + first)
        .is_some_and(|b| b"/?#".contains(b));
    word[..colon].iter().all(is_user) && !(is_port && is_path)
}

/// Whether an `@` that makes a part of the text at `at` a password may be still to come.
pub(super) fn is_open_authority(text: &[u8], at: usize) -> bool {
    let word = &text[at..];
    let is_open = !word.iter().any(u8::is_ascii_whitespace);
    is_open && (!word.contains(&b'/') || may_have_password(word))
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

/// A webhook of Zapier, whose parts are too short to look random.
pub(super) fn zapier_hook(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let class: ByteClass = |b| b.is_ascii_alphanumeric() || b == b'/';
    let account = run_length(text, end, |b| b.is_ascii_digit());
    let n = run_length(text, end, class);
    (account >= 5 && n >= account + 6).then(|| SecretSpan {
        more: Some(class),
        ..SecretSpan::new(end, end + n)
    })
}

/// What makes a path secret, behind the host and the first words of the path in the keyword: a key, or the id of a webhook.
pub(super) fn secret_path(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let class: ByteClass = |b| b.is_ascii_alphanumeric() || b"/_.%=-".contains(&b);
    let n = run_length(text, end, class);
    let path = &text[end..end + n];
    let first = path.iter().position(|b| *b == b'/').unwrap_or(n);
    let fits = is_random(&text[end..end + first]) && !is_placeholder(&text[end..end + first]);
    fits.then(|| SecretSpan {
        more: Some(class),
        ..SecretSpan::new(end, end + n)
    })
}

/// The id of a webhook of n8n: a UUID at the end of the path.
pub(super) fn webhook_id(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let length = run_length(text, end, dash);
    is_uuid4(&text[end..end + length]).then(|| SecretSpan::new(end, end + length))
}

/// A key in the query of a URL, of 32 hexadecimal digits. The keyword is its name.
pub(super) fn query_key(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let is_query = text[from..at].last().is_some_and(|b| b"?&".contains(b));
    let is_key = run_length(text, end, |b| b.is_ascii_alphanumeric()) == 32
        && run_length(text, end, |b| b.is_ascii_hexdigit()) == 32;
    (is_query && is_key).then(|| SecretSpan::new(end, end + 32))
}

/// The signature in the query of a URL of Amazon S3 (version 2) and CloudFront.
pub(super) fn query_signature(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let class: ByteClass = |b| b.is_ascii_alphanumeric() || b"_%+/=~-".contains(&b);
    let n = run_length(text, end, class);
    let is_query = text[from..at].last().is_some_and(|b| b"?&".contains(b));
    (is_query && n >= 27 && is_random(&text[end..end + n])).then(|| SecretSpan {
        more: Some(class),
        ..SecretSpan::new(end, end + n)
    })
}

/// Whether a byte can be in a secret before its keyword. Signs that end a word or a phrase cannot, so that they settle the text before
/// them.
pub(super) fn is_address_byte(b: &u8) -> bool {
    b.is_ascii_graphic() && !b"\"'`<>\\()[]{},;".contains(b)
}

/// The password in an address of Go's driver for MySQL: `user:password@tcp(host)/database`. The keyword is what follows it.
pub(super) fn go_address(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let before = place.before();
    let word = before.iter().rposition(|b| !is_address_byte(b));
    let word = &before[word.map_or(0, |at| at + 1)..];
    // Behind the name of a variable or a field, the user follows.
    let user = word
        .iter()
        .position(|b| *b == b'=')
        .filter(|sign| word.iter().position(|b| *b == b':') > Some(*sign))
        .map_or(0, |sign| sign + 1);
    let colon = user + word[user..].iter().position(|b| *b == b':')?;
    let value = &word[colon + 1..];
    let fits = (3..=60).contains(&value.len()) && !is_placeholder(value);
    fits.then(|| SecretSpan::new(place.at - value.len(), place.at))
}

/// The password in the address of an Oracle database: `jdbc:oracle:thin:user/password@host`, and in a command that connects to one:
/// `sqlplus user/password@host`. Without a host, only the command says what the words are.
pub(super) fn oracle(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Maximum number of options before the address.
    const MAX_OPTIONS: usize = 6;
    let KeywordMatch { text, at, end, .. } = *place;
    // `connect` and `conn` are words of prose too, which stand behind a blank.
    let before = place.line_before();
    let is_command = || {
        let mut lines = readings(last_line(before));
        lines.any(|line| line.is_empty() || line.eq_ignore_ascii_case(b"SQL> "))
    };
    let is_word = text[at].eq_ignore_ascii_case(&b'c') && before.ends_with(b" ");
    if !at_word_start(place) || is_word && !is_command() {
        return None;
    }
    let mut from = end;
    for _ in 0..MAX_OPTIONS {
        if text.get(from) != Some(&b'-') {
            break;
        }
        from += run_length(text, from, |b| !b.is_ascii_whitespace());
        from += run_length(text, from, |b| b == b' ');
    }
    from += run_length(text, from, |b| b == b'"' || b == b'\'').min(1);
    let user = run_length(text, from, |b| {
        b.is_ascii_alphanumeric() || b"_$#".contains(&b)
    });
    let start = from + user + 1;
    let length = run_length(text, start, |b| is_authority_byte(b) && b != b'@');
    let is_command = text[at..end].eq_ignore_ascii_case(b"sqlplus ");
    let is_ended = match text.get(start + length) {
        Some(b'@') => true,
        Some(b) => is_command && (b.is_ascii_whitespace() || b"\"'".contains(b)),
        None => is_command,
    };
    let is_between = text.get(start - 1) == Some(&b'/') && is_ended;
    let value = text.get(start..start + length)?;
    let fits = user > 0 && is_between && length >= 3 && !is_placeholder(value);
    fits.then(|| SecretSpan::new(start, start + length))
}
