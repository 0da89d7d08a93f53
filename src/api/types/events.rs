//! Schemas that only the document of the API has: the payloads of events, which `events`, `event_order` and `question` make as JSON,
//! and sets of words.
//!
//! The event tests check each event that they receive against the document.
#![expect(dead_code, reason = "the types describe JSON and are never made")]

use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{AnswerWord, ProposalView, Role, SessionState};

/// The types of events, each with the schema of its payload.
pub const EVENT_TYPES: [(&str, &str); 17] = [
    ("message.start", "MessageStart"),
    ("message.delta", "MessageDelta"),
    ("message.end", "MessageEnd"),
    ("tool.start", "ToolStart"),
    ("tool.delta", "ToolDelta"),
    ("tool.end", "ToolEnd"),
    ("agent.status", "AgentStatus"),
    ("log.append", "LogAppend"),
    ("x.tool.running", "ToolRunning"),
    ("x.question.open", "OpenQuestion"),
    ("x.question.close", "ClosedQuestion"),
    ("x.notice", "Notice"),
    ("x.session.title", "SessionTitle"),
    ("x.session.setting", "SessionSetting"),
    ("x.session.deleted", "SessionDeleted"),
    ("x.caught_up", "StreamPosition"),
    ("x.heartbeat", "StreamPosition"),
];

/// Adds to the schema of the envelope which payload each type has.
pub fn add_payloads(envelope: &mut Value) {
    let types: Vec<&str> = EVENT_TYPES.iter().map(|(kind, _)| *kind).collect();
    envelope["properties"]["type"]["enum"] = json!(types);
    let payload = |(kind, schema): &(&str, &str)| {
        let payload = format!("#/components/schemas/{schema}");
        json!({ "properties": { "type": { "const": kind }, "payload": { "$ref": payload } } })
    };
    envelope["oneOf"] = EVENT_TYPES.iter().map(payload).collect();
}

/// Payload of `message.start`.
#[derive(Debug, ToSchema)]
pub struct MessageStart {
    /// Id of the message.
    pub message_id: String,
    /// `user` or `assistant`.
    pub role: Role,
    /// The directory of a prompt.
    #[schema(nullable = false)]
    pub cwd: Option<String>,
    /// Number of images of a prompt.
    #[schema(nullable = false)]
    pub images: Option<usize>,
}

/// Payload of `message.delta`.
#[derive(Debug, ToSchema)]
pub struct MessageDelta {
    /// Id of the message.
    pub message_id: String,
    /// The next part of the text, without secrets.
    pub text: String,
    /// Bytes of a prompt that were left out after `text`.
    #[schema(nullable = false)]
    pub omitted: Option<usize>,
}

/// Payload of `message.end`. A discarded answer has only `message_id` and `finish`.
#[derive(Debug, ToSchema)]
pub struct MessageEnd {
    /// Id of the message.
    pub message_id: String,
    /// Id of its record.
    #[schema(nullable = false)]
    pub record_id: Option<String>,
    /// `user` or `assistant`.
    #[schema(nullable = false)]
    pub role: Option<Role>,
    /// Bytes of the whole text. A client whose text has another length reads the message again.
    #[schema(nullable = false)]
    pub length: Option<usize>,
    /// The model of an answer, by its name in the configuration.
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// Why an answer ended.
    #[schema(nullable = false)]
    pub finish: Option<FinishWord>,
    /// Cause of `error`.
    #[schema(nullable = false)]
    pub error: Option<String>,
    /// True for a summary that replaces the older part of the session in requests; absent otherwise.
    #[schema(nullable = false)]
    pub is_summary: Option<bool>,
    /// Bytes of an answer that exceeded the limit and were not kept.
    #[schema(nullable = false)]
    pub omitted: Option<u64>,
    /// Tokens of the request.
    #[schema(nullable = false)]
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer.
    #[schema(nullable = false)]
    pub completion_tokens: Option<u64>,
    /// Tokens of the request that were read from the provider's cache; absent for 0.
    #[schema(nullable = false)]
    pub cache_read_tokens: Option<u64>,
    /// Tokens of the request that were written to the provider's cache; absent for 0.
    #[schema(nullable = false)]
    pub cache_write_tokens: Option<u64>,
    /// Tokens of the answer that are reasoning; absent for 0.
    #[schema(nullable = false)]
    pub reasoning_tokens: Option<u64>,
    /// Host of the provider.
    #[schema(nullable = false)]
    pub provider: Option<String>,
    /// Cost of the request in US dollars, where the price is known.
    #[schema(nullable = false)]
    pub cost: Option<f64>,
    /// True if the cost is estimated, because the provider reported no tokens.
    #[schema(nullable = false)]
    pub cost_estimated: Option<bool>,
    /// Milliseconds from the request to the last token.
    #[schema(nullable = false)]
    pub duration_ms: Option<u64>,
    /// The commands that an answer proposes; `null` if they take more than 4,096 bytes: the message has them.
    pub proposals: Option<Vec<ProposalView>>,
}

