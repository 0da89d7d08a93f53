//! Protected paths that a word may expand to, where its value is not known: by the constant values of its variables, the lists of
//! loops, and the paths that another command prints for it. A command is judged once more with each, which only adds what it
//! destroys.

use std::ops::Range;

use super::calls::UnwrappedCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::roles::innermost;
use crate::safety::command::special::printed_paths;
use crate::safety::command::targets::written;
use crate::safety::command::word::{ShellWord, UNKNOWN, program_name};

/// Most values of a variable that are tried.
const MAX_VALUES: usize = 8;

/// Most stages of a pipeline before a command that are searched for paths.
const MAX_STAGES: usize = 8;

/// Returns the paths that commands may print.
fn printed(script: &ScriptFacts, commands: Range<usize>) -> Vec<String> {
    let facts = script.facts.get(commands).unwrap_or_default();
    let values = facts.iter().map(|facts| innermost(&facts.values));
    values.flat_map(|values| printed_paths(&values)).collect()
}

/// Returns the paths that a command may read: from the stages of a pipeline before it, or from `< <(…)`.
fn readable(script: &ScriptFacts, index: usize) -> Vec<String> {
    let mut paths = Vec::new();
    for stages in &script.script.pipelines {
        let at = stages.iter().position(|stage| stage.contains(&index));
        let before = at.and_then(|at| stages.get(..at)).unwrap_or_default();
        let before = before.iter().rev().take(MAX_STAGES);
        paths.extend(before.flat_map(|stage| printed(script, stage.clone())));
    }
    let inputs = script.script.redirections.iter();
    for input in inputs.filter(|input| input.commands.contains(&index)) {
        let processes = input.target.substitutions();
        paths.extend(processes.flat_map(|(commands, _)| printed(script, commands)));
    }
    paths
}

