//! The events of an answer: <https://platform.openai.com/docs/api-reference/responses-streaming>. Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{
    AnswerCodec, AnswerProgress, MAX_MODEL_NAME, StreamError, TypeField, error_message,
    push_reasoning, push_text, server_error, start_of,
};
use crate::broker::sse::SseEvent;
use crate::chat::{FinishReason, StreamItem, TokenUsage};

/// Maximum size of the items of one answer that are kept for sending them back, in bytes.
const MAX_NATIVE: usize = 8 << 20;

/// The state of an answer while its events arrive.
#[derive(Debug, Default)]
pub struct ResponsesAnswer {
    progress: AnswerProgress,
    has_model: bool,
    /// The complete items, by their place in the answer.
    items: BTreeMap<u64, String>,
    /// Size of the items, in bytes.
    size: usize,
    /// Whether an item cannot be written from text and calls.
    has_reasoning: bool,
    /// The items whose text arrived in pieces.
    streamed: BTreeSet<u64>,
}

#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(default)]
    output_index: u64,
    #[serde(borrow, default)]
    delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
    #[serde(default)]
    summary_index: u64,
}

/// The response, whole or in an event.
#[derive(Deserialize)]
struct Response<'a> {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    usage: Option<ResponsesUsage>,
    #[serde(default)]
    incomplete_details: Option<IncompleteDetails>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct IncompleteDetails {
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ResponsesUsage {
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    input_tokens_details: Option<TokenDetails>,
    #[serde(default)]
    output_tokens_details: Option<TokenDetails>,
}

#[derive(Deserialize, Default)]
struct TokenDetails {
    #[serde(default)]
    cached_tokens: Option<u64>,
    #[serde(default)]
    cache_write_tokens: Option<u64>,
    #[serde(default)]
    reasoning_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
struct Item<'a> {
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    call_id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    arguments: String,
    #[serde(default)]
    content: Option<Vec<ContentPart>>,
    #[serde(borrow, default)]
    phase: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ContentPart {
    #[serde(default)]
    text: String,
    #[serde(default)]
    refusal: String,
}

fn parse<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, StreamError> {
    serde_json::from_str(data).map_err(|_| StreamError::BadJson(start_of(data)))
}

impl ResponsesAnswer {
    fn model(&mut self, model: Option<String>, out: &mut Vec<StreamItem>) {
        let valid = |model: &String| !model.is_empty() && model.len() <= MAX_MODEL_NAME;
        if let Some(model) = model.filter(valid).filter(|_| !self.has_model) {
            self.has_model = true;
            out.push(StreamItem::Model(model));
        }
    }

    fn item(
        &mut self,
        index: u64,
        raw: &str,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), StreamError> {
        let kind = parse::<TypeField>(raw)?.name;
        // Of an item of another type nothing is known.
        let item: Item<'_> = match kind.as_str() {
            "function_call" | "message" => parse(raw)?,
            _ => Item::default(),
        };
        let is_whole = item
            .status
            .as_deref()
            .is_none_or(|status| status == "completed");
        let mut fields: BTreeMap<String, &RawValue> = parse(raw)?;
        // The provider refuses the ids of items that it did not store.
        fields.remove("id");
        let kept =
            serde_json::to_string(&fields).map_err(|_| StreamError::BadJson(start_of(raw)))?;
        self.size = self.size.saturating_add(kept.len());
        if self.size > MAX_NATIVE {
            return Err(StreamError::Server(
                "an answer longer than 8 MiB".to_owned(),
            ));
        }
        if self.items.insert(index, kept).is_some() {
            return Ok(());
        }
        match kind.as_str() {
            // Half a call must not run.
            "function_call" if is_whole => self.call(&item)?,
            "function_call" => {}
            "message" => {
                self.has_reasoning |= item.phase.is_some();
                // Some servers send no pieces.
                if self.streamed.insert(index) {
                    for part in item.content.into_iter().flatten() {
                        self.progress.text |= push_text(out, part.text.into());
                        self.progress.text |= push_text(out, part.refusal.into());
                    }
                }
            }
            _ => {
                self.has_reasoning = true;
                self.progress.reasoning |= kind == "reasoning";
            }
        }
        Ok(())
    }

    /// Adds a call. Some models wrap several calls in one of a tool that nobody has declared.
    fn call(&mut self, item: &Item<'_>) -> Result<(), StreamError> {
        #[derive(Deserialize)]
        struct Wrapper<'a> {
            #[serde(borrow)]
            tool_uses: Vec<ToolUse<'a>>,
        }
        #[derive(Deserialize)]
        struct ToolUse<'a> {
            recipient_name: String,
            #[serde(borrow)]
            parameters: &'a RawValue,
        }
        let calls = &mut self.progress.calls;
        let is_wrapper = matches!(&*item.name, "parallel" | "multi_tool_use.parallel");
        let wrapper = is_wrapper.then(|| serde_json::from_str::<Wrapper<'_>>(&item.arguments));
        let Some(Ok(wrapper)) = wrapper else {
            return calls.add_complete(&item.call_id, &item.name, &item.arguments);
        };
        for (n, call) in wrapper.tool_uses.iter().enumerate() {
            let name = call.recipient_name.trim_start_matches("functions.");
            let id = format!("{}_{n}", item.call_id);
            calls.add_complete(&id, name, call.parameters.get())?;
        }
        Ok(())
    }

    fn ended(
        &mut self,
        response: Response<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), StreamError> {
        self.model(response.model, out);
        if let Some(usage) = response.usage {
            let input = usage.input_tokens_details.unwrap_or_default();
            let output = usage.output_tokens_details.unwrap_or_default();
            self.progress.usage = Some(TokenUsage {
                prompt_tokens: usage.input_tokens,
                completion_tokens: usage.output_tokens,
                cache_read_tokens: input.cached_tokens.unwrap_or(0),
                cache_write_tokens: input.cache_write_tokens.unwrap_or(0),
                reasoning_tokens: output.reasoning_tokens.unwrap_or(0),
                cost_picodollars: None,
            });
        }
        let reason = response
            .incomplete_details
            .and_then(|details| details.reason);
        let finish = match response.status.as_deref() {
            Some("failed" | "cancelled") => {
                let error = response.error.map_or("the provider gave up", RawValue::get);
                return Err(server_error(error));
            }
            Some("incomplete") if reason.as_deref() == Some("content_filter") => {
                FinishReason::ContentFilter
            }
            Some("incomplete") => FinishReason::Length,
            _ => FinishReason::Stop,
        };
        self.progress.finish = Some(finish);
        self.progress.done = true;
        let items = std::mem::take(&mut self.items);
        if self.has_reasoning && finish == FinishReason::Stop {
            let items: Vec<String> = items.into_values().collect();
            self.progress.native = Some(format!("[{}]", items.join(",")));
        }
        Ok(())
    }
}

