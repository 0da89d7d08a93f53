//! Finds the place of each hunk in a file, and makes the new version.

use std::collections::BTreeSet;
use std::iter::repeat;
use std::ops::Range;

use super::scope::{LineFinder, RULES, Scope, scopes};
use super::{HunkLine, PatchHunk, loosest};
use crate::workspace::edit::{
    LineMatch, MatchStage, MatchedText, SharedStyle, WITHOUT_NUMBERS, ambiguous, excerpt_near,
    has_line_numbers,
};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::{EndRule, LineContent, ModelLine, OutputLine, TextFile};

/// Maximum number of parts of a hunk that are looked up before the one without blank lines at its end.
const MAX_PARTS: usize = 8;

/// Where a hunk belongs.
struct HunkPlace<'a> {
    first: usize,
    /// The lines of the hunk that were looked up: without blank lines at its end that the file does not have.
    lines: &'a [HunkLine],
    /// Index of the rule by which they match.
    rule: usize,
    /// The lines are only added, at the end of the file.
    is_appended: bool,
}

/// Returns the new version of a file, and the loosest stage at which a hunk matched.
///
/// # Errors
/// A hunk fits nowhere or in several places.
pub(super) fn apply_hunks(
    file: &TextFile,
    hunks: &[PatchHunk],
) -> Result<(Vec<u8>, MatchStage), WorkspaceError> {
    let finder = LineFinder::new(file);
    let mut done = PlacedHunks {
        finder: &finder,
        next: 0,
        hunks: Vec::new(),
    };
    let mut places = Vec::new();
    let mut appended = Vec::new();
    for hunk in hunks {
        for line in &hunk.lines {
            if let HunkLine::Added(text) = line {
                file.check_new(text)?;
            }
        }
        let place = place(&finder, hunk, &done);
        let place = finder.check().and(place);
        let place = place.map_err(|error| error.of(number(hunk)))?;
        match place.is_appended {
            // Later hunks may be anywhere above.
            true => appended.push((hunk, place)),
            false => {
                done.next = place.first + old_lines(place.lines).len();
                done.hunks.push(place.first..done.next);
                places.push((hunk, place));
            }
        }
    }
    places.extend(appended);
    let texts: Vec<MatchedText<'_>> = places.iter().map(|(_, place)| place.text()).collect();
    let style = SharedStyle::of(file, &texts);
    let mut output = NewVersion {
        file,
        lines: Vec::new(),
        next: 0,
        ends_anew: false,
    };
    for ((hunk, place), text) in places.iter().zip(&texts) {
        output.keep_until(place.first);
        let matched = LineMatch::of(text, &style).ok_or_else(|| {
            WorkspaceError::new("its lines are in the file with another indentation, which differs from line to line")
                .hint("read the file again and copy the lines from it")
        });
        matched
            .and_then(|matched| output.hunk(place, &matched))
            .map_err(|error| error.of(number(hunk)))?;
    }
    output.keep_until(file.line_count());
    if output.ends_anew {
        output.lines.push(OutputLine {
            content: LineContent::New(Vec::new()),
            end: EndRule::FileStyle,
        });
    }
    let stages = texts.iter().map(|text| match text.rule.folded {
        true => MatchStage::Punctuation,
        false => text.rule.stage,
    });
    Ok((file.with_lines(&output.lines), loosest(stages)))
}

fn number(hunk: &PatchHunk) -> String {
    format!("hunk at line {} of the patch", hunk.line_number)
}

impl<'a> HunkPlace<'a> {
    fn text(&self) -> MatchedText<'a> {
        let added = self.lines.iter().filter_map(|line| match line {
            HunkLine::Added(text) => Some(text.as_bytes()),
            _ => None,
        });
        MatchedText {
            first: self.first,
            old: old_lines(self.lines),
            new: added.collect(),
            rule: RULES.get(self.rule).copied().unwrap_or(RULES[0]),
        }
    }
}

