//! The chat completions format (`/v1/chat/completions`): request bodies, and the meaning of the events of an answer.
//! Pure.
//!
//! Servers differ in many details. The variants accepted here are those that llama.cpp, Ollama, LM Studio, vLLM,
//! OpenRouter, OpenAI, Mistral and Groq send.

mod request;
mod surrogates;
mod text_event;
mod tool_calls;
mod turns;

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub use self::request::{ServerQuirks, names, request_body};
use self::surrogates::{PairJoiner, mark};
use self::text_event::TextEvent;
use self::tool_calls::CallAssembler;
pub use self::tool_calls::CallLimit;
use crate::broker::sse::{EventTooLong, SseEvent};
use crate::chat::{FinishReason, StreamItem, TokenUsage};

/// Maximum length of a reported model name, in bytes. A longer one is ignored.
const MAX_MODEL_NAME: usize = 256;

/// Why an answer cannot be read any further.
#[derive(Debug, PartialEq, Eq)]
pub enum StreamError {
    /// A line or an event is longer than the decoder accepts.
    EventTooLong,
    /// An event is not JSON; holds the event's begin.
    BadJson(String),
    /// The server reports an error; holds the server's message.
    Server(String),
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
pub struct ChatAnswer {
    /// The finish reason, once an event contains one.
    pub finish: Option<FinishReason>,
    /// Whether `[DONE]` has arrived.
    pub done: bool,
    /// Whether any text has arrived.
    pub text: bool,
    /// Whether any reasoning has arrived.
    pub reasoning: bool,
    /// The tool calls so far.
    pub calls: CallAssembler,
    /// The last token count; some providers send a running count with every event.
    pub usage: Option<TokenUsage>,
    /// The model's name has been reported.
    model: bool,
    /// Joins pairs of the text, and of the reasoning.
    text_pairs: PairJoiner,
    reasoning_pairs: PairJoiner,
}

impl ChatAnswer {
    /// Reads one event and appends its chunks to `out`; text is joined with the text before it.
    ///
    /// # Errors
    /// A [`StreamError`]; the chunks in `out` stay valid.
    pub fn event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError> {
        if event.name != b"error"
            && !self.done
            && let Some(found) = TextEvent::scan(event.data)
            && (self.model || !found.has_model)
        {
            self.push_reasoning(out, found.reasoning, false);
            self.push_text(out, found.text, false);
            return Ok(());
        }
        self.parse(event, out)
    }

