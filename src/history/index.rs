//! SQLite index over the journal, so that activities are found without reading millions of lines.
//!
//! It contains only data from the journal, and may be deleted at any time: it is rebuilt. Every query first reads what was
//! appended to the journal since the last one. The daemon does not use the index, so prompts never wait for it. One
//! process at a time writes, under a separate lock file; readers are not blocked.

mod chain;
mod query;
pub mod row;
mod sync;
mod usage;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::{Error, ErrorContext, Result};
use crate::paths;

pub use query::{ActivityEntry, ActivityFilter, ActivityStats, ActivityTally};
pub use usage::{UsageSource, UsageStats, UsageSum, local_day};

/// Name in the state directory.
const FILE: &str = "activity.sqlite";
/// Lock file of the process that writes to the index.
const LOCK: &str = "activity.lock";
/// How long readers and the writer wait for each other; a batch takes less.
const BUSY_TIMEOUT: Duration = Duration::from_secs(30);
/// SQLite application id, `aish`.
const APPLICATION_ID: i64 = 0x6169_7368;
/// Incremented with every change of the tables or of the row made from a record.
const VERSION: i64 = 6;

/// Rows of `act` (activities) have the key of their record and are therefore stored in order of time. Properties shared by
/// thousands are a row of `kind`. `act_kind` orders the activities of each kind, so that a filter is a selection of kinds
/// and reads only what it returns.
const TABLES: &str = "
CREATE TABLE file (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  inode INTEGER NOT NULL,
  done INTEGER NOT NULL,
  head BLOB NOT NULL,
  prompt TEXT,
  pack TEXT
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
  output_of TEXT,
  what TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX act_kind ON act (kind, id, ms);
CREATE INDEX act_session ON act (session, id, kind) WHERE session IS NOT NULL;
CREATE INDEX act_chain ON act (chain) WHERE chain IS NOT NULL;
CREATE INDEX act_command ON act (command) WHERE command IS NOT NULL;
CREATE INDEX act_output_of ON act (output_of) WHERE output_of IS NOT NULL;
";

/// Progress while the index is synchronised with the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexProgress {
    /// The index cannot be used, for this reason, and is rebuilt.
    Anew(&'static str),
    /// Bytes of the journal read, and to be read in all.
    Read(u64, u64),
}

/// Receives the progress.
pub type ProgressWatch = Box<dyn FnMut(IndexProgress)>;

/// The index, synchronised with the journal at the time of opening.
pub struct Index {
    db: Connection,
    path: PathBuf,
    journal: PathBuf,
    /// Random name given when the tables were created.
    made: Vec<u8>,
    /// Journal file that was read last.
    open: Option<(String, File)>,
    watch: ProgressWatch,
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("path", &self.path).finish()
    }
}

/// Cause of a failure.
#[derive(Debug)]
enum IndexFault {
    /// The tables are of another version or another program.
    Foreign,
    /// Another process has rebuilt the index, and may not have filled it.
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
    /// Returns the fault of the file itself, if it must be rebuilt.
    fn with_file(&self) -> Option<&'static str> {
        match self {
            IndexFault::Foreign => Some("is of another version"),
            IndexFault::Another => Some("is not the one that was opened"),
            IndexFault::Sql(rusqlite::Error::SqliteFailure(e, _)) => matches!(
                e.code,
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
            )
            .then_some("is damaged"),
            // A table or value that this program did not write.
            IndexFault::Sql(_) => Some("is damaged"),
            IndexFault::Other(_) => None,
        }
    }

    fn error(self, path: &Path) -> Error {
        let what = || format!("cannot use the index {}", path.display());
        let hint = "free space or make its directory writable; it may be deleted, and is rebuilt";
        match self {
            IndexFault::Other(e) => e,
            IndexFault::Foreign | IndexFault::Another => Error::runtime(what()).hint(hint),
            IndexFault::Sql(e) => Error::runtime(format!("{}: {e}", what())).hint(hint),
        }
    }
}

