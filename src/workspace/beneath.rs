//! Opens files beneath a directory, following no symbolic link.
//!
//! Linux does this with one `openat2`. Without it (macOS, old kernels, seccomp filters) each directory of the path is opened
//! by itself with `O_NOFOLLOW`.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};

use super::path_error::{PathError, PathFault, PathResult};

/// Permission bits of a created file, before the umask.
const CREATE_MODE: Mode = Mode::from_bits_truncate(0o666);

/// How a path beneath a root is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMethod {
    /// `openat2` with the kernel's checks; the walk where the kernel has no `openat2`.
    Kernel,
    /// One `openat` with `O_NOFOLLOW` per directory.
    Walk,
}

/// Flags of a directory that is only passed through.
pub(super) fn search_flags() -> OFlag {
    #[cfg(target_os = "linux")]
    let kind = OFlag::O_PATH;
    // Needs the right to read the directory, which Linux does not.
    #[cfg(not(target_os = "linux"))]
    let kind = OFlag::O_RDONLY;
    kind | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC
}

/// Returns the type bits of a file.
pub(super) fn file_type(found: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT
}

/// Opens a regular file by its name in an open directory; `shown` is its path in errors.
pub(super) fn open_regular(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    shown: &Path,
    flags: OFlag,
) -> PathResult<File> {
    match fstatat(dir, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => require_regular(&found, shown)?,
        Err(Errno::ENOENT) if flags.contains(OFlag::O_CREAT) => {}
        Err(errno) => return Err(PathError::open(shown, errno)),
    }
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = match openat(dir, name, flags, CREATE_MODE) {
        Ok(file) => file,
        // A FIFO without a reader, or a socket, which replaced the file a moment ago.
        Err(Errno::ENXIO) => return Err(special(shown, "is not a regular file")),
        Err(errno) => return Err(PathError::open(shown, errno)),
    };
    let found = fstat(&file).map_err(|errno| PathError::system(shown, errno))?;
    require_regular(&found, shown)?;
    Ok(File::from(file))
}

/// Opens a file that its directory lists as a regular one, for reading: [`open_regular`] with fewer system calls.
pub(super) fn open_listed(dir: BorrowedFd<'_>, name: &OsStr, shown: &Path) -> PathResult<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file =
        openat(dir, name, flags, Mode::empty()).map_err(|errno| PathError::open(shown, errno))?;
    let found = fstat(&file).map_err(|errno| PathError::system(shown, errno))?;
    require_regular(&found, shown)?;
    Ok(File::from(file))
}

fn special(path: &Path, reason: &str) -> PathError {
    PathError::new(PathFault::Special, path, reason)
}

fn require_regular(found: &FileStat, path: &Path) -> PathResult<()> {
    match file_type(found) {
        SFlag::S_IFREG => Ok(()),
        SFlag::S_IFDIR => Err(PathError::new(PathFault::WrongKind, path, "is a directory")),
        SFlag::S_IFLNK => Err(PathError::changed(path)),
        SFlag::S_IFIFO => Err(special(path, "is a FIFO, not a regular file")),
        SFlag::S_IFSOCK => Err(special(path, "is a socket, not a regular file")),
        SFlag::S_IFBLK | SFlag::S_IFCHR => Err(special(path, "is a device, not a regular file")),
        _ => Err(special(path, "is not a regular file")),
    }
}

/// Opens `relative` beneath `root`, following no symbolic link. A link is reported as `ELOOP`.
pub(super) fn open_beneath(
    root: BorrowedFd<'_>,
    relative: &Path,
    flags: OFlag,
    method: OpenMethod,
) -> Result<OwnedFd, Errno> {
    let plain = |c: Component<'_>| matches!(c, Component::Normal(_));
    if !relative.components().all(plain) {
        return Err(Errno::EXDEV);
    }
    if method == OpenMethod::Kernel {
        match open_by_kernel(root, relative, flags) {
            // No openat2 here, or a seccomp filter that does not know it.
            Err(Errno::ENOSYS | Errno::EPERM | Errno::EINVAL | Errno::E2BIG) => {}
            done => return done,
        }
    }
    open_by_walk(root, relative, flags)
}

#[cfg(target_os = "linux")]
fn open_by_kernel(root: BorrowedFd<'_>, relative: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    use nix::fcntl::{OpenHow, ResolveFlag, openat2};

    let path = match relative.as_os_str().is_empty() {
        true => Path::new("."),
        false => relative,
    };
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match openat2(root, path, OpenHow::new().flags(flags).resolve(resolve)) {
            // A rename elsewhere on the system disturbed the kernel's check.
            Err(Errno::EAGAIN) if tries < 100 => tries += 1,
            // With `O_DIRECTORY` a link as the last part is reported as "not a directory".
            Err(Errno::ENOTDIR) if was_link(root, path) => return Err(Errno::ELOOP),
            done => return done,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn open_by_kernel(_: BorrowedFd<'_>, _: &Path, _: OFlag) -> Result<OwnedFd, Errno> {
    Err(Errno::ENOSYS)
}

/// Whether "not a directory" was reported for a symbolic link; for a directory, if a link was replaced by it meanwhile.
fn was_link(dir: BorrowedFd<'_>, path: &Path) -> bool {
    match fstatat(dir, path, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(found) => matches!(file_type(&found), SFlag::S_IFLNK | SFlag::S_IFDIR),
        Err(errno) => errno == Errno::ENOENT,
    }
}

fn open_by_walk(root: BorrowedFd<'_>, relative: &Path, flags: OFlag) -> Result<OwnedFd, Errno> {
    let open = |dir: BorrowedFd<'_>, name: &Path, flags: OFlag| {
        let flags = flags | OFlag::O_NOFOLLOW;
        match openat(dir, name, flags, Mode::empty()) {
            Err(Errno::ENOTDIR) if was_link(dir, name) => Err(Errno::ELOOP),
            done => done,
        }
    };
    let mut names = relative.iter().peekable();
    let mut dir: Option<OwnedFd> = None;
    while let Some(name) = names.next() {
        let at = dir.as_ref().map_or(root, AsFd::as_fd);
        let flags = match names.peek() {
            Some(_) => search_flags(),
            None => flags,
        };
        dir = Some(open(at, Path::new(name), flags)?);
    }
    match dir {
        Some(opened) => Ok(opened),
        None => open(root, Path::new("."), flags),
    }
}
