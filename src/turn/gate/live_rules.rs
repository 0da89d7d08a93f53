//! Rules that change while a turn runs: a new deny or ask rule takes effect immediately, a new allow rule with the next
//! prompt.

use super::{CallGate, lock};
use crate::config::ConfigOverrides;
use crate::error::Result;
use crate::history::journal::now_ms;
use crate::safety::policy::{self, CallRequest, GrantSet, PolicyDecision, RuleSet};
use crate::turn::rules_in_force;

/// Named as the deciding rule if the current rules cannot be read.
const UNKNOWN: &str = "unknown: the rules cannot be read now";

/// The rules now, compared with those at the start of the prompt.
#[derive(Debug)]
pub(super) enum RulesNow {
    /// Unchanged.
    Same,
    /// Changed; the current rules.
    Others(RuleSet),
    /// Not readable: every call is denied.
    Unknown,
}

impl CallGate<'_> {
    /// Reads the rules again.
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
        let models = &self.context.services.models;
        models.refresh().await;
        let mut config = models.config(&overrides)?;
        rules_in_force::apply(&mut config, &request.cwd).await?;
        Ok(config.policy.clone())
    }

    /// Applies the rules from the start of the prompt and the current rules, and returns the stricter decision. A rule that
    /// newly allows has no effect until the next prompt, because its alias may name another server by now.
    pub(super) fn judge(&self, request: &CallRequest<'_>, grants: &GrantSet) -> PolicyDecision {
        let by = |rules| policy::decide(request, rules, grants, now_ms());
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
