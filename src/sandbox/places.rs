//! Finds what decides which programs run later in a workspace: git directories, and settings of editors, MCP clients and coding
//! agents, wherever they are in it. Symlinks are not followed, and files are only looked at.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::{self, DirEntry};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::command_files::{files_at, has_end};
use super::git_config::{
    GitConfigs, is_git_data, linked_path, small_text, values_of, written_path,
};
use super::links;
use super::planned_files::PlannedFiles;
use crate::safety::protected_paths::{
    GIT_SETTINGS, GIT_STATE, HOME_DIRS, HOME_PLACES, NAMES as STARTUP_FILES, SYSTEM_PLACES,
    SYSTEM_SETTINGS, is_project_place,
};

/// Maximum number of directories that are searched.
const MAX_DIRECTORIES: usize = 20_000;

/// Maximum number of files and directories that are kept unchanged: each is a mount.
const MAX_GUARDED: usize = 200;

/// Number of files with one extension in a directory that count before others, so that files made for it do not use up the limit.
const MAX_OF_KIND: usize = 3;

/// Maximum number of ends of paths that are looked for in each directory.
const MAX_ENDS: usize = 64;

/// How deep links are followed from the directories of shells and of the login session.
const LINK_DEPTH: usize = 2;

/// Endings of the names of files that shells load from a directory that is linked into one of theirs.
const SHELL_ENDINGS: [&str; 6] = [".bash", ".fish", ".sh", ".zsh", ".zsh-theme", ".zwc"];

/// Those that are loaded from directories below it as well.
const DEEP_ENDINGS: [&str; 4] = [".fish", ".zsh", ".zsh-theme", ".zwc"];

/// Directories of functions that shells load from there.
const SHELL_DIRS: [&str; 4] = ["autoload", "completions", "conf.d", "functions"];

/// The plugin of aish, which is run by the shell together with the functions beside it.
const PLUGIN: &str = "aish.plugin.zsh";

/// Directories that tools make and delete as a whole. Git directories in them are not protected.
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

/// The files and directories that were found, those nearest to the workspace first.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Files, directories and symlinks.
    pub files: Vec<PathBuf>,
    /// Directories that git takes for git directories.
    pub git_dirs: BTreeSet<PathBuf>,
    /// Those of the files whose changes are only reported.
    pub reported: BTreeSet<PathBuf>,
    /// Whether every directory was searched.
    pub is_complete: bool,
    /// How many of the files do not depend on what the workspace has.
    known_before: usize,
}

impl Places {
    /// Searches directories and everything below them. The configuration of git in the home directory counts in each repository.
    /// `programs` are the directories of `PATH`.
    pub(super) fn find(dirs: &[PathBuf], home: Option<&Path>, programs: &[PathBuf]) -> Places {
        Places::find_planned(dirs, home, programs, &PlannedFiles::default(), None)
    }

