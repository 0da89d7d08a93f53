//! Calls that were allowed, while they run: what the servers say meanwhile goes to the client, and the
//! person's Ctrl-C to the servers.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::Daemon;
use super::background_notice::{self, question_patience};
use super::call_context::CallContext;
use crate::chat::{CallStatus, OperationClass, ToolCall, ToolDefinition};
use crate::error::Error;
use crate::history::journal::now_ms;
use crate::mcp::{self, CallError, CallEvent, CallResult, ElicitationResponse};
use crate::protocol::QuestionOutcome;
use crate::protocol::tools::{
    CallFinished, CallStarted, ElicitationAction, ElicitationPrompt, Reaction,
};
use crate::safety::policy::{Approved, ExactCall};
use crate::safety::redact::global_redactor;
use crate::session::feed::{GivenAnswer, TurnEvent, TurnFeed};
use crate::tools::results;
use crate::turn::outcome::{CallEnd, CallOutcome, CallSummary};

/// So long a call may take to end once it was cancelled: its server is told, and not waited for.
const LAST_WORD: Duration = Duration::from_millis(100);
/// News of calls that may wait for a slow client.
const QUEUE: usize = 16;
/// Questions of servers that may wait for the person. A server could ask without end; what is above is cancelled.
const MAX_ASKED: usize = 8;
/// The first lines of a result, which a client is sent, and the most characters of each.
const HEAD: (usize, usize) = (5, 500);
/// A longer text is not looked through on the thread that serves everybody.
const AT_ONCE: usize = 64 << 10;

/// A call that may be made.
#[derive(Debug)]
pub struct AllowedCall<'a> {
    /// As the model made it.
    pub call: &'a ToolCall,
    /// What it calls.
    pub tool: &'a ToolDefinition,
    /// The right to make it.
    pub approved: Approved,
    /// What is sent: the call's arguments, or those of the person's edit.
    pub arguments: String,
    /// It is the person's edit.
    pub edited: bool,
    /// By which rule it was allowed, where nobody was asked.
    pub rule: Option<String>,
    /// What it is taken for.
    pub operation: OperationClass,
    /// What speaks against what it declares.
    pub warning: Option<String>,
    /// What its record says of it.
    pub account: CallSummary,
}

type CallAttempt = Result<CallResult, CallError>;

/// A call that runs, or has ended.
struct RunningCall<'a> {
    call: &'a ToolCall,
    account: CallSummary,
    edited: Option<String>,
    begun: Instant,
    work: Pin<Box<dyn Future<Output = CallAttempt> + Send + 'a>>,
    ended: Option<(CallAttempt, u64)>,
}

/// A question of a server that waits for its turn, and who waits for the answer.
type WaitingElicitation = (ElicitationPrompt, oneshot::Sender<ElicitationResponse>);

/// The question of a server that is asked now. Only one is asked at a time.
struct AskedElicitation {
    id: String,
    server: oneshot::Sender<ElicitationResponse>,
    answer: oneshot::Receiver<GivenAnswer>,
    deadline: tokio::time::Instant,
}

/// How an elicitation ends.
enum ElicitationEnd {
    Given(GivenAnswer),
    Closed(QuestionOutcome),
}

