//! Ignore rules of the directories above a file: which files git, or ripgrep, leaves out.
//!
//! The files with the rules belong to the project, so they are opened like its other files: never through a symbolic link
//! (as git does, and ripgrep does not), never a FIFO or a device, and only up to a size.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use nix::fcntl::OFlag;

use super::beneath::{OpenMethod, open_beneath, open_regular, search_flags};
use super::git_repository::{settings, users_file};
use super::read_context::ReadContext;
use super::root::ResolvedPath;

/// Maximum size of a file with rules in bytes; longer files are cut.
const MAX_RULES_BYTES: u64 = 1 << 20;

/// Which files are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IgnoreRules {
    /// `.gitignore`, `.git/info/exclude` and the user's `core.excludesFile`, as `git ls-files --exclude-standard`.
    Git,
    /// The same, `.ignore` and `.rgignore`, as ripgrep.
    Ripgrep,
}

/// Files with rules, the one that decides first; then comes [`EXCLUDE`].
const FILES: [&str; 3] = [".rgignore", ".ignore", ".gitignore"];

/// How the rules are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct RulesReader {
    /// Which files have rules.
    pub kind: IgnoreRules,
    /// `core.ignoreCase`
    pub ignore_case: bool,
}

/// Index of the first kind of rules that only count inside of a repository.
const GITIGNORE: usize = 2;

/// The rules of a repository that are not part of it.
const EXCLUDE: &str = ".git/info/exclude";

/// The rules of one directory, and those of the directories above it.
#[derive(Debug)]
pub(super) struct IgnoreNode {
    parent: Option<Arc<IgnoreNode>>,
    is_repository: bool,
    in_repository: bool,
    /// In the order of [`FILES`], then [`EXCLUDE`].
    rules: [Option<Gitignore>; 4],
}

/// An open directory whose rules are read.
pub(super) struct RulesDir<'a> {
    /// The descriptor.
    pub fd: BorrowedFd<'a>,
    /// The real path.
    pub path: &'a Path,
}

impl IgnoreNode {
    /// Reads the rules of `dir`; `has` says which names are in it. Returns `parent` where there are none.
    pub fn read(
        reader: RulesReader,
        dir: &RulesDir<'_>,
        has: impl Fn(&OsStr) -> bool,
        parent: Option<&Arc<IgnoreNode>>,
    ) -> Option<Arc<IgnoreNode>> {
        let is_repository = has(OsStr::new(".git"));
        let first = match reader.kind {
            IgnoreRules::Git => GITIGNORE,
            IgnoreRules::Ripgrep => 0,
        };
        let mut rules = [None, None, None, None];
        for (at, name) in FILES.iter().enumerate().skip(first) {
            if !has(OsStr::new(name)) {
                continue;
            }
            let file = open_regular(dir.fd, OsStr::new(name), dir.path, OFlag::O_RDONLY);
            if let (Some(slot), Ok(file)) = (rules.get_mut(at), file) {
                *slot = reader.parsed(file, dir.path, at >= GITIGNORE);
            }
        }
        if is_repository && let Some(slot) = rules.last_mut() {
            *slot = exclude_file(dir).and_then(|file| reader.parsed(file, dir.path, true));
        }
        if !is_repository && rules.iter().all(Option::is_none) {
            return parent.cloned();
        }
        Some(Arc::new(IgnoreNode {
            in_repository: is_repository || parent.is_some_and(|node| node.in_repository),
            parent: parent.cloned(),
            is_repository,
            rules,
        }))
    }

    /// Reads the rules of all directories above `dir`, a real path.
    pub fn above(reader: RulesReader, dir: &Path) -> Option<Arc<IgnoreNode>> {
        let mut dirs: Vec<&Path> = dir.ancestors().skip(1).collect();
        let top = nix::fcntl::open("/", search_flags(), nix::sys::stat::Mode::empty()).ok()?;
        dirs.reverse();
        let mut node = None;
        for path in dirs {
            let below = path.strip_prefix("/").unwrap_or(path);
            let fd = top.as_fd();
            let Ok(fd) = open_beneath(fd, below, search_flags(), OpenMethod::Kernel) else {
                continue;
            };
            let dir = RulesDir {
                fd: fd.as_fd(),
                path,
            };
            let has = |name: &OsStr| std::fs::symlink_metadata(path.join(name)).is_ok();
            node = IgnoreNode::read(reader, &dir, has, node.as_ref());
        }
        node
    }

    /// Whether the rules leave out a path; `None` if they do not mention it.
    fn decides(&self, path: &Path, is_dir: bool) -> Option<bool> {
        let chain = || std::iter::successors(Some(self), |node| node.parent.as_deref());
        for kind in 0..self.rules.len() {
            let of_git = kind >= GITIGNORE;
            if of_git && !self.in_repository {
                break;
            }
            for node in chain() {
                let matched = node.rules.get(kind).and_then(Option::as_ref);
                match matched.map(|rules| rules.matched(path, is_dir)) {
                    Some(Match::Ignore(_)) => return Some(true),
                    Some(Match::Whitelist(_)) => return Some(false),
                    Some(Match::None) | None => {}
                }
                // The rules of an outer repository do not reach into an inner one.
                if of_git && node.is_repository {
                    break;
                }
            }
        }
        None
    }
}

/// Settings of ignore rules in git's configuration.
#[derive(Debug, Default)]
struct IgnoreSettings {
    /// `core.excludesFile`; `None` where it is not set.
    excludes_file: Option<PathBuf>,
    /// `core.ignoreCase`
    ignore_case: bool,
}

