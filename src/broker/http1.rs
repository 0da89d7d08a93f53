//! HTTP/1.1 without TLS to servers on this machine, such as llama.cpp, Ollama and LM Studio.
//!
//! reqwest hands over one frame of a chunked body at a time from one task to another, which costs more per token than
//! all other work on the token. This client reads whatever the socket holds and removes the chunk framing in place.
//! It needs neither certificates nor proxy settings.
//!
//! Measured with hyper's `client::conn::http1` polled in the task of the reader: an answer of 20,000 tokens, one HTTP
//! chunk each, cost the daemon 14.4–15.2 ms of CPU time with hyper and 7.2–8.0 ms with this client.

mod chunked;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::endpoint::authority;
use crate::http_client::IDLE_CONNECTION_TIMEOUT;

/// Size of one read.
const READ_BYTES: usize = 64 << 10;

/// Maximum size of the head of a response.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;

/// Maximum number of idle connections to one server.
const MAX_IDLE: usize = 4;

/// Why the response is missing or incomplete.
#[derive(Debug)]
pub enum Http1Error {
    /// The connection was not established.
    Connect(io::Error),
    /// The connection broke before the end of the response.
    Exchange(io::Error),
}

/// Idle connections, by `host:port`.
#[derive(Debug, Default)]
pub struct ConnectionPool {
    idle: Mutex<HashMap<String, Vec<(TcpStream, Instant)>>>,
}

impl ConnectionPool {
    /// Takes an idle connection that the server has not closed.
    fn take(&self, key: &str) -> Option<TcpStream> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = idle.get_mut(key)?;
        while let Some(connection) = kept.pop() {
            if is_alive(&connection) {
                return Some(connection.0);
            }
        }
        None
    }

    fn give_back(&self, key: &str, stream: TcpStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        // Closed connections to all servers go: a model server started by aish gets another port each time, so no
        // request to its old port would remove them.
        idle.retain(|_, kept| {
            kept.retain(is_alive);
            !kept.is_empty()
        });
        let kept = idle.entry(key.to_owned()).or_default();
        if kept.len() >= MAX_IDLE {
            kept.remove(0);
        }
        kept.push((stream, Instant::now()));
    }
}

