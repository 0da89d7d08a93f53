//! Files of a workspace that run later without a question. New files, and changes of files that cannot be made read-only, are
//! reported.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::places::Places;
use crate::safety::protected_paths::{GIT_SETTINGS, GIT_STATE};

/// Directories nested deeper are not compared.
const MAX_DEPTH: usize = 16;

/// Maximum number of files of one place that are compared, so that a large place does not leave out others.
const MAX_ENTRIES: usize = 5000;

/// Maximum number of files of all places that are compared: a command that is ended has to be reported within [`super::END_TIME`].
const MAX_ALL_ENTRIES: usize = 100_000;

/// Maximum number of changes that are named.
const MAX_REPORTED: usize = 20;

/// Maximum number of files of a new place that are named one by one.
const MAX_NAMED: usize = 3;

/// Metadata that shows whether a file has changed. The kernel sets the change time, which no program can choose.
type FileState = (u64, u64, i64, i64, u64, u32);

/// State of the guarded files before a command ran. Reads the whole workspace, so it does not belong on a runtime thread.
#[derive(Debug, Default)]
pub struct GuardedFiles {
    dirs: Vec<PathBuf>,
    home: Option<PathBuf>,
    programs: Vec<PathBuf>,
    places: Places,
    states: BTreeMap<PathBuf, FileState>,
    /// Places with more files than are compared.
    large: BTreeSet<PathBuf>,
    /// Seconds since 1970.
    started: i64,
}

impl GuardedFiles {
    /// Reads the state of the guarded files of the directories that the command may change; canonical paths. The home directory is
    /// that of the user whose shells and git obey them, and `programs` are the directories of `PATH`.
    pub fn read(dirs: Vec<PathBuf>, home: Option<PathBuf>, programs: Vec<PathBuf>) -> GuardedFiles {
        let mut places = Places::find(&dirs, home.as_deref(), &programs);
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let read = PlaceStates::read(&places, &dirs);
        places.is_complete &= read.is_complete;
        GuardedFiles {
            states: read.states,
            large: read.large,
            places,
            dirs,
            home,
            programs,
            started: since_epoch.map_or(0, |time| time.as_secs() as i64),
        }
    }

    /// Returns the files to protect.
    pub(super) fn to_guard(&self) -> Vec<PathBuf> {
        self.places.to_guard(&self.dirs)
    }

    /// Names the files that have changed, one line each, and reverts changes that let a git directory obey another one.
    pub fn changes(&self) -> Vec<String> {
        if self.dirs.is_empty() {
            return Vec::new();
        }
        let mut lines = self.remove_common_dirs();
        let mut places = Places::find(&self.dirs, self.home.as_deref(), &self.programs);
        let read = PlaceStates::read(&places, &self.dirs);
        places.is_complete &= read.is_complete;
        if self.places.is_complete && !places.is_complete {
            lines.push(
                "the workspace has directories that cannot be read, or too many: files that decide which programs run later may have changed there"
                    .to_owned(),
            );
        }
        lines.extend(self.report(self.changed(&read, &places)));
        lines
    }

