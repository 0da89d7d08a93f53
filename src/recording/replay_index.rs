//! The index of a recording for replay: its commands, and snapshots of the screen, from which a seek continues.
//!
//! A thread builds it while the replay runs already: first the commands from the events alone, then the snapshots, for which
//! all output is drawn once. The snapshots of a complete recording are kept in the file `snapshots` beside it: a line of JSON
//! with the sizes of the files that they were made of, one line per snapshot, and a last line that says that they are
//! complete. The file can be deleted.

mod snapshot_file;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::commands::{CommandList, RecordedCommand};
use super::event::RecordingEvent;
use super::reader::{EventPosition, EventReader, Recording};
use super::screen::{SLICE, ScreenEmulator};
use crate::error::Result;

pub use snapshot_file::SnapshotReader;
use snapshot_file::SnapshotWriter;

/// Output between two snapshots: it is drawn in 20 ms.
const SPACING: u64 = 1 << 20;

/// Maximum number of snapshots, about 20 kB each.
const MAX_SNAPSHOTS: u64 = 1000;

/// Events between two snapshots.
const EVENT_SPACING: usize = 20_000;

/// Time between two snapshots, for output that is slow to draw.
const TIME_SPACING: Duration = Duration::from_millis(60);

/// Output and events between two marks.
const MARK_SPACING: u64 = 128 << 10;
const MARK_EVENTS: usize = 2000;

/// A place from which events can be read, and the known state of the terminal there.
#[derive(Debug, Clone, Copy)]
pub struct IndexMark {
    /// The place.
    pub position: EventPosition,
    /// Columns.
    pub cols: u16,
    /// Rows.
    pub rows: u16,
    /// Whether the alternate screen is shown.
    pub is_alternate: bool,
}

/// A place whose screen is in the file of snapshots.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotPlace {
    /// The place.
    pub position: EventPosition,
    /// Offset and length of its line in the file.
    pub at: u64,
    /// See `at`.
    pub length: u64,
}

#[derive(Debug, Default)]
struct IndexState {
    commands: CommandList,
    marks: Vec<IndexMark>,
    snapshots: Vec<SnapshotPlace>,
    file: Option<Arc<SnapshotReader>>,
    /// Commands and marks are complete.
    is_scanned: bool,
    /// Snapshots are complete, or cannot be made.
    is_complete: bool,
}

/// The index; shared by the replay and the thread that builds it.
#[derive(Debug, Default)]
pub struct ReplayIndex {
    state: Mutex<IndexState>,
    stops: AtomicBool,
    builder: Mutex<Option<JoinHandle<()>>>,
}

impl ReplayIndex {
    /// Starts a thread that builds the index of `recording`.
    pub fn build(recording: &Arc<Recording>) -> Arc<ReplayIndex> {
        let index = Arc::new(ReplayIndex::default());
        let (shared, recording) = (Arc::clone(&index), Arc::clone(recording));
        let builder = std::thread::spawn(move || {
            // Without an index the replay seeks slowly; the errors of reading are its own to report.
            let _ = shared.scan(&recording);
            shared.state().is_scanned = true;
            let _ = shared.add_snapshots(&recording);
            shared.state().is_complete = true;
        });
        *index.builder.lock().unwrap_or_else(PoisonError::into_inner) = Some(builder);
        index
    }

    /// Ends the thread, if it still runs, and waits until it has removed its unfinished file.
    pub fn stop(&self) {
        self.stops.store(true, Ordering::Relaxed);
        let mut builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(builder) = builder.take() {
            // A panic in it concerns the index only.
            let _ = builder.join();
        }
    }

    /// Returns whether commands and marks are complete.
    pub fn is_scanned(&self) -> bool {
        self.state().is_scanned
    }

    /// Returns whether the thread has done all its work.
    pub fn is_complete(&self) -> bool {
        self.state().is_complete
    }

    /// Returns the last command that began at `us` or before, with its number from 0.
    pub fn command_at(&self, us: u64) -> Option<(usize, RecordedCommand)> {
        let state = self.state();
        let commands = state.commands.commands();
        let number = commands
            .partition_point(|c| c.start_us <= us)
            .checked_sub(1)?;
        commands
            .get(number)
            .map(|command| (number, command.clone()))
    }

    /// Returns the command with this number, from 0.
    pub fn command(&self, number: usize) -> Option<RecordedCommand> {
        self.state().commands.commands().get(number).cloned()
    }

    /// Returns the number of commands found so far.
    pub fn command_count(&self) -> usize {
        self.state().commands.commands().len()
    }

    /// Returns the last mark at `us` or before whose output is at `offset` or before.
    pub fn mark_before(&self, us: u64, offset: u64) -> Option<IndexMark> {
        let state = self.state();
        let is_before = |mark: &IndexMark| mark.position.us <= us && mark.position.offset <= offset;
        let end = state.marks.partition_point(is_before);
        state.marks.get(end.checked_sub(1)?).copied()
    }

