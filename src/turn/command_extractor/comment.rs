//! Finds HTML comments in streamed Markdown: <https://spec.commonmark.org/0.31.2/#html-blocks>.

/// How a comment ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommentKind {
    /// It began a line: only `-->` ends it.
    Block,
    /// It began within a paragraph, which a blank line ends as well.
    Inline,
}

/// The state of the text so far.
#[derive(Debug, Default)]
pub struct CommentScanner {
    open: Option<CommentKind>,
    /// The last bytes of the line, at most four.
    last: [u8; 4],
    /// Bytes of the line so far.
    length: usize,
    /// Spaces at the beginning of the line.
    indent: usize,
    /// Within backticks.
    in_code: bool,
}

impl CommentScanner {
    /// Returns whether the next character is part of a comment.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Handles text.
    pub fn push(&mut self, text: &str) {
        for byte in text.bytes() {
            if byte == b'\n' {
                let is_blank = self.length == self.indent;
                let ended = is_blank && self.open == Some(CommentKind::Inline);
                *self = CommentScanner {
                    open: self.open.filter(|_| !ended),
                    ..CommentScanner::default()
                };
                continue;
            }
            if self.length == self.indent && matches!(byte, b' ' | b'\t' | b'\r') {
                self.indent += 1;
            }
            self.length += 1;
            self.last.rotate_left(1);
            self.last[3] = byte;
            match self.open {
                Some(_) if self.last.ends_with(b"-->") => self.open = None,
                Some(_) => {}
                None if byte == b'`' => self.in_code = !self.in_code,
                None if self.last == *b"<!--" && !self.in_code => {
                    let begins_line = self.length == self.indent + 4 && self.indent <= 3;
                    self.open = Some(match begins_line {
                        true => CommentKind::Block,
                        false => CommentKind::Inline,
                    });
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_end_where_markdown_ends_them() {
        for (text, is_open) in [
            ("<!-- a", true),
            ("   <!-- a\n\nb\n", true),
            ("<!-- a\n-->", false),
            ("<!-->", false),
            ("a <!-- b\nc\n", true),
            ("a <!-- b\n \n", false),
            ("a <!-- b --> c <!-- d", true),
            ("`<!--` a", false),
            ("`a` <!-- b", true),
            ("<!-\n- a", false),
            ("é<!-- ü", true),
        ] {
            for (at, _) in text.char_indices() {
                let mut scanner = CommentScanner::default();
                scanner.push(&text[..at]);
                scanner.push(&text[at..]);
                assert_eq!(scanner.is_open(), is_open, "{text:?} at {at}");
            }
        }
    }
}
