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
    /// Who did it, and what it belongs to. Last: whoever looks for a type finds it at the start of the line.
    #[serde(default, skip_serializing_if = "Links::is_empty")]
    pub links: Links,
}

/// Who did it, and what it belongs to: human command → prompt → turn → tool call → exec.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Links {
    /// The user's login name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// One request of a client (UUIDv7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The command that the person typed, `SHELL@MS`: its shell and when it was started, as its
    /// [`Body::Command`] has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// One prompt and all that came of it (UUIDv7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// One request to the model, with its answer and calls (UUIDv7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
}

impl Links {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        *self == Links::default()
    }
}

/// What a call does, as it was decided on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The server's alias; empty where the call names none.
    pub server: String,
    /// The tool's name at its server; empty likewise.
    pub tool: String,
    /// Through which tool it was called, `call_tool_read` and so on; none where the model was offered the tool itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// `read`, `write` or `destructive`: what the gate took it for.
    pub operation: String,
    /// What the caller has declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Intent>,
    /// What the server said of the tool then.
    #[serde(default)]
    pub annotations: Annotations,
}

/// What a caller has declared.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// `read`, `write` or `destructive`.
    pub operation_type: String,
    /// `public`, `internal`, `private` or `unknown`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_sensitivity: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What a server says of a tool, in the protocol's names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it again changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches beyond its server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
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
        /// `once`, `tool`, `reads`, `always` (the person's yes and how far it goes; `server` in older records), `rule`
        /// (allowed), `no`, `stop` (the person's no), `no_terminal`, `denied` (by a rule).
        decision: String,
        /// With `rule` and `denied`: which. With `no`: the person's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// The exact arguments decided on; they differ from the call's after an edit.
        arguments: String,
        /// SHA-256 over server, tool and arguments, of an approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        /// What it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        act: Option<Act>,
    },
    /// What became of a call.
    Tool {
        /// The call.
        call: String,
        /// `alias.tool`.
        name: String,
        /// `success`, `error` (the tool says so), `failed` (no result), `denied` (by the person), `blocked` (by a rule, for
        /// its intent, for want of a terminal or of a record), `skipped` (the arguments were no JSON object, or there
        /// is no such tool) or `interrupted`.
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
        /// What it does; none of a tool of our own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        act: Option<Act>,
        /// The arguments that were sent, or would have been.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
        /// Who decided: `person` or `rule`; none where it did not come to that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Which rule, or what the person said; or why it was blocked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// SHA-256 of what the tool said, in hexadecimal, before anything was cut.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    /// The rules or the grants have changed.
    Policy {
        /// `granted`, `lapsed`, `revoked`, `always` (a rule was written to the config), `changed` (the configuration was).
        change: String,
        /// The rule or the grant, in the words of `aish-helper policy list`.
        what: String,
        /// The grant's id.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<String>,
        /// Why it changed, where there is more to say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// A connection to an MCP server was made, or has ended.
    Server {
        /// Its alias.
        alias: String,
        /// `connected`, `failed`, `login` or `disconnected`.
        event: String,
        /// Its URL or its command, without secrets.
        target: String,
        /// Its name and version, in its own words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// How many tools it offers.
        tools: usize,
        /// What went wrong.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// A person decided on a proposed command. Synced before the command runs.
    Decision {
        /// Names the proposal in the records that follow.
        token: String,
        /// `run`, `insert`, `no`, `quit`, or `denied` (by a rule).
        choice: String,
        /// What the model proposed.
        proposed: String,
        /// What was shown last and, with `run`, runs.
        command: String,
        /// Which rule has decided; none where the person has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
    /// An approved command has ended. Goes with the next prompt.
    Exec {
        /// The proposal.
        token: String,
        /// What ran.
        command: String,
        /// Its exit code.
        exit: i32,
        /// How long it took from the approval on; none in older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
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
    pub fn new(id: uuid::Uuid, at_ms: u64, links: Links, body: Body) -> Record {
        Record {
            v: VERSION,
            id: id.to_string(),
            at_ms,
            links,
            body,
        }
    }
}