fn place<'a>(
    finder: &LineFinder<'_>,
    hunk: &'a PatchHunk,
    done: &PlacedHunks<'_>,
) -> Result<HunkPlace<'a>, WorkspaceError> {
    let is_above = |header: &[u8], rules| done.place_above(&[header], rules).is_some();
    let file = finder.file;
    let scopes = scopes(finder, hunk, done.next, is_above)?;
    let parts = parts(&hunk.lines);
    let mut ambiguous = None;
    for rule in 0..RULES.len() {
        // Lines that are almost the old ones are those of another place then.
        if rule == 1
            && let Some(line) = place_of_new(finder, &parts, &scopes)
        {
            return Err(absent(file, hunk).hint(format!(
                "its new lines are in the file already, at line {}: read the file again",
                line + 1
            )));
        }
        for (is_whole, lines) in [true].into_iter().chain(repeat(false)).zip(&parts) {
            let old = old_lines(lines);
            if old.is_empty() {
                return insertion(file, hunk, lines, &scopes);
            }
            if rule > 0 && old.iter().all(|line| line.trim_ascii().is_empty()) {
                continue;
            }
            match unique_place(finder, hunk, &old, &scopes, rule) {
                Ok(Some(first)) => {
                    if !is_whole && let Some(other) = whole_elsewhere(finder, hunk, &scopes, first)
                    {
                        return Err(not_unique(&[first, other]));
                    }
                    // Which of two places differs least from the lines says little about which of them is meant.
                    if rule > 0
                        && let Some(other) =
                            unique_place(finder, hunk, &old, &scopes, RULES.len() - 1)?
                        && other != first
                    {
                        return Err(not_unique(&[first.min(other), first.max(other)]));
                    }
                    // A stricter match above is more likely the intended one, and no hunk can be there now.
                    let mut headers = hunk.headers.first().into_iter();
                    let has_header = headers.all(|header| is_above(header.as_bytes(), RULES.len()));
                    return match done.place_above(&old, rule).filter(|_| has_header) {
                        Some(above) => Err(not_unique(&[above, first])),
                        None => Ok(HunkPlace {
                            first,
                            lines,
                            rule,
                            is_appended: false,
                        }),
                    };
                }
                Ok(None) => {}
                Err(error) if is_whole => return Err(error),
                Err(error) => ambiguous = ambiguous.or(Some(error)),
            }
        }
    }
    Err(ambiguous.unwrap_or_else(|| absent(file, hunk)))
}

/// Returns the place of the new lines of a hunk that adds some, in its scopes.
fn place_of_new(finder: &LineFinder<'_>, parts: &[&[HunkLine]], scopes: &[Scope]) -> Option<usize> {
    let lines = parts.last()?;
    let is_added =
        |line: &HunkLine| matches!(line, HunkLine::Added(text) if !text.trim().is_empty());
    if !lines.iter().any(is_added) {
        return None;
    }
    let new = lines.iter().filter_map(|line| match line {
        HunkLine::Context(text) | HunkLine::Added(text) => Some(text.as_bytes()),
        HunkLine::Removed(_) => None,
    });
    let new: Vec<&[u8]> = new.collect();
    let from = scopes.iter().map(|scope| scope.start).min()?;
    let all = finder.find(&new, from..finder.file.real_line_count(), 0);
    let mut found = scopes.iter().filter_map(|scope| scope.places(&all).first());
    found.next().copied()
}

/// Returns another place at which all lines of a hunk match by some rule, with the blank ones at its end.
fn whole_elsewhere(
    finder: &LineFinder<'_>,
    hunk: &PatchHunk,
    scopes: &[Scope],
    place: usize,
) -> Option<usize> {
    let old = old_lines(&hunk.lines);
    let found = (0..RULES.len()).find_map(|rule| {
        let found = unique_place(finder, hunk, &old, scopes, rule);
        found.ok().flatten()
    });
    found.filter(|found| *found != place)
}

