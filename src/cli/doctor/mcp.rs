//! Checks of the configured MCP servers: program, reachability, variables of their tokens.

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::CheckResult;
use crate::cli::table::count;
use crate::config::mcp::{ServerSettings, ServerTransport, TokenSource, variable_reference};
use crate::config::{self, Config, ConfigOverrides, key};
use crate::error::Result;
use crate::paths::Paths;
use crate::protocol::DaemonStatus;
use crate::protocol::tools::{ServerInfo, ServerStatus};

/// Maximum time to connect to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Checks each server, and the permissions of a configuration that holds secrets.
pub(super) fn check_servers(
    paths: &Paths,
    status: &Result<Option<DaemonStatus>>,
) -> Vec<CheckResult> {
    // The check of the configuration reports a file that cannot be read.
    // Nothing is connected that waits for a confirmation.
    let Ok(config) = config::load_confirmed(paths, &ConfigOverrides::default()) else {
        return Vec::new();
    };
    let known: &[ServerInfo] = match status {
        Ok(Some(status)) => &status.servers,
        _ => &[],
    };
    let variables = key::process_variables();
    let servers: Vec<&ServerSettings> = config.mcp.servers.values().collect();
    // In parallel, so that several unreachable servers share one timeout.
    let deadline = Instant::now() + CONNECT_TIMEOUT;
    let attempts: Vec<_> = servers.iter().map(|s| start_connecting(s)).collect();
    let mut checks: Vec<CheckResult> = servers
        .iter()
        .zip(attempts)
        .map(|(server, attempt)| {
            let info = known.iter().find(|i| i.alias == server.alias);
            let remaining = || deadline.saturating_duration_since(Instant::now());
            check_server(server, info, &variables, || {
                attempt.recv_timeout(remaining()).ok()
            })
        })
        .collect();
    checks.extend(check_file_mode(&config));
    checks
}

/// Checks one server; `connection` waits for the result of connecting to its address.
fn check_server(
    server: &ServerSettings,
    info: Option<&ServerInfo>,
    variables: &BTreeMap<String, String>,
    connection: impl FnOnce() -> Option<std::result::Result<(), String>>,
) -> CheckResult {
    let alias = &server.alias;
    if server.disabled {
        return CheckResult::ok("mcp", format!("{alias} is disabled"));
    }
    let unset = server
        .variables()
        .into_iter()
        .find(|n| !variables.contains_key(n));
    let running = info.is_some_and(|i| i.status == ServerStatus::Ready);
    if let (Some(name), false) = (unset, running) {
        return CheckResult::warn(
            "mcp",
            format!("the variable {name} of server {alias} is not set"),
            format!("export {name}=…, in .zshrc for every shell"),
        );
    }
    if let Some(info) = info {
        let error = info.error.as_deref().unwrap_or("it has failed");
        match info.status {
            ServerStatus::Ready => {
                if let Some(hint) = info.hints.first() {
                    let remedy = format!(
                        "correct the configuration; list its tools with: llm :mcp tools {alias}"
                    );
                    return CheckResult::warn("mcp", format!("{alias}: {hint}"), remedy);
                }
                let version = info.version.as_deref().unwrap_or("ready");
                return CheckResult::ok(
                    "mcp",
                    format!("{alias}: {version}, {}", count(info.tools, "tool")),
                );
            }
            ServerStatus::Login => {
                let remedy = format!("run: aish-helper mcp login {alias}");
                return CheckResult::warn("mcp", format!("{alias} needs a login"), remedy);
            }
            ServerStatus::Failed => {
                let remedy = format!("correct mcp.servers.{alias}, then: llm :mcp connect {alias}");
                return CheckResult::fail("mcp", format!("{alias}: {error}"), remedy);
            }
            ServerStatus::Idle | ServerStatus::Starting | ServerStatus::Disabled => {}
        }
    }
    match &server.transport {
        ServerTransport::Stdio { command, .. } => match config::is_program(command) {
            true => CheckResult::ok("mcp", format!("{alias}: found the program {command}")),
            false => CheckResult::fail(
                "mcp",
                format!("{alias}: the program {command} was not found"),
                format!("install the program, or correct mcp.servers.{alias}.command"),
            ),
        },
        ServerTransport::Http { .. } => match connection() {
            Some(Ok(())) => {
                CheckResult::ok("mcp", format!("{alias}: {} is reachable", server.target()))
            }
            failed => {
                let reason = failed.and_then(std::result::Result::err);
                let reason = reason.unwrap_or_else(|| "no answer".to_string());
                let remedy = format!("start the server, or correct mcp.servers.{alias}.url");
                let url = server.target();
                CheckResult::warn(
                    "mcp",
                    format!("{alias}: cannot reach {url}: {reason}"),
                    remedy,
                )
            }
        },
    }
}

/// Receives the result of a connection attempt.
type ConnectAttempt = mpsc::Receiver<std::result::Result<(), String>>;

