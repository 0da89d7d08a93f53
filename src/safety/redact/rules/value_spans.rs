//! Where an assigned value begins and ends: between quotes, or with the signs that a password has without them.

use super::super::stage::ByteClass;
use super::super::value_class::{
    closes_brackets, has_both_cases, is_code_word, is_identifier, is_made_of_words,
    mixes_characters,
};
use super::byte_classes::{entity_length, is_quote, is_space, quotes_length};
use super::line_prefix::readings;
use super::rows::{begins_assignment, last_line, line_end};
use super::{BACK, SecretSpan, run_length};
use crate::safety::percent::code_at;

/// Maximum number of quotes before a value, with their backslashes: three in a string within a string.
const MAX_QUOTES: usize = 24;

/// Maximum length of a value with signs that usually end one.
const MAX_SIGNS: usize = 120;

pub(super) fn is_quoted_byte(b: u8) -> bool {
    is_word_byte(b) && !is_quote(b) && !matches!(b, b'<' | b'>')
}

fn is_unquoted_byte(b: u8) -> bool {
    let is_end = matches!(
        b,
        b',' | b';' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'|' | b'&'
    );
    is_quoted_byte(b) && !is_end
}

fn is_word_byte(b: u8) -> bool {
    b.is_ascii_graphic() || b >= 0x80
}

/// The place of a value.
#[derive(Clone, Copy)]
pub(super) struct ValuePlace<'t> {
    pub text: &'t [u8],
    /// First position that may be inspected.
    pub from: usize,
    /// Where the name of the value begins.
    pub name: usize,
    /// Where the value begins, with its quotes.
    pub at: usize,
    pub is_password: bool,
    /// The name says that this is the value, whatever its form.
    pub is_exact: bool,
}

