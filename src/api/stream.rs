//! The events of one session as server-sent events, and the parts shared with those of all sessions (`global_stream`).
//!
//! A stream is a cursor, not a queue: it reads what comes next when its client can take more, about 8 KB at a time. A client
//! that stopped reading costs one small buffer, and reads the rest from the journal when it continues.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::ApiState;
use super::cursor::Cursor;
use super::event_order;
use super::events::{self, ApiEvent};
use super::pairing::PairingId;
use super::searched_text::SearchedText;
use crate::history::journal::now_ms;
use crate::session::conversation::{Session, SharedSession};
use crate::session::pages::FollowingPage;

/// Size above which no further event is added to a chunk, in bytes.
pub(super) const CHUNK: usize = 8 << 10;
/// Time between two heartbeats.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(15);
/// Bits of `seq` below the number of the record.
pub(super) const SEQ_BITS: u32 = 28;

/// The common parts of both kinds of streams.
#[derive(Debug)]
pub(super) struct StreamBase {
    pub state: ApiState,
    pub changes: watch::Receiver<u64>,
    /// Whether the stream continues once everything was sent.
    pub follows: bool,
    pub is_caught_up: bool,
    pub has_ended: bool,
    pub heartbeat: Instant,
    /// The pairing with whose bearer the stream was opened, and with which it ends.
    pub pairing: Option<PairingId>,
    /// Counts the stream while it exists, if it follows.
    _permit: Option<OwnedSemaphorePermit>,
}

impl StreamBase {
    pub fn new(
        state: ApiState,
        follows: bool,
        permit: Option<OwnedSemaphorePermit>,
        pairing: Option<PairingId>,
    ) -> StreamBase {
        StreamBase {
            changes: state.services.sessions.changes.subscribe(),
            state,
            follows,
            is_caught_up: false,
            has_ended: false,
            heartbeat: Instant::now() + HEARTBEAT,
            pairing,
            _permit: permit,
        }
    }

    /// Gives way to other tasks, which a client that reads fast must not keep waiting, and marks what has changed as seen. Returns
    /// whether anything had changed; `None` if the stream is over.
    pub async fn look(&mut self) -> Option<bool> {
        if self.has_ended || self.state.end.is_cancelled() {
            return None;
        }
        tokio::task::yield_now().await;
        let has_changed = self.changes.has_changed().unwrap_or(false);
        self.changes.borrow_and_update();
        Some(has_changed)
    }
}

/// Waits until the pairing has ended.
pub(super) async fn unpaired(state: &ApiState, pairing: Option<PairingId>) {
    match pairing {
        Some(pairing) => state.credentials.pairings.ended(pairing).await,
        None => std::future::pending().await,
    }
}

/// Why a stream continues.
enum Wake {
    Changed,
    Heartbeat,
    End,
}

/// The events of one session.
#[derive(Debug)]
pub struct SessionStream {
    base: StreamBase,
    session: String,
    cursor: Cursor,
    searched: Arc<SearchedText>,
    /// The state of the session that was sent last.
    status: Option<String>,
    /// Counts a paired browser while it follows.
    _page: Option<FollowingPage>,
}

impl SessionStream {
    /// Creates a stream from a position.
    pub fn new(
        state: ApiState,
        session: String,
        cursor: Cursor,
        follows: bool,
        permit: Option<OwnedSemaphorePermit>,
        pairing: Option<PairingId>,
    ) -> SessionStream {
        let pages = &state.services.sessions.changes.pages;
        let is_page = follows && pairing.is_some();
        SessionStream {
            _page: is_page.then(|| pages.follow(&session)),
            base: StreamBase::new(state, follows, permit, pairing),
            session,
            cursor,
            searched: Arc::default(),
            status: None,
        }
    }

    /// Returns the next events; `None` at the end.
    pub async fn chunk(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        loop {
            let has_missed = self.base.look().await?;
            match self.opened(has_missed).await {
                Some(session) => self.fill(&session, &mut out).await,
                None if self.base.is_caught_up && self.exists() => {}
                None => {
                    self.base.has_ended = true;
                    self.append("x.session.deleted", json!({}), &mut out);
                }
            }
            if !out.is_empty() {
                return Some(Bytes::from(out));
            }
            match self.wake().await {
                Wake::Changed => {}
                Wake::Heartbeat => {
                    self.base.heartbeat = Instant::now() + HEARTBEAT;
                    self.append_cursor("x.heartbeat", &mut out);
                    return Some(Bytes::from(out));
                }
                Wake::End => return None,
            }
        }
    }

    fn exists(&self) -> bool {
        self.base.state.services.sessions.journal.has(&self.session)
    }

