//! What an undo of a turn has to do, file by file.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::kept_file::{self, KeptEntry, KeptFile, entry_at};
use super::{PathResolver, UndoResult, restored_before};
use crate::workspace::changes::{ChangeKind, FileSnapshot, FileVersion, PreparedChange};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::{ResolvedPath, shown_path};

/// A file of a turn: its state before the first and after the last commit.
pub(super) struct TurnFile {
    pub path: PathBuf,
    pub first: KeptEntry,
    pub last: KeptEntry,
    /// Something else changed it between two commits, and that version is kept nowhere else.
    is_mixed: bool,
}

/// What an undo does: the result of each file, and the changes in the order of their commits.
pub(super) struct UndoPlan {
    pub results: Vec<UndoResult>,
    /// Files of the turn that are where others were: below the path of one, or in place of a directory.
    pub in_the_way: Vec<PreparedChange>,
    pub changes: Vec<PreparedChange>,
}

impl UndoPlan {
    pub fn new(files: &[TurnFile], directories: &[PathBuf], resolve: PathResolver<'_>) -> UndoPlan {
        let mut judged: Vec<Result<Option<PreparedChange>, String>> =
            files.iter().map(|file| file.change_back(resolve)).collect();
        let removed: Vec<PathBuf> = judged
            .iter()
            .filter_map(|result| result.as_ref().ok()?.as_ref())
            .filter(|change| *change.after() == FileVersion::Absent)
            .map(|change| change.path().clone())
            .collect();
        let mut freed: Vec<&Path> = Vec::new();
        for (file, result) in files.iter().zip(&mut judged) {
            if result.is_err()
                && let Some(target) = file.target_once_removed(&removed, directories, resolve)
            {
                *result = file.change_to(target, None);
                freed.push(&file.path);
            }
        }
        let mut plan = UndoPlan {
            results: Vec::new(),
            in_the_way: Vec::new(),
            changes: Vec::new(),
        };
        for result in judged {
            plan.results.push(match result {
                Ok(Some(change)) => {
                    let kind = kind_of(&change);
                    let path = change.path();
                    let is_in_the_way =
                        |freed: &&Path| path.starts_with(freed) || freed.starts_with(path);
                    match kind == ChangeKind::Removed && freed.iter().any(is_in_the_way) {
                        true => plan.in_the_way.push(change),
                        false => plan.changes.push(change),
                    }
                    UndoResult::Restored(kind)
                }
                Ok(None) => UndoResult::AlreadyAsBefore,
                Err(reason) => UndoResult::Conflict(reason),
            });
        }
        plan
    }
}

impl TurnFile {
    /// Returns the change that undoes the turn, nothing if there is nothing to do, or why it cannot be undone.
    fn change_back(&self, resolve: PathResolver<'_>) -> Result<Option<PreparedChange>, String> {
        // The path stands before the reason already.
        let prefix = format!("{}: ", shown_path(&self.path));
        let reason = |message: String| match message.strip_prefix(&prefix) {
            Some(reason) => reason.to_owned(),
            None => message,
        };
        let target = entry_at(&self.path, resolve).map_err(|error| reason(error.message))?;
        if target.absolute != self.path {
            return Err(format!("now leads to {}", shown_path(&target.absolute)));
        }
        let now = FileSnapshot::read_entry(&target).map_err(|error| reason(error.message))?;
        let change = self.change_to(target, now)?;
        // The commit would refuse it, and with it all others.
        match change.as_ref().map(PreparedChange::check_access) {
            Some(Err(_)) => Err("may not be written".to_owned()),
            _ => Ok(change),
        }
    }

