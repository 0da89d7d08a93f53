//! Extractors that refuse a request with a problem document.

use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde::de::DeserializeOwned;

use super::exact_json::{self, BodyFault};
use super::problem::{Answer, Problem};
use crate::safety::redact::global_redactor;

/// Time for the body of a request to arrive.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of the body of most requests, in bytes.
const MAX_BODY: usize = 2 << 20;

/// Size from which a body is parsed on another thread, in bytes: other requests must not wait for that.
const LARGE: usize = 64 << 10;

/// A JSON body of at most `MAX` bytes.
#[derive(Debug)]
pub struct JsonBody<T, const MAX: usize = MAX_BODY>(pub T);

impl<S: Send + Sync, T: DeserializeOwned, const MAX: usize> FromRequest<S> for JsonBody<T, MAX> {
    type Rejection = Problem;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, Problem> {
        // Before the body is read: a client that waits for `100 Continue` need not send it.
        if request.body().size_hint().lower() > MAX as u64 {
            return Err(too_large(MAX));
        }
        let mut codings = request.headers().get_all(header::CONTENT_ENCODING).iter();
        if codings.any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "usage",
                "the body has a content coding",
                "send it without Content-Encoding",
            )
            .header(header::ACCEPT_ENCODING, "identity"));
        }
        if !is_json(single(request.headers(), &header::CONTENT_TYPE)?) {
            return Err(Problem::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "usage",
                "the body is not declared as JSON",
                "send JSON with the header Content-Type: application/json",
            ));
        }
        DefaultBodyLimit::max(MAX).apply(&mut request);
        let read = Bytes::from_request(request, state);
        let Ok(read) = tokio::time::timeout(BODY_TIMEOUT, read).await else {
            let seconds = BODY_TIMEOUT.as_secs();
            let message = format!("the body did not arrive within {seconds} s");
            let hint = "send it without delay";
            return Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "limit",
                message,
                hint,
            ));
        };
        let body = read.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(MAX),
            _ => Problem::bad_request(one_line(&rejection.body_text()), BODY_HINT),
        })?;
        let invalid = |message: &str| Problem::invalid(one_line(message), BODY_HINT);
        let parsed = match body.len() > LARGE {
            // The work panics only if the program has a fault; it is then done here.
            true => {
                let shared = body.clone();
                let parsed = tokio::task::spawn_blocking(move || exact_json::parse(&shared));
                parsed.await.unwrap_or_else(|_| exact_json::parse(&body))
            }
            false => exact_json::parse(&body),
        };
        let body = parsed.map_err(|fault| match fault {
            BodyFault::Syntax(message) => {
                let message = one_line(&format!("the body is not JSON: {message}"));
                Problem::bad_request(message, BODY_HINT)
            }
            BodyFault::Inexact(message) => invalid(&message),
        })?;
        // The fields in order, as an array, would be accepted too.
        if !body.is_object() {
            return Err(invalid("the body is not a JSON object"));
        }
        serde_path_to_error::deserialize(body)
            .map(JsonBody)
            .map_err(|e| invalid(&typed_fault(&e)))
    }
}

/// Says which field has a wrong value.
fn typed_fault(error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let (path, message) = (error.path().to_string(), error.inner().to_string());
    // The name of a field that is unknown is in the message.
    match path == "." || message.starts_with("unknown field") {
        true => message,
        false => format!("{path}: {message}"),
    }
}

const BODY_HINT: &str = "/doc describes the body";

fn too_large(maximum: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "limit",
        format!("the body is larger than {maximum} bytes"),
        "send less in one request",
    )
}

/// Whether the body is declared as JSON, or as a format that is written in it.
fn is_json(declared: Option<&HeaderValue>) -> bool {
    let declared = declared.and_then(|declared| declared.to_str().ok());
    let essence = declared.and_then(|declared| declared.split(';').next());
    let essence = essence.unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.strip_prefix("application/").unwrap_or_default();
    subtype == "json" || subtype.ends_with("+json")
}

/// Returns a header that may be given once: servers and proxies disagree on which of two counts.
pub fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Answer<Option<&'h HeaderValue>> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (value, None) => Ok(value),
        (_, Some(_)) => Err(given_twice(name)),
    }
}

/// Refuses a header that is given twice.
pub fn given_twice(name: &HeaderName) -> Problem {
    Problem::bad_request(format!("the header {name} is given twice"), "send it once")
}

/// The parameters in the path.
#[derive(Debug)]
pub struct InPath<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(parameters)) => Ok(InPath(parameters)),
            Err(rejection) => {
                let hint = "the path is percent-encoded UTF-8; /doc describes its parameters";
                Err(Problem::bad_request(one_line(&rejection.body_text()), hint))
            }
        }
    }
}

/// The parameters after `?`.
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
    let hint = "/doc describes the parameters";
    Problem::bad_request(one_line(&rejection.body_text()), hint)
}

/// The text of a rejection quotes the request: one line, without control characters.
fn one_line(text: &str) -> String {
    let text = global_redactor().redact(text);
    let visible = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    visible.take(300).collect()
}
