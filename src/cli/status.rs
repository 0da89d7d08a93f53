//! `aish-helper status`.

use super::mcp::count;
use super::{print, print_json};
use crate::client::connect::{self, Existing};
use crate::config::env_overrides;
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::tools::{ServerInfo, ServerStatus};
use crate::protocol::{Request, Status};

/// Shows how the daemon is; one that does not run is started by nobody for that.
///
/// # Errors
/// The daemon hangs, or the socket directory is not safe.
pub fn run(paths: &Paths, json: bool) -> Result<()> {
    let request = Request::Status {
        shell: None,
        overrides: env_overrides()?,
    };
    let mut connection = match connect::existing(paths, &request)? {
        Existing::Serves(connection) => connection,
        Existing::Leaves(version) => {
            if json {
                let value =
                    serde_json::json!({"running": true, "leaving": true, "version": version});
                return print_json(&value);
            }
            return print(&format!(
                "the daemon (version {version}) is leaving: it ends when its turns have\n"
            ));
        }
        Existing::Absent => {
            if json {
                return print_json(&serde_json::json!({"running": false}));
            }
            return print(
                "the daemon does not run; the first llm starts it, or: aish-helper start\n",
            );
        }
    };
    let status: Status = connection.reply()?;
    if json {
        let mut value = serde_json::json!(status);
        value["running"] = true.into();
        return print_json(&value);
    }
    let none = || "none".to_string();
    let servers = servers(&status.servers);
    let rows = [
        (
            "daemon",
            format!("running, pid {}, version {}", status.pid, status.version),
        ),
        ("uptime", uptime(status.uptime_seconds)),
        ("socket", status.socket),
        ("memory", size(status.memory_bytes)),
        (
            "config",
            status
                .config
                .unwrap_or_else(|| "none, defaults are used".to_string()),
        ),
        ("model", status.model.unwrap_or_else(none)),
        (
            "endpoint",
            [status.endpoint, status.endpoint_state]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(": "),
        ),
        ("servers", servers),
        ("sessions", status.sessions.to_string()),
        ("shells", status.shells.to_string()),
        ("turns", format!("{} running", status.turns)),
        ("journal", size(status.journal_bytes)),
    ];
    let text: String = rows
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("{name:<9} {value}\n"))
        .collect();
    print(&text)
}

/// The MCP servers in a few words; none where there are none.
fn servers(servers: &[ServerInfo]) -> String {
    let on = servers
        .iter()
        .filter(|s| s.status != ServerStatus::Disabled);
    let (all, ready) = on.fold((0, 0), |(all, ready), s| {
        (
            all + 1,
            ready + usize::from(s.status == ServerStatus::Ready),
        )
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

/// Bytes as people read them.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}
