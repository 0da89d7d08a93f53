//! Changes of files that are prepared first and then made together, all of them or none.
//!
//! [`commit()`] checks every file once more, writes the new versions beside the files and syncs them, and only then puts them in
//! place. A failure undoes the changes made so far. A process that is killed in between leaves each file as it was or as it should
//! become, never a mixture; files that are written in place (see [`ReplaceMethod`]) are restored by
//! [`super::undo::UndoStore::recover`].

mod attributes;
mod commit;
mod file_work;
mod plan;
mod staging;

use std::ffi::OsString;
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;

use nix::fcntl::OFlag;
use nix::sys::stat::FileStat;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use attributes::FileAttributes;
pub use commit::{commit, commit_observed};
pub use plan::{
    ChangeKind, ChangePlan, CommitStep, CommitSummary, CommittedFile, OriginalKeeper, PlannedFile,
    StepObserver,
};
pub use staging::ReplaceMethod;

use super::failure::WorkspaceError;
use super::text_file::MAX_FILE_BYTES;
use super::{PathFault, ResolvedPath, shown_path};

/// Permission bits of a mode, with setuid, setgid and sticky.
const PERMISSIONS: u32 = 0o7777;

/// SHA-256 of the bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileDigest(pub [u8; 32]);

impl FileDigest {
    /// Computes the digest of bytes.
    pub fn of(bytes: &[u8]) -> FileDigest {
        FileDigest(Sha256::digest(bytes).into())
    }

    /// Reads a digest from 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<FileDigest> {
        let digits: Option<Vec<u8>> = text
            .chars()
            .map(|c| c.to_digit(16)?.try_into().ok())
            .collect();
        let digits = digits?;
        let (pairs, []) = digits.as_chunks::<2>() else {
            return None;
        };
        let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
        bytes.try_into().ok().map(FileDigest)
    }
}

impl fmt::Display for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for FileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for FileDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileDigest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FileDigest, D::Error> {
        let text = String::deserialize(deserializer)?;
        FileDigest::from_hex(&text).ok_or_else(|| serde::de::Error::custom("not a SHA-256 digest"))
    }
}

/// Identifies a version of a file without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    fn of(found: &std::fs::Metadata) -> FileStamp {
        FileStamp {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    #[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
    fn of_status(found: &FileStat) -> FileStamp {
        FileStamp {
            device: found.st_dev as u64,
            inode: found.st_ino as u64,
            size: found.st_size as u64,
            modified: (found.st_mtime as i64, found.st_mtime_nsec as i64),
            changed: (found.st_ctime as i64, found.st_ctime_nsec as i64),
        }
    }
}

/// A file as it was read: its bytes and the attributes that have to survive a change.
#[derive(Debug, Clone)]
pub struct FileSnapshot {
    /// Bytes of the file; the text of a symbolic link.
    pub bytes: Arc<[u8]>,
    /// Digest of the bytes.
    pub digest: FileDigest,
    /// Permission bits.
    pub mode: u32,
    /// Number of names of the file.
    pub links: u64,
    /// It is a symbolic link, not the file to which one leads.
    pub is_link: bool,
    attributes: FileAttributes,
    stamp: FileStamp,
}

impl FileSnapshot {
    /// Reads a file; `None` if it does not exist.
    ///
    /// # Errors
    /// Not a regular file, larger than [`MAX_FILE_BYTES`], changed while it was read, or refused by the system.
    pub fn read(path: &ResolvedPath) -> Result<Option<FileSnapshot>, WorkspaceError> {
        let mut file = match path.open_file(OFlag::O_RDONLY) {
            Ok(file) => file,
            Err(error) if error.fault == PathFault::Missing => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let shown = || shown_path(&path.absolute);
        let failed = |error: std::io::Error| {
            WorkspaceError::new(format!("{}: cannot be read: {error}", shown()))
        };
        let found = file.metadata().map_err(failed)?;
        if found.len() > MAX_FILE_BYTES {
            return Err(too_large(path));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0));
        (&mut file)
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let stamp = FileStamp::of(&found);
        if FileStamp::of(&file.metadata().map_err(failed)?) != stamp
            || bytes.len() as u64 != found.len()
        {
            return Err(
                WorkspaceError::new(format!("{}: changed while it was read", shown()))
                    .hint("another program writes the file: try again"),
            );
        }
        let attributes = FileAttributes::read(&file, &found).map_err(failed)?;
        Ok(Some(FileSnapshot {
            digest: FileDigest::of(&bytes),
            bytes: bytes.into(),
            mode: attributes.mode(),
            links: found.nlink(),
            is_link: false,
            attributes,
            stamp,
        }))
    }

    /// Reads what has the name itself: a symbolic link is not followed, though its directory was resolved. `None` if nothing
    /// has the name.
    ///
    /// # Errors
    /// Same as [`Self::read`], but for a link.
    pub fn read_entry(path: &ResolvedPath) -> Result<Option<FileSnapshot>, WorkspaceError> {
        let Some((text, found)) = path.link()? else {
            return FileSnapshot::read(path);
        };
        Ok(Some(FileSnapshot {
            digest: FileDigest::of(text.as_bytes()),
            bytes: text.as_bytes().into(),
            mode: 0o777,
            links: 1,
            is_link: true,
            attributes: FileAttributes::of_mode(0o777),
            stamp: FileStamp::of_status(&found),
        }))
    }

