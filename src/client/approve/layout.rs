//! Layout of the question about a tool call: the call, what its server says about the tool, and what has changed.

use super::approval_keys;
use crate::chat::OperationClass;
use crate::client::argument_lines;
use crate::client::new_tools_view::{self, prose};
use crate::client::operation::{marked, statement, word};
use crate::client::styled_line::{SpanStyle, StyledLine, StyledSpan, columns, fold, span, spans};
use crate::client::text_format::cut;
use crate::protocol::tools::{
    ApprovalRequest, DeclaredIntent, NOT_DECLARED, NewTools, ToolDiffLine,
};
use crate::safety::confusables;
use crate::safety::policy::{BUILTIN_SERVER, CHANGED, DEFAULT_RULE};

/// Widest head: on a wide terminal the name and its description stay close together.
const MAX_WIDTH: usize = 96;
/// Width of the column of names in the details.
const NAME_WIDTH: usize = 17;
/// Deepest indentation of a line of code that is shown as it is.
const MAX_CODE_INDENT: usize = 60;
/// Deepest indentation of a changed line: its text must stay visible.
const MAX_INDENT: usize = 24;

/// Returns the head: the tool, what its server says about it, what the model declares, and warnings.
pub fn head(question: &ApprovalRequest, edited: bool, width: usize) -> Vec<StyledLine> {
    let tool = &question.tool;
    let room = width.min(MAX_WIDTH).saturating_sub(2).max(1);
    let mut line = vec![
        marked(question.operation),
        span(" ", SpanStyle::Plain),
        span(confusables::marked_name(&tool.name), SpanStyle::Bold),
    ];
    if question.of > 1 {
        line.push(span(
            format!("  {} of {}", question.number, question.of),
            SpanStyle::Dim,
        ));
    }
    if question.effect.is_second_run {
        // The model has not asked for it.
        line.push(span(
            "  second run: aish adds outside_sandbox",
            SpanStyle::Dim,
        ));
    }
    if edited {
        line.push(span("  edited", SpanStyle::Dim));
    }
    let about = vec![span(
        statement(tool, question.operation),
        match question.operation {
            OperationClass::Destructive => SpanStyle::Alarm,
            _ => SpanStyle::Dim,
        },
    )];
    let pad = room
        .checked_sub(columns(&line) + columns(&about))
        .filter(|pad| *pad > 1);
    let mut lines = match pad {
        Some(pad) => {
            line.push(span(" ".repeat(pad), SpanStyle::Plain));
            line.extend(about);
            fold(&line, room, 2)
        }
        None => {
            let mut lines = fold(&line, room, 2);
            lines.extend(fold(&about, room, 2));
            lines
        }
    };
    for text in question.effect.statement.iter() {
        let mut line = vec![span("on: ", SpanStyle::Dim)];
        line.extend(spans(confusables::marked_pieces(text), SpanStyle::Plain));
        lines.extend(fold(&line, room, 2));
    }
    if let Some(danger) = &question.effect.danger {
        lines.extend(danger_lines(danger, room));
    }
    if let Some(warning) = &question.warning {
        let mut line = vec![span("warning: ", SpanStyle::Alarm)];
        line.extend(spans(confusables::marked_pieces(warning), SpanStyle::Alarm));
        lines.extend(fold(&line, room, 2));
    }
    if let Some(intent) = &question.intent {
        lines.push(declared(intent, room));
    }
    let changes_show_reason = question.why == CHANGED && !question.changes.is_empty();
    if !question.why.starts_with(DEFAULT_RULE) && !changes_show_reason {
        lines.extend(reason_lines(&question.why, room));
    }
    lines
}

/// Returns the line that names the possible harm, in `room` columns.
pub fn danger_lines(danger: &str, room: usize) -> Vec<StyledLine> {
    let line: StyledLine = spans(confusables::marked_pieces(danger), SpanStyle::Alarm).collect();
    fold(&line, room, 2)
}

