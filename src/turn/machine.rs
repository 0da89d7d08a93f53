//! One turn as a pure state machine: what came from the model and its tools in, what is to be done
//! about it out. The driver does it.
//!
//! A turn has rounds: a request, its answer, the calls of tools that the answer makes. Every call gets
//! exactly one result, whatever becomes of it, and the results are recorded in the order of the calls.

use std::collections::VecDeque;

use crate::chat::{FinishReason, StreamItem, TokenUsage, ToolCall};
use crate::error::{Error, ErrorKind, Result};
use crate::history::record::{self, RecordBody};
use crate::protocol::AnswerSummary;
use crate::safety::policy;
use crate::session::feed::TurnEvent;

use super::command_extractor::{AnswerPiece, CommandExtractor};
use super::outcome::{CallEnd, CallOutcome, CallSummary};

/// What happened.
#[derive(Debug)]
pub enum TurnInput {
    /// A part of the answer came.
    Chunk(StreamItem),
    /// The request has ended, well or not; the person's Ctrl-C is [`Kind::Interrupted`].
    Ended(Result<FinishReason>),
    /// What became of some of the calls that were to be made.
    CallsEnded(Vec<CallOutcome>),
}

/// What is to be done, in this order.
#[derive(Debug)]
pub enum TurnEffect {
    /// Send text to the client.
    Text(String),
    /// Push an event to the feed.
    Event(TurnEvent),
    /// Write this to the journal, before anything that follows.
    Record(Box<RecordBody>),
    /// Make these calls, in order: their arguments are whole JSON objects in their one text. The
    /// outcomes are the next inputs.
    Use(Vec<ToolCall>),
    /// Ask the model again, with what is recorded by now.
    Again,
    /// The turn is over: offer these commands and send the reply.
    Reply(AnswerSummary, Vec<String>),
    /// The turn has failed: send the failure.
    Fail(Error),
}

/// What a turn is told at its start.
#[derive(Debug, Clone)]
pub struct TurnSettings {
    /// The session's id.
    pub session: String,
    /// The model's name in the config.
    pub model_name: String,
    /// The model's name at the provider.
    pub model: String,
    /// US dollars per million tokens in and out.
    pub price: Option<(f64, f64)>,
    /// How many rounds of calls it may take.
    pub depth: u32,
}

/// The state of a turn.
#[derive(Debug)]
pub struct TurnMachine {
    setting: TurnSettings,
    filter: CommandExtractor,
    /// The answer of this round.
    text: String,
    /// What was shown last is a line without an end.
    open_line: bool,
    /// Of all rounds.
    proposals: Vec<String>,
    calls: Vec<ToolCall>,
    /// The calls of this round that have no record yet.
    pending: VecDeque<PendingCall>,
    /// A call of this round got further than to fail.
    answered: bool,
    /// Of this round, and of all.
    usage: Option<TokenUsage>,
    total: Option<TokenUsage>,
    /// Rounds of calls so far.
    depth: u32,
    /// When this round began, in milliseconds since the turn did.
    began: u64,
}

/// A call on its way to its record.
#[derive(Debug)]
struct PendingCall {
    call: ToolCall,
    record: Option<RecordBody>,
}

impl TurnMachine {
    /// A turn whose request is about to be sent.
    pub fn new(setting: TurnSettings) -> TurnMachine {
        TurnMachine {
            setting,
            filter: CommandExtractor::default(),
            text: String::new(),
            open_line: false,
            proposals: Vec::new(),
            calls: Vec::new(),
            pending: VecDeque::new(),
            answered: false,
            usage: None,
            total: None,
            depth: 0,
            began: 0,
        }
    }

