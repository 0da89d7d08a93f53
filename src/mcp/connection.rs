//! Requests to a server that is ready: list its tools, call them, answer the server's questions during a call.

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
use super::failure::{FaultKind, ServerFault};
use super::message_handler::{CallRegistration, ServerMessageHandler};
use super::stdio::ExitReason;
use crate::chat::ToolDefinition;
use crate::config::mcp::ServerSettings;
use crate::tools::source::CallEvent;

/// Time limit for the tool list, over all pages.
const LIST_TIME_LIMIT: Duration = Duration::from_secs(20);

/// Maximum number of tools of one server.
const MAX_TOOLS: usize = 10_000;

/// Maximum size of one server's tools as JSON, in bytes. The list must fit in one protocol frame to a client.
const MAX_CATALOG_BYTES: usize = 8 << 20;

/// Maximum number of pages of a list; a server could return a new cursor forever.
const MAX_PAGES: usize = 1_000;

/// Maximum number of times a server may ask for input in one call.
pub(super) const MAX_INPUT_ROUNDS: usize = 10;

/// Time limit for delivering a cancellation to the server.
const CANCEL_TIME_LIMIT: Duration = Duration::from_secs(5);

/// A connected server with its tool list.
#[derive(Debug, Clone)]
pub(super) struct ReadyServer {
    pub(super) peer: Peer<RoleClient>,
    pub(super) handler: ServerMessageHandler,
    pub(super) tools: Arc<[ToolDefinition]>,
    /// Name and version that the server reports.
    pub(super) version: Option<String>,
    pub(super) protocol: String,
    /// Reports to the supervisor that the session is unusable.
    pub(super) fault_sender: mpsc::Sender<ServerFault>,
    /// Exit reason of a child process.
    pub(super) exit_reason: Option<ExitReason>,
    pub(super) tasks: TaskTracker,
}

/// Time limit of a call, and the time left.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeBudget {
    limit: Duration,
    left: Duration,
}

impl TimeBudget {
    pub(super) fn new(limit: Duration) -> TimeBudget {
        TimeBudget { limit, left: limit }
    }

    fn spend(&mut self, used: Duration) {
        self.left = self.left.saturating_sub(used);
    }
}

/// Reason why a request has no result.
#[derive(Debug)]
pub(super) enum RequestError {
    Interrupted,
    Failed(ServerFault),
}

impl From<ServerFault> for RequestError {
    fn from(fault: ServerFault) -> RequestError {
        RequestError::Failed(fault)
    }
}

impl ReadyServer {
    /// Fetches the tool list (`tools/list`), without the tools that the configuration excludes and without duplicates.
    pub(super) async fn list_tools(
        &self,
        server: &ServerSettings,
    ) -> Result<Arc<[ToolDefinition]>, ServerFault> {
        let mut tool_list = ToolListBuilder::new(server);
        match timeout(LIST_TIME_LIMIT, self.fetch_pages(&mut tool_list)).await {
            Ok(done) => done?,
            Err(_) => {
                return Err(ServerFault::bad_response(
                    "it did not list its tools in time",
                ));
            }
        }
        Ok(tool_list.finish())
    }

