//! Fields with a fixed set of values. A value that this version does not know is read as `Unknown`: a later version may have
//! written it, and older versions could redact it.

use serde::{Deserialize, Serialize};

/// Whether a count is absent from the record.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
pub(super) fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Decision on a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalDecision {
    /// Allowed by the user for this call.
    Once,
    /// Allowed by the user for calls of this tool.
    Tool,
    /// Allowed by the user for calls of this server that only read.
    Reads,
    /// Allowed by the user for calls of this server; no longer written.
    Server,
    /// Allowed by the user with a rule that was written to the configuration.
    Always,
    /// Allowed by a rule or a grant.
    Rule,
    /// Denied by the user.
    No,
    /// Denied by the user, who also stopped the turn.
    Stop,
    /// Denied because there was no terminal to ask on.
    NoTerminal,
    /// Denied because nobody answered in time.
    TimedOut,
    /// Not answered: the answer was cancelled or the daemon stopped meanwhile.
    Cancelled,
    /// Denied by a rule.
    Denied,
    /// A value of another version.
    #[serde(other)]
    Unknown,
}

/// Who decided on a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecidedBy {
    /// The user, at a question.
    Person,
    /// A rule or a grant.
    Rule,
    /// A value of another version.
    #[serde(other)]
    Unknown,
}

/// Change of a rule or grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyChange {
    /// The user gave a grant at a question.
    Granted,
    /// A grant ended by itself.
    Lapsed,
    /// The user took back a grant or a rule.
    Revoked,
    /// A rule was written to the configuration at a question.
    Always,
    /// The configuration was edited.
    Changed,
    /// A program tried to answer for the user, or to change a rule.
    Refused,
    /// A value of another version.
    #[serde(other)]
    Unknown,
}

/// Event of a connection to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerEvent {
    /// The connection was made.
    Connected,
    /// The connection failed or was lost.
    Failed,
    /// The server requires a login.
    Login,
    /// The connection was closed.
    Disconnected,
    /// A value of another version.
    #[serde(other)]
    Unknown,
}

/// Decision on a proposed command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandDecision {
    /// It may run.
    Run,
    /// It was put on the command line.
    Insert,
    /// The user declined it.
    No,
    /// The user declined it and the following ones of the answer.
    Quit,
    /// A rule denied it.
    Denied,
    /// A value of another version.
    #[serde(other)]
    Unknown,
}
