//! Lines that were entered and are not recorded. Nothing of them, and nothing that they printed, may be taken for the output of the
//! command before them.

use std::collections::BTreeMap;
use std::ops::Range;

use super::assign::{self, Prompts};
use super::echo::{self, Echo};
use super::prompt::{PromptLine, Similarity};
use super::region::prompt_rows;
use super::text::SearchedScreen;
use super::{Found, KnownCommand};

/// Number of characters that a fingerprint covers.
const COVERED: usize = 32;
/// Maximum number of lines that are looked for, the last ones.
const MAX_LINES: usize = 32;
/// Maximum number of rows with the sign of the prompt that are compared with each of them, the last ones: those of an output may all
/// have it.
const MAX_ROWS: usize = 1000;
/// Maximum number of places on the screen that are considered for each of them, the last ones.
const MAX_PLACES: usize = 20;

/// A line that was entered and is not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnrecordedLine {
    /// A blank one.
    Blank,
    /// One that can be recognized.
    Text(LineFingerprint),
    /// Nothing is known of it.
    Unknown,
}

/// By which a line is recognized without its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineFingerprint {
    /// The number of printable ASCII characters of its first line that are covered.
    pub count: usize,
    /// Their 32-bit FNV-1a hash.
    pub hash: u32,
}

impl UnrecordedLine {
    /// Parses `COUNT HASH`, as the plugin writes it (`_aish_fingerprint`).
    pub fn parse(text: &str) -> UnrecordedLine {
        let fields = text.split_once(' ').unwrap_or_default();
        match (fields.0.parse(), fields.1.parse()) {
            (Ok(0), _) => UnrecordedLine::Blank,
            (Ok(count @ 1..=COVERED), Ok(hash)) => {
                UnrecordedLine::Text(LineFingerprint { count, hash })
            }
            _ => UnrecordedLine::Unknown,
        }
    }
}

impl UnrecordedLine {
    /// Whether it may have the text of a command.
    pub fn may_be(self, command: &str) -> bool {
        match self {
            UnrecordedLine::Blank => false,
            UnrecordedLine::Unknown => true,
            UnrecordedLine::Text(line) => {
                let first = command.lines().next().unwrap_or_default();
                let graphic = first.bytes().filter(u8::is_ascii_graphic);
                let covered: Vec<u8> = graphic.take(line.count).collect();
                covered.len() == line.count && line.matches(&covered)
            }
        }
    }
}

impl LineFingerprint {
    /// Returns the last lines on the screen above `current` that may be this one.
    fn find<'a>(self, screen: &'a SearchedScreen<'_>, current: &Found<'a>) -> Vec<Found<'a>> {
        let Some(sign) = current.prompt.text.trim_end().chars().next_back() else {
            return Vec::new();
        };
        // Comparing each row with each line would take long.
        let has_sign = |row: &usize| {
            !screen.is_cancelled()
                && (screen.rows.get(*row)).is_some_and(|row| row.text.contains(sign))
        };
        let rows = (0..current.echo.first_row)
            .rev()
            .filter(has_sign)
            .take(MAX_ROWS);
        let found = rows.filter_map(|row| {
            let prompt = (self.beginnings(screen, row, true).into_iter())
                .find_map(|text| like_prompt(text, current))?;
            Some(Found {
                echo: Echo {
                    first_row: row,
                    prompt_row: row,
                    prompt_end: prompt.text.len(),
                    last_row: row,
                },
                prompt,
                command: "",
                follows_unrecorded: false,
                command_above: None,
            })
        });
        let mut found: Vec<Found<'a>> = found.take(MAX_PLACES).collect();
        found.reverse();
        found
    }

    /// Returns the texts before the line, where it may be in a row; `is_whole` if nothing may follow it.
    fn beginnings<'s>(
        self,
        screen: &'s SearchedScreen<'_>,
        row: usize,
        is_whole: bool,
    ) -> Vec<&'s str> {
        let matches = |bytes: &[u8]| self.matches(bytes);
        let is_whole = is_whole && self.count < COVERED;
        echo::beginnings(screen, row, self.count, is_whole, matches)
    }

    fn matches(self, bytes: &[u8]) -> bool {
        let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
        bytes.iter().fold(2_166_136_261, step) == self.hash
    }
}

