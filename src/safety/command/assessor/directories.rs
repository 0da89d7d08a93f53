//! The directory where a command runs: a repository or a project elsewhere has settings that run programs.

use super::{Assessor, ScriptFacts, SimpleCommand};
use crate::safety::command::class::CommandClass::Unknown;
use crate::safety::command::programs;
use crate::safety::command::targets::normalize;
use crate::safety::command::word::{ShellWord, UNKNOWN};

/// Why a command in another directory is asked about.
const REASON: &str = "follows settings in a directory outside this one, which may run programs";

impl Assessor<'_> {
    /// Notes a text to analyse, which runs where the command being judged runs.
    pub(super) fn enqueue(&mut self, text: &str) {
        let input = self.input.clone();
        self.queue
            .push_back((text.to_owned(), self.elsewhere, input));
    }

    /// Sets where the next commands run, if that is not this machine.
    pub(super) fn set_elsewhere(&mut self, elsewhere: Option<&'static str>) {
        self.elsewhere = elsewhere;
        self.findings.elsewhere = elsewhere;
    }

    /// Whether a path is the working directory, one of the workspace, or below one of them.
    pub(super) fn is_own(&self, path: &str) -> bool {
        let directory = self.after(path);
        directory.is_some_and(|directory| self.place.is_own(&directory))
    }

    /// Returns the directory that a path leads to, if it is known.
    fn after(&self, path: &str) -> Option<String> {
        // The placeholder of `xargs` and `find`.
        if path.contains("{}") {
            return None;
        }
        if let Some(at) = path.find(UNKNOWN) {
            let known = path.get(..at).unwrap_or_default();
            // `build/$x` stays below `build`, unless the rest leads out of it.
            let stays = known.contains('/') && !path.contains("..");
            let known = self.after(known).filter(|_| stays)?;
            return self.place.is_own(&known).then_some(known);
        }
        let from = match path.starts_with('/') {
            true => "/",
            false => self.directory.as_deref()?,
        };
        Some(normalize(path, from))
    }

    /// Judges what the directory of a program and its arguments say about the commands that it runs.
    pub(super) fn directory_of(&mut self, name: &str, arguments: &[String]) {
        match name {
            "cd" | "chdir" | "pushd" => self.enter(arguments),
            "z" | "zi" | "j" if !arguments.is_empty() => self.directory = None,
            // The directories of another machine are not compared with those of this one.
            _ if self.elsewhere.is_some() => {}
            "git" => self.git_directory(arguments),
            _ => {
                let is_elsewhere = !self.is_own(".");
                if is_elsewhere && programs::find(name).is_some_and(|entry| entry.obeys_directory())
                {
                    self.findings.add(Unknown, format!("{name} {REASON}"));
                }
            }
        }
    }

    /// Replaces words that name directories of the workspace, whatever their values are, by one of these.
    pub(super) fn known_directories(
        &self,
        script: &ScriptFacts,
        command: &SimpleCommand,
        arguments: &mut [String],
    ) {
        let is_git = match arguments.first().map(String::as_str) {
            Some("cd" | "pushd" | "chdir") => false,
            Some("git") => true,
            _ => return,
        };
        for at in 1..arguments.len() {
            let is_place = !is_git || arguments.get(at - 1).is_some_and(|before| before == "-C");
            let word = command.words.get(at).filter(|_| is_place);
            let directory = word.and_then(|word| inner_directory(script, word));
            if let (Some(directory), Some(argument)) = (directory, arguments.get_mut(at)) {
                *argument = directory;
            }
        }
    }

    /// Follows `cd`. Subshells are not told apart, and `cd -` changes nothing: both only raise what is asked.
    fn enter(&mut self, arguments: &[String]) {
        let mut operands = arguments.iter().filter(|argument| {
            let is_stack = argument.len() > 1 && argument.starts_with(['-', '+']);
            !is_stack && *argument != "-"
        });
        match operands.next_back() {
            Some(path) => self.directory = self.after(path),
            None if arguments.is_empty() => self.directory = Some(self.place.home.to_owned()),
            None => {}
        }
        self.moves += 1;
        let directory = self.directory.as_deref();
        self.in_protected |= directory.is_some_and(|dir| self.place.protected(dir).is_some());
    }

    /// Judges in which repository git runs.
    fn git_directory(&mut self, arguments: &[String]) {
        let before = self.directory.clone();
        let mut is_own = true;
        let mut rest = arguments.iter();
        let mut subcommand = "";
        while let Some(argument) = rest.next() {
            let (name, attached) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            let mut value = || attached.or_else(|| rest.next().map(String::as_str));
            match name {
                "-C" => self.directory = self.after(value().unwrap_or_default()),
                "--git-dir" | "--work-tree" => {
                    is_own &= self.is_own(value().unwrap_or_default());
                }
                "-c" | "--namespace" | "--config-env" | "--super-prefix" => drop(value()),
                name if name.starts_with('-') => {}
                name => {
                    subcommand = name;
                    break;
                }
            }
        }
        is_own &= self.is_own(".") && !self.has_unpacked;
        self.directory = before;
        let needs_repository = !matches!(subcommand, "" | "clone" | "help" | "init" | "version");
        if !is_own && needs_repository {
            self.findings.add(Unknown, format!("git {REASON}"));
        }
    }

    /// Judges a value that names a directory, or a file in one, whose files decide what a program runs.
    pub(super) fn entered(&mut self, name: &str, path: &str) {
        if !self.is_own(path) {
            self.findings.add(Unknown, format!("{name} {REASON}"));
        }
        if self.is_downloaded(path) {
            self.obeys_downloads(name, path);
        }
        if matches!(name, "env" | "sudo") {
            self.directory = self.after(path);
        }
    }
}

