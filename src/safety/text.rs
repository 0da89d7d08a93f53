//! Text sink: the only path for untrusted text to a terminal.
//!
//! Text from a model, a tool, a server or a file name may contain escape sequences that retitle the window, write the
//! clipboard or repaint the approved text, and characters that hide or reorder their neighbours. [`TextSink`] passes
//! visible characters and shows a stand-in for everything else, independent of how the text was split into chunks. It
//! holds back at most one character, or the length of one run of spaces.
//!
//! In prose mode, LF and TAB pass, CRLF becomes LF, and invisible characters that emoji and scripts require (ZWJ,
//! ZWNJ, variation selectors) pass where they have an effect. Private-use characters pass, because many fonts use them
//! for icons. Stand-ins are `\x1b`, `\u{202e}`, `\r`.
//!
//! In strict mode, for text that the user decides on, no invisible character passes, and neither do LF, CR, TAB,
//! runs of three or more spaces, spaces other than the ASCII one, and private-use characters. Stand-ins are `‹\x1b›`,
//! `‹\n›`, `‹12 spaces›`; a `‹` or `›` in the text gets a stand-in itself. A stand-in can therefore not be mistaken for
//! text even without colour, and every other visible character, including the backslash, is unchanged.
//!
//! In both modes a combining mark needs a base that it belongs to, and a base has at most eight. The tag characters in
//! the flags of England, Scotland and Wales get stand-ins like all tags. Not covered are visible characters: letters of
//! another script that look alike (see `confusables`), and terminals that reorder a line because of its right-to-left
//! letters.

pub use super::char_class::SinkMode;
use super::char_class::{CharClass, PrecedingText, char_class};
use std::fmt::Write;

/// A piece of output that is safe to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SafePiece<'a> {
    /// Printable text, unchanged.
    Text(&'a str),
    /// A visible stand-in such as `\x1b` or `\u{202e}`, which the caller may colour.
    Mark(&'a str),
}

/// An owned piece of output that is safe to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedPiece {
    /// Printable text, unchanged.
    Text(String),
    /// A visible stand-in.
    Mark(String),
}

/// Minimum length of a run of ASCII spaces that could push text out of view.
const LONG_RUN: u64 = 3;

/// Makes a stream of untrusted text safe to show.
#[derive(Debug)]
pub struct TextSink {
    mode: SinkMode,
    preceding: PrecedingText,
    /// The last character, if the decision on it depends on the next one.
    held: Option<char>,
    /// Length of the run of spaces at the end of the text so far; strict mode only.
    spaces: u64,
    /// Buffer for stand-ins.
    mark: String,
}

/// The decision on a character.
enum CharDecision {
    Pass,
    Drop,
    Hide,
    Wait,
}

impl TextSink {
    /// A sink at the start of a text.
    pub fn new(mode: SinkMode) -> Self {
        Self {
            mode,
            preceding: PrecedingText::new(None),
            held: None,
            spaces: 0,
            mark: String::new(),
        }
    }

