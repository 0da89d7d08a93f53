//! One turn as a pure state machine: takes the items of the model's answer and the outcomes of tool calls, and returns
//! effects that the driver performs.
//!
//! A turn consists of rounds: a request, its answer, and the tool calls in the answer. Every call gets exactly one
//! result record, and the records are written in the order of the calls.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::chat::{FinishReason, NativeAnswer, StreamItem, TokenUsage, ToolCall};
use crate::error::{Error, ErrorKind, Refusal, Result};
use crate::history::record::RecordBody;
use crate::protocol::{AnswerSummary, ShownCost};
use crate::safety::budget::ModelPrice;
use crate::safety::command_extractor::{
    AnswerPiece, CommandExtractor, MAX_PROPOSAL_BYTES, MAX_PROPOSALS, ProposalLimit,
};
use crate::safety::redact::global_redactor;
use crate::safety::{policy, utf8};
use crate::session::feed::TurnEvent;

use super::code_blocks;
use super::cost::{self, TurnCost};
use super::outcome::{CallEnd, CallOutcome, CallSummary, recorded};

/// Maximum text of a turn that is shown and recorded, in bytes. The rest is counted.
pub const MAX_TEXT: usize = 4 << 20;
/// Maximum reasoning of a turn that is shown, in bytes.
const MAX_REASONING: usize = 1 << 20;

/// Maximum number of times that a paused answer is continued.
const MAX_CONTINUATIONS: u32 = 5;
const PAUSED_AGAIN: &str = "the provider paused the answer a sixth time; it ends here";

/// An input of the machine.
#[derive(Debug)]
pub enum TurnInput {
    /// An item of the answer's stream.
    Chunk(StreamItem),
    /// The request ended; Ctrl-C is [`ErrorKind::Interrupted`].
    Ended(Result<FinishReason>),
    /// Outcomes of the calls of [`TurnEffect::Use`], or of the part of them that was made together.
    CallsEnded(Vec<CallOutcome>),
}

/// An effect; the driver performs effects in order.
#[derive(Debug)]
pub enum TurnEffect {
    /// Send text to the client.
    Text(String),
    /// Send reasoning to the client.
    Reasoning(String),
    /// Push an event to the feed.
    Event(TurnEvent),
    /// Write a record to the journal before performing the next effect.
    Record(Box<RecordBody>),
    /// Make these calls in order. Their arguments are canonical JSON, and their outcomes are the next inputs.
    Use(Vec<ToolCall>),
    /// Send the next request, with everything recorded so far.
    Again,
    /// End the turn: offer these commands and send the reply.
    Reply(AnswerSummary, Vec<String>),
    /// End the turn with an error.
    Fail(Error),
}

/// Settings of a turn.
#[derive(Debug, Clone)]
pub struct TurnSettings {
    /// The session's id.
    pub session: String,
    /// The model's name in the config.
    pub model_name: String,
    /// The model's name at the provider.
    pub model: String,
    /// The model's price; `None` if it is unknown.
    pub price: Option<ModelPrice>,
    /// The host of the provider.
    pub provider: Option<String>,
    /// How the cost is shown.
    pub show_cost: ShownCost,
    /// Maximum number of rounds with calls.
    pub depth: u32,
    /// Helpers that code in an answer may call; empty where the tool `python` is not offered.
    pub code_helpers: Vec<String>,
}

/// The state of a turn.
#[derive(Debug)]
pub struct TurnMachine {
    setting: TurnSettings,
    filter: CommandExtractor,
    /// The answer text of this round.
    text: String,
    /// Length of the answer text of the previous rounds.
    earlier_text: usize,
    /// Bytes of this round's text beyond [`MAX_TEXT`].
    omitted: u64,
    /// Length of the reasoning of all rounds.
    reasoning: usize,
    /// Whether the text shown so far ends without a newline.
    open_line: bool,
    /// Proposed commands of all rounds.
    proposals: Vec<String>,
    limit: ProposalLimit,
    /// Number of commands of this round that are not proposed, because there are too many.
    unproposed: usize,
    calls: Vec<ToolCall>,
    /// Calls of this round whose record was not yet emitted.
    pending: VecDeque<PendingCall>,
    /// The answer of this round as the provider sent it.
    native: Option<Arc<NativeAnswer>>,
    /// Whether a call of this round has an outcome that the model can act on.
    answered: bool,
    /// Token usage of this round; `total` is that of the previous rounds.
    usage: Option<TokenUsage>,
    total: Option<TokenUsage>,
    /// The cost of the turn.
    cost: TurnCost,
    /// Number of rounds with calls so far.
    pub(super) depth: u32,
    /// Number of times that the answer was continued after a pause.
    continuations: u32,
    /// Start of this round, in milliseconds since the start of the turn.
    began: u64,
}

