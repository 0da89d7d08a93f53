//! One file of a commit: checked, staged, replaced, and put back if the commit fails.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{AccessFlags, faccessat};

use super::attributes::set_mode;
use super::plan::{CommitStep, StepObserver};
use super::staging::{self, ReplaceMethod};
use super::{FileSnapshot, FileVersion, PreparedChange};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::{PathFault, ResolvedPath, shown_path};

/// How far the change of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileProgress {
    Untouched,
    /// Its new version exists beside it.
    Staged,
    /// It is being overwritten.
    Overwriting,
    /// It has its new version.
    Done,
}

/// A file of a transaction.
pub(super) struct FileWork<'a> {
    pub change: &'a PreparedChange,
    pub before: Option<FileSnapshot>,
    dir: Option<OwnedFd>,
    name: OsString,
    pub method: ReplaceMethod,
    /// Name of the new version until it replaces the file.
    pub staged_name: OsString,
    /// Second name of the old version.
    pub backup_name: OsString,
    has_backup: bool,
    progress: FileProgress,
}

/// A directory that a commit has created.
pub(super) struct CreatedDirectory {
    pub parent: OwnedFd,
    pub name: OsString,
    pub path: PathBuf,
}

impl<'a> FileWork<'a> {
    /// Checks that a file is what it was when its change was computed, and may be changed.
    ///
    /// # Errors
    /// The file cannot be read, has changed, or must not be changed.
    pub fn check(change: &'a PreparedChange) -> Result<FileWork<'a>, WorkspaceError> {
        let before = match change.is_of_link() {
            true => FileSnapshot::read_entry(&change.target)?,
            false => FileSnapshot::read(&change.target)?,
        };
        let version = |snapshot: &FileSnapshot| (snapshot.is_link, snapshot.digest);
        match (&change.before, &before) {
            (Some(then), Some(now)) if version(then) != version(now) => {
                return Err(change.stale("changed"));
            }
            (Some(_), None) => return Err(change.stale("deleted")),
            (None, Some(_)) => return Err(change.stale("created")),
            _ => {}
        }
        change.check_access()?;
        let is_linked = before.as_ref().is_some_and(|before| before.links > 1);
        let method = match change.after {
            FileVersion::Present { .. } if is_linked => ReplaceMethod::InPlace,
            _ => ReplaceMethod::Rename,
        };
        Ok(FileWork {
            change,
            before,
            dir: None,
            name: OsString::new(),
            method,
            staged_name: staging::temporary_name(),
            backup_name: staging::temporary_name(),
            has_backup: false,
            progress: FileProgress::Untouched,
        })
    }

    /// Returns the directory of the file, once it is open.
    ///
    /// # Errors
    /// The directory is not open.
    pub fn directory(&self) -> io::Result<BorrowedFd<'_>> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        self.dir.as_ref().map(AsFd::as_fd).ok_or_else(missing)
    }

    /// Writes the new version beside the file. Returns whether it has to be written in place instead.
    ///
    /// # Errors
    /// A directory cannot be created, or the new version cannot be written.
    pub fn stage(
        &mut self,
        created: &mut Vec<CreatedDirectory>,
        observer: StepObserver<'_>,
    ) -> Result<bool, WorkspaceError> {
        let change = self.change;
        let (dir, name) = open_parent(&change.target, created, observer)?;
        (self.dir, self.name) = (Some(dir), name);
        let failed = |error: io::Error| change.failed(&error);
        let (bytes, given) = match &change.after {
            FileVersion::Present { bytes, attributes } => (bytes, attributes.as_ref()),
            FileVersion::Link(text) => {
                observer(CommitStep::Stage)
                    .and_then(|()| {
                        let dir = self.directory()?;
                        Ok(staging::create_link(dir, &self.staged_name, text)?)
                    })
                    .map_err(failed)?;
                self.progress = FileProgress::Staged;
                return Ok(false);
            }
            FileVersion::Absent => return Ok(false),
        };
        if self.method == ReplaceMethod::InPlace {
            return Ok(false);
        }
        observer(CommitStep::Stage).map_err(failed)?;
        let replaced = self.before.as_ref().filter(|before| !before.is_link);
        let is_replacement = replaced.is_some();
        let is_private = is_replacement || given.is_some();
        let staged = staging::create_beside(
            self.directory().map_err(failed)?,
            &self.staged_name,
            is_private,
        );
        let staged = match staged {
            Ok(staged) => staged,
            // The file may be written, but not its directory.
            Err(error) if is_refusal(&error) && is_replacement => {
                self.method = ReplaceMethod::InPlace;
                return Ok(true);
            }
            Err(error) => return Err(failed(error)),
        };
        self.progress = FileProgress::Staged;
        let dress = |staged: &File| match (replaced, given) {
            (Some(before), given) => staging::dress(staged, before, given),
            (None, Some(given)) => given.apply_allowed(staged),
            (None, None) => Ok(()),
        };
        match dress(&staged) {
            Err(error) if is_refusal(&error) && is_replacement => {
                self.discard_staged().map_err(failed)?;
                self.method = ReplaceMethod::InPlace;
                return Ok(true);
            }
            dressed => dressed.map_err(failed)?,
        }
        let mut step = || observer(CommitStep::Write);
        staging::fill(&staged, bytes, &mut step, &mut |file| dress(file)).map_err(failed)?;
        Ok(false)
    }

