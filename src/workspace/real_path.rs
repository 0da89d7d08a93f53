//! Resolves paths to real paths: without symbolic links, `.` and `..`.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::path_error::{PathError, PathFault, PathResult, StoppedPath, shown_path};

/// Maximum length of a path in bytes; the kernel's limit on Linux, without the final NUL.
const MAX_PATH_BYTES: usize = 4095;

/// Maximum length of one name in a path in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Maximum number of symbolic links in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// Checks what the kernel would reject or misread.
pub(super) fn check_text(path: &Path) -> PathResult<()> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(PathError::invalid("the path is empty"));
    }
    let start = || {
        shown_path(Path::new(OsStr::from_bytes(
            bytes.get(..60).unwrap_or(bytes),
        )))
    };
    if bytes.contains(&0) {
        return Err(PathError::invalid(format!(
            "{}: the path contains a NUL byte",
            start()
        )));
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Err(PathError::invalid(format!(
            "{}…: the path is {} bytes long; the limit is {MAX_PATH_BYTES}",
            start(),
            bytes.len()
        )));
    }
    let longest = path.iter().map(OsStr::len).max().unwrap_or(0);
    if longest > MAX_NAME_BYTES {
        return Err(PathError::invalid(format!(
            "{}…: a name in the path is {longest} bytes long; the limit is {MAX_NAME_BYTES}",
            start()
        )));
    }
    Ok(())
}

/// Returns the real path of a directory.
pub(super) fn real_directory(path: &Path) -> PathResult<PathBuf> {
    let real = fs::canonicalize(path).map_err(|error| PathError::io(path, &error))?;
    match real.is_dir() {
        true => Ok(real),
        false => Err(PathError::new(
            PathFault::WrongKind,
            path,
            "is not a directory",
        )),
    }
}

/// Describes why a path that was a link a moment ago cannot be read as one.
fn link_error(path: &Path, error: &io::Error) -> PathError {
    match error.kind() {
        // EINVAL: something else has replaced it.
        io::ErrorKind::InvalidInput => PathError::new(
            PathFault::Changed,
            path,
            "changed while the path was resolved",
        ),
        _ => PathError::io(path, error),
    }
}

/// A path that was followed.
#[derive(Debug, Default)]
pub(super) struct FollowedPath {
    /// The path without symbolic links.
    pub real: PathBuf,
    /// The existing directories that a `..` in the path left.
    pub left: Vec<PathBuf>,
}

/// Replaces all symbolic links of a path. What does not exist is kept as it is written, if it has no `..`.
pub(super) fn real_path(cwd: &Path, path: &Path) -> PathResult<FollowedPath> {
    let (mut left, mut stopped_at) = (Vec::new(), PathBuf::from("/"));
    match follow(cwd, path, &mut left, &mut stopped_at) {
        Ok(real) => Ok(FollowedPath { real, left }),
        Err(error) => Err(PathError {
            followed: Some(StoppedPath { stopped_at, left }),
            ..error
        }),
    }
}

/// Follows a path. `left` are the directories that it leaves by `..`, and `last` is the last place that was examined.
fn follow(
    cwd: &Path,
    path: &Path,
    left: &mut Vec<PathBuf>,
    last: &mut PathBuf,
) -> PathResult<PathBuf> {
    let whole = cwd.join(path);
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = whole.iter().map(OsStr::to_owned).collect();
    let mut needs_dir = names_directory(path);
    let mut links = 0;
    let mut missing = false;
    while let Some(name) = rest.pop_front() {
        match name.as_bytes() {
            b"/" => real = PathBuf::from("/"),
            b"." => {}
            b".." if missing => {
                return Err(PathError::new(
                    PathFault::Missing,
                    path,
                    &format!(
                        "{} does not exist, so .. cannot be resolved",
                        shown_path(&real)
                    ),
                ));
            }
            b".." => {
                left.push(real.clone());
                real.pop();
            }
            _ if missing => real.push(name),
            _ => {
                let next = real.join(&name);
                last.clone_from(&next);
                match fs::symlink_metadata(&next) {
                    Ok(found) if found.is_symlink() => {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(PathError::new(
                                PathFault::Invalid,
                                path,
                                "too many symbolic links, perhaps a loop",
                            ));
                        }
                        refuse_process_link(&next)?;
                        let target = fs::read_link(&next).map_err(|e| link_error(&next, &e))?;
                        needs_dir |= rest.is_empty() && names_directory(&target);
                        for name in target.iter().rev() {
                            rest.push_front(name.to_owned());
                        }
                    }
                    Ok(found) => {
                        let passed = !rest.is_empty() || needs_dir;
                        if passed && !found.is_dir() {
                            return Err(PathError::new(
                                PathFault::WrongKind,
                                &next,
                                "is not a directory",
                            ));
                        }
                        real = next;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        missing = true;
                        real = next;
                    }
                    Err(error) => return Err(PathError::io(&next, &error)),
                }
            }
        }
    }
    refuse_own_process(&real)?;
    Ok(real)
}

/// Whether a path ends so that the kernel takes it only for a directory. Its components do not show that.
fn names_directory(path: &Path) -> bool {
    let text = path.as_os_str().as_bytes();
    text.ends_with(b"/") || text.ends_with(b"/.")
}

/// Refuses a link in `/proc`: many are not texts but doors into another process's files.
fn refuse_process_link(link: &Path) -> PathResult<()> {
    match link.starts_with("/proc") || link.starts_with("/dev/fd") {
        true => Err(PathError::new(
            PathFault::Special,
            link,
            "is a link into a process, which is not followed",
        )),
        false => Ok(()),
    }
}

/// Refuses the files of this process, whose environment and memory hold keys.
fn refuse_own_process(real: &Path) -> PathResult<()> {
    let own = Path::new("/proc").join(std::process::id().to_string());
    match real.starts_with(own) {
        true => Err(PathError::new(
            PathFault::Special,
            real,
            "belongs to aish's own process",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_is_replaced_meanwhile_has_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = fs::read_link(&file).unwrap_err();
        let error = link_error(&file, &error);
        assert_eq!(error.fault, PathFault::Changed);
        assert!(
            error
                .message
                .ends_with("changed while the path was resolved"),
            "{error}"
        );
        let error = fs::read_link(dir.path().join("gone")).unwrap_err();
        assert_eq!(link_error(&file, &error).fault, PathFault::Missing);
    }
}
