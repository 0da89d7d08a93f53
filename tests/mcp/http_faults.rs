//! What goes wrong with a server over HTTP: one clear line each, and nobody waits.

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use aish::config::mcp::{Auth, Transport};
use serde_json::{Value, json};

use super::*;
use crate::fakes::mcp_http::{Answer, McpHttp, Part, text};

/// The state of a server after its first try, and how long that took.
async fn tried(server: Server) -> (State, Duration) {
    tried_in(Bench::new(), server).await
}

async fn tried_in(bench: Bench, server: Server) -> (State, Duration) {
    let begun = Instant::now();
    bench.start(server);
    bench.pool.settled(Some("a"), PATIENCE).await;
    let took = begun.elapsed();
    let state = bench.state("a");
    bench.end().await;
    (state, took)
}

async fn error_of(server: Server) -> String {
    let (state, _) = tried(server).await;
    assert_eq!(state.status, Status::Failed, "{state:?}");
    state.error.unwrap()
}

/// An address that nobody listens at.
fn nobody() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    format!("http://{}/mcp", listener.local_addr().unwrap())
}

#[tokio::test]
async fn one_that_refuses() {
    let why = error_of(Server::at("a", nobody())).await;
    assert_eq!(why, "cannot connect: connection refused");
}

/// The crate's own client waits for a connection for as long as the system does.
#[tokio::test]
async fn one_that_does_not_accept() {
    let full = tokio::net::TcpSocket::new_v4().unwrap();
    full.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let full = full.listen(1).unwrap();
    let addr = full.local_addr().unwrap();
    // The queue is filled, so that whoever comes next is not even refused.
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&addr, Duration::from_millis(200)) {
        waiting.push(stream);
    }
    let (state, took) = tried(legacy("a", format!("http://{addr}/mcp"))).await;
    assert_eq!(state.error.unwrap(), "cannot connect: no answer in time");
    assert!(took < Duration::from_secs(7), "{took:?}");
}

#[tokio::test]
async fn one_that_hangs_at_initialize() {
    let server = McpHttp::start()
        .bearer(TOKEN)
        .behaving(|_| Some(Answer::Hang));
    let begin = Duration::from_millis(300);
    let limits = Limits {
        begin,
        ..Limits::default()
    };
    let (state, took) = tried_in(Bench::limited(limits), legacy("a", server.url())).await;
    assert_eq!(state.error.unwrap(), "it does not answer");
    assert!(took >= begin && took < Duration::from_secs(2), "{took:?}");
    // Its connection is not left behind.
    server.closed(1).await;
}

#[tokio::test]
async fn one_that_is_a_web_site() {
    let page = b"<html>\x1b]0;x\x07 welcome</html>".to_vec();
    for (code, line) in [
        (
            200,
            "it answered with text/html; charset=utf-8, so it is no MCP server",
        ),
        (404, "it answered HTTP 404 Not Found"),
        (502, "it answered HTTP 502"),
    ] {
        let body = page.clone();
        let server = McpHttp::start().bearer(TOKEN).behaving(move |_| {
            let html = "text/html; charset=utf-8";
            Some(Answer::Whole(code, Vec::new(), body.clone()).with("content-type", html))
        });
        assert_eq!(error_of(Server::at("a", server.url())).await, line);
        server.take_violations();
    }
}

#[tokio::test]
async fn one_that_wants_a_login() {
    for challenge in [Some("Bearer realm=\"x\", secret=\"do-not-show\""), None] {
        let server = McpHttp::start().bearer(TOKEN).behaving(move |_| {
            let refusal = Answer::status(401, json!({ "error": TOKEN }));
            Some(match challenge {
                Some(challenge) => refusal.with("www-authenticate", challenge),
                None => refusal,
            })
        });
        let (state, _) = tried(Server::at("a", server.url())).await;
        assert_eq!(state.status, Status::Login);
        let error = state.error.unwrap();
        assert_eq!(
            error,
            "it wants a login (HTTP 401): aish-helper mcp login a"
        );
        // It is not asked again and again: the answer would be the same.
        assert_eq!(server.requests().len(), 1);
    }
    let server = McpHttp::start()
        .bearer(TOKEN)
        .behaving(|_| Some(Answer::Whole(401, Vec::new(), Vec::new())));
    let mut a = Server::at("a", server.url());
    if let aish::config::mcp::Transport::Http { auth, .. } = &mut a.transport {
        *auth = aish::config::mcp::Auth::Env("A_TOKEN".into());
    }
    let (state, _) = tried(a).await;
    let line = "it does not take its token (HTTP 401): see [mcp.servers.a]";
    assert_eq!(state.error.unwrap(), line);
    let server = McpHttp::start()
        .bearer(TOKEN)
        .behaving(|_| Some(Answer::Whole(403, Vec::new(), b"no".to_vec())));
    let why = error_of(Server::at("a", server.url())).await;
    assert_eq!(why, "it answered HTTP 403 Forbidden");
}

