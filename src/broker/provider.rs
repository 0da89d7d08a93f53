//! The wire formats of model providers: how a request is written and what the events of an answer mean. Pure.

pub mod anthropic;
pub mod chat;
pub mod gemini;
pub mod quirks;
mod request_parts;
pub mod responses;

use std::borrow::Cow;
use std::fmt;

use reqwest::Url;
use serde::Deserialize;

use self::anthropic::AnthropicAnswer;
use self::chat::{CallAssembler, CallLimit, ChatAnswer};
use self::gemini::GeminiAnswer;
use self::quirks::ServerQuirks;
use self::responses::ResponsesAnswer;
use super::ModelEndpoint;
use super::sse::{EventTooLong, SseEvent};
use super::wire_names::WireNames;
use crate::chat::{ChatMessage, Dialect, FinishReason, StreamItem, TokenUsage, ToolDefinition};
use crate::error::Result;
use crate::safety::redact::global_redactor;

/// Maximum length of a reported model name, in bytes. A longer one is ignored.
pub(super) const MAX_MODEL_NAME: usize = 256;

/// Why an answer cannot be read any further.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamError {
    /// A line or an event is longer than the decoder accepts.
    EventTooLong,
    /// An event is not JSON; holds the beginning of the event.
    BadJson(String),
    /// The server reports an error; holds the server's message.
    Server(String),
    /// The server reports an error that it would otherwise report with this status, of a temporary failure.
    Temporary(u16, String),
    /// The tool calls exceed a limit.
    CallLimit(CallLimit),
}

impl From<EventTooLong> for StreamError {
    fn from(_: EventTooLong) -> Self {
        StreamError::EventTooLong
    }
}

/// The state of an answer while its events arrive.
#[derive(Debug, Default)]
pub struct AnswerProgress {
    /// The finish reason, once an event contains one.
    pub finish: Option<FinishReason>,
    /// Whether the last event has arrived.
    pub done: bool,
    /// Whether any text has arrived.
    pub text: bool,
    /// Whether any reasoning has arrived.
    pub reasoning: bool,
    /// The tool calls so far.
    pub calls: CallAssembler,
    /// The last token count; some providers send a running count with every event.
    pub usage: Option<TokenUsage>,
    /// Why the provider filtered the answer, in its words.
    pub filter_reason: Option<String>,
    /// The items of the complete answer as a JSON array, if the provider wants its reasoning returned.
    pub native: Option<String>,
}

/// Reads the events of an answer.
pub trait AnswerCodec: fmt::Debug + Send {
    /// Returns the state so far.
    fn progress(&self) -> &AnswerProgress;

    /// Returns the state so far, for taking the calls.
    fn progress_mut(&mut self) -> &mut AnswerProgress;

    /// Reads one event and appends its items to `out`; text is joined with the text before it.
    ///
    /// # Errors
    /// A [`StreamError`]; the items in `out` stay valid.
    fn event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError>;

    /// Reads a whole answer from a server that does not stream.
    ///
    /// # Errors
    /// A [`StreamError`].
    fn whole(
        &mut self,
        body: &[u8],
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError>;

    /// Ends the answer and appends the text that was held back.
    fn end(&mut self, out: &mut Vec<StreamItem>);
}

/// The type of a block or an item, whatever else it holds.
#[derive(Debug, Default, Deserialize)]
struct TypeField {
    #[serde(rename = "type", default)]
    name: String,
}

/// Whether a server for which no provider is configured is that of Mistral.
pub fn is_mistral(base_url: &str) -> bool {
    let url = Url::parse(base_url.trim()).ok();
    url.as_ref().and_then(Url::host_str) == Some("api.mistral.ai")
}

/// A request as it is sent.
#[derive(Debug)]
pub struct EncodedRequest {
    /// The JSON body.
    pub body: Vec<u8>,
    /// SHA-256 of the instructions, tools and messages before the answer. Empty if the format binds nothing to them.
    pub prefix_sha256: String,
}

impl Dialect {
    /// Returns the format of a server for which none is configured.
    pub fn of_host(base_url: &str) -> Dialect {
        let url = Url::parse(base_url.trim()).ok();
        // That API also speaks chat completions, below this path.
        let is_compatible = url
            .as_ref()
            .is_some_and(|url| url.path().contains("/openai"));
        match url.as_ref().and_then(Url::host_str) {
            Some("generativelanguage.googleapis.com") if !is_compatible => Dialect::Gemini,
            Some("api.openai.com") => Dialect::Responses,
            Some("api.anthropic.com") => Dialect::Anthropic,
            _ => Dialect::Chat,
        }
    }

    /// Returns the URL for requests to the model of `endpoint`.
    ///
    /// # Errors
    /// The base URL is invalid.
    pub fn url(self, endpoint: &ModelEndpoint) -> Result<Url> {
        let path: &[&str] = match self {
            Dialect::Chat => &["chat", "completions"],
            Dialect::Responses => &["responses"],
            Dialect::Anthropic => &["messages"],
            Dialect::Gemini => {
                let model = endpoint.model.trim_start_matches("models/");
                let method = format!("{model}:streamGenerateContent");
                let mut url = endpoint.url(&["models", &method])?;
                // Without it the answer is one JSON array.
                url.query_pairs_mut().append_pair("alt", "sse");
                return Ok(url);
            }
        };
        endpoint.url(path)
    }

