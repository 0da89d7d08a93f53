//! The model's reasoning: dim lines on stderr, or only how long it has taken.

use std::time::Instant;

use super::styled_line::{SpanStyle, StyledLine, fold, span, spans};
use crate::safety::text::strict_pieces;

/// Begins each line.
const FRAME: &str = "│ ";

/// Reasoning that arrives in parts.
#[derive(Debug)]
pub struct ReasoningView {
    is_shown: bool,
    /// When the reasoning that has not ended began.
    since: Option<Instant>,
    /// Its last line, which has not ended.
    line: String,
}

impl ReasoningView {
    /// Creates a view that shows the text, or only the time.
    pub fn new(is_shown: bool) -> ReasoningView {
        ReasoningView {
            is_shown,
            since: None,
            line: String::new(),
        }
    }

    /// Returns whether the text is shown.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Returns the text shown beside the spinner: `thinking 12 s`.
    pub fn progress(&self) -> Option<String> {
        let seconds = self.since?.elapsed().as_secs();
        Some(format!("thinking {seconds} s"))
    }

    /// Takes a part of the reasoning and returns the lines that have ended, wrapped to `width` columns.
    pub fn push(&mut self, text: &str, width: usize) -> Vec<StyledLine> {
        self.since.get_or_insert_with(Instant::now);
        if !self.is_shown {
            return Vec::new();
        }
        self.line.push_str(text);
        let Some(end) = self.line.rfind('\n') else {
            return Vec::new();
        };
        let rest = self.line.split_off(end + 1);
        let ended = std::mem::replace(&mut self.line, rest);
        ended.lines().flat_map(|line| framed(line, width)).collect()
    }

    /// Ends the reasoning and returns its last line and how long it took.
    pub fn end(&mut self, width: usize) -> Vec<StyledLine> {
        let Some(since) = self.since.take() else {
            return Vec::new();
        };
        let line = std::mem::take(&mut self.line);
        if !self.is_shown {
            return Vec::new();
        }
        let mut lines = match line.trim() {
            "" => Vec::new(),
            line => framed(line, width),
        };
        let seconds = since.elapsed().as_secs_f64();
        let took = format!("└ thought for {seconds:.1} s");
        lines.push(vec![span(took, SpanStyle::Dim)]);
        lines
    }
}

fn framed(line: &str, width: usize) -> Vec<StyledLine> {
    let safe: Vec<_> = spans(strict_pieces(line), SpanStyle::Dim).collect();
    let lines = fold(&safe, width.saturating_sub(2).max(10), 0);
    let framed = lines.into_iter().map(|mut line| {
        line.insert(0, span(FRAME, SpanStyle::Dim));
        line
    });
    framed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[StyledLine]) -> Vec<String> {
        let line = |line: &StyledLine| line.iter().map(|s| s.text.as_str()).collect();
        lines.iter().map(line).collect()
    }

    #[test]
    fn lines_are_framed_wrapped_and_escaped() {
        let mut view = ReasoningView::new(true);
        assert!(view.push("First I look", 20).is_empty());
        let lines = view.push(" at the names of all files\n\nThen \x1b[31m", 20);
        assert_eq!(
            text(&lines),
            ["│ First I look at", "│ the names of all", "│ files", "│ "]
        );
        let end = text(&view.end(20));
        assert_eq!(end[0], "│ Then ‹\\x1b›[31m");
        assert!(end[1].starts_with("└ thought for 0."), "{end:?}");
        assert!(view.end(20).is_empty());
    }

    #[test]
    fn without_the_text_only_the_time_is_shown() {
        let mut view = ReasoningView::new(false);
        assert_eq!(view.progress(), None);
        assert!(view.push("a\nb\n", 20).is_empty());
        assert_eq!(view.progress().as_deref(), Some("thinking 0 s"));
        assert!(view.end(20).is_empty());
        assert_eq!(view.progress(), None);
    }
}
