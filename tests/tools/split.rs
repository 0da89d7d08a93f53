//! Split exposure: the model gets five tools, and a call through them is decided like a direct call of its target.

use aish::chat::DataSensitivity;
use aish::protocol::tools::{ApprovalVerdict, CallFinished, CallStarted};
use aish::protocol::{AskRequest, Event};
use serde_json::{Value, json};

use super::{Seen, Tools, wait};
use crate::fakes::mcp_http::{self, BodyPart, McpResponse};
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::Helper;
use crate::support::shell_id;

/// The tools that replace a long tool list.
const FIVE: [&str; 5] = [
    "retrieve_tools",
    "call_tool_read",
    "call_tool_write",
    "call_tool_destructive",
    "read_result",
];

const SPLIT: &str = "[tools]\nbuiltin = false\nexposure = \"split\"\n";
/// Trusts the server's annotations and allows reads.
const READS: &str = "trust_annotations = true\n[policy.rules]\n\"op:read\" = \"allow\"\n";

/// Starts a daemon with split exposure, scripted answers of the model, and `more` after the server's configuration. The
/// server has `read` (annotated as read-only), `drop` (annotated as destructive) and `write` (without annotations).
fn split(queue: impl IntoIterator<Item = Script>, more: &str) -> Tools {
    with(Helper::new(queue), more)
}

fn with(helper: Helper, more: &str) -> Tools {
    let tools = Tools::with(helper, &format!("{more}{SPLIT}"));
    tools.server.set_tools(listed(3));
    tools
}

/// A list of `count` tools.
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

/// A model that makes these calls in one answer, with their positions as ids, and then answers.
fn calling(calls: &[(&str, Value)]) -> Vec<Script> {
    vec![answer(calls), Script::tokens(["done"])]
}

fn answer(calls: &[(&str, Value)]) -> Script {
    let texts: Vec<(String, String)> = calls
        .iter()
        .enumerate()
        .map(|(n, (_, args))| (format!("c{n}"), args.to_string()))
        .collect();
    let calls: Vec<(&str, &str, &str)> = calls
        .iter()
        .zip(&texts)
        .map(|((name, _), (id, args))| (id.as_str(), *name, args.as_str()))
        .collect();
    Script::calls("", &calls)
}

/// The arguments of a call of `tool` with a matching intent.
fn call_args(operation: &str, tool: &str) -> Value {
    json!({ "name": format!("fs:{tool}"), "intent": { "operation_type": operation } })
}

fn read() -> (&'static str, Value) {
    ("call_tool_read", call_args("read", "read"))
}

fn write() -> (&'static str, Value) {
    ("call_tool_write", call_args("write", "write"))
}

fn destroy() -> (&'static str, Value) {
    ("call_tool_destructive", call_args("destructive", "drop"))
}

fn started_calls(seen: &Seen) -> Vec<CallStarted> {
    seen.events(|e| match e {
        Event::ToolCallStarted(begin) => Some(begin.clone()),
        _ => None,
    })
}

fn finished_calls(seen: &Seen) -> Vec<CallFinished> {
    seen.events(|e| match e {
        Event::ToolCallFinished(end) => Some(end.clone()),
        _ => None,
    })
}

