//! Requests, replies and events about tools and their MCP servers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use super::shown_effect::{DeclaredIntent, ShownEffect, ToolDiffLine, UnseenTool};
use crate::chat::{ApprovalScope, CallStatus, OperationClass};
use crate::error::ErrorKind;

/// A request about MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum McpRequest {
    /// Lists the servers, after waiting at most 1 s for those that are starting: [`Vec<ServerInfo>`].
    List,
    /// Lists the tools: [`Vec<ToolInfo>`].
    Tools {
        /// Limits the list to this server.
        alias: Option<String>,
    },
    /// Describes one tool: [`ToolInfo`].
    Tool {
        /// The tool, as `alias.tool`.
        name: String,
    },
    /// Searches the tools, best match first: [`Vec<FoundTool>`].
    Search {
        /// The search words.
        query: String,
        /// Maximum number of tools.
        limit: usize,
    },
    /// Connects to a server until the daemon ends; replies once it is connected: [`ServerInfo`].
    Connect {
        /// The server's URL.
        url: String,
        /// The alias; by default derived from the host name.
        alias: Option<String>,
    },
    /// Disconnects a server until the daemon ends or it is connected again: [`bool`], whether it was connected.
    Disconnect {
        /// The server's alias.
        alias: String,
    },
    /// Reconnects a server after its tokens have changed: [`ServerInfo`].
    Reconnect {
        /// The server's alias.
        alias: String,
    },
    /// Lists the resources: [`Vec<ResourceInfo>`].
    Resources {
        /// Limits the list to this server.
        alias: Option<String>,
    },
    /// Lists the prompts: [`Vec<PromptInfo>`].
    Prompts {
        /// Limits the list to this server.
        alias: Option<String>,
    },
    /// Returns the text of a prompt: [`String`].
    Prompt {
        /// `alias.prompt`.
        name: String,
        /// Its arguments.
        arguments: Vec<(String, String)>,
    },
}

/// A server in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// The alias.
    pub alias: String,
    /// Its URL, or its command without values that may be secrets.
    pub target: String,
    /// The name and version that it reports.
    pub version: Option<String>,
    /// The negotiated protocol version.
    pub protocol: Option<String>,
    /// Number of its tools.
    pub tools: usize,
    /// The state of the connection.
    pub status: ServerStatus,
    /// The last error.
    pub error: Option<String>,
    /// Warnings about the configuration of its tools, one line each.
    #[serde(default)]
    pub hints: Vec<String>,
    /// Whether the server is in the configuration rather than connected manually.
    pub configured: bool,
}

/// The state of the connection to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerStatus {
    /// Configured, but not needed by a prompt so far.
    Idle,
    /// Being started.
    Starting,
    /// Connected.
    Ready,
    /// The connection failed.
    Failed,
    /// The server requires `aish-helper mcp login`.
    Login,
    /// Turned off.
    Disabled,
}

impl ServerStatus {
    /// Returns the name used on the wire and in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            ServerStatus::Idle => "idle",
            ServerStatus::Starting => "starting",
            ServerStatus::Ready => "ready",
            ServerStatus::Failed => "failed",
            ServerStatus::Login => "login",
            ServerStatus::Disabled => "disabled",
        }
    }
}

/// A tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolInfo {
    /// `alias.tool`.
    pub name: String,
    /// The server's alias.
    pub server: String,
    /// Display name.
    pub title: Option<String>,
    /// Description by the server.
    pub description: String,
    /// Annotation of the server; `None` if it gives none.
    pub read_only: Option<bool>,
    /// Annotation of the server, likewise.
    pub destructive: Option<bool>,
    /// Annotation of the server, likewise.
    pub idempotent: Option<bool>,
    /// Annotation of the server, likewise.
    pub open_world: Option<bool>,
    /// Whether the user trusts the annotations.
    pub trusted: bool,
    /// The operation class of a call without a more severe intent.
    pub operation: OperationClass,
    /// The JSON Schema of its arguments.
    pub schema: serde_json::Value,
}

/// Word for an annotation that the server does not give.
pub const NOT_DECLARED: &str = "not declared";

impl ToolInfo {
    /// Returns the annotations and whether they are trusted, as names and text for the user.
    pub fn annotation_words(&self) -> [(&'static str, &'static str); 5] {
        let word = |value: Option<bool>| match value {
            Some(true) => "yes",
            Some(false) => "no",
            None => NOT_DECLARED,
        };
        let trusted = match self.trusted {
            // The reserved aliases.
            true if matches!(self.server.as_str(), "aish" | "helper") => "yes: a tool of aish",
            true => "yes (trust_annotations = true)",
            false => "no: annotations of this server are not trusted",
        };
        [
            ("only reads", word(self.read_only)),
            ("may destroy", word(self.destructive)),
            ("safe to repeat", word(self.idempotent)),
            ("reaches outside", word(self.open_world)),
            ("trusted", trusted),
        ]
    }
}

