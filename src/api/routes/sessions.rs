//! Sessions: list, create, read, change, delete, and their records.

use std::collections::{BTreeMap, HashSet};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use crate::api::ApiState;
use crate::api::cursor::Cursor;
use crate::api::events::message_id;
use crate::api::extract::{InPath, JsonBody, Parameters};
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{
    ChainEntry, Outline, OutlineEntry, RecordView, SessionChange, SessionDetail, SessionFilter,
    SessionList, SessionSettings, SessionState, SessionView, ShareState, ShareStateChange, Usage,
};
use crate::chat::CONTINUED;
use crate::error::Error;
use crate::history::record::{Record, RecordBody};
use crate::history::session_list::stored_title;
use crate::history::shown_record;
use crate::protocol::{SessionInfo, SettingName, SettingsRequest};
use crate::requests::share::CredentialSource;
use crate::requests::{self, session_settings};
use crate::safety::redact::global_redactor;
use crate::safety::utf8;
use crate::session::conversation::Session;

/// Sessions on a page, unless the request says otherwise, and at most.
const PAGE: (usize, usize) = (50, 200);
/// Maximum length of a line in the outline and in chains, in characters.
const LINE: usize = 160;
/// Maximum number of characters that are read for such a line. Redaction needs more than is shown.
const SEARCHED: usize = 1000;

/// Lists the sessions, last used first.
#[utoipa::path(get, path = "/v1/sessions", operation_id = "list_sessions", description = "`search` looks into all texts, and adds an `excerpt` with its record.", tag = "sessions", params(SessionFilter),
    responses(
        (status = 200, description = "The sessions", body = SessionList),
        (status = 400, description = "A parameter is not valid", body = ProblemDocument)))]
pub async fn list(
    State(state): State<ApiState>,
    Parameters(filter): Parameters<SessionFilter>,
) -> Answer<Json<SessionList>> {
    let limit = super::within("limit", filter.limit, PAGE)?;
    let offset = super::at_most(filter.offset, "offset", 1_000_000)?;
    let search = filter.search.filter(|words| !words.trim().is_empty());
    if search
        .as_ref()
        .is_some_and(|words| words.chars().count() > 200)
    {
        let message = "search is longer than 200 characters";
        return Err(Problem::bad_request(message, "search for fewer words"));
    }
    let is_search = search.is_some();
    let mut found = requests::sessions(&state.services, offset + limit + 1, search).await?;
    let has_more = found.len() > offset + limit;
    found.truncate(offset + limit);
    let sessions = found.drain(offset.min(found.len())..);
    let shared = shared(&state).await;
    let sessions: Vec<SessionView> = sessions
        .map(|info| view(&state, info, is_search, &shared))
        .collect();
    Ok(Json(SessionList {
        next_offset: has_more.then_some(offset + limit),
        sessions,
    }))
}

/// Returns the sessions that are shared.
async fn shared(state: &ApiState) -> HashSet<String> {
    // A register that cannot be read must not hide the sessions; sharing itself reports it.
    let shares = requests::share::list(&state.services)
        .await
        .unwrap_or_else(|e| {
            tracing::warn!("{}", e.message);
            Vec::new()
        });
    shares.into_iter().map(|share| share.session).collect()
}

fn view(
    state: &ApiState,
    info: SessionInfo,
    is_search: bool,
    shared: &HashSet<String>,
) -> SessionView {
    let opened = state.services.sessions.opened(&info.id);
    let status = opened.map_or(SessionState::Idle, |session| status_of(&session));
    let share_state = match shared.contains(&info.id) {
        true => ShareState::Shared,
        false => ShareState::Private,
    };
    SessionView {
        id: info.id,
        title: info.title,
        prompts: info.prompts,
        updated_ms: info.updated_ms,
        status,
        share_state,
        excerpt: is_search.then_some(info.excerpt),
        excerpt_record_id: info.found_record,
    }
}

fn status_of(session: &Session) -> SessionState {
    match session.hub.running() {
        Some(feed) if feed.has_open_question() => SessionState::Waiting,
        Some(_) => SessionState::Running,
        None => SessionState::Idle,
    }
}

/// Creates a session.
#[utoipa::path(post, path = "/v1/sessions", operation_id = "create_session", description = "The session is in its file when the reply arrives, with its title and settings, or is not created. `cwd` is the directory in which its prompts work.", tag = "sessions", request_body = SessionChange,
    responses(
        (status = 201, description = "The session", body = SessionDetail,
            headers(("location" = String, description = "Its path"))),
        (status = 409, description = "There is no such model, prompt pack, selection of tools or directory, or the configuration is not valid", body = ProblemDocument),
        (status = 500, description = "The session cannot be written; it is not created", body = ProblemDocument)))]
