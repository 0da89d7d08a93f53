//! Synchronises the index with the journal: finds files that have grown and reads their new lines.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};

use rusqlite::{Connection, OptionalExtension, params};

use super::row::{self, ActivityKind, IndexRow, LineContext};
use super::usage::UsageWriter;
use super::{Index, IndexProgress, IndexResult};
use crate::error::ErrorContext;
use crate::paths;

/// Number of rows per transaction. Bounds the loss when a rebuild is stopped, and how long readers wait.
const BATCH: usize = 50_000;
/// Number of bytes at the start of a file that identify it: they contain the id of its first record.
const HEAD: usize = 64;

/// A file of the journal.
#[derive(Debug)]
struct JournalFile {
    name: String,
    inode: u64,
    size: u64,
}

/// State of an indexed file.
#[derive(Debug, Default)]
struct IndexedFile {
    id: i64,
    inode: u64,
    /// Number of bytes in the index, whole lines only.
    done: u64,
    head: Vec<u8>,
    prompt: Option<String>,
    pack: Option<String>,
}

/// Differences between the journal and the index.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Files that were removed or replaced, whose rows must be deleted.
    gone: Vec<i64>,
    /// Files with new lines.
    grown: Vec<(JournalFile, Option<IndexedFile>)>,
}

impl Index {
    /// Applies the differences. The caller holds the lock.
    pub(super) fn catch_up(&mut self, work: Work) -> IndexResult<()> {
        if !work.gone.is_empty() {
            self.forget(&work.gone)?;
        }
        let left = |(found, known): &(JournalFile, Option<IndexedFile>)| {
            found.size - known.as_ref().map_or(0, |k| k.done)
        };
        let all = work.grown.iter().map(left).sum();
        let mut done = 0;
        (self.watch)(IndexProgress::Read(0, all));
        let mut batch = Batch::begin(&self.db)?;
        for (found, known) in work.grown {
            let path = self.journal.join(&found.name);
            let file = match paths::read_own(&path) {
                Ok(file) => file,
                // Just removed; the next sync deletes its rows.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(e).context(|| format!("cannot read {}", path.display()))?,
            };
            let what = || format!("cannot read {}", path.display());
            // Just replaced; the next sync reads the new file.
            if file.metadata().context(what)?.ino() != found.inode {
                continue;
            }
            let before = done;
            let mut progress = |read: u64| (self.watch)(IndexProgress::Read(before + read, all));
            done += batch.file(file, &found, known, &mut progress, &what)?;
        }
        batch.end()?;
        (self.watch)(IndexProgress::Read(all, all));
        Ok(())
    }

    /// Compares the journal with the index; `None` if nothing is new.
    pub(super) fn work(&self) -> IndexResult<Option<Work>> {
        let mut known = self.known()?;
        let mut work = Work::default();
        for found in self.files()? {
            let old = known.remove(&found.name);
            match old {
                Some(old) if found.inode != old.inode || found.size < old.done => {
                    work.gone.push(old.id);
                    work.grown.push((found, None));
                }
                Some(old) if found.size == old.done => {}
                Some(old) => {
                    let known = self.more(old)?;
                    // A replaced file may have got the inode number of the old one.
                    if self.head(&found, known.head.len())? == known.head {
                        work.grown.push((found, Some(known)));
                    } else {
                        work.gone.push(known.id);
                        work.grown.push((found, None));
                    }
                }
                None => work.grown.push((found, None)),
            }
        }
        work.gone.extend(known.into_values().map(|k| k.id));
        // In order of ids and therefore of time, so that rows are appended to the tables.
        work.grown.sort_by(|a, b| a.0.name.cmp(&b.0.name));
        let some = !work.gone.is_empty() || !work.grown.is_empty();
        Ok(some.then_some(work))
    }

