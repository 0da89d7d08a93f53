//! Public types of the MCP client. No `rmcp` type crosses this boundary.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::chat::Tool;
use crate::secret::Secret;

/// Secrets and environment that a server needs beyond its configuration, taken from the shell that first uses it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Credentials {
    /// Token sent as `Authorization: Bearer`.
    pub bearer: Option<Secret>,
    /// Complete environment of a stdio server, as name and value.
    pub env: Vec<(String, Secret)>,
}

/// Time limits for the start of a server, up to its `initialize` or `server/discover` answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For an HTTP server.
    pub begin: Duration,
    /// Part of `begin` spent on `server/discover`, which only servers of 2026-07-28 or later answer.
    pub discover: Duration,
    /// For a stdio server, whose command may first have to download its program.
    pub begin_stdio: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            begin: Duration::from_secs(10),
            discover: Duration::from_secs(5),
            begin_stdio: Duration::from_secs(60),
        }
    }
}

/// Connection status of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The first connection attempt is in progress.
    Starting,
    /// Connected; its tools can be called.
    Ready,
    /// Unreachable or disconnected; reconnects are attempted with increasing delays.
    Failed,
    /// The server requires an OAuth login: `aish-helper mcp login`.
    Login,
    /// Turned off by the configuration or disconnected by a person.
    Disabled,
}

impl Status {
    /// Word shown in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Starting => "starting",
            Status::Ready => "ready",
            Status::Failed => "failed",
            Status::Login => "login",
            Status::Disabled => "disabled",
        }
    }
}

/// State of a server, as shown to a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
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
    pub status: Status,
    /// Last error, with a hint where one is known.
    pub error: Option<String>,
    /// Whether the server is in the configuration, and not only connected by hand.
    pub configured: bool,
}

/// Callback for changes of a server's status.
///
/// Called once for each change, except for the initial `Starting`; a failure that repeats the one before is not
/// reported. `Disabled` reports a server that was ready and has been disconnected.
#[derive(Clone)]
pub struct StateListener(Arc<dyn Fn(State) + Send + Sync>);

impl StateListener {
    /// Wraps a callback. The callback must not block and must not call back into the pool.
    pub fn new(callback: impl Fn(State) + Send + Sync + 'static) -> StateListener {
        StateListener(Arc::new(callback))
    }

    pub(super) fn notify(&self, state: State) {
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
pub struct Catalog {
    /// Ordered by alias, then as the server listed the tools. Names are unique.
    pub tools: Arc<[Tool]>,
    /// Servers that are unavailable for a prompt, as `(alias, reason)`.
    pub without: Vec<(String, String)>,
    /// Index in `tools` of each tool name.
    pub names: Arc<HashMap<String, usize>>,
}

impl Catalog {
    /// Builds a catalog of `tools`; `without` are the unavailable servers, as `(alias, reason)`.
    pub fn new(tools: Arc<[Tool]>, without: Vec<(String, String)>) -> Catalog {
        let names = tools.iter().enumerate().map(|(i, t)| (t.name.clone(), i));
        let names = Arc::new(names.collect());
        Catalog {
            tools,
            without,
            names,
        }
    }

    /// Returns the tool named `alias.tool`.
    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.get(*self.names.get(name)?)
    }
}

/// Resource or resource template of a server.
/// <https://modelcontextprotocol.io/specification/2025-11-25/server/resources>
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
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
pub struct Prompt {
    /// Name as `alias.prompt`.
    pub name: String,
    /// Description given by the server.
    pub description: Option<String>,
    /// Arguments, as `(name, required)`.
    pub arguments: Vec<(String, bool)>,
}
