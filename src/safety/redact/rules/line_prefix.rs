//! Prefixes that programs print before the lines of a file: `path:12:` and `path-12-` of grep, the signs of a diff, the numbers of
//! `cat -n`, the signs of comments and quotations, the borders of boxes, the time and the name of a service in a log.

use super::run_length;

/// Maximum number of prefixes before one line: a diff that grep has found, of a comment, has four.
const MAX_PREFIXES: usize = 6;

/// Returns the line without its indentation, then without one prefix after the other: what looks like a prefix may belong to the line.
pub(super) fn readings(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut rest, mut has_path) = (Some(line.trim_ascii_start()), false);
    let next = move || {
        let line = rest?;
        #[cfg(test)]
        crate::safety::redact::tests::INSPECTED.with(|n| n.set(n.get() + line.len()));
        rest = without_prefix(line, &mut has_path);
        Some(line)
    };
    std::iter::from_fn(next).take(1 + MAX_PREFIXES)
}

/// Returns the line without one prefix; `has_path` says whether there was a path already.
fn without_prefix<'l>(line: &'l [u8], has_path: &mut bool) -> Option<&'l [u8]> {
    let mut length = match time(line) {
        0 => signs(line)
            .max(number(line))
            .max(service(line))
            .max(container(line))
            .max(job_step(line)),
        length => length,
    };
    if length == 0 && !*has_path {
        length = numbered_path(line).unwrap_or_else(|| path(line));
        *has_path = true;
    }
    let rest = line.get(length..).filter(|_| length > 0);
    rest.map(<[u8]>::trim_ascii_start)
}

/// `+`, `-`, `> `, `# `, `// `, `│ `
fn signs(text: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let signs = run_length(text, at, |b| b"+-<>#|*;!%/\"'`\\".contains(&b));
        let length = signs + border(&text[at + signs..]);
        if length == 0 {
            return at;
        }
        at += length;
    }
}

/// Returns the length of a sign of a box, such as `│`, or of the mark of UTF-8 at the start of a text.
pub(super) fn border(text: &[u8]) -> usize {
    match text {
        [0xe2, 0x94 | 0x95, _, ..] | [0xef, 0xbb, 0xbf, ..] => 3,
        _ => 0,
    }
}

/// `2026-11-27T10:00:00.000Z`, `2026-11-27 10:00:00,123`, `[10:00:00]`, `Nov 27 10:00:00 host`
fn time(text: &[u8]) -> usize {
    let bracket = usize::from(text.first() == Some(&b'['));
    let word = |at: usize| run_length(text, at, |b| b.is_ascii_digit() || b":.,-+/TZ".contains(&b));
    let blank = |at: usize| usize::from(text.get(at) == Some(&b' '));
    let is_month = run_length(text, bracket, |b| b.is_ascii_alphabetic()) == 3;
    let mut at = bracket;
    if is_month {
        // A day below 10 has two blanks before it.
        at += 3 + blank(at + 3);
        at += blank(at);
    }
    let date = word(at);
    let has_date = is_month
        || text[at..at + date]
            .iter()
            .filter(|b| b"-/".contains(b))
            .count()
            == 2;
    if has_date && (1..=10).contains(&date) && blank(at + date) > 0 {
        at += date + 1;
    }
    let length = word(at);
    let time = &text[at..at + length];
    let colons = time.iter().filter(|&&b| b == b':').count();
    if !(2..=3).contains(&colons) || !time[0].is_ascii_digit() {
        return 0;
    }
    at += length + usize::from(text.get(at + length) == Some(&b']'));
    if is_month && blank(at) > 0 {
        at += 1 + run_length(text, at + 1, |b| !b.is_ascii_whitespace() && b != b':');
    }
    at
}

/// `web-1  | `
fn service(text: &[u8]) -> usize {
    let name = run_length(text, 0, |b| {
        b.is_ascii_alphanumeric() || b"_.-".contains(&b)
    });
    let bar = name + run_length(text, name, |b| b == b' ');
    let has_bar = text.get(bar) == Some(&b'|') && text.get(bar + 1).is_none_or(|&b| b == b' ');
    if name > 0 && has_bar { bar + 1 } else { 0 }
}

/// `[pod/api-7d/app] `
fn container(text: &[u8]) -> usize {
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b"/._-".contains(&b);
    let end = 1 + run_length(text, 1, is_name);
    match text.starts_with(b"[pod/") && text[end..].starts_with(b"] ") {
        true => end + 2,
        false => 0,
    }
}

/// The job and the step of a log of GitHub, each with a tab behind it, before the time of the line.
fn job_step(text: &[u8]) -> usize {
    /// Maximum length of both names.
    const MAX_NAMES: usize = 96;
    let names = &text[..text.len().min(MAX_NAMES)];
    let mut tabs = memchr::memchr_iter(b'\t', names);
    let (Some(_), Some(step)) = (tabs.next(), tabs.next()) else {
        return 0;
    };
    let line = &text[step + 1..];
    match time(&line[border(line)..]) {
        0 => 0,
        _ => step + 1,
    }
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
