//! The task of one turn, from the prompt to the end of its feed. It owns what it needs and knows no client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedMutexGuard, mpsc};

use super::call_context::{CallContext, ToolExposure};
use super::gate::{self, CallGate};
use super::model::{self, ChosenModel};
use super::rules_in_force::{self, RequestContext};
use super::turn_plan::TurnPlan;
use super::{
    Daemon, background_notice, outbound_redaction, tool_exposure, tool_history, turn_context,
};
use crate::chat::{ChatMessage, FinishReason, StreamItem, ToolCall, ToolDefinition};
use crate::context;
use crate::error::{Error, Result};
use crate::history::partial_answer::PartialAnswer;
use crate::history::record::{RecordBody, RecordIds};
use crate::mcp::ToolCatalog;
use crate::protocol::{AnswerSummary, RequestFailure, ShellId};
use crate::session::conversation::Session;
use crate::session::feed::{TurnEvent, TurnFeed};
use crate::turn::machine::{TurnEffect, TurnInput, TurnMachine, TurnSettings};

/// Parts of an answer that may wait for the turn; beyond it the provider waits.
const QUEUE: usize = 64;
/// Tokens of the context window that are reserved for the answer where the config has no limit.
const RESERVE: u32 = 1024;

/// Performs a prompt in a task of its own, to the end of its feed.
pub fn spawn(daemon: &Arc<Daemon>, feed: Arc<TurnFeed>, plan: TurnPlan) {
    let daemon_of_task = daemon.clone();
    daemon.tasks.spawn(async move {
        let daemon = daemon_of_task;
        let _running = daemon.count_turn();
        let session = plan.session.clone();
        // Held to the end of the feed, so that the next turn of the session finds this one finished.
        let mut turn_lock = None;
        let end = match &session {
            Some(session) => perform(&daemon, &feed, session, plan, &mut turn_lock).await,
            None => perform_command(&daemon, &feed, plan).await,
        };
        background_notice::turn_ended(&daemon, &feed, &end);
        feed.finish(end);
        if let Some(session) = &session {
            session.hub.clear();
        }
    });
}

fn failure(error: &Error) -> RequestFailure {
    RequestFailure::from(error)
}

fn nothing_configured() -> RequestFailure {
    RequestFailure {
        nothing_configured: true,
        ..failure(&model::nothing_found())
    }
}

/// Performs a prompt of a conversation.
async fn perform(
    daemon: &Daemon,
    feed: &Arc<TurnFeed>,
    session: &Session,
    plan: TurnPlan,
    turn_lock: &mut Option<OwnedMutexGuard<()>>,
) -> std::result::Result<AnswerSummary, RequestFailure> {
    *turn_lock = Some(
        wait_for_turn(feed, session)
            .await
            .map_err(|e| failure(&e))?,
    );
    session.hub.install(feed.clone());
    let chosen = model::choose(daemon, &plan.model, feed).await;
    let Some(chosen) = chosen.map_err(|e| failure(&e))? else {
        return Err(nothing_configured());
    };
    converse(daemon, feed, session, chosen, plan)
        .await
        .map_err(|e| failure(&e))
}

/// Waits for the session's turn, which another prompt may have.
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
        None => "waiting for another prompt of this conversation; Ctrl-C stops waiting".to_owned(),
    };
    feed.notice(line);
    feed.unless_cancelled(async { Ok(session.turn().lock_owned().await) })
        .await
}

/// Performs a prompt with its model.
async fn converse(
    daemon: &Daemon,
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
    // For the whole turn: a server that is connected while it runs would not be under the rules of the directory.
    let with_tools = !ask.no_tools && tool_exposure::any(daemon, &chosen);
    if with_tools {
        apply_rules(feed, &mut chosen, &ask.cwd).await?;
    }
    let catalog = tool_exposure::catalog(daemon, feed, session, &chosen, servers).await?;
    let read = turn_context::resources(daemon, feed, &ask.resources).await?;
    ask.attachments.extend(read);
    let (content, unseen) = turn_context::content(daemon, session, &chosen, &ask);
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
    // A prompt that cannot be recorded is answered all the same, but never silently.
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
        daemon,
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
    // The rules about commands are applied with each command; here the person is told what is wrong with them.
    if !commands.is_empty() && !ask.no_tools && !with_tools {
        apply_rules(feed, &mut chosen, &ask.cwd).await?;
    }
    if let (Some(shell), false) = (&ask.shell, commands.is_empty()) {
        daemon.sessions.offer(shell, &session.id, &links, commands);
    }
    Ok(answer)
}

