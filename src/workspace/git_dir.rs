//! Finds the repository around a directory, and checks that its files belong to the workspace.
//!
//! `.git` can be a file that names a directory anywhere, and files in it can be links. Without the checks, a project could
//! name the repository of another project, whose history the model would then read.

use std::collections::BTreeSet;
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

/// The directories of git in which a link could lead to references of another repository. That of the objects is searched with those
/// that it names.
const GIT_DIRS: &[&str] = &["info", "logs", "refs", "reftable"];

/// Maximum number of entries of these directories that are looked at.
const MAX_ENTRIES: usize = 500_000;

/// Maximum number of object directories that name each other; git follows five.
const MAX_ALTERNATES: usize = 20;

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
        let is_inside = |real: &Path| workspace.roots().any(|root| real.starts_with(root));
        let Some(common) = place.common_dir(&is_inside) else {
            return Err(PathError::new(
                PathFault::Invalid,
                &place.top.join(".git"),
                "leads to a repository outside of the workspace that does not name this directory",
            ));
        };
        let belongs = |real: &Path| is_inside(real) || real.starts_with(&common);
        for dir in BTreeSet::from([&place.git_dir, &common]) {
            refuse_links_out(dir, Some(GIT_DIRS), &belongs)?;
        }
        refuse_alternates_out(&common, &belongs)?;
        Ok(place)
    }

    /// Returns the directory with the objects and references, if it and git's directory belong to the work tree.
    fn common_dir(&self, is_inside: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
        let link = self.git_dir.join("commondir");
        let common = match fs::symlink_metadata(&link) {
            // Git would follow a link.
            Ok(_) => fs::canonicalize(self.git_dir.join(link_text(&link)?)).ok()?,
            Err(_) => self.git_dir.clone(),
        };
        let is_own = |dir: &Path| fs::canonicalize(dir).is_ok_and(|real| is_inside(&real));
        let accepted = (is_own(&self.git_dir) && is_own(&common))
            || (self.git_dir.starts_with(&common) && self.is_named_back());
        accepted.then_some(common)
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

/// Refuses a git directory in which a link leads to files that do not belong to the repository. Of the directories in it, those in
/// `searched` count, or all.
fn refuse_links_out(
    git_dir: &Path,
    searched: Option<&[&str]>,
    belongs: &dyn Fn(&Path) -> bool,
) -> PathResult<()> {
    let refused = |path: &Path, reason: &str| Err(PathError::new(PathFault::Invalid, path, reason));
    let (mut waiting, mut seen) = (vec![git_dir.to_owned()], 0);
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return refused(git_dir, "has more files than can be checked for links");
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let (name, path) = (entry.file_name(), entry.path());
            // No hook runs.
            let counts = dir != git_dir || name != "hooks";
            if kind.is_symlink() && counts {
                if !fs::canonicalize(&path).is_ok_and(|real| belongs(&real)) {
                    return refused(
                        &path,
                        "is a link that leads to a repository outside of the workspace, or nowhere",
                    );
                }
            } else if kind.is_dir()
                && (dir != git_dir
                    || searched.is_none_or(|searched| searched.iter().any(|known| name == *known)))
            {
                waiting.push(path);
            }
        }
    }
    Ok(())
}

/// Refuses objects that are in another repository: git reads those of the directories that `info/alternates` names, and of those
/// that these name.
fn refuse_alternates_out(common: &Path, belongs: &dyn Fn(&Path) -> bool) -> PathResult<()> {
    let (mut waiting, mut seen) = (vec![common.join("objects")], BTreeSet::new());
    while let Some(objects) = waiting.pop() {
        let list = objects.join("info/alternates");
        let refused = |reason: &str| Err(PathError::new(PathFault::Invalid, &list, reason));
        if !seen.insert(objects.clone()) {
            continue;
        }
        if seen.len() > MAX_ALTERNATES {
            return refused("too many object directories refer to each other");
        }
        refuse_links_out(&objects, None, belongs)?;
        if fs::symlink_metadata(&list).is_err() {
            continue;
        }
        let Some(text) = read_link_file(&list).filter(|text| (text.len() as u64) < MAX_LINK_BYTES)
        else {
            return refused("cannot be read, or is too long");
        };
        let lines = text.split(|&b| b == b'\n');
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
            // A line in quotation marks has escapes: it names no directory as it stands, and is refused.
            let dir = fs::canonicalize(objects.join(OsStr::from_bytes(line)));
            match dir.ok().filter(|dir| belongs(dir)) {
                Some(dir) => waiting.push(dir),
                None => {
                    return refused(
                        "names objects outside of the workspace, which are not read; the user can add that directory to the workspace, or copy the objects with git repack -a -d and remove this file",
                    );
                }
            }
        }
    }
    Ok(())
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
