//! Sessions with tool calls are resumed: in another shell, after a restart, after a crash.

use crate::support::shell_id;
use aish::protocol::{AskRequest, SessionChoice};
use serde_json::{Value, json};

use super::rounds::ALL;
use super::{Tools, wait};
use crate::fakes::mcp_http::{BodyPart, McpResponse};
use crate::fakes::provider::{Script, finish_event};

/// The messages of a request, without the system prompt.
fn messages_of(tools: &Tools, request: usize) -> Vec<Value> {
    let requests = tools.helper.provider.requests();
    let messages = requests[request].json["messages"].as_array();
    messages.expect("messages")[1..].to_vec()
}

#[test]
fn a_resumed_session_has_the_calls_and_their_results() {
    let calls = [("a", "fs.read", "{\"n\":1}"), ("b", "fs.read", "{\"n\":2}")];
    let mut queue = vec![Script::calls("hm", &calls)];
    queue.extend((0..5).map(|n| Script::tokens([format!("answer {n}")])));
    let tools = Tools::new(queue, ALL);
    tools.ask("one").end();
    let first = messages_of(&tools, 1);
    let call = |id: &str, arguments: &str| {
        let function = json!({ "name": "fs.read", "arguments": arguments });
        json!({ "id": id, "type": "function", "function": function })
    };
    assert_eq!(
        first,
        [
            json!({ "role": "user", "content": "one" }),
            json!({
                "role": "assistant",
                "content": "hm",
                "tool_calls": [call("a", "{\"n\":1}"), call("b", "{\"n\":2}")],
            }),
            json!({ "role": "tool", "tool_call_id": "a", "content": "{\"n\":1}" }),
            json!({ "role": "tool", "tool_call_id": "b", "content": "{\"n\":2}" }),
        ]
    );
    let id = tools.helper.records_of("session")[0]["session"].clone();
    let id = id.as_str().expect("an id").to_owned();
    let choices = [
        SessionChoice::Shell,
        SessionChoice::Continue,
        SessionChoice::Attach(id),
    ];
    let mut expected = first;
    for (n, choice) in choices.into_iter().enumerate() {
        if n > 0 {
            tools.helper.call(["stop"]).run().ok();
            tools.helper.call(["start"]).run().ok();
        }
        let text = format!("prompt {n}");
        tools
            .ask_as(AskRequest {
                shell: Some(shell_id("s1")),
                session: choice,
                text: text.clone(),
                ..AskRequest::default()
            })
            .end();
        let answer = format!("answer {n}");
        expected.push(json!({ "role": "assistant", "content": answer }));
        expected.push(json!({ "role": "user", "content": text }));
        assert_eq!(messages_of(&tools, n + 2), expected);
    }
    tools.ask("last").end();
}

#[test]
fn a_session_continues_after_the_daemon_was_killed_in_a_call() {
    let calls = [("a", "fs.read", "{}"), ("b", "fs.write", "{}")];
    let tools = Tools::new([Script::calls("", &calls), Script::tokens(["again"])], ALL);
    tools.behave(|_| Some(McpResponse::events([BodyPart::Gate("call"), BodyPart::Cut])));
    let client = tools.ask("x");
    wait(tools.server.reached("call"));
    tools.helper.kill_daemon();
    drop(client);
    let kinds = |tools: &Tools| -> Vec<Value> {
        tools
            .helper
            .records()
            .iter()
            .map(|r| r["type"].clone())
            .collect()
    };
    // Approvals by rules are recorded for the whole answer before its first call.
    let expected = ["session", "user", "assistant", "approval", "approval"];
    assert_eq!(kinds(&tools), expected);
    tools.helper.call(["start"]).run().ok();
    tools.ask("and now?").end();
    assert_eq!(tools.results_in_request(1), ["[no result: interrupted]"; 2]);
    assert_eq!(
        tools.called().len(),
        1,
        "calls are not repeated after a restart"
    );
}

/// Gemini rejects requests whose tool calls lack their thought signatures.
#[test]
fn provider_fields_of_a_call_are_sent_back() {
    let extra = json!({"google": {"thought_signature": "c2ln=="}});
    let call = json!({
        "index": 0, "id": "a", "type": "function", "extra_content": extra,
        "function": {"name": "fs.read", "arguments": "{}"},
    });
    let delta = json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]});
    let events = [format!("data: {delta}\n\n"), finish_event("tool_calls")];
    let refusal = json!({"error": {"message": "Unknown name \"extra_content\": no such field"}});
    let tools = Tools::new(
        [
            Script::events(events.iter().map(String::as_str)),
            Script::tokens(["done"]),
            Script::tokens(["again"]),
            Script::status(400, &refusal.to_string()),
            Script::tokens(["without"]),
        ],
        ALL,
    );
    tools.ask("x").end();
    tools.helper.kill_daemon();
    tools.helper.call(["start"]).run().ok();
    tools.ask("and now?").end();
    // Another provider within the session.
    tools.ask("and there?").end();
    let sent: Vec<Value> = tools
        .helper
        .provider
        .requests()
        .iter()
        .flat_map(|r| r.json["messages"].as_array().unwrap().clone())
        .filter_map(|m| m["tool_calls"].as_array().map(|calls| calls[0].clone()))
        .map(|call| call.get("extra_content").cloned().unwrap_or_default())
        .collect();
    assert_eq!(sent, [extra.clone(), extra.clone(), extra, Value::Null]);
}

#[test]
fn a_daemon_killed_at_a_question_has_made_no_call() {
    let tools = Tools::new(
        [
            Script::calls("", &[("a", "fs.write", "{}")]),
            Script::tokens(["again"]),
        ],
        "",
    );
    let mut client = tools.ask("x");
    client.question();
    tools.helper.kill_daemon();
    assert!(client.next().is_none());
    tools.helper.call(["start"]).run().ok();
    // The journal says so without a prompt.
    let records = tools.helper.records();
    let ends: Vec<_> = records
        .iter()
        .rev()
        .take(2)
        .map(|r| (&r["type"], r["status"].as_str(), r["finish"].as_str()))
        .collect();
    let (tool, answer) = (json!("tool"), json!("assistant"));
    assert_eq!(
        ends,
        [
            (&answer, None, Some("cut_off")),
            (&tool, Some("interrupted"), None)
        ]
    );
    tools.ask("and now?").end();
    assert_eq!(tools.results_in_request(1), ["[no result: interrupted]"]);
    assert_eq!(tools.called(), []);
}
