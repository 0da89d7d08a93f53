//! Rebuilds the conversation from the records of a session. Pure.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::chat::{
    AssistantMessage, CallStatus, ChatMessage, FinishReason, ImageContent, ToolCall, ToolResult,
};
use crate::history::record::{ApprovalDecision, INTERRUPTED, Record, RecordBody};

/// Sent to the model in place of a missing result.
pub const NO_RESULT: &str = "[no result: the call failed]";

/// Reply in the conversation to a summary, since strict chat templates require alternating roles.
const SUMMARY_REPLY: &str = "I have read the summary.";

/// A conversation as it is sent to a model.
#[derive(Debug, Default)]
pub struct Conversation {
    /// The messages.
    pub messages: Vec<ChatMessage>,
    /// Number of messages at the start that summarize an older part.
    pub pinned: usize,
    /// The prompts, as the id of the record and the index of the message. Without those that are summarized.
    pub prompts: Vec<(String, usize)>,
}

/// Returns the messages of these records as they were sent: the user, the assistant, the results of its calls, the
/// assistant again, and so on. A summary replaces the messages that it summarizes.
///
/// Whatever happened (a crash, a denial, missing or duplicate records), every call has exactly one result, in the order
/// of the calls and before anything else; no result is without a call; no two calls share an id. A prompt without an
/// answer gets a note in place of the answer if another prompt follows, since strict chat templates require alternating
/// roles. The prompts of [`left_out`] are not part of the conversation.
pub fn conversation(records: &[Record]) -> Conversation {
    let left_out = left_out(records);
    let mut talk = ConversationBuilder::default();
    for (at, record) in records.iter().enumerate() {
        match &record.body {
            RecordBody::User {
                content, images, ..
            } => {
                talk.end_round();
                talk.compaction = None;
                talk.paused = false;
                talk.skips_answers = left_out.contains(&at);
                if talk.skips_answers {
                    continue;
                }
                if matches!(talk.messages.last(), Some(ChatMessage::User(..))) {
                    talk.messages.push(ChatMessage::assistant("[no answer]"));
                }
                talk.prompts.push((record.id.clone(), talk.messages.len()));
                talk.messages
                    .push(ChatMessage::User(content.clone(), shared_images(images)));
            }
            RecordBody::Compaction { kept_from, .. } => {
                talk.end_round();
                // The prompt with that id may have been left out since.
                let first_kept = records.iter().enumerate().take(at);
                let first_kept = first_kept
                    .skip_while(|(_, r)| kept_from.as_ref() != Some(&r.id))
                    .find(|(at, r)| {
                        matches!(r.body, RecordBody::User { .. }) && !left_out.contains(at)
                    });
                talk.compaction = Some(first_kept.map(|(_, r)| r.id.clone()));
                talk.skips_answers = false;
            }
            RecordBody::Assistant { .. } if talk.skips_answers => {}
            RecordBody::Assistant {
                text,
                calls,
                finish,
                native,
                ..
            } => {
                talk.end_round();
                if let Some(kept_from) = talk.compaction.take() {
                    if record.body.is_usable_summary() {
                        talk.summarize(text, kept_from);
                    }
                    continue;
                }
                // A request that failed before its first token is skipped: a fallback model may have answered instead.
                let is_empty = text.is_empty() && calls.is_empty();
                let is_after_prompt = matches!(talk.messages.last(), Some(ChatMessage::User(..)));
                if *finish == FinishReason::Error && is_empty && is_after_prompt {
                    continue;
                }
                // The turn was cut off during its calls, whose results say so.
                let is_after_calls = matches!(talk.messages.last(), Some(ChatMessage::Tool(_)));
                if *finish == FinishReason::CutOff && is_empty && is_after_calls {
                    continue;
                }
                let is_continuation =
                    talk.paused && matches!(talk.messages.last(), Some(ChatMessage::Assistant(_)));
                if is_continuation && is_empty && native.is_none() {
                    continue;
                }
                talk.paused = *finish == FinishReason::Paused;
                // Ignore an answer without a prompt, and a second answer.
                if is_continuation
                    || matches!(
                        talk.messages.last(),
                        Some(ChatMessage::User(..) | ChatMessage::Tool(_))
                    )
                {
                    let text = match finish {
                        _ if !is_empty || is_continuation || talk.paused => text.clone(),
                        FinishReason::Interrupted => "[interrupted before an answer]".to_string(),
                        _ => "[no answer]".to_string(),
                    };
                    talk.stopped = *finish == FinishReason::Interrupted;
                    talk.open = calls
                        .iter()
                        .map(|call| OpenCall {
                            recorded: call.id.clone(),
                            id: talk.ids.unique_id(&call.id),
                            name: call.name.clone(),
                            result: None,
                        })
                        .collect();
                    let calls = calls
                        .iter()
                        .zip(&talk.open)
                        .map(|(call, open)| ToolCall {
                            id: open.id.clone(),
                            name: call.name.clone(),
                            arguments: call.arguments.clone(),
                            extra: call.extra.clone(),
                        })
                        .collect();
                    let native = native.clone();
                    // The provider gets the parts as it sent them, which it joins; without them one text continues.
                    if native.is_none()
                        && is_continuation
                        && let Some(ChatMessage::Assistant(begun)) = talk.messages.last_mut()
                        && begun.native.is_none()
                    {
                        begun.text.push_str(&text);
                        begun.calls = calls;
                        continue;
                    }
                    talk.messages.push(ChatMessage::Assistant(AssistantMessage {
                        text,
                        calls,
                        native,
                    }));
                }
            }
            RecordBody::Approval { decision, .. } => {
                let ends = [ApprovalDecision::Stop, ApprovalDecision::Cancelled];
                talk.stopped |= ends.contains(decision)
            }
            RecordBody::Tool {
                call,
                status,
                text,
                images,
                ..
            } => {
                talk.stopped |= *status == CallStatus::Interrupted;
                let unanswered = |o: &&mut OpenCall| o.recorded == *call && o.result.is_none();
                if let Some(open) = talk.open.iter_mut().find(unanswered) {
                    open.result = Some((result_text(*status, text), shared_images(images)));
                }
            }
            _ => {}
        }
    }
    talk.end_round();
    Conversation {
        messages: talk.messages,
        pinned: talk.pinned,
        prompts: talk.prompts,
    }
}

