//! The events of all sessions as one stream of server-sent events.
//!
//! Records are sent in the order of their ids, which sort by time. Events that are not a record yet, such as the text of a running
//! answer, are sent once all records were sent.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Bytes;
use futures_util::future;
use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::ApiState;
use super::cursor::Cursor;
use super::event_order;
use super::events::{self, ApiEvent};
use super::pairing::PairingId;
use super::searched_text::SearchedText;
use super::stream::{CHUNK, HEARTBEAT, SEQ_BITS, StreamBase, append, seq, unpaired};
use crate::history::journal::now_ms;
use crate::history::record::Record;
use crate::session::conversation::SharedSession;
use crate::session::feed::TurnFeed;

/// Maximum number of sessions with a position of their own. Events of further sessions are sent once they are records.
const MAX_WITHIN: usize = 16;

/// Maximum number of positions in a cursor that is read: records that were sent in part have one too.
const MAX_PARSED: usize = 4 * MAX_WITHIN;

/// Number of sessions from which what is known of deleted sessions is dropped.
const MIN_TO_FORGET: usize = 1000;

/// A position in the events of all sessions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobalCursor {
    /// Id of the newest record that was delivered; UUIDv7, so that ids sort by time.
    record: String,
    /// Positions in sessions of which more was delivered than complete records, by the id of the session.
    within: BTreeMap<String, Cursor>,
}

impl GlobalCursor {
    /// Returns the position of now.
    pub fn now() -> GlobalCursor {
        GlobalCursor {
            record: uuid::Uuid::now_v7().to_string(),
            ..GlobalCursor::default()
        }
    }

    /// Reads a cursor; `None` if the text is none.
    pub fn parse(text: &str) -> Option<GlobalCursor> {
        // Only in the form that ids have.
        let id = |text: &str| {
            let id = uuid::Uuid::parse_str(text).ok()?.to_string();
            (id == text).then_some(id)
        };
        let mut fields = text.split('_');
        let record = id(fields.next()?)?;
        let mut within = BTreeMap::new();
        while let Some(session) = fields.next() {
            within.insert(id(session)?, fields.next()?.parse().ok()?);
            if within.len() > MAX_PARSED {
                return None;
            }
        }
        Some(GlobalCursor { record, within })
    }

    /// Time of the position in milliseconds since 1970.
    pub fn time_ms(&self) -> u64 {
        let id = uuid::Uuid::parse_str(&self.record).ok();
        let bytes = id.map(|id| id.into_bytes()).unwrap_or_default();
        bytes[..6]
            .iter()
            .fold(0, |ms, byte| ms << 8 | u64::from(*byte))
    }

    /// Returns the ids of the sessions with a position of their own.
    pub fn sessions(&self) -> impl Iterator<Item = &String> {
        self.within.keys()
    }

    fn text(&self) -> String {
        let within = self
            .within
            .iter()
            .map(|(id, cursor)| format!("_{id}_{cursor}"));
        self.record.clone() + &within.collect::<String>()
    }
}

/// See the module.
#[derive(Debug)]
pub struct GlobalStream {
    base: StreamBase,
    cursor: GlobalCursor,
    seen: SeenSessions,
    /// Sessions that were in the cursor or have changed since, until the stream has caught up.
    revisited: Vec<String>,
    searched: Arc<SearchedText>,
}

/// What was sent of each session since the stream began.
#[derive(Debug, Default)]
struct SeenSessions {
    by_id: HashMap<String, SeenSession>,
    /// Number of sessions at which the deleted ones are looked for.
    forget_at: usize,
}

#[derive(Debug, Default)]
struct SeenSession {
    /// Number of the next record.
    next: Option<usize>,
    /// The state that was sent last.
    status: Option<String>,
    /// The number of the last event.
    seq: u64,
}

impl SeenSessions {
    fn of(&mut self, session: &str) -> &mut SeenSession {
        self.by_id.entry(session.to_owned()).or_default()
    }

    /// Drops deleted sessions once there are many, so that a stream that is open for months stays small.
    fn forget_deleted(&mut self, exists: impl Fn(&str) -> bool) {
        if self.by_id.len() >= self.forget_at.max(MIN_TO_FORGET) {
            self.by_id.retain(|id, _| exists(id));
            self.forget_at = 2 * self.by_id.len();
        }
    }
}

