use serde_json::{Value, json};

use super::*;

fn answer() -> ServerAnswer {
    ServerAnswer::new("https://h", "s1", "p1")
}

/// Reads events, and returns the items they give.
fn read_all(answer: &mut ServerAnswer, events: &[(&str, Value)]) -> Vec<StreamItem> {
    let mut items = Vec::new();
    for (kind, payload) in events {
        let event = json!({ "type": kind, "session_id": "s", "seq": 1, "payload": payload });
        let read = answer.event(event.to_string().as_bytes(), &mut items);
        read.unwrap_or_else(|e| panic!("{kind}: {e:?}"));
    }
    items
}

fn start(id: &str, role: &str) -> (&'static str, Value) {
    ("message.start", json!({ "message_id": id, "role": role }))
}

fn delta(id: &str, text: &str) -> (&'static str, Value) {
    ("message.delta", json!({ "message_id": id, "text": text }))
}

fn end(id: &str, more: &Value) -> (&'static str, Value) {
    let mut end = json!({ "message_id": id, "role": "assistant", "record_id": "r" });
    for (name, value) in more.as_object().unwrap() {
        end[name] = value.clone();
    }
    ("message.end", end)
}

fn status(word: &str, id: Option<&str>) -> (&'static str, Value) {
    let status = json!({ "status": word, "message_id": id, "questions": [] });
    ("agent.status", status)
}

