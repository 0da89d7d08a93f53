use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;
use crate::chat::DataSensitivity;

fn word() -> String {
    "x".to_owned()
}

fn some() -> Option<String> {
    Some(word())
}

fn action() -> RecordedCall {
    RecordedCall {
        server: word(),
        tool: word(),
        variant: some(),
        operation: OperationClass::Read,
        intent: Some(RecordedIntent {
            operation_type: OperationClass::Read,
            data_sensitivity: Some(DataSensitivity::Public),
            reason: some(),
        }),
        annotations: RecordedAnnotations {
            read_only_hint: Some(true),
            destructive_hint: Some(true),
            idempotent_hint: Some(true),
            open_world_hint: Some(true),
        },
    }
}

/// One body of each type, with every field. The match makes a type that is added fail to compile here.
fn every_body() -> Vec<RecordBody> {
    let known = |body: &RecordBody| match body {
        RecordBody::Session { .. }
        | RecordBody::Attached { .. }
        | RecordBody::Model { .. }
        | RecordBody::Title { .. }
        | RecordBody::SessionSetting { .. }
        | RecordBody::User { .. }
        | RecordBody::WaitingPrompt { .. }
        | RecordBody::Compaction { .. }
        | RecordBody::Assistant { .. }
        | RecordBody::Approval { .. }
        | RecordBody::Tool { .. }
        | RecordBody::Policy { .. }
        | RecordBody::Server { .. }
        | RecordBody::CommandApproval { .. }
        | RecordBody::CommandResult { .. }
        | RecordBody::Undo { .. }
        | RecordBody::InterruptedChange { .. }
        | RecordBody::ShellCommand { .. } => true,
        RecordBody::Unknown => false,
    };
    let bodies = vec![
        RecordBody::Session {
            session: word(),
            shell: some(),
        },
        RecordBody::Attached { shell: word() },
        RecordBody::Model { model: word() },
        RecordBody::Title { title: word() },
        RecordBody::SessionSetting {
            setting: word(),
            value: some(),
        },
        RecordBody::User {
            text: word(),
            content: word(),
            shell: some(),
            cwd: word(),
            images: vec![(word(), word().into())],
            pack: Some(crate::history::record::UsedPack {
                name: word(),
                version: some(),
                sha256: word(),
            }),
            output: Some(crate::history::record::OutputOrigin {
                command: word(),
                started_ms: 1,
                source: word(),
                lines: 2,
            }),
        },
        RecordBody::WaitingPrompt { text: word() },
        RecordBody::Compaction {
            kept_from: some(),
            prompts: 1,
        },
        RecordBody::Assistant {
            text: word(),
            calls: vec![Call {
                id: word(),
                name: word(),
                arguments: word(),
                extra: some(),
            }],
            omitted: 1,
            native: Some(std::sync::Arc::new(crate::chat::NativeAnswer {
                dialect: crate::chat::Dialect::Chat,
                model: word(),
                prefix_sha256: word(),
                items: word(),
            })),
            model: word(),
            finish: FinishReason::Stop,
            error: some(),
            prompt_tokens: Some(1),
            completion_tokens: Some(1),
            cache_read_tokens: 1,
            cache_write_tokens: 1,
            reasoning_tokens: 1,
            provider: None,
            cost: None,
            cost_estimated: false,
            refused: true,
            rejected: true,
            ms: 1,
        },
        RecordBody::Approval {
            call: word(),
            name: word(),
            decision: ApprovalDecision::Once,
            why: some(),
            arguments: word(),
            terminal: some(),
            browser: some(),
            digest: some(),
            act: Some(action()),
        },
        RecordBody::Tool {
            call: word(),
            name: word(),
            status: CallStatus::Success,
            text: word(),
            images: vec![(word(), word().into())],
            error: some(),
            bytes: 1,
            ms: 1,
            act: Some(action()),
            arguments: some(),
            by: Some(DecidedBy::Person),
            why: some(),
            digest: some(),
            files: vec![RecordedFile {
                path: word(),
                sha256: some(),
                read: true,
            }],
        },
        RecordBody::Policy {
            change: PolicyChange::Granted,
            what: word(),
            grant: some(),
            why: some(),
        },
        RecordBody::Server {
            alias: word(),
            event: ServerEvent::Connected,
            target: word(),
            version: some(),
            tools: 1,
            error: some(),
        },
        RecordBody::CommandApproval {
            token: word(),
            choice: CommandDecision::Run,
            proposed: word(),
            command: word(),
            cwd: some(),
            terminal: some(),
            why: some(),
        },
        RecordBody::Undo {
            prompt: word(),
            restored: vec![word()],
            kept: vec![word()],
        },
        RecordBody::InterruptedChange {
            prompt: word(),
            changed: vec![word()],
            unchanged: vec![word()],
        },
        RecordBody::CommandResult {
            token: word(),
            command: word(),
            exit: 0,
            ms: Some(1),
            output: Some(CommandOutput {
                head: word(),
                tail: word(),
                omitted: 1,
            }),
            stderr: Some(CommandOutput {
                head: word(),
                tail: word(),
                omitted: 1,
            }),
        },
        RecordBody::ShellCommand {
            shell: word(),
            command: word(),
            cwd: word(),
            tty: word(),
            start_ms: 1,
            duration_ms: 1,
            exit: 0,
            session: some(),
            env: vec![word()],
            size: Some((80, 24)),
        },
    ];
    assert!(bodies.iter().all(known));
    bodies
}

