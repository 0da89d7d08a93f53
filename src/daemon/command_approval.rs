//! Commands proposed by a model: the user's decision on each, and the results of those that ran.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Daemon;
use super::peer::CommandProcesses;
use super::running_command::{RunningCommand, unknown};
use crate::config::{Config, ConfigOverrides, ContinueSetting};
use crate::error::{Error, ErrorKind, Result};
use crate::history::journal::now_ms;
use crate::history::record::{CommandDecision, CommandOutput, RecordBody, RecordIds};
use crate::paths::{self, Paths};
use crate::protocol::{
    CapturedOutput, CapturedText, CommandChoice, Continuation, DecisionReply, Proposal, ShellId,
};
use crate::safety::command::{self, CommandAssessment, CommandPlace};
use crate::safety::job_notices::RecordedLines;
use crate::safety::policy::{DESTRUCTIVE, RuleEffect, TERMINAL_OUTPUT_RULE};
use crate::services::SharedServices;
use crate::session::conversation::continued_turns;
use crate::session::lock;
use crate::session::shell_registry::{ApprovedCommand, ApprovedOutput};
use crate::session::store::WaitingCommand;
use crate::turn::protected_files::{self, ProtectionCheck};
use crate::turn::rules_in_force;

/// How long a pump may take to drain the output of a command.
const DRAIN: Duration = Duration::from_secs(5);

/// The decision of the user on a proposal.
#[derive(Debug)]
pub struct ProposalDecision {
    /// The choice.
    pub choice: CommandChoice,
    /// The command as it was shown.
    pub command: String,
    /// The user was asked.
    pub asked: bool,
    /// The output goes back to the model when the command has ended.
    pub continues: bool,
    /// The key that decided, if one did.
    pub key: Option<u8>,
    /// The terminal of the user.
    pub terminal: Option<String>,
    /// What identifies the processes of the command.
    pub processes: CommandProcesses,
    /// Configuration overrides from the environment of the client.
    pub overrides: BTreeMap<String, String>,
}

/// Returns whether a command may run in a directory, and what decides that: the stricter of the rules now and those at the
/// start of the turn that proposed it.
async fn effect(
    services: &SharedServices,
    config: &mut Arc<Config>,
    cwd: &str,
    command: &str,
    overrides: &BTreeMap<String, String>,
    waiting: &WaitingCommand,
) -> Result<(RuleEffect, String)> {
    // Problems of a project's file were reported with the prompt.
    rules_in_force::apply(config, cwd).await?;
    let operation = assess(command, cwd).await.operation();
    let now = rules_in_force::classified_effect(config, operation);
    let then = waiting.effect.clone();
    let decided = if now.0 > then.0 { now } else { then };
    Ok(with_protection(&services.paths, command, cwd, overrides, decided).await)
}

/// Returns the decision on a command after that of the rules: one that reaches protected files is asked about, whatever a rule allows.
pub(super) async fn with_protection(
    paths: &Paths,
    command: &str,
    cwd: &str,
    overrides: &BTreeMap<String, String>,
    decided: (RuleEffect, String),
) -> (RuleEffect, String) {
    // Of two reasons to ask, the file that is reached is more informative.
    if decided.0 != RuleEffect::Allow && decided.1 != DESTRUCTIVE {
        return decided;
    }
    let check = vec![ProtectionCheck::of_command(command, cwd)];
    let mut reasons = protected_files::protection_reasons(paths, overrides, check).await;
    match reasons.pop().flatten() {
        Some(reason) => (RuleEffect::Ask, reason),
        None => decided,
    }
}

/// Assesses a command line. A long one that is made to be slow takes half a second, so it is read on another thread.
pub(super) async fn assess(command: &str, cwd: &str) -> CommandAssessment {
    let (command, cwd) = (command.to_owned(), cwd.to_owned());
    let assess = move || {
        let home = paths::variable("HOME").unwrap_or_default();
        let place = CommandPlace {
            cwd: &cwd,
            home: &home.to_string_lossy(),
            workspace: &[],
        };
        command::assess(&command, &place)
    };
    let assessed = tokio::task::spawn_blocking(assess).await;
    assessed.unwrap_or_else(|_| CommandAssessment::unknown("the analysis failed"))
}

