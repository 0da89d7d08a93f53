//! Rounds of a turn: calls of the model, their results in the next request, and the end of the turn.

use aish::client::connect;
use aish::error::ErrorKind;
use aish::paths::Paths;
use aish::protocol::{AskRequest, Event, Proposal, Request};
use serde_json::{Value, json};

use super::{Frame, Tools, wait};
use crate::fakes::mcp_http::{self, BodyPart, FakeMcpServer, McpResponse};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::home::helper;
use crate::support::shell_id;

/// Allows all tools of the server.
pub const ALL: &str = "[mcp.auto_approve]\n\"fs.*\" = true\n";

#[test]
fn result_is_in_the_next_request_and_approval_on_disk_before_the_call() {
    let tools = Tools::new(
        [
            Script::calls("Let me look.", &[("c1", "fs.read", "{ \"path\": \"/é\" }")]),
            Script::tokens(["It says ", "so."]),
        ],
        ALL,
    );
    let seen = tools.ask("what is in it?").end();
    assert_eq!(seen.text(), "Let me look.\nIt says so.");
    assert_eq!(seen.answer.finish.as_str(), "stop");
    assert_eq!(seen.answer.prompt_tokens, Some(14), "of both rounds");
    assert_eq!(tools.called(), [("read".into(), json!({ "path": "/é" }))]);
    assert_eq!(
        tools.approved_at(0),
        [("rule".into(), "{\"path\":\"/é\"}".into())]
    );
    assert_eq!(tools.results_in_request(1), ["{\"path\":\"/é\"}"]);
    let begin = seen.events(|e| match e {
        Event::ToolCallStarted(b) => Some((b.name.clone(), b.arguments.clone(), b.rule.clone())),
        _ => None,
    });
    assert_eq!(
        begin,
        [(
            "fs.read".into(),
            "{\"path\":\"/é\"}".into(),
            Some("mcp.auto_approve.\"fs.*\"".into())
        )]
    );
    let end = seen.events(|e| match e {
        Event::ToolCallFinished(e) => Some(e.clone()),
        _ => None,
    });
    assert_eq!(end.len(), 1);
    assert_eq!((end[0].status.as_str(), end[0].bytes), ("success", 14));
    assert_eq!(
        (end[0].head.as_str(), end[0].more),
        ("{\"path\":\"/é\"}", 0)
    );
    let kinds: Vec<Value> = tools
        .helper
        .records()
        .iter()
        .map(|r| r["type"].clone())
        .collect();
    assert_eq!(
        kinds,
        [
            "session",
            "user",
            "assistant",
            "approval",
            "tool",
            "assistant"
        ]
    );
    let first = &tools.helper.provider.requests()[0];
    assert_eq!(first.tool_names(), ["fs.read", "fs.write", "read_result"]);
    let (_, system) = tools.helper.messages(0).swap_remove(0);
    assert!(
        system.ends_with("fall back to `CMD:` for what no tool offers."),
        "{system}"
    );
    assert!(
        !system.contains("fs.read"),
        "the list is never in the prompt"
    );
}

#[test]
fn request_without_tools_is_unchanged() {
    let helper = Helper::saying("ok");
    helper.ask("x");
    let tools = Tools::with(Helper::saying("ok"), ALL);
    let ask = AskRequest {
        text: "x".into(),
        tools: Some("none".into()),
        ..AskRequest::default()
    };
    tools.ask_as(ask).end();
    assert_eq!(
        tools.server.requests().len(),
        0,
        "the server is not started without tools"
    );
    let (plain, none) = (helper.provider.requests(), tools.helper.provider.requests());
    assert!(plain[0].json.get("tools").is_none());
    assert_eq!(plain[0].json, none[0].json);
    let command = tools.helper.call(["ask", "--command", "--", "list"]);
    command.run().ok();
    let requests = tools.helper.provider.requests();
    assert!(requests[1].json.get("tools").is_none());
    assert_eq!(tools.server.requests().len(), 0);
}

