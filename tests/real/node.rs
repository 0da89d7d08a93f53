//! Reference servers of the protocol, which run under node.

use aish::config::mcp::ServerSettings;
use aish::mcp::{CallError, ElicitationResponse};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use tokio_util::sync::CancellationToken;

use super::{Process, Servers, json_of, node, nothing, package, stdio};

fn everything_stdio() -> ServerSettings {
    let args = [package("server-everything"), "stdio".into()];
    stdio("all", &node(), &[&args[0], &args[1]])
}

pub fn everything_http() -> (Process, ServerSettings) {
    let mut command = Command::new(node());
    command
        .arg(package("server-everything"))
        .arg("streamableHttp");
    let process = Process::with_given_port(command);
    let server = ServerSettings::with_url("all", &process.url);
    (process, server)
}

/// Filesystem server for a directory.
pub fn files(dir: &Path) -> ServerSettings {
    stdio("fs", &node(), &[&package("server-filesystem"), dir])
}

/// Checks that hold for both transports.
async fn everything(servers: &Servers) {
    let state = servers.state_of("all");
    let version = state.version.clone().expect("a version");
    assert!(version.contains("mcp-servers/everything"), "{state:?}");
    assert_eq!(state.protocol.as_deref(), Some("2025-11-25"));
    assert!(state.tools > 8, "{state:?}");
    // Offered only to clients with elicitation; registered after the handshake and announced by `list_changed`.
    servers.until_tool("all.trigger-elicitation-request").await;
    let tools = servers.tools().await;
    assert!(
        !tools.iter().any(|t| t.tool.contains("sampling")),
        "declined: {tools:?}"
    );

    let sum = servers.tool("all.get-sum").await;
    assert!(sum.annotations.reads_only());
    assert_eq!(
        json_of(&sum.schema)["required"],
        json!(["a", "b"]),
        "{}",
        sum.schema
    );
    let echo = servers
        .call("all.echo", json!({"message": "naïve \u{1b}[31m 🦀"}))
        .await;
    assert_eq!(echo.text, "Echo: naïve \u{1b}[31m 🦀");
    assert!(!echo.is_error);
    let sum = servers.call("all.get-sum", json!({"a": 2, "b": 40})).await;
    assert_eq!(sum.text, "The sum of 2 and 40 is 42.");
    let wrong = servers.call("all.get-sum", json!({"a": "two"})).await;
    assert!(wrong.is_error && wrong.text.contains('a'), "{wrong:?}");

    let image = servers.call("all.get-tiny-image", nothing()).await;
    assert_eq!(image.images.len(), 1);
    assert_eq!(image.images[0].mime, "image/png");
    assert!(image.images[0].data.starts_with("iVBOR"));
    assert!(
        image.notes.iter().any(|n| n.contains("image/png")),
        "{:?}",
        image.notes
    );
    assert!(!image.text.contains("iVBOR"), "{}", image.text);

    let links = servers
        .call("all.get-resource-links", json!({"count": 2}))
        .await;
    assert!(links.text.contains("Here are 2"), "{links:?}");
    assert!(links.text.contains("demo://resource/"), "{links:?}");
    // One note per link, and a hint how to read them.
    assert_eq!(links.notes.len(), 3, "{links:?}");
    let weather = servers
        .call("all.get-structured-content", json!({"location": "Chicago"}))
        .await;
    let told: Value = json_of(&weather.text);
    assert_eq!(told["temperature"], 36, "{weather:?}");
}

async fn progress(servers: &Servers) {
    let arguments = json!({"duration": 0.3, "steps": 3});
    let (result, lines) = servers
        .call_with("all.trigger-long-running-operation", arguments, |_| {
            ElicitationResponse::Cancel
        })
        .await;
    let said = result.expect("a result").text;
    assert!(said.contains("Steps: 3"), "{said}");
    assert!(
        lines.len() == 3 && lines[1].contains('2') && lines[1].contains('3'),
        "{lines:?}"
    );
}

async fn elicitation(servers: &Servers) {
    let name = "all.trigger-elicitation-request";
    let (result, _) = servers
        .call_with(name, nothing(), |asked| {
            assert_eq!(asked.server, "all");
            assert!(asked.message.contains("inputs"), "{asked:?}");
            let schema = asked.schema.as_ref().expect("a form");
            assert_eq!(schema["required"], json!(["name"]), "{schema}");
            ElicitationResponse::Accept(Some(json!({"name": "Ada", "check": true})))
        })
        .await;
    let said = result.expect("a result").text;
    assert!(
        said.contains("Ada") && said.contains("provided the requested information"),
        "{said}"
    );
    for (answer, word) in [
        (ElicitationResponse::Decline, "declined"),
        (ElicitationResponse::Cancel, "cancelled"),
    ] {
        let (result, _) = servers.call_with(name, nothing(), |_| answer.clone()).await;
        let said = result.expect("a result").text;
        assert!(said.contains(word), "{said}");
    }
}