/// Returns the next proposal of a shell. A proposal that a rule denies is recorded as denied.
///
/// # Errors
/// The configuration cannot be read, or the denial cannot be recorded.
pub async fn next(
    daemon: &Daemon,
    asks: RecordIds,
    shell: &ShellId,
    cwd: &str,
    overrides: &BTreeMap<String, String>,
) -> Result<Option<Proposal>> {
    let Some(waiting) = daemon.services.sessions.next_waiting(shell) else {
        return Ok(None);
    };
    let services = &daemon.services;
    let mut config = services
        .models
        .config(&ConfigOverrides::from_map(overrides)?)?;
    let command = &waiting.command;
    let (effect, source) = effect(services, &mut config, cwd, command, overrides, &waiting).await?;
    let why = (effect == RuleEffect::Ask && source != rules_in_force::DEFAULT_SOURCE)
        .then(|| source.clone());
    let denied = (effect == RuleEffect::Deny).then_some(source);
    if let Some(source) = &denied {
        let taken = daemon
            .services
            .sessions
            .take_waiting(shell, &waiting.token, false)?;
        let session = daemon.services.sessions.get(&taken.session).await?;
        let record_ids = RecordIds {
            request: asks.request,
            ..taken.record_ids
        };
        let denied = RecordBody::CommandApproval {
            token: taken.token,
            choice: CommandDecision::Denied,
            proposed: taken.command.clone(),
            command: taken.command,
            cwd: None,
            terminal: None,
            why: Some(source.clone()),
        };
        session.record_written(&record_ids, denied).await?;
    }
    Ok(Some(Proposal {
        why,
        denied,
        token: waiting.token,
        command: waiting.command,
        number: waiting.number,
        of: waiting.of,
        confirm: effect != RuleEffect::Allow,
        continuation: continuation(services, &config, shell, &waiting.session).await,
        again: waiting.again,
        last_key: lock(&daemon.services.shells).deciding_key(shell),
    }))
}

/// Returns whether the output of the next command can go back to the model immediately: not after `max_tool_depth`
/// commands, and only in the shell's own session, where the next prompt goes.
async fn continuation(
    services: &SharedServices,
    config: &Config,
    shell: &ShellId,
    session: &str,
) -> Continuation {
    let own = services.sessions.session_for_shell(shell);
    if own.as_deref() != Some(session) {
        return Continuation::Never;
    }
    let follows = match services.sessions.get(session).await {
        Ok(session) => session.with_records(continued_turns),
        Err(_) => 0,
    };
    match config.shell.continuation {
        ContinueSetting::Never => Continuation::Never,
        // Its output stays here.
        _ if config.policy.denies_tool(TERMINAL_OUTPUT_RULE) => Continuation::Never,
        _ if follows >= config.mcp.max_tool_depth => {
            Continuation::LimitReached(config.mcp.max_tool_depth)
        }
        ContinueSetting::Ask => Continuation::Offered,
        ContinueSetting::Always => Continuation::Always,
    }
}

