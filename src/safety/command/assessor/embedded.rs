//! Commands among the arguments of a program, and programs that are named by their path.

use super::Assessor;
use crate::safety::command::class::CommandClass::{Destroys, RunsDownloadedCode, Unknown, Writes};
use crate::safety::command::interpreters;
use crate::safety::command::programs;
use crate::safety::command::roles::wrapped;
use crate::safety::command::targets::PathReach;
use crate::safety::command::word::program_name;
use crate::safety::command::wrappers::{WrappedCommand, is_wrapper};

impl Assessor<'_> {
    /// Whether a program runs a command among its arguments, which is judged on its own.
    pub(super) fn runs_arguments(&self, name: &str, arguments: &[String]) -> bool {
        if !is_wrapper(name) {
            return false;
        }
        let name = name.to_owned();
        let all: Vec<String> = std::iter::once(&name).chain(arguments).cloned().collect();
        matches!(
            wrapped(&name, &all),
            Some(WrappedCommand::At(_) | WrappedCommand::Text(_) | WrappedCommand::Arguments(_))
        )
    }

    /// Returns the arguments of a program before the command that it runs, if it runs one.
    pub(super) fn own_arguments<'a>(
        &self,
        name: &str,
        arguments: &'a [String],
    ) -> Option<&'a [String]> {
        if !is_wrapper(name) {
            return None;
        }
        let all: Vec<String> = std::iter::once(name.to_owned())
            .chain(arguments.iter().cloned())
            .collect();
        let end = match wrapped(name, &all)? {
            WrappedCommand::At(at) => at.checked_sub(1)?,
            WrappedCommand::Text(text) => arguments.iter().position(|argument| {
                let rest = text.strip_prefix(argument.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            })?,
            WrappedCommand::Arguments(_) | WrappedCommand::Nothing => return None,
        };
        arguments.get(..end)
    }

    /// Judges a command line among the arguments of a program of which it is not known that it runs one: `sh -c TEXT`, `rm -rf PATH`.
    pub(super) fn embedded(&mut self, arguments: &[String]) {
        for (at, argument) in arguments.iter().enumerate() {
            let name = program_name(argument);
            let next = arguments
                .get(at + 1)
                .map(String::as_str)
                .unwrap_or_default();
            let letters = next.strip_prefix('-').unwrap_or_default();
            let is_cluster = letters.chars().all(|c| c.is_ascii_alphabetic());
            if interpreters::is_shell(name) && is_cluster && letters.ends_with('c') {
                if let Some(text) = arguments.get(at + 2) {
                    self.shell_text(text);
                }
            } else if name == "rm" && is_cluster && letters.contains(['r', 'R', 'f']) {
                self.findings.add(Destroys, "deletes files");
            }
        }
    }

    /// Judges a program that is named by its path.
    pub(super) fn path_program(&mut self, path: &str, arguments: &[String]) {
        if self.note_run_file(path) {
            self.findings
                .add_grave(RunsDownloadedCode, "runs a download");
            return;
        }
        self.run_texts_of(path);
        let name = path.rsplit('/').next().unwrap_or_default();
        let entry =
            programs::find(name).map(|entry| entry.verdict(name, &entry.arguments(arguments)));
        if let Some(verdict) = entry.filter(|verdict| verdict.class == Destroys) {
            self.findings.add(Destroys, verdict.reason);
            return;
        }
        if let Some(entry) = programs::find(name) {
            self.uses(name, entry.uses(arguments, &entry.arguments(arguments)));
        }
        let words = arguments.iter().take(2);
        let deletes = words.into_iter().any(|word| {
            word.trim_start_matches('-')
                .split([':', '-', '_'])
                .any(|part| {
                    matches!(
                        part,
                        "delete" | "destroy" | "purge" | "wipe" | "drop" | "teardown" | "uninstall"
                    )
                })
        });
        let here = match self.elsewhere {
            Some(_) => "",
            None => " of this directory",
        };
        match self.place.reach(path) {
            _ if deletes => self
                .findings
                .add(Destroys, format!("{name} deletes something")),
            PathReach::Inside => self.findings.add(Writes, format!("runs {name}{here}")),
            _ if path.starts_with(self.place.home) => {
                self.findings.add(Writes, format!("runs {name}"))
            }
            _ if path.starts_with("../")
                || path.starts_with("/opt/")
                || path.starts_with("/Applications/")
                || path.starts_with("/usr/lib") =>
            {
                self.findings.add(Writes, format!("runs {name}"))
            }
            _ => self
                .findings
                .add(Unknown, format!("what {name} does is not known")),
        }
    }
}
