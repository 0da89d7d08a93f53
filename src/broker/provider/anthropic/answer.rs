//! The events of an answer: <https://docs.claude.com/en/docs/build-with-claude/streaming>. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{
    AnswerCodec, AnswerProgress, MAX_MODEL_NAME, StreamError, TypeField, push_reasoning, push_text,
    server_error, start_of,
};
use crate::broker::sse::SseEvent;
use crate::chat::{FinishReason, StreamItem, TokenUsage};

/// Maximum size of the blocks of one answer that are kept for sending them back, in bytes.
const MAX_NATIVE: usize = 8 << 20;

/// The state of an answer while its events arrive.
#[derive(Debug, Default)]
pub struct AnthropicAnswer {
    progress: AnswerProgress,
    /// The id of the message.
    id: String,
    /// The blocks so far.
    blocks: Vec<Block>,
    /// Size of the blocks, in bytes.
    size: usize,
    usage: AnthropicUsage,
}

/// A content block.
#[derive(Debug)]
struct Block {
    index: u64,
    /// As it was when it began: numbers keep their digits.
    start: String,
    head: BlockHead,
    /// Text that the deltas added, by the field that they belong to.
    text: String,
    thinking: String,
    signature: String,
    input: String,
    is_complete: bool,
}

/// The fields of a block that are read.
#[derive(Debug, Default, Deserialize)]
struct BlockHead {
    #[serde(skip)]
    kind: String,
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    text: String,
    #[serde(default)]
    thinking: String,
    #[serde(default)]
    signature: String,
}

impl Block {
    /// Returns the block as it is sent back, as JSON; `None` for a blank text, which the API refuses.
    fn finished(&self) -> Option<String> {
        let head = &self.head;
        let added = [&self.text, &self.thinking, &self.signature, &self.input];
        let is_blank = head.text.trim().is_empty() && self.text.trim().is_empty();
        if head.kind == "text" && is_blank {
            return None;
        }
        if added.iter().all(|text| text.is_empty()) {
            return Some(self.start.clone());
        }
        let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&self.start).ok()?;
        for (name, before, added) in [
            ("text", &head.text, &self.text),
            ("thinking", &head.thinking, &self.thinking),
            ("signature", &head.signature, &self.signature),
        ] {
            if !added.is_empty() {
                let whole = serde_json::value::to_raw_value(&format!("{before}{added}")).ok()?;
                fields.insert(name.to_owned(), whole);
            }
        }
        if !self.input.is_empty() {
            let input = RawValue::from_string(self.input.clone()).ok()?;
            fields.insert("input".to_owned(), input);
        }
        serde_json::to_string(&fields).ok()
    }
}

#[derive(Deserialize)]
struct MessagesEvent<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    index: u64,
    #[serde(borrow, default)]
    delta: Option<Delta<'a>>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(default)]
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(borrow, default)]
    thinking: Cow<'a, str>,
    #[serde(borrow, default)]
    signature: Cow<'a, str>,
    #[serde(borrow, default)]
    partial_json: Cow<'a, str>,
    #[serde(borrow, default)]
    stop_reason: Option<Cow<'a, str>>,
}

/// The message of `message_start`, and the whole answer of a server that does not stream.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(default)]
    id: String,
    #[serde(default)]
    model: String,
    #[serde(default)]
    usage: Option<AnthropicUsage>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    stop_reason: Option<String>,
}

/// Token counts; `input_tokens` does not include the two classes of the cache. Later events repeat or raise them.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
struct AnthropicUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize, Default, Debug, Clone, Copy)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Option<u64>,
}

impl AnthropicAnswer {
    fn begin(
        &mut self,
        message: Message<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), StreamError> {
        if !self.id.is_empty() {
            // A proxy may repeat the first event; another id is another answer in the same stream.
            return match message.id == self.id {
                true => Ok(()),
                false => Err(StreamError::Server("two answers in one stream".to_owned())),
            };
        }
        self.id = message.id;
        if !message.model.is_empty() && message.model.len() <= MAX_MODEL_NAME {
            out.push(StreamItem::Model(message.model));
        }
        self.count(message.usage);
        Ok(())
    }

