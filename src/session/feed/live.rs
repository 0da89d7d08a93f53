//! What watchers over HTTP read of a running turn: the redacted text of the running answer, and the events of the feed by
//! their number. Unlike a [`FeedWatcher`](super::FeedWatcher) such a reader keeps nothing in the feed, so that it can
//! continue after a new connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{FeedEntry, FeedState, TurnEvent, TurnFeed, lock};
use crate::safety::utf8::{self, Utf8Stream};

/// The text of the answer of one round, without secrets, as far as it is certain.
#[derive(Debug, Default)]
pub(super) struct LiveAnswer {
    /// Id of the round; `None` before the first one.
    round: Option<String>,
    text: String,
    /// Decodes the text, whose pieces may end within a character.
    decoder: Utf8Stream,
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
        self.read_live.load(Ordering::Relaxed)
    }

    /// Appends text of the running answer that contains no secret. The text that is shown in terminals is pushed after it.
    pub fn push_settled(&self, text: &[u8]) {
        if !text.is_empty() {
            let mut state = lock(&self.state);
            let live = &mut state.live;
            live.decoder.push(text, &mut live.text);
        }
    }

    /// Returns at most `limit` bytes of the running answer. `from` says how many bytes were read already of which round, named
    /// by the end of its id; a newer answer is read from its start.
    pub fn live_text(&self, from: (&str, usize), limit: usize) -> Option<LiveText> {
        self.read_live.store(true, Ordering::Relaxed);
        let state = lock(&self.state);
        let round = state.live.round.clone()?;
        let start = if is_of(&round, from.0) { from.1 } else { 0 };
        let rest = state.live.text.get(start..).unwrap_or_default();
        let text = utf8::prefix(rest, limit).to_owned();
        Some(LiveText { round, text })
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

    /// Returns the questions that are open.
    pub fn open_questions(&self) -> Vec<Arc<TurnEvent>> {
        let state = lock(&self.state);
        let events = state.entries.iter().filter_map(|entry| match entry {
            FeedEntry::Event(event) => Some(event),
            FeedEntry::Text { .. } => None,
        });
        let is_open = |event: &&Arc<TurnEvent>| match &***event {
            TurnEvent::ApprovalRequested(question) => state.is_open(&question.id),
            TurnEvent::ElicitationRequested(question) => state.is_open(&question.id),
            _ => false,
        };
        events.filter(is_open).cloned().collect()
    }

    /// Waits until there is something behind these positions, or the turn has ended.
    pub async fn live_changed(&self, round: (&str, usize), number: usize) {
        let has_more = |state: &FeedState| {
            let live = &state.live;
            let has_text = match live.round.as_deref() {
                Some(current) if is_of(current, round.0) => live.text.len() > round.1,
                // The answer that was read has ended, or a new one has begun.
                _ => !round.0.is_empty() || !live.text.is_empty(),
            };
            let mut later = state.entries.iter().skip(number);
            let has_event = later.any(|entry| matches!(entry, FeedEntry::Event(_)));
            (has_text || has_event || state.end.is_some()).then_some(())
        };
        self.wait_for(has_more).await;
    }
}
