//! Users and passwords side by side: `BASIC_AUTH=user:…`, and in the commands of Redis, IMAP and expect.

use super::super::stage::ByteClass;
use super::super::value_class::is_digest_or_number;
use super::byte_classes::{is_quote, is_space, lower};
use super::commands::{word_at, word_span};
use super::context::{at_word_start, chosen_password, format_at, password_like};
use super::line_prefix::readings;
use super::rows::last_line;
use super::value_spans::is_quoted_byte;
use super::{KeywordMatch, SecretSpan, run_length};

/// Keywords of commands with one word or two, the last of which is the password.
pub(super) const LAST_WORDS: &[&str] = &["auth ", "\"auth\" \""];

/// The keyword of the same command in the protocol of Redis.
pub(super) const RESP_AUTH: &str = "AUTH\r\n$";

/// A user and a password behind a name that ends with the keyword, in a variable or a setting: `BASIC_AUTH=bob:…`.
pub(super) fn login_pair(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const MAX_USER: usize = 48;
    let KeywordMatch { text, at, end, .. } = *place;
    let before = place.before();
    let is_name: fn(&u8) -> bool = |b| b.is_ascii_alphanumeric() || b"_-".contains(b);
    let lead = before.iter().rposition(|b| !is_name(b));
    let lead = lower(&before[lead.map_or(0, |at| at + 1)..]);
    let is_variable = text[at..end].iter().all(u8::is_ascii_uppercase);
    if !(lead.contains("basic") || is_variable && lead.ends_with('_')) {
        return None;
    }
    let name_end = end + run_length(text, end, is_quote).min(6);
    let blanks = name_end + run_length(text, name_end, is_space).min(8);
    let sign = *text.get(blanks)?;
    let value = blanks + 1 + run_length(text, blanks + 1, is_space).min(8);
    if !(sign == b'=' || sign == b':' && value > blanks + 1) {
        return None;
    }
    let user = value + run_length(text, value, is_quote).min(6);
    let is_user: ByteClass = |b| b.is_ascii_alphanumeric() || b"._@+-".contains(&b);
    let length = run_length(text, user, is_user);
    let start = user + length + 1;
    let is_sign = match text.get(start - 1) {
        Some(b':') => true,
        Some(b'/') => lead.starts_with("neo4j"),
        _ => false,
    };
    let class = is_quoted_byte;
    let stop = start + run_length(text, start, class);
    let word = text.get(start..stop)?;
    let fits = is_sign
        && (1..=MAX_USER).contains(&length)
        && !word.starts_with(b"/")
        && !is_digest_or_number(&text[user..stop])
        && password_like(word, false)
        && !format_at(text, start);
    fits.then(|| SecretSpan::open(text, start, stop, class))
}

/// Returns the last of at most two words at `at` in a line, of which the first is the user if there are two.
fn last_word(text: &[u8], at: usize) -> Option<SecretSpan> {
    let (start, end) = word_at(text, at);
    let behind = end + run_length(text, end, |b| b == b'"' || b == b'\'').min(1);
    let blanks = run_length(text, behind, is_space);
    let (second, second_end) = word_at(text, behind + blanks);
    let is_word = blanks > 0 && second_end > second && !b"|;&<>#-".contains(&text[second]);
    let (start, end) = match is_word {
        true => (second, second_end),
        false => (start, end),
    };
    word_span(text, start, end).filter(|_| chosen_password(&text[start..end], 4))
}

/// The password behind the command `AUTH` of Redis: in its shell, in the arguments of its program, and in what is sent to its port.
fn typed_auth(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let line = last_line(place.line_before());
    let has = |text: &[u8], word: &str| memchr::memmem::find(text, word.as_bytes()).is_some();
    let is_prompt = || {
        let prompt = line.strip_suffix(b"> ").unwrap_or_default();
        prompt.contains(&b':')
            && prompt
                .last()
                .is_some_and(|b| b.is_ascii_digit() || *b == b']')
    };
    let is_argument = || has(line, "redis-cli ") || has(line, "valkey-cli ");
    let is_sent = || {
        let rest = &text[end..end + run_length(text, end, |b| b != b'\n')];
        line.last().is_some_and(|b| b"\"'".contains(b)) && has(rest, "| nc ") && has(rest, " 6379")
    };
    let is_command = at_word_start(place) && (is_prompt() || is_argument() || is_sent());
    is_command.then(|| last_word(text, end)).flatten()
}

/// The password in a command `AUTH` of Redis, also as a server lists it: `"AUTH" "user" "…"`. The keyword is one of [`LAST_WORDS`].
pub(super) fn listed_auth(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    match place.text[place.at] {
        b'"' => last_word(place.text, place.end - 1),
        _ => typed_auth(place),
    }
}

/// The password in a command `AUTH` in the protocol of Redis, in which each word has its length before it. The keyword ends with the sign
/// before the first length.
pub(super) fn sent_auth(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let word = |at: usize| {
        let start = at + run_length(text, at, |b| b.is_ascii_digit()).min(3) + 2;
        let length = run_length(text, start, |b| b.is_ascii_graphic());
        (length > 0 && text[start - 2..].starts_with(b"\r\n")).then(|| start..start + length)
    };
    let first = word(end)?;
    let second = match text[first.end..].starts_with(b"\r\n$") {
        true => word(first.end + 3),
        false => None,
    };
    let value = second.unwrap_or(first);
    word_span(text, value.start, value.end).filter(|_| chosen_password(&text[value.clone()], 4))
}

/// The password in the command `LOGIN` of IMAP, behind the tag of the command and before the user.
pub(super) fn imap_login(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Maximum length of the tag.
    const MAX_TAG: usize = 8;
    let KeywordMatch { text, at, end, .. } = *place;
    let is_tag = |word: &[u8]| {
        word.len() <= MAX_TAG
            && word.iter().all(u8::is_ascii_alphanumeric)
            && word.iter().any(u8::is_ascii_digit)
    };
    let is_command = text[at..end] == *b" LOGIN " && readings(place.line_before()).any(is_tag);
    let (user, user_end) = word_at(text, end);
    let value = user_end + run_length(text, user_end, |b| b == b'"').min(1);
    let (start, stop) = word_at(text, value + run_length(text, value, is_space));
    let behind = stop + run_length(text, stop, |b| b == b'"').min(1);
    let is_alone = text.get(behind).is_none_or(|b| b"\r\n\\".contains(b));
    let fits = is_command && user_end > user && start > value && is_alone;
    word_span(text, start, stop).filter(|_| fits && chosen_password(&text[start..stop], 4))
}

/// What a script of expect sends to a prompt for a password. The keyword ends with the quote before it.
pub(super) fn expect_send(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Number of lines in which the prompt stands: the one with the keyword and those before it.
    const MAX_LINES: usize = 3;
    let KeywordMatch { text, end, .. } = *place;
    let length = run_length(text, end, |b| !is_quote(b) && !b.is_ascii_whitespace());
    let behind = &text[end + length..];
    let is_sent = behind.starts_with(b"\\r\"") || behind.starts_with(b"\\n\"");
    let mut lines = place.before().rsplit(|b| *b == b'\n').take(MAX_LINES);
    let has = |line: &[u8], word: &str| memchr::memmem::find(line, word.as_bytes()).is_some();
    let mut is_asked = || lines.any(|line| has(line, "assword") || has(line, "assphrase"));
    let fits = is_sent && is_asked() && chosen_password(&text[end..end + length], 4);
    fits.then(|| SecretSpan::new(end, end + length))
}
