//! Finds the command line that runs now.

use std::ops::Range;

use super::echo::{Echo, echoes, last_mention};
use super::prompt::{PromptLine, Similarity, blanks};
use super::text::{Expected, SearchedScreen};
use super::{Found, RunningLine};

/// Maximum number of rows that the last command line may take.
const MAX_ROWS: usize = 20;

/// The command line that runs now.
pub struct Current<'a> {
    pub found: Found<'a>,
    /// Its text is on the screen, not only a prompt like others.
    pub is_certain: bool,
}

/// Finds the line of the command that runs now. If its text is not known, it is the last line with text that begins with the
/// prompt of a known command. With `shares_rows`, an output without a line end may precede a prompt.
pub fn find<'a>(
    screen: &'a SearchedScreen<'_>,
    candidates: &[Vec<Found<'a>>],
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
    // A long command line goes over several rows.
    let lowest = (last.saturating_sub(MAX_ROWS)..=last)
        .rev()
        .find_map(|row| {
            let text = &screen.rows.get(row)?.text;
            // A question of aish shows lines of commands behind its border.
            if text.starts_with("│ ") && (running.text.is_some() || running.words.is_some()) {
                return None;
            }
            let prompt = prompt_of(text, candidates, row, cwd)?;
            Some((row, prompt))
        });
    // Nothing is known of the line: its prompt may have changed since the command ran.
    let lowest = match running.text.or(running.words) {
        None => lowest.or_else(|| bare_prompt(screen, candidates, last, cwd)),
        Some(_) => lowest,
    };
    let Some(echo) = echo.filter(|echo| {
        lowest
            .as_ref()
            .is_none_or(|(row, _)| *row <= echo.prompt_row)
    }) else {
        let (row, prompt) = lowest?;
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
            is_certain: false,
        });
    };
    let row = &screen.rows.get(echo.prompt_row)?.text;
    let mut prompt = PromptLine::new(row.get(..echo.prompt_end)?, cwd)?;
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
    last: usize,
    cwd: &'a str,
) -> Option<(usize, PromptLine<'a>)> {
    (last.saturating_sub(1)..=last).rev().find_map(|row| {
        let text = &screen.rows.get(row)?.text;
        let above = candidates.iter().flatten();
        let mut above = above.filter(|found| found.echo.last_row < row);
        above.find_map(|found| {
            let end = text.trim_end().len() + blanks(found.prompt.text);
            let prompt = PromptLine::new(text.get(..end)?, cwd)?;
            let is_like = prompt.similarity(&found.prompt) >= Similarity::Alike;
            is_like.then_some((row, prompt))
        })
    })
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
