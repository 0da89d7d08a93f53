//! Queries of the index: lists, one activity with its chain, statistics.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::FileExt;

use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;

use super::row::{ActivityKey, ActivityKind, first_of, id_of};
use super::{Index, IndexResult};
use crate::error::{Error, ErrorContext, Result};
use crate::history::redacted;
use crate::paths;

/// Selects activities. An empty field does not restrict.
#[derive(Debug, Clone, Default)]
pub struct ActivityFilter {
    /// Types.
    pub types: Vec<String>,
    /// Operations.
    pub operations: Vec<String>,
    /// Statuses.
    pub statuses: Vec<String>,
    /// Servers.
    pub servers: Vec<String>,
    /// Tools: `tool`, `server.tool` or `server:tool`.
    pub tools: Vec<String>,
    /// Whole id of the session.
    pub session: Option<String>,
    /// Start of the period, milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// End of the period, exclusive.
    pub until_ms: Option<u64>,
}

/// An activity in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityEntry {
    /// Id of the record.
    pub id: String,
    /// Time in milliseconds since 1970.
    pub at_ms: u64,
    /// Type, operation, status, server and tool.
    pub kind: ActivityKind,
    /// Beginning of the prompt, answer, arguments or command.
    pub what: String,
    /// Duration.
    pub ms: Option<u64>,
    /// `person` or `rule`, if a decision was made; `chain` for a prompt that nobody typed.
    pub by: Option<String>,
    /// The session.
    pub session: Option<String>,
    /// Position of the record.
    spot: RecordLocation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct RecordLocation {
    file: String,
    start: u64,
    length: u64,
}

/// Statistics of a group of activities.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActivityTally {
    /// Number of activities.
    pub count: usize,
    /// Number of activities per status, in the order of [`super::row::STATUSES`].
    pub ended: [usize; 5],
    /// Durations, shortest first, of the activities that have one.
    pub took: Vec<u64>,
}

impl ActivityTally {
    /// Returns the duration that `of_hundred` percent of the activities do not exceed.
    pub fn percentile(&self, of_hundred: usize) -> Option<u64> {
        let rank = (self.took.len() * of_hundred).div_ceil(100);
        self.took.get(rank.saturating_sub(1)).copied()
    }

    fn add(&mut self, status: &str, took: &[Option<u64>]) {
        self.count += took.len();
        let at = super::row::STATUSES.iter().position(|s| *s == status);
        if let Some(ended) = at.and_then(|at| self.ended.get_mut(at)) {
            *ended += took.len();
        }
        self.took.extend(took.iter().flatten());
    }
}

/// Statistics of the activities selected by a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActivityStats {
    /// All activities.
    pub all: ActivityTally,
    /// By type.
    pub types: BTreeMap<String, ActivityTally>,
    /// Tool calls by operation.
    pub operations: BTreeMap<String, ActivityTally>,
    /// Tool calls by tool, `server.tool`.
    pub tools: BTreeMap<String, ActivityTally>,
}

/// Returns the range of keys of a filter: start and exclusive end.
fn bounds(filter: &ActivityFilter) -> (ActivityKey, ActivityKey) {
    let end = filter.until_ms.map_or([0xff; 16], first_of);
    (first_of(filter.since_ms.unwrap_or(0)), end)
}

fn fits(kind: &ActivityKind, filter: &ActivityFilter) -> bool {
    let one_of = |words: &[String], word: Option<&str>| {
        words.is_empty() || word.is_some_and(|word| words.iter().any(|w| w == word))
    };
    let is_tool = |word: &String| {
        let (server, tool) = (kind.server.as_deref(), kind.tool.as_deref());
        let Some(tool) = tool else { return false };
        word == tool
            || word
                .strip_suffix(tool)
                .and_then(|rest| rest.strip_suffix(['.', ':']))
                .is_some_and(|alias| Some(alias) == server)
    };
    one_of(&filter.types, Some(&kind.kind))
        && one_of(&filter.operations, kind.operation.as_deref())
        && one_of(&filter.statuses, Some(&kind.status))
        && one_of(&filter.servers, kind.server.as_deref())
        && (filter.tools.is_empty() || filter.tools.iter().any(is_tool))
}