    /// Returns the changed files and directories, each with whether it is new.
    fn changed(&self, read: &PlaceStates, places: &Places) -> BTreeMap<PathBuf, bool> {
        let PlaceStates {
            states: now, large, ..
        } = read;
        let mut changed: BTreeMap<PathBuf, bool> = BTreeMap::new();
        let known: BTreeSet<&PathBuf> = self.places.files.iter().collect();
        let is_new = |place: &&PathBuf| self.places.is_complete && !known.contains(*place);
        let new: BTreeSet<&Path> = places.files.iter().filter(is_new).map(|p| &**p).collect();
        let is_file = |path: &Path| path.symlink_metadata().is_ok_and(|meta| !meta.is_dir());
        for place in &new {
            let files: Vec<&PathBuf> = now
                .range(place.to_path_buf()..)
                .map(|(path, _)| path)
                .take_while(|path| path.starts_with(place))
                .filter(|path| is_file(path))
                .collect();
            match files.len() {
                1..=MAX_NAMED if !large.contains(*place) => {
                    let files = files.into_iter();
                    changed.extend(files.map(|path| (self.reported(path, places), true)));
                }
                _ => drop(changed.insert(self.reported(place, places), true)),
            }
        }
        // Above the limit, new files of a place are not listed, so the place itself is reported.
        changed.extend(
            large
                .difference(&self.large)
                .map(|path| (path.clone(), false)),
        );
        // New files of places that were there, by their directories.
        let mut added: BTreeMap<Option<&Path>, Vec<&PathBuf>> = BTreeMap::new();
        for (path, state) in now {
            match self.states.get(path) {
                Some(before) if before == state => {}
                Some(_) if is_file(path) => {
                    changed.insert(self.reported(path, places), false);
                }
                None if path.ancestors().any(|place| new.contains(place)) => {}
                // Without a complete list, a file that was not seen before may be old.
                None if !self.places.is_complete && state.2 < self.started => {}
                None if is_file(path) => added.entry(path.parent()).or_default().push(path),
                _ => {}
            }
        }
        for (dir, files) in added {
            match dir.filter(|_| files.len() > MAX_NAMED) {
                Some(dir) => drop(changed.insert(self.reported(dir, places), true)),
                None => {
                    let files = files.into_iter();
                    changed.extend(files.map(|path| (self.reported(path, places), true)));
                }
            }
        }
        // Removed, or no longer reached by the search.
        let others = self
            .states
            .iter()
            .filter(|(path, _)| !now.contains_key(*path));
        // Git removes the state of finished operations.
        let others = others.filter(|(path, _)| {
            !GIT_STATE.iter().any(|name| path.ends_with(name)) || path.exists()
        });
        let others = others.filter(|(path, before)| {
            let meta = path.symlink_metadata();
            meta.map_or(true, |meta| state(&meta) != **before && !meta.is_dir())
        });
        changed.extend(others.map(|(path, _)| (path.clone(), false)));
        let linked = OnceCell::new();
        changed.retain(|path, is_new| {
            if !self.is_sample_hook(path, places) {
                return true;
            }
            let Ok(real) = path.canonicalize() else {
                return false;
            };
            !*is_new || linked.get_or_init(|| read.link_targets()).contains(&real)
        });
        changed
    }

    /// Whether a file is the sample of a hook, which git runs only if a link leads to it.
    fn is_sample_hook(&self, path: &Path, places: &Places) -> bool {
        let Some(hooks) = path.parent().filter(|dir| dir.ends_with("hooks")) else {
            return false;
        };
        let is_of_git = |dir: &Path| self.places.git_dirs.contains(dir);
        // A file that a configuration names is a place of its own.
        path.extension().is_some_and(|end| end == "sample")
            && hooks.parent().is_some_and(is_of_git)
            && !places.files.iter().any(|place| place == path)
    }

    /// Names at most [`MAX_REPORTED`] changes. Git directories come first, then changed files, then new ones: a command that makes
    /// many new files must not hide the other changes.
    fn report(&self, changed: BTreeMap<PathBuf, bool>) -> Vec<String> {
        let is_of_git = |path: &Path| self.places.git_dir_of(path).is_some();
        let is_new_git = |path: &Path| path.file_name().is_some_and(|name| name == ".git");
        let mut changed: Vec<(PathBuf, bool)> = changed.into_iter().collect();
        changed.sort_by_cached_key(|(path, is_new)| (!is_of_git(path), *is_new, !is_new_git(path)));
        let left_out = changed.len().saturating_sub(MAX_REPORTED);
        let named = changed.iter().take(MAX_REPORTED).map(|(path, _)| {
            format!(
                "the command changed {}, which other programs run or obey: review it",
                path.display()
            )
        });
        let mut lines: Vec<String> = named.collect();
        if left_out > 0 {
            lines.push(format!(
                "the command changed {left_out} more files that other programs run or obey"
            ));
        }
        lines
    }

    /// Of the settings of a new git directory, the directory is reported, and not each file in it.
    fn reported(&self, path: &Path, places: &Places) -> PathBuf {
        let is_new = |dir: &&Path| {
            let mut settings = GIT_SETTINGS.iter().chain(&GIT_STATE);
            places.git_dirs.contains(*dir)
                && !self.places.git_dirs.contains(*dir)
                && settings.any(|name| path.starts_with(dir.join(name)))
        };
        let new = path.ancestors().find(is_new);
        new.filter(|_| self.places.is_complete)
            .unwrap_or(path)
            .to_owned()
    }

