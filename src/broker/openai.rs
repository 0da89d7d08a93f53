//! `/v1/chat/completions` as bytes: the request body, and what the events of the
//! answer mean. Pure. Servers disagree on many details; what is tolerated here
//! is what llama.cpp, Ollama, LM Studio, vLLM, OpenRouter, OpenAI, Mistral and
//! Groq are known to send.

mod calls;
mod mould;
mod request;
mod turns;

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use self::calls::Calls;
use self::mould::Mould;
pub use self::request::{Quirks, names, request_body};
use super::Chunk;
use super::sse::{Event, TooLong};
use crate::chat::{Finish, Usage};

/// Why the events of an answer cannot be followed further.
#[derive(Debug, PartialEq, Eq)]
pub enum Fault {
    /// A line longer than the decoder takes.
    TooLong,
    /// An event that is not the JSON it should be; holds its begin.
    BadJson(String),
    /// The server reports an error; holds its words.
    Server(String),
    /// More calls than anybody needs, or longer ones; holds which.
    Calls(&'static str),
}

impl From<TooLong> for Fault {
    fn from(_: TooLong) -> Self {
        Fault::TooLong
    }
}

/// What is known of an answer while its events come in.
#[derive(Debug, Default)]
pub struct Answer {
    /// Why the model stopped, once it has said so.
    pub finish: Option<Finish>,
    /// `[DONE]` was seen.
    pub done: bool,
    /// Some text was there, so the answer is not empty.
    pub text: bool,
    /// Some reasoning was there.
    pub reasoning: bool,
    /// The calls, as far as they have come.
    pub calls: Calls,
    /// The last count; some providers send one with every event, counting up.
    pub usage: Option<Usage>,
    model: bool,
    /// The last event that held text and nothing else.
    mould: Option<Mould>,
}

impl Answer {
    /// Takes one event and adds what it means to `out`; text joins the text before it.
    ///
    /// # Errors
    /// A [`Fault`]; what was added to `out` before it stays valid.
    pub fn event(
        &mut self,
        event: &Event<'_>,
        out: &mut Vec<Chunk>,
    ) -> std::result::Result<(), Fault> {
        if event.name != b"error"
            && !self.done
            && let Some(text) = self.mould.as_ref().and_then(|m| m.text(event.data))
        {
            self.text |= push_text(out, text);
            return Ok(());
        }
        let text = String::from_utf8_lossy(event.data);
        let data = text.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(());
        }
        if event.name == b"error" {
            let words = error_words(data).unwrap_or_else(|| data.to_owned());
            return Err(Fault::Server(words));
        }
        if data.is_empty() || self.done {
            return Ok(());
        }
        let body: Body<'_> = serde_json::from_str(data).map_err(|_| bad_json(data))?;
        self.take(body, data, out)
    }

    /// Takes a whole `chat.completion` object, from a server that does not stream.
    ///
    /// # Errors
    /// A [`Fault`].
    pub fn whole(&mut self, body: &[u8], out: &mut Vec<Chunk>) -> std::result::Result<(), Fault> {
        let text = String::from_utf8_lossy(body);
        let data = text.trim();
        let parsed: Body<'_> = serde_json::from_str(data).map_err(|_| bad_json(data))?;
        if parsed.choices.is_none() {
            let words = error_words(data).unwrap_or_else(|| start_of(data));
            return Err(Fault::Server(words));
        }
        self.take(parsed, data, out)?;
        self.finish.get_or_insert(Finish::Stop);
        self.done = true;
        Ok(())
    }

    fn take(
        &mut self,
        body: Body<'_>,
        data: &str,
        out: &mut Vec<Chunk>,
    ) -> std::result::Result<(), Fault> {
        if let Some(usage) = body.usage {
            self.usage = Some(Usage {
                prompt_tokens: usage.prompt_tokens.unwrap_or(0),
                completion_tokens: usage.completion_tokens.unwrap_or(0),
            });
        }
        let choices = match body.choices {
            Some(choices) => choices,
            None if body.usage.is_some() => Vec::new(),
            // Neither choices nor usage: a keep-alive of some kind, or an error in other words.
            None => match error_words(data) {
                Some(words) => return Err(Fault::Server(words)),
                None => Vec::new(),
            },
        };
        if let Some(error) = body.error {
            let words = error_words(error.get()).unwrap_or_else(|| start_of(error.get()));
            return Err(Fault::Server(words));
        }
        let alone = choices.len() == 1 && body.usage.is_none();
        if let Some(choice) = choices.into_iter().find(|c| c.index.unwrap_or(0) == 0) {
            let finish = choice.finish_reason;
            if let Some(delta) = choice.delta.or(choice.message) {
                // A server that sends both names sends the same words under both.
                let thought = if delta.reasoning_content.text.is_empty() {
                    delta.reasoning.text
                } else {
                    delta.reasoning_content.text
                };
                if alone
                    && finish.is_none()
                    && thought.is_empty()
                    && delta.refusal.text.is_empty()
                    && delta.tool_calls.as_ref().is_none_or(Vec::is_empty)
                    && let Cow::Borrowed(text) = delta.content.text
                {
                    self.mould = Mould::of(data, text);
                }
                self.reasoning |= push_reasoning(out, thought);
                self.reasoning |= push_reasoning(out, Cow::Owned(delta.content.thinking));
                self.text |= push_text(out, delta.content.text);
                self.text |= push_text(out, delta.refusal.text);
                for piece in delta.tool_calls.into_iter().flatten() {
                    self.calls.add(piece)?;
                }
            }
            match finish.as_ref().map(|f| f.text.as_ref()) {
                None | Some("") => {}
                Some("error") => {
                    return Err(Fault::Server("the provider gave up".to_owned()));
                }
                Some("length" | "max_tokens") => self.finish = Some(Finish::Length),
                Some("content_filter") => self.finish = Some(Finish::ContentFilter),
                Some(_) => self.finish = Some(Finish::Stop),
            }
        }
        if !self.model
            && let Some(model) = body.model
            && !model.text.is_empty()
        {
            self.model = true;
            out.push(Chunk::Model(model.text.into_owned()));
        }
        Ok(())
    }
}

