//! Deletes the oldest recordings beyond limits of age and size, never one that is still being written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::event::{EVENTS_FILE, OUTPUT_FILE};
use super::list::{directories, is_being_written, lock_complete};
use crate::error::{ErrorContext, Result};

/// Age of an unfinished directory that is left over.
const LEFT_OVER: Duration = Duration::from_secs(3600);

/// A complete recording.
struct Complete {
    dir: PathBuf,
    bytes: u64,
    modified: SystemTime,
}

/// Deletes the recordings that ended before `since`, and then the oldest until the others have at most `max_bytes`. Those
/// that are being written are neither deleted nor counted. Returns the number of deleted recordings.
///
/// # Errors
/// The directory cannot be read, or a recording cannot be deleted.
pub fn apply(recordings: &Path, since: SystemTime, max_bytes: u64) -> Result<usize> {
    let what = || format!("cannot clean up {}", recordings.display());
    remove_left_over(recordings).context(what)?;
    let complete: Vec<Complete> = directories(recordings)
        .context(what)?
        .into_iter()
        .filter(|dir| !is_being_written(dir))
        .map(measured)
        .collect();
    let mut bytes: u64 = complete.iter().map(|recording| recording.bytes).sum();
    let mut deleted = 0;
    for recording in complete {
        if recording.modified >= since && bytes <= max_bytes {
            continue;
        }
        let lock = lock_complete(&recording.dir);
        // Without events it is not a recording.
        if lock.is_none() && recording.dir.join(EVENTS_FILE).exists() {
            continue;
        }
        match fs::remove_dir_all(&recording.dir) {
            // Another process deletes it too.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            removed => removed.context(what)?,
        }
        bytes -= recording.bytes;
        deleted += 1;
    }
    Ok(deleted)
}

fn measured(dir: PathBuf) -> Complete {
    let meta = |name: &str| fs::metadata(dir.join(name)).ok();
    let files = [meta(OUTPUT_FILE), meta(EVENTS_FILE)];
    let files = files.iter().flatten();
    let modified = files.clone().filter_map(|meta| meta.modified().ok()).max();
    Complete {
        bytes: files.map(fs::Metadata::len).sum(),
        modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
        dir,
    }
}

/// Removes directories of recorders that were killed before they had a recording.
fn remove_left_over(recordings: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(recordings) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
        let age = entry.metadata()?.modified()?.elapsed().unwrap_or_default();
        if is_hidden && entry.file_type()?.is_dir() && age > LEFT_OVER {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nix::fcntl::{Flock, FlockArg};

    use super::*;
    use crate::recording::event::{RecordingSource, RecordingStart, VERSION};
    use crate::recording::writer::{RecordingWriter, Seen};

    /// Creates a recording of 1000 bytes and some events, as old as given.
    fn recording(recordings: &Path, age: Duration) -> (PathBuf, RecordingWriter) {
        let start = RecordingStart {
            version: VERSION,
            id: uuid::Uuid::now_v7().to_string(),
            ms: 0,
            cols: 80,
            rows: 24,
            term: String::new(),
            shell: None,
            source: RecordingSource::Relay,
            tty: "/dev/pts/0".into(),
            relay_tty: String::new(),
            command: None,
        };
        let mut writer = RecordingWriter::create(recordings, &start, 1 << 20).unwrap();
        let output = Seen::Output {
            bytes: 1000,
            left_out: None,
        };
        writer.record(&[(1, output)], &[b'x'; 1000]);
        let dir = writer.dir().to_owned();
        for name in [OUTPUT_FILE, EVENTS_FILE] {
            let file = fs::File::options().append(true).open(dir.join(name));
            file.unwrap().set_modified(SystemTime::now() - age).unwrap();
        }
        (dir, writer)
    }

    #[test]
    fn the_oldest_complete_recordings_are_deleted() {
        let home = tempfile::tempdir().unwrap();
        let day = Duration::from_secs(86_400);
        let complete = |age| recording(home.path(), age).0;
        let old = complete(31 * day);
        let (live, live_writer) = recording(home.path(), 40 * day);
        let (first, second) = (complete(2 * day), complete(day));
        let since = SystemTime::now() - 30 * day;
        let kept = || directories(home.path()).unwrap();
        assert!(is_being_written(&live) && !is_being_written(&first));
        assert_eq!(apply(home.path(), since, 1 << 20).unwrap(), 1);
        assert_eq!(kept(), [live.clone(), first, second.clone()]);
        assert!(!old.exists());
        // Neither of the others fits together with the other.
        assert_eq!(apply(home.path(), since, 2000).unwrap(), 1);
        assert_eq!(kept(), [live, second.clone()]);
        drop(live_writer);
        assert_eq!(apply(home.path(), since, 2000).unwrap(), 1);
        assert_eq!(kept(), [second]);
        assert_eq!(apply(&home.path().join("none"), since, 0).unwrap(), 0);
    }

    #[test]
    fn a_listing_and_a_deletion_do_not_make_each_other_fail() {
        let home = tempfile::tempdir().unwrap();
        let dir = recording(home.path(), Duration::from_secs(60)).0;
        let deletion = lock_complete(&dir).unwrap();
        assert!(!is_being_written(&dir));
        drop(deletion);
        // As a listing does for a moment.
        let events = fs::File::open(dir.join(EVENTS_FILE)).unwrap();
        let _listing = Flock::lock(events, FlockArg::LockSharedNonblock).unwrap();
        assert_eq!(apply(home.path(), SystemTime::now(), 1 << 20).unwrap(), 1);
        assert!(!dir.exists());
    }

    #[test]
    fn what_is_not_a_recording_stays() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        for name in ["notes", ".just-begun", ".left-over"] {
            fs::create_dir(path(name)).unwrap();
        }
        let long_ago = SystemTime::now() - Duration::from_secs(7200);
        let left_over = fs::File::open(path(".left-over")).unwrap();
        left_over.set_modified(long_ago).unwrap();
        assert_eq!(apply(home.path(), SystemTime::now(), 0).unwrap(), 0);
        assert!(path("notes").exists() && path(".just-begun").exists());
        assert!(!path(".left-over").exists());
    }
}
