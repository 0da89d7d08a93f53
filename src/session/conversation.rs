//! One conversation: its records, its turn lock, and what was allowed in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::hub::SessionHub;
use super::lock;
use crate::error::{Error, Result};
use crate::history::journal::{JournalLog, new_record};
use crate::history::record::{Record, RecordBody, RecordIds};
use crate::protocol::ShellId;
use crate::safety::policy::GrantSet;

/// A conversation: records that anyone may add to, and a lock for turns, of which there is one at a time.
#[derive(Debug)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Held for a whole turn.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The feed of the running turn.
    pub hub: SessionHub,
    /// Held for one look or one write: a decision does not wait for another shell's answer.
    pub(super) kept: Mutex<SessionState>,
    /// The tools that the person has allowed for this session. In memory alone: a new daemon asks again.
    pub grants: Mutex<GrantSet>,
    /// The MCP servers that it goes without, and why, as it was told last.
    without: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug)]
pub(super) struct SessionState {
    /// Its file, or why it has none.
    pub(super) log: Result<Arc<JournalLog>>,
    /// All its records, in order. What could not be written is here all the same.
    records: Vec<Record>,
}

impl Session {
    pub(super) fn new(id: String, log: Result<JournalLog>, records: Vec<Record>) -> SharedSession {
        Arc::new(Session {
            id,
            turn: Arc::default(),
            hub: SessionHub::default(),
            kept: Mutex::new(SessionState {
                log: log.map(Arc::new),
                records,
            }),
            grants: Mutex::default(),
            without: Mutex::default(),
        })
    }

    /// What is done outside of conversations, and recorded in this file. It has no id, and what a person grants here ends
    /// with it.
    pub fn outside(log: Result<Arc<JournalLog>>) -> SharedSession {
        let session = Session::new(String::new(), Err(Error::runtime("")), Vec::new());
        lock(&session.kept).log = log;
        session
    }

    /// The lock that a turn holds.
    pub fn turn(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.turn.clone()
    }

    /// Keeps one record and queues its write.
    ///
    /// # Errors
    /// The session has no file; the record is kept in memory.
    pub fn record(&self, links: &RecordIds, body: RecordBody) -> Result<()> {
        self.record_all(links, [body])
    }

    /// Keeps these records and queues one write for all of them. [`Session::record_written`] tells whether it succeeded.
    ///
    /// # Errors
    /// The session has no file; the records are kept in memory.
    pub fn record_all(
        &self,
        links: &RecordIds,
        bodies: impl IntoIterator<Item = RecordBody>,
    ) -> Result<()> {
        let links = RecordIds {
            session: Some(self.id.clone()).filter(|id| !id.is_empty()),
            ..links.clone()
        };
        let mut kept = lock(&self.kept);
        let SessionState { log, records } = &mut *kept;
        let start = records.len();
        records.extend(
            bodies
                .into_iter()
                .map(|body| new_record(links.clone(), body)),
        );
        let log = log.as_ref().map_err(Clone::clone)?;
        log.write(&records[start..])
    }

    /// Returns the file of the session, to wait for its writes.
    ///
    /// # Errors
    /// The session has no file.
    pub fn log_handle(&self) -> Result<Arc<JournalLog>> {
        let kept = lock(&self.kept);
        kept.log.as_ref().map_err(Clone::clone).cloned()
    }

    /// Keeps one record and waits until it is written: for a record that is acknowledged, or whose failure is reported.
    ///
    /// # Errors
    /// The write failed; the record is kept in memory.
    pub async fn record_written(&self, links: &RecordIds, body: RecordBody) -> Result<()> {
        self.record(links, body)?;
        self.log_handle()?.written().await
    }

    /// Keeps these records and waits until they are synced to the disk: for a record that permits an act.
    ///
    /// # Errors
    /// The write or the sync failed; the act must not happen.
    pub async fn record_synced(
        &self,
        links: &RecordIds,
        bodies: impl IntoIterator<Item = RecordBody>,
    ) -> Result<()> {
        self.record_all(links, bodies)?;
        self.log_handle()?.synced().await
    }

    /// Looks at the records.
    pub fn with_records<T>(&self, look: impl FnOnce(&[Record]) -> T) -> T {
        look(&lock(&self.kept).records)
    }

    /// The model that was chosen for this session last.
    pub fn model(&self) -> Option<String> {
        self.with_records(|records| {
            records.iter().rev().find_map(|r| match &r.body {
                RecordBody::Model { model } => Some(model.clone()),
                _ => None,
            })
        })
    }

    /// What is new of the MCP servers that it goes without now: alias and reason.
    pub fn newly_unavailable(&self, now: &[(String, String)]) -> Vec<(String, String)> {
        let now: BTreeMap<_, _> = now.iter().cloned().collect();
        let told = std::mem::replace(&mut *lock(&self.without), now.clone());
        let mut news = now;
        news.retain(|alias, why| told.get(alias) != Some(why));
        news.into_iter().collect()
    }

    /// When this shell's last prompt in this session came, milliseconds since 1970: the model was
    /// told of what the shell had done until then.
    pub fn last_prompt_ms(&self, shell: &ShellId) -> u64 {
        let of_shell = |r: &&Record| matches!(&r.body, RecordBody::User { shell: Some(s), .. } if s == shell.as_str());
        self.with_records(|records| {
            records
                .iter()
                .rev()
                .find(of_shell)
                .map_or(0, |r| r.timestamp_ms)
        })
    }
}

/// The records since the last prompt.
pub fn since_last_prompt(records: &[Record]) -> &[Record] {
    let start = records
        .iter()
        .rposition(|r| matches!(r.body, RecordBody::User { .. }))
        .map_or(0, |at| at + 1);
    &records[start..]
}

/// A session that tasks share.
pub type SharedSession = Arc<Session>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_without_is_told_once_and_again_when_it_changes() {
        let session = Session::new(String::new(), Err(Error::runtime("none")), Vec::new());
        let news = |now: &[(&str, &str)]| {
            let now: Vec<_> = now
                .iter()
                .map(|(a, w)| ((*a).into(), (*w).into()))
                .collect();
            session.newly_unavailable(&now).len()
        };
        assert_eq!(news(&[("a", "starting"), ("b", "starting")]), 2);
        assert_eq!(news(&[("a", "starting"), ("b", "refused")]), 1);
        assert_eq!(news(&[("a", "starting"), ("b", "refused")]), 0);
        assert_eq!(news(&[("b", "refused")]), 0);
        // It was there in between.
        assert_eq!(news(&[("a", "starting"), ("b", "refused")]), 1);
    }
}
