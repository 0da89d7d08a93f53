//! Raw mode of the terminal.

use std::io;

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcsetattr};

use crate::error::{ErrorContext, Result};

/// Guard that keeps the terminal in raw mode, and restores its modes when dropped, also by a panic.
#[derive(Debug)]
pub struct RawMode {
    saved: Termios,
}

impl RawMode {
    /// Enters raw mode. `modes` are those to restore.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn enter(modes: &Termios) -> Result<RawMode> {
        set_raw(modes).context(|| "cannot set up the terminal".into())?;
        Ok(RawMode {
            saved: modes.clone(),
        })
    }
}

/// Sets raw mode, also after another program has changed the modes while this one was stopped.
pub fn set_raw(modes: &Termios) -> nix::Result<()> {
    let mut raw = modes.clone();
    cfmakeraw(&mut raw);
    tcsetattr(io::stdin(), SetArg::TCSANOW, &raw)
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // TCSANOW: does not wait for output that the terminal does not take. A lost terminal needs no restoring.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.saved);
    }
}
