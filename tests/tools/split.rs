//! The split: a model with many tools sees five, and what it calls through them is decided by what they call.

use aish::protocol::tools::Verdict;
use serde_json::{Value, json};

use super::Tools;
use crate::fakes::mcp_http;
use crate::fakes::provider::Script;

/// With these answers of the model, and as many tools as are too many to show each: `read`, which says that it only
/// reads, `drop`, which says that it destroys, `write`, of which nothing is said, and others.
fn many(queue: impl IntoIterator<Item = Script>, more: &str) -> Tools {
    let tools = Tools::new(queue, more);
    tools.server.set_tools(listed(40));
    tools
}

/// So many tools.
fn listed(count: usize) -> Value {
    let mut list = vec![
        hinted("read", json!({ "readOnlyHint": true })),
        hinted("drop", json!({ "destructiveHint": true })),
        mcp_http::tool("write"),
    ];
    list.extend((list.len()..count).map(|n| mcp_http::tool(&format!("other-{n}"))));
    Value::Array(list)
}

fn hinted(name: &str, hints: Value) -> Value {
    let mut tool = mcp_http::tool(name);
    tool["annotations"] = hints;
    tool
}

#[test]
fn a_call_through_a_variant_is_decided_and_made_as_what_it_calls() {
    let call = json!({
        "name": "fs:read",
        "args_json": "{ \"path\" : \"/é\" }",
        "intent": {"operation_type": "read", "data_sensitivity": "private", "reason": "you asked"},
    });
    let calls = [("c1", "call_tool_read", call.to_string())];
    let calls = calls
        .each_ref()
        .map(|(id, name, args)| (*id, *name, args.as_str()));
    let tools = many([Script::calls("", &calls), Script::tokens(["done"])], "");
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(question.tool.name, "fs.read");
    assert_eq!(question.arguments, "{\"path\":\"/é\"}");
    assert_eq!(question.operation, "write", "its server has said nothing");
    let intent = question.intent.clone().expect("an intent");
    assert_eq!(intent.operation_type, "read");
    assert_eq!(intent.data_sensitivity.as_deref(), Some("private"));
    assert_eq!(intent.reason.as_deref(), Some("you asked"));
    client.say(&question, Verdict::Once);
    let seen = client.end();
    assert_eq!(seen.calls(), ["begin c1", "end c1 success"]);
    assert_eq!(tools.called(), [("read".into(), json!({ "path": "/é" }))]);
    assert_eq!(tools.told(1), ["{\"path\":\"/é\"}"]);
    assert_eq!(
        tools.approved_at(0),
        [("once".into(), "{\"path\":\"/é\"}".into())]
    );
    for record in [
        &tools.helper.records_of("approval")[0],
        &tools.helper.records_of("tool")[0],
    ] {
        assert_eq!(record["name"], "fs.read");
        assert_eq!(record["arguments"], "{\"path\":\"/é\"}");
        let act = &record["act"];
        assert_eq!(
            (&act["server"], &act["tool"]),
            (&json!("fs"), &json!("read"))
        );
        assert_eq!(act["variant"], "call_tool_read");
        assert_eq!(act["operation"], "write");
        assert_eq!(act["intent"]["reason"], "you asked");
    }
    assert_eq!(tools.helper.records_of("tool")[0]["by"], "person");
    let offered: Vec<Value> = tools.helper.provider.requests()[0]
        .tool_names()
        .into_iter()
        .map(Value::from)
        .collect();
    assert_eq!(
        offered,
        [
            "retrieve_tools",
            "call_tool_read",
            "call_tool_write",
            "call_tool_destructive",
            "read_result"
        ]
    );
}