fn text_of(items: &[StreamItem]) -> String {
    let text = |item: &StreamItem| match item {
        StreamItem::Text(text) => Some(text.clone()),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

fn notices(items: &[StreamItem]) -> Vec<&str> {
    fn notice(item: &StreamItem) -> Option<&str> {
        match item {
            StreamItem::Notice(text) => Some(text),
            _ => None,
        }
    }
    items.iter().filter_map(notice).collect()
}

fn finished(finish: FinishReason) -> AnswerEnd {
    AnswerEnd::Finished(finish)
}

#[test]
fn the_rounds_of_a_prompt_are_one_answer() {
    let mut answer = answer();
    let items = read_all(
        &mut answer,
        &[
            status("running", Some("p0")),
            start("r0", "assistant"),
            delta("r0", "of another prompt"),
            start("p1", "user"),
            delta("p1", "the prompt itself"),
            end("p1", &json!({})),
            status("running", Some("p1")),
            start("r1", "assistant"),
            delta("r1", "Let me look."),
            delta("rX", "of no round"),
            (
                "tool.start",
                json!({ "call_id": "c", "message_id": "r1", "name": "fs.read", "arguments": "{\"a\":1}" }),
            ),
            end(
                "r1",
                &json!({ "finish": "stop", "length": 12, "model": "m1", "prompt_tokens": 5, "completion_tokens": 2, "cost": 0.5 }),
            ),
            (
                "x.tool.running",
                json!({ "call_id": "c", "name": "fs.read" }),
            ),
            ("tool.delta", json!({ "call_id": "c", "text": "output" })),
            (
                "tool.end",
                json!({ "call_id": "c", "name": "fs.read", "status": "success", "text": "" }),
            ),
            start("r2", "assistant"),
            delta("r2", "It is so.\n"),
            end(
                "r2",
                &json!({ "finish": "length", "length": 10, "model": "m2", "prompt_tokens": 9, "completion_tokens": 3, "cost": 0.25 }),
            ),
            ("x.of.later.versions", json!([1])),
        ],
    );
    assert_eq!(text_of(&items), "Let me look.\nIt is so.\n");
    assert_eq!(notices(&items), ["https://h: runs fs.read {\"a\":1}"]);
    assert_eq!(answer.end(), None);
    read_all(&mut answer, &[status("idle", None)]);
    assert_eq!(answer.end(), Some(&finished(FinishReason::Length)));
    let usage = TokenUsage {
        prompt_tokens: 14,
        completion_tokens: 5,
        cost_picodollars: Some(750_000_000_000),
        ..TokenUsage::default()
    };
    assert_eq!(
        answer.last_items(),
        [StreamItem::Model("m2".into()), StreamItem::Usage(usage)]
    );
}

#[test]
fn an_answer_ends_with_its_prompt() {
    let begun = [
        start("p1", "user"),
        start("r1", "assistant"),
        delta("r1", "All."),
        end("r1", &json!({ "finish": "stop", "length": 4 })),
    ];
    for last in [
        status("idle", None),
        status("running", Some("p2")),
        start("p2", "user"),
    ] {
        let mut answer = answer();
        read_all(&mut answer, &begun);
        let late = read_all(&mut answer, std::slice::from_ref(&last));
        assert_eq!(
            answer.end(),
            Some(&finished(FinishReason::Stop)),
            "{last:?}"
        );
        assert!(late.is_empty());
    }
    // A prompt that waits does not end with the one before it.
    let mut answer = answer();
    read_all(&mut answer, &[status("running", Some("p0"))]);
    assert_eq!(answer.activity(), ServerActivity::AnswersAnother);
    read_all(&mut answer, &[status("idle", None)]);
    assert_eq!(
        (answer.activity(), answer.end()),
        (ServerActivity::Idle, None)
    );
    read_all(&mut answer, &[status("running", Some("p1"))]);
    assert_eq!(answer.activity(), ServerActivity::Answers);
}

#[test]
fn a_waiting_prompt_ends_when_the_server_lists_it_no_more() {
    let listed = |message: &str, waiting: &[&str]| {
        let payload = json!({ "status": "running", "questions": [], "message_id": message, "waiting": waiting });
        ("agent.status", payload)
    };
    for (last, has_ended) in [
        (listed("p0", &["p1", "p2"]), false),
        (listed("p1", &[]), false),
        (listed("p0", &["p2"]), true),
        (status("idle", None), true),
    ] {
        let mut answer = answer();
        read_all(&mut answer, &[listed("p0", &["p1"]), last.clone()]);
        assert_eq!(answer.end().is_some(), has_ended, "{last:?}");
    }
}

#[test]
fn failures_are_told() {
    let failed = |events: &[(&str, Value)]| {
        let mut answer = answer();
        read_all(&mut answer, events);
        match answer.end() {
            Some(AnswerEnd::Failed(message, hint)) => (message.clone(), hint.clone()),
            other => panic!("{other:?}"),
        }
    };
    // Before the prompt was recorded.
    let failure = json!({ "message_id": "p1", "message": "no model", "hint": "add one" });
    let idle = json!({ "status": "idle", "questions": [], "failure": failure });
    let (message, hint) = failed(&[("agent.status", idle.clone())]);
    assert_eq!(
        (message.as_str(), hint.as_deref()),
        ("https://h: no model", Some("add one"))
    );
    // Of another prompt.
    let mut answer = answer();
    let mut other = idle;
    other["failure"]["message_id"] = json!("p0");
    read_all(&mut answer, &[("agent.status", other)]);
    assert_eq!(answer.end(), None);
    let text = [
        start("p1", "user"),
        start("r1", "assistant"),
        delta("r1", "A"),
    ];
    let cut = end("r1", &json!({ "finish": "cut_off", "length": 1 }));
    let (message, _) = failed(&[&text[..], &[cut, status("idle", None)]].concat());
    assert!(message.contains("cut off"), "{message}");
    let discarded = ("message.end", json!({ "finish": "discarded" }));
    let (message, _) = failed(&[&text[..], &[discarded]].concat());
    assert!(message.contains("discarded"), "{message}");
    let (message, _) = failed(&[start("p1", "user"), status("idle", None)]);
    assert!(message.contains("no answer"), "{message}");
    failed(&[("x.session.deleted", json!({}))]);
}

#[test]
fn questions_and_refused_calls_are_notices() {
    let call = json!({ "call_id": "c", "message_id": "r", "name": "shell", "arguments": "{\"command\":\"rm x\"}" });
    let question = json!({
        "question_id": "q", "kind": "approval", "digest": "d", "answers": ["yes", "no"],
        "view": { "tool": "shell", "facts": [["Arguments", "{\"command\":\"rm x\"}"], ["Server", "/bin/x"]] },
        "shown": { "arguments": "{}" },
    });
    let refused = json!({ "call_id": "c", "name": "shell", "status": "denied", "reason": "not\u{1b}[2J now", "text": "" });
    let mut answer = answer();
    let items = read_all(
        &mut answer,
        &[
            start("p1", "user"),
            ("tool.start", call),
            ("x.question.open", question),
            ("x.question.close", json!({ "question_id": "q" })),
            ("tool.end", refused),
        ],
    );
    let notices = notices(&items);
    assert_eq!(notices.len(), 3, "{notices:?}");
    assert!(notices[0].contains("shell may run there") && notices[0].contains("rm x"));
    assert!(notices[1].contains("paired browser") && notices[1].contains("llm --attach s1"));
    assert!(
        notices[2].contains("denied (not") && !notices[2].contains('\u{1b}'),
        "{notices:?}"
    );
}

#[test]
fn what_a_server_says_is_made_visible_once() {
    let text = "a\u{1b}[2J\u{202e}‹b›\n";
    let call = json!({ "call_id": "c", "message_id": "r", "name": text, "arguments": text });
    let question = json!({
        "question_id": "q", "kind": "approval", "digest": "d", "answers": ["no"],
        "view": { "tool": text, "facts": [["Arguments", text]] }, "shown": {},
    });
    let refused =
        json!({ "call_id": "d", "name": text, "status": text, "reason": text, "text": "" });
    let mut answer = answer();
    let items = read_all(
        &mut answer,
        &[
            start("p1", "user"),
            ("tool.start", call),
            ("x.tool.running", json!({ "call_id": "c", "name": text })),
            ("x.question.open", question),
            ("tool.end", refused),
            ("x.notice", json!({ "text": text })),
        ],
    );
    let notices = notices(&items);
    assert!(notices.len() >= 4, "{notices:?}");
    for notice in notices {
        assert!(!notice.contains(char::is_control), "{notice:?}");
        // As a client shows it.
        let shown = crate::safety::text::one_line(notice, MAX_NOTICE);
        let marks = shown.matches("‹\\u{2039}›").count();
        assert_eq!(marks, notice.matches('‹').count(), "{shown}");
        assert!(!shown.contains("2039}›\\"), "{shown}");
    }
}

#[test]
fn events_of_another_form_are_refused() {
    for event in [
        "",
        "null",
        "[]",
        "{}",
        "{\"type\":1,\"payload\":{}}",
        "{\"type\":\"message.delta\"}",
        "{\"type\":\"message.delta\",\"payload\":[]}",
        "{\"type\":\"message.delta\",\"payload\":{\"message_id\":\"r\",\"text\":7}}",
        "{\"type\":\"message.delta\",\"payload\":{\"message_id\":null,\"text\":\"\"}}",
        "{\"type\":\"message.start\",\"payload\":{\"message_id\":\"r\"}}",
        "{\"type\":\"message.end\",\"payload\":{\"cost\":\"much\"}}",
        "{\"type\":\"message.end\",\"payload\":{\"prompt_tokens\":-1}}",
        "{\"type\":\"tool.end\",\"payload\":{\"call_id\":{}}}",
        "{\"type\":\"agent.status\",\"payload\":{\"status\":[]}}",
        "{\"type\":\"x.question.open\",\"payload\":{\"kind\":\"approval\",\"answers\":\"yes\"}}",
        "{\"type\":\"x.notice\",\"payload\":{\"text\":{\"a\":1}}}",
    ] {
        let mut items = Vec::new();
        let read = answer().event(event.as_bytes(), &mut items);
        assert!(read.is_err() && items.is_empty(), "{event}");
    }
    let deep = "[".repeat(100_000);
    let deep = format!("{{\"type\":\"message.delta\",\"payload\":{deep}");
    assert!(answer().event(deep.as_bytes(), &mut Vec::new()).is_err());
    let long = "x".repeat(MAX_EVENT + 1);
    assert!(answer().event(long.as_bytes(), &mut Vec::new()).is_err());
}

#[test]
fn a_flood_is_limited() {
    let mut answer = answer();
    read_all(&mut answer, &[start("p1", "user")]);
    let notice = ("x.notice", json!({ "text": "spam ".repeat(1000) }));
    let items = read_all(&mut answer, &vec![notice; 2000]);
    assert_eq!(items.len(), MAX_NOTICES);
    assert!(
        notices(&items)
            .iter()
            .all(|line| line.len() < MAX_NOTICE + 40)
    );
    for n in 0..1000 {
        let id = format!("c{n}");
        let call = json!({ "call_id": id, "message_id": "r", "name": "t", "arguments": "{}" });
        let running = json!({ "call_id": id, "name": "t" });
        read_all(
            &mut answer,
            &[("tool.start", call), ("x.tool.running", running)],
        );
    }
    assert!(answer.calls.len() <= MAX_CALLS && answer.told.len() <= MAX_CALLS);
    for cost in [-1.0, 1e300] {
        let mut answer = self::answer();
        read_all(
            &mut answer,
            &[
                start("p1", "user"),
                start("r", "assistant"),
                end(
                    "r",
                    &json!({ "finish": "stop", "prompt_tokens": u64::MAX, "cost": cost }),
                ),
            ],
        );
        let items = answer.last_items();
        let [StreamItem::Usage(usage)] = &items[..] else {
            panic!("{items:?}")
        };
        assert_eq!(usage.cost_picodollars, None);
    }
}
