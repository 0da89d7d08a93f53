//! Tool policy: decides whether a call is allowed, needs a question, or is denied. Only this module creates an
//! [`Approved`], which every call requires at compile time.
//!
//! Deny overrides ask and ask overrides allow, regardless of the order and origin of the rules. The requirements of a
//! call follow from its tool; what the caller declares can only add to them. Pure: the caller supplies the time, and
//! records the approval before the call.

mod effects;
mod explain;
mod grants;
mod rules;

pub use effects::CallEffects;
pub use explain::{ConsideredRule, DecisionTrace, RuleStanding, explain};
pub use grants::{GRANT_TTL_MS, GrantScope, GrantSet, ToolGrant};
pub use rules::{BuiltinAction, DefaultRule, PolicyRule, RuleSet, RuleSubject};

use sha2::{Digest, Sha256};

use super::json_text;
pub use crate::chat::{ApprovalScope, RuleEffect};
use crate::chat::{CallIntent, OperationClass, ToolAnnotations};

/// How long an approval is valid. The call must start before that, so that an approval given before the machine was
/// suspended has no effect afterwards.
pub const APPROVAL_TTL_MS: u64 = 60_000;

/// One call of a tool, exactly as it is shown and sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExactCall<'a> {
    /// The server's alias.
    pub server: &'a str,
    /// The tool's name at its server.
    pub tool: &'a str,
    /// Identity of the tool; a different server or a changed definition has another identity.
    pub identity: &'a str,
    /// The exact arguments: the text of a JSON object.
    pub arguments: &'a str,
}

impl ExactCall<'_> {
    /// SHA-256 over server, tool and arguments, each prefixed with its length so that different calls cannot share a
    /// digest.
    fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in [self.server, self.tool, self.arguments] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().into()
    }
}

/// Normalises the arguments of a call to the one text that is shown, approved and sent.
///
/// # Errors
/// The arguments are not a JSON object.
pub fn canonical_arguments(arguments: &str) -> serde_json::Result<String> {
    Ok(json_text::text(&json_text::parse_object(arguments)?))
}

/// Permission for one call, valid once and for a short time. [`Approved::covers`] consumes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Approved {
    digest: [u8; 32],
    /// Kept separate from the digest, which is recorded: an identity may be derived from secrets.
    identity: String,
    annotations: ToolAnnotations,
    expires_ms: u64,
}

impl Approved {
    fn new(wish: &CallRequest<'_>, now_ms: u64) -> Approved {
        Approved {
            digest: wish.call.digest(),
            identity: wish.call.identity.to_owned(),
            annotations: wish.annotations,
            expires_ms: now_ms.saturating_add(APPROVAL_TTL_MS),
        }
    }

    /// Whether the approval is for exactly this call and has not expired.
    pub fn covers(self, call: &ExactCall<'_>, now_ms: u64) -> bool {
        self.digest == call.digest() && self.identity == call.identity && now_ms < self.expires_ms
    }

    /// The effective annotations of the tool at the time of the approval.
    pub fn annotations(&self) -> ToolAnnotations {
        self.annotations
    }

    /// Returns the digest in hexadecimal, for the record.
    pub fn digest(&self) -> String {
        self.digest.iter().map(|b| format!("{b:02x}")).collect()
    }
}

/// A call to be decided on, with everything that the decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct CallRequest<'a> {
    /// The call.
    pub call: ExactCall<'a>,
    /// The effective annotations of the tool.
    pub annotations: ToolAnnotations,
    /// The user trusts these annotations.
    pub trusted: bool,
    /// The server is the one configured under this alias. Rules allow nothing to any other server, so that they do not
    /// follow an alias that leads elsewhere.
    pub configured: bool,
    /// The tool has changed since it was last shown to the user, which voids everything that allowed it.
    pub changed: bool,
    /// Declared intent of the caller.
    pub intent: Option<&'a CallIntent>,
    /// Why the call must be asked about whatever allows it: it reaches a file that decides what aish may do.
    pub protected: Option<&'a str>,
    /// The effects of the call, if it is of a built-in tool.
    pub effects: CallEffects<'a>,
}

