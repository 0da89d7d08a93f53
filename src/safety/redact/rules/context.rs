//! Secrets that are identified by their context: `password=`, `Authorization:`, the password in a URL.

use super::super::value_class::{
    group_changes, has_words, is_identifier, is_placeholder, is_random, mixes_characters,
};
use super::super::{RULES, stage::ByteClass};
use super::apart::{is_quote, is_space, value_apart};
use super::line_prefix::readings;
use super::{KeywordMatch, SecretSpan, run_length};

/// Maximum number of spaces around an assignment operator.
const SPACES: usize = 8;

/// Maximum number of bytes after a name that decide on the value assigned to it.
const MAX_VALUE: usize = 1 << 10;

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

pub(super) fn is_quoted_byte(b: u8) -> bool {
    (b.is_ascii_graphic() || b >= 0x80) && !is_quote(b) && !b"<>".contains(&b)
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
    let text = &text[..text.len().min(end + MAX_VALUE)];
    let is_name_byte: ByteClass = |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    let before = &text[from..key];
    let name_start = before.iter().rposition(|&b| !is_name_byte(b));
    let lead = &before[name_start.map_or(0, |at| at + 1)..];
    let keyword = lower(&text[key..end]);
    let names_password = keyword.starts_with("pa")
        || matches!(&*keyword, "pwd" | "psk=" | "sshpass=" | "rediscli_auth=");
    if !names_a_secret(lead, &text[key..end]) {
        return None;
    }
    let is_flag = lead.starts_with(b"--") || before.ends_with(b"--");
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
        let is_word = key + 6 <= end && (is_netrc(place) || takes_word(place.line_before()));
        if signs > 3 {
            return None;
        }
        if signs == 0 && !(spaces > 0 && (is_flag || is_word)) {
            let start = value_apart(place, key - lead.len(), end + suffix, at)?;
            let value = assigned_value(text, start, false, false)?;
            let bytes = &text[value.start..value.end];
            let is_secret = key_like(bytes) && !has_words(bytes) && !format_at(text, value.start);
            return is_secret.then_some(value);
        }
        at += signs;
        at += run_length(text, at, is_space).min(SPACES);
        at += block_scalar(&text[at..]);
    }
    let is_code = text[..at].ends_with(b" = ") || text[..at].ends_with(b" := ");
    let name = &text[key - lead.len()..end];
    let is_variable = text[..at].ends_with(b"=")
        && name.iter().all(|b| !b.is_ascii_lowercase())
        && name.len() > 3
        && !name.ends_with(b"OLDPWD");
    let is_exact = is_variable || is_flag && text[at - 1] == b'=' || is_netrc(place);
    let value = assigned_value(text, at, names_password, is_exact)?;
    let is_quoted = value.start > at;
    let bytes = &text[value.start..value.end];
    let is_secret = match names_password && (is_quoted || !is_code) {
        true if is_exact => chosen_password(bytes, 4),
        true => {
            let is_list = before[..before.len() - lead.len()]
                .last()
                .is_some_and(|b| b";&?".contains(b));
            let next = text.get(value.end).copied();
            password_like(
                bytes,
                !is_quoted && !is_list && next.is_some_and(|b| b",;)".contains(&b)),
            )
        }
        // A key that is exported by hand has its value on the command line.
        false if is_variable && is_exported(&before[..before.len() - lead.len()]) => {
            // Names and placeholders have no digits.
            chosen_password(bytes, 8) && bytes.iter().any(u8::is_ascii_digit)
        }
        false if (is_variable || is_quoted) && keyword == "secret" => {
            key_like(bytes) || mixes_characters(bytes) && !is_placeholder(bytes)
        }
        false => key_like(bytes),
    };
    let is_own_path =
        matches!(lead, b"" | b"OLD") && name.ends_with(b"PWD") && bytes.starts_with(b"/");
    (is_secret && !is_own_path && !format_at(text, value.start)).then_some(value)
}

/// Returns the length of the sign of a value in the next line in YAML, such as `>-`, with the indentation behind it.
fn block_scalar(text: &[u8]) -> usize {
    let sign = run_length(text, 0, |b| b">|".contains(&b));
    let sign = sign + run_length(text, sign, |b| b"+-".contains(&b));
    let indentation = run_length(text, sign + 1, |b| b == b' ');
    match sign {
        1 | 2 if text.get(sign) == Some(&b'\n') && indentation > 0 => sign + 1 + indentation,
        _ => 0,
    }
}

/// Whether an assignment after this text is one of a shell's `export`.
fn is_exported(before: &[u8]) -> bool {
    let line = before
        .rsplit(|b| b"\n;&".contains(b))
        .next()
        .unwrap_or_default();
    line_words(line).any(|word| matches!(word, b"export" | b"setenv"))
}

