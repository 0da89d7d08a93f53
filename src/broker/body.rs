//! The body of an answer: bytes in, chunks out.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, Sleep};
use tokio_util::task::TaskTracker;

use super::endpoint::{Endpoint, authority, place};
use super::failure::Failure;
use super::http::Incoming;
use super::names::Names;
use super::openai::{Answer, Fault};
use super::sse::Decoder;
use super::{Chunk, retry, send, server_error};
use crate::chat::{Finish, Message};
use crate::error::{Error, Result};

/// The most that one answer may take on the wire.
const MAX_BODY: usize = 256 << 20;

/// The most that an answer in one piece may take.
const MAX_WHOLE: usize = 16 << 20;

/// How much of a body may pass without a sign that it is an event stream.
const MAX_UNRECOGNISED: usize = 64 << 10;

/// Text that arrives within this time of other text travels with it …
const BATCH: Duration = Duration::from_millis(4);

/// … up to about this many bytes on the wire.
const BATCH_BYTES: usize = 256 << 10;

/// How long a server that has said why it stopped may take for usage and `[DONE]`.
const GRACE: Duration = Duration::from_secs(2);

/// How long the end of the body is waited for, so that the connection can be used again.
const DRAIN: Duration = Duration::from_millis(200);

/// What was silent, and for how long.
pub fn silent(url: &Url, patience: Duration) -> Error {
    let (at, time) = (authority(url), retry::spoken(patience));
    Error::runtime(format!("{at} has been silent for {time}")).hint(
        "the server may be overloaded or loading the model; `timeout` of the model sets how long to wait",
    )
}

/// Reads what is left of a body, so that the connection goes back to where the next request finds it.
async fn drain(mut response: Incoming) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // A connection whose end does not come is closed with the response.
    let _ = tokio::time::timeout(DRAIN, rest).await;
}

/// Whether the body is an event stream or one piece of something else.
enum Shape {
    /// Nothing but white space so far.
    Unknown,
    Events,
    Whole,
}

/// Reads one answer.
pub struct Reader<'a> {
    endpoint: &'a Endpoint,
    url: &'a Url,
    response: Incoming,
    /// The body ended in the middle of an event.
    torn: bool,
    shape: Shape,
    decoder: Decoder,
    answer: Answer,
    /// The body so far, as long as it is not known to be an event stream.
    head: Vec<u8>,
    batch: Vec<Chunk>,
    seen: usize,
    /// When the server was last heard of.
    last: Instant,
    /// An end that was found while looking for more to batch.
    found: Option<std::result::Result<Option<Bytes>, Failure>>,
}

impl<'a> Reader<'a> {
    /// A reader of a successful response.
    ///
    /// # Errors
    /// The body is compressed, which was not asked for: a small body could grow without bound.
    pub fn new(endpoint: &'a Endpoint, url: &'a Url, response: Incoming) -> Result<Self> {
        if let Some(encoding) = response.header("content-encoding")
            && !encoding.eq_ignore_ascii_case(b"identity")
        {
            let encoding = endpoint.scrub(&String::from_utf8_lossy(encoding));
            return Err(Error::runtime(format!(
                "{} compresses its answer ({encoding}), which was not asked for",
                authority(url)
            ))
            .hint("switch compression off in the server or the proxy in front of it"));
        }
        let events = response
            .header("content-type")
            .is_some_and(|v| v.starts_with(b"text/event-stream"));
        Ok(Reader {
            endpoint,
            url,
            response,
            torn: false,
            shape: if events {
                Shape::Events
            } else {
                Shape::Unknown
            },
            decoder: Decoder::new(),
            answer: Answer::default(),
            head: Vec::new(),
            batch: Vec::new(),
            seen: 0,
            last: Instant::now(),
            found: None,
        })
    }

    /// Reads to the end of the answer. What arrived before an error has been sent, calls aside: those
    /// are sent with an answer that is whole, under the `names` that tools have here and with ids that
    /// `messages` have not. Where the body does not end with the answer, one of `tasks` waits for its
    /// end, and nobody else.
    ///
    /// # Errors
    /// Whatever makes the answer incomplete.
    pub async fn run(
        mut self,
        out: &Sender<Chunk>,
        tasks: &TaskTracker,
        names: &Names,
        messages: &[Message],
    ) -> Result<Finish> {
        let result = self.read(out).await;
        self.flush(out).await;
        let result = result.and_then(|()| self.verdict());
        // Of a filtered answer nobody knows what is missing.
        if matches!(result, Ok(finish) if finish != Finish::ContentFilter) {
            for call in self.answer.calls.take(names, messages) {
                send(out, Chunk::Call(call)).await;
            }
        }
        if let Some(usage) = self.answer.usage {
            send(out, Chunk::Usage(usage)).await;
        }
        let finish = result?;
        send(out, Chunk::Done(finish)).await;
        // Mostly the end is there already.
        self.ready().await;
        if self.found.is_none() {
            tasks.spawn(drain(self.response));
        }
        Ok(finish)
    }

