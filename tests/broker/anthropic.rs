//! The Messages API of Anthropic.

use aish::chat::{ImageContent, ToolCall, ToolResult};

use super::*;
use crate::fakes::provider::Request;
use crate::fakes::provider::anthropic::{self, Block, MODEL};

fn anthropic(provider: &Provider) -> ModelEndpoint {
    ModelEndpoint {
        dialect: Dialect::Anthropic,
        ..with_key(&provider.base_url())
    }
}

fn tool(name: &str, schema: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        description: "Does it.".into(),
        schema: schema.into(),
        ..ToolDefinition::default()
    }
}

/// A provider that answers each request with one of these answers.
fn answering(answers: &'static [(&'static [Block<'static>], &'static str)]) -> Provider {
    let mut answers = answers.iter();
    let answer = move |request: &Request| {
        let (blocks, reason) = answers.next().expect("another request");
        anthropic::answer(request, blocks, reason)
    };
    Provider::answering(answer).key(KEY)
}

const THOUGHTFUL: &[Block<'static>] = &[
    Block::Thinking("Let me look… \"é\" first."),
    Block::Redacted("b3BhcXVl"),
    Block::Text("I look at both."),
    Block::Call("toolu_1", "fs__read", "{\"path\":\"a\\n\"}"),
    Block::Call("toolu_2", "fs__list", ""),
];

#[tokio::test]
async fn answer_has_reasoning_text_calls_and_usage() {
    let provider = answering(&[(THOUGHTFUL, "tool_use")]);
    let tools = [tool("fs.read", "{\"properties\":{}}"), tool("fs.list", "")];
    let outcome = ask_with(&broker(), &anthropic(&provider), &prompt(), &tools).await;
    assert_eq!(outcome.result.as_ref().unwrap(), &FinishReason::Stop);
    assert_eq!(outcome.text(), "I look at both.");
    assert_eq!(outcome.reasoning(), "Let me look… \"é\" first.");
    let calls: Vec<_> = outcome.calls();
    let calls: Vec<_> = calls
        .iter()
        .map(|c| (&*c.id, &*c.name, &*c.arguments))
        .collect();
    assert_eq!(
        calls,
        [
            ("toolu_1", "fs.read", "{\"path\":\"a\\n\"}"),
            ("toolu_2", "fs.list", "{}")
        ]
    );
    let model = StreamItem::Model(MODEL.to_owned());
    assert!(outcome.chunks.contains(&model), "{outcome:?}");
    let usage = StreamItem::Usage(TokenUsage {
        prompt_tokens: 327,
        completion_tokens: 40,
        cache_read_tokens: 300,
        cache_write_tokens: 20,
        reasoning_tokens: 0,
        cost_picodollars: None,
    });
    assert!(outcome.chunks.contains(&usage), "{outcome:?}");
    let request = &provider.requests()[0];
    assert_eq!(request.path, "/v1/messages");
    assert_eq!(request.json["cache_control"]["type"], "ephemeral");
}

#[tokio::test]
async fn reasoning_is_sent_back_while_what_precedes_it_is_unchanged() {
    let provider = answering(&[
        (THOUGHTFUL, "tool_use"),
        (&[Block::Thinking(""), Block::Text("Done.")], "end_turn"),
        (&[Block::Text("Again.")], "end_turn"),
        (&[Block::Text("Anew.")], "end_turn"),
    ]);
    let (broker, endpoint) = (broker(), anthropic(&provider));
    let tools = [tool("fs.read", "{}"), tool("fs.list", "{}")];
    let first = ask_with(&broker, &endpoint, &prompt(), &tools).await;
    let mut talk = first.follow(prompt());
    let second = ask_with(&broker, &endpoint, &talk, &tools).await;
    talk = second.follow(talk);
    talk.push(ChatMessage::user("and now?"));
    ask_with(&broker, &endpoint, &talk, &tools).await;
    let sent = |n: usize, at: usize, block: usize| -> String {
        let requests = provider.requests();
        let block = &requests[n].json["messages"][at]["content"][block];
        block["type"].as_str().unwrap_or_default().to_owned()
    };
    // The provider checks the signatures.
    assert_eq!(sent(1, 1, 0), "thinking");
    assert_eq!(sent(1, 1, 1), "redacted_thinking");
    assert_eq!(sent(2, 3, 0), "thinking");
    // Other instructions: the reasoning is left out from there on, and nothing else.
    talk[0] = ChatMessage::System("be long".to_owned());
    ask_with(&broker, &endpoint, &talk, &tools).await;
    assert_eq!(sent(3, 1, 0), "text");
    assert_eq!(sent(3, 1, 1), "tool_use");
    assert_eq!(sent(3, 3, 0), "text");
}

