//! Sends requests to models and streams the answers.
//!
//! [`Broker::stream`] makes one request. It retries temporary failures as long as no part of an answer has arrived, and
//! turns every error into one line with the failure, its location and the next step. Cancelling or dropping the future
//! closes the connection to the provider.

pub mod aish_server;
mod answer_reader;
pub mod autodetect;
pub mod catalog;
pub mod endpoint;
mod error_response;
mod http1;
pub mod key_probe;
pub mod model_list;
pub mod model_server;
pub mod provider;
mod refused_part;
pub mod retry;
pub mod sse;
mod transport;
mod transport_error;
mod wire_names;

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use reqwest::{Method, Url};
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::endpoint::ModelEndpoint;
use self::error_response::ErrorResponse;
use self::provider::chat;
use self::provider::quirks::ServerQuirks;
use self::retry::{GiveUpReason, RetryAfter, RetryDecision};
use self::transport::HttpResponse;
pub use crate::chat::StreamItem;
use crate::chat::{ChatMessage, Dialect, FinishReason, ToolDefinition};
use crate::error::{Error, Result};
use crate::safety::budget::SpendingPermit;

/// Maximum number of bytes read from the body of an error response.
const MAX_ERROR_BODY: usize = 64 * 1024;

/// Maximum time for reading the body of an error response.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Client of all models. The process has one broker, so that connections are reused.
#[derive(Debug)]
pub struct Broker {
    /// Shared with tasks that outlast an answer.
    transport: Arc<transport::HttpTransport>,
    /// Learned quirks of servers, by base URL and model.
    quirks: Mutex<HashMap<(String, String), ServerQuirks>>,
    /// Pause before the first retry.
    first_pause: Duration,
    /// Tasks that outlast an answer by a moment.
    tasks: TaskTracker,
}

impl Default for Broker {
    fn default() -> Self {
        Broker::new()
    }
}

impl Broker {
    /// Returns a broker without connections.
    pub fn new() -> Self {
        Broker::with_pause(Duration::from_millis(500))
    }

    /// Returns a broker that waits `first_pause` before the first retry and doubles the pause each time.
    pub fn with_pause(first_pause: Duration) -> Self {
        Broker {
            transport: Arc::default(),
            quirks: Mutex::default(),
            first_pause,
            tasks: TaskTracker::new(),
        }
    }

