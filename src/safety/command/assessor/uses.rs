//! Judges what a program does with single arguments.

use super::Assessor;
use crate::safety::command::class::CommandClass::{Reads, Unknown};
use crate::safety::command::interpreters;
use crate::safety::command::programs::{self, ArgumentList, ArgumentUse};
use crate::safety::command::roles::program_name;
use crate::safety::command::targets::{is_sink, written};

/// Programs that other programs usually start to compress, connect or edit.
const FILTERS: [&str; 22] = [
    "gzip",
    "pigz",
    "bzip2",
    "pbzip2",
    "lbzip2",
    "xz",
    "pixz",
    "zstd",
    "zstdmt",
    "lz4",
    "lzop",
    "lzip",
    "plzip",
    "brotli",
    "ssh",
    "vim",
    "vi",
    "nvim",
    "nano",
    "code",
    "emacs",
    "emacsclient",
];

impl Assessor<'_> {
    /// Judges what the table says of single arguments.
    pub(super) fn single_uses(&mut self, name: &str, arguments: &[String]) {
        if let Some(entry) = programs::find(name) {
            let uses = entry.uses(arguments, &entry.arguments(arguments));
            self.uses(name, uses);
        }
    }

    pub(super) fn uses(&mut self, name: &str, uses: Vec<(ArgumentUse, String)>) {
        for (purpose, value) in uses {
            match purpose {
                ArgumentUse::Writes if is_sink(&value) => {}
                ArgumentUse::Writes => written(&value, self.place, &mut self.findings),
                ArgumentUse::Runs => self.shell_text(&value),
                ArgumentUse::Feeds => self.fed_text(name, &value),
                ArgumentUse::Interprets => self.file_of_commands(&value),
                ArgumentUse::Loads => self.findings.add(
                    Unknown,
                    format!("{name} runs code or a program that is not known"),
                ),
            }
        }
    }

    /// Judges a command line that gets files or input that are not known: only programs that read may get them.
    pub(super) fn fed_text(&mut self, by: &str, text: &str) {
        let Some(first) = text.split_whitespace().next().map(program_name) else {
            return;
        };
        let runs_input =
            interpreters::is_shell(first) || interpreters::code_options(first).is_some();
        let reads = programs::find(first).is_some_and(|entry| {
            let class = entry.verdict(first, &ArgumentList::default()).class;
            class == Reads && !runs_input
        });
        if !reads && !FILTERS.contains(&first) {
            self.findings.add(Unknown, format!("{by} runs {first}"));
        }
        self.shell_text(text);
    }
}
