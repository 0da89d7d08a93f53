//! The output of the user's own commands, as the terminal of the shell still has it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::context::align::{self, KnownCommand, RunningLine};
use crate::error::{Error, Result};
use crate::history::record::{CommandOutput, RecordBody, is_aish};
use crate::protocol::{AskRequest, ShellId, TerminalOutput};
use crate::recording::command_output::{self, RenderedOutput};
use crate::recording::event::GapReason;
use crate::recording::list;
use crate::safety::job_notices::{RecordedLines, has_other_job};
use crate::safety::redact::global_redactor;
use crate::services::SharedServices;
use crate::session::lock;
use crate::session::shell_registry::{KeptCommand, ShellOnScreen};
use crate::terminal::{self, TerminalIdentity, TerminalText};
use crate::tools::builtin::OUTPUT_LINES;

/// Maximum time for reading a terminal and searching its text, which may be made to be slow to search.
const CUT_LIMIT: Duration = Duration::from_secs(1);

/// [`TerminalOutput::source`] of the captured output of an approved command.
pub const APPROVED_SOURCE: &str = "the approved command";

/// Which output is wanted.
#[derive(Debug, Clone)]
pub struct WantedOutput {
    /// The shell.
    pub shell: ShellId,
    /// The command to show, counted backwards: 1 is the last command. Calls of aish are not counted.
    pub command: usize,
    /// The command line that runs now, if it is known.
    pub running: Option<String>,
    /// Words that are most likely part of that line.
    pub words: Option<String>,
    /// The current directory of the shell.
    pub cwd: String,
    /// The variables of the client that identify its terminal, in case the shell has not sent them.
    pub terminal: BTreeMap<String, String>,
}

impl WantedOutput {
    /// Returns the last command of the shell in which a prompt was asked.
    pub fn of(shell: &ShellId, ask: &AskRequest) -> WantedOutput {
        WantedOutput {
            running: ask.line.clone(),
            cwd: ask.cwd.clone(),
            terminal: ask.terminal.clone(),
            ..WantedOutput::last(shell.clone())
        }
    }

    /// Returns the last command of a shell.
    pub fn last(shell: ShellId) -> WantedOutput {
        WantedOutput {
            shell,
            command: 1,
            running: None,
            words: None,
            cwd: String::new(),
            terminal: BTreeMap::new(),
        }
    }
}

/// Reads the terminal of a shell, and cuts out the output of a command.
///
/// # Errors
/// There is no such command, the terminal cannot be read, or the output cannot be told from that of other commands. The message
/// is one line.
pub async fn read(services: &SharedServices, wanted: WantedOutput) -> Result<TerminalOutput> {
    let on_screen = lock(&services.shells).on_screen(&wanted.shell);
    let ShellOnScreen {
        commands,
        tty,
        terminal,
    } = on_screen.ok_or_else(no_commands)?;
    let position = position(&commands, wanted.command)?;
    if let Some(approved) = commands[position].approved.as_ref() {
        let output = approved.output.clone();
        let output =
            output.ok_or_else(|| Error::runtime("the output of that command was not captured"))?;
        let output = RenderedOutput::captured(output.head, output.tail, output.omitted);
        return redacted_output(
            &commands,
            position,
            output,
            APPROVED_SOURCE,
            Doubts::default(),
        );
    }
    if let Some(line) = &wanted.running {
        global_redactor().add_found(line);
    }
    let recorded = recorded(services, &tty, &commands, position).await;
    let lacking = recorded.as_ref().and_then(|output| output.lacking);
    let is_empty = |output: &RenderedOutput| output.head.is_empty() && output.tail.is_empty();
    let part = match recorded.filter(|output| lacking.is_none() || !is_empty(output)) {
        None => None,
        Some(output) => {
            let doubts = Doubts {
                is_partial: lacking.is_some(),
                ..Doubts::default()
            };
            let told = redacted_output(&commands, position, output, "recording", doubts)?;
            if lacking.is_none() {
                return Ok(told);
            }
            Some(told)
        }
    };
    // The lines of a shell that ran in the command may be private, wherever they are read.
    let from_screen = match lacking {
        Some(GapReason::NotInHistory) => None,
        _ => Some(on_terminal(tty, terminal, commands, position, wanted).await),
    };
    match (from_screen, part) {
        (Some(Ok(shown)), None) => Ok(shown),
        (Some(Ok(shown)), Some(_)) if !shown.is_partial && !shown.is_tail => Ok(shown),
        (_, Some(part)) => Ok(part),
        (from_screen, None) => Err(match (lacking, from_screen) {
            (None, Some(Err(e))) => e,
            (lacking, _) => Error::runtime(lacks(lacking)),
        }),
    }
}

