//! What the question shows: what would be done, by whose word, and what is known of the tool.

use super::arguments;
use super::keys::{self, DEFAULT};
use crate::chat::Sensitivity;
use crate::client::frame::{Bit, Ink, Line, bit, bits, columns, fold};
use crate::client::news::prose;
use crate::client::operation::{ink, marked, says};
use crate::client::tools::cut;
use crate::protocol::tools::{Intent, Question, ToolInfo};
use crate::safety::alike;
use crate::safety::policy::CHANGED;

/// No wider, on a wide terminal: what belongs together is to be seen together.
const WIDEST: usize = 96;
/// The column of what is said under a name.
const NAMES: usize = 17;

/// No deeper: a line is to be seen that begins far to the right.
const INDENT: usize = 24;

/// What is to be called, what its server says about it, what the model does, and what speaks against it.
pub fn head(question: &Question, edited: bool, width: usize) -> Vec<Line> {
    let tool = &question.tool;
    let room = width.min(WIDEST).saturating_sub(2).max(1);
    let mut line = vec![
        marked(question.operation),
        bit(" ", Ink::Plain),
        bit(alike::name(&tool.name), Ink::Bold),
    ];
    if question.of > 1 {
        line.push(bit(
            format!("  {} of {}", question.number, question.of),
            Ink::Dim,
        ));
    }
    if edited {
        line.push(bit("  edited", Ink::Dim));
    }
    let about = vec![
        bit(question.operation.as_str(), ink(question.operation)),
        bit(
            format!(" · server {} {}", alike::name(&tool.server), says(tool)),
            Ink::Dim,
        ),
    ];
    let pad = room
        .checked_sub(columns(&line) + columns(&about))
        .filter(|pad| *pad > 1);
    let mut lines = match pad {
        Some(pad) => {
            line.push(bit(" ".repeat(pad), Ink::Plain));
            line.extend(about);
            fold(&line, room, 2)
        }
        None => {
            let mut lines = fold(&line, room, 2);
            lines.extend(fold(&about, room, 2));
            lines
        }
    };
    if let Some(warning) = &question.warning {
        let mut line = vec![bit("warning: ", Ink::Alarm)];
        line.extend(bits(alike::pieces(warning), Ink::Alarm));
        lines.extend(fold(&line, room, 2));
    }
    if let Some(intent) = &question.intent {
        lines.push(declared(intent, room));
    }
    let said = question.why == CHANGED && !question.changes.is_empty();
    if !question.why.starts_with(DEFAULT) && !said {
        let mut line = vec![bit("asked by ", Ink::Dim)];
        line.extend(bits(alike::pieces(&question.why), Ink::Dim));
        lines.extend(fold(&line, room, 2));
    }
    lines
}

/// What the model declares, on one line: why comes last, as it may say anything.
fn declared(intent: &Intent, room: usize) -> Line {
    let mut words = intent.operation_type.as_str().to_string();
    if let Some(sensitivity) = &intent.data_sensitivity {
        words.push_str(&format!(" · {} data", sensitivity.as_str()));
    }
    let mut line = vec![bit("declared ", Ink::Dim), bit(words, Ink::Dim)];
    if let Some(reason) = &intent.reason {
        line.push(bit(" · ", Ink::Dim));
        let words: Vec<&str> = reason.split_whitespace().collect();
        let whole = format!("\"{}\"", alike::text(&words.join(" ")));
        let left = room.saturating_sub(columns(&line));
        let short = cut(&whole, left);
        if short == whole {
            line.push(bit(whole, Ink::Plain));
        } else {
            let all = " [?] all";
            line.push(bit(cut(&whole, left.saturating_sub(all.len())), Ink::Plain));
            line.push(bit(all, Ink::Dim));
        }
    }
    line
}

/// Whether the server says that a tool only reads.
pub fn reads_only(tool: &ToolInfo) -> bool {
    tool.read_only == Some(true) && tool.destructive != Some(true)
}

/// How the tool differs from what was shown last; the signs say it without colour.
pub fn changes(question: &Question, width: usize) -> Vec<Line> {
    if question.changes.is_empty() {
        return Vec::new();
    }
    let head = "it has changed since you were shown it; - is gone, + is new:";
    let mut lines = fold(&[bit(head, Ink::Alarm)], width, 2);
    for change in &question.changes {
        let (sign, ink) = match change.sign {
            '+' => ("+ ", Ink::Added),
            '-' => ("- ", Ink::Gone),
            _ => ("  ", Ink::Dim),
        };
        // A schema is set out by us, and what stands in front of a line hides nothing.
        let text = change.text.trim_start_matches(' ');
        let indent = change.text.len() - text.len();
        let mut line = vec![bit(format!("{sign}{:1$}", "", indent.min(INDENT)), ink)];
        line.extend(bits(alike::pieces(text), ink));
        lines.extend(fold(&line, width, 4));
    }
    lines.push(vec![bit("it would be called with:", Ink::Dim)]);
    lines
}

/// What the keys do, and all that is known about the call and its tool.
pub fn details(question: &Question, width: usize) -> Vec<Line> {
    let tool = &question.tool;
    let mut lines = Vec::new();
    let mut put = |name: &str, text: &str| {
        for (n, part) in prose(text).into_iter().enumerate() {
            let name = if n == 0 { name } else { "" };
            let mut line: Vec<Bit> = vec![bit(format!("{name:<NAMES$}"), Ink::Name)];
            line.extend(part);
            lines.extend(fold(&line, width, NAMES));
        }
    };
    for (key, does) in keys::explained(question) {
        put(key, &does);
    }
    put("taken for", question.operation.as_str());
    if let Some(intent) = &question.intent {
        let sensitivity = intent.data_sensitivity.map(Sensitivity::as_str);
        put("declared", intent.operation_type.as_str());
        put("data", sensitivity.unwrap_or("not said"));
        put("reason", intent.reason.as_deref().unwrap_or("not said"));
    }
    if let Some(warning) = &question.warning {
        put("warning", warning);
    }
    put("asked by", &question.why);
    put("server", &format!("{} at {}", tool.server, question.target));
    put("title", tool.title.as_deref().unwrap_or("none"));
    for (name, word) in tool.says() {
        put(name, word);
    }
    put(
        "description",
        match tool.description.as_str() {
            "" => "none",
            text => text,
        },
    );
    lines.push(vec![bit("schema", Ink::Name)]);
    lines.extend(arguments::json(&tool.schema.to_string(), width));
    lines
}
