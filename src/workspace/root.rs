//! The directories in which a session may read and write, and the opening of files beneath them.
//!
//! A path is resolved once, when the call that names it is decided on: every symbolic link is replaced by its target, and the
//! result is what the user is shown. At the time of use the file is opened beneath the descriptor of its root, and no
//! symbolic link is followed any more: a link that appears in between is refused, so that an approved path cannot lead
//! elsewhere. Linux does this with one `openat2`; without it (macOS, old kernels, seccomp filters) each directory of the path
//! is opened by itself with `O_NOFOLLOW`.
//!
//! - A mount point below a root belongs to the root: only someone with the right to mount can make one.
//! - Where a file system ignores case, a path keeps the spelling it was written in. Comparing the names of files with names of
//!   special meaning (`.git`) must ignore case.
//! - A hard link has no target that could be resolved. Its number of links reveals it: see [`std::os::unix::fs::MetadataExt`].

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};

use super::beneath::{OpenMethod, file_type, open_beneath, open_regular, search_flags};
pub use super::path_error::{PathError, PathFault, PathResult};
use super::path_error::{StoppedPath, shown_path};
use super::real_path::{FollowedPath, check_text, real_directory, real_path};

/// A root directory: its real path, and the descriptor beneath which its files are opened.
#[derive(Debug, Clone)]
struct RootDir {
    path: PathBuf,
    fd: Arc<OwnedFd>,
}

impl RootDir {
    /// Opens a directory by its real path.
    fn open(path: PathBuf) -> PathResult<RootDir> {
        let system = |errno| PathError::system(&path, errno);
        let top = nix::fcntl::open("/", search_flags(), Mode::empty()).map_err(system)?;
        let below = path.strip_prefix("/").unwrap_or(&path);
        let fd = open_beneath(top.as_fd(), below, search_flags(), OpenMethod::Kernel)
            .map_err(|errno| PathError::open(&path, errno))?;
        Ok(RootDir {
            path,
            fd: Arc::new(fd),
        })
    }
}

/// The directories in which a session may read without a question: the top of the git repository around the shell's
/// directory, or that directory, and what the user has added.
#[derive(Debug, Clone)]
pub struct Workspace {
    cwd: PathBuf,
    home: Option<PathBuf>,
    roots: Vec<RootDir>,
    /// `/`, beneath which everything outside is opened.
    system: RootDir,
    method: OpenMethod,
}

impl Workspace {
    /// Creates the workspace of a shell in `cwd`; `home` is the user's home directory.
    ///
    /// The repository is found by its `.git`, without running git. A `.git` of another user does not count, since anyone can
    /// make one in a shared directory such as `/tmp`. Neither does one in the home directory or in `/`, unless the shell is
    /// right there: it would make every file of the user part of the workspace.
    ///
    /// # Errors
    /// `cwd` or an added directory does not exist, is not a directory, or cannot be opened.
    pub fn new(cwd: &Path, home: Option<&Path>, added: &[PathBuf]) -> PathResult<Workspace> {
        let cwd = real_directory(cwd)?;
        let home = home.and_then(|home| fs::canonicalize(home).ok());
        let mut paths = vec![repository_top(&cwd, home.as_deref())];
        for dir in added {
            paths.push(real_directory(&cwd.join(dir))?);
        }
        let mut roots: Vec<RootDir> = Vec::new();
        for path in paths {
            if roots.iter().all(|root| root.path != path) {
                roots.push(RootDir::open(path)?);
            }
        }
        Ok(Workspace {
            cwd,
            home,
            roots,
            system: RootDir::open(PathBuf::from("/"))?,
            method: OpenMethod::Kernel,
        })
    }

    /// Opens paths directory by directory, as on systems without `openat2`.
    #[must_use]
    pub fn without_openat2(mut self) -> Workspace {
        self.method = OpenMethod::Walk;
        self
    }

    /// Returns the real path of the shell's directory, to which relative paths refer.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Returns the real paths of the roots; the first one is that of the shell's directory.
    pub fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Resolves a path as a model wrote it: absolute, relative to the shell's directory, or with `~`.
    ///
    /// The path may name something that does not exist yet: then its nearest existing directory is resolved, and the rest
    /// may not contain `..`.
    ///
    /// # Errors
    /// One line: the text is not a path, or a directory of it cannot be searched.
    pub fn resolve(&self, path: &str) -> PathResult<ResolvedPath> {
        self.resolve_path(&self.expand(path)?)
    }

