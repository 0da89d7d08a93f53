//! Finds the command line that runs now.

use std::collections::BTreeSet;
use std::ops::Range;

use super::echo::{Echo, begins_at_edge, echoes, last_mention};
use super::prompt::{PromptLine, Similarity, blanks};
use super::text::{Expected, SearchedScreen};
use super::{Found, KnownCommand, RunningLine, UnrecordedLine, without_leading_blanks};

/// Maximum number of rows that the last command line may take.
const MAX_ROWS: usize = 20;

/// The command line that runs now.
pub struct Current<'a> {
    pub found: Found<'a>,
    /// Its text is on the screen, not only a prompt like others.
    pub is_certain: bool,
}

/// Finds the line of the command that runs now. If its text is not known, it is the last line with text that begins with the
/// prompt of a known command. With `shares_rows`, an output without a line end may precede a prompt. Returns `None` also if it is not
/// certain which blanks before the line belong to the prompt.
pub fn find<'a>(
    screen: &'a SearchedScreen<'_>,
    candidates: &[Vec<Found<'a>>],
    commands: &[KnownCommand<'_>],
    running: RunningLine<'_>,
    cwd: &'a str,
    shares_rows: bool,
) -> Option<Current<'a>> {
    let echo = match (running.text, running.words) {
        (Some(text), _) => echoes(screen, &Expected::new(screen, text)).pop(),
        (None, Some(words)) => last_mention(screen, words, MAX_ROWS),
        (None, None) => None,
    };
    let last = screen
        .rows
        .iter()
        .rposition(|row| !row.text.trim().is_empty())?;
    // A background job has printed behind the prompt, any number of rows, and zsh does not draw the prompt again.
    let lacks_prompt = echo.is_none_or(|echo| echo.last_row < last)
        && match (running.text, running.words) {
            (Some(text), _) => begins_at_edge(screen, &Expected::new(screen, text), MAX_ROWS),
            (None, Some(words)) => is_program_at_edge(&screen.rows.get(last)?.text, words),
            (None, None) => false,
        };
    let echo = echo.filter(|_| !lacks_prompt);
    // A long command line goes over several rows.
    let top = match lacks_prompt {
        true => 0,
        false => last.saturating_sub(MAX_ROWS),
    };
    let lowest = (top..=last).rev().find_map(|row| {
        let text = &screen.rows.get(row)?.text;
        // A question of aish shows lines of commands behind its border.
        if text.starts_with("│ ") && (running.text.is_some() || running.words.is_some()) {
            return None;
        }
        let prompt = prompt_of(text, candidates, row, cwd)?;
        Some((row, prompt))
    });
    // The prompt is below all lines of known commands.
    let is_below = |row: usize| {
        let mut lines = candidates.iter().flatten();
        lines.all(|found| found.echo.first_row < row)
    };
    let lowest = lowest.filter(|(row, _)| !lacks_prompt || is_below(*row));
    let settled = |(row, prompt): (usize, PromptLine<'_>)| {
        let text = &screen.rows.get(row)?.text;
        let blanks = blanks_before(text, &prompt, candidates, commands, row)?;
        let end = prompt.text.trim_end().len() + blanks;
        Some((row, PromptLine::new(text.get(..end)?, cwd)?))
    };
    let lowest = match lowest {
        Some(found) if running.text.is_none() => Some(settled(found)?),
        // Nothing is known of the line: its prompt may have changed since the command ran.
        None if running.text.or(running.words).is_none() => {
            bare_prompt(screen, candidates, commands, last, cwd)
        }
        lowest => lowest,
    };
    let Some(echo) = echo.filter(|echo| {
        lowest
            .as_ref()
            .is_none_or(|(row, _)| *row <= echo.prompt_row)
    }) else {
        let (row, mut prompt) = match running.text {
            Some(_) => settled(lowest?)?,
            None => lowest?,
        };
        prompt.is_doubtful |= lacks_prompt;
        let echo = Echo {
            first_row: row,
            prompt_row: row,
            prompt_end: prompt.text.len(),
            last_row: last,
        };
        return Some(Current {
            found: Found {
                echo,
                prompt,
                command: "",
                follows_unrecorded: false,
                command_above: None,
            },
            is_certain: lacks_prompt,
        });
    };
    let row = &screen.rows.get(echo.prompt_row)?.text;
    let before = row.get(..echo.prompt_end)?;
    let before = without_leading_blanks(before, running.text.unwrap_or_default())?;
    let mut prompt = PromptLine::new(before, cwd)?;
    match lowest.filter(|(row, by)| *row == echo.prompt_row && by.text.len() < prompt.text.len()) {
        // Words of the line come before those that are known.
        Some((_, shorter)) if running.text.is_none() => prompt = shorter,
        _ if shares_rows => {
            prompt.split_output(candidates.iter().flatten().map(|other| &other.prompt))
        }
        _ => {}
    }
    Some(Current {
        found: Found {
            echo,
            prompt,
            command: "",
            follows_unrecorded: false,
            command_above: None,
        },
        is_certain: true,
    })
}

