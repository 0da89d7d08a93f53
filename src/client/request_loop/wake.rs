//! Waiting for the daemon, a signal or a timeout.

use std::os::fd::AsFd;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::client::connect::DaemonConnection;
use crate::client::signals::{SignalPipes, drain};
use crate::error::{Error, Result};

/// Why a wait ended.
pub(super) enum WakeReason {
    Daemon,
    End,
    Stop,
    Resume,
    Resize,
    Timeout,
}

/// Waits for the daemon, a signal or the timeout. A signal that ends the turn stays in its pipe, so that later writes
/// to a blocked stdout fail instead of waiting.
pub(super) fn wait(
    connection: &DaemonConnection,
    signals: &SignalPipes,
    patience: Option<Duration>,
    interruptible: bool,
) -> Result<WakeReason> {
    let timeout = match patience {
        None => PollTimeout::NONE,
        // Rounded up, so that a remaining fraction of a millisecond does not busy-loop.
        Some(p) => PollTimeout::try_from(p + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX),
    };
    let end_flags = match interruptible {
        true => PollFlags::POLLIN,
        false => PollFlags::empty(),
    };
    loop {
        let mut fds = [
            PollFd::new(connection.fd(), PollFlags::POLLIN),
            PollFd::new(signals.end.as_fd(), end_flags),
            PollFd::new(signals.resize.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.stop.as_fd(), PollFlags::POLLIN),
            PollFd::new(signals.resume.as_fd(), PollFlags::POLLIN),
        ];
        match poll(&mut fds, timeout) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(e) => return Err(Error::runtime(format!("cannot wait for the daemon: {e}"))),
            Ok(0) => return Ok(WakeReason::Timeout),
            Ok(_) => {}
        }
        let ready = fds.map(|fd| fd.any().unwrap_or(true));
        if ready[1] {
            return Ok(WakeReason::End);
        }
        if ready[3] && drain(&signals.stop) {
            return Ok(WakeReason::Stop);
        }
        if ready[4] && drain(&signals.resume) {
            return Ok(WakeReason::Resume);
        }
        if ready[2] && drain(&signals.resize) {
            return Ok(WakeReason::Resize);
        }
        if ready[0] {
            return Ok(WakeReason::Daemon);
        }
    }
}
