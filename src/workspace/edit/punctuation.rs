//! Quotes, dashes and spaces that look alike: models write one for another.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use memchr::memmem;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{FoundEdit, MatchStage, StageResult, aligned};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::{ModelLine, TextFile, split_lines};

/// Maximum number of characters of a changed line, old and new, that are compared.
const COMPARED_CHARACTERS: usize = 4_000;

/// Returns the ASCII text that a punctuation character replaces.
fn ascii_of(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}'..='\u{201B}' | '\u{2032}' | '\u{2035}' | '\u{02BC}' => "'",
        '\u{201C}'..='\u{201F}' | '\u{2033}' | '\u{2036}' | '\u{00AB}' | '\u{00BB}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "-",
        '\u{00A0}' | '\u{2002}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => " ",
        '\u{2026}' => "...",
        _ => return None,
    })
}

/// A character of a line, or bytes that are not UTF-8, with the text that it is compared as.
struct FoldedUnit<'a> {
    bytes: &'a [u8],
    character: Option<char>,
    folded: Cow<'a, [u8]>,
}

fn units(line: &[u8]) -> impl Iterator<Item = FoldedUnit<'_>> {
    line.utf8_chunks().flat_map(|chunk| {
        let valid = chunk.valid();
        let characters = valid.char_indices().map(move |(at, c)| {
            let bytes = valid
                .as_bytes()
                .get(at..at + c.len_utf8())
                .unwrap_or_default();
            FoldedUnit {
                bytes,
                character: Some(c),
                folded: Cow::Borrowed(ascii_of(c).map_or(bytes, str::as_bytes)),
            }
        });
        let invalid = Some(chunk.invalid()).filter(|bytes| !bytes.is_empty());
        characters.chain(invalid.map(|bytes| FoldedUnit {
            bytes,
            character: None,
            folded: Cow::Borrowed(bytes),
        }))
    })
}

/// Returns a line with ASCII punctuation.
pub(super) fn fold(line: &[u8]) -> Cow<'_, [u8]> {
    if line.is_ascii() || units(line).all(|unit| unit.bytes == &*unit.folded) {
        return Cow::Borrowed(line);
    }
    Cow::Owned(
        units(line)
            .flat_map(|unit| unit.folded.into_owned())
            .collect(),
    )
}

/// Which character the file has where the model wrote another one.
#[derive(Debug, Default)]
pub(super) struct PunctuationMap {
    /// Nothing for a character for which the file has different ones.
    characters: BTreeMap<char, Option<char>>,
    /// The typographic characters of the file.
    in_file: BTreeSet<char>,
}

impl PunctuationMap {
    /// Creates a map that has learned nothing yet, for new text of this file.
    pub fn of(file: &TextFile) -> PunctuationMap {
        let lines = (0..file.line_count()).map(|index| file.line(index));
        let characters = lines
            .filter(|line| !line.is_ascii())
            .flat_map(units)
            .filter_map(|unit| unit.character);
        PunctuationMap {
            characters: BTreeMap::new(),
            in_file: characters.filter(|c| ascii_of(*c).is_some()).collect(),
        }
    }

    /// Learns from a line of the model and the line of the file that it matched.
    pub fn add(&mut self, model: &[u8], file: &[u8]) {
        let Some(pairs) = paired(model, file) else {
            return;
        };
        for (model, file) in pairs {
            let (Some(from), Some(to)) = (model.character, file.character) else {
                continue;
            };
            if ascii_of(from).is_some() {
                let known = self.characters.entry(from).or_insert(Some(to));
                if *known != Some(to) {
                    *known = None;
                }
            }
        }
    }

    /// Returns new text of the model with the punctuation of the file. ASCII characters stay: it is not known which of them
    /// replace others.
    pub fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut mapped = Vec::with_capacity(text.len());
        // The model has written typographic characters where the file has others, and does so in new text, too.
        let folds = !self.characters.is_empty();
        for unit in units(text) {
            let known = unit
                .character
                .and_then(|c| self.characters.get(&c).copied().flatten());
            match known {
                Some(c) => mapped.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                None if folds && unit.character.is_some_and(|c| !self.in_file.contains(&c)) => {
                    mapped.extend_from_slice(&unit.folded);
                }
                None => mapped.extend_from_slice(unit.bytes),
            }
        }
        mapped
    }
}

/// Returns the characters of a line, of which three dots are one, as an ellipsis is.
fn characters(line: &[u8]) -> Vec<FoldedUnit<'_>> {
    let mut found: Vec<FoldedUnit<'_>> = Vec::new();
    let mut at = 0;
    let mut dots = 0;
    for unit in units(line) {
        at += unit.bytes.len();
        dots = if unit.bytes == b"." { dots + 1 } else { 0 };
        found.push(unit);
        if dots == 3 {
            dots = 0;
            found.truncate(found.len().saturating_sub(3));
            let bytes = line.get(at.saturating_sub(3)..at).unwrap_or_default();
            found.push(FoldedUnit {
                bytes,
                character: None,
                folded: Cow::Borrowed(bytes),
            });
        }
    }
    found
}

/// Pairs the characters of two lines that are equal when folded; nothing if they differ in number.
fn paired<'a>(model: &'a [u8], file: &'a [u8]) -> Option<Vec<(FoldedUnit<'a>, FoldedUnit<'a>)>> {
    let (model, file) = (characters(model), characters(file));
    let is_same =
        model.len() == file.len() && model.iter().zip(&file).all(|(a, b)| a.folded == b.folded);
    is_same.then(|| model.into_iter().zip(file).collect())
}

