//! `aish-helper record`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::args::{RecordArgs, RecordPaneArgs};
use super::launcher::Shell;
use crate::client::record_pane::{self, RecordedPane};
use crate::client::relay::{self, RECORDING_VARIABLE, RecordedCommand, RecordingPlace};
use crate::config::{self, ConfigOverrides, ConfigStamp, RecordSettings, RecordedPanes};
use crate::error::{Error, Result};
use crate::paths::{self, Paths};

/// Records a command or a shell. Returns its exit code.
///
/// # Errors
/// This terminal is already recorded.
pub fn run(paths: &Paths, args: RecordArgs) -> Result<u8> {
    let place = place(paths);
    // Before what only matters for a shell that starts.
    relay::refuse_nested(&place)?;
    let mut words = args.command.into_iter();
    let command = match words.next() {
        Some(program) => {
            let arguments: Vec<OsString> = words.collect();
            RecordedCommand {
                shown: Some(shown(&program, &arguments)),
                prints_marks: relay::is_zsh(Path::new(&program)),
                program,
                arguments,
                environment: Vec::new(),
                is_announced: args.announce,
            }
        }
        None => shell(),
    };
    start_relay(&place, &command)
}

/// Name of the command that runs the relay.
pub const RELAY: &str = "record-relay";

/// Re-executes this process as the relay: what was needed to get here, such as parsing the configuration, would stay in its memory
/// as long as the shell runs.
fn start_relay(place: &RecordingPlace, command: &RecordedCommand) -> Result<u8> {
    let flag = |on: bool| if on { "1" } else { "0" };
    if let Ok(binary) = std::env::current_exe() {
        let mut relay = Command::new(binary);
        relay
            .arg0("aish-helper")
            .args([RELAY, &place.max_bytes.to_string()])
            .arg(&place.recordings)
            .arg(&place.notices)
            .arg(flag(command.shown.is_some()))
            .arg(flag(command.prints_marks))
            .arg(flag(command.is_announced))
            .arg(&command.program)
            .args(&command.arguments);
        command.set_environment(&mut relay);
        // Returns only if the program file is gone or cannot be run.
        let _ = relay.exec();
    }
    relay::run(place, command)
}

/// Runs the relay as [`start_relay`] says.
///
/// # Errors
/// This terminal is already recorded, or the words are not those of [`start_relay`].
pub fn relay(words: Vec<OsString>) -> Result<u8> {
    let mut words = words.into_iter();
    let mut next = || {
        words
            .next()
            .ok_or_else(|| Error::usage("see: aish-helper record --help"))
    };
    let max_bytes = next()?.to_string_lossy().parse().unwrap_or_default();
    let recordings = PathBuf::from(next()?);
    let notices = PathBuf::from(next()?);
    let (is_command, prints_marks) = (next()? == "1", next()? == "1");
    let is_announced = next()? == "1";
    let program = next()?;
    let arguments: Vec<OsString> = words.collect();
    let place = RecordingPlace {
        recordings,
        notices,
        max_bytes,
        ..here()
    };
    let command = RecordedCommand {
        shown: is_command.then(|| shown(&program, &arguments)),
        program,
        arguments,
        prints_marks,
        // It is that of the relay.
        environment: Vec::new(),
        is_announced,
    };
    relay::run(&place, &command)
}

fn shown(program: &OsString, arguments: &[OsString]) -> Vec<String> {
    let all = std::iter::once(program).chain(arguments);
    all.map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Records a pane of tmux.
///
/// # Errors
/// The recording cannot be created.
pub fn pane(args: RecordPaneArgs) -> Result<()> {
    let pane = RecordedPane {
        recordings: args.recordings,
        max_bytes: args.max_bytes,
        shell: args.shell,
        notice: args.notice,
        tty: args.tty,
        term: args.term,
    };
    // The environment is that of the server of tmux. Nothing but the configuration is read here.
    let paths = Paths {
        config: args.config,
        data: PathBuf::new(),
        state: PathBuf::new(),
        run: PathBuf::new(),
        socket_dir: PathBuf::new(),
    };
    let mut read = None;
    record_pane::run(&pane, &mut || {
        let stamp = Some(ConfigStamp::of(&paths));
        if std::mem::replace(&mut read, stamp.clone()) == stamp {
            return false;
        }
        // A file with mistakes may be one that is being edited.
        let config = config::load(&paths, &ConfigOverrides::default());
        config.is_ok_and(|config| config.record.panes == RecordedPanes::Off)
    })
}

/// The user's zsh with the plugin, whatever .zshrc says: without the plugin, nothing reports which lines the history forgets. Without a
/// zsh, the user's shell.
fn shell() -> RecordedCommand {
    let shell = Shell::find(false).ok();
    let zsh = shell.as_ref().and_then(|shell| shell.commands(None).next());
    let program = match &zsh {
        Some(zsh) => zsh.get_program().to_owned(),
        None => paths::variable("SHELL").unwrap_or_else(|| "/bin/sh".into()),
    };
    let environment = zsh.iter().flat_map(Command::get_envs);
    let owned =
        |(name, value): (&OsStr, Option<&OsStr>)| (name.to_owned(), value.map(OsStr::to_owned));
    RecordedCommand {
        prints_marks: relay::is_zsh(Path::new(&program)),
        program,
        arguments: Vec::new(),
        shown: None,
        environment: environment.map(owned).collect(),
        is_announced: false,
    }
}

/// Where to record, by the configuration. A configuration with mistakes does not keep a shell from starting.
fn place(paths: &Paths) -> RecordingPlace {
    let config = config::load(paths, &ConfigOverrides::default());
    let record = config.map_or_else(|_| RecordSettings::default(), |config| config.record);
    RecordingPlace {
        recordings: paths.recordings(),
        notices: paths.notices(),
        max_bytes: record.max_bytes,
        ..here()
    }
}

/// Returns the terminal as the environment describes it.
fn here() -> RecordingPlace {
    let text = |name| paths::variable(name).map(|value| value.to_string_lossy().into_owned());
    RecordingPlace {
        recordings: PathBuf::new(),
        notices: PathBuf::new(),
        max_bytes: 0,
        term: text("TERM").unwrap_or_default(),
        within: text(RECORDING_VARIABLE),
    }
}
