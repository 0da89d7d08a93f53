//! Lists directories.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::fstatat;

use super::ignore_rules::{IgnoreNode, IgnoreRules, RulesDir, UserRules};
use super::path_error::{PathFault, PathResult, shown_name};
use super::read::with_near_names;
use super::read_context::{LimitedText, ListedText, ReadContext, grouped};
use super::root::ResolvedPath;
use super::walk::{EntryKind, read_names};

/// Maximum depth of a listing.
const MAX_DEPTH: usize = 8;

/// Maximum number of names that are counted.
const MAX_NAMES: u64 = 100_000;

/// A listing in progress.
struct DirListing<'a> {
    user: UserRules,
    text: LimitedText,
    is_full: bool,
    total: u64,
    shown: u64,
    cancelled: &'a AtomicBool,
}

/// Lists a directory and, down to `depth` (1: only this one), the directories in it, indented. Directories come first and end
/// in `/`; files have their size in bytes, links their target. Hidden names are included; names that git ignores are marked,
/// and ignored directories, `.git` and links are not entered.
///
/// # Errors
/// The directory cannot be opened.
pub fn list_dir(
    context: &ReadContext<'_>,
    dir: &ResolvedPath,
    depth: usize,
) -> PathResult<ListedText> {
    dir.open_dir().map_err(|mut error| {
        if error.fault == PathFault::WrongKind {
            error.message.push_str("; read_file reads a file");
        }
        with_near_names(error, dir)
    })?;
    let mut listing = DirListing {
        user: UserRules::read(IgnoreRules::Git, context, dir),
        text: LimitedText::new(context.limits),
        is_full: false,
        total: 0,
        shown: 0,
        cancelled: context.cancelled,
    };
    let rules = IgnoreNode::above(listing.user.reader, &dir.absolute);
    listing.add(dir, rules.as_ref(), 0, depth.clamp(1, MAX_DEPTH));
    let (total, shown) = (listing.total, listing.shown);
    let mut text = listing.text;
    if total == 0 {
        text.remark("the directory is empty");
    } else if shown < total {
        let more = if total >= MAX_NAMES { " or more" } else { "" };
        let counts = format!("{} of {}{more} names shown", grouped(shown), grouped(total));
        text.remark(&format!(
            "{counts}; list a directory in it, or use find_files"
        ));
    }
    Ok(ListedText {
        text: text.finish(),
        total,
        shown,
        files: total,
    })
}

impl DirListing<'_> {
    fn add(
        &mut self,
        dir: &ResolvedPath,
        above: Option<&Arc<IgnoreNode>>,
        level: usize,
        depth: usize,
    ) {
        let indent = "  ".repeat(level);
        let opened = dir.open_dir();
        let names = opened
            .as_ref()
            .ok()
            .and_then(|fd| read_names(fd.try_clone().ok()?).ok());
        let (Ok(fd), Some(mut names)) = (opened, names) else {
            self.line(&format!("{indent}[cannot be read]"));
            return;
        };
        let rules_dir = RulesDir {
            fd: fd.as_fd(),
            path: &dir.absolute,
        };
        let has = |wanted: &OsStr| names.iter().any(|(name, _)| name == wanted);
        let rules = IgnoreNode::read(self.user.reader, &rules_dir, has, above);
        names.sort_unstable_by(|(a, a_kind), (b, b_kind)| {
            let files_last = |kind: &EntryKind| *kind != EntryKind::Dir;
            (files_last(a_kind), a).cmp(&(files_last(b_kind), b))
        });
        for (name, kind) in names {
            if self.total >= MAX_NAMES || self.cancelled.load(Ordering::Relaxed) {
                return;
            }
            let is_dir = kind == EntryKind::Dir;
            let is_git = name == ".git";
            let whole = dir.absolute.join(&name);
            let ignored = !is_git && self.user.ignores(rules.as_ref(), &whole, is_dir);
            let mark = if ignored { "  (ignored)" } else { "" };
            self.total += 1;
            let about = about(fd.as_fd(), &name, kind);
            let line = format!("{indent}{}{about}{mark}", shown_name(&name));
            self.shown += u64::from(self.line(&line));
            if is_dir && level + 1 < depth && !ignored && !is_git {
                self.add(&dir.child(&name), rules.as_ref(), level + 1, depth);
            }
        }
    }

    fn line(&mut self, line: &str) -> bool {
        self.is_full = self.is_full || !self.text.push(line);
        !self.is_full
    }
}

fn about(dir: std::os::fd::BorrowedFd<'_>, name: &OsString, kind: EntryKind) -> String {
    match kind {
        EntryKind::Dir => "/".to_owned(),
        EntryKind::Special => "  (FIFO, socket or device)".to_owned(),
        EntryKind::Link => match readlinkat(dir, name.as_os_str()) {
            Ok(target) => format!(" -> {}", shown_name(&target)),
            Err(_) => "@".to_owned(),
        },
        EntryKind::File => match fstatat(dir, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(found) => format!("  {}", grouped(u64::try_from(found.st_size).unwrap_or(0))),
            Err(_) => String::new(),
        },
    }
}
