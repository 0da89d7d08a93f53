//! Runs approved tool calls: passes progress and elicitations of the servers to the clients, and cancellation by the user
//! to the servers.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::background_notice;
use super::call_context::CallContext;
use super::elicitation::{AskedElicitation, answered, ask, close};
use super::nested_call::{self, NestedCall};
use crate::chat::{CallStatus, OperationClass, ToolCall, ToolDefinition};
use crate::error::Error;
use crate::history::journal::now_ms;
use crate::mcp::{self, CallError, CallEvent, CallResult, ElicitationResponse};
use crate::protocol::QuestionOutcome;
use crate::protocol::tools::{CallFinished, CallStarted, ElicitationPrompt};
use crate::recording::screen::captured_text;
use crate::safety::policy::{Approved, BUILTIN_IDENTITY, ExactCall, is_own_tool};
use crate::safety::redact::global_redactor;
use crate::session::feed::{TurnEvent, TurnFeed};
use crate::tools::builtin::{BuiltinSource, PreparedCall, SHELL, SHELL_SIZE, perform};
use crate::tools::results;
use crate::tools::source::{NestedRequest, SourceCall, ToolSource};
use crate::turn::outcome::{CallEnd, CallOutcome, CallSummary};

/// Time that cancelled calls have to send the cancellation to their servers.
const CANCEL_GRACE: Duration = Duration::from_millis(100);
/// Capacity of the channel for events of running calls.
const QUEUE: usize = 16;
/// Maximum number of pending elicitations, so that a server cannot queue them without bound. Further ones are dismissed.
const MAX_ELICITATIONS: usize = 8;
/// Number of lines of a result that clients are sent, and the maximum number of characters of each.
const HEAD: (usize, usize) = (5, 500);
/// Longest output of a command that the model gets: beginning and end.
const TERMINAL_BYTES: usize = 50 << 10;
/// Longest text that is redacted and hashed on an async thread.
const INLINE_BYTES: usize = 64 << 10;

/// An approved call.
#[derive(Debug)]
pub struct AllowedCall<'a> {
    /// The call as the model made it.
    pub call: &'a ToolCall,
    /// The tool.
    pub tool: &'a ToolDefinition,
    /// The approval, used up by the call.
    pub approved: Approved,
    /// The arguments to send, as approved; the user may have edited them.
    pub arguments: String,
    /// Whether the user edited the arguments.
    pub edited: bool,
    /// The rule that allowed the call; `None` if the user did.
    pub rule: Option<String>,
    /// The operation class that the policy applied.
    pub operation: OperationClass,
    /// A contradiction between the declared intent and the annotations.
    pub warning: Option<String>,
    /// The summary for the record of the result.
    pub account: CallSummary,
    /// The result, where it was shown with the question.
    pub prepared: Option<String>,
    /// The work of a built-in tool, as it was prepared for the decision.
    pub work: Option<Box<PreparedCall>>,
}

type CallAttempt = Result<CallResult, CallError>;

/// A running or finished call.
struct RunningCall<'a> {
    call: &'a ToolCall,
    account: CallSummary,
    edited: Option<String>,
    is_builtin: bool,
    begun: Instant,
    work: Pin<Box<dyn Future<Output = CallAttempt> + Send + 'a>>,
    ended: Option<(CallAttempt, u64)>,
}

/// A queued elicitation and the channel for its response.
type WaitingElicitation = (ElicitationPrompt, oneshot::Sender<ElicitationResponse>);

