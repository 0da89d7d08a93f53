//! `eval`, `source`, `alias`, `tmux` and `screen`.

use super::shell::ShellCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{Reads, RunsDownloadedCode, Unknown, Writes};
use crate::safety::command::interpreters::{code_options, is_shell};
use crate::safety::command::programs::{self, find_option};
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

/// Commands of tmux that neither run nor type a text, with their short names. The first two are what people type for `attach`.
const TMUX_COMMANDS: &[&str] = &[
    "a",
    "at",
    "attach-session",
    "attach",
    "break-pane",
    "breakp",
    "capture-pane",
    "capturep",
    "clear-history",
    "clearhist",
    "clear-prompt-history",
    "clearphist",
    "clock-mode",
    "copy-mode",
    "delete-buffer",
    "deleteb",
    "display-message",
    "display",
    "find-window",
    "findw",
    "has-session",
    "has",
    "info",
    "join-pane",
    "joinp",
    "kill-pane",
    "killp",
    "kill-server",
    "kill-session",
    "kill-window",
    "killw",
    "last-pane",
    "lastp",
    "last-window",
    "last",
    "link-window",
    "linkw",
    "list-buffers",
    "lsb",
    "list-clients",
    "lsc",
    "list-commands",
    "lscm",
    "list-keys",
    "lsk",
    "list-panes",
    "lsp",
    "list-sessions",
    "ls",
    "list-windows",
    "lsw",
    "load-buffer",
    "loadb",
    "lock-client",
    "lockc",
    "lock-server",
    "lock",
    "lock-session",
    "locks",
    "move-pane",
    "movep",
    "move-window",
    "movew",
    "next-layout",
    "nextl",
    "next-window",
    "next",
    "previous-layout",
    "prevl",
    "previous-window",
    "prev",
    "refresh-client",
    "refresh",
    "rename-session",
    "rename",
    "rename-window",
    "renamew",
    "resize-pane",
    "resizep",
    "resize-window",
    "resizew",
    "rotate-window",
    "rotatew",
    "save-buffer",
    "saveb",
    "select-layout",
    "selectl",
    "select-pane",
    "selectp",
    "select-window",
    "selectw",
    "send-prefix",
    "set-buffer",
    "setb",
    "set-environment",
    "setenv",
    "show-buffer",
    "showb",
    "show-environment",
    "showenv",
    "show-hooks",
    "show-messages",
    "showmsgs",
    "show-options",
    "show",
    "show-prompt-history",
    "showphist",
    "show-window-options",
    "showw",
    "start-server",
    "start",
    "suspend-client",
    "suspendc",
    "swap-pane",
    "swapp",
    "swap-window",
    "swapw",
    "switch-client",
    "switchc",
    "unbind-key",
    "unbind",
    "unlink-window",
    "unlinkw",
    "wait-for",
    "wait",
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
        let text = call.arguments.join(" ");
        for word in text.split([' ', ';', '\n']) {
            if let Some((name, value)) = word.split_once('=') {
                self.note_constant(name, value.trim_matches(['"', '\'']));
            }
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
            false => self.shell_text(&text),
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
                    .add(Unknown, "it runs a file that is not known in advance");
            }
            _ => self.script_file(script, call, 0),
        }
    }

    pub(super) fn alias(&mut self, call: &ShellCall<'_>) {
        self.findings.add(Writes, "");
        // A file whose name is typed as a command is opened with the value of `-s`, which is judged as that of any other alias.
        if call
            .arguments
            .iter()
            .any(|argument| argument.starts_with('-') && argument.contains('g'))
        {
            let text = call.arguments.last().map_or("", String::as_str);
            self.findings.add_text(
                "it makes an alias that changes words anywhere in a command",
                text,
            );
            return;
        }
        for argument in call.arguments {
            let Some((name, value)) = argument.split_once('=') else {
                continue;
            };
            let first = value.split_whitespace().next().unwrap_or_default();
            if name.contains(UNKNOWN) || value.contains(UNKNOWN) {
                self.findings
                    .add(Unknown, "it makes an alias that is not known in advance");
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
        const TAKES: [&str; 5] = ["-f", "-c", "-L", "-S", "-T"];
        let (options, rest) = call.arguments.split_at(options_end(call.arguments, &TAKES));
        let find = |option| find_option(options, option, &TAKES, false);
        for file in find("-f") {
            self.file_of_commands(file.value(options));
        }
        for text in find("-c") {
            self.shell_text(text.value(options));
        }
        if !find("-C").is_empty() {
            self.findings
                .add(Unknown, "tmux runs the commands of its input");
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
            "send-keys" | "send" => &["-c", "-N", "-t"],
            "run-shell" | "run" | "pipe-pane" | "pipep" => &["-t", "-c", "-d"],
            "new-session" | "new" => &["-c", "-e", "-F", "-f", "-n", "-s", "-t", "-x", "-y"],
            "new-window" | "neww" => &["-c", "-e", "-F", "-n", "-t"],
            "split-window" | "splitw" => &["-c", "-e", "-F", "-l", "-p", "-t"],
            "respawn-pane" | "respawnp" | "respawn-window" | "respawnw" => &["-c", "-e", "-t"],
            "display-popup" | "popup" => &[
                "-b", "-c", "-d", "-e", "-h", "-s", "-S", "-t", "-T", "-w", "-x", "-y",
            ],
            "detach-client" | "detach" => {
                let others = ["-E", "-s", "-t"];
                for text in find_option(arguments, "-E", &others, false) {
                    self.shell_text(text.value(arguments));
                }
                return self.table("tmux", command);
            }
            "bind-key" | "bind" | "set-hook" | "confirm-before" | "confirm" | "command-prompt"
            | "paste-buffer" | "pasteb" | "if-shell" | "if" => {
                self.findings.add(
                    Unknown,
                    format!("{name} of tmux types or runs text that is not analysed"),
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
            name if TMUX_COMMANDS.contains(&name) => return self.table("tmux", command),
            // Tmux knows a command by its beginning too.
            name => {
                self.findings
                    .add(Unknown, format!("what {name} of tmux does is not known"));
                return;
            }
        };
        let (options, operands) = arguments.split_at(options_end(arguments, takes));
        const KEYS: [&str; 5] = ["Enter", "C-m", "C-c", "Escape", "C-d"];
        let words = operands.iter().map(String::as_str);
        let words: Vec<&str> = words.filter(|word| !KEYS.contains(word)).collect();
        let text = words.join(" ");
        self.findings.add(Writes, "");
        if name.starts_with("pipe") {
            self.fed_text("tmux", &text);
        } else if !text.is_empty() {
            self.shell_text(&text);
        }
        let has = |option| !find_option(options, option, takes, false).is_empty();
        if name.starts_with("send") && ["-l", "-H", "-K"].into_iter().any(has) {
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
            self.findings.add(Unknown, "screen types text");
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

/// Returns the index after the leading options, of which these take a value.
fn options_end(arguments: &[String], takes: &[&str]) -> usize {
    let mut at = 0;
    while let Some(argument) = arguments
        .get(at)
        .filter(|argument| argument.starts_with('-') && argument.len() > 1)
    {
        at += 1;
        if argument == "--" {
            break;
        }
        let takes_value = |c: char| takes.iter().any(|option| option.ends_with(c));
        let value = argument.find(takes_value);
        at += usize::from(value.is_some_and(|value| value + 1 == argument.len()));
    }
    at.min(arguments.len())
}
