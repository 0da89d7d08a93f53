//! Downloads on their way to what runs them: through names of commands, variables, and files that are read.

use std::ops::Range;

use super::downloads::written_files;
use super::streams::StreamContent;
use super::{Assessor, OutputRole, ScriptFacts};
use crate::safety::command::roles::output_role;
use crate::safety::command::targets::is_sink;
use crate::safety::command::word::{ShellWord, UNKNOWN, program_name};

/// Returns the first words of a command with the rest of its values.
fn with_rest(first: &str, rest: &[String]) -> Vec<String> {
    let first = first.split_whitespace().map(str::to_owned);
    first.chain(rest.iter().cloned()).collect()
}

impl ScriptFacts {
    /// Gives the calls of functions, of aliases and of variables that stand for a download the role of one.
    pub(super) fn follow_names(&mut self, value: impl Fn(&ShellWord) -> String) {
        let functions = self.script.functions.iter();
        let functions = functions.filter(|own| self.downloads(&own.body));
        let mut downloading: Vec<String> = functions.map(|own| own.name.clone()).collect();
        let aliases = self.facts.iter().map(|facts| facts.values.as_slice());
        let aliases = aliases.filter(|values| values.first().is_some_and(|name| name == "alias"));
        let aliases = aliases.flatten().filter_map(|own| own.split_once('='));
        let aliases =
            aliases.filter(|(_, text)| output_role(&with_rest(text, &[])) == OutputRole::Downloads);
        downloading.extend(aliases.map(|(name, _)| name.to_owned()));
        let is_download = |at: usize| {
            let values = &self.facts.get(at)?.values;
            let (first, rest) = values.split_first()?;
            if !first.contains(UNKNOWN) {
                return downloading.contains(first).then_some(at);
            }
            let word = self.script.commands.get(at)?.words.first()?;
            let mut texts = word
                .variables()
                .flat_map(|name| self.texts_of(name, &value));
            let found =
                texts.any(|text| output_role(&with_rest(&text, rest)) == OutputRole::Downloads);
            found.then_some(at)
        };
        let found: Vec<usize> = (0..self.facts.len()).filter_map(is_download).collect();
        for at in found {
            if let Some(facts) = self.facts.get_mut(at) {
                facts.output = OutputRole::Downloads;
            }
        }
    }

    /// Returns the texts that assignments and loops give to a variable.
    fn texts_of(&self, name: &str, value: impl Fn(&ShellWord) -> String) -> Vec<String> {
        let commands = self.script.commands.iter();
        let assigned = commands.flat_map(|own| &own.assignments);
        let assigned = assigned.filter(|(own, _)| own == name);
        let loops = self.script.loops.iter().filter(|own| own.variable == name);
        let words = assigned.map(|(_, word)| word);
        let words = words.chain(loops.flat_map(|own| &own.words));
        let text = |word: &ShellWord| match word.elements() {
            Some(elements) => elements.join(" "),
            None => value(word),
        };
        words.map(text).collect()
    }

    /// Whether a command among these reads a file that was downloaded.
    fn has_carrier(&self, commands: &Range<usize>) -> bool {
        let mut carriers = self.carriers.iter();
        carriers.any(|index| commands.contains(index))
    }
}

