//! Commands that a model proposed: a person's word on each, and what became of those that ran.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Daemon, rules_in_force};
use crate::config::{Config, ConfigOverrides};
use crate::error::{Error, ErrorKind, Result};
use crate::history::journal::now_ms;
use crate::history::record::{CommandOutput, RecordBody, RecordIds};
use crate::protocol::{CapturedOutput, CommandChoice, DecisionReply, Proposal, ShellId};
use crate::safety::policy::{BuiltinAction, PolicyRule, RuleEffect as Says};
use crate::session::lock;

/// How long a pump may take to drain what a command has printed.
const DRAIN: Duration = Duration::from_secs(5);

/// Approved commands that run now, by token.
pub type RunningCommands = Mutex<HashMap<String, RunningCommand>>;

/// An approved command.
#[derive(Debug)]
pub struct RunningCommand {
    shell: ShellId,
    session: String,
    /// What the answer that proposed it belongs to.
    links: RecordIds,
    command: String,
    /// When it was approved, milliseconds since 1970.
    since_ms: u64,
    /// The pump, if one reported: told to finish, it answers with the output.
    pump: Option<oneshot::Sender<oneshot::Sender<CapturedOutput>>>,
}

/// What a person says to a proposal.
#[derive(Debug)]
pub struct ProposalDecision {
    /// Their choice.
    pub choice: CommandChoice,
    /// The command as it was shown.
    pub command: String,
    /// They were asked.
    pub asked: bool,
    /// What their environment says of the configuration.
    pub overrides: BTreeMap<String, String>,
}

/// The rule about commands that counts most in a directory.
async fn rule(config: &mut Arc<Config>, cwd: &str) -> Result<Option<PolicyRule>> {
    // What is wrong with a project's file was told with the prompt.
    rules_in_force::apply(config, cwd).await?;
    Ok(config.policy.rule_for_action(BuiltinAction::Shell).cloned())
}

/// The next proposal of a shell. One that a rule denies is decided by that.
///
/// # Errors
/// The config cannot be read, so that it is unknown whether to confirm; or the denial cannot be recorded.
pub async fn next(
    daemon: &Daemon,
    asks: RecordIds,
    shell: &ShellId,
    cwd: &str,
    overrides: &BTreeMap<String, String>,
) -> Result<Option<Proposal>> {
    let Some(waiting) = daemon.sessions.next_waiting(shell) else {
        return Ok(None);
    };
    let mut config = daemon
        .models
        .config(&ConfigOverrides::from_map(overrides)?)?;
    let rule = rule(&mut config, cwd).await?;
    let denies = rule.as_ref().filter(|rule| rule.effect == Says::Deny);
    if let Some(rule) = denies {
        let taken = daemon.sessions.take_waiting(shell, &waiting.token, false)?;
        let session = daemon.sessions.get(&taken.session).await?;
        let links = RecordIds {
            request: asks.request,
            ..taken.links
        };
        let denied = RecordBody::CommandApproval {
            token: taken.token,
            choice: "denied".to_string(),
            proposed: taken.command.clone(),
            command: taken.command,
            why: Some(rule.source.clone()),
        };
        session.record_written(&links, denied).await?;
    }
    Ok(Some(Proposal {
        denied: denies.map(|rule| rule.source.clone()),
        token: waiting.token,
        command: waiting.command,
        number: waiting.number,
        of: waiting.of,
        confirm: match &rule {
            Some(rule) => rule.effect != Says::Allow,
            None => config.shell.confirm_cmd,
        },
    }))
}

/// Records a decision; for `run`, only when it is safely on the disk may the command run.
///
/// # Errors
/// The proposal waits no more, a rule speaks against it, or the record could not be written: then nothing may run.
pub async fn decide(
    daemon: &Daemon,
    asks: RecordIds,
    shell: &ShellId,
    token: &str,
    cwd: &str,
    said: ProposalDecision,
) -> Result<DecisionReply> {
    let ProposalDecision {
        choice,
        command,
        asked,
        overrides,
    } = said;
    let mut config = daemon
        .models
        .config(&ConfigOverrides::from_map(&overrides)?)?;
    let rule = rule(&mut config, cwd).await?;
    // It may have come since the proposal was shown.
    let (word, why) = match rule {
        Some(rule) => (rule.effect, rule.source),
        None => {
            let word = match config.shell.confirm_cmd {
                true => Says::Ask,
                false => Says::Allow,
            };
            (word, "shell.confirm_cmd".to_string())
        }
    };
    let against = match word {
        Says::Deny => true,
        Says::Ask => !asked,
        Says::Allow => false,
    };
    if against && choice == CommandChoice::Run {
        let message = format!("not run: {why} says {}", word.as_str());
        return Err(Error::new(ErrorKind::Approval, message));
    }
    let by_rule = choice == CommandChoice::Run && !asked;
    let waiting = daemon
        .sessions
        .take_waiting(shell, token, choice == CommandChoice::Quit)?;
    let session = daemon.sessions.get(&waiting.session).await?;
    let word = match choice {
        CommandChoice::Run => "run",
        CommandChoice::Insert => "insert",
        CommandChoice::No => "no",
        CommandChoice::Quit => "quit",
    };
    // The request is this one; all else is the answer's.
    let links = RecordIds {
        request: asks.request,
        ..waiting.links
    };
    let decision = RecordBody::CommandApproval {
        token: token.to_string(),
        choice: word.to_string(),
        proposed: waiting.command,
        command: command.clone(),
        why: by_rule.then_some(why),
    };
    if choice != CommandChoice::Run {
        session.record_written(&links, decision).await?;
        return Ok(DecisionReply { terminal: false });
    }
    // A slow disk holds up this command, and nobody's answer.
    let synced = session.record_synced(&links, [decision]).await;
    synced.map_err(|e| {
        let hint = e.hint.clone().unwrap_or_default();
        Error::runtime(format!(
            "not run, since the approval could not be recorded: {}",
            e.message
        ))
        .hint(hint)
    })?;
    let terminal = wants_terminal(&command, &config.shell.terminal_programs);
    lock(&daemon.running).insert(
        token.to_string(),
        RunningCommand {
            shell: shell.clone(),
            session: waiting.session,
            links,
            command,
            since_ms: now_ms(),
            pump: None,
        },
    );
    Ok(DecisionReply { terminal })
}

