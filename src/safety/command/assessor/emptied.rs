//! Files that a command line empties without a program that deletes.

use std::ops::Range;

use super::{CommandFacts, OutputRole, ScriptFacts};

/// Programs that print no more than they read.
const FILTERS: [&str; 8] = ["cat", "head", "tail", "sort", "uniq", "tr", "tee", "sponge"];

impl ScriptFacts {
    /// Whether commands print nothing, or nothing but the end of a line, so that a redirection of them only empties its file.
    pub(super) fn prints_nothing(&self, commands: &Range<usize>) -> bool {
        let [facts] = self.facts.get(commands.clone()).unwrap_or_default() else {
            return false;
        };
        let words: Vec<&str> = facts.values.iter().map(String::as_str).collect();
        match words.as_slice() {
            []
            | [":" | "true" | "exec" | "echo" | "print"]
            | ["echo" | "print", "" | "-n"]
            | ["echo" | "print", "-n", ""]
            | ["printf", ""]
            | ["head" | "tail", "-c" | "-n", "0", ..]
            | ["head" | "tail", "-c0" | "-n0", ..] => true,
            [name, operands @ ..] if FILTERS.contains(name) => {
                let mut files = operands.iter().filter(|file| !file.starts_with('-'));
                match operands.is_empty() || matches!(*name, "tee" | "sponge") {
                    true => self.has_empty_input(commands),
                    false => operands.contains(&"/dev/null") && files.all(|f| *f == "/dev/null"),
                }
            }
            _ => false,
        }
    }

    /// Whether the input of a command is `/dev/null`.
    fn has_empty_input(&self, commands: &Range<usize>) -> bool {
        let mut redirections = self.script.redirections.iter();
        redirections.any(|redirection| {
            let target = redirection.target.value("", "").text;
            redirection.commands == *commands
                && redirection.operator == "<"
                && target == "/dev/null"
        })
    }

    /// Returns whether a command writes nothing to its operands: `tee FILE < /dev/null`, or after a stage that prints nothing.
    pub(super) fn empties_operands(
        &self,
        command: &Range<usize>,
        before: Option<&Range<usize>>,
    ) -> bool {
        let [facts] = self.facts.get(command.clone()).unwrap_or_default() else {
            return false;
        };
        let (name, operands) = match facts.values.split_first() {
            Some((name, operands)) => (name.as_str(), operands),
            None => return false,
        };
        let keeps =
            |operand: &String| matches!(operand.as_str(), "-a" | "--append" | "-ai" | "-ia");
        let is_file = |operand: &String| !operand.starts_with('-') && operand != "/dev/null";
        matches!(name, "tee" | "sponge")
            && operands.iter().any(is_file)
            && !operands.iter().any(keeps)
            && (self.has_empty_input(command)
                || before.is_some_and(|before| self.prints_nothing(before)))
    }

    /// Whether commands, or other stages of their pipeline, are filters that read a file, as an operand or as their input.
    pub(super) fn reads(&self, file: &str, commands: &Range<usize>) -> bool {
        let mut pipelines = self.script.pipelines.iter();
        let own = |stages: &&Vec<Range<usize>>| stages.contains(commands);
        let stages = match pipelines.find(own) {
            Some(stages) => stages.as_slice(),
            None => std::slice::from_ref(commands),
        };
        self.is_read_by(file, stages)
    }

    /// Returns whether `tee` overwrites a file that an earlier stage reads.
    pub(super) fn overwrites_read(&self, stage: &Range<usize>, before: &[Range<usize>]) -> bool {
        let facts = self.facts.get(stage.clone()).unwrap_or_default();
        let Some((name, operands)) = facts.first().and_then(|facts| facts.values.split_first())
        else {
            return false;
        };
        let keeps = |operand: &String| operand == "--append" || operand.starts_with("-a");
        name == "tee"
            && !before.is_empty()
            && !operands.iter().any(keeps)
            && operands.iter().any(|file| self.is_read_by(file, before))
    }

    /// Returns whether `sponge` keeps only some lines of a file that the stage before it reads.
    pub(super) fn keeps_some_lines(&self, stage: &Range<usize>, before: &[Range<usize>]) -> bool {
        const SELECTING: [&str; 8] = [
            "egrep", "fgrep", "grep", "head", "rg", "tail", "uniq", "zgrep",
        ];
        let first = |stage: &Range<usize>| self.facts.get(stage.clone())?.first();
        let words = first(stage).map_or(&[][..], |facts| &facts.values);
        let selects = before.last().and_then(first).is_some_and(|facts| {
            let name = facts.values.first().map_or("", String::as_str);
            SELECTING.contains(&name)
        });
        let is_sponge = words.first().is_some_and(|name| name == "sponge");
        is_sponge
            && selects
            && words
                .iter()
                .skip(1)
                .any(|file| self.is_read_by(file, before))
    }

    /// Whether filters among these stages read a file, as an operand or as their input.
    fn is_read_by(&self, file: &str, stages: &[Range<usize>]) -> bool {
        let is_filter = |facts: &&CommandFacts| {
            let is_cat = facts.values.first().is_some_and(|name| name == "cat");
            is_cat || matches!(facts.output, OutputRole::Passes { .. })
        };
        let facts = stages
            .iter()
            .filter_map(|stage| self.facts.get(stage.clone()));
        let mut filters = facts.flatten().filter(is_filter);
        let mut redirections = self.script.redirections.iter();
        filters.any(|facts| facts.values.iter().skip(1).any(|value| value == file))
            || redirections.any(|redirection| {
                redirection.operator == "<"
                    && stages.contains(&redirection.commands)
                    && redirection.target.value("", "").text == file
            })
    }
}
