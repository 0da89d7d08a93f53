//! The task of one turn, from the prompt to the end of its feed. It is independent of the client's connection.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedMutexGuard, mpsc};

use super::call_context::{CallContext, ToolExposure};
use super::feed_guard::FeedGuard;
use super::gate::{self, CallGate};
use super::plan::TurnPlan;
use super::rules_in_force::{self, RequestContext};
use super::{background_notice, outbound_redaction, prompt_context, tool_exposure};
use crate::chat::{ChatMessage, FinishReason, StreamItem, ToolCall, ToolDefinition};
use crate::context;
use crate::error::{Error, Result};
use crate::history::partial_answer::PartialAnswer;
use crate::history::record::{RecordBody, RecordIds};
use crate::mcp::ToolCatalog;
use crate::protocol::{AnswerSummary, RequestFailure, ShellId};
use crate::services::SharedServices;
use crate::services::model::{self, ChosenModel};
use crate::services::tool_history;
use crate::session::conversation::Session;
use crate::session::feed::{TurnEvent, TurnFeed};
use crate::turn::machine::{TurnEffect, TurnInput, TurnMachine, TurnSettings};

/// Capacity of the queue of answer chunks; when it is full, reading from the provider pauses.
const QUEUE: usize = 64;
/// Tokens of the context window reserved for the answer if the configuration sets no limit.
const RESERVE: u32 = 1024;

/// Spawns the task of a prompt, which ends with the feed.
pub fn spawn(services: &Arc<SharedServices>, feed: Arc<TurnFeed>, plan: TurnPlan) {
    let services_of_task = services.clone();
    let session = plan.session.clone();
    let turn_lock = session
        .as_ref()
        .and_then(|s| s.turn().try_lock_owned().ok());
    // Before the client gets its reply: a client that attaches right after it finds the turn.
    if let (Some(session), Some(_)) = (&session, &turn_lock) {
        session.hub.install(feed.clone());
    }
    services.tasks.spawn(async move {
        let services = services_of_task;
        let _running = services.count_turn();
        // Held until the feed has ended, so that the next turn of the session finds this one finished.
        let mut turn_lock = turn_lock;
        // Declared after the lock, so that it is dropped first.
        let guard = FeedGuard::new(feed, session);
        let feed = guard.feed();
        let end = match guard.session() {
            Some(session) => perform(&services, feed, session, plan, &mut turn_lock).await,
            None => perform_command(&services, feed, plan).await,
        };
        background_notice::turn_ended(&services, feed, &end);
        guard.finish(end);
    });
}

fn failure(error: &Error) -> RequestFailure {
    RequestFailure::from(error)
}

/// Performs a prompt of a session.
async fn perform(
    services: &SharedServices,
    feed: &Arc<TurnFeed>,
    session: &Session,
    plan: TurnPlan,
    turn_lock: &mut Option<OwnedMutexGuard<()>>,
) -> std::result::Result<AnswerSummary, RequestFailure> {
    if turn_lock.is_none() {
        let lock = wait_for_turn(feed, session).await;
        *turn_lock = Some(lock.map_err(|e| failure(&e))?);
        session.hub.install(feed.clone());
    }
    let chosen = model::choose(services, &plan.model, feed).await;
    let Some(chosen) = chosen.map_err(|e| failure(&e))? else {
        return Err(model::nothing_configured());
    };
    converse(services, feed, session, chosen, plan)
        .await
        .map_err(|e| failure(&e))
}

/// Waits for the turn lock of the session, which another prompt may hold.
async fn wait_for_turn(feed: &TurnFeed, session: &Session) -> Result<OwnedMutexGuard<()>> {
    if let Ok(guard) = session.turn().try_lock_owned() {
        return Ok(guard);
    }
    let running = session.hub.running();
    let line = match running.as_ref().map(|running| &running.origin) {
        Some(origin) => {
            let place = origin.tty.as_ref().map(|tty| format!(" in {tty}"));
            format!(
                "waiting for the answer to “{}”{}; Ctrl-C stops waiting",
                origin.words(),
                place.unwrap_or_default()
            )
        }
        None => "waiting for another prompt of this session; Ctrl-C stops waiting".to_owned(),
    };
    feed.notice(line);
    let lock = async {
        let mut lock = std::pin::pin!(session.turn().lock_owned());
        if let Some(running) = &running {
            tokio::select! {
                biased;
                guard = &mut lock => return Ok(guard),
                () = running.unattended_question() => feed.notice(format!(
                    "“{}” waits for your answer: llm --attach {} shows it; Ctrl-C stops waiting",
                    running.origin.words(),
                    short_id(&session.id)
                )),
            }
        }
        Ok(lock.await)
    };
    feed.unless_cancelled(lock).await
}

/// Returns the end of a session id, which is how other messages name a session.
fn short_id(id: &str) -> &str {
    id.get(id.len().saturating_sub(8)..).unwrap_or(id)
}

