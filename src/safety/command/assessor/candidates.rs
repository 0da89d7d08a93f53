//! Texts that a word may expand to, where its value is not known: the constant values of its variables, the words of loops, the
//! arguments of functions, the lists in braces, and the paths that another command prints for it. A command is judged once more
//! with each, which only adds effects.

use std::ops::Range;

use super::calls::UnwrappedCall;
use super::streams::StreamContent;
use super::{Assessor, ScriptFacts};
use crate::safety::command::roles::{OutputRole, innermost};
use crate::safety::command::special::printed_paths;
use crate::safety::command::targets::written;
use crate::safety::command::word::{ShellWord, UNKNOWN, program_name};
use crate::safety::protected_paths::without_braces;

/// Most values of a variable that are tried.
const MAX_VALUES: usize = 16;

/// Most calls with possible values that are judged for one command line.
pub(super) const MAX_CALLS: usize = 256;

/// Most variables whose values are kept.
const MAX_NAMES: usize = 256;

/// Longest value that is kept, in bytes: `b=$a$a; c=$b$b; …` doubles it each time.
const MAX_VALUE: usize = 1 << 10;

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

/// A text that a word may expand to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PossibleText {
    text: String,
    /// Whether the command line itself has the text. Others are paths below which a command prints names: only protected ones count.
    is_constant: bool,
}

impl PossibleText {
    fn constant(text: String) -> PossibleText {
        PossibleText {
            text,
            is_constant: true,
        }
    }

    fn printed(text: String) -> PossibleText {
        PossibleText {
            text,
            is_constant: false,
        }
    }
}

