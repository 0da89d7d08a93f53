//! The pool of MCP servers, against servers that behave and servers that do not.

mod http;
mod http_faults;
mod oauth;
mod pool;
mod stdio;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aish::config::mcp::{Lifecycle, Server};
use aish::error::Result;
use aish::mcp::{
    CallError, CallEvent, CallResult, Catalog, Credentials, Limits, Pool, State, Status,
};
use aish::safety::policy::{Approved, Call, Consent, Grants, Wish, consent};
use aish::secret::Secret;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The token that servers want.
const TOKEN: &str = "tok-31337-secret";

/// Long enough that only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A pool of its own, in a directory of its own.
struct Bench {
    pool: Pool,
    tasks: TaskTracker,
    state: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench::limited(Limits::default())
    }

    fn limited(limits: Limits) -> Bench {
        let state = tempfile::tempdir().unwrap();
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let pool = Pool::with_limits(state.path().into(), tasks.clone(), cancel, limits);
        Bench { pool, tasks, state }
    }

    /// A pool with one server, whose first try has ended.
    async fn with(server: Server) -> Bench {
        let bench = Bench::new();
        bench.start(server);
        bench.pool.catalog(PATIENCE).await;
        bench
    }

    /// Starts a server by hand, with the token.
    fn start(&self, server: Server) {
        self.pool.start(server, false, token());
    }

    /// The same as one of the configuration.
    fn start_configured(&self, server: Server) {
        self.pool.start(server, true, token());
    }

    fn state(&self, alias: &str) -> State {
        let states = self.pool.states();
        states.into_iter().find(|s| s.alias == alias).unwrap()
    }

    /// Waits until a server is so.
    async fn until(&self, alias: &str, status: Status) -> State {
        let begun = Instant::now();
        loop {
            let state = self.state(alias);
            if state.status == status {
                return state;
            }
            assert!(begun.elapsed() < PATIENCE, "not {status:?} but {state:?}");
            // The pool tells nobody of a change, so that it is looked at again.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until a server has so many tools.
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
        let call = Call {
            server,
            tool,
            identity: found.map_or("", |t| &t.identity),
            arguments,
        };
        let approved = approve(&call);
        let call = self.pool.call(approved, &call, 0, 1 << 20, events, cancel);
        call.await
    }

    /// Ends everything, and sees that nothing is left.
    async fn end(self) {
        let begun = Instant::now();
        self.pool.shutdown().await;
        self.tasks.close();
        let left = tokio::time::timeout(PATIENCE, self.tasks.wait()).await;
        assert!(left.is_ok(), "tasks are left");
        assert!(begun.elapsed() < Duration::from_secs(3));
    }
}

type Called = std::result::Result<CallResult, CallError>;

async fn token() -> Result<Credentials> {
    Ok(Credentials {
        bearer: Some(Secret::new(TOKEN)),
        env: Vec::new(),
    })
}

fn approve(call: &Call<'_>) -> Approved {
    let grants = &mut Grants::default();
    consent(&Wish::new(*call), Consent::Once, [], grants, 0, "")
}

/// A server that is asked to `initialize` at once.
fn legacy(alias: &str, url: String) -> Server {
    Server {
        lifecycle: Lifecycle::Legacy,
        ..Server::at(alias, url)
    }
}

fn names(catalog: &Catalog) -> Vec<&str> {
    catalog.tools.iter().map(|t| t.name.as_str()).collect()
}

/// What a failed call says.
fn failure(called: Called) -> String {
    match called {
        Err(CallError::Failed(why)) => why,
        other => panic!("no failure: {other:?}"),
    }
}
