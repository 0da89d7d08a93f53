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
                    match is_own {
                        true => self.program(script, &name, &arguments, &words, is_fed, pending),
                        false => self.wrapper_arguments(script, &name, &arguments, at),
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
                    match is_own {
                        true => self.program(script, &name, &arguments, &words, is_fed, pending),
                        false => self.wrapper_arguments(script, &name, &arguments, arguments.len()),
                    }
                    self.findings.add(Reads, "");
                    self.shell_text(&text);
                    return;
                }
                Some(WrappedCommand::Nothing) => {
                    self.wrapper_arguments(script, &name, &arguments, arguments.len());
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
        self.directory_of(name, arguments);
        let directory = self.directory.clone();
        let call = ProgramCall {
            name,
            arguments,
            is_fed,
            directory: directory.as_deref(),
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
        if matches!(verdict.class, Reads | Network | Writes) {
            let reads = verdict.class == Reads;
            self.uses(name, entry.suspect_uses(name, arguments, reads));
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
