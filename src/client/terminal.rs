//! Size and modes of the controlling terminal.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, ttyname};

use crate::error::{Error, ErrorContext, ErrorKind, Result};

/// Silence required before a key answers a question, so that typing ahead and held-down keys do not.
pub const SETTLE: Duration = Duration::from_millis(100);
/// Ctrl-C in single-key mode.
pub const INTERRUPT: u8 = 3;

/// Returns columns and rows, or 80 × 24 if the terminal does not report them.
pub fn size(fd: &impl AsFd) -> (usize, usize) {
    match terminal_size::terminal_size_of(fd) {
        Some((w, h)) if w.0 > 0 && h.0 > 0 => (usize::from(w.0), usize::from(h.0)),
        Some((w, _)) if w.0 > 0 => (usize::from(w.0), 24),
        _ => (80, 24),
    }
}

/// Returns whether to use colours on this terminal.
pub fn colors(fd: &impl IsTerminal) -> bool {
    fd.is_terminal() && crate::config::preferences::wants_colors()
}

/// Returns whether this process group is in the foreground of the terminal.
pub fn foreground(fd: &impl AsFd) -> bool {
    tcgetpgrp(fd).is_ok_and(|group| group == getpgrp())
}

/// Returns the name of the terminal of stdin, stdout or stderr, such as `pts/3`.
pub fn tty_name() -> Option<String> {
    let name = ttyname(io::stdin())
        .or_else(|_| ttyname(io::stdout()))
        .or_else(|_| ttyname(io::stderr()));
    let name = name.ok()?.display().to_string();
    Some(name.strip_prefix("/dev/").unwrap_or(&name).to_string())
}

/// Waits for a program that has the terminal. Returns its exit code, or 128 plus the signal that killed it. When the
/// program stops (Ctrl-Z), this process stops too, so that the shell sees a stopped job.
///
/// # Errors
/// The program is not a child of this process.
pub fn wait_for_program(child: &Child) -> Result<i32> {
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

/// Guard that suppresses the echo while an answer streams, so that typed keys do not appear in it. The shell reads them
/// afterwards. Ctrl-C and Ctrl-Z keep their effect.
///
/// It suppresses the editing of lines as well: a terminal that reads lines without echo asks for a password, and recordings leave
/// out what it shows meanwhile.
#[derive(Debug)]
pub struct EchoGuard {
    /// What is to be turned on again.
    suppressed: LocalFlags,
}

impl Default for EchoGuard {
    fn default() -> EchoGuard {
        EchoGuard {
            suppressed: LocalFlags::empty(),
        }
    }
}

impl EchoGuard {
    /// Turns the echo off if stdout is a terminal with this process in the foreground.
    pub fn suppress(&mut self) {
        let mut suppressed = LocalFlags::empty();
        change_modes(|flags| {
            if flags.contains(LocalFlags::ECHO) {
                suppressed = *flags & (LocalFlags::ECHO | LocalFlags::ICANON);
                flags.remove(suppressed);
            }
        });
        self.suppressed |= suppressed;
    }

    /// Turns the echo on again if it was turned off.
    pub fn restore(&mut self) {
        let suppressed = std::mem::replace(&mut self.suppressed, LocalFlags::empty());
        if !suppressed.is_empty() {
            change_modes(|flags| flags.insert(suppressed));
        }
    }
}

/// Changes the modes of the terminal on stdout. In the background they belong to the foreground job.
fn change_modes(change: impl FnOnce(&mut LocalFlags)) {
    let stdout = io::stdout();
    if !foreground(&stdout) {
        return;
    }
    let Ok(mut modes) = tcgetattr(&stdout) else {
        return;
    };
    let before = modes.local_flags;
    change(&mut modes.local_flags);
    if modes.local_flags != before {
        // TCSANOW: waits for no output held by Ctrl-S, and keeps pending input. Fails if the terminal is gone.
        let _ = tcsetattr(&stdout, SetArg::TCSANOW, &modes);
    }
}

impl Drop for EchoGuard {
    fn drop(&mut self) {
        self.restore();
    }
}

/// The controlling terminal, independent of stdin and stdout.
#[derive(Debug)]
pub struct ControllingTty {
    /// `/dev/tty`.
    pub file: File,
}

impl ControllingTty {
    /// Opens `/dev/tty`.
    ///
    /// # Errors
    /// There is no controlling terminal (exit code 4).
    pub fn open() -> Result<ControllingTty> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .map(|file| ControllingTty { file })
            .map_err(|_| {
                Error::new(
                    ErrorKind::Approval,
                    "there is no terminal to ask on, so nothing was run",
                )
                .hint("run llm in a terminal to decide on proposed commands")
            })
    }

    /// Switches to single keys without echo until the guard is dropped. Ctrl-C then is a key, not a signal.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn raw_keys(&self) -> Result<RawKeyMode> {
        let file = self
            .file
            .try_clone()
            .context(|| "cannot set up the terminal".into())?;
        let saved_modes = tcgetattr(&self.file).context(|| "cannot set up the terminal".into())?;
        let mut raw = saved_modes.clone();
        raw.local_flags
            .remove(LocalFlags::ICANON | LocalFlags::ECHO | LocalFlags::ISIG);
        tcsetattr(&self.file, SetArg::TCSADRAIN, &raw)
            .context(|| "cannot set up the terminal".into())?;
        Ok(RawKeyMode {
            file,
            saved_modes,
            raw,
        })
    }
}

/// Guard that keeps the terminal in single-key mode and restores its modes when dropped.
#[derive(Debug)]
pub struct RawKeyMode {
    file: File,
    saved_modes: Termios,
    raw: Termios,
}

impl RawKeyMode {
    /// Whether the terminal is still in the modes that this guard has set.
    pub fn is_set(&self) -> bool {
        let parts = |modes: &Termios| {
            (
                modes.input_flags,
                modes.output_flags,
                modes.local_flags,
                modes.control_chars,
            )
        };
        tcgetattr(&self.file).is_ok_and(|now| parts(&now) == parts(&self.raw))
    }
}

impl Drop for RawKeyMode {
    fn drop(&mut self) {
        // A lost terminal needs no restoring. In the background the terminal belongs to another job, and changing its
        // modes would stop this process.
        if foreground(&self.file) {
            let _ = tcsetattr(&self.file, SetArg::TCSADRAIN, &self.saved_modes);
        }
    }
}
