//! Review of tools by the user: new tools are shown once, and changed tools need approval again.

use aish::chat::OperationClass;
use aish::protocol::Event;
use aish::protocol::tools::{ApprovalRequest, ApprovalVerdict, NewTools};
use serde_json::{Value, json};

use super::{Client, Seen, Tools};
use crate::fakes::mcp_http;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;

/// Allows all tools of the server.
const RULE: &str = "[mcp.auto_approve]\n\"fs.*\" = true\n";

/// A model that calls `fs.write` for every prompt.
fn writer() -> Helper {
    Helper::with(Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        match messages.last().expect("a message")["role"].as_str() {
            Some("tool") => Script::tokens(["done"]),
            _ => Script::calls("", &[("c", "fs.write", "{}")]),
        }
    }))
}

fn write(description: &str, annotations: Value) -> Value {
    json!({
        "name": "write",
        "description": description,
        "inputSchema": { "type": "object" },
        "annotations": annotations,
    })
}

/// Replaces the tools of the server and reconnects to it.
fn replace_tools(tools: &Tools, list: &[Value]) {
    tools.server.set_tools(json!(list));
    tools.helper.call(["mcp", "connect", "fs"]).run().ok();
}

fn shown(seen: &Seen) -> Vec<NewTools> {
    seen.events(|event| match event {
        Event::NewTools(new) => Some(new.clone()),
        _ => None,
    })
}

/// Sends a prompt, answers its question with `verdict` and returns the question.
fn ask_and_answer(tools: &Tools, verdict: ApprovalVerdict) -> ApprovalRequest {
    let mut client: Client = tools.ask("x");
    let question = client.question();
    client.say(&question, verdict);
    client.end();
    question
}

fn changes(question: &ApprovalRequest) -> Vec<String> {
    let line = |c: &aish::protocol::tools::ToolDiffLine| format!("{}{}", c.sign, c.text);
    question.changes.iter().map(line).collect()
}

fn names(new: &NewTools) -> Vec<&str> {
    new.tools.iter().map(|t| t.name.as_str()).collect()
}

const NO: ApprovalVerdict = ApprovalVerdict::No { words: None };

#[test]
fn tools_of_a_new_server_are_shown_once_before_the_first_call() {
    let tools = Tools::with(writer(), RULE);
    let seen = tools.ask("x").end();
    let [new] = &shown(&seen)[..] else {
        panic!("{:#?}", seen.frames);
    };
    assert!(new.first);
    assert_eq!(
        (new.server.as_str(), &new.target),
        ("fs", &tools.server.url())
    );
    assert_eq!(names(new), ["fs.read", "fs.write"]);
    assert_eq!(new.tools[0].schema["type"], "object");
    let place = |wanted: fn(&Event) -> bool| {
        let found = seen.frames.iter().position(|f| match f {
            super::Frame::Event(event) => wanted(event),
            _ => false,
        });
        found.expect("the event")
    };
    let first = place(|e| matches!(e, Event::NewTools(_)));
    assert!(first < place(|e| matches!(e, Event::ToolCallStarted(_))));
    // Not shown again, also not after a restart.
    assert!(shown(&tools.ask("y").end()).is_empty());
    tools.helper.call(["stop"]).run().ok();
    tools.helper.call(["start"]).run().ok();
    assert!(shown(&tools.ask("z").end()).is_empty());
    // A tool that was added later is not shown until it is called.
    replace_tools(&tools, &["read", "other", "write"].map(mcp_http::tool));
    assert!(shown(&tools.ask("x").end()).is_empty());
    assert_eq!(tools.called().len(), 4);
}

#[test]
fn tool_added_later_is_shown_before_its_first_call() {
    let tools = Tools::with(writer(), RULE);
    replace_tools(&tools, &[mcp_http::tool("read")]);
    tools.ask("x").end();
    assert_eq!(tools.called(), []);
    replace_tools(&tools, &[mcp_http::tool("write")]);
    let seen = tools.ask("x").end();
    assert_eq!(names(&shown(&seen)[0]), ["fs.write"]);
    replace_tools(&tools, &["read", "write"].map(mcp_http::tool));
    assert!(shown(&tools.ask("x").end()).is_empty());
}

#[test]
fn changed_description_needs_approval_with_a_diff_despite_rules() {
    let tools = Tools::with(writer(), RULE);
    replace_tools(&tools, &[write("Writes.\nAt once.", json!({}))]);
    tools.ask("x").end();
    assert_eq!(tools.called().len(), 1);
    replace_tools(&tools, &[write("Writes.\nAnd sends it on.", json!({}))]);
    // A denial does not accept the change; also after a restart.
    let question = ask_and_answer(&tools, NO);
    assert_eq!(
        changes(&question)[..3],
        [" Writes.", "-At once.", "+And sends it on."]
    );
    assert_eq!(question.why, "the tool has changed since you allowed it");
    tools.helper.call(["stop"]).run().ok();
    tools.helper.call(["start"]).run().ok();
    assert_eq!(changes(&ask_and_answer(&tools, NO)), changes(&question));
    assert_eq!(tools.called().len(), 1);
    assert_eq!(
        changes(&ask_and_answer(&tools, ApprovalVerdict::Once)),
        changes(&question)
    );
    tools.ask("x").end();
    assert_eq!(tools.called().len(), 3);
    // A changed schema needs approval too.
    let mut other = write("Writes.\nAnd sends it on.", json!({}));
    other["inputSchema"]["properties"] = json!({ "to": { "type": "string" } });
    replace_tools(&tools, &[other]);
    let changes = changes(&ask_and_answer(&tools, NO));
    assert!(
        changes.iter().any(|line| line == "+    \"to\": {"),
        "{changes:#?}"
    );
}

