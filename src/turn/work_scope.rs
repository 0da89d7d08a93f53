//! Where the built-in tools of a prompt work: the workspace of the shell, and the directories that the user has added.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::own_files;
use super::tool_exposure::SelectedTools;
use crate::chat::ToolDefinition;
use crate::config::{Config, SandboxSetting, ToolSelection};
use crate::error::{Error, Result};
use crate::history::record::{RecordBody, RecordIds};
use crate::history::session_list::search_words;
use crate::paths;
use crate::protocol::AskRequest;
use crate::python::catalog::HelperCatalog;
use crate::sandbox::{HomeFiles, SandboxLevel};
use crate::services::SharedServices;
use crate::services::model::ChosenModel;
use crate::session::conversation::Session;
use crate::tools::builtin::{
    HelperScope, HistorySearch, KeptCopies, OfferedWork, SearchFilter, ShellScope, WorkScope,
};
use crate::workspace::Workspace;
use crate::workspace::undo::UndoStore;

/// The setting of a session with the directories that were added, one per line.
const ADDED_DIRS: &str = "add_dir";

/// Returns the built-in tools of a prompt with the place where they work; `None` if none is offered.
///
/// # Errors
/// A directory that the user adds cannot be used.
pub async fn offered_work(
    services: &SharedServices,
    session: &Session,
    chosen: &ChosenModel,
    ask: &AskRequest,
    (offered, helpers): (Vec<ToolDefinition>, HelperCatalog),
    prompt: Option<&str>,
) -> Result<Option<Arc<OfferedWork>>> {
    if offered.is_empty() {
        return Ok(None);
    }
    let added = added_dirs(session, ask).await?;
    let shell = WorkShell {
        cwd: &ask.cwd,
        env: &ask.work_env,
        overrides: &ask.overrides,
    };
    let place = (added, helpers);
    let scope = scope(services, session, &chosen.config, shell, place, prompt).await;
    match scope {
        Ok(scope) => Ok(Some(Arc::new(OfferedWork {
            offered,
            scope: Arc::new(scope),
        }))),
        // The directory of the shell is gone: the prompt is answered without these tools.
        Err(e) if ask.add_dirs.is_empty() => {
            tracing::warn!("the built-in tools are not offered: {}", e.message);
            Ok(None)
        }
        Err(e) => Err(e),
    }
}

/// The shell for which built-in tools work.
#[derive(Debug, Clone, Copy)]
pub struct WorkShell<'a> {
    /// Its directory.
    pub cwd: &'a str,
    /// Its environment, without secrets.
    pub env: &'a BTreeMap<String, String>,
    /// Its variables that set something in the configuration, or say where that is.
    pub overrides: &'a BTreeMap<String, String>,
}

/// Returns where built-in tools work in a directory.
///
/// # Errors
/// The directory, or one of `added`, cannot be used.
pub async fn scope(
    services: &SharedServices,
    session: &Session,
    config: &Config,
    of_shell: WorkShell<'_>,
    (added, helpers): (Vec<PathBuf>, HelperCatalog),
    prompt: Option<&str>,
) -> Result<WorkScope> {
    let of_daemon = paths::variable("HOME").map(PathBuf::from);
    let of_daemon = of_daemon.unwrap_or_default();
    let home = of_shell.env.get("HOME").map(PathBuf::from);
    let home = home.filter(|home| home.is_absolute());
    let home = home.unwrap_or_else(|| of_daemon.clone());
    let (dir, user_home) = (PathBuf::from(of_shell.cwd), home.clone());
    // On another thread: a hanging file system delays only this prompt.
    let open = move || Workspace::new(&dir, Some(&user_home), &added);
    let opened = tokio::task::spawn_blocking(open).await;
    let opened = opened.map_err(|e| Error::runtime(format!("cannot open the workspace: {e}")))?;
    let workspace = opened.map_err(|e| Error::usage(e.message))?;
    let helper = std::env::current_exe();
    let kept = KeptCopies {
        store: UndoStore::new(services.paths.undo()),
        prompt: prompt
            .filter(|_| !session.id.is_empty())
            .map(|prompt| (session.id.clone(), prompt.to_owned())),
    };
    let base = paths::child_environment(&["HOME", "USER", "LOGNAME", "SHELL", "PATH"]);
    let base = base
        .into_iter()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value));
    let own = of_shell.env.iter();
    let own = own.map(|(name, value)| (name.clone(), OsString::from(value)));
    let mut env: BTreeMap<String, OsString> = base.chain(own).collect();
    // The reader is not at a terminal: no pager, no colours that only cost tokens.
    for (name, value) in [
        ("TERM", "dumb"),
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
    ] {
        env.insert(name.to_owned(), value.into());
    }
    let sandbox = match config.tools.sandbox {
        SandboxSetting::Off => None,
        SandboxSetting::ReadOnly => Some(SandboxLevel::ReadOnly),
        SandboxSetting::Workspace => Some(SandboxLevel::Workspace),
    };
    let homes = vec![home.clone(), of_daemon];
    let holds = |home: &PathBuf| {
        let home = home.canonicalize().unwrap_or_else(|_| home.clone());
        workspace.roots().any(|root| home.starts_with(root))
    };
    let held_home = homes.iter().find(|home| holds(home)).cloned();
    // The sandbox makes no home directory writable.
    let is_reduced = sandbox == Some(SandboxLevel::Workspace) && held_home.is_some();
    let roots = workspace.roots().map(Path::to_owned).collect();
    let moved = moved_dirs(of_shell, &homes);
    Ok(WorkScope {
        home_files: Arc::new(HomeFiles::new(homes, moved, roots)),
        workspace,
        home: home.clone(),
        kept,
        read: session.read_files.clone(),
        by_hand: false,
        shell: ShellScope {
            home: held_home.unwrap_or(home),
            helper: helper.map_err(|e| Error::runtime(format!("cannot find aish-helper: {e}")))?,
            sandbox: match is_reduced {
                true => Some(SandboxLevel::ReadOnly),
                false => sandbox,
            },
            is_reduced,
            hidden: vec![
                services.paths.config.clone(),
                services.paths.data.clone(),
                services.paths.state.clone(),
                services.paths.run.clone(),
                services.paths.socket_dir.clone(),
            ],
            env,
        },
        search_url: config.tools.search_url.clone(),
        left_out: search_filter(services, of_shell.overrides),
        history: history_search(services),
        helpers: HelperScope {
            catalog: helpers,
            workers: services.helpers.workers.clone(),
            // A manual call has no session, and its own processes.
            session: match session.id.as_str() {
                "" => uuid::Uuid::now_v7().to_string(),
                id => id.to_owned(),
            },
        },
    })
}

