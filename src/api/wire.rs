//! Refusals of requests that reach no handler, as problem documents: hyper itself answers requests that it cannot parse, and without a body.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::own_headers::OWN_HEADERS;
use super::problem::Problem;

/// Maximum size of the head of a request, and of what waits to be written, in bytes.
pub const BUFFER: usize = 16 << 10;

/// Returns a whole response with a problem document, after which the connection is closed.
pub fn response(problem: Problem) -> Vec<u8> {
    let status = problem.status;
    let body = problem.document();
    let mut response = format!(
        "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\n\
         connection: close\r\ncontent-length: {}\r\n",
        status.as_u16(),
        status.canonical_reason().unwrap_or("Error"),
        body.len()
    )
    .into_bytes();
    for (name, value) in &*OWN_HEADERS {
        response.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    response.extend(b"\r\n");
    response.extend(body);
    response
}

/// Returns the replacement of a response that hyper makes for a request that it cannot parse; `None` for other responses.
fn replacement(written: &[u8]) -> Option<Vec<u8>> {
    let rest = written.strip_prefix(b"HTTP/1.1 4");
    // The version is that of the request before on the same connection.
    let rest = rest.or_else(|| written.strip_prefix(b"HTTP/1.0 4"))?;
    let text = std::str::from_utf8(rest).ok()?;
    let (rest, headers) = text.strip_suffix("\r\n\r\n")?.split_once("\r\n")?;
    // A handler always names the type of what it sends.
    let is_bare = |line: &str| {
        matches!(line, "connection: close" | "content-length: 0") || line.starts_with("date: ")
    };
    if !headers.split("\r\n").all(is_bare) {
        return None;
    }
    let problem = |status, kind, message: &str, hint: &str| {
        Some(response(Problem::new(status, kind, message, hint)))
    };
    match rest.get(..2)? {
        "00" => problem(
            StatusCode::BAD_REQUEST,
            "usage",
            "the request is not well-formed HTTP/1.1",
            "check its first line and its headers",
        ),
        "14" => problem(
            StatusCode::URI_TOO_LONG,
            "limit",
            "the address of the request is too long",
            "shorten it; /doc describes the parameters",
        ),
        "31" => problem(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "limit",
            &format!("the head of the request is larger than {} KB", BUFFER >> 10),
            "send fewer or shorter headers, and a shorter address",
        ),
        _ => None,
    }
}

/// A connection on which the bare refusals of hyper become problem documents.
#[derive(Debug)]
pub struct DocumentedRefusals<S> {
    /// The connection itself.
    pub stream: S,
    /// The response that replaces a refusal, and how much of it is written already.
    replacement: Option<(Vec<u8>, usize)>,
    /// Whether a refusal was replaced.
    pub has_refused: bool,
}

impl<S> DocumentedRefusals<S> {
    /// Wraps a connection.
    pub fn new(stream: S) -> DocumentedRefusals<S> {
        DocumentedRefusals {
            stream,
            replacement: None,
            has_refused: false,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for DocumentedRefusals<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DocumentedRefusals<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.replacement.is_none() {
            match replacement(bytes) {
                Some(document) => {
                    this.replacement = Some((document, 0));
                    this.has_refused = true;
                }
                None => return Pin::new(&mut this.stream).poll_write(cx, bytes),
            }
        }
        while let Some((document, written)) = &mut this.replacement {
            let rest = document.get(*written..).unwrap_or_default();
            if rest.is_empty() {
                this.replacement = None;
                break;
            }
            match ready!(Pin::new(&mut this.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Ok(0)),
                count => *written += count,
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // A refusal of hyper has a head only.
        match parts {
            [only] => self.poll_write(cx, only),
            parts => Pin::new(&mut self.stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
