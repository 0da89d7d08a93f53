//! The question whether a browser that wants to be paired shows the code of this terminal.

use super::signals::SignalPipes;
use super::styled_line::{SpanStyle, span};
use super::terminal_prompt::{PromptEnd, PromptKey, PromptResult, TerminalPrompt};
use crate::error::{Error, ErrorKind, Result};
use crate::safety::text::one_line;

/// Asks about the code that the page at `address` shows. Enter refuses.
///
/// # Errors
/// There is no terminal; [`ErrorKind::Interrupted`] after Ctrl-C.
pub fn ask(address: &str, code: &str) -> Result<bool> {
    let signals = SignalPipes::catch()?;
    let answer = TerminalPrompt::open(&signals, None)
        .and_then(|mut prompt| question(&mut prompt, address, code));
    answer.map_err(|end| match end {
        PromptEnd::NoTerminal(reason) => {
            let message = format!("the browser is not paired: {reason}");
            Error::new(ErrorKind::Approval, message)
                .hint("run aish-helper web --approve in a terminal")
        }
        _ => Error::new(ErrorKind::Interrupted, "interrupted; no browser is paired"),
    })
}

fn question(prompt: &mut TerminalPrompt<'_>, address: &str, code: &str) -> PromptResult<bool> {
    loop {
        let code = span(one_line(code, 40), SpanStyle::Bold);
        let head = [
            vec![
                span(
                    format!("the page at {} shows a code; is it ", one_line(address, 60)),
                    SpanStyle::Plain,
                ),
                code,
                span(" ?", SpanStyle::Plain),
            ],
            vec![span(
                "then that browser may allow tool calls of your sessions, as your terminal may",
                SpanStyle::Dim,
            )],
        ];
        for (n, line) in head.iter().enumerate() {
            prompt.frame_line(if n == 0 { "┌" } else { "│" }, line)?;
        }
        let keys = "[y] it is this code, pair the browser  [n] it is not, or there is none ";
        if let Some(accept) = prompt.choose(keys, &answer)? {
            return Ok(accept);
        }
    }
}

fn answer(key: PromptKey) -> Option<(bool, &'static str)> {
    match key {
        PromptKey::Byte(b'y' | b'Y') => Some((true, "yes")),
        PromptKey::Byte(b'n' | b'N' | b'\n' | b'\r') => Some((false, "no")),
        _ => None,
    }
}
