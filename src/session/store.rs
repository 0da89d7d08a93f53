//! The session store: open sessions, the session of each shell, and proposed commands that wait for a decision.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

mod proposals;

use self::proposals::ProposalQueue;
pub use self::proposals::WaitingCommand;
use super::changes::SessionChanges;
use super::conversation::{Session, SharedSession};
use super::{is_alive, lock};
use crate::error::{Error, Result};
use crate::history::journal::{Journal, now_ms};
use crate::history::record::{RecordBody, RecordIds};
use crate::paths;
use crate::protocol::{SessionChoice, ShellId};

/// Sessions in memory.
#[derive(Debug, Default)]
struct OpenSessions {
    sessions: HashMap<String, SharedSession>,
    /// Held while the file of a session is read. A load repairs the file, so there must be only one at a time.
    loading: HashMap<String, Weak<tokio::sync::Mutex<()>>>,
}

/// Session id of each shell, and the time it was set.
type ShellSessions = HashMap<ShellId, (String, Instant)>;

/// All open sessions, and the session of each shell.
#[derive(Debug)]
pub struct SessionStore {
    /// The journal that holds the sessions' files.
    pub journal: Journal,
    /// Wakes the watchers of all sessions.
    pub changes: SessionChanges,
    /// Directory with one file per shell that holds its session id, so that a shell keeps its session after a restart.
    shells_dir: PathBuf,
    /// The same assignments in memory. They take precedence: a file may not be writable.
    shell_sessions: Arc<Mutex<ShellSessions>>,
    /// Held while the file of a shell is written.
    shell_file_writes: Arc<Mutex<()>>,
    open: Mutex<OpenSessions>,
    waiting: Mutex<HashMap<ShellId, ProposalQueue>>,
}

/// Number of open sessions above which unused ones are closed.
const MAX_UNUSED: usize = 8;
/// Days after which the session file of a shell is removed.
const SHELL_DAYS: u64 = 60;
/// How long a shell whose id contains no process id counts as alive.
const SCRIPT_LIFETIME: Duration = Duration::from_secs(86_400);
/// Maximum size of a shell's session file, in bytes. A session id has 36.
const MAX_SHELL_FILE: u64 = 64;

