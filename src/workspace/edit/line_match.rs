//! Matches whole lines that differ in trailing space, indentation or punctuation, and writes new lines in the way of the file.

use std::borrow::Cow;
use std::ops::Range;

use super::indentation::{IndentRule, split_indent};
use super::punctuation::{PunctuationMap, carry_over, fold};
use super::{FoundEdit, MatchStage, StageResult, aligned};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::{ModelLine, TextFile};

/// How strictly lines are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::workspace) struct LineRule {
    /// What may differ.
    pub stage: MatchStage,
    /// Unicode punctuation may differ, too.
    pub folded: bool,
}

impl LineRule {
    /// Returns what must be equal of a line.
    fn key<'a>(self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let trimmed = |line: &'a [u8]| match self.stage {
            MatchStage::Exact | MatchStage::Punctuation => line,
            MatchStage::TrailingSpace => trim_end(line),
            MatchStage::Indentation => split_indent(trim_end(line)).1,
        };
        if !self.folded {
            return Cow::Borrowed(trimmed(line));
        }
        match fold(line) {
            Cow::Borrowed(line) => Cow::Borrowed(trimmed(line)),
            Cow::Owned(line) => {
                let stage = self.stage;
                Cow::Owned(
                    LineRule {
                        stage,
                        folded: false,
                    }
                    .key(&line)
                    .into_owned(),
                )
            }
        }
    }

    /// Returns the stage as it is reported.
    fn reported(self) -> MatchStage {
        if self.folded {
            MatchStage::Punctuation
        } else {
            self.stage
        }
    }
}

/// Returns where the lines occur in `range` of a file: the index of the first line of each place.
pub(in crate::workspace) fn find_lines(
    file: &TextFile,
    old: &[&[u8]],
    range: Range<usize>,
    rule: LineRule,
) -> Vec<usize> {
    let Some(last) = range.end.checked_sub(old.len()) else {
        return Vec::new();
    };
    let wanted: Vec<Cow<'_, [u8]>> = old.iter().map(|line| rule.key(line)).collect();
    // A longer line than the others: the one that is least likely to be met by chance.
    let Some((offset, rarest)) = wanted.iter().enumerate().max_by_key(|(_, key)| key.len()) else {
        return Vec::new();
    };
    (range.start..=last)
        .filter(|first| rule.key(file.line(first + offset)) == *rarest)
        .filter(|first| {
            let keys = wanted.iter().enumerate();
            keys.into_iter()
                .all(|(index, key)| rule.key(file.line(first + index)) == *key)
        })
        .collect()
}

/// Lines of a file that a rule matched, with what turns new lines of the model into lines of the file.
pub(in crate::workspace) struct LineMatch<'a> {
    file: &'a TextFile,
    first: usize,
    old: Vec<&'a [u8]>,
    rule: LineRule,
    indent: IndentRule,
    /// Space behind the lines of the model that those of the file do not have.
    surplus: SurplusSpace,
    punctuation: PunctuationMap,
}

impl<'a> LineMatch<'a> {
    /// Prepares the lines at `first`, which `rule` matches. Returns nothing if the indentation differs in several ways.
    pub fn at(
        file: &'a TextFile,
        first: usize,
        old: &[&'a [u8]],
        new: &[&[u8]],
        rule: LineRule,
    ) -> Option<LineMatch<'a>> {
        let pairs = || {
            old.iter()
                .enumerate()
                .map(|(index, old)| (*old, file.line(first + index)))
        };
        let is_blank = |line: &[u8]| trim_end(line).is_empty();
        let indent = if rule.stage == MatchStage::Indentation {
            let indents: Vec<(&[u8], &[u8])> = pairs()
                .filter(|(old, _)| !is_blank(old))
                .map(|(old, line)| (split_indent(old).0, split_indent(line).0))
                .collect();
            let model = old.iter().chain(new).filter(|line| !is_blank(line));
            let model: Vec<&[u8]> = model.map(|line| split_indent(line).0).collect();
            let lines = (0..file.real_line_count()).map(|index| file.line(index));
            let lines: Vec<&[u8]> = lines
                .filter(|line| !is_blank(line))
                .map(|line| split_indent(line).0)
                .collect();
            IndentRule::explaining(&indents, &model, &lines)?
        } else {
            IndentRule::Add(Vec::new())
        };
        let surplus = SurplusSpace::of(pairs().map(|(old, line)| (trailing(old), trailing(line))));
        let mut punctuation = PunctuationMap::default();
        if rule.folded {
            punctuation = PunctuationMap::of(file);
            for (old, line) in pairs() {
                punctuation.add(core(old), core(line));
            }
        }
        Some(LineMatch {
            file,
            first,
            old: old.to_vec(),
            rule,
            indent,
            surplus,
            punctuation,
        })
    }

