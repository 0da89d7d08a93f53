//! The audit log: connections of MCP servers, changes of rules, and manual calls, all outside of sessions.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::error::Result;
use crate::history::journal::{Journal, JournalLog, new_record};
use crate::history::record::{RecordBody, RecordIds};
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
    /// The rules that were queued for recording last; `None` if that failed.
    last_rules: Mutex<Option<BTreeSet<String>>>,
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
            last_rules: Mutex::default(),
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
    pub fn record(&self, links: &RecordIds, body: RecordBody) -> Result<()> {
        self.log()?.append(links.clone(), body).map(drop)
    }

    /// Writes one record and waits until it is synced to disk, for records that permit an action.
    ///
    /// # Errors
    /// The record could not be written or synced: the action must not be done.
    pub async fn record_synced(&self, links: &RecordIds, body: RecordBody) -> Result<()> {
        self.record(links, body)?;
        self.log()?.synced().await
    }

    /// Writes one record and waits until it is written, for changes that are acknowledged to a client.
    ///
    /// # Errors
    /// The record could not be written.
    pub async fn record_written(&self, links: &RecordIds, body: RecordBody) -> Result<()> {
        self.record(links, body)?;
        self.log()?.written().await
    }

    /// Sets whether every record of the journal is synced (`history.sync`).
    pub fn sync_every_record(&self, every_record: bool) {
        self.journal.sync_every_record(every_record);
    }

    /// Records that a connection to an MCP server was made, failed or ended.
    pub fn server(&self, state: ServerState) {
        let event = match state.status {
            ConnectionStatus::Ready => "connected",
            ConnectionStatus::Failed => "failed",
            ConnectionStatus::LoginRequired => "login",
            ConnectionStatus::Disabled => "disconnected",
            ConnectionStatus::Starting => return,
        };
        let body = RecordBody::Server {
            alias: state.alias,
            event: event.to_string(),
            target: state.target,
            version: state.version,
            tools: state.tools,
            error: state.error,
        };
        // Permits nothing, so a failure is only logged.
        if let Err(e) = self.record(&self.links(), body) {
            tracing::warn!("{}", e.message);
        }
    }

    /// Records which rules changed since the configuration was last read. Blocks until the records are
    /// written, so that they precede every record made under the new rules.
    pub fn rules(self: &Arc<Self>, rules: &RuleSet) {
        let (now, log) = (lines(rules), self.clone());
        // Reads of the configuration that change no rule need no job.
        if lock(&self.last_rules).replace(now.clone()).as_ref() == Some(&now) {
            return;
        }
        if let Err(e) = log.record_rules(&now) {
            tracing::warn!("{}", e.message);
            // Not remembered, so that the next read of the configuration records it.
            *lock(&log.last_rules) = None;
        }
    }

    fn record_rules(&self, now: &BTreeSet<String>) -> Result<()> {
        let before = match fs::read_to_string(&self.rules) {
            Ok(text) => text.lines().map(str::to_string).collect(),
            Err(_) => lines(&RuleSet::default()),
        };
        let change = |sign: &str, line: &String| RecordBody::Policy {
            change: "changed".to_string(),
            what: format!("{sign} {line}"),
            grant: None,
            why: None,
        };
        let removed = before.difference(now).map(|line| change("-", line));
        let added = now.difference(&before).map(|line| change("+", line));
        let changes: Vec<RecordBody> = removed.chain(added).collect();
        if changes.is_empty() {
            return Ok(());
        }
        // Remembered after it was recorded: a change without a record is recorded the next time.
        self.record_all(changes)?;
        self.remember(now)
    }

    fn record_all(&self, bodies: Vec<RecordBody>) -> Result<()> {
        let records = bodies
            .into_iter()
            .map(|body| new_record(self.links(), body));
        let log = self.log()?;
        log.write(&records.collect::<Vec<_>>())?;
        log.flush()
    }

    fn remember(&self, rules: &BTreeSet<String>) -> Result<()> {
        let text: String = rules.iter().map(|line| format!("{line}\n")).collect();
        if let Some(state) = self.rules.parent() {
            paths::make_dir(state)?;
        }
        paths::replace_file(&self.rules, text.as_bytes())
    }

    fn links(&self) -> RecordIds {
        RecordIds {
            user: self.user.clone(),
            ..RecordIds::default()
        }
    }
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
