//! `eval`, `source`, `alias`, `tmux` and `screen`.

use super::shell::ShellCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{Reads, RunsDownloadedCode, Unknown, Writes};
use crate::safety::command::interpreters::{code_options, is_shell};
use crate::safety::command::programs::{self, ArgumentList};
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

    /// Judges `tmux`: its commands, which are separated by `;`.
    pub(super) fn tmux(&mut self, call: &ShellCall<'_>) {
        let mut rest = call.arguments;
        while let Some(option) = rest.first().filter(|argument| argument.starts_with('-')) {
            let value = rest.get(1).map(String::as_str).unwrap_or_default();
            match option.as_str() {
                "-f" => self.file_of_commands(value),
                "-c" => self.shell_text(value),
                _ => {}
            }
            let takes_next = matches!(option.as_str(), "-f" | "-c" | "-L" | "-S" | "-T");
            rest = rest.get(1 + usize::from(takes_next)..).unwrap_or_default();
        }
        for command in rest.split_inclusive(|argument| argument.ends_with(';')) {
            let mut command = command.to_vec();
            if let Some(last) = command.last_mut().filter(|last| last.ends_with(';')) {
                last.pop();
                if last.is_empty() {
                    command.pop();
                }
            }
            self.tmux_command(&command);
        }
        self.findings.add(Reads, "");
    }

    fn tmux_command(&mut self, command: &[String]) {
        let Some((name, arguments)) = command.split_first() else {
            return;
        };
        // `#(…)` in a format is a command.
        if arguments.iter().any(|argument| argument.contains("#(")) {
            self.findings
                .add(Unknown, "tmux runs a command in a format");
        }
        let takes: &[&str] = match name.as_str() {
            "send-keys" | "send" => &["-t", "-N"],
            "run-shell" | "run" | "pipe-pane" | "pipep" => &["-t", "-c", "-d"],
            "new-session" | "new" | "new-window" | "neww" | "split-window" | "splitw"
            | "respawn-pane" | "respawnp" | "respawn-window" | "respawnw" | "display-popup"
            | "popup" => &[
                "-t", "-s", "-n", "-c", "-e", "-x", "-y", "-F", "-f", "-l", "-p", "-b", "-d", "-h",
                "-S", "-T", "-w",
            ],
            "bind-key" | "bind" | "set-hook" | "confirm-before" | "confirm" | "command-prompt"
            | "paste-buffer" | "pasteb" | "if-shell" | "if" => {
                self.findings.add(
                    Unknown,
                    format!("{name} of tmux types or runs a text that is not analysed"),
                );
                return;
            }
            "set-option" | "set" | "set-window-option" | "setw" => {
                const RUNNING: [&str; 5] = [
                    "default-command",
                    "default-shell",
                    "lock-command",
                    "copy-command",
                    "editor",
                ];
                self.findings.add(Writes, "");
                if arguments
                    .iter()
                    .any(|argument| RUNNING.contains(&argument.as_str()))
                {
                    self.findings
                        .add(Unknown, "it sets a program that tmux runs");
                }
                return;
            }
            "source-file" | "source" => {
                for file in arguments
                    .iter()
                    .filter(|argument| !argument.starts_with('-'))
                {
                    self.file_of_commands(file);
                }
                return;
            }
            _ => return self.table("tmux", command),
        };
        // These have the letters of options that take a value, but take none.
        let takes = takes.iter().filter(|option| match name.as_str() {
            "new-window" | "neww" => !matches!(**option, "-d" | "-b" | "-S"),
            "split-window" | "splitw" => !matches!(**option, "-d" | "-b" | "-h" | "-f"),
            "new-session" | "new" => !matches!(**option, "-d"),
            _ => true,
        });
        let takes: Vec<&str> = takes.copied().collect();
        let list = ArgumentList::new(arguments, &takes, false);
        const KEYS: [&str; 5] = ["Enter", "C-m", "C-c", "Escape", "C-d"];
        let words = list.operands.iter().filter(|word| !KEYS.contains(word));
        let text = words.copied().collect::<Vec<_>>().join(" ");
        self.findings.add(Writes, "");
        if name.starts_with("pipe") {
            self.fed_text("tmux", &text);
        } else if !text.is_empty() {
            self.shell_text(&text);
        }
        if name.starts_with("send") && list.has_any(&["-l", "-H", "-K"]) {
            self.findings.add(Unknown, "tmux types keys");
        }
    }

    /// Judges `screen`, whose last arguments may be a command. Returns whether it typed one.
    pub(super) fn screen(&mut self, call: &ShellCall<'_>) -> bool {
        let at = call
            .arguments
            .iter()
            .position(|argument| argument == "stuff");
        if let Some(at) = at {
            let rest = call.arguments.get(at + 1..).unwrap_or_default();
            self.findings.add(Writes, "");
            self.findings.add(Unknown, "screen types a text");
            self.shell_text(&rest.join(" "));
            return true;
        }
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
        false
    }
}
