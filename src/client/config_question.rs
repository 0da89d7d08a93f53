//! The question about a configuration that was loosened since a person has seen it.

use super::connect;
use super::signals::SignalPipes;
use super::styled_line::{SpanStyle, fold, span};
use super::terminal_prompt::{PromptEnd, PromptKey, PromptResult, TerminalPrompt};
use crate::error::{Error, ErrorKind, Result};
use crate::paths::Paths;
use crate::protocol::{ConfigDifference, Request};
use crate::safety::text::one_line;

/// How to confirm the changes.
pub const CONFIRM_HINT: &str = "to see and confirm them, run llm in a terminal";

/// Longest line of the difference, in columns.
const MAX_LINE: usize = 1_000;

/// Asks about the changes and sends the decision.
///
/// # Errors
/// The question ended without an answer: [`ErrorKind::Interrupted`] after Ctrl-C.
pub fn ask(paths: &Paths, changes: &ConfigDifference) -> Result<()> {
    let signals = SignalPipes::catch()?;
    let answer =
        TerminalPrompt::open(&signals, None).and_then(|mut prompt| question(&mut prompt, changes));
    let accept = answer.map_err(|end| match end {
        PromptEnd::NoTerminal(reason) => {
            let message = format!("the configuration has changed, and {reason}");
            Error::new(ErrorKind::Approval, message).hint(CONFIRM_HINT)
        }
        _ => Error::new(ErrorKind::Interrupted, "interrupted; nothing was sent"),
    })?;
    let request = Request::ConfirmConfig {
        digest: changes.digest.clone(),
        accept,
    };
    connect::request(paths, &request)
}

fn question(prompt: &mut TerminalPrompt<'_>, changes: &ConfigDifference) -> PromptResult<bool> {
    loop {
        let head = vec![span(
            "the configuration asks less than before",
            SpanStyle::Bold,
        )];
        prompt.frame_line("┌", &head)?;
        for (sign, text) in &changes.lines {
            let text = format!(
                "{} {}",
                one_line(&sign.to_string(), 1),
                one_line(text, MAX_LINE)
            );
            for line in fold(&[span(text, SpanStyle::Plain)], prompt.width(), 4) {
                prompt.frame_line("│", &line)?;
            }
        }
        let keys = "[y] use it  [n] keep the stricter one ";
        if let Some(accept) = prompt.choose(keys, &answer)? {
            return Ok(accept);
        }
    }
}

fn answer(key: PromptKey) -> Option<(bool, &'static str)> {
    match key {
        PromptKey::Byte(b'y' | b'Y') => Some((true, "using it")),
        PromptKey::Byte(b'n' | b'N' | b'\n' | b'\r') => Some((false, "keeping the stricter one")),
        _ => None,
    }
}