/// Whether a word is the top directory of the repository. It counts as this one, because git already obeys its settings here.
fn is_top(script: &ScriptFacts, word: &ShellWord) -> bool {
    let is_whole = word.value("", "").text.chars().eq([UNKNOWN]);
    let mut substitutions = word.substitutions();
    let Some((commands, false)) = substitutions.next().filter(|_| is_whole) else {
        return false;
    };
    let facts = script.facts.get(commands).unwrap_or_default();
    matches!(facts, [facts] if facts.values == ["git", "rev-parse", "--show-toplevel"])
}

/// Returns a directory below this one that a word names, if all of its values lie there: `$d` of `for d in a b`, or `for d in */`.
fn inner_directory(script: &ScriptFacts, word: &ShellWord) -> Option<String> {
    if is_top(script, word) {
        return Some(".".to_owned());
    }
    let variable = word.sole_variable()?;
    // What else may give it a value: code that is not seen, `read d`, `read 'd?Where: '`, `zparseopts x=d`, `typeset -n d=e`.
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let sets = |values: &[String]| {
        let mut first = values.iter().take(3).map(String::as_str);
        first.any(|word| matches!(word, "eval" | "source" | "." | "-n"))
            || values.iter().skip(1).any(|word| {
                let mut names = word.split(|c| !is_part(c));
                word.contains(variable) && names.any(|name| name == variable)
            })
    };
    if script.facts.iter().any(|facts| sets(&facts.values)) {
        return None;
    }
    let commands = script.script.commands.iter();
    let assigned = commands.flat_map(|own| own.assignments.iter());
    let assigned = assigned.filter(|(name, _)| name == variable);
    let loops = script.script.loops.iter();
    let loops = loops.filter(|own| own.variable == variable);
    let listed = loops.flat_map(|own| &own.words);
    let given = assigned.map(|(_, word)| word).chain(listed);
    let values = given.map(|word| match is_top(script, word) {
        true => ".".to_owned(),
        false => word.value("", "").text,
    });
    let values: Vec<String> = values.collect();
    // Patterns such as `.*` may mean the directory above.
    let is_inner = |value: &String| {
        let is_outside = value.starts_with(['/', '~', '-', '+'])
            || value.contains("..")
            || value.contains(['$', '{', UNKNOWN]);
        let mut parts = value.split('/');
        let is_hidden = parts.any(|part| part.starts_with('.') && part.contains(['*', '?', '[']));
        !value.is_empty() && !is_outside && !is_hidden
    };
    values
        .first()
        .filter(|_| values.iter().all(is_inner))
        .cloned()
}
