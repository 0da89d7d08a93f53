//! Finds the repository around a directory, and checks that its files belong to the workspace.
//!
//! `.git` can be a file that names a directory anywhere, and files in it can be links. Without the checks, a project could
//! name the repository of another project, whose history the model would then read.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use nix::fcntl::OFlag;

use super::path_error::{PathError, PathFault, PathResult};
use super::read_context::ReadContext;
use super::root::{ResolvedPath, Workspace};

/// Maximum size of the files that name a directory.
const MAX_LINK_BYTES: u64 = 16 * 1024;

/// Where links are looked for: a link in these directories, or beside them, could make git read another repository. The directory of
/// the objects is searched with those that it names.
const SEARCHED_DIRS: &[&str] = &["info", "logs", "refs", "reftable"];

/// Links that may lead anywhere, below git's directory: git only runs or shows what is there, or ignores it. Everything else in its directory
/// can be a reference. Lines of `info/attributes` take effect only where they name an attribute of git.
const HARMLESS_LINKS: &[&str] = &[
    "annex",
    "description",
    "hooks",
    "info/attributes",
    "info/exclude",
    "lfs",
    "rr-cache",
];

/// Maximum number of entries of these directories that are examined.
const MAX_ENTRIES: usize = 500_000;

/// Maximum number of links that one path follows, as in the kernel.
const MAX_LINKS: usize = 40;

/// Maximum number of object directories that name each other; git follows five.
const MAX_ALTERNATES: usize = 20;

/// A repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitPlace {
    /// The top of its work tree.
    pub top: PathBuf,
    /// Git's directory.
    pub git_dir: PathBuf,
    /// The directory with the objects and references.
    pub common_dir: PathBuf,
    /// `info/exclude` is a link to a file that does not belong to the repository. Which untracked files `git status` leaves out would
    /// reveal whether a line of that file is their name.
    pub has_foreign_exclude: bool,
}

impl GitPlace {
    /// Finds the repository around a path, or the shell's directory.
    ///
    /// # Errors
    /// There is none, or its files are outside of the workspace.
    pub fn around(context: &ReadContext<'_>, path: Option<&ResolvedPath>) -> PathResult<GitPlace> {
        let start = path.map_or(context.workspace.cwd(), |path| &path.absolute);
        GitPlace::find(context.workspace, start)
    }

    /// Whether a path leads to an existing regular file of the workspace or of the repository.
    pub fn has_file(&self, workspace: &Workspace, path: &Path) -> bool {
        let is_inside = |real: &Path| {
            workspace.roots().any(|root| real.starts_with(root))
                || real.starts_with(&self.common_dir)
        };
        let real = fs::canonicalize(path);
        !enters_proc(path) && real.is_ok_and(|real| is_inside(&real) && real.is_file())
    }

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
        let is_inside = |real: &Path| workspace.roots().any(|root| real.starts_with(root));
        let Some(common_dir) = common_dir(top, &git_dir, &is_inside) else {
            return Err(PathError::new(
                PathFault::Invalid,
                &top.join(".git"),
                "leads to a repository outside of the workspace that does not name this directory",
            ));
        };
        let belongs = |real: &Path| is_inside(real) || real.starts_with(&common_dir);
        for dir in BTreeSet::from([&git_dir, &common_dir]) {
            refuse_links_out(dir, Some(SEARCHED_DIRS), &belongs)?;
        }
        refuse_alternates_out(&common_dir, &belongs)?;
        Ok(GitPlace {
            top: top.to_path_buf(),
            has_foreign_exclude: leads_out(&common_dir.join("info/exclude"), &belongs),
            git_dir,
            common_dir,
        })
    }
}

/// Returns the directory with the objects and references, if it and git's directory belong to the work tree at `top`.
fn common_dir(top: &Path, git_dir: &Path, is_inside: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    let link = git_dir.join("commondir");
    let common = match fs::symlink_metadata(&link) {
        // Git would follow a link.
        Ok(_) => fs::canonicalize(git_dir.join(link_text(&link)?)).ok()?,
        Err(_) => git_dir.to_path_buf(),
    };
    let is_own = |dir: &Path| fs::canonicalize(dir).is_ok_and(|real| is_inside(&real));
    let accepted = (is_own(git_dir) && is_own(&common))
        || (git_dir.starts_with(&common) && names_back(git_dir, top));
    accepted.then_some(common)
}

/// Whether git's directory, outside of the workspace, says that `top` is its work tree: one of `git worktree`, or a submodule.
fn names_back(git_dir: &Path, top: &Path) -> bool {
    let is_top = |path: &Path| fs::canonicalize(path).is_ok_and(|real| real == top);
    if let Some(back) = link_text(&git_dir.join("gitdir")) {
        let back = git_dir.join(back);
        return back.file_name() == Some(OsStr::new(".git")) && back.parent().is_some_and(is_top);
    }
    let config = read_link_file(&git_dir.join("config")).unwrap_or_default();
    let config = String::from_utf8_lossy(&config);
    let mut lines = config
        .lines()
        .filter_map(|line| line.trim().strip_prefix("worktree = "));
    lines.any(|dir| is_top(&git_dir.join(dir)))
}

