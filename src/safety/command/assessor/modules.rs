//! Modules that Python runs as programs.

use super::shell::ShellCall;
use super::{Assessor, ScriptFacts};
use crate::safety::command::class::CommandClass::{
    Network, Reads, RunsDownloadedCode, Unknown, Writes,
};
use crate::safety::command::programs;
use crate::safety::command::special::{self, InnerCommand, ProgramCall};
use crate::safety::command::targets::written;
use crate::safety::command::word::UNKNOWN;

impl Assessor<'_> {
    /// Judges a module that Python runs: `-m NAME`.
    pub(super) fn python_module(
        &mut self,
        script: &ScriptFacts,
        call: &ShellCall<'_>,
        at: usize,
    ) -> bool {
        let module = call
            .arguments
            .get(at)
            .map(String::as_str)
            .unwrap_or_default();
        // Modules that run a script, which is among the arguments.
        const RUNNERS: [&str; 9] = [
            "cProfile",
            "coverage",
            "debugpy",
            "pdb",
            "profile",
            "runpy",
            "scalene",
            "trace",
            "viztracer",
        ];
        if RUNNERS.contains(&module) {
            let behind = call.words.iter().skip(at + 1);
            let values = call.arguments.get(at + 1..).unwrap_or_default();
            if behind.clone().any(|word| self.word_downloads(script, word))
                || values.iter().any(|file| self.is_downloaded(file))
            {
                self.findings
                    .add_grave(RunsDownloadedCode, "runs a download");
            } else if behind
                .flat_map(|word| word.substitutions())
                .next()
                .is_some()
            {
                self.findings
                    .add(Unknown, "it runs the output of a command");
            }
        }
        match module {
            "json.tool" | "this" | "site" | "sysconfig" | "calendar" | "tokenize" | "ast"
            | "dis" | "platform" | "base64" => self.findings.add(Reads, ""),
            "http.server" | "smtpd" | "SimpleHTTPServer" | "webbrowser" => {
                self.findings.add(Network, "")
            }
            "pip" | "twine" | "poetry" | "pipx" | "uv" | "conda" => {
                let rest = call.arguments.get(at + 1..).unwrap_or_default();
                let directory = self.directory.clone();
                let inner = ProgramCall {
                    name: module,
                    arguments: rest,
                    is_fed: false,
                    directory: directory.as_deref(),
                };
                special::judge(&inner, self.place, &mut self.findings);
                if let Some(entry) = programs::find(module) {
                    let verdict = entry.verdict(module, &entry.arguments(rest));
                    self.findings.add(verdict.class, verdict.reason);
                }
            }
            "timeit" => {
                self.findings.add(Reads, "");
                for code in call.arguments.get(at + 1..).unwrap_or_default() {
                    self.code_of("python", code);
                }
            }
            "zipfile" | "tarfile" => {
                let target = call.arguments.last().map(String::as_str);
                written(target.unwrap_or_default(), self.place, &mut self.findings);
            }
            module if module.contains(UNKNOWN) => self
                .findings
                .add(Unknown, "it runs a module that is not known in advance"),
            // `python -m django`
            module => {
                let name = match module {
                    "django" => "django-admin",
                    "awscli" => "aws",
                    "code" | "venv" => "",
                    module => module,
                };
                let rest = call.arguments.get(at + 1..).unwrap_or_default();
                match programs::find(name) {
                    Some(_) => {
                        let call = ProgramCall {
                            name,
                            arguments: rest,
                            is_fed: false,
                            directory: None,
                        };
                        let outcome = special::judge(&call, self.place, &mut self.findings);
                        for inner in outcome.inner {
                            match inner {
                                InnerCommand::Text(text) => self.shell_text(&text),
                                _ => self.findings.add(Unknown, format!("{name} runs a command")),
                            }
                        }
                        self.table(name, rest);
                    }
                    None if self.is_downloaded(module)
                        || self.is_downloaded(&format!("{module}.py")) =>
                    {
                        self.findings
                            .add_grave(RunsDownloadedCode, "runs a download");
                    }
                    None => self.findings.add(Writes, ""),
                }
            }
        }
        true
    }
}
