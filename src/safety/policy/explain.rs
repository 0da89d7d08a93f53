//! Which rule decides about a call, and why the others do not.

use super::{CHANGED, Grants, Rules, UNCONFIGURED, Wish, Word, weigh};
use crate::chat::Operation;

/// What is decided about a call, and why. No right to make it comes of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// What is decided.
    pub word: Word,
    /// By what, as [`super::decide`] says it.
    pub by: String,
    /// What the call is taken for.
    pub operation: Operation,
    /// Why it is, in words that follow that.
    pub because: &'static str,
    /// Every rule and grant that could be about this call, those that weigh most first, and the default at the end.
    pub considered: Vec<Considered>,
}

/// A rule, a grant or the default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// What it is about: `fs.*`, `op:read`, `default`; `fs.read` or `the reads of fs` of a grant.
    pub what: String,
    /// What it says.
    pub says: Word,
    /// Where it stands; who gave it, of a grant.
    pub source: String,
    /// The id of a grant, which `aish-helper policy revoke` takes.
    pub grant: Option<String>,
    /// What it has to do with the decision.
    pub standing: Standing,
}

/// What a rule has to do with a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It is the one that decides.
    Decides,
    /// It is about this call, but something else decides.
    Overruled,
    /// It is not about this call, or counts for nothing here: why not.
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

/// Says what [`super::decide`] does, and why.
pub fn explain(wish: &Wish<'_>, rules: &Rules, grants: &Grants, now_ms: u64) -> Explained {
    let (word, by) = weigh(wish, rules, grants, now_ms);
    // Whatever allows counts for nothing where all that was allowed is void.
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
        for rule in rules.of(says).filter(|r| r.subject.could_be(&wish.call)) {
            let idle = rule.idle(wish).or_else(|| void(says, true));
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
    for grant in grants.list().iter().filter(|g| g.could_be(&wish.call)) {
        let idle = grant.idle(wish, now_ms);
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
        because: because(wish),
        considered,
    }
}

/// Why a call is taken for what it is.
fn because(wish: &Wish<'_>) -> &'static str {
    let says = wish.annotations.operation();
    if wish.operation() > wish.of_tool() {
        return "its caller declares it, which is more than what the tool is taken for";
    }
    match says {
        Operation::Destructive => "its server says that it may destroy",
        Operation::Read if wish.trusted => {
            "its server says that it only reads, and you believe its annotations"
        }
        Operation::Read => {
            "its server says that it only reads, which counts where trust_annotations = true"
        }
        Operation::Write => "its server says neither that it only reads nor that it may destroy",
    }
}
