//! One prompt from request to reply: the only room that sees broker, sessions and shells together.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::gate::{self, Exposure, Gate, Round};
use super::model::{self, Chosen};
use super::session::Session;
use super::turn::{Effect, Input, Setting, Turn};
use super::{Daemon, known, offer, policy, prompt, sent};
use crate::chat::{Chunk, Finish, Message, Tool, ToolCall};
use crate::context;
use crate::error::Result;
use crate::history::record::{Body, Links};
use crate::mcp::Catalog;
use crate::protocol::{Ask, Event, Failure, ShellId, kind};

/// Parts of an answer that may wait for a slow client; then the provider waits.
const QUEUE: usize = 64;
/// Tokens of the context window that are kept for the answer where the config says nothing.
const RESERVE: u32 = 1024;

/// Serves one prompt.
///
/// # Errors
/// What made the prompt fail, to be sent to the client.
pub async fn ask(daemon: &Daemon, connection: &mut Connection, mut ask: Ask) -> Result<()> {
    let _running = daemon.count_turn();
    let shell = ask.shell.clone();
    let shell = shell.as_ref();
    if ask.command {
        return command(daemon, connection, &ask).await;
    }
    let links = Links {
        shell: ask.shell.as_ref().map(ShellId::to_string),
        command: shell
            .zip(ask.started_ms)
            .map(|(shell, ms)| format!("{shell}@{ms}")),
        prompt: Some(uuid::Uuid::now_v7().to_string()),
        ..connection.links().clone()
    };
    let session = daemon.sessions.choose(&ask.session, shell, &links)?;
    let _turn = wait_for(connection, &session).await?;
    let wanted = ask.model.as_deref().map(str::to_string);
    let of_session = session.model();
    let chosen = model::choose(
        daemon,
        connection,
        wanted,
        of_session.as_deref(),
        &ask.overrides,
    )
    .await?;
    let Some(mut chosen) = chosen else {
        return nothing_configured(connection).await;
    };
    started(connection, &session, &chosen).await?;
    // For the whole turn: what is connected while it runs would not be under the rules of the directory.
    let with_tools = !ask.no_tools && offer::any(daemon, &chosen);
    if with_tools {
        under_rules(connection, &mut chosen, &ask.cwd).await?;
    }
    let catalog = offer::catalog(daemon, connection, &session, &chosen, &ask).await?;
    let read = prompt::resources(daemon, connection, &ask.resources).await?;
    ask.attachments.extend(read);
    let (content, unseen) = prompt::content(daemon, &session, &chosen, &ask);
    if let Some(text) = unseen {
        notice(connection, text).await?;
    }
    let asks = policy::Asks::from(&ask);
    let user = Body::User {
        text: ask.text,
        content,
        shell: ask.shell.as_ref().map(ShellId::to_string),
        cwd: ask.cwd.clone(),
    };
    // A prompt that cannot be recorded is answered all the same, but never silently.
    if let Err(e) = session.record(&links, user) {
        notice(connection, e.message).await?;
    }
    let setting = Setting {
        session: session.id.clone(),
        model_name: chosen.name.clone(),
        model: chosen.endpoint.model.clone(),
        price: chosen.price,
        depth: chosen.config.mcp.max_tool_depth,
    };
    let mut run = Run::new(daemon, &chosen, &session, setting, links.clone(), &asks);
    run.rounds(connection, &session, with_tools.then_some(catalog))
        .await?;
    let Run { offered, links, .. } = run;
    // The rules about commands are looked at with each; here it is told what is wrong with them.
    if !offered.commands.is_empty() && !ask.no_tools && !with_tools {
        under_rules(connection, &mut chosen, &ask.cwd).await?;
    }
    if let (Some(shell), false) = (shell, offered.commands.is_empty()) {
        daemon
            .sessions
            .offer(shell, &session.id, &links, offered.commands);
    }
    if let Some(reply) = offered.reply {
        connection.send(&reply).await?;
    }
    if chosen.config.history.sync {
        session.sync_later(&daemon.tasks);
    }
    Ok(())
}

