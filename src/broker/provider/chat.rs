//! The chat completions format (`/v1/chat/completions`): request bodies, and the meaning of the events of an answer.
//! Pure.
//!
//! Servers differ in many details. The variants accepted here are those that llama.cpp, Ollama, LM Studio, vLLM,
//! OpenRouter, OpenAI, Mistral and Groq send.

mod request;
mod returned;
mod surrogates;
mod text_event;
mod think_tags;
mod tool_calls;
mod turns;

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

pub use self::request::{names, parameters, request_body, without_alternatives};
use self::returned::KeptReasoning;
pub use self::returned::wants_reasoning;
use self::surrogates::{PairJoiner, mark};
use self::text_event::TextEvent;
use self::think_tags::ThinkTags;
pub use self::tool_calls::CallAssembler;
pub use self::tool_calls::CallLimit;
pub use self::turns::is_valid_image;
use super::{
    AnswerCodec, AnswerProgress, MAX_MODEL_NAME, StreamError, error_message, push_reasoning,
    push_text, server_error, start_of,
};
use crate::broker::sse::SseEvent;
use crate::chat::{FinishReason, StreamItem, TokenUsage};

/// The state of an answer while its events arrive.
#[derive(Debug, Default)]
pub struct ChatAnswer {
    /// The state so far.
    pub progress: AnswerProgress,
    /// The model's name has been reported.
    model: bool,
    /// Joins pairs of the text, and of the reasoning.
    text_pairs: PairJoiner,
    reasoning_pairs: PairJoiner,
    think_tags: ThinkTags,
    kept: KeptReasoning,
}

