//! Pages that the HTTP server serves: a file for each, in a directory that only the user can read.

use std::fs;
use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use crate::error::{Error, ErrorContext, Result};
use crate::paths::{self, Paths};

/// Length of an id, in hexadecimal digits.
const ID: usize = 32;
/// Maximum size of a page, in bytes.
pub const MAX_PAGE: u64 = 64 << 20;

/// The pages of the user on this machine.
#[derive(Debug, Clone)]
pub struct LocalPages {
    dir: PathBuf,
}

impl LocalPages {
    /// Returns the pages of the user.
    pub fn new(paths: &Paths) -> LocalPages {
        LocalPages {
            dir: paths.data.join("shares"),
        }
    }

    fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.html"))
    }

    /// Writes or replaces a page, synced.
    ///
    /// # Errors
    /// The page cannot be written.
    pub fn write(&self, id: &str, page: &str) -> Result<()> {
        paths::make_dir(&self.dir)?;
        let file = self.file(id);
        paths::replace_file(&file, page.as_bytes())
            .context(|| format!("cannot write {}", file.display()))
    }

    /// Removes a page and verifies that it is gone.
    ///
    /// # Errors
    /// The page is still there.
    pub fn remove(&self, id: &str) -> Result<()> {
        let file = self.file(id);
        match fs::remove_file(&file) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(e).context(|| format!("cannot remove {}", file.display()));
            }
            _ => {}
        }
        match fs::symlink_metadata(&file) {
            Ok(_) => Err(Error::runtime(format!(
                "the page {} is still there",
                file.display()
            ))),
            Err(_) => Ok(()),
        }
    }

    /// Reads a page; `None` if there is none.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn read(&self, id: &str) -> Result<Option<Vec<u8>>> {
        let is_id = id.len() == ID && id.bytes().all(|b| b.is_ascii_hexdigit());
        if !is_id {
            return Ok(None);
        }
        let mut text = Vec::new();
        let file = self.file(id);
        let read =
            paths::read_own(&file).and_then(|file| file.take(MAX_PAGE).read_to_end(&mut text));
        match read {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            read => {
                read.context(|| format!("cannot read {}", file.display()))?;
                Ok(Some(text))
            }
        }
    }
}