/// Runs the calls concurrently and returns their outcomes in order. Cancelling the turn cancels them.
/// `nest` makes the calls that running calls make.
pub async fn run<'c>(
    context: &CallContext<'_>,
    allowed: Vec<AllowedCall<'_>>,
    nest: &(dyn Fn(NestedRequest) -> NestedCall<'c> + Sync),
) -> Vec<CallOutcome> {
    let (services, feed) = (context.services, context.feed);
    let cancel = feed.cancel_token().child_token();
    let (sender, mut events) = mpsc::channel(QUEUE);
    let builtin = BuiltinSource::new(
        services.finder.clone(),
        services.results.clone(),
        context.catalog.tools.clone(),
        context.session.id.as_str(),
        context.config.mcp.max_result_bytes,
    );
    let graces = allowed
        .iter()
        .filter_map(|one| one.work.as_ref()?.cancel_grace());
    let grace = graces.max().unwrap_or(CANCEL_GRACE);
    let mut running = Vec::new();
    for mut one in allowed {
        feed.push(TurnEvent::CallStarted(CallStarted {
            id: one.call.id.clone(),
            name: one.tool.name.clone(),
            arguments: one.arguments.clone(),
            rule: one.rule.clone(),
            operation: one.operation,
            warning: one.warning.clone(),
            prints: one.tool.name == SHELL,
        }));
        running.push(RunningCall {
            call: one.call,
            account: std::mem::take(&mut one.account),
            edited: one.edited.then(|| one.arguments.clone()),
            is_builtin: one.tool.identity == BUILTIN_IDENTITY,
            begun: Instant::now(),
            work: Box::pin(call(context, &builtin, one, sender.clone(), cancel.clone())),
            ended: None,
        });
    }
    drop(sender);
    // Cancelled calls get a short time to notify their servers.
    let mut late = pin!(async {
        cancel.cancelled().await;
        tokio::time::sleep(grace).await;
    });
    let mut waiting: VecDeque<WaitingElicitation> = VecDeque::new();
    let mut asked: Option<AskedElicitation> = None;
    let mut nested: Option<NestedCall<'_>> = None;
    loop {
        if asked.is_none()
            && let Some((question, server)) = waiting.pop_front()
        {
            asked = Some(ask(context, question, server));
        }
        tokio::select! {
            biased;
            () = all_ended(&mut running) => break,
            () = &mut late => break,
            Some(event) = events.recv() => match event {
                // Progress lines would be drawn over the open question.
                CallEvent::Progress(_) if asked.is_some() || nested.is_some() => {}
                CallEvent::Elicit(..)
                    if waiting.len() + usize::from(asked.is_some()) >= MAX_ELICITATIONS => {}
                // One at a time; a second one is dropped, which the calling tool call gets as an error.
                CallEvent::Nested(_) if nested.is_some() => {}
                CallEvent::Nested(request) => nested = Some(nest(request)),
                CallEvent::Elicit(question, server) => waiting.push_back((elicit(question), server)),
                event => show(feed, event),
            },
            stops = nested_call::ended(&mut nested) => {
                nested = None;
                // The user stopped the turn at the question about the nested call.
                if stops {
                    cancel.cancel();
                }
            }
            end = answered(context, asked.as_mut()) => {
                if let Some(question) = asked.take() {
                    close(feed, question, end);
                    background_notice::question_closed(services, feed);
                }
            }
            // A stopping daemon withdraws all questions; a dropped sender counts as a dismissal.
            () = services.leaving.cancelled(), if asked.is_some() => {
                waiting.clear();
                if let Some(question) = asked.take() {
                    feed.close_question(&question.id, None, QuestionOutcome::Withdrawn);
                }
            }
        }
    }
    if let Some(question) = asked {
        feed.close_question(&question.id, None, QuestionOutcome::Withdrawn);
    }
    // Printed right before the end.
    while let Ok(event) = events.try_recv() {
        show(feed, event);
    }
    // Its question is open, or its result is not recorded yet, although the code did not wait for it.
    if let Some(nested) = nested.take() {
        nested.await;
    }
    let mut outcomes = Vec::new();
    for one in running {
        let RunningCall {
            call,
            account,
            edited,
            is_builtin,
            begun,
            ended,
            ..
        } = one;
        let (ended, ms) =
            ended.unwrap_or((Err(CallError::Interrupted), milliseconds(begun.elapsed())));
        let mut end = CallFinished {
            id: call.id.clone(),
            name: account.name.clone().unwrap_or_default(),
            status: CallStatus::Interrupted,
            duration_ms: ms,
            bytes: 0,
            head: String::new(),
            more: 0,
            notes: Vec::new(),
        };
        let has_shown_output = ended.as_ref().is_ok_and(|result| result.terminal.is_some());
        let outcome = outcome(context, ended, edited, &mut end).await;
        end.status = outcome.status();
        // Lists of tools and pages of earlier results are for the model, not for the terminal; an error says what to do.
        if is_builtin {
            let error = match end.status {
                CallStatus::ToolError if !has_shown_output => end.head.lines().next(),
                _ => None,
            };
            (end.head, end.more) = (error.unwrap_or_default().to_owned(), 0);
        }
        feed.push(TurnEvent::CallFinished(end));
        outcomes.push(CallOutcome {
            id: call.id.clone(),
            outcome,
            ms,
            account,
        });
    }
    outcomes
}

