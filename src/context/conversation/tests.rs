use proptest::prelude::*;

use super::*;
use crate::chat::tokens::TokenScale;
use crate::context::{WindowLimit, fit};
use crate::history::record::{Call, RecordIds};

fn record(body: RecordBody) -> Record {
    Record::new(uuid::Uuid::nil(), 0, RecordIds::default(), body)
}

fn user(text: &str) -> Record {
    record(RecordBody::User {
        text: text.into(),
        content: text.into(),
        shell: None,
        cwd: "/".into(),
        images: Vec::new(),
        pack: None,
        output: None,
    })
}

/// Returns the value with this name.
fn named<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_json::from_value(name.into()).unwrap()
}

fn calling(text: &str, finish: &str, ids: &[&str]) -> Record {
    record(RecordBody::Assistant {
        text: text.into(),
        calls: ids
            .iter()
            .map(|id| Call {
                id: (*id).into(),
                name: "x.y".into(),
                arguments: "{}".into(),
                extra: Some(format!("{{\"of\":\"{id}\"}}")),
            })
            .collect(),
        omitted: 0,
        native: None,
        model: "m".into(),
        finish: named(finish),
        error: None,
        prompt_tokens: None,
        completion_tokens: None,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        provider: None,
        cost: None,
        cost_estimated: false,
        refused: false,
        rejected: false,
        ms: 1,
    })
}

fn assistant(text: &str, finish: &str) -> Record {
    calling(text, finish, &[])
}

fn tool(call: &str, status: &str, text: &str) -> Record {
    record(RecordBody::Tool {
        call: call.into(),
        name: "x.y".into(),
        status: named(status),
        text: text.into(),
        images: Vec::new(),
        error: None,
        bytes: 0,
        ms: 1,
        act: None,
        arguments: None,
        by: None,
        why: None,
        digest: None,
        files: Vec::new(),
    })
}

fn decided(decision: &str) -> Record {
    record(RecordBody::Approval {
        call: "1".into(),
        name: "x.y".into(),
        decision: named(decision),
        why: None,
        arguments: "{}".into(),
        terminal: None,
        browser: None,
        digest: None,
        act: None,
    })
}

/// Short form of the conversation: `u:…`, `a:…(calls)`, `t:id=…`.
fn shape(records: &[Record]) -> Vec<String> {
    let messages = conversation(records).messages;
    sound(&messages);
    messages
        .iter()
        .map(|m| match m {
            ChatMessage::System(t) => format!("s:{t}"),
            ChatMessage::User(t, _) => format!("u:{t}"),
            ChatMessage::Assistant(AssistantMessage { text: t, calls, .. }) => {
                let ids: Vec<&str> = calls.iter().map(|c| c.id.as_str()).collect();
                format!("a:{t}({})", ids.join(","))
            }
            ChatMessage::Tool(r) => format!("t:{}={}", r.id, r.text),
        })
        .collect()
}

/// Invariants of every conversation.
fn sound(messages: &[ChatMessage]) {
    let mut ids = HashSet::new();
    let mut open: Vec<&ToolCall> = Vec::new();
    let mut before: Option<&ChatMessage> = None;
    for message in messages {
        match message {
            ChatMessage::System(_) => panic!("the instructions are no part of it"),
            ChatMessage::Tool(result) => {
                assert!(!open.is_empty(), "a result without a call: {messages:?}");
                let call = open.remove(0);
                assert_eq!((&call.id, &call.name), (&result.id, &result.name));
                assert!(!result.text.is_empty());
            }
            ChatMessage::User(..) => {
                assert!(open.is_empty(), "a call without a result: {messages:?}");
                let fine = !matches!(before, Some(ChatMessage::User(..)));
                assert!(fine, "two prompts in a row: {messages:?}");
            }
            ChatMessage::Assistant(AssistantMessage { text, calls, .. }) => {
                assert!(open.is_empty(), "a call without a result: {messages:?}");
                let fine = matches!(before, Some(ChatMessage::User(..) | ChatMessage::Tool(_)));
                assert!(fine, "an answer to nothing: {messages:?}");
                assert!(!text.is_empty() || !calls.is_empty());
                for call in calls {
                    assert!(!call.id.is_empty() && ids.insert(&call.id), "{messages:?}");
                }
                open.extend(calls);
            }
        }
        before = Some(message);
    }
    assert!(open.is_empty(), "a call without a result: {messages:?}");
}

