//! The MCP servers of a user: connected all at once, kept warm, called only with an approval.
//!
//! The protocol is `rmcp`'s; what it leaves open is decided here: limits, time,
//! reconnects, children, who may ask the person.

pub mod auth;
#[cfg_attr(not(test), expect(dead_code, reason = "the pool takes it up next"))]
mod content;
#[cfg_attr(not(test), expect(dead_code, reason = "the pool takes it up next"))]
mod stdio;
mod types;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, ClientConfig, ContentBlock, ProtocolVersion};
use rmcp::service::{RunningService, ServiceExt};
use rmcp::transport::StreamableHttpClientTransport;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use self::types::{
    CallError, CallEvent, CallResult, Catalog, Credentials, Elicit, Elicited, Prompt, Resource,
    State, Status,
};
use crate::chat::{Annotations, Tool};
use crate::config::mcp::{Server, Transport};
use crate::error::{Error, Result};
use crate::safety::policy::{Approved, Call};

/// All servers.
#[derive(Debug)]
pub struct Pool {
    servers: Mutex<BTreeMap<String, Arc<Connected>>>,
    #[expect(dead_code, reason = "logs and tokens go there")]
    state: PathBuf,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

#[derive(Debug)]
struct Connected {
    server: Server,
    configured: bool,
    state: tokio::sync::watch::Sender<Option<std::result::Result<Live, String>>>,
}

#[derive(Debug)]
struct Live {
    service: RunningService<RoleClient, ClientConfig>,
    tools: Vec<Tool>,
}

impl Pool {
    /// No server yet. `state` is the directory for logs and tokens; what runs is one of `tasks`, and ends with
    /// `cancel` (a child process with its group).
    pub fn new(state: PathBuf, tasks: TaskTracker, cancel: CancellationToken) -> Pool {
        Pool {
            servers: Mutex::default(),
            state,
            tasks,
            cancel,
        }
    }

    /// The configured servers that are to be started: they are new, or their lines have changed. The caller
    /// finds their credentials and calls [`Pool::start`]. Servers that the configuration has no more are let go.
    /// What a person has connected or disconnected by hand stays so.
    pub fn wanting(&self, configured: &BTreeMap<String, Server>) -> Vec<Server> {
        let servers = self.lock();
        configured
            .values()
            .filter(|s| servers.get(&s.alias).is_none_or(|c| c.server != **s) && !s.disabled)
            .cloned()
            .collect()
    }

    /// Connects to a server in the background; one of that alias is let go. `credentials` may take its time
    /// (a command that prints a token); an error in it is the server's error.
    pub fn start(
        &self,
        server: Server,
        configured: bool,
        credentials: impl Future<Output = Result<Credentials>> + Send + 'static,
    ) {
        let (sender, _) = tokio::sync::watch::channel(None);
        let connected = Arc::new(Connected {
            server,
            configured,
            state: sender,
        });
        let alias = connected.server.alias.clone();
        self.lock().insert(alias, connected.clone());
        let cancel = self.cancel.clone();
        self.tasks.spawn(async move {
            let result = tokio::select! {
                () = cancel.cancelled() => return,
                result = connect(&connected.server, credentials) => result,
            };
            connected.state.send_replace(Some(result));
        });
    }

    /// Lets go of a server; one of the configuration stays away until it is started by hand.
    ///
    /// # Errors
    /// There is none of that alias.
    pub fn disconnect(&self, alias: &str) -> Result<()> {
        match self.lock().remove(alias) {
            Some(_) => Ok(()),
            None => Err(no_such_server(alias)),
        }
    }

    /// Waits for the servers that are starting, but no longer than `patience` after the start of each, and says
    /// what there is.
    pub async fn catalog(&self, patience: Duration) -> Catalog {
        let servers: Vec<_> = self.lock().values().cloned().collect();
        let mut catalog = Catalog::default();
        let mut tools = Vec::new();
        for server in servers {
            let mut seen = server.state.subscribe();
            let _ = tokio::time::timeout(patience, seen.wait_for(Option::is_some)).await;
            match &*seen.borrow() {
                Some(Ok(live)) => tools.extend(live.tools.iter().cloned()),
                Some(Err(why)) => catalog
                    .without
                    .push((server.server.alias.clone(), why.clone())),
                None => catalog
                    .without
                    .push((server.server.alias.clone(), "still starting".into())),
            }
        }
        catalog.tools = tools.into();
        catalog
    }

