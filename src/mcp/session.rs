//! One session with a server: opening, handshake, close.

use std::path::PathBuf;
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
use tokio_util::task::TaskTracker;

use super::connection::ReadyServer;
use super::excerpt::excerpt;
use super::failure::{FaultKind, ServerFault};
use super::http::HttpClients;
use super::mask::SecretMask;
use super::message_handler::ServerMessageHandler;
use super::stdio::{self, ExitReason};
use super::types::{ServerCredentials, StartupTimeLimits};
use crate::config::mcp::{HandshakeMode, ServerSettings, ServerTransport};
use crate::safety::redact::global_redactor;
use crate::secret::Secret;

/// Time limit for closing a session.
const CLOSE_TIME_LIMIT: Duration = Duration::from_secs(2);

/// Minimum length in bytes of a value that is masked: masking shorter ones would damage ordinary text.
const MIN_SECRET_BYTES: usize = 6;

/// Resources that all servers of a pool share.
#[derive(Debug)]
pub(super) struct PoolContext {
    /// Directory for log files.
    pub(super) state: PathBuf,
    pub(super) limits: StartupTimeLimits,
    pub(super) clients: HttpClients,
    pub(super) tasks: TaskTracker,
}

/// An open session, and the means to close it.
pub(super) struct McpSession {
    pub(super) ready: ReadyServer,
    pub(super) faults: mpsc::Receiver<ServerFault>,
    /// Tells `rmcp` to close the session.
    stop: CancellationToken,
    /// Aborts requests of the session that are still waiting.
    end: CancellationToken,
    pub(super) ended: SessionEnd,
}

/// Signals that a session has ended by itself, and why.
pub(super) struct SessionEnd {
    token: CancellationToken,
    /// Exit reason of a child process.
    exit_reason: Option<ExitReason>,
}

impl SessionEnd {
    /// Waits for the end of the session.
    pub(super) async fn wait(&self) -> ServerFault {
        self.token.cancelled().await;
        ServerFault::connection_ended(self.exit_reason.as_ref())
    }
}

/// Connects to a server and fetches its tool list.
pub(super) async fn open_session(
    server: &ServerSettings,
    credentials: &ServerCredentials,
    shared: &PoolContext,
) -> Result<McpSession, ServerFault> {
    let tasks = &shared.tasks;
    let secrets = SecretMask::new(session_secrets(server, credentials));
    if let Some(token) = shared.clients.token(server, credentials).await? {
        secrets.set_token(&token);
    }
    let modes: &[HandshakeMode] = match server.lifecycle {
        // Some legacy servers close the connection at an unknown `server/discover`.
        HandshakeMode::Auto => &[HandshakeMode::Auto, HandshakeMode::Legacy],
        HandshakeMode::Legacy => &[HandshakeMode::Legacy],
        HandshakeMode::Modern => &[HandshakeMode::Modern],
    };
    let log = shared.state.join(format!("mcp-{}.log", server.alias));
    let mut last = ServerFault::bad_response("it was not tried");
    for &mode in modes {
        let end = CancellationToken::new();
        let handler =
            ServerMessageHandler::new(&server.alias, secrets.clone(), log.clone(), end.clone());
        let stop = CancellationToken::new();
        let tokens = (&stop, &end);
        let connected = connect(server, credentials, shared, mode, &handler, tokens);
        let (service, exit_reason) = match connected.await {
            Ok(connected) => connected,
            Err(fault) => {
                end.cancel();
                last = secrets.mask_fault(fault);
                if matches!(last.kind, FaultKind::LoginRequired | FaultKind::Unreachable) {
                    break;
                }
                continue;
            }
        };
        let (fault_sender, faults) = mpsc::channel(1);
        let info = service.peer().peer_info();
        let version = info.as_ref().and_then(|i| i.server_info.as_ref());
        let protocol = info.as_ref().map(|i| i.protocol_version.to_string());
        let mut ready = ReadyServer {
            peer: service.peer().clone(),
            handler,
            tools: Arc::default(),
            version: version.map(|v| excerpt(&format!("{} {}", v.name, v.version))),
            protocol: protocol.unwrap_or_default(),
            fault_sender,
            exit_reason: exit_reason.clone(),
            tasks: tasks.clone(),
        };
        let ended = CancellationToken::new();
        let mut session = McpSession {
            ready: ready.clone(),
            faults,
            stop,
            end,
            ended: SessionEnd {
                token: ended.clone(),
                exit_reason,
            },
        };
        tasks.spawn(async move {
            // The reason is in `SessionEnd::exit_reason` or was sent as a fault.
            let _ = service.waiting().await;
            ended.cancel();
        });
        match ready.list_tools(server).await {
            Ok(tools) => ready.tools = tools,
            Err(fault) => {
                session.close().await;
                return Err(secrets.mask_fault(fault));
            }
        }
        session.ready = ready;
        return Ok(session);
    }
    Err(last)
}

impl McpSession {
    /// Closes the session within two seconds.
    pub(super) async fn close(&self) {
        self.end.cancel();
        self.stop.cancel();
        // A close that takes longer continues in its own task.
        let _ = timeout(CLOSE_TIME_LIMIT, self.ended.token.cancelled()).await;
    }
}