/// What a finished turn leaves to be done.
#[derive(Debug, Default)]
struct Offered {
    commands: Vec<String>,
    reply: Option<Vec<u8>>,
}

/// Words to one command, outside of the conversation.
async fn command(daemon: &Daemon, connection: &mut Connection, ask: &Ask) -> Result<()> {
    let shell = ask.shell.as_ref();
    let of_session = match shell.and_then(|s| daemon.sessions.of_shell(s)) {
        // A session whose file was deleted has chosen no model.
        Some(id) => daemon.sessions.get(&id).ok().and_then(|s| s.model()),
        None => None,
    };
    let chosen = model::choose(
        daemon,
        connection,
        ask.model.clone(),
        of_session.as_deref(),
        &ask.overrides,
    )
    .await?;
    let Some(chosen) = chosen else {
        return nothing_configured(connection).await;
    };
    let messages = [
        Message::System(prompt::command_prompt()),
        Message::User(ask.text.clone()),
    ];
    let setting = Setting {
        session: String::new(),
        model_name: chosen.name.clone(),
        model: chosen.endpoint.model.clone(),
        price: chosen.price,
        depth: 0,
    };
    let links = Links {
        shell: ask.shell.as_ref().map(ShellId::to_string),
        prompt: Some(uuid::Uuid::now_v7().to_string()),
        ..connection.links().clone()
    };
    let asks = policy::Asks::from(ask);
    let outside = Session::outside(daemon.acts.log());
    let user = Body::User {
        text: ask.text.clone(),
        content: ask.text.clone(),
        shell: ask.shell.as_ref().map(ShellId::to_string),
        cwd: ask.cwd.clone(),
    };
    // The edit buffer is no place to say that nothing can be recorded.
    if let Err(e) = outside.record(&links, user) {
        tracing::warn!("{}", e.message);
    }
    let mut run = Run::new(daemon, &chosen, &outside, setting, links, &asks);
    run.request(connection, &messages, &[]).await?;
    match run.offered.reply {
        Some(reply) => connection.send(&reply).await,
        None => Ok(()),
    }
}

/// Waits for the session's turn, which another prompt of the same shell may have.
async fn wait_for(
    connection: &mut Connection,
    session: &Session,
) -> Result<tokio::sync::OwnedMutexGuard<()>> {
    if let Ok(guard) = session.turn().try_lock_owned() {
        return Ok(guard);
    }
    notice(
        connection,
        "waiting for the other llm of this conversation".to_string(),
    )
    .await?;
    connection
        .unless_cancelled(async { Ok(session.turn().lock_owned().await) })
        .await
}

async fn nothing_configured(connection: &mut Connection) -> Result<()> {
    let failure = Failure {
        nothing_configured: true,
        ..Failure::from(&model::nothing_found())
    };
    connection.send_json(kind::FAILURE, &failure).await
}

async fn started(connection: &mut Connection, session: &Session, chosen: &Chosen) -> Result<()> {
    if let Some(text) = &chosen.notice {
        notice(connection, text.clone()).await?;
    }
    let event = Event::TurnStarted {
        session: session.id.clone(),
        model: chosen.name.clone(),
    };
    connection.send_json(kind::EVENT, &event).await
}

/// Adds the rules of the projects around a directory, and tells what is wrong with them.
async fn under_rules(connection: &mut Connection, chosen: &mut Chosen, cwd: &str) -> Result<()> {
    for text in policy::in_force(&mut chosen.config, cwd).await? {
        notice(connection, text).await?;
    }
    Ok(())
}

/// Tells the person something.
///
/// # Errors
/// The client has gone.
pub async fn notice(connection: &mut Connection, text: String) -> Result<()> {
    connection
        .send_json(kind::EVENT, &Event::Notice { text })
        .await
}

