//! Matches whole lines that differ in trailing space, indentation or punctuation, and writes new lines in the way of the file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use super::indentation::{IndentRule, split_indent};
use super::punctuation::{PunctuationMap, carry_over, fold};
use super::{FoundEdit, MatchStage, StageResult, aligned};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::{LineContent, ModelLine, OutputLine, TextFile};

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

/// The lines of a file by what a rule compares of them, to find many texts.
pub(in crate::workspace) struct LineIndex<'a> {
    file: &'a TextFile,
    rule: LineRule,
    lines: HashMap<Cow<'a, [u8]>, Vec<usize>>,
}

impl<'a> LineIndex<'a> {
    /// Builds the index of a file.
    pub fn of(file: &'a TextFile, rule: LineRule) -> LineIndex<'a> {
        let mut lines: HashMap<Cow<'a, [u8]>, Vec<usize>> = HashMap::new();
        for index in 0..file.real_line_count() {
            lines
                .entry(rule.key(file.line(index)))
                .or_default()
                .push(index);
        }
        LineIndex { file, rule, lines }
    }

    /// Same as [`find_lines`]. `count` is called for each line that is compared; where it returns false, the search ends.
    pub fn find(
        &self,
        old: &[&[u8]],
        range: Range<usize>,
        count: &impl Fn() -> bool,
    ) -> Vec<usize> {
        let wanted: Vec<Cow<'_, [u8]>> = old.iter().map(|line| self.rule.key(line)).collect();
        let lines = |key: &Cow<'_, [u8]>| self.lines.get(&**key).map_or(&[][..], Vec::as_slice);
        let keys = wanted.iter().enumerate();
        let Some((offset, rarest)) = keys.min_by_key(|(_, key)| lines(key).len()) else {
            return Vec::new();
        };
        let rarest = lines(rarest);
        let from = rarest.partition_point(|line| *line < range.start + offset);
        let candidates = rarest.get(from..).unwrap_or_default().iter();
        candidates
            .map(|line| line - offset)
            .take_while(|first| first + old.len() <= range.end && count())
            .filter(|first| {
                let mut keys = wanted.iter().enumerate();
                keys.all(|(index, key)| {
                    count() && self.rule.key(self.file.line(first + index)) == *key
                })
            })
            .collect()
    }
}

/// Lines of a model, and those of the file in the place where a rule found them.
pub(in crate::workspace) struct MatchedText<'a> {
    /// First line of the place.
    pub first: usize,
    /// The lines of the model that are in the file.
    pub old: Vec<&'a [u8]>,
    /// The lines that it adds.
    pub new: Vec<&'a [u8]>,
    /// The rule that found the place.
    pub rule: LineRule,
}

impl<'a> MatchedText<'a> {
    fn pairs(&self, file: &'a TextFile) -> impl Iterator<Item = (&'a [u8], &'a [u8])> {
        let old = self.old.iter().enumerate();
        old.map(move |(index, old)| (*old, file.line(self.first + index)))
    }
}

/// How a model writes the lines of a file, learned from all texts that it replaces in one call: a single text may be too short to show it.
pub(in crate::workspace) struct SharedStyle<'a> {
    file: &'a TextFile,
    /// Indentations of the lines of the file.
    file_indents: Vec<&'a [u8]>,
    /// The rule that explains the indentation of all texts in which it differs.
    indent: Option<IndentRule>,
    punctuation: Option<PunctuationMap>,
}

