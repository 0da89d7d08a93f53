//! The gate through a real daemon: questions, verdicts, grants, approvals in the journal, cancellation.

use aish::protocol::tools::{ApprovalVerdict, ElicitationAction, Reaction};
use aish::protocol::{AskRequest, Event, Request, kind};
use serde_json::{Value, json};

use super::{Client, Tools, wait};
use crate::fakes::mcp_http::{self, BodyPart, FakeMcpServer, McpResponse};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::shell_id;

/// A model that makes these calls and then answers.
fn calling(calls: &[(&str, &str, &str)]) -> [Script; 2] {
    [Script::calls("", calls), Script::tokens(["done"])]
}

/// A model that calls `fs.write` for every prompt and answers after the result.
fn writer() -> Helper {
    Helper::with(Provider::answering(|request| {
        let messages = request.json["messages"].as_array().expect("messages");
        match messages.last().expect("a message")["role"].as_str() {
            Some("tool") => Script::tokens(["done"]),
            _ => Script::calls("", &[("c", "fs.write", "{\"to\":\"x\"}")]),
        }
    }))
}

#[test]
fn approved_call_is_sent_as_shown() {
    let tools = Tools::new(
        calling(&[
            ("a", "fs.write", "{ \"n\" : 1.50,\"to\":\"x\" }"),
            ("b", "fs.read", "{}"),
        ]),
        "",
    );
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(tools.called(), [], "not before it was allowed");
    assert_eq!(
        tools.helper.records_of("approval"),
        [] as [serde_json::Value; 0]
    );
    assert_eq!(question.tool.name, "fs.write");
    assert_eq!((question.number, question.of), (1, 2));
    assert_eq!(question.target, tools.server.url());
    assert_eq!(question.arguments, "{\"n\":1.5,\"to\":\"x\"}");
    assert_eq!(question.server_tools, (2, 2));
    assert_eq!(question.tool.read_only, None);
    assert_eq!(question.tool.schema["type"], "object");
    client.say(&question, ApprovalVerdict::Once);
    let second = client.question();
    assert_ne!(second.id, question.id);
    assert_eq!((second.tool.name.as_str(), second.number), ("fs.read", 2));
    client.say(&second, ApprovalVerdict::Once);
    let seen = client.end();
    assert_eq!(
        seen.calls(),
        ["begin a", "end a success", "begin b", "end b success"]
    );
    assert_eq!(
        tools.called()[0],
        ("write".into(), json!({ "to": "x", "n": 1.5 }))
    );
    assert_eq!(tools.approved_at(0), [("once".into(), question.arguments)]);
    let approval = &tools.helper.records_of("approval")[0];
    assert_eq!(approval["call"], "a");
    assert_eq!(approval["arguments_sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn denied_call_is_not_made_and_the_model_gets_the_reason() {
    let tools = Tools::new(
        calling(&[("a", "fs.write", "{}"), ("b", "fs.write", "{}")]),
        "",
    );
    let mut client = tools.ask("x");
    let question = client.question();
    let words = Some("not there, use /tmp".to_owned());
    client.say(&question, ApprovalVerdict::No { words });
    let question = client.question();
    client.say(&question, ApprovalVerdict::No { words: None });
    let seen = client.end();
    assert_eq!(seen.calls(), ["end a denied", "end b denied"]);
    assert_eq!(tools.called(), []);
    assert_eq!(
        tools.results_in_request(1),
        [
            "[denied by the user] not there, use /tmp",
            "[denied by the user]"
        ]
    );
    let approval = &tools.helper.records_of("approval")[0];
    assert_eq!(approval["decision"], "no");
    assert_eq!(approval["reason"], "not there, use /tmp");
    assert!(approval.get("arguments_sha256").is_none());
}

#[test]
fn edited_arguments_are_sent_and_reported_to_the_model() {
    let tools = Tools::new(calling(&[("a", "fs.write", "{\"to\":\"/\"}")]), "");
    let mut client = tools.ask("x");
    let question = client.question();
    client.say_of(&question, ApprovalVerdict::Once, "{\"to\":\"/tmp\"}");
    client.end();
    assert_eq!(tools.called(), [("write".into(), json!({ "to": "/tmp" }))]);
    assert_eq!(
        tools.approved_at(0),
        [("once".into(), "{\"to\":\"/tmp\"}".into())]
    );
    assert_eq!(
        tools.results_in_request(1),
        ["[the user changed the arguments to {\"to\":\"/tmp\"}]\n{\"to\":\"/tmp\"}"]
    );
}

#[test]
fn approval_of_other_than_canonical_arguments_is_a_denial() {
    for arguments in ["", "[]", "{\"to\":", "{\"a\":1,\"a\":2}", "{ }", "{}\n"] {
        let tools = Tools::new(calling(&[("a", "fs.write", "{}")]), "");
        let mut client = tools.ask("x");
        let question = client.question();
        client.say_of(&question, ApprovalVerdict::Reads, arguments);
        client.end();
        assert_eq!(tools.called(), [], "{arguments:?}");
        assert_eq!(tools.results_in_request(1), ["[denied by the user]"]);
    }
}

#[test]
fn approvals_by_rule_are_synced_together_up_to_the_next_question() {
    let calls = [
        ("a", "fs.read", "{\"n\":1}"),
        ("b", "fs.read", "{\"n\":1}"),
        ("c", "fs.write", "{\"n\":3}"),
        ("d", "fs.read", "{\"n\":4}"),
        ("e", "fs.read", "{\"n\":5}"),
    ];
    let rule = "[mcp.auto_approve]\n\"fs.read\" = true\n";
    let tools = Tools::new(calling(&calls), rule);
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(question.number, 3);
    client.say(&question, ApprovalVerdict::Once);
    client.end();
    let approved = |n| -> Vec<String> {
        let approvals = tools.approved_at(n).into_iter();
        approvals.map(|(word, args)| word + " " + &args).collect()
    };
    let all = [
        "rule {\"n\":1}",
        "rule {\"n\":1}",
        "once {\"n\":3}",
        "rule {\"n\":4}",
        "rule {\"n\":5}",
    ];
    assert_eq!(approved(0), all[..2]);
    assert_eq!(approved(1), all[..2]);
    assert_eq!(approved(2), all);
    assert_eq!(approved(4), all);
    assert_eq!(tools.called().len(), calls.len());
    let recorded = tools.helper.records_of("approval");
    let ids: Vec<_> = recorded.iter().map(|r| r["call"].clone()).collect();
    assert_eq!(ids, ["a", "b", "c", "d", "e"]);
}

#[test]
fn grant_is_limited_to_its_session_and_server() {
    let tools = Tools::with(writer(), "");
    let allow = |client: &mut Client, verdict| {
        let question = client.question();
        client.say(&question, verdict);
    };
    let mut client = tools.ask("one");
    allow(&mut client, ApprovalVerdict::Tool);
    client.end();
    // Later calls need no question; the record names the grant.
    tools.ask("two").end();
    let approval = tools.helper.records_of("approval").pop().unwrap();
    assert_eq!(approval["decision"], "rule");
    assert_eq!(approval["reason"], "you, for this session: fs.write");
    // The grant does not apply to another session.
    let mut other = tools.ask_as(AskRequest {
        shell: Some(shell_id("s2")),
        text: "two".into(),
        ..AskRequest::default()
    });
    allow(&mut other, ApprovalVerdict::Reads);
    other.end();
    // The grant does not apply to another server with the same alias.
    let moved = FakeMcpServer::start();
    moved.set_tools(json!([mcp_http::tool("write")]));
    tools
        .helper
        .config(&format!("[mcp.servers.fs]\nurl = \"{}\"\n", moved.url()));
    let mut client = tools.ask("three");
    let question = client.question();
    assert_eq!(question.target, moved.url());
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called().len(), 3);
    // Nor after a restart.
    tools.config("");
    tools.helper.call(["stop"]).run().ok();
    tools.helper.call(["start"]).run().ok();
    let mut client = tools.ask("four");
    allow(&mut client, ApprovalVerdict::NoTerminal);
    client.end();
    assert_eq!(moved.count("tools/call"), 0);
    let last = tools.helper.provider.requests().len() - 1;
    let results = tools.results_in_request(last);
    assert_eq!(
        results[2..],
        [
            "[denied by the user]",
            "[denied: there is no terminal to ask on]"
        ]
    );
}

#[test]
fn question_of_a_background_turn_times_out() {
    let tools = Tools::new(
        calling(&[("a", "fs.write", "{}")]),
        "[policy]\nwait = '1s'\n",
    );
    let ask = AskRequest {
        shell: Some(shell_id("s1")),
        text: "x".to_owned(),
        background: true,
        cwd: "/".to_owned(),
        ..AskRequest::default()
    };
    let mut client = Client::request(&tools.helper, &Request::Ask(Box::new(ask)));
    client.accepted();
    tools.helper.until("the turn has ended", || {
        tools.helper.records_of("assistant").len() == 2
    });
    assert_eq!(tools.called(), []);
    let approval = &tools.helper.records_of("approval")[0];
    assert_eq!(
        (&approval["decision"], &approval["reason"]),
        (&json!("timed_out"), &json!("nobody answered within 1s"))
    );
    assert_eq!(
        tools.results_in_request(1),
        ["[denied: nobody answered within 1s]"]
    );
}

#[test]
fn reaction_to_another_question_is_ignored() {
    let tools = Tools::new(calling(&[("a", "fs.write", "{}")]), "");
    let mut client = tools.ask("x");
    let question = client.question();
    for id in ["a", "", "fs.write"] {
        client.send(
            kind::REACTION,
            &Reaction::Call {
                id: id.into(),
                digest: question.shown_digest(),
                verdict: ApprovalVerdict::Reads,
                arguments: "{}".into(),
            },
        );
    }
    client.send(
        kind::REACTION,
        &Reaction::Elicit {
            id: question.id.clone(),
            digest: question.shown_digest(),
            content: None,
            action: ElicitationAction::Accept,
        },
    );
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called(), []);
}

