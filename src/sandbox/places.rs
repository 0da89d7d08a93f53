//! Finds what decides which programs run later in a workspace: git directories, and settings of editors, MCP clients and coding
//! agents, wherever they are in it. Symlinks are not followed, and files are only looked at.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, DirEntry};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::safety::protected_paths::{GIT_SETTINGS, PROJECT_PLACES};

/// Maximum number of directories that are searched.
const MAX_DIRECTORIES: usize = 20_000;

/// Maximum number of bytes that are read of a git configuration.
const MAX_CONFIG_BYTES: u64 = 64 * 1024;

/// Maximum number of files and directories that are kept unchanged: each is a mount.
const MAX_GUARDED: usize = 200;

/// The plugin of aish, which is run by the shell together with the functions beside it.
const PLUGIN: &str = "aish.plugin.zsh";

/// Directories that tools make and delete as a whole. Git directories in them are not kept from changing.
const GENERATED: [&str; 10] = [
    ".cache",
    ".tox",
    ".venv",
    "_deps",
    "build",
    "dist",
    "node_modules",
    "out",
    "target",
    "venv",
];

/// Keys of a git configuration whose value names a file that git obeys, or a command that it runs, see
/// [git-config](https://git-scm.com/docs/git-config).
const FILE_KEYS: [&str; 16] = [
    "askpass",
    "attributesfile",
    "clean",
    "cmd",
    "command",
    "driver",
    "editor",
    "fsmonitor",
    "helper",
    "hookspath",
    "pager",
    "path",
    "process",
    "program",
    "smudge",
    "textconv",
];

/// What was found, what is nearest to the workspace first.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Files, directories and symlinks.
    pub files: Vec<PathBuf>,
    /// Directories that git takes for git directories.
    pub git_dirs: BTreeSet<PathBuf>,
    /// Whether every directory was searched.
    pub is_complete: bool,
}

impl Places {
    /// Searches directories and what is below them.
    pub(super) fn find(dirs: &[PathBuf]) -> Places {
        let mut search = Search::default();
        search.waiting.extend(dirs.iter().cloned());
        let mut searched = 0;
        while let Some(dir) = search.waiting.pop_front() {
            searched += 1;
            if searched > MAX_DIRECTORIES {
                break;
            }
            search.look_into(&dir, dirs);
        }
        search.places.is_complete = searched <= MAX_DIRECTORIES;
        search.places
    }

    /// Returns what can be kept unchanged during a command.
    pub(super) fn to_guard(&self, dirs: &[PathBuf]) -> Vec<PathBuf> {
        let is_generated = |path: &&PathBuf| {
            let below = dirs.iter().find_map(|dir| path.strip_prefix(dir).ok());
            below.is_some_and(|below| {
                below
                    .iter()
                    .any(|part| GENERATED.iter().any(|name| part == *name))
            })
        };
        self.files
            .iter()
            .filter(|path| !is_generated(path))
            .take(MAX_GUARDED)
            .cloned()
            .collect()
    }
}

#[derive(Default)]
struct Search {
    places: Places,
    waiting: VecDeque<PathBuf>,
}

impl Search {
    fn look_into(&mut self, dir: &Path, roots: &[PathBuf]) {
        let Ok(entries) = fs::read_dir(dir) else {
            return;
        };
        let entries: Vec<DirEntry> = entries.flatten().collect();
        let has = |name: &str| entries.iter().any(|entry| entry.file_name() == name);
        let has_objects = has("commondir") || (has("objects") && has("refs"));
        if dir.file_name().is_some_and(|name| name == ".git") || (has("HEAD") && has_objects) {
            self.add_git_dir(dir, roots);
            for name in ["modules", "worktrees"] {
                self.wait_for(entries.iter().find(|entry| entry.file_name() == name));
            }
            return;
        }
        let has_plugin = has(PLUGIN);
        for entry in &entries {
            let name = entry.file_name();
            let lower = name.to_string_lossy().to_lowercase();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_plugin = has_plugin && (lower == PLUGIN || lower == "functions");
            if is_plugin || PROJECT_PLACES.contains(&lower.as_str()) || (name == ".git" && !is_dir)
            {
                self.places.files.push(entry.path());
            } else {
                self.wait_for(Some(entry));
            }
        }
    }

