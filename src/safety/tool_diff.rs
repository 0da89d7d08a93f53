//! Compares a tool with the version that was shown to the user. Pure.

use std::borrow::Cow;
use std::time::Instant;

use serde_json::Value;
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{ChangeTag, DiffOp};

use super::redact::Redactor;
use crate::chat::{ToolAnnotations, ToolDefinition};

/// Unchanged lines shown around a change.
const CONTEXT: usize = 3;

/// Maximum number of lines of a difference: the text of a server is not bounded.
const LINES: usize = 400;

/// The parts of a tool that are shown to the user. Redacted: it is stored, and the text of a server may contain a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownTool {
    /// Display name, empty if the server provides none. `None` if it was not stored, which does not count as a difference.
    pub title: Option<String>,
    /// Description from the server.
    pub description: String,
    /// JSON Schema of the arguments.
    pub schema: String,
    /// JSON Schema of the result, empty if the server declares none. `None` if it was not stored, which does not count as a
    /// difference.
    pub output_schema: Option<String>,
    /// Annotations in force.
    pub annotations: ToolAnnotations,
}

impl ShownTool {
    /// Returns the shown parts of a tool as it is now.
    pub fn of(tool: &ToolDefinition, redactor: &Redactor) -> ShownTool {
        ShownTool {
            title: Some(redactor.redact(title(tool)).into_owned()),
            description: redactor.redact(&tool.description).into_owned(),
            schema: redactor.redact_json(&tool.schema).into_owned(),
            output_schema: Some(redactor.redact_json(output_schema(tool)).into_owned()),
            annotations: tool.annotations,
        }
    }
}

fn title(tool: &ToolDefinition) -> &str {
    tool.title.as_deref().unwrap_or_default()
}

fn output_schema(tool: &ToolDefinition) -> &str {
    tool.output_schema.as_deref().unwrap_or_default()
}

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// `+`, `-` or a space.
    pub sign: char,
    /// Text of the line.
    pub text: String,
}

/// Returns the annotations in force: those that the server sends now and, where it sends none, the previous ones. A server
/// that omits `destructiveHint` has not revoked it.
pub fn in_force(before: ToolAnnotations, now: ToolAnnotations) -> ToolAnnotations {
    ToolAnnotations {
        read_only: now.read_only.or(before.read_only),
        destructive: now.destructive.or(before.destructive),
        idempotent: now.idempotent.or(before.idempotent),
        open_world: now.open_world.or(before.open_world),
    }
}

/// Whether a tool differs from the version that was shown to the user. An annotation that the server no longer sends is
/// still in force, and not a change.
pub fn is_changed(before: &ShownTool, tool: &ToolDefinition, redactor: &Redactor) -> bool {
    let another_text =
        |before: &str, now: &str| is_another(before, now, |text| redactor.redact(text));
    let another_schema = |before: &str, now: &str| {
        is_another(before, now, |text| redactor.redact_json(text))
            // Some servers change the order of keys with each start.
            && !same_json(before, now, redactor)
    };
    let (before_title, before_output) = (&before.title, &before.output_schema);
    in_force(before.annotations, tool.annotations) != before.annotations
        || another_text(&before.description, &tool.description)
        || another_schema(&before.schema, &tool.schema)
        || before_title
            .as_ref()
            .is_some_and(|before| another_text(before, title(tool)))
        || before_output
            .as_ref()
            .is_some_and(|before| another_schema(before, output_schema(tool)))
}

/// Whether two texts differ after redaction. A text stored before a secret was known still contains it.
fn is_another(before: &str, now: &str, clean: impl Fn(&str) -> Cow<'_, str>) -> bool {
    // Redaction is not idempotent: the stored text is compared as it is, too.
    before != now && before != clean(now) && clean(before) != clean(now)
}

fn same_json(before: &str, now: &str, redactor: &Redactor) -> bool {
    let value = |text| json(&redactor.redact_json(text));
    value(before).is_some_and(|before| Some(before) == value(now))
}

/// Returns how a tool differs from the version that was shown to the user, with surrounding lines. After `deadline` the
/// difference is still correct, but may not be the shortest.
pub fn difference(
    before: &ShownTool,
    tool: &ToolDefinition,
    redactor: &Redactor,
    deadline: Option<Instant>,
) -> Vec<DiffLine> {
    let now = ShownTool::of(tool, redactor);
    let now = ShownTool {
        title: before.title.as_ref().and(now.title),
        output_schema: before.output_schema.as_ref().and(now.output_schema),
        annotations: in_force(before.annotations, tool.annotations),
        ..now
    };
    let mut lines = Vec::new();
    // Each part separately, so that surrounding lines are from the same part.
    for (before, now) in rendered(before).iter().zip(&rendered(&now)) {
        let (before, now): (Vec<&str>, Vec<&str>) = (
            before.iter().map(String::as_str).collect(),
            now.iter().map(String::as_str).collect(),
        );
        for group in changed_groups(&before, &now, deadline) {
            if !lines.is_empty() {
                lines.push(DiffLine {
                    sign: ' ',
                    text: "…".to_owned(),
                });
            }
            let changes = group.iter().flat_map(|op| op.iter_changes(&before, &now));
            lines.extend(changes.map(|change| {
                let sign = match change.tag() {
                    ChangeTag::Delete => '-',
                    ChangeTag::Insert => '+',
                    ChangeTag::Equal => ' ',
                };
                let text = change.value().to_owned();
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

/// Groups of changes with the lines around them. Calls Myers' algorithm directly: `TextDiff` selects the algorithm at run
/// time, which puts all of them into the binary (0.8 MB).
fn changed_groups(before: &[&str], now: &[&str], deadline: Option<Instant>) -> Vec<Vec<DiffOp>> {
    let mut diff = Compact::new(Replace::new(Capture::new()), before, now);
    let (all_before, all_now) = (0..before.len(), 0..now.len());
    let Ok(()) = myers::diff_deadline(&mut diff, before, all_before, now, all_now, deadline);
    diff.into_inner().into_inner().into_grouped_ops(CONTEXT)
}

fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

/// Renders a tool as lines: title, description, schemas, annotations.
fn rendered(seen: &ShownTool) -> [Vec<String>; 5] {
    let some = |text: &&String| !text.is_empty();
    let title = seen.title.iter().filter(some);
    let title = title.map(|title| format!("title: {title}")).collect();
    let description = seen.description.lines().map(str::to_owned).collect();
    let output = seen.output_schema.iter().filter(some);
    let output = output.flat_map(|schema| schema_lines("output schema: ", schema));
    let annotations = seen.annotations;
    let hints = [
        ("only reads", annotations.read_only),
        ("may destroy", annotations.destructive),
        ("safe to repeat", annotations.idempotent),
        ("reaches outside", annotations.open_world),
    ];
    let declared = hints.into_iter().filter_map(|(hint, value)| {
        let word = if value? { "yes" } else { "no" };
        Some(format!("{hint}: {word}"))
    });
    let schema = schema_lines("", &seen.schema);
    [
        title,
        description,
        schema,
        output.collect(),
        declared.collect(),
    ]
}

/// Renders a JSON Schema with sorted keys, or its text as it is if it is not JSON.
fn schema_lines(label: &str, schema: &str) -> Vec<String> {
    let pretty = json(schema).map(|mut schema| {
        schema.sort_all_objects();
        format!("{schema:#}")
    });
    let text = format!("{label}{}", pretty.as_deref().unwrap_or(schema));
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
