//! Tokens and cost of answers, summed by day, session, model, provider and prompt pack, so that statistics read thousands of
//! rows instead of millions of records. A day is that of the time zone in which the record was indexed.

use std::collections::HashMap;

use chrono::{Datelike, Local, NaiveDate, TimeZone};
use rusqlite::{Connection, params};

use super::{Index, IndexResult};
use crate::error::Result;

/// Milliseconds of a quarter of an hour.
const QUARTER_MS: u64 = 15 * 60 * 1000;

/// Sums of what answers used and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageSum {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests without an answer, or with a part of one.
    pub failures: u64,
    /// Tokens of the requests, those of the cache included.
    pub input: u64,
    /// Tokens of the requests that were read from the provider's cache.
    pub cache_read: u64,
    /// Tokens of the requests that were written to the provider's cache.
    pub cache_write: u64,
    /// Tokens of the answers, those of the reasoning included.
    pub output: u64,
    /// Tokens of the reasoning.
    pub reasoning: u64,
    /// Known cost, in US dollars.
    pub cost: f64,
    /// Number of requests whose cost is estimated.
    pub estimated: u64,
    /// Number of requests whose cost is unknown.
    pub unpriced: u64,
}

impl UsageSum {
    /// Adds another sum.
    pub fn add(&mut self, other: &UsageSum) {
        self.requests += other.requests;
        self.failures += other.failures;
        self.input += other.input;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.output += other.output;
        self.reasoning += other.reasoning;
        self.cost += other.cost;
        self.estimated += other.estimated;
        self.unpriced += other.unpriced;
    }
}

/// The model, provider and pack that answers have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct UsageSource {
    /// Name of the model in the configuration.
    pub model: String,
    /// Host of the provider; empty in records of older versions.
    pub provider: String,
    /// Name of the prompt pack; empty without one.
    pub pack: String,
}

/// Usage of the selected days.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageStats {
    /// The sum of all.
    pub total: UsageSum,
    /// By day, `2026-11-22`.
    pub days: HashMap<String, UsageSum>,
    /// By model.
    pub models: HashMap<String, UsageSum>,
    /// By host of the provider.
    pub providers: HashMap<String, UsageSum>,
    /// By session; empty for requests outside of sessions.
    pub sessions: HashMap<String, UsageSum>,
    /// By prompt pack; empty without one.
    pub packs: HashMap<String, UsageSum>,
}

/// Tables of the sums. The file is part of the key, so that the rows of a removed file can be deleted. A day is counted
/// from the year 1 (`Datelike::num_days_from_ce`).
pub(super) const TABLES: &str = "
CREATE TABLE usage_source (
  id INTEGER PRIMARY KEY,
  model TEXT NOT NULL,
  provider TEXT NOT NULL,
  pack TEXT NOT NULL,
  UNIQUE (model, provider, pack)
);
CREATE TABLE usage (
  file INTEGER NOT NULL,
  day INTEGER NOT NULL,
  session INTEGER NOT NULL,
  source INTEGER NOT NULL,
  requests INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  input INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  output INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  cost REAL NOT NULL,
  estimated INTEGER NOT NULL,
  unpriced INTEGER NOT NULL,
  PRIMARY KEY (file, day, session, source)
) WITHOUT ROWID;
";

/// Adds sums to the table, and remembers the values that the next one probably needs.
#[derive(Debug, Default)]
pub(super) struct UsageWriter {
    sources: HashMap<UsageSource, i64>,
    /// The last quarter of an hour and its day: no zone changes its day within one.
    last: (u64, i32),
}

