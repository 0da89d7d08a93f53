//! The lines of the journal: versioned JSON, one record a line.
//!
//! A reader must take lines of its own version and of every earlier one, and
//! must keep (not understand) a `type` that it does not know.

use serde::{Deserialize, Serialize};

/// Grows when a record changes in a way that an older reader would misread.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`] of the writer.
    pub v: u32,
    /// UUIDv7: sorts by time.
    pub id: String,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub body: Body,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Body {
    /// A session began: the first line of its file.
    Session {
        /// Its id.
        session: String,
        /// The shell it began in.
        shell: Option<String>,
    },
    /// A shell goes on in this session.
    Attached {
        /// The shell.
        shell: String,
    },
    /// The session's model was chosen.
    Model {
        /// Its name in the config.
        model: String,
    },
    /// A person's prompt.
    User {
        /// What was typed.
        text: String,
        /// What was sent for it: the text with shell facts, command output and attachments in front.
        content: String,
        /// The shell.
        shell: Option<String>,
        /// The working directory.
        cwd: String,
    },
    /// The model's answer.
    Assistant {
        /// All of it, proposals included, as it came.
        text: String,
        /// The tools it called. Each has one [`Body::Tool`] after it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Call>,
        /// The model's name in the config.
        model: String,
        /// `stop`, `length`, `content_filter`, `interrupted` or `error`.
        finish: String,
        /// What failed, with `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Tokens of the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_tokens: Option<u64>,
        /// Tokens of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        completion_tokens: Option<u64>,
        /// From the request to the last token.
        ms: u64,
    },
    /// A call was allowed or denied. Synced before the call is made.
    Approval {
        /// The call.
        call: String,
        /// `alias.tool`.
        name: String,
        /// `once`, `tool`, `server`, `rule`, `no`, `stop` or `no_terminal`.
        decision: String,
        /// With `rule`: which. With `no`: the person's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// The exact arguments decided on; they differ from the call's after an edit.
        arguments: String,
        /// SHA-256 over server, tool and arguments, of an approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    /// What became of a call.
    Tool {
        /// The call.
        call: String,
        /// `alias.tool`.
        name: String,
        /// `success`, `error` (the tool says so), `failed` (no result), `denied`, `skipped` (the
        /// arguments were no JSON object, or there is no such tool) or `interrupted`.
        status: String,
        /// What the model is told.
        text: String,
        /// Pictures in it: type and base64.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<(String, String)>,
        /// What failed, which the model is not told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Size of what the tool said, before anything was cut.
        bytes: u64,
        /// How long the call took.
        ms: u64,
    },
    /// A person decided on a proposed command. Synced before the command runs.
    Decision {
        /// Names the proposal in the records that follow.
        token: String,
        /// `run`, `insert`, `no` or `quit`.
        choice: String,
        /// What the model proposed.
        proposed: String,
        /// What was shown last and, with `run`, runs.
        command: String,
    },
    /// An approved command has ended. Goes with the next prompt.
    Exec {
        /// The proposal.
        token: String,
        /// What ran.
        command: String,
        /// Its exit code.
        exit: i32,
        /// Its output, head and tail; `None` where it had the terminal for itself.
        output: Option<Output>,
    },
    /// A command that the person ran.
    Command {
        /// The shell.
        shell: String,
        /// The text.
        command: String,
        /// Where it was started.
        cwd: String,
        /// Its terminal.
        tty: String,
        /// When it was started, milliseconds since 1970.
        start_ms: u64,
        /// How long it took.
        duration_ms: u64,
        /// Its exit code.
        exit: i32,
        /// The session of the shell at that time.
        session: Option<String>,
        /// The variables of `AISH_ENV` that were set, `NAME=value`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        env: Vec<String>,
    },
    /// A type that this version does not know.
    #[serde(other)]
    Unknown,
}

/// A call of a tool, as the model made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Names it in its conversation.
    pub id: String,
    /// `alias.tool`.
    pub name: String,
    /// The text that should be a JSON object.
    pub arguments: String,
    /// What the model's server wants to have back with it, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<String>,
}

/// What a command printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The first part, or all.
    pub head: String,
    /// The last part, where something was left out between.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tail: String,
    /// Bytes left out between.
    #[serde(default)]
    pub omitted: u64,
}

impl Record {
    /// A record of now.
    pub fn new(id: uuid::Uuid, at_ms: u64, body: Body) -> Record {
        Record {
            v: VERSION,
            id: id.to_string(),
            at_ms,
            body,
        }
    }
}
