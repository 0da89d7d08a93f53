//! Prompts to another aish server: the server answers them with its own model and its own tools, in a separate session.
//!
//! Only the prompt is sent. The answer comes as the events of that session, which are followed until the prompt is answered,
//! over as many connections as it takes: the cursor of the last event says where the next connection continues.

mod access;
mod answer;
mod call;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::Method;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::access::server_endpoint;
use self::answer::{AnswerEnd, InvalidEvent, ServerActivity, ServerAnswer, merged};
use self::call::{MAX_ID, ServerCall, is_cursor, is_id};
use super::sse::SseDecoder;
use super::transport::HttpResponse;
use super::{Broker, ModelEndpoint, StreamItem, retry, send};
use crate::chat::FinishReason;
use crate::error::{Error, Result};
use crate::safety::budget::SpendingPermit;
use crate::safety::text::one_line;

/// Maximum silence of an event stream, which has a heartbeat every 15 seconds.
const MAX_SILENCE: Duration = Duration::from_secs(60);
/// How long an accepted prompt may wait until the server begins to answer it, while it answers no other one.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of connections in a row that may bring nothing new, and of all connections of an answer.
const MAX_FAILURES: u32 = 5;
const MAX_CONNECTIONS: u32 = 100;
/// Maximum size of all events of an answer.
const MAX_EVENTS: usize = 64 << 20;
/// Maximum length of a prompt that a server accepts, in characters.
const MAX_PROMPT: usize = 1_000_000;

/// A prompt for another server.
#[derive(Debug, Clone, Copy)]
pub struct ServerPrompt<'a> {
    /// The server: its origin is the base URL, its token the key.
    pub endpoint: &'a ModelEndpoint,
    /// The session there that the prompt continues; without one, a new session.
    pub session: Option<&'a str>,
    /// The prompt.
    pub text: &'a str,
    /// The title of a new session; without one the server makes it of the prompt.
    pub title: Option<&'a str>,
}

impl ServerPrompt<'_> {
    /// Returns the address and the body of the request that sends the prompt.
    ///
    /// # Errors
    /// The base URL is invalid.
    pub fn preview(&self) -> Result<(String, Vec<u8>)> {
        let session = self.session.unwrap_or("NEW");
        let url = self
            .endpoint
            .url(&["v1", "sessions", session, "messages"])?;
        let body = json!({ "content": self.text }).to_string();
        Ok((url.into(), body.into_bytes()))
    }
}

/// The part of a session that matters here.
#[derive(Deserialize)]
struct SessionReply {
    id: String,
    next_cursor: String,
}

#[derive(Deserialize)]
struct AcceptedReply {
    message_id: String,
}

/// Steps that a cancellation here requires at the other server.
#[derive(Debug)]
enum PromptState {
    /// Nothing: the server does not have the prompt, or its reply is awaited.
    Unsent,
    /// The server has the prompt.
    Sent {
        /// Its id.
        message: String,
    },
    /// The prompt is cancelled already.
    Cancelled,
}

/// The state of the prompt, shared with the task that sends it.
type SharedState = Arc<Mutex<PromptState>>;

/// How much of the events was used.
struct StreamPosition {
    /// The position after the last event that was used.
    cursor: String,
    /// Size of all events.
    received: usize,
    /// Whether this connection has brought more than signs of life.
    has_news: bool,
}

/// Why following the events has ended early.
enum StreamFault {
    /// Another connection may continue.
    Broken(Error),
    /// Continuing is useless.
    Fatal(Error),
}

impl StreamFault {
    fn into_error(self) -> Error {
        match self {
            StreamFault::Broken(error) | StreamFault::Fatal(error) => error,
        }
    }
}

impl From<Error> for StreamFault {
    fn from(error: Error) -> StreamFault {
        StreamFault::Fatal(error)
    }
}

