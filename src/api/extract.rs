//! Extractors that refuse a request with a problem document.

use std::time::Duration;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::problem::Problem;

/// Time for the body of a request to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the body of most requests, in bytes.
const MAX_BODY: usize = 2 << 20;

/// A JSON body of at most `MAX` bytes.
#[derive(Debug)]
pub struct JsonBody<T, const MAX: usize = MAX_BODY>(pub T);

impl<S: Send + Sync, T: DeserializeOwned, const MAX: usize> FromRequest<S> for JsonBody<T, MAX> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, Problem> {
        DefaultBodyLimit::max(MAX).apply(&mut request);
        let read = axum::Json::<Value>::from_request(request, state);
        let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, read).await else {
            let message = "the body did not arrive in time";
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "limit", message));
        };
        let body = match read {
            Ok(axum::Json(body)) => body,
            Err(rejection) => return Err(body_problem(&rejection)),
        };
        let invalid = |message: &str| {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "usage", one_line(message))
                .hint("/doc describes the body")
        };
        // The fields in order, as an array, would be accepted too.
        if !body.is_object() {
            return Err(invalid("the body is not a JSON object"));
        }
        serde_json::from_value(body)
            .map(JsonBody)
            .map_err(|e| invalid(&e.to_string()))
    }
}

fn body_problem(rejection: &JsonRejection) -> Problem {
    let problem = Problem::new(
        rejection.status(),
        "usage",
        one_line(&rejection.body_text()),
    );
    match rejection {
        JsonRejection::MissingJsonContentType(_) => {
            problem.hint("send JSON with the header Content-Type: application/json")
        }
        _ => problem.hint("/doc describes the body"),
    }
}

/// The parameters in the path.
#[derive(Debug)]
pub struct InPath<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(parameters)) => Ok(InPath(parameters)),
            Err(rejection) => Err(Problem::bad_request(one_line(&rejection.body_text()))),
        }
    }
}

/// The parameters behind `?`.
#[derive(Debug)]
pub struct Parameters<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(parameters)) => Ok(Parameters(parameters)),
            Err(rejection) => Err(query_problem(&rejection)),
        }
    }
}

fn query_problem(rejection: &QueryRejection) -> Problem {
    Problem::bad_request(one_line(&rejection.body_text())).hint("/doc describes the parameters")
}

/// The text of a rejection quotes the request: one line, without control characters.
fn one_line(text: &str) -> String {
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(300).collect()
}
