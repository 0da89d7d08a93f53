//! Inline markup: emphasis, code, links, entities, escapes and hard breaks, rendered as early as the text allows.
//!
//! Only undecided text waits, and only within a window counted from the marker, so that the result never depends on how
//! the text was cut into frames. A `**` at the start of a word opens emphasis immediately. Every other opener waits for its
//! closer: it is markup if the closer is found or the window ends first, and text if the block ends first.

use super::entity;
use super::lookahead::{self, Lookahead, MAX_RUN, MarkdownLink, run_len};
use super::style::TextStyle;
use super::wrap::LineWrapper;

/// Maximum nesting of emphasis; further markers are text.
const MAX_OPEN: usize = 16;
/// Maximum nesting of links and images within links.
const MAX_DEPTH: usize = 3;

/// Inline state of one block.
#[derive(Default)]
pub(super) struct InlineRenderer {
    /// Undecided text.
    pending: String,
    base: TextStyle,
    /// Open emphasis, as marker and run length.
    open: Vec<(u8, usize)>,
    /// Length of the backtick run that closes the open code span, or 0.
    code: usize,
    /// Last character before the next text.
    prev: Option<char>,
    depth: usize,
    heading: bool,
    /// A cell of a table, which has no line breaks.
    pub(super) cell: bool,
    /// Marker of an overlong run, which is text and may continue.
    run_on: Option<u8>,
}

impl InlineRenderer {
    /// Starts a block with the style `base`.
    pub(super) fn start(&mut self, base: TextStyle, heading: bool) {
        *self = Self {
            base,
            heading,
            pending: std::mem::take(&mut self.pending),
            ..Self::default()
        };
        self.pending.clear();
    }

    /// Adds text of the block; `\n` is a line break inside it.
    pub(super) fn push(&mut self, text: &str, wrap: &mut LineWrapper, out: &mut Vec<u8>) {
        if self.pending.is_empty() {
            let done = self.render_decided(text, false, wrap, out);
            self.pending.push_str(&text[done..]);
        } else {
            let mut pending = std::mem::take(&mut self.pending);
            pending.push_str(text);
            let done = self.render_decided(&pending, false, wrap, out);
            pending.drain(..done);
            self.pending = pending;
        }
    }

    /// Ends the block: undecided text becomes plain text.
    pub(super) fn end(&mut self, wrap: &mut LineWrapper, out: &mut Vec<u8>) {
        let pending = std::mem::take(&mut self.pending);
        self.render_decided(&pending, true, wrap, out);
        self.start(TextStyle::PLAIN, false);
        wrap.set_style(TextStyle::PLAIN);
    }

    fn style(&self) -> TextStyle {
        let mut style = self.base;
        for (marker, len) in &self.open {
            style = style
                | match (marker, len) {
                    (b'~', _) => TextStyle::STRIKE,
                    (_, 2) => TextStyle::BOLD,
                    _ => TextStyle::ITALIC,
                };
        }
        if self.code > 0 {
            style | TextStyle::CYAN
        } else {
            style
        }
    }

    fn emit(&self, text: &str, wrap: &mut LineWrapper, out: &mut Vec<u8>) {
        if !text.is_empty() {
            wrap.set_style(self.style());
            wrap.text(text, self.code > 0, out);
        }
    }

