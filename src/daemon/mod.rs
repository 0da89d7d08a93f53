//! The per-user daemon: one process that keeps sessions, connections and MCP servers open between prompts.
//!
//! It binds its socket while it holds the instance lock and accepts clients in a loop that never blocks on one of them.
//! On a stop it drains: running turns complete, and no new client is served.

pub mod attach;
pub mod audit_log;
pub mod background_notice;
pub mod call_context;
pub mod client_link;
pub mod command_approval;
pub mod dispatch;
pub mod feed_guard;
pub mod frames;
pub mod gate;
pub mod keys;
pub mod manual_call;
pub mod mcp;
pub mod mcp_startup;
pub mod model;
pub mod ordered_writes;
pub mod outbound_redaction;
pub mod policy;
pub mod requests;
pub mod retention;
pub mod rules_in_force;
pub mod shell_events;
pub mod shells;
pub mod tool_execution;
pub mod tool_exposure;
pub mod tool_history;
pub mod tool_view;
pub mod turn_context;
pub mod turn_plan;
pub mod turn_task;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use nix::fcntl::Flock;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::Broker;
use crate::error::{Error, ErrorContext, Result};
use crate::history::journal::{Journal, now_ms};
use crate::history::partial_answer;
use crate::mcp::{ServerPool, StateListener};
use crate::paths::{Paths, lock_file};
use crate::safety::redact::Redactor;
use crate::session::lock;
use crate::session::store::SessionStore;
use crate::tools::finder::ToolFinder;
use crate::tools::results::ResultStore;
use audit_log::AuditLog;
use shells::ShellRegistry;

/// Time for clients to read the rest of completed answers when the daemon stops. A client may render more slowly than
/// the answer came, and the answer must not be truncated for that.
const READ_GRACE: Duration = Duration::from_secs(5);
/// The same when the daemon must stop at once.
const READ_GRACE_NOW: Duration = Duration::from_millis(200);
/// Interval for closing unused sessions and pruning state of ended shells.
const TIDY: Duration = Duration::from_secs(60);
/// Interval for checking that the socket still exists; a daemon without a socket exits.
const SOCKET_CHECK: Duration = Duration::from_secs(5);

/// State shared by all connections and turns.
#[derive(Debug)]
pub struct Daemon {
    /// The directories.
    pub paths: Paths,
    /// The login name of the user, for the journal.
    pub user: Option<String>,
    /// Sends requests to models.
    pub broker: Broker,
    /// The sessions.
    pub sessions: Arc<SessionStore>,
    /// The audit log: records of actions outside of sessions.
    pub acts: Arc<AuditLog>,
    /// The shells and their last commands, as reported by the hooks.
    pub shells: Arc<Mutex<ShellRegistry>>,
    /// The MCP servers.
    pub mcp: ServerPool,
    /// The tools that the user was shown.
    pub known: tool_history::ToolHistory,
    /// Servers that start once a shell provides their variables.
    pub lacking: mcp_startup::MissingEnvMap,
    /// The search index of the tools.
    pub finder: Arc<ToolFinder>,
    /// Truncated tool results, which the model can read in parts.
    pub results: Arc<ResultStore>,
    /// The configuration, keys and detected models.
    pub models: model::ModelRegistry,
    /// Approved commands that are running.
    pub running: command_approval::RunningCommands,
    /// When the daemon became ready.
    pub started: Instant,
    /// Work that the daemon completes before it exits: turns, requests, and the tasks they started.
    pub tasks: TaskTracker,
    /// Connections. On a stop, the daemon waits for them only within a grace period.
    pub connections: TaskTracker,
    /// Number of running turns.
    pub turns: AtomicUsize,
    /// Cancelled when the daemon stops serving new clients.
    pub leaving: CancellationToken,
    /// Cancelled when all work must end.
    pub cancel: CancellationToken,
}

impl Daemon {
    /// Stops the daemon: at once, or after the running turns.
    pub fn stop(&self, now: bool) {
        self.leaving.cancel();
        if now {
            self.cancel.cancel();
        }
    }

    /// Counts a turn as running until the guard is dropped.
    pub fn count_turn(&self) -> TurnGuard<'_> {
        self.turns.fetch_add(1, Ordering::Relaxed);
        TurnGuard(&self.turns)
    }
}

