//! Computes what a whole patch does to the files that it names, without writing any.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::place::apply_hunks;
use super::{PatchOperation, loosest};
use crate::workspace::edit::MatchStage;
use crate::workspace::failure::WorkspaceError;
use crate::workspace::text_file::TextFile;

/// A file that a patch changes. The paths are as the model wrote them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchedFile {
    /// Path of the file.
    pub path: String,
    /// Bytes of the new version; nothing if the file is deleted or was moved away.
    pub bytes: Option<Vec<u8>>,
    /// Path from which the file was moved here: its owner, mode and extended attributes come along.
    pub moved_from: Option<String>,
    /// The path was deleted or moved away before: a symbolic link at its end is removed, or replaced, but not followed.
    pub is_unlinked: bool,
    /// All of the new version is in the patch.
    pub is_whole: bool,
    /// The loosest stage at which a hunk matched.
    pub stage: MatchStage,
}

/// What a path means that ends with a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FinalLink {
    /// The file to which the link leads.
    Followed,
    /// The link itself.
    Meant,
}

/// A path without `./`, and whether it ends with a slash, which names a directory. The paths below one follow it in order.
type PathKey = (PathBuf, bool);

/// The files of a patch while its operations are applied in order.
struct PatchedFiles<'a, R> {
    read: &'a mut R,
    files: Vec<PatchedFile>,
    /// Their positions.
    by_path: BTreeMap<PathKey, usize>,
}

/// Computes the new version of each file of a patch. `read` returns the bytes of a file, or nothing if it does not exist;
/// it refuses what is not a regular file. `check` is called before each operation, and may end the work.
///
/// # Errors
/// A file is missing or cannot be edited, or a hunk does not fit: the message names the file.
pub fn plan_patch<R>(
    operations: &[PatchOperation],
    read: &mut R,
    check: &dyn Fn() -> Result<(), WorkspaceError>,
) -> Result<Vec<PatchedFile>, WorkspaceError>
where
    R: FnMut(&str, FinalLink) -> Result<Option<Vec<u8>>, WorkspaceError>,
{
    let mut files = PatchedFiles {
        read,
        files: Vec::new(),
        by_path: BTreeMap::new(),
    };
    let numbered = operations.iter().enumerate();
    let moved_away = numbered.filter_map(|(at, operation)| Some((operation.moved_from()?, at)));
    // The last operation that moves each file.
    let moved_away: BTreeMap<PathKey, usize> = moved_away.collect();
    for (at, operation) in operations.iter().enumerate() {
        check()?;
        match operation {
            PatchOperation::Add { path, text } => files.add(path, text)?,
            PatchOperation::Delete { path } => {
                files.existing(path, FinalLink::Meant, "to delete")?;
                files.remove(path);
            }
            PatchOperation::Update {
                path,
                move_to,
                hunks,
            } => {
                let old = files.existing(path, FinalLink::Followed, "to update")?;
                let (bytes, stage) = if hunks.is_empty() {
                    (old, MatchStage::Exact)
                } else {
                    let text = TextFile::parse(&old).map_err(|error| error.of(path))?;
                    apply_hunks(&text, hunks).map_err(|error| error.of(path))?
                };
                match move_to {
                    Some(target) if key(target) != key(path) => {
                        files.check_unmade(target)?;
                        // Refuses a directory in the place of the target.
                        let replaced = files.current(target, FinalLink::Followed)?;
                        let last_move = moved_away.get(&key(target));
                        if replaced.is_some() && last_move.is_some_and(|last| *last > at) {
                            return Err(WorkspaceError::new(format!(
                                "{target}: the patch moves another file over this one before it moves this one away"
                            ))
                            .hint("move this file first"));
                        }
                        let (source, is_whole) = (files.source(path), files.is_whole(path));
                        files.remove(path);
                        files.set(target, Some(bytes), Some(source), (is_whole, stage));
                    }
                    _ => {
                        let is_whole = files.is_whole(path);
                        files.set(path, Some(bytes), None, (is_whole, stage));
                    }
                }
            }
        }
    }
    Ok(files.files)
}

impl PatchOperation {
    /// Returns the path from which it moves a file elsewhere.
    fn moved_from(&self) -> Option<PathKey> {
        match self {
            PatchOperation::Update {
                path,
                move_to: Some(target),
                ..
            } => Some(key(path)).filter(|from| *from != key(target)),
            _ => None,
        }
    }
}

