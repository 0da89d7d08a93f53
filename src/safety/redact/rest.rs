//! The rest of a secret that was broken: a line end, a hidden character or an end of emphasis within it.

use super::rules::run_length;
use super::{RULES, value_class};

/// Shortest rest of a secret in the next line.
const MIN_REST: usize = 16;
/// Shortest rest of a secret in the same word.
const MIN_END: usize = 4;
/// Paths have as many slashes.
const PATH: usize = 3;

/// Where a text stands that may be the rest of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestPlace {
    /// Directly behind its beginning.
    SameWord,
    /// At the start of the next line.
    NextLine,
    /// At the start of a line behind a rest of the secret.
    LaterLine,
}

/// Whether a byte is a part of keys.
pub(super) fn is_key_sign(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_+/.~".contains(&b)
}

/// Returns the length of the rest of a secret at the start of a text, with marks of Markdown before it; 0 if it does not look like one.
pub fn rest_of_secret(text: &[u8], place: RestPlace) -> usize {
    let marks = run_length(text, 0, |b| b"*`\\".contains(&b));
    match length_of_rest(&text[marks..], place) {
        0 => 0,
        length => marks + length,
    }
}

fn length_of_rest(text: &[u8], place: RestPlace) -> usize {
    let signs = run_length(text, 0, is_key_sign);
    let padding = run_length(&text[signs..], 0, |b| b == b'=');
    let length = signs + padding;
    let word = &text[..signs];
    let count = |class: fn(&u8) -> bool| word.iter().filter(|b| class(b)).count();
    // The name of a value; the next secret.
    let is_name = padding > 0 && text.get(length).is_some_and(|b| !b.is_ascii_whitespace());
    if is_name || RULES.at(text, 0, false).is_some() {
        return 0;
    }
    let is_path = count(|b| *b == b'/') >= PATH;
    let is_rest = match place {
        RestPlace::SameWord => {
            count(u8::is_ascii_alphanumeric) >= MIN_END
                && (word[0].is_ascii_alphanumeric() || value_class::is_random(word))
        }
        _ if is_path || value_class::is_identifier(word) => false,
        RestPlace::NextLine => length >= MIN_REST && count(u8::is_ascii_alphabetic) >= 2,
        RestPlace::LaterLine => length >= MIN_REST || is_line(text, length),
    };
    if is_rest { length } else { 0 }
}

/// Whether a text has one line, of this length.
fn is_line(text: &[u8], length: usize) -> bool {
    let rest = text.get(length..).unwrap_or_default();
    rest.iter()
        .find(|b| !b" \t\r".contains(b))
        .is_none_or(|b| *b == b'\n')
}
