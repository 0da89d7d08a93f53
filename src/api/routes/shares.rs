//! Shares: preview, publish, remove, list, and their pages.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::api::ApiState;
use crate::api::extract::{InPath, JsonBody};
use crate::api::pages::with_policy;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{ShareChoice, ShareList, ShareResult, ShareView, Unshared};
use crate::config::{ConfigOverrides, ShareMode};
use crate::protocol::SharePhase;
use crate::requests::share::{self, CredentialSource};
use crate::share::page::POLICY;
use crate::share::register::{Share, SharePlace};

fn view(share: Share) -> ShareView {
    let is_here = share.place == SharePlace::Local;
    ShareView {
        path: is_here.then(|| format!("/share/{}", share.id)),
        url: share::address(&share, None),
        place: share::place_words(&share.place),
        id: share.id,
        session_id: share.session,
        title: share.title,
        created_ms: share.created_ms,
        is_published: share.phase == SharePhase::Published,
        is_automatic: share.is_automatic,
    }
}

/// Shares a session as a page. Without `digest` the reply is a preview, and nothing is published.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/share", tag = "shares", request_body = ShareChoice,
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
    let with_output = choice.with_output.unwrap_or(false);
    let preview = share::preview(services, &id, with_output).await?;
    let mut result = ShareResult {
        digest: preview.digest,
        title: preview.title,
        messages: preview.messages,
        removed: preview.removed,
        place: preview.place,
        share: None,
    };
    let Some(digest) = choice.digest else {
        return Ok((StatusCode::OK, Json(result)));
    };
    let published =
        share::publish(services, CredentialSource::Kept, &id, with_output, &digest).await?;
    result.share = Some(view(published));
    Ok((StatusCode::CREATED, Json(result)))
}

/// Removes the shares of a session, and verifies that their pages are gone.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/unshare", tag = "shares",
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
    let removed = share::unshare(&state.services, CredentialSource::Kept, &id).await?;
    Ok(Json(Unshared {
        removed: removed.count,
    }))
}

/// Lists the shares, oldest first.
#[utoipa::path(get, path = "/v1/shares", tag = "shares",
    responses((status = 200, description = "The shares", body = ShareList)))]
pub async fn list(State(state): State<ApiState>) -> Answer<Json<ShareList>> {
    let shares = share::list(&state.services).await?;
    Ok(Json(ShareList {
        shares: shares.into_iter().map(view).collect(),
    }))
}

/// Returns the page of a share. Its address is the only proof that is needed.
#[utoipa::path(get, path = "/share/{share_id}", tag = "shares", security(()),
    params(("share_id" = String, Path, description = "Id of the share")),
    responses(
        (status = 200, description = "The page", content_type = "text/html", body = String),
        (status = 404, description = "There is no such share", body = ProblemDocument)))]
pub async fn page(State(state): State<ApiState>, InPath(id): InPath<String>) -> Answer<Response> {
    // Who reads this has no token: what is wrong is for the log.
    let hidden = |error: crate::error::Error| {
        tracing::warn!("the page of a share cannot be sent: {}", error.message);
        Problem::not_found("there is no such share")
    };
    let config = state.services.models.config(&ConfigOverrides::default());
    if config.map_err(hidden)?.share.mode == ShareMode::Disabled {
        return Err(Problem::not_found("there is no such share"));
    }
    let page = share::page(&state.services, &id).await.map_err(hidden)?;
    let Some(page) = page else {
        return Err(Problem::not_found("there is no such share"));
    };
    Ok(with_policy(page.into_response(), POLICY))
}
