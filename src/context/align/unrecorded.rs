//! Lines that were entered and are not recorded. Nothing of them, and nothing that they printed, may be taken for the output of the
//! command before them.

use std::ops::Range;

use super::prompt::{PromptLine, Similarity};
use super::region::prompt_rows;
use super::{Found, KnownCommand, Screen, echo};

/// Number of characters that a fingerprint covers.
const COVERED: usize = 32;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    fn matches(self, bytes: &[u8]) -> bool {
        let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(16_777_619);
        bytes.iter().fold(2_166_136_261, step) == self.hash
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
    screen: &Screen,
    rows: Range<usize>,
    lines: &[&Found<'_>],
    next: &Found<'_>,
    between: &[UnrecordedLine],
) -> Option<(usize, bool)> {
    let is_blank = |line: &&UnrecordedLine| **line == UnrecordedLine::Blank;
    let blanks = between.iter().take_while(is_blank).count();
    let end = match between.get(blanks) {
        None => rows.end,
        Some(UnrecordedLine::Text(line)) => {
            let (row, prompts) = rows.clone().find_map(|row| {
                let is_whole = line.count < COVERED;
                let matches = |bytes: &[u8]| line.matches(bytes);
                let prompts = echo::beginnings(screen, row, line.count, is_whole, matches);
                (!prompts.is_empty()).then_some((row, prompts))
            })?;
            // With another prompt it is not known which rows above belong to it.
            let is_like = |prompt: &&str| is_like(prompt, next);
            prompts.iter().any(is_like).then_some(row)?
        }
        Some(_) => return None,
    };
    let above = screen.rows.get(rows.start..end)?;
    let prompts = prompt_rows(above, lines, next);
    match prompts.first() {
        // One of them is not that of a blank line.
        Some(row) => Some((rows.start + row, prompts.len() > blanks)),
        None if blanks > 0 => None,
        None => Some((end, false)),
    }
}

/// Whether a text is a prompt like that of `next`. Blanks with which the line begins may follow it.
fn is_like(text: &str, next: &Found<'_>) -> bool {
    let blanks = next.prompt.text.len() - next.prompt.text.trim_end().len();
    let end = text.trim_end().len() + blanks;
    let prompt = text
        .get(..end)
        .and_then(|text| PromptLine::new(text, next.prompt.cwd));
    prompt.is_some_and(|prompt| prompt.similarity(&next.prompt) >= Similarity::Alike)
}
