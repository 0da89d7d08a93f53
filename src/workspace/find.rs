//! Finds files by their names.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use nix::fcntl::AtFlags;
use nix::sys::stat::{SFlag, fstatat};

use super::beneath::file_type;
use super::git::tracked_but_ignored;
use super::grep::compile_glob;
use super::ignore_rules::{IgnoreRules, UserRules};
use super::path_error::{PathError, PathResult};
use super::read::with_near_names;
use super::read_context::{LimitedText, ListedText, ReadContext, grouped, path_from};
use super::root::ResolvedPath;
use super::walk::{EntryKind, WalkOptions, walk};

/// Maximum number of paths that are kept; a tree with more is not a project.
const MAX_PATHS: usize = 2_000_000;

/// Maximum length of a query in bytes.
const MAX_QUERY_BYTES: usize = 4096;

/// Minimum similarity of a word to a part of a path to count as a misspelling of it.
const MIN_SIMILARITY: f64 = 0.75;

/// Returns the files and symbolic links below a directory that git's ignore rules do not leave out, sorted.
///
/// They are those of `git ls-files -co --exclude-standard` that exist, and the files of repositories inside of the repository.
/// Where git is not installed, tracked files that a rule would leave out are missing.
///
/// # Errors
/// The directory cannot be opened.
pub fn list_files(
    context: &ReadContext<'_>,
    dir: &ResolvedPath,
) -> PathResult<Vec<(PathBuf, EntryKind)>> {
    Ok(readable_files(context, dir)?.0)
}

/// Same as [`list_files`]. Returns as well the number of directories that could not be read.
fn readable_files(
    context: &ReadContext<'_>,
    dir: &ResolvedPath,
) -> PathResult<(Vec<(PathBuf, EntryKind)>, usize)> {
    let cancelled = context.cancelled;
    let found = Mutex::new(Vec::new());
    let options = WalkOptions {
        dir,
        rules: UserRules::read(IgnoreRules::Git, context, dir),
        globs: None,
        left_out: None,
        cancelled,
    };
    let unvisited = walk(&options, || {
        |entry: &super::walk::WalkEntry<'_>| {
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            if found.len() < MAX_PATHS {
                found.push((entry.path.clone(), entry.kind));
            }
        }
    })?;
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    for path in tracked_but_ignored(context, dir) {
        let kind = path
            .strip_prefix(&dir.absolute)
            .ok()
            .and_then(|below| kind_of(dir, below));
        found.extend(kind.map(|kind| (path, kind)));
    }
    found.sort_unstable();
    found.dedup();
    Ok((found, unvisited.unreadable))
}

/// Returns the entry at a path below a directory, in which no part may be a link; `None` for a directory and if nothing is there.
fn kind_of(dir: &ResolvedPath, below: &Path) -> Option<EntryKind> {
    let (fd, name) = dir.child(below.as_os_str()).open_parent().ok()?;
    let found = fstatat(fd, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW).ok()?;
    match file_type(&found) {
        SFlag::S_IFREG => Some(EntryKind::File),
        SFlag::S_IFLNK => Some(EntryKind::Link),
        _ => None,
    }
}

/// Finds files by a glob (`*.rs` in any directory, `src/**/*.rs` from `dir` on) or, without `*`, `?`, `[` and `{`, by a part of
/// the path below `dir` in any case. Files that git ignores are left out, hidden files are not. Links are marked.
///
/// # Errors
/// The glob is invalid, or the directory cannot be opened.
pub fn find_files(
    context: &ReadContext<'_>,
    pattern: &str,
    dir: &ResolvedPath,
) -> PathResult<ListedText> {
    check_query(pattern)?;
    let is_glob = pattern.contains(['*', '?', '[', '{']);
    let part = pattern.to_lowercase();
    let glob = match is_glob {
        true => Some(compile_glob(&dir.absolute, pattern)?),
        false => None,
    };
    let matches = |path: &Path| match &glob {
        Some(glob) => glob.matched(path, false).is_whitelist(),
        None => below(dir, path).to_lowercase().contains(&part),
    };
    let found = readable_files(context, dir);
    let (mut found, unreadable) = found.map_err(|error| with_near_names(error, dir))?;
    found.retain(|(path, _)| matches(path));
    Ok(written(context, found, unreadable))
}

