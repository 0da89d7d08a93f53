use super::*;
use crate::history::journal::new_record;
use crate::history::record::RecordIds;

fn names() -> OwnNames {
    OwnNames::new("/home/anna", "anna", "lab")
}

fn record(json: serde_json::Value) -> Record {
    let body: RecordBody = serde_json::from_value(json).unwrap();
    new_record(RecordIds::default(), body)
}

fn records() -> Vec<Record> {
    vec![
        record(serde_json::json!({
            "type": "user", "prompt": "what is in /home/anna/x on lab, anna?", "rendered": "cwd: /home/anna, secret context",
            "shell": null, "cwd": "/home/anna", "images": [["image/png", "iVBORw0KGgo="]],
        })),
        record(serde_json::json!({
            "type": "assistant", "text": "Label `annabel` and ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX", "model": "local",
            "finish": "stop", "duration_ms": 5,
        })),
        record(serde_json::json!({
            "type": "tool", "call": "a", "name": "fs.read", "status": "success", "text": "root:x:0", "bytes": 8, "duration_ms": 1,
        })),
        record(serde_json::json!({ "type": "title", "title": "x" })),
    ]
}

#[test]
fn secrets_names_context_images_and_outputs_stay_out() {
    let redactor = Redactor::default();
    let snapshot = Snapshot::new(
        "of anna",
        &records(),
        ShareOptions::default(),
        SharedRecordings::default(),
        &names(),
        &redactor,
    );
    assert_eq!(snapshot.title, "of user");
    let texts: Vec<&str> = snapshot.messages.iter().map(|m| &*m.text).collect();
    assert_eq!(
        texts,
        [
            "what is in ~/x on host, user?",
            "Label `userbel` and [REDACTED:github-token]",
            "(the output is not shared)",
        ]
    );
    let expected = RemovedCounts {
        secrets: 1,
        own_names: 5,
        outputs: 1,
        images: 1,
        recordings: 0,
        other: 1,
    };
    assert_eq!(snapshot.removed, expected);
    assert_eq!(
        expected.words(),
        [
            "1 secret",
            "5 names of yours",
            "1 output",
            "1 image",
            "1 other record"
        ]
    );
}

#[test]
fn a_secret_that_is_broken_by_emphasis_is_removed() {
    let answer = record(serde_json::json!({
        "type": "assistant", "text": "ghp_**0aB1cD2eF3gH4iJ5**kL6mN7oP8qR9sT0uV1wX", "model": "m", "finish": "stop", "duration_ms": 1,
    }));
    let redactor = Redactor::default();
    let snapshot = Snapshot::new(
        "t",
        &[answer],
        ShareOptions::default(),
        SharedRecordings::default(),
        &names(),
        &redactor,
    );
    assert_eq!(snapshot.messages[0].text, "[REDACTED:github-token]");
}

#[test]
fn outputs_are_shown_only_where_asked_for_and_change_the_digest() {
    let redactor = Redactor::default();
    let with = |with_output| {
        Snapshot::new(
            "t",
            &records(),
            ShareOptions {
                with_output,
                ..ShareOptions::default()
            },
            SharedRecordings::default(),
            &names(),
            &redactor,
        )
    };
    assert_eq!(with(true).messages[2].text, "root:x:0");
    assert_ne!(with(true).digest(), with(false).digest());
    assert_eq!(with(true).digest(), with(true).digest());
    // A secret that was learned later is removed too.
    redactor.add_secret("password", "what is in");
    assert!(
        with(true).messages[0]
            .text
            .starts_with("[REDACTED:password]")
    );
}