    fn count(&mut self, usage: Option<AnthropicUsage>) {
        let Some(usage) = usage else { return };
        let later = |now: Option<u64>, before: Option<u64>| now.max(before);
        self.usage = AnthropicUsage {
            input_tokens: later(usage.input_tokens, self.usage.input_tokens),
            output_tokens: later(usage.output_tokens, self.usage.output_tokens),
            cache_read_input_tokens: later(
                usage.cache_read_input_tokens,
                self.usage.cache_read_input_tokens,
            ),
            cache_creation_input_tokens: later(
                usage.cache_creation_input_tokens,
                self.usage.cache_creation_input_tokens,
            ),
            output_tokens_details: usage
                .output_tokens_details
                .or(self.usage.output_tokens_details),
        };
        let read = self.usage.cache_read_input_tokens.unwrap_or(0);
        let written = self.usage.cache_creation_input_tokens.unwrap_or(0);
        let input = self.usage.input_tokens.unwrap_or(0);
        self.progress.usage = Some(TokenUsage {
            prompt_tokens: input.saturating_add(read).saturating_add(written),
            completion_tokens: self.usage.output_tokens.unwrap_or(0),
            cache_read_tokens: read,
            cache_write_tokens: written,
            reasoning_tokens: self
                .usage
                .output_tokens_details
                .and_then(|details| details.thinking_tokens)
                .unwrap_or(0),
            cost_picodollars: None,
        });
    }

    fn begin_block(
        &mut self,
        index: u64,
        start: &RawValue,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), StreamError> {
        self.grow(start.get().len())?;
        let bad = |_| StreamError::BadJson(start_of(start.get()));
        let kind = serde_json::from_str::<TypeField>(start.get())
            .map_err(bad)?
            .name;
        // Of a block of another type nothing is known.
        let head = match kind.as_str() {
            "text" | "thinking" | "tool_use" => serde_json::from_str(start.get()).map_err(bad)?,
            _ => BlockHead::default(),
        };
        let head = BlockHead { kind, ..head };
        self.progress.text |= push_text(out, Cow::Borrowed(&head.text));
        self.progress.reasoning |= push_reasoning(out, Cow::Borrowed(&head.thinking));
        self.progress.reasoning |= head.kind == "redacted_thinking";
        self.blocks.push(Block {
            index,
            start: start.get().to_owned(),
            head,
            text: String::new(),
            thinking: String::new(),
            signature: String::new(),
            input: String::new(),
            is_complete: false,
        });
        Ok(())
    }

    fn grow(&mut self, bytes: usize) -> Result<(), StreamError> {
        self.size = self.size.saturating_add(bytes);
        match self.size > MAX_NATIVE {
            true => Err(StreamError::Server(
                "an answer longer than 8 MiB".to_owned(),
            )),
            false => Ok(()),
        }
    }

    fn delta(
        &mut self,
        index: u64,
        delta: Delta<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), StreamError> {
        let added = delta.text.len()
            + delta.thinking.len()
            + delta.signature.len()
            + delta.partial_json.len();
        self.grow(added)?;
        let Some(block) = self
            .blocks
            .iter_mut()
            .rev()
            .find(|block| block.index == index)
        else {
            return Err(StreamError::Server(
                "a part of a block that did not begin".to_owned(),
            ));
        };
        match &*delta.kind {
            "text_delta" => {
                block.text.push_str(&delta.text);
                self.progress.text |= push_text(out, delta.text);
            }
            "thinking_delta" => {
                block.thinking.push_str(&delta.thinking);
                self.progress.reasoning |= push_reasoning(out, delta.thinking);
            }
            "signature_delta" => block.signature.push_str(&delta.signature),
            "input_json_delta" => block.input.push_str(&delta.partial_json),
            // Of a kind that this version does not know.
            _ => {}
        }
        Ok(())
    }