impl UsageWriter {
    /// Adds a sum to the row of its day; `session` is 0 outside of sessions.
    pub(super) fn add(
        &mut self,
        db: &Connection,
        (file, session, at_ms): (i64, i64, u64),
        source: &UsageSource,
        sum: &UsageSum,
    ) -> IndexResult<()> {
        let source = match self.sources.get(source) {
            Some(id) => *id,
            None => {
                // The update returns the id of a row that exists.
                let mut insert = db.prepare_cached(
                    "INSERT INTO usage_source (model, provider, pack) VALUES (?, ?, ?)
                     ON CONFLICT DO UPDATE SET pack = excluded.pack RETURNING id",
                )?;
                let names = params![source.model, source.provider, source.pack];
                let id = insert.query_row(names, |row| row.get(0))?;
                self.sources.insert(source.clone(), id);
                id
            }
        };
        let mut insert = db.prepare_cached(
            "INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET
               requests = requests + excluded.requests, failures = failures + excluded.failures,
               input = input + excluded.input, cache_read = cache_read + excluded.cache_read,
               cache_write = cache_write + excluded.cache_write, output = output + excluded.output,
               reasoning = reasoning + excluded.reasoning, cost = cost + excluded.cost,
               estimated = estimated + excluded.estimated, unpriced = unpriced + excluded.unpriced",
        )?;
        insert.execute(params![
            file,
            self.day(at_ms),
            session,
            source,
            sum.requests.cast_signed(),
            sum.failures.cast_signed(),
            sum.input.cast_signed(),
            sum.cache_read.cast_signed(),
            sum.cache_write.cast_signed(),
            sum.output.cast_signed(),
            sum.reasoning.cast_signed(),
            sum.cost,
            sum.estimated.cast_signed(),
            sum.unpriced.cast_signed(),
        ])?;
        Ok(())
    }

    fn day(&mut self, at_ms: u64) -> i32 {
        let quarter = at_ms / QUARTER_MS + 1;
        if self.last.0 != quarter {
            self.last = (quarter, local_day(at_ms).num_days_from_ce());
        }
        self.last.1
    }
}

/// Returns the day of a time in the local zone.
pub fn local_day(at_ms: u64) -> NaiveDate {
    let at = i64::try_from(at_ms).unwrap_or(i64::MAX);
    let at = Local.timestamp_millis_opt(at).single();
    at.map_or(NaiveDate::MAX, |at| at.date_naive())
}

impl Index {
    /// Returns the usage from `first` to `last`, both included, in one session or in all.
    ///
    /// # Errors
    /// The index cannot be used.
    pub fn usage(
        &mut self,
        first: NaiveDate,
        last: NaiveDate,
        session: Option<&str>,
    ) -> Result<UsageStats> {
        self.ask(|index| {
            // Summed by the ids, as there may be many rows; few of them have a name of their own.
            let mut days: HashMap<i64, UsageSum> = HashMap::new();
            let mut sessions: HashMap<i64, UsageSum> = HashMap::new();
            let mut sources: HashMap<i64, UsageSum> = HashMap::new();
            let mut select = index.db.prepare(
                "SELECT day, session, source, requests, failures, input, cache_read, cache_write, output, reasoning, cost,
                   estimated, unpriced
                 FROM usage WHERE day >= ?1 AND day <= ?2
                   AND (?3 IS NULL OR session = (SELECT id FROM session WHERE name = ?3))",
            )?;
            let bounds = params![first.num_days_from_ce(), last.num_days_from_ce(), session];
            let mut rows = select.query(bounds)?;
            while let Some(row) = rows.next()? {
                let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
                let sum = UsageSum {
                    requests: number(3)?,
                    failures: number(4)?,
                    input: number(5)?,
                    cache_read: number(6)?,
                    cache_write: number(7)?,
                    output: number(8)?,
                    reasoning: number(9)?,
                    cost: row.get(10)?,
                    estimated: number(11)?,
                    unpriced: number(12)?,
                };
                days.entry(row.get(0)?).or_default().add(&sum);
                sessions.entry(row.get(1)?).or_default().add(&sum);
                sources.entry(row.get(2)?).or_default().add(&sum);
            }
            let mut stats = UsageStats::default();
            for (day, sum) in days {
                let day = i32::try_from(day).ok().and_then(NaiveDate::from_num_days_from_ce_opt);
                let day = day.map_or(String::new(), |day| day.to_string());
                stats.total.add(&sum);
                stats.days.entry(day).or_default().add(&sum);
            }
            let mut name = index.db.prepare("SELECT name FROM session WHERE id = ?")?;
            for (id, sum) in sessions {
                let name = match id {
                    0 => String::new(),
                    id => name.query_row([id], |row| row.get(0))?,
                };
                stats.sessions.entry(name).or_default().add(&sum);
            }
            let names = "SELECT model, provider, pack FROM usage_source WHERE id = ?";
            let mut names = index.db.prepare(names)?;
            for (id, sum) in sources {
                let (model, provider, pack) =
                    names.query_row([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
                stats.models.entry(model).or_default().add(&sum);
                stats.providers.entry(provider).or_default().add(&sum);
                stats.packs.entry(pack).or_default().add(&sum);
            }
            Ok(stats)
        })
    }
}
