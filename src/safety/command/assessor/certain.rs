//! Whether all values that a command may get are known, so that it need not be judged as one with a value that is not.

use std::collections::HashMap;

use super::candidates::is_positional;
use super::changing::{
    DECLARING, DYNAMIC, OF_SHELL, POSITIONAL, builtin_of, is_changing, is_plain_name,
    may_be_changing,
};
use super::downloads::runs_once;
use super::{Assessor, CommandFacts, HOOKS, ScriptFacts};
use crate::safety::command::syntax::SimpleCommand;
use crate::safety::command::word::{ShellWord, UNKNOWN, WordPart};

/// Whether a command joins its words again, so that it does not matter whether a value is split.
fn is_joined(values: &[String]) -> bool {
    values.first().is_some_and(|name| name == "eval")
}

/// Whether a text has a meaning of its own for a shell that is not quoted.
fn is_pattern(text: &str) -> bool {
    text.starts_with(['~', '=']) || text.contains(['*', '?', '[', '{', '$', '`', '(', '^', '#'])
}

/// Whether a text has flags with which zsh gives another value than that of a variable: `${(P)x}`, `$=x`.
fn has_flags(text: &str) -> bool {
    let signs = [
        "${(", "${=", "${~", "${^", "${+", "${#", "${!", "$=", "$~", "$^",
    ];
    signs.iter().any(|sign| text.contains(sign))
}

/// What a text says about its names, so that each is counted once.
pub(super) struct NameCounts {
    /// Whether a command other than `eval` may give names a meaning that the text does not show.
    is_dynamic: bool,
    /// How often `eval` stands in the text.
    evals: usize,
    /// How often each name stands in the text.
    all: HashMap<String, usize>,
    /// How often the text has the value of each as a whole: `$NAME` or `${NAME`.
    uses: HashMap<String, usize>,
    /// How often the words have it.
    parts: HashMap<String, usize>,
    /// The commands that assign to each.
    assigned: HashMap<String, Vec<usize>>,
}

impl NameCounts {
    /// Counts the names of a text.
    pub(super) fn new(script: &ScriptFacts, text: &str) -> NameCounts {
        let mut counts = NameCounts {
            is_dynamic: has_flags(text) || script.is_dynamic(),
            evals: 0,
            all: HashMap::new(),
            uses: HashMap::new(),
            parts: HashMap::new(),
            assigned: HashMap::new(),
        };
        let mut before = "";
        for name in text.split_inclusive(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
            let plain = name.trim_end_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            if !plain.is_empty() {
                match plain {
                    "eval" => counts.evals += 1,
                    plain => counts.is_dynamic |= DYNAMIC.contains(&plain),
                }
                *counts.all.entry(plain.to_owned()).or_default() += 1;
                if before.ends_with('$') || before.ends_with("${") {
                    *counts.uses.entry(plain.to_owned()).or_default() += 1;
                }
            }
            let end = name.as_ptr() as usize - text.as_ptr() as usize + name.len();
            before = text.get(..end).unwrap_or_default();
        }
        // Quotes may hide the name.
        let values = script.facts.iter().flat_map(|facts| &facts.values);
        let evals = values.filter(|value| *value == "eval").count();
        counts.evals = counts.evals.max(evals);
        for part in script.all_words().flat_map(ShellWord::parts) {
            if let WordPart::Variable {
                name,
                skipped: Some(_),
                ..
            } = part
            {
                *counts.parts.entry(name.clone()).or_default() += 1;
            }
        }
        for (index, command) in script.script.commands.iter().enumerate() {
            for (name, _) in &command.assignments {
                counts.assigned.entry(name.clone()).or_default().push(index);
            }
        }
        counts
    }

    /// Whether a command may give names a meaning that the text does not show.
    fn is_dynamic(&self) -> bool {
        self.is_dynamic || self.evals > 0
    }

    fn count(of: &HashMap<String, usize>, name: &str) -> usize {
        of.get(name).copied().unwrap_or_default()
    }
}

impl ScriptFacts {
    /// Returns all words of the text.
    fn all_words(&self) -> impl Iterator<Item = &ShellWord> {
        let commands = self.script.commands.iter();
        let words = commands.flat_map(|own| {
            let values = own.assignments.iter().map(|(_, word)| word);
            own.words.iter().chain(values)
        });
        let targets = self.script.redirections.iter().map(|own| &own.target);
        let lists = self.script.loops.iter().flat_map(|own| &own.words);
        words.chain(targets).chain(lists)
    }

