//! Turns words into one shell command, outside of any session.

use std::io::{self, Write};

use super::connect::{self, daemon_gone};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::protocol::tools::{ApprovalVerdict, Reaction};
use crate::protocol::{self, AskRequest, Event, Request, RequestFailure, kind};

/// Asks for a command and prints it, and nothing else. Returns the error if nothing is configured.
///
/// # Errors
/// The request failed, or the answer contains no command.
pub fn suggest(paths: &Paths, ask: AskRequest) -> Result<Option<Error>> {
    let request = Request::Ask(Box::new(ask));
    let mut connection = connect::to_daemon(paths, &request)?;
    let mut text = String::new();
    loop {
        match connection
            .read()
            .context(|| "cannot talk to the daemon".into())?
        {
            Some((kind::TEXT, body)) => text.push_str(&String::from_utf8_lossy(&body)),
            Some((kind::EVENT, body)) => match protocol::parse(&body)? {
                Event::EnvRequested { names } => connection.send_env(&names)?,
                // A model may mark the command as in a normal answer.
                Event::Proposal { command } => text.push_str(&format!("\n{command}\n")),
                // No tools are offered here, so no call can be approved.
                Event::ApprovalRequested(question) => connection.send(&protocol::json_frame(
                    kind::REACTION,
                    &Reaction::Call {
                        digest: question.shown_digest(),
                        id: question.id,
                        verdict: ApprovalVerdict::NoTerminal,
                        arguments: question.arguments,
                    },
                )?)?,
                _ => {}
            },
            Some((kind::REPLY, _)) => break,
            Some((kind::FAILURE, body)) => {
                let failure: RequestFailure = protocol::parse(&body)?;
                if failure.nothing_configured {
                    return Ok(Some(failure.into()));
                }
                return Err(failure.into());
            }
            Some(_) => {}
            None => return Err(daemon_gone()),
        }
    }
    match bare_command(&text) {
        Some(command) => {
            let line = format!("{command}\n");
            io::stdout()
                .write_all(line.as_bytes())
                .context(|| "cannot write the command".into())?;
            Ok(None)
        }
        None => Err(
            Error::runtime("the answer of the model contains no command")
                .hint("rephrase the request, or use another model with -m"),
        ),
    }
}

/// Returns the first line without decoration; models use fences and backticks despite the instructions.
///
/// A line with control or invisible characters is rejected, since it would go into the shell's edit buffer.
fn bare_command(text: &str) -> Option<&str> {
    let line = text
        .lines()
        .map(str::trim)
        .find(|l| !l.is_empty() && !l.starts_with("```"))?;
    let line = line.strip_prefix("CMD:").map_or(line, str::trim);
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = match line.strip_prefix('`').and_then(|l| l.strip_suffix('`')) {
        Some(inner) if !inner.contains('`') => inner,
        _ => line,
    };
    // Characters that the strict sink marks could hide a part of the command.
    let plain = crate::safety::text::strict(line) == line;
    (!line.is_empty() && plain).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::bare_command;

    #[test]
    fn a_command_is_found_in_an_answer() {
        for (said, command) in [
            ("ls -l\n", Some("ls -l")),
            ("```zsh\nls -l\n```\n", Some("ls -l")),
            ("`ls`", Some("ls")),
            ("$ ls", Some("ls")),
            ("CMD: ls", Some("ls")),
            ("echo `date`", Some("echo `date`")),
            ("\n\n", None),
            ("```\n```", None),
            ("ls \u{202e}", None),
            ("ls\x1b[2K", None),
            ("ls                                   ; evil", None),
            ("ls\u{a0}x", None),
        ] {
            assert_eq!(bare_command(said), command, "{said:?}");
        }
    }
}
