//! Signs that rows of an output belong to something else: to a prompt that is not always the same, or to another run of the command.

use std::ops::RangeInclusive;

use super::echo::Echo;
use super::prompt::{Similarity, are_alike, begins_with_sign, shape, shows_directory};
use super::redrawn::is_long_form;
use super::region::{is_below_rest, is_full};
use super::text::SearchedScreen;
use super::{Found, KnownCommand, ScreenRow, unrecorded};

/// Maximum number of words in a row with an exit code or a time that may belong to a prompt.
const STATUS_WORDS: usize = 2;

/// Whether the last row of an output may be one that the prompt has at times only, as many have one after a failure, in a repository
/// or after a long command. `height` is the number of rows above the last one that the prompt always has, and `lines` are the command
/// lines that were found.
pub fn may_end_with_prompt_row(
    rows: &[ScreenRow],
    screen: &SearchedScreen<'_>,
    lines: &[&Found<'_>],
    height: usize,
    command: &KnownCommand<'_>,
) -> bool {
    let Some(last) = rows
        .iter()
        .rev()
        .map(|row| row.text.trim())
        .find(|text| !text.is_empty())
    else {
        return false;
    };
    if shows_status(last, command.exit) {
        return true;
    }
    let own = shape(last, command.cwd);
    // A number or a bracket ends many outputs.
    let is_telling =
        own.chars().any(char::is_alphabetic) || begins_with_sign(&own) || shows_directory(&own);
    if !is_telling {
        return false;
    }
    let program = command.text.split_whitespace().next();
    lines.iter().any(|line| {
        let row = line.echo.first_row.checked_sub(height + 1);
        let row = row.and_then(|row| screen.rows.get(row));
        let is_other = |above: &str| above.split_whitespace().next() != program;
        line.command_above.is_some_and(is_other) && row.is_some_and(|row| row.text.trim() == last)
    })
}

/// Whether a text is an exit code or the time that a command took, with at most one other word.
fn shows_status(text: &str, exit: i32) -> bool {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.len() > STATUS_WORDS {
        return false;
    }
    let mut numbers = text
        .split(|c: char| !c.is_ascii_digit())
        .filter(|number| !number.is_empty());
    let shows_code = exit != 0
        && numbers
            .next()
            .is_some_and(|number| number == exit.to_string())
        && numbers.next().is_none();
    let is_time = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.ends_with('s')
            && word
                .chars()
                .all(|c| c.is_ascii_digit() || ".hms".contains(c))
    };
    let shows_time = match *words.as_slice() {
        [time] => is_time(time),
        [before, time] => {
            let is_label = before == "took" || !before.contains(char::is_alphabetic);
            is_label && is_time(time)
        }
        _ => false,
    };
    shows_code || shows_time
}

/// Whether the text of a command is shown more often than it was entered, so that its output has it too, and another row may be its line.
/// `older` are the commands before it and their lines, newest first; `shown` are the places of the text behind prompts, and `own` is
/// the one that was taken.
pub fn is_ambiguous<'c, 'k: 'c, 'a: 'c>(
    screen: &SearchedScreen<'_>,
    text: &str,
    older: impl Iterator<Item = (&'c KnownCommand<'k>, Option<&'c Found<'a>>)>,
    shown: &[Echo],
    own: &Found<'_>,
) -> bool {
    let (mut entered, mut top) = (1, 0);
    for (command, found) in older {
        let Some(lines) = command.unrecorded_after else {
            return false;
        };
        entered += lines.iter().filter(|line| line.may_be(text)).count();
        if command.text == text {
            entered += 1;
        } else if let Some(found) = found {
            top = found.echo.last_row + 1;
            break;
        }
    }
    lines_in(screen, shown, top..=own.echo.first_row, own) > entered
}

/// Returns the places of the text of each command above the line that runs now and after a prompt like its own.
pub fn with_prompt(current: &Found<'_>, candidates: &[Vec<Found<'_>>]) -> Vec<Vec<Echo>> {
    let is_line = |found: &&Found<'_>| {
        found.echo.first_row < current.echo.first_row
            && found.prompt.similarity(&current.prompt) >= Similarity::SameShape
    };
    let echoes = |lines: &Vec<Found<'_>>| {
        let lines = lines.iter().filter(is_line);
        lines.map(|found| found.echo).collect()
    };
    candidates.iter().map(echoes).collect()
}

/// Whether the line that was taken for the first of some commands may be one of an older run, because outputs have the line too and the
/// lines of the other commands were taken too high as well: from it on, the text is then shown more often than it was entered.
/// `with_prompt` are the places of the texts of the commands and `newer` the lines of all but the first one, newest first.
pub fn may_be_older_run(
    screen: &SearchedScreen<'_>,
    (commands, with_prompt, newer): (&[KnownCommand<'_>], &[Vec<Echo>], &[Option<Found<'_>>]),
    own: &Found<'_>,
) -> bool {
    let (Some(command), Some(shown)) = (commands.first(), with_prompt.last()) else {
        return false;
    };
    let first = own.echo.first_row;
    // The line of a command with another text is the last row that counts, unless it may be too high itself.
    let is_certain = |shown: &[Echo], text: &str| {
        let rows = shown.iter().filter(|echo| echo.first_row >= first);
        rows.count() <= unrecorded::count_of(commands, text)
    };
    let mut entered = command.count(command.text);
    let mut end = screen.rows.len();
    let lines = with_prompt.iter().zip(newer).rev();
    for (other, (shown, found)) in commands.iter().skip(1).zip(lines) {
        if let Some(found) = found
            && other.text != command.text
            && is_certain(shown, other.text)
        {
            end = found.echo.first_row;
            break;
        }
        entered += other.count(command.text);
    }
    lines_in(screen, shown, first..=end, own) > entered
}