fn refused() -> Record {
    let mut record = assistant("", "error");
    if let RecordBody::Assistant { refused, .. } = &mut record.body {
        *refused = true;
    }
    record
}

#[test]
fn a_refused_prompt_is_left_out() {
    // A fallback model may have failed before, and a killed daemon leaves a prompt without any record after it.
    let outage = assistant("", "error");
    let records = [
        vec![user("a"), refused()],
        vec![user("b"), calling("", "stop", &["1"])],
        vec![user("c"), outage.clone(), refused()],
        vec![user("d"), outage],
        vec![user("e")],
        vec![user("f"), refused()],
    ];
    let records = records.concat();
    let expected = [
        "u:b",
        "a:(1)",
        "t:1=[no result: the call failed]",
        "u:d",
        "a:[no answer]()",
        "u:e",
    ];
    assert_eq!(shape(&records), expected);
    assert_eq!(conversation(&records).prompts.len(), 3);
}

/// A request that was refused for something that the provider did not name.
fn rejected() -> Record {
    let mut record = assistant("", "error");
    if let RecordBody::Assistant { rejected, .. } = &mut record.body {
        *rejected = true;
    }
    record
}

#[test]
fn a_suspect_is_left_out_after_a_second_refusal_and_the_last_prompt_stays() {
    let (answer, outage) = (assistant("A", "stop"), assistant("", "error"));
    let interrupted = assistant("", "interrupted");
    let [a, b, c, d] = ["a", "b", "c", "d"].map(user);
    let (a, b, c, d) = (|| a.clone(), || b.clone(), || c.clone(), || d.clone());
    let (clear, unclear) = (refused, rejected);
    for (records, expected) in [
        (vec![a(), unclear()], vec![]),
        (vec![a(), unclear(), b(), answer.clone()], vec![]),
        (vec![a(), unclear(), b(), unclear()], vec![0]),
        (vec![a(), unclear(), b(), clear()], vec![0]),
        (vec![a(), clear(), b(), unclear()], vec![0]),
        (vec![a(), unclear(), b(), outage.clone()], vec![]),
        // The request of a clearly refused prompt had no suspect in it.
        (
            vec![a(), clear(), b(), clear(), c(), clear()],
            vec![0, 2, 4],
        ),
        (vec![a(), clear(), b(), unclear(), c(), clear()], vec![0, 2]),
        (
            vec![[a(), clear(), b(), answer.clone()]; 2].concat(),
            vec![0, 4],
        ),
        // A fallback model refuses it too, or answers it.
        (vec![a(), clear(), clear()], vec![0]),
        (vec![a(), unclear(), outage.clone(), unclear()], vec![]),
        (vec![a(), clear(), answer.clone()], vec![]),
        // The suspect is in the requests in between, which fail for another reason.
        (
            vec![a(), unclear(), b(), outage.clone(), c(), unclear()],
            vec![0],
        ),
        (
            vec![a(), unclear(), b(), interrupted.clone(), c(), unclear()],
            vec![0],
        ),
        (
            vec![a(), unclear(), compaction(None), clear(), b(), unclear()],
            vec![0],
        ),
        (
            vec![
                a(),
                unclear(),
                compaction(None),
                answer.clone(),
                b(),
                unclear(),
            ],
            vec![],
        ),
        // What was innocent stays, or is left out only as the next suspect.
        (
            vec![
                a(),
                unclear(),
                b(),
                outage.clone(),
                c(),
                unclear(),
                d(),
                answer.clone(),
            ],
            vec![0],
        ),
        (
            vec![
                a(),
                unclear(),
                b(),
                outage.clone(),
                c(),
                unclear(),
                d(),
                unclear(),
            ],
            vec![0, 2, 4],
        ),
        // The refusal of the first one never arrived.
        (vec![a(), b(), unclear()], vec![0]),
        (vec![a(), interrupted.clone(), b(), unclear()], vec![0]),
        (vec![a(), outage.clone(), b(), unclear()], vec![]),
        (
            vec![a(), outage, b(), unclear(), c(), unclear()],
            vec![0, 2],
        ),
        (vec![a(), b(), clear()], vec![1]),
        (vec![a(), b(), clear(), c(), clear()], vec![0, 1]),
        // An interrupted answer shows that the request was accepted.
        (
            vec![a(), assistant("A", "interrupted"), b(), unclear()],
            vec![],
        ),
    ] {
        let places: Vec<usize> = left_out(&records).into_iter().collect();
        assert_eq!(places, expected, "{:?}", shape(&records));
    }
}

