//! One session with a server: how it begins, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientLifecycleMode, RoleClient, RunningService, serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::IntoTransport;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::failure::{Fault, Kind, Secrets, brief};
use super::handler::Handler;
use super::live::Live;
use super::server::Shared;
use super::stdio::{self, EndNote};
use super::types::Credentials;
use crate::config::mcp::{Lifecycle, Server, Transport};
use crate::safety::redact::ours;
use crate::secret::Secret;

/// How long a session may take to end.
const CLOSE: Duration = Duration::from_secs(2);

/// Less than this is no secret that could be masked without damage.
const SECRET: usize = 6;

/// A session, and what ends it.
pub(super) struct Session {
    pub(super) live: Live,
    pub(super) trouble: mpsc::Receiver<Fault>,
    /// Tells it to end.
    stop: CancellationToken,
    /// Ends what it would still wait for.
    end: CancellationToken,
    pub(super) ended: End,
}

/// Whether a session has ended by itself, and why.
pub(super) struct End {
    gone: CancellationToken,
    /// Of a child.
    note: Option<EndNote>,
}

impl End {
    /// Waits until it has.
    pub(super) async fn fault(&self) -> Fault {
        self.gone.cancelled().await;
        Fault::ended(self.note.as_ref())
    }
}

/// Connects to a server and asks what tools it has.
pub(super) async fn open(
    server: &Server,
    credentials: &Credentials,
    shared: &Shared,
) -> Result<Session, Fault> {
    let tasks = &shared.tasks;
    let secrets = Secrets::new(secrets(server, credentials));
    if let Some(token) = shared.clients.token(server, credentials).await? {
        secrets.now(&token);
    }
    let modes: &[Lifecycle] = match server.lifecycle {
        // A server may break at a question that it does not know.
        Lifecycle::Auto => &[Lifecycle::Auto, Lifecycle::Legacy],
        Lifecycle::Legacy => &[Lifecycle::Legacy],
        Lifecycle::Modern => &[Lifecycle::Modern],
    };
    let log = shared.state.join(format!("mcp-{}.log", server.alias));
    let mut last = Fault::answer("it was not tried");
    for &mode in modes {
        let end = CancellationToken::new();
        let handler = Handler::new(&server.alias, secrets.clone(), log.clone(), end.clone());
        let stop = CancellationToken::new();
        let tokens = (&stop, &end);
        let begun = begin(server, credentials, shared, mode, &handler, tokens);
        let (service, note) = match begun.await {
            Ok(begun) => begun,
            Err(fault) => {
                end.cancel();
                last = secrets.masked(fault);
                if matches!(last.kind, Kind::Login | Kind::Away) {
                    break;
                }
                continue;
            }
        };
        let (trouble, troubles) = mpsc::channel(1);
        let info = service.peer().peer_info();
        let version = info.as_ref().and_then(|i| i.server_info.as_ref());
        let protocol = info.as_ref().map(|i| i.protocol_version.to_string());
        let mut live = Live {
            peer: service.peer().clone(),
            handler,
            tools: Arc::default(),
            version: version.map(|v| brief(&format!("{} {}", v.name, v.version))),
            protocol: protocol.unwrap_or_default(),
            trouble,
            note: note.clone(),
            tasks: tasks.clone(),
        };
        let gone = CancellationToken::new();
        let mut session = Session {
            live: live.clone(),
            trouble: troubles,
            stop,
            end,
            ended: End {
                gone: gone.clone(),
                note,
            },
        };
        tasks.spawn(async move {
            // How it ended is known elsewhere.
            let _ = service.waiting().await;
            gone.cancel();
        });
        match live.list(server).await {
            Ok(tools) => live.tools = tools,
            Err(fault) => {
                session.close().await;
                return Err(secrets.masked(fault));
            }
        }
        session.live = live;
        return Ok(session);
    }
    Err(last)
}

