//! The pump behind an approved command: the command writes to a pty, the pump
//! copies that to the person's terminal as it comes and keeps head and tail.
//!
//! A pty and not a pipe, so that programs print as they would on the terminal:
//! at once and in colour. `aish-helper capture` makes the pty, starts the pump
//! as a process of its own session and prints the path of the pty for the shell
//! to open. The pump lives until nobody has the pty open, so that a background
//! job that the command has left goes on printing, or until the terminal is gone.

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

use super::connect::{self, Connection};
use super::terminal::{self, Tty};
use crate::error::{Context, Error, Result};
use crate::paths::Paths;
use crate::protocol::{self, Captured, Event, Failure, Request, ShellId, kind};

/// Makes the pty and starts its pump; the path of the pty for the shell.
///
/// # Errors
/// There is no terminal or no pty, or the command was not approved.
pub fn start(shell: &ShellId, token: &str) -> Result<String> {
    let tty = Tty::open()?;
    let (columns, rows) = terminal::size(&tty.file);
    let cells = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let size = Winsize {
        ws_row: cells(rows),
        ws_col: cells(columns),
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    let pty = openpty(&size, None).context(|| "cannot open a pty".into())?;
    // A pump that inherited the slave would hold its own pty open and never see its end.
    for end in [&pty.master, &pty.slave] {
        fcntl(end, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))
            .context(|| "cannot set up the pty".into())?;
    }
    // The real terminal turns LF into CR LF; doing it here too would be seen in the captured text.
    let mut modes = tcgetattr(&pty.slave).context(|| "cannot set up the pty".into())?;
    modes.output_flags.remove(OutputFlags::OPOST);
    tcsetattr(&pty.slave, SetArg::TCSANOW, &modes).context(|| "cannot set up the pty".into())?;
    let path = nix::unistd::ttyname(&pty.slave).context(|| "the pty has no name".into())?;

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
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        // The pump says one line, or its end closes the pipe.
        let _ = BufReader::new(stdout).read_line(&mut said);
    }
    // Our slave was open until here, so that the pump did not see the end before the beginning.
    drop(pty.slave);
    if said == "ready\n" {
        return Ok(path.display().to_string());
    }
    let why = match serde_json::from_str::<Failure>(&said) {
        Ok(failure) => Error::from(failure),
        Err(_) => Error::runtime("the pump ended without a word"),
    };
    Err(Error {
        message: format!("the output cannot be captured: {}", why.message),
        hint: why.hint.or(Some("see: aish-helper doctor".into())),
        ..why
    })
}

/// The pump itself: stdin is the master, stderr the person's terminal.
///
/// What goes wrong before it is ready is said on stdout, where the starter reads and prints it.
///
/// # Errors
/// The output cannot be copied any more.
pub fn pump(paths: &Paths, shell: &ShellId, token: &str, path: &Path) -> Result<()> {
    // A lock or a pipe of the shell's is not ours to hold.
    connect::close_inherited();
    // Out of the shell's session: no job-control signal stops the copying, and `jobs` does not list it.
    let _ = nix::unistd::setsid();
    match Pump::new(paths, shell, token, path) {
        Ok(pump) => {
            say("ready")?;
            pump.copy()
        }
        Err(e) => say(&serde_json::to_string(&Failure::from(&e)).unwrap_or_default()),
    }
}

/// One line for the starter.
fn say(line: &str) -> Result<()> {
    std::io::stdout()
        .write_all(format!("{line}\n").as_bytes())
        .context(|| "the starter has gone".into())
}

/// A pump that is ready.
struct Pump {
    master: File,
    terminal: File,
    /// Held open, so that the end is not seen before the shell has opened the pty.
    slave: Option<File>,
    connection: Option<Connection>,
    kept: Kept,
}

