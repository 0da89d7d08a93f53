//! The parts of a running turn that watchers over HTTP read: the redacted text of the running answer, and the events of the feed by
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

/// The output of a tool call that prints, without secrets: a secret may be printed in several pieces.
#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    /// Id of the call.
    call: String,
    /// Number of the feed's entry for the start of the call, and of that for its end.
    start: usize,
    end: Option<usize>,
    stream: Option<RedactStream>,
    /// The certain text.
    text: Vec<u8>,
    /// The settled text after it.
    settled: Vec<u8>,
}

impl LiveOutput {
    /// Begins the output of a call, whose start is this entry of the feed.
    pub(super) fn begin(call: &str, entry: usize) -> LiveOutput {
        LiveOutput {
            call: call.to_owned(),
            start: entry,
            stream: Some(global_redactor().stream()),
            ..LiveOutput::default()
        }
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

    /// Ends the output, if it is that of this call, whose end is this entry of the feed.
    pub(super) fn end(&mut self, call: &str, entry: usize) {
        if self.call == call
            && let Some(mut stream) = self.stream.take()
        {
            stream.finish(&mut self.text);
            self.settled.clear();
            self.end = Some(entry);
        }
    }

    fn len(&self) -> usize {
        self.text.len() + self.settled.len()
    }
}

/// A part of the output of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveOutputText {
    /// Id of the call.
    pub call: String,
    /// The text from the wanted position. Half a character at its end is left out.
    pub text: String,
}

/// A position in the events of a feed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FeedPosition {
    /// Number of entries that were read.
    pub entry: usize,
    /// Number of calls that print among those whose start was read.
    pub call: usize,
    /// Number of bytes that were read of the output of the last one of them.
    pub output: usize,
}

/// A part of a running answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveText {
    /// Id of the round: `ids.turn` of the record that the answer gets.
    pub round: String,
    /// The text from the wanted position, in whole characters.
    pub text: String,
}

impl FeedState {
    /// Number of entries that were pushed before the record with this number of the session was written; all of them, if it
    /// was not written yet.
    fn entries_before(&self, record: usize) -> usize {
        let mark = self.marks.binary_search_by_key(&record, |mark| mark.0);
        let mark = mark.ok().and_then(|at| self.marks.get(at));
        mark.map_or(self.entries.len(), |mark| mark.1)
    }
}

impl TurnFeed {
    /// Notes that the record with this number of the session is written now. Clients get it after the events so far.
    pub fn mark_record(&self, record: usize) {
        let mut state = lock(&self.state);
        let entries = state.entries.len();
        state.marks.push((record, entries));
    }

    /// Whether the record with this number was written by now, and while the turn ran.
    pub fn has_record(&self, record: usize) -> bool {
        let state = lock(&self.state);
        let mark = state.marks.binary_search_by_key(&record, |mark| mark.0);
        mark.is_ok()
    }

    /// Returns where a client begins that has got this number of records, and nothing of the feed: after the last of them.
    pub fn position_behind(&self, records: usize) -> FeedPosition {
        let state = lock(&self.state);
        let before = state.marks.partition_point(|mark| mark.0 < records);
        let before = before.checked_sub(1).and_then(|at| state.marks.get(at));
        let entry = before.map_or(0, |mark| mark.1);
        let call = state.outputs.partition_point(|output| output.start < entry);
        let last = call.checked_sub(1).and_then(|at| state.outputs.get(at));
        // The output of a call that still runs is sent from its beginning.
        let ended = last.filter(|output| output.end.is_some_and(|end| end < entry));
        FeedPosition {
            entry,
            call,
            output: ended.map_or(0, LiveOutput::len),
        }
    }

    /// Whether a client can have got this many bytes of the answer of a round. Of a round that is not the running one, nothing is
    /// known.
    pub fn has_text(&self, round: (&str, usize)) -> bool {
        let state = lock(&self.state);
        let live = &state.live;
        let is_current = live.round.as_deref().is_some_and(|id| id == round.0);
        !is_current || live.text.is_char_boundary(round.1)
    }

    /// Whether a client can have got this much of the feed.
    pub fn has_position(&self, position: FeedPosition) -> bool {
        let state = lock(&self.state);
        let output = position.call.checked_sub(1);
        let output = output.and_then(|at| state.outputs.get(at));
        let length = match position.call {
            0 => Some(0),
            _ => output.map(LiveOutput::len),
        };
        position.entry <= state.entries.len() && length.is_some_and(|n| position.output <= n)
    }

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

    /// Waits until somebody reads the running answer for the first time: text that has arrived before is not in it yet.
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

    /// Returns at most `limit` bytes of the running answer. `from` says how many bytes were read already of which round;
    /// a newer answer is read from its start.
    pub fn live_text(&self, from: (&str, usize), limit: usize) -> Option<LiveText> {
        if !self.read_live.swap(true, Ordering::Relaxed) {
            self.first_read.notify_one();
        }
        let state = lock(&self.state);
        let round = state.live.round.clone()?;
        let start = if round == from.0 { from.1 } else { 0 };
        let rest = state.live.text.get(start..).unwrap_or_default();
        let text = utf8::prefix(rest, limit).to_owned();
        Some(LiveText { round, text })
    }

    /// Returns at most `limit` bytes of the output of a call after a position.
    pub fn live_output(&self, position: FeedPosition, limit: usize) -> Option<LiveOutputText> {
        let state = lock(&self.state);
        let output = state.outputs.get(position.call.checked_sub(1)?)?;
        let mut start = position.output;
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
            call: output.call.clone(),
            text: String::from_utf8_lossy(&bytes[..whole]).into_owned(),
        })
    }

    /// Returns the next event from this number on, and the number after it: of those before the record with the number
    /// `record`, if that was written.
    pub fn event_from(&self, number: usize, record: usize) -> Option<(Arc<TurnEvent>, usize)> {
        let state = lock(&self.state);
        let end = state.entries_before(record);
        let later = state.entries.iter().enumerate().take(end).skip(number);
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
        let state = lock(&self.state);
        if state.questions.is_empty() {
            return Vec::new();
        }
        let open = state.entries.iter().filter_map(|entry| {
            let FeedEntry::Event(event) = entry else {
                return None;
            };
            let id = match &**event {
                TurnEvent::ApprovalRequested(question) => &question.id,
                TurnEvent::ElicitationRequested(question) => &question.id,
                _ => return None,
            };
            state.is_open(id).then(|| event.clone())
        });
        open.collect()
    }

    /// Waits until there is something after these positions, or the turn has ended.
    pub async fn live_changed(&self, round: (&str, usize), position: FeedPosition) {
        let has_more = |state: &FeedState| {
            let live = &state.live;
            let has_text = match live.round.as_deref() {
                Some(current) if current == round.0 => live.text.len() > round.1,
                // The answer that was read has ended, or a new one has begun.
                _ => !round.0.is_empty() || !live.text.is_empty(),
            };
            let mut later = state.entries.iter().skip(position.entry);
            let has_event = later.any(|entry| matches!(entry, FeedEntry::Event(_)));
            let output = position.call.checked_sub(1);
            let output = output.and_then(|at| state.outputs.get(at));
            let read = position.output;
            // Less than a character may be left.
            let has_output = output.is_some_and(|output| {
                output.len() > read + 3 || output.stream.is_none() && output.len() > read
            });
            (has_text || has_event || has_output || state.end.is_some()).then_some(())
        };
        self.wait_for(has_more).await;
    }
}
