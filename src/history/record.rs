//! The records of the journal: versioned JSON, one record per line. `docs/journal.md` describes them for other programs.
//!
//! The names on disk are those of version 2. Version 1 files are read for good: every field and type that was renamed has
//! its old name as an alias here, and [`upgrade`] renames them in records that are read as plain JSON. A `type` that this
//! version does not know is kept in its file and read as [`RecordBody::Unknown`].

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::chat::{CallStatus, FinishReason, NativeAnswer, OperationClass};

mod asking_line;
mod names;
mod parts;
mod values;

pub use asking_line::is_aish;
pub(crate) use names::current_type;
pub use names::upgrade;
pub use parts::{
    Call, CommandOutput, INTERRUPTED, OutputOrigin, RecordedAnnotations, RecordedFile,
    RecordedIntent, UsedPack,
};
pub use values::{ApprovalDecision, CommandDecision, DecidedBy, PolicyChange, ServerEvent};

/// Version that is written. It grows when a record changes in a way that an older reader would misread.
pub const VERSION: u32 = 2;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`VERSION`] of the writer.
    pub v: u32,
    /// UUIDv7: sorts by time.
    pub id: String,
    /// Time of writing in milliseconds since 1970.
    #[serde(rename = "timestamp_ms", alias = "at_ms")]
    pub timestamp_ms: u64,
    /// Type of the record and its fields.
    #[serde(flatten)]
    pub body: RecordBody,
    /// Ids of the user, session, prompt … that caused the record. Written last, so that a scan for a type finds it near the start of the line.
    #[serde(
        default,
        rename = "ids",
        alias = "links",
        skip_serializing_if = "RecordIds::is_empty"
    )]
    pub ids: RecordIds,
}

/// Ids that link a record to its cause: shell command → prompt → round → tool call or proposed command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordIds {
    /// Login name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// The session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// One request of a client (UUIDv7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// The command line that the user typed, as `SHELL@START_MS`: shell and start time of its [`RecordBody::ShellCommand`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// One prompt and everything that followed from it (UUIDv7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// One round: a request to the model with its answer and tool calls (UUIDv7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<String>,
    /// The agent that wrote the record; absent for the user's own session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The prompt that started this agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_turn: Option<String>,
}

impl RecordIds {
    /// Whether no id is set.
    pub fn is_empty(&self) -> bool {
        *self == RecordIds::default()
    }
}

/// Action of a tool call, as classified at the time of the decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedCall {
    /// Alias of the server; empty where the call names none.
    pub server: String,
    /// Name of the tool at its server; empty where the call names none.
    pub tool: String,
    /// `call_tool_read`, `call_tool_write` or `call_tool_destructive`, if the model used one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Operation class that the policy was applied to.
    #[serde(deserialize_with = "names::operation")]
    pub operation: OperationClass,
    /// What the caller declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<RecordedIntent>,
    /// The server's annotations in force at the time of the call.
    #[serde(default)]
    pub annotations: RecordedAnnotations,
}

