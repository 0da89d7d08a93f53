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
    /// What must not be overlooked.
    Alarm,
    /// What is there now.
    Added,
    /// What is there no more.
    Gone,
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

/// Cuts prose as [`wrap`] does, but at spaces, which then are left out; words are torn where they fill a line.
pub fn fold(bits: &[Bit], width: usize, hang: usize) -> Vec<Line> {
    let (width, hang) = (width.max(1), hang.min(width / 2));
    let mut fold = Fold {
        width,
        hang,
        column: 0,
        gap: Line::new(),
        word: Line::new(),
        out: Line::new(),
    };
    for piece in bits {
        if piece.text == "\n" {
            fold.place();
            fold.gap.clear();
            fold.out.push(piece.clone());
            fold.column = hang;
        } else if piece.ink == Ink::Mark {
            fold.word.push(piece.clone());
        } else {
            for part in piece.text.split_inclusive(' ') {
                let word = part.trim_end_matches(' ');
                if !word.is_empty() {
                    fold.word.push(bit(word, piece.ink));
                }
                if word.len() < part.len() {
                    fold.place();
                    fold.gap.push(bit(" ", piece.ink));
                }
            }
        }
    }
    fold.place();
    wrap(&fold.out, width, hang)
}

struct Fold {
    width: usize,
    hang: usize,
    column: usize,
    /// The spaces in front of the word.
    gap: Line,
    word: Line,
    out: Line,
}

impl Fold {
    /// Puts the word that has ended on this line, or on the next.
    fn place(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let wide = columns(&self.word);
        self.column += columns(&self.gap) + wide;
        if self.column > self.width && self.hang + wide <= self.width {
            self.gap.clear();
            self.out.push(bit("\n", Ink::Plain));
            self.column = self.hang + wide;
        }
        while self.column > self.width {
            self.column -= self.width - self.hang;
        }
        self.out.append(&mut self.gap);
        self.out.append(&mut self.word);
    }
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
            Ink::Alarm => "\x1b[1;31m",
            Ink::Added => "\x1b[32m",
            Ink::Gone => "\x1b[31m",
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

    #[test]
    fn prose_is_cut_between_its_words() {
        let folded = |prose: &str, width| {
            let bits: Vec<Bit> = bits(strict_pieces(prose), Ink::Plain).collect();
            text(&fold(&bits, width, 2))
        };
        let prose = "moves server files, 日本語 too";
        assert_eq!(
            folded(prose, 14),
            ["moves server", "  files,", "  日本語 too"]
        );
        assert_eq!(folded(prose, 80), [prose]);
        assert_eq!(
            folded("a verylongword b", 6),
            ["a very", "  long", "  word", "  b"]
        );
        assert_eq!(folded("  in  it", 80), ["  in  it"]);
        for width in 1..40 {
            let bare = |s: &str| s.replace(' ', "");
            assert_eq!(bare(&folded(prose, width).concat()), bare(prose), "{width}");
        }
    }
}
