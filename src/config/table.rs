//! Reads a table key by key, remembers which keys were asked for, and so
//! knows at the end which ones nobody wanted.

use std::cell::RefCell;
use std::ops::RangeInclusive;

use super::rules::nearest;
use super::tree::{Entry, Node, Value};

/// A value with the line of its key.
#[derive(Debug, Clone, PartialEq)]
pub struct At<T> {
    /// What was written.
    pub value: T,
    /// Where, counted from 1.
    pub line: usize,
}

impl<T> At<T> {
    /// The same place, another value.
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> At<U> {
        At {
            value: f(self.value),
            line: self.line,
        }
    }
}

/// One thing that is wrong, before it knows its file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    pub line: usize,
    pub key: String,
    pub message: String,
}

/// Where the faults of one file are gathered.
pub(super) type Faults = RefCell<Vec<Fault>>;

/// A reader over one table of the file.
pub(super) struct Table<'t> {
    prefix: String,
    line: usize,
    entries: &'t [Entry],
    asked: Vec<&'static str>,
    faults: &'t Faults,
}

impl<'t> Table<'t> {
    /// The whole file.
    pub fn root(node: &'t Node, faults: &'t Faults) -> Option<Table<'t>> {
        Table::new(String::new(), node, 1, faults)
    }

    fn new(prefix: String, node: &'t Node, line: usize, faults: &'t Faults) -> Option<Table<'t>> {
        let Value::Table(entries) = &node.value else {
            faults.borrow_mut().push(Fault {
                line,
                key: prefix,
                message: must_be("a table", &node.value),
            });
            return None;
        };
        Some(Table {
            prefix,
            line,
            entries,
            asked: Vec::new(),
            faults,
        })
    }

    /// Where this table begins.
    pub fn line(&self) -> usize {
        self.line
    }

    /// A key of it with all its tables, as the user would write it.
    pub fn path(&self, key: &str) -> String {
        let key = shown_key(key);
        if self.prefix.is_empty() {
            key
        } else {
            format!("{}.{key}", self.prefix)
        }
    }

    /// Notes that `key` on `line` is wrong.
    pub fn fault(&self, line: usize, key: &str, message: impl Into<String>) {
        self.faults.borrow_mut().push(Fault {
            line,
            key: self.path(key),
            message: message.into(),
        });
    }

    /// Notes that a key is wrong where it stands; does nothing where it is not written.
    pub fn fault_at(&self, key: &str, message: &str) {
        if let Some(entry) = self.entries.iter().find(|e| e.key == key) {
            self.fault(entry.line, key, message);
        }
    }

    fn ask(&mut self, key: &'static str) -> Option<&'t Entry> {
        self.asked.push(key);
        self.entries.iter().find(|e| e.key == key)
    }

    /// Is the key written at all? (It may still be wrong.)
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|e| e.key == key)
    }

    fn scalar<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&Value) -> Result<T, String>,
    ) -> Option<At<T>> {
        let entry = self.ask(key)?;
        match read(&entry.node.value) {
            Ok(value) => Some(At {
                value,
                line: entry.line,
            }),
            Err(message) => {
                self.fault(entry.line, key, message);
                None
            }
        }
    }

    /// A string that is not empty.
    pub fn string(&mut self, key: &'static str) -> Option<At<String>> {
        self.scalar(key, read_string)
    }

    /// A string that passes a check of its own.
    pub fn checked(
        &mut self,
        key: &'static str,
        check: impl FnOnce(&str) -> Result<(), String>,
    ) -> Option<At<String>> {
        self.scalar(key, |value| {
            let text = read_string(value)?;
            check(&text).map(|()| text)
        })
    }

    /// One of a few words.
    pub fn word<T: Copy>(&mut self, key: &'static str, words: &[(&str, T)]) -> Option<At<T>> {
        self.scalar(key, |value| read_word(value, words))
    }

    /// `true` or `false`.
    pub fn boolean(&mut self, key: &'static str) -> Option<At<bool>> {
        self.scalar(key, read_bool)
    }

    /// A whole number within `range`.
    pub fn integer(&mut self, key: &'static str, range: RangeInclusive<u32>) -> Option<At<u32>> {
        self.scalar(key, |value| {
            let wanted = format!("a whole number from {} to {}", range.start(), range.end());
            match value {
                Value::Integer(i) => u32::try_from(*i)
                    .ok()
                    .filter(|i| range.contains(i))
                    .ok_or_else(|| format!("must be {wanted}, not {i}")),
                Value::Float(f) => Err(format!("must be {wanted}, not {f}")),
                other => Err(must_be(&wanted, other)),
            }
        })
    }

    /// Any number within `range`.
    pub fn number(&mut self, key: &'static str, range: RangeInclusive<f64>) -> Option<At<f64>> {
        self.scalar(key, |value| {
            let wanted = format!("a number from {} to {}", range.start(), range.end());
            let number = match value {
                // Exact up to 2^53, and every range here ends long before.
                Value::Integer(i) => *i as f64,
                Value::Float(f) => *f,
                other => return Err(must_be(&wanted, other)),
            };
            if range.contains(&number) {
                Ok(number)
            } else {
                Err(format!("must be {wanted}, not {number}"))
            }
        })
    }

    /// A list of strings, each of which passes a check.
    pub fn strings(
        &mut self,
        key: &'static str,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Option<At<Vec<String>>> {
        let entry = self.ask(key)?;
        let Value::Array(items) = &entry.node.value else {
            self.fault(
                entry.line,
                key,
                must_be("a list of strings", &entry.node.value),
            );
            return None;
        };
        let mut value = Vec::with_capacity(items.len());
        for item in items {
            match read_string(&item.value).and_then(|text| check(&text).map(|()| text)) {
                Ok(text) => value.push(text),
                Err(message) => self.fault(item.line, key, message),
            }
        }
        Some(At {
            value,
            line: entry.line,
        })
    }

    /// A table inside this one.
    pub fn table(&mut self, key: &'static str) -> Option<Table<'t>> {
        let entry = self.ask(key)?;
        Table::new(self.path(key), &entry.node, entry.line, self.faults)
    }

    /// Every table of a table whose keys are names that the user chose.
    pub fn named_tables(&self) -> impl Iterator<Item = (&'t str, Table<'t>)> {
        self.entries.iter().filter_map(|e| {
            let table = Table::new(self.path(&e.key), &e.node, e.line, self.faults)?;
            Some((e.key.as_str(), table))
        })
    }

    /// Every string of a table whose keys are names that the user chose.
    pub fn named_strings(&self) -> Vec<(String, At<String>)> {
        self.named(read_string)
    }

    /// Every one of a few words of a table whose keys are names that may hold dots.
    pub fn named_words<T: Copy>(&self, words: &[(&str, T)]) -> Vec<(String, At<T>)> {
        self.named(|value| match value {
            Value::Table(_) => Err(quote("\"deny\"")),
            other => read_word(other, words),
        })
    }

    /// Every `true` or `false` of a table whose keys are names that may hold dots.
    pub fn named_booleans(&self) -> Vec<(String, At<bool>)> {
        self.named(|value| match value {
            Value::Table(_) => Err(quote("true")),
            other => read_bool(other),
        })
    }

    fn named<T>(&self, read: impl Fn(&Value) -> Result<T, String>) -> Vec<(String, At<T>)> {
        let mut all = Vec::new();
        for e in self.entries {
            let line = e.line;
            match read(&e.node.value) {
                Ok(value) => all.push((e.key.clone(), At { value, line })),
                Err(message) => self.fault(line, &e.key, message),
            }
        }
        all
    }

    /// Notes that a key which must be there is not.
    pub fn require(&self, key: &'static str) {
        if !self.has(key) {
            self.fault(self.line, key, "missing");
        }
    }

    /// Notes every key that nobody asked for.
    pub fn finish(self) {
        for e in self.entries {
            if self.asked.contains(&e.key.as_str()) {
                continue;
            }
            let near = nearest(&e.key, self.asked.iter().copied());
            let message = if self.asked.contains(&"key_env") && is_literal_key(&e.key) {
                "unknown key; keys are not kept in this file: use key_env (the name of a variable) or key_cmd (a command that prints the key)".to_string()
            } else if let Some(near) = near {
                format!("unknown key; did you mean {near}?")
            } else {
                format!("unknown key; the keys here are {}", self.asked.join(", "))
            };
            self.fault(e.line, &e.key, message);
        }
    }
}

