//! Files that programs run without their name in the command: `make` runs a Makefile.

use std::collections::BTreeSet;

use crate::safety::command::inner_text;
use crate::safety::protected_paths::ANY;

/// Programs and the files that they run, from the directory in which they run or one that the command names.
const FILES: [(&[&str], &[&str]); 8] = [
    (&["make", "gmake"], &["GNUmakefile", "makefile", "Makefile"]),
    (
        &["npm", "pnpm", "yarn", "npx", "bun", "bunx"],
        &["package.json"],
    ),
    (&["turbo", "lerna"], &["package.json"]),
    (
        &["just"],
        &["justfile", "Justfile", "JUSTFILE", ".justfile"],
    ),
    (
        &["rake"],
        &["Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"],
    ),
    (&["bundle"], &["Gemfile"]),
    (&["ant"], &["build.xml"]),
    (&["task"], &["Taskfile.yml", "Taskfile.yaml"]),
];

/// Programs that run programs of the packages of a project.
const PACKAGE_RUNNERS: [&str; 6] = ["npm", "pnpm", "yarn", "npx", "bun", "bunx"];

/// Programs of JavaScript and TypeScript, which run a file or a package without the end of its name.
const SCRIPT_RUNNERS: [&str; 4] = ["node", "nodejs", "ts-node", "tsx"];

/// Words after which the next one may be the program.
const BEFORE_PROGRAMS: [&str; 7] = ["do", "elif", "else", "if", "then", "until", "while"];

/// Settings whose value is a directory of programs, and the beginning of the names that programs have there.
const PROGRAM_DIRECTORIES: [(&str, &str); 4] = [
    ("PATH=", ""),
    ("GIT_EXEC_PATH=", "git-"),
    ("--exec-path=", ""),
    ("--exec-path=", "git-"),
];

/// How deep commands in commands are followed.
const MAX_DEPTH: usize = 8;

/// What the programs of a command run.
#[derive(Debug, Default)]
pub(super) struct ImpliedFiles {
    /// Paths of files.
    pub paths: BTreeSet<String>,
    /// Directories of which every file is run.
    pub directories: BTreeSet<String>,
}

impl ImpliedFiles {
    pub(super) fn of(command: &str) -> ImpliedFiles {
        let mut implied = ImpliedFiles::default();
        let mut texts = vec![command.to_owned()];
        while let Some(text) = texts.pop() {
            let plain = without_substitutions(&text, &mut texts);
            implied.add_text(&plain, MAX_DEPTH);
        }
        implied.add_programs(command);
        implied
    }

    /// Adds what the commands in a text without substitutions run, and the commands that they run, `depth` times.
    fn add_text(&mut self, text: &str, depth: usize) {
        for part in text.split(|c| "!;&|(){}\n".contains(c)) {
            let quotes = ['"', '\''];
            let written: Vec<&str> = part.split_whitespace().collect();
            let words = written.iter().map(|word| word.trim_matches(quotes));
            let words: Vec<String> = words.map(str::to_owned).collect();
            let mut may_be_program = true;
            for (at, written) in written.iter().enumerate() {
                let words = words.get(at..).unwrap_or_default();
                let Some((first, arguments)) = words.split_first() else {
                    continue;
                };
                // A text may be a command of its own.
                may_be_program |= written.starts_with(quotes);
                if may_be_program {
                    let program = first.rsplit('/').next().unwrap_or_default();
                    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                    self.add(program, &arguments);
                    if let Some(inner) = inner_text(words).filter(|_| depth > 0) {
                        self.add_text(&inner, depth - 1);
                    }
                }
                may_be_program &= BEFORE_PROGRAMS.contains(&first.as_str()) || first.contains('=');
                // A setting of git for one command.
                if let Some((key, value)) = first.split_once('=')
                    && key.to_ascii_lowercase().ends_with("core.hookspath")
                {
                    let directory = behind_unknown(value.trim_matches(quotes));
                    self.directories.insert(directory.to_owned());
                }
            }
        }
    }

    /// Adds the programs that the command may mean in the directories of a `PATH` of its own. The beginning of such a directory that
    /// is a variable or the output of a command is mostly the one in which the command runs.
    fn add_programs(&mut self, command: &str) {
        let values = PROGRAM_DIRECTORIES.iter().flat_map(|(name, start)| {
            let values = command.split(name).skip(1);
            values.map(move |value| (value, start))
        });
        for (value, start) in values {
            let value = value
                .split(['\n', ';', '&', '|'])
                .next()
                .unwrap_or_default();
            for dir in value.split(':') {
                let is_unknown = dir.trim_start_matches(['"', '\'']).starts_with(['$', '`']);
                let dir = dir.rsplit([')', '}', '`']).next().unwrap_or_default();
                let dir = dir.trim_matches(['"', '\'']).split_whitespace().next();
                let dir = dir.unwrap_or_default().trim_end_matches(['"', '\'']);
                let dir = match dir.strip_prefix('$') {
                    Some(rest) => rest.split_once('/').map(|(_, rest)| rest),
                    None if is_unknown => dir.strip_prefix('/'),
                    None => Some(dir),
                };
                let Some(dir) = dir.filter(|dir| !dir.is_empty()) else {
                    continue;
                };
                let split = |c: char| c.is_whitespace() || "\"'!;&|(){}`".contains(c);
                let words = command.split(split);
                let is_name = |word: &&str| !word.is_empty() && !word.contains(['/', '=', '$']);
                let programs = words
                    .filter(is_name)
                    .map(|word| format!("{dir}/{start}{word}"));
                self.paths.extend(programs);
            }
        }
    }

