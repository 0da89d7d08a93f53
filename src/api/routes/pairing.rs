//! The pairing of a browser, which then may answer questions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};

use super::MAX_TICKET;
use crate::api::ApiState;
use crate::api::credentials::Access;
use crate::api::extract::JsonBody;
use crate::api::pairing::PairingState;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::types::{NewPairing, PairingView, PairingWord, Ticket};
use crate::history::journal::now_ms;

const ANEW: &str = "start again: aish-helper web --approve";
/// How long a request waits for the person's decision, in milliseconds.
const WAIT_MS: u64 = 20_000;

/// Takes the one-use ticket of `aish-helper web --approve`, and returns a bearer and a code.
///
/// The bearer is valid once the person has confirmed at the terminal that the browser shows the same code, within two minutes.
#[utoipa::path(post, path = "/v1/pairing", operation_id = "begin_pairing", tag = "questions", security(()), request_body = Ticket,
    responses(
        (status = 200, description = "The bearer and the code", body = NewPairing),
        (status = 401, description = "The ticket was used, is too old, or is not a ticket", body = ProblemDocument)))]
pub async fn begin(
    State(state): State<ApiState>,
    JsonBody(Ticket { ticket }): JsonBody<Ticket, MAX_TICKET>,
) -> Answer<Json<NewPairing>> {
    let pairings = &state.credentials.pairings;
    let pending = pairings.redeem(&ticket, now_ms()).ok_or_else(|| {
        Problem::new(
            StatusCode::UNAUTHORIZED,
            "authentication",
            "the ticket was used already, is older than a minute, or is not a ticket",
            "if nobody else could have used it, start again: aish-helper web --approve",
        )
    })?;
    Ok(Json(NewPairing {
        bearer: pending.bearer.expose().to_owned(),
        code: pending.code,
    }))
}

/// Tells how far the pairing is whose bearer the request has.
///
/// While the person has not decided, the request waits for the decision, up to 20 seconds. A pairing ends after 12 hours, with
/// `aish-helper serve unpair`, and with the daemon.
#[utoipa::path(get, path = "/v1/pairing", operation_id = "get_pairing", tag = "questions",
    responses(
        (status = 200, description = "The pairing", body = PairingView),
        (status = 403, description = "The person has refused the pairing", body = ProblemDocument),
        (status = 410, description = "The pairing has expired", body = ProblemDocument)))]
pub async fn get(
    State(state): State<ApiState>,
    Extension(access): Extension<Access>,
) -> Answer<Json<PairingView>> {
    let (Access::Paired(id) | Access::Unconfirmed(id)) = access else {
        return Ok(Json(PairingView {
            state: PairingWord::None,
            expires_in_ms: None,
            bearer: None,
        }));
    };
    let pairings = &state.credentials.pairings;
    tokio::select! {
        () = state.end.cancelled() => {}
        () = pairings.decided(id, WAIT_MS) => {}
    }
    let now = now_ms();
    let Some((reached, until_ms)) = pairings.state(id, now) else {
        let message = "the pairing has expired";
        return Err(Problem::new(StatusCode::GONE, "approval", message, ANEW));
    };
    let (word, bearer) = match reached {
        PairingState::Paired => (PairingWord::Paired, Some(state.credentials.browser())),
        PairingState::Offered | PairingState::Waiting(_) => (PairingWord::Waiting, None),
        PairingState::Refused => {
            let message = "the pairing was refused in the terminal";
            return Err(Problem::new(
                StatusCode::FORBIDDEN,
                "approval",
                message,
                ANEW,
            ));
        }
    };
    Ok(Json(PairingView {
        state: word,
        expires_in_ms: Some(until_ms.saturating_sub(now)),
        bearer: bearer.map(|bearer| bearer.expose().to_owned()),
    }))
}

/// Ends the pairing whose bearer the request has.
#[utoipa::path(delete, path = "/v1/pairing", operation_id = "end_pairing", tag = "questions",
    responses((status = 204, description = "The browser is no longer paired, or was not paired before")))]
pub async fn end(
    State(state): State<ApiState>,
    Extension(access): Extension<Access>,
) -> StatusCode {
    if let Access::Paired(id) | Access::Unconfirmed(id) = access {
        state.credentials.pairings.remove(id);
    }
    StatusCode::NO_CONTENT
}