fn keys(value: &Value) -> BTreeSet<String> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, _)| name.clone()).collect()
}

/// The fields in the tables of docs/journal.md, by the heading that is above them.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = include_str!("../../../docs/journal.md");
    let mut tables = BTreeMap::<String, BTreeSet<String>>::new();
    let mut heading = String::new();
    for line in page.lines() {
        if let Some(title) = line.strip_prefix('#') {
            heading = title.trim_start_matches('#').trim().replace('`', "");
        } else if let Some((name, _)) = line.strip_prefix("| `").and_then(|l| l.split_once('`')) {
            let fields = tables.entry(heading.clone()).or_default();
            fields.insert(name.to_owned());
        }
    }
    tables
}

#[test]
fn the_documentation_lists_exactly_the_types_and_fields_that_are_written() {
    let ids = RecordIds {
        user: some(),
        session: some(),
        shell: some(),
        request: some(),
        command: some(),
        prompt: some(),
        turn: some(),
        agent: some(),
        parent_turn: some(),
    };
    let documented = documented();
    let mut types = BTreeSet::new();
    let common = &documented["Fields of every record"];
    for body in every_body() {
        let record = Record::new(uuid::Uuid::nil(), 1, ids.clone(), body.clone());
        let written = serde_json::to_value(&record).unwrap();
        assert_eq!(
            serde_json::from_value::<Record>(written.clone()).unwrap(),
            record
        );
        assert_eq!(keys(&written["ids"]), documented["ids"]);
        if let Some(action) = written.get("action") {
            assert_eq!(keys(action), documented["action"]);
        }
        let kind = written["type"].as_str().unwrap().to_owned();
        let own: BTreeSet<String> = keys(&written).difference(common).cloned().collect();
        assert_eq!(documented.get(&kind), Some(&own), "{kind}");
        types.insert(kind);
    }
    let other = [
        "Files",
        "Fields of every record",
        "ids",
        "action",
        "Version 1",
    ];
    let titles: BTreeSet<String> = documented.into_keys().collect();
    let titles: BTreeSet<String> = titles
        .into_iter()
        .filter(|t| !other.contains(&t.as_str()))
        .collect();
    assert_eq!(titles, types);
}

/// Reads a record whose field has this value, and returns the value it is written with.
fn read_and_written(kind: &str, field: &str, word: &str) -> Value {
    let body = every_body().into_iter().find(|body| {
        let body = serde_json::to_value(body).unwrap();
        body["type"] == kind
    });
    let mut record = serde_json::to_value(Record::new(
        uuid::Uuid::nil(),
        1,
        RecordIds::default(),
        body.unwrap(),
    ))
    .unwrap();
    *record.pointer_mut(field).unwrap() = word.into();
    let read: Record = serde_json::from_value(record).unwrap();
    let written = serde_json::to_value(read).unwrap();
    written.pointer(field).unwrap().clone()
}

#[test]
fn every_value_that_was_ever_written_is_read() {
    let cases = [
        (
            "assistant",
            "/finish",
            "stop length content_filter interrupted error cut_off",
        ),
        (
            "approval",
            "/decision",
            "once tool reads server always rule no stop no_terminal timed_out cancelled denied",
        ),
        (
            "tool",
            "/status",
            "success tool_error call_failed denied blocked invalid_call interrupted",
        ),
        ("tool", "/decided_by", "person rule"),
        ("tool", "/action/operation", "read write destructive"),
        (
            "tool",
            "/action/intent/operation_type",
            "read write destructive",
        ),
        (
            "tool",
            "/action/intent/data_sensitivity",
            "public internal private unknown",
        ),
        ("policy", "/change", "granted lapsed revoked always changed"),
        ("server", "/event", "connected failed login disconnected"),
        ("command_approval", "/choice", "run insert no quit denied"),
    ];
    for (kind, field, words) in cases {
        for word in words.split(' ') {
            assert_eq!(read_and_written(kind, field, word), word, "{kind}{field}");
        }
        // Of a later version, or redacted by an older one. The record is still read.
        read_and_written(kind, field, "[REDACTED:model-header]");
    }
    for (old, new) in [
        ("error", "tool_error"),
        ("failed", "call_failed"),
        ("skipped", "invalid_call"),
    ] {
        assert_eq!(read_and_written("tool", "/status", old), new);
    }
}
