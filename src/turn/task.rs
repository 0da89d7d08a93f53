//! The task of one turn, from the prompt to the end of its feed. It is independent of the client's connection.

use std::sync::Arc;

use tokio::sync::{OwnedMutexGuard, oneshot};

use super::fallback::Fallbacks;
use super::feed_guard::FeedGuard;
use super::left_out::left_out_notice;
use super::plan::TurnPlan;
use super::prepared_prompt::{self, PreparedPrompt, PromptParts};
use super::rounds::TurnRun;
use super::rules_in_force::{self, RequestContext};
use super::tool_exposure::SelectedTools;
use super::{background_notice, compaction, prompt_context, tool_exposure, turn_settings};
use crate::chat::tokens::message_tokens;
use crate::chat::{CallStatus, ChatMessage, FinishReason};
use crate::error::{Error, Result};
use crate::history::journal::now_ms;
use crate::history::record::{Record, RecordBody};
use crate::mcp::ToolCatalog;
use crate::protocol::{AnswerSummary, AskPurpose, RequestFailure, ShellId, ShownCost};
use crate::safety::policy::RuleEffect;
use crate::services::model::{self, ChosenModel};
use crate::services::{AnsweredTurn, SharedServices};
use crate::session::conversation::{Session, SinceLastPrompt};
use crate::session::feed::{HangUpPolicy, TurnEvent, TurnFeed};
use crate::session::{lock, short_id};
use crate::tools::builtin::{OfferedWork, PYTHON, TERMINAL_OUTPUT};
use crate::turn::machine::TurnSettings;

