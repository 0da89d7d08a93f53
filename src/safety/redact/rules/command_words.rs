//! Secrets behind the words of a command, where these words say which argument is one: `cargo login …`, `fly secrets set NAME=…`.

use super::super::known::names_secret;
use super::super::value_class::{has_words, mixes_characters};
use super::byte_classes::{is_quote, is_space};
use super::commands::{word_at, word_span};
use super::context::{chosen_password, key_like, password_like};
use super::{KeywordMatch, SecretSpan, run_length};

/// Which word is the secret.
#[derive(Clone, Copy)]
enum SecretWord {
    /// The argument that this number of arguments precede.
    Argument(usize),
    /// What is assigned to any name.
    Assigned,
    /// The word behind the name of a setting that ends with one of these.
    Setting(&'static [&'static str]),
    /// The second argument, if the first one is the name of a secret.
    Named,
    /// The rest of a word that begins with this sign.
    Behind(u8),
}

use SecretWord::{Argument, Assigned, Behind, Named, Setting};

const COMMANDS: &[(&str, SecretWord)] = &[
    ("cargo login ", Argument(0)),
    ("bw unlock ", Argument(0)),
    ("snyk auth ", Argument(0)),
    ("auth default ", Argument(0)),
    ("net user ", Argument(1)),
    ("mc alias set ", Argument(3)),
    ("mc config host add ", Argument(3)),
    // Of Fly.io, Supabase and Heroku.
    ("secrets set ", Assigned),
    // Of Vault.
    ("kv put ", Assigned),
    ("kv patch ", Assigned),
    ("vault write secret/", Assigned),
    ("vault write kv/", Assigned),
    ("config:set ", Assigned),
    ("--from-literal=", Assigned),
    ("--from-literal ", Assigned),
    ("etcdctl put ", Named),
    // Of Consul.
    ("consul kv put ", Named),
    // Of Redis.
    ("acl setuser ", Behind(b'>')),
    (
        "rclone config create ",
        Setting(&["secret_access_key", "client_secret"]),
    ),
    (
        "config set ",
        Setting(&[":_authToken", ":_password", "AuthToken"]),
    ),
];

/// Options of these commands whose value is the next word.
const VALUED_OPTIONS: &[&str] = &[
    "--api",
    "--color",
    "--config",
    "--path",
    "--passwordenv",
    "--passwordfile",
    "--registry",
    "--session",
    "-Z",
];

/// The words of the commands.
pub(super) const KEYWORDS: &[&str] = &{
    let mut words = [""; COMMANDS.len()];
    let mut index = 0;
    while index < words.len() {
        words[index] = COMMANDS[index].0;
        index += 1;
    }
    words
};

/// The secret in a command of [`COMMANDS`].
pub(super) fn command_word(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let key = &text[at..end];
    let is_here = |(words, _): &&(&str, _)| key.eq_ignore_ascii_case(words.as_bytes());
    let (_, form) = COMMANDS.iter().find(is_here)?;
    // The values of other resources of Kubernetes are no secrets.
    let is_resource = key.starts_with(b"--from-literal");
    let is_secret = || memchr::memmem::find(place.command_before(), b" secret").is_some();
    secret_word(text, end, *form).filter(|_| !is_resource || is_secret())
}

fn secret_word(text: &[u8], end: usize, form: SecretWord) -> Option<SecretSpan> {
    /// Maximum number of bytes between the command and its secret: the keyword holds a stream back only a little further.
    const MAX_BEHIND: usize = 112;
    const MAX_WORDS: usize = 16;
    let mut from = end;
    let (mut arguments, mut is_value) = (0, false);
    for _ in 0..MAX_WORDS {
        let blanks = from + run_length(text, from, is_space);
        let (start, word_end) = word_at(text, blanks);
        let word = text.get(start..word_end).unwrap_or_default();
        let is_end = match word.first() {
            // An empty word in quotes is one.
            None => start == blanks,
            // A sign behind a quote: what ends with the quote is the literal of a program.
            Some(sign) => b"|;&".contains(sign) || start > blanks && b",)] ".contains(sign),
        };
        if is_end || start > end + MAX_BEHIND {
            return None;
        }
        from = word_end + run_length(text, word_end, is_quote);
        let is_option = word.starts_with(b"-");
        match form {
            Argument(_) if is_value => is_value = false,
            Argument(_) if is_option => {
                is_value = VALUED_OPTIONS.iter().any(|name| name.as_bytes() == word);
            }
            Argument(before) if arguments < before => arguments += 1,
            Argument(_) => {
                return word_span(text, start, word_end).filter(|_| password_like(word, false));
            }
            Named | Behind(_) if is_option => {}
            Named if arguments == 0 && !names_secret(&String::from_utf8_lossy(word)) => {
                return None;
            }
            Named if arguments == 0 => arguments += 1,
            Named => return named_word(text, start, word_end, start > blanks),
            Behind(sign) => {
                if word.first() == Some(&sign) {
                    return word_span(text, start + 1, word_end)
                        .filter(|_| chosen_password(&word[1..], 4));
                }
            }
            Setting(_) if is_value => {
                return word_span(text, start, word_end).filter(|_| chosen_password(word, 4));
            }
            Setting(names) => is_value = names.iter().any(|name| word.ends_with(name.as_bytes())),
            Assigned => {
                let Some(sign) = word.iter().position(|&b| b == b'=') else {
                    continue;
                };
                let (start, word_end) = word_at(text, start + sign + 1);
                from = word_end + run_length(text, word_end, is_quote);
                let value = &text[start..word_end];
                let is_name = has_words(value) && !mixes_characters(value);
                let is_chosen = chosen_password(value, 8) && password_like(value, false);
                if !is_option && is_chosen && !is_name {
                    return word_span(text, start, word_end);
                }
            }
        }
    }
    None
}

/// Returns the value of a name that is not behind a sign, if it is a secret: other words may stand there.
fn named_word(text: &[u8], start: usize, end: usize, is_quoted: bool) -> Option<SecretSpan> {
    let value = &text[start..end];
    let is_chosen = mixes_characters(value) || is_quoted && password_like(value, false);
    let is_secret = chosen_password(value, 6) && (is_chosen || key_like(value));
    word_span(text, start, end).filter(|_| is_secret)
}

/// Names before a value in quotes without a sign between, each with the quote.
pub(super) const QUOTED_NAMES: &[&str] = &[
    "keypassword \"",
    "keypassword '",
    "storepassword \"",
    "storepassword '",
    ": psk \"",
];

/// The value in quotes behind one of [`QUOTED_NAMES`].
pub(super) fn quoted(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let (start, end) = in_quotes(place)?;
    word_span(place.text, start, end).filter(|_| chosen_password(&place.text[start..end], 4))
}

/// Returns where the value lies that begins behind the keyword and ends with the quote which the keyword ends with.
pub(super) fn in_quotes(place: &KeywordMatch<'_>) -> Option<(usize, usize)> {
    let KeywordMatch { text, end, .. } = *place;
    let length = run_length(text, end, |b| b != b'\n' && !is_quote(b));
    let is_ended = text.get(end + length) == Some(&text[end - 1]);
    is_ended.then_some((end, end + length))
}