/// Returns the places of the prompts that are left out of requests, because the provider has refused them: with one of them, every
/// later request would be refused too.
///
/// A prompt is left out at once if the provider has clearly refused it for what it is. Where the cause is unclear, the prompt is a
/// suspect until a request that contains it succeeds, and is left out once the request of a later prompt is refused: that prompt
/// stays, since the suspect may be the cause. A prompt without an answer is a suspect as well, because its refusal may not have arrived.
pub fn left_out(records: &[Record]) -> BTreeSet<usize> {
    let mut places = BTreeSet::new();
    // The prompts of the requests since the last one that succeeded, without those that are left out.
    let mut open: Vec<OpenPrompt> = Vec::new();
    let mut current = None;
    // The next answer is a summary of what precedes the prompt with this id.
    let mut compaction = None;
    for (at, record) in records.iter().enumerate() {
        match &record.body {
            RecordBody::User { .. } => {
                compaction = None;
                current = Some(at);
                let doubt = Doubt::Unanswered;
                open.push(OpenPrompt { at, doubt });
            }
            RecordBody::Compaction { kept_from, .. } => {
                compaction = Some(kept_from);
                current = None;
            }
            RecordBody::Assistant {
                text,
                calls,
                finish,
                refused,
                rejected,
                ..
            } => {
                if let Some(kept_from) = compaction.take() {
                    // What is refused then is the request for a summary.
                    if record.body.is_usable_summary() {
                        let is_kept = |r: &Record| kept_from.as_ref() == Some(&r.id);
                        let kept = records.iter().take(at).position(is_kept);
                        open.retain(|prompt| kept.is_some_and(|kept| kept <= prompt.at));
                    }
                    continue;
                }
                let is_refused = *refused || *rejected;
                let is_empty = text.is_empty() && calls.is_empty();
                let failed = [FinishReason::Error, FinishReason::Interrupted].contains(finish);
                if !(is_refused || is_empty && failed) {
                    open.clear();
                    // A fallback model has answered what another one refused.
                    places.retain(|at| current != Some(*at));
                    current = None;
                    continue;
                }
                let Some(at) = current else { continue };
                let is_new = |p: &&mut OpenPrompt| p.at == at && p.doubt != Doubt::Refused;
                let Some(own) = open.iter_mut().find(is_new) else {
                    // A fallback model may refuse it too.
                    continue;
                };
                if is_refused {
                    suspect(&mut open, &mut places, at, *refused);
                } else if *finish == FinishReason::Error {
                    own.doubt = Doubt::Failed;
                }
            }
            _ => {}
        }
    }
    places
}

/// A prompt of a request that has not succeeded.
struct OpenPrompt {
    /// The place of its record.
    at: usize,
    doubt: Doubt,
}

/// What speaks against a prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Doubt {
    /// Its request failed for another reason.
    Failed,
    /// Its request was interrupted.
    Unanswered,
    /// A request with it was refused.
    Refused,
}

