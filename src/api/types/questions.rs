//! Pairing of a browser, and answers to questions.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a browser gets for the ticket of a pairing.
#[derive(Debug, Serialize, ToSchema)]
pub struct NewPairing {
    /// For the header `Authorization: Bearer`, valid once the pairing is confirmed at the terminal.
    pub bearer: String,
    /// The person compares it with the code that the terminal shows.
    pub code: String,
}

/// The state of a pairing: `none`: the request was made with another credential; `waiting`: the person has not decided yet; `paired`:
/// the browser may answer questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PairingWord {
    /// The request was made with another credential.
    None,
    /// The person has not decided yet.
    Waiting,
    /// The browser may answer questions.
    Paired,
}

/// The pairing whose bearer a request has.
#[derive(Debug, Serialize, ToSchema)]
pub struct PairingView {
    /// The state of the pairing.
    pub state: PairingWord,
    /// Milliseconds until this state ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
    /// For a paired browser: the bearer that all browsers share, for everything but answers. Unlike a pairing it survives a
    /// restart of the daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
}

/// An answer to a question about a tool call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct QuestionAnswer {
    /// The `digest` of the question that was shown.
    #[schema(pattern = "^[0-9a-fA-F]{64}$")]
    pub digest: String,
    /// The answer.
    pub answer: AnswerWord,
    /// With `no`: the reason, which the model gets.
    #[schema(max_length = 2000)]
    pub value: Option<String>,
}

/// An answer: `yes`: the call may be made, this once and with these arguments; `no`: the call is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerWord {
    /// The call may be made, this once and with these arguments.
    Yes,
    /// The call is not made.
    No,
}