/// A tool found by a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundTool {
    /// The score.
    pub score: f32,
    /// The `call_tool_*` tool to call it with, by its annotations.
    pub call_with: String,
    /// The tool.
    #[serde(flatten)]
    pub tool: ToolInfo,
}

/// A tool call from the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualCall {
    /// The declared operation.
    pub operation: OperationClass,
    /// `server:tool`.
    pub name: String,
    /// The text of a JSON object.
    pub arguments: String,
    /// The declared reason.
    pub reason: Option<String>,
    /// The declared sensitivity of the data.
    pub sensitivity: Option<String>,
    /// The working directory.
    pub cwd: String,
    /// `AISH_*` of the client's environment.
    pub overrides: BTreeMap<String, String>,
    /// The client's terminal, `pts/3`, for messages about questions.
    #[serde(default)]
    pub tty: Option<String>,
    /// The variables of the client's shell with which commands of the tool `shell` run.
    #[serde(default)]
    pub work_env: BTreeMap<String, String>,
}

/// Result of a [`ManualCall`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualCallResult {
    /// How the call ended.
    pub status: CallStatus,
    /// The whole text of the result.
    pub text: String,
    /// Why there is no result.
    pub why: Option<String>,
    /// The error kind that decides the exit code, if there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// Whether the reason is that there is no such tool.
    #[serde(default)]
    pub has_no_tool: bool,
    /// The id of the record.
    pub id: String,
}

/// A resource in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceInfo {
    /// The server's alias.
    pub server: String,
    /// Its URI, or a URI template if `template` is set.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// Description by the server.
    pub description: Option<String>,
    /// Its MIME type.
    pub mime: Option<String>,
    /// The URI is a template (RFC 6570).
    pub template: bool,
}

/// A prompt in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptInfo {
    /// `alias.prompt`.
    pub name: String,
    /// Description by the server.
    pub description: Option<String>,
    /// Its arguments: name, and whether it is required.
    pub arguments: Vec<(String, bool)>,
}

/// A question to the user about a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Identifies the question in the reaction.
    pub id: String,
    /// The tool, as its server describes it.
    pub tool: ToolInfo,
    /// Where the server is: its URL or its command.
    pub target: String,
    /// The exact arguments, sent byte for byte: the text of a JSON object.
    pub arguments: String,
    /// Number of the call within the answer, from 1.
    pub number: usize,
    /// Number of calls in the answer.
    pub of: usize,
    /// Number of tools of its server, and how many of them may write.
    pub server_tools: (usize, usize),
    /// The operation class that the policy applies.
    pub operation: OperationClass,
    /// The intent that the model declares in a `call_tool_*` call.
    pub intent: Option<DeclaredIntent>,
    /// The rule that requires the question.
    pub why: String,
    /// A contradiction between intent and annotations that does not reject the call.
    pub warning: Option<String>,
    /// Diff against the definition that the user was last shown, which is why the user is asked again; empty if the tool
    /// is unchanged.
    pub changes: Vec<ToolDiffLine>,
    /// The tool is new to the person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unseen: Option<UnseenTool>,
    /// What the call would send, where that is known: the exact text.
    #[serde(default)]
    pub preview: Option<String>,
    /// What a call of a built-in tool would do.
    #[serde(default)]
    pub effect: ShownEffect,
    /// The offered approval scopes beyond [`ApprovalScope::Once`].
    pub offers: Vec<ApprovalScope>,
    /// SHA-256 of the question; see [`ApprovalRequest::shown_digest`].
    #[serde(default)]
    pub digest: String,
}

impl ApprovalRequest {
    /// Returns the SHA-256 of everything that is shown, in hexadecimal. A reaction is valid only with this digest.
    pub fn shown_digest(&self) -> String {
        let question = ApprovalRequest {
            digest: String::new(),
            ..self.clone()
        };
        json_digest(&question)
    }
}

