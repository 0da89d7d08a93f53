//! The amounts spent on requests to models, and those reserved for running requests. Shared by all shells; a file in the
//! state directory keeps it over restarts of the daemon.
//!
//! With a budget, a reservation is synced to the disk before its request is sent. One that was never settled, because the
//! daemon was killed, counts as spent.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Datelike, Days, Local, NaiveDate};
use serde::{Deserialize, Serialize};

use super::ordered_writes::OrderedWrites;
use crate::error::{Error, ErrorContext, Result};
use crate::paths;
use crate::safety::budget::{self, Amounts, BudgetRefusal, RequestBound, SpendingPermit};
use crate::session::lock;

/// Name of the file in the state directory.
const FILE: &str = "spending.jsonl";
/// Days for which amounts are kept. Longer than a month, and as long as a session usually lasts.
const KEPT_DAYS: u64 = 92;
/// Size from which the file is replaced by its sums, in bytes. Sums of more than half of it wait until the file has twice their size.
const MAX_BYTES: u64 = 1 << 20;

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct SpendingLine {
    day: NaiveDate,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    session: String,
    usd: f64,
    /// The reservation that this line opens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    opens: Option<String>,
    /// The reservation that this line replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settles: Option<String>,
}

/// The amounts of one daemon.
#[derive(Debug)]
pub struct Spending {
    path: PathBuf,
    ledger: Arc<Mutex<Ledger>>,
    writes: OrderedWrites,
}

/// Amounts in US dollars, including reservations.
#[derive(Debug, Default)]
struct Ledger {
    /// `None` before the first use.
    file: Option<File>,
    /// Another file has taken the place of `file`, which could not be opened.
    is_replaced: bool,
    /// Length of the file from which it is replaced by its sums.
    compact_from: u64,
    /// By day and session.
    amounts: BTreeMap<NaiveDate, HashMap<String, f64>>,
    /// By id.
    open: HashMap<String, (NaiveDate, String, f64)>,
}

/// An amount that is reserved for a request. Dropped without being settled, it counts as spent.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    /// The permit for the request.
    pub permit: SpendingPermit,
    id: Option<String>,
    session: String,
}

/// Why no amount was reserved.
#[derive(Debug)]
pub enum ReserveError {
    /// The budget does not allow the request.
    Refused(BudgetRefusal),
    /// The file cannot be read or written.
    File(Error),
}

impl Spending {
    /// Creates the ledger. Its file is read at the first use.
    pub fn new(state: &Path) -> Spending {
        Spending {
            path: state.join(FILE),
            ledger: Arc::default(),
            writes: OrderedWrites::default(),
        }
    }

    /// Reserves what a request can cost at most. Blocks on the disk if there is a budget. `prompt` is what the prompt has
    /// spent so far.
    ///
    /// # Errors
    /// The budget does not allow the request, or the reservation cannot be stored.
    pub fn reserve(
        &self,
        limits: &Amounts<Option<f64>>,
        session: &str,
        prompt: f64,
        bound: RequestBound<'_>,
    ) -> std::result::Result<Reservation, ReserveError> {
        let now = Local::now();
        let refused = ReserveError::Refused;
        if limits.iter().all(Option::is_none) {
            return Ok(Reservation {
                permit: budget::decide(limits, &[0.0; 4], bound).map_err(refused)?,
                id: None,
                session: session.to_owned(),
            });
        }
        // Before the lock: a settlement that waits in the queue takes it.
        self.writes.finish();
        let mut ledger = lock(&self.ledger);
        ledger
            .open_file(&self.path, now)
            .map_err(ReserveError::File)?;
        let spent = ledger.spent(session, prompt, now);
        let permit = budget::decide(limits, &spent, bound).map_err(refused)?;
        let id = uuid::Uuid::now_v7().to_string();
        let line = SpendingLine {
            day: now.date_naive(),
            session: session.to_owned(),
            usd: permit.reserved(),
            opens: Some(id.clone()),
            settles: None,
        };
        ledger
            .append(&self.path, &line, true)
            .map_err(ReserveError::File)?;
        ledger.add(line);
        Ok(Reservation {
            permit,
            id: Some(id),
            session: session.to_owned(),
        })
    }

