//! Refusals and failures as problem documents ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)).

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::types::events::ProblemKind;
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
    pub hint: String,
    /// Headers that the status demands.
    pub headers: Vec<(HeaderName, HeaderValue)>,
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
    /// What kind of refusal or failure it is.
    #[schema(value_type = ProblemKind)]
    pub kind: &'static str,
    /// What failed and where, in one line.
    pub message: String,
    /// What to do next, in one line.
    pub hint: String,
}

/// Result of a handler.
pub type Answer<T> = std::result::Result<T, Problem>;

impl Problem {
    /// Creates a problem.
    pub fn new(
        status: StatusCode,
        kind: &'static str,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Problem {
        Problem {
            status,
            kind,
            message: message.into(),
            hint: hint.into(),
            headers: Vec::new(),
        }
    }

    /// Adds a header to the response.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Problem {
        self.headers
            .extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    /// There is no such thing.
    pub fn not_found(message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", message, hint)
    }

    /// The request is invalid.
    pub fn bad_request(message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "usage", message, hint)
    }

    /// A value of the request is invalid.
    pub fn invalid(message: impl Into<String>, hint: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "usage", message, hint)
    }

    /// The path does not take the method of the request, only those in `allow`.
    pub fn method_not_allowed(allow: &str) -> Problem {
        let hint = "the header Allow says which methods it takes; /doc describes them";
        let message = "this path does not take this method";
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "usage", message, hint)
            .header(header::ALLOW, allow)
    }

    /// Returns the document, as JSON.
    pub fn document(self) -> Vec<u8> {
        let Problem {
            status,
            kind,
            message,
            hint,
            headers: _,
        } = self;
        // Messages may quote the request, or a message of a provider.
        let redact = |text: String| global_redactor().redact(&text).into_owned();
        let (message, hint) = (redact(message), redact(hint));
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
        let hint = error.hint.unwrap_or_else(|| {
            let next = match error.kind {
                ErrorKind::Runtime => "try again; aish-helper doctor looks for the cause",
                ErrorKind::Usage => "/doc describes the operation",
                ErrorKind::Config => "aish-helper config check lists what is wrong",
                ErrorKind::Approval => "aish-helper policy list shows the rules",
                ErrorKind::Interrupted => "send the request again",
            };
            next.to_owned()
        });
        Problem::new(status, error.kind.as_str(), error.message, hint)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let own = self.headers.clone();
        let mut response = (status, self.document()).into_response();
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"aish\""),
            );
        }
        for (name, value) in own {
            headers.append(name, value);
        }
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        response
    }
}
