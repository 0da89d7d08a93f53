//! `aish-helper mcp` with a real daemon and real MCP servers.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use aish::client::connect;
use aish::paths::Paths;
use aish::protocol::{self, tools::McpRequest};
use serde_json::{Value, json};

use crate::fakes::lmcp;
use crate::fakes::mcp_http::{FakeMcpServer, McpResponse, Request};
use crate::support::PATIENCE;
use crate::support::helper::{Helper, ProgramCall};

const TOKEN: &str = "tok-31337-s3cret";

fn mcp(helper: &Helper, args: &[&str]) -> ProgramCall {
    helper.call(["mcp"].iter().chain(args))
}

fn list(helper: &Helper) -> Vec<Value> {
    let list = mcp(helper, &["list", "--json"]).run().json();
    list.as_array().unwrap().clone()
}

/// Returns the only server of the list.
fn only_server(helper: &Helper) -> Value {
    let list = list(helper);
    assert_eq!(list.len(), 1, "{list:?}");
    list[0].clone()
}

fn server_table(alias: &str, server: &FakeMcpServer, more: &str) -> String {
    format!(
        "[mcp.servers.{alias}]\nurl = \"{}\"\nlifecycle = \"legacy\"\n{more}\n",
        server.url()
    )
}

#[test]
fn a_server_can_be_connected_inspected_and_disconnected() {
    let server = FakeMcpServer::start();
    let helper = Helper::new([]);
    let text = mcp(&helper, &["list"]).run().ok();
    assert!(text.starts_with("no MCP servers"), "{text}");

    let text = mcp(&helper, &["connect", &server.url()]).run().ok();
    assert_eq!(text, "local is connected: fake 1.2.3, 1 tool\n");
    // Connecting to the same address again returns the same server.
    let again = mcp(&helper, &["connect", &server.url(), "--json"]).run();
    assert_eq!(again.json()["alias"], "local");
    let info = only_server(&helper);
    assert_eq!(info["status"], "ready");
    assert_eq!(info["target"], server.url());
    assert_eq!(info["version"], "fake 1.2.3");
    assert_eq!(info["configured"], false);
    let text = mcp(&helper, &["list"]).run().ok();
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["alias", "status", "tools", "version", "server"]);
    let url = server.url();
    assert_eq!(lines[1], ["local", "ready", "1", "fake", "1.2.3", &url]);

    let text = mcp(&helper, &["tools"]).run().ok();
    assert_eq!(text, "local.echo  writes  does\n");
    let tools = mcp(&helper, &["tools", "local", "--json"]).run().json();
    assert_eq!(tools[0]["name"], "local.echo");
    let tool = mcp(&helper, &["tool", "local.echo", "--json"]).run().json();
    assert_eq!(tool["schema"], json!({"type": "object"}));
    let builtin = mcp(&helper, &["tool", "aish:edit_file", "--json"]).run();
    let builtin = builtin.json();
    assert!(builtin["schema"]["properties"]["old_text"].is_object());
    let text = mcp(&helper, &["tool", "local.echo"]).run().ok();
    assert!(text.contains("\"type\": \"object\""), "{text}");

    // Rules name servers by alias, so an alias in use must not move to another server.
    let other = FakeMcpServer::start();
    let output = mcp(&helper, &["connect", &other.url(), "local"])
        .run()
        .fails(2);
    assert!(
        output.contains("a server named local already exists"),
        "{output}"
    );
    let named = mcp(&helper, &["connect", &other.url(), "--json"])
        .run()
        .json();
    assert_eq!(named["alias"], "local-2");

    let output = mcp(&helper, &["disconnect", "locla"]).run().fails(2);
    assert!(output.contains("did you mean local?"), "{output}");
    for alias in ["local", "local-2"] {
        let text = mcp(&helper, &["disconnect", alias]).run().ok();
        assert_eq!(text, format!("{alias} is disconnected\n"));
    }
    assert_eq!(list(&helper), [Value::Null; 0]);
}

#[test]
fn disconnecting_twice_says_that_the_server_was_not_connected() {
    let server = FakeMcpServer::start();
    let helper = Helper::new([]);
    helper.config(&server_table("a", &server, ""));
    let off = || mcp(&helper, &["disconnect", "a"]).run().ok();
    assert_eq!(off(), "a is disconnected\n");
    assert_eq!(off(), "a was not connected\n");
}

