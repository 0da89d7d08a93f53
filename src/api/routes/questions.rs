//! Answers to open questions: only from a browser that the person has paired at a terminal.

use std::time::{Duration, Instant};

use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::request::Parts;

use crate::api::ApiState;
use crate::api::credentials::Access;
use crate::api::events::outcome_word;
use crate::api::extract::{InPath, JsonBody};
use crate::api::pairing::PairingId;
use crate::api::problem::{Answer, Problem, ProblemDocument};
use crate::api::question::possible_answers;
use crate::api::types::{AnswerWord, QuestionAnswer};
use crate::history::record::{PolicyChange, RecordBody};
use crate::protocol::tools::{ApprovalVerdict, Reaction};
use crate::session::conversation::Session;
use crate::session::feed::{AnswerRefusal, TurnEvent};
use crate::session::lock;

/// Maximum length of a reason, in characters.
const MAX_REASON: usize = 2000;
/// Maximum number of refusals in the audit log within [`REFUSAL_WINDOW`].
const MAX_REFUSALS: u32 = 20;
/// Time after which refusals are recorded again.
const REFUSAL_WINDOW: Duration = Duration::from_secs(60);
/// Length of a digest, in characters.
const DIGEST: usize = 64;

/// The paired browser that sends a request. Others are refused before the body is read, and learn nothing about questions.
#[derive(Debug)]
pub struct PairedBrowser(PairingId);

impl FromRequestParts<ApiState> for PairedBrowser {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Self, Problem> {
        if let Some(Access::Paired(id)) = parts.extensions.get::<Access>() {
            return Ok(PairedBrowser(*id));
        }
        record_refusal(state);
        let message = "only a browser that was paired at the terminal may answer questions";
        let hint = "pair it: aish-helper web --approve; or answer in the terminal";
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "approval",
            message,
            hint,
        ))
    }
}

/// Records that something other than a paired browser has tried to answer: usually a program that has got a token.
fn record_refusal(state: &ApiState) {
    let mut window = lock(&state.refusals);
    let current = window.filter(|(since, _)| since.elapsed() < REFUSAL_WINDOW);
    let (since, count) = current.unwrap_or((Instant::now(), 0));
    *window = Some((since, count.saturating_add(1)));
    drop(window);
    if count >= MAX_REFUSALS {
        return;
    }
    let record = RecordBody::Policy {
        change: PolicyChange::Refused,
        what: "an answer to a question over HTTP".to_owned(),
        grant: None,
        why: Some("it did not come from a paired browser".to_owned()),
    };
    let audit_log = &state.services.audit_log;
    if let Err(e) = audit_log.record(&super::record_ids(state), record) {
        tracing::warn!("{}", e.message);
    }
}

/// Answers an open question about a tool call, as a key in a terminal does.
///
/// Needs the bearer of a paired browser: a token is not enough. The first answer counts, in a browser or in a terminal.
/// `x.question.open` and `agent.status` have the question, its `digest`, and the `answers` that are possible here.
#[utoipa::path(post, path = "/v1/sessions/{session_id}/questions/{question_id}", operation_id = "answer_question", tag = "questions",
    request_body = QuestionAnswer,
    params(
        ("session_id" = String, Path, description = "Id of the session"),
        ("question_id" = String, Path, description = "`question_id` of the question")),
    responses(
        (status = 204, description = "The answer counts"),
        (status = 403, description = "The request does not come from a paired browser", body = ProblemDocument),
        (status = 404, description = "The session has no such question", body = ProblemDocument),
        (status = 409, description = "The question was answered elsewhere, something else was shown, or the answer is possible only in the terminal", body = ProblemDocument)))]
