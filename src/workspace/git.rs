//! Reads a git repository with the installed git, so that no program runs that the repository names.
//!
//! Settings that could run a program are switched off for each call: in the environment, which counts more than any configuration, or
//! by an option. Filters have no such switch; each one that is configured anywhere is overridden by an empty one. What
//! git writes about errors is not returned, because it can quote lines of files that the repository makes git read.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::git_dir::GitPlace;
use super::path_error::{PathError, PathFault, PathResult, shown_path};
use super::program::{ProgramOutput, RunLimits, find_program, run, scrubbed};
use super::read_context::{LimitedText, ReadContext, grouped};
use super::root::ResolvedPath;

/// Maximum time for git.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Maximum time for git to read its configuration.
const CONFIG_TIME: Duration = Duration::from_secs(2);

/// Maximum size of the output read from git.
const MAX_OUTPUT: usize = 32 << 20;

/// Maximum size of the list of configuration keys.
const MAX_CONFIG: usize = 4 << 20;

/// Maximum number of filters; each takes four variables of the environment.
const MAX_FILTERS: usize = 200;

/// Maximum length of a revision in bytes.
const MAX_REVISION_BYTES: usize = 1000;

/// Maximum number of commits of a log, and its default.
const MAX_COMMITS: u32 = 1000;
const DEFAULT_COMMITS: u32 = 20;

