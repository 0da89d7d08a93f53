//! `aish-helper activity export`: the records as lines of JSON, or as a table for a spreadsheet.

use std::io::{BufWriter, ErrorKind, Write};

use serde_json::Value;

use super::rfc3339;
use super::show::with_record;
use crate::cli::args::Format;
use crate::error::{Context, Result};
use crate::history::index::{Entry, Filter, Index};
use crate::safety::{json, text};

/// So many acts are looked up together.
const PART: usize = 500;

/// The columns of the table.
const COLUMNS: [&str; 30] = [
    "id",
    "time",
    "type",
    "status",
    "by",
    "why",
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
    "ms",
    "text",
    "error",
];

/// Prints the newest acts of a filter, at most so many, oldest first.
///
/// # Errors
/// A record cannot be read, or stdout not be written.
pub fn run(index: &mut Index, filter: &Filter, limit: usize, format: Format) -> Result<()> {
    let keys = index.keys(filter, limit)?;
    let stdout = BufWriter::with_capacity(64 << 10, std::io::stdout().lock());
    let mut out = match format {
        Format::Jsonl => Out::Jsonl(stdout),
        Format::Csv => {
            let mut csv = csv::Writer::from_writer(stdout);
            match written(csv.write_record(COLUMNS).map_err(io))? {
                true => Out::Csv(Box::new(csv)),
                false => return Ok(()),
            }
        }
    };
    for part in keys.chunks(PART) {
        for entry in index.of(part)? {
            let record = index.record(&entry)?;
            if !written(out.put(&entry, record)?)? {
                return Ok(());
            }
        }
    }
    written(out.flush()).map(|_| ())
}

enum Out<W: Write> {
    Jsonl(W),
    Csv(Box<csv::Writer<W>>),
}

impl<W: Write> Out<W> {
    fn put(&mut self, entry: &Entry, record: Value) -> Result<std::io::Result<()>> {
        Ok(match self {
            Out::Jsonl(out) => {
                let mut line = Vec::new();
                json::line(&with_record(entry, record), &mut line)
                    .context(|| format!("cannot print the record {}", entry.id))?;
                out.write_all(&line)
            }
            Out::Csv(out) => out.write_record(cells(entry, &record)).map_err(io),
        })
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Out::Jsonl(out) => out.flush(),
            Out::Csv(out) => out.flush(),
        }
    }
}

fn io(e: csv::Error) -> std::io::Error {
    match e.into_kind() {
        csv::ErrorKind::Io(e) => e,
        other => std::io::Error::other(format!("{other:?}")),
    }
}

/// Whether it could be written; who reads no more wants no more.
fn written(result: std::io::Result<()>) -> Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(e).context(|| "cannot write to stdout".into()),
    }
}

fn cells(entry: &Entry, record: &Value) -> [String; COLUMNS.len()] {
    let (links, act) = (&record["links"], &record["act"]);
    let kind = &entry.kind;
    let own = |word: &Option<String>| word.clone().unwrap_or_default();
    // Of a command, what `command` says is the thing itself.
    let said = match &*kind.kind {
        "decision" | "exec" | "command" => &record["command"],
        "prompt" | "answer" => &record["text"],
        _ => &Value::Null,
    };
    let said = match said {
        Value::Null if record["arguments"].is_null() => entry.what.clone(),
        said => word(said),
    };
    COLUMNS.map(|column| {
        let text = match column {
            "id" => entry.id.clone(),
            "time" => rfc3339(entry.at_ms),
            "type" => kind.kind.clone(),
            "status" => kind.status.clone(),
            "by" => own(&entry.by),
            "session" => own(&entry.session),
            "server" => own(&kind.server),
            "tool" => own(&kind.tool),
            "operation" => own(&kind.operation),
            "variant" => word(&act["variant"]),
            "intent_operation_type" => word(&act["intent"]["operation_type"]),
            "intent_data_sensitivity" => word(&act["intent"]["data_sensitivity"]),
            "intent_reason" => word(&act["intent"]["reason"]),
            hint if hint.ends_with("Hint") => word(&act["annotations"][hint]),
            "shell" if links["shell"].is_null() => word(&record["shell"]),
            "why" | "arguments" | "error" => word(&record[column]),
            "result_bytes" => word(&record["bytes"]),
            "result_sha256" if kind.kind == "tool" => word(&record["digest"]),
            "result_sha256" => String::new(),
            "ms" => entry.ms.map(|ms| ms.to_string()).unwrap_or_default(),
            "text" => said.clone(),
            link => word(&links[link]),
        };
        harmless(&text)
    })
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// What a spreadsheet would take for a formula, and run, is text; and what a terminal would obey is shown.
fn harmless(cell: &str) -> String {
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
    fn a_cell_is_no_formula_and_commands_no_terminal() {
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
            assert_eq!(harmless(cell), shown, "{cell:?}");
        }
    }
}