impl Assessor<'_> {
    /// Notes the paths that a command reads: those that `xargs` adds to another one, and the values of `read`.
    pub(super) fn note_fed(&mut self, script: &ScriptFacts, index: usize) {
        self.fed_paths.clear();
        let values = script.facts.get(index).map(|facts| &*facts.values);
        let mut names = values
            .unwrap_or_default()
            .iter()
            .map(|value| program_name(value));
        if names
            .clone()
            .take(3)
            .any(|name| matches!(name, "xargs" | "gxargs"))
        {
            self.fed_paths = readable(script, index);
        } else if names.next() == Some("read") {
            let paths = readable(script, index);
            for name in names.filter(|name| !paths.is_empty() && !name.starts_with('-')) {
                self.values.push((name.to_owned(), paths.clone()));
            }
        }
    }

    /// Returns constant values of a variable, and what a loop gives to it.
    fn values_of(&self, script: &ScriptFacts, name: &str) -> Vec<String> {
        let home = |value: &String| {
            let value = value.replace("$HOME", self.place.home);
            match value.strip_prefix("~/") {
                Some(rest) => format!("{}/{rest}", self.place.home),
                None => value,
            }
        };
        let known = |name: &str| {
            let values = self.values.iter().filter(|(known, _)| known == name);
            let values = values.flat_map(|(_, values)| values.iter().map(home));
            values.collect::<Vec<String>>()
        };
        let mut values = known(name);
        let lists = script.script.loops.iter();
        for (_, word) in lists.filter(|(variable, _)| variable == name) {
            let text = self.value(word);
            match text.contains(UNKNOWN) {
                true => {
                    values.extend(word.variables().flat_map(known));
                    values.extend(self.substituted(script, word));
                }
                false => values.push(text),
            }
        }
        values
    }

    /// Returns the paths that a word expands to if it is the output of other commands.
    fn substituted(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<String> {
        let is_whole = self.value(word).chars().eq([UNKNOWN]);
        let substitutions = word.substitutions().filter(|_| is_whole);
        substitutions
            .flat_map(|(commands, _)| printed(script, commands))
            .collect()
    }

    /// Returns texts that a word may expand to.
    pub(super) fn possible_values(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<String> {
        let names = word.variables().filter(|name| !name.is_empty());
        let known: Vec<(&str, Vec<String>)> = names
            .map(|name| (name, self.values_of(script, name)))
            .collect();
        let most = known.iter().map(|(_, values)| values.len()).max();
        let mut texts = Vec::new();
        for at in 0..most.unwrap_or_default().min(MAX_VALUES) {
            let filled = word.filled(|name| {
                let (_, values) = known.iter().find(|(known, _)| *known == name)?;
                values.get(at).or(values.last()).cloned()
            });
            texts.extend(filled.map(|word| self.value(&word)));
        }
        texts.extend(self.substituted(script, word));
        texts
    }

    /// Returns the protected paths that a word may expand to.
    fn protected_values(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<String> {
        let mut texts = self.possible_values(script, word);
        texts.retain(|text| self.place.protected(text).is_some());
        texts
    }

    /// Judges a command with each protected path that one of its words may expand to. All words get the values of one round of a
    /// loop, so that `cp "$f" "$f.bak"` stays a copy.
    pub(super) fn possible_paths(&mut self, script: &ScriptFacts, index: usize) {
        let (Some(command), Some(facts)) =
            (script.script.commands.get(index), script.facts.get(index))
        else {
            return;
        };
        let possible = |(value, word): (&String, &ShellWord)| match value.contains(UNKNOWN) {
            true => self.possible_values(script, word),
            false => Vec::new(),
        };
        let words = facts.values.iter().zip(&command.words);
        let values: Vec<Vec<String>> = words.map(possible).collect();
        let rounds = values.iter().skip(1).map(Vec::len).max();
        for round in 0..rounds.unwrap_or_default().min(MAX_VALUES) {
            let mut call = UnwrappedCall {
                arguments: facts.values.clone(),
                words: command.words.clone(),
                ..UnwrappedCall::default()
            };
            let mut is_protected = false;
            let words = call.arguments.iter_mut().zip(&mut call.words);
            for ((argument, word), values) in words.zip(&values).skip(1) {
                let Some(value) = values.get(round).or(values.last()) else {
                    continue;
                };
                is_protected |= self.place.protected(value).is_some();
                *word = ShellWord::literal_of(value);
                argument.clone_from(value);
            }
            if is_protected {
                self.possible_call(script, call);
            }
        }
    }

    /// Judges a command with each protected path that another one may add to its arguments.
    pub(super) fn possible_operands(&mut self, script: &ScriptFacts, call: &UnwrappedCall) {
        let mut paths = std::mem::take(&mut self.fed_paths);
        paths.retain(|path| self.place.protected(path).is_some());
        for path in paths.iter().take(MAX_VALUES) {
            self.possible_call(script, call.fed(path));
        }
        self.fed_paths = paths;
    }

    /// Judges redirections to protected paths that their targets may expand to.
    pub(super) fn possible_targets(&mut self, script: &ScriptFacts) {
        let outputs = script.script.redirections.iter();
        for output in outputs.filter(|output| output.operator.contains('>')) {
            for path in self.protected_values(script, &output.target) {
                written(&path, self.place, &mut self.findings);
            }
        }
    }

    /// Judges a call whose arguments are one possibility. Only destroyed files count, and it changes nothing for later commands.
    fn possible_call(&mut self, script: &ScriptFacts, call: UnwrappedCall) {
        let findings = std::mem::take(&mut self.findings);
        let (directory, moves, texts) = (self.directory.clone(), self.moves, self.queue.len());
        self.calls(script, call);
        self.directory = directory;
        self.moves = moves;
        self.queue.truncate(texts);
        let found = std::mem::replace(&mut self.findings, findings);
        self.findings.raise(found);
    }
}

/// Returns a text, and what follows the characters and words with which languages and options begin a command: `:!`, `exec=`,
/// `shell `, `$(`.
pub(super) fn readings(text: &str) -> impl Iterator<Item = &str> {
    const STARTS: [&str; 6] = ["!", "=", "shell ", "$(", "`", "| "];
    let behind = STARTS
        .into_iter()
        .filter_map(|start| Some(text.split_once(start)?.1));
    std::iter::once(text).chain(behind.map(|rest| rest.trim_end_matches([')', '`', ']'])))
}