    /// Processes the next chunk and hands its safe form to `emit`.
    pub fn push_with(&mut self, chunk: &str, emit: &mut dyn FnMut(SafePiece<'_>)) {
        let Some(first) = chunk.chars().next() else {
            return;
        };
        if first != ' ' {
            self.end_spaces(emit);
        }
        self.settle(first, emit);
        // `at` is the end of what has been judged and `from` the end of what has been emitted; `before` is the state at
        // `known`, and between `known` and `at` every character is plain. All four are character boundaries.
        let (mut at, mut from, mut known) = (0, 0, 0);
        while at < chunk.len() {
            at += match self.mode {
                SinkMode::Prose => plain_prefix(&chunk.as_bytes()[at..], |b| {
                    (b.wrapping_sub(b' ') < 0x5f) | (b == b'\n') | (b == b'\t')
                }),
                SinkMode::Strict => {
                    plain_prefix(&chunk.as_bytes()[at..], |b| b.wrapping_sub(b'!') < 0x5e)
                }
            };
            let mut rest = chunk[at..].chars();
            let Some(c) = rest.next() else {
                break;
            };
            if c == ' ' {
                // Reached in strict mode only.
                let run = chunk[at..].bytes().take_while(|&b| b == b' ').count();
                let end = at + run;
                let total = self.spaces + run as u64;
                if end < chunk.len() && total < LONG_RUN && self.spaces == 0 {
                    at = end;
                    continue;
                }
                emit_text(&chunk[from..at], emit);
                self.spaces = total;
                if end < chunk.len() {
                    self.end_spaces(emit);
                }
                (at, from, known) = (end, end, end);
                continue;
            }
            let end = at + c.len_utf8();
            let kind = char_class(c, self.mode);
            if kind == CharClass::Plain {
                at = end;
                continue;
            }
            if known < at {
                self.preceding = PrecedingText::new(chunk[..at].chars().next_back());
            }
            let fate = self.decide(c, kind, rest.next());
            if !matches!(fate, CharDecision::Pass) {
                emit_text(&chunk[from..at], emit);
                from = end;
            }
            self.execute(c, fate, emit);
            (at, known) = (end, end);
        }
        emit_text(&chunk[from..], emit);
        if known < chunk.len() {
            self.preceding = PrecedingText::new(chunk.chars().next_back());
        }
    }

    /// Processes the next chunk and appends its safe form to `out`.
    pub fn push(&mut self, chunk: &str, out: &mut String) {
        self.push_with(chunk, &mut |piece| append(piece, out));
    }

    /// Ends the text: emits the held text and resets the sink.
    pub fn finish_with(&mut self, emit: &mut dyn FnMut(SafePiece<'_>)) {
        self.end_spaces(emit);
        // For a character that depends on its successor, the end of the text counts as a space.
        self.settle(' ', emit);
        self.preceding = PrecedingText::new(None);
    }

    /// Ends the text and appends the held text to `out`.
    pub fn finish(&mut self, out: &mut String) {
        self.finish_with(&mut |piece| append(piece, out));
    }

    /// Decides on `c`, which is not plain.
    fn decide(&mut self, c: char, kind: CharClass, next: Option<char>) -> CharDecision {
        let waits = c == '\r' && self.mode == SinkMode::Prose || self.preceding.must_wait(c, kind);
        match next {
            None if waits => CharDecision::Wait,
            Some('\n') if c == '\r' && waits => CharDecision::Drop,
            // The decision on the other classes does not depend on the character that this space replaces.
            next if self
                .preceding
                .admits(c, kind, next.unwrap_or(' '), self.mode) =>
            {
                CharDecision::Pass
            }
            _ => CharDecision::Hide,
        }
    }

    /// Carries out the decision on `c`, except for passing it on.
    fn execute(&mut self, c: char, fate: CharDecision, emit: &mut dyn FnMut(SafePiece<'_>)) {
        match fate {
            CharDecision::Pass | CharDecision::Drop => {}
            CharDecision::Wait => self.held = Some(c),
            CharDecision::Hide => {
                self.mark_with(emit, |mark| match c {
                    '\r' => mark.write_str("\\r"),
                    '\n' => mark.write_str("\\n"),
                    '\t' => mark.write_str("\\t"),
                    c if c.is_ascii() => write!(mark, "\\x{:02x}", u32::from(c)),
                    c => write!(mark, "\\u{{{:x}}}", u32::from(c)),
                });
            }
        }
    }

    /// Decides on the held character, now that the next one is known.
    fn settle(&mut self, next: char, emit: &mut dyn FnMut(SafePiece<'_>)) {
        let Some(c) = self.held.take() else {
            return;
        };
        let fate = self.decide(c, char_class(c, self.mode), Some(next));
        if matches!(fate, CharDecision::Pass) {
            emit(SafePiece::Text(c.encode_utf8(&mut [0; 4])));
        }
        self.execute(c, fate, emit);
    }

    /// Emits the run of spaces that has ended.
    fn end_spaces(&mut self, emit: &mut dyn FnMut(SafePiece<'_>)) {
        match std::mem::take(&mut self.spaces) {
            0 => {}
            run @ LONG_RUN.. => self.mark_with(emit, |mark| write!(mark, "{run} spaces")),
            run => {
                // One space or two.
                emit(SafePiece::Text(if run == 1 { " " } else { "  " }));
                self.preceding = PrecedingText::new(Some(' '));
            }
        }
    }

    /// Emits the stand-in that `name` writes.
    fn mark_with(
        &mut self,
        emit: &mut dyn FnMut(SafePiece<'_>),
        name: impl FnOnce(&mut String) -> std::fmt::Result,
    ) {
        self.preceding = PrecedingText::new(None);
        self.mark.clear();
        let (open, close) = if self.mode == SinkMode::Strict {
            ("‹", "›")
        } else {
            ("", "")
        };
        self.mark.push_str(open);
        // Writing to a string cannot fail.
        let _ = name(&mut self.mark);
        self.mark.push_str(close);
        emit(SafePiece::Mark(&self.mark));
    }
}

/// Length of the prefix of `bytes` that is `plain`. Tests whole blocks, so that the compiler can use SIMD instructions.
#[inline]
fn plain_prefix(bytes: &[u8], plain: impl Fn(u8) -> bool) -> usize {
    let blocks = bytes.as_chunks::<32>().0;
    let whole = blocks
        .iter()
        .take_while(|block| block.iter().fold(true, |all, &b| all & plain(b)));
    let len = whole.count() * 32;
    len + bytes[len..].iter().take_while(|&&b| plain(b)).count()
}

fn emit_text(text: &str, emit: &mut dyn FnMut(SafePiece<'_>)) {
    if !text.is_empty() {
        emit(SafePiece::Text(text));
    }
}

fn append(piece: SafePiece<'_>, out: &mut String) {
    let (SafePiece::Text(text) | SafePiece::Mark(text)) = piece;
    out.push_str(text);
}

/// Returns `s` in prose mode.
pub fn prose(s: &str) -> String {
    sink_all(s, SinkMode::Prose)
}

/// Returns `s` in strict mode: one line, nothing invisible.
pub fn strict(s: &str) -> String {
    sink_all(s, SinkMode::Strict)
}

fn sink_all(s: &str, mode: SinkMode) -> String {
    let (mut sink, mut out) = (TextSink::new(mode), String::with_capacity(s.len()));
    sink.push(s, &mut out);
    sink.finish(&mut out);
    out
}

/// Same as [`strict`], with stand-ins separate from text.
pub fn strict_pieces(s: &str) -> Vec<OwnedPiece> {
    let mut pieces = Vec::new();
    let mut add = |piece: SafePiece<'_>| match (piece, pieces.last_mut()) {
        (SafePiece::Text(more), Some(OwnedPiece::Text(text))) => text.push_str(more),
        (SafePiece::Text(text), _) => pieces.push(OwnedPiece::Text(text.to_owned())),
        (SafePiece::Mark(mark), _) => pieces.push(OwnedPiece::Mark(mark.to_owned())),
    };
    let mut sink = TextSink::new(SinkMode::Strict);
    sink.push_with(s, &mut add);
    sink.finish_with(&mut add);
    pieces
}

/// Same as [`strict`], with at most `max` characters; `…` replaces the rest.
///
/// For names, titles and error bodies. A stand-in is shown whole or not at all.
pub fn one_line(s: &str, max: usize) -> String {
    let mut line = LineBuilder {
        out: String::new(),
        len: 0,
        cut: 0,
        max,
    };
    let mut sink = TextSink::new(SinkMode::Strict);
    let mut rest = s;
    while !rest.is_empty() && line.len <= max {
        // In small chunks, so that a long text costs no more than the part that is shown.
        let end = rest.char_indices().nth(64).map_or(rest.len(), |(at, _)| at);
        let (chunk, after) = rest.split_at(end);
        sink.push_with(chunk, &mut |piece| line.add(piece));
        rest = after;
    }
    sink.finish_with(&mut |piece| line.add(piece));
    line.finish()
}

/// The beginning of a text, up to one character more than the maximum.
struct LineBuilder {
    out: String,
    /// Number of characters in `out`.
    len: usize,
    /// Where to truncate `out` if the text has more than `max` characters.
    cut: usize,
    max: usize,
}

impl LineBuilder {
    fn add(&mut self, piece: SafePiece<'_>) {
        let (SafePiece::Text(text) | SafePiece::Mark(text)) = piece;
        for c in text.chars() {
            if self.len > self.max {
                return;
            }
            self.out.push(c);
            self.len += 1;
            if self.len < self.max && matches!(piece, SafePiece::Text(_)) {
                self.cut = self.out.len();
            }
        }
        if self.len < self.max {
            self.cut = self.out.len();
        }
    }

    fn finish(mut self) -> String {
        if self.len > self.max {
            self.out.truncate(self.cut);
            if self.max > 0 {
                self.out.push('…');
            }
        }
        self.out
    }
}

#[cfg(test)]
mod tests;