/// Whether a command line starts a program that needs the terminal for itself.
///
/// It looks at the first word of every part that `|`, `&`, `;` or a line end separates, behind assignments
/// and the likes of `sudo`. A wrong guess only costs the captured output, or a program that shows less.
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

/// An output pump waits for this: the sender takes what it has captured.
pub type CaptureFinish = oneshot::Receiver<oneshot::Sender<CapturedOutput>>;

/// Registers the output pump of an approved command. Returns how many bytes it should keep.
///
/// # Errors
/// The command was not approved.
pub fn register_pump(
    daemon: &Daemon,
    shell: &ShellId,
    token: &str,
) -> Result<(usize, CaptureFinish)> {
    let (sender, finish) = oneshot::channel();
    match lock(&daemon.running).get_mut(token) {
        Some(exec) if exec.shell == *shell && exec.pump.is_none() => exec.pump = Some(sender),
        _ => return Err(Error::runtime("no approved command has this token")),
    }
    let config = daemon.models.config(&Default::default())?;
    Ok((config.shell.output_bytes, finish))
}

/// An approved command has ended: gets its output from the pump and records both.
///
/// # Errors
/// The command was not approved, or the record could not be written.
pub async fn exec_done(
    daemon: &Daemon,
    asks: &RecordIds,
    shell: &ShellId,
    token: &str,
    exit: i32,
) -> Result<()> {
    let exec = {
        let mut running = lock(&daemon.running);
        match running.get(token) {
            Some(exec) if exec.shell == *shell => running.remove(token),
            _ => None,
        }
    };
    let exec = match exec {
        Some(exec) => exec,
        None => approved_earlier(daemon, shell, token).await?,
    };
    // The pump may take a moment more, which is none of the command's.
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
    let session = daemon.sessions.get(&exec.session).await?;
    let links = RecordIds {
        request: asks.request.clone(),
        ..exec.links
    };
    let ended = RecordBody::CommandResult {
        token: token.to_string(),
        command: exec.command,
        exit,
        ms: Some(ms),
        output: output.map(|c| CommandOutput {
            head: c.head,
            tail: c.tail,
            omitted: c.omitted,
        }),
    };
    session.record_written(&links, ended).await
}

/// Lets go of the commands whose shells have ended, and with them of their pumps: no one will report their end.
pub fn forget(daemon: &Daemon, ended: &HashSet<ShellId>) {
    lock(&daemon.running).retain(|_, exec| !ended.contains(&exec.shell));
}

/// A command that an earlier daemon saw approved, and that has ended only now.
async fn approved_earlier(daemon: &Daemon, shell: &ShellId, token: &str) -> Result<RunningCommand> {
    let unknown = || Error::runtime("no approved command has this token");
    let id = daemon
        .sessions
        .session_for_shell(shell)
        .ok_or_else(unknown)?;
    let approved = daemon.sessions.get(&id).await?.with_records(|records| {
        let mut approved = None;
        for record in records {
            match &record.body {
                RecordBody::CommandApproval {
                    token: t,
                    choice,
                    command,
                    ..
                } if t == token => {
                    let run = choice == "run";
                    approved =
                        run.then(|| (command.clone(), record.ids.clone(), record.timestamp_ms));
                }
                RecordBody::CommandResult { token: t, .. } if t == token => approved = None,
                _ => {}
            }
        }
        approved
    });
    let (command, links, since_ms) = approved.ok_or_else(unknown)?;
    Ok(RunningCommand {
        shell: shell.clone(),
        session: id,
        links,
        command,
        since_ms,
        pump: None,
    })
}

#[cfg(test)]
mod tests {
    use super::wants_terminal;

    #[test]
    fn programs_that_need_the_terminal_are_known_wherever_they_stand() {
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
