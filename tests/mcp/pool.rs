//! Pool behaviour: tool catalog, waiting for servers, configuration changes, shutdown.

use serde_json::{Value, json};

use super::*;
use crate::fakes::mcp_http::{BodyPart, FakeMcpServer, McpResponse, text, tool};

fn offering(tools: Value) -> FakeMcpServer {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.set_tools(tools);
    server
}

async fn catalog_of(tools: Value) -> Vec<aish::chat::ToolDefinition> {
    let server = offering(tools);
    let test = TestPool::with(legacy("a", server.url())).await;
    let catalog = test.pool.catalog(PATIENCE).await;
    test.end().await;
    catalog.tools.to_vec()
}

fn tool_names(tools: &[aish::chat::ToolDefinition]) -> Vec<&str> {
    tools.iter().map(|t| t.tool.as_str()).collect()
}

#[tokio::test]
async fn invalid_and_duplicate_tool_names_are_left_out() {
    let long = "x".repeat(129);
    let tools = catalog_of(json!([
        { "name": "one", "description": "first", "inputSchema": { "type": "object" } },
        { "name": "one", "description": "second", "inputSchema": { "type": "object" } },
        tool(""),
        tool(&long),
        tool("a\u{1b}[2Jb"),
        tool("x.y"),
    ]))
    .await;
    assert_eq!(tool_names(&tools), ["one", "x.y"]);
    assert_eq!(tools[0].description, "first");
}

/// One malformed tool does not hide the others.
#[tokio::test]
async fn invalid_schema_becomes_any_object() {
    let tools = catalog_of(json!([
        tool("good"),
        { "name": "string", "description": "d", "inputSchema": "what" },
        { "name": "array", "inputSchema": { "type": "array" } },
        { "name": "none" },
        { "description": "nameless" },
        7,
    ]))
    .await;
    assert_eq!(tool_names(&tools), ["good", "string", "array", "none"]);
    for tool in &tools {
        assert_eq!(tool.schema, r#"{"type":"object"}"#, "{}", tool.name);
    }
}

#[tokio::test]
async fn at_most_ten_thousand_tools_are_offered() {
    let many: Vec<Value> = (0..10_050).map(|n| tool(&format!("t{n}"))).collect();
    let server = offering(Value::Array(many));
    let test = TestPool::with(legacy("a", server.url())).await;
    let catalog = test.pool.catalog(PATIENCE).await;
    assert_eq!(catalog.tools.len(), 10_000);
    let begun = Instant::now();
    for n in 0..10_000 {
        assert!(catalog.find(&format!("a.t{n}")).is_some());
    }
    assert!(catalog.find("a.t10001").is_none());
    // The next prompt and other readers share the same list.
    let again = test.pool.catalog(PATIENCE).await;
    assert!(std::sync::Arc::ptr_eq(&catalog.tools, &again.tools));
    assert!(std::sync::Arc::ptr_eq(&catalog.tools, &test.pool.tools()));
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    test.call("a", "t9999", "{}").await.unwrap();
    test.end().await;
}

#[tokio::test]
async fn total_size_of_the_tools_is_limited() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let mut page = 0;
    server.script(move |r| {
        (r.method() == "tools/list").then(|| {
            page += 1;
            let tools: Vec<Value> = (0..100)
                .map(|n| {
                    let mut tool = tool(&format!("t{page}-{n}"));
                    tool["title"] = json!("x".repeat(10_000));
                    tool["inputSchema"]["description"] = json!("x".repeat(60 << 10));
                    tool
                })
                .collect();
            r.result(json!({ "tools": tools, "nextCursor": page.to_string() }))
        })
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let tools = test.pool.catalog(PATIENCE).await.tools;
    let bytes: usize = tools.iter().map(|t| t.schema.len()).sum();
    assert!((7 << 20..8 << 20).contains(&bytes), "{bytes} bytes");
    assert!(tools.iter().all(|t| t.title.as_ref().unwrap().len() == 200));
    assert_eq!(server.count("tools/list"), 2);
    test.end().await;
}

#[tokio::test]
async fn number_of_pages_is_limited() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| {
        let cursor = &r.json["params"]["cursor"];
        (r.method() == "tools/list").then(|| match cursor.as_str() {
            None => r.result(json!({ "tools": [tool("one")], "nextCursor": "2" })),
            Some("2") => r.result(json!({ "tools": [tool("two")], "nextCursor": "3" })),
            // A repeated cursor.
            _ => r.result(json!({ "tools": [tool("three")], "nextCursor": "3" })),
        })
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let catalog = test.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog), ["a.one", "a.two", "a.three"]);
    test.end().await;

    let mut page = 0;
    server.script(move |r| {
        (r.method() == "tools/list").then(|| {
            page += 1;
            r.result(json!({ "tools": [], "nextCursor": page.to_string() }))
        })
    });
    let before = server.count("tools/list");
    let test = TestPool::with(legacy("a", server.url())).await;
    assert_eq!(test.state("a").status, ConnectionStatus::Ready);
    assert_eq!(server.count("tools/list") - before, 1000);
    test.end().await;
}

