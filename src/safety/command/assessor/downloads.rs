//! Downloads of a command line, and how its commands use them afterwards.

use std::ops::Range;

use super::fed::PLACEHOLDER;
use super::{Assessor, OutputRole, Redirection, ScriptFacts};
use crate::safety::command::class::CommandClass::RunsDownloadedCode;
use crate::safety::command::programs;
use crate::safety::command::roles::innermost;
use crate::safety::command::special::is_url;
use crate::safety::command::targets::{build_file, normalize, program_directory};
use crate::safety::command::word::{ShellWord, UNKNOWN};

/// Programs that unpack an archive.
const UNPACKERS: [&str; 12] = [
    "tar", "bsdtar", "gtar", "cpio", "pax", "unzip", "7z", "7za", "unrar", "gunzip", "unxz", "unar",
];

/// Programs that make a program of source files.
const COMPILERS: [&str; 26] = [
    "gcc", "g++", "cc", "c++", "clang", "clang++", "tcc", "gfortran", "nvcc", "rustc", "ghc",
    "nim", "zig", "crystal", "valac", "nasm", "yasm", "as", "ld", "swiftc", "javac", "kotlinc",
    "ocamlopt", "dmd", "ldc2", "fpc",
];

/// Returns the name of a file without its directory and the query of a URL.
pub(super) fn file_name(path: &str) -> &str {
    let path = path
        .trim_end_matches('/')
        .rsplit(['/', ':'])
        .next()
        .unwrap_or_default();
    path.split(['?', '#']).next().unwrap_or_default()
}

/// Whether an argument of a program that copies files names one on another machine.
pub(super) fn is_remote(value: &str) -> bool {
    let place = value.split('/').next().unwrap_or_default();
    value.contains("://") || place.contains(':')
}

/// Whether an argument names the files of a directory or a module on another machine: `host:dir/`, `host::module`.
fn names_tree(value: &str) -> bool {
    let is_module = value
        .rsplit_once("::")
        .is_some_and(|(_, module)| !module.contains('/'));
    is_remote(value) && (is_module || value.ends_with(['/', ':']))
}

/// Whether a command starts a container.
fn runs_containers(script: &ScriptFacts) -> bool {
    script.facts.iter().any(|facts| {
        let values = innermost(&facts.values);
        let words: Vec<&str> = values.iter().take(2).map(String::as_str).collect();
        matches!(
            words.as_slice(),
            [
                "docker" | "podman" | "nerdctl",
                "run" | "create" | "start" | "compose"
            ]
        )
    })
}

/// Whether a pattern with `*` or `?` may match a name.
fn matches_name(pattern: &str, name: &str) -> bool {
    if !pattern.contains(['*', '?']) {
        return false;
    }
    let pattern = &pattern.replace('?', "*");
    let (Some((start, _)), Some((_, end))) = (pattern.split_once('*'), pattern.rsplit_once('*'))
    else {
        return false;
    };
    name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
}

/// Whether a text is a plain list of simple commands, so that its commands run once and in its order.
pub(super) fn runs_once(text: &str) -> bool {
    const OTHERS: [&str; 17] = [
        "done",
        "repeat",
        "for",
        "{",
        "select",
        "coproc",
        "|",
        "&",
        "<(",
        ">(",
        "$(",
        "`",
        "setsid",
        "screen",
        "tmux",
        "systemd-run",
        "docker",
    ];
    let plain = text.replace("&&", "").replace("||", "").replace("${", "");
    // `=(COMMAND)` begins a word, and the list of an array does not.
    let is_list =
        |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "_+]".contains(c));
    let mut processes = plain.match_indices("=(");
    let has_process = processes.any(|(at, _)| !plain.get(..at).is_some_and(is_list));
    !has_process && !OTHERS.iter().any(|other| plain.contains(other))
}

/// Options that name the file which a program writes.
const OUTPUT_OPTIONS: [&str; 6] = [
    "-o",
    "-out",
    "--out",
    "--outfile",
    "--output",
    "--output-file",
];

