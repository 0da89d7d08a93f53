//! One prompt, from the words to the last line: sends it, and shows what comes.

use super::output::{Format, Output};
use super::serve::{End, Serving};
use crate::chat::Finish;
use crate::error::{Error, Kind, Result};
use crate::paths::Paths;
use crate::protocol::{self, AnswerSummary, Ask, Request};

/// What became of a prompt.
#[derive(Debug)]
pub enum Outcome {
    /// It was answered; so many commands are proposed.
    Answered(AnswerSummary),
    /// It was answered, but for calls that there was no terminal to ask about.
    Unasked,
    /// Nothing is configured and nothing was found.
    NothingConfigured(Error),
}

/// Sends a prompt and shows the answer.
///
/// # Errors
/// What failed; [`Kind::Interrupted`] after Ctrl-C.
pub fn ask(paths: &Paths, ask: Ask, format: Format) -> Result<Outcome> {
    let mut output = Output::new(format);
    let mut serving = Serving::begin(paths, &Request::Ask(Box::new(ask)), &mut output)?;
    let result = follow(&mut serving);
    let unasked = serving.unasked;
    drop(serving);
    let result = match result {
        Err(e) if e.kind == Kind::Interrupted => Err(interrupted_by_person(&output)),
        other => other,
    };
    match &result {
        Ok(Outcome::Answered(answer)) if answer.finish == Finish::Interrupted => {
            Err(interrupted_by_person(&output))
        }
        Ok(Outcome::Answered(_)) if unasked => Ok(Outcome::Unasked),
        Err(e) => {
            output.failed(e);
            result
        }
        _ => result,
    }
}

fn follow(serving: &mut Serving<'_>) -> Result<Outcome> {
    let answer: AnswerSummary = match serving.follow()? {
        End::Reply(body) => protocol::parse(&body)?,
        End::Failed(failure) if failure.nothing_configured => {
            return Ok(Outcome::NothingConfigured(failure.into()));
        }
        End::Failed(failure) => return Err(failure.into()),
        End::Closed => return Ok(Outcome::Answered(nobody_reads())),
    };
    Ok(Outcome::Answered(
        match serving.show(|output| output.answer(&answer))? {
            true => answer,
            false => nobody_reads(),
        },
    ))
}

fn interrupted_by_person(output: &Output) -> Error {
    let message = match output.any() {
        true => "interrupted; what has arrived is kept",
        false => "interrupted",
    };
    Error::new(Kind::Interrupted, message)
}

/// Nobody reads the answer any more; that is no failure of ours.
fn nobody_reads() -> AnswerSummary {
    AnswerSummary {
        session: String::new(),
        model: String::new(),
        finish: Finish::Stop,
        prompt_tokens: None,
        completion_tokens: None,
        seconds: 0.0,
        cost: None,
        proposals: 0,
    }
}
