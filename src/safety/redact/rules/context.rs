//! Secrets that are known by what stands around them: `password=`, `Authorization:`, the password in an address.

use super::super::shape::{changes, name, placeholder, random};
use super::super::{RULES, filter::Class};
use super::{Place, Secret, run};

/// So many spaces may stand around a sign of assignment.
const SPACES: usize = 8;

/// Whether a word may begin here: after no letter or digit, unless those are the end of an escape.
pub(super) fn bounded(place: &Place<'_>) -> bool {
    let before = &place.text[place.from..place.at];
    let Some((last, rest)) = before.split_last() else {
        return true;
    };
    if !last.is_ascii_alphanumeric() {
        return true;
    }
    // `\n` in JSON, `%3D` in an address, a colour.
    let percent = rest.len() >= 2 && rest[rest.len() - 2] == b'%' && last.is_ascii_hexdigit();
    let colour = || {
        let start = rest.iter().rposition(|b| !b.is_ascii_digit() && *b != b';');
        *last == b'm' && start.is_some_and(|at| rest[at] == b'[' && at > 0 && rest[at - 1] == 0x1b)
    };
    (rest.last() == Some(&b'\\') && b"nrt".contains(last)) || percent || colour()
}

/// Whether a known format begins here: it says better what it is.
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

fn in_quotes(b: u8) -> bool {
    b.is_ascii_graphic() && !is_quote(b) && !b"<>".contains(&b)
}

fn bare(b: u8) -> bool {
    in_quotes(b) && !b",;()[]{}|&".contains(&b)
}

fn token68(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-._~+/=%".contains(&b)
}

/// The value that is given to the name in which the key stands: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`.
pub(super) fn assigned(place: &Place<'_>) -> Option<Secret> {
    let Place {
        text,
        from,
        at: key,
        end,
    } = *place;
    let word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let before = &text[from..key];
    let lead = &before[before.iter().rposition(|b| !word(b)).map_or(0, |at| at + 1)..];
    let password = lower(&text[key..end]).starts_with('p') && text[key + 1] != b'r';
    if !names_a_secret(lead, &text[key..end]) {
        return None;
    }
    let mut at = end;
    if text[end - 1] != b'=' {
        let suffix = run(text, at, |b| {
            b.is_ascii_alphanumeric() || b == b'_' || b == b'-'
        });
        if !fits_behind(&text[at..at + suffix]) {
            return None;
        }
        at += suffix;
        at += run(text, at, |b| is_quote(b) || b == b']').min(6);
        let spaces = run(text, at, is_space).min(SPACES);
        at += spaces;
        let signs = run(text, at, |b| b":=>".contains(&b));
        let flag = lead.starts_with(b"--") || before.ends_with(b"--");
        if signs > 3 || signs == 0 && !(flag && spaces > 0) {
            return None;
        }
        at += signs;
        at += run(text, at, is_space).min(SPACES);
    }
    let code = text[..at].ends_with(b" = ") || text[..at].ends_with(b" := ");
    let quotes = run(text, at, is_quote);
    at += quotes;
    let class: Class = if quotes > 0 { in_quotes } else { bare };
    let mut n = run(text, at, class);
    let whole = at + n == text.len();
    let next = text.get(at + n).copied();
    // A phrase, or a call.
    let phrase = quotes > 0 && next.is_some_and(|b| !is_quote(b));
    if phrase || quotes == 0 && next.is_some_and(|b| b"([{".contains(&b)) || quotes > 8 {
        return None;
    }
    while quotes == 0 && n > 0 && b".:!?".contains(&text[at + n - 1]) {
        n -= 1;
    }
    let value = &text[at..at + n];
    let worthy = match password && !(code && quotes == 0) {
        true => password_like(value),
        false => key_like(value),
    };
    (worthy && !format_at(text, at)).then(|| Secret {
        more: whole.then_some(class),
        ..Secret::new(at, at + n)
    })
}

