//! The audit log: connections of MCP servers, changes of rules, and manual calls, all outside of sessions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::ordered_writes::OrderedWrites;
use crate::error::Result;
use crate::history::journal::{Journal, JournalLog, new_record};
use crate::history::record::{PolicyChange, Record, RecordBody, RecordIds, ServerEvent};
use crate::mcp::{ConnectionStatus, ServerState};
use crate::paths;
use crate::safety::policy::RuleSet;
use crate::session::lock;

/// Writes the audit log.
#[derive(Debug)]
pub struct AuditLog {
    journal: Journal,
    /// Opened by the first record: a disk that is full at the start may have space later.
    log: Mutex<Option<Arc<JournalLog>>>,
    /// File with the rules that were in force when this or an earlier daemon last read the configuration, one per line.
    rules: PathBuf,
    /// The rules of the last call of [`AuditLog::rules`]; `None` before the first one, and if recording them failed.
    last_rules: Arc<Mutex<Option<BTreeSet<String>>>>,
    writes: OrderedWrites,
    /// Login name for the records.
    user: Option<String>,
}

impl AuditLog {
    /// Returns the audit log of a user. The rules last seen are stored in `state`.
    pub fn new(journal: Journal, state: &Path, user: Option<String>) -> AuditLog {
        AuditLog {
            journal,
            log: Mutex::default(),
            rules: state.join("rules"),
            last_rules: Arc::default(),
            writes: OrderedWrites::default(),
            user,
        }
    }

    /// Returns the log, opening it on first use.
    ///
    /// # Errors
    /// The file cannot be created or repaired.
    pub fn log(&self) -> Result<Arc<JournalLog>> {
        let mut log = lock(&self.log);
        if let Some(log) = &*log {
            return Ok(log.clone());
        }
        let opened = Arc::new(self.journal.open_audit_log()?);
        *log = Some(opened.clone());
        Ok(opened)
    }

    /// Queues one record.
    ///
    /// # Errors
    /// The file cannot be opened, or the writer thread has stopped.
    pub fn record(&self, record_ids: &RecordIds, body: RecordBody) -> Result<()> {
        self.log()?.append(record_ids.clone(), body).map(drop)
    }

    /// Writes one record and waits until it is synced to disk, for records that permit an action.
    ///
    /// # Errors
    /// The record could not be written or synced: the action must not be done.
    pub async fn record_synced(&self, record_ids: &RecordIds, body: RecordBody) -> Result<()> {
        self.record(record_ids, body)?;
        self.log()?.synced().await
    }

    /// Writes one record and waits until it is written, for changes that are acknowledged to a client.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn record_written(&self, record_ids: &RecordIds, body: RecordBody) -> Result<()> {
        self.record(record_ids, body)?;
        self.log()?.written().await
    }

    /// Sets whether every record of the journal is synced (`history.sync`).
    pub fn sync_every_record(&self, every_record: bool) {
        self.journal.sync_every_record(every_record);
    }

    /// Records that a connection to an MCP server was made, failed or ended.
    pub fn server(&self, state: ServerState) {
        let event = match state.status {
            ConnectionStatus::Ready => ServerEvent::Connected,
            ConnectionStatus::Failed => ServerEvent::Failed,
            ConnectionStatus::LoginRequired => ServerEvent::Login,
            ConnectionStatus::Disabled => ServerEvent::Disconnected,
            ConnectionStatus::Starting => return,
        };
        let body = RecordBody::Server {
            alias: state.alias,
            event,
            target: state.target,
            version: state.version,
            tools: state.tools,
            error: state.error,
        };
        // Permits nothing, so a failure is only logged.
        if let Err(e) = self.record(&self.record_ids(), body) {
            tracing::warn!("{}", e.message);
        }
    }

    /// Records which rules changed since the configuration was last read. The records are queued before this returns, so
    /// that they precede every record made under the new rules; the disk is not waited for.
    pub fn rules(&self, rules: &RuleSet) {
        let now = lines(rules);
        let before = match lock(&self.last_rules).replace(now.clone()) {
            Some(before) => before,
            None => self.remembered(),
        };
        if before == now {
            return;
        }
        let change = |sign: &str, line: &String| {
            let body = RecordBody::Policy {
                change: PolicyChange::Changed,
                what: format!("{sign} {line}"),
                grant: None,
                why: None,
            };
            new_record(self.record_ids(), body)
        };
        let removed = before.difference(&now).map(|line| change("-", line));
        let added = now.difference(&before).map(|line| change("+", line));
        let changes: Vec<Record> = removed.chain(added).collect();
        let queued = self.log().and_then(|log| {
            log.write(&changes)?;
            Ok(log)
        });
        let (path, last_rules) = (self.rules.clone(), self.last_rules.clone());
        self.writes.push(move || {
            // Remembered after it was recorded: a change without a record is recorded the next time.
            let recorded = queued.and_then(|log| {
                log.flush()?;
                remember(&path, &now)
            });
            if let Err(e) = recorded {
                tracing::warn!("{}", e.message);
                lock(&last_rules).take_if(|last| *last == now);
            }
        });
    }

    /// Returns the rules that this or an earlier daemon recorded last.
    fn remembered(&self) -> BTreeSet<String> {
        match fs::read_to_string(&self.rules) {
            Ok(text) => text.lines().map(str::to_string).collect(),
            Err(_) => lines(&RuleSet::default()),
        }
    }

    /// Waits for queued writes, before the daemon ends.
    pub fn finish_writes(&self) {
        self.writes.finish();
    }

    fn record_ids(&self) -> RecordIds {
        RecordIds {
            user: self.user.clone(),
            ..RecordIds::default()
        }
    }
}

