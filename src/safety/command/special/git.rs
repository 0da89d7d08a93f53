//! `git`: its global options, the commands that it runs, and its configuration.

use super::{CallOutcome, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Unknown, Writes};

/// Parts of keys whose value git runs.
const RUNNING_KEYS: [&str; 19] = [
    "sshcommand",
    "fsmonitor",
    "hookspath",
    "alias.",
    "diff.external",
    "textconv",
    "filter.",
    ".clean",
    ".smudge",
    "gpg.program",
    "credential.helper",
    "protocol.ext",
    "gitproxy",
    "askpass",
    "uploadpack",
    "receivepack",
    ".driver",
    "difftool",
    "mergetool",
];

/// Keys whose value is a program that git starts to show or edit something.
const PROGRAM_KEYS: [&str; 5] = [
    "core.pager",
    "core.editor",
    "sequence.editor",
    "pager.",
    "web.browser",
];

/// Judges git. The subcommand is left to the table.
pub fn judge(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let mut outcome = CallOutcome::default();
    let mut at = 0;
    while let Some(argument) = call
        .arguments
        .get(at)
        .filter(|argument| argument.starts_with('-'))
    {
        at += 1;
        let value = match argument.as_str() {
            "-c" | "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--exec-path"
            | "--config-env" | "--super-prefix" => {
                at += 1;
                call.arguments.get(at - 1).map(String::as_str)
            }
            _ => argument.strip_prefix("-c"),
        };
        if let Some(value) = value.filter(|_| argument.starts_with("-c")) {
            setting(value, &mut outcome, findings);
        }
        if argument.starts_with("--config-env") || argument.starts_with("--exec-path=") {
            findings.add(Unknown, "git runs programs of a place that is not known");
        }
    }
    let rest = call.arguments.get(at..).unwrap_or_default();
    let sub = rest.first().map(String::as_str).unwrap_or_default();
    let arguments = rest.get(1..).unwrap_or_default();
    let value = |names: &[&str]| {
        let found = arguments
            .iter()
            .position(|argument| names.contains(&argument.as_str()));
        found.and_then(|found| arguments.get(found + 1)).cloned()
    };
    match sub {
        "config" => {
            let mut operands = arguments.iter().filter(|argument| {
                !argument.starts_with('-')
                    && !matches!(argument.as_str(), "set" | "get" | "list" | "unset")
            });
            if let (Some(key), Some(value)) = (operands.next(), operands.next()) {
                let is_alias = key.starts_with("alias.") && !value.starts_with('!');
                let is_usual = key == "credential.helper" && is_helper(value);
                if !is_alias && !is_usual {
                    setting(&format!("{key}={value}"), &mut outcome, findings);
                }
            }
        }
        "rebase" => {
            outcome
                .inner
                .extend(value(&["-x", "--exec"]).map(InnerCommand::Text));
        }
        "bisect" if arguments.first().is_some_and(|argument| argument == "run") => {
            outcome.inner.push(InnerCommand::Arguments(
                arguments.get(1..).unwrap_or_default().to_vec(),
            ));
            outcome.is_complete = true;
            findings.add(Writes, "");
        }
        "submodule" => {
            let each = arguments.iter().position(|argument| argument == "foreach");
            if let Some(each) = each {
                let text = arguments
                    .get(each + 1..)
                    .unwrap_or_default()
                    .iter()
                    .filter(|argument| !argument.starts_with("--"));
                outcome.inner.push(InnerCommand::Text(
                    text.cloned().collect::<Vec<_>>().join(" "),
                ));
                outcome.is_complete = true;
            }
        }
        _ => {}
    }
    let runs = rest.iter().any(|argument| {
        argument.starts_with("ext::")
            || argument.starts_with("--upload-pack")
            || argument.starts_with("--receive-pack")
            || argument.starts_with("--open-files-in-pager")
            || argument.starts_with("--extcmd")
            || argument.starts_with("--template=")
            || argument.starts_with("--tool-command")
    });
    if runs {
        findings.add(Unknown, "git runs a program");
    }
    if arguments
        .iter()
        .any(|argument| argument.starts_with("--output=/"))
    {
        findings.add(Destroys, "overwrites a file outside this directory");
    }
    outcome.rewritten = Some(("git", rest.to_vec()));
    outcome
}

fn is_helper(value: &str) -> bool {
    matches!(
        value,
        "store" | "cache" | "osxkeychain" | "manager" | "manager-core" | "libsecret"
    ) || value.starts_with("cache --timeout")
}

/// Judges `KEY=VALUE` of the configuration.
fn setting(setting: &str, outcome: &mut CallOutcome, findings: &mut Findings) {
    let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
    let key = key.to_ascii_lowercase();
    let is_off = matches!(value, "false" | "" | "/dev/null");
    if PROGRAM_KEYS.iter().any(|name| key.starts_with(name)) {
        if !is_off {
            outcome.inner.push(InnerCommand::Text(value.to_owned()));
        }
    } else if RUNNING_KEYS.iter().any(|part| key.contains(part)) && !is_off {
        findings.add(
            Unknown,
            format!("the setting {key} makes git run a program"),
        );
    }
}