    fn add(&mut self, program: &str, arguments: &[&str]) {
        // A name that is not known may be that of any file.
        let is_known = |word: &&&str| {
            !word
                .rsplit('/')
                .next()
                .is_some_and(|name| name.contains(ANY))
        };
        let arguments: Vec<&str> = arguments.iter().filter(is_known).copied().collect();
        let files = FILES.iter().filter(|(names, _)| names.contains(&program));
        let files = files.flat_map(|(_, files)| files.iter());
        self.paths.extend(files.map(|file| (*file).to_owned()));
        let operands = arguments.iter().filter(|word| !word.starts_with('-'));
        if PACKAGE_RUNNERS.contains(&program) {
            let programs = operands.clone().filter(|word| !word.contains('/'));
            self.paths
                .extend(programs.map(|word| format!("node_modules/.bin/{word}")));
        } else if program == "run-parts" {
            self.directories
                .extend(operands.map(|word| behind_unknown(word).to_owned()));
        } else if SCRIPT_RUNNERS.contains(&program) {
            for word in operands {
                let ends = [".js", ".ts", "/index.js", "/index.ts", "/package.json"];
                self.paths.extend(ends.map(|end| format!("{word}{end}")));
            }
        } else if program.starts_with("perl") {
            let modules = arguments
                .iter()
                .filter_map(|word| word.strip_prefix("-M").or_else(|| word.strip_prefix("-m")));
            let names = modules.filter_map(|word| word.split('=').next());
            let files = names.map(|name| format!("{}.pm", name.replace("::", "/")));
            self.paths.extend(files);
        } else if program.starts_with("ruby") {
            let modules = arguments.iter().filter_map(|word| word.strip_prefix("-r"));
            self.paths.extend(modules.map(|word| format!("{word}.rb")));
        } else if program.starts_with("python") || program.starts_with("pypy") {
            // A directory, or a module behind `-m`.
            let modules = arguments.iter().filter_map(|word| word.strip_prefix("-m"));
            for word in operands.copied().chain(modules) {
                let path = word.replace('.', "/");
                for file in [format!("{word}/__main__.py"), format!("{path}/__main__.py")] {
                    self.paths.insert(file);
                }
                if !word.contains('/') {
                    self.paths.insert(format!("{path}/__init__.py"));
                    self.paths.insert(format!("{path}.py"));
                }
            }
        }
    }
}

/// Returns a path without its beginning that is not known: mostly that is the directory in which the command runs.
fn behind_unknown(path: &str) -> &str {
    match path.strip_prefix(ANY) {
        Some(rest) => rest.trim_start_matches(ANY).trim_start_matches('/'),
        None => path,
    }
}

/// Returns a command with [`ANY`] in place of variables and outputs of commands, and adds these commands to `texts`.
fn without_substitutions(command: &str, texts: &mut Vec<String>) -> String {
    let mut plain = String::with_capacity(command.len());
    let mut rest = command;
    while let Some(at) = rest.find(['$', '`']) {
        let (before, from) = rest.split_at(at);
        plain.push_str(before);
        let (end, inner) = match from.strip_prefix("$(") {
            Some(_) => bracketed(from, '(', ')'),
            None if from.starts_with("${") => (bracketed(from, '{', '}').0, None),
            None if from.starts_with('`') => {
                let inner = from.get(1..).and_then(|text| text.split('`').next());
                (inner.map_or(from.len(), |inner| inner.len() + 2), inner)
            }
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let name = from.get(1..).unwrap_or_default();
                let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
                // `$@` and the like.
                let is_sign = end == 0 && name.starts_with(['@', '*', '#', '?', '!', '-']);
                (1 + end + usize::from(is_sign), None)
            }
        };
        texts.extend(inner.map(str::to_owned));
        plain.push(ANY);
        rest = from.get(end..).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

/// Returns the length of a text up to the end of its first pair of brackets, and the text between them.
fn bracketed(text: &str, open: char, close: char) -> (usize, Option<&str>) {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                let start = text.find(open).map_or(0, |start| start + 1);
                return (at + 1, text.get(start..at));
            }
        }
    }
    (text.len(), text.get(2..))
}
