//! Answers of model servers: server-sent events and the chat format.

use std::collections::BTreeSet;

use aish::broker::provider::chat::{ChatAnswer, ServerQuirks, StreamError, names};
use aish::broker::sse::SseDecoder;
use aish::chat::{StreamItem, ToolCall};

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

fn outcome(mut answer: ChatAnswer, items: Vec<StreamItem>, error: Option<StreamError>) -> Outcome {
    let state = format!(
        "{:?} {} {} {} {:?} {}",
        answer.finish,
        answer.done,
        answer.text,
        answer.reasoning,
        answer.usage,
        answer.calls.is_complete()
    );
    let url = reqwest::Url::parse("http://127.0.0.1/v1").unwrap();
    let names = names(&url, &[], &[], ServerQuirks::default());
    let calls = answer.calls.take(&names, &[]);
    let ids: BTreeSet<_> = calls.iter().map(|call| &call.id).collect();
    assert!(ids.len() == calls.len() && ids.iter().all(|id| !id.is_empty()));
    Outcome {
        items,
        error,
        state,
        calls,
    }
}

fn decode(pieces: &[&[u8]]) -> Outcome {
    let (mut decoder, mut answer, mut items) =
        (SseDecoder::new(), ChatAnswer::default(), Vec::new());
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
    let whole = decode(&[input]);
    assert_eq!(decode(&pieces(input)), whole);
    for pair in whole.items.windows(2) {
        use StreamItem::{Reasoning, Text};
        let joined = !matches!(pair, [Text(_), Text(_)] | [Reasoning(_), Reasoning(_)]);
        assert!(joined, "text that follows text is joined");
    }
    let (mut answer, mut items) = (ChatAnswer::default(), Vec::new());
    let error = answer.whole(input, &mut items).err();
    if error.is_none() {
        assert!(answer.done && answer.finish.is_some());
    }
    outcome(answer, items, error);
    !whole.items.is_empty() || !whole.calls.is_empty()
}
