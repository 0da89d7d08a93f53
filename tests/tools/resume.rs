//! A conversation with calls is found again: in another shell, after a restart, after a crash.

use aish::protocol::{Ask, SessionChoice};
use serde_json::{Value, json};

use super::rounds::ALL;
use super::{Tools, wait};
use crate::fakes::mcp_http::{Answer, Part};
use crate::fakes::provider::Script;

/// The messages of a request, without the instructions.
fn talk(tools: &Tools, request: usize) -> Vec<Value> {
    let requests = tools.helper.provider.requests();
    let messages = requests[request].json["messages"].as_array();
    messages.expect("messages")[1..].to_vec()
}

#[test]
fn every_way_back_has_the_calls_and_their_results() {
    let calls = [("a", "fs.read", "{\"n\":1}"), ("b", "fs.read", "{\"n\":2}")];
    let mut queue = vec![Script::calls("hm", &calls)];
    queue.extend((0..5).map(|n| Script::tokens([format!("answer {n}")])));
    let tools = Tools::new(queue, ALL);
    tools.ask("one").end();
    let first = talk(&tools, 1);
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
            .ask_as(Ask {
                shell: Some("s1".into()),
                session: choice,
                text: text.clone(),
                ..Ask::default()
            })
            .end();
        let answer = format!("answer {n}");
        expected.push(json!({ "role": "assistant", "content": answer }));
        expected.push(json!({ "role": "user", "content": text }));
        assert_eq!(talk(&tools, n + 2), expected);
    }
    tools.ask("last").end();
}

#[test]
fn a_daemon_that_is_killed_in_a_call_leaves_a_conversation_that_goes_on() {
    let calls = [("a", "fs.read", "{}"), ("b", "fs.write", "{}")];
    let tools = Tools::new([Script::calls("", &calls), Script::tokens(["again"])], ALL);
    tools.behave(|_| Some(Answer::events([Part::Gate("call"), Part::Cut])));
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
    // What rules allow is recorded for the whole answer before its first call.
    let begun = ["session", "user", "assistant", "approval", "approval"];
    assert_eq!(kinds(&tools), begun);
    tools.helper.call(["start"]).run().ok();
    tools.ask("and now?").end();
    assert_eq!(tools.told(1), ["[no result: the call failed]"; 2]);
    assert_eq!(tools.called().len(), 1, "nothing is called again by itself");
}

#[test]
fn a_daemon_that_is_killed_at_a_question_has_called_nothing() {
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
    tools.ask("and now?").end();
    assert_eq!(tools.told(1), ["[no result: the call failed]"]);
    assert_eq!(tools.called(), []);
}