/// Records a decision. For `run` the record is synced to disk before the command may run.
///
/// # Errors
/// The proposal no longer waits, a rule denies it, or the record could not be written. The command must not run then.
pub async fn decide(
    daemon: &Daemon,
    asks: RecordIds,
    shell: &ShellId,
    token: &str,
    cwd: &str,
    decision_request: ProposalDecision,
) -> Result<DecisionReply> {
    let ProposalDecision {
        choice,
        command,
        asked,
        continues,
        key,
        terminal,
        processes,
        overrides,
    } = decision_request;
    lock(&daemon.services.shells).set_deciding_key(shell, key);
    if choice == CommandChoice::Again {
        daemon.services.sessions.insert_again(shell, token)?;
        return Ok(DecisionReply::default());
    }
    let mut config = daemon
        .services
        .models
        .config(&ConfigOverrides::from_map(&overrides)?)?;
    let services = &daemon.services;
    let waiting = services.sessions.find_waiting(shell, token)?;
    // The rule may have been added since the proposal was shown.
    let (effect, why) = effect(services, &mut config, cwd, &command, &overrides, &waiting).await?;
    let against = match effect {
        RuleEffect::Deny => true,
        RuleEffect::Ask => !asked,
        RuleEffect::Allow => false,
    };
    if against && choice == CommandChoice::Run {
        let message = format!("not run: {why} says {}", effect.as_str());
        return Err(Error::new(ErrorKind::Approval, message));
    }
    let by_rule = choice == CommandChoice::Run && !asked;
    let waiting = daemon.services.sessions.take_waiting(
        shell,
        token,
        continues || choice == CommandChoice::Quit,
    )?;
    let session = daemon.services.sessions.get(&waiting.session).await?;
    let recorded = match choice {
        CommandChoice::Run => CommandDecision::Run,
        CommandChoice::Insert => CommandDecision::Insert,
        CommandChoice::No | CommandChoice::Again => CommandDecision::No,
        CommandChoice::Quit => CommandDecision::Quit,
    };
    // The request id is that of this request; the other ids are those of the answer.
    let record_ids = RecordIds {
        request: asks.request,
        ..waiting.record_ids
    };
    let decision = RecordBody::CommandApproval {
        token: token.to_string(),
        choice: recorded,
        proposed: waiting.command,
        command: command.clone(),
        cwd: (choice == CommandChoice::Run).then(|| cwd.to_owned()),
        terminal,
        why: by_rule.then_some(why),
    };
    if choice != CommandChoice::Run {
        session.record_written(&record_ids, decision).await?;
        return Ok(DecisionReply::default());
    }
    // A slow disk delays only this command.
    let synced = session.record_synced(&record_ids, [decision]).await;
    synced.map_err(|e| {
        let hint = e.hint.clone().unwrap_or_default();
        Error::runtime(format!(
            "not run: the approval could not be recorded: {}",
            e.message
        ))
        .hint(hint)
    })?;
    let terminal = wants_terminal(&command, &config.shell.terminal_programs);
    let nonce = uuid::Uuid::new_v4().simple().to_string();
    lock(&daemon.running).insert(
        token.to_string(),
        RunningCommand {
            shell: shell.clone(),
            session: waiting.session,
            record_ids,
            command,
            cwd: cwd.to_owned(),
            since_ms: now_ms(),
            processes,
            nonce: nonce.clone(),
            pump: None,
        },
    );
    Ok(DecisionReply { terminal, nonce })
}

/// Returns whether a command line starts a program that needs the terminal.
///
/// Checks the first word of every part separated by `|`, `&`, `;` or a line end, after assignments and prefixes such as
/// `sudo`. A wrong result only loses the captured output, or makes a program show less.
fn wants_terminal(command: &str, programs: &[String]) -> bool {
    const PREFIXES: [&str; 8] = [
        "sudo", "doas", "command", "env", "nice", "time", "nohup", "builtin",
    ];
    command
        .split(['|', '&', ';', '\n', '(', ')', '{', '}', '`'])
        .any(|part| {
            let program = part.split_whitespace().find(|word| {
                let assignment = word.contains('=') && !word.starts_with('=');
                !assignment && !word.starts_with('-') && !PREFIXES.contains(word)
            });
            program.is_some_and(|word| {
                let name = word.rsplit('/').next().unwrap_or(word);
                programs.iter().any(|p| p == name)
            })
        })
}

/// Tells an output pump to finish: the sender takes the captured output.
pub type CaptureFinish = oneshot::Receiver<oneshot::Sender<CapturedOutput>>;

/// Registers the output pump of an approved command. Returns the number of bytes to keep.
///
/// # Errors
/// The command was not approved.
pub fn register_pump(
    daemon: &Daemon,
    shell: &ShellId,
    token: &str,
    nonce: &str,
) -> Result<(usize, CaptureFinish)> {
    let (sender, finish) = oneshot::channel();
    match lock(&daemon.running).get_mut(token) {
        Some(exec) if exec.pump.is_none() => {
            exec.check_report(shell, nonce)?;
            exec.pump = Some(sender);
        }
        _ => return Err(unknown()),
    }
    let config = daemon.services.models.config(&Default::default())?;
    Ok((config.shell.output_bytes, finish))
}

