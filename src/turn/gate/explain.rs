//! Explains the decision on a call without making it, using the same inputs as the gate.

use super::resolve::CallResolution;
use super::{CallGate, lock};
use crate::history::journal::now_ms;
use crate::safety::policy::{self, DecisionTrace};
use crate::tools::builtin::tool_action;
use crate::turn::outcome::CallEnd;

impl CallGate<'_> {
    /// Explains what the policy decides on call number `at`.
    ///
    /// # Errors
    /// The call ends before the policy is applied; how it ends.
    pub async fn explain(&mut self, at: usize) -> Result<DecisionTrace, CallEnd> {
        // Without arguments, the answer is about the tool.
        if self
            .resolved_call(at)
            .is_some_and(|call| call.arguments != "{}")
        {
            self.prepare(at).await;
        }
        let reasons = self.protection_reasons(at).await;
        self.set_protected(at, reasons);
        match self.resolutions.get(at) {
            Some(CallResolution::Call(resolved)) => {
                let mut request = self.call_request(resolved, &resolved.arguments);
                if resolved.is_work() && resolved.prepared.is_none() {
                    request.effects.action = tool_action(resolved.tool);
                }
                let grants = lock(&self.context.session.grants);
                Ok(policy::explain(&request, self.rules(), &grants, now_ms()))
            }
            Some(CallResolution::RefusedCall(refused)) => Err(refused.outcome()),
            None => Err(CallEnd::NoSuchTool),
        }
    }
}
