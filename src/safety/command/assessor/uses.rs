//! Judges what a program does with single arguments.

use super::Assessor;
use crate::safety::command::class::CommandClass::{Destroys, Reads, Unknown};
use crate::safety::command::interpreters;
use crate::safety::command::programs::{self, ArgumentList, ArgumentUse};
use crate::safety::command::roles::{MAX_WRAPPERS, wrapped};
use crate::safety::command::targets::{is_sink, written};
use crate::safety::command::word::program_name;
use crate::safety::command::wrappers::{WrappedCommand, elsewhere};

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

/// Whether a file of another system, such as a container, decides who may log in or what runs later.
fn decides_logins(path: &str) -> bool {
    const FILES: [&str; 9] = [
        "cron", "group", "gshadow", "ld.so.", "pam.d", "passwd", "profile", "shadow", "sudoers",
    ];
    let file = path.strip_prefix("/etc/");
    file.is_some_and(|file| FILES.iter().any(|start| file.starts_with(start)))
        || path.contains("/.ssh/")
}

impl Assessor<'_> {
    /// Judges single arguments by the entries of the table.
    pub(super) fn single_uses(&mut self, name: &str, arguments: &[String]) {
        if let Some(entry) = programs::find(name) {
            let uses = entry.uses(arguments, &entry.arguments(arguments));
            self.uses(name, uses);
        }
    }

    pub(super) fn uses(&mut self, name: &str, uses: Vec<(ArgumentUse, String)>) {
        let fetched = uses
            .iter()
            .filter(|(purpose, _)| *purpose == ArgumentUse::Fetches);
        let fetched: Vec<String> = fetched.map(|(_, value)| value.clone()).collect();
        self.fetched(&fetched);
        let here = self.elsewhere;
        for (purpose, value) in uses {
            let runs = matches!(purpose, ArgumentUse::Runs | ArgumentUse::Loads);
            let there = elsewhere(name, &[]).filter(|_| runs);
            self.set_elsewhere(there.or(here));
            match purpose {
                ArgumentUse::Writes if is_sink(&value) => {}
                // `strace -o '|COMMAND'`
                ArgumentUse::Writes if value.starts_with(['|', '!']) => {
                    let command = value.get(1..).unwrap_or_default();
                    self.fed_text(name, command);
                }
                ArgumentUse::Writes => {
                    let elsewhere = value.split_once(':').map(|(_, path)| path);
                    if elsewhere.is_some_and(decides_logins) {
                        let reason = "changes who may log in, or what runs later";
                        self.findings.add_grave(Destroys, reason);
                    }
                    written(&value, self.place, &mut self.findings);
                }
                ArgumentUse::Runs => self.shell_text(&value),
                ArgumentUse::Feeds => self.fed_text(name, &value),
                ArgumentUse::Interprets => self.file_of_commands(&value),
                ArgumentUse::Enters => self.entered(name, &value),
                ArgumentUse::Queries => self.query(&value),
                ArgumentUse::Evaluates => self.code_of(name, &value),
                ArgumentUse::Sends => self.lines(&value),
                ArgumentUse::Uploads => self.sent_files(&[value]),
                ArgumentUse::Installs => self.installed(&value),
                ArgumentUse::Fetches => self.has_unpacked |= value.is_empty(),
                ArgumentUse::PrintsSecrets => {}
                ArgumentUse::Loads => self.findings.add_text(
                    format!("{name} runs code or a program that is not known"),
                    value,
                ),
            }
        }
        self.set_elsewhere(here);
    }

    /// Judges a command line that gets files or input that are not known: only programs that read may get them.
    pub(super) fn fed_text(&mut self, by: &str, text: &str) {
        // Each command of the line gets the input. A piece without letters is the rest of a redirection, as in `2>&1`.
        let pieces = text.split([';', '|', '&', '\n', '(', ')', '`']);
        for piece in pieces.filter(|piece| piece.contains(|c: char| c.is_ascii_alphabetic())) {
            let words: Vec<String> = piece.split_whitespace().map(str::to_owned).collect();
            if let Some(program) = fed_program(&words) {
                // The pieces are cut without regard to quotes.
                let program = program.trim_matches(['"', '\'']);
                self.findings.add(Unknown, format!("{by} runs {program}"));
            }
        }
        self.shell_text(text);
    }
}

/// Returns the program of a command that may run its input or write to it, after all wrappers.
fn fed_program(words: &[String]) -> Option<&str> {
    // A program that runs a shell has it among its arguments.
    let is_shell = |word: &&String| interpreters::is_shell(program_name(word));
    if let Some(shell) = words.iter().find(is_shell) {
        return Some(shell);
    }
    let mut rest = words;
    for _ in 0..MAX_WRAPPERS {
        let name = program_name(rest.first()?);
        match wrapped(name, rest) {
            Some(WrappedCommand::At(at)) => rest = rest.get(at..)?,
            // The text is judged as what it is, but not as what gets input.
            Some(WrappedCommand::Text(_) | WrappedCommand::Arguments(_)) => return Some(name),
            Some(WrappedCommand::Nothing) | None => {
                let reads = programs::find(name).is_some_and(|entry| {
                    let class = entry.verdict(name, &ArgumentList::default()).class;
                    class == Reads && interpreters::code_options(name).is_none()
                });
                return (!reads && !FILTERS.contains(&name)).then_some(name);
            }
        }
    }
    rest.first().map(String::as_str)
}