    /// Puts the new version in place of the file.
    ///
    /// # Errors
    /// The file has changed, or cannot be replaced.
    pub fn replace(&mut self, observer: StepObserver<'_>) -> Result<(), WorkspaceError> {
        let change = self.change;
        let replaced = match &change.after {
            FileVersion::Present { bytes, attributes } if self.method == ReplaceMethod::InPlace => {
                self.check_version()?;
                let file = change.target.open_file(OFlag::O_RDWR)?;
                let length = self.before.as_ref().map_or(0, |before| before.bytes.len());
                self.progress = FileProgress::Overwriting;
                staging::overwrite(&file, length, bytes, &mut || {
                    observer(CommitStep::Overwrite)
                })
                .and_then(|()| match &self.before {
                    Some(before) => staging::set_mode_in_place(&file, before, attributes.as_ref()),
                    None => Ok(()),
                })
            }
            FileVersion::Present { .. } | FileVersion::Link(_) => {
                self.check_version()?;
                self.rename_into_place(observer)
            }
            FileVersion::Absent => {
                self.check_version()?;
                observer(CommitStep::Replace).and_then(|()| {
                    let dir = self.directory()?;
                    renameat(
                        dir,
                        self.name.as_os_str(),
                        dir,
                        self.backup_name.as_os_str(),
                    )?;
                    self.has_backup = true;
                    Ok(())
                })
            }
        };
        replaced.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => change.stale("created"),
            _ => change.failed(&error),
        })?;
        self.progress = FileProgress::Done;
        Ok(())
    }

    /// Removes the second name of the old version. One that stays is harmless.
    pub fn clean_up(&self) {
        if self.has_backup {
            let _ = self
                .directory()
                .map(|dir| staging::remove(dir, &self.backup_name));
        }
    }

    /// Checks that the name still has the version that was checked at the beginning.
    fn check_version(&self) -> Result<(), WorkspaceError> {
        let now = self
            .directory()
            .and_then(|dir| Ok(staging::status(dir, &self.name)?));
        let now = now.map_err(|error| self.change.failed(&error))?;
        match (&self.before, now) {
            (Some(before), Some(now)) if !staging::is_version(&now, &before.stamp) => {
                Err(self.change.stale("changed"))
            }
            (Some(_), None) => Err(self.change.stale("deleted")),
            (None, Some(_)) => Err(self.change.stale("created")),
            _ => Ok(()),
        }
    }

    fn rename_into_place(&mut self, observer: StepObserver<'_>) -> io::Result<()> {
        observer(CommitStep::Link)?;
        let dir = self.directory()?;
        let (staged, name) = (self.staged_name.as_os_str(), self.name.as_os_str());
        if self.before.is_none() {
            // Unlike a rename, a link replaces nothing that has appeared meanwhile.
            match staging::link(dir, staged, name) {
                Ok(()) => {
                    // A second name that stays would be harmless.
                    let _ = staging::remove(dir, staged);
                    return Ok(());
                }
                Err(Errno::EEXIST) => return Err(Errno::EEXIST.into()),
                // A file system without hard links.
                Err(_) => {}
            }
        } else {
            // Without a second name, the old version is written again if it has to be restored.
            let has_backup = staging::link(dir, name, &self.backup_name).is_ok();
            self.has_backup = has_backup;
        }
        observer(CommitStep::Replace)?;
        let dir = self.directory()?;
        renameat(
            dir,
            self.staged_name.as_os_str(),
            dir,
            self.name.as_os_str(),
        )?;
        Ok(())
    }

    fn discard_staged(&mut self) -> io::Result<()> {
        match staging::remove(self.directory()?, &self.staged_name) {
            Ok(()) | Err(Errno::ENOENT) => {
                self.progress = FileProgress::Untouched;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Puts the file back as it was.
    ///
    /// # Errors
    /// The file cannot be put back.
    pub fn restore(&mut self) -> io::Result<()> {
        match self.progress {
            FileProgress::Untouched => Ok(()),
            FileProgress::Staged => {
                if self.has_backup {
                    staging::remove(self.directory()?, &self.backup_name)?;
                }
                self.discard_staged()
            }
            FileProgress::Overwriting => self.overwrite_with_old(),
            FileProgress::Done => {
                let dir = self.directory()?;
                match &self.before {
                    None => staging::remove(dir, &self.name)?,
                    Some(_) if self.method == ReplaceMethod::InPlace => {
                        return self.overwrite_with_old();
                    }
                    Some(_) if self.has_backup => {
                        renameat(
                            dir,
                            self.backup_name.as_os_str(),
                            dir,
                            self.name.as_os_str(),
                        )?;
                    }
                    Some(before) => {
                        if before.is_link {
                            let text = OsStr::from_bytes(&before.bytes);
                            staging::create_link(dir, &self.backup_name, text)?;
                        } else {
                            let old = staging::create_beside(dir, &self.backup_name, true)?;
                            let mut dress = |old: &File| staging::dress(old, before, None);
                            dress(&old)?;
                            staging::fill(&old, &before.bytes, &mut || Ok(()), &mut dress)?;
                        }
                        renameat(
                            dir,
                            self.backup_name.as_os_str(),
                            dir,
                            self.name.as_os_str(),
                        )?;
                    }
                }
                Ok(())
            }
        }
    }

    fn overwrite_with_old(&self) -> io::Result<()> {
        let Some(before) = &self.before else {
            return Ok(());
        };
        let file = self
            .change
            .target
            .open_file(OFlag::O_RDWR)
            .map_err(io::Error::other)?;
        let length = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
        staging::overwrite(&file, length, &before.bytes, &mut || Ok(()))?;
        set_mode(&file, before.mode)
    }
}

fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::EPERM, Errno::EACCES, Errno::ENOTSUP, Errno::EINVAL];
    error
        .raw_os_error()
        .is_some_and(|code| refusals.contains(&Errno::from_raw(code)))
}