impl SessionStore {
    /// Creates a store without open sessions. `shells_dir` holds the session file of each shell.
    pub fn new(journal: Journal, shells_dir: PathBuf) -> SessionStore {
        SessionStore {
            journal,
            changes: SessionChanges::default(),
            shells_dir,
            shell_sessions: Arc::default(),
            shell_file_writes: Arc::default(),
            open: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// Returns the session for a prompt, creating one if needed, and makes it the session of the shell.
    ///
    /// # Errors
    /// There is no session to continue or attach to, or its file cannot be read.
    pub async fn choose(
        &self,
        choice: &SessionChoice,
        shell: Option<&ShellId>,
        record_ids: &RecordIds,
    ) -> Result<SharedSession> {
        let id = match choice {
            SessionChoice::Shell => match shell.and_then(|s| self.session_for_shell(s)) {
                Some(id) => id,
                None => return Ok(self.create(shell, record_ids)),
            },
            SessionChoice::New => return Ok(self.create(shell, record_ids)),
            SessionChoice::Continue => {
                let journal = self.journal.clone();
                let sessions = off_thread(move || journal.sessions()).await?;
                let last = sessions.first().ok_or_else(|| {
                    Error::usage("there is no session to continue").hint("leave out -c")
                })?;
                last.id.clone()
            }
            SessionChoice::Attach(wanted) => self.find(wanted).await?,
        };
        let session = match self.get(&id).await {
            Ok(session) => session,
            // The user deleted the session's file: the shell starts a new session.
            Err(e) => {
                return match *choice == SessionChoice::Shell && self.find(&id).await.is_err() {
                    true => Ok(self.create(shell, record_ids)),
                    false => Err(e),
                };
            }
        };
        if let Some(shell) = shell
            && self.session_for_shell(shell).as_deref() != Some(&id)
        {
            self.attach(shell, &id);
            // If this write fails, so does that of the prompt, which is reported.
            let attached = RecordBody::Attached {
                shell: shell.to_string(),
            };
            let _ = session.record(record_ids, attached);
        }
        Ok(session)
    }

    /// Creates a session and makes it the session of the shell. If its file cannot be created, the session is kept in
    /// memory, so that prompts are answered even when the disk is full.
    pub fn create(&self, shell: Option<&ShellId>, record_ids: &RecordIds) -> SharedSession {
        let id = uuid::Uuid::now_v7().to_string();
        let session = Session::new(
            id.clone(),
            self.journal.create(&id),
            Vec::new(),
            &self.changes,
        );
        // If this write fails, so does that of the prompt, which is reported.
        let begun = RecordBody::Session {
            session: id.clone(),
            shell: shell.map(ShellId::to_string),
        };
        let _ = session.record(record_ids, begun);
        add_open(&mut lock(&self.open).sessions, id.clone(), &session);
        if let Some(shell) = shell {
            self.attach(shell, &id);
        }
        session
    }

    /// Returns the id of the session that contains `wanted`. A session without a file is found only by its full id.
    ///
    /// # Errors
    /// No session or more than one matches.
    pub async fn find(&self, wanted: &str) -> Result<String> {
        if lock(&self.open).sessions.contains_key(wanted) {
            return Ok(wanted.to_string());
        }
        let (journal, wanted) = (self.journal.clone(), wanted.to_owned());
        off_thread(move || journal.find(&wanted)).await
    }

    /// Returns the session with this id, from memory or from its file.
    ///
    /// # Errors
    /// The file does not exist or cannot be read.
    pub async fn get(&self, id: &str) -> Result<SharedSession> {
        let loading = {
            let mut open = lock(&self.open);
            if let Some(session) = open.sessions.get(id) {
                return Ok(session.clone());
            }
            open.loading.retain(|_, loading| loading.strong_count() > 0);
            match open.loading.get(id).and_then(Weak::upgrade) {
                Some(loading) => loading,
                None => {
                    let loading = Arc::default();
                    open.loading.insert(id.to_owned(), Arc::downgrade(&loading));
                    loading
                }
            }
        };
        let guard = loading.lock_owned().await;
        if let Some(session) = lock(&self.open).sessions.get(id) {
            return Ok(session.clone());
        }
        // On another thread and without the lock of the open sessions: parsing a long journal delays no other session.
        let (journal, name) = (self.journal.clone(), id.to_owned());
        let load = off_thread(move || {
            let loaded = journal.open(&name)?;
            // The guard moves with the load: if this request is cancelled, the next one still waits for the repair.
            Ok((loaded, guard))
        });
        let ((log, records), _guard) = load.await?;
        let mut open = lock(&self.open);
        let session = Session::new(id.to_string(), Ok(log), records, &self.changes);
        add_open(&mut open.sessions, id.to_string(), &session);
        Ok(session)
    }

    /// Returns the open sessions. Only these can have grants.
    pub fn open(&self) -> Vec<SharedSession> {
        lock(&self.open).sessions.values().cloned().collect()
    }

    /// Returns the session with this id if it is open.
    pub fn opened(&self, id: &str) -> Option<SharedSession> {
        lock(&self.open).sessions.get(id).cloned()
    }

    /// Returns the id of a shell's session.
    pub fn session_for_shell(&self, shell: &ShellId) -> Option<String> {
        if let Some((id, _)) = lock(&self.shell_sessions).get(shell) {
            return Some(id.clone());
        }
        let id = read_shell_file(&self.shells_dir.join(shell.as_str()))?;
        // An edited file must not lead to another path.
        uuid::Uuid::parse_str(id.trim()).ok().map(|u| u.to_string())
    }

    /// Sets the session of a shell in memory and starts writing it to the shell's file. The prompt does not wait for the
    /// disk; [`SessionStore::shell_file_written`] does.
    fn attach(&self, shell: &ShellId, id: &str) {
        lock(&self.shell_sessions).insert(shell.clone(), (id.to_string(), Instant::now()));
        let write = self.write_shell_file(shell);
        drop(tokio::task::spawn_blocking(write));
    }

    /// Waits until the session of a shell is in the shell's file: for a request that only sets the session.
    pub async fn shell_file_written(&self, shell: &ShellId) {
        let write = self.write_shell_file(shell);
        // A failure is logged by the write.
        let _ = tokio::task::spawn_blocking(write).await;
    }

    /// Returns a blocking write of the session of a shell to the shell's file.
    fn write_shell_file(&self, shell: &ShellId) -> impl FnOnce() + Send + 'static {
        let (sessions, writes) = (self.shell_sessions.clone(), self.shell_file_writes.clone());
        let (dir, shell) = (self.shells_dir.clone(), shell.clone());
        move || {
            let _writing = lock(&writes);
            // The current session: whichever of two writes comes last, it writes the last assignment.
            let current = lock(&sessions).get(&shell).map(|(id, _)| id.clone());
            let Some(id) = current else { return };
            let path = dir.join(shell.as_str());
            if read_shell_file(&path).as_deref() == Some(&id) {
                return;
            }
            let written =
                paths::make_dir(&dir).and_then(|()| paths::replace_file(&path, id.as_bytes()));
            if let Err(e) = written {
                tracing::warn!(
                    "a shell loses its session at the next restart: {}",
                    e.message
                );
            }
        }
    }

    /// Returns the ids of the sessions in use: open in this daemon, or the session of a shell that may still be running.
    pub fn in_use(&self) -> HashSet<String> {
        let mut ids: HashSet<String> = lock(&self.open).sessions.keys().cloned().collect();
        let attached = lock(&self.shell_sessions).clone();
        let alive = attached
            .into_iter()
            .filter(|(shell, (_, since))| may_live(shell, Some(since.elapsed())));
        ids.extend(alive.map(|(_, (id, _))| id));
        let entries = fs::read_dir(&self.shells_dir)
            .into_iter()
            .flatten()
            .flatten();
        ids.extend(entries.filter_map(|entry| {
            let age = entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            let name = entry.file_name();
            let shell = ShellId::parse(name.to_str()?).ok()?;
            may_live(&shell, age).then(|| self.session_for_shell(&shell))?
        }));
        ids
    }

    /// Removes the file of a session that was last written at `updated_ms`. Returns false if the session was opened or
    /// written since.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, id: &str, updated_ms: u64) -> Result<bool> {
        // Held until the file is removed, so that no request opens it meanwhile.
        let open = lock(&self.open);
        let in_use = open.sessions.contains_key(id)
            || open.loading.get(id).is_some_and(|l| l.strong_count() > 0);
        Ok(!in_use && self.journal.remove(id, updated_ms)?)
    }