    /// Same as [`Self::find`], as if these files existed. What the repositories around them name is found first, and what the directories
    /// around them hold. With an end of the search, directories that tools make are left out, and files in directories that are not
    /// known are looked for among these files and from the directories around them.
    pub(super) fn find_planned(
        dirs: &[PathBuf],
        home: Option<&Path>,
        programs: &[PathBuf],
        planned: &PlannedFiles,
        end: Option<Instant>,
    ) -> Places {
        let home = home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned()));
        let mut search = Search {
            configs: GitConfigs::of(home.clone(), dirs, planned.clone()),
            planned: planned.clone(),
            ..Search::default()
        };
        if let Some(home) = &home {
            search.add_home_places(home, programs, dirs);
        }
        search.add_named(dirs, dirs, None);
        search.places.known_before = search.places.files.len();
        let is_in_roots = |dir: &&Path| dirs.iter().any(|root| dir.starts_with(root));
        let around = planned.iter().flat_map(|file| file.ancestors().skip(1));
        let around: BTreeSet<&Path> = around.filter(is_in_roots).collect();
        let near = dirs.iter().map(PathBuf::as_path).chain(around.clone());
        let has_git = |dir: &&Path| dir.join(".git").exists();
        let trees: BTreeSet<&Path> = near
            .filter_map(|dir| dir.ancestors().find(has_git))
            .collect();
        for tree in trees {
            search.add_outer_repository(tree, dirs);
        }
        for dir in &around {
            search.look_into(dir, dirs);
        }
        search.generated.clear();
        search.waiting = dirs.iter().cloned().collect();
        search.places.is_complete = true;
        let mut searched = Vec::new();
        loop {
            // Directories that tools make are searched last: their entries must not use up the limit.
            let next = search.waiting.pop_front();
            let generated = || search.generated.pop_front().filter(|_| end.is_none());
            let Some(dir) = next.or_else(generated) else {
                break;
            };
            let is_late = end.is_some_and(|end| Instant::now() >= end);
            if searched.len() >= MAX_DIRECTORIES || is_late {
                search.places.is_complete = false;
                break;
            }
            search.look_into(&dir, dirs);
            searched.push(dir);
        }
        if end.is_some() {
            searched = around.into_iter().map(Path::to_owned).collect();
        }
        search.add_ends(&searched, dirs, end);
        search.places
    }

    /// Returns the files that can be protected during a command.
    pub(super) fn to_guard(&self, dirs: &[PathBuf]) -> Vec<PathBuf> {
        let is_generated = |path: &&PathBuf| {
            let below = dirs.iter().find_map(|dir| path.strip_prefix(dir).ok());
            below.is_some_and(|below| {
                below
                    .iter()
                    .any(|part| GENERATED.iter().any(|name| part == *name))
            })
        };
        self.by_importance()
            .into_iter()
            .filter(|path| !is_generated(path) && !self.reported.contains(*path))
            // Where a link leads, the settings are found on their own: commits change the rest.
            .filter(|path| !(path.ends_with(".git") && path.is_dir()))
            // Git changes its own state when it continues.
            .filter(|path| !GIT_STATE.iter().any(|name| path.ends_with(name)))
            .take(MAX_GUARDED)
            .cloned()
            .collect()
    }

    /// Returns the files in the order in which limits leave them out: the settings of git directories count before others, and
    /// many files of one kind in a directory last.
    pub(super) fn by_importance(&self) -> Vec<&PathBuf> {
        let mut of_kind: BTreeMap<_, usize> = BTreeMap::new();
        let mut ranked: Vec<(u8, &PathBuf)> = Vec::new();
        for (at, path) in self.files.iter().enumerate() {
            let kind = (path.parent(), path.extension());
            let count = of_kind.entry(kind).or_default();
            *count += 1;
            let is_first = at < self.known_before || self.git_dir_of(path).is_some();
            let is_one_of_many = path.extension().is_some() && *count > MAX_OF_KIND;
            let rank = match (is_first, is_one_of_many) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => 2,
            };
            ranked.push((rank, path));
        }
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, path)| path).collect()
    }

    /// Returns the git directory that a file is in.
    pub(super) fn git_dir_of<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.ancestors().find(|dir| self.git_dirs.contains(*dir))
    }
}

#[derive(Default)]
struct Search {
    places: Places,
    configs: GitConfigs,
    planned: PlannedFiles,
    added: BTreeSet<PathBuf>,
    /// Roots that are linked as a whole into a directory of a shell.
    shell_roots: BTreeSet<PathBuf>,
    waiting: VecDeque<PathBuf>,
    generated: VecDeque<PathBuf>,
}

impl Search {
    fn add(&mut self, path: PathBuf) {
        if self.added.insert(path.clone()) {
            self.places.files.push(path);
        }
    }

