//! The rounds of a turn: a request to the model, its answer and the tool calls in it, until an answer has no calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::call_context::{CallContext, ToolExposure};
use super::gate::{self, CallGate};
use super::request_cost::RequestCost;
use super::rules_in_force::RequestContext;
use super::tool_exposure::{self, SelectedTools};
use super::{background_notice, model_request, prompt_context, turn_settings};
use crate::chat::tokens::TokenScale;
use crate::chat::{ChatMessage, StreamItem, ToolCall, ToolDefinition};
use crate::context::{self, Conversation, FittedMessages, WindowLimit};
use crate::error::Result;
use crate::history::journal::new_record;
use crate::history::partial_answer::PartialAnswer;
use crate::history::record::{Record, RecordBody, RecordIds};
use crate::mcp::ToolCatalog;
use crate::protocol::AnswerSummary;
use crate::safety::budget::{RequestBound, SpendingPermit};
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::services::spending::{Reservation, ReserveError, Spending};
use crate::services::token_ratios::TokenCounter;
use crate::services::tool_history;
use crate::session::conversation::Session;
use crate::session::feed::{HangUpPolicy, TurnFeed};
use crate::turn::machine::{TurnEffect, TurnInput, TurnMachine, TurnSettings};

/// Capacity of the queue of answer chunks; when it is full, reading from the provider pauses.
const QUEUE: usize = 64;
/// Tokens of the context window reserved for the answer if the configuration sets no limit.
pub(super) const RESERVE: u32 = 1024;

/// A running turn: the state machine and the resources for performing its effects.
pub(super) struct TurnRun<'a> {
    services: &'a SharedServices,
    chosen: &'a ChosenModel,
    /// The session that records the turn.
    session: &'a Session,
    feed: &'a Arc<TurnFeed>,
    pub(super) turn: TurnMachine,
    start: Instant,
    /// The summary of the turn, and its proposed commands.
    pub(super) answer: Option<(AnswerSummary, Vec<String>)>,
    /// The tools of this round, and how they are exposed to the model.
    tools: (ToolCatalog, ToolExposure),
    /// The ids of the records.
    pub(super) record_ids: RecordIds,
    request: &'a RequestContext,
    /// The answer received so far, kept on disk in case the daemon is killed.
    partial: PartialAnswer,
    /// Completes when the prompt is in the session's file. Awaited before the first part of an answer is shown.
    pub(super) prompt_stored: Option<oneshot::Receiver<()>>,
    /// Whether a part of an answer was shown or acted on.
    pub(super) has_shown: bool,
}

/// The next step of the turn.
pub(super) enum NextStep {
    /// Continue with the next input.
    Go,
    /// Make these tool calls.
    Use(Vec<ToolCall>),
    /// Send another request.
    Again,
    /// The turn is over.
    Done,
}

