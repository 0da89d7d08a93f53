//! `aish-helper status`.

use super::table::count;
use super::{columns, print, print_json};
use crate::client::config_question::CONFIRM_HINT;
use crate::client::connect::{self, ExistingDaemon};
use crate::client::text_format::short_id;
use crate::client::{styled_line, terminal};
use crate::config::env_overrides;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::tools::{ServerInfo, ServerStatus};
use crate::protocol::{DaemonStatus, Request, ShellId};
use crate::recording::list;
use crate::recording::reader::Recording;

/// Shows the state of the daemon without starting one.
///
/// # Errors
/// The daemon does not respond, or the socket directory is not safe.
pub fn run(paths: &Paths, json: bool, shell: Option<ShellId>) -> Result<()> {
    let request = Request::Status {
        shell,
        overrides: env_overrides()?,
    };
    let recording = recording(paths);
    let id = recording.as_ref().map(Recording::id);
    let mut connection = match connect::existing(paths, &request)? {
        ExistingDaemon::Serves(connection) => connection,
        ExistingDaemon::Leaves(version) => {
            if json {
                let value =
                    serde_json::json!({"running": true, "leaving": true, "version": version});
                return print_json(&value);
            }
            return print(&format!(
                "the daemon (version {version}) is shutting down; it exits when its running turns end\n"
            ));
        }
        ExistingDaemon::Absent => {
            if json {
                return print_json(&serde_json::json!({"running": false, "recording": id}));
            }
            let recording = recording.map(|found| format_row("recording", &recorded(&found)));
            return print(&format!(
                "the daemon is not running; the next llm starts it, or run: aish-helper start\n{}",
                recording.unwrap_or_default()
            ));
        }
    };
    let status: DaemonStatus = connection.reply()?;
    if json {
        let mut value = serde_json::json!(status);
        value["running"] = true.into();
        value["recording"] = id.into();
        return print_json(&value);
    }
    let none = || "none".to_string();
    let servers = server_summary(&status.servers);
    let rows = [
        (
            "daemon",
            format!("running, pid {}, version {}", status.pid, status.version),
        ),
        ("uptime", uptime(status.uptime_seconds)),
        ("socket", status.socket),
        ("memory", format_bytes(status.memory_bytes)),
        (
            "config",
            match &status.config_error {
                Some(error) => format!("not usable: {error}"),
                None => status
                    .config
                    .unwrap_or_else(|| "none, using the defaults".to_string()),
            },
        ),
        (
            "model",
            match (status.model, &status.config_error) {
                (None, Some(_)) => String::new(),
                (model, _) => model.unwrap_or_else(none),
            },
        ),
        (
            "changes",
            match status.config_changes {
                0 => String::new(),
                n => format!(
                    "not in force: {} of the config; {CONFIRM_HINT}",
                    count(n, "line")
                ),
            },
        ),
        (
            "endpoint",
            [status.endpoint, status.endpoint_state]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(": "),
        ),
        ("servers", servers),
        ("http", status.http.unwrap_or_default()),
        ("sessions", status.sessions.to_string()),
        (
            "shares",
            match status.shares {
                0 => String::new(),
                n => format!("{n}; see aish-helper session shares"),
            },
        ),
        ("shells", status.shells.to_string()),
        ("turns", format!("{} running", status.turns)),
        ("journal", format_bytes(status.journal_bytes)),
        (
            "recording",
            recording.as_ref().map_or_else(String::new, recorded),
        ),
    ];
    let text: String = rows
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format_row(name, value))
        .collect();
    print(&text)
}

/// Returns the recording of this terminal, if it is recorded now.
fn recording(paths: &Paths) -> Option<Recording> {
    let tty = format!("/dev/{}", terminal::tty_name()?);
    let dir = list::of_terminal(&paths.recordings(), &tty)?;
    Recording::open(&dir).ok()
}

fn recorded(recording: &Recording) -> String {
    let full = match recording.summary() {
        Ok(summary) if summary.is_full => {
            "; it is full ([record] max_bytes), so nothing more is recorded"
        }
        _ => "",
    };
    format!(
        "this terminal is recorded: {}{full}",
        short_id(&recording.id())
    )
}

/// Formats a row; a terminal gets it wrapped at word ends.
fn format_row(name: &str, value: &str) -> String {
    let row = format!("{name:<9} {value}");
    match columns() {
        Some(width) => styled_line::wrapped(&row, width, 10),
        None => row + "\n",
    }
}

/// Summarizes the MCP servers; empty if there are none.
fn server_summary(servers: &[ServerInfo]) -> String {
    let enabled = servers
        .iter()
        .filter(|s| s.status != ServerStatus::Disabled);
    let (all, ready) = enabled.fold((0, 0), |(all, ready), s| {
        let is_ready = s.status == ServerStatus::Ready;
        (all + 1, ready + usize::from(is_ready))
    });
    if servers.is_empty() {
        return String::new();
    }
    let tools = servers.iter().map(|s| s.tools).sum();
    format!("{ready} of {all} ready, {}", count(tools, "tool"))
}

fn uptime(seconds: u64) -> String {
    let (d, h, m, s) = (
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    );
    match (d, h, m) {
        (0, 0, 0) => format!("{s} s"),
        (0, 0, _) => format!("{m} min {s} s"),
        (0, _, _) => format!("{h} h {m} min"),
        _ => format!("{d} d {h} h"),
    }
}

/// Formats a number of bytes with a unit.
pub fn format_bytes(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
