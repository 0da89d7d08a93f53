//! Tool sources: whatever offers tools and performs approved calls of them.
//!
//! The two implementors are the MCP servers (`mcp`) and the tools of aish itself ([`super::builtin`]). Everything
//! before a call (gate, intent, policy) and after it (redaction, digest, journal) is the same for all sources.

use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::chat::{ImageContent, ToolDefinition};
use crate::safety::policy::{Approved, ExactCall};

/// The future of one call. Boxed, so that sources of different types can be held side by side; a call costs far more
/// than the allocation.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<CallResult, CallError>> + Send + 'a>>;

/// A file that a tool has read or changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFile {
    /// The file.
    pub path: PathBuf,
    /// SHA-256 of its content; `None` for a file that is gone.
    pub digest: Option<[u8; 32]>,
    /// The model knows all of its text.
    pub is_read: bool,
}

/// Offers tools and performs approved calls of them.
pub trait ToolSource: Send + Sync {
    /// The alias under which the source appears as the `server` of its tools.
    fn alias(&self) -> &str;

    /// Returns the tools that can be called now, in the source's order. Must not wait: a source that has to fetch its
    /// list keeps the last one; it is empty while the source is unavailable.
    fn list(&self) -> Arc<[ToolDefinition]>;

    /// Performs one call with exactly the approved arguments.
    ///
    /// # Errors
    /// The call has no result: [`CallError::NotApproved`] if the approval does not cover it or the tool has changed
    /// since, [`CallError::Interrupted`] if it was cancelled, otherwise [`CallError::Failed`].
    fn call<'a>(&'a self, call: SourceCall<'a>) -> CallFuture<'a>;
}

/// One approved call, as a [`ToolSource`] receives it.
#[derive(Debug)]
pub struct SourceCall<'a> {
    /// Permission for exactly this call; used up by it.
    pub approved: Approved,
    /// Server, tool, identity and arguments.
    pub call: ExactCall<'a>,
    /// The current time in milliseconds since the Unix epoch; an approval expires.
    pub now_ms: u64,
    /// Maximum number of text bytes in the result.
    pub max_bytes: usize,
    /// Receives progress and questions while the call runs.
    pub events: &'a mpsc::Sender<CallEvent>,
    /// Cancels the call.
    pub cancel: &'a CancellationToken,
}

/// The result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallResult {
    /// The joined text blocks, with a placeholder line for each block of another type; the structured content if there
    /// is not text. Cut at [`SourceCall::max_bytes`], with a note of the omitted part.
    pub text: String,
    /// The tool reports that it failed (`isError`); the text gives the reason.
    pub is_error: bool,
    /// Images in the result.
    pub images: Vec<ImageContent>,
    /// One line for each content block that is not text: `image: image/png, 12 KB`. Most of these are also in the
    /// text, in brackets.
    pub notes: Vec<String>,
    /// Lines that the model reads below the text. Code that made the call does not get it.
    pub told: Vec<String>,
    /// Size of the result in bytes before anything was cut.
    pub bytes: u64,
    /// The text is what a terminal got, and this line goes before what the terminal shows of it. A long text keeps its end
    /// as well as its beginning.
    pub terminal: Option<String>,
    /// The files that were read or changed.
    pub files: Vec<KnownFile>,
    /// Time that the call took by itself, if it may have waited for another call and the question about it: each `shell` call says it.
    /// Otherwise the time from its start to its end counts.
    pub own_time: Option<Duration>,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The user cancelled the call.
    Interrupted,
    /// The approval does not cover the call, or the tool has changed since; nothing was sent.
    NotApproved,
    /// Any other failure, in one line for the user: a JSON-RPC error, a transport error, a timeout.
    Failed(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Interrupted => f.write_str("interrupted"),
            CallError::NotApproved => f.write_str(
                "not called: the tool or its server has changed since the approval, or the approval has expired",
            ),
            CallError::Failed(reason) => f.write_str(reason),
        }
    }
}

/// An event of a running call.
#[derive(Debug)]
pub enum CallEvent {
    /// Progress, in one line.
    Progress(String),
    /// Output of a command, as it is printed.
    Output(String),
    /// The server asks the user. Dropping the sender counts as a dismissal.
    Elicit(ElicitationRequest, oneshot::Sender<ElicitationResponse>),
    /// The call makes another one. Dropping the sender counts as a call that was not made.
    Nested(NestedRequest),
}

/// A call that a running call makes: code calls a Python helper, or a command that the sandbox blocked runs again outside. It
/// passes the gate like every other call.
#[derive(Debug)]
pub struct NestedRequest {
    /// Name of the tool, as a model would call it.
    pub name: String,
    /// The arguments, a JSON object.
    pub arguments: String,
    /// What the sandbox blocked, in one line, if the call runs a command again outside of it.
    pub blocked: Option<String>,
    /// Receives the result.
    pub reply: oneshot::Sender<NestedResult>,
}

/// The answer of a nested call, or why it was not made.
pub type NestedResult = std::result::Result<NestedAnswer, String>;

/// The answer of a nested call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedAnswer {
    /// The text.
    pub text: String,
    /// The tool reports an error.
    pub is_error: bool,
}

/// A question of a server to the user.
/// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>
#[derive(Debug, Clone, PartialEq)]
pub struct ElicitationRequest {
    /// The server's alias.
    pub server: String,
    /// The server's text.
    pub message: String,
    /// Form mode: the JSON Schema of the answer.
    pub schema: Option<serde_json::Value>,
    /// URL mode: the page to open.
    pub url: Option<String>,
}

/// The user's answer to a server's question.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationResponse {
    /// Accepted, with the object that the schema asks for; `None` in URL mode.
    Accept(Option<serde_json::Value>),
    /// Declined.
    Decline,
    /// Dismissed without an answer.
    Cancel,
}
