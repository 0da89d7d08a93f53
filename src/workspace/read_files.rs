//! What the model knows of files: an edit of a file that has changed since would be made blindly.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Maximum number of files that are remembered.
const MAX_READ_FILES: usize = 10_000;

/// The files that a session has read or written through tools, with the SHA-256 of what it knows of them.
#[derive(Debug, Default)]
pub struct ReadFiles(Mutex<BTreeMap<PathBuf, [u8; 32]>>);

impl ReadFiles {
    /// Returns the digest of what the model knows of a file.
    pub fn digest(&self, file: &Path) -> Option<[u8; 32]> {
        self.lock().get(file).copied()
    }

    /// Remembers what the model knows of a file; `None` for one that is gone.
    pub fn set(&self, file: &Path, digest: Option<[u8; 32]>) {
        let mut files = self.lock();
        match digest {
            Some(digest) if files.len() < MAX_READ_FILES || files.contains_key(file) => {
                files.insert(file.to_path_buf(), digest);
            }
            Some(_) => {}
            None => {
                files.remove(file);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, [u8; 32]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