    /// Adds what shells, git and the login session run from the home directory, where it is or where a link leads, the user's own
    /// directories of programs, and settings of the system. Of a root inside one of them, every entry counts.
    fn add_home_places(&mut self, home: &Path, programs: &[PathBuf], roots: &[PathBuf]) {
        let planned = self.planned.clone();
        let below = |name: &&str| home.join(name);
        let directories: Vec<PathBuf> = HOME_DIRS.iter().chain(&HOME_PLACES).map(below).collect();
        let files = STARTUP_FILES.iter().chain(&[".gitconfig"]).map(below);
        let linked = |names: &[&str]| -> Vec<PathBuf> {
            let dirs = names.iter().map(|name| home.join(name));
            // Programs may be linked from any project, which is then changed as before.
            dirs.filter(|dir| !dir.ends_with("bin"))
                .flat_map(|dir| links::planned_targets(&dir, LINK_DEPTH, &planned))
                .collect()
        };
        let programs = programs.iter().filter_map(|dir| dir.canonicalize().ok());
        let programs = programs.filter(|dir| is_personal(dir, home));
        let etc = Path::new("/etc");
        let is_near = roots
            .iter()
            .any(|root| root.starts_with(etc) || etc.starts_with(root));
        let of_system = SYSTEM_PLACES.iter().chain(SYSTEM_SETTINGS);
        let of_system = of_system.filter(|_| is_near).map(PathBuf::from);
        let named = directories.iter().cloned().chain(files);
        let named = named.chain(programs).chain(of_system);
        let places = named.flat_map(|path| [planned.real_path(&path), Some(path)]);
        let entries = |dir: &Path| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            let entries = entries.map(|entry| entry.path());
            let entries: BTreeSet<PathBuf> = entries.chain(planned.entries(dir)).collect();
            entries.into_iter()
        };
        // A shell loads little of a directory that is linked there, which may be a whole project, and nothing of one above it.
        for place in linked(HOME_DIRS) {
            if roots.contains(&place) {
                let loaded = entries(&place).filter(|path| is_loaded_by_shell(path, &planned));
                loaded.for_each(|path| self.add(path));
                self.shell_roots.insert(place);
            } else if is_below(&place, roots) {
                self.add(place);
            }
        }
        for place in places.flatten().chain(linked(&HOME_PLACES)) {
            if is_below(&place, roots) && planned.has(&place) {
                self.add(place);
                continue;
            }
            for root in roots.iter().filter(|root| root.starts_with(&place)) {
                let obeyed = entries(root).filter(|path| !path.ends_with(".git"));
                obeyed.for_each(|path| self.add(path));
            }
        }
    }

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
        let of_shell = self.shell_roots.iter().find(|root| dir.starts_with(root));
        let is_top = of_shell.map(|root| *root == *dir);
        for entry in &entries {
            let name = entry.file_name();
            let lower = name.to_string_lossy().to_lowercase();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let is_plugin =
                has_plugin && (is_dir || lower.ends_with(".zsh") || lower.ends_with(".zwc"));
            let is_startup = STARTUP_FILES.contains(&lower.trim_end_matches(".zwc"));
            if is_plugin
                || is_startup
                || is_project_place(dir, &lower)
                || (lower == ".cargo" && entry.file_type().is_ok_and(|kind| kind.is_symlink()))
                || (name == ".git" && !is_dir)
            {
                let linked = entry.path().canonicalize().ok();
                let linked = linked.filter(|path| name == ".git" && path.is_dir());
                self.waiting
                    .extend(linked.filter(|path| is_below(path, roots)));
                self.add(entry.path());
            } else if is_top.is_some_and(|is_top| is_loadable_by_shell(entry, is_top)) {
                let path = entry.path();
                if !self.added.contains(&path) {
                    self.places.reported.insert(path.clone());
                }
                self.add(path);
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
        let settings = GIT_SETTINGS.iter().chain(&GIT_STATE);
        let settings = settings.map(|name| dir.join(name));
        let settings: Vec<PathBuf> = settings.filter(|path| self.planned.has(path)).collect();
        settings.into_iter().for_each(|path| self.add(path));
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
        let tree = values_of(&config, "worktree").into_iter();
        trees.extend(tree.filter_map(|tree| dir.join(tree).canonicalize().ok()));
        self.add_obeyed(dir, &trees, roots);
        // The configuration and the hooks may be those of another directory, which need not look like one of git.
        let common = written_path(&dir.join("commondir"));
        let common = common.and_then(|common| self.planned.real_path(&common));
        let Some(common) = common.filter(|dir| roots.iter().any(|root| dir.starts_with(root)))
        else {
            return;
        };
        if !dir.parent().is_some_and(|dir| dir.ends_with("worktrees")) {
            self.add_obeyed(&common, &trees, roots);
        }
        self.add_git_dir(&common, roots);
    }

    /// Adds what the configuration names of the repository with this work tree, which may lie outside of what is searched.
    fn add_outer_repository(&mut self, tree: &Path, roots: &[PathBuf]) {
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
        self.add_named(trees, roots, Some(git_dir));
    }

    /// Adds what the configuration of a repository, of the user and of the system names.
    fn add_named(&mut self, trees: &[PathBuf], roots: &[PathBuf], git_dir: Option<&Path>) {
        let mut obeyed = self.configs.named_by_user(trees);
        for name in ["config", "config.worktree"] {
            let config = git_dir.map(|dir| dir.join(name));
            obeyed.extend(
                config
                    .iter()
                    .flat_map(|config| self.configs.named_by(config, trees)),
            );
        }
        for path in obeyed {
            self.add_obeyed_file(path, roots);
        }
    }

    /// Adds the files whose paths end as git's configuration says, in whatever directory.
    fn add_ends(&mut self, searched: &[PathBuf], roots: &[PathBuf], time: Option<Instant>) {
        let ends = std::mem::take(&mut self.configs.ends);
        let planned = self.planned.clone();
        for file in planned.iter() {
            if ends.iter().any(|end| has_end(file, end)) {
                self.add_obeyed_file(file.to_owned(), roots);
            }
        }
        for end in ends.iter().take(MAX_ENDS) {
            // What is left are links to these files.
            if time.is_some_and(|time| Instant::now() >= time) {
                break;
            }
            for path in searched.iter().flat_map(|dir| files_at(dir, end, &planned)) {
                self.add_obeyed_file(path, roots);
            }
        }
    }

    /// Adds a file that a configuration names, unless git writes it itself.
    fn add_obeyed_file(&mut self, path: PathBuf, roots: &[PathBuf]) {
        let in_git_dir = |dir: &&Path| dir.ends_with(".git") || self.places.git_dirs.contains(*dir);
        let git_dir = path.ancestors().skip(1).find(in_git_dir);
        let of_git = git_dir.and_then(|dir| path.strip_prefix(dir).ok());
        if is_below(&path, roots) && !of_git.is_some_and(is_git_data) {
            self.add(path);
        }
    }
}

