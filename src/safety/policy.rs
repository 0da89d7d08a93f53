//! Who may do what: the only room that makes an [`Approved`], without which no call compiles.
//!
//! Deny is more than ask, and ask is more than allow, whatever the order of the rules and wherever they come from.
//! What a call needs is decided by what it calls; what its caller declares can only raise that. Pure: the caller
//! brings the time, and writes the record before the act.

mod explain;
mod grants;
mod rules;

pub use explain::{Considered, Explained, Standing, explain};
pub use grants::{Consent, GRANT_MS, Grant, Grants, Reach};
pub use rules::{Fallback, Own, Rule, Rules, Subject, Word};

use sha2::{Digest, Sha256};

use crate::chat::{Annotations, Intent, Operation};

/// How long an approval holds: the call must begin before, so that a yes from before a nap does nothing after it.
pub const LIFE_MS: u64 = 60_000;

/// A call as it would be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// The server's alias.
    pub server: &'a str,
    /// The tool's name at its server.
    pub tool: &'a str,
    /// Which tool that is: another server or another description is another identity.
    pub identity: &'a str,
    /// The exact arguments: the text of a JSON object, as it is shown and sent.
    pub arguments: &'a str,
}

impl Call<'_> {
    /// SHA-256 over server, tool and arguments, with their lengths so that no two calls share one.
    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [self.server, self.tool, self.arguments] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().into()
    }
}

/// The one text of a call's arguments, which is shown, approved and sent.
///
/// # Errors
/// They are no JSON object.
pub fn canonical(arguments: &str) -> serde_json::Result<String> {
    let map: serde_json::Map<String, serde_json::Value> = serde_json::from_str(arguments)?;
    serde_json::to_string(&map)
}

/// The right to make one call, once and soon. It is used up by [`Approved::covers`].
#[derive(Debug, PartialEq, Eq)]
pub struct Approved {
    digest: [u8; 32],
    /// Beside the digest, which is kept: an identity is made of secrets too.
    identity: String,
    annotations: Annotations,
    until_ms: u64,
}

impl Approved {
    fn new(wish: &Wish<'_>, now_ms: u64) -> Approved {
        Approved {
            digest: wish.call.digest(),
            identity: wish.call.identity.to_owned(),
            annotations: wish.annotations,
            until_ms: now_ms.saturating_add(LIFE_MS),
        }
    }

    /// Whether exactly this call was approved, and not too long ago.
    pub fn covers(self, call: &Call<'_>, now_ms: u64) -> bool {
        self.digest == call.digest() && self.identity == call.identity && now_ms < self.until_ms
    }

    /// What its server said of the tool when it was approved, as it was in force.
    pub fn annotations(&self) -> Annotations {
        self.annotations
    }

    /// The digest in hexadecimal, for the record.
    pub fn digest(&self) -> String {
        self.digest.iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// A call that somebody wishes to make, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// The call.
    pub call: Call<'a>,
    /// What its server says of the tool, as it is in force.
    pub annotations: Annotations,
    /// The user believes that.
    pub trusted: bool,
    /// The server is the one that the configuration has under that alias. Nothing is allowed by rule to another:
    /// a rule must not follow an alias elsewhere.
    pub configured: bool,
    /// The tool is not what it was when it was last shown to the person: all that was allowed is void.
    pub changed: bool,
    /// What the caller declares.
    pub intent: Option<&'a Intent>,
}

impl<'a> Wish<'a> {
    /// A call of a tool of the configuration's of which nothing is said, and that declares nothing.
    pub fn new(call: Call<'a>) -> Wish<'a> {
        Wish {
            call,
            annotations: Annotations::default(),
            trusted: false,
            configured: true,
            changed: false,
            intent: None,
        }
    }

    /// What the call is taken for: what its tool is, or what the caller declares where that is more.
    pub fn operation(&self) -> Operation {
        let tool = self.of_tool();
        self.intent
            .map_or(tool, |intent| tool.max(intent.operation))
    }

    fn of_tool(&self) -> Operation {
        tool_operation(self.annotations, self.trusted)
    }
}

/// Returns what a call of a tool is treated as where its caller declares nothing more: the server's annotations if
/// the user trusts them or if they make it worse, else a write.
pub fn tool_operation(annotations: Annotations, trusted: bool) -> Operation {
    let annotated = annotations.operation();
    match trusted {
        true => annotated,
        false => annotated.max(Operation::Write),
    }
}

/// What the rules say to a call.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be made; by which rule.
    Allow(Approved, String),
    /// A person must be asked; by which rule.
    Ask(String),
    /// It may not be made; by which rule.
    Deny(String),
}

impl Decision {
    /// The same in a word.
    pub fn word(&self) -> Word {
        match self {
            Decision::Allow(..) => Word::Allow,
            Decision::Ask(_) => Word::Ask,
            Decision::Deny(_) => Word::Deny,
        }
    }
}

/// Why a tool that has changed is asked about.
pub const CHANGED: &str = "the tool has changed since you allowed it";

/// Why a call of a server that the configuration does not have is asked about.
pub const UNCONFIGURED: &str = "rules allow nothing to a server that was connected by hand";

/// Decides by rule: deny, then ask, then allow, then what the person has allowed, then the default. A default that denies
/// does so wherever no rule of the user's own asks or allows.
pub fn decide(wish: &Wish<'_>, rules: &Rules, grants: &Grants, now_ms: u64) -> Decision {
    let (word, by) = weigh(wish, rules, grants, now_ms);
    match word {
        Word::Allow => Decision::Allow(Approved::new(wish, now_ms), by),
        Word::Ask => Decision::Ask(by),
        Word::Deny => Decision::Deny(by),
    }
}

/// What is said to a call, and by what.
fn weigh(wish: &Wish<'_>, rules: &Rules, grants: &Grants, now_ms: u64) -> (Word, String) {
    let speaks = |rule: &&Rule| rule.speaks(wish);
    let said = |rule: &Rule| (rule.word, rule.source.clone());
    if let Some(rule) = rules.of(Word::Deny).find(speaks) {
        return said(rule);
    }
    let allows = rules
        .of(Word::Allow)
        .find(speaks)
        .filter(|_| wish.configured);
    let default = &rules.default;
    if default.word == Word::Deny && allows.is_none() {
        // A rule that asks is one that loosens here.
        let asks = |rule: &Rule| rule.word == Word::Ask && rule.subject.loosens(wish);
        if !wish.configured || !rules.list.iter().any(asks) {
            return (Word::Deny, default.source.clone());
        }
    }
    if let Some(rule) = rules.of(Word::Ask).find(speaks) {
        return said(rule);
    }
    if wish.changed {
        return (Word::Ask, CHANGED.to_owned());
    }
    if let Some(rule) = allows {
        return said(rule);
    }
    if let Some(grant) = grants.covering(wish, now_ms) {
        return (Word::Allow, grant.says());
    }
    match default.word {
        Word::Allow if !wish.configured => (Word::Ask, UNCONFIGURED.to_owned()),
        word => (word, default.source.clone()),
    }
}

/// A person has said yes to the call that was shown. `of_server` are all tools that its server had then: identity and
/// annotations; `id` is that of the grant, if it comes to one.
pub fn consent<'t>(
    wish: &Wish<'_>,
    said: Consent,
    of_server: impl IntoIterator<Item = (&'t str, Annotations)>,
    grants: &mut Grants,
    now_ms: u64,
    id: &str,
) -> Approved {
    grants.add(wish, said, of_server, now_ms, id);
    Approved::new(wish, now_ms)
}

#[cfg(test)]
mod pairs_tests;
#[cfg(test)]
mod tests;