/// Whether an idle connection can be used again.
fn is_alive((stream, since): &(TcpStream, Instant)) -> bool {
    // Readable means that the server has closed the connection, or sent bytes that belong to no request.
    let quiet =
        matches!(stream.try_read(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
    quiet && since.elapsed() < IDLE_CONNECTION_TIMEOUT
}

/// The host of a URL without the brackets around an IPv6 address, as a socket address needs it.
fn host(url: &Url) -> &str {
    url.host_str().unwrap_or("").trim_matches(['[', ']'])
}

/// Sends a request and reads the head of its response.
///
/// # Errors
/// See [`Http1Error`].
pub async fn send(
    pool: &Arc<ConnectionPool>,
    connect_timeout: Duration,
    method: &Method,
    url: &Url,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Http1Response, Http1Error> {
    let key = authority(url);
    let request = encoded(method, url, &key, headers, body);
    loop {
        let kept = pool.take(&key);
        let reused = kept.is_some();
        let stream = match kept {
            Some(stream) => stream,
            None => connect(url, connect_timeout)
                .await
                .map_err(Http1Error::Connect)?,
        };
        match exchange(pool, &key, stream, &request).await {
            // A server may close an idle connection at any moment. The loop ends because each round takes one
            // connection out of the pool.
            Err((_, ExchangeProgress::NothingReceived)) if reused => {}
            result => return result.map_err(|(e, _)| Http1Error::Exchange(e)),
        }
    }
}

async fn connect(url: &Url, connect_timeout: Duration) -> io::Result<TcpStream> {
    let address = (host(url), url.port_or_known_default().unwrap_or(80));
    let stream = tokio::time::timeout(connect_timeout, TcpStream::connect(address))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Encodes the request. No part of it can hold a line break: a `Url` is percent-encoded, and a `HeaderMap` refuses
/// line breaks.
fn encoded(method: &Method, url: &Url, key: &str, headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let mut request = Vec::with_capacity(body.len() + 1024);
    request.extend_from_slice(method.as_str().as_bytes());
    request.push(b' ');
    request.extend_from_slice(url.path().as_bytes());
    if let Some(query) = url.query() {
        request.push(b'?');
        request.extend_from_slice(query.as_bytes());
    }
    request.extend_from_slice(b" HTTP/1.1\r\nhost: ");
    request.extend_from_slice(key.as_bytes());
    for (name, value) in headers {
        request.extend_from_slice(b"\r\n");
        request.extend_from_slice(name.as_str().as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value.as_bytes());
    }
    request.extend_from_slice(format!("\r\ncontent-length: {}\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    request
}

/// How far a failed exchange got.
#[derive(Debug, PartialEq, Eq)]
enum ExchangeProgress {
    NothingReceived,
    PartlyReceived,
}

async fn exchange(
    pool: &Arc<ConnectionPool>,
    key: &str,
    mut stream: TcpStream,
    request: &[u8],
) -> Result<Http1Response, (io::Error, ExchangeProgress)> {
    // A server that refuses a long request may answer and close the connection before it has read the whole request.
    let sent = stream.write_all(request).await;
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        let progress = |buffer: &Vec<u8>| match buffer.is_empty() {
            true => ExchangeProgress::NothingReceived,
            false => ExchangeProgress::PartlyReceived,
        };
        match stream.read_buf(&mut buffer).await {
            Ok(0) => {
                let early =
                    io::Error::new(io::ErrorKind::UnexpectedEof, "closed without an answer");
                return Err((sent.err().unwrap_or(early), progress(&buffer)));
            }
            Ok(_) => {}
            Err(e) => return Err((sent.err().unwrap_or(e), progress(&buffer))),
        }
        match parse_head(&mut buffer) {
            Ok(Some(head)) => {
                let keep = head.keep && sent.is_ok();
                return Ok(Http1Response {
                    status: head.status,
                    headers: head.headers,
                    body: head.body,
                    buffer,
                    keep,
                    stream: Some(stream),
                    pool: Arc::clone(pool),
                    key: key.to_owned(),
                });
            }
            Ok(None) if buffer.len() < MAX_HEAD_BYTES => {}
            Ok(None) => {
                return Err((
                    invalid(HttpViolation::HeadTooLong),
                    ExchangeProgress::PartlyReceived,
                ));
            }
            Err(violation) => return Err((invalid(violation), ExchangeProgress::PartlyReceived)),
        }
    }
}

/// How a response breaks the rules of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HttpViolation {
    NotHttp,
    HeadTooLong,
    ProtocolSwitch,
    TwoLengths,
    UnknownTransferEncoding,
    UnclearLength,
    BrokenChunks,
}

impl fmt::Display for HttpViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HttpViolation::NotHttp => "the answer is not HTTP",
            HttpViolation::HeadTooLong => "the headers are too long",
            HttpViolation::ProtocolSwitch => "the server wants to switch to another protocol",
            HttpViolation::TwoLengths => "the answer has two lengths",
            HttpViolation::UnknownTransferEncoding => "the answer has an unknown transfer-encoding",
            HttpViolation::UnclearLength => "the answer has no clear length",
            HttpViolation::BrokenChunks => "the chunks of the answer are broken",
        })
    }
}

fn invalid(violation: HttpViolation) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, violation.to_string())
}

/// How the end of a body is found.
#[derive(Debug)]
enum BodyFraming {
    Chunked(chunked::ChunkedDecoder),
    Sized(u64),
    UntilClose,
    Done,
}

struct ResponseHead {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: BodyFraming,
    keep: bool,
}

/// Removes the head from `buffer` if it is complete. Skips interim responses (1xx).
fn parse_head(buffer: &mut Vec<u8>) -> Result<Option<ResponseHead>, HttpViolation> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(buffer) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err(HttpViolation::NotHttp),
        };
        let status = response.code.ok_or(HttpViolation::NotHttp)?;
        let newer = response.version == Some(1);
        let headers: Vec<(String, Vec<u8>)> = response
            .headers
            .iter()
            .map(|h| (h.name.to_ascii_lowercase(), h.value.to_vec()))
            .collect();
        buffer.drain(..length);
        match status {
            101 => return Err(HttpViolation::ProtocolSwitch),
            100..=199 => continue,
            _ => {}
        }
        let header_has = |name: &str, token: &str| {
            values(&headers, name).any(|v| {
                v.split(|b| *b == b',')
                    .any(|t| t.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
            })
        };
        let body = body_framing(&headers, status)?;
        let keep =
            newer && !header_has("connection", "close") && !matches!(body, BodyFraming::UntilClose);
        return Ok(Some(ResponseHead {
            status,
            headers,
            body,
            keep,
        }));
    }
}

