//! Ends the feed of a turn, even if the turn's task panics.

use std::sync::Arc;

use crate::error::Error;
use crate::protocol::RequestFailure;
use crate::session::conversation::SharedSession;
use crate::session::feed::{TurnEnd, TurnFeed};

/// Finishes the feed with a failure when it is dropped before [`FeedGuard::finish`]. Without it, a panic in the turn's
/// task would leave the watchers waiting forever, and the session would show the turn as running.
#[derive(Debug)]
pub struct FeedGuard {
    feed: Arc<TurnFeed>,
    session: Option<SharedSession>,
}

impl FeedGuard {
    /// Guards the feed of a turn of this session.
    pub fn new(feed: Arc<TurnFeed>, session: Option<SharedSession>) -> FeedGuard {
        FeedGuard { feed, session }
    }

    /// Returns the feed.
    pub fn feed(&self) -> &Arc<TurnFeed> {
        &self.feed
    }

    /// Returns the session.
    pub fn session(&self) -> Option<&SharedSession> {
        self.session.as_ref()
    }

    /// Finishes the feed.
    pub fn finish(self, end: TurnEnd) {
        self.end(end);
    }

    fn end(&self, end: TurnEnd) {
        self.feed.finish(end);
        if let Some(session) = &self.session {
            session.hub.clear();
        }
    }
}

impl Drop for FeedGuard {
    fn drop(&mut self) {
        if !self.feed.is_finished() {
            let error = Error::runtime("the turn failed because of an internal error")
                .hint("see daemon.log in the state directory");
            self.end(Err(RequestFailure::from(&error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::history::journal::Journal;
    use crate::history::record::RecordIds;
    use crate::session::feed::FeedOrigin;
    use crate::session::store::SessionStore;

    #[tokio::test]
    async fn a_panic_ends_the_feed_and_frees_the_hub() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Journal::new(dir.path().join("history"));
        let sessions = SessionStore::new(journal, dir.path().join("shells"));
        let session = sessions.create(None, &RecordIds::default());
        let feed = TurnFeed::new(FeedOrigin::of_request(None, None), CancellationToken::new());
        session.hub.install(feed.clone());
        assert!(session.hub.running().is_some());
        let next = TurnFeed::new(FeedOrigin::of_request(None, None), CancellationToken::new());
        next.set_prompt_id("p2");
        session.hub.wait(next.clone());
        assert_eq!(session.hub.waiting(), ["p2"]);
        for feed in [next, feed] {
            let guard = FeedGuard::new(feed.clone(), Some(session.clone()));
            let task = tokio::spawn(async move {
                let _guard = guard;
                panic!("a fault in the turn");
            });
            let failure = feed.finished().await.expect_err("a failure");
            assert!(failure.message.contains("internal error"), "{failure:?}");
            assert!(task.await.is_err());
            assert!(session.hub.waiting().is_empty());
        }
        assert!(session.hub.running().is_none());
    }
}