#[tokio::test]
async fn tools_excluded_by_the_configuration_are_not_offered_or_called() {
    let server = offering(json!([tool("read"), tool("write")]));
    let test = TestPool::with(ServerSettings {
        tools: Some(vec!["read".into(), "none".into()]),
        ..legacy("a", server.url())
    });
    let test = test.await;
    assert_eq!(names(&test.pool.catalog(PATIENCE).await), ["a.read"]);
    let why = failure(test.call("a", "write", "{}").await);
    assert_eq!(why, "the server has no tool of this name");
    assert_eq!(server.count("tools/call"), 0);
    test.end().await;
}

/// Aliases contain no dot; tool names may.
#[tokio::test]
async fn approval_covers_one_server_tool_and_arguments() {
    let (fs, other) = (offering(json!([tool("x.y")])), offering(json!([tool("y")])));
    let test = TestPool::new();
    test.start(legacy("fs", fs.url()));
    test.start(legacy("fs-x", other.url()));
    let catalog = test.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog), ["fs.x.y", "fs-x.y"]);
    let found = catalog.find("fs.x.y").unwrap();
    assert_eq!((found.server.as_str(), found.tool.as_str()), ("fs", "x.y"));

    let call = |server, tool, arguments| ExactCall {
        server,
        tool,
        identity: &found.identity,
        arguments,
    };
    let asked = call("fs", "x.y", "{}");
    let (events, _kept) = mpsc::channel(1);
    let cancel = CancellationToken::new();
    for (other, now) in [
        (call("fs-x", "y", "{}"), 0),
        (call("fs", "x.y", "{ }"), 0),
        (asked, 60_000),
    ] {
        let made = test
            .pool
            .call(approve(&asked), &other, now, 1000, &events, &cancel);
        assert_eq!(made.await, Err(CallError::NotApproved));
    }
    assert_eq!(fs.count("tools/call") + other.count("tools/call"), 0);
    test.call("fs", "x.y", "{}").await.unwrap();
    assert_eq!(fs.count("tools/call"), 1);
    test.end().await;
}

/// One of 13 servers hangs: the first prompt waits its second and gets the tools of the others.
#[tokio::test]
async fn hanging_server_delays_one_prompt_by_a_second() {
    let good: Vec<FakeMcpServer> = (0..12)
        .map(|_| FakeMcpServer::start().bearer(TOKEN))
        .collect();
    let bad = FakeMcpServer::start()
        .bearer(TOKEN)
        .scripted(|_| Some(McpResponse::Hang));
    let test = TestPool::new();
    test.start(ServerSettings::with_url("slow", bad.url()));
    for (n, server) in good.iter().enumerate() {
        test.start(ServerSettings::with_url(format!("s{n:02}"), server.url()));
    }
    let others_ready = async {
        for n in 0..12 {
            test.until(&format!("s{n:02}"), ConnectionStatus::Ready)
                .await;
        }
        advance(Duration::from_secs(1)).await;
        Instant::now()
    };
    let patience = Duration::from_secs(1);
    let (catalog, ready) = tokio::join!(test.pool.catalog(patience), others_ready);
    assert_eq!(catalog.tools.len(), 12);
    assert_eq!(
        catalog.unavailable,
        [("slow".to_owned(), "still starting".to_owned())]
    );
    assert!(ready.elapsed() < Duration::from_millis(500));
    // The second prompt does not wait.
    let begun = Instant::now();
    let catalog = test.pool.catalog(Duration::from_secs(1)).await;
    assert_eq!((catalog.tools.len(), catalog.unavailable.len()), (12, 1));
    assert!(begun.elapsed() < Duration::from_millis(100));
    test.end().await;
}

