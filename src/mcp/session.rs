//! One session with a server, from its beginning to its last call.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, InputRequest,
    InputRequiredResult, InputResponses, ListToolsRequest, PaginatedRequestParams, ProtocolVersion,
    ServerResult,
};
use rmcp::service::{
    ClientLifecycleMode, Peer, PeerRequestOptions, RequestHandle, RoleClient, RunningService,
    ServiceError, serve_client_with_lifecycle_and_ct,
};
use rmcp::transport::IntoTransport;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::content;
use super::failure::{Fault, Kind, brief};
use super::handler::{Handler, Ticket};
use super::http::Clients;
use super::stdio::{self, EndNote};
use super::types::{CallEvent, Credentials};
use crate::chat::Tool;
use crate::config::mcp::{Lifecycle, Server, Transport};
use crate::safety::text::one_line;
use crate::secret::Secret;

/// How long a server may take to begin.
const BEGIN: Duration = Duration::from_secs(10);

/// How long a server may take to say whether it is a modern one.
const DISCOVER: Duration = Duration::from_secs(5);

/// A command may have to fetch its program first.
const BEGIN_STDIO: Duration = Duration::from_secs(60);

/// How long a server may take to say what tools it has, all pages together.
const LIST: Duration = Duration::from_secs(20);

/// The most tools of one server.
const MAX_TOOLS: usize = 10_000;

/// The most pages of a list: a server could give out cursors for ever.
const MAX_PAGES: usize = 1_000;

/// How often a server may ask back in one call.
pub(super) const MAX_ROUNDS: usize = 10;

/// How long a server is told that a call is cancelled.
const CANCEL: Duration = Duration::from_secs(5);

/// How long a session may take to end.
const CLOSE: Duration = Duration::from_secs(2);

/// Less than this is no secret that could be masked without damage.
const SECRET: usize = 6;

/// A server that is ready.
#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) peer: Peer<RoleClient>,
    pub(super) handler: Handler,
    pub(super) tools: Arc<[Tool]>,
    /// Its name and version.
    pub(super) version: Option<String>,
    pub(super) protocol: String,
    /// Tells the supervisor that the session is of no use any more.
    trouble: mpsc::Sender<Fault>,
    tasks: TaskTracker,
}

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
        match self.note.as_ref().and_then(EndNote::text) {
            Some(why) => Fault::lost(format!("it {why}")),
            None => Fault::lost("the connection has ended"),
        }
    }
}

/// The time that a call may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    limit: Duration,
    left: Duration,
}

impl Time {
    pub(super) fn new(limit: Duration) -> Time {
        Time { limit, left: limit }
    }

    fn take(&mut self, used: Duration) {
        self.left = self.left.saturating_sub(used);
    }
}

/// Why a request has no result.
#[derive(Debug)]
pub(super) enum Broken {
    Interrupted,
    Fault(Fault),
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Broken {
        Broken::Fault(fault)
    }
}

