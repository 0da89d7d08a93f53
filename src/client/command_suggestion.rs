//! Turns words into one shell command, outside of any session.

use std::io::{self, Write};

use super::connect::{self, daemon_gone};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::protocol::tools::{ApprovalVerdict, Reaction};
use crate::protocol::{self, AskRequest, Event, Request, RequestFailure, kind};
use crate::safety::shell_syntax::SyntaxScanner;
use crate::safety::text::{one_line, strict};

/// A part of an answer.
pub(super) enum AnswerPart {
    /// Text.
    Text(String),
    /// A command that is marked as in a normal answer.
    Command(String),
    /// A line of aish, parts of which may be untrusted.
    Notice(String),
}

/// Asks for a command and prints it, and nothing else. Returns the error if nothing is configured.
///
/// # Errors
/// The request failed, or the answer contains no command.
pub fn suggest(paths: &Paths, ask: AskRequest) -> Result<Option<Error>> {
    let mut text = String::new();
    let failure = receive(paths, ask, |part| match part {
        AnswerPart::Text(part) => text.push_str(&part),
        AnswerPart::Command(command) => text.push_str(&format!("\n{command}\n")),
        // The command goes into the edit buffer, where a notice would be in the way.
        AnswerPart::Notice(_) => {}
    })?;
    if failure.is_some() {
        return Ok(failure);
    }
    let command = bare_command(&text)?;
    io::stdout()
        .write_all(format!("{command}\n").as_bytes())
        .context(|| "cannot write the command".into())?;
    Ok(None)
}