    /// Returns the session. Once everything was sent, a closed one stays closed: only an open one can change, but it may have been
    /// closed again while the client took nothing (`has_missed`).
    async fn opened(&self, has_missed: bool) -> Option<SharedSession> {
        let sessions = &self.base.state.services.sessions;
        match sessions.opened(&self.session) {
            Some(session) => Some(session),
            None if self.base.is_caught_up && !has_missed => None,
            None => sessions.get(&self.session).await.ok(),
        }
    }

    /// Appends new events.
    async fn fill(&mut self, session: &Session, out: &mut Vec<u8>) {
        while out.len() < CHUNK {
            let record = self.cursor.record;
            let is_searched = session.with_records(|records| {
                records
                    .get(record)
                    .is_none_or(|next| self.searched.is_of(next))
            });
            if !is_searched {
                self.searched = self.base.state.searched_texts.of(session, record).await;
            }
            let Some(event) = event_order::next(session, &mut self.cursor, &self.searched) else {
                break;
            };
            let seq = seq(record, &event, &self.cursor);
            let cursor = self.cursor.text_in(&self.session);
            append(&self.session, seq, &cursor, &event, out);
        }
        if out.len() >= CHUNK {
            return;
        }
        let (key, status) = events::status(session);
        if self.status.as_ref() != Some(&key) {
            self.status = Some(key);
            self.append("agent.status", status, out);
        }
        if !self.base.is_caught_up {
            self.base.is_caught_up = true;
            self.append_cursor("x.caught_up", out);
            self.base.has_ended = !self.base.follows;
        }
    }

    /// Appends an event that belongs to no record.
    fn append(&mut self, kind: &'static str, payload: Value, out: &mut Vec<u8>) {
        self.append_with(kind, |_| payload, out);
    }

    /// Appends an event that tells its own cursor, with which a client continues behind it.
    fn append_cursor(&mut self, kind: &'static str, out: &mut Vec<u8>) {
        self.append_with(kind, |cursor| json!({ "next_cursor": cursor }), out);
    }

    fn append_with(
        &mut self,
        kind: &'static str,
        payload: impl FnOnce(&str) -> Value,
        out: &mut Vec<u8>,
    ) {
        self.cursor.live += 1;
        let cursor = self.cursor.text_in(&self.session);
        let event = ApiEvent {
            kind,
            timestamp_ms: None,
            payload: payload(&cursor),
            is_recorded: false,
        };
        let seq = seq(self.cursor.record, &event, &self.cursor);
        append(&self.session, seq, &cursor, &event, out);
    }

    /// Waits for something new.
    async fn wake(&mut self) -> Wake {
        let opened = self.base.state.services.sessions.opened(&self.session);
        // The session must not be held while waiting: it could not be deleted.
        let feed = opened.and_then(|session| session.hub.running());
        let Cursor {
            round,
            text,
            position,
            ..
        } = &self.cursor;
        let of_feed = async {
            match &feed {
                Some(feed) => feed.live_changed((round, *text), *position).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.base.state.end.cancelled() => Wake::End,
            () = unpaired(&self.base.state, self.base.pairing) => Wake::End,
            _ = self.base.changes.changed() => Wake::Changed,
            () = of_feed => Wake::Changed,
            () = tokio::time::sleep_until(self.base.heartbeat) => Wake::Heartbeat,
        }
    }
}

/// Number of an event, which grows with each event of a session. Those of a record have the upper half of its numbers.
pub(super) fn seq(record: usize, event: &ApiEvent, cursor: &Cursor) -> u64 {
    let half = 1 << (SEQ_BITS - 1);
    let within = match (event.is_recorded, cursor.record > record) {
        (true, true) => half + half - 1,
        (true, false) => half + (cursor.text + cursor.part).min(half as usize - 2) as u64,
        (false, _) => cursor.live.min(half - 1),
    };
    ((record as u64) << SEQ_BITS) + within
}

/// Appends an event in the format of server-sent events.
pub(super) fn append(session: &str, seq: u64, cursor: &str, event: &ApiEvent, out: &mut Vec<u8>) {
    let at = event.timestamp_ms.unwrap_or_else(now_ms);
    let at = chrono::DateTime::from_timestamp_millis(i64::try_from(at).unwrap_or(i64::MAX));
    let envelope = json!({
        "type": event.kind,
        "session_id": session,
        "agent_id": null,
        "seq": seq,
        "ts": at.unwrap_or_default().to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        "payload": event.payload,
    });
    out.extend_from_slice(format!("id: {cursor}\nevent: {}\ndata: ", event.kind).as_bytes());
    // Serializing JSON to memory cannot fail; it contains no line end.
    let _ = serde_json::to_writer(&mut *out, &envelope);
    out.extend_from_slice(b"\n\n");
}
