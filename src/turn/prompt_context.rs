//! Builds the context that is sent with a prompt: recent commands, attachments, instructions.

use super::last_command::{self, LastOutput, UnreadOutput};
use super::rules_in_force::RequestContext;
use super::surroundings::{self, Surroundings};
use super::terminal_output::{self, APPROVED_SOURCE};
use crate::config::packs::PromptPack;
use crate::context::{
    self, CUT_MARK, FailedCommand, FinishedCommand, ObservedCommand, SeenOutput, ShellContext,
};
use crate::error::{Error, Result};
use crate::history::record::{CommandOutput, OutputOrigin, Record, RecordBody, UsedPack};
use crate::protocol::{AskPurpose, AskRequest, Attachment, OutputChoice, TerminalOutput};
use crate::safety::redact::{MARK_START, global_redactor};
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::session::conversation::{Session, SinceLastPrompt};
use crate::session::feed::TurnFeed;
use crate::session::lock;

/// Maximum size of an attached MCP resource in bytes, as for an attached file.
const RESOURCE_BYTES: usize = 1 << 20;

/// The notice about a shell that the daemon does not know.
const UNKNOWN_SHELL: &str =
    "the last command and its output are not known: the daemon has not heard from this shell yet";

/// A prompt with its context, and the line for the user about the output of the last command.
#[derive(Debug)]
pub struct PromptContent {
    /// The prompt as the model gets it.
    pub text: String,
    /// A line for the user.
    pub notice: Option<String>,
    /// A line for the user about a change of files that a killed daemon left half done.
    pub interrupted: Option<String>,
    /// Where the output that is sent comes from.
    pub output: Option<OutputOrigin>,
    /// A failed command of the user that the prompt asks about and whose output is missing.
    pub again: Option<FailedAgain>,
}

/// A failed command of the user that a prompt asks about and whose output is missing. It can be run again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedAgain {
    /// The command line.
    pub command: String,
    /// Its output would have been sent, but cannot be read from this terminal.
    pub is_untold: bool,
}

/// Returns the prompt with its context; `commands` are the [`last_command::recent`]. Each command is part of one prompt only, so that a
/// notice about it appears once, except for one that failed before a prompt with input.
pub fn content(
    services: &SharedServices,
    session: &Session,
    chosen: &ChosenModel,
    ask: &AskRequest,
    surroundings: &Surroundings,
    commands: &[RecordBody],
    last: LastOutput,
) -> PromptContent {
    let commands = match surroundings.without_commands {
        false => commands,
        true => &[],
    };
    // The plugin records more variables than the configuration allows for the model.
    let names = &chosen.config.context.env;
    let wanted = |var: &&String| {
        var.split_once('=')
            .is_some_and(|(name, _)| names.iter().any(|n| n == name))
    };
    let env: Vec<String> = match commands.last() {
        Some(RecordBody::ShellCommand { env, .. }) => env.iter().filter(wanted).cloned().collect(),
        _ => Vec::new(),
    };
    let is_unknown = matches!(last, LastOutput::UnknownShell);
    let (read, failure) = match last {
        LastOutput::NotWanted => (None, None),
        LastOutput::Read(output) => (Some(output), None),
        LastOutput::Unread(UnreadOutput { reason, stays }) => (None, Some((reason, stays))),
        LastOutput::UnknownShell => (None, None),
    };
    let last_start_ms = match commands.last() {
        Some(RecordBody::ShellCommand { start_ms, .. }) => *start_ms,
        _ => 0,
    };
    let is_untold = matches!(failure, Some((_, true)));
    let is_denied = last_command::is_denied(chosen, ask);
    session.with_records(|records| {
        let since = SinceLastPrompt::of(records);
        let finished = |records, was_refused| {
            let sent = SentResults {
                last_start_ms,
                with_output: !is_denied,
                read: read.as_ref(),
                was_refused,
            };
            sent.of(records)
        };
        let interrupted = interrupted_changes(since.all());
        let facts = ShellContext {
            cwd: &ask.cwd,
            git: surroundings.git.as_deref(),
            commands: commands
                .iter()
                .filter_map(|body| match body {
                    RecordBody::ShellCommand {
                        command,
                        cwd,
                        exit,
                        duration_ms,
                        ..
                    } => Some(ObservedCommand {
                        command,
                        cwd,
                        exit: *exit,
                        duration_ms: *duration_ms,
                    }),
                    _ => None,
                })
                .collect(),
            env: &env,
            output: read.as_ref().map(|read| SeenOutput {
                command: &read.command,
                exit: read.exit,
                output: terminal_output::shortened(read, chosen.config.context.output_bytes),
                is_tail: read.is_tail,
                is_partial: read.is_partial,
            }),
            finished: [finished(since.refused, true), finished(since.new, false)].concat(),
            undone: since
                .all()
                .filter_map(|r| match &r.body {
                    RecordBody::Undo { restored, .. } => Some(restored),
                    _ => None,
                })
                .flatten()
                .map(String::as_str)
                .collect(),
            interrupted: interrupted.iter().map(|(_, files)| *files).collect(),
            attachments: ask
                .attachments
                .iter()
                .map(|a| (a.name.as_str(), a.text.as_str()))
                .collect(),
        };
        // A lasting reason is reported once in a shell.
        let is_new = || match &ask.shell {
            Some(shell) => lock(&services.shells).tell_unreadable(shell),
            None => false,
        };
        let notice = match &read {
            _ if ask.follows => facts.finished.last().and_then(followed_line),
            Some(read) => Some(attached_line(read)),
            None if is_unknown => Some(UNKNOWN_SHELL.to_owned()),
            None if ask.output == OutputChoice::Always => failure.map(|(reason, _)| reason),
            None => failure.and_then(|(reason, stays)| {
                let line = context::unseen_failure(&ask.text, &facts, &reason)?;
                (!stays || is_new()).then_some(line)
            }),
        };
        let last = facts.commands.last();
        // Output that the user has turned off is not missing.
        let is_missing = ask.output != OutputChoice::Never
            && !is_denied
            && chosen.config.context.output_bytes > 0
            && context::asks_about_failure(&ask.text, &facts);
        PromptContent {
            text: context::render_prompt(&ask.text, &facts),
            again: last
                .filter(|_| is_missing && !has_asked(records, commands.last()))
                .filter(|last| !is_altered(last.command))
                .map(|last| FailedAgain {
                    command: last.command.to_owned(),
                    is_untold,
                }),
            notice,
            interrupted: interrupted_line(&interrupted),
            output: read.as_ref().map(|read| OutputOrigin {
                command: read.command.clone(),
                started_ms: read.started_ms,
                source: read.source.clone(),
                lines: read.lines,
            }),
        }
    })
}

