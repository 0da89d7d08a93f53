//! Keeps the old versions for the commits of one turn.

use std::fs;
use std::path::{Path, PathBuf};

use super::{kept_file, remove_directory, turn_directories};
use crate::workspace::changes::{ChangePlan, OriginalKeeper};
use crate::workspace::failure::WorkspaceError;

/// Keeps the old versions of the files that the commits of one turn change.
#[derive(Debug)]
pub struct TurnKeeper {
    session: PathBuf,
    directory: PathBuf,
    /// `None` drops the copies as soon as a commit is complete.
    limit: Option<u64>,
    pending: Option<PathBuf>,
}

impl TurnKeeper {
    pub(super) fn new(session: PathBuf, directory: PathBuf, limit: u64) -> TurnKeeper {
        TurnKeeper {
            session,
            directory,
            limit: Some(limit),
            pending: None,
        }
    }

    /// Creates a keeper for commits that need their copies only while they run.
    pub(super) fn temporary(session: PathBuf, directory: PathBuf) -> TurnKeeper {
        TurnKeeper {
            session,
            directory,
            limit: None,
            pending: None,
        }
    }

    fn next_path(&self) -> Result<PathBuf, WorkspaceError> {
        let mut commits = kept_file::list(&self.directory, kept_file::KEPT)?;
        commits.extend(kept_file::list(&self.directory, kept_file::PENDING)?);
        let number = |path: &PathBuf| path.file_stem()?.to_str()?.parse::<u64>().ok();
        let last = commits.iter().filter_map(number).max().unwrap_or(0);
        let name = format!("{:06}.{}", last + 1, kept_file::PENDING);
        Ok(self.directory.join(name))
    }
}

/// Drops the oldest turns of a session until the rest is within the limit. The turn in `current` stays.
pub(super) fn drop_oldest(session: &Path, current: Option<&Path>, limit: u64) {
    let Ok(turns) = turn_directories(session) else {
        return;
    };
    let sizes: Vec<u64> = turns.iter().map(|(_, _, path)| size_of(path)).collect();
    let mut total: u64 = sizes.iter().sum();
    for ((_, _, path), size) in turns.iter().zip(sizes) {
        if total <= limit || Some(path.as_path()) == current {
            return;
        }
        if remove_directory(path).is_ok() {
            total -= size;
        }
    }
}

fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|found| found.len())
        .sum()
}

impl OriginalKeeper for TurnKeeper {
    fn keep(&mut self, plan: &ChangePlan<'_>) -> Result<(), WorkspaceError> {
        let path = match self.pending.take() {
            Some(path) => path,
            None => self.next_path()?,
        };
        kept_file::write(&path, plan)?;
        self.pending = Some(path);
        Ok(())
    }

    fn committed(&mut self) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        // A file that stays pending is completed by the next `recover`, and is used by an undo as it is.
        match self.limit {
            Some(limit) => {
                let _ = kept_file::complete(&pending);
                drop_oldest(&self.session, Some(&self.directory), limit);
            }
            None => {
                let _ = fs::remove_file(&pending);
                // Only if it has no other commit.
                let _ = fs::remove_dir(&self.directory);
            }
        }
    }

    fn rolled_back(&mut self, complete: bool) {
        if let Some(pending) = self.pending.take()
            && complete
        {
            let _ = fs::remove_file(&pending);
            // Only if it has no other commit.
            let _ = fs::remove_dir(&self.directory);
        }
    }
}
