//! The events of a session, derived from its records and from the feed of its running turn.
//!
//! Each call of [`record_event`] gives one event of a record and moves the cursor past it. The journal is decisive: an answer
//! gives the same events whether it is read while it runs or later, except for how its text is cut into deltas. Events of the feed
//! that have no record (a question, the output of a running tool) exist only while the turn runs.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::cursor::Cursor;
use super::question::question;
use super::searched_text::{MAX_TEXT, SearchedText};
use crate::history::record::{Call, Record, RecordBody};
use crate::history::{shown_fields, shown_record};
use crate::protocol::QuestionOutcome;
use crate::safety::redact::global_redactor;
use crate::safety::utf8;
use crate::session::conversation::Session;

/// An event: its type and its data.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiEvent {
    /// The type, as in the envelope.
    pub kind: &'static str,
    /// Time of the record in milliseconds since 1970; `None` for what happens now.
    pub timestamp_ms: Option<u64>,
    /// What it says.
    pub payload: Value,
    /// Whether it belongs to a record that is in the journal.
    pub is_recorded: bool,
}

/// Whether a cursor can be a position in a session with these records.
pub fn fits(cursor: &Cursor, records: &[Record]) -> bool {
    if cursor.round.is_empty() && cursor.text > 0 {
        return false;
    }
    let Some(record) = records.get(cursor.record) else {
        return cursor.record == records.len() && cursor.part == 0;
    };
    match &record.body {
        RecordBody::User { .. } => cursor.part <= 2,
        RecordBody::Assistant { text, calls, .. } => {
            let is_begun = cursor.is_of(message_id(record));
            // Of the text, or of what clients get of it since a secret in it is known.
            let is_within =
                |at: usize| text.is_char_boundary(at) || redact(text).is_char_boundary(at);
            cursor.part <= calls.len() + 1
                && (is_begun || cursor.part == 0)
                && (!is_begun || is_within(cursor.text))
        }
        _ => cursor.part == 0,
    }
}

/// Returns the next event of the record at the cursor; `None` behind the last record.
pub fn record_event(
    records: &[Record],
    cursor: &mut Cursor,
    searched: &SearchedText,
) -> Option<ApiEvent> {
    let record = records.get(cursor.record)?;
    let event = match &record.body {
        RecordBody::Assistant { text, calls, .. } => {
            let text = searched.text(record, text);
            answer_event((records, record), (&text, calls), cursor, searched)
        }
        RecordBody::User {
            text, cwd, images, ..
        } => {
            let text = searched.text(record, text);
            prompt_event(record, (&text, cwd, images.len()), cursor)
        }
        _ => {
            cursor.end_record();
            other_payload(record, searched)
        }
    };
    Some(ApiEvent {
        kind: event.0,
        timestamp_ms: Some(record.timestamp_ms),
        payload: event.1,
        is_recorded: true,
    })
}

/// Whether the record with this number is a summary that replaces the older part of the session in requests.
pub fn is_summary(records: &[Record], number: usize) -> bool {
    let Some(record) = records.get(number) else {
        return false;
    };
    // First what needs no search: a page of messages asks about every record.
    if record.ids.prompt.is_none() || !record.body.is_usable_summary() {
        return false;
    }
    // The records of a compaction may have records of other prompts between them.
    let mut before = records[..number].iter().rev();
    let asking = before.find(|known| known.ids.prompt == record.ids.prompt);
    asking.is_some_and(|asking| matches!(asking.body, RecordBody::Compaction { .. }))
}

/// The id of the message that a record is: that of the prompt, the round or the tool call.
pub fn message_id(record: &Record) -> &str {
    let id = match &record.body {
        RecordBody::User { .. } | RecordBody::WaitingPrompt { .. } => record.ids.prompt.as_deref(),
        RecordBody::Assistant { .. } => record.ids.turn.as_deref(),
        RecordBody::Tool { call, .. } => Some(&**call),
        _ => None,
    };
    id.unwrap_or(&record.id)
}

fn prompt_event(
    record: &Record,
    (text, cwd, images): (&str, &str, usize),
    cursor: &mut Cursor,
) -> (&'static str, Value) {
    let id = message_id(record);
    cursor.part += 1;
    match cursor.part {
        1 => {
            let start = json!({
                "message_id": id, "role": "user", "cwd": redact(cwd), "images": images,
            });
            ("message.start", start)
        }
        2 => {
            let shown = utf8::prefix(text, 16 * MAX_TEXT);
            let cut = text.len() - shown.len();
            (
                "message.delta",
                json!({ "message_id": id, "text": shown, "omitted": cut }),
            )
        }
        _ => {
            cursor.end_record();
            (
                "message.end",
                json!({
                    "message_id": id, "record_id": record.id, "role": "user", "length": text.len(),
                }),
            )
        }
    }
}