/// Performs words to one command, outside of any conversation.
async fn perform_command(
    daemon: &Daemon,
    feed: &Arc<TurnFeed>,
    plan: TurnPlan,
) -> std::result::Result<AnswerSummary, RequestFailure> {
    let chosen = model::choose(daemon, &plan.model, feed).await;
    let Some(chosen) = chosen.map_err(|e| failure(&e))? else {
        return Err(nothing_configured());
    };
    let TurnPlan { ask, links, .. } = plan;
    let messages = [
        ChatMessage::System(turn_context::command_prompt()),
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
    let outside = Session::outside(daemon.acts.log());
    let user = RecordBody::User {
        text: ask.text.clone(),
        content: ask.text,
        shell: ask.shell.as_ref().map(ShellId::to_string),
        cwd: ask.cwd,
    };
    // The edit buffer is no place to say that nothing can be recorded.
    if let Err(e) = outside.record_written(&links, user).await {
        tracing::warn!("{}", e.message);
    }
    let mut run = TurnRun::new(daemon, &chosen, &outside, feed, setting, links, &request);
    run.request(&messages, &[]).await.map_err(|e| failure(&e))?;
    match run.answer {
        Some((answer, _)) => Ok(answer),
        None => Err(failure(&Error::runtime("the turn ended early"))),
    }
}

/// Adds the rules of the projects around a directory, and reports what is wrong with them.
async fn apply_rules(feed: &TurnFeed, chosen: &mut ChosenModel, cwd: &str) -> Result<()> {
    for text in rules_in_force::apply(&mut chosen.config, cwd).await? {
        feed.notice(text);
    }
    Ok(())
}

/// A turn that runs: the state machine, and what it takes to do what that says.
struct TurnRun<'a> {
    daemon: &'a Daemon,
    chosen: &'a ChosenModel,
    /// Where it is recorded.
    session: &'a Session,
    feed: &'a Arc<TurnFeed>,
    turn: TurnMachine,
    start: Instant,
    /// The end of the turn, and the commands it proposes.
    answer: Option<(AnswerSummary, Vec<String>)>,
    /// The tools that there are in this round, and how the model sees them.
    tools: (ToolCatalog, ToolExposure),
    /// What its records belong to.
    links: RecordIds,
    request: &'a RequestContext,
    /// What was shown of the answer that is coming, for the case that the daemon is killed.
    partial: PartialAnswer,
}

/// What comes next.
enum NextStep {
    /// More of the same.
    Go,
    /// These calls.
    Use(Vec<ToolCall>),
    /// Another request.
    Again,
    /// The turn is over.
    Done,
}

impl<'a> TurnRun<'a> {
    fn new(
        daemon: &'a Daemon,
        chosen: &'a ChosenModel,
        session: &'a Session,
        feed: &'a Arc<TurnFeed>,
        setting: TurnSettings,
        links: RecordIds,
        request: &'a RequestContext,
    ) -> TurnRun<'a> {
        TurnRun {
            daemon,
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

    /// Requests and calls in turn, until the turn is over.
    async fn rounds(&mut self, mut tools: Option<ToolCatalog>) -> Result<()> {
        let session = self.session;
        let reserve = self.chosen.endpoint.max_tokens.unwrap_or(RESERVE);
        let mut told = 0;
        let mut exposure = ToolExposure::Direct { reads_on: false };
        loop {
            let catalog = tools.clone().unwrap_or_default();
            exposure = tool_exposure::exposure(
                self.daemon,
                session,
                &self.chosen.config,
                &catalog,
                exposure,
            );
            self.tools = (catalog.clone(), exposure);
            let offered = tool_exposure::tools(&catalog, exposure);
            let split = matches!(exposure, ToolExposure::Split { .. });
            if split {
                tool_exposure::index(self.daemon, &catalog);
            }
            let system = turn_context::system_prompt(self.chosen, !offered.is_empty(), split);
            let talk = session.with_records(context::conversation);
            let window = self.chosen.window;
            let (messages, left_out) = context::fit(system, &talk, &offered, window, reserve);
            if left_out > told {
                told = left_out;
                let text = format!(
                    "the conversation is longer than the model's window: its first {left_out} answers are left out"
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
            // Tools come and go; a server that is starting is not waited for.
            if let Some(tools) = &mut tools {
                *tools = tool_history::catalog(self.daemon, Duration::ZERO).await;
                tool_exposure::without(self.feed, session, tools);
            }
        }
    }

    /// One request and its answer.
    async fn request(
        &mut self,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
    ) -> Result<NextStep> {
        self.links.turn = Some(uuid::Uuid::now_v7().to_string());
        let (dir, session) = (self.daemon.paths.partial_answers(), &self.session.id);
        let partial = PartialAnswer::create(&dir, session, &self.links, &self.chosen.name);
        std::mem::replace(&mut self.partial, partial).finish();
        let (sender, mut chunks) = mpsc::channel(QUEUE);
        let cancel = self.feed.cancel_token().clone();
        let request = stream(self.daemon, self.chosen, messages, tools, &cancel, sender);
        tokio::pin!(request);
        let mut ended = None;
        // Both ends must be seen: the request's, and that of the chunks it has sent before.
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
            daemon: self.daemon,
            session: self.session,
            config: &self.chosen.config,
            request: self.request,
            catalog,
            exposure: *exposure,
            feed: self.feed,
            links: self.links.clone(),
        }
    }

    /// The calls of one answer, in order.
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
            TurnEffect::Text(text) => self.show(&text),
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

    /// Shows text of the answer to every watcher.
    fn show(&mut self, text: &str) {
        self.partial.append(text);
        self.feed.push_text(text);
    }
}

async fn stream(
    daemon: &Daemon,
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
    let result = daemon
        .broker
        .stream(&chosen.endpoint, &messages, &tools, cancel, &sender)
        .await;
    if let Err(e) = &result {
        daemon.models.failed(chosen, e);
    }
    result
}
