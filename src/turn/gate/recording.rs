//! Records decisions on calls.

use super::{CallGate, lock};
use crate::chat::ToolCall;
use crate::error::Result;
use crate::history::record::{ApprovalDecision, RecordBody};
use crate::session::feed::AnswerPlace;

/// A decision on a call, as it is recorded.
#[derive(Debug)]
pub(super) struct RecordedDecision<'d> {
    /// The decision, as in [`RecordBody::Approval`].
    pub(super) decision: ApprovalDecision,
    pub(super) why: Option<String>,
    pub(super) arguments: &'d str,
    pub(super) digest: Option<String>,
}

impl CallGate<'_> {
    /// Records that a call is not made.
    pub(super) fn record_denial(
        &self,
        call: &ToolCall,
        at: usize,
        decision: ApprovalDecision,
        why: Option<String>,
    ) {
        let arguments = self.account(at).arguments.unwrap_or_default();
        let decided = RecordedDecision {
            decision,
            why,
            arguments: &arguments,
            digest: None,
        };
        // If this fails, so does the record of the result, which reports it.
        let record = self.approval(call, at, decided);
        let _ = self
            .context
            .session
            .record(&self.context.record_ids, record);
    }

    /// Returns the record of a decision on call number `at`.
    pub(super) fn approval(
        &self,
        call: &ToolCall,
        at: usize,
        decided: RecordedDecision<'_>,
    ) -> RecordBody {
        let account = self.account(at);
        let AnswerPlace { terminal, browser } = std::mem::take(&mut *lock(&self.answered_on));
        RecordBody::Approval {
            call: call.id.clone(),
            name: account.name.unwrap_or_else(|| call.name.clone()),
            decision: decided.decision,
            why: decided.why,
            arguments: decided.arguments.to_string(),
            digest: decided.digest,
            act: account.act,
            terminal,
            browser,
        }
    }

    /// Writes an approval and waits until it is synced to disk.
    ///
    /// The same sync covers the following calls, from `next` on up to the first one that needs a question, so that a
    /// round waits for the disk once. The policy is applied again when it is their turn.
    pub(super) async fn record_synced(
        &mut self,
        mut records: Vec<RecordBody>,
        next: usize,
    ) -> Result<()> {
        self.prepare_reads(next).await;
        let mut recorded = Vec::new();
        for (at, call) in self.calls.iter().enumerate().skip(next) {
            // Calls without an approval record need no sync.
            let Some(resolved) = self.resolved_call(at) else {
                continue;
            };
            if resolved.is_builtin_read() {
                continue;
            }
            let Some((approved, rule)) = self.by_rule(resolved) else {
                break;
            };
            let digest = approved.digest();
            recorded.push((at, digest.clone()));
            let decided = RecordedDecision {
                decision: ApprovalDecision::Rule,
                why: reason_with_warning(Some(rule), resolved.warning.as_ref()),
                arguments: &resolved.arguments,
                digest: Some(digest),
            };
            records.push(self.approval(call, at, decided));
        }
        let (session, record_ids) = (self.context.session, &self.context.record_ids);
        session.record_synced(record_ids, records).await?;
        self.recorded.extend(recorded);
        Ok(())
    }
}

/// Returns why a call was allowed, with what contradicts its declared intent.
pub(super) fn reason_with_warning(
    rule: Option<String>,
    warning: Option<&String>,
) -> Option<String> {
    match (rule, warning) {
        (Some(rule), Some(warning)) => Some(format!("{rule}; {warning}")),
        (rule, warning) => rule.or_else(|| warning.cloned()),
    }
}
