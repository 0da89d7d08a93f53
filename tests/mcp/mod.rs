//! Tests of the MCP server pool against well-behaved and faulty servers.

mod http;
mod http_faults;
mod oauth;
mod pool;
mod stdio;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aish::config::mcp::{HandshakeMode, ServerSettings};
use aish::error::Result;
use aish::mcp::{
    CallError, CallEvent, CallResult, ConnectionStatus, ServerCredentials, ServerPool, ServerState,
    StartupTimeLimits, StateListener, ToolCatalog,
};
use aish::safety::policy::{self, ApprovalScope, Approved, CallRequest, ExactCall, GrantSet};
use aish::secret::Secret;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Bearer token of the fake servers.
const TOKEN: &str = "tok-31337-secret";

/// Time limit of a wait; only a failing test reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A pool with its own state directory.
struct TestPool {
    pool: ServerPool,
    tasks: TaskTracker,
    state: tempfile::TempDir,
    /// Notified at each change of a server's status.
    changed: watch::Sender<()>,
}

impl TestPool {
    fn new() -> TestPool {
        TestPool::limited(StartupTimeLimits::default())
    }

    fn limited(limits: StartupTimeLimits) -> TestPool {
        let state = tempfile::tempdir().unwrap();
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let pool = ServerPool::with_limits(state.path().into(), tasks.clone(), cancel, limits);
        let changed = watch::Sender::new(());
        let notify = changed.clone();
        let pool = pool.with_state_listener(StateListener::new(move |_| notify.send_replace(())));
        TestPool {
            pool,
            tasks,
            state,
            changed,
        }
    }

    /// A pool with one server that is ready or has failed.
    async fn with(server: ServerSettings) -> TestPool {
        let test = TestPool::new();
        test.start(server);
        test.pool.catalog(PATIENCE).await;
        test
    }

    /// Starts a server as `mcp connect` does, with the token.
    fn start(&self, server: ServerSettings) {
        self.pool.start(server, false, token());
    }

    /// Starts a server of the configuration, with the token.
    fn start_configured(&self, server: ServerSettings) {
        self.pool.start(server, true, token());
    }

    fn state(&self, alias: &str) -> ServerState {
        let states = self.pool.states();
        states.into_iter().find(|s| s.alias == alias).unwrap()
    }

    /// Waits until a server has this status.
    async fn until(&self, alias: &str, status: ConnectionStatus) -> ServerState {
        let mut changed = self.changed.subscribe();
        let reached = async {
            loop {
                let state = self.state(alias);
                if state.status == status {
                    return state;
                }
                changed.changed().await.unwrap();
            }
        };
        let reached = tokio::time::timeout(PATIENCE, reached).await;
        reached.unwrap_or_else(|_| panic!("not {status:?} but {:?}", self.state(alias)))
    }

    /// Waits until a server offers this number of tools. The pool reports no event for a changed tool list.
    async fn until_tools(&self, alias: &str, tools: usize) {
        let begun = Instant::now();
        while self.state(alias).tools != tools {
            assert!(begun.elapsed() < PATIENCE, "{:?}", self.state(alias));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn call(&self, server: &str, tool: &str, arguments: &str) -> Called {
        let (events, _kept) = mpsc::channel(64);
        self.call_with(server, tool, arguments, &events, &CancellationToken::new())
            .await
    }

    async fn call_with(
        &self,
        server: &str,
        tool: &str,
        arguments: &str,
        events: &mpsc::Sender<CallEvent>,
        cancel: &CancellationToken,
    ) -> Called {
        let tools = self.pool.tools();
        let mut found = tools.iter().filter(|t| t.server == server);
        let found = found.find(|t| t.tool == tool);
        let call = ExactCall {
            server,
            tool,
            identity: found.map_or("", |t| &t.identity),
            arguments,
        };
        let approved = approve(&call);
        let call = self.pool.call(approved, &call, 0, 1 << 20, events, cancel);
        call.await
    }

    /// Shuts the pool down and checks that all tasks have ended.
    async fn end(self) {
        let begun = Instant::now();
        self.pool.shutdown().await;
        self.tasks.close();
        let left = tokio::time::timeout(PATIENCE, self.tasks.wait()).await;
        assert!(left.is_ok(), "tasks are still running");
        assert!(begun.elapsed() < Duration::from_secs(3));
    }
}

/// Moves the clock of this runtime forward, so that timers fire without waiting for them.
async fn advance(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

type Called = std::result::Result<CallResult, CallError>;

async fn token() -> Result<ServerCredentials> {
    Ok(ServerCredentials {
        bearer: Some(Secret::new(TOKEN)),
        env: Vec::new(),
    })
}

fn approve(call: &ExactCall<'_>) -> Approved {
    let grants = &mut GrantSet::default();
    policy::approve(
        &CallRequest::new(*call),
        ApprovalScope::Once,
        [],
        grants,
        0,
        "",
    )
}

/// A server connected with `initialize`, without trying `server/discover` first.
fn legacy(alias: &str, url: String) -> ServerSettings {
    ServerSettings {
        lifecycle: HandshakeMode::Legacy,
        ..ServerSettings::with_url(alias, url)
    }
}

fn names(catalog: &ToolCatalog) -> Vec<&str> {
    catalog.tools.iter().map(|t| t.name.as_str()).collect()
}

/// Returns the message of a failed call.
fn failure(called: Called) -> String {
    match called {
        Err(CallError::Failed(why)) => why,
        other => panic!("the call did not fail: {other:?}"),
    }
}
