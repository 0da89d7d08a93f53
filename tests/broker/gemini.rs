//! The Gemini API of Google.

use aish::chat::{ImageContent, ToolCall, ToolResult};

use super::*;
use crate::fakes::provider::Request;
use crate::fakes::provider::gemini::{self, MODEL, Part as Piece};

fn google(provider: &Provider) -> ModelEndpoint {
    ModelEndpoint {
        dialect: Dialect::Gemini,
        model: "models/gemini-fake-1".to_owned(),
        ..with_key(&provider.base_url())
    }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        description: "Does it.".into(),
        schema: "{\"anyOf\":[]}".into(),
        ..ToolDefinition::default()
    }
}

/// A provider that answers each request with one of these answers.
fn answering(answers: &'static [&'static [Piece<'static>]]) -> Provider {
    let mut answers = answers.iter();
    let answer = move |request: &Request| {
        gemini::answer(request, answers.next().expect("another request"), "STOP")
    };
    Provider::answering(answer).key(KEY)
}

const THOUGHTFUL: &[Piece<'static>] = &[
    Piece::Thought("First \"é\"."),
    Piece::Text("I look "),
    Piece::Text("at both."),
    Piece::Call("", "fs__read", "{\"path\":\"a\"}"),
    Piece::Call("id-2", "fs__read", "{}"),
];

#[tokio::test]
async fn answer_has_reasoning_text_calls_and_usage() {
    let provider = answering(&[THOUGHTFUL]);
    let outcome = ask_with(&broker(), &google(&provider), &prompt(), &[tool("fs.read")]).await;
    assert_eq!(outcome.result.as_ref().unwrap(), &FinishReason::Stop);
    assert_eq!(outcome.text(), "I look at both.");
    assert_eq!(outcome.reasoning(), "First \"é\".");
    let calls = outcome.calls();
    let calls: Vec<_> = calls
        .iter()
        .map(|c| (&*c.id, &*c.name, &*c.arguments))
        .collect();
    assert_eq!(
        calls,
        [
            ("call_1", "fs.read", "{\"path\":\"a\"}"),
            ("id-2", "fs.read", "{}")
        ]
    );
    let model = StreamItem::Model(MODEL.to_owned());
    assert!(outcome.chunks.contains(&model), "{outcome:?}");
    let usage = StreamItem::Usage(TokenUsage {
        prompt_tokens: 327,
        completion_tokens: 34,
        cache_read_tokens: 300,
        cache_write_tokens: 0,
        reasoning_tokens: 30,
        cost_picodollars: None,
    });
    assert!(outcome.chunks.contains(&usage), "{outcome:?}");
    let path = &provider.requests()[0].path;
    assert_eq!(
        path,
        "/v1/models/gemini-fake-1:streamGenerateContent?alt=sse"
    );
}

#[tokio::test]
async fn signatures_are_sent_back_while_what_precedes_them_is_unchanged() {
    let provider = answering(&[
        THOUGHTFUL,
        &[Piece::Text("Done."), Piece::Signature],
        &[Piece::Text("Again.")],
        &[Piece::Text("Anew.")],
    ]);
    let (broker, endpoint) = (broker(), google(&provider));
    let tools = [tool("fs.read")];
    let first = ask_with(&broker, &endpoint, &prompt(), &tools).await;
    let mut talk = first.follow(prompt());
    let second = ask_with(&broker, &endpoint, &talk, &tools).await;
    talk = second.follow(talk);
    talk.push(ChatMessage::user("and now?"));
    ask_with(&broker, &endpoint, &talk, &tools).await;
    // The provider checks the signatures.
    let parts = |n: usize, at: usize| -> usize {
        let parts = provider.requests()[n].json["contents"][at]["parts"].clone();
        parts.as_array().unwrap().len()
    };
    assert_eq!((parts(1, 1), parts(2, 1), parts(2, 3)), (5, 5, 2));
    // Other instructions: one text and the calls, without signatures.
    talk[0] = ChatMessage::System("be long".to_owned());
    ask_with(&broker, &endpoint, &talk, &tools).await;
    assert_eq!((parts(3, 1), parts(3, 3)), (3, 1));
}

#[tokio::test]
async fn history_of_another_provider_is_accepted() {
    let provider = answering(&[&[Piece::Text("ok")]]);
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "fs.read".into(),
        arguments: arguments.into(),
        extra: Some("{}".into()),
    };
    let result = |id: &str| {
        ChatMessage::Tool(ToolResult {
            id: id.into(),
            name: "fs.read".into(),
            images: vec![ImageContent {
                mime: "image/png".into(),
                data: "aGk=".into(),
            }],
            ..ToolResult::default()
        })
    };
    let mut messages = prompt();
    messages.extend([
        ChatMessage::calling(" \n", vec![call("1", "{\"a\":1}"), call("2", "[")]),
        result("1"),
        result("2"),
        ChatMessage::user("more"),
        ChatMessage::assistant(""),
        ChatMessage::user("and more"),
    ]);
    let endpoint = ModelEndpoint {
        images: true,
        ..google(&provider)
    };
    let outcome = ask_with(&broker(), &endpoint, &messages, &[tool("fs.read")]).await;
    assert_eq!(outcome.text(), "ok");
}

#[tokio::test]
async fn refusals_and_blocks_are_named() {
    for (events, words) in [
        (
            r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":3}}"#,
            "(PROHIBITED_CONTENT)",
        ),
        (
            r#"{"candidates":[{"finishReason":"SAFETY","index":0}]}"#,
            "filtered the whole answer (SAFETY)",
        ),
        (
            r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL","finishMessage":"bad call"}]}"#,
            "MALFORMED_FUNCTION_CALL: bad call",
        ),
        (
            r#"{"error":{"code":400,"message":"The model is overloaded.","status":"INVALID_ARGUMENT"}}"#,
            "The model is overloaded.",
        ),
    ] {
        let provider =
            Provider::start([Script::events([&*format!("data: {events}\r\n\r\n")])]).key(KEY);
        let outcome = ask(&broker(), &google(&provider)).await;
        assert!(outcome.error().contains(words), "{words}: {outcome:?}");
        assert_eq!(outcome.calls(), []);
    }
}

#[tokio::test]
async fn error_responses_are_understood() {
    let provider = Provider::start([
        Script::status(400, r#"{"error":{"code":400,"message":"Thinking is not enabled for this model","status":"INVALID_ARGUMENT"}}"#),
        Script::status(429, r#"{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"0.01s"}]}}"#),
        Script::status(400, r#"{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#),
        Script::status(429, r#"{"error":{"code":429,"message":"Quota exceeded","details":[{"retryDelay":"48s"}]}}"#),
    ])
    .key(KEY);
    let (broker, endpoint) = (broker(), google(&provider));
    let outcome = ask(&broker, &endpoint).await;
    assert!(outcome.error().contains("refuses access"), "{outcome:?}");
    let told = outcome.notices();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].contains("refuses the request for reasoning"));
    let thinks = |n: usize| {
        provider.requests()[n].json["generationConfig"]
            .get("thinkingConfig")
            .is_some()
    };
    assert_eq!((thinks(0), thinks(1)), (true, false));
    assert!(
        ask(&broker, &endpoint)
            .await
            .error()
            .contains("asks to wait 48 s")
    );
}
