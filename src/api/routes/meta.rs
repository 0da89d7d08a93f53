//! The server itself: its health, version and documentation, and the exchange of tickets.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{DOCUMENT, MAX_TICKET};
use crate::api::ApiState;
use crate::api::extract::JsonBody;
use crate::api::pages;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{Health, Ticket, TicketBearer, Version};

/// Tells that the server answers.
#[utoipa::path(get, path = "/health", operation_id = "get_health", tag = "server", security(()),
    responses((status = 200, description = "The server answers", body = Health)))]
pub async fn health() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// Tells the version of the program.
#[utoipa::path(get, path = "/version", operation_id = "get_version", tag = "server", security(()),
    responses((status = 200, description = "The version", body = Version)))]
pub async fn version() -> Json<Version> {
    Json(Version {
        name: "aish",
        version: env!("CARGO_PKG_VERSION"),
        api: "v1",
    })
}

/// Returns this document.
#[utoipa::path(get, path = "/openapi.json", operation_id = "get_openapi", tag = "server", security(()),
    responses((status = 200, description = "The OpenAPI document", body = Object)))]
pub async fn openapi_json() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DOCUMENT).into_response()
}

/// Returns this document, or a page with it for browsers.
#[utoipa::path(get, path = "/doc", operation_id = "get_documentation", tag = "server", security(()),
    responses((status = 200, description = "The document: a page if `Accept` names `text/html`",
        content((Object = "application/json"), (String = "text/html")))))]
pub async fn doc(headers: HeaderMap) -> Response {
    if !pages::takes_html(&headers) {
        return openapi_json().await;
    }
    // It was made from such a value.
    let document = serde_json::from_str(DOCUMENT).unwrap_or_default();
    pages::document(&document)
}

/// Takes a one-use ticket of `aish-helper web`, and returns the bearer of the browser.
///
/// The page does so when it is opened, so that the token appears in no address.
#[utoipa::path(post, path = "/v1/tickets", operation_id = "redeem_ticket", tag = "server", security(()), request_body = Ticket,
    responses(
        (status = 200, description = "The bearer", body = TicketBearer),
        (status = 401, description = "The ticket was used, is too old, or is not a ticket", body = ProblemDocument)))]
pub async fn redeem(
    State(state): State<ApiState>,
    JsonBody(Ticket { ticket }): JsonBody<Ticket, MAX_TICKET>,
) -> Answer<Json<TicketBearer>> {
    let Some(bearer) = state.credentials.redeem(&ticket) else {
        return Err(Problem::new(
            StatusCode::UNAUTHORIZED,
            "authentication",
            "the ticket was used already, is older than a minute, or is not a ticket",
            "open the page again: aish-helper web",
        ));
    };
    let bearer = bearer.expose().to_owned();
    Ok(Json(TicketBearer { bearer }))
}