impl IgnoreSettings {
    /// Asks git; `None` outside of a repository, or where git fails.
    fn read(context: &ReadContext<'_>, dir: &ResolvedPath) -> Option<IgnoreSettings> {
        let keys = r"^core\.(excludesfile|ignorecase)$";
        let (found, top) = settings(context, dir, keys)?;
        let mut settings = IgnoreSettings::default();
        for setting in found {
            match setting.key.as_slice() {
                b"core.excludesfile" => {
                    let path = setting.path();
                    let home = context.variable("HOME").zip(path.strip_prefix("~").ok());
                    settings.excludes_file = Some(match home {
                        Some((home, rest)) => home.join(rest),
                        // Relative to where git runs.
                        None => top.join(path),
                    });
                }
                b"core.ignorecase" => {
                    let value = setting.value.as_deref().unwrap_or(b"true");
                    settings.ignore_case = matches!(
                        value.to_ascii_lowercase().as_slice(),
                        b"true" | b"yes" | b"on" | b"1"
                    );
                }
                _ => {}
            }
        }
        Some(settings)
    }
}

/// All rules that count at one place: those of the directories, and the user's own.
#[derive(Debug)]
pub(super) struct UserRules {
    rules: Gitignore,
    /// How the rules of the directories are read.
    pub reader: RulesReader,
}

impl UserRules {
    /// Reads the file that git's `core.excludesFile` names for a directory. Git itself is asked for it: includes, conditions
    /// and syntax of its configuration are its own.
    pub fn read(kind: IgnoreRules, context: &ReadContext<'_>, root: &ResolvedPath) -> UserRules {
        let Some(settings) = IgnoreSettings::read(context, root) else {
            let reader = RulesReader {
                kind,
                ignore_case: false,
            };
            let rules = GitignoreBuilder::new(&root.absolute).build_global().0;
            return UserRules { rules, reader };
        };
        let reader = RulesReader {
            kind,
            ignore_case: settings.ignore_case,
        };
        let file = settings
            .excludes_file
            .or_else(|| users_file(context, "ignore"));
        // Unlike the files of the project, it may be a link.
        let file = file.and_then(|path| plain_file(&std::fs::canonicalize(path).ok()?));
        let rules = file.and_then(|file| reader.parsed(file, &root.absolute, true));
        UserRules {
            rules: rules.unwrap_or_else(Gitignore::empty),
            reader,
        }
    }

    /// Whether a path is left out, by the rules of its directory or the user's.
    pub fn ignores(&self, node: Option<&Arc<IgnoreNode>>, path: &Path, is_dir: bool) -> bool {
        match node {
            Some(node) => node.decides(path, is_dir).unwrap_or_else(|| {
                node.in_repository && self.rules.matched(path, is_dir).is_ignore()
            }),
            None => false,
        }
    }
}

impl RulesReader {
    /// Reads a file with rules; `of_git` says that git reads it too.
    fn parsed(self, file: File, dir: &Path, of_git: bool) -> Option<Gitignore> {
        let mut bytes = Vec::new();
        file.take(MAX_RULES_BYTES).read_to_end(&mut bytes).ok()?;
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        let mut builder = GitignoreBuilder::new(dir);
        builder.case_insensitive(self.ignore_case).ok()?;
        for line in text.split(|&b| b == b'\n') {
            if let Ok(line) = std::str::from_utf8(line) {
                // A line that is not a rule is skipped, as git does.
                let line = line.strip_suffix('\r').unwrap_or(line);
                let _ = match of_git && line.contains(['{', '}']) {
                    true => builder.add_line(None, &without_alternatives(line)),
                    false => builder.add_line(None, line),
                };
            }
        }
        builder.build().ok().filter(|rules| !rules.is_empty())
    }
}

/// Escapes the braces of a rule: ripgrep takes them for alternatives, and git as they are.
fn without_alternatives(rule: &str) -> String {
    let mut escaped = String::new();
    let mut is_escaped = false;
    // The start of a class, in which characters stand for themselves.
    let mut class: Option<usize> = None;
    for (at, c) in rule.char_indices() {
        match (c, class) {
            _ if is_escaped => is_escaped = false,
            ('{' | '}', None) => escaped.push('\\'),
            ('\\', None) => is_escaped = true,
            ('[', None) => class = Some(at),
            (']', Some(start)) => {
                let before = rule.get(start + 1..at).unwrap_or_default();
                class = class.filter(|_| matches!(before, "" | "!" | "^"));
            }
            _ => {}
        }
        escaped.push(c);
    }
    escaped
}

/// Opens `info/exclude` of the repository at `dir`; that of the main work tree for one added by `git worktree`.
fn exclude_file(dir: &RulesDir<'_>) -> Option<File> {
    let parent = Path::new(EXCLUDE).parent()?;
    if let Ok(info) = open_beneath(dir.fd, parent, search_flags(), OpenMethod::Kernel) {
        let name = Path::new(EXCLUDE).file_name()?;
        let fd = info.as_fd();
        return open_regular(fd, name, dir.path, OFlag::O_RDONLY).ok();
    }
    let link = open_regular(dir.fd, OsStr::new(".git"), dir.path, OFlag::O_RDONLY).ok()?;
    let line = one_line(link)?;
    let git = dir
        .path
        .join(OsStr::from_bytes(line.strip_prefix(b"gitdir: ")?));
    let common = match plain_file(&git.join("commondir")).and_then(one_line) {
        Some(common) => git.join(OsStr::from_bytes(&common)),
        None => git,
    };
    plain_file(&common.join("info/exclude"))
}

fn plain_file(path: &Path) -> Option<File> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let mut options = File::options();
    let file = options.read(true).custom_flags(flags.bits()).open(path);
    file.ok()
        .filter(|file| file.metadata().is_ok_and(|found| found.is_file()))
}

fn one_line(file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(8192).read_to_end(&mut bytes).ok()?;
    Some(bytes.split(|&b| b == b'\n').next()?.to_vec())
}
