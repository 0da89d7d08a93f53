//! Whether the line that was found for a command is that of an earlier run of it. This happens where the line of the last run is
//! not recognized: its prompt has another sign than those of the other lines, or it was entered in another form.

use std::ops::Range;

use super::text::SearchedScreen;
use super::{Found, KnownCommand, ScreenRow, UnrecordedLine, region};

/// Where the output of a command begins.
pub enum OwnLine {
    /// Below the line that was taken for it.
    Taken,
    /// In this row, below a later line with its text.
    Below(usize),
    /// It is not known.
    Unknown,
}

/// Whether the line that was taken for the command number `known` of `all` may be one that was entered before it. `matched` are the
/// lines of the last commands, newest first; that of the command is the number `wanted` of them, counted from 1.
pub fn may_be_taken(
    all: &[KnownCommand<'_>],
    known: usize,
    matched: &[Option<Found<'_>>],
    wanted: usize,
) -> bool {
    let text = all.get(known).map_or("", |command| command.text);
    for (command, is_found) in older_commands(all, known, matched, wanted) {
        let may_follow = |lines: &[_]| lines.iter().any(|line| UnrecordedLine::may_be(*line, text));
        if command.unrecorded_after.is_none_or(may_follow) {
            return true;
        }
        // Lines that were entered before a line that was found are above it.
        if is_found {
            return false;
        }
        if command.text == text {
            return true;
        }
    }
    false
}

/// Whether the line of an older run of the same command was not found, up to a line of another one. The arguments are those of
/// [`may_be_taken`].
pub fn lacks_a_run(
    all: &[KnownCommand<'_>],
    known: usize,
    matched: &[Option<Found<'_>>],
    wanted: usize,
) -> bool {
    let text = all.get(known).map_or("", |command| command.text);
    let mut older = older_commands(all, known, matched, wanted);
    // The first run that was not found, or another command that was.
    let deciding = older.find(|(command, is_found)| (command.text == text) != *is_found);
    deciding.is_some_and(|(command, _)| command.text == text)
}

/// Returns the commands before the number `known`, newest first, and whether the line of each was found. The arguments are those of
/// [`may_be_taken`].
fn older_commands<'c, 'a>(
    all: &'c [KnownCommand<'a>],
    known: usize,
    matched: &'c [Option<Found<'_>>],
    wanted: usize,
) -> impl Iterator<Item = (&'c KnownCommand<'a>, bool)> {
    let older = all.get(..known).unwrap_or_default().iter().rev();
    let lines = matched.get(wanted..).unwrap_or_default().iter();
    // Lines of commands that are older than these are above all lines that were found.
    older.zip(lines.map(Option::is_some).chain(std::iter::repeat(false)))
}

/// Whether a row below the line `own` may be the line of its command, or of a later run of it, behind a prompt that is unlike all others:
/// the lines of all runs were taken too high then. `with_text` are all lines that end with the text of the command, and `lines` the
/// command lines that were found.
pub fn has_later_line(own: &Found<'_>, with_text: &[Found<'_>], lines: &[&Found<'_>]) -> bool {
    let first = own.echo.first_row;
    let other = lines.iter().filter(|line| line.command != own.command);
    let other = other.map(|line| line.echo.first_row);
    let end = other.filter(|row| *row > first).min().unwrap_or(first);
    let is_line = |row: usize| lines.iter().any(|line| line.echo.first_row == row);
    // `zsh: command not found: NAME` is a message.
    let is_message = |found: &Found<'_>| found.prompt.text.trim_end().ends_with(':');
    with_text.iter().any(|found| {
        let row = found.echo.first_row;
        (first + 1..end).contains(&row) && !is_line(row) && !is_message(found)
    })
}

/// Looks in the rows below the line that was taken for a later one. `with_text` are all lines that end with the text of the command, and
/// `lines` the command lines that were found; `next` is the one below the rows.
pub fn own_line(
    screen: &SearchedScreen<'_>,
    rows: Range<usize>,
    with_text: &[Found<'_>],
    lines: &[&Found<'_>],
    next: &Found<'_>,
) -> OwnLine {
    let text_of = |row: usize| screen.rows.get(row).map_or("", |row| row.text.as_str());
    // A message such as `command not found: NAME` occurs there once, a prompt before other lines too.
    let is_prompt = |found: &&Found<'_>| {
        let prompt = found.prompt.text.trim_end();
        let mut others = (0..next.echo.first_row).filter(|row| *row != found.echo.prompt_row);
        others.any(|row| text_of(row).starts_with(prompt))
    };
    let below = with_text
        .iter()
        .filter(|found| rows.contains(&found.echo.first_row));
    let lowest = below
        .filter(is_prompt)
        .max_by_key(|found| found.echo.last_row);
    let start = lowest.map_or(rows.start, |found| found.echo.last_row + 1);
    let has_prompt = |rows: &[ScreenRow]| {
        let known = region::prompt_rows(rows, lines, next);
        known.into_iter().any(|at| {
            // Ctrl-L, and a widget that prints, leave a prompt without a line.
            let prompts = lines.iter().map(|line| line.prompt.text.trim_end());
            let row = rows.get(at).map_or("", |row| row.text.trim_end());
            prompts.clone().all(|prompt| prompt != row)
        })
    };
    match screen.rows.get(start..rows.end.max(start)) {
        Some(rest) if has_prompt(rest) => OwnLine::Unknown,
        _ if start > rows.start => OwnLine::Below(start),
        _ => OwnLine::Taken,
    }
}