    /// Resolves a path like [`Self::resolve`], without `~`; for names that are not UTF-8.
    ///
    /// # Errors
    /// Same as [`Self::resolve`].
    pub fn resolve_path(&self, path: &Path) -> PathResult<ResolvedPath> {
        check_text(path)?;
        let followed = real_path(&self.cwd, path)?;
        match check_text(&followed.real) {
            Ok(()) => Ok(self.reached_by(followed)),
            Err(error) => Err(PathError {
                followed: Some(StoppedPath {
                    stopped_at: followed.real,
                    left: followed.left,
                }),
                ..error
            }),
        }
    }

    /// Resolves a path like [`Self::resolve`], but for a symbolic link at its end, which is not followed: the result is the
    /// link itself.
    ///
    /// # Errors
    /// Same as [`Self::resolve`].
    pub fn resolve_entry(&self, path: &str) -> PathResult<ResolvedPath> {
        let whole = self.cwd.join(self.expand(path)?);
        let is_link = fs::symlink_metadata(&whole).is_ok_and(|found| found.is_symlink());
        // With a slash at the end, a path means what the link leads to.
        match (whole.parent(), whole.file_name()) {
            (Some(parent), Some(name))
                if is_link && !path.ends_with('/') && !path.ends_with("/.") =>
            {
                check_text(&whole)?;
                let mut followed = real_path(&self.cwd, parent)?;
                followed.real.push(name);
                Ok(self.reached_by(followed))
            }
            _ => self.resolve(path),
        }
    }

    /// Returns the root of the workspace that contains the shell's directory, as a path to open.
    pub fn top(&self) -> ResolvedPath {
        let top = self.roots.first().map_or(&self.cwd, |root| &root.path);
        self.at(top.clone())
    }

    /// Returns a path as [`Self::at`]. A path that leads through another directory no longer belongs to the workspace: that it
    /// can be followed reveals that the directory exists.
    fn reached_by(&self, followed: FollowedPath) -> ResolvedPath {
        let detour = followed.left.into_iter().find(|dir| !self.is_known(dir));
        let path = self.at(followed.real);
        ResolvedPath {
            workspace: path.workspace.clone().filter(|_| detour.is_none()),
            detour: detour.filter(|_| path.workspace.is_some()),
            ..path
        }
    }

    /// Whether a directory is in the workspace or above it.
    fn is_known(&self, dir: &Path) -> bool {
        let mut roots = self.roots.iter();
        roots.any(|root| dir.starts_with(&root.path) || root.path.starts_with(dir))
    }

    /// Returns the places of which an error of [`Self::resolve`] reveals something; none if the text of the path is wrong.
    pub fn places(&self, error: &PathError) -> Vec<ResolvedPath> {
        let followed = error.followed.iter();
        let places = followed.flat_map(|path| {
            let left = path.left.iter().filter(|dir| !self.is_known(dir));
            left.chain([&path.stopped_at])
        });
        places.map(|place| self.at(place.clone())).collect()
    }

    fn at(&self, real: PathBuf) -> ResolvedPath {
        let root = self.roots.iter().find(|root| real.starts_with(&root.path));
        let workspace = root.map(|root| root.path.clone());
        let root = root.unwrap_or(&self.system);
        let relative = real.strip_prefix(&root.path).unwrap_or(&real);
        ResolvedPath {
            relative: relative.to_path_buf(),
            root: root.clone(),
            absolute: real,
            workspace,
            detour: None,
            method: self.method,
        }
    }

    fn expand(&self, path: &str) -> PathResult<PathBuf> {
        let Some(rest) = path.strip_prefix('~') else {
            return Ok(PathBuf::from(path));
        };
        if !rest.is_empty() && !rest.starts_with('/') {
            return Err(PathError::invalid(format!(
                "{}: only ~ and ~/ are expanded; write ./~ for a name that begins with ~",
                shown_path(Path::new(path))
            )));
        }
        match &self.home {
            Some(home) => Ok(home.join(rest.trim_start_matches('/'))),
            None => Err(PathError::invalid("~: the home directory is not known")),
        }
    }
}

/// A file or directory as it was resolved when the call was decided on. It may not exist yet.
#[derive(Debug, Clone)]
pub struct ResolvedPath {
    /// The real path, without symbolic links, as the user is shown it.
    pub absolute: PathBuf,
    /// The root of the workspace that contains it; `None` outside of the workspace, or with a detour.
    pub workspace: Option<PathBuf>,
    /// The directory outside of the workspace through which the path leads into it.
    pub detour: Option<PathBuf>,
    root: RootDir,
    relative: PathBuf,
    method: OpenMethod,
}

impl ResolvedPath {
    /// Returns the path below its root; empty for the root itself.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Returns the directory that contains this path; `None` for a root.
    pub fn parent(&self) -> Option<ResolvedPath> {
        let relative = self.relative.parent()?;
        Some(ResolvedPath {
            absolute: self.root.path.join(relative),
            workspace: self.workspace.clone(),
            detour: self.detour.clone(),
            root: self.root.clone(),
            relative: relative.to_path_buf(),
            method: self.method,
        })
    }

