//! The MCP servers of the configuration: is their program there, do they answer, has the shell their tokens?

use std::collections::BTreeMap;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::Check;
use crate::config::mcp::{Auth, Server, Transport, variable};
use crate::config::{self, Config, Overrides, key};
use crate::error::Result;
use crate::paths::{self, Paths};
use crate::protocol::Status;
use crate::protocol::tools::{ServerInfo, ServerStatus};

/// How long a server may take to let itself be connected to.
const PATIENCE: Duration = Duration::from_secs(3);

/// A check for each server, and one for the secrets that the file holds. Nothing where there are none.
pub(super) fn servers(paths: &Paths, answer: &Result<Option<Status>>) -> Vec<Check> {
    // What is wrong with the file is said by the check of the configuration.
    let Ok(config) = config::load(paths, &Overrides::default()) else {
        return Vec::new();
    };
    let known: &[ServerInfo] = match answer {
        Ok(Some(status)) => &status.servers,
        _ => &[],
    };
    let variables = key::variables();
    let servers: Vec<&Server> = config.mcp.servers.values().collect();
    // At once: each that hangs would add its time to the doctor's.
    let deadline = Instant::now() + PATIENCE;
    let reached: Vec<_> = servers.iter().map(|s| reach(s)).collect();
    let mut checks: Vec<Check> = servers
        .iter()
        .zip(reached)
        .map(|(server, reached)| {
            let said = known.iter().find(|i| i.alias == server.alias);
            let left = || deadline.saturating_duration_since(Instant::now());
            judge(server, said, &variables, || {
                reached.recv_timeout(left()).ok()
            })
        })
        .collect();
    checks.extend(secrets(&config));
    checks
}

/// What is wrong with a server; `reached` waits for what became of a try to connect to its address.
fn judge(
    server: &Server,
    said: Option<&ServerInfo>,
    variables: &BTreeMap<String, String>,
    reached: impl FnOnce() -> Option<std::result::Result<(), String>>,
) -> Check {
    let alias = &server.alias;
    if server.disabled {
        return Check::ok("mcp", format!("{alias} is turned off"));
    }
    let unset = server
        .variables()
        .into_iter()
        .find(|n| !variables.contains_key(n));
    let running = said.is_some_and(|i| i.status == ServerStatus::Ready);
    if let (Some(name), false) = (unset, running) {
        return Check::warn(
            "mcp",
            format!("the variable {name} of server {alias} is not set"),
            format!("export {name}=…, in .zshrc for every shell"),
        );
    }
    if let Some(info) = said {
        let why = info.error.as_deref().unwrap_or("it has failed");
        match info.status {
            ServerStatus::Ready => {
                if let Some(hint) = info.hints.first() {
                    let remedy = format!("correct it; its tools: llm :mcp tools {alias}");
                    return Check::warn("mcp", format!("{alias}: {hint}"), remedy);
                }
                let version = info.version.as_deref().unwrap_or("ready");
                return Check::ok("mcp", format!("{alias}: {version}, {} tools", info.tools));
            }
            ServerStatus::Login => {
                let remedy = format!("run: aish-helper mcp login {alias}");
                return Check::warn("mcp", format!("{alias} wants you to log in"), remedy);
            }
            ServerStatus::Failed => {
                let remedy = format!("correct mcp.servers.{alias}, then: llm :mcp connect {alias}");
                return Check::fail("mcp", format!("{alias}: {why}"), remedy);
            }
            ServerStatus::Idle | ServerStatus::Starting | ServerStatus::Disabled => {}
        }
    }
    match &server.transport {
        Transport::Stdio { command, .. } => match is_program(command) {
            true => Check::ok("mcp", format!("{alias}: {command} is there")),
            false => Check::fail(
                "mcp",
                format!("{alias}: there is no program {command}"),
                format!("install it, or correct mcp.servers.{alias}.command"),
            ),
        },
        Transport::Http { .. } => match reached() {
            Some(Ok(())) => Check::ok(
                "mcp",
                format!("{alias}: {} can be reached", server.target()),
            ),
            failed => {
                let why = failed.and_then(std::result::Result::err);
                let why = why.unwrap_or_else(|| "no answer".to_string());
                let remedy = format!("start it, or correct mcp.servers.{alias}.url");
                let url = server.target();
                Check::warn("mcp", format!("{alias}: cannot reach {url}: {why}"), remedy)
            }
        },
    }
}