impl Session {
    /// Ends it, in two seconds at most.
    pub(super) async fn close(&self) {
        self.end.cancel();
        self.stop.cancel();
        // What has not ended by then is on its way.
        let _ = timeout(CLOSE, self.ended.gone.cancelled()).await;
    }
}

/// What must not be shown of a server's errors.
fn secrets(server: &Server, credentials: &Credentials) -> Vec<Secret> {
    let mut secrets: Vec<Secret> = credentials.bearer.iter().cloned().collect();
    secrets.extend(stdio::secrets(&credentials.env));
    match &server.transport {
        Transport::Http { url, headers, .. } => {
            secrets.extend(headers.iter().map(|(_, value)| Secret::new(value)));
            let query = url.split_once('?').map_or("", |(_, query)| query);
            let values = query.split('&').filter_map(|pair| pair.split_once('='));
            secrets.extend(values.map(|(_, value)| Secret::new(value)));
        }
        Transport::Stdio { .. } => {}
    }
    secrets.retain(|s| s.expose().len() >= SECRET);
    for (name, value) in &credentials.env {
        ours().know_variable("mcp-variable", name, value.expose());
    }
    // The values of the environment are among them, and most of those are no secrets.
    let variable = |s: &&Secret| credentials.env.iter().any(|(_, value)| value == *s);
    for secret in secrets.iter().filter(|s| !variable(s)) {
        ours().know("mcp-secret", secret.expose());
    }
    secrets
}

async fn begin(
    server: &Server,
    credentials: &Credentials,
    shared: &Shared,
    mode: Lifecycle,
    handler: &Handler,
    (stop, end): (&CancellationToken, &CancellationToken),
) -> Result<(RunningService<RoleClient, Handler>, Option<EndNote>), Fault> {
    let limits = &shared.limits;
    match &server.transport {
        Transport::Http { url, headers, .. } => {
            let bearer = credentials.bearer.as_ref();
            let secrets = handler.secrets().clone();
            let clients = &shared.clients;
            let transport = clients.transport(url, headers, bearer, secrets, end.clone())?;
            let limit = match server.lifecycle {
                Lifecycle::Auto if mode == Lifecycle::Auto => limits.discover,
                Lifecycle::Auto => limits.begin.saturating_sub(limits.discover),
                _ => limits.begin,
            };
            let service = serve(handler, transport, mode, limit, stop).await?;
            Ok((service, None))
        }
        Transport::Stdio { .. } => {
            let transport = stdio::spawn(server, &credentials.env, handler.log_file())
                .map_err(|e| Fault::new(Kind::Away, e.message))?;
            let note = transport.end_note();
            // Not less for one that is only asked whether it is modern: to kill a program that is still being
            // fetched could leave half of it. One that ignores the question costs the ten seconds of `rmcp`.
            match serve(handler, transport, mode, limits.begin_stdio, stop).await {
                Ok(service) => Ok((service, Some(note))),
                Err(_) if note.text().is_some() => Err(Fault::ended(Some(&note))),
                Err(fault) => Err(match note.last_words() {
                    Some(words) => Fault::new(
                        fault.kind,
                        format!("{}; its last words: {words}", fault.line),
                    ),
                    None => fault,
                }),
            }
        }
    }
}

async fn serve<T, E, A>(
    handler: &Handler,
    transport: T,
    mode: Lifecycle,
    limit: Duration,
    stop: &CancellationToken,
) -> Result<RunningService<RoleClient, Handler>, Fault>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let mode = match mode {
        Lifecycle::Auto => ClientLifecycleMode::Auto {
            preferred_versions: modern,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
        Lifecycle::Legacy => ClientLifecycleMode::Initialize,
        Lifecycle::Modern => ClientLifecycleMode::Discover {
            preferred_versions: modern,
        },
    };
    let serve = serve_client_with_lifecycle_and_ct(handler.clone(), transport, mode, stop.clone());
    match timeout(limit, serve).await {
        Ok(served) => served.map_err(Fault::from),
        Err(_) => Err(Fault::answer("it does not answer")),
    }
}
