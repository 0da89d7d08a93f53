//! Streamable HTTP: one client for all servers, and what `rmcp` leaves open about it.

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

use super::auth::{Tokens, signs};
use super::failure::Secrets;
use super::types::Credentials;
use crate::address::{clear_text, is_loopback};
use crate::config::mcp::{Server, Transport};
use crate::error::{Context, Error, Result};
use crate::secret::Secret;

/// A connection that is not there by then will not be.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept warm; a call then needs no new handshake.
const POOL_IDLE: Duration = Duration::from_secs(300);

/// The largest answer, as JSON or as one event; `rmcp` has the same for JSON.
pub(super) const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// The most calls to one server at a time, of all shells together; the others wait for their turn.
const CALLS: usize = 128;

/// A server that ends its stream of notifications sooner has none to send, and is not asked again.
const SHORT: Duration = Duration::from_secs(30);

/// How often an answer that breaks off is taken up again in a row, each sooner than [`SHORT`] after the last.
const RESUMES: u32 = 10;

/// A server that is not there to go on with an answer is looked for once more, so much later; then the call has failed.
const RESUME_PAUSE: Duration = Duration::from_millis(300);

/// A server is told that its session is over, but not waited for.
const FAREWELL: Duration = Duration::from_millis(500);

/// The most redirects within one server (`/mcp` to `/mcp/`).
const REDIRECTS: usize = 3;

/// The shared clients. Each is built when it is first needed: certificates cost time and memory to load.
#[derive(Debug)]
pub(super) struct Clients {
    tokens: Tokens,
    /// To this machine: no proxy.
    local: Mutex<Option<Client>>,
    network: Mutex<Option<Client>>,
}

impl Clients {
    /// With the tokens of logins below this state directory.
    pub(super) fn new(state: PathBuf) -> Clients {
        Clients {
            tokens: Tokens::new(state),
            local: Mutex::default(),
            network: Mutex::default(),
        }
    }

    /// The token that a login has brought for a server, where no setting gives one.
    ///
    /// # Errors
    /// It has expired and cannot be renewed, or cannot be read.
    pub(super) async fn token(
        &self,
        server: &Server,
        credentials: &Credentials,
    ) -> Result<Option<Secret>> {
        match &server.transport {
            Transport::Http { url, headers, .. }
                if credentials.bearer.is_none() && !headers.iter().any(|(n, _)| signs(n)) =>
            {
                self.tokens.bearer(url).await
            }
            _ => Ok(None),
        }
    }

