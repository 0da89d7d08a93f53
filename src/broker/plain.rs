//! HTTP/1.1 to this machine, without TLS: llama.cpp, Ollama, LM Studio and the like.
//!
//! The general client hands over one frame of a chunked body at a time, from one
//! task to another, which costs more per token than everything else that is done
//! with it. Here a read takes what the socket has and unwraps it in place, and
//! local models need neither certificates nor proxy settings to be loaded.

mod chunked;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use reqwest::{Method, Url};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::endpoint::authority;
use super::http::{CONNECT_TIMEOUT, POOL_IDLE};

/// How much is read at once.
const READ: usize = 64 << 10;

/// The most that the head of a response may take.
const MAX_HEAD: usize = 64 << 10;

/// The most headers of a response.
const MAX_HEADERS: usize = 100;

/// How many idle connections are kept to one server.
const MAX_IDLE: usize = 4;

/// Why there is no response, or no more of it.
#[derive(Debug)]
pub enum Fault {
    /// There is no connection.
    Connect(io::Error),
    /// The connection is there, but the response is not, or breaks off.
    Exchange(io::Error),
}

/// Connections that wait for the next request, by `host:port`.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Mutex<HashMap<String, Vec<(TcpStream, Instant)>>>,
}

impl Pool {
    /// A connection that seems to be alive still.
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
        // Those of servers that are asked no more as well: a model server of ours gets another port
        // with every start, so that nobody would take them again.
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

/// Whether an idle connection seems to be of use still.
fn is_alive((stream, since): &(TcpStream, Instant)) -> bool {
    // A byte would answer a question that nobody asked; an end means that the server has left.
    let quiet =
        matches!(stream.try_read(&mut [0]), Err(e) if e.kind() == io::ErrorKind::WouldBlock);
    quiet && since.elapsed() < POOL_IDLE
}

/// The host of a URL as a socket wants it: without the brackets around an IPv6 address.
pub fn host(url: &Url) -> &str {
    url.host_str().unwrap_or("").trim_matches(['[', ']'])
}

/// Sends a request and reads the head of its response.
///
/// # Errors
/// See [`Fault`].
pub async fn send(
    pool: &Arc<Pool>,
    method: &Method,
    url: &Url,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response, Fault> {
    let key = authority(url);
    let request = written(method, url, &key, headers, body);
    loop {
        let kept = pool.take(&key);
        let reused = kept.is_some();
        let stream = match kept {
            Some(stream) => stream,
            None => connect(url).await.map_err(Fault::Connect)?,
        };
        match exchange(pool, &key, stream, &request).await {
            // The server closed it just now, as it may with an idle connection. The pool gets smaller
            // each time, so that this ends.
            Err((_, Heard::Nothing)) if reused => {}
            result => return result.map_err(|(e, _)| Fault::Exchange(e)),
        }
    }
}

async fn connect(url: &Url) -> io::Result<TcpStream> {
    let address = (host(url), url.port_or_known_default().unwrap_or(80));
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address))
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The request as bytes. Nothing in it can end a line: a `Url` is percent-encoded, and a
/// `HeaderMap` holds no line breaks.
fn written(method: &Method, url: &Url, key: &str, headers: &HeaderMap, body: &[u8]) -> Vec<u8> {
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

/// Whether a failed exchange got as far as a part of the response.
#[derive(Debug, PartialEq, Eq)]
enum Heard {
    Nothing,
    Something,
}

async fn exchange(
    pool: &Arc<Pool>,
    key: &str,
    mut stream: TcpStream,
    request: &[u8],
) -> Result<Response, (io::Error, Heard)> {
    // A server that refuses a long request may answer and close before it has read it all.
    let sent = stream.write_all(request).await;
    let mut buffer = Vec::with_capacity(READ);
    loop {
        let heard = |buffer: &Vec<u8>| match buffer.is_empty() {
            true => Heard::Nothing,
            false => Heard::Something,
        };
        match stream.read_buf(&mut buffer).await {
            Ok(0) => {
                let early =
                    io::Error::new(io::ErrorKind::UnexpectedEof, "closed without an answer");
                return Err((sent.err().unwrap_or(early), heard(&buffer)));
            }
            Ok(_) => {}
            Err(e) => return Err((sent.err().unwrap_or(e), heard(&buffer))),
        }
        match parse_head(&mut buffer) {
            Ok(Some(head)) => {
                let keep = head.keep && sent.is_ok();
                return Ok(Response {
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
            Ok(None) if buffer.len() < MAX_HEAD => {}
            Ok(None) => return Err((invalid("the headers are too long"), Heard::Something)),
            Err(why) => return Err((invalid(why), Heard::Something)),
        }
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// How the end of a body is known.
#[derive(Debug)]
enum Body {
    Chunked(chunked::Decoder),
    Sized(u64),
    ToTheEnd,
    Done,
}

struct Head {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Body,
    keep: bool,
}

/// Takes the head off `buffer`, if all of it is there. Interim responses (100) are passed over.
fn parse_head(buffer: &mut Vec<u8>) -> Result<Option<Head>, &'static str> {
    loop {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let length = match response.parse(buffer) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(_) => return Err("the answer is not HTTP"),
        };
        let status = response.code.ok_or("the answer is not HTTP")?;
        let newer = response.version == Some(1);
        let headers: Vec<(String, Vec<u8>)> = response
            .headers
            .iter()
            .map(|h| (h.name.to_ascii_lowercase(), h.value.to_vec()))
            .collect();
        buffer.drain(..length);
        match status {
            101 => return Err("the server wants to speak another protocol"),
            100..=199 => continue,
            _ => {}
        }
        let says = |name: &str, token: &str| {
            values(&headers, name).any(|v| {
                v.split(|b| *b == b',')
                    .any(|t| t.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
            })
        };
        let body = body_of(&headers, status)?;
        let keep = newer && !says("connection", "close") && !matches!(body, Body::ToTheEnd);
        return Ok(Some(Head {
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

/// How the body is framed. What two servers could read in two ways is refused.
fn body_of(headers: &[(String, Vec<u8>)], status: u16) -> Result<Body, &'static str> {
    if matches!(status, 204 | 304) {
        return Ok(Body::Done);
    }
    let mut coding = values(headers, "transfer-encoding");
    let mut length = values(headers, "content-length");
    match (coding.next(), length.next()) {
        (Some(_), Some(_)) => Err("the answer has two lengths"),
        (Some(coded), None) => {
            if coding.next().is_none() && coded.eq_ignore_ascii_case(b"chunked") {
                Ok(Body::Chunked(chunked::Decoder::default()))
            } else {
                Err("the answer has an unknown transfer-encoding")
            }
        }
        (None, Some(first)) => {
            if length.any(|other| other != first) || !first.iter().all(u8::is_ascii_digit) {
                return Err("the answer has no clear length");
            }
            let number = std::str::from_utf8(first).ok().and_then(|n| n.parse().ok());
            number
                .map(Body::Sized)
                .ok_or("the answer has no clear length")
        }
        (None, None) => Ok(Body::ToTheEnd),
    }
}

/// A response whose body is on the way. Dropping it before the end closes the connection.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Body,
    /// What has been read and not been unwrapped.
    buffer: Vec<u8>,
    /// The connection may be used again.
    keep: bool,
    /// Gone once the body has ended.
    stream: Option<TcpStream>,
    pool: Arc<Pool>,
    key: String,
}

impl Response {
    /// The value of a header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        let (_, value) = self.headers.iter().find(|(n, _)| n == name)?;
        Some(value)
    }

    /// The next piece of the body, or `None` at its end. Nothing is lost when the future is dropped.
    ///
    /// # Errors
    /// The connection broke before the end of the body.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Fault> {
        loop {
            let piece = self.unwrap_buffer().map_err(Fault::Exchange)?;
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
            let Some(stream) = &mut self.stream else {
                return Ok(None);
            };
            if matches!(self.body, Body::Done) {
                if let Some(stream) = self.stream.take().filter(|_| self.keep) {
                    self.pool.give_back(&self.key, stream);
                }
                return Ok(None);
            }
            self.buffer.reserve(READ);
            match stream.read_buf(&mut self.buffer).await {
                Ok(0) if matches!(self.body, Body::ToTheEnd) => self.body = Body::Done,
                Ok(0) => {
                    let early = io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "closed in the middle of the answer",
                    );
                    return Err(Fault::Exchange(early));
                }
                Ok(_) => {}
                Err(e) => return Err(Fault::Exchange(e)),
            }
        }
    }

    /// What the buffer holds of the body.
    fn unwrap_buffer(&mut self) -> io::Result<Vec<u8>> {
        let mut piece = std::mem::take(&mut self.buffer);
        let beyond = match &mut self.body {
            Body::ToTheEnd => 0,
            Body::Chunked(decoder) => {
                let beyond = decoder
                    .decode(&mut piece)
                    .map_err(|chunked::Malformed| invalid("the chunks of the answer are broken"))?;
                if decoder.is_done() {
                    self.body = Body::Done;
                }
                beyond
            }
            Body::Sized(left) => {
                let here = usize::try_from(*left)
                    .unwrap_or(usize::MAX)
                    .min(piece.len());
                let beyond = piece.len() - here;
                piece.truncate(here);
                *left -= here as u64;
                if *left == 0 {
                    self.body = Body::Done;
                }
                beyond
            }
            Body::Done => {
                let beyond = piece.len();
                piece.clear();
                beyond
            }
        };
        // Bytes that belong to no answer would be taken for the next one.
        self.keep &= beyond == 0;
        Ok(piece)
    }
}

#[cfg(test)]
mod tests;
