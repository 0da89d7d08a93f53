//! What a terminal keeps of a command line that was drawn before it was entered, above the line as it was entered.
//!
//! A transient prompt is drawn again in another form when the line is entered. In the first row of the screen, zsh clears all of it for
//! that, and tmux moves what it clears to the scrollback. Ctrl-L leaves a line above the screen that has its beginning only.

use std::ops::Range;

use super::echo::{Echo, echoes, ends_line};
use super::prompt::{
    PromptLine, Similarity, begins_with_directory, begins_with_sign, opens_frame, shape,
    shows_directory,
};
use super::region::MAX_HEIGHT;
use super::text::{Expected, RIGHT_PROMPT, SearchedScreen, is_blank};
use super::{Found, ScreenRow};

/// Rows that do not belong to the output above a command line.
#[derive(Debug, Default)]
pub struct Redrawn<'a> {
    /// The first row of the line as it was drawn before, with its prompt.
    pub first_row: Option<usize>,
    /// A row may be such a line, or rows of the output may have been taken for its prompt.
    pub is_doubtful: bool,
    /// The prompt in the form that it had before the line was entered.
    pub before: Option<PromptLine<'a>>,
}

/// Looks for the line of `next` at the end of `rows`, which are those above it. `lines` are the command lines that were found, and
/// `height` is the number of rows above the last one of their prompts. `text` is the text of the line, if it is known.
pub fn find<'a>(
    screen: &'a SearchedScreen<'_>,
    rows: Range<usize>,
    lines: &[&Found<'_>],
    next: &Found<'a>,
    text: Option<&str>,
    height: usize,
) -> Redrawn<'a> {
    let row_text = |row: usize| screen.rows.get(row).map_or("", |row| row.text.as_str());
    let entered = row_text(next.echo.prompt_row).get(next.echo.prompt_end..);
    let text = text.unwrap_or_else(|| without_right_prompt(entered.unwrap_or_default()));
    let whole: Vec<Echo> = match text.trim().is_empty() {
        true => Vec::new(),
        false => echoes(screen, &Expected::new(screen, text)),
    };
    let cwd = next.prompt.cwd;
    let mut found = Redrawn::default();
    let with_text = |end: usize| {
        (rows.start..end)
            .rev()
            .find(|row| !row_text(*row).trim().is_empty())
    };
    let copy_at = |last: usize| {
        let is_copy =
            |echo: &&Echo| (rows.start..=last).contains(&echo.first_row) && echo.last_row >= last;
        whole.iter().rev().find(is_copy)
    };
    // The line above may have been taken for a row of the prompt.
    let mut end = match with_text(rows.end).and_then(copy_at) {
        Some(_) => rows.end,
        None => rows.end.saturating_sub(height).max(rows.start),
    };
    while let Some(last) = with_text(end) {
        let copy = copy_at(last);
        let (row, prompt, similarity) = if let Some(copy) = copy {
            let prompt = row_text(copy.prompt_row).get(..copy.prompt_end);
            let Some(prompt) = prompt.and_then(|text| PromptLine::new(text.trim_end(), cwd)) else {
                break;
            };
            let entered = PromptLine::new(next.prompt.text.trim_end(), cwd);
            let similarity = entered.map(|entered| prompt.similarity(&entered));
            (
                copy.first_row,
                prompt,
                similarity.unwrap_or(Similarity::Different),
            )
        } else {
            let row = row_text(last);
            let known = lines.iter().map(|line| (&line.prompt, Similarity::Same));
            let known = known.chain(
                found
                    .before
                    .iter()
                    .map(|prompt| (prompt, Similarity::Alike)),
            );
            let begins = |(prompt, similarity): (&PromptLine<'_>, _)| {
                Some((prompt.begins(row, cwd)?, similarity))
            };
            let Some((prompt, similarity)) = known.filter_map(begins).next() else {
                break;
            };
            let is_empty = ends_line(screen, last, prompt.text.len());
            // Without a form of the prompt from before, the caller looks for an empty line.
            if is_empty && found.before.is_none() {
                break;
            }
            let rest = row.get(prompt.text.len()..).unwrap_or_default();
            if !is_empty && !is_beginning(without_right_prompt(rest), text) {
                found.is_doubtful = true;
                break;
            }
            (last, prompt, similarity)
        };
        if similarity == Similarity::Different {
            // A message may end with the command that was entered next.
            found.is_doubtful = true;
            break;
        }
        // The form from before has other rows above it than the prompts of the lines that were entered.
        let is_before = copy.is_some() || similarity == Similarity::Alike || found.before.is_some();
        let top = is_before.then(|| top_of_prompt(screen, rows.start..row, &prompt));
        // An output can have the whole line too.
        found.is_doubtful |= top == Some(None);
        end = match similarity {
            Similarity::Alike => row,
            _ => row.saturating_sub(height).max(rows.start),
        };
        end = top.flatten().map_or(end, |top| top.min(end));
        if is_before {
            found.before = Some(prompt);
        }
        found.first_row = Some(end);
    }
    found
}

/// Returns the first row of a prompt whose last row is below `rows`, if that can be told.
pub fn top_of_prompt(
    screen: &SearchedScreen<'_>,
    rows: Range<usize>,
    prompt: &PromptLine<'_>,
) -> Option<usize> {
    let shape_of = |row: usize| {
        let text = screen.rows.get(row).map_or("", |row| row.text.trim_end());
        shape(text, prompt.cwd)
    };
    if closes_frame(prompt.text) {
        let mut above = rows.rev().take(MAX_HEIGHT);
        return above.find(|row| opens_frame(&shape_of(*row)));
    }
    if shows_directory(prompt.shape()) {
        return Some(rows.end);
    }
    let above = rows.clone().next_back()?;
    shows_directory(&shape_of(above)).then_some(above)
}

/// Whether a row is most likely the upper one of the long form of a transient prompt, which an abandoned line keeps: it shows more than
/// the directory, which the prompts of the lines that were entered do not show.
pub fn is_long_form(row: &ScreenRow, next: &Found<'_>) -> bool {
    let cwd = next.prompt.cwd;
    let text = row.text.trim();
    let shown = shape(text, cwd);
    let has_right_part = text.contains(RIGHT_PROMPT) || begins_with_sign(&shown);
    !shows_directory(&shape(next.prompt.text, cwd))
        && (begins_with_directory(&shown) && shown.chars().count() > 1
            || has_right_part && shows_directory(&shown))
}

/// Whether a text begins with the lower corner of a frame.
pub fn closes_frame(text: &str) -> bool {
    text.trim_start().starts_with(['╰', '└', '┗', '╚'])
}

fn without_right_prompt(text: &str) -> &str {
    let text = text.trim();
    text.split_once(RIGHT_PROMPT).map_or(text, |(line, _)| line)
}

/// Whether a text is the beginning of another one, but for blanks.
fn is_beginning(text: &str, whole: &str) -> bool {
    let mut whole = whole.chars().filter(|c| !is_blank(*c));
    let mut text = text.chars().filter(|c| !is_blank(*c));
    text.all(|c| whole.next() == Some(c))
}
