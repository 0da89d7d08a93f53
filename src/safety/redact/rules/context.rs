//! Secrets that are identified by their context: `password=`, `Authorization:`, the password in a URL.

use super::super::value_class::{group_changes, is_identifier, is_placeholder, is_random};
use super::super::{RULES, stage::ByteClass};
use super::{KeywordMatch, SecretSpan, run_length};

/// Maximum number of spaces around an assignment operator.
const SPACES: usize = 8;

/// Whether a word can begin at the keyword: not after a letter or digit, unless that ends an escape sequence.
pub(super) fn at_word_start(place: &KeywordMatch<'_>) -> bool {
    let before = &place.text[place.from..place.at];
    let Some((last, rest)) = before.split_last() else {
        return true;
    };
    if !last.is_ascii_alphanumeric() {
        return true;
    }
    // `\n` in JSON, `%3D` in a URL, a terminal colour.
    let percent = rest.len() >= 2 && rest[rest.len() - 2] == b'%' && last.is_ascii_hexdigit();
    let colour = || {
        let start = rest.iter().rposition(|b| !b.is_ascii_digit() && *b != b';');
        *last == b'm' && start.is_some_and(|at| rest[at] == b'[' && at > 0 && rest[at - 1] == 0x1b)
    };
    (rest.last() == Some(&b'\\') && b"nrt".contains(last)) || percent || colour()
}

/// Whether a known format begins at `at`. Its rule then reports the secret, with a more specific kind.
fn format_at(text: &[u8], at: usize) -> bool {
    RULES.at(text, at, true).is_some()
}

fn lower(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

fn is_space(b: u8) -> bool {
    b == b' ' || b == b'\t'
}

fn is_quote(b: u8) -> bool {
    matches!(b, b'"' | b'\'' | b'`' | b'\\')
}

fn is_quoted_byte(b: u8) -> bool {
    b.is_ascii_graphic() && !is_quote(b) && !b"<>".contains(&b)
}

fn is_unquoted_byte(b: u8) -> bool {
    is_quoted_byte(b) && !b",;()[]{}|&".contains(&b)
}

fn is_token68(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._~+/=%".contains(&b)
}

/// The value assigned to the name that contains the keyword: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`.
pub(super) fn assigned(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at: key,
        end,
    } = *place;
    let is_name_byte: ByteClass = |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let before = &text[from..key];
    let name_start = before.iter().rposition(|&b| !is_name_byte(b));
    let lead = &before[name_start.map_or(0, |at| at + 1)..];
    let names_password = lower(&text[key..end]).starts_with('p') && text[key + 1] != b'r';
    if !names_a_secret(lead, &text[key..end]) {
        return None;
    }
    let mut at = end;
    if text[end - 1] != b'=' {
        let suffix = run_length(text, at, is_name_byte);
        if !is_secret_suffix(&text[at..at + suffix]) {
            return None;
        }
        at += suffix;
        at += run_length(text, at, |b| is_quote(b) || b == b']').min(6);
        let spaces = run_length(text, at, is_space).min(SPACES);
        at += spaces;
        let signs = run_length(text, at, |b| b":=>".contains(&b));
        let flag = lead.starts_with(b"--") || before.ends_with(b"--");
        if signs > 3 || signs == 0 && !(flag && spaces > 0) {
            return None;
        }
        at += signs;
        at += run_length(text, at, is_space).min(SPACES);
    }
    let is_code = text[..at].ends_with(b" = ") || text[..at].ends_with(b" := ");
    let quotes = run_length(text, at, is_quote);
    at += quotes;
    let class: ByteClass = if quotes > 0 {
        is_quoted_byte
    } else {
        is_unquoted_byte
    };
    let mut n = run_length(text, at, class);
    let reaches_end = at + n == text.len();
    let next = text.get(at + n).copied();
    // A quoted phrase or a function call is not a secret.
    let is_phrase = quotes > 0 && next.is_some_and(|b| !is_quote(b));
    if is_phrase || quotes == 0 && next.is_some_and(|b| b"([{".contains(&b)) || quotes > 8 {
        return None;
    }
    while quotes == 0 && n > 0 && b".:!?".contains(&text[at + n - 1]) {
        n -= 1;
    }
    let value = &text[at..at + n];
    let is_secret = match names_password && !(is_code && quotes == 0) {
        true => password_like(value),
        false => key_like(value),
    };
    (is_secret && !format_at(text, at)).then(|| SecretSpan {
        more: reaches_end.then_some(class),
        ..SecretSpan::new(at, at + n)
    })
}

