//! JSON lines from a server: reading with bounded memory, and parsing.

use std::collections::VecDeque;

use rmcp::RoleClient;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// Maximum length of a line in bytes. A large result is one line.
pub(super) const MAX_LINE_BYTES: usize = 16 << 20;

/// Buffer capacity kept after a long line.
const KEPT_CAPACITY: usize = 1 << 20;

/// Outcome of reading a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadOutcome {
    /// A complete line, available from `line()`.
    Line,
    /// The line is longer than [`MAX_LINE_BYTES`]. The reader is unusable from here on.
    TooLong,
    /// The stream has ended.
    End,
}

/// Line reader with a length limit.
pub(super) struct LineReader<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    line_complete: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(from: R) -> LineReader<R> {
        LineReader {
            from: BufReader::with_capacity(1 << 16, from),
            line: Vec::new(),
            line_complete: false,
        }
    }

    /// The last line read, without its line end.
    pub(super) fn line(&self) -> &[u8] {
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    /// Reads the next line. Cancel safe: consumed bytes are stored before the next await.
    pub(super) async fn next(&mut self) -> ReadOutcome {
        if std::mem::take(&mut self.line_complete) {
            self.line.clear();
            self.line.shrink_to(KEPT_CAPACITY);
        }
        loop {
            let Ok(bytes @ [_, ..]) = self.from.fill_buf().await else {
                // A last line without a line end is incomplete.
                return ReadOutcome::End;
            };
            let end = memchr::memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |at| at + 1);
            if self.line.len() + taken > MAX_LINE_BYTES {
                return ReadOutcome::TooLong;
            }
            self.line.extend_from_slice(&bytes[..taken]);
            self.from.consume(taken);
            if end.is_some() {
                self.line_complete = true;
                return ReadOutcome::Line;
            }
        }
    }
}

/// Fields that identify a response, parsed without its content.
#[derive(Deserialize)]
struct ResponseHeader {
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

/// Parses the messages of a line: one, or a batch, which versions up to 2025-03-26 allow. Empty if the line is not a
/// protocol message.
///
/// A malformed response is converted to an error response, so that its call fails immediately rather than after its time
/// limit.
pub(super) fn parse_messages(line: &[u8]) -> VecDeque<RxJsonRpcMessage<RoleClient>> {
    let text = String::from_utf8_lossy(line);
    // Some programs write a byte order mark at the start of their output.
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.starts_with('[') {
        let batch: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
        return batch
            .iter()
            .filter_map(|m| parse_message(m.get()))
            .collect();
    }
    parse_message(text).into_iter().collect()
}

fn parse_message(text: &str) -> Option<RxJsonRpcMessage<RoleClient>> {
    if !text.starts_with('{') {
        return None;
    }
    let error = match serde_json::from_str(text) {
        Ok(message) => return Some(message),
        Err(e) => e,
    };
    let answer: ResponseHeader = serde_json::from_str(text).ok()?;
    let is_json_rpc = answer.jsonrpc.is_some() || answer.result.is_some() || answer.error.is_some();
    if answer.method.is_some() || !is_json_rpc {
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