type IndexResult<T> = std::result::Result<T, IndexFault>;

impl Index {
    /// Opens the index in `state` of the journal in `journal`, and synchronises it. An index that cannot be used is
    /// rebuilt.
    ///
    /// # Errors
    /// The journal cannot be read, or the index cannot be written.
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
        index.rebuild_and_retry(prepared, |_| Ok(()))?;
        Ok(index)
    }

    /// Runs a query; if the file turns out to be damaged, rebuilds it and repeats the query.
    fn ask<T>(&mut self, ask: impl Fn(&Index) -> IndexResult<T>) -> Result<T> {
        let answer = self.at_once(&ask);
        self.rebuild_and_retry(answer, ask)
    }

    /// Runs a query in one transaction, so that all its reads see the same state.
    fn at_once<T>(&self, ask: impl Fn(&Index) -> IndexResult<T>) -> IndexResult<T> {
        let moment = self.db.unchecked_transaction()?;
        if self.name()? != self.made {
            return Err(IndexFault::Another);
        }
        let answer = ask(self)?;
        moment.commit()?;
        Ok(answer)
    }

    fn rebuild_and_retry<T>(
        &mut self,
        answer: IndexResult<T>,
        ask: impl Fn(&Index) -> IndexResult<T>,
    ) -> Result<T> {
        let mended = match answer {
            Ok(answer) => return Ok(answer),
            Err(fault) => match fault.with_file() {
                Some(why) => self.rebuild_and_query(why, ask),
                None => Err(fault),
            },
        };
        mended.map_err(|fault| fault.error(&self.path))
    }

    fn lock(&self) -> Result<impl Drop + use<>> {
        paths::lock_file(&self.path.with_file_name(LOCK))
    }

    /// Synchronises the index with the journal if it is out of date.
    fn prepare(&mut self) -> IndexResult<()> {
        // Not WAL: its additional files would have to be deleted together with this one.
        self.db.execute_batch(
            "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -65536;",
        )?;
        let mut work = None;
        if self.version()? == (APPLICATION_ID, VERSION) {
            self.made = self.name()?;
            let seen = self.changes()?;
            match self.work()? {
                Some(found) => work = Some((seen, found)),
                None => return Ok(()),
            }
        }
        let _lock = self.lock()?;
        match work {
            // No other process has written to it since, so the work found is still to be done.
            Some((seen, work)) if seen == self.changes()? => self.catch_up(work),
            _ => self.make(),
        }
    }

    /// Returns a number that changes when another process writes to the index.
    fn changes(&self) -> IndexResult<i64> {
        let select = |row: &rusqlite::Row<'_>| row.get(0);
        Ok(self.db.pragma_query_value(None, "data_version", select)?)
    }

    /// Creates missing tables and reads the new records of the journal. The caller holds the lock, so that the work of another
    /// process is not repeated.
    fn make(&mut self) -> IndexResult<()> {
        if self.version()? == (0, 0) {
            let tx = self.db.transaction()?;
            tx.execute_batch(TABLES)?;
            tx.execute_batch(usage::TABLES)?;
            tx.pragma_update(None, "application_id", APPLICATION_ID)?;
            tx.pragma_update(None, "user_version", VERSION)?;
            tx.commit()?;
        }
        if self.version()? != (APPLICATION_ID, VERSION) {
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

    /// Empties the file and rebuilds the index. The file is not replaced: another process may have it open, and SQLite's
    /// locks and journal depend on file and name.
    fn rebuild_and_query<T>(
        &mut self,
        why: &'static str,
        ask: impl Fn(&Index) -> IndexResult<T>,
    ) -> IndexResult<T> {
        let _lock = self.lock()?;
        // Another process may have rebuilt it already.
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

/// Opens the file, creating it (0600) if necessary.
fn connect(path: &Path) -> IndexResult<Connection> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    paths::open_own(&mut options, path).context(|| format!("cannot open {}", path.display()))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(BUSY_TIMEOUT)?;
    Ok(db)
}

#[cfg(test)]
mod tests;
