//! Replaces one unique place of a text. The text to replace is looked up in four stages, each less strict than the one
//! before: exact; without trailing space; with another, uniform indentation; with other Unicode punctuation. The first stage
//! that finds anything decides: one place is replaced, several are refused. A place that is not exact must be the only one of all
//! stages. Pure.
//!
//! Lines that the replacement does not change keep every byte, and so do the line ends around it.

mod align;
mod exact;
mod indentation;
mod line_match;
mod nearest;
mod punctuation;

use std::fmt;
use std::ops::Range;

use align::aligned;
pub(super) use indentation::depth;
use line_match::find_lines;
pub(super) use line_match::{LineIndex, LineMatch, LineRule, MatchedText, SharedStyle};
pub(super) use nearest::excerpt_near;

use super::failure::WorkspaceError;
use super::text_file::{ModelLine, OutputLine, TextFile, split_lines};

/// Maximum number of places that a refusal lists.
const LISTED_PLACES: usize = 10;

/// What to do about lines with the numbers of `read_file`.
pub(super) const WITHOUT_NUMBERS: &str =
    "leave out the line numbers of read_file and the tab after them";

/// How the text to replace was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchStage {
    /// Byte for byte, line ends aside.
    Exact,
    /// With other trailing space.
    TrailingSpace,
    /// With another indentation, which differs in the same way in each line.
    Indentation,
    /// With other quotes, dashes or spaces.
    Punctuation,
}

impl fmt::Display for MatchStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MatchStage::Exact => "exactly",
            MatchStage::TrailingSpace => "apart from trailing space",
            MatchStage::Indentation => "apart from indentation",
            MatchStage::Punctuation => "apart from Unicode punctuation",
        })
    }
}

/// A replacement that a model asks for.
#[derive(Debug, Clone, Copy)]
pub struct EditRequest<'a> {
    /// Text to replace.
    pub old: &'a str,
    /// Text to put in its place.
    pub new: &'a str,
    /// Replaces each exact occurrence instead of a unique one.
    pub replace_all: bool,
}

/// An edited text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditOutcome {
    /// Bytes of the new version of the file.
    pub bytes: Vec<u8>,
    /// How the text was found.
    pub stage: MatchStage,
    /// Number of the line in which each replaced place begins, from 1.
    pub places: Vec<usize>,
}

/// A place that a stage found, with the lines that replace it.
struct FoundEdit {
    stage: MatchStage,
    /// First line of the place.
    first: usize,
    /// Number of lines of the old version that `lines` replace.
    count: usize,
    lines: Vec<OutputLine>,
}

/// Result of a stage.
enum StageResult {
    /// Nothing: the next stage is tried.
    Absent,
    /// Several places: their first lines, from 0.
    Ambiguous(Vec<usize>),
    /// One place.
    Found(FoundEdit),
}

/// Replaces text in a file.
///
/// # Errors
/// The text to replace is empty, absent or not unique, or the edit changes nothing.
pub fn edit(
    file: &TextFile,
    original: &[u8],
    request: EditRequest<'_>,
) -> Result<EditOutcome, WorkspaceError> {
    let old = without_mark(request.old);
    let new = without_mark(request.new);
    if old.is_empty() {
        return Err(WorkspaceError::new("the text to replace is empty")
            .hint("give the lines to replace; use write_file for a new file"));
    }
    if old == new {
        return Err(WorkspaceError::new(
            "the edit changes nothing: the old and the new text are the same",
        ));
    }
    file.check_new(new)?;
    let old_lines = split_lines(old.as_bytes());
    let new_lines = split_lines(new.as_bytes());
    let outcome = if request.replace_all {
        exact::replace_all(file, &old_lines, &new_lines)?
    } else {
        let found = find(file, &old_lines, &new_lines)?;
        match found {
            Some(found) => outcome(file, found),
            None => return Err(absent(file, &old_lines, &new_lines)),
        }
    };
    if outcome.bytes == original {
        return Err(WorkspaceError::new(
            "the edit changes nothing: the file already has the new text",
        )
        .hint("line ends, trailing space and punctuation of unchanged lines are kept; use write_file to change them"));
    }
    Ok(outcome)
}