#[test]
fn tool_errors_reach_the_model_and_transport_errors_do_not() {
    let calls = [
        ("a", "fs.read", "{\"n\":1}"),
        ("b", "fs.read", "{\"n\":2}"),
        ("c", "fs.read", "{\"n\":3}"),
    ];
    let tools = Tools::new([Script::calls("", &calls), Script::tokens(["I see."])], ALL);
    tools.behave(|request| {
        let n = request.json["params"]["arguments"]["n"].as_u64();
        match n {
            Some(1) => Some(request.error(-32603, "the disk \u{1b}[2Jis gone")),
            Some(2) => Some(request.result(json!({
                "content": [{ "type": "text", "text": "no such file" }],
                "isError": true,
            }))),
            _ => Some(request.result(mcp_http::text("Error: not found"))),
        }
    });
    let seen = tools.ask("x").end();
    assert_eq!(
        tools.results_in_request(1),
        [
            "[no result: the call failed]",
            "no such file",
            "Error: not found"
        ]
    );
    let notices = seen.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].starts_with("mcp: fs.read: "), "{notices:?}");
    // Unescaped: the client escapes it.
    assert!(
        notices[0].contains("the disk \u{1b}[2Jis gone"),
        "{notices:?}"
    );
    assert_eq!(
        seen.calls(),
        [
            "begin a",
            "end a call_failed",
            "begin b",
            "end b tool_error",
            "begin c",
            "end c success"
        ]
    );
    let failed = &tools.helper.records_of("tool")[0];
    assert_eq!(failed["status"], "call_failed");
    assert!(failed["error"].as_str().unwrap().contains("the disk"));
}

/// The placeholder line in the text already names the content, so it is not repeated as a note.
#[test]
fn content_that_is_not_text_is_noted_once() {
    let calls = [("a", "fs.read", "{}")];
    let tools = Tools::new([Script::calls("", &calls), Script::tokens(["ok"])], ALL);
    tools.behave(|request| {
        let link =
            |n: usize| json!({ "type": "resource_link", "uri": format!("x:{n}"), "name": "x" });
        let content: Vec<_> = (1..=6).map(link).collect();
        Some(request.result(json!({ "content": content })))
    });
    let seen = tools.ask("x").end();
    let ends = seen.events(|e| match e {
        Event::ToolCallFinished(end) => Some(end.clone()),
        _ => None,
    });
    assert!(ends[0].head.ends_with("[resource link: x:5]"), "{ends:?}");
    let notes = ["resource link: x:6", "llm -r fs:URI reads a link"];
    assert_eq!(ends[0].notes, notes);
}

#[test]
fn turn_ends_if_all_calls_fail() {
    let calls = [("a", "fs.read", "{}"), ("b", "fs.write", "{}")];
    let tools = Tools::new(
        [
            Script::calls("CMD: ls\n", &calls),
            Script::tokens(["again"]),
        ],
        ALL,
    );
    tools.behave(|request| Some(request.error(-32601, "unknown tool")));
    let seen = tools.ask("x").end();
    assert_eq!(
        (seen.answer.finish.as_str(), seen.answer.proposals),
        ("stop", 1)
    );
    assert_eq!(
        seen.notices().last().unwrap(),
        "no tool call returned a result; the turn ends here"
    );
    assert_eq!(tools.helper.provider.requests().len(), 1);
    // The session stays consistent.
    tools.ask("y").end();
    assert_eq!(
        tools.results_in_request(1),
        ["[no result: the call failed]"; 2]
    );
}

