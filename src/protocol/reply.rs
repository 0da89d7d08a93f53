//! Replies: the last frame of a request.

use serde::{Deserialize, Serialize};

use super::tools;
use crate::chat::FinishReason;
use crate::error::{Error, ErrorKind};

/// The reply to [`super::Request::Ask`] and [`super::Request::Attach`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerSummary {
    /// The session's id.
    pub session: String,
    /// The provider's name for the model.
    pub model: String,
    /// Why the answer ended.
    pub finish: FinishReason,
    /// Prompt tokens, where the provider reports them.
    pub prompt_tokens: Option<u64>,
    /// Completion tokens, where the provider reports them.
    pub completion_tokens: Option<u64>,
    /// Prompt tokens that were read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Prompt tokens that were written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Completion tokens of the reasoning.
    #[serde(default)]
    pub reasoning_tokens: u64,
    /// Seconds from the request to the last token, without those in which a question was open.
    pub seconds: f64,
    /// Cost in US dollars, where the price is known.
    pub cost: Option<f64>,
    /// Whether a part of the cost is estimated, because the provider reported no tokens.
    #[serde(default)]
    pub cost_estimated: bool,
    /// Cost of the session so far in US dollars, as far as it is known.
    #[serde(default)]
    pub session_cost: Option<f64>,
    /// Whether the session has answers of unknown price, which `session_cost` leaves out.
    #[serde(default)]
    pub session_cost_partial: bool,
    /// How the cost is shown.
    #[serde(default)]
    pub show_cost: ShownCost,
    /// Number of proposed commands. A failed command of the user that can be run again counts where the model proposed none.
    pub proposals: usize,
}

/// How the client shows the cost of an answer, by `[ui] cost` and the model's price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownCost {
    /// Nothing.
    #[default]
    Nothing,
    /// The cost, on a terminal.
    OnTerminal,
    /// The cost, also when the output is redirected.
    Always,
}

/// The reply to [`super::Request::Ask`] with `background`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskAccepted {
    /// The session's id.
    pub session: String,
    /// The prompt's id, as in the journal.
    pub prompt_id: String,
}

/// A request that would be sent to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestPreview {
    /// Its URL.
    pub url: String,
    /// The model's name in the configuration.
    pub model: String,
    /// The session that would be continued.
    pub session: Option<String>,
    /// Its JSON body, without secrets. Untrusted.
    pub body: String,
    /// Its estimated tokens.
    pub tokens: u64,
    /// The cost of these tokens in US dollars, where the price is known, without the answer.
    pub cost: Option<f64>,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestFailure {
    /// Decides the client's exit code.
    pub kind: ErrorKind,
    /// What failed and where.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// No model is configured and none was detected: the client may start the onboarding.
    #[serde(default)]
    pub nothing_configured: bool,
    /// The configuration was loosened since a person has seen it: the client asks, sends
    /// [`super::Request::ConfirmConfig`] and then the prompt again.
    #[serde(default)]
    pub config_changes: Option<ConfigDifference>,
    /// The prompt uses a pack of the project that nobody has approved: the client asks, sends
    /// [`super::Request::ApprovePack`] and then the prompt again.
    #[serde(default)]
    pub unapproved_pack: Option<PackText>,
}

/// A prompt pack of a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackText {
    /// Its name, without `@`.
    pub name: String,
    /// Its file or directory.
    pub path: String,
    /// Its digest.
    pub sha256: String,
    /// Its keys and texts; untrusted text.
    pub texts: Vec<(String, String)>,
}

/// The settings of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingName {
    /// The model.
    Model,
    /// The prompt pack, or `none`.
    Prompt,
    /// The tools to offer, as in `--tools`.
    Tools,
}

impl SettingName {
    /// All settings.
    pub const ALL: [SettingName; 3] = [SettingName::Model, SettingName::Prompt, SettingName::Tools];

    /// The name in commands and records.
    pub fn as_str(self) -> &'static str {
        match self {
            SettingName::Model => "model",
            SettingName::Prompt => "prompt",
            SettingName::Tools => "tools",
        }
    }
}

/// A setting that is in force for a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSetting {
    /// Its name.
    pub name: SettingName,
    /// Its value, if it has one.
    pub value: Option<String>,
    /// Where the value comes from: `session`, a variable, a key of the configuration, or `default`.
    pub origin: String,
    /// What is wrong with a value that was set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

/// Changes of the configuration that are not in force yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigDifference {
    /// Identifies the change.
    pub digest: String,
    /// Lines with the sign `+` or `-`; untrusted text.
    pub lines: Vec<(char, String)>,
}

impl From<&Error> for RequestFailure {
    fn from(e: &Error) -> RequestFailure {
        RequestFailure {
            kind: e.kind,
            message: e.message.clone(),
            hint: e.hint.clone(),
            nothing_configured: false,
            config_changes: None,
            unapproved_pack: None,
        }
    }
}

impl From<RequestFailure> for Error {
    fn from(f: RequestFailure) -> Error {
        Error {
            takes_no_tools: false,
            refusal: None,
            kind: f.kind,
            message: f.message,
            hint: f.hint,
            is_outage: false,
            key_rejected: false,
        }
    }
}

