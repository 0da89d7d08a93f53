//! Who a yes and a rule are for: a server and a tool as they were then, and not whatever has their name now.

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

/// What is said of a call that is not made.
const NOT_CALLED: &str = "mcp: fs.write: not called: the tool or its server has changed since the \
                          approval, or the approval has expired";

/// A model that writes with every prompt.
fn writer() -> Helper {
    Helper::with(Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        match messages.last().expect("a message")["role"].as_str() {
            Some("tool") => Script::tokens(["done"]),
            _ => Script::calls("", &[("c", "fs.write", "{}")]),
        }
    }))
}

fn by_hand(helper: &Helper, words: &[&str]) -> String {
    helper.call([&["mcp"], words].concat()).run().ok()
}

fn server_of(url: &str) -> String {
    format!("[mcp.servers.fs]\nurl = \"{url}\"\n")
}

fn answer(client: &mut Client, verdict: ApprovalVerdict) {
    let question = client.question();
    client.say(&question, verdict);
}

#[test]
fn a_rule_is_not_for_a_server_that_was_connected_by_hand() {
    let server = FakeMcpServer::start();
    server.set_tools(json!([mcp_http::tool("write")]));
    let helper = writer();
    helper.config(RULE);
    by_hand(&helper, &["connect", &server.url(), "fs"]);
    let ask = || Client::ask(&helper, ask_of("s1"));
    let mut client = ask();
    answer(&mut client, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(server.count("tools/call"), 0);
    // What a person allows counts for it as for any other.
    let mut client = ask();
    answer(&mut client, ApprovalVerdict::Tool);
    client.end();
    ask().end();
    assert_eq!(server.count("tools/call"), 2);
    // The file gets a server of that name, which is the one that its rule means.
    let meant = FakeMcpServer::start();
    meant.set_tools(json!([mcp_http::tool("write")]));
    helper.config(&format!("{}{RULE}", server_of(&meant.url())));
    ask().end();
    assert_eq!(
        (server.count("tools/call"), meant.count("tools/call")),
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
fn a_host_does_not_choose_the_name_that_a_rule_is_about() {
    let server = FakeMcpServer::start();
    let helper = Helper::new([]);
    helper.config("[mcp.auto_approve]\n\"local.echo\" = true\n");
    let said = by_hand(&helper, &["connect", &server.url()]);
    assert!(said.starts_with("local-2 is connected"), "{said}");
}

#[test]
fn a_rule_of_before_is_not_for_the_server_of_now() {
    let calls = [("a", "fs.read", "{}"), ("b", "fs.write", "{}")];
    let queue = [Script::calls("", &calls), Script::tokens(["done"])];
    let tools = Tools::new(queue, &format!("{RULE}\"fs.read\" = false\n"));
    let mut client = tools.ask("x");
    let question = client.question();
    // Another shell reads the new file, in which the name is another server's, and the rule is gone.
    let moved = FakeMcpServer::start();
    moved.set_tools(json!([mcp_http::tool("write")]));
    tools.helper.config(&server_of(&moved.url()));
    by_hand(&tools.helper, &["list"]);
    client.say(&question, ApprovalVerdict::No { words: None });
    // The tool that was offered is not there any more, whatever the person says.
    answer(&mut client, ApprovalVerdict::Once);
    let seen = client.end();
    assert_eq!(seen.notices(), [NOT_CALLED]);
    assert_eq!(tools.called().len() + moved.count("tools/call"), 0);
}

#[test]
fn a_tool_that_changes_while_the_person_reads_is_not_called() {
    let tools = Tools::with(writer(), "");
    let other = json!({ "name": "write", "description": "deletes", "inputSchema": {} });
    let mut client = tools.ask("x");
    let question = client.question();
    tools.server.set_tools(json!([other]));
    by_hand(&tools.helper, &["connect", "fs"]);
    client.say(&question, ApprovalVerdict::Reads);
    assert_eq!(client.end().notices()[0], NOT_CALLED);
    assert_eq!(tools.called(), []);
    // Nor was what it is now allowed for the session.
    let mut client = tools.ask("y");
    let question = client.question();
    assert_eq!(question.tool.description, "deletes");
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called(), []);
}

#[test]
fn a_tool_that_destroys_by_the_time_of_the_yes_is_not_called() {
    let tools = Tools::with(writer(), "");
    let says = |hints| {
        let mut tool = mcp_http::tool("write");
        tool["annotations"] = hints;
        tools.server.set_tools(json!([tool]));
        by_hand(&tools.helper, &["connect", "fs"]);
    };
    let answered = |hints| {
        let mut client = tools.ask("x");
        let question = client.question();
        says(hints);
        client.say(&question, ApprovalVerdict::Once);
        client.end().notices()
    };
    says(json!({ "idempotentHint": true }));
    // What it says no more is in force.
    assert!(answered(json!({})).is_empty());
    assert_eq!(tools.called().len(), 1);
    let notices = answered(json!({ "destructiveHint": true }));
    assert_eq!(notices[0], NOT_CALLED);
    assert_eq!(tools.called().len(), 1);
}

#[test]
fn what_was_allowed_for_a_session_is_asked_again_when_it_has_changed() {
    {
        let verdict = ApprovalVerdict::Tool;
        let tools = Tools::with(writer(), "");
        let mut client = tools.ask("x");
        answer(&mut client, verdict);
        client.end();
        // Connected anew, and as it was.
        by_hand(&tools.helper, &["connect", "fs"]);
        tools.ask("y").end();
        assert_eq!(tools.called().len(), 2);
        let mut other = mcp_http::tool("write");
        other["annotations"] = json!({ "destructiveHint": true });
        tools.server.set_tools(json!([other]));
        by_hand(&tools.helper, &["connect", "fs"]);
        let mut client = tools.ask("z");
        answer(&mut client, ApprovalVerdict::No { words: None });
        client.end();
        assert_eq!(tools.called().len(), 2);
    }
}

#[test]
fn the_tools_of_a_server_are_those_that_it_had_when_they_were_allowed() {
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
    by_hand(&tools.helper, &["connect", "fs"]);
    let mut client = tools.ask("x");
    answer(&mut client, ApprovalVerdict::Reads);
    client.end();
    let names = ["read", "write", "later"].map(reading);
    tools.server.set_tools(json!(names));
    by_hand(&tools.helper, &["connect", "fs"]);
    tools.ask("y").end();
    let mut client = tools.ask("z");
    let question = client.question();
    assert_eq!(question.tool.name, "fs.later");
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called().len(), 2);
}

/// Another program behind the same words on the screen.
#[test]
fn a_server_that_is_reached_otherwise_was_not_allowed() {
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

/// A person who reads something of a server stops that, and the server hears of it.
#[test]
fn ctrl_c_while_a_server_is_read_is_told_to_it() {
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
        server_of(&server.url())
    ));
    by_hand(&helper, &["list"]);
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