/// Counts a running turn until it is dropped.
#[derive(Debug)]
pub struct TurnGuard<'a>(&'a AtomicUsize);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Single-instance file lock; the kernel releases it when the process exits.
#[derive(Debug)]
pub struct InstanceLock(#[expect(dead_code, reason = "holding it is the use")] Flock<File>);

/// Waits until no other daemon runs, and takes the instance lock.
///
/// # Errors
/// Other users can access the run directory, or it is not writable.
pub fn claim(paths: &Paths) -> Result<InstanceLock> {
    paths.prepare_run()?;
    lock_file(&paths.lock()).map(InstanceLock)
}

/// Binds the socket. The caller holds the instance lock, so a socket that refuses connections is stale.
///
/// # Errors
/// The path exists and is not a stale socket.
pub fn bind(paths: &Paths, _right: &InstanceLock) -> Result<Listener> {
    let path = paths.socket();
    if fs::symlink_metadata(&path).is_ok() {
        match std::os::unix::net::UnixStream::connect(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
                fs::remove_file(&path)
                    .context(|| format!("cannot remove the stale socket {}", path.display()))?;
            }
            Ok(_) => {
                return Err(Error::runtime(format!(
                    "another program answers on {}",
                    path.display()
                ))
                .hint("end it, or set AISH_HOME to another place"));
            }
            Err(e) => {
                return Err(
                    Error::runtime(format!("{} is in the way: {e}", path.display()))
                        .hint("remove it"),
                );
            }
        }
    }
    let name = path
        .as_path()
        .to_fs_name::<GenericFilePath>()
        .context(|| format!("bad path {}", path.display()))?;
    let listener = ListenerOptions::new()
        .name(name)
        // Reclaiming would remove any file at this path on drop, even the socket of the next daemon.
        .reclaim_name(false)
        .create_tokio()
        .context(|| format!("cannot listen on {}", path.display()))?;
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .context(|| format!("cannot protect {}", path.display()))?;
    Ok(listener)
}

/// Returns the login name of the effective user.
fn user() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::geteuid());
    user.ok().flatten().map(|user| user.name)
}

/// Serves until a stop is requested, then drains. `ready` is called when clients can connect.
///
/// # Errors
/// The socket or the FIFO cannot be created.
pub async fn run(
    paths: Paths,
    right: InstanceLock,
    cancel: CancellationToken,
    ready: impl FnOnce(),
) -> Result<()> {
    shells::make_fifo(&paths.events())?;
    let listener = bind(&paths, &right)?;
    let socket = inode(&paths.socket());
    background_notice::remove_all(&paths);
    let journal = Journal::new(paths.journal());
    // Before a session can be opened, but not on the runtime thread: the files may be large.
    let recovered = {
        let (journal, dir) = (journal.clone(), paths.partial_answers());
        tokio::task::spawn_blocking(move || partial_answer::recover(&journal, &dir)).await
    };
    match recovered {
        Ok(Ok(0)) => {}
        Ok(Ok(n)) => {
            tracing::info!(
                "recovered {n} answers that were cut off when the previous daemon was killed"
            )
        }
        Ok(Err(e)) => tracing::warn!("{}", e.message),
        Err(e) => tracing::warn!("cannot recover partial answers: {e}"),
    }
    let (log, records) = match journal.open_shells() {
        Ok((log, records)) => (Some(log), records),
        Err(e) => {
            tracing::warn!("{}", e.message);
            (None, Vec::new())
        }
    };
    let user = user();
    let acts = Arc::new(AuditLog::new(journal.clone(), &paths.state, user.clone()));
    let on_state_change = {
        let acts = acts.clone();
        StateListener::new(move |state| acts.server(state))
    };
    let tasks = TaskTracker::new();
    let daemon = Arc::new(Daemon {
        broker: Broker::new().tracked_by(tasks.clone()),
        sessions: Arc::new(SessionStore::new(journal, paths.state.join("shells"))),
        shells: Arc::new(Mutex::new(ShellRegistry::new(log, records, user.clone()))),
        // A separate tracker: the servers must outlive the tracked tasks, which may call them.
        mcp: ServerPool::new(
            paths.state.clone(),
            TaskTracker::new(),
            cancel.child_token(),
        )
        .with_state_listener(on_state_change),
        known: tool_history::ToolHistory::new(&paths.state),
        lacking: Mutex::default(),
        finder: Arc::default(),
        results: Arc::new(ResultStore::new(paths.state.join("results"))),
        models: model::ModelRegistry::new(&paths, acts.clone()),
        acts,
        running: Mutex::new(HashMap::new()),
        started: Instant::now(),
        tasks,
        connections: TaskTracker::new(),
        turns: AtomicUsize::new(0),
        leaving: cancel.child_token(),
        cancel,
        user,
        paths,
    });
    // Not tracked: events of the hooks are received until all tracked tasks have ended.
    let hooks = {
        let daemon = daemon.clone();
        tokio::spawn(async move {
            let events = daemon.paths.events();
            let listen = shells::listen(&events, daemon.shells.clone(), daemon.sessions.clone());
            if let Err(e) = listen.await {
                tracing::error!("{}", e.message);
            }
        })
    };
    ready();
    daemon.tasks.spawn(retention::keep(daemon.clone()));
    // After `ready`, because a shell waits for the daemon until then.
    daemon.tasks.spawn_blocking(Redactor::prebuild);
    accept(&daemon, &listener, socket).await;
    drain(&daemon, &listener).await;
    drain_connections(&daemon, &listener).await;
    policy::lapse(&daemon);
    hooks.abort();
    // Before the listener is closed: until then the inode cannot be reused by another socket.
    if inode(&daemon.paths.socket()) == socket {
        let _ = fs::remove_file(daemon.paths.socket());
    }
    drop(listener);
    daemon.mcp.shutdown().await;
    daemon.models.shutdown().await;
    daemon.results.clear();
    daemon.known.finish_writes();
    daemon.sessions.journal.close();
    Ok(())
}

