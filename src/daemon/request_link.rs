//! Connects the work for a request to its client, and sends its end.

use serde::Serialize;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Daemon;
use super::client_link::{self, ClientLink, drive};
use super::pending_greetings::ClientPeer;
use crate::error::Result;
use crate::protocol::{self, ShellId, kind};
use crate::services::client_handle::ClientHandle;
use crate::session::feed::{FeedOrigin, TurnEnd};

/// Returns the frame of a reply.
///
/// # Errors
/// The reply cannot be written as JSON.
pub fn reply<T: Serialize>(body: &T) -> Result<Vec<u8>> {
    protocol::json_frame(kind::REPLY, body)
}

/// Runs `work` and releases `token` when it completes. The client may take longer to read what the work has sent, and
/// the daemon must not wait for that when it stops.
pub async fn holding<T>(token: TaskTrackerToken, work: impl Future<Output = T>) -> T {
    let result = work.await;
    drop(token);
    result
}

/// Connects a request other than a prompt.
pub fn connect(
    daemon: &Daemon,
    peer: &ClientPeer,
    shell: Option<ShellId>,
    tty: Option<String>,
) -> (ClientHandle, ClientLink) {
    client_link::connect(
        FeedOrigin::of_request(shell, tty),
        peer.process.clone(),
        true,
        daemon.cancel.child_token(),
        peer.is_read_only,
        peer.record_ids.clone(),
        &daemon.services.last_variables,
    )
}

/// Sends a turn to the client until it ends. The client may stop reading at any time and continue later.
///
/// # Errors
/// The last frame cannot be sent.
pub async fn link_end(
    peer: &mut ClientPeer,
    mut link: ClientLink,
    end: impl Future<Output = TurnEnd>,
) -> Result<Option<Vec<u8>>> {
    link.detach();
    let Some(end) = drive(&mut peer.connection, &mut link, end).await else {
        return Ok(None);
    };
    let frame = end_frame(&end)?;
    peer.connection.writer.send_unbounded(&frame).await?;
    Ok(None)
}

/// Returns the last frame of a turn.
///
/// # Errors
/// The frame is too large.
pub fn end_frame(end: &TurnEnd) -> Result<Vec<u8>> {
    match end {
        Ok(answer) => protocol::json_frame(kind::REPLY, answer),
        Err(failure) => protocol::json_frame(kind::FAILURE, failure),
    }
}
