//! Records a command in a pty: `aish-helper record`.
//!
//! The relay sits between the terminal and a pty in which the command runs, and copies both ways. Only what comes out of the
//! pty is recorded, never what is typed. The relay does not know the daemon. If it cannot start, the command runs without it.

mod copy;
mod raw_mode;
mod signals;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::ttyname;
use pty_process::blocking::{Pts, Pty};
use rustix::termios::{tcgetwinsize, tcsetwinsize};

use self::copy::{Relay, RelayEnd, Terminal};
use self::raw_mode::RawMode;
use self::signals::RelaySignals;
use crate::client::mark_nonce::NonceNotices;
use crate::client::styled_line::{SpanStyle, paint, span, wrap_text};
use crate::client::terminal;
use crate::client::text_format::short_id;
use crate::error::{Error, ErrorContext, Result};
use crate::recording::event::{RecordingSource, RecordingStart, VERSION};
use crate::recording::list::{is_being_written, start_of};
use crate::recording::marks::MarkParser;
use crate::recording::recorder::Recorder;
use crate::recording::writer::RecordingWriter;
use crate::safety::text::one_line;

/// The variable with the id of the recording, for the shell and its children.
pub const RECORDING_VARIABLE: &str = "AISH_RECORDING";

/// The variable that informs the plugin where to read the nonce of the marks: `DESCRIPTOR:PID`, with the process id of the relay.
/// The plugin of another process than the relay's child ignores it.
const MARKS_VARIABLE: &str = "AISH_MARKS_FD";

/// The variable with the terminal device of the pty. In a shell there that has no nonce, the plugin greets the relay.
const TTY_VARIABLE: &str = "AISH_RECORDED_TTY";

/// Exit code of a relay whose terminal was closed: that of a process killed by SIGHUP.
const HUNG_UP: u8 = 129;

/// A command to record.
#[derive(Debug, Clone)]
pub struct RecordedCommand {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// The program is a zsh that may print marks.
    pub prints_marks: bool,
    /// The command as given by the user; `None` for a shell.
    pub shown: Option<Vec<String>>,
    /// Variables to set for it, or to remove.
    pub environment: Vec<(OsString, Option<OsString>)>,
    /// The shell of `aish --no-tmux`, where the recording can be turned off.
    pub is_announced: bool,
}

impl RecordedCommand {
    /// Sets the variables of the command for a program.
    pub fn set_environment(&self, program: &mut Command) {
        for (name, value) in &self.environment {
            match value {
                Some(value) => program.env(name, value),
                None => program.env_remove(name),
            };
        }
    }
}

/// Where and how much to record.
#[derive(Debug, Clone)]
pub struct RecordingPlace {
    /// Directory of the recordings.
    pub recordings: PathBuf,
    /// Directory of the notices for shells.
    pub notices: PathBuf,
    /// Maximum size of a recording.
    pub max_bytes: u64,
    /// `TERM`.
    pub term: String,
    /// Id of the recording that this process may already be part of ([`RECORDING_VARIABLE`]).
    pub within: Option<String>,
}

/// Runs a command in a relay that records its output. Returns the exit code of the command. If the relay cannot start, says so
/// in one line and replaces this process by the command.
///
/// # Errors
/// This terminal is already recorded by a relay.
pub fn run(place: &RecordingPlace, command: &RecordedCommand) -> Result<u8> {
    refuse_nested(place)?;
    match start(place, command) {
        Ok(relay) => {
            announce(&place.recordings, command);
            Ok(relay.run())
        }
        Err(StartFailure::Program(e)) => Ok(not_run(command, &e)),
        Err(StartFailure::Relay(e)) => {
            say(&format!("not recorded: {}", e.message));
            let mut program = plain(command);
            Ok(not_run(command, &program.exec()))
        }
    }
}

/// Refuses to record a terminal twice.
///
/// # Errors
/// This terminal is already recorded by a relay.
pub fn refuse_nested(place: &RecordingPlace) -> Result<()> {
    match recorded_here(&place.recordings, place.within.as_deref()) {
        Some(start) => Err(Error::usage(format!(
            "this shell is already recorded: {0}; exit ends that recording, and aish-helper recording show {0} describes it",
            short_id(&start.id)
        ))),
        None => Ok(()),
    }
}