impl<'a> SharedStyle<'a> {
    /// Learns from texts and the lines that they matched.
    pub fn of(file: &'a TextFile, texts: &[MatchedText<'a>]) -> SharedStyle<'a> {
        let mut style = SharedStyle {
            file,
            file_indents: Vec::new(),
            indent: None,
            punctuation: None,
        };
        let mut differing = texts
            .iter()
            .filter(|text| text.rule.stage == MatchStage::Indentation)
            .peekable();
        if differing.peek().is_some() {
            let lines = (0..file.real_line_count()).map(|index| file.line(index));
            style.file_indents = indents(lines);
            let rule = style.indent_rule(differing);
            style.indent = rule.filter(|rule| !matches!(rule, IndentRule::Columns { .. }));
        }
        if texts.iter().any(|text| text.rule.folded) {
            let mut map = PunctuationMap::of(file);
            for (old, line) in texts.iter().flat_map(|text| text.pairs(file)) {
                map.add(core(old), core(line));
            }
            style.punctuation = Some(map);
        }
        style
    }

    /// Returns the rule that explains the indentation of these texts.
    fn indent_rule<'t>(
        &self,
        texts: impl Iterator<Item = &'t MatchedText<'a>>,
    ) -> Option<IndentRule>
    where
        'a: 't,
    {
        let (mut pairs, mut model) = (Vec::new(), Vec::new());
        for text in texts {
            pairs.extend(
                text.pairs(self.file)
                    .filter(|(old, _)| !trim_end(old).is_empty())
                    .map(|(old, line)| (split_indent(old).0, split_indent(line).0)),
            );
            model.extend(text.old.iter().chain(&text.new).copied());
        }
        IndentRule::explaining(&pairs, &indents(model.into_iter()), &self.file_indents)
    }

    /// Returns the rule for the new lines of a text; nothing if its own lines differ in several ways.
    ///
    /// What was learned from other texts counts only where the lines of this one leave it open: two hunks of a model may have lost
    /// different parts of the indentation.
    fn indent_of(&self, text: &MatchedText<'a>) -> Option<IndentRule> {
        if text.rule.stage != MatchStage::Indentation {
            let is_open = indents(text.old.iter().copied())
                .iter()
                .all(|indent| indent.is_empty());
            // Tabs in a text that matched exactly are kept: in a Makefile, they are not a matter of style.
            let to_tabs = self
                .indent
                .as_ref()
                .filter(|rule| matches!(rule, IndentRule::SpacesToTabs { levels: 0, .. }));
            let has_spaces = || {
                let mut indents = self.file_indents.iter();
                indents.any(|indent| indent.starts_with(b" "))
            };
            return Some(match to_tabs {
                Some(rule) if is_open && !has_spaces() => rule.clone(),
                _ => IndentRule::Add(Vec::new()),
            });
        }
        let own = self.indent_rule(std::iter::once(text))?;
        Some(match &self.indent {
            Some(shared) if !own.is_level() => shared.clone(),
            _ => own,
        })
    }

    /// Returns the punctuation for the new lines of a text. A text that matched as it is, and has quotes or typographic characters, is
    /// written as the model means it.
    fn punctuation_of(&self, text: &MatchedText<'a>) -> Option<&PunctuationMap> {
        let tells = |line: &&[u8]| {
            line.iter()
                .any(|b| matches!(b, b'\'' | b'"') || !b.is_ascii())
        };
        self.punctuation
            .as_ref()
            .filter(|_| text.rule.folded || !text.old.iter().any(tells))
    }
}

/// Returns the indentation of each line that is not blank.
fn indents<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    lines
        .filter(|line| !trim_end(line).is_empty())
        .map(|line| split_indent(line).0)
        .collect()
}

/// Lines of a file that a rule matched, with what turns new lines of the model into lines of the file.
pub(in crate::workspace) struct LineMatch<'a> {
    file: &'a TextFile,
    text: &'a MatchedText<'a>,
    indent: IndentRule,
    /// Space after the lines of the model that those of the file do not have.
    surplus: SurplusSpace,
    punctuation: Option<&'a PunctuationMap>,
}

