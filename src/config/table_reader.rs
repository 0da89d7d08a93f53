//! Reads one table of the configuration, collecting faults and the values in force.

use std::cell::RefCell;

use serde_json::Value as Json;

use super::origin::{SettingLog, SettingOrigin};
use super::syntax_tree::{SyntaxNode, SyntaxValue, TableEntry};
use super::value_checks::nearest_name;

/// A fault in a file, before the file's path is attached.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableFault {
    pub line: usize,
    pub key: String,
    pub message: String,
}

/// The kind of file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileScope {
    /// The user's configuration.
    User,
    /// A project's `.aish.toml`, which has only the settings that are declared `in_project`.
    Project,
}

/// State that is shared by the readers of all tables of one file.
pub(super) struct FileContext {
    /// The kind of file.
    pub scope: FileScope,
    /// The aliases of the configured servers, valid or not, to suggest one for a mistyped rule.
    pub aliases: Vec<String>,
    /// The faults that were found.
    pub faults: RefCell<Vec<TableFault>>,
    /// The values that were read, and the defaults of the other settings.
    pub values: RefCell<SettingLog>,
}

impl FileContext {
    /// The context of a file in which nothing has been read yet.
    pub fn new(scope: FileScope, aliases: Vec<String>) -> FileContext {
        FileContext {
            scope,
            aliases,
            faults: RefCell::default(),
            values: RefCell::default(),
        }
    }
}

/// A reader of one table.
pub(super) struct TableReader<'t> {
    path: String,
    name: &'t str,
    line: usize,
    entries: &'t [TableEntry],
    /// The state of the whole file.
    pub context: &'t FileContext,
}

impl<'t> TableReader<'t> {
    /// Reads the whole file; returns `None` with a fault if the root is not a table.
    pub fn root(node: &'t SyntaxNode, context: &'t FileContext) -> Option<TableReader<'t>> {
        let (path, name, line) = (String::new(), "", 1);
        let root = TableReader {
            path,
            name,
            line,
            entries: &[],
            context,
        };
        root.open(String::new(), name, node, line)
    }

    fn open(
        &self,
        path: String,
        name: &'t str,
        node: &'t SyntaxNode,
        line: usize,
    ) -> Option<TableReader<'t>> {
        let SyntaxValue::Table(entries) = &node.value else {
            self.context.faults.borrow_mut().push(TableFault {
                line,
                key: path,
                message: must_be("a table", &node.value),
            });
            return None;
        };
        Some(TableReader {
            path,
            name,
            line,
            entries,
            context: self.context,
        })
    }

    /// The line on which this table begins.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The last part of the table's path, which for `models.NAME` is the name that the user chose.
    pub fn name(&self) -> &'t str {
        self.name
    }

    /// Returns `key` with all its tables, as the user writes it.
    pub fn path(&self, key: &str) -> String {
        key_path(&self.path, key)
    }

    /// Records that `key` on `line` is wrong.
    pub fn fault(&self, line: usize, key: &str, message: impl Into<String>) {
        self.context.faults.borrow_mut().push(TableFault {
            line,
            key: self.path(key),
            message: message.into(),
        });
    }

    /// Records a fault of `key`, with its line; does nothing if the key is absent.
    pub fn fault_at(&self, key: &str, message: impl Into<String>) {
        if let Some(entry) = self.entry(key) {
            self.fault(entry.line, key, message);
        }
    }

    /// Records the value in force of `key`.
    pub fn log(&self, key: &str, value: impl Into<Json>, origin: SettingOrigin) {
        let mut values = self.context.values.borrow_mut();
        values.add(self.path(key), value.into(), origin);
    }

    /// Replaces a default that depends on other settings.
    pub fn replace_default(&self, key: &str, value: impl Into<Json>) {
        let mut values = self.context.values.borrow_mut();
        values.set(&self.path(key), value, SettingOrigin::Default);
    }

    /// The entry of `key`.
    pub fn entry(&self, key: &str) -> Option<&'t TableEntry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// All entries, for tables whose keys the user chooses.
    pub fn entries(&self) -> &'t [TableEntry] {
        self.entries
    }

    /// Returns whether the key is present, with a valid value or not.
    pub fn has(&self, key: &str) -> bool {
        self.entry(key).is_some()
    }

    /// Opens a table inside this one; returns `None` if it is absent or is not a table, which is a fault.
    pub fn table(&self, key: &str) -> Option<TableReader<'t>> {
        self.table_of(self.entry(key)?)
    }

    /// Opens the table that is the value of `entry`.
    pub fn table_of(&self, entry: &'t TableEntry) -> Option<TableReader<'t>> {
        self.open(self.path(&entry.key), &entry.key, &entry.node, entry.line)
    }

    /// Opens an empty table in place of an absent one, to read the defaults.
    pub fn absent_table(&self, key: &'static str) -> TableReader<'t> {
        TableReader {
            path: self.path(key),
            name: key,
            line: self.line,
            entries: &[],
            context: self.context,
        }
    }

    /// Records a fault for every key that is not in `known`.
    pub fn reject_unknown_keys(&self, known: &[&'static str]) {
        for e in self.entries {
            if known.contains(&e.key.as_str()) {
                continue;
            }
            let near = nearest_name(&e.key, known.iter().copied());
            let message = if known.contains(&"key_env") && is_literal_key(&e.key) {
                "unknown key; keys are not kept in this file: use key_env (the name of a variable) or key_cmd (a command that prints the key)".to_string()
            } else if let Some(near) = near {
                format!("unknown key; did you mean {near}?")
            } else {
                format!("unknown key; the keys here are {}", known.join(", "))
            };
            self.fault(e.line, &e.key, message);
        }
    }
}

/// Returns whether a key of this name is meant to hold the secret itself.
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

/// The message for a value of the wrong type.
pub(super) fn must_be(expected: &str, value: &SyntaxValue) -> String {
    format!("must be {expected}, not {}", value.kind())
}

/// Returns `key` after the path of its table.
pub(super) fn key_path(table: &str, key: &str) -> String {
    let key = shown_key(key);
    if table.is_empty() {
        key
    } else {
        format!("{table}.{key}")
    }
}

/// Returns a key as the user writes it: bare, or quoted with unusual characters escaped.
pub(super) fn shown_key(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !key.is_empty() && key.chars().all(bare) {
        key.to_string()
    } else {
        let short: String = key.chars().take(80).collect();
        format!("\"{}\"", short.escape_debug())
    }
}
