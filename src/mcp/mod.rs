//! The MCP servers of a user: connected all at once, kept warm, called only with an approval.
//!
//! The protocol is `rmcp`'s; what it leaves open is decided here: limits, time,
//! reconnects, children, who may ask the person.

pub mod auth;
mod content;
mod failure;
mod handler;
mod http;
mod live;
mod reads;
mod server;
mod session;
mod stdio;
mod types;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::CallToolRequestParams;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::live::Broken;
use self::server::{Connected, Shared};
pub use self::types::{
    CallError, CallEvent, CallResult, Catalog, Credentials, Elicit, Elicited, Limits, Prompt,
    Resource, State, Status, Witness,
};
use crate::chat::Tool;
use crate::config::mcp::Server;
use crate::error::{Error, Result};
use crate::safety::change::in_force;
use crate::safety::policy::{Approved, Call};

/// How long everything may take to end.
const SHUTDOWN: Duration = Duration::from_secs(3);

/// All servers.
#[derive(Debug)]
pub struct Pool {
    servers: Mutex<BTreeMap<String, Arc<Connected>>>,
    shared: Arc<Shared>,
    /// The tasks of the caller, who may wait for them too.
    tasks: TaskTracker,
    cancel: CancellationToken,
    merged: Mutex<Merged>,
    witness: Witness,
}

/// The lists of the servers as they were last put together, and what came of it.
#[derive(Debug, Default)]
struct Merged {
    lists: Vec<Arc<[Tool]>>,
    catalog: Catalog,
}

impl Pool {
    /// No server yet. `state` is the directory for logs and tokens; what runs is one of `tasks`, and ends with
    /// `cancel` (a child process with its group).
    pub fn new(state: PathBuf, tasks: TaskTracker, cancel: CancellationToken) -> Pool {
        Pool::with_limits(state, tasks, cancel, Limits::default())
    }

    /// The same, with other limits.
    pub fn with_limits(
        state: PathBuf,
        tasks: TaskTracker,
        cancel: CancellationToken,
        limits: Limits,
    ) -> Pool {
        let shared = Shared {
            clients: http::Clients::new(state.clone()),
            state,
            limits,
            tasks: TaskTracker::new(),
        };
        Pool {
            servers: Mutex::default(),
            shared: Arc::new(shared),
            tasks,
            cancel,
            merged: Mutex::default(),
            witness: Witness::default(),
        }
    }

    /// The same, with somebody who is told what becomes of its servers.
    pub fn witnessed_by(self, witness: Witness) -> Pool {
        Pool { witness, ..self }
    }

    /// The configured servers that are to be started: they are new, or their lines have changed, or what
    /// they take from the shell has to be found again. The caller finds their credentials and calls
    /// [`Pool::start`]. Servers that the configuration has no more are let go, and so is one that was connected
    /// by hand where the configuration now has its alias. Others stay as a person has left them.
    pub fn wanting(&self, configured: &BTreeMap<String, Server>) -> Vec<Server> {
        let mut servers = self.lock();
        servers.retain(|alias, connected| {
            let stays = connected.configured == configured.contains_key(alias);
            if !stays {
                connected.end();
            }
            stays
        });
        let mut wanted = Vec::new();
        for server in configured.values() {
            match servers.get(&server.alias) {
                Some(same) if same.server == *server => {
                    if same.is_wanted() {
                        wanted.push(server.clone());
                    }
                    continue;
                }
                Some(changed) if server.disabled => changed.end(),
                _ => {}
            }
            if server.disabled {
                let off = Connected::off(server.clone(), true);
                servers.insert(server.alias.clone(), Arc::new(off));
            } else {
                wanted.push(server.clone());
            }
        }
        wanted
    }

    /// Connects to a server in the background; one of that alias is let go. `credentials` may take its time
    /// (a command that prints a token); an error in it is the server's error.
    pub fn start(
        &self,
        server: Server,
        configured: bool,
        credentials: impl Future<Output = Result<Credentials>> + Send + 'static,
    ) {
        let alias = server.alias.clone();
        let cancel = self.cancel.child_token();
        let mut servers = self.lock();
        let before = servers.remove(&alias);
        if let Some(before) = &before {
            before.end();
        }
        // It may fail as the one before it did, which is no news.
        let told = before.filter(|b| b.server == server).map(|b| b.told());
        let witness = self.witness.clone();
        let connected = Connected::new(server, configured, cancel).witnessed_by(witness, told);
        let connected = Arc::new(connected);
        servers.insert(alias, connected.clone());
        drop(servers);
        let supervise = connected.supervise(self.shared.clone(), credentials);
        self.tasks.spawn(self.shared.tasks.track_future(supervise));
    }

    /// Lets go of a server; one of the configuration stays away until it is started by hand or its lines
    /// change.
    ///
    /// # Errors
    /// There is none of that alias.
    pub fn disconnect(&self, alias: &str) -> Result<()> {
        let mut servers = self.lock();
        let connected = servers.remove(alias).ok_or_else(|| no_such_server(alias))?;
        connected.end();
        if connected.configured {
            let off = Connected::off(connected.server.clone(), true);
            servers.insert(alias.to_owned(), Arc::new(off));
        }
        Ok(())
    }