#[test]
fn a_network_rule_denies_servers_that_are_not_configured() {
    let server = FakeMcpServer::start();
    let helper = Helper::new([]);
    let rule = "[policy.rules]\nnetwork = \"deny\"\n";
    helper.config(&server_table("a", &server, rule));
    let output = mcp(&helper, &["connect", &server.url(), "b"])
        .run()
        .fails(2);
    let why = "cannot connect: policy.rules.network says deny";
    assert!(output.contains(why), "{output}");
    assert_eq!(only_server(&helper)["alias"], "a");
    // The rule does not apply to a configured server.
    assert_eq!(only_server(&helper)["status"], "ready");
    // The rule of a project directory denies too.
    helper.config(&server_table("a", &server, ""));
    let project = helper.home.path("project");
    std::fs::create_dir(&project).unwrap();
    let rules = project.join(".aish.toml");
    std::fs::write(&rules, "[policy.rules]\nnetwork = \"deny\"\n").unwrap();
    let script = "cd \"$0\" && exec aish-helper mcp connect \"$1\" b";
    let call = helper.program("sh").args(["-c", script]);
    let output = call.args([&project]).args([server.url()]).run().fails(2);
    let why = format!("{}:2: policy.rules.network says deny", rules.display());
    assert!(output.contains(&why), "{output}");
    assert_eq!(only_server(&helper)["alias"], "a");
    // The rule also denies reconnecting a server that was connected in another directory.
    mcp(&helper, &["connect", &server.url(), "b"]).run().ok();
    // A login ends with this request.
    let paths = Paths::under(&helper.path(""), nix::unistd::getuid().as_raw()).unwrap();
    let request = protocol::Request::Mcp {
        request: McpRequest::Reconnect { alias: "b".into() },
        cwd: project.display().to_string(),
        overrides: Default::default(),
    };
    let error = connect::request::<Value>(&paths, &request).unwrap_err();
    assert!(error.message.contains(&why), "{error}");
}

#[test]
fn no_command_writes_the_configuration_if_a_project_denies_it() {
    let helper = Helper::new([]);
    let config = || std::fs::read_to_string(helper.path("config/config.toml")).unwrap();
    let before = config();
    let project = helper.home.path("project");
    std::fs::create_dir(&project).unwrap();
    let rules = project.join(".aish.toml");
    std::fs::write(&rules, "[policy.rules]\n\"fs.write\" = \"deny\"\n").unwrap();
    let servers = r#"{"mcpServers": {"x": {"command": "true"}}}"#;
    std::fs::write(project.join("servers.json"), servers).unwrap();
    let why = format!("{}:2: policy.rules.\"fs.write\" says deny", rules.display());
    for words in [
        "mcp import servers.json",
        "model use fake",
        "model install smollm2",
    ] {
        let script = format!("cd \"$0\" && exec aish-helper {words}");
        let call = helper.program("sh").args(["-c", &script]);
        let output = call.args([&project]).run().fails(3);
        assert!(output.contains(&why), "{words}: {output}");
        assert_eq!(config(), before, "{words}");
    }
    std::fs::remove_file(&rules).unwrap();
    let script = "cd \"$0\" && exec aish-helper mcp import servers.json";
    let call = helper.program("sh").args(["-c", script]);
    call.args([&project]).run().ok();
    assert_ne!(config(), before);
}

#[test]
fn unknown_tool_names_in_rules_are_reported() {
    let server = FakeMcpServer::start();
    let helper = Helper::new([]);
    let rules = "[mcp.auto_approve]\n\"a.ecko\" = true\n\"a.echo\" = true\n\"a.*\" = true\n\
                 [policy.rules]\n\"a.eko\" = \"deny\"\n\"b.eko\" = \"deny\"\n\"op:read\" = \"ask\"\n";
    let more = format!("tools = [\"echo\", \"read\"]\n{rules}");
    helper.config(&server_table("a", &server, &more));
    let hints = [
        "tools names read, which the server does not offer",
        "mcp.auto_approve.\"a.ecko\" names ecko, which the server does not offer",
        "policy.rules.\"a.eko\" names eko, which the server does not offer",
    ];
    assert_eq!(only_server(&helper)["hints"], json!(hints));
    let text = mcp(&helper, &["list"]).run().ok();
    assert!(
        text.contains(&format!("\n  {}\n", hints.join("\n  "))),
        "{text}"
    );
    let output = mcp(&helper, &["tools"]).run();
    assert!(
        output.stderr.contains(&format!("[aish] a: {}\n", hints[1])),
        "{}",
        output.stderr
    );
}