/// A change of files that a killed daemon left half done: its prompt, the changed files and the others.
type InterruptedFiles<'r> = (&'r str, [&'r [String]; 2]);

/// Returns the interrupted changes in records that the user has not undone since.
fn interrupted_changes<'r>(records: impl Iterator<Item = &'r Record>) -> Vec<InterruptedFiles<'r>> {
    let mut changes: Vec<InterruptedFiles<'_>> = Vec::new();
    for record in records {
        match &record.body {
            RecordBody::InterruptedChange {
                prompt,
                changed,
                unchanged,
            } => changes.push((prompt, [changed, unchanged])),
            RecordBody::Undo { prompt, .. } => changes.retain(|(other, _)| other != prompt),
            _ => {}
        }
    }
    changes
}

/// Returns the line about the last interrupted change.
fn interrupted_line(changes: &[InterruptedFiles<'_>]) -> Option<String> {
    let (_, [changed, unchanged]) = changes.last()?;
    let all = changed.len() + unchanged.len();
    Some(format!(
        "a change of files was interrupted when the daemon was killed: {} of {} changed; llm :undo takes them back",
        changed.len(),
        count(all, "file")
    ))
}

/// Whether a record does not have the command as it ran: a secret was removed, or the plugin has cut it.
fn is_altered(command: &str) -> bool {
    command.contains(MARK_START) || command.ends_with(CUT_MARK)
}

/// Whether a command line, such as `cd src; llm explain this`, has asked a prompt of these records: it must not be run again.
fn has_asked(records: &[Record], line: Option<&RecordBody>) -> bool {
    let Some(RecordBody::ShellCommand {
        shell, start_ms, ..
    }) = line
    else {
        return false;
    };
    let id = format!("{shell}@{start_ms}");
    let mut newest = records.iter().rev();
    newest.any(|record| record.ids.command.as_ref() == Some(&id))
}

fn count(n: usize, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Returns the line about the captured output with which a turn continues.
fn followed_line(finished: &FinishedCommand<'_>) -> Option<String> {
    let output = finished.output?;
    let lines = output.head.lines().count() + output.tail.lines().count();
    let more = if output.omitted > 0 { "more than " } else { "" };
    let lines = count(lines, "line");
    let command = context::command_in_line(&global_redactor().redact(&finished.command));
    let exit = finished.exit;
    Some(format!(
        "continues with the output of {command} (exit {exit}, {more}{lines})"
    ))
}

/// Returns the line about the output that is sent.
fn attached_line(output: &TerminalOutput) -> String {
    let command = context::command_in_line(&global_redactor().redact(&output.command));
    let is_empty = output.lines == 0 && !output.is_tail && !output.is_partial;
    if is_empty {
        return format!("{command} printed nothing");
    }
    let mut parts = vec![count(output.lines, "line")];
    if output.is_tail {
        parts.push("the beginning is missing".to_owned());
    }
    if output.is_partial {
        parts.push("lines may be missing or belong to a prompt".to_owned());
    }
    if output.is_lossy {
        parts.push(format!("{} loses characters beyond Latin-1", output.source));
    }
    if output.secrets > 0 {
        parts.push(format!("{} removed", count(output.secrets, "secret")));
    }
    format!("with the output of {command} ({})", parts.join(", "))
}

/// How the results of approved commands are sent.
struct SentResults<'c> {
    /// Start of the last command of the user, milliseconds since 1970.
    last_start_ms: u64,
    /// Whether they have their output.
    with_output: bool,
    /// An output that is sent anyway.
    read: Option<&'c TerminalOutput>,
    /// They were sent with a prompt that is left out.
    was_refused: bool,
}

impl SentResults<'_> {
    /// Returns the results that records have.
    fn of<'r>(&self, records: &'r [Record]) -> Vec<FinishedCommand<'r>> {
        records.iter().filter_map(|r| self.result(r)).collect()
    }

    fn result<'r>(&self, record: &'r Record) -> Option<FinishedCommand<'r>> {
        let RecordBody::CommandResult {
            command,
            exit,
            output,
            ..
        } = &record.body
        else {
            return None;
        };
        // The same line may have been typed since: then both have an output.
        let is_read = self.read.is_some_and(|read| {
            read.source == APPROVED_SOURCE
                && read.started_ms <= record.timestamp_ms
                && read.command == global_redactor().redact(command)
        });
        if is_read {
            return None;
        }
        let is_left_out = self.was_refused && self.with_output && output.is_some();
        Some(FinishedCommand {
            command: match self.was_refused {
                true => context::brief_command(command),
                false => command.into(),
            },
            exit: *exit,
            output: output.as_ref().filter(|_| self.with_output && !is_left_out),
            is_left_out,
            is_last: record.timestamp_ms >= self.last_start_ms,
        })
    }
}

