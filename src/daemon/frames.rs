//! Reads and writes frames on the socket of a client.

use std::sync::Arc;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::protocol::{self, FrameDecoder, kind};

/// Frames above this size are received one at a time in the whole daemon, so that many clients cannot take the memory of
/// many large frames.
const LARGE_FRAME: usize = 1 << 20;
/// How long a client may take to send the rest of a large frame.
const LARGE_FRAME_DEADLINE: Duration = Duration::from_secs(10);
static LARGE_FRAME_TURN: Semaphore = Semaphore::const_new(1);

/// How long a client may take to read a reply, other than the answer of a turn.
const REPLY_DEADLINE: Duration = Duration::from_secs(30);

/// The receiving half.
#[derive(Debug)]
pub struct FrameReader {
    stream: Arc<Stream>,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
    /// Held while a large frame is received, with the time when it must be complete.
    large_frame: Option<(SemaphorePermit<'static>, Instant)>,
}

/// The sending half.
#[derive(Debug)]
pub struct FrameWriter {
    stream: Arc<Stream>,
}

/// Both halves of a socket.
#[derive(Debug)]
pub struct Connection {
    /// Frames from the client.
    pub reader: FrameReader,
    /// Frames to the client.
    pub writer: FrameWriter,
}

impl Connection {
    /// Splits a socket into halves that can be used at the same time.
    pub fn new(stream: Stream) -> Connection {
        let stream = Arc::new(stream);
        Connection {
            reader: FrameReader {
                stream: stream.clone(),
                decoder: FrameDecoder::default(),
                buffer: vec![0; 8 << 10],
                large_frame: None,
            },
            writer: FrameWriter { stream },
        }
    }
}

impl FrameReader {
    /// Returns the next whole frame; `None` when the client has hung up. Cancel-safe.
    ///
    /// # Errors
    /// The socket failed, or the bytes are not frames.
    pub async fn read(&mut self) -> Result<Option<(u8, Vec<u8>)>> {
        loop {
            if let Some((kind, body)) = self.decoder.next_frame()? {
                self.large_frame = None;
                return Ok(Some((kind, body.to_vec())));
            }
            if self.large_frame.is_none() && self.decoder.announced() > Some(LARGE_FRAME) {
                let permit = LARGE_FRAME_TURN.acquire().await;
                let permit = permit.context(|| "cannot read from the client".into())?;
                self.large_frame = Some((permit, Instant::now() + LARGE_FRAME_DEADLINE));
            }
            let mut stream = &*self.stream;
            let read = stream.read(&mut self.buffer);
            let read = match &self.large_frame {
                Some((_, deadline)) => timeout_at(*deadline, read)
                    .await
                    .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into())),
                None => read.await,
            };
            let length = read.context(|| "cannot read from the client".into())?;
            if length == 0 {
                return Ok(None);
            }
            self.decoder.push(&self.buffer[..length]);
        }
    }

    /// Sets the size of the largest accepted frame.
    pub fn set_limit(&mut self, bytes: usize) {
        self.decoder.set_limit(bytes);
    }

    /// Waits for a frame of one kind and parses its body.
    ///
    /// # Errors
    /// Another frame was received, or the client hung up.
    pub async fn expect<T: DeserializeOwned>(&mut self, wanted: u8) -> Result<T> {
        match self.read().await? {
            Some((kind, body)) if kind == wanted => protocol::parse(&body),
            Some((kind::CANCEL, _)) => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
            Some(_) => Err(Error::runtime("the client sent an unexpected frame")),
            None => Err(Error::runtime("the client hung up")),
        }
    }
}

impl FrameWriter {
    /// Writes some of `bytes` and returns how many. Cancel-safe.
    ///
    /// # Errors
    /// The client has hung up.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match (&*self.stream).write(bytes).await {
            Ok(0) => Err(Error::runtime("the client hung up")),
            written => written.context(|| "cannot write to the client".into()),
        }
    }

    /// Writes a whole frame without a deadline. No other work may wait for this.
    ///
    /// # Errors
    /// The client has hung up.
    pub async fn send_unbounded(&mut self, frame: &[u8]) -> Result<()> {
        let sent = (&*self.stream).write_all(frame).await;
        sent.context(|| "cannot write to the client".into())
    }

    /// Writes a whole frame within the reply deadline.
    ///
    /// # Errors
    /// The client has hung up, or does not read.
    pub async fn send(&mut self, frame: &[u8]) -> Result<()> {
        tokio::time::timeout(REPLY_DEADLINE, self.send_unbounded(frame))
            .await
            .unwrap_or_else(|_| Err(Error::runtime("the client does not read")))
    }

    /// Writes a frame with a JSON body within the reply deadline.
    ///
    /// # Errors
    /// As for [`FrameWriter::send`]; or the body is too large.
    pub async fn send_json<T: Serialize>(&mut self, kind: u8, body: &T) -> Result<()> {
        self.send(&protocol::json_frame(kind, body)?).await
    }
}
