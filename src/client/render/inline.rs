//! Spans: emphasis, code, links, entities, escapes and hard breaks, decided as early as the text allows.
//!
//! Only what is undecided waits, and only within a window counted from the marker, so that the result never depends
//! on how the text was cut into frames. A `**` at the start of a word is believed at once. Every other opener waits for
//! its closer: found, it is markup; the block ends without one, it is text; the window ends without one, it is
//! believed.

use super::entity;
use super::look::{self, Link, Look, MAX_RUN, run_len};
use super::style::Style;
use super::wrap::Wrap;

/// More open emphasis than this is text.
const MAX_OPEN: usize = 16;
/// Links and images within links.
const MAX_DEPTH: usize = 3;

/// The spans of one block.
#[derive(Default)]
pub(super) struct Inline {
    /// The undecided end of what has come.
    pending: String,
    base: Style,
    /// Open emphasis: marker and its length.
    open: Vec<(u8, usize)>,
    /// The length of the backtick run that closes the open code span, or 0.
    code: usize,
    /// The character before the text at hand.
    prev: Option<char>,
    depth: usize,
    heading: bool,
    /// The marker of a run that is too long to mean anything and may go on.
    run_on: Option<u8>,
}

impl Inline {
    /// Starts a block whose text has this style.
    pub(super) fn start(&mut self, base: Style, heading: bool) {
        *self = Self {
            base,
            heading,
            pending: std::mem::take(&mut self.pending),
            ..Self::default()
        };
        self.pending.clear();
    }

    /// Takes more text of the block; `\n` is a line break inside it.
    pub(super) fn push(&mut self, text: &str, wrap: &mut Wrap, out: &mut Vec<u8>) {
        if self.pending.is_empty() {
            let done = self.run(text, false, wrap, out);
            self.pending.push_str(&text[done..]);
        } else {
            let mut pending = std::mem::take(&mut self.pending);
            pending.push_str(text);
            let done = self.run(&pending, false, wrap, out);
            pending.drain(..done);
            self.pending = pending;
        }
    }

    /// The block is over: what was undecided is text.
    pub(super) fn end(&mut self, wrap: &mut Wrap, out: &mut Vec<u8>) {
        let pending = std::mem::take(&mut self.pending);
        self.run(&pending, true, wrap, out);
        self.start(Style::PLAIN, false);
        wrap.set_style(Style::PLAIN);
    }

    fn style(&self) -> Style {
        let mut style = self.base;
        for (marker, len) in &self.open {
            style = style
                | match (marker, len) {
                    (b'~', _) => Style::STRIKE,
                    (_, 2) => Style::BOLD,
                    _ => Style::ITALIC,
                };
        }
        if self.code > 0 {
            style | Style::CYAN
        } else {
            style
        }
    }

    fn emit(&self, text: &str, wrap: &mut Wrap, out: &mut Vec<u8>) {
        if !text.is_empty() {
            wrap.set_style(self.style());
            wrap.text(text, self.code > 0, out);
        }
    }

