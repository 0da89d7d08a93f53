//! State that the turns and the requests of all clients share: sessions, models and their keys, MCP servers, and the audit log.

pub mod audit_log;
pub mod client_handle;
pub mod driven_shells;
pub mod helpers;
pub mod key_commands;
pub mod mcp_startup;
pub mod model;
pub mod ordered_writes;
pub mod spending;
pub mod token_ratios;
pub mod tool_history;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::broker::Broker;
use crate::mcp::ServerPool;
use crate::paths::Paths;
use crate::protocol::ShellId;
use crate::session::shell_registry::ShellRegistry;
use crate::session::store::SessionStore;
use crate::tools::finder::ToolFinder;
use crate::tools::results::ResultStore;
use audit_log::AuditLog;

/// State shared by all turns and requests.
#[derive(Debug)]
pub struct SharedServices {
    /// The directories.
    pub paths: Paths,
    /// The login name of the user, for the journal.
    pub user: Option<String>,
    /// Sends requests to models.
    pub broker: Broker,
    /// The sessions.
    pub sessions: Arc<SessionStore>,
    /// The audit log: records of actions outside of sessions.
    pub audit_log: Arc<AuditLog>,
    /// The shells and their last commands, as reported by the hooks.
    pub shells: Arc<Mutex<ShellRegistry>>,
    /// The MCP servers.
    pub mcp: ServerPool,
    /// The tools that the user was shown.
    pub tool_history: tool_history::ToolHistory,
    /// Servers that start once a shell provides their variables.
    pub missing_env: mcp_startup::MissingEnvMap,
    /// The search index of the tools.
    pub finder: Arc<ToolFinder>,
    /// The Python helpers.
    pub helpers: helpers::PythonHelpers,
    /// Truncated tool results, which the model can read in parts.
    pub results: Arc<ResultStore>,
    /// The configuration, keys and detected models.
    pub models: model::ModelRegistry,
    /// The amounts spent on requests.
    pub spending: Arc<spending::Spending>,
    /// How many tokens the models count.
    pub token_ratios: token_ratios::TokenRatios,
    /// The shells that clients of the HTTP API may drive.
    pub driven_shells: driven_shells::DrivenShells,
    /// The variables that shells have sent last.
    pub last_variables: Arc<client_handle::LastVariables>,
    /// Gets the turns that have ended with an answer, for work that follows them.
    pub answered: mpsc::Sender<AnsweredTurn>,
    /// When the daemon became ready.
    pub started: Instant,
    /// Work that the daemon completes before it exits: turns, requests, and the tasks they started.
    pub tasks: TaskTracker,
    /// Number of running turns.
    pub turns: AtomicUsize,
    /// Cancelled when the daemon stops serving new clients.
    pub leaving: CancellationToken,
    /// Cancelled when all work must end immediately.
    pub ending: CancellationToken,
}

impl SharedServices {
    /// Counts a turn as running until the guard is dropped.
    pub fn count_turn(&self) -> TurnGuard<'_> {
        self.turns.fetch_add(1, Ordering::Relaxed);
        TurnGuard(&self.turns)
    }
}

/// A turn that has ended with an answer.
#[derive(Debug, Clone)]
pub struct AnsweredTurn {
    /// The session.
    pub session: String,
    /// The shell of the prompt.
    pub shell: Option<ShellId>,
}

/// Counts a running turn until it is dropped.
#[derive(Debug)]
pub struct TurnGuard<'a>(&'a AtomicUsize);

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
