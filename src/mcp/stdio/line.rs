//! The lines that a server sends: read without taking more memory than a line may have, and understood.

use std::collections::VecDeque;

use rmcp::RoleClient;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// The most bytes of a line: a large result in one piece.
pub(super) const MAX_LINE: usize = 16 << 20;

/// What is kept of the memory that a line took.
const KEEP: usize = 1 << 20;

/// What came next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A line; [`Lines::line`] has it.
    Line,
    /// The line has more than [`MAX_LINE`] bytes. Nothing comes after it.
    TooLong,
    /// The other side has closed.
    End,
}

/// Lines of bounded length.
pub(super) struct Lines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    whole: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(from: R) -> Lines<R> {
        Lines {
            from: BufReader::with_capacity(1 << 16, from),
            line: Vec::new(),
            whole: false,
        }
    }

    /// The line that came last, without its end.
    pub(super) fn line(&self) -> &[u8] {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Reads on to the end of the next line. May be dropped and called again: nothing is awaited between
    /// taking bytes and keeping them.
    pub(super) async fn next(&mut self) -> Next {
        if std::mem::take(&mut self.whole) {
            self.line.clear();
            self.line.shrink_to(KEEP);
        }
        loop {
            let Ok(bytes @ [_, ..]) = self.from.fill_buf().await else {
                // A last line without an end is no message: its other half was lost.
                return Next::End;
            };
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |at| at + 1);
            if self.line.len() + taken > MAX_LINE {
                return Next::TooLong;
            }
            self.line.extend_from_slice(&bytes[..taken]);
            self.from.consume(taken);
            if end.is_some() {
                self.whole = true;
                return Next::Line;
            }
        }
    }
}

/// What names an answer, read without looking at the rest.
#[derive(Deserialize)]
struct Answer {
    id: RequestId,
    #[serde(default)]
    jsonrpc: Option<IgnoredAny>,
    #[serde(default)]
    method: Option<IgnoredAny>,
    #[serde(default)]
    result: Option<IgnoredAny>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// The messages of a line: one, or those of a batch, which was allowed up to 2025-03-26. None means that the
/// line is no part of the protocol.
///
/// An answer that cannot be read becomes the error that its call gets: otherwise nobody would hear of it
/// before the call's time is up.
pub(super) fn messages(line: &[u8]) -> VecDeque<RxJsonRpcMessage<RoleClient>> {
    let text = String::from_utf8_lossy(line);
    // Some write a byte order mark at the start of all they say.
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.starts_with('[') {
        let batch: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
        return batch.iter().filter_map(|m| message(m.get())).collect();
    }
    message(text).into_iter().collect()
}

fn message(text: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    if !text.starts_with('{') {
        return None;
    }
    let error = match serde_json::from_str(text) {
        Ok(message) => return Some(message),
        Err(e) => e,
    };
    let answer: Answer = serde_json::from_str(text).ok()?;
    let speaks = answer.jsonrpc.is_some() || answer.result.is_some() || answer.error.is_some();
    if answer.method.is_some() || !speaks {
        return None;
    }
    let message = format!("its answer cannot be read: {error}");
    Some(JsonRpcMessage::error(
        ErrorData::internal_error(message, None),
        Some(answer.id),
    ))
}

#[cfg(test)]
mod tests;
