//! Public types of the MCP client. No `rmcp` type crosses this boundary.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::chat::ToolDefinition;
use crate::secret::Secret;

/// Secrets and environment that a server needs beyond its configuration, taken from the shell that first uses it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServerCredentials {
    /// Token sent as `Authorization: Bearer`.
    pub bearer: Option<Secret>,
    /// Complete environment of a stdio server, as name and value.
    pub env: Vec<(String, Secret)>,
}

/// Time limits for the start of a server, up to its `initialize` or `server/discover` answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartupTimeLimits {
    /// For an HTTP server.
    pub http: Duration,
    /// Part of `begin` spent on `server/discover`, which only servers of 2026-07-28 or later answer.
    pub http_discover: Duration,
    /// For a stdio server, whose command may first have to download its program.
    pub stdio: Duration,
}

impl Default for StartupTimeLimits {
    fn default() -> StartupTimeLimits {
        StartupTimeLimits {
            http: Duration::from_secs(10),
            http_discover: Duration::from_secs(5),
            stdio: Duration::from_secs(60),
        }
    }
}

/// Connection status of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionStatus {
    /// The first connection attempt is in progress.
    Starting,
    /// Connected; its tools can be called.
    Ready,
    /// Unreachable or disconnected; reconnects are attempted with increasing delays.
    Failed,
    /// The server requires an OAuth login: `aish-helper mcp login`.
    LoginRequired,
    /// Turned off by the configuration or disconnected by a person.
    Disabled,
}

impl ConnectionStatus {
    /// Word shown in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            ConnectionStatus::Starting => "starting",
            ConnectionStatus::Ready => "ready",
            ConnectionStatus::Failed => "failed",
            ConnectionStatus::LoginRequired => "login",
            ConnectionStatus::Disabled => "disabled",
        }
    }
}

/// State of a server, as shown to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerState {
    /// Name from the configuration, which prefixes the server's tool names.
    pub alias: String,
    /// URL or command, with secret parts left out.
    pub target: String,
    /// Name and version that the server reports (`serverInfo`).
    pub version: Option<String>,
    /// Negotiated protocol version.
    pub protocol: Option<String>,
    /// Number of tools offered.
    pub tools: usize,
    /// Connection status.
    pub status: ConnectionStatus,
    /// Last error, with a hint where one is known.
    pub error: Option<String>,
    /// Whether the server is in the configuration, and not only connected manually.
    pub configured: bool,
}

/// Callback for changes of a server's status.
///
/// Called once for each change, except for the initial `Starting`; a failure that repeats the one before is not
/// reported. `Disabled` reports a server that was ready and has been disconnected.
#[derive(Clone)]
pub struct StateListener(Arc<dyn Fn(ServerState) + Send + Sync>);

impl StateListener {
    /// Wraps a callback. The callback must not block and must not call back into the pool.
    pub fn new(callback: impl Fn(ServerState) + Send + Sync + 'static) -> StateListener {
        StateListener(Arc::new(callback))
    }

    pub(super) fn notify(&self, state: ServerState) {
        (self.0)(state);
    }
}

impl Default for StateListener {
    fn default() -> StateListener {
        StateListener::new(drop)
    }
}

impl fmt::Debug for StateListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateListener")
    }
}

/// Tools of all servers that were ready at one time.
#[derive(Debug, Clone, Default)]
pub struct ToolCatalog {
    /// Ordered by alias, then as the server listed the tools. Names are unique.
    pub tools: Arc<[ToolDefinition]>,
    /// Servers that are unavailable for a prompt, as `(alias, reason)`.
    pub unavailable: Vec<(String, String)>,
    /// Index in `tools` of each tool name.
    pub names: Arc<HashMap<String, usize>>,
}

impl ToolCatalog {
    /// Builds a catalog of `tools`; `without` are the unavailable servers, as `(alias, reason)`.
    pub fn new(tools: Arc<[ToolDefinition]>, without: Vec<(String, String)>) -> ToolCatalog {
        let names = tools.iter().enumerate().map(|(i, t)| (t.name.clone(), i));
        let names = Arc::new(names.collect());
        ToolCatalog {
            tools,
            unavailable: without,
            names,
        }
    }

    /// Returns the tool named `alias.tool`.
    pub fn find(&self, name: &str) -> Option<&ToolDefinition> {
        self.tools.get(*self.names.get(name)?)
    }
}

/// Resource or resource template of a server.
/// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources>
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpResource {
    /// Alias of the server.
    pub server: String,
    /// URI, or URI template (RFC 6570).
    pub uri: String,
    /// Name given by the server.
    pub name: String,
    /// Description given by the server.
    pub description: Option<String>,
    /// MIME type.
    pub mime: Option<String>,
    /// Whether `uri` is a template.
    pub template: bool,
}

/// Prompt that a server offers.
/// <https://modelcontextprotocol.io/specification/2025-11-25/server/prompts>
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPrompt {
    /// Name as `alias.prompt`.
    pub name: String,
    /// Description given by the server.
    pub description: Option<String>,
    /// Arguments, as `(name, required)`.
    pub arguments: Vec<(String, bool)>,
}