/// Returns a changed line in which the characters that the model left alone are those of the file.
pub(super) fn carry_over(file: &[u8], old: &[u8], new: &[u8], map: &PunctuationMap) -> Vec<u8> {
    let Some(pairs) = paired(old, file) else {
        return map.apply(new);
    };
    let new = characters(new);
    let old_bytes: Vec<&[u8]> = pairs.iter().map(|(old, _)| old.bytes).collect();
    let new_bytes: Vec<&[u8]> = new.iter().map(|unit| unit.bytes).collect();
    if old_bytes.len() + new_bytes.len() > COMPARED_CHARACTERS {
        return map.apply(&new_bytes.concat());
    }
    let mut line = Vec::new();
    for operation in capture_diff_slices(Algorithm::Myers, &old_bytes, &new_bytes) {
        if let DiffOp::Equal { .. } = operation {
            let kept = pairs.get(operation.old_range()).unwrap_or_default();
            kept.iter()
                .for_each(|(_, file)| line.extend_from_slice(file.bytes));
        } else {
            let added = new_bytes.get(operation.new_range()).unwrap_or_default();
            line.extend(map.apply(&added.concat()));
        }
    }
    line
}

/// Returns the offset in a line that corresponds to an offset in its folded text.
fn unfolded_offset(line: &[u8], offset: usize) -> Option<usize> {
    let (mut folded, mut original) = (0, 0);
    for unit in units(line) {
        if folded >= offset {
            break;
        }
        folded += unit.folded.len();
        original += unit.bytes.len();
    }
    (folded == offset).then_some(original)
}

/// Finds the only place that is equal but for punctuation; it need not consist of whole lines.
pub(super) fn find(
    file: &TextFile,
    old: &[ModelLine<'_>],
    new: &[ModelLine<'_>],
) -> Result<StageResult, WorkspaceError> {
    let lines: Vec<Cow<'_, [u8]>> = (0..file.line_count())
        .map(|index| fold(file.line(index)))
        .collect();
    let wanted: Vec<Cow<'_, [u8]>> = old.iter().map(|line| fold(line.content)).collect();
    let is_ascii =
        |lines: &[Cow<'_, [u8]>]| lines.iter().all(|line| matches!(line, Cow::Borrowed(_)));
    if is_ascii(&lines) && is_ascii(&wanted)
        || wanted.iter().all(|line| line.trim_ascii().is_empty())
    {
        return Ok(StageResult::Absent);
    }
    let places = places(&lines, &wanted);
    let (first, start) = match places.as_slice() {
        [] => return Ok(StageResult::Absent),
        [place] => *place,
        several => {
            return Ok(StageResult::Ambiguous(
                several.iter().map(|(line, _)| *line).collect(),
            ));
        }
    };
    let last = first + wanted.len() - 1;
    let end =
        wanted.last().map_or(0, |line| line.len()) + if wanted.len() == 1 { start } else { 0 };
    let (Some(start), Some(end)) = (
        unfolded_offset(file.line(first), start),
        unfolded_offset(file.line(last), end),
    ) else {
        return Ok(StageResult::Absent);
    };
    let before = file.line(first).get(..start).unwrap_or_default();
    let behind = file.line(last).get(end..).unwrap_or_default();
    let whole = |lines: &[ModelLine<'_>]| {
        let mut text = before.to_vec();
        for (index, line) in lines.iter().enumerate() {
            text.extend_from_slice(line.content);
            if index + 1 < lines.len() {
                text.push(if line.is_cr { b'\r' } else { b'\n' });
            }
        }
        text.extend_from_slice(behind);
        text
    };
    let (old_text, new_text) = (whole(old), whole(new));
    let old_lines: Vec<&[u8]> = split_lines(&old_text)
        .iter()
        .map(|line| line.content)
        .collect();
    let mut map = PunctuationMap::of(file);
    for (index, line) in old_lines.iter().enumerate() {
        map.add(line, file.line(first + index));
    }
    let lines = aligned(
        first,
        &old_lines,
        &split_lines(&new_text),
        |line, counterpart| {
            Ok(
                match counterpart.and_then(|index| old_lines.get(index).map(|old| (index, old))) {
                    Some((index, old)) => carry_over(file.line(first + index), old, line, &map),
                    None => map.apply(line),
                },
            )
        },
    )?;
    Ok(StageResult::Found(FoundEdit {
        stage: MatchStage::Punctuation,
        first,
        count: old_lines.len(),
        lines,
    }))
}

/// Returns the line and the offset in it of each place that has these lines.
fn places(lines: &[Cow<'_, [u8]>], wanted: &[Cow<'_, [u8]>]) -> Vec<(usize, usize)> {
    let mut places = Vec::new();
    if let [only] = wanted {
        let finder = memmem::Finder::new(only);
        for (index, line) in lines.iter().enumerate() {
            let mut from = 0;
            while let Some(found) = line.get(from..).and_then(|rest| finder.find(rest)) {
                places.push((index, from + found));
                from += found + 1;
            }
        }
    } else if let [head, middle @ .., tail] = wanted {
        for (index, window) in lines.windows(wanted.len()).enumerate() {
            if let [first, between @ .., last] = window
                && first.ends_with(head)
                && between == middle
                && last.starts_with(tail)
            {
                places.push((index, first.len() - head.len()));
            }
        }
    }
    places
}