    /// Removes a `commondir` that the command made in a git directory that was there before. Only a linked worktree of git has
    /// one: elsewhere it replaces configuration and hooks, and cannot be prevented by a mount, as it did not exist.
    fn remove_common_dirs(&self) -> Vec<String> {
        let is_worktree = |dir: &Path| {
            let parent = dir.parent().and_then(Path::file_name);
            parent.is_some_and(|name| name == "worktrees")
        };
        self.places
            .git_dirs
            .iter()
            .filter(|dir| !is_worktree(dir))
            // The command may have put a link to another repository in its place.
            .filter(|dir| dir.canonicalize().is_ok_and(|real| real == **dir))
            .map(|dir| dir.join("commondir"))
            .filter(|path| !self.states.contains_key(path))
            .filter(|path| fs::remove_file(path).is_ok())
            .map(|path| {
                format!(
                    "removed {}, which the command made: git would have used the settings of another directory",
                    path.display()
                )
            })
            .collect()
    }
}

/// The states of the files of places.
struct PlaceStates {
    states: BTreeMap<PathBuf, FileState>,
    large: BTreeSet<PathBuf>,
    /// Whether no place was left out.
    is_complete: bool,
}

impl PlaceStates {
    fn read(places: &Places, dirs: &[PathBuf]) -> PlaceStates {
        let mut read = PlaceStates {
            states: BTreeMap::new(),
            large: BTreeSet::new(),
            is_complete: true,
        };
        let mut left_of_all = MAX_ALL_ENTRIES;
        for place in places.by_importance() {
            if left_of_all == 0 {
                read.is_complete = false;
                break;
            }
            let mut left = MAX_ENTRIES.min(left_of_all);
            left_of_all -= left;
            add(place, dirs, 0, &mut left, &mut read.states);
            left_of_all += left;
            if left == 0 {
                read.large.insert(place.clone());
            }
        }
        read
    }

    /// Returns the files to which links in the places lead.
    fn link_targets(&self) -> BTreeSet<PathBuf> {
        let links = self.states.keys().filter(|path| path.is_symlink());
        links.filter_map(|path| path.canonicalize().ok()).collect()
    }
}

fn add(
    path: &Path,
    dirs: &[PathBuf],
    depth: usize,
    left: &mut usize,
    states: &mut BTreeMap<PathBuf, FileState>,
) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    if depth > MAX_DEPTH {
        *left = 0;
    }
    let Some(fewer) = left.checked_sub(1) else {
        return;
    };
    *left = fewer;
    states.insert(path.to_owned(), state(&meta));
    // A link leads to the file that programs obey: both count. The command cannot change files elsewhere.
    let target = meta
        .is_symlink()
        .then(|| fs::canonicalize(path).ok())
        .flatten();
    if let Some(target) = target.filter(|target| dirs.iter().any(|dir| target.starts_with(dir))) {
        add(&target, dirs, depth + 1, left, states);
    }
    if meta.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            add(&entry.path(), dirs, depth + 1, left, states);
        }
    }
}

