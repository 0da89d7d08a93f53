//! Secrets that the form of their file or of an output identifies: cookie jars, the codes of wireless networks, defaults and changes of
//! Terraform, hashes of Windows, the words of a wallet.

use std::ops::{Range, RangeInclusive};

use super::super::RULES;
use super::super::known::names_secret;
use super::super::stage::ByteClass;
use super::super::value_class::{is_code_word, is_placeholder};
use super::byte_classes::{is_quote, is_space};
use super::commands::is_session_value;
use super::context::{chosen_password, format_at};
use super::{KeywordMatch, SecretSpan, run_length};

/// Returns the next word at or after `at` in its line, and where it ends.
fn next_word(text: &[u8], at: usize) -> (&[u8], usize) {
    let start = at + run_length(text, at, is_space);
    let end = start + run_length(text, start, |b| !b.is_ascii_whitespace());
    (text.get(start..end).unwrap_or_default(), end)
}

/// The value of a cookie in a jar of Netscape's form: domain, flag, path, flag, expiry, name, value. The keyword is the first flag with
/// the start of the path.
pub(super) fn cookie_jar(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let KeywordMatch { text, at, end, .. } = *place;
    let is_flag = |word: &[u8]| word == b"TRUE" || word == b"FALSE";
    if !is_flag(
        text[at..end]
            .split(|&b| is_space(b))
            .find(|word| !word.is_empty())?,
    ) {
        return None;
    }
    let (_, path_end) = next_word(text, end - 1);
    let (flag, flag_end) = next_word(text, path_end);
    let (expiry, expiry_end) = next_word(text, flag_end);
    let (name, name_end) = next_word(text, expiry_end);
    let (value, value_end) = next_word(text, name_end);
    let fits = is_flag(flag)
        && !expiry.is_empty()
        && expiry.iter().all(|b| b.is_ascii_digit() || *b == b'.')
        && is_session_value(name, value);
    let start = value_end - value.len();
    (fits && !format_at(text, start)).then(|| SecretSpan {
        more: (value_end == text.len()).then_some(|b| !b.is_ascii_whitespace()),
        ..SecretSpan::new(start, value_end)
    })
}

/// The password in the code of a wireless network: `WIFI:T:WPA;S:name;P:password;;`.
pub(super) fn wifi(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    /// More than a code with the longest name and password.
    const MAX_CODE: usize = 512;
    let KeywordMatch { text, at, end, .. } = *place;
    let code = &text[end..text.len().min(end + MAX_CODE)];
    let is_code = text[at..].starts_with(b"WIFI:")
        && code.first().is_some_and(|b| b"TSPHR".contains(b))
        && code.get(1) == Some(&b':');
    let mut field = 0;
    for (index, &byte) in code.iter().enumerate() {
        let is_end = byte == b';' && (index == 0 || code[index - 1] != b'\\');
        if byte == b'\n' || !is_code {
            break;
        }
        if is_end {
            if code[field..index].starts_with(b"P:") && index >= field + 6 {
                return Some(SecretSpan::new(end + field + 2, end + index));
            }
            field = index + 1;
        }
    }
    let class: ByteClass = |b| b != b';' && b != b'\n';
    let open = is_code && end + code.len() == text.len() && !code.contains(&b'\n');
    let is_password = open && code[field..].starts_with(b"P:") && code.len() >= field + 6;
    is_password.then(|| SecretSpan::open(text, end + field + 2, text.len(), class))
}

/// Whether a byte can be in a string of Terraform.
fn is_string_byte(b: u8) -> bool {
    b != b'"' && b != b'\n'
}

/// The default of a variable of Terraform whose name is that of a secret: `variable "db_password" {` and `default = "…"`. The keyword ends
/// with the quote before the value.
pub(super) fn terraform_default(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const VARIABLE: &[u8] = b"variable \"";
    let KeywordMatch { text, end, .. } = *place;
    let before = place.before();
    let block = &before[memchr::memmem::rfind(before, VARIABLE)? + VARIABLE.len()..];
    let name = &block[..block.iter().position(|&b| b == b'"')?];
    let is_closed = memchr::memmem::find(block, b"\n}").is_some();
    let length = run_length(text, end, is_string_byte);
    let value = &text[end..end + length];
    let fits = !is_closed
        && names_secret(&String::from_utf8_lossy(name))
        && chosen_password(value, 6)
        && !is_placeholder(value)
        && text.get(end + length).is_none_or(|b| *b == b'"');
    (fits && !format_at(text, end))
        .then(|| SecretSpan::open(text, end, end + length, is_string_byte))
}

