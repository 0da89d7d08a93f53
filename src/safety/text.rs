//! The one way for untrusted text to a terminal.
//!
//! What a model, a tool, a server or a file name says may hold escape sequences that retitle the
//! window, write the clipboard or repaint what was approved, and characters that hide or reorder
//! what stands beside them. [`Sink`] passes what can be seen and shows a stand-in for the rest,
//! wherever the text was cut into chunks. It holds back one character at most, or the length of
//! one run of spaces.
//!
//! In [`Mode::Prose`], LF and TAB pass, CRLF becomes LF, and the invisible characters that emoji and
//! scripts are written with pass in their places: ZWJ and ZWNJ, variation selectors. Private-use
//! characters pass, since they are icons in many fonts. Stand-ins are `\x1b`, `\u{202e}`, `\r`.
//!
//! In [`Mode::Strict`], for what is decided upon, nothing invisible passes, and neither do LF, CR,
//! TAB, runs of three spaces and more, other spaces than the ASCII one, and private-use characters.
//! Stand-ins are `‹\x1b›`, `‹\n›`, `‹12 spaces›`, and a `‹` or `›` of the text has a stand-in itself:
//! so without any colour a stand-in cannot be mistaken for text, and every other visible character
//! stands as it is, the backslash too.
//!
//! In both, a combining mark needs a base that it belongs to, and a base has eight at most. The tags
//! in the flags of England, Scotland and Wales are shown like all tags. Not covered is what visible
//! characters do: letters of another script that look alike, and terminals that order a line by its
//! right-to-left letters.

use super::glyph::{Before, Kind, kind};
use std::fmt::Write;

/// One piece of what may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Printable as it is.
    Text(&'a str),
    /// A visible stand-in such as `\x1b` or `\u{202e}`, to which the caller may add its own colour.
    Mark(&'a str),
}

/// A [`Piece`] that owns its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Printable as it is.
    Text(String),
    /// A visible stand-in.
    Mark(String),
}

/// What the text is for, and so what may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Text to read: answers, output, reasons.
    Prose,
    /// Text to decide upon, on one line: proposals, questions, names.
    Strict,
}

/// From how many ASCII spaces on a run could push something out of sight.
const LONG_RUN: u64 = 3;

/// Makes a stream of untrusted text fit to be shown.
#[derive(Debug)]
pub struct Sink {
    mode: Mode,
    before: Before,
    /// The last character, whose fate depends on the next one.
    held: Option<char>,
    /// A run of spaces at the end of what came so far; in strict mode only.
    spaces: u64,
    /// Where stand-ins are written.
    mark: String,
}

/// What becomes of a character.
enum Fate {
    Pass,
    Drop,
    Hide,
    Wait,
}

