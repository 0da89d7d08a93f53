//! Makes prepared changes together.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use nix::unistd::{UnlinkatFlags, unlinkat};

use super::file_work::{CreatedDirectory, FileWork};
use super::plan::{
    ChangeKind, ChangePlan, CommitStep, CommitSummary, CommittedFile, OriginalKeeper, PlannedFile,
    StepObserver,
};
use super::staging::{self, ReplaceMethod};
use super::{FileSnapshot, FileVersion, PreparedChange};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::{PathFault, shown_path};

/// Makes all changes or none.
///
/// # Errors
/// A file is not what it was when its change was computed, cannot be changed, or the disk is full. Nothing has changed
/// then, unless the hint says otherwise.
pub fn commit(
    changes: Vec<PreparedChange>,
    keeper: Option<&mut dyn OriginalKeeper>,
) -> Result<CommitSummary, WorkspaceError> {
    commit_observed(changes, keeper, &mut |_| Ok(()))
}

/// Same as [`commit`], with an observer of its steps.
///
/// # Errors
/// Same as [`commit`].
pub fn commit_observed(
    mut changes: Vec<PreparedChange>,
    mut keeper: Option<&mut dyn OriginalKeeper>,
    observer: StepObserver<'_>,
) -> Result<CommitSummary, WorkspaceError> {
    changes.retain(|change| !change.is_unchanged());
    let mut transaction = Transaction::check(&changes)?;
    if transaction.files.is_empty() {
        return Ok(CommitSummary::default());
    }
    let made = transaction.make(&mut keeper, observer);
    match made {
        Ok(()) => {
            // Before the record is complete: only that of an incomplete commit says which names a later start has to remove.
            transaction.files.iter().for_each(FileWork::clean_up);
            if let Some(keeper) = keeper {
                keeper.committed();
            }
            Ok(transaction.summary())
        }
        Err(error) => {
            let left = transaction.roll_back();
            if let Some(keeper) = keeper {
                keeper.rolled_back(left.is_empty());
            }
            Err(if left.is_empty() {
                error
            } else {
                error.hint(format!("not undone: {}", left.join("; ")))
            })
        }
    }
}

/// Refuses several changes of one file, by one name or by two, given with what each file is now.
///
/// # Errors
/// A file is changed twice.
pub(super) fn check_distinct<'a>(
    files: impl Iterator<Item = (&'a PreparedChange, Option<&'a FileSnapshot>)>,
) -> Result<(), WorkspaceError> {
    let (mut paths, mut identities) = (BTreeSet::new(), BTreeSet::new());
    for (change, before) in files {
        let identity = before.map(|before| (before.stamp.device, before.stamp.inode));
        let is_new = identity.is_none_or(|identity| identities.insert(identity));
        if !paths.insert(change.path()) || !is_new {
            return Err(change
                .fault("is changed twice, perhaps under another name")
                .hint("combine the changes of each file"));
        }
    }
    Ok(())
}

struct Transaction<'a> {
    files: Vec<FileWork<'a>>,
    created: Vec<CreatedDirectory>,
}

