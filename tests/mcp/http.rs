//! Streamable HTTP as it should be, and the traps of the crate that speaks it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aish::mcp::{Elicit, Elicited};
use serde_json::{Value, json};

use super::*;
use crate::fakes::lmcp;
use crate::fakes::mcp_http::{Answer, McpHttp, Part, Request, text, tool};

#[tokio::test]
async fn lmcp_is_listed_called_and_left_alone() {
    let server = lmcp::start(TOKEN);
    let bench = Bench::with(Server::at("lmcp", server.url())).await;
    let catalog = bench.pool.catalog(PATIENCE).await;
    assert_eq!(names(&catalog), ["lmcp.greet", "lmcp.fail"]);
    let state = bench.state("lmcp");
    assert_eq!(state.version.as_deref(), Some("lmcp 0.9"));
    assert_eq!(state.protocol.as_deref(), Some("2025-03-26"));
    assert_eq!((state.tools, state.status), (2, Status::Ready));

    let greeted = bench.call("lmcp", "greet", r#"{"name":"you"}"#).await;
    assert_eq!(greeted.unwrap().text, "hello, you");
    let failed = bench.call("lmcp", "fail", "{}").await.unwrap();
    assert!(failed.is_error);
    assert_eq!(failed.text, "the handler failed");
    bench.end().await;
    assert_eq!(server.count("DELETE"), 1);
}

/// The crate opens a stream that ends cleanly again every second, for ever.
#[tokio::test]
async fn a_stream_that_ends_at_once_is_not_opened_again() {
    let server = lmcp::start(TOKEN);
    let bench = Bench::with(Server::at("lmcp", server.url())).await;
    server.asked("GET", 1).await;
    // The first would come after a second.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(server.count("GET"), 1);
    bench.end().await;
}

/// The same, where the server names the pause itself: hundreds would come during these calls.
#[tokio::test]
async fn nor_when_the_server_asks_for_it() {
    let server = McpHttp::start().bearer(TOKEN).session("s-1");
    server.behave(|r| {
        let ends = Part::Bytes(b"retry: 0\ndata:\n\n".to_vec());
        (r.verb == "GET").then(|| Answer::events([ends]))
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    server.asked("GET", 1).await;
    for _ in 0..100 {
        bench.call("a", "echo", "{}").await.unwrap();
    }
    assert_eq!(server.count("GET"), 1);
    bench.end().await;
}

#[tokio::test]
async fn connections_are_kept_warm() {
    let server = McpHttp::start().bearer(TOKEN);
    let bench = Bench::with(legacy("a", server.url())).await;
    for _ in 0..20 {
        let called = bench.call("a", "echo", r#"{"x":1}"#).await.unwrap();
        assert_eq!(called.text, r#"{"x":1}"#);
    }
    assert_eq!(server.connections(), 1);
    let requests = server.requests();
    assert!(requests.iter().all(|r| r.connection == 0));
    bench.end().await;
}

/// A legacy `initialize` must not name a version that has none; the fake checks it on each.
#[tokio::test]
async fn an_initialize_names_the_last_version_that_has_one() {
    let server = McpHttp::start().bearer(TOKEN);
    for lifecycle in [Lifecycle::Auto, Lifecycle::Legacy] {
        let bench = Bench::with(Server {
            lifecycle,
            ..Server::at("a", server.url())
        });
        let bench = bench.await;
        assert_eq!(bench.state("a").protocol.as_deref(), Some("2025-11-25"));
        bench.end().await;
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
async fn a_modern_server_needs_no_initialize() {
    let server = McpHttp::start().bearer(TOKEN).version("2026-07-28");
    for lifecycle in [Lifecycle::Auto, Lifecycle::Modern] {
        let bench = Bench::with(Server {
            lifecycle,
            ..Server::at("a", server.url())
        });
        let bench = bench.await;
        assert_eq!(bench.state("a").protocol.as_deref(), Some("2026-07-28"));
        bench.call("a", "echo", "{}").await.unwrap();
        bench.end().await;
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

/// Calls have no time limit of their own.
#[tokio::test]
async fn a_call_that_never_returns_is_given_up_and_cancelled() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| (r.method() == "tools/call").then_some(Answer::Hang));
    let bench = Bench::with(Server {
        timeout: Duration::from_millis(300),
        ..legacy("a", server.url())
    });
    let bench = bench.await;
    let begun = Instant::now();
    let why = failure(bench.call("a", "echo", "{}").await);
    assert_eq!(why, "no answer within 0.3 s");
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_cancelled(&server).await;
    // The server is not lost for it.
    assert_eq!(bench.state("a").status, Status::Ready);
    bench.end().await;
}

async fn assert_cancelled(server: &McpHttp) {
    server.asked("notifications/cancelled", 1).await;
    let requests = server.requests();
    let of = |method: &str| requests.iter().find(|r| r.method() == method).unwrap();
    let cancelled = &of("notifications/cancelled").json["params"]["requestId"];
    assert_eq!(*cancelled, of("tools/call").id());
}

#[tokio::test]
async fn ctrl_c_ends_a_call_at_once_and_the_server_is_told() {
    let server = McpHttp::start().bearer(TOKEN).session("s-1");
    let open = Part::Bytes(b": working\n\n".to_vec());
    for answer in [Answer::Hang, Answer::events([open, Part::Gate("hang")])] {
        let given = answer.clone();
        server.behave(move |r| (r.method() == "tools/call").then(|| given.clone()));
        let bench = Bench::with(legacy("a", server.url())).await;
        let cancel = CancellationToken::new();
        let (events, _kept) = mpsc::channel(8);
        let calls = server.count("tools/call");
        let call = bench.call_with("a", "echo", "{}", &events, &cancel);
        let stop = async {
            server.asked("tools/call", calls + 1).await;
            cancel.cancel();
            Instant::now()
        };
        let (called, stopped) = tokio::join!(call, stop);
        assert_eq!(called, Err(CallError::Interrupted));
        assert!(stopped.elapsed() < Duration::from_millis(100));
        assert_cancelled(&server).await;
        bench.end().await;
    }
}

/// A server that answers so after `initialize`, once it has been restarted.
fn restarted(server: &McpHttp, refusal: Answer) -> Arc<AtomicUsize> {
    let processed = Arc::new(AtomicUsize::new(0));
    let (count, mut session) = (processed.clone(), 1);
    server.behave(move |r| {
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

/// A server that was restarted answers 400 without an id, and the crate lets the call hang for ever.
#[tokio::test]
async fn a_session_lost_by_a_restart_is_begun_anew_once() {
    let error = json!({ "code": -32000, "message": "Bad Request: No valid session ID provided" });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    for refusal in [
        Answer::status(400, body.clone()),
        Answer::status(404, body),
        Answer::Whole(404, Vec::new(), b"gone".to_vec()),
    ] {
        let server = McpHttp::start().bearer(TOKEN).session("s-1");
        let bench = Bench::with(legacy("a", server.url())).await;
        let processed = restarted(&server, refusal);
        let called = bench.call("a", "echo", r#"{"x":2}"#).await.unwrap();
        assert_eq!(called.text, r#"{"x":2}"#);
        assert_eq!(processed.load(Ordering::SeqCst), 1);
        assert_eq!(server.count("initialize"), 2);
        bench.end().await;
    }
}

#[tokio::test]
async fn a_server_that_loses_every_session_is_not_asked_for_ever() {
    let server = McpHttp::start().bearer(TOKEN).session("s-1");
    let bench = Bench::with(legacy("a", server.url())).await;
    server.behave(|r| {
        (r.method() == "tools/call").then(|| Answer::Whole(404, Vec::new(), Vec::new()))
    });
    let why = failure(bench.call("a", "echo", "{}").await);
    assert_eq!(why, "its session has ended");
    assert_eq!(server.count("tools/call"), 2);
    bench.end().await;
}

#[tokio::test]
async fn an_error_without_an_id_is_the_answer_to_what_was_asked() {
    let server = McpHttp::start().bearer(TOKEN).session("s-1");
    let error = json!({ "code": -32603, "message": "out of\norder" });
    let body = json!({ "jsonrpc": "2.0", "id": null, "error": error });
    server.behave(move |r| (r.method() == "tools/call").then(|| Answer::status(400, body.clone())));
    let bench = Bench::with(legacy("a", server.url())).await;
    let why = failure(bench.call("a", "echo", "{}").await);
    assert_eq!(why, "out of order (-32603)");
    assert_eq!(server.count("initialize"), 1);
    bench.end().await;
}

#[tokio::test]
async fn progress_is_told_in_a_line() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| {
        (r.method() == "tools/call").then(|| {
            let token = r.json["params"]["_meta"]["progressToken"].clone();
            let step = |rest: Value| {
                let mut params = json!({ "progressToken": token });
                params
                    .as_object_mut()
                    .unwrap()
                    .extend(rest.as_object().unwrap().clone());
                let method = "notifications/progress";
                Part::Event(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            };
            Answer::events([
                step(json!({ "progress": 1, "total": 4 })),
                step(json!({ "progress": 2, "message": "half\n way" })),
                step(json!({ "progressToken": "another's", "progress": 3 })),
                Part::Gate("told"),
                Part::Event(json!({ "jsonrpc": "2.0", "id": r.id(), "result": text("done") })),
            ])
        })
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    let (events, mut told) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let call = bench.call_with("a", "echo", "{}", &events, &cancel);
    let listen = async {
        let mut lines = Vec::new();
        while lines.len() < 2 {
            match told.recv().await {
                Some(CallEvent::Progress(line)) => lines.push(line),
                other => panic!("{other:?}"),
            }
        }
        server.open("told");
        lines
    };
    let (called, mut lines) = tokio::join!(call, listen);
    assert_eq!(called.unwrap().text, "done");
    // Notifications are handled side by side, so that their order is not kept.
    lines.sort();
    assert_eq!(lines, ["1/4", "half way"]);
    drop(events);
    assert!(told.recv().await.is_none());
    bench.end().await;
}

/// What the server asks in the course of a call, and what it got for it.
async fn asks_back(
    method: &'static str,
    params: Value,
    answer: Option<Elicited>,
) -> (Option<Elicit>, Value) {
    let server = McpHttp::start().bearer(TOKEN);
    let got = Arc::new(Mutex::new(Value::Null));
    let keep = got.clone();
    server.behave(move |r| {
        if r.verb == "POST" && r.json["id"] == "q-1" {
            *keep.lock().unwrap() = r.json.clone();
            return Some(Answer::accepted());
        }
        (r.method() == "tools/call").then(|| {
            let question =
                json!({ "jsonrpc": "2.0", "id": "q-1", "method": method, "params": params });
            Answer::events([
                Part::Event(question),
                Part::Gate("answered"),
                Part::Event(json!({ "jsonrpc": "2.0", "id": r.id(), "result": text("done") })),
            ])
        })
    });
    let bench = Bench::with(Server {
        timeout: Duration::from_millis(400),
        ..legacy("a", server.url())
    });
    let bench = bench.await;
    let (events, mut told) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let call = bench.call_with("a", "echo", "{}", &events, &cancel);
    let person = async {
        let mut asked = None;
        if let Some(answer) = answer {
            let Some(CallEvent::Elicit(elicit, reply)) = told.recv().await else {
                panic!("nobody was asked");
            };
            // A person may take longer than the server may.
            tokio::time::sleep(Duration::from_millis(600)).await;
            reply.send(answer).unwrap();
            asked = Some(elicit);
        }
        server.asked("POST", 1).await;
        server.open("answered");
        asked
    };
    let (called, asked) = tokio::join!(call, person);
    assert_eq!(called.unwrap().text, "done");
    bench.end().await;
    let got = got.lock().unwrap().clone();
    (asked, got)
}

#[tokio::test]
async fn a_server_asks_the_person_in_whose_call_it_asks() {
    let schema = json!({
        "type": "object",
        "properties": { "name": { "type": "string" } },
        "required": ["name"],
    });
    let params = json!({ "message": "Who are you?", "requestedSchema": schema });
    let said = Elicited::Accept(Some(json!({ "name": "me" })));
    let (asked, got) = asks_back("elicitation/create", params.clone(), Some(said)).await;
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

    let (_, got) = asks_back("elicitation/create", params, Some(Elicited::Decline)).await;
    assert_eq!(got["result"]["action"], "decline");

    let params = json!({
        "mode": "url", "message": "Log in", "url": "https://x.example/", "elicitationId": "e-1",
    });
    let (asked, got) = asks_back("elicitation/create", params, Some(Elicited::Cancel)).await;
    assert_eq!(asked.unwrap().url.as_deref(), Some("https://x.example/"));
    assert_eq!(got["result"]["action"], "cancel");
}

/// The form has shown the defaults; what is not in its answer, the person has left out.
#[tokio::test]
async fn a_server_gets_what_the_person_saw_and_no_default_of_its_own() {
    let schema = json!({ "type": "object", "properties": {
        "name": { "type": "string", "default": "root" },
        "all": { "type": "boolean", "default": true },
    }});
    let params = json!({ "message": "Who?", "requestedSchema": schema });
    let said = Elicited::Accept(Some(json!({ "name": "me" })));
    let (_, got) = asks_back("elicitation/create", params, Some(said)).await;
    assert_eq!(got["result"]["content"], json!({ "name": "me" }));
}

#[tokio::test]
async fn what_no_person_could_read_is_declined() {
    let large = "x".repeat(70 << 10);
    let form = json!({ "type": "object", "properties": {
        "a": { "type": "string", "description": large },
    }});
    let url = format!("https://x.example/{large}");
    for params in [
        json!({ "message": "Who?", "requestedSchema": form }),
        json!({ "mode": "url", "message": "Log in", "url": url, "elicitationId": "e-1" }),
    ] {
        let (_, got) = asks_back("elicitation/create", params, None).await;
        assert_eq!(got["result"]["action"], "decline");
    }
}

/// On the stream of a request that is no call, or is one no more: whoever calls now is somebody else.
#[tokio::test]
async fn a_question_on_another_requests_stream_is_nobodys() {
    let server = McpHttp::start().bearer(TOKEN).session("s-1").list_changes();
    let got = Arc::new(Mutex::new(Value::Null));
    let keep = got.clone();
    let mut lists = 0;
    server.behave(move |r| {
        if r.verb == "POST" && r.json["id"] == "q-1" {
            *keep.lock().unwrap() = r.json.clone();
            return Some(Answer::accepted());
        }
        let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
        let question = json!({ "jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create",
            "params": { "message": "Whose?", "requestedSchema": { "type": "object", "properties": {} } } });
        let done = |result: Value| json!({ "jsonrpc": "2.0", "id": r.id(), "result": result });
        match r.method() {
            "tools/call" => Some(Answer::events([
                Part::Event(changed),
                Part::Gate("answered"),
                Part::Event(done(text("done"))),
            ])),
            "tools/list" => {
                lists += 1;
                (lists == 2).then(|| {
                    Answer::events([
                        Part::Event(question),
                        Part::Gate("answered"),
                        Part::Event(done(json!({ "tools": [tool("echo")] }))),
                    ])
                })
            }
            _ => None,
        }
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    let (events, mut told) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let call = bench.call_with("a", "echo", "{}", &events, &cancel);
    let answered = async {
        let begun = Instant::now();
        while got.lock().unwrap().is_null() && told.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "no answer");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        server.open("answered");
    };
    let (called, ()) = tokio::join!(call, answered);
    assert_eq!(called.unwrap().text, "done");
    assert!(told.try_recv().is_err(), "the person of the call was asked");
    assert_eq!(got.lock().unwrap()["result"]["action"], "decline");
    bench.end().await;
}

#[tokio::test]
async fn what_is_not_done_here_is_declined() {
    let params = json!({
        "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }],
        "maxTokens": 5,
    });
    for (method, params) in [
        ("sampling/createMessage", params),
        ("roots/list", json!({})),
        ("some/thing", json!({})),
    ] {
        let (_, got) = asks_back(method, params, None).await;
        assert_eq!(got["error"]["code"], -32601, "{method}: {got}");
    }
}

/// In 2026-07-28 a question is a result, and the answer a second call.
#[tokio::test]
async fn a_modern_server_asks_back_with_a_result() {
    let server = McpHttp::start().bearer(TOKEN).version("2026-07-28");
    server.behave(|r| {
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
    let bench = Bench::with(Server::at("a", server.url())).await;
    let (events, mut told) = mpsc::channel(8);
    let cancel = CancellationToken::new();
    let call = bench.call_with("a", "echo", r#"{"x":1}"#, &events, &cancel);
    let person = async {
        let Some(CallEvent::Elicit(elicit, reply)) = told.recv().await else {
            panic!("nobody was asked");
        };
        let said = Elicited::Accept(Some(json!({ "n": "me" })));
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
    bench.end().await;
}

#[tokio::test]
async fn a_changed_list_is_read_again() {
    let server = McpHttp::start().bearer(TOKEN).session("s-1").list_changes();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    server.behave(move |r| {
        (r.verb == "GET").then(|| {
            Answer::events([
                Part::Bytes(b": hello\n\n".to_vec()),
                Part::Gate("change"),
                Part::Event(changed.clone()),
                Part::Gate("never"),
            ])
        })
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    assert_eq!(names(&bench.pool.catalog(PATIENCE).await), ["a.echo"]);
    server.reached("change").await;
    server.set_tools(json!([tool("echo"), tool("new")]));
    server.open("change");
    server.asked("tools/list", 2).await;
    bench.until_tools("a", 2).await;
    assert_eq!(
        names(&bench.pool.catalog(PATIENCE).await),
        ["a.echo", "a.new"]
    );
    bench.end().await;
}

/// In 2026-07-28 changes are told to those who asked to be told.
#[tokio::test]
async fn a_modern_server_is_asked_to_tell_of_changes() {
    let server = McpHttp::start()
        .bearer(TOKEN)
        .version("2026-07-28")
        .list_changes();
    server.behave(|r| {
        (r.method() == "subscriptions/listen").then(|| {
            assert_eq!(
                r.json["params"]["notifications"],
                json!({ "toolsListChanged": true })
            );
            let note = |method: &str, mut params: Value| {
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": r.id() });
                let method = format!("notifications/{method}");
                Part::Event(json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            };
            let granted = json!({ "notifications": { "toolsListChanged": true } });
            Answer::events([
                note("subscriptions/acknowledged", granted),
                Part::Gate("change"),
                note("tools/list_changed", json!({})),
                Part::Gate("never"),
            ])
        })
    });
    let bench = Bench::with(Server::at("a", server.url())).await;
    server.reached("change").await;
    server.set_tools(json!([tool("echo"), tool("new")]));
    server.open("change");
    bench.until_tools("a", 2).await;
    assert_eq!(server.count("subscriptions/listen"), 1);
    bench.end().await;
}

/// Frameworks redirect `/mcp` to `/mcp/`; another server must not see the token.
#[tokio::test]
async fn a_redirect_is_followed_within_the_server_alone() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| {
        let slash = r.path.ends_with('/');
        (!slash && r.verb == "POST")
            .then(|| Answer::Whole(307, Vec::new(), Vec::new()).with("location", "/mcp/"))
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    bench.call("a", "echo", "{}").await.unwrap();
    bench.end().await;

    let other = McpHttp::start();
    let location = other.url();
    server.behave(move |_| {
        Some(Answer::Whole(307, Vec::new(), Vec::new()).with("location", &location))
    });
    let bench = Bench::with(legacy("a", server.url())).await;
    let error = bench.state("a").error.unwrap();
    assert_eq!(error, "it answered HTTP 307 Temporary Redirect");
    assert_eq!(other.requests().len(), 0);
    bench.end().await;
}

#[tokio::test]
async fn a_server_that_does_not_hear_the_farewell_holds_nothing_up() {
    let server = McpHttp::start().bearer(TOKEN).session("s-1");
    server.behave(|r| (r.verb == "DELETE").then_some(Answer::Hang));
    let bench = Bench::with(legacy("a", server.url())).await;
    let begun = Instant::now();
    bench.pool.shutdown().await;
    assert!(
        begun.elapsed() < Duration::from_millis(900),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(server.count("DELETE"), 1);
    bench.end().await;
}

#[tokio::test]
async fn resources_and_prompts_are_read() {
    let server = McpHttp::start().bearer(TOKEN);
    server.behave(|r| {
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
    let bench = Bench::with(legacy("a", server.url())).await;
    let cancel = CancellationToken::new();
    let resources = bench.pool.resources(None, &cancel).await.unwrap();
    let uris: Vec<&str> = resources.iter().map(|r| r.uri.as_str()).collect();
    assert_eq!(uris, ["a:1", "a:2"]);
    let read = bench.pool.resource("a", "a:1", 1000, &cancel).await;
    assert_eq!(read.unwrap(), "it says so");
    let prompts = bench.pool.prompts(Some("a"), &cancel).await.unwrap();
    assert_eq!(prompts[0].name, "a.ask");
    assert_eq!(prompts[0].arguments, [("what".to_owned(), true)]);
    let arguments = [("what".to_owned(), "cheese".to_owned())];
    let prompt = bench.pool.prompt("a", "ask", &arguments, &cancel).await;
    assert_eq!(prompt.unwrap(), "Say cheese.");
    let none = bench.pool.prompts(Some("b"), &cancel).await.unwrap_err();
    assert_eq!(none.message, "no MCP server is called b");
    cancel.cancel();
    let stopped = bench.pool.prompts(Some("a"), &cancel).await.unwrap_err();
    assert_eq!(stopped.kind, aish::error::Kind::Interrupted);
    bench.end().await;
}