pub async fn create(
    State(state): State<ApiState>,
    JsonBody(mut change): JsonBody<SessionChange>,
) -> Answer<Response> {
    check(&change)?;
    check_settings(&state, &mut change, None).await?;
    // A task of its own: a client that hangs up would leave a session without its settings.
    let created = created(state.clone(), change);
    let id = state.services.tasks.spawn(created).await;
    let id = id.map_err(|e| Error::runtime(format!("the session cannot be created: {e}")))??;
    let detail = detail(&state, &id).await?;
    let location = format!("/v1/sessions/{id}");
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(detail),
    )
        .into_response())
}

async fn created(state: ApiState, change: SessionChange) -> Answer<String> {
    let record_ids = super::record_ids(&state);
    let id = state.services.sessions.create(None, &record_ids).id.clone();
    if let Err(problem) = apply(&state, &id, change).await {
        // Nobody knows its id.
        let _ = requests::delete_session(&state.services, CredentialSource::Kept, &id).await;
        return Err(problem);
    }
    Ok(id)
}

/// Returns a session with its settings and what it has used.
#[utoipa::path(get, path = "/v1/sessions/{session_id}", operation_id = "get_session", tag = "sessions",
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "The session", body = SessionDetail),
        (status = 404, description = "There is no such session", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
) -> Answer<Json<SessionDetail>> {
    super::session(&state, &id).await?;
    super::unless_deleted(&state, &id, detail(&state, &id).await).map(Json)
}

/// Changes the title or the settings of a session.
#[utoipa::path(patch, path = "/v1/sessions/{session_id}", operation_id = "change_session", description = "Only what changes is recorded. With `share_state`, the page of the session is removed first; if that fails, nothing is changed.", tag = "sessions", request_body = SessionChange,
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "The session", body = SessionDetail),
        (status = 404, description = "There is no such session", body = ProblemDocument),
        (status = 409, description = "There is no such model, prompt pack, selection of tools or directory, or the configuration is not valid", body = ProblemDocument),
        (status = 500, description = "A page of the session cannot be removed, and nothing was changed; or the session cannot be written", body = ProblemDocument)))]
pub async fn change(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
    JsonBody(mut change): JsonBody<SessionChange>,
) -> Answer<Json<SessionDetail>> {
    let cwd = super::cwd(&*super::session(&state, &id).await?);
    check(&change)?;
    check_settings(&state, &mut change, cwd).await?;
    let applied = async {
        apply(&state, &id, change).await?;
        detail(&state, &id).await
    };
    super::unless_deleted(&state, &id, applied.await).map(Json)
}

/// Deletes a session.
#[utoipa::path(delete, path = "/v1/sessions/{session_id}", operation_id = "delete_session", description = "Removes its file and its shares. Streams of its events end with `x.session.deleted`.", tag = "sessions",
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 204, description = "The session is deleted"),
        (status = 404, description = "There is no such session", body = ProblemDocument),
        (status = 409, description = "An answer of the session is running, or another request uses it", body = ProblemDocument),
        (status = 500, description = "A page or a file of the session cannot be removed", body = ProblemDocument)))]
pub async fn delete(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
) -> Answer<StatusCode> {
    super::session(&state, &id).await?;
    let deleted = requests::delete_session(&state.services, CredentialSource::Kept, &id).await;
    super::unless_deleted(&state, &id, deleted.map_err(super::unfit))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lists the prompts of a session.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/outline", operation_id = "get_outline", tag = "sessions",
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "The prompts, oldest first", body = Outline),
        (status = 404, description = "There is no such session", body = ProblemDocument)))]
pub async fn outline(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
) -> Answer<Json<Outline>> {
    let session = super::session(&state, &id).await?;
    let mut prompts: Vec<OutlineEntry> = session.with_records(|records| {
        let numbered = records.iter().enumerate();
        let prompts = numbered.filter_map(|(number, record)| match &record.body {
            RecordBody::User { text, .. } if text != CONTINUED => Some(OutlineEntry {
                number,
                id: message_id(record).to_owned(),
                // Longer than what `line` reads, so that it knows that there is more.
                text: utf8::prefix(text.trim_start(), SEARCHED + 4).to_owned(),
                timestamp_ms: record.timestamp_ms,
            }),
            _ => None,
        });
        prompts.collect()
    });
    drop(session);
    // On another thread: the search for secrets in thousands of prompts must not delay other requests.
    let work = tokio::task::spawn_blocking(move || {
        prompts
            .iter_mut()
            .for_each(|entry| entry.text = line(&entry.text));
        prompts
    });
    let prompts = work
        .await
        .map_err(|e| Error::runtime(format!("the outline cannot be made: {e}")))?;
    Ok(Json(Outline { prompts }))
}

