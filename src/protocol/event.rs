//! Events that the daemon reports while it serves a request.

use serde::{Deserialize, Serialize};

use super::tools;

/// An event of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The client watches this turn. The first event of [`super::Request::Attach`].
    Attached {
        /// The session's id.
        session: String,
        /// The person's words that started the turn.
        prompt: String,
        /// Whether the turn still runs; otherwise the answer comes from the journal.
        running: bool,
        /// Start time of the turn, milliseconds since 1970.
        started_ms: u64,
    },
    /// The turn has started.
    TurnStarted {
        /// The session's id.
        session: String,
        /// The model's name in the config, or the name of the detected model.
        model: String,
    },
    /// A line for the person in aish's own words; parts of it may be untrusted.
    Notice {
        /// One line.
        text: String,
    },
    /// A part of the model's reasoning, which is not part of the answer. Untrusted.
    Reasoning {
        /// The text.
        text: String,
    },
    /// The model proposes a command.
    Proposal {
        /// The exact command.
        command: String,
    },
    /// The daemon needs variables of the client's environment. The client answers with an ENV frame.
    EnvRequested {
        /// Variable names.
        names: Vec<String>,
    },
    /// To an output pump: the command has ended.
    CaptureFinish,
    /// May this tool be called? A client with a terminal answers with a REACTION frame.
    ApprovalRequested(Box<tools::ApprovalRequest>),
    /// An MCP server asks the person for input. A client with a terminal answers with a REACTION frame.
    ElicitationRequested(Box<tools::ElicitationPrompt>),
    /// A question was answered or withdrawn.
    QuestionClosed {
        /// The question.
        id: String,
        /// The terminal the answer was given on.
        answered_in: Option<String>,
        /// The answer.
        outcome: QuestionOutcome,
    },
    /// Tools that the person has not seen yet, before the first call of one.
    NewTools(tools::NewTools),
    /// A tool call has started.
    ToolCallStarted(tools::CallStarted),
    /// Progress of a tool call.
    ToolCallProgress {
        /// One line.
        text: String,
    },
    /// Output of the command that a tool call runs, as it is printed.
    ToolCallOutput {
        /// The text, which may end within a line.
        text: String,
    },
    /// A tool call has ended, or was not made.
    ToolCallFinished(tools::CallFinished),
    /// An event of a newer daemon that this version does not know.
    #[serde(other)]
    Unknown,
}

/// How a question was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QuestionOutcome {
    /// The call was allowed once.
    AllowedOnce,
    /// The tool was allowed for the session.
    AllowedTool,
    /// The server's read-only tools were allowed for the session.
    AllowedReads,
    /// The tool was allowed by a new rule.
    AllowedAlways,
    /// The call was denied.
    Denied,
    /// The call was denied and the turn was stopped.
    Stopped,
    /// The form was sent, or the page was opened.
    Accepted,
    /// The form was declined.
    Declined,
    /// The form was dismissed.
    Dismissed,
    /// No client with a terminal was attached.
    NoTerminal,
    /// Nobody answered in time.
    TimedOut,
    /// The question became irrelevant: its call or its turn has ended.
    Withdrawn,
}
