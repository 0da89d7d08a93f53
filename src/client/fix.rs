//! Explains why a command failed and corrects it: a mistyped name here, everything else with one request to a model.

use super::command_suggestion::{AnswerPart, is_plain, receive};
use super::nearest_command::nearest_command;
use crate::error::{Error, Result};
use crate::paths::Paths;
use crate::protocol::{AskPurpose, AskRequest};
use crate::safety::text::one_line;

/// Maximum number of lines of an explanation.
const MAX_LINES: usize = 2;
/// Longest line of an explanation, in columns.
const LINE_COLUMNS: usize = 300;
/// Said of a correction that would not look in the edit buffer as it runs.
const NOT_PLAIN: &str =
    "Its command is not put on the line: it has control characters or invisible ones.";
/// Exit code of zsh for a command that it does not find.
const NOT_FOUND: i32 = 127;

/// The command that failed, as the plugin describes it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FailedLine {
    /// The command line.
    pub command: String,
    /// Its exit code.
    pub exit: i32,
    /// The first name in it that is not a command, with the text before and after it.
    pub unknown: Option<UnknownName>,
}

/// A name that is not a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct UnknownName {
    before: String,
    word: String,
    after: String,
    /// Names of all commands of the shell.
    names: Vec<String>,
    /// First words of the history.
    used: Vec<String>,
}

/// An explanation, and the corrected command.
#[derive(Debug, PartialEq, Eq)]
pub struct Correction {
    /// One or two lines, and the notices of aish; safe to show.
    pub explanation: Vec<String>,
    /// The command; `None` if there is none.
    pub command: Option<String>,
}

impl FailedLine {
    /// Parses the description: command, exit code, and the parts of the line, each ended by NUL; then the names of the
    /// commands, an empty field, and the first words of the history.
    ///
    /// # Errors
    /// The description is malformed.
    pub fn parse(description: &[u8]) -> Result<FailedLine> {
        let malformed = || Error::usage("malformed description of a command");
        let text = String::from_utf8_lossy(description);
        let mut fields = text.split_terminator('\0').map(str::to_owned);
        let mut next = || fields.next().ok_or_else(malformed);
        let command = next()?;
        let exit = next()?.parse().map_err(|_| malformed())?;
        let (before, word, after) = (next()?, next()?, next()?);
        let names: Vec<String> = fields
            .by_ref()
            .take_while(|name| !name.is_empty())
            .collect();
        let unknown = UnknownName {
            before,
            word,
            after,
            names,
            used: fields.collect(),
        };
        Ok(FailedLine {
            command,
            exit,
            unknown: Some(unknown).filter(|unknown| !unknown.word.is_empty()),
        })
    }

    /// Returns the correction of a mistyped name.
    pub fn without_model(&self) -> Option<Correction> {
        let unknown = self.unknown.as_ref().filter(|_| self.exit == NOT_FOUND)?;
        let used: Vec<&str> = unknown.used.iter().map(String::as_str).collect();
        let names = unknown.names.iter().map(String::as_str);
        let meant = nearest_command(&unknown.word, names, &used)?;
        let word = one_line(&unknown.word, LINE_COLUMNS);
        Some(Correction {
            explanation: vec![
                format!("{word}: no command has this name, or it is not installed."),
                format!("{meant} is the nearest one here. No model was asked."),
            ],
            command: Some(format!("{}{meant}{}", unknown.before, unknown.after)),
        })
    }
}

/// Asks a model for the correction of a command. `ask` has the shell and the surroundings of the request.
///
/// # Errors
/// The request failed, no model is configured, or the answer is empty.
pub fn ask_model(paths: &Paths, failed: &FailedLine, ask: AskRequest) -> Result<Correction> {
    let ask = AskRequest {
        text: failed.command.clone(),
        purpose: AskPurpose::Fix { exit: failed.exit },
        ..ask
    };
    let (mut text, mut commands, mut notices) = (String::new(), Vec::new(), Vec::new());
    let failure = receive(paths, ask, |part| match part {
        AnswerPart::Text(part) => text.push_str(&part),
        AnswerPart::Command(command) => commands.push(command),
        AnswerPart::Notice(line) => notices.push(one_line(&line, LINE_COLUMNS)),
    })?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut correction = correction(&text, commands.into_iter().next())?;
    correction.explanation.extend(notices);
    Ok(correction)
}

/// Makes a correction of an answer whose `CMD:` line is `command`.
fn correction(text: &str, command: Option<String>) -> Result<Correction> {
    let is_prose =
        |line: &&str| !line.is_empty() && !line.starts_with("```") && !line.starts_with("CMD:");
    let lines = text.lines().map(str::trim).filter(is_prose);
    let mut explanation: Vec<String> = lines
        .take(MAX_LINES)
        .map(|line| one_line(line, LINE_COLUMNS))
        .collect();
    let proposed = command.is_some();
    let command = command.filter(|command| is_plain(command));
    if proposed && command.is_none() {
        explanation.push(NOT_PLAIN.to_owned());
    }
    if explanation.is_empty() && command.is_none() {
        return Err(Error::runtime("the answer of the model is empty")
            .hint("try again, or use another model: llm :model NAME"));
    }
    Ok(Correction {
        explanation,
        command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_replaced_where_it_stands() {
        let description =
            b"cd gti && gti 'status'\x00127\0cd gti && \0gti\0 'status'\0git\0cat\0\0ls\0git\0";
        let failed = FailedLine::parse(description).expect("a description");
        let correction = failed.without_model().expect("a correction");
        assert_eq!(
            correction.command.as_deref(),
            Some("cd gti && git 'status'")
        );
        assert_eq!(correction.explanation.len(), 2);
        let other = FailedLine { exit: 1, ..failed };
        assert_eq!(other.without_model(), None, "not a missing command");
        let failed = FailedLine::parse(b"make\x002\0\0\0\0").expect("a description");
        assert_eq!((failed.exit, failed.unknown), (2, None));
        for bad in [&b""[..], b"make\0", b"make\0x\0\0\0\0", b"make\x002\0\0\0"] {
            assert!(FailedLine::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_answer_is_two_lines_and_a_command() {
        let of = |text: &str, command: Option<&str>| correction(text, command.map(str::to_owned));
        let ok = of(
            "It is misspelt.\n\nStatus is shown.\nMore.\n",
            Some("git status"),
        )
        .expect("one");
        assert_eq!(ok.explanation, ["It is misspelt.", "Status is shown."]);
        assert_eq!(ok.command.as_deref(), Some("git status"));
        let hostile = of("a\x1b]0;x\x07b", Some("ls \u{202e}")).expect("one");
        assert_eq!(hostile.command, None);
        assert!(!hostile.explanation.concat().contains('\x1b'));
        assert_eq!(
            of("```\nonly text\n```\n", None).expect("one").explanation,
            ["only text"]
        );
        assert!(of("\n \n", None).is_err());
    }
}
