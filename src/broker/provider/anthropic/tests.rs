use std::borrow::Cow;

use super::*;
use crate::broker::provider::{AnswerCodec, StreamError};
use crate::broker::sse::SseDecoder;
use crate::chat::{FinishReason, StreamItem};

const STREAM: &str = concat!(
    "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"model\":\"c\",\"content\":[],\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}   }\r\n\r\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}\n\n",
    "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"a \\\"b\\\" é\"} }\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"signature_delta\",\"signature\":\"s+/=\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"unknown_kind\",\"text\":[1]}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"unknown_delta\",\"y\":1}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":1}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":2,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":2,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi \\ud83d\\ude00\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":2}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":3,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t1\",\"name\":\"f\",\"input\":{}}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":3,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"a\\\": 12345678901234567890123}\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":3}\n\n",
    "event: unknown\ndata: {\"type\":\"unknown\"}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"},\"usage\":{\"output_tokens\":9}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

fn read(pieces: &[&[u8]]) -> (AnthropicAnswer, Vec<StreamItem>, Option<StreamError>) {
    let (mut answer, mut items) = (AnthropicAnswer::default(), Vec::new());
    let mut decoder = SseDecoder::new();
    for piece in pieces {
        if let Err(e) = decoder.feed(piece, |event| answer.event(&event, &mut items)) {
            return (answer, items, Some(e));
        }
    }
    answer.end(&mut items);
    (answer, items, None)
}

#[test]
fn a_stream_means_the_same_wherever_it_is_split() {
    let expected = [
        StreamItem::Model("c".into()),
        StreamItem::Reasoning("a \"b\" é".into()),
        StreamItem::Text("Hi 😀".into()),
    ];
    let bytes = STREAM.as_bytes();
    for at in 0..bytes.len() {
        let (answer, items, error) = read(&[&bytes[..at], &bytes[at..]]);
        assert_eq!((items.as_slice(), error), (&expected[..], None), "{at}");
        let progress = answer.progress();
        assert!(progress.done && progress.reasoning && progress.text);
        assert_eq!(progress.finish, Some(FinishReason::Stop));
        let usage = progress.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (3, 9));
        // Numbers keep their digits, and unknown blocks are kept as they are.
        assert_eq!(
            progress.native.as_deref(),
            Some(concat!(
                r#"[{"signature":"s+/=","thinking":"a \"b\" é","type":"thinking"},"#,
                r#"{"type":"unknown_kind","text":[1]},{"text":"Hi 😀","type":"text"},"#,
                r#"{"id":"t1","input":{"a": 12345678901234567890123},"name":"f","type":"tool_use"}]"#
            ))
        );
    }
}

#[test]
fn spliced_streams_are_an_error_and_a_repeated_start_is_none() {
    let start = |id: &str| {
        format!(
            "data: {{\"type\":\"message_start\",\"message\":{{\"id\":\"{id}\",\"model\":\"c\"}}}}\n\n"
        )
    };
    let (_, items, error) = read(&[start("a").as_bytes(), start("a").as_bytes()]);
    assert_eq!((items.len(), error), (1, None));
    let (_, _, error) = read(&[start("a").as_bytes(), start("b").as_bytes()]);
    assert!(matches!(error, Some(StreamError::Server(_))), "{error:?}");
}

#[test]
fn a_whole_answer_is_read() {
    let (mut answer, mut items) = (AnthropicAnswer::default(), Vec::new());
    let body = r#"{"id":"m","type":"message","model":"c","content":[{"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"f","input":{"a":1}}],"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":2}}"#;
    answer.whole(body.as_bytes(), &mut items).unwrap();
    assert_eq!(
        items,
        [StreamItem::Model("c".into()), StreamItem::Text("Hi".into())]
    );
    assert!(!answer.progress().calls.is_empty() && answer.progress().native.is_none());
    let error = r#"{"type":"error","error":{"type":"x","message":"no"}}"#;
    let result = AnthropicAnswer::default().whole(error.as_bytes(), &mut items);
    assert_eq!(result, Err(StreamError::Server("no".into())));
}

#[test]
fn hostile_events_are_bounded() {
    let part = "x".repeat(1 << 19);
    let delta = format!(
        "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"thinking_delta\",\"thinking\":\"{part}\"}}}}\n\n"
    );
    let start = "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"thinking\"}}\n\n";
    let mut pieces: Vec<Cow<'_, [u8]>> = vec![start.as_bytes().into()];
    pieces.extend((0..17).map(|_| Cow::from(delta.as_bytes())));
    let pieces: Vec<&[u8]> = pieces.iter().map(|p| &**p).collect();
    let (_, _, error) = read(&pieces);
    assert!(matches!(error, Some(StreamError::Server(_))), "{error:?}");
    let (_, _, error) = read(&[delta.as_bytes()]);
    assert!(matches!(error, Some(StreamError::Server(_))), "{error:?}");
}
