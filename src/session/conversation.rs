//! One session: its records, its turn lock, and the grants of its user.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};

use super::changes::SessionChanges;
use super::hub::SessionHub;
use super::lock;
use crate::chat::CONTINUED;
use crate::context;
use crate::error::{Error, Result};
use crate::history::journal::{JournalLog, new_record};
use crate::history::record::{Record, RecordBody, RecordIds};
use crate::protocol::ShellId;
use crate::safety::policy::GrantSet;
use crate::workspace::ReadFiles;
use crate::workspace::changes::FileDigest;

/// A session. Any task may add records; turns run one at a time.
#[derive(Debug)]
pub struct Session {
    /// The session's id.
    pub id: String,
    /// Held for the duration of a turn.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Access to the running turn.
    pub hub: SessionHub,
    /// Locked for single reads and writes, never for a whole turn, so that decisions in other shells do not wait.
    pub(super) kept: Mutex<SessionState>,
    /// Tools that the user has allowed for this session. Kept in memory only: a new daemon asks again.
    pub grants: Mutex<GrantSet>,
    /// Number of the oldest prompts that the last request left out, because they exceeded the model's context window.
    pub dropped_prompts: AtomicUsize,
    /// Whether a server that leaves a part of the conversation out was reported.
    pub cut_reported: AtomicBool,
    /// Whether a summary was offered since the conversation last filled less of the model's context window.
    pub compaction_offered: AtomicBool,
    /// The files that the model has read or written in this session.
    pub read_files: Arc<ReadFiles>,
    /// MCP servers that were unavailable at the last call of [`Session::newly_unavailable`], with the reason.
    unavailable: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug)]
pub(super) struct SessionState {
    /// The session's file, or why it has none.
    pub(super) log: Result<Arc<JournalLog>>,
    /// All records in order, including those whose write failed.
    records: Vec<Record>,
}

impl Session {
    pub(super) fn new(
        id: String,
        log: Result<JournalLog>,
        records: Vec<Record>,
        changes: &SessionChanges,
    ) -> SharedSession {
        let read_files = Arc::new(known_files(&records));
        Arc::new(Session {
            turn: Arc::default(),
            hub: SessionHub::new(id.clone(), changes.clone()),
            id,
            kept: Mutex::new(SessionState {
                log: log.map(Arc::new),
                records,
            }),
            grants: Mutex::default(),
            dropped_prompts: AtomicUsize::new(0),
            cut_reported: AtomicBool::new(false),
            compaction_offered: AtomicBool::new(false),
            read_files,
            unavailable: Mutex::default(),
        })
    }

    /// Creates a session without an id for work outside of sessions, recorded in this file. Its grants end with it.
    pub fn outside(log: Result<Arc<JournalLog>>) -> SharedSession {
        let session = Session::new(
            String::new(),
            Err(Error::runtime("")),
            Vec::new(),
            &SessionChanges::default(),
        );
        lock(&session.kept).log = log;
        session
    }

    /// Returns the lock that a turn holds.
    pub fn turn(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.turn.clone()
    }

    /// Keeps one record and queues its write.
    ///
    /// # Errors
    /// The session has no file; the record is kept in memory.
    pub fn record(&self, record_ids: &RecordIds, body: RecordBody) -> Result<()> {
        self.record_all(record_ids, [body])
    }

    /// Keeps these records and queues one write for all of them. [`Session::record_written`] waits for the write and returns its result.
    ///
    /// # Errors
    /// The session has no file; the records are kept in memory.
    pub fn record_all(
        &self,
        record_ids: &RecordIds,
        bodies: impl IntoIterator<Item = RecordBody>,
    ) -> Result<()> {
        let record_ids = RecordIds {
            session: Some(self.id.clone()).filter(|id| !id.is_empty()),
            ..record_ids.clone()
        };
        let mut kept = lock(&self.kept);
        let SessionState { log, records } = &mut *kept;
        let start = records.len();
        records.extend(
            bodies
                .into_iter()
                .map(|body| new_record(record_ids.clone(), body)),
        );
        // Before anybody can read the records: clients must not get them before the events that precede them.
        if let Some(feed) = self.hub.running() {
            (start..records.len()).for_each(|number| feed.mark_record(number));
        }
        let log = log.as_ref().map_err(Clone::clone);
        let written = log.and_then(|log| log.write(&records[start..]));
        drop(kept);
        self.hub.announce();
        written
    }

