//! Requests and notifications from a server: elicitation, progress, log messages, tool list changes.

#![expect(
    deprecated,
    reason = "the protocol still has log messages, which are recorded, and roots, which are declined"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, ErrorData, FormElicitationCapability, Implementation,
    ListRootsRequestMethod, ListRootsResult, LoggingMessageNotificationParam,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId, UrlElicitationCapability,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::content::truncate;
use super::excerpt::excerpt;
use super::mask::SecretMask;
use super::stdio::ServerLog;
use crate::safety::text::one_line;
use crate::tools::source::{CallEvent, ElicitationRequest, ElicitationResponse};

/// Maximum size in bytes of a question's text or URL; a person has to read it.
const MAX_QUESTION_BYTES: usize = 8 << 10;

/// Maximum size in bytes of a form's schema. A form with all the supported fields and choices fits.
const MAX_FORM_BYTES: usize = 64 << 10;

/// A running call.
#[derive(Debug)]
struct ActiveCall {
    id: u64,
    request: Option<RequestId>,
    progress: Option<ProgressToken>,
    events: mpsc::Sender<CallEvent>,
    /// Number of open questions to the person.
    open_questions: watch::Sender<usize>,
}

/// Handler of one session. Routes each server message to the call, and so to the person, that it belongs to.
#[derive(Debug, Clone)]
pub(super) struct ServerMessageHandler(Arc<HandlerState>);

#[derive(Debug)]
struct HandlerState {
    alias: String,
    secrets: SecretMask,
    active_calls: Mutex<(u64, Vec<ActiveCall>)>,
    tools_changed: Notify,
    log_file: PathBuf,
    /// Opened at the first line: most servers send no log messages.
    log: OnceLock<ServerLog>,
    end: CancellationToken,
}

/// Registration of a running call; dropping it removes the call.
#[derive(Debug)]
pub(super) struct CallRegistration {
    handler: ServerMessageHandler,
    id: u64,
    /// Number of open questions to the person.
    pub(super) open_questions: watch::Receiver<usize>,
}

impl Drop for CallRegistration {
    fn drop(&mut self) {
        self.handler.lock().1.retain(|r| r.id != self.id);
    }
}

impl CallRegistration {
    /// Sets the request id and progress token of the request now sent for this call.
    pub(super) fn request_sent(&self, request: &RequestId, progress: &ProgressToken) {
        let mut active_calls = self.handler.lock();
        if let Some(r) = active_calls.1.iter_mut().find(|r| r.id == self.id) {
            r.request = Some(request.clone());
            r.progress = Some(progress.clone());
        }
    }

    /// Asks the person who started this call.
    pub(super) async fn elicit(&self, params: ElicitRequestParams) -> ElicitResult {
        let found = self.handler.find_call(|r| r.id == self.id);
        self.handler.elicit(found, params).await
    }
}

impl ServerMessageHandler {
    /// Creates the handler for server `alias`; its log messages are appended to `log_file`.
    pub(super) fn new(
        alias: &str,
        secrets: SecretMask,
        log_file: PathBuf,
        end: CancellationToken,
    ) -> ServerMessageHandler {
        ServerMessageHandler(Arc::new(HandlerState {
            alias: alias.to_owned(),
            secrets,
            active_calls: Mutex::default(),
            tools_changed: Notify::new(),
            log_file,
            log: OnceLock::new(),
            end,
        }))
    }

    /// Registers a call; `events` receives its progress and questions.
    pub(super) fn register_call(&self, events: &mpsc::Sender<CallEvent>) -> CallRegistration {
        let (sender, open_questions) = watch::channel(0);
        let mut active_calls = self.lock();
        active_calls.0 += 1;
        let id = active_calls.0;
        active_calls.1.push(ActiveCall {
            id,
            request: None,
            progress: None,
            events: events.clone(),
            open_questions: sender,
        });
        drop(active_calls);
        CallRegistration {
            handler: self.clone(),
            id,
            open_questions,
        }
    }

    /// Waits for a change of the tool list since the last call of this method.
    pub(super) async fn wait_for_tools_changed(&self) {
        self.0.tools_changed.notified().await;
    }

    /// Records that the tool list has changed.
    pub(super) fn note_tools_changed(&self) {
        self.0.tools_changed.notify_one();
    }

    /// File for log messages and stderr of the server.
    pub(super) fn log_file(&self) -> &Path {
        &self.0.log_file
    }