    fn files(&self) -> IndexResult<Vec<JournalFile>> {
        let what = || format!("cannot list {}", self.journal.display());
        let entries = match fs::read_dir(&self.journal) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(e).context(what)?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.context(what)?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            // A file removed at this moment has no metadata.
            let Some(meta) = entry.metadata().ok().filter(fs::Metadata::is_file) else {
                continue;
            };
            if name.ends_with(".jsonl") {
                files.push(JournalFile {
                    name,
                    inode: meta.ino(),
                    size: meta.len(),
                });
            }
        }
        Ok(files)
    }

    /// Returns the columns of all files that show whether a file has grown; the others are not read, since there may be
    /// thousands of files.
    fn known(&self) -> IndexResult<HashMap<String, IndexedFile>> {
        let mut select = self.db.prepare("SELECT name, id, inode, done FROM file")?;
        let rows = select.query_map([], |row| {
            let known = IndexedFile {
                id: row.get(1)?,
                inode: row.get::<_, i64>(2)?.cast_unsigned(),
                done: row.get::<_, i64>(3)?.cast_unsigned(),
                ..IndexedFile::default()
            };
            Ok((row.get(0)?, known))
        })?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Reads the other columns of a file.
    fn more(&self, mut known: IndexedFile) -> IndexResult<IndexedFile> {
        let mut select = self
            .db
            .prepare_cached("SELECT head, prompt, pack FROM file WHERE id = ?")?;
        (known.head, known.prompt, known.pack) = select.query_row([known.id], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?;
        Ok(known)
    }

    fn head(&self, found: &JournalFile, length: usize) -> IndexResult<Vec<u8>> {
        let path = self.journal.join(&found.name);
        let mut head = vec![0; length];
        match paths::read_own(&path).and_then(|file| file.read_exact_at(&mut head, 0)) {
            Ok(()) => Ok(head),
            // Removed or shortened: not the indexed file.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
                Ok(Vec::new())
            }
            Err(e) => Err(e).context(|| format!("cannot read {}", path.display()))?,
        }
    }

    /// Deletes the rows of these files, with kinds and sessions that no other row uses.
    fn forget(&mut self, files: &[i64]) -> IndexResult<()> {
        let tx = self.db.transaction()?;
        for id in files {
            tx.execute("UPDATE file SET done = -1 WHERE id = ?", [id])?;
        }
        tx.execute_batch(
            "DELETE FROM act WHERE file IN (SELECT id FROM file WHERE done < 0);
             DELETE FROM usage WHERE file IN (SELECT id FROM file WHERE done < 0);
             DELETE FROM file WHERE done < 0;
             DELETE FROM kind WHERE NOT EXISTS (SELECT 1 FROM act WHERE act.kind = kind.id);
             DELETE FROM session WHERE NOT EXISTS (SELECT 1 FROM act WHERE act.session = session.id);",
        )?;
        Ok(tx.commit()?)
    }
}

/// A transaction that adds rows.
struct Batch<'a> {
    db: &'a Connection,
    kinds: HashMap<ActivityKind, i64>,
    sessions: HashMap<String, i64>,
    usage: UsageWriter,
    acts: usize,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.db.is_autocommit() {
            // The failure was reported already.
            let _ = self.db.execute_batch("ROLLBACK");
        }
    }
}

