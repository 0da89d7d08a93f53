//! Watchers: cursors into a feed.

use std::sync::Arc;

use super::{FeedEntry, FeedState, TurnEvent, TurnFeed, lock};
use crate::protocol::tools::Reaction;
use crate::safety::utf8;

/// Approximate maximum size of the result of one read, so that a slow client holds no copy of a long answer.
const READ_LIMIT: usize = 64 << 10;
/// Assumed size of an event, in bytes.
const EVENT_SIZE: usize = 1 << 10;

/// An item borrowed from a feed.
#[derive(Debug, PartialEq)]
pub enum FeedItem<'a> {
    /// Text of the answer.
    Text(&'a str),
    /// Reasoning of the model.
    Reasoning(&'a str),
    /// An event.
    Event(&'a TurnEvent),
    /// The latest progress.
    Progress(&'a str),
}

/// A cursor into a feed. Dropping it ends the watch.
#[derive(Debug)]
pub struct FeedWatcher {
    pub(super) feed: Arc<TurnFeed>,
    pub(super) id: u64,
    pub(super) entry: usize,
    pub(super) offset: usize,
    pub(super) progress: u64,
}

impl FeedWatcher {
    /// Returns the feed.
    pub fn feed(&self) -> &Arc<TurnFeed> {
        &self.feed
    }

    /// Waits until there are unread items.
    pub async fn ready(&self) {
        let unread = |state: &FeedState| {
            let entries = state.entries.len();
            let text_read = self.entry + 1 == entries
                && matches!(state.entries[self.entry], FeedEntry::Text { end, .. } if end <= self.offset);
            let unread = self.entry < entries && !text_read || state.progress.0 > self.progress;
            unread.then_some(())
        };
        self.feed.wait_for(unread).await;
    }

    /// Passes unread items to `sink`, about 64 KiB at most. After a read without items there is nothing more to read.
    pub fn read(&mut self, mut sink: impl FnMut(FeedItem<'_>)) {
        let state = lock(&self.feed.state);
        let mut available = READ_LIMIT;
        while let Some(entry) = state.entries.get(self.entry) {
            if available == 0 {
                return;
            }
            match entry {
                FeedEntry::Text {
                    start,
                    end,
                    is_reasoning,
                } => {
                    let from = self.offset.max(*start);
                    let text = utf8::prefix(&state.text[from..*end], available);
                    if !text.is_empty() {
                        sink(match is_reasoning {
                            true => FeedItem::Reasoning(text),
                            false => FeedItem::Text(text),
                        });
                    }
                    self.offset = from + text.len();
                    available -= text.len();
                    if self.offset < *end {
                        return;
                    }
                    if self.entry + 1 == state.entries.len() {
                        // More text may be appended to this entry.
                        break;
                    }
                }
                FeedEntry::Event(event) => {
                    let closed = match &**event {
                        TurnEvent::ApprovalRequested(question) => !state.is_open(&question.id),
                        TurnEvent::ElicitationRequested(question) => !state.is_open(&question.id),
                        TurnEvent::Waiting(_) => self.feed.session().is_some(),
                        _ => false,
                    };
                    if !closed {
                        sink(FeedItem::Event(event));
                        available = available.saturating_sub(EVENT_SIZE);
                    }
                }
            }
            self.entry += 1;
        }
        if state.progress.0 > self.progress {
            self.progress = state.progress.0;
            if !state.progress.1.is_empty() {
                sink(FeedItem::Progress(&state.progress.1));
            }
        }
    }

    /// Passes the answer of a client to the feed, and the device of the terminal it was given on, if it is known.
    pub fn answer(&self, reaction: Reaction, terminal: Option<String>) {
        self.feed.answer(self.id, reaction, terminal);
    }

    /// Marks the client as unable to answer questions.
    pub fn cannot_answer(&self) {
        let mut state = lock(&self.feed.state);
        if let Some(info) = state.watchers.get_mut(&self.id) {
            info.can_answer = false;
        }
        state.update_attendance();
        drop(state);
        self.feed.changed.notify_waiters();
    }
}

impl Drop for FeedWatcher {
    fn drop(&mut self) {
        let mut state = lock(&self.feed.state);
        state.watchers.remove(&self.id);
        state.update_attendance();
        drop(state);
        self.feed.changed.notify_waiters();
    }
}
