//! What a client that attaches to a session sees where no turn runs: the last answer, from the journal.

use std::sync::Arc;

use super::Daemon;
use crate::chat::FinishReason;
use crate::error::{Error, Result};
use crate::history::record::{Record, RecordBody};
use crate::protocol::{self, AnswerSummary, AttachRequest, Event, ShellId, kind};
use crate::session::conversation::{Session, SharedSession};
use crate::turn::command_extractor::{AnswerPiece, CommandExtractor};

/// Returns the session to attach to.
///
/// # Errors
/// There is no such session, or the shell has none.
pub async fn session(daemon: &Daemon, request: &AttachRequest) -> Result<SharedSession> {
    let id = match (&request.session, &request.shell) {
        (Some(wanted), _) => daemon.sessions.find(wanted).await?,
        (None, Some(shell)) => daemon
            .sessions
            .session_for_shell(shell)
            .ok_or_else(|| Error::usage("this shell has no conversation yet"))?,
        (None, None) => {
            return Err(
                Error::usage("there is no shell whose conversation is meant")
                    .hint("name a session; see: aish-helper session list"),
            );
        }
    };
    daemon.sessions.get(&id).await
}

/// Returns the frames of the last answer, its reply included.
///
/// # Errors
/// The session has no prompt yet.
pub fn last_answer(
    daemon: &Daemon,
    session: &Arc<Session>,
    shell: Option<&ShellId>,
) -> Result<Vec<u8>> {
    let proposals = shell.map_or(0, |shell| daemon.sessions.waiting(shell, &session.id));
    session.with_records(|records| frames(&session.id, records, proposals))
}

fn frames(session: &str, records: &[Record], proposals: usize) -> Result<Vec<u8>> {
    let is_prompt = |r: &Record| matches!(r.body, RecordBody::User { .. });
    let at = records.iter().rposition(is_prompt);
    let at = at.ok_or_else(|| Error::usage("this conversation has no prompt yet"))?;
    let RecordBody::User { text, .. } = &records[at].body else {
        return Err(Error::usage("this conversation has no prompt yet"));
    };
    let mut out = Vec::new();
    let mut event = |event: &Event| -> Result<()> {
        out.extend(protocol::json_frame(kind::EVENT, event)?);
        Ok(())
    };
    event(&Event::Attached {
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
        seconds: 0.0,
        cost: None,
        proposals,
    };
    let mut pieces = Vec::new();
    for record in &records[at..] {
        let RecordBody::Assistant {
            text,
            model,
            finish,
            error,
            prompt_tokens,
            completion_tokens,
            ms,
            ..
        } = &record.body
        else {
            continue;
        };
        let mut filter = CommandExtractor::default();
        filter.push(text, &mut |piece| pieces.push(piece));
        filter.finish(&mut |piece| pieces.push(piece));
        if !text.is_empty() && !text.ends_with('\n') {
            pieces.push(AnswerPiece::Text("\n".to_owned()));
        }
        if let Some(error) = error {
            answer.finish = FinishReason::Error;
            event(&Event::Notice {
                text: format!("the answer failed: {error}"),
            })?;
        } else {
            answer.finish = FinishReason::from_word(finish).unwrap_or(FinishReason::Interrupted);
        }
        answer.model.clone_from(model);
        answer.prompt_tokens = sum(answer.prompt_tokens, *prompt_tokens);
        answer.completion_tokens = sum(answer.completion_tokens, *completion_tokens);
        answer.seconds += *ms as f64 / 1000.0;
    }
    for piece in pieces {
        match piece {
            AnswerPiece::Text(text) => out.extend(protocol::text_frame(&text)?),
            AnswerPiece::Command(command) => {
                out.extend(protocol::json_frame(
                    kind::EVENT,
                    &Event::Proposal { command },
                )?);
            }
        }
    }
    out.extend(protocol::json_frame(kind::REPLY, &answer)?);
    Ok(out)
}

fn sum(total: Option<u64>, tokens: Option<u64>) -> Option<u64> {
    match (total, tokens) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (a, b) => a.or(b),
    }
}