/// Runs these calls concurrently. The turn's token ends them.
pub async fn run(context: &CallContext<'_>, allowed: Vec<AllowedCall<'_>>) -> Vec<CallOutcome> {
    let (daemon, feed) = (context.daemon, context.feed);
    let cancel = feed.cancel_token().child_token();
    let (sender, mut events) = mpsc::channel(QUEUE);
    let mut running = Vec::new();
    for mut one in allowed {
        feed.push(TurnEvent::CallStarted(CallStarted {
            id: one.call.id.clone(),
            name: one.tool.name.clone(),
            arguments: one.arguments.clone(),
            rule: one.rule.clone(),
            operation: one.operation,
            warning: one.warning.clone(),
        }));
        running.push(RunningCall {
            call: one.call,
            account: std::mem::take(&mut one.account),
            edited: one.edited.then(|| one.arguments.clone()),
            begun: Instant::now(),
            work: Box::pin(call(daemon, one, sender.clone(), cancel.clone())),
            ended: None,
        });
    }
    drop(sender);
    // A cancelled call is given a moment to tell its server.
    let mut late = pin!(async {
        cancel.cancelled().await;
        tokio::time::sleep(LAST_WORD).await;
    });
    let mut waiting: VecDeque<WaitingElicitation> = VecDeque::new();
    let mut asked: Option<AskedElicitation> = None;
    loop {
        if asked.is_none()
            && let Some((question, server)) = waiting.pop_front()
        {
            asked = Some(ask(context, question, server));
        }
        tokio::select! {
            biased;
            () = all(&mut running) => break,
            () = &mut late => break,
            Some(event) = events.recv() => match event {
                // It would be drawn over the question.
                CallEvent::Progress(_) if asked.is_some() => {}
                CallEvent::Progress(text) => feed.push(TurnEvent::CallProgress(text)),
                CallEvent::Elicit(..)
                    if waiting.len() + usize::from(asked.is_some()) >= MAX_ASKED => {}
                CallEvent::Elicit(question, server) => waiting.push_back((elicit(question), server)),
            },
            end = answered(feed, asked.as_mut()) => {
                if let Some(question) = asked.take() {
                    close(feed, question, end);
                }
            }
            // A daemon that is stopping waits for nobody; no answer is an answer too.
            () = daemon.leaving.cancelled(), if asked.is_some() => {
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
    let mut used = Vec::new();
    for one in running {
        let RunningCall {
            call,
            account,
            edited,
            begun,
            ended,
            ..
        } = one;
        let (ended, ms) = ended.unwrap_or((Err(CallError::Interrupted), elapsed(begun)));
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
        let outcome = outcome(context, ended, edited, &mut end).await;
        end.status = outcome.status();
        feed.push(TurnEvent::CallFinished(end));
        used.push(CallOutcome {
            id: call.id.clone(),
            outcome,
            ms,
            account,
        });
    }
    used
}

/// Asks the question of a server.
fn ask(
    context: &CallContext<'_>,
    mut question: ElicitationPrompt,
    server: oneshot::Sender<ElicitationResponse>,
) -> AskedElicitation {
    question.digest = question.shown_digest();
    let (id, digest) = (question.id.clone(), question.digest.clone());
    let event = TurnEvent::ElicitationRequested(Box::new(question));
    let answer = context.feed.open_question(&id, &digest, event);
    background_notice::question_waits(context.daemon, context.feed, &id);
    let patience = question_patience(context.config);
    AskedElicitation {
        id,
        server,
        answer,
        deadline: tokio::time::Instant::now() + patience,
    }
}

/// Waits for the answer to the question that is asked now; for ever where there is none. Cancel-safe.
async fn answered(feed: &TurnFeed, asked: Option<&mut AskedElicitation>) -> ElicitationEnd {
    let Some(asked) = asked else {
        return std::future::pending().await;
    };
    tokio::select! {
        biased;
        given = &mut asked.answer => match given {
            Ok(given) => ElicitationEnd::Given(given),
            Err(_) => ElicitationEnd::Closed(QuestionOutcome::Withdrawn),
        },
        outcome = feed.unanswerable(&asked.id, asked.deadline) => ElicitationEnd::Closed(outcome),
    }
}

/// Passes the answer on to the server, and tells the clients.
fn close(feed: &TurnFeed, asked: AskedElicitation, end: ElicitationEnd) {
    let (elicited, answered_in, outcome) = match end {
        ElicitationEnd::Given(GivenAnswer {
            reaction: Reaction::Elicit {
                content, action, ..
            },
            answered_in,
        }) => {
            let (elicited, outcome) = match action {
                ElicitationAction::Accept => (
                    ElicitationResponse::Accept(content),
                    QuestionOutcome::Accepted,
                ),
                ElicitationAction::Decline => {
                    (ElicitationResponse::Decline, QuestionOutcome::Declined)
                }
                ElicitationAction::Cancel | ElicitationAction::NoTerminal => {
                    (ElicitationResponse::Cancel, QuestionOutcome::Dismissed)
                }
            };
            (elicited, answered_in, outcome)
        }
        ElicitationEnd::Given(_) => (
            ElicitationResponse::Cancel,
            None,
            QuestionOutcome::Withdrawn,
        ),
        ElicitationEnd::Closed(outcome) => (ElicitationResponse::Cancel, None, outcome),
    };
    feed.close_question(&asked.id, answered_in, outcome);
    // The call may have ended meanwhile.
    let _ = asked.server.send(elicited);
}

async fn call(
    daemon: &Daemon,
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
    let pool = &daemon.mcp;
    let most = results::MAX_RESULT_BYTES;
    pool.call(one.approved, &call, now_ms(), most, &events, &cancel)
        .await
}

/// Waits until all have ended. May be dropped while it waits, and called again.
async fn all(running: &mut [RunningCall<'_>]) {
    poll_fn(|context| {
        let mut all = Poll::Ready(());
        for one in running.iter_mut().filter(|one| one.ended.is_none()) {
            match one.work.as_mut().poll(context) {
                Poll::Ready(ended) => one.ended = Some((ended, elapsed(one.begun))),
                Poll::Pending => all = Poll::Pending,
            }
        }
        all
    })
    .await;
}

/// Milliseconds since then.
pub fn elapsed(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
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

/// What the model gets of a text, and the digest of all of it. What is too long is kept to be read on. What is
/// large is worked on elsewhere: nobody else's answer waits for it, nor for a slow disk.
///
/// # Errors
/// It could not be looked at.
pub async fn fit(context: &CallContext<'_>, text: String) -> Result<(String, String), Error> {
    let most = context.config.mcp.max_result_bytes;
    // What is kept to be read on is no record, and would have its secrets still.
    let clean = |text: String| match global_redactor().redact(&text) {
        Cow::Owned(clean) => clean,
        Cow::Borrowed(_) => text,
    };
    if text.len() <= most.min(AT_ONCE) {
        let digest = digest(&text);
        return Ok((clean(text), digest));
    }
    let (results, session) = (context.daemon.results.clone(), context.session.id.clone());
    let fitted = tokio::task::spawn_blocking(move || {
        let digest = digest(&text);
        let fitted = results.fit(&session, clean(text), most, now_ms());
        (fitted, digest)
    });
    fitted
        .await
        .map_err(|e| Error::runtime(format!("cannot keep the result: {e}")))
}

/// SHA-256 in hexadecimal.
pub fn digest(text: &str) -> String {
    let hash = Sha256::digest(text);
    hash.iter().map(|b| format!("{b:02x}")).collect()
}

/// What became of a call, for the turn and for the client.
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
    let (text, digest) = match fit(context, result.text).await {
        Ok(fitted) => fitted,
        Err(e) => return CallEnd::Failed(e.message),
    };
    let lines = text.lines();
    let cut = |line: &str| line.chars().take(HEAD.1).collect::<String>();
    let head: Vec<String> = lines.clone().take(HEAD.0).map(cut).collect();
    end.more = lines.count() - head.len();
    end.head = head.join("\n");
    end.bytes = result.bytes;
    // What is named in its place needs no other line.
    end.notes = result.notes;
    end.notes
        .retain(|note| !head.iter().any(|line| *line == format!("[{note}]")));
    CallEnd::Said {
        text,
        is_error: result.is_error,
        images: result.images,
        bytes: result.bytes,
        digest,
        edited,
    }
}