    async fn fetch_pages(&self, tool_list: &mut ToolListBuilder<'_>) -> Result<(), ServerFault> {
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let request = ListToolsRequest {
                params: page_params(&cursor),
                ..ListToolsRequest::default()
            };
            let sent = self.send(ClientRequest::ListToolsRequest(request)).await?;
            let next = match sent.rx.await {
                Ok(Ok(ServerResult::ListToolsResult(page))) => {
                    page.tools.iter().for_each(|tool| tool_list.add(tool));
                    page.next_cursor
                }
                // One malformed tool must not hide the valid ones.
                Ok(Ok(ServerResult::CustomResult(page))) => add_valid_tools(&page.0, tool_list)?,
                Ok(Err(ServiceError::McpError(e)))
                    if e.code == ErrorCode::METHOD_NOT_FOUND && tool_list.tools.is_empty() =>
                {
                    None
                }
                Ok(Err(e)) => return Err(self.report_fault(e)),
                Ok(Ok(_)) => return Err(ServiceError::UnexpectedResponse.into()),
                Err(_) => return Err(self.report_fault(ServiceError::TransportClosed)),
            };
            // A repeated cursor would loop.
            if tool_list.full || next.is_none() || next == cursor {
                break;
            }
            cursor = next;
        }
        Ok(())
    }

    async fn send(&self, request: ClientRequest) -> Result<RequestHandle<RoleClient>, ServerFault> {
        let options = PeerRequestOptions::no_options();
        let sent = self.peer.send_request_with_option(request, options).await;
        sent.map_err(|e| self.report_fault(e))
    }

    /// Converts an `rmcp` error and reports it to the supervisor when the session is unusable.
    fn report_fault(&self, error: ServiceError) -> ServerFault {
        let fault = match error {
            // `rmcp` uses this error both for one stream that ends and for the whole session.
            ServiceError::TransportClosed if !self.peer.is_transport_closed() => {
                ServerFault::bad_response("its answer was cut off")
            }
            ServiceError::TransportClosed => {
                ServerFault::connection_ended(self.exit_reason.as_ref())
            }
            // A child that no longer reads its input has exited or is about to.
            ServiceError::TransportSend(_) if self.exit_reason.is_some() => {
                ServerFault::connection_ended(self.exit_reason.as_ref())
            }
            error => ServerFault::from(error),
        };
        let fault = self.handler.secrets().mask_fault(fault);
        if fault.kind != FaultKind::BadResponse {
            // The supervisor needs only the first fault; the channel may be full.
            let _ = self.fault_sender.try_send(fault.clone());
        }
        fault
    }

    /// Sends a request and waits for its result. Time spent waiting for a person's answer does not count against `time`.
    pub(super) async fn request(
        &self,
        request: ClientRequest,
        registration: &mut CallRegistration,
        time: &mut TimeBudget,
        cancel: &CancellationToken,
    ) -> Result<ServerResult, RequestError> {
        let mut sent = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(RequestError::Interrupted),
            sent = self.send(request) => sent?,
        };
        registration.request_sent(&sent.id, &sent.progress_token);
        loop {
            let waiting_for_person = *registration.open_questions.borrow_and_update() > 0;
            let started = Instant::now();
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    self.cancel_request(sent, "cancelled by the user");
                    return Err(RequestError::Interrupted);
                }
                result = &mut sent.rx => {
                    if !waiting_for_person {
                        time.spend(started.elapsed());
                    }
                    let result = result.unwrap_or(Err(ServiceError::TransportClosed));
                    return Ok(result.map_err(|e| self.report_fault(e))?);
                }
                _ = registration.open_questions.changed() => {
                    if !waiting_for_person {
                        time.spend(started.elapsed());
                    }
                }
                () = sleep(time.left), if !waiting_for_person => {
                    self.cancel_request(sent, "time limit reached");
                    let line = format!("no answer within {} s", time.limit.as_secs_f32());
                    return Err(ServerFault::bad_response(line).into());
                }
            }
        }
    }

    /// Sends `notifications/cancelled` for a request, in the background.
    fn cancel_request(&self, sent: RequestHandle<RoleClient>, reason: &'static str) {
        self.tasks.spawn(async move {
            // The notification is best effort: a server may continue regardless.
            let _ = timeout(CANCEL_TIME_LIMIT, sent.cancel(Some(reason.into()))).await;
        });
    }

    /// Calls a tool. Progress and questions to the person go to `events`.
    pub(super) async fn call(
        &self,
        mut params: CallToolRequestParams,
        limit: Duration,
        events: &mpsc::Sender<CallEvent>,
        cancel: &CancellationToken,
    ) -> Result<CallToolResult, RequestError> {
        let mut registration = self.handler.register_call(events);
        let mut time = TimeBudget::new(limit);
        for _ in 0..MAX_INPUT_ROUNDS {
            let request = ClientRequest::CallToolRequest(CallToolRequest::new(params.clone()));
            match self
                .request(request, &mut registration, &mut time, cancel)
                .await?
            {
                ServerResult::CallToolResult(result) => return Ok(result),
                ServerResult::InputRequiredResult(input_required) => {
                    let (responses, state) = self
                        .answer_input_requests(input_required, &registration, cancel)
                        .await?;
                    params.input_responses = responses;
                    params.request_state = state;
                }
                _ => return Err(self.report_fault(ServiceError::UnexpectedResponse).into()),
            }
        }
        Err(ServerFault::bad_response("it asked for input too often").into())
    }

    /// Answers the `inputRequests` of a result, so that the request can be sent again (2026-07-28).
    pub(super) async fn answer_input_requests(
        &self,
        input_required: InputRequiredResult,
        registration: &CallRegistration,
        cancel: &CancellationToken,
    ) -> Result<(Option<InputResponses>, Option<String>), RequestError> {
        let mut responses = InputResponses::new();
        for (key, request) in input_required.input_requests.unwrap_or_default() {
            let InputRequest::Elicitation(request) = request else {
                return Err(ServerFault::bad_response(
                    "it asks for input that aish does not support",
                )
                .into());
            };
            let answer = tokio::select! {
                () = cancel.cancelled() => return Err(RequestError::Interrupted),
                answer = registration.elicit(request.params) => answer,
            };
            let answer = serde_json::to_value(answer).map_err(|e| {
                ServerFault::bad_response(format!("the answer cannot be sent: {e}"))
            })?;
            responses.insert(key, answer);
        }
        if responses.is_empty() {
            // An empty list means: send the same request again. The pause bounds the loop.
            tokio::select! {
                () = cancel.cancelled() => return Err(RequestError::Interrupted),
                () = sleep(Duration::from_millis(200)) => {}
            }
        }
        Ok((
            (!responses.is_empty()).then_some(responses),
            input_required.request_state,
        ))
    }
}

