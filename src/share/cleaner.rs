//! Removes secrets and own names from the text of a share, as its readers see it: what stands between its pieces is not shown.

use std::ops::Range;

use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

use crate::safety::own_names::OwnNames;
use crate::safety::redact::Redactor;

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
}

/// Removes secrets and own names, and counts them.
#[derive(Debug)]
pub struct Cleaner<'a> {
    names: &'a OwnNames,
    redactor: &'a Redactor,
    /// Number of marks of secrets in what was cleaned.
    pub secrets: usize,
    /// Number of own names that were replaced.
    pub own_names: usize,
}

/// What is replaced in a text.
#[derive(Debug)]
struct Hit {
    range: Range<usize>,
    replacement: String,
    is_secret: bool,
}

/// The text of pieces without ends of lines between them and without hidden characters.
#[derive(Debug, Default)]
struct CopiedText {
    text: String,
    /// Where each part begins, and where it begins in the text as it is shown.
    parts: Vec<(usize, usize)>,
}

impl<'a> Cleaner<'a> {
    /// Returns a cleaner for these names, with what the redactor knows.
    pub fn new(names: &'a OwnNames, redactor: &'a Redactor) -> Cleaner<'a> {
        Cleaner {
            names,
            redactor,
            secrets: 0,
            own_names: 0,
        }
    }

    /// Returns a text without secrets and own names.
    pub fn clean(&mut self, text: &str) -> String {
        let mut piece = [Piece {
            gap: Gap::None,
            text: text.to_owned(),
        }];
        self.clean_pieces(&mut piece);
        let [piece] = piece;
        piece.text
    }

    /// Removes secrets and own names from the text that the pieces are together. What replaces a text in several pieces stands in
    /// the first.
    pub fn clean_pieces(&mut self, pieces: &mut [Piece]) {
        let shown = shown(pieces);
        let mut hits = self.hits(&shown);
        // A reader who copies a word joins its lines, and drops what cannot be seen.
        let copied = CopiedText::new(pieces);
        if copied.text != shown {
            let found = self.hits(&copied.text).into_iter();
            hits.extend(found.filter_map(|hit| copied.spread(hit)));
        }
        let hits = merge(hits);
        self.secrets += shown.matches("[REDACTED").count();
        for hit in &hits {
            match hit.is_secret {
                true => self.secrets += 1,
                false => self.own_names += 1,
            }
        }
        let (mut start, mut next, mut is_placed) = (0, 0, false);
        for piece in pieces {
            start += piece.gap.shown().len();
            let end = start + piece.text.len();
            let text = |range: Range<usize>| {
                let range = range.start.saturating_sub(start)..range.end.saturating_sub(start);
                piece.text.get(range).unwrap_or_default()
            };
            let (mut kept, mut at) = (String::new(), start);
            while let Some(hit) = hits.get(next).filter(|hit| hit.range.start < end) {
                kept.push_str(text(at..hit.range.start));
                if !is_placed {
                    kept.push_str(&hit.replacement);
                }
                at = hit.range.end.min(end).max(at);
                // The rest of it is in the next piece.
                is_placed = hit.range.end > end;
                if is_placed {
                    break;
                }
                next += 1;
            }
            kept.push_str(text(at..end));
            piece.text = kept;
            start = end;
        }
    }

    fn hits(&self, text: &str) -> Vec<Hit> {
        let secrets = self.redactor.find(text);
        let secrets = secrets.into_iter().map(|secret| Hit {
            replacement: secret.mark(),
            range: secret.range,
            is_secret: true,
        });
        let names = self.names.find(text);
        let names = names.into_iter().map(|name| Hit {
            replacement: name.replacement.to_owned(),
            range: name.range,
            is_secret: false,
        });
        secrets.chain(names).collect()
    }
}

impl Gap {
    fn shown(self) -> &'static str {
        match self {
            Gap::None => "",
            Gap::Line => "\n",
            Gap::Block => "\n\n",
        }
    }
}

impl CopiedText {
    fn push(&mut self, text: &str, place: usize) {
        self.parts.push((self.text.len(), place));
        self.text.push_str(text);
    }

    fn new(pieces: &[Piece]) -> CopiedText {
        let mut joined = CopiedText::default();
        let mut place = 0;
        for piece in pieces {
            if piece.gap == Gap::Block {
                joined.push(piece.gap.shown(), place);
            }
            place += piece.gap.shown().len();
            let mut rest = &*piece.text;
            while let Some(at) = rest.find(is_hidden) {
                let (before, from) = rest.split_at(at);
                joined.push(before, place);
                let hidden = from.chars().next().map_or(0, char::len_utf8);
                place += at + hidden;
                rest = from.get(hidden..).unwrap_or_default();
            }
            joined.push(rest, place);
            place += rest.len();
        }
        joined
    }

    /// Returns a hit where it is shown; `None` if it is shown as one.
    fn spread(&self, hit: Hit) -> Option<Hit> {
        let place = |at: usize| {
            let part = self.parts.partition_point(|(here, _)| *here <= at);
            let (here, there) = self.parts.get(part.checked_sub(1)?)?;
            Some(there + at - here)
        };
        let range = place(hit.range.start)?..place(hit.range.end.checked_sub(1)?)? + 1;
        (range.len() > hit.range.len()).then_some(Hit { range, ..hit })
    }
}

/// Returns the text of the pieces as it is shown.
fn shown(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        text.push_str(piece.gap.shown());
        text.push_str(&piece.text);
    }
    text
}

/// Returns the hits in order, those that overlap as one.
fn merge(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by_key(|hit| (hit.range.start, !hit.is_secret));
    let mut merged: Vec<Hit> = Vec::new();
    for hit in hits {
        match merged.last_mut() {
            Some(last) if hit.range.start < last.range.end => {
                let end = last.range.end.max(hit.range.end);
                let start = last.range.start;
                if hit.is_secret && !last.is_secret {
                    *last = hit;
                }
                last.range = start..end;
            }
            _ => merged.push(hit),
        }
    }
    merged
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
