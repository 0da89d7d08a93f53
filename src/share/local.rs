//! Pages that the HTTP server serves, and their recordings: a file for each, in a directory that only the user can read.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;

use super::object::ShareObject;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::{self, Paths};

/// Length of an id, in hexadecimal digits.
const ID: usize = 32;
/// Maximum size of a page, in bytes.
pub const MAX_PAGE: usize = 64 << 20;

/// The pages of the user on this machine.
#[derive(Debug, Clone)]
pub struct LocalPages {
    dir: PathBuf,
}

impl LocalPages {
    /// Returns the pages of the user.
    pub fn new(paths: &Paths) -> LocalPages {
        LocalPages {
            dir: paths.shares(),
        }
    }

    fn file(&self, id: &str, object: ShareObject) -> PathBuf {
        self.dir.join(object.name(id).replace('/', "-"))
    }

    /// Writes or replaces an object of a share, synced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, id: &str, object: ShareObject, bytes: &[u8]) -> Result<()> {
        paths::make_dir(&self.dir)?;
        let file = self.file(id, object);
        paths::replace_file(&file, bytes).context(|| format!("cannot write {}", file.display()))
    }

    /// Removes an object of a share and verifies that it is gone.
    ///
    /// # Errors
    /// The file is still there.
    pub fn remove(&self, id: &str, object: ShareObject) -> Result<()> {
        let file = self.file(id, object);
        match fs::remove_file(&file) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(e).context(|| format!("cannot remove {}", file.display()));
            }
            _ => {}
        }
        match fs::symlink_metadata(&file) {
            Ok(_) => Err(Error::runtime(format!(
                "the file {} of the share is still there",
                file.display()
            ))),
            Err(_) => Ok(()),
        }
    }

    /// Opens an object of a share; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(&self, id: &str, object: ShareObject) -> Result<Option<File>> {
        let is_id = id.len() == ID && id.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_id {
            return Ok(None);
        }
        let file = self.file(id, object);
        match paths::read_own(&file) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened
                .context(|| format!("cannot read {}", file.display()))
                .map(Some),
        }
    }
}
