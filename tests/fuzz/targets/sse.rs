//! Answers of model servers: server-sent events and the formats of the answers.

use std::collections::BTreeSet;

use aish::broker::provider::chat::names;
use aish::broker::provider::quirks::ServerQuirks;
use aish::broker::provider::{AnswerCodec, StreamError};
use aish::broker::sse::SseDecoder;
use aish::chat::{Dialect, StreamItem, ToolCall};

use crate::fuzz::mutator::pieces;
use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "sse",
    run,
    shape: Shape::Bytes,
    usual_size: 4 << 10,
    tokens: &[
        "data: ",
        "data:",
        "data",
        "event: error\n",
        "id: 1\n",
        ": ping\n",
        "\n\n",
        "\r\n\r\n",
        "\r\r",
        "[DONE]",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "\"choices\":",
        "\"delta\":",
        "\"content\":",
        "\"reasoning\":",
        "\"reasoning_content\":",
        "\"tool_calls\":",
        "\"index\":",
        "\"function\":",
        "\"arguments\":",
        "\"name\":",
        "\"id\":",
        "\"model\":",
        "\"usage\":",
        "\"prompt_tokens\":",
        "\"finish_reason\":\"stop\"",
        "\"error\":{\"message\":\"m\"}",
        "\"refusal\":",
        "\"type\":",
        "\"content_block_start\"",
        "\"content_block\":{\"type\":\"text\"}",
        "\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\"name\":\"b\"}",
        "\"content_block_delta\"",
        "\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\"t\"}",
        "\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}",
        "\"content_block_stop\"",
        "\"message_start\"",
        "\"message\":{\"id\":\"a\",\"content\":[]}",
        "\"message_delta\"",
        "\"delta\":{\"stop_reason\":\"end_turn\"}",
        "\"message_stop\"",
        "\"candidates\":[{\"content\":{\"parts\":[",
        "\"parts\":[{\"text\":\"a\",\"thought\":true}]",
        "{\"functionCall\":{\"name\":\"a\"},\"thoughtSignature\":\"s\"}",
        "\"finishReason\":\"STOP\"",
        "\"promptFeedback\":{\"blockReason\":\"a\"}",
        "\"usageMetadata\":{\"promptTokenCount\":1}",
        "\"response.output_text.delta\"",
        "\"response.output_item.done\"",
        "\"item\":{\"type\":\"function_call\",\"call_id\":\"a\",\"name\":\"b\",\"arguments\":\"{}\"}",
        "\"item\":{\"type\":\"reasoning\"}",
        "\"response.completed\"",
        "\"response\":{\"status\":\"incomplete\"}",
        "\"response.failed\"",
        "\"output_index\":1",
        "\"output\":[]",
        "\"text\":",
        "\\ud83d",
        "\\ude00",
        "\\u0000",
        "1e999",
        "18446744073709551616",
        "-1",
        "123456789012345678901234567890",
        "\"\"",
        "\u{feff}",
    ],
};

/// What an answer results in.
#[derive(Debug, PartialEq)]
struct Outcome {
    items: Vec<StreamItem>,
    error: Option<StreamError>,
    state: String,
    calls: Vec<ToolCall>,
}

fn outcome(
    mut answer: Box<dyn AnswerCodec>,
    items: Vec<StreamItem>,
    error: Option<StreamError>,
) -> Outcome {
    let state = format!(
        "{:?} {} {} {} {:?} {} {:?}",
        answer.progress().finish,
        answer.progress().done,
        answer.progress().text,
        answer.progress().reasoning,
        answer.progress().usage,
        answer.progress().calls.is_complete(),
        answer.progress().native,
    );
    let url = reqwest::Url::parse("http://127.0.0.1/v1").unwrap();
    let names = names(&url, &[], &[], ServerQuirks::default());
    let calls = answer.progress_mut().calls.take(&names, &[]);
    let ids: BTreeSet<_> = calls.iter().map(|call| &call.id).collect();
    assert!(ids.len() == calls.len() && ids.iter().all(|id| !id.is_empty()));
    Outcome {
        items,
        error,
        state,
        calls,
    }
}

fn decode(dialect: Dialect, pieces: &[&[u8]]) -> Outcome {
    let (mut decoder, mut answer, mut items) = (SseDecoder::new(), dialect.answer(), Vec::new());
    for piece in pieces {
        if let Err(e) = decoder.feed(piece, |event| answer.event(&event, &mut items)) {
            return outcome(answer, items, Some(e));
        }
    }
    let error = decoder
        .finish(|event| answer.event(&event, &mut items))
        .err();
    outcome(answer, items, error)
}

fn run(input: &[u8]) -> bool {
    let dialects = [
        Dialect::Chat,
        Dialect::Responses,
        Dialect::Anthropic,
        Dialect::Gemini,
    ];
    let any = dialects.map(|dialect| run_dialect(dialect, input));
    any.contains(&true)
}

fn run_dialect(dialect: Dialect, input: &[u8]) -> bool {
    let whole = decode(dialect, &[input]);
    assert_eq!(decode(dialect, &pieces(input)), whole);
    for pair in whole.items.windows(2) {
        use StreamItem::{Reasoning, Text};
        let joined = !matches!(pair, [Text(_), Text(_)] | [Reasoning(_), Reasoning(_)]);
        assert!(joined, "text that follows text is joined");
    }
    let (mut answer, mut items) = (dialect.answer(), Vec::new());
    let error = answer.whole(input, &mut items).err();
    if error.is_none() {
        assert!(answer.progress().done && answer.progress().finish.is_some());
    }
    outcome(answer, items, error);
    !whole.items.is_empty() || !whole.calls.is_empty()
}
