//! `aish-helper activity show`: one action in full, with the chain of actions that it belongs to.

use serde_json::{Value, json};

use super::stats::class_word;
use super::{action_table, entry_json, rfc3339};
use crate::cli::{print_json, write};
use crate::client::text_format::{grouped, short_id, time};
use crate::error::Result;
use crate::history::index::{ActivityEntry, Index};
use crate::safety::confusables;
use crate::safety::text::{one_line, prose};

/// Maximum number of characters shown of a one-line value.
const MAX_VALUE: usize = 1000;
/// Column at which values start.
const VALUE_COLUMN: usize = 14;

/// Record fields that the page formats itself; the others are listed after them.
const FORMATTED_FIELDS: [&str; 17] = [
    "v",
    "id",
    "timestamp_ms",
    "type",
    "ids",
    "action",
    "name",
    "status",
    "decided_by",
    "reason",
    "bytes",
    "arguments_sha256",
    "result_sha256",
    "duration_ms",
    "session",
    "shell",
    "images",
];

/// Shows an action.
///
/// # Errors
/// The action is unknown, or its record cannot be read.
pub fn run(index: &mut Index, id: &str, json: bool) -> Result<()> {
    let (act, chain) = index.show(id)?;
    let record = index.record(&act)?;
    if !json {
        let outputs = outputs(index, &chain, &record)?;
        let chain = action_table(&chain, Some(&act.id));
        let record = full_record(&act, &record, &outputs);
        return write(&format!("{chain}\n{}", prose(&record)));
    }
    let mut records = Vec::new();
    for entry in &chain {
        records.push(with_record(entry, index.record(entry)?));
    }
    print_json(&json!({"act": with_record(&act, record), "chain": records}))
}

/// Returns, for each prompt of a chain that took the output of a command line, the output and its source.
fn outputs(index: &mut Index, chain: &[ActivityEntry], command: &Value) -> Result<Vec<String>> {
    let mut outputs = Vec::new();
    if command["type"] != "shell_command" {
        return Ok(outputs);
    }
    for entry in chain.iter().filter(|entry| entry.kind.kind == "prompt") {
        let prompt = index.record(entry)?;
        let output = &prompt["output"];
        let is_of_command =
            prompt["shell"] == command["shell"] && output["started_ms"] == command["start_ms"];
        if let Some(source) = output["source"].as_str().filter(|_| is_of_command) {
            outputs.push(format!(
                "{} lines from {} were sent with prompt {}",
                output["lines"],
                one_line(source, MAX_VALUE),
                short_id(&entry.id)
            ));
        }
    }
    Ok(outputs)
}

/// Formats an action with its record as JSON.
pub fn with_record(entry: &ActivityEntry, record: Value) -> Value {
    let mut value = entry_json(entry);
    value["record"] = record;
    value
}

