//! The question about a proposed command, asked on the user's terminal.
//!
//! The command that is shown is the command that runs. A command longer than the screen must be read to its end before
//! it can be accepted, and keys typed before the question was visible do not count.

use std::io::Write;
use std::time::Duration;

use super::approve::layout::{danger_lines, reason_lines};
use super::approve::type_yes;
use super::connect;
use super::output::print_notice;
use super::signals::SignalPipes;
use super::styled_line::{SpanStyle, StyledLine, fold, span, wrap};
use super::terminal::ControllingTty;
use super::terminal_prompt::pager::{PagerEnd, PagerKeys, read_or_leave};
use super::terminal_prompt::{
    PromptEnd, PromptKey, PromptResult, TerminalPrompt, key_events, key_fault,
};
use crate::config::env_overrides;
use crate::error::{Error, ErrorKind, Result};
use crate::paths::{self, Paths};
use crate::protocol::{CommandChoice, Continuation, DecisionReply, Proposal, Request, ShellId};
use crate::safety::command::{self, CommandAssessment, CommandPlace};
use crate::safety::text::{OwnedPiece, one_line, strict, strict_pieces};

/// Longest description of a rule's origin, in columns.
const RULE_COLUMNS: usize = 1000;

/// Longest command in the key that runs it again, in columns.
const AGAIN_COLUMNS: usize = 20;

const CTRL_D: u8 = 4;

/// The question about a failed command of the user whose output the terminal did not report.
const AGAIN_QUESTION: &str = "run it again, for its output?";

const KEYS: &str = "[y] run  [e] edit  [i] put on the command line  [n] no  [q] quit  [?] ";
/// The keys where the output can go back to the model immediately.
const CONTINUE_KEYS: &str =
    "[y] run  [c] run and continue  [e] edit  [i] insert  [n] no  [q] quit  [?] ";
/// The keys where it always does.
const ALWAYS_KEYS: &str = "[y] run and continue  [e] edit  [i] insert  [n] no  [q] quit  [?] ";
/// The keys for a command that zsh cannot parse.
const INCOMPLETE_KEYS: &str = "[e] edit  [i] put on the command line  [n] no  [q] quit  [?] ";

/// Width of the column of keys in the help.
const KEY_WIDTH: usize = 10;

/// What to do with the next proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalStep {
    /// Return the command, so that zsh can parse it.
    Check,
    /// Ask about it.
    Ask,
    /// Ask about a command that zsh cannot parse, without offering to run it.
    AskIncomplete,
    /// Say how many commands are left: the user has interrupted the questions.
    Interrupted,
}

/// Next step of the zsh function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalOutcome {
    /// Check whether zsh can parse the command, then ask about it.
    Check(String),
    /// Run the command.
    Run {
        /// Token of the proposal.
        token: String,
        /// The command, exactly as shown.
        command: String,
        /// The command gets the terminal for itself and its output is not captured.
        terminal: bool,
        /// Data that the shell must send with its reports about the command.
        nonce: String,
        /// When it has ended, its output goes back to the model.
        continues: bool,
    },
    /// Let the user edit the command (token, command), then ask again.
    Edit(String, String),
    /// Put the command (token, command) into the edit buffer.
    Insert(String, String),
    /// This command was refused; ask about the next one.
    Refused(String),
    /// This command and all others were refused.
    Quit,
    /// No proposal is waiting.
    NothingWaiting,
}

impl ProposalOutcome {
    /// Formats the outcome for the zsh function: a line of words, then the command if there is one.
    pub fn lines(&self) -> String {
        match self {
            ProposalOutcome::Check(command) => format!("check\n{command}"),
            ProposalOutcome::Run {
                token,
                command,
                terminal,
                nonce,
                continues,
            } => {
                let output_mode = if *terminal { "terminal" } else { "capture" };
                let then = if *continues { " continue" } else { "" };
                format!("run {token} {output_mode} {nonce}{then}\n{command}")
            }
            ProposalOutcome::Edit(token, command) => format!("edit {token}\n{command}"),
            ProposalOutcome::Insert(token, command) => format!("insert {token}\n{command}"),
            ProposalOutcome::Refused(token) => format!("no {token}"),
            ProposalOutcome::Quit => "quit".to_string(),
            ProposalOutcome::NothingWaiting => "none".to_string(),
        }
    }
}

