//! Version 1 of the journal, which the first releases wrote, stays readable. The fixtures were written by such a release.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use aish::history::record::{Record, RecordBody, VERSION, upgrade};
use serde_json::{Value, json};

use super::text;
use crate::fakes::provider::{Provider, Script};
use crate::support::helper::{Helper, records};

/// A session with a tool call, a proposed command that ran, and its output.
const SESSION: &str = "01a202df-0e40-7077-9523-919ecde81668";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/journal-v1")
}

/// Returns the lines of each fixture by file name.
fn lines() -> BTreeMap<String, Vec<String>> {
    let files = std::fs::read_dir(fixtures()).expect("the fixtures");
    let read = |path: PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        let text = std::fs::read_to_string(&path).expect("a file");
        (name.into_owned(), text.lines().map(str::to_owned).collect())
    };
    files.map(|e| read(e.expect("an entry").path())).collect()
}

/// Creates a home with the journal of version 1, and a model that answers every prompt with `answer`.
fn old_home(answer: &'static str) -> Helper {
    let helper = Helper::with(Provider::answering(move |_| Script::tokens([answer])));
    helper.config("[history]\nmax_days = 36500\n");
    let journal = helper.path("data/journal");
    std::fs::create_dir_all(&journal).expect("the journal");
    for name in lines().keys() {
        std::fs::copy(fixtures().join(name), journal.join(name)).expect("a copy");
    }
    helper
}

#[test]
fn every_version_1_record_is_read_and_written_with_the_names_of_version_2() {
    let mut types = BTreeMap::<String, usize>::new();
    for line in lines().values().flatten() {
        let old: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(old["v"], 1);
        let mut record: Record = serde_json::from_str(line).expect("a record");
        assert_ne!(record.body, RecordBody::Unknown, "{line}");
        assert_eq!(record.timestamp_ms, old["at_ms"].as_u64().expect("a time"));
        record.v = VERSION;
        let mut new = old.clone();
        upgrade(&mut new);
        // `serde` aliases and `upgrade` agree, and no field is lost.
        assert_eq!(serde_json::to_value(&record).expect("JSON"), new);
        let count = |v: &Value| v.as_object().expect("an object").len();
        assert_eq!(count(&new), count(&old));
        for name in [
            "at_ms", "links", "content", "why", "by", "act", "ms", "digest", "what",
        ] {
            assert!(new.get(name).is_none(), "{name} in {new}");
        }
        *types.entry(text(&new, "type").to_owned()).or_default() += 1;
        let again = new.clone();
        upgrade(&mut new);
        assert_eq!(new, again);
    }
    let types: Vec<&str> = types.keys().map(String::as_str).collect();
    let all = [
        "approval",
        "assistant",
        "command_approval",
        "command_result",
        "model",
        "policy",
        "server",
        "session",
        "shell_command",
        "tool",
        "user",
    ];
    assert_eq!(types, all);
}