    /// Renders the decidable part and returns its length in bytes.
    fn render_decided(
        &mut self,
        s: &str,
        eof: bool,
        wrap: &mut LineWrapper,
        out: &mut Vec<u8>,
    ) -> usize {
        let b = s.as_bytes();
        // `text..at` is plain text that is not written yet.
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
                // Formulas stay as they are: their `*`, `_` and `\\` are not markup.
                b'\\' | b'$' if MATH.iter().any(|(open, _)| s[at..].starts_with(open)) => {
                    let ends = MATH.iter().filter(|(open, _)| s[at..].starts_with(open));
                    let close = ends.map(|(_, close)| *close).next().unwrap_or_default();
                    match lookahead::literal_end(&s[at + 2..], close, eof) {
                        Lookahead::Wait => break true,
                        // Without its end it is an escaped bracket, or a process id.
                        Lookahead::None | Lookahead::Far => {
                            self.emit(&s[text..at], wrap, out);
                            text = at + usize::from(c == b'\\');
                            at += 2;
                        }
                        Lookahead::Found(len) => {
                            self.emit(&s[text..at], wrap, out);
                            let end = at + 2 + len + close.len();
                            self.emit_lines(&s[at..end], wrap, out);
                            at = end;
                            text = at;
                        }
                    }
                }
                b'$' if last && !eof => break true,
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
                // A note of several in a row begins a line.
                b'\n' if b.len() < at + 3 && !eof && b"[^".starts_with(&b[at + 1..]) => break true,
                b'\n' => {
                    self.emit(&s[text..at], wrap, out);
                    let is_note = b[at + 1..].starts_with(b"[^");
                    if (wrap.gap_seen() >= 2 || is_note) && self.code == 0 {
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
                    match lookahead::code_end(&s[after..], run, eof) {
                        Lookahead::Wait => break true,
                        Lookahead::None => at = after,
                        Lookahead::Far => {
                            self.emit(&s[text..at], wrap, out);
                            self.code = run;
                            self.code_mark(wrap, out);
                            at = after;
                            text = at;
                        }
                        Lookahead::Found(len) => {
                            self.emit(&s[text..at], wrap, out);
                            self.code = run;
                            self.code_mark(wrap, out);
                            self.emit(lookahead::strip_code(&s[after..after + len]), wrap, out);
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
                        Lookahead::Wait => break true,
                        Lookahead::None | Lookahead::Far => at += run,
                        Lookahead::Found((open, left)) => {
                            // The style changes after the preceding text is written.
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
                    Lookahead::Wait => break true,
                    Lookahead::None | Lookahead::Far => at += 2,
                    Lookahead::Found(link) => {
                        self.emit(&s[text..at], wrap, out);
                        self.show_link(&link, wrap, out);
                        at += 1 + link.len;
                        text = at;
                    }
                },
                b'[' => match self.link(&s[at..], eof) {
                    Lookahead::Wait => break true,
                    Lookahead::None | Lookahead::Far => at += 1,
                    Lookahead::Found(link) => {
                        self.emit(&s[text..at], wrap, out);
                        self.show_link(&link, wrap, out);
                        at += link.len;
                        text = at;
                    }
                },
                b'<' if s[at..].starts_with(KEY) => {
                    let inner = at + KEY.len();
                    match lookahead::literal_end(&s[inner..], KEY_END, eof) {
                        Lookahead::Wait => break true,
                        Lookahead::None | Lookahead::Far => at = inner,
                        Lookahead::Found(len) => {
                            self.emit(&s[text..at], wrap, out);
                            self.code = 1;
                            self.code_mark(wrap, out);
                            self.emit(&s[inner..inner + len], wrap, out);
                            self.code_mark(wrap, out);
                            self.code = 0;
                            at = inner + len + KEY_END.len();
                            text = at;
                        }
                    }
                }
                b'<' => match lookahead::autolink(&s[at..], eof) {
                    Lookahead::Wait => break true,
                    Lookahead::None | Lookahead::Far => {
                        match lookahead::one_of(&s[at..], TAGS, eof) {
                            Lookahead::Wait => break true,
                            Lookahead::None | Lookahead::Far => at += 1,
                            Lookahead::Found(tag) => {
                                self.emit(&s[text..at], wrap, out);
                                match self.cell {
                                    true => wrap.space(false),
                                    false => wrap.newline(out),
                                }
                                at += TAGS[tag].len();
                                text = at;
                            }
                        }
                    }
                    Lookahead::Found(url) => {
                        self.emit(&s[text..at], wrap, out);
                        wrap.set_style(self.style() | TextStyle::UNDERLINE);
                        wrap.text(url, false, out);
                        at += url.len() + 2;
                        text = at;
                    }
                },
                b'&' => match entity::decode(&s[at..], eof) {
                    entity::EntityMatch::Wait => break true,
                    entity::EntityMatch::None => at += 1,
                    entity::EntityMatch::Char(c, len) => {
                        self.emit(&s[text..at], wrap, out);
                        self.emit(c.encode_utf8(&mut [0; 4]), wrap, out);
                        at += len;
                        text = at;
                    }
                },
                // The closing `#` of a heading are not shown.
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

    /// Writes text without markup; its line breaks stay.
    fn emit_lines(&self, text: &str, wrap: &mut LineWrapper, out: &mut Vec<u8>) {
        for (n, line) in text.split('\n').enumerate() {
            if n > 0 {
                wrap.newline(out);
            }
            self.emit(line, wrap, out);
        }
    }

    /// Without colour, code keeps its backticks.
    fn code_mark(&self, wrap: &mut LineWrapper, out: &mut Vec<u8>) {
        if !wrap.color() {
            wrap.text("`", false, out);
        }
    }

    /// Without colour, struck text keeps its tildes: it would read as its opposite otherwise.
    fn strike_mark(&self, then: &[(u8, usize)], wrap: &mut LineWrapper, out: &mut Vec<u8>) {
        let struck = |open: &[(u8, usize)]| open.iter().any(|(marker, _)| *marker == b'~');
        if !wrap.color() && struck(&self.open) != struck(then) {
            wrap.text("~~", false, out);
        }
    }

    /// Applies the run of markers at the start of `s` to the open emphasis; returns how many of the markers are text.
    fn delimiters(
        &self,
        s: &str,
        run: usize,
        prev: Option<char>,
        eof: bool,
    ) -> Lookahead<(Vec<(u8, usize)>, usize)> {
        let marker = s.as_bytes()[0];
        if run > 3 || (marker == b'~' && run != 2) {
            return Lookahead::None;
        }
        let (opens, closes) = lookahead::flanks(marker, prev, s[run..].chars().next());
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
            return Lookahead::Found((open, left));
        }
        if !opens || open.len() >= MAX_OPEN {
            return Lookahead::None;
        }
        // `**` opens at the start of a word, but not in `f(**args)`.
        let starts_word = prev.is_none_or(char::is_whitespace);
        if !(marker == b'*' && run >= 2 && starts_word) {
            match lookahead::emphasis_end(&s[run..], marker, run, eof) {
                Lookahead::Found(()) => {}
                Lookahead::Far if !closes => {}
                Lookahead::Far | Lookahead::None => return Lookahead::None,
                Lookahead::Wait => return Lookahead::Wait,
            }
        }
        if run >= 2 {
            open.push((marker, 2));
        }
        if run != 2 {
            open.push((marker, 1));
        }
        Lookahead::Found((open, 0))
    }

    /// Matches the link at the start of `s`, which begins with `[`.
    fn link<'a>(&self, s: &'a str, eof: bool) -> Lookahead<MarkdownLink<'a>> {
        if self.depth >= MAX_DEPTH {
            Lookahead::None
        } else {
            lookahead::link(s, eof)
        }
    }

    fn show_link(&mut self, link: &MarkdownLink<'_>, wrap: &mut LineWrapper, out: &mut Vec<u8>) {
        let mut inner = Self {
            base: self.style() | TextStyle::UNDERLINE,
            depth: self.depth + 1,
            ..Self::default()
        };
        inner.render_decided(link.text, true, wrap, out);
        let url = link.url.strip_prefix("mailto:").unwrap_or(link.url);
        if !url.is_empty() && url != link.text {
            wrap.set_style(self.style());
            if !link.text.is_empty() {
                wrap.space(false);
            }
            wrap.set_style(self.style() | TextStyle::DIM);
            wrap.text("(", false, out);
            wrap.text(url, false, out);
            wrap.text(")", false, out);
        }
    }
}

/// Openers and closers of formulas.
const MATH: [(&str, &str); 3] = [("\\(", "\\)"), ("\\[", "\\]"), ("$$", "$$")];

/// A key of the keyboard, shown as code.
const KEY: &str = "<kbd>";
const KEY_END: &str = "</kbd>";

/// Line breaks, and [`KEY`].
const TAGS: &[&str] = &["<br>", "<br/>", "<br />", KEY];

/// Characters that may be markup.
static SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let marks = b"\\*_~`[!<&#$\n";
    let mut i = 0;
    while i < marks.len() {
        table[marks[i] as usize] = true;
        i += 1;
    }
    table
};
