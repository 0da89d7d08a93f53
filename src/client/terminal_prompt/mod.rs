//! A question on the user's terminal: single keys, a line editor, a pager, and the events that end or redraw it.
//!
//! Tool approvals, elicitations and proposed commands share this module, so that they treat held-down keys, pastes,
//! Ctrl-C, Ctrl-Z, resizing and a lost terminal in the same way.

pub mod pager;
mod prompt_key;

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::{Pid, getpgrp, getsid};

pub use self::prompt_key::PromptKey;
use super::edit_line::{EditLine, EditStep};
use super::frame_queue::FrameQueue;
use super::signals::{SignalPipes, drain};
use super::styled_line::{StyledLine, column_after, continue_line, paint};
use super::terminal::{self, ControllingTty, EchoGuard, RawKeyMode, SETTLE};
use crate::protocol::{Event, kind, parse};

/// Quiet time after the last SIGWINCH before the question is redrawn: dragging a window border sends many.
const RESIZE_SETTLE: Duration = Duration::from_millis(100);

const CTRL_Z: u8 = 26;
const ESCAPE: u8 = 0x1b;

const TERMINAL_LOST: PromptEnd = PromptEnd::NoTerminal("the terminal was closed");
const BACKGROUND_JOB: PromptEnd = PromptEnd::NoTerminal("this is a background job");

/// What the user did, or why the question must be drawn again.
#[derive(Debug, PartialEq, Eq)]
pub enum PromptInput {
    /// A key press.
    Key(PromptKey),
    /// The screen no longer shows the question as it was drawn (resize, stop and continue).
    Redraw,
}

/// Why a question ended without an answer from this terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptEnd {
    /// Ctrl-C, or a signal that ends the turn.
    Interrupted,
    /// The daemon closed the connection.
    DaemonGone,
    /// The daemon no longer needs the answer.
    Withdrawn,
    /// Another terminal answered; the text says where and what.
    AnsweredElsewhere(String),
    /// The question was closed before it was drawn.
    ClosedBefore,
    /// No terminal to ask on, with the reason.
    NoTerminal(&'static str),
}

/// Result of one step of a question.
pub type PromptResult<T> = Result<T, PromptEnd>;

/// Result of editing one line.
#[derive(Debug, PartialEq, Eq)]
pub enum EditedLine {
    /// Enter, with the text.
    Accepted(String),
    /// Ctrl-D on an empty line, or Esc.
    Cancelled,
}

/// Result of waiting for the terminal.
enum TtyInput {
    Bytes(usize),
    Redraw,
    Timeout,
}

/// The daemon request that waits for the answer. Its frames are read while the question is open.
pub struct PendingRequest<'a> {
    /// The connection of the request.
    pub frames: &'a mut FrameQueue,
    /// Echo mode outside of questions.
    pub echo: &'a mut EchoGuard,
    /// Returns how an event ends the question, if it does.
    pub ended_by: &'a dyn Fn(&Event) -> Option<PromptEnd>,
}

impl PendingRequest<'_> {
    /// Returns how a frame that was received already ends the question, as in the replay of a turn.
    pub fn end_in_waiting_frames(&mut self) -> Option<PromptEnd> {
        let ended_by = self.ended_by;
        let mut end = None;
        let inspected = self.frames.inspect_waiting(|kind, body| {
            end = end.take().or_else(|| end_by_frame(ended_by, kind, body));
        });
        match inspected {
            Ok(()) => end,
            Err(_) => Some(PromptEnd::DaemonGone),
        }
    }
}

/// Returns how a frame of the daemon ends the question.
fn end_by_frame(
    ended_by: &dyn Fn(&Event) -> Option<PromptEnd>,
    kind: u8,
    body: &[u8],
) -> Option<PromptEnd> {
    match kind {
        kind::REPLY | kind::FAILURE => Some(PromptEnd::Withdrawn),
        kind::EVENT => ended_by(&parse(body).ok()?),
        _ => None,
    }
}

/// A question on the controlling terminal. Keys arrive one by one and without echo while it exists.
pub struct TerminalPrompt<'a> {
    tty: ControllingTty,
    /// `None` while another program has the terminal.
    raw_mode: Option<RawKeyMode>,
    signals: &'a SignalPipes,
    /// `None` where no request waits, as for proposed commands.
    request: Option<PendingRequest<'a>>,
    /// Columns and rows.
    pub size: (usize, usize),
    /// Use colours.
    pub color: bool,
    /// Cursor column after the last write.
    column: Cell<usize>,
}

