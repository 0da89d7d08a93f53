//! A question on the person's terminal while the daemon waits for the answer: whatever happens meanwhile,
//! on the terminal, on the socket or by a signal, ends it, repeats it or is its answer.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::{Pid, getpgrp, getsid};

use super::connect::Connection;
use super::frame::{Line, paint};
use super::line::{Step, Typing};
use super::signals::{Signals, took};
use super::terminal::{self, Keys, Quiet, SETTLE, Tty};

use crate::protocol::{Event, kind, parse};

/// A terminal that is being resized changes many times in a row; it is drawn on once it has come to rest.
const REST: Duration = Duration::from_millis(100);

/// The connection, and what came over it while something else was going on.
#[derive(Debug)]
pub struct Wire {
    /// To the daemon.
    pub connection: Connection,
    queue: VecDeque<(u8, Vec<u8>)>,
}

impl Wire {
    /// Nothing has come yet.
    pub fn new(connection: Connection) -> Wire {
        Wire {
            connection,
            queue: VecDeque::new(),
        }
    }

    /// The next frame that has come whole.
    ///
    /// # Errors
    /// It is no frame.
    pub fn next(&mut self) -> io::Result<Option<(u8, Vec<u8>)>> {
        match self.queue.pop_front() {
            Some(frame) => Ok(Some(frame)),
            None => self.connection.buffered(),
        }
    }

    /// Reads what there is and keeps it for later; whether the daemon waits for no answer any more.
    ///
    /// # Errors
    /// The daemon has gone.
    fn keep(&mut self, over: &dyn Fn(&Event) -> bool) -> Answered<bool> {
        if !matches!(self.connection.fill(), Ok(true)) {
            return Err(Over::Gone);
        }
        let mut withdrawn = false;
        while let Some((kind, body)) = self.connection.buffered().map_err(|_| Over::Gone)? {
            withdrawn |= match kind {
                kind::REPLY | kind::FAILURE => true,
                kind::EVENT => parse(&body).is_ok_and(|event| over(&event)),
                _ => false,
            };
            self.queue.push_back((kind, body));
        }
        Ok(withdrawn)
    }
}

/// What can happen while a question stands.
#[derive(Debug, PartialEq, Eq)]
pub enum Happened {
    /// A key.
    Key(Key),
    /// What stood on the terminal is not what stands there now: ask again.
    Changed,
}

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// One byte.
    Byte(u8),
    /// Down, or a page down.
    Down,
    /// Up, or a page up.
    Up,
    /// To the end.
    End,
    /// Esc.
    Escape,
    /// No single key: another key's sequence, a pasted text, a letter that is not ASCII.
    Other,
}

impl Key {
    /// Several bytes at once are no answer, so that a paste is none.
    fn of(bytes: &[u8]) -> Key {
        match bytes {
            b"\x1b" => Key::Escape,
            [byte] => Key::Byte(*byte),
            b"\x1b[B" | b"\x1bOB" | b"\x1b[6~" => Key::Down,
            b"\x1b[F" | b"\x1bOF" | b"\x1b[4~" => Key::End,
            b"\x1b[A" | b"\x1bOA" | b"\x1b[5~" => Key::Up,
            _ => Key::Other,
        }
    }
}

/// Why a question ended without an answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Over {
    /// Ctrl-C, or a signal that ends the turn.
    Stop,
    /// The daemon has gone.
    Gone,
    /// The daemon has ended what it asked about.
    Withdrawn,
    /// There is no terminal to ask on; why.
    NoTerminal(&'static str),
}

/// What a step of a question comes to.
pub type Answered<T> = Result<T, Over>;

/// A line that was typed, or what came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// It.
    Line(String),
    /// Ctrl-D or Esc: none.
    None,
}

/// What came of waiting for the terminal.
enum Got {
    Bytes(usize),
    /// What stood there does not any more.
    Changed,
    /// Nothing, for as long as was given.
    Silence,
}

/// A terminal to ask on. While it lives, keys come singly and unseen.
pub struct Asking<'a> {
    tty: Tty,
    /// `None` while the terminal is another's.
    keys: Option<Keys>,
    wire: &'a mut Wire,
    signals: &'a Signals,
    quiet: &'a mut Quiet,
    over: &'a dyn Fn(&Event) -> bool,
    /// Columns and rows.
    pub size: (usize, usize),
    /// Colours are wanted.
    pub color: bool,
}

const GONE: Over = Over::NoTerminal("the terminal has gone");
const BACKGROUND: Over = Over::NoTerminal("this is a background job");

