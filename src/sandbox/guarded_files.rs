//! What runs later without a question, in a workspace. What is new, and what cannot be kept read-only, is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::places::Places;

/// Directories nested deeper are not compared.
const MAX_DEPTH: usize = 4;

/// Maximum number of files of one place that are compared, so that a large place does not leave out others.
const MAX_ENTRIES: usize = 1000;

/// Maximum number of changes that are named.
const MAX_REPORTED: usize = 20;

/// What tells whether a file has changed. The kernel sets the change time, which no program can choose.
type FileState = (u64, u64, i64, i64, u64, u32);

/// State of the guarded files before a command ran. Reads the whole workspace, so it does not belong on a runtime thread.
#[derive(Debug, Default)]
pub struct GuardedFiles {
    dirs: Vec<PathBuf>,
    places: Places,
    states: BTreeMap<PathBuf, FileState>,
    /// Seconds since 1970.
    started: i64,
}

impl GuardedFiles {
    /// Reads the state of the guarded files of the directories that the command may change; canonical paths.
    pub fn read(dirs: Vec<PathBuf>) -> GuardedFiles {
        let places = Places::find(&dirs);
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        GuardedFiles {
            states: states(&places.files),
            places,
            dirs,
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
        let places = Places::find(&self.dirs);
        let now = states(&places.files);
        let mut changed: BTreeSet<PathBuf> = BTreeSet::new();
        for (path, state) in &now {
            let is_changed = match self.states.get(path) {
                Some(before) => before != state,
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

    /// Of a new git directory, the directory is reported, and not each file in it.
    fn reported(&self, path: &Path, places: &Places) -> PathBuf {
        let is_new =
            |dir: &&Path| places.git_dirs.contains(*dir) && !self.places.git_dirs.contains(*dir);
        let new = path.ancestors().filter(is_new).last();
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

fn states(places: &[PathBuf]) -> BTreeMap<PathBuf, FileState> {
    let mut states = BTreeMap::new();
    for place in places {
        let mut left = MAX_ENTRIES;
        add(place, 0, &mut left, &mut states);
    }
    states
}

fn add(path: &Path, depth: usize, left: &mut usize, states: &mut BTreeMap<PathBuf, FileState>) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    let Some(fewer) = left.checked_sub(1) else {
        return;
    };
    *left = fewer;
    states.insert(path.to_owned(), state(&meta));
    // A link leads to what is obeyed: both count.
    let target = meta
        .is_symlink()
        .then(|| fs::canonicalize(path).ok())
        .flatten();
    if let Some(target) = target
        && depth < MAX_DEPTH
    {
        add(&target, depth + 1, left, states);
    }
    if meta.is_dir() && depth < MAX_DEPTH {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            add(&entry.path(), depth + 1, left, states);
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