/// Says that a recording has nothing of a command's output, and why.
fn lacks(lacking: Option<GapReason>) -> String {
    let why = match lacking {
        Some(GapReason::Limit) => "it has reached its maximum size ([record] max_bytes)",
        Some(GapReason::DiskFull) => "the disk was full",
        Some(GapReason::Dropped) => "the disk was slower than the output",
        Some(GapReason::NotInHistory) => {
            "another shell ran in that command, and aish could not tell which of its lines are private"
        }
        _ => "it was left out",
    };
    format!("the recording lacks the output of that command: {why}")
}

/// Reads the output of a command from the screen of its terminal.
async fn on_terminal(
    tty: String,
    terminal: Option<BTreeMap<String, String>>,
    commands: Vec<KeptCommand>,
    position: usize,
    wanted: WantedOutput,
) -> Result<TerminalOutput> {
    if commands.get(position).is_some_and(|kept| kept.hosts_shell) {
        return Err(Error::runtime(
            "another shell ran in that command, and aish could not tell which of its lines are private",
        ));
    }
    let identity = TerminalIdentity {
        tty,
        variables: terminal.unwrap_or_else(|| wanted.terminal.clone()),
    };
    // Parsing and cutting many rows takes milliseconds, which the thread of the runtime does not have.
    let runtime = tokio::runtime::Handle::current();
    // The thread would otherwise go on after the time limit.
    let cancelled = CancellationToken::new();
    let _guard = cancelled.clone().drop_guard();
    let work = tokio::task::spawn_blocking(move || {
        let text = runtime.block_on(terminal::read(&identity))?;
        cut(&text, &commands, position, &wanted, &cancelled)
    });
    let output = tokio::time::timeout(CUT_LIMIT, work).await;
    output
        .map_err(|_| Error::runtime("the text of the terminal takes too long to search"))?
        .map_err(|e| Error::runtime(format!("cannot split the text of the terminal: {e}")))?
}

/// Whether the output of the commands of a shell can be read, from its terminal or from its recording.
pub async fn is_readable(services: &SharedServices, wanted: &WantedOutput) -> bool {
    unreadable(services, wanted).is_none() || is_recorded(services, &wanted.shell).await
}

/// Whether the terminal of a shell is recorded.
pub async fn is_recorded(services: &SharedServices, shell: &ShellId) -> bool {
    let Some(shown) = lock(&services.shells).on_screen(shell) else {
        return false;
    };
    let recordings = services.paths.recordings();
    let is_recorded =
        tokio::task::spawn_blocking(move || list::of_terminal(&recordings, &shown.tty).is_some());
    let is_recorded = tokio::time::timeout(terminal::TIME_LIMIT, is_recorded).await;
    is_recorded.is_ok_and(|found| found.unwrap_or_default())
}

/// Returns the name of the terminal of a shell if it cannot be asked for its text.
pub fn unreadable(services: &SharedServices, wanted: &WantedOutput) -> Option<String> {
    let on_screen = lock(&services.shells).on_screen(&wanted.shell);
    let variables = on_screen.and_then(|on_screen| on_screen.terminal);
    let identity = TerminalIdentity {
        tty: String::new(),
        variables: variables.unwrap_or_else(|| wanted.terminal.clone()),
    };
    let is_readable = !identity.kinds().is_empty();
    (!is_readable).then(|| identity.name().to_owned())
}

/// Arguments of the tool `terminal_output`.
#[derive(Debug, Deserialize)]
struct ToolArguments {
    command: Option<NonZeroUsize>,
    lines: Option<u64>,
}