    /// Renders what can be decided and says how many bytes that was.
    fn run(&mut self, s: &str, eof: bool, wrap: &mut Wrap, out: &mut Vec<u8>) -> usize {
        let b = s.as_bytes();
        // `text..at` is decided to be text, but not written yet.
        let text_start = b.iter().take_while(|c| self.run_on == Some(**c)).count();
        if text_start < b.len() {
            self.run_on = None;
        }
        let (mut text, mut at) = (0, text_start);
        let waits = loop {
            at += b[at..]
                .iter()
                .take_while(|c| !SPECIAL[usize::from(**c)])
                .count();
            let Some(&c) = b.get(at) else { break false };
            let last = at + 1 == b.len();
            let run = run_len(&b[at..]);
            if run > MAX_RUN && c != b'\n' {
                at += run;
                self.run_on = (at == b.len()).then_some(c);
                continue;
            }
            if self.code > 0 && c != b'`' && c != b'\n' {
                at += 1;
                continue;
            }
            match c {
                b'\\' if last && !eof => break true,
                b'\\' if !last && b[at + 1].is_ascii_punctuation() => {
                    self.emit(&s[text..at], wrap, out);
                    text = at + 1;
                    at += 2;
                }
                b'\\' if !last && b[at + 1] == b'\n' => {
                    self.emit(&s[text..at], wrap, out);
                    wrap.newline(out);
                    at += 2;
                    text = at;
                }
                b'\n' => {
                    self.emit(&s[text..at], wrap, out);
                    if wrap.gap_seen() >= 2 && self.code == 0 {
                        wrap.newline(out);
                    } else {
                        wrap.space(false);
                    }
                    at += 1;
                    text = at;
                }
                b'`' => {
                    let after = at + run;
                    if after == b.len() && !eof {
                        break true;
                    }
                    if self.code > 0 {
                        if run == self.code {
                            self.emit(&s[text..at], wrap, out);
                            self.code_mark(wrap, out);
                            self.code = 0;
                            text = after;
                        }
                        at = after;
                        continue;
                    }
                    match look::code_end(&s[after..], run, eof) {
                        Look::Wait => break true,
                        Look::None => at = after,
                        Look::Far => {
                            self.emit(&s[text..at], wrap, out);
                            self.code = run;
                            self.code_mark(wrap, out);
                            at = after;
                            text = at;
                        }
                        Look::Found(len) => {
                            self.emit(&s[text..at], wrap, out);
                            self.code = run;
                            self.code_mark(wrap, out);
                            self.emit(look::strip_code(&s[after..after + len]), wrap, out);
                            self.code_mark(wrap, out);
                            self.code = 0;
                            at = after + len + run;
                            text = at;
                        }
                    }
                }
                b'*' | b'_' | b'~' => {
                    if at + run == b.len() && !eof {
                        break true;
                    }
                    let prev = s[..at].chars().next_back().or(self.prev);
                    match self.delimiters(&s[at..], run, prev, eof) {
                        Look::Wait => break true,
                        Look::None | Look::Far => at += run,
                        Look::Found((open, left)) => {
                            // The state changes after the text before it is out.
                            self.emit(&s[text..at], wrap, out);
                            self.strike_mark(&open, wrap, out);
                            self.open = open;
                            at += run;
                            text = at - left;
                        }
                    }
                }
                b'!' if last && !eof => break true,
                b'!' if !last && b[at + 1] == b'[' => match self.link(&s[at + 1..], eof) {
                    Look::Wait => break true,
                    Look::None | Look::Far => at += 2,
                    Look::Found(link) => {
                        self.emit(&s[text..at], wrap, out);
                        self.show_link(&link, wrap, out);
                        at += 1 + link.len;
                        text = at;
                    }
                },
                b'[' => match self.link(&s[at..], eof) {
                    Look::Wait => break true,
                    Look::None | Look::Far => at += 1,
                    Look::Found(link) => {
                        self.emit(&s[text..at], wrap, out);
                        self.show_link(&link, wrap, out);
                        at += link.len;
                        text = at;
                    }
                },
                b'<' => match look::autolink(&s[at..], eof) {
                    Look::Wait => break true,
                    Look::None | Look::Far => at += 1,
                    Look::Found(url) => {
                        self.emit(&s[text..at], wrap, out);
                        wrap.set_style(self.style() | Style::UNDERLINE);
                        wrap.text(url, false, out);
                        at += url.len() + 2;
                        text = at;
                    }
                },
                b'&' => match entity::decode(&s[at..], eof) {
                    entity::Entity::Wait => break true,
                    entity::Entity::None => at += 1,
                    entity::Entity::Char(c, len) => {
                        self.emit(&s[text..at], wrap, out);
                        self.emit(c.encode_utf8(&mut [0; 4]), wrap, out);
                        at += len;
                        text = at;
                    }
                },
                // The closing hashes of a heading are not shown.
                b'#' if self.heading && self.depth == 0 => {
                    let blank = b[at + run..].iter().take_while(|c| **c == b' ').count();
                    let before = s[..at].chars().next_back().or(self.prev);
                    if before.is_none_or(|c| c == ' ')
                        && at + run + blank == b.len()
                        && blank <= MAX_RUN
                    {
                        if !eof {
                            break true;
                        }
                        self.emit(&s[text..at], wrap, out);
                        at = b.len();
                        text = at;
                    } else {
                        at += run;
                    }
                }
                _ => at += 1,
            }
        };
        self.emit(&s[text..at], wrap, out);
        debug_assert!(!(waits && eof), "nothing can wait at the end");
        if let Some(c) = s[..at].chars().next_back() {
            self.prev = Some(c);
        }
        at
    }

