//! Third-party MCP servers and the MCP conformance suite. `./test.sh` installs pinned versions and sets
//! `AISH_TEST_TOOLS`; without it these tests are ignored.

mod conformance;
mod conversation;
#[expect(dead_code, reason = "the bench uses the rest of it")]
mod graded;
mod node;
mod python;
mod retrieval;
mod split;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use aish::chat::ToolDefinition;
use aish::config::mcp::{HandshakeMode, ServerSettings, ServerTransport};
use aish::mcp::{
    CallError, CallEvent, CallResult, ConnectionStatus, ElicitationRequest, ElicitationResponse,
    ServerCredentials, ServerPool, ServerState,
};
use aish::safety::policy::{self, ApprovalScope, CallRequest, ExactCall, GrantSet};
use aish::secret::Secret;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::support::PATIENCE;

/// Directory of the installed servers.
fn tools() -> PathBuf {
    let dir = std::env::var_os("AISH_TEST_TOOLS").expect("AISH_TEST_TOOLS names a directory");
    PathBuf::from(dir)
}

fn node() -> PathBuf {
    graded::node(&tools())
}

/// Program of an npm package of `@modelcontextprotocol`.
fn package(name: &str) -> PathBuf {
    let file = format!("node_modules/@modelcontextprotocol/{name}/dist/index.js");
    tools().join(file)
}

fn python() -> PathBuf {
    tools().join("python/bin/python")
}

/// A stdio server.
fn stdio(alias: &str, program: &Path, args: &[&Path]) -> ServerSettings {
    let text = |p: &Path| p.to_str().expect("a path of text").to_owned();
    ServerSettings {
        transport: ServerTransport::Stdio {
            command: text(program),
            args: args.iter().map(|a| text(a)).collect(),
            env: Vec::new(),
        },
        lifecycle: HandshakeMode::Legacy,
        timeout: PATIENCE,
        ..ServerSettings::with_url(alias, "")
    }
}

/// An HTTP server process; killed when dropped.
struct Process {
    child: Child,
    url: String,
}

impl Process {
    /// Starts a server that gets its port in `PORT` and prints a line to stderr once it listens.
    fn with_given_port(mut command: Command) -> Process {
        // Another process may take the port before the server does; then the start is repeated.
        for _ in 0..5 {
            let free = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
            let port = free.local_addr().expect("its address").port();
            drop(free);
            let mut child = command
                .env("PORT", port.to_string())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the server starts");
            let mut said = BufReader::new(child.stderr.take().expect("stderr"));
            let mut line = String::new();
            said.read_line(&mut line).expect("a line");
            if line.contains("listening") {
                // The pipe is drained so that the server never blocks on it.
                std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
                let url = format!("http://127.0.0.1:{port}/mcp");
                return Process { child, url };
            }
            child.kill().expect("it ends");
            child.wait().expect("its end");
        }
        panic!("the server does not listen");
    }