/// Returns the system prompt: the instructions of the pack, of the configuration, or the built-in ones with facts about system and
/// date, and what configuration and pack add. With tools, instructions for using them follow; `split` selects those for tools
/// that the model finds by search.
pub fn system_prompt(
    chosen: &ChosenModel,
    request: &RequestContext,
    tools: bool,
    split: bool,
) -> String {
    let surroundings = &request.surroundings;
    let of_pack = |key| request.pack.as_ref().and_then(|pack| pack.text(key));
    let base = of_pack("system").or(chosen.config.system_prompt.as_deref());
    let mut prompt = match base {
        Some(text) => text.to_owned(),
        None => with_facts(context::SYSTEM_PROMPT, &surroundings.facts),
    };
    let project_file = surroundings.project_file.as_ref();
    let project_file = project_file.map(|(name, text)| context::render_project_file(name, text));
    let of_tools = match (tools, split) {
        (false, _) => None,
        (true, true) => Some(context::SPLIT_PROMPT),
        (true, false) => Some(context::TOOLS_PROMPT),
    };
    let work = request.work.as_ref().map(|work| {
        let roots = work.scope.workspace.roots();
        let roots: Vec<String> = roots.map(|root| root.display().to_string()).collect();
        context::work_prompt(&roots)
    });
    let parts = [
        chosen.config.system_append.as_deref(),
        of_pack("system_append"),
        of_tools,
        work.as_deref().filter(|_| tools),
        of_pack("tools").filter(|_| tools),
        of_pack("format"),
        of_pack("safety"),
        project_file.as_deref(),
    ];
    for part in parts.into_iter().flatten() {
        prompt.push('\n');
        prompt.push_str(part);
    }
    prompt
}

/// Returns the fields of a pack for the journal.
pub fn used_pack(pack: &PromptPack) -> UsedPack {
    UsedPack {
        name: pack.name.clone(),
        version: pack.text("version").map(str::to_owned),
        sha256: pack.sha256.clone(),
    }
}

/// Returns the system prompt and the message of a request for a single command, and a line for the user. The output of a failed
/// command is read from the terminal.
pub async fn single_command(
    services: &SharedServices,
    chosen: &ChosenModel,
    ask: &AskRequest,
) -> (String, String, Option<String>) {
    let mut notice = None;
    let (instructions, message) = match ask.purpose {
        AskPurpose::Fix { exit } => {
            let output;
            (output, notice) = failed_output(services, chosen, ask).await;
            let failed = FailedCommand {
                command: &ask.text,
                exit,
                cwd: &ask.cwd,
                output: output.as_ref(),
            };
            (context::FIX_PROMPT, context::fix_request(&failed))
        }
        _ => (context::COMMAND_PROMPT, ask.text.clone()),
    };
    (
        with_facts(instructions, &surroundings::facts(&chosen.config.context)),
        message,
        notice,
    )
}