#[test]
fn call_through_a_variant_is_decided_as_its_target() {
    let call = json!({
        "name": "fs:read",
        "args_json": "{ \"path\" : \"/é\" }",
        "intent": {"operation_type": "read", "data_sensitivity": "private", "reason": "you asked"},
    });
    let tools = split(calling(&[("call_tool_read", call)]), "");
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(question.tool.name, "fs.read");
    assert_eq!(question.arguments, "{\"path\":\"/é\"}");
    assert_eq!(
        question.operation.as_str(),
        "write",
        "its server is not believed"
    );
    assert_eq!(question.why, "policy.default");
    assert_eq!(question.warning, None);
    let intent = question.intent.clone().expect("an intent");
    assert_eq!(intent.operation_type.as_str(), "read");
    assert_eq!(intent.data_sensitivity, Some(DataSensitivity::Private));
    assert_eq!(intent.reason.as_deref(), Some("you asked"));
    client.say(&question, ApprovalVerdict::Once);
    let seen = client.end();
    assert_eq!(seen.calls(), ["begin c0", "end c0 success"]);
    let begin = &started_calls(&seen)[0];
    assert_eq!(
        (begin.name.as_str(), begin.operation.as_str()),
        ("fs.read", "write")
    );
    assert_eq!(tools.called(), [("read".into(), json!({ "path": "/é" }))]);
    assert_eq!(tools.results_in_request(1), ["{\"path\":\"/é\"}"]);
    assert_eq!(
        tools.approved_at(0),
        [("once".into(), "{\"path\":\"/é\"}".into())]
    );
    let result = &tools.helper.records_of("tool")[0];
    for record in [&tools.helper.records_of("approval")[0], result] {
        assert_eq!(record["name"], "fs.read");
        assert_eq!(record["arguments"], "{\"path\":\"/é\"}");
        assert_eq!(
            record["action"],
            json!({
                "server": "fs",
                "tool": "read",
                "variant": "call_tool_read",
                "operation": "write",
                "intent": {
                    "operation_type": "read",
                    "data_sensitivity": "private",
                    "reason": "you asked",
                },
                "annotations": { "readOnlyHint": true },
            })
        );
    }
    assert_eq!(
        (&result["decided_by"], &result["reason"]),
        (&json!("person"), &json!("once"))
    );
    // The record of the answer keeps the call as the model made it, with the same id.
    let made = &tools.helper.records_of("assistant")[0]["calls"][0];
    assert_eq!(
        (&made["name"], &made["id"]),
        (&json!("call_tool_read"), &result["call"])
    );
    assert_eq!(
        result["result_sha256"].as_str().expect("a digest").len(),
        64
    );
    let request = &tools.helper.provider.requests()[0];
    assert_eq!(request.tool_names(), FIVE);
    let sent = request.json["tools"][0]["function"]["description"].as_str();
    assert!(sent.expect("words").ends_with("Servers: fs."), "{sent:?}");
    let (_, system) = tools.helper.messages(0).swap_remove(0);
    assert!(
        system.contains("retrieve_tools") && !system.contains("fs"),
        "{system}"
    );
}

#[test]
fn split_exposure_starts_at_the_threshold() {
    for (exposure, count, five) in [
        ("", 39, false),
        ("", 40, true),
        ("split_threshold = 3\n", 3, true),
        ("split_threshold = 4\n", 3, false),
        ("exposure = \"direct\"\n", 60, false),
        ("exposure = \"split\"\n", 1, true),
    ] {
        let more = format!("[tools]\nbuiltin = false\n{exposure}");
        let tools = Tools::new([Script::tokens(["ok"])], &more);
        let Value::Array(mut list) = listed(count.max(3)) else {
            panic!("a list")
        };
        list.truncate(count);
        tools.server.set_tools(Value::Array(list));
        tools.ask("x").end();
        let request = &tools.helper.provider.requests()[0];
        match five {
            true => assert_eq!(request.tool_names(), FIVE, "{more}"),
            // And `read_result`.
            false => assert_eq!(request.tool_names().len(), count + 1, "{more}"),
        }
    }
    // Without a server there are no tools to search.
    let none = Helper::saying("ok");
    none.config(SPLIT);
    none.ask("x");
    assert!(none.provider.requests()[0].json.get("tools").is_none());
}

