//! Redirections: files that are written, emptied or read, connections, and descriptors.

use std::ops::Range;

use super::streams::StreamContent;
use super::{Assessor, CommandFacts, Redirection, ScriptFacts};
use crate::safety::command::class::CommandClass::{
    Destroys, Network, Reads, RunsDownloadedCode, Unknown,
};
use crate::safety::command::targets::{is_sink, written};
use crate::safety::command::word::UNKNOWN;

impl Assessor<'_> {
    /// Judges a redirection.
    pub(super) fn redirection(&mut self, script: &ScriptFacts, redirection: &Redirection) {
        let target = self.value(&redirection.target);
        let downloads = script.carries_download(&redirection.commands);
        let operator = redirection.operator.as_str();
        if is_connection(&target) {
            let facts = script
                .facts
                .get(redirection.commands.clone())
                .unwrap_or_default();
            self.sent_output(script, &redirection.commands);
            match facts.iter().any(CommandFacts::runs_input) {
                true => self
                    .findings
                    .add_grave(RunsDownloadedCode, "runs commands from the network"),
                false => self.findings.add(Network, ""),
            }
            return;
        }
        match operator {
            "<" => {
                if script.empties_operands(&redirection.commands, None) {
                    self.findings.add(Destroys, "empties a file");
                }
                self.secret(&target);
                self.findings.add(Reads, "");
            }
            // The grammar loses the number of the second of `>&$A 0>&$A`.
            "<&" | ">&"
                if operator == "<&"
                    || redirection.descriptor == Some(0)
                    || target.starts_with(UNKNOWN) && opens_connection(script) =>
            {
                let mut facts = script.facts.get(redirection.commands.clone()).into_iter();
                let runs = |facts: &[CommandFacts]| facts.iter().any(CommandFacts::runs_input);
                match facts.any(runs) && target != "-" {
                    true if opens_connection(script) => self
                        .findings
                        .add_grave(RunsDownloadedCode, "runs commands from the network"),
                    true if target == "p" && script.downloads(&(0..script.facts.len())) => self
                        .findings
                        .add_grave(RunsDownloadedCode, "runs a download"),
                    true => self
                        .findings
                        .add(Unknown, "it runs what a descriptor reads"),
                    false => {}
                }
            }
            ">&-" | "<&-" => {}
            "<<" | "<<-" | "<<<" => {}
            _ => {
                if operator == ">&" && target.chars().all(|c| c.is_ascii_digit() || c == '-') {
                    let opened = |number| script.openings(number, redirection.commands.start);
                    let mut opened = target.parse().ok().into_iter().flat_map(opened);
                    if opened.any(|opened| is_connection(&self.value(&opened.target))) {
                        self.sent_output(script, &redirection.commands);
                    }
                    return;
                }
                if operator == ">&" && (target == "p" || target.starts_with(UNKNOWN)) {
                    let content = match script.carries_download(&redirection.commands) {
                        true => StreamContent::Download,
                        false => StreamContent::Local,
                    };
                    self.sent_to_coprocess(script, &content);
                }
                if downloads {
                    self.downloaded.push(target.clone());
                }
                self.text_of_file(script, redirection, &target);
                self.note_printed_copy(script, redirection, &target);
                if is_sink(&target) && !target.is_empty() && target != "-" {
                    return;
                }
                written(&target, self.place, &mut self.findings);
                if prints_forever(script, &redirection.commands) {
                    self.findings.add(Destroys, "fills the disk");
                }
                let truncates = matches!(operator, ">" | ">|" | "&>" | ">&");
                let is_process = redirection
                    .target
                    .substitutions()
                    .any(|(_, process)| process);
                if truncates && !is_process && script.prints_nothing(&redirection.commands) {
                    self.findings.add(Destroys, "empties a file");
                }
                if truncates && target.starts_with("/var/log/") {
                    self.findings.add_grave(Destroys, "overwrites a log");
                }
                if truncates && script.reads(&target, &redirection.commands) {
                    self.findings
                        .add(Destroys, "empties a file before it is read");
                }
            }
        }
    }

    /// Judges what commands print to a process that was started with `coproc`.
    pub(super) fn sent_to_coprocess(&mut self, script: &ScriptFacts, content: &StreamContent) {
        for facts in &script.facts {
            if facts.values.first().is_some_and(|name| name == "coproc") {
                self.run_stream(facts, content);
            }
        }
    }
}

/// Whether a command opens a connection as a descriptor.
fn opens_connection(script: &ScriptFacts) -> bool {
    let mut names = script.facts.iter().filter_map(|facts| facts.values.first());
    names.any(|name| name == "ztcp")
}

/// Whether a file of the shell is a connection.
pub(super) fn is_connection(file: &str) -> bool {
    file.starts_with("/dev/tcp/") || file.starts_with("/dev/udp/")
}

/// Whether a command prints without end.
fn prints_forever(script: &ScriptFacts, commands: &Range<usize>) -> bool {
    let [facts] = script.facts.get(commands.clone()).unwrap_or_default() else {
        return false;
    };
    let words: Vec<&str> = facts.values.iter().map(String::as_str).collect();
    matches!(
        words.as_slice(),
        ["yes", ..] | ["cat", "/dev/zero" | "/dev/urandom" | "/dev/random", ..]
    )
}
