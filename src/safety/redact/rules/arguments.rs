//! Secrets in the arguments of commands that have no option for them, and of statements of SQL.

use super::byte_classes::{is_quote, is_space};
use super::commands::{word_at, word_span};
use super::context::chosen_password;
use super::{KeywordMatch, SecretSpan, run_length};

/// Commands that take a secret as an argument, with the number of words before it.
const ARGUMENTS: &[(&str, usize)] = &[
    ("vault login", 0),
    ("rclone obscure", 0),
    ("wpa_passphrase", 1),
    ("rabbitmqctl add_user", 1),
    ("rabbitmqctl change_password", 1),
    ("htpasswd -nb", 1),
    ("htpasswd -bn", 1),
    ("htpasswd -b", 2),
    ("htpasswd -cb", 2),
    ("htpasswd -bc", 2),
    ("secret access key [none]:", 0),
    ("secret access key:", 0),
    ("requirepass", 0),
    ("masterauth", 0),
    ("remote_password", 0),
    ("bindpw", 0),
    ("rootpw", 0),
    ("identified by", 0),
    ("identified with", 2),
    ("convertto-securestring", 0),
    ("rocommunity", 0),
    ("rwcommunity", 0),
    ("snmp-server community", 0),
    ("ngrok config add-authtoken", 0),
    ("ngrok authtoken", 0),
    ("radtest", 4),
    ("nickserv identify", 0),
    ("isql -v", 2),
    ("db2 connect to", 4),
];

/// Maximum number of words, options included, up to the argument.
const MAX_WORDS: usize = 16;

/// The argument of a command of [`ARGUMENTS`].
pub(super) fn argument(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let key = String::from_utf8_lossy(&text[at..end]).to_ascii_lowercase();
    let (_, before) = ARGUMENTS.iter().find(|(name, _)| *name == key)?;
    let mut from = end;
    let mut left = *before;
    for _ in 0..MAX_WORDS {
        let blanks = run_length(text, from, is_space);
        if blanks == 0 {
            return None;
        }
        let (start, word_end) = word_at(text, from + blanks);
        let is_empty = start == word_end;
        if is_empty && start == from + blanks {
            return None;
        }
        from = word_end + run_length(text, word_end, is_quote);
        // Further options of the command.
        if !is_empty && text[start] == b'-' {
            continue;
        }
        if left > 0 {
            left -= 1;
            continue;
        }
        let value = &text[start..word_end];
        let is_sql = || is_statement(place.line_before(), &text[at..end], text[start - 1], value);
        let before_value = text[end..start].trim_ascii_end();
        let fits = chosen_password(value, 4)
            && (!key.starts_with("identified") || is_sql())
            && (!key.starts_with("db2") || before_value.ends_with(b" using"));
        let is_ended = value.ends_with(b";");
        return word_span(text, start, word_end - usize::from(is_ended)).filter(|_| fits);
    }
    None
}

/// Whether `IDENTIFIED BY` with this value is a statement of SQL: in prose, other words follow. Oracle takes a password without quotes.
fn is_statement(line: &[u8], key: &[u8], before_value: u8, value: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line).to_ascii_lowercase();
    let has_user = ["create user", "alter user", "grant "]
        .iter()
        .any(|word| line.contains(word));
    let words: [&[u8]; 4] = [b"by", b"password", b"values", b"random"];
    let is_word = words.iter().any(|word| value.eq_ignore_ascii_case(word));
    let is_quoted = matches!(before_value, b'\'' | b'"');
    (has_user || is_quoted && key.starts_with(b"IDENTIFIED")) && !is_word
}

/// The password in a command of Windows that connects to a share: `net use \\host\share /user:bob password`.
pub(super) fn net_use(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, end, .. } = *place;
    let line = run_length(text, end, |b| b != b'\n' && b != b'\r');
    let line = &text[end..end + line];
    // Options, a drive, the share, and `*` for a prompt.
    let is_other = |word: &&[u8]| {
        matches!(word, [b'/' | b'\\' | b'*' | b'"', ..] | [_, b':', ..]) || word.is_empty()
    };
    let mut words = line
        .split(u8::is_ascii_whitespace)
        .filter(|word| !is_other(word));
    let word = words.next().filter(|_| line.contains(&b'\\'))?;
    let start = end + 1 + memchr::memmem::find(line, &[b" ", word].concat())?;
    word_span(text, start, start + word.len()).filter(|_| chosen_password(word, 4))
}