impl Pump {
    fn new(paths: &Paths, shell: &ShellId, token: &str, path: &Path) -> Result<Pump> {
        let master = std::io::stdin().as_fd().try_clone_to_owned();
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
        };
        let mut connection = connect::to_daemon(paths, &request)?;
        let limit = connection.reply()?;
        Ok(Pump {
            master: File::from(master.context(|| "no pty".into())?),
            terminal: File::from(terminal.context(|| "no terminal".into())?),
            slave: Some(slave),
            connection: Some(connection),
            kept: Kept::new(limit),
        })
    }

    fn copy(mut self) -> Result<()> {
        let mut buffer = [0; 8 << 10];
        // macOS cannot poll /dev/tty; there the next write finds out.
        let mut pollable = true;
        loop {
            let mut fds = vec![PollFd::new(self.master.as_fd(), PollFlags::POLLIN)];
            if let Some(connection) = &self.connection {
                fds.push(PollFd::new(connection.fd(), PollFlags::POLLIN));
            }
            if pollable {
                // Only for its hang-up: what is typed is not ours.
                fds.push(PollFd::new(self.terminal.as_fd(), PollFlags::empty()));
            }
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => {}
                Err(nix::errno::Errno::EINTR) => continue,
                Err(e) => return Err(Error::runtime(format!("cannot wait for output: {e}"))),
            }
            let printed = fds[0].any().unwrap_or(true);
            let told = self.connection.is_some() && fds[1].any().unwrap_or(true);
            let end = match fds.last().and_then(|fd| fd.revents()) {
                Some(events) if pollable => events,
                _ => PollFlags::empty(),
            };
            // The terminal was closed, perhaps under a command that goes on: there is nowhere to show this.
            if end.intersects(PollFlags::POLLHUP | PollFlags::POLLERR) {
                return Ok(());
            }
            pollable &= !end.contains(PollFlags::POLLNVAL);
            if printed {
                match self.master.read(&mut buffer) {
                    Ok(0) => return Ok(()),
                    Ok(n) => {
                        self.kept.push(&buffer[..n]);
                        // A terminal that was closed takes the rest with it.
                        self.terminal
                            .write_all(&buffer[..n])
                            .context(|| "the terminal has gone".into())?;
                        // What has come is shown and kept before the end is listened to.
                        continue;
                    }
                    Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                    // EIO: nobody has the pty open any more.
                    Err(_) => return Ok(()),
                }
            }
            if told {
                self.slave = None;
                if let Some(mut connection) = self.connection.take() {
                    finish(&mut connection, &self.kept);
                }
            }
        }
    }
}

/// The command has ended, and all that it has printed was read. A daemon that has died asks for nothing.
fn finish(connection: &mut Connection, kept: &Kept) {
    if let Ok(Some((kind::EVENT, body))) = connection.read()
        && matches!(protocol::parse(&body), Ok(Event::CaptureFinish))
        && let Ok(frame) = protocol::json_frame(kind::CAPTURED, &kept.captured())
    {
        // Nobody is left to tell that the output was not recorded.
        let _ = connection.send(&frame);
    }
}

/// The first and the last bytes of an output.
#[derive(Debug)]
struct Kept {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    omitted: u64,
}

impl Kept {
    fn new(limit: usize) -> Kept {
        Kept {
            half: limit / 2,
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.tail.extend(&bytes[room..]);
        let over = self.tail.len().saturating_sub(self.half);
        self.tail.drain(..over);
        self.omitted += over as u64;
    }

    fn captured(&self) -> Captured {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let (head, tail) = match self.omitted {
            0 => ([&self.head[..], &tail].concat(), Vec::new()),
            _ => (self.head.clone(), tail),
        };
        Captured {
            head: plain(&head),
            tail: plain(&tail),
            omitted: self.omitted,
        }
    }
}

/// The text as it stands on the screen: no colours, and of a line that was overwritten the last state.
fn plain(bytes: &[u8]) -> String {
    let text =
        String::from_utf8_lossy(&strip_ansi_escapes::strip(mark_returns(bytes))).into_owned();
    let lines: Vec<&str> = text
        .split('\n')
        .map(|line| {
            line.trim_end_matches(RETURN)
                .rsplit(RETURN)
                .next()
                .unwrap_or(line)
        })
        .collect();
    lines.join("\n")
}

/// Stands for a CR, which the stripping of escapes would take away.
const RETURN: char = '\u{f8ff}';

fn mark_returns(bytes: &[u8]) -> Vec<u8> {
    let mut sign = [0; 4];
    let sign = RETURN.encode_utf8(&mut sign).as_bytes();
    let mut marked = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\r' => marked.extend_from_slice(sign),
            byte => marked.push(*byte),
        }
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_the_rest_is_counted() {
        let mut kept = Kept::new(10);
        for part in ["abc", "defgh", "ijklmnop", "q"] {
            kept.push(part.as_bytes());
        }
        let captured = kept.captured();
        assert_eq!(
            (
                captured.head.as_str(),
                captured.tail.as_str(),
                captured.omitted
            ),
            ("abcde", "mnopq", 7)
        );
        let mut kept = Kept::new(10);
        kept.push(b"abcdefgh");
        assert_eq!(
            (kept.captured().head.as_str(), kept.captured().omitted),
            ("abcdefgh", 0)
        );
    }

    #[test]
    fn the_model_reads_what_stood_on_the_screen() {
        assert_eq!(plain(b"\x1b[31mred\x1b[0m\r\n"), "red\n");
        assert_eq!(plain(b" 10%\r 50%\r100%\ndone"), "100%\ndone");
        assert_eq!(plain(b"a\xffb"), "a\u{fffd}b");
    }
}
