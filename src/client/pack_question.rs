//! The question about a prompt pack of a project that nobody has approved.

use super::connect;
use super::signals::SignalPipes;
use super::styled_line::{SpanStyle, fold, span};
use super::terminal_prompt::{PromptEnd, PromptKey, PromptResult, TerminalPrompt};
use crate::error::{Error, ErrorKind, Result};
use crate::paths::Paths;
use crate::protocol::{PackText, Request};
use crate::safety::text::strict;

/// Shows the whole pack, asks about it and sends the approval.
///
/// # Errors
/// The person wants another pack or none, or there is no terminal; [`ErrorKind::Interrupted`] after Ctrl-C.
pub fn ask(paths: &Paths, pack: &PackText) -> Result<()> {
    let signals = SignalPipes::catch()?;
    let answer =
        TerminalPrompt::open(&signals, None).and_then(|mut prompt| question(&mut prompt, pack));
    let refused = |why: &str| {
        let message = format!(
            "the prompt pack @{} of this project is not approved{why}",
            pack.name
        );
        Error::new(ErrorKind::Approval, message)
    };
    let accept = answer.map_err(|end| match end {
        PromptEnd::NoTerminal(reason) => {
            refused(&format!(", and {reason}")).hint("to see and approve it, run llm in a terminal")
        }
        _ => Error::new(ErrorKind::Interrupted, "interrupted; nothing was sent"),
    })?;
    if !accept {
        return Err(refused("; nothing was sent").hint("use another one with --prompt, or none"));
    }
    let request = Request::ApprovePack {
        sha256: pack.sha256.clone(),
    };
    connect::request(paths, &request)
}

fn question(prompt: &mut TerminalPrompt<'_>, pack: &PackText) -> PromptResult<bool> {
    loop {
        let head = format!(
            "this project has instructions for the model: @{}",
            pack.name
        );
        prompt.frame_line("┌", &vec![span(strict(&head), SpanStyle::Bold)])?;
        let shown = |text: &str| fold(&[span(strict(text), SpanStyle::Plain)], prompt.width(), 4);
        let mut lines = shown(&pack.path);
        for (key, text) in &pack.texts {
            lines.push(vec![span(strict(key), SpanStyle::Bold)]);
            // Whole: the end of a text matters as much as its beginning.
            lines.extend(text.lines().flat_map(|line| shown(&format!("  {line}"))));
        }
        for line in lines {
            prompt.frame_line("│", &line)?;
        }
        let keys = "[y] use them, until they change  [n] do not ";
        if let Some(accept) = prompt.choose(keys, &answer)? {
            return Ok(accept);
        }
    }
}

fn answer(key: PromptKey) -> Option<(bool, &'static str)> {
    match key {
        PromptKey::Byte(b'y' | b'Y') => Some((true, "using them")),
        PromptKey::Byte(b'n' | b'N' | b'\n' | b'\r') => Some((false, "not using them")),
        _ => None,
    }
}