    /// Starts a server that chooses a port, prints it, and exits at the end of stdin.
    fn with_own_port(mut command: Command) -> Process {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let mut port = String::new();
        BufReader::new(child.stdout.take().expect("stdout"))
            .read_line(&mut port)
            .expect("a port");
        let url = format!("http://127.0.0.1:{}/mcp", port.trim());
        Process { child, url }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Result of a call, and its progress lines.
type CallOutcome = (Result<CallResult, CallError>, Vec<String>);

/// A pool with its own state directory.
struct Servers {
    pool: ServerPool,
    state: TempDir,
    tasks: TaskTracker,
    cancel: CancellationToken,
}

impl Servers {
    fn new() -> Servers {
        let (state, tasks) = (TempDir::new().expect("a directory"), TaskTracker::new());
        let cancel = CancellationToken::new();
        let pool = ServerPool::new(state.path().to_owned(), tasks.clone(), cancel.clone());
        Servers {
            pool,
            state,
            tasks,
            cancel,
        }
    }

    /// A pool with one server, which is ready.
    async fn with(server: ServerSettings, bearer: Option<&str>) -> Servers {
        let servers = Servers::new();
        let alias = server.alias.clone();
        servers.start(server, bearer).await;
        let state = servers.state_of(&alias);
        assert_eq!(state.status, ConnectionStatus::Ready, "{state:?}");
        servers
    }

    /// Starts a server and waits until it is ready or has failed.
    async fn start(&self, server: ServerSettings, bearer: Option<&str>) {
        let environment = ["PATH", "HOME"].map(|name| {
            let value = std::env::var(name).expect("a variable that everybody has");
            (name.to_owned(), Secret::new(value))
        });
        let credentials = ServerCredentials {
            bearer: bearer.map(Secret::new),
            env: environment.to_vec(),
        };
        self.pool.start(server, true, async { Ok(credentials) });
        self.pool.catalog(PATIENCE).await;
    }

    fn state_of(&self, alias: &str) -> ServerState {
        let states = self.pool.states();
        let found = states.into_iter().find(|s| s.alias == alias);
        found.expect("a server of that alias")
    }

    async fn tools(&self) -> Vec<ToolDefinition> {
        self.pool.catalog(Duration::ZERO).await.tools.to_vec()
    }

    async fn tool(&self, name: &str) -> ToolDefinition {
        let tools = self.tools().await;
        let found = tools.iter().find(|t| t.name == name);
        let names: Vec<_> = tools.iter().map(|t| &t.name).collect();
        found.unwrap_or_else(|| panic!("{names:?}")).clone()
    }

    /// Waits for a tool that the server adds later. The pool reports no event for a changed tool list.
    async fn until_tool(&self, name: &str) {
        let there = async {
            while self.pool.catalog(Duration::ZERO).await.find(name).is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, there).await;
        assert!(waited.is_ok(), "{name} was never listed");
    }

    /// Calls a tool, which must succeed; elicitations are cancelled.
    async fn call(&self, name: &str, arguments: Value) -> CallResult {
        let (result, _) = self
            .call_with(name, arguments, |_| ElicitationResponse::Cancel)
            .await;
        result.unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Calls a tool with these answers to elicitations; returns its result and progress lines.
    async fn call_with(
        &self,
        name: &str,
        arguments: Value,
        answer: impl Fn(&ElicitationRequest) -> ElicitationResponse,
    ) -> CallOutcome {
        self.call_until(name, arguments, answer, usize::MAX).await
    }

    /// Same as [`Self::call_with`], but cancels the call after `enough` progress lines.
    async fn call_until(
        &self,
        name: &str,
        arguments: Value,
        answer: impl Fn(&ElicitationRequest) -> ElicitationResponse,
        enough: usize,
    ) -> CallOutcome {
        let cancel = &CancellationToken::new();
        let tool = self.tool(name).await;
        let arguments = arguments.to_string();
        let call = ExactCall {
            server: &tool.server,
            tool: &tool.tool,
            identity: &tool.identity,
            arguments: &arguments,
        };
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let now = u64::try_from(now.expect("after 1970").as_millis()).expect("a date");
        let approved = policy::approve(
            &CallRequest {
                annotations: tool.annotations,
                ..CallRequest::new(call)
            },
            ApprovalScope::Once,
            [],
            &mut GrantSet::default(),
            now,
            "",
        );
        let (events, mut seen) = mpsc::channel(16);
        let calling = async {
            let result = self
                .pool
                .call(approved, &call, now, 1 << 20, &events, cancel)
                .await;
            drop(events);
            result
        };
        let watching = async {
            let mut lines = Vec::new();
            while let Some(event) = seen.recv().await {
                match event {
                    CallEvent::Progress(line) => {
                        lines.push(line);
                        if lines.len() >= enough {
                            cancel.cancel();
                        }
                    }
                    CallEvent::Output(_) | CallEvent::Nested(_) => {}
                    CallEvent::Elicit(elicit, reply) => {
                        reply.send(answer(&elicit)).expect("somebody waits");
                    }
                }
            }
            lines
        };
        let both = async { tokio::join!(calling, watching) };
        tokio::time::timeout(PATIENCE, both)
            .await
            .unwrap_or_else(|_| panic!("{name} hangs"))
    }

    /// Shuts the pool down and checks that all tasks have ended.
    async fn end(self) {
        let Servers {
            pool,
            state,
            tasks,
            cancel,
        } = self;
        pool.shutdown().await;
        cancel.cancel();
        tasks.close();
        let ended = tokio::time::timeout(PATIENCE, tasks.wait()).await;
        assert!(ended.is_ok(), "tasks are still running");
        drop(state);
    }
}

/// Parses JSON text.
fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("{text}"))
}

/// Empty arguments.
fn nothing() -> Value {
    json!({})
}