#[test]
fn rejections_reach_the_model_without_a_question() {
    const SEE: &str = "not found. Use call_tool_read, call_tool_write, or call_tool_destructive with matching intent.operation_type. See retrieve_tools for annotations and recommendations.";
    let unseen = |name: &str| format!("Tool '{name}' {SEE}");
    let long = json!({ "operation_type": "read", "reason": "é".repeat(1001) });
    let cases = [
        (
            "call_tool_read",
            json!({ "name": "fs:read" }),
            "blocked",
            "intent parameter is required for call_tool_read".into(),
        ),
        (
            "call_tool_write",
            json!({ "name": "fs:write", "intent": {} }),
            "blocked",
            "intent.operation_type is required".into(),
        ),
        (
            "call_tool_read",
            call_args("unknown", "read"),
            "blocked",
            "Invalid intent.operation_type 'unknown': must be read, write, or destructive".into(),
        ),
        (
            "call_tool_read",
            call_args("write", "read"),
            "blocked",
            "Intent mismatch: tool is call_tool_read but intent declares write".to_string(),
        ),
        (
            "call_tool_read",
            call_args("read", "drop"),
            "blocked",
            "Tool 'fs:drop' is marked destructive by server, use call_tool_destructive".into(),
        ),
        (
            "call_tool_write",
            call_args("write", "drop"),
            "blocked",
            "Tool 'fs:drop' is marked destructive by server, use call_tool_destructive".into(),
        ),
        (
            "call_tool_read",
            json!({ "name": "fs:read", "intent": long }),
            "blocked",
            "Invalid intent.reason: 1001 characters, must be at most 1000".into(),
        ),
        (
            "call_tool",
            call_args("read", "read"),
            "invalid_call",
            unseen("call_tool"),
        ),
        // A direct call would bypass the intent, so the tool's own name is rejected.
        ("fs.read", json!({}), "invalid_call", unseen("fs.read")),
        (
            "call_tool_read",
            json!({ "name": "read", "intent": { "operation_type": "read" } }),
            "invalid_call",
            "Invalid name 'read': must be 'server:tool', as listed by retrieve_tools".into(),
        ),
        (
            "call_tool_read",
            call_args("read", "reed"),
            "invalid_call",
            "Tool 'fs:reed' not found. Find its name with retrieve_tools.".into(),
        ),
    ];
    let calls: Vec<_> = cases
        .iter()
        .map(|(name, args, ..)| (*name, args.clone()))
        .collect();
    let tools = split(calling(&calls), super::rounds::ALL);
    let seen = tools.ask("x").end();
    assert_eq!(seen.text(), "done", "the model is asked again");
    assert_eq!(tools.called(), []);
    assert_eq!(tools.helper.records_of("approval"), [] as [Value; 0]);
    assert_eq!(
        tools.results_in_request(1),
        cases.each_ref().map(|(.., text)| text.clone())
    );
    let (records, ends) = (tools.helper.records_of("tool"), finished_calls(&seen));
    assert_eq!(started_calls(&seen), []);
    for (n, (variant, args, status, text)) in cases.iter().enumerate() {
        let (record, end) = (&records[n], &ends[n]);
        assert_eq!(
            (&record["status"], &record["reason"]),
            (&json!(status), &json!(text))
        );
        let shown = match *status {
            "skipped" => "invalid_call",
            status => status,
        };
        assert_eq!((end.status.as_str(), &end.head), (shown, text));
        let named = args["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("fs:"));
        if named && variant.starts_with("call_tool_") {
            assert_eq!(record["action"]["variant"], *variant, "{text}");
            assert_eq!(record["action"]["server"], "fs", "{text}");
            assert_eq!(record["arguments"], "{}", "{text}");
        }
    }
    assert_eq!(records[3]["action"]["intent"]["operation_type"], "write");
    assert_eq!(
        records[4]["action"]["annotations"],
        json!({ "destructiveHint": true })
    );
    assert_eq!(records[4]["name"], "fs.drop");
}

#[test]
fn model_finds_a_tool_and_corrects_its_call() {
    let tools = split(
        [
            answer(&[("retrieve_tools", json!({ "query": "drop", "limit": 1 }))]),
            answer(&[("call_tool_read", call_args("read", "drop"))]),
            answer(&[destroy()]),
            Script::tokens(["gone"]),
        ],
        "",
    );
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(
        (question.tool.name.as_str(), question.operation.as_str()),
        ("fs.drop", "destructive")
    );
    client.say(&question, ApprovalVerdict::Once);
    let seen = client.end();
    assert_eq!(seen.text(), "gone");
    assert_eq!(tools.called(), [("drop".into(), json!({}))]);
    let results = tools.results_in_request(3);
    let found: Value = serde_json::from_str(&results[0]).expect("JSON");
    assert_eq!(found["tools"].as_array().map(Vec::len), Some(1));
    let tool = &found["tools"][0];
    assert_eq!(
        (&tool["name"], &tool["server"]),
        (&json!("fs:drop"), &json!("fs"))
    );
    assert_eq!(tool["call_with"], "call_tool_destructive");
    assert_eq!(tool["annotations"], json!({ "destructiveHint": true }));
    assert_eq!(tool["inputSchema"]["type"], "object");
    assert!(tool["score"].as_f64().expect("a score") > 0.0);
    assert!(found["usage_instructions"].is_string());
    assert_eq!(
        results[1..],
        [
            "Tool 'fs:drop' is marked destructive by server, use call_tool_destructive",
            "{}"
        ]
    );
    let records = tools.helper.records_of("tool");
    let words: Vec<_> = records
        .iter()
        .map(|r| (r["name"].as_str(), r["status"].as_str()))
        .collect();
    assert_eq!(
        words,
        [
            (Some("retrieve_tools"), Some("success")),
            (Some("fs.drop"), Some("blocked")),
            (Some("fs.drop"), Some("success"))
        ]
    );
    assert_eq!(records[0]["arguments"], "{\"query\":\"drop\",\"limit\":1}");
    assert_eq!(records[0]["action"]["server"], "aish");
    assert_eq!(records[0]["action"]["operation"], "read");
    assert_eq!(
        (&records[0]["decided_by"], &records[0]["reason"]),
        (&json!("rule"), &json!("built-in"))
    );
    // The call of the built-in tool needs no approval on disk.
    assert_eq!(tools.helper.records_of("approval").len(), 1);
}

#[test]
fn both_forms_of_arguments_and_intent_are_equivalent() {
    let calls: Vec<_> = [
        json!({ "args": { "b": 1.50, "a": 2 } }),
        json!({ "args_json": "{\"b\":1.50,\"a\":2}" }),
        json!({ "args": { "a": 2, "b": 1.5 }, "args_json": "{\"b\":1.50,\"a\":2}" }),
        json!({}),
    ]
    .into_iter()
    .enumerate()
    .map(|(n, mut call)| {
        call["name"] = json!(["fs:read", "fs.read"][n % 2]);
        match n % 2 {
            0 => call["intent"] = json!({ "operation_type": "read", "reason": "why" }),
            _ => {
                call["intent_operation_type"] = json!("read");
                call["intent_reason"] = json!("why");
            }
        }
        ("call_tool_read", call)
    })
    .collect();
    let tools = split(calling(&calls), super::rounds::ALL);
    tools.ask("x").end();
    let with = json!({ "a": 2, "b": 1.5 });
    let called: Vec<Value> = tools.called().into_iter().map(|(_, args)| args).collect();
    assert_eq!(called, [with.clone(), with.clone(), with, json!({})]);
    for record in tools.helper.records_of("tool") {
        assert_eq!(
            record["action"]["intent"],
            json!({ "operation_type": "read", "reason": "why" })
        );
        assert_eq!(
            (&record["decided_by"], &record["reason"]),
            (&json!("rule"), &json!("mcp.auto_approve.\"fs.*\""))
        );
    }
}

#[test]
fn contradicted_intent_is_a_warning_unless_strict() {
    const READ_ONLY: &str =
        "Tool 'fs:read' is marked read-only by server, but intent declares write";
    const DESTROYS: &str =
        "Tool 'fs:drop' is marked destructive by server, use call_tool_destructive";
    let calls = [
        ("call_tool_write", call_args("write", "read")),
        ("call_tool_read", call_args("read", "drop")),
    ];
    let lax = "[intent_declaration]\nstrict_server_validation = false\n";
    // The question shows the warning.
    let tools = split(calling(&calls), lax);
    let mut client = tools.ask("x");
    for warning in [READ_ONLY, DESTROYS] {
        let question = client.question();
        assert_eq!(question.warning.as_deref(), Some(warning));
        client.say(&question, ApprovalVerdict::Once);
    }
    client.end();
    assert_eq!(tools.called().len(), 2);
    for (n, warning) in [READ_ONLY, DESTROYS].into_iter().enumerate() {
        assert_eq!(tools.helper.records_of("approval")[n]["reason"], warning);
        let record = &tools.helper.records_of("tool")[n];
        assert_eq!(record["reason"], format!("once; {warning}"));
    }
    // The intent does not lower the operation class of the tool.
    let record = &tools.helper.records_of("tool")[1];
    assert_eq!(record["action"]["operation"], "destructive");
    // Without a question, the start event shows the warning.
    let tools = split(calling(&calls), &format!("{}{lax}", super::rounds::ALL));
    let seen = tools.ask("x").end();
    let warnings: Vec<_> = started_calls(&seen)
        .into_iter()
        .map(|b| b.warning)
        .collect();
    assert_eq!(
        warnings,
        [Some(READ_ONLY.to_owned()), Some(DESTROYS.to_owned())]
    );
    for kind in ["approval", "tool"] {
        let why = format!("mcp.auto_approve.\"fs.*\"; {READ_ONLY}");
        assert_eq!(tools.helper.records_of(kind)[0]["reason"], why);
    }
}

#[test]
fn intent_can_only_raise_the_operation_class() {
    // The read is allowed; the same tool with a destructive intent needs approval.
    let calls = [
        read(),
        ("call_tool_destructive", call_args("destructive", "read")),
    ];
    let tools = split(calling(&calls), READS);
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(
        (question.number, question.operation.as_str()),
        (2, "destructive")
    );
    assert_eq!(tools.called().len(), 1, "the first needed no word");
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called().len(), 1);
    // A write that is declared as a read needs approval as a write.
    let tools = split(
        calling(&[("call_tool_read", call_args("read", "write"))]),
        READS,
    );
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(question.operation.as_str(), "write");
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called(), []);
}

