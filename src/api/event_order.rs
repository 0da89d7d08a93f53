//! Merges the records of a session with the events of its running turn, in the order in which they happened.

use std::sync::Arc;

use serde_json::json;

use super::cursor::Cursor;
use super::events::{self, ApiEvent, outcome_word, record_event, redact};
use super::question::question;
use super::searched_text::{MAX_TEXT, SearchedText};
use crate::session::conversation::Session;
use crate::session::feed::{TurnEvent, TurnFeed};

/// Whether a cursor can be a position in a session.
pub fn fits(session: &Session, cursor: &Cursor) -> bool {
    let is_in_feed = |feed: Arc<TurnFeed>| {
        feed.has_text((&cursor.round, cursor.text))
            && (feed.tag != cursor.feed || feed.has_position(cursor.position))
    };
    session.with_records(|records| events::fits(cursor, records))
        && session.hub.running().is_none_or(is_in_feed)
}

/// Returns the next event of a session and moves the cursor past it; `None` when there is nothing more now.
pub fn next(session: &Session, cursor: &mut Cursor, searched: &SearchedText) -> Option<ApiEvent> {
    loop {
        let event = match has_record(session, cursor) {
            true => earlier_event(session, cursor).or_else(|| {
                session.with_records(|records| record_event(records, cursor, searched))
            }),
            false => live_event(session, cursor),
        };
        // A record may have been written meanwhile.
        if event.is_some() || !has_record(session, cursor) {
            return event;
        }
    }
}

/// Whether the session has a record that was not read.
fn has_record(session: &Session, cursor: &Cursor) -> bool {
    session.with_records(|records| records.len() > cursor.record)
}

/// Returns the next event of the running turn that precedes the next record, which was written: what a tool call has printed comes
/// before its result, even for a slow client.
pub fn earlier_event(session: &Session, cursor: &mut Cursor) -> Option<ApiEvent> {
    if cursor.part > 0 {
        return None;
    }
    let feed = session.hub.running()?;
    if !feed.has_record(cursor.record) {
        return None;
    }
    cursor.begin_feed(&feed);
    let event = feed_event(&feed, cursor)?;
    cursor.live += 1;
    Some(event)
}

/// Returns the next event of a session whose records were all read. A record that was written meanwhile precedes what follows it:
/// `None` then.
pub fn live_event(session: &Session, cursor: &mut Cursor) -> Option<ApiEvent> {
    let feed = session.hub.running();
    if let Some(feed) = &feed {
        cursor.begin_feed(feed);
        let event = text_event(session, feed, cursor)
            .or_else(|| feed_event(feed, cursor))
            .or_else(|| output_event(feed, cursor));
        if let Some(event) = event {
            cursor.live += 1;
            return Some(event);
        }
    }
    if has_record(session, cursor) {
        return None;
    }
    // The answer was begun and has no record: its request failed, and another one was made or the turn has ended.
    let is_running = |feed: &TurnFeed| {
        feed.live_text((&cursor.round, 0), 0)
            .is_some_and(|l| cursor.is_of(&l.round))
    };
    if !cursor.round.is_empty() && !feed.as_deref().is_some_and(is_running) {
        let end = json!({ "message_id": cursor.round, "finish": "discarded" });
        cursor.end_answer();
        cursor.live += 1;
        return Some(live("message.end", end));
    }
    None
}

/// Returns the next piece of the running answer.
fn text_event(session: &Session, feed: &TurnFeed, cursor: &mut Cursor) -> Option<ApiEvent> {
    let part = feed.live_text((&cursor.round, cursor.text), MAX_TEXT)?;
    // Behind a new record, this may be another answer.
    if part.text.is_empty() || has_record(session, cursor) {
        return None;
    }
    if !cursor.is_of(&part.round) {
        if !cursor.round.is_empty() {
            // The answer before it was discarded; its end comes first.
            return None;
        }
        cursor.begin(&part.round);
        let start = json!({ "message_id": part.round, "role": "assistant" });
        return Some(live("message.start", start));
    }
    cursor.text += part.text.len();
    Some(live(
        "message.delta",
        json!({ "message_id": part.round, "text": part.text }),
    ))
}

/// Returns the next piece of the output of the tool call whose start was sent last.
fn output_event(feed: &TurnFeed, cursor: &mut Cursor) -> Option<ApiEvent> {
    let part = feed.live_output(cursor.position, MAX_TEXT)?;
    if part.text.is_empty() {
        return None;
    }
    cursor.position.output += part.text.len();
    let payload = json!({ "call_id": part.call, "text": part.text });
    Some(live("tool.delta", payload))
}

/// Returns the next event of the feed that is sent to clients, of those before the next record. The output of a call precedes its
/// end.
fn feed_event(feed: &TurnFeed, cursor: &mut Cursor) -> Option<ApiEvent> {
    while let Some((event, behind)) = feed.event_from(cursor.position.entry, cursor.record) {
        match &*event {
            TurnEvent::CallStarted(call) if call.prints => {
                cursor.position.call += 1;
                cursor.position.output = 0;
            }
            TurnEvent::CallFinished(_) => {
                if let Some(output) = output_event(feed, cursor) {
                    return Some(output);
                }
            }
            _ => {}
        }
        cursor.position.entry = behind;
        let told = match &*event {
            TurnEvent::Notice(text) => Some(("x.notice", json!({ "text": redact(text) }))),
            TurnEvent::CallStarted(call) => Some((
                "x.tool.running",
                json!({ "call_id": call.id, "name": redact(&call.name) }),
            )),
            TurnEvent::ApprovalRequested(_) | TurnEvent::ElicitationRequested(_) => {
                question(&event).map(|question| ("x.question.open", question))
            }
            TurnEvent::QuestionClosed {
                id,
                answered_in,
                outcome,
            } => Some((
                "x.question.close",
                json!({
                    "question_id": id,
                    "answered_in": answered_in,
                    "outcome": outcome_word(*outcome),
                }),
            )),
            // The answer's text has the proposals; records have the rest.
            // The status has the prompts that wait.
            TurnEvent::Waiting(_)
            | TurnEvent::Started { .. }
            | TurnEvent::Proposal(_)
            | TurnEvent::NewTools(_)
            | TurnEvent::CallOutput(_)
            | TurnEvent::CallProgress(_)
            | TurnEvent::CallFinished(_) => None,
        };
        if let Some((kind, payload)) = told {
            return Some(live(kind, payload));
        }
    }
    None
}

fn live(kind: &'static str, payload: serde_json::Value) -> ApiEvent {
    ApiEvent {
        kind,
        timestamp_ms: None,
        payload,
        is_recorded: false,
    }
}

#[cfg(test)]
mod tests;