/// Returns what paths of a patch that are the same but for `./` have in common.
fn key(path: &str) -> PathKey {
    let parts = Path::new(path).components();
    let plain = parts.filter(|part| *part != Component::CurDir).collect();
    (plain, path.ends_with('/'))
}

impl<R> PatchedFiles<'_, R>
where
    R: FnMut(&str, FinalLink) -> Result<Option<Vec<u8>>, WorkspaceError>,
{
    fn file(&self, path: &str) -> Option<&PatchedFile> {
        self.files.get(*self.by_path.get(&key(path))?)
    }

    /// Returns a file as the operations so far have left it.
    fn current(&mut self, path: &str, link: FinalLink) -> Result<Option<Vec<u8>>, WorkspaceError> {
        match self.file(path) {
            Some(file) => Ok(file.bytes.clone()),
            None => (self.read)(path, link),
        }
    }

    /// Returns the path that a file had before the patch.
    fn source(&self, path: &str) -> String {
        let file = self.file(path);
        let source = file.map(|file| file.moved_from.as_ref().unwrap_or(&file.path));
        source.map_or_else(|| path.to_owned(), Clone::clone)
    }

    /// Whether all of a file is in the patch so far.
    fn is_whole(&self, path: &str) -> bool {
        self.file(path).is_some_and(|file| file.is_whole)
    }

    fn existing(
        &mut self,
        path: &str,
        link: FinalLink,
        purpose: &str,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let missing = || WorkspaceError::new(format!("{path}: the file {purpose} does not exist"));
        self.current(path, link)?.ok_or_else(missing)
    }

    /// Refuses a path to which the operations so far have brought a file, which would be lost, or which they have made a directory.
    fn check_unmade(&self, path: &str) -> Result<(), WorkspaceError> {
        let (own, _) = key(path);
        let above = own.ancestors().flat_map(|dir| {
            let keys = [false, true].map(|is_directory| (dir.to_owned(), is_directory));
            keys.map(|key| self.by_path.get(&key))
        });
        let below = self.by_path.range((own.clone(), false)..);
        let below = below.take_while(|((other, _), _)| other.starts_with(&own));
        let related = above.flatten().chain(below.map(|(_, at)| at));
        let clash = related
            .filter_map(|at| self.files.get(*at))
            .filter(|file| file.bytes.is_some())
            .find(|file| file.is_whole || file.moved_from.is_some());
        match clash {
            None => Ok(()),
            Some(file) if key(&file.path).0 == own => Err(WorkspaceError::new(format!(
                "{path}: the patch brings two files to this path"
            ))),
            Some(file) => Err(WorkspaceError::new(format!(
                "{path}: the patch makes {} too: one of them would be a directory",
                file.path
            ))),
        }
    }

    fn remove(&mut self, path: &str) {
        let file = self.set(path, None, None, (false, MatchStage::Exact));
        if let Some(file) = file {
            file.is_unlinked = true;
        }
    }

    /// Adds a file. An existing one is replaced, in its encoding and with its line ends where it is a text.
    fn add(&mut self, path: &str, text: &str) -> Result<(), WorkspaceError> {
        self.check_unmade(path)?;
        let old = self.current(path, FinalLink::Followed)?.unwrap_or_default();
        let old = TextFile::parse(&old).or_else(|_| TextFile::parse(&[]));
        let bytes = old.and_then(|old| old.rewritten(text));
        let bytes = bytes.map_err(|error| error.of(path))?;
        self.set(path, Some(bytes), None, (true, MatchStage::Exact));
        Ok(())
    }

    /// Sets the new version of a file, and returns it.
    fn set(
        &mut self,
        path: &str,
        bytes: Option<Vec<u8>>,
        moved_from: Option<String>,
        (is_whole, stage): (bool, MatchStage),
    ) -> Option<&mut PatchedFile> {
        let next = self.files.len();
        let at = *self.by_path.entry(key(path)).or_insert(next);
        if at == next {
            self.files.push(PatchedFile {
                path: path.to_owned(),
                bytes: None,
                moved_from: None,
                is_unlinked: false,
                is_whole,
                stage,
            });
        }
        let file = self.files.get_mut(at)?;
        file.stage = loosest([file.stage, stage]);
        file.moved_from = moved_from
            .or(file.moved_from.take())
            .filter(|_| bytes.is_some());
        file.bytes = bytes;
        file.is_whole = is_whole;
        Some(file)
    }
}
