//! Secret files and values that a command sends over the network.

use std::ops::Range;

use super::{Assessor, CommandFacts, ScriptFacts};
use crate::safety::command::class::CommandClass::Destroys;
use crate::safety::command::roles::{innermost, program_name};
use crate::safety::command::special::SENDS_SECRET;
use crate::safety::command::targets::{is_private, is_secret};
use crate::safety::command::word::ShellWord;

/// Programs that do not send the contents of the files among their arguments.
const OTHERS: [&str; 24] = [
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "ssh-add",
    "ssh-keygen",
    "ssh-copy-id",
    "chmod",
    "chown",
    "ls",
    "stat",
    "kubectl",
    "docker",
    "export",
    "test",
    "[",
    "echo",
    "redis-cli",
    "valkey-cli",
    "mongosh",
    "psql",
    "mysql",
    "mkdir",
    "rm",
];

/// Options whose value is a file with which a program logs in, and does not send.
const LOGINS: [&str; 10] = [
    "--netrc-file",
    "--key",
    "--cert",
    "-E",
    "--proxy-key",
    "--proxy-cert",
    "--private-key",
    "--certificate",
    "--kubeconfig",
    "--config",
];

/// Whether the name of a variable says that its value is secret.
fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    [
        "TOKEN",
        "SECRET",
        "PASSWORD",
        "PASSWD",
        "API_KEY",
        "APIKEY",
        "ACCESS_KEY",
        "PRIVATE_KEY",
    ]
    .iter()
    .any(|part| name.contains(part))
}

/// Whether a command prints a secret.
fn prints_secret(facts: &CommandFacts, words: &[ShellWord]) -> bool {
    let values = innermost(&facts.values);
    let Some((path, arguments)) = values.split_first() else {
        return false;
    };
    let has = |names: &[&str]| arguments.iter().any(|a| names.contains(&a.as_str()));
    match program_name(path) {
        "env" | "printenv" | "set" | "export" => {
            arguments.is_empty() || has(&["-p"]) || arguments.iter().any(|name| names_secret(name))
        }
        "gpg" | "gpg2" => has(&["--export-secret-keys", "--export-secret-subkeys"]),
        "kubectl" | "oc" | "k" => has(&["secret", "secrets"]) && has(&["-o", "-oyaml", "-ojson"]),
        "echo" | "printf" | "print" => {
            let mut names = words.iter().flat_map(ShellWord::variables);
            names.any(names_secret)
        }
        "ls" | "stat" | "test" | "grep" => false,
        _ => arguments.iter().any(|path| is_private(path)),
    }
}

/// Whether a command sends its input over the network.
fn sends_input(facts: &CommandFacts) -> bool {
    let values = innermost(&facts.values);
    let Some((path, arguments)) = values.split_first() else {
        return false;
    };
    match program_name(path) {
        "nc" | "ncat" | "netcat" | "socat" | "telnet" => true,
        "curl" => arguments.windows(2).any(|pair| match pair {
            [option, value] => {
                let is_header = matches!(option.as_str(), "-H" | "--header" | "-K" | "--config");
                let is_input = value.ends_with("@-") || value.contains("=@-") || value == "-";
                is_input && !is_header && option.starts_with('-') && option != "-o"
                    || option.starts_with("-d@-")
                    || value.ends_with("=@-")
            }
            _ => false,
        }),
        "wget" => arguments.iter().any(|argument| {
            argument.starts_with("--post-file=-")
                || argument.starts_with("--body-file=-")
                || argument.ends_with("/dev/stdin")
        }),
        "http" | "https" | "xh" => true,
        _ => false,
    }
}

impl Assessor<'_> {
    /// Notes a file with keys that is read.
    pub(super) fn secret(&mut self, path: &str) {
        self.reads_secret |= is_secret(path);
    }

    /// Notes files with keys among the arguments of a program that may print or send them.
    pub(super) fn secrets(&mut self, name: &str, arguments: &[String]) {
        if OTHERS.contains(&name) {
            return;
        }
        let mut is_login = false;
        for argument in arguments {
            let option = argument.split('=').next().unwrap_or_default();
            if !is_login && !LOGINS.contains(&option) {
                self.secret(argument);
            }
            is_login = LOGINS.contains(&argument.as_str());
        }
    }

    /// Judges whether a pipeline sends a secret.
    pub(super) fn sent_secrets(&mut self, script: &ScriptFacts, stages: &[Range<usize>]) {
        let mut is_secret = false;
        for stage in stages {
            let facts = script.facts.get(stage.clone()).unwrap_or_default();
            if is_secret && facts.iter().any(sends_input) {
                self.findings.add_grave(Destroys, SENDS_SECRET);
            }
            let commands = script.script.commands.get(stage.clone());
            let commands = commands.unwrap_or_default().iter().zip(facts);
            is_secret |= commands
                .into_iter()
                .any(|(command, facts)| prints_secret(facts, &command.words));
        }
    }
}
