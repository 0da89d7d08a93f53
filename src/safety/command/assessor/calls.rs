//! Judges one command: its assignments, its wrappers, its program.

use super::shell::ShellCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{
    self, Destroys, Network, Reads, RunsDownloadedCode, Unknown, Writes,
};
use crate::safety::command::interpreters;
use crate::safety::command::programs;
use crate::safety::command::roles::{MAX_WRAPPERS, program_name, wrapped};
use crate::safety::command::special::{self, InnerCommand, ProgramCall};
use crate::safety::command::syntax::SimpleCommand;
use crate::safety::command::targets::PathReach;
use crate::safety::command::word::{ShellWord, UNKNOWN};
use crate::safety::command::wrappers::WrappedCommand;

/// Commands that one command runs in turn, as by `find -exec`.
const MAX_INNER: usize = 24;

/// A program with its arguments, on its way through the wrappers.
struct UnwrappedCall {
    /// The name and the arguments.
    arguments: Vec<String>,
    /// The words that the arguments come from; empty for a command inside of an argument.
    words: Vec<ShellWord>,
    /// Arguments are added when it runs.
    is_fed: bool,
}

impl Assessor<'_> {
    pub(super) fn command(&mut self, script: &ScriptFacts, index: usize) {
        let (Some(command), Some(facts)) =
            (script.script.commands.get(index), script.facts.get(index))
        else {
            return;
        };
        self.assignments(script, command);
        if command.words.is_empty() {
            return;
        }
        let mut pending = vec![UnwrappedCall {
            arguments: facts.values.clone(),
            words: command.words.clone(),
            is_fed: false,
        }];
        let mut count = 0;
        while let Some(call) = pending.pop() {
            count += 1;
            if count > MAX_INNER {
                self.findings.add(Unknown, "it runs too many commands");
                return;
            }
            self.call(script, call, &mut pending);
        }
    }

    /// Judges variables that change what later commands do.
    fn assignments(&mut self, script: &ScriptFacts, command: &SimpleCommand) {
        for (name, word) in &command.assignments {
            let value = self.value(word);
            if command.words.is_empty() || !value.is_empty() {
                self.findings.add(
                    if command.words.is_empty() {
                        Writes
                    } else {
                        Reads
                    },
                    "",
                );
            }
            let plain = name.split('[').next().unwrap_or_default();
            match plain {
                "PS1" | "PS2" | "PS3" | "RPS1" | "PROMPT" | "PROMPT2" | "RPROMPT" | "SPROMPT"
                    if value.contains("$(") || value.contains('`') =>
                {
                    self.findings.add(Unknown, "its prompt may run a command");
                }
                "PATH" | "path" | "fpath" | "FPATH" => {
                    let keeps = value.contains(UNKNOWN);
                    let is_odd = value.split(':').any(|part| {
                        part.is_empty() && !value.is_empty()
                            || part == "."
                            || part.starts_with("/tmp")
                            || part.starts_with("/dev/shm")
                            || part.starts_with("./")
                    });
                    match (keeps, is_odd) {
                        (true, false) => self.findings.add(
                            Writes,
                            format!("changes {name}, where programs are looked for"),
                        ),
                        _ => self.findings.add(
                            Unknown,
                            format!("it sets {name}, so that other programs may run"),
                        ),
                    }
                }
                "LESS" | "MANOPT" | "LESSKEY_CONTENT" if value.contains(['!', '|', '+', 'P']) => {
                    self.findings.add(
                        Unknown,
                        format!("it sets {name}, so that other code may run"),
                    );
                }
                "RIPGREP_CONFIG_PATH"
                | "TAR_OPTIONS"
                | "LESSKEY"
                | "LESSKEYIN"
                | "LESSKEY_SYSTEM"
                | "LD_PRELOAD"
                | "LD_AUDIT"
                | "DYLD_INSERT_LIBRARIES"
                | "BASH_ENV"
                | "ENV"
                | "ZDOTDIR"
                | "PROMPT_COMMAND"
                | "PERL5OPT"
                | "PERL5DB"
                | "PYTHONSTARTUP"
                | "RUBYOPT"
                | "JAVA_TOOL_OPTIONS"
                | "GIT_EXEC_PATH"
                | "GIT_CONFIG_GLOBAL"
                | "GIT_CONFIG_SYSTEM"
                | "GIT_CONFIG_COUNT"
                | "GIT_CONFIG_PARAMETERS"
                | "GCONV_PATH"
                | "BASH_FUNC_x"
                | "PS4"
                | "NULLCMD"
                | "READNULLCMD"
                | "commands"
                | "aliases"
                | "functions"
                | "galiases"
                | "saliases" => {
                    self.findings.add(
                        Unknown,
                        format!("it sets {name}, so that other code may run"),
                    );
                }
                "NODE_OPTIONS"
                    if [
                        "--require",
                        "-r ",
                        "--import",
                        "--loader",
                        "--experimental-loader",
                    ]
                    .iter()
                    .any(|option| value.contains(option)) =>
                {
                    self.findings.add(
                        Unknown,
                        format!("it sets {name}, so that other code may run"),
                    );
                }
                "PAGER"
                | "EDITOR"
                | "VISUAL"
                | "BROWSER"
                | "GIT_PAGER"
                | "GIT_EDITOR"
                | "GIT_SEQUENCE_EDITOR"
                | "GIT_SSH_COMMAND"
                | "GIT_SSH"
                | "GIT_EXTERNAL_DIFF"
                | "GIT_ASKPASS"
                | "SSH_ASKPASS"
                | "LESSOPEN"
                | "LESSCLOSE"
                | "MANPAGER"
                | "SUDO_ASKPASS"
                | "GIT_PROXY_COMMAND"
                | "RSYNC_RSH"
                | "BAT_PAGER"
                | "DELTA_PAGER"
                | "GH_PAGER"
                | "PSQL_PAGER"
                | "SYSTEMD_PAGER"
                | "KUBE_EDITOR"
                | "RUSTC_WRAPPER"
                | "FZF_DEFAULT_COMMAND"
                | "CC"
                | "CXX"
                | "MAKEFLAGS_" => match self.word_downloads(script, word) {
                    true => self.findings.add(RunsDownloadedCode, "runs a download"),
                    false if value.is_empty() => {}
                    false => {
                        let first = value
                            .split_whitespace()
                            .next()
                            .map(program_name)
                            .unwrap_or_default();
                        if interpreters::is_shell(first)
                            || interpreters::code_options(first).is_some()
                        {
                            self.findings.add(
                                Unknown,
                                format!("it sets {name}, so that other code may run"),
                            );
                        }
                        self.shell_text(&value);
                    }
                },
                _ => {}
            }
        }
    }

    fn call(
        &mut self,
        script: &ScriptFacts,
        call: UnwrappedCall,
        pending: &mut Vec<UnwrappedCall>,
    ) {
        let UnwrappedCall {
            mut arguments,
            mut words,
            mut is_fed,
        } = call;
        for _ in 0..MAX_WRAPPERS {
            let Some(path) = arguments.first() else {
                return;
            };
            if path.is_empty() || path.contains([UNKNOWN, '*', '?']) {
                self.findings
                    .add(Unknown, "the name of a command is not known before it runs");
                return;
            }
            let name = program_name(path).to_owned();
            let inner = wrapped(&name, &arguments);
            let is_own = !matches!(
                name.as_str(),
                "sudo"
                    | "doas"
                    | "env"
                    | "command"
                    | "builtin"
                    | "exec"
                    | "noglob"
                    | "nocorrect"
                    | "-"
                    | "nohup"
                    | "nice"
                    | "time"
                    | "timeout"
                    | "xargs"
                    | "repeat"
                    | "watch"
                    | "parallel"
                    | "coproc"
            );
            match inner {
                Some(WrappedCommand::At(at)) => {
                    if is_own {
                        self.program(script, &name, &arguments, &words, is_fed, pending);
                    }
                    if matches!(name.as_str(), "xargs" | "gxargs" | "entr") {
                        is_fed = true;
                    }
                    arguments = arguments.split_off(at);
                    words = match words.len() >= at {
                        true => words.split_off(at),
                        false => Vec::new(),
                    };
                    // `uv run FILE.py`
                    if is_own && arguments.first().is_some_and(|file| file.ends_with(".py")) {
                        arguments.insert(0, "python".to_owned());
                        words.insert(0, ShellWord::default());
                    }
                    // The text of a shell with a placeholder in it is not known.
                    let has_placeholder = arguments.iter().any(|argument| argument.contains("{}"));
                    let shell = arguments
                        .first()
                        .is_some_and(|name| interpreters::is_shell(program_name(name)));
                    if is_fed && shell && (has_placeholder || arguments.len() < 3) {
                        self.findings
                            .add(Unknown, "it runs texts that are not known before it runs");
                        return;
                    }
                }
                Some(WrappedCommand::Text(text)) => {
                    if is_own {
                        self.program(script, &name, &arguments, &words, is_fed, pending);
                    }
                    self.findings.add(Reads, "");
                    self.shell_text(&text);
                    return;
                }
                Some(WrappedCommand::Nothing) => {
                    match name.as_str() {
                        "parallel" => self
                            .findings
                            .add(Unknown, "it runs texts that are not known before it runs"),
                        "xargs" | "env" | "time" => self.findings.add(Reads, ""),
                        _ if is_own => {
                            self.program(script, &name, &arguments, &words, is_fed, pending)
                        }
                        _ => self.findings.add(Writes, ""),
                    }
                    return;
                }
                None => {
                    self.program(script, &name, &arguments, &words, is_fed, pending);
                    return;
                }
            }
        }
        self.findings.add(Unknown, "it is nested too deeply");
    }

    /// Judges a program that is no wrapper.
    fn program(
        &mut self,
        script: &ScriptFacts,
        name: &str,
        all: &[String],
        words: &[ShellWord],
        is_fed: bool,
        pending: &mut Vec<UnwrappedCall>,
    ) {
        let arguments = all.get(1..).unwrap_or_default();
        let shell = ShellCall {
            name,
            arguments,
            words: words.get(1..).unwrap_or_default(),
        };
        if self.shell_program(script, &shell) || self.functions.contains(name) {
            return;
        }
        if !matches!(
            name,
            "ssh"
                | "scp"
                | "sftp"
                | "rsync"
                | "ssh-add"
                | "ssh-keygen"
                | "ssh-copy-id"
                | "chmod"
                | "chown"
                | "ls"
                | "stat"
                | "kubectl"
                | "docker"
                | "export"
                | "test"
                | "["
                | "echo"
        ) {
            for argument in arguments {
                self.secret(argument);
            }
        }
        if name.contains('/') {
            self.path_program(name, arguments);
            return;
        }
        let call = ProgramCall {
            name,
            arguments,
            is_fed,
        };
        let outcome = special::judge(&call, self.place, &mut self.findings);
        for inner in outcome.inner {
            match inner {
                InnerCommand::Text(text) => self.shell_text(&text),
                InnerCommand::Fed(text) => self.fed_text(name, &text),
                InnerCommand::Arguments(arguments) => pending.push(UnwrappedCall {
                    arguments,
                    words: Vec::new(),
                    is_fed: true,
                }),
            }
        }
        let from_download = arguments
            .iter()
            .any(|argument| self.is_downloaded(argument));
        if from_download {
            match name {
                "tar" | "unzip" | "bsdtar" | "7z" | "gunzip" => self.has_unpacked = true,
                "dpkg" | "rpm" | "apt" | "apt-get" | "dnf" | "yum" | "pip" | "pip3" | "npm"
                | "gem" | "installer" | "snap" | "open" | "make" | "psql" | "git" | "java"
                | "kubectl" | "crontab" => {
                    self.findings
                        .add(RunsDownloadedCode, "installs or runs a download");
                }
                _ => {}
            }
        }
        self.has_cloned |= arguments.iter().take(3).any(|argument| argument == "clone")
            && matches!(name, "git" | "gh" | "hg" | "jj" | "ghq" | "svn");
        self.downloaded.extend(outcome.downloads);
        let (name, arguments) = match outcome.rewritten {
            Some((name, arguments)) => (name, arguments),
            None => (name, arguments.to_vec()),
        };
        if outcome.is_complete {
            self.add_own_class(name);
            self.single_uses(name, &arguments);
            return;
        }
        self.table(name, &arguments);
    }

    /// Adds the class of programs that use the network whatever they do.
    fn add_own_class(&mut self, name: &str) {
        if matches!(name, "redis-cli" | "mongosh") {
            self.findings.add(Network, "");
        }
    }

    pub(super) fn table(&mut self, name: &str, arguments: &[String]) {
        let Some(entry) = programs::find(name) else {
            self.findings
                .add(Unknown, format!("what {name} does is not known"));
            return;
        };
        let list = entry.arguments(arguments);
        self.uses(name, entry.uses(arguments, &list));
        let verdict = entry.verdict(name, &list);
        if verdict.class == Reads {
            self.uses(name, entry.suspect_uses(name, arguments));
        }
        match verdict.class {
            CommandClass::Destroys if verdict.reason.is_empty() => {
                self.findings.add(Destroys, format!("deletes with {name}"))
            }
            class => self.findings.add(class, verdict.reason),
        }
    }

    /// Whether a file is one that the command line has downloaded.
    pub(super) fn is_downloaded(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        let mut files = self.downloaded.iter();
        !name.is_empty() && files.any(|file| file.rsplit('/').next() == Some(name))
    }

    /// Judges a program that is named by its path.
    fn path_program(&mut self, path: &str, arguments: &[String]) {
        if self.is_downloaded(path) || self.has_unpacked || self.has_cloned {
            self.findings
                .add_grave(RunsDownloadedCode, "runs a download");
            return;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let entry =
            programs::find(name).map(|entry| entry.verdict(name, &entry.arguments(arguments)));
        if let Some(verdict) = entry.filter(|verdict| verdict.class == Destroys) {
            self.findings.add(Destroys, verdict.reason);
            return;
        }
        let words = arguments.iter().take(2);
        let deletes = words.into_iter().any(|word| {
            word.trim_start_matches('-')
                .split([':', '-', '_'])
                .any(|part| {
                    matches!(
                        part,
                        "delete" | "destroy" | "purge" | "wipe" | "drop" | "teardown" | "uninstall"
                    )
                })
        });
        match self.place.reach(path) {
            _ if deletes => self.findings.add(Destroys, format!("deletes with {name}")),
            PathReach::Inside => self
                .findings
                .add(Writes, format!("runs {name} of this directory")),
            _ if path.starts_with(self.place.home) => {
                self.findings.add(Writes, format!("runs {name}"))
            }
            _ if path.starts_with("../")
                || path.starts_with("/opt/")
                || path.starts_with("/Applications/")
                || path.starts_with("/usr/lib") =>
            {
                self.findings.add(Writes, format!("runs {name}"))
            }
            _ => self
                .findings
                .add(Unknown, format!("what {name} does is not known")),
        }
    }
}