/// Whether a row begins with a program and then has some words.
fn is_program_at_edge(row: &str, words: &str) -> bool {
    let program = row.split_once(words.trim()).map(|(program, _)| program);
    program.is_some_and(|program| {
        program.ends_with(' ') && !program.trim_end().contains(char::is_whitespace)
    })
}

/// Whether the line that runs now is also in `rows`, above it.
pub fn occurs_in(
    screen: &SearchedScreen<'_>,
    running: RunningLine<'_>,
    rows: Range<usize>,
) -> bool {
    match (running.text, running.words) {
        (Some(text), _) => echoes(screen, &Expected::new(screen, text))
            .iter()
            .any(|echo| rows.contains(&echo.first_row)),
        (None, Some(words)) => {
            let rows = screen.rows.get(rows).unwrap_or_default();
            let words = words.trim();
            !words.is_empty() && rows.iter().any(|row| row.text.contains(words))
        }
        (None, None) => false,
    }
}

/// Returns the last row, or the one above it, if a prompt is alone in it that is like those of known commands. A message of zle may be
/// below it.
fn bare_prompt<'a>(
    screen: &'a SearchedScreen<'_>,
    candidates: &[Vec<Found<'a>>],
    commands: &[KnownCommand<'_>],
    last: usize,
    cwd: &'a str,
) -> Option<(usize, PromptLine<'a>)> {
    (last.saturating_sub(1)..=last).rev().find_map(|row| {
        let text = &screen.rows.get(row)?.text;
        let with_blanks = |found: &Found<'_>| {
            let end = text.trim_end().len() + blanks(found.prompt.text);
            let prompt = PromptLine::new(text.get(..end)?, cwd)?;
            let is_like = prompt.similarity(&found.prompt) >= Similarity::Alike;
            is_like.then_some(end)
        };
        let end = agreed(candidates, commands, row, with_blanks)?;
        Some((row, PromptLine::new(text.get(..end)?, cwd)?))
    })
}

/// Returns how many blanks a prompt ends with that was found in a row with `text`.
fn blanks_before(
    text: &str,
    prompt: &PromptLine<'_>,
    candidates: &[Vec<Found<'_>>],
    commands: &[KnownCommand<'_>],
    row: usize,
) -> Option<usize> {
    agreed(candidates, commands, row, |found| {
        let begins = found.prompt.begins(text, prompt.cwd)?;
        let is_same = begins.text.trim_end() == prompt.text.trim_end();
        is_same.then_some(blanks(begins.text))
    })
}

/// Returns the length of a prompt with its blanks that the lines of known commands above a row speak for, of which `length` tells one
/// each. A line that was typed with a leading space, to keep it out of the history, seems to follow a longer prompt: those of a text
/// that was also entered without being recorded count only if there are no others, and the longest prompt must be the one of most commands.
fn agreed(
    candidates: &[Vec<Found<'_>>],
    commands: &[KnownCommand<'_>],
    row: usize,
    length: impl Fn(&Found<'_>) -> Option<usize>,
) -> Option<usize> {
    let is_unrecorded = |found: &Found<'_>| {
        let lines = commands
            .iter()
            .filter_map(|command| command.unrecorded_after);
        let is_text = |line: &UnrecordedLine| matches!(line, UnrecordedLine::Text(_));
        let mut lines = lines.flatten().filter(|line| is_text(line));
        lines.any(|line| line.may_be(found.command))
    };
    let lengths = |lines: &Vec<Found<'_>>| -> BTreeSet<usize> {
        let above = lines.iter().filter(|found| found.echo.last_row < row);
        above.filter_map(&length).collect()
    };
    let of_commands: Vec<(BTreeSet<usize>, bool)> = (candidates.iter())
        .map(|lines| (lengths(lines), lines.first().is_some_and(is_unrecorded)))
        .filter(|(lengths, _)| !lengths.is_empty())
        .collect();
    let has_others = of_commands.iter().any(|(_, is_unrecorded)| !is_unrecorded);
    let counted = || {
        let counted = of_commands.iter();
        counted
            .filter(|(_, is_unrecorded)| !(has_others && *is_unrecorded))
            .map(|(lengths, _)| lengths)
    };
    let count = |length: usize| counted().filter(|other| other.contains(&length)).count();
    let longest = *counted().flatten().max()?;
    let mut shorter = counted().flatten().filter(|length| **length < longest);
    shorter
        .all(|length| count(*length) < count(longest))
        .then_some(longest)
}

/// Returns the prompt with which a row begins, as do lines of known commands above it.
fn prompt_of<'a>(
    text: &'a str,
    candidates: &[Vec<Found<'a>>],
    row: usize,
    cwd: &'a str,
) -> Option<PromptLine<'a>> {
    let above = candidates.iter().flatten();
    let above = above.filter(|found| found.echo.last_row < row);
    above
        .filter_map(|found| found.prompt.begins(text, cwd))
        .max_by_key(|prompt| prompt.text.len())
}