/// Returns the lines of a hunk, and then fewer and fewer of the blank ones at its end: one before the next header is often not
/// meant as a line of the file.
///
/// The last part is the one without any of them; of those before it there are at most [`MAX_PARTS`], as each one costs a search
/// of the file.
fn parts(lines: &[HunkLine]) -> Vec<&[HunkLine]> {
    let mut parts = vec![lines];
    let mut lines = lines;
    while let [rest @ .., HunkLine::Context(last)] = lines
        && last.trim().is_empty()
    {
        if parts.len() > MAX_PARTS {
            parts.pop();
        }
        parts.push(rest);
        lines = rest;
    }
    parts
}

fn old_lines(lines: &[HunkLine]) -> Vec<&[u8]> {
    let old = lines.iter().filter_map(HunkLine::old);
    old.map(str::as_bytes).collect()
}

/// Returns the only place at which the lines match by this rule.
fn unique_place(
    finder: &LineFinder<'_>,
    hunk: &PatchHunk,
    old: &[&[u8]],
    scopes: &[Scope],
    rule: usize,
) -> Result<Option<usize>, WorkspaceError> {
    let file = finder.file;
    let end = file.real_line_count();
    let Some(from) = scopes.iter().map(|scope| scope.start).min() else {
        return Ok(None);
    };
    let last = scopes.iter().map(|scope| scope.end).max();
    // A hunk may begin with the line after its scope.
    let to = last.map_or(end, |last| (last + old.len()).min(end));
    let to = if hunk.at_end { end } else { to };
    let all = finder.find(old, from..to, rule);
    if hunk.at_end {
        // The hunk need not have the blank lines at the end.
        let is_blank = |line| file.line(line).trim_ascii().is_empty();
        let last = all.last().copied();
        return Ok(last.filter(|first| (first + old.len()..end).all(is_blank)));
    }
    let places = |all: &[usize], is_strict: bool| {
        let scopes = scopes.iter().filter(|scope| scope.is_strict == is_strict);
        let places = scopes.flat_map(|scope| scope.places(all).iter().copied());
        places.collect::<BTreeSet<usize>>()
    };
    let mut found = places(&all, true);
    // The lines fit a header and a line that is less like it equally badly.
    if !found.is_empty() && rule > 1 {
        found.extend(places(&all, false));
    }
    if found.is_empty() && rule < 2 {
        found = places(&all, false);
        // Below, where the header fits better, the lines may fit worse: either may be meant.
        if let Some(above) = found.first().copied() {
            let below = (0..RULES.len()).flat_map(|rule| {
                let all = finder.find(old, above + 1..to, rule);
                places(&all, true)
            });
            found.extend(below.take(1));
        }
    }
    match found.into_iter().collect::<Vec<_>>().as_slice() {
        [] => Ok(None),
        [first] => Ok(Some(*first)),
        several => Err(not_unique(several)),
    }
}

fn not_unique(places: &[usize]) -> WorkspaceError {
    ambiguous(places).hint(
        "add unchanged lines around the change, or an @@ line with a line of the file above it",
    )
}

/// Returns the place of lines that are only added: below the header, or at the end of the file.
fn insertion<'a>(
    file: &TextFile,
    hunk: &PatchHunk,
    lines: &'a [HunkLine],
    scopes: &[Scope],
) -> Result<HunkPlace<'a>, WorkspaceError> {
    let is_appended = hunk.headers.is_empty() || hunk.at_end;
    let headers = scopes.iter().filter(|scope| scope.is_strict);
    let headers: Vec<usize> = headers.map(|scope| scope.start).collect();
    let first = match (is_appended, headers.as_slice()) {
        (true, _) => file.real_line_count(),
        (false, [header]) => header + 1,
        (false, several) => return Err(not_unique(several)),
    };
    Ok(HunkPlace {
        first,
        lines,
        rule: 0,
        is_appended,
    })
}

