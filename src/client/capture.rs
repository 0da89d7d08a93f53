//! Captures the output of an approved command: the command writes to two ptys, one for each of stdout and stderr, and a pump
//! copies both to the user's terminal and keeps head and tail for the journal.
//!
//! Ptys rather than pipes, so that programs print as on the terminal, unbuffered and in colour. `aish-helper capture`
//! opens the pty of stdout and starts the pump in a separate session, which opens that of stderr; then it prints the paths of
//! both for the shell to open. The pump runs until the last process has closed the ptys, so that a background job of the
//! command can go on printing, or until the terminal is gone.
//!
//! Nothing shows which of two ptys was written to first. The pump copies the data in the order in which it reads it, so that the
//! order on the terminal is that of a program that pauses between its writes, and approximate otherwise.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc::O_NOCTTY;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::termios::{OutputFlags, SetArg, tcgetattr, tcsetattr};

use super::bounded_output::BoundedOutput;
use super::connect::{self, DaemonConnection};
use super::terminal::{self, ControllingTty};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::protocol::{self, CapturedOutput, Event, Request, RequestFailure, ShellId, kind};

/// Maximum length of a nonce.
const MAX_NONCE: usize = 100;

/// Number of bytes that are copied from one pty before the other one is checked, unless a line ends earlier.
const MAX_TURN: usize = 64 << 10;

/// Report of the pump that it is ready, before the path of the pty for stderr if there is one.
const READY: &str = "ready";

