//! Finds the repository around a directory, and checks that its files belong to the workspace.
//!
//! `.git` can be a file that names a directory anywhere, and files in it can be links. Without the checks, a project could
//! name the repository of another project, whose history the model would then read.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::path_error::{PathError, PathFault, PathResult};
use super::root::Workspace;

/// Maximum size of the files that name a directory.
const MAX_LINK_BYTES: u64 = 16 * 1024;

/// What git reads in its directory and a link could replace.
const GIT_FILES: &[&str] = &[
    "HEAD",
    "config",
    "config.worktree",
    "index",
    "info",
    "logs",
    "objects",
    "packed-refs",
    "refs",
    "modules",
    "shallow",
];

/// A repository: the top of its work tree, and git's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitPlace {
    pub top: PathBuf,
    pub git_dir: PathBuf,
}

impl GitPlace {
    /// Finds the repository around `start`, a real path in the workspace.
    ///
    /// # Errors
    /// There is none, or its files are outside of the workspace.
    pub fn find(workspace: &Workspace, start: &Path) -> PathResult<GitPlace> {
        let not_found = || PathError::new(PathFault::Missing, start, "not in a git repository");
        let root = workspace.roots().find(|root| start.starts_with(root));
        let root = root
            .ok_or_else(|| PathError::new(PathFault::Invalid, start, "is not in the workspace"))?;
        let mut dirs = start.ancestors().take_while(|dir| dir.starts_with(root));
        let top = dirs.find(|dir| fs::symlink_metadata(dir.join(".git")).is_ok());
        let top = top.ok_or_else(not_found)?;
        let git_dir = git_dir(top).ok_or_else(|| {
            PathError::new(
                PathFault::Invalid,
                &top.join(".git"),
                "is not a git directory",
            )
        })?;
        let place = GitPlace {
            top: top.to_path_buf(),
            git_dir,
        };
        match place.belongs_to(workspace) {
            true => Ok(place),
            false => Err(PathError::new(
                PathFault::Invalid,
                &place.top.join(".git"),
                "leads to a repository outside of the workspace that does not name this directory",
            )),
        }
    }

    fn belongs_to(&self, workspace: &Workspace) -> bool {
        let is_inside = |path: &Path| {
            let real = fs::canonicalize(path);
            real.is_ok_and(|real| workspace.roots().any(|root| real.starts_with(root)))
        };
        let common = match link_text(&self.git_dir.join("commondir")) {
            Some(text) => fs::canonicalize(self.git_dir.join(text)).ok(),
            None => Some(self.git_dir.clone()),
        };
        let Some(common) = common else {
            return false;
        };
        let accepted = (is_inside(&self.git_dir) && is_inside(&common))
            || (self.git_dir.starts_with(&common) && self.is_named_back());
        let no_link_out = |dir: &Path| {
            GIT_FILES.iter().all(|name| {
                let path = dir.join(name);
                let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
                !is_link || is_inside(&path)
            })
        };
        accepted && no_link_out(&self.git_dir) && no_link_out(&common)
    }

    /// Whether git's directory, outside of the workspace, says that this is its work tree: one of `git worktree`, or a
    /// submodule.
    fn is_named_back(&self) -> bool {
        let is_same =
            |path: PathBuf, wanted: &Path| fs::canonicalize(path).is_ok_and(|real| real == wanted);
        if let Some(back) = link_text(&self.git_dir.join("gitdir")) {
            let back = self.git_dir.join(back);
            return back.file_name() == Some(OsStr::new(".git"))
                && back
                    .parent()
                    .is_some_and(|dir| is_same(dir.to_path_buf(), &self.top));
        }
        let config = read_link_file(&self.git_dir.join("config")).unwrap_or_default();
        let config = String::from_utf8_lossy(&config);
        let mut lines = config
            .lines()
            .filter_map(|line| line.trim().strip_prefix("worktree = "));
        lines.any(|dir| is_same(self.git_dir.join(dir), &self.top))
    }
}

/// Returns git's directory of the work tree at `top`: the real path of `.git`, or of what it names.
fn git_dir(top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    let found = fs::symlink_metadata(&git).ok()?;
    if found.is_dir() {
        return Some(git);
    }
    let text = read_link_file(&git)?;
    let line = text
        .split(|&b| b == b'\n')
        .next()?
        .strip_prefix(b"gitdir: ")?;
    let real = fs::canonicalize(top.join(OsStr::from_bytes(line))).ok()?;
    real.is_dir().then_some(real)
}

/// Reads a file with one path.
fn link_text(path: &Path) -> Option<PathBuf> {
    let bytes = read_link_file(path)?;
    let line = bytes.split(|&b| b == b'\n').next()?;
    Some(PathBuf::from(OsStr::from_bytes(line)))
}

fn read_link_file(path: &Path) -> Option<Vec<u8>> {
    use std::os::unix::fs::OpenOptionsExt;

    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = File::options()
        .read(true)
        .custom_flags(flags.bits())
        .open(path)
        .ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_LINK_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