    /// Deletes a session, open or not, with its commands that wait for a decision.
    ///
    /// # Errors
    /// A request uses the session, or its file cannot be removed.
    pub fn delete(&self, id: &str) -> Result<()> {
        // Held until the file is removed, so that no request opens it meanwhile.
        let mut open = lock(&self.open);
        check_unused(&open, id)?;
        self.journal.delete(id)?;
        open.sessions.remove(id);
        for queue in lock(&self.waiting).values_mut() {
            queue.commands.retain(|w| w.session != id);
        }
        drop(open);
        self.changes.announce();
        Ok(())
    }

    /// Checks that a session can be deleted.
    ///
    /// # Errors
    /// A request uses the session.
    pub fn check_unused(&self, id: &str) -> Result<()> {
        check_unused(&lock(&self.open), id)
    }

    /// Drops the state of shells that have ended, removes old session files of shells, and closes unused sessions.
    pub fn tidy(&self) {
        close_unused(&mut lock(&self.open).sessions);
        // The file stays, so that the session is found again if the shell still runs.
        lock(&self.shell_sessions)
            .retain(|shell, (_, since)| may_live(shell, Some(since.elapsed())));
        // Judged by the shell, not by `shell_sessions`: after a restart a session may be known from its file alone.
        lock(&self.waiting).retain(|shell, queue| {
            !queue.commands.is_empty() && may_live(shell, Some(queue.offered.elapsed()))
        });
        let Ok(entries) = fs::read_dir(&self.shells_dir) else {
            return;
        };
        for entry in entries.flatten() {
            let age = entry
                .metadata()
                .ok()
                .and_then(|m| m.modified().ok()?.elapsed().ok());
            if age.is_some_and(|a| a.as_secs() > SHELL_DAYS * 86_400) {
                // A failure is retried by the next call.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn check_unused(open: &OpenSessions, id: &str) -> Result<()> {
    let used = open.sessions.get(id).filter(|s| Arc::strong_count(s) > 1);
    let loads = open.loading.get(id).is_some_and(|l| l.strong_count() > 0);
    if used.is_none() && !loads {
        return Ok(());
    }
    let has_turn = used.is_some_and(|s| s.hub.running().is_some() || !s.hub.waiting().is_empty());
    let (user, hint) = match has_turn {
        true => (
            "an answer is running",
            "wait for the answer or cancel it, then delete the session",
        ),
        false => ("another request uses it", "delete the session again"),
    };
    let message = format!("session {} is in use: {user}", super::short_id(id));
    Err(Error::usage(message).hint(hint))
}

/// Reads the session file of a shell. Anything but a small file of aish's own is ignored.
fn read_shell_file(path: &Path) -> Option<String> {
    let file = paths::read_own(path).ok()?;
    if file.metadata().ok()?.len() > MAX_SHELL_FILE {
        return None;
    }
    let mut id = String::new();
    file.take(MAX_SHELL_FILE).read_to_string(&mut id).ok()?;
    Some(id)
}

/// Whether the shell may still be running. Plugin shell ids contain the process id; others count as alive for a day.
fn may_live(shell: &ShellId, age: Option<Duration>) -> bool {
    match shell.pid() {
        Some(pid) => is_alive(pid),
        None => age.is_none_or(|age| age < SCRIPT_LIFETIME),
    }
}

/// Runs file IO on another thread.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Error::runtime(format!("a file operation failed: {e}"))))
}

/// Adds an open session. Above the limit, unused sessions are closed first, so that memory stays bounded.
fn add_open(open: &mut HashMap<String, SharedSession>, id: String, session: &SharedSession) {
    if open.len() >= MAX_UNUSED {
        close_unused(open);
    }
    open.insert(id, session.clone());
}

/// Closes sessions that are unused and can be read again: those with a file and without grants in force.
fn close_unused(open: &mut HashMap<String, SharedSession>) {
    let now = now_ms();
    let has_grants = |s: &SharedSession| {
        let mut grants = lock(&s.grants);
        grants.expire(now);
        !grants.is_empty()
    };
    // `|`, not `||`: expired grants are removed from every session.
    let in_memory = |s: &SharedSession| has_grants(s) | lock(&s.kept).log.is_err();
    open.retain(|_, s| in_memory(s) || Arc::strong_count(s) > 1);
}

#[cfg(test)]
mod tests;
