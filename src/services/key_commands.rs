//! Keys and tokens printed by commands (`key_cmd`, `auth_cmd`). A command runs when its key is needed, at most once an
//! hour unless the key is rejected.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::paths::CHILD_MARK;
use crate::safety::redact::global_redactor;
use crate::secret::Secret;
use crate::session::lock;

/// Time limit of a command. The user may have to unlock a password store first.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a key is used before its command runs again.
const KEY_MAX_AGE: Duration = Duration::from_secs(3600);

/// Cache of the keys that commands have printed. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct KeyCommands {
    commands: Arc<Mutex<HashMap<String, Arc<KeyCommand>>>>,
}

/// One command. Only its own lock is held while it runs, so that a slow command delays no request for another key.
#[derive(Debug, Default)]
struct KeyCommand {
    /// Held while the command runs: concurrent requests wait for the same key, and the user is asked to unlock the
    /// store only once.
    running: tokio::sync::Mutex<()>,
    printed: Mutex<Option<(Instant, Secret)>>,
}

impl KeyCommand {
    fn key(&self) -> Option<Secret> {
        let printed = lock(&self.printed);
        let (_, key) = printed
            .as_ref()
            .filter(|(at, _)| at.elapsed() < KEY_MAX_AGE)?;
        Some(key.clone())
    }
}

impl KeyCommands {
    /// Returns the cached key of a command.
    pub fn known(&self, command: &str) -> Option<Secret> {
        lock(&self.commands).get(command)?.key()
    }

    /// Returns the key of `command` from the cache, or runs the command. `whose` names the command in errors; `read`
    /// extracts the key from the output.
    ///
    /// # Errors
    /// The command fails, takes too long, or its output is not a key.
    pub async fn get(
        &self,
        command: &str,
        whose: &str,
        read: impl Fn(&[u8]) -> Result<String>,
    ) -> Result<Secret> {
        let entry = lock(&self.commands)
            .entry(command.to_string())
            .or_default()
            .clone();
        if let Some(key) = entry.key() {
            return Ok(key);
        }
        let _running = entry.running.lock().await;
        if let Some(key) = entry.key() {
            return Ok(key);
        }
        let key = Secret::new(read(&run(command, whose).await?)?);
        global_redactor().add_secret("key", key.expose().trim());
        *lock(&entry.printed) = Some((Instant::now(), key.clone()));
        Ok(key)
    }

    /// Removes a key that a provider has rejected from the cache. A newer key stays.
    pub fn forget(&self, command: &str, rejected: &Secret) {
        if let Some(entry) = lock(&self.commands).get(command) {
            lock(&entry.printed).take_if(|(_, key)| key == rejected);
        }
    }
}

/// Runs a command. Its output must not appear in error messages, since it may be the key.
async fn run(command: &str, whose: &str) -> Result<Vec<u8>> {
    let failed = |why: String| {
        Error::config(format!("{whose} {why}"))
            .hint("try it in a shell: it must print only the key")
    };
    let child = tokio::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .env(CHILD_MARK, "1")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(COMMAND_TIMEOUT, child)
        .await
        .map_err(|_| {
            failed(format!(
                "did not end within {} s",
                COMMAND_TIMEOUT.as_secs()
            ))
        })?
        .map_err(|e| failed(format!("could not be run: {e}")))?;
    if !output.status.success() {
        return Err(failed(format!("failed ({})", output.status)));
    }
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(output: &[u8]) -> Result<String> {
        Ok(String::from_utf8_lossy(output).into_owned())
    }

    #[tokio::test]
    async fn a_command_runs_once_until_its_key_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        let command = format!("echo >> {}; printf sk-1", runs.display());
        let keys = KeyCommands::default();
        let get = || keys.get(&command, "the command", text);
        let count = || std::fs::read(&runs).unwrap().len();
        assert_eq!(keys.known(&command), None);
        let (one, other) = tokio::join!(get(), get());
        assert_eq!(one.unwrap(), other.unwrap());
        assert_eq!(count(), 1);
        let key = Secret::new("sk-1");
        keys.forget(&command, &Secret::new("sk-0"));
        assert_eq!(keys.known(&command), Some(key.clone()));
        keys.forget(&command, &key);
        assert_eq!(keys.known(&command), None);
        assert_eq!(get().await.unwrap(), key);
        assert_eq!(count(), 2);
    }

    #[tokio::test]
    async fn a_slow_command_does_not_delay_other_keys() {
        let dir = tempfile::tempdir().unwrap();
        let gate = dir.path().join("gate");
        nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let slow = format!("read key < {}", gate.display());
        let keys = KeyCommands::default();
        tokio::select! {
            biased;
            result = keys.get(&slow, "the command", text) => panic!("{result:?}"),
            key = keys.get("printf sk-2", "the command", text) => assert_eq!(key.unwrap(), Secret::new("sk-2")),
        }
    }
}
