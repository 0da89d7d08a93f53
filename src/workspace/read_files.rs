//! Versions of files that the model has read: an edit of a file that has changed since would be made blindly, and lines of a file are only shown to a
//! model that has read it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maximum number of files that are remembered.
const MAX_READ_FILES: usize = 10_000;

/// The files that a session has read or written through tools.
#[derive(Debug, Default)]
pub struct ReadFiles(Mutex<BTreeMap<PathBuf, KnownVersion>>);

/// The last version of a file that tools have read or written.
#[derive(Debug, Clone, Copy)]
struct KnownVersion {
    /// Its SHA-256.
    digest: [u8; 32],
    /// The model knows its text. Of a file that it has only edited, it knows the lines of the edit.
    is_read: bool,
}

impl ReadFiles {
    /// Returns the digest of the last version of a file that tools have read or written.
    pub fn digest(&self, file: &Path) -> Option<[u8; 32]> {
        self.lock().get(file).map(|version| version.digest)
    }

    /// Whether the model has read a file, or written all of it.
    pub fn is_read(&self, file: &Path) -> bool {
        self.lock().get(file).is_some_and(|version| version.is_read)
    }

    /// Remembers the version of a file, and whether the model knows its text; no digest for a file that is gone.
    pub fn set(&self, file: &Path, digest: Option<[u8; 32]>, is_read: bool) {
        let mut files = self.lock();
        match digest {
            Some(digest) if files.len() < MAX_READ_FILES || files.contains_key(file) => {
                files.insert(file.to_path_buf(), KnownVersion { digest, is_read });
            }
            Some(_) => {}
            None => {
                files.remove(file);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, KnownVersion>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