/// Returns the files that a command writes, as far as its arguments name them.
pub(super) fn written_files(values: &[String]) -> Vec<String> {
    let values = innermost(values);
    let (name, arguments) = values
        .split_first()
        .map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    // Their `-o` names no file.
    if matches!(name, "ag" | "egrep" | "fgrep" | "grep" | "rg" | "zgrep") {
        return Vec::new();
    }
    let is_writer = matches!(name, "tee" | "sponge");
    let operands = arguments
        .iter()
        .filter(|file| is_writer && !file.starts_with('-'));
    let pairs = arguments.iter().zip(arguments.iter().skip(1));
    let named = pairs
        .filter(|(option, _)| OUTPUT_OPTIONS.contains(&option.as_str()))
        .map(|(_, file)| file);
    let attached = arguments.iter().filter_map(|argument| {
        let of = argument.strip_prefix("of=");
        of.or_else(|| argument.strip_prefix("--output="))
    });
    operands
        .chain(named)
        .cloned()
        .chain(attached.map(str::to_owned))
        .collect()
}

impl ScriptFacts {
    /// Whether what these commands print comes from the network, also through the stages of a pipeline before them.
    pub(super) fn carries_download(&self, commands: &Range<usize>) -> bool {
        let is_in =
            |stage: &Range<usize>| stage.start <= commands.start && commands.end <= stage.end;
        let from_pipeline = self.script.pipelines.iter().any(|stages| {
            let at = stages.iter().position(is_in);
            let before = at.and_then(|at| stages.get(..at)).unwrap_or_default();
            before.iter().any(|stage| self.downloads(stage))
        });
        from_pipeline || self.downloads(commands) || self.takes_download(commands)
    }

    /// Whether an argument or the input of these commands is the output of one that downloads: `cat <(curl …)`, `tee f < <(curl …)`.
    fn takes_download(&self, commands: &Range<usize>) -> bool {
        let downloads = |word: &ShellWord| {
            let mut substitutions = word.substitutions();
            substitutions.any(|(commands, _)| self.downloads(&commands))
        };
        let own = self
            .script
            .commands
            .get(commands.clone())
            .unwrap_or_default();
        let mut inputs = self.script.redirections.iter();
        own.iter().flat_map(|command| &command.words).any(downloads)
            || inputs.any(|input| {
                input.operator.contains('<')
                    && input.commands.start <= commands.start
                    && commands.end <= input.commands.end
                    && downloads(&input.target)
            })
    }
}