#[test]
fn rule_about_the_target_applies_through_every_variant() {
    let rules = "[policy.rules]\n\"fs.*\" = \"allow\"\n\"fs.write\" = \"deny\"\n\"sensitivity:private\" = \"ask\"\n";
    let mut private = call_args("read", "read");
    private["intent"]["data_sensitivity"] = json!("private");
    let calls = [
        write(),
        ("call_tool_destructive", call_args("destructive", "write")),
        ("call_tool_read", private),
    ];
    let tools = split(calling(&calls), rules);
    let mut client = tools.ask("x");
    let question = client.question();
    assert_eq!(
        (question.number, question.why.as_str()),
        (3, "policy.rules.\"sensitivity:private\"")
    );
    assert_eq!(question.offers, [], "no grant silences that rule");
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called(), []);
    let why = "policy.rules.\"fs.write\"";
    assert_eq!(
        tools.results_in_request(1)[..2],
        [(); 2].map(|()| format!("[denied by the user's rule {why}]"))
    );
    for record in &tools.helper.records_of("tool")[..2] {
        assert_eq!(
            (&record["decided_by"], &record["reason"]),
            (&json!("rule"), &json!(why))
        );
        assert_eq!(record["action"]["tool"], "write");
    }
}

#[test]
fn denial_with_a_message_and_stop_of_later_calls() {
    let queue = [
        answer(&[write(), destroy(), read()]),
        Script::tokens(["again"]),
    ];
    let tools = split(queue, "");
    let mut client = tools.ask("x");
    let question = client.question();
    let words = Some("not now".to_owned());
    client.say(&question, ApprovalVerdict::No { words });
    client.question();
    client.cancel();
    let seen = client.end();
    assert_eq!(seen.answer.finish.as_str(), "interrupted");
    assert_eq!(seen.calls(), ["end c0 denied", "end c1 interrupted"]);
    assert_eq!(tools.called(), []);
    let records = tools.helper.records_of("tool");
    let field = |key: &str| -> Vec<Value> { records.iter().map(|r| r[key].clone()).collect() };
    assert_eq!(field("status"), ["denied", "interrupted", "interrupted"]);
    assert_eq!(field("name"), ["fs.write", "fs.drop", "fs.read"]);
    assert_eq!(
        field("decided_by"),
        [json!("person"), Value::Null, Value::Null]
    );
    assert_eq!(
        field("reason"),
        [json!("not now"), Value::Null, Value::Null]
    );
    let variants: Vec<_> = records
        .iter()
        .map(|r| r["action"]["variant"].clone())
        .collect();
    assert_eq!(
        variants,
        ["call_tool_write", "call_tool_destructive", "call_tool_read"]
    );
    tools.ask("and now?").end();
    assert_eq!(
        tools.results_in_request(1),
        [
            "[denied by the user] not now",
            "[no result: interrupted]",
            "[no result: interrupted]"
        ]
    );
}

