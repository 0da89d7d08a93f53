//! Captures the output of an approved command: the command writes to a pty, and a pump copies it to the user's terminal
//! and keeps head and tail for the journal.
//!
//! A pty rather than a pipe, so that programs print as on the terminal, unbuffered and in colour. `aish-helper capture`
//! opens the pty, starts the pump in a session of its own and prints the path of the pty for the shell to open. The pump
//! runs until the last process has closed the pty, so that a background job of the command can go on printing, or until
//! the terminal is gone.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc::O_NOCTTY;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{OutputFlags, SetArg, tcgetattr, tcsetattr};

use super::connect::{self, DaemonConnection};
use super::terminal::{self, ControllingTty};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::protocol::{self, CapturedOutput, Event, Request, RequestFailure, ShellId, kind};
use crate::recording::screen::{ClearedLines, LineCollector, ScreenEmulator};

/// Maximum length of a nonce.
const MAX_NONCE: usize = 100;

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

/// Opens the pty and starts its pump. Returns the path of the pty for the shell.
///
/// # Errors
/// No terminal or pty is available, or the command was not approved.
pub fn start(shell: &ShellId, token: &str, nonce: &str) -> Result<String> {
    let tty = ControllingTty::open()?;
    let (columns, rows) = terminal::size(&tty.file);
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
    if report == "ready\n" {
        return Ok(path.display().to_string());
    }
    let cause = match serde_json::from_str::<RequestFailure>(&report) {
        Ok(failure) => Error::from(failure),
        Err(_) => Error::runtime("the pump ended without a word"),
    };
    Err(Error {
        message: format!("the output cannot be captured: {}", cause.message),
        hint: cause.hint.or(Some("see: aish-helper doctor".into())),
        ..cause
    })
}

