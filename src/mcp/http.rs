//! Streamable HTTP transport: shared HTTP clients, and the token, redirect and retry rules that `rmcp` leaves open.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Client, StatusCode, Url};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::{BoxedSseResponse, ExponentialBackoff};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, StreamableHttpClient, StreamableHttpClientTransportConfig,
    StreamableHttpError, StreamableHttpPostResponse,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::auth::{TokenStore, is_authorization_header};
use super::failure::MAX_MESSAGE_BYTES;
use super::mask::SecretMask;
use super::types::ServerCredentials;
use crate::address::{check_key_transport, is_loopback};
use crate::config::mcp::{ServerSettings, ServerTransport};
use crate::error::{Error, ErrorContext, Result};
use crate::http_client::{ProxyUse, client_builder};
use crate::secret::Secret;

/// Time limit for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent calls to one server from all shells; further calls wait.
const MAX_CONCURRENT_CALLS: usize = 128;

/// A notification stream that ends sooner is not opened again in the same session.
const SHORT_STREAM: Duration = Duration::from_secs(30);

/// Maximum number of consecutive resumptions of a response stream, each within [`SHORT_STREAM`] of the one before.
const MAX_RESUMPTIONS: u32 = 10;

/// Delay before the single retry when a server is unreachable while a response stream is resumed.
const RESUME_RETRY_DELAY: Duration = Duration::from_millis(300);

/// Time limit for the `DELETE` that ends a session.
const DELETE_TIME_LIMIT: Duration = Duration::from_millis(500);

/// Maximum number of redirects within one server (`/mcp` to `/mcp/`).
const MAX_REDIRECTS: usize = 3;

/// HTTP clients shared by all servers. Created on first use: loading the root certificates costs time and memory.
#[derive(Debug)]
pub(super) struct HttpClients {
    tokens: TokenStore,
    /// For loopback addresses; never uses a proxy.
    local: Mutex<Option<Client>>,
    network: Mutex<Option<Client>>,
}

impl HttpClients {
    /// Creates the clients. OAuth tokens are read from `state`.
    pub(super) fn new(state: PathBuf) -> HttpClients {
        HttpClients {
            tokens: TokenStore::new(state),
            local: Mutex::default(),
            network: Mutex::default(),
        }
    }

    /// Returns the OAuth token of a server whose configuration has no credentials.
    ///
    /// # Errors
    /// The token has expired and cannot be renewed, or its file cannot be read.
    pub(super) async fn token(
        &self,
        server: &ServerSettings,
        credentials: &ServerCredentials,
    ) -> Result<Option<Secret>> {
        match &server.transport {
            ServerTransport::Http { url, headers, .. }
                if credentials.bearer.is_none()
                    && !headers.iter().any(|(n, _)| is_authorization_header(n)) =>
            {
                self.tokens.access_token(url).await
            }
            _ => Ok(None),
        }
    }

    /// Returns the client for `url`, creating it if needed.
    fn client_for(&self, url: &Url) -> Result<Client> {
        let local = is_loopback(url);
        let slot = if local { &self.local } else { &self.network };
        let mut slot = lock(slot);
        if let Some(client) = &*slot {
            return Ok(client.clone());
        }
        let proxy = match local {
            true => ProxyUse::Direct,
            false => ProxyUse::System,
        };
        let builder =
            client_builder(proxy, CONNECT_TIMEOUT).redirect(Policy::custom(redirect_within_server));
        let client = builder.build().context(|| "cannot set up HTTPS".into())?;
        *slot = Some(client.clone());
        Ok(client)
    }