/// Returns the result of the tool `terminal_output`: the last lines of an output, without secrets.
///
/// # Errors
/// The arguments are wrong ([`crate::error::ErrorKind::Usage`], which the model can correct), or there is no output.
pub async fn for_model(
    services: &SharedServices,
    wanted: WantedOutput,
    arguments: &str,
) -> Result<String> {
    let arguments: ToolArguments = serde_json::from_str(arguments)
        .map_err(|e| Error::usage(format!("the arguments are wrong: {e}")))?;
    let (most, default) = OUTPUT_LINES;
    let limit = arguments.lines.unwrap_or(default).clamp(1, most);
    let wanted = WantedOutput {
        command: arguments.command.map_or(1, NonZeroUsize::get),
        ..wanted
    };
    let output = read(services, wanted).await?;
    let text = match output.tail.is_empty() {
        true => output.head,
        false => output.tail,
    };
    let lines: Vec<&str> = text.lines().collect();
    let first = lines
        .len()
        .saturating_sub(usize::try_from(limit).unwrap_or(usize::MAX));
    let mut shown = format!(
        "$ {}\n[exit {}, {} {}",
        output.command,
        output.exit,
        output.lines,
        if output.lines == 1 { "line" } else { "lines" }
    );
    let lines = lines.get(first..).unwrap_or_default();
    if output.is_tail {
        shown.push_str("; the beginning is missing");
    }
    if output.is_partial {
        shown.push_str("; lines may be missing or belong to a prompt");
    }
    if lines.len() < output.lines {
        shown.push_str(&format!("; the last {}", lines.len()));
    }
    shown.push_str("]\n");
    shown.push_str(&lines.join("\n"));
    Ok(global_redactor().redact(&shown).into_owned())
}

/// Returns the index of the command number `wanted`, counted from the last one; calls of aish are not counted.
///
/// # Errors
/// There is no such command: [`crate::error::ErrorKind::Usage`], with the numbers that exist.
fn position(commands: &[KeptCommand], wanted: usize) -> Result<usize> {
    let own = commands
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, kept)| match &kept.body {
            RecordBody::ShellCommand { command, .. } => !is_aish(command),
            _ => false,
        });
    let own: Vec<usize> = own.map(|(at, _)| at).collect();
    let found = wanted.checked_sub(1).and_then(|at| own.get(at).copied());
    found.ok_or_else(|| match own.len() {
        0 => no_commands(),
        1 => Error::usage(format!(
            "there is no command number {wanted}: only the last one, number 1, is known"
        )),
        count => Error::usage(format!(
            "there is no command number {wanted}: the numbers 1 (the last command) to {count} are known"
        )),
    })
}

fn no_commands() -> Error {
    Error::usage("this shell has reported no command").hint("see: aish-helper doctor")
}

fn cut(
    text: &TerminalText,
    commands: &[KeptCommand],
    position: usize,
    wanted: &WantedOutput,
    cancelled: &CancellationToken,
) -> Result<TerminalOutput> {
    let typed = |kept: &&KeptCommand| kept.approved.is_none();
    let known: Vec<KnownCommand<'_>> = commands
        .iter()
        .filter(typed)
        .filter_map(|kept| match &kept.body {
            RecordBody::ShellCommand {
                command, cwd, exit, ..
            } => Some(KnownCommand {
                text: command,
                cwd,
                exit: *exit,
                unrecorded_after: kept.unrecorded_after.as_deref(),
                open_line: &kept.open_line,
            }),
            _ => None,
        })
        .collect();
    let number = commands[position..].iter().filter(typed).count();
    let running = RunningLine {
        text: wanted.running.as_deref(),
        words: wanted.words.as_deref(),
        cwd: &wanted.cwd,
    };
    let output = align::cut(&text.screen, &known, running, number, &|| {
        cancelled.is_cancelled()
    });
    let unclear = || {
        let name = text.kind.name();
        Error::runtime(format!(
            "aish could not find the output of that command in {name}"
        ))
    };
    let output = output.ok_or_else(unclear)?;
    redacted_output(
        commands,
        position,
        RenderedOutput::of_lines(&output.lines, text.screen.columns),
        text.kind.name(),
        Doubts {
            is_tail: output.is_tail,
            is_partial: output.is_partial,
            is_lossy: output.is_lossy,
        },
    )
}

/// Returns the output of the command as its recording has it, which is more certain than what the screen shows.
async fn recorded(
    services: &SharedServices,
    tty: &str,
    commands: &[KeptCommand],
    position: usize,
) -> Option<RenderedOutput> {
    let Some(RecordBody::ShellCommand {
        shell,
        start_ms,
        command,
        ..
    }) = commands.get(position).map(|kept| &kept.body)
    else {
        return None;
    };
    let (recordings, tty) = (services.paths.recordings(), tty.to_owned());
    let (command_id, start_ms) = (format!("{shell}@{start_ms}"), *start_ms);
    let command = command.clone();
    let is_command = move |id: &str, text: Option<&str>| {
        let is_text = |text: &str| text == command || global_redactor().redact(text) == command;
        id == command_id && text.is_none_or(is_text)
    };
    let read = tokio::task::spawn_blocking(move || {
        command_output::of_command(&recordings, &tty, start_ms, is_command)
    });
    let output = tokio::time::timeout(terminal::TIME_LIMIT, read).await;
    output.ok()?.ok()?.ok()?
}