/// Returns the output of the failed command, if the daemon knows that command as the last one and can read its terminal. If it
/// cannot, returns a line that says why, once for a lasting reason in a shell.
async fn failed_output(
    services: &SharedServices,
    chosen: &ChosenModel,
    ask: &AskRequest,
) -> (Option<CommandOutput>, Option<String>) {
    let limit = chosen.config.context.output_bytes;
    let is_wanted = limit > 0 && !last_command::is_denied(chosen, ask);
    let Some(shell) = ask.shell.as_ref().filter(|_| is_wanted) else {
        return (None, None);
    };
    let reason = match last_command::failed_output(services, shell, ask).await {
        Ok(read) => {
            // The command that the daemon knows has no secrets.
            let is_lost = read.is_partial && read.lines == 0;
            let is_it = !is_lost && read.command == global_redactor().redact(&ask.text);
            return (
                is_it.then(|| terminal_output::shortened(&read, limit)),
                None,
            );
        }
        Err(UnreadOutput { reason, stays }) => {
            (!stays || lock(&services.shells).tell_unreadable(shell)).then_some(reason)
        }
    };
    let notice = reason.map(|reason| format!("Its output was not read: {reason}"));
    (None, notice)
}

fn with_facts(instructions: &str, facts: &str) -> String {
    match facts {
        "" => instructions.to_owned(),
        facts => format!("{instructions}\n{facts}"),
    }
}

/// Reads the MCP resources attached to a prompt, `alias:uri`.
///
/// # Errors
/// A resource cannot be read. The prompt fails, since it refers to the resource.
pub async fn resources(
    services: &SharedServices,
    feed: &TurnFeed,
    names: &[String],
) -> Result<Vec<Attachment>> {
    let mut read = Vec::new();
    for name in names {
        let Some((alias, uri)) = name.split_once(':') else {
            return Err(Error::usage(format!("not a resource name: {name}"))
                .hint("a resource is SERVER:URI; see them with: llm :mcp resources"));
        };
        let get = services
            .mcp
            .resource(alias, uri, RESOURCE_BYTES, feed.cancel_token());
        let text = feed.unless_cancelled(get).await?;
        read.push(Attachment {
            name: name.clone(),
            text,
        });
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::record::RecordIds;

    #[test]
    fn an_interrupted_change_is_told_until_it_is_undone() {
        let record = |body| Record::new(uuid::Uuid::nil(), 1, RecordIds::default(), body);
        let interrupted = |prompt: &str| {
            record(RecordBody::InterruptedChange {
                prompt: prompt.to_owned(),
                changed: vec!["/a".to_owned()],
                unchanged: vec!["/b".to_owned(), "/c".to_owned()],
            })
        };
        let undone = record(RecordBody::Undo {
            prompt: "1".to_owned(),
            restored: vec!["/a".to_owned()],
            kept: Vec::new(),
        });
        let line = |records: &[Record]| interrupted_line(&interrupted_changes(records.iter()));
        let expected = "a change of files was interrupted when the daemon was killed: 1 of 3 files changed; llm :undo takes them back";
        assert_eq!(line(&[interrupted("1")]).as_deref(), Some(expected));
        assert_eq!(line(&[interrupted("1"), undone.clone()]), None);
        let later = [interrupted("1"), interrupted("2"), undone];
        assert_eq!(line(&later).as_deref(), Some(expected));
    }

    #[test]
    fn the_line_about_output_says_what_is_missing() {
        let of = |lines: usize, (is_tail, is_partial, is_lossy): (bool, bool, bool), secrets| {
            attached_line(&TerminalOutput {
                command: "make".into(),
                exit: 0,
                cwd: String::new(),
                started_ms: 0,
                source: "xterm".into(),
                is_tail,
                is_partial,
                is_lossy,
                lines,
                head: String::new(),
                tail: String::new(),
                omitted: 0,
                secrets,
            })
        };
        for (line, expected) in [
            (of(0, (false, false, false), 0), "make printed nothing"),
            (of(0, (false, false, true), 0), "make printed nothing"),
            (
                of(0, (true, false, false), 0),
                "with the output of make (0 lines, the beginning is missing)",
            ),
            (
                of(0, (false, true, false), 0),
                "with the output of make (0 lines, lines may be missing or belong to a prompt)",
            ),
            (
                of(1, (false, false, true), 2),
                "with the output of make (1 line, xterm loses characters beyond Latin-1, 2 secrets removed)",
            ),
        ] {
            assert_eq!(line, expected);
        }
    }
}