pub async fn answer(
    State(state): State<ApiState>,
    PairedBrowser(browser): PairedBrowser,
    InPath((session_id, question_id)): InPath<(String, String)>,
    JsonBody(given): JsonBody<QuestionAnswer>,
) -> Answer<StatusCode> {
    let session = super::session(&state, &session_id).await?;
    let verdict = verdict(&given)?;
    let Some(feed) = session.hub.running() else {
        return Err(closed(&session, &question_id));
    };
    let open = feed.open_questions();
    let event = open.iter().find(|event| is_question(event, &question_id));
    let Some(event) = event else {
        return Err(closed(&session, &question_id));
    };
    let possible = possible_answers(event);
    let can_answer = match given.answer {
        AnswerWord::Yes => possible.yes,
        AnswerWord::No => possible.no,
    };
    let TurnEvent::ApprovalRequested(request) = &**event else {
        return Err(terminal_only(possible.terminal_reason));
    };
    // Before the reason why not: the reason depends on the shown view.
    if request.digest != given.digest {
        return Err(other_digest());
    }
    if !can_answer {
        return Err(terminal_only(possible.terminal_reason));
    }
    let reaction = Reaction::Call {
        id: question_id.clone(),
        digest: given.digest,
        verdict,
        arguments: request.arguments.clone(),
    };
    match feed.answer_in_page(reaction, browser.to_string()) {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(AnswerRefusal::OtherDigest) => Err(other_digest()),
        Err(AnswerRefusal::Closed | AnswerRefusal::Unknown) => Err(closed(&session, &question_id)),
    }
}

fn verdict(given: &QuestionAnswer) -> Answer<ApprovalVerdict> {
    let is_digest = given.digest.len() == DIGEST;
    if !(is_digest && given.digest.bytes().all(|b| b.is_ascii_hexdigit())) {
        let hint = "send the digest of the question, as its event has it";
        return Err(Problem::invalid(
            "digest is not a SHA-256 in hexadecimal",
            hint,
        ));
    }
    let reason = given.value.as_deref().unwrap_or_default().trim();
    super::check_length("value", reason, MAX_REASON)?;
    match given.answer {
        AnswerWord::Yes if given.value.is_some() => {
            let message = "value is allowed only with the answer no";
            Err(Problem::invalid(message, "leave it out"))
        }
        AnswerWord::Yes => Ok(ApprovalVerdict::Once),
        AnswerWord::No => Ok(ApprovalVerdict::No {
            words: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        }),
    }
}

fn is_question(event: &TurnEvent, id: &str) -> bool {
    match event {
        TurnEvent::ApprovalRequested(request) => request.id == id,
        TurnEvent::ElicitationRequested(prompt) => prompt.id == id,
        _ => false,
    }
}

/// Says where a question was answered that is not open.
fn closed(session: &Session, id: &str) -> Problem {
    let Some(closed) = session.hub.closed_question(id) else {
        // Answered, but the turn has not taken the answer yet.
        let is_known = session.hub.running().is_some_and(|feed| feed.has_asked(id));
        return match is_known {
            true => conflict("the question was answered just now", NO_MORE),
            false => Problem::not_found(
                "the session has no such question",
                "agent.status of its events lists the open ones",
            ),
        };
    };
    let outcome = outcome_word(closed.outcome);
    let outcome = outcome.as_str().unwrap_or_default().replace('_', " ");
    let message = match closed.answered_in {
        Some(place) => format!("the question was answered in {place}: {outcome}"),
        None => format!("the question is closed: {outcome}"),
    };
    conflict(&message, NO_MORE)
}

/// Hint for a question that is not open.
const NO_MORE: &str = "show it as closed; agent.status of the session's events lists the open ones";

fn conflict(message: &str, hint: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "approval", message, hint)
}

fn other_digest() -> Problem {
    conflict(
        "this digest is not that of the question: something else was shown",
        "show the question again, and answer that",
    )
}

fn terminal_only(reason: Option<&str>) -> Problem {
    let reason = reason.map(|reason| format!(": {reason}"));
    let message = "this answer can be given only in the terminal";
    let message = format!("{message}{}", reason.unwrap_or_default());
    conflict(&message, "llm --attach shows the question")
}