#[test]
fn listing_the_tools_of_one_server_does_not_wait_for_others() {
    let ready = FakeMcpServer::start();
    let hangs = FakeMcpServer::start().scripted(|_| Some(McpResponse::Hang));
    let helper = Helper::new([]);
    helper.config(&format!(
        "{}{}",
        server_table("a", &ready, ""),
        server_table("b", &hangs, "")
    ));
    let output = mcp(&helper, &["tools", "a"]).run();
    assert_eq!(
        (output.stdout.as_str(), output.stderr.as_str()),
        ("a.echo  writes  does\n", "")
    );
    let output = mcp(&helper, &["tools"]).run();
    assert_eq!(output.stderr, "[aish] without b: still starting\n");
}

#[test]
fn a_failed_connection_gives_the_reason_and_is_not_kept() {
    let helper = Helper::new([]);
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let html = FakeMcpServer::start().scripted(|_| {
        let headers = vec![("content-type".to_owned(), "text/html".to_owned())];
        Some(McpResponse::Whole(200, headers, b"<html>".to_vec()))
    });
    for (url, alias, code, expected) in [
        ("nonsense/", "", 2, "must begin with http:// or https://"),
        (
            "https://a:b@c.example",
            "",
            2,
            "must not contain a user name or password",
        ),
        ("https://c.example/mcp", "No", 2, "No cannot be an alias"),
        (
            &format!("http://{closed}/mcp"),
            "",
            1,
            "cannot connect to local",
        ),
        (&html.url(), "", 1, "text/html"),
    ] {
        let mut words = vec!["connect", url];
        words.extend(Some(alias).filter(|a| !a.is_empty()));
        let output = mcp(&helper, &words).run().fails(code);
        assert!(output.contains(expected), "{url}: {output}");
        assert_eq!(list(&helper), [Value::Null; 0], "{url}");
    }
    let output = mcp(&helper, &["tool", "a.b"]).run().fails(2);
    assert!(output.contains("no MCP server is called a"), "{output}");
    let output = mcp(&helper, &["prompt", "review"]).run().fails(2);
    assert!(output.contains("SERVER.PROMPT"), "{output}");
}

/// A server that must be downloaded first may take a minute; the command waits ten seconds while the start continues.
#[test]
fn a_slow_server_is_reported_as_starting() {
    let helper = Helper::new([]);
    helper.config("[mcp.servers.slow]\ncommand = \"sleep\"\nargs = [\"60\"]\n");
    let output = mcp(&helper, &["connect", "slow"]).run().fails(1);
    assert!(output.contains("slow is still starting"), "{output}");
    assert_eq!(only_server(&helper)["status"], "starting");
}

#[test]
fn a_required_login_is_reported_with_its_command() {
    let server = FakeMcpServer::start()
        .scripted(|_| Some(McpResponse::status(401, json!({"error": "unauthorized"}))));
    let helper = Helper::new([]);
    let output = mcp(&helper, &["connect", &server.url(), "shut"])
        .run()
        .fails(1);
    assert!(output.contains("aish-helper mcp login shut"), "{output}");
    let log = std::fs::read_to_string(helper.path("state/daemon.log")).unwrap();
    assert!(log.contains("mcp shut: it requires a login"), "{log}");
}

#[test]
fn a_token_comes_from_the_shell_that_has_it() {
    let server = lmcp::start(TOKEN);
    let helper = Helper::new([]);
    helper.config(&server_table("lmcp", &server, "auth_env = \"LMCP_TOKEN\""));
    let info = only_server(&helper);
    assert_eq!(info["status"], "failed");
    assert_eq!(
        info["error"],
        "needs $LMCP_TOKEN, which is not set in this shell"
    );
    assert_eq!(server.count("initialize"), 0);
    // Another shell provides the variable.
    let with = mcp(&helper, &["list", "--json"])
        .env("LMCP_TOKEN", TOKEN)
        .run();
    assert_eq!(with.json()[0]["status"], "ready");
    // The first shell uses that connection.
    let tools = mcp(&helper, &["tools", "--json"]).run().json();
    assert_eq!(tools[0]["name"], "lmcp.greet");
    assert_eq!(server.count("initialize"), 1);
    let log = std::fs::read_to_string(helper.path("state/daemon.log")).unwrap_or_default();
    assert!(!log.contains(TOKEN), "{log}");
}