pub(super) fn kinds(db: &Connection) -> IndexResult<Vec<(i64, ActivityKind)>> {
    let mut select = db.prepare("SELECT id, type, operation, status, server, tool FROM kind")?;
    let rows = select.query_map([], |row| {
        let kind = ActivityKind {
            kind: row.get(1)?,
            operation: row.get(2)?,
            status: row.get(3)?,
            server: row.get(4)?,
            tool: row.get(5)?,
        };
        Ok((row.get(0)?, kind))
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

impl Index {
    /// Returns the newest activities, newest first, at most `limit`.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn list(&mut self, filter: &ActivityFilter, limit: usize) -> Result<Vec<ActivityEntry>> {
        self.ask(|index| index.entries(&index.newest(filter, limit)?))
    }

    /// Returns the keys of the newest activities, oldest first, at most `limit`.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn keys(&mut self, filter: &ActivityFilter, limit: usize) -> Result<Vec<ActivityKey>> {
        self.ask(|index| {
            let mut keys = index.newest(filter, limit)?;
            keys.reverse();
            Ok(keys)
        })
    }

    /// Returns the activities with these keys, in that order.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn of(&mut self, keys: &[ActivityKey]) -> Result<Vec<ActivityEntry>> {
        self.ask(|index| index.entries(keys))
    }

    /// Returns all servers and tools (`server.tool`) in the index, sorted.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn names(&mut self) -> Result<(Vec<String>, Vec<String>)> {
        let kinds = self.ask(|index| kinds(&index.db))?;
        let (mut servers, mut tools) = (Vec::new(), Vec::new());
        for (_, kind) in kinds {
            match (&kind.server, kind.tool) {
                (Some(server), Some(tool)) => tools.push(format!("{server}.{tool}")),
                (None, Some(tool)) => tools.push(tool),
                (_, None) => {}
            }
            servers.extend(kind.server);
        }
        for names in [&mut servers, &mut tools] {
            names.sort();
            names.dedup();
        }
        Ok((servers, tools))
    }

    /// Returns the only session whose id contains `part`.
    ///
    /// # Errors
    /// No id or several ids match.
    pub fn session(&mut self, part: &str) -> Result<String> {
        let found: Vec<String> = self.ask(|index| {
            let mut select = index.db.prepare(
                "SELECT name FROM session WHERE instr(name, ?1) ORDER BY name = ?1 DESC LIMIT 2",
            )?;
            let names = select.query_map([part], |row| row.get(0))?;
            Ok(names.collect::<rusqlite::Result<_>>()?)
        })?;
        one(found, part, "session", "aish-helper session list")
    }

    /// Returns the only activity whose id contains `part`, and its chain: the command line, then the others by time.
    ///
    /// # Errors
    /// No id or several ids match.
    pub fn show(&mut self, part: &str) -> Result<(ActivityEntry, Vec<ActivityEntry>)> {
        let digits = part.replace('-', "").to_ascii_uppercase();
        let found = self.ask(|index| index.find(&digits))?;
        let found = found.iter().map(id_of).collect();
        let id = one(found, part, "record", "aish-helper activity list")?;
        let key = uuid::Uuid::try_parse(&id).map_or([0; 16], uuid::Uuid::into_bytes);
        let chain = self.ask(|index| index.entries(&index.chain(&key)?))?;
        let act = chain.iter().find(|e| e.id == id).cloned();
        let act = act.ok_or_else(|| {
            Error::runtime(format!("the record {id} is no longer in the journal"))
        })?;
        Ok((act, chain))
    }

    /// Reads the record of an activity from the journal, redacted and with current field names.
    ///
    /// # Errors
    /// The record is no longer in the journal.
    pub fn record(&mut self, entry: &ActivityEntry) -> Result<Value> {
        let RecordLocation {
            file,
            start,
            length,
        } = &entry.spot;
        let path = self.journal.join(file);
        let what = || format!("cannot read {}", path.display());
        // Successive activities are mostly from the same file.
        let open = match self.open.take() {
            Some((name, open)) if name == *file => open,
            _ => paths::read_own(&path).context(what)?,
        };
        let mut line = vec![0; usize::try_from(*length).unwrap_or(0)];
        open.read_exact_at(&mut line, *start).context(what)?;
        self.open = Some((file.clone(), open));
        let mut record: Option<Value> = serde_json::from_slice(&line).ok();
        record.iter_mut().for_each(redacted::value);
        // A record of a later version may have the old name.
        let time = |r: &Value| r.get("timestamp_ms").or(r.get("at_ms")).cloned();
        let is_same = |r: &Value| time(r) == Some(entry.at_ms.into());
        record.filter(is_same).ok_or_else(|| {
            Error::runtime(format!("{} was changed while it was read", path.display()))
                .hint("repeat the command")
        })
    }

    /// Returns statistics of the activities selected by a filter.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn stats(&mut self, filter: &ActivityFilter) -> Result<ActivityStats> {
        self.ask(|index| index.count(filter))
    }

    /// Reads at most `limit` activities of each kind; the newest of all kinds are among them.
    fn newest(&self, filter: &ActivityFilter, limit: usize) -> IndexResult<Vec<ActivityKey>> {
        let (mut from, end) = bounds(filter);
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let wanted = |kind: &ActivityKind| fits(kind, filter);
        let kinds = kinds(&self.db)?;
        if let Some(session) = &filter.session {
            let mut select = self.db.prepare(
                "SELECT id, kind FROM act WHERE session = (SELECT id FROM session WHERE name = ?)
                 AND id >= ? AND id < ? ORDER BY id DESC",
            )?;
            let mut rows = select.query(params![session, from, end])?;
            let mut keys = Vec::new();
            while keys.len() < limit
                && let Some(row) = rows.next()?
            {
                let kind: i64 = row.get(1)?;
                if kinds.iter().any(|(id, k)| *id == kind && wanted(k)) {
                    keys.push(row.get(0)?);
                }
            }
            return Ok(keys);
        }
        let chosen: Vec<i64> = kinds
            .iter()
            .filter(|(_, kind)| wanted(kind))
            .map(|(id, _)| *id)
            .collect();
        if chosen.len() == kinds.len() {
            let mut select = self
                .db
                .prepare("SELECT id FROM act WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT ?")?;
            let keys = select.query_map(params![from, end, most], |row| row.get(0))?;
            return Ok(keys.collect::<rusqlite::Result<_>>()?);
        }
        let mut select = self.db.prepare(
            "SELECT id FROM act WHERE kind = ? AND id >= ? AND id < ? ORDER BY id DESC LIMIT ?",
        )?;
        let mut keys: Vec<ActivityKey> = Vec::new();
        for kind in chosen {
            let of_kind = select.query_map(params![kind, from, end, most], |row| row.get(0))?;
            for key in of_kind {
                keys.push(key?);
            }
            // Enough are known; older ones of the other kinds cannot be in the result.
            if keys.len() > limit {
                keys.sort_unstable_by(|a, b| b.cmp(a));
                keys.truncate(limit);
                from = keys.last().copied().unwrap_or(from);
            }
        }
        keys.sort_unstable_by(|a, b| b.cmp(a));
        Ok(keys)
    }

    fn entries(&self, keys: &[ActivityKey]) -> IndexResult<Vec<ActivityEntry>> {
        let mut select = self.db.prepare_cached(
            "SELECT act.at_ms, act.ms, act.who, act.what, act.start, act.length, file.name, session.name,
             kind.type, kind.operation, kind.status, kind.server, kind.tool
             FROM act JOIN file ON file.id = act.file JOIN kind ON kind.id = act.kind
             LEFT JOIN session ON session.id = act.session WHERE act.id = ?",
        )?;
        let mut entries = Vec::with_capacity(keys.len());
        for key in keys {
            let entry = select.query_row([key], |row| {
                Ok(ActivityEntry {
                    id: id_of(key),
                    at_ms: row.get::<_, i64>(0)?.cast_unsigned(),
                    ms: row.get::<_, Option<i64>>(1)?.map(i64::cast_unsigned),
                    by: row.get(2)?,
                    what: row.get(3)?,
                    spot: RecordLocation {
                        start: row.get::<_, i64>(4)?.cast_unsigned(),
                        length: row.get::<_, i64>(5)?.cast_unsigned(),
                        file: row.get(6)?,
                    },
                    session: row.get(7)?,
                    kind: ActivityKind {
                        kind: row.get(8)?,
                        operation: row.get(9)?,
                        status: row.get(10)?,
                        server: row.get(11)?,
                        tool: row.get(12)?,
                    },
                })
            });
            // Another process may have removed it together with its file.
            entries.extend(entry.optional()?);
        }
        Ok(entries)
    }

    /// Returns at most two activities whose id contains these digits.
    fn find(&self, digits: &str) -> IndexResult<Vec<ActivityKey>> {
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(Vec::new());
        }
        // The smallest index that contains all ids.
        let mut select = self
            .db
            .prepare("SELECT id FROM act INDEXED BY act_kind WHERE instr(hex(id), ?) LIMIT 2")?;
        let keys = select.query_map([digits], |row| row.get(0))?;
        Ok(keys.collect::<rusqlite::Result<_>>()?)
    }

    fn count(&self, filter: &ActivityFilter) -> IndexResult<ActivityStats> {
        let (from, end) = bounds(filter);
        let took = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Option<u64>> {
            Ok(row.get::<_, Option<i64>>(0)?.map(i64::cast_unsigned))
        };
        let mut of_session: HashMap<i64, Vec<Option<u64>>> = HashMap::new();
        if let Some(session) = &filter.session {
            let mut select = self.db.prepare(
                "SELECT ms, kind FROM act WHERE session = (SELECT id FROM session WHERE name = ?)
                 AND id >= ? AND id < ?",
            )?;
            let mut rows = select.query(params![session, from, end])?;
            while let Some(row) = rows.next()? {
                of_session.entry(row.get(1)?).or_default().push(took(row)?);
            }
        }
        let mut select = self
            .db
            .prepare("SELECT ms FROM act WHERE kind = ? AND id >= ? AND id < ?")?;
        let mut stats = ActivityStats::default();
        for (id, kind) in kinds(&self.db)? {
            if !fits(&kind, filter) {
                continue;
            }
            let took = match filter.session {
                Some(_) => of_session.remove(&id).unwrap_or_default(),
                None => select
                    .query_map(params![id, from, end], took)?
                    .collect::<rusqlite::Result<_>>()?,
            };
            if took.is_empty() {
                continue;
            }
            let status = &kind.status;
            stats.all.add(status, &took);
            let of_type = stats.types.entry(kind.kind.clone()).or_default();
            of_type.add(status, &took);
            if kind.kind != "tool" {
                continue;
            }
            if let Some(operation) = kind.operation {
                stats
                    .operations
                    .entry(operation)
                    .or_default()
                    .add(status, &took);
            }
            let name = [kind.server, kind.tool].into_iter().flatten();
            let name = name.collect::<Vec<_>>().join(".");
            stats.tools.entry(name).or_default().add(status, &took);
        }
        let tallies = stats.types.values_mut();
        let tallies = tallies.chain(stats.operations.values_mut());
        for tally in tallies.chain(stats.tools.values_mut()) {
            tally.took.sort_unstable();
        }
        stats.all.took.sort_unstable();
        Ok(stats)
    }
}

/// Returns the only match.
fn one(found: Vec<String>, part: &str, what: &str, see: &str) -> Result<String> {
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(one), None) if !part.is_empty() => Ok(one),
        (Some(one), Some(_)) if one == part => Ok(one),
        (Some(_), Some(_)) if !part.is_empty() => Err(Error::usage(format!(
            "more than one {what} has '{part}' in its id"
        ))
        .hint(format!("give more of the id; see: {see}"))),
        _ => {
            let none = Error::usage(format!("no {what} has '{part}' in its id"));
            Err(none.hint(format!("see: {see}")))
        }
    }
}
