//! Walks a directory with a few threads, without following symbolic links: every directory is opened beneath the root of the
//! workspace, and every file in the open directory, so that a directory that is exchanged for a link meanwhile leads nowhere.
//!
//! The crate `ignore` has a walker, but it opens paths as texts, and the files with rules through links and FIFOs.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ignore::overrides::Override;
use nix::dir::{Dir, Type};
use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstatat};

use super::beneath::file_type;
use super::ignore_rules::{IgnoreNode, RulesDir, UserRules};
use super::path_error::PathResult;
use super::read_context::PathFilter;
use super::root::ResolvedPath;

/// Number of threads that walk: a search must not take the whole machine.
const THREADS: usize = 2;

/// Number of files that one thread takes at a time.
const BATCH: usize = 32;

/// Type of an entry in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A directory.
    Dir,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

/// Which files a walk visits.
pub(super) struct WalkOptions<'a> {
    /// The directory.
    pub dir: &'a ResolvedPath,
    /// The rules for omitted entries.
    pub rules: UserRules,
    /// Globs as ripgrep's `--glob`: they choose files, also ignored ones.
    pub globs: Option<&'a Override>,
    /// Directories and files that are left out in any case.
    pub left_out: Option<&'a PathFilter>,
    /// Ends the walk early when set.
    pub cancelled: &'a AtomicBool,
}

/// A file or link of the walk.
pub(super) struct WalkEntry<'a> {
    /// The directory that contains it.
    pub dir: BorrowedFd<'a>,
    /// Its name there.
    pub name: &'a OsStr,
    /// Its real path.
    pub path: PathBuf,
    /// Never a directory.
    pub kind: EntryKind,
}

/// A piece of work: a directory to read, or files to visit.
enum WalkTask {
    Dir {
        dir: ResolvedPath,
        rules: Option<Arc<IgnoreNode>>,
    },
    Files {
        fd: Arc<OwnedFd>,
        path: Arc<PathBuf>,
        names: Vec<(OsString, EntryKind)>,
    },
}

/// Work that waits, and the number of threads that may still add some.
struct TaskQueue {
    tasks: Vec<WalkTask>,
    busy: usize,
}

struct Walk<'a> {
    options: &'a WalkOptions<'a>,
    queue: Mutex<TaskQueue>,
    changed: Condvar,
    unreadable: AtomicUsize,
    left_out: Mutex<Vec<PathBuf>>,
}

/// Entries that a walk did not visit.
#[derive(Debug, Default)]
pub(super) struct Unvisited {
    /// Number of directories that could not be read.
    pub unreadable: usize,
    /// Entries that [`WalkOptions::left_out`] matched.
    pub left_out: Vec<PathBuf>,
}

/// Visits all files and links below a directory that the rules do not leave out, in no order. Each thread makes a visitor of
/// its own. Returns the entries that it did not visit.
///
/// # Errors
/// The directory itself cannot be opened.
pub(super) fn walk<V>(
    options: &WalkOptions<'_>,
    make_visitor: impl Fn() -> V + Sync,
) -> PathResult<Unvisited>
where
    V: FnMut(&WalkEntry<'_>),
{
    // Reports the error of the directory itself.
    options.dir.open_dir()?;
    let first = WalkTask::Dir {
        dir: options.dir.clone(),
        rules: IgnoreNode::above(options.rules.reader, &options.dir.absolute),
    };
    let walk = Walk {
        options,
        queue: Mutex::new(TaskQueue {
            tasks: vec![first],
            busy: 0,
        }),
        changed: Condvar::new(),
        unreadable: AtomicUsize::new(0),
        left_out: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS {
            scope.spawn(|| walk.work(make_visitor()));
        }
        walk.work(make_visitor());
    });
    let left_out = walk.left_out.into_inner();
    Ok(Unvisited {
        unreadable: walk.unreadable.into_inner(),
        left_out: left_out.unwrap_or_else(PoisonError::into_inner),
    })
}

/// Returns the names in a directory with their kinds, without `.` and `..`.
pub(super) fn read_names(fd: OwnedFd) -> nix::Result<Vec<(OsString, EntryKind)>> {
    let mut names = Vec::new();
    let mut unknown = Vec::new();
    let mut dir = Dir::from_fd(fd)?;
    for entry in dir.iter() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            Some(Type::Directory) => EntryKind::Dir,
            Some(Type::File) => EntryKind::File,
            Some(Type::Symlink) => EntryKind::Link,
            Some(_) => EntryKind::Special,
            None => {
                unknown.push(names.len());
                EntryKind::Special
            }
        };
        names.push((OsStr::from_bytes(name).to_owned(), kind));
    }
    // Some file systems do not report the file type with the name.
    for at in unknown {
        if let Some((name, kind)) = names.get_mut(at)
            && let Ok(found) = fstatat(&dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
        {
            *kind = match file_type(&found) {
                SFlag::S_IFDIR => EntryKind::Dir,
                SFlag::S_IFREG => EntryKind::File,
                SFlag::S_IFLNK => EntryKind::Link,
                _ => EntryKind::Special,
            };
        }
    }
    Ok(names)
}

