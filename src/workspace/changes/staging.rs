//! New versions of files: beside the file until they replace it, or in place.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, fstatat};
use nix::unistd::{UnlinkatFlags, fsync, linkat, symlinkat, unlinkat};
use serde::{Deserialize, Serialize};

use super::attributes::set_mode;
use super::{FileAttributes, FileSnapshot, FileStamp};

/// Bytes per write.
const CHUNK_BYTES: usize = 64 << 10;

/// How a file gets its new version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplaceMethod {
    /// A new file is renamed over it.
    Rename,
    /// The bytes of the file are overwritten: a rename would split a hard link, lose an owner or an attribute that the process
    /// may not set, or the directory may not be written.
    InPlace,
}

/// Called before each step that changes something; its error is taken as that of the step.
pub(super) type BeforeStep<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// Returns an unused file name, for the directory of a changed file.
pub(super) fn temporary_name() -> OsString {
    format!(".aish-{}.tmp", uuid::Uuid::new_v4().simple()).into()
}

/// Creates an empty file `name`. With `is_private` only its owner may read it; otherwise the umask decides.
pub(super) fn create_beside(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    is_private: bool,
) -> io::Result<File> {
    let flags =
        OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let bits = if is_private { 0o600 } else { 0o666 };
    Ok(File::from(openat(
        dir,
        name,
        flags,
        Mode::from_bits_truncate(bits),
    )?))
}

/// Writes all bytes of a new file, gives it its attributes and syncs it.
///
/// They are set before too: until then the file must not be open to more people than the old one. Writing clears setuid, setgid
/// and capabilities.
pub(super) fn fill(
    mut file: &File,
    bytes: &[u8],
    step: BeforeStep<'_>,
    attributes: &mut dyn FnMut(&File) -> io::Result<()>,
) -> io::Result<()> {
    for chunk in bytes.chunks(CHUNK_BYTES) {
        step()?;
        file.write_all(chunk)?;
    }
    attributes(file)?;
    step()?;
    file.sync_all()
}

/// Gives a new version the attributes of the old one, where others are not given.
pub(super) fn dress(
    file: &File,
    before: &FileSnapshot,
    given: Option<&FileAttributes>,
) -> io::Result<()> {
    let wanted = given.map_or(before.attributes.clone(), |given| {
        given.completed(&before.attributes)
    });
    match wanted.differs_in_mode_only(&before.attributes) {
        true => wanted.apply(file),
        // Those of another file, which the old one never had.
        false => wanted.apply_allowed(file),
    }
}

/// Sets the mode of a file that was overwritten; it keeps its owner and its access control list. Without other attributes, it gets
/// back those that writing clears.
pub(super) fn set_mode_in_place(
    file: &File,
    before: &FileSnapshot,
    given: Option<&FileAttributes>,
) -> io::Result<()> {
    let Some(given) = given else {
        // Only the owner may do this, and the new version is in place anyway.
        let _ = before.attributes.apply_allowed(file);
        return Ok(());
    };
    let wanted = given.completed(&before.attributes);
    match wanted.differs_in_mode_only(&before.attributes) {
        true => set_mode(file, wanted.mode()),
        false => set_mode(file, wanted.mode_without_list()),
    }
}

/// Overwrites a file with new bytes and syncs it. A failure leaves a mixture of old and new bytes.
pub(super) fn overwrite(
    file: &File,
    old_length: usize,
    bytes: &[u8],
    step: BeforeStep<'_>,
) -> io::Result<()> {
    let length = bytes.len() as u64;
    if bytes.len() > old_length {
        reserve(file, length)?;
    }
    let mut offset = 0;
    for chunk in bytes.chunks(CHUNK_BYTES) {
        step()?;
        file.write_all_at(chunk, offset)?;
        offset += chunk.len() as u64;
    }
    step()?;
    file.set_len(length)?;
    file.sync_all()
}

/// Reserves space for a file that grows, so that a full disk is noticed before anything is overwritten.
#[cfg(target_os = "linux")]
fn reserve(file: &File, length: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;

    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
        Err(Errno::NOTSUP | Errno::NOSYS) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

/// Removes a file by its name in a directory.
pub(super) fn remove(dir: BorrowedFd<'_>, name: &OsStr) -> nix::Result<()> {
    unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)
}

/// Gives a file a second name in its directory.
pub(super) fn link(dir: BorrowedFd<'_>, name: &OsStr, second: &OsStr) -> nix::Result<()> {
    linkat(dir, name, dir, second, AtFlags::empty())
}

/// Returns what is at a name; `None` if nothing is.
pub(super) fn status(dir: BorrowedFd<'_>, name: &OsStr) -> nix::Result<Option<FileStat>> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Creates a symbolic link `name` with this text.
pub(super) fn create_link(dir: BorrowedFd<'_>, name: &OsStr, text: &OsStr) -> nix::Result<()> {
    symlinkat(text, dir, name)
}

/// Whether a file is the version that was read.
pub(super) fn is_version(found: &FileStat, stamp: &FileStamp) -> bool {
    FileStamp::of_status(found) == *stamp
}

/// Syncs a directory, so that its names survive a crash of the system.
pub(super) fn sync_directory(dir: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let readable = match openat(dir, ".", flags, Mode::empty()) {
        Ok(readable) => readable,
        // A directory that may be written but not read.
        Err(Errno::EACCES) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match fsync(readable.as_fd()) {
        // A file system that does not sync directories.
        Err(Errno::EINVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