/// Opens the directory of a file, creating missing directories.
fn open_parent(
    path: &ResolvedPath,
    created: &mut Vec<CreatedDirectory>,
    observer: StepObserver<'_>,
) -> Result<(OwnedFd, OsString), WorkspaceError> {
    match path.open_parent() {
        Err(error) if error.fault == PathFault::Missing => {}
        opened => return Ok(opened?),
    }
    let Some(directory) = path.parent() else {
        return Ok(path.open_parent()?);
    };
    let (above, name) = open_parent(&directory, created, observer)?;
    let failed = |error: io::Error| {
        WorkspaceError::new(format!(
            "{}: the directory cannot be created: {error}",
            shown_path(&directory.absolute)
        ))
    };
    observer(CommitStep::CreateDirectory).map_err(failed)?;
    match mkdirat(&above, name.as_os_str(), Mode::from_bits_truncate(0o777)) {
        Ok(()) => created.push(CreatedDirectory {
            parent: above,
            name,
            path: directory.absolute.clone(),
        }),
        Err(Errno::EEXIST) => {}
        Err(error) => return Err(failed(error.into())),
    }
    Ok(path.open_parent()?)
}

impl PreparedChange {
    /// Checks that the file may be written, or made or removed in its directory.
    ///
    /// # Errors
    /// The mode or the file system forbids changing it.
    pub fn check_access(&self) -> Result<(), WorkspaceError> {
        let replaced = self.before.as_ref().filter(|before| !before.is_link);
        // A rename would replace the file anyway, but its mode says that it must not change.
        if let Some(before) = replaced.filter(|before| before.mode & 0o222 == 0) {
            return Err(self
                .fault(format_args!("is read-only (mode {:03o})", before.mode))
                .hint("make it writable first if it should change"));
        }
        let mut target = self.target.clone();
        let mut what = "its directory";
        let (dir, name) = loop {
            let missing = match target.open_parent() {
                Err(error) if error.fault == PathFault::Missing && self.before.is_none() => error,
                opened => break opened?,
            };
            // Directories will be made, in the nearest one that is there.
            target = target.parent().ok_or(missing)?;
            what = "a directory above it";
        };
        let access = |name: &OsStr| faccessat(&dir, name, AccessFlags::W_OK, AtFlags::AT_EACCESS);
        let may_write = |name: &OsStr, what: &str| match access(name) {
            Ok(()) => Ok(()),
            Err(Errno::EACCES | Errno::EPERM) => {
                Err(self.fault(format_args!("permission denied: {what} may not be written")))
            }
            Err(Errno::EROFS) => Err(self.fault("is on a read-only file system")),
            Err(error) => Err(self.fault(error.desc())),
        };
        match replaced {
            Some(_) if self.after != FileVersion::Absent => may_write(&name, "it"),
            // An immutable file, which cannot be removed either.
            Some(_) if access(&name) == Err(Errno::EPERM) => may_write(&name, "it"),
            // Making and removing are rights in the directory.
            _ => may_write(OsStr::new("."), what),
        }
    }

    pub(super) fn stale(&self, what: &str) -> WorkspaceError {
        self.fault(format_args!("was {what} since it was read"))
            .hint("nothing was changed: read the file again")
    }

    pub(super) fn failed(&self, error: &dyn fmt::Display) -> WorkspaceError {
        self.fault(format_args!("cannot be changed: {error}"))
    }
}
