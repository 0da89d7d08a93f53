//! The part of a recording that an export has: all of it, or from a prompt to the end of a command.

use super::commands::RecordedCommand;
use super::event::RecordingEvent;
use super::reader::{EventPosition, EventReader, Recording};
use crate::error::Result;

/// A part of a recording. Its export begins with a blank screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingPart {
    /// Where it begins.
    pub from: EventPosition,
    /// Where it ends; `None` for the end of the recording.
    pub to: Option<EventPosition>,
    /// Columns of the terminal at its beginning.
    pub cols: u16,
    /// Rows of the terminal at its beginning.
    pub rows: u16,
}

impl RecordingPart {
    /// Returns the whole recording.
    pub fn whole(recording: &Recording) -> RecordingPart {
        RecordingPart {
            from: EventPosition::default(),
            to: None,
            cols: recording.start.cols,
            rows: recording.start.rows,
        }
    }

    /// Returns the part from the prompt of the command `first` to the end of the command `last`.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn of_commands(
        recording: &Recording,
        first: &RecordedCommand,
        last: &RecordedCommand,
    ) -> Result<RecordingPart> {
        let mut part = RecordingPart::whole(recording);
        let (mut cols, mut rows) = (part.cols, part.rows);
        // The prompt that has the command line: nothing has run since.
        let mut prompt = None;
        let mut events = recording.events()?;
        loop {
            let position = events.position();
            let Some(line) = events.next_event()? else {
                return Ok(part);
            };
            let is_behind_last = position.line > last.position.line;
            match line.event {
                RecordingEvent::Resize { cols: c, rows: r } => (cols, rows) = (c, r),
                RecordingEvent::CommandEnd { .. } if is_behind_last => {
                    part.to = Some(events.position());
                    return Ok(part);
                }
                // The end of the command was lost.
                RecordingEvent::Prompt | RecordingEvent::CommandStart { .. } if is_behind_last => {
                    part.to = Some(position);
                    return Ok(part);
                }
                RecordingEvent::Prompt => prompt = Some((position, cols, rows)),
                RecordingEvent::CommandStart { .. } if position == first.position => {
                    (part.from, part.cols, part.rows) =
                        prompt.take().unwrap_or((position, cols, rows));
                }
                RecordingEvent::CommandStart { .. } => prompt = None,
                _ => {}
            }
        }
    }

    /// Reads the events from its beginning on.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub(super) fn events(&self, recording: &Recording) -> Result<EventReader> {
        Ok(recording.events_from(self.from)?.until(self.to))
    }

    /// Returns the time that the part takes, in microseconds.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn length_us(&self, recording: &Recording) -> Result<u64> {
        let end = match self.to {
            Some(to) => to.us,
            None => recording.summary()?.length_us,
        };
        Ok(end.saturating_sub(self.from.us))
    }

    /// Whether it is the whole recording.
    pub(super) fn is_whole(&self) -> bool {
        self.from == EventPosition::default() && self.to.is_none()
    }
}
