//! Reads the body of an answer and delivers it in chunks.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use reqwest::Url;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, Sleep};
use tokio_util::task::TaskTracker;

use super::endpoint::{ModelEndpoint, authority, place};
use super::provider::{AnswerCodec, StreamError};
use super::sse::SseDecoder;
use super::transport::HttpResponse;
use super::transport_error::{TransportError, silence_error};
use super::wire_names::WireNames;
use super::{StreamItem, send, server_error};
use crate::chat::{ChatMessage, FinishReason, NativeAnswer};
use crate::error::{Error, Refusal, Result};

/// Maximum size of an answer on the wire.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// Maximum size of an answer that is one JSON object.
const MAX_OBJECT_BYTES: usize = 16 << 20;

/// Maximum number of bytes without a sign that the body is an event stream.
const MAX_UNRECOGNIZED_BYTES: usize = 64 << 10;

/// Minimum time between two deliveries of text. A server slower than this has each piece delivered immediately; from a
/// faster one the pieces in between travel together, since a delivery costs more than many events.
const DELIVERY_INTERVAL: Duration = Duration::from_millis(4);

/// Number of reads for one delivery after which the server counts as one that writes each piece by itself, faster than it is read:
/// from then on the reads wait for [`READ_INTERVAL`], because waking up for a piece costs more than to read it.
const QUICK_READS: usize = 8;

/// Minimum time between two reads after [`QUICK_READS`].
const READ_INTERVAL: Duration = Duration::from_millis(1);

/// Size of a read from which the next one does not wait, so that the server never waits for room in the buffer of the connection.
const LARGE_READ: usize = 16 << 10;

/// Maximum number of wire bytes delivered at once.
const MAX_BATCH: usize = 256 << 10;

/// Maximum time from the finish reason to the usage and `[DONE]`.
const FINISH_TIMEOUT: Duration = Duration::from_secs(2);

/// Maximum wait for the end of the body, after which the connection can be used again.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// Reads the rest of a body, so that the connection can be used again.
async fn drain(mut response: HttpResponse) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // After a time-out, dropping the response closes the connection.
    let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
}

/// The detected form of the body.
enum BodyFormat {
    /// Only white space has arrived.
    Unknown,
    EventStream,
    /// A JSON object, or something that is not an answer.
    OtherText,
}

/// Why an answer is incomplete.
#[derive(Debug)]
pub struct AnswerFailure {
    /// The error for the user.
    pub error: Error,
    /// The status of the temporary failure that the server reports before any part of the answer.
    pub temporary: Option<u16>,
}

/// Reads one answer.
pub struct AnswerReader<'a> {
    endpoint: &'a ModelEndpoint,
    url: &'a Url,
    response: HttpResponse,
    /// Whether the body ended in the middle of an event.
    event_cut_off: bool,
    format: BodyFormat,
    decoder: SseDecoder,
    answer: Box<dyn AnswerCodec>,
    /// The body so far, unless it is an event stream.
    unrecognized: Vec<u8>,
    undelivered: Vec<StreamItem>,
    received_bytes: usize,
    /// The status of the temporary failure that the server reports.
    temporary: Option<u16>,
    /// When the server last sent something.
    last_received: Instant,
    /// An end that arrived while more text was awaited for one delivery.
    pending_end: Option<std::result::Result<Option<Bytes>, TransportError>>,
}

impl<'a> AnswerReader<'a> {
    /// Returns a reader of a successful response.
    ///
    /// # Errors
    /// The body is compressed although the request forbids it: a small body could grow without bound.
    pub fn new(endpoint: &'a ModelEndpoint, url: &'a Url, response: HttpResponse) -> Result<Self> {
        if let Some(encoding) = response.header("content-encoding")
            && !encoding.eq_ignore_ascii_case(b"identity")
        {
            let encoding = endpoint.quote_masked(&String::from_utf8_lossy(encoding));
            return Err(Error::runtime(format!(
                "{} compresses its answer ({encoding}), although compression was not requested",
                authority(url)
            ))
            .hint("switch compression off in the server or the proxy in front of it"));
        }
        let events = response
            .header("content-type")
            .is_some_and(|v| v.starts_with(b"text/event-stream"));
        Ok(AnswerReader {
            endpoint,
            url,
            response,
            event_cut_off: false,
            format: if events {
                BodyFormat::EventStream
            } else {
                BodyFormat::Unknown
            },
            decoder: SseDecoder::new(),
            answer: endpoint.dialect.answer(),
            unrecognized: Vec::new(),
            undelivered: Vec::new(),
            received_bytes: 0,
            temporary: None,
            last_received: Instant::now(),
            pending_end: None,
        })
    }

