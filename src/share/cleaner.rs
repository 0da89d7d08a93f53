//! Removes secrets and own names from the text of a share, as its readers see it: text between its pieces is not shown.

use std::ops::Range;
use std::sync::Arc;

use super::segments::{JoinedText, Piece, Segments, shown};
use crate::safety::own_names::OwnNames;
use crate::safety::redact::{MARK_START, Redactor, is_joined_name, mark_length, may_be_value};

/// How often a text is decoded to look for what is encoded in it.
pub const MAX_ENCODED: usize = 4;

/// Removes secrets and own names, and counts them.
#[derive(Debug)]
pub struct Cleaner<'a> {
    names: &'a OwnNames,
    redactor: &'a Redactor,
    /// Number of marks of secrets in the cleaned text.
    pub secrets: usize,
    /// Number of own names that were replaced.
    pub own_names: usize,
}

/// A part of a text that is replaced.
#[derive(Debug)]
struct Hit {
    range: Range<usize>,
    replacement: String,
    /// What it is, if it is a secret.
    secret: Option<Arc<str>>,
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
            text: text.to_owned(),
            ..Piece::default()
        }];
        self.clean_pieces(&mut piece);
        let [piece] = piece;
        piece.text
    }

    /// Returns a text as one line without secrets and own names, of at most `max` characters. It is cut before a mark that does not fit
    /// in. Only what is replaced in the line is counted.
    pub fn clean_line(&mut self, text: &str, max: usize) -> String {
        let piece = Piece {
            text: text.to_owned(),
            ..Piece::default()
        };
        let (mut line, mut at) = (String::new(), 0);
        for hit in self.all_hits(&[piece]) {
            let is_full = !push_words(&mut line, text.get(at..hit.range.start), max);
            if is_full || line.chars().count() + hit.replacement.chars().count() > max {
                return line.trim_end().to_owned();
            }
            line.push_str(&hit.replacement);
            self.count(&hit);
            at = hit.range.end;
        }
        push_words(&mut line, text.get(at..), max);
        line.trim_end().to_owned()
    }

    /// Removes secrets and own names from the text that the pieces are together. What replaces a text in several pieces stands in
    /// the first.
    pub fn clean_pieces(&mut self, pieces: &mut [Piece]) {
        let hits = self.all_hits(pieces);
        for hit in &hits {
            self.count(hit);
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

    fn count(&mut self, hit: &Hit) {
        match hit.secret {
            Some(_) => self.secrets += 1,
            None => self.own_names += 1,
        }
    }

    /// Returns what is replaced in the text that the pieces are together, in order and without overlaps.
    fn all_hits(&self, pieces: &[Piece]) -> Vec<Hit> {
        let shown = shown(pieces);
        let mut hits = self.hits(&shown);
        hits.extend(marks(&shown));
        self.broken_hits(&Segments::new(&shown, pieces, false), &mut hits);
        if pieces.iter().any(|piece| piece.is_html) {
            self.broken_hits(&Segments::new(&shown, pieces, true), &mut hits);
        }
        merge(hits)
    }

    fn hits(&self, text: &str) -> Vec<Hit> {
        let secrets = self.redactor.find(text);
        let secrets = secrets.into_iter().map(|secret| Hit {
            replacement: secret.mark(),
            range: secret.range,
            secret: Some(secret.kind),
        });
        let names = self.names.find(text);
        let names = names.into_iter().map(|name| Hit {
            replacement: name.replacement.to_owned(),
            range: name.range,
            secret: None,
        });
        secrets.chain(names).collect()
    }

    /// Adds what a reader gets who copies the text: words are joined over the ends of lines, and what cannot be seen is dropped.
    fn broken_hits(&self, segments: &Segments<'_>, hits: &mut Vec<Hit>) {
        let seen = segments.seen(|_, _, _| false);
        let found = self.hits(&seen.text);
        // A value may be in the line after its name.
        let ends = found.iter().map(|hit| hit.range.end).collect::<Vec<_>>();
        let has_secret = |line: usize, length: usize| {
            let first = ends.partition_point(|end| *end <= line);
            ends.get(first).is_some_and(|end| *end <= line + length)
        };
        let named = segments.seen(|line, start, next| {
            line.ends_with([':', '='])
                && may_be_value(next)
                && !line.contains(MARK_START)
                && !has_secret(start, line.len())
        });
        if named.text != seen.text {
            hits.extend(
                self.hits(&named.text)
                    .into_iter()
                    .filter_map(|hit| hit.shown(&named)),
            );
        }
        hits.extend(found.into_iter().filter_map(|hit| hit.shown(&seen)));
        self.encoded_hits(&seen, hits);
        segments.joined(|joined| self.joined_hits(joined, hits));
        hits.sort_by_key(|hit| hit.range.start);
        // The rest of a secret may be long and have more hits.
        let mut reached = 0;
        for Hit { range, secret, .. } in hits.iter_mut() {
            let is_new = range.start >= reached || range.end > reached;
            if let Some(kind) = secret.as_deref().filter(|_| is_new) {
                range.end = segments.end_of_secret(range, kind);
                reached = reached.max(range.end);
            }
        }
    }

    /// Adds what is encoded in a text, as a link or JSON has it: an address within an address is encoded twice.
    fn encoded_hits(&self, seen: &JoinedText, hits: &mut Vec<Hit>) {
        let mut levels: Vec<JoinedText> = Vec::new();
        while levels.len() < MAX_ENCODED
            && let Some(decoded) = levels.last().unwrap_or(seen).decoded()
        {
            let found = self.hits(&decoded.text).into_iter();
            levels.push(decoded);
            hits.extend(found.filter_map(|hit| {
                let hit = levels
                    .iter()
                    .rev()
                    .try_fold(hit, |hit, level| hit.shown(level))?;
                hit.shown(seen)
            }));
        }
    }

    /// Adds what is found in a text that begins at a break. Returns whether more breaks may only add text after the secret.
    fn joined_hits(&self, joined: &JoinedText, hits: &mut Vec<Hit>) -> bool {
        let mut is_complete = false;
        for hit in self.hits(&joined.text) {
            let range = hit.range.clone();
            let is_joined = range.end > joined.first;
            let begins_first = range.start < joined.first;
            // Text after a mark is not more of its value unless it looks like the rest of it.
            let first = joined.text.get(range.start..joined.first);
            let rest = joined.text.get(joined.first..range.end);
            let is_name = |rest| {
                let kind = hit.secret.as_deref();
                kind.is_some_and(|kind| is_joined_name(kind, rest))
            };
            if first.is_some_and(|text| is_joined && text.contains(MARK_START))
                || rest.is_some_and(is_name)
            {
                continue;
            }
            if hit.secret.is_some() && begins_first {
                is_complete |= range.end == joined.text.len() || is_joined;
                hits.extend(hit.shown(joined));
            } else if begins_first && is_joined && is_whole_word(&joined.text, &range) {
                hits.extend(hit.shown(joined));
            }
        }
        is_complete
    }
}

impl Hit {
    /// Returns the hit where it is shown.
    fn shown(self, joined: &JoinedText) -> Option<Hit> {
        let range = joined.shown(&self.range)?;
        Some(Hit { range, ..self })
    }
}

/// Returns the marks of secrets that a text has already.
fn marks(text: &str) -> impl Iterator<Item = Hit> {
    text.match_indices('[').filter_map(|(at, _)| {
        let mark = text.get(at..at + mark_length(text.get(at..)?)?)?;
        Some(Hit {
            range: at..at + mark.len(),
            replacement: mark.to_owned(),
            secret: Some(mark.strip_prefix(MARK_START)?.trim_end_matches(']').into()),
        })
    })
}

/// Whether a range is neither directly preceded nor directly followed by a letter or digit.
fn is_whole_word(text: &str, range: &Range<usize>) -> bool {
    let before = text.get(..range.start).unwrap_or_default();
    let behind = text.get(range.end..).unwrap_or_default();
    !before.ends_with(char::is_alphanumeric) && !behind.starts_with(char::is_alphanumeric)
}

/// Appends the words of a text to a line of at most `max` characters, with one blank between them. Returns whether all of it fits in.
fn push_words(line: &mut String, text: Option<&str>, max: usize) -> bool {
    let mut length = line.chars().count();
    for c in text.unwrap_or_default().chars() {
        let is_blank = c.is_whitespace();
        if is_blank && (line.is_empty() || line.ends_with(' ')) {
            continue;
        }
        if length == max {
            return false;
        }
        line.push(if is_blank { ' ' } else { c });
        length += 1;
    }
    true
}

/// Returns the hits in order, those that overlap as one.
fn merge(mut hits: Vec<Hit>) -> Vec<Hit> {
    hits.sort_by_key(|hit| (hit.range.start, hit.secret.is_none()));
    let mut merged: Vec<Hit> = Vec::new();
    for hit in hits {
        match merged.last_mut() {
            Some(last) if hit.range.start < last.range.end => {
                let end = last.range.end.max(hit.range.end);
                let start = last.range.start;
                if hit.secret.is_some() && last.secret.is_none() {
                    *last = hit;
                }
                last.range = start..end;
            }
            _ => merged.push(hit),
        }
    }
    merged
}

#[cfg(test)]
mod tests;
