//! One server of the pool, and the supervisor task that keeps it connected.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::ServiceError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::connection::ReadyServer;
use super::failure::{FaultKind, ServerFault};
use super::session::{McpSession, PoolContext, open_session};
use super::types::{ConnectionStatus, ServerCredentials, ServerState, StateListener};
use crate::config::mcp::{ServerSettings, ServerTransport, TokenSource};
use crate::error::Result;
use crate::safety::text::one_line;

/// Delay before the first reconnect; doubles with each further attempt.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(500);

/// Maximum delay between reconnects.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(120);

/// A session that lasted this long resets the reconnect delay.
const HEALTHY_SESSION: Duration = Duration::from_secs(60);

/// Minimum time before credentials that could not be collected are requested again.
const CREDENTIALS_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Minimum time between two fetches of a tool list that keeps changing.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// Connection phase of a server.
#[derive(Debug, Clone)]
pub(super) enum ServerPhase {
    /// The first attempt is in progress.
    Starting,
    Ready(Arc<ReadyServer>),
    /// The last attempt failed. Without `retry_at`, the supervisor retries by itself; otherwise the caller has to collect the
    /// credentials again, not before `retry_at`.
    Failed {
        fault: ServerFault,
        retry_at: Option<Instant>,
    },
    /// Turned off by the configuration or by a person.
    TurnedOff,
}

/// A server in the pool.
#[derive(Debug)]
pub(super) struct PooledServer {
    pub(super) server: ServerSettings,
    pub(super) configured: bool,
    pub(super) started: Instant,
    phase: watch::Sender<ServerPhase>,
    cancel: CancellationToken,
    listener: StateListener,
    /// Status last reported to the listener.
    last_reported: Mutex<ConnectionStatus>,
}

impl PooledServer {
    pub(super) fn new(
        server: ServerSettings,
        configured: bool,
        cancel: CancellationToken,
    ) -> PooledServer {
        PooledServer {
            server,
            configured,
            started: Instant::now(),
            phase: watch::Sender::new(ServerPhase::Starting),
            cancel,
            listener: StateListener::default(),
            last_reported: Mutex::new(ConnectionStatus::Starting),
        }
    }

    /// Sets the listener, and the status that was last reported to it for this alias.
    pub(super) fn with_state_listener(
        self,
        listener: StateListener,
        last_reported: Option<ConnectionStatus>,
    ) -> PooledServer {
        PooledServer {
            listener,
            last_reported: Mutex::new(last_reported.unwrap_or(ConnectionStatus::Starting)),
            ..self
        }
    }

    /// A server that is not connected to.
    pub(super) fn turned_off(server: ServerSettings, configured: bool) -> PooledServer {
        let off = PooledServer::new(server, configured, CancellationToken::new());
        off.phase.send_replace(ServerPhase::TurnedOff);
        off
    }

    /// Stops the supervisor.
    pub(super) fn stop(&self) {
        let mut last_reported = self
            .last_reported
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Cancelled under the lock, so that the supervisor cannot report the closing connection as a failure.
        self.cancel.cancel();
        if *last_reported == ConnectionStatus::Ready {
            *last_reported = ConnectionStatus::Disabled;
            drop(last_reported);
            self.listener.notify(ServerState {
                status: ConnectionStatus::Disabled,
                ..self.state()
            });
        }
    }

