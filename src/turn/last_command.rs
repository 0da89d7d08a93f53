//! The last commands of the user, and the output of the last one, as they are sent with a prompt.

use super::terminal_output::{self, WantedOutput};
use crate::context;
use crate::history::record::{Record, RecordBody};
use crate::protocol::{AskRequest, OutputChoice, ShellId, TerminalOutput};
use crate::safety::policy::TERMINAL_OUTPUT_RULE;
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::session::conversation::{Session, SinceLastPrompt};
use crate::session::lock;

/// Returns the commands of the shell that are sent with the prompt. Called once for a prompt, before anything is waited for: the
/// daemon forgets the commands of a shell that exits.
pub fn recent(
    services: &SharedServices,
    session: &Session,
    chosen: &ChosenModel,
    ask: &AskRequest,
) -> Vec<RecordBody> {
    let Some(shell) = &ask.shell else {
        return Vec::new();
    };
    let last_prompt = session.last_prompt_ms(shell);
    let asks_about_earlier = asks_about_earlier_failure(session, ask);
    let shells = lock(&services.shells);
    let limit = chosen.config.context.commands;
    let mut commands = shells.since(shell, &session.id, last_prompt.told_ms, limit);
    for body in &mut commands {
        if let RecordBody::ShellCommand {
            command,
            start_ms,
            duration_ms,
            ..
        } = body
            && start_ms.saturating_add(*duration_ms) <= last_prompt.refused_ms
        {
            *command = context::brief_command(command).into_owned();
        }
    }
    if commands.is_empty() && limit > 0 && asks_about_earlier {
        commands.extend(shells.undecided(shell, &session.id).filter(has_failed));
    }
    commands
}

/// Whether a prompt without new commands asks about a failure. Unless an earlier prompt was about it, it is that of the last
/// command: `git diff | llm review this` was about its input.
fn asks_about_earlier_failure(session: &Session, ask: &AskRequest) -> bool {
    let has_run = |records: &[Record]| {
        let mut newer = SinceLastPrompt::of(records).all();
        newer.any(|r| matches!(r.body, RecordBody::CommandResult { .. }))
    };
    ask.output == OutputChoice::Auto
        && ask.attachments.is_empty()
        && context::is_about_failure(&ask.text)
        && !session.with_records(has_run)
}

fn has_failed(command: &RecordBody) -> bool {
    matches!(command, RecordBody::ShellCommand { exit, .. } if context::is_failure(*exit))
}

/// The output of the last command of the user.
#[derive(Debug)]
pub enum LastOutput {
    /// It is not sent.
    NotWanted,
    /// It is sent.
    Read(TerminalOutput),
    /// It would be sent but cannot be read.
    Unread(UnreadOutput),
    /// It would be sent, but no event of the shell has reached this daemon, so that its last command is not known.
    UnknownShell,
}

/// Why an output cannot be read.
#[derive(Debug)]
pub struct UnreadOutput {
    /// The reason, one line.
    pub reason: String,
    /// It stays so as long as the shell runs.
    pub stays: bool,
}

/// Whether a rule denies the model the output of commands, and the user has not asked to send it.
pub fn is_denied(chosen: &ChosenModel, ask: &AskRequest) -> bool {
    ask.output != OutputChoice::Always && chosen.config.policy.denies_tool(TERMINAL_OUTPUT_RULE)
}

/// Whether the output of a command that started at this time was sent with a prompt that is left out.
fn was_refused(session: &Session, start_ms: u64) -> bool {
    let has_it = |record: &Record| matches!(&record.body, RecordBody::User { output: Some(output), .. } if output.started_ms == start_ms);
    session.with_records(|records| SinceLastPrompt::of(records).refused.iter().any(has_it))
}

/// Reads the output of the last command if it is sent with the prompt.
pub async fn output(
    services: &SharedServices,
    session: &Session,
    chosen: &ChosenModel,
    ask: &AskRequest,
    commands: &[RecordBody],
) -> LastOutput {
    let Some(shell) = &ask.shell else {
        return LastOutput::NotWanted;
    };
    let last = match commands.last() {
        Some(RecordBody::ShellCommand {
            command,
            exit,
            start_ms,
            ..
        }) => Some((command, *exit, *start_ms)),
        _ => None,
    };
    // If there is input, the prompt is about it.
    let is_about = ask.attachments.is_empty()
        && last.is_some_and(|(command, exit, _)| context::wants_output(&ask.text, command, exit));
    if is_denied(chosen, ask) {
        return LastOutput::NotWanted;
    }
    let is_wanted = match ask.output {
        OutputChoice::Auto => {
            is_about && last.is_some_and(|(_, _, start_ms)| !was_refused(session, start_ms))
        }
        OutputChoice::Always => true,
        OutputChoice::Never => false,
    };
    let is_missing = last.is_none()
        && ask.output == OutputChoice::Auto
        && ask.attachments.is_empty()
        && context::is_about_failure(&ask.text)
        && !lock(&services.shells).has_greeted(shell);
    if is_missing && chosen.config.context.output_bytes > 0 {
        return LastOutput::UnknownShell;
    }
    if !is_wanted || chosen.config.context.output_bytes == 0 {
        return LastOutput::NotWanted;
    }
    let ways = "use tmux, record the shell (aish-helper record), or let the question after the answer run it again";
    match read(services, shell, ask, ways).await {
        Ok(output)
            if ask.output == OutputChoice::Always
                || last.is_none_or(|(_, _, start_ms)| start_ms == output.started_ms) =>
        {
            LastOutput::Read(output)
        }
        Ok(_) => LastOutput::NotWanted,
        Err(unread) => LastOutput::Unread(unread),
    }
}

/// Reads the output of the last command; `ways` says what helps in a terminal that never lets it be read.
async fn read(
    services: &SharedServices,
    shell: &ShellId,
    ask: &AskRequest,
    ways: &str,
) -> Result<TerminalOutput, UnreadOutput> {
    let wanted = WantedOutput::of(shell, ask);
    // Before the terminal is read: a shell whose pane is closed meanwhile is forgotten, with its terminal.
    let unreadable = terminal_output::unreadable(services, &wanted);
    let error = match terminal_output::read(services, wanted).await {
        Ok(output) => return Ok(output),
        Err(error) => error,
    };
    let stays = unreadable.is_some();
    let reason = match unreadable {
        // Asked last: the recording of a shell is readable in every terminal. There the ways do not help.
        Some(terminal) if !terminal_output::is_recorded(services, shell).await => {
            format!("{terminal} does not let aish read its output: {ways}")
        }
        _ => error.message,
    };
    Err(UnreadOutput { reason, stays })
}

/// Reads the output of the last command for a request that explains its failure.
pub async fn failed_output(
    services: &SharedServices,
    shell: &ShellId,
    ask: &AskRequest,
) -> Result<TerminalOutput, UnreadOutput> {
    let ways = "use tmux, or record the shell (aish-helper record)";
    read(services, shell, ask, ways).await
}

/// Returns the notice that the output of the last command stays here, if the prompt points at it.
pub fn withheld_output(ask: &AskRequest, commands: &[RecordBody]) -> Option<String> {
    match commands.last() {
        Some(RecordBody::ShellCommand { command, .. })
            if !ask.follows && ask.attachments.is_empty() =>
        {
            context::withheld_output(&ask.text, command)
        }
        _ => None,
    }
}
