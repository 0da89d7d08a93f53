//! Styled lines for frames on the terminal, wrapped to a width. Their text has passed the sink for untrusted text.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::safety::text::OwnedPiece;

/// Style of a span on a terminal with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanStyle {
    /// Default style.
    Plain,
    /// The subject of a question.
    Bold,
    /// Secondary text.
    Dim,
    /// A name or key.
    Name,
    /// A warning.
    Alarm,
    /// An added line of a difference.
    Added,
    /// A removed line of a difference.
    Gone,
    /// A substitute for an invisible character; never broken across lines, always distinct from text.
    Mark,
}

/// Text in one style, safe to print. The text `"\n"` ends a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StyledSpan {
    /// The text.
    pub text: String,
    /// Its style.
    pub style: SpanStyle,
}

/// A line of spans.
pub type StyledLine = Vec<StyledSpan>;

/// Creates a span of trusted text.
pub fn span(text: impl Into<String>, style: SpanStyle) -> StyledSpan {
    StyledSpan {
        text: text.into(),
        style,
    }
}

/// Converts the output of the text sink to spans.
pub fn spans(
    pieces: impl IntoIterator<Item = OwnedPiece>,
    style: SpanStyle,
) -> impl Iterator<Item = StyledSpan> {
    pieces.into_iter().map(move |piece| match piece {
        OwnedPiece::Text(text) => StyledSpan { text, style },
        OwnedPiece::Mark(text) => span(text, SpanStyle::Mark),
    })
}

/// Returns the width of spans on one line.
pub fn columns(spans: &[StyledSpan]) -> usize {
    spans.iter().map(|b| b.text.width()).sum()
}

/// Breaks spans into lines of `width` columns at any character. Continued lines begin with `hang` spaces, which distinguishes
/// them from new lines.
pub fn wrap(spans: &[StyledSpan], width: usize, hang: usize) -> Vec<StyledLine> {
    let (width, hang) = (width.max(1), hang.min(width / 2));
    let mut lines = vec![StyledLine::new()];
    let mut column = 0;
    let mut indent = 0;
    let mut add = |text: &str, style: SpanStyle, wide: usize| {
        if text == "\n" || column + wide > width && column > indent {
            lines.push(match hang {
                0 => StyledLine::new(),
                _ => vec![span(" ".repeat(hang), SpanStyle::Plain)],
            });
            (column, indent) = (hang, hang);
            if text == "\n" {
                return;
            }
        }
        column += wide;
        if let Some(line) = lines.last_mut() {
            match line.last_mut() {
                Some(last) if last.style == style && style != SpanStyle::Mark => {
                    last.text.push_str(text)
                }
                _ => line.push(span(text, style)),
            }
        }
    };
    for piece in spans {
        if piece.style == SpanStyle::Mark || piece.text == "\n" {
            add(&piece.text, piece.style, piece.text.width());
        } else if piece.text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            for at in 0..piece.text.len() {
                add(&piece.text[at..=at], piece.style, 1);
            }
        } else {
            for cluster in piece.text.graphemes(true) {
                add(cluster, piece.style, cluster.width());
            }
        }
    }
    // A trailing line break does not open a line.
    if lines.len() > 1 && column == indent {
        lines.pop();
    }
    lines
}

/// Breaks prose at spaces, which are then dropped; a word longer than a line is broken as by [`wrap`].
pub fn fold(spans: &[StyledSpan], width: usize, hang: usize) -> Vec<StyledLine> {
    let (width, hang) = (width.max(1), hang.min(width / 2));
    let mut folder = WordFolder {
        width,
        hang,
        column: 0,
        gap: StyledLine::new(),
        word: StyledLine::new(),
        out: StyledLine::new(),
    };
    for piece in spans {
        if piece.text == "\n" {
            folder.place();
            folder.gap.clear();
            folder.out.push(piece.clone());
            folder.column = hang;
        } else if piece.style == SpanStyle::Mark {
            folder.word.push(piece.clone());
        } else {
            for part in piece.text.split_inclusive(' ') {
                let word = part.trim_end_matches(' ');
                if !word.is_empty() {
                    folder.word.push(span(word, piece.style));
                }
                if word.len() < part.len() {
                    folder.place();
                    folder.gap.push(span(" ", piece.style));
                }
            }
        }
    }
    folder.place();
    wrap(&folder.out, width, hang)
}

struct WordFolder {
    width: usize,
    hang: usize,
    column: usize,
    /// Spaces before the word.
    gap: StyledLine,
    word: StyledLine,
    out: StyledLine,
}

impl WordFolder {
    /// Places the finished word on this line or the next.
    fn place(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let wide = columns(&self.word);
        self.column += columns(&self.gap) + wide;
        if self.column > self.width && self.hang + wide <= self.width {
            self.gap.clear();
            self.out.push(span("\n", SpanStyle::Plain));
            self.column = self.hang + wide;
        }
        while self.column > self.width {
            self.column -= self.width - self.hang;
        }
        self.out.append(&mut self.gap);
        self.out.append(&mut self.word);
    }
}

/// Returns trusted `text` as lines as [`wrapped`] does, for a cursor at `column`. The text starts on a new line if it does
/// not fit on the current one.
pub fn continue_line(text: &str, column: usize, width: usize) -> String {
    let start = match column > 0 && column + text.width() > width {
        true => "\n",
        false => "",
    };
    format!("{start}{}", wrapped(text, width, 0))
}

