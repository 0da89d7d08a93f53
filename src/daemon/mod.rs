//! The per-user daemon: one process that keeps sessions, connections and MCP servers open between prompts.
//!
//! It binds its socket while it holds the instance lock and accepts clients in a loop that never blocks on one of them.
//! On a stop it drains: running turns complete, and no new client is served.

pub mod attach;
mod auto_share;
mod changes;
mod client_link;
pub mod command_approval;
mod command_explanation;
pub mod dispatch;
pub mod frames;
pub mod hook_fifo;
mod http_server;
pub mod orphans;
mod panes;
pub mod peer;
mod pending_greetings;
pub mod policy;
pub mod prompts;
mod request_link;
pub mod retention;
mod running_command;
mod server_models;
pub mod shell_events;

use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use interprocess::local_socket::tokio::{Listener, Stream};
use interprocess::local_socket::traits::tokio::Listener as _;
use interprocess::local_socket::{GenericFilePath, ListenerOptions, ToFsName};
use nix::fcntl::Flock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::peer::{Leftovers, RefusalLimit};
use self::pending_greetings::PendingGreetings;
use crate::api::ApiServer;
use crate::broker::Broker;
use crate::config::server_tokens;
use crate::error::{Error, ErrorContext, Result};
use crate::history::journal::{Journal, now_ms};
use crate::history::partial_answer::{self, RecoveredAnswer};
use crate::mcp::{ServerPool, StateListener};
use crate::paths::{self, Paths, lock_file};
use crate::protocol::ShellId;
use crate::safety::redact::Redactor;
use crate::services::SharedServices;
use crate::services::audit_log::AuditLog;
use crate::services::driven_shells::DrivenShells;
use crate::services::helpers::PythonHelpers;
use crate::services::model::ModelRegistry;
use crate::services::spending::Spending;
use crate::services::token_ratios::TokenRatios;
use crate::services::tool_history::ToolHistory;
use crate::session::lock;
use crate::session::shell_registry::ShellRegistry;
use crate::session::store::SessionStore;
use crate::tools::results::ResultStore;
use crate::turn::background_notice;

/// Time for clients to read the rest of completed answers when the daemon stops. A client may render more slowly than
/// the answer came, and the answer must not be truncated for that.
const READ_GRACE: Duration = Duration::from_secs(5);
/// The same when the daemon must stop immediately.
const READ_GRACE_NOW: Duration = Duration::from_millis(200);
/// Interval for closing unused sessions and pruning state of ended shells.
const TIDY: Duration = Duration::from_secs(60);
/// Interval for checking that the socket still exists; a daemon without a socket exits.
const SOCKET_CHECK: Duration = Duration::from_secs(5);

/// The daemon: the state shared by turns and requests, and the state that only connections use.
#[derive(Debug)]
pub struct Daemon {
    /// State that turns and requests share.
    pub services: Arc<SharedServices>,
    /// The HTTP server.
    pub api: ApiServer,
    /// Approved commands that are running.
    pub running: running_command::RunningCommands,
    /// Clients that have sent no request yet.
    pub greetings: PendingGreetings,
    /// Processes that approved commands have left behind.
    pub leftovers: Leftovers,
    /// Limit of the refusals in the audit log.
    pub refusals: RefusalLimit,
    /// Connections. On a stop, the daemon waits for them only within a grace period.
    pub connections: TaskTracker,
    /// Cancelled when all work must end.
    pub cancel: CancellationToken,
}

