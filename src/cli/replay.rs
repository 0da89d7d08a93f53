//! `aish-helper replay`: plays a recording in the terminal.
//!
//! The recorded output goes to an emulator; the terminal gets frames of the emulator's screen.

mod clock;
mod keys;
mod view;

use std::io::{IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, raise};

use super::args::ReplayArgs;
use super::recording::{clock as clock_text, open};
use crate::client::signals::{CaughtSignals, SignalPipes, drain};
use crate::client::terminal::{ControllingTty, RawKeyMode, colors, size};
use crate::client::text_format::cut;
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::paths::Paths;
use crate::recording::player::Player;
use crate::recording::reader::Recording;
use crate::recording::replay_index::ReplayIndex;
use crate::safety::text::one_line;

use clock::ReplayClock;
use keys::ReplayKey;
use view::FrameView;

/// How far the arrow keys seek.
const SEEK_US: u64 = 5_000_000;

/// Behind the start of a command by more than this, the key goes to its start instead of to the command before.
const COMMAND_START_US: u64 = 1_000_000;

/// Time between two frames.
const FRAME: Duration = Duration::from_millis(16);

/// How often the clock in the status line is drawn.
const TICK: Duration = Duration::from_millis(250);

/// Maximum number of characters shown of a command line.
const MAX_TEXT: usize = 200;

const HELP: &str = "space pause · ←→ 5 s · [ ] command · + - speed · q quit";

/// Plays a recording.
///
/// # Errors
/// No recording has the id, it cannot be read, or there is no terminal.
pub fn run(paths: &Paths, args: &ReplayArgs) -> Result<()> {
    let stdout = std::io::stdout();
    let tty = match stdout.is_terminal() {
        true => ControllingTty::open().ok(),
        false => None,
    };
    let Some(tty) = tty else {
        return Err(Error::usage("replay needs a terminal to play in").hint(
            "to get the text of a recording: aish-helper recording export ID --format text",
        ));
    };
    let recording = Arc::new(open(paths, &args.id)?);
    let length_us = recording.summary()?.length_us;
    let index = ReplayIndex::build(&recording);
    let played = play(tty, &recording, &index, length_us, args);
    index.stop();
    played
}

fn play(
    tty: ControllingTty,
    recording: &Arc<Recording>,
    index: &Arc<ReplayIndex>,
    length_us: u64,
    args: &ReplayArgs,
) -> Result<()> {
    let first = args.command.map(|number| first_command(index, number));
    let first = first.transpose()?;
    let Some(player) = Player::new(Arc::clone(recording), Arc::clone(index))? else {
        return Ok(());
    };
    let signals = SignalPipes::catch()?;
    let mut replay = Replay {
        view: FrameView::new(size(&tty.file), colors(&tty.file)),
        keys: Some(tty.raw_keys()?),
        tty,
        signals,
        index: Arc::clone(index),
        player,
        clock: ReplayClock::new(args.speed, args.idle),
        length_us,
        pause_from: 0,
        is_late: false,
    };
    replay.enter()?;
    if let Some(us) = first {
        replay.seek(us)?;
    }
    replay.run()
}

/// Returns when the command with this number began, from 1.
fn first_command(index: &ReplayIndex, number: u32) -> Result<u64> {
    while !index.is_scanned() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let at = usize::try_from(number).unwrap_or(usize::MAX) - 1;
    let command = index.command(at).map(|command| command.start_us);
    command.ok_or_else(|| {
        let count = super::table::count(index.command_count(), "command");
        Error::usage(format!(
            "the recording has no command {number}, it has {count}"
        ))
        .hint("see: aish-helper recording show ID")
    })
}

/// A running replay. Restores the terminal when dropped.
struct Replay {
    view: FrameView,
    /// `None` while the process is stopped.
    keys: Option<RawKeyMode>,
    tty: ControllingTty,
    signals: CaughtSignals,
    index: Arc<ReplayIndex>,
    player: Player,
    clock: ReplayClock,
    length_us: u64,
    /// Since when nothing happens in the recording.
    pause_from: u64,
    /// Not everything that is due has been drawn.
    is_late: bool,
}

