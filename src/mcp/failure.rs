//! What went wrong with a server, in one line for a person.

use std::error::Error as _;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::ErrorData;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::http::MAX_MESSAGE;
use super::stdio::EndNote;
use crate::config::mcp::{Auth, Server, Transport};
use crate::error::Error;
use crate::safety::redact::ours;
use crate::secret::Secret;

/// The longest line, in characters.
const LINE: usize = 300;

/// What became of a session or a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The server wants a person to log in.
    Login,
    /// Nobody is there.
    Away,
    /// There is no connection any more.
    Lost,
    /// It answered, but not as it should.
    Answer,
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) line: String,
    /// Of a JSON-RPC error.
    pub(super) code: Option<i32>,
}

impl Fault {
    pub(super) fn new(kind: Kind, line: impl Into<String>) -> Fault {
        Fault {
            kind,
            line: brief(&line.into()),
            code: None,
        }
    }

    pub(super) fn lost(line: impl Into<String>) -> Fault {
        Fault::new(Kind::Lost, line)
    }

    pub(super) fn answer(line: impl Into<String>) -> Fault {
        Fault::new(Kind::Answer, line)
    }

    /// The connection is no more: why, where it was one to a child that has ended.
    pub(super) fn ended(note: Option<&EndNote>) -> Fault {
        match note.and_then(EndNote::text) {
            Some(why) => Fault::lost(format!("it {why}")),
            None => Fault::lost("the connection has ended"),
        }
    }

    fn login() -> Fault {
        Fault::new(Kind::Login, "it wants a login (HTTP 401)")
    }

    /// The line, with what to do next where there is something.
    pub(super) fn hinted(&self, server: &Server) -> String {
        let alias = &server.alias;
        match (&self.kind, &server.transport) {
            (
                Kind::Login,
                Transport::Http {
                    auth: Auth::None, ..
                },
            ) => {
                format!("{}: aish-helper mcp login {alias}", self.line)
            }
            (Kind::Login, _) => {
                format!("it does not take its token (HTTP 401): see [mcp.servers.{alias}]")
            }
            _ => self.line.clone(),
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::answer(error.message)
    }
}

impl From<ErrorData> for Fault {
    fn from(error: ErrorData) -> Fault {
        let code = error.code.0;
        // Some have it in their words.
        let line = match error.message.contains(&code.to_string()) {
            true => error.message.into_owned(),
            false => format!("{} ({code})", brief(&error.message)),
        };
        Fault {
            code: Some(code),
            ..Fault::answer(line)
        }
    }
}

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Fault {
        match error {
            ServiceError::McpError(e) => e.into(),
            ServiceError::TransportSend(e) => (&e).into(),
            ServiceError::TransportClosed => Fault::ended(None),
            ServiceError::UnexpectedResponse => {
                Fault::answer("it answered something that was not asked for")
            }
            other => Fault::answer(other.to_string()),
        }
    }
}

impl From<ClientInitializeError> for Fault {
    fn from(error: ClientInitializeError) -> Fault {
        match error {
            ClientInitializeError::TransportError { error, .. } => (&error).into(),
            ClientInitializeError::JsonRpcError(e) => e.into(),
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => (*fallback).into(),
            ClientInitializeError::ConnectionClosed(_) => {
                Fault::lost("the connection ended before the server was ready")
            }
            ClientInitializeError::NoCompatibleProtocolVersion { .. } => {
                Fault::answer("it speaks no version of the protocol that is known here")
            }
            // The others show what came, which may be anything.
            _ => Fault::answer("it does not begin as an MCP server does"),
        }
    }
}

impl From<&DynamicTransportError> for Fault {
    fn from(error: &DynamicTransportError) -> Fault {
        match error
            .error
            .downcast_ref::<StreamableHttpError<reqwest::Error>>()
        {
            Some(e) => http(e),
            None => Fault::lost(error.error.to_string()),
        }
    }
}

