//! Errors about paths, and paths as text on one line.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::error::Error;

/// Why a path cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathFault {
    /// The text is not a usable path.
    Invalid,
    /// Nothing is there.
    Missing,
    /// A directory where a file is needed, or the reverse.
    WrongKind,
    /// A FIFO, a socket or a device.
    Special,
    /// A symbolic link appeared in the path after it was resolved.
    Changed,
    /// The system refused or failed.
    System,
}

/// A path that cannot be used: one line with the path and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathError {
    /// Category of the reason.
    pub fault: PathFault,
    /// The path and the reason, without a final full stop.
    pub message: String,
    /// How far the path was followed, about which the reason reveals something; `None` if the text of the path is wrong.
    pub followed: Option<StoppedPath>,
}

/// A path that could not be followed to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoppedPath {
    /// The last place that was looked at.
    pub stopped_at: PathBuf,
    /// The existing directories that a `..` in the path left.
    pub left: Vec<PathBuf>,
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PathError {}

impl From<PathError> for Error {
    fn from(error: PathError) -> Error {
        Error::runtime(error.message)
    }
}

/// Result with [`PathError`].
pub type PathResult<T> = Result<T, PathError>;

impl PathError {
    /// Creates an error about `path`; `reason` follows it.
    pub(super) fn new(fault: PathFault, path: &Path, reason: &str) -> PathError {
        PathError {
            fault,
            message: format!("{}: {reason}", shown_path(path)),
            followed: None,
        }
    }

    /// Creates an error about a text that is not a path.
    pub(super) fn invalid(message: impl Into<String>) -> PathError {
        PathError {
            fault: PathFault::Invalid,
            message: message.into(),
            followed: None,
        }
    }

    /// Creates the error for a symbolic link where the resolved path had none.
    pub(super) fn changed(path: &Path) -> PathError {
        PathError::new(
            PathFault::Changed,
            path,
            "changed since it was approved: a symbolic link is in the path now",
        )
    }

    /// Creates the error for a failed system call.
    pub(super) fn system(path: &Path, errno: Errno) -> PathError {
        let fault = match errno {
            Errno::ENOENT => PathFault::Missing,
            Errno::ENOTDIR | Errno::EISDIR => PathFault::WrongKind,
            _ => PathFault::System,
        };
        let reason = match errno {
            Errno::ENOENT => "no such file or directory".to_owned(),
            Errno::ENOTDIR => "a part of the path is not a directory".to_owned(),
            Errno::EISDIR => "is a directory".to_owned(),
            Errno::EACCES | Errno::EPERM => "permission denied".to_owned(),
            Errno::ENAMETOOLONG => "the path is too long".to_owned(),
            errno => errno.desc().to_owned(),
        };
        PathError::new(fault, path, &reason)
    }

    /// Creates the error for a failed opening beneath a root.
    pub(super) fn open(path: &Path, errno: Errno) -> PathError {
        match errno {
            // A symbolic link was met, or the path left the root.
            Errno::ELOOP | Errno::EXDEV | Errno::EMLINK => PathError::changed(path),
            errno => PathError::system(path, errno),
        }
    }

    /// Creates the error for a failed operation.
    pub(super) fn io(path: &Path, error: &io::Error) -> PathError {
        match error.raw_os_error() {
            Some(code) => PathError::system(path, Errno::from_raw(code)),
            None => PathError::new(PathFault::System, path, &error.to_string()),
        }
    }
}

/// Writes a path on one line: control characters and bytes that are not UTF-8 become `\n` or `\xff`.
pub fn shown_path(path: &Path) -> String {
    shown_name(path.as_os_str())
}

/// Same as [`shown_path`], for one name.
pub fn shown_name(name: &OsStr) -> String {
    let mut shown = String::new();
    for piece in name.as_bytes().utf8_chunks() {
        for c in piece.valid().chars() {
            match c {
                c if c.is_control() => shown.extend(c.escape_default()),
                c => shown.push(c),
            }
        }
        for byte in piece.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}
