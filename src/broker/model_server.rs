//! Model servers that the daemon starts when a prompt needs one, and stops when they are idle.
//!
//! A server is a child process in its own process group. Its standard input is a pipe from the daemon: a server that
//! exits at end of file cannot outlive the daemon, however the daemon dies. One task per server owns the child process
//! until it is reaped.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, ErrorKind, Result};

mod health;
mod output_log;
mod process;

use process::{LaunchSpec, ServerProcess};

/// The only environment variables that a server gets, since the daemon's environment may hold keys.
pub const SERVER_ENVIRONMENT: &[&str] = &["HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "USER"];

/// Maximum time until a server answers `/health`: reading some gigabytes from a slow disk takes minutes.
const START_TIMEOUT: Duration = Duration::from_secs(180);

/// Maximum number of starts if another program takes the port first.
const MAX_START_ATTEMPTS: u32 = 3;

/// The running servers by name, command and idle time. A changed configuration starts another server, and the old one
/// stops when it is idle.
#[derive(Debug)]
pub struct ModelServers {
    shared: Arc<ServerRegistry>,
    logs: PathBuf,
    environment: Vec<(OsString, OsString)>,
    start_timeout: Duration,
}

#[derive(Debug)]
struct ServerRegistry {
    running: Mutex<HashMap<ServerKey, Arc<ManagedServer>>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ServerKey {
    name: String,
    command: Vec<String>,
    idle: Duration,
}

/// State shared by the callers and the task of one server.
#[derive(Debug)]
struct ManagedServer {
    status: watch::Sender<ModelServerStatus>,
    /// A lease is a receiver, so that the drop of the last lease is an event.
    holds: watch::Sender<()>,
    /// Notified of each new lease.
    leased: Notify,
}

#[derive(Debug, Clone)]
enum ModelServerStatus {
    Starting,
    Ready(String),
    Failed(StartFailure),
}

/// An error that is reported to all waiting callers.
#[derive(Debug, Clone)]
struct StartFailure {
    kind: ErrorKind,
    message: String,
    hint: String,
}

/// A server that answers. The server is not stopped as idle while a lease exists.
#[derive(Debug)]
pub struct ServerLease {
    base_url: String,
    _hold: watch::Receiver<()>,
}

impl ServerLease {
    /// Returns the base URL: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }
}

impl ModelServers {
    /// Returns an empty set of servers. Their output goes to `serve-NAME.log` in `logs`; they get no environment but
    /// `environment`, the variables named in [`SERVER_ENVIRONMENT`].
    pub fn new(logs: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        ModelServers {
            shared: Arc::new(ServerRegistry {
                running: Mutex::new(HashMap::new()),
                stop: CancellationToken::new(),
                tasks: TaskTracker::new(),
            }),
            logs,
            environment,
            start_timeout: START_TIMEOUT,
        }
    }

    /// Returns a lease of the server of the model `name`, which is started if needed; concurrent callers share one server.
    /// `{port}` in `command` is replaced by a free loopback port. The server is stopped after `idle` without a lease.
    ///
    /// # Errors
    /// The server cannot be started, exits before it answers, or does not answer within a minute.
    pub async fn ensure(
        &self,
        name: &str,
        command: &[String],
        idle: Duration,
    ) -> Result<ServerLease> {
        let key = ServerKey {
            name: name.to_string(),
            command: command.to_vec(),
            idle,
        };
        let (mut status, hold) = {
            let mut running = self.shared.running();
            if self.shared.stop.is_cancelled() {
                return Err(Error::runtime(format!(
                    "the server of model {name} is not started: aish is stopping"
                )));
            }
            let server = match running.get(&key) {
                Some(server) => Arc::clone(server),
                None => {
                    let spec = LaunchSpec::new(name, command, &self.logs, &self.environment)?;
                    let server = Arc::new(ManagedServer {
                        status: watch::Sender::new(ModelServerStatus::Starting),
                        holds: watch::Sender::new(()),
                        leased: Notify::new(),
                    });
                    running.insert(key.clone(), Arc::clone(&server));
                    let task = supervise(
                        Arc::clone(&self.shared),
                        Arc::clone(&server),
                        key,
                        spec,
                        self.start_timeout,
                    );
                    self.shared.tasks.spawn(task);
                    server
                }
            };
            // Under the lock, because the server's task checks for leases under it before stopping an idle server.
            let hold = server.holds.subscribe();
            server.leased.notify_one();
            (server.status.subscribe(), hold)
        };
        let status = status
            .wait_for(|status| !matches!(status, ModelServerStatus::Starting))
            .await
            .map(|status| status.clone());
        match status {
            Ok(ModelServerStatus::Ready(base_url)) => Ok(ServerLease {
                base_url,
                _hold: hold,
            }),
            Ok(ModelServerStatus::Failed(StartFailure {
                kind,
                message,
                hint,
            })) => Err(Error::new(kind, message).hint(hint)),
            // The task ended without a result because the runtime is shutting down.
            Ok(ModelServerStatus::Starting) | Err(_) => Err(Error::runtime(format!(
                "the server of model {name} is not started: aish is stopping"
            ))),
        }
    }

    /// Returns the names of the models whose servers run or are starting.
    pub fn running(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .shared
            .running()
            .keys()
            .map(|k| k.name.clone())
            .collect();
        names.sort();
        names.dedup();
        names
    }

    /// Stops every server, waits for all to exit, and refuses further starts.
    pub async fn shutdown(&self) {
        {
            // Under the lock, so that no server is added afterwards.
            let _running = self.shared.running();
            self.shared.stop.cancel();
            self.shared.tasks.close();
        }
        self.shared.tasks.wait().await;
    }
}

impl ServerRegistry {
    /// Nothing panics while holding this lock, so a poisoned lock is safe to use.
    fn running(&self) -> MutexGuard<'_, HashMap<ServerKey, Arc<ManagedServer>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the server, so that the next caller starts another.
    fn remove(&self, key: &ServerKey) {
        self.running().remove(key);
    }

    /// Removes the server if there is no lease. Returns whether it was removed.
    fn remove_if_unused(&self, key: &ServerKey, server: &ManagedServer) -> bool {
        let mut running = self.running();
        let unused = server.holds.receiver_count() == 0;
        if unused {
            running.remove(key);
        }
        unused
    }
}

/// Starts a server, waits until it is no longer needed, and stops it.
async fn supervise(
    shared: Arc<ServerRegistry>,
    server: Arc<ManagedServer>,
    key: ServerKey,
    spec: LaunchSpec,
    limit: Duration,
) {
    let mut process = match start(&spec, limit, &shared.stop).await {
        Ok(process) => process,
        Err(failure) => {
            // Removed before the failure is reported, so that a caller that sees the failure can try again.
            shared.remove(&key);
            server
                .status
                .send_replace(ModelServerStatus::Failed(failure));
            return;
        }
    };
    server
        .status
        .send_replace(ModelServerStatus::Ready(process.base_url()));
    tokio::select! {
        how = process.ended() => {
            tracing::warn!(model = %key.name, %how, "the model server ended by itself");
            shared.remove(&key);
        }
        () = wait_until_unused(&shared, &server, &key) => {}
        () = shared.stop.cancelled() => shared.remove(&key),
    }
    process.stop().await;
}

/// Waits until there has been no lease for the idle time, and removes the server from the map.
async fn wait_until_unused(shared: &ServerRegistry, server: &ManagedServer, key: &ServerKey) {
    loop {
        server.holds.closed().await;
        tokio::select! {
            () = sleep(key.idle) => {
                if shared.remove_if_unused(key, server) {
                    return;
                }
            }
            () = server.leased.notified() => {}
        }
    }
}

/// Starts the child process and waits until it answers. On failure the child has been reaped.
async fn start(
    spec: &LaunchSpec,
    limit: Duration,
    stop: &CancellationToken,
) -> std::result::Result<ServerProcess, StartFailure> {
    let deadline = Instant::now() + limit;
    let mut attempts = 1;
    loop {
        let mut process = ServerProcess::spawn(spec)?;
        let port = process.port();
        let failure = tokio::select! {
            how = process.ended() => Err(how),
            ready = timeout_at(deadline, health::wait_until_ready(port)) => match ready {
                // Another program may have taken the port first and answer in place of the server.
                Ok(()) => match process.has_ended() {
                    None => return Ok(process),
                    Some(how) => Err(how),
                },
                Err(_) => Ok(format!("did not answer /health within {} s", limit.as_secs())),
            },
            () = stop.cancelled() => Ok("is not started: aish is stopping".to_string()),
        };
        let last_line = process.stop().await;
        let what = match failure {
            Err(_) if attempts < MAX_START_ATTEMPTS && process::is_taken(port) => {
                attempts += 1;
                continue;
            }
            Err(how) if last_line.is_empty() => format!("ended with {how} before it answered"),
            Err(how) => format!("ended with {how}: {last_line}"),
            Ok(what) => what,
        };
        return Err(StartFailure {
            kind: ErrorKind::Runtime,
            message: format!("the server of model {} {what}", spec.name),
            hint: format!("its log may say more: {}", spec.log.display()),
        });
    }
}

#[cfg(test)]
mod tests;
