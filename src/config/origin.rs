//! The origin of each effective value, as listed by `config show`.

use serde_json::Value as Json;

/// The source of a value, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingOrigin {
    /// The built-in default.
    Default,
    /// This line of the configuration file.
    File(usize),
    /// This environment variable.
    Env(&'static str),
    /// This command-line flag.
    Flag(&'static str),
}

/// A value in force, with secrets already replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveSetting {
    /// The key with all its tables, such as `shell.confirm_cmd`.
    pub key: String,
    /// The value.
    pub value: Json,
    /// Its source.
    pub origin: SettingOrigin,
}

/// The list of all values in force.
#[derive(Debug, Clone, Default)]
pub(super) struct SettingLog(Vec<EffectiveSetting>);

impl SettingLog {
    /// Adds a value whose key has no entry yet.
    pub fn add(&mut self, key: String, value: Json, origin: SettingOrigin) {
        self.0.push(EffectiveSetting { key, value, origin });
    }

    /// Adds a value, or replaces the entry of the same key.
    pub fn set(&mut self, key: &str, value: impl Into<Json>, origin: SettingOrigin) {
        let value = value.into();
        match self.0.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => (entry.value, entry.origin) = (value, origin),
            None => self.add(key.to_owned(), value, origin),
        }
    }

    /// Removes every key that begins with `prefix`.
    pub fn remove_table(&mut self, prefix: &str) {
        self.0.retain(|entry| !entry.key.starts_with(prefix));
    }

    /// Returns the line of the file that sets `key`.
    pub fn line(&self, key: &str) -> Option<usize> {
        match self.0.iter().find(|entry| entry.key == key)?.origin {
            SettingOrigin::File(line) => Some(line),
            _ => None,
        }
    }

    /// The entries, in the order of the settings table.
    pub fn into_entries(self) -> Vec<EffectiveSetting> {
        self.0
    }
}
