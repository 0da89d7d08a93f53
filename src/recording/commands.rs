//! The commands in a recording.

use super::event::{RecordingEvent, RecordingLine};
use super::reader::{EventPosition, Recording};
use crate::error::Result;

/// Maximum number of commands that are kept; a shell that runs more in one recording is a script.
const MAX_COMMANDS: usize = 100_000;

/// Number of commands whose end may still come: those that run in each other.
pub(super) const MAX_NESTED: usize = 64;

/// A command in a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedCommand {
    /// `SHELL@STARTED_MS`, as in the journal.
    pub id: String,
    /// The whole command line, which must be searched for secrets before it is cut; `None` if the history forgets it.
    pub text: Option<String>,
    /// When it began, in microseconds since the start of the recording.
    pub start_us: u64,
    /// When it ended; `None` while it runs, and if its end was not recorded.
    pub end_us: Option<u64>,
    /// Its exit code.
    pub exit: Option<i32>,
    /// Where its start is.
    pub position: EventPosition,
}

/// Collects commands from events.
#[derive(Debug, Default, Clone)]
pub struct CommandList {
    commands: Vec<RecordedCommand>,
    /// Positions of the last ones without an end.
    open: Vec<usize>,
}

impl CommandList {
    /// Adds an event; `position` is where it is.
    pub fn add(&mut self, line: &RecordingLine, position: EventPosition) {
        match &line.event {
            RecordingEvent::CommandStart { command_id, text }
                if self.commands.len() < MAX_COMMANDS =>
            {
                if self.open.len() == MAX_NESTED {
                    self.open.remove(0);
                }
                self.open.push(self.commands.len());
                self.commands.push(RecordedCommand {
                    id: command_id.clone(),
                    text: text.clone(),
                    start_us: line.us,
                    end_us: None,
                    exit: None,
                    position,
                });
            }
            RecordingEvent::CommandEnd { command_id, exit } => {
                let commands = &mut self.commands;
                let is_it = |at: &usize| commands.get(*at).is_some_and(|c| c.id == *command_id);
                if let Some(found) = self.open.iter().rposition(is_it)
                    && let Some(command) = commands.get_mut(self.open.remove(found))
                {
                    command.end_us = Some(line.us);
                    command.exit = Some(*exit);
                }
            }
            // The last command of a shell, such as `exit 3`, ends with it.
            RecordingEvent::End { exit: Some(exit) } => {
                if let Some(last) = self.open.pop()
                    && last + 1 == self.commands.len()
                    && let Some(command) = self.commands.get_mut(last)
                {
                    command.end_us = Some(line.us);
                    command.exit = Some(*exit);
                }
            }
            _ => {}
        }
    }

    /// Returns the commands, in order.
    pub fn commands(&self) -> &[RecordedCommand] {
        &self.commands
    }
}

/// Reads the commands of a recording.
///
/// # Errors
/// The recording cannot be read.
pub fn commands(recording: &Recording) -> Result<Vec<RecordedCommand>> {
    let mut list = CommandList::default();
    let mut events = recording.events()?;
    loop {
        let position = events.position();
        let Some(line) = events.next_event()? else {
            return Ok(list.commands);
        };
        list.add(&line, position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::TestRecording;

    #[test]
    fn the_last_command_ends_with_its_shell() {
        for (exit, found) in [(Some(3), Some(3)), (None, None)] {
            let mut recording = TestRecording::new(40, 10);
            recording.command("1-a@1", "true", "");
            recording.event(RecordingEvent::CommandStart {
                command_id: "1-a@2".into(),
                text: Some("exit 3".into()),
            });
            recording.event(RecordingEvent::End { exit });
            let all = commands(&recording.open()).unwrap();
            assert_eq!((all[0].exit, all[1].exit), (Some(0), found));
            assert_eq!(all[1].end_us.is_some(), found.is_some());
        }
    }
}