/// Whether a name that consists of `lead` and `key` names a secret.
fn names_a_secret(lead: &[u8], key: &[u8]) -> bool {
    // Tokens that are not secret: positions in a list, special tokens of a language model.
    const HARMLESS: &[&str] = &[
        "bos",
        "continuation",
        "csrf",
        "cursor",
        "eos",
        "mask",
        "max",
        "next",
        "page",
        "pad",
        "prev",
        "public",
        "stop",
        "sync",
        "unk",
    ];
    let last = lead.last().copied().unwrap_or(b' ');
    let short = matches!(&*lower(key), "pass" | "pwd");
    // `compass` and `bypass`.
    if short
        && last.is_ascii_alphabetic()
        && last.is_ascii_lowercase() == key[0].is_ascii_lowercase()
    {
        return false;
    }
    let lead = lower(lead);
    let lead = lead.trim_end_matches(['_', '-']);
    !HARMLESS.iter().any(|word| lead.ends_with(word))
}

/// Whether a name that continues with `suffix` after `password` and similar keywords names a secret: not
/// `password_policy`.
fn is_secret_suffix(suffix: &[u8]) -> bool {
    const HARMLESS: &[&str] = &[
        "algorithm",
        "arn",
        "at",
        "budget",
        "class",
        "count",
        "digest",
        "endpoint",
        "expiration",
        "expires",
        "expiry",
        "field",
        "file",
        "fingerprint",
        "format",
        "hash",
        "hint",
        "id",
        "ids",
        "in",
        "input",
        "label",
        "len",
        "length",
        "limit",
        "manager",
        "name",
        "path",
        "pattern",
        "policy",
        "prompt",
        "ref",
        "regex",
        "reset",
        "sha256",
        "store",
        "ttl",
        "type",
        "uri",
        "url",
        "usage",
        "version",
    ];
    let Some(first) = suffix.first() else {
        return true;
    };
    let text = lower(suffix);
    let is_separate_word = !first.is_ascii_lowercase() || text == "s";
    is_separate_word && suffix.len() <= 40 && !HARMLESS.iter().any(|word| text.ends_with(word))
}

/// Whether the value can be a password that a person chose, as opposed to a word of a program.
fn password_like(value: &[u8]) -> bool {
    let digits = value.iter().any(u8::is_ascii_digit);
    let letters = value.iter().any(u8::is_ascii_alphabetic);
    value.len() >= 8
        && letters
        && !is_placeholder(value)
        && !is_identifier(value)
        && (digits || group_changes(value) >= 3)
        && !value.starts_with(b"/")
}

/// Whether the value looks like a key that a machine generated.
fn key_like(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let is_short_key = (12..16).contains(&value.len()) && digits >= 2 && group_changes(value) >= 4;
    (is_short_key || is_random(value)) && !is_placeholder(value) && !is_identifier(value)
}

/// Maximum length of `user:password@host` in a URL.
const MAX_AUTHORITY: usize = 1024;

fn is_authority_byte(b: u8) -> bool {
    b.is_ascii_graphic() && !b"/?#\"'<>`\\,[]{}()|".contains(&b)
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

fn after_authorization(place: &KeywordMatch<'_>) -> bool {
    lower(&place.text[place.from..place.at]).contains("authorization")
}

/// `Bearer …`
pub(super) fn bearer(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let n = run_length(place.text, place.end, is_token68);
    let value = &place.text[place.end..place.end + n];
    let fits = match after_authorization(place) {
        true => n >= 8 && !is_placeholder(value),
        false => n >= 20 && is_random(value) && !is_placeholder(value) && at_word_start(place),
    };
    (fits && !format_at(place.text, place.end)).then(|| SecretSpan {
        more: Some(is_token68),
        ..SecretSpan::new(place.end, place.end + n)
    })
}

/// `Authorization: Basic …`
pub(super) fn basic(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let n = run_length(place.text, place.end, is_token68);
    let value = &place.text[place.end..place.end + n];
    let fits = after_authorization(place) && n >= 8 && !is_placeholder(value);
    fits.then(|| SecretSpan {
        more: Some(is_token68),
        ..SecretSpan::new(place.end, place.end + n)
    })
}

/// `Authorization: token …`; `Bearer` and `Basic` have their own functions.
pub(super) fn authorization(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let mut at = end + run_length(text, end, is_quote).min(6);
    at += run_length(text, at, is_space).min(SPACES);
    let signs = run_length(text, at, |b| b":=>,".contains(&b));
    if !(1..=3).contains(&signs) {
        return None;
    }
    at += signs;
    at += run_length(text, at, is_space).min(SPACES);
    at += run_length(text, at, is_quote).min(6);
    let scheme = run_length(text, at, |b| b.is_ascii_alphabetic() || b == b'-');
    if text.get(at + scheme) == Some(&b' ') && scheme > 0 {
        if matches!(&*lower(&text[at..at + scheme]), "bearer" | "basic") {
            return None;
        }
        at += scheme + 1;
    }
    let n = run_length(text, at, is_token68);
    let fits = key_like(&text[at..at + n]) && !format_at(text, at);
    fits.then(|| SecretSpan {
        more: Some(is_token68),
        ..SecretSpan::new(at, at + n)
    })
}
