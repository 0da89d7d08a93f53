//! The keys and tokens that commands print: each command is run when its key is needed, and once an hour at most.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::safety::redact::global_redactor;
use crate::secret::Secret;
use crate::session::lock;

/// How long a command may take: it may ask a person to unlock a store.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the output of a command is used before it is run again.
const AGE: Duration = Duration::from_secs(3600);

/// What the commands have printed. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct KeyCommands {
    commands: Arc<Mutex<HashMap<String, Arc<KeyCommand>>>>,
}

/// One command. No lock but its own is held while it runs, so that it keeps nobody waiting who does
/// not want its key.
#[derive(Debug, Default)]
struct KeyCommand {
    /// Held while it runs: who comes meanwhile gets the same key, and a person is asked once.
    running: tokio::sync::Mutex<()>,
    printed: Mutex<Option<(Instant, Secret)>>,
}

impl KeyCommand {
    fn key(&self) -> Option<Secret> {
        let printed = lock(&self.printed);
        let (_, key) = printed.as_ref().filter(|(at, _)| at.elapsed() < AGE)?;
        Some(key.clone())
    }
}

impl KeyCommands {
    /// The key that this command has printed, if it was run of late.
    pub fn known(&self, command: &str) -> Option<Secret> {
        lock(&self.commands).get(command)?.key()
    }

    /// The key that `command` prints. `whose` names the command in errors; `read` finds the key in what it printed.
    ///
    /// # Errors
    /// The command fails, takes too long, or prints what is no key.
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

    /// Forgets a key that a provider has refused. One that has been fetched meanwhile stays.
    pub fn forget(&self, command: &str, refused: &Secret) {
        if let Some(entry) = lock(&self.commands).get(command) {
            lock(&entry.printed).take_if(|(_, key)| key == refused);
        }
    }
}

/// Runs a command; what it prints goes into no message, since it may be the key.
async fn run(command: &str, whose: &str) -> Result<Vec<u8>> {
    let failed = |why: String| {
        Error::config(format!("{whose} {why}"))
            .hint("try it in a shell: it must print the key alone")
    };
    let child = tokio::process::Command::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PATIENCE, child)
        .await
        .map_err(|_| failed(format!("did not end within {} s", PATIENCE.as_secs())))?
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
    async fn a_command_is_run_once_until_its_key_is_refused() {
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
    async fn a_slow_command_keeps_no_other_key_waiting() {
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