    /// Encodes a request for a streamed answer; `names` has the wire name of every tool in it.
    ///
    /// # Errors
    /// A part cannot be written as JSON, which no known input causes.
    pub fn encode(
        self,
        endpoint: &ModelEndpoint,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
        names: &WireNames,
        quirks: ServerQuirks,
    ) -> Result<EncodedRequest> {
        match self {
            Dialect::Chat => Ok(EncodedRequest {
                body: chat::request_body(endpoint, messages, tools, names, quirks)?,
                // Its servers bind nothing to the messages before an answer.
                prefix_sha256: String::new(),
            }),
            Dialect::Responses => responses::encode(endpoint, messages, tools, names, quirks),
            Dialect::Gemini => gemini::encode(endpoint, messages, tools, names, quirks),
            Dialect::Anthropic => anthropic::encode(endpoint, messages, tools, names, quirks),
        }
    }

    /// Returns the reader of an answer.
    pub fn answer(self) -> Box<dyn AnswerCodec> {
        match self {
            Dialect::Chat => Box::new(ChatAnswer::default()),
            Dialect::Responses => Box::new(ResponsesAnswer::default()),
            Dialect::Gemini => Box::new(GeminiAnswer::default()),
            Dialect::Anthropic => Box::new(AnthropicAnswer::default()),
        }
    }
}

/// Joins text with the last chunk, or adds a chunk. Returns whether the text was not empty.
pub(super) fn push_text(out: &mut Vec<StreamItem>, text: Cow<'_, str>) -> bool {
    if text.is_empty() {
        return false;
    }
    match out.last_mut() {
        Some(StreamItem::Text(last)) => last.push_str(&text),
        _ => out.push(StreamItem::Text(text.into_owned())),
    }
    true
}

/// Joins reasoning with the last chunk, or adds a chunk. Returns whether the reasoning was not empty.
pub(super) fn push_reasoning(out: &mut Vec<StreamItem>, text: Cow<'_, str>) -> bool {
    if text.is_empty() {
        return false;
    }
    match out.last_mut() {
        Some(StreamItem::Reasoning(last)) => last.push_str(&text),
        _ => out.push(StreamItem::Reasoning(text.into_owned())),
    }
    true
}

/// Returns the beginning of a text without secrets, long enough to recognize it.
pub(super) fn start_of(data: &str) -> String {
    global_redactor().redact_beginning(data, 500)
}

/// Finds the message of an error in any of the known forms:
/// `{"error": {"message"}}`, `{"error": "…"}`, `{"message"}`, `{"detail"}`, `{"detail": [{"msg"}]}`, or the first of these in a list. The
/// error that a router passes on in `error.metadata.raw` follows.
pub fn error_message(json: &str) -> Option<String> {
    fn message(value: &serde_json::Value, depth: usize) -> Option<String> {
        match value {
            serde_json::Value::String(s) if !s.is_empty() => Some(s.clone()),
            serde_json::Value::Array(list) if depth > 0 => message(list.first()?, depth - 1),
            serde_json::Value::Object(map) if depth > 0 => ["error", "message", "detail", "msg"]
                .iter()
                .find_map(|key| message(map.get(*key)?, depth - 1)),
            _ => None,
        }
    }
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let value = value.get(0).unwrap_or(&value);
    // No provider sends a bare string or a list of them as an error.
    if !value.is_object() {
        return None;
    }
    let words = message(value, 4)?;
    let raw = value.get("error").unwrap_or(value).pointer("/metadata/raw");
    match raw.and_then(serde_json::Value::as_str).map(str::trim) {
        None | Some("") => Some(words),
        Some(raw) => {
            let cause = error_message(raw).unwrap_or_else(|| raw.to_owned());
            Some(format!("{words}: {cause}"))
        }
    }
}

/// Returns the error that an event reports.
fn server_error(json: &str) -> StreamError {
    let message = error_message(json).unwrap_or_else(|| start_of(json));
    match temporary_status(json) {
        Some(status) => StreamError::Temporary(status, message),
        None => StreamError::Server(message),
    }
}

/// Whether an error is about a limit that waiting does not lift.
pub fn is_out_of_credit(body: &str) -> bool {
    let codes = ["insufficient_quota", "enforced_spend_limit_reached"];
    codes.iter().any(|code| body.contains(code))
}

/// Returns the status of a temporary failure that an error names, as a number or in the words of a provider.
fn temporary_status(json: &str) -> Option<u16> {
    if is_out_of_credit(json) {
        return None;
    }
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    let error = value
        .get("error")
        .filter(|e| e.is_object())
        .unwrap_or(&value);
    let known = [429, 500, 502, 503, 529];
    let fields = ["code", "type", "status"]
        .iter()
        .filter_map(|key| error.get(*key));
    let statuses = fields.filter_map(|field| match field.as_str() {
        Some("rate_limit_error" | "rate_limit_exceeded" | "RESOURCE_EXHAUSTED") => Some(429),
        Some("api_error" | "server_error" | "internal_server_error" | "INTERNAL") => Some(500),
        Some("UNAVAILABLE") => Some(503),
        Some("overloaded_error") => Some(529),
        Some(text) => text.parse().ok(),
        None => u16::try_from(field.as_u64()?).ok(),
    });
    statuses.into_iter().find(|status| known.contains(status))
}