#[test]
fn reads_through_a_variant_run_concurrently() {
    let mut calls: Vec<_> = (0..3).map(|_| read()).collect();
    calls.push(("retrieve_tools", json!({ "query": "write" })));
    calls.push(("call_tool_read", call_args("write", "read")));
    calls.push(read());
    let tools = split(calling(&calls), READS);
    tools.behave(|request| {
        let event = json!({ "jsonrpc": "2.0", "id": request.id(), "result": mcp_http::text("ok") });
        Some(McpResponse::events([
            BodyPart::Gate("all"),
            BodyPart::Event(event),
        ]))
    });
    let client = tools.ask("x");
    wait(tools.server.asked("tools/call", 3));
    assert_eq!(tools.called().len(), 3);
    // One sync covers all approvals, also that of the call after the others.
    assert_eq!(tools.approved_at(0).len(), 4);
    tools.server.open("all");
    let seen = client.end();
    let results = tools.results_in_request(1);
    assert_eq!((results.len(), results[5].as_str()), (6, "ok"));
    assert!(results[3].starts_with("{\"tools\":["), "{}", results[3]);
    assert!(
        results[4].starts_with("Intent mismatch: "),
        "{}",
        results[4]
    );
    assert_eq!(seen.answer.finish.as_str(), "stop");
    assert_eq!(tools.helper.records_of("approval").len(), 4);
}

