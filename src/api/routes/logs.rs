//! Logs of a session: its records, and the recordings of its terminals.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use futures_util::stream;

use crate::api::ApiState;
use crate::api::extract::{self, InPath, Parameters};
use crate::api::file_body::{PIECE, file_body};
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::recordings::{self, Cast};
use crate::api::types::{RecordingChoice, RecordingList, RecordingView};
use crate::error::Error;
use crate::history::shown_record;
use crate::requests::recordings::SessionShells;

/// Records in one piece of the JSON lines, so that other work of the daemon waits for few.
const RECORDS: usize = 32;

/// Returns all records of a session, one JSON object per line.
///
/// The records are those of the session's file, without secrets; `docs/journal.md` describes them.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/logs/events", operation_id = "list_records", tag = "logs",
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "The records, as `docs/journal.md` describes them", content_type = "application/jsonl", body = String),
        (status = 404, description = "There is no such session", body = ProblemDocument)))]
pub async fn events(State(state): State<ApiState>, InPath(id): InPath<String>) -> Answer<Response> {
    super::session(&state, &id).await?;
    let pieces = stream::unfold((state, id, 0), |(state, id, from)| async move {
        // Streams and hooks get their turn between two pieces.
        tokio::task::yield_now().await;
        // Again for each piece: a client that takes nothing must not keep the session from being closed or deleted.
        let session = super::session(&state, &id).await.ok()?;
        let (piece, next) = session.with_records(|records| {
            let mut piece = Vec::new();
            let mut next = from;
            for record in records.iter().skip(from).take(RECORDS) {
                // A record that was read always serializes.
                let _ = serde_json::to_writer(&mut piece, &shown_record(record));
                piece.push(b'\n');
                next += 1;
                if piece.len() as u64 > PIECE {
                    break;
                }
            }
            (piece, next)
        });
        let piece = (!piece.is_empty()).then_some(piece)?;
        drop(session);
        Some((Ok::<_, std::convert::Infallible>(piece), (state, id, next)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let kind = HeaderValue::from_static("application/jsonl");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Returns the recordings of the terminals whose shells have used a session.
async fn of_session(state: &ApiState, id: &str) -> Answer<Vec<RecordingView>> {
    // A session that is held while waiting could not be deleted.
    let shells = {
        let session = super::session(state, id).await?;
        session.with_records(SessionShells::of)
    };
    let paths = state.services.paths.clone();
    let read = tokio::task::spawn_blocking(move || recordings::views(&shells, &paths)).await;
    let read = read.map_err(|e| Error::runtime(format!("the recordings cannot be listed: {e}")))?;
    Ok(read?)
}

/// Lists the recordings of the terminals whose shells have used a session.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/recordings", operation_id = "list_recordings", tag = "logs",
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "The recordings", body = RecordingList),
        (status = 404, description = "There is no such session", body = ProblemDocument)))]
pub async fn recordings(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
) -> Answer<Json<RecordingList>> {
    let recordings = of_session(&state, &id).await?;
    Ok(Json(RecordingList { recordings }))
}

/// Returns a recording of a session's terminal as asciicast version 3, without secrets.
///
/// By default the newest. `Range`, `If-Range`, `If-Match` and `If-None-Match` work; the entity tag changes with the content.
#[utoipa::path(get, path = "/v1/sessions/{session_id}/logs/raw", operation_id = "get_recording", tag = "logs",
    params(
        ("session_id" = String, Path, description = "Id of the session"),
        RecordingChoice,
        ("range" = Option<String>, Header, description = "One range of bytes; several are ignored"),
        ("if-match" = Option<String>, Header, description = "The ETags that the recording may have"),
        ("if-none-match" = Option<String>, Header, description = "The ETags that it must not have"),
        ("if-range" = Option<String>, Header, description = "The ETag of the part that is there already")),
    responses(
        (status = 200, description = "The recording", content_type = "application/x-asciicast", body = String),
        (status = 206, description = "The requested part", content_type = "application/x-asciicast", body = String),
        (status = 304, description = "The recording has one of the ETags in `If-None-Match`"),
        (status = 400, description = "A parameter is not valid", body = ProblemDocument),
        (status = 404, description = "There is no such session, or it has no such recording", body = ProblemDocument),
        (status = 412, description = "The recording has none of the ETags in `If-Match`", body = ProblemDocument),
        (status = 422, description = "The recording is too large to be sent", body = ProblemDocument),
        (status = 416, description = "The recording has no such part", body = ProblemDocument)))]
pub async fn raw(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
    Parameters(choice): Parameters<RecordingChoice>,
    method: Method,
    headers: HeaderMap,
) -> Answer<Response> {
    let known = of_session(&state, &id).await?;
    let wanted = |recording: &&RecordingView| {
        choice
            .recording
            .as_ref()
            .is_none_or(|id| recording.id == *id)
    };
    let Some(recording) = known.iter().find(wanted) else {
        return Err(Problem::not_found(
            "the session has no such recording",
            format!("GET /v1/sessions/{id}/recordings lists those that it has"),
        ));
    };
    let cast = state
        .last_cast
        .of(&state.services.paths, &recording.id)
        .await?;
    respond(cast, &method, &headers)
}

/// The part of a file that a request asks for.
#[derive(Debug, PartialEq)]
enum RequestedPart {
    Whole,
    /// From this byte to that one, which it includes.
    Range(u64, u64),
    None,
}