    fn change_to(
        &self,
        target: ResolvedPath,
        now: Option<FileSnapshot>,
    ) -> Result<Option<PreparedChange>, String> {
        if self.first.is_before(now.as_ref()) {
            return Ok(None);
        }
        if !self.last.is_after(now.as_ref()) && !self.last.is_mixture(now.as_ref()) {
            return Err(match now {
                Some(_) => "was changed after the prompt".to_owned(),
                None => "was deleted after the prompt".to_owned(),
            });
        }
        if self.is_mixed {
            return Err("was also changed by something else during the answer".to_owned());
        }
        let change = self.first.change_back(target, now);
        change.map_err(|error| error.message)
    }

    /// Returns the path, if nothing has it once the files in `removed` are gone: one of them is in the place of a directory
    /// above it, or the path is a directory of the turn with nothing else in it.
    fn target_once_removed(
        &self,
        removed: &[PathBuf],
        directories: &[PathBuf],
        resolve: PathResolver<'_>,
    ) -> Option<ResolvedPath> {
        let is_above = |file: &&PathBuf| self.path.starts_with(file) && **file != self.path;
        if let Some(above) = removed.iter().find(is_above) {
            let below = self.path.strip_prefix(above).ok()?;
            let target = entry_at(above, resolve).ok()?;
            return Some(below.iter().fold(target, |path, name| path.child(name)));
        }
        has_only(&self.path, removed, directories)
            .then(|| entry_at(&self.path, resolve).ok())
            .flatten()
    }
}

/// Whether a path is one of these directories, and only these files and directories are below it.
fn has_only(path: &Path, files: &[PathBuf], directories: &[PathBuf]) -> bool {
    let is_known = directories.iter().any(|known| known == path);
    let Some(entries) = is_known.then(|| fs::read_dir(path).ok()).flatten() else {
        return false;
    };
    let mut entries = entries.map(|entry| {
        let entry = entry.ok()?;
        Some((entry.path(), entry.file_type().ok()?.is_dir()))
    });
    entries.all(|entry| match entry {
        Some((path, true)) => has_only(&path, files, directories),
        Some((path, false)) => files.contains(&path),
        None => false,
    })
}

/// Returns the change that brings a removed file back.
pub(super) fn brought_back(removal: &PreparedChange) -> Option<PreparedChange> {
    let (before, target) = (removal.before()?, removal.target.clone());
    if before.is_link {
        let text = OsStr::from_bytes(&before.bytes).to_owned();
        return Some(PreparedChange::link(target, None, text));
    }
    let attributes = Some(before.attributes().clone());
    PreparedChange::with_attributes(target, None, before.bytes.clone(), attributes).ok()
}

fn kind_of(change: &PreparedChange) -> ChangeKind {
    match (change.before(), change.after()) {
        (_, FileVersion::Absent) => ChangeKind::Removed,
        (None, _) => ChangeKind::Added,
        (Some(_), _) => ChangeKind::Changed,
    }
}

/// Returns the files of a turn that are not undone yet, and the directories that it created, outer ones first.
pub(super) fn turn_files(
    directory: &Path,
) -> Result<(Vec<TurnFile>, Vec<PathBuf>), WorkspaceError> {
    let mut files: Vec<TurnFile> = Vec::new();
    let mut positions: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut directories = Vec::new();
    let mut commits = kept_file::list(directory, kept_file::KEPT)?;
    commits.extend(kept_file::list(directory, kept_file::PENDING)?);
    commits.sort();
    for path in commits {
        let kept = KeptFile::read(&path)?;
        directories.extend(kept.directories);
        for entry in kept.entries {
            let next = files.len();
            let at = *positions.entry(entry.path.clone()).or_insert(next);
            match files.get_mut(at) {
                Some(file) => {
                    file.is_mixed |= !entry.follows(&file.last);
                    file.last = entry;
                }
                None => files.push(TurnFile {
                    path: entry.path.clone(),
                    first: entry.clone(),
                    last: entry,
                    is_mixed: false,
                }),
            }
        }
    }
    let restored = restored_before(directory);
    files.retain(|file| !restored.contains(&file.path));
    Ok((files, directories))
}