impl<'a> LineMatch<'a> {
    /// Prepares lines that were matched. Returns nothing if the indentation differs in several ways.
    pub fn of(text: &'a MatchedText<'a>, style: &'a SharedStyle<'a>) -> Option<LineMatch<'a>> {
        let indent = style.indent_of(text)?;
        let pairs = text.pairs(style.file);
        let surplus = SurplusSpace::of(pairs.map(|(old, line)| (trailing(old), trailing(line))));
        Some(LineMatch {
            file: style.file,
            text,
            indent,
            surplus,
            punctuation: style.punctuation_of(text),
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
        if let Some(punctuation) = self.punctuation {
            let old =
                counterpart.and_then(|index| self.text.old.get(index).map(|old| (index, old)));
            let rest = match old {
                Some((index, old)) => carry_over(
                    core(self.file.line(self.text.first + index)),
                    core(old),
                    rest,
                    punctuation,
                ),
                None => punctuation.apply(rest),
            };
            rendered.extend(rest);
        } else {
            rendered.extend_from_slice(rest);
        }
        rendered.extend_from_slice(trailing);
        Ok(rendered)
    }
}

/// Space that the model writes after its lines and the file does not have.
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

/// Splits the text of a model into lines, without the empty one after its last newline. Returns as well whether there is one.
fn whole_lines<'a>(text: &[ModelLine<'a>]) -> (Vec<&'a [u8]>, bool) {
    let mut lines: Vec<&[u8]> = text.iter().map(|line| line.content).collect();
    let ends_with_newline = lines.len() > 1 && lines.last().is_some_and(|line| line.is_empty());
    if ends_with_newline {
        lines.pop();
    }
    (lines, ends_with_newline)
}

/// Returns all places whose lines match by the loosest rule.
pub(super) fn loosest_places(file: &TextFile, old: &[ModelLine<'_>]) -> Vec<usize> {
    let rule = LineRule {
        stage: MatchStage::Indentation,
        folded: true,
    };
    let (lines, _) = whole_lines(old);
    find_lines(file, &lines, 0..file.real_line_count(), rule)
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
    let (old_lines, ends_with_newline) = whole_lines(old);
    let mut new_lines = new.to_vec();
    if old_lines.iter().all(|line| trim_end(line).is_empty()) {
        return Ok(StageResult::Absent);
    }
    let first = match find_lines(file, &old_lines, 0..file.real_line_count(), rule).as_slice() {
        [] => return Ok(StageResult::Absent),
        [first] => *first,
        several => return Ok(StageResult::Ambiguous(several.to_vec())),
    };
    let text = [MatchedText {
        first,
        old: old_lines.clone(),
        new: new.iter().map(|line| line.content).collect(),
        rule,
    }];
    let style = SharedStyle::of(file, &text);
    let Some(matched) = LineMatch::of(&text[0], &style) else {
        return Ok(StageResult::Absent);
    };
    let count = old_lines.len();
    let mut replaced = old_lines.clone();
    let mut kept_next = None;
    let mut is_joined = false;
    if ends_with_newline {
        let is_terminated = new.last().is_some_and(|line| line.content.is_empty());
        if first + count < file.line_count() {
            // The line after the place belongs to it, unchanged, so that its line end does.
            let next = ModelLine {
                content: file.line(first + count),
                is_cr: false,
            };
            if is_terminated {
                new_lines.pop();
            }
            // Without a newline at its end, the new text takes that of the old one away, as where it is found exactly.
            is_joined = !is_terminated;
            new_lines.push(next);
            replaced.push(next.content);
            kept_next = Some(next.content);
        } else if is_terminated && new_lines.len() > 1 {
            // The file does not end with a line end, and keeps it so.
            new_lines.pop();
        }
    }
    let mut lines = aligned(first, &replaced, &new_lines, |line, counterpart| {
        if kept_next == Some(line) && counterpart == Some(count) {
            return Ok(line.to_vec());
        }
        matched.render(line, counterpart)
    })?;
    if is_joined && let (Some(next), Some(last)) = (lines.pop(), lines.pop()) {
        let bytes = |line: &OutputLine| match &line.content {
            LineContent::Kept(index) => file.line(*index).to_vec(),
            LineContent::New(bytes) => bytes.clone(),
        };
        lines.push(OutputLine {
            content: LineContent::New([bytes(&last), bytes(&next)].concat()),
            end: next.end,
        });
    }
    Ok(StageResult::Found(FoundEdit {
        stage: rule.reported(),
        first,
        count: replaced.len(),
        lines,
    }))
}
