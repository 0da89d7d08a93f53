//! Approvals and rules apply to a server and a tool as they were, not to others that get the same name later.

use aish::protocol::AskRequest;
use aish::protocol::tools::ApprovalVerdict;
use nix::sys::signal::Signal;
use serde_json::json;

use super::{Client, Tools, wait};
use crate::fakes::mcp_http::{self, FakeMcpServer, McpResponse};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::shell_id;

const RULE: &str = "[mcp.auto_approve]\n\"fs.*\" = true\n";

/// The error of a call that is not made.
const NOT_CALLED: &str = "mcp: fs.write: not called: the tool or its server has changed since the \
                          approval, or the approval has expired";

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

fn mcp_command(helper: &Helper, words: &[&str]) -> String {
    helper.call([&["mcp"], words].concat()).run().ok()
}

fn server_config(url: &str) -> String {
    format!("[mcp.servers.fs]\nurl = \"{url}\"\n")
}

fn answer(client: &mut Client, verdict: ApprovalVerdict) {
    let question = client.question();
    client.say(&question, verdict);
}

#[test]
fn rules_allow_nothing_to_a_manually_connected_server() {
    let server = FakeMcpServer::start();
    server.set_tools(json!([mcp_http::tool("write")]));
    let helper = writer();
    helper.config(RULE);
    mcp_command(&helper, &["connect", &server.url(), "fs"]);
    let ask = || Client::ask(&helper, ask_of("s1"));
    let mut client = ask();
    answer(&mut client, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(server.count("tools/call"), 0);
    // Approvals by the user apply to it as to any other server.
    let mut client = ask();
    answer(&mut client, ApprovalVerdict::Tool);
    client.end();
    ask().end();
    assert_eq!(server.count("tools/call"), 2);
    // The configuration gets a server with this alias, to which the rule applies.
    let configured = FakeMcpServer::start();
    configured.set_tools(json!([mcp_http::tool("write")]));
    helper.config(&format!("{}{RULE}", server_config(&configured.url())));
    ask().end();
    assert_eq!(
        (server.count("tools/call"), configured.count("tools/call")),
        (2, 1)
    );
}

fn ask_of(shell: &str) -> AskRequest {
    AskRequest {
        shell: Some(shell_id(shell)),
        text: "x".to_owned(),
        ..AskRequest::default()
    }
}

#[test]
fn generated_alias_cannot_match_a_rule() {
    let server = FakeMcpServer::start();
    let helper = Helper::new([]);
    helper.config("[mcp.auto_approve]\n\"local.echo\" = true\n");
    let output = mcp_command(&helper, &["connect", &server.url()]);
    assert!(output.starts_with("local-2 is connected"), "{output}");
}

#[test]
fn rule_does_not_follow_an_alias_to_another_server() {
    let calls = [("a", "fs.read", "{}"), ("b", "fs.write", "{}")];
    let queue = [Script::calls("", &calls), Script::tokens(["done"])];
    let tools = Tools::new(queue, &format!("{RULE}\"fs.read\" = false\n"));
    let mut client = tools.ask("x");
    let question = client.question();
    // Another shell loads the new configuration, with another server under the alias and without the rule.
    let replacement = FakeMcpServer::start();
    replacement.set_tools(json!([mcp_http::tool("write")]));
    tools.helper.config(&server_config(&replacement.url()));
    mcp_command(&tools.helper, &["list"]);
    client.say(&question, ApprovalVerdict::No { words: None });
    // The offered tool no longer exists, so the approval has no effect.
    answer(&mut client, ApprovalVerdict::Once);
    let seen = client.end();
    assert_eq!(seen.notices(), [NOT_CALLED]);
    assert_eq!(tools.called().len() + replacement.count("tools/call"), 0);
}

#[test]
fn tool_that_changes_during_the_question_is_not_called() {
    let tools = Tools::with(writer(), "");
    let other = json!({ "name": "write", "description": "deletes", "inputSchema": {} });
    let mut client = tools.ask("x");
    let question = client.question();
    tools.server.set_tools(json!([other]));
    mcp_command(&tools.helper, &["connect", "fs"]);
    client.say(&question, ApprovalVerdict::Reads);
    assert_eq!(client.end().notices()[0], NOT_CALLED);
    assert_eq!(tools.called(), []);
    // The changed tool was not granted for the session either.
    let mut client = tools.ask("y");
    let question = client.question();
    assert_eq!(question.tool.description, "deletes");
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called(), []);
}