#[test]
fn questions_go_only_to_the_shell_that_asked() {
    let tools = Tools::with(writer(), "");
    let mut one = tools.ask("one");
    let mut two = tools.ask_as(AskRequest {
        shell: Some(shell_id("s2")),
        text: "two".into(),
        ..AskRequest::default()
    });
    let (first, second) = (one.question(), two.question());
    assert_ne!(first.id, second.id);
    // An answer to the other shell's question is ignored; then each answers its own.
    one.say(&second, ApprovalVerdict::Once);
    two.say(&first, ApprovalVerdict::Once);
    one.say(&first, ApprovalVerdict::No { words: None });
    two.say(&second, ApprovalVerdict::Once);
    assert_eq!(one.end().calls(), ["end c denied"]);
    assert_eq!(two.end().calls(), ["begin c", "end c success"]);
    assert_eq!(tools.called().len(), 1);
}

const DENIED: &str = "[denied by the user]";
const INTERRUPTED: &str = "[no result: interrupted]";

/// Ends a question without a verdict that allows the call; `decision` is what is recorded then.
fn without_an_answer(decision: &str, end: impl FnOnce(&Tools, Client)) -> Tools {
    let calls = [("a", "fs.write", "{}"), ("b", "fs.read", "{}")];
    let queue = [Script::calls("hm", &calls), Script::tokens(["again"])];
    let tools = Tools::new(queue, "");
    let mut client = tools.ask("x");
    client.question();
    end(&tools, client);
    tools
        .helper
        .until("both results are recorded", || tools.results().len() == 2);
    assert_eq!(tools.called(), []);
    let interrupted = || ("interrupted".to_owned(), INTERRUPTED.to_owned());
    let asked = match decision {
        "stop" => ("denied".to_owned(), DENIED.to_owned()),
        _ => interrupted(),
    };
    assert_eq!(tools.results(), [asked, interrupted()]);
    let approvals = tools.helper.records_of("approval");
    assert_eq!(approvals.len(), 1);
    assert_eq!(approvals[0]["decision"], decision);
    tools
}

