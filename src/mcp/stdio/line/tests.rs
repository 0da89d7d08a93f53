use super::*;
use proptest::prelude::*;
use rmcp::model::ServerResult;
use serde_json::json;

async fn all(bytes: &[u8]) -> (Vec<Vec<u8>>, Next) {
    let mut lines = Lines::new(bytes);
    let mut seen = Vec::new();
    loop {
        match lines.next().await {
            Next::Line => seen.push(lines.line().to_vec()),
            end => return (seen, end),
        }
    }
}

#[tokio::test]
async fn lines_end_with_lf_or_crlf_and_a_torn_one_is_none() {
    let (lines, end) = all(b"one\ntwo\r\n\nthr").await;
    assert_eq!(lines, [&b"one"[..], b"two", b""]);
    assert_eq!(end, Next::End);
}

#[tokio::test]
async fn a_line_may_be_as_long_as_the_bound_and_no_longer() {
    let mut text = vec![b'x'; MAX_LINE - 1];
    text.extend_from_slice(b"\nshort\n");
    let (lines, end) = all(&text).await;
    assert_eq!(lines[0].len(), MAX_LINE - 1);
    assert_eq!(lines[1], b"short");
    assert_eq!(end, Next::End);
    text.insert(0, b'x');
    assert_eq!(all(&text).await, (vec![], Next::TooLong));
}

#[tokio::test]
async fn the_memory_of_a_long_line_is_given_back() {
    let mut text = vec![b'x'; MAX_LINE - 1];
    text.extend_from_slice(b"\nshort\n");
    let mut lines = Lines::new(text.as_slice());
    assert_eq!(lines.next().await, Next::Line);
    assert_eq!(lines.next().await, Next::Line);
    assert!(lines.line.capacity() <= KEEP, "{}", lines.line.capacity());
}

#[tokio::test]
async fn a_read_that_was_dropped_in_the_middle_loses_nothing() {
    use tokio::io::AsyncWriteExt as _;
    let (mut into, from) = tokio::io::duplex(64);
    let mut lines = Lines::new(from);
    for part in ["{\"a\"", ":1", "}"] {
        into.write_all(part.as_bytes()).await.expect("room");
        let next = tokio::time::timeout(std::time::Duration::from_millis(1), lines.next()).await;
        assert!(next.is_err(), "the line has no end yet");
    }
    into.write_all(b"\n").await.expect("room");
    assert_eq!(lines.next().await, Next::Line);
    assert_eq!(lines.line(), br#"{"a":1}"#);
}

fn one(text: &str) -> RxJsonRpcMessage<RoleClient> {
    let mut all = messages(text.as_bytes());
    assert_eq!(all.len(), 1, "{text}: {all:?}");
    all.pop_front().expect("one")
}

#[test]
fn messages_are_understood() {
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
fn bytes_that_are_no_text_spoil_only_themselves() {
    let mut line =
        br#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"caf"#.to_vec();
    line.extend_from_slice(b"\xe9\"}]}}");
    let mut all = messages(&line);
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
fn the_messages_of_a_batch_come_in_order() {
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"level": "info"},
        [{"jsonrpc": "2.0", "id": 9, "result": {}}],
        {"jsonrpc": "2.0", "id": 2, "result": {}},
    ]);
    let ids: Vec<_> = messages(batch.to_string().as_bytes())
        .into_iter()
        .map(|m| match m {
            JsonRpcMessage::Response(r) => r.id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, [RequestId::Number(1), RequestId::Number(2)]);
}

#[test]
fn noise_is_no_message() {
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
        assert!(messages(noise.as_bytes()).is_empty(), "{noise:?}");
    }
    assert!(messages(b"\xff\xfe\0\0").is_empty());
}

#[test]
fn an_answer_that_cannot_be_read_is_an_error_of_its_call() {
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
    fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        messages(&line);
    }

    #[test]
    fn no_damage_to_a_message_makes_it_panic(at in 0_usize..60, byte in any::<u8>()) {
        let mut line = br#"{"jsonrpc":"2.0","id":12,"result":{"content":[],"x":"\u00e9"}}"#.to_vec();
        line[at] = byte;
        messages(&line);
    }
}