/// Whether shells load an entry of a directory that is linked into one of theirs.
fn is_loaded_by_shell(entry: &Path, planned: &PlannedFiles) -> bool {
    let name = entry.file_name().unwrap_or_default();
    let name = name.to_string_lossy().to_lowercase();
    match entry.is_dir() || !entry.is_symlink() && !entry.exists() && !planned.is_file(entry) {
        true => SHELL_DIRS.contains(&name.as_str()),
        false => name.starts_with('_') || SHELL_ENDINGS.iter().any(|ending| name.ends_with(ending)),
    }
}

/// Whether a file in a directory that is linked into one of a shell, or below it, may be loaded from there: a plugin names its own
/// files, and functions have no extension. Much of it is not loaded, so that it may change, but is reported.
fn is_loadable_by_shell(entry: &DirEntry, is_top: bool) -> bool {
    let Ok(meta) = entry.path().metadata() else {
        return false;
    };
    let name = entry.file_name().to_string_lossy().to_lowercase();
    let has_ending = DEEP_ENDINGS.iter().any(|ending| name.ends_with(ending));
    let is_function = !name.contains('.')
        && (name.starts_with('_') || is_top && meta.permissions().mode() & 0o111 == 0);
    meta.is_file() && (has_ending || is_function)
}

/// Whether a directory of `PATH` holds commands of the user, and not those of one project.
fn is_personal(dir: &Path, home: &Path) -> bool {
    let Ok(below) = dir.strip_prefix(home) else {
        return false;
    };
    let first = below.iter().next().map(|name| name.to_string_lossy());
    first.is_some_and(|name| name == "bin" || name.starts_with('.'))
        && !below
            .iter()
            .any(|part| GENERATED.iter().any(|name| part == *name))
}