#[test]
fn number_of_rounds_is_limited() {
    let provider = Provider::answering(|request| {
        let calls = request.json["messages"].as_array().map_or(0, Vec::len);
        match request.json["messages"][calls - 1]["content"].as_str() {
            Some("stop it") => Script::tokens(["ok"]),
            _ => Script::calls("", &[(&format!("c{calls}"), "fs.read", "{}")]),
        }
    });
    let tools = Tools::with(
        Helper::with(provider),
        &format!("[mcp]\nmax_tool_depth = 3\n{ALL}"),
    );
    let seen = tools.ask("go on").end();
    assert_eq!(seen.notices(), ["tool-call depth limit reached"]);
    assert_eq!(seen.answer.finish.as_str(), "stop");
    assert_eq!(tools.called().len(), 3);
    assert_eq!(tools.helper.provider.requests().len(), 4);
    let results = tools.results();
    assert_eq!(results.len(), 4, "each call has one");
    assert_eq!(results[3].0, "invalid_call");
    let last = &tools.helper.records_of("tool")[3];
    assert_eq!(
        (&last["action"]["server"], &last["action"]["tool"]),
        (&json!("fs"), &json!("read"))
    );
    assert_eq!(last["arguments"], "{}");
    tools.ask("stop it").end();
    assert_eq!(
        tools.results_in_request(4)[3],
        "[no result: the tool-call depth limit was reached]"
    );
}

#[test]
fn invalid_arguments_and_unknown_tools_are_reported_to_the_model() {
    let calls = [
        ("a", "fs.read", "{\"path\": \"/etc"),
        ("b", "fs.format", "{}"),
        ("c", "fs.read", ""),
        ("d", "f", "{}"),
    ];
    let tools = Tools::new([Script::calls("", &calls), Script::tokens(["ok"])], ALL);
    let seen = tools.ask("x").end();
    assert_eq!(
        tools.results_in_request(1),
        [
            "[not called: the arguments are not one whole JSON object]",
            "[not called: there is no tool named fs.format]",
            "{}",
            "[not called: there is no tool named f]",
        ]
    );
    assert_eq!(tools.called(), [("read".into(), json!({}))]);
    assert_eq!(
        seen.notices(),
        [
            "mcp: fs.read: not called: the arguments are not a JSON object",
            "the model asked for the tool fs.format, which does not exist",
            "the model asked for the tool f, which does not exist",
        ]
    );
    // A call that was not made is recorded with its name and arguments.
    let broken = &tools.helper.records_of("tool")[0];
    assert_eq!(broken["arguments"], "{\"path\": \"/etc");
    assert_eq!(
        (&broken["action"]["server"], &broken["action"]["tool"]),
        (&json!("fs"), &json!("read"))
    );
}

#[test]
fn proposed_commands_and_tool_calls_in_one_answer() {
    let tools = Tools::new(
        [
            Script::calls("CMD: ls\n", &[("a", "fs.read", "{}")]),
            Script::tokens(["CMD: pwd"]),
        ],
        ALL,
    );
    let run = tools.helper.call(["ask", "--shell", "s1", "--", "x"]).run();
    assert_eq!(run.code, 0, "{run:?}");
    let next = || {
        let request = Request::NextProposal {
            shell: shell_id("s1"),
            cwd: "/".into(),
            overrides: Default::default(),
        };
        let uid = nix::unistd::getuid().as_raw();
        let paths = Paths::under(&tools.helper.path(""), uid).expect("paths");
        let proposal: Option<Proposal> = connect::request(&paths, &request).expect("a reply");
        proposal.expect("a proposal")
    };
    assert_eq!((next().command.as_str(), next().of), ("ls", 2));
}

