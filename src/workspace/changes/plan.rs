//! The planned steps of a commit, and the completed ones.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;

use super::staging::ReplaceMethod;
use super::{FileSnapshot, PreparedChange};
use crate::workspace::failure::WorkspaceError;

/// A step of a commit that changes something on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitStep {
    /// The old versions are kept.
    Keep,
    /// A directory is created.
    CreateDirectory,
    /// A file for a new version is created.
    Stage,
    /// A part of a new version is written.
    Write,
    /// The old version gets a second name.
    Link,
    /// The new version takes the name of the file, or the file is removed.
    Replace,
    /// A part of a file is overwritten.
    Overwrite,
    /// The directories are synced.
    Sync,
    /// Everything is done; second names are removed.
    CleanUp,
}

/// Sees each step before it is taken, and may fail it. Tests fail a commit, or kill its process, at each step.
pub type StepObserver<'a> = &'a mut dyn FnMut(CommitStep) -> io::Result<()>;

/// Planned step of a commit for one file.
#[derive(Debug, Clone, Copy)]
pub struct PlannedFile<'a> {
    /// The change.
    pub change: &'a PreparedChange,
    /// The file as it is now.
    pub before: Option<&'a FileSnapshot>,
    /// How it gets its new version.
    pub method: ReplaceMethod,
    /// Names in the directory of the file that the commit uses and removes.
    pub temporary_names: [&'a OsStr; 2],
}

/// Planned steps of a commit.
#[derive(Debug, Clone)]
pub struct ChangePlan<'a> {
    /// The files.
    pub files: Vec<PlannedFile<'a>>,
    /// Directories that do not exist yet, outer ones first.
    pub new_directories: Vec<PathBuf>,
}

/// Keeps the old versions of files while they are changed, for undoing the changes later and after a crash.
pub trait OriginalKeeper {
    /// Keeps the old versions, synced, before any file is changed. Called again with a changed plan if a file has to be
    /// written in place after all.
    ///
    /// # Errors
    /// They could not be written; then nothing is changed.
    fn keep(&mut self, plan: &ChangePlan<'_>) -> Result<(), WorkspaceError>;

    /// All changes are made, and no temporary name is left.
    fn committed(&mut self);

    /// All changes are undone, or `complete` is false and the old versions are still needed.
    fn rolled_back(&mut self, complete: bool);
}

/// Outcome for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its bytes or its mode are others.
    Changed,
    /// It is gone.
    Removed,
}

/// A committed change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedFile {
    /// Path of the file.
    pub path: PathBuf,
    /// What happened to it.
    pub kind: ChangeKind,
    /// How it got its new version.
    pub method: ReplaceMethod,
}

/// What a commit has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommitSummary {
    /// The changed files, in the order of the changes; without those that were the same already.
    pub files: Vec<CommittedFile>,
    /// Directories that were created, outer ones first.
    pub created_directories: Vec<PathBuf>,
}
