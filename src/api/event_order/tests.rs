use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::*;
use serde_json::Value;

use crate::api::events::fits;
use crate::chat::{CallStatus, FinishReason, OperationClass};
use crate::error::Error;
use crate::history::record::RecordIds;
use crate::protocol::tools::{CallFinished, CallStarted};
use crate::session::feed::{FeedOrigin, FeedPosition};

fn session() -> (Arc<Session>, Arc<TurnFeed>) {
    let session = Session::outside(Err(Error::runtime("no file")));
    let origin = FeedOrigin::of_request(None, None);
    let feed = TurnFeed::new(origin, CancellationToken::new());
    session.hub.install(feed.clone());
    (session, feed)
}

fn begin(feed: &TurnFeed, id: &str) {
    feed.push(TurnEvent::CallStarted(CallStarted {
        id: id.into(),
        name: "shell".into(),
        arguments: "{}".into(),
        rule: None,
        operation: OperationClass::Read,
        warning: None,
        prints: true,
    }));
}

fn output(feed: &TurnFeed, text: &str) {
    feed.push(TurnEvent::CallOutput(text.into()));
}

fn end(session: &Session, feed: &TurnFeed, id: &str) {
    feed.push(TurnEvent::CallFinished(CallFinished {
        id: id.into(),
        name: "shell".into(),
        status: CallStatus::Success,
        duration_ms: 0,
        bytes: 0,
        head: String::new(),
        more: 0,
        notes: Vec::new(),
    }));
    let record = json!({
        "type": "tool", "call": id, "name": "shell", "status": "success", "text": "", "bytes": 0, "duration_ms": 0,
    });
    record_one(session, record);
}

fn record_one(session: &Session, record: Value) {
    let body = serde_json::from_value(record).unwrap();
    // The session has no file; the record is kept in memory.
    let _ = session.record(&RecordIds::default(), body);
}

/// All events from a position on, with the cursor after each.
fn rest(session: &Session, mut cursor: Cursor) -> Vec<(String, Cursor)> {
    let answer = SearchedText::default();
    let events = std::iter::from_fn(|| {
        let event = next(session, &mut cursor, &answer)?;
        let text = |name: &str| event.payload[name].as_str().unwrap_or_default().to_owned();
        let shown = format!("{} {} {}", event.kind, text("call_id"), text("text"));
        Some((shown, cursor.clone()))
    });
    events.collect()
}

#[test]
fn what_a_call_prints_comes_before_its_result_wherever_the_client_is() {
    let (session, feed) = session();
    begin(&feed, "a");
    output(&feed, "one\n");
    feed.notice("a notice");
    let live = rest(&session, Cursor::default());
    output(&feed, "two\n");
    end(&session, &feed, "a");
    begin(&feed, "b");
    output(&feed, "three\n");
    end(&session, &feed, "b");
    begin(&feed, "c");
    output(&feed, "four\n");
    let expected = [
        "x.tool.running a ",
        "x.notice  a notice",
        "tool.delta a one\ntwo\n",
        "tool.end a ",
        "x.tool.running b ",
        "tool.delta b three\n",
        "tool.end b ",
        "x.tool.running c ",
        "tool.delta c four\n",
    ];
    let late = rest(&session, Cursor::default());
    let kinds: Vec<&str> = late.iter().map(|(event, _)| &**event).collect();
    assert_eq!(kinds, expected);
    // From each event, what follows it; also for the client that was there from the beginning.
    for (at, (_, cursor)) in late.iter().enumerate() {
        let read: Cursor = cursor.to_string().parse().unwrap();
        assert_eq!(rest(&session, read), late[at + 1..], "{cursor}");
    }
    let live = live.last().unwrap().1.clone();
    let behind = rest(&session, live);
    assert_eq!(behind[0].0, "tool.delta a two\n");
    assert_eq!(behind[1..], late[3..]);
    // A client that begins after a result gets nothing more of the call.
    for (records, told) in [(1, 4), (2, 7)] {
        let begun = rest(&session, Cursor::after(records));
        let kinds: Vec<&str> = begun.iter().map(|(event, _)| &**event).collect();
        assert_eq!(kinds, expected[told..]);
    }
}

