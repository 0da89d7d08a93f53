//! Looking ahead for what closes a span. Pure; says when the text to come decides.
//!
//! Every search has a window counted from the marker. What it finds inside does not depend on how much more text has
//! come, so that frames cut anywhere give the same answer.

/// How far the closer of emphasis or code is looked for.
const WINDOW: usize = 256;
/// How far the end of a link is looked for.
const LINK_WINDOW: usize = 1024;
/// A longer run of one marker is text.
pub(super) const MAX_RUN: usize = 32;
/// What looking ahead has shown.
pub(super) enum Look<T> {
    Found(T),
    /// There is none.
    None,
    /// None within the window.
    Far,
    /// The text to come decides.
    Wait,
}

/// How often the first byte is repeated.
pub(super) fn run_len(b: &[u8]) -> usize {
    b.iter().take_while(|c| Some(*c) == b.first()).count()
}

/// Whether a run of markers between these characters can open and can close emphasis.
///
/// The rules of CommonMark, but only ASCII punctuation counts: with theirs, `**「…」**` in Chinese or Japanese text
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

/// Looks for a run of exactly `run` backticks and returns its distance.
pub(super) fn code_end(s: &str, run: usize, eof: bool) -> Look<usize> {
    let b = s.as_bytes();
    let mut at = 0;
    while at < b.len().min(WINDOW) {
        if b[at] != b'`' {
            at += 1;
            continue;
        }
        let found = run_len(&b[at..]);
        if at + found == b.len() && !eof && found <= run {
            return Look::Wait;
        }
        if found == run {
            return Look::Found(at);
        }
        at += found;
    }
    match (at >= WINDOW, eof) {
        (true, _) => Look::Far,
        (false, true) => Look::None,
        (false, false) => Look::Wait,
    }
}

/// One space on each side serves to keep a backtick apart from the markers.
pub(super) fn strip_code(code: &str) -> &str {
    match code.strip_prefix(' ').and_then(|c| c.strip_suffix(' ')) {
        Some(inner) if !inner.trim().is_empty() => inner,
        _ => code,
    }
}

/// Looks for a run that closes emphasis opened by `run` markers.
pub(super) fn emphasis_end(s: &str, marker: u8, run: usize, eof: bool) -> Look<()> {
    let b = s.as_bytes();
    let mut at = 0;
    while at < b.len().min(WINDOW) {
        match b[at] {
            b'\\' => at += 2,
            b'`' => {
                let ticks = run_len(&b[at..]);
                if at + ticks == b.len() && !eof {
                    return Look::Wait;
                }
                at += ticks;
                match code_end(&s[at..], ticks, eof) {
                    Look::Found(len) => at += len + ticks,
                    Look::Wait => return Look::Wait,
                    Look::None | Look::Far => {}
                }
            }
            c if c == marker => {
                let found = run_len(&b[at..]);
                if found > MAX_RUN {
                    at += found;
                    continue;
                }
                if at + found == b.len() && !eof {
                    return Look::Wait;
                }
                let (_, closes) = flanks(
                    marker,
                    s[..at].chars().next_back(),
                    s[at + found..].chars().next(),
                );
                if closes && (found == run || found == 3 || run == 3) {
                    return Look::Found(());
                }
                at += found;
            }
            _ => at += 1,
        }
    }
    match (at >= WINDOW, eof) {
        (true, _) => Look::Far,
        (false, true) => Look::None,
        (false, false) => Look::Wait,
    }
}

/// A link or image: what it shows, where it leads, how many bytes it takes.
pub(super) struct Link<'a> {
    pub(super) text: &'a str,
    pub(super) url: &'a str,
    pub(super) len: usize,
}

pub(super) fn link(s: &str, eof: bool) -> Look<Link<'_>> {
    let b = s.as_bytes();
    let wait = |at: usize| {
        if eof {
            Look::None
        } else if at >= LINK_WINDOW {
            Look::Far
        } else {
            Look::Wait
        }
    };
    let (mut at, mut depth) = (1, 1);
    while depth > 0 {
        match b.get(at) {
            None => return wait(at),
            Some(_) if at >= LINK_WINDOW => return Look::Far,
            Some(b'\n') => return Look::None,
            Some(b'\\') => at += 1,
            Some(b'[') if depth == 8 => return Look::None,
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
        Some(_) => return Look::None,
    }
    at += b[at..].iter().take_while(|c| **c == b' ').count();
    let angle = b.get(at) == Some(&b'<');
    let start = at + usize::from(angle);
    let (mut end, mut depth) = (start, 0);
    loop {
        match b.get(end) {
            None => return wait(end),
            Some(_) if end >= LINK_WINDOW => return Look::Far,
            Some(b'\n') => return Look::None,
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
                Some(_) if at >= LINK_WINDOW => return Look::Far,
                Some(b'\n') => return Look::None,
                Some(c) if c == quote => break,
                Some(_) => at += 1,
            }
        }
        at += 1;
        at += b[at..].iter().take_while(|c| **c == b' ').count();
    }
    match b.get(at) {
        None => wait(at),
        Some(_) if at >= LINK_WINDOW => Look::Far,
        Some(b')') => Look::Found(Link {
            text,
            url: &s[start..end],
            len: at + 1,
        }),
        Some(_) => Look::None,
    }
}

/// The address in `<https://…>`, which is the only HTML-like thing that is not shown as it is.
pub(super) fn autolink(s: &str, eof: bool) -> Look<&str> {
    let inner = &s[1..];
    let schemes = ["https://", "http://", "mailto:"];
    if !schemes.iter().any(|scheme| inner.starts_with(scheme)) {
        let may = !eof && schemes.iter().any(|scheme| scheme.starts_with(inner));
        return if may { Look::Wait } else { Look::None };
    }
    match inner
        .bytes()
        .position(|c| c == b'>' || c == b'<' || c.is_ascii_whitespace())
    {
        Some(at) if at >= LINK_WINDOW => Look::Far,
        Some(at) if inner.as_bytes()[at] == b'>' => Look::Found(&inner[..at]),
        Some(_) => Look::None,
        None if inner.len() >= LINK_WINDOW => Look::Far,
        None if eof => Look::None,
        None => Look::Wait,
    }
}
