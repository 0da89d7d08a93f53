//! What watchers over HTTP read of a running turn: the redacted text of the running answer, and the events of the feed by
//! their number. Unlike a [`FeedWatcher`](super::FeedWatcher) such a reader keeps nothing in the feed, so that it can
//! continue after a new connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{FeedEntry, FeedState, TurnEvent, TurnFeed, lock};
use crate::safety::redact::{RedactStream, global_redactor};
use crate::safety::utf8::{self, Utf8Stream};
use crate::session::changes::SessionChanges;

/// The text of the answer of one round, without secrets, as far as it is certain.
#[derive(Debug, Default)]
pub(super) struct LiveAnswer {
    /// Id of the round; `None` before the first one.
    round: Option<String>,
    text: String,
    /// Decodes the text, whose pieces may end within a character.
    decoder: Utf8Stream,
}

/// The output of the tool call that runs, without secrets: a secret may be printed in several pieces.
#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    /// Number of the call among those of the turn that print, from 1; 0 before the first one.
    number: usize,
    /// Id of the call.
    call: String,
    stream: Option<RedactStream>,
    /// What is certain.
    text: Vec<u8>,
    /// What follows it and is settled.
    settled: Vec<u8>,
}

impl LiveOutput {
    /// Begins the output of a call.
    pub(super) fn begin(&mut self, call: &str) {
        *self = LiveOutput {
            number: self.number + 1,
            call: call.to_owned(),
            stream: Some(global_redactor().stream()),
            ..LiveOutput::default()
        };
    }

    /// Appends output.
    pub(super) fn push(&mut self, output: &str) {
        if let Some(stream) = &mut self.stream {
            stream.push(output.as_bytes(), &mut self.text);
            stream.take_found();
            self.settled.clear();
            stream.peek(&mut self.settled);
        }
    }

    /// Ends the output.
    pub(super) fn end(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            stream.finish(&mut self.text);
            self.settled.clear();
        }
    }

    fn len(&self) -> usize {
        self.text.len() + self.settled.len()
    }
}

/// A part of the output of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOutputText {
    /// Number of the call among those of the turn that print, from 1.
    pub number: usize,
    /// Id of the call.
    pub call: String,
    /// The text from the wanted position. Half a character at its end is left out.
    pub text: String,
}

/// A part of a running answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveText {
    /// Id of the round: `ids.turn` of the record that the answer gets.
    pub round: String,
    /// The text from the wanted position, in whole characters.
    pub text: String,
}

/// Whether a round is the one that is named by the end of its id.
fn is_of(round: &str, tail: &str) -> bool {
    !tail.is_empty() && round.ends_with(tail)
}

impl TurnFeed {
    /// Begins the answer of a round.
    pub fn begin_round(&self, round: Option<&str>) {
        let mut state = lock(&self.state);
        state.live = LiveAnswer {
            round: round.map(str::to_owned),
            ..LiveAnswer::default()
        };
        drop(state);
        self.changed.notify_waiters();
    }

    /// Whether anybody has asked for the running answer without secrets. Without a reader that text is not needed.
    pub fn is_read_live(&self) -> bool {
        let is_watched = || self.changes.get().is_some_and(SessionChanges::has_watchers);
        self.read_live.load(Ordering::Relaxed) || is_watched()
    }

    /// Waits until somebody reads the running answer for the first time: what has arrived before is not in it yet.
    pub async fn first_live_reader(&self) {
        self.first_read.notified().await;
    }

