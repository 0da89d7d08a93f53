//! A call of a built-in tool that works on files, commands or pages, as it was prepared for the decision on it.
//!
//! Preparing resolves every path and computes every change, so that the question shows exactly what will be done, and the call
//! does exactly what was shown.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::scope::WorkScope;
use super::shell_run::SHELL_CANCEL_TIME;
use super::work_definitions::SHELL;
use crate::chat::{OperationClass, ToolDefinition};
use crate::python::catalog::HelperFunction;
use crate::safety::policy::{BuiltinAction, CallEffects};
use crate::safety::protected_paths::{is_user_program, project_place};
use crate::sandbox::HomeFile;
use crate::workspace::changes::PreparedChange;
use crate::workspace::git::GitRequest;
use crate::workspace::grep::GrepRequest;
use crate::workspace::{PathError, ResolvedPath, shown_path};

/// Time that changes of files have to be completed once they are cancelled.
const CHANGE_GRACE: Duration = Duration::from_secs(10);

/// What is special about a start-up file.
pub(super) const RUN_LATER: &str = "other programs run or obey it";

/// A prepared call.
#[derive(Debug)]
pub struct PreparedCall {
    /// The action that rules can name.
    pub action: Option<BuiltinAction>,
    /// An action that the call takes as well: rules restrict the call by it, and none allows the call by one of the two.
    pub second_action: Option<BuiltinAction>,
    /// The directory of the workspace in which the call stays.
    pub workspace: Option<String>,
    /// The operation class of this call, if it is above that of the tool.
    pub operation: Option<OperationClass>,
    /// Why the call must be asked about, whatever allows it: it leaves the workspace, or the sandbox.
    pub reason: Option<String>,
    /// The files that the call reads or changes, by their real paths.
    pub files: Vec<PathBuf>,
    /// The command line that the call runs.
    pub command: Option<String>,
    /// Effect of the call, in one line, where the arguments do not say it.
    pub statement: Option<String>,
    /// The changes in files, each line with its sign: `+`, `-`, a space, or `@` for a heading.
    pub difference: Vec<(char, String)>,
    /// The danger of the call, in one line.
    pub danger: Option<String>,
    /// The answer `yes` must be typed in full.
    pub typed_yes: bool,
    /// The call runs a command again that the sandbox blocked, outside of it.
    pub is_second_run: bool,
    /// What is done after the approval.
    pub work: PreparedWork,
}

impl PreparedCall {
    /// Returns the call that reads a file, given by its real path. One that can no longer be resolved is a link.
    pub fn reading(scope: &WorkScope, file: &Path) -> Option<PreparedCall> {
        let path = match scope.workspace.resolve_path(file) {
            Ok(path) => path,
            Err(error) => scope.workspace.places(&error).pop()?,
        };
        let work = PreparedWork::ReadFile {
            path: path.clone(),
            offset: 1,
            limit: usize::MAX,
        };
        Some(on_paths(scope, BuiltinAction::FsRead, &[&path], work))
    }

    /// Returns what the policy decides by.
    pub fn effects(&self) -> CallEffects<'_> {
        CallEffects {
            action: self.action,
            second_action: self.second_action,
            workspace: self.workspace.as_deref(),
            operation: self.operation,
        }
    }

    /// Returns the directory in which the call runs a command.
    pub fn directory(&self) -> Option<&Path> {
        match &self.work {
            PreparedWork::Shell(work) => Some(&work.dir),
            _ => None,
        }
    }

    /// Returns how long the call may continue when it is cancelled, if it ends by itself: a change of files that continued
    /// unnoticed could be neither reported nor undone, and processes end with everything that they have started.
    pub fn cancel_grace(&self) -> Option<Duration> {
        match self.work {
            PreparedWork::Change { .. } => Some(CHANGE_GRACE),
            PreparedWork::Shell(_) | PreparedWork::Helper { .. } | PreparedWork::Python(_) => {
                Some(SHELL_CANCEL_TIME)
            }
            _ => None,
        }
    }

    /// Makes the call one that runs a command again outside of the sandbox, which has blocked something. Edited arguments may keep the
    /// command inside.
    pub fn mark_second_run(&mut self, blocked: &str) {
        let is_outside = matches!(&self.work, PreparedWork::Shell(work) if work.outside);
        if is_outside {
            self.is_second_run = true;
            self.reason = Some(format!("the sandbox blocked: {blocked}"));
        }
    }

    /// Whether the call only reads files.
    pub fn reads_files(&self) -> bool {
        self.action == Some(BuiltinAction::FsRead)
    }
}

/// Why a call cannot be made: an error that the model can correct.
#[derive(Debug, Clone)]
pub struct PrepareError {
    /// One line, without text of a file. It still reveals whether a guess at the text of `paths` is right.
    pub message: String,
    /// Text of a file that helps to correct the call. Only for a model that may read the file.
    pub excerpt: Option<String>,
    /// The file that the excerpt is from.
    pub file: Option<PathBuf>,
    /// The files that were read for it.
    pub paths: Vec<ResolvedPath>,
    /// The operation class of the call, if it is above that of the tool.
    pub operation: Option<OperationClass>,
}

