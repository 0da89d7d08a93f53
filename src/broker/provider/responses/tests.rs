use super::*;
use crate::broker::provider::{AnswerCodec, StreamError};
use crate::broker::sse::SseDecoder;
use crate::chat::{FinishReason, StreamItem};

const STREAM: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"model\":\"m\",\"tools\":[{\"name\":\"f\"}]},\"obfuscation\":\"a\"}\n\n",
    "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"id\":\"rs\",\"type\":\"reasoning\",\"encrypted_content\":\"early\"}}\n\n",
    "data: {\"type\":\"response.reasoning_summary_part.added\",\"summary_index\":0,\"output_index\":0}\n\n",
    "data: {\"type\":\"response.reasoning_summary_text.delta\",\"summary_index\":0,\"output_index\":0,\"delta\":\"One\"}\n\n",
    "data: {\"type\":\"response.reasoning_summary_part.added\",\"summary_index\":1,\"output_index\":0}\n\n",
    "data: {\"type\":\"response.reasoning_summary_text.delta\",\"summary_index\":1,\"output_index\":0,\"delta\":\"Two \\\"é\\\"\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{\"id\":\"rs2\",\"type\":\"reasoning\",\"encrypted_content\":\"late+/=\",\"summary\":[]}}\n\n",
    "data: {\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"Hi \\ud83d\\ude00\",\"obfuscation\":\"xyz\"}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":1,\"item\":{\"id\":\"msg\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"completed\",\"phase\":\"p\",\"content\":[{\"type\":\"output_text\",\"text\":\"Hi 😀\"}]}}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":2,\"item\":{\"id\":\"fc\",\"type\":\"function_call\",\"status\":\"completed\",\"call_id\":\"c1\",\"name\":\"f\",\"arguments\":\"{\\\"a\\\":1}\"}}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":3,\"item\":{\"id\":\"fc\",\"type\":\"function_call\",\"status\":\"incomplete\",\"call_id\":\"c2\",\"name\":\"f\",\"arguments\":\"{\\\"a\"}}\n\n",
    "data: {\"type\":\"response.output_item.done\",\"output_index\":4,\"item\":{\"type\":\"unknown_call\",\"arguments\":{}}}\n\n",
    "data: {\"type\":\"response.unknown\",\"x\":{\"y\":[]}}\n\n",
    "data: {\"type\":\"response.completed\",\"response\":{\"model\":\"m\",\"status\":\"completed\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}}\n\n",
);

#[test]
fn a_stream_means_the_same_wherever_it_is_split() {
    let expected = [
        StreamItem::Model("m".into()),
        StreamItem::Reasoning("One\n\nTwo \"é\"".into()),
        StreamItem::Text("Hi 😀".into()),
    ];
    let bytes = STREAM.as_bytes();
    for at in 0..bytes.len() {
        let (mut answer, mut items) = (ResponsesAnswer::default(), Vec::new());
        let mut decoder = SseDecoder::new();
        for piece in [&bytes[..at], &bytes[at..]] {
            let result: Result<(), StreamError> =
                decoder.feed(piece, |event| answer.event(&event, &mut items));
            result.unwrap();
        }
        assert_eq!(items, expected, "{at}");
        let progress = answer.progress();
        assert_eq!(
            (progress.finish, progress.done),
            (Some(FinishReason::Stop), true)
        );
        assert!(progress.calls.is_complete());
        // The last state of each item, without its id.
        let native = progress.native.as_deref().unwrap();
        let items: Vec<serde_json::Value> = serde_json::from_str(native).unwrap();
        assert_eq!(items.len(), 5);
        assert_eq!(items[0]["encrypted_content"], "late+/=");
        assert_eq!(items[1]["phase"], "p");
        assert!(
            items.iter().all(|item| item.get("id").is_none()),
            "{native}"
        );
    }
}

#[test]
fn calls_in_a_wrapper_are_calls_of_their_own() {
    let arguments = r#"{"tool_uses":[{"recipient_name":"functions.f","parameters":{"a":1}},{"recipient_name":"g","parameters":{}}]}"#;
    let item = serde_json::json!({
        "type": "function_call", "call_id": "c", "name": "parallel", "arguments": arguments,
    });
    let body = serde_json::json!({"status": "completed", "output": [item]}).to_string();
    let (mut answer, mut items) = (ResponsesAnswer::default(), Vec::new());
    answer.whole(body.as_bytes(), &mut items).unwrap();
    let names = crate::broker::wire_names::WireNames::default();
    let calls = answer.progress_mut().calls.take(&names, &[]);
    let calls: Vec<_> = calls
        .iter()
        .map(|c| (&*c.id, &*c.name, &*c.arguments))
        .collect();
    assert_eq!(calls, [("c_0", "f", r#"{"a":1}"#), ("c_1", "g", "{}")]);
}

#[test]
fn a_whole_answer_is_read() {
    let (mut answer, mut items) = (ResponsesAnswer::default(), Vec::new());
    let body = r#"{"model":"m","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Hi"},{"type":"refusal","refusal":" no"}]}],"usage":{"input_tokens":1,"output_tokens":2}}"#;
    answer.whole(body.as_bytes(), &mut items).unwrap();
    assert_eq!(
        items,
        [
            StreamItem::Text("Hi no".into()),
            StreamItem::Model("m".into())
        ]
    );
    assert!(answer.progress().native.is_none());
    let error = r#"{"error":{"message":"no"}}"#;
    let result = ResponsesAnswer::default().whole(error.as_bytes(), &mut items);
    assert_eq!(result, Err(StreamError::Server("no".into())));
}