impl Daemon {
    /// Stops the daemon: immediately, or after the running turns.
    pub fn stop(&self, now: bool) {
        self.services.leaving.cancel();
        if now {
            self.cancel.cancel();
        }
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
    paths.prepare_own()?;
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
    paths::make_fifo(&paths.events())?;
    let listener = bind(&paths, &right)?;
    let socket = inode(&paths.socket());
    background_notice::after_restart(&paths);
    let journal = Journal::new(paths.journal());
    // Before a session can be opened, but not on the runtime thread: the files may be large.
    let recovered = {
        let (journal, dir) = (journal.clone(), paths.partial_answers());
        let data = paths.clone();
        tokio::task::spawn_blocking(move || {
            paths::remove_leftovers(&data);
            server_tokens::register(&data);
            let (lock, interrupted) = changes::restore_interrupted(&data);
            let answers = partial_answer::recover(&journal, &dir);
            for change in interrupted {
                if let Err(e) = changes::record_interrupted(&journal, change) {
                    tracing::warn!("{}", e.message);
                }
            }
            (lock, answers)
        })
        .await
    };
    // Held until this daemon ends, so that no other one restores what it is changing.
    let _data_lock = match recovered {
        Ok((lock, answers)) => {
            match answers {
                Ok(answers) => report_recovered(&paths, &answers),
                Err(e) => tracing::warn!("{}", e.message),
            }
            lock
        }
        Err(e) => {
            tracing::warn!("cannot recover partial answers: {e}");
            None
        }
    };
    let (log, records) = match journal.open_shells() {
        Ok((log, records)) => (Some(log), records),
        Err(e) => {
            tracing::warn!("{}", e.message);
            (None, Vec::new())
        }
    };
    let user = user();
    let audit_log = Arc::new(AuditLog::new(journal.clone(), &paths.state, user.clone()));
    let on_state_change = {
        let audit_log = audit_log.clone();
        StateListener::new(move |state| audit_log.server(state))
    };
    let tasks = TaskTracker::new();
    let (answered, answers) = mpsc::channel(auto_share::MAX_WAITING);
    let services = SharedServices {
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
        tool_history: ToolHistory::new(&paths.state),
        missing_env: Mutex::default(),
        finder: Arc::default(),
        helpers: PythonHelpers::new(&paths)?,
        results: Arc::new(ResultStore::new(paths.state.join("results"))),
        models: ModelRegistry::new(&paths, audit_log.clone()),
        token_ratios: TokenRatios::default(),
        spending: Arc::new(Spending::new(&paths.state)),
        audit_log,
        driven_shells: DrivenShells::new(&paths),
        last_variables: Arc::default(),
        answered,
        tasks,
        started: Instant::now(),
        turns: AtomicUsize::new(0),
        leaving: cancel.child_token(),
        ending: cancel.clone(),
        user,
        paths,
    };
    let daemon = Arc::new(Daemon {
        services: Arc::new(services),
        api: ApiServer::default(),
        running: Mutex::new(HashMap::new()),
        greetings: PendingGreetings::default(),
        leftovers: Leftovers::default(),
        refusals: RefusalLimit::default(),
        connections: TaskTracker::new(),
        cancel,
    });
    // Not tracked: events of the hooks are received until all tracked tasks have ended.
    let hooks = {
        let daemon = daemon.clone();
        tokio::spawn(async move {
            let events = daemon.services.paths.events();
            hook_fifo::listen(&events, &daemon.services).await;
        })
    };
    ready();
    daemon
        .services
        .tasks
        .spawn(retention::keep(daemon.services.clone()));
    daemon
        .services
        .tasks
        .spawn(auto_share::follow(daemon.clone(), answers));
    // After `ready`, because a shell waits for the daemon until then.
    daemon.services.tasks.spawn_blocking(Redactor::prebuild);
    start_api(&daemon);
    accept(&daemon, &listener, socket).await;
    drain(&daemon, &listener).await;
    daemon.api.end().await;
    drain_connections(&daemon, &listener).await;
    policy::lapse(&daemon.services);
    hooks.abort();
    // Before the listener is closed: until then the inode cannot be reused by another socket.
    if inode(&daemon.services.paths.socket()) == socket {
        let _ = fs::remove_file(daemon.services.paths.socket());
    }
    drop(listener);
    daemon.services.helpers.workers.end_all().await;
    daemon.services.mcp.shutdown().await;
    daemon.services.models.shutdown().await;
    daemon.services.results.clear();
    daemon.services.tool_history.finish_writes();
    daemon.services.sessions.journal.close();
    Ok(())
}

/// Starts the HTTP server if it is wanted. No prompt waits for it.
fn start_api(daemon: &Arc<Daemon>) {
    let started = daemon.clone();
    daemon.services.tasks.spawn(async move {
        let check = http_server::peer_check(&started);
        let (api, services) = (&started.api, &started.services);
        api.start_if_wanted(services, &started.cancel, check).await;
    });
}

/// Reports answers that were cut off when the previous daemon was killed: those of background turns to their shells.
fn report_recovered(paths: &Paths, answers: &[RecoveredAnswer]) {
    for answer in answers {
        tracing::info!("recovered an answer of session {}", answer.session);
        let shell = answer.shell.as_deref().and_then(|s| ShellId::parse(s).ok());
        if let (true, Some(shell)) = (answer.background, shell) {
            background_notice::recovered(paths, &shell, &answer.session);
        }
    }
}

/// Returns device and inode of a path, if it exists.
fn inode(path: &Path) -> Option<(u64, u64)> {
    let meta = fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// Waits for running work to end. A client that connects meanwhile learns that the daemon is stopping, and may request
/// an immediate stop.
async fn drain(daemon: &Arc<Daemon>, listener: &Listener) {
    daemon.services.tasks.close();
    loop {
        tokio::select! {
            biased;
            () = daemon.services.tasks.wait() => return,
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
    // Two looks at ended children must not follow each other at once.
    socket_check.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut orphans = orphans::Orphans::default();
    let path = daemon.services.paths.socket();
    loop {
        tokio::select! {
            biased;
            () = daemon.services.leaving.cancelled() => return,
            stream = listener.accept() => serve(daemon, stream).await,
            _ = tidy.tick() => {
                daemon.services.sessions.tidy();
                let ended = lock(&daemon.services.shells).ended();
                command_approval::forget(daemon, &ended);
                for shell in &ended {
                    background_notice::remove(&daemon.services.paths, shell);
                }
                // Removes files that shells have left behind.
                daemon.services.driven_shells.list();
                let results = daemon.services.results.clone();
                daemon.services.tasks.spawn_blocking(move || results.expire(now_ms()));
            }
            _ = socket_check.tick() => {
                orphans.reap();
                if inode(&path) != socket {
                    tracing::info!("the socket was removed or replaced; stopping");
                    daemon.services.leaving.cancel();
                }
            }
        }
    }
}