impl<'a> TurnRun<'a> {
    pub(super) fn new(
        services: &'a SharedServices,
        chosen: &'a ChosenModel,
        session: &'a Session,
        feed: &'a Arc<TurnFeed>,
        setting: TurnSettings,
        record_ids: RecordIds,
        request: &'a RequestContext,
    ) -> TurnRun<'a> {
        TurnRun {
            services,
            chosen,
            session,
            feed,
            turn: TurnMachine::new(setting),
            start: Instant::now(),
            answer: None,
            tools: (
                ToolCatalog::default(),
                ToolExposure::Direct { reads_on: false },
            ),
            record_ids,
            request,
            partial: PartialAnswer::default(),
            prompt_stored: None,
            has_shown: false,
        }
    }

    /// Alternates requests and tool calls until the turn is over.
    pub(super) async fn rounds(
        &mut self,
        mut tools: Option<(ToolCatalog, SelectedTools)>,
    ) -> Result<()> {
        let session = self.session;
        // The offered tools stay the same within a prompt, for the provider's cache and its signatures. A call is checked against
        // the tools as they are at the time.
        let current =
            |tools: &Option<(ToolCatalog, _)>| tools.as_ref().map(|(catalog, _)| catalog.clone());
        let offered_tools = current(&tools).unwrap_or_default();
        let request = self.request;
        let exposure = tool_exposure::exposure(&self.chosen.config, &offered_tools, request);
        let split = matches!(exposure, ToolExposure::Split { .. });
        let offered = tool_exposure::tools(&offered_tools, exposure, request);
        loop {
            let catalog = current(&tools).unwrap_or_default();
            if split {
                tool_exposure::index(self.services, &catalog);
            }
            self.tools = (catalog, exposure);
            let talk = session.with_records(context::conversation);
            let before = session.dropped_prompts.load(Ordering::Relaxed);
            let fitted = self.fitted(talk, &offered, split);
            session
                .dropped_prompts
                .store(fitted.dropped, Ordering::Relaxed);
            if fitted.dropped > before {
                let oldest = match fitted.dropped {
                    1 => "the oldest answer was".to_owned(),
                    n => format!("the oldest {n} answers were"),
                };
                self.feed.notice(format!(
                    "the session exceeds the model's context window; {oldest} left out; llm :compact summarizes instead"
                ));
            }
            let estimate = fitted.estimate;
            let mut step = self.request(&fitted.messages, &offered, estimate).await?;
            if let NextStep::Use(calls) = step {
                step = self.calls(&calls).await?;
            }
            if matches!(step, NextStep::Done) {
                let answer = self.answer.as_ref();
                let completion = answer.and_then(|(answer, _)| answer.completion_tokens);
                let tokens = self.token_scale(!offered.is_empty()).tokens(estimate)
                    + completion.unwrap_or(0) as f64;
                turn_settings::offer_summary(self.feed, session, self.chosen.window, tokens);
                return Ok(());
            }
            // The tools may have changed; this does not wait for servers that are starting.
            if let Some((catalog, selected)) = &mut tools {
                *catalog = selected.of(tool_history::catalog(self.services, Duration::ZERO).await);
                tool_exposure::without(self.feed, session, catalog);
            }
        }
    }

    /// Returns the messages of a request: the instructions, and as much of the conversation as fits.
    fn fitted(
        &self,
        conversation: Conversation,
        offered: &[ToolDefinition],
        split: bool,
    ) -> FittedMessages {
        if self.chosen.is_aish_server {
            return model_request::for_server(conversation);
        }
        let system =
            prompt_context::system_prompt(self.chosen, self.request, !offered.is_empty(), split);
        let limit = WindowLimit {
            model: &self.chosen.endpoint.model,
            window: self.chosen.window,
            reserve: self.chosen.endpoint.max_tokens.unwrap_or(RESERVE),
            scale: self.token_scale(!offered.is_empty()),
            dropped: self.session.dropped_prompts.load(Ordering::Relaxed),
            pinned: conversation.pinned,
        };
        context::fit(system, conversation.messages, offered, limit)
    }

    /// Returns the URL and the body of the request that would be sent for a prompt with this record, and its estimated tokens.
    pub(super) async fn preview(
        &self,
        tools: Option<ToolCatalog>,
        user: RecordBody,
    ) -> Result<(String, Vec<u8>, u64)> {
        let catalog = tools.unwrap_or_default();
        let exposure = tool_exposure::exposure(&self.chosen.config, &catalog, self.request);
        let split = matches!(exposure, ToolExposure::Split { .. });
        let offered = tool_exposure::tools(&catalog, exposure, self.request);
        let mut records = self.session.with_records(<[Record]>::to_vec);
        records.push(new_record(self.record_ids.clone(), user));
        let fitted = self.fitted(context::conversation(&records), &offered, split);
        let scale = self.token_scale(!offered.is_empty());
        let tokens = scale.tokens(fitted.estimate) as u64;
        let session = self.session.id.clone();
        let permit = move |spending: &Spending, limits: &_, bound: RequestBound<'_>| {
            match spending.permit(limits, &session, bound) {
                // Nothing is sent, so that the request is shown all the same.
                Err(ReserveError::Refused(refusal)) => {
                    let permit = spending.permit(&[None; 4], &session, bound)?;
                    Ok((permit, Some(refusal)))
                }
                permit => Ok((permit?, None)),
            }
        };
        let cost = self.request_cost(tokens, !offered.is_empty());
        let (permit, refusal) = cost.ask(permit).await?;
        if let Some(refusal) = refusal {
            self.feed.notice(format!("it would not be sent: {refusal}"));
        }
        let request = (&*fitted.messages, &*offered);
        let (url, body) =
            model_request::preview(self.services, self.chosen, self.session, request, &permit)?;
        Ok((url, body, tokens))
    }

    /// The tokens that the model counts for the estimated ones of a request.
    fn token_scale(&self, has_tools: bool) -> TokenScale {
        let counter = self.token_counter();
        self.services.token_ratios.get(counter, has_tools)
    }

    fn token_counter(&self) -> TokenCounter<'_> {
        let endpoint = &self.chosen.endpoint;
        TokenCounter {
            base_url: &endpoint.base_url,
            model: &endpoint.model,
            session: &self.session.id,
        }
    }

    /// Reserves what a request can cost at most.
    async fn reserve(&self, tokens: u64, has_tools: bool) -> Result<Reservation> {
        let (session, spent) = (self.session.id.clone(), self.turn.spent());
        let reserve = move |spending: &Spending, limits: &_, bound: RequestBound<'_>| {
            spending.reserve(limits, &session, spent, bound)
        };
        self.request_cost(tokens, has_tools).ask(reserve).await
    }

    fn request_cost(&self, tokens: u64, has_tools: bool) -> RequestCost<'_> {
        RequestCost {
            services: self.services,
            chosen: self.chosen,
            session: self.session,
            tokens,
            has_tools,
        }
    }

    /// Sends one request, which has about `estimate` tokens before the model's scale, and processes its answer.
    pub(super) async fn request(
        &mut self,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
        estimate: f64,
    ) -> Result<NextStep> {
        let scale = self.token_scale(!tools.is_empty());
        let tokens = scale.tokens(estimate) as u64;
        let reservation = match self.reserve(tokens, !tools.is_empty()).await {
            Ok(reservation) => reservation,
            // Recorded like the failure of a request.
            Err(e) => {
                self.begin_round();
                return self.take(TurnInput::Ended(Err(e))).await;
            }
        };
        self.turn.begin_request(tokens);
        let spent = self.turn.spent();
        let step = self
            .exchange(messages, tools, estimate, &reservation.permit)
            .await;
        // The answer of another server is paid there.
        let spent = match self.chosen.is_aish_server {
            true => 0.0,
            false => self.turn.spent() - spent,
        };
        self.services.spending.settle(reservation, spent);
        step
    }

    fn begin_round(&mut self) {
        self.record_ids.turn = Some(uuid::Uuid::now_v7().to_string());
        self.feed.begin_round(self.record_ids.turn.as_deref());
    }

    async fn exchange(
        &mut self,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
        estimate: f64,
        permit: &SpendingPermit,
    ) -> Result<NextStep> {
        self.begin_round();
        let (dir, session) = (self.services.paths.partial_answers(), &self.session.id);
        let background = self.feed.origin.hang_up == HangUpPolicy::Continue;
        let (ids, model) = (&self.record_ids, &self.chosen.name);
        let partial = PartialAnswer::create(&dir, session, ids, model, background);
        std::mem::replace(&mut self.partial, partial).finish();
        let (sender, mut chunks) = mpsc::channel(QUEUE);
        let cancel = self.feed.cancel_token().clone();
        let request = model_request::send(
            self.services,
            self.chosen,
            self.session,
            (messages, tools),
            permit,
            &cancel,
            sender,
        );
        tokio::pin!(request);
        let mut ended = None;
        // The answer is complete when the request has ended and all its chunks were taken from the queue.
        loop {
            let input = tokio::select! {
                biased;
                chunk = chunks.recv() => match chunk {
                    Some(chunk) => TurnInput::Chunk(chunk),
                    None => match ended.take() {
                        Some(result) => TurnInput::Ended(result),
                        None => TurnInput::Ended(request.as_mut().await),
                    },
                },
                result = &mut request, if ended.is_none() => {
                    ended = Some(result);
                    continue;
                }
                () = self.feed.first_live_reader() => {
                    self.feed.push_settled(self.partial.settled());
                    continue;
                }
            };
            if let Some(stored) = self.prompt_stored.take() {
                // The sender always sends.
                let _ = stored.await;
            }
            if let TurnInput::Chunk(StreamItem::ServerSession(id)) = &input {
                let ids = &self.record_ids;
                let chosen = self.chosen;
                if let Err(e) = model_request::remember_session(self.session, ids, chosen, id) {
                    self.feed.notice(e.message);
                }
            }
            if let TurnInput::Chunk(StreamItem::Usage(usage)) = &input
                && !self.chosen.is_aish_server
            {
                let counter = self.token_counter();
                let ratios = &self.services.token_ratios;
                let (has_tools, read) = (!tools.is_empty(), usage.prompt_tokens);
                if ratios.learn(counter, has_tools, estimate, read)
                    && !self.session.cut_reported.swap(true, Ordering::Relaxed)
                {
                    let sent = estimate as u64;
                    self.feed.notice(format!(
                        "the server has read {read} of about {sent} tokens: its context window is probably smaller than the conversation (Ollama: OLLAMA_CONTEXT_LENGTH); set context_window of the model to that size"
                    ));
                }
            }
            let last = matches!(input, TurnInput::Ended(_));
            let step = self.take(input).await?;
            if last {
                return Ok(step);
            }
        }
    }

    fn context<'r>(&self, (catalog, exposure): &'r (ToolCatalog, ToolExposure)) -> CallContext<'r>
    where
        'a: 'r,
    {
        CallContext {
            services: self.services,
            session: self.session,
            config: &self.chosen.config,
            request: self.request,
            catalog,
            exposure: *exposure,
            takes_images: self.chosen.endpoint.images,
            feed: self.feed,
            record_ids: self.record_ids.clone(),
        }
    }

    /// Makes the tool calls of one answer, in order.
    async fn calls(&mut self, calls: &[ToolCall]) -> Result<NextStep> {
        let tools = self.tools.clone();
        let mut gate = CallGate::new(self.context(&tools), calls);
        let mut at = 0;
        let mut step = NextStep::Go;
        while at < calls.len() && matches!(step, NextStep::Go) {
            let used = gate.make(at).await;
            at += used.len();
            step = self.take(TurnInput::CallsEnded(used)).await?;
        }
        Ok(step)
    }

    /// Hands an input to the machine and performs its effects.
    async fn take(&mut self, input: TurnInput) -> Result<NextStep> {
        let elapsed = self.feed.working_ms(self.start.elapsed());
        // The model's text as received: the journal keeps proposed commands too, which are not shown as text.
        if let TurnInput::Chunk(StreamItem::Text(text)) = &input {
            self.partial.append(self.turn.kept(text));
            if self.feed.is_read_live() {
                self.feed.push_settled(self.partial.settled());
            }
        }
        let mut step = NextStep::Go;
        for effect in self.turn.handle(input, elapsed) {
            match self.perform(effect).await? {
                NextStep::Go => {}
                next => step = next,
            }
        }
        Ok(step)
    }

    /// Performs one effect.
    async fn perform(&mut self, effect: TurnEffect) -> Result<NextStep> {
        self.has_shown |= matches!(
            effect,
            TurnEffect::Text(_) | TurnEffect::Reasoning(_) | TurnEffect::Use(_)
        );
        match effect {
            TurnEffect::Text(text) => self.feed.push_text(&text),
            TurnEffect::Reasoning(text) => self.feed.push_reasoning(&text),
            TurnEffect::Event(event) => self.feed.push(event),
            TurnEffect::Record(mut body) => {
                gate::complete(self.context(&self.tools), &mut body);
                let (is_answer, has_calls) = match &*body {
                    RecordBody::Assistant { calls, .. } => (true, !calls.is_empty()),
                    _ => (false, false),
                };
                let recorded = self.session.record_written(&self.record_ids, *body);
                if is_answer {
                    // At once: from now on the record has the text.
                    self.feed.begin_round(None);
                }
                let recorded = recorded.await;
                let partial = std::mem::take(&mut self.partial);
                match recorded {
                    Ok(()) if is_answer && !has_calls => partial.finish(),
                    // The turn goes on: the next daemon finds it by this file.
                    Ok(()) => self.partial = partial,
                    Err(e) => {
                        tracing::warn!("{}", e.message);
                        if is_answer {
                            background_notice::not_recorded(self.services, self.feed);
                        }
                        self.feed.notice_once(e.message);
                    }
                }
            }
            TurnEffect::Use(calls) => return Ok(NextStep::Use(calls)),
            TurnEffect::Again => return Ok(NextStep::Again),
            TurnEffect::Reply(answer, commands) => {
                std::mem::take(&mut self.partial).finish();
                self.answer = Some((answer, commands));
                return Ok(NextStep::Done);
            }
            TurnEffect::Fail(e) => return Err(e),
        }
        Ok(NextStep::Go)
    }
}
