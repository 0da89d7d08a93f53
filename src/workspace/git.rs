//! Reads a git repository with the installed git, so that no program runs that the repository names.
//!
//! Settings that could run a program are switched off for each call: in the environment, which counts more than any configuration, or
//! by an option. Filters have no such switch; each one that is configured anywhere is overridden by an empty one. What
//! git writes about errors is not returned, because it can quote lines of files that the repository makes git read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::git_dir::GitPlace;
use super::git_repository::Repository;
use super::path_error::{PathError, PathResult, shown_path};
use super::read_context::{LimitedText, ReadContext, grouped};
use super::root::ResolvedPath;

/// Maximum size of the output read from git.
const MAX_OUTPUT: usize = 32 << 20;

/// Maximum length of a revision in bytes.
const MAX_REVISION_BYTES: usize = 1000;

/// Maximum number of commits of a log, and its default.
const MAX_COMMITS: u32 = 1000;
const DEFAULT_COMMITS: u32 = 20;

/// Options of everything that shows differences.
const DIFF_OPTIONS: &[&str] = &[
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--ignore-submodules=all",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

/// Query to git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitCommand {
    /// Changed and untracked files.
    Status,
    /// The difference to the index or to a revision.
    Diff,
    /// Commits.
    Log,
    /// A commit with its difference, or another object.
    Show,
    /// The commit of each line of a file.
    Blame,
}

/// A question to git.
#[derive(Debug, Clone)]
pub struct GitRequest {
    /// The kind of question.
    pub command: GitCommand,
    /// A revision or a range; for `Diff` also two revisions.
    pub revision: Option<String>,
    /// Limits the answer to a file or directory; needed for `Blame`.
    pub path: Option<ResolvedPath>,
    /// `Diff`: of the staged changes.
    pub staged: bool,
    /// `Log`: maximum number of commits.
    pub max_count: Option<u32>,
}

impl GitRequest {
    /// Creates a request without further options.
    pub fn new(command: GitCommand) -> GitRequest {
        GitRequest {
            command,
            revision: None,
            path: None,
            staged: false,
            max_count: None,
        }
    }
}

/// An answer of git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitText {
    /// The lines within the limits, and remarks in brackets.
    pub text: String,
    /// Not everything is in `text`.
    pub is_cut: bool,
}

/// Asks git about the repository around the path of the request, or the shell's directory.
///
/// # Errors
/// One line: not a repository, its files are outside of the workspace, invalid arguments, or git failed.
pub fn git(context: &ReadContext<'_>, request: &GitRequest) -> PathResult<GitText> {
    let place = GitPlace::around(context, request.path.as_ref())?;
    let args = arguments(&place, request)?;
    let repository = Repository::open(context, place)?;
    if request.command == GitCommand::Blame {
        repository.check_revisions()?;
    }
    let output = repository.run(&args, MAX_OUTPUT)?;
    if !output.success {
        return Err(repository.error(failure(&output.stderr, request)));
    }
    let mut text = LimitedText::new(context.limits);
    let all = String::from_utf8_lossy(&output.stdout);
    let lines = all.lines().count() as u64;
    let shown = all.lines().take_while(|line| text.push(line)).count() as u64;
    let is_cut = shown < lines || output.is_cut;
    if request.command == GitCommand::Status && repository.place.has_foreign_exclude {
        text.remark(
            "untracked files are not listed: info/exclude of the repository leads outside of the workspace",
        );
    }
    if lines == 0 {
        text.remark("git shows nothing");
    } else if is_cut {
        let more = if output.is_cut { " or more" } else { "" };
        let (shown, lines) = (grouped(shown), grouped(lines));
        text.remark(&format!(
            "{shown} of {lines}{more} lines shown; narrow the path or the revision"
        ));
    }
    Ok(GitText {
        text: text.finish(),
        is_cut,
    })
}

/// Returns the tracked files below a directory that ignore rules would leave out; none outside of a repository, or where git
/// fails.
pub(super) fn tracked_but_ignored(context: &ReadContext<'_>, dir: &ResolvedPath) -> Vec<PathBuf> {
    let place = GitPlace::around(context, Some(dir));
    let found = place.and_then(|place| Repository::open(context, place));
    let Some(repository) = found.ok().filter(|found| !found.place.has_foreign_exclude) else {
        return Vec::new();
    };
    let args = [
        "ls-files",
        "-z",
        "--cached",
        "--ignored",
        "--exclude-standard",
    ];
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let Ok(output) = repository.run(&args, MAX_OUTPUT) else {
        return Vec::new();
    };
    let names = output
        .stdout
        .split(|&b| b == 0)
        .filter(|name| !name.is_empty());
    names
        .map(|name| repository.place.top.join(OsStr::from_bytes(name)))
        .filter(|path| path.starts_with(&dir.absolute))
        .collect()
}

