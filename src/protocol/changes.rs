//! Requests and replies about the files that tools have changed.

use serde::{Deserialize, Serialize};

use super::ShellId;
use super::shown_effect::ToolDiffLine;

/// What to do with the changes of files that tools have made for a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum ChangesAction {
    /// Take them back.
    Undo {
        /// Leave files that were changed since, instead of doing nothing.
        skip: bool,
    },
    /// Show them.
    Diff,
}

/// A request about the last prompt for which tools changed files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesRequest {
    /// The session; otherwise that of the shell, or the last one.
    pub session: Option<String>,
    /// The shell.
    pub shell: Option<ShellId>,
    /// The working directory, for relative paths in a difference.
    pub cwd: String,
    /// What to do.
    pub action: ChangesAction,
}

/// Reply to [`ChangesRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesReply {
    /// The session.
    pub session: String,
    /// The id of the prompt.
    pub prompt: String,
    /// The files, in the order in which they were changed first.
    pub files: Vec<ChangedFile>,
    /// The changes were undone.
    pub is_done: bool,
    /// An earlier undo has kept these files and restored the others of the prompt, and no other prompt is left to undo.
    #[serde(default)]
    pub was_skipped: bool,
    /// The tool `shell` ran for the prompt as well: what its commands changed is not kept.
    #[serde(default)]
    pub ran_commands: bool,
    /// What was changed.
    pub difference: Vec<ToolDiffLine>,
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// The action of an undo on it.
    pub outcome: FileOutcome,
}

/// The action of an undo on a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileOutcome {
    /// It is restored.
    Restored,
    /// It was not there before, and is removed.
    Removed,
    /// It is as before already.
    Same,
    /// It was changed since, or may not be written, and stays; the reason.
    Changed(String),
}
