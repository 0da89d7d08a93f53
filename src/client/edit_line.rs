//! A line editor for the terminal, with or without echo.
//!
//! The terminal's canonical mode is not enough: Ctrl-C would be a signal that ends the wrong process, and secrets must
//! not be echoed.

use std::cmp::Ordering;
use std::io::{Read, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::terminal::{ControllingTty, RawKeyMode};
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::safety::text::strict;

/// Longest line, in bytes; longer than any API key or address.
const MAX_LENGTH: usize = 4096;

/// Reads a line of visible ASCII, typed or pasted. Returns `None` after Ctrl-D.
///
/// # Errors
/// The terminal is lost, or Ctrl-C.
pub fn read(tty: &ControllingTty, _mode: &RawKeyMode, echo: bool) -> Result<Option<String>> {
    let mut line = EditLine::default();
    let mut buffer = [0; 512];
    loop {
        let length = (&tty.file)
            .read(&mut buffer)
            .context(|| "cannot read the terminal".into())?;
        if length == 0 {
            return Err(Error::runtime("the terminal was closed"));
        }
        for byte in &buffer[..length] {
            let (show, end) = match line.take(*byte) {
                EditStep::Interrupt => {
                    // If this fails, the error below still reaches the user.
                    let _ = (&tty.file).write_all(b"\n");
                    return Err(Error::new(ErrorKind::Interrupted, "interrupted"));
                }
                EditStep::Shown(show) => (show, None),
                EditStep::Hidden => continue,
                // The rest of the buffer belongs to a paste, and to no other question.
                EditStep::Enter => ("\n".to_string(), Some(Some(std::mem::take(&mut line.text)))),
                EditStep::Leave => ("\n".to_string(), Some(None)),
            };
            if echo || end.is_some() {
                (&tty.file)
                    .write_all(show.as_bytes())
                    .context(|| "cannot write to the terminal".into())?;
            }
            if let Some(end) = end {
                return Ok(end);
            }
        }
    }
}

/// Effect of one byte on the line.
#[derive(Debug, PartialEq, Eq)]
pub enum EditStep {
    /// Output to write if there is echo.
    Shown(String),
    /// No visible effect.
    Hidden,
    /// The line is complete.
    Enter,
    /// Ctrl-D on an empty line.
    Leave,
    /// Ctrl-C.
    Interrupt,
}

/// Position within an escape sequence.
#[derive(Debug, Default, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Outside,
    Begun,
    /// Inside a sequence, with its number so far.
    Inside(u32),
}

/// The line being edited.
#[derive(Debug, Default)]
pub struct EditLine {
    text: String,
    /// Byte offset of the cursor.
    cursor: usize,
    escape: EscapeState,
    /// Accepts any visible character, not just ASCII.
    unicode: bool,
    /// First bytes of an incomplete UTF-8 character.
    incomplete: Vec<u8>,
}

