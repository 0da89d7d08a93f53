//! Copies between the terminal and the pty, until the command ends or the terminal is closed.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, ExitStatus};

use nix::errno::Errno;
use nix::libc::{O_NOCTTY, O_NONBLOCK};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::kill;
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::{Pid, ttyname};
use pty_process::blocking::Pty;
use rustix::termios::{tcgetwinsize, tcsetwinsize};

use super::raw_mode::set_raw;
use super::reads_unseen;
use super::signals::RelaySignals;
use crate::client::mark_nonce::NonceNotices;
use crate::error::{ErrorContext, Result};
use crate::recording::event::GapReason;
use crate::recording::marks::{Mark, MarkParser, OutputPart};
use crate::recording::recorder::Recorder;

/// Size of the buffer of the output. A pty gives at most 4 KiB at a time.
const OUTPUT: usize = 64 << 10;
/// Size of the buffer of the input, and how much of it may wait for the command.
const INPUT: usize = 16 << 10;

/// The user's terminal.
#[derive(Debug)]
pub struct Terminal {
    file: File,
    /// The modes that the terminal had.
    modes: Termios,
}

impl Terminal {
    /// Reopens the terminal of stdin, so that it does not block: the descriptors 0 to 2 are shared with other processes.
    ///
    /// # Errors
    /// The terminal is lost, or belongs to another user.
    pub fn open() -> Result<Terminal> {
        let name = ttyname(io::stdin()).context(|| "the terminal has no name".into())?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(O_NOCTTY | O_NONBLOCK)
            .open(&name)
            .context(|| format!("cannot open {}", name.display()))?;
        let modes = tcgetattr(&file).context(|| "cannot read the terminal's modes".into())?;
        Ok(Terminal { file, modes })
    }
}

/// How the relay ended.
#[derive(Debug)]
pub enum RelayEnd {
    /// The command has ended.
    Exited(ExitStatus),
    /// The terminal was closed.
    HungUp,
}

/// The relay between a terminal and a pty.
pub struct Relay {
    terminal: Terminal,
    pty: Pty,
    child: Child,
    signals: RelaySignals,
    parser: MarkParser,
    notices: NonceNotices,
    /// The command may still write to the pty.
    open: bool,
    buffer: Vec<u8>,
    /// Output that the terminal has not taken yet, and the number of bytes it has.
    output: Vec<u8>,
    written: usize,
    /// Marks, each with its place in the output.
    marks: Vec<(usize, Mark)>,
    input: Vec<u8>,
    /// Input has reached the pty since the echo was last seen on.
    has_typed: bool,
}

impl Relay {
    /// Creates a relay for a command that runs in `pty`, whose master must not block.
    pub fn new(
        terminal: Terminal,
        pty: Pty,
        child: Child,
        signals: RelaySignals,
        parser: MarkParser,
        notices: NonceNotices,
    ) -> Relay {
        Relay {
            terminal,
            pty,
            child,
            signals,
            parser,
            notices,
            open: true,
            buffer: vec![0; OUTPUT],
            output: Vec::with_capacity(OUTPUT),
            written: 0,
            marks: Vec::new(),
            input: Vec::with_capacity(INPUT),
            has_typed: false,
        }
    }

    /// Copies until the end.
    pub fn copy(&mut self, recorder: &mut Recorder) -> RelayEnd {
        // What changed before the handlers were there.
        self.resize(recorder);
        loop {
            match self.step(recorder) {
                Ok(None) => {}
                Ok(Some(status)) => {
                    return match self.drain(recorder) {
                        Ok(()) => RelayEnd::Exited(status),
                        Err(_) => RelayEnd::HungUp,
                    };
                }
                Err(_) => return RelayEnd::HungUp,
            }
        }
    }

