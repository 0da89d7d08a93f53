//! `aish-helper record`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::args::{RecordArgs, RecordPaneArgs};
use crate::client::record_pane::{self, RecordedPane};
use crate::client::relay::{self, RECORDING_VARIABLE, RecordedCommand, RecordingPlace};
use crate::config::{self, ConfigOverrides, RecordSettings};
use crate::error::Result;
use crate::paths::{self, Paths};

/// Records a command or a shell. Returns its exit code.
///
/// # Errors
/// This terminal is already recorded.
pub fn run(paths: &Paths, args: RecordArgs) -> Result<u8> {
    let mut words = args.command.into_iter();
    let command = match words.next() {
        Some(program) => {
            let arguments: Vec<OsString> = words.collect();
            let all = std::iter::once(&program).chain(&arguments);
            RecordedCommand {
                shown: Some(all.map(|w| w.to_string_lossy().into_owned()).collect()),
                prints_marks: relay::is_zsh(Path::new(&program)),
                program,
                arguments,
                environment: Vec::new(),
            }
        }
        None => {
            let shell = shell();
            RecordedCommand {
                prints_marks: relay::is_zsh(&shell),
                program: shell.into_os_string(),
                arguments: Vec::new(),
                environment: Vec::new(),
                shown: None,
            }
        }
    };
    relay::run(&place(paths), &command)
}

/// Records a pane of tmux.
///
/// # Errors
/// The recording cannot be created.
pub fn pane(args: RecordPaneArgs) -> Result<()> {
    record_pane::run(&RecordedPane {
        recordings: args.recordings,
        max_bytes: args.max_bytes,
        shell: args.shell,
        notice: args.notice,
        tty: args.tty,
        term: args.term,
    })
}

/// The user's zsh; without one, the user's shell.
fn shell() -> PathBuf {
    let shell = paths::variable("SHELL").map(PathBuf::from);
    let zsh = || paths::on_path("zsh").into_iter().next();
    match shell {
        Some(shell) if relay::is_zsh(&shell) => shell,
        shell => zsh().or(shell).unwrap_or_else(|| PathBuf::from("/bin/sh")),
    }
}

/// Where to record, by the configuration. A configuration with mistakes does not keep a shell from starting.
fn place(paths: &Paths) -> RecordingPlace {
    let text = |name| paths::variable(name).map(|value| value.to_string_lossy().into_owned());
    let config = config::load(paths, &ConfigOverrides::default());
    let record = config.map_or_else(|_| RecordSettings::default(), |config| config.record);
    RecordingPlace {
        recordings: paths.recordings(),
        max_bytes: record.max_bytes,
        term: text("TERM").unwrap_or_default(),
        within: text(RECORDING_VARIABLE),
    }
}
