//! The per-user daemon: one process that keeps everything warm.
//!
//! It binds its socket under a lock that it holds while it runs, accepts clients in a loop that waits for nothing
//! else, and drains when it is told to stop: running turns end, and no new client is served.

pub mod attach;
pub mod audit_log;
pub mod background_notice;
pub mod builtin_tools;
pub mod call_context;
pub mod client_link;
pub mod command_approval;
pub mod dispatch;
pub mod frames;
pub mod gate;
pub mod keys;
pub mod manual_call;
pub mod mcp;
pub mod mcp_startup;
pub mod model;
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

/// How long connections may take to send their replies once the daemon ends.
const LAST_WORD: Duration = Duration::from_millis(200);
/// Interval for closing unused sessions and pruning state of ended shells.
const TIDY: Duration = Duration::from_secs(60);
/// Interval for checking that the socket still exists; a daemon without a socket exits.
const LOOK: Duration = Duration::from_secs(5);

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
    /// The record of what happens outside of sessions.
    pub acts: Arc<AuditLog>,
    /// The shells and their last commands, as the hooks reported them.
    pub shells: Arc<Mutex<ShellRegistry>>,
    /// The MCP servers.
    pub mcp: ServerPool,
    /// The tools that the person was shown.
    pub known: tool_history::ToolHistory,
    /// Servers that wait for a shell with their variables.
    pub lacking: mcp_startup::MissingEnvMap,
    /// The search index of the tools.
    pub finder: Arc<ToolFinder>,
    /// Tool results that were cut, kept to be read on.
    pub results: Arc<ResultStore>,
    /// The configuration, keys and detected models.
    pub models: model::ModelRegistry,
    /// Approved commands that are running.
    pub running: command_approval::RunningCommands,
    /// When the daemon became ready.
    pub started: Instant,
    /// Work that the daemon completes before it ends: turns, requests, and what they started.
    pub tasks: TaskTracker,
    /// Connections, which may wait for their clients: the daemon does not.
    pub connections: TaskTracker,
    /// Number of running turns.
    pub turns: AtomicUsize,
    /// Cancelled when the daemon stops serving new clients.
    pub leaving: CancellationToken,
    /// Cancelled when all work must end.
    pub cancel: CancellationToken,
}

impl Daemon {
    /// Stops the daemon: at once, or when the running turns have ended.
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
/// The run directory is not ours alone, or cannot be written.
pub fn claim(paths: &Paths) -> Result<InstanceLock> {
    paths.prepare_run()?;
    lock_file(&paths.lock()).map(InstanceLock)
}

/// Binds the socket. The caller holds the instance lock, so a socket that refuses connections is stale.
///
/// # Errors
/// Something that is no stale socket is in the way.
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
        // It would remove whatever stands there in the end, even the socket of the next daemon.
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

/// Serves until told to leave, then drains. `ready` is called when clients can connect.
///
/// # Errors
/// The socket or the FIFO cannot be made.
pub async fn run(
    paths: Paths,
    right: InstanceLock,
    cancel: CancellationToken,
    ready: impl FnOnce(),
) -> Result<()> {
    shells::make_fifo(&paths.events())?;
    let listener = bind(&paths, &right)?;
    let socket = inode(&paths.socket());
    let journal = Journal::new(paths.journal());
    match partial_answer::recover(&journal, &paths.partial_answers()) {
        Ok(0) => {}
        Ok(n) => tracing::info!("{n} answers were cut off when the daemon before this one ended"),
        Err(e) => tracing::warn!("{}", e.message),
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
        // No tasks of the tracker: the servers stay until all of those have ended, which may call them.
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
    // No task of the tracker: it hears the hooks until all of those have ended.
    let hooks = {
        let daemon = daemon.clone();
        tokio::spawn(async move {
            let events = daemon.paths.events();
            let heard = shells::listen(&events, daemon.shells.clone(), daemon.sessions.clone());
            if let Err(e) = heard.await {
                tracing::error!("{}", e.message);
            }
        })
    };
    ready();
    daemon.tasks.spawn(retention::keep(daemon.clone()));
    // Not before: a shell waits for us until then.
    daemon.tasks.spawn_blocking(Redactor::prebuild);
    accept(&daemon, &listener, socket).await;
    drain(&daemon, &listener).await;
    daemon.connections.close();
    // What is left waits for clients that do not read.
    let _ = tokio::time::timeout(LAST_WORD, daemon.connections.wait()).await;
    policy::lapse(&daemon);
    hooks.abort();
    // Before the listener is closed: until then no other socket can get its inode.
    if inode(&daemon.paths.socket()) == socket {
        let _ = fs::remove_file(daemon.paths.socket());
    }
    drop(listener);
    daemon.mcp.shutdown().await;
    daemon.models.shutdown().await;
    daemon.results.clear();
    daemon.sessions.journal.drain();
    Ok(())
}

/// Returns device and inode of a path, if it exists.
fn inode(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Waits for running work to end. A client that connects meanwhile is told that the daemon is leaving, and may
/// request an immediate stop.
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

async fn serve(daemon: &Arc<Daemon>, stream: std::io::Result<Stream>) {
    match stream {
        Ok(stream) => {
            daemon
                .connections
                .spawn(dispatch::serve(daemon.clone(), stream));
        }
        // Out of file descriptors: those that are served now will give some back.
        Err(e) => {
            tracing::warn!("cannot accept a client: {e}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

async fn accept(daemon: &Arc<Daemon>, listener: &Listener, socket: Option<(u64, u64)>) {
    let mut tidy = tokio::time::interval(TIDY);
    let mut look = tokio::time::interval(LOOK);
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
            _ = look.tick() => if inode(&path) != socket {
                tracing::info!("the socket is gone, and so are we");
                daemon.leaving.cancel();
            }
        }
    }
}
