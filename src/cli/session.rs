//! `aish-helper session list|show|new`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::record_view::{self, DetailLevel};
use super::{columns, print, print_json};
use crate::client::connect;
use crate::client::text_format::{cut, short_id};
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::{Request, SessionInfo, ShellId, Transcript};
use crate::safety::text::one_line;

/// Width of the lines of a tool call if stdout is not a terminal.
const DEFAULT_COLUMNS: usize = 100;

/// Lists the sessions.
///
/// # Errors
/// The daemon cannot be reached.
pub fn list(paths: &Paths, limit: usize, json: bool) -> Result<()> {
    let sessions: Vec<SessionInfo> = connect::request(paths, &Request::Sessions { limit })?;
    if json {
        return print_json(&sessions);
    }
    if sessions.is_empty() {
        return print("no sessions yet\n");
    }
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
    let mut out = format!(
        "{:<9} {:>10} {:>8}  {}\n",
        "id", "last used", "prompts", "first prompt"
    );
    for session in sessions {
        let id = short_id(&session.id);
        let age = format!(
            "{} ago",
            duration_text(now.saturating_sub(session.updated_ms))
        );
        let title = one_line(&session.title, 60);
        let line = format!("{id:<9} {age:>10} {:>8}  {title}", session.prompts);
        out.push_str(&cut(&line, columns().unwrap_or(usize::MAX)));
        out.push('\n');
    }
    print(&out)
}

/// Formats a time span with one unit: `5 min`.
pub(super) fn duration_text(ms: u64) -> String {
    match ms / 1000 {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min", s / 60),
        s @ 3600..86_400 => format!("{} h", s / 3600),
        s => format!("{} d", s / 86_400),
    }
}

/// Shows the records of a session.
///
/// # Errors
/// There is no such session.
pub fn show(paths: &Paths, request: Request, json: bool) -> Result<()> {
    let transcript: Transcript = connect::request(paths, &request)?;
    if json {
        return transcript.records.iter().try_for_each(print_json);
    }
    let columns = columns().unwrap_or(DEFAULT_COLUMNS);
    let mut out = format!("session {}\n", transcript.session);
    for record in &transcript.records {
        let text = |key: &str| record[key].as_str().unwrap_or("");
        match text("type") {
            "user" => out.push_str(&format!("\n> {}\n", text("prompt"))),
            "assistant" => {
                let answer = text("text").trim_end();
                // An answer with only tool calls has no text.
                if !answer.is_empty() || record["calls"].is_null() {
                    out.push_str(&format!("{answer}\n"));
                }
                out.push_str(&record_view::calls(record, DetailLevel::Excerpt(columns)));
                match text("finish") {
                    "stop" => {}
                    "error" => out.push_str(&format!("[{}]\n", text("error"))),
                    "cut_off" => out.push_str("[cut off: the daemon was killed]\n"),
                    other => out.push_str(&format!("[{other}]\n")),
                }
            }
            "approval" => out.push_str(&record_view::approval(
                record,
                DetailLevel::Excerpt(columns),
            )),
            "tool" => out.push_str(&record_view::tool(record, DetailLevel::Excerpt(columns))),
            "policy" => out.push_str(&record_view::policy(record)),
            "server" => out.push_str(&record_view::server(record)),
            "command_approval" => {
                out.push_str(&format!("[{}] $ {}\n", text("choice"), text("command")))
            }
            "command_result" => {
                out.push_str(&format!(
                    "[exit {}] $ {}\n",
                    record["exit"],
                    text("command")
                ));
                for part in ["head", "tail"] {
                    let part = record["output"][part].as_str().unwrap_or("").trim_end();
                    if !part.is_empty() {
                        out.push_str(&format!("{part}\n"));
                    }
                }
            }
            "model" => out.push_str(&format!("[model {}]\n", text("model"))),
            _ => {}
        }
    }
    print(&out)
}

/// Starts a new session in a shell.
///
/// # Errors
/// The session cannot be recorded.
pub fn new(paths: &Paths, shell: ShellId, json: bool) -> Result<()> {
    let session: SessionInfo = connect::request(paths, &Request::NewSession { shell })?;
    if json {
        return print_json(&session);
    }
    print(&format!("new session {}\n", short_id(&session.id)))
}
