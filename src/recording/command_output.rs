//! The output of one command of a recorded shell, as the lines that a person saw.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::event::RecordingEvent;
use super::list;
use super::reader::Recording;
use super::screen::{ClearedLines, LineCollector, SLICE, ScreenEmulator};
use crate::error::Result;

/// Maximum size of the lines that are kept; further ones are lost.
const MAX_TEXT: usize = 8 << 20;

/// Time limit for the end of a command that the shell has reported already, and interval of looking for it: the recorder writes on
/// a thread of its own.
const END_PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(5));

/// Returns the lines that the command `command_id` left on the terminal `tty`, `/dev/pts/3`, if that terminal is recorded now and
/// the recording has the command from its start to its end.
///
/// # Errors
/// The recording cannot be read.
pub fn of_command(recordings: &Path, tty: &str, command_id: &str) -> Result<Option<Vec<String>>> {
    let Some(dir) = list::of_terminal(recordings, tty) else {
        return Ok(None);
    };
    let recording = Recording::open(&dir)?;
    let (mut cols, mut rows) = (recording.start.cols, recording.start.rows);
    let mut buffer = vec![0; SLICE];
    let mut events = recording.events()?;
    let mut running: Option<(ScreenEmulator, LineCollector)> = None;
    let (mut lines, mut size) = (Vec::new(), 0);
    let (patience, interval) = END_PATIENCE;
    let deadline = Instant::now() + patience;
    loop {
        let Some(line) = events.next_event()? else {
            if running.is_none() || Instant::now() > deadline {
                return Ok(None);
            }
            thread::sleep(interval);
            continue;
        };
        match line.event {
            RecordingEvent::CommandStart { command_id: id, .. } if id == command_id => {
                let screen = ScreenEmulator::new(cols, rows);
                running = screen.map(|screen| (screen, LineCollector::new(ClearedLines::Drop)));
            }
            RecordingEvent::CommandEnd { command_id: id, .. } if id == command_id => {
                let Some((screen, collector)) = running else {
                    return Ok(None);
                };
                lines.extend(collector.finish(&screen));
                while lines.last().is_some_and(String::is_empty) {
                    lines.pop();
                }
                return Ok(Some(lines));
            }
            RecordingEvent::Output { bytes } => {
                let Some((screen, collector)) = &mut running else {
                    continue;
                };
                let end = line.offset.saturating_add(bytes);
                recording.each_output(line.offset, end, &mut buffer, |_, piece| {
                    screen.feed_observed(piece, collector);
                    for line in collector.take_lines() {
                        size += line.len();
                        if size <= MAX_TEXT {
                            lines.push(line);
                        }
                    }
                    true
                })?;
            }
            RecordingEvent::Resize { cols: c, rows: r } => {
                (cols, rows) = (c, r);
                if let Some((screen, collector)) = &mut running {
                    screen.resize_observed(c, r, collector);
                }
            }
            _ => {}
        }
    }
}
