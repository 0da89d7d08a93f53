//! Frames around tool calls: the tool, its arguments and its result, indented and in a few lines. `llm :last` shows the
//! whole result.

use std::collections::HashMap;

use unicode_width::UnicodeWidthStr;

use super::operation::marked;
use super::styled_line::{SpanStyle, StyledLine, columns, fold, span};
use super::text_format::{cut, grouped, time, untabbed};
use crate::chat::CallStatus;
use crate::protocol::tools::{CallFinished, CallStarted};
use crate::recording::screen::captured_text;
use crate::safety::confusables;
use crate::safety::text::{one_line, prose};

/// Longest line without an end that is kept, in bytes.
const MAX_PARTIAL: usize = 64 << 10;
/// Most rows of a notice and of a reason: what to do often stands at the end.
const MAX_ROWS: usize = 3;
/// Columns and rows of the screen that draws one line of output: as wide as the terminal of the tool `shell`.
const LINE_SIZE: (usize, usize) = (200, 2);

/// State of the call frames on the terminal.
#[derive(Debug, Default)]
pub struct CallFrames {
    /// The call whose frame is open on the last line.
    open: Option<String>,
    /// The question about the next call to end was withdrawn, which the terminal already shows.
    withdrawn: bool,
    /// Arguments of the running calls, which distinguish calls of one tool.
    running: HashMap<String, String>,
    /// The last line of a command's output, which is not complete yet.
    partial: String,
}

impl CallFrames {
    /// Records that other text follows the open frame.
    pub fn interrupted(&mut self) {
        self.open = None;
    }

    /// Records that the question about a call was withdrawn.
    pub fn withdrawn(&mut self) {
        self.withdrawn = true;
    }

    /// Returns the lines for a call that begins, cut to `width` columns.
    pub fn begin(&mut self, begin: &CallStarted, width: usize) -> Vec<StyledLine> {
        let arguments = confusables::marked_text(&begin.arguments);
        // Builtin tools have no server prefix; the line of their end says everything.
        if !begin.name.contains('.') && !begin.prints {
            self.running.insert(begin.id.clone(), cut(&arguments, 200));
            return Vec::new();
        }
        self.open = Some(begin.id.clone());
        let name = confusables::marked_name(&begin.name);
        let text = match &begin.rule {
            None => name,
            // Allowed by a rule, so no question has shown the arguments.
            Some(_) => format!("{name} {arguments}"),
        };
        let mut first = vec![span("  ┌ ", SpanStyle::Dim)];
        first.push(marked(begin.operation));
        first.push(span(" ", SpanStyle::Dim));
        let room = width.saturating_sub(columns(&first)).max(1);
        first.push(span(cut(&text, room), SpanStyle::Dim));
        let mut lines = vec![first];
        if let Some(rule) = &begin.rule {
            // A question would have shown the warning.
            if let Some(warning) = &begin.warning {
                let text = cut(
                    &format!("warning: {}", one_line(warning, 300)),
                    width.saturating_sub(4),
                );
                lines.push(vec![
                    span("  │ ", SpanStyle::Dim),
                    span(text, SpanStyle::Alarm),
                ]);
            }
            let by = format!("  │ allowed by {}", one_line(rule, 200));
            lines.push(dim(&by, width));
        }
        self.running.insert(begin.id.clone(), cut(&arguments, 200));
        lines
    }

    /// Returns the complete lines of a command's output. Of a line that is drawn over, such as a progress bar, the last state counts.
    pub fn output(&mut self, text: &str, width: usize) -> Vec<StyledLine> {
        self.partial.push_str(text);
        let Some(end) = self.partial.rfind('\n') else {
            if self.partial.len() > MAX_PARTIAL {
                self.partial.clear();
            }
            return Vec::new();
        };
        let rest = self.partial.split_off(end + 1);
        let complete = std::mem::replace(&mut self.partial, rest);
        complete
            .lines()
            .flat_map(|line| output_lines(line, width))
            .collect()
    }

