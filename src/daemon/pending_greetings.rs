//! Clients that have connected and sent no request yet: a bounded number, and their hello.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::frames::{Connection, FrameWriter};
use super::peer::Peer;
use crate::error::{Error, Result};
use crate::history::record::RecordIds;
use crate::protocol::{Hello, MAX_FRAME, MAX_HELLO_FRAME, PROTOCOL, Request, RequestFailure, kind};
use crate::session::lock;

/// A client that sends no request within this time is disconnected.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);

/// Maximum number of clients that have sent no request yet.
const MAX_GREETINGS: usize = 64;

/// The clients that have sent no request yet, oldest first. A real client sends hello and request together, so that in a
/// flood of silent connections the oldest one is closed, and a real client is still served.
#[derive(Debug, Default)]
pub struct PendingGreetings(Mutex<VecDeque<CancellationToken>>);

impl PendingGreetings {
    /// Adds a client, and cancels the oldest one if there are too many. The client cancels its token after its request.
    pub fn admit(&self) -> CancellationToken {
        let mut pending = lock(&self.0);
        pending.retain(|greeting| !greeting.is_cancelled());
        if pending.len() >= MAX_GREETINGS
            && let Some(oldest) = pending.pop_front()
        {
            oldest.cancel();
        }
        let greeting = CancellationToken::new();
        pending.push_back(greeting.clone());
        greeting
    }
}

/// A client, and the facts known about it after its hello.
pub struct ClientPeer {
    /// The connection.
    pub connection: Connection,
    /// The process at its other end.
    pub process: Peer,
    /// The client only reads state.
    pub is_read_only: bool,
    /// Ids of its records.
    pub record_ids: RecordIds,
}

/// Checks the client's version and reads its request. Returns `None` if the client is not served.
///
/// # Errors
/// The client sends no greeting in time, or something else, or the reply cannot be sent.
pub async fn greet(daemon: &Daemon, peer: &mut ClientPeer) -> Result<Option<Request>> {
    let Connection { reader, writer } = &mut peer.connection;
    reader.set_limit(MAX_HELLO_FRAME);
    let first = tokio::time::timeout(HELLO_DEADLINE, reader.expect::<Hello>(kind::HELLO));
    let hello = first
        .await
        .map_err(|_| Error::runtime("a client sent no hello in time"))??;
    reader.set_limit(MAX_FRAME);
    peer.is_read_only = hello.read_only;
    let mut reply = Hello::current();
    let is_newer = hello.is_newer(&reply.version) || hello.protocol > PROTOCOL;
    let is_leaving = daemon.services.leaving.is_cancelled();
    let replaces = !hello.read_only && is_newer && !is_leaving;
    let may_replace = match replaces {
        true => peer.process.check_origin("a replacement of the daemon"),
        false => Ok(()),
    };
    reply.leaving = is_leaving || replaces && may_replace.is_ok();
    writer.send_json(kind::HELLO, &reply).await?;
    if let Err(e) = may_replace {
        return fail(writer, &e).await;
    }
    if reply.leaving {
        daemon.services.leaving.cancel();
        // No other request is served, but the client may ask for an immediate stop.
        let request = tokio::time::timeout(HELLO_DEADLINE, reader.expect(kind::REQUEST)).await;
        if let Ok(Ok(Request::Stop { now: true })) = request {
            if let Err(e) = peer.process.check_origin("a stop of the daemon") {
                return fail(writer, &e).await;
            }
            daemon.stop(true);
        }
        return Ok(None);
    }
    if hello.protocol != PROTOCOL {
        let e = Error::runtime(format!(
            "this aish-helper ({}) and the daemon ({}) speak different protocol versions",
            hello.version, reply.version
        ))
        .hint("use the newer one, or run: aish-helper restart");
        return fail(writer, &e).await;
    }
    match tokio::time::timeout(HELLO_DEADLINE, reader.expect(kind::REQUEST)).await {
        Ok(Ok(request)) => Ok(Some(request)),
        // A malformed request: the reply names the fault.
        Ok(Err(e)) => fail(writer, &e).await,
        Err(_) => Err(Error::runtime("a client sent no request in time")),
    }
}

/// Sends a failure; the client is not served.
async fn fail(writer: &mut FrameWriter, error: &Error) -> Result<Option<Request>> {
    let failure = RequestFailure::from(error);
    writer.send_json(kind::FAILURE, &failure).await?;
    Ok(None)
}