/// Reservations about an output.
#[derive(Debug, Clone, Copy, Default)]
struct Doubts {
    is_tail: bool,
    is_partial: bool,
    is_lossy: bool,
}

/// Returns the output of a command without secrets, and without the texts of jobs that are not recorded.
fn redacted_output(
    commands: &[KeptCommand],
    position: usize,
    output: RenderedOutput,
    source: &str,
    doubts: Doubts,
) -> Result<TerminalOutput> {
    let Some(RecordBody::ShellCommand {
        command,
        exit,
        cwd,
        start_ms,
        ..
    }) = commands.get(position).map(|kept| &kept.body)
    else {
        return Err(Error::runtime("there is no such command"));
    };
    let RenderedOutput {
        head,
        tail,
        lines,
        columns,
        omitted,
        lacking: _,
    } = output;
    let has_notice = has_other_job(&head, command) || has_other_job(&tail, command);
    let recorded = RecordedLines::new(commands.iter().filter_map(|kept| kept.body.command_line()));
    let (head, jobs_in_head) = recorded.without_private_notices(&head);
    let (tail, jobs_in_tail) = recorded.without_private_notices(&tail);
    let jobs = jobs_in_head + jobs_in_tail;
    let redactor = global_redactor();
    let (head, keys_in_head) = redactor.redact_cut_keys(&head, doubts.is_tail);
    let (tail, keys_in_tail) = redactor.redact_cut_keys(&tail, true);
    // A program breaks a secret at the edge of the terminal: the lines are joined for the search.
    let line_ends = |text: &str| text.matches('\n').count();
    let before = line_ends(&head) + line_ends(&tail);
    let (head, in_head) = redactor.redact_folded(&head, columns);
    let (tail, in_tail) = redactor.redact_folded(&tail, columns);
    let joined = before.saturating_sub(line_ends(&head) + line_ends(&tail));
    let keys = keys_in_head + keys_in_tail;
    let found = keys + in_head + in_tail + redactor.find(&head).len() + redactor.find(&tail).len();
    let (head, tail) = match omitted {
        0 => (redactor.redact(&head).into_owned(), tail.into_owned()),
        _ => redactor.redact_ends(&head, &tail),
    };
    Ok(TerminalOutput {
        command: command.clone(),
        exit: *exit,
        cwd: cwd.clone(),
        started_ms: *start_ms,
        source: source.to_owned(),
        is_tail: doubts.is_tail,
        is_partial: doubts.is_partial || jobs > 0 || has_notice,
        is_lossy: doubts.is_lossy,
        lines: lines.saturating_sub(joined + jobs),
        head,
        tail,
        omitted,
        secrets: found,
    })
}

/// Returns head and tail of together at most `limit` bytes, cut at line ends where there are any.
pub fn shortened(output: &TerminalOutput, limit: usize) -> CommandOutput {
    let size = output.head.len() + output.tail.len();
    if size <= limit {
        return CommandOutput {
            head: output.head.clone(),
            tail: output.tail.clone(),
            omitted: output.omitted,
        };
    }
    let last = match output.tail.is_empty() {
        true => &output.head,
        false => &output.tail,
    };
    let mut end = limit / 2;
    while !output.head.is_char_boundary(end.min(output.head.len())) {
        end -= 1;
    }
    let head = output.head.get(..end).unwrap_or(&output.head);
    let head = head.rsplit_once('\n').map_or(head, |(lines, _)| lines);
    let mut start = last.len().saturating_sub(limit / 2);
    while !last.is_char_boundary(start) {
        start += 1;
    }
    let tail = last.get(start..).unwrap_or_default();
    let tail = match start {
        0 => tail,
        _ => tail.split_once('\n').map_or(tail, |(_, lines)| lines),
    };
    let kept = head.len() + tail.len();
    CommandOutput {
        head: head.to_owned(),
        tail: tail.to_owned(),
        omitted: output.omitted + size.saturating_sub(kept) as u64,
    }
}