fn find(
    file: &TextFile,
    old: &[ModelLine<'_>],
    new: &[ModelLine<'_>],
) -> Result<Option<FoundEdit>, WorkspaceError> {
    let (exact, is_in_indentation) = exact::find(file, old, new)?;
    match exact {
        StageResult::Absent => {}
        // How deep a line is indented counts for all lines: for the new ones, and for what is another place.
        _ if is_in_indentation => {}
        found => return unique(found),
    }
    let loose = |found| unique(only_place(file, old, found));
    if let Some(found) = find_whole_lines(file, old, new, false)? {
        return loose(found);
    }
    // The first line is given without its indentation, the others with theirs.
    if is_in_indentation {
        return unique(exact);
    }
    match punctuation::find(file, old, new)? {
        StageResult::Absent => {}
        found if is_made_already(file, old, new, MatchStage::Punctuation, &found) => {
            return Ok(None);
        }
        found => return loose(found),
    }
    let found = find_whole_lines(file, old, new, true)?;
    loose(found.unwrap_or(StageResult::Absent))
}

/// Returns a match that is not exact, unless the loosest rule finds other places as well: which of them differs least from the text says
/// little about which of them is meant.
fn only_place(file: &TextFile, old: &[ModelLine<'_>], found: StageResult) -> StageResult {
    let mut places = match &found {
        StageResult::Absent => return found,
        StageResult::Ambiguous(places) => places.clone(),
        StageResult::Found(found) => vec![found.first],
    };
    places.extend(line_match::loosest_places(file, old));
    places.sort_unstable();
    places.dedup();
    match places.len() {
        1 => found,
        _ => StageResult::Ambiguous(places),
    }
}

/// Finds whole lines that differ in trailing space or indentation, and returns what the first stage found that found any.
fn find_whole_lines(
    file: &TextFile,
    old: &[ModelLine<'_>],
    new: &[ModelLine<'_>],
    folded: bool,
) -> Result<Option<StageResult>, WorkspaceError> {
    for stage in [MatchStage::TrailingSpace, MatchStage::Indentation] {
        match line_match::find(file, old, new, stage, folded)? {
            StageResult::Absent => {}
            found if is_made_already(file, old, new, stage, &found) => {
                return Ok(Some(StageResult::Absent));
            }
            found => return Ok(Some(found)),
        }
    }
    Ok(None)
}

/// Whether the file has the new text exactly, outside of the match: several lines of it, or a whole line where only the
/// indentation of the old one differs. Then the edit was made before, and a text that is almost the old one is another place.
fn is_made_already(
    file: &TextFile,
    old: &[ModelLine<'_>],
    new: &[ModelLine<'_>],
    stage: MatchStage,
    found: &StageResult,
) -> bool {
    let lines = new.iter().map(|line| line.content);
    let lines: Vec<&[u8]> = lines.filter(|line| !line.trim_ascii().is_empty()).collect();
    // Lines of the place itself are there because the edit only removes some.
    let (starts, count) = match found {
        StageResult::Absent => (&[][..], 0),
        StageResult::Ambiguous(starts) => (&starts[..], old.len()),
        StageResult::Found(found) => (std::slice::from_ref(&found.first), found.count),
    };
    let ranges = starts.iter().map(|first| *first..first + count);
    let places: Vec<Range<usize>> = ranges.collect();
    match lines.as_slice() {
        [] => false,
        [line] => {
            let exact = LineRule {
                stage: MatchStage::Exact,
                folded: false,
            };
            let is_outside = |line: &usize| !places.iter().any(|place| place.contains(line));
            let is_place = || {
                let all = find_lines(file, &[line], 0..file.real_line_count(), exact);
                all.iter().any(is_outside)
            };
            // A line as `}` is everywhere.
            let has_word = line.iter().any(u8::is_ascii_alphanumeric);
            stage == MatchStage::Indentation && has_word && is_place()
        }
        _ => exact::first_place(file, new, &places).is_some(),
    }
}

fn unique(result: StageResult) -> Result<Option<FoundEdit>, WorkspaceError> {
    match result {
        StageResult::Absent => Ok(None),
        StageResult::Ambiguous(places) => Err(ambiguous(&places).hint(
            "add lines before or after it, so that only one place matches, or set replace_all",
        )),
        StageResult::Found(found) => Ok(Some(found)),
    }
}

fn outcome(file: &TextFile, found: FoundEdit) -> EditOutcome {
    let mut lines: Vec<OutputLine> = (0..found.first).map(OutputLine::kept).collect();
    lines.extend(found.lines);
    lines.extend((found.first + found.count..file.line_count()).map(OutputLine::kept));
    EditOutcome {
        bytes: file.with_lines(&lines),
        stage: found.stage,
        places: vec![found.first + 1],
    }
}

/// Returns the refusal of a text that occurs in several places, given by their first lines from 0.
pub(super) fn ambiguous(places: &[usize]) -> WorkspaceError {
    let numbers = |places: &[usize]| {
        let numbers: Vec<String> = places.iter().map(|line| (line + 1).to_string()).collect();
        numbers.join(", ")
    };
    // Texts that overlap, or that are parts of a line, may begin at the same one.
    let mut places = places.to_vec();
    places.dedup();
    if let [line] = *places {
        let line = line + 1;
        return WorkspaceError::new(format!(
            "the text to replace is not unique: it begins at several places of line {line}"
        ));
    }
    let listed = places.get(..LISTED_PLACES).unwrap_or(&places);
    let more = places.len() - listed.len();
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    WorkspaceError::new(format!(
        "the text to replace is not unique: it begins at lines {}{more}",
        numbers(listed)
    ))
}

fn absent(file: &TextFile, old: &[ModelLine<'_>], new: &[ModelLine<'_>]) -> WorkspaceError {
    let refusal = WorkspaceError::new("the text to replace is not in the file");
    let is_blank = |lines: &[ModelLine<'_>]| {
        lines
            .iter()
            .all(|line| line.content.trim_ascii().is_empty())
    };
    let refusal = if !is_blank(new)
        // A part of the old text may be there without the rest of it.
        && !exact::is_part(new, old)
        && let Some(line) = exact::first_place(file, new, &[])
    {
        refusal.hint(format!(
            "the new text is in the file already, at line {}: read the file again",
            line + 1
        ))
    } else if has_line_numbers(old.iter().map(|line| line.content)) {
        refusal.hint(WITHOUT_NUMBERS)
    } else {
        refusal.hint("read the file again and copy the text from it")
    };
    match excerpt_near(file, old) {
        Some(excerpt) => refusal.excerpt(excerpt),
        None => refusal,
    }
}

/// Whether each line begins with its number, as `read_file` shows it.
pub(super) fn has_line_numbers<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let is_numbered = |line: &[u8]| {
        let (number, text) = line.split_at(line.iter().position(|b| *b == b'\t').unwrap_or(0));
        let number = number.trim_ascii_start();
        !text.is_empty() && !number.is_empty() && number.iter().all(u8::is_ascii_digit)
    };
    let mut lines = lines
        .filter(|line| !line.trim_ascii().is_empty())
        .peekable();
    lines.peek().is_some() && lines.all(is_numbered)
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

#[cfg(test)]
mod tests;