/// Formats the record, one field per line. Longer texts follow, indented so that they cannot imitate a field.
///
/// `outputs` says which prompts took the output of a command line.
fn full_record(act: &ActivityEntry, record: &Value, outputs: &[String]) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        if !text.is_empty() {
            // A value of several lines starts on the next line.
            let column = if text.starts_with('\n') {
                0
            } else {
                VALUE_COLUMN
            };
            out.push_str(&format!("{name:<column$}{text}\n"));
        }
    };
    let value_text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => one_line(text, MAX_VALUE),
        other => one_line(&other.to_string(), MAX_VALUE),
    };
    line("id", act.id.clone());
    line("time", rfc3339(act.at_ms));
    line("type", one_line(&act.kind.kind, MAX_VALUE));
    line("status", status(act, record));
    for name in [
        "user",
        "session",
        "shell",
        "request",
        "command",
        "prompt",
        "turn",
        "agent",
        "parent_turn",
    ] {
        let field = &record[name];
        let id = &record["ids"][name];
        // In records of commands and prompts, these fields hold the text itself, not an id.
        let text = match name {
            "session" | "shell" if id.is_null() => value_text(field),
            _ => value_text(id),
        };
        line(name, text);
    }
    if !record["name"].is_null() {
        line(
            "tool",
            confusables::marked_name(record["name"].as_str().unwrap_or("")),
        );
    }
    let call = &record["action"];
    line("called with", value_text(&call["variant"]));
    line(
        "operation",
        class_word(&value_text(&call["operation"])).to_owned(),
    );
    line("intent", intent(&call["intent"]));
    line("annotations", annotations(call));
    let reason = value_text(&record["reason"]);
    line(
        "decided",
        match (act.by.as_deref(), reason.as_str()) {
            (Some(by), "") => format!("by {by}"),
            (Some(by), reason) => format!("by {by}: {reason}"),
            (None, reason) => reason.to_string(),
        },
    );
    // A call that was not made has no result.
    let completed = matches!(&*act.kind.status, "success" | "error");
    if let Some(bytes) = record["bytes"].as_u64().filter(|_| completed) {
        line("result", format!("{} bytes", grouped(bytes)));
    }
    for name in ["arguments_sha256", "result_sha256"] {
        line("sha256", value_text(&record[name]));
    }
    line("duration", act.ms.map(time).unwrap_or_default());
    if let Some(images) = record["images"].as_array().filter(|i| !i.is_empty()) {
        line("images", images.len().to_string());
    }
    for output in outputs {
        line("output", output.clone());
    }
    for (name, value) in record.as_object().into_iter().flatten() {
        if !FORMATTED_FIELDS.contains(&name.as_str()) {
            line(&one_line(name, VALUE_COLUMN), other_field(name, value));
        }
    }
    out
}

fn status(act: &ActivityEntry, record: &Value) -> String {
    let recorded_status = record["status"].as_str().unwrap_or(&act.kind.status);
    match recorded_status == act.kind.status {
        true => one_line(recorded_status, MAX_VALUE),
        false => format!(
            "{} ({})",
            act.kind.status,
            one_line(recorded_status, MAX_VALUE)
        ),
    }
}

fn intent(intent: &Value) -> String {
    let text = |key: &str| intent[key].as_str().map(|t| one_line(t, MAX_VALUE));
    let words = [text("operation_type"), text("data_sensitivity")];
    let words: Vec<String> = words.into_iter().flatten().collect();
    match text("reason") {
        Some(reason) => format!("{}: {reason}", words.join(", ")),
        None => words.join(", "),
    }
}

fn annotations(call: &Value) -> String {
    if call.is_null() {
        return String::new();
    }
    let annotations = call["annotations"].as_object().into_iter().flatten();
    let annotations: Vec<String> = annotations
        .map(|(name, value)| one_line(&format!("{name} {value}"), MAX_VALUE))
        .collect();
    match annotations.is_empty() {
        true => "none".into(),
        false => annotations.join(", "),
    }
}

/// Formats a field that has no special format.
fn other_field(name: &str, value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => match name {
            // Usually JSON, which is easier to read with one line per key.
            "arguments" => serde_json::from_str(text)
                .ok()
                .filter(|v: &Value| v.is_object())
                .and_then(|v| serde_json::to_string_pretty(&v).ok())
                .unwrap_or_else(|| text.clone()),
            _ => text.clone(),
        },
        Value::Array(list) if list.is_empty() => return String::new(),
        Value::Array(_) | Value::Object(_) => {
            serde_json::to_string_pretty(value).unwrap_or_default()
        }
        other => other.to_string(),
    };
    let escape = |line: &str| match name {
        "arguments" | "command" | "proposed" | "calls" => confusables::marked_text(line),
        _ => prose(line),
    };
    let lines: Vec<&str> = text.trim_end().lines().collect();
    match lines[..] {
        [] => String::new(),
        [one] => escape(one),
        _ => lines.iter().map(|l| format!("\n  {}", escape(l))).collect(),
    }
}