fn state(meta: &Metadata) -> FileState {
    (
        meta.dev(),
        meta.ino(),
        meta.ctime(),
        meta.ctime_nsec(),
        meta.size(),
        meta.mode(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Reads, lets `change` work in the workspace, and returns the lines without what is the same in all.
    fn lines(change: impl FnOnce(&Path)) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::write(root.join(".git/config"), "[core]\n").unwrap();
        fs::write(root.join(".envrc"), "").unwrap();
        let before = GuardedFiles::read(vec![root.clone()], None, Vec::new());
        change(&root);
        let lines = before.changes();
        let root = format!("the command changed {}/", root.display());
        let short = |line: String| {
            let line = line.replace(&root, "");
            line.replace(", which other programs run or obey: review it", "")
        };
        lines.into_iter().map(short).collect()
    }

    #[test]
    fn new_files_do_not_hide_what_has_changed() {
        let lines = lines(|root| {
            for n in 0..30 {
                fs::write(root.join(format!("!{n}.code-workspace")), "").unwrap();
                fs::write(root.join(format!(".git/hooks/!{n}")), "").unwrap();
                fs::create_dir_all(root.join(format!("!{n}/.git/hooks"))).unwrap();
            }
            fs::write(root.join(".git/config"), "[core]\n\tfsmonitor = evil\n").unwrap();
            fs::write(root.join(".envrc"), "evil").unwrap();
        });
        assert_eq!(lines.len(), 21, "{lines:#?}");
        assert_eq!(lines[..3], [".git/config", ".git/hooks", ".envrc"]);
        let new_git = lines[3..20].iter().all(|line| line.ends_with("/.git"));
        assert!(new_git, "{lines:#?}");
        assert!(lines[20].contains("43 more files"), "{lines:#?}");
    }

    #[test]
    fn a_sample_of_a_hook_is_reported_where_it_can_run() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let hooks = root.join(".git/hooks");
        fs::create_dir_all(&hooks).unwrap();
        for name in ["linked.sample", "gone.sample"] {
            fs::write(hooks.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("linked.sample", hooks.join("pre-commit")).unwrap();
        let before = GuardedFiles::read(vec![root.clone()], None, Vec::new());
        fs::write(hooks.join("linked.sample"), "evil").unwrap();
        fs::write(hooks.join("new.sample"), "").unwrap();
        fs::remove_file(hooks.join("gone.sample")).unwrap();
        let lines = before.changes();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        assert!(lines[0].contains("linked.sample"), "{lines:#?}");
    }

    #[test]
    fn a_new_sample_is_reported_where_git_would_run_or_obey_it() {
        for (config, link, made) in [
            (
                "[core]\n\tfsmonitor = hooks/x.sample\n",
                None,
                "hooks/x.sample",
            ),
            (
                "[include]\n\tpath = ../hooks/x.sample\n",
                None,
                "hooks/x.sample",
            ),
            (
                "[core]\n\tfsmonitor = .git/hooks/x.sample\n",
                None,
                ".git/hooks/x.sample",
            ),
            ("", Some("../../hooks/x.sample"), "hooks/x.sample"),
            ("", Some("x.sample"), ".git/hooks/x.sample"),
            ("", Some("../../hooks/a"), ".git/hooks/x.sample"),
        ] {
            let root = tempfile::tempdir().unwrap();
            let root = root.path().canonicalize().unwrap();
            for dir in [".git/hooks", "hooks"] {
                fs::create_dir_all(root.join(dir)).unwrap();
            }
            fs::write(root.join(".git/config"), config).unwrap();
            if let Some(link) = link {
                std::os::unix::fs::symlink(link, root.join(".git/hooks/pre-commit")).unwrap();
                std::os::unix::fs::symlink("../.git/hooks/x.sample", root.join("hooks/a")).unwrap();
            }
            let before = GuardedFiles::read(vec![root.clone()], None, Vec::new());
            fs::write(root.join(made), "evil").unwrap();
            let lines = before.changes();
            assert!(
                lines.iter().any(|line| line.contains(made)),
                "{config}{link:?}: {lines:#?}"
            );
        }
    }

    #[test]
    fn many_new_places_are_reported_in_time() {
        let mut changed = None;
        let lines = lines(|root| {
            for n in 0..10_000 {
                fs::write(root.join(format!("{n}.code-workspace")), "").unwrap();
            }
            fs::write(root.join(".git/config"), "evil").unwrap();
            changed = Some(Instant::now());
        });
        let elapsed = changed.unwrap().elapsed();
        assert_eq!(lines[0], ".git/config");
        assert!(lines[20].contains("9981 more files"), "{lines:#?}");
        assert!(elapsed < super::super::END_TIME, "{elapsed:?}");
    }

    #[test]
    fn no_more_files_are_compared_than_there_is_time_for() {
        let lines = lines(|root| {
            fs::create_dir(root.join("many")).unwrap();
            for n in 0..MAX_ENTRIES {
                fs::write(root.join(format!("many/{n}")), "").unwrap();
            }
            for n in 0..MAX_ALL_ENTRIES / MAX_ENTRIES + 1 {
                fs::create_dir(root.join(format!("{n}"))).unwrap();
                let link = root.join(format!("{n}/.vscode"));
                std::os::unix::fs::symlink(root.join("many"), link).unwrap();
            }
            fs::write(root.join(".git/config"), "evil").unwrap();
        });
        assert!(lines[0].contains("or too many"), "{lines:#?}");
        assert_eq!(lines[1], ".git/config");
    }
}
