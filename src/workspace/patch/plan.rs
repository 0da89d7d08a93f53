//! Computes what a whole patch does to the files that it names, without writing any.

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

/// The files of a patch while its operations are applied in order.
struct PatchedFiles<'a, R> {
    read: &'a mut R,
    files: Vec<PatchedFile>,
}

/// Computes the new version of each file of a patch. `read` returns the bytes of a file, or nothing if it does not exist;
/// it refuses what is not a regular file.
///
/// # Errors
/// A file is missing or cannot be edited, or a hunk does not fit: the message names the file.
pub fn plan_patch<R>(
    operations: &[PatchOperation],
    read: &mut R,
) -> Result<Vec<PatchedFile>, WorkspaceError>
where
    R: FnMut(&str, FinalLink) -> Result<Option<Vec<u8>>, WorkspaceError>,
{
    let mut files = PatchedFiles {
        read,
        files: Vec::new(),
    };
    for (at, operation) in operations.iter().enumerate() {
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
                    Some(target) if !is_same(target, path) => {
                        files.check_unmade(target)?;
                        // Refuses a directory in the place of the target.
                        let replaced = files.current(target, FinalLink::Followed)?;
                        let mut later = operations.iter().skip(at + 1);
                        if replaced.is_some() && later.any(|later| later.moves_away(target)) {
                            return Err(WorkspaceError::new(format!(
                                "{target}: the patch moves another file over this one before it moves this one away"
                            ))
                            .hint("move this file first"));
                        }
                        let (source, is_whole) = (files.source(path), files.is_whole(path));
                        files.remove(path);
                        files.set(target, Some(bytes), Some(source), (is_whole, stage));
                    }
                    _ => files.set(path, Some(bytes), None, (files.is_whole(path), stage)),
                }
            }
        }
    }
    Ok(files.files)
}

impl PatchOperation {
    /// Whether it moves the file at a path elsewhere.
    fn moves_away(&self, from: &str) -> bool {
        match self {
            PatchOperation::Update {
                path,
                move_to: Some(target),
                ..
            } => is_same(path, from) && !is_same(target, path),
            _ => false,
        }
    }
}

/// Returns a path without the parts of it that mean the same directory: `./a` is `a`.
fn plain_path(path: &str) -> PathBuf {
    let parts = Path::new(path).components();
    parts.filter(|part| *part != Component::CurDir).collect()
}

/// Whether two paths of a patch are the same but for `./`. A slash at the end counts: it names a directory.
fn is_same(first: &str, second: &str) -> bool {
    first == second
        || plain_path(first) == plain_path(second) && first.ends_with('/') == second.ends_with('/')
}

impl<R> PatchedFiles<'_, R>
where
    R: FnMut(&str, FinalLink) -> Result<Option<Vec<u8>>, WorkspaceError>,
{
    /// Returns a file as the operations so far have left it.
    fn current(&mut self, path: &str, link: FinalLink) -> Result<Option<Vec<u8>>, WorkspaceError> {
        match self.files.iter().find(|file| is_same(&file.path, path)) {
            Some(file) => Ok(file.bytes.clone()),
            None => (self.read)(path, link),
        }
    }

    /// Returns the path that a file had before the patch.
    fn source(&self, path: &str) -> String {
        let file = self.files.iter().find(|file| is_same(&file.path, path));
        let source = file.map(|file| file.moved_from.as_ref().unwrap_or(&file.path));
        source.map_or_else(|| path.to_owned(), Clone::clone)
    }

    /// Whether all of a file is in the patch so far.
    fn is_whole(&self, path: &str) -> bool {
        let mut files = self.files.iter();
        files.any(|file| is_same(&file.path, path) && file.is_whole)
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
        let made = self.files.iter().filter(|file| file.bytes.is_some());
        let mut made = made.filter(|file| file.is_whole || file.moved_from.is_some());
        let own = plain_path(path);
        let clash = made.find(|file| {
            let other = plain_path(&file.path);
            own.starts_with(&other) || other.starts_with(&own)
        });
        match clash {
            None => Ok(()),
            Some(file) if plain_path(&file.path) == own => Err(WorkspaceError::new(format!(
                "{path}: the patch brings two files to this path"
            ))),
            Some(file) => Err(WorkspaceError::new(format!(
                "{path}: the patch makes {} too: one of them would be a directory",
                file.path
            ))),
        }
    }

    fn remove(&mut self, path: &str) {
        self.set(path, None, None, (false, MatchStage::Exact));
        if let Some(file) = self.files.iter_mut().find(|file| is_same(&file.path, path)) {
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

    fn set(
        &mut self,
        path: &str,
        bytes: Option<Vec<u8>>,
        moved_from: Option<String>,
        (is_whole, stage): (bool, MatchStage),
    ) {
        match self.files.iter_mut().find(|file| is_same(&file.path, path)) {
            Some(file) => {
                file.stage = loosest([file.stage, stage]);
                file.moved_from = moved_from
                    .or(file.moved_from.take())
                    .filter(|_| bytes.is_some());
                file.bytes = bytes;
                file.is_whole = is_whole;
            }
            None => self.files.push(PatchedFile {
                path: path.to_owned(),
                bytes,
                moved_from,
                is_unlinked: false,
                is_whole,
                stage,
            }),
        }
    }
}