/// Writes the rules to the file that the next daemon compares with.
fn remember(path: &Path, rules: &BTreeSet<String>) -> Result<()> {
    let text: String = rules.iter().map(|line| format!("{line}\n")).collect();
    if let Some(state) = path.parent() {
        paths::make_dir(state)?;
    }
    paths::replace_file(path, text.as_bytes())
}

/// Returns the rules as lines, each with its source. Line ends within a rule are escaped.
fn lines(rules: &RuleSet) -> BTreeSet<String> {
    let default = &rules.default;
    let default = format!(
        "{} by default ({})",
        default.effect.as_str(),
        default.source
    );
    let each = rules.list.iter().map(|rule| {
        format!(
            "{} {} ({})",
            rule.effect.as_str(),
            rule.subject,
            rule.source
        )
    });
    let all = each.chain([default]);
    all.map(|line| line.replace('\n', "\\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::policy::{PolicyRule, RuleEffect, RuleSubject};

    fn rule(word: RuleEffect, subject: &str) -> PolicyRule {
        PolicyRule {
            subject: RuleSubject::parse(subject).unwrap(),
            effect: word,
            source: format!("policy.rules.\"{subject}\""),
        }
    }

    fn recorded(dir: &Path) -> Vec<String> {
        let text = fs::read_to_string(dir.join("journal/audit.jsonl")).unwrap_or_default();
        text.lines()
            .map(|line| {
                let record: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(record["ids"]["user"], "me");
                assert_eq!(record["change"], "changed");
                record["rule"].as_str().unwrap().to_string()
            })
            .collect()
    }

    #[test]
    fn rule_changes_are_recorded_once_and_across_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let acts = || {
            let journal = Journal::new(dir.join("journal"));
            Arc::new(AuditLog::new(
                journal,
                &dir.join("state"),
                Some("me".into()),
            ))
        };
        let first = acts();
        first.rules(&RuleSet::default());
        assert!(recorded(dir).is_empty());
        let mut rules = RuleSet {
            list: vec![
                rule(RuleEffect::Allow, "fs.*"),
                rule(RuleEffect::Deny, "op:destructive"),
            ],
            ..RuleSet::default()
        };
        first.rules(&rules);
        first.rules(&rules);
        let come = [
            "+ allow fs.* (policy.rules.\"fs.*\")",
            "+ deny op:destructive (policy.rules.\"op:destructive\")",
        ];
        assert_eq!(recorded(dir), come);
        drop(first);
        // The next daemon: the configuration was changed while none ran.
        rules.list.remove(1);
        rules.default.effect = RuleEffect::Deny;
        acts().rules(&rules);
        assert_eq!(
            recorded(dir)[2..],
            [
                "- ask by default (policy.default)",
                "- deny op:destructive (policy.rules.\"op:destructive\")",
                "+ deny by default (policy.default)",
            ]
        );
    }

    #[test]
    fn a_change_that_could_not_be_recorded_is_recorded_the_next_time() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::create_dir(dir.join("journal")).unwrap();
        let file = dir.join("journal/audit.jsonl");
        std::os::unix::fs::symlink("/dev/full", &file).unwrap();
        let journal = Journal::new(dir.join("journal"));
        let acts = Arc::new(AuditLog::new(journal.clone(), dir, Some("me".into())));
        let rules = RuleSet {
            list: vec![rule(RuleEffect::Allow, "fs.read")],
            ..RuleSet::default()
        };
        acts.rules(&rules);
        fs::remove_file(&file).unwrap();
        Arc::new(AuditLog::new(journal, dir, Some("me".into()))).rules(&rules);
        assert_eq!(recorded(dir).len(), 1);
    }
}
