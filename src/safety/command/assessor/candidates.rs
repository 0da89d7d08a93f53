//! Texts that a word may expand to, where its value is not known: the constant values of its variables, the words of loops, the
//! arguments of functions, and the paths that another command prints for it.

use std::ops::Range;

use super::streams::StreamContent;
use super::{Assessor, ScriptFacts};
use crate::safety::command::roles::{OutputRole, innermost};
use crate::safety::command::special::printed_paths;
use crate::safety::command::word::{ShellWord, UNKNOWN, WordPart, program_name};

/// Most values of a variable that are tried.
pub(super) const MAX_VALUES: usize = 64;

/// Longest value that is kept, in bytes: `b=$a$a; c=$b$b; …` doubles it each time.
const MAX_VALUE: usize = 8 << 10;

/// Most stages of a pipeline before a command that are searched for paths.
const MAX_STAGES: usize = 16;

/// What the length of a text is counted as in addition to its bytes, because each text takes time.
const TEXT_COST: usize = 16;

/// Returns the paths that commands may print.
fn printed(script: &ScriptFacts, commands: Range<usize>) -> Vec<String> {
    let facts = script.facts.get(commands).unwrap_or_default();
    let values = facts.iter().map(|facts| innermost(&facts.values));
    values.flat_map(|values| printed_paths(&values)).collect()
}

/// A text that a word may expand to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PossibleText {
    pub(super) text: String,
    /// Whether the command line itself has the text. Others are paths below which a command prints names: only protected ones count.
    pub(super) is_constant: bool,
    /// Whether it is one element of a list, which a word that is the whole list does not become.
    pub(super) is_element: bool,
}

impl PossibleText {
    pub(super) fn constant(text: String) -> PossibleText {
        PossibleText {
            text,
            is_constant: true,
            is_element: false,
        }
    }

    fn printed(text: String) -> PossibleText {
        PossibleText {
            text,
            is_constant: false,
            is_element: false,
        }
    }
}

