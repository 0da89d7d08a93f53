//! Requests to another aish server.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, Url};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::broker::endpoint::authority;
use crate::broker::transport::{HttpResponse, HttpTransport};
use crate::broker::{ModelEndpoint, retry};
use crate::error::{Error, Result};

/// How long the server may take for a response that is not a stream.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a cancellation may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a reply.
const MAX_REPLY: usize = 256 << 10;
/// Maximum length of a message of the server, in columns.
const MAX_MESSAGE: usize = 300;
/// Maximum length of an id.
pub const MAX_ID: usize = 64;
/// Maximum length of a cursor.
const MAX_CURSOR: usize = 512;

/// The problem document of a refusal.
#[derive(Deserialize)]
struct ProblemReply {
    message: String,
    hint: Option<String>,
}

/// Requests to one server.
#[derive(Clone)]
pub struct ServerCall {
    transport: Arc<HttpTransport>,
    /// The server.
    pub endpoint: ModelEndpoint,
}

impl ServerCall {
    /// Returns a client of the server at this endpoint.
    pub fn new(transport: &Arc<HttpTransport>, endpoint: &ModelEndpoint) -> ServerCall {
        ServerCall {
            transport: transport.clone(),
            endpoint: endpoint.clone(),
        }
    }

    /// The server, as messages name it.
    fn place(&self) -> &str {
        &self.endpoint.base_url
    }

    /// Sends a request and waits for the head of a successful response. `query` is a parameter of the URL.
    ///
    /// # Errors
    /// The status, which is 0 if there was no response, and the error for the user.
    pub async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: Option<(&str, &str)>,
        body: Option<&Value>,
    ) -> std::result::Result<HttpResponse, (u16, Error)> {
        let failed = |error: Error| (0, error);
        let mut url = self.endpoint.url(path).map_err(failed)?;
        if let Some((name, value)) = query {
            url.query_pairs_mut().append_pair(name, value);
        }
        let headers = self.endpoint.header_map().map_err(failed)?;
        let body = body.map(Value::to_string).unwrap_or_default();
        let sent = self.transport.send(method, &url, headers, body.into());
        let response = match tokio::time::timeout(REPLY_TIMEOUT, sent).await {
            Ok(response) => response.map_err(failed)?,
            Err(_) => {
                let time = retry::readable(REPLY_TIMEOUT);
                let message = format!("{} has been silent for {time}", authority(&url));
                return Err(failed(Error::runtime(message).hint("try again later")));
            }
        };
        match response.status() {
            200..=299 => Ok(response),
            status => Err((status, self.refusal(&url, response).await)),
        }
    }

    /// Sends a request and reads its reply.
    ///
    /// # Errors
    /// The server is not reached, refuses the request, or replies in another form.
    pub async fn reply<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<T> {
        let response = self.send(method, path, None, body).await;
        self.read(response.map_err(|(_, error)| error)?).await
    }

    /// Reads a reply.
    ///
    /// # Errors
    /// It has another form.
    pub async fn read<T: DeserializeOwned>(&self, mut response: HttpResponse) -> Result<T> {
        let (body, _) = response.read_body(MAX_REPLY, REPLY_TIMEOUT).await;
        serde_json::from_slice(&body).map_err(|_| self.not_aish())
    }

    /// Returns the error for a server that is not an aish server.
    pub fn not_aish(&self) -> Error {
        let message = format!("{} does not answer as an aish server does", self.place());
        Error::runtime(message).hint("on that machine, aish-helper serve status prints the address")
    }

    /// Returns the error for a response that is not successful.
    async fn refusal(&self, url: &Url, mut response: HttpResponse) -> Error {
        let (status, place) = (response.status(), self.place());
        if matches!(status, 300..=399) {
            let location = response.header("location").unwrap_or_default();
            let location = String::from_utf8_lossy(location).into_owned();
            // The rest of the address is not shown: it may contain anything.
            let target = url.join(&location).ok().map(|to| to.origin());
            let target = target.filter(|origin| origin.is_tuple());
            let target = target.map_or("nowhere".to_owned(), |to| to.ascii_serialization());
            let target = plain_line(&target, MAX_MESSAGE);
            let message = format!("{place} redirects to {target}; a redirect is never followed");
            return Error::runtime(message).hint("attach the server itself: aish attach URL");
        }
        let (body, _) = response.read_body(MAX_REPLY, REPLY_TIMEOUT).await;
        let problem = serde_json::from_slice::<ProblemReply>(&body).ok();
        let said = |text: &str| plain_line(&self.endpoint.quote_masked(text), MAX_MESSAGE);
        if status == 401 {
            let message = match self.endpoint.key {
                Some(_) => format!("{place} refuses the token"),
                None => format!("no token is stored for {place}"),
            };
            let mut error = Error::config(message).hint(format!(
                "aish attach {place} asks for another one; on that machine, aish-helper serve token show prints it"
            ));
            error.key_rejected = true;
            return error;
        }
        match problem {
            Some(problem) => {
                let error = Error::runtime(format!("{place}: {}", said(&problem.message)));
                match problem.hint {
                    Some(hint) => error.hint(format!("there: {}", said(&hint))),
                    None => error,
                }
            }
            None => Error::runtime(format!("{place} answers with the status {status}"))
                .hint("on that machine, aish-helper serve status prints the address"),
        }
    }

    /// Cancels the answer to a prompt, if it is the running one of its session.
    pub async fn cancel(&self, session: &str, message: &str) {
        let path = ["v1", "sessions", session, "cancel"];
        let sent = self.send(Method::POST, &path, Some(("message_id", message)), None);
        if let Ok(Err((_, error))) = tokio::time::timeout(CANCEL_TIMEOUT, sent).await {
            tracing::warn!("the answer is not cancelled there: {}", error.message);
        }
    }
}

/// Whether a text can be an id of a session or a prompt, which becomes part of a path.
pub fn is_id(text: &str) -> bool {
    let is_fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    !text.is_empty() && text.len() <= MAX_ID && text.bytes().all(is_fine)
}

/// Whether a text can be a position in a stream of events.
pub fn is_cursor(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_CURSOR && text.bytes().all(|b| b.is_ascii_graphic())
}

/// Returns a text of another server as one line of at most `max` characters, without control characters. Not with stand-ins for them:
/// what shows the line makes everything in it visible, and would do so with a stand-in once more.
pub fn plain_line(text: &str, max: usize) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    match text.char_indices().nth(max) {
        Some((end, _)) => text[..end].chars().map(visible).chain(['…']).collect(),
        None => text.chars().map(visible).collect(),
    }
}