#[test]
fn a_token_comes_from_the_file_or_from_a_command() {
    for auth in [
        format!("auth_token = \"{TOKEN}\""),
        format!("auth_cmd = \"printf {TOKEN}\""),
    ] {
        let server = lmcp::start(TOKEN);
        let helper = Helper::new([]);
        helper.config(&server_table("lmcp", &server, &auth));
        assert_eq!(only_server(&helper)["status"], "ready", "{auth}");
        let shown = helper.call(["config", "show"]).run().ok();
        assert!(shown.contains("mcp.servers.lmcp.url"), "{shown}");
        assert!(!shown.contains(TOKEN), "{shown}");
    }
}

#[test]
fn a_refused_token_is_not_reported_as_a_login() {
    let server = FakeMcpServer::start()
        .bearer("wrong")
        .scripted(|_| Some(McpResponse::status(401, json!({"error": "unauthorized"}))));
    let helper = Helper::new([]);
    helper.config(&server_table("a", &server, "auth_token = \"wrong\""));
    let info = only_server(&helper);
    assert_eq!(info["status"], "failed");
    let error = info["error"].as_str().unwrap();
    assert!(error.contains("rejects its token (HTTP 401)"), "{error}");
}

/// Starts a server that accepts the current value of `token`.
fn server_accepting(token: &Arc<Mutex<&'static str>>) -> FakeMcpServer {
    let token = Arc::clone(token);
    FakeMcpServer::start().scripted(move |request| {
        let expected = format!("Bearer {}", token.lock().unwrap());
        let refused = request.header("authorization") != Some(&*expected);
        refused.then(|| McpResponse::status(401, json!({"error": "unauthorized"})))
    })
}

#[test]
fn the_token_command_runs_again_after_a_refused_token() {
    let token = Arc::new(Mutex::new("first-token"));
    let server = server_accepting(&token);
    let helper = Helper::new([]);
    let file = helper.path("token");
    std::fs::write(&file, "first-token").unwrap();
    let auth = format!("auth_cmd = \"cat {}\"", file.display());
    helper.config(&server_table("a", &server, &auth));
    assert_eq!(only_server(&helper)["status"], "ready");
    *token.lock().unwrap() = "second-token";
    std::fs::write(&file, "second-token").unwrap();
    let output = mcp(&helper, &["prompt", "a.x"]).run().fails(1);
    assert!(output.contains("rejects its token"), "{output}");
    // The next request fetches a new token once the daemon knows that the session ended.
    let started = Instant::now();
    while server.count("initialize") < 2 {
        assert!(started.elapsed() < PATIENCE);
        only_server(&helper);
    }
    assert_eq!(only_server(&helper)["status"], "ready");
    server.take_violations();
}

#[test]
fn a_refused_variable_is_retried_with_a_different_value() {
    let token = Arc::new(Mutex::new("new-token"));
    let server = server_accepting(&token);
    let helper = Helper::new([]);
    helper.config(&server_table("a", &server, "auth_env = \"A_TOKEN\""));
    let list = |value: &str| {
        let list = mcp(&helper, &["list", "--json"])
            .env("A_TOKEN", value)
            .run();
        list.json()[0]["status"].clone()
    };
    // Each value is tried once, even if the shell sends it repeatedly.
    for value in ["old-token", "old-token", "odd-token", "old-token", ""] {
        assert_eq!(list(value), "failed", "{value}");
    }
    assert_eq!(server.count("initialize"), 2);
    assert_eq!(list("new-token"), "ready");
    assert_eq!(server.count("initialize"), 3);
    server.take_violations();
}

#[test]
fn query_values_of_an_address_are_masked() {
    let server = FakeMcpServer::start();
    let helper = Helper::new([]);
    let url = format!("{}?k=hidden-value&v=2", server.url());
    let shown = format!("{}?k=…&v=…", server.url());
    for _ in 0..2 {
        let info = mcp(&helper, &["connect", &url, "--json"]).run().json();
        assert_eq!(
            (&info["alias"], &info["target"]),
            (&json!("local"), &json!(shown))
        );
    }
    // The alias still refers to the full address.
    let again = mcp(&helper, &["connect", "local", "--json"]).run().json();
    assert_eq!(again["status"], "ready");
    assert_eq!(list(&helper).len(), 1);
    let has_full_query = |r: &Request| r.path.ends_with("?k=hidden-value&v=2");
    assert!(server.requests().iter().all(has_full_query));
    // A different query value is a different server.
    let other = format!("{}?k=other-value&v=2", server.url());
    let output = mcp(&helper, &["connect", &other, "local"]).run().fails(2);
    assert!(
        output.contains(&shown) && !output.contains("-value"),
        "{output}"
    );
    helper.config(&format!("[mcp.servers.a]\nurl = \"{url}\"\n"));
    for words in [
        &["mcp", "list"][..],
        &["config", "show"],
        &["status"],
        &["status", "--json"],
    ] {
        let text = helper.call(words).run().ok();
        assert!(!text.contains("hidden-value"), "{words:?}: {text}");
    }
    let log = std::fs::read_to_string(helper.path("state/daemon.log")).unwrap();
    assert!(!log.contains("hidden-value"), "{log}");
}