/// Connects to a server and asks what tools it has.
pub(super) async fn open(
    server: &Server,
    credentials: &Credentials,
    clients: &Clients,
    log: &Path,
    tasks: &TaskTracker,
) -> Result<Session, Fault> {
    let secrets = secrets(server, credentials);
    let modes: &[Lifecycle] = match server.lifecycle {
        // A server may break at a question that it does not know.
        Lifecycle::Auto => &[Lifecycle::Auto, Lifecycle::Legacy],
        Lifecycle::Legacy => &[Lifecycle::Legacy],
        Lifecycle::Modern => &[Lifecycle::Modern],
    };
    let mut last = Fault::answer("it was not tried");
    for &mode in modes {
        let end = CancellationToken::new();
        let handler = Handler::new(&server.alias, secrets.clone(), end.clone());
        let stop = CancellationToken::new();
        let tokens = (&stop, &end);
        let begun = begin(server, credentials, clients, log, mode, &handler, tokens);
        let (service, note) = match begun.await {
            Ok(begun) => begun,
            Err(fault) => {
                end.cancel();
                last = fault.masked(&secrets);
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
                return Err(fault.masked(&secrets));
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
    secrets.extend(credentials.env.iter().map(|(_, value)| value.clone()));
    match &server.transport {
        Transport::Http { headers, .. } => {
            secrets.extend(headers.iter().map(|(_, value)| Secret::new(value)));
        }
        Transport::Stdio { .. } => {}
    }
    secrets.retain(|s| s.expose().len() >= SECRET);
    secrets
}

async fn begin(
    server: &Server,
    credentials: &Credentials,
    clients: &Clients,
    log: &Path,
    mode: Lifecycle,
    handler: &Handler,
    (stop, end): (&CancellationToken, &CancellationToken),
) -> Result<(RunningService<RoleClient, Handler>, Option<EndNote>), Fault> {
    match &server.transport {
        Transport::Http { url, headers, .. } => {
            let bearer = credentials.bearer.as_ref();
            let transport = clients.transport(url, headers, bearer, end.clone())?;
            let limit = match server.lifecycle {
                Lifecycle::Auto if mode == Lifecycle::Auto => DISCOVER,
                Lifecycle::Auto => BEGIN - DISCOVER,
                _ => BEGIN,
            };
            let service = serve(handler, transport, mode, limit, stop).await?;
            Ok((service, None))
        }
        Transport::Stdio { .. } => {
            let log = log.join(format!("mcp-{}.log", server.alias));
            let transport = stdio::spawn(server, &credentials.env, &log)
                .map_err(|e| Fault::new(Kind::Away, e.message))?;
            let note = transport.end_note();
            let served = serve(handler, transport, mode, BEGIN_STDIO, stop).await;
            match (served, note.text()) {
                (Ok(service), _) => Ok((service, Some(note))),
                (Err(_), Some(why)) => Err(Fault::lost(format!("it {why}"))),
                (Err(fault), None) => Err(fault),
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

impl Live {
    /// The server's tools: those that the configuration allows, each name once.
    pub(super) async fn list(&self, server: &Server) -> Result<Arc<[Tool]>, Fault> {
        let listed = match timeout(LIST, self.pages()).await {
            Ok(listed) => listed?,
            Err(_) => return Err(Fault::answer("it does not say what tools it has")),
        };
        let alias = &server.alias;
        let mut names = HashSet::new();
        let mut tools = Vec::new();
        for tool in &listed {
            if let Some(allowed) = &server.tools
                && !allowed.iter().any(|a| *a == tool.name)
            {
                continue;
            }
            if !names.insert(&tool.name) {
                let name = one_line(&tool.name, 128);
                tracing::warn!("mcp {alias}: a second tool {name} is left out");
                continue;
            }
            tools.extend(content::tool(server, tool));
        }
        Ok(tools.into())
    }

    async fn pages(&self) -> Result<Vec<rmcp::model::Tool>, Fault> {
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let request = ListToolsRequest {
                params: page_at(&cursor),
                ..ListToolsRequest::default()
            };
            let sent = self.send(ClientRequest::ListToolsRequest(request)).await?;
            let next = match sent.rx.await {
                Ok(Ok(ServerResult::ListToolsResult(page))) => {
                    tools.extend(page.tools);
                    page.next_cursor
                }
                // One tool that is none must not cost the others.
                Ok(Ok(ServerResult::CustomResult(page))) => lenient(page.0, &mut tools)?,
                Ok(Err(ServiceError::McpError(e)))
                    if e.code == ErrorCode::METHOD_NOT_FOUND && tools.is_empty() =>
                {
                    None
                }
                Ok(Err(e)) => return Err(self.fault(e)),
                Ok(Ok(_)) => return Err(ServiceError::UnexpectedResponse.into()),
                Err(_) => return Err(self.fault(ServiceError::TransportClosed)),
            };
            if tools.len() > MAX_TOOLS {
                tracing::warn!("mcp: of {} tools, {MAX_TOOLS} are offered", tools.len());
                tools.truncate(MAX_TOOLS);
                break;
            }
            // The same place again would lead round for ever.
            if next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        Ok(tools)
    }

    async fn send(&self, request: ClientRequest) -> Result<RequestHandle<RoleClient>, Fault> {
        let options = PeerRequestOptions::no_options();
        let sent = self.peer.send_request_with_option(request, options).await;
        sent.map_err(|e| self.fault(e))
    }

    /// What an error means, and whether the session is of use after it.
    fn fault(&self, error: ServiceError) -> Fault {
        let fault = match error {
            // `rmcp` has one word for a stream that ends and for a session that ends.
            ServiceError::TransportClosed if !self.peer.is_transport_closed() => {
                Fault::answer("its answer broke off")
            }
            error => Fault::from(error),
        };
        let fault = fault.masked(self.handler.secrets());
        if fault.kind != Kind::Answer {
            // One is enough.
            let _ = self.trouble.try_send(fault.clone());
        }
        fault
    }

    /// Sends a request and waits for its result, for as long as there is time; a person who is asked
    /// meanwhile takes none of it.
    pub(super) async fn request(
        &self,
        request: ClientRequest,
        ticket: &mut Ticket,
        time: &mut Time,
        cancel: &CancellationToken,
    ) -> Result<ServerResult, Broken> {
        let mut sent = self.send(request).await?;
        ticket.sent(&sent.id, &sent.progress_token);
        loop {
            let asking = *ticket.asking.borrow_and_update() > 0;
            let begun = Instant::now();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    self.abandon(sent, "the person stopped it");
                    return Err(Broken::Interrupted);
                }
                result = &mut sent.rx => {
                    if !asking {
                        time.take(begun.elapsed());
                    }
                    let result = result.unwrap_or(Err(ServiceError::TransportClosed));
                    return Ok(result.map_err(|e| self.fault(e))?);
                }
                () = sleep(time.left), if !asking => {
                    self.abandon(sent, "it took too long");
                    let line = format!("no answer within {} s", time.limit.as_secs_f32());
                    return Err(Fault::answer(line).into());
                }
                _ = ticket.asking.changed() => {
                    if !asking {
                        time.take(begun.elapsed());
                    }
                }
            }
        }
    }

    /// Tells the server that nobody waits any more, and does not wait for that.
    fn abandon(&self, sent: RequestHandle<RoleClient>, why: &'static str) {
        self.tasks.spawn(async move {
            // A server that does not listen goes on; there is no more to be done about it.
            let _ = timeout(CANCEL, sent.cancel(Some(why.into()))).await;
        });
    }

    /// Calls a tool; what the server asks the person meanwhile goes to `events`.
    pub(super) async fn call(
        &self,
        mut params: CallToolRequestParams,
        limit: Duration,
        events: &mpsc::Sender<CallEvent>,
        cancel: &CancellationToken,
    ) -> Result<CallToolResult, Broken> {
        let mut ticket = self.handler.begin(events);
        let mut time = Time::new(limit);
        for _ in 0..MAX_ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            match self
                .request(request, &mut ticket, &mut time, cancel)
                .await?
            {
                ServerResult::CallToolResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(asked) => {
                    let (responses, state) = self.input(asked, &ticket, cancel).await?;
                    params.input_responses = responses;
                    params.request_state = state;
                }
                _ => return Err(self.fault(ServiceError::UnexpectedResponse).into()),
            }
        }
        Err(Fault::answer("it asked back too often").into())
    }

    /// Answers what a server wants to know before it goes on (2026-07-28).
    pub(super) async fn input(
        &self,
        asked: InputRequiredResult,
        ticket: &Ticket,
        cancel: &CancellationToken,
    ) -> Result<(Option<InputResponses>, Option<String>), Broken> {
        let mut responses = InputResponses::new();
        for (key, request) in asked.input_requests.unwrap_or_default() {
            let InputRequest::Elicitation(request) = request else {
                return Err(Fault::answer("it asks for something that aish does not do").into());
            };
            let answer = tokio::select! {
                () = cancel.cancelled() => return Err(Broken::Interrupted),
                answer = ticket.ask(request.params) => answer,
            };
            let answer = serde_json::to_value(answer)
                .map_err(|e| Fault::answer(format!("the answer cannot be sent: {e}")))?;
            responses.insert(key, answer);
        }
        if responses.is_empty() {
            // It only wants to be asked again.
            tokio::select! {
                () = cancel.cancelled() => return Err(Broken::Interrupted),
                () = sleep(Duration::from_millis(200)) => {}
            }
        }
        Ok((
            (!responses.is_empty()).then_some(responses),
            asked.request_state,
        ))
    }
}

/// The parameters of the first page (none), or of the one at a cursor.
pub(super) fn page_at(cursor: &Option<String>) -> Option<PaginatedRequestParams> {
    let at = cursor.clone()?;
    Some(PaginatedRequestParams::default().with_cursor(Some(at)))
}

/// Takes what is right of a page of which something is not; gives the next cursor.
fn lenient(
    page: serde_json::Value,
    tools: &mut Vec<rmcp::model::Tool>,
) -> Result<Option<String>, Fault> {
    let Some(listed) = page.get("tools").and_then(|t| t.as_array()) else {
        return Err(ServiceError::UnexpectedResponse.into());
    };
    for tool in listed {
        if let Ok(tool) = serde_json::from_value(tool.clone()) {
            tools.push(tool);
            continue;
        }
        let text = |key: &str| Some(tool.get(key)?.as_str()?.to_owned());
        let Some(name) = text("name") else {
            tracing::warn!("mcp: a tool without a name is left out");
            continue;
        };
        let schema = tool.get("inputSchema").and_then(|s| s.as_object());
        let description = text("description").map(Into::into);
        let schema = Arc::new(schema.cloned().unwrap_or_default());
        tools.push(rmcp::model::Tool::new_with_raw(name, description, schema));
    }
    Ok(page
        .get("nextCursor")
        .and_then(|c| c.as_str())
        .map(str::to_owned))
}
