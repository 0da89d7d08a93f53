//! One server of the pool, and the task that keeps it connected.

use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::{ServerNotification, SubscriptionFilter};
use rmcp::service::ServiceError;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::failure::{Fault, Kind};
use super::http::Clients;
use super::live::Live;
use super::session::{Session, open};
use super::types::{Credentials, Limits, State, Status, Witness};
use crate::config::mcp::{Auth, Server, Transport};
use crate::error::Result;
use crate::safety::text::one_line;

/// The first pause before a server is tried again; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(500);

/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(120);

/// A server that was ready for so long begins again with the first pause.
const HEALTHY: Duration = Duration::from_secs(60);

/// When credentials that could not be had are asked for again, at the earliest.
const CREDENTIALS: Duration = Duration::from_secs(10);

/// A server that changes its list all the time is asked for it once in so long.
const LIST_PAUSE: Duration = Duration::from_secs(1);

/// How a server is.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// The first try is under way.
    Starting,
    Ready(Arc<Live>),
    /// It is tried again, unless its credentials have to be found again: then after `again`, by
    /// whoever has them.
    Failed {
        fault: Fault,
        again: Option<Instant>,
    },
    /// By the configuration or by hand.
    Off,
}

/// A server of the pool.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) server: Server,
    pub(super) configured: bool,
    pub(super) started: Instant,
    phase: watch::Sender<Phase>,
    cancel: CancellationToken,
    witness: Witness,
    /// What the witness was told last.
    told: Mutex<Status>,
}

/// What all servers share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Where logs are kept.
    pub(super) state: PathBuf,
    pub(super) limits: Limits,
    pub(super) clients: Clients,
    pub(super) tasks: TaskTracker,
}

impl Connected {
    pub(super) fn new(server: Server, configured: bool, cancel: CancellationToken) -> Connected {
        Connected {
            server,
            configured,
            started: Instant::now(),
            phase: watch::Sender::new(Phase::Starting),
            cancel,
            witness: Witness::default(),
            told: Mutex::new(Status::Starting),
        }
    }

    /// The same, with somebody who is told of its changes, and what they were told of it before.
    pub(super) fn witnessed_by(self, witness: Witness, told: Option<Status>) -> Connected {
        Connected {
            witness,
            told: Mutex::new(told.unwrap_or(Status::Starting)),
            ..self
        }
    }

    /// One that is not connected to.
    pub(super) fn off(server: Server, configured: bool) -> Connected {
        let off = Connected::new(server, configured, CancellationToken::new());
        off.phase.send_replace(Phase::Off);
        off
    }

    /// Lets go of it.
    pub(super) fn end(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        // Under the lock: its task, which may see the connection end now, has no say from here on.
        self.cancel.cancel();
        if *told == Status::Ready {
            *told = Status::Disabled;
            drop(told);
            self.witness.tell(State {
                status: Status::Disabled,
                ..self.state()
            });
        }
    }

    /// What the witness was told last.
    pub(super) fn told(&self) -> Status {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of a change.
    fn tell(&self) {
        let state = self.state();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != state.status && !self.cancel.is_cancelled() {
            *told = state.status;
            drop(told);
            self.witness.tell(state);
        }
    }

    /// Whether somebody has to find its credentials again.
    pub(super) fn is_wanted(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Failed { again: Some(at), .. } if *at <= Instant::now())
    }

    pub(super) fn live(&self) -> std::result::Result<Arc<Live>, String> {
        match &*self.phase.borrow() {
            Phase::Ready(live) => Ok(live.clone()),
            Phase::Starting => Err("it is still starting".into()),
            Phase::Failed { fault, .. } => Err(fault.hinted(&self.server)),
            Phase::Off => Err("it is disconnected".into()),
        }
    }