impl Sink {
    /// A sink at the start of a text.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            before: Before::new(None),
            held: None,
            spaces: 0,
            mark: String::new(),
        }
    }

    /// Takes the next chunk and hands what may be shown of it to `emit`.
    pub fn push_with(&mut self, chunk: &str, emit: &mut dyn FnMut(Piece<'_>)) {
        let Some(first) = chunk.chars().next() else {
            return;
        };
        if first != ' ' {
            self.end_spaces(emit);
        }
        self.settle(first, emit);
        // `at` ends what has been judged and `from` what has been emitted; `before` speaks of
        // `known`, and between `known` and `at` all is plain. All four are character boundaries.
        let (mut at, mut from, mut known) = (0, 0, 0);
        while at < chunk.len() {
            at += match self.mode {
                Mode::Prose => plain_prefix(&chunk.as_bytes()[at..], |b| {
                    (b.wrapping_sub(b' ') < 0x5f) | (b == b'\n') | (b == b'\t')
                }),
                Mode::Strict => {
                    plain_prefix(&chunk.as_bytes()[at..], |b| b.wrapping_sub(b'!') < 0x5e)
                }
            };
            let mut rest = chunk[at..].chars();
            let Some(c) = rest.next() else {
                break;
            };
            if c == ' ' {
                // Only strict mode comes here.
                let run = chunk[at..].bytes().take_while(|&b| b == b' ').count();
                let end = at + run;
                let total = self.spaces + run as u64;
                if end < chunk.len() && total < LONG_RUN && self.spaces == 0 {
                    at = end;
                    continue;
                }
                text(&chunk[from..at], emit);
                self.spaces = total;
                if end < chunk.len() {
                    self.end_spaces(emit);
                }
                (at, from, known) = (end, end, end);
                continue;
            }
            let end = at + c.len_utf8();
            let kind = kind(c, self.mode);
            if kind == Kind::Plain {
                at = end;
                continue;
            }
            if known < at {
                self.before = Before::new(chunk[..at].chars().next_back());
            }
            let fate = self.judge(c, kind, rest.next());
            if !matches!(fate, Fate::Pass) {
                text(&chunk[from..at], emit);
                from = end;
            }
            self.execute(c, fate, emit);
            (at, known) = (end, end);
        }
        text(&chunk[from..], emit);
        if known < chunk.len() {
            self.before = Before::new(chunk.chars().next_back());
        }
    }

    /// Takes the next chunk and appends what may be shown of it to `out`.
    pub fn push(&mut self, chunk: &str, out: &mut String) {
        self.push_with(chunk, &mut |piece| append(piece, out));
    }

    /// Ends the text: what was held back is shown, and the sink is as new.
    pub fn finish_with(&mut self, emit: &mut dyn FnMut(Piece<'_>)) {
        self.end_spaces(emit);
        // For what a character needs after it, the end is as good as a space.
        self.settle(' ', emit);
        self.before = Before::new(None);
    }

    /// Ends the text and appends what was held back to `out`.
    pub fn finish(&mut self, out: &mut String) {
        self.finish_with(&mut |piece| append(piece, out));
    }

    /// What becomes of `c`, which is not plain.
    fn judge(&mut self, c: char, kind: Kind, next: Option<char>) -> Fate {
        let waits = c == '\r' && self.mode == Mode::Prose || self.before.must_wait(c, kind);
        match next {
            None if waits => Fate::Wait,
            Some('\n') if c == '\r' && waits => Fate::Drop,
            // The verdict on the others does not depend on what this space stands in for.
            next if self.before.admits(c, kind, next.unwrap_or(' '), self.mode) => Fate::Pass,
            _ => Fate::Hide,
        }
    }

    /// Does what was decided about `c`, but for passing it on.
    fn execute(&mut self, c: char, fate: Fate, emit: &mut dyn FnMut(Piece<'_>)) {
        match fate {
            Fate::Pass | Fate::Drop => {}
            Fate::Wait => self.held = Some(c),
            Fate::Hide => {
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

    /// Decides about the held character, now that the next one is known.
    fn settle(&mut self, next: char, emit: &mut dyn FnMut(Piece<'_>)) {
        let Some(c) = self.held.take() else {
            return;
        };
        let fate = self.judge(c, kind(c, self.mode), Some(next));
        if matches!(fate, Fate::Pass) {
            emit(Piece::Text(c.encode_utf8(&mut [0; 4])));
        }
        self.execute(c, fate, emit);
    }

    /// Shows the run of spaces that has ended.
    fn end_spaces(&mut self, emit: &mut dyn FnMut(Piece<'_>)) {
        match std::mem::take(&mut self.spaces) {
            0 => {}
            run @ LONG_RUN.. => self.mark_with(emit, |mark| write!(mark, "{run} spaces")),
            run => {
                // One space or two.
                emit(Piece::Text(if run == 1 { " " } else { "  " }));
                self.before = Before::new(Some(' '));
            }
        }
    }

    /// Emits the stand-in that `name` writes.
    fn mark_with(
        &mut self,
        emit: &mut dyn FnMut(Piece<'_>),
        name: impl FnOnce(&mut String) -> std::fmt::Result,
    ) {
        self.before = Before::new(None);
        self.mark.clear();
        let (open, close) = if self.mode == Mode::Strict {
            ("‹", "›")
        } else {
            ("", "")
        };
        self.mark.push_str(open);
        // Writing to a string does not fail.
        let _ = name(&mut self.mark);
        self.mark.push_str(close);
        emit(Piece::Mark(&self.mark));
    }
}

/// How many bytes at the start of `bytes` are `plain`, judged a block at a time, so that the
/// compiler can judge a block with a few wide instructions.
#[inline]
fn plain_prefix(bytes: &[u8], plain: impl Fn(u8) -> bool) -> usize {
    let blocks = bytes.as_chunks::<32>().0;
    let whole = blocks
        .iter()
        .take_while(|block| block.iter().fold(true, |all, &b| all & plain(b)));
    let len = whole.count() * 32;
    len + bytes[len..].iter().take_while(|&&b| plain(b)).count()
}

fn text(text: &str, emit: &mut dyn FnMut(Piece<'_>)) {
    if !text.is_empty() {
        emit(Piece::Text(text));
    }
}

fn append(piece: Piece<'_>, out: &mut String) {
    let (Piece::Text(text) | Piece::Mark(text)) = piece;
    out.push_str(text);
}

/// All of `s` as it may be shown in prose.
pub fn prose(s: &str) -> String {
    whole(s, Mode::Prose)
}

/// All of `s` as it may be shown where it is decided upon: one line, nothing invisible.
pub fn strict(s: &str) -> String {
    whole(s, Mode::Strict)
}

fn whole(s: &str, mode: Mode) -> String {
    let (mut sink, mut out) = (Sink::new(mode), String::with_capacity(s.len()));
    sink.push(s, &mut out);
    sink.finish(&mut out);
    out
}

/// As [`strict`], with the stand-ins apart.
pub fn strict_pieces(s: &str) -> Vec<Shown> {
    let mut pieces = Vec::new();
    let mut add = |piece: Piece<'_>| match (piece, pieces.last_mut()) {
        (Piece::Text(more), Some(Shown::Text(text))) => text.push_str(more),
        (Piece::Text(text), _) => pieces.push(Shown::Text(text.to_owned())),
        (Piece::Mark(mark), _) => pieces.push(Shown::Mark(mark.to_owned())),
    };
    let mut sink = Sink::new(Mode::Strict);
    sink.push_with(s, &mut add);
    sink.finish_with(&mut add);
    pieces
}

/// As [`strict`], in at most `max` characters; `…` stands for what is left out.
///
/// For names, titles and error bodies. A stand-in is shown whole or not at all.
pub fn one_line(s: &str, max: usize) -> String {
    let mut line = Line {
        out: String::new(),
        len: 0,
        cut: 0,
        max,
    };
    let mut sink = Sink::new(Mode::Strict);
    let mut rest = s;
    while !rest.is_empty() && line.len <= max {
        // A little at a time, so that a long text costs no more than what is shown of it.
        let end = rest.char_indices().nth(64).map_or(rest.len(), |(at, _)| at);
        let (chunk, after) = rest.split_at(end);
        sink.push_with(chunk, &mut |piece| line.add(piece));
        rest = after;
    }
    sink.finish_with(&mut |piece| line.add(piece));
    line.finish()
}

/// The beginning of a text, up to one character more than is wanted.
struct Line {
    out: String,
    /// How many characters `out` has.
    len: usize,
    /// Where `out` is cut if more than `max` characters are to come.
    cut: usize,
    max: usize,
}

impl Line {
    fn add(&mut self, piece: Piece<'_>) {
        let (Piece::Text(text) | Piece::Mark(text)) = piece;
        for c in text.chars() {
            if self.len > self.max {
                return;
            }
            self.out.push(c);
            self.len += 1;
            if self.len < self.max && matches!(piece, Piece::Text(_)) {
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
