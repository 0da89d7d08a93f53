//! Many servers: what is connected, what is offered, and what a prompt waits for.

use serde_json::{Value, json};

use super::*;
use crate::fakes::mcp_http::{Answer, McpHttp, text, tool};

fn offering(tools: Value) -> McpHttp {
    let server = McpHttp::start().bearer(TOKEN);
    server.set_tools(tools);
    server
}

async fn catalog_of(tools: Value) -> Vec<aish::chat::Tool> {
    let server = offering(tools);
    let bench = Bench::with(legacy("a", server.url())).await;
    let catalog = bench.pool.catalog(PATIENCE).await;
    bench.end().await;
    catalog.tools.to_vec()
}

fn tool_names(tools: &[aish::chat::Tool]) -> Vec<&str> {
    tools.iter().map(|t| t.tool.as_str()).collect()
}

#[tokio::test]
async fn names_that_cannot_be_are_left_out() {
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

/// One tool that is none costs no other.
#[tokio::test]
async fn a_schema_that_is_no_schema_takes_any_object() {
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
async fn ten_thousand_tools_are_offered_and_no_more() {
    let many: Vec<Value> = (0..10_050).map(|n| tool(&format!("t{n}"))).collect();
    let server = offering(Value::Array(many));
    let bench = Bench::with(legacy("a", server.url())).await;
    let catalog = bench.pool.catalog(PATIENCE).await;
    assert_eq!(catalog.tools.len(), 10_000);
    let begun = Instant::now();
    for n in 0..10_000 {
        assert!(catalog.find(&format!("a.t{n}")).is_some());
    }
    assert!(catalog.find("a.t10001").is_none());
    // The next prompt gets the same list, and not another copy.
    let again = bench.pool.catalog(PATIENCE).await;
    assert!(std::sync::Arc::ptr_eq(&catalog.tools, &again.tools));
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
    bench.call("a", "t9999", "{}").await.unwrap();
    bench.end().await;
}

#[tokio::test]
async fn tools_that_take_too_much_room_are_left_out() {
    let server = McpHttp::start().bearer(TOKEN);
    let mut page = 0;
    server.behave(move |r| {
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
    let bench = Bench::with(legacy("a", server.url())).await;
    let tools = bench.pool.catalog(PATIENCE).await.tools;
    let bytes: usize = tools.iter().map(|t| t.schema.len()).sum();
    assert!((7 << 20..8 << 20).contains(&bytes), "{bytes} bytes");
    assert!(tools.iter().all(|t| t.title.as_ref().unwrap().len() == 200));
    assert_eq!(server.count("tools/list"), 2);
    bench.end().await;
}

#[tokio::test]
async fn pages_are_turned_but_not_for_ever() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| {
        let cursor = &r.json["params"]["cursor"];
        (r.method() == "tools/list").then(|| match cursor.as_str() {
            None => r.result(json!({ "tools": [tool("one")], "nextCursor": "2" })),
            Some("2") => r.result(json!({ "tools": [tool("two")], "nextCursor": "3" })),
            // The same place again.
            _ => r.result(json!({ "tools": [tool("three")], "nextCursor": "3" })),
        })
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    let catalog = bench.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog), ["a.one", "a.two", "a.three"]);
    bench.end().await;

    let mut page = 0;
    server.behave(move |r| {
        (r.method() == "tools/list").then(|| {
            page += 1;
            r.result(json!({ "tools": [], "nextCursor": page.to_string() }))
        })
    });
    let before = server.count("tools/list");
    let bench = Bench::with(legacy("a", server.url())).await;
    assert_eq!(bench.state("a").status, Status::Ready);
    assert_eq!(server.count("tools/list") - before, 1000);
    bench.end().await;
}

#[tokio::test]
async fn only_the_allowed_tools_are_offered_and_called() {
    let server = offering(json!([tool("read"), tool("write")]));
    let bench = Bench::with(Server {
        tools: Some(vec!["read".into(), "none".into()]),
        ..legacy("a", server.url())
    });
    let bench = bench.await;
    assert_eq!(names(&bench.pool.catalog(PATIENCE).await), ["a.read"]);
    let why = failure(bench.call("a", "write", "{}").await);
    assert_eq!(why, "the server has no such tool");
    assert_eq!(server.count("tools/call"), 0);
    bench.end().await;
}

/// An alias has no dot, but a tool's name may have one.
#[tokio::test]
async fn an_approval_is_for_one_server_and_one_tool() {
    let (fs, other) = (offering(json!([tool("x.y")])), offering(json!([tool("y")])));
    let bench = Bench::new();
    bench.start(legacy("fs", fs.url()));
    bench.start(legacy("fs-x", other.url()));
    let catalog = bench.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog), ["fs.x.y", "fs-x.y"]);
    let found = catalog.find("fs.x.y").unwrap();
    assert_eq!((found.server.as_str(), found.tool.as_str()), ("fs", "x.y"));

    let call = |server, tool, arguments| Call {
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
        let made = bench
            .pool
            .call(approve(&asked), &other, now, 1000, &events, &cancel);
        assert_eq!(made.await, Err(CallError::NotApproved));
    }
    assert_eq!(fs.count("tools/call") + other.count("tools/call"), 0);
    bench.call("fs", "x.y", "{}").await.unwrap();
    assert_eq!(fs.count("tools/call"), 1);
    bench.end().await;
}

