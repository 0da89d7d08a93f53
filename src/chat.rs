//! Conversation types. Each serialised format (`protocol`, `history::record`, provider JSON) has its own types; only
//! enums whose names are the same in every format that has them are serialised from here.

pub mod tokens;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The text of a prompt that nobody typed: an approved command has ended, and its output goes to the model.
pub const CONTINUED: &str = "The command has ended; go on.";
/// What people see instead of [`CONTINUED`].
pub const CONTINUED_SHOWN: &str = "Continued with the output";

/// Returns a prompt as people see it.
pub fn shown_prompt(prompt: &str) -> &str {
    match prompt {
        CONTINUED => CONTINUED_SHOWN,
        typed => typed,
    }
}

/// One message of the conversation that is sent to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatMessage {
    /// System instructions.
    System(String),
    /// The user's prompt, preceded by the shell context, and the attached images.
    User(String, Vec<ImageContent>),
    /// The model's answer. Each of its calls is followed by one message with its result.
    Assistant(AssistantMessage),
    /// The result of a tool call.
    Tool(ToolResult),
}

impl ChatMessage {
    /// A prompt without images.
    pub fn user(text: impl Into<String>) -> ChatMessage {
        ChatMessage::User(text.into(), Vec::new())
    }

    /// An answer without tool calls.
    pub fn assistant(text: impl Into<String>) -> ChatMessage {
        ChatMessage::calling(text, Vec::new())
    }

    /// An answer with tool calls.
    pub fn calling(text: impl Into<String>, calls: Vec<ToolCall>) -> ChatMessage {
        ChatMessage::Assistant(AssistantMessage {
            text: text.into(),
            calls,
            native: None,
        })
    }

    /// Returns the text of the message.
    pub fn text(&self) -> &str {
        match self {
            ChatMessage::System(t) | ChatMessage::User(t, _) => t,
            ChatMessage::Assistant(answer) => &answer.text,
            ChatMessage::Tool(result) => &result.text,
        }
    }
}

/// An answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssistantMessage {
    /// The text, without reasoning.
    pub text: String,
    /// The tools that the model called.
    pub calls: Vec<ToolCall>,
    /// The answer as the provider sent it, if the provider wants its reasoning returned.
    pub native: Option<Arc<NativeAnswer>>,
}

/// An answer in the form of its provider, with reasoning that only the provider can read. It is sent back byte for byte, and
/// only as long as what precedes it is what the model saw: providers bind their reasoning to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeAnswer {
    /// The wire format.
    pub dialect: Dialect,
    /// The model's name at its provider.
    pub model: String,
    /// SHA-256 in hex of the instructions, the tools and the messages before the answer, as they were sent.
    pub prefix_sha256: String,
    /// The items of the answer: the text of a JSON array.
    pub items: String,
}

/// The wire format of a provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// Chat completions: <https://platform.openai.com/docs/api-reference/chat>.
    #[default]
    Chat,
    /// The Responses API of OpenAI: <https://platform.openai.com/docs/api-reference/responses>.
    Responses,
    /// The Messages API of Anthropic: <https://docs.claude.com/en/api/messages>.
    Anthropic,
    /// The Gemini API of Google: <https://ai.google.dev/api/generate-content>.
    Gemini,
}

/// A tool call requested by the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Identifies the call within its conversation; its result has the same id.
    pub id: String,
    /// `alias.tool`, or whatever the model wrote if no such tool exists.
    pub name: String,
    /// The arguments as received; should be a JSON object.
    pub arguments: String,
    /// Opaque JSON that the provider wants returned with the call (`extra_content`).
    pub extra: Option<String>,
}

/// The result of a tool call as sent to the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// Id of the call.
    pub id: String,
    /// `alias.tool`, as in the call.
    pub name: String,
    /// The tool's output, or why there is none.
    pub text: String,
    /// Images that the tool returned.
    pub images: Vec<ImageContent>,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageContent {
    /// MIME type, such as `image/png`.
    pub mime: String,
    /// Base64 data, as received. Shared, because every request of a session is built from the same records.
    pub data: Arc<str>,
}

impl ImageContent {
    /// Returns the MIME type of an image that providers accept, by its first bytes.
    pub fn mime_of(bytes: &[u8]) -> Option<&'static str> {
        if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            return Some("image/webp");
        }
        let signatures: [(&[u8], _); 4] = [
            (b"\x89PNG\r\n\x1a\n", "image/png"),
            (b"\xff\xd8\xff", "image/jpeg"),
            (b"GIF87a", "image/gif"),
            (b"GIF89a", "image/gif"),
        ];
        let known = signatures
            .iter()
            .find(|(start, _)| bytes.starts_with(start));
        known.map(|(_, mime)| *mime)
    }
}

