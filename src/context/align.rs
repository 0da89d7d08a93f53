//! Cuts the text of a terminal into the outputs of known commands. Pure.
//!
//! The text has no marks, so it is cut by what the daemon knows: the command lines, their order and their directories. The
//! line of a command is where its text stands behind a prompt; the prompt is recognized because it stands in front of other
//! commands too. What stands between the line of a command and the next prompt is its output. Rows of a prompt above its last
//! one are those that all prompts on the screen have in common.
//!
//! In doubt there is no output: the text of a command that is not known, or was typed with a leading space to keep it out of
//! the history, never counts as the output of another.

mod echo;
mod prompt;

use self::echo::{Echo, echoes};
use self::prompt::{PromptLine, Similarity};

/// Number of commands before the wanted one that are looked for, to recognize the prompt.
const NEIGHBOURS: usize = 12;

/// One row of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScreenRow {
    /// The text; trailing blanks are kept if the terminal tells them.
    pub text: String,
    /// The terminal wrapped the line here: it continues in the next row.
    pub wrapped: bool,
}

/// The scrollback and the screen of a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Screen {
    /// The rows, the oldest first.
    pub rows: Vec<ScreenRow>,
    /// The width.
    pub columns: usize,
    /// Older rows exist or were dropped.
    pub is_cut: bool,
}

/// A command whose line may be on the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownCommand<'a> {
    /// The command line.
    pub text: &'a str,
    /// The directory in which it was started.
    pub cwd: &'a str,
}

/// The output of a command, cut out of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenOutput {
    /// The lines, without trailing blanks. Lines that the terminal wrapped are joined.
    pub lines: Vec<String>,
    /// The beginning is no longer in the scrollback.
    pub is_tail: bool,
}

/// A command line that was found, with what stands around it.
#[derive(Debug, Clone)]
struct Found<'a> {
    echo: Echo,
    prompt: PromptLine<'a>,
}

/// Returns the output of the command number `wanted` of `commands`, counted from the last one, which is 1. `commands` are in the
/// order in which they ran. `running` is the command line that runs now, if it is known, and `cwd` its directory.
///
/// Returns `None` if the line of the command cannot be told for sure.
pub fn cut(
    screen: &Screen,
    commands: &[KnownCommand<'_>],
    running: Option<&str>,
    cwd: &str,
    wanted: usize,
) -> Option<ScreenOutput> {
    let known = commands.len().checked_sub(wanted)?;
    let first = known.saturating_sub(NEIGHBOURS);
    let newest_first: Vec<&KnownCommand<'_>> = commands.get(first..)?.iter().rev().collect();
    let candidates: Vec<Vec<Found<'_>>> = newest_first
        .iter()
        .map(|command| {
            let found = echoes(screen, command.text);
            let at = |echo| Found::new(screen, echo, command.cwd);
            found.into_iter().filter_map(at).collect()
        })
        .collect();
    let current = current_line(screen, &candidates, running, cwd)?;
    let matched = assign(&current, candidates);
    let lines: Vec<&Found<'_>> = std::iter::once(&current)
        .chain(matched.iter().flatten())
        .collect();
    let height = prompt::height(screen, &lines);
    // The next command whose line was found; what ran between them is unknown.
    let next = match wanted {
        1 => &current,
        _ => matched.get(wanted - 2)?.as_ref()?,
    };
    let (start, is_tail, prompts) = match matched.get(wanted - 1)?.as_ref() {
        Some(found) => (found.echo.last_row + 1, false, vec![found, next]),
        // Nothing is above the next prompt but the rest of this output, if no other prompt is.
        None if screen.is_cut => (0, true, vec![next]),
        None => return None,
    };
    let end = next
        .echo
        .first_row
        .checked_sub(height)
        .filter(|end| *end >= start);
    let end = end.unwrap_or(start);
    let mut rows = screen.rows.get(start..end)?.to_vec();
    let stop = prompt::first_prompt(&rows, &prompts, screen.columns);
    if let Some(stop) = stop {
        if is_tail {
            return None;
        }
        rows.truncate(stop.saturating_sub(height));
    } else if let Some(rest) = next.prompt.output_before {
        // The command printed no line end, and the shell began its prompt right there.
        rows.push(ScreenRow {
            text: rest.to_owned(),
            wrapped: false,
        });
    }
    let lines = joined(&rows, screen.columns);
    if is_tail && lines.is_empty() {
        return None;
    }
    Some(ScreenOutput { lines, is_tail })
}

/// Returns the last rows with text, for a person who wants them although no command can be told. The line that runs now is left
/// out if it is known.
pub fn last_lines(screen: &Screen, running: Option<&str>, limit: usize) -> Vec<String> {
    let end = running
        .and_then(|text| echoes(screen, text).pop())
        .map_or(screen.rows.len(), |echo| echo.first_row);
    let rows = screen.rows.get(..end).unwrap_or_default();
    let mut lines = joined(rows, screen.columns);
    lines.drain(..lines.len().saturating_sub(limit));
    lines
}

impl<'a> Found<'a> {
    /// Returns `None` if what stands before the command is no prompt.
    fn new(screen: &'a Screen, echo: Echo, cwd: &'a str) -> Option<Found<'a>> {
        let row = screen.rows.get(echo.prompt_row)?;
        let prompt = PromptLine::new(row.text.get(..echo.prompt_end)?, cwd)?;
        Some(Found { echo, prompt })
    }
}