    /// Reads to the end of the answer. Text that arrived before an error has been sent; tool calls are sent with a
    /// complete answer only, with the tools' own `names` and with ids that do not occur in `messages`. `prefix` is the digest
    /// of what the answer follows. If the body does
    /// not end with the answer, a task in `tasks` waits for the end.
    ///
    /// # Errors
    /// The answer is incomplete.
    pub async fn run(
        mut self,
        out: &Sender<StreamItem>,
        tasks: &TaskTracker,
        names: &WireNames,
        messages: &[ChatMessage],
        prefix: &str,
    ) -> std::result::Result<FinishReason, AnswerFailure> {
        let result = self.read(out).await;
        self.answer.end(&mut self.undelivered);
        self.flush(out).await;
        let result = result.and_then(|()| self.finish());
        // A filtered answer may lack calls or parts of them.
        if matches!(result, Ok(finish) if finish != FinishReason::ContentFilter) {
            for call in self.answer.progress_mut().calls.take(names, messages) {
                send(out, StreamItem::Call(call)).await;
            }
            if let Some(items) = self.answer.progress_mut().native.take() {
                let native = NativeAnswer {
                    dialect: self.endpoint.dialect,
                    model: self.endpoint.model.clone(),
                    prefix_sha256: prefix.to_owned(),
                    items,
                };
                send(out, StreamItem::Native(Arc::new(native))).await;
            }
        }
        if let Some(usage) = self.answer.progress().usage {
            send(out, StreamItem::Usage(usage)).await;
        }
        let progress = self.answer.progress();
        let begun = progress.text || progress.reasoning || !progress.calls.is_empty();
        let temporary = self.temporary.filter(|_| !begun);
        let finish = result.map_err(|error| AnswerFailure { error, temporary })?;
        send(out, StreamItem::Done(finish)).await;
        // In most cases the end of the body has arrived with the end of the answer.
        self.next_until(self.last_received).await;
        if self.pending_end.is_none() {
            tasks.spawn(drain(self.response));
        }
        Ok(finish)
    }