/// Returns device and inode of a path, if it exists.
fn inode(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Waits for running work to end. A client that connects meanwhile learns that the daemon is stopping, and may request
/// an immediate stop.
async fn drain(daemon: &Arc<Daemon>, listener: &Listener) {
    daemon.tasks.close();
    loop {
        tokio::select! {
            biased;
            () = daemon.tasks.wait() => return,
            stream = listener.accept() => serve(daemon, stream).await,
        }
    }
}

/// Waits until the clients have read their replies, within the grace period. All work has ended; a client that connects
/// meanwhile is served as in [`drain`].
async fn drain_connections(daemon: &Arc<Daemon>, listener: &Listener) {
    daemon.connections.close();
    let grace = async {
        tokio::select! {
            () = tokio::time::sleep(READ_GRACE) => {}
            () = daemon.cancel.cancelled() => tokio::time::sleep(READ_GRACE_NOW).await,
        }
    };
    tokio::pin!(grace);
    loop {
        tokio::select! {
            biased;
            () = daemon.connections.wait() => return,
            () = &mut grace => return,
            stream = listener.accept() => serve(daemon, stream).await,
        }
    }
}

async fn serve(daemon: &Arc<Daemon>, stream: std::io::Result<Stream>) {
    match stream {
        Ok(stream) => {
            daemon
                .connections
                .spawn(dispatch::serve(daemon.clone(), stream));
        }
        // Most likely out of file descriptors; connections that end will free some.
        Err(e) => {
            tracing::warn!("cannot accept a client: {e}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn accept(daemon: &Arc<Daemon>, listener: &Listener, socket: Option<(u64, u64)>) {
    let mut tidy = tokio::time::interval(TIDY);
    let mut socket_check = tokio::time::interval(SOCKET_CHECK);
    let path = daemon.paths.socket();
    loop {
        tokio::select! {
            biased;
            () = daemon.leaving.cancelled() => return,
            stream = listener.accept() => serve(daemon, stream).await,
            _ = tidy.tick() => {
                daemon.sessions.tidy();
                let ended = lock(&daemon.shells).ended();
                command_approval::forget(daemon, &ended);
                for shell in &ended {
                    background_notice::remove(&daemon.paths, shell);
                }
                let results = daemon.results.clone();
                daemon.tasks.spawn_blocking(move || results.expire(now_ms()));
            }
            _ = socket_check.tick() => if inode(&path) != socket {
                tracing::info!("the socket was removed or replaced; stopping");
                daemon.leaving.cancel();
            }
        }
    }
}
