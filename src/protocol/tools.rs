//! Requests, replies and events about tools and their MCP servers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::chat::{CallStatus, DataSensitivity, OperationClass};
use crate::error::ErrorKind;

/// A request about MCP servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum McpRequest {
    /// The servers: [`Vec<ServerInfo>`], once those that start now have come up or failed (1 s at most).
    List,
    /// The tools: [`Vec<ToolInfo>`].
    Tools {
        /// Of this server alone.
        alias: Option<String>,
    },
    /// One tool, `alias.tool`: [`ToolInfo`].
    Tool {
        /// Its name.
        name: String,
    },
    /// The tools that fit a question, best first: [`Vec<FoundTool>`].
    Search {
        /// The question.
        query: String,
        /// At most so many.
        limit: usize,
    },
    /// Connect to a server until the daemon ends: [`ServerInfo`], once it is up.
    Connect {
        /// Where it is.
        url: String,
        /// What to call it; made from the host's name where there is none.
        alias: Option<String>,
    },
    /// Let go of a server until the daemon ends or it is connected again: [`bool`], false where it was not connected.
    Disconnect {
        /// Which.
        alias: String,
    },
    /// The tokens of a server have changed: connect again with them: [`ServerInfo`].
    Reconnect {
        /// Which.
        alias: String,
    },
    /// The resources: [`Vec<ResourceInfo>`].
    Resources {
        /// Of this server alone.
        alias: Option<String>,
    },
    /// The prompts: [`Vec<PromptInfo>`].
    Prompts {
        /// Of this server alone.
        alias: Option<String>,
    },
    /// The text of a prompt: [`String`].
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
    /// What it is called here.
    pub alias: String,
    /// Its URL, or its command without values that may be secret.
    pub target: String,
    /// Its name and version, in its own words.
    pub version: Option<String>,
    /// The protocol's version that is spoken with it.
    pub protocol: Option<String>,
    /// How many tools it offers.
    pub tools: usize,
    /// The state of the connection.
    pub status: ServerStatus,
    /// What went wrong last.
    pub error: Option<String>,
    /// What seems to be wrong with what the configuration says of its tools, a line each.
    #[serde(default)]
    pub hints: Vec<String>,
    /// It is in the config, and not only connected by hand.
    pub configured: bool,
}

/// The state of the connection to an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerStatus {
    /// Configured, and no prompt has needed it yet.
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
    /// Returns the word for it on the wire and in lists.
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
    /// A name for people.
    pub title: Option<String>,
    /// What it does, in the server's words.
    pub description: String,
    /// What the server says about it; `None` where it says nothing.
    pub read_only: Option<bool>,
    /// The same.
    pub destructive: Option<bool>,
    /// The same.
    pub idempotent: Option<bool>,
    /// The same.
    pub open_world: Option<bool>,
    /// The user believes what the server says about it.
    pub trusted: bool,
    /// What a call of it is treated as where the caller declares nothing more.
    pub operation: OperationClass,
    /// The JSON Schema of its arguments.
    pub schema: serde_json::Value,
}

impl ToolInfo {
    /// What the server says about the tool, and what that is worth: names and words for people.
    pub fn annotation_words(&self) -> [(&'static str, &'static str); 5] {
        let word = |said: Option<bool>| match said {
            Some(true) => "yes",
            Some(false) => "no",
            None => "not said",
        };
        let trusted = match self.trusted {
            true => "yes, you believe what its server says (trust_annotations = true)",
            false => "no, this is its server's word alone",
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

/// A tool that fits a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FoundTool {
    /// How well.
    pub score: f32,
    /// `call_tool_read` and so on: through which tool it is to be called, by its server's word.
    pub call_with: String,
    /// The tool.
    #[serde(flatten)]
    pub tool: ToolInfo,
}

/// A call that a person makes by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualCall {
    /// The declared operation.
    pub operation: OperationClass,
    /// `server:tool`.
    pub name: String,
    /// The text of a JSON object.
    pub arguments: String,
    /// Why they make it.
    pub reason: Option<String>,
    /// The declared sensitivity of the data.
    pub sensitivity: Option<String>,
    /// The working directory.
    pub cwd: String,
    /// `AISH_*` of the client's environment.
    pub overrides: BTreeMap<String, String>,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManualCallResult {
    /// How the call ended.
    pub status: CallStatus,
    /// The whole text of the result.
    pub text: String,
    /// Why there is no result.
    pub why: Option<String>,
    /// Decides the exit code where there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// The id of the record.
    pub id: String,
}

/// A resource in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceInfo {
    /// The server's alias.
    pub server: String,
    /// Its URI; a template of such where `template` is set.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is.
    pub description: Option<String>,
    /// Its type.
    pub mime: Option<String>,
    /// The URI is a template (RFC 6570).
    pub template: bool,
}

/// A prompt in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptInfo {
    /// `alias.prompt`.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// The names of its arguments, and whether each must be given.
    pub arguments: Vec<(String, bool)>,
}