/// Whether a path is below one of the directories and is not itself one of them.
fn is_below(path: &Path, dirs: &[PathBuf]) -> bool {
    dirs.iter().any(|dir| path.starts_with(dir) && path != dir)
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
            names_below(&root, &Places::find(&dirs, None, &[]).to_guard(&dirs))
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
        let places = Places::find(std::slice::from_ref(&root), None, &[]);
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

    #[test]
    fn made_up_files_push_out_no_settings_of_git() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("sub/.git/hooks")).unwrap();
        for name in ["sub/.git/config", "sub/.envrc", "sub/.mcp.json"] {
            fs::write(root.join(name), "").unwrap();
        }
        for n in 0..MAX_GUARDED + 10 {
            fs::write(root.join(format!("{n}.code-workspace")), "").unwrap();
        }
        let dirs = [root.clone()];
        let guarded = Places::find(&dirs, None, &[]).to_guard(&dirs);
        assert_eq!(guarded.len(), MAX_GUARDED);
        let names = names_below(&root, &guarded);
        for name in [
            "sub/.envrc",
            "sub/.git/config",
            "sub/.git/hooks",
            "sub/.mcp.json",
        ] {
            assert!(names.contains(&name.to_owned()), "{name}");
        }
    }

    #[test]
    fn places_of_the_home_directory_count_in_a_root_below_it() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let names = [
            ".config/autostart/x.desktop",
            ".config/environment.d/x.conf",
            ".config/fish/config.fish",
            ".config/git/config",
            ".config/nvim/init.lua",
            ".config/systemd/user/x.service",
            ".config/zsh/aliases.zsh",
            ".local/bin/ls",
            ".local/share/x",
            ".oh-my-zsh/.git/config",
            ".oh-my-zsh/lib/git.zsh",
            ".oh-my-zsh/oh-my-zsh.sh",
            ".tools/bin/x",
            ".zshrc.d/x",
            "dot/fish/functions/f.fish",
            "dot/git/attributes",
            "dot/profile",
            "dot/zsh/a.zsh",
            "project/bin/x",
            "src/other/x.zsh",
            "src/plugin/_plugin",
            "src/plugin/functions/f",
            "src/plugin/highlight",
            "src/plugin/lib/_deep",
            "src/plugin/lib/a.zsh",
            "src/plugin/lib/highlight",
            "src/plugin/main.c",
            "src/plugin/plugin.zsh",
            "units/x.service",
        ];
        for name in names {
            let path = home.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let link = |from: &str, to: &str| {
            std::os::unix::fs::symlink(home.join(to), home.join(from)).unwrap();
        };
        link(".profile", "dot/profile");
        link(".zsh", "dot/zsh");
        link(".config/git/attributes", "dot/git/attributes");
        link(".config/fish/functions", "dot/fish/functions");
        link(".local/bin/tool", "project/bin/x");
        link(".zshrc.d/plugin", "src/plugin");
        link(".zshrc.d/src", "src");
        link(".config/systemd/linked", "units");
        let programs = [".local/bin", ".tools/bin", "project/bin"].map(|name| home.join(name));
        let guarded = |root: &str| {
            let dirs = [home.join(root)];
            let places = Places::find(&dirs, Some(&home), &programs);
            names_below(&dirs[0], &places.to_guard(&dirs))
        };
        for (root, expected) in [
            (
                ".config",
                &[
                    "autostart",
                    "environment.d",
                    "fish",
                    "git",
                    "systemd",
                    "zsh",
                ][..],
            ),
            (".config/systemd", &["linked", "user"]),
            (".local", &["bin"]),
            (".local/bin", &["ls", "tool"]),
            (".oh-my-zsh", &[".git/config", "lib", "oh-my-zsh.sh"]),
            (".tools", &["bin"]),
            (
                "dot",
                &["fish/functions", "git/attributes", "profile", "zsh"],
            ),
            ("project", &[]),
            // A directory that is linked into a directory of a shell stays a project.
            ("src/plugin", &["_plugin", "functions", "plugin.zsh"]),
            ("src/plugin/functions", &[]),
            ("src/other", &[]),
            ("units", &["x.service"]),
        ] {
            assert_eq!(guarded(root), expected, "{root}");
        }
        // Changes of files that it may load are reported.
        let plugin = home.join("src/plugin");
        let dirs = std::slice::from_ref(&plugin);
        let places = Places::find(dirs, Some(&home), &programs);
        let expected = [
            "_plugin",
            "functions",
            "highlight",
            "lib/_deep",
            "lib/a.zsh",
            "plugin.zsh",
        ];
        assert_eq!(names_below(&plugin, &places.files), expected);
    }

    #[test]
    fn settings_of_the_system_count_where_the_workspace_holds_them() {
        let home = tempfile::tempdir().unwrap();
        let guarded = |root: &str, file: &str| {
            let planned = PlannedFiles::new([PathBuf::from(file)]);
            let end = Some(Instant::now());
            let places =
                Places::find_planned(&[root.into()], Some(home.path()), &[], &planned, end);
            let mut above = Path::new(file).ancestors();
            above.any(|path| places.files.iter().any(|place| place == path))
        };
        for (root, file) in [
            ("/", "/etc/gitconfig"),
            ("/etc", "/etc/ld.so.preload"),
            ("/etc", "/etc/cron.d/x"),
            ("/etc/cron.d", "/etc/cron.d/x"),
            ("/etc", "/etc/sudoers.d/x"),
        ] {
            assert!(guarded(root, file), "{file}");
        }
        for (root, file) in [("/etc", "/etc/motd"), ("/etc/nginx", "/etc/nginx/x.conf")] {
            assert!(!guarded(root, file), "{file}");
        }
    }
}