/// Returns the directories that variables of the shell and of the daemon name, with what is below a home directory without them.
fn moved_dirs(shell: WorkShell<'_>, homes: &[PathBuf]) -> Vec<(PathBuf, &'static str)> {
    let mut dirs = Vec::new();
    for (variable, place) in [
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_STATE_HOME", ".local/state"),
    ] {
        let of_shell = shell.overrides.get(variable).map(PathBuf::from);
        let of_daemon = paths::variable(variable).map(PathBuf::from);
        let named = of_shell.into_iter().chain(of_daemon);
        let is_usual = |home: &PathBuf, dir: &PathBuf| dir == home || *dir == home.join(place);
        let is_moved = |dir: &PathBuf| !homes.iter().any(|home| is_usual(home, dir));
        let named = named.filter(|dir| dir.is_absolute() && is_moved(dir));
        dirs.extend(named.map(|dir| (dir, place)));
    }
    dirs
}

/// Returns all built-in tools and helpers.
pub async fn all_tools(services: &SharedServices) -> (Vec<ToolDefinition>, HelperCatalog) {
    let helpers = services.helpers.catalog(&services.paths).await;
    let selection = ToolSelection::Matching(vec!["*".to_owned()]);
    (SelectedTools::work_tools(&selection, &helpers), helpers)
}

/// Returns all built-in tools and helpers for a call outside of a session; `by_hand` if a person at a terminal makes it.
///
/// # Errors
/// The directory cannot be used.
pub async fn offer_all(
    services: &SharedServices,
    session: &Session,
    config: &Config,
    shell: WorkShell<'_>,
    by_hand: bool,
) -> Result<Arc<OfferedWork>> {
    let (offered, helpers) = all_tools(services).await;
    let place = (Vec::new(), helpers);
    let mut scope = scope(services, session, config, shell, place, None).await?;
    scope.by_hand = by_hand;
    Ok(Arc::new(OfferedWork {
        offered,
        scope: Arc::new(scope),
    }))
}

/// Returns the directories that the user has added to the workspace of the session, those of this prompt included.
async fn added_dirs(session: &Session, ask: &AskRequest) -> Result<Vec<PathBuf>> {
    let before = session.setting(ADDED_DIRS).unwrap_or_default();
    let mut dirs: Vec<String> = before.lines().map(str::to_owned).collect();
    for dir in &ask.add_dirs {
        // Relative to where the user typed it, not to the directory of a later prompt.
        let dir = Path::new(&ask.cwd).join(dir).display().to_string();
        if dir.contains('\n') {
            return Err(Error::usage(
                "--add-dir: the name of the directory has a line break",
            ));
        }
        // Before it is recorded: later prompts of the session would have no tools.
        let meta = tokio::fs::metadata(&dir).await;
        if !meta.is_ok_and(|meta| meta.is_dir()) {
            let error = Error::usage(format!(
                "--add-dir: {dir} is not a directory that can be read"
            ));
            return Err(error.hint("give an existing directory, such as --add-dir ../lib"));
        }
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    if !ask.add_dirs.is_empty() {
        let record_ids = RecordIds::default();
        let setting = RecordBody::SessionSetting {
            setting: ADDED_DIRS.to_owned(),
            value: Some(dirs.join("\n")),
        };
        session.record_written(&record_ids, setting).await?;
    }
    Ok(dirs.into_iter().map(PathBuf::from).collect())
}

fn search_filter(services: &SharedServices, overrides: &BTreeMap<String, String>) -> SearchFilter {
    let (paths, overrides) = (services.paths.clone(), overrides.clone());
    SearchFilter(Box::new(move || {
        own_files::search_filter(&paths, &overrides)
    }))
}

/// Maximum number of sessions that a search of the journal returns.
const FOUND_SESSIONS: usize = 20;

fn history_search(services: &SharedServices) -> HistorySearch {
    let journal = services.sessions.journal.clone();
    HistorySearch(Box::new(move |query| {
        let words = search_words(query);
        if words.is_empty() {
            return Err("the query has no words".to_owned());
        }
        let mut found = String::new();
        let mut count = 0;
        for file in journal.sessions().map_err(|e| e.message)? {
            if count == FOUND_SESSIONS {
                found.push_str("[more sessions have these words]\n");
                break;
            }
            // One file that cannot be read must not hide the others.
            if let Ok(Some(summary)) = journal.summary(&file.id, &words) {
                count += 1;
                found.push_str(&format!(
                    "session {} ({} prompts, begins with: {})\n  {}\n",
                    file.id, summary.prompts, summary.title, summary.excerpt
                ));
            }
        }
        match found.is_empty() {
            true => Ok("no session has all of these words".to_owned()),
            false => Ok(found),
        }
    }))
}