/// Finds files by words: each must be in the path below `dir`, or similar to a part of it. The best come first: words in the
/// file name before words in its directories, whole names before parts, short paths before long ones.
///
/// # Errors
/// The query is empty, or the directory cannot be opened.
pub fn search_files(
    context: &ReadContext<'_>,
    query: &str,
    dir: &ResolvedPath,
) -> PathResult<ListedText> {
    check_query(query)?;
    let words: Vec<String> = query
        .split_whitespace()
        .map(str::to_lowercase)
        .take(16)
        .collect();
    let mut scored: Vec<(u32, usize, (PathBuf, EntryKind))> = Vec::new();
    let (files, unreadable) = readable_files(context, dir)?;
    for file in files {
        let path = below(dir, &file.0).to_lowercase();
        if let Some(score) = score(&words, &path) {
            scored.push((score, path.len(), file));
        }
    }
    scored.sort_by(|a, b| (b.0, a.1, &a.2).cmp(&(a.0, b.1, &b.2)));
    let found = scored.into_iter().map(|(.., file)| file).collect();
    Ok(written(context, found, unreadable))
}

fn check_query(query: &str) -> PathResult<()> {
    match query.trim() {
        "" => Err(PathError::invalid("the pattern is empty")),
        text if text.len() > MAX_QUERY_BYTES => {
            Err(PathError::invalid("the pattern is longer than 4,096 bytes"))
        }
        _ => Ok(()),
    }
}

fn below(dir: &ResolvedPath, path: &Path) -> String {
    let below = path.strip_prefix(&dir.absolute).unwrap_or(path);
    below.to_string_lossy().into_owned()
}

/// Scores a path in lower case; `None` if a word is not in it.
fn score(words: &[String], path: &str) -> Option<u32> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let stem = name.split('.').next().unwrap_or(name);
    words.iter().try_fold(0, |sum, word| {
        let word = word.as_str();
        let score = match () {
            () if word == name || word == stem => 100,
            () if name.starts_with(word) => 70,
            () if name.contains(word) => 50,
            () if path.split('/').any(|part| part == word) => 40,
            () if path.contains(word) => 30,
            // Too short a word is similar to everything.
            () if word.chars().count() < 4 => return None,
            () => {
                let parts = path.split(['/', '.', '_', '-', ' ']);
                let best = parts
                    .map(|part| strsim::normalized_damerau_levenshtein(word, part))
                    .fold(0.0, f64::max);
                if best < MIN_SIMILARITY {
                    return None;
                }
                10
            }
        };
        Some(sum + score)
    })
}

fn written(
    context: &ReadContext<'_>,
    found: Vec<(PathBuf, EntryKind)>,
    unreadable: usize,
) -> ListedText {
    let total = found.len() as u64;
    let mut shown = 0;
    let mut text = LimitedText::new(context.limits);
    for (path, kind) in &found {
        let mut line = path_from(context.workspace.cwd(), path);
        if *kind == EntryKind::Link {
            line.push_str("  (symbolic link)");
        }
        if !text.push(&line) {
            break;
        }
        shown += 1;
    }
    if total == 0 {
        text.remark("no files match");
    } else if shown < total {
        let counts = format!("{} of {} files shown", grouped(shown), grouped(total));
        text.remark(&format!("{counts}; narrow the pattern or the path"));
    }
    match unreadable {
        0 => {}
        1 => text.remark("1 directory could not be read"),
        many => text.remark(&format!(
            "{} directories could not be read",
            grouped(many as u64)
        )),
    }
    if context.cancelled.load(Ordering::Relaxed) {
        text.remark("the search was cancelled before its end");
    }
    ListedText {
        text: text.finish(),
        total,
        shown,
        files: total,
    }
}