impl Walk<'_> {
    fn lock(&self) -> MutexGuard<'_, TaskQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, mut visit: impl FnMut(&WalkEntry<'_>)) {
        while let Some(task) = self.next() {
            let mut more = Vec::new();
            match task {
                WalkTask::Dir { dir, rules } => {
                    if self.read_dir(&dir, rules, &mut more, &mut visit).is_none() {
                        self.unreadable.fetch_add(1, Ordering::Relaxed);
                    }
                }
                WalkTask::Files { fd, path, names } => self.visit(&fd, &path, &names, &mut visit),
            }
            let mut queue = self.lock();
            queue.busy -= 1;
            queue.tasks.append(&mut more);
            self.changed.notify_all();
        }
    }

    /// Takes a task; `None` when all work is done.
    fn next(&self) -> Option<WalkTask> {
        let mut queue = self.lock();
        loop {
            if self.options.cancelled.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(task) = queue.tasks.pop() {
                queue.busy += 1;
                return Some(task);
            }
            if queue.busy == 0 {
                return None;
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn read_dir(
        &self,
        dir: &ResolvedPath,
        rules: Option<Arc<IgnoreNode>>,
        tasks: &mut Vec<WalkTask>,
        visit: &mut impl FnMut(&WalkEntry<'_>),
    ) -> Option<()> {
        let fd = dir.open_dir().ok()?;
        let names = read_names(fd.try_clone().ok()?).ok()?;
        let path = &dir.absolute;
        let rules_dir = RulesDir {
            fd: fd.as_fd(),
            path,
        };
        let has = |wanted: &OsStr| names.iter().any(|(name, _)| name == wanted);
        let rules = IgnoreNode::read(self.options.rules.reader, &rules_dir, has, rules.as_ref());
        let mut files = Vec::new();
        for (name, kind) in names {
            if name == ".git" {
                continue;
            }
            let whole = path.join(&name);
            let is_dir = kind == EntryKind::Dir;
            let chosen = self
                .options
                .globs
                .map(|globs| globs.matched(&whole, is_dir));
            let ignored = match chosen {
                Some(ignore::Match::Ignore(_)) => true,
                Some(ignore::Match::Whitelist(_)) => false,
                _ => self.options.rules.ignores(rules.as_ref(), &whole, is_dir),
            };
            let is_left_out = || {
                let filter = self.options.left_out;
                filter.is_some_and(|filter| filter.matches(&whole))
            };
            match kind {
                _ if ignored => {}
                EntryKind::Dir | EntryKind::File if is_left_out() => {
                    let left_out = self.left_out.lock();
                    let mut left_out = left_out.unwrap_or_else(PoisonError::into_inner);
                    left_out.push(whole);
                }
                EntryKind::Dir => tasks.push(WalkTask::Dir {
                    dir: dir.child(&name),
                    rules: rules.clone(),
                }),
                EntryKind::File | EntryKind::Link => files.push((name, kind)),
                EntryKind::Special => {}
            }
        }
        // The rest of the files is for the other threads; these are visited here.
        let here = files.split_off(files.len().saturating_sub(BATCH));
        let fd = Arc::new(fd);
        let path = Arc::new(path.clone());
        while !files.is_empty() {
            tasks.push(WalkTask::Files {
                names: files.split_off(files.len().saturating_sub(BATCH)),
                fd: Arc::clone(&fd),
                path: Arc::clone(&path),
            });
        }
        if tasks.len() > 1 {
            let mut queue = self.lock();
            queue.tasks.append(tasks);
            self.changed.notify_all();
        }
        self.visit(&fd, &path, &here, visit);
        Some(())
    }

    fn visit(
        &self,
        fd: &OwnedFd,
        path: &Path,
        names: &[(OsString, EntryKind)],
        visit: &mut impl FnMut(&WalkEntry<'_>),
    ) {
        for (name, kind) in names {
            if self.options.cancelled.load(Ordering::Relaxed) {
                return;
            }
            visit(&WalkEntry {
                dir: fd.as_fd(),
                name,
                path: path.join(name),
                kind: *kind,
            });
        }
    }
}
