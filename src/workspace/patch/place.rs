//! Finds the place of each hunk in a file, and makes the new version.

use std::iter::repeat;
use std::ops::Range;

use super::{HunkLine, PatchHunk, loosest};
use crate::workspace::edit::{
    LineMatch, LineRule, MatchStage, ambiguous, excerpt_near, find_lines,
};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::{EndRule, LineContent, ModelLine, OutputLine, TextFile};

/// How strictly lines are compared, the strictest first.
const RULES: [LineRule; 5] = [
    rule(MatchStage::Exact, false),
    rule(MatchStage::TrailingSpace, false),
    rule(MatchStage::Indentation, false),
    rule(MatchStage::TrailingSpace, true),
    rule(MatchStage::Indentation, true),
];

const fn rule(stage: MatchStage, folded: bool) -> LineRule {
    LineRule { stage, folded }
}

/// Maximum number of parts of a hunk that are looked up before the one without blank lines at its end.
const MAX_PARTS: usize = 8;

/// Where a hunk belongs.
struct HunkPlace<'a> {
    first: usize,
    /// The lines of the hunk that were looked up: without blank lines at its end that the file does not have.
    lines: &'a [HunkLine],
    rule: LineRule,
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
    let mut output = NewVersion {
        file,
        lines: Vec::new(),
        next: 0,
        hunks: Vec::new(),
        ends_anew: false,
    };
    let mut stages = Vec::new();
    let mut appended = Vec::new();
    for hunk in hunks {
        for line in &hunk.lines {
            if let HunkLine::Added(text) = line {
                file.check_new(text)?;
            }
        }
        let place = place(file, hunk, &output).map_err(|error| {
            error.of(format_args!(
                "hunk at line {} of the patch",
                hunk.line_number
            ))
        })?;
        stages.push(match place.rule.folded {
            true => MatchStage::Punctuation,
            false => place.rule.stage,
        });
        match place.is_appended {
            // Later hunks may be anywhere above.
            true => appended.push(place),
            false => {
                output.keep_until(place.first);
                output.hunk(&place)?;
            }
        }
    }
    for place in appended {
        output.keep_until(place.first);
        output.hunk(&place)?;
    }
    output.keep_until(file.line_count());
    if output.ends_anew {
        output.lines.push(OutputLine {
            content: LineContent::New(Vec::new()),
            end: EndRule::FileStyle,
        });
    }
    Ok((file.with_lines(&output.lines), loosest(stages)))
}