/// A tool that can be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolDefinition {
    /// `alias.tool`, as used on the screen, in the configuration and in the history.
    pub name: String,
    /// The server's alias.
    pub server: String,
    /// The tool's name at its server.
    pub tool: String,
    /// Display name, if the server provides one.
    pub title: Option<String>,
    /// The server's description of the tool.
    pub description: String,
    /// JSON Schema of the arguments: the text of a JSON object.
    pub schema: String,
    /// JSON Schema of the structured result, if the server declares one.
    pub output_schema: Option<String>,
    /// The server's annotations.
    pub annotations: ToolAnnotations,
    /// The user trusts the server's annotations (`trust_annotations = true`).
    pub trusted: bool,
    /// Fingerprint of the definition without its annotations and of how the server is reached. A tool with another
    /// identity is another tool, whatever its name. Never shown and never stored.
    pub identity: String,
}

/// A server's hints about a tool, which may be false.
/// <https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations>
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// `readOnlyHint`: the tool does not modify its environment.
    pub read_only: Option<bool>,
    /// `destructiveHint`: the tool may perform destructive updates.
    pub destructive: Option<bool>,
    /// `idempotentHint`: repeated calls with the same arguments have no additional effect.
    pub idempotent: Option<bool>,
    /// `openWorldHint`: the tool interacts with external entities.
    pub open_world: Option<bool>,
}

impl ToolAnnotations {
    /// Whether the annotations declare the tool read-only. Both hints at once count as destructive.
    pub fn reads_only(&self) -> bool {
        self.operation() == OperationClass::Read
    }

    /// Returns the operation class according to the server; without hints, a write.
    pub fn operation(&self) -> OperationClass {
        if self.destructive == Some(true) {
            OperationClass::Destructive
        } else if self.read_only == Some(true) {
            OperationClass::Read
        } else {
            OperationClass::Write
        }
    }
}

/// Operation class of a tool call, ordered by severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationClass {
    /// Changes nothing.
    Read,
    /// Creates or changes something.
    Write,
    /// May destroy something.
    Destructive,
}

impl OperationClass {
    /// All classes.
    pub const ALL: [OperationClass; 3] = [
        OperationClass::Read,
        OperationClass::Write,
        OperationClass::Destructive,
    ];

    /// Returns the name in the configuration, in intents and in the history.
    pub fn as_str(self) -> &'static str {
        match self {
            OperationClass::Read => "read",
            OperationClass::Write => "write",
            OperationClass::Destructive => "destructive",
        }
    }

    /// Parses the name.
    pub fn from_name(word: &str) -> Option<OperationClass> {
        OperationClass::ALL.into_iter().find(|o| o.as_str() == word)
    }

    /// Returns the `call_tool_*` tool through which a model calls tools of this class.
    pub fn call_tool_name(self) -> &'static str {
        match self {
            OperationClass::Read => "call_tool_read",
            OperationClass::Write => "call_tool_write",
            OperationClass::Destructive => "call_tool_destructive",
        }
    }

    /// Returns the class of a `call_tool_*` tool.
    pub fn from_call_tool_name(name: &str) -> Option<OperationClass> {
        OperationClass::ALL
            .into_iter()
            .find(|o| o.call_tool_name() == name)
    }
}

/// Declared sensitivity of the data that a call handles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataSensitivity {
    /// Publicly known.
    Public,
    /// Internal to an organisation.
    Internal,
    /// Personal.
    Private,
    /// Undeclared.
    Unknown,
}

impl DataSensitivity {
    /// All values.
    pub const ALL: [DataSensitivity; 4] = [
        DataSensitivity::Public,
        DataSensitivity::Internal,
        DataSensitivity::Private,
        DataSensitivity::Unknown,
    ];

    /// Returns the name in the configuration and in intents.
    pub fn as_str(self) -> &'static str {
        match self {
            DataSensitivity::Public => "public",
            DataSensitivity::Internal => "internal",
            DataSensitivity::Private => "private",
            DataSensitivity::Unknown => "unknown",
        }
    }

    /// Parses the name.
    pub fn from_name(word: &str) -> Option<DataSensitivity> {
        DataSensitivity::ALL
            .into_iter()
            .find(|s| s.as_str() == word)
    }
}

/// Effect of a rule, ordered by strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleEffect {
    /// The call is made without a question.
    Allow,
    /// The user is asked.
    Ask,
    /// The call is denied.
    Deny,
}