    /// Waits for the servers that are starting, but no longer than `patience` after the start of each, and says
    /// what there is.
    pub async fn catalog(&self, patience: Duration) -> Catalog {
        for server in self.all() {
            server.settle(server.started + patience).await;
        }
        let (mut lists, mut without) = (Vec::new(), Vec::new());
        for server in self.all() {
            match server.live() {
                Ok(live) => lists.push(live.tools.clone()),
                Err(_) => without.extend(
                    server
                        .excuse()
                        .map(|why| (server.server.alias.clone(), why)),
                ),
            }
        }
        // Thousands of tools are put together once, and not for each prompt.
        let mut merged = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        let same = merged.lists.len() == lists.len()
            && merged
                .lists
                .iter()
                .zip(&lists)
                .all(|(a, b)| Arc::ptr_eq(a, b));
        if !same {
            let tools: Arc<[Tool]> = lists.iter().flat_map(|l| l.iter().cloned()).collect();
            merged.catalog = Catalog::new(tools, Vec::new());
            merged.lists = lists;
        }
        Catalog {
            without,
            ..merged.catalog.clone()
        }
    }

    /// The tools that there are now.
    pub fn tools(&self) -> Arc<[Tool]> {
        let servers = self.all();
        let live = servers.iter().filter_map(|server| server.live().ok());
        live.flat_map(|live| live.tools.to_vec()).collect()
    }

    /// Waits until the server of that alias, or every one, is ready or has failed, but no longer than `patience`.
    pub async fn settled(&self, alias: Option<&str>, patience: Duration) {
        let deadline = Instant::now() + patience;
        // One that is let go of meanwhile may have a successor.
        while Instant::now() < deadline && !self.cancel.is_cancelled() {
            let meant = |s: &Arc<Connected>| alias.is_none_or(|a| s.server.alias == a);
            let mut starting = self.all().into_iter().filter(|s| s.starts());
            let Some(server) = starting.find(meant) else {
                return;
            };
            server.settle(deadline).await;
        }
    }

    /// The server of that alias, with what [`State::target`] does not show.
    pub fn server(&self, alias: &str) -> Option<Server> {
        self.lock().get(alias).map(|c| c.server.clone())
    }

    /// Whether this server of the configuration is there, exactly as that has it.
    pub fn holds(&self, server: &Server) -> bool {
        let held = |c: &Arc<Connected>| c.configured && c.server == *server;
        self.lock().get(&server.alias).is_some_and(held)
    }

    /// How each server is.
    pub fn states(&self) -> Vec<State> {
        self.all().iter().map(|server| server.state()).collect()
    }

    /// Calls a tool with exactly the approved arguments. `events` gets what happens meanwhile; cancelling tells
    /// the server. `max_bytes` is the most text that the result holds.
    ///
    /// # Errors
    /// There is no result; the error says why.
    pub async fn call(
        &self,
        approved: Approved,
        call: &Call<'_>,
        now_ms: u64,
        max_bytes: usize,
        events: &mpsc::Sender<CallEvent>,
        cancel: &CancellationToken,
    ) -> std::result::Result<CallResult, CallError> {
        let decided_on = approved.annotations();
        if !approved.covers(call, now_ms) {
            return Err(CallError::NotApproved);
        }
        let failed = |why: String| CallError::Failed(why);
        let server = self.find(call.server).map_err(|e| failed(e.message))?;
        let live = server.live().map_err(failed)?;
        // The list that the configuration allows is kept here too, and not only in what a model is told.
        let Some(tool) = live.tools.iter().find(|t| t.tool == call.tool) else {
            return Err(failed("the server has no such tool".into()));
        };
        // A person may take long: meanwhile another server may have got the alias, or the tool another meaning.
        // What its server says no more is as it was.
        let another = in_force(decided_on, tool.annotations) != decided_on;
        if another || tool.identity != call.identity {
            return Err(CallError::NotApproved);
        }
        let arguments = serde_json::from_str(call.arguments)
            .map_err(|e| failed(format!("the arguments are no JSON object: {e}")))?;
        let params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(arguments);
        let result = live.call(params, server.server.timeout, events, cancel);
        match result.await {
            Ok(result) => Ok(content::result(call.server, result, max_bytes)),
            Err(Broken::Interrupted) => Err(CallError::Interrupted),
            Err(Broken::Fault(fault)) => Err(failed(fault.hinted(&server.server))),
        }
    }

    /// Ends every server, children with their groups.
    pub async fn shutdown(&self) {
        for server in std::mem::take(&mut *self.lock()).values() {
            server.end();
        }
        self.cancel.cancel();
        self.shared.tasks.close();
        // What has not ended by then ends with the program.
        let _ = tokio::time::timeout(SHUTDOWN, self.shared.tasks.wait()).await;
    }

    fn all(&self) -> Vec<Arc<Connected>> {
        self.lock().values().cloned().collect()
    }

    fn find(&self, alias: &str) -> Result<Arc<Connected>> {
        let found = self.lock().get(alias).cloned();
        found.ok_or_else(|| no_such_server(alias))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Connected>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_such_server(alias: &str) -> Error {
    Error::usage(format!("no MCP server is called {alias}")).hint("see them with: llm :mcp list")
}
