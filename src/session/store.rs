//! Sessions: a conversation with its journal file, and which shell is in which.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::feed::SessionHub;
use super::{is_alive, lock};
use crate::error::{Context, Error, Result};
use crate::history::journal::{Journal, Log, fresh, now_ms};
use crate::history::record::{Body, Links, Record};
use crate::paths;
use crate::protocol::{SessionChoice, ShellId};
use crate::safety::policy::Grants;

/// A conversation: records that anyone may add to, and a lock for turns, of which there is one at a time.
#[derive(Debug)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Held for a whole turn.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The feed of the running turn.
    pub hub: SessionHub,
    /// Held for one look or one write: a decision does not wait for another shell's answer.
    kept: Mutex<Kept>,
    /// The tools that the person has allowed for this session. In memory alone: a new daemon asks again.
    pub grants: Mutex<Grants>,
    /// The MCP servers that it goes without, and why, as it was told last.
    without: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug)]
struct Kept {
    /// Its file, or why it has none.
    log: Result<Arc<Log>>,
    /// All its records, in order. What could not be written is here all the same.
    records: Vec<Record>,
}

impl Session {
    fn new(id: String, log: Result<Log>, records: Vec<Record>) -> Shared {
        Arc::new(Session {
            id,
            turn: Arc::default(),
            hub: SessionHub::default(),
            kept: Mutex::new(Kept {
                log: log.map(Arc::new),
                records,
            }),
            grants: Mutex::default(),
            without: Mutex::default(),
        })
    }

    /// What is done outside of conversations, and recorded in this file. It has no id, and what a person grants here ends
    /// with it.
    pub fn outside(log: Result<Arc<Log>>) -> Shared {
        let session = Session::new(String::new(), Err(Error::runtime("")), Vec::new());
        lock(&session.kept).log = log;
        session
    }

    /// The lock that a turn holds.
    pub fn turn(&self) -> Arc<tokio::sync::Mutex<()>> {
        self.turn.clone()
    }

    /// Keeps and writes one record.
    ///
    /// # Errors
    /// It could not be written; it is kept in memory.
    pub fn record(&self, links: &Links, body: Body) -> Result<()> {
        self.record_all(links, [body])
    }

    /// Keeps and writes these records, all with one write.
    ///
    /// # Errors
    /// They could not be written; they are kept in memory.
    pub fn record_all(&self, links: &Links, bodies: impl IntoIterator<Item = Body>) -> Result<()> {
        let links = Links {
            session: Some(self.id.clone()).filter(|id| !id.is_empty()),
            ..links.clone()
        };
        let mut kept = lock(&self.kept);
        let Kept { log, records } = &mut *kept;
        let start = records.len();
        records.extend(bodies.into_iter().map(|body| fresh(links.clone(), body)));
        let log = log.as_ref().map_err(Clone::clone)?;
        log.write(&records[start..])
    }

    /// A handle to sync with, away from the hot path.
    ///
    /// # Errors
    /// It has no file.
    pub fn log_handle(&self) -> Result<Arc<Log>> {
        let kept = lock(&self.kept);
        kept.log.as_ref().map_err(Clone::clone).cloned()
    }

    /// Puts what was recorded on the disk, off the hot path: the client has its reply already.
    pub fn sync_later(&self, tasks: &TaskTracker) {
        if let Ok(log) = self.log_handle() {
            tasks.spawn_blocking(move || {
                if let Err(e) = log.sync() {
                    tracing::warn!("{}", e.message);
                }
            });
        }
    }

    /// Looks at the records.
    pub fn with_records<T>(&self, look: impl FnOnce(&[Record]) -> T) -> T {
        look(&lock(&self.kept).records)
    }

    /// The model that was chosen for this session last.
    pub fn model(&self) -> Option<String> {
        self.with_records(|records| {
            records.iter().rev().find_map(|r| match &r.body {
                Body::Model { model } => Some(model.clone()),
                _ => None,
            })
        })
    }

    /// What is new of the MCP servers that it goes without now: alias and reason.
    pub fn goes_without(&self, now: &[(String, String)]) -> Vec<(String, String)> {
        let now: BTreeMap<_, _> = now.iter().cloned().collect();
        let told = std::mem::replace(&mut *lock(&self.without), now.clone());
        let mut news = now;
        news.retain(|alias, why| told.get(alias) != Some(why));
        news.into_iter().collect()
    }

    /// When this shell's last prompt in this session came, milliseconds since 1970: the model was
    /// told of what the shell had done until then.
    pub fn told_ms(&self, shell: &ShellId) -> u64 {
        let of_shell = |r: &&Record| matches!(&r.body, Body::User { shell: Some(s), .. } if s == shell.as_str());
        self.with_records(|records| records.iter().rev().find(of_shell).map_or(0, |r| r.at_ms))
    }
}

/// The records since the last prompt.
pub fn since_last_prompt(records: &[Record]) -> &[Record] {
    let start = records
        .iter()
        .rposition(|r| matches!(r.body, Body::User { .. }))
        .map_or(0, |at| at + 1);
    &records[start..]
}