/// Returns the start of the recording `within` ([`RECORDING_VARIABLE`]) if it is being written and is that of this terminal. In
/// another terminal, as that of a multiplexer, the variable was inherited only.
pub fn recorded_here(recordings: &Path, within: Option<&str>) -> Option<RecordingStart> {
    let dir = recordings.join(within?);
    let start = start_of(&dir).filter(|_| is_being_written(&dir))?;
    let is_here = ttyname(io::stdin()).is_ok_and(|tty| tty == Path::new(&start.tty));
    is_here.then_some(start)
}

/// Why a relay did not start.
enum StartFailure {
    /// The command cannot be run.
    Program(io::Error),
    /// The command can run without a relay.
    Relay(Error),
}

impl From<Error> for StartFailure {
    fn from(e: Error) -> StartFailure {
        StartFailure::Relay(e)
    }
}

/// A relay that is ready to copy.
struct StartedRelay {
    relay: Relay,
    recorder: Recorder,
    raw_mode: RawMode,
    /// Short id of the recording.
    id: String,
    since: Instant,
}

fn start(
    place: &RecordingPlace,
    command: &RecordedCommand,
) -> std::result::Result<StartedRelay, StartFailure> {
    let (stdin, stdout) = (io::stdin(), io::stdout());
    if !stdin.is_terminal() || !stdout.is_terminal() {
        return Err(Error::runtime("stdin and stdout are not a terminal").into());
    }
    let modes = tcgetattr(&stdin).context(|| "cannot read the terminal's modes".into())?;
    let size = tcgetwinsize(&stdin).context(|| "cannot read the terminal's size".into())?;
    let (pty, pts) = open_pty()?;
    tcsetattr(&pts, SetArg::TCSANOW, &modes).context(|| "cannot set up the pty".into())?;
    // A terminal without a size leaves the pty without one.
    let _ = tcsetwinsize(&pty, size);
    let tty = ttyname(&pts).context(|| "the pty has no name".into())?;

    let start = RecordingStart {
        version: VERSION,
        id: uuid::Uuid::now_v7().to_string(),
        ms: crate::recording::recorder::now_ms(),
        cols: size.ws_col,
        rows: size.ws_row,
        term: place.term.clone(),
        shell: None,
        source: RecordingSource::Relay,
        tty: tty.display().to_string(),
        relay_tty: ttyname(&stdin).map_or_else(|_| String::new(), |tty| tty.display().to_string()),
        command: command.shown.clone(),
    };
    let writer = RecordingWriter::create(&place.recordings, &start, place.max_bytes)?;
    let dir = writer.dir().to_owned();
    // Before the child is started: its end must not be missed.
    let started = RelaySignals::catch().and_then(|signals| {
        let terminal = Terminal::open()?;
        let raw_mode = RawMode::enter(&modes)?;
        Ok((signals, terminal, raw_mode, Recorder::start(writer)?))
    });
    let child = started.map_err(StartFailure::from).and_then(|started| {
        let (child, nonce) = spawn(command, &start, pts)?;
        Ok((started, child, nonce))
    });
    match child {
        Ok(((signals, terminal, raw_mode, recorder), child, nonce)) => Ok(StartedRelay {
            relay: Relay::new(
                terminal,
                pty,
                child,
                signals,
                MarkParser::new(&nonce),
                NonceNotices::new(Some(place.notices.clone()), nonce),
            ),
            recorder,
            raw_mode,
            id: short_id(&start.id).to_owned(),
            since: Instant::now(),
        }),
        Err(e) => {
            // Nothing was recorded. What cannot be removed stays as an empty recording.
            let _ = std::fs::remove_dir_all(dir);
            Err(e)
        }
    }
}

