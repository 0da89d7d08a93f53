//! Files that programs run without their name in the command: `make` runs a Makefile.

use std::collections::BTreeSet;

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

/// Words after which the next one may be the program.
const WRAPPERS: [&str; 13] = [
    "bundle", "command", "do", "else", "env", "exec", "if", "nice", "nohup", "sudo", "then",
    "time", "while",
];

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
        for part in command.split(|c| "!;&|(){}`\n".contains(c)) {
            let mut words = part.split_whitespace();
            let mut may_be_program = true;
            while let Some(word) = words.next() {
                let plain = word.trim_matches(['"', '\'']);
                // A text may be a command of its own.
                may_be_program |= word.starts_with(['"', '\'']);
                if may_be_program {
                    let program = plain.rsplit('/').next().unwrap_or_default();
                    let arguments = words.clone().map(|word| word.trim_matches(['"', '\'']));
                    implied.add(program, &arguments.collect::<Vec<_>>());
                }
                may_be_program &= WRAPPERS.contains(&plain) || plain.contains('=');
            }
        }
        implied.add_programs(command);
        implied
    }

    /// Adds the programs that the command may mean in the directories of a `PATH` of its own. The beginning of such a directory that
    /// is a variable or the output of a command is mostly the one in which the command runs.
    fn add_programs(&mut self, command: &str) {
        for value in command.split("PATH=").skip(1) {
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
                let words =
                    command.split(|c: char| c.is_whitespace() || "\"'!;&|(){}`".contains(c));
                let is_name = |word: &&str| !word.is_empty() && !word.contains(['/', '=', '$']);
                let programs = words.filter(is_name).map(|word| format!("{dir}/{word}"));
                self.paths.extend(programs);
            }
        }
    }

    fn add(&mut self, program: &str, arguments: &[&str]) {
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
                .extend(operands.map(|word| (*word).to_owned()));
        } else if matches!(program, "node" | "nodejs") {
            for word in operands {
                self.paths.insert(format!("{word}/index.js"));
                self.paths.insert(format!("{word}/package.json"));
            }
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
