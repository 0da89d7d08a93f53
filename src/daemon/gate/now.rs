//! The rules in force now: what is denied while a turn runs, or while a person reads, holds for the rest of it.

use super::super::policy as in_force;
use super::{Gate, lock};
use crate::config::Overrides;
use crate::error::Result;
use crate::history::journal::now_ms;
use crate::safety::policy::{self, Decision, Grants, Rules, Wish};

/// What is said where nobody knows what is denied.
const UNKNOWN: &str = "unknown: the rules cannot be read now";

/// What has become of the rules since the prompt.
#[derive(Debug)]
pub(super) enum Now {
    /// Nothing.
    Same,
    /// These.
    Others(Rules),
    /// They cannot be known.
    Unknown,
}

impl Gate<'_> {
    /// Looks at the rules again.
    pub(super) async fn renew(&self) {
        let now = match self.rules_now().await {
            Ok(rules) if rules == self.round.config.policy => Now::Same,
            Ok(rules) => Now::Others(rules),
            Err(e) => {
                tracing::warn!("the rules cannot be read: {}", e.message);
                Now::Unknown
            }
        };
        *lock(&self.now) = now;
    }

    async fn rules_now(&self) -> Result<Rules> {
        let asks = self.round.asks;
        let overrides = Overrides::from_map(&asks.overrides)?;
        let mut config = self.round.daemon.models.config(&overrides)?;
        in_force::in_force(&mut config, &asks.cwd).await?;
        Ok(config.policy.clone())
    }

    /// Decides by the rules that the prompt began with and by those of now: whichever are stricter. One that allows more
    /// is for the servers that the configuration has now, and these are those of the prompt.
    pub(super) fn judge(&self, wish: &Wish<'_>, grants: &Grants) -> Decision {
        let by = |rules| policy::decide(wish, rules, grants, now_ms());
        let then = by(&self.round.config.policy);
        let now = match &*lock(&self.now) {
            Now::Same => return then,
            Now::Others(rules) => by(rules),
            Now::Unknown => Decision::Deny(UNKNOWN.to_owned()),
        };
        match now.word() > then.word() {
            true => now,
            false => then,
        }
    }
}
