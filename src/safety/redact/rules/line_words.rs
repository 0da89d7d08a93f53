//! The words of a line, which say how what follows them is read.

use super::line_prefix::readings;
use super::rows::last_line;
use super::{BACK, KeywordMatch};

/// Whether an assignment after this text is one of a shell's `export`.
pub(super) fn is_exported(before: &[u8]) -> bool {
    let line = before
        .rsplit(|b| b"\n;&".contains(b))
        .next()
        .unwrap_or_default();
    line_words(line).any(|word| matches!(word, b"export" | b"setenv"))
}

/// Returns the words of a line, and the first ones without what a program has printed before the line.
pub(super) fn line_words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let first = readings(line)
        .skip(1)
        .filter_map(|rest| rest.split(u8::is_ascii_whitespace).next());
    // A command in quotes, or in a string of JSON.
    let unquoted = |word| match memchr::memrchr3(b'"', b'\'', b'`', word) {
        Some(quote) => &word[quote + 1..],
        None => last_line(word),
    };
    let words = line.split(u8::is_ascii_whitespace).map(unquoted);
    words.chain(first)
}

/// Whether the keyword is in an entry of a netrc file, which may extend over several lines.
pub(super) fn is_netrc(place: &KeywordMatch<'_>) -> bool {
    let before = String::from_utf8_lossy(place.before()).to_ascii_lowercase();
    if memchr::memmem::find(before.as_bytes(), b"login").is_none() {
        return false;
    }
    let lines = || before.as_bytes().split(|&b| b == b'\n');
    let has = |name: &str| {
        lines()
            .flat_map(line_words)
            .any(|word| word == name.as_bytes())
    };
    if has("login") && (has("machine") || has("default")) {
        return true;
    }
    // The line with the machine may be too far away, after the paths that grep prints before each line.
    let mut last = lines().rev();
    let is_login = |line: &[u8]| {
        let words = line.split(u8::is_ascii_whitespace);
        line.starts_with(b"login ") && words.filter(|word| !word.is_empty()).count() == 2
    };
    let is_start = |line: &[u8]| readings(line).any(<[u8]>::is_empty);
    last.next().is_some_and(is_start)
        && last.next().is_some_and(|line| readings(line).any(is_login))
}

/// Returns where the last line begins to print something, which a command after a pipe may take as a secret; the end of the
/// text if it does not.
pub(super) fn piped_from(text: &[u8]) -> usize {
    let last = &text[text.len().saturating_sub(BACK)..];
    let line = &last[memchr::memrchr(b'\n', last).map_or(0, |at| at + 1)..];
    let words = ["echo", "print"].iter();
    let found = words.filter_map(|word| memchr::memmem::find(line, word.as_bytes()));
    found
        .min()
        .map_or(text.len(), |at| text.len() - line.len() + at)
}