    /// Returns what the text says about its names.
    fn names(&self, text: &str) -> &NameCounts {
        self.names.get_or_init(|| NameCounts::new(self, text))
    }

    /// Whether a command may give variables or functions a meaning that the text does not show.
    fn is_dynamic(&self) -> bool {
        let sets = |(values, words): (&[String], &[ShellWord])| {
            let letters = |word: &String| -> Option<&[char]> {
                match word.as_str() {
                    word if DECLARING.contains(&word) => Some(&['n', 'A', 'T']),
                    "set" => Some(&['A', 'o']),
                    "print" | "printf" => Some(&['v']),
                    _ => None,
                }
            };
            // `${s}ift`
            let is_part = |(value, word): (&String, &ShellWord)| {
                let has_variable = word.variables().next().is_some();
                has_variable && word.sole_list().is_none() && may_be_changing(value)
            };
            let is_dynamic = |word: &String| word != "eval" && DYNAMIC.contains(&word.as_str());
            if values.iter().any(is_dynamic)
                || values.first().zip(words.first()).is_some_and(is_part)
            {
                return true;
            }
            let found = values.iter().enumerate();
            let found = found.filter_map(|(at, word)| Some((at, word, letters(word)?)));
            found.clone().any(|(at, name, letters)| {
                let rest = at + 1;
                let is_option = |value: &str| value.starts_with(['-', '+']);
                let options = values.iter().skip(rest);
                let mut options = options.take_while(|option| *option != "--");
                let names = words.iter().zip(values).skip(rest);
                let mut names = names.filter(|(_, value)| !is_option(value));
                options.any(|option| is_option(option) && option.contains(letters))
                    || DECLARING.contains(&name.as_str())
                        && names.any(|(word, _)| !is_plain_name(word))
            })
        };
        // `.` may stand behind another word, or be the value of a variable.
        let is_source = |values: &[String]| {
            let most = match self.script.functions.is_empty() {
                true => 2,
                false => values.len(),
            };
            values.iter().take(most).any(|word| word == ".")
        };
        // The name of a command may be that value.
        let is_value = |word: &ShellWord| {
            let elements = word.elements().unwrap_or_default();
            is_changing(&word.value("", "").text) || elements.iter().any(|text| is_changing(text))
        };
        let lists = self.script.loops.iter().flat_map(|own| &own.words);
        let assigned = self.script.commands.iter().flat_map(|own| &own.assignments);
        let commands = self.facts.iter().zip(&self.script.commands);
        commands
            .map(|(facts, own)| (facts.values.as_slice(), own.words.as_slice()))
            .any(|(values, words)| sets((values, words)) || is_source(values))
            || assigned.map(|(_, word)| word).chain(lists).any(is_value)
    }

    /// Returns the calls of a function by its name alone.
    fn plain_calls(&self, name: &str) -> impl Iterator<Item = &[String]> + Clone {
        let calls = self.facts.iter().map(|facts| facts.values.as_slice());
        calls.filter(move |values| values.first().is_some_and(|first| first == name))
    }

    /// Whether a function is defined before a command, and only ever called by its name.
    pub(super) fn is_certain_function(&self, text: &str, name: &str, command: usize) -> bool {
        let functions = self.script.functions.iter();
        let mut own = functions.filter(|own| own.name == name);
        let defined = own.clone().count();
        if !own.any(|own| own.is_certain && own.body.end <= command) {
            return false;
        }
        let names = self.names(text);
        !HOOKS.contains(&name)
            && !names.is_dynamic()
            && NameCounts::count(&names.all, name) == defined + self.plain_calls(name).count()
    }