/// Checks that the session can be continued.
fn assert_session_continues(tools: &Tools, first: &str) {
    tools.helper.call(["start"]).run().ok();
    tools.ask("and now?").end();
    assert_eq!(tools.results_in_request(1), [first, INTERRUPTED]);
}

#[test]
fn ctrl_c_at_a_question_denies_and_ends_the_turn() {
    for (decision, end, result) in [
        ("stop", "end a denied", DENIED),
        ("cancelled", "end a interrupted", INTERRUPTED),
    ] {
        let tools = without_an_answer(decision, |_, mut client| {
            let question = client.last_question();
            match decision {
                "stop" => client.say(&question, ApprovalVerdict::Stop),
                _ => client.cancel(),
            }
            let seen = client.end();
            assert_eq!(seen.answer.finish.as_str(), "interrupted");
            assert_eq!(seen.calls(), [end]);
        });
        assert_session_continues(&tools, result);
    }
}

#[test]
fn disconnect_or_invalid_frame_cancels() {
    let tools = without_an_answer("cancelled", |_, client| drop(client));
    assert_session_continues(&tools, INTERRUPTED);
    let tools = without_an_answer("cancelled", |_, mut client| {
        client.send(
            kind::REACTION,
            &json!({ "to": "everything", "said": "yes" }),
        );
        assert_eq!(client.end().answer.finish.as_str(), "interrupted");
    });
    assert_session_continues(&tools, INTERRUPTED);
}