/// Spawns the task of a prompt, which ends with the feed.
pub fn spawn(services: &Arc<SharedServices>, feed: Arc<TurnFeed>, plan: TurnPlan) {
    if let Some(id) = &plan.record_ids.prompt {
        feed.set_prompt_id(id);
    }
    let services_of_task = services.clone();
    let session = plan.session.clone();
    let turn_lock = session
        .as_ref()
        .and_then(|s| s.turn().try_lock_owned().ok());
    // Before the client gets its reply: a client that attaches right after it finds the turn.
    match (&session, &turn_lock) {
        (Some(session), Some(_)) => session.hub.install(feed.clone()),
        (Some(session), None) => session.hub.wait(feed.clone()),
        (None, _) => {}
    }
    // Before the task begins, so that one that never does ends the feed too.
    let guard = FeedGuard::new(feed, session);
    services.tasks.spawn(async move {
        let services = services_of_task;
        let _running = services.count_turn();
        // Held until the feed has ended, so that the next turn of the session finds this one finished.
        let mut turn_lock = turn_lock;
        // Declared after the lock, so that it is dropped first.
        let guard = guard;
        let feed = guard.feed();
        let end = match guard.session() {
            Some(session) => perform(&services, feed, session, plan, &mut turn_lock).await,
            None => perform_command(&services, feed, plan).await,
        };
        background_notice::turn_ended(&services, feed, &end);
        if let (Some(session), true) = (guard.session(), end.is_ok()) {
            let turn = AnsweredTurn {
                session: session.id.clone(),
                shell: feed.origin.shell.clone(),
            };
            // Work that is done after an answer is also done after the next one.
            let _ = services.answered.try_send(turn);
        }
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
        return Err(model::nothing_configured(&plan.model.config));
    };
    if plan.ask.purpose == AskPurpose::Compaction {
        only_prompts(&chosen).map_err(|e| failure(&e))?;
        let summary = compaction::perform(services, feed, session, &chosen, plan).await;
        return summary.map_err(|e| failure(&e));
    }
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
            let place = match (&origin.hang_up, &origin.tty) {
                (HangUpPolicy::Continue, _) => Some(" in the background".to_owned()),
                (HangUpPolicy::Cancel, tty) => tty.as_ref().map(|tty| format!(" in {tty}")),
            };
            format!(
                "waiting for the answer to “{}”{}",
                origin.words(),
                place.unwrap_or_default()
            )
        }
        None => "waiting for another prompt of this session".to_owned(),
    };
    feed.push(TurnEvent::Waiting(line));
    let lock = async {
        let mut lock = std::pin::pin!(session.turn().lock_owned());
        if let Some(running) = &running {
            tokio::select! {
                biased;
                guard = &mut lock => return Ok(guard),
                () = running.unattended_question() => feed.push(TurnEvent::Waiting(format!(
                    "“{}” waits for your answer: llm --attach {} shows it",
                    running.origin.words(),
                    short_id(&session.id)
                ))),
            }
        }
        Ok(lock.await)
    };
    let lock = feed.unless_cancelled(lock).await?;
    // A Ctrl-C may have arrived while the daemon was busy with the end of the other answer: the task that reads it runs first.
    tokio::task::yield_now().await;
    match feed.cancel_token().is_cancelled() {
        true => feed.unless_cancelled(std::future::pending()).await,
        false => Ok(lock),
    }
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
        ask,
        record_ids,
        servers,
        tools,
        pack,
        model: plan,
        ..
    } = plan;
    let (thinks, submitted) = (ask.think, ask.submitted);
    let prompt = PromptParts {
        ask,
        tools,
        pack,
        servers,
        prompt_id: record_ids.prompt.clone(),
    };
    if let Some(text) = &chosen.notice {
        feed.notice(text.clone());
    }
    prompt.fit(&mut chosen)?;
    feed.push(TurnEvent::Started {
        session: session.id.clone(),
        model: chosen.name.clone(),
    });
    let prompt = PreparedPrompt::new(services, feed, session, &mut chosen, prompt).await?;
    let PreparedPrompt {
        shell,
        user,
        mut tools,
        mut request,
        has_images,
        decides_output,
        again,
    } = prompt;
    if let Some(shell) = shell.as_ref().filter(|_| decides_output) {
        lock(&services.shells).decide_output(shell, now_ms());
    }
    if services.models.takes_no_tools(&chosen.endpoint) && only_builtin(&tools) {
        (tools, request.terminal, request.work) = (None, None, None);
    }
    if let Some((catalog, _)) = &tools {
        tool_exposure::without(feed, session, catalog);
    }
    // Queued before the request is sent, and written by the time the first text is shown: what a person has seen answered
    // survives a kill. A prompt that cannot be recorded is answered, with a notice.
    let written = session.record_written(&record_ids, user);
    let (stored, prompt_stored) = oneshot::channel();
    let recorded = async {
        if let Some(shell) = &shell {
            services.sessions.shell_file_written(shell).await;
        }
        if let Err(e) = written.await {
            background_notice::not_recorded(services, feed);
            feed.notice_once(e.message);
        }
        // Fails only if the request has failed before.
        let _ = stored.send(());
    };
    let with_tools = tools.is_some();
    let mut prompt_stored = Some(prompt_stored);
    let mut fallbacks = Fallbacks::new(&plan, &chosen, thinks, has_images);
    let rounds = async {
        loop {
            let mut setting = turn_settings::settings(session, &chosen);
            setting.code_helpers = request
                .work
                .as_deref()
                .map(code_helpers)
                .unwrap_or_default();
            let ids = record_ids.clone();
            let mut run = TurnRun::new(services, &chosen, session, feed, setting, ids, &request);
            run.prompt_stored = prompt_stored.take();
            let failure = match run.rounds(tools.clone()).await {
                Ok(()) => return Ok((run.answer, run.record_ids)),
                // The only tools are those of aish itself, which the user did not ask for.
                Err(e) if e.takes_no_tools && only_builtin(&tools) => {
                    services.models.set_takes_no_tools(&chosen.endpoint);
                    (tools, request.terminal, request.work) = (None, None, None);
                    continue;
                }
                Err(e) if !e.is_outage || run.has_shown => return Err(e),
                Err(e) => e,
            };
            chosen = fallbacks.next(services, feed, &chosen, failure).await?;
        }
    };
    let (finished, ()) = tokio::join!(rounds, recorded);
    if finished.as_ref().is_err_and(|e| e.refusal.is_some())
        && let Some(notice) = session.with_records(left_out_notice)
    {
        feed.notice(notice);
    }
    let (answer, record_ids) = finished?;
    let (mut answer, mut commands) =
        answer.ok_or_else(|| Error::runtime("the turn ended early"))?;
    if !chosen.is_aish_server {
        turn_settings::add_session_cost(services, session, &mut answer).await;
    } else if answer.cost.is_none() {
        // The other server pays.
        answer.show_cost = ShownCost::Nothing;
    }
    let background = feed.origin.hang_up == HangUpPolicy::Continue;
    let mut is_rerun = false;
    if let Some(again) = &again
        && commands.is_empty()
        && shell.is_some()
        && !background
        && answer.finish == FinishReason::Stop
        && again.is_untold
        && !has_read_output(session)
    {
        is_rerun = true;
        commands.push(again.command.clone());
        answer.proposals = commands.len();
    }
    // Rules about commands are applied to each command; this reports faults in them.
    if !commands.is_empty() && !with_tools {
        prepared_prompt::apply_rules(feed, &mut chosen, &request.cwd).await?;
    }
    // Without commands too: those of an earlier answer must not be offered below this one.
    if let Some(shell) = &shell {
        let again = again.map(|again| again.command);
        let asked_by = match (background, submitted) {
            // Its question comes later than the prompt that caused it.
            (true, _) => Some("the rule for background answers"),
            // No person has typed or accepted the prompt.
            (_, true) => Some("the rule for prompts submitted over HTTP"),
            _ => None,
        };
        let mut effect = rules_in_force::command_effect(&chosen.config, asked_by);
        // A question about a failed command is not a request to run it again, whatever the rules allow the model.
        if is_rerun && effect.0 == RuleEffect::Allow {
            effect = (RuleEffect::Ask, rules_in_force::DEFAULT_SOURCE.to_owned());
        }
        let sessions = &services.sessions;
        sessions.offer(shell, &session.id, &record_ids, commands, again, effect);
        if !background {
            sessions.show_waiting(shell, &session.id);
        }
    }
    Ok(answer)
}