/// Returns the SHA-256 of a value's JSON text, in hexadecimal.
fn json_digest(value: &impl Serialize) -> String {
    // A struct of strings and numbers always serializes.
    let json = serde_json::to_vec(value).unwrap_or_default();
    let hash = Sha256::digest(&json);
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

/// Tools of a server that the user has not seen, shown before the first call of one of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTools {
    /// The server's alias.
    pub server: String,
    /// Its URL or its command.
    pub target: String,
    /// Whether the user has not seen any tool of the server before.
    pub first: bool,
    /// The tools.
    pub tools: Vec<ToolInfo>,
}

/// A question of a server to the user (elicitation) during a tool call.
/// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElicitationPrompt {
    /// Identifies the question in the reaction.
    pub id: String,
    /// The server's alias.
    pub server: String,
    /// The message of the server.
    pub message: String,
    /// Form mode: the JSON Schema of the answer, a flat object.
    pub schema: Option<serde_json::Value>,
    /// URL mode: the page to open.
    pub url: Option<String>,
    /// SHA-256 of the question; see [`ElicitationPrompt::shown_digest`].
    #[serde(default)]
    pub digest: String,
}

impl ElicitationPrompt {
    /// Returns the SHA-256 of everything that is shown, in hexadecimal. A reaction is valid only with this digest.
    pub fn shown_digest(&self) -> String {
        let question = ElicitationPrompt {
            digest: String::new(),
            ..self.clone()
        };
        json_digest(&question)
    }
}

/// The reaction of a client to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum Reaction {
    /// Reaction to an [`ApprovalRequest`].
    Call {
        /// Id of the question.
        id: String,
        /// [`ApprovalRequest::shown_digest`] of what was shown.
        digest: String,
        /// The verdict.
        verdict: ApprovalVerdict,
        /// The arguments as last shown: those of the question, or as edited by the user.
        arguments: String,
    },
    /// Reaction to an [`ElicitationPrompt`].
    Elicit {
        /// Id of the question.
        id: String,
        /// [`ElicitationPrompt::shown_digest`] of what was shown.
        digest: String,
        /// The requested object, if accepted in form mode.
        content: Option<serde_json::Value>,
        /// The action.
        action: ElicitationAction,
    },
}

impl Reaction {
    /// Returns whether a person answered. Otherwise the client has no terminal to ask on.
    pub fn is_answer(&self) -> bool {
        match self {
            Reaction::Call { verdict, .. } => *verdict != ApprovalVerdict::NoTerminal,
            Reaction::Elicit { action, .. } => *action != ElicitationAction::NoTerminal,
        }
    }
}

/// The user's answer to an elicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationAction {
    /// Sends the form, or opened the page.
    Accept,
    /// Declines.
    Decline,
    /// Dismisses the question without an answer.
    Cancel,
    /// The client has no terminal to ask on. Counts as dismissed if no other client can answer.
    NoTerminal,
}

impl ElicitationAction {
    /// Returns the name used on the wire and with `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            ElicitationAction::Accept => "accept",
            ElicitationAction::Decline => "decline",
            ElicitationAction::Cancel => "cancel",
            ElicitationAction::NoTerminal => "no_terminal",
        }
    }
}

/// The user's verdict on a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovalVerdict {
    /// Allow this call.
    Once,
    /// Allow this tool for the session.
    Tool,
    /// Allow the read-only tools of the server for the session.
    Reads,
    /// Allow this tool always, by a rule in the configuration.
    Always,
    /// Deny, with an optional message for the model.
    No {
        /// The message.
        words: Option<String>,
    },
    /// Ctrl-C: deny and end the turn.
    Stop,
    /// Deny, because the client has no terminal to ask on.
    NoTerminal,
}

/// A tool call has started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStarted {
    /// Id of the call.
    pub id: String,
    /// `alias.tool`.
    pub name: String,
    /// The arguments.
    pub arguments: String,
    /// The rule that allowed the call without a question.
    pub rule: Option<String>,
    /// The operation class that the policy applies.
    pub operation: OperationClass,
    /// A contradiction between intent and annotations.
    #[serde(default)]
    pub warning: Option<String>,
    /// The call runs a command, whose output follows.
    #[serde(default)]
    pub prints: bool,
}

/// A tool call has ended, or was not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFinished {
    /// Id of the call.
    pub id: String,
    /// `alias.tool`.
    pub name: String,
    /// How the call ended.
    pub status: CallStatus,
    /// Duration of the call in milliseconds.
    #[serde(rename = "duration_ms")]
    pub duration_ms: u64,
    /// Size of the result before truncation.
    pub bytes: u64,
    /// The first lines of the result; for a call that was not made, the reason.
    pub head: String,
    /// Lines of the result that `head` does not show.
    pub more: usize,
    /// Content other than text, one line each.
    pub notes: Vec<String>,
}
