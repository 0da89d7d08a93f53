//! Explains which rule decides on a call, and why the others do not.

use super::{
    BUILTIN_SERVER, CHANGED, CallRequest, GrantSet, RuleEffect, RuleSet, UNCONFIGURED, effect_on,
};
use crate::chat::OperationClass;

/// A decision and its reasons. Does not contain an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionTrace {
    /// The effect.
    pub effect: RuleEffect,
    /// The rule or grant that decides, as in [`super::decide`].
    pub decided_by: String,
    /// The operation class of the call.
    pub operation: OperationClass,
    /// Why the call has this class; a clause that follows it.
    pub operation_reason: &'static str,
    /// Every rule and grant that could apply to the call, strongest first, and finally the default.
    pub considered: Vec<ConsideredRule>,
}

/// A rule, a grant or the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsideredRule {
    /// Its subject: `fs.*`, `op:read`, `default`; for a grant `fs.read` or `the reads of fs`.
    pub subject: String,
    /// Its effect.
    pub effect: RuleEffect,
    /// Its location in the configuration; for a grant, who gave it.
    pub source: String,
    /// Id of a grant, as taken by `aish-helper policy revoke`.
    pub grant: Option<String>,
    /// Its part in the decision.
    pub standing: RuleStanding,
}

/// The part of a rule in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleStanding {
    /// It decides.
    Decides,
    /// It applies to the call, but another rule decides.
    Overruled,
    /// It does not apply to the call or has no effect; the reason.
    Inactive(String),
}

impl RuleStanding {
    fn of(idle: Option<String>, decides: bool) -> RuleStanding {
        match idle {
            Some(why) => RuleStanding::Inactive(why),
            None if decides => RuleStanding::Decides,
            None => RuleStanding::Overruled,
        }
    }
}

/// Explains what [`super::decide`] decides.
pub fn explain(
    wish: &CallRequest<'_>,
    rules: &RuleSet,
    grants: &GrantSet,
    now_ms: u64,
) -> DecisionTrace {
    let (word, by) = effect_on(wish, rules, grants, now_ms);
    // Nothing that allows has an effect once the tool has changed.
    let void = |says: RuleEffect, by_rule: bool| {
        let unconfigured = by_rule && !wish.configured;
        let why = match (wish.protected, wish.changed, unconfigured) {
            (Some(reason), ..) => reason,
            (None, true, _) => CHANGED,
            (None, false, true) => UNCONFIGURED,
            (None, false, false) => return None,
        };
        (says == RuleEffect::Allow).then(|| why.to_owned())
    };
    let mut decided = false;
    let mut decides = |says: RuleEffect, source: &str, idle: &Option<String>| {
        let this = !decided && idle.is_none() && says == word && source == by;
        decided |= this;
        this
    };
    let mut considered = Vec::new();
    for says in [RuleEffect::Deny, RuleEffect::Ask, RuleEffect::Allow] {
        for rule in rules
            .with_effect(says)
            .filter(|r| r.subject.may_apply(wish))
        {
            let idle = rule.inactive_reason(wish).or_else(|| void(says, true));
            let decides = decides(says, &rule.source, &idle);
            considered.push(ConsideredRule {
                subject: rule.subject.to_string(),
                effect: says,
                source: rule.source.clone(),
                grant: None,
                standing: RuleStanding::of(idle, decides),
            });
        }
    }
    for grant in grants.list().iter().filter(|g| g.may_apply(&wish.call)) {
        let idle = grant.inactive_reason(wish, now_ms);
        let idle = idle.or_else(|| void(RuleEffect::Allow, false));
        let decides = decides(RuleEffect::Allow, &grant.description(), &idle);
        considered.push(ConsideredRule {
            subject: grant.subject(),
            effect: RuleEffect::Allow,
            source: grant.description(),
            grant: Some(grant.id.clone()),
            standing: RuleStanding::of(idle, decides),
        });
    }
    let default = &rules.default;
    let idle = void(default.effect, true);
    let decides = decides(default.effect, &default.source, &idle);
    considered.push(ConsideredRule {
        subject: "default".to_owned(),
        effect: default.effect,
        source: default.source.clone(),
        grant: None,
        standing: RuleStanding::of(idle, decides),
    });
    DecisionTrace {
        effect: word,
        decided_by: by,
        operation: wish.operation(),
        operation_reason: operation_reason(wish),
        considered,
    }
}

/// Returns why a call has its operation class.
fn operation_reason(wish: &CallRequest<'_>) -> &'static str {
    let says = wish.annotations.operation();
    if wish.operation() > wish.tool_operation() {
        return "the caller declares it, which is more severe than the tool's own class";
    }
    match says {
        OperationClass::Destructive => "the server declares the tool destructive",
        OperationClass::Read if wish.trusted => {
            "the server declares the tool read-only, and you trust its annotations"
        }
        OperationClass::Read => {
            "the server declares the tool read-only, which counts only with trust_annotations = true"
        }
        OperationClass::Write if wish.call.server == BUILTIN_SERVER => {
            "a built-in tool that is not declared read-only or destructive"
        }
        OperationClass::Write => "the server declares the tool neither read-only nor destructive",
    }
}