/// Moves prompts to those that are left out, after the request of the prompt at `current` was refused.
fn suspect(
    open: &mut Vec<OpenPrompt>,
    places: &mut BTreeSet<usize>,
    current: usize,
    is_clear: bool,
) {
    let has_refused = |p: &OpenPrompt| p.at != current && p.doubt == Doubt::Refused;
    let again = open.iter().any(has_refused);
    open.retain(|prompt| {
        let is_out = match prompt.at == current {
            true => is_clear && !again,
            false if again => prompt.doubt == Doubt::Refused,
            false => !is_clear && prompt.doubt == Doubt::Unanswered,
        };
        if is_out {
            places.insert(prompt.at);
        }
        !is_out
    });
    for prompt in open {
        prompt.doubt = Doubt::Refused;
    }
}

/// The conversation while it is being rebuilt.
#[derive(Default)]
struct ConversationBuilder {
    messages: Vec<ChatMessage>,
    /// Number of messages of the summary.
    pinned: usize,
    /// Id of each prompt's record and index of its message.
    prompts: Vec<(String, usize)>,
    /// A summary is the next answer; holds the id of the first prompt that stays.
    compaction: Option<Option<String>>,
    /// The calls of the last answer.
    open: Vec<OpenCall>,
    /// The user cancelled those calls.
    stopped: bool,
    /// The last answer was paused, and the next one continues it.
    paused: bool,
    /// The answers belong to a prompt that is left out.
    skips_answers: bool,
    ids: CallIds,
}

/// A call that has no result yet.
struct OpenCall {
    /// Its id in the records, which may be the same as that of an earlier call.
    recorded: String,
    id: String,
    name: String,
    result: Option<(String, Vec<ImageContent>)>,
}

impl ConversationBuilder {
    /// Puts a summary in place of everything before the prompt with this id.
    fn summarize(&mut self, text: &str, kept_from: Option<String>) {
        let kept = self
            .prompts
            .iter()
            .position(|(id, _)| kept_from.as_ref() == Some(id));
        let kept = kept.unwrap_or(self.prompts.len());
        let cut = self
            .prompts
            .get(kept)
            .map_or(self.messages.len(), |(_, at)| *at);
        let summary = [
            ChatMessage::user(render_summary(text)),
            ChatMessage::assistant(SUMMARY_REPLY),
        ];
        self.pinned = summary.len();
        self.messages.splice(..cut, summary);
        self.prompts.drain(..kept);
        for (_, at) in &mut self.prompts {
            *at = *at - cut + self.pinned;
        }
    }

    /// Gives each open call its result.
    fn end_round(&mut self) {
        let missing = if self.stopped { INTERRUPTED } else { NO_RESULT };
        for open in self.open.drain(..) {
            let (text, images) = open
                .result
                .unwrap_or_else(|| (missing.to_string(), Vec::new()));
            self.messages.push(ChatMessage::Tool(ToolResult {
                id: open.id,
                name: open.name,
                text,
                images,
            }));
        }
        self.stopped = false;
    }
}

/// The ids in use.
#[derive(Default)]
struct CallIds(HashSet<String>);

impl CallIds {
    /// Returns this id, or another one if it is in use. Providers that number the calls of each answer start again with
    /// every answer.
    fn unique_id(&mut self, id: &str) -> String {
        let mut made = id.to_string();
        let mut n = self.0.len();
        while made.is_empty() || !self.0.insert(made.clone()) {
            n += 1;
            made = format!("call_{n}");
        }
        made
    }
}

/// Returns the text for a call with this status. Never empty, which some providers reject.
fn result_text(status: CallStatus, text: &str) -> String {
    match status {
        _ if !text.is_empty() => text.to_string(),
        CallStatus::Success | CallStatus::ToolError => "[no output]".to_string(),
        CallStatus::Denied => "[no result: the user denied the call]".to_string(),
        CallStatus::Interrupted => INTERRUPTED.to_string(),
        _ => NO_RESULT.to_string(),
    }
}

/// Returns the message with which a summary is sent.
fn render_summary(text: &str) -> String {
    // The summary must not end its own quotation.
    let text = text.trim().replace("</summary", "<\\/summary");
    format!(
        "The earlier part of this conversation was replaced by this summary of it:\n<summary>\n{text}\n</summary>"
    )
}

fn shared_images(images: &[(String, Arc<str>)]) -> Vec<ImageContent> {
    images
        .iter()
        .map(|(mime, data)| ImageContent {
            mime: mime.clone(),
            data: Arc::clone(data),
        })
        .collect()
}

#[cfg(test)]
mod tests;
