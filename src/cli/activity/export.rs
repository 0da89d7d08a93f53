//! `aish-helper activity export`: prints records as JSON Lines or CSV.

use std::io::{BufWriter, ErrorKind, Write};

use serde_json::Value;

use super::rfc3339;
use super::show::with_record;
use crate::cli::args::ExportFormat;
use crate::error::{ErrorContext, Result};
use crate::history::index::{ActivityEntry, ActivityFilter, Index};
use crate::safety::{json, text};

/// Number of actions looked up per query.
const BATCH_SIZE: usize = 500;

/// Columns of the CSV format.
const COLUMNS: [&str; 30] = [
    "id",
    "time",
    "type",
    "status",
    "decided_by",
    "reason",
    "user",
    "session",
    "shell",
    "request",
    "command",
    "prompt",
    "turn",
    "server",
    "tool",
    "variant",
    "operation",
    "intent_operation_type",
    "intent_data_sensitivity",
    "intent_reason",
    "readOnlyHint",
    "destructiveHint",
    "idempotentHint",
    "openWorldHint",
    "arguments",
    "result_bytes",
    "result_sha256",
    "duration_ms",
    "text",
    "error",
];

/// Prints the newest `limit` matching actions, oldest first.
///
/// # Errors
/// A record cannot be read, or writing to stdout failed.
pub fn run(
    index: &mut Index,
    filter: &ActivityFilter,
    limit: usize,
    format: ExportFormat,
) -> Result<()> {
    let keys = index.keys(filter, limit)?;
    let stdout = BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    let mut out = match format {
        ExportFormat::Jsonl => ExportWriter::Jsonl(stdout),
        ExportFormat::Csv => {
            let mut csv = csv::Writer::from_writer(stdout);
            match is_open(csv.write_record(COLUMNS).map_err(io_error))? {
                true => ExportWriter::Csv(Box::new(csv)),
                false => return Ok(()),
            }
        }
    };
    for batch in keys.chunks(BATCH_SIZE) {
        for entry in index.of(batch)? {
            let record = index.record(&entry)?;
            if !is_open(out.put(&entry, record)?)? {
                return Ok(());
            }
        }
    }
    is_open(out.flush()).map(|_| ())
}

enum ExportWriter<W: Write> {
    Jsonl(W),
    Csv(Box<csv::Writer<W>>),
}

impl<W: Write> ExportWriter<W> {
    fn put(&mut self, entry: &ActivityEntry, record: Value) -> Result<std::io::Result<()>> {
        Ok(match self {
            ExportWriter::Jsonl(out) => {
                let mut line = Vec::new();
                json::append_json_line(&with_record(entry, record), &mut line)
                    .context(|| format!("cannot print the record {}", entry.id))?;
                out.write_all(&line)
            }
            ExportWriter::Csv(out) => out.write_record(cells(entry, &record)).map_err(io_error),
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            ExportWriter::Jsonl(out) => out.flush(),
            ExportWriter::Csv(out) => out.flush(),
        }
    }
}

fn io_error(e: csv::Error) -> std::io::Error {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

/// Whether stdout still accepts output; a closed pipe ends the export without an error.
fn is_open(result: std::io::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e).context(|| "cannot write to stdout".into()),
    }
}

fn cells(entry: &ActivityEntry, record: &Value) -> [String; COLUMNS.len()] {
    let (ids, action) = (&record["ids"], &record["action"]);
    let kind = &entry.kind;
    let or_empty = |text: &Option<String>| text.clone().unwrap_or_default();
    // In records of commands, `command` holds the text itself, not an id.
    let content = match &*kind.kind {
        "command_approval" | "command_result" | "shell_command" => &record["command"],
        "prompt" => &record["prompt"],
        "answer" => &record["text"],
        _ => &Value::Null,
    };
    let content = match content {
        Value::Null if record["arguments"].is_null() => entry.what.clone(),
        text => plain_text(text),
    };
    COLUMNS.map(|column| {
        let text = match column {
            "id" => entry.id.clone(),
            "time" => rfc3339(entry.at_ms),
            "type" => kind.kind.clone(),
            "status" => kind.status.clone(),
            "decided_by" => or_empty(&entry.by),
            "session" => or_empty(&entry.session),
            "server" => or_empty(&kind.server),
            "tool" => or_empty(&kind.tool),
            "operation" => or_empty(&kind.operation),
            "variant" => plain_text(&action["variant"]),
            "intent_operation_type" => plain_text(&action["intent"]["operation_type"]),
            "intent_data_sensitivity" => plain_text(&action["intent"]["data_sensitivity"]),
            "intent_reason" => plain_text(&action["intent"]["reason"]),
            hint if hint.ends_with("Hint") => plain_text(&action["annotations"][hint]),
            "shell" if ids["shell"].is_null() => plain_text(&record["shell"]),
            "reason" | "arguments" | "error" => plain_text(&record[column]),
            "result_bytes" => plain_text(&record["bytes"]),
            "result_sha256" => plain_text(&record["result_sha256"]),
            "duration_ms" => entry.ms.map(|ms| ms.to_string()).unwrap_or_default(),
            "text" => content.clone(),
            link => plain_text(&ids[link]),
        };
        safe_cell(&text)
    })
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Prefixes text that a spreadsheet would run as a formula, and escapes control characters.
fn safe_cell(cell: &str) -> String {
    let cell = text::prose(cell);
    match cell.trim_start_matches(' ').chars().next() {
        Some('=' | '+' | '-' | '@' | '\t' | '\r' | '\n' | '＝' | '＋' | '－' | '＠') => {
            format!("'{cell}")
        }
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_neither_formulas_nor_terminal_commands() {
        for (cell, shown) in [
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\tx", "'\tx"),
            ("\n=x", "'\n=x"),
            ("  =x", "'  =x"),
            ("＝1", "'＝1"),
            ("a=1", "a=1"),
            ("", ""),
            ("\u{1b}[2J", "\\x1b[2J"),
            ("two\nlines", "two\nlines"),
        ] {
            assert_eq!(safe_cell(cell), shown, "{cell:?}");
        }
    }
}