#[test]
fn stopping_daemon_denies_open_questions() {
    for args in [&["stop"][..], &["stop", "--now"]] {
        let tools = without_an_answer("cancelled", |tools, client| {
            let start = std::time::Instant::now();
            tools.helper.call(args).run().ok();
            assert!(
                start.elapsed().as_secs() < 5,
                "a stop does not wait for the answer"
            );
            drop(client);
        });
        assert_session_continues(&tools, INTERRUPTED);
    }
}

/// A call that never ends.
fn never_ending_call() -> Tools {
    let calls = [("a", "fs.write", "{}"), ("b", "fs.read", "{}")];
    let queue = [Script::calls("", &calls), Script::tokens(["again"])];
    let tools = Tools::new(queue, super::rounds::ALL);
    tools.behave(|_| Some(McpResponse::events([BodyPart::Gate("call"), BodyPart::Cut])));
    tools
}

fn assert_calls_interrupted(tools: &Tools) {
    assert_eq!(tools.called().len(), 1);
    assert_eq!(
        tools.results(),
        [
            ("interrupted".into(), "[no result: interrupted]".into()),
            ("interrupted".into(), "[no result: interrupted]".into())
        ]
    );
    tools.helper.call(["start"]).run().ok();
    tools.ask("and now?").end();
    assert_eq!(tools.results_in_request(1), ["[no result: interrupted]"; 2]);
}

#[test]
fn ctrl_c_cancels_a_running_call_at_its_server() {
    let tools = never_ending_call();
    let mut client = tools.ask("x");
    wait(tools.server.reached("call"));
    let start = std::time::Instant::now();
    client.cancel();
    let seen = client.end();
    assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    assert_eq!(seen.answer.finish.as_str(), "interrupted");
    assert_eq!(seen.calls(), ["begin a", "end a interrupted"]);
    wait(tools.server.asked("notifications/cancelled", 1));
    assert_calls_interrupted(&tools);
}

#[test]
fn daemon_that_stops_now_cancels_its_calls() {
    let tools = never_ending_call();
    let client = tools.ask("x");
    wait(tools.server.reached("call"));
    let start = std::time::Instant::now();
    tools.helper.call(["stop", "--now"]).run().ok();
    assert!(start.elapsed().as_secs() < 5);
    drop(client);
    assert_calls_interrupted(&tools);
}

#[test]
fn draining_daemon_lets_a_call_finish() {
    let tools = Tools::new(calling(&[("a", "fs.read", "{}")]), super::rounds::ALL);
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
    let stop = tools.helper.call(["stop"]).start();
    tools.server.open("call");
    assert_eq!(client.end().text(), "done");
    stop.finish().ok();
    assert_eq!(tools.results_in_request(1), ["late"]);
}

#[cfg(target_os = "linux")]
#[test]
fn call_without_recorded_approval_is_not_made() {
    let tools = Tools::new(calling(&[("a", "fs.write", "{}")])[..1].to_vec(), "");
    let mut client = tools.ask("x");
    let question = client.question();
    tools.helper.limit_files(Some(1));
    client.say(&question, ApprovalVerdict::Once);
    let seen = client.end();
    assert_eq!(tools.called(), []);
    let notices = seen.notices();
    assert!(
        notices
            .iter()
            .any(|n| n
                .starts_with("mcp: fs.write: not called: the approval could not be recorded: ")),
        "{notices:?}"
    );
    tools.helper.limit_files(None);
}