/// Chooses the lines of commands as [`assign::assign`] does. Lines that are not recorded take part, so that none of them, and no older
/// run of a command, is taken for the command. `commands` are in the order in which they ran, `candidates` newest first. Also returns
/// for each command the row of the first line after it that is not recorded and was found.
pub fn assign<'a>(
    screen: &'a SearchedScreen<'_>,
    current: &Found<'a>,
    prompts: &Prompts,
    commands: &[KnownCommand<'_>],
    candidates: Vec<Vec<Found<'a>>>,
) -> (Vec<Option<Found<'a>>>, Vec<Option<usize>>) {
    let mut on_screen: BTreeMap<LineFingerprint, Vec<Found<'a>>> = BTreeMap::new();
    let mut entered = Vec::new();
    let mut is_command = Vec::new();
    let mut room = MAX_LINES;
    for (command, candidates) in commands.iter().rev().zip(candidates) {
        for line in command.unrecorded_after.unwrap_or_default().iter().rev() {
            let UnrecordedLine::Text(line) = *line else {
                continue;
            };
            if room == 0 {
                break;
            }
            room -= 1;
            let found = on_screen
                .entry(line)
                .or_insert_with(|| line.find(screen, current));
            entered.push(found.clone());
            is_command.push(false);
        }
        entered.push(candidates);
        is_command.push(true);
    }
    let chosen = assign::assign(current, prompts, entered);
    let (mut matched, mut rows_after) = (Vec::new(), Vec::new());
    let mut first_after = None;
    for (found, is_command) in chosen.into_iter().zip(is_command) {
        match is_command {
            true => {
                matched.push(found);
                rows_after.push(first_after.take());
            }
            false => first_after = found.map(|found| found.echo.first_row).or(first_after),
        }
    }
    (matched, rows_after)
}

/// Returns how many lines with a text were entered.
pub fn count_of(commands: &[KnownCommand<'_>], text: &str) -> usize {
    commands.iter().map(|command| command.count(text)).sum()
}

impl KnownCommand<'_> {
    /// Returns how many lines with a text were entered: its own one, and those after it.
    pub fn count(&self, text: &str) -> usize {
        let lines = self.unrecorded_after.unwrap_or_default().iter();
        usize::from(self.text == text) + lines.filter(|line| line.may_be(text)).count()
    }
}

/// Returns the lines that were entered after the first of some commands, which follow each other, and are not on the screen as
/// known commands are: the lines of the other commands were not found. `None` if nobody counted.
pub fn between(commands: &[KnownCommand<'_>]) -> Option<Vec<UnrecordedLine>> {
    let mut lines = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        lines.extend((at > 0).then_some(UnrecordedLine::Unknown));
        lines.extend(command.unrecorded_after?);
    }
    Some(lines)
}

/// Returns the first row of `rows` that belongs to a line of `between`, which were entered there, and whether rows of the output may
/// are below it: `None` if that is not certain. A row of the output that looks like such a line ends the output too early,
/// which is better than too late: it may be what Ctrl-L has left of a private line.
pub fn first_line(
    screen: &SearchedScreen<'_>,
    rows: Range<usize>,
    lines: &[&Found<'_>],
    next: &Found<'_>,
    between: &[UnrecordedLine],
) -> Option<(usize, bool)> {
    let is_blank = |line: &&UnrecordedLine| **line == UnrecordedLine::Blank;
    let blanks = between.iter().take_while(is_blank).count();
    let (end, is_doubtful) = match between.get(blanks) {
        None => (rows.end, false),
        Some(UnrecordedLine::Text(line)) => {
            let is_like = |prompt: &&str| like_prompt(prompt, next).is_some();
            let whole = rows.clone().find_map(|row| {
                let prompts = line.beginnings(screen, row, true);
                (!prompts.is_empty()).then_some((row, prompts))
            });
            match whole {
                // With another prompt it is not known which rows above belong to it.
                Some((row, prompts)) => (prompts.iter().any(is_like).then_some(row)?, false),
                // A suggestion of zsh-autosuggestions stays behind an abandoned line.
                None => {
                    let may_be = |row: &usize| {
                        let prompts = line.beginnings(screen, *row, false);
                        prompts.iter().any(is_like)
                    };
                    (rows.clone().find(may_be)?, true)
                }
            }
        }
        Some(_) => return None,
    };
    let above = screen.rows.get(rows.start..end)?;
    let prompts = prompt_rows(above, lines, next);
    match prompts.first() {
        // One of them is not that of a blank line.
        Some(row) => Some((rows.start + row, is_doubtful || prompts.len() > blanks)),
        None if blanks > 0 => None,
        None => Some((end, is_doubtful)),
    }
}

/// Returns a text as a prompt if it is like that of `next`. Blanks with which the line begins may follow it.
fn like_prompt<'a>(text: &'a str, next: &Found<'a>) -> Option<PromptLine<'a>> {
    let blanks = next.prompt.text.len() - next.prompt.text.trim_end().len();
    let end = text.trim_end().len() + blanks;
    let prompt = PromptLine::new(text.get(..end)?, next.prompt.cwd)?;
    (prompt.similarity(&next.prompt) >= Similarity::Alike).then_some(prompt)
}