fn values<'a>(headers: &'a [(String, Vec<u8>)], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    headers
        .iter()
        .filter(move |(n, _)| n == name)
        .map(|(_, v)| v.as_slice())
}

/// Finds the framing of the body. Refuses a head that two parsers could understand differently.
fn body_framing(headers: &[(String, Vec<u8>)], status: u16) -> Result<BodyFraming, HttpViolation> {
    if matches!(status, 204 | 304) {
        return Ok(BodyFraming::Done);
    }
    let mut coding = values(headers, "transfer-encoding");
    let mut length = values(headers, "content-length");
    match (coding.next(), length.next()) {
        (Some(_), Some(_)) => Err(HttpViolation::TwoLengths),
        (Some(coded), None) => {
            if coding.next().is_none() && coded.eq_ignore_ascii_case(b"chunked") {
                Ok(BodyFraming::Chunked(chunked::ChunkedDecoder::default()))
            } else {
                Err(HttpViolation::UnknownTransferEncoding)
            }
        }
        (None, Some(first)) => {
            if length.any(|other| other != first) || !first.iter().all(u8::is_ascii_digit) {
                return Err(HttpViolation::UnclearLength);
            }
            let number = std::str::from_utf8(first).ok().and_then(|n| n.parse().ok());
            number
                .map(BodyFraming::Sized)
                .ok_or(HttpViolation::UnclearLength)
        }
        (None, None) => Ok(BodyFraming::UntilClose),
    }
}

/// A response whose body is still arriving. Dropping the response before the end closes the connection.
#[derive(Debug)]
pub struct Http1Response {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: BodyFraming,
    /// Bytes that were read, with their chunk framing.
    buffer: Vec<u8>,
    /// The connection can be used for another request.
    keep: bool,
    /// `None` once the body has ended.
    stream: Option<TcpStream>,
    pool: Arc<ConnectionPool>,
    key: String,
}

impl Http1Response {
    /// Returns the value of a header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.headers.iter().find(|(n, _)| n == name)?;
        Some(value)
    }

    /// Returns the next piece of the body, or `None` at its end. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection broke before the end of the body.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Http1Error> {
        loop {
            let piece = self.take_body_bytes().map_err(Http1Error::Exchange)?;
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
            let Some(stream) = &mut self.stream else {
                return Ok(None);
            };
            if matches!(self.body, BodyFraming::Done) {
                if let Some(stream) = self.stream.take().filter(|_| self.keep) {
                    self.pool.give_back(&self.key, stream);
                }
                return Ok(None);
            }
            self.buffer.reserve(READ_BYTES);
            match stream.read_buf(&mut self.buffer).await {
                Ok(0) if matches!(self.body, BodyFraming::UntilClose) => {
                    self.body = BodyFraming::Done
                }
                Ok(0) => {
                    let early = io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "closed in the middle of the answer",
                    );
                    return Err(Http1Error::Exchange(early));
                }
                Ok(_) => {}
                Err(e) => return Err(Http1Error::Exchange(e)),
            }
        }
    }

    /// Takes the body's bytes out of the buffer.
    fn take_body_bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = std::mem::take(&mut self.buffer);
        let beyond = match &mut self.body {
            BodyFraming::UntilClose => 0,
            BodyFraming::Chunked(decoder) => {
                let beyond = decoder
                    .decode(&mut piece)
                    .map_err(|chunked::MalformedChunk| invalid(HttpViolation::BrokenChunks))?;
                if decoder.is_done() {
                    self.body = BodyFraming::Done;
                }
                beyond
            }
            BodyFraming::Sized(left) => {
                let here = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(piece.len());
                let beyond = piece.len() - here;
                piece.truncate(here);
                *left -= here as u64;
                if *left == 0 {
                    self.body = BodyFraming::Done;
                }
                beyond
            }
            BodyFraming::Done => {
                let beyond = piece.len();
                piece.clear();
                beyond
            }
        };
        // Bytes after the end would be taken for the beginning of the next response.
        self.keep &= beyond == 0;
        Ok(piece)
    }
}

#[cfg(test)]
mod tests;
