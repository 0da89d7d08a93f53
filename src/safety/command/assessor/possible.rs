//! Judges a command once more with each text that its words may expand to, lists in braces among them, which only adds effects.
//! Where all of its values are known, it is judged with these alone.

use super::candidates::{MAX_VALUES, split};
use super::fed::{UnwrappedCall, combinations};
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::Unknown;
use crate::safety::command::targets::{is_private, written};
use crate::safety::command::word::{ShellWord, UNKNOWN};

/// Most calls with possible values that are judged for one command line.
pub(super) const MAX_CALLS: usize = 256;

/// Most bytes of possible values that are tried for one command line.
pub(super) const MAX_BYTES: usize = 256 << 10;

/// Longest text that is guessed to be a command line, and how many readings of such texts are judged.
const MAX_GUESS: usize = 512;
const MAX_GUESSES: usize = 12;

/// The arguments of a call with the words that they come from.
pub(super) type CallWords = (Vec<String>, Vec<ShellWord>);

impl Assessor<'_> {
    /// Returns the arguments that a word may become: of constants all, of paths that are printed the protected ones.
    fn possible_arguments(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<Vec<String>> {
        if word.has_braces() {
            let words = word.without_braces(self.place.home, self.place.cwd);
            if words.is_none() {
                self.note_cut();
            }
            return match words.unwrap_or_default() {
                words if words.len() < 2 => Vec::new(),
                mut words => {
                    words.retain(|word| !word.is_empty());
                    vec![words]
                }
            };
        }
        let list = word.sole_list();
        let lists = list.map_or_else(Vec::new, |(name, skipped)| {
            let is_joined = name == "*" && word.is_quoted();
            let lists = self.lists_of(name).iter();
            let lists = lists.map(|list| list.get(skipped..).unwrap_or_default().to_vec());
            lists
                .map(|list| {
                    if is_joined {
                        vec![list.join(" ")]
                    } else {
                        list
                    }
                })
                .filter(|list| list.iter().all(|text| self.has_room(text)))
                .collect()
        });
        let texts = self.possible_texts(script, word).into_iter();
        let texts = texts
            .filter(|own| !own.is_element || list.is_none())
            .filter(|own| own.is_constant || self.place.protected(&own.text).is_some())
            .map(|own| match word.is_quoted() || !own.is_constant {
                true => vec![own.text],
                false => split(&own.text),
            });
        lists.into_iter().chain(texts).collect()
    }

    /// Returns the protected paths that a word may expand to.
    fn protected_values(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<String> {
        let mut texts = self.possible_values(script, word);
        texts.retain(|text| self.place.protected(text).is_some());
        texts
    }

    /// Returns the arguments that a command may get. All words get the values of one round of a loop, so that `cp "$f" "$f.bak"`
    /// stays a copy.
    pub(super) fn rounds(&self, script: &ScriptFacts, index: usize) -> Vec<CallWords> {
        let (Some(command), Some(facts)) =
            (script.script.commands.get(index), script.facts.get(index))
        else {
            return Vec::new();
        };
        let possible = |(value, word): (&String, &ShellWord)| match value.contains([UNKNOWN, '{']) {
            true => self.possible_arguments(script, word),
            false => Vec::new(),
        };
        let words = facts.values.iter().zip(&command.words);
        let values: Vec<Vec<Vec<String>>> = words.map(possible).collect();
        let most = values.iter().map(Vec::len).max().unwrap_or_default();
        if most > MAX_VALUES {
            self.note_cut();
        }
        let mut rounds = Vec::new();
        for round in 0..most.min(MAX_VALUES) {
            let (mut arguments, mut own_words) = (Vec::new(), Vec::new());
            let words = facts.values.iter().zip(&command.words);
            for ((value, word), values) in words.zip(&values) {
                match values.get(round).or(values.last()) {
                    Some(texts) => {
                        own_words.extend(texts.iter().map(|text| ShellWord::literal_of(text)));
                        arguments.extend(texts.iter().cloned());
                    }
                    None => {
                        own_words.push(word.clone());
                        arguments.push(value.clone());
                    }
                }
            }
            if !arguments.iter().all(|argument| self.has_room(argument)) {
                break;
            }
            if !rounds.iter().any(|(known, _)| *known == arguments) {
                rounds.push((arguments, own_words));
            }
        }
        rounds
    }

    /// Returns a command with the texts that its words may expand to.
    pub(super) fn possible_calls(&self, script: &ScriptFacts, index: usize) -> Vec<UnwrappedCall> {
        // These only print or compare, and where `cd` leads is judged with the value that is not known.
        const PLAIN: [&str; 8] = ["[", "[[", "cd", "chdir", "echo", "printf", "pushd", "test"];
        let facts = script.facts.get(index);
        let name = facts.and_then(|facts| facts.values.first());
        if name.is_none_or(|name| PLAIN.contains(&name.as_str())) {
            return Vec::new();
        }
        let call = |(arguments, words)| UnwrappedCall {
            arguments,
            words,
            function_at: Some(index),
            ..UnwrappedCall::default()
        };
        self.rounds(script, index).into_iter().map(call).collect()
    }

    /// Judges a command, with the texts that its words may expand to.
    pub(super) fn called(&mut self, script: &ScriptFacts, index: usize, call: UnwrappedCall) {
        let tried = self.possible_calls(script, index);
        let is_known =
            |call: &UnwrappedCall| !call.arguments.iter().any(|text| text.contains(UNKNOWN));
        let left = self.possible_calls_left.checked_sub(tried.len());
        match left
            .filter(|_| tried.iter().all(is_known) && self.is_certain(script, index, tried.len()))
        {
            Some(left) => {
                self.possible_calls_left = left;
                for call in tried {
                    self.calls(script, call);
                }
            }
            None => {
                self.calls(script, call);
                for call in tried {
                    self.possible_call(script, call);
                }
            }
        }
    }

    /// Judges a command with what another one may add to its arguments: protected paths, and constant words.
    pub(super) fn possible_operands(&mut self, script: &ScriptFacts, call: &UnwrappedCall) {
        let mut paths = std::mem::take(&mut self.fed_paths);
        paths.retain(|path| self.place.protected(path).is_some() || is_private(path));
        let words = std::mem::take(&mut self.fed_words);
        if paths.len() + words.len() > MAX_VALUES {
            self.note_cut();
        }
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
            for (at, words) in combinations(lists).enumerate() {
                if at == MAX_VALUES {
                    self.note_cut();
                    break;
                }
                if !words.iter().all(|word| self.has_room(word)) {
                    break;
                }
                self.possible_call(script, plain.fed(&words));
            }
        }
        self.fed_paths = paths;
    }

    /// Judges redirections to protected paths that their targets may expand to.
    pub(super) fn possible_targets(&mut self, script: &ScriptFacts) {
        let outputs = script.script.redirections.iter();
        for output in outputs.filter(|output| output.operator.contains('>')) {
            self.set_scope(script, output.commands.start);
            for path in self.protected_values(script, &output.target) {
                written(&path, self.place, &mut self.findings);
            }
        }
        self.scope = None;
    }

    /// Judges a call whose arguments are one possibility. It changes nothing for later commands, and what it does not destroy counts
    /// only where all of its arguments are known.
    pub(super) fn possible_call(&mut self, script: &ScriptFacts, call: UnwrappedCall) {
        if self.possible_calls_left == 0 {
            return self.note_cut();
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

    /// Names what texts do that may run in a way that is not analysed, if that is worse than not known.
    pub(super) fn name_worse(&mut self) {
        let texts = self.findings.take_texts();
        if self.findings.classes().last() != Some(&Unknown) || self.is_guess {
            return;
        }
        let texts = texts.iter().filter(|(text, _)| text.len() <= MAX_GUESS);
        let readings = texts.flat_map(|(text, at)| readings(text).map(|text| (text, *at)));
        for (text, elsewhere) in readings.take(MAX_GUESSES) {
            let mut guess = Assessor::new(self.place);
            guess.is_guess = true;
            guess.set_elsewhere(elsewhere);
            guess.run(text);
            self.findings.raise(guess.findings);
        }
    }
}

/// Returns a text, and what follows the characters and words with which languages and options begin a command: `:!`, `exec=`,
/// `shell `, `$(`.
fn readings(text: &str) -> impl Iterator<Item = &str> {
    const STARTS: [&str; 6] = ["!", "=", "shell ", "$(", "`", "| "];
    let behind = STARTS
        .into_iter()
        .filter_map(|start| Some(text.split_once(start)?.1));
    std::iter::once(text).chain(behind.map(|rest| rest.trim_end_matches([')', '`', ']'])))
}