/// The shell may have a newer token: whoever has it is asked for it.
#[tokio::test]
async fn a_token_that_grows_old_is_looked_for_again() {
    let server = McpHttp::start().bearer(TOKEN);
    let bench = Bench::new();
    let configured = BTreeMap::from([("a".to_owned(), legacy("a", server.url()))]);
    bench.start_configured(configured["a"].clone());
    bench.pool.catalog(PATIENCE).await;
    assert_eq!(bench.pool.wanting(&configured), []);
    server.behave(|_| Some(Answer::Whole(401, Vec::new(), Vec::new())));
    let why = failure(bench.call("a", "echo", "{}").await);
    assert_eq!(why, "it wants a login (HTTP 401): aish-helper mcp login a");
    bench.until("a", Status::Login).await;
    assert_eq!(bench.pool.wanting(&configured).len(), 1);
    // One that was never let in is not asked for again.
    bench.start_configured(configured["a"].clone());
    bench.pool.catalog(PATIENCE).await;
    assert_eq!(bench.state("a").status, Status::Login);
    assert_eq!(bench.pool.wanting(&configured), []);
    bench.end().await;
}

/// A server that was restarted, and takes the token no more that was printed for the session before.
#[tokio::test]
async fn a_token_that_was_printed_is_printed_again_after_a_restart() {
    let server = McpHttp::start().bearer(TOKEN);
    let bench = Bench::new();
    let mut a = legacy("a", server.url());
    let Transport::Http { auth, .. } = &mut a.transport else {
        panic!("no URL");
    };
    *auth = Auth::Cmd("print-token".into());
    let configured = BTreeMap::from([("a".to_owned(), a)]);
    server.behave(|_| Some(Answer::Whole(401, Vec::new(), Vec::new())));
    bench.start_configured(configured["a"].clone());
    bench.pool.catalog(PATIENCE).await;
    assert_eq!(bench.state("a").status, Status::Login);
    // Not at once: the command may print the same for a while.
    assert_eq!(bench.pool.wanting(&configured), []);
    let begun = Instant::now();
    while bench.pool.wanting(&configured).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "nobody asks for another token");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bench.end().await;
}

/// What is said of a call that is answered so.
async fn call_answered(answer: Answer) -> String {
    let server = McpHttp::start().bearer(TOKEN);
    let bench = Bench::with(legacy("a", server.url())).await;
    server.behave(move |r| (r.method() == "tools/call").then(|| answer.clone()));
    let begun = Instant::now();
    let why = failure(bench.call("a", "echo", "{}").await);
    assert!(begun.elapsed() < Duration::from_secs(10));
    // One bad answer costs one call.
    server.behave(|_| None);
    bench.call("a", "echo", "{}").await.unwrap();
    bench.end().await;
    why
}

#[tokio::test]
async fn answers_that_are_none() {
    let html = Answer::Whole(200, Vec::new(), b"<html>".to_vec()).with("content-type", "text/html");
    let line = "it answered with text/html, so it is no MCP server";
    assert_eq!(call_answered(html).await, line);
    let no_json =
        Answer::Whole(200, Vec::new(), b"{".to_vec()).with("content-type", "application/json");
    let line = "it answered something that is no MCP";
    assert_eq!(call_answered(no_json).await, line);
    let secret = json!({ "code": -32000, "message": format!("bad token {TOKEN}") });
    let secret = json!({ "jsonrpc": "2.0", "id": null, "error": secret });
    let line = "bad token [REDACTED] (-32000)";
    assert_eq!(call_answered(Answer::json(secret)).await, line);
    let limited = Answer::Whole(429, Vec::new(), Vec::new());
    assert_eq!(call_answered(limited).await, "it answered HTTP 429");
}

#[tokio::test]
async fn a_stream_that_breaks_off() {
    let half = Part::Bytes(b"data: {\"jsonrpc\":".to_vec());
    for parts in [vec![half.clone(), Part::Cut], vec![half], Vec::new()] {
        assert_eq!(
            call_answered(Answer::events(parts)).await,
            "its answer broke off"
        );
    }
    let why = call_answered(Answer::Close).await;
    assert!(why.starts_with("the connection broke off"), "{why}");
}

