//! Server failures, described in one line for a person.

use std::error::Error as _;

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::excerpt::excerpt;
use super::stdio::ExitReason;
use crate::config::mcp::{ServerSettings, ServerTransport, TokenSource};
use crate::error::Error;

/// Maximum size in bytes of a response, as one JSON body or one SSE event. `rmcp` uses the same limit for JSON.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Class of a fault; decides about reconnect and login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    /// The server requires a login (HTTP 401).
    LoginRequired,
    /// The server cannot be reached.
    Unreachable,
    /// The connection has ended.
    Disconnected,
    /// The server responded with an error or with something invalid.
    BadResponse,
}

/// Failure of a session or a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerFault {
    pub(super) kind: FaultKind,
    pub(super) message: String,
    /// JSON-RPC error code.
    pub(super) code: Option<i32>,
}

impl ServerFault {
    pub(super) fn new(kind: FaultKind, message: impl Into<String>) -> ServerFault {
        ServerFault {
            kind,
            message: excerpt(&message.into()),
            code: None,
        }
    }

    pub(super) fn disconnected(message: impl Into<String>) -> ServerFault {
        ServerFault::new(FaultKind::Disconnected, message)
    }

    pub(super) fn bad_response(message: impl Into<String>) -> ServerFault {
        ServerFault::new(FaultKind::BadResponse, message)
    }

    /// The connection has ended, with the exit reason if it was a child process.
    pub(super) fn connection_ended(note: Option<&ExitReason>) -> ServerFault {
        match note.and_then(ExitReason::text) {
            Some(reason) => ServerFault::disconnected(format!("it {reason}")),
            None => ServerFault::disconnected("the connection has ended"),
        }
    }

    fn login_required() -> ServerFault {
        ServerFault::new(FaultKind::LoginRequired, "it requires a login (HTTP 401)")
    }

    /// Message with a hint what to do, where there is one.
    pub(super) fn message_with_hint(&self, server: &ServerSettings) -> String {
        let alias = &server.alias;
        match (&self.kind, &server.transport) {
            (
                FaultKind::LoginRequired,
                ServerTransport::Http {
                    auth: TokenSource::None,
                    ..
                },
            ) => {
                format!("{}: aish-helper mcp login {alias}", self.message)
            }
            (FaultKind::LoginRequired, _) => {
                format!("it rejects its token (HTTP 401): see [mcp.servers.{alias}]")
            }
            _ => self.message.clone(),
        }
    }
}

impl From<Error> for ServerFault {
    fn from(error: Error) -> ServerFault {
        ServerFault::bad_response(error.message)
    }
}

impl From<ErrorData> for ServerFault {
    fn from(error: ErrorData) -> ServerFault {
        let code = error.code.0;
        // Some servers repeat the code in the message.
        let line = match error.message.contains(&code.to_string()) {
            true => error.message.into_owned(),
            false => format!("{} ({code})", excerpt(&error.message)),
        };
        ServerFault {
            code: Some(code),
            ..ServerFault::bad_response(line)
        }
    }
}

impl From<ServiceError> for ServerFault {
    fn from(error: ServiceError) -> ServerFault {
        match error {
            ServiceError::McpError(e) => e.into(),
            ServiceError::TransportSend(e) => (&e).into(),
            ServiceError::TransportClosed => ServerFault::connection_ended(None),
            ServiceError::UnexpectedResponse => {
                ServerFault::bad_response("it sent an unexpected answer")
            }
            other => ServerFault::bad_response(other.to_string()),
        }
    }
}

impl From<ClientInitializeError> for ServerFault {
    fn from(error: ClientInitializeError) -> ServerFault {
        match error {
            ClientInitializeError::TransportError { error, .. } => (&error).into(),
            ClientInitializeError::JsonRpcError(e) => e.into(),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => (*fallback).into(),
            ClientInitializeError::ConnectionClosed(_) => {
                ServerFault::disconnected("the connection ended before the server was ready")
            }
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
                ServerFault::bad_response("it supports no protocol version that aish supports")
            }
            // The other variants contain the server's raw answer.
            _ => ServerFault::bad_response("its first answer is not MCP"),
        }
    }
}

