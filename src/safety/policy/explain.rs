//! Explains which rule decides on a call, and why the others do not.

use super::{CHANGED, Grants, Rules, UNCONFIGURED, Wish, Word, effect_on};
use crate::chat::Operation;

/// A decision and its reasons. Does not contain an approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// The effect.
    pub word: Word,
    /// The rule or grant that decides, as in [`super::decide`].
    pub by: String,
    /// The operation class of the call.
    pub operation: Operation,
    /// Why the call has this class; a clause that follows it.
    pub because: &'static str,
    /// Every rule and grant that could apply to the call, strongest first, and finally the default.
    pub considered: Vec<Considered>,
}

/// A rule, a grant or the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// Its subject: `fs.*`, `op:read`, `default`; for a grant `fs.read` or `the reads of fs`.
    pub what: String,
    /// Its effect.
    pub says: Word,
    /// Its location in the configuration; for a grant, who gave it.
    pub source: String,
    /// Id of a grant, as taken by `aish-helper policy revoke`.
    pub grant: Option<String>,
    /// Its part in the decision.
    pub standing: Standing,
}

/// The part of a rule in a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It decides.
    Decides,
    /// It applies to the call, but another rule decides.
    Overruled,
    /// It does not apply to the call or has no effect; the reason.
    Idle(String),
}

impl Standing {
    fn of(idle: Option<String>, decides: bool) -> Standing {
        match idle {
            Some(why) => Standing::Idle(why),
            None if decides => Standing::Decides,
            None => Standing::Overruled,
        }
    }
}

/// Explains what [`super::decide`] decides.
pub fn explain(wish: &Wish<'_>, rules: &Rules, grants: &Grants, now_ms: u64) -> Explained {
    let (word, by) = effect_on(wish, rules, grants, now_ms);
    // Nothing that allows has an effect once the tool has changed.
    let void = |says: Word, by_rule: bool| {
        let unconfigured = by_rule && !wish.configured;
        let why = match (wish.changed, unconfigured) {
            (true, _) => CHANGED,
            (false, true) => UNCONFIGURED,
            (false, false) => return None,
        };
        (says == Word::Allow).then(|| why.to_owned())
    };
    let mut decided = false;
    let mut decides = |says: Word, source: &str, idle: &Option<String>| {
        let this = !decided && idle.is_none() && says == word && source == by;
        decided |= this;
        this
    };
    let mut considered = Vec::new();
    for says in [Word::Deny, Word::Ask, Word::Allow] {
        for rule in rules
            .with_effect(says)
            .filter(|r| r.subject.may_apply(&wish.call))
        {
            let idle = rule.inactive_reason(wish).or_else(|| void(says, true));
            let decides = decides(says, &rule.source, &idle);
            considered.push(Considered {
                what: rule.subject.to_string(),
                says,
                source: rule.source.clone(),
                grant: None,
                standing: Standing::of(idle, decides),
            });
        }
    }
    for grant in grants.list().iter().filter(|g| g.may_apply(&wish.call)) {
        let idle = grant.inactive_reason(wish, now_ms);
        let idle = idle.or_else(|| void(Word::Allow, false));
        let decides = decides(Word::Allow, &grant.says(), &idle);
        considered.push(Considered {
            what: grant.what(),
            says: Word::Allow,
            source: grant.says(),
            grant: Some(grant.id.clone()),
            standing: Standing::of(idle, decides),
        });
    }
    let default = &rules.default;
    let idle = void(default.word, true);
    let decides = decides(default.word, &default.source, &idle);
    considered.push(Considered {
        what: "default".to_owned(),
        says: default.word,
        source: default.source.clone(),
        grant: None,
        standing: Standing::of(idle, decides),
    });
    Explained {
        word,
        by,
        operation: wish.operation(),
        because: operation_reason(wish),
        considered,
    }
}

/// Returns why a call has its operation class.
fn operation_reason(wish: &Wish<'_>) -> &'static str {
    let says = wish.annotations.operation();
    if wish.operation() > wish.tool_operation() {
        return "the caller declares it, which is more severe than the tool's own class";
    }
    match says {
        Operation::Destructive => "the server declares the tool destructive",
        Operation::Read if wish.trusted => {
            "the server declares the tool read-only, and you trust its annotations"
        }
        Operation::Read => {
            "the server declares the tool read-only, which counts only with trust_annotations = true"
        }
        Operation::Write => "the server declares the tool neither read-only nor destructive",
    }
}