/// Connects in a detached thread, because the name lookup alone may take a minute.
fn start_connecting(server: &ServerSettings) -> ConnectAttempt {
    let (send, receive) = mpsc::channel();
    if let ServerTransport::Http { url, .. } = &server.transport {
        let url = url.clone();
        std::thread::spawn(move || {
            // The doctor may have stopped waiting.
            let _ = send.send(connect(&url));
        });
    }
    receive
}

fn connect(url: &str) -> std::result::Result<(), String> {
    let url = reqwest::Url::parse(url).map_err(|e| e.to_string())?;
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_matches(['[', ']']);
    let port = url.port_or_known_default().unwrap_or(443);
    let found = (host, port).to_socket_addrs().map_err(|e| e.to_string())?;
    let mut reason = "its name has no address".to_string();
    for address in found {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(e) => reason = e.to_string(),
        }
    }
    Err(reason)
}

/// Warns if others can read a configuration that holds secrets of a server.
fn check_file_mode(config: &Config) -> Option<CheckResult> {
    let file = config.file.as_ref()?;
    let secret_holder = config.mcp.servers.values().find(|s| match &s.transport {
        ServerTransport::Http { auth, headers, .. } => {
            matches!(auth, TokenSource::Token(_)) || !headers.is_empty()
        }
        ServerTransport::Stdio { env, .. } => env
            .iter()
            .any(|(_, value)| variable_reference(value).is_none()),
    })?;
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| {
        let shown = file.display();
        CheckResult::warn(
            "mcp",
            format!(
                "others may read {shown}, which may hold secrets of {}",
                secret_holder.alias
            ),
            format!("run: chmod go-rwx {shown}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    fn config(text: &str) -> (tempfile::TempDir, Config) {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        std::fs::create_dir(&paths.config).unwrap();
        std::fs::write(paths.config.join("config.toml"), text).unwrap();
        let config = config::load(&paths, &ConfigOverrides::default()).unwrap();
        (home, config)
    }

    const TWO_SERVERS: &str = "[mcp.servers.a]\nurl = \"https://a.example/mcp\"\nauth_env = \"A_TOKEN\"\n\
        [mcp.servers.b]\ncommand = \"no-such-program\"\nenv = { X = \"$B_KEY\", Y = \"s3cret\" }\n";

    fn server_info(alias: &str, status: ServerStatus) -> ServerInfo {
        ServerInfo {
            alias: alias.into(),
            target: String::new(),
            version: Some("v 1".into()),
            protocol: None,
            tools: 3,
            status,
            error: Some("broke".into()),
            hints: Vec::new(),
            configured: true,
        }
    }

    #[test]
    fn each_server_is_checked_with_the_known_status() {
        let (_home, config) = config(TWO_SERVERS);
        let (a, b) = (&config.mcp.servers["a"], &config.mcp.servers["b"]);
        let set: BTreeMap<String, String> = ["A_TOKEN", "B_KEY"]
            .map(|n| (n.to_string(), "s3cret".to_string()))
            .into();
        let of = |server, status: Option<ServerStatus>, set: &BTreeMap<_, _>| {
            let info = status.map(|s| server_info("a", s));
            let connection = || Some(Err("refused".to_string()));
            let check = check_server(server, info.as_ref(), set, connection);
            assert!(!format!("{check:?}").contains("s3cret"));
            (check.state, check.message)
        };
        let none = BTreeMap::new();
        assert_eq!(of(a, Some(ServerStatus::Ready), &none).0, CheckState::Ok);
        let misnamed = ServerInfo {
            hints: vec!["tools names x".into()],
            ..server_info("a", ServerStatus::Ready)
        };
        let check = check_server(a, Some(&misnamed), &set, || None);
        assert_eq!(check.state, CheckState::Warn);
        assert_eq!(check.message, "a: tools names x");
        assert_eq!(of(a, Some(ServerStatus::Login), &set).0, CheckState::Warn);
        assert_eq!(
            of(a, Some(ServerStatus::Failed), &set),
            (CheckState::Fail, "a: broke".into())
        );
        let (state, message) = of(a, None, &none);
        assert_eq!(state, CheckState::Warn);
        assert_eq!(message, "the variable A_TOKEN of server a is not set");
        let (state, message) = of(a, Some(ServerStatus::Idle), &set);
        assert_eq!(state, CheckState::Warn);
        assert_eq!(message, "a: cannot reach https://a.example/mcp: refused");
        let (state, message) = of(b, None, &set);
        assert_eq!(state, CheckState::Fail);
        assert_eq!(message, "b: the program no-such-program was not found");
        let reached = check_server(a, None, &set, || Some(Ok(())));
        assert_eq!(reached.state, CheckState::Ok);
    }

    #[test]
    fn a_readable_file_with_secrets_is_a_warning() {
        let (_home, config) = config(TWO_SERVERS);
        let file = config.file.clone().unwrap();
        let mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, permissions).unwrap();
            check_file_mode(&config).map(|c| c.state)
        };
        assert_eq!(mode(0o600), None);
        assert_eq!(mode(0o644), Some(CheckState::Warn));
    }

    #[test]
    fn an_address_is_connected_to() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        assert_eq!(connect(&url), Ok(()));
        drop(listener);
        assert!(connect(&url).is_err());
    }
}