    /// Whether a try is under way that nobody knows the end of.
    pub(super) fn starts(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Starting)
    }

    /// Waits until that try has ended or it is let go of, but no longer than until then.
    pub(super) async fn settle(&self, deadline: Instant) {
        let mut phase = self.phase.subscribe();
        let settled = phase.wait_for(|p| !matches!(p, Phase::Starting));
        tokio::select! {
            biased;
            _ = settled => {}
            () = self.cancel.cancelled() => {}
            () = sleep_until(deadline) => {}
        }
    }

    /// Why a prompt has to go without it; not a word of one that was turned off.
    pub(super) fn excuse(&self) -> Option<String> {
        match &*self.phase.borrow() {
            Phase::Starting => Some("still starting".to_owned()),
            Phase::Failed { fault, .. } => Some(fault.hinted(&self.server)),
            Phase::Ready(_) | Phase::Off => None,
        }
    }

    pub(super) fn state(&self) -> State {
        let mut state = State {
            alias: self.server.alias.clone(),
            target: self.server.target(),
            version: None,
            protocol: None,
            tools: 0,
            status: Status::Starting,
            error: None,
            configured: self.configured,
        };
        match &*self.phase.borrow() {
            Phase::Starting => {}
            Phase::Ready(live) => {
                state.status = Status::Ready;
                state.version.clone_from(&live.version);
                state.protocol = Some(live.protocol.clone());
                state.tools = live.tools.len();
            }
            Phase::Failed { fault, .. } => {
                state.status = match fault.kind {
                    Kind::Login => Status::Login,
                    _ => Status::Failed,
                };
                state.error = Some(fault.hinted(&self.server));
            }
            Phase::Off => state.status = Status::Disabled,
        }
        state
    }

    fn ready(&self, live: Live) {
        self.phase.send_replace(Phase::Ready(Arc::new(live)));
        self.tell();
    }

    fn failed(&self, fault: Fault, again: Option<Instant>) {
        let alias = &self.server.alias;
        tracing::info!("mcp {alias}: {}", one_line(&fault.line, 300));
        self.phase.send_replace(Phase::Failed { fault, again });
        self.tell();
    }

    /// Keeps it connected until it is let go.
    pub(super) async fn supervise(
        self: Arc<Self>,
        shared: Arc<Shared>,
        credentials: impl Future<Output = Result<Credentials>> + Send,
    ) {
        let cancelled = self.cancel.clone();
        let credentials = tokio::select! {
            () = cancelled.cancelled() => return,
            credentials = credentials => credentials,
        };
        let credentials = match credentials {
            Ok(credentials) => credentials,
            Err(e) => return self.failed(e.into(), Some(Instant::now() + CREDENTIALS)),
        };
        let mut pause = PAUSE;
        loop {
            let opening = open(&self.server, &credentials, &shared);
            let opened = tokio::select! {
                () = cancelled.cancelled() => return,
                opened = opening => opened,
            };
            match opened {
                Err(fault) if fault.kind == Kind::Login => {
                    return self
                        .failed(fault, self.printed().then(|| Instant::now() + CREDENTIALS));
                }
                Err(fault) => self.failed(fault, None),
                Ok(mut session) => {
                    let since = Instant::now();
                    self.ready(session.live.clone());
                    let fault = tokio::select! {
                        () = cancelled.cancelled() => None,
                        fault = self.watch(&mut session) => Some(fault),
                    };
                    // What it took before may have grown old: somebody has to find it again.
                    let over = fault.as_ref().is_none_or(|f| f.kind == Kind::Login);
                    // First of all, so that nobody is given a session that ends.
                    if let Some(fault) = fault {
                        self.failed(fault, over.then(Instant::now));
                    }
                    session.close().await;
                    if over {
                        return;
                    }
                    if since.elapsed() >= HEALTHY {
                        pause = PAUSE;
                    }
                }
            }
            tokio::select! {
                () = cancelled.cancelled() => return,
                () = sleep(pause) => pause = (pause * 2).min(MAX_PAUSE),
            }
        }
    }

    /// Whether its token is what a command prints: the next may be better.
    fn printed(&self) -> bool {
        let Transport::Http { auth, .. } = &self.server.transport else {
            return false;
        };
        matches!(auth, Auth::Cmd(_))
    }

    /// Follows a session until it is of no use any more.
    async fn watch(&self, session: &mut Session) -> Fault {
        let mut live = session.live.clone();
        let mut listen = pin!(listen(live.clone()));
        let mut next = Instant::now();
        loop {
            let changed = async {
                sleep_until(next).await;
                live.handler.tools_changed().await;
            };
            tokio::select! {
                fault = session.trouble.recv() => {
                    return fault.unwrap_or_else(|| Fault::lost("the connection has ended"));
                }
                fault = session.ended.fault() => {
                    return live.handler.secrets().masked(fault);
                }
                () = &mut listen => {}
                () = changed => {
                    next = Instant::now() + LIST_PAUSE;
                    match live.list(&self.server).await {
                        Ok(tools) => {
                            live.tools = tools;
                            self.ready(live.clone());
                        }
                        // The list of before is better than none.
                        Err(fault) => {
                            let alias = &self.server.alias;
                            let line = one_line(&fault.line, 300);
                            tracing::info!("mcp {alias}: no new list of tools: {line}");
                        }
                    }
                }
            }
        }
    }
}

/// Listens for changes of the list where they have to be asked for (2026-07-28). It never ends.
async fn listen(live: Live) {
    let info = live.peer.peer_info();
    let asks = info.as_ref().is_some_and(|i| {
        let tools = i.capabilities.tools.as_ref();
        !i.protocol_version.has_initialize() && tools.is_some_and(|t| t.list_changed == Some(true))
    });
    if !asks {
        return std::future::pending().await;
    }
    let mut pause = LIST_PAUSE;
    loop {
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        match live.peer.listen(filter).await {
            Ok(mut changes) => {
                while let Ok(Some(change)) = changes.next().await {
                    if matches!(change, ServerNotification::ToolListChangedNotification(_)) {
                        live.handler.note_tools_changed();
                        pause = LIST_PAUSE;
                    }
                }
            }
            // It will not have it.
            Err(ServiceError::McpError(_)) => return std::future::pending().await,
            Err(_) => {}
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
        // What has changed meanwhile was not told.
        live.handler.note_tools_changed();
    }
}
