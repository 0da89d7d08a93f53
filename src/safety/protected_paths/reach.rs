//! Decides whether the possible paths of a call lead to a protected path, from the directories that it may work in.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{
    ANY, PathCandidate, PathRelation, PathUse, ProtectedPaths, Unchecked, pattern_matches,
};

/// Maximum number of directories to which a relative path may belong.
const MAX_BASES: usize = 64;

/// The file system as a search sees it.
pub trait FileSystem {
    /// Returns the absolute paths that a path may mean: symlinks followed, patterns expanded. `None` if there are too many.
    fn real_paths(&self, path: &Path) -> Option<Vec<PathBuf>>;

    /// Whether there is a directory of that name.
    fn is_dir(&self, path: &Path) -> bool;

    /// Returns the name of the protected file that a path is another name of.
    fn same_file(&self, path: &Path) -> Option<String>;

    /// Returns the names in a directory that are links to something protected, with the files that they mean. `None` if
    /// there are too many.
    fn links(&self, dir: &Path) -> Option<Vec<(String, PathBuf)>>;
}

/// The directories of a call.
#[derive(Debug)]
pub struct ReachSearch<'a, F> {
    paths: &'a ProtectedPaths,
    files: &'a F,
    /// The call only reads.
    reads: bool,
    bases: BTreeSet<PathBuf>,
    /// Directories that the call enters, so that single words may be names in them.
    entered: BTreeSet<PathBuf>,
}

impl<'a, F: FileSystem> ReachSearch<'a, F> {
    /// A search from these directories, the first of which is that of the shell.
    pub fn new(
        paths: &'a ProtectedPaths,
        files: &'a F,
        reads: bool,
        bases: &[PathBuf],
    ) -> ReachSearch<'a, F> {
        let cwd = bases
            .first()
            .filter(|cwd| cwd.is_absolute() && paths.find_real(cwd).is_some());
        ReachSearch {
            paths,
            files,
            reads,
            bases: bases
                .iter()
                .filter(|base| base.is_absolute())
                .cloned()
                .collect(),
            entered: cwd.cloned().into_iter().collect(),
        }
    }

    /// Returns the protected path that one of the candidates leads to.
    ///
    /// # Errors
    /// There are too many directories or files.
    pub fn find(
        mut self,
        candidates: &BTreeSet<PathCandidate>,
    ) -> Result<Option<String>, Unchecked> {
        let mut bases = self.bases.clone();
        let mut entered = self.entered.clone();
        let mut is_first = true;
        while is_first || !bases.is_empty() || !entered.is_empty() {
            if self.bases.len() + self.entered.len() > MAX_BASES {
                return Err(Unchecked::TooMuch);
            }
            let known = (self.bases.clone(), self.entered.clone());
            for one in candidates {
                let from = match one.usage {
                    PathUse::Bare | PathUse::BareOperand => &entered,
                    _ => &bases,
                };
                for path in absolute(one, from, is_first) {
                    if let Some(place) = self.reached(one, &path)? {
                        return Ok(Some(place));
                    }
                }
                for base in &bases {
                    if let Some(place) = self.linked(one, base)? {
                        return Ok(Some(place));
                    }
                }
            }
            bases = self.bases.difference(&known.0).cloned().collect();
            entered = self.entered.difference(&known.1).cloned().collect();
            is_first = false;
        }
        Ok(None)
    }

    /// Returns the protected path of which a single word is another name, in a directory that is not protected itself.
    fn linked(&self, one: &PathCandidate, base: &Path) -> Result<Option<String>, Unchecked> {
        if one.path.contains('/') {
            return Ok(None);
        }
        let word = one.path.to_lowercase();
        let links = self.files.links(base).ok_or(Unchecked::TooMuch)?;
        let named = links
            .iter()
            .filter(|(name, _)| pattern_matches(&word, &name.to_lowercase()));
        for (_, path) in named {
            match self.paths.find_real(path) {
                Some((place, PathRelation::Inside)) => return Ok(Some(place)),
                Some((place, PathRelation::Above)) if one.usage == PathUse::BareOperand => {
                    return Ok(Some(place));
                }
                _ => {}
            }
            if let Some(place) = self.files.same_file(path) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    fn reached(&mut self, one: &PathCandidate, path: &Path) -> Result<Option<String>, Unchecked> {
        let enters = matches!(one.usage, PathUse::Directory | PathUse::Whole);
        if enters && path.components().count() == 2 && path.to_string_lossy().ends_with(ANY) {
            if one.usage == PathUse::Directory {
                self.bases.insert(path.to_path_buf());
                self.entered.insert(path.to_path_buf());
            }
            return Ok(None);
        }
        // A program may drop `..` from the text before it follows links.
        for reading in BTreeSet::from([path.to_path_buf(), without_parents(path)]) {
            let real = self.files.real_paths(&reading).ok_or(Unchecked::TooMuch)?;
            let paths = self.paths;
            let real = real.iter().map(|path| (path, paths.find_real(path)));
            for (path, found) in std::iter::once((&reading, paths.find(&reading))).chain(real) {
                match found {
                    Some((place, PathRelation::Inside)) => return Ok(Some(place)),
                    Some((place, PathRelation::Above)) => {
                        let counts = match one.usage {
                            PathUse::Operand | PathUse::BareOperand => !is_unknown(path),
                            // A write to a directory as a whole: it may be moved or removed.
                            PathUse::Whole => !self.reads,
                            PathUse::Mention | PathUse::Bare | PathUse::Directory => false,
                        };
                        if counts {
                            return Ok(Some(place));
                        }
                        if enters {
                            self.bases.insert(without_parents(path));
                            self.entered.insert(without_parents(path));
                        }
                    }
                    None if enters && self.files.is_dir(path) => {
                        self.bases.insert(without_parents(path));
                    }
                    None => {}
                }
                if let Some(place) = self.files.same_file(path) {
                    return Ok(Some(place));
                }
            }
        }
        Ok(None)
    }
}

fn is_unknown(path: &Path) -> bool {
    path.to_string_lossy().contains(ANY)
}

/// Returns the absolute paths of a candidate. An absolute one is checked only the first time. `..` at the beginning may be
/// relative to any directory below one of the bases.
fn absolute(one: &PathCandidate, bases: &BTreeSet<PathBuf>, is_first: bool) -> BTreeSet<PathBuf> {
    let path = Path::new(&one.path);
    if path.is_absolute() {
        return is_first.then(|| path.to_path_buf()).into_iter().collect();
    }
    let mut parts = path.components().peekable();
    let mut climbs = false;
    while parts
        .next_if(|part| matches!(part, Component::ParentDir | Component::CurDir))
        .is_some_and(|part| {
            climbs |= part == Component::ParentDir;
            true
        })
    {}
    let rest: PathBuf = parts.collect();
    let mut all: BTreeSet<PathBuf> = bases.iter().map(|base| base.join(path)).collect();
    if climbs && !rest.as_os_str().is_empty() {
        let above = bases.iter().flat_map(|base| base.ancestors().skip(1));
        all.extend(above.map(|above| above.join(&rest)));
    }
    all
}

/// Removes `..` together with the component before it.
pub(super) fn without_parents(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            // The directories above an unknown directory are unknown.
            Component::ParentDir if !out.as_os_str().to_string_lossy().ends_with(ANY) => {
                out.pop();
            }
            Component::ParentDir => {}
            part => out.push(part),
        }
    }
    out
}