/// Passes on the output of a call.
fn show(feed: &TurnFeed, event: CallEvent) {
    match event {
        CallEvent::Progress(text) => feed.push(TurnEvent::CallProgress(text)),
        CallEvent::Output(text) => feed.push(TurnEvent::CallOutput(text)),
        // Dropped: the server learns that nobody answers.
        CallEvent::Elicit(..) | CallEvent::Nested(_) => {}
    }
}

/// Makes a call at the source of its tool.
async fn call(
    context: &CallContext<'_>,
    builtin: &BuiltinSource,
    one: AllowedCall<'_>,
    events: mpsc::Sender<CallEvent>,
    cancel: CancellationToken,
) -> CallAttempt {
    let call = ExactCall {
        server: &one.tool.server,
        tool: &one.tool.tool,
        identity: &one.tool.identity,
        arguments: &one.arguments,
    };
    let (approved, max_bytes) = (one.approved, results::MAX_RESULT_BYTES);
    if !is_own_tool(call.identity) {
        let pool = &context.services.mcp;
        return pool
            .call(approved, &call, now_ms(), max_bytes, &events, &cancel)
            .await;
    }
    if let Some(text) = one.prepared {
        return match approved.covers(&call, now_ms()) {
            true => Ok(CallResult {
                bytes: text.len() as u64,
                text,
                ..CallResult::default()
            }),
            false => Err(CallError::NotApproved),
        };
    }
    if let (Some(prepared), Some(work)) = (one.work, &context.request.work) {
        return match approved.covers(&call, now_ms()) {
            true => perform(&work.scope, *prepared, &events, &cancel).await,
            false => Err(CallError::NotApproved),
        };
    }
    let request = SourceCall {
        approved,
        call,
        now_ms: now_ms(),
        max_bytes,
        events: &events,
        cancel: &cancel,
    };
    builtin.call(request).await
}

