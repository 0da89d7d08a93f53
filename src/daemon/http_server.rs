//! Serves the requests about the HTTP server.

use std::sync::Arc;

use super::Daemon;
use super::peer::Peer;
use crate::api::{ListenAddress, PairingId, PeerCheck};
use crate::error::Result;
use crate::history::record::{PolicyChange, RecordBody, RecordIds};
use crate::protocol::{ServerReply, ServerRequest};

/// Serves one request.
///
/// # Errors
/// The server cannot be started, or its files cannot be written.
pub async fn serve(daemon: &Arc<Daemon>, request: ServerRequest) -> Result<ServerReply> {
    let (api, paths) = (&daemon.api, &daemon.services.paths);
    let mut reply = ServerReply::default();
    match request {
        ServerRequest::Start { hostname, port } => {
            let config = daemon.services.models.config(&Default::default())?;
            let settings = &config.server;
            let is_given = hostname.is_some() || port.is_some();
            let address = ListenAddress {
                hostname: hostname.unwrap_or_else(|| settings.hostname.clone()),
                // The configuration has checked its range.
                port: port.unwrap_or_else(|| u16::try_from(settings.port).unwrap_or(0)),
            };
            start(daemon, is_given.then_some(address)).await?;
        }
        ServerRequest::Stop => reply.has_stopped = api.stop(paths).await,
        ServerRequest::Status => {}
        ServerRequest::Ticket { session } => {
            let path = page_path(daemon, session).await?;
            reply.ticket_url = Some(api.ticket_url(&path)?);
        }
        ServerRequest::Pair { session } => {
            let path = page_path(daemon, session).await?;
            let (url, handle) = api.pair(&path)?;
            (reply.ticket_url, reply.pairing) = (Some(url), Some(handle));
        }
        ServerRequest::PairingCode { handle } => {
            reply.pairing_code = api.pairing_code(&handle).await?;
        }
        ServerRequest::DecidePairing { handle, accept } => {
            if accept {
                // A permission is recorded before it counts.
                let id = api.waiting_pairing(&handle)?;
                if let Err(e) = record_pairing(daemon, id).await {
                    api.decide_pairing(&handle, false)?;
                    return Err(e);
                }
            }
            api.decide_pairing(&handle, accept)?;
        }
        ServerRequest::Unpair => reply.unpaired = api.unpair(),
        ServerRequest::Rotate => {
            let check = peer_check(daemon);
            api.rotate(&daemon.services, &daemon.cancel, check).await?;
        }
    }
    (reply.status, reply.failure) = (api.status(), api.failure());
    Ok(reply)
}

/// Returns the path of the page, of a session if one is wanted, and starts the server if needed.
async fn page_path(daemon: &Arc<Daemon>, session: Option<String>) -> Result<String> {
    let path = match session {
        Some(wanted) => format!("/s/{}", daemon.services.sessions.find(&wanted).await?),
        None => "/".to_owned(),
    };
    if daemon.api.status().is_none() {
        start(daemon, None).await?;
    }
    Ok(path)
}

/// Records that a browser may answer questions. Its answers name the id.
async fn record_pairing(daemon: &Arc<Daemon>, id: PairingId) -> Result<()> {
    let record = RecordBody::Policy {
        change: PolicyChange::Granted,
        what: "a paired browser may answer questions".to_owned(),
        grant: Some(id.to_string()),
        why: None,
    };
    let ids = RecordIds {
        user: daemon.services.user.clone(),
        ..RecordIds::default()
    };
    daemon.services.audit_log.record_synced(&ids, record).await
}

async fn start(daemon: &Arc<Daemon>, address: Option<ListenAddress>) -> Result<()> {
    let check = peer_check(daemon);
    let api = &daemon.api;
    api.start(&daemon.services, &daemon.cancel, check, address)
        .await?;
    Ok(())
}

/// Returns who may use the unix socket of the API: processes of the user that aish has not started for a model.
pub fn peer_check(daemon: &Arc<Daemon>) -> PeerCheck {
    // The server must not keep the daemon alive.
    let daemon = Arc::downgrade(daemon);
    Arc::new(move |uid, pid| {
        let Some(daemon) = daemon.upgrade() else {
            return false;
        };
        let is_own = uid == nix::unistd::geteuid().as_raw();
        is_own && !Peer::new(&daemon, pid, &RecordIds::default()).is_of_aish()
    })
}