#[test]
fn progress_reaches_the_client() {
    let tools = Tools::new(calling(&[("a", "fs.read", "{}")]), super::rounds::ALL);
    tools.behave(|request| {
        let token = &request.json["params"]["_meta"]["progressToken"];
        let progress = json!({
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": { "progressToken": token, "progress": 1, "total": 4, "message": "reading" },
        });
        let event = json!({ "jsonrpc": "2.0", "id": request.id(), "result": mcp_http::text("ok") });
        Some(McpResponse::events([
            BodyPart::Event(progress),
            BodyPart::Gate("shown"),
            BodyPart::Event(event),
        ]))
    });
    let mut client = tools.ask("x");
    let text = client.until(|frame| match frame {
        super::Frame::Event(Event::ToolCallProgress { text }) => Some(text.clone()),
        _ => None,
    });
    assert!(text.contains("reading"), "{text}");
    tools.server.open("shown");
    assert_eq!(client.end().text(), "done");
}

#[test]
fn elicitation_goes_to_the_calling_shell() {
    let tools = Tools::new(calling(&[("a", "fs.read", "{}")]), super::rounds::ALL);
    tools.behave(|request| {
        let question = json!({
            "jsonrpc": "2.0",
            "id": 99,
            "method": "elicitation/create",
            "params": {
                "mode": "form",
                "message": "who are you?",
                "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } },
            },
        });
        let event = json!({ "jsonrpc": "2.0", "id": request.id(), "result": mcp_http::text("ok") });
        Some(McpResponse::events([
            BodyPart::Event(question),
            BodyPart::Gate("answered"),
            BodyPart::Event(event),
        ]))
    });
    let mut client = tools.ask("x");
    let question = client.until(|frame| match frame {
        super::Frame::Event(Event::ElicitationRequested(question)) => Some(question.clone()),
        _ => None,
    });
    assert_eq!(
        (question.server.as_str(), question.message.as_str()),
        ("fs", "who are you?")
    );
    assert_eq!(question.schema.as_ref().unwrap()["type"], "object");
    let answer = |id: &str| Reaction::Elicit {
        id: id.into(),
        digest: question.shown_digest(),
        content: Some(json!({ "name": "me" })),
        action: ElicitationAction::Accept,
    };
    // An answer to another question, then one to this question.
    client.send(kind::REACTION, &answer("99"));
    client.send(kind::REACTION, &answer(&question.id));
    wait(tools.server.asked("POST", 1));
    tools.server.open("answered");
    assert_eq!(client.end().text(), "done");
    let requests = tools.server.requests();
    let reaction = requests
        .iter()
        .find(|r| r.method() == "POST")
        .expect("the answer");
    assert_eq!(reaction.json["id"], 99);
    assert_eq!(reaction.json["result"]["action"], "accept");
    assert_eq!(reaction.json["result"]["content"], json!({ "name": "me" }));
}

#[test]
fn session_view_shows_calls_and_decisions() {
    let mut queue = calling(&[
        ("a", "fs.read", "{\"path\":\"x\"}"),
        ("b", "fs.write", "{}"),
    ])
    .to_vec();
    queue.push(Script::tokens(["two"]));
    let tools = Tools::new(queue, "[mcp.auto_approve]\n\"fs.read\" = true\n");
    tools.behave(|request| {
        let text: String = (1..=9).map(|n| format!("line {n}\n")).collect();
        Some(request.result(mcp_http::text(&text)))
    });
    // No terminal to ask on.
    let call = tools.helper.call(["ask", "--shell", "s1", "first prompt"]);
    assert_eq!(call.run().code, 4);
    tools
        .helper
        .call(["ask", "--shell", "s1", "again"])
        .run()
        .ok();
    let call = tools.helper.call(["session", "show", "--shell", "s1"]);
    let text = call.run().ok();
    let (_, text) = text.split_once("\n> first prompt\n").expect("the prompt");
    // Durations vary.
    let (call, text) = text.split_once(" · success · ").expect("a call");
    assert_eq!(
        call,
        "[calls fs.read {\"path\":\"x\"}]\n\
         [calls fs.write {}]\n\
         [allowed by mcp.auto_approve.\"fs.read\": w fs.read {\"path\":\"x\"}]\n\
         ┌ w fs.read"
    );
    let (_, text) = text.split_once("s ·").expect("the time");
    let (head, text) = text.split_once("└\n").expect("its end");
    assert_eq!(
        head,
        " 63 bytes\n│ line 1\n│ line 2\n│ line 3\n│ line 4\n│ line 5\n│ … 4 more lines\n"
    );
    let denied =
        "[denied without a terminal: policy.default: w fs.write {}]\n┌ w fs.write · blocked\n│ ";
    assert!(text.starts_with(denied), "{text}");
    assert!(text.ends_with("└\ndone\n\n> again\ntwo\n"), "{text}");
    let list = tools
        .helper
        .call(["session", "list", "--json"])
        .run()
        .json();
    assert_eq!(
        (&list[0]["prompts"], &list[0]["title"]),
        (&json!(2), &json!("first prompt"))
    );
}