impl Assessor<'_> {
    /// Whether a word has the output of a command that brings data from the network, or of one that reads a file with such data.
    pub(super) fn word_downloads(&self, script: &ScriptFacts, word: &ShellWord) -> bool {
        let is_download = |word: &ShellWord| {
            let mut commands = word.substitutions().map(|(commands, _)| commands);
            commands.any(|own| script.downloads(&own) || script.has_carrier(&own))
                || word
                    .variables()
                    .any(|name| self.downloaded_variables.contains(name))
        };
        let mut loops = script.script.loops.iter().filter(|own| {
            let mut names = word.variables();
            names.any(|name| name == own.variable)
        });
        is_download(word) || loops.any(|own| own.words.iter().any(is_download))
    }

    /// Notes the variables whose values are downloads, before it is known what each command reads.
    pub(super) fn downloaded_values(&mut self, script: &ScriptFacts) {
        let commands = script.script.commands.iter();
        for (name, word) in commands.flat_map(|own| &own.assignments) {
            if self.word_downloads(script, word) {
                self.downloaded_variables.insert(name.clone());
            }
        }
    }

    /// Whether a stage of a pipeline prints a download that is in a variable or in a file.
    pub(super) fn prints_download(&self, script: &ScriptFacts, stage: &Range<usize>) -> bool {
        let facts = script.facts.get(stage.clone()).unwrap_or_default();
        let commands = script.script.commands.get(stage.clone());
        let mut commands = facts.iter().zip(commands.unwrap_or_default());
        script.has_carrier(stage)
            || commands.any(|(facts, own)| {
                let name = facts.values.first().map(|name| program_name(name));
                let prints = matches!(name, Some("echo" | "printf" | "print"));
                prints
                    && own
                        .words
                        .iter()
                        .any(|word| self.word_downloads(script, word))
            })
    }

    /// Whether the command being judged reads a download.
    pub(super) fn reads_downloaded_input(&self) -> bool {
        let content = self.input.as_ref().map(|input| &input.content);
        match content {
            Some(StreamContent::Download) => true,
            Some(StreamContent::File(path)) => self.is_downloaded(path),
            _ => false,
        }
    }

    /// Notes the variables that `read` gives a secret or a download.
    pub(super) fn read_values(&mut self, arguments: &[String]) {
        let names = arguments.iter().filter(|name| !name.starts_with('-'));
        // `read 'name?Prompt: '`
        let names = names.filter_map(|name| name.split('?').next());
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        if names.is_empty() {
            names.push("REPLY".to_owned());
        }
        if self.input.as_ref().is_some_and(|input| input.holds_secret) {
            self.secret_variables.extend(names.iter().cloned());
        }
        if self.reads_downloaded_input() {
            self.downloaded_variables.extend(names);
        }
    }

    /// Whether a program whose path is not known may be one of those that the command line has downloaded.
    pub(super) fn is_in_unpacked(&self, path: &str) -> bool {
        path.contains('/') && (self.has_unpacked || self.has_cloned)
    }

    /// Notes the files, named by variables, to which a command prints a download.
    fn note_downloaded_targets(&mut self, script: &ScriptFacts, index: usize) {
        let outputs = script.script.redirections.iter();
        let outputs = outputs.filter(|output| {
            output.operator.contains('>')
                && output.commands.contains(&index)
                && self.value(&output.target).contains(UNKNOWN)
                && script.carries_download(&(index..index + 1))
        });
        let files = outputs.flat_map(|output| self.possible_values(script, &output.target));
        let files: Vec<String> = files.filter(|file| !file.contains(UNKNOWN)).collect();
        self.downloaded.extend(files);
    }

    /// Whether a command reads a file that was downloaded.
    fn reads_download(&self, script: &ScriptFacts, index: usize) -> bool {
        let is_own = |file: &str| {
            let file = file.strip_prefix("if=").unwrap_or(file);
            !file.is_empty() && self.is_downloaded(file)
        };
        let is_named = |word: &ShellWord| {
            let value = self.value(word);
            let is_open = value.contains(UNKNOWN) && word.variables().next().is_some();
            let possible = || self.possible_values(script, word);
            is_own(&value) || is_open && possible().iter().any(|own| is_own(own))
        };
        let command = script.script.commands.get(index);
        let words = command.map_or(&[][..], |own| own.words.as_slice());
        let mut inputs = script.script.redirections.iter();
        words.iter().skip(1).any(is_named)
            || inputs.any(|input| {
                input.operator == "<" && input.commands.contains(&index) && is_named(&input.target)
            })
    }

    /// Notes the files to which a command passes a download on that it reads, or gets from a stage of its pipeline before it.
    pub(super) fn pass_download_on(&mut self, script: &mut ScriptFacts, index: usize) {
        self.note_downloaded_targets(script, index);
        if self.downloaded.is_empty() {
            return;
        }
        let reads = self.reads_download(script, index);
        if reads {
            script.carriers.insert(index);
        }
        let gets = || {
            script.script.pipelines.iter().any(|stages| {
                let at = stages.iter().position(|stage| stage.contains(&index));
                let own = at.and_then(|at| stages.get(at));
                let (Some(first), Some(own)) = (stages.first(), own) else {
                    return false;
                };
                let mut before = script
                    .carriers
                    .range(first.start..own.start.max(first.start));
                before.next().is_some()
            })
        };
        if !reads && (script.carriers.is_empty() || !gets()) {
            return;
        }
        let outputs = script.script.redirections.iter();
        let outputs = outputs
            .filter(|output| output.operator.contains('>') && output.commands.contains(&index));
        let targets = outputs.map(|output| self.value(&output.target));
        let values = script.facts.get(index).map(|facts| facts.values.as_slice());
        let files = targets.chain(written_files(values.unwrap_or_default()));
        let mut files: Vec<String> = files.collect();
        files.retain(|file| {
            !is_sink(file) && !file.contains(UNKNOWN) && !self.downloaded.contains(file)
        });
        for file in files {
            self.installs_program(&file);
            self.downloaded.push(file);
        }
    }
}