/// Parameters for the page at `cursor`; `None` for the first page.
pub(super) fn page_params(cursor: &Option<String>) -> Option<PaginatedRequestParams> {
    let at = cursor.clone()?;
    Some(PaginatedRequestParams::default().with_cursor(Some(at)))
}

/// Adds the valid tools of a page that failed to parse as a whole, and returns the next cursor.
fn add_valid_tools(
    page: &serde_json::Value,
    tool_list: &mut ToolListBuilder<'_>,
) -> Result<Option<String>, ServerFault> {
    let Some(tools) = page.get("tools").and_then(|t| t.as_array()) else {
        return Err(ServiceError::UnexpectedResponse.into());
    };
    for tool in tools {
        if let Ok(tool) = rmcp::model::Tool::deserialize(tool) {
            tool_list.add(&tool);
            continue;
        }
        let text = |key: &str| Some(tool.get(key)?.as_str()?.to_owned());
        // The empty name is rejected and counted by `add`.
        let name = text("name").unwrap_or_default();
        let schema = tool.get("inputSchema").and_then(|s| s.as_object());
        let description = text("description").map(Into::into);
        let schema = Arc::new(schema.cloned().unwrap_or_default());
        tool_list.add(&rmcp::model::Tool::new_with_raw(name, description, schema));
    }
    Ok(page
        .get("nextCursor")
        .and_then(|c| c.as_str())
        .map(str::to_owned))
}

/// Collects the tools of a server page by page, and logs one summary line for all that were rejected.
struct ToolListBuilder<'a> {
    server: &'a ServerSettings,
    tools: Vec<ToolDefinition>,
    names: HashSet<String>,
    /// Size of the tools as JSON.
    bytes: usize,
    /// A limit was reached; further tools are ignored.
    full: bool,
    left_out: usize,
}

impl ToolListBuilder<'_> {
    fn new(server: &ServerSettings) -> ToolListBuilder<'_> {
        ToolListBuilder {
            server,
            tools: Vec::new(),
            names: HashSet::new(),
            bytes: 0,
            full: false,
            left_out: 0,
        }
    }

    /// Adds a tool unless the configuration excludes it or its name is invalid or taken.
    fn add(&mut self, tool: &rmcp::model::Tool) {
        let allowed = self.server.tools.as_ref();
        if self.full || allowed.is_some_and(|names| !names.iter().any(|n| *n == tool.name)) {
            return;
        }
        let new = !self.names.contains(&*tool.name);
        let Some(tool) = content::convert_tool(self.server, tool).filter(|_| new) else {
            self.left_out += 1;
            return;
        };
        let bytes = self.bytes + content::tool_size(&tool);
        if self.tools.len() == MAX_TOOLS || bytes > MAX_CATALOG_BYTES {
            self.full = true;
            return;
        }
        self.bytes = bytes;
        self.names.insert(tool.tool.clone());
        self.tools.push(tool);
    }

    fn finish(self) -> Arc<[ToolDefinition]> {
        let (alias, count) = (&self.server.alias, self.left_out);
        if count > 0 {
            tracing::warn!("mcp {alias}: left out {count} tools with an invalid or duplicate name");
        }
        if self.full {
            let count = self.tools.len();
            tracing::warn!("mcp {alias}: only the first {count} tools are used");
        }
        self.tools.into()
    }
}
