//! Faults of HTTP servers: each gives a one-line error and delays nothing else.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use aish::config::mcp::{ServerTransport, TokenSource};
use serde_json::{Value, json};

use super::*;
use crate::fakes::mcp_http::{BodyPart, FakeMcpServer, McpResponse, text};

/// State of the server `a` after the first connection attempt, and the duration of the attempt.
async fn first_attempt(server: ServerSettings) -> (ServerState, Duration) {
    first_attempt_in(TestPool::new(), server).await
}

async fn first_attempt_in(test: TestPool, server: ServerSettings) -> (ServerState, Duration) {
    let begun = Instant::now();
    test.start(server);
    test.pool.wait_until_settled(Some("a"), PATIENCE).await;
    let took = begun.elapsed();
    let state = test.state("a");
    test.end().await;
    (state, took)
}

async fn error_of(server: ServerSettings) -> String {
    let (state, _) = first_attempt(server).await;
    assert_eq!(state.status, ConnectionStatus::Failed, "{state:?}");
    state.error.unwrap()
}

/// URL of an unused port.
fn unused_url() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    format!("http://{}/mcp", listener.local_addr().unwrap())
}

#[tokio::test]
async fn connection_refused() {
    let why = error_of(ServerSettings::with_url("a", unused_url())).await;
    assert_eq!(why, "cannot connect: connection refused");
}

/// Without a time limit, the client of `rmcp` waits for a connection as long as the system does.
#[tokio::test]
async fn connection_not_accepted() {
    let full = tokio::net::TcpSocket::new_v4().unwrap();
    full.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let full = full.listen(1).unwrap();
    let addr = full.local_addr().unwrap();
    // With a full accept queue, further connections get no answer at all.
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&addr, Duration::from_millis(200)) {
        waiting.push(stream);
    }
    let test = TestPool::new();
    let begun = tokio::time::Instant::now();
    test.start(legacy("a", format!("http://{addr}/mcp")));
    while test.state("a").status == ConnectionStatus::Starting {
        test.pool
            .wait_until_settled(Some("a"), Duration::from_millis(5))
            .await;
        advance(Duration::from_millis(500)).await;
    }
    let error = test.state("a").error.unwrap();
    assert_eq!(error, "cannot connect: no answer in time");
    assert!(begun.elapsed() < Duration::from_secs(7));
    test.end().await;
}

#[tokio::test]
async fn hang_at_initialize() {
    let server = FakeMcpServer::start()
        .bearer(TOKEN)
        .scripted(|_| Some(McpResponse::Hang));
    let begin = Duration::from_millis(300);
    let limits = StartupTimeLimits {
        http: begin,
        ..StartupTimeLimits::default()
    };
    let (state, took) =
        first_attempt_in(TestPool::limited(limits), legacy("a", server.url())).await;
    assert_eq!(state.error.unwrap(), "it does not answer");
    assert!(took >= begin && took < Duration::from_secs(2), "{took:?}");
    // The connection is closed.
    server.closed(1).await;
}

#[tokio::test]
async fn web_site_instead_of_a_server() {
    let page = b"<html>\x1b]0;x\x07 welcome</html>".to_vec();
    for (code, line) in [
        (
            200,
            "it answered with text/html; charset=utf-8, so it is not an MCP server",
        ),
        (404, "it answered HTTP 404 Not Found"),
        (502, "it answered HTTP 502"),
    ] {
        let body = page.clone();
        let server = FakeMcpServer::start().bearer(TOKEN).scripted(move |_| {
            let html = "text/html; charset=utf-8";
            Some(McpResponse::Whole(code, Vec::new(), body.clone()).with("content-type", html))
        });
        assert_eq!(
            error_of(ServerSettings::with_url("a", server.url())).await,
            line
        );
        server.take_violations();
    }
}

#[tokio::test]
async fn login_required() {
    for challenge in [Some("Bearer realm=\"x\", secret=\"do-not-show\""), None] {
        let server = FakeMcpServer::start().bearer(TOKEN).scripted(move |_| {
            let refusal = McpResponse::status(401, json!({ "error": TOKEN }));
            Some(match challenge {
                Some(challenge) => refusal.with("www-authenticate", challenge),
                None => refusal,
            })
        });
        let (state, _) = first_attempt(ServerSettings::with_url("a", server.url())).await;
        assert_eq!(state.status, ConnectionStatus::LoginRequired);
        let error = state.error.unwrap();
        assert_eq!(
            error,
            "it requires a login (HTTP 401): aish-helper mcp login a"
        );
        // Not retried: the answer would be the same.
        assert_eq!(server.requests().len(), 1);
    }
    let server = FakeMcpServer::start()
        .bearer(TOKEN)
        .scripted(|_| Some(McpResponse::Whole(401, Vec::new(), Vec::new())));
    let mut a = ServerSettings::with_url("a", server.url());
    if let aish::config::mcp::ServerTransport::Http { auth, .. } = &mut a.transport {
        *auth = aish::config::mcp::TokenSource::Env("A_TOKEN".into());
    }
    let (state, _) = first_attempt(a).await;
    let line = "it rejects its token (HTTP 401): see [mcp.servers.a]";
    assert_eq!(state.error.unwrap(), line);
    let server = FakeMcpServer::start()
        .bearer(TOKEN)
        .scripted(|_| Some(McpResponse::Whole(403, Vec::new(), b"no".to_vec())));
    let why = error_of(ServerSettings::with_url("a", server.url())).await;
    assert_eq!(why, "it answered HTTP 403 Forbidden");
}