impl PrepareError {
    /// Returns a call of a tool that says only after a yes why it cannot be made. The policy decides on it as on a call that can be
    /// made, so that the decision does not distinguish them.
    pub fn refused_call(&self, scope: &WorkScope, tool: &ToolDefinition) -> PreparedCall {
        let paths: Vec<&ResolvedPath> = self.paths.iter().collect();
        let work = PreparedWork::Refused(self.message.clone());
        let (action, what) = if tool.name == SHELL {
            (BuiltinAction::Shell, "call")
        } else if tool.annotations.reads_only() {
            (BuiltinAction::FsRead, "call")
        } else {
            (BuiltinAction::FsWrite, "change")
        };
        let mut call = on_paths(scope, action, &paths, work);
        call.operation = self.operation;
        call.danger = Some(format!("this {what} cannot be made: {}", self.message));
        call
    }
}

impl From<String> for PrepareError {
    fn from(message: String) -> PrepareError {
        PrepareError {
            message,
            excerpt: None,
            file: None,
            paths: Vec::new(),
            operation: None,
        }
    }
}

/// What is done after the approval.
#[derive(Debug)]
pub enum PreparedWork {
    /// Reads a file from a line on.
    ReadFile {
        /// The file.
        path: ResolvedPath,
        /// The first line, from 1.
        offset: u64,
        /// Number of lines.
        limit: usize,
    },
    /// Lists a directory.
    ListDir {
        /// The directory.
        path: ResolvedPath,
        /// Number of levels.
        depth: usize,
    },
    /// Searches the text of files.
    Grep(Box<GrepRequest>),
    /// Searches files by a glob or a part of their path.
    FindFiles {
        /// The glob or the part.
        pattern: String,
        /// Where.
        dir: ResolvedPath,
    },
    /// Searches files of the workspace by words of their names.
    SearchFiles(String),
    /// Searches the journal.
    SearchHistory(String),
    /// Searches the web.
    SearchWeb {
        /// The address of the SearXNG server.
        server: String,
        /// The words.
        query: String,
    },
    /// Reads a git repository.
    Git(Box<GitRequest>),
    /// Reads a web page.
    FetchUrl(String),
    /// Changes files, all or none.
    Change {
        /// The changes.
        changes: Vec<PreparedChange>,
        /// The files whose whole new version the model knows.
        known: BTreeSet<PathBuf>,
    },
    /// Changes nothing, and reports why.
    Refused(String),
    /// Runs a command.
    Shell(ShellWork),
    /// Calls a Python helper.
    Helper {
        /// The helper, with the source that was shown when it was added.
        function: Arc<HelperFunction>,
        /// The arguments.
        arguments: String,
    },
    /// Runs Python code.
    Python(String),
}

/// A command to run.
#[derive(Debug)]
pub struct ShellWork {
    /// The command line.
    pub command: String,
    /// Where.
    pub dir: PathBuf,
    /// The time limit.
    pub time_limit: Duration,
    /// Whether it may use the network.
    pub network: bool,
    /// Whether it runs without the sandbox.
    pub outside: bool,
}

/// Resolves a path of the arguments.
pub(super) fn resolve(scope: &WorkScope, path: &str) -> Result<ResolvedPath, PrepareError> {
    let resolved = scope.workspace.resolve(path);
    resolved.map_err(|e| unresolved(scope, e))
}

/// Returns the error of a path that cannot be resolved.
pub(super) fn unresolved(scope: &WorkScope, error: PathError) -> PrepareError {
    PrepareError {
        paths: scope.workspace.places(&error),
        ..PrepareError::from(error.message)
    }
}

/// Returns a prepared call that works on these paths. One outside of the workspace is asked about with its real path.
pub(super) fn on_paths(
    scope: &WorkScope,
    action: BuiltinAction,
    paths: &[&ResolvedPath],
    work: PreparedWork,
) -> PreparedCall {
    let outside: Vec<String> = paths
        .iter()
        .filter(|path| path.workspace.is_none())
        .map(|path| shown_path(&path.absolute))
        .collect();
    // A grant names one directory: a call that works in two of them needs a separate yes.
    let mut roots: Vec<&PathBuf> = paths
        .iter()
        .filter_map(|path| path.workspace.as_ref())
        .collect();
    roots.dedup();
    let workspace = match (outside.is_empty(), roots.as_slice()) {
        (true, [root]) => Some(shown_path(root)),
        _ => None,
    };
    let reason = match kept_reason(scope, action, paths) {
        Some(reason) => Some(reason),
        None if outside.is_empty() => None,
        None => {
            let roots: Vec<String> = scope.workspace.roots().map(shown_path).collect();
            let roots = roots.join(" and ");
            let is_outside =
                |path: &&ResolvedPath| path.workspace.is_none() && path.detour.is_none();
            let detour = paths.iter().find_map(|path| path.detour.as_deref());
            Some(match detour.filter(|_| !paths.iter().any(is_outside)) {
                Some(dir) => {
                    let dir = shown_path(dir);
                    format!("its path leads through {dir}, outside of {roots}")
                }
                None => format!("it is outside of {roots}"),
            })
        }
    };
    PreparedCall {
        action: Some(action),
        second_action: None,
        workspace,
        operation: None,
        reason,
        files: paths.iter().map(|path| path.absolute.clone()).collect(),
        command: None,
        statement: (!outside.is_empty()).then(|| outside.join(", ")),
        difference: Vec::new(),
        danger: None,
        typed_yes: false,
        is_second_run: false,
        work,
    }
}

