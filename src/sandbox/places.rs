//! Finds what decides which programs run later in a workspace: git directories, and settings of editors, MCP clients and coding
//! agents, wherever they are in it. Symlinks are not followed, and files are only looked at.

use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, DirEntry};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::safety::protected_paths::{GIT_SETTINGS, NAMES as STARTUP_FILES, PROJECT_PLACES};

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

/// Keys of a git configuration whose value is a path of what git obeys, see [git-config](https://git-scm.com/docs/git-config).
const PATH_KEYS: [&str; 4] = ["attributesfile", "hookspath", "path", "templatedir"];

/// Keys whose value is a command that git runs.
const COMMAND_KEYS: [&str; 25] = [
    "alternaterefscommand",
    "askpass",
    "cccmd",
    "clean",
    "cmd",
    "command",
    "difffilter",
    "driver",
    "editor",
    "external",
    "fsmonitor",
    "gitproxy",
    "helper",
    "packobjectshook",
    "pager",
    "process",
    "program",
    "receivepack",
    "sendmailcmd",
    "smudge",
    "sshcommand",
    "textconv",
    "tocmd",
    "update",
    "uploadpack",
];

/// Includes that are followed.
const MAX_INCLUDES: usize = 3;

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
        for dir in dirs {
            search.add_outer_repository(dir, dirs);
        }
        search.places.is_complete = true;
        for searched in 0.. {
            // What tools make is searched last: nothing in it may leave out the rest.
            let next = search.waiting.pop_front();
            let Some(dir) = next.or_else(|| search.generated.pop_front()) else {
                break;
            };
            if searched >= MAX_DIRECTORIES {
                search.places.is_complete = false;
                break;
            }
            search.look_into(&dir, dirs);
        }
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
            // Where a link leads, the settings are found on their own: commits change the rest.
            .filter(|path| !(path.ends_with(".git") && path.is_dir()))
            .take(MAX_GUARDED)
            .cloned()
            .collect()
    }
}

#[derive(Default)]
struct Search {
    places: Places,
    waiting: VecDeque<PathBuf>,
    generated: VecDeque<PathBuf>,
}

