//! Starts the daemon while the launcher continues.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long the shell waits for the daemon. Later its hooks find it, or start another one.
const PATIENCE: Duration = Duration::from_secs(1);

/// A start of the daemon. A separate process, so that the daemon does not become a child of the user's shell.
pub(super) struct DaemonStart {
    failure: Receiver<Option<String>>,
    deadline: Instant,
}

impl DaemonStart {
    /// Starts `aish-helper start`.
    pub(super) fn spawn() -> DaemonStart {
        let (send, failure) = channel();
        let deadline = Instant::now() + PATIENCE;
        std::thread::spawn(move || {
            // Fails if the shell has started meanwhile.
            let _ = send.send(start().err());
        });
        DaemonStart { failure, deadline }
    }

    /// Waits for the daemon until the deadline, and returns why it could not be started.
    pub(super) fn finish(self) -> Option<String> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.failure.recv_timeout(left).ok().flatten()
    }
}

fn start() -> Result<(), String> {
    let failed = |e: std::io::Error| format!("the daemon could not be started: {e}");
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        // The path may be the link `aish`.
        .arg0("aish-helper")
        .arg("start")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_string(&mut said).map_err(failed)?;
    }
    if child.wait().map_err(failed)?.success() {
        return Ok(());
    }
    let line = said.lines().find_map(|line| line.strip_prefix("aish: "));
    Err(line.unwrap_or("the daemon could not be started").to_owned())
}