    /// How each server is.
    pub fn states(&self) -> Vec<State> {
        let servers = self.lock();
        servers
            .values()
            .map(|s| {
                let (status, error, tools) = match &*s.state.borrow() {
                    None => (Status::Starting, None, 0),
                    Some(Ok(live)) => (Status::Ready, None, live.tools.len()),
                    Some(Err(why)) => (Status::Failed, Some(why.clone()), 0),
                };
                State {
                    alias: s.server.alias.clone(),
                    target: s.server.target(),
                    version: None,
                    protocol: None,
                    tools,
                    status,
                    error,
                    configured: s.configured,
                }
            })
            .collect()
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
        if !approved.covers(call, now_ms) {
            return Err(CallError::NotApproved);
        }
        let failed = |why: String| CallError::Failed(why);
        let _ = (events, max_bytes);
        let server = self.lock().get(call.server).cloned();
        let server = server.ok_or_else(|| failed("the server has gone".into()))?;
        let peer = match &*server.state.borrow() {
            Some(Ok(live)) => live.service.peer().clone(),
            _ => return Err(failed("the server has gone".into())),
        };
        let arguments = serde_json::from_str(call.arguments).map_err(|e| failed(e.to_string()))?;
        let params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(arguments);
        let result = tokio::select! {
            () = cancel.cancelled() => return Err(CallError::Interrupted),
            result = peer.call_tool(params) => result.map_err(|e| failed(e.to_string()))?,
        };
        let text: Vec<String> = result
            .content
            .iter()
            .filter_map(|c| match c {
                ContentBlock::Text(t) => Some(t.text.clone()),
                _ => None,
            })
            .collect();
        let text = text.join("\n");
        Ok(CallResult {
            bytes: text.len() as u64,
            text,
            is_error: result.is_error == Some(true),
            ..CallResult::default()
        })
    }

    /// The resources and templates of a server, or of all.
    ///
    /// # Errors
    /// There is no such server, or it fails.
    pub async fn resources(
        &self,
        alias: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Vec<Resource>> {
        let _ = (alias, cancel);
        Ok(Vec::new())
    }

    /// The text of a resource: `alias` and URI.
    ///
    /// # Errors
    /// There is none, or it is no text.
    pub async fn resource(
        &self,
        alias: &str,
        uri: &str,
        max_bytes: usize,
        cancel: &CancellationToken,
    ) -> Result<String> {
        let _ = (uri, max_bytes, cancel);
        Err(no_such_server(alias))
    }

    /// The prompts of a server, or of all.
    ///
    /// # Errors
    /// There is no such server, or it fails.
    pub async fn prompts(
        &self,
        alias: Option<&str>,
        cancel: &CancellationToken,
    ) -> Result<Vec<Prompt>> {
        let _ = (alias, cancel);
        Ok(Vec::new())
    }

    /// The text of a prompt: `alias`, its name at the server, its arguments.
    ///
    /// # Errors
    /// There is none, an argument is missing, or the server fails.
    pub async fn prompt(
        &self,
        alias: &str,
        name: &str,
        arguments: &[(String, String)],
        cancel: &CancellationToken,
    ) -> Result<String> {
        let _ = (name, arguments, cancel);
        Err(no_such_server(alias))
    }

    /// Ends every server, children with their groups.
    pub async fn shutdown(&self) {
        self.cancel.cancel();
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Connected>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_such_server(alias: &str) -> Error {
    Error::usage(format!("no MCP server is called {alias}")).hint("see them with: llm :mcp list")
}

async fn connect(
    server: &Server,
    credentials: impl Future<Output = Result<Credentials>>,
) -> std::result::Result<Live, String> {
    let _credentials = credentials.await.map_err(|e| e.message)?;
    let Transport::Http { url, .. } = &server.transport else {
        return Err("stdio is not there yet".into());
    };
    let transport = StreamableHttpClientTransport::from_uri(url.as_str());
    let mut info = ClientConfig::default();
    info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
    let service = info.serve(transport).await.map_err(|e| e.to_string())?;
    let listed = service.list_all_tools().await.map_err(|e| e.to_string())?;
    let tools = listed
        .iter()
        .map(|t| Tool {
            name: format!("{}.{}", server.alias, t.name),
            server: server.alias.clone(),
            tool: t.name.to_string(),
            title: t.title.clone(),
            description: t.description.as_deref().unwrap_or_default().to_owned(),
            schema: serde_json::to_string(&*t.input_schema).unwrap_or_default(),
            annotations: Annotations::default(),
            trusted: server.trust,
        })
        .collect();
    Ok(Live { service, tools })
}