#[test]
fn a_cursor_fits_only_what_it_can_have_come_from() {
    let (session, feed) = session();
    let prompt =
        json!({ "type": "user", "prompt": "go", "rendered": "go", "shell": null, "cwd": "/" });
    record_one(&session, prompt);
    let ids = RecordIds {
        turn: Some("0198f3c2-0000-7000-8000-0123456789ab".into()),
        ..RecordIds::default()
    };
    let answer = json!({
        "type": "assistant", "text": "größe", "calls": [{ "id": "a", "name": "n", "arguments": "{}" }],
        "model": "m", "finish": FinishReason::Stop, "duration_ms": 0,
    });
    let _ = session.record(&ids, serde_json::from_value(answer).unwrap());
    record_one(&session, json!({ "type": "title", "title": "t" }));
    let is_position = |text: &str| {
        let cursor: Cursor = text.parse().unwrap();
        session.with_records(|records| fits(&cursor, records))
    };
    for text in [
        "0.0.0..0..0.0.0",
        "0.2.0..0..0.0.0",
        "1.0.0..0..0.0.0",
        "1.0.4.0198f3c2-0000-7000-8000-0123456789ab.4..0.0.0",
        "1.2.0.0198f3c2-0000-7000-8000-0123456789ab.7..0.0.0",
        // An answer that was discarded before.
        "1.0.4.aaaaaaaaaaaa.99..0.0.0",
        "2.0.0..0..0.0.0",
        "3.0.9.aaaaaaaaaaaa.4.ffffffff.9.9.9",
    ] {
        assert!(is_position(text), "{text}");
    }
    for text in [
        "0.3.0..0..0.0.0",
        "0.0.0..5..0.0.0",
        "1.1.0..0..0.0.0",
        "1.1.0.aaaaaaaaaaaa.0..0.0.0",
        "1.3.0.0198f3c2-0000-7000-8000-0123456789ab.7..0.0.0",
        "1.1.0.0198f3c2-0000-7000-8000-0123456789ab.3..0.0.0",
        "1.1.0.0198f3c2-0000-7000-8000-0123456789ab.8..0.0.0",
        "2.1.0..0..0.0.0",
        "3.1.0..0..0.0.0",
        "4.0.0..0..0.0.0",
    ] {
        assert!(!is_position(text), "{text}");
    }
    begin(&feed, "a");
    output(&feed, "one\n");
    let at = |entry, call, output| {
        feed.has_position(FeedPosition {
            entry,
            call,
            output,
        })
    };
    assert!(at(0, 0, 0) && at(2, 1, 4));
    assert!(!at(3, 1, 0) && !at(2, 1, 5) && !at(2, 2, 0) && !at(2, 0, 1));
}

#[test]
fn the_end_of_a_discarded_answer_names_it() {
    let (session, _) = session();
    let mut cursor = Cursor::default();
    cursor.begin("0198f3c2-0000-7000-8000-0123456789ab");
    // Nothing but the cursor has its id now.
    let mut read: Cursor = cursor.to_string().parse().unwrap();
    let end = next(&session, &mut read, &SearchedText::default()).expect("its end");
    let payload =
        json!({ "message_id": "0198f3c2-0000-7000-8000-0123456789ab", "finish": "discarded" });
    assert_eq!((end.kind, end.payload), ("message.end", payload));
}

#[test]
fn only_a_complete_answer_to_a_compaction_is_a_summary_and_finding_it_takes_no_time() {
    let (session, _feed) = session();
    let record = |prompt: &str, body: Value| {
        let ids = RecordIds {
            prompt: Some(prompt.into()),
            ..RecordIds::default()
        };
        let _ = session.record(&ids, serde_json::from_value(body).unwrap());
    };
    let answer = |text: &str, finish: &str| json!({ "type": "assistant", "text": text, "model": "m", "finish": finish, "duration_ms": 0 });
    let compaction = json!({ "type": "compaction", "kept_from": null, "prompts": 1 });
    for (n, (body, text, finish)) in [
        (&compaction, "the gist", "stop"),
        (&compaction, "half", "interrupted"),
        (&compaction, " ", "stop"),
        (
            &json!({ "type": "title", "title": "t" }),
            "no summary",
            "stop",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        record(&n.to_string(), body.clone());
        // One of another prompt comes between.
        record_one(&session, json!({ "type": "title", "title": "t" }));
        record(&n.to_string(), answer(text, finish));
    }
    let is_summary = |number| session.with_records(|records| events::is_summary(records, number));
    let found: Vec<usize> = (0..12).filter(|number| is_summary(*number)).collect();
    assert_eq!(found, [2]);
    let count = 40_000;
    for n in 0..count {
        record(&format!("p{n}"), json!({ "type": "title", "title": "t" }));
    }
    let start = std::time::Instant::now();
    assert!(!(12..12 + count).any(is_summary));
    assert!(start.elapsed().as_secs() < 2, "{:?}", start.elapsed());
}