    /// Status last reported to the listener.
    pub(super) fn last_reported(&self) -> ConnectionStatus {
        *self
            .last_reported
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a changed status to the listener.
    fn report(&self) {
        let state = self.state();
        let mut last_reported = self
            .last_reported
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *last_reported != state.status && !self.cancel.is_cancelled() {
            *last_reported = state.status;
            drop(last_reported);
            self.listener.notify(state);
        }
    }

    /// Whether the caller has to collect this server's credentials again.
    pub(super) fn needs_credentials(&self) -> bool {
        matches!(&*self.phase.borrow(), ServerPhase::Failed { retry_at: Some(at), .. } if *at <= Instant::now())
    }

    pub(super) fn ready_server(&self) -> std::result::Result<Arc<ReadyServer>, String> {
        match &*self.phase.borrow() {
            ServerPhase::Ready(ready) => Ok(ready.clone()),
            ServerPhase::Starting => Err("it is still starting".into()),
            ServerPhase::Failed { fault, .. } => Err(fault.message_with_hint(&self.server)),
            ServerPhase::TurnedOff => Err("it is disconnected".into()),
        }
    }

    /// Whether the first connection attempt is in progress.
    pub(super) fn is_starting(&self) -> bool {
        matches!(&*self.phase.borrow(), ServerPhase::Starting)
    }

    /// Waits until the first attempt has ended, the server was stopped, or `deadline` has passed.
    pub(super) async fn wait_until_settled(&self, deadline: Instant) {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|p| !matches!(p, ServerPhase::Starting));
        tokio::select! {
            biased;
            _ = settled => {}
            () = self.cancel.cancelled() => {}
            () = sleep_until(deadline) => {}
        }
    }

    /// Reason why the server is unavailable for a prompt; `None` when it is ready or was turned off.
    pub(super) fn unavailable_reason(&self) -> Option<String> {
        match &*self.phase.borrow() {
            ServerPhase::Starting => Some("still starting".to_owned()),
            ServerPhase::Failed { fault, .. } => Some(fault.message_with_hint(&self.server)),
            ServerPhase::Ready(_) | ServerPhase::TurnedOff => None,
        }
    }

    pub(super) fn state(&self) -> ServerState {
        let mut state = ServerState {
            alias: self.server.alias.clone(),
            target: self.server.target(),
            version: None,
            protocol: None,
            tools: 0,
            status: ConnectionStatus::Starting,
            error: None,
            configured: self.configured,
        };
        match &*self.phase.borrow() {
            ServerPhase::Starting => {}
            ServerPhase::Ready(ready) => {
                state.status = ConnectionStatus::Ready;
                state.version.clone_from(&ready.version);
                state.protocol = Some(ready.protocol.clone());
                state.tools = ready.tools.len();
            }
            ServerPhase::Failed { fault, .. } => {
                state.status = match fault.kind {
                    FaultKind::LoginRequired => ConnectionStatus::LoginRequired,
                    _ => ConnectionStatus::Failed,
                };
                state.error = Some(fault.message_with_hint(&self.server));
            }
            ServerPhase::TurnedOff => state.status = ConnectionStatus::Disabled,
        }
        state
    }

    fn set_ready(&self, ready: ReadyServer) {
        self.phase.send_replace(ServerPhase::Ready(Arc::new(ready)));
        self.report();
    }

    fn set_failed(&self, fault: ServerFault, retry_at: Option<Instant>) {
        let alias = &self.server.alias;
        tracing::info!("mcp {alias}: {}", one_line(&fault.message, 300));
        self.phase
            .send_replace(ServerPhase::Failed { fault, retry_at });
        self.report();
    }