/// Reads the nonce of an approval, a line. Arguments and environment could be read by the command itself.
///
/// # Errors
/// It cannot be read.
pub fn read_nonce(mut input: impl Read) -> Result<String> {
    let mut line = Vec::new();
    // One byte at a time: what follows the line belongs to others.
    let mut byte = [0];
    while line.len() < MAX_NONCE {
        match input.read(&mut byte) {
            Ok(0) => break,
            Ok(_) if byte == *b"\n" => break,
            Ok(_) => line.extend(byte),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e).context(|| "cannot read the nonce of the approval".into()),
        }
    }
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Opens a pty that changes nothing of what is written to it, of the size of a terminal (columns, rows).
fn open_pty((columns, rows): (usize, usize)) -> Result<OpenptyResult> {
    let cells = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let size = Winsize {
        ws_row: cells(rows),
        ws_col: cells(columns),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(&size, None).context(|| "cannot open a pty".into())?;
    // A pump that inherited the slave would keep its own pty open and never see its end.
    for end in [&pty.master, &pty.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
            .context(|| "cannot set up the pty".into())?;
    }
    // The real terminal converts LF to CR LF; converting here too would change the captured text.
    let mut modes = tcgetattr(&pty.slave).context(|| "cannot set up the pty".into())?;
    modes.output_flags.remove(OutputFlags::OPOST);
    tcsetattr(&pty.slave, SetArg::TCSANOW, &modes).context(|| "cannot set up the pty".into())?;
    Ok(pty)
}

/// Opens the ptys and starts their pump. Returns the paths of the ptys for the shell, each on a line: of stdout and of stderr, or
/// only one if both go to the same.
///
/// # Errors
/// No terminal or pty is available, or the command was not approved.
pub fn start(shell: &ShellId, token: &str, nonce: &str) -> Result<String> {
    let tty = ControllingTty::open()?;
    let pty = open_pty(terminal::size(&tty.file))?;
    let path = nix::unistd::ttyname(&pty.slave).context(|| "the pty has no name".into())?;
    // The first line that the pump reads.
    let mut slave = File::from(pty.slave);
    let sent = slave.write_all(format!("{nonce}\n").as_bytes());
    sent.context(|| "cannot write to the pty".into())?;

    let binary = std::env::current_exe().context(|| "cannot find aish-helper itself".into())?;
    let mut child = Command::new(binary)
        .args(["capture", "--shell", shell.as_str(), "--pump"])
        .arg(&path)
        .arg(token)
        .stdin(Stdio::from(pty.master))
        .stdout(Stdio::piped())
        .stderr(Stdio::from(OwnedFd::from(tty.file)))
        .spawn()
        .context(|| "cannot start the pump".into())?;
    let mut report = String::new();
    if let Some(stdout) = child.stdout.take() {
        // The pump writes one line, or closes the pipe by exiting.
        let _ = BufReader::new(stdout).read_line(&mut report);
    }
    // Kept open until here, so that the pump does not see the end of the pty before the shell opens it.
    drop(slave);
    if let Some(stderr) = report.strip_prefix(READY) {
        let paths = format!("{}\n{}", path.display(), stderr.trim());
        return Ok(paths.trim_end().to_owned());
    }
    let cause = match serde_json::from_str::<RequestFailure>(&report) {
        Ok(failure) => Error::from(failure),
        Err(_) => Error::runtime("the output pump ended without a message"),
    };
    Err(Error {
        message: format!("the output cannot be captured: {}", cause.message),
        hint: cause.hint.or(Some("see: aish-helper doctor".into())),
        ..cause
    })
}

/// Runs the pump: stdin is the master of the pty for stdout, stderr the user's terminal.
///
/// Failures before the pump is ready are written to stdout for the process that started it.
///
/// # Errors
/// The output can no longer be copied.
pub fn pump(paths: &Paths, shell: &ShellId, token: &str, path: &Path) -> Result<()> {
    // Inherited locks and pipes of the shell must not stay open.
    connect::close_inherited();
    // In a separate session, job control does not stop the pump, and `jobs` does not list it.
    let _ = nix::unistd::setsid();
    match CapturePump::new(paths, shell, token, path) {
        Ok((pump, stderr)) => {
            report_line(format!("{READY} {}", stderr.unwrap_or_default()).trim_end())?;
            pump.copy()
        }
        Err(e) => {
            report_line(&serde_json::to_string(&RequestFailure::from(&e)).unwrap_or_default())
        }
    }
}

/// Writes one line for the process that started the pump.
fn report_line(line: &str) -> Result<()> {
    std::io::stdout()
        .write_all(format!("{line}\n").as_bytes())
        .context(|| "the process that started the pump has exited".into())
}

/// A pty that the command writes to.
struct OutputPty {
    master: File,
    /// Kept open, so that the pump does not see the end of the pty before the shell opens it.
    slave: Option<File>,
    /// The command writes its stderr to it.
    is_stderr: bool,
    /// Some process may still write to it.
    is_open: bool,
}

impl OutputPty {
    /// Opens the pty for stderr. Returns it with its path.
    fn for_stderr(size: (usize, usize)) -> Result<(OutputPty, String)> {
        let pty = open_pty(size)?;
        let path = nix::unistd::ttyname(&pty.slave).context(|| "the pty has no name".into())?;
        let stderr = OutputPty {
            master: File::from(pty.master),
            slave: Some(File::from(pty.slave)),
            is_stderr: true,
            is_open: true,
        };
        Ok((stderr, path.display().to_string()))
    }

    /// Whether it can be read without waiting.
    fn is_readable(&self) -> bool {
        let mut fds = [PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }
}

/// Output of the command.
struct CapturedStreams {
    /// Everything, in the order in which it was copied.
    all: BoundedOutput,
    stderr: BoundedOutput,
}

/// A pump that is ready to copy.
struct CapturePump {
    ptys: Vec<OutputPty>,
    terminal: File,
    connection: Option<DaemonConnection>,
    output: CapturedStreams,
}

impl CapturePump {
    /// Returns the pump with the path of the pty for stderr. Without another pty, both streams go to one.
    fn new(
        paths: &Paths,
        shell: &ShellId,
        token: &str,
        path: &Path,
    ) -> Result<(CapturePump, Option<String>)> {
        let master = std::io::stdin().as_fd().try_clone_to_owned();
        let master = File::from(master.context(|| "no pty".into())?);
        let terminal = std::io::stderr().as_fd().try_clone_to_owned();
        let terminal = File::from(terminal.context(|| "no terminal".into())?);
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_NOCTTY)
            .open(path)
            .context(|| format!("cannot open {}", path.display()))?;
        let request = Request::Capture {
            shell: shell.clone(),
            token: token.to_string(),
            nonce: read_nonce(&master)?,
        };
        let mut connection = connect::to_daemon(paths, &request)?;
        let limit = connection.reply()?;
        let mut ptys = vec![OutputPty {
            master,
            slave: Some(slave),
            is_stderr: false,
            is_open: true,
        }];
        let mut stderr_path = None;
        if let Ok((stderr, path)) = OutputPty::for_stderr(terminal::size(&terminal)) {
            ptys.push(stderr);
            stderr_path = Some(path);
        }
        let pump = CapturePump {
            ptys,
            terminal,
            connection: Some(connection),
            output: CapturedStreams {
                all: BoundedOutput::new(limit),
                stderr: BoundedOutput::new(limit),
            },
        };
        Ok((pump, stderr_path))
    }

    fn copy(mut self) -> Result<()> {
        // macOS cannot poll /dev/tty; there the next write fails instead.
        let mut pollable = true;
        while !self.ptys.is_empty() {
            let masters = self.ptys.iter().map(|pty| pty.master.as_fd());
            let mut fds: Vec<PollFd<'_>> = masters
                .map(|master| PollFd::new(master, PollFlags::POLLIN))
                .collect();
            if let Some(connection) = &self.connection {
                fds.push(PollFd::new(connection.fd(), PollFlags::POLLIN));
            }
            if pollable {
                // Only for the hang-up: input belongs to the command.
                fds.push(PollFd::new(self.terminal.as_fd(), PollFlags::empty()));
            }
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => {}
                Err(nix::errno::Errno::EINTR) => continue,
                Err(e) => return Err(Error::runtime(format!("cannot wait for output: {e}"))),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(true)).collect();
            let (printed, others) = ready.split_at(self.ptys.len().min(ready.len()));
            let finish_requested = self.connection.is_some() && others.first() == Some(&true);
            let end = match fds.last().and_then(|fd| fd.revents()) {
                Some(events) if pollable => events,
                _ => PollFlags::empty(),
            };
            // The terminal was closed, perhaps while the command continues: the output cannot be shown.
            if end.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                return Ok(());
            }
            pollable &= !end.contains(PollFlags::POLLNVAL);
            if printed.contains(&true) {
                for (pty, _) in self.ptys.iter_mut().zip(printed).filter(|(_, p)| **p) {
                    copy_turn(pty, &mut self.output, &mut self.terminal)?;
                }
                self.ptys.retain(|pty| pty.is_open);
                // Pending output is copied before the end of the command is handled.
                continue;
            }
            if finish_requested {
                self.ptys.iter_mut().for_each(|pty| pty.slave = None);
                if let Some(mut connection) = self.connection.take() {
                    let size = terminal::size(&self.terminal);
                    finish(&mut connection, &self.output, size);
                }
            }
        }
        Ok(())
    }
}

