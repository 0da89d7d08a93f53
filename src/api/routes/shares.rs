//! Shares: preview, publish, remove, list, and their pages.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

use crate::api::ApiState;
use crate::api::extract::{InPath, JsonBody};
use crate::api::file_body::file_body;
use crate::api::pages::with_policy;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{ShareChoice, ShareList, ShareResult, ShareView, Unshared};
use crate::config::{ConfigOverrides, ShareMode};
use crate::error::{Error, ErrorContext};
use crate::protocol::{ShareOptions, SharePhase, SharePreview};
use crate::requests::share::{self, CredentialSource};
use crate::requests::share_place;
use crate::share::object::ShareObject;
use crate::share::page::POLICY;
use crate::share::register::{Share, SharePlace};

/// Returns a share as the API has it. Who reads the page knows at which address it has reached the server.
fn view(share: Share) -> ShareView {
    let is_here = share.place == SharePlace::Local;
    ShareView {
        path: is_here.then(|| format!("/share/{}", share.id)),
        url: share_place::address(&share, None),
        place: share_place::place_words(&share.place, None),
        id: share.id,
        session_id: share.session,
        title: share.title,
        created_ms: share.created_ms,
        is_published: share.phase == SharePhase::Published,
        is_automatic: share.is_automatic,
    }
}

/// Shares a session as a page, after a preview.
///
/// Without `digest`, the reply is a preview that counts what is left out, and nothing is published. With the `digest` of the preview,
/// exactly what it described is published. `with_output` and `recordings` add parts that are left out otherwise.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/share", operation_id = "share_session", tag = "shares", request_body = ShareChoice,
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "What would be published", body = ShareResult),
        (status = 201, description = "The share", body = ShareResult),
        (status = 403, description = "Sharing is disabled", body = ProblemDocument),
        (status = 404, description = "There is no such session", body = ProblemDocument),
        (status = 409, description = "The session has changed since the preview, or credentials of the bucket are missing", body = ProblemDocument),
        (status = 500, description = "The page could not be published; it may be listed", body = ProblemDocument)))]
pub async fn publish(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
    JsonBody(choice): JsonBody<ShareChoice>,
) -> Answer<(StatusCode, Json<ShareResult>)> {
    super::session(&state, &id).await?;
    let services = &state.services;
    let options = ShareOptions {
        with_output: choice.with_output.unwrap_or(false),
        recordings: choice.recordings.unwrap_or(false),
    };
    let result = |preview: SharePreview, share| ShareResult {
        digest: preview.digest,
        title: preview.title,
        messages: preview.messages,
        recordings: options.recordings.then_some(preview.recording_count),
        recordings_ms: options.recordings.then_some(preview.recording_ms),
        removed: preview.removed,
        place: preview.place,
        share,
    };
    let Some(digest) = choice.digest else {
        let preview = share::preview(services, &id, options, None).await;
        let preview = super::unless_deleted(&state, &id, preview)?;
        return Ok((StatusCode::OK, Json(result(preview, None))));
    };
    let source = CredentialSource::Kept;
    let (preview, share) = match share::publish(services, source, &id, options, &digest).await {
        Ok(published) => published,
        Err(e) => {
            // It may have been deleted meanwhile.
            super::session(&state, &id).await?;
            return Err(e.into());
        }
    };
    Ok((
        StatusCode::CREATED,
        Json(result(preview, Some(view(share)))),
    ))
}

/// Removes the shares of a session, and verifies that their pages are gone.
///
/// A share whose page cannot be removed stays in the list, so that it can be tried again.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/unshare", operation_id = "unshare_session", tag = "shares",
    params(("session_id" = String, Path, description = "Id of the session")),
    responses(
        (status = 200, description = "How many were removed", body = Unshared),
        (status = 404, description = "There is no such session", body = ProblemDocument),
        (status = 409, description = "Credentials of the bucket are missing; the share is still listed", body = ProblemDocument),
        (status = 500, description = "A page could not be removed; it is still listed", body = ProblemDocument)))]
pub async fn unshare(
    State(state): State<ApiState>,
    InPath(id): InPath<String>,
) -> Answer<Json<Unshared>> {
    super::session(&state, &id).await?;
    let removed = share::unshare_id(&state.services, CredentialSource::Kept, &id).await?;
    Ok(Json(Unshared {
        removed: removed.count,
    }))
}

/// Lists the shares, oldest first.
#[utoipa::path(get, path = "/v1/shares", operation_id = "list_shares", tag = "shares",
    responses(
        (status = 200, description = "The shares", body = ShareList),
        (status = 500, description = "The register of shares cannot be read", body = ProblemDocument)))]
pub async fn list(State(state): State<ApiState>) -> Answer<Json<ShareList>> {
    let shares = share::list(&state.services).await?;
    Ok(Json(ShareList {
        shares: shares.into_iter().map(view).collect(),
    }))
}

/// Returns the page of a share.
///
/// Its address is the only proof that is needed.
#[utoipa::path(get, path = "/share/{share_id}", operation_id = "get_share", tag = "shares", security(()),
    params(("share_id" = String, Path, description = "Id of the share")),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 404, description = "There is no such share", body = ProblemDocument)))]
pub async fn page(State(state): State<ApiState>, InPath(id): InPath<String>) -> Answer<Response> {
    let page = object(&state, &id, ShareObject::Page).await?;
    Ok(with_policy(page, POLICY))
}

/// Returns a recording of a share as asciicast.
///
/// Its address is the only proof that is needed.
#[utoipa::path(get, path = "/share/{share_id}/{recording}", operation_id = "get_share_recording", tag = "shares", security(()),
    params(
        ("share_id" = String, Path, description = "Id of the share"),
        ("recording" = String, Path, description = "Its number and `.cast`, such as `1.cast`")),
    responses(
        (status = 200, description = "The recording", content_type = "application/x-asciicast", body = String),
        (status = 404, description = "There is no such recording", body = ProblemDocument)))]
pub async fn recording(
    State(state): State<ApiState>,
    InPath((id, name)): InPath<(String, String)>,
) -> Answer<Response> {
    let number = name
        .strip_suffix(".cast")
        .and_then(|number| number.parse().ok());
    let number = number.ok_or_else(no_share)?;
    let mut response = object(&state, &id, ShareObject::Recording(number)).await?;
    // It is downloaded, whatever a browser would make of its content.
    let file = format!("attachment; filename=\"recording-{number}.cast\"");
    if let Ok(disposition) = HeaderValue::from_str(&file) {
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    Ok(response)
}

fn no_share() -> Problem {
    let hint = "ask the person who gave you the address for the current one";
    Problem::not_found("there is no such share", hint)
}

/// Returns an object of a share.
async fn object(state: &ApiState, id: &str, object: ShareObject) -> Answer<Response> {
    // The reader has no token: details of the fault belong in the log.
    let hidden = |error: Error| {
        tracing::warn!("a share cannot be sent: {}", error.message);
        no_share()
    };
    let config = state.services.models.config(&ConfigOverrides::default());
    if config.map_err(hidden)?.share.mode == ShareMode::Disabled {
        return Err(no_share());
    }
    let file = share::open(&state.services, id, object).await;
    let file = file.map_err(hidden)?.ok_or_else(no_share)?;
    let length = file.metadata().context(|| "its size is unknown".into());
    let length = length.map_err(hidden)?.len();
    let mut response = Response::new(file_body(Arc::new(file), 0, length));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    let kind = HeaderValue::from_static(object.content_type());
    headers.insert(header::CONTENT_TYPE, kind);
    Ok(response)
}
