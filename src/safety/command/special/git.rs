//! `git`: its global options, the commands that it runs, and its configuration.

use super::{CallOutcome, CommandPlace, Findings, InnerCommand, ProgramCall};
use crate::safety::command::class::CommandClass::{Destroys, Unknown, Writes};
use crate::safety::command::interpreters::is_shell;
use crate::safety::command::programs::{self, ArgumentList, find_option};
use crate::safety::command::targets::PathReach;
use crate::safety::command::word::program_name;
use crate::safety::command::wrappers::is_wrapper;

/// Parts of keys whose value git runs.
const RUNNING_KEYS: &[&str] = &[
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
    "include.path",
    "includeif.",
    "templatedir",
    ".command",
    ".program",
    ".cmd",
    "difffilter",
    "sendmailcmd",
    "tocmd",
    "cccmd",
    "packobjectshook",
    "credential.",
    "alternaterefscommand",
    "smtpserver",
    "defaultkeycommand",
    ".vcs",
    "instaweb.httpd",
    "lfs.customtransfer",
    "lfs.extension",
];

/// Keys whose value is a program that git starts to show or edit something.
const PROGRAM_KEYS: [&str; 5] = [
    "core.pager",
    "core.editor",
    "sequence.editor",
    "pager.",
    "web.browser",
];

/// Judges git. The subcommand and most options are left to the table.
pub fn judge(
    call: &ProgramCall<'_>,
    place: &CommandPlace<'_>,
    findings: &mut Findings,
) -> CallOutcome {
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
        let sets_path = argument.starts_with("--exec-path") && value.is_some_and(|v| !v.is_empty())
            || argument.starts_with("--exec-path=");
        if argument.starts_with("--config-env") || sets_path {
            findings.add(Unknown, "git runs programs of a place that is not known");
        }
    }
    let rest = call.arguments.get(at..).unwrap_or_default();
    let sub = rest.first().map(String::as_str).unwrap_or_default();
    let arguments = rest.get(1..).unwrap_or_default();
    match sub {
        "config" => {
            const TAKES: [&str; 7] = [
                "-f",
                "--file",
                "--blob",
                "--type",
                "--default",
                "--comment",
                "-t",
            ];
            let list = ArgumentList::new(arguments, &TAKES, false);
            let mut operands = list.operands.into_iter();
            let mut operands = operands
                .by_ref()
                .skip_while(|operand| matches!(*operand, "set" | "get" | "list" | "unset"));
            if let (Some(key), Some(value)) = (operands.next(), operands.next()) {
                let is_alias = key.starts_with("alias.") && !value.starts_with('!');
                let is_usual = key == "credential.helper" && is_helper(value);
                if !is_alias && !is_usual {
                    setting(&format!("{key}={value}"), &mut outcome, findings);
                }
            }
        }
        "fetch" | "pull" => {
            let list =
                ArgumentList::new(arguments, &["-j", "-o", "--depth", "--upload-pack"], false);
            let forces = list.has_any(&["-f", "--force"]);
            let own = list.operands.iter().filter_map(|spec| {
                let plain = spec.strip_prefix('+');
                let (_, target) = plain.unwrap_or(spec).split_once(':')?;
                let is_own = !target.is_empty() && !target.starts_with("refs/remotes/");
                (is_own && (forces || plain.is_some())).then_some(())
            });
            if own.count() > 0 {
                let reason = "replaces a branch, whose commits may be nowhere else";
                findings.add(Destroys, reason);
            }
        }
        "send-email" => {
            let servers = find_option(arguments, "--smtp-server", &[], false);
            for server in servers {
                let server = server.value(arguments);
                if server.contains(['/', ' ']) {
                    findings.add_text("git runs a program that sends mail", server);
                }
            }
        }
        "clone" => {
            for option in ["-c", "--config"] {
                for found in find_option(arguments, option, &["-b", "-o", "-u", "-j"], false) {
                    setting(found.value(arguments), &mut outcome, findings);
                }
            }
        }
        "bisect" if arguments.first().is_some_and(|argument| argument == "run") => {
            outcome.inner.push(InnerCommand::Arguments(
                arguments.get(1..).unwrap_or_default().to_vec(),
            ));
            outcome.is_complete = true;
            findings.add(Writes, "");
        }
        "submodule" => {
            let each = arguments
                .iter()
                .position(|argument| !argument.starts_with('-'));
            let each = each.filter(|at| arguments.get(*at).is_some_and(|a| a == "foreach"));
            if let Some(each) = each {
                let command = arguments.get(each + 1..).unwrap_or_default().iter();
                let command = command.skip_while(|argument| argument.starts_with('-'));
                let command: Vec<String> = command.cloned().collect();
                // One word is a text for a shell, several are a program and its arguments.
                outcome.inner.push(match command.as_slice() {
                    [text] => InnerCommand::Text(text.clone()),
                    _ => InnerCommand::Arguments(command),
                });
                outcome.is_complete = true;
            }
        }
        "for-each-repo" => {
            let command = arguments.iter().skip_while(|a| a.starts_with('-'));
            let command = std::iter::once("git".to_owned()).chain(command.cloned());
            outcome
                .inner
                .push(InnerCommand::Arguments(command.collect()));
            outcome.is_complete = true;
        }
        _ => {}
    }
    if sub == "branch" {
        let list = ArgumentList::new(arguments, &[], false);
        let forces =
            list.has_surely("-M") || list.has_any(&["-m", "--move"]) && list.has("--force");
        // To the usual name is what the pages of a new repository say.
        let is_usual = matches!(list.operands.as_slice(), ["main" | "master"]);
        if forces && !is_usual {
            findings.add(
                Destroys,
                "replaces a branch, whose commits may be nowhere else",
            );
        }
    }
    if rest.iter().any(|argument| argument.contains("ext::")) {
        findings.add(Unknown, "git runs a program");
    }
    let outputs = find_option(arguments, "--output", &[], false);
    if sub != "archive"
        && outputs
            .iter()
            .any(|found| place.reach(found.value(arguments)) > PathReach::Inside)
    {
        findings.add(Destroys, "overwrites a file outside this directory");
    }
    outcome.rewritten = Some(("git", rest.to_vec()));
    outcome
}

