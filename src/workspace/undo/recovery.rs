//! Completes, at the start of a daemon, the commits that a killed process has left.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::{UnlinkatFlags, unlinkat};

use super::kept_file::{self, KeptEntry, KeptFile, entry_at, version_at};
use super::turn_keeper::{TurnKeeper, drop_oldest};
use super::{
    ConflictChoice, PathResolver, UNDOING, UndoResult, UndoStore, failed, remove_empty,
    remove_retired, turn_directories,
};
use crate::workspace::changes::{FileSnapshot, commit};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::{PathFault, shown_path};

/// Name of the "session" that has the commits of calls outside of sessions while they run.
const CALLS: &str = "calls";

/// The name of a session, and what was found of it.
type RecoveredSession = (String, Result<Recovery, WorkspaceError>);

/// What was found of the interrupted commits of a session.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Files that were overwritten half-way, and those of a call outside of sessions: they are as they were before.
    pub restored: Vec<PathBuf>,
    /// Commits that changed some of their files only.
    pub half_done: Vec<HalfDoneCommit>,
    /// Why other commits could not be completed. Their copies stay for the next start.
    pub failures: Vec<WorkspaceError>,
}

/// A commit that changed some of its files only.
#[derive(Debug, PartialEq, Eq)]
pub struct HalfDoneCommit {
    /// The turn, which can be undone.
    pub turn: String,
    /// The files that are changed.
    pub changed: Vec<PathBuf>,
    /// The files that are as they were before.
    pub unchanged: Vec<PathBuf>,
}

/// State of a file after an interrupted commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryState {
    /// As it was before the commit.
    Before,
    /// As the commit makes it.
    After,
    /// Gone, although the commit does not remove it.
    Absent,
    /// Changed by something else.
    Other,
    /// Its directory is not there, or its path leads elsewhere.
    Away,
}

impl EntryState {
    fn of(entry: &KeptEntry, now: Option<&FileSnapshot>) -> EntryState {
        if entry.is_before(now) {
            EntryState::Before
        } else if entry.is_after(now) {
            EntryState::After
        } else if now.is_none() && entry.is_replaced() {
            EntryState::Absent
        } else {
            EntryState::Other
        }
    }
}

/// State of an interrupted commit.
enum CommitState {
    /// No file is changed.
    Untouched,
    /// All files are changed, but for those that something else has changed.
    Complete,
    /// Some files are changed: these, and those that are not.
    HalfDone([Vec<PathBuf>; 2]),
    /// Its files cannot be reached now: a directory was moved or its file system is not mounted.
    Away,
}

impl UndoStore {
    /// Returns the keeper for a commit of a call outside of sessions: it drops the copies once the commit is complete, and
    /// [`UndoStore::recover_all`] takes back a commit that was interrupted.
    ///
    /// # Errors
    /// The directories cannot be read.
    pub fn call(&self) -> Result<TurnKeeper, WorkspaceError> {
        let session = self.session(CALLS)?;
        // Calls may run at the same time.
        let directory = session.join(format!("000001-{}", uuid::Uuid::now_v7()));
        Ok(TurnKeeper::temporary(session, directory))
    }

    /// Completes what a killed process has left: files that were overwritten half-way are restored, temporary names are
    /// removed, and directories that were made for a commit that changed nothing. A commit whose files cannot be reached stays for
    /// the next start. Must not run while files are changed.
    ///
    /// # Errors
    /// The kept copies cannot be listed.
    pub fn recover(
        &self,
        session: &str,
        resolve: PathResolver<'_>,
    ) -> Result<Recovery, WorkspaceError> {
        let session = self.session(session)?;
        remove_retired(&session);
        let turns = turn_directories(&session)?.into_iter();
        let mut directories: Vec<(Option<String>, PathBuf)> =
            turns.map(|(_, turn, path)| (Some(turn), path)).collect();
        directories.push((None, session.join(UNDOING)));
        let mut recovery = Recovery::default();
        for (turn, directory) in directories {
            for pending in kept_file::list(&directory, kept_file::PENDING)? {
                match recover_commit(&pending, turn.is_none(), resolve, &mut recovery.restored) {
                    Ok(CommitState::HalfDone([changed, unchanged])) => {
                        recovery
                            .half_done
                            .extend(turn.clone().map(|turn| HalfDoneCommit {
                                turn,
                                changed,
                                unchanged,
                            }));
                    }
                    Ok(_) => {}
                    Err(error) => recovery.failures.push(error),
                }
            }
        }
        Ok(recovery)
    }