fn http(error: &StreamableHttpError<reqwest::Error>) -> Fault {
    use StreamableHttpError as E;
    match error {
        E::Client(e) => client(e),
        E::AuthRequired(_) => Fault::login(),
        E::InsufficientScope(_) => Fault::answer(
            "the login does not reach so far (HTTP 403); to allow more: aish-helper mcp login",
        ),
        E::HttpStatus(e) => Fault::answer(format!("it answered HTTP {}", e.status)),
        E::UnexpectedServerResponse(what) => unexpected(what),
        E::UnexpectedContentType(Some(what)) => {
            let what: String = what.chars().take(40).collect();
            Fault::answer(format!("it answered with {what}, so it is no MCP server"))
        }
        E::UnexpectedContentType(None) => {
            Fault::answer("it answered without a type, so it is no MCP server")
        }
        E::ResponseBodyTooLarge { .. } => Fault::answer(format!(
            "its answer is larger than {} MiB",
            MAX_MESSAGE / 1024 / 1024
        )),
        E::SessionExpired => Fault::lost("its session has ended"),
        E::ReinitializationFailed(e) => {
            Fault::lost(format!("it gave no new session: {}", e.message))
        }
        E::SessionRecoveryTimeout => Fault::lost("it gave no new session in time"),
        E::Sse(_) | E::Io(_) | E::UnexpectedEndOfStream => Fault::answer("its answer broke off"),
        E::TransportChannelClosed => Fault::lost("the connection has ended"),
        E::ReservedHeaderConflict(name) => {
            Fault::answer(format!("the header {name} cannot be set"))
        }
        _ => Fault::answer("it answered something that is no MCP"),
    }
}

/// `HTTP 404 Not Found: …`, where the rest is a body, or words of our own.
fn unexpected(what: &str) -> Fault {
    let Some(rest) = what.strip_prefix("HTTP ") else {
        let ours = what.starts_with("it ");
        let line = if ours {
            what
        } else {
            "it answered something that is no MCP"
        };
        return Fault::answer(line);
    };
    let status = rest.split(':').next().unwrap_or_default();
    if status.starts_with("401") {
        return Fault::login();
    }
    Fault::answer(format!("it answered HTTP {status}"))
}

fn client(error: &reqwest::Error) -> Fault {
    let mut root: &dyn std::error::Error = error;
    while let Some(source) = root.source() {
        root = source;
    }
    let why = match root.downcast_ref::<std::io::Error>() {
        Some(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
        // The outermost names the address, which may hold a secret.
        _ if error.source().is_some() => root.to_string(),
        _ => String::new(),
    };
    if error.is_connect() && error.is_timeout() {
        Fault::new(Kind::Away, "cannot connect: no answer in time")
    } else if error.is_connect() {
        Fault::new(Kind::Away, format!("cannot connect: {why}"))
    } else if error.is_timeout() {
        Fault::answer("no answer in time")
    } else {
        // The server may well be there: other calls go on.
        Fault::answer(format!("the connection broke off: {why}"))
    }
}

/// On one line, and not too long of it. Other characters are the business of whoever prints it.
pub(super) fn brief(text: &str) -> String {
    let mut line = String::new();
    let mut left = LINE;
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        for c in word.chars() {
            if left == 0 {
                line.push('…');
                return line;
            }
            left -= 1;
            line.push(c);
        }
    }
    line
}

/// What must not be shown of a server's words. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Secrets {
    fixed: Arc<[Secret]>,
    /// The token of a login, which is renewed in the middle of a session, and the one before it.
    tokens: Arc<Mutex<[Option<Secret>; 2]>>,
}

impl Secrets {
    pub(super) fn new(fixed: Vec<Secret>) -> Secrets {
        Secrets {
            fixed: fixed.into(),
            tokens: Arc::default(),
        }
    }

    /// This is the token of the login from now on.
    pub(super) fn now(&self, token: &Secret) {
        ours().know("mcp-token", token.expose());
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens[0].as_ref() != Some(token) {
            let before = tokens[0].replace(token.clone());
            tokens[1] = before;
        }
    }

    /// `text` without them.
    pub(super) fn mask(&self, text: &str) -> String {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.fixed.iter().chain(tokens.iter().flatten());
        all.fold(text.to_owned(), |text, secret| secret.mask(&text))
    }

    /// The same, without them.
    pub(super) fn masked(&self, mut fault: Fault) -> Fault {
        fault.line = self.mask(&fault.line);
        fault
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[test]
    fn the_code_of_an_error_is_said_once() {
        let line = |message: &'static str| {
            Fault::from(ErrorData::new(ErrorCode(-32602), message, None)).line
        };
        assert_eq!(line("no\nname"), "no name (-32602)");
        assert_eq!(
            line("MCP error -32602: no name"),
            "MCP error -32602: no name"
        );
    }
}
