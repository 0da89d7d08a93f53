//! The rows between two command lines: which belong to the next prompt, and which to the output.

use std::collections::BTreeSet;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

use super::echo::{Echo, ends_line};
use super::prompt::{
    PromptLine, Similarity, are_alike, begins_like_prompt, begins_with_sign, looks_like_prompt,
    opens_frame, shape, shows_directory,
};
use super::text::{RIGHT_PROMPT, SearchedScreen};
use super::{Found, KnownCommand, OpenLine, ScreenRow};

/// Maximum number of rows above the last one of a prompt.
pub const MAX_HEIGHT: usize = 6;
/// Number of programs above whose prompts a row without a directory or a sign must be to count as part of the prompt.
const PROGRAMS: usize = 3;
/// Number of blanks after the mark of zsh that distinguish it from a blank that was printed.
const FILLER: usize = 10;

/// Returns the number of rows above the last one that belong to the prompt of the line `next`: those that are alike above all command
/// lines with such a prompt. `lines` are those that were found, the last one first. Also returns whether another row may belong to
/// the prompt.
pub fn height(
    screen: &SearchedScreen<'_>,
    lines: &[&Found<'_>],
    next: &Found<'_>,
) -> (usize, bool) {
    // The prompt may have been another one for some time.
    let is_like = |found: &&Found<'_>| found.prompt.similarity(&next.prompt) >= Similarity::Alike;
    let mut with_prompt: Vec<&Found<'_>> = lines.iter().copied().filter(is_like).collect();
    if with_prompt.len() < 2 {
        with_prompt = lines.to_vec();
    }
    // Above the others, there may be the prompt of a line that is not recorded.
    let certain = || with_prompt.iter().filter(|found| !found.follows_unrecorded);
    let is_next = |found: &&&Found<'_>| found.echo == next.echo;
    let is_rest = |found: &Found<'_>| is_below_rest(screen, found);
    let has_row = |found: &&&Found<'_>| !is_rest(found) && is_like(found);
    let current = certain().filter(has_row).find(is_next);
    let current = current.or(certain().find(has_row));
    let current = current.or(certain().find(is_next)).or(certain().next());
    let Some(current) = current.or(with_prompt.first()) else {
        return (0, false);
    };
    let others: Vec<&Found<'_>> = (with_prompt.iter().copied())
        .filter(|found| !std::ptr::eq(*found, *current))
        .collect();
    let above = |found: &Found<'_>, height: usize| {
        let row = found.echo.first_row.checked_sub(height)?;
        Some(screen.rows.get(row)?.text.trim_end())
    };
    // No prompt is higher than the space between its line and the one above.
    let has_room = |found: &Found<'_>, height: usize| {
        let above = lines.iter().map(|line| line.echo.last_row);
        let above = above.filter(|row| *row < found.echo.first_row).max();
        above.is_none_or(|row| row + height < found.echo.first_row)
    };
    // The line of another prompt: one with nothing in it, or one that is not recorded.
    let is_other = |row: usize, text: &str| {
        let found = current.prompt.begins(text, current.prompt.cwd);
        found.is_some_and(|found| {
            current.follows_unrecorded || ends_line(screen, row, found.text.len().min(text.len()))
        })
    };
    let (mut common, mut is_doubtful) = (0, false);
    // A prompt shows the directory once.
    let mut is_shown = shows_directory(current.prompt.shape());
    for height in 1..=MAX_HEIGHT {
        let Some(own) = above(current, height).filter(|_| has_room(current, height)) else {
            break;
        };
        if is_other(current.echo.first_row - height, own) {
            break;
        }
        let own_shape = shape(own, current.prompt.cwd);
        let directory = !is_shown && shows_directory(&own_shape);
        let is_prompt = directory || begins_with_sign(&own_shape);
        // The beginning of a prompt may have left the scrollback.
        let mut rows: Vec<(&str, &Found<'_>)> = (others.iter())
            .filter(|found| has_room(found, height))
            .filter_map(|found| Some((above(found, height)?, *found)))
            .collect();
        // Without the space for it, a prompt has no such row.
        let lacking = others
            .iter()
            .filter(|found| !has_room(found, height))
            .count();
        let is_like = |(row, found): &&(&str, &Found<'_>)| {
            let shape = shape(row, found.prompt.cwd);
            shape == own_shape || is_prompt && are_alike(&own_shape, &shape)
        };
        if !is_rest(current) {
            rows.retain(|row| is_like(&row) || !is_rest(row.1));
        }
        let alike: Vec<&Found<'_>> = rows.iter().filter(is_like).map(|row| row.1).collect();
        // Outputs may end alike: those of the same program often, those of two at times.
        let with_own = || alike.iter().chain([current]);
        let programs: BTreeSet<&str> = with_own()
            .filter_map(|found| found.command_above?.split_whitespace().next())
            .collect();
        let may_differ =
            programs.len() > 1 || with_own().any(|found| found.command_above.is_none());
        let are_all = alike.len() == others.len() || screen.is_cut && alike.len() == rows.len();
        let proves = match (directory, is_prompt) {
            (true, _) => !rows.is_empty() || others.is_empty(),
            (_, true) => {
                (may_differ || opens_frame(&own_shape)) && (!rows.is_empty() || others.is_empty())
            }
            _ => rows.len() > 1 && (own.is_empty() || programs.len() >= PROGRAMS && are_all),
        };
        if !proves || alike.len() * 4 < (rows.len() + lacking) * 3 {
            let may_be_row = directory
                || is_prompt && begins_like_prompt(&own_shape)
                || !own.is_empty() && !is_shown && may_differ && alike.len() * 2 > rows.len();
            is_doubtful |= lacking == 0 && may_be_row;
            break;
        }
        is_doubtful |= lacking > 0;
        is_shown |= directory;
        common = height;
    }
    // Blank rows above the prompt are not part of an output either, but they prove nothing.
    while common > 0 && above(current, common).is_some_and(str::is_empty) {
        common -= 1;
    }
    (common, is_doubtful)
}