impl GlobalStream {
    /// Creates a stream from a position. `changed` are the sessions that were written since.
    pub fn new(
        state: ApiState,
        cursor: GlobalCursor,
        changed: Vec<String>,
        follows: bool,
        permit: Option<OwnedSemaphorePermit>,
        pairing: Option<PairingId>,
    ) -> GlobalStream {
        GlobalStream {
            base: StreamBase::new(state, follows, permit, pairing),
            cursor,
            seen: SeenSessions::default(),
            revisited: changed,
            searched: Arc::default(),
        }
    }

    /// Returns the next events; `None` at the end.
    pub async fn chunk(&mut self) -> Option<Bytes> {
        let mut out = Vec::new();
        loop {
            self.base.look().await?;
            let sessions = self.sessions().await;
            while out.len() < CHUNK && self.append_record(&sessions, &mut out).await {}
            for session in &sessions {
                self.append_live(session, &mut out);
            }
            if out.len() < CHUNK {
                self.append_states(&sessions, &mut out);
                if !self.base.is_caught_up {
                    self.base.is_caught_up = true;
                    self.revisited.clear();
                    self.append_own("x.caught_up", &mut out);
                    self.base.has_ended = !self.base.follows;
                }
            }
            let feeds = self.feeds(&sessions);
            // They must not be held while waiting: they could not be deleted.
            drop(sessions);
            if !out.is_empty() {
                return Some(Bytes::from(out));
            }
            tokio::select! {
                () = self.base.state.end.cancelled() => return None,
                () = unpaired(&self.base.state, self.base.pairing) => return None,
                _ = self.base.changes.changed() => {}
                () = any_changed(&feeds) => {}
                () = tokio::time::sleep_until(self.base.heartbeat) => {
                    self.base.heartbeat = Instant::now() + HEARTBEAT;
                    self.append_own("x.heartbeat", &mut out);
                    return Some(Bytes::from(out));
                }
            }
        }
    }

    async fn sessions(&mut self) -> Vec<SharedSession> {
        let store = &self.base.state.services.sessions;
        let mut sessions: Vec<SharedSession> = Vec::new();
        self.seen
            .forget_deleted(|id| store.opened(id).is_some() || store.journal.has(id));
        // A session may be closed while its events wait for a client that reads nothing.
        let wanted: Vec<String> = self
            .revisited
            .iter()
            .chain(self.cursor.within.keys())
            .cloned()
            .collect();
        for id in wanted {
            if sessions.iter().any(|session| session.id == id) {
                continue;
            }
            match store.get(&id).await {
                Ok(session) => sessions.push(session),
                // It was deleted.
                Err(_) => drop(self.cursor.within.remove(&id)),
            }
        }
        // After the others were read from their files: a session that is held could not be deleted.
        let read: HashSet<String> = sessions.iter().map(|session| session.id.clone()).collect();
        let open = store.open().into_iter();
        sessions.extend(open.filter(|session| !read.contains(&session.id)));
        sessions
    }

    /// Appends the next event of the oldest record after the cursor. Returns false if there is none.
    async fn append_record(&mut self, sessions: &[SharedSession], out: &mut Vec<u8>) -> bool {
        let mut next: Vec<(String, &SharedSession, usize)> = Vec::new();
        for session in sessions {
            let number = self.next_record(session);
            let id = session.with_records(|records| Some(records.get(number)?.id.clone()));
            next.extend(id.map(|id| (id, session, number)));
        }
        let Some((record_id, session, number)) = next.into_iter().min_by(|a, b| a.0.cmp(&b.0))
        else {
            return false;
        };
        let within = self.cursor.within.remove(&session.id);
        let mut cursor = within.unwrap_or_else(|| Cursor::after(number));
        // Events of the running turn are sent again unless the cursor says that they were sent.
        let has_place = self.cursor.within.len() < MAX_WITHIN;
        if has_place && let Some(event) = event_order::earlier_event(session, &mut cursor) {
            advance_live_by_time(session, &mut cursor);
            let seq = seq(number, &event, &cursor);
            self.cursor.within.insert(session.id.clone(), cursor);
            self.append(&session.id, seq, &event, out);
            return true;
        }
        let is_searched = session.with_records(|records| {
            records
                .get(number)
                .is_none_or(|next| self.searched.is_of(next))
        });
        if !is_searched {
            self.searched = self.base.state.searched_texts.of(session, number).await;
        }
        let event = session
            .with_records(|records| events::record_event(records, &mut cursor, &self.searched));
        let Some(event) = event else { return false };
        let seq = seq(number, &event, &cursor);
        self.seen.of(&session.id).next = Some(cursor.record);
        let is_complete = cursor.record > number;
        if is_complete && record_id > self.cursor.record {
            self.cursor.record = record_id;
        }
        // Running work continues after the record.
        if !is_complete || has_place && session.hub.running().is_some() {
            self.cursor.within.insert(session.id.clone(), cursor);
        }
        self.append(&session.id, seq, &event, out);
        true
    }