    /// Does [`UndoStore::recover`] for each session, and takes back the interrupted changes of calls outside of sessions. Returns the
    /// names of the sessions with what was found.
    ///
    /// # Errors
    /// The sessions cannot be listed.
    pub fn recover_all(
        &self,
        resolve: PathResolver<'_>,
    ) -> Result<Vec<RecoveredSession>, WorkspaceError> {
        let sessions = match fs::read_dir(&self.root) {
            Ok(sessions) => sessions,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&self.root, &error)),
        };
        let names = sessions.flatten().map(|entry| entry.file_name());
        Ok(names
            .filter_map(|name| {
                let name = name.into_string().ok()?;
                let recovered = match name.as_str() {
                    CALLS => self.take_back_calls(resolve),
                    _ => self.recover(&name, resolve),
                };
                Some((name, recovered))
            })
            .collect())
    }

    fn take_back_calls(&self, resolve: PathResolver<'_>) -> Result<Recovery, WorkspaceError> {
        let mut recovery = self.recover(CALLS, resolve)?;
        recovery.half_done.clear();
        let session = self.session(CALLS)?;
        for (_, turn, directory) in turn_directories(&session)? {
            // Its files cannot be reached now.
            if !kept_file::list(&directory, kept_file::PENDING)?.is_empty() {
                continue;
            }
            match self.undo(CALLS, &turn, resolve, ConflictChoice::Skip) {
                Ok(report) => {
                    for (path, result) in report.files {
                        match result {
                            UndoResult::Restored(_) => recovery.restored.push(path),
                            UndoResult::AlreadyAsBefore => {}
                            UndoResult::Conflict(reason) => {
                                let reason = format!("{}: {reason}", shown_path(&path));
                                recovery.failures.push(WorkspaceError::new(reason));
                            }
                        }
                    }
                }
                Err(error) => recovery.failures.push(error),
            }
        }
        // Those whose files are never reached again.
        drop_oldest(&session, None, self.limit);
        Ok(recovery)
    }
}

/// Completes a commit, and adds the files that it restores to `restored`. `is_undo` is whether it belongs to an undo.
fn recover_commit(
    pending: &Path,
    is_undo: bool,
    resolve: PathResolver<'_>,
    restored: &mut Vec<PathBuf>,
) -> Result<CommitState, WorkspaceError> {
    let remove = || -> Result<(), WorkspaceError> {
        fs::remove_file(pending).map_err(|error| failed(pending, &error))?;
        // Only if it has no other commit.
        let _ = pending.parent().map(fs::remove_dir);
        Ok(())
    };
    let Some(kept) = KeptFile::read_pending(pending)? else {
        // Killed while the copies were written: nothing had been changed yet.
        remove()?;
        return Ok(CommitState::Untouched);
    };
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    let (mut replaced, mut absent) = (0, 0);
    let (mut is_away, mut has_others) = (false, false);
    for entry in &kept.entries {
        let (state, is_restored) = recover_entry(entry, &kept.directories, resolve)?;
        restored.extend(is_restored.then(|| entry.path.clone()));
        replaced += usize::from(entry.is_replaced());
        match state {
            EntryState::Before => unchanged.push(entry.path.clone()),
            EntryState::After => changed.push(entry.path.clone()),
            EntryState::Absent => absent += 1,
            EntryState::Other => has_others = true,
            EntryState::Away => is_away = true,
        }
    }
    // Nothing is in the directory, such as where a file system was mounted.
    if is_away || absent > 0 && absent == replaced {
        return Ok(CommitState::Away);
    }
    let is_untouched = changed.is_empty() && absent == 0 && !has_others;
    if is_untouched {
        remove_empty(&kept.directories, resolve);
    }
    match is_untouched || is_undo {
        true => remove()?,
        false => kept_file::complete(pending)?,
    }
    Ok(
        match (is_untouched, changed.is_empty() || unchanged.is_empty()) {
            (true, _) => CommitState::Untouched,
            (false, true) => CommitState::Complete,
            (false, false) => CommitState::HalfDone([changed, unchanged]),
        },
    )
}

/// Removes the temporary names of a file, and restores it if it was being overwritten. Returns its state, and whether it was restored.
/// `new_directories` are those that the commit makes.
fn recover_entry(
    entry: &KeptEntry,
    new_directories: &[PathBuf],
    resolve: PathResolver<'_>,
) -> Result<(EntryState, bool), WorkspaceError> {
    let target = match entry_at(&entry.path, resolve) {
        // A file is in the place of a directory above it.
        Err(error) if error.fault == PathFault::WrongKind => {
            return Ok((EntryState::of(entry, None), false));
        }
        target => target?,
    };
    // The names are unique, also where the path leads elsewhere by now.
    if let Ok((dir, _)) = target.open_parent() {
        let names = entry.temporary_names.iter();
        for name in names.filter(|name| name.starts_with(".aish-")) {
            let _ = unlinkat(&dir, name.as_str(), UnlinkatFlags::NoRemoveDir);
        }
    }
    let is_moved = target.absolute != entry.path;
    let mut directories = entry.path.ancestors().skip(1);
    let old_directory = directories.find(|path| !new_directories.iter().any(|new| new == path));
    let is_away = is_moved || !old_directory.is_some_and(Path::exists);
    let now = version_at(&entry.path, resolve)?;
    let state = match is_away {
        true => EntryState::Away,
        false => EntryState::of(entry, now.as_ref()),
    };
    let is_unfinished = entry.is_mixture(now.as_ref())
        || state == EntryState::Other
            && now.as_ref().is_some_and(|now| entry.may_be_unfinished(now));
    if !is_unfinished {
        return Ok((state, false));
    }
    commit(entry.change_back(target, now)?.into_iter().collect(), None)?;
    let is_reached = state != EntryState::Away;
    Ok((
        if is_reached {
            EntryState::Before
        } else {
            state
        },
        true,
    ))
}