/// Type of a record and the fields of that type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum RecordBody {
    /// A session began: the first line of its file.
    Session {
        /// Its id.
        session: String,
        /// The shell it began in.
        shell: Option<String>,
    },
    /// A shell continues this session.
    Attached {
        /// The shell.
        shell: String,
    },
    /// The session's model was chosen.
    Model {
        /// Its name in the configuration.
        model: String,
    },
    /// The user gave the session a title.
    Title {
        /// The title.
        title: String,
    },
    /// A setting of the session was changed.
    SessionSetting {
        /// Its name.
        setting: String,
        /// Its value; `None` if it was removed.
        value: Option<String>,
    },
    /// A prompt of the user.
    User {
        /// What was typed.
        #[serde(rename = "prompt", alias = "text")]
        text: String,
        /// What was sent for it: shell facts, command output and attachments, then the prompt.
        #[serde(rename = "rendered", alias = "content")]
        content: String,
        /// The shell.
        shell: Option<String>,
        /// The working directory.
        cwd: String,
        /// Attached images, as `[MIME type, base64]`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<(String, Arc<str>)>,
        /// The prompt pack that was used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pack: Option<UsedPack>,
        /// The output of a command of the user that was sent with the prompt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<OutputOrigin>,
    },
    /// A prompt over HTTP that was accepted before its turn had recorded it. Once the turn does, a [`RecordBody::User`] with the
    /// same prompt id follows; without one the prompt waits, or was never answered.
    WaitingPrompt {
        /// What was sent.
        #[serde(rename = "prompt")]
        text: String,
    },
    /// The older part of the conversation is summarized. If the answer that follows ends normally, it replaces that part
    /// in requests to the model.
    Compaction {
        /// Id of the record of the first prompt that stays as it is; absent where none does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept_from: Option<String>,
        /// Number of prompts that the summary replaces.
        prompts: usize,
    },
    /// An answer of the model.
    Assistant {
        /// The whole text, proposed commands included.
        text: String,
        /// Tool calls of the answer. Each has one [`RecordBody::Tool`] after it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<Call>,
        /// The answer as the provider sent it, if the provider wants its reasoning returned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<Arc<NativeAnswer>>,
        /// The model's name in the configuration.
        model: String,
        /// Why it ended.
        #[serde(deserialize_with = "names::finish")]
        finish: FinishReason,
        /// Cause of `error`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Bytes of the text that exceeded the limit and were not kept.
        #[serde(default, skip_serializing_if = "values::is_zero")]
        omitted: u64,
        /// Tokens of the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_tokens: Option<u64>,
        /// Tokens of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        completion_tokens: Option<u64>,
        /// Tokens of the request that were read from the provider's cache.
        #[serde(default, skip_serializing_if = "values::is_zero")]
        cache_read_tokens: u64,
        /// Tokens of the request that were written to the provider's cache.
        #[serde(default, skip_serializing_if = "values::is_zero")]
        cache_write_tokens: u64,
        /// Tokens of the answer that are reasoning.
        #[serde(default, skip_serializing_if = "values::is_zero")]
        reasoning_tokens: u64,
        /// The host of the provider.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<String>,
        /// What the request cost, in US dollars, where the price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// Whether the cost is estimated, because the provider reported no tokens.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        cost_estimated: bool,
        /// Whether the provider refused the prompt for what it is, so that it is left out of later requests.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
        /// Whether the provider refused the request of a prompt and did not clearly name the cause. The prompt is left out if the
        /// request of the next one is refused too.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        rejected: bool,
        /// Time from the request to the last token.
        #[serde(rename = "duration_ms", alias = "ms")]
        ms: u64,
    },
    /// Decision on a tool call. An approval is synced to disk before the call is made.
    Approval {
        /// Id of the call.
        call: String,
        /// `alias.tool`.
        name: String,
        /// The decision.
        decision: ApprovalDecision,
        /// The deciding rule, or the user's words.
        #[serde(
            default,
            rename = "reason",
            alias = "why",
            skip_serializing_if = "Option::is_none"
        )]
        why: Option<String>,
        /// The exact arguments decided on; they differ from those of the model after an edit.
        arguments: String,
        /// The terminal of the person who answered, such as `/dev/pts/3`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terminal: Option<String>,
        /// The paired browser in which the person answered, by the id of its pairing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        browser: Option<String>,
        /// SHA-256 over server, tool and arguments of an approved call.
        #[serde(
            default,
            rename = "arguments_sha256",
            alias = "digest",
            skip_serializing_if = "Option::is_none"
        )]
        digest: Option<String>,
        /// Action of the call.
        #[serde(
            default,
            rename = "action",
            alias = "act",
            skip_serializing_if = "Option::is_none"
        )]
        act: Option<RecordedCall>,
    },
    /// Result of a tool call.
    Tool {
        /// Id of the call.
        call: String,
        /// `alias.tool`.
        name: String,
        /// How the call ended.
        #[serde(deserialize_with = "names::status")]
        status: CallStatus,
        /// Text sent to the model.
        text: String,
        /// Images of the result, as `[MIME type, base64]`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<(String, Arc<str>)>,
        /// Cause of the failure; not sent to the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Size of the result in bytes before it was shortened.
        bytes: u64,
        /// Duration of the call.
        #[serde(rename = "duration_ms", alias = "ms")]
        ms: u64,
        /// Action of the call; absent for built-in tools.
        #[serde(
            default,
            rename = "action",
            alias = "act",
            skip_serializing_if = "Option::is_none"
        )]
        act: Option<RecordedCall>,
        /// The arguments that were sent, or would have been.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<String>,
        /// Who decided; absent where nothing was decided.
        #[serde(
            default,
            rename = "decided_by",
            alias = "by",
            skip_serializing_if = "Option::is_none"
        )]
        by: Option<DecidedBy>,
        /// The deciding rule, the user's words, or why the call was blocked.
        #[serde(
            default,
            rename = "reason",
            alias = "why",
            skip_serializing_if = "Option::is_none"
        )]
        why: Option<String>,
        /// SHA-256 of the result in hexadecimal, before it was shortened.
        #[serde(
            default,
            rename = "result_sha256",
            alias = "digest",
            skip_serializing_if = "Option::is_none"
        )]
        digest: Option<String>,
        /// The files that a tool has read or changed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<RecordedFile>,
    },
    /// A rule or a grant changed.
    Policy {
        /// The change.
        change: PolicyChange,
        /// The rule or grant, in the words of `aish-helper policy list`.
        #[serde(rename = "rule", alias = "what")]
        what: String,
        /// Id of the grant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<String>,
        /// Cause of the change.
        #[serde(
            default,
            rename = "reason",
            alias = "why",
            skip_serializing_if = "Option::is_none"
        )]
        why: Option<String>,
    },
    /// A connection to an MCP server was made, failed or ended.
    Server {
        /// Alias of the server.
        alias: String,
        /// What happened.
        event: ServerEvent,
        /// Its URL or command line, without secrets.
        target: String,
        /// Name and version as reported by the server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Number of tools.
        tools: usize,
        /// Cause of a failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// Decision on a proposed command. An approval is synced to disk before the command runs.
    #[serde(rename = "command_approval", alias = "decision")]
    CommandApproval {
        /// Id of the proposal.
        token: String,
        /// The decision.
        choice: CommandDecision,
        /// The command as proposed by the model.
        proposed: String,
        /// The command as shown last; with `run`, what ran.
        command: String,
        /// The directory that an approved command runs in; absent in older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        /// The terminal of the person who decided, such as `/dev/pts/3`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        terminal: Option<String>,
        /// The deciding rule; absent where the user decided.
        #[serde(
            default,
            rename = "reason",
            alias = "why",
            skip_serializing_if = "Option::is_none"
        )]
        why: Option<String>,
    },
    /// An approved command ended. Sent to the model with the next prompt.
    #[serde(rename = "command_result", alias = "exec")]
    CommandResult {
        /// Id of the proposal.
        token: String,
        /// What ran.
        command: String,
        /// Its exit code.
        exit: i32,
        /// Time from the approval to its end; absent in older records.
        #[serde(
            default,
            rename = "duration_ms",
            alias = "ms",
            skip_serializing_if = "Option::is_none"
        )]
        ms: Option<u64>,
        /// Its output, head and tail; `None` where it had the terminal to itself.
        output: Option<CommandOutput>,
        /// The part of the output that it wrote to stderr, head and tail; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stderr: Option<CommandOutput>,
    },
    /// The user took back what tools had changed in files for a prompt. Told to the model with the next prompt.
    Undo {
        /// Id of the prompt.
        prompt: String,
        /// The files that are as they were before it.
        restored: Vec<String>,
        /// The files that stay, because they were changed since.
        kept: Vec<String>,
    },
    /// The daemon was killed while it changed files for a prompt. Told to the user and the model with the next prompt.
    InterruptedChange {
        /// Id of the prompt.
        prompt: String,
        /// The files that are changed.
        changed: Vec<String>,
        /// The files that are as they were before.
        unchanged: Vec<String>,
    },
    /// A command that the user ran in a shell.
    #[serde(rename = "shell_command", alias = "command")]
    ShellCommand {
        /// The shell.
        shell: String,
        /// The command line.
        command: String,
        /// Its working directory.
        cwd: String,
        /// Its terminal.
        tty: String,
        /// Start time in milliseconds since 1970.
        start_ms: u64,
        /// Its duration.
        duration_ms: u64,
        /// Its exit code.
        exit: i32,
        /// The session of the shell at that time.
        session: Option<String>,
        /// The variables of `AISH_ENV` that were set, as `NAME=value`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        env: Vec<String>,
        /// Columns and rows of the terminal when it ended.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<(u16, u16)>,
    },
    /// A type of a later version.
    #[serde(other)]
    Unknown,
}

impl Record {
    /// Returns a record with this id and time.
    pub fn new(id: uuid::Uuid, at_ms: u64, ids: RecordIds, body: RecordBody) -> Record {
        Record {
            v: VERSION,
            id: id.to_string(),
            timestamp_ms: at_ms,
            ids,
            body,
        }
    }
}

#[cfg(test)]
mod tests;
