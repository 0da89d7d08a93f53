//! Redaction: everything that is stored, sent to a model or exported passes through here; `[REDACTED:kind]` replaces
//! each secret.
//!
//! Two stages. The first finds known values: the keys and tokens that this process holds, in the encodings in which
//! they occur. The second finds known formats (`rules`): what keys of common vendors look like, and what follows
//! `password=`.
//!
//! Both decide on a position by its surroundings (`BACK` bytes before, `AHEAD` bytes after), independent of how the
//! text was split. A stream therefore needs a buffer of at most that size, and its output equals that for the whole
//! text.

mod cut_key;
mod folded;
mod known;
mod rest;
mod rules;
mod stage;
mod unfinished;
mod value_class;
mod word_parts;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use known::KnownValues;
pub use rest::{RestPlace, SecretStart, is_joined_name, may_be_value, rest_of_secret};
use rules::{FormatRules, TableState};
use serde_json::Value;
use stage::{RedactStage, StagePiece};

/// How far before a position a stage looks. A secret begins at most this far before the keyword that identifies it.
const BACK: usize = 256;

/// How far after a position a stage looks. A longer secret is skipped to its end without being buffered.
const AHEAD: usize = 16 << 10;

/// The rules, built on first use.
static RULES: LazyLock<FormatRules> = LazyLock::new(FormatRules::new);

/// The redactor of this process.
static GLOBAL: LazyLock<Redactor> = LazyLock::new(Redactor::default);

/// Returns the redactor of this process. There is only one, so that every output path knows the same values.
pub fn global_redactor() -> &'static Redactor {
    &GLOBAL
}

/// A secret in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSecret {
    /// Its position, in bytes.
    pub range: Range<usize>,
    /// Kind of secret: `github-token`, `password`, or the name of a known value.
    pub kind: Arc<str>,
}

impl FoundSecret {
    /// Returns its replacement.
    pub fn mark(&self) -> String {
        mark(&self.kind)
    }
}

/// Finds and replaces secrets. Clones share their known values.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Arc<KnownValues>>>,
}

impl Redactor {
    /// Builds the rules in advance, so that the first use is not delayed.
    pub fn prebuild() {
        LazyLock::force(&RULES);
    }

    /// Adds a value that is redacted from now on. Ignores values that would destroy ordinary text: those shorter than
    /// eight characters, common words, paths and plain numbers. `kind` appears in the mark; it may contain letters,
    /// digits, `-`, `_` and `.`.
    pub fn add_secret(&self, kind: &str, value: &str) {
        self.add(None, kind, value);
    }

    /// Same as [`Redactor::add_secret`], for a value that is renewed: it replaces the previous value of `slot` and is never
    /// evicted.
    pub fn replace_secret(&self, slot: &str, kind: &str, value: &str) {
        self.add(Some(slot), kind, value);
    }

    fn add(&self, slot: Option<&str>, kind: &str, value: &str) {
        if !known::is_redactable(value) {
            return;
        }
        loop {
            let before = self.known_values();
            if before.contains(slot, value) {
                return;
            }
            // Building the automaton takes long, and readers need the lock.
            let after = Arc::new(before.with(slot, kind, value));
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            if Arc::ptr_eq(&known, &before) {
                *known = after;
                return;
            }
        }
    }

    /// Adds the value of an environment variable, most of which are not secret: its name must indicate a
    /// secret, or its value must look like one.
    pub fn add_variable(&self, kind: &str, name: &str, value: &str) {
        if known::names_secret(name) || value_class::is_random(value.as_bytes()) {
            self.add_secret(kind, value);
        }
    }

    /// Adds the value of a variable of a shell's environment whose name indicates a secret. Ignores values that consist of
    /// words, such as the name of another variable, unless the name says that it is a password.
    pub fn add_shell_variable(&self, name: &str, value: &str) {
        let upper = name.to_ascii_uppercase();
        let is_password = ["PASS", "PWD"].iter().any(|word| upper.contains(word));
        if known::names_secret(name)
            && (is_password || !value_class::is_identifier(value.as_bytes()))
        {
            self.add_secret("shell-variable", value);
        }
    }

    /// Adds the secrets that are found in a text by their form, so that they are found everywhere from now on: a program may print
    /// them after anything. Ignores those that consist of words.
    pub fn add_found(&self, text: &str) {
        for FoundSecret { range, kind } in self.find(text) {
            let value = text.get(range).unwrap_or_default();
            let is_format = || RULES.at(value.as_bytes(), 0, true).is_some();
            if value_class::is_random(value.as_bytes()) || is_format() {
                self.add_secret(&kind, value);
            }
        }
    }

    /// Same as [`Redactor::add_variable`], but replaces the previous value of `slot`; see [`Redactor::replace_secret`].
    pub fn replace_variable(&self, slot: &str, kind: &str, name: &str, value: &str) {
        if known::names_secret(name) || value_class::is_random(value.as_bytes()) {
            self.replace_secret(slot, kind, value);
        }
    }

