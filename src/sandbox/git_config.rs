//! Git configuration: the files and directories that its values name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::command_files::CommandNames;
use super::planned_files::PlannedFiles;
use crate::safety::protected_paths::GIT_SETTINGS;

/// Maximum number of bytes that are read of a git configuration.
const MAX_CONFIG_BYTES: u64 = 1024 * 1024;

/// Keys of a git configuration whose value is a path of a file that git obeys, see [git-config](https://git-scm.com/docs/git-config).
const PATH_KEYS: [&str; 4] = ["attributesfile", "hookspath", "path", "templatedir"];

/// Names of the programs that git runs in a directory of hooks, see [githooks](https://git-scm.com/docs/githooks).
const HOOKS: [&str; 28] = [
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// Keys whose value is a command that git runs.
const COMMAND_KEYS: [&str; 32] = [
    "alternaterefscommand",
    "askpass",
    "browser",
    "cccmd",
    "clean",
    "cmd",
    "command",
    "defaultkeycommand",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "headercmd",
    "helper",
    "httpd",
    "packobjectshook",
    "pager",
    "process",
    "program",
    "receivepack",
    "recentobjectshook",
    "sendmailcmd",
    "smtpserver",
    "smudge",
    "sshcommand",
    "textconv",
    "tocmd",
    "tunnel",
    "update",
    "uploadpack",
];

/// Files and directories in a git directory that git writes, those with names in capital letters aside.
const GIT_DATA: [&str; 10] = [
    "gc.log",
    "index",
    "lfs",
    "logs",
    "objects",
    "packed-refs",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "shallow",
];

/// Includes that are followed.
const MAX_INCLUDES: usize = 3;

/// Configuration of git of one user and of all, which counts in each repository. The paths are below the home directory.
const USER_CONFIGS: [&str; 2] = [".gitconfig", ".config/git/config"];

/// Configuration of git of all users.
const SYSTEM_CONFIG: &str = "/etc/gitconfig";

/// Returns the text of a small file; `None` of anything else. A FIFO would wait for a writer.
pub(super) fn small_text(path: &Path) -> Option<String> {
    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the real path in a file of git that names another one: `.git`, `commondir`, `gitdir`.
pub(super) fn linked_path(file: &Path) -> Option<PathBuf> {
    written_path(file)?.canonicalize().ok()
}

/// Same as [`linked_path`], as it is written.
pub(super) fn written_path(file: &Path) -> Option<PathBuf> {
    let text = small_text(file)?;
    let name = text.trim();
    let name = name.strip_prefix("gitdir:").unwrap_or(name).trim();
    Some(file.parent()?.join(name))
}

/// Returns whether git itself writes a file, given by its path in a git directory: a word that names it is a name of a commit.
pub(super) fn is_git_data(path: &Path) -> bool {
    let first = path.iter().next().unwrap_or_default().to_string_lossy();
    let is_state = !first.chars().any(|c| c.is_lowercase() || c == '.');
    is_state || GIT_DATA.contains(&&*first)
}

/// What a git configuration names.
#[derive(Debug, Default)]
struct ConfigNames {
    /// Keys, and paths of files and directories.
    paths: Vec<(String, String)>,
    commands: Vec<CommandNames>,
}

/// Git configurations, each of which is read once.
#[derive(Debug, Default)]
pub(super) struct GitConfigs {
    home: Option<PathBuf>,
    roots: Vec<PathBuf>,
    planned: PlannedFiles,
    read: BTreeMap<PathBuf, Rc<ConfigNames>>,
    /// Ends of the paths of files whose beginning is not known: they may be in any directory.
    pub ends: BTreeSet<String>,
}

impl GitConfigs {
    /// The configurations of a user with this home directory, which `~/` means, who works in these directories.
    pub(super) fn of(
        home: Option<PathBuf>,
        roots: &[PathBuf],
        planned: PlannedFiles,
    ) -> GitConfigs {
        GitConfigs {
            home,
            roots: roots.to_vec(),
            planned,
            ..GitConfigs::default()
        }
    }

    /// Returns the files and directories that the configuration of a repository with these work trees names, as far as they exist.
    pub(super) fn named_by(&mut self, config: &Path, trees: &[PathBuf]) -> Vec<PathBuf> {
        let mut obeyed = Vec::new();
        self.add_values(config, trees, MAX_INCLUDES, &mut obeyed);
        obeyed
    }

    /// Returns what the configuration of the user and of the system names.
    pub(super) fn named_by_user(&mut self, trees: &[PathBuf]) -> Vec<PathBuf> {
        let home = self.home.iter();
        let user = home.flat_map(|home| USER_CONFIGS.iter().map(|name| home.join(name)));
        let configs: Vec<PathBuf> = user.chain([PathBuf::from(SYSTEM_CONFIG)]).collect();
        let named = configs
            .iter()
            .flat_map(|config| self.named_by(config, trees));
        named.collect()
    }

    fn add_values(
        &mut self,
        config: &Path,
        trees: &[PathBuf],
        includes: usize,
        obeyed: &mut Vec<PathBuf>,
    ) {
        let names = self.names_of(config);
        let bases: Vec<&Path> = trees.iter().map(PathBuf::as_path).collect();
        let bases = [bases, config.parent().into_iter().collect()].concat();
        for (key, name) in &names.paths {
            let found: Vec<PathBuf> = match name.strip_prefix("~/") {
                Some(rest) => self.home.iter().map(|home| home.join(rest)).collect(),
                None => bases.iter().map(|base| base.join(name)).collect(),
            };
            for path in found
                .iter()
                .filter_map(|path| self.planned.real_path(path))
                .collect::<Vec<_>>()
            {
                if key == "path" && includes > 0 && !obeyed.contains(&path) {
                    self.add_values(&path, trees, includes - 1, obeyed);
                }
                // In a directory with all files of a project, only what git itself looks for counts.
                let mut projects = trees.iter().chain(&self.roots);
                let names: &[&str] = match key.as_str() {
                    "hookspath" => &HOOKS,
                    "templatedir" => &GIT_SETTINGS,
                    _ => &[],
                };
                if names.is_empty() || !projects.any(|dir| dir.starts_with(&path)) {
                    obeyed.push(path);
                    continue;
                }
                let files = names.iter().map(|name| path.join(name));
                obeyed.extend(files.filter(|file| self.planned.has(file)));
            }
        }
        for command in &names.commands {
            obeyed.extend(command.files(&bases, &self.planned));
            self.ends.extend(command.ends.iter().cloned());
        }
    }

    fn names_of(&mut self, config: &Path) -> Rc<ConfigNames> {
        if let Some(names) = self.read.get(config) {
            return names.clone();
        }
        let mut names = ConfigNames::default();
        for (key, value) in values(&small_text(config).unwrap_or_default()) {
            match PATH_KEYS.contains(&key.as_str()) {
                _ if value.is_empty() => {}
                true => names.paths.push((key, value)),
                false => {
                    let command = CommandNames::of(&value, self.home.as_deref());
                    names.commands.push(command);
                }
            }
        }
        let names = Rc::new(names);
        self.read.insert(config.to_owned(), names.clone());
        names
    }
}

/// Returns the keys, in lower case, and values of a git configuration that name files which git obeys.
fn values(config: &str) -> Vec<(String, String)> {
    values_where(config, |section, key, _| {
        PATH_KEYS.contains(&key)
            || COMMAND_KEYS.contains(&key)
            // `pager.COMMAND`, and an alias, whose options may name a command too.
            || matches!(section, "alias" | "pager")
    })
}

/// Returns the values of a key, which is in lower case.
pub(super) fn values_of(config: &str, key: &str) -> Vec<String> {
    let found = values_where(config, |_, found, _| found == key);
    found.into_iter().map(|(_, value)| value).collect()
}

/// Returns the keys, in lower case, and values that are wanted, by section, key and value.
fn values_where(
    config: &str,
    is_wanted: impl Fn(&str, &str, &str) -> bool,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut section = String::new();
    // A backslash continues the line.
    let config = config.replace("\r\n", "\n").replace("\\\n", "");
    for line in config.lines() {
        let line = line.trim_start();
        // A key may follow its section on one line.
        let line = match line.starts_with('[') {
            true => {
                let name = line.trim_start_matches(['[', ' ']);
                let end = name.find(|c: char| !c.is_alphanumeric() && c != '-');
                section = name
                    .get(..end.unwrap_or(name.len()))
                    .unwrap_or_default()
                    .to_lowercase();
                after_heading(line)
            }
            false => line,
        };
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim().to_lowercase();
        let value = unquoted(value);
        if is_wanted(&section, &key, &value) {
            found.push((key, value));
        }
    }
    found
}

/// Returns the rest of a line behind the heading of a section, in whose quotes a bracket is a part of the name.
fn after_heading(line: &str) -> &str {
    let (mut in_quotes, mut is_escaped) = (false, false);
    let end = line.find(|c| {
        let was_escaped = std::mem::take(&mut is_escaped);
        in_quotes ^= c == '"' && !was_escaped;
        is_escaped = c == '\\' && !was_escaped;
        c == ']' && !in_quotes
    });
    end.and_then(|end| line.get(end + 1..)).unwrap_or_default()
}

/// Returns a value without quotes, escapes and comment.
fn unquoted(value: &str) -> String {
    let (mut text, mut in_quotes) = (String::new(), false);
    let mut chars = value.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => in_quotes = !in_quotes,
            '\\' => text.extend(chars.next().map(|c| match c {
                'n' => '\n',
                't' => '\t',
                c => c,
            })),
            '#' | ';' if !in_quotes => break,
            _ => text.push(c),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_name_files_are_found() {
        let config = "[core]\n\thooksPath = my hooks ; comment\n\tbare = false\n[include] path = \"../x #1.inc\"\n[filter \"a]\"] clean = python tools/clean.py %f\n[remote \"origin\"]\n\turl = ../other\n[alias]\n\tco = checkout\n\tx = !tools/x\n[core]\n\tpager =\n[Pager]\n\tlog = ./tools/x\n[CORE]hooksPath=\"h\\\"k\"\n";
        let values = values(config);
        let values: Vec<(&str, &str)> = values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let expected = [
            ("hookspath", "my hooks"),
            ("path", "../x #1.inc"),
            ("clean", "python tools/clean.py %f"),
            ("co", "checkout"),
            ("x", "!tools/x"),
            ("pager", ""),
            ("log", "./tools/x"),
            ("hookspath", "h\"k"),
        ];
        assert_eq!(values, expected);
    }
}
