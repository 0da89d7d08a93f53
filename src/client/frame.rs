//! Lines of a frame on the terminal: `┌ │ └` in front, text that was made safe behind, cut to the width.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::safety::text::Shown;

/// How a piece of a line is drawn where there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    /// As it is.
    Plain,
    /// What is decided upon.
    Bold,
    /// What goes without reading.
    Dim,
    /// The name of something.
    Name,
    /// A stand-in for what cannot be shown: never torn, always told from text.
    Mark,
}

/// A piece of a line. Its text is fit to be shown; a text of one LF ends a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bit {
    /// The text.
    pub text: String,
    /// How.
    pub ink: Ink,
}

/// A line.
pub type Line = Vec<Bit>;

/// A piece of one's own.
pub fn bit(text: impl Into<String>, ink: Ink) -> Bit {
    Bit {
        text: text.into(),
        ink,
    }
}

/// What the text sink has let through.
pub fn bits(pieces: impl IntoIterator<Item = Shown>, ink: Ink) -> impl Iterator<Item = Bit> {
    pieces.into_iter().map(move |piece| match piece {
        Shown::Text(text) => Bit { text, ink },
        Shown::Mark(text) => bit(text, Ink::Mark),
    })
}

/// The columns that pieces take on one line.
pub fn columns(bits: &[Bit]) -> usize {
    bits.iter().map(|b| b.text.width()).sum()
}

/// Cuts pieces into lines of `width` columns; all but the first begin with `hang` spaces, so that what
/// goes on is told from what begins.
pub fn wrap(bits: &[Bit], width: usize, hang: usize) -> Vec<Line> {
    let (width, hang) = (width.max(1), hang.min(width / 2));
    let mut lines = vec![Line::new()];
    let mut column = 0;
    let mut indent = 0;
    let mut add = |text: &str, ink: Ink, wide: usize| {
        if text == "\n" || column + wide > width && column > indent {
            lines.push(match hang {
                0 => Line::new(),
                _ => vec![bit(" ".repeat(hang), Ink::Plain)],
            });
            (column, indent) = (hang, hang);
            if text == "\n" {
                return;
            }
        }
        column += wide;
        if let Some(line) = lines.last_mut() {
            match line.last_mut() {
                Some(last) if last.ink == ink && ink != Ink::Mark => last.text.push_str(text),
                _ => line.push(bit(text, ink)),
            }
        }
    };
    for piece in bits {
        if piece.ink == Ink::Mark || piece.text == "\n" {
            add(&piece.text, piece.ink, piece.text.width());
        } else if piece.text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            for at in 0..piece.text.len() {
                add(&piece.text[at..=at], piece.ink, 1);
            }
        } else {
            for cluster in piece.text.graphemes(true) {
                add(cluster, piece.ink, cluster.width());
            }
        }
    }
    // A line break at the very end opens no line.
    if lines.len() > 1 && column == indent {
        lines.pop();
    }
    lines
}

/// The text of a line, with colours where they are wanted.
pub fn paint(line: &[Bit], color: bool, out: &mut String) {
    for piece in line {
        let on = match piece.ink {
            _ if !color => "",
            Ink::Plain => "",
            Ink::Bold => "\x1b[1m",
            Ink::Dim => "\x1b[2m",
            Ink::Name => "\x1b[36m",
            Ink::Mark => "\x1b[7m",
        };
        out.push_str(on);
        out.push_str(&piece.text);
        if !on.is_empty() {
            out.push_str("\x1b[0m");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::text::{strict, strict_pieces};

    fn text(lines: &[Line]) -> Vec<String> {
        let line = |l: &Line| l.iter().map(|b| b.text.as_str()).collect();
        lines.iter().map(line).collect()
    }

    fn cut(text_of: &str, width: usize) -> Vec<String> {
        let bits: Vec<Bit> = bits(strict_pieces(text_of), Ink::Bold).collect();
        text(&wrap(&bits, width, 0))
    }

    #[test]
    fn every_byte_is_shown_and_no_line_is_too_wide() {
        let command = "echo 日本語日本語 | tr a b; rm\u{200b} x";
        for width in 1..40 {
            assert_eq!(cut(command, width).concat(), strict(command), "{width}");
        }
        assert_eq!(cut("echo 日本語", 8), ["echo 日", "本語"]);
    }

    #[test]
    fn what_goes_on_is_told_from_what_begins() {
        let bits = [
            bit("abcdef", Ink::Plain),
            bit("\n", Ink::Plain),
            bit("g", Ink::Plain),
        ];
        assert_eq!(text(&wrap(&bits, 4, 2)), ["abcd", "  ef", "  g"]);
        assert_eq!(text(&wrap(&bits[..2], 80, 2)), ["abcdef"]);
    }
}