/// Inputs that the loop waits for.
#[derive(Debug, Default)]
struct ReadyInputs {
    end: bool,
    stop: bool,
    resume: bool,
    resize: bool,
    keys: bool,
}

impl Replay {
    fn run(&mut self) -> Result<()> {
        loop {
            let now = Instant::now();
            self.draw()?;
            if !self.clock.is_paused() && !self.is_late && self.player.next_us().is_none() {
                return Ok(());
            }
            let timeout = self.timeout(now);
            let ready = self.wait(timeout)?;
            if ready.end {
                return Err(Error::new(ErrorKind::Interrupted, "the replay was ended"));
            }
            if ready.stop && drain(&self.signals.stop) {
                self.suspend()?;
            }
            if (ready.resume && drain(&self.signals.resume))
                | (ready.resize && drain(&self.signals.resize))
            {
                self.view.reset(size(&self.tty.file));
            }
            if ready.keys {
                let mut bytes = [0; 256];
                let n = match (&self.tty.file).read(&mut bytes) {
                    Ok(0) | Err(_) => return Err(Error::runtime("the terminal is gone")),
                    Ok(n) => n,
                };
                for key in keys::decode(bytes.get(..n).unwrap_or_default()) {
                    if key == ReplayKey::Quit {
                        return Ok(());
                    }
                    self.press(key)?;
                }
            }
            self.advance()?;
        }
    }

    /// Returns how long nothing has to be done; `None`: until a key is pressed.
    fn timeout(&mut self, now: Instant) -> Option<Duration> {
        if self.is_late {
            return Some(Duration::ZERO);
        }
        let is_guess = self.player.is_guess();
        match (self.clock.is_paused(), self.player.next_us()) {
            (true, _) | (false, None) => is_guess.then_some(TICK),
            (false, Some(next)) => {
                let due = self.clock.due(self.pause_from, next, now);
                Some(due.clamp(FRAME, TICK))
            }
        }
    }

