use super::*;
use crate::broker::provider::{AnswerCodec, StreamError};
use crate::broker::sse::SseDecoder;
use crate::broker::wire_names::WireNames;
use crate::chat::{FinishReason, StreamItem};

const STREAM: &str = concat!(
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hm \\\"é\\\"\",\"thought\":true}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,\"thoughtsTokenCount\":5},\"modelVersion\":\"g\"}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"Hi \"},{\"text\":\"\\ud83d\\ude00\"}],\"role\":\"model\"},\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":2}}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"a\":12345678901234567890123}},\"thoughtSignature\":\"s+/=\"},{\"functionCall\":{\"name\":\"g\"}}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}]}\r\n\r\n",
    "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\",\"thoughtSignature\":\"t\"}]},\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":4,\"thoughtsTokenCount\":5,\"cachedContentTokenCount\":3}}\r\n\r\n",
);

fn read(pieces: &[&[u8]]) -> (GeminiAnswer, Vec<StreamItem>, Result<(), StreamError>) {
    let (mut answer, mut items) = (GeminiAnswer::default(), Vec::new());
    let mut decoder = SseDecoder::new();
    let mut result = Ok(());
    for piece in pieces {
        result =
            result.and_then(|()| decoder.feed(piece, |event| answer.event(&event, &mut items)));
    }
    answer.end(&mut items);
    (answer, items, result)
}

#[test]
fn a_stream_means_the_same_wherever_it_is_split() {
    let expected = [
        StreamItem::Model("g".into()),
        StreamItem::Reasoning("Hm \"é\"".into()),
        StreamItem::Text("Hi 😀".into()),
    ];
    let bytes = STREAM.as_bytes();
    for at in 0..bytes.len() {
        let (mut answer, items, result) = read(&[&bytes[..at], &bytes[at..]]);
        assert_eq!((items.as_slice(), result), (&expected[..], Ok(())), "{at}");
        let progress = answer.progress_mut();
        assert_eq!(progress.finish, Some(FinishReason::Stop));
        let usage = progress.usage.unwrap();
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (9, 9));
        assert_eq!((usage.cache_read_tokens, usage.reasoning_tokens), (3, 5));
        let calls = progress.calls.take(&WireNames::default(), &[]);
        let calls: Vec<_> = calls
            .iter()
            .map(|c| (&*c.id, &*c.name, &*c.arguments))
            .collect();
        let arguments = "{\"a\":12345678901234567890123}";
        assert_eq!(calls, [("call_1", "f", arguments), ("call_2", "g", "{}")]);
        // Unmerged, byte for byte.
        let native = progress.native.clone().unwrap();
        assert!(
            native.starts_with("[{\"text\":\"Hm \\\"é\\\"\",\"thought\":true},{\"text\":\"Hi \"},")
        );
        assert!(
            native.ends_with("{\"text\":\"\",\"thoughtSignature\":\"t\"}]"),
            "{native}"
        );
    }
}

#[test]
fn finish_reasons_are_told_apart() {
    let read = |fields: &str| {
        let event = format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"f\"}}}}]}},{fields}}}]}}\n\n"
        );
        let (answer, _, result) = read(&[event.as_bytes()]);
        let progress = answer.progress();
        (progress.finish, progress.filter_reason.clone(), result)
    };
    assert_eq!(
        read("\"finishReason\":\"MAX_TOKENS\""),
        (Some(FinishReason::Length), None, Ok(()))
    );
    let (finish, reason, _) = read("\"finishReason\":\"SAFETY\"");
    assert_eq!(
        (finish, reason.as_deref()),
        (Some(FinishReason::ContentFilter), Some("SAFETY"))
    );
    let (_, _, result) =
        read("\"finishReason\":\"MALFORMED_FUNCTION_CALL\",\"finishMessage\":\"bad call\"");
    assert_eq!(
        result,
        Err(StreamError::Server(
            "MALFORMED_FUNCTION_CALL: bad call".into()
        ))
    );
}

#[test]
fn a_whole_answer_and_an_error_are_read() {
    let (mut answer, mut items) = (GeminiAnswer::default(), Vec::new());
    let body = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}"#;
    answer.whole(body.as_bytes(), &mut items).unwrap();
    assert_eq!(items, [StreamItem::Text("Hi".into())]);
    let error = r#"{"error":{"code":503,"message":"no","status":"UNAVAILABLE"}}"#;
    let result = GeminiAnswer::default().whole(error.as_bytes(), &mut items);
    assert_eq!(result, Err(StreamError::Temporary(503, "no".into())));
}