/// Waits until all calls have ended. Cancel-safe.
async fn all_ended(running: &mut [RunningCall<'_>]) {
    poll_fn(|context| {
        let mut all = Poll::Ready(());
        for one in running.iter_mut().filter(|one| one.ended.is_none()) {
            match one.work.as_mut().poll(context) {
                Poll::Ready(ended) => {
                    let own = ended.as_ref().ok().and_then(|result| result.own_time);
                    let taken = own.unwrap_or_else(|| one.begun.elapsed());
                    one.ended = Some((ended, milliseconds(taken)));
                }
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    })
    .await;
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn elicit(question: mcp::ElicitationRequest) -> ElicitationPrompt {
    ElicitationPrompt {
        id: uuid::Uuid::now_v7().to_string(),
        server: question.server,
        message: question.message,
        schema: question.schema,
        url: question.url,
        digest: String::new(),
    }
}

/// Redacts a result and limits its size for the model. Also returns the digest of the whole text. A text that is too long
/// is stored for `read_result`. Large texts are processed on a blocking thread.
///
/// # Errors
/// The blocking thread failed.
async fn fit(
    context: &CallContext<'_>,
    text: String,
    keeps_end: bool,
) -> Result<(String, String), Error> {
    let most = context.config.mcp.max_result_bytes;
    // Redaction on writing covers only the journal, not the result store.
    let clean = |text: String| match global_redactor().redact(&text) {
        Cow::Owned(clean) => clean,
        Cow::Borrowed(_) => text,
    };
    let inline = if keeps_end {
        TERMINAL_BYTES
    } else {
        INLINE_BYTES
    };
    if text.len() <= most.min(inline) {
        let digest = digest(&text);
        return Ok((clean(text), digest));
    }
    let (results, session) = (context.services.results.clone(), context.session.id.clone());
    let fitted = tokio::task::spawn_blocking(move || {
        let digest = digest(&text);
        let fitted = match keeps_end {
            true => results.fit_ends(&session, clean(text), most.min(TERMINAL_BYTES), now_ms()),
            false => results.fit(&session, clean(text), most, now_ms()),
        };
        (fitted, digest)
    });
    fitted
        .await
        .map_err(|e| Error::runtime(format!("cannot process the result: {e}")))
}

/// Returns the output of a command as a terminal shows it, after its heading.
async fn rendered(heading: String, output: String) -> Result<String, Error> {
    let render = move || {
        format!(
            "{heading}\n{}",
            captured_text(output.as_bytes(), SHELL_SIZE)
        )
    };
    tokio::task::spawn_blocking(render)
        .await
        .map_err(|e| Error::runtime(format!("cannot process the result: {e}")))
}

/// Returns the SHA-256 of `text` in hexadecimal.
fn digest(text: &str) -> String {
    let hash = Sha256::digest(text);
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

/// Converts the result of a call into the outcome for the turn, and fills `end` for the clients.
async fn outcome(
    context: &CallContext<'_>,
    ended: CallAttempt,
    edited: Option<String>,
    end: &mut CallFinished,
) -> CallEnd {
    let result = match ended {
        Ok(result) => result,
        Err(CallError::Interrupted) => return CallEnd::Interrupted,
        Err(e) => return CallEnd::Failed(e.to_string()),
    };
    let keeps_end = result.terminal.is_some();
    let text = match result.terminal {
        Some(heading) => match rendered(heading, result.text).await {
            Ok(text) => text,
            Err(e) => return CallEnd::Failed(e.message),
        },
        None => result.text,
    };
    let (mut text, digest) = match fit(context, text, keeps_end).await {
        Ok(fitted) => fitted,
        Err(e) => return CallEnd::Failed(e.message),
    };
    let mut not_sent = None;
    // The requests leave the images out: neither side would know.
    if !result.images.is_empty() && !context.takes_images {
        let what = match result.images.len() {
            1 => "image not sent",
            _ => "images not sent",
        };
        let note = format!(
            "{what}: this model is not configured for images (images = true in its [models] section)"
        );
        text.push_str(&format!("\n[{note}]"));
        not_sent = Some(note);
    }
    let lines = text.lines();
    let cut = |line: &str| line.chars().take(HEAD.1).collect::<String>();
    let head: Vec<String> = lines.clone().take(HEAD.0).map(cut).collect();
    end.more = lines.count() - head.len();
    end.head = head.join("\n");
    end.bytes = result.bytes;
    // A placeholder line in the head already shows its note.
    end.notes = result.notes;
    if !keeps_end {
        end.notes
            .retain(|note| !head.iter().any(|line| *line == format!("[{note}]")));
    }
    end.notes.extend(not_sent);
    CallEnd::Said {
        text,
        is_error: result.is_error,
        told: result.told,
        images: result.images,
        bytes: result.bytes,
        digest,
        edited,
        files: result.files,
    }
}