/// Asks about the next proposal of `shell`; `edited` is its token and the command as the user edited it.
///
/// # Errors
/// There is no terminal (exit code 4), or the daemon could not record the answer.
pub fn propose(
    paths: &Paths,
    shell: &ShellId,
    cwd: &str,
    edited: Option<(String, String)>,
    step: ProposalStep,
) -> Result<ProposalOutcome> {
    if step == ProposalStep::Interrupted {
        // A rule may deny some of them, which is said where they are offered.
        let shell = shell.clone();
        print_left(connect::request(paths, &Request::CountProposals { shell })?);
        return Ok(ProposalOutcome::NothingWaiting);
    }
    let overrides = env_overrides()?;
    let request = Request::NextProposal {
        shell: shell.clone(),
        cwd: cwd.to_string(),
        overrides: overrides.clone(),
    };
    let Some(proposal) = connect::request::<Option<Proposal>>(paths, &request)? else {
        return Ok(ProposalOutcome::NothingWaiting);
    };
    if let Some(rule) = &proposal.denied {
        let command = strict(&proposal.command);
        let rule = one_line(rule, RULE_COLUMNS);
        let line = format!("[aish] not offered: {rule} says deny: {command}\n");
        // A closed stderr cannot be reported anywhere.
        let _ = std::io::stderr().write_all(line.as_bytes());
        return Ok(ProposalOutcome::Refused(proposal.token));
    }
    let (command, was_edited) = match edited {
        Some((token, text)) if token == proposal.token => (text, true),
        Some(_) => return Err(Error::runtime("this proposal is no longer waiting")),
        None => (proposal.command.clone(), false),
    };
    if step == ProposalStep::Check {
        return Ok(ProposalOutcome::Check(command));
    }
    if let Some(last) = proposal.last_key {
        key_events::set_last_key(last.key, Duration::from_millis(last.age_ms));
    }
    let token = proposal.token.clone();
    let is_incomplete = step == ProposalStep::AskIncomplete;
    let needs_question = proposal.confirm || was_edited || is_incomplete;
    let decide = |choice, continues| -> Result<DecisionReply> {
        let request = Request::Decide {
            shell: shell.clone(),
            token: token.clone(),
            choice,
            command: command.clone(),
            cwd: cwd.to_string(),
            asked: needs_question,
            continues,
            key: needs_question.then(key_events::last_key).flatten(),
            overrides: overrides.clone(),
        };
        connect::request(paths, &request)
    };
    let key = if command.trim().is_empty() {
        ProposalKey::No
    } else if needs_question {
        // After Ctrl-C the command keeps waiting.
        question(&proposal, &command, cwd, is_incomplete)?
    } else {
        // Allowed by a rule of the user or by confirm_cmd = false. Without a terminal nothing runs even then.
        ControllingTty::open()?;
        ProposalKey::Yes
    };
    let more = proposal.of.saturating_sub(proposal.number);
    Ok(match key {
        ProposalKey::Yes | ProposalKey::Continue => {
            let continues =
                key == ProposalKey::Continue || proposal.continuation == Continuation::Always;
            let decided = decide(CommandChoice::Run, continues)?;
            if continues && more > 0 {
                print_notice(&format!(
                    "{more} more will not be offered: the model goes on with the output of this one"
                ));
            }
            ProposalOutcome::Run {
                token,
                command,
                terminal: decided.terminal,
                nonce: decided.nonce,
                continues,
            }
        }
        // The next question is the one about that command.
        ProposalKey::Again => {
            decide(CommandChoice::Again, false)?;
            ProposalOutcome::Refused(token)
        }
        ProposalKey::Edit => ProposalOutcome::Edit(token, command),
        ProposalKey::Insert => {
            decide(CommandChoice::Insert, false)?;
            print_left(more);
            ProposalOutcome::Insert(token, command)
        }
        ProposalKey::No => {
            decide(CommandChoice::No, false)?;
            ProposalOutcome::Refused(token)
        }
        // The question itself explains the keys.
        ProposalKey::Quit | ProposalKey::Help => {
            decide(CommandChoice::Quit, false)?;
            ProposalOutcome::Quit
        }
    })
}