impl Search {
    fn look_into(&mut self, dir: &Path, roots: &[PathBuf]) {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(e) => {
                self.places.is_complete &= e.kind() == ErrorKind::NotFound;
                return;
            }
        };
        let entries: Vec<DirEntry> = entries.flatten().collect();
        let has = |name: &str| entries.iter().any(|entry| entry.file_name() == name);
        let has_objects = has("commondir") || (has("objects") && has("refs"));
        let is_named = dir.file_name().is_some_and(|name| name == ".git");
        if is_named || (has("HEAD") && has_objects) {
            self.add_git_dir(dir, roots);
        }
        // Of another directory that looks like one, the rest counts as well.
        if is_named {
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
            let is_plugin =
                has_plugin && (is_dir || lower.ends_with(".zsh") || lower.ends_with(".zwc"));
            let is_startup = STARTUP_FILES.contains(&lower.trim_end_matches(".zwc"));
            if is_plugin
                || is_startup
                || PROJECT_PLACES.contains(&lower.as_str())
                || (name == ".git" && !is_dir)
            {
                let linked = entry.path().canonicalize().ok();
                let linked = linked.filter(|path| name == ".git" && path.is_dir());
                self.waiting
                    .extend(linked.filter(|path| is_below(path, roots)));
                self.places.files.push(entry.path());
            } else {
                self.wait_for(Some(entry));
            }
        }
    }

    fn wait_for(&mut self, entry: Option<&DirEntry>) {
        let dir = entry.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let Some(dir) = dir else { return };
        let name = dir.file_name();
        match GENERATED.iter().any(|generated| name == *generated) {
            true => self.generated.push_back(dir.path()),
            false => self.waiting.push_back(dir.path()),
        }
    }

    fn add_git_dir(&mut self, dir: &Path, roots: &[PathBuf]) {
        if !self.places.git_dirs.insert(dir.to_owned()) {
            return;
        }
        let settings = GIT_SETTINGS.iter().map(|name| dir.join(name));
        let settings = settings.filter(|path| path.symlink_metadata().is_ok());
        self.places.files.extend(settings);
        let mut trees: Vec<PathBuf> = dir.parent().map(Path::to_owned).into_iter().collect();
        // The configuration is that of the linked worktrees too.
        let linked = fs::read_dir(dir.join("worktrees"))
            .into_iter()
            .flatten()
            .flatten();
        trees.extend(linked.filter_map(|entry| {
            linked_path(&entry.path().join("gitdir"))?
                .parent()
                .map(Path::to_owned)
        }));
        // That of a submodule names its work tree.
        let config = small_text(&dir.join("config")).unwrap_or_default();
        let tree = values_of(&config, &["worktree"]).into_iter();
        trees.extend(tree.filter_map(|(_, tree)| dir.join(tree).canonicalize().ok()));
        self.add_obeyed(dir, &trees, roots);
    }

    /// Adds what the configuration names of the repository that a root is in, which may lie outside of what is searched.
    fn add_outer_repository(&mut self, root: &Path, roots: &[PathBuf]) {
        let found = root.ancestors().find(|dir| dir.join(".git").exists());
        let Some(tree) = found else { return };
        let link = tree.join(".git");
        let own = match link.is_dir() {
            true => Some(link),
            false => linked_path(&link),
        };
        let Some(own) = own else { return };
        let common = linked_path(&own.join("commondir"));
        for git_dir in [Some(own), common].into_iter().flatten() {
            self.add_obeyed(&git_dir, &[tree.to_owned()], roots);
        }
    }

    fn add_obeyed(&mut self, git_dir: &Path, trees: &[PathBuf], roots: &[PathBuf]) {
        for name in ["config", "config.worktree"] {
            let mut obeyed = Vec::new();
            add_values(&git_dir.join(name), trees, MAX_INCLUDES, &mut obeyed);
            obeyed.retain(|path| is_below(path, roots) && !self.places.files.contains(path));
            self.places.files.extend(obeyed);
        }
    }
}

/// Whether a path is below one of the directories, and none of them.
fn is_below(path: &Path, dirs: &[PathBuf]) -> bool {
    dirs.iter().any(|dir| path.starts_with(dir) && path != dir)
}