fn absent(file: &TextFile, hunk: &PatchHunk) -> WorkspaceError {
    let old: Vec<ModelLine<'_>> = hunk
        .lines
        .iter()
        .filter_map(HunkLine::old)
        .map(|line| ModelLine {
            content: line.as_bytes(),
            is_cr: false,
        })
        .collect();
    let place = match hunk.headers.is_empty() {
        true => "in the file",
        false => "in the block of its @@ line",
    };
    let hint = match has_line_numbers(old.iter().map(|line| line.content)) {
        true => WITHOUT_NUMBERS,
        false => {
            "read the file again and copy the lines from it; hunks must be in the order of the file"
        }
    };
    let refusal =
        WorkspaceError::new(format!("its unchanged and removed lines are not {place}")).hint(hint);
    match excerpt_near(file, &old) {
        Some(excerpt) => refusal.excerpt(excerpt),
        None => refusal,
    }
}

/// The places of the hunks so far.
struct PlacedHunks<'a> {
    finder: &'a LineFinder<'a>,
    /// First line after them.
    next: usize,
    hunks: Vec<Range<usize>>,
}

impl PlacedHunks<'_> {
    /// Returns where these lines are above the next one, outside the hunks so far, by one of the first `rules` rules.
    fn place_above(&self, old: &[&[u8]], rules: usize) -> Option<usize> {
        let is_free = |first: &usize| {
            let end = first + old.len();
            let overlaps = |hunk: &Range<usize>| hunk.start < end && *first < hunk.end;
            !self.hunks.iter().any(overlaps)
        };
        let mut rules = 0..rules;
        rules.find_map(|rule| {
            let places = self.finder.find(old, 0..self.next, rule);
            places.into_iter().find(is_free)
        })
    }
}

/// The new version of a file while its hunks are applied in order.
struct NewVersion<'a> {
    file: &'a TextFile,
    lines: Vec<OutputLine>,
    /// First line of the old version that is not dealt with yet.
    next: usize,
    /// The last line gets an end, which that of the old version does not have.
    ends_anew: bool,
}

impl NewVersion<'_> {
    fn keep_until(&mut self, line: usize) {
        while self.next < line {
            self.lines.push(OutputLine::kept(self.next));
            self.next += 1;
        }
    }

    fn hunk(
        &mut self,
        place: &HunkPlace<'_>,
        matched: &LineMatch<'_>,
    ) -> Result<(), WorkspaceError> {
        let added = |line: &HunkLine| matches!(line, HunkLine::Added(_));
        let old = old_lines(place.lines);
        // Whether the last line of the file, which has no end, is among the lines of the hunk.
        let is_last = place.first + old.len() == self.file.line_count();
        let mut removed = Vec::new();
        let mut used_up = 0;
        let mut surplus = 0;
        for line in place.lines {
            match line {
                HunkLine::Context(_) => {
                    self.lines.push(OutputLine::kept(self.next));
                    self.next += 1;
                    (removed, used_up, surplus) = (Vec::new(), 0, 0);
                }
                HunkLine::Removed(_) => {
                    removed.push(self.next - place.first);
                    self.next += 1;
                }
                HunkLine::Added(text) => {
                    let counterpart = removed.get(used_up).copied();
                    used_up += 1;
                    surplus += usize::from(counterpart.is_none());
                    self.lines.push(OutputLine {
                        content: LineContent::New(matched.render(text.as_bytes(), counterpart)?),
                        end: match counterpart {
                            Some(old) => EndRule::Of(place.first + old),
                            None => EndRule::FileStyle,
                        },
                    });
                }
            }
        }
        let ends_with_added = place.lines.last().is_some_and(added);
        let ends_with_removed = matches!(place.lines.last(), Some(HunkLine::Removed(_)));
        // Lines that are added after the last one get an end, and so does what is left when the last one is removed.
        self.ends_anew |=
            is_last && (ends_with_added && surplus > 0 || ends_with_removed && used_up == 0);
        Ok(())
    }
}
