//! One line typed on the person's terminal, with or without echo.
//!
//! The terminal's own line mode will not do: Ctrl-C would be a signal there that ends the wrong
//! thing, and a secret must not be shown.

use std::cmp::Ordering;
use std::io::{Read, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::terminal::{Keys, Tty};
use crate::error::{Context, Error, Kind, Result};
use crate::safety::text::strict;

/// Longer than any key or address.
const MAX: usize = 4096;

/// Reads a line of visible ASCII, as it is typed or pasted; `None` after Ctrl-D.
///
/// # Errors
/// The terminal has gone, or Ctrl-C.
pub fn read(tty: &Tty, _keys: &Keys, echo: bool) -> Result<Option<String>> {
    let mut line = Typing::default();
    let mut buffer = [0; 512];
    loop {
        let length = (&tty.file)
            .read(&mut buffer)
            .context(|| "cannot read the terminal".into())?;
        if length == 0 {
            return Err(Error::runtime("the terminal has gone"));
        }
        for byte in &buffer[..length] {
            let (show, end) = match line.take(*byte) {
                Step::Interrupt => {
                    // The terminal will be told by the error where this fails.
                    let _ = (&tty.file).write_all(b"\n");
                    return Err(Error::new(Kind::Interrupted, "interrupted"));
                }
                Step::Shown(show) => (show, None),
                Step::Hidden => continue,
                // What came behind Enter in one burst belongs to the paste, and to no other question.
                Step::Enter => ("\n".to_string(), Some(Some(std::mem::take(&mut line.text)))),
                Step::Leave => ("\n".to_string(), Some(None)),
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

/// What a byte did.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// To be shown, where there is echo.
    Shown(String),
    /// Nothing that can be seen.
    Hidden,
    /// The line is complete.
    Enter,
    /// Ctrl-D on an empty line.
    Leave,
    /// Ctrl-C.
    Interrupt,
}

/// Where in an escape sequence.
#[derive(Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    Outside,
    Begun,
    /// With the digits so far.
    Inside(u32),
}

/// The line so far.
#[derive(Debug, Default)]
pub struct Typing {
    text: String,
    /// Where the cursor is in it, in bytes.
    at: usize,
    escape: Escape,
    /// Words of any language, and not ASCII alone.
    words: bool,
    /// The beginning of a character.
    part: Vec<u8>,
}

impl Typing {
    /// A line of words that begins with `text`.
    pub fn with(text: &str) -> Typing {
        Typing {
            text: text.to_string(),
            at: text.len(),
            words: true,
            ..Typing::default()
        }
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What was typed as it is drawn on an empty line of `room` columns, with the cursor where it belongs: of what
    /// is longer, the part around it. No backspace leads back over the edge of a row.
    pub fn shown(&self, room: usize) -> String {
        let room = room.max(4);
        let wide = |c: char| c.width().unwrap_or(0);
        let (before, behind) = self.text.split_at(self.at);
        let mut column = 0;
        let mut from = self.at;
        for (at, c) in before.char_indices().rev() {
            // A column each for the mark of what is cut, and for the cursor.
            if column + wide(c) + if at > 0 { 2 } else { 1 } > room {
                break;
            }
            column += wide(c);
            from = at;
        }
        let cut = if from > 0 { "…" } else { "" };
        column += cut.width();
        let mut after = String::new();
        for c in behind.chars() {
            if column + after.width() + wide(c) >= room {
                break;
            }
            after.push(c);
        }
        let back = "\x08".repeat(after.width());
        format!("{cut}{}{after}{back}", &before[from..])
    }

    /// Takes the next byte.
    pub fn take(&mut self, byte: u8) -> Step {
        if byte < 0x80 {
            self.part.clear();
        }
        match (&self.escape, byte) {
            // A key of several bytes, or the mark around a paste: nothing of it is text.
            (_, 0x1b) => self.escape = Escape::Begun,
            (Escape::Begun, b'[' | b'O') => self.escape = Escape::Inside(0),
            (Escape::Inside(n), b'0'..=b'9') => {
                let n = n.saturating_mul(10).saturating_add(u32::from(byte - b'0'));
                self.escape = Escape::Inside(n);
            }
            (Escape::Inside(_), 0x20..=0x3f) => {}
            (Escape::Inside(n), 0x40..) => {
                let key = (byte, *n);
                self.escape = Escape::Outside;
                return match key {
                    (b'C', _) => self.go(self.right()),
                    (b'D', _) => self.go(self.left()),
                    (b'H', _) | (b'~', 1 | 7) => self.go(0),
                    (b'F', _) | (b'~', 4 | 8) => self.go(self.text.len()),
                    (b'~', 3) => self.cut(self.at, self.right()),
                    _ => Step::Hidden,
                };
            }
            (Escape::Begun, 0x20..) => self.escape = Escape::Outside,
            (_, b'\n' | b'\r') => return Step::Enter,
            (_, 3) => return Step::Interrupt,
            (_, 4) if self.text.is_empty() => return Step::Leave,
            (_, 8 | 0x7f) => return self.cut(self.left(), self.at),
            // Ctrl-A, Ctrl-E, Ctrl-U, Ctrl-W.
            (_, 1) => return self.go(0),
            (_, 5) => return self.go(self.text.len()),
            (_, 0x15) => return self.cut(0, self.text.len()),
            (_, 0x17) => {
                let before = self.text[..self.at].trim_end_matches(' ');
                return self.cut(before.rfind(' ').map_or(0, |space| space + 1), self.at);
            }
            (_, 0x20..=0x7e) => return self.add(char::from(byte)),
            (_, 0x80..) if self.words => {
                self.part.push(byte);
                match std::str::from_utf8(&self.part) {
                    Ok(text) => {
                        let c = text.chars().next();
                        self.part.clear();
                        return c.map_or(Step::Hidden, |c| self.add(c));
                    }
                    Err(e) if e.error_len().is_some() => self.part.clear(),
                    Err(_) => {}
                }
            }
            _ => self.escape = Escape::Outside,
        }
        Step::Hidden
    }

    /// Adds a character that can be seen.
    fn add(&mut self, c: char) -> Step {
        let mut buffer = [0; 4];
        let alone: &str = c.encode_utf8(&mut buffer);
        if self.text.len() + alone.len() > MAX || strict(alone) != alone {
            return Step::Hidden;
        }
        self.text.insert(self.at, c);
        self.at += alone.len();
        let behind = &self.text[self.at..];
        Step::Shown(format!("{alone}{behind}{}", "\x08".repeat(behind.width())))
    }

    /// Where the character before the cursor begins.
    fn left(&self) -> usize {
        let before = self.text[..self.at].chars().next_back();
        self.at - before.map_or(0, char::len_utf8)
    }

    /// Where the character at the cursor ends.
    fn right(&self) -> usize {
        let next = self.text[self.at..].chars().next();
        self.at + next.map_or(0, char::len_utf8)
    }

    /// Moves the cursor.
    fn go(&mut self, to: usize) -> Step {
        let shown = match to.cmp(&self.at) {
            Ordering::Equal => return Step::Hidden,
            Ordering::Less => "\x08".repeat(self.text[to..self.at].width()),
            Ordering::Greater => self.text[self.at..to].to_string(),
        };
        self.at = to;
        Step::Shown(shown)
    }

    /// Takes a part away, and leaves the cursor there.
    fn cut(&mut self, from: usize, to: usize) -> Step {
        let gone = self.text[from..to].width();
        if from == to {
            return Step::Hidden;
        }
        let mut shown = match self.go(from) {
            Step::Shown(moved) => moved,
            _ => String::new(),
        };
        self.text.replace_range(from..to, "");
        let behind = &self.text[from..];
        shown.push_str(behind);
        shown.push_str(&" ".repeat(gone));
        shown.push_str(&"\x08".repeat(behind.width() + gone));
        Step::Shown(shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line after these bytes, what was shown, and the last step.
    fn typed(bytes: &[u8]) -> (String, String, Step) {
        let mut line = Typing::default();
        let mut shown = String::new();
        let mut last = Step::Hidden;
        for byte in bytes {
            last = line.take(*byte);
            if let Step::Shown(text) = &last {
                shown.push_str(text);
            }
        }
        (line.text, shown, last)
    }

    #[test]
    fn text_is_taken_and_can_be_mended() {
        assert_eq!(typed(b"ab\n"), ("ab".into(), "ab".into(), Step::Enter));
        assert_eq!(typed(b"ab\x7fc\r").0, "ac");
        assert_eq!(typed(b"ab\x15c\r").0, "c");
        assert_eq!(typed(b"\x7f\x7fa\r").0, "a");
    }

    #[test]
    fn keys_that_are_no_text_add_nothing() {
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
                ("ab".into(), "ab".into(), Step::Enter),
                "{bytes:?}"
            );
        }
    }

    #[test]
    fn the_cursor_moves_and_what_is_there_can_be_mended() {
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
    fn the_way_out() {
        assert_eq!(typed(b"ab\x03").2, Step::Interrupt);
        assert_eq!(
            typed(b"\x1b\x03").2,
            Step::Interrupt,
            "even after a lone Esc"
        );
        assert_eq!(typed(b"\x04").2, Step::Leave);
        assert_eq!(
            typed(b"a\x04").2,
            Step::Hidden,
            "behind text it means nothing"
        );
    }

    #[test]
    fn a_line_is_bounded() {
        assert_eq!(typed(&[b'a'; MAX + 10]).0.len(), MAX);
    }

    #[test]
    fn words_may_be_of_any_language() {
        let mut line = Typing::with("a");
        let shown: String = "é日\u{200b}\u{202e}ж\x7f"
            .bytes()
            .map(|b| match line.take(b) {
                Step::Shown(text) => text,
                _ => String::new(),
            })
            .collect();
        assert_eq!((line.text(), shown.as_str()), ("aé日", "é日ж\x08 \x08"));
        assert_eq!(line.shown(80), "aé日");
        line.take(1);
        assert_eq!(line.shown(80), "aé日\x08\x08\x08\x08");
        line.take(5);
        line.take(0xff);
        assert_eq!(
            line.take(0x15),
            Step::Shown("\x08\x08\x08\x08    \x08\x08\x08\x08".into())
        );
    }

    #[test]
    fn a_line_longer_than_its_row_shows_the_part_around_the_cursor() {
        let mut line = Typing::with("0123456789日本語");
        assert_eq!(line.shown(10), "…89日本語");
        for _ in 0..5 {
            line.take(0x1b);
            line.take(b'[');
            line.take(b'D');
        }
        assert_eq!(line.shown(10), "012345678\x08");
        line.take(1);
        assert_eq!(line.shown(10), format!("012345678{}", "\x08".repeat(9)));
        for room in 4..40 {
            for at in [0, 3, 10, 13, 19] {
                line.at = at;
                let shown = line.shown(room);
                let text = shown.trim_end_matches('\x08');
                assert!(text.width() < room, "{room} {at} {shown:?}");
                assert!(shown.len() - text.len() <= text.width());
            }
        }
    }
}