/// Copies the pending output of a pty, to the end of a line where there is one, so that a line of the other pty does not get into it.
///
/// # Errors
/// The terminal was closed, so that the rest cannot be shown.
fn copy_turn(pty: &mut OutputPty, output: &mut CapturedStreams, terminal: &mut File) -> Result<()> {
    let mut buffer = [0; 8 << 10];
    let mut copied = 0;
    loop {
        let bytes = match pty.master.read(&mut buffer) {
            Ok(n) => buffer.get(..n).unwrap_or_default(),
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            // EIO: the last process has closed the pty.
            Err(_) => &[],
        };
        if bytes.is_empty() {
            pty.is_open = false;
            return Ok(());
        }
        output.all.push(bytes);
        if pty.is_stderr {
            output.stderr.push(bytes);
        }
        terminal
            .write_all(bytes)
            .context(|| "the terminal was closed".into())?;
        copied += bytes.len();
        if bytes.ends_with(b"\n") || copied >= MAX_TURN || !pty.is_readable() {
            return Ok(());
        }
    }
}

/// Sends the captured output if the daemon asks for it; a daemon that has ended does not.
fn finish(connection: &mut DaemonConnection, output: &CapturedStreams, size: (usize, usize)) {
    if let Ok(Some((kind::EVENT, body))) = connection.read()
        && matches!(protocol::parse(&body), Ok(Event::CaptureFinish))
        && let Ok(frame) = protocol::json_frame(kind::CAPTURED, &output.captured(size))
    {
        // The daemon is gone, and there is nobody else to report to.
        let _ = connection.send(&frame);
    }
}

impl CapturedStreams {
    /// Returns the output as a terminal of this size (columns, rows) shows it.
    fn captured(&self, size: (usize, usize)) -> CapturedOutput {
        CapturedOutput {
            text: self.all.captured(size),
            stderr: (!self.stderr.is_empty()).then(|| self.stderr.captured(size)),
        }
    }
}