impl<'a> TerminalPrompt<'a> {
    /// Opens the controlling terminal and switches it to single keys.
    ///
    /// # Errors
    /// [`PromptEnd::NoTerminal`] without a terminal or in a background job.
    pub fn open(
        signals: &'a SignalPipes,
        request: Option<PendingRequest<'a>>,
    ) -> PromptResult<TerminalPrompt<'a>> {
        let tty =
            ControllingTty::open().map_err(|_| PromptEnd::NoTerminal("no terminal to ask on"))?;
        let mut prompt = TerminalPrompt {
            size: terminal::size(&tty.file),
            color: terminal::colors(&tty.file),
            tty,
            column: Cell::new(0),
            raw_mode: None,
            signals,
            request,
        };
        prompt.acquire()?;
        Ok(prompt)
    }

    /// Switches the terminal to single keys if this process group is in the foreground.
    fn acquire(&mut self) -> PromptResult<()> {
        if !terminal::foreground(&self.tty.file) {
            return Err(BACKGROUND_JOB);
        }
        // First restore, so that the saved modes are those of the shell.
        self.raw_mode = None;
        self.raw_mode = Some(self.tty.raw_keys().map_err(|_| TERMINAL_LOST)?);
        self.size = terminal::size(&self.tty.file);
        Ok(())
    }

    /// Returns the columns available beside the frame sign.
    pub fn width(&self) -> usize {
        self.size.0.saturating_sub(2).max(1)
    }

    /// Writes trusted text.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn write(&self, text: &str) -> PromptResult<()> {
        self.column.set(column_after(self.column.get(), text));
        (&self.tty.file)
            .write_all(text.as_bytes())
            .map_err(|_| TERMINAL_LOST)
    }

    /// Writes one line of the frame: `sign`, a space and the line.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn frame_line(&self, sign: &str, line: &StyledLine) -> PromptResult<()> {
        let mut out = self.dim(sign);
        out.push(' ');
        paint(line, self.color, &mut out);
        out.push('\n');
        self.write(&out)
    }

    /// Returns trusted text in a dim style.
    pub fn dim(&self, text: &str) -> String {
        match self.color {
            true => format!("\x1b[2m{text}\x1b[0m"),
            false => text.to_string(),
        }
    }

    /// Writes the line that follows a question without an answer, on a new line if it does not fit after the keys.
    pub fn write_end(&self, end: &PromptEnd) {
        let text = match end {
            PromptEnd::Interrupted => "stopped",
            PromptEnd::DaemonGone => "the daemon exited: denied",
            PromptEnd::Withdrawn => "the question was withdrawn",
            PromptEnd::AnsweredElsewhere(text) => text,
            // Nothing can be written, the terminal belongs to another job, or no question is on the screen.
            PromptEnd::NoTerminal(_) | PromptEnd::ClosedBefore => return,
        };
        // A lost terminal shows nothing.
        let _ = self.write(&continue_line(text, self.column.get(), self.size.0));
    }

    /// Discards input until there is silence: keys typed before the question was visible must not answer it.
    /// Ctrl-C still counts. Returns `false` if the question must be redrawn.
    ///
    /// # Errors
    /// The question ended, or the terminal is lost.
    pub fn settle(&mut self) -> PromptResult<bool> {
        let mut buffer = [0; 1024];
        loop {
            match self.wait_input(&mut buffer, Some(SETTLE))? {
                TtyInput::Bytes(length) if buffer[..length].contains(&terminal::INTERRUPT) => {
                    return Err(PromptEnd::Interrupted);
                }
                TtyInput::Bytes(_) => {}
                TtyInput::Timeout => return Ok(true),
                TtyInput::Redraw => return Ok(false),
            }
        }
    }

    /// Waits for a key that follows a silence, so that a key held down answers nothing.
    ///
    /// # Errors
    /// The question ended.
    pub fn answer_key(&mut self) -> PromptResult<PromptInput> {
        match self.settle()? {
            true => self.key(),
            false => Ok(PromptInput::Redraw),
        }
    }

    /// Waits for a key. Ctrl-C ends the question, Ctrl-Z stops the job.
    ///
    /// # Errors
    /// The question ended.
    pub fn key(&mut self) -> PromptResult<PromptInput> {
        let mut buffer = [0; 256];
        let Some(length) = self.read(&mut buffer)? else {
            return Ok(PromptInput::Redraw);
        };
        match PromptKey::parse(&buffer[..length]) {
            // Also among other bytes: a key held down arrives several at once.
            _ if buffer[..length].contains(&terminal::INTERRUPT) => Err(PromptEnd::Interrupted),
            PromptKey::Byte(CTRL_Z) => match self.suspend()? {
                true => Ok(PromptInput::Redraw),
                false => Ok(PromptInput::Key(PromptKey::Other)),
            },
            key => Ok(PromptInput::Key(key)),
        }
    }

    /// Writes the closing line of the frame with `keys` and waits for a key for which `meaning` returns a value and
    /// the word to echo. Returns `None` if the question must be redrawn.
    ///
    /// # Errors
    /// The question ended.
    pub fn choose<T>(
        &mut self,
        keys: &str,
        meaning: &dyn Fn(PromptKey) -> Option<(T, &'static str)>,
    ) -> PromptResult<Option<T>> {
        loop {
            self.write(&format!("{} {keys}", self.dim("└")))?;
            match self.answer_key()? {
                PromptInput::Redraw => {
                    self.write("\n")?;
                    return Ok(None);
                }
                PromptInput::Key(key) => match meaning(key) {
                    Some((value, word)) => {
                        self.write(&format!("{word}\n"))?;
                        return Ok(Some(value));
                    }
                    None => self.write("\nunknown key\n")?,
                },
            }
        }
    }

    /// Edits one line behind the `> ` that is already on the screen, starting with `text`.
    ///
    /// # Errors
    /// The question ended.
    pub fn edit_line(&mut self, text: &str) -> PromptResult<EditedLine> {
        let mut line = EditLine::with(text);
        let columns = |size: (usize, usize)| size.0.saturating_sub(2);
        self.write(&line.visible_part(columns(self.size)))?;
        let mut buffer = [0; 1024];
        loop {
            let length = match self.read(&mut buffer)? {
                Some(1) if buffer[0] == ESCAPE => {
                    self.write("\n")?;
                    return Ok(EditedLine::Cancelled);
                }
                Some(1) if buffer[0] == CTRL_Z && self.suspend()? => 0,
                Some(length) => length,
                None => 0,
            };
            if length == 0 {
                let visible = line.visible_part(columns(self.size));
                self.write(&format!("\n> {visible}"))?;
            }
            for byte in &buffer[..length] {
                match line.take(*byte) {
                    EditStep::Shown(_) => {
                        let visible = line.visible_part(columns(self.size));
                        self.write(&format!("\r\x1b[K> {visible}"))?;
                    }
                    EditStep::Hidden => {}
                    EditStep::Interrupt => return Err(PromptEnd::Interrupted),
                    EditStep::Leave => {
                        self.write("\n")?;
                        return Ok(EditedLine::Cancelled);
                    }
                    // The rest of the buffer belongs to a paste, and to no other question.
                    EditStep::Enter => {
                        self.write("\n")?;
                        return Ok(EditedLine::Accepted(line.text().to_string()));
                    }
                }
            }
        }
    }

    /// Runs `program` with the terminal in the modes it had before the question.
    ///
    /// # Errors
    /// The question ended.
    pub fn lend<T>(&mut self, program: impl FnOnce(&ControllingTty) -> T) -> PromptResult<T> {
        self.raw_mode = None;
        self.set_echo_off(false);
        let result = program(&self.tty);
        self.set_echo_off(true);
        // Ctrl-C and Ctrl-Z inside the program were meant for the program.
        drain(&self.signals.end);
        drain(&self.signals.stop);
        drain(&self.signals.resume);
        drain(&self.signals.resize);
        self.acquire()?;
        Ok(result)
    }

    /// Suppresses or restores the echo that applies outside of questions.
    fn set_echo_off(&mut self, off: bool) {
        match (&mut self.request, off) {
            (Some(request), true) => request.echo.suppress(),
            (Some(request), false) => request.echo.restore(),
            (None, _) => {}
        }
    }

    /// Reads bytes from the terminal; `None` if the question must be redrawn.
    fn read(&mut self, buffer: &mut [u8]) -> PromptResult<Option<usize>> {
        loop {
            match self.wait_input(buffer, None)? {
                TtyInput::Bytes(length) => return Ok(Some(length)),
                TtyInput::Redraw => return Ok(None),
                TtyInput::Timeout => {}
            }
        }
    }

    fn wait_input(
        &mut self,
        buffer: &mut [u8],
        patience: Option<Duration>,
    ) -> PromptResult<TtyInput> {
        let timeout = patience.map_or(PollTimeout::NONE, |p| {
            PollTimeout::try_from(p).unwrap_or(PollTimeout::MAX)
        });
        loop {
            let [end, stop, resume, resize, input, daemon] = self.poll(timeout)?;
            if ![end, stop, resume, resize, input, daemon].contains(&true) {
                return Ok(TtyInput::Timeout);
            }
            if daemon {
                self.receive_frames()?;
            }
            // Left in its pipe: the request loop reads it and cancels the turn.
            if end {
                return Err(PromptEnd::Interrupted);
            }
            if stop && drain(&self.signals.stop) && self.suspend()? {
                return Ok(TtyInput::Redraw);
            }
            if resume && drain(&self.signals.resume) {
                // SIGSTOP came from outside, and the shell has changed the terminal modes meanwhile.
                self.acquire()?;
                return Ok(TtyInput::Redraw);
            }
            if resize {
                while drain(&self.signals.resize) {
                    std::thread::sleep(RESIZE_SETTLE);
                }
                self.size = terminal::size(&self.tty.file);
                return Ok(TtyInput::Redraw);
            }
            if input {
                // Reading in the background would stop this process while the daemon waits.
                if !terminal::foreground(&self.tty.file) {
                    return Err(BACKGROUND_JOB);
                }
                match (&self.tty.file).read(buffer) {
                    Ok(0) => return Err(TERMINAL_LOST),
                    Ok(length) => return Ok(TtyInput::Bytes(length)),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Err(TERMINAL_LOST),
                }
            }
        }
    }

    /// Returns which of end, stop, resume, resize, terminal input and daemon are ready; none at the timeout.
    fn poll(&self, timeout: PollTimeout) -> PromptResult<[bool; 6]> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let signals = self.signals;
        let mut fds = vec![
            readable(signals.end.as_fd()),
            readable(signals.stop.as_fd()),
            readable(signals.resume.as_fd()),
            readable(signals.resize.as_fd()),
            readable(self.tty.file.as_fd()),
        ];
        let daemon: Option<BorrowedFd<'_>> =
            self.request.as_ref().map(|r| r.frames.connection.fd());
        fds.extend(daemon.map(readable));
        loop {
            match poll(&mut fds, timeout) {
                Ok(_) => break,
                Err(Errno::EINTR) => {}
                Err(_) => return Err(TERMINAL_LOST),
            }
        }
        let mut ready = [false; 6];
        for (ready, fd) in ready.iter_mut().zip(&fds) {
            *ready = fd.any().unwrap_or(true);
        }
        Ok(ready)
    }

    /// Queues what the daemon sent; fails if that ends the question.
    fn receive_frames(&mut self) -> PromptResult<()> {
        let Some(request) = &mut self.request else {
            return Ok(());
        };
        let ended_by = request.ended_by;
        let mut ended = None;
        let received = request.frames.receive(|kind, body| {
            ended = ended.take().or_else(|| end_by_frame(ended_by, kind, body));
        });
        match (received, ended) {
            (Ok(true), None) => Ok(()),
            (Ok(true), Some(end)) => Err(end),
            (Ok(false) | Err(_), _) => Err(PromptEnd::DaemonGone),
        }
    }

    /// Stops the whole job as Ctrl-Z does, with the terminal modes of the shell. Returns `true` once the job
    /// continues, and `false` where no job control could continue it: in the session leader's own process group, and
    /// in a command substitution, which asks about proposed commands.
    fn suspend(&mut self) -> PromptResult<bool> {
        if self.request.is_none() || getsid(None).is_ok_and(|leader| leader == getpgrp()) {
            return Ok(false);
        }
        self.raw_mode = None;
        self.set_echo_off(false);
        self.write("\n")?;
        // This process catches SIGTSTP; the other processes of the job stop by it.
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        let _ = raise(Signal::SIGSTOP);
        drain(&self.signals.stop);
        drain(&self.signals.resume);
        drain(&self.signals.resize);
        self.set_echo_off(true);
        self.acquire()?;
        Ok(true)
    }
}
