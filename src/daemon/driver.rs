//! One prompt from request to reply: the only room that sees broker, sessions and shells together.

use std::time::Instant;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::model::{self, Chosen};
use super::session::{Session, lock, since_last_prompt};
use super::turn::{Effect, Input, Setting, Turn};
use super::{Daemon, events};
use crate::chat::{Chunk, Finish, Message};
use crate::context::{self, CommandFact, ExecFact, Facts};
use crate::error::{Context, Error, Result};
use crate::history::record::Body;
use crate::protocol::{Ask, Event, Failure, kind};

/// Parts of an answer that may wait for a slow client; then the provider waits.
const QUEUE: usize = 64;
/// Tokens of the context window that are kept for the answer where the config says nothing.
const RESERVE: u32 = 1024;

/// Serves one prompt.
///
/// # Errors
/// What made the prompt fail, to be sent to the client.
pub async fn ask(daemon: &Daemon, connection: &mut Connection, ask: Ask) -> Result<()> {
    let _running = daemon.count_turn();
    let shell = ask.shell.as_deref();
    if shell.is_some_and(|s| !events::is_shell_id(s)) {
        return Err(Error::usage(
            "--shell takes letters, digits and hyphens, at most 64",
        ));
    }
    if ask.command {
        return command(daemon, connection, &ask).await;
    }
    let session = daemon.sessions.choose(&ask.session, shell)?;
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
    let Some(chosen) = chosen else {
        return nothing_configured(connection).await;
    };
    started(connection, &session, &chosen).await?;

    let (content, unseen) = content(daemon, &session, &chosen, &ask);
    if let Some(text) = unseen {
        notice(connection, text).await?;
    }
    let user = Body::User {
        text: ask.text,
        content,
        shell: ask.shell.clone(),
        cwd: ask.cwd,
    };
    // A prompt that cannot be recorded is answered all the same, but never silently.
    if let Err(e) = session.record(user) {
        notice(connection, e.message).await?;
    }
    let talk = session.with_records(context::conversation);
    let system = system_prompt(&chosen, context::SYSTEM_PROMPT);
    let reserve = chosen.endpoint.max_tokens.unwrap_or(RESERVE);
    let (messages, left_out) = context::fit(system, &talk, &[], chosen.window, reserve);
    if left_out > 0 {
        let text = format!(
            "the conversation is longer than the model's window: its first {left_out} answers are left out"
        );
        notice(connection, text).await?;
    }
    let setting = Setting {
        session: session.id.clone(),
        model_name: chosen.name.clone(),
        model: chosen.endpoint.model.clone(),
        price: chosen.price,
    };
    let turn = Turn::new(setting);
    let offered = run(daemon, connection, &chosen, &messages, turn, Some(&session)).await?;
    if let (Some(shell), false) = (shell, offered.is_empty()) {
        daemon.sessions.offer(shell, &session.id, offered.commands);
    }
    if let Some(reply) = offered.reply {
        connection.send(&reply).await?;
    }
    if chosen.config.history.sync {
        sync_later(daemon, &session);
    }
    Ok(())
}

/// What a finished turn leaves to be done.
#[derive(Debug, Default)]
struct Offered {
    commands: Vec<String>,
    reply: Option<Vec<u8>>,
}

impl Offered {
    fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }
}

/// Words to one command, outside of the conversation and its history.
async fn command(daemon: &Daemon, connection: &mut Connection, ask: &Ask) -> Result<()> {
    let shell = ask.shell.as_deref();
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
        Message::System(format!("{}\n{}", context::COMMAND_PROMPT, system_facts())),
        Message::User(ask.text.clone()),
    ];
    let turn = Turn::new(Setting {
        session: String::new(),
        model_name: chosen.name.clone(),
        model: chosen.endpoint.model.clone(),
        price: chosen.price,
    });
    let offered = run(daemon, connection, &chosen, &messages, turn, None).await?;
    match offered.reply {
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
    let event = Event::Started {
        session: session.id.clone(),
        model: chosen.name.clone(),
    };
    connection.send_json(kind::EVENT, &event).await
}

async fn notice(connection: &mut Connection, text: String) -> Result<()> {
    connection
        .send_json(kind::EVENT, &Event::Notice { text })
        .await
}

