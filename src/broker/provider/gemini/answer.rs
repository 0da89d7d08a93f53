//! The events of an answer: each is a response with some of the parts. Pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::{
    AnswerCodec, AnswerProgress, MAX_MODEL_NAME, StreamError, push_reasoning, push_text,
    server_error, start_of,
};
use crate::broker::sse::SseEvent;
use crate::chat::{FinishReason, StreamItem, TokenUsage};

/// Maximum size of the parts of one answer that are kept for sending them back, in bytes.
const MAX_NATIVE: usize = 8 << 20;

/// The state of an answer while its events arrive.
#[derive(Debug, Default)]
pub struct GeminiAnswer {
    progress: AnswerProgress,
    has_model: bool,
    /// The parts as received. They must be sent back unmerged.
    parts: Vec<String>,
    /// Size of the parts, in bytes.
    size: usize,
    is_signed: bool,
    usage: GeminiUsage,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    #[serde(default)]
    prompt_feedback: Option<PromptFeedback>,
    #[serde(default)]
    usage_metadata: Option<GeminiUsage>,
    #[serde(default)]
    model_version: Option<String>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(default)]
    index: u64,
    #[serde(borrow, default)]
    content: Option<Content<'a>>,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Cow<'a, str>,
    #[serde(default)]
    thought: bool,
    #[serde(borrow, default)]
    thought_signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FunctionCall<'a> {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    /// The arguments come in later parts, which is never asked for.
    #[serde(default)]
    will_continue: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    #[serde(default)]
    block_reason: Option<String>,
}

/// Token counts. Each event has a snapshot of some of them.
#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GeminiUsage {
    prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
    cached_content_token_count: u64,
    tool_use_prompt_token_count: u64,
}

impl GeminiAnswer {
    fn response(&mut self, data: &str, out: &mut Vec<StreamItem>) -> Result<(), StreamError> {
        let response: Response<'_> =
            serde_json::from_str(data).map_err(|_| StreamError::BadJson(start_of(data)))?;
        if response.error.is_some() {
            return Err(server_error(data));
        }
        let valid = |model: &String| !model.is_empty() && model.len() <= MAX_MODEL_NAME;
        if let Some(model) = response
            .model_version
            .filter(valid)
            .filter(|_| !self.has_model)
        {
            self.has_model = true;
            out.push(StreamItem::Model(model));
        }
        if let Some(now) = response.usage_metadata {
            self.count(now);
        }
        for candidate in response
            .candidates
            .into_iter()
            .flatten()
            .filter(|c| c.index == 0)
        {
            for part in candidate
                .content
                .into_iter()
                .flat_map(|content| content.parts)
            {
                self.part(part.get(), out)?;
            }
            if let Some(reason) = candidate.finish_reason {
                self.stop(&reason, candidate.finish_message)?;
            }
        }
        if let Some(reason) = response.prompt_feedback.and_then(|f| f.block_reason) {
            self.progress.finish = Some(FinishReason::ContentFilter);
            self.progress.filter_reason = Some(reason);
        }
        Ok(())
    }

    fn count(&mut self, now: GeminiUsage) {
        let before = self.usage;
        let all = GeminiUsage {
            prompt_token_count: now.prompt_token_count.max(before.prompt_token_count),
            candidates_token_count: now
                .candidates_token_count
                .max(before.candidates_token_count),
            thoughts_token_count: now.thoughts_token_count.max(before.thoughts_token_count),
            cached_content_token_count: now
                .cached_content_token_count
                .max(before.cached_content_token_count),
            tool_use_prompt_token_count: now
                .tool_use_prompt_token_count
                .max(before.tool_use_prompt_token_count),
        };
        self.usage = all;
        self.progress.usage = Some(TokenUsage {
            prompt_tokens: all
                .prompt_token_count
                .saturating_add(all.tool_use_prompt_token_count),
            completion_tokens: all
                .candidates_token_count
                .saturating_add(all.thoughts_token_count),
            cache_read_tokens: all.cached_content_token_count,
            cache_write_tokens: 0,
            reasoning_tokens: all.thoughts_token_count,
            cost_picodollars: None,
        });
    }

    fn part(&mut self, raw: &str, out: &mut Vec<StreamItem>) -> Result<(), StreamError> {
        self.size = self.size.saturating_add(raw.len());
        if self.size > MAX_NATIVE {
            return Err(StreamError::Server(
                "an answer longer than 8 MiB".to_owned(),
            ));
        }
        let part: Part<'_> =
            serde_json::from_str(raw).map_err(|_| StreamError::BadJson(start_of(raw)))?;
        self.is_signed |= part.thought_signature.is_some();
        self.parts.push(raw.to_owned());
        match part.thought {
            true => self.progress.reasoning |= push_reasoning(out, part.text),
            false => self.progress.text |= push_text(out, part.text),
        }
        match part.function_call {
            Some(call) if !call.name.is_empty() && !call.will_continue => {
                let arguments = call.args.map_or("{}", RawValue::get);
                self.progress
                    .calls
                    .add_complete(&call.id, &call.name, arguments)
            }
            _ => Ok(()),
        }
    }

    fn stop(&mut self, reason: &str, message: Option<String>) -> Result<(), StreamError> {
        self.progress.finish = Some(match reason {
            "STOP" | "FINISH_REASON_UNSPECIFIED" => FinishReason::Stop,
            "MAX_TOKENS" => FinishReason::Length,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII"
            | "IMAGE_SAFETY" => {
                self.progress.filter_reason = Some(reason.to_owned());
                FinishReason::ContentFilter
            }
            // Such as MALFORMED_FUNCTION_CALL: the answer is not what the model wanted to give.
            _ => {
                let message = message.map_or_else(String::new, |message| format!(": {message}"));
                return Err(StreamError::Server(format!("{reason}{message}")));
            }
        });
        Ok(())
    }
}

impl AnswerCodec for GeminiAnswer {
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
        match text.trim() {
            "" | "[DONE]" => Ok(()),
            data => self.response(data, out),
        }
    }

    fn whole(&mut self, body: &[u8], out: &mut Vec<StreamItem>) -> Result<(), StreamError> {
        let text = String::from_utf8_lossy(body);
        self.response(text.trim(), out)?;
        match self.progress.finish {
            Some(_) => {
                self.progress.done = true;
                Ok(())
            }
            None => Err(StreamError::Server(start_of(text.trim()))),
        }
    }

    /// The answer ends with the stream: parts may follow the finish reason.
    fn end(&mut self, _: &mut Vec<StreamItem>) {
        if self.is_signed && self.progress.finish == Some(FinishReason::Stop) {
            self.progress.native = Some(format!("[{}]", self.parts.join(",")));
        }
    }
}
