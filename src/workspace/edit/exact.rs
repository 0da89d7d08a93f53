//! First stage: the text occurs as it was given. Line ends count as one character, whatever their bytes are.

use std::ops::Range;

use memchr::memmem;

use super::{EditOutcome, FoundEdit, MatchStage, StageResult, aligned, ambiguous};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::{ModelLine, OutputLine, TextFile, split_lines};

/// Maximum number of places that are counted.
const COUNTED_PLACES: usize = 1_000;

/// The text of a file with `\n` as line end, and where each of its lines begins.
struct LogicalText {
    text: Vec<u8>,
    starts: Vec<usize>,
}

impl LogicalText {
    fn of(file: &TextFile) -> LogicalText {
        let text = file.logical();
        let starts = std::iter::once(0)
            .chain(memchr::memchr_iter(b'\n', &text).map(|at| at + 1))
            .collect();
        LogicalText { text, starts }
    }

    /// Returns the index of the line that contains this offset.
    fn line_at(&self, offset: usize) -> usize {
        self.starts
            .partition_point(|start| *start <= offset)
            .saturating_sub(1)
    }

    fn start_of(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    /// Returns where a line ends, without its line end.
    fn end_of(&self, line: usize) -> usize {
        match self.starts.get(line + 1) {
            Some(next) => next - 1,
            None => self.text.len(),
        }
    }

    fn slice(&self, range: Range<usize>) -> &[u8] {
        self.text.get(range).unwrap_or_default()
    }

    /// Whether a place begins after a part of the indentation of its line, and ends with a line.
    fn begins_within_indentation(&self, place: usize, length: usize) -> bool {
        let before = self.slice(self.start_of(self.line_at(place))..place);
        let is_indent = !before.is_empty() && before.iter().all(|b| matches!(b, b' ' | b'\t'));
        let end = place + length;
        let is_whole = self
            .text
            .get(..end)
            .is_some_and(|text| text.ends_with(b"\n"))
            || matches!(self.text.get(end), None | Some(b'\n'));
        is_indent && is_whole
    }

    /// Returns what is replaced at a place: the text, and the indentation before lines that are removed.
    fn replaced(
        &self,
        place: usize,
        length: usize,
        old: &[ModelLine<'_>],
        new: &[ModelLine<'_>],
    ) -> Range<usize> {
        let is_widened = is_removal(old, new) && self.begins_within_indentation(place, length);
        let start = match is_widened {
            true => self.start_of(self.line_at(place)),
            false => place,
        };
        start..place + length
    }

    /// Returns where `text` occurs, overlapping places included.
    fn places(&self, text: &[u8]) -> Vec<usize> {
        let finder = memmem::Finder::new(text);
        let mut places = Vec::new();
        let mut from = 0;
        while places.len() < COUNTED_PLACES
            && let Some(found) = self.text.get(from..).and_then(|rest| finder.find(rest))
        {
            places.push(from + found);
            from += found + 1;
        }
        places
    }
}

/// Returns text of a model with `\n` as line end.
fn joined(lines: &[ModelLine<'_>]) -> Vec<u8> {
    let contents: Vec<&[u8]> = lines.iter().map(|line| line.content).collect();
    contents.join(&b'\n')
}

/// Returns the line in which the text occurs for the first time, outside of these lines.
pub(super) fn first_place(
    file: &TextFile,
    text: &[ModelLine<'_>],
    outside: &[Range<usize>],
) -> Option<usize> {
    let logical = LogicalText::of(file);
    let text = joined(text);
    let lines = |place: usize| logical.line_at(place)..logical.line_at(place + text.len()) + 1;
    let is_outside = |found: &Range<usize>| {
        let mut ranges = outside.iter();
        !ranges.any(|range| range.start <= found.start && found.end <= range.end)
    };
    let places = logical.places(&text).into_iter().map(lines);
    places.filter(is_outside).map(|found| found.start).next()
}

/// Whether a text is a part of another one.
pub(super) fn is_part(text: &[ModelLine<'_>], whole: &[ModelLine<'_>]) -> bool {
    memmem::find(&joined(whole), &joined(text)).is_some()
}

/// Finds the only exact occurrence. Returns as well whether each occurrence begins within the indentation of its line and
/// represents the whole line, so that it is exact only by chance.
pub(super) fn find(
    file: &TextFile,
    old: &[ModelLine<'_>],
    new: &[ModelLine<'_>],
) -> Result<(StageResult, bool), WorkspaceError> {
    let logical = LogicalText::of(file);
    let text = joined(old);
    let places = logical.places(&text);
    let begins_within = |place: &usize| logical.begins_within_indentation(*place, text.len());
    let is_chance = means_lines(old, new) && places.iter().all(begins_within);
    let place = match places.as_slice() {
        [] => return Ok((StageResult::Absent, false)),
        [place] => *place,
        several => {
            let lines = several.iter().map(|place| logical.line_at(*place));
            return Ok((StageResult::Ambiguous(lines.collect()), is_chance));
        }
    };
    let range = logical.replaced(place, text.len(), old, new);
    let found = in_lines(&logical, &[range], new, MatchStage::Exact)?;
    Ok((StageResult::Found(found), is_chance))
}

/// Whether a model means whole lines by a text that is found within the indentation of its line. A text without any indentation is
/// replaced as it is, like a part of a line, but a line that is removed leaves no indentation behind.
fn means_lines(old: &[ModelLine<'_>], new: &[ModelLine<'_>]) -> bool {
    let is_indented =
        |line: &ModelLine<'_>| line.content.starts_with(b" ") || line.content.starts_with(b"\t");
    old.first().is_some_and(is_indented) || is_removal(old, new)
}

/// Whether lines are removed, with the end of the last one.
fn is_removal(old: &[ModelLine<'_>], new: &[ModelLine<'_>]) -> bool {
    let ends_with_newline = old.len() > 1 && old.last().is_some_and(|line| line.content.is_empty());
    ends_with_newline && new.iter().all(|line| line.content.is_empty())
}

/// Replaces ranges of the text, in order and in adjoining lines, and returns the lines that they are in.
fn in_lines(
    logical: &LogicalText,
    ranges: &[Range<usize>],
    new: &[ModelLine<'_>],
    stage: MatchStage,
) -> Result<FoundEdit, WorkspaceError> {
    let (from, to) = match (ranges.first(), ranges.last()) {
        (Some(first), Some(last)) => (first.start, last.end),
        _ => (0, 0),
    };
    let (first, last) = (logical.line_at(from), logical.line_at(to));
    // The new version of the lines, in which a lone `\r` of the model stays one.
    let mut text = Vec::new();
    let mut at = logical.start_of(first);
    for range in ranges {
        text.extend_from_slice(logical.slice(at..range.start));
        for (index, line) in new.iter().enumerate() {
            text.extend_from_slice(line.content);
            if index + 1 < new.len() {
                text.push(if line.is_cr { b'\r' } else { b'\n' });
            }
        }
        at = range.end;
    }
    text.extend_from_slice(logical.slice(at..logical.end_of(last)));
    let old: Vec<&[u8]> = (first..=last)
        .map(|line| logical.slice(logical.start_of(line)..logical.end_of(line)))
        .collect();
    let lines = aligned(
        first,
        &old,
        &split_lines(&text),
        |line, _| Ok(line.to_vec()),
    )?;
    Ok(FoundEdit {
        stage,
        first,
        count: old.len(),
        lines,
    })
}

/// Replaces each occurrence. Occurrences that overlap are refused, because it depends on the order what would be left.
pub(super) fn replace_all(
    file: &TextFile,
    old: &[ModelLine<'_>],
    new: &[ModelLine<'_>],
) -> Result<EditOutcome, WorkspaceError> {
    let logical = LogicalText::of(file);
    let text = joined(old);
    let places: Vec<usize> = memmem::find_iter(&logical.text, &text).collect();
    if places.is_empty() {
        return Err(super::absent(file, old, new));
    }
    let overlapping = logical.places(&text);
    if overlapping.len() < COUNTED_PLACES && overlapping.len() != places.len() {
        let lines: Vec<usize> = overlapping.iter().map(|at| logical.line_at(*at)).collect();
        return Err(ambiguous(&lines).hint("the places overlap: give longer text"));
    }
    let mut lines: Vec<OutputLine> = Vec::new();
    let mut done = 0;
    let ranges = places.iter();
    let ranges: Vec<_> = ranges
        .map(|at| logical.replaced(*at, text.len(), old, new))
        .collect();
    // Places that share a line are replaced together.
    for group in ranges.chunk_by(|a, b| logical.line_at(a.end) >= logical.line_at(b.start)) {
        let found = in_lines(&logical, group, new, MatchStage::Exact)?;
        lines.extend((done..found.first).map(OutputLine::kept));
        lines.extend(found.lines);
        done = found.first + found.count;
    }
    lines.extend((done..file.line_count()).map(OutputLine::kept));
    Ok(EditOutcome {
        bytes: file.with_lines(&lines),
        stage: MatchStage::Exact,
        places: places.iter().map(|at| logical.line_at(*at) + 1).collect(),
    })
}
