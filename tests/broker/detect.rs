//! Probing an endpoint, and detecting one on the first run.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Instant;

use aish::broker::autodetect::{DetectedModel, KnownLocalServer, detect};

use super::*;
use crate::fakes::provider::MODEL;

fn list(ids: &[&str]) -> Script {
    let data: Vec<_> = ids
        .iter()
        .map(|id| serde_json::json!({ "id": id }))
        .collect();
    Script::status(200, &serde_json::json!({ "data": data }).to_string())
}

#[tokio::test]
async fn probe_counts_the_models_and_finds_the_configured_one() {
    let provider = Provider::start([]).models(list(&["a", "llama:latest", "c"]));
    let mut endpoint = endpoint(&provider.base_url());
    for (model, there) in [("a", true), ("llama", true), ("b", false)] {
        endpoint.model = model.to_owned();
        let report = broker().probe(&endpoint).await.unwrap();
        assert_eq!(report.models.len(), 3);
        assert_eq!(report.has_model, there, "{model}");
        assert!(report.latency > Duration::ZERO);
    }
}

#[tokio::test]
async fn probe_distinguishes_a_rejected_key_from_a_wrong_address() {
    for (script, expected) in [
        (Script::status(401, "no"), "refuses access (401)"),
        (Script::status(404, "no"), "nothing at http://127.0.0.1:"),
        (
            Script::status(200, "<html>"),
            "something other than a list of models: <html>",
        ),
    ] {
        let provider = Provider::start([]).models(script);
        let error = broker()
            .probe(&endpoint(&provider.base_url()))
            .await
            .unwrap_err();
        assert!(error.message.contains(expected), "{error}");
        assert_eq!(error.key_rejected, expected.contains("401"));
        assert!(error.hint.is_some());
    }
}

async fn find(ports: &[u16]) -> Option<DetectedModel> {
    let names = ["first", "second", "third"];
    let locals: Vec<KnownLocalServer> = names
        .into_iter()
        .zip(ports)
        .map(|(name, port)| KnownLocalServer { name, port: *port })
        .collect();
    detect(&broker(), &BTreeMap::new(), &locals).await.unwrap()
}

#[tokio::test]
async fn first_server_with_a_chat_model_is_detected() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let embedder = Provider::start([]).models(list(&["nomic-embed-text"]));
    let chatter = Provider::start([]).models(list(&["bge-m3", "llama3.2", "qwen"]));
    let ports = [closed.port(), embedder.addr().port(), chatter.addr().port()];
    let found = find(&ports).await.unwrap();
    assert_eq!(found.name, "third");
    assert_eq!(found.endpoint.model, "llama3.2");
    assert_eq!(found.endpoint.base_url, chatter.base_url());
    assert_eq!(found.found_by, format!("third on {}", chatter.addr()));
}

#[tokio::test]
async fn detection_prefers_order_over_speed() {
    let (one, two) = (Provider::start([]), Provider::start([]));
    let found = find(&[two.addr().port(), one.addr().port()]).await.unwrap();
    assert_eq!(found.endpoint.base_url, two.base_url());
    assert_eq!(found.endpoint.model, MODEL);
}

#[tokio::test]
async fn open_port_without_http_is_not_detected() {
    // The kernel accepts connections into the backlog; nothing answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let page = Provider::start([]).models(Script::status(200, "<html>hello</html>"));
    let empty = Provider::start([]).models(list(&[]));
    let start = Instant::now();
    let ports = [
        silent.local_addr().unwrap().port(),
        page.addr().port(),
        empty.addr().port(),
    ];
    assert!(find(&ports).await.is_none());
    let took = start.elapsed();
    assert!(took < Duration::from_millis(900), "{took:?}");
}

fn openai_at(provider: &Provider) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("OPENAI_API_KEY".to_owned(), KEY.to_owned()),
        ("OPENAI_BASE_URL".to_owned(), provider.base_url()),
    ])
}

#[tokio::test]
async fn key_in_the_environment_precedes_local_servers() {
    let local = Provider::start([]);
    let locals = [KnownLocalServer {
        name: "local",
        port: local.addr().port(),
    }];
    let hosted = Provider::start([])
        .key(KEY)
        .models(list(&["tts-1", "mine"]));
    let found = detect(&broker(), &openai_at(&hosted), &locals)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.name, "openai");
    assert_eq!(found.endpoint.model, "mine");
    assert_eq!(local.connections(), 0);
}

#[tokio::test]
async fn provider_without_a_model_list_is_used() {
    let hosted = Provider::start([])
        .key(KEY)
        .models(Script::status(401, "bad key"));
    let found = detect(&broker(), &openai_at(&hosted), &[])
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.endpoint.key_name.as_deref(), Some("OPENAI_API_KEY"));
    assert!(!found.endpoint.model.is_empty());
}

#[tokio::test]
async fn nothing_is_detected_without_servers_and_keys() {
    assert!(
        detect(&broker(), &BTreeMap::new(), &[])
            .await
            .unwrap()
            .is_none()
    );
}

#[test]
fn fake_provider_detects_invalid_requests() {
    use std::io::{Read, Write};

    use serde_json::json;
    let provider = Provider::start([Script::tokens(["x"])]);
    let mut stream = std::net::TcpStream::connect(provider.addr()).unwrap();
    let body = json!({ "model": "", "tools": [], "top_k": 1, "messages": [
        { "role": "user", "content": "" },
        { "role": "tool", "content": "x", "tool_call_id": "1" },
        { "role": "assistant", "content": "x", "tool_calls": [
            { "id": "2", "type": "function", "function": { "name": "a b", "arguments": "{" } },
        ] },
        { "role": "user", "content": "x" },
        { "role": "assistant", "content": null, "tool_calls": [] },
    ] });
    let body = body.to_string();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let wrong = provider.take_violations().join("\n");
    for part in [
        "authorization",
        "accept-encoding",
        "user-agent",
        "content-type",
        "\"model\"",
        "\"tools\"",
        "\"top_k\"",
        "stream is missing",
        "message 0 is of \"user\" after \"\"",
        "message 0 has no content",
        "message 1 is the result of Some(\"1\"), not of None",
        "no tool can be named \"a b\"",
        "message 2: no such call is made",
        "no results for [\"2\"] in front of message 3",
        "message 4 has an empty list of calls",
        "the last message",
    ] {
        assert!(wrong.contains(part), "{part} in {wrong}");
    }
}