fn arguments(place: &GitPlace, request: &GitRequest) -> PathResult<Vec<OsString>> {
    let count = request
        .max_count
        .unwrap_or(DEFAULT_COMMITS)
        .clamp(1, MAX_COMMITS);
    let count = format!("--max-count={count}");
    let (command, options): (&str, &[&str]) = match request.command {
        GitCommand::Status => (
            "status",
            &[
                "--short",
                "--branch",
                "--ignore-submodules=all",
                match place.has_foreign_exclude {
                    true => "--untracked-files=no",
                    false => "--untracked-files=normal",
                },
            ],
        ),
        GitCommand::Diff => ("diff", DIFF_OPTIONS),
        GitCommand::Log => (
            "log",
            &[
                "--no-show-signature",
                "--no-color",
                "--date=iso",
                "--format=%h %ad %an%d%n    %s",
                &count,
            ],
        ),
        GitCommand::Show => (
            "show",
            &[
                "--no-show-signature",
                // `format.pretty` of the repository could leave out the author or the message.
                "--format=medium",
                "--stat",
                "--patch",
                "--date=iso",
            ],
        ),
        GitCommand::Blame => ("blame", &["--date=short", "--no-textconv"]),
    };
    let mut args: Vec<OsString> = vec![command.into()];
    args.extend(options.iter().map(OsString::from));
    if request.command == GitCommand::Show {
        args.extend(DIFF_OPTIONS.iter().map(OsString::from));
    }
    if request.staged {
        match request.command {
            GitCommand::Diff => args.push("--cached".into()),
            _ => return Err(PathError::invalid("staged is only for diff")),
        }
    }
    match (&request.revision, request.command) {
        (None, _) => {}
        (Some(_), GitCommand::Status) => {
            return Err(PathError::invalid("status takes no revision"));
        }
        (Some(revision), command) => {
            let words = revisions(revision, command)?;
            // `blame` does not know the option; a revision cannot begin with `-` in any case.
            if command != GitCommand::Blame {
                args.push("--end-of-options".into());
            }
            args.extend(words);
        }
    }
    args.push("--".into());
    match &request.path {
        Some(path) => {
            let below = path
                .absolute
                .strip_prefix(&place.top)
                .unwrap_or(Path::new("."));
            let below = if below.as_os_str().is_empty() {
                Path::new(".")
            } else {
                below
            };
            args.push(below.into());
        }
        None if request.command == GitCommand::Blame => {
            return Err(PathError::invalid("blame needs the path of a file"));
        }
        None => {}
    }
    Ok(args)
}

fn revisions(text: &str, command: GitCommand) -> PathResult<Vec<OsString>> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    let max = if command == GitCommand::Diff { 2 } else { 1 };
    let shown = || shown_path(Path::new(text.get(..80).unwrap_or(text)));
    let is_valid = text.len() <= MAX_REVISION_BYTES
        && !text.contains(char::is_control)
        && !words.is_empty()
        && words.len() <= max
        && words.iter().all(|word| !word.starts_with('-'));
    match is_valid {
        true => Ok(words.into_iter().map(OsString::from).collect()),
        false => Err(PathError::invalid(format!("{}: not a revision", shown()))),
    }
}

/// Says why git failed, without its own words.
fn failure(stderr: &[u8], request: &GitRequest) -> String {
    let text = String::from_utf8_lossy(stderr);
    let has = |part: &str| text.contains(part);
    let revision = request.revision.as_deref().unwrap_or("HEAD");
    let reason = match () {
        () if has("does not have any commits yet") || has("no such ref: HEAD") => {
            "it has no commits yet".to_owned()
        }
        () if has("unknown revision") || has("bad revision") || has("bad object") => {
            format!("it has no revision {revision}")
        }
        () if has("no such path") || has("does not exist in") => {
            format!("the path is not in {revision}: nothing of it is committed there")
        }
        () if has("not a git repository") => "it is not a valid git repository".to_owned(),
        () if has("promisor") || has("lazy fetch") => {
            "objects are missing, and aish does not download them".to_owned()
        }
        () => "git failed; its own message may quote files, so it is not shown".to_owned(),
    };
    format!("git: {reason}")
}