/// Returns the rows that begin with a prompt like those of `lines`; `next` is the line below the rows.
pub fn prompt_rows(rows: &[ScreenRow], lines: &[&Found<'_>], next: &Found<'_>) -> Vec<usize> {
    let prompts = different(lines);
    let begins = |row: &ScreenRow| {
        prompts
            .iter()
            .any(|prompt| prompt.begins(&row.text, next.prompt.cwd).is_some())
    };
    let numbered = rows.iter().enumerate();
    numbered
        .filter_map(|(at, row)| begins(row).then_some(at))
        .collect()
}

/// Whether a row that is not one of `lines` begins with a prompt like theirs. `next` is a line below the rows.
pub fn has_unknown_line(
    screen: &SearchedScreen<'_>,
    rows: Range<usize>,
    lines: &[&Found<'_>],
    next: &Found<'_>,
) -> bool {
    let is_known = |row: usize| lines.iter().any(|line| line.echo.prompt_row == row);
    let rows = screen.rows.get(rows).unwrap_or_default();
    prompt_rows(rows, lines, next)
        .into_iter()
        .any(|row| !is_known(row))
}

/// Returns the prompts of `lines` that differ in more than their digits and directories.
fn different<'l, 'a>(lines: &[&'l Found<'a>]) -> Vec<&'l PromptLine<'a>> {
    let mut prompts: Vec<&PromptLine<'_>> = lines.iter().map(|found| &found.prompt).collect();
    prompts.sort_by_key(|prompt| prompt.shape());
    prompts.dedup_by_key(|prompt| prompt.shape());
    prompts
}

/// Prompts in the rows of an output: Ctrl-L, and a widget that prints, leave them behind, or the command has printed them.
#[derive(Debug, Default)]
pub struct LeftBehind {
    /// The first row that surely was left behind and has nothing after the prompt but a right prompt.
    pub bare: Option<usize>,
    /// The first row above it in which most likely an abandoned line follows the prompt. What zle showed below the line, such as a list
    /// of completions, is below that row.
    pub line: Option<usize>,
    /// The first row that may be such a line: the prompt has too few characters to tell.
    pub unsure_line: Option<usize>,
    /// A row may be such a line.
    pub is_doubtful: bool,
}

/// Looks for prompts in `rows`, which are above the line `next`. `before` is the form of a transient prompt before a line is entered, and
/// `height` is the number of rows above the last one of a prompt.
pub fn left_behind(
    screen: &SearchedScreen<'_>,
    rows: Range<usize>,
    lines: &[&Found<'_>],
    before: Option<&PromptLine<'_>>,
    next: &Found<'_>,
    height: usize,
    command: &KnownCommand<'_>,
) -> LeftBehind {
    let mut prompts = different(lines);
    prompts.extend(before);
    let is_continued = *command.open_line == OpenLine::Continued;
    let last = rows.clone().rev().find(|row| !is_blank(screen, *row));
    let text_of = |row: usize| screen.rows.get(row).map_or("", |row| row.text.as_str());
    let shape_above = |row: usize, height: usize| {
        let row = row.checked_sub(height)?;
        Some(shape(text_of(row).trim_end(), next.prompt.cwd))
    };
    let has_whole_prompt = |row: usize| {
        (1..=height)
            .all(|height| shape_above(row, height) == shape_above(next.echo.first_row, height))
    };
    let mut left = LeftBehind::default();
    for row in rows.take_while(|_| !screen.is_cancelled()) {
        let text = text_of(row);
        let begins = |prompt: &&PromptLine<'_>| prompt.begins(text, next.prompt.cwd);
        let Some(prompt) = prompts.iter().find_map(begins) else {
            // Without PROMPT_CR, the prompt follows a last line without a line end.
            let mut known = prompts.iter().filter(|prompt| prompt.is_telling());
            if is_continued && known.any(|prompt| text.contains(prompt.text)) {
                left.is_doubtful = true;
                left.line = left.line.or(Some(row));
            }
            continue;
        };
        let is_bare = ends_line(screen, row, prompt.text.len());
        let prints_prompt = ["PROMPT", "PS1"]
            .iter()
            .any(|name| command.text.contains(name));
        let line = text.get(prompt.text.len()..).unwrap_or_default();
        let is_telling = prompt.is_telling();
        let is_whole = height > 0 && has_whole_prompt(row);
        let has_sign = has_word(command.text, prompt.text.trim_end());
        let is_named = match is_bare {
            true => prints_prompt || is_telling && has_sign,
            false => names(command.text, prompt.text, line.trim_end()),
        };
        if is_named {
            continue;
        }
        let is_last = Some(row) == last && (is_bare && !has_sign || height == 0 && !is_bare);
        let is_sure = is_telling || is_whole || is_last;
        match is_bare {
            true if is_sure => {
                left.bare = Some(row);
                // It may be the last line of the output.
                left.is_doubtful |= !is_whole && (height > 0 || !is_telling);
                break;
            }
            true => left.is_doubtful = true,
            false => {
                left.is_doubtful = true;
                let is_sure = is_sure && !prints_prompt;
                left.line = left.line.or(is_sure.then_some(row));
                left.unsure_line = left.unsure_line.or(Some(row));
            }
        }
    }
    left
}

/// Whether a command has a line in its text, after the sign of the prompt: it can print that line.
pub fn names(command: &str, prompt: &str, line: &str) -> bool {
    let sign = prompt.trim_end().char_indices().next_back();
    let sign = sign
        .and_then(|(at, _)| prompt.get(at..))
        .unwrap_or_default();
    has_word(command, &format!("{sign}{line}"))
}

/// Whether a text contains another one that is not a part of longer words.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default();
        let behind = text.get(at + word.len()..).unwrap_or_default();
        !before.ends_with(is_part) && !behind.starts_with(is_part)
    })
}