impl ChatAnswer {
    /// Reads one event with the full parser.
    fn parse(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError> {
        let text = String::from_utf8_lossy(event.data);
        let data = text.trim();
        if data == "[DONE]" {
            self.progress.done = true;
            return Ok(());
        }
        if event.name == b"error" {
            return Err(server_error(data));
        }
        if data.is_empty() || self.progress.done {
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

    fn push_text(&mut self, out: &mut Vec<StreamItem>, text: Cow<'_, str>, marked: bool) {
        let (reasoning, text) = self.think_tags.split(self.text_pairs.join(text, marked));
        self.progress.reasoning |= push_reasoning(out, reasoning.into());
        self.progress.text |= push_text(out, text);
    }

    fn push_reasoning(&mut self, out: &mut Vec<StreamItem>, text: Cow<'_, str>, marked: bool) {
        let text = self.reasoning_pairs.join(text, marked);
        self.kept.push(&text);
        self.progress.reasoning |= push_reasoning(out, text);
    }

    fn take(
        &mut self,
        body: ChatEvent<'_>,
        data: &str,
        marked: bool,
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError> {
        let of_groq = body.x_groq.and_then(|extra| extra.usage);
        if let Some(usage) = body.usage.as_ref().or(of_groq.as_ref()) {
            self.progress.usage = Some(usage.counts());
        }
        let choices = match body.choices {
            Some(choices) => choices,
            None if body.usage.is_some() => Vec::new(),
            // Neither choices nor usage: a keep-alive event or an error in an unusual form.
            None => match error_message(data) {
                Some(_) => return Err(server_error(data)),
                None => Vec::new(),
            },
        };
        if let Some(error) = body.error {
            return Err(server_error(error.get()));
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
                if !delta.content.thinking.is_empty() {
                    self.kept.in_content();
                    self.push_reasoning(out, Cow::Owned(delta.content.thinking), marked);
                }
                self.push_text(out, delta.content.text, marked);
                self.push_text(out, delta.refusal.text, marked);
                self.kept
                    .extend(delta.reasoning_details.unwrap_or_default());
                for piece in delta.tool_calls.into_iter().flatten() {
                    self.progress.calls.add(piece, marked)?;
                }
            }
            match finish.map_or(WireFinish::Absent, |reason| WireFinish::from(&*reason.text)) {
                WireFinish::Absent => {}
                WireFinish::ProviderError => {
                    return Err(StreamError::Server("the provider gave up".to_owned()));
                }
                WireFinish::Finished(finish) => self.progress.finish = Some(finish),
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

impl AnswerCodec for ChatAnswer {
    fn progress(&self) -> &AnswerProgress {
        &self.progress
    }

    fn progress_mut(&mut self) -> &mut AnswerProgress {
        &mut self.progress
    }

    fn event(
        &mut self,
        event: &SseEvent<'_>,
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError> {
        if event.name != b"error"
            && !self.progress.done
            && let Some(found) = TextEvent::scan(event.data)
            && (self.model || !found.has_model)
        {
            self.push_reasoning(out, found.reasoning, false);
            self.push_text(out, found.text, false);
            return Ok(());
        }
        self.parse(event, out)
    }

    /// Reads a whole `chat.completion` object.
    fn whole(
        &mut self,
        body: &[u8],
        out: &mut Vec<StreamItem>,
    ) -> std::result::Result<(), StreamError> {
        let text = String::from_utf8_lossy(body);
        let data = text.trim();
        if !self.read(data, out)? {
            return Err(server_error(data));
        }
        self.progress.finish.get_or_insert(FinishReason::Stop);
        self.progress.done = true;
        Ok(())
    }

    /// Half a pair without the other half becomes U+FFFD.
    fn end(&mut self, out: &mut Vec<StreamItem>) {
        let (reasoning, text) = (self.reasoning_pairs.end(), self.text_pairs.end());
        push_reasoning(out, reasoning.into());
        let (more, mut rest) = self.think_tags.split(text.into());
        let (last, held) = self.think_tags.end();
        rest.to_mut().push_str(&held);
        self.progress.reasoning |= push_reasoning(out, (more + &last).into());
        self.progress.text |= push_text(out, rest);
        self.progress.native = self.kept.items(!self.progress.calls.is_empty());
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

fn bad_json(data: &str) -> StreamError {
    StreamError::BadJson(start_of(data))
}

#[derive(Deserialize)]
struct ChatEvent<'a> {
    #[serde(borrow, default)]
    model: Option<LenientText<'a>>,
    #[serde(borrow, default)]
    choices: Option<Vec<EventChoice<'a>>>,
    #[serde(default)]
    usage: Option<TokenCounts>,
    /// Where Groq has the usage if it was not asked for it.
    x_groq: Option<GroqExtra>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct GroqExtra {
    usage: Option<TokenCounts>,
}

#[derive(Deserialize, Clone, Copy)]
struct TokenCounts {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
    #[serde(default, deserialize_with = "lenient")]
    prompt_tokens_details: TokenDetails,
    #[serde(default, deserialize_with = "lenient")]
    completion_tokens_details: TokenDetails,
    #[serde(default)]
    total_tokens: Option<u64>,
    /// US dollars. OpenRouter reports them; others have something else under this name.
    #[serde(default, deserialize_with = "picodollars")]
    cost: Option<u64>,
}

impl TokenCounts {
    fn counts(self) -> TokenUsage {
        let prompt = self.prompt_tokens.unwrap_or(0);
        let mut completion = self.completion_tokens.unwrap_or(0);
        let reasoning = self.completion_tokens_details.reasoning_tokens.unwrap_or(0);
        // xAI counts the reasoning beside the completion, all others within it.
        let apart = completion.saturating_add(reasoning);
        if self.total_tokens == prompt.checked_add(apart) {
            completion = apart;
        }
        TokenUsage {
            prompt_tokens: prompt,
            completion_tokens: completion,
            cache_read_tokens: self.prompt_tokens_details.cached_tokens.unwrap_or(0),
            cache_write_tokens: self.prompt_tokens_details.cache_write_tokens.unwrap_or(0),
            reasoning_tokens: reasoning,
            cost_picodollars: self.cost,
        }
    }
}

#[derive(Deserialize, Default, Clone, Copy)]
struct TokenDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

/// Reads a number of dollars; anything else is not a cost.
fn picodollars<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<u64>, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?;
    let cost = serde_json::from_str::<f64>(raw.get()).ok();
    let cost = cost.filter(|cost| (0.0..1e6).contains(cost));
    Ok(cost.map(|cost| (cost * 1e12).round() as u64))
}

/// Reads `null` as no details.
fn lenient<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<TokenDetails, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
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
    reasoning_details: Option<Vec<&'a RawValue>>,
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