/// Finds the line of the command that runs now. If its text is not known, it is the last line with text that begins with the
/// prompt of a known command.
fn current_line<'a>(
    screen: &'a Screen,
    candidates: &[Vec<Found<'a>>],
    running: Option<&str>,
    cwd: &'a str,
) -> Option<Found<'a>> {
    if let Some(text) = running {
        let found = echoes(screen, text).pop()?;
        let mut found = Found::new(screen, found, cwd)?;
        // A prompt on the row of an output without a line end.
        let others = candidates.iter().flatten().map(|other| &other.prompt);
        found.prompt.split_output(others);
        return Some(found);
    }
    let mut last_row = screen
        .rows
        .iter()
        .rposition(|row| !row.text.trim().is_empty())?;
    // A long command line goes over several rows.
    for _ in 0..20 {
        let text = &screen.rows.get(last_row)?.text;
        let prompts = candidates.iter().flatten();
        let prompts = prompts.filter(|found| found.echo.last_row < last_row);
        let longest = prompts
            .filter_map(|found| found.prompt.begins(text, cwd))
            .max_by_key(|prompt| prompt.text.len());
        if let Some(prompt) = longest {
            let echo = Echo {
                first_row: last_row,
                prompt_row: last_row,
                prompt_end: prompt.text.len(),
                last_row,
            };
            return Some(Found { echo, prompt });
        }
        last_row = last_row.checked_sub(1)?;
    }
    None
}

/// Chooses for each command, newest first, the line that is its own: in order, with the best prompts, and as low as possible.
/// A line too low is one that the command itself printed; what follows it is still the command's output.
fn assign<'a>(current: &Found<'a>, candidates: Vec<Vec<Found<'a>>>) -> Vec<Option<Found<'a>>> {
    // best[i][k]: score of the best choice for the commands from number i on, if the line of i is its candidate k; and the
    // command and the candidate that come next in it.
    type Choice = (i64, Option<(usize, usize)>);
    let mut best: Vec<Vec<Option<Choice>>> =
        candidates.iter().map(|c| vec![None; c.len()]).collect();
    let weight = |found: &Found<'_>| match found.prompt.similarity(&current.prompt) {
        Similarity::Same => 40,
        Similarity::SameShape => 30,
        Similarity::SameEnd => 10,
        Similarity::Different => 0,
    };
    for i in (0..candidates.len()).rev() {
        for (k, found) in candidates[i].iter().enumerate() {
            let own = weight(found);
            if own == 0 || found.echo.last_row >= current.echo.first_row {
                continue;
            }
            let mut choice: Choice = (own, None);
            for (j, others) in candidates.iter().enumerate().skip(i + 1) {
                // A command in between whose line is not found.
                let skipped = i64::try_from(j - i - 1)
                    .unwrap_or(i64::MAX / 2)
                    .saturating_mul(15);
                for (l, other) in others.iter().enumerate() {
                    let Some((score, _)) = best[j][l] else {
                        continue;
                    };
                    let total = own + score - skipped;
                    // In doubt the lower line, which stands later in the list.
                    if other.echo.last_row < found.echo.first_row && total >= choice.0 {
                        choice = (total, Some((j, l)));
                    }
                }
            }
            best[i][k] = Some(choice);
        }
    }
    let mut start: Option<(i64, usize, usize)> = None;
    for (i, scores) in best.iter().enumerate() {
        let skipped = i64::try_from(i).unwrap_or(i64::MAX / 2).saturating_mul(15);
        for (k, score) in scores.iter().enumerate() {
            let Some((score, _)) = score else {
                continue;
            };
            let total = score - skipped;
            let is_better = start.is_none_or(|(so_far, command, _)| {
                total > so_far || (total == so_far && command == i)
            });
            if is_better {
                start = Some((total, i, k));
            }
        }
    }
    let mut chosen: Vec<Option<usize>> = vec![None; candidates.len()];
    let mut at = start.map(|(_, i, k)| (i, k));
    while let Some((i, k)) = at {
        chosen[i] = Some(k);
        at = best[i][k].and_then(|(_, next)| next);
    }
    let lists = candidates.into_iter().zip(chosen);
    lists
        .map(|(list, k)| k.and_then(|k| list.into_iter().nth(k)))
        .collect()
}

/// Returns the lines of rows: wrapped rows are joined, trailing blanks and empty lines at the end are left out, and so is the
/// mark of zsh for an output without a line end.
fn joined(rows: &[ScreenRow], columns: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for (at, row) in rows.iter().enumerate() {
        let is_last = at + 1 == rows.len();
        let text = match is_last {
            true => prompt::without_end_mark(row, columns),
            false => &row.text,
        };
        line.push_str(text);
        if !row.wrapped || is_last {
            lines.push(std::mem::take(&mut line));
        }
    }
    for line in &mut lines {
        line.truncate(line.trim_end().len());
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

#[cfg(test)]
mod tests;