#[test]
fn a_summary_keeps_what_follows_a_prompt_that_is_left_out_later() {
    let (mut a, mut b) = (user("a"), user("b"));
    a.id = "kept".into();
    b.id = "next".into();
    let records = [
        user("old"),
        assistant("A", "stop"),
        a.clone(),
        rejected(),
        b,
        assistant("", "error"),
        compaction(Some(&a)),
        assistant("sum", "stop"),
        user("c"),
        rejected(),
    ];
    assert_eq!(left_out(&records), BTreeSet::from([2]));
    let told = shape(&records);
    assert!(told[0].contains("sum"), "{told:?}");
    assert_eq!(told[2..], ["u:b", "a:[no answer]()", "u:c"]);
}

#[test]
fn a_refused_summary_leaves_no_prompt_out() {
    let compaction = record(RecordBody::Compaction {
        kept_from: None,
        prompts: 1,
    });
    for answer in [Some(assistant("A", "stop")), None] {
        let mut records = vec![user("a")];
        records.extend(answer);
        records.extend([compaction.clone(), refused()]);
        assert_eq!(left_out(&records), BTreeSet::new());
        assert_eq!(shape(&records)[0], "u:a");
    }
}

#[test]
fn roles_alternate_after_any_history() {
    let records = [
        user("a"),
        user("b"),
        assistant("", "interrupted"),
        user("c"),
        assistant("C", "stop"),
        user("d"),
    ];
    assert_eq!(
        shape(&records),
        [
            "u:a",
            "a:[no answer]()",
            "u:b",
            "a:[interrupted before an answer]()",
            "u:c",
            "a:C()",
            "u:d",
        ]
    );
}

#[test]
fn several_rounds_of_calls_stay_in_order() {
    let records = [
        user("a"),
        calling("", "stop", &["1", "2"]),
        decided("once"),
        tool("2", "success", "two"),
        tool("1", "denied", ""),
        calling("more", "stop", &["3"]),
        tool("3", "success", ""),
        assistant("done", "stop"),
        user("b"),
        calling("", "stop", &["4"]),
        tool("4", "tool_error", "no"),
        user("c"),
    ];
    assert_eq!(
        shape(&records),
        [
            "u:a",
            "a:(1,2)",
            "t:1=[no result: the user denied the call]",
            "t:2=two",
            "a:more(3)",
            "t:3=[no output]",
            "a:done()",
            "u:b",
            "a:(4)",
            "t:4=no",
            "u:c",
        ]
    );
}