/// The new value in a change of an argument that Terraform shows, `~ password = "…" -> "…"`, and the value of a pair in Scala,
/// `"password" -> "…"`. The keyword is what stands between the values.
pub(super) fn terraform_change(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    let line = place.line_before();
    let KeywordMatch { text, end, .. } = *place;
    let sign = memchr::memmem::find(line, b" = \"");
    let is_pair = sign.is_none();
    let name = match sign {
        Some(sign) => {
            let name = line[..sign].trim_ascii_end();
            name.rsplit(u8::is_ascii_whitespace).next()?
        }
        None => &line[memchr::memrchr(b'"', line)? + 1..],
    };
    let length = run_length(text, end, is_string_byte);
    let value = text.get(end..end + length)?;
    let is_whole = text.get(end + length).is_none_or(|b| *b == b'"');
    // The name decides as it does before one value.
    let setting = [name, b" = \"", value, b"\"\n"].concat();
    let is_secret = || {
        (0..name.len()).any(|at| {
            let found = RULES.at(&setting, at, false);
            found.is_some_and(|(secret, _)| secret.start == name.len() + 4)
        })
    };
    // The words of a program stand in pairs too.
    let is_word = is_pair && is_code_word(value);
    let fits = is_whole && name.len() < 64 && !is_word && !format_at(text, end) && is_secret();
    fits.then(|| SecretSpan::open(text, end, end + length, is_string_byte))
}

/// The hash of a password of Windows, behind the older one: `Administrator:500:aad3…:31d6…:::`. The keyword is what follows it.
pub(super) fn ntlm_hash(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const HASH: usize = 32;
    let KeywordMatch { text, from, at, .. } = *place;
    let start = at.checked_sub(2 * HASH + 1).filter(|start| *start > from)?;
    let hashes = &text[start..at];
    let is_hash = |hash: &[u8]| hash.iter().all(u8::is_ascii_hexdigit);
    let fits = text[start - 1] == b':'
        && hashes[HASH] == b':'
        && is_hash(&hashes[..HASH])
        && is_hash(&hashes[HASH + 1..]);
    fits.then(|| SecretSpan::new(at - HASH, at))
}

/// Whether a word is the number of an item in a list: `1.` or `1)`.
fn is_item_number(word: &[u8]) -> bool {
    let number = word.strip_suffix(b".").or(word.strip_suffix(b")"));
    number.is_some_and(|number| number.len() <= 2 && number.iter().all(u8::is_ascii_digit))
}

/// Returns the range of the next word of a phrase at or behind `at`. In a list, each word has a number before it, and `None` is returned
/// where it has none.
fn phrase_word(phrase: &[u8], at: usize, is_list: bool) -> Option<Range<usize>> {
    let gap: ByteClass = match is_list {
        true => |b| b.is_ascii_whitespace(),
        false => |b| b == b' ',
    };
    let token = |at: usize| {
        let start = at + run_length(phrase, at, gap);
        let is_token: ByteClass = |b| b.is_ascii_alphanumeric() || b".)".contains(&b);
        start..start + run_length(phrase, start, is_token)
    };
    let first = token(at);
    match is_list {
        true if is_item_number(&phrase[first.clone()]) => Some(token(first.end)),
        true => None,
        false => Some(first),
    }
}

/// The words from which the keys of a wallet come: `Mnemonic: legal winner thank …`, perhaps numbered, in lines of their own.
pub(super) fn seed_phrase(place: &KeywordMatch<'_>) -> Option<SecretSpan> {
    const WORDS: RangeInclusive<usize> = 12..=24;
    /// Maximum length of 24 words with their numbers.
    const MAX_PHRASE: usize = 24 * 16;
    let KeywordMatch { text, end, .. } = *place;
    let verb = if text[end..].starts_with(b" is") {
        3
    } else {
        0
    };
    let is_sign = |b: u8| b.is_ascii_whitespace() || is_quote(b) || b":=([".contains(&b);
    let signs = end + verb;
    let start = signs + run_length(text, signs, is_sign).min(12);
    let is_named = text[end - 1..start].iter().any(|b| b":=".contains(b));
    let phrase = &text[start..text.len().min(start + MAX_PHRASE)];
    let is_word =
        |word: &[u8]| (3..=8).contains(&word.len()) && word.iter().all(u8::is_ascii_lowercase);
    // Frequent words that the list of BIP 39 does not have.
    let is_prose =
        |word: &[u8]| matches!(word, b"the" | b"and" | b"for" | b"with" | b"are" | b"not");
    let is_list = phrase_word(phrase, 0, true).is_some();
    let mut words = 0..0;
    let mut count = 0;
    while let Some(word) = phrase_word(phrase, words.end, is_list) {
        let bytes = &phrase[word.clone()];
        if is_prose(bytes) {
            return None;
        }
        if !is_word(bytes) {
            break;
        }
        let first = if count == 0 { word.start } else { words.start };
        words = first..word.end;
        count += 1;
    }
    let fits = is_named && WORDS.contains(&count);
    let is_open = start + words.end == text.len();
    fits.then(|| SecretSpan {
        more: is_open.then_some(|b| b.is_ascii_lowercase() || b == b' '),
        ..SecretSpan::new(start + words.start, start + words.end)
    })
}
