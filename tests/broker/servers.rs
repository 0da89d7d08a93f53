//! Details in which chat completions servers differ.

use serde_json::{Value, json};

use super::*;
use crate::fakes::provider::{Shape, call_events, finish_event};

/// Events of these deltas, of a call and of the end.
fn answer(deltas: &[Value]) -> Script {
    let event = |delta: &Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
        format!("data: {}\n\n", json!({"model": "m", "choices": [choice]}))
    };
    let mut events: Vec<String> = deltas.iter().map(event).collect();
    events.extend(call_events(Shape::Whole, &[("call_1", "a", "{}")]));
    events.push(finish_event("tool_calls"));
    events.push("data: [DONE]\n\n".to_owned());
    Script::events(events.iter().map(String::as_str))
}

#[tokio::test]
async fn mistral_gets_short_ids_and_an_answer_behind_results() {
    let provider = Provider::start([answer(&[]), Script::tokens(["ok"]), Script::tokens(["ok"])]);
    let endpoint = ModelEndpoint {
        is_mistral: true,
        ..endpoint(&provider.base_url())
    };
    let broker = broker();
    let mut talk = ask(&broker, &endpoint).await.follow(prompt());
    ask_with(&broker, &endpoint, &talk, &[]).await;
    talk.push(ChatMessage::user("and now?"));
    ask_with(&broker, &endpoint, &talk, &[]).await;
    let requests = provider.requests();
    let sent = |n: usize| {
        requests[n].json["messages"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    for n in [1, 2] {
        let id = sent(n)[2]["tool_calls"][0]["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(
            id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()),
            "{id}"
        );
        assert_eq!(sent(n)[3]["tool_call_id"], id);
        assert_eq!(sent(1)[2], sent(n)[2]);
    }
    assert_eq!(sent(1).len(), 4);
    assert_eq!(sent(2)[4], json!({"role": "assistant", "content": "OK"}));
    assert_eq!(sent(2)[5]["role"], "user");
}

#[tokio::test]
async fn errors_of_mistral_are_understood() {
    for body in [
        r#"{"object":"error","message":"Bad thing","type":"invalid_request_error","param":null,"code":null}"#,
        r#"{"object":"error","message":{"detail":[{"type":"extra","loc":["body"],"msg":"Bad thing"}]}}"#,
    ] {
        for script in [Script::status(400, body), Script::status(200, body)] {
            assert!(
                ask_once(script).await.error().contains(": Bad thing"),
                "{body}"
            );
        }
    }
}
