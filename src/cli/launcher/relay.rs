//! Where a shell runs through the pty relay, which records its output.

use std::ffi::OsString;

use super::shell::Shell;
use crate::error::{Error, Result};

/// Runs the shell in this terminal, outside of tmux: the only place that decides between the relay, which starts the first of
/// `shell.commands(None)`, and a bare exec.
pub(super) fn run_shell(shell: &Shell) -> Error {
    shell.exec(None)
}

/// Runs `aish record`, which is `aish-helper record`.
///
/// # Errors
/// The recording could not be started.
pub(super) fn record(_words: Vec<OsString>) -> Result<u8> {
    Err(Error::runtime("this build cannot record"))
}