    /// Returns the session's file, to wait for its writes.
    ///
    /// # Errors
    /// The session has no file.
    pub fn log_handle(&self) -> Result<Arc<JournalLog>> {
        let kept = lock(&self.kept);
        kept.log.as_ref().map_err(Clone::clone).cloned()
    }

    /// Keeps one record and queues its write; the future waits for it. For a record that is acknowledged, or whose failure is
    /// reported.
    ///
    /// # Errors
    /// The write failed; the record is kept in memory.
    pub fn record_written(
        &self,
        record_ids: &RecordIds,
        body: RecordBody,
    ) -> impl Future<Output = Result<()>> + use<> {
        let queued = self
            .record(record_ids, body)
            .and_then(|()| Ok(self.log_handle()?.written()));
        async move { queued?.await }
    }

    /// Keeps these records and waits until they are synced to disk: for a record that permits an action.
    ///
    /// # Errors
    /// The write or the sync failed; the action must not be executed.
    pub async fn record_synced(
        &self,
        record_ids: &RecordIds,
        bodies: impl IntoIterator<Item = RecordBody>,
    ) -> Result<()> {
        self.record_all(record_ids, bodies)?;
        self.log_handle()?.synced().await
    }

    /// Calls `read` with the records.
    pub fn with_records<T>(&self, read: impl FnOnce(&[Record]) -> T) -> T {
        read(&lock(&self.kept).records)
    }

    /// Returns the model last selected for this session.
    pub fn model(&self) -> Option<String> {
        self.with_records(|records| {
            records.iter().rev().find_map(|r| match &r.body {
                RecordBody::Model { model } => Some(Some(model.clone())),
                RecordBody::SessionSetting { setting, value } if setting == "model" => {
                    Some(value.clone())
                }
                _ => None,
            })
        })?
    }

    /// Returns the value of a setting of this session other than the model.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.with_records(|records| {
            records.iter().rev().find_map(|r| match &r.body {
                RecordBody::SessionSetting { setting, value } if setting == name => {
                    Some(value.clone())
                }
                _ => None,
            })
        })?
    }

    /// Returns the MCP servers that became unavailable since the last call, as `(alias, reason)`.
    pub fn newly_unavailable(&self, now: &[(String, String)]) -> Vec<(String, String)> {
        let now: BTreeMap<_, _> = now.iter().cloned().collect();
        let before = std::mem::replace(&mut *lock(&self.unavailable), now.clone());
        let mut new = now;
        new.retain(|alias, reason| before.get(alias) != Some(reason));
        new.into_iter().collect()
    }

    /// Returns when this shell's commands were last sent, in milliseconds since 1970.
    pub fn last_prompt_ms(&self, shell: &ShellId) -> LastPromptTimes {
        let of_shell = |r: &Record| matches!(&r.body, RecordBody::User { shell: Some(s), .. } if s == shell.as_str());
        self.with_records(|records| {
            let last = LastPrompts::of(records, of_shell);
            let time = |at: Option<usize>| at.map_or(0, |at| records[at].timestamp_ms);
            LastPromptTimes {
                told_ms: time(last.told),
                refused_ms: time(last.refused),
            }
        })
    }
}

/// When the commands of a shell were last sent, in milliseconds since 1970; 0 for never.
#[derive(Debug, Clone, Copy, Default)]
pub struct LastPromptTimes {
    /// With a prompt that is part of the conversation.
    pub told_ms: u64,
    /// With a later prompt that is left out.
    pub refused_ms: u64,
}

/// Returns the files that the model has read or written by these records.
fn known_files(records: &[Record]) -> ReadFiles {
    let known = ReadFiles::default();
    for record in records {
        if let RecordBody::Tool { files, .. } = &record.body {
            for file in files {
                let digest = file.sha256.as_deref().and_then(FileDigest::from_hex);
                known.set(
                    Path::new(&file.path),
                    digest.map(|digest| digest.0),
                    file.read,
                );
            }
        }
    }
    known
}

