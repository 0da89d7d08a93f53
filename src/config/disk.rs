//! Finds the configuration file, checks that no other user can write to it, and reads it.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Group, Uid, User};

use super::file::{self, ConfigFile, ConfigProblem, FileFormat};
use crate::error::reason;
use crate::paths::Paths;

/// Maximum size of a configuration, so that a log file with the same name is rejected.
const MAX_BYTES: u64 = 1 << 20;

/// The two possible files.
pub(super) fn candidates(paths: &Paths) -> [(PathBuf, FileFormat); 2] {
    [
        (paths.config.join("config.toml"), FileFormat::Toml),
        (paths.config.join("aish.json"), FileFormat::Json),
    ]
}

/// The state of both files, to find out whether the file must be read again. Cheap enough for every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigStamp([Option<FileStamp>; 2]);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileStamp {
    file: (u64, u64, u64),
    changed: (i64, i64, i64, i64),
    mode: u32,
}

impl ConfigStamp {
    /// Returns the state of both files; a file whose metadata cannot be read counts as absent.
    pub fn of(paths: &Paths) -> ConfigStamp {
        ConfigStamp(candidates(paths).map(|(path, _)| {
            let m = fs::metadata(path).ok()?;
            Some(FileStamp {
                file: (m.dev(), m.ino(), m.len()),
                changed: (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()),
                mode: m.mode(),
            })
        }))
    }
}

fn file_problem(file: &Path, message: impl Into<String>) -> ConfigProblem {
    ConfigProblem {
        file: file.to_path_buf(),
        line: None,
        key: String::new(),
        message: message.into(),
    }
}

/// Returns the file in use, if there is one. Two files are an error.
pub(super) fn find(paths: &Paths) -> Result<Option<(PathBuf, FileFormat)>, ConfigProblem> {
    let mut found = Vec::new();
    for (path, format) in candidates(paths) {
        if exists(&path)? {
            found.push((path, format));
        }
    }
    if let [(toml, _), (json, _)] = &found[..] {
        let message = format!(
            "{} exists as well, and only one of them is allowed: remove one",
            json.display()
        );
        return Err(file_problem(toml, message));
    }
    Ok(found.pop())
}

/// Returns whether there is a file of that name. A dangling link counts, so that it is reported rather than ignored.
pub(super) fn exists(path: &Path) -> Result<bool, ConfigProblem> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        // A path below a regular file is absent too.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(file_problem(
            path,
            format!("cannot be inspected: {}", reason(&e)),
        )),
    }
}

/// Reads the file in use; on failure returns every fault.
pub(super) fn read(paths: &Paths) -> Result<ConfigFile, Vec<ConfigProblem>> {
    let Some((path, format)) = find(paths).map_err(|p| vec![p])? else {
        return Ok(ConfigFile::default());
    };
    let text = read_trusted(&path).map_err(|p| vec![p])?;
    file::parse(&text, format, &path)
}

/// Reads a file that only this user can write.
pub(super) fn read_trusted(path: &Path) -> Result<String, ConfigProblem> {
    read_checked(path, MAX_BYTES, check_trusted)
}

/// Same, for a text that is not a configuration.
pub(super) fn read_trusted_text(path: &Path, max_bytes: u64) -> Result<String, ConfigProblem> {
    read_checked(path, max_bytes, check_trusted)
}

/// Reads a file that other users may write, for content that cannot do harm.
pub(super) fn read_untrusted(path: &Path, max_bytes: u64) -> Result<String, ConfigProblem> {
    read_checked(path, max_bytes, check_regular)
}

fn read_checked(
    path: &Path,
    max_bytes: u64,
    check: fn(&Path, &Metadata) -> Result<(), ConfigProblem>,
) -> Result<String, ConfigProblem> {
    // O_NONBLOCK: opening a FIFO of that name must not block the daemon.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(|e| file_problem(path, format!("cannot be opened: {}", reason(&e))))?;
    // The metadata of the open file, so that the file that is checked is the file that is read.
    let meta = file
        .metadata()
        .map_err(|e| file_problem(path, format!("cannot be inspected: {}", reason(&e))))?;
    check(path, &meta)?;
    let mut bytes = Vec::new();
    file.take(max_bytes + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| file_problem(path, format!("cannot be read: {}", reason(&e))))?;
    if bytes.len() as u64 > max_bytes {
        let message = format!(
            "is larger than {} KiB, the limit for files that aish reads",
            max_bytes / 1024
        );
        return Err(file_problem(path, message));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let lines = e
            .as_bytes()
            .iter()
            .take(good)
            .filter(|b| **b == b'\n')
            .count();
        ConfigProblem {
            line: Some(lines + 1),
            ..file_problem(path, "is not UTF-8 text")
        }
    })
}

/// Refuses a file that another user can write, because `key_cmd` and `serve` run programs as this user.
fn check_trusted(path: &Path, meta: &Metadata) -> Result<(), ConfigProblem> {
    check_regular(path, meta)?;
    let uid = Uid::current();
    if meta.uid() != uid.as_raw() && meta.uid() != 0 {
        let message = format!("belongs to another user (uid {})", meta.uid());
        return Err(file_problem(path, message));
    }
    let by_group = meta.mode() & 0o020 != 0 && !is_private_group(meta.gid(), uid);
    if meta.mode() & 0o002 != 0 || by_group {
        let message = format!(
            "may be written by other users (mode {:04o}), but aish trusts it: run chmod go-w on it",
            meta.mode() & 0o7777
        );
        return Err(file_problem(path, message));
    }
    Ok(())
}

fn check_regular(path: &Path, meta: &Metadata) -> Result<(), ConfigProblem> {
    match meta.is_file() {
        true => Ok(()),
        false => Err(file_problem(path, "is not a regular file")),
    }
}

/// Returns whether this is the user's private group: the group with the user's name and no other members. Many systems create one for each
/// user and make new files writable by it.
fn is_private_group(gid: u32, uid: Uid) -> bool {
    let (Ok(Some(user)), Ok(Some(group))) = (User::from_uid(uid), Group::from_gid(gid.into()))
    else {
        return false;
    };
    user.gid == group.gid
        && user.name == group.name
        && group.mem.iter().all(|member| *member == user.name)
}