    /// Takes one input; `ms` is the time since the turn began.
    pub fn handle(&mut self, input: TurnInput, ms: u64) -> Vec<TurnEffect> {
        match input {
            TurnInput::Chunk(StreamItem::Text(text)) => {
                self.text.push_str(&text);
                let mut pieces = Vec::new();
                self.filter.push(&text, &mut |piece| pieces.push(piece));
                self.show(pieces)
            }
            TurnInput::Chunk(StreamItem::Call(call)) => {
                self.calls.push(call);
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
                AnswerPiece::Command(command) => {
                    self.open_line = false;
                    self.proposals.push(command.clone());
                    TurnEffect::Event(TurnEvent::Proposal(command))
                }
            });
        }
        effects
    }

    /// The request has ended, and the answer with it.
    fn end(&mut self, result: Result<FinishReason>, ms: u64) -> Vec<TurnEffect> {
        let mut pieces = Vec::new();
        let mut take = |piece| pieces.push(piece);
        // Only an answer that the model ended itself may offer its last line as a command.
        match &result {
            Ok(FinishReason::Stop) => self.filter.finish(&mut take),
            _ => self.filter.cut_off(&mut take),
        }
        let mut effects = self.show(pieces);
        let whole = matches!(result, Ok(FinishReason::Stop));
        let calls = std::mem::take(&mut self.calls);
        // An answer that broke off has made no calls: none of them would have a result.
        let calls = if result.is_ok() { calls } else { Vec::new() };
        let (finish, failure) = match result {
            Ok(finish) => (finish, None),
            Err(e) if e.kind == ErrorKind::Interrupted => (FinishReason::Interrupted, None),
            Err(e) => (FinishReason::Error, Some(e)),
        };
        let usage = self.usage.take();
        self.total = sum(self.total, usage);
        effects.push(TurnEffect::Record(Box::new(RecordBody::Assistant {
            text: std::mem::take(&mut self.text),
            calls: calls.iter().map(recorded).collect(),
            model: self.setting.model_name.clone(),
            finish: finish.as_str().to_string(),
            error: failure.as_ref().map(|e| e.message.clone()),
            prompt_tokens: usage.map(|u| u.prompt_tokens),
            completion_tokens: usage.map(|u| u.completion_tokens),
            ms: ms.saturating_sub(self.began),
        })));
        match failure {
            Some(e) => effects.push(TurnEffect::Fail(e)),
            None if calls.is_empty() => effects.push(self.reply(finish, ms)),
            None => self.call(calls, whole, finish, ms, &mut effects),
        }
        effects
    }

    /// The answer makes calls.
    fn call(
        &mut self,
        calls: Vec<ToolCall>,
        whole: bool,
        finish: FinishReason,
        ms: u64,
        effects: &mut Vec<TurnEffect>,
    ) {
        // What the tools say begins on a line of its own.
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
            // Nothing at all is an empty object, unless the answer was cut off there.
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
            effects.extend(self.ripe());
            effects.push(TurnEffect::Use(made));
        }
    }

    /// Calls have ended.
    fn used(&mut self, used: Vec<CallOutcome>, ms: u64) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        let mut stopped = false;
        for used in used {
            let waits = |p: &&mut PendingCall| p.record.is_none() && p.call.id == used.id;
            let Some(pending) = self.pending.iter_mut().find(waits) else {
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
            effects.extend(self.ripe());
            effects.push(self.reply(FinishReason::Interrupted, ms));
        } else {
            self.settle(ms, &mut effects);
        }
        effects
    }

    /// Records what can be, and goes on when every call of the round has its result.
    fn settle(&mut self, ms: u64, effects: &mut Vec<TurnEffect>) {
        effects.extend(self.ripe());
        if !self.pending.is_empty() {
            return;
        }
        if self.answered {
            self.filter = CommandExtractor::default();
            self.began = ms;
            effects.push(TurnEffect::Again);
        } else {
            effects.push(notice("no call has a result, so the answer ends here"));
            effects.push(self.reply(FinishReason::Stop, ms));
        }
    }

    /// The records that nothing earlier is missing in front of.
    fn ripe(&mut self) -> Vec<TurnEffect> {
        let mut effects = Vec::new();
        while let Some(record) = self.pending.front_mut().and_then(|p| p.record.take()) {
            self.pending.pop_front();
            effects.push(TurnEffect::Record(Box::new(record)));
        }
        effects
    }

    fn reply(&mut self, finish: FinishReason, ms: u64) -> TurnEffect {
        let proposals = std::mem::take(&mut self.proposals);
        let cost = self
            .total
            .zip(self.setting.price)
            .map(|(u, (input, output))| {
                (u.prompt_tokens as f64 * input + u.completion_tokens as f64 * output) / 1e6
            });
        let answer = AnswerSummary {
            session: self.setting.session.clone(),
            model: self.setting.model.clone(),
            finish,
            prompt_tokens: self.total.map(|u| u.prompt_tokens),
            completion_tokens: self.total.map(|u| u.completion_tokens),
            seconds: ms as f64 / 1000.0,
            cost,
            proposals: proposals.len(),
        };
        TurnEffect::Reply(answer, proposals)
    }
}

/// What is known here of a call that is not made.
fn unmade(call: &ToolCall) -> CallSummary {
    CallSummary {
        arguments: Some(call.arguments.clone()),
        ..CallSummary::default()
    }
}

fn recorded(call: &ToolCall) -> record::Call {
    record::Call {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        extra: call.extra.clone(),
    }
}

fn notice(text: impl Into<String>) -> TurnEffect {
    TurnEffect::Event(TurnEvent::Notice(text.into()))
}

fn sum(total: Option<TokenUsage>, usage: Option<TokenUsage>) -> Option<TokenUsage> {
    let (Some(a), Some(b)) = (total, usage) else {
        return total.or(usage);
    };
    Some(TokenUsage {
        prompt_tokens: a.prompt_tokens.saturating_add(b.prompt_tokens),
        completion_tokens: a.completion_tokens.saturating_add(b.completion_tokens),
    })
}

#[cfg(test)]
mod tests;