impl<'a> Batch<'a> {
    fn begin(db: &'a Connection) -> IndexResult<Batch<'a>> {
        db.execute_batch("BEGIN IMMEDIATE")?;
        let mut batch = Batch {
            db,
            kinds: HashMap::new(),
            sessions: HashMap::new(),
            usage: UsageWriter::default(),
            acts: 0,
        };
        batch.kinds = super::query::kinds(db)?
            .into_iter()
            .map(|(id, kind)| (kind, id))
            .collect();
        Ok(batch)
    }

    fn end(self) -> IndexResult<()> {
        Ok(self.db.execute_batch("COMMIT")?)
    }

    /// Reads the new lines of a file and returns their size in bytes.
    fn file(
        &mut self,
        mut file: File,
        found: &JournalFile,
        known: Option<IndexedFile>,
        progress: &mut dyn FnMut(u64),
        what: &dyn Fn() -> String,
    ) -> IndexResult<u64> {
        let start = known.as_ref().map_or(0, |k| k.done);
        let mut head = known.as_ref().map_or(Vec::new(), |k| k.head.clone());
        let mut place = LineContext {
            session: session(&found.name),
            prompt: known.as_ref().and_then(|k| k.prompt.clone()),
            pack: known.as_ref().and_then(|k| k.pack.clone()),
        };
        let id = match &known {
            Some(known) => known.id,
            None => self.db.query_row(
                "INSERT INTO file (name, inode, done, head) VALUES (?, ?, 0, x'') RETURNING id",
                params![found.name, found.inode.cast_signed()],
                |row| row.get(0),
            )?,
        };
        file.seek(SeekFrom::Start(start)).context(what)?;
        let mut reader = BufReader::with_capacity(256 << 10, file);
        let (mut at, mut line) = (start, Vec::new());
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line).context(what)?;
            // An incomplete line is left for the next sync.
            if line.last() != Some(&b'\n') {
                break;
            }
            if at == 0 {
                head = line[..length.min(HEAD)].to_vec();
            }
            if let Some(row) = row::read(&line, (&found.name, at), &mut place) {
                self.act(&row, id, at, length)?;
            }
            at += length as u64;
            if self.acts >= BATCH {
                self.mark(id, at, &head, &place)?;
                self.db.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
                self.acts = 0;
                progress(at - start);
            }
        }
        self.mark(id, at, &head, &place)?;
        progress(at - start);
        Ok(at - start)
    }

    /// Stores the position up to which a file was read.
    fn mark(&self, id: i64, done: u64, head: &[u8], place: &LineContext) -> IndexResult<()> {
        let mut update = self.db.prepare_cached(
            "UPDATE file SET done = ?, head = ?, prompt = ?, pack = ? WHERE id = ?",
        )?;
        update.execute(params![
            done.cast_signed(),
            head,
            place.prompt,
            place.pack,
            id
        ])?;
        Ok(())
    }

    fn act(&mut self, row: &IndexRow, file: i64, start: u64, length: usize) -> IndexResult<()> {
        let kind = match self.kinds.get(&row.kind) {
            Some(id) => *id,
            None => {
                let of = &row.kind;
                let mut insert = self.db.prepare_cached(
                    "INSERT INTO kind (type, operation, status, server, tool)
                     VALUES (?, ?, ?, ?, ?) RETURNING id",
                )?;
                let values = params![of.kind, of.operation, of.status, of.server, of.tool];
                let id = insert.query_row(values, |row| row.get(0))?;
                self.kinds.insert(of.clone(), id);
                id
            }
        };
        let session = match &row.session {
            Some(name) => Some(self.session(name)?),
            None => None,
        };
        let mut insert = self.db.prepare_cached(
            "INSERT OR IGNORE INTO act
             (id, kind, file, start, length, at_ms, ms, who, session, chain, command, output_of, what)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?;
        insert.execute(params![
            row.key,
            kind,
            file,
            start.cast_signed(),
            length as i64,
            row.at_ms.cast_signed(),
            row.ms.map(u64::cast_signed),
            row.by,
            session,
            row.chain.as_deref().map(chain_key),
            row.command,
            row.output_of,
            row.what,
        ])?;
        if let Some((source, sum)) = &row.usage {
            let of = (file, session.unwrap_or(0), row.at_ms);
            self.usage.add(self.db, of, source, sum)?;
        }
        self.acts += 1;
        Ok(())
    }

    fn session(&mut self, name: &str) -> IndexResult<i64> {
        if let Some(id) = self.sessions.get(name) {
            return Ok(*id);
        }
        let mut select = self
            .db
            .prepare_cached("SELECT id FROM session WHERE name = ?")?;
        let known = select.query_row([name], |row| row.get(0)).optional()?;
        let id = match known {
            Some(id) => id,
            None => {
                let mut insert = self
                    .db
                    .prepare_cached("INSERT INTO session (name) VALUES (?) RETURNING id")?;
                insert.query_row([name], |row| row.get(0))?
            }
        };
        self.sessions.insert(name.to_string(), id);
        Ok(id)
    }
}

/// Returns the session of a file, whose name is the session's id; `None` for other files.
fn session(file: &str) -> Option<String> {
    let name = file.strip_suffix(".jsonl")?;
    uuid::Uuid::try_parse(name).ok().map(|_| name.to_string())
}

/// Returns the stored key of a chain: the bytes of its id, less than half the size of the text.
fn chain_key(chain: &str) -> Vec<u8> {
    match uuid::Uuid::try_parse(chain) {
        Ok(id) => id.as_bytes().to_vec(),
        Err(_) => chain.as_bytes().to_vec(),
    }
}