#[test]
fn trusted_reads_run_concurrently_and_other_calls_in_order() {
    let calls = [
        ("a", "fs.read", "{\"n\":1}"),
        ("b", "fs.read", "{\"n\":2}"),
        ("c", "fs.write", "{\"n\":3}"),
    ];
    let tools = Tools::new([Script::calls("", &calls), Script::tokens(["ok"])], ALL);
    let reader = json!({
        "name": "read",
        "inputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
    });
    tools
        .server
        .set_tools(json!([reader, mcp_http::tool("write")]));
    let url = tools.server.url();
    tools.helper.config(&format!(
        "[mcp.servers.fs]\nurl = \"{url}\"\ntrust_annotations = true\n{ALL}"
    ));
    tools.behave(|request| {
        let gate = match request.json["params"]["arguments"]["n"].as_u64() {
            Some(1) => "one",
            Some(2) => "two",
            _ => return None,
        };
        let result = mcp_http::text(gate);
        let event = json!({ "jsonrpc": "2.0", "id": request.id(), "result": result });
        Some(McpResponse::events([
            BodyPart::Gate(gate),
            BodyPart::Event(event),
        ]))
    });
    let client = tools.ask("x");
    wait(tools.server.reached("one"));
    wait(tools.server.reached("two"));
    assert_eq!(tools.called().len(), 2, "the writer waits");
    // The second call ends first; the records keep the order of the calls.
    tools.server.open("two");
    tools.server.open("one");
    let seen = client.end();
    assert_eq!(tools.results_in_request(1), ["one", "two", "{\"n\":3}"]);
    assert_eq!(
        seen.calls(),
        [
            "begin a",
            "begin b",
            "end a success",
            "end b success",
            "begin c",
            "end c success"
        ]
    );
}

#[test]
fn unavailable_server_is_reported_and_delays_only_the_first_prompt() {
    let tools = Tools::with(Helper::saying("ok"), ALL);
    tools.server.script(|_| Some(McpResponse::Hang));
    let start = std::time::Instant::now();
    let seen = tools.ask("x").end();
    let notices = seen.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(
        notices[0].starts_with("MCP server fs is unavailable: "),
        "{notices:?}"
    );
    assert!(
        start.elapsed().as_millis() >= 900,
        "the prompt waits one second"
    );
    assert!(
        tools.helper.provider.requests()[0]
            .json
            .get("tools")
            .is_none()
    );
    let start = std::time::Instant::now();
    assert_eq!(
        tools.ask("y").end().notices(),
        [""; 0],
        "reported only once per shell"
    );
    assert!(start.elapsed().as_millis() < 700, "{:?}", start.elapsed());
    // It was not reported to another shell.
    let other = tools.ask_as(AskRequest {
        shell: Some(shell_id("s2")),
        text: "z".into(),
        ..AskRequest::default()
    });
    assert_eq!(other.end().notices(), notices);
}

#[test]
fn ctrl_c_while_servers_start_cancels_the_prompt() {
    let tools = Tools::with(Helper::saying("ok"), ALL);
    tools.server.script(|_| Some(McpResponse::Hang));
    let mut client = tools.ask("x");
    wait(tools.server.asked("server/discover", 1));
    client.cancel();
    let kind = client.until(|frame| match frame {
        Frame::Failure(failure) => Some(failure.kind),
        Frame::Reply(answer) => panic!("answered: {answer:?}"),
        _ => None,
    });
    assert_eq!(kind, ErrorKind::Interrupted);
    assert_eq!(tools.helper.provider.requests().len(), 0);
    assert_eq!(tools.ask("y").end().text(), "ok");
}

#[test]
fn disconnect_cancels_the_call() {
    let tools = Tools::new([Script::calls("", &[("a", "fs.read", "{}")])], ALL);
    tools.behave(|request| {
        let event =
            json!({ "jsonrpc": "2.0", "id": request.id(), "result": mcp_http::text("late") });
        Some(McpResponse::events([
            BodyPart::Gate("call"),
            BodyPart::Event(event),
        ]))
    });
    let client = tools.ask("x");
    wait(tools.server.reached("call"));
    drop(client);
    tools
        .helper
        .until("the result is recorded", || tools.results().len() == 1);
    assert_eq!(
        tools.results(),
        [("interrupted".into(), "[no result: interrupted]".into())]
    );
}