/// A model that reads a truncated result to its end.
fn reader(name: &'static str) -> Helper {
    Helper::with(Provider::answering(move |request| {
        let messages = request.json["messages"].as_array().expect("messages");
        let last = messages.last().expect("a message");
        let text = last["content"].as_str().unwrap_or_default();
        if last["role"] != "tool" {
            return match name {
                "fs.read" => answer(&[(name, json!({}))]),
                _ => answer(&[(name, call_args("read", "read"))]),
            };
        }
        let word_after = |before: &str| {
            let (_, after) = text.split_once(before)?;
            let word = after.split([' ', ']']).next();
            Some(word.expect("a word").to_owned())
        };
        match (
            word_after("read_result with key "),
            word_after(" and offset "),
        ) {
            (Some(key), Some(offset)) => {
                let offset: usize = offset.parse().expect("a number");
                let call = json!({ "key": key, "offset": offset });
                answer(&[("read_result", call)])
            }
            _ => Script::tokens(["done"]),
        }
    }))
}

#[test]
fn long_result_is_truncated_and_continued_in_both_exposures() {
    let lines = |n: std::ops::Range<usize>| -> String {
        n.map(|n| format!("line {n:04} of it\n")).collect()
    };
    let config = "[mcp]\nmax_result_bytes = 2048\n[policy.rules]\n\"fs.*\" = \"allow\"\n";
    for name in ["call_tool_read", "fs.read"] {
        let tools = match name {
            "fs.read" => Tools::with(reader(name), config),
            _ => with(reader(name), config),
        };
        tools.behave(move |request| Some(request.result(mcp_http::text(&lines(0..200)))));
        let seen = tools.ask("x").end();
        let results = tools.results_in_request(2);
        let (head, note) = results[0].split_once("\n[… ").expect("a note");
        let kept = head.lines().count();
        assert!(
            kept > 50 && lines(0..kept).trim_end() == head.trim_end(),
            "{head}"
        );
        assert!(note.contains(" of 3200 bytes left out"), "{note}");
        let (place, part) = results[1].split_once('\n').expect("a place");
        assert!(place.starts_with("[bytes "), "{place}");
        let rest = lines(kept..200);
        assert!(rest.starts_with(part), "{name}: {part}");
        assert_eq!(seen.answer.finish.as_str(), "stop");
        let records = tools.helper.records_of("tool");
        assert_eq!(
            (&records[0]["bytes"], &records[0]["status"]),
            (&json!(3200), &json!("success"))
        );
        let digest = |text: &str| -> String {
            use sha2::{Digest, Sha256};
            Sha256::digest(text)
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect()
        };
        assert_eq!(
            records[0]["result_sha256"],
            digest(&lines(0..200)),
            "digest of the whole result"
        );
        assert_eq!(records[1]["name"], "read_result");
        // With direct exposure, `read_result` is offered from the beginning, so that the tools stay the same.
        if name == "fs.read" {
            let requests = tools.helper.provider.requests();
            assert_eq!(requests[0].tool_names().last(), Some(&"read_result"));
            assert_eq!(requests[1].json["tools"], requests[0].json["tools"]);
        }
    }
}