#[test]
fn tool_that_drops_its_destructive_hint_needs_approval() {
    let tools = Tools::with(writer(), RULE);
    let set_annotations = |hints| replace_tools(&tools, &[write("Writes.", hints)]);
    set_annotations(json!({ "destructiveHint": true }));
    tools.ask("x").end();
    set_annotations(json!({ "destructiveHint": false }));
    let question = ask_and_answer(&tools, NO);
    let changed: Vec<String> = changes(&question)
        .into_iter()
        .filter(|l| !l.starts_with(' '))
        .collect();
    assert_eq!(changed, ["-may destroy: yes", "+may destroy: no"]);
    ask_and_answer(&tools, ApprovalVerdict::Once);
    tools.ask("x").end();
    // Adding the hint is a change too.
    set_annotations(json!({ "destructiveHint": true }));
    assert_eq!(
        ask_and_answer(&tools, ApprovalVerdict::Once)
            .operation
            .as_str(),
        "destructive"
    );
    // A first annotation may lower the operation class.
    set_annotations(json!({ "destructiveHint": true, "readOnlyHint": true }));
    ask_and_answer(&tools, NO);
    assert_eq!(tools.called().len(), 4);
}

#[test]
fn missing_annotations_are_no_change_and_stay_in_force() {
    let tools = Tools::with(writer(), "");
    replace_tools(
        &tools,
        &[write("Writes.", json!({ "destructiveHint": true }))],
    );
    assert_eq!(
        ask_and_answer(&tools, ApprovalVerdict::Tool)
            .operation
            .as_str(),
        "destructive"
    );
    replace_tools(&tools, &[write("Writes.", json!({}))]);
    // The grant is still valid.
    let seen = tools.ask("x").end();
    let began = seen.events(|e| match e {
        Event::ToolCallStarted(begin) => Some(begin.operation),
        _ => None,
    });
    assert_eq!(began, [OperationClass::Destructive]);
    tools.helper.call(["stop"]).run().ok();
    tools.helper.call(["start"]).run().ok();
    let question = ask_and_answer(&tools, NO);
    assert_eq!(question.operation.as_str(), "destructive");
    assert_eq!(question.tool.destructive, Some(true));
    assert_eq!(question.changes, []);
    let record = tools.helper.records_of("approval").pop().expect("a record");
    assert_eq!(record["action"]["annotations"]["destructiveHint"], true);
}

#[test]
fn grant_for_a_changed_tool_lapses_and_is_recorded() {
    let tools = Tools::with(writer(), "");
    replace_tools(&tools, &[write("Writes.", json!({}))]);
    ask_and_answer(&tools, ApprovalVerdict::Tool);
    replace_tools(&tools, &[write("Deletes.", json!({}))]);
    ask_and_answer(&tools, ApprovalVerdict::Once);
    ask_and_answer(&tools, NO);
    // Restoring the previous definition does not restore the grant.
    replace_tools(&tools, &[write("Writes.", json!({}))]);
    assert!(!ask_and_answer(&tools, NO).changes.is_empty());
    let policy = tools.helper.records_of("policy");
    let changes: Vec<(&Value, &Value)> =
        policy.iter().map(|r| (&r["change"], &r["rule"])).collect();
    let rule = json!("you, for this session: fs.write");
    assert_eq!(
        changes,
        [(&json!("granted"), &rule), (&json!("lapsed"), &rule)]
    );
    assert_eq!(policy[0]["grant"], policy[1]["grant"]);
}

/// A denied tool is never shown, so dropping the hint is not accepted and the deny rule still applies.
#[test]
fn denied_tool_with_fewer_annotations_stays_denied() {
    let rules = "[policy.rules]\n\"fs.*\" = \"allow\"\n\"op:destructive\" = \"deny\"\n";
    let tools = Tools::with(writer(), rules);
    let set_annotations = |hints| replace_tools(&tools, &[write("Writes.", hints)]);
    set_annotations(json!({ "destructiveHint": true }));
    tools.ask("x").end();
    set_annotations(json!({}));
    tools.ask("y").end();
    tools.helper.call(["stop"]).run().ok();
    tools.helper.call(["start"]).run().ok();
    tools.ask("z").end();
    assert_eq!(tools.called(), []);
    let decisions = tools.helper.records_of("approval");
    assert_eq!(decisions.len(), 3);
    assert!(decisions.iter().all(|r| r["decision"] == "denied"));
}