    /// Returns the last snapshot at `us` or before.
    pub fn snapshot_before(&self, us: u64) -> Option<(SnapshotPlace, Arc<SnapshotReader>)> {
        let state = self.state();
        let end = state.snapshots.partition_point(|s| s.position.us <= us);
        let place = state.snapshots.get(end.checked_sub(1)?)?;
        Some((*place, Arc::clone(state.file.as_ref()?)))
    }

    fn state(&self) -> MutexGuard<'_, IndexState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn must_stop(&self) -> bool {
        self.stops.load(Ordering::Relaxed)
    }

    /// Finds the commands, and sets marks.
    fn scan(&self, recording: &Recording) -> Result<()> {
        let mut mark = IndexMark {
            position: EventPosition::default(),
            cols: recording.start.cols,
            rows: recording.start.rows,
            is_alternate: false,
        };
        let mut events = recording.events()?;
        let mut since = usize::MAX;
        loop {
            let position = events.position();
            if since >= MARK_EVENTS || position.offset - mark.position.offset >= MARK_SPACING {
                mark.position = position;
                self.state().marks.push(mark);
                since = 0;
            }
            let Some(line) = events.next_event()? else {
                return Ok(());
            };
            since += 1;
            match &line.event {
                RecordingEvent::Resize { cols, rows } => (mark.cols, mark.rows) = (*cols, *rows),
                RecordingEvent::AlternateScreen { on } => mark.is_alternate = *on,
                RecordingEvent::CommandStart { .. } | RecordingEvent::CommandEnd { .. } => {
                    self.state().commands.add(&line, position);
                }
                _ => {}
            }
            if since.is_multiple_of(64) && self.must_stop() {
                return Ok(());
            }
        }
    }

    fn add_snapshots(&self, recording: &Recording) -> Result<()> {
        if let Some((file, places)) = SnapshotReader::open(recording) {
            let mut state = self.state();
            state.file = Some(Arc::new(file));
            state.snapshots = places;
            return Ok(());
        }
        let total = recording.output_length();
        let events = recording.events()?;
        let has_few_events = self.state().marks.len() < 10;
        if total < SPACING && has_few_events {
            return Ok(());
        }
        let mut writer = SnapshotWriter::create(recording)?;
        self.state().file = Some(Arc::new(writer.reader()?));
        let mut builder = SnapshotBuilder {
            index: self,
            recording,
            spacing: SPACING.max(total / MAX_SNAPSHOTS),
        };
        match builder.run(events, &mut writer)? {
            true => writer.keep(recording),
            false => Ok(()),
        }
    }
}

struct SnapshotBuilder<'i> {
    index: &'i ReplayIndex,
    recording: &'i Recording,
    spacing: u64,
}

impl SnapshotBuilder<'_> {
    /// Draws the recording and writes snapshots. Returns whether it came to the end.
    fn run(&mut self, mut events: EventReader, writer: &mut SnapshotWriter) -> Result<bool> {
        let start = &self.recording.start;
        let Some(mut screen) = ScreenEmulator::new(start.cols, start.rows) else {
            return Ok(false);
        };
        let mut buffer = vec![0; SLICE];
        let (mut last, mut since, mut at) = (EventPosition::default(), 0, Instant::now());
        while let Some(line) = events.next_event()? {
            if !draw(
                &line.event,
                line.offset,
                self.recording,
                &mut screen,
                &mut buffer,
                || !self.index.must_stop(),
            )? {
                return Ok(false);
            }
            since += 1;
            let position = events.position();
            let drawn = position.offset - last.offset;
            let is_slow = drawn > self.spacing / 8 && at.elapsed() >= TIME_SPACING;
            if (drawn >= self.spacing || since >= EVENT_SPACING || is_slow)
                && let Some(dump) = screen.dump()
            {
                let place = writer.add(position, screen.terminal().size(), &dump)?;
                self.index.state().snapshots.push(place);
                (last, since, at) = (position, 0, Instant::now());
            }
        }
        Ok(true)
    }
}

/// Draws an event, whose output begins at `offset`. Stops within output when `goes_on` returns `false`, and returns whether
/// everything was drawn.
///
/// # Errors
/// The output cannot be read.
pub fn draw(
    event: &RecordingEvent,
    offset: u64,
    recording: &Recording,
    screen: &mut ScreenEmulator,
    buffer: &mut [u8],
    mut goes_on: impl FnMut() -> bool,
) -> Result<bool> {
    match event {
        RecordingEvent::Output { bytes } => {
            let mut is_whole = true;
            recording.each_output(offset, offset + bytes, buffer, |_, piece| {
                screen.feed(piece);
                is_whole = goes_on();
                is_whole
            })?;
            return Ok(is_whole);
        }
        RecordingEvent::Resize { cols, rows } => screen.resize(*cols, *rows),
        _ => {}
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
