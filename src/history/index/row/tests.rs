use serde_json::{Value, json};

use super::*;

const ID: &str = "01930000-0000-7000-8000-000000000001";

fn row(record: &Value) -> IndexRow {
    let line = format!("{record}\n");
    read(line.as_bytes(), ("f", 7), &mut LineContext::default()).unwrap()
}

fn of(kind: &str, more: Value) -> IndexRow {
    let mut record = json!({"v": 1, "id": ID, "at_ms": 5, "type": kind});
    for (key, value) in more.as_object().unwrap() {
        record[key] = value.clone();
    }
    row(&record)
}

/// Every type, with every word that decides what became of it and who decided.
#[test]
fn each_record_has_its_words() {
    for (kind, more, typed, status, by, what) in [
        (
            "session",
            json!({"session": "s", "shell": null}),
            "session",
            "success",
            None,
            "begins",
        ),
        (
            "attached",
            json!({"shell": "s"}),
            "session",
            "success",
            None,
            "goes on",
        ),
        (
            "title",
            json!({"title": "t"}),
            "session",
            "success",
            None,
            "gets a title",
        ),
        (
            "session_setting",
            json!({"setting": "tools", "value": "none"}),
            "session",
            "success",
            None,
            "changes a setting",
        ),
        (
            "compaction",
            json!({"kept_from": "r", "prompts": 2}),
            "session",
            "success",
            None,
            "is summarized",
        ),
        (
            "model",
            json!({"model": "gpt"}),
            "model",
            "success",
            Some("person"),
            "gpt",
        ),
        (
            "user",
            json!({"text": " hi\nyou"}),
            "prompt",
            "success",
            Some("person"),
            "hi\nyou",
        ),
        (
            "assistant",
            json!({"text": "ok", "finish": "stop"}),
            "answer",
            "success",
            None,
            "ok",
        ),
        (
            "assistant",
            json!({"text": "ok", "finish": "length"}),
            "answer",
            "success",
            None,
            "ok",
        ),
        (
            "assistant",
            json!({"text": "ok", "finish": "interrupted"}),
            "answer",
            "interrupted",
            None,
            "ok",
        ),
        (
            "assistant",
            json!({"text": "", "finish": "error", "error": "down"}),
            "answer",
            "error",
            None,
            "down",
        ),
        (
            "assistant",
            json!({"text": " ", "finish": "stop", "calls": [{"id": "1", "name": "a.b", "arguments": ""}]}),
            "answer",
            "success",
            None,
            "calls a.b",
        ),
        (
            "decision",
            json!({"choice": "run", "command": "ls"}),
            "command_approval",
            "success",
            Some("person"),
            "run: ls",
        ),
        (
            "decision",
            json!({"choice": "insert", "command": "ls"}),
            "command_approval",
            "success",
            Some("person"),
            "insert: ls",
        ),
        (
            "decision",
            json!({"choice": "no", "command": "ls"}),
            "command_approval",
            "denied",
            Some("person"),
            "no: ls",
        ),
        (
            "decision",
            json!({"choice": "denied", "command": "ls", "why": "policy.deny: shell"}),
            "command_approval",
            "blocked",
            Some("rule"),
            "denied: ls",
        ),
        (
            "decision",
            json!({"choice": "quit", "command": "ls"}),
            "command_approval",
            "denied",
            Some("person"),
            "quit: ls",
        ),
        (
            "exec",
            json!({"command": "ls", "exit": 0}),
            "command_result",
            "success",
            Some("person"),
            "ls",
        ),
        (
            "exec",
            json!({"command": "ls", "exit": 2}),
            "command_result",
            "error",
            Some("person"),
            "ls",
        ),
        (
            "command",
            json!({"command": "ls", "exit": 0}),
            "shell_command",
            "success",
            Some("person"),
            "ls",
        ),
        (
            "command",
            json!({"command": "ls", "exit": 130}),
            "shell_command",
            "error",
            Some("person"),
            "ls",
        ),
        (
            "policy",
            json!({"change": "granted", "what": "fs.*"}),
            "policy",
            "success",
            Some("person"),
            "granted: fs.*",
        ),
        (
            "policy",
            json!({"change": "lapsed", "what": "fs.*"}),
            "policy",
            "success",
            None,
            "lapsed: fs.*",
        ),
        (
            "server",
            json!({"alias": "a", "event": "connected", "target": "x"}),
            "server",
            "success",
            None,
            "connected: x",
        ),
        (
            "server",
            json!({"alias": "a", "event": "failed", "target": "x"}),
            "server",
            "error",
            None,
            "failed: x",
        ),
        (
            "server",
            json!({"alias": "a", "event": "login", "target": "x"}),
            "server",
            "error",
            None,
            "login: x",
        ),
        (
            "server",
            json!({"alias": "a", "event": "disconnected", "target": "x", "error": "e"}),
            "server",
            "error",
            None,
            "disconnected: x",
        ),
        (
            "waiting_prompt",
            json!({"prompt": "next?"}),
            "other",
            "success",
            None,
            "waiting prompt: next?",
        ),
        ("hologram", json!({}), "other", "success", None, "hologram"),
        ("answer", json!({}), "other", "success", None, "answer"),
    ] {
        let row = of(kind, more.clone());
        let words = (&*row.kind.kind, &*row.kind.status, row.by, &*row.what);
        assert_eq!(words, (typed, status, by, what), "{kind} {more}");
        assert!(TYPES.contains(&typed) && STATUSES.contains(&status));
    }
    for (word, status) in [
        ("success", "success"),
        ("error", "error"),
        ("failed", "error"),
        ("interrupted", "interrupted"),
        ("denied", "denied"),
        ("blocked", "blocked"),
        ("skipped", "blocked"),
        ("of tomorrow", "error"),
    ] {
        let row = of(
            "tool",
            json!({"name": "a.b.c", "status": word, "arguments": "{}"}),
        );
        assert_eq!(row.kind.status, status, "{word}");
        assert_eq!(row.by, (status == "denied").then_some("person"));
        assert_eq!(
            (row.kind.server.as_deref(), row.kind.tool.as_deref()),
            (Some("a"), Some("b.c"))
        );
    }
    for (word, status, by) in [
        ("once", "success", Some("person")),
        ("tool", "success", Some("person")),
        ("reads", "success", Some("person")),
        ("always", "success", Some("person")),
        ("server", "success", Some("person")),
        ("rule", "success", Some("rule")),
        ("no", "denied", Some("person")),
        ("stop", "denied", Some("person")),
        ("denied", "blocked", Some("rule")),
        ("no_terminal", "blocked", None),
        ("timed_out", "blocked", None),
        ("cancelled", "interrupted", None),
    ] {
        let row = of("approval", json!({"name": "a.b", "decision": word}));
        assert_eq!((&*row.kind.status, row.by), (status, by), "{word}");
    }
}