impl<'a> CallRequest<'a> {
    /// A call of a configured server's tool without annotations and without a declared intent.
    pub fn new(call: ExactCall<'a>) -> CallRequest<'a> {
        CallRequest {
            call,
            annotations: ToolAnnotations::default(),
            trusted: false,
            configured: true,
            changed: false,
            intent: None,
            protected: None,
            effects: CallEffects::default(),
        }
    }

    /// Returns the operation class that counts: that of the tool, or the declared one if more severe.
    pub fn operation(&self) -> OperationClass {
        let tool = self.tool_operation();
        self.intent
            .map_or(tool, |intent| tool.max(intent.operation))
    }

    fn tool_operation(&self) -> OperationClass {
        let tool = tool_operation(self.annotations, self.trusted);
        self.effects.operation.map_or(tool, |call| tool.max(call))
    }
}

/// Returns the operation class of a tool: the server's annotations if the user trusts them or if they make it more
/// severe, otherwise a write.
pub fn tool_operation(annotations: ToolAnnotations, trusted: bool) -> OperationClass {
    let annotated = annotations.operation();
    match trusted {
        true => annotated,
        false => annotated.max(OperationClass::Write),
    }
}

/// Decision of the policy on a call.
#[derive(Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    /// Allowed; by which rule.
    Allow(Approved, String),
    /// The user must be asked; by which rule.
    Ask(String),
    /// Denied; by which rule.
    Deny(String),
}

impl PolicyDecision {
    /// The effect without the details.
    pub fn effect(&self) -> RuleEffect {
        match self {
            PolicyDecision::Allow(..) => RuleEffect::Allow,
            PolicyDecision::Ask(_) => RuleEffect::Ask,
            PolicyDecision::Deny(_) => RuleEffect::Deny,
        }
    }
}

/// Rule that asks about every call. The question does not mention it.
pub const DEFAULT_RULE: &str = "policy.default";

/// Reason for asking about a changed tool.
pub const CHANGED: &str = "the tool has changed since you allowed it";

/// Reason for asking about a call of a server that is not in the configuration.
pub const UNCONFIGURED: &str = "rules allow nothing to a server that was connected by hand";

/// Reason for asking about a call that may destroy something, whatever allows its tool.
pub const DESTRUCTIVE: &str =
    "it may destroy something, which only a rule for \"op:destructive\" allows";

/// Identity of the tools that aish implements itself. The identity of an MCP tool is a SHA-256 digest in hexadecimal,
/// so no server can have this one.
pub const BUILTIN_IDENTITY: &str = "builtin";

/// Alias of the built-in tools.
pub const BUILTIN_SERVER: &str = "aish";

/// Alias of the Python helpers.
pub const HELPER_SERVER: &str = "helper";

/// The server and the tool in rules about the output of the user's commands: `shell.output`.
pub const TERMINAL_OUTPUT_RULE: (&str, &str) = ("shell", "output");

/// How the identity of a Python helper begins; the digest of its file and description follows.
pub const HELPER_IDENTITY: &str = "helper:";

/// Whether a tool with this identity is one that aish performs itself: built in, or a Python helper.
pub fn is_own_tool(identity: &str) -> bool {
    identity == BUILTIN_IDENTITY || identity.starts_with(HELPER_IDENTITY)
}

/// The rule in the record of a built-in call.
pub const BUILTIN_RULE: &str = "built-in";