fn answer_event(
    (records, record): (&[Record], &Record),
    (text, calls): (&str, &[Call]),
    cursor: &mut Cursor,
    searched: &SearchedText,
) -> (&'static str, Value) {
    let id = message_id(record);
    if cursor.part == 0 {
        cursor.part = 1;
        if !cursor.is_of(id) {
            cursor.begin(id);
            return (
                "message.start",
                json!({ "message_id": id, "role": "assistant" }),
            );
        }
    }
    let rest = text.get(cursor.text..).unwrap_or_default();
    if cursor.part == 1 && !rest.is_empty() {
        let piece = utf8::prefix(rest, MAX_TEXT);
        cursor.text += piece.len();
        return ("message.delta", json!({ "message_id": id, "text": piece }));
    }
    if let Some(call) = calls.get(cursor.part - 1) {
        cursor.part += 1;
        let arguments = searched.arguments(record, cursor.part - 2, call);
        let start = json!({
            "call_id": call.id,
            "message_id": id,
            "name": redact(&call.name),
            "arguments": arguments.shown,
            "omitted": arguments.omitted,
        });
        return ("tool.start", start);
    }
    let is_summary = is_summary(records, cursor.record);
    cursor.end_record();
    cursor.end_answer();
    let kept = [
        "model",
        "finish",
        "error",
        "omitted",
        "prompt_tokens",
        "completion_tokens",
        "cache_read_tokens",
        "cache_write_tokens",
        "reasoning_tokens",
        "provider",
        "cost",
        "cost_estimated",
        "duration_ms",
    ];
    let mut payload = json!({
        "message_id": id,
        "record_id": record.id,
        "role": "assistant",
        // A client whose text has another length has missed a correction, and reads the message again.
        "length": text.len(),
    });
    for (name, value) in shown_fields(record, &kept) {
        payload[name] = value;
    }
    if is_summary {
        payload["is_summary"] = true.into();
    }
    let proposals = searched.proposals(record, text);
    if !proposals.is_empty() {
        let proposals = json!(proposals);
        // A client that gets null reads the message again.
        payload["proposals"] = match proposals.to_string().len() {
            ..=MAX_TEXT => proposals,
            _ => Value::Null,
        };
    }
    ("message.end", payload)
}

fn other_payload(record: &Record, searched: &SearchedText) -> (&'static str, Value) {
    match &record.body {
        RecordBody::Tool { call, text, .. } => {
            let text = searched.text(record, text);
            let head = utf8::prefix(&text, MAX_TEXT);
            let mut payload = json!({
                "call_id": call,
                "record_id": record.id,
                "text": head,
                "omitted": text.len() - head.len(),
            });
            let kept = [
                "name",
                "status",
                "bytes",
                "duration_ms",
                "decided_by",
                "reason",
                "error",
            ];
            let mut shown = shown_fields(record, &kept);
            for name in kept {
                payload[name] = shown.remove(name).unwrap_or_default();
            }
            ("tool.end", payload)
        }
        RecordBody::Title { title } => ("x.session.title", json!({ "title": redact(title) })),
        RecordBody::Model { model } => (
            "x.session.setting",
            json!({ "setting": "model", "value": redact(model) }),
        ),
        RecordBody::SessionSetting { setting, value } => (
            "x.session.setting",
            json!({ "setting": setting, "value": value.as_deref().map(redact) }),
        ),
        _ => {
            let mut shown = shown_record(record);
            shorten(&mut shown);
            ("log.append", json!({ "record": shown }))
        }
    }
}

/// Cuts long strings.
fn shorten(value: &mut Value) {
    match value {
        Value::String(text) if text.len() > MAX_TEXT => {
            text.truncate(utf8::prefix(text, MAX_TEXT).len());
            text.push('…');
        }
        Value::Array(items) => items.iter_mut().for_each(shorten),
        Value::Object(fields) => fields.values_mut().for_each(shorten),
        _ => {}
    }
}

/// Returns a text without secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    global_redactor().redact(text)
}

/// Returns the state of a session: a key that changes with it, and the JSON for clients.
pub fn status(session: &Session) -> (String, Value) {
    let waiting = session.hub.waiting();
    let (key, mut status) = running_status(session);
    let key = format!("{key}; waiting {}", waiting.join(" "));
    status["waiting"] = json!(waiting);
    (key, status)
}

fn running_status(session: &Session) -> (String, Value) {
    let Some(feed) = session.hub.running() else {
        let failed = session.hub.last_failure();
        // So clients also learn of a turn that has begun and ended since the last event.
        let key = format!("idle {}", session.hub.ended_turns());
        let failure = failed.map(|failed| {
            json!({
                "message_id": failed.prompt_id,
                "message": global_redactor().redact(&failed.failure.message),
                "hint": failed.failure.hint.map(|hint| global_redactor().redact(&hint).into_owned()),
            })
        });
        return (
            key,
            json!({ "status": "idle", "failure": failure, "questions": [] }),
        );
    };
    let open = feed.open_questions();
    let questions: Vec<Value> = open.iter().filter_map(|event| question(event)).collect();
    let word = if questions.is_empty() {
        "running"
    } else {
        "waiting"
    };
    let ids: Vec<&str> = questions
        .iter()
        .filter_map(|q| q["question_id"].as_str())
        .collect();
    let key = format!("{word} {} {}", feed.tag, ids.join(" "));
    let status = json!({
        "status": word,
        "message_id": feed.prompt_id(),
        "prompt": feed.origin.words(),
        "started_ms": feed.origin.started_ms,
        "terminal": feed.origin.tty,
        "questions": questions,
    });
    (key, status)
}

/// Returns the word for how a question was closed.
pub fn outcome_word(outcome: QuestionOutcome) -> Value {
    serde_json::to_value(outcome).unwrap_or_default()
}