impl RuleEffect {
    /// All effects.
    pub const ALL: [RuleEffect; 3] = [RuleEffect::Allow, RuleEffect::Ask, RuleEffect::Deny];

    /// Returns the name in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            RuleEffect::Allow => "allow",
            RuleEffect::Ask => "ask",
            RuleEffect::Deny => "deny",
        }
    }
}

/// Scope that the user chooses when allowing a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// This call only.
    Once,
    /// This tool, for the session.
    Tool,
    /// The read-only tools of this server, for the session.
    Reads,
    /// This tool permanently: a rule is written as well.
    Always,
}

impl ApprovalScope {
    /// Returns the name on the wire and in the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalScope::Once => "once",
            ApprovalScope::Tool => "tool",
            ApprovalScope::Reads => "reads",
            ApprovalScope::Always => "always",
        }
    }
}

/// What a caller declares about a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallIntent {
    /// Declared operation class.
    pub operation: OperationClass,
    /// Declared data sensitivity.
    pub sensitivity: Option<DataSensitivity>,
    /// Reason for the call; at most 1000 characters.
    pub reason: Option<String>,
}

/// Token counts of one request, as reported by the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens in the request, those of the cache included.
    pub prompt_tokens: u64,
    /// Tokens in the answer, those of the reasoning included.
    pub completion_tokens: u64,
    /// Tokens of the request that were read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens of the request that were written to the provider's cache.
    pub cache_write_tokens: u64,
    /// Tokens of the reasoning, where the provider counts them separately.
    pub reasoning_tokens: u64,
    /// The cost, where the provider reports it, in millionths of a millionth of a US dollar.
    pub cost_picodollars: Option<u64>,
}

impl TokenUsage {
    /// Returns the cost that the provider reports, in US dollars.
    pub fn reported_cost(&self) -> Option<f64> {
        self.cost_picodollars.map(|cost| cost as f64 / 1e12)
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The answer is complete, or the model waits for tool results.
    Stop,
    /// `max_tokens` or the context window was reached.
    Length,
    /// The provider filtered the answer.
    ContentFilter,
    /// The provider paused the answer; the next request continues it (`pause_turn` of Anthropic).
    Paused,
    /// The user cancelled the answer.
    Interrupted,
    /// The request failed.
    Error,
    /// The daemon was killed; the text is what was shown until then, if anything.
    CutOff,
}

impl FinishReason {
    /// Returns the name on the wire, in the history and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ContentFilter => "content_filter",
            FinishReason::Paused => "paused",
            FinishReason::Interrupted => "interrupted",
            FinishReason::Error => "error",
            FinishReason::CutOff => "cut_off",
        }
    }
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallStatus {
    /// The tool returned a result.
    Success,
    /// The tool returned a result that it marked as an error.
    ToolError,
    /// No result: the server or the transport failed.
    CallFailed,
    /// The user denied the call.
    Denied,
    /// A rule, the declared intent, a missing terminal or a failed record prevented the call.
    Blocked,
    /// The call was malformed: not a JSON object, or an unknown tool.
    InvalidCall,
    /// The call was cancelled, or the daemon ended during it.
    Interrupted,
}

impl CallStatus {
    /// Returns the name on the wire and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            CallStatus::Success => "success",
            CallStatus::ToolError => "tool_error",
            CallStatus::CallFailed => "call_failed",
            CallStatus::Denied => "denied",
            CallStatus::Blocked => "blocked",
            CallStatus::InvalidCall => "invalid_call",
            CallStatus::Interrupted => "interrupted",
        }
    }

    /// Returns whether the call was sent to its server.
    pub fn was_made(self) -> bool {
        matches!(
            self,
            CallStatus::Success
                | CallStatus::ToolError
                | CallStatus::CallFailed
                | CallStatus::Interrupted
        )
    }
}

/// One item of a streamed answer, in order of arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamItem {
    /// Text of the answer.
    Text(String),
    /// Reasoning before the answer; not part of it.
    Reasoning(String),
    /// A complete tool call. Comes after all text, in the order of the calls.
    Call(ToolCall),
    /// The answer as the provider sent it. At most once, after the calls.
    Native(Arc<NativeAnswer>),
    /// The model's name as reported by the provider. At most once.
    Model(String),
    /// Token counts. At most once, at the end.
    Usage(TokenUsage),
    /// A message for the user while the request continues, such as a pending retry.
    Notice(String),
    /// Another aish server answers in this separate session, which later prompts continue.
    ServerSession(String),
    /// The answer is complete; nothing follows.
    Done(FinishReason),
}
