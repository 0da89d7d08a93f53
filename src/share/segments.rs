//! The text of a share as a reader who copies it gets it: words go on over hidden characters, the ends of elements and the ends of
//! lines.
//!
//! Where a word begins and ends is then uncertain: a line end may be within a key, or between a word and a key. The text is therefore
//! searched from each break on, joined over one further break after the other.

use std::ops::Range;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::safety::redact::{RestPlace, rest_of_secret};
use crate::safety::utf8;

/// Numbers of breaks over which the text from a break on is joined. A key that is recognised by its length is found only if nothing
/// behind it is joined to it; those of more lines are longer ones, recognised by their form.
const JOINED: [usize; 12] = [0, 1, 2, 3, 4, 5, 6, 8, 12, 16, 32, 64];

/// Maximum length of a joined text, in bytes.
const MAX_JOINED: usize = 4 << 10;

/// What separates a piece of text from the one before it.
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
    /// What stands before it.
    pub gap: Gap,
    /// The text.
    pub text: String,
    /// Whether tags of HTML may stand in it, which are shown as text.
    pub is_html: bool,
}

impl Gap {
    /// Returns what is shown of it.
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
    /// What stands before it.
    gap: Gap,
    range: Range<usize>,
}

/// The shown text in parts.
#[derive(Debug)]
pub struct Segments<'t> {
    shown: &'t str,
    all: Vec<Segment>,
}

/// Parts of the shown text, joined.
#[derive(Debug, Default)]
pub struct JoinedText {
    /// The text.
    pub text: String,
    /// Where each part begins, and where it begins in the shown text.
    parts: Vec<(usize, usize)>,
    /// Length of the first part.
    pub first: usize,
}

impl JoinedText {
    fn push(&mut self, text: &str, place: usize) {
        self.parts.push((self.text.len(), place));
        self.text.push_str(text);
    }

    /// Returns where a range is in the shown text.
    pub fn shown(&self, range: &Range<usize>) -> Option<Range<usize>> {
        let place = |at: usize| {
            let part = self.parts.partition_point(|(here, _)| *here <= at);
            let (here, there) = self.parts.get(part.checked_sub(1)?)?;
            Some(there + at - here)
        };
        let text = self.text.get(range.clone())?;
        // A gap may be longer where it is shown.
        let end = range.start + text.trim_end().len();
        let start = range.end - text.trim_start().len();
        Some(place(start)?..place(end.checked_sub(1)?)? + 1)
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
        let mut is_tag = false;
        for piece in pieces {
            is_tag &= piece.is_html;
            close(&mut open, &mut gap, at, &mut all);
            gap = gap.max(piece.gap);
            at += piece.gap.shown().len();
            for c in piece.text.chars() {
                let is_open = c == '<' && skips_tags && piece.is_html;
                match c {
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

    /// Returns the text without what is not seen, with this text for the end of a line.
    pub fn seen(&self, line_end: &str) -> JoinedText {
        let mut joined = JoinedText::default();
        for segment in &self.all {
            let gap = match segment.gap {
                Gap::Line => line_end,
                gap => gap.shown(),
            };
            joined.push(gap, segment.range.start);
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

    /// Returns where a secret that ends at `end` in the shown text goes on to: behind breaks, and directly behind a mark, since a
    /// secret that was replaced in Markdown ended at its first mark-up.
    pub fn end_of_secret(&self, secret: &Range<usize>) -> usize {
        let mut end = secret.end;
        let mut n = self.all.partition_point(|segment| segment.range.end < end);
        let Some(segment) = self.all.get(n).filter(|segment| segment.range.start < end) else {
            return end;
        };
        if end < segment.range.end {
            let behind = self.shown.get(end..segment.range.end).unwrap_or_default();
            end += rest_of_secret(behind.as_bytes(), RestPlace::NextLine);
            if end < segment.range.end {
                return end;
            }
        }
        let text = self.shown.get(secret.clone());
        let mut is_wrapped = text.is_some_and(|text| text.contains('\n'));
        while let Some(next) = self.all.get(n + 1) {
            let text = self.text(next);
            let place = match next.gap {
                Gap::Block => break,
                Gap::None => RestPlace::SameWord,
                Gap::Line if is_wrapped => RestPlace::LaterLine,
                Gap::Line => RestPlace::NextLine,
            };
            let length = rest_of_secret(text.as_bytes(), place);
            if length == 0 {
                break;
            }
            end = next.range.start + length;
            if length < text.len() {
                break;
            }
            is_wrapped |= next.gap == Gap::Line;
            n += 1;
        }
        end
    }
}

/// Whether a character may stand within a word without being seen: also marks on other characters, and letters that are blank.
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