#[test]
fn errors_of_built_in_tools_reach_the_model() {
    let calls = [
        ("retrieve_tools", json!({ "query": "x", "limit": -1 })),
        ("read_result", json!({ "key": "made up" })),
    ];
    let tools = split(calling(&calls), "");
    let seen = tools.ask("x").end();
    assert_eq!(
        seen.calls(),
        [
            "begin c0",
            "end c0 tool_error",
            "begin c1",
            "end c1 tool_error"
        ]
    );
    let results = tools.results_in_request(1);
    assert!(results[0].starts_with("limit must be"), "{}", results[0]);
    assert!(
        results[1].starts_with("There is no result with this key"),
        "{}",
        results[1]
    );
}

#[test]
fn only_effective_approval_scopes_are_offered() {
    let offers = |more: &str, call: (&str, Value)| {
        let tools = split(calling(&[call]), more);
        let mut client = tools.ask("x");
        let question = client.question();
        client.say(&question, ApprovalVerdict::No { words: None });
        client.end();
        let names = question.offers.iter().map(|scope| scope.as_str());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(offers("", read()), "tool reads always");
    assert_eq!(offers("", write()), "tool always");
    // The scope `reads` does not cover a call that declares a write.
    assert_eq!(
        offers("", ("call_tool_write", call_args("write", "read"))),
        "tool always"
    );
    let rule = |rule: &str| format!("[policy.rules]\n{rule}\n");
    assert_eq!(offers(&rule("\"fs.read\" = \"ask\""), read()), "");
    assert_eq!(
        offers(&rule("\"fs.write\" = \"ask\""), read()),
        "tool reads always"
    );
    assert_eq!(offers(&rule("\"op:destructive\" = \"ask\""), destroy()), "");
    assert_eq!(
        offers(&rule("\"fs.write\" = \"deny\""), read()),
        "tool reads"
    );
}

#[test]
fn scope_that_was_not_offered_counts_as_once() {
    let queue = [
        answer(&[write()]),
        Script::tokens(["one"]),
        answer(&[write()]),
        Script::tokens(["two"]),
    ];
    let tools = split(queue, "");
    for verdict in [ApprovalVerdict::Reads, ApprovalVerdict::Tool] {
        let mut client = tools.ask("x");
        let question = client.question();
        client.say(&question, verdict);
        client.end();
    }
    let decisions: Vec<Value> = tools
        .helper
        .records_of("approval")
        .iter()
        .map(|r| r["decision"].clone())
        .collect();
    assert_eq!(decisions, ["once", "tool"]);
    let granted = tools.helper.records_of("policy");
    assert_eq!(granted.len(), 1);
    assert_eq!(
        (&granted[0]["change"], &granted[0]["rule"]),
        (&json!("granted"), &json!("you, for this session: fs.write"))
    );
    assert!(granted[0]["grant"].is_string());
}

/// Makes the same write twice and answers the first question with "always".
fn always(tools: &Tools) -> Seen {
    let mut client = tools.ask("x");
    let question = client.question();
    client.say(&question, ApprovalVerdict::Always);
    client.end()
}

fn twice() -> [Script; 4] {
    [
        answer(&[write()]),
        Script::tokens(["one"]),
        answer(&[write()]),
        Script::tokens(["two"]),
    ]
}

#[test]
fn always_writes_a_rule_for_the_next_prompt() {
    let tools = split(
        twice(),
        "# of fs\n[policy] # mine\ndefault = \"ask\" # careful\n",
    );
    let file = tools.helper.path("config/config.toml");
    let text = || std::fs::read_to_string(&file).expect("the config");
    let before = text();
    let at_the_call = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let (seen, path) = (at_the_call.clone(), file.clone());
    tools.behave(move |_| {
        *seen.lock().expect("text") = std::fs::read_to_string(&path).expect("the config");
        None
    });
    let first = always(&tools);
    assert_eq!(first.calls(), ["begin c0", "end c0 success"]);
    assert_eq!(tools.approved_at(0)[0].0, "always");
    let after = text();
    assert_eq!(*at_the_call.lock().expect("text"), after);
    let rule = "\"fs.write\" = \"allow\"";
    let added: Vec<&str> = after
        .lines()
        .filter(|line| !before.contains(line))
        .collect();
    assert!(added.contains(&rule), "{after}");
    let comment = after
        .lines()
        .find(|line| line.starts_with("# allowed at a prompt on 20"));
    assert!(comment.is_some(), "{after}");
    for line in before.lines() {
        assert!(after.lines().any(|kept| kept == line), "{line}: {after}");
    }
    let records = tools.helper.records_of("policy");
    let changes: Vec<_> = records.iter().map(|r| (&r["change"], &r["rule"])).collect();
    assert!(
        changes.contains(&(&json!("always"), &json!(rule))),
        "{changes:?}"
    );
    // In a new session without grants.
    let next = tools.ask_as(AskRequest {
        shell: Some(shell_id("s2")),
        text: "x".to_owned(),
        ..AskRequest::default()
    });
    let next = next.end();
    let started = started_calls(&next);
    assert_eq!(
        started[0].rule.as_deref(),
        Some("policy.rules.\"fs.write\"")
    );
    assert_eq!(tools.called().len(), 2);
}

#[test]
fn always_without_a_written_rule_is_a_session_grant() {
    let tools = split(twice(), "[policy.rules]\n\"fs.read\" = \"allow\"\n");
    let file = tools.helper.path("config/config.toml");
    let mut client = tools.ask("x");
    let question = client.question();
    // Another rule was written in the meantime.
    let text = std::fs::read_to_string(&file).expect("the config");
    let text = text.replace("\"fs.read\" = \"allow\"", "\"fs.write\" = \"ask\"");
    std::fs::write(&file, &text).expect("written");
    client.say(&question, ApprovalVerdict::Always);
    let seen = client.end();
    assert_eq!(seen.calls(), ["begin c0", "end c0 success"]);
    let begin = "the rule for fs.write was not written, so a later session will ask again: ";
    let notices = seen.notices();
    assert!(notices.iter().any(|n| n.starts_with(begin)), "{notices:?}");
    assert_eq!(std::fs::read_to_string(&file).expect("the config"), text);
    let changes: Vec<_> = tools.helper.records_of("policy");
    assert!(
        !changes.iter().any(|r| r["change"] == "always"),
        "{changes:?}"
    );
    // The session's grant applies once no rule asks.
    let text = text.replace("\"fs.write\" = \"ask\"", "");
    tools.helper.config_file(&text);
    let next = tools.ask("x").end();
    assert_eq!(
        started_calls(&next)[0].rule.as_deref(),
        Some("you, for this session: fs.write")
    );
}

#[cfg(target_os = "linux")]
#[test]
fn unrecorded_approval_makes_no_call_and_no_grant() {
    let queue = [
        answer(&[write()]),
        answer(&[write()]),
        Script::tokens(["done"]),
    ];
    let tools = split(queue, "");
    let mut client = tools.ask("x");
    let question = client.question();
    tools.helper.limit_files(Some(1));
    client.say(&question, ApprovalVerdict::Tool);
    let seen = client.end();
    assert_eq!(tools.called(), []);
    let notices = seen.notices();
    let begin = "mcp: fs.write: not called: the approval could not be recorded: ";
    assert!(notices.iter().any(|n| n.starts_with(begin)), "{notices:?}");
    tools.helper.limit_files(None);
    // An approval that is not on disk gives no grant.
    let mut client = tools.ask("x");
    let question = client.question();
    client.say(&question, ApprovalVerdict::No { words: None });
    client.end();
    assert_eq!(tools.called(), []);
}
