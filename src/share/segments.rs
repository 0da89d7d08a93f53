//! The text of a share as a reader who copies it gets it: words go on over hidden characters, the ends of elements and the ends of
//! lines.
//!
//! Where a word begins and ends is then uncertain: a line end may be within a key, or between a word and a key. The text is therefore
//! searched from each break on, joined over one further break after the other.

use std::ops::Range;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::safety::percent::code_at;
use crate::safety::redact::{RestPlace, SecretStart, mark_length, rest_of_secret};
use crate::safety::utf8;

/// Numbers of breaks over which the text from a break on is joined. A key that is recognised by its length is found only if nothing
/// after it is joined to it; those of more lines are longer ones, recognised by their form.
const JOINED: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64];

/// Maximum length of a joined text, in bytes.
const MAX_JOINED: usize = 4 << 10;

/// Separator between a piece of text and the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gap {
    /// Nothing that a reader sees, such as the end of emphasis.
    #[default]
    None,
    /// The end of a line, within which a long word may have been broken.
    Line,
    /// The end of a paragraph, a cell or another block.
    Block,
}

/// A piece of text.
#[derive(Debug, Clone, Default)]
pub struct Piece {
    /// The text before it.
    pub gap: Gap,
    /// The text.
    pub text: String,
    /// Whether it may contain HTML tags, which are shown as text.
    pub is_html: bool,
}

impl Gap {
    /// Returns the text that is shown for it.
    pub fn shown(self) -> &'static str {
        match self {
            Gap::None => "",
            Gap::Line => "\n",
            Gap::Block => "\n\n",
        }
    }
}

/// A part of the shown text without breaks.
#[derive(Debug)]
struct Segment {
    /// The text before it.
    gap: Gap,
    range: Range<usize>,
}

/// The shown text in parts.
#[derive(Debug)]
pub struct Segments<'t> {
    shown: &'t str,
    all: Vec<Segment>,
}

/// A part of a joined text.
#[derive(Debug, Clone, Copy)]
struct JoinedPart {
    /// Where it begins in the joined text.
    here: usize,
    /// Where it begins in the shown text.
    there: usize,
    /// Length in the shown text of what is one code there.
    code: Option<usize>,
}

/// Parts of the shown text, joined.
#[derive(Debug, Default)]
pub struct JoinedText {
    /// The text.
    pub text: String,
    parts: Vec<JoinedPart>,
    /// Length of the first part.
    pub first: usize,
}

impl JoinedText {
    fn push(&mut self, text: &str, place: usize) {
        self.push_part(text, place, None);
    }

    fn push_part(&mut self, text: &str, there: usize, code: Option<usize>) {
        let here = self.text.len();
        self.parts.push(JoinedPart { here, there, code });
        self.text.push_str(text);
    }

    /// Returns where a range is in the shown text.
    pub fn shown(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let place = |at: usize| {
            let part = self.parts.partition_point(|part| part.here <= at);
            let JoinedPart { here, there, code } = *self.parts.get(part.checked_sub(1)?)?;
            Some(match code {
                Some(length) => there..there + length,
                None => there + at - here..there + at - here + 1,
            })
        };
        let text = self.text.get(range.clone())?;
        // A gap may be longer where it is shown.
        let end = range.start + text.trim_end().len();
        let start = range.end - text.trim_start().len();
        Some(place(start)?.start..place(end.checked_sub(1)?)?.end)
    }

    /// Returns the text with `%41` and `\u0041` as `A`, with positions in this text; `None` if it has nothing to decode.
    pub fn decoded(&self) -> Option<JoinedText> {
        let text = self.text.as_bytes();
        let (mut decoded, mut plain) = (JoinedText::default(), 0);
        for start in memchr::memchr2_iter(b'%', b'\\', text) {
            if start < plain || code_at(text, start).is_none() {
                continue;
            }
            decoded.push(self.text.get(plain..start).unwrap_or_default(), plain);
            plain = start;
            // The bytes of a character are codes of their own.
            let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
            while let Some((byte, length)) = code_at(text, plain) {
                bytes.push(byte);
                lengths.push(length);
                plain += length;
            }
            let (mut at, mut lengths) = (start, lengths.into_iter());
            let mut push = |text: &str, count: usize| {
                let length = lengths.by_ref().take(count).sum();
                decoded.push_part(text, at, Some(length));
                at += length;
            };
            for chunk in bytes.utf8_chunks() {
                for c in chunk.valid().chars() {
                    push(c.encode_utf8(&mut [0; 4]), c.len_utf8());
                }
                for _ in chunk.invalid() {
                    push("?", 1);
                }
            }
        }
        if plain == 0 {
            return None;
        }
        decoded.push(self.text.get(plain..).unwrap_or_default(), plain);
        Some(decoded)
    }
}