    /// Whether the calls of the function around a command give all of its parameters.
    fn has_certain_parameters(&self, text: &str, command: usize, is_quoted: bool) -> bool {
        let Some(name) = self.function_of(command) else {
            return self.has_certain_arguments(text, command, is_quoted);
        };
        let functions = &self.script.functions;
        let mut bodies = functions.iter().filter(|own| own.name == name);
        let (Some(function), None) = (bodies.next(), bodies.next()) else {
            return false;
        };
        let body = &function.body;
        let facts = self.facts.get(body.clone()).unwrap_or_default();
        let sets = facts.iter().any(|facts| {
            let mut words = facts.values.iter().take(2);
            let own = builtin_of(&facts.values).first();
            let changes = |own: &String| POSITIONAL.contains(&own.as_str()) || own.contains('{');
            own.is_some_and(changes)
                || words.any(|word| POSITIONAL.contains(&word.as_str()) || word == name)
        });
        // `"$@"` may run one of these.
        let names_unknown = |facts: &CommandFacts| {
            let name = builtin_of(&facts.values).first();
            name.is_some_and(|name| name.contains(UNKNOWN))
        };
        let runs_values = facts.iter().any(names_unknown);
        let is_constant = |values: &[String]| {
            let mut arguments = values.iter().skip(1);
            arguments.all(|text| {
                let is_split = !is_quoted && text.contains(char::is_whitespace);
                let is_shift = runs_values && is_changing(text);
                !is_split && !is_shift && !text.contains(UNKNOWN) && !is_pattern(text)
            })
        };
        let mut calls = self.plain_calls(name);
        let has_inner = functions.iter().any(|own| {
            own.name != name && body.start <= own.body.start && own.body.end <= body.end
        });
        let names = self.names(text);
        !sets
            && !has_inner
            && !HOOKS.contains(&name)
            && calls.clone().next().is_some()
            && NameCounts::count(&names.all, name) == 1 + calls.clone().count()
            && !names.all.contains_key("argv")
            && calls.all(is_constant)
    }

    /// Whether the line itself gives all positional parameters before a command that is in no function, by `set -- WORD…` alone.
    fn has_certain_arguments(&self, text: &str, command: usize, is_quoted: bool) -> bool {
        let names = self.names(text);
        let is_set = |values: &[String]| matches!(values, [name, dashes, ..] if name == "set" && dashes == "--");
        let is_constant = |value: &String| {
            let is_split = !is_quoted && value.contains(char::is_whitespace);
            !is_split && !is_changing(value) && !value.contains(UNKNOWN) && !is_pattern(value)
        };
        let all = self.facts.iter().map(|facts| facts.values.as_slice());
        let mut sets = all.enumerate().filter(|(_, values)| is_set(values));
        let count = sets.clone().count();
        let is_straight = runs_once(text)
            && self.script.functions.is_empty()
            && ["&&", "||", "(", "if ", "case "]
                .iter()
                .all(|sign| !text.contains(sign));
        is_straight
            && count > 0
            && sets.all(|(at, values)| at < command && values.iter().skip(2).all(is_constant))
            && NameCounts::count(&names.all, "set") == count
            && ["shift", "argv"]
                .iter()
                .all(|name| !names.all.contains_key(*name))
    }

    /// Whether an assignment gives a variable a text that a word is replaced by as it is.
    fn is_constant(
        command: &SimpleCommand,
        value: &ShellWord,
        word: &ShellWord,
        is_joined: bool,
    ) -> bool {
        const PLAIN: [&str; 8] = [
            "export", "local", "typeset", "declare", "readonly", "-x", "-r", "-g",
        ];
        let is_plain = command.words.iter().all(|word| {
            let word = word.value("", "").text;
            PLAIN.contains(&word.as_str())
        });
        let is_quoted = word.is_quoted();
        let appended = value.appended();
        let is_appended = appended.is_some();
        let value = appended.as_ref().unwrap_or(value);
        is_plain
            && match value.elements() {
                Some(elements) => {
                    let is_list = word.sole_list().is_some()
                        && matches!(value.parts(), [WordPart::Array { .. }]);
                    is_list && !elements.iter().any(|element| is_pattern(element))
                }
                None => {
                    let text = value.value("", "").text;
                    let is_split = match is_joined {
                        true => text.contains('\n'),
                        false => text.contains(char::is_whitespace),
                    };
                    let is_kept = is_quoted || !is_split && !is_pattern(&text);
                    !text.contains(UNKNOWN) && !is_appended && is_kept
                }
            }
    }