    /// Lets `tasks` track the work that continues for a moment after an answer.
    #[must_use]
    pub fn tracked_by(mut self, tasks: TaskTracker) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sends `messages` and the `tools` that the model may call to `endpoint`, and the model's answer to `out`. The limit of
    /// `permit` replaces that of the endpoint.
    ///
    /// When `cancel` is cancelled or the receiver of `out` is dropped, the request is dropped and the result is
    /// [`FinishReason::Interrupted`], without a [`StreamItem::Done`]. Items received before an error have been sent to `out`.
    ///
    /// # Errors
    /// One line with the failure, its location and the next step.
    pub async fn stream(
        &self,
        endpoint: &ModelEndpoint,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
        permit: &SpendingPermit,
        cancel: &CancellationToken,
        out: &Sender<StreamItem>,
    ) -> Result<FinishReason> {
        let endpoint = &*limited(endpoint, permit);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(FinishReason::Interrupted),
            () = out.closed() => Ok(FinishReason::Interrupted),
            result = self.stream_with_retries(endpoint, messages, tools, out) => result,
        }
    }

    /// Returns the URL, without what may be secret in it, and the body of the request that [`Broker::stream`] would send.
    ///
    /// # Errors
    /// The base URL is invalid.
    pub fn preview(
        &self,
        endpoint: &ModelEndpoint,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
        permit: &SpendingPermit,
    ) -> Result<(String, Vec<u8>)> {
        let endpoint = &*limited(endpoint, permit);
        let quirks = self.known_quirks(endpoint);
        if quirks.no_responses && endpoint.dialect == Dialect::Responses {
            let chat = endpoint.with_dialect(Dialect::Chat);
            return self.preview(&chat, messages, tools, permit);
        }
        let mut url = endpoint.dialect.url(endpoint)?;
        let names = chat::names(&url, messages, tools, quirks);
        url.set_query(None);
        // Both fail only for a URL that has no host.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        let dialect = endpoint.dialect;
        let encoded = dialect.encode(endpoint, messages, tools, &names, quirks)?;
        Ok((url.into(), encoded.body))
    }

    async fn stream_with_retries(
        &self,
        endpoint: &ModelEndpoint,
        messages: &[ChatMessage],
        tools: &[ToolDefinition],
        out: &Sender<StreamItem>,
    ) -> Result<FinishReason> {
        let mut quirks = self.known_quirks(endpoint);
        if quirks.no_responses && endpoint.dialect == Dialect::Responses {
            let chat = endpoint.with_dialect(Dialect::Chat);
            return Box::pin(self.stream_with_retries(&chat, messages, tools, out)).await;
        }
        let url = endpoint.dialect.url(endpoint)?;
        let headers = endpoint.header_map()?;
        let mut retries = 0;
        loop {
            let names = chat::names(&url, messages, tools, quirks);
            let encoded = endpoint
                .dialect
                .encode(endpoint, messages, tools, &names, quirks)?;
            let request = self
                .transport
                .send(Method::POST, &url, headers.clone(), encoded.body);
            let response = match tokio::time::timeout(endpoint.idle_timeout, request).await {
                Ok(response) => response.map_err(Error::outage)?,
                Err(_) => {
                    let silent = transport_error::silence_error(&url, endpoint.idle_timeout);
                    return Err(silent.outage());
                }
            };
            if matches!(response.status(), 200..=299) {
                let reader = answer_reader::AnswerReader::new(endpoint, &url, response)?;
                let prefix = &encoded.prefix_sha256;
                let failure = match reader.run(out, &self.tasks, &names, messages, prefix).await {
                    Ok(finish) => return Ok(finish),
                    Err(failure) => failure,
                };
                let status = failure.temporary.unwrap_or(200);
                let after = RetryAfter::Absent;
                let RetryDecision::Wait(wait) =
                    retry::decide(status, &after, retries, self.first_pause, jitter())
                else {
                    return Err(match failure.temporary {
                        Some(_) => failure.error.outage(),
                        None => failure.error,
                    });
                };
                retries += 1;
                self.pause(out, &failure.error.message, wait, retries).await;
                continue;
            }
            let (refusal, after) = read_error(endpoint, &url, response).await;
            let is_prompt = |m: &&ChatMessage| matches!(m, ChatMessage::User(..));
            let has_results = messages.iter().any(|m| matches!(m, ChatMessage::Tool(_)));
            let refusal = ErrorResponse {
                sent_tools: !tools.is_empty(),
                sent_tool_role: endpoint.use_tool_role && has_results,
                has_earlier_prompts: messages.iter().filter(is_prompt).count() > 1,
                ..refusal
            };
            if matches!(refusal.status, 400 | 422)
                && let Some(learned) = quirks.learn(endpoint, &names, &refusal.body)
            {
                if let Some(change) = quirks.change(learned) {
                    let notice = format!("model {}: {change}", endpoint.model);
                    send(out, StreamItem::Notice(notice)).await;
                }
                quirks = learned;
                self.remember_quirks(endpoint, learned);
                continue;
            }
            if lacks_responses(endpoint, &refusal) {
                let chat = endpoint.with_dialect(Dialect::Chat);
                let finish =
                    Box::pin(self.stream_with_retries(&chat, messages, tools, out)).await?;
                let learned = ServerQuirks {
                    no_responses: true,
                    ..self.known_quirks(endpoint)
                };
                self.remember_quirks(endpoint, learned);
                return Ok(finish);
            }
            if refusal.is_permanent() {
                return Err(refusal.error(GiveUpReason::Permanent));
            }
            match retry::decide(refusal.status, &after, retries, self.first_pause, jitter()) {
                RetryDecision::GiveUp(reason) => {
                    let error = refusal.error(reason);
                    return Err(match refusal.status {
                        408 | 429 | 500..=599 => error.outage(),
                        _ => error,
                    });
                }
                RetryDecision::Wait(wait) => {
                    retries += 1;
                    self.pause(out, &refusal.summary(), wait, retries).await;
                }
            }
        }
    }

    /// Says why the request is repeated, and waits.
    async fn pause(&self, out: &Sender<StreamItem>, why: &str, wait: Duration, retries: u32) {
        let notice = format!(
            "{why}; trying again in {} ({retries} of {})",
            retry::readable(wait),
            retry::MAX_RETRIES
        );
        send(out, StreamItem::Notice(notice)).await;
        tokio::time::sleep(wait).await;
    }

    fn known_quirks(&self, endpoint: &ModelEndpoint) -> ServerQuirks {
        let key = (endpoint.base_url.clone(), endpoint.model.clone());
        let known = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).copied().unwrap_or(ServerQuirks {
            no_dots: endpoint.dialect != Dialect::Chat,
            returns_reasoning: chat::wants_reasoning(&endpoint.base_url),
            ..ServerQuirks::default()
        })
    }

    fn remember_quirks(&self, endpoint: &ModelEndpoint, quirks: ServerQuirks) {
        let key = (endpoint.base_url.clone(), endpoint.model.clone());
        let mut known = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, quirks);
    }
}

