//! Messages of a session: reading them, sending a prompt, cancelling its answer.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use tokio::sync::watch;

use super::sessions::detail_fields;
use crate::api::ApiState;
use crate::api::cursor::Cursor;
use crate::api::events::{is_summary, message_id};
use crate::api::extract::{InPath, JsonBody, Parameters};
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::proposals::proposals;
use crate::api::searched_text::MAX_TEXT;
use crate::api::types::{
    CancelFilter, MessageAccepted, MessageFilter, MessagePage, MessageView, NewMessage, PromptRole,
    Role, ToolCallView,
};
use crate::error::{Error, ErrorKind, Result};
use crate::history::journal::now_ms;
use crate::history::record::{Record, RecordBody, RecordIds};
use crate::protocol::{
    AskPurpose, AskRequest, OutputChoice, RequestFailure, SessionChoice, ShellId,
};
use crate::requests;
use crate::safety::redact::global_redactor;
use crate::safety::utf8;
use crate::services::client_handle::ClientHandle;
use crate::session::conversation::{Session, has_begun};
use crate::session::feed::{FeedOrigin, HangUpPolicy, THE_API, TurnFeed};
use crate::session::lock;
use crate::turn::{plan, task};

/// Messages on a page, unless the request says otherwise, and at most.
const PAGE: (usize, usize) = (50, 200);
/// Maximum length of a prompt, in characters.
const MAX_PROMPT: usize = 1_000_000;

/// Size of the texts and images of a page from which it has no further message, in bytes.
const PAGE_BYTES: usize = 1 << 20;

/// How long the reply to a prompt waits for the record that its turn makes.
const RECORDED_WITHIN: Duration = Duration::from_secs(1);

/// What to do about a prompt that cannot be recorded.
const NOT_WRITTEN: &str = "see whether the disk of the data directory is full, then send the prompt again; the daemon's log has the cause";

/// Maximum size of the body with a prompt, in bytes: JSON may escape each of its characters with twelve.
const MAX_BODY: usize = 12 << 20;