/// Performs a prompt with its model.
async fn converse(
    services: &SharedServices,
    feed: &Arc<TurnFeed>,
    session: &Session,
    mut chosen: ChosenModel,
    plan: TurnPlan,
) -> Result<AnswerSummary> {
    let TurnPlan {
        mut ask,
        links,
        servers,
        ..
    } = plan;
    if let Some(text) = &chosen.notice {
        feed.notice(text.clone());
    }
    feed.push(TurnEvent::Started {
        session: session.id.clone(),
        model: chosen.name.clone(),
    });
    // Once for the whole turn, so that the directory's rules also apply to servers connected meanwhile.
    let with_tools = !ask.no_tools && tool_exposure::any(services, &chosen);
    if with_tools {
        apply_rules(feed, &mut chosen, &ask.cwd).await?;
    }
    let catalog = tool_exposure::catalog(services, feed, session, &chosen, servers).await?;
    let read = prompt_context::resources(services, feed, &ask.resources).await?;
    ask.attachments.extend(read);
    let (content, unseen) = prompt_context::content(services, session, &chosen, &ask);
    if let Some(text) = unseen {
        feed.notice(text);
    }
    let request = RequestContext::from(&ask);
    let user = RecordBody::User {
        text: ask.text,
        content,
        shell: ask.shell.as_ref().map(ShellId::to_string),
        cwd: ask.cwd.clone(),
    };
    // A prompt that cannot be recorded is answered, with a notice.
    if let Err(e) = session.record_written(&links, user).await {
        feed.notice(e.message);
    }
    let setting = TurnSettings {
        session: session.id.clone(),
        model_name: chosen.name.clone(),
        model: chosen.endpoint.model.clone(),
        price: chosen.price,
        depth: chosen.config.mcp.max_tool_depth,
    };
    let mut run = TurnRun::new(
        services,
        &chosen,
        session,
        feed,
        setting,
        links.clone(),
        &request,
    );
    run.rounds(with_tools.then_some(catalog)).await?;
    let TurnRun { answer, links, .. } = run;
    let (answer, commands) = answer.ok_or_else(|| Error::runtime("the turn ended early"))?;
    // Rules about commands are applied to each command; this reports faults in them.
    if !commands.is_empty() && !ask.no_tools && !with_tools {
        apply_rules(feed, &mut chosen, &ask.cwd).await?;
    }
    if let (Some(shell), false) = (&ask.shell, commands.is_empty()) {
        services
            .sessions
            .offer(shell, &session.id, &links, commands);
    }
    Ok(answer)
}

/// Performs a prompt for a single command, outside of any session.
async fn perform_command(
    services: &SharedServices,
    feed: &Arc<TurnFeed>,
    plan: TurnPlan,
) -> std::result::Result<AnswerSummary, RequestFailure> {
    let chosen = model::choose(services, &plan.model, feed).await;
    let Some(chosen) = chosen.map_err(|e| failure(&e))? else {
        return Err(model::nothing_configured());
    };
    let TurnPlan { ask, links, .. } = plan;
    let messages = [
        ChatMessage::System(prompt_context::command_prompt()),
        ChatMessage::User(ask.text.clone()),
    ];
    let setting = TurnSettings {
        session: String::new(),
        model_name: chosen.name.clone(),
        model: chosen.endpoint.model.clone(),
        price: chosen.price,
        depth: 0,
    };
    let request = RequestContext::from(&ask);
    let outside = Session::outside(services.audit_log.log());
    let user = RecordBody::User {
        text: ask.text.clone(),
        content: ask.text,
        shell: ask.shell.as_ref().map(ShellId::to_string),
        cwd: ask.cwd,
    };
    // The reply goes into the edit buffer, where a notice would be in the way.
    if let Err(e) = outside.record_written(&links, user).await {
        tracing::warn!("{}", e.message);
    }
    let mut run = TurnRun::new(services, &chosen, &outside, feed, setting, links, &request);
    run.request(&messages, &[]).await.map_err(|e| failure(&e))?;
    match run.answer {
        Some((answer, _)) => Ok(answer),
        None => Err(failure(&Error::runtime("the turn ended early"))),
    }
}

/// Adds the project rules of a directory, and reports faults in them.
async fn apply_rules(feed: &TurnFeed, chosen: &mut ChosenModel, cwd: &str) -> Result<()> {
    for text in rules_in_force::apply(&mut chosen.config, cwd).await? {
        feed.notice(text);
    }
    Ok(())
}

/// A running turn: the state machine and the resources for performing its effects.
struct TurnRun<'a> {
    services: &'a SharedServices,
    chosen: &'a ChosenModel,
    /// The session that records the turn.
    session: &'a Session,
    feed: &'a Arc<TurnFeed>,
    turn: TurnMachine,
    start: Instant,
    /// The summary of the turn, and its proposed commands.
    answer: Option<(AnswerSummary, Vec<String>)>,
    /// The tools of this round, and how they are exposed to the model.
    tools: (ToolCatalog, ToolExposure),
    /// The ids of the records.
    links: RecordIds,
    request: &'a RequestContext,
    /// The answer received so far, kept on disk in case the daemon is killed.
    partial: PartialAnswer,
}

