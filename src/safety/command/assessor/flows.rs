//! Where text flows from one command into another that runs it.

use std::ops::Range;

use super::secrets::puts_secret;
use super::sent_files::code_sends_private;
use super::streams::StreamContent;
use super::{Assessor, CommandFacts, InputRole, ScriptFacts};
use crate::safety::command::class::CommandClass::{
    Destroys, Network, RunsDownloadedCode, Unknown, Writes,
};
use crate::safety::command::code::{
    CodeEffect, CodeLanguage, SqlEffect, code_acts, code_effect, commands_change, named_effects,
    other_code_effect, query_files, query_scripts, shell_texts, sql_effect, started_commands,
};
use crate::safety::command::interpreters::has_other_language;
use crate::safety::command::roles::innermost;
use crate::safety::command::special::SENDS_SECRET;
use crate::safety::command::targets::{PathReach, written};
use crate::safety::command::word::{UNKNOWN, program_name};
use crate::safety::command::wrappers::elsewhere;

/// Returns the language of the interpreter that runs the input of a command.
fn language(facts: &CommandFacts) -> Option<CodeLanguage> {
    let values = innermost(&facts.values);
    values
        .first()
        .and_then(|name| CodeLanguage::of(program_name(name)))
}

/// Whether a text has only commands of `ed` that print lines and end it.
fn only_prints(facts: &CommandFacts, text: &str) -> bool {
    let is_editor = facts.values.first().is_some_and(|name| name == "ed");
    let is_printing = |c: char| c.is_ascii_digit() || ",;$.+-pnlq=QhH\n ".contains(c);
    is_editor && text.chars().all(is_printing)
}

