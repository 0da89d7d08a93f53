use super::*;
use proptest::prelude::*;
use rmcp::model::ServerResult;
use serde_json::json;

async fn all(bytes: &[u8]) -> (Vec<Vec<u8>>, ReadOutcome) {
    let mut lines = LineReader::new(bytes);
    let mut seen = Vec::new();
    loop {
        match lines.next().await {
            ReadOutcome::Line => seen.push(lines.line().to_vec()),
            end => return (seen, end),
        }
    }
}

#[tokio::test]
async fn lines_end_with_lf_or_crlf_and_incomplete_ones_are_dropped() {
    let (lines, end) = all(b"one\ntwo\r\n\nthr").await;
    assert_eq!(lines, [&b"one"[..], b"two", b""]);
    assert_eq!(end, ReadOutcome::End);
}

#[tokio::test]
async fn line_length_is_limited() {
    let mut text = vec![b'x'; MAX_LINE_BYTES - 1];
    text.extend_from_slice(b"\nshort\n");
    let (lines, end) = all(&text).await;
    assert_eq!(lines[0].len(), MAX_LINE_BYTES - 1);
    assert_eq!(lines[1], b"short");
    assert_eq!(end, ReadOutcome::End);
    text.insert(0, b'x');
    assert_eq!(all(&text).await, (vec![], ReadOutcome::TooLong));
}

#[tokio::test]
async fn memory_of_a_long_line_is_released() {
    let mut text = vec![b'x'; MAX_LINE_BYTES - 1];
    text.extend_from_slice(b"\nshort\n");
    let mut lines = LineReader::new(text.as_slice());
    assert_eq!(lines.next().await, ReadOutcome::Line);
    assert_eq!(lines.next().await, ReadOutcome::Line);
    assert!(
        lines.line.capacity() <= KEPT_CAPACITY,
        "{}",
        lines.line.capacity()
    );
}

#[tokio::test]
async fn reading_is_cancel_safe() {
    use tokio::io::AsyncWriteExt as _;
    let (mut into, from) = tokio::io::duplex(64);
    let mut lines = LineReader::new(from);
    for part in ["{\"a\"", ":1", "}"] {
        into.write_all(part.as_bytes()).await.expect("a write");
        let next = tokio::time::timeout(std::time::Duration::from_millis(1), lines.next()).await;
        assert!(next.is_err(), "the line has no end yet");
    }
    into.write_all(b"\n").await.expect("a write");
    assert_eq!(lines.next().await, ReadOutcome::Line);
    assert_eq!(lines.line(), br#"{"a":1}"#);
}

fn one(text: &str) -> RxJsonRpcMessage<RoleClient> {
    let mut all = parse_messages(text.as_bytes());
    assert_eq!(all.len(), 1, "{text}: {all:?}");
    all.pop_front().expect("one")
}

#[test]
fn messages_are_parsed() {
    let pong = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert!(matches!(one(pong), JsonRpcMessage::Response(r) if r.id == RequestId::Number(1)));
    assert!(matches!(
        one(&format!("\u{feff}{pong}  ")),
        JsonRpcMessage::Response(_)
    ));
    assert!(matches!(
        one(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
        JsonRpcMessage::Notification(_)
    ));
    assert!(matches!(
        one(r#"{"jsonrpc":"2.0","id":"x","method":"roots/list"}"#),
        JsonRpcMessage::Request(_)
    ));
    assert!(matches!(
        one(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#),
        JsonRpcMessage::Error(e) if e.error.message == "no"
    ));
}

#[test]
fn invalid_utf8_is_replaced() {
    let mut line =
        br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"caf"#.to_vec();
    line.extend_from_slice(b"\xe9\"}]}}");
    let mut all = parse_messages(&line);
    let Some(JsonRpcMessage::Response(answer)) = all.pop_front() else {
        panic!("{all:?}");
    };
    let ServerResult::CallToolResult(result) = answer.result else {
        panic!("{answer:?}");
    };
    let text = result.content[0].as_text().expect("text");
    assert_eq!(text.text, "caf\u{fffd}");
}

#[test]
fn batch_messages_keep_their_order() {
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"level": "info"},
        [{"jsonrpc": "2.0", "id": 9, "result": {}}],
        {"jsonrpc": "2.0", "id": 2, "result": {}},
    ]);
    let ids: Vec<_> = parse_messages(batch.to_string().as_bytes())
        .into_iter()
        .map(|m| match m {
            JsonRpcMessage::Response(r) => r.id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, [RequestId::Number(1), RequestId::Number(2)]);
}

#[test]
fn other_output_is_not_a_message() {
    for noise in [
        "",
        "Server running on stdio",
        "[info] ready",
        "42",
        "null",
        "\"text\"",
        "{}",
        "{\"level\":30,\"msg\":\"listening\"}",
        "{\"id\":1}",
        "{\"id\":1,\"name\":\"x\"}",
        "[1,2]",
        "[]",
        "{\"jsonrpc\":\"2.0\"",
        "\u{1b}[2J{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
    ] {
        assert!(parse_messages(noise.as_bytes()).is_empty(), "{noise:?}");
    }
    assert!(parse_messages(b"\xff\xfe\0\0").is_empty());
}

#[test]
fn malformed_response_becomes_an_error_of_its_call() {
    for (id, answer) in [
        (RequestId::Number(7), r#"{"id":7,"result":{}}"#),
        (
            RequestId::Number(7),
            r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
        ),
        (RequestId::Number(7), r#"{"jsonrpc":"2.0","id":7}"#),
        (
            RequestId::Number(7),
            r#"{"jsonrpc":"2.0","id":7,"error":"boom"}"#,
        ),
        (
            RequestId::String("7".into()),
            r#"{"jsonrpc":"2.0","id":"7","result":{"text":"\ud83d"}}"#,
        ),
    ] {
        let JsonRpcMessage::Error(error) = one(answer) else {
            panic!("{answer}");
        };
        assert_eq!(error.id, Some(id), "{answer}");
        assert!(
            error
                .error
                .message
                .starts_with("its answer cannot be read: ")
        );
    }
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#,
        "[".repeat(5000),
        "]".repeat(5000)
    );
    assert!(matches!(one(&deep), JsonRpcMessage::Error(_)));
}

proptest! {
    #[test]
    fn arbitrary_lines_do_not_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        parse_messages(&line);
    }

    #[test]
    fn damaged_messages_do_not_panic(at in 0_usize..60, byte in any::<u8>()) {
        let mut line = br#"{"jsonrpc":"2.0","id":12,"result":{"content":[],"x":"\u00e9"}}"#.to_vec();
        line[at] = byte;
        parse_messages(&line);
    }
}