/// The next step of the turn.
enum NextStep {
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
    fn new(
        services: &'a SharedServices,
        chosen: &'a ChosenModel,
        session: &'a Session,
        feed: &'a Arc<TurnFeed>,
        setting: TurnSettings,
        links: RecordIds,
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
            links,
            request,
            partial: PartialAnswer::default(),
        }
    }

    /// Alternates requests and tool calls until the turn is over.
    async fn rounds(&mut self, mut tools: Option<ToolCatalog>) -> Result<()> {
        let session = self.session;
        let reserve = self.chosen.endpoint.max_tokens.unwrap_or(RESERVE);
        let mut reported = 0;
        let mut exposure = ToolExposure::Direct { reads_on: false };
        loop {
            let catalog = tools.clone().unwrap_or_default();
            exposure = tool_exposure::exposure(
                self.services,
                session,
                &self.chosen.config,
                &catalog,
                exposure,
            );
            self.tools = (catalog.clone(), exposure);
            let offered = tool_exposure::tools(&catalog, exposure);
            let split = matches!(exposure, ToolExposure::Split { .. });
            if split {
                tool_exposure::index(self.services, &catalog);
            }
            let system = prompt_context::system_prompt(self.chosen, !offered.is_empty(), split);
            let talk = session.with_records(context::conversation);
            let window = self.chosen.window;
            let (messages, left_out) = context::fit(system, talk, &offered, window, reserve);
            if left_out > reported {
                reported = left_out;
                let text = format!(
                    "the session exceeds the model's context window; the oldest {left_out} answers were not sent"
                );
                self.feed.notice(text);
            }
            let mut step = self.request(&messages, &offered).await?;
            if let NextStep::Use(calls) = step {
                step = self.calls(&calls).await?;
            }
            if matches!(step, NextStep::Done) {
                return Ok(());
            }
            // The tools may have changed; this does not wait for servers that are starting.
            if let Some(tools) = &mut tools {
                *tools = tool_history::catalog(self.services, Duration::ZERO).await;
                tool_exposure::without(self.feed, session, tools);
            }
        }
    }

    /// Sends one request and processes its answer.
    async fn request(
        &mut self,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
    ) -> Result<NextStep> {
        self.links.turn = Some(uuid::Uuid::now_v7().to_string());
        let (dir, session) = (self.services.paths.partial_answers(), &self.session.id);
        let partial = PartialAnswer::create(&dir, session, &self.links, &self.chosen.name);
        std::mem::replace(&mut self.partial, partial).finish();
        let (sender, mut chunks) = mpsc::channel(QUEUE);
        let cancel = self.feed.cancel_token().clone();
        let request = stream(self.services, self.chosen, messages, tools, &cancel, sender);
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
            };
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
            feed: self.feed,
            links: self.links.clone(),
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
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        // The model's text as received: the journal keeps proposed commands too, which are not shown as text.
        if let TurnInput::Chunk(StreamItem::Text(text)) = &input {
            self.partial.append(text);
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
        match effect {
            TurnEffect::Text(text) => self.feed.push_text(&text),
            TurnEffect::Event(event) => self.feed.push(event),
            TurnEffect::Record(mut body) => {
                gate::complete(self.context(&self.tools), &mut body);
                let is_answer = matches!(*body, RecordBody::Assistant { .. });
                let recorded = self.session.record_written(&self.links, *body).await;
                let partial = std::mem::take(&mut self.partial);
                match recorded {
                    Ok(()) if is_answer => partial.finish(),
                    Ok(()) => self.partial = partial,
                    Err(e) => {
                        tracing::warn!("{}", e.message);
                        self.feed.notice(e.message);
                    }
                }
            }
            TurnEffect::Use(calls) => return Ok(NextStep::Use(calls)),
            TurnEffect::Again => return Ok(NextStep::Again),
            TurnEffect::Reply(answer, commands) => {
                self.answer = Some((answer, commands));
                return Ok(NextStep::Done);
            }
            TurnEffect::Fail(e) => return Err(e),
        }
        Ok(NextStep::Go)
    }
}

async fn stream(
    services: &SharedServices,
    chosen: &ChosenModel,
    messages: &[ChatMessage],
    tools: &[ToolDefinition],
    cancel: &tokio_util::sync::CancellationToken,
    sender: mpsc::Sender<StreamItem>,
) -> Result<FinishReason> {
    let (messages, tools) = (
        outbound_redaction::messages(messages),
        outbound_redaction::tools(tools),
    );
    let result = services
        .broker
        .stream(&chosen.endpoint, &messages, &tools, cancel, &sender)
        .await;
    if let Err(e) = &result {
        services.models.failed(chosen, e);
    }
    result
}