/// Lists the messages of a session, newest first.
///
/// A page ends early after 1 MiB of text; `next_before` says where the next page begins. A prompt whose turn has not begun has the
/// `detail.type` `waiting_prompt`.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/messages", operation_id = "list_messages", tag = "messages",
    params(("session_id" = String, Path, description = "Id of the session"), MessageFilter),
    responses(
        (status = 200, description = "The messages", body = MessagePage),
        (status = 400, description = "A parameter is not valid", body = ProblemDocument),
        (status = 404, description = "There is no such session", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
    Parameters(filter): Parameters<MessageFilter>,
) -> Answer<Json<MessagePage>> {
    let limit = super::within("limit", filter.limit, PAGE)?;
    super::at_most(filter.before, "before", 1_000_000_000)?;
    let session = super::session(&state, &id).await?;
    let (found, next_before, next_cursor) = session.with_records(|records| {
        let end = filter.before.unwrap_or(records.len()).min(records.len());
        let older = records[..end].iter().enumerate().rev();
        // A prompt whose turn has begun is listed once.
        let is_message = |(number, record): &(usize, &Record)| match record.body {
            RecordBody::WaitingPrompt { .. } => !has_begun(&records[*number..], message_id(record)),
            _ => role(record).is_some(),
        };
        let mut older = older.filter(is_message);
        let (mut found, mut bytes) = (Vec::new(), 0);
        while found.len() < limit
            && bytes < PAGE_BYTES
            && let Some((number, record)) = older.next()
        {
            bytes += size(record);
            found.push((number, record.clone(), is_summary(records, number)));
        }
        let last = found.last().map(|(number, ..)| *number);
        let next_before = last.filter(|_| older.next().is_some());
        let next_cursor = Cursor::after(records.len()).text_in(&id);
        (found, next_before, next_cursor)
    });
    drop(session);
    // On another thread: the search for secrets in long texts must not delay other requests.
    let work = tokio::task::spawn_blocking(move || {
        let messages = found.iter();
        messages
            .filter_map(|(number, record, is_summary)| message(*number, record, *is_summary))
            .collect()
    });
    let messages = work
        .await
        .map_err(|e| Error::runtime(format!("the messages cannot be read: {e}")))?;
    Ok(Json(MessagePage {
        messages,
        next_before,
        next_cursor,
    }))
}

/// Returns the size of the texts of a record, in bytes. Images are shared with its copies.
fn size(record: &Record) -> usize {
    match &record.body {
        RecordBody::User { text, content, .. } => text.len() + content.len(),
        RecordBody::WaitingPrompt { text } => text.len(),
        RecordBody::Assistant { text, calls, .. } => {
            let calls = calls.iter().map(|call| call.arguments.len());
            text.len() + calls.sum::<usize>()
        }
        RecordBody::Tool {
            text, arguments, ..
        } => text.len() + arguments.as_ref().map_or(0, String::len),
        _ => 0,
    }
}

fn role(record: &Record) -> Option<Role> {
    match &record.body {
        RecordBody::User { .. } | RecordBody::WaitingPrompt { .. } => Some(Role::User),
        RecordBody::Assistant { .. } => Some(Role::Assistant),
        RecordBody::Tool { .. } => Some(Role::Tool),
        RecordBody::CommandApproval { .. } | RecordBody::CommandResult { .. } => {
            Some(Role::Command)
        }
        _ => None,
    }
}

fn message(number: usize, record: &Record, is_summary: bool) -> Option<MessageView> {
    let role = role(record)?;
    let (text, calls) = match &record.body {
        RecordBody::User { text, .. } | RecordBody::WaitingPrompt { text } => (&**text, &[][..]),
        RecordBody::Assistant { text, calls, .. } => (&**text, &calls[..]),
        RecordBody::Tool { text, .. } => (&**text, &[][..]),
        _ => ("", &[][..]),
    };
    let redactor = global_redactor();
    let text = redactor.redact(text);
    let content = match role {
        Role::Tool => utf8::prefix(&text, MAX_TEXT),
        _ => &text,
    };
    let calls = calls.iter().map(|call| ToolCallView {
        id: call.id.clone(),
        name: redactor.redact(&call.name).into_owned(),
        arguments: redactor.redact_json(&call.arguments).into_owned(),
    });
    Some(MessageView {
        id: message_id(record).to_owned(),
        record_id: record.id.clone(),
        number,
        role,
        timestamp_ms: record.timestamp_ms,
        omitted: text.len() - content.len(),
        proposals: proposals(&record.body, content),
        content: content.to_owned(),
        tool_calls: calls.collect(),
        is_summary,
        detail: detail_fields(record),
    })
}

/// Sends a prompt.
///
/// Returns once the prompt is in the journal. The answer comes as events, with the `message_id` of the reply in `agent.status`. While
/// another prompt of the session is answered, the prompt waits. It works in the directory of the last prompt of the session, or in
/// the `cwd` that was set since. Questions about tool calls are asked at the terminal and in paired browsers.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/messages", operation_id = "send_message", tag = "messages", request_body = NewMessage,
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 202, description = "The prompt is accepted", body = MessageAccepted),
        (status = 403, description = "A prompt pack of the session was not approved", body = ProblemDocument),
        (status = 404, description = "There is no such session", body = ProblemDocument),
        (status = 409, description = "There is no such agent, model or selection of tools, or the configuration is not valid", body = ProblemDocument),
        (status = 500, description = "The prompt cannot be recorded; its answer is cancelled", body = ProblemDocument),
        (status = 503, description = "The daemon is stopping, or too many bodies above 2 MiB are being read", body = ProblemDocument)))]
pub async fn send(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
    JsonBody(message): JsonBody<NewMessage, MAX_BODY>,
) -> Answer<(StatusCode, Json<MessageAccepted>)> {
    let session = super::session(&state, &id).await?;
    check(&message)?;
    let services = &state.services;
    if services.leaving.is_cancelled() {
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "runtime",
            "the daemon is stopping",
            "send the prompt again once the server answers",
        ));
    }
    let ask = AskRequest {
        session: SessionChoice::Attach(id),
        model: message.model.filter(|name| !name.is_empty()),
        text: message.content,
        cwd: super::cwd(&session).unwrap_or_else(super::home),
        purpose: AskPurpose::Prompt,
        tools: message.tools.filter(|tools| !tools.is_empty()),
        background: true,
        output: OutputChoice::Never,
        ..AskRequest::default()
    };
    services.models.refresh().await;
    let origin = FeedOrigin {
        // Its terminal shows notices about questions and about the end.
        shell: told_shell(&state, &session),
        tty: Some(THE_API.to_owned()),
        prompt: ask.text.clone(),
        started_ms: now_ms(),
        hang_up: HangUpPolicy::Continue,
    };
    drop(session);
    let feed = TurnFeed::new(origin, state.cancel.child_token());
    let kept = services.last_variables.clone();
    let client = ClientHandle::without_shell(feed, super::record_ids(&state), kept);
    if services.models.unseen_changes().is_some() {
        client.feed.notice(requests::STRICTER);
    }
    let plan = plan::prepare(services, &client, ask)
        .await
        .map_err(failed)?;
    let (session_id, message_id) = plan.ids();
    let (session, record_ids) = (plan.session.clone(), plan.record_ids.clone());
    let changes = services.sessions.changes.subscribe();
    let log = session.as_ref().map(|session| session.log_handle());
    let failures = match log.transpose()? {
        Some(log) => log.failures(),
        None => 0,
    };
    task::spawn(services, client.feed.clone(), plan);
    if let Some(session) = session {
        let kept = keep(
            &state,
            &client.feed,
            changes,
            &session,
            &record_ids,
            failures,
        );
        if let Err(e) = kept.await {
            client.feed.cancel_token().cancel();
            let error = Error::runtime(format!("the prompt cannot be recorded: {}", e.message));
            return Err(error.hint(NOT_WRITTEN).into());
        }
    }
    let accepted = MessageAccepted {
        message_id,
        session_id,
    };
    Ok((StatusCode::ACCEPTED, Json(accepted)))
}