fn is_program(command: &str) -> bool {
    if !command.contains('/') {
        return !paths::on_path(command).is_empty();
    }
    let meta = std::fs::metadata(Path::new(command));
    meta.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// What becomes of a try to connect.
type Reached = mpsc::Receiver<std::result::Result<(), String>>;

/// Tries to connect, in a thread that is not waited for: the name alone may take a minute.
fn reach(server: &Server) -> Reached {
    let (send, receive) = mpsc::channel();
    if let Transport::Http { url, .. } = &server.transport {
        let url = url.clone();
        std::thread::spawn(move || {
            // The doctor may have left.
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
    let mut why = "its name has no address".to_string();
    for address in found {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(_) => return Ok(()),
            Err(e) => why = e.to_string(),
        }
    }
    Err(why)
}

/// A token in the file is as safe as the file.
fn secrets(config: &Config) -> Option<Check> {
    let file = config.file.as_ref()?;
    let held = config.mcp.servers.values().find(|s| match &s.transport {
        Transport::Http { auth, headers, .. } => {
            matches!(auth, Auth::Token(_)) || !headers.is_empty()
        }
        Transport::Stdio { env, .. } => env.iter().any(|(_, value)| variable(value).is_none()),
    })?;
    let mode = std::fs::metadata(file).ok()?.permissions().mode();
    (mode & 0o077 != 0).then(|| {
        let shown = file.display();
        Check::warn(
            "mcp",
            format!(
                "others may read {shown}, which may hold secrets of {}",
                held.alias
            ),
            format!("run: chmod go-rwx {shown}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn config(text: &str) -> (tempfile::TempDir, Config) {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        std::fs::create_dir(&paths.config).unwrap();
        std::fs::write(paths.config.join("config.toml"), text).unwrap();
        let config = config::load(&paths, &Overrides::default()).unwrap();
        (home, config)
    }

    const TWO: &str = "[mcp.servers.a]\nurl = \"https://a.example/mcp\"\nauth_env = \"A_TOKEN\"\n\
        [mcp.servers.b]\ncommand = \"no-such-program\"\nenv = { X = \"$B_KEY\", Y = \"s3cret\" }\n";

    fn said(alias: &str, status: ServerStatus) -> ServerInfo {
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
    fn each_server_is_judged_by_what_is_known() {
        let (_home, config) = config(TWO);
        let (a, b) = (&config.mcp.servers["a"], &config.mcp.servers["b"]);
        let set: BTreeMap<String, String> = ["A_TOKEN", "B_KEY"]
            .map(|n| (n.to_string(), "s3cret".to_string()))
            .into();
        let of = |server, status: Option<ServerStatus>, set: &BTreeMap<_, _>| {
            let said = status.map(|s| said("a", s));
            let reached = || Some(Err("refused".to_string()));
            let check = judge(server, said.as_ref(), set, reached);
            assert!(!format!("{check:?}").contains("s3cret"));
            (check.state, check.message)
        };
        let none = BTreeMap::new();
        assert_eq!(of(a, Some(ServerStatus::Ready), &none).0, State::Ok);
        let slip = ServerInfo {
            hints: vec!["tools names x".into()],
            ..said("a", ServerStatus::Ready)
        };
        let check = judge(a, Some(&slip), &set, || None);
        assert_eq!(check.state, State::Warn);
        assert_eq!(check.message, "a: tools names x");
        assert_eq!(of(a, Some(ServerStatus::Login), &set).0, State::Warn);
        assert_eq!(
            of(a, Some(ServerStatus::Failed), &set),
            (State::Fail, "a: broke".into())
        );
        let (state, message) = of(a, None, &none);
        assert_eq!(state, State::Warn);
        assert_eq!(message, "the variable A_TOKEN of server a is not set");
        let (state, message) = of(a, Some(ServerStatus::Idle), &set);
        assert_eq!(state, State::Warn);
        assert_eq!(message, "a: cannot reach https://a.example/mcp: refused");
        let (state, message) = of(b, None, &set);
        assert_eq!(state, State::Fail);
        assert_eq!(message, "b: there is no program no-such-program");
        let reached = judge(a, None, &set, || Some(Ok(())));
        assert_eq!(reached.state, State::Ok);
    }

    #[test]
    fn a_file_with_secrets_is_ones_own() {
        let (_home, config) = config(TWO);
        let file = config.file.clone().unwrap();
        let mode = |mode| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&file, permissions).unwrap();
            secrets(&config).map(|c| c.state)
        };
        assert_eq!(mode(0o600), None);
        assert_eq!(mode(0o644), Some(State::Warn));
    }

    #[test]
    fn an_address_is_tried() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        assert_eq!(connect(&url), Ok(()));
        drop(listener);
        assert!(connect(&url).is_err());
        assert!(is_program("/bin/sh") && is_program("sh") && !is_program("/bin"));
    }
}
