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

/// Time limit for the events of a command that the shell has reported already, and interval of looking for them: the recorder
/// writes on a thread of its own.
const EVENT_PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(5));

/// Returns the lines that a command, which started at `started_ms`, left on the terminal `tty`, `/dev/pts/3`, if that terminal is
/// recorded now and the recording has the command from its start to its end. `is_command` gets id and text of each command: with
/// type-ahead, two commands can start in the same millisecond and have the same id.
///
/// # Errors
/// The recording cannot be read.
pub fn of_command(
    recordings: &Path,
    tty: &str,
    started_ms: u64,
    is_command: impl Fn(&str, Option<&str>) -> bool,
) -> Result<Option<Vec<String>>> {
    let Some(dir) = list::of_terminal(recordings, tty) else {
        return Ok(None);
    };
    let recording = Recording::open(&dir)?;
    let (mut cols, mut rows) = (recording.start.cols, recording.start.rows);
    let mut buffer = vec![0; SLICE];
    let mut events = recording.events()?.without_tail();
    let is_expected = started_ms >= recording.start.ms;
    let mut running: Option<(ScreenEmulator, LineCollector)> = None;
    let (mut lines, mut size) = (Vec::new(), 0);
    let (patience, interval) = EVENT_PATIENCE;
    let deadline = Instant::now() + patience;
    loop {
        let Some(line) = events.next_event()? else {
            if !is_expected || Instant::now() > deadline {
                return Ok(None);
            }
            thread::sleep(interval);
            continue;
        };
        match line.event {
            RecordingEvent::CommandStart { command_id, text }
                if is_command(&command_id, text.as_deref()) =>
            {
                let screen = ScreenEmulator::new(cols, rows);
                running = screen.map(|screen| (screen, LineCollector::new(ClearedLines::Drop)));
            }
            RecordingEvent::CommandEnd { .. } => {
                // Commands of a shell do not overlap.
                let Some((screen, collector)) = running else {
                    continue;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::event::{RecordingSource, RecordingStart};
    use crate::recording::marks::Mark;
    use crate::recording::writer::{RecordingWriter, Seen};

    #[test]
    fn commands_with_the_same_id_are_told_apart_by_their_text() {
        let dir = tempfile::tempdir().unwrap();
        let start: RecordingStart = serde_json::from_str(
            r#"{"version":1,"id":"01a20c0f-8c6e-7353-b130-fab675e05f2b","ms":5,"cols":80,"rows":24,"term":"xterm","shell":null,"source":"relay","tty":"/dev/pts/3","command":null}"#,
        )
        .unwrap();
        assert_eq!(start.source, RecordingSource::Relay);
        let mut writer = RecordingWriter::create(dir.path(), &start, 1 << 20).unwrap();
        let command = |text: &str| {
            Seen::Mark(Mark::CommandStart {
                command_id: "shell@7".to_owned(),
                text: Some(text.to_owned()),
            })
        };
        let end = || Seen::Mark(Mark::CommandEnd { exit: 0 });
        let output = |bytes| Seen::Output {
            bytes,
            left_out: None,
        };
        let seen = [
            command("cd adder"),
            end(),
            command("cargo build"),
            output(5),
            end(),
        ];
        let seen: Vec<(u64, Seen)> = seen.into_iter().map(|seen| (1, seen)).collect();
        writer.record(&seen, b"error");
        let of = |wanted: &str| {
            let is_command = |id: &str, text: Option<&str>| id == "shell@7" && text == Some(wanted);
            of_command(dir.path(), "/dev/pts/3", 7, is_command).unwrap()
        };
        assert_eq!(of("cargo build"), Some(vec!["error".to_owned()]));
        assert_eq!(of("cd adder"), Some(Vec::new()));
        assert_eq!(of("cargo test"), None);
    }
}
