//! Reading the body of a request, within a limit for the large bodies of all requests together.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{StatusCode, header};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::{Semaphore, SemaphorePermit};

use super::exact_json::{self, BodyFault};
use super::problem::{Answer, Problem};

/// Time for the body of a request to arrive.
pub(super) const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Size up to which a body takes none of the space for large ones, in bytes.
pub(super) const SMALL_BODY: usize = 2 << 20;

/// Space for large bodies, in MiB: many clients that keep back the ends of theirs must not fill the memory.
static LARGE_BODIES: Semaphore = Semaphore::const_new(32);

/// Time for which a large body waits for space. Its client sends the body after that.
const SPACE_TIMEOUT: Duration = Duration::from_secs(5);

/// A body that was read, with its share of the space for large bodies.
pub(super) struct ReadBody {
    bytes: Vec<u8>,
    permit: Option<SemaphorePermit<'static>>,
}

impl ReadBody {
    /// Number of bytes.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Parses the body, and gives its share of the space back after that, also if its client has gone away.
    pub(super) fn parse(self) -> Result<Value, BodyFault> {
        let parsed = exact_json::parse(&self.bytes);
        drop(self.permit);
        parsed
    }
}

/// Returns the space that no large body takes, in MiB.
#[cfg(test)]
pub(super) fn free_space() -> usize {
    LARGE_BODIES.available_permits()
}

/// Reads a body of at most `max` bytes.
///
/// # Errors
/// It is larger, arrives too late, or cannot be read; or there is no space.
pub(super) async fn read(body: Body, max: usize) -> Answer<ReadBody> {
    let declared = body.size_hint().exact();
    let declared = declared.and_then(|size| usize::try_from(size).ok());
    let mut permit = None;
    if let Some(size) = declared.filter(|size| *size > SMALL_BODY) {
        permit = Some(wait_for_space(size).await?);
    }
    let read = async {
        let mut bytes = Vec::with_capacity(declared.unwrap_or_default().min(max));
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let Ok(piece) = piece else {
                return Err(Problem::bad_request(
                    "the body cannot be read: a chunk is malformed, or the connection has ended",
                    "send it again",
                ));
            };
            let length = bytes.len() + piece.len();
            if length > max {
                return Err(too_large(max));
            }
            if length > SMALL_BODY && permit.is_none() {
                permit = Some(wait_for_space(max).await?);
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    };
    let bytes = tokio::time::timeout(BODY_TIMEOUT, read).await;
    let bytes = bytes.unwrap_or_else(|_| {
        let message = format!(
            "the body did not arrive within {} s",
            BODY_TIMEOUT.as_secs()
        );
        let status = StatusCode::REQUEST_TIMEOUT;
        Err(Problem::new(
            status,
            "limit",
            message,
            "send it without delay",
        ))
    })?;
    Ok(ReadBody { bytes, permit })
}

async fn wait_for_space(size: usize) -> Answer<SemaphorePermit<'static>> {
    let mib = u32::try_from(size.div_ceil(1 << 20)).unwrap_or(u32::MAX);
    match tokio::time::timeout(SPACE_TIMEOUT, LARGE_BODIES.acquire_many(mib)).await {
        Ok(Ok(space)) => Ok(space),
        _ => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "limit",
            "too many large bodies are being read",
            "send it again in a few seconds, or send less in one request",
        )
        .header(header::RETRY_AFTER, "5")),
    }
}

/// Refuses a body of more than `maximum` bytes.
pub(super) fn too_large(maximum: usize) -> Problem {
    Problem::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "limit",
        format!("the body is larger than {maximum} bytes"),
        "send less in one request",
    )
}
