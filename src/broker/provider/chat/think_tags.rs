//! Finds reasoning that a server sends as text: `<think>…</think>` at the beginning of an answer. Pure.

use std::borrow::Cow;

const OPENING: &str = "<think>";
const CLOSING: &str = "</think>";

/// Maximum number of bytes of white space before the opening tag.
const MAX_BLANKS: usize = 64;

/// Where the text so far has ended.
#[derive(Debug, Default, PartialEq, Eq)]
enum Position {
    /// Before anything but white space and the beginning of the tag.
    #[default]
    Start,
    /// Within the tags.
    Reasoning,
    /// In the white space after the closing tag.
    Behind,
    /// In the answer.
    Text,
}

/// Splits the text of one answer.
#[derive(Debug, Default)]
pub struct ThinkTags {
    at: Position,
    /// Text that may be part of a tag.
    held: String,
}

impl ThinkTags {
    /// Returns the reasoning and the text of the next piece.
    pub fn split<'a>(&mut self, piece: Cow<'a, str>) -> (String, Cow<'a, str>) {
        if self.at == Position::Text || piece.is_empty() {
            return (String::new(), piece);
        }
        self.held.push_str(&piece);
        let mut reasoning = String::new();
        if self.at == Position::Start {
            let tag = self.held.trim_start();
            let blanks = self.held.len() - tag.len();
            if OPENING.starts_with(tag) && blanks <= MAX_BLANKS {
                return (reasoning, Cow::Borrowed(""));
            }
            match tag.strip_prefix(OPENING).map(str::to_owned) {
                Some(rest) => (self.at, self.held) = (Position::Reasoning, rest),
                None => self.at = Position::Text,
            }
        }
        if self.at == Position::Reasoning {
            match self.held.split_once(CLOSING) {
                Some((before, after)) => {
                    reasoning = before.to_owned();
                    self.held = after.to_owned();
                    self.at = Position::Behind;
                }
                None => {
                    let ends_in_tag = |at: &usize| CLOSING.starts_with(&self.held[*at..]);
                    let starts = self.held.char_indices().map(|(at, _)| at).rev();
                    let start = starts.take(CLOSING.len()).filter(ends_in_tag).last();
                    let rest = self.held.split_off(start.unwrap_or(self.held.len()));
                    reasoning = std::mem::replace(&mut self.held, rest);
                    return (reasoning, Cow::Borrowed(""));
                }
            }
        }
        if self.at == Position::Behind {
            let text = self.held.trim_start().to_owned();
            self.held = text;
            if !self.held.is_empty() {
                self.at = Position::Text;
            }
        }
        (reasoning, Cow::Owned(std::mem::take(&mut self.held)))
    }

    /// Ends the answer: returns the text that was held back, as reasoning and as text.
    pub fn end(&mut self) -> (String, String) {
        let held = std::mem::take(&mut self.held);
        match std::mem::take(&mut self.at) {
            Position::Reasoning => (held, String::new()),
            _ => (String::new(), held),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning and text of an answer that comes in these pieces.
    fn split(pieces: &[&str]) -> (String, String) {
        let mut tags = ThinkTags::default();
        let (mut reasoning, mut text) = (String::new(), String::new());
        for piece in pieces {
            let (more, words) = tags.split(Cow::Borrowed(piece));
            reasoning.push_str(&more);
            text.push_str(&words);
        }
        let (more, words) = tags.end();
        (reasoning + &more, text + &words)
    }

    #[test]
    fn tags_are_found_wherever_they_are_split() {
        for (answer, reasoning, text) in [
            ("<think>a < b</think>\n\nc", "a < b", "c"),
            (" \n<think>é</think>", "é", ""),
            ("<think></think>c </think>", "", "c </think>"),
            ("<think>a</thin</think>b", "a</thin", "b"),
            ("<think>never ends</thi", "never ends</thi", ""),
            ("<thinking>a", "", "<thinking>a"),
            ("use <think>a</think>", "", "use <think>a</think>"),
            (" \n<", "", " \n<"),
            ("plain", "", "plain"),
            ("<think>a</think> \n", "a", ""),
        ] {
            for first in answer.char_indices().map(|(at, _)| at) {
                for second in answer
                    .char_indices()
                    .map(|(at, _)| at)
                    .filter(|at| *at >= first)
                {
                    let pieces = [&answer[..first], &answer[first..second], &answer[second..]];
                    let expected = (reasoning.to_owned(), text.to_owned());
                    assert_eq!(split(&pieces), expected, "{pieces:?}");
                }
            }
        }
    }

    #[test]
    fn text_is_passed_on_without_a_copy_and_little_is_held() {
        let mut tags = ThinkTags::default();
        assert_eq!(tags.split("a".into()), (String::new(), "a".into()));
        let next = tags.split(Cow::Borrowed("<think>"));
        assert!(matches!(next.1, Cow::Borrowed("<think>")));
        let blanks = " ".repeat(MAX_BLANKS + 1);
        assert_eq!(ThinkTags::default().split(blanks.as_str().into()).1, blanks);
    }
}
