//! The configuration that a person saw last, kept in the state directory.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::Duration;

use nix::fcntl::Flock;

use super::file::ConfigFile;
use super::loosening::{self, ConfigChange, SeenConfig};
use super::overrides::ConfigOverrides;
use super::resolve;
use super::settings::Config;
use crate::error::{Error, Result};
use crate::paths::{Paths, lock_file_for, lock_file_within, make_dir, read_own, replace_unsynced};
use crate::secret::fingerprint;

/// How long reading waits for a command that changes the configuration.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);
/// How long a command that changes the configuration waits for another one.
const CHANGE_PATIENCE: Duration = Duration::from_secs(5);

/// Changes that loosen the configuration and wait for a confirmation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChanges {
    /// Identifies the compared configuration.
    pub digest: String,
    /// The difference.
    pub lines: Vec<ConfigChange>,
}

impl ConfigChanges {
    /// Returns the changed settings: `KEY: OLD -> NEW`, or where a value may hold a secret, as a command or an address, the key
    /// with `+` or `-`.
    pub fn summaries(&self) -> Vec<String> {
        let mut summaries = Vec::new();
        let mut lines = self.lines.iter().peekable();
        while let Some((sign, text)) = lines.next() {
            let next = lines.peek().map(|(sign, text)| (*sign, text.as_str()));
            match loosening::changed_values((*sign, text), next) {
                Some((key, old, new)) => {
                    summaries.push(format!("{key}: {old} -> {new}"));
                    lines.next();
                }
                None => {
                    let key = text.split([' ', ':']).next().unwrap_or_default();
                    summaries.push(format!("{sign} {key}"));
                }
            }
        }
        summaries
    }
}

fn path(paths: &Paths) -> PathBuf {
    paths.state.join("config-seen.json")
}

/// Returns the configuration of the file without the changes that wait for a confirmation, and these changes. What there
/// is at the first run counts as seen, and so does every change that loosens nothing.
///
/// # Errors
/// As for [`super::read_file`].
pub fn read_confirmed(paths: &Paths) -> Result<(ConfigFile, Option<ConfigChanges>)> {
    // Not while a command changes the file, which stores afterwards what a person has seen. Without a lock it is read anyway: a
    // process that keeps it must not stop the prompts.
    let _ = make_dir(&paths.state);
    let _lock = lock_file_within(&lock_path(paths), LOCK_PATIENCE);
    let mut file = super::read_file(paths)?;
    let changes = take_back(paths, &mut file.config);
    if changes.is_none()
        && let Err(e) = store(paths, &file.config)
    {
        // The next daemon compares with an older configuration.
        tracing::warn!("{}", e.message);
    }
    Ok((file, changes))
}

/// Returns the changes that wait for a confirmation.
///
/// # Errors
/// As for [`super::read_file`].
pub fn pending_changes(paths: &Paths) -> Result<Option<ConfigChanges>> {
    Ok(take_back(paths, &mut super::read_file(paths)?.config))
}

/// Returns the configuration in force without the changes that wait for a confirmation.
///
/// # Errors
/// As for [`super::load`].
pub fn load_confirmed(paths: &Paths, overrides: &ConfigOverrides) -> Result<Config> {
    let mut file = super::read_file(paths)?;
    take_back(paths, &mut file.config);
    resolve::resolve(&file, overrides)
}

/// Returns a configuration without the changes that wait for a confirmation.
pub(super) fn without_unconfirmed(paths: &Paths, config: &Config) -> Config {
    let mut config = config.clone();
    take_back(paths, &mut config);
    config
}

/// Stores that a person has seen these changes and wants them.
///
/// # Errors
/// The file has changed again since, or the state cannot be written.
pub fn confirm(paths: &Paths, digest: &str) -> Result<()> {
    let file = super::read_file(paths)?;
    let changes = take_back(paths, &mut file.config.clone());
    if changes.is_some_and(|changes| changes.digest != digest) {
        let message = "the configuration has changed again since it was shown";
        return Err(Error::config(message).hint("run llm again to see the difference"));
    }
    store(paths, &file.config)
}