    /// Returns the path of a name in this directory, which is not a symbolic link.
    pub(super) fn child(&self, name: &OsStr) -> ResolvedPath {
        ResolvedPath {
            absolute: self.absolute.join(name),
            workspace: self.workspace.clone(),
            detour: self.detour.clone(),
            root: self.root.clone(),
            relative: self.relative.join(name),
            method: self.method,
        }
    }

    /// Opens the regular file with these flags; with `O_CREAT` its mode is 0666 without the umask.
    ///
    /// Never waits: a FIFO, a socket and a device are refused before they are opened, because opening one can wait or act.
    ///
    /// # Errors
    /// One line: missing, not a regular file, changed since it was resolved, or refused by the system.
    pub fn open_file(&self, flags: OFlag) -> PathResult<File> {
        let (dir, name) = self.open_parent()?;
        open_regular(dir.as_fd(), &name, &self.absolute, flags)
    }

    /// Opens the directory that contains the path, and returns it with the name in it. The descriptor is only for `…at`
    /// calls (`O_PATH` on Linux); it is neither readable nor syncable.
    ///
    /// # Errors
    /// Same as [`Self::open_file`]; a root has no directory in the workspace.
    pub fn open_parent(&self) -> PathResult<(OwnedFd, OsString)> {
        let (Some(parent), Some(name)) = (self.relative.parent(), self.relative.file_name()) else {
            return Err(PathError::new(
                PathFault::WrongKind,
                &self.absolute,
                "is a directory",
            ));
        };
        let dir = open_beneath(self.root.fd.as_fd(), parent, search_flags(), self.method)
            .map_err(|errno| PathError::open(&self.absolute, errno))?;
        Ok((dir, name.to_owned()))
    }

    /// Returns the text of the symbolic link at the path, and its status; `None` if there is none.
    ///
    /// # Errors
    /// Same as [`Self::open_file`], but for a missing file.
    pub(super) fn link(&self) -> PathResult<Option<(OsString, FileStat)>> {
        let (dir, name) = match self.open_parent() {
            Ok(opened) => opened,
            Err(error) if error.fault == PathFault::Missing => return Ok(None),
            Err(error) => return Err(error),
        };
        let system = |errno| PathError::open(&self.absolute, errno);
        match fstatat(&dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) if file_type(&found) == SFlag::S_IFLNK => {
                let text = readlinkat(&dir, name.as_os_str()).map_err(system)?;
                Ok(Some((text, found)))
            }
            Ok(_) | Err(Errno::ENOENT) => Ok(None),
            Err(errno) => Err(system(errno)),
        }
    }

    /// Opens the directory for reading (and for syncing it).
    ///
    /// # Errors
    /// Same as [`Self::open_file`].
    pub fn open_dir(&self) -> PathResult<OwnedFd> {
        let flags = OFlag::O_RDONLY
            | OFlag::O_DIRECTORY
            | OFlag::O_NOFOLLOW
            | OFlag::O_CLOEXEC
            | OFlag::O_NONBLOCK;
        open_beneath(self.root.fd.as_fd(), &self.relative, flags, self.method).map_err(|errno| {
            match errno {
                Errno::ENOTDIR => {
                    PathError::new(PathFault::WrongKind, &self.absolute, "is not a directory")
                }
                errno => PathError::open(&self.absolute, errno),
            }
        })
    }

    /// Returns the status of the file at the path without opening it.
    ///
    /// # Errors
    /// Same as [`Self::open_file`].
    pub fn status(&self) -> PathResult<FileStat> {
        let system = |errno| PathError::open(&self.absolute, errno);
        let found = match self.relative.file_name() {
            None => fstat(self.root.fd.as_fd()).map_err(system)?,
            Some(_) => {
                let (dir, name) = self.open_parent()?;
                fstatat(dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW).map_err(system)?
            }
        };
        match file_type(&found) == SFlag::S_IFLNK {
            true => Err(PathError::changed(&self.absolute)),
            false => Ok(found),
        }
    }
}

/// Returns the top of the repository around a directory, or the directory.
fn repository_top(cwd: &Path, home: Option<&Path>) -> PathBuf {
    let user = nix::unistd::geteuid().as_raw();
    for dir in cwd.ancestors() {
        if dir != cwd && (dir.parent().is_none() || Some(dir) == home) {
            break;
        }
        if let Ok(found) = fs::symlink_metadata(dir.join(".git")) {
            // Above another user's repository there is nothing of ours either.
            return match found.uid() == user {
                true => dir.to_path_buf(),
                false => cwd.to_path_buf(),
            };
        }
    }
    cwd.to_path_buf()
}
