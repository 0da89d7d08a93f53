//! Keys and tokens printed by commands (`key_cmd`, `auth_cmd`). A command runs when its key is needed, at most once an
//! hour unless the key is rejected.

use std::collections::HashMap;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::Signal;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout, Command};

use crate::child_group::ChildGroup;
use crate::error::{Error, Result};
use crate::paths::CHILD_MARK;
use crate::safety::redact::global_redactor;
use crate::secret::Secret;
use crate::session::lock;

/// Time limit of a command. The user may have to unlock a password store first.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum size of the output of a command. Tokens are much shorter.
const MAX_OUTPUT: usize = 64 << 10;
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

/// A running command. Dropped before the command was reaped, it kills the command with its process group.
struct RunningCommand {
    child: Child,
    group: ChildGroup,
    stdout: ChildStdout,
}

impl RunningCommand {
    fn start(command: &str) -> io::Result<RunningCommand> {
        let mut child = Command::new("/bin/sh")
            .arg("-c")
            .arg(command)
            .env(CHILD_MARK, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let group = ChildGroup::of(child.id());
        let stdout = child.stdout.take();
        Ok(RunningCommand {
            child,
            group,
            stdout: stdout.ok_or_else(|| io::Error::other("no pipe to the command"))?,
        })
    }

    /// Reads what the command prints until it has ended, and reaps it. Does not wait for the end of its output: a program that it
    /// leaves in the background, such as the agent of a password store, may hold the pipe. The status is `None` if the output is
    /// longer than [`MAX_OUTPUT`].
    async fn output(&mut self) -> io::Result<(Vec<u8>, Option<ExitStatus>)> {
        let mut output = Vec::new();
        let mut is_open = true;
        while output.len() <= MAX_OUTPUT {
            tokio::select! {
                read = self.stdout.read_buf(&mut output), if is_open => is_open = read? > 0,
                status = self.child.wait() => {
                    self.read_rest(&mut output);
                    return Ok((output, Some(status?)));
                }
            }
        }
        Ok((output, None))
    }

    /// Reads what is in the pipe.
    fn read_rest(&self, output: &mut Vec<u8>) {
        let mut buffer = [0; 4096];
        while output.len() <= MAX_OUTPUT {
            match nix::unistd::read(&self.stdout, &mut buffer) {
                Ok(length @ 1..) => output.extend(buffer.iter().take(length)),
                Err(Errno::EINTR) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        self.group.signal(Signal::SIGKILL);
    }
}

/// Runs a command. Its output must not appear in error messages, since it may be the key.
async fn run(command: &str, whose: &str) -> Result<Vec<u8>> {
    let failed = |why: String| {
        Error::config(format!("{whose} {why}"))
            .hint("try it in a shell: it must print only the key")
    };
    let unusable = |e: io::Error| failed(format!("could not be run: {e}"));
    let mut running = RunningCommand::start(command).map_err(unusable)?;
    let (output, status) = tokio::time::timeout(COMMAND_TIMEOUT, running.output())
        .await
        .map_err(|_| {
            failed(format!(
                "did not end within {} s",
                COMMAND_TIMEOUT.as_secs()
            ))
        })?
        .map_err(unusable)?;
    match status {
        Some(status) if status.success() && output.len() <= MAX_OUTPUT => Ok(output),
        Some(status) if !status.success() => Err(failed(format!("failed ({status})"))),
        _ => Err(failed(format!(
            "printed more than {} KiB",
            MAX_OUTPUT >> 10
        ))),
    }
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
    async fn too_much_output_is_refused_and_ends_the_command() {
        let keys = KeyCommands::default();
        for command in [
            "yes",
            "head -c 70000 /dev/zero",
            "yes | head -c 66000; exec sleep 30",
        ] {
            let refused = keys.get(command, "the command", text).await.unwrap_err();
            assert_eq!(refused.message, "the command printed more than 64 KiB");
        }
    }

    #[tokio::test]
    async fn a_program_in_the_background_is_neither_awaited_nor_killed() {
        let dir = tempfile::tempdir().unwrap();
        let number = dir.path().join("pid");
        // Prints more than one read of the pipe gives.
        let command = format!(
            "sleep 60 & echo $! > {}; head -c 60000 /dev/zero | tr '\\0' k",
            number.display()
        );
        let keys = KeyCommands::default();
        let got = tokio::time::timeout(
            Duration::from_secs(30),
            keys.get(&command, "the command", text),
        );
        assert_eq!(got.await.unwrap().unwrap(), Secret::new("k".repeat(60_000)));
        let pid = std::fs::read_to_string(number).unwrap();
        let pid = nix::unistd::Pid::from_raw(pid.trim().parse().unwrap());
        // Fails if the program was killed.
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    }

    #[tokio::test]
    async fn an_abandoned_command_is_killed_with_what_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let command = format!("exec 9> {}; echo >&9; sleep 30 & wait", fifo.display());
        let keys = KeyCommands::default();
        let reading = tokio::task::spawn_blocking(move || {
            let mut fifo = std::fs::File::open(fifo).unwrap();
            io::Read::read_exact(&mut fifo, &mut [0]).unwrap();
            fifo
        });
        let mut fifo = tokio::select! {
            result = keys.get(&command, "the command", text) => panic!("{result:?}"),
            fifo = reading => fifo.unwrap(),
        };
        // The end of the file is the end of all processes that hold it.
        let ended = tokio::task::spawn_blocking(move || io::Read::read(&mut fifo, &mut [0]));
        let ended = tokio::time::timeout(Duration::from_secs(10), ended);
        assert_eq!(ended.await.unwrap().unwrap().unwrap(), 0);
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
