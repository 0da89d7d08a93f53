//! Secrets taken out of text: what is written, shown to a model or exported goes through here, and `[REDACTED:kind]`
//! stands where a secret stood.
//!
//! Two stages. The first knows values: the keys and tokens that the helper holds, in the spellings in which they travel.
//! The second knows formats (`rules`): what keys of the known vendors look like, and what stands behind `password=`.
//!
//! Both decide on a place by what stands close to it (`BACK` before, `AHEAD` after), and never by how the text came
//! in pieces. So a [`Stream`] needs a buffer of that size at most, and what it gives is what the whole text would give.

mod filter;
mod known;
mod rules;
mod shape;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use filter::{Filter, Piece};
use known::Known;
use rules::Rules;

/// How far before a place a stage looks. A secret begins no further before the word by which it was noticed.
const BACK: usize = 64;

/// How far behind a place a stage looks. A longer secret is swallowed to its end, without being held.
const AHEAD: usize = 16 << 10;

/// The rules, built at first use.
static RULES: LazyLock<Rules> = LazyLock::new(Rules::new);

/// What this process knows.
static OURS: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// The redactor of this process. There is one: whatever is written from anywhere goes through the same, and nobody can have
/// been handed one that knows less.
pub fn ours() -> &'static Redactor {
    &OURS
}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it stands, in bytes.
    pub range: Range<usize>,
    /// What it is: `github-token`, `password`, the name under which a value is known.
    pub kind: Arc<str>,
}

/// What takes secrets out. Clones know the same values.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Arc<Known>>>,
}

impl Redactor {
    /// Builds the rules, so that whoever is first to need them does not wait for it.
    pub fn warm() {
        LazyLock::force(&RULES);
    }

    /// From now on `value` is taken out wherever it stands. Values that would shred ordinary text are not learned:
    /// those of fewer than eight characters, ordinary words, paths and plain numbers. `kind` is what the mark says,
    /// in letters, digits, `-`, `_` and `.`.
    pub fn know(&self, kind: &str, value: &str) {
        if !known::worth(value) {
            return;
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !known.has(value) {
            *known = Arc::new(known.with(kind, value));
        }
    }

    /// As [`Redactor::know`], for a variable of an environment, most of which are no secrets: its name must speak of
    /// one, or its value look like one.
    pub fn know_variable(&self, kind: &str, name: &str, value: &str) {
        if known::speaks_of_secret(name) || shape::random(value.as_bytes()) {
            self.know(kind, value);
        }
    }

    /// How many values have been learned. While this stays, what was found to have no secret has none.
    pub fn learned(&self) -> u64 {
        self.now().learned
    }

    /// `text` with a mark in the place of each secret.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for Found { range, kind } in found {
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str(&mark(&kind));
            at = range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// As [`Redactor::redact`]; what was JSON stays JSON, and a secret is found however its string is escaped.
    pub fn redact_json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Ok(mut value) = serde_json::from_str(text) else {
            return self.redact(text);
        };
        // With the names in front of the values first; then each string by itself.
        let redacted = self.redact(text);
        if let Cow::Owned(redacted) = &redacted
            && let Ok(still) = serde_json::from_str(redacted)
        {
            value = still;
        }
        match self.redact_value(&mut value) {
            true => Cow::Owned(value.to_string()),
            false => redacted,
        }
    }

    /// Redacts every string in `value`, also what is given to a name that speaks of a secret. Whether there was anything.
    pub fn redact_value(&self, value: &mut serde_json::Value) -> bool {
        use serde_json::Value;
        match value {
            Value::String(text) => match self.redact(text) {
                Cow::Owned(redacted) => {
                    *text = redacted;
                    true
                }
                Cow::Borrowed(_) => false,
            },
            Value::Array(items) => items
                .iter_mut()
                .fold(false, |any, v| self.redact_value(v) | any),
            Value::Object(fields) => fields
                .values_mut()
                .fold(false, |any, v| self.redact_value(v) | any),
            _ => false,
        }
    }

    /// The secrets in `text`, in order; none touches another.
    pub fn find(&self, text: &str) -> Vec<Found> {
        if self.now().is_empty() && !RULES.may_match(text.as_bytes()) {
            return Vec::new();
        }
        let mut stream = self.stream();
        let mut out = Vec::new();
        // In pieces that stay in the cache.
        for piece in text.as_bytes().chunks(64 << 10) {
            out.clear();
            stream.push(piece, &mut out);
        }
        stream.finish(&mut out);
        stream.take_found()
    }

    /// The two ends of a text whose middle was left out. Where a secret was cut in two, neither half stays.
    pub fn redact_ends(&self, head: &str, tail: &str) -> (String, String) {
        let known = self.now();
        let end = rules::cut_end(head, &known);
        let start = rules::cut_start(tail, &known);
        let cut = |cut: bool| if cut { mark("cut") } else { String::new() };
        let first = self.redact(head.get(..end).unwrap_or_default());
        let rest = self.redact(tail.get(start..).unwrap_or_default());
        (
            first.into_owned() + &cut(end < head.len()),
            cut(start > 0) + &rest,
        )
    }