/// Returns the text of a small file; `None` of anything else. A FIFO would wait for a writer.
fn small_text(path: &Path) -> Option<String> {
    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
        return None;
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the path in a file of git that names another one: `.git`, `commondir`, `gitdir`.
fn linked_path(file: &Path) -> Option<PathBuf> {
    let text = small_text(file)?;
    let name = text.trim();
    let name = name.strip_prefix("gitdir:").unwrap_or(name).trim();
    file.parent()?.join(name).canonicalize().ok()
}

/// Adds the files and directories that a git configuration names, as far as they exist.
fn add_values(config: &Path, trees: &[PathBuf], includes: usize, obeyed: &mut Vec<PathBuf>) {
    let Some(text) = small_text(config) else {
        return;
    };
    let beside = config.parent().unwrap_or(config);
    // A backslash continues the line.
    for (key, value) in values(&text.replace("\\\n", "")) {
        let is_path = PATH_KEYS.contains(&key.as_str());
        let names: Vec<&str> = match is_path {
            true => vec![value.as_str()],
            false => value
                .split([' ', '\'', '"', '!', ';', '&', '|'])
                .filter(|word| word.contains('/'))
                .collect(),
        };
        for name in names.into_iter().filter(|name| !name.is_empty()) {
            let bases = trees.iter().map(PathBuf::as_path).chain([beside]);
            for path in bases.filter_map(|base| base.join(name).canonicalize().ok()) {
                if key == "path" && includes > 0 && !obeyed.contains(&path) {
                    add_values(&path, trees, includes - 1, obeyed);
                }
                if is_path || path.is_file() {
                    obeyed.push(path);
                }
            }
        }
    }
}

/// Returns the keys, in lower case, and values of a git configuration that name what git obeys.
fn values(config: &str) -> Vec<(String, String)> {
    values_of(config, &[&PATH_KEYS[..], &COMMAND_KEYS].concat())
}

/// Returns the keys, in lower case, and values of these keys.
fn values_of(config: &str, keys: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for line in config.lines() {
        let line = line.trim_start();
        // A key may follow its section on one line.
        let line = match line.starts_with('[') {
            true => line.split_once(']').map_or("", |(_, after)| after),
            false => line,
        };
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let key = key.trim().to_lowercase();
        if keys.contains(&key.as_str()) {
            found.push((key, unquoted(value)));
        }
    }
    found
}

/// Returns a value without quotes, escapes and comment.
fn unquoted(value: &str) -> String {
    let (mut text, mut in_quotes) = (String::new(), false);
    let mut chars = value.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => in_quotes = !in_quotes,
            '\\' => text.extend(chars.next()),
            '#' | ';' if !in_quotes => break,
            _ => text.push(c),
        }
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths without their root, sorted.
    fn names_below(root: &Path, paths: &[PathBuf]) -> Vec<String> {
        let name = |path: &PathBuf| path.strip_prefix(root).unwrap().display().to_string();
        let names: BTreeSet<String> = paths.iter().map(name).collect();
        names.into_iter().collect()
    }

    #[test]
    fn values_that_name_files_are_found() {
        let config = "[core]\n\thooksPath = my hooks ; comment\n\tbare = false\n[include] path = \"../x #1.inc\"\n[filter \"a]\"]\n\tclean = python tools/clean.py %f\n[remote \"origin\"]\n\turl = ../other\n[alias]\n\tco = checkout\n[core]\n\tpager =\n";
        let values = values(config);
        let values: Vec<(&str, &str)> = values
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let expected = [
            ("hookspath", "my hooks"),
            ("path", "../x #1.inc"),
            ("clean", "python tools/clean.py %f"),
            ("pager", ""),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn a_configuration_guards_what_it_names_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for dir in [
            ".git/worktrees/w",
            "store",
            "python",
            "my hooks",
            "tools",
            "sub",
            "deep",
        ] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        let linked = root.join("linked");
        fs::create_dir_all(linked.join("my hooks")).unwrap();
        for (name, text) in [
            (".git/HEAD", ""),
            (
                ".git/config",
                "[core]\n hooksPath = my hooks\n[credential]\n helper = store\n[include]\n path = ../deep/a\n",
            ),
            (".git/worktrees/w/HEAD", ""),
            (".git/worktrees/w/commondir", "../..\n"),
            (".git/worktrees/w/gitdir", "../../../linked/.git\n"),
            ("linked/.git", "gitdir: ../.git/worktrees/w\n"),
            ("deep/a", "[filter \"x\"]\n clean = python tools/x.py\n"),
            ("tools/x.py", ""),
        ] {
            fs::write(root.join(name), text).unwrap();
        }
        let find = |dir: &Path| {
            let dirs = [dir.to_owned()];
            names_below(&root, &Places::find(&dirs).to_guard(&dirs))
        };
        let expected = [
            ".git/config",
            ".git/worktrees/w/commondir",
            ".git/worktrees/w/gitdir",
            "deep/a",
            "linked/.git",
            "linked/my hooks",
            "my hooks",
            "tools/x.py",
        ];
        assert_eq!(find(&root), expected);
        // The repository around the workspace counts too.
        assert_eq!(find(&root.join("tools")), ["tools/x.py"]);
        assert_eq!(find(&linked), ["linked/.git", "linked/my hooks"]);
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
        let names = |paths: Vec<PathBuf>| names_below(&root, &paths);
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