impl Assessor<'_> {
    /// Notes the files that commands of a pipeline make of a download, before they are judged.
    pub(super) fn piped_downloads(&mut self, script: &ScriptFacts) {
        if !script.downloads(&(0..script.facts.len())) {
            return;
        }
        for (at, facts) in script.facts.iter().enumerate() {
            let values = innermost(&facts.values);
            let Some((name, arguments)) = values.split_first() else {
                continue;
            };
            let first = arguments.first().map(String::as_str);
            let is_carried = || script.carries_download(&(at..at + 1));
            // What a build or a container runs later is not known by name.
            match (name.as_str(), first) {
                ("patch", _) | ("git", Some("apply" | "am")) if is_carried() => {
                    self.has_cloned = true;
                }
                ("docker" | "podman" | "nerdctl", Some("load" | "import"))
                    if is_carried() && runs_containers(script) =>
                {
                    let reason = "runs an image that it downloads";
                    self.findings.add_grave(RunsDownloadedCode, reason);
                }
                _ => {}
            }
            let makes_files = UNPACKERS.contains(&name.as_str())
                || COMPILERS.contains(&name.as_str())
                || matches!(name.as_str(), "tee" | "sponge" | "dd" | "cp" | "install");
            if !makes_files || !script.carries_download(&(at..at + 1)) {
                continue;
            }
            let is_unpacked = UNPACKERS.contains(&name.as_str());
            self.has_unpacked |= is_unpacked;
            let holds_programs =
                |path: &String| matches!(path.trim_end_matches('/'), "" | "/usr" | "/usr/local");
            let mut places = arguments.iter().filter(|_| is_unpacked);
            if places.any(|path| path.starts_with('/') && holds_programs(path)) {
                let reason = "unpacks a download into a directory that is searched for programs";
                self.findings.add_grave(RunsDownloadedCode, reason);
            }
            let files = arguments
                .iter()
                .map(|argument| argument.trim_start_matches("of="));
            if !is_unpacked {
                files.clone().for_each(|file| self.installs_program(file));
            }
            self.downloaded.extend(files.map(str::to_owned));
            self.compiled(name, arguments);
        }
    }

    /// Notes a constant text that a command prints to a file.
    pub(super) fn text_of_file(
        &mut self,
        script: &ScriptFacts,
        redirection: &Redirection,
        path: &str,
    ) {
        if let Some(text) = self.printed_text(script, &redirection.commands) {
            let name = file_name(path).to_owned();
            self.texts_of_files.push((name, text));
        }
    }

    /// Returns the constant text that a command prints: its own, or that of a here-document or here-string that it passes on.
    fn printed_text(&self, script: &ScriptFacts, commands: &Range<usize>) -> Option<String> {
        let facts = script.facts.get(commands.clone());
        let [facts] = facts.unwrap_or_default() else {
            return None;
        };
        match &facts.output {
            OutputRole::Constant(text) => Some(text.clone()),
            OutputRole::Passes { changes: false } => self.here_text(script, commands),
            _ => None,
        }
    }

    /// Notes the constant texts that `tee` writes to files.
    pub(super) fn texts_of_tee(&mut self, script: &ScriptFacts) {
        for (at, facts) in script.facts.iter().enumerate() {
            if !facts
                .values
                .iter()
                .any(|word| matches!(word.as_str(), "tee" | "sponge"))
            {
                continue;
            }
            let own = at..at + 1;
            let before = script.script.pipelines.iter().find_map(|stages| {
                let at = stages.iter().position(|stage| *stage == own)?;
                stages.get(at.checked_sub(1)?)
            });
            let text = self.printed_text(script, before.unwrap_or(&own));
            let files = innermost(&facts.values);
            let files = files.iter().skip(1).filter(|file| !file.starts_with('-'));
            if let Some(text) = text {
                let texts = files.map(|file| (file_name(file).to_owned(), text.clone()));
                self.texts_of_files.extend(texts);
            }
        }
    }

    /// Judges the constant texts that the command line prints to a file which a shell runs.
    pub(super) fn run_texts_of(&mut self, path: &str) {
        let known = self.texts_of_files.iter();
        let texts = known.filter(|(name, _)| name == file_name(path));
        let texts: Vec<String> = texts.map(|(_, text)| text.clone()).collect();
        for text in texts {
            self.shell_text(&text);
        }
    }

    /// Whether a path is a file that the command line has downloaded, or lies in a directory that it has.
    pub(super) fn is_downloaded(&self, path: &str) -> bool {
        let is_known = |part: &str| {
            let is_name = !matches!(part, "" | "." | "..");
            is_name
                && self.downloaded.iter().any(|file| {
                    file_name(file) == part || file == part || matches_name(part, file_name(file))
                })
        };
        let below = self.directory.as_deref();
        let below = below.and_then(|directory| directory.strip_prefix(self.place.cwd));
        path.split('/')
            .chain(below.unwrap_or_default().split('/'))
            .any(is_known)
            || is_known(file_name(path))
    }

    /// Notes a file that is run. Returns whether it is a download or may be one.
    pub(super) fn note_run_file(&mut self, path: &str) -> bool {
        self.run_files.push(path.to_owned());
        self.has_cloned
            || self.has_unpacked
            || path.contains("://")
            || self.is_downloaded(path)
            || (path.starts_with(UNKNOWN) || path == PLACEHOLDER) && !self.downloaded.is_empty()
    }

    /// Judges a program that obeys the files of a directory.
    pub(super) fn obeys_downloads(&mut self, name: &str, directory: &str) {
        let has_file = self
            .downloaded
            .iter()
            .any(|file| build_file(file).is_some());
        if has_file || self.has_cloned || self.has_unpacked || self.is_downloaded(directory) {
            self.findings
                .add_grave(RunsDownloadedCode, format!("{name} runs a download"));
        }
    }

    /// Judges what a program installs or runs: a package, a file, a place.
    pub(super) fn installed(&mut self, value: &str) {
        let is_path = value.starts_with(['.', '~']) || value.contains(['/', '*']);
        let has_build_file = self
            .downloaded
            .iter()
            .any(|file| build_file(file).is_some());
        let is_tree = is_path && (self.has_cloned || self.has_unpacked || has_build_file);
        let from_command = value.contains(UNKNOWN) && self.argument_downloads;
        if is_url(value) || is_tree || from_command || self.is_downloaded(value) {
            self.findings
                .add_grave(RunsDownloadedCode, "installs or runs a download");
        }
    }

    /// Notes what a program fetches: the names of its sources and targets, unless it sends files.
    pub(super) fn fetched(&mut self, values: &[String]) {
        let sends = values.len() > 1 && values.last().is_some_and(|last| is_remote(last));
        if sends {
            self.sent_files(values);
        }
        if !sends && values.iter().any(|value| is_remote(value)) {
            self.downloaded.extend(values.iter().cloned());
            let is_here = values
                .last()
                .is_some_and(|to| matches!(to.as_str(), "." | "./"));
            self.has_unpacked |= is_here && values.iter().any(|value| names_tree(value));
        }
    }

    /// Notes what a program makes of a download.
    pub(super) fn derived(&mut self, name: &str, arguments: &[String]) {
        // The input of `patch` is not among its arguments.
        self.has_cloned |= name == "patch" && !self.downloaded.is_empty();
        let clones = || {
            let entry = programs::find(name)?;
            let list = entry.arguments(arguments);
            let mut subcommands = list.operands.into_iter().take(2);
            Some(subcommands.any(|word| word == "clone"))
        };
        self.has_cloned |= matches!(
            name,
            "fossil" | "git" | "gh" | "hg" | "jj" | "ghq" | "svn" | "glab" | "hub"
        ) && clones() == Some(true);
        let checks_out = arguments.first().is_some_and(|argument| {
            matches!(
                argument.as_str(),
                "checkout" | "co" | "export" | "branch" | "sync"
            )
        });
        self.has_cloned |=
            checks_out && matches!(name, "svn" | "bzr" | "brz" | "fossil" | "cvs" | "repo");
        let mut words = std::iter::once(name).chain(arguments.iter().map(String::as_str).take(3));
        self.has_cloned |= words.any(|word| matches!(word, "degit" | "tiged"));
        if self.has_cloned {
            let places = arguments
                .iter()
                .filter(|argument| !argument.starts_with('-'));
            let names = places
                .rev()
                .take(2)
                .map(|place| place.trim_end_matches(".git"));
            let names = names.map(|place| file_name(place).to_owned());
            self.downloaded.extend(names.filter(|name| name != "clone"));
        }
        if !arguments
            .iter()
            .any(|argument| self.is_downloaded(argument))
        {
            return;
        }
        self.has_unpacked |= UNPACKERS.contains(&name);
        if matches!(name, "cp" | "mv" | "ln" | "install") {
            let target = arguments.last().map(String::as_str).unwrap_or_default();
            self.downloaded.push(target.to_owned());
            self.installs_program(target);
        }
        self.compiled(name, arguments);
    }

    /// Judges where a download is put.
    pub(super) fn installs_program(&mut self, path: &str) {
        // Without `cd`, a name alone is a file of this directory.
        let is_here = self.directory.as_deref() == Some(self.place.cwd);
        let from = self.directory.as_deref().filter(|_| !is_here);
        let path = &match from {
            Some(_) if is_url(path) => file_name(path).to_owned(),
            Some(directory) => normalize(path, directory),
            None => path.to_owned(),
        };
        if path.contains('/') && program_directory(path, self.place) {
            let reason = "installs a download into a directory that is searched for programs";
            self.findings.add_grave(RunsDownloadedCode, reason);
        }
    }

    /// Notes the programs that a compiler makes.
    fn compiled(&mut self, name: &str, arguments: &[String]) {
        let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
        if !COMPILERS.contains(&plain) && !COMPILERS.contains(&name) {
            return;
        }
        let outputs = programs::find_option(arguments, "-o", &[], false);
        let outputs = outputs
            .iter()
            .map(|output| output.value(arguments).to_owned());
        self.downloaded.extend(outputs);
        self.downloaded.push("a.out".to_owned());
        let stems = arguments
            .iter()
            .filter_map(|file| Some(file.rsplit_once('.')?.0));
        self.downloaded.extend(stems.map(str::to_owned));
    }
}
