//! What a server asks of us, and tells us unasked.

#![expect(
    deprecated,
    reason = "logging is taken and roots are declined for as long as the protocol has them"
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

use super::content::cut;
use super::failure::{Secrets, brief};
use super::stdio::Log;
use super::types::{CallEvent, Elicit, Elicited};
use crate::safety::text::one_line;

/// The most bytes of what a server says in a question, or of the address that it names: a person reads that much.
const MAX_MESSAGE: usize = 8 << 10;

/// The most bytes of a form. One with all the fields and choices that a person is asked for takes less.
const MAX_FORM: usize = 64 << 10;

/// A call that runs.
#[derive(Debug)]
struct Running {
    ticket: u64,
    request: Option<RequestId>,
    progress: Option<ProgressToken>,
    events: mpsc::Sender<CallEvent>,
    /// How many questions to the person are open.
    asking: watch::Sender<usize>,
}

/// The calls of one session, by which a server's words find the person they are for.
#[derive(Debug, Clone)]
pub(super) struct Handler(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    alias: String,
    secrets: Secrets,
    running: Mutex<(u64, Vec<Running>)>,
    tools_changed: Notify,
    log_file: PathBuf,
    /// Opened at the first line: most servers say nothing.
    log: OnceLock<Log>,
    end: CancellationToken,
}

/// A call's place among the running ones, for as long as it lives.
#[derive(Debug)]
pub(super) struct Ticket {
    handler: Handler,
    ticket: u64,
    /// How many questions to the person are open.
    pub(super) asking: watch::Receiver<usize>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.handler.lock().1.retain(|r| r.ticket != self.ticket);
    }
}

impl Ticket {
    /// The request that is now sent for the call.
    pub(super) fn sent(&self, request: &RequestId, progress: &ProgressToken) {
        let mut running = self.handler.lock();
        if let Some(r) = running.1.iter_mut().find(|r| r.ticket == self.ticket) {
            r.request = Some(request.clone());
            r.progress = Some(progress.clone());
        }
    }

    /// Asks the person of this call.
    pub(super) async fn ask(&self, params: ElicitRequestParams) -> ElicitResult {
        let found = self.handler.find(|r| r.ticket == self.ticket);
        self.handler.ask(found, params).await
    }
}

impl Handler {
    /// For the server of that alias, whose logging messages are added to `log_file`.
    pub(super) fn new(
        alias: &str,
        secrets: Secrets,
        log_file: PathBuf,
        end: CancellationToken,
    ) -> Handler {
        Handler(Arc::new(Inner {
            alias: alias.to_owned(),
            secrets,
            running: Mutex::default(),
            tools_changed: Notify::new(),
            log_file,
            log: OnceLock::new(),
            end,
        }))
    }

    /// A call begins; `events` gets what the server says meanwhile.
    pub(super) fn begin(&self, events: &mpsc::Sender<CallEvent>) -> Ticket {
        let (sender, asking) = watch::channel(0);
        let mut running = self.lock();
        running.0 += 1;
        let ticket = running.0;
        running.1.push(Running {
            ticket,
            request: None,
            progress: None,
            events: events.clone(),
            asking: sender,
        });
        drop(running);
        Ticket {
            handler: self.clone(),
            ticket,
            asking,
        }
    }

    /// The server's list of tools has changed since this was last asked.
    pub(super) async fn tools_changed(&self) {
        self.0.tools_changed.notified().await;
    }

    /// Notes that the list has changed.
    pub(super) fn note_tools_changed(&self) {
        self.0.tools_changed.notify_one();
    }

    /// Where what the server has to say to nobody in particular is kept.
    pub(super) fn log_file(&self) -> &Path {
        &self.0.log_file
    }

    pub(super) fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Running>)> {
        let running = &self.0.running;
        running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, is: impl Fn(&Running) -> bool) -> Option<Asked> {
        let running = self.lock();
        running.1.iter().find(|r| is(r)).map(Asked::of)
    }

    /// The call that a request belongs to: the one on whose stream it came; where it came on none, the only one.
    fn origin(&self, context: &RequestContext<RoleClient>) -> Option<Asked> {
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = context.extensions.get() {
            // The call may have ended; the next may be another person's.
            return self.find(|r| r.request.as_ref() == Some(id));
        }
        match &self.lock().1[..] {
            [only] => Some(Asked::of(only)),
            _ => None,
        }
    }

    async fn ask(&self, asked: Option<Asked>, params: ElicitRequestParams) -> ElicitResult {
        let Some(asked) = asked else {
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
        // Half a form and half an address are others than the server meant.
        let bytes = schema.as_ref().map_or(0, |s| s.to_string().len());
        if bytes > MAX_FORM || url.as_ref().is_some_and(|u| u.len() > MAX_MESSAGE) {
            let alias = &self.0.alias;
            tracing::info!("mcp {alias}: declined a question that is too large for a person");
            return ElicitResult::new(ElicitationAction::Decline);
        }
        let elicit = Elicit {
            server: self.0.alias.clone(),
            message: cut(message, MAX_MESSAGE),
            schema,
            url,
        };
        let (answer, answered) = oneshot::channel();
        let _open = Open::new(asked.asking);
        let event = CallEvent::Elicit(elicit, answer);
        let said = async {
            asked.events.send(event).await.ok()?;
            answered.await.ok()
        };
        let said = tokio::select! {
            () = self.0.end.cancelled() => None,
            said = said => said,
        };
        match said {
            Some(Elicited::Accept(content)) => {
                let mut result = ElicitResult::new(ElicitationAction::Accept);
                // What the person saw, and nothing that they did not.
                result.content = content;
                result
            }
            Some(Elicited::Decline) => ElicitResult::new(ElicitationAction::Decline),
            Some(Elicited::Cancel) | None => ElicitResult::new(ElicitationAction::Cancel),
        }
    }
}

/// Whom a question goes to.
#[derive(Debug)]
struct Asked {
    events: mpsc::Sender<CallEvent>,
    asking: watch::Sender<usize>,
}

impl Asked {
    fn of(running: &Running) -> Asked {
        Asked {
            events: running.events.clone(),
            asking: running.asking.clone(),
        }
    }
}

/// A question is open, for as long as this lives.
struct Open(watch::Sender<usize>);

impl Open {
    fn new(asking: watch::Sender<usize>) -> Open {
        asking.send_modify(|n| *n += 1);
        Open(asking)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|n| *n -= 1);
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::default())
            .with_url(UrlElicitationCapability::default());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        let me = Implementation::new("aish", env!("CARGO_PKG_VERSION"));
        let mut info = ClientConfig::new(capabilities, me);
        // What an `initialize` may name at most; the default is newer, and such a server would not know it.
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let withdrawn = context.ct.clone();
        let asked = self.origin(&context);
        tokio::select! {
            () = withdrawn.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            result = self.ask(asked, request) => Ok(result),
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
        let Some(call) = self.find(|r| r.progress.as_ref() == Some(token)) else {
            return;
        };
        let line = match (params.message, params.total) {
            (Some(message), _) if !message.trim().is_empty() => brief(&message),
            (_, Some(total)) => format!("{}/{total}", params.progress),
            _ => params.progress.to_string(),
        };
        // A person who looks away misses some.
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
        let said = one_line(&self.0.secrets.mask(&brief(&data)), 300);
        // A server's alarm is not ours, and in a log of ours it could fill the disk.
        let log = self.0.log.get_or_init(|| Log::open(&self.0.log_file, &[]));
        let level = format!("{:?}", params.level).to_ascii_lowercase();
        log.line(format!("[{level}] {said}").as_bytes());
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.note_tools_changed();
    }
}