    /// Whether the text gives a variable all values that it may have in a word of a command.
    fn is_certain_variable(
        &self,
        text: &str,
        name: &str,
        command: usize,
        word: &ShellWord,
    ) -> bool {
        if name.is_empty() || OF_SHELL.contains(&name) {
            return false;
        }
        let names = self.names(text);
        let used = NameCounts::count(&names.parts, name);
        let (mut set, mut is_set, mut is_constant) = (0, false, true);
        let scope = self.function_of(command);
        let is_joined = self
            .facts
            .get(command)
            .is_some_and(|own| is_joined(&own.values));
        let assigned = names.assigned.get(name).map_or(&[][..], Vec::as_slice);
        for (index, own) in assigned
            .iter()
            .filter_map(|at| Some((*at, self.script.commands.get(*at)?)))
        {
            set += 1;
            let values = own.assignments.iter().filter(|(own, _)| own == name);
            let mut values = values.map(|(_, value)| value);
            let is_append = values.clone().any(|value| value.appended().is_some());
            is_constant &= index < command
                && values.all(|value| Self::is_constant(own, value, word, is_joined));
            let place = self.function_of(index);
            is_set |= !is_append && own.is_certain && (place == scope || place.is_none());
            // The values of an assignment that may not be made, with and without what is appended later, are not all noted.
            is_constant &= !is_append || self.appends_once(text, assigned, index);
        }
        for own in self.script.loops.iter().filter(|own| own.variable == name) {
            set += 1;
            is_set |= own.commands.contains(&command) && !own.words.is_empty();
            is_constant &= own.words.iter().all(|listed| {
                let value = listed.value("", "").text;
                let is_split = !word.is_quoted() && value.contains(char::is_whitespace);
                !is_split && !value.contains(UNKNOWN) && !is_pattern(&value)
            });
        }
        is_set
            && is_constant
            && NameCounts::count(&names.uses, name) == used
            && NameCounts::count(&names.all, name) == used + set
    }

    /// Whether all assignments to a variable up to one that appends are made once and for certain, but for the last.
    fn appends_once(&self, text: &str, assigned: &[usize], index: usize) -> bool {
        let before = assigned.iter().filter(|at| **at < index);
        let mut before = before.filter_map(|at| self.script.commands.get(*at));
        let is_last = assigned.last() == Some(&index);
        let own = self.script.commands.get(index);
        runs_once(text)
            && self.script.functions.is_empty()
            && before.all(|own| own.is_certain)
            && (is_last || own.is_some_and(|own| own.is_certain))
    }

    /// Whether the text gives all values that the words of a command may have, and at most one of them varies.
    fn has_certain_values(&self, text: &str, index: usize, rounds: usize) -> bool {
        let words = self.script.commands.get(index);
        let words = words.map_or(&[][..], |own| own.words.as_slice());
        let names = words.iter().flat_map(ShellWord::variables);
        let mut names: Vec<&str> = names.filter(|name| !is_place(name)).collect();
        names.sort_unstable();
        names.dedup();
        if names.len() != 1 && (rounds != 1 || names.is_empty()) {
            return false;
        }
        let counts = self.names(text);
        let is_certain = |word: &ShellWord| {
            // `$x:t`
            let mut pairs = word.parts().windows(2);
            let has_modifier = pairs.any(|pair| {
                matches!(pair, [WordPart::Variable { .. }, WordPart::Text { text, .. }] if text.starts_with(':'))
            });
            !has_modifier
                && word.parts().iter().all(|part| match part {
                    WordPart::Text { .. } | WordPart::Number => true,
                    WordPart::Variable { name, .. } if is_place(name) => {
                        counts.all.get(name) == counts.uses.get(name)
                    }
                    WordPart::Variable {
                        name,
                        skipped: Some(_),
                        is_quoted,
                        ..
                    } if is_positional(name) => {
                        let is_list = matches!(name.as_str(), "@" | "*");
                        (!is_list || word.sole_list().is_some())
                            && self.has_certain_parameters(text, index, *is_quoted)
                    }
                    WordPart::Variable {
                        name,
                        skipped: Some(_),
                        fallback: None,
                        ..
                    } => self.is_certain_variable(text, name, index, word),
                    _ => false,
                })
        };
        let values = self.facts.get(index).map(|facts| facts.values.as_slice());
        let is_sole_eval = is_joined(values.unwrap_or_default())
            && counts.evals == 1
            && !counts.all.contains_key("IFS")
            && self.script.functions.is_empty()
            && runs_once(text);
        let is_dynamic = match is_sole_eval {
            true => counts.is_dynamic,
            false => counts.is_dynamic(),
        };
        !is_dynamic && words.iter().all(is_certain)
    }
}

/// Whether a variable is the home directory or the working directory.
fn is_place(name: &str) -> bool {
    matches!(name, "HOME" | "PWD")
}

impl Assessor<'_> {
    /// Whether a command gets no other values than those that are tried.
    pub(super) fn is_certain(&self, script: &ScriptFacts, index: usize, rounds: usize) -> bool {
        // Of a text that is not understood, only some parts are known.
        let is_whole = !self.findings.hides_unknown && !self.is_cut.get();
        is_whole && rounds > 0 && script.has_certain_values(&self.text, index, rounds)
    }
}
