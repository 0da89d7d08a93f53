//! Files of a workspace that run later without a question. Where they cannot be kept read-only, a change is reported.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::sandbox::path_rules::GUARDED;
use crate::sandbox::policy::SandboxPolicy;

/// Directories nested deeper are not compared.
const MAX_DEPTH: usize = 4;

/// Maximum number of entries that are compared.
const MAX_ENTRIES: usize = 4096;

/// What tells whether a file has changed. The kernel sets the change time, which no program can choose.
type FileState = (u64, u64, i64, i64, u64, u32);

/// State of the guarded files before the command ran.
#[derive(Debug, Default)]
pub(super) struct GuardedFiles {
    roots: Vec<PathBuf>,
    states: BTreeMap<PathBuf, FileState>,
}

impl GuardedFiles {
    /// Reads the state of the guarded files of the directories that the command may change.
    pub(super) fn read(policy: &SandboxPolicy) -> GuardedFiles {
        let dirs = policy.write.iter().chain([&policy.dir]);
        let roots: Vec<PathBuf> = dirs
            .flat_map(|dir| GUARDED.iter().map(|name| dir.join(name)))
            .collect();
        GuardedFiles {
            states: states(&roots),
            roots,
        }
    }

    /// Names the files that are not as they were, one line each.
    pub(super) fn changes(&self) -> Vec<String> {
        let now = states(&self.roots);
        let changed = now
            .iter()
            .filter(|(path, state)| self.states.get(*path) != Some(state))
            .map(|(path, _)| path);
        let removed = self.states.keys().filter(|path| !now.contains_key(*path));
        changed
            .chain(removed)
            .filter(|path| !path.is_dir())
            .map(|path| {
                format!(
                    "the command changed {}, which other programs run or obey: review it",
                    path.display()
                )
            })
            .collect()
    }
}

fn states(roots: &[PathBuf]) -> BTreeMap<PathBuf, FileState> {
    let mut states = BTreeMap::new();
    for root in roots {
        add(root, 0, &mut states);
    }
    states
}

fn add(path: &Path, depth: usize, states: &mut BTreeMap<PathBuf, FileState>) {
    let Ok(meta) = fs::symlink_metadata(path) else {
        return;
    };
    if states.len() >= MAX_ENTRIES {
        return;
    }
    let state = (
        meta.dev(),
        meta.ino(),
        meta.ctime(),
        meta.ctime_nsec(),
        meta.size(),
        meta.mode(),
    );
    states.insert(path.to_owned(), state);
    if meta.is_dir() && depth < MAX_DEPTH {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            add(&entry.path(), depth + 1, states);
        }
    }
}
