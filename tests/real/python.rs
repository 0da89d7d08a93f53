//! Servers that run under Python.

use std::path::Path;
use std::process::Command;

use aish::config::mcp::{HandshakeMode, ServerSettings};
use aish::mcp::{ConnectionStatus, ElicitationResponse};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Process, Servers, json_of, nothing, python, stdio};

fn module(alias: &str, name: &str, args: &[&Path]) -> ServerSettings {
    let mut all = vec![Path::new("-m"), Path::new(name)];
    all.extend(args);
    stdio(alias, &python(), &all)
}

fn board(token: Option<&str>) -> (Process, ServerSettings) {
    let mut command = Command::new(python());
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/real/board.py"));
    command.args(token);
    let process = Process::with_own_port(command);
    let server = ServerSettings::with_url("board", &process.url);
    (process, server)
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn time_server_converts_time() {
    let args = [Path::new("--local-timezone"), Path::new("UTC")];
    let servers = Servers::with(module("time", "mcp_server_time", &args), None).await;
    let asked =
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kolkata"});
    let said = servers.call("time.convert_time", asked).await;
    let times = json_of(&said.text);
    let there = times["target"]["datetime"].as_str().expect("a time");
    assert!(there.ends_with("T17:30:00+05:30"), "{times}");
    let wrong = json!({"timezone": "Mars/Olympus"});
    let said = servers.call("time.get_current_time", wrong).await;
    assert!(said.is_error && said.text.contains("Mars"), "{said:?}");
    servers.end().await;
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn git_server_reads_and_commits() {
    let dir = tempfile::tempdir().expect("a directory");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .current_dir(dir.path());
        let output = command.args(args).output().expect("git runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    git(&["init", "--quiet"]);
    std::fs::write(dir.path().join("a"), "one\n").expect("a file");
    git(&["add", "a"]);
    git(&["commit", "--quiet", "-m", "begin with one"]);
    std::fs::write(dir.path().join("a"), "two\n").expect("a file");

    let args = [Path::new("--repository"), dir.path()];
    let servers = Servers::with(module("git", "mcp_server_git", &args), None).await;
    let path = dir.path().to_str().expect("text");
    let here = |more: serde_json::Value| {
        let mut all = json!({"repo_path": path});
        for (key, value) in more.as_object().expect("an object") {
            all[key] = value.clone();
        }
        all
    };
    let log = servers.call("git.git_log", here(nothing())).await;
    assert!(log.text.contains("begin with one"), "{log:?}");
    let diff = servers.call("git.git_diff_unstaged", here(nothing())).await;
    assert!(diff.text.contains("-one\n+two"), "{diff:?}");
    let add = servers
        .call("git.git_add", here(json!({"files": ["a"]})))
        .await;
    assert!(!add.is_error, "{add:?}");
    assert_eq!(git(&["diff", "--cached", "--name-only"]), "a\n");
    let elsewhere = json!({"repo_path": "/"});
    let said = servers.call("git.git_status", elsewhere).await;
    assert!(said.is_error, "{said:?}");
    servers.end().await;
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn fastmcp_server_requires_its_token() {
    let (_process, server) = board(Some("hunter2"));
    let servers = Servers::new();
    servers.start(server.clone(), Some("wrong")).await;
    let refused = servers.state_of("board");
    assert!(
        matches!(
            refused.status,
            ConnectionStatus::Failed | ConnectionStatus::LoginRequired
        ),
        "{refused:?}"
    );
    let said = refused.error.expect("a reason");
    assert!(said.contains("401") || said.contains("token"), "{said}");
    assert!(!said.contains("wrong"), "{said}");
    servers.start(server, Some("hunter2")).await;
    let state = servers.state_of("board");
    assert_eq!(state.status, ConnectionStatus::Ready, "{state:?}");
    assert_eq!(state.version.as_deref(), Some("board 1.2.3"));
    let said = servers.call("board.pin", json!({"note": "milk"})).await;
    assert_eq!(said.text, "1 on the board");
    servers.end().await;
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn fastmcp_server_without_sessions() {
    let (_process, server) = board(None);
    let servers = Servers::with(server, None).await;
    let protocol = servers.state_of("board").protocol;
    assert_eq!(protocol.as_deref(), Some("2026-07-28"));
    use_board(&servers).await;
    // Without a session this server cannot send elicitations, and reports that.
    let said = servers.call("board.name", nothing()).await;
    assert!(
        said.is_error && said.text.contains("elicitation"),
        "{said:?}"
    );
    servers.end().await;
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn fastmcp_server_with_a_session() {
    let (_process, mut server) = board(None);
    server.lifecycle = HandshakeMode::Legacy;
    let servers = Servers::with(server, None).await;
    let protocol = servers.state_of("board").protocol;
    assert_eq!(protocol.as_deref(), Some("2025-11-25"));
    use_board(&servers).await;
    let (said, _) = servers
        .call_with("board.name", nothing(), |asked| {
            assert_eq!(asked.message, "What is your name?");
            let schema = asked.schema.as_ref().expect("a form");
            let field = schema["properties"].as_object().expect("fields");
            let field = field.keys().next().expect("a field").clone();
            ElicitationResponse::Accept(Some(json!({ field: "Grace" })))
        })
        .await;
    assert_eq!(said.expect("a result").text, "accept: Grace");
    let (said, _) = servers
        .call_with("board.name", nothing(), |_| ElicitationResponse::Decline)
        .await;
    assert!(said.expect("a result").text.starts_with("decline"));
    servers.end().await;
}

/// Checks that hold with and without sessions.
async fn use_board(servers: &Servers) {
    for (note, said) in [("milk", "1 on the board"), ("bread", "2 on the board")] {
        let pinned = servers.call("board.pin", json!({"note": note})).await;
        assert_eq!(pinned.text, said);
    }
    assert!(servers.tool("board.look").await.annotations.reads_only());
    let numbers = servers.call("board.numbers", nothing()).await;
    assert_eq!(
        json_of(&numbers.text),
        json!({"answer": 42, "unit": null}),
        "{numbers:?}"
    );
    let torn = servers.call("board.tear", nothing()).await;
    assert!(
        torn.is_error && torn.text.contains("too strong"),
        "{torn:?}"
    );

    let (said, lines) = servers
        .call_with("board.count", json!({"to": 3}), |_| {
            ElicitationResponse::Cancel
        })
        .await;
    assert_eq!(said.expect("a result").text, "counted");
    assert!(lines.iter().any(|l| l.contains("at 2")), "{lines:?}");

    let cancel = CancellationToken::new();
    let text = servers
        .pool
        .resource("board", "board://all", 1 << 20, &cancel)
        .await;
    assert_eq!(text.expect("a text"), "milk\nbread");
    let arguments = [("what".to_owned(), "rain".to_owned())];
    let text = servers
        .pool
        .prompt("board", "praise", &arguments, &cancel)
        .await;
    assert!(text.expect("a text").contains("kind about rain"));
}