    /// Reads one event with the full parser.
    fn parse(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError> {
        let text = String::from_utf8_lossy(event.data);
        let data = text.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.name == b"error" {
            let message = error_message(data).unwrap_or_else(|| data.to_owned());
            return Err(StreamError::Server(message));
        }
        if data.is_empty() || self.done {
            return Ok(());
        }
        self.read(data, out).map(|_| ())
    }

    /// Reads the JSON of an event. Returns whether the event has choices.
    fn read(
        &mut self,
        data: &str,
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<bool, StreamError> {
        if let Ok(body) = serde_json::from_str::<ChatEvent<'_>>(data) {
            let choices = body.choices.is_some();
            return self.take(body, data, false, out).map(|()| choices);
        }
        // A server that cuts text by UTF-16 units sends half a pair in each of two events.
        let marked = mark(data).ok_or_else(|| bad_json(data))?;
        let body: ChatEvent<'_> = serde_json::from_str(&marked).map_err(|_| bad_json(data))?;
        let choices = body.choices.is_some();
        self.take(body, &marked, true, out).map(|()| choices)
    }

    /// Ends the answer: half a pair without the other half becomes U+FFFD.
    pub fn end(&mut self, out: &mut Vec<StreamItem>) {
        let (reasoning, text) = (self.reasoning_pairs.end(), self.text_pairs.end());
        push_reasoning(out, reasoning.into());
        self.text |= push_text(out, text.into());
    }

    fn push_text(&mut self, out: &mut Vec<StreamItem>, text: Cow<'_, str>, marked: bool) {
        self.text |= push_text(out, self.text_pairs.join(text, marked));
    }

    fn push_reasoning(&mut self, out: &mut Vec<StreamItem>, text: Cow<'_, str>, marked: bool) {
        self.reasoning |= push_reasoning(out, self.reasoning_pairs.join(text, marked));
    }

    /// Reads a whole `chat.completion` object from a server that does not stream.
    ///
    /// # Errors
    /// A [`StreamError`].
    pub fn whole(
        &mut self,
        body: &[u8],
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError> {
        let text = String::from_utf8_lossy(body);
        let data = text.trim();
        if !self.read(data, out)? {
            let message = error_message(data).unwrap_or_else(|| start_of(data));
            return Err(StreamError::Server(message));
        }
        self.finish.get_or_insert(FinishReason::Stop);
        self.done = true;
        Ok(())
    }

    fn take(
        &mut self,
        body: ChatEvent<'_>,
        data: &str,
        marked: bool,
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError> {
        if let Some(usage) = body.usage {
            self.usage = Some(TokenUsage {
                prompt_tokens: usage.prompt_tokens.unwrap_or(0),
                completion_tokens: usage.completion_tokens.unwrap_or(0),
            });
        }
        let choices = match body.choices {
            Some(choices) => choices,
            None if body.usage.is_some() => Vec::new(),
            // Neither choices nor usage: a keep-alive event or an error in an unusual form.
            None => match error_message(data) {
                Some(message) => return Err(StreamError::Server(message)),
                None => Vec::new(),
            },
        };
        if let Some(error) = body.error {
            let message = error_message(error.get()).unwrap_or_else(|| start_of(error.get()));
            return Err(StreamError::Server(message));
        }
        if let Some(choice) = choices.into_iter().find(|c| c.index.unwrap_or(0) == 0) {
            let finish = choice.finish_reason;
            if let Some(delta) = choice.delta.or(choice.message) {
                // A server that sends both names sends the same reasoning under both.
                let reasoning = if delta.reasoning_content.text.is_empty() {
                    delta.reasoning.text
                } else {
                    delta.reasoning_content.text
                };
                self.push_reasoning(out, reasoning, marked);
                self.push_reasoning(out, Cow::Owned(delta.content.thinking), marked);
                self.push_text(out, delta.content.text, marked);
                self.push_text(out, delta.refusal.text, marked);
                for piece in delta.tool_calls.into_iter().flatten() {
                    self.calls.add(piece, marked)?;
                }
            }
            match finish.map_or(WireFinish::Absent, |reason| WireFinish::from(&*reason.text)) {
                WireFinish::Absent => {}
                WireFinish::ProviderError => {
                    return Err(StreamError::Server("the provider gave up".to_owned()));
                }
                WireFinish::Finished(finish) => self.finish = Some(finish),
            }
        }
        if !self.model
            && let Some(model) = body.model
            && !model.text.is_empty()
            && model.text.len() <= MAX_MODEL_NAME
        {
            self.model = true;
            out.push(StreamItem::Model(model.text.into_owned()));
        }
        Ok(())
    }
}

/// The meaning of a `finish_reason`.
enum WireFinish {
    Absent,
    ProviderError,
    Finished(FinishReason),
}

impl From<&str> for WireFinish {
    fn from(reason: &str) -> Self {
        match reason {
            "" => WireFinish::Absent,
            "error" => WireFinish::ProviderError,
            "length" | "max_tokens" => WireFinish::Finished(FinishReason::Length),
            "content_filter" => WireFinish::Finished(FinishReason::ContentFilter),
            _ => WireFinish::Finished(FinishReason::Stop),
        }
    }
}

/// Joins text with the last chunk, or adds a chunk. Returns whether the text was not empty.
fn push_text(out: &mut Vec<StreamItem>, text: Cow<'_, str>) -> bool {
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
fn push_reasoning(out: &mut Vec<StreamItem>, text: Cow<'_, str>) -> bool {
    if text.is_empty() {
        return false;
    }
    match out.last_mut() {
        Some(StreamItem::Reasoning(last)) => last.push_str(&text),
        _ => out.push(StreamItem::Reasoning(text.into_owned())),
    }
    true
}

fn bad_json(data: &str) -> StreamError {
    StreamError::BadJson(start_of(data))
}

/// Returns the begin of a text, long enough to recognize it.
fn start_of(data: &str) -> String {
    data.chars().take(500).collect()
}

/// Finds the message of an error in any of the known forms:
/// `{"error": {"message"}}`, `{"error": "…"}`, `{"message"}`, `{"detail"}`, `{"detail": [{"msg"}]}`.
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
    // No provider sends a bare string or list as an error.
    if !value.is_object() {
        return None;
    }
    message(&value, 4)
}

#[derive(Deserialize)]
struct ChatEvent<'a> {
    #[serde(borrow, default)]
    model: Option<LenientText<'a>>,
    #[serde(borrow, default)]
    choices: Option<Vec<EventChoice<'a>>>,
    #[serde(default)]
    usage: Option<TokenCounts>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize, Clone, Copy)]
struct TokenCounts {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct EventChoice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<MessageDelta<'a>>,
    #[serde(borrow, default)]
    message: Option<MessageDelta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<LenientText<'a>>,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    #[serde(borrow, default)]
    content: LenientText<'a>,
    #[serde(borrow, default)]
    reasoning_content: LenientText<'a>,
    #[serde(borrow, default)]
    reasoning: LenientText<'a>,
    #[serde(borrow, default)]
    refusal: LenientText<'a>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<tool_calls::CallFragment<'a>>>,
}

/// Text as a string, `null`, or a list of parts; any other value counts as no text. Borrowed unless the JSON has escapes.
#[derive(Default)]
struct LenientText<'a> {
    text: Cow<'a, str>,
    /// Reasoning from the parts of a list.
    thinking: String,
}

impl<'a> From<Cow<'a, str>> for LenientText<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        LenientText {
            text,
            thinking: String::new(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for LenientText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = LenientText<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E>(
                self,
                v: &'de str,
            ) -> std::result::Result<LenientText<'de>, E> {
                Ok(LenientText::from(Cow::Borrowed(v)))
            }