/// Returns why a call that reads or changes one of these paths is asked about in whatever workspace.
fn kept_reason(
    scope: &WorkScope,
    action: BuiltinAction,
    paths: &[&ResolvedPath],
) -> Option<String> {
    let home = &scope.home_files;
    let secret = |path: &Path| {
        let path = shown_path(path);
        format!("{path} is in a place for secrets, which no rule and no earlier answer covers")
    };
    let files: Vec<&Path> = paths.iter().map(|path| path.absolute.as_path()).collect();
    if action != BuiltinAction::FsWrite {
        return files.into_iter().find_map(|path| match home.of_read(path)? {
            HomeFile::Secret => Some(secret(path)),
            // The sandbox hides it from a command.
            _ if action != BuiltinAction::FsRead => None,
            _ => {
                let path = shown_path(path);
                Some(format!(
                    "{path} is hidden in your home directory, which no rule and no earlier answer covers"
                ))
            }
        });
    }
    let of_home = home.of_change(&files);
    if let Some((path, HomeFile::Secret)) = &of_home {
        return Some(secret(path));
    }
    let place = paths
        .iter()
        .find_map(|path| place_of(&path.absolute, paths));
    let place = place.or_else(|| {
        let (path, reason) = of_home?;
        let path = shown_path(&path);
        Some(match reason {
            HomeFile::Hidden => format!("{path} (a hidden file of your home directory)"),
            _ => format!("{path} ({RUN_LATER})"),
        })
    });
    place.map(|place| place_reason(&place))
}

/// Returns why a change of a place is asked about, whatever allows it.
pub(super) fn place_reason(place: &str) -> String {
    format!("it changes {place}, which no rule and no earlier answer covers")
}

/// Returns a description of a file that other programs later run or obey; `None` for other files. `written` are all files of the call.
fn place_of(path: &Path, written: &[&ResolvedPath]) -> Option<String> {
    if let Some(place) = project_place(path) {
        return Some(place);
    }
    if is_user_program(path) {
        return Some("~/.local/bin, whose programs you run by their names".to_owned());
    }
    // Under its other name, it may be anything.
    let meta = path.symlink_metadata().ok();
    if meta.is_some_and(|meta| meta.is_file() && meta.nlink() > 1) {
        return Some(format!(
            "{}, which has another name too (a hard link)",
            shown_path(path)
        ));
    }
    // Git takes any directory with these for a repository.
    let looks_like_git = |dir: &&Path| {
        let has = |name: &str| {
            let entry = dir.join(name);
            entry.exists() || written.iter().any(|file| file.absolute.starts_with(&entry))
        };
        has("HEAD") && (has("commondir") || has("objects") && has("refs"))
    };
    let git_dir = path.ancestors().skip(1).find(looks_like_git)?;
    Some(format!("the git directory {}", shown_path(git_dir)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn a_directory_that_becomes_one_of_git_is_a_place() {
        let temp = tempfile::tempdir().unwrap();
        let workspace = Workspace::new(temp.path(), None, &[]).unwrap();
        let place = |written: &[&str]| {
            let paths = written.iter().map(|name| workspace.resolve(name).unwrap());
            let paths: Vec<ResolvedPath> = paths.collect();
            let paths: Vec<&ResolvedPath> = paths.iter().collect();
            let mut found = paths.iter().map(|path| place_of(&path.absolute, &paths));
            found.find_map(|place| place)
        };
        let at_once = ["b/HEAD", "b/config", "b/objects/.k", "b/refs/.k"];
        assert!(place(&at_once).is_some());
        assert!(place(&["w/HEAD", "w/commondir"]).is_some());
        for name in at_once {
            assert_eq!(place(&[name]), None, "{name}");
        }
        assert_eq!(place(&["HEAD", "refs/x", "config"]), None);
        for name in ["b/HEAD", "b/refs/.k"] {
            fs::create_dir_all(temp.path().join(name).parent().unwrap()).unwrap();
            fs::write(temp.path().join(name), "").unwrap();
        }
        assert_eq!(place(&["b/config"]), None);
        assert!(place(&["b/objects/.k"]).is_some());
    }
}
