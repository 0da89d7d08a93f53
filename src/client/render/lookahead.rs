//! Lookahead for the end of inline spans. Pure; returns `Wait` while more text is needed to decide.
//!
//! Every search is limited to a window counted from the marker, and its result inside the window does not depend on how
//! much text follows. So the result is the same for every way to cut the text into frames.

/// Window in bytes for the end of emphasis and code.
const WINDOW: usize = 256;
/// Window in bytes for the end of a link.
const LINK_WINDOW: usize = 1024;
/// Maximum length of a run of markers; longer runs are text.
pub(super) const MAX_RUN: usize = 32;
/// Result of a lookahead.
pub(super) enum Lookahead<T> {
    Found(T),
    /// Not found in the rest of the block.
    None,
    /// Not found within the window.
    Far,
    /// More text is needed.
    Wait,
}

/// Number of repetitions of the first byte.
pub(super) fn run_len(b: &[u8]) -> usize {
    b.iter().take_while(|c| Some(*c) == b.first()).count()
}

/// Whether a run of markers between `prev` and `next` can open and can close emphasis.
///
/// Follows CommonMark, but counts only ASCII punctuation: with Unicode punctuation, `**「…」**` in Chinese or Japanese text
/// would not close.
pub(super) fn flanks(marker: u8, prev: Option<char>, next: Option<char>) -> (bool, bool) {
    let blank = |c: Option<char>| c.is_none_or(char::is_whitespace);
    let punct = |c: Option<char>| c.is_some_and(|c| c.is_ascii_punctuation());
    let left = !blank(next) && (!punct(next) || blank(prev) || punct(prev));
    let right = !blank(prev) && (!punct(prev) || blank(next) || punct(next));
    if marker == b'_' {
        (
            left && (!right || punct(prev)),
            right && (!left || punct(next)),
        )
    } else {
        (left, right)
    }
}

/// Finds a run of exactly `run` backticks and returns its distance.
pub(super) fn code_end(s: &str, run: usize, eof: bool) -> Lookahead<usize> {
    let b = s.as_bytes();
    let mut at = 0;
    while at < b.len().min(WINDOW) {
        if b[at] != b'`' {
            at += 1;
            continue;
        }
        let found = run_len(&b[at..]);
        if at + found == b.len() && !eof && found <= run {
            return Lookahead::Wait;
        }
        if found == run {
            return Lookahead::Found(at);
        }
        at += found;
    }
    match (at >= WINDOW, eof) {
        (true, _) => Lookahead::Far,
        (false, true) => Lookahead::None,
        (false, false) => Lookahead::Wait,
    }
}

/// Removes one space on each side of code, which separates a backtick in the code from the markers.
pub(super) fn strip_code(code: &str) -> &str {
    match code.strip_prefix(' ').and_then(|c| c.strip_suffix(' ')) {
        Some(inner) if !inner.trim().is_empty() => inner,
        _ => code,
    }
}

/// Finds a run that closes emphasis opened by `run` markers.
pub(super) fn emphasis_end(s: &str, marker: u8, run: usize, eof: bool) -> Lookahead<()> {
    let b = s.as_bytes();
    let mut at = 0;
    while at < b.len().min(WINDOW) {
        match b[at] {
            b'\\' => at += 2,
            b'`' => {
                let ticks = run_len(&b[at..]);
                if at + ticks == b.len() && !eof {
                    return Lookahead::Wait;
                }
                at += ticks;
                match code_end(&s[at..], ticks, eof) {
                    Lookahead::Found(len) => at += len + ticks,
                    Lookahead::Wait => return Lookahead::Wait,
                    Lookahead::None | Lookahead::Far => {}
                }
            }
            c if c == marker => {
                let found = run_len(&b[at..]);
                if found > MAX_RUN {
                    at += found;
                    continue;
                }
                if at + found == b.len() && !eof {
                    return Lookahead::Wait;
                }
                let (_, closes) = flanks(
                    marker,
                    s[..at].chars().next_back(),
                    s[at + found..].chars().next(),
                );
                if closes && (found == run || found == 3 || run == 3) {
                    return Lookahead::Found(());
                }
                at += found;
            }
            _ => at += 1,
        }
    }
    match (at >= WINDOW, eof) {
        (true, _) => Lookahead::Far,
        (false, true) => Lookahead::None,
        (false, false) => Lookahead::Wait,
    }
}

/// A link or image: its text, its URL and its length in bytes.
pub(super) struct MarkdownLink<'a> {
    pub(super) text: &'a str,
    pub(super) url: &'a str,
    pub(super) len: usize,
}

