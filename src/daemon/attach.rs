//! The view of a client that attaches to a session: the running turn, or the last answer from the journal.

use std::sync::Arc;

use crate::chat::{FinishReason, OperationClass};
use crate::error::{Error, Result};
use crate::history::record::{DecidedBy, Record, RecordBody};
use crate::protocol::tools::{CallFinished, CallStarted};
use crate::protocol::{self, AnswerSummary, AttachRequest, Event, ShellId, ShownCost, kind};
use crate::safety::command_extractor::{AnswerPiece, CommandExtractor};
use crate::services::SharedServices;
use crate::session::conversation::{Session, SharedSession};

/// Maximum number of lines shown of a tool result, and maximum characters of each.
const RESULT_HEAD: (usize, usize) = (5, 500);
/// Shown after an answer whose daemon was killed, in the words of `llm :history`.
const CUT_OFF_NOTICE: &str = "cut off: the daemon was killed";

/// Returns the session to attach to. Without an id this is the shell's own if commands of it were left, otherwise a session in
/// which a turn of the shell waits for an answer, otherwise the shell's own.
///
/// # Errors
/// There is no such session, or the shell has none.
pub async fn session(services: &SharedServices, request: &AttachRequest) -> Result<SharedSession> {
    let id = match (&request.session, &request.shell) {
        (Some(wanted), _) => services.sessions.find(wanted).await?,
        (None, Some(shell)) => {
            let own = services.sessions.session_for_shell(shell);
            let has_left = |own: &String| services.sessions.has_waiting(shell, own);
            if let Some(own) = own.as_ref().filter(|own| has_left(own)) {
                return services.sessions.get(own).await;
            }
            let asks = |session: &SharedSession| {
                session.hub.running().is_some_and(|feed| {
                    feed.origin.shell.as_ref() == Some(shell) && feed.has_open_question()
                })
            };
            let asking = services.sessions.open().into_iter().filter(asks);
            // The own session first.
            let asking = asking.max_by_key(|session| own.as_ref() == Some(&session.id));
            if let Some(session) = asking {
                return Ok(session);
            }
            own.ok_or_else(|| {
                Error::usage("this shell has no session yet")
                    .hint("`llm --attach ID` follows another session; `llm :sessions` lists them")
            })?
        }
        (None, None) => {
            return Err(Error::usage("no session given")
                .hint("name a session; see: aish-helper session list"));
        }
    };
    services.sessions.get(&id).await
}

/// Returns the frames of the last answer, including the reply.
///
/// # Errors
/// The session has no prompt yet.
pub fn last_answer(
    services: &SharedServices,
    session: &Arc<Session>,
    shell: Option<&ShellId>,
) -> Result<Vec<u8>> {
    if let Some(frames) = unrecorded_failure(session)? {
        return Ok(frames);
    }
    let proposals = shell.map_or(0, |shell| {
        services.sessions.show_waiting(shell, &session.id)
    });
    let config = services.models.config(&Default::default()).ok();
    // A live answer names the model as the provider does.
    let model_name = |name: &str| {
        let settings = config.as_ref().and_then(|config| config.models.get(name));
        settings
            .map_or(name, |settings| &*settings.model)
            .to_owned()
    };
    session.with_records(|records| frames(&session.id, records, proposals, &model_name))
}

/// Returns the frames of a last turn that failed before its prompt was recorded.
fn unrecorded_failure(session: &Session) -> Result<Option<Vec<u8>>> {
    let Some(failed) = session.hub.last_failure() else {
        return Ok(None);
    };
    let is_recorded = session.with_records(|records| {
        let mut prompts = records.iter().rev();
        prompts.any(|r| {
            matches!(r.body, RecordBody::User { .. }) && r.timestamp_ms >= failed.started_ms
        })
    });
    if is_recorded {
        return Ok(None);
    }
    let attached = Event::Attached {
        session: session.id.clone(),
        prompt: failed.prompt,
        running: false,
        started_ms: failed.started_ms,
    };
    let mut out = protocol::json_frame(kind::EVENT, &attached)?;
    out.extend(protocol::json_frame(kind::FAILURE, &failed.failure)?);
    Ok(Some(out))
}

/// Frames of a replayed answer.
#[derive(Default)]
struct Replay {
    out: Vec<u8>,
    /// The last frame is text.
    ends_with_text: bool,
}

impl Replay {
    fn event(&mut self, event: &Event) -> Result<()> {
        self.out.extend(protocol::json_frame(kind::EVENT, event)?);
        self.ends_with_text = false;
        Ok(())
    }

    /// Adds the text of one round, with its proposals.
    fn text(&mut self, text: &str, is_complete: bool) -> Result<()> {
        let mut pieces = Vec::new();
        let mut filter = CommandExtractor::default();
        if self.ends_with_text && !text.is_empty() {
            // A blank line between two rounds.
            pieces.push(AnswerPiece::Text("\n".to_owned()));
        }
        filter.push(text, &mut |piece| pieces.push(piece));
        // An incomplete answer may end within a command, which must not be offered.
        match is_complete {
            true => filter.finish(&mut |piece| pieces.push(piece)),
            false => filter.cut_off(&mut |piece| pieces.push(piece)),
        }
        if !text.is_empty() && !text.ends_with('\n') {
            pieces.push(AnswerPiece::Text("\n".to_owned()));
        }
        for piece in pieces {
            match piece {
                AnswerPiece::Text(text) => {
                    self.out.extend(protocol::text_frame(&text)?);
                    self.ends_with_text = true;
                }
                AnswerPiece::Command { text, .. } => {
                    self.event(&Event::Proposal { command: text })?;
                }
            }
        }
        Ok(())
    }