fn open_pty() -> Result<(Pty, Pts)> {
    let (pty, pts) = pty_process::blocking::open()
        .map_err(|e| Error::runtime(format!("cannot open a pty: {e}")))?;
    fcntl(&pts, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
        .context(|| "cannot set up the pty".into())?;
    fcntl(&pty, FcntlArg::F_SETFL(OFlag::O_NONBLOCK | OFlag::O_RDWR))
        .context(|| "cannot set up the pty".into())?;
    Ok((pty, pts))
}

/// Starts the command in the pty. Returns it and the nonce of its marks, which is empty if it prints none.
fn spawn(
    command: &RecordedCommand,
    start: &RecordingStart,
    pts: Pts,
) -> std::result::Result<(Child, String), StartFailure> {
    let mut program = plain(command);
    program.env(RECORDING_VARIABLE, &start.id);
    let mut nonce = String::new();
    // Open until the child has inherited it.
    let mut inherited: Option<OwnedFd> = None;
    if command.prints_marks {
        nonce = uuid::Uuid::new_v4().simple().to_string();
        let (read, write) = nix::unistd::pipe().context(|| "cannot open a pipe".into())?;
        // A pipe holds it all, and closing it here leaves no writer.
        let sent = File::from(write).write_all(format!("{nonce}\n").as_bytes());
        sent.context(|| "cannot write to a pipe".into())?;
        let place = format!("{}:{}", read.as_raw_fd(), std::process::id());
        program.env(MARKS_VARIABLE, place);
        program.env(TTY_VARIABLE, &start.tty);
        inherited = Some(read);
    } else {
        program.env_remove(MARKS_VARIABLE);
        program.env_remove(TTY_VARIABLE);
    }
    let child = pty_process::blocking::Command::from(program).spawn(pts);
    drop(inherited);
    match child {
        Ok(child) => Ok((child, nonce)),
        Err(pty_process::Error::Io(e))
            if matches!(
                e.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Err(StartFailure::Program(e))
        }
        Err(e) => Err(Error::runtime(format!("cannot start the command: {e}")).into()),
    }
}

/// The command without a relay.
fn plain(command: &RecordedCommand) -> Command {
    let mut program = Command::new(&command.program);
    program.args(&command.arguments);
    command.set_environment(&mut program);
    program
}

/// Reports a program that cannot be run. Returns the exit code that shells use.
fn not_run(command: &RecordedCommand, e: &io::Error) -> u8 {
    let program = command.program.to_string_lossy();
    say(&format!("cannot run {program}: {e}"));
    match e.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }
}

/// Says where the output is recorded. The terminal is in raw mode.
fn announce(recordings: &Path, command: &RecordedCommand) {
    let recordings = one_line(&recordings.to_string_lossy(), 300);
    let what = match command.is_announced || command.prints_marks {
        true => "shell",
        false => "command",
    };
    let off = match command.is_announced {
        true => " (off: aish --no-tmux --no-record)",
        false => "",
    };
    let text = format!(
        "[aish] the output of this {what}, not your input, is recorded in {recordings}{off}\n"
    );
    let text = wrap_text(&text, terminal::size(&io::stderr()).0, 2).replace('\n', "\r\n");
    // A closed stderr cannot be reported anywhere.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Says which recording has ended, if anybody is there to read it.
fn say_recorded(id: &str, time: Duration) {
    if io::stderr().is_terminal() {
        let (minutes, seconds) = (time.as_secs() / 60, time.as_secs() % 60);
        let text = format!(
            "recorded as {id} ({minutes}:{seconds:02}); aish-helper replay {id} plays it\n"
        );
        let text = wrap_text(&text, terminal::size(&io::stderr()).0, 2);
        let mut line = String::new();
        let colors = terminal::colors(&io::stderr());
        paint(&[span(text, SpanStyle::Dim)], colors, &mut line);
        // A closed stderr cannot be reported anywhere.
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

fn say(line: &str) {
    // A closed stderr cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "aish: {}", one_line(line, 1000));
}

impl StartedRelay {
    /// Copies until the command ends or the terminal is closed. Returns the exit code.
    fn run(mut self) -> u8 {
        let end = self.relay.copy(&mut self.recorder);
        // The pty is closed here: without its terminal, the shell gets SIGHUP.
        drop(self.relay);
        drop(self.raw_mode);
        let code = match &end {
            RelayEnd::Exited(status) => {
                let signal = status.signal().map(|signal| 128 + signal);
                status.code().or(signal)
            }
            RelayEnd::HungUp => None,
        };
        self.recorder.end(code, matches!(end, RelayEnd::HungUp));
        if matches!(end, RelayEnd::Exited(_)) {
            say_recorded(&self.id, self.since.elapsed());
        }
        code.map_or(HUNG_UP, |code| u8::try_from(code & 0xff).unwrap_or(1))
    }
}

/// Whether a program reads a line from this terminal without echo, as a password prompt does. Line editors turn the echo off
/// too, but read single keys.
pub(super) fn reads_unseen(terminal: impl AsFd) -> bool {
    tcgetattr(terminal).is_ok_and(|modes| {
        let flags = modes.local_flags;
        flags.contains(LocalFlags::ICANON) && !flags.contains(LocalFlags::ECHO)
    })
}

/// Whether a program is a zsh, by its name.
pub fn is_zsh(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name == "zsh" || name.starts_with("zsh-")
}
