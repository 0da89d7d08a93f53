//! Tool definitions in requests, and tool calls in answers.

use aish::broker::provider::chat::{self, ChatAnswer};
use aish::broker::provider::quirks::ServerQuirks;
use aish::broker::provider::{AnswerCodec, StreamError};
use aish::broker::sse::SseDecoder;
use aish::chat::{ImageContent, ToolCall, ToolResult};
use serde_json::json;

use super::*;
use crate::fakes::provider::{Shape, call_events, finish_event, text_event};

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.to_owned(),
        description: "Reads a file.".to_owned(),
        schema: r#"{"type":"object","properties":{"path":{"type":"string"}}}"#.to_owned(),
        ..ToolDefinition::default()
    }
}

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
        extra: None,
    }
}

fn result(id: &str, name: &str, text: &str) -> ToolResult {
    ToolResult {
        id: id.to_owned(),
        name: name.to_owned(),
        text: text.to_owned(),
        images: Vec::new(),
    }
}

/// A conversation with a call of `fs.read` and a call of a tool that does not exist.
fn second_round() -> Vec<ChatMessage> {
    let mut messages = prompt();
    messages.push(ChatMessage::calling(
        String::new(),
        vec![
            call("call_1", "fs.read", r#"{"path":"a"}"#),
            call("call_2", "made up/name", "{oops"),
        ],
    ));
    messages.push(ChatMessage::Tool(result("call_1", "fs.read", "A")));
    messages.push(ChatMessage::Tool(result(
        "call_2",
        "made up/name",
        "no such tool",
    )));
    messages
}

impl Outcome {
    pub fn calls(&self) -> Vec<ToolCall> {
        let call = |c: &StreamItem| match c {
            StreamItem::Call(call) => Some(call.clone()),
            _ => None,
        };
        self.chunks.iter().filter_map(call).collect()
    }
}

/// Sends a prompt with the tools `fs.read` and `fs.now` that is answered with these parts.
async fn ask_for_calls(parts: Vec<Part>) -> Outcome {
    let provider = Provider::start([Script::events(parts)]);
    let tools = [tool("fs.read"), tool("fs.now")];
    ask_with(
        &broker(),
        &endpoint(&provider.base_url()),
        &prompt(),
        &tools,
    )
    .await
}

fn parts(events: &[String]) -> Vec<Part> {
    events.iter().map(|e| Part::from(e.as_str())).collect()
}

const CALLS: [(&str, &str, &str); 3] = [
    ("one", "fs.read", r#"{"path":"é \"{[\\"}"#),
    ("two", "fs.read", r#"{"path":"b"}"#),
    ("three", "fs.now", "{}"),
];

#[tokio::test]
async fn calls_in_every_shape_are_received() {
    for shape in Shape::ALL {
        let provider = Provider::start([Script::calls_in(shape, "I look.", &CALLS)]);
        let outcome = ask_with(
            &broker(),
            &endpoint(&provider.base_url()),
            &prompt(),
            &[tool("fs.read"), tool("fs.now")],
        )
        .await;
        assert_eq!(
            outcome.result.as_ref().unwrap(),
            &FinishReason::Stop,
            "{shape:?}"
        );
        assert_eq!(outcome.text(), "I look.", "{shape:?}");
        let ids = match shape {
            Shape::NoId | Shape::Bare => ["call_1", "call_2", "call_3"],
            Shape::SameId => ["same", "call_1", "call_2"],
            _ => ["one", "two", "three"],
        };
        let expected: Vec<ToolCall> = CALLS
            .iter()
            .zip(ids)
            .map(|((_, name, arguments), id)| call(id, name, arguments))
            .collect();
        assert_eq!(outcome.calls(), expected, "{shape:?}");
        // Calls come after all text and before the end.
        let first = outcome
            .chunks
            .iter()
            .position(|c| matches!(c, StreamItem::Call(_)));
        let rest = &outcome.chunks[first.unwrap() + 3..];
        let end = |c: &StreamItem| {
            matches!(
                c,
                StreamItem::Usage(_) | StreamItem::Done(FinishReason::Stop)
            )
        };
        assert!(!rest.is_empty() && rest.iter().all(end), "{rest:?}");
    }
}

#[tokio::test]
async fn calls_without_text_are_an_answer() {
    for calls in [&CALLS[..], &[("x", "fs.now", "")]] {
        let provider = Provider::start([Script::calls("", calls)]);
        let outcome = ask(&broker(), &endpoint(&provider.base_url())).await;
        assert_eq!(outcome.result.as_ref().unwrap(), &FinishReason::Stop);
        assert_eq!(outcome.calls().len(), calls.len());
        assert_eq!(outcome.calls()[0].arguments, calls[0].2, "as it came");
    }
}

#[tokio::test]
async fn calls_split_at_every_byte() {
    let calls = [("one", "fs.read", r#"{"path":"é"}"#), ("two", "fs.now", "")];
    let mut events = vec![text_event("é")];
    events.extend(call_events(Shape::Interleaved, &calls));
    events.push(finish_event("tool_calls"));
    let stream = events.concat();
    let bytes = stream.as_bytes();
    let provider = Provider::start((1..bytes.len()).map(|i| {
        let pieces = [&bytes[..i], &bytes[i..]];
        Script::events(pieces.map(|p| Part::Bytes(p.to_vec())))
    }));
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    let expected = calls.map(|(id, name, arguments)| call(id, name, arguments));
    for i in 1..bytes.len() {
        let outcome = ask(&broker, &endpoint).await;
        assert_eq!(outcome.text(), "é", "at {i}");
        assert_eq!(outcome.calls(), expected, "at {i}");
    }
}

/// Parses a stream in these pieces, without a network.
fn decoded(pieces: &[&[u8]]) -> Vec<ToolCall> {
    let (mut decoder, mut answer) = (SseDecoder::new(), ChatAnswer::default());
    let mut chunks = Vec::new();
    for piece in pieces {
        let result: std::result::Result<(), StreamError> =
            decoder.feed(piece, |event| answer.event(&event, &mut chunks));
        result.unwrap();
    }
    let url = "http://127.0.0.1/".parse().unwrap();
    let names = chat::names(&url, &[], &[], ServerQuirks::default());
    answer.progress.calls.take(&names, &[])
}

#[test]
fn every_shape_parses_equally_at_every_split() {
    for shape in Shape::ALL {
        let stream = call_events(shape, &CALLS).concat();
        let bytes = stream.as_bytes();
        let whole = decoded(&[bytes]);
        assert_eq!(whole.len(), 3, "{shape:?}");
        for i in 0..=bytes.len() {
            assert_eq!(
                decoded(&[&bytes[..i], &bytes[i..]]),
                whole,
                "{shape:?} at {i}"
            );
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decoded(&single), whole, "{shape:?}");
    }
}

#[tokio::test]
async fn answer_can_end_with_its_last_call() {
    let events = call_events(Shape::Fragments, &CALLS);
    let outcome = ask_for_calls(parts(&events)).await;
    assert_eq!(outcome.result.as_ref().unwrap(), &FinishReason::Stop);
    assert_eq!(outcome.calls().len(), 3);
    let mut done = parts(&call_events(Shape::Fragments, &[("x", "fs.now", "")]));
    done.push("data: [DONE]\n\n".into());
    assert_eq!(ask_for_calls(done).await.calls().len(), 1);
}

#[tokio::test]
async fn calls_of_an_incomplete_answer_are_discarded() {
    let events = call_events(Shape::Fragments, &CALLS);
    let whole = parts(&events);
    let cut = [whole.clone(), vec![Part::Cut]].concat();
    let short = parts(&events[..events.len() - 1]);
    let torn = [whole.clone(), vec![text_event("lost")[..40].into()]].concat();
    let error = "data: {\"error\":{\"message\":\"out of memory\"}}\n\n";
    let failed = [whole.clone(), vec![error.into()]].concat();
    let filtered = [whole, parts(&[finish_event("content_filter")])].concat();
    for parts in [cut, short, torn, failed, filtered] {
        let outcome = ask_for_calls(parts.clone()).await;
        assert_eq!(outcome.calls(), [], "{parts:?}");
        outcome.error();
    }
}

#[tokio::test]
async fn calls_of_an_answer_that_reached_max_tokens_are_returned() {
    let mut events = call_events(Shape::Fragments, &[("x", "fs.read", r#"{"path":"#)]);
    events.push(finish_event("length"));
    let outcome = ask_for_calls(parts(&events)).await;
    assert_eq!(outcome.result.as_ref().unwrap(), &FinishReason::Length);
    assert_eq!(outcome.calls(), [call("x", "fs.read", r#"{"path":"#)]);
}

#[tokio::test]
async fn endless_calls_are_rejected() {
    let open = |n: usize| call_events(Shape::Whole, &[(&n.to_string(), "x", "{}")]).remove(0);
    let many: Vec<String> = (0..129).map(open).collect();
    let error = ask_for_calls(parts(&many)).await.error();
    assert!(
        error.contains("sent more than 128 calls of tools"),
        "{error}"
    );
    let piece = json!({ "choices": [{ "delta": { "tool_calls": [
        { "index": 0, "function": { "name": "x", "arguments": "x".repeat(1 << 16) } }
    ] } }] });
    let piece = format!("data: {piece}\n\n").into_bytes();
    let error = ask_for_calls(vec![Part::Repeat(piece, 65)]).await.error();
    assert!(error.contains("longer than 4 MiB"), "{error}");
}

#[tokio::test]
async fn tool_names_keep_dots_where_accepted() {
    let provider = Provider::start([Script::tokens(["ok"]), Script::tokens(["ok"])]);
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    let tools = [tool("fs.read"), tool("fs.odd name")];
    let outcome = ask_with(&broker, &endpoint, &second_round(), &tools).await;
    assert_eq!(outcome.text(), "ok");
    assert_eq!(ask(&broker, &endpoint).await.text(), "ok");
    let requests = provider.requests();
    assert_eq!(requests[0].tool_names(), ["fs.read", "fs.odd_name"]);
    assert_eq!(
        requests[0].json["tools"][0],
        json!({ "type": "function", "function": {
            "name": "fs.read",
            "description": "Reads a file.",
            "parameters": { "type": "object", "properties": { "path": { "type": "string" } } },
        } })
    );
    let messages = &requests[0].json["messages"];
    assert_eq!(messages[2]["content"], json!(null));
    assert_eq!(
        messages[2]["tool_calls"][0]["function"]["arguments"],
        r#"{"path":"a"}"#
    );
    assert_eq!(
        messages[2]["tool_calls"][1],
        json!({ "id": "call_2", "type": "function", "function": { "name": "made_up_name", "arguments": "{}" } })
    );
    assert_eq!(
        messages[3],
        json!({ "role": "tool", "content": "A", "tool_call_id": "call_1" })
    );
    assert!(
        requests[1].json.get("tools").is_none(),
        "left out when empty"
    );
}

#[tokio::test]
async fn rejected_dots_in_tool_names_are_remembered() {
    let script = || Script::calls("", &[("call_2", "fs__read", "{}"), ("", "fs__write", "{}")]);
    let provider = Provider::start([script(), script()]).strict();
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    for _ in 0..2 {
        let outcome = ask_with(&broker, &endpoint, &second_round(), &[tool("fs.read")]).await;
        // Unknown names stay unchanged; ids of the conversation are not reused.
        let expected = [
            call("call_1", "fs.read", "{}"),
            call("call_3", "fs__write", "{}"),
        ];
        let calls = outcome.calls();
        assert_eq!(calls[0].name, expected[0].name);
        assert_eq!(calls[1].name, expected[1].name);
        assert!(
            calls
                .iter()
                .all(|c| !["call_1", "call_2"].contains(&c.id.as_str()))
        );
        assert_ne!(calls[0].id, calls[1].id);
        assert!(outcome.notices().is_empty());
    }
    let sent: Vec<_> = provider
        .requests()
        .iter()
        .map(|r| r.tool_names()[0].to_owned())
        .collect();
    assert_eq!(sent, ["fs.read", "fs__read", "fs__read"]);
}

#[tokio::test]
async fn images_are_sent_if_the_model_accepts_them() {
    let mut messages = second_round();
    let Some(ChatMessage::Tool(last)) = messages.last_mut() else {
        panic!("no result")
    };
    last.images = vec![ImageContent {
        mime: "image/png".to_owned(),
        data: "aGk=".into(),
    }];
    let provider = Provider::start([Script::tokens(["ok"]), Script::tokens(["ok"])]);
    let mut endpoint = endpoint(&provider.base_url());
    for images in [false, true] {
        endpoint.images = images;
        let outcome = ask_with(&broker(), &endpoint, &messages, &[]).await;
        assert_eq!(outcome.text(), "ok");
    }
    let requests = provider.requests();
    let messages = |n: usize| requests[n].json["messages"].as_array().unwrap();
    assert_eq!((messages(0).len(), messages(1).len()), (5, 6));
    assert_eq!(
        messages(1)[5]["content"],
        json!([
            { "type": "text", "text": "[pictures of tool: made up/name]" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } },
        ])
    );
}

#[tokio::test]
async fn roles_alternate_without_the_tool_role() {
    let mut messages = second_round();
    messages.push(ChatMessage::user("go on"));
    let provider = Provider::start([Script::tokens(["ok"])]);
    let mut endpoint = endpoint(&provider.base_url());
    endpoint.use_tool_role = false;
    let outcome = ask_with(&broker(), &endpoint, &messages, &[tool("fs.read")]).await;
    assert_eq!(outcome.text(), "ok");
    let request = &provider.requests()[0].json;
    assert_eq!(
        request["messages"].as_array().unwrap()[2..],
        [
            json!({ "role": "assistant", "content": "[tool_call: fs.read {\"path\":\"a\"}]\n[tool_call: made up/name {oops]" }),
            json!({ "role": "user", "content": "[tool: fs.read]\nA\n\n[tool: made up/name]\nno such tool\n\ngo on" }),
        ]
    );
    assert_eq!(request["tools"].as_array().unwrap().len(), 1);
}

/// Returns the error message for a request with tools and results that gets this response.
async fn refused(
    status: u16,
    words: &str,
    tools: &[ToolDefinition],
    messages: &[ChatMessage],
) -> String {
    let body = json!({ "error": { "message": words } }).to_string();
    let provider = Provider::start([Script::status(status, &body)]);
    let endpoint = endpoint(&provider.base_url());
    let outcome = ask_with(&broker(), &endpoint, messages, tools).await;
    assert!(outcome.notices().is_empty(), "not asked again");
    outcome.error()
}

#[tokio::test]
async fn rejected_tools_are_explained_with_a_hint() {
    for (status, words) in [
        (
            400,
            "registry.ollama.ai/library/gemma:2b does not support tools",
        ),
        (404, "No endpoints found that support tool use."),
        (500, "tools param requires --jinja flag"),
        (
            400,
            "\"auto\" tool choice requires --enable-auto-tool-choice",
        ),
    ] {
        let error = refused(status, words, &[tool("fs.read")], &prompt()).await;
        assert!(
            error.contains("takes no tools") && error.contains(words),
            "{error}"
        );
        assert!(
            error.contains("-m") && error.contains("llm --no-tools"),
            "{error}"
        );
    }
    let error = refused(400, "this does not support tools", &[], &prompt()).await;
    assert!(!error.contains("--no-tools"), "no tools were sent: {error}");
}

#[tokio::test]
async fn rejected_tool_role_is_explained_with_the_setting() {
    for (status, words) in [
        (
            400,
            "Conversation roles must alternate user/assistant/user/assistant/...",
        ),
        (
            422,
            "messages.3.role: Input should be 'user' or 'assistant', not 'tool'",
        ),
        (500, "Unknown role: tool"),
    ] {
        let error = refused(status, words, &[tool("fs.read")], &second_round()).await;
        assert!(error.contains("rejects results of tools"), "{error}");
        assert!(
            error.contains("`use_tool_role = false` under [models.NAME]"),
            "{error}"
        );
    }
    let error = refused(400, "Unknown role: tool", &[], &prompt()).await;
    assert!(!error.contains("use_tool_role"), "none was sent: {error}");
}

/// An answer with reasoning in these fields, then a call.
fn thoughtful(delta: &serde_json::Value) -> Script {
    let event = serde_json::json!({ "choices": [{ "index": 0, "delta": delta }] });
    let mut events = vec![format!("data: {event}\n\n")];
    events.extend(call_events(Shape::Whole, &[("call_1", "fs.read", "{}")]));
    events.push(finish_event("tool_calls"));
    Script::events(events.iter().map(String::as_str))
}

#[tokio::test]
async fn reasoning_is_returned_to_a_server_that_wants_it() {
    let provider = Provider::start([
        thoughtful(&serde_json::json!({ "reasoning_content": "hm" })),
        Script::status(
            400,
            r#"{"error":{"message":"The `reasoning_content` in the thinking mode must be passed back to the API."}}"#,
        ),
        Script::tokens(["ok"]),
        Script::tokens(["ok"]),
    ]);
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    let first = ask_with(&broker, &endpoint, &prompt(), &[tool("fs.read")]).await;
    let talk = first.follow(prompt());
    assert_eq!(
        ask_with(&broker, &endpoint, &talk, &[tool("fs.read")])
            .await
            .text(),
        "ok"
    );
    // An answer of another model has no reasoning, and an empty one is refused.
    assert_eq!(
        ask_with(&broker, &endpoint, &second_round(), &[tool("fs.read")])
            .await
            .text(),
        "ok"
    );
    let requests = provider.requests();
    let sent = |n: usize| requests[n].json["messages"][2].get("reasoning_content");
    assert_eq!(sent(1), None);
    assert_eq!(sent(2), Some(&"hm".into()));
    assert_eq!(sent(3), Some(&" ".into()));
}

#[tokio::test]
async fn reasoning_details_are_returned_to_their_model_as_they_came() {
    let details =
        serde_json::json!([{ "type": "reasoning.encrypted", "data": "b+/=", "index": 0 }]);
    let provider = Provider::start([
        thoughtful(&serde_json::json!({ "reasoning": "hm", "reasoning_details": details })),
        Script::tokens(["ok"]),
        Script::tokens(["ok"]),
    ]);
    let (broker, endpoint) = (broker(), endpoint(&provider.base_url()));
    let talk = ask_with(&broker, &endpoint, &prompt(), &[tool("fs.read")])
        .await
        .follow(prompt());
    ask_with(&broker, &endpoint, &talk, &[tool("fs.read")]).await;
    let other = ModelEndpoint {
        model: "other".to_owned(),
        ..endpoint.clone()
    };
    ask_with(&broker, &other, &talk, &[tool("fs.read")]).await;
    let requests = provider.requests();
    let sent = |n: usize| requests[n].json["messages"][2].get("reasoning_details");
    assert_eq!((sent(1), sent(2)), (Some(&details), None));
}

#[tokio::test]
async fn thinking_parts_are_returned_as_such() {
    let part = |text: &str| serde_json::json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": text }] }]);
    let delta = |delta: serde_json::Value| {
        let event = serde_json::json!({ "choices": [{ "index": 0, "delta": delta }] });
        format!("data: {event}\n\n")
    };
    let thinks = ["h\"m ", "é"].map(|text| delta(serde_json::json!({ "content": part(text) })));
    let finish = finish_event("stop");
    let plain: Vec<String> = thinks
        .iter()
        .cloned()
        .chain([text_event("Fine."), finish])
        .collect();
    let provider = Provider::start([
        thoughtful(&serde_json::json!({ "content": part("hm") })),
        Script::events(plain.iter().map(String::as_str)),
        Script::tokens(["ok"]),
        Script::tokens(["ok"]),
    ]);
    let endpoint = ModelEndpoint {
        is_mistral: true,
        ..endpoint(&provider.base_url())
    };
    let broker = broker();
    let first = ask_with(&broker, &endpoint, &prompt(), &[tool("fs.read")]).await;
    assert_eq!(first.reasoning(), "hm");
    let talk = first.follow(prompt());
    let second = ask_with(&broker, &endpoint, &talk, &[tool("fs.read")]).await;
    assert_eq!(
        (second.reasoning(), second.text()),
        ("h\"m é".to_owned(), "Fine.".to_owned())
    );
    let mut talk = second.follow(talk);
    talk.push(ChatMessage::user("and now?"));
    ask_with(&broker, &endpoint, &talk, &[tool("fs.read")]).await;
    let other = ModelEndpoint {
        model: "other".to_owned(),
        ..endpoint.clone()
    };
    ask_with(&broker, &other, &talk, &[tool("fs.read")]).await;
    let requests = provider.requests();
    let sent = |n: usize, at: usize| requests[n].json["messages"][at]["content"].clone();
    // With calls and without, and not to another model.
    assert_eq!((sent(1, 2), sent(2, 2)), (part("hm"), part("hm")));
    let mut whole = part("h\"m é");
    let text = serde_json::json!({ "type": "text", "text": "Fine." });
    whole.as_array_mut().expect("a list").push(text);
    assert_eq!(sent(2, 4), whole);
    assert_eq!(
        (sent(3, 2), sent(3, 4)),
        (serde_json::Value::Null, "Fine.".into())
    );
}