/// Returns the words of a line, and the first ones without what a program has printed before the line.
fn line_words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let first = readings(line)
        .skip(1)
        .filter_map(|rest| rest.split(u8::is_ascii_whitespace).next());
    line.split(u8::is_ascii_whitespace).chain(first)
}

/// Whether the keyword is in an entry of a netrc file, which may extend over several lines.
fn is_netrc(place: &KeywordMatch<'_>) -> bool {
    let before = lower(&place.text[place.from..place.at]);
    let lines = || before.as_bytes().split(|&b| b == b'\n');
    let has = |name: &str| {
        lines()
            .flat_map(line_words)
            .any(|word| word == name.as_bytes())
    };
    if has("login") && (has("machine") || has("default")) {
        return true;
    }
    // The line with the machine may be too far away, behind the paths that grep prints before each line.
    let mut last = lines().rev();
    let is_login = |line: &[u8]| {
        let words = line.split(u8::is_ascii_whitespace);
        line.starts_with(b"login ") && words.filter(|word| !word.is_empty()).count() == 2
    };
    let is_start = |line: &[u8]| readings(line).any(<[u8]>::is_empty);
    last.next().is_some_and(is_start)
        && last.next().is_some_and(|line| readings(line).any(is_login))
}

/// Whether a name in this line is followed by its value without a sign: netrc, a Dockerfile, SQL, and the commands
/// that configure AWS.
fn takes_word(line: &[u8]) -> bool {
    let line = lower(line);
    line_words(line.as_bytes()).any(|word| matches!(word, b"env" | b"setenv" | b"wifi" | b"with"))
        || line.contains("configure set")
}

/// Returns the value that begins at `at`, without its quotes; `None` for a phrase or, unless `is_exact`, a function call.
fn assigned_value(text: &[u8], at: usize, is_password: bool, is_exact: bool) -> Option<SecretSpan> {
    let quotes = run_length(text, at, is_quote);
    let start = at + quotes;
    let class: ByteClass = if quotes > 0 {
        is_quoted_byte
    } else {
        is_unquoted_byte
    };
    let mut end = start + run_length(text, start, class);
    let next = |end: usize| text.get(end).copied();
    // A quoted phrase or a function call is not a secret.
    let is_phrase = quotes > 0 && next(end).is_some_and(|b| !is_quote(b));
    let is_call = !is_exact && quotes == 0 && next(end).is_some_and(|b| b"([{".contains(&b));
    if is_phrase || is_call || quotes > 8 {
        return None;
    }
    // A password may contain separators. One that ends the value is followed by a blank or by the next name.
    let separators: &[u8] = match (is_password, is_exact) {
        (true, true) => b"&;,|()[]{}",
        (true, false) => b"&;,|",
        (false, _) => b"",
    };
    while quotes == 0 && end > start && next(end).is_some_and(|b| separators.contains(&b)) {
        let rest = run_length(text, end + 1, class);
        if rest == 0 || begins_assignment(&text[end + 1..]) {
            break;
        }
        end += 1 + rest;
    }
    let reaches_end = end == text.len();
    while quotes == 0 && end > start && b".:?".contains(&text[end - 1]) {
        end -= 1;
    }
    Some(SecretSpan {
        more: reaches_end.then_some(class),
        ..SecretSpan::new(start, end)
    })
}

/// Whether the text begins with a name and a sign, as in `name=value`.
fn begins_assignment(text: &[u8]) -> bool {
    let quotes = run_length(text, 0, is_quote);
    let name = run_length(text, quotes, |b| {
        b.is_ascii_alphanumeric() || b"_.-".contains(&b)
    });
    let end = quotes + name;
    let end = end + run_length(text, end, is_quote);
    name > 0
        && text[quotes].is_ascii_alphabetic()
        && text.get(end).is_some_and(|b| b":=".contains(b))
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
/// `ends_as_code` means that the value ends as an expression of a program does.
fn password_like(value: &[u8], ends_as_code: bool) -> bool {
    let has_digit = value.iter().any(u8::is_ascii_digit);
    let is_word = is_identifier(value) && (!has_digit || ends_as_code || value.len() > 16);
    // A passphrase of words: correct-horse-battery-staple.
    let is_passphrase = !ends_as_code
        && value.iter().filter(|&&b| b == b'-').count() >= 3
        && value.iter().all(|b| b.is_ascii_alphabetic() || *b == b'-');
    let has_mix = !is_word && (has_digit || group_changes(value) >= 3);
    chosen_password(value, 6) && (has_mix || is_passphrase)
}

/// Whether a value whose place shows that it is a password is a real one: not a placeholder, a number or a path.
pub(super) fn chosen_password(value: &[u8], least: usize) -> bool {
    let is_path = value.starts_with(b"/")
        && value
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(b))
        && !is_random(value);
    value.len() >= least
        && value.iter().any(u8::is_ascii_alphabetic)
        && !is_placeholder(value)
        && !is_path
        && !b"-:".contains(&value[0])
        && !value.windows(3).any(|w| w == b"://")
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