/// Whether a server has no `/responses`. A server that does not know the model names the model.
fn lacks_responses(endpoint: &ModelEndpoint, refusal: &ErrorResponse<'_>) -> bool {
    endpoint.dialect == Dialect::Responses
        && matches!(refusal.status, 404 | 405 | 501)
        && Dialect::of_host(&endpoint.base_url) != Dialect::Responses
        && !refusal.body.contains("model")
}

/// Reads an error response and the delay that it requests.
async fn read_error<'a>(
    endpoint: &'a ModelEndpoint,
    url: &'a Url,
    mut response: HttpResponse,
) -> (ErrorResponse<'a>, retry::RetryAfter) {
    let header = |name| Some(String::from_utf8_lossy(response.header(name)?).into_owned());
    let after = retry::retry_after(header("retry-after").as_deref(), SystemTime::now());
    let location = header("location");
    let status = response.status();
    // A part of the body is enough for a message.
    let (body, _) = response.read_body(MAX_ERROR_BODY, ERROR_BODY_TIMEOUT).await;
    let body = String::from_utf8_lossy(&body).into_owned();
    let after = match after {
        RetryAfter::Absent => retry::retry_delay(&body),
        after => after,
    };
    let refusal = ErrorResponse {
        endpoint,
        url,
        sent_tools: false,
        sent_tool_role: false,
        has_earlier_prompts: false,
        status,
        location,
        body,
    };
    (refusal, after)
}

/// Sends a chunk. [`Broker::stream`] notices a dropped receiver.
async fn send(out: &Sender<StreamItem>, chunk: StreamItem) {
    let _ = out.send(chunk).await;
}

/// Returns a number from 0 to 1 that differs from call to call.
fn jitter() -> f64 {
    let bits = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or(0);
    f64::from(bits) / f64::from(u32::MAX)
}

/// Returns an error for an answer that the server broke.
fn server_error(message: String) -> Error {
    Error::runtime(message).hint("try again; if the error persists, see the server's log")
}

/// Returns the endpoint with the limit of the answer that a permit allows.
fn limited<'e>(endpoint: &'e ModelEndpoint, permit: &SpendingPermit) -> Cow<'e, ModelEndpoint> {
    match permit.max_tokens() {
        Some(max_tokens) => Cow::Owned(ModelEndpoint {
            max_tokens: Some(max_tokens),
            ..endpoint.clone()
        }),
        None => Cow::Borrowed(endpoint),
    }
}