/// Why an answer ended: `stop`: it is complete, or the model waits for results of tools; `length`: a limit of tokens was reached;
/// `content_filter`: the provider filtered it; `paused`: the provider paused it; `interrupted`: it was cancelled; `error`: the
/// request failed; `cut_off`: the daemon was killed; `discarded`: it is not kept.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum FinishWord {
    Stop,
    Length,
    ContentFilter,
    Paused,
    Interrupted,
    Error,
    CutOff,
    Discarded,
}

/// Payload of `tool.start`: the model asks for a call.
#[derive(Debug, ToSchema)]
pub struct ToolStart {
    /// Id of the call within the session.
    pub call_id: String,
    /// Id of the answer.
    pub message_id: String,
    /// `alias.tool`.
    pub name: String,
    /// The arguments as JSON text, without secrets: at most 4,096 bytes.
    pub arguments: String,
    /// Bytes of the arguments that were left out.
    pub omitted: usize,
}

/// Payload of `x.tool.running`: the call was allowed and runs.
#[derive(Debug, ToSchema)]
pub struct ToolRunning {
    /// Id of the call.
    pub call_id: String,
    /// `alias.tool`.
    pub name: String,
}

/// Payload of `tool.delta`: output of the running call.
#[derive(Debug, ToSchema)]
pub struct ToolDelta {
    /// Id of the call.
    pub call_id: String,
    /// The next part of the output, without secrets.
    pub text: String,
}

/// Payload of `tool.end`.
#[derive(Debug, ToSchema)]
pub struct ToolEnd {
    /// Id of the call.
    pub call_id: String,
    /// Id of the record.
    pub record_id: String,
    /// `alias.tool`.
    pub name: String,
    /// How the call ended.
    pub status: CallStatusWord,
    /// The result, without secrets: at most 4,096 bytes.
    pub text: String,
    /// Bytes of the result that were left out here; the record has them.
    pub omitted: usize,
    /// Size of the result in bytes before it was shortened for the model.
    pub bytes: u64,
    /// Duration of the call in milliseconds.
    pub duration_ms: u64,
    /// Who decided; `null` where nothing was decided.
    #[schema(required = true)]
    pub decided_by: Option<DecidedByWord>,
    /// The deciding rule, the user's words, or why the call was blocked.
    #[schema(required = true)]
    pub reason: Option<String>,
    /// Cause of a failure, which is not sent to the model.
    #[schema(required = true)]
    pub error: Option<String>,
}

/// How a tool call ended: `success`: the tool returned a result; `tool_error`: a result that it marked as an error; `call_failed`:
/// the server or the connection failed; `denied`: the user denied it; `blocked`: a rule, the declared intent, a missing terminal or
/// a failed record prevented it; `invalid_call`: the arguments are not a JSON object, or there is no such tool; `interrupted`: it
/// was cancelled, or the daemon ended during it.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum CallStatusWord {
    Success,
    ToolError,
    CallFailed,
    Denied,
    Blocked,
    InvalidCall,
    Interrupted,
}

/// Who decided on a tool call: `person`: the user, at a question; `rule`: a rule or a grant; `unknown`: a record of another version.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum DecidedByWord {
    Person,
    Rule,
    Unknown,
}

/// Payload of `agent.status`: what the session does. `message_id`, `prompt`, `started_ms` and `terminal` belong to the prompt that is
/// answered, `failure` to an idle session.
#[derive(Debug, ToSchema)]
pub struct AgentStatus {
    /// What the session does.
    pub status: SessionState,
    /// The open questions.
    pub questions: Vec<OpenQuestion>,
    /// Ids of the prompts that wait, in the order in which they will be answered.
    pub waiting: Vec<String>,
    /// Id of the prompt that is answered.
    pub message_id: Option<String>,
    /// The beginning of the prompt, in one line.
    #[schema(nullable = false)]
    pub prompt: Option<String>,
    /// Time of the prompt in milliseconds since 1970.
    #[schema(nullable = false)]
    pub started_ms: Option<u64>,
    /// The terminal of the prompt, such as `pts/3`; `null` without one.
    pub terminal: Option<String>,
    /// Why the last prompt was not answered.
    pub failure: Option<PromptFailure>,
}

/// Why a prompt was not answered.
#[derive(Debug, ToSchema)]
pub struct PromptFailure {
    /// Id of the prompt.
    #[schema(required = true)]
    pub message_id: Option<String>,
    /// What failed.
    pub message: String,
    /// What to do next.
    #[schema(required = true)]
    pub hint: Option<String>,
}

/// Payload of `log.append`: a record that no other event has.
#[derive(Debug, ToSchema)]
pub struct LogAppend {
    /// The record, as `docs/journal.md` describes it; texts of more than 4,096 bytes are cut.
    #[schema(value_type = Object)]
    pub record: Value,
}