#[test]
fn missing_results_get_a_note_and_surplus_records_are_ignored() {
    let records = [
        tool("0", "success", "of nothing"),
        assistant("to nothing", "stop"),
        user("a"),
        calling("", "stop", &["1", "2", "3"]),
        tool("1", "success", "one"),
        tool("1", "success", "one again"),
        tool("9", "success", "of no call"),
        tool("3", "call_failed", ""),
        user("b"),
        tool("2", "success", "late"),
        calling("", "stop", &["4"]),
    ];
    assert_eq!(
        shape(&records),
        [
            "u:a",
            "a:(1,2,3)",
            "t:1=one",
            "t:2=[no result: the call failed]",
            "t:3=[no result: the call failed]",
            "u:b",
            "a:(4)",
            "t:4=[no result: the call failed]",
        ]
    );
}

#[test]
fn a_turn_that_was_cut_off_during_its_calls_is_sent_as_a_stopped_one() {
    let stopped = [
        user("a"),
        calling("", "stop", &["1"]),
        tool("1", "interrupted", ""),
        user("b"),
    ];
    let mut cut_off = stopped.to_vec();
    cut_off.insert(3, assistant("", "cut_off"));
    assert_eq!(shape(&cut_off), shape(&stopped));
}

#[test]
fn interrupted_calls_are_marked_as_interrupted() {
    for cut in [
        tool("1", "interrupted", ""),
        tool("1", "interrupted", INTERRUPTED),
        decided("stop"),
    ] {
        let records = [
            user("a"),
            calling("", "stop", &["1", "2"]),
            cut,
            user("b"),
            calling("", "stop", &["3"]),
            user("c"),
        ];
        let shape = shape(&records);
        assert_eq!(shape[2], format!("t:1={INTERRUPTED}"));
        assert_eq!(shape[3], format!("t:2={INTERRUPTED}"));
        assert_eq!(shape[6], format!("t:3={NO_RESULT}"), "and no other");
    }
    let records = [user("a"), calling("", "interrupted", &["1"])];
    assert_eq!(shape(&records)[2], format!("t:1={INTERRUPTED}"));
}

#[test]
fn reused_call_ids_become_unique() {
    let records = [
        user("a"),
        calling("", "stop", &["call_0"]),
        tool("call_0", "success", "first"),
        calling("", "stop", &["call_0", "call_0", ""]),
        tool("call_0", "success", "second"),
        tool("call_0", "success", "third"),
        tool("", "success", "fourth"),
    ];
    assert_eq!(
        shape(&records)[1..],
        [
            "a:(call_0)",
            "t:call_0=first",
            "a:(call_2,call_3,call_4)",
            "t:call_2=second",
            "t:call_3=third",
            "t:call_4=fourth",
        ]
    );
}

#[test]
fn images_are_shared_with_the_record() {
    let data: Arc<str> = "aGk=".into();
    let mut picture = tool("1", "success", "[image/png]");
    if let RecordBody::Tool { images, .. } = &mut picture.body {
        images.push(("image/png".into(), Arc::clone(&data)));
    }
    let records = [user("a"), calling("", "stop", &["1"]), picture];
    let messages = conversation(&records).messages;
    let limit = WindowLimit {
        model: "m",
        window: Some(1000),
        reserve: 0,
        scale: TokenScale::unknown("m", false),
        dropped: 0,
        pinned: 0,
    };
    let messages = fit("s".into(), messages, &[], limit).messages;
    let Some(ChatMessage::Tool(result)) = messages.last() else {
        panic!("{messages:?}")
    };
    assert_eq!(result.images[0].mime, "image/png");
    assert!(Arc::ptr_eq(&result.images[0].data, &data));
}