/// A shell may have a newer token, so the caller collects the credentials again.
#[tokio::test]
async fn expired_token_is_collected_again() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let test = TestPool::new();
    let configured = BTreeMap::from([("a".to_owned(), legacy("a", server.url()))]);
    test.start_configured(configured["a"].clone());
    test.pool.catalog(PATIENCE).await;
    assert_eq!(test.pool.pending_start(&configured), []);
    server.script(|_| Some(McpResponse::Whole(401, Vec::new(), Vec::new())));
    let why = failure(test.call("a", "echo", "{}").await);
    assert_eq!(
        why,
        "it requires a login (HTTP 401): aish-helper mcp login a"
    );
    test.until("a", ConnectionStatus::LoginRequired).await;
    assert_eq!(test.pool.pending_start(&configured).len(), 1);
    // A token that was refused from the start is not collected again.
    test.start_configured(configured["a"].clone());
    test.pool.catalog(PATIENCE).await;
    assert_eq!(test.state("a").status, ConnectionStatus::LoginRequired);
    assert_eq!(test.pool.pending_start(&configured), []);
    test.end().await;
}

/// After a restart, a server may refuse the token that a command printed before.
#[tokio::test]
async fn token_command_runs_again_after_a_refusal() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let test = TestPool::new();
    let mut a = legacy("a", server.url());
    let ServerTransport::Http { auth, .. } = &mut a.transport else {
        panic!("no URL");
    };
    *auth = TokenSource::Cmd("print-token".into());
    let configured = BTreeMap::from([("a".to_owned(), a)]);
    server.script(|_| Some(McpResponse::Whole(401, Vec::new(), Vec::new())));
    test.start_configured(configured["a"].clone());
    test.pool.catalog(PATIENCE).await;
    assert_eq!(test.state("a").status, ConnectionStatus::LoginRequired);
    // Not immediately: the command may print the same token for a while.
    assert_eq!(test.pool.pending_start(&configured), []);
    advance(Duration::from_secs(9)).await;
    assert_eq!(test.pool.pending_start(&configured), []);
    advance(Duration::from_secs(2)).await;
    assert_eq!(test.pool.pending_start(&configured).len(), 1);
    test.end().await;
}

/// Error of a call that gets this response.
async fn error_of_response(answer: McpResponse) -> String {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let test = TestPool::with(legacy("a", server.url())).await;
    server.script(move |r| (r.method() == "tools/call").then(|| answer.clone()));
    let begun = Instant::now();
    let why = failure(test.call("a", "echo", "{}").await);
    assert!(begun.elapsed() < Duration::from_secs(10));
    // Only this call fails.
    server.script(|_| None);
    test.call("a", "echo", "{}").await.unwrap();
    test.end().await;
    why
}

#[tokio::test]
async fn invalid_responses() {
    let html =
        McpResponse::Whole(200, Vec::new(), b"<html>".to_vec()).with("content-type", "text/html");
    let line = "it answered with text/html, so it is not an MCP server";
    assert_eq!(error_of_response(html).await, line);
    let no_json =
        McpResponse::Whole(200, Vec::new(), b"{".to_vec()).with("content-type", "application/json");
    let line = "its answer is not MCP";
    assert_eq!(error_of_response(no_json).await, line);
    let secret = json!({ "code": -32000, "message": format!("bad token {TOKEN}") });
    let secret = json!({ "jsonrpc": "2.0", "id": null, "error": secret });
    let line = "bad token [REDACTED] (-32000)";
    assert_eq!(error_of_response(McpResponse::json(secret)).await, line);
    let limited = McpResponse::Whole(429, Vec::new(), Vec::new());
    assert_eq!(error_of_response(limited).await, "it answered HTTP 429");
}

#[tokio::test]
async fn stream_cut_off() {
    let half = BodyPart::Bytes(b"data: {\"jsonrpc\":".to_vec());
    for parts in [vec![half.clone(), BodyPart::Cut], vec![half], Vec::new()] {
        assert_eq!(
            error_of_response(McpResponse::events(parts)).await,
            "its answer was cut off"
        );
    }
    let why = error_of_response(McpResponse::Close).await;
    assert!(why.starts_with("the connection was lost"), "{why}");
}