/// Whether a name whose start is `lead`, before `key`, is that of a secret.
fn names_a_secret(lead: &[u8], key: &[u8]) -> bool {
    // Tokens that are no secrets: places in a list, signs of a language model.
    const OTHERS: &[&str] = &[
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
    !OTHERS.iter().any(|other| lead.ends_with(other))
}

/// Whether a name that goes on with `suffix` after `password` and the like is that of a secret.
fn fits_behind(suffix: &[u8]) -> bool {
    const OTHERS: &[&str] = &[
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
    let apart = !first.is_ascii_lowercase() || text == "s";
    apart && suffix.len() <= 40 && !OTHERS.iter().any(|other| text.ends_with(other))
}

/// What a person may have chosen as a password, and no word of a program.
fn password_like(value: &[u8]) -> bool {
    let digits = value.iter().any(u8::is_ascii_digit);
    let letters = value.iter().any(u8::is_ascii_alphabetic);
    value.len() >= 8
        && letters
        && !placeholder(value)
        && !name(value)
        && (digits || changes(value) >= 3)
        && !value.starts_with(b"/")
}

/// What a machine has made.
fn key_like(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let short = (12..16).contains(&value.len()) && digits >= 2 && changes(value) >= 4;
    (short || random(value)) && !placeholder(value) && !name(value)
}

/// `scheme://user:password@host`
pub(super) fn url(place: &Place<'_>) -> Option<Secret> {
    let Place {
        text,
        from,
        at,
        end,
    } = *place;
    if !text[from..at].last()?.is_ascii_alphanumeric() {
        return None;
    }
    let n = run(text, end, |b| {
        b.is_ascii_graphic() && !b"/?#\"'<>`\\,[]{}()|".contains(&b)
    })
    .min(1024);
    let authority = &text[end..end + n];
    let host = authority.iter().rposition(|&b| b == b'@')?;
    let user = &authority[..host];
    let start = user.iter().position(|&b| b == b':').map(|at| at + 1);
    let value = &user[start.unwrap_or(0)..];
    let secret = match start {
        Some(_) => value.len() >= 3 && !placeholder(value),
        // A token in the place of a name.
        None => random(value) && value.len() >= 20,
    };
    let start = end + start.unwrap_or(0);
    (secret && !format_at(text, start)).then(|| Secret::new(start, end + host))
}

/// An address that is a secret as a whole.
pub(super) fn long_url(place: &Place<'_>) -> Option<Secret> {
    let Place { text, end, .. } = *place;
    let class: Class = |b| b.is_ascii_alphanumeric() || b"/_@.-%".contains(&b);
    let n = run(text, end, class);
    let fits = n >= 24 && random(&text[end..end + n]) && !placeholder(&text[end..end + n]);
    fits.then(|| Secret {
        more: Some(class),
        ..Secret::new(end, end + n)
    })
}

fn after_authorization(place: &Place<'_>) -> bool {
    lower(&place.text[place.from..place.at]).contains("authorization")
}

/// `Bearer …`
pub(super) fn bearer(place: &Place<'_>) -> Option<Secret> {
    let n = run(place.text, place.end, token68);
    let value = &place.text[place.end..place.end + n];
    let fits = match after_authorization(place) {
        true => n >= 8 && !placeholder(value),
        false => n >= 20 && random(value) && !placeholder(value) && bounded(place),
    };
    (fits && !format_at(place.text, place.end)).then(|| Secret {
        more: Some(token68),
        ..Secret::new(place.end, place.end + n)
    })
}

/// `Authorization: Basic …`
pub(super) fn basic(place: &Place<'_>) -> Option<Secret> {
    let n = run(place.text, place.end, token68);
    let value = &place.text[place.end..place.end + n];
    let fits = after_authorization(place) && n >= 8 && !placeholder(value);
    fits.then(|| Secret {
        more: Some(token68),
        ..Secret::new(place.end, place.end + n)
    })
}

/// `Authorization: token …`; the two above have their own.
pub(super) fn authorization(place: &Place<'_>) -> Option<Secret> {
    let Place { text, end, .. } = *place;
    let mut at = end + run(text, end, is_quote).min(6);
    at += run(text, at, is_space).min(SPACES);
    let signs = run(text, at, |b| b":=>,".contains(&b));
    if !(1..=3).contains(&signs) {
        return None;
    }
    at += signs;
    at += run(text, at, is_space).min(SPACES);
    at += run(text, at, is_quote).min(6);
    let scheme = run(text, at, |b| b.is_ascii_alphabetic() || b == b'-');
    if text.get(at + scheme) == Some(&b' ') && scheme > 0 {
        if matches!(&*lower(&text[at..at + scheme]), "bearer" | "basic") {
            return None;
        }
        at += scheme + 1;
    }
    let n = run(text, at, token68);
    let fits = key_like(&text[at..at + n]) && !format_at(text, at);
    fits.then(|| Secret {
        more: Some(token68),
        ..Secret::new(at, at + n)
    })
}
