//! Sends one prompt and shows its answer.

use super::connect;
use super::output::AnswerOutput;
use super::output_options::OutputOptions;
use super::request_loop::{RequestEnd, RequestLoop};
use super::text_format::short_id;
use crate::chat::FinishReason;
use crate::error::{Error, ErrorKind, Result};
use crate::paths::Paths;
use crate::protocol::{
    self, AnswerSummary, AskAccepted, AskRequest, AttachRequest, ConfigDifference, PackText,
    Request, RequestFailure, ShownCost,
};

/// How a prompt ended.
#[derive(Debug)]
pub enum AskOutcome {
    /// Answered.
    Answered(AnswerSummary),
    /// Answered, with calls denied because there was no terminal to ask on.
    DeniedWithoutTerminal,
    /// No model is configured and none was found.
    NothingConfigured(Error),
    /// The configuration was loosened, and a person must confirm that first.
    ConfigChanged(ConfigDifference),
    /// The prompt uses a pack of the project that a person must approve first.
    PackUnapproved(PackText),
}

/// Sends a prompt and shows the answer.
///
/// # Errors
/// The request failed; [`ErrorKind::Interrupted`] after Ctrl-C.
pub fn ask(paths: &Paths, ask: AskRequest, options: OutputOptions) -> Result<AskOutcome> {
    show_answer(paths, &Request::Ask(Box::new(ask)), options)
}

/// Follows the running turn of a session, or shows its last answer.
///
/// # Errors
/// The request failed; [`ErrorKind::Interrupted`] after Ctrl-C.
pub fn attach(paths: &Paths, attach: AttachRequest, options: OutputOptions) -> Result<AskOutcome> {
    show_answer(paths, &Request::Attach(attach), options)
}

/// Sends a prompt whose turn continues without a client.
///
/// # Errors
/// The daemon did not accept the prompt.
pub fn ask_in_background(paths: &Paths, ask: AskRequest) -> Result<AskAccepted> {
    let ask = AskRequest {
        background: true,
        ..ask
    };
    connect::request(paths, &Request::Ask(Box::new(ask)))
}

fn show_answer(paths: &Paths, request: &Request, options: OutputOptions) -> Result<AskOutcome> {
    let mut output = AnswerOutput::new(options);
    let mut request_loop = RequestLoop::begin(paths, request, &mut output)?;
    let result = follow(&mut request_loop);
    let (missing_terminal, left) = (request_loop.missing_terminal, request_loop.left);
    // An answer that was interrupted elsewhere, or long ago, is shown like any other.
    let interrupted_here = matches!(request, Request::Ask(_)) || request_loop.was_interrupted();
    let session = request_loop.session.take();
    drop(request_loop);
    match result {
        Err(e) if left => {
            output.failed(&e);
            let hint = match session {
                // It may be that of another shell.
                Some(session) => format!("llm :attach {} shows it", short_id(&session)),
                None => "llm :attach shows it".to_owned(),
            };
            Err(Error::new(e.kind, "stopped following; the answer continues").hint(hint))
        }
        Err(e) if e.kind == ErrorKind::Interrupted => {
            let e = interrupted(&output);
            output.failed(&e);
            Err(e)
        }
        Err(e) => {
            output.failed(&e);
            Err(e)
        }
        Ok(AskOutcome::Answered(answer)) if answer.finish == FinishReason::Interrupted => {
            if interrupted_here {
                return Err(interrupted(&output));
            }
            output.notice("the answer was interrupted");
            Ok(AskOutcome::Answered(answer))
        }
        Ok(AskOutcome::Answered(_)) if missing_terminal => Ok(AskOutcome::DeniedWithoutTerminal),
        Ok(outcome) => Ok(outcome),
    }
}

fn follow(request_loop: &mut RequestLoop<'_>) -> Result<AskOutcome> {
    let answer: AnswerSummary = match request_loop.follow()? {
        RequestEnd::Reply(body) => protocol::parse(&body)?,
        RequestEnd::Failed(failure) if failure.nothing_configured => {
            return Ok(AskOutcome::NothingConfigured(failure.into()));
        }
        RequestEnd::Failed(RequestFailure {
            config_changes: Some(changes),
            ..
        }) => return Ok(AskOutcome::ConfigChanged(changes)),
        RequestEnd::Failed(RequestFailure {
            unapproved_pack: Some(pack),
            ..
        }) => return Ok(AskOutcome::PackUnapproved(pack)),
        RequestEnd::Failed(failure) => return Err(failure.into()),
        RequestEnd::OutputClosed => return Ok(AskOutcome::Answered(unread_answer())),
    };
    Ok(AskOutcome::Answered(
        match request_loop.show(|output| output.answer(&answer))? {
            true => answer,
            false => unread_answer(),
        },
    ))
}

fn interrupted(output: &AnswerOutput) -> Error {
    let message = match output.has_content() {
        true => "interrupted; what has arrived is kept",
        false => "interrupted",
    };
    Error::new(ErrorKind::Interrupted, message)
}

/// Placeholder for the answer when stdout is closed, which is not an error.
fn unread_answer() -> AnswerSummary {
    AnswerSummary {
        session: String::new(),
        model: String::new(),
        finish: FinishReason::Stop,
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
        proposals: 0,
    }
}