/// A call that a person is asked about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Names the question in the reaction.
    pub id: String,
    /// The tool, as its server describes it.
    pub tool: ToolInfo,
    /// Where the server is: its URL or its command.
    pub target: String,
    /// The exact arguments: the text of a JSON object. What is sent is this, byte for byte.
    pub arguments: String,
    /// Which of its answer's calls, from 1.
    pub number: usize,
    /// How many calls its answer made.
    pub of: usize,
    /// How many tools its server offers, and how many of them may write.
    pub server_tools: (usize, usize),
    /// What the call is treated as.
    pub operation: OperationClass,
    /// What the model declares, where it called through `call_tool_read` and its like.
    pub intent: Option<DeclaredIntent>,
    /// Which rule asks.
    pub why: String,
    /// What speaks against the declaration, where that is not enough to reject it.
    pub warning: Option<String>,
    /// How the tool differs from what the person was shown last; empty where it does not. They were asked again
    /// for that.
    pub changes: Vec<ToolDiffLine>,
    /// Which answers beyond this once would have an effect: `tool`, `reads`, `always`.
    pub offers: Vec<String>,
    /// SHA-256 of the question; see [`Question::shown_digest`].
    #[serde(default)]
    pub digest: String,
}

impl ApprovalRequest {
    /// Returns the SHA-256 of everything that is shown, in hexadecimal. An answer is valid only with this digest.
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

/// What a model declares of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredIntent {
    /// The declared operation.
    pub operation_type: OperationClass,
    /// The declared sensitivity of the data.
    pub data_sensitivity: Option<DataSensitivity>,
    /// Why.
    pub reason: Option<String>,
}

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDiffLine {
    /// `+`, `-` or a space.
    pub sign: char,
    /// The line.
    pub text: String,
}

/// Tools of a server that the person has not seen yet, shown whole before the first call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewTools {
    /// The server's alias.
    pub server: String,
    /// Its URL or its command.
    pub target: String,
    /// No tool of the server was seen before.
    pub first: bool,
    /// The tools.
    pub tools: Vec<ToolInfo>,
}

/// A server asks the person for something (elicitation), while a call of theirs runs.
/// <https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation>
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElicitationPrompt {
    /// Names the question in the reaction.
    pub id: String,
    /// The server's alias.
    pub server: String,
    /// What it says.
    pub message: String,
    /// Form mode: the JSON Schema of the answer, a flat object.
    pub schema: Option<serde_json::Value>,
    /// URL mode: a page that the person is to open.
    pub url: Option<String>,
    /// SHA-256 of the question; see [`Elicit::shown_digest`].
    #[serde(default)]
    pub digest: String,
}

impl ElicitationPrompt {
    /// Returns the SHA-256 of everything that is shown, in hexadecimal. An answer is valid only with this digest.
    pub fn shown_digest(&self) -> String {
        let question = ElicitationPrompt {
            digest: String::new(),
            ..self.clone()
        };
        json_digest(&question)
    }
}

/// What a person said to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum Reaction {
    /// To a [`Question`].
    Call {
        /// The question.
        id: String,
        /// [`Question::shown_digest`] of what was shown.
        digest: String,
        /// What they said.
        verdict: ApprovalVerdict,
        /// The arguments as they were shown last: the question's own, or those of an edit.
        arguments: String,
    },
    /// To an [`Elicit`].
    Elicit {
        /// The question.
        id: String,
        /// [`Elicit::shown_digest`] of what was shown.
        digest: String,
        /// The object asked for, with consent; `None` otherwise.
        content: Option<serde_json::Value>,
        /// The person's answer.
        action: ElicitationAction,
    },
}

/// A person's answer to an elicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationAction {
    /// Sends the form, or opened the page.
    Accept,
    /// Declines.
    Decline,
    /// Dismisses the question without an answer.
    Cancel,
    /// There is no terminal to ask on. Counts as dismissed where nobody else can answer.
    NoTerminal,
}

impl ElicitationAction {
    /// Returns the word for it on the wire and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            ElicitationAction::Accept => "accept",
            ElicitationAction::Decline => "decline",
            ElicitationAction::Cancel => "cancel",
            ElicitationAction::NoTerminal => "no_terminal",
        }
    }
}

/// What a person said to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "snake_case")]
pub enum ApprovalVerdict {
    /// This once.
    Once,
    /// This tool, for the session.
    Tool,
    /// The tools of the server that only read, for the session.
    Reads,
    /// This tool, from now on: a rule in the configuration.
    Always,
    /// No; the model is told so, with the person's words if there are any.
    No {
        /// The words.
        words: Option<String>,
    },
    /// Ctrl-C: no, and the turn ends.
    Stop,
    /// There is no terminal to ask on: no.
    NoTerminal,
}

/// A tool is called now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallStarted {
    /// The call.
    pub id: String,
    /// `alias.tool`.
    pub name: String,
    /// The arguments.
    pub arguments: String,
    /// The rule that allowed it without a question.
    pub rule: Option<String>,
    /// What the call is treated as.
    pub operation: OperationClass,
    /// What speaks against the declaration.
    #[serde(default)]
    pub warning: Option<String>,
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallFinished {
    /// The call.
    pub id: String,
    /// `alias.tool`.
    pub name: String,
    /// How the call ended.
    pub status: CallStatus,
    /// Duration of the call in milliseconds.
    #[serde(rename = "duration_ms")]
    pub duration_ms: u64,
    /// Size of what the tool said, before anything was cut.
    pub bytes: u64,
    /// The first lines of what it said.
    pub head: String,
    /// Lines of the result that `head` does not show.
    pub more: usize,
    /// What the result holds beside text, a line each.
    pub notes: Vec<String>,
}