/// The daemon's state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Process id.
    pub pid: u32,
    /// Version of the daemon's binary.
    pub version: String,
    /// Seconds since the daemon became ready.
    pub uptime_seconds: u64,
    /// Path of the socket.
    pub socket: String,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
    /// The model a prompt would be sent to.
    pub model: Option<String>,
    /// Base URL of that model.
    pub endpoint: Option<String>,
    /// `answers`, or why the endpoint does not answer.
    pub endpoint_state: Option<String>,
    /// Sessions in the journal.
    pub sessions: usize,
    /// Live shells with a loaded plugin.
    pub shells: usize,
    /// Running turns.
    pub turns: usize,
    /// Size of the journal in bytes.
    pub journal_bytes: u64,
    /// Path of the config file.
    pub config: Option<String>,
    /// Number of changed lines of the config file that wait for a confirmation.
    #[serde(default)]
    pub config_changes: usize,
    /// Why the configuration cannot be used.
    #[serde(default)]
    pub config_error: Option<String>,
    /// The MCP servers. None is started for this request.
    #[serde(default)]
    pub servers: Vec<tools::ServerInfo>,
    /// Where the HTTP server listens, if it runs.
    #[serde(default)]
    pub http: Option<String>,
    /// Number of shared pages.
    #[serde(default)]
    pub shares: usize,
}

/// A session in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The session's id.
    pub id: String,
    /// Time of the last use, milliseconds since 1970.
    pub updated_ms: u64,
    /// Number of prompts.
    pub prompts: usize,
    /// The title that the user gave, or the start of the first prompt.
    pub title: String,
    /// The text around the words of a search.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub excerpt: String,
    /// Id of the record that the excerpt is from, if the log of the session shows that record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_record: Option<String>,
}

/// The journal records of a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Transcript {
    /// The session's id.
    pub session: String,
    /// The parsed journal lines.
    pub records: Vec<serde_json::Value>,
}

/// A model in a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// The model's name in the config.
    pub name: String,
    /// The provider's name for the model.
    pub model: String,
    /// Base URL.
    pub base_url: String,
    /// The context window in tokens, where it is known.
    #[serde(default)]
    pub context_window: Option<u32>,
    /// US dollars per million tokens of a request, where the price is known.
    #[serde(default)]
    pub input_price: Option<f64>,
    /// US dollars per million tokens of an answer, where the price is known.
    #[serde(default)]
    pub output_price: Option<f64>,
    /// Whether a prompt would be sent to this model now.
    pub current: bool,
}

/// What a server offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerModels {
    /// The name of a model on this server, or of the server.
    pub server: String,
    /// Its base URL.
    pub base_url: String,
    /// Its models, sorted by name. Untrusted.
    pub models: Vec<AvailableModel>,
    /// Why there is no list. Untrusted.
    pub error: Option<String>,
}

/// A model that a server offers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AvailableModel {
    /// `SERVER/MODEL`, by which it can be used.
    pub name: String,
    /// The server's name for it.
    pub model: String,
    /// The context window in tokens, where it is known.
    pub context_window: Option<u32>,
    /// US dollars per million tokens of a request, where the price is known.
    pub input_price: Option<f64>,
    /// US dollars per million tokens of an answer, where the price is known.
    pub output_price: Option<f64>,
}

/// A command proposed by the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Identifies the proposal.
    pub token: String,
    /// The exact command.
    pub command: String,
    /// Position within the answer, from 1.
    pub number: usize,
    /// Number of commands in the answer.
    pub of: usize,
    /// Ask before running it.
    pub confirm: bool,
    /// Why it is asked about, unless that is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The rule that denies the command; it is decided by that.
    pub denied: Option<String>,
    /// Whether the output can go back to the model when the command has ended.
    #[serde(default)]
    pub continuation: Continuation,
    /// A failed command of the user whose output is missing. It can be run again, so that the model gets its output. Equal to
    /// `command` where the model proposed nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<String>,
    /// The key that decided the previous proposal of the shell. While it is held down, it answers no other question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_key: Option<DecidingKey>,
}

/// Whether the output of an approved command goes back to the model when the command has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Continuation {
    /// If the person chooses so.
    Offered,
    /// Whenever the command runs.
    Always,
    /// No: the maximum, this many commands, was reached since the last prompt that was typed.
    LimitReached(u32),
    /// No.
    #[default]
    Never,
}

/// A key that decided a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecidingKey {
    /// The byte that the terminal sent.
    pub key: u8,
    /// Time since the decision, in milliseconds.
    pub age_ms: u64,
}

/// The reply to a recorded decision.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionReply {
    /// The command needs the terminal: it runs there directly and its output is not captured.
    pub terminal: bool,
    /// What reports about the command must contain. Empty if it does not run.
    pub nonce: String,
}

/// The output of a command as its pump captured it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedOutput {
    /// The output of the command to stdout and stderr, as the terminal shows it.
    #[serde(flatten)]
    pub text: CapturedText,
    /// The part that it wrote to stderr, if there is one.
    #[serde(default)]
    pub stderr: Option<CapturedText>,
}

/// Captured text, head and tail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedText {
    /// The start of the text, or all of it.
    pub head: String,
    /// The end of the text, where bytes in between were dropped.
    pub tail: String,
    /// Number of dropped bytes.
    pub omitted: u64,
}

/// The output of a command of the user, as read from the terminal. Secrets are removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalOutput {
    /// The command line.
    pub command: String,
    /// Its exit code.
    pub exit: i32,
    /// The directory in which it was started.
    pub cwd: String,
    /// When it started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Source of the output, such as `tmux`.
    pub source: String,
    /// The beginning is no longer in the scrollback.
    pub is_tail: bool,
    /// Lines may be missing, or belong to a prompt.
    #[serde(default)]
    pub is_partial: bool,
    /// The terminal may have reported some characters wrong.
    #[serde(default)]
    pub is_lossy: bool,
    /// The number of lines.
    pub lines: usize,
    /// The first part, or all.
    pub head: String,
    /// The last part, where bytes between were left out.
    pub tail: String,
    /// Bytes left out between.
    pub omitted: u64,
    /// The number of secrets that were removed.
    pub secrets: usize,
}