/// Returns trusted `text` as lines of at most `width` columns, broken at spaces. Lines after the first are indented. A word that is
/// too wide for that, such as an address or a path, has a line of its own, which the terminal breaks: it stays whole
/// for a link or a selection.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let indent = indent.min(width / 2);
    let (mut out, mut prose) = (String::new(), String::new());
    let place = |prose: &str, out: &mut String| {
        for line in fold(&[span(prose, SpanStyle::Plain)], width, indent) {
            paint(&line, false, out);
            out.push('\n');
        }
    };
    for part in text.split_inclusive(' ') {
        let word = part.trim_end_matches(' ');
        let wide = word.width();
        if indent + wide <= width || prose.width() + wide <= width {
            prose.push_str(part);
            continue;
        }
        if !prose.trim().is_empty() {
            place(prose.trim_end(), &mut out);
        }
        out.push_str(word);
        out.push('\n');
        prose = " ".repeat(indent);
    }
    if out.is_empty() || !prose.trim().is_empty() {
        place(&prose, &mut out);
    }
    out
}

/// Breaks the lines of trusted `text` that are wider than a terminal at spaces. What follows is indented by `hang`
/// columns more than the line. Other lines, and a last line without its end, stay as they are.
pub fn wrap_text(text: &str, width: usize, hang: usize) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        let body = line.trim_end();
        if body.width() <= width {
            return line.to_owned();
        }
        let indent = body.len() - body.trim_start_matches(' ').len();
        let folded = wrapped(body, width, indent + hang);
        format!("{}{}", folded.trim_end(), &line[body.len()..])
    });
    lines.collect()
}

/// Returns the cursor column after writing `text` at `column`. Escape sequences take no columns.
pub fn column_after(column: usize, text: &str) -> usize {
    let (column, last) = match text.rsplit_once(['\n', '\r']) {
        Some((_, last)) => (0, last),
        None => (column, text),
    };
    column + strip_ansi_escapes::strip_str(last).width()
}

/// Appends the text of a line to `out`, with colours if `color` is set.
pub fn paint(line: &[StyledSpan], color: bool, out: &mut String) {
    for piece in line {
        let on = match piece.style {
            _ if !color => "",
            SpanStyle::Plain => "",
            SpanStyle::Bold => "\x1b[1m",
            SpanStyle::Dim => "\x1b[2m",
            SpanStyle::Name => "\x1b[36m",
            SpanStyle::Alarm => "\x1b[1;31m",
            SpanStyle::Added => "\x1b[32m",
            SpanStyle::Gone => "\x1b[31m",
            SpanStyle::Mark => "\x1b[7m",
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

    fn text(lines: &[StyledLine]) -> Vec<String> {
        let line = |l: &StyledLine| l.iter().map(|b| b.text.as_str()).collect();
        lines.iter().map(line).collect()
    }

    fn cut(text_of: &str, width: usize) -> Vec<String> {
        let spans: Vec<StyledSpan> = spans(strict_pieces(text_of), SpanStyle::Bold).collect();
        text(&wrap(&spans, width, 0))
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
    fn continued_lines_are_indented() {
        let spans = [
            span("abcdef", SpanStyle::Plain),
            span("\n", SpanStyle::Plain),
            span("g", SpanStyle::Plain),
        ];
        assert_eq!(text(&wrap(&spans, 4, 2)), ["abcd", "  ef", "  g"]);
        assert_eq!(text(&wrap(&spans[..2], 80, 2)), ["abcdef"]);
    }

    #[test]
    fn prose_breaks_between_words() {
        let folded = |prose: &str, width| {
            let spans: Vec<StyledSpan> = spans(strict_pieces(prose), SpanStyle::Plain).collect();
            text(&fold(&spans, width, 2))
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

    #[test]
    fn only_lines_that_are_too_wide_are_broken() {
        let text = "a short line\n  one two three four\nWhich? [1-4, q] ";
        assert_eq!(
            wrap_text(text, 16, 2),
            "a short line\n  one two three\n    four\nWhich? [1-4, q] "
        );
        assert_eq!(
            wrap_text("Share it all? [y/N] ", 14, 2),
            "Share it all?\n  [y/N] "
        );
        assert_eq!(wrap_text("", 14, 2), "");
    }

    #[test]
    fn a_word_wider_than_a_line_is_left_to_the_terminal() {
        let address = "http://127.0.0.1:8765/s/abc";
        for (text, shown) in [
            (
                format!("  see {address} for it\n"),
                format!("  see\n{address}\n    for it\n"),
            ),
            (format!("          {address}\n"), format!("{address}\n")),
            (
                format!("{address} {address}"),
                format!("{address}\n{address}"),
            ),
            (
                format!("x {}", &address[..16]),
                format!("x\n{}", &address[..16]),
            ),
            (
                format!("x {}", &address[..14]),
                format!("x {}", &address[..14]),
            ),
        ] {
            assert_eq!(wrap_text(&text, 16, 2), shown);
        }
        assert_eq!(continue_line(address, 3, 16), format!("\n{address}\n"));
        assert_eq!(wrapped("", 16, 2), "\n");
        assert_eq!(wrapped("in 4567890 d", 10, 6), "in 4567890\n     d\n");
    }
}
