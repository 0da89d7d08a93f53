//! The Responses API of OpenAI.

use aish::chat::{ImageContent, ToolCall, ToolResult};

use super::*;
use crate::fakes::provider::Request;
use crate::fakes::provider::responses::{self, Item, MODEL};

fn openai(provider: &Provider) -> ModelEndpoint {
    ModelEndpoint {
        dialect: Dialect::Responses,
        ..with_key(&provider.base_url())
    }
}

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition {
        name: name.into(),
        schema: "{}".into(),
        ..ToolDefinition::default()
    }
}

/// A provider that answers each request with one of these answers.
fn answering(answers: &'static [&'static [Item<'static>]]) -> Provider {
    let mut answers = answers.iter();
    let answer = move |request: &Request| {
        responses::answer(
            request,
            answers.next().expect("another request"),
            "completed",
        )
    };
    Provider::answering(answer).key(KEY)
}

const THOUGHTFUL: &[Item<'static>] = &[
    Item::Reasoning("First \"é\"."),
    Item::Text("I look at both."),
    Item::Call("call_1", "fs__read", "{\"path\":\"a\\n\"}"),
    Item::Call("call_2", "fs__list", "{}"),
];

#[tokio::test]
async fn answer_has_reasoning_text_calls_and_usage() {
    let provider = answering(&[THOUGHTFUL]);
    let tools = [tool("fs.read"), tool("fs.list")];
    let outcome = ask_with(&broker(), &openai(&provider), &prompt(), &tools).await;
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
            ("call_1", "fs.read", "{\"path\":\"a\\n\"}"),
            ("call_2", "fs.list", "{}")
        ]
    );
    let model = StreamItem::Model(MODEL.to_owned());
    assert!(outcome.chunks.contains(&model), "{outcome:?}");
    let usage = StreamItem::Usage(TokenUsage {
        prompt_tokens: 327,
        completion_tokens: 40,
        cache_read_tokens: 300,
        cache_write_tokens: 0,
        reasoning_tokens: 30,
        cost_picodollars: None,
    });
    assert!(outcome.chunks.contains(&usage), "{outcome:?}");
    assert_eq!(provider.requests()[0].path, "/v1/responses");
}

#[tokio::test]
async fn reasoning_is_sent_back_while_what_precedes_it_is_unchanged() {
    let provider = answering(&[
        THOUGHTFUL,
        &[Item::Reasoning(""), Item::Text("Done.")],
        &[Item::Text("Again.")],
        &[Item::Text("Anew.")],
    ]);
    let (broker, endpoint) = (broker(), openai(&provider));
    let tools = [tool("fs.read"), tool("fs.list")];
    let first = ask_with(&broker, &endpoint, &prompt(), &tools).await;
    let mut talk = first.follow(prompt());
    let second = ask_with(&broker, &endpoint, &talk, &tools).await;
    talk = second.follow(talk);
    talk.push(ChatMessage::user("and now?"));
    ask_with(&broker, &endpoint, &talk, &tools).await;
    // The provider checks the encrypted contents.
    let kinds = |n: usize| -> Vec<String> {
        let input = provider.requests()[n].json["input"].clone();
        let kind = |item: &serde_json::Value| item["type"].as_str().unwrap_or_default().to_owned();
        input.as_array().unwrap().iter().map(kind).collect()
    };
    let calls = ["function_call", "function_call"];
    let results = ["function_call_output", "function_call_output"];
    let with = [&["message", "reasoning", "message"][..], &calls, &results];
    assert_eq!(kinds(1), with.concat());
    assert_eq!(
        kinds(2),
        [&with.concat()[..], &["reasoning", "message", "message"]].concat()
    );
    let cache_key = |n: usize| provider.requests()[n].json["prompt_cache_key"].clone();
    assert_eq!(cache_key(0), cache_key(2));
    // Other instructions: the reasoning is left out, and nothing else.
    talk[0] = ChatMessage::System("be long".to_owned());
    ask_with(&broker, &endpoint, &talk, &tools).await;
    let without = [
        &["message", "message"][..],
        &calls,
        &results,
        &["message", "message"],
    ];
    assert_eq!(kinds(3), without.concat());
}

