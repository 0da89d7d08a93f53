//! Secrets in what people and servers say: announcements of new passwords and keys, the commands of mail and file servers.

use super::super::value_class::{has_words, is_date, mixes_characters};
use super::byte_classes::{base64, both64, decode_base64, is_quote, lower};
use super::command_words::in_quotes;
use super::commands::{word_at, word_span};
use super::context::{chosen_password, key_like};
use super::line_prefix::readings;
use super::rows::{last_line, next_run};
use super::{KeywordMatch, SecretSpan, run_length};

/// What somebody has changed a password to, or a key that was created. The keyword ends with the words before the value.
pub(super) fn announced(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const VERBS: &[&str] = &["chang", "set", "updat", "rotat", "geänder", "gesetzt"];
    let KeywordMatch { text, at, end, .. } = *place;
    let is_password = lower(&text[at..end]).starts_with("pass");
    let line = lower(last_line(place.line_before()));
    let is_announced = !is_password || VERBS.iter().any(|verb| line.contains(verb));
    let (start, word_end) = word_at(text, end);
    let word = text.get(start..word_end)?;
    let signs = word.iter().rev().take_while(|b| b".,;:!?)".contains(b));
    let value = match start > end && text.get(word_end).copied().is_some_and(is_quote) {
        true => word,
        false => &word[..word.len() - signs.count()],
    };
    let is_value = !is_date(value) && (key_like(value) || is_password && mixes_characters(value));
    let fits = is_announced && is_value && !has_words(value);
    word_span(text, start, start + value.len()).filter(|_| fits)
}

/// Whether a line tells that a password is another one now, as opposed to a policy for passwords: `password was changed`, `changed password
/// for bob`.
fn tells_of_change(line: &str) -> bool {
    const NEXT: [&str; 6] = ["changed", "was", "has", "for", "of", "from"];
    let is_told = |behind: &str| {
        let word = behind.split_whitespace().next();
        word.is_none_or(|word| NEXT.contains(&word))
    };
    line.contains("changed") && line.split("password").skip(1).any(is_told)
}

/// What a password was before it was changed, and what it is now: `password changed from '…' to '…'`. The keyword ends with the quote
/// before the value.
pub(super) fn changed(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let (start, stop) = in_quotes(place)?;
    let line = lower(last_line(&place.text[place.from..at]));
    let is_named = match lower(&text[at..end]).starts_with("changed") {
        true => tells_of_change(&(line + "changed ")),
        false => line.contains(" from ") && tells_of_change(&line),
    };
    let value = &text[start..stop];
    let is_value = key_like(value) || mixes_characters(value) && chosen_password(value, 6);
    word_span(text, start, stop).filter(|_| is_named && is_value)
}

/// The new password that `elasticsearch-reset-password` prints below the name of its user. The keyword is what it prints before it.
pub(super) fn reset_password(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let mut lines = text[from..at].rsplit(|b| *b == b'\n').skip(1);
    let is_reset = lower(lines.next()?).contains("password for the [");
    let (start, word_end) = word_at(text, end);
    let fits = is_reset && chosen_password(text.get(start..word_end)?, 6);
    word_span(text, start, word_end).filter(|_| fits)
}

/// The password that a client sends to a server of files or mail, in the line behind the one with the user or the answer to it.
pub(super) fn sent_password(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    if text[at..end] != *b"PASS " {
        return None;
    }
    // Clients print a sign before each line: `---> PASS …`, `> PASS …`.
    let mut lines = text[from..at].rsplit(|b| *b == b'\n');
    let is_command = readings(lines.next()?).any(<[u8]>::is_empty);
    let is_login = |line: &[u8]| {
        readings(line).any(|line| line.starts_with(b"USER ") || line.starts_with(b"331 "))
    };
    let is_asked = lines.take(3).any(is_login);
    let length = run_length(text, end, |b| b.is_ascii_graphic());
    let is_alone = text.get(end + length).is_none_or(|b| b"\r\n".contains(b));
    word_span(text, end, end + length).filter(|_| {
        is_command && is_asked && is_alone && chosen_password(&text[end..end + length], 4)
    })
}

/// A user and password of SMTP or IMAP in base64, with zeros between.
pub(super) fn sasl_plain(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let length = run_length(text, end, both64);
    let decoded = decode_base64(&text[end..end + length.min(1024)]);
    let zeros = decoded.iter().filter(|b| **b == 0).count();
    (length >= 8 && zeros == 2).then(|| SecretSpan {
        more: Some(both64),
        ..SecretSpan::new(end, end + length)
    })
}

/// The answer of a client to the prompt `Password:` in base64. The keyword is the prompt.
pub(super) fn sasl_login(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let row = next_run(place.text, place.end, base64)?;
    (row.len() >= 4).then(|| SecretSpan::new(row.start, row.end))
}

/// The password in the configuration of msmtp, `password …`. Prose has such lines too, so the settings of the same account must stand
/// above it, each in a line of two words.
pub(super) fn setting_word(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// Maximum number of lines up to the one with the user or the server.
    const MAX_LINES: usize = 8;
    let KeywordMatch {
        text,
        from,
        at,
        end,
    } = *place;
    let (start, word_end) = word_at(text, end);
    let value = text.get(start..word_end)?;
    let behind = word_end + run_length(text, word_end, is_quote);
    let is_alone = text.get(behind).is_none_or(|b| b"\r\n".contains(b));
    let is_value = key_like(value) || mixes_characters(value);
    if !is_alone || !is_value {
        return None;
    }
    let mut lines = text[from..at].rsplit(|b| *b == b'\n');
    let starts_line = lines.next()?.trim_ascii().is_empty();
    let lines = lines.take(MAX_LINES).map(|line| {
        let mut words = line.split(u8::is_ascii_whitespace);
        let mut words = words.by_ref().filter(|word| !word.is_empty());
        (words.next(), words.count())
    });
    let is_account = |name: &[u8]| matches!(name, b"user" | b"host" | b"account" | b"from");
    let mut settings = lines.take_while(|(name, values)| name.is_none() || *values == 1);
    let is_setting = starts_line && settings.any(|(name, _)| name.is_some_and(is_account));
    word_span(text, start, word_end).filter(|_| is_setting)
}

/// The password of a user in a file of secrets of PPP: `"user" * "password" *`. The keyword is what is between the user and it.
pub(super) fn ppp(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let length = run_length(text, end, |b| b != b'"' && b != b'\n');
    let rest = text.get(end + length..).unwrap_or_default();
    let fits = place.line_before().contains(&b'"')
        && (rest.starts_with(b"\" *") || rest.starts_with(b"\"\n") || rest == b"\"")
        && chosen_password(&text[end..end + length], 4);
    fits.then(|| SecretSpan::new(end, end + length))
}

/// The rest of the line behind the keyword, which the log of a job then hides.
pub(super) fn masked(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let length = run_length(text, end, |b| !b.is_ascii_control() && !is_quote(b));
    word_span(text, end, end + length)
}
