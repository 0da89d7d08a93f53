//! Streamable HTTP with well-behaved servers, and workarounds for limits of `rmcp`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aish::mcp::{ElicitationRequest, ElicitationResponse};
use serde_json::{Value, json};

use super::*;
use crate::fakes::lmcp;
use crate::fakes::mcp_http::{BodyPart, FakeMcpServer, McpResponse, Request, text, tool};

#[tokio::test]
async fn lmcp_server_is_listed_called_and_ended() {
    let server = lmcp::start(TOKEN);
    let test = TestPool::with(ServerSettings::with_url("lmcp", server.url())).await;
    let catalog = test.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog), ["lmcp.greet", "lmcp.fail"]);
    let state = test.state("lmcp");
    assert_eq!(state.version.as_deref(), Some("lmcp 0.9"));
    assert_eq!(state.protocol.as_deref(), Some("2025-03-26"));
    assert_eq!((state.tools, state.status), (2, ConnectionStatus::Ready));

    let greeted = test.call("lmcp", "greet", r#"{"name":"you"}"#).await;
    assert_eq!(greeted.unwrap().text, "hello, you");
    let failed = test.call("lmcp", "fail", "{}").await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.text, "the handler failed");
    test.end().await;
    assert_eq!(server.count("DELETE"), 1);
}

