//! What is done with a server that is ready: its tools are listed, and called.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorCode, InputRequest,
    InputRequiredResult, InputResponses, ListToolsRequest, PaginatedRequestParams, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RoleClient, ServiceError};
use serde::Deserialize as _;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::content;
use super::failure::{Fault, Kind};
use super::handler::{Handler, Ticket};
use super::stdio::EndNote;
use super::types::CallEvent;
use crate::chat::Tool;
use crate::config::mcp::Server;

/// How long a server may take to say what tools it has, all pages together.
const LIST: Duration = Duration::from_secs(20);

/// The most tools of one server.
const MAX_TOOLS: usize = 10_000;

/// The most that the tools of one server take in JSON. A model takes far less, and the list of a server has to fit
/// in a frame to a client.
const MAX_CATALOG: usize = 8 << 20;

/// The most pages of a list: a server could give out cursors for ever.
const MAX_PAGES: usize = 1_000;

/// How often a server may ask back in one call.
pub(super) const MAX_ROUNDS: usize = 10;

/// How long a server is told that a call is cancelled.
const CANCEL: Duration = Duration::from_secs(5);

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
    pub(super) trouble: mpsc::Sender<Fault>,
    /// Why a child has ended.
    pub(super) note: Option<EndNote>,
    pub(super) tasks: TaskTracker,
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

impl Live {
    /// The server's tools: those that the configuration allows, each name once.
    pub(super) async fn list(&self, server: &Server) -> Result<Arc<[Tool]>, Fault> {
        let mut listed = Listed::new(server);
        match timeout(LIST, self.pages(&mut listed)).await {
            Ok(done) => done?,
            Err(_) => return Err(Fault::answer("it does not say what tools it has")),
        }
        Ok(listed.end())
    }

    async fn pages(&self, listed: &mut Listed<'_>) -> Result<(), Fault> {
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let request = ListToolsRequest {
                params: page_at(&cursor),
                ..ListToolsRequest::default()
            };
            let sent = self.send(ClientRequest::ListToolsRequest(request)).await?;
            let next = match sent.rx.await {
                Ok(Ok(ServerResult::ListToolsResult(page))) => {
                    page.tools.iter().for_each(|tool| listed.add(tool));
                    page.next_cursor
                }
                // One tool that is none must not cost the others.
                Ok(Ok(ServerResult::CustomResult(page))) => lenient(&page.0, listed)?,
                Ok(Err(ServiceError::McpError(e)))
                    if e.code == ErrorCode::METHOD_NOT_FOUND && listed.tools.is_empty() =>
                {
                    None
                }
                Ok(Err(e)) => return Err(self.fault(e)),
                Ok(Ok(_)) => return Err(ServiceError::UnexpectedResponse.into()),
                Err(_) => return Err(self.fault(ServiceError::TransportClosed)),
            };
            // The same place again would lead round for ever.
            if listed.full || next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        Ok(())
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
            ServiceError::TransportClosed => Fault::ended(self.note.as_ref()),
            // A child that does not read any more has ended, or is about to.
            ServiceError::TransportSend(_) if self.note.is_some() => {
                Fault::ended(self.note.as_ref())
            }
            error => Fault::from(error),
        };
        let fault = self.handler.secrets().masked(fault);
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
        let mut sent = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(Broken::Interrupted),
            sent = self.send(request) => sent?,
        };
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
fn lenient(page: &serde_json::Value, listed: &mut Listed<'_>) -> Result<Option<String>, Fault> {
    let Some(tools) = page.get("tools").and_then(|t| t.as_array()) else {
        return Err(ServiceError::UnexpectedResponse.into());
    };
    for tool in tools {
        if let Ok(tool) = rmcp::model::Tool::deserialize(tool) {
            listed.add(&tool);
            continue;
        }
        let text = |key: &str| Some(tool.get(key)?.as_str()?.to_owned());
        // One without a name is left out as one that cannot be named.
        let name = text("name").unwrap_or_default();
        let schema = tool.get("inputSchema").and_then(|s| s.as_object());
        let description = text("description").map(Into::into);
        let schema = Arc::new(schema.cloned().unwrap_or_default());
        listed.add(&rmcp::model::Tool::new_with_raw(name, description, schema));
    }
    Ok(page
        .get("nextCursor")
        .and_then(|c| c.as_str())
        .map(str::to_owned))
}

/// The tools of a server as its pages come: no page is kept, and a line of the log stands for all that is left out.
struct Listed<'a> {
    server: &'a Server,
    tools: Vec<Tool>,
    names: HashSet<String>,
    /// What the tools take in JSON.
    bytes: usize,
    /// There is no room for more.
    full: bool,
    left_out: usize,
}

impl Listed<'_> {
    fn new(server: &Server) -> Listed<'_> {
        Listed {
            server,
            tools: Vec::new(),
            names: HashSet::new(),
            bytes: 0,
            full: false,
            left_out: 0,
        }
    }

    /// Adds a tool that the configuration allows, whose name is one and is new.
    fn add(&mut self, tool: &rmcp::model::Tool) {
        let allowed = self.server.tools.as_ref();
        if self.full || allowed.is_some_and(|names| !names.iter().any(|n| *n == tool.name)) {
            return;
        }
        let new = !self.names.contains(&*tool.name);
        let Some(tool) = content::tool(self.server, tool).filter(|_| new) else {
            self.left_out += 1;
            return;
        };
        let bytes = self.bytes + content::size_of(&tool);
        if self.tools.len() == MAX_TOOLS || bytes > MAX_CATALOG {
            self.full = true;
            return;
        }
        self.bytes = bytes;
        self.names.insert(tool.tool.clone());
        self.tools.push(tool);
    }

    fn end(self) -> Arc<[Tool]> {
        let (alias, count) = (&self.server.alias, self.left_out);
        if count > 0 {
            tracing::warn!("mcp {alias}: left out {count} tools: no usable name, or one twice");
        }
        if self.full {
            let count = self.tools.len();
            tracing::warn!("mcp {alias}: only the first {count} tools are offered");
        }
        self.tools.into()
    }
}