/// Adds text to the text before it, or as a new chunk; says whether there was any.
fn push_text(out: &mut Vec<Chunk>, text: Cow<'_, str>) -> bool {
    if text.is_empty() {
        return false;
    }
    match out.last_mut() {
        Some(Chunk::Text(last)) => last.push_str(&text),
        _ => out.push(Chunk::Text(text.into_owned())),
    }
    true
}

/// The same for reasoning.
fn push_reasoning(out: &mut Vec<Chunk>, text: Cow<'_, str>) -> bool {
    if text.is_empty() {
        return false;
    }
    match out.last_mut() {
        Some(Chunk::Reasoning(last)) => last.push_str(&text),
        _ => out.push(Chunk::Reasoning(text.into_owned())),
    }
    true
}

fn bad_json(data: &str) -> Fault {
    Fault::BadJson(start_of(data))
}

/// Enough of a text to recognise it by.
fn start_of(data: &str) -> String {
    data.chars().take(500).collect()
}

/// The words of an error, wherever a provider puts them:
/// `{"error": {"message"}}`, `{"error": "…"}`, `{"message"}`, `{"detail"}`, `{"detail": [{"msg"}]}`.
pub fn error_words(json: &str) -> Option<String> {
    fn words(value: &serde_json::Value, depth: usize) -> Option<String> {
        match value {
            serde_json::Value::String(s) if !s.is_empty() => Some(s.clone()),
            serde_json::Value::Array(list) if depth > 0 => words(list.first()?, depth - 1),
            serde_json::Value::Object(map) if depth > 0 => ["error", "message", "detail", "msg"]
                .iter()
                .find_map(|key| words(map.get(*key)?, depth - 1)),
            _ => None,
        }
    }
    let value: serde_json::Value = serde_json::from_str(json).ok()?;
    // A bare string or list is no error that a provider would send.
    if !value.is_object() {
        return None;
    }
    words(&value, 4)
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    model: Option<Text<'a>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize, Clone, Copy)]
struct Counts {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, default)]
    content: Text<'a>,
    #[serde(borrow, default)]
    reasoning_content: Text<'a>,
    #[serde(borrow, default)]
    reasoning: Text<'a>,
    #[serde(borrow, default)]
    refusal: Text<'a>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<calls::Piece<'a>>>,
}

/// Text as it is found: a string, `null`, or a list of parts. Borrowed unless the JSON escapes something.
#[derive(Default)]
struct Text<'a> {
    text: Cow<'a, str>,
    /// What the parts of a list hold that are reasoning.
    thinking: String,
}

impl<'a> From<Cow<'a, str>> for Text<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Text {
            text,
            thinking: String::new(),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E>(self, v: &'de str) -> std::result::Result<Text<'de>, E> {
                Ok(Text::from(Cow::Borrowed(v)))
            }

            fn visit_str<E>(self, v: &str) -> std::result::Result<Text<'de>, E> {
                Ok(Text::from(Cow::Owned(v.to_owned())))
            }

            fn visit_string<E>(self, v: String) -> std::result::Result<Text<'de>, E> {
                Ok(Text::from(Cow::Owned(v)))
            }

            fn visit_unit<E>(self) -> std::result::Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_bool<E>(self, _: bool) -> std::result::Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_i64<E>(self, _: i64) -> std::result::Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_u64<E>(self, _: u64) -> std::result::Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_f64<E>(self, _: f64) -> std::result::Result<Text<'de>, E> {
                Ok(Text::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(
                self,
                mut list: A,
            ) -> std::result::Result<Text<'de>, A::Error> {
                let (mut text, mut thinking) = (String::new(), String::new());
                while let Some(part) = list.next_element::<Part<'de>>()? {
                    text.push_str(&part.text.text);
                    thinking.push_str(&part.thinking.text);
                }
                Ok(Text {
                    text: Cow::Owned(text),
                    thinking,
                })
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Text<'de>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text::default())
            }
        }
        deserializer.deserialize_any(TextVisitor)
    }
}

/// One part of a `content` list: `{"text": "…"}` or `{"thinking": [{"text": "…"}]}`.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    thinking: Text<'a>,
}

#[cfg(test)]
mod tests;