    async fn read(&mut self, out: &Sender<StreamItem>) -> Result<()> {
        let mut alarm = pin!(tokio::time::sleep(self.endpoint.idle_timeout));
        let mut delivered: Option<Instant> = None;
        while !self.answer.progress().done {
            let Some(mut bytes) = self.next(&mut alarm).await? else {
                return self.end();
            };
            let begun = self.answer.progress().text || self.answer.progress().reasoning;
            let next_delivery = match delivered {
                Some(at) if begun || !self.answer.progress().calls.is_empty() => {
                    at + DELIVERY_INTERVAL
                }
                // The first words are delivered alone.
                _ => self.last_received,
            };
            let (mut size, mut reads) = (0, 0);
            loop {
                size += bytes.len();
                reads += 1;
                self.take(&bytes)?;
                if self.answer.progress().done || size > MAX_BATCH {
                    break;
                }
                if reads > QUICK_READS && bytes.len() < LARGE_READ {
                    let pause = Instant::now() + READ_INTERVAL;
                    tokio::time::sleep_until(pause.min(next_delivery)).await;
                }
                match self.next_until(next_delivery).await {
                    Some(more) => bytes = more,
                    None => break,
                }
            }
            self.flush(out).await;
            delivered = Some(Instant::now());
            // The task that passes the text on must run even if more bytes are waiting.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Returns the next bytes, or `None` at the end. Fails after too long a silence.
    async fn next(&mut self, alarm: &mut Pin<&mut Sleep>) -> Result<Option<Bytes>> {
        if let Some(found) = self.pending_end.take() {
            return self.received(found);
        }
        let finished = self.answer.progress().finish.is_some();
        let timeout = if finished {
            self.endpoint.idle_timeout.min(FINISH_TIMEOUT)
        } else {
            self.endpoint.idle_timeout
        };
        let last = self.last_received;
        if alarm.deadline() > last + timeout {
            alarm.as_mut().reset(last + timeout);
        }
        let heard = {
            let mut chunk = pin!(self.response.chunk());
            poll_fn(|cx| {
                if let Poll::Ready(result) = chunk.as_mut().poll(cx) {
                    return Poll::Ready(Some(result));
                }
                // The timer is moved when it fires: moving it for every chunk would cost more than the chunk.
                while alarm.as_mut().poll(cx).is_ready() {
                    if Instant::now() >= last + timeout {
                        return Poll::Ready(None);
                    }
                    alarm.as_mut().reset(last + timeout);
                }
                Poll::Pending
            })
            .await
        };
        match heard {
            Some(result) => self.received(result),
            None if finished => Ok(None),
            None => Err(silence_error(self.url, timeout)),
        }
    }

    /// The next bytes, if they arrive before `deadline`.
    async fn next_until(&mut self, deadline: Instant) -> Option<Bytes> {
        let mut yielded = false;
        let found = {
            let mut chunk = pin!(self.response.chunk());
            let mut alarm = pin!(tokio::time::sleep_until(deadline));
            poll_fn(|cx| match chunk.as_mut().poll(cx) {
                Poll::Ready(result) => Poll::Ready(Some(result)),
                Poll::Pending if alarm.as_mut().poll(cx).is_pending() => Poll::Pending,
                // reqwest reads the connection in a separate task, which hands over one HTTP chunk at a time:
                // it gets one turn to bring the next.
                Poll::Pending if !yielded => {
                    yielded = true;
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
                Poll::Pending => Poll::Ready(None),
            })
            .await?
        };
        match found {
            Ok(Some(bytes)) => Some(bytes),
            // Reported by the next call of `next`, after the received items have been delivered.
            end => {
                self.pending_end = Some(end);
                None
            }
        }
    }

    /// Records the result of a read.
    fn received(
        &mut self,
        found: std::result::Result<Option<Bytes>, TransportError>,
    ) -> Result<Option<Bytes>> {
        self.last_received = Instant::now();
        match found {
            Ok(bytes) => Ok(bytes),
            Err(_) if self.answer.progress().finish.is_some() => Ok(None),
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
        self.received_bytes = self.received_bytes.saturating_add(bytes.len());
        if self.received_bytes > MAX_ANSWER_BYTES {
            let message = format!("{} sent more than 256 MiB", authority(self.url));
            return Err(server_error(message));
        }
        match self.format {
            BodyFormat::EventStream => self.decode(bytes),
            BodyFormat::OtherText => {
                self.unrecognized.extend_from_slice(bytes);
                let json = first_byte(&self.unrecognized) == Some(b'{');
                if self.unrecognized.len()
                    > if json {
                        MAX_OBJECT_BYTES
                    } else {
                        MAX_UNRECOGNIZED_BYTES
                    }
                {
                    return Err(self.not_an_answer());
                }
                Ok(())
            }
            BodyFormat::Unknown => {
                self.unrecognized.extend_from_slice(bytes);
                match first_byte(&self.unrecognized) {
                    None if self.unrecognized.len() > MAX_UNRECOGNIZED_BYTES => {
                        Err(self.not_an_answer())
                    }
                    None => Ok(()),
                    Some(b'{' | b'[' | b'<') => {
                        self.format = BodyFormat::OtherText;
                        self.take(&[])
                    }
                    Some(_) => {
                        self.format = BodyFormat::EventStream;
                        let head = std::mem::take(&mut self.unrecognized);
                        self.decode(&head)
                    }
                }
            }
        }
    }

    fn decode(&mut self, bytes: &[u8]) -> Result<()> {
        let (answer, batch) = (&mut self.answer, &mut self.undelivered);
        let result = self
            .decoder
            .feed(bytes, |event| answer.event(&event, batch));
        if let Err(fault) = result {
            return Err(self.stream_error(&fault));
        }
        if self.decoder.recognised() {
            self.unrecognized = Vec::new();
        } else {
            self.unrecognized.extend_from_slice(bytes);
            if self.unrecognized.len() > MAX_UNRECOGNIZED_BYTES {
                return Err(self.not_an_answer());
            }
        }
        Ok(())
    }

    /// The end of the body.
    fn end(&mut self) -> Result<()> {
        if first_byte(&self.unrecognized) == Some(b'{') {
            let head = std::mem::take(&mut self.unrecognized);
            return match self.answer.whole(&head, &mut self.undelivered) {
                Err(StreamError::BadJson(_)) => {
                    self.unrecognized = head;
                    Err(self.not_an_answer())
                }
                result => result.map_err(|fault| self.stream_error(&fault)),
            };
        }
        if first_byte(&self.unrecognized).is_some() {
            return Err(self.not_an_answer());
        }
        let (answer, batch) = (&mut self.answer, &mut self.undelivered);
        match self.decoder.finish(|event| answer.event(&event, batch)) {
            // Half an event: the answer is cut off.
            Err(StreamError::BadJson(_)) => {
                self.event_cut_off = true;
                Ok(())
            }
            result => result.map_err(|fault| self.stream_error(&fault)),
        }
    }

    /// Returns why the answer finished, or an error if the answer is incomplete.
    fn finish(&self) -> Result<FinishReason> {
        let at = authority(self.url);
        let model = self.endpoint.quote_masked(&self.endpoint.model);
        let finish = match self.answer.progress().finish {
            Some(finish) => finish,
            None if self.answer.progress().done => FinishReason::Stop,
            None if self.received_bytes == 0 => {
                return Err(server_error(format!("{at} sent an empty body")));
            }
            // Some servers close the connection after the last call; complete arguments show that nothing is missing.
            None if self.answer.progress().calls.is_complete() && !self.event_cut_off => {
                FinishReason::Stop
            }
            None => {
                return Err(Error::runtime(format!(
                    "the answer was cut off: {at} closed the connection"
                ))
                .hint("what has arrived is kept; ask again for the rest"));
            }
        };
        let calls =
            !self.answer.progress().calls.is_empty() && finish != FinishReason::ContentFilter;
        // Of a paused answer, the text may still be to come.
        if self.answer.progress().text || calls || finish == FinishReason::Paused {
            return Ok(finish);
        }
        Err(match finish {
            FinishReason::ContentFilter => {
                let reason = self.answer.progress().filter_reason.as_deref();
                let reason = reason.map(|reason| self.endpoint.quote_masked(reason));
                let reason = reason.map_or_else(String::new, |reason| format!(" ({reason})"));
                Error::runtime(format!("{at} filtered the whole answer{reason}"))
                    .hint("rephrase the prompt, or use another model with -m")
                    .refusal(Refusal::Prompt)
            }
            FinishReason::Length if self.answer.progress().reasoning => Error::runtime(format!(
                "{model} at {at} used up its tokens before it answered"
            ))
            .hint("raise max_tokens of this model in the configuration"),
            _ => Error::runtime(format!("{model} at {at} sent an empty answer"))
                .hint("ask again, or use another model with -m"),
        })
    }

    async fn flush(&mut self, out: &Sender<StreamItem>) {
        for chunk in self.undelivered.drain(..) {
            send(out, chunk).await;
        }
    }

    fn stream_error(&mut self, fault: &StreamError) -> Error {
        let at = authority(self.url);
        if let StreamError::Temporary(status, _) = fault {
            self.temporary = Some(*status);
        }
        server_error(match fault {
            StreamError::EventTooLong => format!("{at} sent a line longer than 8 MiB"),
            StreamError::BadJson(start) => format!(
                "{at} sent a piece of the answer that is not JSON: {}",
                self.endpoint.quote_masked(start)
            ),
            StreamError::Server(message) | StreamError::Temporary(_, message) => {
                format!(
                    "{at} reports an error: {}",
                    self.endpoint.quote_masked(message)
                )
            }
            StreamError::CallLimit(limit) => format!("{at} sent {limit}"),
        })
    }

    /// Returns the error for a body that is not an answer, with the body's first line.
    fn not_an_answer(&self) -> Error {
        let text = String::from_utf8_lossy(&self.unrecognized);
        let line = text.lines().find(|l| !l.trim().is_empty()).unwrap_or("");
        Error::runtime(format!(
            "{} sent something other than an answer: {}",
            place(self.url),
            self.endpoint.quote_masked(line)
        ))
        .hint("base_url may point at a web page or another API; it usually ends in /v1")
    }
}

/// Returns the first byte that is neither white space nor part of a byte order mark.
fn first_byte(body: &[u8]) -> Option<u8> {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    body.iter().copied().find(|b| !b.is_ascii_whitespace())
}
