//! The objects of the API.

mod activity;
pub mod events;
mod questions;
mod recordings;
mod server;
mod shares;
mod tools;
mod tui;

pub use self::activity::{
    ActivityList, ActivityQuery, ActivityView, StatsQuery, StatsView, UsageGroup, UsageTotals,
};
pub use self::questions::{AnswerWord, NewPairing, PairingView, PairingWord, QuestionAnswer};
pub use self::recordings::{
    RecordedCommandView, RecordingChoice, RecordingList, RecordingSourceWord, RecordingView,
};
pub use self::server::{Health, Ticket, TicketBearer, Version};
pub use self::shares::{ShareChoice, ShareList, ShareResult, ShareView, Unshared};
pub use self::tools::{ToolCallReply, ToolCallRequest, ToolList, ToolView};
pub use self::tui::{DrivenShellList, DrivenShellView, PerformedAction, ShellChoice, ShellText};

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// A session.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SessionView {
    /// Its id, a UUID.
    pub id: String,
    /// The title that the user gave, or the beginning of the first prompt.
    pub title: String,
    /// Number of prompts.
    pub prompts: usize,
    /// Time of the last change in milliseconds since 1970.
    pub updated_ms: u64,
    /// What the session is doing now.
    pub status: SessionState,
    /// Who may see it besides the user.
    pub share_state: ShareState,
    /// The text around the words of a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    /// Id of the record that the excerpt is from; absent for a title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub excerpt_record_id: Option<String>,
}

/// What a session is doing: `idle`: nothing; `running`: a prompt is being answered; `waiting`: a question is waiting for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    /// Nothing.
    Idle,
    /// A prompt is being answered.
    Running,
    /// A question is waiting for an answer.
    Waiting,
}

/// Who may see a session besides the user: `private`: nobody; `shared`: everybody who knows the address of its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShareState {
    /// Nobody.
    Private,
    /// Everybody who knows the address of its page.
    Shared,
}

/// Only `private` is accepted here: to share a session, use `/share`, which shows a preview first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum ShareStateChange {
    /// Unshares the session.
    Private,
}

impl<'de> Deserialize<'de> for ShareStateChange {
    fn deserialize<D: serde::Deserializer<'de>>(value: D) -> Result<ShareStateChange, D::Error> {
        match &*String::deserialize(value)? {
            "private" => Ok(ShareStateChange::Private),
            _ => Err(serde::de::Error::custom(
                "share_state can only become private here; POST /v1/sessions/{session_id}/share shares a session",
            )),
        }
    }
}

/// A list of sessions, last used first.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionList {
    /// The sessions.
    pub sessions: Vec<SessionView>,
    /// Value of `offset` for the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// Filters of the list of sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SessionFilter {
    /// Words that one record of the session must contain, in any case.
    #[serde(default)]
    #[param(required = false, max_length = 200)]
    pub search: Option<String>,
    /// Maximum number of sessions: 1 to 200, by default 50.
    #[serde(default)]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: Option<usize>,
    /// Number of sessions to leave out at the beginning.
    #[serde(default)]
    #[param(required = false, maximum = 1_000_000)]
    pub offset: Option<usize>,
}

/// A session and its settings.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionDetail {
    /// The session.
    #[serde(flatten)]
    pub session: SessionView,
    /// The settings in force.
    pub settings: SessionSettings,
    /// Number of records.
    pub records: usize,
    /// What the session's requests to models have used.
    pub usage: Usage,
    /// The directory in which the next prompt over HTTP works; your home directory if it is absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Ids of the prompts that wait for the running answer, in the order in which they will be answered.
    pub waiting: Vec<String>,
    /// The cursor after the last record, for `/events?since=`.
    pub next_cursor: String,
}

/// The settings of a session that differ from the configuration.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct SessionSettings {
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The prompt pack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<String>,
}

/// Tokens and cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct Usage {
    /// Tokens of the requests.
    pub prompt_tokens: u64,
    /// Tokens of the answers.
    pub completion_tokens: u64,
    /// Cost in US dollars of the requests whose price is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Whether the cost is incomplete or estimated.
    pub is_estimated: bool,
}