/// Judges programs that run a command in many repositories. The names of some of these may stand before it.
pub fn in_repositories(call: &ProgramCall<'_>, findings: &mut Findings) -> CallOutcome {
    let Some((sub, rest)) = call.behind_options().split_first() else {
        return CallOutcome::default();
    };
    let is_git = matches!(
        (call.name, sub.as_str()),
        ("gita", "super") | ("meta", "git")
    );
    let is_other = matches!(
        (call.name, sub.as_str()),
        ("gita", "shell") | ("meta" | "mani", "exec") | ("mr", "run") | ("turbolift", "foreach")
    );
    if !is_git && !is_other {
        return CallOutcome::default();
    }
    let begins = |word: &String| match is_git {
        true => programs::find("git").is_some_and(|git| git.has_subcommand(word)),
        false => {
            let name = program_name(word);
            word.contains([' ', '/'])
                || programs::find(name).is_some()
                || is_wrapper(name)
                || is_shell(name)
        }
    };
    let mut command: Vec<String> = rest
        .iter()
        .skip_while(|word| !begins(word))
        .cloned()
        .collect();
    if command.is_empty() && !rest.is_empty() {
        findings.add(Unknown, "it is not known what it runs in the repositories");
    }
    if is_git {
        command.insert(0, "git".to_owned());
    }
    let inner = match command.as_slice() {
        [text] => InnerCommand::Text(text.clone()),
        _ => InnerCommand::Arguments(command),
    };
    CallOutcome {
        inner: vec![inner],
        ..CallOutcome::default()
    }
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
            outcome.inner.push(match key.contains("editor") {
                true => InnerCommand::Text(value.to_owned()),
                false => InnerCommand::Fed(value.to_owned()),
            });
        }
    } else if (RUNNING_KEYS.iter().any(|part| key.contains(part))
        || key.starts_with("submodule.") && value.starts_with('!')
        || key == "safe.directory" && value == "*")
        && !is_off
    {
        let reason = format!("the setting {key} makes git run a program");
        findings.add_text(reason, value);
    }
}
