//! `aish-helper session last`: the last answer and the full results of its tool calls.

use std::fs::OpenOptions;
use std::io::{IsTerminal, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;

use serde_json::Value;

use super::record_view::{self, DetailLevel};
use super::{print, print_json};
use crate::client::connect;
use crate::client::signals::SignalPipes;
use crate::client::terminal;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::{Request, ShellId, Transcript};
use crate::safety::text::prose;

/// Number of recent records fetched first; the whole session is fetched only if they hold no prompt.
const RECENT_RECORDS: usize = 100;

/// Returns the records after the last prompt, without summaries of the session.
///
/// # Errors
/// There is no session.
pub fn fetch_last(paths: &Paths, shell: Option<ShellId>) -> Result<Vec<Value>> {
    let fetch = |limit| -> Result<Vec<Value>> {
        let request = Request::Transcript {
            session: None,
            shell: shell.clone(),
            limit,
            brief: true,
        };
        Ok(connect::request::<Transcript>(paths, &request)?.records)
    };
    let mut records = fetch(Some(RECENT_RECORDS))?;
    if after_last_prompt(&records).is_none() {
        records = fetch(None)?;
    }
    let mut answer = after_last_prompt(&records).unwrap_or_default().to_vec();
    drop_summaries(&mut answer);
    Ok(answer)
}

/// Removes compactions, each with the answer that is its summary.
fn drop_summaries(records: &mut Vec<Value>) {
    let mut is_summary = false;
    records.retain(|record| match record["type"].as_str() {
        Some("compaction") => {
            is_summary = true;
            false
        }
        Some("assistant") => !std::mem::take(&mut is_summary),
        _ => true,
    });
}

/// Shows the records after the last prompt.
///
/// # Errors
/// There is no session.
pub fn show_last(paths: &Paths, shell: Option<ShellId>, json: bool) -> Result<()> {
    let records = fetch_last(paths, shell)?;
    if json {
        return records.iter().try_for_each(print_json);
    }
    show_text(paths, &format_answer(&records))
}

fn after_last_prompt(records: &[Value]) -> Option<&[Value]> {
    let at = records.iter().rposition(|r| r["type"] == "user")?;
    Some(&records[at + 1..])
}

fn format_answer(records: &[Value]) -> String {
    let mut out = String::new();
    for record in records {
        let text = |key: &str| record[key].as_str().unwrap_or("");
        match text("type") {
            "assistant" => {
                if !text("text").trim().is_empty() {
                    out.push_str(&format!("{}\n", prose(text("text").trim_end())));
                }
                out.push_str(&record_view::calls(record, DetailLevel::Full));
            }
            "tool" => out.push_str(&record_view::tool(record, DetailLevel::Full)),
            _ => {}
        }
    }
    if out.is_empty() {
        out.push_str("no answer yet\n");
    }
    out
}

/// Prints the text, through the user's pager if it is longer than the screen.
fn show_text(paths: &Paths, text: &str) -> Result<()> {
    let stdout = std::io::stdout();
    let (columns, rows) = terminal::size(&stdout);
    let lines: usize = text.lines().map(|l| 1 + l.len() / columns.max(1)).sum();
    if !stdout.is_terminal() || lines < rows {
        return print(text);
    }
    // While the pager runs, Ctrl-C belongs to it.
    let _signals = SignalPipes::catch()?;
    let code = run_pager(paths, text).unwrap_or(127);
    match code {
        // The shell did not find the pager.
        126 | 127 => print(text),
        _ => Ok(()),
    }
}

/// Runs the pager on an unlinked file, not on a pipe: with a pipe, a stopped pager would block this process in a
/// write that no shell can see.
fn run_pager(paths: &Paths, text: &str) -> std::io::Result<i32> {
    let path = paths.run.join(format!("last-{}", std::process::id()));
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    let child = Command::new("/bin/sh")
        .arg("-c")
        .arg(crate::config::preferences::pager())
        .stdin(file)
        .spawn()?;
    terminal::wait_for_program(&child).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_summary_is_no_part_of_the_last_answer() {
        let assistant = |text: &str| json!({ "type": "assistant", "text": text });
        let compaction = json!({ "type": "compaction", "prompts": 2 });
        let mut records = vec![assistant("answer"), compaction, assistant("summary")];
        drop_summaries(&mut records);
        assert_eq!(records, [assistant("answer")]);
    }

    #[test]
    fn the_last_answer_and_its_results_are_shown_in_full() {
        let records = [
            json!({"type": "user", "prompt": "one"}),
            json!({"type": "assistant", "text": "old"}),
            json!({"type": "user", "prompt": "two"}),
            json!({"type": "assistant", "text": "", "calls": [
                {"id": "1", "name": "fs.read", "arguments": "{\"a\":1}"}]}),
            json!({"type": "tool", "name": "fs.read", "status": "success", "duration_ms": 200, "bytes": 1204,
                "text": "one\n\x1b]0;x\x07two"}),
            json!({"type": "assistant", "text": "new\n"}),
        ];
        let records = after_last_prompt(&records).unwrap();
        assert_eq!(
            format_answer(records),
            "[calls fs.read {\"a\":1}]\n\
             ┌ fs.read · success · 200 ms · 1,204 bytes\n│ one\n│ \\x1b]0;x\\x07two\n└\nnew\n"
        );
        assert_eq!(after_last_prompt(&[json!({"type": "tool"})]), None);
        assert_eq!(format_answer(&[]), "no answer yet\n");
    }
}
