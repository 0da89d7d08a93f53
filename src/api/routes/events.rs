//! Server-sent events.

use std::convert::Infallible;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use tokio::sync::OwnedSemaphorePermit;

use crate::api::ApiState;
use crate::api::credentials::Access;
use crate::api::cursor::Cursor;
use crate::api::event_order;
use crate::api::extract::{InPath, Parameters, single};
use crate::api::global_stream::{GlobalCursor, GlobalStream};
use crate::api::pairing::PairingId;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::stream::SessionStream;
use crate::api::types::{EventFilter, SentEvent};
use crate::error::Result;

/// How far back the events of all sessions can begin.
const GLOBAL_PAST_MS: u64 = 24 * 60 * 60 * 1000;

/// How far ahead of the clock the time of a cursor may be: the clock may have been corrected.
const MAX_AHEAD_MS: u64 = 60 * 1000;

/// What a cursor of each stream is.
const OF_SESSION: &str = "use the id of an event of this session, or its next_cursor; without a cursor the stream begins at the start";
const OF_ALL: &str =
    "use the id of an event of this stream; without a cursor the stream begins now";

/// Streams the events of a session: those behind the cursor, then what happens.
///
/// Without a cursor, the session is sent from its beginning. The `id` of an event is a cursor, which stays valid after a restart of
/// the daemon; treat it as opaque. `x.caught_up` follows the past events. With the bearer of a paired browser, questions of a
/// foreground prompt without a terminal wait for its answer; the stream ends with the pairing.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/events", operation_id = "stream_session_events", tag = "events",
    params(
        ("session_id" = String, Path, description = "Id of the session"),
        EventFilter,
        ("last-event-id" = Option<String>, Header, max_length = 4000, pattern = "^[0-9A-Za-z._-]*$", description = "The `id` of the last event; takes precedence over `since`")),
    responses(
        (status = 200, description = "Events; the data of each is an EventEnvelope", content_type = "text/event-stream", body = SentEvent),
        (status = 400, description = "The cursor does not belong to this session", body = ProblemDocument),
        (status = 404, description = "There is no such session", body = ProblemDocument),
        (status = 503, description = "Too many streams are open", body = ProblemDocument)))]
pub async fn of_session(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
    Parameters(filter): Parameters<EventFilter>,
    Extension(access): Extension<Access>,
    headers: HeaderMap,
) -> Answer<Response> {
    let session = super::session(&state, &id).await?;
    let cursor = match since(&headers, filter.since, OF_SESSION)? {
        Some(text) => Cursor::parse_in(&id, &text).map_err(|_| bad_cursor(OF_SESSION))?,
        None => Cursor::default(),
    };
    if !event_order::fits(&session, &cursor) {
        return Err(bad_cursor(OF_SESSION));
    }
    drop(session);
    let follows = filter.follow.unwrap_or(true);
    let permit = permit(&state, follows)?;
    let stream = SessionStream::new(state, id, cursor, follows, permit, pairing(access));
    Ok(event_stream(stream, |mut stream| async {
        Some((stream.chunk().await?, stream))
    }))
}

/// Streams the events of all sessions: those behind the cursor, or from now on.
///
/// A cursor is valid for a day. If more than 16 sessions are active at once, the events of the others are sent once they are
/// recorded. Without a cursor, the stream begins with the status of the sessions that are not idle, and with the whole text of
/// answers that run already.
#[utoipa::path(get, path = "/v1/events", operation_id = "stream_events", tag = "events",
    params(
        EventFilter,
        ("last-event-id" = Option<String>, Header, max_length = 4000, pattern = "^[0-9A-Za-z._-]*$", description = "The `id` of the last event; takes precedence over `since`")),
    responses(
        (status = 200, description = "Events; the data of each is an EventEnvelope", content_type = "text/event-stream", body = SentEvent),
        (status = 400, description = "The cursor is not valid", body = ProblemDocument),
        (status = 410, description = "The cursor is older than a day", body = ProblemDocument),
        (status = 503, description = "Too many streams are open", body = ProblemDocument)))]
pub async fn of_all(
    State(state): State<ApiState>,
    Parameters(filter): Parameters<EventFilter>,
    Extension(access): Extension<Access>,
    headers: HeaderMap,
) -> Answer<Response> {
    let (cursor, changed) = match since(&headers, filter.since, OF_ALL)? {
        Some(text) => {
            let cursor = GlobalCursor::parse(&text).ok_or_else(|| bad_cursor(OF_ALL))?;
            let now = crate::history::journal::now_ms();
            if cursor.time_ms() + GLOBAL_PAST_MS < now {
                let message = "the cursor is older than a day";
                let hint = "list the sessions, then begin without a cursor";
                return Err(Problem::new(StatusCode::GONE, "usage", message, hint));
            }
            // Records until then would be missed.
            if cursor.time_ms() > now + MAX_AHEAD_MS {
                return Err(bad_cursor(OF_ALL));
            }
            let mut changed = changed_since(&state, cursor.time_ms()).await?;
            changed.extend(cursor.sessions().cloned());
            (cursor, changed)
        }
        None => (GlobalCursor::now(), Vec::new()),
    };
    let follows = filter.follow.unwrap_or(true);
    let permit = permit(&state, follows)?;
    let stream = GlobalStream::new(state, cursor, changed, follows, permit, pairing(access));
    Ok(event_stream(stream, |mut stream| async {
        Some((stream.chunk().await?, stream))
    }))
}

fn pairing(access: Access) -> Option<PairingId> {
    match access {
        Access::Paired(pairing) => Some(pairing),
        _ => None,
    }
}

/// Returns the sessions whose files were written since.
async fn changed_since(state: &ApiState, time_ms: u64) -> Result<Vec<String>> {
    let journal = state.services.sessions.journal.clone();
    let list = tokio::task::spawn_blocking(move || journal.sessions());
    let files = list
        .await
        .map_err(|e| crate::error::Error::runtime(format!("cannot list the sessions: {e}")))??;
    // A file system may keep times in whole seconds.
    let changed = files
        .into_iter()
        .filter(|file| file.updated_ms + 1000 >= time_ms);
    Ok(changed.map(|file| file.id).collect())
}

/// Returns the cursor of a request. `hint` says what a cursor of the stream is.
fn since(headers: &HeaderMap, parameter: Option<String>, hint: &str) -> Answer<Option<String>> {
    match single(headers, &HeaderName::from_static("last-event-id"))? {
        Some(value) => match value.to_str() {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(bad_cursor(hint)),
        },
        None => Ok(parameter),
    }
}

fn bad_cursor(hint: &str) -> Problem {
    Problem::bad_request("the cursor does not belong to this stream", hint)
}

/// Counts a stream that follows; another one ends by itself.
fn permit(state: &ApiState, follows: bool) -> Answer<Option<OwnedSemaphorePermit>> {
    if !follows {
        return Ok(None);
    }
    let permit = state.streams.clone().try_acquire_owned().map_err(|_| {
        Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "limit",
            "too many event streams are open",
            "close some pages, or use follow=false",
        )
    })?;
    Ok(Some(permit))
}

/// Returns a response with the chunks of a stream, which `next` takes from it one by one.
fn event_stream<S, F>(stream: S, next: impl FnMut(S) -> F + Send + 'static) -> Response
where
    S: Send + 'static,
    F: Future<Output = Option<(Bytes, S)>> + Send + 'static,
{
    let chunks = stream::unfold(stream, next).map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(chunks));
    let value = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(header::CONTENT_TYPE, value);
    response
}