/// Says how the commands that were not decided are offered again.
fn print_left(count: usize) {
    match count {
        0 => {}
        1 => print_notice("1 left: llm :attach offers it"),
        _ => print_notice(&format!("{count} left: llm :attach offers them")),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProposalKey {
    Yes,
    Continue,
    Again,
    Edit,
    Insert,
    No,
    Quit,
    /// Explain the keys.
    Help,
}

/// Keys that refuse the command. Enter alone refuses: it is the key that is pressed without reading.
fn refusal(key: PromptKey) -> Option<(ProposalKey, &'static str)> {
    match key {
        PromptKey::Byte(b'n' | b'N' | b'\n' | b'\r') => Some((ProposalKey::No, "no")),
        PromptKey::Byte(b'q' | b'Q' | CTRL_D) => Some((ProposalKey::Quit, "quit")),
        _ => None,
    }
}

fn answer(key: PromptKey) -> Option<(ProposalKey, &'static str)> {
    match key {
        PromptKey::Byte(b'y' | b'Y') => Some((ProposalKey::Yes, "yes")),
        PromptKey::Byte(b'c' | b'C') => Some((ProposalKey::Continue, "run and continue")),
        PromptKey::Byte(b'r' | b'R') => Some((ProposalKey::Again, "again")),
        PromptKey::Byte(b'e' | b'E') => Some((ProposalKey::Edit, "edit")),
        PromptKey::Byte(b'i' | b'I') => Some((ProposalKey::Insert, "insert")),
        PromptKey::Byte(b'?') => Some((ProposalKey::Help, "?")),
        key => refusal(key),
    }
}

/// Whether the question offers the key.
fn is_offered(key: ProposalKey, proposal: &Proposal, is_incomplete: bool) -> bool {
    match key {
        ProposalKey::Yes => !is_incomplete,
        ProposalKey::Continue => !is_incomplete && proposal.continuation == Continuation::Offered,
        ProposalKey::Again => is_before(proposal),
        _ => true,
    }
}

/// Whether another command can be run again before this one.
fn is_before(proposal: &Proposal) -> bool {
    let again = proposal.again.as_ref();
    again.is_some_and(|again| *again != proposal.command)
}

/// Draws the question and waits for its answer.
fn question(
    proposal: &Proposal,
    command: &str,
    cwd: &str,
    is_incomplete: bool,
) -> Result<ProposalKey> {
    let home = paths::variable("HOME").unwrap_or_default();
    // The command as it was edited last.
    let place = CommandPlace {
        cwd,
        home: &home.to_string_lossy(),
        workspace: &[],
    };
    let assessed = command::assess(command, &place);
    // Before signals are caught: without a terminal the error says how to get one.
    drop(ControllingTty::open()?);
    let signals = SignalPipes::catch()?;
    let answer = TerminalPrompt::open(&signals, None)
        .and_then(|mut prompt| ask(&mut prompt, proposal, command, &assessed, is_incomplete));
    answer.map_err(|end| match end {
        PromptEnd::NoTerminal(reason) => {
            Error::new(ErrorKind::Approval, format!("{reason}, so nothing was run"))
                .hint("run llm in a terminal to decide on proposed commands")
        }
        _ => Error::new(
            ErrorKind::Interrupted,
            "interrupted; this command was not run",
        ),
    })
}

fn ask(
    prompt: &mut TerminalPrompt<'_>,
    proposal: &Proposal,
    command: &str,
    assessed: &CommandAssessment,
    is_incomplete: bool,
) -> PromptResult<ProposalKey> {
    let pager_keys = PagerKeys {
        hints: [
            "more lines: [space] read on  [n] no  [q] quit ",
            "more: [space] [n] no [q] quit ",
        ],
        reserved_rows: 4,
        leaving_answers: true,
        leave: &refusal,
    };
    let mut ask_until_answered = || -> PromptResult<ProposalKey> {
        loop {
            let (question, keys) = match (is_incomplete, proposal.continuation) {
                (true, _) => ("incomplete command", INCOMPLETE_KEYS),
                (_, Continuation::Offered) => ("run this command?", CONTINUE_KEYS),
                (_, Continuation::Always) => ("run this command?", ALWAYS_KEYS),
                (_, Continuation::LimitReached(_) | Continuation::Never) => {
                    ("run this command?", KEYS)
                }
            };
            let keys = match &proposal.again {
                Some(again) if is_before(proposal) => format!(
                    "[r] first run {} again  {keys}",
                    one_line(again, AGAIN_COLUMNS)
                ),
                _ => keys.to_owned(),
            };
            let is_typed = assessed.needs_typed_yes();
            let keys = match is_typed {
                // Both ask for the word.
                true => keys
                    .replace("[y]", "[yes]")
                    .replace("[c] run", "[c] yes: run"),
                false => keys,
            };
            let question = match proposal.again.as_deref() == Some(command) {
                true if !is_incomplete => AGAIN_QUESTION,
                _ => question,
            };
            let mut head = vec![span(question, SpanStyle::Bold)];
            if proposal.of > 1 {
                let position = format!("  {} of {}", proposal.number, proposal.of);
                head.push(span(position, SpanStyle::Dim));
            }
            prompt.frame_line("┌", &head)?;
            let lines = |width| {
                let mut lines = command_lines(command, width);
                if let Some(danger) = assessed.warning() {
                    lines.extend(danger_lines(&danger, width));
                }
                if let Some(why) = &proposal.why {
                    lines.extend(reason_lines(why, width));
                }
                if let Continuation::LimitReached(limit) = proposal.continuation {
                    let notice = format!(
                        "mcp.max_tool_depth = {limit} is reached: the output waits for your next prompt"
                    );
                    lines.extend(fold(&[span(notice, SpanStyle::Dim)], width, 2));
                }
                lines
            };
            if let PagerEnd::Left(key) = read_or_leave(prompt, &lines, &pager_keys)? {
                return Ok(key);
            }
            let meaning = |key| match answer(key) {
                Some((key, _)) if !is_offered(key, proposal, is_incomplete) => None,
                // The word is typed below.
                Some((ProposalKey::Yes, _)) if is_typed => Some((ProposalKey::Yes, "")),
                answer => answer,
            };
            let fault = |key| key_fault(key, is_typed);
            while let Some(key) = prompt.choose_or_report(&keys, &meaning, &fault)? {
                let begun = match key {
                    ProposalKey::Yes => "y",
                    ProposalKey::Continue => "",
                    ProposalKey::Help => {
                        let is_offered = |key| is_offered(key, proposal, is_incomplete);
                        for line in key_lines(&is_offered, is_typed, prompt.width()) {
                            prompt.frame_line("│", &line)?;
                        }
                        continue;
                    }
                    _ => return Ok(key),
                };
                if !is_typed || type_yes(prompt, begun)? {
                    return Ok(key);
                }
            }
        }
    };
    let result = ask_until_answered();
    if result == Err(PromptEnd::Interrupted) {
        prompt.write("\n")?;
    }
    result
}

/// Returns the effect of each offered key.
fn key_lines(
    is_offered: &dyn Fn(ProposalKey) -> bool,
    is_typed: bool,
    width: usize,
) -> Vec<StyledLine> {
    let yes = if is_typed { "yes" } else { "y" };
    let keys = [
        (
            ProposalKey::Again,
            "r",
            "first run your command again, for its output",
        ),
        (
            ProposalKey::Yes,
            yes,
            "run the command, exactly as shown, in this shell",
        ),
        (
            ProposalKey::Continue,
            "c",
            "run it, then send its output to the model, which goes on",
        ),
        (
            ProposalKey::Edit,
            "e",
            "edit the command; the edited command is asked about again",
        ),
        (
            ProposalKey::Insert,
            "i",
            "put the command on the command line and run nothing",
        ),
        (
            ProposalKey::No,
            "n, Enter",
            "do not run this command; the next one is asked about",
        ),
        (
            ProposalKey::Quit,
            "q",
            "run neither this command nor those after it",
        ),
        (
            ProposalKey::Quit,
            "Ctrl-C",
            "run nothing now; llm :attach offers this command and those after it again",
        ),
    ];
    let offered = keys.into_iter().filter(|(key, ..)| is_offered(*key));
    let lines = offered.map(|(_, name, does)| {
        let name = span(format!("{name:<KEY_WIDTH$}"), SpanStyle::Name);
        fold(&[name, span(does, SpanStyle::Plain)], width, KEY_WIDTH)
    });
    lines.flatten().collect()
}

/// Lays the command out in `width` columns; a newline in the command is marked and also breaks the line.
fn command_lines(command: &str, width: usize) -> Vec<StyledLine> {
    let mut spans = Vec::new();
    for piece in strict_pieces(command) {
        match piece {
            OwnedPiece::Text(text) => spans.push(span(text, SpanStyle::Bold)),
            OwnedPiece::Mark(mark) => {
                let is_newline = mark.contains("\\n");
                spans.push(span(mark, SpanStyle::Mark));
                spans.extend(is_newline.then(|| span("\n", SpanStyle::Plain)));
            }
        }
    }
    wrap(&spans, width, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newline_is_marked_and_ends_a_line() {
        let text: Vec<String> = command_lines("a\nb\n", 80)
            .iter()
            .map(|line| line.iter().map(|span| span.text.as_str()).collect())
            .collect();
        assert_eq!(text, ["a‹\\n›", "b‹\\n›"]);
    }

    #[test]
    fn an_outcome_carries_the_command_unchanged() {
        let outcome = ProposalOutcome::Run {
            token: "t".into(),
            command: "echo  'a\nb'".into(),
            terminal: false,
            nonce: "n".into(),
            continues: true,
        };
        assert_eq!(outcome.lines(), "run t capture n continue\necho  'a\nb'");
    }
}
