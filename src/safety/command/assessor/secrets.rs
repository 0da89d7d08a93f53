//! Secret files and values that a command sends over the network.

use std::ops::Range;

use super::{Assessor, CommandFacts, Redirection, ScriptFacts, SimpleCommand};
use crate::safety::command::class::CommandClass::Destroys;
use crate::safety::command::programs;
use crate::safety::command::roles::{innermost, program_name};
use crate::safety::command::special::{SENDS_SECRET, sent_files};
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
        "kubectl" | "oc" | "k" => {
            arguments.iter().any(|argument| {
                let kind = argument.split('/').next().unwrap_or_default();
                matches!(kind, "secret" | "secrets")
            }) && arguments
                .iter()
                .any(|argument| argument.starts_with("-o") || argument.starts_with("--output"))
        }
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
    let name = program_name(path);
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    match name {
        "nc" | "ncat" | "netcat" | "socat" | "telnet" | "http" | "https" | "xh" | "pastebinit" => {
            true
        }
        "curl" | "wget" | "wget2" => {
            let mut files = sent_files(name, arguments).into_iter();
            files.any(|file| matches!(file, "-" | "." | "/dev/stdin"))
        }
        "gh" => has("gist") && (has("create") || has("new")) && has("-"),
        "aws" | "gsutil" | "gcloud" => has("cp") && has("-"),
        _ => false,
    }
}

/// Options whose value stands in a header of a request, or logs in to the server.
const HEADERS: [&str; 18] = [
    "-H",
    "-u",
    "-U",
    "-b",
    "-a",
    "-A",
    "--header",
    "--user",
    "--proxy-user",
    "--proxy-header",
    "--oauth2-bearer",
    "--cookie",
    "--auth",
    "--auth-type",
    "--user-agent",
    "--http-user",
    "--http-password",
    "--pass",
];

/// Whether an argument of a request is a header, or the value of an option for one.
fn is_header(program: &str, before: &str, argument: &str) -> bool {
    let option = argument.split('=').next().unwrap_or_default();
    let is_attached = HEADERS.iter().any(|name| match name.starts_with("--") {
        true => option == *name,
        false => argument.starts_with(name),
    });
    // `Authorization:TOKEN` of HTTPie.
    let is_named = matches!(program, "http" | "https" | "xh")
        && argument.split_once(':').is_some_and(|(name, value)| {
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
            is_name && !value.starts_with("//")
        });
    // `-sH TOKEN`
    let is_cluster = !before.starts_with("--")
        && before.starts_with('-')
        && before.ends_with(['H', 'u', 'U', 'b']);
    // Without a value, such an option stands before the address: `curl -a URL`.
    let is_url = argument.contains("://");
    !is_url && (HEADERS.contains(&before) || is_attached || is_named || is_cluster)
}

impl Assessor<'_> {
    /// Notes a file with keys that is read.
    pub(super) fn secret(&mut self, path: &str) {
        self.reads_secret |= is_secret(path);
    }

    /// Notes files with keys among the arguments of a program that may print or send them.
    pub(super) fn secrets(&mut self, name: &str, arguments: &[String]) {
        if matches!(name, "kubectl" | "oc" | "k") {
            self.copied_secrets(name, arguments);
        }
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

    /// Judges the files that `kubectl cp` copies into a cluster.
    fn copied_secrets(&mut self, name: &str, arguments: &[String]) {
        let entry = programs::find(name).map(|entry| entry.arguments(arguments));
        let operands = entry.map(|list| list.operands).unwrap_or_default();
        if let ["cp", file, target, ..] = operands.as_slice()
            && target.contains(':')
            && is_secret(file)
        {
            self.findings.add_grave(Destroys, SENDS_SECRET);
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
            is_secret |= self.print_secret(script, stage);
        }
    }

    /// Whether commands print a secret, or read a file with one.
    fn print_secret(&self, script: &ScriptFacts, commands: &Range<usize>) -> bool {
        let facts = script.facts.get(commands.clone()).unwrap_or_default();
        let words = script.script.commands.get(commands.clone());
        let mut printed = words.unwrap_or_default().iter().zip(facts);
        let mut read = script.script.redirections.iter().filter(|input| {
            let own = &input.commands;
            input.operator == "<" && commands.start <= own.start && own.end <= commands.end
        });
        printed.any(|(command, facts)| prints_secret(facts, &command.words))
            || read.any(|input| is_private(&self.value(&input.target)))
    }

    /// Whether the value of a word has a secret, as far as the names of its variables and its commands tell.
    fn holds_secret(&self, script: &ScriptFacts, word: &ShellWord) -> bool {
        let mut commands = word.substitutions();
        word.variables().any(names_secret)
            || commands.any(|(commands, _)| self.print_secret(script, &commands))
    }

    /// Judges a file or text that a command gets as its input, and may send.
    pub(super) fn sent_input(
        &mut self,
        script: &ScriptFacts,
        redirection: &Redirection,
        file: &str,
    ) {
        let facts = script.facts.get(redirection.commands.clone());
        let sends = facts.unwrap_or_default().iter().any(sends_input);
        if sends && (is_private(file) || self.holds_secret(script, &redirection.target)) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
    }

    /// Judges the words of a request. One in a header is how programs log in.
    pub(super) fn sent_words(
        &mut self,
        script: &ScriptFacts,
        command: &SimpleCommand,
        facts: &CommandFacts,
    ) {
        let request = innermost(&facts.values);
        let name = request.first().map_or("", |path| program_name(path));
        let is_request = matches!(name, "curl" | "wget" | "wget2" | "http" | "https" | "xh");
        if !is_request || !facts.values.ends_with(&request) {
            return;
        }
        let from = facts.values.len() - request.len();
        let values = facts.values.iter().skip(from);
        let words = command.words.iter().skip(from + 1);
        let sends = values.clone().zip(values.skip(1)).zip(words);
        let mut sends = sends.filter(|((before, value), _)| !is_header(name, before, value));
        if sends.any(|(_, word)| self.holds_secret(script, word)) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
    }
}