    /// Appends text of the running answer that contains no secret.
    pub fn push_settled(&self, text: &[u8]) {
        if !text.is_empty() {
            let mut state = lock(&self.state);
            let live = &mut state.live;
            live.decoder.push(text, &mut live.text);
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Returns at most `limit` bytes of the running answer. `from` says how many bytes were read already of which round, named
    /// by the end of its id; a newer answer is read from its start.
    pub fn live_text(&self, from: (&str, usize), limit: usize) -> Option<LiveText> {
        if !self.read_live.swap(true, Ordering::Relaxed) {
            self.first_read.notify_one();
        }
        let state = lock(&self.state);
        let round = state.live.round.clone()?;
        let start = if is_of(&round, from.0) { from.1 } else { 0 };
        let live = &state.live.text;
        // A cursor that was made up may point into a character.
        let start = (start..live.len()).find(|at| live.is_char_boundary(*at));
        let rest = start.and_then(|at| live.get(at..)).unwrap_or_default();
        let text = utf8::prefix(rest, limit).to_owned();
        Some(LiveText { round, text })
    }

    /// Returns at most `limit` bytes of the output of the call that runs or has ended last. `from` says how many bytes were read
    /// already of which call, by its number.
    pub fn live_output(&self, from: (usize, usize), limit: usize) -> Option<LiveOutputText> {
        let state = lock(&self.state);
        let output = &state.output;
        if output.number == 0 {
            return None;
        }
        let mut start = if output.number == from.0 { from.1 } else { 0 };
        let byte_at = |at| output.text.iter().chain(&output.settled).nth(at);
        // A cursor that was made up may point into a character.
        while start > 0 && byte_at(start).is_some_and(|byte| byte & 0xC0 == 0x80) {
            start -= 1;
        }
        let bytes = output
            .text
            .iter()
            .chain(&output.settled)
            .skip(start)
            .take(limit);
        let bytes: Vec<u8> = bytes.copied().collect();
        let whole = std::str::from_utf8(&bytes).map_or_else(|e| e.valid_up_to(), str::len);
        Some(LiveOutputText {
            number: output.number,
            call: output.call.clone(),
            text: String::from_utf8_lossy(&bytes[..whole]).into_owned(),
        })
    }

    /// Returns the next event from this number on, and the number behind it.
    pub fn event_from(&self, number: usize) -> Option<(Arc<TurnEvent>, usize)> {
        let state = lock(&self.state);
        let later = state.entries.iter().enumerate().skip(number);
        let mut events = later.filter_map(|(at, entry)| match entry {
            FeedEntry::Event(event) => Some((event.clone(), at + 1)),
            FeedEntry::Text { .. } => None,
        });
        events.next()
    }

    /// Returns all events so far.
    pub(super) fn events(&self) -> Vec<Arc<TurnEvent>> {
        let state = lock(&self.state);
        let events = state.entries.iter().filter_map(|entry| match entry {
            FeedEntry::Event(event) => Some(event.clone()),
            FeedEntry::Text { .. } => None,
        });
        events.collect()
    }

    /// Returns the questions that are open.
    pub fn open_questions(&self) -> Vec<Arc<TurnEvent>> {
        let mut events = self.events();
        let state = lock(&self.state);
        events.retain(|event| match &**event {
            TurnEvent::ApprovalRequested(question) => state.is_open(&question.id),
            TurnEvent::ElicitationRequested(question) => state.is_open(&question.id),
            _ => false,
        });
        events
    }

    /// Waits until there is something behind these positions, or the turn has ended.
    pub async fn live_changed(&self, round: (&str, usize), number: usize, output: (usize, usize)) {
        let has_more = |state: &FeedState| {
            let live = &state.live;
            let has_text = match live.round.as_deref() {
                Some(current) if is_of(current, round.0) => live.text.len() > round.1,
                // The answer that was read has ended, or a new one has begun.
                _ => !round.0.is_empty() || !live.text.is_empty(),
            };
            let mut later = state.entries.iter().skip(number);
            let has_event = later.any(|entry| matches!(entry, FeedEntry::Event(_)));
            let read = match state.output.number == output.0 {
                true => output.1,
                false => 0,
            };
            // Less than a character may be left.
            let has_output = state.output.len() > read + 3
                || state.output.stream.is_none() && state.output.len() > read;
            (has_text || has_event || has_output || state.end.is_some()).then_some(())
        };
        self.wait_for(has_more).await;
    }
}