/// Stores the configuration after a change that was made on a person's word, unless the one before it was not seen.
pub(super) fn follow(paths: &Paths, before: &ConfigFile, after: &ConfigFile) {
    let seen = fs::symlink_metadata(path(paths)).is_ok();
    if !seen || take_back(paths, &mut before.config.clone()).is_some() {
        return;
    }
    if let Err(e) = store(paths, &after.config) {
        tracing::warn!("{}", e.message);
    }
}

/// Waits until no other process changes the configuration, but only for a moment: that process may be stopped.
///
/// # Errors
/// The lock is held by another process, or its file cannot be opened or locked.
pub(super) fn lock(paths: &Paths) -> Result<Flock<File>> {
    make_dir(&paths.state)?;
    // Not the directory: on NFS an exclusive lock needs a file that is open for writing.
    let path = lock_path(paths);
    lock_file_for(&path, CHANGE_PATIENCE)?.ok_or_else(|| {
        let message = "another process is changing the configuration";
        let hint = format!(
            "try again; if no aish-helper is running, another program holds {}",
            path.display()
        );
        Error::runtime(message).hint(hint)
    })
}

fn lock_path(paths: &Paths) -> PathBuf {
    paths.state.join("config.lock")
}

fn take_back(paths: &Paths, config: &mut Config) -> Option<ConfigChanges> {
    let text = match fs::symlink_metadata(path(paths)) {
        // At a first run. Later somebody has removed the file.
        Err(e) if e.kind() == ErrorKind::NotFound && !has_history(paths) => return None,
        // What another user could have written says nothing, and neither does what cannot be read: the defaults count.
        _ => read_own(&path(paths))
            .and_then(io::read_to_string)
            .unwrap_or_default(),
    };
    let seen = serde_json::from_str(&text);
    let seen = seen.unwrap_or_else(|_| SeenConfig::of(&ConfigFile::default().config));
    let now = serde_json::to_string(&SeenConfig::of(config)).unwrap_or_default();
    let lines = loosening::take_back(&seen, config);
    let digest = fingerprint([text.as_str(), &now]);
    (!lines.is_empty()).then_some(ConfigChanges { digest, lines })
}

/// Whether aish has been used before: its journal has records.
fn has_history(paths: &Paths) -> bool {
    let entries = fs::read_dir(paths.journal())
        .into_iter()
        .flatten()
        .flatten();
    let mut files = entries.filter_map(|entry| entry.metadata().ok());
    files.any(|meta| meta.is_file() && meta.len() > 0)
}

fn store(paths: &Paths, config: &Config) -> Result<()> {
    let path = path(paths);
    let text = serde_json::to_string(&SeenConfig::of(config))
        .map_err(|e| Error::runtime(format!("cannot store the confirmed configuration: {e}")))?;
    if fs::read_to_string(&path).is_ok_and(|stored| stored == text) {
        return Ok(());
    }
    make_dir(&paths.state)?;
    replace_unsynced(&path, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_lock_that_another_process_keeps_delays_reading_only_briefly() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        let held = lock(&paths).unwrap();
        let start = Instant::now();
        read_confirmed(&paths).unwrap();
        assert!(start.elapsed() >= LOCK_PATIENCE);
        let start = Instant::now();
        let refused = lock(&paths).unwrap_err();
        assert!(refused.hint.unwrap().contains("config.lock"));
        assert!(start.elapsed() >= CHANGE_PATIENCE);
        // It is had once it is free.
        let path = lock_path(&paths);
        let waiting =
            std::thread::spawn(move || lock_file_within(&path, Duration::from_secs(60)).is_some());
        drop(held);
        assert!(waiting.join().unwrap());
    }
}
