//! The index over the journal: SQLite, so that acts are found without reading a million lines.
//!
//! It holds nothing that the journal does not: it may be deleted at any time and is made again. Whoever asks
//! brings it up to date first, from the bytes that have come since; the daemon knows nothing of it, so that no
//! prompt pays for it. One process at a time writes, under a lock of its own; readers are not held up.

mod query;
pub mod row;
mod sync;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Error, ErrorContext, Result};
use crate::paths;

pub use query::{ActivityEntry, ActivityFilter, ActivityStats, ActivityTally};

/// Its name in the state directory.
const FILE: &str = "activity.sqlite";
/// Held by the one process that writes to it.
const LOCK: &str = "activity.lock";
/// How long a reader and the writer wait for each other: no longer than a batch takes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Marks a file as ours: `aish`.
const APPLICATION: i64 = 0x6169_7368;
/// Grows with every change of the tables, and of what is kept of a record.
const VERSION: i64 = 2;

/// An act has the key of its record, so that acts lie in the order of time. What thousands have in common is a
/// row of `kind`; for each kind its acts stand in order, so that any filter is a choice of kinds and reads no
/// more than it answers.
const TABLES: &str = "
CREATE TABLE file (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  inode INTEGER NOT NULL,
  done INTEGER NOT NULL,
  head BLOB NOT NULL,
  prompt TEXT
);
CREATE TABLE kind (
  id INTEGER PRIMARY KEY,
  type TEXT NOT NULL,
  operation TEXT,
  status TEXT NOT NULL,
  server TEXT,
  tool TEXT
);
CREATE TABLE made (
  name BLOB NOT NULL
);
INSERT INTO made VALUES (randomblob(16));
CREATE TABLE session (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);
CREATE TABLE act (
  id BLOB PRIMARY KEY,
  kind INTEGER NOT NULL,
  file INTEGER NOT NULL,
  start INTEGER NOT NULL,
  length INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  ms INTEGER,
  who TEXT,
  session INTEGER,
  chain BLOB,
  command TEXT,
  what TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX act_kind ON act (kind, id, ms);
CREATE INDEX act_session ON act (session, id, kind) WHERE session IS NOT NULL;
CREATE INDEX act_chain ON act (chain) WHERE chain IS NOT NULL;
CREATE INDEX act_command ON act (command) WHERE command IS NOT NULL;
";

/// What is told while the index is brought up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexProgress {
    /// It cannot be used, for this reason, and is made anew.
    Anew(&'static str),
    /// So many bytes of the journal are read, of so many.
    Read(u64, u64),
}

/// Whom it tells of its steps.
pub type ProgressWatch = Box<dyn FnMut(IndexProgress)>;

/// The index, up to date with the journal as it was when it was opened.
pub struct Index {
    db: Connection,
    path: PathBuf,
    journal: PathBuf,
    /// The name that it was given when it was made.
    made: Vec<u8>,
    /// The file of the journal that was read last.
    open: Option<(String, File)>,
    watch: ProgressWatch,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("path", &self.path).finish()
    }
}

/// Why something failed.
#[derive(Debug)]
enum IndexFault {
    /// Its tables are those of another version, or another program's.
    Foreign,
    /// Another process has made it anew, and may not have filled it.
    Another,
    Sql(rusqlite::Error),
    Other(Error),
}

impl From<rusqlite::Error> for IndexFault {
    fn from(e: rusqlite::Error) -> IndexFault {
        IndexFault::Sql(e)
    }
}

impl From<Error> for IndexFault {
    fn from(e: Error) -> IndexFault {
        IndexFault::Other(e)
    }
}

impl IndexFault {
    /// What is wrong with the file itself, so that a new one is called for.
    fn with_file(&self) -> Option<&'static str> {
        match self {
            IndexFault::Foreign => Some("is of another version"),
            IndexFault::Another => Some("is not the one that was opened"),
            IndexFault::Sql(rusqlite::Error::SqliteFailure(e, _)) => matches!(
                e.code,
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
            )
            .then_some("is damaged"),
            // A table or a value that is not as we have written it.
            IndexFault::Sql(_) => Some("is damaged"),
            IndexFault::Other(_) => None,
        }
    }

    fn error(self, path: &Path) -> Error {
        let what = || format!("cannot use the index {}", path.display());
        let hint =
            "free space or make its directory writable; it may be deleted, and is made again";
        match self {
            IndexFault::Other(e) => e,
            IndexFault::Foreign | IndexFault::Another => Error::runtime(what()).hint(hint),
            IndexFault::Sql(e) => Error::runtime(format!("{}: {e}", what())).hint(hint),
        }
    }
}

type IndexResult<T> = std::result::Result<T, IndexFault>;