/// Sends a request that belongs to no session and passes on the parts of its answer. Returns the error if nothing is
/// configured.
///
/// # Errors
/// The request failed.
pub(super) fn receive(
    paths: &Paths,
    ask: AskRequest,
    mut part: impl FnMut(AnswerPart),
) -> Result<Option<Error>> {
    let request = Request::Ask(Box::new(ask));
    let mut connection = connect::to_daemon(paths, &request)?;
    loop {
        match connection
            .read()
            .context(|| "cannot talk to the daemon".into())?
        {
            Some((kind::TEXT, body)) => {
                part(AnswerPart::Text(
                    String::from_utf8_lossy(&body).into_owned(),
                ));
            }
            Some((kind::EVENT, body)) => match protocol::parse(&body)? {
                Event::EnvRequested { names } => connection.send_env(&names)?,
                Event::Proposal { command } => part(AnswerPart::Command(command)),
                Event::Notice { text } => part(AnswerPart::Notice(text)),
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
            Some((kind::REPLY, _)) => return Ok(None),
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
}

/// Longest part of an answer in an error, in columns.
const ANSWER_COLUMNS: usize = 300;

/// Returns the first command without decoration; models use fences and backticks despite the instructions.
///
/// # Errors
/// The answer is a refusal, or contains characters that would be invisible in the shell's edit buffer.
fn bare_command(text: &str) -> Result<String> {
    let is_comment = |line: &str| line.starts_with('#');
    let mut lines = text.lines().skip_while(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with("```") || is_comment(line)
    });
    let Some(first) = lines.next() else {
        let mut comments = text.lines().map(str::trim).filter(|line| is_comment(line));
        let reason = comments
            .next()
            .map(|line| line.trim_start_matches('#').trim());
        return Err(no_command(reason.unwrap_or_default()));
    };
    let first = first.trim();
    let first = first.strip_prefix("CMD:").map_or(first, str::trim);
    let first = first.strip_prefix("$ ").unwrap_or(first);
    let first = match first.strip_prefix('`').and_then(|l| l.strip_suffix('`')) {
        Some(inner) if !inner.contains('`') => inner,
        _ => first,
    };
    if is_sentence(first) {
        return Err(no_command(text));
    }
    let mut command = first.to_owned();
    let mut syntax = SyntaxScanner::default();
    syntax.push_line(first);
    while !syntax.is_complete() {
        let next = lines.next();
        let is_fence = |line: &&str| line.starts_with("```") && !syntax.is_in_heredoc();
        let Some(next) = next.filter(|line| !is_fence(line)) else {
            return Err(Error::runtime(format!(
                "the command of the model is incomplete: {}",
                one_line(first, ANSWER_COLUMNS)
            )));
        };
        syntax.push_line(next);
        command.push('\n');
        command.push_str(next);
    }
    match is_plain(&command) {
        true => Ok(command),
        false => Err(no_command(text)),
    }
}

/// Returns whether all of the command is visible in the shell's edit buffer. Characters that the strict sink marks could hide
/// a part of it; indentation cannot.
pub(super) fn is_plain(command: &str) -> bool {
    let is_plain_line = |line: &str| {
        strict(line.trim_start_matches([' ', '\t'])) == line.trim_start_matches([' ', '\t'])
    };
    !command.is_empty() && command.lines().all(is_plain_line)
}

fn no_command(answer: &str) -> Error {
    let answer = one_line(answer.trim(), ANSWER_COLUMNS);
    let message = match answer.as_str() {
        "" => "the answer of the model contains no command".to_owned(),
        answer => format!("the model gave no command: {answer}"),
    };
    Error::runtime(message).hint("rephrase the request, or use another model with -m")
}

/// Returns whether a line is prose, such as a refusal or a question of the model, although zsh might parse it.
fn is_sentence(line: &str) -> bool {
    let Some(rest) = line.strip_suffix(['.', '!', '?', '…']) else {
        return false;
    };
    line.split_whitespace().count() > 2
        && rest.ends_with(|c: char| c.is_alphanumeric() || "'`\")’".contains(c))
        && !line.contains(['|', '<', '>', '$', '*', '=', '\\', '/', '~'])
        && !line.contains(" -")
}

#[cfg(test)]
mod tests {
    use super::bare_command;

    #[test]
    fn a_command_is_found_in_an_answer() {
        for (said, command) in [
            ("ls -l\n", "ls -l"),
            ("```zsh\nls -l\n```\n", "ls -l"),
            ("`ls`", "ls"),
            ("$ ls", "ls"),
            ("CMD: ls", "ls"),
            ("echo `date`", "echo `date`"),
            ("# list\nls", "ls"),
            ("rm file?", "rm file?"),
            ("cp a/b c/d e/.", "cp a/b c/d e/."),
            ("ls -l\nls -a", "ls -l"),
            (
                "```\nfor i in 1 2; do\n    ls\ndone\n```",
                "for i in 1 2; do\n    ls\ndone",
            ),
            ("\nCMD: ls \\\n  -l\n", "ls \\\n  -l"),
        ] {
            assert_eq!(bare_command(said).expect(said), command);
        }
    }

    #[test]
    fn a_refusal_is_an_error_with_the_words_of_the_model() {
        for (said, message) in [
            ("\n\n", "the answer of the model contains no command"),
            ("```\n```", "the answer of the model contains no command"),
            (
                "# No command does that",
                "the model gave no command: No command does that",
            ),
            (
                "I cannot do that.",
                "the model gave no command: I cannot do that.",
            ),
            (
                "find is not made for that!",
                "the model gave no command: find is not made for that!",
            ),
            (
                "which file do you mean?",
                "the model gave no command: which file do you mean?",
            ),
            ("ls \u{202e}", "the model gave no command: ls ‹\\u{202e}›"),
            ("ls\x1b[2K", "the model gave no command: ls‹\\x1b›[2K"),
            (
                "ls          ; evil",
                "the model gave no command: ls‹10 spaces›; evil",
            ),
            ("ls\u{a0}x", "the model gave no command: ls‹\\u{a0}›x"),
            (
                "```\nfor i in 1; do\n```",
                "the command of the model is incomplete: for i in 1; do",
            ),
            (
                "echo don't",
                "the command of the model is incomplete: echo don't",
            ),
        ] {
            assert_eq!(bare_command(said).expect_err(said).message, message);
        }
    }
}