/// 13 servers, of which one hangs: a prompt waits its second once, and has the tools of the others.
#[tokio::test]
async fn a_server_that_hangs_delays_one_prompt_by_a_second() {
    let good: Vec<McpHttp> = (0..12).map(|_| McpHttp::start().bearer(TOKEN)).collect();
    let bad = McpHttp::start()
        .bearer(TOKEN)
        .behaving(|_| Some(Answer::Hang));
    let bench = Bench::new();
    let begun = Instant::now();
    for (n, server) in good.iter().enumerate() {
        bench.start(Server::at(format!("s{n:02}"), server.url()));
    }
    bench.start(Server::at("slow", bad.url()));
    let catalog = bench.pool.catalog(Duration::from_secs(1)).await;
    let took = begun.elapsed();
    assert_eq!(catalog.tools.len(), 12);
    assert_eq!(
        catalog.without,
        [("slow".to_owned(), "still starting".to_owned())]
    );
    assert!(took >= Duration::from_millis(950), "{took:?}");
    assert!(took < Duration::from_millis(1500), "{took:?}");
    // The second prompt does not wait.
    let begun = Instant::now();
    let catalog = bench.pool.catalog(Duration::from_secs(1)).await;
    assert_eq!((catalog.tools.len(), catalog.without.len()), (12, 1));
    assert!(begun.elapsed() < Duration::from_millis(100));
    bench.end().await;
}

#[tokio::test]
async fn who_waits_for_a_server_does_not_wait_for_one_that_is_let_go_of() {
    let (slow, good) = (McpHttp::start(), McpHttp::start());
    slow.behave(|_| Some(Answer::Hang));
    let good = good.bearer(TOKEN);
    let bench = Bench::new();
    bench.start(Server::at("a", slow.url()));
    let begun = Instant::now();
    bench.pool.settled(Some("other"), PATIENCE).await;
    bench.pool.settled(None, Duration::from_millis(50)).await;
    assert_eq!(bench.state("a").status, Status::Starting);
    let instead = async { bench.start(Server::at("a", good.url())) };
    tokio::join!(biased; bench.pool.settled(Some("a"), PATIENCE), instead);
    assert_eq!(bench.state("a").status, Status::Ready);
    assert!(begun.elapsed() < Duration::from_secs(4));
    bench.end().await;
    slow.take_violations();
}

/// Each takes a while; all together take as long as one.
#[tokio::test]
async fn all_servers_are_connected_at_once() {
    let servers: Vec<McpHttp> = (0..13)
        .map(|_| {
            let mut left = 1;
            McpHttp::start().bearer(TOKEN).behaving(move |r| {
                if r.method() == "initialize" && left > 0 {
                    left -= 1;
                    // In a thread of the server's own.
                    std::thread::sleep(Duration::from_millis(300));
                }
                None
            })
        })
        .collect();
    let bench = Bench::new();
    let begun = Instant::now();
    for (n, server) in servers.iter().enumerate() {
        bench.start(legacy(&format!("s{n}"), server.url()));
    }
    let catalog = bench.pool.catalog(PATIENCE).await;
    assert_eq!(catalog.tools.len(), 13);
    assert!(
        begun.elapsed() < Duration::from_millis(1500),
        "{:?}",
        begun.elapsed()
    );
    bench.end().await;
}

#[tokio::test]
async fn calls_of_many_shells_do_not_mix() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| {
        let arguments = &r.json["params"]["arguments"];
        (r.method() == "tools/call").then(|| r.result(text(&arguments["n"].to_string())))
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    let bench = std::sync::Arc::new(bench);
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let arguments = format!(r#"{{"n":{n}}}"#);
                let called = bench.call("a", "echo", &arguments).await;
                assert_eq!(called.unwrap().text, n.to_string());
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    std::sync::Arc::into_inner(bench).unwrap().end().await;
}

/// The crate lets sixteen calls run, and the others wait.
#[tokio::test]
async fn long_calls_of_many_shells_hold_up_no_other() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| {
        let waits = r.json["params"]["arguments"]["wait"] == true;
        (r.method() == "tools/call" && waits).then_some(Answer::Hang)
    });
    let bench = std::sync::Arc::new(Bench::with(legacy("a", server.url())).await);
    let cancel = CancellationToken::new();
    let (events, _kept) = mpsc::channel(1);
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let (bench, cancel, events) = (bench.clone(), cancel.clone(), events.clone());
            tokio::spawn(async move {
                let call = bench.call_with("a", "echo", r#"{"wait":true}"#, &events, &cancel);
                call.await
            })
        })
        .collect();
    server.asked("tools/call", 64).await;
    let begun = Instant::now();
    bench.call("a", "echo", "{}").await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(1));
    cancel.cancel();
    for call in calls {
        assert_eq!(call.await.unwrap(), Err(CallError::Interrupted));
    }
    std::sync::Arc::into_inner(bench).unwrap().end().await;
}

