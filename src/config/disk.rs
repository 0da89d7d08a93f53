//! Finds the one file, checks that nobody else can write to it, and reads it.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{Group, Uid, User};

use super::file::{self, File, Format, Problem};
use crate::paths::Paths;

/// Far beyond any real configuration; a bound for whoever put a log there by mistake.
const MAX_BYTES: u64 = 1 << 20;

/// The two files that are looked for.
pub(super) fn candidates(paths: &Paths) -> [(PathBuf, Format); 2] {
    [
        (paths.config.join("config.toml"), Format::Toml),
        (paths.config.join("aish.json"), Format::Json),
    ]
}

/// What tells whether the file is still the one that was read: cheap enough for every request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp([Option<Mark>; 2]);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Mark {
    file: (u64, u64, u64),
    changed: (i64, i64, i64, i64),
    mode: u32,
}

impl Stamp {
    /// The state of both files now; one that cannot be looked at counts as absent.
    pub fn of(paths: &Paths) -> Stamp {
        Stamp(candidates(paths).map(|(path, _)| {
            let m = fs::metadata(path).ok()?;
            Some(Mark {
                file: (m.dev(), m.ino(), m.len()),
                changed: (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec()),
                mode: m.mode(),
            })
        }))
    }
}

fn whole(file: &Path, message: impl Into<String>) -> Problem {
    Problem {
        file: file.to_path_buf(),
        line: None,
        key: String::new(),
        message: message.into(),
    }
}

/// Which file is in use; none is fine, two are not.
pub(super) fn find(paths: &Paths) -> Result<Option<(PathBuf, Format)>, Problem> {
    let mut found = Vec::new();
    for (path, format) in candidates(paths) {
        if is_there(&path)? {
            found.push((path, format));
        }
    }
    if let [(toml, _), (json, _)] = &found[..] {
        let message = format!(
            "{} is there as well, and only one may be: remove one of the two",
            json.display()
        );
        return Err(whole(toml, message));
    }
    Ok(found.pop())
}

/// Whether there is a file of that name. The name itself counts: a dangling link is a fault to report, not an absent file.
pub(super) fn is_there(path: &Path) -> Result<bool, Problem> {
    match fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        // A name below something that is no directory is absent as well.
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(e) => Err(whole(path, format!("cannot be looked at: {e}"))),
    }
}

/// Reads the file that is in use; on failure every fault of it.
pub(super) fn read(paths: &Paths) -> Result<File, Vec<Problem>> {
    let Some((path, format)) = find(paths).map_err(|p| vec![p])? else {
        return Ok(File::default());
    };
    let text = read_text(&path).map_err(|p| vec![p])?;
    file::parse(&text, format, &path)
}

/// The text of a file that is ours alone to write.
pub(super) fn read_text(path: &Path) -> Result<String, Problem> {
    read_checked(path, MAX_BYTES, trusted)
}

/// The text of a file of whomever: for what can do no harm.
pub(super) fn read_any(path: &Path, most: u64) -> Result<String, Problem> {
    read_checked(path, most, regular)
}

fn read_checked(
    path: &Path,
    most: u64,
    check: fn(&Path, &Metadata) -> Result<(), Problem>,
) -> Result<String, Problem> {
    // Not blocking: a FIFO of that name must not hang the daemon.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)
        .map_err(|e| whole(path, format!("cannot be opened: {e}")))?;
    // Of the open file: what is checked is what is read.
    let meta = file
        .metadata()
        .map_err(|e| whole(path, format!("cannot be looked at: {e}")))?;
    check(path, &meta)?;
    let mut bytes = Vec::new();
    file.take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| whole(path, format!("cannot be read: {e}")))?;
    if bytes.len() as u64 > most {
        let message = format!("is larger than {} KiB: not a configuration", most / 1024);
        return Err(whole(path, message));
    }
    String::from_utf8(bytes).map_err(|e| {
        let good = e.utf8_error().valid_up_to();
        let lines = e
            .as_bytes()
            .iter()
            .take(good)
            .filter(|b| **b == b'\n')
            .count();
        Problem {
            line: Some(lines + 1),
            ..whole(path, "is not UTF-8 text")
        }
    })
}

/// Refuses a file that another user may write: `key_cmd` and `serve` in it run programs as this user.
fn trusted(path: &Path, meta: &Metadata) -> Result<(), Problem> {
    regular(path, meta)?;
    let uid = Uid::current();
    if meta.uid() != uid.as_raw() && meta.uid() != 0 {
        let message = format!("belongs to another user (uid {})", meta.uid());
        return Err(whole(path, message));
    }
    let by_group = meta.mode() & 0o020 != 0 && !is_private_group(meta.gid(), uid);
    if meta.mode() & 0o002 != 0 || by_group {
        let message = format!(
            "may be written by other users (mode {:04o}), and it can run programs: chmod go-w it",
            meta.mode() & 0o7777
        );
        return Err(whole(path, message));
    }
    Ok(())
}

fn regular(path: &Path, meta: &Metadata) -> Result<(), Problem> {
    match meta.is_file() {
        true => Ok(()),
        false => Err(whole(path, "is no regular file")),
    }
}

/// Is this the group that has the user's own name and nobody else in it? Many systems give each user
/// one, and make new files writable by it.
fn is_private_group(gid: u32, uid: Uid) -> bool {
    let (Ok(Some(user)), Ok(Some(group))) = (User::from_uid(uid), Group::from_gid(gid.into()))
    else {
        return false;
    };
    user.gid == group.gid
        && user.name == group.name
        && group.mem.iter().all(|member| *member == user.name)
}