/// Returns how many prompts that nobody typed follow the last one that was typed.
pub fn continued_turns(records: &[Record]) -> u32 {
    let prompts = records
        .iter()
        .rev()
        .filter_map(|record| match &record.body {
            RecordBody::User { text, .. } => Some(text == CONTINUED),
            _ => None,
        });
    let count = prompts.take_while(|is_continued| *is_continued).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Whether a turn has recorded the prompt with this id.
pub fn has_begun(records: &[Record], prompt: &str) -> bool {
    let is_prompt = |record: &Record| {
        matches!(record.body, RecordBody::User { .. })
            && record.ids.prompt.as_deref() == Some(prompt)
    };
    records.iter().rev().any(is_prompt)
}

/// The records after the last prompt that is part of the conversation.
#[derive(Debug, Clone, Copy)]
pub struct SinceLastPrompt<'r> {
    /// Those that were sent with a prompt that is left out. They may be the cause, and are not sent again in full.
    pub refused: &'r [Record],
    /// The others.
    pub new: &'r [Record],
}

impl<'r> SinceLastPrompt<'r> {
    /// Divides the records of a session.
    pub fn of(records: &'r [Record]) -> SinceLastPrompt<'r> {
        let last = LastPrompts::of(records, |_| true);
        let behind = |at: Option<usize>| at.map_or(0, |at| at + 1);
        let (told, refused) = (behind(last.told), behind(last.refused));
        let new = refused.max(told);
        SinceLastPrompt {
            refused: &records[told..new],
            new: &records[new..],
        }
    }

    /// Returns all of them.
    pub fn all(self) -> impl Iterator<Item = &'r Record> {
        self.refused.iter().chain(self.new)
    }
}

/// The places of the last prompts.
struct LastPrompts {
    /// Of those that are part of the conversation.
    told: Option<usize>,
    /// Of those behind it that are left out.
    refused: Option<usize>,
}

impl LastPrompts {
    fn of(records: &[Record], is_wanted: impl Fn(&Record) -> bool) -> LastPrompts {
        let left_out = context::left_out(records);
        let is_prompt = |at: &usize| {
            let record = &records[*at];
            matches!(record.body, RecordBody::User { .. }) && is_wanted(record)
        };
        let mut newest = (0..records.len()).rev().filter(is_prompt);
        let is_told = |at: &usize| !left_out.contains(at);
        let first = newest.next();
        match first {
            Some(at) if !is_told(&at) => LastPrompts {
                told: newest.find(is_told),
                refused: first,
            },
            told => LastPrompts {
                told,
                refused: None,
            },
        }
    }
}

/// A session shared between tasks.
pub type SharedSession = Arc<Session>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_server_is_reported_once_and_again_when_its_reason_changes() {
        let session = Session::outside(Err(Error::runtime("none")));
        let reported = |now: &[(&str, &str)]| {
            let now: Vec<_> = now
                .iter()
                .map(|(a, w)| ((*a).into(), (*w).into()))
                .collect();
            session.newly_unavailable(&now).len()
        };
        assert_eq!(reported(&[("a", "starting"), ("b", "starting")]), 2);
        assert_eq!(reported(&[("a", "starting"), ("b", "refused")]), 1);
        assert_eq!(reported(&[("a", "starting"), ("b", "refused")]), 0);
        assert_eq!(reported(&[("b", "refused")]), 0);
        // It was available in between.
        assert_eq!(reported(&[("a", "starting"), ("b", "refused")]), 1);
    }

    #[test]
    fn what_was_sent_with_a_refused_prompt_is_told_from_what_is_new() {
        let record = |fields: &str| -> Record {
            let text = format!("{{\"v\":2,\"id\":\"x\",\"timestamp_ms\":1,{fields}}}");
            serde_json::from_str(&text).unwrap()
        };
        let prompt = record(r#""type":"user","prompt":"a","rendered":"a","shell":null,"cwd":"/""#);
        let answer = |rest| {
            let fields = r#""type":"assistant","model":"m","duration_ms":1,"#;
            record(&format!("{fields}{rest}"))
        };
        let answered = answer(r#""text":"A","finish":"stop""#);
        let refused = answer(r#""text":"","finish":"error","refused":true"#);
        let result =
            record(r#""type":"command_result","token":"t","command":"ls","exit":0,"output":null"#);
        let compaction = record(r#""type":"compaction","prompts":1"#);
        let told = [prompt.clone(), answered, result.clone()];
        let again = [prompt, refused.clone()];
        for (more, in_refused, in_new) in [
            (vec![], 0, 2),
            (vec![compaction, refused], 0, 4),
            (again.to_vec(), 3, 1),
            ([&again[..], &[result], &again].concat(), 6, 1),
        ] {
            let records = [told.to_vec(), more].concat();
            let since = SinceLastPrompt::of(&records);
            assert_eq!((since.refused.len(), since.new.len()), (in_refused, in_new));
        }
    }
}