/// Records the end of an approved command, with the output captured by its pump.
///
/// # Errors
/// The command was not approved, or the record could not be written.
pub async fn exec_done(
    daemon: &Daemon,
    asks: &RecordIds,
    shell: &ShellId,
    token: &str,
    nonce: &str,
    exit: i32,
) -> Result<()> {
    let processes = match lock(&daemon.running).get(token) {
        Some(exec) => exec.check_report(shell, nonce).map(|()| exec.processes)?,
        None => CommandProcesses::default(),
    };
    // Before the command stops counting as running, so that its processes are recognized at every moment.
    daemon.leftovers.add(processes).await;
    let exec = lock(&daemon.running).remove(token);
    let exec = match exec {
        Some(exec) => exec,
        None => approved_earlier(daemon, shell, token).await?,
    };
    // Before waiting for the pump, which is not part of the command's duration.
    let ms = now_ms().saturating_sub(exec.since_ms);
    let output = match exec.pump {
        Some(pump) => {
            let (sender, output) = oneshot::channel();
            match pump.send(sender) {
                Ok(()) => tokio::time::timeout(DRAIN, output)
                    .await
                    .ok()
                    .and_then(|r| r.ok()),
                Err(_) => None,
            }
        }
        None => None,
    };
    let session = daemon.services.sessions.get(&exec.session).await?;
    let record_ids = RecordIds {
        request: asks.request.clone(),
        ..exec.record_ids
    };
    let on_screen = lock(&daemon.services.shells).on_screen(shell);
    let commands = on_screen.map_or_else(Vec::new, |shown| shown.commands);
    let lines = commands.iter().filter_map(|kept| kept.body.command_line());
    let recorded = RecordedLines::new(lines.chain([&*exec.command]));
    let stored = |text: CapturedText| without_private_jobs(text, &recorded);
    let (output, stderr) = match output {
        Some(captured) => (Some(stored(captured.text)), captured.stderr.map(stored)),
        None => (None, None),
    };
    let approved = ApprovedCommand {
        command: exec.command.clone(),
        cwd: exec.cwd,
        start_ms: exec.since_ms,
        duration_ms: ms,
        exit,
        output: ApprovedOutput {
            session: exec.session,
            output: output.clone(),
        },
    };
    lock(&daemon.services.shells).keep_approved(shell, approved);
    let ended = RecordBody::CommandResult {
        token: token.to_string(),
        command: exec.command,
        exit,
        ms: Some(ms),
        output,
        stderr,
    };
    session.record_written(&record_ids, ended).await
}

/// Returns a captured output without the texts of jobs that are not recorded, which count as left out.
fn without_private_jobs(text: CapturedText, recorded: &RecordedLines<'_>) -> CommandOutput {
    let size = text.head.len() + text.tail.len();
    let without = |part: &str| recorded.without_private_notices(part).0.into_owned();
    let (head, tail) = (without(&text.head), without(&text.tail));
    let removed = size.saturating_sub(head.len() + tail.len());
    CommandOutput {
        omitted: text.omitted.saturating_add(removed as u64),
        head,
        tail,
    }
}

/// Drops the running commands and pumps of shells that have ended, since their end will not be reported.
pub fn forget(daemon: &Daemon, ended: &HashSet<ShellId>) {
    lock(&daemon.running).retain(|_, exec| !exec.is_orphaned(ended));
}

/// Returns a command that was approved under an earlier daemon and has just ended. Its nonce is unknown: it was only in the
/// memory of that daemon.
async fn approved_earlier(daemon: &Daemon, shell: &ShellId, token: &str) -> Result<RunningCommand> {
    let id = daemon
        .services
        .sessions
        .session_for_shell(shell)
        .ok_or_else(unknown)?;
    let approved = daemon
        .services
        .sessions
        .get(&id)
        .await?
        .with_records(|records| {
            let mut approved = None;
            for record in records {
                match &record.body {
                    RecordBody::CommandApproval {
                        token: t,
                        choice,
                        command,
                        cwd,
                        ..
                    } if t == token => {
                        let run = *choice == CommandDecision::Run;
                        approved = run.then(|| (command.clone(), cwd.clone(), record.clone()));
                    }
                    RecordBody::CommandResult { token: t, .. } if t == token => approved = None,
                    _ => {}
                }
            }
            approved
        });
    let (command, cwd, record) = approved.ok_or_else(unknown)?;
    Ok(RunningCommand {
        shell: shell.clone(),
        session: id,
        record_ids: record.ids,
        command,
        cwd: cwd.unwrap_or_default(),
        since_ms: record.timestamp_ms,
        processes: CommandProcesses::default(),
        nonce: String::new(),
        pump: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_need_the_terminal_are_found_in_every_part_of_a_command() {
        let programs = ["vim".to_string(), "less".to_string()];
        for command in [
            "vim x",
            "sudo vim /etc/hosts",
            "cd /x && vim",
            "git log | less",
            "A=1 /usr/bin/vim -R x",
            "(vim)",
        ] {
            assert!(wants_terminal(command, &programs), "{command}");
        }
        for command in [
            "ls vim",
            "echo less is more",
            "vimdiff a b",
            "grep vim x",
            "",
        ] {
            assert!(!wants_terminal(command, &programs), "{command}");
        }
    }
}