/// A session that tasks share.
pub type Shared = Arc<Session>;

/// A command that waits for a person's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
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
    pub links: Links,
}

/// All open sessions and the shells in them.
#[derive(Debug)]
pub struct Sessions {
    /// The journal they are kept in.
    pub journal: Journal,
    /// A file a shell, which holds its session's id: so a shell finds it after a restart.
    shells: PathBuf,
    /// The same, as far as this daemon knows it: what holds when that file cannot be written.
    attached: Mutex<HashMap<ShellId, String>>,
    open: Mutex<HashMap<String, Shared>>,
    waiting: Mutex<HashMap<ShellId, VecDeque<Waiting>>>,
}

/// So many sessions may stay open without being used.
const KEPT: usize = 8;
/// How long a shell that was not seen keeps its session.
const SHELL_DAYS: u64 = 60;
/// How long one of a name that says nothing of its process is taken to live.
const SCRIPT: Duration = Duration::from_secs(86_400);

impl Sessions {
    /// The sessions of the journal; none is opened yet.
    pub fn new(journal: Journal, shells: PathBuf) -> Sessions {
        Sessions {
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
    pub fn choose(
        &self,
        choice: &SessionChoice,
        shell: Option<&ShellId>,
        links: &Links,
    ) -> Result<Shared> {
        let id = match choice {
            SessionChoice::Shell => match shell.and_then(|s| self.of_shell(s)) {
                Some(id) => id,
                None => return Ok(self.create(shell, links)),
            },
            SessionChoice::New => return Ok(self.create(shell, links)),
            SessionChoice::Continue => {
                let sessions = self.journal.sessions()?;
                let last = sessions.first().ok_or_else(|| {
                    Error::usage("there is no session to continue").hint("leave out -c")
                })?;
                last.id.clone()
            }
            SessionChoice::Attach(wanted) => self.find(wanted)?,
        };
        let session = match self.get(&id) {
            Ok(session) => session,
            // The shell's own file was deleted by hand: that is a wish to begin anew.
            Err(_) if *choice == SessionChoice::Shell && self.journal.find(&id).is_err() => {
                return Ok(self.create(shell, links));
            }
            Err(e) => return Err(e),
        };
        if let Some(shell) = shell
            && self.of_shell(shell).as_deref() != Some(&id)
        {
            self.attach(shell, &id);
            // The prompt that comes next says that nothing can be recorded.
            let attached = Body::Attached {
                shell: shell.to_string(),
            };
            let _ = session.record(links, attached);
        }
        Ok(session)
    }

    /// A fresh session, the shell's own from now on. Where its file cannot be made it lives in memory:
    /// a full disk keeps nobody from an answer.
    pub fn create(&self, shell: Option<&ShellId>, links: &Links) -> Shared {
        let id = uuid::Uuid::now_v7().to_string();
        let session = Session::new(id.clone(), self.journal.create(&id), Vec::new());
        // The prompt that comes next says that nothing can be recorded.
        let begun = Body::Session {
            session: id.clone(),
            shell: shell.map(ShellId::to_string),
        };
        let _ = session.record(links, begun);
        if let Some(shell) = shell {
            self.attach(shell, &id);
        }
        keep(&mut lock(&self.open), id, &session);
        session
    }

    /// The id that has the unique part `wanted`. A session that could not be written is found by its
    /// whole id.
    ///
    /// # Errors
    /// None or several fit.
    pub fn find(&self, wanted: &str) -> Result<String> {
        if lock(&self.open).contains_key(wanted) {
            return Ok(wanted.to_string());
        }
        self.journal.find(wanted)
    }

    /// The session with this id, from memory or from its file.
    ///
    /// # Errors
    /// Its file is not there or cannot be read.
    pub fn get(&self, id: &str) -> Result<Shared> {
        let mut open = lock(&self.open);
        if let Some(session) = open.get(id) {
            return Ok(session.clone());
        }
        let (log, records) = self.journal.open(id)?;
        let session = Session::new(id.to_string(), Ok(log), records);
        keep(&mut open, id.to_string(), &session);
        Ok(session)
    }

    /// The sessions that are open: what a person has granted is in no other.
    pub fn open(&self) -> Vec<Shared> {
        lock(&self.open).values().cloned().collect()
    }

    /// The id of a shell's session.
    pub fn of_shell(&self, shell: &ShellId) -> Option<String> {
        if let Some(id) = lock(&self.attached).get(shell) {
            return Some(id.clone());
        }
        let id = fs::read_to_string(self.shells.join(shell.as_str())).ok()?;
        // A file that somebody edited must not name a path.
        uuid::Uuid::parse_str(id.trim()).ok().map(|u| u.to_string())
    }

    fn attach(&self, shell: &ShellId, id: &str) {
        lock(&self.attached).insert(shell.clone(), id.to_string());
        let path = self.shells.join(shell.as_str());
        let temporary = self.shells.join(format!("{shell}.new"));
        let written = paths::make_dir(&self.shells).and_then(|()| {
            let mut options = fs::OpenOptions::new();
            options.write(true).create(true).truncate(true).mode(0o600);
            options
                .open(&temporary)
                .and_then(|mut file| file.write_all(id.as_bytes()))
                .and_then(|()| fs::rename(&temporary, &path))
                .context(|| format!("cannot write {}", path.display()))
        });
        if let Err(e) = written {
            tracing::warn!(
                "a restart will part a shell from its session: {}",
                e.message
            );
        }
    }

    /// The conversations that are open: this daemon has them in memory, or a shell that may live goes on in them.
    pub fn in_use(&self) -> HashSet<String> {
        let mut ids: HashSet<String> = lock(&self.open).keys().cloned().collect();
        let attached = lock(&self.attached).clone();
        let alive = attached
            .into_iter()
            .filter(|(shell, _)| may_live(shell, None));
        ids.extend(alive.map(|(_, id)| id));
        let entries = fs::read_dir(&self.shells).into_iter().flatten().flatten();
        ids.extend(entries.filter_map(|entry| {
            let age = entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            let name = entry.file_name();
            let shell = ShellId::parse(name.to_str()?).ok()?;
            may_live(&shell, age).then(|| self.of_shell(&shell))?
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
        Ok(!open.contains_key(id) && self.journal.remove(id, updated_ms)?)
    }

    /// Forgets shells that are long gone, and closes sessions that nobody uses.
    pub fn tidy(&self) {
        close_unused(&mut lock(&self.open));
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
    pub fn offer(&self, shell: &ShellId, session: &str, links: &Links, commands: Vec<String>) {
        let of = commands.len();
        let waiting = commands
            .into_iter()
            .enumerate()
            .map(|(at, command)| Waiting {
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
    pub fn next_waiting(&self, shell: &ShellId) -> Option<Waiting> {
        lock(&self.waiting).get(shell)?.front().cloned()
    }

    /// Takes a command that was decided; `all` takes the rest too.
    ///
    /// # Errors
    /// It is not the one that waits: decided already, or another answer came.
    pub fn take_waiting(&self, shell: &ShellId, token: &str, all: bool) -> Result<Waiting> {
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

/// Adds an open session. Where there are many, those that nobody uses are closed before, so that
/// memory does not grow with the number of conversations.
fn keep(open: &mut HashMap<String, Shared>, id: String, session: &Shared) {
    if open.len() >= KEPT {
        close_unused(open);
    }
    open.insert(id, session.clone());
}

/// Closes what nobody uses and what is in its file: it can be read again. What a person has allowed cannot, as long as it
/// holds.
fn close_unused(open: &mut HashMap<String, Shared>) {
    let now = now_ms();
    let allows = |s: &Shared| {
        let mut grants = lock(&s.grants);
        grants.expire(now);
        !grants.is_empty()
    };
    // Both are looked at: what has expired goes wherever it is.
    let in_memory = |s: &Shared| allows(s) | lock(&s.kept).log.is_err();
    open.retain(|_, s| in_memory(s) || Arc::strong_count(s) > 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety::policy::{Call, Consent, GRANT_MS, Wish, consent};

    #[test]
    fn a_session_stays_open_for_a_grant_as_long_as_that_holds() {
        let dir = tempfile::tempdir().expect("a directory");
        let journal = Journal::new(dir.path().join("history"));
        let sessions = Sessions::new(journal, dir.path().join("shells"));
        let given = |at_ms| {
            let session = sessions.create(None, &Links::default());
            let call = Call {
                server: "fs",
                tool: "read",
                identity: "",
                arguments: "{}",
            };
            let mut grants = lock(&session.grants);
            consent(&Wish::new(call), Consent::Tool, [], &mut grants, at_ms, "");
            session.id.clone()
        };
        let (_long_ago, now) = (given(now_ms() - GRANT_MS), given(now_ms()));
        let used = sessions.get(&given(1)).expect("the session");
        sessions.tidy();
        let open: HashSet<String> = sessions.open().iter().map(|s| s.id.clone()).collect();
        assert_eq!(open, HashSet::from([now, used.id.clone()]));
        assert!(lock(&used.grants).is_empty());
    }

    #[test]
    fn what_is_gone_without_is_told_once_and_again_when_it_changes() {
        let session = Session::new(String::new(), Err(Error::runtime("none")), Vec::new());
        let news = |now: &[(&str, &str)]| {
            let now: Vec<_> = now
                .iter()
                .map(|(a, w)| ((*a).into(), (*w).into()))
                .collect();
            session.goes_without(&now).len()
        };
        assert_eq!(news(&[("a", "starting"), ("b", "starting")]), 2);
        assert_eq!(news(&[("a", "starting"), ("b", "refused")]), 1);
        assert_eq!(news(&[("a", "starting"), ("b", "refused")]), 0);
        assert_eq!(news(&[("b", "refused")]), 0);
        // It was there in between.
        assert_eq!(news(&[("a", "starting"), ("b", "refused")]), 1);
    }
}