impl EditLine {
    /// Creates a line of any language that starts with `text`, with the cursor at its end.
    pub fn with(text: &str) -> EditLine {
        EditLine {
            text: text.to_string(),
            cursor: text.len(),
            unicode: true,
            ..EditLine::default()
        }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text as drawn on an empty line of `columns` columns, followed by backspaces to the cursor. A longer
    /// text is cut around the cursor, since a backspace cannot cross the edge of a row.
    pub fn visible_part(&self, columns: usize) -> String {
        let columns = columns.max(4);
        let wide = |c: char| c.width().unwrap_or(0);
        let (before, behind) = self.text.split_at(self.cursor);
        let mut column = 0;
        let mut from = self.cursor;
        for (at, c) in before.char_indices().rev() {
            // One column for the mark of the cut, and one for the cursor.
            if column + wide(c) + if at > 0 { 2 } else { 1 } > columns {
                break;
            }
            column += wide(c);
            from = at;
        }
        let cut = if from > 0 { "…" } else { "" };
        column += cut.width();
        let mut after = String::new();
        for c in behind.chars() {
            if column + after.width() + wide(c) >= columns {
                break;
            }
            after.push(c);
        }
        let back = "\x08".repeat(after.width());
        format!("{cut}{}{after}{back}", &before[from..])
    }

    /// Handles the next byte.
    pub fn take(&mut self, byte: u8) -> EditStep {
        if byte < 0x80 {
            self.incomplete.clear();
        }
        match (&self.escape, byte) {
            // A key of several bytes, or the marks around a paste: not text.
            (_, 0x1b) => self.escape = EscapeState::Begun,
            (EscapeState::Begun, b'[' | b'O') => self.escape = EscapeState::Inside(0),
            (EscapeState::Inside(n), b'0'..=b'9') => {
                let n = n.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
                self.escape = EscapeState::Inside(n);
            }
            (EscapeState::Inside(_), 0x20..=0x3f) => {}
            (EscapeState::Inside(n), 0x40..) => {
                let key = (byte, *n);
                self.escape = EscapeState::Outside;
                return match key {
                    (b'C', _) => self.go(self.right()),
                    (b'D', _) => self.go(self.left()),
                    (b'H', _) | (b'~', 1 | 7) => self.go(0),
                    (b'F', _) | (b'~', 4 | 8) => self.go(self.text.len()),
                    (b'~', 3) => self.cut(self.cursor, self.right()),
                    _ => EditStep::Hidden,
                };
            }
            (EscapeState::Begun, 0x20..) => self.escape = EscapeState::Outside,
            (_, b'\n' | b'\r') => return EditStep::Enter,
            (_, 3) => return EditStep::Interrupt,
            (_, 4) if self.text.is_empty() => return EditStep::Leave,
            (_, 8 | 0x7f) => return self.cut(self.left(), self.cursor),
            // Ctrl-A, Ctrl-E, Ctrl-U, Ctrl-W.
            (_, 1) => return self.go(0),
            (_, 5) => return self.go(self.text.len()),
            (_, 0x15) => return self.cut(0, self.text.len()),
            (_, 0x17) => {
                let before = self.text[..self.cursor].trim_end_matches(' ');
                return self.cut(before.rfind(' ').map_or(0, |space| space + 1), self.cursor);
            }
            (_, 0x20..=0x7e) => return self.add(char::from(byte)),
            (_, 0x80..) if self.unicode => {
                self.incomplete.push(byte);
                match std::str::from_utf8(&self.incomplete) {
                    Ok(text) => {
                        let c = text.chars().next();
                        self.incomplete.clear();
                        return c.map_or(EditStep::Hidden, |c| self.add(c));
                    }
                    Err(e) if e.error_len().is_some() => self.incomplete.clear(),
                    Err(_) => {}
                }
            }
            _ => self.escape = EscapeState::Outside,
        }
        EditStep::Hidden
    }

    /// Inserts a visible character.
    fn add(&mut self, c: char) -> EditStep {
        let mut buffer = [0; 4];
        let alone: &str = c.encode_utf8(&mut buffer);
        if self.text.len() + alone.len() > MAX_LENGTH || strict(alone) != alone {
            return EditStep::Hidden;
        }
        self.text.insert(self.cursor, c);
        self.cursor += alone.len();
        let behind = &self.text[self.cursor..];
        EditStep::Shown(format!("{alone}{behind}{}", "\x08".repeat(behind.width())))
    }

    /// Returns where the character before the cursor begins.
    fn left(&self) -> usize {
        let before = self.text[..self.cursor].chars().next_back();
        self.cursor - before.map_or(0, char::len_utf8)
    }

    /// Returns where the character at the cursor ends.
    fn right(&self) -> usize {
        let next = self.text[self.cursor..].chars().next();
        self.cursor + next.map_or(0, char::len_utf8)
    }

    /// Moves the cursor.
    fn go(&mut self, to: usize) -> EditStep {
        let shown = match to.cmp(&self.cursor) {
            Ordering::Equal => return EditStep::Hidden,
            Ordering::Less => "\x08".repeat(self.text[to..self.cursor].width()),
            Ordering::Greater => self.text[self.cursor..to].to_string(),
        };
        self.cursor = to;
        EditStep::Shown(shown)
    }

    /// Removes a range and moves the cursor there.
    fn cut(&mut self, from: usize, to: usize) -> EditStep {
        let gone = self.text[from..to].width();
        if from == to {
            return EditStep::Hidden;
        }
        let mut shown = match self.go(from) {
            EditStep::Shown(moved) => moved,
            _ => String::new(),
        };
        self.text.replace_range(from..to, "");
        let behind = &self.text[from..];
        shown.push_str(behind);
        shown.push_str(&" ".repeat(gone));
        shown.push_str(&"\x08".repeat(behind.width() + gone));
        EditStep::Shown(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the line after `bytes`, its output, and the last step.
    fn typed(bytes: &[u8]) -> (String, String, EditStep) {
        let mut line = EditLine::default();
        let mut shown = String::new();
        let mut last = EditStep::Hidden;
        for byte in bytes {
            last = line.take(*byte);
            if let EditStep::Shown(text) = &last {
                shown.push_str(text);
            }
        }
        (line.text, shown, last)
    }

    #[test]
    fn text_can_be_typed_and_corrected() {
        assert_eq!(typed(b"ab\n"), ("ab".into(), "ab".into(), EditStep::Enter));
        assert_eq!(typed(b"ab\x7fc\r").0, "ac");
        assert_eq!(typed(b"ab\x15c\r").0, "c");
        assert_eq!(typed(b"\x7f\x7fa\r").0, "a");
    }

    #[test]
    fn keys_other_than_text_add_nothing() {
        for bytes in [
            &b"a\x1b[Ab\r"[..],
            b"a\x1bOAb\r",
            b"a\x1b[15~b\r",
            b"\x1b[200~ab\x1b[201~\r",
            b"a\x1b[1;5Cb\r",
            b"a\0\x02b\r",
            b"a\xc3\xa9b\r",
        ] {
            assert_eq!(
                typed(bytes),
                ("ab".into(), "ab".into(), EditStep::Enter),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn the_cursor_moves_and_text_can_be_corrected() {
        for (bytes, text) in [
            (&b"bc\x1b[D\x1bODa\r"[..], "abc"),
            (b"bc\x01a\x05d\r", "abcd"),
            (b"bc\x1b[Ha\x1b[Fd\r", "abcd"),
            (b"bc\x1b[1~a\x1b[4~d\r", "abcd"),
            (b"abc\x1b[D\x1b[D\x1b[Cx\r", "abxc"),
            (b"abc\x01\x1b[3~\x1b[3~\r", "c"),
            (b"abc\x1b[D\x7f\r", "ac"),
            (b"one two  \x17three\r", "one three"),
            (b"one two\x01\x17\x17\x1b[D\x7f\r", "one two"),
            (b"one two\x1b[D\x17\r", "one o"),
            (b"one two\x1b[D\x15\r", ""),
        ] {
            assert_eq!(typed(bytes).0, text, "{bytes:?}");
        }
        assert_eq!(typed(b"abc\x1b[D\x7f").1, "abc\x08\x08c \x08\x08");
    }

    #[test]
    fn ctrl_c_and_ctrl_d_end_the_line() {
        assert_eq!(typed(b"ab\x03").2, EditStep::Interrupt);
        assert_eq!(
            typed(b"\x1b\x03").2,
            EditStep::Interrupt,
            "even after a lone Esc"
        );
        assert_eq!(typed(b"\x04").2, EditStep::Leave);
        assert_eq!(
            typed(b"a\x04").2,
            EditStep::Hidden,
            "behind text it means nothing"
        );
    }

    #[test]
    fn a_line_is_bounded() {
        assert_eq!(typed(&[b'a'; MAX_LENGTH + 10]).0.len(), MAX_LENGTH);
    }

    #[test]
    fn text_may_be_of_any_language() {
        let mut line = EditLine::with("a");
        let shown: String = "é日\u{200b}\u{202e}ж\x7f"
            .bytes()
            .map(|b| match line.take(b) {
                EditStep::Shown(text) => text,
                _ => String::new(),
            })
            .collect();
        assert_eq!((line.text(), shown.as_str()), ("aé日", "é日ж\x08 \x08"));
        assert_eq!(line.visible_part(80), "aé日");
        line.take(1);
        assert_eq!(line.visible_part(80), "aé日\x08\x08\x08\x08");
        line.take(5);
        line.take(0xff);
        assert_eq!(
            line.take(0x15),
            EditStep::Shown("\x08\x08\x08\x08    \x08\x08\x08\x08".into())
        );
    }

    #[test]
    fn a_line_longer_than_its_row_shows_the_part_around_the_cursor() {
        let mut line = EditLine::with("0123456789日本語");
        assert_eq!(line.visible_part(10), "…89日本語");
        for _ in 0..5 {
            line.take(0x1b);
            line.take(b'[');
            line.take(b'D');
        }
        assert_eq!(line.visible_part(10), "012345678\x08");
        line.take(1);
        assert_eq!(
            line.visible_part(10),
            format!("012345678{}", "\x08".repeat(9))
        );
        for columns in 4..40 {
            for at in [0, 3, 10, 13, 19] {
                line.cursor = at;
                let shown = line.visible_part(columns);
                let text = shown.trim_end_matches('\x08');
                assert!(text.width() < columns, "{columns} {at} {shown:?}");
                assert!(shown.len() - text.len() <= text.width());
            }
        }
    }
}
