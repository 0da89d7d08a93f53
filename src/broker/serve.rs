//! Model servers that the daemon starts when a prompt needs one, and stops when they are idle.
//!
//! A server is a child in a process group of its own, with the write end of a pipe as the other end
//! of its standard input: one that ends at end of file cannot outlive the daemon, however that dies.
//! One task per server owns the child from its start to its reaping.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, Kind, Result};

mod health;
mod log;
mod process;

use process::{Process, Spec};

/// The variables that a server gets. No others: the daemon's environment may hold keys.
pub const ENVIRONMENT: &[&str] = &["HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "TZ", "USER"];

/// How long a server may take until it answers `/health`.
const START: Duration = Duration::from_secs(60);

/// How often a start is tried again when another program took the port first.
const PORT_TRIES: u32 = 3;

/// The servers that run, each found by its name, command and idle time: a changed configuration gets
/// a server of its own, and the old one ends when it is idle.
#[derive(Debug)]
pub struct Servers {
    shared: Arc<Shared>,
    logs: PathBuf,
    environment: Vec<(OsString, OsString)>,
    start: Duration,
}

#[derive(Debug)]
struct Shared {
    running: Mutex<HashMap<Key, Arc<Server>>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    name: String,
    command: Vec<String>,
    idle: Duration,
}

/// What the callers and the task of one server share.
#[derive(Debug)]
struct Server {
    status: watch::Sender<Status>,
    /// A lease is a receiver, so that "nobody holds one" is an event.
    holds: watch::Sender<()>,
    /// Told of each new lease.
    leased: Notify,
}

#[derive(Debug, Clone)]
enum Status {
    Starting,
    Ready(String),
    Failed(Failure),
}

/// An error that many callers get.
#[derive(Debug, Clone)]
struct Failure {
    kind: Kind,
    message: String,
    hint: String,
}

/// A server that answers. It is not stopped for being idle while one of these is held.
#[derive(Debug)]
pub struct Lease {
    base_url: String,
    _hold: watch::Receiver<()>,
}

impl Lease {
    /// The address to which `/chat/completions` is added: `http://127.0.0.1:PORT/v1`.
    pub fn base_url(&self) -> &str {
        &self.base_url
    }
}

impl Servers {
    /// No servers yet. Their output goes to `serve-NAME.log` in `logs`; `environment` is all they
    /// get of it: the variables named in [`ENVIRONMENT`].
    pub fn new(logs: PathBuf, environment: Vec<(OsString, OsString)>) -> Self {
        Servers {
            shared: Arc::new(Shared {
                running: Mutex::new(HashMap::new()),
                stop: CancellationToken::new(),
                tasks: TaskTracker::new(),
            }),
            logs,
            environment,
            start: START,
        }
    }

    /// The server of the model `name`, started if it does not run: many callers at once get one.
    /// `{port}` in `command` stands for a free port on loopback. The server is stopped after `idle`
    /// without a lease.
    ///
    /// # Errors
    /// It cannot be started, ends before it answers, or does not answer within a minute.
    pub async fn ensure(&self, name: &str, command: &[String], idle: Duration) -> Result<Lease> {
        let key = Key {
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
                    let spec = Spec::new(name, command, &self.logs, &self.environment)?;
                    let server = Arc::new(Server {
                        status: watch::Sender::new(Status::Starting),
                        holds: watch::Sender::new(()),
                        leased: Notify::new(),
                    });
                    running.insert(key.clone(), Arc::clone(&server));
                    let task = run(
                        Arc::clone(&self.shared),
                        Arc::clone(&server),
                        key,
                        spec,
                        self.start,
                    );
                    self.shared.tasks.spawn(task);
                    server
                }
            };
            // Under the lock: the task stops an idle server only after looking here.
            let hold = server.holds.subscribe();
            server.leased.notify_one();
            (server.status.subscribe(), hold)
        };
        let status = status
            .wait_for(|status| !matches!(status, Status::Starting))
            .await
            .map(|status| status.clone());
        match status {
            Ok(Status::Ready(base_url)) => Ok(Lease {
                base_url,
                _hold: hold,
            }),
            Ok(Status::Failed(Failure {
                kind,
                message,
                hint,
            })) => Err(Error::new(kind, message).hint(hint)),
            // The task ended without a word: the runtime is going down.
            Ok(Status::Starting) | Err(_) => Err(Error::runtime(format!(
                "the server of model {name} is not started: aish is stopping"
            ))),
        }
    }

    /// The names of the models whose servers run or are being started.
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

    /// Stops every server, waits until all are gone, and starts no more.
    pub async fn shutdown(&self) {
        {
            // Under the lock, so that no server is added behind it.
            let _running = self.shared.running();
            self.shared.stop.cancel();
            self.shared.tasks.close();
        }
        self.shared.tasks.wait().await;
    }
}

impl Shared {
    /// Nothing panics while it holds the lock, and a map is whole even if it did.
    fn running(&self) -> MutexGuard<'_, HashMap<Key, Arc<Server>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the server out, so that the next caller starts a new one.
    fn forget(&self, key: &Key) {
        self.running().remove(key);
    }

    /// The same, if nobody holds a lease.
    fn forget_if_unused(&self, key: &Key, server: &Server) -> bool {
        let mut running = self.running();
        let unused = server.holds.receiver_count() == 0;
        if unused {
            running.remove(key);
        }
        unused
    }
}

/// The life of one server: start, serve, stop.
async fn run(shared: Arc<Shared>, server: Arc<Server>, key: Key, spec: Spec, limit: Duration) {
    let mut process = match start(&spec, limit, &shared.stop).await {
        Ok(process) => process,
        Err(failure) => {
            // First out of the map, so that whoever comes now tries anew.
            shared.forget(&key);
            server.status.send_replace(Status::Failed(failure));
            return;
        }
    };
    server
        .status
        .send_replace(Status::Ready(process.base_url()));
    tokio::select! {
        how = process.ended() => {
            tracing::warn!(model = %key.name, %how, "the model server ended by itself");
            shared.forget(&key);
        }
        () = unused(&shared, &server, &key) => {}
        () = shared.stop.cancelled() => shared.forget(&key),
    }
    process.stop().await;
}

/// Waits until nobody has held a lease for the idle time, and takes the server out of the map.
async fn unused(shared: &Shared, server: &Server, key: &Key) {
    loop {
        server.holds.closed().await;
        tokio::select! {
            () = sleep(key.idle) => {
                if shared.forget_if_unused(key, server) {
                    return;
                }
            }
            () = server.leased.notified() => {}
        }
    }
}

/// Starts the child and waits until it answers. A child that does not make it is gone at return.
async fn start(
    spec: &Spec,
    limit: Duration,
    stop: &CancellationToken,
) -> std::result::Result<Process, Failure> {
    let deadline = Instant::now() + limit;
    let mut tries = 1;
    loop {
        let mut process = Process::spawn(spec)?;
        let port = process.port();
        let failure = tokio::select! {
            how = process.ended() => Err(how),
            ready = timeout_at(deadline, health::answers(port)) => match ready {
                // Another program may have taken the port first, and it is that one that answers.
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
            Err(_) if tries < PORT_TRIES && process::is_taken(port) => {
                tries += 1;
                continue;
            }
            Err(how) if last_line.is_empty() => format!("ended with {how} before it answered"),
            Err(how) => format!("ended with {how}: {last_line}"),
            Ok(what) => what,
        };
        return Err(Failure {
            kind: Kind::Runtime,
            message: format!("the server of model {} {what}", spec.name),
            hint: format!("its log may say more: {}", spec.log.display()),
        });
    }
}

#[cfg(test)]
mod tests;