/// A turn that runs: the state machine, and what it takes to do what that says.
struct Run<'a> {
    daemon: &'a Daemon,
    chosen: &'a Chosen,
    /// Where it is recorded.
    session: &'a Session,
    turn: Turn,
    start: Instant,
    /// Ends it: the person's Ctrl-C, a client that is gone, the daemon's end.
    cancel: CancellationToken,
    offered: Offered,
    /// The tools that there are in this round, and how the model sees them.
    tools: (Catalog, Exposure),
    /// What its records belong to.
    links: Links,
    asks: &'a policy::Asks,
}

/// What comes next.
enum Step {
    /// More of the same.
    Go,
    /// These calls.
    Use(Vec<ToolCall>),
    /// Another request.
    Again,
    /// The turn is over.
    Done,
}

impl<'a> Run<'a> {
    fn new(
        daemon: &'a Daemon,
        chosen: &'a Chosen,
        session: &'a Session,
        setting: Setting,
        links: Links,
        asks: &'a policy::Asks,
    ) -> Run<'a> {
        Run {
            daemon,
            chosen,
            session,
            turn: Turn::new(setting),
            start: Instant::now(),
            cancel: daemon.cancel.child_token(),
            offered: Offered::default(),
            tools: (Catalog::default(), Exposure::Direct { reads_on: false }),
            links,
            asks,
        }
    }

    /// Requests and calls in turn, until the turn is over.
    async fn rounds(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        mut tools: Option<Catalog>,
    ) -> Result<()> {
        let reserve = self.chosen.endpoint.max_tokens.unwrap_or(RESERVE);
        let mut told = 0;
        let mut exposure = Exposure::Direct { reads_on: false };
        loop {
            let catalog = tools.clone().unwrap_or_default();
            exposure = offer::exposure(
                self.daemon,
                session,
                &self.chosen.config,
                &catalog,
                exposure,
            );
            self.tools = (catalog.clone(), exposure);
            let offered = offer::tools(&catalog, exposure);
            let split = matches!(exposure, Exposure::Split { .. });
            if split {
                offer::index(self.daemon, &catalog);
            }
            let system = prompt::system_prompt(self.chosen, !offered.is_empty(), split);
            let talk = session.with_records(context::conversation);
            let window = self.chosen.window;
            let (messages, left_out) = context::fit(system, &talk, &offered, window, reserve);
            if left_out > told {
                told = left_out;
                let text = format!(
                    "the conversation is longer than the model's window: its first {left_out} answers are left out"
                );
                notice(connection, text).await?;
            }
            let mut step = self.request(connection, &messages, &offered).await?;
            if let Step::Use(calls) = step {
                step = self.calls(connection, session, &calls).await?;
            }
            if matches!(step, Step::Done) {
                return Ok(());
            }
            // Tools come and go; a server that is starting is not waited for.
            if let Some(tools) = &mut tools {
                *tools = known::catalog(self.daemon, Duration::ZERO).await;
                offer::without(connection, session, tools).await?;
            }
        }
    }

    /// One request and its answer.
    async fn request(
        &mut self,
        connection: &mut Connection,
        messages: &[Message],
        tools: &[Tool],
    ) -> Result<Step> {
        self.links.turn = Some(uuid::Uuid::now_v7().to_string());
        let (sender, mut chunks) = mpsc::channel(QUEUE);
        let cancel = self.cancel.clone();
        let request = stream(self.daemon, self.chosen, messages, tools, &cancel, sender);
        tokio::pin!(request);
        let mut ended = None;
        // Both ends must be seen: the request's, and that of the chunks it has sent before.
        loop {
            let input = tokio::select! {
                biased;
                chunk = chunks.recv() => match chunk {
                    Some(chunk) => Input::Chunk(chunk),
                    None => match ended.take() {
                        Some(result) => Input::Ended(result),
                        None => Input::Ended(request.as_mut().await),
                    },
                },
                result = &mut request, if ended.is_none() => {
                    ended = Some(result);
                    continue;
                }
                frame = connection.read(), if !cancel.is_cancelled() => {
                    // A word on a question that has lapsed changes nothing.
                    if matches!(frame, Ok(Some((kind::REACTION, _)))) {
                        continue;
                    }
                    // CANCEL, or the client is gone: both end the turn, and close the upstream connection.
                    tracing::debug!(gone = !matches!(frame, Ok(Some(_))), "interrupted");
                    cancel.cancel();
                    continue;
                }
            };
            let last = matches!(input, Input::Ended(_));
            let step = self.take(connection, input).await?;
            if last {
                return Ok(step);
            }
        }
    }

    fn round<'r>(
        &self,
        session: &'r Session,
        (catalog, exposure): &'r (Catalog, Exposure),
        cancel: &'r CancellationToken,
    ) -> Round<'r>
    where
        'a: 'r,
    {
        Round {
            daemon: self.daemon,
            session,
            config: &self.chosen.config,
            asks: self.asks,
            catalog,
            exposure: *exposure,
            cancel,
            links: self.links.clone(),
        }
    }

    /// The calls of one answer, in order.
    async fn calls(
        &mut self,
        connection: &mut Connection,
        session: &Session,
        calls: &[ToolCall],
    ) -> Result<Step> {
        let (cancel, tools) = (self.cancel.clone(), self.tools.clone());
        let mut gate = Gate::new(self.round(session, &tools, &cancel), calls);
        let mut at = 0;
        let mut step = Step::Go;
        while at < calls.len() && matches!(step, Step::Go) {
            let used = gate.make(connection, at).await;
            at += used.len();
            step = self.take(connection, Input::Used(used)).await?;
        }
        Ok(step)
    }

    /// Hands an input to the turn and does what that says.
    async fn take(&mut self, connection: &mut Connection, input: Input) -> Result<Step> {
        let elapsed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut step = Step::Go;
        for effect in self.turn.handle(input, elapsed) {
            match self.perform(connection, effect).await? {
                Step::Go => {}
                next => step = next,
            }
        }
        Ok(step)
    }

    /// Does one thing. A client that is gone cancels the turn, whose end is still recorded.
    async fn perform(&mut self, connection: &mut Connection, effect: Effect) -> Result<Step> {
        let sent = match effect {
            Effect::Text(text) => connection.send(&crate::protocol::text_frame(&text)?).await,
            Effect::Event(event) => connection.send_json(kind::EVENT, &event).await,
            Effect::Record(mut body) => {
                gate::complete(
                    self.round(self.session, &self.tools, &self.cancel),
                    &mut body,
                );
                if let Err(e) = self.session.record(&self.links, *body) {
                    tracing::warn!("{}", e.message);
                    let _ = notice(connection, e.message).await;
                }
                Ok(())
            }
            Effect::Use(calls) => return Ok(Step::Use(calls)),
            Effect::Again => return Ok(Step::Again),
            Effect::Reply(answer, commands) => {
                self.offered.commands = commands;
                // Sent by the caller, when the commands can be asked for.
                self.offered.reply = Some(crate::protocol::json_frame(kind::REPLY, &answer)?);
                return Ok(Step::Done);
            }
            Effect::Fail(e) => return Err(e),
        };
        if sent.is_err() {
            self.cancel.cancel();
        }
        Ok(Step::Go)
    }
}

async fn stream(
    daemon: &Daemon,
    chosen: &Chosen,
    messages: &[Message],
    tools: &[Tool],
    cancel: &CancellationToken,
    sender: mpsc::Sender<Chunk>,
) -> Result<Finish> {
    let (messages, tools) = (sent::messages(messages), sent::tools(tools));
    let result = daemon
        .broker
        .stream(&chosen.endpoint, &messages, &tools, cancel, &sender)
        .await;
    if let Err(e) = &result {
        daemon.models.failed(chosen, e);
    }
    result
}