#[test]
fn configuration_changes_apply_and_servers_can_be_disabled() {
    let (one, two) = (FakeMcpServer::start(), FakeMcpServer::start());
    let helper = Helper::new([]);
    helper.config(&server_table("a", &one, ""));
    assert_eq!(only_server(&helper)["status"], "ready");
    helper.config(&format!(
        "{}{}",
        server_table("a", &one, "disabled = true"),
        server_table("b", &two, "tools = [\"other\"]")
    ));
    let servers = list(&helper);
    assert_eq!(servers[0]["status"], "disabled");
    assert_eq!(
        (&servers[1]["status"], &servers[1]["tools"]),
        (&json!("ready"), &json!(0))
    );
    mcp(&helper, &["disconnect", "b"]).run().ok();
    assert_eq!(list(&helper)[1]["status"], "disabled");
    let output = mcp(&helper, &["tools", "b"]).run().fails(1);
    assert!(output.contains("llm :mcp connect b"), "{output}");
    let text = mcp(&helper, &["connect", "b"]).run().ok();
    assert!(text.starts_with("b is connected"), "{text}");
    helper.config("");
    assert_eq!(list(&helper), [Value::Null; 0]);
}

#[test]
fn control_characters_of_a_server_do_not_reach_the_terminal() {
    let evil = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}";
    let tool = json!({
        "name": "echo",
        "description": format!("line{evil}\nfake.tool  reads  it"),
        "inputSchema": {"type": "object", "title": evil},
    });
    let server = FakeMcpServer::start().scripted(move |request| match request.method() {
        "initialize" => Some(request.result(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": format!("n{evil}"), "version": "1\n2"},
        }))),
        "tools/list" => Some(request.result(json!({"tools": [tool]}))),
        _ => None,
    });
    let helper = Helper::new([]);
    helper.config(&server_table("a", &server, ""));
    let json = ["--json"];
    for words in [&["list"][..], &["tools"], &["tool", "a.echo"]] {
        for more in [&[][..], &json] {
            let text = mcp(&helper, &[words, more].concat()).run().ok();
            assert!(text.contains("owned"), "{words:?}: {text:?}");
            let odd = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
            assert!(!text.contains(odd), "{words:?}: {text:?}");
        }
    }
    assert_eq!(mcp(&helper, &["tools"]).run().ok().lines().count(), 1);
    let log = std::fs::read_to_string(helper.path("state/daemon.log")).unwrap();
    assert!(!log.contains("owned"), "{log}");
}

#[test]
fn resources_and_prompts_are_listed_and_read() {
    let server = FakeMcpServer::start().scripted(|request| match request.method() {
        "initialize" => Some(request.result(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "fake", "version": "1"},
        }))),
        "resources/list" => Some(request.result(json!({"resources": [
            {"uri": "note:///one", "name": "one", "description": "The first", "mimeType": "text/plain"},
        ]}))),
        "resources/templates/list" => Some(request.result(json!({"resourceTemplates": [
            {"uriTemplate": "note:///{name}", "name": "any"},
        ]}))),
        "prompts/list" => Some(request.result(json!({"prompts": [
            {"name": "review", "description": "Reviews", "arguments": [
                {"name": "code", "required": true}, {"name": "style"},
            ]},
        ]}))),
        "prompts/get" => {
            let code = request.json["params"]["arguments"]["code"].as_str().unwrap_or("none");
            Some(request.result(json!({"messages": [
                {"role": "user", "content": {"type": "text", "text": format!("Review {code}.")}},
            ]})))
        }
        _ => None,
    });
    let helper = Helper::new([]);
    helper.config(&server_table("a", &server, ""));
    let text = mcp(&helper, &["resources"]).run().ok();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with("a:note:///one") && lines[0].ends_with("one: The first"),
        "{text}"
    );
    assert!(lines[1].contains("template"), "{text}");
    let text = mcp(&helper, &["prompts", "a"]).run().ok();
    assert_eq!(text, "a.review  code=… [style=…]  Reviews\n");
    let text = mcp(&helper, &["prompt", "a.review", "code=x=y"]).run().ok();
    assert_eq!(text, "Review x=y.\n");
    let json = mcp(&helper, &["prompt", "a.review", "code=z", "--json"])
        .run()
        .json();
    assert_eq!(json, json!({"text": "Review z."}));
    let output = mcp(&helper, &["prompt", "a.review", "code"]).run().fails(2);
    assert!(output.contains("KEY=VALUE"), "{output}");
}