#[tokio::test]
async fn waiting_for_a_server_follows_its_replacement() {
    let (slow, good) = (FakeMcpServer::start(), FakeMcpServer::start());
    slow.script(|_| Some(McpResponse::Hang));
    let good = good.bearer(TOKEN);
    let test = TestPool::new();
    test.start(ServerSettings::with_url("a", slow.url()));
    let begun = Instant::now();
    test.pool.wait_until_settled(Some("other"), PATIENCE).await;
    test.pool
        .wait_until_settled(None, Duration::from_millis(50))
        .await;
    assert_eq!(test.state("a").status, ConnectionStatus::Starting);
    let instead = async { test.start(ServerSettings::with_url("a", good.url())) };
    tokio::join!(biased; test.pool.wait_until_settled(Some("a"), PATIENCE), instead);
    assert_eq!(test.state("a").status, ConnectionStatus::Ready);
    assert!(begun.elapsed() < Duration::from_secs(4));
    test.end().await;
    slow.take_violations();
}

/// Every server answers `initialize` only after all of them were asked.
#[tokio::test]
async fn servers_are_connected_concurrently() {
    let servers: Vec<FakeMcpServer> = (0..13)
        .map(|_| {
            FakeMcpServer::start().bearer(TOKEN).scripted(|r| {
                let result = json!({
                    "protocolVersion": "2025-11-25",
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "fake", "version": "1" },
                });
                let response = json!({ "jsonrpc": "2.0", "id": r.id(), "result": result });
                (r.method() == "initialize").then(|| {
                    McpResponse::events([BodyPart::Gate("all asked"), BodyPart::Event(response)])
                })
            })
        })
        .collect();
    let test = TestPool::new();
    for (n, server) in servers.iter().enumerate() {
        test.start(legacy(&format!("s{n}"), server.url()));
    }
    for server in &servers {
        server.reached("all asked").await;
    }
    for server in &servers {
        server.open("all asked");
    }
    let catalog = test.pool.catalog(PATIENCE).await;
    assert_eq!(catalog.tools.len(), 13);
    test.end().await;
}

#[tokio::test]
async fn concurrent_calls_get_their_own_results() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| {
        let arguments = &r.json["params"]["arguments"];
        (r.method() == "tools/call").then(|| r.result(text(&arguments["n"].to_string())))
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let test = std::sync::Arc::new(test);
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let test = test.clone();
            tokio::spawn(async move {
                let arguments = format!(r#"{{"n":{n}}}"#);
                let called = test.call("a", "echo", &arguments).await;
                assert_eq!(called.unwrap().text, n.to_string());
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    std::sync::Arc::into_inner(test).unwrap().end().await;
}

/// By default `rmcp` runs 16 calls at a time and queues the others.
#[tokio::test]
async fn many_long_calls_do_not_delay_another() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| {
        let waits = r.json["params"]["arguments"]["wait"] == true;
        (r.method() == "tools/call" && waits).then_some(McpResponse::Hang)
    });
    let test = std::sync::Arc::new(TestPool::with(legacy("a", server.url())).await);
    let cancel = CancellationToken::new();
    let (events, _kept) = mpsc::channel(1);
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let (test, cancel, events) = (test.clone(), cancel.clone(), events.clone());
            tokio::spawn(async move {
                let call = test.call_with("a", "echo", r#"{"wait":true}"#, &events, &cancel);
                call.await
            })
        })
        .collect();
    server.asked("tools/call", 64).await;
    let begun = Instant::now();
    test.call("a", "echo", "{}").await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    cancel.cancel();
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(CallError::Interrupted));
    }
    std::sync::Arc::into_inner(test).unwrap().end().await;
}

fn configured(servers: &[&ServerSettings]) -> BTreeMap<String, ServerSettings> {
    let named = |s: &&ServerSettings| (s.alias.clone(), (*s).clone());
    servers.iter().map(named).collect()
}