    /// Connects, and reconnects after failures, until the server is stopped.
    pub(super) async fn supervise(
        self: Arc<Self>,
        shared: Arc<PoolContext>,
        credentials: impl Future<Output = Result<ServerCredentials>> + Send,
    ) {
        let cancelled = self.cancel.clone();
        let credentials = tokio::select! {
            () = cancelled.cancelled() => return,
            credentials = credentials => credentials,
        };
        let credentials = match credentials {
            Ok(credentials) => credentials,
            Err(e) => {
                return self.set_failed(e.into(), Some(Instant::now() + CREDENTIALS_RETRY_DELAY));
            }
        };
        let mut delay = FIRST_RETRY_DELAY;
        loop {
            let opening = open_session(&self.server, &credentials, &shared);
            let opened = tokio::select! {
                () = cancelled.cancelled() => return,
                opened = opening => opened,
            };
            match opened {
                Err(fault) if fault.kind == FaultKind::LoginRequired => {
                    return self.set_failed(
                        fault,
                        self.has_token_command()
                            .then(|| Instant::now() + CREDENTIALS_RETRY_DELAY),
                    );
                }
                Err(fault) => self.set_failed(fault, None),
                Ok(mut session) => {
                    let since = Instant::now();
                    self.set_ready(session.ready.clone());
                    let fault = tokio::select! {
                        () = cancelled.cancelled() => None,
                        fault = self.watch_session(&mut session) => Some(fault),
                    };
                    // The token may have expired, so the caller has to collect the credentials again.
                    let needs_caller = fault
                        .as_ref()
                        .is_none_or(|f| f.kind == FaultKind::LoginRequired);
                    // The phase changes before the session closes, so that no call starts on a closing session.
                    if let Some(fault) = fault {
                        self.set_failed(fault, needs_caller.then(Instant::now));
                    }
                    session.close().await;
                    if needs_caller {
                        return;
                    }
                    if since.elapsed() >= HEALTHY_SESSION {
                        delay = FIRST_RETRY_DELAY;
                    }
                }
            }
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = sleep(delay) => delay = (delay * 2).min(MAX_RETRY_DELAY),
            }
        }
    }

    /// Whether the bearer token is printed by a command, which may print a newer one next time.
    fn has_token_command(&self) -> bool {
        let ServerTransport::Http { auth, .. } = &self.server.transport else {
            return false;
        };
        matches!(auth, TokenSource::Cmd(_))
    }

    /// Follows a session until it is unusable, and returns the reason.
    async fn watch_session(&self, session: &mut McpSession) -> ServerFault {
        let mut ready = session.ready.clone();
        let mut tool_changes = pin!(follow_tool_changes(ready.clone()));
        let mut next = Instant::now();
        loop {
            let changed = async {
                sleep_until(next).await;
                ready.handler.wait_for_tools_changed().await;
            };
            tokio::select! {
                fault = session.faults.recv() => {
                    return fault.unwrap_or_else(|| ServerFault::disconnected("the connection has ended"));
                }
                fault = session.ended.wait() => {
                    return ready.handler.secrets().mask_fault(fault);
                }
                () = &mut tool_changes => {}
                () = changed => {
                    next = Instant::now() + LIST_INTERVAL;
                    match ready.list_tools(&self.server).await {
                        Ok(tools) => {
                            ready.tools = tools;
                            self.set_ready(ready.clone());
                        }
                        // The previous list stays in use.
                        Err(fault) => {
                            let alias = &self.server.alias;
                            let line = one_line(&fault.message, 300);
                            tracing::info!("mcp {alias}: cannot refresh the tool list: {line}");
                        }
                    }
                }
            }
        }
    }
}

/// Subscribes to tool list changes on servers of 2026-07-28, which send them only on request. Never returns.
async fn follow_tool_changes(ready: ReadyServer) {
    let info = ready.peer.peer_info();
    let asks = info.as_ref().is_some_and(|i| {
        let tools = i.capabilities.tools.as_ref();
        !i.protocol_version.has_initialize() && tools.is_some_and(|t| t.list_changed == Some(true))
    });
    if !asks {
        return std::future::pending().await;
    }
    let mut delay = LIST_INTERVAL;
    loop {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match ready.peer.listen(filter).await {
            Ok(mut changes) => {
                while let Ok(Some(change)) = changes.next().await {
                    if matches!(change, ServerNotification::ToolListChangedNotification(_)) {
                        ready.handler.note_tools_changed();
                        delay = LIST_INTERVAL;
                    }
                }
            }
            // The server does not support subscriptions.
            Err(ServiceError::McpError(_)) => return std::future::pending().await,
            Err(_) => {}
        }
        sleep(delay).await;
        delay = (delay * 2).min(MAX_RETRY_DELAY);
        // Changes during the pause were missed.
        ready.handler.note_tools_changed();
    }
}
