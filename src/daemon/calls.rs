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
use super::connection::Connection;
use super::gate::Round;
use super::outcome::{Account, Outcome, Used};
use crate::chat::{CallStatus, Operation, Tool, ToolCall};
use crate::error::Error;
use crate::history::journal::now_ms;
use crate::mcp::{self, CallError, CallEvent, CallResult, Elicited};
use crate::protocol::tools::{Begin, Elicit, ElicitationAction, End, Reaction};
use crate::protocol::{self, Event, kind};
use crate::safety::policy::{Approved, Call};
use crate::safety::redact::ours;
use crate::tools::results;

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
pub struct Allowed<'a> {
    /// As the model made it.
    pub call: &'a ToolCall,
    /// What it calls.
    pub tool: &'a Tool,
    /// The right to make it.
    pub approved: Approved,
    /// What is sent: the call's arguments, or those of the person's edit.
    pub arguments: String,
    /// It is the person's edit.
    pub edited: bool,
    /// By which rule it was allowed, where nobody was asked.
    pub rule: Option<String>,
    /// What it is taken for.
    pub operation: Operation,
    /// What speaks against what it declares.
    pub warning: Option<String>,
    /// What its record says of it.
    pub account: Account,
}

type Ended = Result<CallResult, CallError>;

/// A call that runs, or has ended.
struct Running<'a> {
    call: &'a ToolCall,
    account: Account,
    edited: Option<String>,
    begun: Instant,
    work: Pin<Box<dyn Future<Output = Ended> + Send + 'a>>,
    ended: Option<(Ended, u64)>,
}

/// Questions of servers, the first of which the person is asked now.
type Asked = VecDeque<(Elicit, oneshot::Sender<Elicited>)>;

/// Makes these calls at once. The turn's token ends them, and is cancelled when the client says so or is gone.
pub async fn run(
    round: &Round<'_>,
    connection: &mut Connection,
    allowed: Vec<Allowed<'_>>,
) -> Vec<Used> {
    let (daemon, turn) = (round.daemon, round.cancel);
    let cancel = turn.child_token();
    let (sender, mut events) = mpsc::channel(QUEUE);
    let mut running = Vec::new();
    for mut one in allowed {
        let begin = Begin {
            id: one.call.id.clone(),
            name: one.tool.name.clone(),
            arguments: one.arguments.clone(),
            rule: one.rule.clone(),
            operation: one.operation,
            warning: one.warning.clone(),
        };
        tell(connection, turn, &Event::ToolCallStarted(begin)).await;
        running.push(Running {
            call: one.call,
            account: std::mem::take(&mut one.account),
            edited: one.edited.then(|| one.arguments.clone()),
            begun: Instant::now(),
            work: Box::pin(call(daemon, one, sender.clone(), cancel.clone())),
            ended: None,
        });
    }
    drop(sender);
    // However they were cancelled: by the person, by a client that is gone, by the daemon's end.
    let mut late = pin!(async {
        cancel.cancelled().await;
        tokio::time::sleep(LAST_WORD).await;
    });
    let mut asked = Asked::new();
    loop {
        tokio::select! {
            biased;
            () = all(&mut running) => break,
            () = &mut late => break,
            Some(event) = events.recv() => match event {
                // It would be drawn over the question.
                CallEvent::Progress(_) if !asked.is_empty() => {}
                CallEvent::Progress(text) => {
                    tell(connection, turn, &Event::ToolCallProgress { text }).await;
                }
                CallEvent::Elicit(..) if asked.len() == MAX_ASKED => {}
                CallEvent::Elicit(question, answer) => {
                    asked.push_back((elicit(question), answer));
                    if asked.len() == 1 {
                        ask_first(connection, turn, &mut asked).await;
                    }
                }
            },
            frame = connection.read(), if !cancel.is_cancelled() => match frame {
                Ok(Some((kind::REACTION, body))) => {
                    if answer_first(&mut asked, &body) {
                        ask_first(connection, turn, &mut asked).await;
                    }
                }
                // CANCEL, or the client is gone.
                _ => turn.cancel(),
            },
            // A daemon that is leaving waits for no person; no answer is an answer too.
            () = daemon.leaving.cancelled(), if !asked.is_empty() => asked.clear(),
        }
    }
    let mut used = Vec::new();
    for one in running {
        let Running {
            call,
            account,
            edited,
            begun,
            ended,
            ..
        } = one;
        let (ended, ms) = ended.unwrap_or((Err(CallError::Interrupted), elapsed(begun)));
        let mut end = End {
            id: call.id.clone(),
            name: account.name.clone().unwrap_or_default(),
            status: CallStatus::Interrupted,
            ms,
            bytes: 0,
            head: String::new(),
            more: 0,
            notes: Vec::new(),
        };
        let outcome = outcome(round, ended, edited, &mut end).await;
        end.status = outcome.status();
        tell(connection, turn, &Event::ToolCallFinished(end)).await;
        used.push(Used {
            id: call.id.clone(),
            outcome,
            ms,
            account,
        });
    }
    used
}