#[tokio::test]
async fn history_of_another_provider_is_accepted() {
    let provider = answering(&[&[Item::Text("ok")]]);
    let call = |id: &str, arguments: &str| ToolCall {
        id: id.into(),
        name: "fs.read".into(),
        arguments: arguments.into(),
        extra: Some("{}".into()),
    };
    let long = "x".repeat(80);
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
        ChatMessage::calling(" \n", vec![call(&long, "{\"a\":1}"), call("call.1|x", "[")]),
        result(&long),
        result("call.1|x"),
        ChatMessage::user("more"),
    ]);
    let endpoint = ModelEndpoint {
        images: true,
        ..openai(&provider)
    };
    let outcome = ask_with(&broker(), &endpoint, &messages, &[tool("fs.read")]).await;
    assert_eq!(outcome.text(), "ok");
    let output = provider.requests()[0].json["input"][3]["output"].clone();
    assert_eq!(output[0]["type"], "input_image");
}

#[tokio::test]
async fn what_the_model_refuses_is_learned() {
    let provider = Provider::start([
        Script::status(400, r#"{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}"#),
        Script::status(400, r#"{"error":{"message":"Unsupported parameter: 'temperature' is not supported with this model.","type":"invalid_request_error","param":"temperature","code":null}}"#),
        Script::status(401, r#"{"error":{"message":"Incorrect API key provided"}}"#),
    ])
    .key(KEY);
    let endpoint = ModelEndpoint {
        temperature: Some(0.5),
        ..openai(&provider)
    };
    let outcome = ask(&broker(), &endpoint).await;
    assert!(outcome.error().contains("Incorrect API key"));
    let has = |n: usize, key: &str| provider.requests()[n].json.get(key).is_some();
    assert_eq!((has(0, "include"), has(0, "temperature")), (true, true));
    assert_eq!((has(2, "include"), has(2, "temperature")), (false, false));
    let told = outcome.notices().join("\n");
    assert_eq!(told.matches("left out from now on").count(), 2, "{told}");
    assert_eq!(
        told.matches("model test-model: refuses a temperature")
            .count(),
        1,
        "{told}"
    );
}

#[tokio::test]
async fn a_server_without_responses_gets_chat_completions() {
    let broker = broker();
    let provider = Provider::start([
        Script::status(404, r#"{"detail":"Not Found"}"#),
        Script::tokens(["one"]),
        Script::tokens(["two"]),
    ])
    .key(KEY);
    assert_eq!(ask(&broker, &openai(&provider)).await.text(), "one");
    assert_eq!(ask(&broker, &openai(&provider)).await.text(), "two");
    let paths: Vec<_> = provider.requests().into_iter().map(|r| r.path).collect();
    let chat = "/v1/chat/completions";
    assert_eq!(paths, ["/v1/responses", chat, chat]);

    // The server has it, but not the model.
    let unknown = r#"{"error":{"message":"The model 'test-model' does not exist"}}"#;
    let provider = Provider::start([Script::status(404, unknown)]).key(KEY);
    let outcome = ask(&broker, &openai(&provider)).await;
    assert!(outcome.error().contains("does not exist"), "{outcome:?}");
    assert_eq!(provider.requests().len(), 1);
}

#[tokio::test]
async fn failures_and_limits_are_named() {
    for (events, words) in [
        (
            r#"{"type":"error","code":"invalid_prompt","message":"Slow down","param":null}"#,
            "Slow down",
        ),
        (
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"image_parse_error","message":"It broke"}}}"#,
            "It broke",
        ),
        (
            r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#,
            "filtered the whole answer",
        ),
        (
            r#"{"type":"response.completed","response":{"status":"completed"}}"#,
            "an empty answer",
        ),
        (
            r#"{"type":"response.created","response":{"model":"m"}}"#,
            "cut off",
        ),
    ] {
        let provider =
            Provider::start([Script::events([&*format!("data: {events}\n\n")])]).key(KEY);
        let outcome = ask(&broker(), &openai(&provider)).await;
        assert!(outcome.error().contains(words), "{words}: {outcome:?}");
    }
    let answer =
        |request: &Request| responses::answer(request, &[Item::Reasoning("hm")], "incomplete");
    let provider = Provider::answering(answer).key(KEY);
    let outcome = ask(&broker(), &openai(&provider)).await;
    assert!(
        outcome.error().contains("used up its tokens"),
        "{outcome:?}"
    );
    assert!(outcome.native().is_none());
}