impl<'t> Segments<'t> {
    /// Returns the parts of `shown`, which is the text of the pieces with their gaps; with `skips_tags`, tags of HTML are breaks.
    pub fn new(shown: &'t str, pieces: &[Piece], skips_tags: bool) -> Segments<'t> {
        let mut all: Vec<Segment> = Vec::new();
        let mut gap = Gap::Block;
        let mut open: Option<usize> = None;
        let close =
            |open: &mut Option<usize>, gap: &mut Gap, end: usize, all: &mut Vec<Segment>| {
                if let Some(start) = open.take() {
                    let range = start..end;
                    all.push(Segment { gap: *gap, range });
                    *gap = Gap::None;
                }
            };
        let mut at = 0;
        let (mut is_tag, mut escape) = (false, EscapeCode::None);
        for piece in pieces {
            is_tag &= piece.is_html;
            close(&mut open, &mut gap, at, &mut all);
            gap = gap.max(piece.gap);
            at += piece.gap.shown().len();
            for c in piece.text.chars() {
                let is_open = c == '<' && skips_tags && piece.is_html;
                escape = escape.next(c);
                match c {
                    _ if escape != EscapeCode::None => {
                        close(&mut open, &mut gap, at, &mut all);
                    }
                    _ if is_tag || is_open => {
                        close(&mut open, &mut gap, at, &mut all);
                        is_tag = c != '>';
                    }
                    '\n' => {
                        close(&mut open, &mut gap, at, &mut all);
                        // An empty line separates blocks.
                        gap = if gap == Gap::None {
                            Gap::Line
                        } else {
                            Gap::Block
                        };
                    }
                    c if is_unseen(c) => close(&mut open, &mut gap, at, &mut all),
                    // Of indentation.
                    ' ' | '\t' if open.is_none() && gap > Gap::None => {}
                    _ => _ = open.get_or_insert(at),
                }
                at += c.len_utf8();
            }
        }
        close(&mut open, &mut gap, at, &mut all);
        // Blanks at the end of a line, and the sign with which shells and programs continue it.
        for n in 1..all.len() {
            if all[n].gap > Gap::None {
                let range = &mut all[n - 1].range;
                range.end = range.start
                    + shown[range.clone()]
                        .trim_end_matches([' ', '\t', '\\'])
                        .len();
            }
        }
        Segments { shown, all }
    }

    fn text(&self, segment: &Segment) -> &'t str {
        self.shown.get(segment.range.clone()).unwrap_or_default()
    }

    /// Returns the text without what is not seen, with a blank for the end of a line that goes on in the next one: `is_open` says so of the
    /// line, its place in the text, and the text up to the next break.
    pub fn seen(&self, is_open: impl Fn(&str, usize, &str) -> bool) -> JoinedText {
        let mut joined = JoinedText::default();
        let mut line = 0;
        for segment in &self.all {
            let gap = match segment.gap {
                Gap::Line if is_open(&joined.text[line..], line, self.text(segment)) => " ",
                gap => gap.shown(),
            };
            joined.push(gap, segment.range.start);
            if segment.gap > Gap::None {
                line = joined.text.len();
            }
            joined.push(self.text(segment), segment.range.start);
        }
        joined
    }

    /// Passes the text from each break on to `search`, joined over more and more breaks, until that returns true. Words go on in the
    /// next line, and further only where a line is one word.
    pub fn joined(&self, mut search: impl FnMut(&JoinedText) -> bool) {
        for (start, first) in self.all.iter().enumerate() {
            let mut joined = JoinedText::default();
            joined.push(self.text(first), first.range.start);
            joined.first = joined.text.len();
            let (mut is_found, mut lines, mut line) = (search(&joined), 0, 0);
            let mut searched = 0;
            let rest = self.all.get(start + 1..).unwrap_or_default();
            for (n, next) in rest.iter().enumerate().take(JOINED[JOINED.len() - 1]) {
                let is_word = || !joined.text[line..].contains(char::is_whitespace);
                if is_found
                    || next.gap == Gap::Block
                    || joined.text.len() - joined.first >= MAX_JOINED
                    || next.gap == Gap::Line && lines > 0 && !is_word()
                {
                    break;
                }
                if next.gap == Gap::Line {
                    lines += 1;
                    line = joined.text.len();
                }
                joined.push(utf8::prefix(self.text(next), MAX_JOINED), next.range.start);
                searched = n + 1;
                if JOINED.contains(&searched) {
                    is_found = search(&joined);
                }
            }
            if !is_found && !JOINED.contains(&searched) {
                search(&joined);
            }
        }
    }

