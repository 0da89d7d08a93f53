//! The vocabulary of a conversation. Each serialised border (`protocol`, `history::record`, provider JSON) has
//! its own types; only enums of words, which are the same at every border, are serialised from here.

use serde::{Deserialize, Serialize};

/// One message of what the model is sent, in the order of the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The instructions.
    System(String),
    /// What the user said, with what the shell knows in front of it.
    User(String),
    /// What the model answered, and the tools it called. Each call is followed by one [`Message::Tool`].
    Assistant(String, Vec<ToolCall>),
    /// What became of a call.
    Tool(ToolResult),
}

impl Message {
    /// An answer without calls.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message::Assistant(text.into(), Vec::new())
    }

    /// The text of the message.
    pub fn text(&self) -> &str {
        match self {
            Message::System(t) | Message::User(t) | Message::Assistant(t, _) => t,
            Message::Tool(result) => &result.text,
        }
    }
}

/// A model's wish to use a tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Names the call within its conversation; its result bears the same id.
    pub id: String,
    /// `alias.tool`; what the model made up where no tool is named so.
    pub name: String,
    /// The text that should be a JSON object, as it came.
    pub arguments: String,
    /// What the server wants to have back with the call (`extra_content`), as JSON; nobody's business but its own.
    pub extra: Option<String>,
}

/// What the model is told about a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    /// The call.
    pub id: String,
    /// `alias.tool`, as in the call.
    pub name: String,
    /// What the tool said, or why there is nothing.
    pub text: String,
    /// Pictures that the tool made.
    pub images: Vec<Image>,
}

/// A picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its type, `image/png`.
    pub mime: String,
    /// The file, in base64 as it came.
    pub data: String,
}

/// A tool that can be called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tool {
    /// `alias.tool`: on the screen, in the config and in the history.
    pub name: String,
    /// The server's alias.
    pub server: String,
    /// The tool's name at its server.
    pub tool: String,
    /// A name for people, where the server gives one.
    pub title: Option<String>,
    /// What it does, in the server's words.
    pub description: String,
    /// The JSON Schema of its arguments: the text of a JSON object.
    pub schema: String,
    /// What the server says about it.
    pub annotations: Annotations,
    /// The user believes the server's annotations (`trust_annotations = true`).
    pub trusted: bool,
    /// Stands for all of this but the annotations, and for how its server is reached: another one is another
    /// tool, whatever its name. Never shown, and never kept.
    pub identity: String,
}

/// What a server says about a tool. Hints, which may be lies.
/// <https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations>
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Annotations {
    /// `readOnlyHint`: it changes nothing.
    pub read_only: Option<bool>,
    /// `destructiveHint`: it may destroy something.
    pub destructive: Option<bool>,
    /// `idempotentHint`: calling it again changes nothing more.
    pub idempotent: Option<bool>,
    /// `openWorldHint`: it reaches beyond its server.
    pub open_world: Option<bool>,
}

impl Annotations {
    /// Whether it says that it only reads. Both hints at once mean destructive.
    pub fn reads_only(&self) -> bool {
        self.operation() == Operation::Read
    }

    /// What a call does, by the server's word: what it is to be called with. Without a word, it writes.
    pub fn operation(&self) -> Operation {
        if self.destructive == Some(true) {
            Operation::Destructive
        } else if self.read_only == Some(true) {
            Operation::Read
        } else {
            Operation::Write
        }
    }
}

/// What a call does. Each is more than the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// It changes nothing.
    Read,
    /// It changes something.
    Write,
    /// It destroys something.
    Destructive,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 3] = [Operation::Read, Operation::Write, Operation::Destructive];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Destructive => "destructive",
        }
    }

    /// The one of that word.
    pub fn from_word(word: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|o| o.as_str() == word)
    }

    /// The tool through which a model calls others for this.
    pub fn variant(self) -> &'static str {
        match self {
            Operation::Read => "call_tool_read",
            Operation::Write => "call_tool_write",
            Operation::Destructive => "call_tool_destructive",
        }
    }

    /// The operation that a tool of that name is for.
    pub fn of_variant(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|o| o.variant() == name)
    }
}

/// How sensitive the data of a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sensitivity {
    /// Anybody may know it.
    Public,
    /// The people of one house.
    Internal,
    /// One person.
    Private,
    /// Nobody has said.
    Unknown,
}

impl Sensitivity {
    /// All of them.
    pub const ALL: [Sensitivity; 4] = [
        Sensitivity::Public,
        Sensitivity::Internal,
        Sensitivity::Private,
        Sensitivity::Unknown,
    ];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Sensitivity::Public => "public",
            Sensitivity::Internal => "internal",
            Sensitivity::Private => "private",
            Sensitivity::Unknown => "unknown",
        }
    }

    /// The one of that word.
    pub fn from_word(word: &str) -> Option<Sensitivity> {
        Sensitivity::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

/// What a caller says that a call is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Intent {
    /// What it does.
    pub operation: Operation,
    /// What data it is about.
    pub sensitivity: Option<Sensitivity>,
    /// Why; at most 1000 characters.
    pub reason: Option<String>,
}

/// Tokens that one request took, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt_tokens: u64,
    /// Tokens of the answer.
    pub completion_tokens: u64,
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// It was done, or it waits for the results of its calls.
    Stop,
    /// It ran into `max_tokens` or the end of its context window.
    Length,
    /// The provider filtered the answer.
    ContentFilter,
    /// The user stopped it.
    Interrupted,
    /// The request failed.
    Error,
}

impl Finish {
    /// The word for it on the wire, in the history and in `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
            Finish::ContentFilter => "content_filter",
            Finish::Interrupted => "interrupted",
            Finish::Error => "error",
        }
    }

    /// Returns the finish of that word.
    pub fn from_word(word: &str) -> Option<Finish> {
        [
            Finish::Stop,
            Finish::Length,
            Finish::ContentFilter,
            Finish::Interrupted,
            Finish::Error,
        ]
        .into_iter()
        .find(|finish| finish.as_str() == word)
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
    /// There is no result: the server or the transport failed.
    CallFailed,
    /// The person denied the call.
    Denied,
    /// A rule, the declared intent, a missing terminal or a failed record prevented the call.
    Blocked,
    /// The call was malformed: not a JSON object, or an unknown tool.
    InvalidCall,
    /// The call was cancelled.
    Interrupted,
}

impl CallStatus {
    /// Returns the word for it on the wire and in `--json`.
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

/// A part of an answer, in the order of its arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// Text of the answer.
    Text(String),
    /// What the model thinks before it answers; not part of the answer.
    Reasoning(String),
    /// A whole call: its last fragment has come. After all text, in the order of the calls.
    Call(ToolCall),
    /// What the server says the model is. At most once.
    Model(String),
    /// The tokens that the request took. At most once, at the end.
    Usage(Usage),
    /// Something to tell the user while it lasts: a wait before another try.
    Notice(String),
    /// The answer is complete; nothing follows.
    Done(Finish),
}