#[tokio::test]
async fn pending_start_follows_configuration_and_manual_changes() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let (a, b) = (legacy("a", server.url()), legacy("b", server.url()));
    let test = TestPool::new();
    let both = configured(&[&a, &b]);
    assert_eq!(test.pool.pending_start(&both), [a.clone(), b.clone()]);
    test.start_configured(a.clone());
    test.start_configured(b.clone());
    assert_eq!(test.pool.pending_start(&both), []);

    // Disconnected manually: not started again until its configuration changes.
    test.pool.disconnect("a").unwrap();
    assert_eq!(test.state("a").status, ConnectionStatus::Disabled);
    assert_eq!(test.pool.pending_start(&both), []);
    let changed = ServerSettings {
        trust_annotations: true,
        ..a.clone()
    };
    let both = configured(&[&changed, &b]);
    assert_eq!(
        test.pool.pending_start(&both),
        std::slice::from_ref(&changed)
    );
    test.start_configured(changed.clone());

    // Connected manually: stays while its alias is not configured.
    let manual = legacy("c", server.url());
    test.start(manual);
    let off = ServerSettings {
        disabled: true,
        ..b.clone()
    };
    assert_eq!(test.pool.pending_start(&configured(&[&off])), []);
    let states = test.pool.states();
    let seen: Vec<_> = states
        .iter()
        .map(|s| (s.alias.as_str(), s.configured))
        .collect();
    assert_eq!(seen, [("b", true), ("c", false)]);
    assert_eq!(test.state("b").status, ConnectionStatus::Disabled);
    test.until("c", ConnectionStatus::Ready).await;
    // Once its alias is configured, the rules refer to the configured server: the manual one is stopped, even if both
    // are equal.
    let c = legacy("c", server.url());
    assert_eq!(
        test.pool.pending_start(&configured(&[&off, &c])),
        std::slice::from_ref(&c)
    );
    assert_eq!(test.pool.states().len(), 1);
    assert!(!test.pool.has_configured(&c));
    test.start_configured(c.clone());
    assert!(test.pool.has_configured(&c));
    assert!(!test.pool.has_configured(&ServerSettings {
        trust_annotations: true,
        ..c
    }));
    assert_eq!(test.pool.pending_start(&configured(&[&off])), []);
    test.start(legacy("c", server.url()));
    test.pool.disconnect("c").unwrap();
    assert_eq!(test.pool.states().len(), 1);
    let none = test.pool.disconnect("c").unwrap_err();
    assert_eq!(none.message, "no MCP server is called c");
    test.end().await;
}

#[tokio::test]
async fn credential_errors_become_server_errors() {
    let server = FakeMcpServer::start();
    let test = TestPool::new();
    let a = legacy("a", server.url());
    let fails = async { Err(aish::error::Error::runtime("the command printed nothing")) };
    test.pool.start(a.clone(), true, fails);
    test.pool.catalog(PATIENCE).await;
    let state = test.state("a");
    assert_eq!(state.error.as_deref(), Some("the command printed nothing"));
    // Not retried at every prompt.
    assert_eq!(test.pool.pending_start(&configured(&[&a])), []);
    assert_eq!(server.requests().len(), 0);
    test.end().await;
}

/// Shutdown is quick in every phase of a server.
#[tokio::test]
async fn shutdown_does_not_wait_for_servers() {
    let hangs = FakeMcpServer::start()
        .bearer(TOKEN)
        .scripted(|_| Some(McpResponse::Hang));
    let works = FakeMcpServer::start().bearer(TOKEN).session("s-1");
    works.script(|r| (r.method() == "tools/call").then_some(McpResponse::Hang));
    let test = TestPool::new();
    test.start(legacy("hangs", hangs.url()));
    test.start(legacy("works", works.url()));
    test.pool.start(
        ServerSettings::with_url("waits", works.url()),
        false,
        std::future::pending(),
    );
    test.until("works", ConnectionStatus::Ready).await;
    hangs.asked("initialize", 1).await;
    let test = std::sync::Arc::new(test);
    let calling = tokio::spawn({
        let test = test.clone();
        async move { test.call("works", "echo", "{}").await }
    });
    works.asked("tools/call", 1).await;
    let begun = Instant::now();
    test.pool.shutdown().await;
    let called = calling.await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(failure(called), "the connection has ended");
    std::sync::Arc::into_inner(test).unwrap().end().await;
}