    async fn read(&mut self, out: &Sender<Chunk>) -> Result<()> {
        let mut alarm = pin!(tokio::time::sleep(self.endpoint.idle_timeout));
        while !self.answer.done {
            let Some(mut bytes) = self.next(&mut alarm).await? else {
                return self.end();
            };
            // The first words travel alone. Later ones take along what is there already: one body
            // frame holds one event as a rule, and a message per event would cost more than the event.
            let begun = self.answer.text || self.answer.reasoning;
            let alone = !begun && self.answer.calls.is_empty();
            let start = Instant::now();
            let mut size = 0;
            loop {
                size += bytes.len();
                self.take(&bytes)?;
                if alone || self.answer.done || size > BATCH_BYTES || start.elapsed() > BATCH {
                    break;
                }
                match self.ready().await {
                    Some(more) => bytes = more,
                    None => break,
                }
            }
            self.flush(out).await;
            // Whoever passes the words on must get a turn, even if the next ones are there already.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// The next bytes, or the end. Fails after too long a silence.
    async fn next(&mut self, alarm: &mut Pin<&mut Sleep>) -> Result<Option<Bytes>> {
        if let Some(found) = self.found.take() {
            return self.heard(found);
        }
        let finished = self.answer.finish.is_some();
        let patience = if finished {
            self.endpoint.idle_timeout.min(GRACE)
        } else {
            self.endpoint.idle_timeout
        };
        let last = self.last;
        if alarm.deadline() > last + patience {
            alarm.as_mut().reset(last + patience);
        }
        let heard = {
            let mut chunk = pin!(self.response.chunk());
            poll_fn(|cx| {
                if let Poll::Ready(result) = chunk.as_mut().poll(cx) {
                    return Poll::Ready(Some(result));
                }
                // The alarm is moved when it rings, not with every chunk, which would cost more than the chunk.
                while alarm.as_mut().poll(cx).is_ready() {
                    if Instant::now() >= last + patience {
                        return Poll::Ready(None);
                    }
                    alarm.as_mut().reset(last + patience);
                }
                Poll::Pending
            })
            .await
        };
        match heard {
            Some(result) => self.heard(result),
            None if finished => Ok(None),
            None => Err(silent(self.url, patience)),
        }
    }

    /// The bytes that are there without waiting for the network. The task that reads the connection
    /// hands over one frame at a time, so it is given one turn to bring the next.
    async fn ready(&mut self) -> Option<Bytes> {
        let mut yielded = false;
        let found = {
            let mut chunk = pin!(self.response.chunk());
            poll_fn(|cx| match chunk.as_mut().poll(cx) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if yielded => Poll::Ready(None),
                Poll::Pending => {
                    yielded = true;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            })
            .await?
        };
        match found {
            Ok(Some(bytes)) => Some(bytes),
            // For the next call of `next`, after what is there has been sent.
            end => {
                self.found = Some(end);
                None
            }
        }
    }

    /// Takes note of what the connection brought.
    fn heard(
        &mut self,
        found: std::result::Result<Option<Bytes>, Failure>,
    ) -> Result<Option<Bytes>> {
        self.last = Instant::now();
        match found {
            Ok(bytes) => Ok(bytes),
            Err(_) if self.answer.finish.is_some() => Ok(None),
            Err(e) => {
                let failure = e.error(self.url);
                Err(
                    Error::runtime(format!("the answer was cut off: {}", failure.message))
                        .hint("what has arrived is kept; ask again for the rest"),
                )
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        self.seen = self.seen.saturating_add(bytes.len());
        if self.seen > MAX_BODY {
            let message = format!("{} sent more than 256 MiB", authority(self.url));
            return Err(server_error(message));
        }
        match self.shape {
            Shape::Events => self.decode(bytes),
            Shape::Whole => {
                self.head.extend_from_slice(bytes);
                let json = first_byte(&self.head) == Some(b'{');
                if self.head.len() > if json { MAX_WHOLE } else { MAX_UNRECOGNISED } {
                    return Err(self.not_an_answer());
                }
                Ok(())
            }
            Shape::Unknown => {
                self.head.extend_from_slice(bytes);
                match first_byte(&self.head) {
                    None if self.head.len() > MAX_UNRECOGNISED => Err(self.not_an_answer()),
                    None => Ok(()),
                    Some(b'{' | b'[' | b'<') => {
                        self.shape = Shape::Whole;
                        self.take(&[])
                    }
                    Some(_) => {
                        self.shape = Shape::Events;
                        let head = std::mem::take(&mut self.head);
                        self.decode(&head)
                    }
                }
            }
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<()> {
        let (answer, batch) = (&mut self.answer, &mut self.batch);
        let result = self
            .decoder
            .feed(bytes, |event| answer.event(&event, batch));
        if let Err(fault) = result {
            return Err(self.blame(&fault));
        }
        if self.decoder.recognised() {
            self.head = Vec::new();
        } else {
            self.head.extend_from_slice(bytes);
            if self.head.len() > MAX_UNRECOGNISED {
                return Err(self.not_an_answer());
            }
        }
        Ok(())
    }

    /// The end of the body.
    fn end(&mut self) -> Result<()> {
        if first_byte(&self.head) == Some(b'{') {
            let head = std::mem::take(&mut self.head);
            return match self.answer.whole(&head, &mut self.batch) {
                Err(Fault::BadJson(_)) => {
                    self.head = head;
                    Err(self.not_an_answer())
                }
                result => result.map_err(|fault| self.blame(&fault)),
            };
        }
        if first_byte(&self.head).is_some() {
            return Err(self.not_an_answer());
        }
        let (answer, batch) = (&mut self.answer, &mut self.batch);
        match self.decoder.finish(|event| answer.event(&event, batch)) {
            // Half an event, which says no more than that the answer is cut off.
            Err(Fault::BadJson(_)) => {
                self.torn = true;
                Ok(())
            }
            result => result.map_err(|fault| self.blame(&fault)),
        }
    }

    /// Whether the answer is complete.
    fn verdict(&self) -> Result<Finish> {
        let at = authority(self.url);
        let model = self.endpoint.scrub(&self.endpoint.model);
        let finish = match self.answer.finish {
            Some(finish) => finish,
            None if self.answer.done => Finish::Stop,
            None if self.seen == 0 => {
                return Err(server_error(format!("{at} sent an empty body")));
            }
            // Some servers end an answer with its last call. Arguments that are whole are the sign of it.
            None if self.answer.calls.whole() && !self.torn => Finish::Stop,
            None => {
                return Err(Error::runtime(format!(
                    "the answer was cut off: {at} closed the connection"
                ))
                .hint("what has arrived is kept; ask again for the rest"));
            }
        };
        let calls = !self.answer.calls.is_empty() && finish != Finish::ContentFilter;
        if self.answer.text || calls {
            return Ok(finish);
        }
        Err(match finish {
            Finish::ContentFilter => Error::runtime(format!("{at} filtered the whole answer"))
                .hint("put the question in other words, or use another model with -m"),
            Finish::Length if self.answer.reasoning => Error::runtime(format!(
                "{model} at {at} used up its tokens before it came to an answer"
            ))
            .hint("raise max_tokens of this model in the configuration"),
            _ => Error::runtime(format!("{model} at {at} sent an empty answer"))
                .hint("ask again, or use another model with -m"),
        })
    }

    async fn flush(&mut self, out: &Sender<Chunk>) {
        for chunk in self.batch.drain(..) {
            send(out, chunk).await;
        }
    }

    fn blame(&self, fault: &Fault) -> Error {
        let at = authority(self.url);
        server_error(match fault {
            Fault::TooLong => format!("{at} sent a line longer than 1 MiB"),
            Fault::BadJson(start) => format!(
                "{at} sent a piece of the answer that is not JSON: {}",
                self.endpoint.scrub(start)
            ),
            Fault::Server(words) => {
                format!("{at} reports an error: {}", self.endpoint.scrub(words))
            }
            Fault::Calls(what) => format!("{at} sent {what}"),
        })
    }

    /// The error for a body that is something else, with its first line.
    fn not_an_answer(&self) -> Error {
        let text = String::from_utf8_lossy(&self.head);
        let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
        Error::runtime(format!(
            "{} sent something else than an answer: {}",
            place(self.url),
            self.endpoint.scrub(line)
        ))
        .hint("base_url may point at a web page or another API; it usually ends in /v1")
    }
}

/// The first byte that is no white space, behind a byte order mark.
fn first_byte(body: &[u8]) -> Option<u8> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    body.iter().copied().find(|b| !b.is_ascii_whitespace())
}
