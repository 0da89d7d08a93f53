//! Pool of the user's MCP servers: connects to all of them concurrently, keeps the connections open, and calls a tool only
//! with an approval.
//!
//! `rmcp` implements the protocol. This module decides what `rmcp` leaves open: size and time limits, reconnects,
//! child processes, and which person a server's question goes to.
//! <https://modelcontextprotocol.io/specification/2025-11-25>

pub mod auth;
mod connection;
/// Public for the fuzz targets alone.
#[doc(hidden)]
pub mod content;
mod excerpt;
mod failure;
mod http;
mod mask;
mod message_handler;
mod resources_prompts;
mod server;
mod session;
mod source;
mod stdio;
mod types;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::server::PooledServer;
use self::session::PoolContext;
pub use self::session::learn_configured;
pub use self::types::{
    ConnectionStatus, McpPrompt, McpResource, ServerCredentials, ServerState, StartupTimeLimits,
    StateListener, ToolCatalog,
};
use crate::chat::ToolDefinition;
use crate::config::mcp::ServerSettings;
use crate::error::{Error, Result};
use crate::safety::policy::{Approved, ExactCall};
pub use crate::tools::source::{
    CallError, CallEvent, CallResult, ElicitationRequest, ElicitationResponse,
};
use crate::tools::source::{SourceCall, ToolSource};

/// Maximum time [`ServerPool::shutdown`] waits for all servers to end.
const SHUTDOWN_TIME_LIMIT: Duration = Duration::from_secs(3);

/// The connected MCP servers, by alias.
#[derive(Debug)]
pub struct ServerPool {
    servers: Mutex<BTreeMap<String, Arc<PooledServer>>>,
    shared: Arc<PoolContext>,
    /// Tracker of the caller, which waits for these tasks at its own shutdown.
    tasks: TaskTracker,
    cancel: CancellationToken,
    merged: Mutex<MergedCatalog>,
    listener: StateListener,
}

/// The tool lists last merged into a catalog, and that catalog.
#[derive(Debug, Default)]
struct MergedCatalog {
    lists: Vec<Arc<[ToolDefinition]>>,
    catalog: ToolCatalog,
}

impl ServerPool {
    /// Creates a pool without servers.
    ///
    /// `state` is the directory for server logs and OAuth tokens. The servers' tasks are spawned on `tasks` and stop when
    /// `cancel` is cancelled; child processes are then killed with their process group.
    pub fn new(state: PathBuf, tasks: TaskTracker, cancel: CancellationToken) -> ServerPool {
        ServerPool::with_limits(state, tasks, cancel, StartupTimeLimits::default())
    }

    /// Same as [`Self::new`], with other startup time limits.
    pub fn with_limits(
        state: PathBuf,
        tasks: TaskTracker,
        cancel: CancellationToken,
        limits: StartupTimeLimits,
    ) -> ServerPool {
        let shared = PoolContext {
            clients: http::HttpClients::new(state.clone()),
            state,
            limits,
            tasks: TaskTracker::new(),
        };
        ServerPool {
            servers: Mutex::default(),
            shared: Arc::new(shared),
            tasks,
            cancel,
            merged: Mutex::default(),
            listener: StateListener::default(),
        }
    }

    /// Adds a listener that is called at each change of a server's state.
    pub fn with_state_listener(self, listener: StateListener) -> ServerPool {
        ServerPool { listener, ..self }
    }

    /// Returns the configured servers that have to be started: new ones, ones whose configuration has changed, and ones
    /// whose credentials have to be collected again. The caller collects the credentials and calls [`Self::start`].
    ///
    /// Stops servers that are no longer in `configured`, and a manually connected server whose alias is now configured.
    /// Servers that a person has disconnected stay disconnected.
    pub fn pending_start(
        &self,
        configured: &BTreeMap<String, ServerSettings>,
    ) -> Vec<ServerSettings> {
        let mut servers = self.lock();
        servers.retain(|alias, connected| {
            let keeps_source = connected.configured == configured.contains_key(alias);
            if !keeps_source {
                connected.stop();
            }
            keeps_source
        });
        let mut pending = Vec::new();
        for server in configured.values() {
            match servers.get(&server.alias) {
                Some(same) if same.server == *server => {
                    if same.needs_credentials() {
                        pending.push(server.clone());
                    }
                    continue;
                }
                Some(changed) if server.disabled => changed.stop(),
                _ => {}
            }
            if server.disabled {
                let disabled = PooledServer::turned_off(server.clone(), true);
                servers.insert(server.alias.clone(), Arc::new(disabled));
            } else {
                pending.push(server.clone());
            }
        }
        pending
    }

    /// Connects to `server` in the background, replacing a server of the same alias.
    ///
    /// `configured` says that the server comes from the configuration rather than from `mcp connect`. `credentials` may
    /// take long (a command that prints a token); its error becomes the server's error.
    pub fn start(
        &self,
        server: ServerSettings,
        configured: bool,
        credentials: impl Future<Output = Result<ServerCredentials>> + Send + 'static,
    ) {
        let alias = server.alias.clone();
        let cancel = self.cancel.child_token();
        let mut servers = self.lock();
        let before = servers.remove(&alias);
        if let Some(before) = &before {
            before.stop();
        }
        // The replacement may fail in the same way, and the listener already knows that status.
        let last_reported = before
            .filter(|b| b.server == server)
            .map(|b| b.last_reported());
        let listener = self.listener.clone();
        let connected = PooledServer::new(server, configured, cancel)
            .with_state_listener(listener, last_reported);
        let connected = Arc::new(connected);
        servers.insert(alias, connected.clone());
        drop(servers);
        let supervise = connected.supervise(self.shared.clone(), credentials);
        self.tasks.spawn(self.shared.tasks.track_future(supervise));
    }