/// Reads the header `Range` ([RFC 9110, section 14](https://www.rfc-editor.org/rfc/rfc9110#section-14)): what is not
/// understood is ignored.
fn part(range: &str, length: u64) -> RequestedPart {
    let Some((first, last)) = range
        .split_once('=')
        .filter(|(unit, _)| unit.eq_ignore_ascii_case("bytes"))
        .and_then(|(_, set)| set.split_once('-'))
    else {
        return RequestedPart::Whole;
    };
    let is_number = |digits: &str| digits.bytes().all(|b| b.is_ascii_digit());
    if !is_number(first) || !is_number(last) || first.is_empty() && last.is_empty() {
        return RequestedPart::Whole;
    }
    // More digits than a number has are beyond the end.
    let number = |digits: &str| digits.parse().unwrap_or(u64::MAX);
    if first.is_empty() {
        return match number(last).min(length) {
            0 => RequestedPart::None,
            count => RequestedPart::Range(length - count, length - 1),
        };
    }
    let last = match last.is_empty() {
        true => u64::MAX,
        false => number(last),
    };
    match number(first) {
        // Such a range is not valid, and a range that is not valid is ignored.
        first if first > last => RequestedPart::Whole,
        first if first >= length => RequestedPart::None,
        first => RequestedPart::Range(first, last.min(length - 1)),
    }
}

/// Whether a header with a list of ETags names this one, or is `*`.
fn names(headers: &HeaderMap, name: header::HeaderName, etag: &str, is_weak: bool) -> bool {
    let values = headers.get_all(name).iter();
    let mut tags = values
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .map(str::trim);
    tags.any(|tag| {
        let plain = tag.strip_prefix("W/").filter(|_| is_weak).unwrap_or(tag);
        tag == "*" || plain == etag
    })
}

fn respond(cast: Cast, method: &Method, headers: &HeaderMap) -> Answer<Response> {
    // In the order of RFC 9110, section 13.2.2.
    let etag = HeaderValue::from_str(&cast.etag).ok();
    if headers.contains_key(header::IF_MATCH)
        && !names(headers, header::IF_MATCH, &cast.etag, false)
    {
        return Err(Problem::new(
            StatusCode::PRECONDITION_FAILED,
            "usage",
            "the recording has another ETag",
            "read it from its beginning",
        )
        .header(header::ETAG, &cast.etag));
    }
    if names(headers, header::IF_NONE_MATCH, &cast.etag, true) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
            .headers_mut()
            .extend(etag.map(|etag| (header::ETAG, etag)));
        return Ok(response);
    }
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let is_current = text(header::IF_RANGE).is_none_or(|etag| etag == cast.etag);
    extract::single(headers, &header::RANGE)?;
    let part = match text(header::RANGE) {
        // Only GET has parts.
        Some(range) if is_current && *method == Method::GET => part(range, cast.length),
        _ => RequestedPart::Whole,
    };
    let (status, from, to) = match part {
        RequestedPart::Whole => (StatusCode::OK, 0, cast.length),
        RequestedPart::Range(first, last) => (StatusCode::PARTIAL_CONTENT, first, last + 1),
        RequestedPart::None => {
            let message = format!("the recording has {} bytes", cast.length);
            return Err(Problem::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "usage",
                message,
                "ask for a part that begins before its end",
            )
            .header(header::CONTENT_RANGE, &format!("bytes */{}", cast.length)));
        }
    };
    let length = cast.length;
    let mut response = Response::new(file_body(cast.file, from, to));
    *response.status_mut() = status;
    let out = response.headers_mut();
    let kind = HeaderValue::from_static("application/x-asciicast");
    out.insert(header::CONTENT_TYPE, kind);
    out.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    out.insert(header::CONTENT_LENGTH, HeaderValue::from(to - from));
    out.extend(etag.map(|etag| (header::ETAG, etag)));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {from}-{}/{length}", to - 1);
        out.extend(
            HeaderValue::from_str(&range)
                .ok()
                .map(|range| (header::CONTENT_RANGE, range)),
        );
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_the_rfc_says() {
        for (range, expected) in [
            ("bytes=0-9", RequestedPart::Range(0, 9)),
            ("bytes=90-", RequestedPart::Range(90, 99)),
            ("bytes=-10", RequestedPart::Range(90, 99)),
            ("bytes=-1000", RequestedPart::Range(0, 99)),
            (
                "bytes=50-99999999999999999999999",
                RequestedPart::Range(50, 99),
            ),
            ("bytes=99-99", RequestedPart::Range(99, 99)),
            ("bytes=100-", RequestedPart::None),
            ("bytes=99999999999999999999999-", RequestedPart::None),
            ("bytes=-0", RequestedPart::None),
            ("bytes=9-5", RequestedPart::Whole),
            ("bytes=-", RequestedPart::Whole),
            ("bytes=1-2,4-5", RequestedPart::Whole),
            ("bytes=a-b", RequestedPart::Whole),
            ("bytes=+1-2", RequestedPart::Whole),
            ("lines=1-2", RequestedPart::Whole),
            ("Bytes=0-9", RequestedPart::Range(0, 9)),
            ("", RequestedPart::Whole),
        ] {
            assert_eq!(part(range, 100), expected, "{range}");
        }
        assert_eq!(part("bytes=0-", 0), RequestedPart::None);
    }
}