/// Whether the line that was found for a command is in its own output, as that of a program that shows the screen or a transcript.
/// Its text is in the places `shown`; `known` lines that were entered have it. `older` is the line before it, `lines` are those that
/// were found.
pub fn repeats(
    screen: &SearchedScreen<'_>,
    own: &Found<'_>,
    older: Option<&Found<'_>>,
    lines: &[&Found<'_>],
    shown: &[Echo],
    known: usize,
) -> bool {
    let first = own.echo.first_row;
    let behind_older = older.map_or(0, |older| older.echo.last_row + 1);
    let is_line = |row: usize| lines.iter().any(|line| line.echo.first_row == row);
    let block = older.map_or(0, |older| first.saturating_sub(older.echo.first_row));
    // The lines above it were repeated too, and the lower ones taken. A prompt may show the time.
    let is_copy = |row: usize| {
        (0..=block).all(|above| {
            let text = |row: usize| Some(screen.rows.get(row.checked_sub(above)?)?.text.trim_end());
            let shape_of = |row: usize| text(row).map(|text| shape(text, own.prompt.cwd));
            text(row).is_some() && (text(row) == text(first) || shape_of(row) == shape_of(first))
        })
    };
    // zle leaves a copy immediately above when it draws a long line, or the first one of a shell, again with a shorter prompt.
    shown
        .iter()
        .filter(|echo| echo.first_row < first && echo.last_row + 1 != first)
        .map(|echo| echo.first_row)
        .any(|row| row >= behind_older || (shown.len() > known && !is_line(row) && is_copy(row)))
}

/// Whether more may follow a command line than its right prompt: the beginning of the output, which a terminal that became wider has
/// taken for the rest of that row. The text then has another shape than the right prompts of the other `lines`, and does not end where a
/// right prompt ends, or begins with one of theirs.
pub fn may_hide_output(screen: &SearchedScreen<'_>, own: &Found<'_>, lines: &[&Found<'_>]) -> bool {
    let row = |found: &Found<'_>| screen.rows.get(found.echo.last_row);
    let behind = |found: &Found<'_>| {
        let (_, behind) = row(found)?.text.trim_end().rsplit_once(RIGHT_PROMPT)?;
        Some(shape(behind, found.prompt.cwd))
    };
    let Some(shown) = behind(own).filter(|_| !screen.tells_wraps) else {
        return false;
    };
    // zsh leaves the last column free.
    let is_at_edge = |found: &Found<'_>| {
        let width = row(found).map_or(0, |row| row.text.trim_end().width());
        (screen.columns.saturating_sub(2)..screen.columns).contains(&width)
    };
    let others = lines.iter().filter(|found| found.echo != own.echo);
    let known: Vec<(String, bool)> = others
        .filter_map(|found| Some((behind(found)?, is_at_edge(found))))
        .collect();
    // A right prompt has an exit code before the time, or the like, at times only. One that does not end at the edge may have
    // an output behind it too, which often has the same shape.
    let is_like = |(other, is_at_edge): &(String, bool)| {
        *is_at_edge && (shown.ends_with(other.as_str()) || other.ends_with(&shown))
    };
    if known.iter().any(is_like) {
        return false;
    }
    let goes_on = |(other, _): &(String, bool)| {
        let rest = shown.strip_prefix(other.as_str());
        rest.is_some_and(|rest| rest.starts_with(' '))
    };
    !is_at_edge(own) || known.iter().any(goes_on)
}