    /// Ends a block. A call is known only now: an answer that is cut off must not leave half of one.
    fn end_block(&mut self, index: u64) -> Result<(), StreamError> {
        let open = |block: &&mut Block| block.index == index && !block.is_complete;
        let Some(block) = self.blocks.iter_mut().rev().find(open) else {
            return Ok(());
        };
        block.is_complete = true;
        if block.head.kind != "tool_use" {
            return Ok(());
        }
        #[derive(Deserialize)]
        struct Input<'a> {
            #[serde(borrow)]
            input: &'a RawValue,
        }
        let input = match serde_json::from_str::<Input<'_>>(&block.start) {
            Ok(start) if block.input.is_empty() => start.input.get(),
            _ => &block.input,
        };
        let (id, name) = (&block.head.id, &block.head.name);
        self.progress.calls.add_complete(id, name, input)
    }

    fn stop(&mut self, reason: &str) {
        self.progress.finish = Some(match reason {
            "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
            "refusal" => {
                self.progress.filter_reason = Some(reason.to_owned());
                FinishReason::ContentFilter
            }
            "pause_turn" => FinishReason::Paused,
            _ => FinishReason::Stop,
        });
    }

    /// Keeps the blocks if some of them cannot be written from text and calls, or if the answer continues after them.
    fn keep_native(&mut self) {
        let blocks = std::mem::take(&mut self.blocks);
        let is_plain = |block: &Block| matches!(&*block.head.kind, "text" | "tool_use");
        let is_paused = self.progress.finish == Some(FinishReason::Paused);
        let is_plain = !is_paused && blocks.iter().all(is_plain);
        if is_plain || blocks.iter().any(|block| !block.is_complete) {
            return;
        }
        let items: Vec<String> = blocks.iter().filter_map(Block::finished).collect();
        self.progress.native = Some(format!("[{}]", items.join(",")));
    }
}

impl AnswerCodec for AnthropicAnswer {
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
        if data.is_empty() || self.progress.done {
            return Ok(());
        }
        let event: MessagesEvent<'_> =
            serde_json::from_str(data).map_err(|_| StreamError::BadJson(start_of(data)))?;
        match &*event.kind {
            "message_start" => match event.message {
                Some(message) => self.begin(message, out),
                None => Ok(()),
            },
            "content_block_start" => match event.content_block {
                Some(block) => self.begin_block(event.index, block, out),
                None => Ok(()),
            },
            "content_block_delta" => match event.delta {
                Some(delta) => self.delta(event.index, delta, out),
                None => Ok(()),
            },
            "content_block_stop" => self.end_block(event.index),
            "message_delta" => {
                self.count(event.usage);
                if let Some(reason) = event.delta.and_then(|delta| delta.stop_reason) {
                    self.stop(&reason);
                }
                Ok(())
            }
            "message_stop" => {
                self.progress.done = true;
                self.keep_native();
                Ok(())
            }
            "error" => Err(server_error(data)),
            // `ping`, and events that this version does not know.
            _ => Ok(()),
        }
    }

    fn whole(&mut self, body: &[u8], out: &mut Vec<StreamItem>) -> Result<(), StreamError> {
        let text = String::from_utf8_lossy(body);
        let data = text.trim();
        let message: Message<'_> =
            serde_json::from_str(data).map_err(|_| StreamError::BadJson(start_of(data)))?;
        let Some(content) = message.content else {
            return Err(server_error(data));
        };
        let blocks: Vec<&RawValue> = serde_json::from_str(content.get())
            .map_err(|_| StreamError::BadJson(start_of(data)))?;
        let reason = message.stop_reason.clone().unwrap_or_default();
        self.begin(message, out)?;
        for (index, block) in (0..).zip(blocks) {
            self.begin_block(index, block, out)?;
            self.end_block(index)?;
        }
        self.stop(&reason);
        self.progress.done = true;
        self.keep_native();
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<StreamItem>) {}
}
