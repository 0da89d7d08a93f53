//! What runs later without a question, in a workspace. What is new, and what cannot be kept read-only, is reported.

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

/// Maximum number of changes that are named.
const MAX_REPORTED: usize = 20;

/// Maximum number of files of a new place that are named one by one.
const MAX_NAMED: usize = 3;

/// What tells whether a file has changed. The kernel sets the change time, which no program can choose.
type FileState = (u64, u64, i64, i64, u64, u32);

/// State of the guarded files before a command ran. Reads the whole workspace, so it does not belong on a runtime thread.
#[derive(Debug, Default)]
pub struct GuardedFiles {
    dirs: Vec<PathBuf>,
    home: Option<PathBuf>,
    places: Places,
    states: BTreeMap<PathBuf, FileState>,
    /// Places with more files than are compared.
    large: BTreeSet<PathBuf>,
    /// Seconds since 1970.
    started: i64,
}

impl GuardedFiles {
    /// Reads the state of the guarded files of the directories that the command may change; canonical paths. The home directory is
    /// that of the user whose git obeys them.
    pub fn read(dirs: Vec<PathBuf>, home: Option<PathBuf>) -> GuardedFiles {
        let places = Places::find(&dirs, home.as_deref());
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let PlaceStates { states, large } = states(&places.files, &dirs);
        GuardedFiles {
            states,
            large,
            places,
            dirs,
            home,
            started: since_epoch.map_or(0, |time| time.as_secs() as i64),
        }
    }

    /// Returns what is to be kept unchanged.
    pub(super) fn to_guard(&self) -> Vec<PathBuf> {
        self.places.to_guard(&self.dirs)
    }

    /// Names the files that are not as they were, one line each, and takes back what lets a git directory obey another one.
    pub fn changes(&self) -> Vec<String> {
        if self.dirs.is_empty() {
            return Vec::new();
        }
        let mut lines = self.remove_common_dirs();
        let places = Places::find(&self.dirs, self.home.as_deref());
        let PlaceStates { states: now, large } = states(&places.files, &self.dirs);
        let mut changed: BTreeSet<PathBuf> = BTreeSet::new();
        let known: BTreeSet<&PathBuf> = self.places.files.iter().collect();
        let is_new = |place: &&PathBuf| self.places.is_complete && !known.contains(*place);
        let new: Vec<&PathBuf> = places.files.iter().filter(is_new).collect();
        for place in &new {
            let files: Vec<&PathBuf> = now
                .range((*place).clone()..)
                .map(|(path, _)| path)
                .take_while(|path| path.starts_with(place))
                .filter(|path| path.symlink_metadata().is_ok_and(|meta| !meta.is_dir()))
                .collect();
            match files.len() {
                1..=MAX_NAMED if !large.contains(*place) => {
                    changed.extend(files.into_iter().map(|path| self.reported(path, &places)))
                }
                _ => drop(changed.insert(self.reported(place, &places))),
            }
        }
        // Above the limit, new files of a place are not listed, so the place itself is reported.
        changed.extend(large.difference(&self.large).cloned());
        for (path, state) in &now {
            let is_changed = match self.states.get(path) {
                Some(before) => before != state,
                None if new.iter().any(|place| path.starts_with(place)) => false,
                // Without a complete list, a file that was not seen before may be old.
                None => self.places.is_complete || state.2 >= self.started,
            };
            if is_changed && path.symlink_metadata().is_ok_and(|meta| !meta.is_dir()) {
                changed.insert(self.reported(path, &places));
            }
        }
        // Removed, or no longer reached by the search.
        let others = self
            .states
            .iter()
            .filter(|(path, _)| !now.contains_key(*path));
        // Git removes the state of what it has finished.
        let others = others.filter(|(path, _)| {
            !GIT_STATE.iter().any(|name| path.ends_with(name)) || path.exists()
        });
        let others = others.filter(|(path, before)| {
            let meta = path.symlink_metadata();
            meta.map_or(true, |meta| state(&meta) != **before && !meta.is_dir())
        });
        changed.extend(others.map(|(path, _)| path.clone()));
        if self.places.is_complete && !places.is_complete {
            lines.push(
                "the workspace has directories that cannot be read, or too many: what decides which programs run later may have changed there"
                    .to_owned(),
            );
        }
        let left_out = changed.len().saturating_sub(MAX_REPORTED);
        lines.extend(changed.iter().take(MAX_REPORTED).map(|path| {
            format!(
                "the command changed {}, which other programs run or obey: review it",
                path.display()
            )
        }));
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
            let is_setting = GIT_SETTINGS
                .iter()
                .chain(&GIT_STATE)
                .any(|name| path.starts_with(dir.join(name)));
            is_setting && places.git_dirs.contains(*dir) && !self.places.git_dirs.contains(*dir)
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
                    "removed {}, which the command made: git would have obeyed the settings of another directory",
                    path.display()
                )
            })
            .collect()
    }
}

/// The states of the files of places.
#[derive(Default)]
struct PlaceStates {
    states: BTreeMap<PathBuf, FileState>,
    large: BTreeSet<PathBuf>,
}

fn states(places: &[PathBuf], dirs: &[PathBuf]) -> PlaceStates {
    let mut all = PlaceStates::default();
    for place in places {
        let mut left = MAX_ENTRIES;
        add(place, dirs, 0, &mut left, &mut all.states);
        if left == 0 {
            all.large.insert(place.clone());
        }
    }
    all
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
    // A link leads to what is obeyed: both count. The command cannot change what is elsewhere.
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