    fn wait(&self, timeout: Option<Duration>) -> Result<ReadyInputs> {
        let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = [
            readable(self.signals.end.as_fd()),
            readable(self.signals.stop.as_fd()),
            readable(self.signals.resume.as_fd()),
            readable(self.signals.resize.as_fd()),
            readable(self.tty.file.as_fd()),
        ];
        let timeout = timeout.map_or(PollTimeout::NONE, |time| {
            PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, timeout) {
            Ok(_) => {}
            Err(Errno::EINTR) => return Ok(ReadyInputs::default()),
            Err(e) => return Err(Error::runtime(format!("cannot wait for keys: {e}"))),
        }
        let [end, stop, resume, resize, keys] = fds.map(|fd| fd.any().unwrap_or(true));
        Ok(ReadyInputs {
            end,
            stop,
            resume,
            resize,
            keys,
        })
    }

    /// Draws what is due on the emulator.
    fn advance(&mut self) -> Result<()> {
        if self.player.is_guess() && self.player.can_be_exact() {
            self.is_late = !self.player.seek(self.player.us())?;
        }
        let now = Instant::now();
        let mut due = self.clock.us(now);
        if let Some(next) = self.player.next_us().filter(|_| !self.clock.is_paused()) {
            self.clock.due(self.pause_from, next, now);
            due = self.clock.us(now);
        }
        self.is_late = !self.player.advance(due, now + FRAME)?;
        self.pause_from = self.pause_from.max(self.player.event_us());
        Ok(())
    }

    fn press(&mut self, key: ReplayKey) -> Result<()> {
        let now = Instant::now();
        let us = self.clock.us(now).min(self.length_us);
        match key {
            ReplayKey::Pause => self.clock.pause(!self.clock.is_paused(), now),
            ReplayKey::Back => self.seek(us.saturating_sub(SEEK_US))?,
            ReplayKey::Forward => self.seek(us.saturating_add(SEEK_US))?,
            ReplayKey::Tenth(digit) => self.seek(self.length_us / 10 * u64::from(digit))?,
            ReplayKey::NextCommand => {
                let next = self
                    .index
                    .command_at(us)
                    .map_or(0, |(number, _)| number + 1);
                if let Some(command) = self.index.command(next) {
                    self.seek(command.start_us)?;
                }
            }
            ReplayKey::PreviousCommand => {
                if let Some((number, command)) = self.index.command_at(us) {
                    let is_inside = us - command.start_us > COMMAND_START_US;
                    let before = number.checked_sub(1).and_then(|n| self.index.command(n));
                    let target = if is_inside { Some(command) } else { before };
                    self.seek(target.map_or(0, |command| command.start_us))?;
                }
            }
            ReplayKey::Step => {
                self.clock.pause(true, now);
                if let Some(next) = self.player.next_us() {
                    self.clock.set(next, now);
                }
            }
            ReplayKey::Faster => self.clock.change_speed(true, now),
            ReplayKey::Slower => self.clock.change_speed(false, now),
            ReplayKey::Suspend => self.suspend()?,
            ReplayKey::Quit => {}
        }
        Ok(())
    }

    /// Goes to a time. At the end the replay pauses, so that the last screen can be viewed.
    fn seek(&mut self, us: u64) -> Result<()> {
        let now = Instant::now();
        if us >= self.length_us {
            self.clock.pause(true, now);
        }
        let us = us.min(self.length_us);
        self.is_late = !self.player.seek(us)?;
        self.clock.set(us, Instant::now());
        self.pause_from = us;
        Ok(())
    }

    fn draw(&mut self) -> Result<()> {
        let status = self.status();
        let frame = self.view.frame(self.player.screen(), &status);
        self.write(&frame)
    }

    fn status(&self) -> String {
        let us = self.clock.us(Instant::now()).min(self.length_us);
        let mark = match (self.player.is_guess(), self.clock.is_paused()) {
            // The screen is being rebuilt from earlier output.
            (true, _) => "…",
            (false, true) => "‖",
            (false, false) => "▶",
        };
        let mut line = format!(
            " {mark} {} / {} · {}×",
            clock_text(us),
            clock_text(self.length_us),
            self.clock.speed
        );
        if let Some((number, command)) = self.index.command_at(us) {
            let text = command.text.as_deref().unwrap_or("(not in the history)");
            line.push_str(&format!(
                " · {}/{} $ {}",
                number + 1,
                self.index.command_count(),
                one_line(text, MAX_TEXT)
            ));
            if command.end_us.is_some_and(|end| end <= us)
                && let Some(exit) = command.exit
            {
                line.push_str(&format!(" (exit {exit})"));
            }
        }
        let width = size(&self.tty.file).0;
        let line = cut(&line, width.saturating_sub(1));
        let full = format!("{line}   {HELP}");
        match cut(&full, width.saturating_sub(1)) == full {
            true => full,
            false => line,
        }
    }

    fn enter(&mut self) -> Result<()> {
        let (cols, rows) = size(&self.tty.file);
        self.view.reset((cols, rows));
        // What is on the screen goes to the scrollback. Without automatic wrapping, the last column can be drawn.
        let scrolled = "\n".repeat(rows);
        self.write(&format!("\x1b[{rows};1H{scrolled}\x1b[?7l"))
    }

    fn leave(&mut self) -> Result<()> {
        let frame = self.view.leave(Some(self.player.screen()));
        let written = self.write(&format!("\x1b[?7h{frame}"));
        self.keys = None;
        written
    }

    /// Stops the process as Ctrl-Z does, with the terminal as it was before.
    fn suspend(&mut self) -> Result<()> {
        let was_paused = self.clock.is_paused();
        self.clock.pause(true, Instant::now());
        self.leave()?;
        // Continues here after SIGCONT.
        let _ = raise(Signal::SIGSTOP);
        drain(&self.signals.resume);
        self.keys = Some(self.tty.raw_keys()?);
        self.clock.pause(was_paused, Instant::now());
        self.enter()
    }

    fn write(&self, text: &str) -> Result<()> {
        let written = (&self.tty.file).write_all(text.as_bytes());
        written.context(|| "cannot write to the terminal".into())
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        if self.keys.is_some() {
            // A terminal that is gone needs no restoring.
            let _ = self.leave();
        }
    }
}
