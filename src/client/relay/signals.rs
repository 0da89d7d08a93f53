//! Signals of the relay: each sets a flag and wakes the poll.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH, SIGXFSZ};
use signal_hook::{flag, low_level};

use crate::error::{ErrorContext, Result};

/// The signals that the relay handles.
#[derive(Debug)]
pub struct RelaySignals {
    wake: UnixStream,
    child: Arc<AtomicBool>,
    resumed: Arc<AtomicBool>,
    hung_up: Arc<AtomicBool>,
    resized: Arc<AtomicBool>,
    /// Signals for the command.
    forwarded: Vec<(Signal, Arc<AtomicBool>)>,
}

impl RelaySignals {
    /// Registers the handlers, for the life of the process.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn catch() -> Result<RelaySignals> {
        RelaySignals::register().context(|| "cannot set up signals".into())
    }

    fn register() -> io::Result<RelaySignals> {
        let (wake, write) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let caught = |signal: i32| -> io::Result<Arc<AtomicBool>> {
            let seen = Arc::new(AtomicBool::new(false));
            // The flag first, so that it is set when the poll wakes.
            flag::register(signal, Arc::clone(&seen))?;
            low_level::pipe::register(signal, write.try_clone()?)?;
            Ok(seen)
        };
        // A handler instead of `SIG_IGN`, which the command would inherit: the write fails, and the recording continues.
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(RelaySignals {
            child: caught(SIGCHLD)?,
            resumed: caught(SIGCONT)?,
            hung_up: caught(SIGHUP)?,
            resized: caught(SIGWINCH)?,
            forwarded: vec![
                (Signal::SIGTERM, caught(SIGTERM)?),
                (Signal::SIGINT, caught(SIGINT)?),
                (Signal::SIGQUIT, caught(SIGQUIT)?),
            ],
            wake,
        })
    }

    /// Readable when a signal has come.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Empties the pipe. Called before the flags are read.
    pub fn drain(&self) {
        let mut bytes = [0; 64];
        while (&self.wake).read(&mut bytes).is_ok_and(|n| n > 0) {}
    }

    /// Whether a child has changed its state since the last call.
    pub fn child(&self) -> bool {
        self.child.swap(false, Ordering::SeqCst)
    }

    /// Whether the relay was continued after a stop.
    pub fn resumed(&self) -> bool {
        self.resumed.swap(false, Ordering::SeqCst)
    }

    /// Whether the terminal was closed.
    pub fn hung_up(&self) -> bool {
        self.hung_up.swap(false, Ordering::SeqCst)
    }

    /// Whether the terminal has another size.
    pub fn resized(&self) -> bool {
        self.resized.swap(false, Ordering::SeqCst)
    }

    /// The signals that came for the command.
    pub fn forwarded(&self) -> impl Iterator<Item = Signal> + '_ {
        self.forwarded
            .iter()
            .filter(|(_, seen)| seen.swap(false, Ordering::SeqCst))
            .map(|(signal, _)| *signal)
    }
}