/// The crate takes up an answer again that has ids, and would try for minutes.
#[tokio::test]
async fn one_that_is_killed_in_the_middle_of_an_answer() {
    let server = McpHttp::start().bearer(TOKEN);
    let bench = Bench::with(legacy("a", server.url())).await;
    server.behave(|r| {
        let begun = Part::Bytes(b"id: 7\ndata: \n\n".to_vec());
        (r.method() == "tools/call").then(|| Answer::events([begun, Part::Gate("half")]))
    });
    let kill = async {
        server.reached("half").await;
        drop(server);
        Instant::now()
    };
    let (called, killed) = tokio::join!(bench.call("a", "echo", "{}"), kill);
    assert_eq!(failure(called), "its answer broke off");
    assert!(killed.elapsed() < Duration::from_secs(1));
    bench.end().await;
}

#[tokio::test]
async fn an_answer_to_something_that_nobody_asked() {
    let other = json!({ "jsonrpc": "2.0", "id": 9999, "result": text("x") });
    let line = "it answered another request than was sent";
    assert_eq!(call_answered(Answer::json(other.clone())).await, line);
    let streamed = Answer::events([Part::Event(other)]);
    assert_eq!(call_answered(streamed).await, "its answer broke off");
    let unasked = json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {
        "level": "emergency", "data": "\u{1b}[2Jhello",
    } });
    assert_eq!(call_answered(Answer::json(unasked)).await, line);
}

/// 100 MB and more of it: nothing of that size is kept.
#[tokio::test]
async fn answers_that_are_too_large() {
    let mib = || vec![b'x'; 1 << 20];
    let line = "its answer is larger than 16 MiB";
    let head = br#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":""#;
    let parts = vec![Part::Bytes(head.to_vec()), Part::Repeat(mib(), 100)];
    let json = Answer::Stream("application/json", parts);
    assert_eq!(call_answered(json).await, line);
    let parts = [Part::Bytes(b"data: ".to_vec()), Part::Repeat(mib(), 64)];
    assert_eq!(
        call_answered(Answer::events(parts)).await,
        "its answer broke off"
    );
}

#[tokio::test]
async fn a_result_that_is_large_is_cut() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| {
        (r.method() == "tools/call").then(|| r.result(text(&"word ".repeat(2_000_000))))
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    let called = bench.call("a", "echo", "{}").await.unwrap();
    assert!(called.text.len() <= 1 << 20);
    assert_eq!(called.bytes, 10_000_000);
    bench.end().await;
}

/// A server that goes and comes back is found again, with nobody's help.
#[tokio::test]
async fn one_that_is_restarted() {
    let server = McpHttp::start().bearer(TOKEN);
    let addr = server.addr();
    let bench = Bench::with(legacy("a", server.url())).await;
    drop(server);
    // The first may still go out on the connection that was.
    let mut why = String::new();
    while !why.starts_with("cannot connect") {
        why = failure(bench.call("a", "echo", "{}").await);
    }
    bench.until("a", Status::Failed).await;
    let catalog = bench.pool.catalog(PATIENCE).await;
    assert_eq!(catalog.tools.len(), 0);
    assert_eq!(catalog.without.len(), 1);
    let server = McpHttp::at(addr).bearer(TOKEN);
    bench.until("a", Status::Ready).await;
    bench.call("a", "echo", "{}").await.unwrap();
    bench.end().await;
    drop(server);
}

#[tokio::test]
async fn configurations_that_cannot_work() {
    for (url, line) in [
        ("nonsense", "its url is no URL"),
        (
            "ftp://x.example/",
            "its url is neither http:// nor https://",
        ),
        (
            "http://mcp.example/",
            "the key would cross the network in clear: use https://, or a numeric private address",
        ),
    ] {
        assert_eq!(error_of(Server::at("a", url)).await, line);
    }
}

/// What a server says unasked, and where: on the stream of a call, with any id.
#[tokio::test]
async fn a_server_that_chatters() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| {
        (r.method() == "tools/call").then(|| {
            let note = |method: &str, params: Value| {
                Part::Event(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            };
            Answer::events([
                Part::Bytes(b"event: endpoint\ndata: /x\n\ndata: no json\n\n".to_vec()),
                note(
                    "notifications/message",
                    json!({ "level": "alert", "data": TOKEN }),
                ),
                note("notifications/unknown", json!({})),
                note("notifications/cancelled", json!({ "requestId": 77 })),
                Part::Event(json!({ "jsonrpc": "2.0", "id": r.id(), "result": text("done") })),
            ])
        })
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    assert_eq!(bench.call("a", "echo", "{}").await.unwrap().text, "done");
    // In a log of its own, which is cut when it has grown too large.
    let log = bench.state.path().join("mcp-a.log");
    let begun = Instant::now();
    let said = loop {
        match std::fs::read_to_string(&log) {
            Ok(said) if !said.is_empty() => break said,
            _ => assert!(begun.elapsed() < PATIENCE, "nothing in its log"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(said.starts_with("[alert] "), "{said}");
    assert!(!said.contains(TOKEN), "{said}");
    bench.end().await;
}
