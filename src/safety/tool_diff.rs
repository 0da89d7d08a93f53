//! Whether a tool is still what a person was shown, and how it differs. Pure.

use std::borrow::Cow;
use std::time::Instant;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use super::redact::Redactor;
use crate::chat::{ToolAnnotations, ToolDefinition};

/// Lines around those that differ.
const CONTEXT: usize = 3;

/// The most lines of a difference: a server could send a book.
const LINES: usize = 400;

/// What a person is shown of a tool, without secrets: it is kept, and a server may put one into its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownTool {
    /// What it does, in the server's words.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub schema: String,
    /// What the server says about it.
    pub annotations: ToolAnnotations,
}

impl ShownTool {
    /// As a tool is now.
    pub fn of(tool: &ToolDefinition, redactor: &Redactor) -> ShownTool {
        ShownTool {
            description: redactor.redact(&tool.description).into_owned(),
            schema: redactor.redact_json(&tool.schema).into_owned(),
            annotations: tool.annotations,
        }
    }
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// `+`, `-` or a space.
    pub sign: char,
    /// The line.
    pub text: String,
}

/// The annotations in force: what the server says now and, where it says nothing, what it said before. One that forgets
/// to say that a tool destroys has not taken it back.
pub fn in_force(before: ToolAnnotations, now: ToolAnnotations) -> ToolAnnotations {
    ToolAnnotations {
        read_only: now.read_only.or(before.read_only),
        destructive: now.destructive.or(before.destructive),
        idempotent: now.idempotent.or(before.idempotent),
        open_world: now.open_world.or(before.open_world),
    }
}

/// Whether a tool is another than the person was shown. What its server says no more is still in force, and no change.
pub fn is_changed(before: &ShownTool, tool: &ToolDefinition, redactor: &Redactor) -> bool {
    in_force(before.annotations, tool.annotations) != before.annotations
        || is_another(&before.description, &tool.description, |text| {
            redactor.redact(text)
        })
        || is_another(&before.schema, &tool.schema, |text| redactor.redact_json(text))
            // Some servers list the keys in another order with each start.
            && !same_json(&before.schema, &tool.schema, redactor)
}

/// Whether two texts differ in more than their secrets. What was kept before a secret was known still has it.
fn is_another(before: &str, now: &str, clean: impl Fn(&str) -> Cow<'_, str>) -> bool {
    before != now && clean(before) != clean(now)
}

fn same_json(before: &str, now: &str, redactor: &Redactor) -> bool {
    let value = |text| json(&redactor.redact_json(text));
    value(before).is_some_and(|before| Some(before) == value(now))
}

/// How a tool differs from what the person was shown, with the lines around. After `deadline` the difference that is found
/// is right, but not the shortest.
pub fn difference(
    before: &ShownTool,
    tool: &ToolDefinition,
    redactor: &Redactor,
    deadline: Option<Instant>,
) -> Vec<DiffLine> {
    let now = ShownTool {
        annotations: in_force(before.annotations, tool.annotations),
        ..ShownTool::of(tool, redactor)
    };
    let mut lines = Vec::new();
    // Each by itself: what stands around is of the same part.
    for (before, now) in rendered(before).iter().zip(&rendered(&now)) {
        let (before, now): (Vec<&str>, Vec<&str>) = (
            before.iter().map(String::as_str).collect(),
            now.iter().map(String::as_str).collect(),
        );
        let mut diff = TextDiff::configure();
        if let Some(deadline) = deadline {
            diff.deadline(deadline);
        }
        let diff = diff.diff_slices(&before, &now);
        for group in diff.grouped_ops(CONTEXT) {
            if !lines.is_empty() {
                lines.push(DiffLine {
                    sign: ' ',
                    text: "…".to_owned(),
                });
            }
            lines.extend(group.iter().flat_map(|op| diff.iter_changes(op)).map(|c| {
                let sign = match c.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                let text = c.value().to_owned();
                DiffLine { sign, text }
            }));
        }
    }
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.truncate(LINES);
        lines.push(DiffLine {
            sign: ' ',
            text: format!("… {more} more lines"),
        });
    }
    lines
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// A tool for people, line by line: its description, its schema, what is said about it.
fn rendered(seen: &ShownTool) -> [Vec<String>; 3] {
    let description = seen.description.lines().map(str::to_owned).collect();
    let schema = json(&seen.schema).map(|mut schema| {
        schema.sort_all_objects();
        format!("{schema:#}")
    });
    let schema = schema.as_deref().unwrap_or(&seen.schema);
    let schema = schema.lines().map(str::to_owned).collect();
    let says = seen.annotations;
    let hints = [
        ("only reads", says.read_only),
        ("may destroy", says.destructive),
        ("safe to repeat", says.idempotent),
        ("reaches outside", says.open_world),
    ];
    let said = hints.into_iter().filter_map(|(hint, says)| {
        let word = if says? { "yes" } else { "no" };
        Some(format!("{hint}: {word}"))
    });
    [description, schema, said.collect()]
}

#[cfg(test)]
mod tests;