    /// Appends an event of a session. Its number is larger than that of the event before it also where the position in the session
    /// was forgotten in between.
    fn append(&mut self, session: &str, seq: u64, event: &ApiEvent, out: &mut Vec<u8>) {
        let last = &mut self.seen.of(session).seq;
        *last = seq.max(*last + 1);
        let seq = *last;
        append(session, seq, &self.cursor.text(), event, out);
    }

    /// Returns the number of the next record of a session. Once the session was seen, records are counted: those of several
    /// sessions need not be written in the order of their ids.
    fn next_record(&mut self, session: &SharedSession) -> usize {
        if let Some(number) = self.seen.of(&session.id).next {
            return number;
        }
        let (id, within) = (&session.id, &mut self.cursor.within);
        let after = &self.cursor.record;
        // A position that the session cannot have was made up.
        let position = within.remove(id);
        let number = match position.filter(|cursor| event_order::fits(session, cursor)) {
            Some(cursor) => {
                let number = cursor.record;
                within.insert(id.clone(), cursor);
                number
            }
            None => session
                .with_records(|records| records.partition_point(|record| record.id <= *after)),
        };
        self.seen.of(id).next = Some(number);
        number
    }

    /// Appends events of a session that are not a record yet.
    fn append_live(&mut self, session: &SharedSession, out: &mut Vec<u8>) {
        let id = &session.id;
        let records = session.with_records(<[Record]>::len);
        let runs = session.hub.running().is_some();
        let may_begin = runs && self.cursor.within.len() < MAX_WITHIN;
        while out.len() < CHUNK && self.next_record(session) == records {
            let within = self.cursor.within.remove(id);
            let begun = || may_begin.then(|| Cursor::after(records));
            let Some(mut cursor) = within.or_else(begun) else {
                return;
            };
            let event = event_order::live_event(session, &mut cursor);
            if event.is_some() {
                advance_live_by_time(session, &mut cursor);
            }
            let seq = event
                .as_ref()
                .map_or(0, |event| seq(records, event, &cursor));
            self.cursor.within.insert(id.clone(), cursor);
            let Some(event) = event else { break };
            self.append(id, seq, &event, out);
        }
        let has_ended = |cursor: &Cursor| !runs && cursor.part == 0 && cursor.round.is_empty();
        if self.cursor.within.get(id).is_some_and(has_ended) {
            self.cursor.within.remove(id);
        }
    }

    /// Appends the state of each session that has changed.
    fn append_states(&mut self, sessions: &[SharedSession], out: &mut Vec<u8>) {
        for session in sessions {
            let (key, status) = events::status(session);
            // A client that has seen what happened before its cursor may have seen another state.
            let is_quiet = key.starts_with("idle")
                && self.seen.of(&session.id).status.is_none()
                && (self.base.is_caught_up || !self.revisited.contains(&session.id));
            let before = self.seen.of(&session.id).status.replace(key.clone());
            if before.as_ref() == Some(&key) || is_quiet {
                continue;
            }
            let event = ApiEvent {
                kind: "agent.status",
                timestamp_ms: None,
                payload: status,
                is_recorded: false,
            };
            let number = self.next_record(session);
            let mut cursor = Cursor::after(number);
            let within = self.cursor.within.get_mut(&session.id);
            cursor.live = within.as_ref().map_or(0, |within| within.live + 1);
            advance_live_by_time(session, &mut cursor);
            cursor.live = session.hub.next_state(number, cursor.live);
            if let Some(within) = within {
                within.live = cursor.live;
            }
            let seq = seq(number, &event, &cursor);
            self.append(&session.id, seq, &event, out);
        }
    }

    /// Appends an event that belongs to no session.
    fn append_own(&self, kind: &'static str, out: &mut Vec<u8>) {
        let event = ApiEvent {
            kind,
            timestamp_ms: None,
            payload: json!({ "next_cursor": self.cursor.text() }),
            is_recorded: false,
        };
        append("", 0, &self.cursor.text(), &event, out);
    }

