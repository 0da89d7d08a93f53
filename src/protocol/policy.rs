//! What client and daemon say to each other about rules and grants.

use serde::{Deserialize, Serialize};

/// What a client wants to know of the policy, or take back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum PolicyRequest {
    /// All that is in force: [`InForce`].
    List,
    /// Takes back a grant, or a rule that allows: [`Vec<Revoked>`], never empty.
    Revoke {
        /// A part of the grant's id; or a name, `alias.tool`.
        name: String,
    },
    /// Who would decide, and why: [`Explanation`].
    Explain {
        /// `server:tool`, `shell`, `fs.write` or `network`.
        name: String,
        /// The text of a JSON object.
        arguments: String,
        /// What its caller declares that it does: `read`, `write` or `destructive`.
        operation: Option<String>,
        /// What its caller declares of its data.
        sensitivity: Option<String>,
    },
}

/// The rules in force in a directory, and what was allowed at prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InForce {
    /// The default.
    pub default: RuleInfo,
    /// The rules, those that weigh most first.
    pub rules: Vec<RuleInfo>,
    /// The grants of all open conversations.
    pub grants: Vec<GrantInfo>,
    /// What is wrong with the files of projects, a line each.
    pub notices: Vec<String>,
}

/// A rule in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleInfo {
    /// What it is about: `fs.*`, `op:read`, `shell`; `default`.
    pub what: String,
    /// `allow`, `ask` or `deny`.
    pub says: String,
    /// Where it stands: file, line and key, as far as they are known.
    pub source: String,
    /// It is a project's.
    pub project: bool,
}

/// A grant in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantInfo {
    /// Its id.
    pub id: String,
    /// What it allows.
    pub what: String,
    /// The conversation it was given in.
    pub session: String,
    /// When it was given, milliseconds since 1970.
    pub at_ms: u64,
    /// When it lapses.
    pub until_ms: u64,
}

/// What was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevokedGrant {
    /// What it allowed.
    pub what: String,
    /// The id, of a grant.
    pub grant: Option<String>,
}

/// What would be decided, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// `server:tool`, `shell`, `fs.write` or `network`.
    pub name: String,
    /// `allow`, `ask` or `deny`.
    pub says: String,
    /// By what, in the words of the record.
    pub by: String,
    /// What the call is taken for: `read`, `write` or `destructive`.
    pub operation: Option<String>,
    /// Why it is; of an act of the helper's own, what it is.
    pub because: String,
    /// Why no rule is asked at all: what is declared does not fit.
    pub rejected: Option<String>,
    /// Every rule and grant that could be about it, and the default.
    pub considered: Vec<RuleReport>,
    /// What is wrong with the files of projects, a line each.
    pub notices: Vec<String>,
}

/// A rule, a grant or the default, and what it has to do with a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleReport {
    /// What it is about.
    pub what: String,
    /// `allow`, `ask` or `deny`.
    pub says: String,
    /// Where it stands; who gave it, of a grant.
    pub source: String,
    /// The id of a grant.
    pub grant: Option<String>,
    /// `decides`, `overruled` or `idle`.
    pub standing: String,
    /// Why it is idle.
    pub why: Option<String>,
}
