//! Asks a model and streams its answer.
//!
//! [`Broker::stream`] is one request: it repeats what is worth repeating, as long
//! as nothing of an answer has been seen, and turns every failure into one line
//! that says what, where and what next. Dropping the future, or cancelling it,
//! closes the upstream connection.

mod body;
pub mod candidate;
pub mod detect;
pub mod endpoint;
mod failure;
mod http;
mod names;
pub mod openai;
mod plain;
pub mod probe;
mod refusal;
pub mod retry;
pub mod serve;
pub mod sse;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use reqwest::{Method, Url};
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::endpoint::Endpoint;
use self::http::Incoming;
use self::openai::Quirks;
use self::refusal::Refusal;
use self::retry::Plan;
pub use crate::chat::Chunk;
use crate::chat::{Finish, Message, Tool};
use crate::error::{Error, Result};

/// The most that is read of the body of a refusal.
const MAX_REFUSAL: usize = 64 * 1024;

/// How long the body of a refusal may take.
const REFUSAL_PATIENCE: Duration = Duration::from_secs(5);

/// Asks models. One for the whole process, so that connections stay warm.
#[derive(Debug)]
pub struct Broker {
    clients: http::Clients,
    /// What servers turned out not to understand, by base URL and model.
    quirks: Mutex<HashMap<(String, String), Quirks>>,
    /// The first pause before another try.
    pause: Duration,
    /// What goes on after an answer.
    tasks: TaskTracker,
}

impl Default for Broker {
    fn default() -> Self {
        Broker::new()
    }
}

impl Broker {
    /// A broker that has built nothing yet.
    pub fn new() -> Self {
        Broker::with_pause(Duration::from_millis(500))
    }

    /// A broker whose first pause before another try is `pause`; it doubles each time.
    pub fn with_pause(pause: Duration) -> Self {
        Broker {
            clients: http::Clients::default(),
            quirks: Mutex::default(),
            pause,
            tasks: TaskTracker::new(),
        }
    }

    /// The same broker; what it still does after an answer, a moment at most, is one of `tasks`.
    #[must_use]
    pub fn tracked_by(mut self, tasks: TaskTracker) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sends `messages` to the model at `endpoint`, with the `tools` that it may call, and its answer to `out`.
    ///
    /// When `cancel` is cancelled, or `out` has no receiver any more, the request is dropped and the
    /// result is [`Finish::Interrupted`], without a [`Chunk::Done`]. After an error, what has been
    /// sent to `out` is what has arrived.
    ///
    /// # Errors
    /// One line that says what failed, where, and what to do next.
    pub async fn stream(
        &self,
        endpoint: &Endpoint,
        messages: &[Message],
        tools: &[Tool],
        cancel: &CancellationToken,
        out: &Sender<Chunk>,
    ) -> Result<Finish> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Ok(Finish::Interrupted),
            () = out.closed() => Ok(Finish::Interrupted),
            result = self.ask(endpoint, messages, tools, out) => result,
        }
    }

    async fn ask(
        &self,
        endpoint: &Endpoint,
        messages: &[Message],
        tools: &[Tool],
        out: &Sender<Chunk>,
    ) -> Result<Finish> {
        let url = endpoint.url(&["chat", "completions"])?;
        let headers = endpoint.header_map()?;
        let mut quirks = self.known_quirks(endpoint);
        let mut done = 0;
        loop {
            let names = openai::names(&url, messages, tools, quirks);
            let body = openai::request_body(endpoint, messages, tools, &names, quirks)?;
            let request = self.clients.send(Method::POST, &url, headers.clone(), body);
            let response = match tokio::time::timeout(endpoint.idle_timeout, request).await {
                Ok(response) => response?,
                Err(_) => return Err(body::silent(&url, endpoint.idle_timeout)),
            };
            if matches!(response.status(), 200..=299) {
                let reader = body::Reader::new(endpoint, &url, response)?;
                return reader.run(out, &self.tasks, &names, messages).await;
            }
            let (refusal, after) = refused(endpoint, &url, response).await;
            let results = messages.iter().any(|m| matches!(m, Message::Tool(_)));
            let refusal = Refusal {
                tools: !tools.is_empty(),
                tool_role: endpoint.use_tool_role && results,
                ..refusal
            };
            if matches!(refusal.status, 400 | 422)
                && let Some(learnt) = quirks.learn(endpoint, &names, &refusal.body)
            {
                quirks = learnt;
                self.remember(endpoint, learnt);
                continue;
            }
            if refusal.for_good() {
                return Err(refusal.error(None));
            }
            match retry::plan(refusal.status, &after, done, self.pause, jitter()) {
                Plan::GiveUp(waiting) => return Err(refusal.error(waiting.as_deref())),
                Plan::Wait(wait) => {
                    done += 1;
                    let notice = format!(
                        "{}; trying again in {} ({done} of {})",
                        refusal.short(),
                        retry::spoken(wait),
                        retry::RETRIES
                    );
                    send(out, Chunk::Notice(notice)).await;
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    fn known_quirks(&self, endpoint: &Endpoint) -> Quirks {
        let key = (endpoint.base_url.clone(), endpoint.model.clone());
        let known = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&key).copied().unwrap_or_default()
    }

    fn remember(&self, endpoint: &Endpoint, quirks: Quirks) {
        let key = (endpoint.base_url.clone(), endpoint.model.clone());
        let mut known = self.quirks.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key, quirks);
    }
}

/// Reads what a refusal says.
async fn refused<'a>(
    endpoint: &'a Endpoint,
    url: &'a Url,
    mut response: Incoming,
) -> (Refusal<'a>, retry::RetryAfter) {
    let header = |name| Some(String::from_utf8_lossy(response.header(name)?).into_owned());
    let after = retry::retry_after(header("retry-after").as_deref(), SystemTime::now());
    let location = header("location");
    let status = response.status();
    let body = response.read_some(MAX_REFUSAL, REFUSAL_PATIENCE).await;
    let refusal = Refusal {
        endpoint,
        url,
        tools: false,
        tool_role: false,
        status,
        location,
        body: String::from_utf8_lossy(&body).into_owned(),
    };
    (refusal, after)
}

/// Sends a chunk. A receiver that is gone is noticed by [`Broker::stream`].
async fn send(out: &Sender<Chunk>, chunk: Chunk) {
    let _ = out.send(chunk).await;
}

/// A number from 0 to 1 that differs from call to call, which is all that is asked of it.
fn jitter() -> f64 {
    let bits = u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or(0);
    f64::from(bits) / f64::from(u32::MAX)
}

/// The kind of error that ends an answer for which the server is to blame.
fn server_error(message: String) -> Error {
    Error::runtime(message).hint("try again; if it stays so, the server's log says more")
}