    /// Disconnects a server. A configured server stays disconnected until it is started manually or its configuration
    /// changes.
    ///
    /// # Errors
    /// Usage error: no server has this alias.
    pub fn disconnect(&self, alias: &str) -> Result<()> {
        let mut servers = self.lock();
        let connected = servers.remove(alias).ok_or_else(|| no_such_server(alias))?;
        connected.stop();
        if connected.configured {
            let disabled = PooledServer::turned_off(connected.server.clone(), true);
            servers.insert(alias.to_owned(), Arc::new(disabled));
        }
        Ok(())
    }

    /// Waits up to `patience` after each server's start for starting servers, then returns the tools of the ready ones.
    pub async fn catalog(&self, patience: Duration) -> ToolCatalog {
        for server in self.all() {
            server.wait_until_settled(server.started + patience).await;
        }
        let (mut lists, mut without) = (Vec::new(), Vec::new());
        for server in self.all() {
            match server.ready_server() {
                Ok(ready) => lists.push(ready.tools.clone()),
                Err(_) => without.extend(
                    server
                        .unavailable_reason()
                        .map(|reason| (server.server.alias.clone(), reason)),
                ),
            }
        }
        ToolCatalog {
            unavailable: without,
            ..self.merge(lists)
        }
    }

    /// Tools of all servers that are ready now. Shares the merged list: calling this per server is cheap.
    pub fn tools(&self) -> Arc<[ToolDefinition]> {
        let servers = self.all();
        let ready = servers.iter().filter_map(|s| s.ready_server().ok());
        self.merge(ready.map(|ready| ready.tools.clone()).collect())
            .tools
    }

    /// Waits up to `patience` until the server `alias`, or every server if `None`, is ready or has failed.
    pub async fn wait_until_settled(&self, alias: Option<&str>, patience: Duration) {
        let deadline = Instant::now() + patience;
        // A server that was stopped meanwhile may have been replaced, so the list is read again.
        while Instant::now() < deadline && !self.cancel.is_cancelled() {
            let matches = |s: &Arc<PooledServer>| alias.is_none_or(|a| s.server.alias == a);
            let mut starting = self.all().into_iter().filter(|s| s.is_starting());
            let Some(server) = starting.find(matches) else {
                return;
            };
            server.wait_until_settled(deadline).await;
        }
    }

    /// Configuration of the server `alias`, including the URL parts and arguments that its state hides.
    pub fn server(&self, alias: &str) -> Option<ServerSettings> {
        self.lock().get(alias).map(|c| c.server.clone())
    }

    /// Whether the pool has exactly this server from the configuration.
    pub fn has_configured(&self, server: &ServerSettings) -> bool {
        let is_same = |c: &Arc<PooledServer>| c.configured && c.server == *server;
        self.lock().get(&server.alias).is_some_and(is_same)
    }

    /// State of each server, ordered by alias.
    pub fn states(&self) -> Vec<ServerState> {
        self.all().iter().map(|server| server.state()).collect()
    }

    /// Calls a tool with exactly the approved arguments (`tools/call`).
    /// <https://modelcontextprotocol.io/specification/2025-11-25/server/tools#calling-tools>
    ///
    /// `now_ms` is the time in milliseconds since 1970, against which the approval may have expired. `max_bytes` limits
    /// the text of the result. `events` receives progress and questions to the person. Cancelling sends
    /// `notifications/cancelled` to the server.
    ///
    /// # Errors
    /// The call was not approved in this form, was interrupted, or failed at the server or on the way.
    pub async fn call(
        &self,
        approved: Approved,
        call: &ExactCall<'_>,
        now_ms: u64,
        max_bytes: usize,
        events: &mpsc::Sender<CallEvent>,
        cancel: &CancellationToken,
    ) -> std::result::Result<CallResult, CallError> {
        let server = match self.find(call.server) {
            Ok(server) => server,
            Err(_) if !approved.covers(call, now_ms) => return Err(CallError::NotApproved),
            Err(e) => return Err(CallError::Failed(e.message)),
        };
        let request = SourceCall {
            approved,
            call: *call,
            now_ms,
            max_bytes,
            events,
            cancel,
        };
        server.call(request).await
    }

    /// Stops all servers; child processes are ended with their process group.
    pub async fn shutdown(&self) {
        for server in std::mem::take(&mut *self.lock()).values() {
            server.stop();
        }
        self.cancel.cancel();
        self.shared.tasks.close();
        // Tasks that have not finished by now end with the process.
        let _ = tokio::time::timeout(SHUTDOWN_TIME_LIMIT, self.shared.tasks.wait()).await;
    }

    /// Returns the catalog of `lists`, merging them again only if one has changed.
    fn merge(&self, lists: Vec<Arc<[ToolDefinition]>>) -> ToolCatalog {
        // With thousands of tools the merge is too slow to be repeated for each prompt.
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        let same = merged.lists.len() == lists.len()
            && merged
                .lists
                .iter()
                .zip(&lists)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        if !same {
            let tools: Arc<[ToolDefinition]> =
                lists.iter().flat_map(|l| l.iter().cloned()).collect();
            merged.catalog = ToolCatalog::new(tools, Vec::new());
            merged.lists = lists;
        }
        merged.catalog.clone()
    }

    fn all(&self) -> Vec<Arc<PooledServer>> {
        self.lock().values().cloned().collect()
    }

    fn find(&self, alias: &str) -> Result<Arc<PooledServer>> {
        let found = self.lock().get(alias).cloned();
        found.ok_or_else(|| no_such_server(alias))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<PooledServer>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_such_server(alias: &str) -> Error {
    Error::usage(format!("no MCP server is called {alias}")).hint("list them with: llm :mcp list")
}