/// Would this name hold the secret itself?
fn is_literal_key(name: &str) -> bool {
    let name: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    matches!(
        name.as_str(),
        "key" | "apikey" | "token" | "apitoken" | "authtoken" | "secret" | "secretkey" | "password"
    )
}

fn read_string(value: &Value) -> Result<String, String> {
    match value {
        Value::String(s) if s.trim().is_empty() => Err("must not be empty".into()),
        // No program, header or URL takes one, and it cuts text short elsewhere.
        Value::String(s) if s.contains('\0') => Err("must not hold a NUL character".into()),
        Value::String(s) => Ok(s.clone()),
        other => Err(must_be("a string", other)),
    }
}

fn read_bool(value: &Value) -> Result<bool, String> {
    match value {
        Value::Bool(b) => Ok(*b),
        other => Err(must_be("true or false", other)),
    }
}

fn read_word<T: Copy>(value: &Value, words: &[(&str, T)]) -> Result<T, String> {
    let text = read_string(value)?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        match nearest(&text, names.iter().copied()) {
            Some(name) => format!("unknown value; did you mean \"{name}\"?"),
            None => format!("unknown value; the values are \"{}\"", names.join("\", \"")),
        }
    })
}

/// `a.b = true` is a table in TOML, and looks so much like a name with a dot.
fn quote(value: &str) -> String {
    format!("put a name with a dot in quotes: \"alias.tool\" = {value}")
}

fn must_be(wanted: &str, value: &Value) -> String {
    format!("must be {wanted}, not {}", value.kind())
}

/// A key as the user would write it: bare, or quoted with everything odd escaped.
pub(super) fn shown_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_string()
    } else {
        let short: String = key.chars().take(80).collect();
        format!("\"{}\"", short.escape_debug())
    }
}