    /// Without colour, code keeps its backticks.
    fn code_mark(&self, wrap: &mut Wrap, out: &mut Vec<u8>) {
        if !wrap.color() {
            wrap.text("`", false, out);
        }
    }

    /// Without colour, struck text keeps its tildes, or it would say the opposite.
    fn strike_mark(&self, then: &[(u8, usize)], wrap: &mut Wrap, out: &mut Vec<u8>) {
        let struck = |open: &[(u8, usize)]| open.iter().any(|(marker, _)| *marker == b'~');
        if !wrap.color() && struck(&self.open) != struck(then) {
            wrap.text("~~", false, out);
        }
    }

    /// What the run of markers at the start of `s` does to the open emphasis, and how many of them are text.
    fn delimiters(
        &self,
        s: &str,
        run: usize,
        prev: Option<char>,
        eof: bool,
    ) -> Look<(Vec<(u8, usize)>, usize)> {
        let marker = s.as_bytes()[0];
        if run > 3 || (marker == b'~' && run != 2) {
            return Look::None;
        }
        let (opens, closes) = look::flanks(marker, prev, s[run..].chars().next());
        let mut open = self.open.clone();
        let mut left = run;
        if closes {
            while let Some(at) = open
                .iter()
                .rposition(|(m, len)| *m == marker && *len <= left)
            {
                left -= open[at].1;
                open.truncate(at);
            }
        }
        if left < run {
            return Look::Found((open, left));
        }
        if !opens || open.len() >= MAX_OPEN {
            return Look::None;
        }
        // `**` at the start of a word opens; in `f(**args)` it need not.
        let starts_word = prev.is_none_or(char::is_whitespace);
        if !(marker == b'*' && run >= 2 && starts_word) {
            match look::emphasis_end(&s[run..], marker, run, eof) {
                Look::Found(()) => {}
                Look::Far if !closes => {}
                Look::Far | Look::None => return Look::None,
                Look::Wait => return Look::Wait,
            }
        }
        if run >= 2 {
            open.push((marker, 2));
        }
        if run != 2 {
            open.push((marker, 1));
        }
        Look::Found((open, 0))
    }

    /// The link at the start of `s`, which is a `[`.
    fn link<'a>(&self, s: &'a str, eof: bool) -> Look<Link<'a>> {
        if self.depth >= MAX_DEPTH {
            Look::None
        } else {
            look::link(s, eof)
        }
    }

    fn show_link(&mut self, link: &Link<'_>, wrap: &mut Wrap, out: &mut Vec<u8>) {
        let mut inner = Self {
            base: self.style() | Style::UNDERLINE,
            depth: self.depth + 1,
            ..Self::default()
        };
        inner.run(link.text, true, wrap, out);
        let url = link.url.strip_prefix("mailto:").unwrap_or(link.url);
        if !url.is_empty() && url != link.text {
            wrap.set_style(self.style());
            if !link.text.is_empty() {
                wrap.space(false);
            }
            wrap.set_style(self.style() | Style::DIM);
            wrap.text("(", false, out);
            wrap.text(url, false, out);
            wrap.text(")", false, out);
        }
    }
}

/// The characters that may mean something.
static SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let marks = b"\\*_~`[!<&#\n";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
};