    /// Number of values added so far. While it is unchanged, a text in which no secret was found need not be searched
    /// again.
    pub fn value_count(&self) -> u64 {
        self.known_values().added
    }

    /// Returns `text` with a mark in place of each secret.
    pub fn redact<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let found = self.find(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for FoundSecret { range, kind } in found {
            out.push_str(text.get(at..range.start).unwrap_or_default());
            out.push_str(&mark(&kind));
            at = range.end;
        }
        out.push_str(text.get(at..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Same as [`Redactor::redact`], for JSON: the result is valid JSON, and escapes in a string do not hide a secret.
    pub fn redact_json<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Ok(mut value) = serde_json::from_str::<Value>(text) else {
            return self.redact(text);
        };
        // First as text, where a name such as `password` precedes its value; then each unescaped string by itself.
        let redacted = self.redact(text);
        let mut is_rewritten = false;
        if let Cow::Owned(redacted) = &redacted {
            value = serde_json::from_str(redacted).unwrap_or_else(|_| {
                // The mark replaced a number or half an escape: without escapes, or as one string.
                is_rewritten = true;
                let plain = self.redact(&value.to_string()).into_owned();
                serde_json::from_str(&plain).unwrap_or(Value::String(plain))
            });
        }
        match self.redact_value(&mut value) | is_rewritten {
            true => Cow::Owned(value.to_string()),
            false => redacted,
        }
    }

    /// Redacts every string in `value`. Returns whether anything was redacted.
    pub fn redact_value(&self, value: &mut Value) -> bool {
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

    /// Returns the secrets in `text` in order, without overlaps.
    pub fn find(&self, text: &str) -> Vec<FoundSecret> {
        #[cfg(test)]
        tests::INSPECTED.with(|n| n.set(n.get() + text.len()));
        if self.known_values().is_empty() && !RULES.may_match(text.as_bytes()) {
            return Vec::new();
        }
        let mut stream = self.stream();
        let mut out = Vec::new();
        // In chunks that stay in the CPU cache.
        for piece in text.as_bytes().chunks(64 << 10) {
            out.clear();
            stream.push(piece, &mut out);
        }
        stream.finish(&mut out);
        stream.take_found()
    }

    /// Redacts the two ends of a text whose middle was dropped. Removes both halves of a secret that was cut. A table of the head
    /// goes on in the tail.
    pub fn redact_ends(&self, head: &str, tail: &str) -> (String, String) {
        let known = self.known_values();
        let mut out = Vec::new();
        let mut before = self.stream();
        let lines = head.rfind('\n').map_or(0, |at| at + 1);
        before.push(&head.as_bytes()[..lines], &mut out);
        before.finish(&mut out);
        let cut = rules::cut_start(tail, &known);
        let (tables, row) = before.formats.state.after_gap(tail.as_bytes());
        let start = cut.max(row);
        let mut behind = self.stream();
        behind.formats.state = tables;
        out.clear();
        behind.push(tail.get(start..).unwrap_or_default().as_bytes(), &mut out);
        behind.finish(&mut out);
        let rest = String::from_utf8_lossy(&out);
        let cut = match start {
            0 => String::new(),
            _ if row > cut => mark("cut") + "\n",
            _ => mark("cut"),
        };
        (self.redact_unfinished(head), cut + &rest)
    }

    /// Returns where an unfinished text must be cut so that it does not end within a known value, a key of a
    /// known format, or the password of a URL.
    pub fn certain_end(&self, text: &[u8]) -> usize {
        rules::cut_end(text, &self.known_values())
    }

    /// Returns a streaming redactor for text that arrives in chunks. Uses the values known at this time.
    pub fn stream(&self) -> RedactStream {
        RedactStream {
            known: self.known_values(),
            values: RedactStage::default(),
            formats: RedactStage::default(),
            between: Vec::new(),
            shifts: OffsetMap::default(),
            found: Vec::new(),
        }
    }

    fn known_values(&self) -> Arc<KnownValues> {
        self.known
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// What the mark of a secret begins with, before its kind.
pub const MARK_START: &str = "[REDACTED:";

fn mark(kind: &str) -> String {
    format!("{MARK_START}{kind}]")
}

/// Returns the length of the mark at the start of a text; `None` if there is none.
pub fn mark_length(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(MARK_START)?;
    let is_kind = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let kind = rest.len() - rest.trim_start_matches(is_kind).len();
    let is_closed = rest.get(kind..)?.starts_with(']');
    is_closed.then_some(MARK_START.len() + kind + 1)
}

/// Streaming redactor. Works on bytes; invalid UTF-8 passes unchanged.
#[derive(Debug, Clone)]
pub struct RedactStream {
    known: Arc<KnownValues>,
    values: RedactStage,
    formats: RedactStage<TableState>,
    /// Output of the first stage and input of the second.
    between: Vec<u8>,
    shifts: OffsetMap,
    found: Vec<FoundSecret>,
}

impl RedactStream {
    /// Processes a chunk and appends the text decided so far to `out`.
    pub fn push(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        self.step(piece, false, out);
    }

    /// Ends the text and appends the rest to `out`. Nothing may be pushed afterwards.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.step(&[], true, out);
    }

    /// Appends what follows the text that was appended so far and is settled: nothing that may be pushed changes it. To show
    /// text early; the next push appends it again.
    pub fn peek(&self, out: &mut Vec<u8>) {
        let known = &*self.known;
        let mut between = Vec::new();
        self.values.peek(
            known,
            &[],
            |(), text, _, _| known.open_at_end(text),
            &mut |piece| match piece {
                StagePiece::Text(text) => between.extend_from_slice(text),
                StagePiece::Mark(_, kind) => between.extend_from_slice(mark(&kind).as_bytes()),
            },
        );
        let settled =
            |tables: &TableState, text: &[u8], base, from| RULES.settled(tables, text, base, from);
        self.formats
            .peek(&*RULES, &between, settled, &mut |piece| match piece {
                StagePiece::Text(text) => out.extend_from_slice(text),
                StagePiece::Mark(_, kind) => out.extend_from_slice(mark(&kind).as_bytes()),
            });
    }

    /// Returns the secrets found since the last call, in order, with positions in the input.
    pub fn take_found(&mut self) -> Vec<FoundSecret> {
        std::mem::take(&mut self.found)
    }

    /// Everything that begins before this position in the input has been found.
    pub fn searched_to(&self) -> usize {
        self.shifts.input_offset(self.formats.processed())
    }

    fn step(&mut self, piece: &[u8], last: bool, out: &mut Vec<u8>) {
        let RedactStream {
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
                StagePiece::Text(text) => between.extend_from_slice(text),
                StagePiece::Mark(range, kind) => {
                    let mark = mark(&kind);
                    between.extend_from_slice(mark.as_bytes());
                    shifts.add(FoundSecret { range, kind }, mark.len());
                }
            });
            between
        };
        formats.push(&*RULES, input, last, &mut |piece| match piece {
            StagePiece::Text(text) => out.extend_from_slice(text),
            StagePiece::Mark(range, kind) => {
                out.extend_from_slice(mark(&kind).as_bytes());
                let range = shifts.input_range(range, found);
                found.push(FoundSecret { range, kind });
            }
        });
        shifts.advance_to(formats.processed(), found);
    }
}

/// Redacts text line by line without delay, for logs. Only private keys span lines there.
#[derive(Debug, Default)]
pub struct LineRedactor {
    /// Maximum number of further lines that may belong to a private key; 0 outside of one.
    key: usize,
}

impl LineRedactor {
    /// Redacts one line without its line end; `None` if the whole line is part of a secret.
    pub fn line<'t>(&mut self, redactor: &Redactor, line: &'t str) -> Option<Cow<'t, str>> {
        /// More than the number of lines of the longest key.
        const MAX_KEY_LINES: usize = 400;
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
        self.key = MAX_KEY_LINES;
        let before = redactor.redact(line.get(..at).unwrap_or_default());
        Some(Cow::Owned(before.into_owned() + &mark("private-key")))
    }
}