    /// Returns the permit that [`Spending::reserve`] would give now. Nothing is reserved. Blocks on the disk if there is a budget.
    ///
    /// # Errors
    /// As for [`Spending::reserve`].
    pub fn permit(
        &self,
        limits: &Amounts<Option<f64>>,
        session: &str,
        bound: RequestBound<'_>,
    ) -> std::result::Result<SpendingPermit, ReserveError> {
        let spent = if limits.iter().all(Option::is_none) {
            [0.0; 4]
        } else {
            self.writes.finish();
            let (mut ledger, now) = (lock(&self.ledger), Local::now());
            let opened = ledger.open_file(&self.path, now);
            opened.map_err(ReserveError::File)?;
            ledger.spent(session, 0.0, now)
        };
        budget::decide(limits, &spent, bound).map_err(ReserveError::Refused)
    }

    /// Replaces a reservation by the cost of the request. Does not block.
    pub fn settle(&self, reservation: Reservation, cost: f64) {
        let Reservation { id, session, .. } = reservation;
        if id.is_none() && cost == 0.0 {
            return;
        }
        let line = SpendingLine {
            day: Local::now().date_naive(),
            session,
            usd: cost,
            opens: None,
            settles: id,
        };
        let (ledger, path) = (self.ledger.clone(), self.path.clone());
        self.writes.push(move || {
            let mut ledger = lock(&ledger);
            let opened = ledger.open_file(&path, Local::now());
            let written = opened.and_then(|()| ledger.append(&path, &line, false));
            if let Err(e) = written {
                tracing::warn!("{}", e.message);
            }
            // Counts for this daemon also if it cannot be stored.
            ledger.add(line);
        });
    }

    /// Returns the amount that a session has spent, including reservations. Blocks while something is being written.
    pub fn session(&self, session: &str) -> f64 {
        self.writes.finish();
        let mut ledger = lock(&self.ledger);
        match ledger.open_file(&self.path, Local::now()) {
            Ok(()) => ledger.of_session(session),
            Err(e) => {
                tracing::warn!("{}", e.message);
                0.0
            }
        }
    }
}

impl Ledger {
    fn spent(&self, session: &str, prompt: f64, now: DateTime<Local>) -> Amounts<f64> {
        let today = now.date_naive();
        let of = |sessions: &HashMap<String, f64>| sessions.values().sum::<f64>();
        let month_begins = today.with_day(1).unwrap_or(today);
        [
            prompt,
            self.of_session(session),
            self.amounts.get(&today).map_or(0.0, of),
            self.amounts.range(month_begins..).map(|(_, a)| of(a)).sum(),
        ]
    }

    /// Requests outside of sessions share no limit of one.
    fn of_session(&self, session: &str) -> f64 {
        if session.is_empty() {
            return 0.0;
        }
        let days = self.amounts.values();
        days.filter_map(|sessions| sessions.get(session)).sum()
    }

    fn add(&mut self, line: SpendingLine) {
        if let Some((day, session, usd)) = line.settles.and_then(|id| self.open.remove(&id)) {
            *self.amount(day, &session) -= usd;
        }
        *self.amount(line.day, &line.session) += line.usd;
        if let Some(id) = line.opens {
            self.open.insert(id, (line.day, line.session, line.usd));
        }
    }

    fn amount(&mut self, day: NaiveDate, session: &str) -> &mut f64 {
        let sessions = self.amounts.entry(day).or_default();
        sessions.entry(session.to_owned()).or_default()
    }

