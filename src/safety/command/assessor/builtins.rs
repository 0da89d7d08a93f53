//! `eval`, `source`, `alias`, and terminal multiplexers.

use super::shell::ShellCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{RunsDownloadedCode, Unknown, Writes};
use crate::safety::command::interpreters::{code_options, is_shell};
use crate::safety::command::programs;
use crate::safety::command::word::{ShellWord, UNKNOWN};

/// Subcommands and options with which programs print settings for `eval` and `source`.
const PRINTS_SETTINGS: [&str; 18] = [
    "init",
    "hook",
    "shellenv",
    "completion",
    "completions",
    "env",
    "docker-env",
    "activate",
    "export",
    "--completion",
    "--zsh",
    "generate-shell-completion",
    "-s",
    "--init",
    "virtualenv-init",
    "complete",
    "--shell",
    "shell",
];

impl Assessor<'_> {
    pub(super) fn eval(&mut self, script: &ScriptFacts, call: &ShellCall<'_>) {
        if call
            .words
            .iter()
            .any(|word| self.word_downloads(script, word))
        {
            self.findings
                .add_grave(RunsDownloadedCode, "runs a download");
            return;
        }
        let is_settings = !call.words.is_empty()
            && call
                .words
                .iter()
                .all(|word| self.prints_settings(script, word));
        match is_settings {
            true => self
                .findings
                .add(Writes, "changes the settings of the shell"),
            false => self.shell_text(&call.arguments.join(" ")),
        }
    }

    /// Whether a word is only the output of programs that print settings for the shell.
    fn prints_settings(&self, script: &ScriptFacts, word: &ShellWord) -> bool {
        let mut all = word.substitutions().peekable();
        let is_only = word.value("", "").text.chars().all(|c| c == UNKNOWN);
        all.peek().is_some()
            && is_only
            && !self.word_downloads(script, word)
            && all.all(|(commands, _)| {
                let facts = script.facts.get(commands).unwrap_or_default();
                let [facts] = facts else {
                    return false;
                };
                let name = facts.values.first().map(String::as_str).unwrap_or_default();
                let known = programs::find(name).is_some()
                    && !is_shell(name)
                    && code_options(name).is_none()
                    && !matches!(name, "echo" | "printf" | "print" | "cat");
                let prints = name == "dircolors"
                    || name == "ssh-agent"
                    || name == "starship"
                    || name == "thefuck"
                    || facts
                        .values
                        .iter()
                        .skip(1)
                        .any(|argument| PRINTS_SETTINGS.contains(&argument.as_str()));
                (known
                    || matches!(
                        name,
                        "dircolors"
                            | "starship"
                            | "thefuck"
                            | "zoxide"
                            | "atuin"
                            | "oh-my-posh"
                            | "mcfly"
                            | "navi"
                            | "fzf"
                            | "jump"
                            | "register-python-argcomplete"
                            | "op"
                            | "sheldon"
                            | "zellij"
                    ))
                    && prints
            })
    }

    pub(super) fn source(&mut self, script: &ScriptFacts, call: &ShellCall<'_>) {
        let is_settings = call
            .words
            .first()
            .is_some_and(|word| self.prints_settings(script, word));
        match call.arguments.first() {
            _ if is_settings => self
                .findings
                .add(Writes, "changes the settings of the shell"),
            Some(file)
                if file.contains(UNKNOWN)
                    && call
                        .words
                        .first()
                        .is_none_or(|word| word.substitutions().next().is_none())
                    && file.starts_with(UNKNOWN) =>
            {
                self.findings
                    .add(Unknown, "it runs a file that is not known before it runs");
            }
            _ => self.script_file(script, call, 0),
        }
    }

    pub(super) fn alias(&mut self, call: &ShellCall<'_>) {
        self.findings.add(Writes, "");
        if call
            .arguments
            .iter()
            .any(|argument| argument.starts_with('-') && argument.contains(['g', 's']))
        {
            self.findings.add(
                Unknown,
                "it makes an alias that changes words anywhere in a command",
            );
            return;
        }
        for argument in call.arguments {
            let Some((name, value)) = argument.split_once('=') else {
                continue;
            };
            let first = value.split_whitespace().next().unwrap_or_default();
            if name.contains(UNKNOWN) || value.contains(UNKNOWN) {
                self.findings.add(
                    Unknown,
                    "it makes an alias that is not known before it runs",
                );
            } else if first == name {
                // Only adds options: `alias rm='rm -i'`.
            } else if matches!(name, "sudo" | "doas" | "su" | "ssh" | "passwd" | "gpg")
                || first.contains('/') && programs::find(name).is_some()
            {
                self.findings
                    .add(Unknown, format!("it changes what {name} means"));
            } else {
                self.shell_text(value);
            }
        }
    }

    /// Judges terminal multiplexers, whose last argument may be a command. Returns whether it was one.
    pub(super) fn multiplexer(&mut self, call: &ShellCall<'_>) -> bool {
        let sub = call
            .arguments
            .iter()
            .find(|argument| !argument.starts_with('-'))
            .map(String::as_str);
        let types = matches!(
            sub,
            Some(
                "send-keys"
                    | "send"
                    | "run-shell"
                    | "run"
                    | "if-shell"
                    | "if"
                    | "pipe-pane"
                    | "respawn-pane"
                    | "respawn-window"
            )
        ) || call.name == "screen"
            && call.arguments.iter().any(|argument| argument == "stuff");
        if types {
            let at = call
                .arguments
                .iter()
                .position(|argument| Some(argument.as_str()) == sub)
                .unwrap_or(0);
            let mut rest = call.arguments.get(at + 1..).unwrap_or_default().iter();
            let mut text = Vec::new();
            while let Some(argument) = rest.next() {
                match argument.as_str() {
                    "-t" => drop(rest.next()),
                    argument if argument.starts_with('-') => {}
                    "Enter" | "C-m" | "C-c" | "Escape" | "C-d" => {}
                    argument => text.push(argument),
                }
            }
            self.findings.add(Writes, "");
            self.shell_text(&text.join(" "));
            return true;
        }
        let runs = matches!(
            sub,
            Some("new-session" | "new" | "new-window" | "neww" | "split-window" | "splitw")
        );
        let text = call
            .arguments
            .last()
            .filter(|last| runs && last.contains(' '));
        if let Some(text) = text {
            self.shell_text(text);
        }
        if call.name == "screen" {
            let flags = call
                .arguments
                .iter()
                .position(|argument| argument.starts_with("-d"));
            let rest = flags
                .and_then(|at| call.arguments.get(at + 1..))
                .unwrap_or_default();
            let named = flags
                .and_then(|at| call.arguments.get(at))
                .is_some_and(|flag| flag.ends_with('S'));
            let command: Vec<&str> = rest
                .iter()
                .skip(usize::from(named))
                .map(String::as_str)
                .skip_while(|argument| argument.starts_with('-'))
                .collect();
            if !command.is_empty() && flags.is_some() {
                self.shell_text(&command.join(" "));
            }
        }
        false
    }
}