/// `rmcp` reopens a stream that ends cleanly every second, forever.
#[tokio::test]
async fn stream_that_ends_at_once_is_not_reopened() {
    let server = lmcp::start(TOKEN);
    let test = TestPool::with(ServerSettings::with_url("lmcp", server.url())).await;
    server.asked("GET", 1).await;
    // Each round gives the client time to notice the end, and then fires the timer of a possible retry.
    for _ in 0..10 {
        test.call("lmcp", "greet", r#"{"name":"you"}"#)
            .await
            .unwrap();
        advance(Duration::from_millis(500)).await;
    }
    assert_eq!(server.count("GET"), 1);
    test.end().await;
}

/// With `retry: 0`, the client would reopen the stream hundreds of times during these calls.
#[tokio::test]
async fn stream_is_not_reopened_at_the_servers_retry_interval() {
    let server = FakeMcpServer::start().bearer(TOKEN).session("s-1");
    server.script(|r| {
        let ends = BodyPart::Bytes(b"retry: 0\ndata:\n\n".to_vec());
        (r.verb == "GET").then(|| McpResponse::events([ends]))
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    server.asked("GET", 1).await;
    for _ in 0..100 {
        test.call("a", "echo", "{}").await.unwrap();
    }
    assert_eq!(server.count("GET"), 1);
    test.end().await;
}

#[tokio::test]
async fn connections_are_reused() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let test = TestPool::with(legacy("a", server.url())).await;
    for _ in 0..20 {
        let called = test.call("a", "echo", r#"{"x":1}"#).await.unwrap();
        assert_eq!(called.text, r#"{"x":1}"#);
    }
    assert_eq!(server.connections(), 1);
    let requests = server.requests();
    assert!(requests.iter().all(|r| r.connection == 0));
    test.end().await;
}

/// `initialize` must not name a version without `initialize`; the fake checks it on each request.
#[tokio::test]
async fn initialize_names_the_last_version_with_initialize() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    for lifecycle in [HandshakeMode::Auto, HandshakeMode::Legacy] {
        let test = TestPool::with(ServerSettings {
            lifecycle,
            ..ServerSettings::with_url("a", server.url())
        });
        let test = test.await;
        assert_eq!(test.state("a").protocol.as_deref(), Some("2025-11-25"));
        test.end().await;
    }
    let of = |r: &Request| r.json["params"]["protocolVersion"].clone();
    let requests = server.requests();
    let begins = requests.iter().filter(|r| r.method() == "initialize");
    assert_eq!(
        begins.map(of).collect::<Vec<_>>(),
        ["2025-11-25", "2025-11-25"]
    );
    assert_eq!(server.count("server/discover"), 1);
}

#[tokio::test]
async fn modern_server_gets_no_initialize() {
    let server = FakeMcpServer::start().bearer(TOKEN).version("2026-07-28");
    for lifecycle in [HandshakeMode::Auto, HandshakeMode::Modern] {
        let test = TestPool::with(ServerSettings {
            lifecycle,
            ..ServerSettings::with_url("a", server.url())
        });
        let test = test.await;
        assert_eq!(test.state("a").protocol.as_deref(), Some("2026-07-28"));
        test.call("a", "echo", "{}").await.unwrap();
        test.end().await;
    }
    assert_eq!(server.count("initialize"), 0);
    let requests = server.requests();
    let call = requests
        .iter()
        .find(|r| r.method() == "tools/call")
        .unwrap();
    assert_eq!(call.header("mcp-method"), Some("tools/call"));
    assert_eq!(call.header("mcp-name"), Some("echo"));
}

/// `rmcp` sets no time limit for calls.
#[tokio::test]
async fn call_is_cancelled_at_its_time_limit() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| (r.method() == "tools/call").then_some(McpResponse::Hang));
    let test = TestPool::with(ServerSettings {
        timeout: Duration::from_millis(300),
        ..legacy("a", server.url())
    });
    let test = test.await;
    let begun = Instant::now();
    let why = failure(test.call("a", "echo", "{}").await);
    assert_eq!(why, "no answer within 0.3 s");
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_cancelled(&server).await;
    // The server stays connected.
    assert_eq!(test.state("a").status, ConnectionStatus::Ready);
    test.end().await;
}

async fn assert_cancelled(server: &FakeMcpServer) {
    server.asked("notifications/cancelled", 1).await;
    let requests = server.requests();
    let of = |method: &str| requests.iter().find(|r| r.method() == method).unwrap();
    let cancelled = &of("notifications/cancelled").json["params"]["requestId"];
    assert_eq!(*cancelled, of("tools/call").id());
}

#[tokio::test]
async fn cancelling_ends_a_call_at_once_and_notifies_the_server() {
    let server = FakeMcpServer::start().bearer(TOKEN).session("s-1");
    let open = BodyPart::Bytes(b": working\n\n".to_vec());
    for answer in [
        McpResponse::Hang,
        McpResponse::events([open, BodyPart::Gate("hang")]),
    ] {
        let given = answer.clone();
        server.script(move |r| (r.method() == "tools/call").then(|| given.clone()));
        let test = TestPool::with(legacy("a", server.url())).await;
        let cancel = CancellationToken::new();
        let (events, _kept) = mpsc::channel(8);
        let calls = server.count("tools/call");
        let call = test.call_with("a", "echo", "{}", &events, &cancel);
        let stop = async {
            server.asked("tools/call", calls + 1).await;
            cancel.cancel();
            Instant::now()
        };
        let (called, stopped) = tokio::join!(call, stop);
        assert_eq!(called, Err(CallError::Interrupted));
        assert!(stopped.elapsed() < Duration::from_millis(100));
        assert_cancelled(&server).await;
        test.end().await;
    }
}

/// Makes the server forget its session: calls in `s-1` get `refusal` until `initialize` opens `s-2`. Returns the number
/// of processed calls.
fn forget_session(server: &FakeMcpServer, refusal: McpResponse) -> Arc<AtomicUsize> {
    let processed = Arc::new(AtomicUsize::new(0));
    let (count, mut session) = (processed.clone(), 1);
    server.script(move |r| {
        match r.method() {
            "initialize" => session += 1,
            "tools/call" if r.header("mcp-session-id") == Some("s-1") => {
                return Some(refusal.clone());
            }
            "tools/call" => {
                count.fetch_add(1, Ordering::SeqCst);
                assert_eq!(r.header("mcp-session-id"), Some("s-2"));
            }
            _ => return None,
        }
        (r.method() == "initialize").then(|| {
            let info = json!({ "name": "fake", "version": "2" });
            r.result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info,
            }))
            .with("mcp-session-id", &format!("s-{session}"))
        })
    });
    processed
}

