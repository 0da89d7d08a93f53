//! Requests and replies about rules and grants.

use serde::{Deserialize, Serialize};

use crate::chat::{DataSensitivity, OperationClass, RuleEffect};

/// A request about the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum PolicyRequest {
    /// Lists the rules and grants: [`PolicyInForce`].
    List,
    /// Revokes a grant, or a rule that allows: [`Vec<RevokedGrant>`], never empty.
    Revoke {
        /// Part of a grant's id, or the name of a tool, `alias.tool`.
        name: String,
    },
    /// Explains what a command line does and what would be decided about it: [`CommandExplanation`].
    ExplainCommand {
        /// The command line.
        command: String,
    },
    /// Explains what would be decided about a call: [`PolicyExplanation`].
    Explain {
        /// `server:tool`, `shell`, `fs.write` or `network`.
        name: String,
        /// The arguments: the text of a JSON object.
        arguments: String,
        /// The declared operation.
        operation: Option<OperationClass>,
        /// The declared sensitivity of the data.
        sensitivity: Option<DataSensitivity>,
    },
}

/// The rules in force in a directory, and the grants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInForce {
    /// The default.
    pub default: RuleInfo,
    /// The rules, strongest effect first.
    pub rules: Vec<RuleInfo>,
    /// The grants of all open sessions.
    pub grants: Vec<GrantInfo>,
    /// Faults in project files, one line each.
    pub notices: Vec<String>,
}

/// A rule in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleInfo {
    /// Subject of the rule: `fs.*`, `op:read`, `shell`; `default`.
    pub subject: String,
    /// Its effect.
    pub effect: RuleEffect,
    /// Its place: file, line and key, as far as known.
    pub source: String,
    /// Whether it comes from a project's `.aish.toml`.
    pub project: bool,
}

/// A grant in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantInfo {
    /// Its id.
    pub id: String,
    /// What it allows.
    pub subject: String,
    /// The session it was given in.
    pub session: String,
    /// When it was given, milliseconds since 1970.
    pub granted_ms: u64,
    /// When it expires, milliseconds since 1970.
    pub expires_ms: u64,
}

/// A revoked grant or rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedGrant {
    /// What it allowed.
    pub subject: String,
    /// The grant's id; `None` for a rule.
    pub grant: Option<String>,
}

/// The decision about a call or action, and its reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyExplanation {
    /// `server:tool`, `shell`, `fs.write` or `network`.
    pub name: String,
    /// The decision.
    pub effect: RuleEffect,
    /// What decides, as in the journal.
    pub decided_by: String,
    /// The operation class that the policy applies; `None` for aish's own actions.
    pub operation: Option<OperationClass>,
    /// The reason for that operation class; for aish's own actions, what the action is.
    pub operation_reason: String,
    /// Why the declared intent rejects the call before any rule is applied.
    pub rejected: Option<String>,
    /// The rules and grants about the call, and the default.
    pub considered: Vec<RuleReport>,
    /// Faults in project files, one line each.
    pub notices: Vec<String>,
}

/// What a command line does, and the decision about it as a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandExplanation {
    /// The class: `reads`, `writes`, `network`, `unknown`, `destroys` or `runs downloaded code`.
    pub class: String,
    /// Why, one line each, the worst first.
    pub reasons: Vec<String>,
    /// The decision.
    pub decision: RuleEffect,
    /// The rule or setting that decides.
    pub decided_by: String,
    /// Faults in project files, one line each.
    pub notices: Vec<String>,
}

/// A rule, a grant or the default, and its part in a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleReport {
    /// What it applies to.
    pub subject: String,
    /// Its effect.
    pub effect: RuleEffect,
    /// Its place in the configuration; for a grant, who gave it.
    pub source: String,
    /// Id of a grant.
    pub grant: Option<String>,
    /// Its part in the decision.
    pub standing: ReportedStanding,
    /// Why it is inactive.
    pub reason: Option<String>,
}

/// The part of a rule in a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportedStanding {
    /// It decides.
    Decides,
    /// It applies, but another rule decides.
    Overruled,
    /// It does not apply or has no effect.
    Inactive,
}

impl ReportedStanding {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ReportedStanding::Decides => "decides",
            ReportedStanding::Overruled => "overruled",
            ReportedStanding::Inactive => "inactive",
        }
    }
}