    /// Returns the lines for a call that has ended or was not made.
    pub fn end(&mut self, end: &CallFinished, width: usize) -> Vec<StyledLine> {
        let partial = std::mem::take(&mut self.partial);
        let mut lines = self.end_lines(end, width);
        if !partial.trim().is_empty() {
            lines.splice(0..0, output_lines(&partial, width));
        }
        lines
    }

    fn end_lines(&mut self, end: &CallFinished, width: usize) -> Vec<StyledLine> {
        let is_unmade = matches!(end.status, CallStatus::Denied | CallStatus::Interrupted);
        if std::mem::take(&mut self.withdrawn) && is_unmade {
            return Vec::new();
        }
        let known = self.open.take().is_some_and(|id| id == end.id);
        let mut lines = Vec::new();
        let mut name = confusables::marked_name(&end.name);
        if let Some(arguments) = self.running.remove(&end.id) {
            let room = (width / 2).saturating_sub(name.width() + 1);
            name = format!("{name} {}", cut(&arguments, room.max(12)));
        }
        let made = end.status.was_made();
        // For a call that was not made, the head is the reason.
        let (head, reason): (Vec<&str>, &str) = match made {
            true => (end.head.lines().collect(), ""),
            false => (Vec::new(), &end.head),
        };
        if !known && (!head.is_empty() || !end.notes.is_empty()) {
            lines.push(dim(&format!("  ┌ {name}"), width));
        }
        let most = match end.status {
            CallStatus::ToolError => MAX_ROWS,
            _ => 1,
        };
        for line in head {
            lines.extend(rows("  │ ", "  │ ", &untabbed(&prose(line)), width, most));
        }
        for note in &end.notes {
            let note = format!("[{}]", one_line(note, 300));
            lines.extend(rows("  │ ", "  │ ", &note, width, MAX_ROWS));
        }
        if end.more > 0 {
            let s = if end.more == 1 { "" } else { "s" };
            let more = format!("  │ … {} more line{s}: llm :last", end.more);
            lines.push(dim(&more, width));
        }
        let mut parts = Vec::new();
        if !known && lines.is_empty() {
            // Half of the width is left for the result.
            parts.push(cut(&name, width / 2));
        }
        match end.status {
            CallStatus::Success => {}
            CallStatus::ToolError => parts.push("the tool reports an error".to_string()),
            other if reason.is_empty() => parts.push(status_words(other).to_string()),
            other => parts.push(format!(
                "{}: {}",
                status_words(other),
                one_line(reason, 300)
            )),
        }
        if made {
            parts.push(time(end.duration_ms));
            let s = if end.bytes == 1 { "" } else { "s" };
            parts.push(format!("{} byte{s}", grouped(end.bytes)));
        }
        let last = parts.join(" · ");
        lines.extend(rows("  └ ", "    ", &last, width, MAX_ROWS));
        lines
    }
}

/// Returns a line of a command's output as a terminal shows it, without its colours: several rows where it moves the cursor to others.
fn output_lines(line: &str, width: usize) -> Vec<StyledLine> {
    let shown = match line.contains(|c: char| c.is_control() && c != '\t') {
        true => captured_text(line.as_bytes(), LINE_SIZE),
        false => line.to_owned(),
    };
    let rows = shown.split('\n');
    rows.map(|row| dim(&format!("  │ {}", untabbed(&prose(row))), width))
        .collect()
}

/// Returns the status in the words of a terminal line.
fn status_words(status: CallStatus) -> &'static str {
    match status {
        CallStatus::CallFailed => "failed",
        CallStatus::InvalidCall => "invalid call",
        other => other.as_str(),
    }
}

