//! Symlinks in a directory, such as those of a dotfile manager.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use super::planned_files::PlannedFiles;

/// Maximum number of entries that are read: links are set up manually and are few.
const MAX_ENTRIES: usize = 1000;

/// Returns where the symlinks lead that are at most `depth` levels below a directory.
pub(super) fn targets(dir: &Path, depth: usize) -> Vec<PathBuf> {
    planned_targets(dir, depth, &PlannedFiles::default())
}

/// Same as [`targets`], as if these files existed.
pub(super) fn planned_targets(dir: &Path, depth: usize, planned: &PlannedFiles) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([(dir.to_owned(), depth)]);
    let mut left = MAX_ENTRIES;
    while let Some((dir, depth)) = waiting.pop_front() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Some(fewer) = left.checked_sub(1) else {
                return found;
            };
            left = fewer;
            match entry.file_type() {
                Ok(kind) if kind.is_symlink() => found.extend(planned.real_path(&entry.path())),
                Ok(kind) if kind.is_dir() && depth > 1 => {
                    waiting.push_back((entry.path(), depth - 1));
                }
                _ => {}
            }
        }
    }
    found
}
