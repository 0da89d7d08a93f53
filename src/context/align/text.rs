//! The form of a text on a screen.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Deref;

use unicode_width::UnicodeWidthChar;

use super::prompt::{MAX_LENGTH, shape};
use super::{Screen, ScreenRow, low_byte};

/// Maximum number of characters of a command that are compared.
const COMPARED: usize = 4096;
/// What stands in a record in place of a secret, up to its kind: `redact::MARK_START`, of which this module is independent.
const SECRET: &str = "[REDACTED:";

/// Blanks between a command line and a right prompt.
pub const RIGHT_PROMPT: &str = "        ";

/// A screen with rows that are whole lines, where the terminal reports which belong together.
pub struct SearchedScreen<'a> {
    screen: Cow<'a, Screen>,
    /// The shapes of the texts that may be right prompts. Looking at all rows for each line would take seconds.
    right_prompts: OnceCell<BTreeSet<String>>,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Deref for SearchedScreen<'_> {
    type Target = Screen;

    fn deref(&self) -> &Screen {
        &self.screen
    }
}

impl<'a> SearchedScreen<'a> {
    /// Joins the rows that the terminal has wrapped. The search ends early, without a result, once `is_cancelled`.
    pub fn new(screen: &'a Screen, is_cancelled: &'a dyn Fn() -> bool) -> SearchedScreen<'a> {
        SearchedScreen {
            screen: with_whole_lines(screen),
            right_prompts: OnceCell::new(),
            is_cancelled,
        }
    }

    /// Whether nobody waits for the result any longer.
    pub fn is_cancelled(&self) -> bool {
        (self.is_cancelled)()
    }

    /// Whether a row ends with the same text, but for digits, far behind a command line.
    pub fn has_right_prompt(&self, text: &str) -> bool {
        let shape_of = |text: &str| {
            let text = text.trim_matches(is_blank);
            (text.len() <= MAX_LENGTH).then(|| shape(text, ""))
        };
        let behind = |row: &ScreenRow| shape_of(row.text.trim_end().rsplit_once(RIGHT_PROMPT)?.1);
        let known = || self.rows.iter().filter_map(behind).collect();
        shape_of(text).is_some_and(|text| self.right_prompts.get_or_init(known).contains(&text))
    }
}

/// The text of a command, as its characters are compared. Blanks are not: a row may have lost those at its end, and a tab is
/// shown as several.
#[derive(Debug, Clone)]
pub struct Expected {
    /// The lines.
    pub lines: Vec<Vec<Unit>>,
    /// It is followed by blanks.
    pub ends_blank: bool,
    is_lossy: bool,
}

/// A part of an expected text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A character.
    Char(char),
    /// A secret, of which the record says nothing.
    Secret,
}

impl Expected {
    /// Returns the text without its surroundings.
    pub fn new(screen: &Screen, text: &str) -> Expected {
        let ends_blank = text.ends_with(char::is_whitespace);
        let text = text.trim();
        let end = text
            .char_indices()
            .nth(COMPARED)
            .map_or(text.len(), |(at, _)| at);
        let text = text.get(..end).unwrap_or(text);
        Expected {
            lines: text.split('\n').map(units).collect(),
            ends_blank,
            is_lossy: screen.is_lossy,
        }
    }

    /// Returns the byte with which the text begins on every screen; `None` if it may be shown in more than one way.
    pub fn first_byte(&self) -> Option<u8> {
        match self.lines.first()?.first()? {
            Unit::Char(c) if c.is_ascii_graphic() => u8::try_from(*c).ok(),
            _ => None,
        }
    }

    /// Returns the text in `shown` after the character, `None` if `shown` begins with something else.
    pub fn eat<'s>(&self, shown: &'s str, wanted: char) -> Option<&'s str> {
        let as_sign = match self.is_lossy {
            true => low_byte(wanted),
            false => Some(wanted),
        };
        if let Some(rest) = as_sign.and_then(|c| shown.strip_prefix(c)) {
            return Some(rest);
        }
        if wanted.is_control() {
            // Shown as ^X.
            let letter = char::from_u32(u32::from(wanted) ^ 0x40)?;
            return shown.strip_prefix('^')?.strip_prefix(letter);
        }
        if wanted.is_ascii() {
            return None;
        }
        // zsh shows characters that it considers unprintable as a number.
        let code = u32::from(wanted);
        let number = match code {
            0x1_0000.. => format!("<{code:08x}>"),
            _ => format!("<{code:04x}>"),
        };
        if let Some(rest) = shown.strip_prefix(&number) {
            return Some(rest);
        }
        let is_lost = as_sign.is_none() || wanted.width().unwrap_or(0) == 0;
        is_lost.then_some(shown)
    }
}

fn units(line: &str) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        let secret = rest
            .strip_prefix(SECRET)
            .and_then(|kind| kind.split_once(']'));
        if let Some((_, after)) = secret {
            units.push(Unit::Secret);
            rest = after;
            continue;
        }
        if !is_blank(c) {
            units.push(Unit::Char(c));
        }
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    units
}

/// Whether a character is not compared: it is a blank, or stands for one that was lost.
pub fn is_blank(c: char) -> bool {
    c.is_whitespace() || c == char::REPLACEMENT_CHARACTER
}

/// Returns a text as the screen shows it.
pub fn shown(screen: &Screen, text: &str) -> String {
    if !screen.is_lossy {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        shown.push(low_byte(c).unwrap_or(char::REPLACEMENT_CHARACTER));
        if c.width() == Some(2) {
            shown.push(char::REPLACEMENT_CHARACTER);
        }
    }
    shown
}

fn with_whole_lines(screen: &Screen) -> Cow<'_, Screen> {
    if !screen.tells_wraps || !screen.rows.iter().any(|row| row.wrapped) {
        return Cow::Borrowed(screen);
    }
    let mut rows: Vec<ScreenRow> = Vec::with_capacity(screen.rows.len());
    let mut continues = false;
    for row in &screen.rows {
        match rows.last_mut().filter(|_| continues) {
            Some(line) => line.text.push_str(&row.text),
            None => rows.push(ScreenRow {
                text: row.text.clone(),
                wrapped: false,
            }),
        }
        continues = row.wrapped;
    }
    Cow::Owned(Screen {
        rows,
        columns: screen.columns,
        ..*screen
    })
}