fn configured(servers: &[&Server]) -> BTreeMap<String, Server> {
    let named = |s: &&Server| (s.alias.clone(), (*s).clone());
    servers.iter().map(named).collect()
}

#[tokio::test]
async fn what_is_wanted_follows_the_configuration_and_the_hand() {
    let server = McpHttp::start().bearer(TOKEN);
    let (a, b) = (legacy("a", server.url()), legacy("b", server.url()));
    let bench = Bench::new();
    let both = configured(&[&a, &b]);
    assert_eq!(bench.pool.wanting(&both), [a.clone(), b.clone()]);
    bench.start_configured(a.clone());
    bench.start_configured(b.clone());
    assert_eq!(bench.pool.wanting(&both), []);

    // Disconnected by hand: not wanted until its lines change.
    bench.pool.disconnect("a").unwrap();
    assert_eq!(bench.state("a").status, Status::Disabled);
    assert_eq!(bench.pool.wanting(&both), []);
    let changed = Server {
        trust_annotations: true,
        ..a.clone()
    };
    let both = configured(&[&changed, &b]);
    assert_eq!(bench.pool.wanting(&both), std::slice::from_ref(&changed));
    bench.start_configured(changed.clone());

    // Connected by hand: it stays while the configuration has none of its alias.
    let by_hand = legacy("c", server.url());
    bench.start(by_hand);
    let off = Server {
        disabled: true,
        ..b.clone()
    };
    assert_eq!(bench.pool.wanting(&configured(&[&off])), []);
    let states = bench.pool.states();
    let seen: Vec<_> = states
        .iter()
        .map(|s| (s.alias.as_str(), s.configured))
        .collect();
    assert_eq!(seen, [("b", true), ("c", false)]);
    assert_eq!(bench.state("b").status, Status::Disabled);
    bench.until("c", Status::Ready).await;
    // What the configuration then says of that alias is meant by its rules: the other goes, also where it is
    // the same.
    let c = legacy("c", server.url());
    assert_eq!(
        bench.pool.wanting(&configured(&[&off, &c])),
        std::slice::from_ref(&c)
    );
    assert_eq!(bench.pool.states().len(), 1);
    assert!(!bench.pool.holds(&c));
    bench.start_configured(c.clone());
    assert!(bench.pool.holds(&c));
    assert!(!bench.pool.holds(&Server {
        trust_annotations: true,
        ..c
    }));
    assert_eq!(bench.pool.wanting(&configured(&[&off])), []);
    bench.start(legacy("c", server.url()));
    bench.pool.disconnect("c").unwrap();
    assert_eq!(bench.pool.states().len(), 1);
    let none = bench.pool.disconnect("c").unwrap_err();
    assert_eq!(none.message, "no MCP server is called c");
    bench.end().await;
}

#[tokio::test]
async fn credentials_that_fail_are_the_servers_error() {
    let server = McpHttp::start();
    let bench = Bench::new();
    let a = legacy("a", server.url());
    let fails = async { Err(aish::error::Error::runtime("the command printed nothing")) };
    bench.pool.start(a.clone(), true, fails);
    bench.pool.catalog(PATIENCE).await;
    let state = bench.state("a");
    assert_eq!(state.error.as_deref(), Some("the command printed nothing"));
    // Not at every prompt, but soon.
    assert_eq!(bench.pool.wanting(&configured(&[&a])), []);
    assert_eq!(server.requests().len(), 0);
    bench.end().await;
}

/// Whatever a server is at, everything ends at once.
#[tokio::test]
async fn the_end_waits_for_nobody() {
    let hangs = McpHttp::start()
        .bearer(TOKEN)
        .behaving(|_| Some(Answer::Hang));
    let works = McpHttp::start().bearer(TOKEN).session("s-1");
    works.behave(|r| (r.method() == "tools/call").then_some(Answer::Hang));
    let bench = Bench::new();
    bench.start(legacy("hangs", hangs.url()));
    bench.start(legacy("works", works.url()));
    bench.pool.start(
        Server::at("waits", works.url()),
        false,
        std::future::pending(),
    );
    bench.until("works", Status::Ready).await;
    hangs.asked("initialize", 1).await;
    let bench = std::sync::Arc::new(bench);
    let calling = tokio::spawn({
        let bench = bench.clone();
        async move { bench.call("works", "echo", "{}").await }
    });
    works.asked("tools/call", 1).await;
    let begun = Instant::now();
    bench.pool.shutdown().await;
    let called = calling.await.unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(failure(called), "the connection has ended");
    std::sync::Arc::into_inner(bench).unwrap().end().await;
}
