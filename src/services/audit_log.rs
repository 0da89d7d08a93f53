//! The audit log: connections of MCP servers, changes of rules, and manual calls, all outside of sessions.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

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
    rules_state: Arc<Mutex<RulesState>>,
    /// Login name for the records.
    user: Option<String>,
}

/// The rules whose changes were queued for recording.
#[derive(Debug, Default)]
struct RulesState {
    /// The rules of the last call of [`AuditLog::rules`]; `None` before the first one, and if recording them failed.
    last: Option<BTreeSet<String>>,
    /// A change was not recorded, so later ones must not be remembered.
    is_incomplete: bool,
}

impl RulesState {
    fn fail(&mut self) {
        self.last = None;
        self.is_incomplete = true;
    }
}

impl AuditLog {
    /// Returns the audit log of a user. The rules last seen are stored in `state`.
    pub fn new(journal: Journal, state: &Path, user: Option<String>) -> AuditLog {
        AuditLog {
            journal,
            log: Mutex::default(),
            rules: state.join("rules"),
            rules_state: Arc::default(),
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
        let before = {
            let mut state = lock(&self.rules_state);
            match state.last.replace(now.clone()) {
                Some(before) => before,
                None => {
                    state.is_incomplete = false;
                    self.remembered()
                }
            }
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
        let (path, state) = (self.rules.clone(), self.rules_state.clone());
        let queued = self.log().and_then(|log| {
            log.write(&changes)?;
            // Queued at once, so that a failed write is reported to this callback and to no other record.
            log.when_written(move |written| recorded(&state, &path, &now, written))
        });
        if let Err(e) = queued {
            tracing::warn!("{}", e.message);
            lock(&self.rules_state).fail();
        }
    }

    /// Returns the rules that this or an earlier daemon recorded last.
    fn remembered(&self) -> BTreeSet<String> {
        match paths::read_own(&self.rules).and_then(io::read_to_string) {
            Ok(text) => text.lines().map(str::to_string).collect(),
            Err(_) => lines(&RuleSet::default()),
        }
    }

    fn record_ids(&self) -> RecordIds {
        RecordIds {
            user: self.user.clone(),
            ..RecordIds::default()
        }
    }
}

/// Remembers rules whose changes were written. If these or earlier changes were not, the rules remembered last are compared
/// with the configuration again when it is read next.
fn recorded(state: &Mutex<RulesState>, path: &Path, now: &BTreeSet<String>, written: Result<()>) {
    // Not locked while the file is written: the runtime thread takes this lock.
    let is_incomplete = lock(state).is_incomplete;
    let remembered = match written {
        Ok(()) if is_incomplete => Ok(()),
        Ok(()) => remember(path, now),
        Err(e) => Err(e),
    };
    if let Err(e) = remembered {
        tracing::warn!("{}", e.message);
        lock(state).fail();
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
    use std::fs;

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

    /// An audit log below `dir`, and a function that waits for its writes.
    fn audit_log(dir: &Path) -> AuditLog {
        let journal = Journal::new(dir.join("journal"));
        AuditLog::new(journal, &dir.join("state"), Some("me".into()))
    }

    fn flush(audit_log: &AuditLog) {
        // Fails where a test made the file unwritable and the failure was not reported yet.
        if let Ok(log) = audit_log.log() {
            let _ = log.flush();
        }
    }

    fn allowing(subjects: &[&str]) -> RuleSet {
        let list = subjects.iter().map(|s| rule(RuleEffect::Allow, s));
        RuleSet {
            list: list.collect(),
            ..RuleSet::default()
        }
    }

    #[test]
    fn rule_changes_are_recorded_once_and_across_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let first = audit_log(dir);
        first.rules(&RuleSet::default());
        flush(&first);
        assert!(recorded(dir).is_empty());
        let mut rules = allowing(&["fs.*"]);
        rules.list.push(rule(RuleEffect::Deny, "op:destructive"));
        first.rules(&rules);
        first.rules(&rules);
        flush(&first);
        let added = [
            "+ allow fs.* (policy.rules.\"fs.*\")",
            "+ deny op:destructive (policy.rules.\"op:destructive\")",
        ];
        assert_eq!(recorded(dir), added);
        drop(first);
        // The next daemon: the configuration was changed while none ran.
        rules.list.remove(1);
        rules.default.effect = RuleEffect::Deny;
        let second = audit_log(dir);
        second.rules(&rules);
        flush(&second);
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
    fn changes_that_could_not_be_recorded_are_recorded_the_next_time() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        fs::create_dir(dir.join("journal")).unwrap();
        let file = dir.join("journal/audit.jsonl");
        // A symlink is not opened.
        std::os::unix::fs::symlink("/dev/full", &file).unwrap();
        let audit_log = audit_log(dir);
        // The second change is queued before the failure of the first one is known.
        audit_log.rules(&allowing(&["fs.read"]));
        audit_log.rules(&allowing(&["fs.read", "fs.list"]));
        flush(&audit_log);
        fs::remove_file(&file).unwrap();
        // Opened again with the next record.
        *lock(&audit_log.log) = None;
        audit_log.rules(&allowing(&["fs.read", "fs.list"]));
        flush(&audit_log);
        let added = [
            "+ allow fs.list (policy.rules.\"fs.list\")",
            "+ allow fs.read (policy.rules.\"fs.read\")",
        ];
        assert_eq!(recorded(dir), added);
        // Once.
        audit_log.rules(&allowing(&["fs.read", "fs.list"]));
        flush(&audit_log);
        assert_eq!(recorded(dir), added);
    }
}
