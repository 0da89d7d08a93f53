//! The question about a configuration that was loosened since a person has seen it.

use super::connect;
use super::signals::SignalPipes;
use super::styled_line::{SpanStyle, fold, span};
use super::terminal_prompt::{PromptEnd, PromptKey, PromptResult, TerminalPrompt};
use crate::config::{self, Config, ConfigChanges, ConfigOverrides};
use crate::error::{Error, ErrorKind, Result};
use crate::paths::Paths;
use crate::protocol::{ConfigDifference, Request};
use crate::safety::text::strict;

/// How to confirm the changes.
pub const CONFIRM_HINT: &str = "to see and confirm them, run llm in a terminal";

/// Returns what says which settings of a section wait for their confirmation: without it, the section seems to have no effect.
pub fn waiting_settings(paths: &Paths, section: &str) -> Option<String> {
    let mut settings = config::pending_changes(paths).ok()??.summaries();
    settings.retain(|one| {
        let key = one.trim_start_matches(['+', '-', ' ']);
        let rest = key.strip_prefix(section);
        rest.is_some_and(|rest| rest.starts_with('.'))
    });
    let settings = settings.join("; ");
    (!settings.is_empty()).then(|| format!("not in force: {settings}; {CONFIRM_HINT}"))
}

/// Returns the configuration in force, after a question about the changes that wait for a confirmation.
///
/// # Errors
/// As for [`ask`] and [`config::load`].
pub fn confirmed(paths: &Paths, overrides: &ConfigOverrides) -> Result<Config> {
    if let Some(ConfigChanges { digest, lines }) = config::pending_changes(paths)? {
        ask(paths, &ConfigDifference { digest, lines })?;
    }
    config::load_confirmed(paths, overrides)
}

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
            "the configuration has changed since you last saw it",
            SpanStyle::Bold,
        )];
        for (n, line) in fold(&head, prompt.width(), 0).iter().enumerate() {
            prompt.frame_line(if n == 0 { "┌" } else { "│" }, line)?;
        }
        for (sign, text) in &changes.lines {
            // Whole: the end of a command matters as much as its beginning.
            let text = strict(&format!("{sign} {text}"));
            for line in fold(&[span(text, SpanStyle::Plain)], prompt.width(), 4) {
                prompt.frame_line("│", &line)?;
            }
        }
        let keys = "[y] use it  [n] keep the one that you saw ";
        if let Some(accept) = prompt.choose(keys, &answer)? {
            return Ok(accept);
        }
    }
}

fn answer(key: PromptKey) -> Option<(bool, &'static str)> {
    match key {
        PromptKey::Byte(b'y' | b'Y') => Some((true, "using it")),
        PromptKey::Byte(b'n' | b'N' | b'\n' | b'\r') => {
            Some((false, "keeping the one that you saw"))
        }
        _ => None,
    }
}