async fn resources_and_prompts(servers: &Servers) {
    let cancel = CancellationToken::new();
    let pool = &servers.pool;
    let resources = pool.resources(Some("all"), &cancel).await.expect("a list");
    let document = resources.iter().find(|r| r.uri.contains("document"));
    let document = document.unwrap_or_else(|| panic!("{resources:?}"));
    let text = pool
        .resource("all", &document.uri, 1 << 20, &cancel)
        .await
        .expect("a text");
    assert!(text.len() > 100, "{text}");
    let template = resources.iter().find(|r| r.template).expect("a template");
    let uri = template
        .uri
        .replace("{resourceId}", "1")
        .replace("/blob/", "/text/");
    let text = pool.resource("all", &uri, 1 << 20, &cancel).await;
    assert!(text.expect("a text").contains("Resource 1"));
    pool.resource("all", "demo://nothing/here", 1 << 20, &cancel)
        .await
        .expect_err("there is no such thing");

    let prompts = pool.prompts(Some("all"), &cancel).await.expect("a list");
    let with = prompts.iter().find(|p| p.name == "all.args-prompt");
    let with = with.unwrap_or_else(|| panic!("{prompts:?}"));
    assert_eq!(
        with.arguments,
        [("city".into(), true), ("state".into(), false)]
    );
    let arguments = [("city".to_owned(), "Oslo".to_owned())];
    let text = pool.prompt("all", "args-prompt", &arguments, &cancel).await;
    assert!(text.expect("a text").contains("weather in Oslo"));
    pool.prompt("all", "args-prompt", &[], &cancel)
        .await
        .expect_err("the city is missing");
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn everything_over_http() {
    let (_process, server) = everything_http();
    let servers = Servers::with(server, None).await;
    everything(&servers).await;
    progress(&servers).await;
    elicitation(&servers).await;
    resources_and_prompts(&servers).await;
    servers.end().await;
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn everything_over_stdio() {
    let servers = Servers::with(everything_stdio(), None).await;
    everything(&servers).await;
    progress(&servers).await;
    elicitation(&servers).await;
    resources_and_prompts(&servers).await;
    let said = servers.call("all.get-env", nothing()).await.text;
    let environment = json_of(&said);
    let names: Vec<_> = environment.as_object().expect("an object").keys().collect();
    assert!(
        names
            .iter()
            .all(|n| ["AISH_CHILD", "HOME", "PATH"].contains(&n.as_str())),
        "{names:?}"
    );
    servers.end().await;
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn cancelled_call_does_not_affect_the_next_one() {
    let (_process, server) = everything_http();
    for server in [server, everything_stdio()] {
        let servers = Servers::with(server, None).await;
        let name = "all.trigger-long-running-operation";
        let arguments = json!({"duration": 20, "steps": 200});
        let (result, _) = servers
            .call_until(name, arguments, |_| ElicitationResponse::Cancel, 2)
            .await;
        assert_eq!(result, Err(CallError::Interrupted));
        let echo = servers.call("all.echo", json!({"message": "still"})).await;
        assert_eq!(echo.text, "Echo: still");
        servers.end().await;
    }
}

#[tokio::test]
#[ignore = "needs real MCP servers; ./test.sh runs it with AISH_TEST_TOOLS"]
async fn files_are_accessible_only_inside_the_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().canonicalize().expect("its real path");
    let inside = root.join("inside");
    std::fs::create_dir(&inside).expect("a directory");
    std::fs::write(root.join("secret"), "not for you").expect("a file");
    let servers = Servers::with(files(&inside), None).await;
    let at = |path: &Path| path.to_str().expect("text").to_owned();

    let note = inside.join("note.txt");
    let write = servers.tool("fs.write_file").await;
    assert_eq!(write.annotations.read_only, Some(false), "{write:?}");
    let wrote = json!({"path": at(&note), "content": "first\nsecond\n"});
    let said = servers.call("fs.write_file", wrote).await;
    assert!(!said.is_error, "{said:?}");
    assert_eq!(
        std::fs::read_to_string(&note).expect("it is there"),
        "first\nsecond\n"
    );
    let read = servers
        .call("fs.read_text_file", json!({"path": at(&note)}))
        .await;
    assert_eq!(read.text, "first\nsecond\n");

    let outside = json!({"path": at(&root.join("secret"))});
    let said = servers.call("fs.read_text_file", outside).await;
    assert!(said.is_error, "{said:?}");
    assert!(said.text.contains("denied"), "{said:?}");
    assert!(!said.text.contains("not for you"), "{said:?}");
    servers.end().await;
}