            fn visit_str<E>(self, v: &str) -> std::result::Result<LenientText<'de>, E> {
                Ok(LenientText::from(Cow::Owned(v.to_owned())))
            }

            fn visit_string<E>(self, v: String) -> std::result::Result<LenientText<'de>, E> {
                Ok(LenientText::from(Cow::Owned(v)))
            }

            fn visit_unit<E>(self) -> std::result::Result<LenientText<'de>, E> {
                Ok(LenientText::default())
            }

            fn visit_bool<E>(self, _: bool) -> std::result::Result<LenientText<'de>, E> {
                Ok(LenientText::default())
            }

            fn visit_i64<E>(self, _: i64) -> std::result::Result<LenientText<'de>, E> {
                Ok(LenientText::default())
            }

            fn visit_u64<E>(self, _: u64) -> std::result::Result<LenientText<'de>, E> {
                Ok(LenientText::default())
            }

            fn visit_f64<E>(self, _: f64) -> std::result::Result<LenientText<'de>, E> {
                Ok(LenientText::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<LenientText<'de>, A::Error> {
                let (mut text, mut thinking) = (String::new(), String::new());
                while let Some(part) = list.next_element::<TextPart<'de>>()? {
                    text.push_str(&part.text.text);
                    thinking.push_str(&part.thinking.text);
                }
                Ok(LenientText {
                    text: Cow::Owned(text),
                    thinking,
                })
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<LenientText<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(LenientText::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// One part of a `content` list: `{"text": "…"}` or `{"thinking": [{"text": "…"}]}`.
#[derive(Deserialize)]
struct TextPart<'a> {
    #[serde(borrow, default)]
    text: LenientText<'a>,
    #[serde(borrow, default)]
    thinking: LenientText<'a>,
}

#[cfg(test)]
mod tests;
