//! `lftp`, `nc` and `socat`, which connect programs and files to the network.

use super::transfer::SENDS_SECRET;
use super::{CallOutcome, CommandPlace, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, RunsDownloadedCode};
use crate::safety::command::targets::{is_private, written};

/// Judges the commands of `lftp`, which can also start programs: those that only look or fetch use the network.
pub fn lftp(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    // Without `lcd`: what follows it would overwrite files of another directory.
    const FETCHING: [&str; 15] = [
        "bye", "cd", "close", "cls", "du", "exit", "find", "get", "ls", "mget", "nlist", "open",
        "pget", "pwd", "quit",
    ];
    let only_fetches = |text: &str| {
        let plain = !text.contains(['|', '<', '>', '!', '`', '$', '&', '\\', '"', '\'']);
        let mut commands = text.split([';', '\n']);
        plain
            && commands.all(|command| {
                let mut words = command.split_whitespace();
                let name = words.next().unwrap_or("bye");
                let has_option = words.any(|word| word.starts_with('-'));
                FETCHING.contains(&name) && (!has_option || matches!(name, "ls" | "open"))
            })
    };
    let texts = call.option_values(&["-c", "-e"]);
    for text in texts.into_iter().filter(|text| !only_fetches(text)) {
        let reason = "lftp runs code or a program that is not known";
        findings.add_text(reason, text);
    }
    CallOutcome::default()
}

/// Judges `nc` and `socat`, which can connect a shell to the network.
pub fn netcat(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
    let list = call.list();
    let mut outcome = CallOutcome::default();
    let runs = match call.name {
        "socat" => match local_commands(&list.operands) {
            Some(commands) => {
                outcome.inner = commands;
                false
            }
            None => call.arguments.iter().any(|argument| is_command(argument)),
        },
        _ => list.has_any(&["-e", "-c", "--exec", "--sh-exec", "--lua-exec"]),
    };
    if runs {
        findings.add_grave(RunsDownloadedCode, "runs commands from the network");
    }
    let addresses = call.arguments.iter().filter(|_| call.name == "socat");
    for address in addresses {
        let (kind, path) = address.split_once(':').unwrap_or_default();
        let kind = kind.to_ascii_lowercase();
        let mut others = list.operands.iter().filter(|other| *other != address);
        let is_sent = others.any(|other| !is_own(other));
        if is_sent && is_private(path.split(',').next().unwrap_or(path)) {
            findings.add_grave(Destroys, SENDS_SECRET);
        }
        if matches!(
            kind.as_str(),
            "file" | "open" | "gopen" | "create" | "creat"
        ) {
            written(path.split(',').next().unwrap_or(path), place, findings);
        }
    }
    outcome
}

/// Whether an address of `socat` is its own input or output.
fn is_own(address: &str) -> bool {
    matches!(address, "-" | "STDIO" | "stdio" | "STDIN" | "STDOUT")
}

/// Whether an address of `socat` is a command.
fn is_command(address: &str) -> bool {
    let address = address.to_ascii_uppercase();
    let kinds = ["EXEC:", "SYSTEM:", "SHELL:"];
    kinds.iter().any(|kind| address.contains(kind))
}

/// Returns the commands of `socat` if it connects each only with its own input and output.
fn local_commands(addresses: &[&str]) -> Option<Vec<InnerCommand>> {
    let (own, others): (Vec<&&str>, Vec<&&str>) =
        addresses.iter().partition(|address| is_own(address));
    let [address] = others.as_slice() else {
        return None;
    };
    let (kind, command) = address.split_once(':')?;
    let command = socat_command(command)?;
    let is_plain = kind.chars().all(|c| c.is_ascii_alphabetic());
    let is_local = own.len() == 1 && is_plain && is_command(&format!("{kind}:"));
    is_local.then(|| vec![InnerCommand::Fed(command.to_owned())])
}

/// Returns the command of an address of `socat` without the options at its end, if no sign in it may end the command elsewhere
/// or begin another address.
fn socat_command(address: &str) -> Option<&str> {
    const OPTIONS: [&str; 8] = [
        "ctty", "echo", "pipes", "pty", "raw", "sane", "setsid", "stderr",
    ];
    let (command, options) = address.split_once(',').unwrap_or((address, ""));
    let mut options = options.split(',').filter(|option| !option.is_empty());
    let is_known = options.all(|option| {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        OPTIONS.contains(&name) && value.chars().all(|c| c.is_ascii_alphanumeric())
    });
    let is_plain = !command.contains(['\\', '"', '\'', '(', '[', '{']) && !command.contains("!!");
    (is_known && is_plain).then_some(command)
}
