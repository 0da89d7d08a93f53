//! Compares prompts: the text before a command line.

use std::cell::OnceCell;

use super::ScreenRow;

/// Maximum length of the last row of a prompt, in bytes. A longer row is an output without a line end.
pub const MAX_LENGTH: usize = 1000;
/// Number of visible characters from which a prompt is unlikely to begin a line of an output.
const DISTINCTIVE: usize = 3;
/// Maximum number of places in a row where a prompt may end.
const ENDS: usize = 40;
/// Maximum number of the same sign that a prompt ends with; more of them are a filler.
const SIGNS: usize = 3;
/// Stands for the directory in a shape.
const DIRECTORY: char = '\u{1}';

/// How much two prompts are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Similarity {
    /// Not at all.
    Different,
    /// They begin or end with the same sign, or have half of their words in common.
    Alike,
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
    pub cwd: &'a str,
    /// Output without a line end that is on the same row, before the prompt.
    pub output_before: Option<&'a str>,
    /// Digits precede it, which are an output or a part of it, or a job has printed behind it.
    pub is_doubtful: bool,
    /// Its shape, once it was asked for: it is compared with every row.
    shape: OnceCell<String>,
}

impl<'a> PromptLine<'a> {
    /// Returns `None` if the text cannot be a prompt: it is empty, longer than [`MAX_LENGTH`], or ends with a letter or digit.
    pub fn new(text: &'a str, cwd: &'a str) -> Option<PromptLine<'a>> {
        let end = text.chars().next_back()?;
        let is_prompt =
            text.len() <= MAX_LENGTH && !text.trim().is_empty() && !end.is_alphanumeric();
        is_prompt.then_some(PromptLine {
            text,
            cwd,
            output_before: None,
            is_doubtful: false,
            shape: OnceCell::new(),
        })
    }

    /// Returns the text without what differs between two prompts of a shell.
    pub fn shape(&self) -> &str {
        self.shape.get_or_init(|| shape(self.text, self.cwd))
    }

    /// Whether a row that begins with it is unlikely to be one of an output.
    pub fn is_telling(&self) -> bool {
        let prompt = self.text.trim_end();
        let shows_more = prompt.chars().count() > 1 && begins_with_directory(self.shape());
        // The low byte of a sign may be a letter, which stands alone behind the directory or beside a sign that is lost.
        let last = prompt.split_whitespace().next_back().unwrap_or_default();
        let is_alone = last.chars().count() == 1 && last.len() < prompt.len();
        let is_sign = last.contains(char::REPLACEMENT_CHARACTER)
            || (is_alone && begins_with_directory(self.shape()));
        (is_distinctive(prompt) || shows_more)
            && (is_sign || !prompt.ends_with(char::is_alphanumeric))
    }

    /// Compares two prompts.
    pub fn similarity(&self, other: &PromptLine<'_>) -> Similarity {
        // One more blank at the end is that of a command that is kept out of the history.
        if blanks(self.text) != blanks(other.text) {
            return Similarity::Different;
        }
        if self.text == other.text {
            return Similarity::Same;
        }
        let (one, two) = (self.shape(), other.shape());
        if one == two {
            return Similarity::SameShape;
        }
        match has_same_sign(one, two) || common_words(one, two) {
            true => Similarity::Alike,
            false => Similarity::Different,
        }
    }

    /// Returns the prompt at the beginning of a row that is like this one; `cwd` is the directory of that row.
    pub fn begins<'r>(&self, row: &'r str, cwd: &'r str) -> Option<PromptLine<'r>> {
        if row.starts_with(self.text) {
            return PromptLine::new(row.get(..self.text.len())?, cwd);
        }
        // The low byte of its sign may be a letter.
        let trimmed = self.text.trim_end();
        if row.trim_end() == trimmed && trimmed.len() < self.text.len() {
            return Some(PromptLine {
                text: row,
                cwd,
                output_before: None,
                is_doubtful: false,
                shape: OnceCell::new(),
            });
        }
        let sign = self.text.trim_end().chars().next_back()?;
        let blanks = blanks(self.text);
        // Of signs such as `❯❯`, a shape has only one.
        let ends_alike = |text: &str| {
            let signs = |text: &str| {
                (text.chars().rev().take(SIGNS))
                    .take_while(|c| *c == sign)
                    .count()
            };
            signs(text) >= signs(self.text.trim_end())
        };
        if !row.contains(sign) || !self.may_begin(row, cwd) {
            return None;
        }
        let wanted = self.shape();
        let ends = row.match_indices(sign).take(ENDS);
        let mut prompts = ends.filter_map(|(at, _)| {
            let end = at + sign.len_utf8();
            let rest = row.get(end..)?;
            if !ends_alike(row.get(..end)?) {
                return None;
            }
            // zle may have left out the blank at the end of an empty line.
            let blanks = blanks.min(rest.len() - rest.trim_start().len());
            PromptLine::new(row.get(..end + blanks)?, cwd)
        });
        prompts.find(|prompt| {
            let cwds = [cwd, self.cwd];
            cwds.iter()
                .any(|cwd| shape(prompt.text, cwd).trim_end() == wanted.trim_end())
        })
    }

    /// Whether one of the rows begins with a prompt like this one.
    pub fn begins_any(&self, rows: &[ScreenRow]) -> bool {
        let mut rows = rows.iter();
        rows.any(|row| self.begins(&row.text, self.cwd).is_some())
    }

    /// Whether the first character of a row may be the first one of a prompt like this one: comparing the shapes of all rows takes long.
    fn may_begin(&self, row: &str, cwd: &str) -> bool {
        let Some(first) = row.chars().next() else {
            return false;
        };
        match self.shape().chars().next() {
            Some(DIRECTORY) => {
                let parts = [cwd, self.cwd].into_iter().flat_map(|cwd| cwd.split('/'));
                let mut parts = parts.filter(|part| !part.is_empty());
                ['/', '~', '…'].contains(&first) || parts.any(|part| row.starts_with(part))
            }
            Some('0') => first.is_ascii_digit(),
            Some(' ') => first.is_whitespace(),
            wanted => wanted == Some(first),
        }
    }

    /// Splits off an output without a line end, if the text ends with one of the other prompts.
    pub fn split_output<'o>(&mut self, others: impl Iterator<Item = &'o PromptLine<'o>>) {
        // The shortest one: the others may have an output before them too.
        let mut prompt: Option<&str> = None;
        for other in others {
            let Some(before) = self.text.strip_suffix(other.text) else {
                continue;
            };
            // An exit code or a number of jobs, which the prompt shows at times.
            if before.trim().chars().all(|c| c.is_ascii_digit()) {
                self.is_doubtful |= !before.is_empty();
                continue;
            }
            // Blanks fill the rest of a row with an output.
            if is_distinctive(other.text) || before.ends_with("  ") {
                let is_shorter = |prompt: &str| other.text.len() < prompt.len();
                if prompt.is_none_or(is_shorter) {
                    prompt = self.text.get(before.len()..);
                }
            }
        }
        if let Some(prompt) = prompt {
            self.output_before = self.text.strip_suffix(prompt);
            self.text = prompt;
            self.shape.take();
        }
    }
}

