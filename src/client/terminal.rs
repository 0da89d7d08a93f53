//! The terminal: its size, its modes, single keys.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, tcgetpgrp};

use crate::error::{Context, Error, Kind, Result};

/// Keys are not taken before none has come for so long: whoever types on, or holds a key down, did not mean it.
pub const SETTLE: Duration = Duration::from_millis(100);
/// Ctrl-C, where it is a key.
pub const INTERRUPT: u8 = 3;

/// Columns and rows; 80 × 24 where the terminal does not say.
pub fn size(fd: &impl AsFd) -> (usize, usize) {
    match terminal_size::terminal_size_of(fd) {
        Some((w, h)) if w.0 > 0 && h.0 > 0 => (usize::from(w.0), usize::from(h.0)),
        Some((w, _)) if w.0 > 0 => (usize::from(w.0), 24),
        _ => (80, 24),
    }
}

/// Whether colours are wanted on this terminal.
pub fn colors(fd: &impl IsTerminal) -> bool {
    fd.is_terminal() && crate::config::preferences::wants_colors()
}

/// Whether our process group has the terminal, so that nobody else is typed to or writes there.
pub fn foreground(fd: &impl AsFd) -> bool {
    tcgetpgrp(fd).is_ok_and(|group| group == getpgrp())
}

/// Waits for a program that has the terminal; its exit code, or 128 and the signal that ended it. With Ctrl-Z
/// it stops, and we with it, so that the shell sees it.
///
/// # Errors
/// It is no child of ours.
pub fn attend(child: &Child) -> Result<i32> {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    loop {
        match waitpid(pid, Some(WaitPidFlag::WUNTRACED)) {
            Ok(WaitStatus::Exited(_, code)) => return Ok(code),
            Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(128 + signal as i32),
            Ok(WaitStatus::Stopped(..)) => {
                let _ = raise(Signal::SIGSTOP);
                let _ = kill(pid, Signal::SIGCONT);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(Error::runtime(format!("cannot wait for a program: {e}"))),
        }
    }
}

/// Keeps keys that are typed while an answer streams out of it: they wait for the shell. Ctrl-C and Ctrl-Z work on.
#[derive(Debug, Default)]
pub struct Quiet {
    on: bool,
}

impl Quiet {
    /// Turns the echo off, where stdout is a terminal that is ours.
    pub fn on(&mut self) {
        self.on = self.set(LocalFlags::empty()) || self.on;
    }

    /// Turns the echo on again, if it was turned off.
    pub fn off(&mut self) {
        if std::mem::take(&mut self.on) {
            self.set(LocalFlags::ECHO);
        }
    }

    /// Whether the echo has changed. In the background the terminal is another's, who has set it up.
    fn set(&self, echo: LocalFlags) -> bool {
        let stdout = io::stdout();
        if !foreground(&stdout) {
            return false;
        }
        let Ok(mut modes) = tcgetattr(&stdout) else {
            return false;
        };
        if modes.local_flags & LocalFlags::ECHO == echo {
            return false;
        }
        modes.local_flags.set(LocalFlags::ECHO, !echo.is_empty());
        // Without waiting for a terminal that has been stopped with Ctrl-S, and without loss of what was typed.
        tcsetattr(&stdout, SetArg::TCSANOW, &modes).is_ok()
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.off();
    }
}

/// The terminal of the person, whatever stdin and stdout are.
#[derive(Debug)]
pub struct Tty {
    /// `/dev/tty`.
    pub file: File,
}

impl Tty {
    /// Opens it.
    ///
    /// # Errors
    /// There is none (exit code 4): nothing can be asked.
    pub fn open() -> Result<Tty> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .map(|file| Tty { file })
            .map_err(|_| {
                Error::new(
                    Kind::Approval,
                    "there is no terminal to ask on, so nothing was run",
                )
                .hint("run llm in a terminal to decide on proposed commands")
            })
    }

    /// Single keys without echo until the guard is dropped; Ctrl-C is a key then.
    ///
    /// # Errors
    /// It is no terminal, or it has gone.
    pub fn keys(&self) -> Result<Keys> {
        let file = self
            .file
            .try_clone()
            .context(|| "cannot set up the terminal".into())?;
        let before = tcgetattr(&self.file).context(|| "cannot set up the terminal".into())?;
        let mut raw = before.clone();
        raw.local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
        tcsetattr(&self.file, SetArg::TCSADRAIN, &raw)
            .context(|| "cannot set up the terminal".into())?;
        Ok(Keys { file, before })
    }
}

/// The terminal in single-key mode.
#[derive(Debug)]
pub struct Keys {
    file: File,
    before: Termios,
}

impl Keys {
    /// Throws away what is typed until there is silence, as it was begun before the question could be read; whether Ctrl-C was among it, which
    /// whoever asks must heed: it is the one key that is meant whenever it comes.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn settle(&self) -> Result<bool> {
        let mut end = Instant::now() + SETTLE;
        let mut buffer = [0; 1024];
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if !self.wait(left)? {
                if left.is_zero() {
                    return Ok(false);
                }
                continue;
            }
            match (&self.file).read(&mut buffer) {
                Ok(0) => return Err(Error::runtime("the terminal has gone")),
                Ok(length) if buffer[..length].contains(&INTERRUPT) => return Ok(true),
                Ok(_) => end = Instant::now() + SETTLE,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e).context(|| "cannot read the terminal".into()),
            }
        }
    }

    /// Waits for input, or a signal, at most so long; whether there is input.
    fn wait(&self, patience: Duration) -> Result<bool> {
        let mut fds = [PollFd::new(self.file.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(ready) => Ok(ready > 0),
            Err(Errno::EINTR) => Ok(false),
            Err(e) => Err(Error::runtime(format!("cannot read the terminal: {e}"))),
        }
    }

    /// The next key. The rest of an escape sequence (an arrow key) is passed over.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn read(&mut self) -> Result<u8> {
        let mut buffer = [0; 64];
        loop {
            let length = (&self.file)
                .read(&mut buffer)
                .context(|| "cannot read the terminal".into())?;
            match buffer[..length] {
                [] => return Err(Error::runtime("the terminal has gone")),
                [key] => return Ok(key),
                // Pressed twice it is meant twice.
                ref keys if keys.contains(&INTERRUPT) => return Ok(INTERRUPT),
                // Several bytes at once are an escape sequence, a pasted text or no ASCII: no answer.
                _ => {}
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // A terminal that has gone needs no restoring; in the background it is another's, and we would be stopped.
        if foreground(&self.file) {
            let _ = tcsetattr(&self.file, SetArg::TCSADRAIN, &self.before);
        }
    }
}