impl From<&DynamicTransportError> for ServerFault {
    fn from(error: &DynamicTransportError) -> ServerFault {
        match error
            .error
            .downcast_ref::<StreamableHttpError<reqwest::Error>>()
        {
            Some(e) => http_fault(e),
            None => ServerFault::disconnected(error.error.to_string()),
        }
    }
}

fn http_fault(error: &StreamableHttpError<reqwest::Error>) -> ServerFault {
    use StreamableHttpError as E;
    match error {
        E::Client(e) => client_fault(e),
        E::AuthRequired(_) => ServerFault::login_required(),
        E::InsufficientScope(_) => ServerFault::bad_response(
            "the login lacks permissions (HTTP 403); to add them: aish-helper mcp login",
        ),
        E::HttpStatus(e) => ServerFault::bad_response(format!("it answered HTTP {}", e.status)),
        E::UnexpectedServerResponse(message) => unexpected_response_fault(message),
        E::UnexpectedContentType(Some(message)) => {
            let message: String = message.chars().take(40).collect();
            ServerFault::bad_response(format!(
                "it answered with {message}, so it is not an MCP server"
            ))
        }
        E::UnexpectedContentType(None) => ServerFault::bad_response(
            "it answered without a content type, so it is not an MCP server",
        ),
        E::ResponseBodyTooLarge { .. } => ServerFault::bad_response(format!(
            "its answer is larger than {} MiB",
            MAX_MESSAGE_BYTES / 1024 / 1024
        )),
        E::SessionExpired => ServerFault::disconnected("its session has ended"),
        E::ReinitializationFailed(e) => {
            ServerFault::disconnected(format!("it did not start a new session: {}", e.message))
        }
        E::SessionRecoveryTimeout => {
            ServerFault::disconnected("it did not start a new session in time")
        }
        E::Sse(_) | E::Io(_) | E::UnexpectedEndOfStream => {
            ServerFault::bad_response("its answer was cut off")
        }
        E::TransportChannelClosed => ServerFault::disconnected("the connection has ended"),
        E::ReservedHeaderConflict(name) => {
            ServerFault::bad_response(format!("the header {name} cannot be set"))
        }
        _ => ServerFault::bad_response("its answer is not MCP"),
    }
}

/// Converts `HTTP 404 Not Found: BODY`, whose body is not shown, or one of our own messages, which start with `it `.
fn unexpected_response_fault(message: &str) -> ServerFault {
    let Some(rest) = message.strip_prefix("HTTP ") else {
        let is_own = message.starts_with("it ");
        let line = if is_own {
            message
        } else {
            "its answer is not MCP"
        };
        return ServerFault::bad_response(line);
    };
    let status = rest.split(':').next().unwrap_or_default();
    if status.starts_with("401") {
        return ServerFault::login_required();
    }
    ServerFault::bad_response(format!("it answered HTTP {status}"))
}

fn client_fault(error: &reqwest::Error) -> ServerFault {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let reason = match root.downcast_ref::<std::io::Error>() {
        Some(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
        // The outer errors contain the URL, which may hold a secret.
        _ if error.source().is_some() => root.to_string(),
        _ => String::new(),
    };
    if error.is_connect() && error.is_timeout() {
        ServerFault::new(FaultKind::Unreachable, "cannot connect: no answer in time")
    } else if error.is_connect() {
        ServerFault::new(FaultKind::Unreachable, format!("cannot connect: {reason}"))
    } else if error.is_timeout() {
        ServerFault::bad_response("no answer in time")
    } else {
        // The server may still be reachable: other calls continue.
        ServerFault::bad_response(format!("the connection was lost: {reason}"))
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[test]
    fn error_code_is_shown_once() {
        let line = |message: &'static str| {
            ServerFault::from(ErrorData::new(ErrorCode(-32602), message, None)).message
        };
        assert_eq!(line("no\nname"), "no name (-32602)");
        assert_eq!(
            line("MCP error -32602: no name"),
            "MCP error -32602: no name"
        );
    }
}