/// Returns a record with the chain that it belongs to.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/records/{record_id}", operation_id = "get_record", description = "The chain has the prompt, its answers, their tool calls with the decisions, and proposed commands.", tag = "sessions",
    params(
        ("session_id" = String, Path, description = "Id of the session"),
        ("record_id" = String, Path, description = "Id of the record")),
    responses(
        (status = 200, description = "The record", body = RecordView),
        (status = 404, description = "There is no such session or record", body = ProblemDocument)))]
pub async fn record(
    State(state): State<ApiState>,
    InPath((id, record_id)): InPath<(String, String)>,
) -> Answer<Json<RecordView>> {
    let session = super::session(&state, &id).await?;
    let found = session.with_records(|records| {
        let number = records.iter().rposition(|record| record.id == record_id)?;
        Some(RecordView {
            number,
            record: shown_record(&records[number]),
            chain: chain(records, &records[number]),
        })
    });
    let found = found.ok_or_else(|| {
        let hint = format!("GET /v1/sessions/{id}/logs/events lists its records");
        Problem::not_found("the session has no record with this id", hint)
    })?;
    Ok(Json(found))
}

/// Returns the records of the same prompt.
fn chain(records: &[Record], of: &Record) -> Vec<ChainEntry> {
    let Some(prompt) = &of.ids.prompt else {
        return Vec::new();
    };
    let numbered = records.iter().enumerate();
    let same = numbered.filter(|(_, record)| record.ids.prompt.as_ref() == Some(prompt));
    let entry = |(number, record): (usize, &Record)| {
        let shown = shown_record(record);
        let word = |key: &str| shown[key].as_str().unwrap_or_default().to_owned();
        let text = match &record.body {
            RecordBody::User { text, .. }
            | RecordBody::WaitingPrompt { text }
            | RecordBody::Assistant { text, .. } => line(text),
            RecordBody::Tool { name, .. } => format!("{} {}", line(name), word("status")),
            RecordBody::Approval { name, .. } => format!("{} {}", line(name), word("decision")),
            RecordBody::CommandApproval { command, .. } => {
                format!("{}: {}", word("choice"), line(command))
            }
            RecordBody::CommandResult { command, exit, .. } => {
                format!("exit code {exit}: {}", line(command))
            }
            RecordBody::Compaction { prompts: 1, .. } => "1 prompt".to_owned(),
            RecordBody::Compaction { prompts, .. } => format!("{prompts} prompts"),
            _ => String::new(),
        };
        ChainEntry {
            number,
            record_id: record.id.clone(),
            kind: word("type"),
            text,
        }
    };
    same.map(entry).collect()
}

