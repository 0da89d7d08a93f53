//! Starting the daemon as a detached process.

use std::io::{ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::paths::daemon_environment;
use crate::protocol::RequestFailure;

/// How long a new daemon may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(10);

/// Error for a daemon that could not be started.
pub(super) fn not_started(reason: &str) -> Error {
    Error::runtime(format!("the daemon could not be started: {reason}"))
        .hint("see: aish-helper doctor")
}

/// Starts the daemon and waits until it reports that it is ready, or why it is not.
pub(super) fn spawn_daemon() -> Result<()> {
    let binary = std::env::current_exe().map_err(|e| not_started(&e.to_string()))?;
    let mut child = Command::new(binary)
        // The path may be the link `aish`, whose name selects the launcher.
        .arg0("aish-helper")
        .args(["daemon", "--detach"])
        .env_clear()
        .envs(daemon_environment())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| not_started(&e.to_string()))?;
    let Some(mut stdout) = child.stdout.take() else {
        return Err(not_started("no pipe"));
    };
    let mut report = Vec::new();
    let deadline = Instant::now() + READY_TIMEOUT;
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !readable(&stdout, left)? {
            return Err(not_started("it was not ready in time"));
        }
        match stdout.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => report.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(not_started(&e.to_string())),
        }
    }
    match &report[..] {
        b"ready\n" => Ok(()),
        b"" => Err(not_started("it ended without a message")),
        failure => match serde_json::from_slice::<RequestFailure>(failure) {
            Ok(failure) => Err(failure.into()),
            Err(_) => Err(not_started(&String::from_utf8_lossy(failure))),
        },
    }
}

fn readable(fd: &impl AsFd, patience: Duration) -> Result<bool> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    loop {
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(not_started(&e.to_string())),
            Ok(n) => return Ok(n > 0),
        }
    }
}

/// Closes every descriptor except stdin, stdout and stderr. A long-lived process calls this first, since the shell that
/// started it may have locks and pipes open that other processes wait for.
pub fn close_inherited() {
    // Collected first, as the listing itself has a descriptor open. Without /dev/fd nothing can be closed.
    let open: Vec<i32> = std::fs::read_dir("/dev/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // EBADF: the descriptor of the listing.
        let _ = nix::unistd::close(fd);
    }
}
