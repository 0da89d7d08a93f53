//! The recordings on the disk.

use std::fs::{self, File};
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::event::{EVENTS_FILE, RecordingEvent, RecordingLine, RecordingStart};

/// Maximum length of the first line.
const MAX_START: u64 = 1 << 20;

/// Returns the directories of the recordings, oldest first.
///
/// # Errors
/// The directory of recordings cannot be read; a missing one has no recordings.
pub fn directories(recordings: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(recordings) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let is_id = name
            .to_str()
            .is_some_and(|name| uuid::Uuid::try_parse(name).is_ok());
        if is_id && entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    // An id begins with its time.
    found.sort();
    Ok(found)
}

/// Returns the first event of a recording, if there is one.
pub fn start_of(dir: &Path) -> Option<RecordingStart> {
    let mut line = Vec::new();
    let file = File::open(dir.join(EVENTS_FILE)).ok()?;
    let mut reader = io::BufReader::new(file).take(MAX_START);
    reader.read_until(b'\n', &mut line).ok()?;
    match serde_json::from_slice::<RecordingLine>(&line).ok()?.event {
        RecordingEvent::Start(start) => Some(start),
        _ => None,
    }
}

/// Whether a recording is still being written; so is one that cannot be checked.
pub fn is_being_written(dir: &Path) -> bool {
    match File::open(dir.join(EVENTS_FILE)) {
        // Released immediately.
        Ok(file) => Flock::lock(file, FlockArg::LockSharedNonblock).is_err(),
        Err(e) => e.kind() != io::ErrorKind::NotFound,
    }
}

/// Returns the recording of a terminal, `/dev/pts/3`, that is being written.
pub fn of_terminal(recordings: &Path, tty: &str) -> Option<PathBuf> {
    let dirs = directories(recordings).ok()?.into_iter().rev();
    let mut live = dirs.filter(|dir| is_being_written(dir));
    live.find(|dir| start_of(dir).is_some_and(|start| start.tty == tty))
}

/// Locks a complete recording, so that it can be deleted. Shared with [`is_being_written`], so that neither makes the other fail: a
/// complete recording is never written again.
pub(super) fn lock_complete(dir: &Path) -> Option<Flock<File>> {
    let file = File::open(dir.join(EVENTS_FILE)).ok()?;
    Flock::lock(file, FlockArg::LockSharedNonblock).ok()
}