/// Sends an event; a client that is gone ends the turn. False where it was not sent.
pub async fn tell(connection: &mut Connection, turn: &CancellationToken, event: &Event) -> bool {
    let frame = match protocol::json_frame(kind::EVENT, event) {
        Ok(frame) => frame,
        // The client is there; it is the event that is too large.
        Err(e) => {
            tracing::warn!("an event was not sent: {}", e.message);
            return false;
        }
    };
    let sent = connection.send(&frame).await;
    if sent.is_err() {
        turn.cancel();
    }
    sent.is_ok()
}

async fn call(
    daemon: &Daemon,
    one: Allowed<'_>,
    events: mpsc::Sender<CallEvent>,
    cancel: CancellationToken,
) -> Ended {
    let call = Call {
        server: &one.tool.server,
        tool: &one.tool.tool,
        identity: &one.tool.identity,
        arguments: &one.arguments,
    };
    let pool = &daemon.mcp;
    let most = results::MAX_RESULT;
    pool.call(one.approved, &call, now_ms(), most, &events, &cancel)
        .await
}

/// Waits until all have ended. May be dropped while it waits, and called again.
async fn all(running: &mut [Running<'_>]) {
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

fn elicit(question: mcp::Elicit) -> Elicit {
    Elicit {
        id: uuid::Uuid::now_v7().to_string(),
        server: question.server,
        message: question.message,
        schema: question.schema,
        url: question.url,
        digest: String::new(),
    }
}

async fn ask_first(connection: &mut Connection, turn: &CancellationToken, asked: &mut Asked) {
    while let Some((question, _)) = asked.front() {
        let event = Event::ElicitationRequested(Box::new(question.clone()));
        if tell(connection, turn, &event).await || turn.is_cancelled() {
            return;
        }
        // Nobody was asked, and the next may have more luck.
        asked.pop_front();
    }
}

/// Passes on the person's answer to the question that is asked now; false where it is to another.
fn answer_first(asked: &mut Asked, body: &[u8]) -> bool {
    let Ok(Reaction::Elicit {
        id,
        content,
        action,
        digest: _,
    }) = protocol::parse(body)
    else {
        return false;
    };
    if asked.front().is_none_or(|(question, _)| question.id != id) {
        return false;
    }
    let Some((_, answer)) = asked.pop_front() else {
        return false;
    };
    let elicited = match action {
        ElicitationAction::Accept => Elicited::Accept(content),
        ElicitationAction::Decline => Elicited::Decline,
        ElicitationAction::Cancel | ElicitationAction::NoTerminal => Elicited::Cancel,
    };
    // The call may have ended meanwhile.
    let _ = answer.send(elicited);
    true
}

/// What the model gets of a text, and the digest of all of it. What is too long is kept to be read on. What is
/// large is worked on elsewhere: nobody else's answer waits for it, nor for a slow disk.
///
/// # Errors
/// It could not be looked at.
pub async fn fit(round: &Round<'_>, text: String) -> Result<(String, String), Error> {
    let most = round.config.mcp.max_result_bytes;
    // What is kept to be read on is no record, and would have its secrets still.
    let clean = |text: String| match ours().redact(&text) {
        Cow::Owned(clean) => clean,
        Cow::Borrowed(_) => text,
    };
    if text.len() <= most.min(AT_ONCE) {
        let digest = digest(&text);
        return Ok((clean(text), digest));
    }
    let (results, session) = (round.daemon.results.clone(), round.session.id.clone());
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
    round: &Round<'_>,
    ended: Ended,
    edited: Option<String>,
    end: &mut End,
) -> Outcome {
    let result = match ended {
        Ok(result) => result,
        Err(CallError::Interrupted) => return Outcome::Interrupted,
        Err(e) => return Outcome::Failed(e.to_string()),
    };
    let (text, digest) = match fit(round, result.text).await {
        Ok(fitted) => fitted,
        Err(e) => return Outcome::Failed(e.message),
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
    Outcome::Said {
        text,
        is_error: result.is_error,
        images: result.images,
        bytes: result.bytes,
        digest,
        edited,
    }
}