/// Returns the beginning of a text in one line, without secrets.
fn line(text: &str) -> String {
    // Enough for the line, so that a long text is not searched to its end.
    let words = global_redactor().redact_beginning(text.trim_start(), SEARCHED);
    let words: Vec<&str> = words.split_whitespace().collect();
    let words = words.join(" ");
    match words.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

fn check(change: &SessionChange) -> Answer<()> {
    let texts = [
        ("title", &change.title, 200),
        ("model", &change.model, 200),
        ("prompt", &change.prompt, 200),
        ("tools", &change.tools, 2000),
        ("cwd", &change.cwd, 4096),
    ];
    for (name, text, limit) in texts {
        super::check_length(name, text.as_deref().unwrap_or_default(), limit)?;
    }
    if change.title.is_some() && title(change).is_none() {
        let hint = "leave it out, or send a text";
        return Err(Problem::invalid("the title has no visible character", hint));
    }
    Ok(())
}

fn title(change: &SessionChange) -> Option<String> {
    stored_title(change.title.as_deref()?)
}

fn settings_request(
    session: Option<String>,
    change: &SessionChange,
    cwd: Option<String>,
) -> SettingsRequest {
    let settings = [
        (SettingName::Model, &change.model),
        (SettingName::Prompt, &change.prompt),
        (SettingName::Tools, &change.tools),
    ];
    let changes = settings.into_iter().filter_map(|(name, value)| {
        let value = value.clone()?;
        Some((name, Some(value).filter(|value| !value.is_empty())))
    });
    SettingsRequest {
        session,
        shell: None,
        changes: changes.collect(),
        cwd: change.cwd.clone().or(cwd).unwrap_or_else(super::home),
        overrides: BTreeMap::new(),
    }
}

/// Checks the settings before anything is created or changed, and resolves links in the directory: the rules of a project hold
/// for it whatever it is called. `cwd` is the directory of the session so far.
async fn check_settings(
    state: &ApiState,
    change: &mut SessionChange,
    cwd: Option<String>,
) -> Answer<()> {
    if let Some(new) = &change.cwd {
        change.cwd = Some(super::real_dir(new).await?);
    }
    let request = settings_request(None, change, cwd);
    let checked = session_settings::check_all(&state.services, &request).await;
    checked.map_err(super::unfit)
}

/// Makes changes that were checked. First what may fail outside of the session, then all records in one write.
async fn apply(state: &ApiState, id: &str, change: SessionChange) -> Answer<()> {
    let mut records = Vec::new();
    if let Some(cwd) = &change.cwd {
        records.push(RecordBody::SessionSetting {
            setting: super::CWD.to_owned(),
            value: Some(cwd.clone()),
        });
    }
    let changes = settings_request(None, &change, None).changes;
    records.extend(changes.into_iter().map(session_settings::setting_record));
    records.extend(title(&change).map(|title| RecordBody::Title { title }));
    if change.share_state == Some(ShareStateChange::Private) {
        requests::share::unshare_id(&state.services, CredentialSource::Kept, id).await?;
    }
    let session = super::session(state, id).await?;
    records.retain(|record| !is_in_force(&session, record));
    let written = session
        .record_all(&super::record_ids(state), records)
        .and_then(|()| Ok(session.log_handle()?.written()));
    // A session that is used must not be held while waiting.
    drop(session);
    Ok(written?.await?)
}

/// Whether the session has this title or setting already.
fn is_in_force(session: &Session, change: &RecordBody) -> bool {
    match change {
        RecordBody::Model { model } => session.model().as_ref() == Some(model),
        RecordBody::SessionSetting { setting, value } if setting == super::CWD => {
            super::cwd(session) == *value
        }
        RecordBody::SessionSetting { setting, value } if setting == SettingName::Model.as_str() => {
            session.model() == *value
        }
        RecordBody::SessionSetting { setting, value } => session.setting(setting) == *value,
        change => session.with_records(|records| {
            let mut titles = records.iter().rev().map(|record| &record.body);
            titles.find(|body| matches!(body, RecordBody::Title { .. })) == Some(change)
        }),
    }
}

async fn detail(state: &ApiState, id: &str) -> Answer<SessionDetail> {
    let info = requests::session_info(&state.services, id).await?;
    let shared = shared(state).await;
    // From here on without waiting: a session that is held could not be deleted.
    let session = super::session(state, id).await?;
    let settings = SessionSettings {
        model: session.model(),
        prompt: session.setting("prompt"),
        tools: session.setting("tools"),
    };
    let (records, usage) = session.with_records(|records| (records.len(), usage(records)));
    Ok(SessionDetail {
        session: view(state, info, false, &shared),
        settings,
        records,
        usage,
        cwd: super::cwd(&session),
        waiting: session.hub.waiting(),
        next_cursor: Cursor::after(records).text_in(&session.id),
    })
}

fn usage(records: &[Record]) -> Usage {
    let mut sum = Usage::default();
    for record in records {
        let RecordBody::Assistant {
            prompt_tokens,
            completion_tokens,
            cost,
            cost_estimated,
            ..
        } = &record.body
        else {
            continue;
        };
        // A provider may send any number.
        sum.prompt_tokens = sum.prompt_tokens.saturating_add(prompt_tokens.unwrap_or(0));
        sum.completion_tokens = sum
            .completion_tokens
            .saturating_add(completion_tokens.unwrap_or(0));
        sum.is_estimated |= *cost_estimated || cost.is_none();
        if let Some(cost) = cost {
            sum.cost = Some(sum.cost.unwrap_or(0.0) + cost);
        }
    }
    sum
}

/// The fields of a record for which a message has no separate fields.
pub fn detail_fields(record: &Record) -> Value {
    let mut shown = shown_record(record);
    if let Some(fields) = shown.as_object_mut() {
        let own = [
            "v",
            "id",
            "timestamp_ms",
            "type",
            "ids",
            "prompt",
            "text",
            "rendered",
            "calls",
        ];
        let is_waiting = matches!(record.body, RecordBody::WaitingPrompt { .. });
        // The role says the type of the others.
        let kept = |name: &str| is_waiting && name == "type";
        let removed = own.iter().filter(|name| !kept(name));
        removed.for_each(|name| drop(fields.remove(*name)));
    }
    shown
}