    fn append(&mut self, path: &Path, line: &SpendingLine, sync: bool) -> Result<()> {
        let what = || format!("cannot write {}", path.display());
        let mut text = serde_json::to_vec(line).context(what)?;
        text.push(b'\n');
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut length = file.metadata().context(what)?.len();
        if length > self.compact_from {
            // The lines stay readable where they cannot be replaced.
            if let Err(e) = self.compact(path) {
                tracing::warn!("{}", e.message);
                self.compact_from = 2 * length;
            }
        }
        self.reopen(path)?;
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        length = file.metadata().context(what)?.len();
        // One write, so that a killed daemon leaves whole lines.
        let written = file.write_all(&text);
        let written = written.and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        written
            // A part of a line would make the next line unreadable too.
            .inspect_err(|_| drop(file.set_len(length)))
            .context(what)
    }

    /// Replaces the file by the sums of its lines and the open reservations.
    fn compact(&mut self, path: &Path) -> Result<()> {
        let sums = self.sums();
        // Before, because a replacement that fails may have taken its place already. Otherwise the same file is opened again.
        self.is_replaced = true;
        paths::replace_file(path, &sums)?;
        self.compact_from = MAX_BYTES.max(2 * sums.len() as u64);
        self.reopen(path)
    }

    /// Opens the file that has taken the place of the open one. Until that succeeds nothing is appended.
    fn reopen(&mut self, path: &Path) -> Result<()> {
        if self.is_replaced {
            let file = paths::open_own(OpenOptions::new().append(true), path);
            self.file = Some(file.context(|| format!("cannot use {}", path.display()))?);
            self.is_replaced = false;
        }
        Ok(())
    }

    /// Reads the file at the first use and opens it for appending.
    fn open_file(&mut self, path: &Path, now: DateTime<Local>) -> Result<()> {
        if self.file.is_some() {
            return Ok(());
        }
        let failed = || format!("cannot use {}", path.display());
        let mut options = OpenOptions::new();
        let file = paths::open_own(options.read(true).append(true).create(true), path);
        let mut file = file.context(failed)?;
        let text = std::io::read_to_string(&file).context(failed)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n").context(failed)?;
        }
        // Nothing below fails: after a failure the lines would be read and added again.
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(line) => self.add(line),
                Err(e) => tracing::warn!("{}: a line cannot be read: {e}", path.display()),
            }
        }
        // Nobody will settle the reservations of an earlier daemon.
        self.open.clear();
        let oldest = now.date_naive().checked_sub_days(Days::new(KEPT_DAYS));
        self.amounts
            .retain(|day, _| oldest.is_none_or(|oldest| *day >= oldest));
        let length = text.len() as u64;
        self.file = Some(file);
        self.compact_from = MAX_BYTES;
        if length > MAX_BYTES
            && let Err(e) = self.compact(path)
        {
            tracing::warn!("{}", e.message);
            self.compact_from = 2 * length;
        }
        Ok(())
    }

    /// One line per day and session, and one per open reservation.
    fn sums(&self) -> Vec<u8> {
        let mut settled = self.amounts.clone();
        for (day, session, usd) in self.open.values() {
            let sessions = settled.entry(*day).or_default();
            *sessions.entry(session.clone()).or_default() -= usd;
        }
        let mut text = Vec::new();
        let mut push = |day: &NaiveDate, session: &str, usd: f64, opens: Option<&String>| {
            let line = SpendingLine {
                day: *day,
                session: session.to_owned(),
                usd,
                opens: opens.cloned(),
                settles: None,
            };
            // A line is always written as JSON.
            text.extend(serde_json::to_vec(&line).unwrap_or_default());
            text.push(b'\n');
        };
        for (day, sessions) in &settled {
            for (session, usd) in sessions {
                push(day, session, *usd, None);
            }
        }
        for (id, (day, session, usd)) in &self.open {
            push(day, session, *usd, Some(id));
        }
        text
    }
}

#[cfg(test)]
mod tests;
