//! One line typed on the person's terminal, with or without echo.
//!
//! The terminal's own line mode will not do: Ctrl-C would be a signal there that ends the wrong
//! thing, and a secret must not be shown.

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
    Inside,
}

/// The line so far.
#[derive(Debug, Default)]
pub struct Typing {
    text: String,
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
            words: true,
            ..Typing::default()
        }
    }

    /// What was typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Takes the next byte.
    pub fn take(&mut self, byte: u8) -> Step {
        if byte < 0x80 {
            self.part.clear();
        }
        match (&self.escape, byte) {
            // An arrow key, or the mark around a paste: nothing of it is text.
            (_, 0x1b) => self.escape = Escape::Begun,
            (Escape::Begun, b'[' | b'O') => self.escape = Escape::Inside,
            (Escape::Inside, 0x20..=0x3f) => {}
            (Escape::Begun, 0x20..) | (Escape::Inside, 0x40..) => self.escape = Escape::Outside,
            (_, b'\n' | b'\r') => return Step::Enter,
            (_, 3) => return Step::Interrupt,
            (_, 4) if self.text.is_empty() => return Step::Leave,
            (_, 8 | 0x7f) => {
                if let Some(c) = self.text.pop() {
                    return Step::Shown(back(c.width().unwrap_or(0)));
                }
            }
            // Ctrl-U.
            (_, 0x15) => return Step::Shown(back(std::mem::take(&mut self.text).width())),
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
        self.text.push(c);
        Step::Shown(alone.to_string())
    }
}

/// Takes so many columns away.
fn back(columns: usize) -> String {
    "\x08 \x08".repeat(columns)
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
            &b"a\x1b[Db\r"[..],
            b"a\x1bOAb\r",
            b"\x1b[200~ab\x1b[201~\r",
            b"a\x1b[1;5Cb\r",
            b"a\0\x01b\r",
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
        line.take(0xff);
        assert_eq!(line.take(0x15), Step::Shown("\x08 \x08".repeat(4)));
    }
}