    fn wait_for(&mut self, entry: Option<&DirEntry>) {
        let dirs = entry.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        self.waiting.extend(dirs.map(DirEntry::path));
    }

    fn add_git_dir(&mut self, dir: &Path, roots: &[PathBuf]) {
        self.places.git_dirs.insert(dir.to_owned());
        let settings = GIT_SETTINGS.iter().map(|name| dir.join(name));
        let settings = settings.filter(|path| path.symlink_metadata().is_ok());
        self.places.files.extend(settings);
        for name in ["config", "config.worktree"] {
            let files = obeyed_files(dir, name);
            let in_workspace = |path: &PathBuf| {
                roots
                    .iter()
                    .any(|root| path.starts_with(root) && path != root)
            };
            self.places
                .files
                .extend(files.into_iter().filter(in_workspace));
        }
    }
}

/// Returns the files and directories that a git configuration names, as far as they exist.
fn obeyed_files(git_dir: &Path, name: &str) -> Vec<PathBuf> {
    // A FIFO would wait for a writer.
    let path = git_dir.join(name);
    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
        return Vec::new();
    }
    let mut bytes = Vec::new();
    let read =
        fs::File::open(&path).and_then(|file| file.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes));
    if read.is_err() {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    let worktree = git_dir.parent().unwrap_or(git_dir);
    file_values(&text)
        .flat_map(|value| [worktree.join(value), git_dir.join(value)])
        .filter_map(|path| path.canonicalize().ok())
        .collect()
}

/// Returns the first word of each value that can name a file.
fn file_values(config: &str) -> impl Iterator<Item = &str> {
    config.lines().filter_map(|line| {
        // A key may follow its section on one line.
        let line = line.rsplit_once(']').map_or(line, |(_, after)| after);
        let (key, value) = line.split_once('=')?;
        let key = key.trim().to_lowercase();
        let value = value.trim().trim_start_matches(['"', '!', '\'']);
        let word = value.split([' ', '"', '\'', ';', '#']).next()?;
        (FILE_KEYS.contains(&key.as_str()) && !word.is_empty() && word != ".").then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_name_files_are_found() {
        let config = "[core]\n\thooksPath = .husky/_\n\tbare = false\n[include] path = \"../x.inc\"\n[filter \"a\"]\n\tclean = ./tools/clean.sh %f\n[remote \"origin\"]\n\turl = ../other\n[alias]\n\tco = checkout\n[core]\n\tpager =\n";
        let values: Vec<&str> = file_values(config).collect();
        assert_eq!(values, [".husky/_", "../x.inc", "./tools/clean.sh"]);
    }

    #[test]
    fn git_directories_are_found_wherever_they_are() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let file = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for dir in ["a/.git", "a/.git/modules/x/y", "bare"] {
            file(&format!("{dir}/HEAD"), "ref: refs/heads/main\n");
            file(
                &format!("{dir}/config"),
                "[core]\n\thooksPath = tools/hooks\n",
            );
            file(&format!("{dir}/objects/x"), "");
            file(&format!("{dir}/refs/x"), "");
        }
        file("a/.git/worktrees/w/HEAD", "");
        file("a/.git/worktrees/w/commondir", "../..\n");
        file("a/tools/hooks/pre-commit", "");
        file("w/.git", "gitdir: ../a/.git/worktrees/w\n");
        file("w/.vscode/tasks.json", "{}");
        file("build/dep/.git/config", "");
        file("config", "");
        std::os::unix::fs::symlink("/etc", root.join("w/.idea")).unwrap();
        let places = Places::find(std::slice::from_ref(&root));
        let names = |paths: Vec<PathBuf>| {
            let mut names: Vec<String> = paths
                .iter()
                .map(|path| path.strip_prefix(&root).unwrap().display().to_string())
                .collect();
            names.sort();
            names.dedup();
            names
        };
        let guarded = [
            "a/.git/config",
            "a/.git/modules/x/y/config",
            "a/.git/worktrees/w/commondir",
            "a/tools/hooks",
            "bare/config",
            "w/.git",
            "w/.idea",
            "w/.vscode",
        ];
        assert_eq!(names(places.to_guard(std::slice::from_ref(&root))), guarded);
        assert!(names(places.files).contains(&"build/dep/.git/config".to_owned()));
        assert!(places.is_complete);
    }
}