    /// Returns a new line of the model as it belongs into the file. `counterpart` is the index of the old line in its place.
    ///
    /// # Errors
    /// The line is indented less than the rule of the old lines allows.
    pub fn render(
        &self,
        line: &[u8],
        counterpart: Option<usize>,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let stripped = trim_end(line);
        let trailing = self.surplus.removed_from(trailing(line));
        if stripped.is_empty() {
            // An empty line stays empty: only space that the model wrote is indentation.
            return Ok(match trailing {
                [] => Vec::new(),
                space => self.indent.apply(space).unwrap_or_else(|| space.to_vec()),
            });
        }
        let (indent, rest) = split_indent(stripped);
        let mut rendered = self.indent.apply(indent).ok_or_else(|| {
            WorkspaceError::new(
                "the text to replace is in the file with another indentation, which the new text cannot be given",
            )
            .hint("read the file again and copy the indentation from it")
        })?;
        if self.rule.folded {
            let old = counterpart.and_then(|index| self.old.get(index).map(|old| (index, old)));
            let rest = match old {
                Some((index, old)) => carry_over(
                    core(self.file.line(self.first + index)),
                    core(old),
                    rest,
                    &self.punctuation,
                ),
                None => self.punctuation.apply(rest),
            };
            rendered.extend(rest);
        } else {
            rendered.extend_from_slice(rest);
        }
        rendered.extend_from_slice(trailing);
        Ok(rendered)
    }
}

/// Space that the model writes behind its lines and the file does not have.
#[derive(Debug, PartialEq, Eq)]
enum SurplusSpace {
    None,
    /// The same in each line.
    Always(Vec<u8>),
    /// Any, where the file has none.
    Any,
}

impl SurplusSpace {
    /// Compares the trailing space of the lines of the model and of the file.
    fn of<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> SurplusSpace {
        let mut differing = pairs.filter(|(model, file)| model != file).peekable();
        let Some((model, file)) = differing.peek() else {
            return SurplusSpace::None;
        };
        let Some(surplus) = model.strip_prefix(*file).map(<[u8]>::to_vec) else {
            return SurplusSpace::None;
        };
        let (mut is_same, mut is_none) = (true, true);
        for (model, file) in differing {
            is_same &= model.strip_prefix(file) == Some(&surplus);
            is_none &= file.is_empty();
        }
        match (is_same, is_none) {
            (true, _) => SurplusSpace::Always(surplus),
            (false, true) => SurplusSpace::Any,
            (false, false) => SurplusSpace::None,
        }
    }

    fn removed_from<'a>(&self, trailing: &'a [u8]) -> &'a [u8] {
        match self {
            SurplusSpace::None => trailing,
            SurplusSpace::Always(surplus) => {
                trailing.strip_suffix(&surplus[..]).unwrap_or(trailing)
            }
            SurplusSpace::Any => &[],
        }
    }
}

/// Returns the space at the end of a line.
fn trailing(line: &[u8]) -> &[u8] {
    line.get(trim_end(line).len()..).unwrap_or_default()
}

/// Returns a line without its indentation and trailing space.
fn core(line: &[u8]) -> &[u8] {
    split_indent(trim_end(line)).1
}

fn trim_end(line: &[u8]) -> &[u8] {
    let length = line
        .iter()
        .rposition(|b| !matches!(b, b' ' | b'\t'))
        .map_or(0, |last| last + 1);
    line.get(..length).unwrap_or_default()
}

/// Finds the only place whose lines match at this stage.
pub(super) fn find(
    file: &TextFile,
    old: &[ModelLine<'_>],
    new: &[ModelLine<'_>],
    stage: MatchStage,
    folded: bool,
) -> Result<StageResult, WorkspaceError> {
    let rule = LineRule { stage, folded };
    let ends_with_newline = old.len() > 1 && old.last().is_some_and(|line| line.content.is_empty());
    let mut old_lines: Vec<&[u8]> = old.iter().map(|line| line.content).collect();
    let mut new_lines = new.to_vec();
    if ends_with_newline {
        old_lines.pop();
    }
    if old_lines.iter().all(|line| trim_end(line).is_empty()) {
        return Ok(StageResult::Absent);
    }
    let first = match find_lines(file, &old_lines, 0..file.real_line_count(), rule).as_slice() {
        [] => return Ok(StageResult::Absent),
        [first] => *first,
        several => return Ok(StageResult::Ambiguous(several.to_vec())),
    };
    let new_contents: Vec<&[u8]> = new.iter().map(|line| line.content).collect();
    let Some(matched) = LineMatch::at(file, first, &old_lines, &new_contents, rule) else {
        return Ok(StageResult::Absent);
    };
    let count = old_lines.len();
    let mut replaced = old_lines.clone();
    let mut kept_next = None;
    if ends_with_newline {
        let is_terminated = new.last().is_some_and(|line| line.content.is_empty());
        if first + count < file.line_count() {
            // The line behind the place belongs to it, unchanged, so that its line end does.
            let next = ModelLine {
                content: file.line(first + count),
                is_cr: false,
            };
            if is_terminated {
                new_lines.pop();
            }
            new_lines.push(next);
            replaced.push(next.content);
            kept_next = Some(next.content);
        } else if is_terminated && new_lines.len() > 1 {
            // The file does not end with a line end, and keeps it so.
            new_lines.pop();
        }
    }
    let lines = aligned(first, &replaced, &new_lines, |line, counterpart| {
        if kept_next == Some(line) && counterpart == Some(count) {
            return Ok(line.to_vec());
        }
        matched.render(line, counterpart)
    })?;
    Ok(StageResult::Found(FoundEdit {
        stage: rule.reported(),
        first,
        count: replaced.len(),
        lines,
    }))
}
