//! The store of sessions: which are open, which shell is in which, and which commands wait for a decision.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::conversation::{Session, SharedSession};
use super::{is_alive, lock};
use crate::error::{Error, Result};
use crate::history::journal::{Journal, now_ms};
use crate::history::record::{RecordBody, RecordIds};
use crate::paths;
use crate::protocol::{SessionChoice, ShellId};

/// A command that waits for a person's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCommand {
    /// Names it.
    pub token: String,
    /// The command.
    pub command: String,
    /// Which of its answer's, from 1.
    pub number: usize,
    /// How many its answer made.
    pub of: usize,
    /// The session of the answer.
    pub session: String,
    /// What the answer belongs to.
    pub links: RecordIds,
}

/// Sessions in memory.
#[derive(Debug, Default)]
struct OpenSessions {
    sessions: HashMap<String, SharedSession>,
    /// Ids of sessions whose files are being read.
    loading: Vec<String>,
}

/// All open sessions and the shells in them.
#[derive(Debug)]
pub struct SessionStore {
    /// The journal they are kept in.
    pub journal: Journal,
    /// A file a shell, which holds its session's id: so a shell finds it after a restart.
    shells: PathBuf,
    /// The same, as far as this daemon knows it: what holds when that file cannot be written.
    attached: Mutex<HashMap<ShellId, (String, Instant)>>,
    open: Mutex<OpenSessions>,
    waiting: Mutex<HashMap<ShellId, VecDeque<WaitingCommand>>>,
}

/// So many sessions may stay open without being used.
const KEPT: usize = 8;
/// How long a shell that was not seen keeps its session.
const SHELL_DAYS: u64 = 60;
/// How long one of a name that says nothing of its process is taken to live.
const SCRIPT: Duration = Duration::from_secs(86_400);

impl SessionStore {
    /// The sessions of the journal; none is opened yet.
    pub fn new(journal: Journal, shells: PathBuf) -> SessionStore {
        SessionStore {
            journal,
            shells,
            attached: Mutex::default(),
            open: Mutex::default(),
            waiting: Mutex::default(),
        }
    }

    /// The session a prompt goes to.
    ///
    /// # Errors
    /// There is none to continue or attach to, or its file cannot be made or read.
    pub async fn choose(
        &self,
        choice: &SessionChoice,
        shell: Option<&ShellId>,
        links: &RecordIds,
    ) -> Result<SharedSession> {
        let id = match choice {
            SessionChoice::Shell => match shell.and_then(|s| self.session_for_shell(s)) {
                Some(id) => id,
                None => return Ok(self.create(shell, links)),
            },
            SessionChoice::New => return Ok(self.create(shell, links)),
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
            // The shell's own file was deleted by hand: that is a wish to begin anew.
            Err(e) => {
                return match *choice == SessionChoice::Shell && self.find(&id).await.is_err() {
                    true => Ok(self.create(shell, links)),
                    false => Err(e),
                };
            }
        };
        if let Some(shell) = shell
            && self.session_for_shell(shell).as_deref() != Some(&id)
        {
            self.attach(shell, &id);
            // The prompt that comes next says that nothing can be recorded.
            let attached = RecordBody::Attached {
                shell: shell.to_string(),
            };
            let _ = session.record(links, attached);
        }
        Ok(session)
    }

    /// A fresh session, the shell's own from now on. Where its file cannot be made it lives in memory:
    /// a full disk keeps nobody from an answer.
    pub fn create(&self, shell: Option<&ShellId>, links: &RecordIds) -> SharedSession {
        let id = uuid::Uuid::now_v7().to_string();
        let session = Session::new(id.clone(), self.journal.create(&id), Vec::new());
        // The prompt that comes next says that nothing can be recorded.
        let begun = RecordBody::Session {
            session: id.clone(),
            shell: shell.map(ShellId::to_string),
        };
        let _ = session.record(links, begun);
        if let Some(shell) = shell {
            self.attach(shell, &id);
        }
        keep(&mut lock(&self.open).sessions, id, &session);
        session
    }