/// Registers the headers and variables of a configured server as secrets. Called before the server starts, because the
/// values can already appear in a file or in the output of a command.
pub fn learn_configured(server: &ServerSettings) {
    let slot = |what: &str, name: &str| format!("{what} {name} of {}", server.alias);
    match &server.transport {
        ServerTransport::Http { headers, .. } => {
            for (name, value) in headers {
                global_redactor().replace_secret(&slot("header", name), "mcp-secret", value);
            }
        }
        ServerTransport::Stdio { env, .. } => {
            // A value such as `$NAME` refers to a variable of the shell and is not a secret itself.
            for (name, value) in env.iter().filter(|(_, value)| !value.starts_with('$')) {
                global_redactor().replace_variable(
                    &slot("variable", name),
                    "mcp-variable",
                    name,
                    value,
                );
            }
        }
    }
}

/// Values that must not appear in a server's error messages: token, headers, query values, environment.
fn session_secrets(server: &ServerSettings, credentials: &ServerCredentials) -> Vec<Secret> {
    let mut secrets: Vec<Secret> = credentials.bearer.iter().cloned().collect();
    secrets.extend(stdio::environment_secrets(&credentials.env));
    match &server.transport {
        ServerTransport::Http { url, headers, .. } => {
            secrets.extend(headers.iter().map(|(_, value)| Secret::new(value)));
            let query = url.split_once('?').map_or("", |(_, query)| query);
            let values = query.split('&').filter_map(|pair| pair.split_once('='));
            secrets.extend(values.map(|(_, value)| Secret::new(value)));
        }
        ServerTransport::Stdio { .. } => {}
    }
    secrets.retain(|s| s.expose().len() >= MIN_SECRET_BYTES);
    for (name, value) in &credentials.env {
        global_redactor().add_variable("mcp-variable", name, value.expose());
    }
    // `secrets` also holds the values of the environment, most of which are not secret.
    let variable = |s: &&Secret| credentials.env.iter().any(|(_, value)| value == *s);
    for secret in secrets.iter().filter(|s| !variable(s)) {
        global_redactor().add_secret("mcp-secret", secret.expose());
    }
    secrets
}

async fn connect(
    server: &ServerSettings,
    credentials: &ServerCredentials,
    shared: &PoolContext,
    mode: HandshakeMode,
    handler: &ServerMessageHandler,
    (stop, end): (&CancellationToken, &CancellationToken),
) -> Result<
    (
        RunningService<RoleClient, ServerMessageHandler>,
        Option<ExitReason>,
    ),
    ServerFault,
> {
    let limits = &shared.limits;
    match &server.transport {
        ServerTransport::Http { url, headers, .. } => {
            let bearer = credentials.bearer.as_ref();
            let secrets = handler.secrets().clone();
            let clients = &shared.clients;
            let transport = clients.transport(url, headers, bearer, secrets, end.clone())?;
            let limit = match server.lifecycle {
                HandshakeMode::Auto if mode == HandshakeMode::Auto => limits.http_discover,
                HandshakeMode::Auto => limits.http.saturating_sub(limits.http_discover),
                _ => limits.http,
            };
            let service = handshake(handler, transport, mode, limit, stop).await?;
            Ok((service, None))
        }
        ServerTransport::Stdio { .. } => {
            let transport = stdio::spawn(server, &credentials.env, handler.log_file())
                .map_err(|e| ServerFault::new(FaultKind::Unreachable, e.message))?;
            let exit_reason = transport.exit_reason();
            // The discovery attempt gets the full time limit: killing a launcher that is downloading its program could leave
            // half a download. A server that ignores `server/discover` costs the ten seconds that `rmcp` waits for it.
            match handshake(handler, transport, mode, limits.stdio, stop).await {
                Ok(service) => Ok((service, Some(exit_reason))),
                Err(_) if exit_reason.text().is_some() => {
                    Err(ServerFault::connection_ended(Some(&exit_reason)))
                }
                Err(fault) => Err(match exit_reason.last_error_line() {
                    Some(last_output) => ServerFault::new(
                        fault.kind,
                        format!("{}; last output: {last_output}", fault.message),
                    ),
                    None => fault,
                }),
            }
        }
    }
}

async fn handshake<T, E, A>(
    handler: &ServerMessageHandler,
    transport: T,
    mode: HandshakeMode,
    limit: Duration,
    stop: &CancellationToken,
) -> Result<RunningService<RoleClient, ServerMessageHandler>, ServerFault>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let mode = match mode {
        HandshakeMode::Auto => ClientLifecycleMode::Auto {
            preferred_versions: modern,
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
        HandshakeMode::Legacy => ClientLifecycleMode::Initialize,
        HandshakeMode::Modern => ClientLifecycleMode::Discover {
            preferred_versions: modern,
        },
    };
    let serve = serve_client_with_lifecycle_and_ct(handler.clone(), transport, mode, stop.clone());
    match timeout(limit, serve).await {
        Ok(served) => served.map_err(ServerFault::from),
        Err(_) => Err(ServerFault::bad_response("it does not answer")),
    }
}
