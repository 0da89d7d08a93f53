//! What would be decided about a call: for a person who asks, so that it is said by whoever decides.

use super::resolve::CallResolution;
use super::{CallGate, lock};
use crate::history::journal::now_ms;
use crate::safety::policy::{self, DecisionTrace};
use crate::turn::outcome::CallEnd;

impl CallGate<'_> {
    /// What would be decided about the call at this place, and why.
    ///
    /// # Errors
    /// No rule is asked about it: how it would end.
    pub fn explain(&self, at: usize) -> Result<DecisionTrace, CallEnd> {
        match self.meant.get(at) {
            Some(CallResolution::Call(meant)) => {
                let wish = self.wish(meant, &meant.arguments);
                let grants = lock(&self.context.session.grants);
                Ok(policy::explain(&wish, self.rules(), &grants, now_ms()))
            }
            Some(CallResolution::RefusedCall(refused)) => Err(refused.outcome()),
            Some(CallResolution::Own) | None => Err(CallEnd::NoSuchTool),
        }
    }
}