pub(super) fn link(s: &str, eof: bool) -> Lookahead<MarkdownLink<'_>> {
    let b = s.as_bytes();
    let wait = |at: usize| {
        if eof {
            Lookahead::None
        } else if at >= LINK_WINDOW {
            Lookahead::Far
        } else {
            Lookahead::Wait
        }
    };
    let (mut at, mut depth) = (1, 1);
    while depth > 0 {
        match b.get(at) {
            None => return wait(at),
            Some(_) if at >= LINK_WINDOW => return Lookahead::Far,
            Some(b'\n') => return Lookahead::None,
            Some(b'\\') => at += 1,
            Some(b'[') if depth == 8 => return Lookahead::None,
            Some(b'[') => depth += 1,
            Some(b']') => depth -= 1,
            Some(_) => {}
        }
        at += 1;
    }
    let text = &s[1..at - 1];
    match b.get(at) {
        None => return wait(at),
        Some(b'(') => at += 1,
        Some(_) => return Lookahead::None,
    }
    at += b[at..].iter().take_while(|c| **c == b' ').count();
    let angle = b.get(at) == Some(&b'<');
    let start = at + usize::from(angle);
    let (mut end, mut depth) = (start, 0);
    loop {
        match b.get(end) {
            None => return wait(end),
            Some(_) if end >= LINK_WINDOW => return Lookahead::Far,
            Some(b'\n') => return Lookahead::None,
            Some(b'>') if angle => break,
            Some(_) if angle => {}
            Some(b' ') => break,
            Some(b')') if depth == 0 => break,
            Some(b')') => depth -= 1,
            Some(b'(') => depth += 1,
            Some(_) => {}
        }
        end += 1;
    }
    at = end + usize::from(angle);
    at += b[at..].iter().take_while(|c| **c == b' ').count();
    if let Some(quote @ (b'"' | b'\'')) = b.get(at) {
        at += 1;
        loop {
            match b.get(at) {
                None => return wait(at),
                Some(_) if at >= LINK_WINDOW => return Lookahead::Far,
                Some(b'\n') => return Lookahead::None,
                Some(c) if c == quote => break,
                Some(_) => at += 1,
            }
        }
        at += 1;
        at += b[at..].iter().take_while(|c| **c == b' ').count();
    }
    match b.get(at) {
        None => wait(at),
        Some(_) if at >= LINK_WINDOW => Lookahead::Far,
        Some(b')') => Lookahead::Found(MarkdownLink {
            text,
            url: &s[start..end],
            len: at + 1,
        }),
        Some(_) => Lookahead::None,
    }
}

/// Finds `closer` and returns its distance. It may be anywhere in the block.
pub(super) fn literal_end(s: &str, closer: &str, eof: bool) -> Lookahead<usize> {
    let searched = s.as_bytes();
    let searched = &searched[..searched.len().min(LINK_WINDOW)];
    let found = searched
        .windows(closer.len())
        .position(|w| w == closer.as_bytes());
    match found {
        Some(at) => Lookahead::Found(at),
        None if s.len() >= LINK_WINDOW => Lookahead::Far,
        None if eof => Lookahead::None,
        None => Lookahead::Wait,
    }
}

/// Matches one of `names` at the start of `s`; returns its index.
pub(super) fn one_of(s: &str, names: &[&str], eof: bool) -> Lookahead<usize> {
    match names.iter().position(|name| s.starts_with(name)) {
        Some(at) => Lookahead::Found(at),
        None if !eof && names.iter().any(|name| name.starts_with(s)) => Lookahead::Wait,
        None => Lookahead::None,
    }
}

/// Matches `<https://…>`. Of other HTML, only line breaks and keys are not shown literally.
pub(super) fn autolink(s: &str, eof: bool) -> Lookahead<&str> {
    let inner = &s[1..];
    let schemes = ["https://", "http://", "mailto:"];
    if !schemes.iter().any(|scheme| inner.starts_with(scheme)) {
        let may = !eof && schemes.iter().any(|scheme| scheme.starts_with(inner));
        return if may {
            Lookahead::Wait
        } else {
            Lookahead::None
        };
    }
    match inner
        .bytes()
        .position(|c| c == b'>' || c == b'<' || c.is_ascii_whitespace())
    {
        Some(at) if at >= LINK_WINDOW => Lookahead::Far,
        Some(at) if inner.as_bytes()[at] == b'>' => Lookahead::Found(&inner[..at]),
        Some(_) => Lookahead::None,
        None if inner.len() >= LINK_WINDOW => Lookahead::Far,
        None if eof => Lookahead::None,
        None => Lookahead::Wait,
    }
}