/// A call and, once it has ended, its record.
#[derive(Debug)]
struct PendingCall {
    call: ToolCall,
    record: Option<RecordBody>,
}

impl TurnMachine {
    /// Creates the machine for a turn before its first request.
    pub fn new(setting: TurnSettings) -> TurnMachine {
        TurnMachine {
            cost: TurnCost::new(setting.price.clone()),
            setting,
            filter: CommandExtractor::default(),
            text: String::new(),
            earlier_text: 0,
            omitted: 0,
            reasoning: 0,
            open_line: false,
            proposals: Vec::new(),
            limit: ProposalLimit::default(),
            unproposed: 0,
            calls: Vec::new(),
            pending: VecDeque::new(),
            native: None,
            answered: false,
            usage: None,
            total: None,
            depth: 0,
            continuations: 0,
            began: 0,
        }
    }

    /// Begins a round, whose request has about this many tokens.
    pub fn begin_request(&mut self, estimate: u64) {
        self.cost.begin_request(estimate);
    }

    /// Returns the cost of the turn so far, as far as it is known.
    pub fn spent(&self) -> f64 {
        self.cost.spent
    }

    /// Returns the part of the next text that is kept.
    pub fn kept<'t>(&self, text: &'t str) -> &'t str {
        let left = MAX_TEXT.saturating_sub(self.earlier_text + self.text.len());
        // After the first omission nothing is kept, so that the text has no hole.
        let left = if self.omitted > 0 { 0 } else { left };
        utf8::prefix(text, left)
    }

    /// Handles one input; `ms` is the time since the turn began.
    pub fn handle(&mut self, input: TurnInput, ms: u64) -> Vec<TurnEffect> {
        match input {
            TurnInput::Chunk(StreamItem::Text(text)) => {
                let kept = self.kept(&text);
                let omitted = (text.len() - kept.len()) as u64;
                let mut pieces = Vec::new();
                self.filter.push(kept, &mut |piece| pieces.push(piece));
                self.text.push_str(kept);
                self.omitted += omitted;
                self.show(pieces)
            }
            TurnInput::Chunk(StreamItem::Call(call)) => {
                self.calls.push(call);
                Vec::new()
            }
            TurnInput::Chunk(StreamItem::Native(native)) => {
                self.native = Some(native);
                Vec::new()
            }
            TurnInput::Chunk(StreamItem::Usage(usage)) => {
                self.usage = Some(usage);
                Vec::new()
            }
            TurnInput::Chunk(StreamItem::Model(model)) => {
                self.setting.model = model;
                Vec::new()
            }
            TurnInput::Chunk(StreamItem::Notice(text)) => vec![notice(text)],
            TurnInput::Chunk(StreamItem::Reasoning(text)) => {
                self.cost.add_reasoning(&text);
                let left = MAX_REASONING.saturating_sub(self.reasoning);
                let kept = utf8::prefix(&text, left);
                // Text that does not fit ends the shown text.
                self.reasoning = match kept.len() == text.len() {
                    true => self.reasoning + kept.len(),
                    false => MAX_REASONING,
                };
                match kept {
                    "" => Vec::new(),
                    kept => vec![TurnEffect::Reasoning(kept.to_owned())],
                }
            }
            TurnInput::Chunk(_) => Vec::new(),
            TurnInput::Ended(result) => self.end(result, ms),
            TurnInput::CallsEnded(used) => self.used(used, ms),
        }
    }

    fn show(&mut self, pieces: Vec<AnswerPiece>) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        for piece in pieces {
            effects.push(match piece {
                AnswerPiece::Text(text) => {
                    self.open_line = !text.ends_with('\n');
                    TurnEffect::Text(text)
                }
                AnswerPiece::Command { text, .. } if !self.limit.admits(&text) => {
                    self.unproposed += 1;
                    continue;
                }
                AnswerPiece::Command { text, .. } => {
                    self.open_line = false;
                    self.proposals.push(text.clone());
                    TurnEffect::Event(TurnEvent::Proposal(text))
                }
            });
        }
        effects
    }

    /// Returns the notices about what this round's limits left out.
    fn limit_notices(&mut self) -> Vec<TurnEffect> {
        let mut notices = Vec::new();
        if self.omitted > 0 {
            let whole = (self.earlier_text + self.text.len()) as u64 + self.omitted;
            notices.push(notice(format!(
                "the answer is {:.1} MiB long; only its first {} MiB are shown and recorded",
                whole as f64 / f64::from(1 << 20),
                MAX_TEXT >> 20
            )));
        }
        match std::mem::take(&mut self.unproposed) {
            0 => {}
            n => notices.push(notice(format!(
                "{n} more proposed commands are not offered: the limits are {MAX_PROPOSALS} commands and {} KiB for an answer",
                MAX_PROPOSAL_BYTES >> 10
            ))),
        }
        notices
    }

    /// Handles the end of the request: records the answer and starts its calls.
    fn end(&mut self, result: Result<FinishReason>, ms: u64) -> Vec<TurnEffect> {
        let is_paused = matches!(result, Ok(FinishReason::Paused)) && self.calls.is_empty();
        let goes_on = is_paused && self.continuations < MAX_CONTINUATIONS;
        let mut pieces = Vec::new();
        let mut take = |piece| pieces.push(piece);
        // The last line of an answer that was cut off may be incomplete, so it is not offered as a command.
        match &result {
            // The next part may continue the last line.
            _ if goes_on => {}
            Ok(FinishReason::Stop) if self.omitted == 0 => self.filter.finish(&mut take),
            _ => self.filter.cut_off(&mut take),
        }
        let mut effects = self.show(pieces);
        effects.extend(self.limit_notices());
        self.earlier_text += self.text.len();
        self.text.shrink_to_fit();
        let whole = matches!(result, Ok(FinishReason::Stop | FinishReason::Paused));
        let mut calls = std::mem::take(&mut self.calls);
        // An id is made by a provider, and is neither searched nor replaced later: requests refer to it.
        for call in &mut calls {
            if !global_redactor().find(&call.id).is_empty() {
                call.id = format!("call_{}", uuid::Uuid::now_v7().simple());
                self.native = None;
            }
        }
        // Calls of a failed answer are dropped, because none of them would get a result.
        let mut calls = if result.is_ok() { calls } else { Vec::new() };
        if calls.is_empty() && matches!(result, Ok(FinishReason::Stop)) && self.omitted == 0 {
            calls = code_blocks::calls(&self.text, &self.setting.code_helpers);
            // The answer as the provider sent it has no calls, which results would have to follow.
            self.native = self.native.take().filter(|_| calls.is_empty());
        }
        // Text that the redactor has held back may be the beginning of a secret, which the missing end would have shown.
        if (!whole || self.omitted > 0) && global_redactor().cut_unfinished(&mut self.text) {
            // The answer as the provider sent it has the same beginning.
            self.native = None;
        }
        let (finish, failure) = match result {
            Ok(finish) => (finish, None),
            Err(e) if e.kind == ErrorKind::Interrupted => (FinishReason::Interrupted, None),
            Err(e) => (FinishReason::Error, Some(e)),
        };
        // A prompt with a part of an answer or with tool calls is not left out.
        let is_first = self.depth == 0 && self.earlier_text == 0 && self.continuations == 0;
        let is = |part| is_first && failure.as_ref().is_some_and(|e| e.refusal == Some(part));
        let usage = self.usage.take();
        self.total = cost::sum_usage(self.total, usage);
        let (cost, cost_estimated) = self.cost.end_round(usage, finish, &self.text, &calls);
        effects.push(TurnEffect::Record(Box::new(RecordBody::Assistant {
            text: std::mem::take(&mut self.text),
            calls: calls.iter().map(recorded).collect(),
            native: self.native.take(),
            model: self.setting.model_name.clone(),
            finish,
            error: failure.as_ref().map(|e| e.message.clone()),
            omitted: std::mem::take(&mut self.omitted),
            prompt_tokens: usage.map(|u| u.prompt_tokens),
            completion_tokens: usage.map(|u| u.completion_tokens),
            cache_read_tokens: usage.map_or(0, |u| u.cache_read_tokens),
            cache_write_tokens: usage.map_or(0, |u| u.cache_write_tokens),
            reasoning_tokens: usage.map_or(0, |u| u.reasoning_tokens),
            provider: self.setting.provider.clone(),
            cost,
            cost_estimated,
            refused: is(Refusal::Prompt),
            rejected: is(Refusal::Request),
            ms: ms.saturating_sub(self.began),
        })));
        match failure {
            Some(e) => effects.push(TurnEffect::Fail(e)),
            None if goes_on => {
                (self.continuations, self.began) = (self.continuations + 1, ms);
                effects.push(TurnEffect::Again);
            }
            None if calls.is_empty() => {
                effects.extend(is_paused.then(|| notice(PAUSED_AGAIN)));
                effects.push(self.reply(finish, ms));
            }
            None => self.call(calls, whole, finish, ms, &mut effects),
        }
        effects
    }

    /// Starts the calls of an answer.
    fn call(
        &mut self,
        calls: Vec<ToolCall>,
        whole: bool,
        finish: FinishReason,
        ms: u64,
        effects: &mut Vec<TurnEffect>,
    ) {
        // Output about tools starts on its own line.
        if std::mem::take(&mut self.open_line) {
            effects.push(TurnEffect::Text("\n".to_string()));
        }
        self.depth += 1;
        self.answered = false;
        if self.depth > self.setting.depth {
            let record = |call: &ToolCall| {
                let record = CallEnd::TooDeep.record(call, 0, unmade(call));
                TurnEffect::Record(Box::new(record))
            };
            effects.extend(calls.iter().map(record));
            effects.push(notice("tool-call depth limit reached"));
            effects.push(self.reply(finish, ms));
            return;
        }
        let mut made = Vec::new();
        for mut call in calls {
            // Some models send nothing for an empty object. In an answer that was cut off, the arguments are missing.
            if whole && call.arguments.trim().is_empty() {
                call.arguments = "{}".to_string();
            }
            let record = match policy::canonical_arguments(&call.arguments) {
                Ok(arguments) => {
                    call.arguments = arguments;
                    made.push(call.clone());
                    None
                }
                Err(_) => {
                    self.answered = true;
                    effects.extend(CallEnd::NoObject.notice(&call.name).map(notice));
                    Some(CallEnd::NoObject.record(&call, 0, unmade(&call)))
                }
            };
            self.pending.push_back(PendingCall { call, record });
        }
        if made.is_empty() {
            self.settle(ms, effects);
        } else {
            effects.extend(self.ready_records());
            effects.push(TurnEffect::Use(made));
        }
    }

    /// Handles the outcomes of calls.
    fn used(&mut self, used: Vec<CallOutcome>, ms: u64) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        let mut stopped = false;
        for used in used {
            let is_pending = |p: &&mut PendingCall| p.record.is_none() && p.call.id == used.id;
            let Some(pending) = self.pending.iter_mut().find(is_pending) else {
                continue;
            };
            stopped |= matches!(used.outcome, CallEnd::Stopped | CallEnd::Interrupted);
            self.answered |= !matches!(used.outcome, CallEnd::Failed(_) | CallEnd::Unrecorded(_));
            let name = used.account.name.as_deref().unwrap_or(&pending.call.name);
            effects.extend(used.outcome.notice(name).map(notice));
            pending.record = Some(used.outcome.record(&pending.call, used.ms, used.account));
        }
        if stopped {
            for pending in &mut self.pending {
                let call = &pending.call;
                pending
                    .record
                    .get_or_insert_with(|| CallEnd::Interrupted.record(call, 0, unmade(call)));
            }
            effects.extend(self.ready_records());
            effects.push(self.reply(FinishReason::Interrupted, ms));
        } else {
            self.settle(ms, &mut effects);
        }
        effects
    }

    /// Emits the records that are ready, and continues the turn once every call of the round has its result.
    fn settle(&mut self, ms: u64, effects: &mut Vec<TurnEffect>) {
        effects.extend(self.ready_records());
        if !self.pending.is_empty() {
            return;
        }
        if self.answered {
            self.filter = CommandExtractor::default();
            self.began = ms;
            effects.push(TurnEffect::Again);
        } else {
            effects.push(notice("no tool call returned a result; the turn ends here"));
            effects.push(self.reply(FinishReason::Stop, ms));
        }
    }

    /// Emits the records up to the first call that has not ended.
    fn ready_records(&mut self) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        while let Some(record) = self.pending.front_mut().and_then(|p| p.record.take()) {
            self.pending.pop_front();
            effects.push(TurnEffect::Record(Box::new(record)));
        }
        effects
    }

    fn reply(&mut self, finish: FinishReason, ms: u64) -> TurnEffect {
        let total = self.total.unwrap_or_default();
        let answer = AnswerSummary {
            session: self.setting.session.clone(),
            model: self.setting.model.clone(),
            finish,
            prompt_tokens: self.total.map(|u| u.prompt_tokens),
            completion_tokens: self.total.map(|u| u.completion_tokens),
            cache_read_tokens: total.cache_read_tokens,
            cache_write_tokens: total.cache_write_tokens,
            reasoning_tokens: total.reasoning_tokens,
            seconds: ms as f64 / 1000.0,
            cost: self.cost.total,
            cost_estimated: self.cost.estimated,
            session_cost: None,
            session_cost_partial: false,
            show_cost: self.setting.show_cost,
            proposals: self.proposals.len(),
        };
        TurnEffect::Reply(answer, std::mem::take(&mut self.proposals))
    }
}

/// Returns the summary of a call that is not made.
fn unmade(call: &ToolCall) -> CallSummary {
    CallSummary {
        arguments: Some(call.arguments.clone()),
        ..CallSummary::default()
    }
}

fn notice(text: impl Into<String>) -> TurnEffect {
    TurnEffect::Event(TurnEvent::Notice(text.into()))
}

#[cfg(test)]
mod tests;