/// Returns the number of bytes of the blanks at the end of a text.
pub fn blanks(text: &str) -> usize {
    text.len() - text.trim_end().len()
}

/// Whether two shapes begin or end with the same sign.
fn has_same_sign(one: &str, two: &str) -> bool {
    let is_sign =
        |c: Option<char>| c.is_some_and(|c| !c.is_alphanumeric() && !"/[](){}<:~".contains(c));
    let first = |text: &str| text.trim_start().chars().next();
    let last = |text: &str| text.trim_end().chars().next_back();
    (last(one) == last(two) && last(one).is_some_and(|c| !c.is_alphanumeric()))
        || (first(one) == first(two) && is_sign(first(one)))
}

/// Whether two shapes may be the same row of a prompt: one has more words at its end, such as the time that a command took, or both show
/// the directory and have half of their words in common.
pub fn are_alike(one: &str, two: &str) -> bool {
    let (one, two) = (one.trim(), two.trim());
    let goes_on = |long: &str, short: &str| {
        !short.is_empty()
            && long
                .strip_prefix(short)
                .is_some_and(|rest| rest.starts_with(' '))
    };
    let both_show = one.contains(DIRECTORY) && two.contains(DIRECTORY);
    let words = || {
        let one: Vec<&str> = one.split_whitespace().collect();
        let two: Vec<&str> = two.split_whitespace().collect();
        let common = one.iter().filter(|word| two.contains(word)).count();
        2 * common >= one.len().max(two.len())
    };
    goes_on(one, two) || goes_on(two, one) || common_words(one, two) || both_show && words()
}

