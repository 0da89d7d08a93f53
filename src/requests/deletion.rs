//! Deletion of a session, with its shares and with what undo needs of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::share::{self, CredentialSource};
use crate::error::{Error, ErrorKind, Result};
use crate::services::SharedServices;
use crate::session::store::SessionStore;
use crate::share::publisher::HeldSession;
use crate::turn::background_notice;
use crate::workspace::undo::UndoStore;

/// How long a deletion waits for requests that use the session: a reader that is about to reply, or a turn whose answer was sent
/// and whose task has not ended.
const RELEASED_WITHIN: Duration = Duration::from_millis(500);

/// Time between two attempts to delete a session.
const RETRY: Duration = Duration::from_millis(5);

/// Deletes a session.
///
/// # Errors
/// There is no such session, or a request uses it.
pub async fn delete_session(
    services: &Arc<SharedServices>,
    source: CredentialSource<'_>,
    wanted: &str,
) -> Result<()> {
    let id = services.sessions.find(wanted).await?;
    // Held until the session is gone, so that it is not published meanwhile. First, because it may have to wait for an upload.
    let held = share::hold(&id).await;
    when_unused(services, &id, SessionStore::check_unused).await?;
    // Before the session, so that no page is left whose session is gone.
    let removed = share::remove(services, source, &held).await?;
    // In a task of its own: a client that hangs up would leave parts of a session that nobody can delete.
    let deleted = share::complete(services, delete(services.clone(), held, id)).await;
    deleted.map_err(|e| match removed.count {
        0 => e,
        _ => Error {
            message: format!("{}; its shared page is removed", e.message),
            ..e
        },
    })
}

/// Deletes a session whose pages are removed, with all that belongs to it.
async fn delete(services: Arc<SharedServices>, held: HeldSession, id: String) -> Result<()> {
    when_unused(&services, &id, SessionStore::delete).await?;
    background_notice::session_deleted(&services.paths, &id);
    let (undo, deleted) = (UndoStore::new(services.paths.undo()), id.clone());
    let forgotten = super::blocking(move || {
        let forgotten = undo.forget(&deleted);
        forgotten.map_err(|e| Error::runtime(e.message))
    });
    let forgotten = forgotten.await;
    share::forget(&services, &held).await;
    services.helpers.workers.end_session(&id).await;
    forgotten
}

/// Repeats an attempt for a while if a request uses the session.
async fn when_unused(
    services: &Arc<SharedServices>,
    id: &str,
    attempt: fn(&SessionStore, &str) -> Result<()>,
) -> Result<()> {
    let end = Instant::now() + RELEASED_WITHIN;
    loop {
        let (shared, id) = (services.clone(), id.to_owned());
        let attempted = super::blocking(move || {
            // Before the lock: a queued record would be written to the removed file.
            shared.sessions.journal.drain();
            attempt(&shared.sessions, &id)
        });
        match attempted.await {
            Err(e) if e.kind == ErrorKind::Usage && Instant::now() < end => {
                tokio::time::sleep(RETRY).await;
            }
            done => return done,
        }
    }
}
