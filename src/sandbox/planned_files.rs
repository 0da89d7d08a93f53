//! Files that are about to be written: the searches treat them as if they existed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symlinks in a path, as in Linux.
const MAX_LINKS: usize = 40;

/// Real paths of files that are about to be written.
#[derive(Debug, Clone, Default)]
pub(super) struct PlannedFiles(BTreeSet<PathBuf>);

impl PlannedFiles {
    pub(super) fn new(files: impl IntoIterator<Item = PathBuf>) -> PlannedFiles {
        PlannedFiles(files.into_iter().collect())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    /// Returns the real path of a file or directory that exists, or will exist.
    pub(super) fn real_path(&self, path: &Path) -> Option<PathBuf> {
        if let Ok(real) = path.canonicalize() {
            return Some(real);
        }
        if self.0.is_empty() {
            return None;
        }
        let mut left = MAX_LINKS;
        let real = resolved(Path::new("/"), path, &mut left)?;
        // Paths are in the order of their components, so that those below this one follow it.
        let next = self.0.range(real.clone()..).next();
        let is_planned = next.is_some_and(|file| file.starts_with(&real));
        is_planned.then_some(real)
    }

    /// Whether a file, directory or symlink exists, or will exist.
    pub(super) fn has(&self, path: &Path) -> bool {
        path.is_symlink() || self.real_path(path).is_some()
    }

    /// Whether a real path is that of a file.
    pub(super) fn is_file(&self, real: &Path) -> bool {
        self.0.contains(real) || real.is_file()
    }

    /// Returns the entries that a directory gets.
    pub(super) fn entries<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
        let below = self
            .0
            .iter()
            .filter_map(move |file| file.strip_prefix(dir).ok());
        below.filter_map(|below| Some(dir.join(below.iter().next()?)))
    }
}

/// Follows the symlinks of a path whose end does not exist.
fn resolved(base: &Path, path: &Path, left: &mut usize) -> Option<PathBuf> {
    let mut real = base.to_owned();
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                let next = real.join(name);
                real = match fs::read_link(&next) {
                    Ok(target) => {
                        *left = left.checked_sub(1)?;
                        resolved(&real, &target, left)?
                    }
                    Err(_) => next,
                };
            }
            Component::ParentDir => drop(real.pop()),
            Component::RootDir => real = PathBuf::from("/"),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Some(real)
}
