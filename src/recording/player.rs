//! The screen of a recording at any time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::event::RecordingLine;
use super::reader::{EventPosition, EventReader, Recording};
use super::replay_index::{ReplayIndex, draw};
use super::screen::{SLICE, ScreenEmulator};
use crate::error::Result;

/// Output that a seek draws if it must: 60 ms.
const EXACT: u64 = 4 << 20;

/// Output before the place that is sought from which the screen is guessed while there is no snapshot near it.
const GUESS: u64 = 256 << 10;

/// How long a seek waits for the marks of the index.
const MARKS: Duration = Duration::from_millis(80);

/// How long a seek draws before it returns, with the rest still to be drawn.
const SEEK: Duration = Duration::from_millis(120);

/// Plays a recording on an emulator.
#[derive(Debug)]
pub struct Player {
    recording: Arc<Recording>,
    index: Arc<ReplayIndex>,
    screen: ScreenEmulator,
    events: EventReader,
    /// The next event, of whose output this much was drawn.
    next: Option<RecordingLine>,
    drawn: u64,
    /// Time up to which everything was drawn, in microseconds since the start.
    us: u64,
    /// Time of the last event that was drawn.
    event_us: u64,
    /// The screen was guessed from the output just before.
    is_guess: bool,
    buffer: Vec<u8>,
}

impl Player {
    /// Creates a player at the start. `None` never happens for a recording within the limits.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn new(recording: Arc<Recording>, index: Arc<ReplayIndex>) -> Result<Option<Player>> {
        let start = &recording.start;
        let Some(screen) = ScreenEmulator::new(start.cols, start.rows) else {
            return Ok(None);
        };
        let events = recording.events()?;
        let mut player = Player {
            recording,
            index,
            screen,
            events,
            next: None,
            drawn: 0,
            us: 0,
            event_us: 0,
            is_guess: false,
            buffer: vec![0; SLICE],
        };
        player.next = player.events.next_event()?;
        Ok(Some(player))
    }

    /// Returns the screen.
    pub fn screen(&self) -> &ScreenEmulator {
        &self.screen
    }

    /// Returns the time of the screen.
    pub fn us(&self) -> u64 {
        self.us
    }

    /// Returns the time of the last event that was drawn.
    pub fn event_us(&self) -> u64 {
        self.event_us
    }

    /// Returns the time of the next event; `None` at the end.
    pub fn next_us(&self) -> Option<u64> {
        self.next.as_ref().map(|line| line.us)
    }

    /// Returns whether the screen is a guess, because there is no snapshot near it yet.
    pub fn is_guess(&self) -> bool {
        self.is_guess
    }

    /// Returns whether a seek to the same time would give an exact screen now.
    pub fn can_be_exact(&self) -> bool {
        let is_near = |place: EventPosition| self.offset().saturating_sub(place.offset) < EXACT;
        let snapshot = self.index.snapshot_before(self.us);
        self.index.is_complete() || snapshot.is_some_and(|(place, _)| is_near(place.position))
    }

    fn offset(&self) -> u64 {
        let next = self.next.as_ref().map(|line| line.offset + self.drawn);
        next.unwrap_or_else(|| self.events.position().offset)
    }

    /// Draws everything up to `us`. Returns whether that was done by the deadline.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn advance(&mut self, us: u64, deadline: Instant) -> Result<bool> {
        while let Some(line) = self.next.take_if(|line| line.us <= us) {
            let mut drawn = 0;
            let mut event = line.event.clone();
            if let super::event::RecordingEvent::Output { bytes } = &mut event {
                *bytes = bytes.saturating_sub(self.drawn);
            }
            let is_whole = draw(
                &event,
                line.offset + self.drawn,
                &self.recording,
                &mut self.screen,
                &mut self.buffer,
                || {
                    drawn += SLICE as u64;
                    Instant::now() < deadline
                },
            )?;
            (self.us, self.event_us) = (line.us, line.us);
            if !is_whole {
                self.drawn += drawn;
                self.next = Some(line);
                return Ok(false);
            }
            self.drawn = 0;
            self.next = self.events.next_event()?;
            if Instant::now() >= deadline {
                return Ok(self.next_us().is_none_or(|next| next > us));
            }
        }
        self.us = us.max(self.us);
        Ok(true)
    }

    /// Goes to `us`. While the index is built, the screen of a far place is a guess. Returns whether everything was drawn;
    /// otherwise [`Player::advance`] continues.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn seek(&mut self, us: u64) -> Result<bool> {
        let deadline = Instant::now() + SEEK;
        let mut from = match self.us <= us && !self.is_guess {
            true => Some(self.offset()),
            false => None,
        };
        if let Some((place, file)) = self.index.snapshot_before(us)
            && from.is_none_or(|from| from < place.position.offset)
            && let Some(screen) = file.screen(&place)
        {
            self.go_to(place.position, screen)?;
            from = Some(place.position.offset);
        }
        if from.is_none() {
            let start = &self.recording.start;
            if let Some(screen) = ScreenEmulator::new(start.cols, start.rows) {
                self.go_to(EventPosition::default(), screen)?;
            }
        }
        self.is_guess = false;
        if !self.index.is_complete() {
            self.guess(us)?;
        }
        self.advance(us, deadline)
    }

    /// Goes to a mark before `us`, if the place is too far to draw everything before it.
    fn guess(&mut self, us: u64) -> Result<()> {
        let waits_until = Instant::now() + MARKS;
        while !self.index.is_scanned() && Instant::now() < waits_until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let Some(target) = self.index.mark_before(us, u64::MAX) else {
            return Ok(());
        };
        let target = target.position.offset;
        if target.saturating_sub(self.offset()) < EXACT {
            return Ok(());
        }
        let Some(mark) = self.index.mark_before(us, target.saturating_sub(GUESS)) else {
            return Ok(());
        };
        if let Some(mut screen) = ScreenEmulator::new(mark.cols, mark.rows) {
            if mark.is_alternate {
                screen.feed(b"\x1b[?1049h");
            }
            self.go_to(mark.position, screen)?;
            self.is_guess = true;
        }
        Ok(())
    }

    fn go_to(&mut self, position: EventPosition, screen: ScreenEmulator) -> Result<()> {
        self.events = self.recording.events_from(position)?;
        self.screen = screen;
        (self.us, self.event_us) = (position.us, position.us);
        self.drawn = 0;
        self.next = self.events.next_event()?;
        Ok(())
    }
}