/// Payload of `x.question.open`: a question that waits for an answer.
#[derive(Debug, ToSchema)]
pub struct OpenQuestion {
    /// Id of the question.
    pub question_id: String,
    /// What is asked for.
    pub kind: QuestionKind,
    /// SHA-256 of the question, which an answer repeats.
    pub digest: String,
    /// The answers that a paired browser may give.
    pub answers: Vec<AnswerWord>,
    /// Why only the terminal can give the other answers.
    #[schema(required = true)]
    pub terminal_reason: Option<String>,
    /// What a person is shown; `null` for the form of an MCP server, which only the terminal shows.
    #[schema(required = true)]
    pub view: Option<QuestionDetails>,
    /// The question as the terminal gets it, without secrets: the fields of `approval_requested` or `elicitation_requested` in
    /// `docs/json.md`.
    #[schema(value_type = Object)]
    pub shown: Value,
}

/// What a question asks for: `approval`: a tool call; `elicitation`: input for an MCP server.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum QuestionKind {
    Approval,
    Elicitation,
}

/// A question about a tool call as a person is shown it: without secrets, and with visible replacements for invisible and deceptive
/// characters.
#[derive(Debug, ToSchema)]
pub struct QuestionDetails {
    /// `alias.tool`.
    pub tool: String,
    /// What the call does, as the policy sees it.
    pub operation: OperationWord,
    /// Number of the call within the answer, from 1.
    pub number: usize,
    /// Number of calls in the answer.
    pub of: usize,
    /// Pairs of a name and a text, which may have several lines, in the order in which they are shown. Names are for people:
    /// `Danger`, `Warning`, `New`, `On`, `In`, `Declared by the model`, `Reason of the model`, `Asked because of`, `Server`,
    /// `The tool has changed`, `Description by the server`, `Declared by the server`, `Changes`, `Would send`, `Arguments`. A fact
    /// without a text is left out.
    #[schema(value_type = Vec<Vec<String>>)]
    pub facts: Vec<(String, String)>,
}

/// Payload of `x.question.close`.
#[derive(Debug, ToSchema)]
pub struct ClosedQuestion {
    /// Id of the question.
    pub question_id: String,
    /// Where it was answered: a terminal, or the page.
    #[schema(required = true)]
    pub answered_in: Option<String>,
    /// How it was closed.
    pub outcome: OutcomeWord,
}

/// How a question was closed: `allowed_once`: the call; `allowed_tool`: the tool, for the session; `allowed_reads`: the server's
/// read-only tools, for the session; `allowed_always`: the tool, by a new rule; `denied`: the call; `stopped`: the call was denied
/// and the answer stopped; `accepted`, `declined` and `dismissed`: the form of an MCP server was sent, declined or dismissed;
/// `no_terminal`: nobody could be asked; `timed_out`: nobody answered in time; `withdrawn`: its call or its answer has ended.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum OutcomeWord {
    AllowedOnce,
    AllowedTool,
    AllowedReads,
    AllowedAlways,
    Denied,
    Stopped,
    Accepted,
    Declined,
    Dismissed,
    NoTerminal,
    TimedOut,
    Withdrawn,
}

/// Payload of `x.notice`: a line that the terminal shows.
#[derive(Debug, ToSchema)]
pub struct Notice {
    /// The line.
    pub text: String,
}

/// Payload of `x.session.title`.
#[derive(Debug, ToSchema)]
pub struct SessionTitle {
    /// The new title.
    pub title: String,
}

/// Payload of `x.session.setting`.
#[derive(Debug, ToSchema)]
pub struct SessionSetting {
    /// Name of the setting: `model`, `prompt`, `tools`, `cwd`, or another that a terminal has set.
    pub setting: String,
    /// Its new value; `null` for that of the configuration.
    #[schema(required = true)]
    pub value: Option<String>,
}

/// Payload of `x.session.deleted`; the stream ends.
#[derive(Debug, ToSchema)]
pub struct SessionDeleted {}

/// Payload of `x.caught_up`: all past events were sent; and of `x.heartbeat`.
#[derive(Debug, ToSchema)]
pub struct StreamPosition {
    /// A cursor, for `/events?since=`.
    pub next_cursor: String,
}

/// What a tool call does: `read`: nothing is changed; `write`: something is added or changed; `destructive`: something may be lost.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum OperationWord {
    Read,
    Write,
    Destructive,
}

/// A kind of refusal or failure. As in `--json` of the command line: `runtime`: a model, the network, the daemon or a file failed;
/// `usage`: the request is invalid; `config`: the configuration is invalid or incomplete; `approval`: an approval is missing;
/// `interrupted`: the request was cancelled. Of the server: `authentication`: the credential is missing or wrong; `origin`: the
/// page that sends the request is not allowed; `not_found`: there is no such object; `limit`: too large, too slow or too many.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum ProblemKind {
    Runtime,
    Usage,
    Config,
    Approval,
    Interrupted,
    Authentication,
    Origin,
    NotFound,
    Limit,
}