/// Returns the constant text that commands print.
pub(super) fn constant_output(script: &ScriptFacts, commands: Range<usize>) -> Option<String> {
    match script.facts.get(commands)? {
        [facts] => match &facts.output {
            OutputRole::Constant(text) => Some(text.trim_end_matches('\n').to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the words of a text that a shell splits.
pub(super) fn split(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Whether a name is that of positional parameters.
pub(super) fn is_positional(name: &str) -> bool {
    matches!(name, "@" | "*" | "argv") || name.chars().all(|c| c.is_ascii_digit())
}

impl Assessor<'_> {
    /// Notes that a limit has left out something that a command may get.
    pub(super) fn note_cut(&self) {
        self.is_cut.set(true);
    }

    /// Counts a text that is tried. Returns whether there is room for it.
    pub(super) fn has_room(&self, text: &str) -> bool {
        let left = self.possible_bytes_left.get();
        let rest = left.checked_sub(text.len() + TEXT_COST);
        self.possible_bytes_left.set(rest.unwrap_or_default());
        if rest.is_none() {
            self.note_cut();
        }
        rest.is_some()
    }

    /// Returns the name under which the values of a variable are noted: each function has parameters of its own.
    fn key(&self, name: &str) -> String {
        let name = match name {
            "argv" => "@",
            name => name,
        };
        match &self.scope {
            Some(function) if is_positional(name) => format!("{function}\0{name}"),
            _ => name.to_owned(),
        }
    }

    /// Sets in which function the command being judged is.
    pub(super) fn set_scope(&mut self, script: &ScriptFacts, index: usize) {
        self.scope = script.function_of(index).map(str::to_owned);
    }

    /// Notes texts that a variable may have.
    pub(super) fn note_texts(&mut self, name: &str, mut texts: Vec<PossibleText>) {
        texts.retain(|own| {
            let fits = own.text.len() <= MAX_VALUE;
            self.is_cut.set(self.is_cut.get() || !fits);
            fits
        });
        if texts.is_empty() {
            return;
        }
        let known = self.values.entry(self.key(name)).or_default();
        // The last one is that of the next command.
        known.retain(|known| !texts.contains(known));
        known.extend(texts);
    }

    /// Notes the value that an assignment gives to a variable, or to one of its elements. With `replaces` a value to which it appends
    /// is not one of the variable any more.
    pub(super) fn note_value(
        &mut self,
        script: &ScriptFacts,
        (name, word): (&str, &ShellWord),
        replaces: bool,
    ) {
        let name = name.split('[').next().unwrap_or_default();
        let own = word.appended();
        let before = own.is_some();
        let word = own.as_ref().unwrap_or(word);
        if let Some(elements) = word.elements() {
            let before = self.lists_of(name).last().filter(|_| before);
            let mut list = before.cloned().unwrap_or_default();
            list.extend(elements.iter().flat_map(|element| self.element(element)));
            if list.iter().all(|element| self.has_room(element)) {
                self.note_list(name, list);
            }
            return;
        }
        let value = self.value(word);
        let mut texts = match value.contains(UNKNOWN) {
            true => self.possible_texts(script, word),
            false => vec![PossibleText::constant(value)],
        };
        let last = self
            .values
            .get(&self.key(name))
            .and_then(|known| known.last());
        let start = last.filter(|_| before).map(|last| last.text.clone());
        for text in &mut texts {
            text.is_element = false;
            text.text
                .insert_str(0, start.as_deref().unwrap_or_default());
        }
        if start.is_some() && replaces {
            self.values.get_mut(&self.key(name)).and_then(Vec::pop);
        }
        self.note_texts(name, texts);
    }

    /// Returns what an element of an array becomes, if it is the value of a variable.
    fn element(&self, element: &str) -> Vec<String> {
        let name = element.strip_prefix('$').unwrap_or_default();
        let braced = name
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'));
        let name = braced.unwrap_or(name).trim_end_matches("[@]");
        let known = self.lists_of(name).last().cloned();
        let value = || {
            let texts = self.values.get(&self.key(name))?;
            Some(vec![texts.last()?.text.clone()])
        };
        known
            .or_else(value)
            .unwrap_or_else(|| vec![element.to_owned()])
    }

    /// Notes the value that `env`, `eval` or a default gives to a variable.
    pub(super) fn note_constant(&mut self, name: &str, value: &str) {
        if !value.contains(UNKNOWN) {
            self.note_texts(name, vec![PossibleText::constant(value.to_owned())]);
        }
    }

    /// Notes the elements of an array or of the positional parameters.
    pub(super) fn note_list(&mut self, name: &str, elements: Vec<String>) {
        let texts = elements.iter().filter(|element| !element.contains(UNKNOWN));
        let texts = texts.map(|text| PossibleText {
            is_element: true,
            ..PossibleText::constant(text.clone())
        });
        self.note_texts(name, texts.collect());
        let known = self.lists.entry(self.key(name)).or_default();
        known.retain(|known| *known != elements);
        known.push(elements);
    }

    /// Returns the lists that a variable may have.
    pub(super) fn lists_of(&self, name: &str) -> &[Vec<String>] {
        self.lists.get(&self.key(name)).map_or(&[], Vec::as_slice)
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
            .any(|name| matches!(name, "xargs" | "gxargs" | "parallel"))
        {
            self.fed_paths = self.readable(script, index);
            self.fed_words = self.input_words();
            if self.fed_words.is_empty() {
                self.fed_words = self.printed_words(script, index);
            }
        } else if names.next() == Some("read") {
            let paths = self.readable(script, index);
            let words = self.input_words();
            let texts = paths.into_iter().map(PossibleText::printed);
            let words = words.into_iter().map(PossibleText::constant);
            let texts: Vec<PossibleText> = texts.chain(words).collect();
            let mut names = names.filter(|name| !name.starts_with('-')).peekable();
            if names.peek().is_none() {
                self.note_texts("REPLY", texts.clone());
            }
            for name in names {
                self.note_texts(name, texts.clone());
            }
        }
    }

    /// Returns the paths that a command may read: from the stages of a pipeline before it, or from `< <(…)`.
    fn readable(&self, script: &ScriptFacts, index: usize) -> Vec<String> {
        let mut paths = Vec::new();
        for stages in &script.script.pipelines {
            let at = stages.iter().position(|stage| stage.contains(&index));
            let before = at.and_then(|at| stages.get(..at)).unwrap_or_default();
            if before.len() > MAX_STAGES {
                self.note_cut();
            }
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

    /// Returns the values of a variable that were noted.
    fn known_values(&self, name: &str) -> Vec<PossibleText> {
        let home = |value: &PossibleText| {
            let text = value.text.replace("$HOME", self.place.home);
            PossibleText {
                text: match text.strip_prefix("~/") {
                    Some(rest) => format!("{}/{rest}", self.place.home),
                    None => text,
                },
                ..value.clone()
            }
        };
        let values = self.values.get(&self.key(name)).into_iter().flatten();
        self.latest(values.map(home).collect())
    }

    /// Returns different texts, the last of them if they are too many.
    fn latest(&self, texts: Vec<PossibleText>) -> Vec<PossibleText> {
        let mut kept: Vec<PossibleText> = Vec::new();
        for text in texts.into_iter().rev() {
            if kept.contains(&text) {
                continue;
            }
            if kept.len() == MAX_VALUES {
                self.note_cut();
                break;
            }
            if !self.has_room(&text.text) {
                break;
            }
            kept.push(text);
        }
        kept.reverse();
        kept
    }

    /// Returns constant values of a variable, and what a loop gives to it.
    pub(super) fn values_of(&self, script: &ScriptFacts, name: &str) -> Vec<PossibleText> {
        let mut values = self.known_values(name);
        let loops = script.script.loops.iter();
        let mut loops = loops.filter(|own| own.variable == name).peekable();
        if loops.peek().is_none() {
            return values;
        }
        for word in loops.flat_map(|own| &own.words) {
            let text = self.value(word);
            match text.contains(UNKNOWN) {
                true => {
                    let known = word.variables().flat_map(|name| self.known_values(name));
                    values.extend(known.map(|known| PossibleText {
                        is_element: false,
                        ..known
                    }));
                    values.extend(self.substituted(script, word));
                }
                false if word.has_braces() => {
                    let words = word.without_braces(self.place.home, self.place.cwd);
                    if words.is_none() {
                        self.note_cut();
                    }
                    let words = words.into_iter().flatten();
                    values.extend(words.map(PossibleText::constant));
                }
                false => values.push(PossibleText::constant(text)),
            }
            if values.len() > 2 * MAX_VALUES {
                self.note_cut();
                break;
            }
        }
        self.latest(values)
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

    /// Returns the texts that a part of a word may become.
    fn part_texts(&self, script: &ScriptFacts, part: &WordPart) -> Vec<PossibleText> {
        match part {
            WordPart::Variable { name, fallback, .. } => {
                let mut texts = self.values_of(script, name);
                texts.extend(fallback.clone().map(PossibleText::constant));
                texts
            }
            WordPart::Substitution {
                commands,
                is_process: false,
                ..
            } => {
                let text = constant_output(script, commands.clone());
                text.map(PossibleText::constant).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns texts that a word may expand to.
    pub(super) fn possible_texts(
        &self,
        script: &ScriptFacts,
        word: &ShellWord,
    ) -> Vec<PossibleText> {
        let parts = word.parts().iter();
        let known: Vec<Vec<PossibleText>> =
            parts.map(|part| self.part_texts(script, part)).collect();
        let most = known.iter().map(Vec::len).max();
        let mut texts = Vec::new();
        for round in 0..most.unwrap_or_default() {
            let chosen = |at: usize| {
                let values: &Vec<PossibleText> = known.get(at)?;
                values.get(round).or(values.last())
            };
            let all = (0..known.len()).filter_map(chosen);
            let is_constant = all.clone().all(|value| value.is_constant);
            let is_element = all.clone().any(|value| value.is_element);
            let filled = word.filled(|at| Some(chosen(at)?.text.clone()));
            let Some(text) = filled.map(|word| self.value(&word)) else {
                continue;
            };
            if !self.has_room(&text) {
                break;
            }
            texts.push(PossibleText {
                text,
                is_constant,
                is_element,
            });
        }
        let has_constants = texts.iter().any(|own| own.is_constant);
        let printed = self.substituted(script, word).into_iter();
        texts.extend(printed.filter(|own| !has_constants || !own.is_constant));
        texts
    }

    /// Returns texts that a word may expand to, also those below which only the paths are known.
    pub(super) fn possible_values(&self, script: &ScriptFacts, word: &ShellWord) -> Vec<String> {
        let texts = self.possible_texts(script, word);
        texts.into_iter().map(|own| own.text).collect()
    }
}