/// Refuses requests that another aish server cannot serve: it answers prompts, with its own instructions.
fn only_prompts(chosen: &ChosenModel) -> Result<()> {
    match chosen.is_aish_server {
        true => {
            let message = format!(
                "{} is another aish server, which only answers prompts",
                chosen.name
            );
            Err(Error::usage(message).hint(
                "name a model for this with -m, or one for single commands in [jobs] command",
            ))
        }
        false => Ok(()),
    }
}

/// Returns the helpers that code in an answer may call.
fn code_helpers(work: &OfferedWork) -> Vec<String> {
    if !work.offered.iter().any(|tool| tool.name == PYTHON) {
        return Vec::new();
    }
    let functions = work.scope.helpers.catalog.functions();
    functions
        .iter()
        .map(|function| function.record.name.clone())
        .collect()
}

/// Whether the model has read the output of a command in this turn.
fn has_read_output(session: &Session) -> bool {
    let is_read = |record: &Record| {
        matches!(&record.body, RecordBody::Tool { name, status: CallStatus::Success, .. }
            if name.rsplit('.').next() == Some(TERMINAL_OUTPUT))
    };
    session.with_records(|records| SinceLastPrompt::of(records).all().any(is_read))
}

/// Whether no tools but built-in ones are offered.
fn only_builtin(tools: &Option<(ToolCatalog, SelectedTools)>) -> bool {
    let catalog = tools.as_ref().map(|(catalog, _)| catalog);
    catalog.is_some_and(|catalog| catalog.tools.is_empty())
}

/// Performs a prompt for a single command, outside of any session.
async fn perform_command(
    services: &SharedServices,
    feed: &Arc<TurnFeed>,
    plan: TurnPlan,
) -> std::result::Result<AnswerSummary, RequestFailure> {
    let chosen = model::choose(services, &plan.model, feed).await;
    let Some(chosen) = chosen.map_err(|e| failure(&e))? else {
        return Err(model::nothing_configured(&plan.model.config));
    };
    only_prompts(&chosen).map_err(|e| failure(&e))?;
    let TurnPlan {
        ask, record_ids, ..
    } = plan;
    let (instructions, content, notice) =
        prompt_context::single_command(services, &chosen, &ask).await;
    if let Some(line) = notice {
        feed.notice(line);
    }
    let messages = [
        ChatMessage::System(instructions),
        ChatMessage::user(content.clone()),
    ];
    let outside = Session::outside(services.audit_log.log());
    let setting = TurnSettings {
        depth: 0,
        ..turn_settings::settings(&outside, &chosen)
    };
    let request = RequestContext::from(&ask);
    let user = RecordBody::User {
        text: ask.text,
        content,
        shell: ask.shell.as_ref().map(ShellId::to_string),
        cwd: ask.cwd,
        images: Vec::new(),
        pack: None,
        output: None,
    };
    // The reply goes into the edit buffer, where a notice would be in the way.
    if let Err(e) = outside.record_written(&record_ids, user).await {
        tracing::warn!("{}", e.message);
    }
    let mut run = TurnRun::new(
        services, &chosen, &outside, feed, setting, record_ids, &request,
    );
    let estimate = messages.iter().map(message_tokens).sum();
    let step = run.request(&messages, &[], estimate).await;
    step.map_err(|e| failure(&e))?;
    match run.answer {
        Some((answer, _)) => Ok(answer),
        None => Err(failure(&Error::runtime("the turn ended early"))),
    }
}