/// Returns why a question is asked, in `room` columns.
pub fn reason_lines(why: &str, room: usize) -> Vec<StyledLine> {
    let mut line = vec![span("asked because of: ", SpanStyle::Dim)];
    line.extend(spans(confusables::marked_pieces(why), SpanStyle::Dim));
    fold(&line, room, 2)
}

/// Returns the declared intent of the model, on one line. Its reason comes last, as it is free text.
fn declared(intent: &DeclaredIntent, room: usize) -> StyledLine {
    let mut words = word(intent.operation_type).to_string();
    if let Some(sensitivity) = &intent.data_sensitivity {
        words.push_str(&format!(" · {} data", sensitivity.as_str()));
    }
    let mut line = vec![
        span("declared ", SpanStyle::Dim),
        span(words, SpanStyle::Dim),
    ];
    if let Some(reason) = &intent.reason {
        line.push(span(" · ", SpanStyle::Dim));
        let words: Vec<&str> = reason.split_whitespace().collect();
        let quoted = format!("\"{}\"", confusables::marked_text(&words.join(" ")));
        let available = room.saturating_sub(columns(&line));
        let short = cut(&quoted, available);
        if short == quoted {
            line.push(span(quoted, SpanStyle::Plain));
        } else {
            let suffix = " [?] all";
            line.push(span(
                cut(&quoted, available.saturating_sub(suffix.len())),
                SpanStyle::Plain,
            ));
            line.push(span(suffix, SpanStyle::Dim));
        }
    }
    line
}

/// Returns the differences to what the user was shown last, and what the call would send. Signs in front make them readable without colour.
pub fn changes(question: &ApprovalRequest, width: usize) -> Vec<StyledLine> {
    let difference = &question.effect.difference;
    if question.changes.is_empty() && question.preview.is_none() && difference.is_empty() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if !question.changes.is_empty() {
        let head = "the tool has changed since you last saw it; - removed, + added:";
        lines.extend(fold(&[span(head, SpanStyle::Alarm)], width, 2));
    }
    for change in &question.changes {
        let (sign, style) = match change.sign {
            '+' => ("+ ", SpanStyle::Added),
            '-' => ("- ", SpanStyle::Gone),
            _ => ("  ", SpanStyle::Dim),
        };
        // Leading spaces come from our own layout of the schema and hide nothing.
        let text = change.text.trim_start_matches(' ');
        let indent = change.text.len() - text.len();
        let mut line = vec![span(
            format!("{sign}{:1$}", "", indent.min(MAX_INDENT)),
            style,
        )];
        line.extend(spans(confusables::marked_pieces(text), style));
        lines.extend(fold(&line, width, 4));
    }
    for line in difference {
        lines.extend(fold(&difference_line(line), width, 2));
    }
    if let Some(preview) = &question.preview {
        lines.push(vec![span("what would be sent:", SpanStyle::Dim)]);
        for text in preview.lines() {
            let line: Vec<StyledSpan> =
                spans(confusables::marked_pieces(text), SpanStyle::Plain).collect();
            lines.extend(fold(&line, width, 4));
        }
    }
    if shows_arguments(question) {
        lines.push(vec![span("arguments of the call:", SpanStyle::Dim)]);
    }
    lines
}

/// Whether the arguments are shown: a difference says more than they do, and exactly what is done.
pub fn shows_arguments(question: &ApprovalRequest) -> bool {
    question.effect.difference.is_empty()
}

/// Returns the lines of a difference.
pub fn difference_lines(lines: &[ToolDiffLine]) -> Vec<StyledLine> {
    lines.iter().map(difference_line).collect()
}