/// Decides on a call: deny rules, then protected files and ask rules, then allow rules, then grants, then the default. A default of deny
/// applies unless one of the user's own rules asks or allows.
pub fn decide(
    wish: &CallRequest<'_>,
    rules: &RuleSet,
    grants: &GrantSet,
    now_ms: u64,
) -> PolicyDecision {
    if is_builtin_read(wish) {
        return PolicyDecision::Allow(Approved::new(wish, now_ms), BUILTIN_RULE.to_owned());
    }
    let (word, by) = effect_on(wish, rules, grants, now_ms);
    match word {
        RuleEffect::Allow => PolicyDecision::Allow(Approved::new(wish, now_ms), by),
        RuleEffect::Ask => PolicyDecision::Ask(by),
        RuleEffect::Deny => PolicyDecision::Deny(by),
    }
}

/// Whether a call is of a built-in tool and only reads what the session already has. Rules do not apply to these: rules
/// are about servers, and without its tool search and its own results a model cannot work.
fn is_builtin_read(wish: &CallRequest<'_>) -> bool {
    wish.call.identity == BUILTIN_IDENTITY
        && wish.call.server == BUILTIN_SERVER
        && wish.trusted
        && wish.effects.action.is_none()
        && wish.operation() == OperationClass::Read
}

/// Returns the effect on a call and the rule or grant it comes from.
fn effect_on(
    wish: &CallRequest<'_>,
    rules: &RuleSet,
    grants: &GrantSet,
    now_ms: u64,
) -> (RuleEffect, String) {
    let speaks = |rule: &&PolicyRule| rule.applies(wish);
    let found = |rule: &PolicyRule| (rule.effect, rule.source.clone());
    if let Some(rule) = rules.with_effect(RuleEffect::Deny).find(speaks) {
        return found(rule);
    }
    let is_raised = wish.effects.operation == Some(OperationClass::Destructive);
    // "shell" allows commands in general; one that destroys needs a rule about its class.
    let covers = |rule: &&PolicyRule| {
        rule.applies(wish) && (!is_raised || matches!(rule.subject, RuleSubject::Operation(_)))
    };
    let allows = rules
        .with_effect(RuleEffect::Allow)
        .find(covers)
        .filter(|_| wish.configured);
    let default = &rules.default;
    if default.effect == RuleEffect::Deny && allows.is_none() {
        // With a default of deny, a rule that asks makes the policy less strict.
        let asks = |rule: &PolicyRule| {
            rule.effect == RuleEffect::Ask && rule.subject.applies_as_allow(wish)
        };
        if !wish.configured || !rules.list.iter().any(asks) {
            return (RuleEffect::Deny, default.source.clone());
        }
    }
    if let Some(reason) = wish.protected {
        return (RuleEffect::Ask, reason.to_owned());
    }
    if let Some(rule) = rules.with_effect(RuleEffect::Ask).find(speaks) {
        return found(rule);
    }
    if wish.changed {
        return (RuleEffect::Ask, CHANGED.to_owned());
    }
    if let Some(rule) = allows {
        return found(rule);
    }
    if let Some(grant) = grants.find_covering(wish, now_ms) {
        return (RuleEffect::Allow, grant.description());
    }
    match default.effect {
        RuleEffect::Allow if !wish.configured => (RuleEffect::Ask, UNCONFIGURED.to_owned()),
        RuleEffect::Allow if is_raised => (RuleEffect::Ask, DESTRUCTIVE.to_owned()),
        word => (word, default.source.clone()),
    }
}

/// Creates the approval for a call that the user has allowed. `of_server` are the tools its server had at that time, as
/// identity and annotations; `id` becomes the id of the grant, if the scope creates one.
pub fn approve<'t>(
    wish: &CallRequest<'_>,
    scope: ApprovalScope,
    of_server: impl IntoIterator<Item = (&'t str, ToolAnnotations)>,
    grants: &mut GrantSet,
    now_ms: u64,
    id: &str,
) -> Approved {
    grants.add(wish, scope, of_server, now_ms, id);
    Approved::new(wish, now_ms)
}

#[cfg(test)]
mod pairs_tests;
#[cfg(test)]
mod tests;