#[test]
fn names_for_completion_start_no_daemon_and_do_not_wait() {
    let server = FakeMcpServer::start();
    let helper = Helper::new([]);
    helper.config(&server_table("a", &server, ""));
    for words in [&["list", "--names"][..], &["tools", "--names"]] {
        assert_eq!(mcp(&helper, words).run().ok(), "");
    }
    assert!(helper.listener().is_none(), "no daemon was started");
    helper.call(["start"]).run().ok();
    assert_eq!(mcp(&helper, &["list", "--names"]).run().ok(), "a\n");
    assert_eq!(mcp(&helper, &["tools", "--names"]).run().ok(), "");
    assert_eq!(server.count("initialize"), 0, "no server was started");
    mcp(&helper, &["list"]).run().ok();
    assert_eq!(mcp(&helper, &["tools", "--names"]).run().ok(), "a.echo\n");
    let status = helper.call(["status"]).run().ok();
    assert!(
        status.contains("servers   1 of 1 ready, 1 tool\n"),
        "{status}"
    );

    // A stopped daemon does not block completion.
    let pid = helper.daemon();
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).unwrap();
    let before = std::time::Instant::now();
    assert_eq!(mcp(&helper, &["list", "--names"]).run().ok(), "");
    assert!(before.elapsed() < std::time::Duration::from_secs(4));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
}

#[test]
fn servers_of_another_client_are_imported_once() {
    let helper = Helper::new([]);
    helper.config("# mine\n[mcp.servers.github]\nurl = \"https://mine.example/mcp\"\n");
    let file = helper.home.path("mcp.json");
    let text = r#"{"mcpServers": {
        "github": {"command": "docker"},
        "Time Server": {"command": "uvx", "args": ["mcp-server-time"], "cwd": "/x"},
        "notes": {"url": "https://notes.example/mcp", "headers": {"Authorization": "Bearer tok-1"}},
        "asks": {"url": "https://asks.example/mcp", "headers": {"Authorization": "Bearer ${ASKS}"}},
        "old": {"type": "sse", "url": "https://old.example/sse"}
    }}"#;
    std::fs::write(&file, text).unwrap();
    let config = helper.path("config/config.toml");
    let before = std::fs::read_to_string(&config).unwrap();
    let path = file.to_str().unwrap();
    let output = mcp(&helper, &["import", path]).run().ok();
    assert_eq!(
        output,
        format!(
            "skipped github: a server named github already exists\n\
             added   time-server (Time Server)\n        left out: cwd\n\
             added   notes\n\
             added   asks\n        needs $ASKS in the shell\n\
             skipped old: uses the SSE transport of 2024, which aish does not support\n\
             written to {}; list the servers with: llm :mcp list\n\
             the file now contains secrets; only you can read it\n",
            config.display()
        )
    );
    let after = std::fs::read_to_string(&config).unwrap();
    assert!(after.starts_with(&before), "{after}");
    assert!(after.contains(
        "[mcp.servers.notes]\nurl = \"https://notes.example/mcp\"\nauth_token = \"tok-1\"\n"
    ));
    let mode = std::fs::metadata(&config).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    helper.call(["config", "check"]).env("ASKS", "x").run().ok();

    let again = mcp(&helper, &["import", path, "--json"]).run().json();
    assert_eq!(again["file"], Value::Null);
    assert_eq!(std::fs::read_to_string(&config).unwrap(), after);
    std::fs::write(&file, "{}").unwrap();
    let output = mcp(&helper, &["import", path]).run().fails(2);
    assert!(output.contains("has no servers"), "{output}");
}