/// Returns a line of the difference in a file, with everything invisible marked.
fn difference_line(line: &ToolDiffLine) -> StyledLine {
    let (sign, style) = match line.sign {
        '+' => ("+", SpanStyle::Added),
        '-' => ("-", SpanStyle::Gone),
        '@' => ("", SpanStyle::Bold),
        _ => (" ", SpanStyle::Dim),
    };
    // Usual indentation stays as it is; more could push the text out of sight, and is counted.
    let text = line.text.trim_start_matches(' ');
    let indent = line.text.len() - text.len();
    let (indent, text) = match indent <= MAX_CODE_INDENT && !text.is_empty() {
        true => (indent, text),
        false => (0, line.text.as_str()),
    };
    let mut shown = vec![span(format!("{sign}{:indent$}", ""), style)];
    shown.extend(spans(confusables::marked_pieces(text), style));
    shown
}

/// Returns the rule or reason for the question; for the default rule, also why it applies.
fn asked_because_of(reason: &str) -> String {
    match reason {
        DEFAULT_RULE => "no rule decides, and the default is to ask".to_owned(),
        reason => reason.to_string(),
    }
}

/// Returns the effect of each key, then what is known about the call and its tool, and the server's other tools that are new.
pub fn details(
    question: &ApprovalRequest,
    new_tools: Option<&NewTools>,
    width: usize,
) -> Vec<StyledLine> {
    let tool = &question.tool;
    let mut lines = Vec::new();
    let mut put = |name: &str, text: &str| {
        for (n, part) in prose(text).into_iter().enumerate() {
            let name = if n == 0 { name } else { "" };
            let mut line: Vec<StyledSpan> =
                vec![span(format!("{name:<NAME_WIDTH$}"), SpanStyle::Name)];
            line.extend(part);
            lines.extend(fold(&line, width, NAME_WIDTH));
        }
    };
    for (key, does) in approval_keys::explained(question) {
        put(key, &does);
    }
    put("operation", word(question.operation));
    if let Some(intent) = &question.intent {
        put("declared", word(intent.operation_type));
        if let Some(sensitivity) = intent.data_sensitivity {
            put("data", sensitivity.as_str());
        }
        if let Some(reason) = &intent.reason {
            put("reason", reason);
        }
    }
    if let Some(warning) = &question.warning {
        put("warning", warning);
    }
    put("because", &asked_because_of(&question.why));
    let is_builtin = tool.server == BUILTIN_SERVER;
    match is_builtin {
        true => put("server", "built in"),
        false => put("server", &format!("{} at {}", tool.server, question.target)),
    }
    if let Some(title) = &tool.title {
        put("title", title);
    }
    let words = tool.annotation_words().into_iter();
    for (name, word) in words.filter(|(_, word)| !is_builtin && *word != NOT_DECLARED) {
        put(name, word);
    }
    if !tool.description.is_empty() {
        put("description", &tool.description);
    }
    // aish itself has made and checked the arguments of its own tools.
    if !is_builtin {
        lines.push(vec![span("schema", SpanStyle::Name)]);
        lines.extend(argument_lines::json(&tool.schema.to_string(), width));
    }
    if let Some(new_tools) = new_tools.filter(|new| new.server == tool.server) {
        let others = new_tools_view::details(new_tools, &tool.name, width);
        if !others.is_empty() {
            lines.push(vec![span("other new tools", SpanStyle::Name)]);
            lines.extend(others);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_difference_shows_what_is_invisible() {
        let shown = |sign: char, text: &str| -> String {
            let line = ToolDiffLine {
                sign,
                text: text.to_owned(),
            };
            let line = difference_line(&line);
            line.iter().map(|span| span.text.as_str()).collect()
        };
        assert_eq!(shown('+', "    return a"), "+    return a");
        assert_eq!(shown('-', "\u{202e}x\u{200b}"), "-‹\\u{202e}›x‹\\u{200b}›");
        assert_eq!(shown('+', "    "), "+‹4 spaces›");
        let far = format!("{}x", " ".repeat(61));
        assert_eq!(shown(' ', &far), " ‹61 spaces›x");
        // The note of a difference is not counted with the spaces that it is about.
        let note = "one  ⏎ [ends with space space]";
        assert_eq!(shown('+', note), format!("+{note}"));
        assert_eq!(shown('@', "a.py"), "a.py");
    }
}
