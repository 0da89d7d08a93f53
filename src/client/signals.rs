//! Signals delivered through pipes while the client follows an answer; otherwise they have their default effect.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::{flag, low_level};

use crate::error::{ErrorContext, Result};

/// One pipe per purpose; each byte in a pipe is one signal.
#[derive(Debug)]
pub struct SignalPipes {
    /// SIGINT, SIGQUIT, SIGTERM, SIGHUP: the turn ends.
    pub end: UnixStream,
    /// The last end signal was not SIGINT: a client that only follows a turn leaves without stopping the turn.
    leaves: Arc<AtomicBool>,
    /// SIGTSTP (Ctrl-Z).
    pub stop: UnixStream,
    /// SIGCONT: the process continues after a stop, in the foreground or not.
    pub resume: UnixStream,
    /// SIGWINCH: the terminal size changed.
    pub resize: UnixStream,
    /// Nothing reads the pipes, so signals have their default effect.
    idle: Arc<AtomicBool>,
}

impl SignalPipes {
    fn new() -> io::Result<SignalPipes> {
        let idle = Arc::new(AtomicBool::new(true));
        let leaves = Arc::new(AtomicBool::new(false));
        for signal in [SIGQUIT, SIGTERM, SIGHUP] {
            flag::register(signal, Arc::clone(&leaves))?;
        }
        let pair = |signals: &[i32]| -> io::Result<UnixStream> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            for signal in signals {
                flag::register_conditional_default(*signal, Arc::clone(&idle))?;
                low_level::pipe::register(*signal, write.try_clone()?)?;
            }
            Ok(read)
        };
        Ok(SignalPipes {
            end: pair(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP])?,
            stop: pair(&[SIGTSTP])?,
            resume: pair(&[SIGCONT])?,
            resize: pair(&[SIGWINCH])?,
            idle,
            leaves,
        })
    }

    /// Returns whether a signal other than SIGINT has asked this process to end.
    pub fn leaves(&self) -> bool {
        self.leaves.load(Ordering::SeqCst)
    }

    /// Directs the signals to the pipes until the guard is dropped.
    ///
    /// # Errors
    /// No file descriptors are left.
    pub fn catch() -> Result<CaughtSignals> {
        // Once per process: handlers stay registered, also for a second prompt.
        static SIGNALS: OnceLock<SignalPipes> = OnceLock::new();
        let signals = match SIGNALS.get() {
            Some(signals) => signals,
            None => {
                let new = SignalPipes::new().context(|| "cannot set up signals".into())?;
                SIGNALS.get_or_init(|| new)
            }
        };
        signals.leaves.store(false, Ordering::SeqCst);
        signals.idle.store(false, Ordering::SeqCst);
        Ok(CaughtSignals(signals))
    }
}

/// Guard that directs signals to the pipes.
#[derive(Debug)]
pub struct CaughtSignals(&'static SignalPipes);

impl std::ops::Deref for CaughtSignals {
    type Target = SignalPipes;

    fn deref(&self) -> &SignalPipes {
        self.0
    }
}

impl Drop for CaughtSignals {
    fn drop(&mut self) {
        self.0.idle.store(true, Ordering::SeqCst);
    }
}

/// Removes the bytes from a pipe. Returns whether there were any.
pub fn drain(mut pipe: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    pipe.read(&mut bytes).is_ok_and(|n| n > 0)
}