    /// Adds a tool call as a client of the running turn has seen it.
    fn call(&mut self, record: &RecordBody) -> Result<()> {
        let RecordBody::Tool {
            call,
            name,
            status,
            text,
            error,
            bytes,
            ms,
            act,
            arguments,
            by,
            why,
            ..
        } = record
        else {
            return Ok(());
        };
        let status = *status;
        let operation = act.as_ref().map(|act| act.operation);
        if status.was_made() {
            self.event(&Event::ToolCallStarted(CallStarted {
                id: call.clone(),
                name: name.clone(),
                arguments: arguments.clone().unwrap_or_else(|| "{}".to_owned()),
                rule: why.clone().filter(|_| *by == Some(DecidedBy::Rule)),
                operation: operation.unwrap_or(OperationClass::Read),
                warning: None,
                prints: false,
            }))?;
        }
        let reason = why.as_deref().unwrap_or_default();
        let shown = if status.was_made() { text } else { reason };
        let lines = shown.lines();
        let cut = |line: &str| line.chars().take(RESULT_HEAD.1).collect::<String>();
        let head: Vec<String> = lines.clone().take(RESULT_HEAD.0).map(cut).collect();
        self.event(&Event::ToolCallFinished(CallFinished {
            id: call.clone(),
            name: name.clone(),
            status,
            duration_ms: *ms,
            bytes: *bytes,
            more: lines.count() - head.len(),
            head: head.join("\n"),
            notes: error.iter().cloned().collect(),
        }))
    }
}

fn frames(
    session: &str,
    records: &[Record],
    proposals: usize,
    model_name: &dyn Fn(&str) -> String,
) -> Result<Vec<u8>> {
    let no_prompt = || Error::usage("this session has no prompt yet");
    let is_prompt = |r: &Record| matches!(r.body, RecordBody::User { .. });
    let at = records.iter().rposition(is_prompt).ok_or_else(no_prompt)?;
    let RecordBody::User { text, .. } = &records[at].body else {
        return Err(no_prompt());
    };
    let mut replay = Replay::default();
    replay.event(&Event::Attached {
        session: session.to_owned(),
        prompt: text.clone(),
        running: false,
        started_ms: records[at].timestamp_ms,
    })?;
    let mut answer = AnswerSummary {
        session: session.to_owned(),
        model: String::new(),
        finish: FinishReason::Interrupted,
        prompt_tokens: None,
        completion_tokens: None,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        seconds: 0.0,
        cost: None,
        cost_estimated: false,
        session_cost: None,
        session_cost_partial: false,
        show_cost: ShownCost::Nothing,
        proposals,
    };
    // Calls of the last round without a result.
    let mut open_calls = 0;
    // The text after a compaction is a summary, and no part of the answer before it.
    let mut is_summary = false;
    for record in &records[at..] {
        match &record.body {
            RecordBody::Compaction { .. } => is_summary = true,
            RecordBody::Assistant { .. } if std::mem::take(&mut is_summary) => {}
            RecordBody::Assistant {
                text,
                calls,
                native: _,
                model,
                finish,
                error,
                omitted,
                prompt_tokens,
                completion_tokens,
                cache_read_tokens,
                cache_write_tokens,
                reasoning_tokens,
                provider: _,
                cost,
                cost_estimated,
                refused: _,
                rejected: _,
                ms,
            } => {
                if answer.model.is_empty() {
                    replay.event(&Event::TurnStarted {
                        session: session.to_owned(),
                        model: model.clone(),
                    })?;
                }
                replay.text(text, record.body.is_whole_answer())?;
                if *omitted > 0 {
                    let text = format!("the rest of the answer was not recorded: {omitted} bytes");
                    replay.event(&Event::Notice { text })?;
                }
                open_calls = calls.len();
                answer.finish = *finish;
                if let Some(error) = error {
                    answer.finish = FinishReason::Error;
                    let text = format!("the answer failed: {error}");
                    replay.event(&Event::Notice { text })?;
                } else if *finish == FinishReason::CutOff {
                    let text = CUT_OFF_NOTICE.to_owned();
                    replay.event(&Event::Notice { text })?;
                }
                answer.model = model_name(model);
                if let Some(cost) = cost {
                    answer.cost = Some(answer.cost.unwrap_or(0.0) + cost);
                    answer.cost_estimated |= cost_estimated;
                }
                answer.prompt_tokens = sum(answer.prompt_tokens, *prompt_tokens);
                answer.completion_tokens = sum(answer.completion_tokens, *completion_tokens);
                answer.cache_read_tokens =
                    answer.cache_read_tokens.saturating_add(*cache_read_tokens);
                answer.cache_write_tokens = answer
                    .cache_write_tokens
                    .saturating_add(*cache_write_tokens);
                answer.reasoning_tokens = answer.reasoning_tokens.saturating_add(*reasoning_tokens);
                answer.seconds += *ms as f64 / 1000.0;
            }
            call @ RecordBody::Tool { ms, .. } => {
                open_calls = open_calls.saturating_sub(1);
                answer.seconds += *ms as f64 / 1000.0;
                replay.call(call)?;
            }
            _ => {}
        }
    }
    if open_calls > 0 && answer.finish != FinishReason::Error {
        answer.finish = FinishReason::Interrupted;
    }
    let mut out = replay.out;
    out.extend(protocol::json_frame(kind::REPLY, &answer)?);
    Ok(out)
}

fn sum(total: Option<u64>, tokens: Option<u64>) -> Option<u64> {
    match (total, tokens) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}