    /// The client for an address.
    fn of(&self, url: &Url) -> Result<Client> {
        let local = is_loopback(url);
        let slot = if local { &self.local } else { &self.network };
        let mut slot = lock(slot);
        if let Some(client) = &*slot {
            return Ok(client.clone());
        }
        // Fails only when a provider is installed already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .redirect(Policy::custom(within_server))
            .user_agent(concat!("aish/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .pool_idle_timeout(POOL_IDLE)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(10));
        if local {
            builder = builder.no_proxy();
        }
        let client = builder.build().context(|| "cannot set up HTTPS".into())?;
        *slot = Some(client.clone());
        Ok(client)
    }

    /// A transport to a server. It ends with `end`, whatever it waits for; `secrets` gets the tokens of a login that it
    /// sends.
    ///
    /// # Errors
    /// The address or a header makes no sense, or a token would cross a foreign network in clear.
    pub(super) fn transport(
        &self,
        url: &str,
        headers: &[(String, String)],
        bearer: Option<&Secret>,
        secrets: Secrets,
        end: CancellationToken,
    ) -> Result<StreamableHttpClientTransport<Http>> {
        let parsed = Url::parse(url).map_err(|_| Error::config("its url is no URL"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(Error::config("its url is neither http:// nor https://"));
        }
        if bearer.is_some() || !headers.is_empty() {
            clear_text(&parsed).map_err(Error::config)?;
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
            .max_sse_event_size(MAX_MESSAGE);
        config.retry_config = Arc::new(retry);
        config.max_concurrent_requests = CALLS;
        config.auth_header = bearer.map(|b| b.expose().to_owned());
        let own = bearer.is_some() || headers.iter().any(|(n, _)| signs(n));
        let http = Http {
            client: self.of(&parsed)?,
            login: (!own).then(|| self.tokens.clone()),
            secrets,
            end,
            opened: Arc::default(),
        };
        Ok(StreamableHttpClientTransport::with_client(http, config))
    }
}

fn lock<T>(slot: &Mutex<T>) -> MutexGuard<'_, T> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Follows a redirect only where nothing but the path changes and the body is sent again: elsewhere it would
/// carry the token to wherever it points.
fn within_server(attempt: Attempt<'_>) -> reqwest::redirect::Action {
    let keeps_body = matches!(
        attempt.status(),
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
    );
    let first = attempt.previous().first().map(Url::origin);
    if keeps_body
        && first.is_some_and(|o| o == attempt.url().origin())
        && attempt.previous().len() <= REDIRECTS
    {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

type HttpError = StreamableHttpError<reqwest::Error>;

/// When streams were opened.
#[derive(Debug, Default)]
struct Opened {
    /// The stream of notifications, and in which session.
    bare: Option<(Option<Arc<str>>, Instant)>,
    /// An answer that was taken up again, and how often in a row.
    resumed: Option<(Instant, u32)>,
}

/// The client of one session.
#[derive(Debug, Clone)]
pub(super) struct Http {
    client: Client,
    /// Where no setting gives a token, that of a login is sent.
    login: Option<Tokens>,
    /// Knows the token that was sent last.
    secrets: Secrets,
    end: CancellationToken,
    opened: Arc<Mutex<Opened>>,
}

impl Http {
    /// Whether a stream may be opened now. A server that ends it at once is else asked every second for ever.
    fn may_open(&self, session: Option<&Arc<str>>, resumes: bool) -> bool {
        let mut opened = lock(&self.opened);
        if !resumes {
            return !matches!(&opened.bare, Some((of, at)) if of.as_ref() == session && at.elapsed() < SHORT);
        }
        let times = match opened.resumed {
            Some((at, times)) if at.elapsed() < SHORT => times + 1,
            _ => 1,
        };
        opened.resumed = Some((Instant::now(), times));
        times <= RESUMES
    }

    /// The token for the next request: the setting's, or one that is good now.
    async fn token(
        &self,
        uri: &str,
        bearer: Option<String>,
    ) -> std::result::Result<Option<String>, HttpError> {
        let Some(tokens) = &self.login else {
            return Ok(bearer);
        };
        let token = tokens.bearer(uri).await.map_err(no_token)?;
        Ok(token.map(|t| self.sent(&t)))
    }

    /// Another token, where the server has refused this one. What it wants beyond it is noted, and is a wish
    /// for a login where that can help.
    async fn another(
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
                if tokens.wants(uri, challenge).await.map_err(no_token)? {
                    let wanted = AuthRequiredError::new(challenge.clone());
                    return Err(StreamableHttpError::AuthRequired(wanted));
                }
                let why = "it forbids this to you, and another login would not help (HTTP 403)";
                Err(StreamableHttpError::UnexpectedServerResponse(why.into()))
            }
            e if is_unauthorized(e) => {
                let token = Secret::new(token);
                let other = tokens.refused(uri, &token).await.map_err(no_token)?;
                Ok(other.map(|t| self.sent(&t)))
            }
            _ => Ok(None),
        }
    }

    /// A token that is about to be sent; the server may say it back.
    fn sent(&self, token: &Secret) -> String {
        self.secrets.now(token);
        token.expose().to_owned()
    }

    /// Does `work`, unless the session ends.
    async fn unless_ended<T>(
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

impl StreamableHttpClient for Http {
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
            MAX_MESSAGE,
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
        let asked = match &message {
            JsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let in_session = session.is_some();
        let bearer = self.unless_ended(self.token(&uri, bearer)).await?;
        let post = |bearer, message| {
            let (uri, session, headers) = (uri.clone(), session.clone(), headers.clone());
            self.client.post_message_with_max_sse_event_size(
                uri, message, session, bearer, headers, max_event,
            )
        };
        let again = self.login.is_some().then(|| message.clone());
        let answer = match self.unless_ended(post(bearer.clone(), message)).await {
            Ok(answer) => answer,
            Err(refusal) => {
                let another = self.another(&uri, bearer.as_ref(), &refusal);
                match (self.unless_ended(another).await?, again) {
                    (Some(other), Some(message)) => {
                        self.unless_ended(post(Some(other), message)).await?
                    }
                    _ => return Err(refusal),
                }
            }
        };
        match asked {
            Some(id) => answer_to(&id, in_session, answer),
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
        let farewell = async {
            let bearer = self.token(&uri, bearer).await?;
            let delete = self.client.delete_session(uri, session, bearer, headers);
            delete.await
        };
        // Best effort: the server forgets it some day.
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
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
            MAX_MESSAGE,
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
        if !self.may_open(session.as_ref(), resumes) {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        let Ok(bearer) = self.unless_ended(self.token(&uri, bearer)).await else {
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
        let mut got = self.unless_ended(get()).await;
        if resumes && matches!(&got, Err(e) if is_away(e)) {
            tokio::time::sleep(RESUME_PAUSE).await;
            got = self.unless_ended(get()).await;
        }
        match got {
            Ok(stream) => {
                if !resumes {
                    lock(&self.opened).bare = Some((session, Instant::now()));
                }
                Ok(stream)
            }
            // Only a connection that fails may be better next time; `rmcp` tries it for minutes, for which no call waits.
            Err(e) if is_away(&e) && !resumes => Err(e),
            Err(e) => {
                tracing::debug!("no stream of notifications: {e}");
                Err(StreamableHttpError::ServerDoesNotSupportSse)
            }
        }
    }
}

/// In words that [`super::failure`] takes for our own.
fn no_token(e: Error) -> HttpError {
    StreamableHttpError::UnexpectedServerResponse(format!("it gets no token: {}", e.message).into())
}

/// Whether there was no answer at all.
fn is_away(e: &HttpError) -> bool {
    matches!(e, StreamableHttpError::Client(e) if e.status().is_none())
}

/// Whether a token was refused; servers may leave out the header that goes with it.
fn is_unauthorized(e: &HttpError) -> bool {
    match e {
        StreamableHttpError::AuthRequired(_) => true,
        StreamableHttpError::UnexpectedServerResponse(what) => what.starts_with("HTTP 401"),
        _ => false,
    }
}

/// Makes an answer one to the request that was sent. What bears no id, or another, would be thrown away, and
/// the request would wait for ever.
fn answer_to(
    asked: &RequestId,
    in_session: bool,
    answer: StreamableHttpPostResponse,
) -> std::result::Result<StreamableHttpPostResponse, HttpError> {
    let StreamableHttpPostResponse::Json(mut message, session) = answer else {
        return Ok(answer);
    };
    match &mut message {
        JsonRpcMessage::Error(e) if e.id.as_ref() != Some(asked) => {
            if e.id.is_none() && in_session && is_about_session(&e.error) {
                return Err(StreamableHttpError::SessionExpired);
            }
            e.id = Some(asked.clone());
        }
        // Some servers make a string of a number.
        JsonRpcMessage::Response(r) if r.id.to_string() == asked.to_string() => {
            r.id = asked.clone();
        }
        JsonRpcMessage::Error(_) => {}
        _ => {
            return Err(StreamableHttpError::UnexpectedServerResponse(
                "it answered another request than was sent".into(),
            ));
        }
    }
    Ok(StreamableHttpPostResponse::Json(message, session))
}

/// Whether an error without an id says that the server does not know the session: it has been restarted, and
/// has not looked at the request.
fn is_about_session(error: &ErrorData) -> bool {
    let message = error.message.to_ascii_lowercase();
    message.contains("session") || message.contains("not initialized")
}