/// A restarted server answers 400 without an id, and `rmcp` would wait for the call's response forever.
#[tokio::test]
async fn lost_session_is_reopened_once() {
    let error = json!({ "code": -32000, "message": "Bad Request: No valid session ID provided" });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    for refusal in [
        McpResponse::status(400, body.clone()),
        McpResponse::status(404, body),
        McpResponse::Whole(404, Vec::new(), b"gone".to_vec()),
    ] {
        let server = FakeMcpServer::start().bearer(TOKEN).session("s-1");
        let test = TestPool::with(legacy("a", server.url())).await;
        let processed = forget_session(&server, refusal);
        let called = test.call("a", "echo", r#"{"x":2}"#).await.unwrap();
        assert_eq!(called.text, r#"{"x":2}"#);
        assert_eq!(processed.load(Ordering::SeqCst), 1);
        assert_eq!(server.count("initialize"), 2);
        test.end().await;
    }
}

#[tokio::test]
async fn session_lost_repeatedly_fails_the_call() {
    let server = FakeMcpServer::start().bearer(TOKEN).session("s-1");
    let test = TestPool::with(legacy("a", server.url())).await;
    server.script(|r| {
        (r.method() == "tools/call").then(|| McpResponse::Whole(404, Vec::new(), Vec::new()))
    });
    let why = failure(test.call("a", "echo", "{}").await);
    assert_eq!(why, "its session has ended");
    assert_eq!(server.count("tools/call"), 2);
    test.end().await;
}

#[tokio::test]
async fn error_without_an_id_answers_the_request() {
    let server = FakeMcpServer::start().bearer(TOKEN).session("s-1");
    let error = json!({ "code": -32603, "message": "out of\norder" });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    server.script(move |r| {
        (r.method() == "tools/call").then(|| McpResponse::status(400, body.clone()))
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let why = failure(test.call("a", "echo", "{}").await);
    assert_eq!(why, "out of order (-32603)");
    assert_eq!(server.count("initialize"), 1);
    test.end().await;
}

#[tokio::test]
async fn progress_is_one_line() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| {
        (r.method() == "tools/call").then(|| {
            let token = r.json["params"]["_meta"]["progressToken"].clone();
            let step = |rest: Value| {
                let mut params = json!({ "progressToken": token });
                params
                    .as_object_mut()
                    .unwrap()
                    .extend(rest.as_object().unwrap().clone());
                let method = "notifications/progress";
                BodyPart::Event(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            };
            McpResponse::events([
                step(json!({ "progress": 1, "total": 4 })),
                step(json!({ "progress": 2, "message": "half\n way" })),
                step(json!({ "progressToken": "another's", "progress": 3 })),
                BodyPart::Gate("progress"),
                BodyPart::Event(json!({ "jsonrpc": "2.0", "id": r.id(), "result": text("done") })),
            ])
        })
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let (events, mut received) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let call = test.call_with("a", "echo", "{}", &events, &cancel);
    let listen = async {
        let mut lines = Vec::new();
        while lines.len() < 2 {
            match received.recv().await {
                Some(CallEvent::Progress(line)) => lines.push(line),
                other => panic!("{other:?}"),
            }
        }
        server.open("progress");
        lines
    };
    let (called, mut lines) = tokio::join!(call, listen);
    assert_eq!(called.unwrap().text, "done");
    // Notifications are handled concurrently, so their order is not kept.
    lines.sort();
    assert_eq!(lines, ["1/4", "half way"]);
    drop(events);
    assert!(received.recv().await.is_none());
    test.end().await;
}

/// Sends a request from the server during a call. Returns the question that reached the person, and the response that the
/// server got.
async fn server_request(
    method: &'static str,
    params: Value,
    answer: Option<ElicitationResponse>,
) -> (Option<ElicitationRequest>, Value) {
    let server = FakeMcpServer::start().bearer(TOKEN);
    let got = Arc::new(Mutex::new(Value::Null));
    let keep = got.clone();
    server.script(move |r| {
        if r.verb == "POST" && r.json["id"] == "q-1" {
            *keep.lock().unwrap() = r.json.clone();
            return Some(McpResponse::accepted());
        }
        (r.method() == "tools/call").then(|| {
            let question =
                json!({ "jsonrpc": "2.0", "id": "q-1", "method": method, "params": params });
            McpResponse::events([
                BodyPart::Event(question),
                BodyPart::Gate("answered"),
                BodyPart::Event(json!({ "jsonrpc": "2.0", "id": r.id(), "result": text("done") })),
            ])
        })
    });
    let test = TestPool::with(ServerSettings {
        timeout: Duration::from_secs(20),
        ..legacy("a", server.url())
    });
    let test = test.await;
    let (events, mut received) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let call = test.call_with("a", "echo", "{}", &events, &cancel);
    let person = async {
        let mut asked = None;
        if let Some(answer) = answer {
            let Some(CallEvent::Elicit(elicit, reply)) = received.recv().await else {
                panic!("no question reached the person");
            };
            // The time that a person takes does not count as the server's. The call is polled first, to see the question.
            tokio::task::yield_now().await;
            advance(Duration::from_secs(60)).await;
            reply.send(answer).unwrap();
            asked = Some(elicit);
        }
        server.asked("POST", 1).await;
        server.open("answered");
        asked
    };
    let (called, asked) = tokio::join!(call, person);
    assert_eq!(called.unwrap().text, "done");
    test.end().await;
    let got = got.lock().unwrap().clone();
    (asked, got)
}

#[tokio::test]
async fn elicitation_reaches_the_person_of_the_call() {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "required": ["name"],
    });
    let params = json!({ "message": "Who are you?", "requestedSchema": schema });
    let said = ElicitationResponse::Accept(Some(json!({ "name": "me" })));
    let (asked, got) = server_request("elicitation/create", params.clone(), Some(said)).await;
    let asked = asked.unwrap();
    assert_eq!(
        (asked.server.as_str(), asked.message.as_str()),
        ("a", "Who are you?")
    );
    assert_eq!(asked.schema.unwrap()["required"], json!(["name"]));
    assert_eq!(
        got["result"],
        json!({ "action": "accept", "content": { "name": "me" } })
    );

    let (_, got) = server_request(
        "elicitation/create",
        params,
        Some(ElicitationResponse::Decline),
    )
    .await;
    assert_eq!(got["result"]["action"], "decline");

    let params = json!({
        "mode": "url", "message": "Log in", "url": "https://x.example/", "elicitationId": "e-1",
    });
    let (asked, got) = server_request(
        "elicitation/create",
        params,
        Some(ElicitationResponse::Cancel),
    )
    .await;
    assert_eq!(asked.unwrap().url.as_deref(), Some("https://x.example/"));
    assert_eq!(got["result"]["action"], "cancel");
}

/// The form shows the defaults; a field missing in the answer was left out by the person.
#[tokio::test]
async fn defaults_are_not_added_to_an_answer() {
    let schema = json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "root" },
        "all": { "type": "boolean", "default": true },
    }});
    let params = json!({ "message": "Who?", "requestedSchema": schema });
    let said = ElicitationResponse::Accept(Some(json!({ "name": "me" })));
    let (_, got) = server_request("elicitation/create", params, Some(said)).await;
    assert_eq!(got["result"]["content"], json!({ "name": "me" }));
}

