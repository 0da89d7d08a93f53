//! Where the built-in tools of a prompt work, and the state that they share.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::chat::ToolDefinition;
use crate::python::catalog::HelperCatalog;
use crate::python::workers::HelperWorkers;
use crate::sandbox::SandboxLevel;
use crate::workspace::undo::UndoStore;
use crate::workspace::{ReadFiles, Workspace};

/// The built-in tools that a prompt offers, and where they work.
#[derive(Debug)]
pub struct OfferedWork {
    /// The tools.
    pub offered: Vec<ToolDefinition>,
    /// Where they work.
    pub scope: Arc<WorkScope>,
}

/// Where the built-in tools of a prompt work.
#[derive(Debug)]
pub struct WorkScope {
    /// The directories.
    pub workspace: Workspace,
    /// The user's home directory.
    pub home: PathBuf,
    /// Where the earlier versions of changed files are kept, for `llm :undo`; `None` for a call outside of a session.
    pub kept: Option<KeptCopies>,
    /// The files that the model has read.
    pub read: Arc<ReadFiles>,
    /// The call is made by hand: the person may see lines of any file.
    pub by_hand: bool,
    /// How commands run.
    pub shell: ShellScope,
    /// The address of a SearXNG server.
    pub search_url: Option<String>,
    /// Searches the journal.
    pub history: HistorySearch,
    /// The Python helpers.
    pub helpers: HelperScope,
}

/// The Python helpers that a prompt offers, and their workers.
#[derive(Debug)]
pub struct HelperScope {
    /// The helpers.
    pub catalog: HelperCatalog,
    /// The processes that run them.
    pub workers: Arc<HelperWorkers>,
    /// The session that the processes belong to.
    pub session: String,
}

impl ShellScope {
    /// Returns the environment of programs that read for a tool.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        let variables = self.env.iter();
        variables
            .map(|(name, value)| (name.into(), value.clone()))
            .collect()
    }
}

/// Where the files that a prompt changes are kept as they were.
#[derive(Debug)]
pub struct KeptCopies {
    /// The kept copies of all sessions.
    pub store: UndoStore,
    /// The session.
    pub session: String,
    /// The prompt.
    pub prompt: String,
}

type SearchFunction = Box<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// Searches the journal by words; reads files, so it does not belong on the runtime thread.
pub struct HistorySearch(pub SearchFunction);

impl HistorySearch {
    /// Returns the sessions that have the words, with the text around them.
    ///
    /// # Errors
    /// The journal cannot be read; one line.
    pub fn search(&self, words: &str) -> Result<String, String> {
        (self.0)(words)
    }
}

impl std::fmt::Debug for HistorySearch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HistorySearch")
    }
}

impl WorkScope {
    /// Whether the caller may see lines of this file in any case: a person, or a model that has read it in the session.
    pub fn may_see(&self, file: &Path) -> bool {
        self.by_hand || self.read.digest(file).is_some()
    }
}

/// How the tool `shell` runs commands.
#[derive(Debug)]
pub struct ShellScope {
    /// The program of aish, which sets up the sandbox.
    pub helper: PathBuf,
    /// How far commands reach: `None` without a sandbox.
    pub sandbox: Option<SandboxLevel>,
    /// Commands only read, although the settings allow more: the workspace holds the home directory.
    pub is_reduced: bool,
    /// Directories that no command may read: those of aish itself.
    pub hidden: Vec<PathBuf>,
    /// The environment of commands, without secrets.
    pub env: BTreeMap<String, OsString>,
}
