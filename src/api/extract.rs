//! Extractors that refuse a request with a problem document.

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// A JSON body.
#[derive(Debug)]
pub struct JsonBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        match axum::Json::<T>::from_request(request, state).await {
            Ok(axum::Json(body)) => Ok(JsonBody(body)),
            Err(rejection) => Err(body_problem(&rejection)),
        }
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