impl Assessor<'_> {
    /// Judges a pipeline: a stage that empties what it or another one reads.
    pub(super) fn pipeline(&mut self, script: &ScriptFacts, stages: &[Range<usize>]) {
        for (number, stage) in stages.iter().enumerate() {
            let before = number.checked_sub(1).and_then(|before| stages.get(before));
            if before.is_some() && script.empties_operands(stage, before) {
                self.findings.add(Destroys, "empties a file");
            }
            let before = stages.get(..number).unwrap_or_default();
            if script.overwrites_read(stage, before) {
                self.findings
                    .add(Destroys, "empties a file before it is read");
            }
            if script.keeps_some_lines(stage, before) {
                self.findings
                    .add(Destroys, "deletes lines of a file in place");
            }
        }
    }

    /// Returns the text of a here-document or here-string that a command gets.
    pub(super) fn here_text(&self, script: &ScriptFacts, command: &Range<usize>) -> Option<String> {
        let mut redirections = script.script.redirections.iter();
        redirections
            .find(|input| input.operator.starts_with("<<") && input.commands == *command)
            .map(|input| self.value(&input.target))
            .filter(|text| !text.contains(UNKNOWN))
    }

    /// Judges what a command does with the data that it reads.
    pub(super) fn run_stream(&mut self, facts: &CommandFacts, stream: &StreamContent) {
        let before = self.elsewhere;
        let name = facts.values.first().map(|path| program_name(path));
        let there = name.and_then(|name| elsewhere(name, &facts.values));
        self.set_elsewhere(there.or(before));
        match (facts.input, stream) {
            (InputRole::Data, _) | (InputRole::Lines, StreamContent::Download) => {}
            (role, StreamContent::File(path)) => {
                let runs = !matches!(role, InputRole::Lines | InputRole::Answers);
                if runs && self.is_downloaded(path) {
                    self.findings
                        .add_grave(RunsDownloadedCode, "runs a download");
                }
            }
            (InputRole::Answers, _) => self.answered(),
            (_, StreamContent::Download) => self
                .findings
                .add_grave(RunsDownloadedCode, "runs a download"),
            (InputRole::Installs, _) => {}
            (role, StreamContent::Text(text) | StreamContent::Here(text)) => {
                self.run_text(facts, role, text);
            }
            (InputRole::Lines, _) => {}
            (InputRole::Query, _) => self
                .findings
                .add(Unknown, "runs queries that are not known in advance"),
            _ => self
                .findings
                .add(Unknown, "it runs the output of a command"),
        }
        self.set_elsewhere(before);
    }

    /// Judges a text that a command reads.
    fn run_text(&mut self, facts: &CommandFacts, role: InputRole, text: &str) {
        match role {
            InputRole::Lines => self.lines(text),
            InputRole::Server => self.server_lines(text),
            InputRole::Query => self.query(text),
            InputRole::OtherCode => self.other_code(text),
            InputRole::Shell => self.shell_text(text),
            InputRole::Code => self.code(text, language(facts)),
            InputRole::Opaque if only_prints(facts, text) => {}
            InputRole::Opaque => self.findings.add_text("it runs its input", text),
            InputRole::Data | InputRole::Answers | InputRole::Installs => {}
        }
    }

    /// Judges a text that a shell runs.
    pub(super) fn shell_text(&mut self, text: &str) {
        match text.contains(UNKNOWN) {
            true => {
                let reason = "it runs text that is not known in advance";
                self.findings
                    .add_text(reason, text.replace(UNKNOWN, "$unknown"));
            }
            false => self.enqueue(text),
        }
    }

    /// Judges code that an interpreter runs.
    fn code(&mut self, text: &str, language: Option<CodeLanguage>) {
        if code_sends_private(text) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
        // Piped code may be in any of them.
        if language.is_none() && code_acts(text, None) {
            self.findings
                .add(Unknown, "it runs code that is too complex to analyse");
        }
        let started = language.and_then(|language| started_commands(text, language));
        if let Some(started) = started.filter(|_| !text.contains(UNKNOWN)) {
            for command in &started.commands {
                self.shell_text(command);
            }
            if code_effect(&started.rest, language) == CodeEffect::Harmless {
                return;
            }
        }
        let effect = code_effect(text, language);
        let is_python = language == Some(CodeLanguage::Python);
        let named = named_effects(text).filter(|_| is_python && effect == CodeEffect::Unknown);
        let named = named
            .filter(|named| code_effect(&named.rest, language) == CodeEffect::Harmless)
            .filter(|_| !text.contains(UNKNOWN));
        let Some(named) = named else {
            return self.judged_code(text, effect);
        };
        for path in &named.files {
            written(path, self.place, &mut self.findings);
        }
        for query in &named.queries {
            self.query(query);
        }
        if named.requests {
            self.findings.add(Network, "");
        }
    }

    /// Judges code of one of the interpreters.
    pub(super) fn code_of(&mut self, name: &str, text: &str) {
        match has_other_language(name) {
            true => self.other_code(text),
            // Commands of the shell and of ipython itself.
            false if name == "ipython" && text.contains(['!', '%']) => self
                .findings
                .add(Unknown, "it runs code that is too complex to analyse"),
            false => self.code(text, CodeLanguage::of(name)),
        }
    }

    /// Judges code in a language of which single words are known.
    fn other_code(&mut self, text: &str) {
        self.judged_code(text, other_code_effect(text));
    }

    fn judged_code(&mut self, text: &str, effect: CodeEffect) {
        match effect {
            CodeEffect::RunsDownload => {
                let connects = text.contains("socket") || text.contains("Socket");
                let reason = match connects {
                    true => "runs commands from the network",
                    false => "runs a download",
                };
                self.findings.add_grave(RunsDownloadedCode, reason);
            }
            CodeEffect::Destroys => self.findings.add(
                Destroys,
                "runs code that deletes files, starts programs or ends processes",
            ),
            CodeEffect::Unknown => self
                .findings
                .add(Unknown, "it runs code that is too complex to analyse"),
            CodeEffect::Harmless if text.contains(UNKNOWN) => {
                self.findings
                    .add(Unknown, "it runs code that is not known in advance");
            }
            CodeEffect::Harmless => {}
        }
    }

    /// Judges a text that a database gets.
    pub(super) fn query(&mut self, text: &str) {
        let effect = sql_effect(text);
        match (effect.destroys(), effect) {
            (Some(reason), _) => self.findings.add(Destroys, reason),
            (None, SqlEffect::Unknown) => self
                .findings
                .add(Unknown, "runs a block of code that is not analysed"),
            (None, SqlEffect::Writes) => self.findings.add(Writes, "changes a database"),
            (None, _) => {}
        }
        for command in shell_texts(text) {
            self.shell_text(&command);
        }
        if text.contains(UNKNOWN) {
            self.findings
                .add(Unknown, "runs queries that are not known in advance");
        }
        let lower = text.trim_start().to_ascii_lowercase();
        let starts = [".output ", ".once "];
        if starts.iter().any(|name| lower.starts_with(name)) && !query_files(text).is_empty() {
            self.findings.add(Destroys, "overwrites a file");
        }
        for path in query_scripts(text) {
            self.file_of_commands(&path);
        }
        for path in query_files(text) {
            let is_elsewhere = self.place.reach(&path) > PathReach::Inside;
            match is_elsewhere && !path.starts_with("/tmp/") {
                true => self
                    .findings
                    .add(Destroys, "overwrites a file outside this directory"),
                false => written(&path, self.place, &mut self.findings),
            }
        }
    }

    /// Judges a text that answers a question before something is overwritten.
    fn answered(&mut self) {
        self.findings.add(
            Destroys,
            "confirms a question about overwriting or changing something",
        );
    }

    /// Judges commands of a client of a file server.
    fn server_lines(&mut self, text: &str) {
        if puts_secret(text) {
            self.findings.add_grave(Destroys, SENDS_SECRET);
        }
        self.lines(text);
    }

    /// Judges commands of a protocol of lines.
    pub(super) fn lines(&mut self, text: &str) {
        if commands_change(text) || sql_effect(text).destroys().is_some() {
            self.findings
                .add(Destroys, "sends commands that delete or replace something");
        }
    }
}