    pub(super) fn secrets(&self) -> &SecretMask {
        &self.0.secrets
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Vec<ActiveCall>)> {
        let active_calls = &self.0.active_calls;
        active_calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find_call(&self, is: impl Fn(&ActiveCall) -> bool) -> Option<QuestionTarget> {
        let active_calls = self.lock();
        active_calls
            .1
            .iter()
            .find(|r| is(r))
            .map(QuestionTarget::of)
    }

    /// Finds the call a server request belongs to: by the stream it came on, or the only running call if the transport
    /// has a single stream.
    fn call_for_request(&self, context: &RequestContext<RoleClient>) -> Option<QuestionTarget> {
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = context.extensions.get() {
            // The call may have ended, and the only other one may belong to another person.
            return self.find_call(|r| r.request.as_ref() == Some(id));
        }
        match &self.lock().1[..] {
            [only] => Some(QuestionTarget::of(only)),
            _ => None,
        }
    }

    async fn elicit(
        &self,
        target: Option<QuestionTarget>,
        params: ElicitRequestParams,
    ) -> ElicitResult {
        let Some(target) = target else {
            return ElicitResult::new(ElicitationAction::Decline);
        };
        let (message, schema, url) = match params {
            ElicitRequestParams::FormElicitationParams {
                message,
                requested_schema,
                ..
            } => (message, serde_json::to_value(requested_schema).ok(), None),
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                (message, None, Some(url))
            }
            _ => return ElicitResult::new(ElicitationAction::Decline),
        };
        // A truncated form or URL would mean something else.
        let bytes = schema.as_ref().map_or(0, |s| s.to_string().len());
        if bytes > MAX_FORM_BYTES || url.as_ref().is_some_and(|u| u.len() > MAX_QUESTION_BYTES) {
            let alias = &self.0.alias;
            tracing::info!("mcp {alias}: declined a question that is too large to show");
            return ElicitResult::new(ElicitationAction::Decline);
        }
        let elicit = ElicitationRequest {
            server: self.0.alias.clone(),
            message: truncate(message, MAX_QUESTION_BYTES),
            schema,
            url,
        };
        let (reply, replied) = oneshot::channel();
        let _open = OpenQuestionGuard::new(target.open_questions);
        let event = CallEvent::Elicit(elicit, reply);
        let answer = async {
            target.events.send(event).await.ok()?;
            replied.await.ok()
        };
        let answer = tokio::select! {
            () = self.0.end.cancelled() => None,
            answer = answer => answer,
        };
        match answer {
            Some(ElicitationResponse::Accept(content)) => {
                let mut result = ElicitResult::new(ElicitationAction::Accept);
                // Only the values that the person saw and confirmed.
                result.content = content;
                result
            }
            Some(ElicitationResponse::Decline) => ElicitResult::new(ElicitationAction::Decline),
            Some(ElicitationResponse::Cancel) | None => {
                ElicitResult::new(ElicitationAction::Cancel)
            }
        }
    }
}

/// Channel to the person who started a call.
#[derive(Debug)]
struct QuestionTarget {
    events: mpsc::Sender<CallEvent>,
    open_questions: watch::Sender<usize>,
}

impl QuestionTarget {
    fn of(call: &ActiveCall) -> QuestionTarget {
        QuestionTarget {
            events: call.events.clone(),
            open_questions: call.open_questions.clone(),
        }
    }
}

/// Counts a question as open until dropped.
struct OpenQuestionGuard(watch::Sender<usize>);

impl OpenQuestionGuard {
    fn new(open_questions: watch::Sender<usize>) -> OpenQuestionGuard {
        open_questions.send_modify(|n| *n += 1);
        OpenQuestionGuard(open_questions)
    }
}

impl Drop for OpenQuestionGuard {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

impl ClientHandler for ServerMessageHandler {
    fn get_info(&self) -> ClientConfig {
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        let me = Implementation::new("aish", env!("CARGO_PKG_VERSION"));
        let mut info = ClientConfig::new(capabilities, me);
        // Highest version with an `initialize` handshake. The default is newer, and legacy servers reject it.
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let withdrawn = context.ct.clone();
        let target = self.call_for_request(&context);
        tokio::select! {
            () = withdrawn.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            result = self.elicit(target, request) => Ok(result),
        }
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListRootsRequestMethod>())
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let token = &params.progress_token;
        let Some(call) = self.find_call(|r| r.progress.as_ref() == Some(token)) else {
            return;
        };
        let line = match (params.message, params.total) {
            (Some(message), _) if !message.trim().is_empty() => excerpt(&message),
            (_, Some(total)) => format!("{}/{total}", params.progress),
            _ => params.progress.to_string(),
        };
        // Progress is dropped when the channel is full: the next message replaces it.
        let _ = call.events.try_send(CallEvent::Progress(line));
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let data = match params.data {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let text = one_line(&self.0.secrets.mask(&excerpt(&data)), 300);
        // Log messages go to the server's own log: in the daemon's log, a noisy server could fill the disk.
        let log = self
            .0
            .log
            .get_or_init(|| ServerLog::open(&self.0.log_file, &[]));
        let level = format!("{:?}", params.level).to_ascii_lowercase();
        log.append_line(format!("[{level}] {text}").as_bytes());
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note_tools_changed();
    }
}