/// Whether a row below a command line is the rest of its right prompt, which a terminal that became narrower has broken off.
pub fn is_broken_right_prompt(screen: &SearchedScreen<'_>, own: &Found<'_>, row: usize) -> bool {
    let text_of = |row: usize| screen.rows.get(row).map_or("", |row| row.text.trim_end());
    let text = text_of(row);
    !screen.tells_wraps
        && text.starts_with(RIGHT_PROMPT)
        && !text_of(own.echo.last_row).contains(RIGHT_PROMPT)
        && screen.has_right_prompt(text)
}

fn is_blank(screen: &SearchedScreen<'_>, row: usize) -> bool {
    let row = screen.rows.get(row);
    row.is_none_or(|row| row.text.trim().is_empty())
}

/// Removes rows at the end that are like those above the last one of the prompt: a terminal that became narrower has left them
/// behind. A row that has nothing but a path may be a line of the output and stays; returns whether it may be one of the prompt.
pub fn drop_prompt_rows(
    rows: &mut Vec<ScreenRow>,
    screen: &SearchedScreen<'_>,
    next: &Found<'_>,
    height: usize,
) -> bool {
    let cwd = next.prompt.cwd;
    let of_prompt: Vec<&str> = (1..=height)
        .filter_map(|above| next.echo.first_row.checked_sub(above))
        .filter_map(|row| Some(screen.rows.get(row)?.text.trim_end()))
        .collect();
    let shapes: Vec<String> = (of_prompt.iter())
        .map(|row| shape(row, cwd))
        .filter(|shape| looks_like_prompt(shape))
        .collect();
    let is_left_behind = |row: &ScreenRow| {
        let shown = shape(row.text.trim_end(), cwd);
        // Of a row that was broken at the edge, zsh draws over the rest.
        let is_full = row.text.trim_end().width() >= screen.columns || ends_with_filler(&row.text);
        shapes.iter().any(|of_prompt| {
            *of_prompt == shown && (is_full || shown.chars().count() > 1)
                || (is_full && looks_like_prompt(&shown) && of_prompt.starts_with(&shown))
        })
    };
    while rows.last().is_some_and(is_left_behind) {
        rows.pop();
    }
    let is_like = |row: &ScreenRow| {
        of_prompt
            .iter()
            .any(|text| !text.is_empty() && *text == row.text.trim_end())
    };
    rows.last().is_some_and(is_like)
}

