//! The record of what is done outside of conversations: servers that come and go, rules that change, calls by hand.

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

/// The file of acts.
#[derive(Debug)]
pub struct AuditLog {
    journal: Journal,
    /// Opened by the first record: where the disk is full at the start it may not be later.
    log: Mutex<Option<Arc<JournalLog>>>,
    /// The rules that were in force when the configuration was last read, by this daemon or an earlier one: a line each.
    rules: PathBuf,
    /// Whose acts they are.
    user: Option<String>,
}

impl AuditLog {
    /// The acts of the user of this login name. What must be known after a restart is kept in `state`.
    pub fn new(journal: Journal, state: &Path, user: Option<String>) -> AuditLog {
        AuditLog {
            journal,
            log: Mutex::default(),
            rules: state.join("rules"),
            user,
        }
    }

    /// The open file.
    ///
    /// # Errors
    /// It cannot be made or repaired.
    pub fn log(&self) -> Result<Arc<JournalLog>> {
        let mut log = lock(&self.log);
        if let Some(log) = &*log {
            return Ok(log.clone());
        }
        let opened = Arc::new(self.journal.open_audit_log()?);
        *log = Some(opened.clone());
        Ok(opened)
    }

    /// Writes one record.
    ///
    /// # Errors
    /// It could not be written.
    pub fn record(&self, links: &RecordIds, body: RecordBody) -> Result<()> {
        self.log()?.append(links.clone(), body).map(drop)
    }

    /// Writes one record and waits until it is on the disk: for what permits an act.
    ///
    /// # Errors
    /// It could not be written or synced: then the act must not be.
    pub async fn record_synced(&self, links: &RecordIds, body: RecordBody) -> Result<()> {
        self.record(links, body)?;
        self.log()?.synced().await
    }

    /// Records one act and waits until it is written: for what is acknowledged.
    ///
    /// # Errors
    /// It could not be written.
    pub async fn record_written(&self, links: &RecordIds, body: RecordBody) -> Result<()> {
        self.record(links, body)?;
        self.log()?.written().await
    }

    /// Whether every record of the journal is synced (`history.sync`).
    pub fn sync_every_record(&self, every_record: bool) {
        self.journal.sync_every_record(every_record);
    }

    /// A connection to an MCP server was made or has ended.
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
        // It permits nothing: a call has a record of its own.
        if let Err(e) = self.record(&self.links(), body) {
            tracing::warn!("{}", e.message);
        }
    }

    /// The configuration was read: records which rules have come and gone since it was read before.
    pub fn rules(&self, rules: &RuleSet) {
        let now = lines(rules);
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
        let gone = before.difference(&now).map(|line| change("-", line));
        let come = now.difference(&before).map(|line| change("+", line));
        let changes: Vec<RecordBody> = gone.chain(come).collect();
        if changes.is_empty() {
            return;
        }
        // Remembered after it was recorded: what is in no record is recorded the next time.
        let noted = self.record_all(changes).and_then(|()| self.remember(&now));
        if let Err(e) = noted {
            tracing::warn!("{}", e.message);
        }
    }

    fn record_all(&self, bodies: Vec<RecordBody>) -> Result<()> {
        let records = bodies
            .into_iter()
            .map(|body| new_record(self.links(), body));
        // Rare, so that it may wait: what could not be written is not remembered either.
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

/// The rules in words, with where each stands. A key may hold a line end: such a rule shows it escaped.
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
    fn rules_that_come_and_go_are_recorded_once_and_across_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let acts = || {
            let journal = Journal::new(dir.join("journal"));
            AuditLog::new(journal, &dir.join("state"), Some("me".into()))
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
        // Another daemon: the file was changed while none ran.
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
        let acts = AuditLog::new(journal.clone(), dir, Some("me".into()));
        let rules = RuleSet {
            list: vec![rule(RuleEffect::Allow, "fs.read")],
            ..RuleSet::default()
        };
        acts.rules(&rules);
        fs::remove_file(&file).unwrap();
        AuditLog::new(journal, dir, Some("me".into())).rules(&rules);
        assert_eq!(recorded(dir).len(), 1);
    }
}