    /// Waits for something to do, and does it. Returns the command's status when it has ended, and an error when the terminal
    /// is gone.
    fn step(&mut self, recorder: &mut Recorder) -> io::Result<Option<ExitStatus>> {
        let pending = self.written < self.output.len();
        let mut terminal = PollFlags::empty();
        terminal.set(PollFlags::POLLIN, self.input.len() < INPUT);
        terminal.set(PollFlags::POLLOUT, pending);
        let mut pty = PollFlags::empty();
        pty.set(PollFlags::POLLIN, !pending);
        pty.set(PollFlags::POLLOUT, !self.input.is_empty());
        let mut fds = [
            PollFd::new(self.signals.fd(), PollFlags::POLLIN),
            PollFd::new(self.terminal.file.as_fd(), terminal),
            PollFd::new(self.pty.as_fd(), pty),
        ];
        // A closed pty would wake the poll again and again.
        let used = if self.open && !pty.is_empty() { 3 } else { 2 };
        let fds = fds.get_mut(..used).unwrap_or_default();
        match poll(fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        let events = |at: usize| {
            let fd = fds.get(at).and_then(PollFd::revents);
            fd.unwrap_or(PollFlags::empty())
        };
        let (signals, terminal, pty) = (events(0), events(1), events(2));
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR;
        if terminal.intersects(gone) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if terminal.contains(PollFlags::POLLIN) {
            self.read_input()?;
        }
        if terminal.contains(PollFlags::POLLOUT) {
            self.write_output()?;
        }
        if !self.input.is_empty() {
            self.write_input();
        }
        if pty.intersects(PollFlags::POLLIN | gone) && self.written == self.output.len() {
            self.read_output(recorder)?;
        }
        match signals.is_empty() {
            true => Ok(None),
            false => self.signals(recorder),
        }
    }

    /// Handles the signals that came. Returns the command's status when it has ended.
    fn signals(&mut self, recorder: &mut Recorder) -> io::Result<Option<ExitStatus>> {
        self.signals.drain();
        if self.signals.hung_up() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        for signal in self.signals.forwarded() {
            // The child exists until it is waited for.
            let pid = i32::try_from(self.child.id()).unwrap_or(i32::MAX);
            let _ = kill(Pid::from_raw(pid), signal);
        }
        if self.signals.resumed() {
            // In the background this would stop the relay again, and the shell that continues it sets the modes anyway.
            if super::super::terminal::foreground(&self.terminal.file) {
                let _ = set_raw(&self.terminal.modes);
            }
            self.resize(recorder);
        }
        if self.signals.resized() {
            self.resize(recorder);
        }
        match self.signals.child() {
            true => self.child.try_wait(),
            false => Ok(None),
        }
    }

    /// Gives the pty the size of the terminal.
    fn resize(&self, recorder: &Recorder) {
        let sizes = (tcgetwinsize(&self.terminal.file), tcgetwinsize(&self.pty));
        if let (Ok(size), Ok(now)) = sizes
            && size != now
            && tcsetwinsize(&self.pty, size).is_ok()
        {
            recorder.resize(size.ws_col, size.ws_row);
        }
    }

    fn read_input(&mut self) -> io::Result<()> {
        let mut keys = [0; INPUT];
        match self.terminal.file.read(&mut keys) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.input
                    .extend_from_slice(keys.get(..n).unwrap_or_default());
                Ok(())
            }
            Err(e) if is_transient(&e) => Ok(()),
            Err(e) => Err(e),
        }
    }

    fn write_input(&mut self) {
        match (&self.pty).write(&self.input) {
            Ok(n) => {
                self.has_typed = true;
                self.input.drain(..n.min(self.input.len()));
            }
            Err(e) if is_transient(&e) => {}
            // Nobody reads it now.
            Err(_) => self.input.clear(),
        }
    }

    /// Copies the pending output of the pty to the terminal and the recording.
    fn read_output(&mut self, recorder: &mut Recorder) -> io::Result<()> {
        let mut length = 0;
        while let Some(space) = self.buffer.get_mut(length..).filter(|s| !s.is_empty()) {
            match (&self.pty).read(space) {
                Ok(n) if n > 0 => length += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                // EIO: the last process has closed the pty.
                Ok(_) | Err(_) => {
                    self.open = false;
                    break;
                }
            }
        }
        if length == 0 {
            return Ok(());
        }
        let is_unseen = reads_unseen(&self.pty);
        self.has_typed &= is_unseen;
        // The modes are those of now, the output is older: a part of it may be from before the echo was turned off. What was typed
        // without echo can only be in it once something was typed.
        let left_out = (is_unseen && self.has_typed).then_some(GapReason::EchoOff);
        self.output.clear();
        self.written = 0;
        let (output, marks) = (&mut self.output, &mut self.marks);
        let bytes = self.buffer.get(..length).unwrap_or_default();
        self.parser.push(bytes, &mut |part| match part {
            OutputPart::Bytes(bytes) => output.extend_from_slice(bytes),
            OutputPart::Mark(mark) => marks.push((output.len(), mark)),
        });
        // The terminal first: the recording can wait.
        let shown = self.write_output();
        let mut from = 0;
        for (place, mark) in self.marks.drain(..) {
            recorder.output(self.output.get(from..place).unwrap_or_default(), left_out);
            if let Mark::Hello(shell) = &mark {
                self.notices.leave(shell);
            }
            recorder.mark(mark);
            from = place;
        }
        recorder.output(self.output.get(from..).unwrap_or_default(), left_out);
        shown
    }

    /// Writes as much as the terminal takes now.
    fn write_output(&mut self) -> io::Result<()> {
        while let Some(rest) = self.output.get(self.written..).filter(|r| !r.is_empty()) {
            match self.terminal.file.write(rest) {
                Ok(n) => self.written += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// After the end of the command: copies its remaining output. Processes in the background may keep the pty open, but the
    /// terminal is the shell's again.
    fn drain(&mut self, recorder: &mut Recorder) -> io::Result<()> {
        self.flush()?;
        // At most what a pty holds: a process in the background may write without end.
        for _ in 0..4 {
            self.output.clear();
            self.written = 0;
            self.read_output(recorder)?;
            if self.output.is_empty() {
                break;
            }
            self.flush()?;
        }
        let parser = std::mem::replace(&mut self.parser, MarkParser::new(""));
        self.output = parser.finish();
        self.written = 0;
        recorder.output(&self.output, None);
        self.flush()
    }

    /// Writes all the output, however long the terminal takes.
    fn flush(&mut self) -> io::Result<()> {
        loop {
            self.write_output()?;
            if self.written == self.output.len() {
                return Ok(());
            }
            let mut fds = [
                PollFd::new(self.terminal.file.as_fd(), PollFlags::POLLOUT),
                PollFd::new(self.signals.fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(e) => return Err(e.into()),
            }
            self.signals.drain();
            if self.signals.hung_up() {
                return Err(ErrorKind::BrokenPipe.into());
            }
        }
    }
}

fn is_transient(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock)
}
