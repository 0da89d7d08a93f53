//! The private temporary directory of a sandbox.

use std::ffi::{CStr, CString};
use std::fs::{self, DirBuilder, DirEntry, File};
use std::io::{ErrorKind, Result as IoResult};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::NixPath;
use nix::dir::Dir;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, OFlag, openat, renameat};
use nix::sys::stat::Mode;
use nix::unistd::{Uid, UnlinkatFlags, unlinkat};

use crate::error::{Error, ErrorContext, Result};

/// How the names begin.
const PREFIX: &str = "aish-sandbox-";

/// Age below which a directory without a lock may be one that is being made.
const NEW: Duration = Duration::from_secs(60);

/// Attempts to find a free name.
const ATTEMPTS: u32 = 16;

/// Maximum number of entries that are measured; more count as too large.
const MAX_ENTRIES: usize = 200_000;

/// Unit of `st_blocks`.
const BLOCK: u64 = 512;

/// A directory that is removed with its content.
pub(super) struct PrivateTmp {
    path: PathBuf,
    /// Held while the sandbox runs, so that [`remove_abandoned`] leaves the directory alone.
    _lock: Flock<File>,
}

impl PrivateTmp {
    /// Creates it, with mode 0700.
    ///
    /// # Errors
    /// The directory for temporary files cannot be written.
    pub(super) fn create() -> Result<PrivateTmp> {
        let parent = std::env::temp_dir();
        let parent = parent
            .canonicalize()
            .context(|| format!("cannot open {}", parent.display()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos());
        for attempt in 0..ATTEMPTS {
            let name = format!("{PREFIX}{}-{now:x}-{attempt}", std::process::id());
            let path = parent.join(name);
            let made = DirBuilder::new().mode(0o700).create(&path);
            match made.and_then(|()| lock(&path)) {
                Ok(lock) => return Ok(PrivateTmp { path, _lock: lock }),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => {
                    return Err(Error::runtime(format!(
                        "cannot create a directory in {}: {e}",
                        parent.display()
                    )));
                }
            }
        }
        Err(Error::runtime(format!(
            "cannot find a free name in {}",
            parent.display()
        )))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Compares the content with `bytes` on disk.
    pub(super) fn measure(&self, bytes: u64) -> TmpSize {
        measure(&self.path, bytes)
    }
}

/// The size of a private directory, compared with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TmpSize {
    Within,
    Above,
    /// A part cannot be listed: the command has taken the right away, or nested directories too deeply for a path.
    Unknown,
}

fn measure(path: &Path, bytes: u64) -> TmpSize {
    let mut pending = vec![path.to_owned()];
    let (mut used, mut entries) = (0u64, 0usize);
    let mut size = TmpSize::Within;
    // An entry that is gone meanwhile has no size.
    let mut note = |e: &std::io::Error| {
        if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
            size = TmpSize::Unknown;
        }
    };
    while let Some(dir) = pending.pop() {
        let listed = fs::read_dir(dir).inspect_err(&mut note);
        for entry in listed.into_iter().flatten() {
            // Not through symlinks.
            let read = entry.and_then(|entry| Ok((entry.metadata()?, entry)));
            let Ok((meta, entry)) = read.inspect_err(&mut note) else {
                continue;
            };
            entries += 1;
            used = used.saturating_add(meta.blocks().saturating_mul(BLOCK));
            if used > bytes || entries > MAX_ENTRIES {
                return TmpSize::Above;
            }
            if meta.is_dir() {
                pending.push(entry.path());
            }
        }
    }
    size
}

fn lock(path: &Path) -> IoResult<Flock<File>> {
    Flock::lock(File::open(path)?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| errno.into())
}

/// Removes the directories in `parent` whose sandbox was killed before it could remove them.
pub(super) fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| is_old_and_own(entry).unwrap_or(false)) {
        if let Ok(_lock) = lock(&entry.path()) {
            remove(&entry.path());
        }
    }
}

/// Removes a directory with its content. Entries that cannot be removed stay in a directory that only this user can open.
///
/// `fs::remove_dir_all` is recursive: a command can nest directories so deeply that the stack overflows. This moves nested
/// directories up until they are empty. It starts no `rm`, because the command may have put a program of that name into `PATH`.
fn remove(path: &Path) {
    if fs::remove_dir(path).is_ok() {
        return;
    }
    if let Ok(root) = open_dir(AT_FDCWD, path) {
        let mut moved = 0;
        // Each round removes the directories of the one before, until nothing more can be done.
        let mut is_changed = true;
        while is_changed {
            is_changed = false;
            for name in entries(&root) {
                is_changed |= remove_entry(&root, &name, &mut moved);
            }
        }
    }
    let _ = fs::remove_dir(path);
}