/// A new session, or changes of one. What is absent stays as it is; an empty text removes a setting.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionChange {
    /// The title.
    #[serde(default)]
    #[schema(max_length = 200, pattern = r"\S")]
    pub title: Option<String>,
    /// The name of a model in the configuration.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub model: Option<String>,
    /// The prompt pack, or `none`.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub prompt: Option<String>,
    /// The tools that are offered, as in `llm --tools`.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub tools: Option<String>,
    /// The directory in which prompts over HTTP work from now on: an absolute path. A prompt in a terminal works in that of its
    /// shell, and later ones over HTTP follow it.
    #[serde(default)]
    #[schema(max_length = 4096, pattern = r"^/[^\x00-\x1f\x7f-\x9f]*$")]
    pub cwd: Option<String>,
    /// `private` unshares the session. To share it, use `/share`, which shows what would be published.
    #[serde(default)]
    pub share_state: Option<ShareStateChange>,
}

/// Who wrote a message: `user`; `assistant`: the model; `tool`: the result of a tool call; `command`: the decision on a command that the
/// model proposed, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
    /// A command that the model proposed: the decision on it, or its end.
    Command,
}

/// Author of a new message; only the user can send messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum PromptRole {
    /// The user.
    User,
}

/// A tool call in an answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolCallView {
    /// Its id within the session.
    pub id: String,
    /// `alias.tool`.
    pub name: String,
    /// The arguments as the model sent them, without secrets.
    pub arguments: String,
}

/// A prompt, an answer, the result of a tool call, or what became of a proposed command.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessageView {
    /// Its id: of the prompt, of the round of an answer, or of the tool call.
    pub id: String,
    /// Id of its record, for `/records/{record_id}`.
    pub record_id: String,
    /// Number of its record in the session, from 0.
    pub number: usize,
    /// Who wrote it.
    pub role: Role,
    /// Time of writing in milliseconds since 1970.
    pub timestamp_ms: u64,
    /// The text. Results of tools are cut to 4,096 bytes here; the record has them whole.
    pub content: String,
    /// Bytes of the text that were left out.
    pub omitted: usize,
    /// The tool calls of an answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallView>,
    /// The commands that an answer proposes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<ProposalView>,
    /// True for an answer that is a summary: in requests to the model it replaces the older part of the session.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_summary: bool,
    /// The other fields of the record, as `docs/journal.md` describes them: model, finish, tokens and cost of an answer; name,
    /// status and decision of a tool call; command and exit code of a command. Its `type` is `waiting_prompt` for a prompt that was
    /// accepted and whose turn has not begun: it waits as long as `agent.status` lists its id, and was not answered otherwise.
    #[schema(value_type = Object)]
    pub detail: serde_json::Value,
}

/// Lines of an answer that propose commands (`CMD:`), which the terminal asks about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ProposalView {
    /// Number of the first line in `content`, from 0. Lines end with LF.
    pub first_line: usize,
    /// Number of lines, including the `CMD:` marks and the fences of a code block.
    pub lines: usize,
    /// The commands: several only if they share a code block.
    pub commands: Vec<String>,
}

/// A page of messages, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessagePage {
    /// The messages.
    pub messages: Vec<MessageView>,
    /// Value of `before` for older messages; absent if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_before: Option<usize>,
    /// The cursor after the last record of the session, for `/events?since=`.
    pub next_cursor: String,
}

/// Which messages are listed.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct MessageFilter {
    /// Only messages before the record of this number.
    #[serde(default)]
    #[param(required = false, maximum = 1_000_000_000)]
    pub before: Option<usize>,
    /// Maximum number of messages: 1 to 200, by default 50.
    #[serde(default)]
    #[param(required = false, minimum = 1, maximum = 200)]
    pub limit: Option<usize>,
}

