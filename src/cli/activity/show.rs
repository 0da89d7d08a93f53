//! `aish-helper activity show`: one act in full, and the chain that it stands in.

use serde_json::{Value, json};

use super::{page, rfc3339, value};
use crate::cli::{print_json, write};
use crate::client::approve::arguments::grouped;
use crate::client::tools::time;
use crate::error::Result;
use crate::history::index::{Entry, Index};
use crate::safety::alike;
use crate::safety::text::{one_line, prose};

/// The most that is shown of a word.
const WORD: usize = 1000;
/// The column in which what is said of an act begins.
const COLUMN: usize = 14;

/// What the page has said of a record before it shows the rest.
const SAID: [&str; 17] = [
    "v",
    "id",
    "at_ms",
    "type",
    "links",
    "act",
    "name",
    "status",
    "by",
    "why",
    "bytes",
    "digest",
    "ms",
    "duration_ms",
    "session",
    "shell",
    "images",
];

/// Shows an act.
///
/// # Errors
/// There is no such act, or its record cannot be read.
pub fn run(index: &mut Index, id: &str, json: bool) -> Result<()> {
    let (act, chain) = index.show(id)?;
    let record = index.record(&act)?;
    if !json {
        let chain = page(&chain, Some(&act.id));
        return write(&format!("{chain}\n{}", prose(&full(&act, &record))));
    }
    let mut records = Vec::new();
    for entry in &chain {
        records.push(with_record(entry, index.record(entry)?));
    }
    print_json(&json!({"act": with_record(&act, record), "chain": records}))
}

/// An act with its record, as programs read it.
pub fn with_record(entry: &Entry, record: Value) -> Value {
    let mut value = value(entry);
    value["record"] = record;
    value
}

/// What the record says of it, a line each; texts stand below, indented, so that no line of them looks like one
/// of ours.
fn full(act: &Entry, record: &Value) -> String {
    let mut out = String::new();
    let mut line = |name: &str, text: String| {
        if !text.is_empty() {
            // Several lines begin below.
            let column = if text.starts_with('\n') { 0 } else { COLUMN };
            out.push_str(&format!("{name:<column$}{text}\n"));
        }
    };
    let word = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => one_line(text, WORD),
        other => one_line(&other.to_string(), WORD),
    };
    line("id", act.id.clone());
    line("time", rfc3339(act.at_ms));
    line("type", one_line(&act.kind.kind, WORD));
    line("status", status(act, record));
    for name in [
        "user", "session", "shell", "request", "command", "prompt", "turn",
    ] {
        let own = &record[name];
        let link = &record["links"][name];
        // Of a command and a prompt those words are the thing itself.
        let text = match name {
            "session" | "shell" if link.is_null() => word(own),
            _ => word(link),
        };
        line(name, text);
    }
    if !record["name"].is_null() {
        line("tool", alike::name(record["name"].as_str().unwrap_or("")));
    }
    let call = &record["act"];
    line("through", word(&call["variant"]));
    line("does", word(&call["operation"]));
    line("intent", intent(&call["intent"]));
    line("annotations", annotations(call));
    let why = word(&record["why"]);
    line(
        "decided",
        match (act.by.as_deref(), why.as_str()) {
            (Some(by), "") => format!("by {by}"),
            (Some(by), why) => format!("by {by}: {why}"),
            (None, why) => why.to_string(),
        },
    );
    // A call that was not made has no result.
    let made = matches!(&*act.kind.status, "success" | "error");
    if let Some(bytes) = record["bytes"].as_u64().filter(|_| made) {
        line("result", format!("{} bytes", grouped(bytes)));
    }
    line("sha256", word(&record["digest"]));
    line("took", act.ms.map(time).unwrap_or_default());
    if let Some(images) = record["images"].as_array().filter(|i| !i.is_empty()) {
        line("pictures", images.len().to_string());
    }
    for (name, value) in record.as_object().into_iter().flatten() {
        if !SAID.contains(&name.as_str()) {
            line(&one_line(name, COLUMN), rest(name, value));
        }
    }
    out
}

fn status(act: &Entry, record: &Value) -> String {
    let own = record["status"].as_str().unwrap_or(&act.kind.status);
    match own == act.kind.status {
        true => one_line(own, WORD),
        false => format!("{} ({})", act.kind.status, one_line(own, WORD)),
    }
}

fn intent(intent: &Value) -> String {
    let text = |key: &str| intent[key].as_str().map(|t| one_line(t, WORD));
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
    let said = call["annotations"].as_object().into_iter().flatten();
    let said: Vec<String> = said
        .map(|(name, word)| one_line(&format!("{name} {word}"), WORD))
        .collect();
    match said.is_empty() {
        true => "none".into(),
        false => said.join(", "),
    }
}

/// A field that has no words of its own.
fn rest(name: &str, value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => match name {
            // They are JSON mostly, and more easily read with a line for each.
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
    let look = |line: &str| match name {
        "arguments" | "command" | "proposed" | "calls" => alike::text(line),
        _ => prose(line),
    };
    let lines: Vec<&str> = text.trim_end().lines().collect();
    match lines[..] {
        [] => String::new(),
        [one] => look(one),
        _ => lines.iter().map(|l| format!("\n  {}", look(l))).collect(),
    }
}
