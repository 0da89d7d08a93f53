//! The rows between two command lines: which belong to the next prompt, and which to the output.

use unicode_width::UnicodeWidthStr;

use super::prompt::{common_words, is_distinctive, looks_like_prompt, shape};
use super::{Found, KnownCommand, Screen, ScreenRow};

/// Maximum number of rows above the last one of a prompt.
const MAX_HEIGHT: usize = 6;
/// Number of blanks behind the mark of zsh by which it is told from a blank that was printed.
const FILLER: usize = 10;

/// Returns the number of rows above the last one that belong to the prompt: those that are alike above all command lines.
/// `lines` are those that were found, the last one first.
pub fn height(screen: &Screen, lines: &[&Found<'_>]) -> usize {
    let Some((current, others)) = lines.split_first() else {
        return 0;
    };
    let above = |found: &Found<'_>, height: usize| {
        let row = found.echo.first_row.checked_sub(height)?;
        Some(screen.rows.get(row)?.text.trim_end())
    };
    // No prompt is higher than the space between two command lines.
    let spaces = lines.windows(2).filter_map(|pair| match pair {
        [below, found] => below.echo.first_row.checked_sub(found.echo.last_row + 1),
        _ => None,
    });
    let most = spaces.min().unwrap_or(MAX_HEIGHT).min(MAX_HEIGHT);
    let mut common = 0;
    for height in 1..=most {
        let Some(own) = above(current, height) else {
            break;
        };
        let own_shape = shape(own, current.prompt.cwd);
        // The beginning of a prompt may have left the scrollback.
        let rows: Vec<(&str, &str)> = others
            .iter()
            .filter_map(|found| Some((above(found, height)?, found.prompt.cwd)))
            .collect();
        let is_like = |(row, cwd): &(&str, &str)| {
            let shape = shape(row, cwd);
            shape == own_shape
                || (common_words(&own_shape, &shape) && looks_like_prompt(&own_shape))
        };
        let alike = rows.iter().copied().filter(is_like).count();
        // Outputs may end alike, at least those of the same command.
        let proves = match rows.len() {
            0 => screen.is_cut && looks_like_prompt(&own_shape),
            1 => looks_like_prompt(&own_shape),
            _ => true,
        };
        if !proves || alike * 4 < rows.len() * 3 {
            break;
        }
        common = height;
    }
    // Blank rows above the prompt are no part of an output either, but they prove nothing.
    while common > 0 && above(current, common).is_some_and(str::is_empty) {
        common -= 1;
    }
    common
}

/// Returns the first row that begins with a prompt of `lines`: a command that is not known, or an empty line.
pub fn first_prompt(rows: &[ScreenRow], lines: &[&Found<'_>]) -> Option<usize> {
    let mut prompts: Vec<_> = lines.iter().map(|found| &found.prompt).collect();
    prompts.sort_by_key(|prompt| prompt.text);
    prompts.dedup_by_key(|prompt| prompt.text);
    let begins = |row: &ScreenRow| {
        prompts.iter().any(|prompt| {
            let Some(rest) = row.text.strip_prefix(prompt.text) else {
                // An empty line has lost the blank at its end.
                return is_distinctive(prompt.text)
                    && row.text.trim_end() == prompt.text.trim_end();
            };
            // A leading space keeps a command out of the history.
            is_distinctive(prompt.text) || (rest.starts_with(' ') && !rest.trim().is_empty())
        })
    };
    rows.iter().position(begins)
}

/// Returns the first row that may begin with the prompt, if at least `count` rows do: `count` lines are known to have been
/// entered there. A line of the output that looks like a prompt ends the output too early, which is better than too late.
pub fn first_possible_prompt(rows: &[ScreenRow], next: &Found<'_>, count: usize) -> Option<usize> {
    let prompt = next.prompt.text;
    let begins =
        |row: &ScreenRow| row.text.starts_with(prompt) || row.text.trim_end() == prompt.trim_end();
    let found: Vec<usize> = (0..rows.len())
        .filter(|at| rows.get(*at).is_some_and(begins))
        .collect();
    found.first().copied().filter(|_| found.len() >= count)
}

/// Removes prompts without a command from the end of the rows, unless the command may have printed them.
pub fn drop_bare_prompts(
    rows: &mut Vec<ScreenRow>,
    next: &Found<'_>,
    command: &KnownCommand<'_>,
    height: usize,
) {
    let prompt = next.prompt.text.trim_end();
    let printed = ["PROMPT", "PS1", prompt];
    if printed.iter().any(|text| command.text.contains(text)) {
        return;
    }
    while rows.last().is_some_and(|row| row.text.trim_end() == prompt) {
        rows.truncate(rows.len().saturating_sub(height + 1));
    }
}

/// Returns the lines of rows: wrapped rows are joined, trailing blanks and empty lines at the end are left out, and so is the
/// mark of zsh for an output without a line end.
pub fn joined(rows: &[ScreenRow], screen: &Screen) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for (at, row) in rows.iter().enumerate() {
        let is_last = at + 1 == rows.len();
        let text = match is_last {
            true => without_end_mark(row, screen),
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

/// Returns the text of the last row of an output without the mark that zsh puts behind one without a line end. zsh fills the row
/// with blanks after it. Where the terminal tells no blanks, a mark behind a number or a blank stays.
fn without_end_mark<'a>(row: &'a ScreenRow, screen: &Screen) -> &'a str {
    let text = row.text.trim_end();
    let Some(rest) = text.strip_suffix(screen.end_mark) else {
        return &row.text;
    };
    let blanks = row.text.len() - text.len();
    let width = row.text.width();
    let is_filled = blanks >= FILLER || (blanks > 0 && width >= screen.columns)
        // The mark is in the last column, and the blanks were on the next row.
        || (width.is_multiple_of(screen.columns.max(1)) && width > 0 && !rest.ends_with(screen.end_mark));
    let is_word = rest.ends_with(|c: char| !c.is_ascii_digit() && !c.is_whitespace());
    match is_filled || (blanks == 0 && !screen.tells_wraps && is_word) {
        true => rest,
        false => &row.text,
    }
}
