//! Connects a client with the work for its request: the loop that moves frames, and the work's handle to the client.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::frames::Connection;
use super::peer::Peer;
use crate::history::record::RecordIds;
use crate::protocol::tools::Reaction;
use crate::protocol::{self, Event, kind};
use crate::secret::Secret;
use crate::services::client_handle::{
    ClientHandle, ClientVariables, LastVariables, VariablesRequest,
};
use crate::session::feed::{FeedItem, FeedOrigin, FeedWatcher, HangUpPolicy, TurnEvent, TurnFeed};

/// The connection's end of a [`ClientHandle`].
#[derive(Debug)]
pub struct ClientLink {
    watcher: FeedWatcher,
    peer: Peer,
    variables: mpsc::Receiver<VariablesRequest>,
    /// Whether a hang-up cancels the work.
    hang_up: HangUpPolicy,
    /// The work runs in its own task: [`drive`] does not wait for it after a hang-up.
    detached: bool,
}

impl ClientLink {
    /// Watches a feed that another client has started.
    pub fn attach(
        feed: &Arc<TurnFeed>,
        peer: Peer,
        can_answer: bool,
        tty: Option<String>,
    ) -> ClientLink {
        let (_, variables) = mpsc::channel(1);
        ClientLink {
            watcher: feed.watch(can_answer, tty),
            peer,
            variables,
            hang_up: HangUpPolicy::Continue,
            detached: true,
        }
    }

    /// Marks the work as running in its own task.
    pub fn detach(&mut self) {
        self.detached = true;
    }
}

/// Connects a new request. `cancel` ends its work.
pub fn connect(
    origin: FeedOrigin,
    peer: Peer,
    can_answer: bool,
    cancel: CancellationToken,
    is_read_only: bool,
    record_ids: RecordIds,
    kept: &Arc<LastVariables>,
) -> (ClientHandle, ClientLink) {
    let (hang_up, tty) = (origin.hang_up, origin.tty.clone());
    let feed = TurnFeed::new(origin, cancel);
    let watcher = feed.watch(can_answer, tty);
    // A program that aish has started must not choose the keys of other requests.
    let kept = (!peer.is_of_aish()).then(|| kept.clone());
    let (client, variables) = ClientHandle::new(feed, is_read_only, record_ids, kept);
    let link = ClientLink {
        watcher,
        peer,
        variables,
        hang_up,
        detached: false,
    };
    (client, link)
}

/// Moves frames between a client and the work for its request, until the work has completed and the client has read
/// all frames. Returns the result of the work; `None` if the client hung up on detached work.
///
/// The client may stop reading at any time and continue later: only this task waits for it.
pub async fn drive<T>(
    connection: &mut Connection,
    link: &mut ClientLink,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = std::pin::pin!(work);
    let mut done = None;
    let (mut out, mut written) = (Vec::new(), 0);
    let mut asked: Option<oneshot::Sender<ClientVariables>> = None;
    let mut may_ask = true;
    loop {
        if written == out.len() {
            out.clear();
            written = 0;
            link.watcher.read(|item| encode(&item, &mut out));
            if out.is_empty() && done.is_some() {
                return done;
            }
        }
        let idle = written == out.len();
        let hung_up = tokio::select! {
            biased;
            wrote = connection.writer.write(&out[written..]), if !idle => match wrote {
                Ok(length) => {
                    written += length;
                    false
                }
                Err(_) => true,
            },
            result = &mut work, if done.is_none() => {
                done = Some(result);
                false
            }
            () = link.watcher.ready(), if idle => false,
            request = link.variables.recv(), if idle && may_ask && asked.is_none() => {
                match request {
                    Some((names, reply)) => {
                        append(&Event::EnvRequested { names }, &mut out);
                        asked = Some(reply);
                    }
                    None => may_ask = false,
                }
                false
            }
            frame = connection.reader.read() => match frame {
                Ok(Some((kind, body))) => {
                    take(link, kind, &body, &mut asked);
                    false
                }
                Ok(None) | Err(_) => true,
            },
        };
        if hung_up {
            if link.hang_up == HangUpPolicy::Cancel {
                link.watcher.feed().cancel_token().cancel();
            }
            if link.detached {
                return None;
            }
            // The work must not wait for an answer of this client.
            link.variables.close();
            drop(asked);
            link.watcher.cannot_answer();
            return match done {
                Some(done) => Some(done),
                None => Some(work.await),
            };
        }
    }
}