/// Whether the row above a command line may be the rest of a row that is longer than the window: the terminal does not tell which rows
/// it has wrapped.
pub fn is_below_rest(screen: &SearchedScreen<'_>, line: &Found<'_>) -> bool {
    let row = line.echo.first_row.checked_sub(2);
    let row = row.and_then(|row| screen.rows.get(row));
    !screen.tells_wraps && row.is_some_and(|row| row.wrapped)
}

/// Whether a row is as wide as the window and may go on in the next one: a blank at its end stands for one that was left out at the edge.
pub fn is_full(row: &ScreenRow) -> bool {
    row.wrapped && !row.text.ends_with(' ')
}

/// Whether a text ends within a row of the same sign, as a prompt of the width of the terminal has it.
fn ends_with_filler(text: &str) -> bool {
    let mut chars = text.trim_end().chars().rev();
    let last = chars.next().filter(|c| !c.is_alphanumeric());
    last.is_some() && chars.next() == last
}

/// Returns the lines of rows: wrapped rows are joined, trailing blanks and empty lines at the end are left out, and so is
/// the mark of zsh for an output without a line end.
pub fn joined(rows: &[ScreenRow], screen: &SearchedScreen<'_>, mark: Option<&str>) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    // Blank rows at the end belong to the prompt.
    let with_text = |row: &ScreenRow| !row.text.trim().is_empty();
    let end = rows.iter().rposition(with_text).map_or(0, |at| at + 1);
    for (at, row) in rows.iter().take(end).enumerate() {
        let is_last = at + 1 == end;
        let text = match mark {
            Some(mark) if is_last => without_end_mark(row, screen, mark),
            _ => &row.text,
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

/// Whether it is not certain that the sign at the end of an output is, or is not, the mark of zsh: the terminal reports no blanks.
pub fn has_doubtful_mark(
    rows: &[ScreenRow],
    screen: &SearchedScreen<'_>,
    mark: Option<&str>,
) -> bool {
    let Some(mark) = mark else {
        return false;
    };
    let last = rows.iter().rfind(|row| !row.text.trim().is_empty());
    let ends = last.is_some_and(|row| row.text.len() > mark.len() && row.text.ends_with(mark));
    ends && mark.is_ascii() && !screen.tells_wraps
}

/// Returns the text of the last row of an output without the mark that zsh puts after one without a line end. zsh fills the row
/// with blanks after it. Where the terminal reports no blanks, a mark of ASCII after a blank stays, and `%` after a number.
fn without_end_mark<'a>(row: &'a ScreenRow, screen: &SearchedScreen<'_>, mark: &str) -> &'a str {
    let text = row.text.trim_end();
    let Some(rest) = text.strip_suffix(mark) else {
        return &row.text;
    };
    let blanks = row.text.len() - text.len();
    let width = row.text.width();
    let is_filled = blanks >= FILLER || (blanks > 0 && width >= screen.columns)
        // The mark is in the last column, and the blanks were on the next row.
        || (width.is_multiple_of(screen.columns.max(1)) && width > 0 && !rest.ends_with(mark));
    let is_word = match mark.is_ascii() {
        true => rest.ends_with(|c: char| !(c.is_whitespace() || mark == "%" && c.is_ascii_digit())),
        false => !rest.is_empty(),
    };
    match is_filled || (blanks == 0 && !screen.tells_wraps && is_word) {
        true => rest,
        false => &row.text,
    }
}