/// Removes an entry, or its content. Directories in it that are not empty move to `root`. Returns whether anything was done.
fn remove_entry(root: &OwnedFd, name: &CStr, moved: &mut u64) -> bool {
    if unlink(root, name) {
        return true;
    }
    let Ok(dir) = open_dir(root, name) else {
        return false;
    };
    let mut is_changed = false;
    for inner in entries(&dir) {
        if unlink(&dir, &inner) {
            is_changed = true;
            continue;
        }
        // To move a directory, its owner must be able to write it.
        let _ = open_dir(&dir, &*inner);
        // The command may have taken some of these names.
        is_changed |= (0..3).any(|_| {
            *moved += 1;
            let place = format!(".aish-removed-{moved}");
            renameat(&dir, &*inner, root, place.as_str()).is_ok()
        });
    }
    unlink(root, name) || is_changed
}

fn unlink(dir: &OwnedFd, name: &CStr) -> bool {
    let by = |flag| unlinkat(dir, name, flag).is_ok();
    by(UnlinkatFlags::NoRemoveDir) || by(UnlinkatFlags::RemoveDir)
}

/// Opens a directory, not through a symlink, and lets its owner do everything in it.
fn open_dir<P: ?Sized + NixPath>(at: impl AsFd, name: &P) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let found = openat(
        at,
        name,
        flags | OFlag::O_PATH | OFlag::O_NOFOLLOW,
        Mode::empty(),
    )?;
    let own = format!("/proc/self/fd/{}", found.as_raw_fd());
    let _ = fs::set_permissions(own, fs::Permissions::from_mode(0o700));
    openat(&found, ".", flags | OFlag::O_RDONLY, Mode::empty())
}

fn entries(dir: &OwnedFd) -> Vec<CString> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let Ok(mut dir) = Dir::openat(dir, ".", flags, Mode::empty()) else {
        return Vec::new();
    };
    let names = dir.iter().flatten();
    let names = names.map(|entry| entry.file_name().to_owned());
    names
        .filter(|name| ![c".", c".."].contains(&name.as_c_str()))
        .collect()
}

fn is_old_and_own(entry: &DirEntry) -> IoResult<bool> {
    if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
        return Ok(false);
    }
    // Not through symlinks.
    let meta = entry.metadata()?;
    let age = meta.modified()?.elapsed().unwrap_or_default();
    Ok(meta.is_dir() && meta.uid() == Uid::effective().as_raw() && age >= NEW)
}

impl Drop for PrivateTmp {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;
    use std::os::unix::fs::symlink;

    use nix::sys::stat::mkdirat;

    use super::*;

    #[test]
    fn whatever_a_command_leaves_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("left");
        let outside = parent.path().join("outside");
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        fs::create_dir_all(path.join(".aish-removed-1/x")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "x").unwrap();
        fs::write(path.join("a/b/c/file"), "x").unwrap();
        symlink(&outside, path.join("a/link")).unwrap();
        symlink(&outside, path.join("a/b/link")).unwrap();
        for dir in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(path.join(dir), fs::Permissions::from_mode(0o0)).unwrap();
        }
        remove(&path);
        assert!(!path.exists());
        assert!(outside.join("file").exists());
    }

    #[test]
    fn a_directory_of_any_depth_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("deep");
        fs::create_dir(&path).unwrap();
        let mut at = File::open(&path).unwrap();
        for _ in 0..10_000 {
            mkdirat(&at, "d", Mode::S_IRWXU).unwrap();
            at = openat(&at, "d", OFlag::O_RDONLY, Mode::empty())
                .unwrap()
                .into();
        }
        remove(&path);
        assert!(!path.exists());
    }

    #[test]
    fn what_cannot_be_listed_has_no_known_size() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("measured");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("file"), vec![0; 10_000]).unwrap();
        assert_eq!(measure(&path, 100_000), TmpSize::Within);
        assert_eq!(measure(&path, 5000), TmpSize::Above);
        assert_eq!(measure(&path.join("gone"), 5000), TmpSize::Within);
        // Longer than a path can be, which also root cannot list.
        let mut at = File::open(&path).unwrap();
        let name = "d".repeat(200);
        for _ in 0..30 {
            mkdirat(&at, name.as_str(), Mode::S_IRWXU).unwrap();
            at = openat(&at, name.as_str(), OFlag::O_RDONLY, Mode::empty())
                .unwrap()
                .into();
        }
        assert_eq!(measure(&path, 100_000_000), TmpSize::Unknown);
        remove(&path);
    }

    #[test]
    fn only_old_directories_without_a_sandbox_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), "x").unwrap();
            let times = FileTimes::new().set_modified(SystemTime::now() - age);
            File::open(&path).unwrap().set_times(times).unwrap();
            path
        };
        let abandoned = make("aish-sandbox-1-a-0", 2 * NEW);
        let running = make("aish-sandbox-2-a-0", 2 * NEW);
        let _lock = lock(&running).unwrap();
        let new = make("aish-sandbox-3-a-0", Duration::ZERO);
        let foreign = make("other", 2 * NEW);
        symlink(&foreign, parent.path().join("aish-sandbox-4-a-0")).unwrap();
        remove_abandoned(parent.path());
        assert!(!abandoned.exists());
        assert!(running.join("file").exists());
        assert!(new.join("file").exists());
        assert!(foreign.join("file").exists());
    }
}