impl ValuePlace<'_> {
    /// Returns the value without its quotes; `None` for a phrase or, unless it is exact, a function call.
    pub(super) fn value(&self) -> Option<SecretSpan> {
        let ValuePlace { text, at, .. } = *self;
        let quotes = quotes_length(text, at);
        if quotes > MAX_QUOTES {
            return None;
        }
        let start = at + quotes;
        match quotes {
            0 => self.unquoted(),
            _ => closing_quote(text, at, start)
                .filter(|end| is_quoted_secret(&text[start..*end]))
                .map(|end| SecretSpan::new(start, end))
                .or_else(|| quoted(text, at, start)),
        }
    }

    /// Whether the name begins its line and the value, which ends at `end`, is the last word of its line but for a comment.
    pub(super) fn is_line(&self, end: usize) -> bool {
        let rest = self.text.get(end..).unwrap_or_default();
        let comment = run_length(rest, 0, is_space);
        let is_end = match rest.get(comment) {
            None | Some(b'\n' | b'\r') => comment == 0,
            sign => {
                comment > 0
                    && matches!(sign, Some(b'#' | b';'))
                    && rest.get(comment + 1) == Some(&b' ')
            }
        };
        let begins = |line: &[u8]| {
            let word = line.trim_ascii_end();
            word.is_empty() || matches!(word, b"export" | b"ENV" | b"set")
        };
        is_end && readings(last_line(&self.text[self.from..self.name])).any(begins)
    }

    /// Returns a value without quotes.
    fn unquoted(&self) -> Option<SecretSpan> {
        let ValuePlace { text, at, .. } = *self;
        let mut end = run_with_codes(text, at, is_unquoted_byte);
        let length = run_length(&text[..text.len().min(at + MAX_SIGNS)], at, is_word_byte);
        let word_end = at + length;
        if end < word_end {
            let is_bracket = b"([{".contains(&text[end]);
            let is_free = self.is_password || self.is_line(word_end);
            let signs = match is_free && !is_expression(&text[at..word_end]) {
                // Connection strings end a key with these, also one at the end of a line.
                true if !self.is_password && !self.is_variable() => b"&()[]{}|<>\"'`\\".as_slice(),
                true => b"&;,|()[]{}<>\"'`\\",
                // A variable, and what follows it.
                false if text[at] == b'$' => b"",
                false if self.is_password && self.is_exact => b"&;,|()[]{}",
                false if self.is_password => b"&;,|",
                false => b"",
            };
            if is_bracket && !self.is_exact && !signs.contains(&text[end]) {
                return None;
            }
            end = self.end_with_signs(end, word_end, signs);
        }
        let reaches_end = end == text.len();
        while end > at && b".:?".contains(&text[end - 1]) {
            end -= 1;
        }
        Some(SecretSpan {
            more: reaches_end.then_some(is_unquoted_byte),
            ..SecretSpan::new(at, end)
        })
    }

    /// Whether the name is that of a variable of the environment.
    fn is_variable(&self) -> bool {
        let name = &self.text[self.name..self.at];
        !name.iter().any(u8::is_ascii_lowercase)
    }

    /// Returns where a value with these signs ends whose first sign is at `end`, at the latest at `word_end`. A sign at the end of the
    /// word, before the next name, or of what began before the value, ends it.
    fn end_with_signs(&self, mut end: usize, word_end: usize, signs: &[u8]) -> usize {
        let ValuePlace { text, at, .. } = *self;
        let before = &text[self.from..at];
        let line = last_line(before);
        // The quotes before a part of a line are not known.
        let is_line_known = line.len() < before.len() || self.from == 0 && self.name < BACK;
        let count = |text: &[u8], sign: u8| text.iter().filter(|b| **b == sign).count();
        let is_closed = |end: usize, open: u8, close: u8| {
            let value = &text[at..end];
            count(value, open) > count(value, close) || count(line, open) <= count(line, close)
        };
        // Quotes of a string within a string do not count.
        let is_balanced = |quote: u8| {
            let pairs = line.iter().zip(std::iter::once(&0).chain(line));
            let quotes = pairs.filter(|(b, before)| **b == quote && **before != b'\\');
            is_line_known && quotes.count() % 2 == 0
        };
        while let Some(&sign) = text[..word_end].get(end) {
            let rest = &text[end + 1..word_end];
            let goes_on = match sign {
                b')' => is_closed(end, b'(', b')'),
                b']' => is_closed(end, b'[', b']'),
                b'}' => is_closed(end, b'{', b'}'),
                b'>' => is_closed(end, b'<', b'>'),
                b'<' => !text[..at].ends_with(b">") && !begins_element(rest),
                b'\\' => line_end(text, end) == 0 && is_balanced(b'"'),
                b'"' | b'\'' | b'`' => is_balanced(sign),
                b',' | b';' | b'&' | b'|' => !begins_assignment(rest),
                _ => true,
            };
            let is_followed = rest.iter().any(u8::is_ascii_alphanumeric);
            if !(is_unquoted_byte(sign) || signs.contains(&sign) && goes_on && is_followed) {
                break;
            }
            end += 1;
        }
        end
    }
}

/// Returns the end of the run of a class at `at`, with signs of base64 as JSON may have them.
fn run_with_codes(text: &[u8], at: usize, class: ByteClass) -> usize {
    let mut end = at + run_length(text, at, class);
    while let Some((b'+' | b'/' | b'=', length)) = code_at(text.get(end..).unwrap_or_default(), 0) {
        end += length;
        end += run_length(text, end, class);
    }
    end
}

/// Returns a value without blanks behind the quotes at `at`, up to any quote.
fn quoted(text: &[u8], at: usize, start: usize) -> Option<SecretSpan> {
    let mut end = run_with_codes(text, start, is_quoted_byte);
    let opener = text[at..start].last();
    if opener.is_some_and(|b| !is_quote(*b)) {
        let entity = (start..end).find(|&end| entity_length(&text[end..]) > 0);
        end = entity.unwrap_or(end);
    }
    let is_end = |b: &u8| is_quote(*b) || entity_length(&text[end..]) > 0;
    let is_phrase = text.get(end).is_some_and(|b| !is_end(b));
    (!is_phrase).then(|| SecretSpan::open(text, start, end, is_quoted_byte))
}

