//! Input of a question: key events, and the signals and frames that end or redraw it.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, raise};
use nix::unistd::{Pid, getpgrp, getsid};

use super::key_events::{self, KeyEvent, KeyPhase, REPEAT_DELAY};
use super::{
    BACKGROUND_JOB, CTRL_Z, PromptEnd, PromptInput, PromptKey, PromptResult, TERMINAL_LOST,
    TerminalPrompt, TtyInput, end_by_frame,
};
use crate::client::signals::drain;
use crate::client::terminal::{self, RawKeyMode, SETTLE};

/// Quiet time after the last SIGWINCH before the question is redrawn: dragging a window border sends many.
const RESIZE_SETTLE: Duration = Duration::from_millis(100);

impl TerminalPrompt<'_> {
    /// Discards input until there is silence: keys typed before the question was visible must not answer it.
    /// Ctrl-C still counts. Returns `false` if the question must be redrawn.
    ///
    /// # Errors
    /// The question ended, or the terminal is lost.
    pub fn settle(&mut self) -> PromptResult<bool> {
        while self.read_events(Some(SETTLE))? {}
        while let Some(event) = self.events.pop_front() {
            key_events::note(event);
        }
        Ok(!std::mem::take(&mut self.must_redraw))
    }

    /// Waits for a key that answers the question: not one that was pressed before the question was visible, nor the repeat
    /// of a key that is held down. Keys that only scroll are returned as they come.
    ///
    /// # Errors
    /// The question ended.
    pub fn answer_key(&mut self) -> PromptResult<PromptInput> {
        let input = self.counting_key();
        // A background job may not write.
        if !matches!(input, Err(PromptEnd::NoTerminal(_))) {
            self.clear_report()?;
        }
        input
    }

    fn counting_key(&mut self) -> PromptResult<PromptInput> {
        if !self.settle()? {
            return Ok(PromptInput::Redraw);
        }
        // The first repeat of a key that was pressed before the question and that another process read looks like a press.
        // Until the next repeat would have come, it waits; another key takes its place.
        let mut waiting: Option<(PromptKey, Instant)> = None;
        loop {
            let event = match (self.events.pop_front(), waiting) {
                (Some(event), _) => event,
                (None, None) => match self.next_event()? {
                    Some(event) => event,
                    None => return Ok(PromptInput::Redraw),
                },
                (None, Some((key, until))) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if !left.is_zero() && self.read_events(Some(left))? {
                        continue;
                    }
                    return match std::mem::take(&mut self.must_redraw) {
                        true => Ok(PromptInput::Redraw),
                        false => self.input(key),
                    };
                }
            };
            let is_repeat = key_events::note(event);
            if event.key.scrolls() && event.phase != KeyPhase::Release {
                return self.input(event.key);
            }
            let may_repeat =
                event.phase == KeyPhase::Unknown && self.since.elapsed() < REPEAT_DELAY;
            match is_repeat {
                true => waiting = waiting.filter(|(key, _)| key.byte() != event.key.byte()),
                false if may_repeat => waiting = Some((event.key, Instant::now() + REPEAT_DELAY)),
                false => return self.input(event.key),
            }
        }
    }

    /// Waits for a key. Ctrl-C ends the question, Ctrl-Z stops the job.
    ///
    /// # Errors
    /// The question ended.
    pub fn key(&mut self) -> PromptResult<PromptInput> {
        loop {
            let Some(event) = self.next_event()? else {
                return Ok(PromptInput::Redraw);
            };
            key_events::note(event);
            if event.phase != KeyPhase::Release {
                return self.input(event.key);
            }
        }
    }

    fn input(&mut self, key: PromptKey) -> PromptResult<PromptInput> {
        match key {
            PromptKey::Byte(CTRL_Z) => match self.suspend()? {
                true => Ok(PromptInput::Redraw),
                false => Ok(PromptInput::Key(PromptKey::Other)),
            },
            key => Ok(PromptInput::Key(key)),
        }
    }

    /// Waits for a key event; `None` if the question must be redrawn.
    fn next_event(&mut self) -> PromptResult<Option<KeyEvent>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if !self.read_events(None)? && std::mem::take(&mut self.must_redraw) {
                return Ok(None);
            }
        }
    }

    /// Waits for input and appends its events. Returns `false` at the timeout, and if the question must be redrawn. Ctrl-C
    /// ends the question, also among other keys: a key held down arrives several times at once.
    fn read_events(&mut self, patience: Option<Duration>) -> PromptResult<bool> {
        let mut buffer = [0; 1024];
        match self.wait_input(&mut buffer, patience)? {
            TtyInput::Bytes(length) => {
                let bytes = &buffer[..length];
                let events = key_events::decode(bytes);
                let interrupt = PromptKey::Byte(terminal::INTERRUPT);
                if bytes.contains(&terminal::INTERRUPT) || events.iter().any(|e| e.key == interrupt)
                {
                    return Err(PromptEnd::Interrupted);
                }
                self.events.extend(events);
                Ok(true)
            }
            TtyInput::Redraw => {
                self.must_redraw = true;
                Ok(false)
            }
            TtyInput::Timeout => Ok(false),
        }
    }

    /// Reads bytes from the terminal; `None` if the question must be redrawn.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> PromptResult<Option<usize>> {
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
            if resume || resize {
                while drain(&self.signals.resize) {
                    std::thread::sleep(RESIZE_SETTLE);
                }
                // After SIGSTOP from outside, the shell has changed the terminal modes. zsh also sends SIGCONT to what it waits for whenever the
                // size changes: nothing else has had the terminal then, and the screen shows the question as it was drawn.
                let was_away = drain(&self.signals.resume)
                    && !self.raw_mode.as_ref().is_some_and(RawKeyMode::is_set);
                match was_away {
                    true => self.acquire()?,
                    false => self.size = terminal::size(&self.tty.file),
                }
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

    /// Queues the frames that the daemon sent; fails if that ends the question.
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
    pub(super) fn suspend(&mut self) -> PromptResult<bool> {
        if self.request.is_none() || getsid(None).is_ok_and(|leader| leader == getpgrp()) {
            return Ok(false);
        }
        self.release();
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