#[test]
fn sessions_history_and_activity_show_a_version_1_journal() {
    let helper = old_home("ok");
    let old = lines();
    let sessions = helper.call(["session", "list", "--json"]).run().json();
    assert_eq!(sessions.as_array().expect("a list").len(), old.len() - 2);
    let listed = sessions.as_array().expect("a list").iter();
    let session = listed.clone().find(|s| s["id"] == SESSION);
    let session = session.expect("the session");
    assert_eq!(
        (&session["prompts"], &session["title"]),
        (&json!(1), &json!("write it"))
    );

    let shown = helper.call(["session", "show", SESSION]).run().ok();
    for part in [
        "> write it",
        "[allowed once: w fs.write {\"to\":\"x\"}]",
        "┌ w fs.write · success · 1 ms · 10 bytes",
        "Now this.",
        "[run] $ print made-$((6*7))",
        "made-42",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = helper
        .call(["session", "show", SESSION, "--json"])
        .run()
        .ok();
    let parse = |line| serde_json::from_str::<Value>(line).expect("JSON");
    let mut decision = shown.lines().map(parse);
    let decision = decision.find(|r| r["type"] == "command_approval");
    assert_eq!(decision.expect("a decision")["choice"], "run");

    // The daemon renames the audit log when it opens it, and keeps its content.
    helper.ask("new");
    helper.call(["stop"]).run().ok();
    let journal = helper.path("data/journal");
    assert!(!journal.join("acts.jsonl").exists());
    let audit = std::fs::read_to_string(journal.join("audit.jsonl")).expect("the audit log");
    assert!(audit.starts_with(&(old["acts.jsonl"].join("\n") + "\n")));

    let list = ["activity", "list", "--json", "--limit", "1000"];
    let listed = helper.call(list).run().json();
    let listed = listed.as_array().expect("a list");
    for line in old.values().flatten() {
        let record: Value = serde_json::from_str(line).expect("JSON");
        let found = listed.iter().find(|e| e["id"] == record["id"]);
        let found = found.unwrap_or_else(|| panic!("{line} is not listed"));
        assert_ne!(found["type"], "other", "{line}");
    }
    let listed_count = |status: &str, kind: &str| {
        let matches = |e: &&Value| e["status"] == status && e["type"] == kind;
        listed.iter().filter(matches).count()
    };
    let fixture_count = |statuses: &[&str]| {
        let matches = |line: &&String| {
            statuses
                .iter()
                .any(|s| line.contains(&format!("\"status\":\"{s}\"")))
        };
        old.values().flatten().filter(matches).count()
    };
    let failed = fixture_count(&["error", "failed"]);
    assert_eq!((listed_count("error", "tool"), failed >= 2), (failed, true));
    let interrupted = fixture_count(&["interrupted"]);
    assert_eq!((listed_count("interrupted", "tool"), interrupted), (1, 1));
    let blocked = fixture_count(&["blocked", "skipped"]);
    assert_eq!(
        (listed_count("blocked", "tool"), blocked >= 4),
        (blocked, true)
    );
    assert!(listed_count("denied", "command_approval") >= 8);
    let call = listed
        .iter()
        .find(|e| e["session"] == SESSION && e["type"] == "tool");
    let call = call.expect("the call");
    assert_eq!(
        (
            &call["decided_by"],
            &call["operation"],
            &call["duration_ms"]
        ),
        (&json!("person"), &json!("write"), &json!(1))
    );
    let shown = helper
        .call(["activity", "show", text(call, "id"), "--json"])
        .run()
        .json();
    let record = &shown["act"]["record"];
    assert_eq!(text(record, "reason"), "once");
    assert_eq!(text(record, "result_sha256").len(), 64);
    let types: Vec<&str> = shown["chain"]
        .as_array()
        .expect("a chain")
        .iter()
        .map(|e| text(e, "type"))
        .filter(|t| *t != "session")
        .collect();
    assert_eq!(
        types,
        [
            "shell_command",
            "prompt",
            "answer",
            "approval",
            "tool",
            "answer",
            "command_approval",
            "command_result"
        ]
    );
}

#[test]
fn a_version_1_session_continues_with_its_whole_context() {
    let helper = old_home("and on");
    let before = std::fs::read(fixtures().join(format!("{SESSION}.jsonl"))).expect("the session");
    let ask = ["ask", "--shell", "s1", "--attach", SESSION, "--", "go on"];
    assert_eq!(helper.call(ask).run().ok(), "and on\n");
    let request = helper.provider.requests().pop().expect("a request");
    let messages = request.json["messages"].as_array().expect("messages");
    let roles: Vec<&str> = messages.iter().map(|m| text(m, "role")).collect();
    assert_eq!(
        roles[roles.len() - 5..],
        ["user", "assistant", "tool", "assistant", "user"]
    );
    let [prompt, call, result, answer, next] = &messages[messages.len() - 5..] else {
        panic!("five messages")
    };
    assert_eq!(text(prompt, "content"), "write it");
    assert_eq!(
        call["tool_calls"][0]["function"]["arguments"],
        "{\"to\":\"x\"}"
    );
    assert_eq!(text(result, "content"), "{\"to\":\"x\"}");
    assert!(text(answer, "content").contains("CMD: print made-$((6*7))"));
    // The command that ran is sent with the next prompt.
    assert!(text(next, "content").contains("made-42"), "{next}");
    let file = helper.path("data/journal").join(format!("{SESSION}.jsonl"));
    assert!(
        std::fs::read(&file)
            .expect("the session")
            .starts_with(&before)
    );
    let new = records(&file).pop().expect("a record");
    assert_eq!((&new["v"], text(&new, "text")), (&json!(2), "and on"));
}