/// Runs the pump: stdin is the pty's master, stderr the user's terminal.
///
/// Failures before the pump is ready are written to stdout for the process that started it.
///
/// # Errors
/// The output can no longer be copied.
pub fn pump(paths: &Paths, shell: &ShellId, token: &str, path: &Path) -> Result<()> {
    // Inherited locks and pipes of the shell must not stay open.
    connect::close_inherited();
    // In a session of its own, job control does not stop the pump, and `jobs` does not list it.
    let _ = nix::unistd::setsid();
    match CapturePump::new(paths, shell, token, path) {
        Ok(pump) => {
            report_line("ready")?;
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

/// A pump that is ready to copy.
struct CapturePump {
    master: File,
    terminal: File,
    /// Kept open, so that the pump does not see the end of the pty before the shell opens it.
    slave: Option<File>,
    connection: Option<DaemonConnection>,
    output: BoundedOutput,
}

impl CapturePump {
    fn new(paths: &Paths, shell: &ShellId, token: &str, path: &Path) -> Result<CapturePump> {
        let master = std::io::stdin().as_fd().try_clone_to_owned();
        let master = File::from(master.context(|| "no pty".into())?);
        let terminal = std::io::stderr().as_fd().try_clone_to_owned();
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
        Ok(CapturePump {
            master,
            terminal: File::from(terminal.context(|| "no terminal".into())?),
            slave: Some(slave),
            connection: Some(connection),
            output: BoundedOutput::new(limit),
        })
    }

    fn copy(mut self) -> Result<()> {
        let mut buffer = [0; 8 << 10];
        // macOS cannot poll /dev/tty; there the next write fails instead.
        let mut pollable = true;
        loop {
            let mut fds = vec![PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
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
            let printed = fds[0].any().unwrap_or(true);
            let finish_requested = self.connection.is_some() && fds[1].any().unwrap_or(true);
            let end = match fds.last().and_then(|fd| fd.revents()) {
                Some(events) if pollable => events,
                _ => PollFlags::empty(),
            };
            // The terminal was closed, perhaps while the command continues: the output cannot be shown.
            if end.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                return Ok(());
            }
            pollable &= !end.contains(PollFlags::POLLNVAL);
            if printed {
                match self.master.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(n) => {
                        self.output.push(&buffer[..n]);
                        // On a closed terminal the rest cannot be shown.
                        self.terminal
                            .write_all(&buffer[..n])
                            .context(|| "the terminal was closed".into())?;
                        // Pending output is copied before the end of the command is handled.
                        continue;
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    // EIO: the last process has closed the pty.
                    Err(_) => return Ok(()),
                }
            }
            if finish_requested {
                self.slave = None;
                if let Some(mut connection) = self.connection.take() {
                    let size = terminal::size(&self.terminal);
                    finish(&mut connection, &self.output, size);
                }
            }
        }
    }
}

/// Sends the captured output if the daemon asks for it; a daemon that has ended does not.
fn finish(connection: &mut DaemonConnection, output: &BoundedOutput, size: (usize, usize)) {
    if let Ok(Some((kind::EVENT, body))) = connection.read()
        && matches!(protocol::parse(&body), Ok(Event::CaptureFinish))
        && let Ok(frame) = protocol::json_frame(kind::CAPTURED, &output.captured(size))
    {
        // The daemon is gone, and there is nobody else to report to.
        let _ = connection.send(&frame);
    }
}

/// The first and the last bytes of an output.
#[derive(Debug)]
struct BoundedOutput {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl BoundedOutput {
    fn new(limit: usize) -> BoundedOutput {
        BoundedOutput {
            half: limit / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let head_space = self.half.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..head_space]);
        self.tail.extend(&bytes[head_space..]);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.omitted += over as u64;
    }

    /// Returns the output as a terminal of this size (columns, rows) shows it.
    fn captured(&self, size: (usize, usize)) -> CapturedOutput {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let (head, tail) = match self.omitted {
            0 => ([&self.head[..], &tail].concat(), Vec::new()),
            _ => (self.head.clone(), tail),
        };
        CapturedOutput {
            head: screen_text(&head, size),
            tail: screen_text(&tail, size),
            omitted: self.omitted,
        }
    }
}

/// Returns the text as the screen shows it: without colours, and the last state of what was drawn over, such as a progress bar.
fn screen_text(bytes: &[u8], (columns, rows): (usize, usize)) -> String {
    let cells = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let Some(mut screen) = ScreenEmulator::new(cells(columns), cells(rows)) else {
        return String::from_utf8_lossy(&strip_ansi_escapes::strip(bytes)).into_owned();
    };
    let mut collector = LineCollector::new(ClearedLines::Drop);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // The pty passes LF on as it is; the terminal makes CR LF of it.
        match line.strip_suffix(b"\n") {
            Some(text) => {
                screen.feed_observed(text, &mut collector);
                screen.feed_observed(b"\r\n", &mut collector);
            }
            None => screen.feed_observed(line, &mut collector),
        }
    }
    let mut lines = collector.take_lines();
    lines.extend(collector.finish(&screen));
    let mut text = lines.join("\n");
    if bytes.ends_with(b"\n") && !text.is_empty() {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (usize, usize) = (80, 24);

    #[test]
    fn head_and_tail_are_kept_and_omitted_bytes_are_counted() {
        let mut output = BoundedOutput::new(10);
        for part in ["abc", "defgh", "ijklmnop", "q"] {
            output.push(part.as_bytes());
        }
        let captured = output.captured(SIZE);
        assert_eq!(
            (
                captured.head.as_str(),
                captured.tail.as_str(),
                captured.omitted
            ),
            ("abcde", "mnopq", 7)
        );
        let mut output = BoundedOutput::new(10);
        output.push(b"abcdefgh");
        assert_eq!(
            (
                output.captured(SIZE).head.as_str(),
                output.captured(SIZE).omitted
            ),
            ("abcdefgh", 0)
        );
    }

    #[test]
    fn captured_text_is_the_text_on_the_screen() {
        for (bytes, text) in [
            (&b"\x1b[31mred\x1b[0m\r\n"[..], "red\n"),
            (b" 10%\r 50%\r100%\ndone", "100%\ndone"),
            (b"a\xffb", "a\u{fffd}b"),
            (b"one\n\ntwo\n", "one\n\ntwo\n"),
            // Two lines that are drawn again.
            (b"a 1\nb 1\n\x1b[2A\x1b[2Ka 2\n\x1b[2Kb 2\n", "a 2\nb 2\n"),
            // The alternate screen.
            (b"\x1b[?1049hhidden\x1b[?1049lseen\n", "seen\n"),
        ] {
            assert_eq!(screen_text(bytes, SIZE), text, "{bytes:?}");
        }
        let long = "x".repeat(200);
        assert_eq!(screen_text(long.as_bytes(), SIZE), long);
        let many: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert_eq!(screen_text(many.as_bytes(), SIZE), many);
    }
}