    /// The id that has the unique part `wanted`. A session that could not be written is found by its
    /// whole id.
    ///
    /// # Errors
    /// None or several fit.
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
        {
            let mut open = lock(&self.open);
            if let Some(session) = open.sessions.get(id) {
                return Ok(session.clone());
            }
            open.loading.push(id.to_owned());
        }
        // A long journal is parsed on another thread, and without the lock: no other session waits for it.
        let (journal, name) = (self.journal.clone(), id.to_owned());
        let loaded = off_thread(move || journal.open(&name)).await;
        let mut open = lock(&self.open);
        if let Some(at) = open.loading.iter().position(|loading| loading == id) {
            open.loading.swap_remove(at);
        }
        let (log, records) = loaded?;
        // Another request may have loaded it meanwhile.
        if let Some(session) = open.sessions.get(id) {
            return Ok(session.clone());
        }
        let session = Session::new(id.to_string(), Ok(log), records);
        keep(&mut open.sessions, id.to_string(), &session);
        Ok(session)
    }

    /// The sessions that are open: what a person has granted is in no other.
    pub fn open(&self) -> Vec<SharedSession> {
        lock(&self.open).sessions.values().cloned().collect()
    }

    /// The id of a shell's session.
    pub fn session_for_shell(&self, shell: &ShellId) -> Option<String> {
        if let Some((id, _)) = lock(&self.attached).get(shell) {
            return Some(id.clone());
        }
        let id = fs::read_to_string(self.shells.join(shell.as_str())).ok()?;
        // A file that somebody edited must not name a path.
        uuid::Uuid::parse_str(id.trim()).ok().map(|u| u.to_string())
    }

    fn attach(&self, shell: &ShellId, id: &str) {
        lock(&self.attached).insert(shell.clone(), (id.to_string(), Instant::now()));
        let path = self.shells.join(shell.as_str());
        let written =
            paths::make_dir(&self.shells).and_then(|()| paths::replace_file(&path, id.as_bytes()));
        if let Err(e) = written {
            tracing::warn!(
                "a restart will part a shell from its session: {}",
                e.message
            );
        }
    }

    /// The conversations that are open: this daemon has them in memory, or a shell that may live goes on in them.
    pub fn in_use(&self) -> HashSet<String> {
        let mut ids: HashSet<String> = lock(&self.open).sessions.keys().cloned().collect();
        let attached = lock(&self.attached).clone();
        let alive = attached
            .into_iter()
            .filter(|(shell, (_, since))| may_live(shell, Some(since.elapsed())));
        ids.extend(alive.map(|(_, (id, _))| id));
        let entries = fs::read_dir(&self.shells).into_iter().flatten().flatten();
        ids.extend(entries.filter_map(|entry| {
            let age = entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            let name = entry.file_name();
            let shell = ShellId::parse(name.to_str()?).ok()?;
            may_live(&shell, age).then(|| self.session_for_shell(&shell))?
        }));
        ids
    }

    /// Removes the file of a conversation that was last written then. False where it was opened or written meanwhile.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn remove(&self, id: &str, updated_ms: u64) -> Result<bool> {
        // Held to the end: nobody opens what is about to go.
        let open = lock(&self.open);
        let in_use = open.sessions.contains_key(id) || open.loading.iter().any(|l| l == id);
        Ok(!in_use && self.journal.remove(id, updated_ms)?)
    }

    /// Forgets shells that are long gone, and closes sessions that nobody uses.
    pub fn tidy(&self) {
        close_unused(&mut lock(&self.open).sessions);
        // The file of a shell stays: it finds its session again.
        let mut attached = lock(&self.attached);
        attached.retain(|shell, (_, since)| may_live(shell, Some(since.elapsed())));
        lock(&self.waiting).retain(|shell, _| attached.contains_key(shell));
        drop(attached);
        let Ok(entries) = fs::read_dir(&self.shells) else {
            return;
        };
        for entry in entries.flatten() {
            let age = entry
                .metadata()
                .ok()
                .and_then(|m| m.modified().ok()?.elapsed().ok());
            if age.is_some_and(|a| a.as_secs() > SHELL_DAYS * 86_400) {
                // It is tried again at the next tidying.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Offers the commands of an answer to the shell; what waited before is dropped.
    pub fn offer(&self, shell: &ShellId, session: &str, links: &RecordIds, commands: Vec<String>) {
        let of = commands.len();
        let waiting = commands
            .into_iter()
            .enumerate()
            .map(|(at, command)| WaitingCommand {
                token: uuid::Uuid::now_v7().to_string(),
                command,
                number: at + 1,
                of,
                session: session.to_string(),
                links: links.clone(),
            })
            .collect();
        lock(&self.waiting).insert(shell.clone(), waiting);
    }

    /// Returns how many commands of a session wait for a decision in this shell.
    pub fn waiting(&self, shell: &ShellId, session: &str) -> usize {
        let waiting = lock(&self.waiting);
        let queue = waiting.get(shell);
        queue.map_or(0, |q| q.iter().filter(|w| w.session == session).count())
    }

    /// The next command that waits for the word of this shell's person.
    pub fn next_waiting(&self, shell: &ShellId) -> Option<WaitingCommand> {
        lock(&self.waiting).get(shell)?.front().cloned()
    }

    /// Takes a command that was decided; `all` takes the rest too.
    ///
    /// # Errors
    /// It is not the one that waits: decided already, or another answer came.
    pub fn take_waiting(&self, shell: &ShellId, token: &str, all: bool) -> Result<WaitingCommand> {
        let mut map = lock(&self.waiting);
        let queue = map.get_mut(shell);
        let taken = queue.and_then(|q| {
            let front = q.front().filter(|w| w.token == token).cloned()?;
            if all {
                q.clear();
            } else {
                q.pop_front();
            }
            Some(front)
        });
        taken.ok_or_else(|| {
            Error::runtime(
                "this proposal is no longer waiting: it was decided, or another answer came",
            )
        })
    }
}

/// Whether a shell may still be there. The plugin names a shell after its process; of another name it is only known
/// how long ago it took its session.
fn may_live(shell: &ShellId, age: Option<Duration>) -> bool {
    match shell.pid() {
        Some(pid) => is_alive(pid),
        None => age.is_none_or(|age| age < SCRIPT),
    }
}

/// Runs file IO on another thread.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(Error::runtime(format!("cannot read the journal: {e}"))))
}

/// Adds an open session. Where there are many, those that nobody uses are closed before, so that
/// memory does not grow with the number of conversations.
fn keep(open: &mut HashMap<String, SharedSession>, id: String, session: &SharedSession) {
    if open.len() >= KEPT {
        close_unused(open);
    }
    open.insert(id, session.clone());
}

/// Closes what nobody uses and what is in its file: it can be read again. What a person has allowed cannot, as long as it
/// holds.
fn close_unused(open: &mut HashMap<String, SharedSession>) {
    let now = now_ms();
    let allows = |s: &SharedSession| {
        let mut grants = lock(&s.grants);
        grants.expire(now);
        !grants.is_empty()
    };
    // Both are looked at: what has expired goes wherever it is.
    let in_memory = |s: &SharedSession| allows(s) | lock(&s.kept).log.is_err();
    open.retain(|_, s| in_memory(s) || Arc::strong_count(s) > 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::policy::{ApprovalScope, CallRequest, ExactCall, GRANT_TTL_MS, approve};

    #[tokio::test]
    async fn a_session_stays_open_for_a_grant_as_long_as_that_holds() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Journal::new(dir.path().join("history"));
        let sessions = SessionStore::new(journal, dir.path().join("shells"));
        let given = |at_ms| {
            let session = sessions.create(None, &RecordIds::default());
            let call = ExactCall {
                server: "fs",
                tool: "read",
                identity: "",
                arguments: "{}",
            };
            let mut grants = lock(&session.grants);
            approve(
                &CallRequest::new(call),
                ApprovalScope::Tool,
                [],
                &mut grants,
                at_ms,
                "",
            );
            session.id.clone()
        };
        let (_long_ago, now) = (given(now_ms() - GRANT_TTL_MS), given(now_ms()));
        let used = sessions.get(&given(1)).await.expect("the session");
        sessions.tidy();
        let open: HashSet<String> = sessions.open().iter().map(|s| s.id.clone()).collect();
        assert_eq!(open, HashSet::from([now, used.id.clone()]));
        assert!(lock(&used.grants).is_empty());
    }
}
