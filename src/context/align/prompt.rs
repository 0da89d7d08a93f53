//! Recognizes prompts: the text before a command line, and the rows above it that belong to the prompt too.

use unicode_width::UnicodeWidthStr;

use super::{Found, ScreenRow};

/// Maximum number of rows above the last one of a prompt.
const MAX_HEIGHT: usize = 6;
/// Number of visible characters from which a prompt is unlikely to begin a line of an output.
const DISTINCTIVE: usize = 3;

/// How much two prompts are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Similarity {
    /// Not at all.
    Different,
    /// They end with the same sign.
    SameEnd,
    /// The same but for digits, the directory and the length of fillers.
    SameShape,
    /// The same text.
    Same,
}

/// The last row of a prompt, up to the command.
#[derive(Debug, Clone)]
pub struct PromptLine<'a> {
    /// The text, with the blanks at its end.
    pub text: &'a str,
    /// The directory of the shell.
    cwd: &'a str,
    /// Output without a line end that stands on the same row, before the prompt.
    pub output_before: Option<&'a str>,
}

impl<'a> PromptLine<'a> {
    /// Returns `None` for a text that is no prompt: a word, or nothing.
    pub fn new(text: &'a str, cwd: &'a str) -> Option<PromptLine<'a>> {
        let end = text.chars().next_back()?;
        let is_prompt = !text.trim().is_empty() && (end.is_whitespace() || !end.is_alphanumeric());
        is_prompt.then_some(PromptLine {
            text,
            cwd,
            output_before: None,
        })
    }

    /// Compares two prompts.
    pub fn similarity(&self, other: &PromptLine<'_>) -> Similarity {
        // One more blank at the end is that of a command that is kept out of the history.
        let blanks = |text: &str| text.len() - text.trim_end().len();
        if blanks(self.text) != blanks(other.text) {
            return Similarity::Different;
        }
        if self.text == other.text {
            return Similarity::Same;
        }
        if shape(self.text, self.cwd) == shape(other.text, other.cwd) {
            return Similarity::SameShape;
        }
        let end = |text: &str| text.trim_end().chars().next_back();
        match end(self.text) == end(other.text)
            && end(self.text).is_some_and(|c| !c.is_alphanumeric())
        {
            true => Similarity::SameEnd,
            false => Similarity::Different,
        }
    }

    /// Returns the prompt at the beginning of a row that is like this one; `cwd` is the directory of that row.
    pub fn begins<'r>(&self, row: &'r str, cwd: &'r str) -> Option<PromptLine<'r>> {
        if row.starts_with(self.text) {
            return PromptLine::new(row.get(..self.text.len())?, cwd);
        }
        let wanted = shape(self.text, self.cwd);
        let sign = self.text.trim_end().chars().next_back()?;
        let ends = row.match_indices(sign).take(40);
        ends.filter_map(|(at, _)| {
            let end = at + sign.len_utf8();
            let blanks = self.text.len() - self.text.trim_end().len();
            let rest = row.get(end..)?;
            // zle may have left out the blank at the end of an empty line.
            let blanks = blanks.min(rest.len() - rest.trim_start().len());
            PromptLine::new(row.get(..end + blanks)?, cwd)
        })
        .find(|prompt| shape(prompt.text, cwd).trim_end() == wanted.trim_end())
    }

    /// Splits off an output without a line end, if the text ends with one of the other prompts.
    pub fn split_output<'o>(&mut self, others: impl Iterator<Item = &'o PromptLine<'o>>) {
        let mut longest = 0;
        for other in others {
            let is_same = self.text == other.text;
            if is_same {
                return;
            }
            if self.text.ends_with(other.text) && is_distinctive(other.text) {
                longest = longest.max(other.text.len());
            }
        }
        let at = self.text.len() - longest;
        if longest > 0
            && let (Some(output), Some(prompt)) = (self.text.get(..at), self.text.get(at..))
        {
            self.output_before = Some(output);
            self.text = prompt;
        }
    }
}

/// Whether a prompt is unlikely to begin a line of an output.
fn is_distinctive(prompt: &str) -> bool {
    let visible: Vec<char> = prompt.chars().filter(|c| !c.is_whitespace()).collect();
    visible.len() >= DISTINCTIVE || visible.iter().any(|c| !c.is_ascii())
}