/// Only a limited number of questions of a server are pending, one of them shown at a time.
#[test]
fn number_of_pending_elicitations_is_limited() {
    let tools = Tools::new(calling(&[("a", "fs.read", "{}")]), super::rounds::ALL);
    tools.behave(|request| {
        let question = |id: usize| {
            BodyPart::Event(json!({
                "jsonrpc": "2.0",
                "id": 100 + id,
                "method": "elicitation/create",
                "params": {
                    "message": "\u{1}".repeat(1 << 20),
                    "requestedSchema": { "type": "object", "properties": {} },
                },
            }))
        };
        let event = json!({ "jsonrpc": "2.0", "id": request.id(), "result": mcp_http::text("ok") });
        let end = [BodyPart::Gate("answered"), BodyPart::Event(event)];
        Some(McpResponse::events((0..20).map(question).chain(end)))
    });
    let mut client = tools.ask("x");
    wait(tools.server.asked("POST", 12));
    for _ in 0..8 {
        let question = client.until(|frame| match frame {
            super::Frame::Event(Event::ElicitationRequested(question)) => Some(question.clone()),
            _ => None,
        });
        assert!(
            question.message.len() <= 8 << 10,
            "{}",
            question.message.len()
        );
        let decline = Reaction::Elicit {
            id: question.id.clone(),
            digest: question.shown_digest(),
            content: None,
            action: ElicitationAction::Decline,
        };
        client.send(kind::REACTION, &decline);
    }
    wait(tools.server.asked("POST", 20));
    tools.server.open("answered");
    assert_eq!(client.end().text(), "done");
    let requests = tools.server.requests();
    let reactions = |action: &str| {
        let has_action = |r: &&mcp_http::Request| r.json["result"]["action"] == action;
        requests.iter().filter(has_action).count()
    };
    assert_eq!((reactions("cancel"), reactions("decline")), (12, 8));
}

/// A stricter rule takes effect during the prompt.
#[test]
fn deny_rule_added_during_a_question_takes_effect() {
    let allowed = "[policy.rules]\n\"fs.read\" = \"ask\"\n\"fs.write\" = \"allow\"\n";
    let denied = allowed.replace("allow", "deny");
    // An unreadable file could contain deny rules.
    let unknown = "[policy.rules\n";
    let reads = denied.replace("ask", "deny");
    let called = |meanwhile: &str, verdict: ApprovalVerdict| {
        let calls = [("a", "fs.read", "{}"), ("b", "fs.write", "{}")];
        let queue = [Script::calls("", &calls), Script::tokens(["done"])];
        let tools = Tools::new(queue, allowed);
        let mut client = tools.ask("x");
        let question = client.question();
        tools.config(meanwhile);
        client.say(&question, verdict);
        client.end();
        let called = tools.called().into_iter().map(|(name, _)| name);
        let decisions = tools.helper.records_of("approval");
        let decision = |r: &Value| r["decision"].as_str().expect("a word").to_owned();
        (
            called.collect::<Vec<String>>().join(" "),
            decisions
                .iter()
                .map(decision)
                .collect::<Vec<String>>()
                .join(" "),
        )
    };
    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    assert_eq!(
        called(allowed, ApprovalVerdict::Once),
        pair("read write", "once rule")
    );
    assert_eq!(
        called(&denied, ApprovalVerdict::Once),
        pair("read", "once denied")
    );
    assert_eq!(
        called(&reads, ApprovalVerdict::Tool),
        pair("", "denied denied")
    );
    assert_eq!(
        called(unknown, ApprovalVerdict::Tool),
        pair("", "denied denied")
    );
}