    /// Returns owner, mode and extended attributes.
    pub fn attributes(&self) -> &FileAttributes {
        &self.attributes
    }
}

fn too_large(path: &ResolvedPath) -> WorkspaceError {
    WorkspaceError::new(format!(
        "{}: larger than {} MB, the limit for files that are changed",
        shown_path(&path.absolute),
        MAX_FILE_BYTES >> 20
    ))
    .hint("use a shell command")
}

/// New state of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileVersion {
    /// A file with these bytes. Its attributes are those of the file in its place, or the usual ones of a new file, unless
    /// given.
    Present {
        /// Bytes of the file.
        bytes: Arc<[u8]>,
        /// Owner, mode and extended attributes.
        attributes: Option<FileAttributes>,
    },
    /// A symbolic link with this text.
    Link(OsString),
    /// No file.
    Absent,
}

/// Refuses changes that [`commit()`] would refuse because two of them are of the same file: a file with two names.
///
/// # Errors
/// A file is changed twice.
pub fn check_distinct(changes: &[PreparedChange]) -> Result<(), WorkspaceError> {
    commit::check_distinct(changes.iter().map(|change| (change, change.before())))
}

/// A change of one file: its state when the change was computed, and the new one.
#[derive(Debug, Clone)]
pub struct PreparedChange {
    pub(crate) target: ResolvedPath,
    before: Option<FileSnapshot>,
    after: FileVersion,
}

impl PreparedChange {
    /// Writes a file: the next version of `before`, or a new file.
    ///
    /// # Errors
    /// The new version is larger than [`MAX_FILE_BYTES`].
    pub fn write(
        target: ResolvedPath,
        before: Option<FileSnapshot>,
        bytes: impl Into<Arc<[u8]>>,
    ) -> Result<PreparedChange, WorkspaceError> {
        PreparedChange::with_attributes(target, before, bytes, None)
    }

    /// Writes a file with these permission bits.
    ///
    /// # Errors
    /// Same as [`Self::write`].
    pub fn with_mode(
        target: ResolvedPath,
        before: Option<FileSnapshot>,
        bytes: impl Into<Arc<[u8]>>,
        mode: Option<u32>,
    ) -> Result<PreparedChange, WorkspaceError> {
        PreparedChange::with_attributes(target, before, bytes, mode.map(FileAttributes::of_mode))
    }

    /// Writes a file with this owner, this mode and these extended attributes, as far as the process may set them.
    ///
    /// # Errors
    /// Same as [`Self::write`].
    pub fn with_attributes(
        target: ResolvedPath,
        before: Option<FileSnapshot>,
        bytes: impl Into<Arc<[u8]>>,
        attributes: Option<FileAttributes>,
    ) -> Result<PreparedChange, WorkspaceError> {
        let bytes = bytes.into();
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(too_large(&target));
        }
        let after = FileVersion::Present { bytes, attributes };
        Ok(PreparedChange {
            target,
            before,
            after,
        })
    }

    /// Makes a symbolic link with this text, in place of the file with that name.
    pub fn link(
        target: ResolvedPath,
        before: Option<FileSnapshot>,
        text: OsString,
    ) -> PreparedChange {
        PreparedChange {
            target,
            before,
            after: FileVersion::Link(text),
        }
    }

    /// Removes a file, or a symbolic link.
    pub fn remove(target: ResolvedPath, before: FileSnapshot) -> PreparedChange {
        PreparedChange {
            target,
            before: Some(before),
            after: FileVersion::Absent,
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &PathBuf {
        &self.target.absolute
    }

    /// Returns the file as it was when the change was computed.
    pub fn before(&self) -> Option<&FileSnapshot> {
        self.before.as_ref()
    }

    /// Returns what the file becomes.
    pub fn after(&self) -> &FileVersion {
        &self.after
    }

    /// Returns the permission bits after the change; `None` for those of a new file, and without a file.
    pub fn mode_after(&self) -> Option<u32> {
        match &self.after {
            FileVersion::Present { attributes, .. } => {
                let given = attributes.as_ref().map(FileAttributes::mode);
                given.or(self.replaced_file().map(|before| before.mode))
            }
            FileVersion::Link(_) | FileVersion::Absent => None,
        }
    }

    /// Whether bytes and mode stay as they are.
    pub fn is_unchanged(&self) -> bool {
        match (&self.before, &self.after) {
            (None, FileVersion::Absent) => true,
            (Some(before), FileVersion::Present { bytes, attributes }) => {
                let same_mode = |given: &FileAttributes| given.mode() == before.mode;
                !before.is_link
                    && before.bytes == *bytes
                    && attributes.as_ref().is_none_or(same_mode)
            }
            (Some(before), FileVersion::Link(text)) => {
                before.is_link && *before.bytes == *text.as_bytes()
            }
            _ => false,
        }
    }

    /// Whether the name itself is a symbolic link, before or after the change.
    fn is_of_link(&self) -> bool {
        let was_link = self.before.as_ref().is_some_and(|before| before.is_link);
        was_link || matches!(self.after, FileVersion::Link(_))
    }

    /// Returns the regular file that is replaced.
    fn replaced_file(&self) -> Option<&FileSnapshot> {
        self.before.as_ref().filter(|before| !before.is_link)
    }

    /// Returns the error of this file.
    fn fault(&self, message: impl fmt::Display) -> WorkspaceError {
        WorkspaceError::new(format!("{}: {message}", shown_path(&self.target.absolute)))
    }
}

#[cfg(test)]
mod tests;
