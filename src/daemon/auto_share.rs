//! Shares sessions again after their answers, if the configuration says so. No answer and no prompt waits for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::Daemon;
use crate::requests::share;
use crate::services::AnsweredTurn;

/// Maximum number of answers that wait.
pub const MAX_WAITING: usize = 256;

/// Follows the answers until the daemon stops.
pub async fn follow(daemon: Arc<Daemon>, mut answered: mpsc::Receiver<AnsweredTurn>) {
    let services = &daemon.services;
    loop {
        let turn = tokio::select! {
            biased;
            () = services.leaving.cancelled() => return,
            turn = answered.recv() => turn,
        };
        let Some(turn) = turn else { return };
        // Several answers of a session need one page.
        let mut sessions = BTreeMap::from([(turn.session.clone(), turn)]);
        while let Ok(turn) = answered.try_recv() {
            sessions.insert(turn.session.clone(), turn);
        }
        for turn in sessions.values() {
            let base = daemon.api.status().and_then(|status| status.url);
            let refreshed = tokio::select! {
                biased;
                // The register knows what is under way, and the next answer shares again.
                () = services.leaving.cancelled() => return,
                refreshed = share::refresh(services, turn, base.as_deref()) => refreshed,
            };
            if let Err(e) = refreshed {
                tracing::warn!("a session was not shared automatically: {}", e.message);
            }
        }
    }
}