/// Positions of the marks of the first stage, to map the findings of the second stage to positions in the input.
#[derive(Debug, Clone, Default)]
struct OffsetMap {
    /// Values that the second stage has not passed yet, with the start and end of their mark in the output of the first
    /// stage.
    pending: std::collections::VecDeque<(FoundSecret, usize, usize)>,
    /// End of the last value: in the input and in the output of the first stage.
    last_added: (usize, usize),
    /// Same, for the last value that the second stage has passed.
    last_passed: (usize, usize),
}

impl OffsetMap {
    fn add(&mut self, value: FoundSecret, mark: usize) {
        let start = self.last_added.1 + (value.range.start - self.last_added.0);
        let end = start + mark;
        self.last_added = (value.range.end, end);
        self.pending.push_back((value, start, end));
    }

    /// Maps a position in the output of the first stage to the input; a position within a mark to the start of its
    /// value.
    fn input_offset(&self, output: usize) -> usize {
        let input = self.last_passed.0 + (output - self.last_passed.1);
        self.pending
            .front()
            .map_or(input, |(value, ..)| input.min(value.range.start))
    }

    /// Records that the second stage has processed everything before `at`.
    fn advance_to(&mut self, at: usize, found: &mut Vec<FoundSecret>) {
        while self.pending.front().is_some_and(|(_, _, end)| *end <= at) {
            if let Some((value, _, end)) = self.pending.pop_front() {
                self.last_passed = (value.range.end, end);
                found.push(value);
            }
        }
    }

    /// Maps a range of the second stage to the input. Known values within it become part of it.
    fn input_range(&mut self, range: Range<usize>, found: &mut Vec<FoundSecret>) -> Range<usize> {
        self.advance_to(range.start, found);
        let (input, output) = self.last_passed;
        let start = input + (range.start - output);
        let mut inside = Vec::new();
        self.advance_to(range.end, &mut inside);
        let (input, output) = self.last_passed;
        start..input + (range.end - output)
    }
}

#[cfg(test)]
pub(crate) mod tests;
