//! Pages that the HTTP server serves, and their recordings: a file for each, in a directory that only the user can read.

use std::collections::BTreeSet;
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

    /// Returns the ids of the shares with an object here.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn ids(&self) -> Result<BTreeSet<String>> {
        Ok(self.files()?.into_iter().map(|(id, _)| id).collect())
    }

    /// Removes all objects of a share, however many there are.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove_all(&self, id: &str) -> Result<()> {
        for (_, file) in self.files()?.into_iter().filter(|(of, _)| of == id) {
            fs::remove_file(&file).context(|| format!("cannot remove {}", file.display()))?;
        }
        Ok(())
    }

    /// Returns the files of objects, each with the id of its share.
    fn files(&self) -> Result<Vec<(String, PathBuf)>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.context(|| format!("cannot list {}", self.dir.display()))?,
        };
        let with_id = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let (id, rest) = name.split_at_checked(ID)?;
            let is_object = rest == ".html" || rest.starts_with('-') && rest.ends_with(".cast");
            (is_id(id) && is_object).then(|| (id.to_owned(), entry.path()))
        };
        Ok(entries.flatten().filter_map(with_id).collect())
    }

    /// Opens an object of a share; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn open(&self, id: &str, object: ShareObject) -> Result<Option<File>> {
        if !is_id(id) {
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

fn is_id(id: &str) -> bool {
    id.len() == ID && id.bytes().all(|b| b.is_ascii_hexdigit())
}
