//! Judges one command: its assignments, its wrappers, its program.

use super::fed::{ENTR_FILE, PLACEHOLDER, UnwrappedCall, placeholder};
use super::shell::ShellCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{
    Destroys, Network, Reads, RunsDownloadedCode, Unknown, Writes,
};
use crate::safety::command::interpreters;
use crate::safety::command::programs;
use crate::safety::command::roles::{MAX_WRAPPERS, prints_commands, wrapped};
use crate::safety::command::special::{self, InnerCommand, ProgramCall};
use crate::safety::command::targets::{attaches, is_disk};
use crate::safety::command::word::{ShellWord, UNKNOWN, program_name};
use crate::safety::command::wrappers::{WrappedCommand, elsewhere};

/// Commands that one command runs in turn, as by `find -exec`.
const MAX_INNER: usize = 24;

const UNKNOWN_NAME: &str = "the name of a command is not known in advance";

/// Whether a word before a command leaves it to be looked up among the functions.
pub(super) fn runs_functions(name: &str) -> bool {
    matches!(
        name,
        "noglob" | "nocorrect" | "-" | "time" | "repeat" | "coproc"
    )
}

impl Assessor<'_> {
    pub(super) fn command(&mut self, script: &ScriptFacts, index: usize) {
        let (Some(command), Some(facts)) =
            (script.script.commands.get(index), script.facts.get(index))
        else {
            return;
        };
        self.set_input(script, index);
        self.set_scope(script, index);
        self.assignments(script, command);
        if command.words.is_empty() {
            return;
        }
        self.sent_words(script, command, facts);
        let mut arguments = facts.values.clone();
        let named = command.words.first();
        let named = named.and_then(|word| script.found_program(word));
        if let (Some(name), Some(first)) = (named, arguments.first_mut()) {
            name.clone_into(first);
        }
        // Other programs look at the file.
        for (word, argument) in command.words.iter().zip(&mut arguments).skip(1) {
            if let Some(name) = script
                .found_program(word)
                .filter(|name| !name.contains('/'))
            {
                *argument = format!("/usr/bin/{name}");
            }
        }
        // The shell of the user, unless the command line says otherwise.
        let is_shell = |word: &ShellWord| word.sole_variable() == Some("SHELL");
        let mut commands = script.script.commands.iter();
        let sets = |(name, _): &(String, ShellWord)| name == "SHELL";
        let is_set = commands.any(|own| own.assignments.iter().any(sets));
        let is_set = is_set || self.values.contains_key("SHELL");
        for (word, argument) in command.words.iter().zip(&mut arguments) {
            if is_shell(word) && !is_set {
                "sh".clone_into(argument);
            }
        }
        self.known_directories(script, command, &mut arguments);
        self.note_fed(script, index);
        let call = UnwrappedCall {
            arguments,
            words: command.words.clone(),
            function_at: Some(index),
            ..UnwrappedCall::default()
        };
        self.called(script, index, call);
    }

    /// Judges a call and the commands that it runs in turn.
    pub(super) fn calls(&mut self, script: &ScriptFacts, call: UnwrappedCall) {
        let before = self.elsewhere;
        let mut pending = vec![call];
        let mut count = 0;
        while let Some(call) = pending.pop() {
            count += 1;
            if count > MAX_INNER {
                self.findings.add(Unknown, "it runs too many commands");
                break;
            }
            if count > 1 {
                self.run_inner_input(&call.arguments);
            }
            self.call(script, call, &mut pending);
        }
        self.set_elsewhere(before);
    }

    fn call(
        &mut self,
        script: &ScriptFacts,
        mut call: UnwrappedCall,
        pending: &mut Vec<UnwrappedCall>,
    ) {
        for _ in 0..MAX_WRAPPERS {
            let Some(path) = call.arguments.first() else {
                return;
            };
            let mut first = call.words.first().into_iter();
            if first.any(|word| self.word_downloads(script, word)) {
                self.findings
                    .add_grave(RunsDownloadedCode, "runs a download");
                return;
            }
            // The first word of a comment, for a shell that knows none.
            if path.starts_with('#') {
                return self.findings.add(Reads, "");
            }
            if path.is_empty() || path.contains([UNKNOWN, '*', '?']) {
                return match self.is_in_unpacked(path) {
                    true => self
                        .findings
                        .add_grave(RunsDownloadedCode, "runs a download"),
                    false => self.findings.add(Unknown, UNKNOWN_NAME),
                };
            }
            let name = program_name(path).to_owned();
            let inner = wrapped(&name, &call.arguments);
            let is_own = !matches!(
                name.as_str(),
                "sudo"
                    | "doas"
                    | "env"
                    | "cross-env"
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
                        true => self.program(script, &name, &call, pending),
                        false => self.wrapper_arguments(script, &name, &call.arguments, at),
                    }
                    self.set_elsewhere(elsewhere(&name, &call.arguments).or(self.elsewhere));
                    // Without its placeholder, `entr` adds no arguments.
                    let all = &call.arguments;
                    if matches!(name.as_str(), "xargs" | "gxargs" | "parallel")
                        || name == "entr" && all.iter().any(|word| word == ENTR_FILE)
                    {
                        call.placeholder = Some(placeholder(all, at));
                    }
                    // The command reads `/dev/null`.
                    if matches!(name.as_str(), "xargs" | "gxargs") {
                        let certain = self.certain_operands(script, &call, at);
                        call.feeds_download = self.reads_downloaded_input();
                        self.input = None;
                        if let Some(calls) = certain {
                            return pending.extend(calls);
                        }
                    }
                    if !runs_functions(&name) {
                        call.function_at = None;
                    }
                    call.arguments = call.arguments.split_off(at);
                    call.words = match call.words.len() >= at {
                        true => call.words.split_off(at),
                        false => Vec::new(),
                    };
                    // `uv run FILE.py`
                    let mut file = call.arguments.first().into_iter();
                    if is_own && file.any(|file| file.ends_with(".py")) {
                        call.arguments.insert(0, "python".to_owned());
                        call.words.insert(0, ShellWord::default());
                    }
                    self.fed_shell(&call);
                }
                Some(WrappedCommand::Arguments(inner)) => {
                    self.program(script, &name, &call, pending);
                    self.set_elsewhere(elsewhere(&name, &call.arguments).or(self.elsewhere));
                    call = UnwrappedCall {
                        arguments: inner,
                        placeholder: call.placeholder,
                        feeds_download: call.feeds_download,
                        ..UnwrappedCall::default()
                    };
                }
                Some(WrappedCommand::Text(text)) => {
                    let all = &call.arguments;
                    match is_own {
                        true => self.program(script, &name, &call, pending),
                        false => self.wrapper_arguments(script, &name, all, all.len()),
                    }
                    self.set_elsewhere(elsewhere(&name, &call.arguments).or(self.elsewhere));
                    self.findings.add(Reads, "");
                    let text = match name.as_str() {
                        "parallel" => self.text_with_lists(text, &call.arguments),
                        _ => text,
                    };
                    self.shell_text(&text);
                    return;
                }
                Some(WrappedCommand::Nothing) => {
                    let all = &call.arguments;
                    self.wrapper_arguments(script, &name, all, all.len());
                    if call.is_named_by_input(&name) {
                        self.possible_operands(script, &call);
                        self.fed_text_runs(&call, UNKNOWN_NAME);
                    }
                    match name.as_str() {
                        "parallel" if !prints_commands(&call.arguments) => self
                            .findings
                            .add(Unknown, "it runs text that is not known in advance"),
                        "xargs" | "env" | "time" | "parallel" => self.findings.add(Reads, ""),
                        _ if is_own => self.program(script, &name, &call, pending),
                        _ => self.findings.add(Writes, ""),
                    }
                    return;
                }
                None => {
                    // Where it is certain that a function runs, only what is worse than not known counts of the program.
                    let is_certain = |at| script.is_certain_function(&self.text, &name, at);
                    let aside = call.function_at.is_some_and(is_certain);
                    let aside = aside.then(|| std::mem::take(&mut self.findings));
                    self.findings.elsewhere = self.elsewhere;
                    self.program(script, &name, &call, pending);
                    if let Some(findings) = aside {
                        let found = std::mem::replace(&mut self.findings, findings);
                        self.findings.raise(found);
                    }
                    return;
                }
            }
        }
        self.findings.add(Unknown, "it is nested too deeply");
    }

    /// Judges a program that is not a wrapper.
    fn program(
        &mut self,
        script: &ScriptFacts,
        name: &str,
        call: &UnwrappedCall,
        pending: &mut Vec<UnwrappedCall>,
    ) {
        // The code may be what is added: `xargs python3 -c`, `xargs su bob -c`.
        let runs_code = matches!(name, "eval" | "su") || interpreters::code_options(name).is_some();
        let fed = call.placeholder.as_ref().filter(|_| runs_code);
        let fed = fed.map(|_| call.all_arguments());
        let own = call.arguments.get(1..).unwrap_or_default();
        let shell = ShellCall {
            name,
            arguments: fed.as_deref().unwrap_or(own),
            words: call.words.get(1..).unwrap_or_default(),
        };
        if call.placeholder.is_some() {
            self.possible_operands(script, call);
        }
        if self.shell_program(script, &shell) {
            return;
        }
        // A function of that name only adds its own effects: whether it is what runs is not certain.
        let is_function = |at| self.functions.contains(name) && script.may_define(name, at);
        if programs::find(name).is_none() && call.function_at.is_some_and(is_function) {
            return;
        }
        let call_words = shell.words;
        let is_computed = |word: &ShellWord| word.substitutions().next().is_some();
        let is_fed =
            call.placeholder.is_some() || name == "kill" && call_words.iter().any(is_computed);
        let arguments = &*call.all_arguments();
        self.secrets(name, arguments);
        if matches!(name, "read" | "mapfile" | "readarray") {
            self.read_values(arguments);
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
        if !outcome.fed_paths.is_empty() {
            self.fed_paths = outcome.fed_paths;
        }
        let before = self.elsewhere;
        for inner in outcome.inner {
            match inner {
                InnerCommand::Text(text) => {
                    self.set_elsewhere(elsewhere(name, arguments).or(before));
                    self.shell_text(&text);
                    self.set_elsewhere(before);
                }
                InnerCommand::Fed(text) => self.fed_text(name, &text),
                InnerCommand::Query(text) => self.query(&text),
                InnerCommand::Arguments(arguments) => pending.push(UnwrappedCall {
                    arguments,
                    ..UnwrappedCall::default()
                }),
                InnerCommand::FedArguments(arguments) => pending.push(UnwrappedCall {
                    arguments,
                    placeholder: Some(PLACEHOLDER.to_owned()),
                    ..UnwrappedCall::default()
                }),
            }
        }
        self.argument_downloads = call_words
            .iter()
            .any(|word| self.word_downloads(script, word));
        self.derived(name, arguments);
        self.has_unpacked |= outcome.brings_tree;
        for path in &outcome.downloads {
            self.installs_program(path);
        }
        self.downloaded.extend(outcome.downloads);
        self.sent_files(&outcome.sends);
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
            if self.runs_arguments(name, arguments) {
                let class = match elsewhere(name, arguments) {
                    Some(_) => Network,
                    None => Reads,
                };
                return self.findings.add(class, "");
            }
            let reason = match name.contains(char::is_alphanumeric) {
                true => format!("what {name} does is not known"),
                false => "it is not known what it runs".to_owned(),
            };
            return self.findings.add(Unknown, reason);
        };
        let mut list = entry.arguments(arguments);
        if let Some(own) = self.own_arguments(name, arguments) {
            list.set_own(&entry.arguments(own));
        }
        let verdict = entry.verdict(name, &list);
        // Before its own downloads are noted: what it installs is not what it fetches.
        if verdict.class != Reads {
            self.uses(name, entry.installs(arguments, &list));
            if entry.obeys_directory() {
                self.obeys_downloads(name, "");
            }
        }
        self.uses(name, entry.uses(arguments, &list));
        if matches!(verdict.class, Reads | Network | Writes) {
            let reads = verdict.class == Reads;
            self.uses(name, entry.suspect_uses(name, arguments, reads));
            if !reads && name != "git" && !self.runs_arguments(name, arguments) {
                self.embedded(arguments);
            }
        }
        match verdict.class {
            // The command that it runs is judged as what it is.
            Destroys if verdict.is_guess && self.runs_arguments(name, arguments) => {
                self.findings.add(Writes, "")
            }
            class => self.findings.add(class, verdict.reason),
        }
        let is_changed = matches!(verdict.class, Writes | Network);
        if is_changed && list.operands.last().is_some_and(|path| is_disk(path)) && !attaches(name) {
            self.findings.add_grave(Destroys, "writes to a device");
        }
    }
}