/// Whether two shapes have at least half of their words in common, the first one among them.
fn common_words(one: &str, two: &str) -> bool {
    let one: Vec<&str> = one.split_whitespace().collect();
    let two: Vec<&str> = two.split_whitespace().collect();
    let common = one.iter().filter(|word| two.contains(word)).count();
    common > 0 && one.first() == two.first() && 2 * common >= one.len().max(two.len())
}

/// Whether a prompt is unlikely to begin a line of an output.
pub fn is_distinctive(prompt: &str) -> bool {
    let visible: Vec<char> = prompt.chars().filter(|c| !c.is_whitespace()).collect();
    visible.len() >= DISTINCTIVE || visible.iter().any(|c| !c.is_ascii())
}

/// Whether a shape has a feature that prompts show and outputs rarely begin with: a directory, or a sign beyond ASCII.
pub fn looks_like_prompt(shape: &str) -> bool {
    shows_directory(shape) || begins_with_sign(shape)
}

/// Whether a shape begins as a row of a prompt does: with a directory or a sign beyond ASCII.
pub fn begins_like_prompt(shape: &str) -> bool {
    begins_with_directory(shape) || begins_with_sign(shape)
}

/// Whether a shape begins with the directory.
pub fn begins_with_directory(shape: &str) -> bool {
    shape.trim_start().starts_with(DIRECTORY) && shows_directory(shape)
}

/// Whether a shape shows the directory, and not a file in it or, as a message does, the directory in quotes.
pub fn shows_directory(shape: &str) -> bool {
    shape.match_indices(DIRECTORY).any(|(at, sign)| {
        let (before, from) = shape.split_at(at);
        let behind = from.strip_prefix(sign).unwrap_or_default();
        !behind.starts_with('/') && !before.ends_with(['\'', '"', '`', '‘', '“'])
    })
}

/// Whether a shape begins with a sign beyond ASCII.
pub fn begins_with_sign(shape: &str) -> bool {
    let first = shape.trim_start().chars().next();
    first.is_some_and(|c| !c.is_ascii() && !c.is_alphanumeric())
}

/// Whether a shape begins with the upper corner of a frame, as a prompt of several rows does and the end of an output does not.
pub fn opens_frame(shape: &str) -> bool {
    shape.trim_start().starts_with(['╭', '┌', '┏', '╔'])
}

/// Returns a text without what differs between two prompts of a shell: digits, the directory, the length of fillers.
pub fn shape(text: &str, cwd: &str) -> String {
    let mut text = text.to_owned();
    let parts: Vec<&str> = cwd.rsplit('/').filter(|part| !part.is_empty()).collect();
    let sign = DIRECTORY.to_string();
    if !cwd.is_empty() && cwd != "/" {
        text = text.replace(cwd, &sign);
    }
    // The last parts of the path, as `%~`, `%1~` and `%c` show them.
    for count in (1..=parts.len().min(8)).rev() {
        let tail: Vec<&str> = parts.iter().take(count).rev().copied().collect();
        let tail = tail.join("/");
        let is_short = tail.chars().count() < 2;
        for form in [
            format!("~/{tail}"),
            format!("…/{tail}"),
            format!("/{tail}"),
            tail,
        ] {
            // A path of one letter needs a sign before it.
            if !is_short || form.chars().count() > 2 {
                text = replace_word(&text, &form);
            }
        }
    }
    text = replace_word(&text, "~");
    if cwd == "/" {
        text = replace_word(&text, "/");
    }
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

/// Replaces a path where it is not a part of a longer word. A path that begins with a sign may follow anything.
fn replace_word(text: &str, word: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let starts_anywhere = word.starts_with(['/', '~', '…']);
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let before = rest.get(..at).unwrap_or_default();
        let after = rest.get(at + word.len()..).unwrap_or_default();
        let previous = before.chars().next_back().or(out.chars().next_back());
        let starts = starts_anywhere || previous.is_none_or(|c| !is_part(c));
        let ends = after.chars().next().is_none_or(|c| !is_part(c));
        out.push_str(before);
        match starts && ends {
            true => out.push(DIRECTORY),
            false => out.push_str(word),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}