/// A prompt.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewMessage {
    /// Who writes it.
    #[serde(default)]
    pub role: Option<PromptRole>,
    /// The text of the prompt.
    #[schema(min_length = 1, max_length = 1_000_000, pattern = r"\S")]
    pub content: String,
    /// The agent that is asked. There are no agents yet.
    #[serde(default)]
    pub agent_id: Option<String>,
    /// A model of the configuration, for this prompt only.
    #[serde(default)]
    #[schema(max_length = 200)]
    pub model: Option<String>,
    /// The tools that are offered for this prompt only, as in `llm --tools`.
    #[serde(default)]
    #[schema(max_length = 2000)]
    pub tools: Option<String>,
}

/// A prompt was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub struct MessageAccepted {
    /// Id of the prompt; its events and its message have it too.
    pub message_id: String,
    /// The session.
    pub session_id: String,
}

/// The prompts of a session, oldest first.
#[derive(Debug, Serialize, ToSchema)]
pub struct Outline {
    /// The prompts.
    pub prompts: Vec<OutlineEntry>,
}

/// A prompt in the outline.
#[derive(Debug, Serialize, ToSchema)]
pub struct OutlineEntry {
    /// Number of its record.
    pub number: usize,
    /// Id of the prompt.
    pub id: String,
    /// Its beginning, in one line.
    pub text: String,
    /// Time in milliseconds since 1970.
    pub timestamp_ms: u64,
}

/// A record with the records that it follows from and that follow from it.
#[derive(Debug, Serialize, ToSchema)]
pub struct RecordView {
    /// Number of the record in the session.
    pub number: usize,
    /// The record, as `docs/journal.md` describes it.
    #[schema(value_type = Object)]
    pub record: serde_json::Value,
    /// The chain that it belongs to: the prompt, the answer, its tool calls with their decisions, and proposed commands.
    pub chain: Vec<ChainEntry>,
}

/// A record in a chain.
#[derive(Debug, Serialize, ToSchema)]
pub struct ChainEntry {
    /// Number of the record in the session.
    pub number: usize,
    /// Id of the record.
    pub record_id: String,
    /// Type of the record.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it is, in one line.
    pub text: String,
}

/// Where a stream of events begins, and whether it continues.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventFilter {
    /// A cursor: the `id` of the last event, or `next_cursor`. The header `Last-Event-ID` takes precedence. Without either,
    /// the stream of a session begins at its start, and the stream of all sessions begins now.
    #[serde(default)]
    #[param(required = false, max_length = 4000, pattern = "^[0-9A-Za-z._-]*$")]
    pub since: Option<String>,
    /// With `false`, the stream ends once all past events have been sent.
    #[serde(default)]
    #[param(required = false)]
    pub follow: Option<bool>,
}

/// Selects the prompt to cancel.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct CancelFilter {
    /// Id of the prompt to cancel, which may be a waiting one; without it, the running answer is cancelled.
    #[serde(default)]
    #[param(required = false)]
    pub message_id: Option<String>,
}

/// An event as it is sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct SentEvent {
    /// The cursor after it.
    pub id: String,
    /// Its type.
    pub event: String,
    /// An `EventEnvelope` as JSON.
    pub data: String,
}

/// An event of a session.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventEnvelope {
    /// Decides which payload the event has. Those that begin with `x.` are of aish alone. Ignore types and fields that you do not
    /// know: later versions may have more.
    #[serde(rename = "type")]
    pub kind: String,
    /// The session; empty for an event of the stream itself.
    pub session_id: String,
    /// The agent; `null` for the user's own session.
    #[schema(required = true)]
    pub agent_id: Option<String>,
    /// Grows with each event of a session.
    pub seq: u64,
    /// Time of the event (RFC 3339).
    pub ts: String,
    /// What happened.
    #[schema(value_type = Object)]
    pub payload: serde_json::Value,
}

/// The models of the configuration.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelList {
    /// The models.
    pub models: Vec<ModelView>,
}

/// A model of the configuration.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelView {
    /// Its name in the configuration.
    pub name: String,
    /// Its name at the provider.
    pub model: String,
    /// Whether it is used unless something else is chosen.
    pub is_default: bool,
}