/// Returns dim rows of `width` columns with a text that is broken at spaces, after `first` and in the rows below after `next`. The rest
/// is cut off after `most` rows.
fn rows(first: &str, next: &str, text: &str, width: usize, most: usize) -> Vec<StyledLine> {
    let room = width.saturating_sub(first.width()).max(1);
    let mut rows: Vec<String> = Vec::new();
    if most > 1 {
        let folded = fold(&[span(text, SpanStyle::Dim)], room, 0);
        rows.extend(
            folded
                .iter()
                .map(|line| line.iter().map(|s| s.text.as_str()).collect()),
        );
    }
    if rows.len() <= 1 {
        rows = vec![text.to_owned()];
    }
    if rows.len() > most {
        let rest = rows.split_off(most - 1).join(" ");
        rows.push(rest);
    }
    let numbered = rows.iter().enumerate();
    numbered
        .map(|(n, row)| {
            dim(
                &format!("{}{row}", if n == 0 { first } else { next }),
                width,
            )
        })
        .collect()
}

/// Returns a dim line, cut to `width` columns.
fn dim(text: &str, width: usize) -> StyledLine {
    vec![span(cut(text, width), SpanStyle::Dim)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::OperationClass;

    fn text(lines: Vec<StyledLine>) -> Vec<String> {
        let line = |l: &StyledLine| l.iter().map(|b| b.text.as_str()).collect();
        lines.iter().map(line).collect()
    }

    fn begin(rule: Option<&str>) -> CallStarted {
        CallStarted {
            id: "1".into(),
            name: "fs.read".into(),
            arguments: r#"{"path":"/etc/hosts\u001b"}"#.into(),
            rule: rule.map(str::to_string),
            operation: OperationClass::Read,
            warning: None,
            prints: false,
        }
    }

    fn end(status: CallStatus, head: &str, more: usize) -> CallFinished {
        CallFinished {
            id: "1".into(),
            name: "fs.read".into(),
            status,
            duration_ms: 1234,
            bytes: 1204,
            head: head.into(),
            more,
            notes: Vec::new(),
        }
    }

    #[test]
    fn a_frame_is_begun_and_ended() {
        let mut frames = CallFrames::default();
        assert_eq!(text(frames.begin(&begin(None), 80)), ["  ┌ r fs.read"]);
        assert_eq!(
            text(frames.end(&end(CallStatus::Success, "one\x1b[2J\n\ttwo\n", 12), 80)),
            [
                "  │ one\\x1b[2J",
                "  │         two",
                "  │ … 12 more lines: llm :last",
                "  └ 1.2 s · 1,204 bytes",
            ]
        );
        assert_eq!(
            text(frames.begin(&begin(Some("mcp.auto_approve.\"fs.*\"")), 46)),
            [
                "  ┌ r fs.read {\"path\":\"/etc/hosts\\u001b\"}",
                "  │ allowed by mcp.auto_approve.\"fs.*\"",
            ]
        );
        let one = CallFinished {
            bytes: 1,
            ..end(CallStatus::Success, "1", 0)
        };
        assert_eq!(text(frames.end(&one, 80))[1], "  └ 1.2 s · 1 byte");
        assert_eq!(
            text(frames.begin(&begin(Some("x")), 22))[0],
            "  ┌ r fs.read {\"path\"…"
        );
    }

    #[test]
    fn a_tool_of_our_own_takes_one_line() {
        let mut frames = CallFrames::default();
        let begin = CallStarted {
            name: "retrieve_tools".into(),
            arguments: r#"{"query":"write a file"}"#.into(),
            operation: OperationClass::Read,
            ..begin(None)
        };
        assert!(frames.begin(&begin, 100).is_empty());
        let end = CallFinished {
            name: "retrieve_tools".into(),
            ..end(CallStatus::Success, "", 0)
        };
        assert_eq!(
            text(frames.end(&end, 100)),
            [r#"  └ retrieve_tools {"query":"write a file"} · 1.2 s · 1,204 bytes"#]
        );
    }

    #[test]
    fn an_end_without_its_beginning_says_whose_it_is() {
        let mut frames = CallFrames::default();
        assert_eq!(
            text(frames.end(&end(CallStatus::Denied, "", 0), 80)),
            ["  └ fs.read · denied"]
        );
        frames.begin(&begin(None), 80);
        frames.interrupted();
        assert_eq!(
            text(frames.end(&end(CallStatus::ToolError, "no", 0), 80)),
            [
                "  ┌ fs.read {\"path\":\"/etc/hosts\\u001b\"}",
                "  │ no",
                "  └ the tool reports an error · 1.2 s · 1,204 bytes"
            ]
        );
        for (status, words) in [
            (CallStatus::CallFailed, "failed"),
            (CallStatus::InvalidCall, "invalid call"),
            (CallStatus::Interrupted, "interrupted"),
        ] {
            assert!(text(frames.end(&end(status, "", 0), 80))[0].contains(words));
        }
        let long = format!("fs.{}", "x".repeat(128));
        let mut frames = CallFrames::default();
        let named = CallStarted {
            name: long.clone(),
            ..begin(None)
        };
        let half = format!("fs.{}", "x".repeat(16));
        assert_eq!(
            text(frames.begin(&named, 25)),
            [format!("  ┌ r {}…", &long[..18])]
        );
        frames.interrupted();
        let denied = CallFinished {
            name: long.clone(),
            ..end(CallStatus::Denied, "", 0)
        };
        assert_eq!(
            text(frames.end(&denied, 40)),
            [format!("  └ {half}… · denied")]
        );
        let said = CallFinished {
            name: long,
            ..end(CallStatus::Success, "no", 0)
        };
        assert_eq!(
            text(frames.end(&said, 23))[0],
            format!("  ┌ {}…", &half[..18])
        );
    }

    #[test]
    fn what_to_do_is_not_cut_off() {
        let mut frames = CallFrames::default();
        let note = "image not sent: this model is not configured for images (images = true in its [models] section)";
        let noted = CallFinished {
            notes: vec![note.into()],
            ..end(CallStatus::Success, "", 0)
        };
        assert_eq!(
            text(frames.end(&noted, 60))[1..],
            [
                "  │ [image not sent: this model is not configured for images",
                "  │ (images = true in its [models] section)]",
                "  └ 1.2 s · 1,204 bytes"
            ]
        );
        let why =
            "lib/add.zsh: hunk at line 3 of the patch: its unchanged lines are not in the file";
        assert_eq!(
            text(frames.end(&end(CallStatus::InvalidCall, why, 0), 50)),
            [
                "  └ fs.read · invalid call: lib/add.zsh: hunk at",
                "    line 3 of the patch: its unchanged lines are",
                "    not in the file"
            ]
        );
        let error = "x.pdf is a PDF document; reading its text needs pdftotext";
        assert_eq!(
            text(frames.end(&end(CallStatus::ToolError, error, 0), 50))[1..3],
            [
                "  │ x.pdf is a PDF document; reading its text",
                "  │ needs pdftotext"
            ]
        );
        // A result is cut to one row each line, and a text without end to three.
        let long = "word ".repeat(100);
        assert_eq!(
            text(frames.end(&end(CallStatus::Success, &long, 0), 50)).len(),
            3
        );
        let many = text(frames.end(&end(CallStatus::Blocked, &long, 0), 50));
        assert_eq!(many.len(), 3);
        assert!(many[2].ends_with('…') && many.iter().all(|row| row.width() <= 50));
    }

    #[test]
    fn of_a_line_that_is_drawn_over_the_last_state_is_shown() {
        for (output, shown) in [
            ("10 %\r 50 %\r100 %\r\n", "100 %"),
            ("10 %\r\u{1b}[K100 %\n", "100 %"),
            ("\u{1b}[2K\u{1b}[1Gchecking\u{1b}[2K\u{1b}[1Gdone\n", "done"),
            ("-\u{8}\\\u{8}|\u{8}done\n", "done"),
            ("\u{1b}[32mgreen\u{1b}[0m\tx\r\n", "green   x"),
            ("plain\r\n", "plain"),
        ] {
            let mut frames = CallFrames::default();
            assert_eq!(text(frames.output(output, 80)), [format!("  │ {shown}")]);
        }
    }

    #[test]
    fn output_that_moves_the_cursor_stays_within_its_frame() {
        for codes in [
            "\u{b}",
            "\u{c}",
            "\u{85}",
            "\u{1b}E",
            "\u{1b}D",
            "\u{1b}M",
            "\u{1b}[A",
            "\u{1b}[2;1H",
        ] {
            for last in ["", "\n"] {
                let mut frames = CallFrames::default();
                let output = format!("a{codes}FAKE{last}");
                let mut lines = frames.output(&output, 80);
                lines.extend(frames.end(&end(CallStatus::Success, "", 0), 80));
                lines.pop();
                let rows = text(lines);
                assert!(rows.iter().any(|row| row.contains("FAKE")), "{codes:?}");
                let is_framed = |row: &String| row.starts_with("  │ ") && !row.contains('\n');
                assert!(rows.iter().all(is_framed), "{codes:?}: {rows:?}");
            }
        }
    }

    #[test]
    fn calls_of_one_tool_at_once_are_told_apart() {
        let mut frames = CallFrames::default();
        for (id, path) in [("1", "/a"), ("2", "/b"), ("3", &"/c".repeat(100))] {
            let begun = CallStarted {
                id: id.into(),
                arguments: format!("{{\"path\":\"{path}\"}}"),
                ..begin(Some("fs.*"))
            };
            frames.begin(&begun, 60);
        }
        let mut ended = |id: &str, head: &str| {
            let end = CallFinished {
                id: id.into(),
                bytes: 1,
                ..end(CallStatus::Success, head, 0)
            };
            text(frames.end(&end, 60))
        };
        assert_eq!(
            ended("2", "x")[0],
            "  ┌ fs.read {\"path\":\"/b\"}",
            "the first that ends is not the last that began"
        );
        assert_eq!(
            ended("3", ""),
            ["  └ fs.read {\"path\":\"/c/c/c/c/c/c… · 1.2 s · 1 byte"]
        );
        assert_eq!(
            ended("1", ""),
            ["  └ fs.read {\"path\":\"/a\"} · 1.2 s · 1 byte"]
        );
    }

    #[test]
    fn what_a_call_does_stands_in_front_and_why_it_was_not_made_behind() {
        let mut frames = CallFrames::default();
        let destroys = CallStarted {
            operation: OperationClass::Destructive,
            warning: Some("the server says\u{1b} otherwise".into()),
            prints: false,
            ..begin(Some("policy.rules"))
        };
        assert_eq!(
            text(frames.begin(&destroys, 44)),
            [
                "  ┌ ! fs.read {\"path\":\"/etc/hosts\\u001b\"}",
                "  │ warning: the server says‹\\x1b› otherwise",
                "  │ allowed by policy.rules",
            ]
        );
        let asked = CallStarted {
            rule: None,
            ..destroys
        };
        assert_eq!(text(frames.begin(&asked, 80)), ["  ┌ ! fs.read"]);
        frames.interrupted();
        let mut frames = CallFrames::default();
        let why = "Intent mismatch: tool is call_tool_read but intent declares write";
        assert_eq!(
            text(frames.end(&end(CallStatus::Blocked, why, 0), 200)),
            [format!("  └ fs.read · blocked: {why}")]
        );
        assert_eq!(
            text(frames.end(&end(CallStatus::Blocked, why, 0), 40)),
            [
                "  └ fs.read · blocked: Intent mismatch:",
                "    tool is call_tool_read but intent",
                "    declares write"
            ]
        );
    }
}