/// Handles a frame of the client.
fn take(
    link: &ClientLink,
    kind: u8,
    body: &[u8],
    asked: &mut Option<oneshot::Sender<ClientVariables>>,
) {
    match kind {
        kind::CANCEL => {
            // A client may end its own work; to end another's it must act for the person.
            let is_own = link.hang_up == HangUpPolicy::Cancel;
            if is_own || link.peer.check_origin("a cancellation of a turn").is_ok() {
                link.watcher.feed().cancel_token().cancel();
            }
        }
        kind::REACTION => match protocol::parse(body) {
            Ok(reaction) => answer(link, reaction),
            Err(e) => {
                tracing::debug!("{}", e.message);
                distrust(link);
            }
        },
        kind::ENV => match (
            protocol::parse::<BTreeMap<String, String>>(body),
            asked.take(),
        ) {
            (Ok(variables), Some(reply)) => {
                let secret = variables.into_iter().map(|(n, v)| (n, Secret::new(v)));
                // Fails if the work has ended.
                let _ = reply.send(secret.collect());
            }
            (Err(e), _) => tracing::debug!("{}", e.message),
            (Ok(_), None) => tracing::debug!("unrequested variables ignored"),
        },
        kind => {
            tracing::debug!(kind, "unexpected frame");
            distrust(link);
        }
    }
}

/// Passes an answer on if a person gave it.
fn answer(link: &ClientLink, reaction: Reaction) {
    let terminal = match reaction.is_answer() {
        true => link.peer.check_person("an answer to a question", None),
        false => Ok(None),
    };
    match terminal {
        Ok(terminal) => link.watcher.answer(reaction, terminal),
        Err(_) => link.watcher.cannot_answer(),
    }
}

/// Handles a protocol violation. It is unknown what the client shows, so its answers count as denials: its own turn is
/// cancelled; a turn that it only watches continues without its answers.
fn distrust(link: &ClientLink) {
    match link.hang_up {
        HangUpPolicy::Cancel => link.watcher.feed().cancel_token().cancel(),
        HangUpPolicy::Continue => link.watcher.cannot_answer(),
    }
}

/// Appends the frame of an item.
fn encode(item: &FeedItem<'_>, out: &mut Vec<u8>) {
    match item {
        FeedItem::Text(text) => match protocol::text_frame(text) {
            Ok(frame) => out.extend(frame),
            Err(e) => tracing::warn!("{}", e.message),
        },
        FeedItem::Reasoning(text) => append(
            &Event::Reasoning {
                text: (*text).to_owned(),
            },
            out,
        ),
        FeedItem::Event(event) => append(&wire_event(event), out),
        FeedItem::Progress(text) => append(
            &Event::ToolCallProgress {
                text: (*text).to_owned(),
            },
            out,
        ),
    }
}

fn append(event: &Event, out: &mut Vec<u8>) {
    match protocol::json_frame(kind::EVENT, event) {
        Ok(frame) => out.extend(frame),
        // The event exceeds the frame limit.
        Err(e) => tracing::warn!("an event was not sent: {}", e.message),
    }
}

/// Maps an event of a turn to the protocol.
fn wire_event(event: &TurnEvent) -> Event {
    match event.clone() {
        TurnEvent::Started { session, model } => Event::TurnStarted { session, model },
        TurnEvent::Notice(text) => Event::Notice { text },
        TurnEvent::Waiting(text) => Event::Notice {
            text: format!("{text}; Ctrl-C stops waiting"),
        },
        TurnEvent::Proposal(command) => Event::Proposal { command },
        TurnEvent::NewTools(tools) => Event::NewTools(tools),
        TurnEvent::ApprovalRequested(question) => Event::ApprovalRequested(question),
        TurnEvent::ElicitationRequested(question) => Event::ElicitationRequested(question),
        TurnEvent::QuestionClosed {
            id,
            answered_in,
            outcome,
        } => Event::QuestionClosed {
            id,
            answered_in,
            outcome,
        },
        TurnEvent::CallStarted(begin) => Event::ToolCallStarted(begin),
        TurnEvent::CallProgress(text) => Event::ToolCallProgress { text },
        TurnEvent::CallOutput(text) => Event::ToolCallOutput { text },
        TurnEvent::CallFinished(end) => Event::ToolCallFinished(end),
    }
}