/// Returns how many of the places of a text are in some rows, without the copies that zle leaves of the line `own`.
fn lines_in(
    screen: &SearchedScreen<'_>,
    shown: &[Echo],
    rows: RangeInclusive<usize>,
    own: &Found<'_>,
) -> usize {
    let inside = |echo: &&Echo| rows.contains(&echo.first_row);
    let shown: Vec<&Echo> = shown.iter().filter(inside).collect();
    let prompt = |echo: &Echo| {
        screen
            .rows
            .get(echo.prompt_row)?
            .text
            .get(..echo.prompt_end)
    };
    // zle leaves a copy immediately above when it draws a long line again, one with another prompt, or a transient prompt.
    let has_long_form = |echo: &Echo| {
        let above = echo.first_row.checked_sub(1);
        let above = above.and_then(|row| screen.rows.get(row));
        above.is_some_and(|row| is_long_form(row, own))
    };
    let is_copy = |echo: &Echo| {
        shown.iter().any(|below| {
            echo.last_row + 1 == below.first_row
                && (echo.last_row > echo.first_row
                    || prompt(echo) != prompt(below)
                    || has_long_form(echo))
        })
    };
    shown.iter().filter(|echo| !is_copy(echo)).count()
}

fn first_word(text: &str) -> Option<&str> {
    text.split_whitespace().next()
}

/// Removes the first rows of a prompt that is longer than the window, where the terminal does not tell which rows it has wrapped.
/// `below` is the text of the row below, and `lines` are the command lines that were found; `height` is the number of rows above the
/// last one that the prompt always has. Returns whether rows were removed, or may belong to such a prompt.
pub fn drop_wrapped_prompt(
    rows: &mut Vec<ScreenRow>,
    screen: &SearchedScreen<'_>,
    lines: &[&Found<'_>],
    (next, height): (&Found<'_>, usize),
    below: &str,
) -> bool {
    let Some(last) = rows.last().filter(|_| !screen.tells_wraps) else {
        return false;
    };
    let shape_of = |text: &str| shape(text.trim_end(), next.prompt.cwd);
    let usual: Vec<String> = (lines.iter())
        .filter(|line| !is_below_rest(screen, line))
        .filter_map(|line| Some((line, line.echo.first_row.checked_sub(1)?)))
        .filter_map(|(line, row)| Some((line, screen.rows.get(row)?)))
        .map(|(line, row)| shape(row.text.trim_end(), line.prompt.cwd))
        .filter(|shape| shows_directory(shape))
        .collect();
    // The row of a prompt may show an exit code or a time at times only, and a window that became narrower has its beginning twice.
    let is_usual = |own: &str| {
        let is_like = |usual: &String| {
            let is_same_row = height > 0 && first_word(usual) == first_word(own);
            usual == own || is_same_row && are_alike(usual, own)
        };
        shows_directory(own) && usual.iter().any(is_like)
    };
    let goes_on = is_full(last) && !below.is_empty();
    // Other prompts begin so, and not behind a full row.
    let begins_below = |line: &&&Found<'_>| line.prompt.begins(below, next.prompt.cwd).is_some();
    let mut like_below = lines.iter().filter(begins_below);
    let is_complete = is_usual(&shape_of(below))
        || like_below.any(|line| {
            let above = line.echo.first_row.checked_sub(1);
            let above = above.and_then(|row| screen.rows.get(row));
            above.is_none_or(|row| !row.wrapped)
        });
    // A blank at the edge was left out.
    let may_go_on = last.wrapped && !below.is_empty() && !is_complete;
    let above = |is_part: fn(&ScreenRow) -> bool| {
        let above = rows.iter().rev().skip(1).take_while(|row| is_part(row));
        rows.len() - 1 - above.count()
    };
    let (top, highest) = (above(is_full), above(|row| row.wrapped));
    let joined = |first: usize| {
        let rows = rows.iter().skip(first).map(|row| row.text.as_str());
        let mut joined: String = rows.collect();
        if may_go_on {
            joined.push_str(below);
        }
        shape_of(&joined)
    };
    // A full row above the prompt may be one of the output.
    let end = rows.len() - usize::from(!may_go_on);
    if let Some(first) = (highest..end).find(|first| is_usual(&joined(*first))) {
        rows.truncate(first);
        return true;
    }
    let own = joined(top);
    let is_wrapped = goes_on || top + 1 < rows.len();
    if is_complete || !is_wrapped || !shows_directory(&own) {
        return goes_on;
    }
    if goes_on {
        rows.truncate(top);
        return true;
    }
    !shows_directory(next.prompt.shape())
}