    /// For a text that comes in pieces. It knows what is known now.
    pub fn stream(&self) -> Stream {
        Stream {
            known: self.now(),
            values: Filter::default(),
            formats: Filter::default(),
            between: Vec::new(),
            shifts: Shifts::default(),
            found: Vec::new(),
        }
    }

    fn now(&self) -> Arc<Known> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn mark(kind: &str) -> String {
    format!("[REDACTED:{kind}]")
}

/// A text that comes in pieces, in bytes: what is no UTF-8 passes through.
#[derive(Debug)]
pub struct Stream {
    known: Arc<Known>,
    values: Filter,
    formats: Filter,
    /// What the first stage has given: the second one's input.
    between: Vec<u8>,
    shifts: Shifts,
    found: Vec<Found>,
}

impl Stream {
    /// Takes a piece, and adds to `out` what is certain by now.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.step(piece, false, out);
    }

    /// The text has ended: adds the rest to `out`. Nothing may be pushed after it.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.step(&[], true, out);
    }

    /// What was found since the last time, in order, by its place in the text that came.
    pub fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    /// All that begins before this place in the text that came has been found.
    pub fn passed(&self) -> usize {
        self.shifts.came_before(self.formats.given())
    }

    fn step(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) {
        let Stream {
            known,
            values,
            formats,
            between,
            shifts,
            found,
        } = self;
        let input = if known.is_empty() {
            piece
        } else {
            between.clear();
            values.push(&**known, piece, last, &mut |piece| match piece {
                Piece::Text(text) => between.extend_from_slice(text),
                Piece::Mark(range, kind) => {
                    let mark = mark(&kind);
                    between.extend_from_slice(mark.as_bytes());
                    shifts.add(Found { range, kind }, mark.len());
                }
            });
            between
        };
        formats.push(&*RULES, input, last, &mut |piece| match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Mark(range, kind) => {
                out.extend_from_slice(mark(&kind).as_bytes());
                let range = shifts.before(range, found);
                found.push(Found { range, kind });
            }
        });
        shifts.until(formats.given(), found);
    }
}

/// A text that comes line by line, where each must go out at once: a log. Only a private key spans lines there.
#[derive(Debug, Default)]
pub struct Lines {
    /// Lines of a private key may follow, so many at most.
    key: usize,
}

impl Lines {
    /// A line without its end; `None` where nothing of it may stay.
    pub fn line<'t>(&mut self, redactor: &Redactor, line: &'t str) -> Option<Cow<'t, str>> {
        /// The longest key has fewer lines.
        const MOST: usize = 400;
        if self.key > 0 {
            self.key -= 1;
            let end = line.find("-----END ")?;
            self.key = 0;
            let rest = line[end + 9..].find("-----").map(|at| end + 14 + at);
            return rest
                .and_then(|at| line.get(at..))
                .filter(|rest| !rest.trim().is_empty())
                .map(|rest| redactor.redact(rest));
        }
        let begun = line
            .rfind("-----BEGIN ")
            .filter(|at| line[*at..].contains("PRIVATE KEY") && !line[*at..].contains("-----END "));
        let Some(at) = begun else {
            return Some(redactor.redact(line));
        };
        self.key = MOST;
        let before = redactor.redact(line.get(..at).unwrap_or_default());
        Some(Cow::Owned(before.into_owned() + &mark("private-key")))
    }
}

/// Where the marks of the first stage stand, so that what the second one finds can be told by its place in the text that came.
#[derive(Debug, Default)]
struct Shifts {
    /// Values with the start and the end of their mark in what the first stage gave; the second stage has not passed them.
    ahead: std::collections::VecDeque<(Found, usize, usize)>,
    /// The last one's end: in the text that came, and in what the first stage gave.
    came: (usize, usize),
    /// The same of the last one that the second stage has passed.
    past: (usize, usize),
}

impl Shifts {
    fn add(&mut self, value: Found, mark: usize) {
        let start = self.came.1 + (value.range.start - self.came.0);
        let end = start + mark;
        self.came = (value.range.end, end);
        self.ahead.push_back((value, start, end));
    }

    /// Where a place in what the first stage gave is in the text that came; of one in a mark, the value's start.
    fn came_before(&self, given: usize) -> usize {
        let came = self.past.0 + (given - self.past.1);
        self.ahead
            .front()
            .map_or(came, |(value, ..)| came.min(value.range.start))
    }

    /// The second stage has given all before `at`.
    fn until(&mut self, at: usize, found: &mut Vec<Found>) {
        while self.ahead.front().is_some_and(|(_, _, end)| *end <= at) {
            if let Some((value, _, end)) = self.ahead.pop_front() {
                self.past = (value.range.end, end);
                found.push(value);
            }
        }
    }

    /// What the second stage's `range` is in the text that came. Values in it are part of it.
    fn before(&mut self, range: Range<usize>, found: &mut Vec<Found>) -> Range<usize> {
        self.until(range.start, found);
        let (came, given) = self.past;
        let start = came + (range.start - given);
        let mut inside = Vec::new();
        self.until(range.end, &mut inside);
        let (came, given) = self.past;
        start..came + (range.end - given)
    }
}

#[cfg(test)]
mod tests;