/// `rmcp` resumes a stream with event ids and would retry for minutes.
#[tokio::test]
async fn server_killed_during_a_response() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let test = TestPool::with(legacy("a", server.url())).await;
    server.script(|r| {
        let begun = BodyPart::Bytes(b"id: 7\ndata: \n\n".to_vec());
        (r.method() == "tools/call").then(|| McpResponse::events([begun, BodyPart::Gate("half")]))
    });
    let kill = async {
        server.reached("half").await;
        drop(server);
        Instant::now()
    };
    let (called, killed) = tokio::join!(test.call("a", "echo", "{}"), kill);
    assert_eq!(failure(called), "its answer was cut off");
    assert!(killed.elapsed() < Duration::from_secs(1));
    test.end().await;
}

#[tokio::test]
async fn response_to_another_request() {
    let other = json!({ "jsonrpc": "2.0", "id": 9999, "result": text("x") });
    let line = "it answered a different request";
    assert_eq!(
        error_of_response(McpResponse::json(other.clone())).await,
        line
    );
    let streamed = McpResponse::events([BodyPart::Event(other)]);
    assert_eq!(error_of_response(streamed).await, "its answer was cut off");
    let unasked = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {
        "level": "emergency", "data": "\u{1b}[2Jhello",
    } });
    assert_eq!(error_of_response(McpResponse::json(unasked)).await, line);
}

/// Responses of 64 MB and more are not buffered.
#[tokio::test]
async fn response_too_large() {
    let mib = || vec![b'x'; 1 << 20];
    let line = "its answer is larger than 16 MiB";
    let head = br#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":""#;
    let parts = vec![BodyPart::Bytes(head.to_vec()), BodyPart::Repeat(mib(), 100)];
    let json = McpResponse::Stream("application/json", parts);
    assert_eq!(error_of_response(json).await, line);
    let parts = [
        BodyPart::Bytes(b"data: ".to_vec()),
        BodyPart::Repeat(mib(), 64),
    ];
    assert_eq!(
        error_of_response(McpResponse::events(parts)).await,
        "its answer was cut off"
    );
}

#[tokio::test]
async fn large_result_is_truncated() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| {
        (r.method() == "tools/call").then(|| r.result(text(&"word ".repeat(2_000_000))))
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let called = test.call("a", "echo", "{}").await.unwrap();
    assert!(called.text.len() <= 1 << 20);
    assert_eq!(called.bytes, 10_000_000);
    test.end().await;
}

/// A restarted server is reconnected automatically.
#[tokio::test]
async fn server_restarted() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let addr = server.addr();
    let test = TestPool::with(legacy("a", server.url())).await;
    drop(server);
    // The first call may still use the old connection.
    let mut why = String::new();
    while !why.starts_with("cannot connect") {
        why = failure(test.call("a", "echo", "{}").await);
    }
    test.until("a", ConnectionStatus::Failed).await;
    let catalog = test.pool.catalog(PATIENCE).await;
    assert_eq!(catalog.tools.len(), 0);
    assert_eq!(catalog.unavailable.len(), 1);
    let server = FakeMcpServer::at(addr).bearer(TOKEN);
    test.until("a", ConnectionStatus::Ready).await;
    test.call("a", "echo", "{}").await.unwrap();
    test.end().await;
    drop(server);
}

#[tokio::test]
async fn invalid_configurations() {
    for (url, line) in [
        ("nonsense", "its url is not a valid URL"),
        (
            "ftp://x.example/",
            "its url is neither http:// nor https://",
        ),
        (
            "http://mcp.example/",
            "the key would cross the network in cleartext: use https://, or a numeric private address",
        ),
    ] {
        assert_eq!(error_of(ServerSettings::with_url("a", url)).await, line);
    }
}

/// Unrelated messages on the stream of a call are ignored; log messages go to the server's log file.
#[tokio::test]
async fn unrelated_messages_on_a_stream() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| {
        (r.method() == "tools/call").then(|| {
            let note = |method: &str, params: Value| {
                BodyPart::Event(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            };
            McpResponse::events([
                BodyPart::Bytes(b"event: endpoint\ndata: /x\n\ndata: no json\n\n".to_vec()),
                note(
                    "notifications/message",
                    json!({ "level": "alert", "data": TOKEN }),
                ),
                note("notifications/unknown", json!({})),
                note("notifications/cancelled", json!({ "requestId": 77 })),
                BodyPart::Event(json!({ "jsonrpc": "2.0", "id": r.id(), "result": text("done") })),
            ])
        })
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    assert_eq!(test.call("a", "echo", "{}").await.unwrap().text, "done");
    // The log file is written by a notification task, for which there is no event.
    let log = test.state.path().join("mcp-a.log");
    let begun = Instant::now();
    let said = loop {
        match std::fs::read_to_string(&log) {
            Ok(said) if !said.is_empty() => break said,
            _ => assert!(begun.elapsed() < PATIENCE, "the log is empty"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(said.starts_with("[alert] "), "{said}");
    assert!(!said.contains(TOKEN), "{said}");
    test.end().await;
}
