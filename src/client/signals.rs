//! The signals that wake the client while it follows an answer; at other times they do what they always do.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::{flag, low_level};

use crate::error::{Context, Result};

/// A pipe for each thing that a signal can ask for; a byte in it is one signal.
#[derive(Debug)]
pub struct Signals {
    /// The turn is to end.
    pub end: UnixStream,
    /// Ctrl-Z.
    pub stop: UnixStream,
    /// It goes on after a stop, in the foreground or not.
    pub goes_on: UnixStream,
    /// The terminal has another size.
    pub resize: UnixStream,
    /// Nobody reads the pipes: a signal does what it does by default.
    idle: Arc<AtomicBool>,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        let idle = Arc::new(AtomicBool::new(true));
        let pair = |signals: &[i32]| -> io::Result<UnixStream> {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            for signal in signals {
                flag::register_conditional_default(*signal, Arc::clone(&idle))?;
                low_level::pipe::register(*signal, write.try_clone()?)?;
            }
            Ok(read)
        };
        Ok(Signals {
            end: pair(&[SIGINT, SIGQUIT, SIGTERM, SIGHUP])?,
            stop: pair(&[SIGTSTP])?,
            goes_on: pair(&[SIGCONT])?,
            resize: pair(&[SIGWINCH])?,
            idle,
        })
    }

    /// Catches the signals until the guard is dropped.
    ///
    /// # Errors
    /// There are no file descriptors left.
    pub fn catch() -> Result<Caught> {
        // Once in a process: what is registered stays so, even for a second prompt.
        static SIGNALS: OnceLock<Signals> = OnceLock::new();
        let signals = match SIGNALS.get() {
            Some(signals) => signals,
            None => {
                let new = Signals::new().context(|| "cannot set up signals".into())?;
                SIGNALS.get_or_init(|| new)
            }
        };
        signals.idle.store(false, Ordering::SeqCst);
        Ok(Caught(signals))
    }
}

/// While it lives, signals go to the pipes.
#[derive(Debug)]
pub struct Caught(&'static Signals);

impl std::ops::Deref for Caught {
    type Target = Signals;

    fn deref(&self) -> &Signals {
        self.0
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        self.0.idle.store(true, Ordering::SeqCst);
    }
}

/// Takes the bytes away; whether there were any.
pub fn took(mut pipe: &UnixStream) -> bool {
    let mut bytes = [0; 64];
    pipe.read(&mut bytes).is_ok_and(|n| n > 0)
}