    /// Returns what runs, with the position in it.
    fn feeds(&self, sessions: &[SharedSession]) -> Vec<(Arc<TurnFeed>, Cursor)> {
        let feeds = sessions.iter().filter_map(|session| {
            let cursor = self.cursor.within.get(&session.id)?;
            Some((session.hub.running()?, cursor.clone()))
        });
        feeds.collect()
    }
}

/// Moves the number of events that belong to no record on with the time since the record before them: so it grows also for a
/// client that comes back when the position in the session was forgotten.
fn advance_live_by_time(session: &SharedSession, cursor: &mut Cursor) {
    let before = cursor.record.checked_sub(1);
    let time = session.with_records(|records| Some(records.get(before?)?.timestamp_ms));
    let passed = time.map_or(0, |time| now_ms().saturating_sub(time));
    cursor.live = cursor.live.max(time_step(passed));
}

/// Returns a number that grows with a duration and has a place in `seq` for two years: milliseconds for 18 hours, within which
/// turns and their questions end, then seconds.
fn time_step(ms: u64) -> u64 {
    const FINE: u64 = 1 << (SEQ_BITS - 2);
    ms.min(FINE) + ms.saturating_sub(FINE) / 1000
}

/// Waits until one of the feeds has something after its position.
async fn any_changed(feeds: &[(Arc<TurnFeed>, Cursor)]) {
    let changes = feeds.iter().map(|(feed, cursor)| {
        let change = feed.live_changed((&cursor.round, cursor.text), cursor.position);
        Box::pin(change) as Pin<Box<dyn Future<Output = ()> + Send>>
    });
    let changes: Vec<_> = changes.collect();
    match changes.is_empty() {
        true => future::pending().await,
        false => drop(future::select_all(changes).await),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let mut cursor = GlobalCursor::now();
        assert_eq!(GlobalCursor::parse(&cursor.text()), Some(cursor.clone()));
        let mut within = Cursor::after(3);
        within.begin("0198f3c2-0000-7000-8000-0123456789ab");
        within.text = 12;
        for _ in 0..MAX_PARSED {
            let session = uuid::Uuid::now_v7().to_string();
            cursor.within.insert(session, within.clone());
        }
        assert_eq!(GlobalCursor::parse(&cursor.text()), Some(cursor.clone()));
        let more = format!("{}_{}_{within}", cursor.text(), uuid::Uuid::now_v7());
        assert_eq!(GlobalCursor::parse(&more), None);
    }

    #[test]
    fn deleted_sessions_are_forgotten_once_there_are_many() {
        let mut seen = SeenSessions::default();
        for number in 0..10 * MIN_TO_FORGET {
            seen.of(&number.to_string()).seq = 1;
            // Every tenth session is kept.
            seen.forget_deleted(|id| id.ends_with('0'));
        }
        assert!(seen.by_id.len() <= 2 * MIN_TO_FORGET);
        assert_eq!(seen.of("10").seq, 1);
    }

    #[test]
    fn seq_grows_with_time_for_two_years() {
        const HOUR: u64 = 3_600_000;
        let at = |ms| {
            let mut cursor = Cursor::after(3);
            cursor.live = time_step(ms);
            let event = ApiEvent {
                kind: "agent.status",
                timestamp_ms: None,
                payload: json!({}),
                is_recorded: false,
            };
            seq(3, &event, &cursor)
        };
        assert!(at(HOUR) < at(HOUR + 1));
        for hours in [17, 18, 19, 36, 37, 38, 100, 2 * 365 * 24] {
            assert!(at(hours * HOUR) < at(hours * HOUR + 1000), "{hours}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let id = uuid::Uuid::now_v7();
        for text in [
            String::new(),
            "1".to_owned(),
            format!("{id}_"),
            format!("{id}_{id}"),
            id.simple().to_string(),
            id.to_string().to_uppercase(),
            id.urn().to_string(),
            format!("{id}_{}_0.0.0..0..0.0.0", id.braced()),
            format!("{id}_0_0"),
            format!("{id}_{id}_1.2.3"),
            format!("{id}_x_0.0.0..0..0.0.0"),
            format!("{id}_{id}_0.0.0..0..0.0.0_"),
        ] {
            assert_eq!(GlobalCursor::parse(&text), None, "{text}");
        }
    }
}