impl<'a> Asking<'a> {
    /// Takes the terminal. `over` says of an event whether it ends what is asked about.
    ///
    /// # Errors
    /// There is none, or another has it.
    pub fn open(
        wire: &'a mut Wire,
        signals: &'a Signals,
        quiet: &'a mut Quiet,
        over: &'a dyn Fn(&Event) -> bool,
    ) -> Answered<Asking<'a>> {
        let tty = Tty::open().map_err(|_| Over::NoTerminal("there is no terminal to ask on"))?;
        let mut asking = Asking {
            size: terminal::size(&tty.file),
            color: terminal::colors(&tty.file),
            tty,
            keys: None,
            wire,
            signals,
            quiet,
            over,
        };
        asking.take()?;
        Ok(asking)
    }

    /// Single keys, if the terminal is ours.
    fn take(&mut self) -> Answered<()> {
        if !terminal::foreground(&self.tty.file) {
            return Err(BACKGROUND);
        }
        self.keys = None;
        self.keys = Some(self.tty.keys().map_err(|_| GONE)?);
        self.size = terminal::size(&self.tty.file);
        Ok(())
    }

    /// Columns beside the frame.
    pub fn width(&self) -> usize {
        self.size.0.saturating_sub(2).max(1)
    }

    /// Writes text of our own.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn say(&self, text: &str) -> Answered<()> {
        (&self.tty.file)
            .write_all(text.as_bytes())
            .map_err(|_| GONE)
    }

    /// Writes a line of the frame, `sign` and a space in front.
    ///
    /// # Errors
    /// The terminal has gone.
    pub fn line(&self, sign: &str, line: &Line) -> Answered<()> {
        let mut out = self.dim(sign);
        out.push(' ');
        paint(line, self.color, &mut out);
        out.push('\n');
        self.say(&out)
    }

    /// Text of our own, less prominent.
    pub fn dim(&self, text: &str) -> String {
        match self.color {
            true => format!("\x1b[2m{text}\x1b[0m"),
            false => text.to_string(),
        }
    }

    /// Throws away what is typed until there is silence, as it was begun before the question stood. Ctrl-C
    /// ends it also then. Whether what stands on the terminal is still what stood there.
    ///
    /// # Errors
    /// The question is over, or the terminal has gone.
    pub fn settle(&mut self) -> Answered<bool> {
        let mut buffer = [0; 1024];
        loop {
            match self.read_within(&mut buffer, Some(SETTLE))? {
                Got::Bytes(length) if buffer[..length].contains(&terminal::INTERRUPT) => {
                    return Err(Over::Stop);
                }
                Got::Bytes(_) => {}
                Got::Silence => return Ok(true),
                Got::Changed => return Ok(false),
            }
        }
    }

    /// Waits for a key that answers a question: one that comes after a silence.
    ///
    /// # Errors
    /// The question is over.
    pub fn answer(&mut self) -> Answered<Happened> {
        match self.settle()? {
            true => self.key(),
            false => Ok(Happened::Changed),
        }
    }

    /// Waits for a key. Ctrl-C ends the question, Ctrl-Z stops the job.
    ///
    /// # Errors
    /// The question is over.
    pub fn key(&mut self) -> Answered<Happened> {
        let mut buffer = [0; 256];
        let Some(length) = self.read(&mut buffer)? else {
            return Ok(Happened::Changed);
        };
        match Key::of(&buffer[..length]) {
            // Also in the midst of others: held down, it comes several at once.
            _ if buffer[..length].contains(&terminal::INTERRUPT) => Err(Over::Stop),
            Key::Byte(26) => match self.suspend()? {
                true => Ok(Happened::Changed),
                false => Ok(Happened::Key(Key::Other)),
            },
            key => Ok(Happened::Key(key)),
        }
    }

    /// Lets a line be typed behind the `> ` that stands there, with echo; `text` is there already.
    ///
    /// # Errors
    /// The question is over.
    pub fn typed(&mut self, text: &str) -> Answered<Typed> {
        let mut typing = Typing::with(text);
        let room = |size: (usize, usize)| size.0.saturating_sub(2);
        self.say(&typing.shown(room(self.size)))?;
        let mut buffer = [0; 1024];
        loop {
            let length = match self.read(&mut buffer)? {
                Some(1) if buffer[0] == 0x1b => {
                    self.say("\n")?;
                    return Ok(Typed::None);
                }
                Some(1) if buffer[0] == 26 && self.suspend()? => 0,
                Some(length) => length,
                None => 0,
            };
            if length == 0 {
                self.say(&format!("\n> {}", typing.shown(room(self.size))))?;
            }
            for byte in &buffer[..length] {
                match typing.take(*byte) {
                    Step::Shown(_) => {
                        self.say(&format!("\r\x1b[K> {}", typing.shown(room(self.size))))?;
                    }
                    Step::Hidden => {}
                    Step::Interrupt => return Err(Over::Stop),
                    Step::Leave => {
                        self.say("\n")?;
                        return Ok(Typed::None);
                    }
                    // What came behind Enter in one burst belongs to the paste, and to no other question.
                    Step::Enter => {
                        self.say("\n")?;
                        return Ok(Typed::Line(typing.text().to_string()));
                    }
                }
            }
        }
    }

    /// Lends the terminal to `other`, as it was before the question.
    ///
    /// # Errors
    /// The question is over.
    pub fn lend<T>(&mut self, other: impl FnOnce(&Tty) -> T) -> Answered<T> {
        self.keys = None;
        self.quiet.off();
        let result = other(&self.tty);
        self.quiet.on();
        // A Ctrl-C in the other's hands was meant for it.
        took(&self.signals.end);
        took(&self.signals.stop);
        took(&self.signals.goes_on);
        took(&self.signals.resize);
        self.take()?;
        Ok(result)
    }

    /// Bytes from the terminal; `None` when it has changed.
    fn read(&mut self, buffer: &mut [u8]) -> Answered<Option<usize>> {
        loop {
            match self.read_within(buffer, None)? {
                Got::Bytes(length) => return Ok(Some(length)),
                Got::Changed => return Ok(None),
                Got::Silence => {}
            }
        }
    }

    fn read_within(&mut self, buffer: &mut [u8], patience: Option<Duration>) -> Answered<Got> {
        let timeout = patience.map_or(PollTimeout::NONE, |p| {
            PollTimeout::try_from(p).unwrap_or(PollTimeout::MAX)
        });
        loop {
            let mut fds = [
                PollFd::new(self.wire.connection.fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.end.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.stop.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.goes_on.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.signals.resize.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.tty.file.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, timeout) {
                Ok(0) => return Ok(Got::Silence),
                Ok(_) => {}
                Err(Errno::EINTR) => continue,
                Err(_) => return Err(GONE),
            }
            let ready = fds.map(|fd| fd.any().unwrap_or(true));
            if ready[0] && self.wire.keep(self.over)? {
                return Err(Over::Withdrawn);
            }
            // Left in its pipe: whoever follows the answer ends the turn for it.
            if ready[1] {
                return Err(Over::Stop);
            }
            if ready[2] && took(&self.signals.stop) && self.suspend()? {
                return Ok(Got::Changed);
            }
            if ready[3] && took(&self.signals.goes_on) {
                // It was stopped from outside, and the shell has set the terminal up meanwhile.
                self.take()?;
                return Ok(Got::Changed);
            }
            if ready[4] {
                while took(&self.signals.resize) {
                    std::thread::sleep(REST);
                }
                self.size = terminal::size(&self.tty.file);
                return Ok(Got::Changed);
            }
            if ready[5] {
                // To read in the background would stop us, with the daemon waiting.
                if !terminal::foreground(&self.tty.file) {
                    return Err(BACKGROUND);
                }
                match (&self.tty.file).read(buffer) {
                    Ok(0) => return Err(GONE),
                    Ok(length) => return Ok(Got::Bytes(length)),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return Err(GONE),
                }
            }
        }
    }

    /// What Ctrl-Z does: the whole job stops, with the terminal as it was. Returns when it goes on; `false`
    /// where nobody could let it go on, as it is the shell's own group.
    fn suspend(&mut self) -> Answered<bool> {
        if getsid(None).is_ok_and(|leader| leader == getpgrp()) {
            return Ok(false);
        }
        self.keys = None;
        self.quiet.off();
        self.say("\n")?;
        // Our own copy of the signal is caught; the others of the job stop by it.
        let _ = kill(Pid::from_raw(0), Signal::SIGTSTP);
        let _ = raise(Signal::SIGSTOP);
        took(&self.signals.stop);
        took(&self.signals.goes_on);
        took(&self.signals.resize);
        self.quiet.on();
        self.take()?;
        Ok(true)
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.keys = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paste_is_no_key() {
        for (bytes, key) in [
            (&b"y"[..], Key::Byte(b'y')),
            (b"\x1b", Key::Escape),
            (b"\x1b[B", Key::Down),
            (b"\x1bOA", Key::Up),
            (b"yy", Key::Other),
            (b"\xc3\xbf", Key::Other),
            (b"\x1b[200~y\x1b[201~", Key::Other),
        ] {
            assert_eq!(Key::of(bytes), key, "{bytes:?}");
        }
    }
}