#[test]
fn a_prompt_of_a_chain_was_typed_by_nobody() {
    for (text, by) in [(CONTINUED, "chain"), ("go on", "person")] {
        assert_eq!(of("user", json!({"text": text})).by, Some(by));
    }
}

#[test]
fn what_a_call_does_is_what_the_gate_took_it_for() {
    let act = json!({"server": "a", "tool": "t.x", "variant": "call_tool_read", "operation": "write",
        "intent": {"operation_type": "read", "reason": "r"}, "annotations": {"readOnlyHint": true}});
    let row = of(
        "tool",
        json!({"name": "z.z", "status": "success", "ms": 9, "by": "rule", "act": act}),
    );
    assert_eq!(row.kind.operation.as_deref(), Some("write"));
    assert_eq!(
        (row.kind.server.as_deref(), row.kind.tool.as_deref()),
        (Some("a"), Some("t.x"))
    );
    assert_eq!((row.ms, row.by), (Some(9), Some("rule")));
    let act = json!({"server": "a", "tool": "t", "operation": "hologram", "annotations": {}});
    let row = of("approval", json!({"decision": "once", "act": act}));
    assert_eq!(row.kind.operation, None);
}

#[test]
fn what_is_ours_by_no_id_has_its_place_for_one() {
    let at = |id: &str, at_ms: u64, spot| {
        let line =
            json!({"v": 1, "id": id, "at_ms": at_ms, "type": "user", "text": ""}).to_string();
        read(line.as_bytes(), spot, &mut LineContext::default())
            .unwrap()
            .key
    };
    assert_eq!(id_of(&at(ID, 5, ("f", 0))), ID);
    let keys = [
        at("x", 5, ("f", 0)),
        at("x", 5, ("f", 9)),
        at("x", 5, ("f", 300)),
        at("x", 6, ("f", 0)),
    ];
    assert!(keys.is_sorted());
    assert_ne!(at("x", 5, ("f", 0)), at("x", 5, ("g", 0)));
    // No version 7: its bytes say nothing of the time.
    let other = at("67e55044-10b1-426f-9247-bb680e5fe0c8", 5, ("f", 0));
    assert_eq!(other, keys[0]);
    assert!(first_of(5) < keys[0] && keys[2] < first_of(6));
    assert_eq!(first_of(u64::MAX)[..6], [0xff; 6]);
}

#[test]
fn no_more_is_kept_than_a_list_shows() {
    let row = of("user", json!({"text": "é".repeat(1000)}));
    assert_eq!(row.what, "é".repeat(SUMMARY));
}

#[test]
fn the_time_of_a_model_is_not_that_of_a_shell_command() {
    let took = |command: &str| {
        let more = json!({"shell": "s", "command": command, "start_ms": 1, "duration_ms": 9000, "exit": 0});
        of("shell_command", more).ms
    };
    assert_eq!(took("make"), Some(9000));
    assert_eq!(took("llm why did that fail"), None);
    assert_eq!(took("aish-helper ask x"), None);
}