/// Configuration of every call.
const CONFIG: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("core.quotePath", "false"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("log.showSignature", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("submodule.recurse", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.orderFile", "/dev/null"),
    ("mailmap.file", "/dev/null"),
];

/// Environment of every call.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    // Counts more than `protocol.*` of the repository.
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_LITERAL_PATHSPECS", "1"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("LC_ALL", "C.UTF-8"),
];

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
    let place = place(context, request.path.as_ref())?;
    let args = arguments(&place, request)?;
    let repository = Repository::open(context, place)?;
    let output = repository.run(&args, MAX_OUTPUT)?;
    if !output.success {
        return Err(git_error(
            &repository.place.top,
            failure(&output.stderr, request),
        ));
    }
    let mut text = LimitedText::new(context.limits);
    let all = String::from_utf8_lossy(&output.stdout);
    let lines = all.lines().count() as u64;
    let shown = all.lines().take_while(|line| text.push(line)).count() as u64;
    let is_cut = shown < lines || output.is_cut;
    if request.command == GitCommand::Status && repository.place.has_foreign_exclude {
        text.remark(
            "untracked files are not listed: info/exclude of the repository leads outside of the workspace, or its configuration has core.excludesFile",
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
    let found = place(context, Some(dir)).and_then(|place| Repository::open(context, place));
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

/// Returns the settings of git whose keys match a regular expression, in the repository around a directory: each as its scope, ended by
/// NUL, and `KEY`, a line feed and the value, ended by NUL. Also returns the top of the work tree. `None` outside of a repository, or where
/// git fails.
pub(super) fn settings(
    context: &ReadContext<'_>,
    dir: &ResolvedPath,
    keys: &str,
) -> Option<(Vec<u8>, PathBuf)> {
    let repository = Repository {
        program: find_program("git", context)?,
        place: place(context, Some(dir)).ok()?,
        context,
        // `config` runs none.
        filters: Vec::new(),
    };
    let args = ["config", "-z", "--show-scope", "--get-regexp", keys];
    let args: Vec<OsString> = args.iter().map(OsString::from).collect();
    let output = repository.run_within(&args, MAX_CONFIG, CONFIG_TIME).ok()?;
    // Without a matching key, the exit status is 1, and nothing is written.
    let is_answered = output.success || output.stdout.is_empty() && output.stderr.is_empty();
    is_answered.then_some((output.stdout, repository.place.top))
}

fn place(context: &ReadContext<'_>, path: Option<&ResolvedPath>) -> PathResult<GitPlace> {
    let start = path.map_or(context.workspace.cwd(), |path| &path.absolute);
    GitPlace::find(context.workspace, start)
}

fn git_error(top: &Path, reason: String) -> PathError {
    PathError::new(PathFault::System, top, &reason)
}

/// A repository whose filters are known, and the program that reads it.
struct Repository<'a> {
    context: &'a ReadContext<'a>,
    place: GitPlace,
    program: PathBuf,
    /// Names of filters in any configuration.
    filters: Vec<OsString>,
}

impl<'a> Repository<'a> {
    fn open(context: &'a ReadContext<'a>, place: GitPlace) -> PathResult<Repository<'a>> {
        let program = find_program("git", context)
            .ok_or_else(|| git_error(&place.top, "git is not installed".to_owned()))?;
        let mut repository = Repository {
            context,
            place,
            program,
            filters: Vec::new(),
        };
        let list: Vec<OsString> = ["config", "--list", "--show-scope", "--name-only", "-z"]
            .map(OsString::from)
            .into();
        let keys = repository.run(&list, MAX_CONFIG)?;
        let top = &repository.place.top;
        if !keys.success || keys.is_cut {
            return Err(git_error(
                top,
                "git cannot read its configuration".to_owned(),
            ));
        }
        let words: Vec<&[u8]> = keys.stdout.split(|&b| b == 0).collect();
        let (pairs, _) = words.as_chunks();
        if pairs.iter().any(is_own_exclude) {
            repository.place.has_foreign_exclude = true;
        }
        let mut filters: Vec<&[u8]> = pairs
            .iter()
            .filter_map(|[_, key]| filter_name(key))
            .collect();
        filters.sort_unstable();
        filters.dedup();
        if filters.len() > MAX_FILTERS {
            return Err(git_error(
                top,
                format!("more than {MAX_FILTERS} filters are configured"),
            ));
        }
        repository.filters = filters
            .iter()
            .map(|name| OsStr::from_bytes(name).into())
            .collect();
        Ok(repository)
    }

    fn run(&self, args: &[OsString], bytes: usize) -> PathResult<ProgramOutput> {
        self.run_within(args, bytes, TIME_LIMIT)
    }

    fn run_within(
        &self,
        args: &[OsString],
        bytes: usize,
        time: Duration,
    ) -> PathResult<ProgramOutput> {
        let mut command = scrubbed(&self.program, self.context.variables);
        let is_foreign = |name: &OsStr| name.as_bytes().starts_with(b"GIT_");
        for (name, _) in self.context.variables {
            if is_foreign(name) {
                command.env_remove(name);
            }
        }
        command
            .args(["--no-pager", "--no-optional-locks"])
            .args(args)
            .envs(ENVIRONMENT.iter().copied())
            // `core.worktree` could name any directory, and git would go on to a repository above an invalid one.
            .env("GIT_DIR", &self.place.git_dir)
            .env("GIT_COMMON_DIR", &self.place.common_dir)
            .env("GIT_WORK_TREE", &self.place.top)
            .current_dir(&self.place.top);
        self.set_config(&mut command);
        let limits = RunLimits {
            time,
            bytes,
            cancelled: self.context.cancelled,
        };
        run(command, limits).map_err(|reason| git_error(&self.place.top, format!("git {reason}")))
    }

    /// Passes the configuration in variables: unlike `-c`, they take any name of a filter.
    fn set_config(&self, command: &mut Command) {
        let plain = CONFIG
            .iter()
            .map(|(key, value)| (OsString::from(key), *value));
        let filters = self.filters.iter().flat_map(|name| {
            [
                ("clean", ""),
                ("smudge", ""),
                ("process", ""),
                ("required", "false"),
            ]
            .map(|(what, value)| {
                let mut key = OsString::from("filter.");
                key.push(name);
                key.push(".");
                key.push(what);
                (key, value)
            })
        });
        let mut count = 0;
        for (key, value) in plain.chain(filters) {
            command.env(format!("GIT_CONFIG_KEY_{count}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
            count += 1;
        }
        command.env("GIT_CONFIG_COUNT", count.to_string());
    }
}

/// Returns `NAME` of the key `filter.NAME.clean`.
/// Whether a scope and a key are those of `core.excludesFile` in the configuration of a repository, not of the user.
fn is_own_exclude([scope, key]: &[&[u8]; 2]) -> bool {
    matches!(*scope, b"local" | b"worktree") && *key == b"core.excludesfile"
}

fn filter_name(key: &[u8]) -> Option<&[u8]> {
    let rest = key.strip_prefix(b"filter.")?;
    let end = rest.iter().rposition(|&b| b == b'.')?;
    rest.get(..end)
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
            &["--no-show-signature", "--stat", "--patch", "--date=iso"],
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
