//! Finds the rows in which the text of a command stands as zsh's line editor shows it.

use super::{Screen, ScreenRow};
use unicode_width::UnicodeWidthStr;

/// Maximum number of characters of a command that are compared.
const COMPARED: usize = 4096;
/// Maximum length of a continuation prompt such as `for else> `, in bytes.
const CONTINUATION: usize = 60;

/// Where the text of a command stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Echo {
    /// The first row that belongs to the command line.
    pub first_row: usize,
    /// The row with the prompt.
    pub prompt_row: usize,
    /// The end of the prompt in that row, in bytes.
    pub prompt_end: usize,
    /// The last row.
    pub last_row: usize,
}

/// Returns all places where the text of a command stands, from the top to the bottom.
pub fn echoes(screen: &Screen, text: &str) -> Vec<Echo> {
    let text: String = text.trim().chars().take(COMPARED).collect();
    let lines: Vec<Vec<char>> = text
        .split('\n')
        .map(|line| visible(line).collect())
        .collect();
    let Some(first) = lines.first().and_then(|line| line.first()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (row, ScreenRow { text, .. }) in screen.rows.iter().enumerate() {
        for (at, _) in text.match_indices(*first) {
            let Some(last_row) = consume(screen, row, at, &lines) else {
                continue;
            };
            let expanded = at == 0 && row > 0 && is_expansion(screen, row - 1);
            let echo = match text.get(..at).map(str::trim) {
                // zsh prints a line again whose history references it has expanded.
                Some("") if expanded => expansion(screen, row - 1, last_row),
                Some("") | None => None,
                Some(_) => Some(Echo {
                    first_row: row,
                    prompt_row: row,
                    prompt_end: at,
                    last_row,
                }),
            };
            found.extend(echo);
        }
    }
    found
}

/// Blanks are not compared: a row may have lost those at its end, and a tab is shown as several.
fn visible(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_whitespace())
}

/// Returns the last row of `lines` if they stand at the byte `at` of a row and after it.
fn consume(screen: &Screen, row: usize, at: usize, lines: &[Vec<char>]) -> Option<usize> {
    let (line, rest) = lines.split_first()?;
    let last_row = consume_line(screen, row, at, line)?;
    if rest.is_empty() {
        return Some(last_row);
    }
    let next = last_row + 1;
    let text = &screen.rows.get(next)?.text;
    let Some(first) = rest.first()?.first() else {
        // An empty line: nothing stands behind the continuation prompt.
        return (text.trim_end().len() <= CONTINUATION)
            .then(|| consume(screen, next, text.len(), rest))
            .flatten();
    };
    // A line that was typed stands behind a continuation prompt, one that was recalled begins at the edge.
    text.match_indices(*first)
        .take_while(|(at, _)| *at <= CONTINUATION)
        .find_map(|(at, _)| consume(screen, next, at, rest))
}

/// Returns the last row of a line that begins at the byte `at` of a row. zsh wraps long lines itself, and a terminal wraps them
/// again when it becomes narrower, so that a row may end anywhere.
fn consume_line(screen: &Screen, mut row: usize, at: usize, line: &[char]) -> Option<usize> {
    let mut rest = screen.rows.get(row)?.text.get(at..)?;
    let mut line = line.iter();
    while let Some(wanted) = line.next() {
        rest = rest.trim_start();
        while rest.is_empty() {
            row += 1;
            rest = screen.rows.get(row)?.text.trim_start();
            // Only a full row continues, and none is empty.
            if rest.is_empty() {
                return None;
            }
        }
        let shown = rest.chars().next()?;
        if shown == *wanted {
            rest = rest.get(shown.len_utf8()..)?;
        } else if wanted.is_control() {
            // Shown as ^X.
            let letter = char::from_u32(u32::from(*wanted) ^ 0x40)?;
            rest = rest.strip_prefix('^')?.strip_prefix(letter)?;
        } else {
            return None;
        }
    }
    let width = screen.rows.get(row)?.text.trim_end().width();
    let blanks = rest.len() - rest.trim_start().len();
    // What may follow is a right prompt, which ends at the edge or stands far away.
    let is_end =
        rest.trim().is_empty() || (blanks >= 1 && width + 2 >= screen.columns) || blanks >= 8;
    is_end.then_some(row)
}

/// Whether a row ends with something that history expansion may have replaced.
fn is_expansion(screen: &Screen, row: usize) -> bool {
    let text = screen.rows.get(row).map(|row| row.text.as_str());
    text.is_some_and(|text| text.contains('!') || text.contains('^'))
}

/// Returns the place of a command whose typed form stands in `row`, behind the prompt.
fn expansion(screen: &Screen, row: usize, last_row: usize) -> Option<Echo> {
    let text = &screen.rows.get(row)?.text;
    let reference = text.find(['!', '^'])?;
    // The prompt ends at the last sign with a blank before the words of the command.
    let before = text.get(..reference)?;
    let signs = before.char_indices().zip(before.chars().skip(1));
    let end = signs
        .filter(|((_, sign), next)| *next == ' ' && !sign.is_alphanumeric() && *sign != ' ')
        .last()
        .map(|((at, sign), _)| at + sign.len_utf8() + 1)?;
    Some(Echo {
        first_row: row,
        prompt_row: row,
        prompt_end: end,
        last_row,
    })
}
