//! Refuses input that an operation does not declare: a request with parameters or a body that nobody reads means something other than what
//! would be done.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::LazyLock;

use axum::body::{Body, HttpBody};
use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::DOCUMENT;
use crate::api::problem::Problem;
use crate::api::request_body::BODY_TIMEOUT;

/// The operations of the API, as the document has them.
static OPERATIONS: LazyLock<Document> =
    LazyLock::new(|| serde_json::from_str(DOCUMENT).unwrap_or_default());

/// The parts of the document that are read: operations by path and method.
#[derive(Debug, Default, Deserialize)]
struct Document {
    paths: HashMap<String, HashMap<String, Operation>>,
}

#[derive(Debug, Deserialize)]
struct Operation {
    #[serde(default)]
    parameters: Vec<Parameter>,
    #[serde(rename = "requestBody")]
    body: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct Parameter {
    #[serde(rename = "in")]
    place: String,
}

/// Passes a request on, unless it has parameters or a body that its operation does not declare.
pub async fn refuse_undeclared(path: MatchedPath, mut request: Request, next: Next) -> Response {
    match undeclared(path.as_str(), &mut request).await {
        Some(part) => {
            let message = format!("this operation takes no {part}");
            let hint = "leave it out; /doc describes what the operation takes";
            Problem::bad_request(message, hint).into_response()
        }
        None => next.run(request).await,
    }
}

/// Returns the parts of a request that its operation does not declare.
async fn undeclared(path: &str, request: &mut Request) -> Option<&'static str> {
    // Programs add parameters to the addresses of pages; those of shares are among them.
    if !path.starts_with("/v1/") {
        return None;
    }
    let method = match *request.method() {
        Method::HEAD => "get".to_owned(),
        ref method => method.as_str().to_ascii_lowercase(),
    };
    // Another method is refused after this.
    let operation = OPERATIONS.paths.get(path)?.get(&method)?;
    let has_query = request.uri().query().is_some_and(|query| !query.is_empty());
    let takes_query = || operation.parameters.iter().any(|p| p.place == "query");
    if has_query && !takes_query() {
        return Some("parameters behind ?");
    }
    (operation.body.is_none() && has_content(request.body_mut()).await).then_some("body")
}

/// Whether a body has any bytes: one in chunks says so with its first chunk. Takes those that it reads.
async fn has_content(body: &mut Body) -> bool {
    // Of a length that is known nothing is read: a client that waits for `100 Continue` need not send it.
    if body.is_end_stream() || body.size_hint().lower() > 0 {
        return !body.is_end_stream();
    }
    let content = async {
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
            // Trailers are not content; a body that cannot be read has content.
            let is_empty =
                frame.map(|frame| frame.into_data().map_or(true, |data| data.is_empty()));
            if !is_empty.unwrap_or(false) {
                return true;
            }
        }
        false
    };
    let content = tokio::time::timeout(BODY_TIMEOUT, content).await;
    content.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_document_says_what_an_operation_takes() {
        let session = "/v1/sessions/{session_id}";
        let cancel = "/v1/sessions/{session_id}/cancel";
        for (method, path, query, body, expected) in [
            (
                "DELETE",
                session,
                "?dry_run=1",
                "",
                Some("parameters behind ?"),
            ),
            ("DELETE", session, "?", "", None),
            ("DELETE", session, "", "{}", Some("body")),
            ("PATCH", session, "", "{}", None),
            ("POST", cancel, "?message_id=1", "", None),
            ("POST", cancel, "", "{\"message_id\":\"1\"}", Some("body")),
            ("GET", "/v1/sessions", "?limit=1", "", None),
            ("HEAD", "/v1/sessions", "?limit=1", "", None),
            ("HEAD", session, "?limit=1", "", Some("parameters behind ?")),
            ("GET", "/share/{share_id}", "?from=mail", "", None),
            ("PUT", session, "?x", "x", None),
        ] {
            let request = Request::builder().method(method).uri(format!("/x{query}"));
            let mut request = request.body(Body::from(body)).unwrap();
            assert_eq!(
                undeclared(path, &mut request).await,
                expected,
                "{method} {path}{query} {body}"
            );
        }
    }
}
