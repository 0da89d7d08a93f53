//! What would be decided about a call: for a person who asks, so that it is said by whoever decides.

use super::resolve::Resolved;
use super::{Gate, lock};
use crate::history::journal::now_ms;
use crate::safety::policy::{self, Explained};
use crate::turn::outcome::Outcome;

impl Gate<'_> {
    /// What would be decided about the call at this place, and why.
    ///
    /// # Errors
    /// No rule is asked about it: how it would end.
    pub fn explain(&self, at: usize) -> Result<Explained, Outcome> {
        match self.meant.get(at) {
            Some(Resolved::Call(meant)) => {
                let wish = self.wish(meant, &meant.arguments);
                let grants = lock(&self.context.session.grants);
                Ok(policy::explain(&wish, self.rules(), &grants, now_ms()))
            }
            Some(Resolved::Refused(refused)) => Err(refused.outcome()),
            Some(Resolved::Own) | None => Err(Outcome::NoSuchTool),
        }
    }
}
