//! The rules in force now: what is denied while a turn runs, or while a person reads, holds for the rest of it.

use super::super::rules_in_force;
use super::{CallGate, lock};
use crate::config::ConfigOverrides;
use crate::error::Result;
use crate::history::journal::now_ms;
use crate::safety::policy::{self, CallRequest, GrantSet, PolicyDecision, RuleSet};

/// What is said where nobody knows what is denied.
const UNKNOWN: &str = "unknown: the rules cannot be read now";

/// What has become of the rules since the prompt.
#[derive(Debug)]
pub(super) enum RulesNow {
    /// Nothing.
    Same,
    /// These.
    Others(RuleSet),
    /// They cannot be known.
    Unknown,
}

impl CallGate<'_> {
    /// Looks at the rules again.
    pub(super) async fn renew(&self) {
        let now = match self.rules_now().await {
            Ok(rules) if rules == self.context.config.policy => RulesNow::Same,
            Ok(rules) => RulesNow::Others(rules),
            Err(e) => {
                tracing::warn!("the rules cannot be read: {}", e.message);
                RulesNow::Unknown
            }
        };
        *lock(&self.now) = now;
    }

    async fn rules_now(&self) -> Result<RuleSet> {
        let request = self.context.request;
        let overrides = ConfigOverrides::from_map(&request.overrides)?;
        let mut config = self.context.daemon.models.config(&overrides)?;
        rules_in_force::apply(&mut config, &request.cwd).await?;
        Ok(config.policy.clone())
    }

    /// Decides by the rules that the prompt began with and by those of now: whichever are stricter. One that allows more
    /// is for the servers that the configuration has now, and these are those of the prompt.
    pub(super) fn judge(&self, wish: &CallRequest<'_>, grants: &GrantSet) -> PolicyDecision {
        let by = |rules| policy::decide(wish, rules, grants, now_ms());
        let then = by(&self.context.config.policy);
        let now = match &*lock(&self.now) {
            RulesNow::Same => return then,
            RulesNow::Others(rules) => by(rules),
            RulesNow::Unknown => PolicyDecision::Deny(UNKNOWN.to_owned()),
        };
        match now.effect() > then.effect() {
            true => now,
            false => then,
        }
    }
}