impl AnswerCodec for ResponsesAnswer {
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
    ) -> Result<(), StreamError> {
        let text = String::from_utf8_lossy(event.data);
        let data = text.trim();
        if data.is_empty() || data == "[DONE]" || self.progress.done {
            return Ok(());
        }
        let event: ResponsesEvent<'_> = parse(data)?;
        let delta = |delta: Option<&'_ RawValue>| -> Result<String, StreamError> {
            delta.map_or(Ok(String::new()), |raw| parse(raw.get()))
        };
        match &*event.kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.streamed.insert(event.output_index);
                self.progress.text |= push_text(out, delta(event.delta)?.into());
                Ok(())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.progress.reasoning |= push_reasoning(out, delta(event.delta)?.into());
                Ok(())
            }
            "response.reasoning_summary_part.added" if event.summary_index > 0 => {
                push_reasoning(out, "\n\n".into());
                Ok(())
            }
            "response.output_item.done" => match event.item {
                Some(item) => self.item(event.output_index, item.get(), out),
                None => Ok(()),
            },
            "response.completed" | "response.incomplete" | "response.failed" => {
                match event.response {
                    Some(response) => self.ended(parse(response.get())?, out),
                    None => Err(server_error(data)),
                }
            }
            "response.created" => match event.response {
                Some(response) => {
                    let response: Response<'_> = parse(response.get())?;
                    self.model(response.model, out);
                    Ok(())
                }
                None => Ok(()),
            },
            "error" => Err(server_error(data)),
            // An error without a type, or what this version does not know.
            "" => match error_message(data) {
                Some(_) => Err(server_error(data)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn whole(&mut self, body: &[u8], out: &mut Vec<StreamItem>) -> Result<(), StreamError> {
        let text = String::from_utf8_lossy(body);
        let data = text.trim();
        let mut response: Response<'_> = parse(data)?;
        let Some(output) = response.output.take() else {
            return Err(server_error(data));
        };
        for (index, item) in (0..).zip(output) {
            self.item(index, item.get(), out)?;
        }
        self.ended(response, out)
    }

    fn end(&mut self, _: &mut Vec<StreamItem>) {}
}
