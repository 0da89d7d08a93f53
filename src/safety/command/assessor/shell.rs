//! Shells, interpreters, and builtins that run text or change the shell.

use super::candidates::constant_output;
use super::streams::{StreamContent, descriptor_of};
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{
    Destroys, Reads, RunsDownloadedCode, Unknown, Writes,
};
use crate::safety::command::interpreters::{
    code_options, is_project_script, is_shell, value_options,
};
use crate::safety::command::programs::{self, find_option};
use crate::safety::command::shell_options::ShellOptions;
use crate::safety::command::word::{ShellWord, UNKNOWN};
use crate::safety::command::wrappers::elsewhere;

/// A program with the words of its arguments; the words are absent for a command inside of an argument.
pub struct ShellCall<'a> {
    /// The name.
    pub name: &'a str,
    /// The arguments.
    pub arguments: &'a [String],
    /// Their words.
    pub words: &'a [ShellWord],
}

impl Assessor<'_> {
    /// Judges shells, interpreters and builtins. Returns whether the call was one.
    pub(super) fn shell_program(&mut self, script: &ScriptFacts, call: &ShellCall<'_>) -> bool {
        if matches!(call.name, "pwsh" | "powershell" | "powershell.exe") {
            self.power_shell(call);
            return true;
        }
        if is_shell(call.name) {
            self.shell_call(script, call);
            return true;
        }
        self.assigned_names(script, call);
        if let Some(options) = code_options(call.name) {
            return self.interpreter(script, call, options);
        }
        match call.name {
            "eval" => self.eval(script, call),
            "source" | "." => self.source(script, call),
            "trap" => {
                let mut arguments = call.arguments.iter();
                let first = arguments.find(|argument| *argument != "--");
                if let Some(text) = first.filter(|text| !text.starts_with('-')) {
                    self.shell_text(text);
                }
                self.findings.add(Writes, "");
            }
            "alias" => self.alias(call),
            "zmodload" => match call.arguments.iter().any(|module| {
                let replaces = ["files", "system", "mapfile"];
                replaces.iter().any(|name| module.contains(name)) || module.contains(UNKNOWN)
            }) {
                true => self
                    .findings
                    .add(Unknown, "it loads builtins or variables that change files"),
                false => self.findings.add(Writes, ""),
            },
            // The functions of the user and of this line, which are judged where they are defined.
            "add-zsh-hook" | "add-zle-hook-widget" if call.arguments.iter().all(|a| is_name(a)) => {
                self.findings.add(Writes, "");
            }
            "add-zsh-hook" | "add-zle-hook-widget" | "sched" => {
                let text = call.arguments.get(1..).unwrap_or_default().join(" ");
                self.findings
                    .add_text("it makes the shell run a function later", text);
            }
            "set" | "setopt"
                if call
                    .arguments
                    .iter()
                    .any(|argument| expands_globs(argument)) =>
            {
                let reason = "it makes the values of variables patterns, which may run code";
                self.findings.add(Unknown, reason);
            }
            "autoload" => {
                let files = call.arguments.iter();
                for file in files.filter(|file| file.contains('/') && !file.starts_with('-')) {
                    self.file_of_commands(file);
                }
                return false;
            }
            // `hash -d` names directories.
            "hash"
                if call.arguments.first().is_none_or(|option| option != "-d")
                    && call.arguments.iter().any(|argument| argument.contains('=')) =>
            {
                self.findings
                    .add(Unknown, "it changes which program a name means");
            }
            "enable" | "disable" | "emulate"
                if call
                    .arguments
                    .iter()
                    .any(|argument| argument == "-f" || argument == "-c") =>
            {
                let text = call.arguments.last().map_or("", String::as_str);
                self.findings
                    .add_text("it changes what names mean or runs text", text);
            }
            "fc" if call
                .arguments
                .iter()
                .any(|argument| argument == "-e" || argument == "-s")
                || call.name == "r" =>
            {
                self.findings
                    .add(Unknown, "it runs a command of the history");
            }
            "bindkey" if call.arguments.iter().any(|argument| argument == "-s") => {
                let text = call.arguments.last().map_or("", String::as_str);
                self.findings.add_text("it makes a key type text", text);
            }
            "zle" => {
                let has = |option: &str| call.arguments.iter().any(|argument| argument == option);
                match has("-A") || has("-U") {
                    true => self
                        .findings
                        .add(Unknown, "it changes what a key does, or types keys"),
                    false if has("-N") || has("-F") => self.findings.add(Writes, ""),
                    false => return false,
                }
            }
            "zstyle" if call.arguments.iter().any(|argument| argument == "-e") => self
                .findings
                .add(Unknown, "it makes the shell run text later"),
            "print" => {
                let options = call.arguments.iter().take_while(|argument| {
                    argument.starts_with('-') && argument.len() > 1 && *argument != "--"
                });
                let (types, expands) = options.fold((false, false), |(types, expands), option| {
                    (
                        types || option.contains('z'),
                        expands || option.contains('P'),
                    )
                });
                if call.arguments.first().is_some_and(|option| {
                    option.starts_with('-') && !option.starts_with("--") && option.contains('p')
                }) {
                    let text = call.arguments.get(1..).unwrap_or_default().join(" ");
                    self.sent_to_coprocess(script, &StreamContent::Text(text));
                }
                // The user sees the text on the next command line, and runs it or not.
                if types {
                    self.findings.add(Writes, "");
                }
                let runs = |text: &String| {
                    let is_value = text.contains(UNKNOWN) && self.has_substitution;
                    text.contains("$(") || text.contains('`') || is_value
                };
                if expands && call.arguments.iter().any(runs) {
                    let text = call.arguments.join(" ");
                    self.findings.add_text("its prompt may run a command", text);
                }
                return false;
            }
            "unset"
                if call
                    .arguments
                    .iter()
                    .any(|argument| argument.starts_with("mapfile[")) =>
            {
                self.findings.add(Destroys, "deletes files");
            }
            "zmv" | "zcp" | "zln" => {
                self.evaluated_name(call);
                return false;
            }
            "su" | "runuser" | "script" | "flock" | "nix-shell" | "vagrant" | "machinectl"
            | "sg" | "newgrp" => {
                // The words after `--` are options of the shell that `su` starts.
                let arguments = call.arguments.iter().filter(|argument| *argument != "--");
                let arguments: Vec<String> = arguments.cloned().collect();
                let mut texts = ["-c", "--command", "--run"].into_iter().flat_map(|option| {
                    let found = find_option(&arguments, option, &["-s", "-g", "-w"], false);
                    found.into_iter().map(|found| found.value(&arguments))
                });
                let Some(text) = texts.next() else {
                    return false;
                };
                let before = self.elsewhere;
                self.set_elsewhere(elsewhere(call.name, &[]).or(before));
                self.shell_text(text);
                self.set_elsewhere(before);
                self.findings.add(Writes, "");
                // The package in whose environment the text runs counts as well.
                return call.name != "nix-shell";
            }
            "tmux" | "byobu" => self.tmux(call),
            "screen" => return self.screen(call),
            _ => return false,
        }
        true
    }

    /// Judges the new name of `zmv`, whose substitutions run for each file.
    fn evaluated_name(&mut self, call: &ShellCall<'_>) {
        let entry = programs::find(call.name);
        let list = entry.map(|entry| entry.arguments(call.arguments));
        let name = list.and_then(|list| list.operands.get(1).copied());
        if let Some(name) = name.filter(|name| name.contains("$(") || name.contains('`')) {
            self.shell_text(&format!(": \"{}\"", name.replace('"', "")));
        }
    }

    /// Judges the text or file that an argument at `at` gives to something that runs it.
    pub(super) fn run_argument(
        &mut self,
        script: &ScriptFacts,
        call: &ShellCall<'_>,
        at: usize,
        is_code: bool,
    ) {
        let text = call.arguments.get(at).cloned().unwrap_or_default();
        let downloads = call
            .words
            .get(at)
            .is_some_and(|word| self.word_downloads(script, word));
        match (downloads, is_code) {
            (true, _) => self
                .findings
                .add_grave(RunsDownloadedCode, "runs a download"),
            (false, true) => self.code_of(call.name, &text),
            (false, false) => self.shell_text(&text),
        }
    }

    fn shell_call(&mut self, script: &ScriptFacts, call: &ShellCall<'_>) {
        let options = ShellOptions::read(call.arguments);
        if options.has_startup {
            self.findings
                .add(Unknown, "it runs a file when the shell starts");
        }
        match options.has_text {
            true if options.operand >= call.arguments.len() => self
                .findings
                .add(Unknown, "it runs text that is not known in advance"),
            true => {
                self.findings.add(Reads, "");
                let parameters = call.arguments.get(options.operand + 1..);
                self.scope = None;
                self.note_parameters(0, parameters.unwrap_or_default(), false);
                self.run_argument(script, call, options.operand, false);
            }
            false => self.script_file(script, call, options.operand),
        }
    }

    /// Judges a file that a shell or interpreter runs, if there is one.
    pub(super) fn script_file(&mut self, script: &ScriptFacts, call: &ShellCall<'_>, at: usize) {
        let Some(file) = call.arguments.get(at) else {
            self.findings.add(Writes, "");
            return;
        };
        if let Some(opened) =
            descriptor_of(file).and_then(|number| script.opened(number, usize::MAX))
        {
            let stream = self.redirected(script, opened);
            let is_download =
                stream.is_some_and(|stream| stream.content == StreamContent::Download);
            return match is_download {
                true => self
                    .findings
                    .add_grave(RunsDownloadedCode, "runs a download"),
                false => self
                    .findings
                    .add(Unknown, "it runs what a descriptor reads"),
            };
        }
        let substitution = call
            .words
            .get(at)
            .is_some_and(|word| word.substitutions().next().is_some());
        let downloads = call
            .words
            .get(at)
            .is_some_and(|word| self.word_downloads(script, word));
        let is_environment = file.ends_with("bin/activate") && !self.place.is_shared(file);
        if downloads || self.note_run_file(file) && !is_environment {
            self.findings
                .add_grave(RunsDownloadedCode, "runs a download");
        } else if substitution {
            let word = call.words.get(at).filter(|_| runs_shell(call));
            let commands = word.and_then(|word| word.substitutions().next());
            let text = commands.and_then(|(commands, _)| constant_output(script, commands));
            match text {
                Some(text) => self.shell_text(&text),
                None => self
                    .findings
                    .add(Unknown, "it runs the output of a command"),
            }
        } else {
            if runs_shell(call) {
                self.run_texts_of(file);
            }
            self.local_script(file);
        }
    }

    fn local_script(&mut self, file: &str) {
        match self.place.is_shared(file) {
            true => self
                .findings
                .add(Unknown, format!("what {file} does is not known")),
            false => self.findings.add(Writes, ""),
        }
    }

    /// Judges a file that holds commands for a program.
    pub(super) fn file_of_commands(&mut self, file: &str) {
        if self.note_run_file(file) {
            self.findings
                .add_grave(RunsDownloadedCode, "runs a download");
        } else if file.starts_with(UNKNOWN) {
            self.findings
                .add(Unknown, "it runs a file that is not known in advance");
        } else {
            self.local_script(file);
        }
    }

    fn interpreter(
        &mut self,
        script: &ScriptFacts,
        call: &ShellCall<'_>,
        options: &[&str],
    ) -> bool {
        let plain = call
            .name
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let letters: Vec<char> = options
            .iter()
            .filter(|option| option.len() == 2)
            .filter_map(|option| option.chars().nth(1))
            .collect();
        // Other letters before the code have no value.
        let is_cluster = |argument: &str| match plain {
            "python" | "node" | "bun" => {
                argument.starts_with('-')
                    && !argument.starts_with("--")
                    && argument
                        .chars()
                        .skip(1)
                        .all(|c| c.is_ascii_alphanumeric() || c == '.')
            }
            _ => false,
        };
        let has_letters = matches!(plain, "perl" | "ruby" | "jruby");
        let (mut at, mut has_code) = match has_letters {
            true => self.script_options(script, call),
            false => (0, false),
        };
        while let Some(argument) = call.arguments.get(at).filter(|_| !has_letters) {
            let last = argument.chars().next_back().unwrap_or(' ');
            let is_option = options.contains(&argument.as_str())
                || is_cluster(argument) && letters.contains(&last) && !argument.starts_with("-i");
            if is_option {
                has_code = true;
                self.run_argument(script, call, at + 1, true);
                at += 2;
                continue;
            }
            let attached = options
                .iter()
                .find_map(|option| argument.strip_prefix(option))
                .filter(|rest| !rest.is_empty() && argument.starts_with('-'));
            if let Some(code) = attached.filter(|_| !is_cluster(argument) || plain == "python") {
                has_code = true;
                self.code_of(call.name, code.trim_start_matches('='));
            }
            if argument == "-l" && plain == "osascript" {
                at += 2;
                continue;
            }
            if argument == "-m" && plain == "python" || argument == "-M" {
                return self.python_module(script, call, at + 1);
            }
            if let Some(library) = library_of(plain, call.arguments, at) {
                match library.starts_with(['.', '/']) || plain == "node" {
                    true => self.file_of_commands(library),
                    false => self.findings.add(
                        Unknown,
                        format!("what the library {library} does is not known"),
                    ),
                }
                at += 1 + usize::from(!argument.contains('='));
                continue;
            }
            if plain == "php" && argument.starts_with("-d") {
                let setting = call.arguments.get(at + 1).filter(|_| argument == "-d");
                let setting = setting.unwrap_or(argument);
                if ["auto_", "extension", "include", "open_basedir", "disable"]
                    .iter()
                    .any(|name| setting.contains(name))
                {
                    self.findings
                        .add(Unknown, "a setting of php makes it run other code");
                }
                at += 1 + usize::from(argument == "-d");
                continue;
            }
            if value_options(plain).contains(&argument.as_str()) {
                at += 2;
                continue;
            }
            if !argument.starts_with('-') || argument == "-" {
                break;
            }
            at += 1;
        }
        if has_code {
            self.findings.add(Reads, "");
            return true;
        }
        if matches!(plain, "deno" | "bun" | "elixir" | "julia") {
            return false;
        }
        if call.arguments.iter().all(|argument| {
            matches!(
                argument.as_str(),
                "--version" | "-V" | "-v" | "--help" | "-h"
            )
        }) && !call.arguments.is_empty()
        {
            self.findings.add(Reads, "");
            return true;
        }
        let file = call
            .arguments
            .get(at)
            .map(|file| file.rsplit('/').next().unwrap_or_default());
        if let Some(name) = file.filter(|name| is_project_script(name)) {
            let rest = call.arguments.get(at + 1..).unwrap_or_default();
            self.table(name, rest);
        }
        self.script_file(script, call, at);
        true
    }
}

/// Whether a program runs a file of shell commands.
fn runs_shell(call: &ShellCall<'_>) -> bool {
    is_shell(call.name) || matches!(call.name, "source" | ".")
}

/// Whether a word is a plain name or an option, and no text.
fn is_name(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    word.chars().all(is_part)
}

/// Whether an argument of `set` or `setopt` is the option with which zsh takes values of variables for patterns.
fn expands_globs(option: &str) -> bool {
    option.replace('_', "").eq_ignore_ascii_case("globsubst")
}

/// Returns the library that an argument makes an interpreter load before the code.
fn library_of<'a>(interpreter: &str, arguments: &'a [String], at: usize) -> Option<&'a str> {
    let options: &[&str] = match interpreter {
        "node" | "nodejs" | "bun" => &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
            "--preload",
        ],
        "lua" | "luajit" => &["-l"],
        _ => return None,
    };
    let argument = arguments.get(at)?;
    let (name, value) = match argument.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (argument.as_str(), None),
    };
    let next = || arguments.get(at + 1).map(String::as_str);
    options.contains(&name).then(|| value.or_else(next))?
}