    /// Returns where a secret in the shown text continues: after breaks, and directly after a mark, since a secret that was
    /// replaced in Markdown ended at its first mark-up.
    pub fn end_of_secret(&self, secret: &Range<usize>, kind: &str) -> usize {
        let mut end = secret.end;
        let text = self.shown.get(secret.clone()).unwrap_or_default();
        // The last line of a private key.
        if text.ends_with("-----") {
            return end;
        }
        let mut n = self.all.partition_point(|segment| segment.range.end < end);
        let Some(segment) = self.all.get(n).filter(|segment| segment.range.start < end) else {
            return end;
        };
        let mut start = self.secret_start(secret, kind);
        if end < segment.range.end {
            let behind = self.shown.get(end..segment.range.end).unwrap_or_default();
            end += rest_of_secret(behind.as_bytes(), RestPlace::Behind, &start);
            if end < segment.range.end {
                return end;
            }
        }
        while let Some(next) = self.all.get(n + 1) {
            let text = self.text(next);
            let place = match next.gap {
                Gap::Block => break,
                Gap::None => RestPlace::SameWord,
                Gap::Line => RestPlace::NextLine,
            };
            let length = rest_of_secret(text.as_bytes(), place, &start);
            if length == 0 {
                break;
            }
            end = next.range.start + length;
            if length < text.len() {
                break;
            }
            start.length += length;
            if next.gap == Gap::Line {
                start.is_wrapped = true;
                start.row = length;
            } else if start.row > 0 {
                start.row += length;
            }
            n += 1;
        }
        end
    }

    fn secret_start<'k>(&self, secret: &Range<usize>, kind: &'k str) -> SecretStart<'k> {
        let text = self.shown.get(secret.clone()).unwrap_or_default();
        let is_mark = mark_length(text).is_some();
        let length = |text: &str| match is_mark {
            true => 0,
            false => text.bytes().filter(u8::is_ascii_graphic).count(),
        };
        SecretStart {
            kind,
            length: length(text),
            row: length(text.rsplit('\n').next().unwrap_or_default()),
            is_wrapped: text.contains('\n'),
        }
    }
}

/// Position of a character in an escape sequence, such as `ESC[0m`, `ESC(B` and `ESC]8;;ADDRESS BEL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EscapeCode {
    None,
    Escape,
    /// Behind `ESC[`.
    Inside,
    /// Behind `ESC(` and similar ones.
    Charset,
    /// Behind `ESC]` and other beginnings of a text, such as a link.
    Text,
    /// `ESC` within a text, which `ESC\` ends.
    TextEscape,
    End,
}

impl EscapeCode {
    fn next(self, c: char) -> EscapeCode {
        match (self, c) {
            (EscapeCode::TextEscape, '\\') => EscapeCode::End,
            (EscapeCode::Text, '\u{1b}') => EscapeCode::TextEscape,
            (EscapeCode::Text, '\u{7}' | '\u{9c}') => EscapeCode::End,
            // Without an end, it hides no more than its line.
            (EscapeCode::Text, '\n') => EscapeCode::None,
            (EscapeCode::Text, _) => EscapeCode::Text,
            (_, '\u{1b}') => EscapeCode::Escape,
            (EscapeCode::Escape | EscapeCode::TextEscape, '[') | (_, '\u{9b}') => {
                EscapeCode::Inside
            }
            (EscapeCode::Escape | EscapeCode::TextEscape, ']' | 'P' | 'X' | '^' | '_')
            | (_, '\u{9d}') => EscapeCode::Text,
            (EscapeCode::Escape | EscapeCode::TextEscape | EscapeCode::Charset, ' '..='/') => {
                EscapeCode::Charset
            }
            (EscapeCode::Escape | EscapeCode::TextEscape | EscapeCode::Charset, '0'..='~') => {
                EscapeCode::End
            }
            (EscapeCode::Inside, ' '..='?') => EscapeCode::Inside,
            (EscapeCode::Inside, '@'..='~') => EscapeCode::End,
            _ => EscapeCode::None,
        }
    }
}

/// Whether a character may be within a word without being seen: also marks on other characters, and letters that are blank.
fn is_unseen(c: char) -> bool {
    is_hidden(c)
        || matches!(
            c,
            '\u{200d}' | '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}'
        )
        || matches!(
            c.general_category(),
            GeneralCategory::NonspacingMark | GeneralCategory::EnclosingMark
        )
}

/// Returns the text of the pieces as it is shown.
pub fn shown(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        text.push_str(piece.gap.shown());
        text.push_str(&piece.text);
    }
    text
}

/// Whether a character changes how other text looks, and is not seen itself: controls, and those that turn the direction of text.
fn is_hidden(c: char) -> bool {
    // A joiner is part of emoji and of some scripts.
    let is_format = c != '\u{200d}'
        && matches!(
            c.general_category(),
            GeneralCategory::Format
                | GeneralCategory::LineSeparator
                | GeneralCategory::ParagraphSeparator
        );
    c.is_control() && c != '\n' && c != '\t' || is_format
}

/// Makes hidden characters visible.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => out.push_str(&format!("⟨U+{:04X}⟩", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}