/// Whether a path leads to existing files that do not belong to the repository.
fn leads_out(path: &Path, belongs: &dyn Fn(&Path) -> bool) -> bool {
    enters_proc(path) || fs::canonicalize(path).is_ok_and(|real| !belongs(&real))
}

/// Whether following a path enters `/proc`. Its links, such as `/proc/self/cwd`, lead elsewhere in the process of git.
fn enters_proc(path: &Path) -> bool {
    let reversed = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let (mut done, mut rest, mut links) = (PathBuf::from("/"), reversed(path), 0);
    while let Some(part) = rest.pop() {
        match part.as_bytes() {
            b"/" => done = PathBuf::from("/"),
            b"." => {}
            b".." => drop(done.pop()),
            _ => match fs::read_link(done.join(&part)) {
                Ok(target) => {
                    links += 1;
                    rest.extend(reversed(&target));
                }
                Err(_) => done.push(&part),
            },
        }
        if done.starts_with("/proc") || links > MAX_LINKS {
            return true;
        }
    }
    false
}

/// Refuses a git directory in which a link leads to existing files that do not belong to the repository; the commands that run here make
/// no file to which another link leads. Of the directories in it, those in `searched` count, or all.
fn refuse_links_out(
    git_dir: &Path,
    searched: Option<&[&str]>,
    belongs: &dyn Fn(&Path) -> bool,
) -> PathResult<()> {
    let refused = |path: &Path, reason: &str| Err(PathError::new(PathFault::Invalid, path, reason));
    let (mut waiting, mut seen) = (vec![git_dir.to_owned()], 0);
    let mut linked = BTreeSet::new();
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return refused(git_dir, "has more files than can be checked for links");
            }
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            let below = path.strip_prefix(git_dir).unwrap_or(&path);
            let is_listed = |names: &[&str]| names.iter().any(|name| below == Path::new(name));
            let is_searched = dir != git_dir || searched.is_none_or(is_listed);
            if kind.is_symlink() && !is_listed(HARMLESS_LINKS) {
                if leads_out(&path, belongs) {
                    return refused(
                        &path,
                        "is a link that leads outside of the workspace, where git would read",
                    );
                }
                // Git also reads the files of a linked directory.
                let real = fs::canonicalize(&path).ok().filter(|real| real.is_dir());
                waiting.extend(real.filter(|real| is_searched && linked.insert(real.clone())));
            } else if kind.is_dir() && is_searched {
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
        let Some(text) = whole_link_file(&list) else {
            return refused("cannot be read, or is too long");
        };
        let lines = text.split(|&b| b == b'\n');
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with(b"#")) {
            // Git reads escapes in a line in quotation marks, which then names another directory than its text.
            if line.starts_with(b"\"") {
                return refused("names a directory in quotation marks, which is not read");
            }
            match alternate(&objects, line).filter(|dir| belongs(dir)) {
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

/// Returns git's directory of the work tree at `top`: the real path of `.git`, or of the directory that it names.
fn git_dir(top: &Path) -> Option<PathBuf> {
    let git = top.join(".git");
    let found = fs::symlink_metadata(&git).ok()?;
    if found.is_dir() {
        return Some(git);
    }
    let text = link_text(&git)?;
    let path = text.as_os_str().as_bytes().strip_prefix(b"gitdir: ")?;
    let real = fs::canonicalize(top.join(OsStr::from_bytes(path))).ok()?;
    real.is_dir().then_some(real)
}

/// Returns the directory that a line of `info/alternates` names. Old versions of git remove `..` from the text before they follow links:
/// both readings must lead to the same directory.
fn alternate(objects: &Path, line: &[u8]) -> Option<PathBuf> {
    let path = objects.join(OsStr::from_bytes(line));
    if enters_proc(&path) {
        return None;
    }
    let mut by_text = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(by_text.pop()),
            part => by_text.push(part),
        }
    }
    let real = fs::canonicalize(path).ok()?;
    fs::canonicalize(by_text)
        .is_ok_and(|other| other == real)
        .then_some(real)
}

/// Reads a file with one path as git does, which takes the whole text without the line ends at its end. `None` if there is another one in
/// it.
fn link_text(path: &Path) -> Option<PathBuf> {
    let is_line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let mut text = whole_link_file(path)?;
    while text.pop_if(|byte| is_line_end(byte)).is_some() {}
    let is_path = !text.is_empty() && !text.iter().any(is_line_end);
    is_path.then(|| PathBuf::from(OsString::from_vec(text)))
}

/// Reads a file that names directories; `None` if it is too long.
fn whole_link_file(path: &Path) -> Option<Vec<u8>> {
    read_link_file(path).filter(|text| (text.len() as u64) < MAX_LINK_BYTES)
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