/// Returns where the string ends whose quotes are at `at` and whose content begins at `start`: before the same quote, with as many
/// backslashes.
fn closing_quote(text: &[u8], at: usize, start: usize) -> Option<usize> {
    let (quote, before) = text[at..start].split_last()?;
    let backslashes = before.iter().rev().take_while(|b| **b == b'\\').count();
    let is_double = before[..before.len() - backslashes].last() == Some(quote);
    if !b"\"'`".contains(quote) || is_double || !(backslashes + 1).is_power_of_two() {
        return None;
    }
    let text = &text[..text.len().min(start + MAX_SIGNS)];
    let mut end = start;
    while let Some(&byte) = text.get(end) {
        let escapes = run_length(text, end, |b| b == b'\\');
        if byte == b'\n' || byte == b'\r' || escapes > 0 && line_end(text, end) > 0 {
            return None;
        }
        let is_quote = text.get(end + escapes) == Some(quote);
        if is_quote && escapes & (2 * backslashes + 1) <= backslashes {
            // A doubled quote of SQL stands for one.
            if escapes > 0 || text.get(end + 1) != Some(quote) {
                return Some(end + escapes.saturating_sub(backslashes));
            }
            end += 1;
        }
        end += escapes + 1;
    }
    None
}

/// Whether a string with signs that usually end a value is one: not a phrase, and not an expression of a program.
fn is_quoted_secret(value: &[u8]) -> bool {
    let has_signs = value.iter().any(|b| !is_quoted_byte(*b));
    let mut words = value.split(u8::is_ascii_whitespace);
    let is_word = match value.iter().any(u8::is_ascii_whitespace) {
        // What ends a quoted word could also end a string here.
        true => !value.iter().any(|b| is_quote(*b)) && words.all(mixes_characters),
        false => true,
    };
    has_signs && is_word && (!is_expression(value) || is_unlike_code(value))
}

/// Whether a string in quotes is not the text of an expression: its brackets are in no order, and it does not consist of words.
fn is_unlike_code(value: &[u8]) -> bool {
    has_both_cases(value) && !closes_brackets(value) && !is_made_of_words(value)
}

/// Whether the rest of a text behind `<` is that of an element of HTML.
fn begins_element(text: &[u8]) -> bool {
    let name = run_length(text, 0, |b| b.is_ascii_alphanumeric());
    text.starts_with(b"/") || name > 0 && matches!(text.get(name), Some(b'>' | b'/'))
}

/// Whether a word is an expression of a program: words and numbers between signs, or a call with a string.
pub(super) fn is_expression(word: &[u8]) -> bool {
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
    if let Some(bracket) = word.iter().position(|b| b"([{".contains(b))
        && bracket > 0
        && is_identifier(&word[..bracket])
    {
        let prefix = run_length(word, bracket + 1, |b| b"bfrucL&$@".contains(&b)).min(1);
        if word
            .get(bracket + 1 + prefix)
            .copied()
            .is_some_and(is_quote)
        {
            return true;
        }
    }
    let is_unusual = word.iter().any(|b| b"@#^~%".contains(b));
    let mut parts = word.split(|b| !is_name(b)).filter(|part| !part.is_empty());
    !is_unusual && !closes_first(word) && parts.all(is_code_word)
}

/// Whether a bracket is closed within a word that the word does not open.
fn closes_first(word: &[u8]) -> bool {
    let last = word.iter().rposition(u8::is_ascii_alphanumeric);
    let mut open = 0_i32;
    word[..last.unwrap_or(0)].iter().any(|b| {
        open += i32::from(b"([{".contains(b)) - i32::from(b")]}".contains(b));
        open < 0
    })
}
