//! Where the built-in tools of a prompt work, and the state that they share.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::chat::ToolDefinition;
use crate::python::catalog::HelperCatalog;
use crate::python::workers::HelperWorkers;
use crate::sandbox::{HomeFiles, PathRules, SandboxLevel, SandboxPolicy};
use crate::workspace::read_context::PathFilter;
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
    /// The home directory of the shell.
    pub home: PathBuf,
    /// The files of the home directory that are asked about, whatever the rules allow.
    pub home_files: Arc<HomeFiles>,
    /// Where the earlier versions of changed files are kept.
    pub kept: KeptCopies,
    /// The files that the model has read.
    pub read: Arc<ReadFiles>,
    /// The call is made manually: the person may see lines of any file.
    pub by_hand: bool,
    /// How commands run.
    pub shell: ShellScope,
    /// The address of a SearXNG server.
    pub search_url: Option<String>,
    /// Says what a search leaves out.
    pub left_out: SearchFilter,
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
    /// Session and prompt, for `llm :undo`; `None` for a call outside of a session, which has copies only while it changes files.
    pub prompt: Option<(String, String)>,
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

type FilterFunction = Box<dyn Fn() -> PathFilter + Send + Sync>;

/// Makes the filter of one search, for the files that exist then.
pub struct SearchFilter(pub FilterFunction);

impl std::fmt::Debug for SearchFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SearchFilter")
    }
}

/// Directories in which root could read secrets of the system, or data of other processes that the kernel shows.
const SYSTEM_DIRS: [&str; 6] = ["/dev", "/etc", "/proc", "/run", "/sys", "/var"];

impl WorkScope {
    /// Whether the caller has seen this file: a person, or a model that has read it in the session.
    pub fn has_seen(&self, file: &Path) -> bool {
        self.by_hand || self.read.is_read(file)
    }

    /// Returns what one search leaves out: files and directories that may not be read without a question.
    pub fn search_filter(&self) -> PathFilter {
        let (own, home_files) = ((self.left_out.0)(), self.home_files.clone());
        PathFilter::new(move |path| home_files.of_read(path).is_some() || own.matches(path))
    }

    /// Returns the rights of a command in a directory, which it may read even if that is outside of the workspace.
    pub fn sandbox_policy(&self, level: SandboxLevel, dir: &Path, network: bool) -> SandboxPolicy {
        let mut roots = self.workspace.roots().map(Path::to_path_buf);
        let first = roots.next().unwrap_or_else(|| dir.to_path_buf());
        let mut policy = SandboxPolicy::new(level, first);
        policy.write = roots.collect();
        policy.network = network;
        policy.home = Some(self.shell.home.clone());
        policy.is_root = nix::unistd::geteuid().is_root();
        policy.hidden = self.shell.hidden.clone();
        policy.hidden.extend(self.home_files.moved_secrets());
        policy.variables = self
            .shell
            .env
            .iter()
            .map(|(name, value)| (OsString::from(name), value.clone()))
            .collect();
        let is_outside = !self.workspace.roots().any(|root| dir.starts_with(root));
        // The user has allowed that directory. A directory that holds more than a project keeps its rules: the command gets no
        // additional rights there.
        let rules = PathRules::new(&policy);
        if is_outside
            && !rules.is_hidden(dir)
            && !rules.hides_below(dir)
            && !SYSTEM_DIRS.iter().any(|system| dir.starts_with(system))
        {
            policy.read.push(dir.to_path_buf());
        }
        policy
    }
}

/// How the tool `shell` runs commands.
#[derive(Debug)]
pub struct ShellScope {
    /// The program of aish, which sets up the sandbox.
    pub helper: PathBuf,
    /// The home directory that the sandbox hides: one that the workspace holds, else that of the shell.
    pub home: PathBuf,
    /// How far commands reach: `None` without a sandbox.
    pub sandbox: Option<SandboxLevel>,
    /// Commands only read, although the settings allow more: the workspace holds the home directory.
    pub is_reduced: bool,
    /// Directories that no command may read: those of aish itself.
    pub hidden: Vec<PathBuf>,
    /// The environment of commands, without secrets.
    pub env: BTreeMap<String, OsString>,
}