/// Returns once the prompt of a turn that was spawned is in the file of its session, so that the end of the daemon cannot lose
/// an accepted prompt. The turn records the prompt; where it has to wait or has failed before, the prompt gets a separate record.
/// `failures` is how many writes of the session had failed before the turn.
///
/// # Errors
/// The prompt cannot be written.
async fn keep(
    state: &ApiState,
    feed: &TurnFeed,
    mut changes: watch::Receiver<u64>,
    session: &Session,
    record_ids: &RecordIds,
    failures: u64,
) -> Result<()> {
    let prompt = record_ids.prompt.as_deref().unwrap_or_default();
    let is_recorded = || session.with_records(|records| has_begun(records, prompt));
    if !session.hub.waiting().iter().any(|id| id == prompt) {
        let recorded = async {
            while !feed.is_finished() && !is_recorded() {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // A server that starts first may take longer.
        let _ = tokio::time::timeout(RECORDED_WITHIN, recorded).await;
    }
    if !is_recorded() {
        let text = feed.origin.prompt.clone();
        let waiting = RecordBody::WaitingPrompt { text };
        return session.record_written(record_ids, waiting).await;
    }
    let journal = state.services.sessions.journal.clone();
    let _ = tokio::task::spawn_blocking(move || journal.drain()).await;
    // The turn has taken the failure itself.
    match session.log_handle()?.failures() > failures {
        true => Err(Error::runtime("the write has failed")),
        false => Ok(()),
    }
}

fn check(message: &NewMessage) -> Answer<()> {
    if message.agent_id.is_some() {
        let message = "there is no such agent: aish has no agents yet";
        return Err(super::unfit(
            Error::usage(message).hint("leave out agent_id"),
        ));
    }
    // Others are refused when the body is read.
    let (None | Some(PromptRole::User)) = message.role;
    if message.content.trim().is_empty() {
        return Err(Problem::invalid(
            "the prompt is empty",
            "send its text as content",
        ));
    }
    super::check_length("content", &message.content, MAX_PROMPT)?;
    super::check_length("model", message.model.as_deref().unwrap_or_default(), 200)?;
    super::check_length("tools", message.tools.as_deref().unwrap_or_default(), 2000)
}

fn failed(failure: RequestFailure) -> Problem {
    let kind = match failure.nothing_configured {
        true => ErrorKind::Config,
        false => failure.kind,
    };
    super::unfit(Error {
        hint: failure.hint,
        ..Error::new(kind, failure.message)
    })
}

/// Returns the shell that shows notices about a prompt: the one that ran a command last, of those that use the session if there are
/// any, otherwise of all.
fn told_shell(state: &ApiState, session: &Arc<Session>) -> Option<ShellId> {
    let services = &state.services;
    let shells = lock(&services.shells).latest_first();
    let uses = |shell: &&ShellId| {
        services.sessions.session_for_shell(shell).as_deref() == Some(&*session.id)
    };
    // Without the lock: the session of a shell may have to be read from a file.
    shells.iter().find(uses).or(shells.first()).cloned()
}

/// Cancels the running answer of a session, or one prompt, whether it is answered or waits.
///
/// Also succeeds if there is nothing to cancel.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/cancel", operation_id = "cancel_answer", tag = "messages",
    params(("session_id" = String, Path, description = "Id of the session"), CancelFilter),
    responses(
        (status = 204, description = "It is cancelled, or there was nothing to cancel"),
        (status = 404, description = "There is no such session", body = ProblemDocument)))]
pub async fn cancel(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
    Parameters(filter): Parameters<CancelFilter>,
) -> Answer<StatusCode> {
    let session = super::session(&state, &id).await?;
    let feed = match &filter.message_id {
        Some(id) => session.hub.turn_of(id),
        None => session.hub.running(),
    };
    if let Some(feed) = feed {
        feed.cancel_token().cancel();
    }
    Ok(StatusCode::NO_CONTENT)
}