impl Index {
    /// Opens the index of the journal in `journal`, which is kept in `state`, and brings it up to date. One that
    /// cannot be used is made anew.
    ///
    /// # Errors
    /// The journal cannot be read, or the index not written.
    pub fn open(journal: &Path, state: &Path, watch: ProgressWatch) -> Result<Index> {
        paths::make_dir(state)?;
        let path = state.join(FILE);
        let db = connect(&path).map_err(|fault| fault.error(&path))?;
        let mut index = Index {
            db,
            path,
            journal: journal.to_path_buf(),
            made: Vec::new(),
            open: None,
            watch,
        };
        let prepared = index.prepare();
        index.mend(prepared, |_| Ok(()))?;
        Ok(index)
    }

    /// Asks it; where that shows that the file is damaged it is made anew, and asked again.
    fn ask<T>(&mut self, ask: impl Fn(&Index) -> IndexResult<T>) -> Result<T> {
        let answer = self.at_once(&ask);
        self.mend(answer, ask)
    }

    /// Asks it as it is at one moment.
    fn at_once<T>(&self, ask: impl Fn(&Index) -> IndexResult<T>) -> IndexResult<T> {
        let moment = self.db.unchecked_transaction()?;
        if self.name()? != self.made {
            return Err(IndexFault::Another);
        }
        let answer = ask(self)?;
        moment.commit()?;
        Ok(answer)
    }

    fn mend<T>(
        &mut self,
        answer: IndexResult<T>,
        ask: impl Fn(&Index) -> IndexResult<T>,
    ) -> Result<T> {
        let mended = match answer {
            Ok(answer) => return Ok(answer),
            Err(fault) => match fault.with_file() {
                Some(why) => self.anew(why, ask),
                None => Err(fault),
            },
        };
        mended.map_err(|fault| fault.error(&self.path))
    }

    fn lock(&self) -> Result<impl Drop + use<>> {
        paths::lock_file(&self.path.with_file_name(LOCK))
    }

    /// Brings it up to date, where it is not.
    fn prepare(&mut self) -> IndexResult<()> {
        // Not WAL: there would be files beside this one, which could then not be deleted at any time.
        self.db.execute_batch(
            "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536;",
        )?;
        let mut work = None;
        if self.version()? == (APPLICATION, VERSION) {
            self.made = self.name()?;
            let seen = self.changes()?;
            match self.work()? {
                Some(found) => work = Some((seen, found)),
                None => return Ok(()),
            }
        }
        let _lock = self.lock()?;
        match work {
            // Nobody has written to it since: what was found is still to be done.
            Some((seen, work)) if seen == self.changes()? => self.catch_up(work),
            _ => self.make(),
        }
    }

    /// A number that is another one when another process has written to it.
    fn changes(&self) -> IndexResult<i64> {
        let select = |row: &rusqlite::Row<'_>| row.get(0);
        Ok(self.db.pragma_query_value(None, "data_version", select)?)
    }

    /// Makes the tables, where there are none, and reads what is new in the journal. The lock is held: what
    /// another process has done until then is not done again.
    fn make(&mut self) -> IndexResult<()> {
        if self.version()? == (0, 0) {
            let tx = self.db.transaction()?;
            tx.execute_batch(TABLES)?;
            tx.pragma_update(None, "application_id", APPLICATION)?;
            tx.pragma_update(None, "user_version", VERSION)?;
            tx.commit()?;
        }
        if self.version()? != (APPLICATION, VERSION) {
            return Err(IndexFault::Foreign);
        }
        self.made = self.name()?;
        match self.work()? {
            Some(work) => self.catch_up(work),
            None => Ok(()),
        }
    }

    fn name(&self) -> IndexResult<Vec<u8>> {
        let select = "SELECT name FROM made";
        Ok(self.db.query_row(select, [], |row| row.get(0))?)
    }

    fn version(&self) -> IndexResult<(i64, i64)> {
        let number = |name| self.db.pragma_query_value(None, name, |row| row.get(0));
        Ok((number("application_id")?, number("user_version")?))
    }

    /// Empties it and makes it again. Its file stays: another process may have it open, and SQLite's locks and its
    /// journal go by the file and by the name.
    fn anew<T>(
        &mut self,
        why: &'static str,
        ask: impl Fn(&Index) -> IndexResult<T>,
    ) -> IndexResult<T> {
        let _lock = self.lock()?;
        // Another process may have found the same, and have mended it.
        if let Ok(answer) = self.make().and_then(|()| ask(self)) {
            return Ok(answer);
        }
        (self.watch)(IndexProgress::Anew(why));
        let reset = DbConfig::SQLITE_DBCONFIG_RESET_DATABASE;
        self.db.set_db_config(reset, true)?;
        let emptied = self.db.execute_batch("VACUUM");
        self.db.set_db_config(reset, false)?;
        emptied?;
        self.make()?;
        ask(self)
    }
}

/// The file, made (0600) where there is none.
fn connect(path: &Path) -> IndexResult<Connection> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .context(|| format!("cannot open {}", path.display()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(PATIENCE)?;
    Ok(db)
}

#[cfg(test)]
mod tests;