fn place<'a>(
    file: &TextFile,
    hunk: &'a PatchHunk,
    done: &NewVersion<'_>,
) -> Result<HunkPlace<'a>, WorkspaceError> {
    let starts = starts(file, &hunk.headers, done)?;
    let parts = parts(&hunk.lines);
    let mut ambiguous = None;
    for (index, rule) in RULES.into_iter().enumerate() {
        for (is_whole, lines) in [true].into_iter().chain(repeat(false)).zip(&parts) {
            let old = old_lines(lines);
            if old.is_empty() {
                return insertion(file, hunk, lines, &starts);
            }
            if index > 0 && old.iter().all(|line| line.trim_ascii().is_empty()) {
                continue;
            }
            match unique_place(file, hunk, &old, &starts, rule) {
                Ok(Some(first)) => {
                    if !is_whole && let Some(other) = whole_elsewhere(file, hunk, &starts, first) {
                        return Err(not_unique(&[first, other]));
                    }
                    // A stricter match above is rather what is meant, and no hunk can be there any more.
                    let is_above = hunk.headers.is_empty() && done.has_above(&old, index);
                    return match is_above {
                        true => Err(absent(file, hunk)),
                        false => Ok(HunkPlace {
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

/// Returns another place at which all lines of a hunk match by some rule, with the blank ones at its end.
fn whole_elsewhere(
    file: &TextFile,
    hunk: &PatchHunk,
    starts: &[usize],
    place: usize,
) -> Option<usize> {
    let old = old_lines(&hunk.lines);
    let found = RULES.into_iter().find_map(|rule| {
        let found = unique_place(file, hunk, &old, starts, rule);
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

/// Returns the lines below which a hunk is, one for each place that its headers fit.
fn starts(
    file: &TextFile,
    headers: &[String],
    done: &NewVersion<'_>,
) -> Result<Vec<usize>, WorkspaceError> {
    let Some((first, narrower)) = headers.split_first() else {
        return Ok(vec![done.next]);
    };
    let (mut starts, rule) = header_places(file, first, done.next)?;
    if done.has_above(&[first.as_bytes()], rule) {
        return Err(no_header(first));
    }
    for header in narrower {
        let mut narrowed = Vec::new();
        for start in starts {
            // The nearest one: the headers name a block and then a block inside it.
            let places = header_places(file, header, start + 1);
            narrowed.extend(places.ok().and_then(|(places, _)| places.first().copied()));
        }
        if narrowed.is_empty() {
            return Err(no_header(header));
        }
        starts = narrowed;
    }
    Ok(starts)
}

/// Returns the places of a header from a line on, and the index of the rule by which it matches.
fn header_places(
    file: &TextFile,
    header: &str,
    from: usize,
) -> Result<(Vec<usize>, usize), WorkspaceError> {
    let wanted = [header.as_bytes()];
    let range = from..file.real_line_count();
    let places = RULES.iter().enumerate().map(|(index, rule)| {
        let places = find_lines(file, &wanted, range.clone(), *rule);
        (places, index)
    });
    let mut found = places.filter(|(places, _)| !places.is_empty());
    found.next().ok_or_else(|| no_header(header))
}

fn no_header(header: &str) -> WorkspaceError {
    let header: String = header.trim().chars().take(80).collect();
    WorkspaceError::new(format!("the line behind @@ is not in the file: {header}"))
        .hint("the text behind @@ is a whole line of the file above the change, after the place of the hunk before")
}

/// Returns the only place at which the lines match by this rule.
fn unique_place(
    file: &TextFile,
    hunk: &PatchHunk,
    old: &[&[u8]],
    starts: &[usize],
    rule: LineRule,
) -> Result<Option<usize>, WorkspaceError> {
    let end = file.real_line_count();
    let Some(from) = starts.first().copied() else {
        return Ok(None);
    };
    let all = find_lines(file, old, from..end, rule);
    if hunk.at_end {
        let last = all.last().copied();
        return Ok(last.filter(|first| first + old.len() == end));
    }
    if hunk.headers.is_empty() {
        return match all.as_slice() {
            [] => Ok(None),
            [first] => Ok(Some(*first)),
            several => Err(not_unique(several)),
        };
    }
    // The first place below each header. Models repeat the header as the first line of the hunk.
    let below = |header: usize| {
        let strictly = all.iter().find(|first| **first > header);
        all.iter()
            .find(|first| **first == header)
            .or(strictly)
            .copied()
    };
    let mut places: Vec<usize> = starts.iter().filter_map(|header| below(*header)).collect();
    places.dedup();
    match places.as_slice() {
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
    starts: &[usize],
) -> Result<HunkPlace<'a>, WorkspaceError> {
    let is_appended = hunk.headers.is_empty() || hunk.at_end;
    let first = match (is_appended, starts) {
        (true, _) => file.real_line_count(),
        (false, [header]) => header + 1,
        (false, several) => return Err(not_unique(several)),
    };
    Ok(HunkPlace {
        first,
        lines,
        rule: RULES[0],
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
    let refusal = WorkspaceError::new("its unchanged and removed lines are not in the file").hint(
        "read the file again and copy the lines from it; hunks must be in the order of the file",
    );
    match excerpt_near(file, &old) {
        Some(excerpt) => refusal.excerpt(excerpt),
        None => refusal,
    }
}

/// The new version of a file while its hunks are applied in order.
struct NewVersion<'a> {
    file: &'a TextFile,
    lines: Vec<OutputLine>,
    /// First line of the old version that is not dealt with yet.
    next: usize,
    /// The lines of the old version that hunks have.
    hunks: Vec<Range<usize>>,
    /// The last line gets an end, which that of the old version does not have.
    ends_anew: bool,
}

impl NewVersion<'_> {
    /// Whether these lines are above the next one, outside the hunks so far, by one of the first `rules` rules.
    fn has_above(&self, old: &[&[u8]], rules: usize) -> bool {
        let is_free = |first: &usize| {
            let end = first + old.len();
            let overlaps = |hunk: &Range<usize>| hunk.start < end && *first < hunk.end;
            !self.hunks.iter().any(overlaps)
        };
        let mut rules = RULES.iter().take(rules);
        rules.any(|rule| {
            find_lines(self.file, old, 0..self.next, *rule)
                .iter()
                .any(is_free)
        })
    }

    fn keep_until(&mut self, line: usize) {
        while self.next < line {
            self.lines.push(OutputLine::kept(self.next));
            self.next += 1;
        }
    }

    fn hunk(&mut self, place: &HunkPlace<'_>) -> Result<(), WorkspaceError> {
        let old: Vec<&[u8]> = place
            .lines
            .iter()
            .filter_map(HunkLine::old)
            .map(str::as_bytes)
            .collect();
        let added = |line: &HunkLine| matches!(line, HunkLine::Added(_));
        let new: Vec<&[u8]> = place
            .lines
            .iter()
            .filter(|line| added(line))
            .map(|line| match line {
                HunkLine::Context(text) | HunkLine::Removed(text) | HunkLine::Added(text) => {
                    text.as_bytes()
                }
            })
            .collect();
        let matched = LineMatch::at(self.file, place.first, &old, &new, place.rule).ok_or_else(|| {
            WorkspaceError::new("its lines are in the file with another indentation, which differs from line to line")
                .hint("read the file again and copy the lines from it")
        })?;
        self.hunks.push(place.first..place.first + old.len());
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
        // Lines that are added behind the last one get an end, and so does what is left when the last one is removed.
        self.ends_anew |=
            is_last && (ends_with_added && surplus > 0 || ends_with_removed && used_up == 0);
        Ok(())
    }
}
