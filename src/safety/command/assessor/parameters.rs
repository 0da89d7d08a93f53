//! The arguments of functions, scripts and texts, which are the positional parameters in them.

use super::calls::runs_functions;
use super::candidates::PossibleText;
use super::{Assessor, ScriptFacts};
use crate::safety::command::word::UNKNOWN;

/// How often the calls are read again for functions that pass their arguments on.
const MAX_PASSES: usize = 5;

/// Returns the index of the word that may name a function.
fn name_index(values: &[String]) -> usize {
    let is_before = |word: &&String| runs_functions(word) || *word == "eval";
    values.iter().take_while(is_before).count()
}

impl ScriptFacts {
    /// Returns the name of the function in whose body a command is, if the line calls it: its parameters are those of the calls.
    pub(super) fn function_of(&self, index: usize) -> Option<&str> {
        let functions = self.script.functions.iter();
        let around = functions.filter(|own| own.body.contains(&index));
        let function = around.min_by_key(|own| own.body.len())?;
        Some(&function.name)
    }

    /// Returns the commands that call a function, with the index of its name among their words.
    pub(super) fn calls_of(&self, name: &str) -> impl Iterator<Item = (usize, usize)> {
        self.facts
            .iter()
            .enumerate()
            .filter_map(move |(index, facts)| {
                let at = name_index(&facts.values);
                facts.values.get(at).filter(|word| *word == name)?;
                Some((index, at))
            })
    }
}

impl Assessor<'_> {
    /// Notes the positional parameters of a function, a script or a text, from the one with a number. With `shifts` each may have
    /// any of the values.
    pub(super) fn note_parameters(&mut self, from: usize, arguments: &[String], shifts: bool) {
        if arguments.iter().all(|argument| argument.contains(UNKNOWN)) {
            return;
        }
        for name in ["@", "*"] {
            let own = arguments.get(1 - from..).unwrap_or_default();
            if own.iter().all(|argument| self.has_room(argument)) {
                self.note_list(name, own.to_vec());
            }
        }
        let constant = |argument: &&String| !argument.contains(UNKNOWN);
        for at in 0..arguments.len().min(9) {
            let last = if shifts { arguments.len() } else { at + 1 };
            let own = arguments.get(at..last).unwrap_or_default().iter();
            let texts = own.filter(constant).cloned().map(PossibleText::constant);
            self.note_texts(&(from + at).to_string(), texts.collect());
        }
    }

    /// Notes values that a function may use before the order of the text gives them: its arguments, and variables that are set
    /// behind it.
    pub(super) fn note_early_values(&mut self, script: &ScriptFacts) {
        for (name, text) in &script.script.defaults {
            self.note_constant(name, text);
        }
        for (index, facts) in script.facts.iter().enumerate() {
            if let [name, dashes, arguments @ ..] = facts.values.as_slice()
                && name == "set"
                && matches!(dashes.as_str(), "--" | "-")
            {
                self.set_scope(script, index);
                self.note_parameters(1, arguments, false);
            }
        }
        // A function may pass its arguments on to another one.
        let mut is_new = !script.script.functions.is_empty();
        for _ in 0..MAX_PASSES {
            if !is_new {
                break;
            }
            is_new = false;
            for (index, command) in script.script.commands.iter().enumerate() {
                self.set_scope(script, index);
                for (name, word) in &command.assignments {
                    self.note_value(script, (name, word), false);
                }
                is_new |= self.note_call(script, index);
            }
        }
        if is_new {
            self.note_cut();
        }
        self.scope = None;
    }

    /// Notes the arguments that a command gives to a function. Returns whether some of them are new.
    fn note_call(&mut self, script: &ScriptFacts, index: usize) -> bool {
        let functions = &script.script.functions;
        let Some(values) = script.facts.get(index).map(|facts| &facts.values) else {
            return false;
        };
        let is_function = |name: &str| functions.iter().any(|own| own.name == name);
        let at = name_index(values);
        let name = values.get(at);
        if !name.is_some_and(|name| name.contains(UNKNOWN) || is_function(name)) {
            return false;
        }
        let mut calls = self.rounds(script, index);
        if calls.is_empty() {
            calls.push((values.clone(), Vec::new()));
        }
        let mut is_new = false;
        for (values, _) in calls {
            let at = name_index(&values);
            let (Some(name), Some(arguments)) = (values.get(at), values.get(at + 1..)) else {
                continue;
            };
            let mut own = functions.iter().filter(|own| own.name == *name).peekable();
            if own.peek().is_none() {
                continue;
            }
            let shifts = own.any(|own| {
                let body = script.facts.get(own.body.clone()).unwrap_or_default();
                let mut first = body.iter().filter_map(|facts| facts.values.first());
                first.any(|word| word == "shift")
            });
            self.scope = Some(name.to_owned());
            let is_unknown = arguments.iter().all(|argument| argument.contains(UNKNOWN));
            if !is_unknown && !self.lists_of("@").iter().any(|known| known == arguments) {
                self.note_parameters(1, arguments, shifts);
                is_new = true;
            }
        }
        is_new
    }
}
