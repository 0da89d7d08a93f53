//! Prefixes that programs print before the lines of a file: `path:12:` and `path-12-` of grep, the signs of a diff, the numbers of
//! `cat -n`, and the signs of comments and quotations.

use super::run_length;

/// Maximum number of prefixes before one line: a diff that grep has found, of a comment, has four.
const MAX_PREFIXES: usize = 5;

/// Returns the line without its indentation, then without one prefix after the other: what looks like a prefix may belong to the line.
pub(super) fn readings(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut has_path) = (Some(line.trim_ascii_start()), false);
    let next = move || {
        let line = rest?;
        rest = without_prefix(line, &mut has_path);
        Some(line)
    };
    std::iter::from_fn(next).take(1 + MAX_PREFIXES)
}

/// Returns the line without one prefix; `has_path` says whether there was a path already.
fn without_prefix<'l>(line: &'l [u8], has_path: &mut bool) -> Option<&'l [u8]> {
    let mut length = signs(line).max(number(line));
    if length == 0 && !*has_path {
        length = numbered_path(line).unwrap_or_else(|| path(line));
        *has_path = true;
    }
    let rest = line.get(length..).filter(|_| length > 0);
    rest.map(<[u8]>::trim_ascii_start)
}

/// `+`, `-`, `> `, `# `, `// `
fn signs(text: &[u8]) -> usize {
    run_length(text, 0, |b| b"+-<>#|*;!%/\"'`\\".contains(&b))
}

/// `12:`, `12-`, `12 |`, and a tab as the separator.
fn number(text: &[u8]) -> usize {
    let digits = run_length(text, 0, |b| b.is_ascii_digit());
    match text.get(digits) {
        Some(b':' | b'-' | b'|' | b'.' | b')' | b'\t' | b' ') if digits > 0 => digits + 1,
        _ => 0,
    }
}

/// `path:12:` and `path-12-`
fn numbered_path(text: &[u8]) -> Option<usize> {
    // A path may contain hyphens, which also follow the path of a line around the one that was found.
    let colon = text.iter().position(|&b| b == b':');
    let word = run_length(text, 0, |b| !b.is_ascii_whitespace());
    let hyphens = memchr::memchr_iter(b'-', &text[..word]);
    colon.into_iter().chain(hyphens).find_map(|at| {
        let digits = run_length(text, at + 1, |b| b.is_ascii_digit());
        let end = at + 1 + digits;
        (at > 0 && digits > 0 && text.get(end) == text.get(at)).then_some(end + 1)
    })
}

/// `path:`
fn path(text: &[u8]) -> usize {
    let length = run_length(text, 0, |b| b != b':' && !b.is_ascii_whitespace());
    match text.get(length) {
        Some(b':') if length > 0 => length + 1,
        _ => 0,
    }
}
