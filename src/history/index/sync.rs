//! Bringing the index up to date: which files of the journal have grown, and what they say.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};

use rusqlite::{Connection, OptionalExtension, params};

use super::row::{self, ActivityKind, IndexRow, LineContext};
use super::{Index, IndexProgress, IndexResult};
use crate::error::ErrorContext;

/// So many acts are written together: who stops a rebuild loses no more, and readers need not wait longer.
const BATCH: usize = 50_000;
/// So much of a file's beginning, which has its first record's id, tells it from another by the same name.
const HEAD: usize = 64;

/// A file of the journal.
#[derive(Debug)]
struct JournalFile {
    name: String,
    inode: u64,
    size: u64,
}

/// What is known of one.
#[derive(Debug, Default)]
struct IndexedFile {
    id: i64,
    inode: u64,
    /// So many bytes of it are in the index: whole lines.
    done: u64,
    head: Vec<u8>,
    prompt: Option<String>,
}

/// What there is to do.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Files whose acts go: they are not there any more, or not what they were.
    gone: Vec<i64>,
    /// Files with something new.
    grown: Vec<(JournalFile, Option<IndexedFile>)>,
}

impl Index {
    /// Does it. The lock is held.
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
            let file = match File::open(&path) {
                Ok(file) => file,
                // It went a moment ago: the next time it is seen as gone.
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(e).context(|| format!("cannot read {}", path.display()))?,
            };
            let what = || format!("cannot read {}", path.display());
            // Another has taken its place: the next time it is seen as that one.
            if file.metadata().context(what)?.ino() != found.inode {
                continue;
            }
            let before = done;
            let mut told = |read: u64| (self.watch)(IndexProgress::Read(before + read, all));
            done += batch.file(file, &found, known, &mut told, &what)?;
        }
        batch.end()?;
        (self.watch)(IndexProgress::Read(all, all));
        Ok(())
    }

    /// Compares the journal with what is known of it; `None` where nothing is new.
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
                    // One that was written anew may have the number of the old one, which was free by then.
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
        // By their ids, and so by their time: the tables are filled in order.
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
            // One that goes at this moment is gone.
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

    /// All files, as far as that tells whether they have grown: it is asked at every call, of thousands.
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

    /// All that is known of one.
    fn more(&self, mut known: IndexedFile) -> IndexResult<IndexedFile> {
        let mut select = self
            .db
            .prepare_cached("SELECT head, prompt FROM file WHERE id = ?")?;
        (known.head, known.prompt) =
            select.query_row([known.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(known)
    }

    fn head(&self, found: &JournalFile, length: usize) -> IndexResult<Vec<u8>> {
        let path = self.journal.join(&found.name);
        let mut head = vec![0; length];
        match File::open(&path).and_then(|file| file.read_exact_at(&mut head, 0)) {
            Ok(()) => Ok(head),
            // Gone, or shorter by now: it is not what it was.
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
                Ok(Vec::new())
            }
            Err(e) => Err(e).context(|| format!("cannot read {}", path.display()))?,
        }
    }

    /// Takes out the acts of these files, and what only they have named.
    fn forget(&mut self, files: &[i64]) -> IndexResult<()> {
        let tx = self.db.transaction()?;
        for id in files {
            tx.execute("UPDATE file SET done = -1 WHERE id = ?", [id])?;
        }
        tx.execute_batch(
            "DELETE FROM act WHERE file IN (SELECT id FROM file WHERE done < 0);
             DELETE FROM file WHERE done < 0;
             DELETE FROM kind WHERE NOT EXISTS (SELECT 1 FROM act WHERE act.kind = kind.id);
             DELETE FROM session WHERE NOT EXISTS (SELECT 1 FROM act WHERE act.session = session.id);",
        )?;
        Ok(tx.commit()?)
    }
}

/// Acts on their way into the tables.
struct Batch<'a> {
    db: &'a Connection,
    kinds: HashMap<ActivityKind, i64>,
    sessions: HashMap<String, i64>,
    acts: usize,
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        if !self.db.is_autocommit() {
            // What failed is told; this only lets go of it.
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

    /// Reads on in a file; how many bytes there were.
    fn file(
        &mut self,
        mut file: File,
        found: &JournalFile,
        known: Option<IndexedFile>,
        told: &mut dyn FnMut(u64),
        what: &dyn Fn() -> String,
    ) -> IndexResult<u64> {
        let start = known.as_ref().map_or(0, |k| k.done);
        let mut head = known.as_ref().map_or(Vec::new(), |k| k.head.clone());
        let mut place = LineContext {
            session: session(&found.name),
            prompt: known.as_ref().and_then(|k| k.prompt.clone()),
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
            // A line that is not whole is left for the next time.
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
                told(at - start);
            }
        }
        self.mark(id, at, &head, &place)?;
        told(at - start);
        Ok(at - start)
    }

    /// Notes how far a file was read.
    fn mark(&self, id: i64, done: u64, head: &[u8], place: &LineContext) -> IndexResult<()> {
        let mut update = self
            .db
            .prepare_cached("UPDATE file SET done = ?, head = ?, prompt = ? WHERE id = ?")?;
        update.execute(params![done.cast_signed(), head, place.prompt, id])?;
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
             (id, kind, file, start, length, at_ms, ms, who, session, chain, command, what)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            row.what,
        ])?;
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

/// The session whose file this is: its id is its name. The others are no session's.
fn session(file: &str) -> Option<String> {
    let name = file.strip_suffix(".jsonl")?;
    uuid::Uuid::try_parse(name).ok().map(|_| name.to_string())
}

/// What a chain is found by: the bytes of an id, which take less than half of its text.
fn chain_key(chain: &str) -> Vec<u8> {
    match uuid::Uuid::try_parse(chain) {
        Ok(id) => id.as_bytes().to_vec(),
        Err(_) => chain.as_bytes().to_vec(),
    }
}
