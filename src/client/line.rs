//! One line typed on the person's terminal, with or without echo.
//!
//! The terminal's own line mode will not do: Ctrl-C would be a signal there that ends the wrong
//! thing, and a secret must not be shown.

use std::io::{Read, Write};

use super::terminal::{Keys, Tty};
use crate::error::{Context, Error, Kind, Result};

/// Longer than any key or address.
const MAX: usize = 4096;

/// Reads a line of visible ASCII, as it is typed or pasted; `None` after Ctrl-D.
///
/// # Errors
/// The terminal has gone, or Ctrl-C.
pub fn read(tty: &Tty, _keys: &Keys<'_>, echo: bool) -> Result<Option<String>> {
    let mut line = Line::default();
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
enum Step {
    /// To be shown, where there is echo.
    Shown(String),
    /// Nothing that can be seen.
    Hidden,
    Enter,
    Leave,
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
struct Line {
    text: String,
    escape: Escape,
}

impl Line {
    fn take(&mut self, byte: u8) -> Step {
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
                if self.text.pop().is_some() {
                    return Step::Shown("\x08 \x08".to_string());
                }
            }
            // Ctrl-U.
            (_, 0x15) => {
                let length = self.text.len();
                self.text.clear();
                return Step::Shown("\x08 \x08".repeat(length));
            }
            (_, 0x20..=0x7e) if self.text.len() < MAX => {
                self.text.push(char::from(byte));
                return Step::Shown(char::from(byte).to_string());
            }
            _ => self.escape = Escape::Outside,
        }
        Step::Hidden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line after these bytes, what was shown, and the last step.
    fn typed(bytes: &[u8]) -> (String, String, Step) {
        let mut line = Line::default();
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
}
