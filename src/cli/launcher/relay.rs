//! Where a shell runs through the pty relay, which records its output.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::notice;
use super::shell::Shell;
use crate::client::relay::{self, RECORDING_VARIABLE};
use crate::client::text_format::short_id;
use crate::error::{Error, Result};
use crate::paths::{Paths, variable};
use crate::recording::event::RecordingStart;

/// Returns a command that runs this binary as `aish-helper record` with these words.
fn recording(words: impl IntoIterator<Item = OsString>) -> Result<Command> {
    let binary = std::env::current_exe()
        .map_err(|e| Error::runtime(format!("cannot find aish-helper itself: {e}")))?;
    let mut command = Command::new(binary);
    // The name decides which program this binary is.
    command.arg0("aish-helper").arg("record").args(words);
    Ok(command)
}

/// Returns the start of the recording of this terminal, if a relay records it.
pub(super) fn recorded_here(paths: &Paths) -> Option<RecordingStart> {
    let within = variable(RECORDING_VARIABLE)?.into_string().ok();
    relay::recorded_here(&paths.recordings(), within.as_deref())
}

/// Runs the shell in this terminal through the relay, which says so. Without the relay the shell runs alone. Returns why neither
/// could start.
pub(super) fn run_shell(shell: &Shell, paths: &Paths) -> Error {
    if let Some(recording) = recorded_here(paths) {
        notice(&format!(
            "this terminal is recorded already: {}",
            short_id(&recording.id)
        ));
        return shell.exec(None);
    }
    if let Some(zsh) = shell.commands(None).next() {
        let program = zsh.get_program().to_owned();
        let words = ["--announce".into(), "--".into(), program];
        let words = words.into_iter().chain(zsh.get_args().map(OsString::from));
        let failure = match recording(words) {
            Ok(mut command) => {
                for (name, value) in zsh.get_envs() {
                    match value {
                        Some(value) => command.env(name, value),
                        None => command.env_remove(name),
                    };
                }
                command.exec().to_string()
            }
            Err(e) => e.message,
        };
        notice(&format!("the shell is not recorded: {failure}"));
    }
    shell.exec(None)
}

/// Runs `aish record`, which is `aish-helper record`.
///
/// # Errors
/// This binary cannot be run again.
pub(super) fn record(words: Vec<OsString>) -> Result<u8> {
    let e = recording(words)?.exec();
    Err(Error::runtime(format!("cannot start the recording: {e}")))
}