    /// Creates a transport to a server. Cancelling `end` aborts whatever the transport waits for. OAuth tokens are added to
    /// `secrets` before they are sent.
    ///
    /// # Errors
    /// The URL or a header is invalid, or a secret would be sent unencrypted over a public network.
    pub(super) fn transport(
        &self,
        url: &str,
        headers: &[(String, String)],
        bearer: Option<&Secret>,
        secrets: SecretMask,
        end: CancellationToken,
    ) -> Result<StreamableHttpClientTransport<McpHttpClient>> {
        let parsed = Url::parse(url).map_err(|_| Error::config("its url is not a valid URL"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(Error::config("its url is neither http:// nor https://"));
        }
        if bearer.is_some() || !headers.is_empty() {
            check_key_transport(&parsed).map_err(Error::config)?;
        }
        let mut custom = HashMap::new();
        for (name, value) in headers {
            let bad = || Error::config(format!("its header {name} cannot be sent"));
            let key = HeaderName::try_from(name).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
            value.set_sensitive(true);
            custom.insert(key, value);
        }
        let mut retry = ExponentialBackoff::default();
        retry.max_times = Some(8);
        retry.max_delay = Some(Duration::from_secs(60));
        let mut config = StreamableHttpClientTransportConfig::with_uri(parsed.as_str())
            .custom_headers(custom)
            .max_sse_event_size(MAX_MESSAGE_BYTES);
        config.retry_config = Arc::new(retry);
        config.max_concurrent_requests = MAX_CONCURRENT_CALLS;
        config.auth_header = bearer.map(|b| b.expose().to_owned());
        let configured_auth =
            bearer.is_some() || headers.iter().any(|(n, _)| is_authorization_header(n));
        let http = McpHttpClient {
            client: self.client_for(&parsed)?,
            login: (!configured_auth).then(|| self.tokens.clone()),
            secrets,
            end,
            streams: Arc::default(),
        };
        Ok(StreamableHttpClientTransport::with_client(http, config))
    }
}

fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows a redirect only if scheme, host and port stay the same and the body is sent again. Other redirects would
/// send the token to another server.
fn redirect_within_server(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_body = matches!(
        attempt.status(),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    );
    let first = attempt.previous().first().map(Url::origin);
    if keeps_body
        && first.is_some_and(|o| o == attempt.url().origin())
        && attempt.previous().len() <= MAX_REDIRECTS
    {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

type HttpError = StreamableHttpError<reqwest::Error>;

/// Recently opened streams.
#[derive(Debug, Default)]
struct StreamHistory {
    /// Notification stream: session id and time of opening.
    notification_stream: Option<(Option<Arc<str>>, Instant)>,
    /// Resumed response stream: time of the last resumption, and number of consecutive ones.
    resumption: Option<(Instant, u32)>,
}

/// HTTP client of one session.
#[derive(Debug, Clone)]
pub(super) struct McpHttpClient {
    client: Client,
    /// OAuth tokens; `None` when the configuration has credentials.
    login: Option<TokenStore>,
    /// Masks the token that was sent last.
    secrets: SecretMask,
    end: CancellationToken,
    streams: Arc<Mutex<StreamHistory>>,
}

impl McpHttpClient {
    /// Whether a stream may be opened now. Without this limit `rmcp` reopens a stream that the server closes immediately every
    /// second.
    fn may_open_stream(&self, session: Option<&Arc<str>>, resumes: bool) -> bool {
        let mut streams = lock(&self.streams);
        if !resumes {
            return !matches!(&streams.notification_stream, Some((of, at)) if of.as_ref() == session && at.elapsed() < SHORT_STREAM);
        }
        let times = match streams.resumption {
            Some((at, times)) if at.elapsed() < SHORT_STREAM => times + 1,
            _ => 1,
        };
        streams.resumption = Some((Instant::now(), times));
        times <= MAX_RESUMPTIONS
    }

    /// Returns the token for the next request: the configured one, or a valid OAuth token.
    async fn token(
        &self,
        uri: &str,
        bearer: Option<String>,
    ) -> std::result::Result<Option<String>, HttpError> {
        let Some(tokens) = &self.login else {
            return Ok(bearer);
        };
        let token = tokens.access_token(uri).await.map_err(token_error)?;
        Ok(token.map(|t| self.mask_token(&t)))
    }

    /// Returns a new token after the server has refused `token`. After a 403 with `insufficient_scope`, records the missing
    /// scopes and asks for a new login if that can help.
    async fn replacement_token(
        &self,
        uri: &str,
        token: Option<&String>,
        refusal: &HttpError,
    ) -> std::result::Result<Option<String>, HttpError> {
        let (Some(tokens), Some(token)) = (&self.login, token) else {
            return Ok(None);
        };
        match refusal {
            StreamableHttpError::InsufficientScope(e) => {
                let challenge = &e.www_authenticate_header;
                if tokens
                    .request_scopes(uri, challenge)
                    .await
                    .map_err(token_error)?
                {
                    let login_required = AuthRequiredError::new(challenge.clone());
                    return Err(StreamableHttpError::AuthRequired(login_required));
                }
                let reason = "it denies access (HTTP 403), and a new login would not help";
                Err(StreamableHttpError::UnexpectedServerResponse(reason.into()))
            }
            e if is_unauthorized(e) => {
                let token = Secret::new(token);
                let replacement = tokens
                    .replace_refused(uri, &token)
                    .await
                    .map_err(token_error)?;
                Ok(replacement.map(|t| self.mask_token(&t)))
            }
            _ => Ok(None),
        }
    }

    /// Masks `token` in error messages from now on: the server may echo it.
    fn mask_token(&self, token: &Secret) -> String {
        self.secrets.set_token(token);
        token.expose().to_owned()
    }

    /// Runs `work` until the session ends.
    async fn run_until_ended<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, HttpError>>,
    ) -> std::result::Result<T, HttpError> {
        tokio::select! {
            biased;
            () = self.end.cancelled() => Err(StreamableHttpError::TransportChannelClosed),
            result = work => result,
        }
    }
}

impl StreamableHttpClient for McpHttpClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        bearer: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> std::result::Result<StreamableHttpPostResponse, HttpError> {
        self.post_message_with_max_sse_event_size(
            uri,
            message,
            session,
            bearer,
            headers,
            MAX_MESSAGE_BYTES,
        )
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        bearer: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max_event: usize,
    ) -> std::result::Result<StreamableHttpPostResponse, HttpError> {
        let request_id = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let in_session = session.is_some();
        let bearer = self.run_until_ended(self.token(&uri, bearer)).await?;
        let post = |bearer, message| {
            let (uri, session, headers) = (uri.clone(), session.clone(), headers.clone());
            self.client.post_message_with_max_sse_event_size(
                uri, message, session, bearer, headers, max_event,
            )
        };
        let retry_message = self.login.is_some().then(|| message.clone());
        let answer = match self.run_until_ended(post(bearer.clone(), message)).await {
            Ok(answer) => answer,
            Err(refusal) => {
                let replacement = self.replacement_token(&uri, bearer.as_ref(), &refusal);
                match (self.run_until_ended(replacement).await?, retry_message) {
                    (Some(token), Some(message)) => {
                        self.run_until_ended(post(Some(token), message)).await?
                    }
                    _ => return Err(refusal),
                }
            }
        };
        match request_id {
            Some(id) => match_response_id(&id, in_session, answer),
            None => Ok(answer),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        bearer: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> std::result::Result<(), HttpError> {
        let delete = async {
            let bearer = self.token(&uri, bearer).await?;
            let delete = self.client.delete_session(uri, session, bearer, headers);
            delete.await
        };
        // Best effort: the server expires abandoned sessions.
        let _ = tokio::time::timeout(DELETE_TIME_LIMIT, delete).await;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        bearer: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> std::result::Result<BoxedSseResponse, HttpError> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session,
            last_event,
            bearer,
            headers,
            MAX_MESSAGE_BYTES,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        bearer: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max_event: usize,
    ) -> std::result::Result<BoxedSseResponse, HttpError> {
        let resumes = last_event.is_some();
        if !self.may_open_stream(session.as_ref(), resumes) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let Ok(bearer) = self.run_until_ended(self.token(&uri, bearer)).await else {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        };
        let get = || {
            let (uri, session, headers) = (uri.clone(), session.clone(), headers.clone());
            self.client.get_stream_with_max_sse_event_size(
                uri,
                session,
                last_event.clone(),
                bearer.clone(),
                headers,
                max_event,
            )
        };
        let mut got = self.run_until_ended(get()).await;
        if resumes && matches!(&got, Err(e) if is_unreachable(e)) {
            tokio::time::sleep(RESUME_RETRY_DELAY).await;
            got = self.run_until_ended(get()).await;
        }
        match got {
            Ok(stream) => {
                if !resumes {
                    lock(&self.streams).notification_stream = Some((session, Instant::now()));
                }
                Ok(stream)
            }
            // Only a failed connection is worth a retry. `rmcp` retries it for minutes, but no call waits for this stream.
            Err(e) if is_unreachable(&e) && !resumes => Err(e),
            Err(e) => {
                tracing::debug!("no notification stream: {e}");
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
        }
    }
}

/// Wraps a token error. The `it ` prefix marks the message as ours for [`super::failure`].
fn token_error(e: Error) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(
        format!("it cannot get a token: {}", e.message).into(),
    )
}

/// Whether there was no HTTP response at all.
fn is_unreachable(e: &HttpError) -> bool {
    matches!(e, StreamableHttpError::Client(e) if e.status().is_none())
}

/// Whether a token was refused (401); some servers leave out the `WWW-Authenticate` header.
fn is_unauthorized(e: &HttpError) -> bool {
    match e {
        StreamableHttpError::AuthRequired(_) => true,
        StreamableHttpError::UnexpectedServerResponse(what) => what.starts_with("HTTP 401"),
        _ => false,
    }
}

/// Ensures that a response has the id of the request. `rmcp` ignores a response without an id or with another id, and
/// the request would wait until its time limit.
fn match_response_id(
    request_id: &RequestId,
    in_session: bool,
    answer: StreamableHttpPostResponse,
) -> std::result::Result<StreamableHttpPostResponse, HttpError> {
    let StreamableHttpPostResponse::Json(mut message, session) = answer else {
        return Ok(answer);
    };
    match &mut message {
        JsonRpcMessage::Error(e) if e.id.as_ref() != Some(request_id) => {
            if e.id.is_none() && in_session && is_about_session(&e.error) {
                return Err(StreamableHttpError::SessionExpired);
            }
            e.id = Some(request_id.clone());
        }
        // Some servers return a numeric id as a string.
        JsonRpcMessage::Response(r) if r.id.to_string() == request_id.to_string() => {
            r.id = request_id.clone();
        }
        JsonRpcMessage::Error(_) => {}
        _ => {
            return Err(StreamableHttpError::UnexpectedServerResponse(
                "it answered a different request".into(),
            ));
        }
    }
    Ok(StreamableHttpPostResponse::Json(message, session))
}

/// Whether an error without an id means that the server does not know the session. The server has then restarted and
/// not processed the request.
fn is_about_session(error: &ErrorData) -> bool {
    let message = error.message.to_ascii_lowercase();
    message.contains("session") || message.contains("not initialized")
}
