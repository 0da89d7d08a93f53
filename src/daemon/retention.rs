//! Applies the retention limits of the configuration to the journal, at the start and once an hour.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Handle;
use tokio::time::MissedTickBehavior;

use crate::config::{ConfigOverrides, HistorySettings, RecordSettings};
use crate::error::Result;
use crate::history::journal::now_ms;
use crate::history::retention::{DroppedCounts, Retention, RetentionLimits};
use crate::recording;
use crate::requests::share::{self, CredentialSource};
use crate::services::SharedServices;
use crate::session::lock;
use crate::workspace::undo::UndoStore;

/// How often the limits are applied.
const INTERVAL: Duration = Duration::from_secs(3600);

const DAY_MS: u64 = 86_400_000;

/// Applies the limits on the blocking pool until the daemon stops.
pub async fn keep(services: Arc<SharedServices>) {
    let mut retention = Retention::default();
    let mut hour = tokio::time::interval(INTERVAL);
    hour.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = services.leaving.cancelled() => return,
            _ = hour.tick() => {}
        }
        // Nothing is dropped if the limits cannot be read.
        let Ok(config) = services.models.config(&ConfigOverrides::default()) else {
            continue;
        };
        let shared = services.clone();
        let dropped = blocking(&mut retention, move |retention| {
            if let Err(e) = Handle::current().block_on(share::remove_unlisted(&shared)) {
                tracing::warn!("{}", e.message);
            }
            apply_to_recordings(&shared, &config.record);
            apply(&shared, retention, &config.history)
        });
        let dropped = tokio::select! {
            biased;
            // The work may wait for a file system that does not answer. What it has begun can be continued by the next daemon.
            () = services.ending.cancelled() => return,
            dropped = dropped => dropped,
        };
        match dropped {
            None
            | Some(Ok(DroppedCounts {
                sessions: 0,
                records: 0,
            })) => {}
            Some(Ok(DroppedCounts { sessions, records })) => {
                tracing::info!(
                    "retention removed {sessions} old sessions and {records} other records"
                );
            }
            Some(Err(e)) => tracing::warn!("{}", e.message),
        }
    }
}

/// Runs work on the blocking pool. If it panics, `state` is the default, and the result `None`.
async fn blocking<S: Default + Send + 'static, T: Send + 'static>(
    state: &mut S,
    work: impl FnOnce(&mut S) -> T + Send + 'static,
) -> Option<T> {
    let mut moved = std::mem::take(state);
    let done = tokio::task::spawn_blocking(move || {
        let result = work(&mut moved);
        (moved, result)
    });
    match done.await {
        Ok((moved, result)) => {
            *state = moved;
            Some(result)
        }
        Err(e) => {
            tracing::warn!("retention has failed and is tried again in an hour: {e}");
            None
        }
    }
}

fn apply_to_recordings(services: &SharedServices, record: &RecordSettings) {
    let age = Duration::from_millis(u64::from(record.max_days) * DAY_MS);
    let since = SystemTime::now().checked_sub(age);
    let since = since.unwrap_or(SystemTime::UNIX_EPOCH);
    match recording::retention::apply(&services.paths.recordings(), since, record.max_bytes) {
        Ok(0) => {}
        Ok(deleted) => tracing::info!("retention removed {deleted} old recordings"),
        Err(e) => tracing::warn!("{}", e.message),
    }
}

fn apply(
    services: &Arc<SharedServices>,
    retention: &mut Retention,
    history: &HistorySettings,
) -> Result<DroppedCounts> {
    let limits = RetentionLimits {
        since_ms: now_ms().saturating_sub(u64::from(history.max_days) * DAY_MS),
        records: history.max_records,
        bytes: history.max_bytes,
    };
    let logs: Vec<_> = lock(&services.shells)
        .log()
        .into_iter()
        .chain(services.audit_log.log().ok())
        .collect();
    let sessions = &services.sessions;
    // Once for all sessions: `remove` holds the lock that every opening of a session needs, and does not wait.
    sessions.journal.drain();
    let in_use = sessions.in_use();
    let undo = UndoStore::new(services.paths.undo());
    let runtime = Handle::current();
    retention.apply(
        &sessions.journal,
        limits,
        &in_use,
        &logs,
        |id, updated_ms| {
            // A bucket can make this take long: the daemon does not wait for it, and the session may be used again.
            if services.leaving.is_cancelled() || sessions.in_use().contains(id) {
                return Ok(false);
            }
            let held = runtime.block_on(share::hold(id));
            runtime.block_on(share::remove(services, CredentialSource::Kept, &held))?;
            let is_removed = sessions.remove(id, updated_ms)?;
            if is_removed {
                runtime.block_on(share::forget(services, &held));
            }
            if is_removed && let Err(e) = undo.forget(id) {
                tracing::warn!("{}", e.message);
            }
            Ok(is_removed)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_continues_after_a_panic() {
        let mut state = 7;
        let failed: Option<()> = blocking(&mut state, |_| panic!("a panic of a test")).await;
        assert_eq!((failed, state), (None, 0));
        let add = |state: &mut i32| {
            *state += 1;
            *state
        };
        assert_eq!(blocking(&mut state, add).await, Some(1));
        assert_eq!((blocking(&mut state, add).await, state), (Some(2), 2));
    }
}