/// Returns the constant text that commands print.
fn constant_output(script: &ScriptFacts, commands: Range<usize>) -> Option<String> {
    match script.facts.get(commands)? {
        [facts] => match &facts.output {
            OutputRole::Constant(text) => Some(text.trim_end_matches('\n').to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the words of a text that a shell splits.
fn split(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the arguments that `parallel` adds to a command: one of each list, up to `most` combinations.
fn combinations(lists: &[String], most: usize) -> Vec<Vec<String>> {
    let lists = lists.split(|word| word.starts_with(":::"));
    let mut all = vec![Vec::new()];
    for list in lists.filter(|list| !list.is_empty()) {
        let longer = all.iter().flat_map(|before: &Vec<String>| {
            list.iter()
                .map(|word| before.iter().chain([word]).cloned().collect())
        });
        all = longer.take(most).collect();
    }
    all
}

impl Assessor<'_> {
    /// Notes texts that a variable may have.
    fn note_texts(&mut self, name: &str, mut texts: Vec<PossibleText>) {
        texts.retain(|own| own.text.len() <= MAX_VALUE);
        if !texts.is_empty() && self.values.len() < MAX_NAMES {
            self.values.push((name.to_owned(), texts));
        }
    }

    /// Notes the value that an assignment gives to a variable.
    pub(super) fn note_value(&mut self, script: &ScriptFacts, name: &str, word: &ShellWord) {
        let value = self.value(word);
        if let Some(elements) = word.elements() {
            self.note_list(name, &elements);
        } else if value.contains(UNKNOWN) {
            let texts = self.possible_texts(script, word);
            self.note_texts(name, texts);
        } else {
            self.note_texts(name, vec![PossibleText::constant(value)]);
        }
    }

    /// Notes the value that `env` gives to a variable.
    pub(super) fn note_constant(&mut self, name: &str, value: &str) {
        if !value.contains(UNKNOWN) {
            self.note_texts(name, vec![PossibleText::constant(value.to_owned())]);
        }
    }

    /// Notes the elements of an array or of the positional parameters.
    fn note_list(&mut self, name: &str, elements: &[String]) {
        if self.lists.len() < MAX_NAMES {
            self.lists.push((name.to_owned(), elements.to_vec()));
        }
        let texts = elements.iter().cloned().map(PossibleText::constant);
        self.note_texts(name, texts.collect());
    }

    /// Notes the positional parameters of a function, a script or a text, from the one with a number.
    pub(super) fn note_parameters(&mut self, from: usize, arguments: &[String]) {
        if arguments.iter().all(|argument| argument.contains(UNKNOWN)) {
            return;
        }
        for name in ["@", "*"] {
            self.note_list(name, arguments.get(1 - from..).unwrap_or_default());
        }
        for (at, argument) in arguments.iter().enumerate().take(9) {
            if !argument.contains(UNKNOWN) {
                let text = PossibleText::constant(argument.clone());
                self.note_texts(&(from + at).to_string(), vec![text]);
            }
        }
    }

    /// Notes values that a function may use before the order of the text gives them: its arguments, and variables that are set
    /// behind it.
    pub(super) fn note_early_values(&mut self, script: &ScriptFacts) {
        let functions = &script.script.functions;
        for (command, facts) in script.script.commands.iter().zip(&script.facts) {
            match facts.values.split_first() {
                Some((name, arguments)) if functions.iter().any(|(own, _)| own == name) => {
                    self.note_parameters(1, arguments);
                }
                Some((name, [dashes, arguments @ ..])) if name == "set" && dashes == "--" => {
                    self.note_parameters(1, arguments);
                }
                _ => {}
            }
            for (name, word) in &command.assignments {
                if !functions.is_empty() {
                    self.note_value(script, name, word);
                }
            }
        }
    }

    /// Notes what a command reads: paths and words that `xargs` adds to another one, and the values of `read`.
    pub(super) fn note_fed(&mut self, script: &ScriptFacts, index: usize) {
        self.fed_paths.clear();
        self.fed_words.clear();
        let values = script.facts.get(index).map(|facts| &*facts.values);
        let mut names = values
            .unwrap_or_default()
            .iter()
            .map(|value| program_name(value));
        if names
            .clone()
            .take(3)
            .any(|name| matches!(name, "xargs" | "gxargs" | "parallel"))
        {
            self.fed_paths = readable(script, index);
            self.fed_words = self.input_words();
        } else if names.next() == Some("read") {
            let paths = readable(script, index);
            let words = self.input_words();
            let texts = paths.into_iter().map(PossibleText::printed);
            let words = words.into_iter().map(PossibleText::constant);
            let texts: Vec<PossibleText> = texts.chain(words).collect();
            for name in names.filter(|name| !name.starts_with('-')) {
                self.note_texts(name, texts.clone());
            }
        }
    }

    /// Returns the constant words that the command being judged reads.
    fn input_words(&self) -> Vec<String> {
        match self.input.as_ref().map(|input| &input.content) {
            Some(StreamContent::Text(text) | StreamContent::Here(text))
                if !text.contains(UNKNOWN) =>
            {
                split(text)
            }
            _ => Vec::new(),
        }
    }

    /// Returns constant values of a variable, and what a loop gives to it.
    fn values_of(&self, script: &ScriptFacts, name: &str) -> Vec<PossibleText> {
        let home = |value: &PossibleText| {
            let text = value.text.replace("$HOME", self.place.home);
            PossibleText {
                text: match text.strip_prefix("~/") {
                    Some(rest) => format!("{}/{rest}", self.place.home),
                    None => text,
                },
                is_constant: value.is_constant,
            }
        };
        let known = |name: &str| {
            let values = self.values.iter().filter(|(known, _)| known == name);
            let values = values.flat_map(|(_, values)| values.iter().map(home));
            values.collect::<Vec<PossibleText>>()
        };
        let mut values = known(name);
        let lists = script.script.loops.iter();
        let lists = lists.filter(|(variable, _)| variable == name);
        for (_, word) in lists.take(MAX_VALUES) {
            let text = self.value(word);
            match text.contains(UNKNOWN) {
                true => {
                    values.extend(word.variables().flat_map(known));
                    values.extend(self.substituted(script, word));
                }
                false => values.push(PossibleText::constant(text)),
            }
        }
        let older = values.len().saturating_sub(MAX_VALUES);
        values.split_off(older)
    }

    /// Returns what a word expands to if it is the output of other commands.
    fn substituted(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<PossibleText> {
        let is_whole = self.value(word).chars().eq([UNKNOWN]);
        let substitutions = word.substitutions().filter(|_| is_whole);
        substitutions
            .flat_map(
                |(commands, _)| match constant_output(script, commands.clone()) {
                    Some(text) => vec![PossibleText::constant(text)],
                    None => printed(script, commands)
                        .into_iter()
                        .map(PossibleText::printed)
                        .collect(),
                },
            )
            .collect()
    }

    /// Returns texts that a word may expand to.
    fn possible_texts(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<PossibleText> {
        let known: Vec<(&str, Vec<PossibleText>)> = word
            .variables()
            .map(|name| (name, self.values_of(script, name)))
            .collect();
        let most = known.iter().map(|(_, values)| values.len()).max();
        let most = most.map(|most| most.max(1));
        let mut texts = Vec::new();
        for at in 0..most.unwrap_or_default().min(MAX_VALUES) {
            let value = |name: &str| {
                let (_, values) = known.iter().find(|(known, _)| *known == name)?;
                values.get(at).or(values.last())
            };
            let filled = word.filled(|name| Some(value(name)?.text.clone()));
            let is_constant = word
                .variables()
                .all(|name| value(name).is_none_or(|value| value.is_constant));
            texts.extend(filled.map(|word| PossibleText {
                text: self.value(&word),
                is_constant,
            }));
        }
        texts.extend(self.substituted(script, word));
        texts
    }

    /// Returns texts that a word may expand to, also those below which only the paths are known.
    pub(super) fn possible_values(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<String> {
        let texts = self.possible_texts(script, word);
        texts.into_iter().map(|own| own.text).collect()
    }

    /// Returns the arguments that a word may become: of constants all, of paths that are printed the protected ones.
    fn possible_arguments(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<Vec<String>> {
        let plain = word.plain_text();
        if let Some(text) = plain.filter(|text| text.contains('{') && text.contains([',', '.'])) {
            let words = without_braces(&text, true).unwrap_or_default();
            return match words.len() {
                0 | 1 => Vec::new(),
                _ => vec![words.into_iter().filter(|word| !word.is_empty()).collect()],
            };
        }
        let list = word.sole_variable().into_iter().flat_map(|name| {
            let lists = self.lists.iter().filter(move |(known, _)| known == name);
            lists.map(|(_, elements)| elements.clone())
        });
        let texts = self.possible_texts(script, word).into_iter();
        let texts = texts
            .filter(|own| own.is_constant || self.place.protected(&own.text).is_some())
            .map(|own| match word.is_quoted() || !own.is_constant {
                true => vec![own.text],
                false => split(&own.text),
            });
        list.chain(texts).collect()
    }

    /// Returns the protected paths that a word may expand to.
    fn protected_values(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<String> {
        let mut texts = self.possible_values(script, word);
        texts.retain(|text| self.place.protected(text).is_some());
        texts
    }

    /// Judges a command with the texts that its words may expand to. All words get the values of one round of a loop, so that
    /// `cp "$f" "$f.bak"` stays a copy.
    pub(super) fn possible_calls(&mut self, script: &ScriptFacts, index: usize) {
        let (Some(command), Some(facts)) =
            (script.script.commands.get(index), script.facts.get(index))
        else {
            return;
        };
        // These only print or compare, and where `cd` leads is judged with the value that is not known.
        const PLAIN: [&str; 8] = ["[", "[[", "cd", "chdir", "echo", "printf", "pushd", "test"];
        if facts
            .values
            .first()
            .is_none_or(|name| PLAIN.contains(&name.as_str()))
        {
            return;
        }
        let possible = |(value, word): (&String, &ShellWord)| match value.contains([UNKNOWN, '{']) {
            true => self.possible_arguments(script, word),
            false => Vec::new(),
        };
        let words = facts.values.iter().zip(&command.words);
        let values: Vec<Vec<Vec<String>>> = words.map(possible).collect();
        let rounds = values.iter().map(Vec::len).max();
        for round in 0..rounds.unwrap_or_default().min(MAX_VALUES) {
            let mut call = UnwrappedCall {
                function_at: Some(index),
                ..UnwrappedCall::default()
            };
            let words = facts.values.iter().zip(&command.words);
            for ((value, word), values) in words.zip(&values) {
                match values.get(round).or(values.last()) {
                    Some(texts) => {
                        let words = texts.iter().map(|text| ShellWord::literal_of(text));
                        call.words.extend(words);
                        call.arguments.extend(texts.iter().cloned());
                    }
                    None => {
                        call.words.push(word.clone());
                        call.arguments.push(value.clone());
                    }
                }
            }
            self.possible_call(script, call);
        }
    }

    /// Judges a command with what another one may add to its arguments: protected paths, and constant words.
    pub(super) fn possible_operands(&mut self, script: &ScriptFacts, call: &UnwrappedCall) {
        let mut paths = std::mem::take(&mut self.fed_paths);
        paths.retain(|path| self.place.protected(path).is_some());
        let words = std::mem::take(&mut self.fed_words);
        let each = paths.iter().chain(&words).take(MAX_VALUES);
        for word in each {
            self.possible_call(script, call.fed(std::slice::from_ref(word)));
        }
        if words.len() > 1 {
            self.possible_call(script, call.fed(&words));
        }
        let lists = call
            .arguments
            .iter()
            .position(|word| word.starts_with(":::"));
        if let Some(at) = lists {
            let (command, lists) = call.arguments.split_at(at);
            let plain = UnwrappedCall {
                arguments: command.to_vec(),
                placeholder: call.placeholder.clone(),
                ..UnwrappedCall::default()
            };
            for words in combinations(lists, MAX_VALUES) {
                self.possible_call(script, plain.fed(&words));
            }
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

    /// Judges a call whose arguments are one possibility. It changes nothing for later commands, and what it does not destroy counts
    /// only where all of its arguments are known.
    fn possible_call(&mut self, script: &ScriptFacts, call: UnwrappedCall) {
        if self.possible_calls_left == 0 {
            return;
        }
        self.possible_calls_left -= 1;
        let is_known = !call.arguments.iter().any(|text| text.contains(UNKNOWN));
        let findings = std::mem::take(&mut self.findings);
        self.findings.elsewhere = self.elsewhere;
        let (directory, moves, texts) = (self.directory.clone(), self.moves, self.queue.len());
        self.calls(script, call);
        self.directory = directory;
        self.moves = moves;
        let found = std::mem::replace(&mut self.findings, findings);
        match is_known {
            true => self.findings.merge(found),
            false => self.findings.raise(found),
        }
        // A text that has not been known before makes the class of the command line unknown.
        for (text, ..) in self.queue.split_off(texts) {
            self.findings.guess(text);
        }
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
