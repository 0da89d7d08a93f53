//! Watchers: cursors into a feed.

use std::sync::Arc;

use super::{FeedEntry, FeedState, TurnEvent, TurnFeed, lock};
use crate::protocol::tools::Reaction;

/// An item of a feed, borrowed from it.
#[derive(Debug, PartialEq)]
pub enum FeedItem<'a> {
    /// Text of the answer.
    Text(&'a str),
    /// This many bytes of text were dropped before the watcher read them.
    Gap(u64),
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
    pub(super) offset: u64,
    pub(super) progress: u64,
}

impl FeedWatcher {
    /// Returns the feed.
    pub fn feed(&self) -> &Arc<TurnFeed> {
        &self.feed
    }

    /// Waits until there is something to read.
    pub async fn ready(&self) {
        let news = |state: &FeedState| {
            let entries = state.entries.len();
            let text = self.entry + 1 == entries
                && matches!(state.entries[self.entry], FeedEntry::Text { end, .. } if end <= self.offset);
            let new = self.entry < entries && !text || state.progress.0 > self.progress;
            new.then_some(())
        };
        self.feed.wait_for(news).await;
    }

    /// Hands everything new to `sink`. Consecutive text comes in one piece.
    pub fn read(&mut self, mut sink: impl FnMut(FeedItem<'_>)) {
        let state = lock(&self.feed.state);
        while let Some(entry) = state.entries.get(self.entry) {
            match entry {
                FeedEntry::Text { start, end } => {
                    let mut from = self.offset.max(*start);
                    let kept = state.text_start.clamp(from, (*end).max(from));
                    if kept > from {
                        sink(FeedItem::Gap(kept - from));
                        from = kept;
                    }
                    if from < *end {
                        // Both are within the kept text, whose length is a usize.
                        let range =
                            (from - state.text_start) as usize..(*end - state.text_start) as usize;
                        sink(FeedItem::Text(&state.text[range]));
                    }
                    self.offset = (*end).max(from);
                    if self.entry + 1 == state.entries.len() {
                        // It may still grow.
                        break;
                    }
                }
                FeedEntry::Event(event) => {
                    let over = match &**event {
                        TurnEvent::ApprovalRequested(question) => !state.is_open(&question.id),
                        TurnEvent::ElicitationRequested(question) => !state.is_open(&question.id),
                        _ => false,
                    };
                    if !over {
                        sink(FeedItem::Event(event));
                    }
                }
            }
            self.entry += 1;
        }
        if state.progress.0 > self.progress {
            self.progress = state.progress.0;
            sink(FeedItem::Progress(&state.progress.1));
        }
    }

    /// Passes on the client's answer to a question.
    pub fn answer(&self, reaction: Reaction) {
        self.feed.answer(self.id, reaction);
    }

    /// Notes that the client cannot answer questions.
    pub fn cannot_answer(&self) {
        if let Some(info) = lock(&self.feed.state).watchers.get_mut(&self.id) {
            info.can_answer = false;
        }
        self.feed.changed.notify_waiters();
    }
}

impl Drop for FeedWatcher {
    fn drop(&mut self) {
        lock(&self.feed.state).watchers.remove(&self.id);
        self.feed.changed.notify_waiters();
    }
}
