//! Refusals and failures as problem documents ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::{Error, ErrorKind};
use crate::safety::redact::global_redactor;

/// Why a request was refused, or has failed.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// See [`ProblemDocument::kind`].
    pub kind: &'static str,
    /// What failed and where, in one line.
    pub message: String,
    /// What to do next, in one line.
    pub hint: Option<String>,
}

/// The form in which clients get a [`Problem`].
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument {
    /// Always `about:blank`: the status says what kind of problem it is.
    #[serde(rename = "type")]
    pub type_uri: &'static str,
    /// The name of the status.
    pub title: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// What failed and where: the same as `message`.
    pub detail: String,
    /// `runtime`, `usage`, `config`, `approval` or `interrupted`, as in `--json` of the command line; `authentication`,
    /// `origin`, `not_found` or `limit` for a refusal of the server.
    pub kind: &'static str,
    /// What failed and where, in one line.
    pub message: String,
    /// What to do next, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Result of a handler.
pub type Answer<T> = std::result::Result<T, Problem>;

impl Problem {
    /// Creates a problem.
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Problem {
        Problem {
            status,
            kind,
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The request is invalid.
    pub fn bad_request(message: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "usage", message)
    }

    /// Returns the document, as JSON.
    pub fn document(self) -> Vec<u8> {
        let Problem {
            status,
            kind,
            message,
            hint,
        } = self;
        // Messages may quote the request, or what a provider has said.
        let redact = |text: String| global_redactor().redact(&text).into_owned();
        let (message, hint) = (redact(message), hint.map(redact));
        let document = ProblemDocument {
            type_uri: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: message.clone(),
            kind,
            message,
            hint,
        };
        // A struct of strings and numbers always serializes.
        serde_json::to_vec(&document).unwrap_or_default()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let status = match error.kind {
            ErrorKind::Runtime => StatusCode::INTERNAL_SERVER_ERROR,
            ErrorKind::Usage => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::Config | ErrorKind::Interrupted => StatusCode::CONFLICT,
            ErrorKind::Approval => StatusCode::FORBIDDEN,
        };
        Problem {
            hint: error.hint,
            ..Problem::new(status, error.kind.as_str(), error.message)
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, self.document()).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"aish\""),
            );
        }
        response
    }
}