#[tokio::test]
async fn oversized_questions_are_declined() {
    let large = "x".repeat(70 << 10);
    let form = json!({ "type": "object", "properties": {
        "a": { "type": "string", "description": large },
    }});
    let url = format!("https://x.example/{large}");
    for params in [
        json!({ "message": "Who?", "requestedSchema": form }),
        json!({ "mode": "url", "message": "Log in", "url": url, "elicitationId": "e-1" }),
    ] {
        let (_, got) = server_request("elicitation/create", params, None).await;
        assert_eq!(got["result"]["action"], "decline");
    }
}

/// A question on the stream of another request must not reach the person of the running call.
#[tokio::test]
async fn question_outside_a_call_is_declined() {
    let server = FakeMcpServer::start()
        .bearer(TOKEN)
        .session("s-1")
        .list_changes();
    let got = Arc::new(Mutex::new(Value::Null));
    let keep = got.clone();
    let mut lists = 0;
    server.script(move |r| {
        if r.verb == "POST" && r.json["id"] == "q-1" {
            *keep.lock().unwrap() = r.json.clone();
            return Some(McpResponse::accepted());
        }
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        let question = json!({ "jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create",
            "params": { "message": "Whose?", "requestedSchema": { "type": "object", "properties": {} } } });
        let done = |result: Value| json!({ "jsonrpc": "2.0", "id": r.id(), "result": result });
        match r.method() {
            "tools/call" => Some(McpResponse::events([
                BodyPart::Event(changed),
                BodyPart::Gate("answered"),
                BodyPart::Event(done(text("done"))),
            ])),
            "tools/list" => {
                lists += 1;
                (lists == 2).then(|| {
                    McpResponse::events([
                        BodyPart::Event(question),
                        BodyPart::Gate("answered"),
                        BodyPart::Event(done(json!({ "tools": [tool("echo")] }))),
                    ])
                })
            }
            _ => None,
        }
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let (events, mut received) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let call = test.call_with("a", "echo", "{}", &events, &cancel);
    let answered = async {
        // POST requests without a method are the client's responses.
        server.asked("POST", 1).await;
        server.open("answered");
    };
    let (called, ()) = tokio::join!(call, answered);
    assert_eq!(called.unwrap().text, "done");
    assert!(
        received.try_recv().is_err(),
        "the person of the call was asked"
    );
    assert_eq!(got.lock().unwrap()["result"]["action"], "decline");
    test.end().await;
}

#[tokio::test]
async fn unsupported_requests_are_refused() {
    let params = json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }],
        "maxTokens": 5,
    });
    for (method, params) in [
        ("sampling/createMessage", params),
        ("roots/list", json!({})),
        ("some/thing", json!({})),
    ] {
        let (_, got) = server_request(method, params, None).await;
        assert_eq!(got["error"]["code"], -32601, "{method}: {got}");
    }
}