#[tokio::test]
async fn history_of_another_provider_is_accepted() {
    let provider = answering(&[(&[Block::Text("ok")], "end_turn")]);
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "fs.read".into(),
        arguments: arguments.into(),
        extra: Some("{}".into()),
    };
    let result = |id: &str| {
        ChatMessage::Tool(ToolResult {
            id: id.into(),
            images: vec![ImageContent {
                mime: "image/png".into(),
                data: "aGk=".into(),
            }],
            ..ToolResult::default()
        })
    };
    let mut messages = prompt();
    messages.extend([
        ChatMessage::calling(
            " \n",
            vec![call("call:1|x", "{\"a\":1}"), call("call.1|x", "[")],
        ),
        result("call:1|x"),
        result("call.1|x"),
        ChatMessage::user("more"),
        ChatMessage::assistant(""),
        ChatMessage::user("and more"),
    ]);
    let schema = "{\"anyOf\":[{\"type\":\"object\"}],\"$schema\":\"x\"}";
    let endpoint = ModelEndpoint {
        images: true,
        ..anthropic(&provider)
    };
    let outcome = ask_with(&broker(), &endpoint, &messages, &[tool("fs.read", schema)]).await;
    assert_eq!(outcome.text(), "ok");
    let content = provider.requests()[0].json["messages"][2]["content"].clone();
    let kinds: Vec<_> = content
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["type"].clone())
        .collect();
    assert_eq!(kinds, ["tool_result", "tool_result", "text"]);
    assert_eq!(content[0]["content"][0]["type"], "image");
}

#[tokio::test]
async fn what_the_model_refuses_is_learned() {
    let provider = Provider::start([
        Script::status(400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-fake-1"}}"#),
        Script::status(400, r#"{"type":"error","error":{"type":"invalid_request_error","message":"`temperature` is deprecated for this model."}}"#),
        Script::status(529, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#),
        Script::status(401, r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#),
    ])
    .key(KEY);
    let endpoint = ModelEndpoint {
        temperature: Some(0.5),
        ..anthropic(&provider)
    };
    let outcome = ask(&broker(), &endpoint).await;
    assert!(outcome.error().contains("invalid x-api-key"));
    let told = outcome.notices();
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(
        told[0],
        "model test-model: answers with at most 8192 tokens"
    );
    assert_eq!(
        told[1],
        "model test-model: refuses a temperature, which is left out from now on"
    );
    let of = |n: usize, key: &str| provider.requests()[n].json[key].clone();
    assert_eq!(
        (of(0, "max_tokens"), of(0, "temperature")),
        (32_000.into(), 0.5.into())
    );
    assert_eq!(
        (of(2, "max_tokens"), of(2, "temperature")),
        (8192.into(), serde_json::Value::Null)
    );
}

#[tokio::test]
async fn answers_without_text_are_named() {
    for (blocks, reason, words) in [
        (
            &[Block::Thinking("hm")][..],
            "max_tokens",
            "used up its tokens",
        ),
        (&[], "refusal", "filtered the whole answer"),
        (&[], "end_turn", "an empty answer"),
    ] {
        let answer = move |request: &Request| anthropic::answer(request, blocks, reason);
        let provider = Provider::answering(answer).key(KEY);
        let outcome = ask(&broker(), &anthropic(&provider)).await;
        assert!(outcome.error().contains(words), "{outcome:?}");
    }
}

/// An error after the beginning of an answer keeps the text and runs no call, also one that was complete.
#[tokio::test]
async fn error_within_an_answer_ends_it_without_calls() {
    let answer = |request: &Request| {
        let blocks = [Block::Text("Part"), Block::Call("toolu_1", "a__b", "{}")];
        let mut events = anthropic::events(request, &blocks, "tool_use");
        events.truncate(events.len() - 2);
        events.push("event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n".to_owned());
        Script::events(events.iter().map(String::as_str))
    };
    let provider = Provider::answering(answer).key(KEY);
    let outcome = ask_with(
        &broker(),
        &anthropic(&provider),
        &prompt(),
        &[tool("a.b", "{}")],
    )
    .await;
    assert!(outcome.error().contains("Overloaded"));
    assert_eq!(outcome.text(), "Part");
    assert_eq!(outcome.calls(), []);
}

/// A call that the length limit cuts off is not run.
#[tokio::test]
async fn half_a_call_is_not_run() {
    let answer = |request: &Request| {
        let blocks = [
            Block::Text("Part"),
            Block::Call("toolu_1", "a__b", "{\"a\":1}"),
        ];
        let events = anthropic::events(request, &blocks, "max_tokens");
        // Without the last piece and the end of the call.
        let at = events.len() - 4;
        let events = events
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != at && *n != at + 1);
        Script::events(events.map(|(_, event)| event.as_str()))
    };
    let provider = Provider::answering(answer).key(KEY);
    let outcome = ask_with(
        &broker(),
        &anthropic(&provider),
        &prompt(),
        &[tool("a.b", "{}")],
    )
    .await;
    assert_eq!(outcome.result.as_ref().unwrap(), &FinishReason::Length);
    assert_eq!(
        (outcome.text().as_str(), outcome.calls().len()),
        ("Part", 0)
    );
}