/// The prompt with all that goes along with it, and what to say where there is nothing to look at.
/// A command is told once, so that is said once.
fn content(
    daemon: &Daemon,
    session: &Session,
    chosen: &Chosen,
    ask: &Ask,
) -> (String, Option<String>) {
    let commands = match &ask.shell {
        Some(shell) => {
            let told = session.told_ms(shell);
            lock(&daemon.shells).since(shell, told, chosen.config.context.commands)
        }
        None => Vec::new(),
    };
    // The plugin records more than a model needs to know.
    let names = &chosen.config.context.env;
    let wanted = |var: &&String| {
        var.split_once('=')
            .is_some_and(|(name, _)| names.iter().any(|n| n == name))
    };
    let env: Vec<String> = match commands.last() {
        Some(Body::Command { env, .. }) => env.iter().filter(wanted).cloned().collect(),
        _ => Vec::new(),
    };
    session.with_records(|records| {
        let facts = Facts {
            cwd: &ask.cwd,
            commands: commands
                .iter()
                .filter_map(|body| match body {
                    Body::Command {
                        command,
                        cwd,
                        exit,
                        duration_ms,
                        ..
                    } => Some(CommandFact {
                        command,
                        cwd,
                        exit: *exit,
                        duration_ms: *duration_ms,
                    }),
                    _ => None,
                })
                .collect(),
            env: &env,
            execs: since_last_prompt(records)
                .iter()
                .filter_map(|r| exec_fact(&r.body))
                .collect(),
            attachments: ask
                .attachments
                .iter()
                .map(|a| (a.name.as_str(), a.text.as_str()))
                .collect(),
        };
        (context::content(&ask.text, &facts), context::unseen(&facts))
    })
}

fn exec_fact(body: &Body) -> Option<ExecFact<'_>> {
    match body {
        Body::Exec {
            command,
            exit,
            output,
            ..
        } => Some(ExecFact {
            command,
            exit: *exit,
            output: output.as_ref(),
        }),
        _ => None,
    }
}

fn system_prompt(chosen: &Chosen, ours: &str) -> String {
    match &chosen.config.system_prompt {
        Some(theirs) => theirs.clone(),
        None => format!("{ours}\n{}", system_facts()),
    }
}

fn system_facts() -> String {
    format!(
        "System: {} ({}).",
        std::env::consts::OS,
        std::env::consts::ARCH
    )
}

/// Lets the model answer and does what the turn says.
async fn run(
    daemon: &Daemon,
    connection: &mut Connection,
    chosen: &Chosen,
    messages: &[Message],
    mut turn: Turn,
    session: Option<&Session>,
) -> Result<Offered> {
    let start = Instant::now();
    let elapsed = move || u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    let cancel = daemon.cancel.child_token();
    let (sender, mut chunks) = mpsc::channel(QUEUE);
    let request = stream(daemon, chosen, messages, &cancel, sender);
    tokio::pin!(request);
    let mut offered = Offered::default();
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
                // CANCEL, or the client is gone: both end the turn, and close the upstream connection.
                tracing::debug!(gone = !matches!(frame, Ok(Some(_))), "interrupted");
                cancel.cancel();
                continue;
            }
        };
        let last = matches!(input, Input::Ended(_));
        for effect in turn.handle(input, elapsed()) {
            perform(connection, &cancel, effect, session, &mut offered).await?;
        }
        if last {
            return Ok(offered);
        }
    }
}

async fn stream(
    daemon: &Daemon,
    chosen: &Chosen,
    messages: &[Message],
    cancel: &CancellationToken,
    sender: mpsc::Sender<Chunk>,
) -> Result<Finish> {
    let result = daemon
        .broker
        .stream(&chosen.endpoint, messages, &[], cancel, &sender)
        .await;
    if let Err(e) = &result {
        daemon.models.failed(chosen, e);
    }
    result
}

/// Does one thing. A client that is gone cancels the turn, whose end is still recorded.
async fn perform(
    connection: &mut Connection,
    cancel: &CancellationToken,
    effect: Effect,
    session: Option<&Session>,
    offered: &mut Offered,
) -> Result<()> {
    let sent = match effect {
        Effect::Text(text) => connection.send(&crate::protocol::text_frame(&text)?).await,
        Effect::Event(event) => connection.send_json(kind::EVENT, &event).await,
        Effect::Record(body) => {
            if let Some(Err(e)) = session.map(|s| s.record(body)) {
                tracing::warn!("{}", e.message);
                let _ = notice(connection, e.message).await;
            }
            Ok(())
        }
        Effect::Reply(answer, commands) => {
            offered.commands = commands;
            // Sent by the caller, when the commands can be asked for.
            offered.reply = Some(crate::protocol::json_frame(kind::REPLY, &answer)?);
            Ok(())
        }
        Effect::Fail(e) => return Err(e),
    };
    if sent.is_err() {
        cancel.cancel();
    }
    Ok(())
}

/// Puts the turn on the disk, off the hot path: the client has its reply already.
fn sync_later(daemon: &Daemon, session: &Session) {
    if let Ok(log) = session.log_handle().context(|| "cannot sync".into()) {
        daemon.tasks.spawn_blocking(move || {
            if let Err(e) = log.sync() {
                tracing::warn!("{}", e.message);
            }
        });
    }
}