/// In 2026-07-28 a question is a result, and its answer is sent with a second call.
#[tokio::test]
async fn modern_server_asks_with_an_input_required_result() {
    let server = FakeMcpServer::start().bearer(TOKEN).version("2026-07-28");
    server.script(|r| {
        let params = &r.json["params"];
        if r.method() != "tools/call" {
            return None;
        }
        if params["requestState"] == "st-1" {
            assert_eq!(params["arguments"], json!({ "x": 1 }));
            return Some(r.result(text(&params["inputResponses"]["who"].to_string())));
        }
        let schema = json!({ "type": "object", "properties": { "n": { "type": "string" } } });
        let params = json!({ "mode": "form", "message": "Who?", "requestedSchema": schema });
        Some(r.result(json!({
            "resultType": "input_required",
            "requestState": "st-1",
            "inputRequests": { "who": { "method": "elicitation/create", "params": params } },
        })))
    });
    let test = TestPool::with(ServerSettings::with_url("a", server.url())).await;
    let (events, mut received) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let call = test.call_with("a", "echo", r#"{"x":1}"#, &events, &cancel);
    let person = async {
        let Some(CallEvent::Elicit(elicit, reply)) = received.recv().await else {
            panic!("no question reached the person");
        };
        let said = ElicitationResponse::Accept(Some(json!({ "n": "me" })));
        reply.send(said).unwrap();
        elicit.message
    };
    let (called, message) = tokio::join!(call, person);
    assert_eq!(message, "Who?");
    let result: Value = serde_json::from_str(&called.unwrap().text).unwrap();
    assert_eq!(
        result,
        json!({ "action": "accept", "content": { "n": "me" } })
    );
    test.end().await;
}

#[tokio::test]
async fn changed_tool_list_is_fetched_again() {
    let server = FakeMcpServer::start()
        .bearer(TOKEN)
        .session("s-1")
        .list_changes();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    server.script(move |r| {
        (r.verb == "GET").then(|| {
            McpResponse::events([
                BodyPart::Bytes(b": hello\n\n".to_vec()),
                BodyPart::Gate("change"),
                BodyPart::Event(changed.clone()),
                BodyPart::Gate("never"),
            ])
        })
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    assert_eq!(names(&test.pool.catalog(PATIENCE).await), ["a.echo"]);
    server.reached("change").await;
    server.set_tools(json!([tool("echo"), tool("new")]));
    server.open("change");
    server.asked("tools/list", 2).await;
    test.until_tools("a", 2).await;
    assert_eq!(
        names(&test.pool.catalog(PATIENCE).await),
        ["a.echo", "a.new"]
    );
    test.end().await;
}

/// In 2026-07-28 a client has to subscribe to changes.
#[tokio::test]
async fn tool_changes_are_subscribed_to_at_a_modern_server() {
    let server = FakeMcpServer::start()
        .bearer(TOKEN)
        .version("2026-07-28")
        .list_changes();
    server.script(|r| {
        (r.method() == "subscriptions/listen").then(|| {
            assert_eq!(
                r.json["params"]["notifications"],
                json!({ "toolsListChanged": true })
            );
            let note = |method: &str, mut params: Value| {
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": r.id() });
                let method = format!("notifications/{method}");
                BodyPart::Event(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            };
            let granted = json!({ "notifications": { "toolsListChanged": true } });
            McpResponse::events([
                note("subscriptions/acknowledged", granted),
                BodyPart::Gate("change"),
                note("tools/list_changed", json!({})),
                BodyPart::Gate("never"),
            ])
        })
    });
    let test = TestPool::with(ServerSettings::with_url("a", server.url())).await;
    server.reached("change").await;
    server.set_tools(json!([tool("echo"), tool("new")]));
    server.open("change");
    test.until_tools("a", 2).await;
    assert_eq!(server.count("subscriptions/listen"), 1);
    test.end().await;
}

/// Frameworks redirect `/mcp` to `/mcp/`; another server must not receive the token.
#[tokio::test]
async fn redirect_is_followed_only_within_the_server() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| {
        let slash = r.path.ends_with('/');
        (!slash && r.verb == "POST")
            .then(|| McpResponse::Whole(307, Vec::new(), Vec::new()).with("location", "/mcp/"))
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    test.call("a", "echo", "{}").await.unwrap();
    test.end().await;

    let other = FakeMcpServer::start();
    let location = other.url();
    server.script(move |_| {
        Some(McpResponse::Whole(307, Vec::new(), Vec::new()).with("location", &location))
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let error = test.state("a").error.unwrap();
    assert_eq!(error, "it answered HTTP 307 Temporary Redirect");
    assert_eq!(other.requests().len(), 0);
    test.end().await;
}

#[tokio::test]
async fn shutdown_does_not_wait_for_a_hanging_delete() {
    let server = FakeMcpServer::start().bearer(TOKEN).session("s-1");
    server.script(|r| (r.verb == "DELETE").then_some(McpResponse::Hang));
    let test = TestPool::with(legacy("a", server.url())).await;
    let begun = Instant::now();
    test.pool.shutdown().await;
    assert!(
        begun.elapsed() < Duration::from_millis(900),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(server.count("DELETE"), 1);
    test.end().await;
}

#[tokio::test]
async fn resources_and_prompts_are_listed_and_read() {
    let server = FakeMcpServer::start().bearer(TOKEN);
    server.script(|r| {
        let params = &r.json["params"];
        Some(match r.method() {
            "resources/list" if params["cursor"].is_null() => r.result(json!({
                "resources": [{ "uri": "a:1", "name": "one" }], "nextCursor": "2",
            })),
            "resources/list" => r.result(json!({
                "resources": [{ "uri": "a:2", "name": "two", "mimeType": "text/plain" }],
            })),
            "resources/read" => r.result(json!({
                "contents": [{ "uri": params["uri"], "text": "it says so" }],
            })),
            "prompts/list" => r.result(json!({ "prompts": [
                { "name": "ask", "arguments": [{ "name": "what", "required": true }] },
            ] })),
            "prompts/get" => {
                let what = params["arguments"]["what"].as_str().unwrap();
                let content = json!({ "type": "text", "text": format!("Say {what}.") });
                r.result(json!({ "messages": [{ "role": "user", "content": content }] }))
            }
            _ => return None,
        })
    });
    let test = TestPool::with(legacy("a", server.url())).await;
    let cancel = CancellationToken::new();
    let resources = test.pool.resources(None, &cancel).await.unwrap();
    let uris: Vec<&str> = resources.iter().map(|r| r.uri.as_str()).collect();
    assert_eq!(uris, ["a:1", "a:2"]);
    let read = test.pool.resource("a", "a:1", 1000, &cancel).await;
    assert_eq!(read.unwrap(), "it says so");
    let prompts = test.pool.prompts(Some("a"), &cancel).await.unwrap();
    assert_eq!(prompts[0].name, "a.ask");
    assert_eq!(prompts[0].arguments, [("what".to_owned(), true)]);
    let arguments = [("what".to_owned(), "cheese".to_owned())];
    let prompt = test.pool.prompt("a", "ask", &arguments, &cancel).await;
    assert_eq!(prompt.unwrap(), "Say cheese.");
    let none = test.pool.prompts(Some("b"), &cancel).await.unwrap_err();
    assert_eq!(none.message, "no MCP server is called b");
    cancel.cancel();
    let stopped = test.pool.prompts(Some("a"), &cancel).await.unwrap_err();
    assert_eq!(stopped.kind, aish::error::ErrorKind::Interrupted);
    test.end().await;
}