#[test]
fn tool_that_becomes_destructive_during_the_question_is_not_called() {
    let tools = Tools::with(writer(), "");
    let set_annotations = |hints| {
        let mut tool = mcp_http::tool("write");
        tool["annotations"] = hints;
        tools.server.set_tools(json!([tool]));
        mcp_command(&tools.helper, &["connect", "fs"]);
    };
    let answered = |hints| {
        let mut client = tools.ask("x");
        let question = client.question();
        set_annotations(hints);
        client.say(&question, ApprovalVerdict::Once);
        client.end().notices()
    };
    set_annotations(json!({ "idempotentHint": true }));
    // The hint stays in force after the server drops it.
    assert!(answered(json!({})).is_empty());
    assert_eq!(tools.called().len(), 1);
    let notices = answered(json!({ "destructiveHint": true }));
    assert_eq!(notices[0], NOT_CALLED);
    assert_eq!(tools.called().len(), 1);
}

#[test]
fn changed_tool_needs_approval_despite_a_session_grant() {
    {
        let verdict = ApprovalVerdict::Tool;
        let tools = Tools::with(writer(), "");
        let mut client = tools.ask("x");
        answer(&mut client, verdict);
        client.end();
        // Reconnected without a change.
        mcp_command(&tools.helper, &["connect", "fs"]);
        tools.ask("y").end();
        assert_eq!(tools.called().len(), 2);
        let mut other = mcp_http::tool("write");
        other["annotations"] = json!({ "destructiveHint": true });
        tools.server.set_tools(json!([other]));
        mcp_command(&tools.helper, &["connect", "fs"]);
        let mut client = tools.ask("z");
        answer(&mut client, ApprovalVerdict::No { words: None });
        client.end();
        assert_eq!(tools.called().len(), 2);
    }
}

#[test]
fn grant_for_a_server_covers_only_its_tools_at_that_time() {
    let call = |tool| {
        [
            Script::calls("", &[("c", tool, "{}")]),
            Script::tokens(["ok"]),
        ]
    };
    let queue = [call("fs.read"), call("fs.write"), call("fs.later")];
    let tools = Tools::new(queue.concat(), "");
    let reading = |name| {
        let mut tool = mcp_http::tool(name);
        tool["annotations"] = json!({ "readOnlyHint": true });
        tool
    };
    tools
        .server
        .set_tools(json!(["read", "write"].map(reading)));
    mcp_command(&tools.helper, &["connect", "fs"]);
    let mut client = tools.ask("x");
    answer(&mut client, ApprovalVerdict::Reads);
    client.end();
    let names = ["read", "write", "later"].map(reading);
    tools.server.set_tools(json!(names));
    mcp_command(&tools.helper, &["connect", "fs"]);
    tools.ask("y").end();
    let mut client = tools.ask("z");
    let question = client.question();
    assert_eq!(question.tool.name, "fs.later");
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called().len(), 2);
}

/// The user sees the same target, but the server differs.
#[test]
fn grant_does_not_cover_a_server_with_other_settings() {
    let tools = Tools::with(writer(), "headers = { X-Team = \"blue\" }\n");
    let mut client = tools.ask("x");
    answer(&mut client, ApprovalVerdict::Reads);
    client.end();
    tools.config("headers = { X-Team = \"red\" }\n");
    let mut client = tools.ask("y");
    answer(&mut client, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called().len(), 1);
}

/// Ctrl-C while a resource is read sends the cancellation to the server.
#[test]
fn ctrl_c_while_reading_a_resource_cancels_the_request() {
    let server = FakeMcpServer::start().scripted(|request| match request.method() {
        "initialize" => Some(request.result(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "resources": {}, "prompts": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        }))),
        "resources/read" | "prompts/get" => Some(McpResponse::Hang),
        _ => None,
    });
    let helper = Helper::new([]);
    helper.config(&format!(
        "{}lifecycle = \"legacy\"\n",
        server_config(&server.url())
    ));
    mcp_command(&helper, &["list"]);
    let mut client = Client::ask(
        &helper,
        AskRequest {
            resources: vec!["fs:note:///x".to_owned()],
            ..ask_of("s1")
        },
    );
    wait(server.asked("resources/read", 1));
    client.cancel();
    wait(server.asked("notifications/cancelled", 1));
    let prompt = helper.call(["mcp", "prompt", "fs.review"]).start();
    wait(server.asked("prompts/get", 1));
    prompt.signal(Signal::SIGINT);
    wait(server.asked("notifications/cancelled", 2));
    assert_eq!(prompt.finish().code, 130);
    while client.next().is_some() {}
}