#[test]
fn provider_error_after_a_call_keeps_the_session_consistent() {
    let tools = Tools::new(
        [
            Script::calls("", &[("a", "fs.read", "{}")]),
            Script::status(400, "{\"error\":{\"message\":\"too much\"}}"),
            Script::tokens(["ok"]),
        ],
        ALL,
    );
    let mut client = tools.ask("x");
    let failure = client.until(|frame| match frame {
        Frame::Failure(failure) => Some(failure.message.clone()),
        _ => None,
    });
    assert!(failure.contains("too much"), "{failure}");
    tools.ask("y").end();
    assert_eq!(tools.results_in_request(2), ["{}"]);
    let messages = tools.helper.provider.requests()[2].json["messages"].clone();
    assert_eq!(
        messages[4],
        json!({ "role": "assistant", "content": "[no answer]" })
    );
}

#[test]
fn tool_added_by_a_call_is_offered_with_the_next_prompt() {
    let tools = Tools::new(
        [
            Script::calls("", &[("a", "fs.read", "{}")]),
            Script::calls("", &[("b", "fs.new", "{}")]),
            Script::tokens(["ok"]),
            Script::tokens(["ok"]),
        ],
        ALL,
    );
    // A server that is connected manually during the turn, likewise.
    let more = FakeMcpServer::start();
    more.set_tools(json!([mcp_http::tool("echo")]));
    let (url, home) = (more.url(), tools.helper.home.path(""));
    let env = tools.helper.home.env();
    tools.behave(move |request| {
        if request.json["params"]["name"] == "read" {
            let connect = std::process::Command::new(helper())
                .args(["mcp", "connect", &url, "more"])
                .env_clear()
                .envs(env.clone())
                .current_dir(&home)
                .output()
                .expect("it runs");
            assert!(connect.status.success(), "{connect:?}");
        }
        None
    });
    tools.ask("x").end();
    tools.ask("y").end();
    let requests = tools.helper.provider.requests();
    // Within a prompt the tools stay the same, for the provider's cache and its signatures.
    for request in &requests[..3] {
        assert_eq!(request.tool_names(), ["fs.read", "fs.write", "read_result"]);
        assert_eq!(request.json["tools"], requests[0].json["tools"]);
    }
    assert_eq!(
        requests[3].tool_names(),
        ["fs.read", "fs.write", "more.echo", "read_result"]
    );
    assert_eq!(
        tools.results_in_request(2)[1],
        "[not called: there is no tool named fs.new]"
    );
}

#[test]
fn prompt_with_an_unreadable_resource_is_not_sent() {
    let tools = Tools::with(Helper::saying("ok"), ALL);
    tools.server.script(|request| match request.method() {
        "initialize" => Some(request.result(json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "tools": {}, "resources": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        }))),
        "resources/read" if request.json["params"]["uri"] == "note://a:b" => {
            let content =
                json!({ "uri": "note://a:b", "mimeType": "text/plain", "text": "Buy milk." });
            Some(request.result(json!({ "contents": [content] })))
        }
        "resources/read" => Some(request.error(-32002, "no such note")),
        _ => None,
    });
    let with = |name: &str| AskRequest {
        shell: Some(shell_id("s1")),
        text: "what is due?".into(),
        resources: vec![name.into()],
        tools: Some("none".into()),
        ..AskRequest::default()
    };
    tools.ask_as(with("fs:note://a:b")).end();
    assert_eq!(
        tools.helper.content(),
        "<file name=\"fs:note://a:b\">\nBuy milk.\n</file>\n\nwhat is due?"
    );
    assert!(
        tools.helper.provider.requests()[0]
            .json
            .get("tools")
            .is_none()
    );
    for (name, why) in [
        ("fs:note://c", "no such note"),
        ("db:note://a:b", "db"),
        ("note", "not a resource name: note"),
    ] {
        let failure = tools.ask_as(with(name)).until(|frame| match frame {
            Frame::Failure(failure) => Some(failure.message.clone()),
            _ => None,
        });
        assert!(failure.contains(why), "{failure}");
    }
    assert_eq!(tools.helper.provider.requests().len(), 1);
    assert_eq!(tools.helper.records_of("user").len(), 1);
}