impl<'a> Transaction<'a> {
    /// Checks all files before anything is changed.
    fn check(changes: &'a [PreparedChange]) -> Result<Transaction<'a>, WorkspaceError> {
        let mut files: Vec<FileWork<'a>> = Vec::with_capacity(changes.len());
        for change in changes {
            files.push(FileWork::check(change)?);
        }
        check_distinct(files.iter().map(|file| (file.change, file.before.as_ref())))?;
        Ok(Transaction {
            files,
            created: Vec::new(),
        })
    }

    fn make(
        &mut self,
        keeper: &mut Option<&mut dyn OriginalKeeper>,
        observer: StepObserver<'_>,
    ) -> Result<(), WorkspaceError> {
        let new_directories = self.missing_directories()?;
        self.keep(keeper, &new_directories, observer)?;
        let mut is_replanned = false;
        for file in &mut self.files {
            is_replanned |= file.stage(&mut self.created, observer)?;
        }
        if is_replanned {
            self.keep(keeper, &new_directories, observer)?;
        }
        // Steps that can fail half-way go first. A moved file is removed only once it is in its new place.
        let mut order: Vec<&mut FileWork<'_>> = self.files.iter_mut().collect();
        order.sort_by_key(|file| match (file.method, &file.change.after) {
            (ReplaceMethod::InPlace, _) => 0,
            (_, FileVersion::Present { .. } | FileVersion::Link(_)) => 1,
            (_, FileVersion::Absent) => 2,
        });
        for file in order {
            file.replace(observer)?;
        }
        self.sync(observer)
    }

    fn keep(
        &self,
        keeper: &mut Option<&mut dyn OriginalKeeper>,
        new_directories: &[PathBuf],
        observer: StepObserver<'_>,
    ) -> Result<(), WorkspaceError> {
        let Some(keeper) = keeper else { return Ok(()) };
        observer(CommitStep::Keep).map_err(|error| {
            WorkspaceError::new(format!("the old versions cannot be kept: {error}"))
        })?;
        let files = self.files.iter().map(|file| PlannedFile {
            change: file.change,
            before: file.before.as_ref(),
            method: file.method,
            temporary_names: [&file.staged_name, &file.backup_name],
        });
        keeper.keep(&ChangePlan {
            files: files.collect(),
            new_directories: new_directories.to_vec(),
        })
    }

    fn missing_directories(&self) -> Result<Vec<PathBuf>, WorkspaceError> {
        let (mut missing, mut known) = (Vec::new(), BTreeSet::new());
        for file in &self.files {
            let mut above = Vec::new();
            let mut directory = file.change.target.parent();
            while let Some(parent) = directory {
                match parent.status() {
                    Ok(_) => break,
                    Err(error) if error.fault == PathFault::Missing => {
                        above.push(parent.absolute.clone())
                    }
                    Err(error) => return Err(error.into()),
                }
                directory = parent.parent();
            }
            above.reverse();
            missing.extend(above.into_iter().filter(|path| known.insert(path.clone())));
        }
        Ok(missing)
    }

    fn sync(&self, observer: StepObserver<'_>) -> Result<(), WorkspaceError> {
        let mut synced: BTreeSet<&Path> = BTreeSet::new();
        for file in &self.files {
            let directory = file.change.path().parent().unwrap_or(Path::new("/"));
            if !synced.insert(directory) {
                continue;
            }
            observer(CommitStep::Sync)
                .and_then(|()| staging::sync_directory(file.directory()?))
                .map_err(|error| file.change.failed(&error))?;
        }
        for created in &self.created {
            staging::sync_directory(created.parent.as_fd()).map_err(|error| {
                WorkspaceError::new(format!("{}: {error}", shown_path(&created.path)))
            })?;
        }
        // An observer can fail the commit at its very end, too.
        observer(CommitStep::CleanUp).map_err(|error| WorkspaceError::new(error.to_string()))
    }

    /// Undoes the steps taken. Returns those that could not be undone.
    fn roll_back(&mut self) -> Vec<String> {
        let mut left = Vec::new();
        for file in self.files.iter_mut().rev() {
            if let Err(error) = file.restore() {
                left.push(format!("{}: {error}", shown_path(file.change.path())));
            }
        }
        for created in self.created.iter().rev() {
            // Not empty if another program has put something there.
            let _ = unlinkat(
                created.parent.as_fd(),
                created.name.as_os_str(),
                UnlinkatFlags::RemoveDir,
            );
        }
        left
    }

    fn summary(&self) -> CommitSummary {
        let files = self.files.iter().map(|file| CommittedFile {
            path: file.change.path().clone(),
            kind: match (&file.before, &file.change.after) {
                (_, FileVersion::Absent) => ChangeKind::Removed,
                (None, _) => ChangeKind::Added,
                (Some(_), _) => ChangeKind::Changed,
            },
            method: file.method,
        });
        CommitSummary {
            files: files.collect(),
            created_directories: self
                .created
                .iter()
                .map(|created| created.path.clone())
                .collect(),
        }
    }
}
