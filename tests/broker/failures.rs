//! Failures and their error messages.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::*;
use crate::fakes::provider::{finish_event, text_event};
use crate::fakes::tls;

async fn ask_at(base_url: &str) -> String {
    ask(&broker(), &endpoint(base_url)).await.error()
}

#[tokio::test]
async fn connection_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    for user in ["", "user:pass@"] {
        let error = ask_at(&format!("http://{user}{addr}/v1?key=secret")).await;
        let expected = format!("cannot connect to {addr}: connection refused\n");
        assert!(error.starts_with(&expected), "{error}");
        assert!(!error.contains("secret") && !error.contains("pass"));
    }
}

#[tokio::test]
async fn unknown_host() {
    let error = ask_at("http://no-such-host.invalid/v1").await;
    assert!(
        error.starts_with("cannot find the host no-such-host.invalid\n"),
        "{error}"
    );
}

#[tokio::test]
async fn untrusted_certificate() {
    let addr = tls::self_signed();
    let error = ask_at(&format!("https://{addr}/v1")).await;
    let expected = format!("no secure connection to {addr}: its certificate is not trusted");
    assert!(error.starts_with(&expected), "{error}");
}

#[tokio::test]
async fn https_to_an_http_server() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let read = stream.read(&mut [0; 4096]).unwrap();
        assert!(read > 0);
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
    });
    let error = ask_at(&format!("https://{addr}/v1")).await;
    assert!(
        error.starts_with(&format!("{addr} does not speak TLS\n")),
        "{error}"
    );
    assert!(error.contains("http://"), "{error}");
    server.join().unwrap();
}

#[tokio::test]
async fn invalid_base_url() {
    let outcome = ask(&broker(), &endpoint("localhost:8080/v1")).await;
    assert!(outcome.error().contains("neither http nor https"));
    assert_eq!(
        outcome.result.unwrap_err().kind,
        aish::error::ErrorKind::Config
    );
}

