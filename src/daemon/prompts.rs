//! Prompts of clients: who may send them, and under which configuration.

use std::sync::Arc;

use tokio_util::task::task_tracker::TaskTrackerToken;

use super::Daemon;
use super::client_link::{self, drive};
use super::pending_greetings::ClientPeer;
use super::request_link::{connect, holding, link_end, reply};
use crate::chat::CONTINUED;
use crate::error::Result;
use crate::history::journal::now_ms;
use crate::protocol::{self, AskAccepted, AskRequest, kind};
use crate::requests;
use crate::session::feed::{FeedOrigin, HangUpPolicy};
use crate::turn::{plan, preview, task};

/// Whether a prompt is served.
enum Admission {
    /// No: the frame of the failure.
    Refused(Vec<u8>),
    /// Yes.
    Admitted {
        /// A program that aish has started sends it.
        is_of_aish: bool,
        /// Changes of the configuration wait for a confirmation.
        is_stricter: bool,
    },
}

/// Restricts the prompt of a program that aish has started. At a terminal, a changed configuration is asked about first;
/// elsewhere the stricter one counts.
fn admit(daemon: &Daemon, peer: &ClientPeer, ask: &mut AskRequest) -> Result<Admission> {
    if ask.follows {
        ask.text = CONTINUED.to_owned();
    }
    let is_of_aish = peer.process.is_of_aish();
    if is_of_aish {
        let restricted = requests::restrict(ask);
        peer.process.recorded("a prompt in a session", restricted)?;
    }
    let is_command = ask.purpose.is_single_command();
    let changes = daemon.services.models.unseen_changes();
    let is_stricter = changes.is_some() && !is_command;
    let can_ask = ask.can_answer && !is_command && !ask.background;
    if let Some(changes) = changes.filter(|_| can_ask && peer.process.is_at_terminal()) {
        let failure = requests::config_changed(changes);
        return protocol::json_frame(kind::FAILURE, &failure).map(Admission::Refused);
    }
    Ok(Admission::Admitted {
        is_of_aish,
        is_stricter,
    })
}

/// Returns the request that a prompt would send.
///
/// # Errors
/// The client must not send prompts, or the reply is too large.
pub async fn preview(
    daemon: &Arc<Daemon>,
    peer: &mut ClientPeer,
    mut ask: AskRequest,
    work: TaskTrackerToken,
) -> Result<Option<Vec<u8>>> {
    if let Admission::Refused(frame) = admit(daemon, peer, &mut ask)? {
        return Ok(Some(frame));
    }
    let (client, mut link) = connect(daemon, peer, ask.shell.clone(), ask.tty.clone());
    let preview = async {
        match preview::preview(&daemon.services, &client, ask).await {
            Ok(preview) => reply(&preview),
            Err(failure) => protocol::json_frame(kind::FAILURE, &failure),
        }
    };
    let frame = drive(&mut peer.connection, &mut link, holding(work, preview)).await;
    frame.transpose()
}

/// Starts a turn and shows it, unless it is to run in the background.
///
/// # Errors
/// The client must not send prompts, or the end cannot be sent.
pub async fn ask(
    daemon: &Arc<Daemon>,
    peer: &mut ClientPeer,
    mut ask: AskRequest,
    work: TaskTrackerToken,
) -> Result<Option<Vec<u8>>> {
    let background = ask.background && !ask.purpose.is_single_command();
    let (is_of_aish, is_stricter) = match admit(daemon, peer, &mut ask)? {
        Admission::Refused(frame) => return Ok(Some(frame)),
        Admission::Admitted {
            is_of_aish,
            is_stricter,
        } => (is_of_aish, is_stricter),
    };
    let origin = FeedOrigin {
        shell: ask.shell.clone(),
        tty: ask.tty.clone(),
        prompt: ask.text.clone(),
        started_ms: now_ms(),
        hang_up: match background {
            true => HangUpPolicy::Continue,
            false => HangUpPolicy::Cancel,
        },
    };
    let (client, mut link) = client_link::connect(
        origin,
        peer.process.clone(),
        ask.can_answer && !background,
        daemon.cancel.child_token(),
        peer.is_read_only,
        peer.record_ids.clone(),
        &daemon.services.last_variables,
    );
    if is_of_aish {
        client.feed.notice(requests::RESTRICTED);
    }
    if is_stricter {
        client.feed.notice(requests::STRICTER);
    }
    let prepared = plan::prepare(&daemon.services, &client, ask);
    let Some(plan) = drive(&mut peer.connection, &mut link, prepared).await else {
        return Ok(None);
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(failure) => return protocol::json_frame(kind::FAILURE, &failure).map(Some),
    };
    let (session, prompt_id) = plan.ids();
    let feed = client.feed.clone();
    if background {
        // Before the turn starts: a client that only waits for the reply is not a watcher.
        drop(link);
        task::spawn(&daemon.services, feed, plan);
        return reply(&AskAccepted { session, prompt_id }).map(Some);
    }
    task::spawn(&daemon.services, feed.clone(), plan);
    drop(work);
    link_end(peer, link, feed.finished()).await
}