#[test]
fn a_paused_answer_is_continued_by_the_next_one() {
    let mut records = vec![user("a"), calling("one ", "paused", &[])];
    assert_eq!(shape(&records), ["u:a", "a:one ()"]);
    records.push(calling("two", "stop", &["1"]));
    records.extend([tool("1", "success", "r"), calling("b", "stop", &[])]);
    assert_eq!(shape(&records), ["u:a", "a:one two(1)", "t:1=r", "a:b()"]);
    // Only a paused answer is continued.
    records.push(calling("c", "stop", &[]));
    assert_eq!(shape(&records).len(), 4);
    let failed = [
        user("a"),
        calling("one", "paused", &[]),
        calling("", "error", &[]),
    ];
    assert_eq!(shape(&failed), ["u:a", "a:one()"]);
}

fn compaction(kept_from: Option<&Record>) -> Record {
    record(RecordBody::Compaction {
        kept_from: kept_from.map(|prompt| prompt.id.clone()),
        prompts: 1,
    })
}

#[test]
fn a_summary_replaces_what_it_summarizes() {
    let (old, mut kept) = (user("old"), user("kept"));
    kept.id = "kept".into();
    let mut records = vec![
        old,
        calling("a", "stop", &["1"]),
        tool("1", "success", "r"),
        calling("b", "stop", &[]),
    ];
    records.extend([kept.clone(), calling("c", "stop", &[])]);
    let whole = shape(&records);
    records.push(compaction(Some(&kept)));
    assert_eq!(shape(&records), whole, "no summary yet");
    records.push(calling("the gist", "stop", &[]));
    records.extend([user("next"), calling("d", "stop", &[])]);
    let talk = conversation(&records);
    assert_eq!(talk.pinned, 2);
    let after = shape(&records);
    assert_eq!(after.len(), 6, "{after:?}");
    assert!(after[0].starts_with("u:") && after[0].contains("the gist"));
    assert_eq!(after[2..], ["u:kept", "a:c()", "u:next", "a:d()"]);
    // A second summary covers the first one.
    records.extend([compaction(None), calling("all", "stop", &[]), user("more")]);
    let after = shape(&records);
    assert!(after[0].contains("all") && !after[0].contains("gist"));
    assert_eq!(after[2..], ["u:more"]);
}

#[test]
fn a_failed_summary_changes_nothing() {
    for (text, finish) in [
        ("half", "interrupted"),
        ("half", "length"),
        (" ", "stop"),
        ("", "error"),
    ] {
        let mut records = vec![user("a"), calling("b", "stop", &[])];
        let whole = shape(&records);
        records.extend([compaction(None), calling(text, finish, &[])]);
        assert_eq!(shape(&records), whole);
        assert_eq!(conversation(&records).pinned, 0);
    }
    // The daemon was killed: the answer of the next prompt is not a summary.
    let records = [
        user("a"),
        compaction(None),
        user("b"),
        calling("c", "stop", &[]),
    ];
    assert_eq!(shape(&records), ["u:a", "a:[no answer]()", "u:b", "a:c()"]);
}

fn any_record() -> impl Strategy<Value = Record> {
    let id = prop_oneof!["[ab]", "call_[0-3]", ""];
    let ids = proptest::collection::vec(id.clone(), 0..4);
    let finish = prop_oneof![Just("stop"), Just("interrupted"), Just("error")];
    let status = prop_oneof![
        Just("success"),
        Just("denied"),
        Just("call_failed"),
        Just("interrupted")
    ];
    let decision = prop_oneof![Just("once"), Just("stop")];
    prop_oneof![
        2 => "[a-z]{0,2}".prop_map(|t| user(&t)),
        3 => ("[a-z]{0,2}", finish, ids).prop_map(|(t, f, ids)| {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            calling(&t, f, &ids)
        }),
        4 => (id, status, "[a-z]{0,2}").prop_map(|(id, s, t)| tool(&id, s, &t)),
        1 => decision.prop_map(decided),
        1 => Just(record(RecordBody::Model { model: "m".into() })),
        1 => Just(compaction(None)),
    ]
}

proptest! {
    #[test]
    fn every_call_has_one_result(records in proptest::collection::vec(any_record(), 0..40)) {
        sound(&conversation(&records).messages);
    }
}