#[tokio::test]
async fn rejected_key_is_named_but_not_shown() {
    for code in [401, 403] {
        let echo = format!(r#"{{"error":{{"message":"Incorrect API key provided: {KEY}."}}}}"#);
        let provider = Provider::start([Script::status(code, &echo)]).key(KEY);
        let mut endpoint = endpoint(&provider.base_url());
        endpoint.key = Some(Secret::new(KEY));
        endpoint.key_name = Some("SOME_API_KEY".to_owned());
        let error = ask(&broker(), &endpoint).await.error();
        assert!(
            error.contains("[REDACTED]") && error.contains(&code.to_string()),
            "{error}"
        );
        assert!(error.contains("SOME_API_KEY"), "{error}");
    }
}

#[tokio::test]
async fn missing_key_is_requested() {
    let error = ask_once(Script::status(401, "")).await.error();
    assert!(error.contains("key_env"), "{error}");
}

#[tokio::test]
async fn unknown_model() {
    let body =
        r#"{"error":{"message":"The model `test-model` does not exist","code":"model_not_found"}}"#;
    let error = ask_once(Script::status(404, body)).await.error();
    assert!(error.contains("has no model test-model (404)"), "{error}");
    assert!(error.contains("aish-helper model refresh"), "{error}");
}

#[tokio::test]
async fn unknown_path() {
    let error = ask_once(Script::status(404, "<html><title>404 Not\nFound</title>"))
        .await
        .error();
    assert!(
        error.contains("/v1/chat/completions (404): 404 Not Found"),
        "{error}"
    );
    assert!(error.contains("usually ends in /v1"), "{error}");
}

#[tokio::test]
async fn conversation_too_long() {
    let body = r#"{"error":{"message":"This model's maximum context length is 4096 tokens"}}"#;
    for (code, body) in [(400, body), (413, "")] {
        let error = ask_once(Script::status(code, body)).await.error();
        assert!(error.contains("the prompt is too long for"), "{error}");
        assert!(error.contains("shorten the prompt"), "{error}");
    }
}

#[tokio::test]
async fn missing_credit_is_not_retried() {
    let body = r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#;
    let error = ask_once(Script::status(429, body)).await.error();
    assert!(error.contains("no credit"), "{error}");
}

#[tokio::test]
async fn redirect_is_not_followed() {
    let elsewhere = Provider::start([]);
    let location = format!("{}/chat/completions?token=secret", elsewhere.base_url());
    for code in [301, 302, 307, 308] {
        let script = Script::Status(code, vec![("location", location.clone())], Vec::new());
        let error = ask_once(script).await.error();
        assert!(error.contains(&elsewhere.base_url()), "{error}");
        assert!(
            error.contains("not followed") && !error.contains("secret"),
            "{error}"
        );
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[tokio::test]
async fn large_error_body_is_not_read_completely() {
    let script = Script::Raw(vec![
        "HTTP/1.1 400 Bad\r\ncontent-length: 1000000000\r\n\r\n".into(),
        Part::Repeat(vec![b'x'; 64 * 1024], 4),
        Part::Gate("never"),
    ]);
    let error = ask_once(script).await.error();
    assert!(error.contains("rejects the request (400): xxxx"), "{error}");
}

#[tokio::test]
async fn html_instead_of_an_answer() {
    let page = "\n<!DOCTYPE html>\x1b[31m\n<p>hi</p>";
    for script in [
        Script::Body("text/html", vec![page.into()]),
        Script::Body("text/event-stream", vec![page.into()]),
    ] {
        let error = ask_once(script).await.error();
        assert!(
            error.contains("something other than an answer: <!DOCTYPE html> [31m\n"),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn other_bodies_instead_of_an_answer() {
    for (body, expected) in [
        (
            "upstream is overloaded\nsorry",
            ": upstream is overloaded\n",
        ),
        ("{\"broken\": ", ": {\"broken\":\n"),
        ("[1, 2]", ": [1, 2]\n"),
    ] {
        let error = ask_once(Script::Body("text/plain", vec![body.into()]))
            .await
            .error();
        assert!(error.contains(expected), "{error:?}");
    }
}

#[tokio::test]
async fn error_object_with_status_200() {
    let error = ask_once(Script::status(200, r#"{"error":{"message":"no GPU"}}"#))
        .await
        .error();
    assert!(error.contains("reports an error: no GPU"), "{error}");
}

#[tokio::test]
async fn endless_body_without_events_is_abandoned() {
    for start in ["<html>", "garbage ", "\n"] {
        let script = Script::Body(
            "text/plain",
            vec![
                start.into(),
                Part::Repeat(start.repeat(10_000).into(), 100),
                Part::Gate("never"),
            ],
        );
        let error = ask_once(script).await.error();
        assert!(error.contains("something other than an answer"), "{error}");
    }
}

/// The result of an answer that contains "kept" and then fails.
async fn fails_after_text(parts: impl IntoIterator<Item = Part>) -> String {
    let mut all = vec![Part::from(text_event("kept").as_str())];
    all.extend(parts);
    let outcome = ask_events(all).await;
    assert_eq!(outcome.text(), "kept");
    assert!(
        !outcome
            .chunks
            .iter()
            .any(|c| matches!(c, StreamItem::Done(_)))
    );
    outcome.error()
}

#[tokio::test]
async fn event_that_is_not_json() {
    let error = fails_after_text(["data: {\"choices\": [oops\n\n".into()]).await;
    assert!(error.contains("not JSON: {\"choices\": [oops"), "{error}");
}

#[tokio::test]
async fn line_of_64_mib() {
    let part = Part::Repeat(vec![b'x'; 64 * 1024], 1024);
    let error = fails_after_text(["data: ".into(), part.clone()]).await;
    assert!(error.contains("a line longer than 8 MiB"), "{error}");
    let error = ask_events(["data: ".into(), part]).await.error();
    assert!(error.contains("a line longer than 8 MiB"), "{error}");
}

#[tokio::test]
async fn compressed_answer_is_not_decompressed() {
    let script = Script::Status(
        200,
        vec![
            ("content-type", "text/event-stream".to_owned()),
            ("content-encoding", "gzip".to_owned()),
        ],
        vec![0x1F, 0x8B, 8, 0],
    );
    let error = ask_once(script).await.error();
    assert!(error.contains("compresses its answer (gzip)"), "{error}");
}

#[tokio::test]
async fn connection_closed_inside_an_event() {
    for client in CLIENTS {
        let (kept, lost) = (text_event("kept"), text_event("lost"));
        let parts = [kept.as_str().into(), lost[..40].into(), Part::Cut];
        let provider = Provider::start([Script::events(parts)]).key(KEY);
        let outcome = ask(&broker(), &client(&provider)).await;
        assert_eq!(outcome.text(), "kept");
        let error = outcome.error();
        assert!(error.contains("the answer was cut off"), "{error}");
        assert!(error.contains("is kept"), "{error}");
    }
}

#[tokio::test]
async fn body_that_ends_too_early() {
    let half = &text_event("lost")[..40];
    for rest in [vec![], vec![half.into()]] {
        let error = fails_after_text(rest).await;
        assert!(error.contains("the answer was cut off"), "{error}");
    }
}

#[tokio::test]
async fn error_during_an_answer() {
    for event in [
        "data: {\"error\":{\"message\":\"out of memory\"}}\n\n",
        "event: error\ndata: out of memory\n\n",
    ] {
        let error = fails_after_text([event.into()]).await;
        assert!(error.contains("reports an error: out of memory"), "{error}");
    }
}

#[tokio::test]
async fn key_in_an_error_during_an_answer_is_masked() {
    let event = format!("data: {{\"error\":\"bad {KEY}\"}}\n\n");
    let provider = Provider::start([Script::events([event.as_str()])]).key(KEY);
    let mut endpoint = endpoint(&provider.base_url());
    endpoint.key = Some(Secret::new(KEY));
    let error = ask(&broker(), &endpoint).await.error();
    assert!(error.contains("bad [REDACTED]"), "{error}");
}

#[tokio::test]
async fn silence_before_and_during_an_answer() {
    let stuck = [Part::from(text_event("kept").as_str()), Part::Gate("never")];
    for (script, kept) in [(Script::Hang, ""), (Script::events(stuck), "kept")] {
        let provider = Provider::start([script]);
        let mut endpoint = endpoint(&provider.base_url());
        endpoint.idle_timeout = Duration::from_millis(200);
        let outcome = ask(&broker(), &endpoint).await;
        assert_eq!(outcome.text(), kept);
        assert!(outcome.error().contains("silent for 0.2 s"), "{outcome:?}");
    }
}

#[tokio::test]
async fn empty_answers() {
    let thought = text_event("hm").replace("\"content\"", "\"reasoning\"");
    for (parts, expected) in [
        (vec![finish_event("stop")], "sent an empty answer"),
        (vec!["data: [DONE]\n\n".to_owned()], "sent an empty answer"),
        (vec![], "sent an empty body"),
        (
            vec![finish_event("content_filter")],
            "filtered the whole answer",
        ),
        (vec![thought, finish_event("length")], "used up its tokens"),
    ] {
        let error = ask_events(parts.iter().map(String::as_str)).await.error();
        let place = match expected {
            "sent an empty answer" => "test-model at 127.0.0.1:",
            _ => "127.0.0.1:",
        };
        assert!(error.contains(place), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn response_that_is_not_http() {
    let error = ask_once(Script::Raw(vec!["SSH-2.0-OpenSSH_9\r\n".into()]))
        .await
        .error();
    assert!(error.contains("the connection to 127.0.0.1:"), "{error}");
    assert!(error.contains(" broke: the answer is not HTTP"), "{error}");
}