impl Broker {
    /// Sends a prompt to another server, and its answer to `out`. A new session is sent before the answer
    /// ([`StreamItem::ServerSession`]). The permit is that of a request that costs nothing here.
    ///
    /// When `cancel` is cancelled or the receiver of `out` is dropped, the answer is cancelled there too, and the result is
    /// [`FinishReason::Interrupted`].
    ///
    /// # Errors
    /// One line with the failure, its location and the next step.
    pub async fn ask_server(
        &self,
        prompt: ServerPrompt<'_>,
        _permit: &SpendingPermit,
        cancel: &CancellationToken,
        out: &Sender<StreamItem>,
    ) -> Result<FinishReason> {
        let sent = SentPrompt {
            broker: self,
            prompt,
            state: Arc::new(Mutex::new(PromptState::Unsent)),
            session: Mutex::default(),
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => {}
            () = out.closed() => {}
            result = sent.run(out) => return result,
        }
        sent.cancel_there();
        Ok(FinishReason::Interrupted)
    }
}

/// A prompt on its way.
struct SentPrompt<'a> {
    broker: &'a Broker,
    prompt: ServerPrompt<'a>,
    state: SharedState,
    /// The session there, once it is known.
    session: Mutex<Option<String>>,
}

impl SentPrompt<'_> {
    fn call(&self) -> ServerCall {
        ServerCall::new(&self.broker.transport, self.prompt.endpoint)
    }

    fn place(&self) -> &str {
        &self.prompt.endpoint.base_url
    }

    async fn run(&self, out: &Sender<StreamItem>) -> Result<FinishReason> {
        if self.prompt.text.chars().count() > MAX_PROMPT {
            let message = format!(
                "the prompt is longer than {MAX_PROMPT} characters, which no aish server accepts"
            );
            return Err(Error::usage(message).hint("attach less"));
        }
        let SessionReply { id, next_cursor } = self.open_session(out).await?;
        *lock(&self.session) = Some(id.clone());
        let mut position = StreamPosition {
            cursor: next_cursor,
            received: 0,
            has_news: false,
        };
        // Before the prompt is sent: a server holds the text of an answer back until it has a reader.
        let opened = self.open_stream(&id, &position.cursor).await;
        let mut stream = Some(opened.map_err(StreamFault::into_error)?);
        let message = self.post(&id).await?;
        let mut answer = ServerAnswer::new(self.place(), &id, &message);
        let (mut failures, mut connections) = (0, 0);
        loop {
            position.has_news = false;
            let followed = async {
                let stream = match stream.take() {
                    Some(stream) => stream,
                    None => self.open_stream(&id, &position.cursor).await?,
                };
                self.follow(stream, &mut answer, &mut position, out).await
            };
            let followed = followed.await;
            let broken = match followed {
                Ok(finish) => {
                    for item in answer.last_items() {
                        send(out, item).await;
                    }
                    send(out, StreamItem::Done(finish)).await;
                    return Ok(finish);
                }
                Err(StreamFault::Fatal(error)) => {
                    // Nobody reads the rest.
                    if answer.end().is_none() {
                        self.cancel_there();
                    }
                    return Err(error);
                }
                Err(StreamFault::Broken(error)) => error,
            };
            failures = if position.has_news { 1 } else { failures + 1 };
            connections += 1;
            if failures > MAX_FAILURES || connections > MAX_CONNECTIONS {
                let message = format!("the answer was cut off: {}", broken.message);
                let session = one_line(&id, MAX_ID);
                return Err(Error::runtime(message).hint(format!(
                    "the server may continue: on that machine, llm --attach {session} shows the answer"
                )));
            }
            // A line would break the text, so that a connection that is made again at once is none.
            if failures == 2 {
                let notice = format!("{}: connecting again", broken.message);
                send(out, StreamItem::Notice(notice)).await;
            }
            tokio::time::sleep(self.broker.first_pause * 2u32.pow(failures - 1)).await;
        }
    }

    /// Returns the session to continue, or a new one.
    async fn open_session(&self, out: &Sender<StreamItem>) -> Result<SessionReply> {
        let call = self.call();
        if let Some(id) = self.prompt.session {
            match call
                .send(Method::GET, &["v1", "sessions", id], None, None)
                .await
            {
                Ok(response) => return self.checked(call.read(response).await?),
                Err((404, _)) => {
                    let notice = format!(
                        "{}: the session no longer exists there; this prompt begins a new one, without the earlier conversation",
                        self.place()
                    );
                    send(out, StreamItem::Notice(notice)).await;
                }
                Err((_, error)) => return Err(error),
            }
        }
        let path = ["v1", "sessions"];
        let body = match self.prompt.title {
            Some(title) => json!({ "title": title }),
            None => json!({}),
        };
        let created = call.reply(Method::POST, &path, Some(&body)).await?;
        let session = self.checked(created)?;
        send(out, StreamItem::ServerSession(session.id.clone())).await;
        Ok(session)
    }

    /// Refuses an id or a cursor that cannot be one.
    fn checked(&self, session: SessionReply) -> Result<SessionReply> {
        match is_id(&session.id) && is_cursor(&session.next_cursor) {
            true => Ok(session),
            false => Err(self.call().not_aish()),
        }
    }

    /// Sends the prompt and returns its id. In a separate task: the server may have the prompt although nobody waits for the
    /// reply, and then needs a cancellation.
    async fn post(&self, session: &str) -> Result<String> {
        let (call, session, state) = (self.call(), session.to_owned(), self.state.clone());
        let body = json!({ "content": self.prompt.text });
        let (reply, accepted) = oneshot::channel();
        self.broker.tasks.spawn(async move {
            let path = ["v1", "sessions", &session, "messages"];
            let sent = call
                .reply::<AcceptedReply>(Method::POST, &path, Some(&body))
                .await;
            if let Ok(AcceptedReply { message_id }) = &sent {
                let is_cancelled = {
                    let mut state = lock(&state);
                    let is_cancelled = matches!(*state, PromptState::Cancelled);
                    if !is_cancelled {
                        *state = PromptState::Sent {
                            message: message_id.clone(),
                        };
                    }
                    is_cancelled
                };
                if is_cancelled {
                    call.cancel(&session, message_id).await;
                }
            }
            // Nobody waits for the reply to a prompt that was cancelled.
            let _ = reply.send(sent);
        });
        let accepted = accepted.await;
        let accepted = accepted.map_err(|_| Error::runtime("the daemon is stopping"))??;
        match is_id(&accepted.message_id) {
            true => Ok(accepted.message_id),
            false => Err(self.call().not_aish()),
        }
    }

    /// Opens the stream of the events of a session after a cursor.
    async fn open_stream(
        &self,
        session: &str,
        cursor: &str,
    ) -> std::result::Result<HttpResponse, StreamFault> {
        let call = self.call();
        let path = ["v1", "sessions", session, "events"];
        let opened = call
            .send(Method::GET, &path, Some(("since", cursor)), None)
            .await;
        let response = opened.map_err(|(status, error)| match status {
            // It is not reached, or is starting again.
            0 | 429 | 500..=599 => StreamFault::Broken(error),
            _ => StreamFault::Fatal(error),
        })?;
        match response.header("content-encoding") {
            Some(encoding) if !encoding.eq_ignore_ascii_case(b"identity") => {
                Err(call.not_aish().into())
            }
            _ => Ok(response),
        }
    }

    /// Follows the events until the answer has ended or the connection breaks.
    async fn follow(
        &self,
        mut response: HttpResponse,
        answer: &mut ServerAnswer,
        position: &mut StreamPosition,
        out: &Sender<StreamItem>,
    ) -> std::result::Result<FinishReason, StreamFault> {
        let mut decoder = SseDecoder::new();
        let mut is_told = false;
        let mut last_heard = Instant::now();
        let mut idle_since = None;
        loop {
            let mut deadline = last_heard + MAX_SILENCE;
            if let Some(since) = idle_since {
                deadline = deadline.min(since + START_TIMEOUT);
            }
            let chunk = tokio::time::timeout_at(deadline, response.chunk()).await;
            let place = self.place();
            let bytes = match chunk {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(Ok(None)) => return Err(broken(format!("{place} closed the connection"))),
                Ok(Err(error)) => {
                    let url = self.prompt.endpoint.url(&[])?;
                    return Err(StreamFault::Broken(error.error(&url)));
                }
                Err(_) if idle_since.is_some_and(|at| at + START_TIMEOUT <= deadline) => {
                    let message = format!("{place} did not start to answer the prompt");
                    return Err(Error::runtime(message).hint("ask again").into());
                }
                Err(_) => {
                    let time = retry::readable(MAX_SILENCE);
                    return Err(broken(format!("{place} has been silent for {time}")));
                }
            };
            last_heard = Instant::now();
            position.received = position.received.saturating_add(bytes.len());
            if position.received > MAX_EVENTS {
                let message = format!("{place} sent more than {} MiB", MAX_EVENTS >> 20);
                return Err(Error::runtime(message).hint("the answer ends here").into());
            }
            let mut items = Vec::new();
            let fed = decoder.feed(&bytes, |event| {
                let is_over = answer.end().is_some();
                if !is_over {
                    position.has_news |= answer.event(event.data, &mut items)?;
                    take_cursor(event.id, &mut position.cursor)?;
                }
                Ok::<(), InvalidEvent>(())
            });
            for item in merged(items) {
                send(out, item).await;
            }
            if let Err(InvalidEvent(what)) = fed {
                let message =
                    format!("{place} sent something other than the events of aish: {what}");
                let hint = "update aish on the side that is older, or do not use this server";
                return Err(Error::runtime(message).hint(hint).into());
            }
            if let Some(end) = answer.end() {
                return self
                    .ended(end.clone(), out)
                    .await
                    .map_err(StreamFault::Fatal);
            }
            match answer.activity() {
                ServerActivity::Idle => drop(idle_since.get_or_insert_with(Instant::now)),
                ServerActivity::AnswersAnother if !is_told => {
                    is_told = true;
                    let notice =
                        format!("{place}: another prompt of the session is answered first");
                    send(out, StreamItem::Notice(notice)).await;
                    idle_since = None;
                }
                _ => idle_since = None,
            }
        }
    }

    async fn ended(&self, end: AnswerEnd, out: &Sender<StreamItem>) -> Result<FinishReason> {
        match end {
            AnswerEnd::Finished(FinishReason::Interrupted) => {
                let notice = format!("the answer was cancelled at {}", self.place());
                send(out, StreamItem::Notice(notice)).await;
                Ok(FinishReason::Interrupted)
            }
            AnswerEnd::Finished(finish) => Ok(finish),
            AnswerEnd::Failed(message, hint) => {
                let error = Error::runtime(message);
                Err(match hint {
                    Some(hint) => error.hint(format!("there: {hint}")),
                    None => error,
                })
            }
        }
    }

    /// Cancels the prompt at the server, in a task that nobody waits for.
    fn cancel_there(&self) {
        let before = std::mem::replace(&mut *lock(&self.state), PromptState::Cancelled);
        let Some(session) = lock(&self.session).clone() else {
            return;
        };
        let PromptState::Sent { message } = before else {
            return;
        };
        let call = self.call();
        let cancel = async move { call.cancel(&session, &message).await };
        self.broker.tasks.spawn(cancel);
    }
}

fn broken(message: String) -> StreamFault {
    StreamFault::Broken(Error::runtime(message))
}

/// Takes the position after an event.
fn take_cursor(id: &[u8], cursor: &mut String) -> std::result::Result<(), InvalidEvent> {
    match std::str::from_utf8(id) {
        Ok(id) if is_cursor(id) => id.clone_into(cursor),
        _ => return Err(InvalidEvent("an event has no cursor".to_owned())),
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