/// Returns a text without what differs between two prompts of a shell: digits, the directory, the length of fillers.
fn shape(text: &str, cwd: &str) -> String {
    let mut text = text.to_owned();
    let parts: Vec<&str> = cwd.rsplit('/').filter(|part| !part.is_empty()).collect();
    if !cwd.is_empty() && cwd != "/" {
        text = text.replace(cwd, "\u{1}");
    }
    // The last parts of the path, as `%~`, `%1~` and `%c` show them.
    for count in (1..=parts.len().min(8)).rev() {
        let tail: Vec<&str> = parts.iter().take(count).rev().copied().collect();
        let tail = tail.join("/");
        if tail.chars().count() < 2 {
            continue;
        }
        for form in [
            format!("~/{tail}"),
            format!("…/{tail}"),
            format!("/{tail}"),
            tail,
        ] {
            text = replace_word(&text, &form);
        }
    }
    text = replace_word(&text, "~");
    let mut shape = String::with_capacity(text.len());
    for c in text.chars() {
        let c = match c {
            '0'..='9' => '0',
            c if c.is_whitespace() => ' ',
            c => c,
        };
        // Fillers and numbers have any length.
        let repeats = shape.ends_with(c) && !c.is_alphabetic();
        if !repeats {
            shape.push(c);
        }
    }
    shape
}

/// Replaces a path where it is not a part of a longer word.
fn replace_word(text: &str, word: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let (before, after) = (
            rest.get(..at).unwrap_or_default(),
            rest.get(at + word.len()..).unwrap_or_default(),
        );
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let starts = before
            .chars()
            .next_back()
            .or(out.chars().next_back())
            .is_none_or(|c| !is_part(c));
        let ends = after.chars().next().is_none_or(|c| !is_part(c));
        out.push_str(before);
        out.push_str(if starts && ends { "\u{1}" } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns the number of rows above the last one that belong to the prompt: those that are alike above all command lines.
pub fn height(screen: &super::Screen, lines: &[&Found<'_>]) -> usize {
    let Some((current, others)) = lines.split_first() else {
        return 0;
    };
    if others.is_empty() {
        return 0;
    }
    let above = |found: &Found<'_>, height: usize| {
        let row = found.echo.first_row.checked_sub(height)?;
        Some(screen.rows.get(row)?.text.as_str())
    };
    let mut common = 0;
    for height in 1..=MAX_HEIGHT {
        let Some(own) = above(current, height) else {
            break;
        };
        let is_common = others.iter().all(|other| {
            above(other, height)
                .is_some_and(|text| alike(own, current.prompt.cwd, text, other.prompt.cwd))
        });
        if !is_common {
            break;
        }
        common = height;
    }
    // Blank rows above the prompt are no part of an output either, but they prove nothing.
    while common > 0 && above(current, common).is_some_and(|text| text.trim().is_empty()) {
        common -= 1;
    }
    common
}

/// Whether two rows above command lines are rows of the same prompt.
fn alike(one: &str, cwd: &str, other: &str, other_cwd: &str) -> bool {
    let (one, other) = (
        shape(one.trim_end(), cwd),
        shape(other.trim_end(), other_cwd),
    );
    if one == other {
        return true;
    }
    // A part may come and go, such as the state of a repository or the exit code. The beginning stays.
    let words =
        |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
    let (one, other) = (words(&one), words(&other));
    let (Some(first), Some(other_first)) = (one.first(), other.first()) else {
        return false;
    };
    let is_sign = |word: &str| {
        word.chars()
            .next()
            .is_some_and(|c| !c.is_ascii() || c == '\u{1}')
    };
    let common = one.iter().filter(|word| other.contains(word)).count();
    first == other_first && is_sign(first) && 2 * common >= one.len().max(other.len())
}

/// Returns the first row that begins with a prompt of `prompts`: a command that is not known, or an empty line.
pub fn first_prompt(rows: &[ScreenRow], prompts: &[&Found<'_>], _columns: usize) -> Option<usize> {
    let begins = |row: &ScreenRow| {
        prompts.iter().any(|found| {
            let prompt = &found.prompt;
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

/// Returns the text of the last row of an output without the mark that zsh puts behind one without a line end. zsh fills the row
/// with blanks after it, so that the terminal wraps it; where the terminal tells no blanks, a percent sign behind a
/// number stays.
pub fn without_end_mark(row: &ScreenRow, columns: usize) -> &str {
    let text = row.text.trim_end();
    let Some(rest) = text.strip_suffix(['%', '#']) else {
        return &row.text;
    };
    let is_filled = row.text.len() > text.len() && row.text.width() >= columns;
    let knows_blanks = row.text.len() > text.len();
    let is_number = rest.ends_with(|c: char| c.is_ascii_digit());
    match is_filled || (!knows_blanks && !rest.is_empty() && !is_number && text.ends_with('%')) {
        true => rest,
        false => &row.text,
    }
}
