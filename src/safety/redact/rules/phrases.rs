//! Passphrases of several words: `passphrase = "correct horse battery staple"`.

use super::super::stage::ByteClass;
use super::byte_classes::{is_quote, quotes_length};
use super::rows::line_end;
use super::{SecretSpan, run_length};

/// Maximum number of bytes from the end of the name to the end of the phrase.
const MAX_PHRASE: usize = 120;
/// Maximum number of letters of a word.
const MAX_WORD: usize = 12;

/// Words of sentences about passphrases, which lists of words for them do not have or which are frequent in such sentences.
const PROSE: &[&str] = &[
    "a",
    "again",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "but",
    "by",
    "can",
    "characters",
    "choose",
    "confirm",
    "default",
    "empty",
    "enter",
    "error",
    "false",
    "field",
    "for",
    "from",
    "given",
    "has",
    "have",
    "if",
    "in",
    "incorrect",
    "invalid",
    "is",
    "it",
    "key",
    "keys",
    "login",
    "long",
    "more",
    "must",
    "my",
    "new",
    "no",
    "none",
    "not",
    "of",
    "on",
    "one",
    "optional",
    "or",
    "please",
    "random",
    "repeat",
    "required",
    "reset",
    "set",
    "shared",
    "short",
    "should",
    "string",
    "text",
    "that",
    "the",
    "this",
    "to",
    "too",
    "true",
    "type",
    "use",
    "used",
    "user",
    "using",
    "value",
    "was",
    "when",
    "with",
    "word",
    "words",
    "wrong",
    "you",
    "your",
];

/// Whether a keyword names passphrases, whose words may be in a setting without quotes.
pub(super) fn may_be_phrase(keyword: &str) -> bool {
    keyword == "psk" || keyword.starts_with("pass") && keyword.ends_with("phrase")
}

/// Whether a word is one of sentences about passphrases.
pub(super) fn is_prose(word: &[u8]) -> bool {
    let is_name = |part: &str| {
        let head = word.get(..part.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(part.as_bytes()))
    };
    let is_word = |prose: &&str| word.eq_ignore_ascii_case(prose.as_bytes());
    PROSE.iter().any(is_word) || is_name("pass") || is_name("secret") || is_name("your")
}

/// Whether what stands before a name in its line may be before a setting: nothing, or a word that tells what it is for.
pub(super) fn begins_setting(line: &[u8]) -> bool {
    let word = line.trim_ascii();
    let is_word = |word: &[u8]| word.iter().all(u8::is_ascii_alphabetic) && !is_prose(word);
    matches!(word, b"" | b"export") || line.ends_with(b" ") && is_word(word)
}

/// Whether a text consists of at least this number of words between single blanks, and is no sentence.
fn is_phrase(text: &[u8], least: usize) -> bool {
    let is_word = |word: &[u8]| {
        (2..=MAX_WORD).contains(&word.len())
            && word.iter().all(u8::is_ascii_alphanumeric)
            && !is_prose(word)
    };
    let words = || text.split(|b| *b == b' ');
    let capital = |word: &[u8]| word[0].is_ascii_uppercase();
    let capitals = words()
        .filter(|word| word.first().is_some_and(u8::is_ascii_uppercase))
        .count();
    let has_letters = words().filter(|word| word.iter().any(u8::is_ascii_alphabetic));
    let letters = has_letters.count();
    words().count() >= least
        && words().all(is_word)
        && letters >= least
        // Only the first word of a sentence begins with a capital letter.
        && (capitals == 0 || capitals == letters)
        && words().all(|word| !capital(word) || word.len() > 2)
}

/// Returns the passphrase at `at`, of at least this number of words: in quotes or, if `is_setting`, up to the line end. `name_end` is
/// where its name ends.
pub(super) fn phrase(
    text: &[u8],
    name_end: usize,
    at: usize,
    least: usize,
    is_setting: bool,
) -> Option<SecretSpan> {
    let text = &text[..text.len().min(name_end + MAX_PHRASE)];
    let quotes = quotes_length(text.get(at..)?, 0);
    let start = at + quotes;
    let class: ByteClass = |b| !is_quote(b) && !b.is_ascii_control() && !b"<>".contains(&b);
    let end = start + run_length(text, start, class);
    let is_ended = match quotes {
        0 => is_setting && (end == text.len() || line_end(text, end) > 0 || text[end] == b'<'),
        _ => text.get(end).copied().is_some_and(is_quote) && line_end(text, end) == 0,
    };
    let length = text.get(start..end)?.trim_ascii_end().len();
    let fits = is_ended && end < name_end + MAX_PHRASE;
    (fits && is_phrase(&text[start..start + length], least))
        .then(|| SecretSpan::new(start, start + length))
}
