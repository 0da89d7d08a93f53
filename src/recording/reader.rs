//! Reads the events and the output of a recording.
//!
//! The content of a recording is untrusted: the output is hostile text, and both files may be torn, cut or edited. Every
//! number is brought within its limits here, so that what uses the events can rely on them: times and offsets do not
//! decrease, no offset leads beyond the output, and sizes are those of a terminal. Memory does not grow with a recording.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::event::{
    EVENTS_FILE, GapReason, OUTPUT_FILE, RecordingEvent, RecordingLine, RecordingStart,
};
use super::list;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::read_own;

/// Maximum columns and rows of a recorded terminal. An emulator needs memory and time for every cell.
pub const MAX_COLS: u16 = 1000;
/// See [`MAX_COLS`].
pub const MAX_ROWS: u16 = 300;

/// Maximum length of a line of `events.jsonl`; a longer one is skipped. A command line may be long.
const MAX_LINE: usize = 1 << 20;

/// How much of the end of `events.jsonl` is searched for the last event.
const TAIL: u64 = 64 << 10;

/// A place in a recording, from which events can be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventPosition {
    /// Offset of the next line in `events.jsonl`.
    pub line: u64,
    /// Time of the events before, in microseconds since the start.
    pub us: u64,
    /// Offset in `output`.
    pub offset: u64,
}

/// A recording on disk.
#[derive(Debug)]
pub struct Recording {
    /// Its directory.
    pub dir: PathBuf,
    /// Its first line; columns and rows are within the limits.
    pub start: RecordingStart,
    output: File,
}

/// The facts about a recording in a list.
#[derive(Debug, Clone)]
pub struct RecordingSummary {
    /// The first line.
    pub start: RecordingStart,
    /// Time of the last event, in microseconds since the start.
    pub length_us: u64,
    /// Size of its files in bytes.
    pub bytes: u64,
    /// Whether a recorder holds the recording.
    pub is_written: bool,
    /// Whether the last event is the end of the recording. If not, and nothing is written, its recorder was killed.
    pub has_ended: bool,
    /// Exit code of the recorded command.
    pub exit: Option<i32>,
    /// Whether the recording has reached its maximum size, so that it lacks later output.
    pub is_full: bool,
}

impl Recording {
    /// Opens the recording in `dir`.
    ///
    /// # Errors
    /// A file is missing, belongs to another user, or the first line is not the start of a recording.
    pub fn open(dir: &Path) -> Result<Recording> {
        let path = dir.join(EVENTS_FILE);
        let cannot = || format!("cannot read the recording {}", dir.display());
        let mut first = Vec::new();
        read_own(&path)
            .map(BufReader::new)
            .and_then(|mut file| {
                file.by_ref()
                    .take(MAX_LINE as u64)
                    .read_until(b'\n', &mut first)
            })
            .context(cannot)?;
        let line = serde_json::from_slice::<RecordingLine>(&first).ok();
        let Some(RecordingEvent::Start(mut start)) = line.map(|line| line.event) else {
            return Err(Error::runtime(format!(
                "{} is not a recording: its first line is not a start",
                path.display()
            )));
        };
        (start.cols, start.rows) = terminal_size(start.cols, start.rows);
        let output = read_own(&dir.join(OUTPUT_FILE)).context(cannot)?;
        Ok(Recording {
            dir: dir.to_path_buf(),
            start,
            output,
        })
    }

    /// Returns the id: the name of the directory, by which commands find it.
    pub fn id(&self) -> String {
        let name = self.dir.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Returns the current length of the output.
    pub fn output_length(&self) -> u64 {
        self.output.metadata().map_or(0, |meta| meta.len())
    }

    /// Reads output from `offset` on. Returns the number of bytes, 0 at the end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_output(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        loop {
            match self.output.read_at(buffer, offset) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    return read.context(|| format!("cannot read {}", self.dir.display()));
                }
            }
        }
    }

    /// Hands the output from `from` to `to` to `take`, in pieces of at most `buffer.len()` bytes, until `take` returns
    /// `false`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn each_output(
        &self,
        from: u64,
        to: u64,
        buffer: &mut [u8],
        mut take: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<()> {
        let mut at = from;
        while at < to {
            let left = usize::try_from(to - at).unwrap_or(usize::MAX);
            let length = left.min(buffer.len());
            let Some(piece) = buffer.get_mut(..length) else {
                break;
            };
            let n = self.read_output(at, piece)?;
            let piece = piece.get(..n).unwrap_or_default();
            if n == 0 || !take(at, piece) {
                break;
            }
            at += n as u64;
        }
        Ok(())
    }

    /// Reads the events from the first one on, without the start.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn events(&self) -> Result<EventReader> {
        self.events_from(EventPosition::default())
    }

    /// Reads the events from `position` on.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn events_from(&self, mut position: EventPosition) -> Result<EventReader> {
        let path = self.dir.join(EVENTS_FILE);
        let mut file = read_own(&path).context(|| format!("cannot read {}", path.display()))?;
        let sought = file.seek(SeekFrom::Start(position.line));
        sought.context(|| format!("cannot read {}", path.display()))?;
        let output_length = self.output_length();
        position.offset = position.offset.min(output_length);
        let output = self.output.try_clone();
        Ok(EventReader {
            output: output.context(|| format!("cannot read {}", self.dir.display()))?,
            file: BufReader::with_capacity(64 << 10, file),
            position,
            output_length,
            line: Vec::new(),
            has_tail: true,
            end: None,
        })
    }

    /// Reads the facts for a list: the first line, and the last ones.
    ///
    /// # Errors
    /// The files cannot be read.
    pub fn summary(&self) -> Result<RecordingSummary> {
        let path = self.dir.join(EVENTS_FILE);
        let cannot = || format!("cannot read {}", path.display());
        let mut file = read_own(&path).context(cannot)?;
        let length = file.metadata().context(cannot)?.len();
        let from = length.saturating_sub(TAIL);
        let mut tail = Vec::new();
        file.seek(SeekFrom::Start(from)).context(cannot)?;
        file.take(TAIL).read_to_end(&mut tail).context(cannot)?;
        // A torn last line is ignored: the last event is the one before.
        let mut lines = tail.split(|b| *b == b'\n').rev().filter_map(parse_line);
        let last = lines.next();
        // In a full recording, only these gaps are still written.
        let is_gap = |line: &RecordingLine| {
            let reason = GapReason::Limit;
            matches!(line.event, RecordingEvent::Gap { reason: r, .. } if r == reason)
        };
        let is_full = last.iter().any(is_gap) || lines.any(|line| is_gap(&line));
        let end = last.as_ref().and_then(|line| match line.event {
            RecordingEvent::End { exit } => Some(exit),
            _ => None,
        });
        Ok(RecordingSummary {
            start: self.start.clone(),
            length_us: last.map_or(0, |line| line.us),
            bytes: length.saturating_add(self.output_length()),
            is_written: list::is_being_written(&self.dir),
            has_ended: end.is_some(),
            exit: end.flatten(),
            is_full,
        })
    }
}

/// Reads events in order.
#[derive(Debug)]
pub struct EventReader {
    file: BufReader<File>,
    position: EventPosition,
    output: File,
    /// Length of the output as far as it is known; a recording that is being written grows.
    output_length: u64,
    line: Vec<u8>,
    /// Output after the last event has not been returned yet.
    has_tail: bool,
    /// Where reading ends in `events.jsonl`, before the end of the file.
    end: Option<u64>,
}

impl EventReader {
    /// Leaves out output whose event is not there yet, for a recording that is being written.
    pub fn without_tail(mut self) -> EventReader {
        self.has_tail = false;
        self
    }

    /// Ends at this place, without the output after it.
    pub(super) fn until(mut self, end: Option<EventPosition>) -> EventReader {
        self.end = end.map(|end| end.line);
        self.has_tail &= end.is_none();
        self
    }

    /// Returns where the next event is.
    pub fn position(&self) -> EventPosition {
        self.position
    }

    /// Returns the next event; `None` at the end. Lines that are not events are skipped. The bytes of each output event
    /// follow those of the one before: output that no event mentions belongs to the next one, or to a last one that is
    /// made up here.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn next_event(&mut self) -> Result<Option<RecordingLine>> {
        while self.read_line()? {
            let Some(line) = parse_line(&self.line) else {
                continue;
            };
            if matches!(line.event, RecordingEvent::Start(_)) {
                continue;
            }
            return Ok(Some(self.within_limits(line)));
        }
        let left = self.output_length.saturating_sub(self.position.offset);
        if !std::mem::take(&mut self.has_tail) || left == 0 {
            return Ok(None);
        }
        let line = RecordingLine {
            us: self.position.us,
            offset: self.position.offset,
            event: RecordingEvent::Output { bytes: left },
        };
        self.position.offset = self.output_length;
        Ok(Some(line))
    }

    /// Reads the next whole line of acceptable length.
    fn read_line(&mut self) -> Result<bool> {
        loop {
            if self.end.is_some_and(|end| self.position.line >= end) {
                return Ok(false);
            }
            self.line.clear();
            let limit = MAX_LINE as u64;
            let read = (&mut self.file)
                .take(limit)
                .read_until(b'\n', &mut self.line);
            let n = read.context(|| "cannot read the events of the recording".into())?;
            self.position.line += n as u64;
            if n == 0 {
                return Ok(false);
            }
            if self.line.ends_with(b"\n") {
                return Ok(true);
            }
            if n < MAX_LINE {
                // Torn: more may be written to it, so that it is read again.
                self.position.line -= n as u64;
                return Ok(false);
            }
            let skipped = self.skip_line()?;
            self.position.line += skipped;
        }
    }

    fn skip_line(&mut self) -> Result<u64> {
        let mut skipped = 0;
        loop {
            let buffer = self.file.fill_buf();
            let buffer = buffer.context(|| "cannot read the events of the recording".into())?;
            let end = memchr::memchr(b'\n', buffer);
            let n = end.map_or(buffer.len(), |at| at + 1);
            self.file.consume(n);
            skipped += n as u64;
            if end.is_some() || n == 0 {
                return Ok(skipped);
            }
        }
    }

    fn within_limits(&mut self, mut line: RecordingLine) -> RecordingLine {
        let before = self.position;
        line.us = line.us.max(before.us);
        match &mut line.event {
            RecordingEvent::Output { bytes } => {
                let end = line.offset.saturating_add(*bytes);
                if end > self.output_length {
                    // The output is written before its event.
                    let length = self.output.metadata().map_or(0, |meta| meta.len());
                    self.output_length = self.output_length.max(length);
                }
                let end = end.min(self.output_length);
                let end = end.max(before.offset);
                line.offset = before.offset;
                *bytes = end - before.offset;
                self.position.offset = end;
            }
            // Its output is that of the next output event; the offset only orders it.
            _ => line.offset = before.offset,
        }
        if let RecordingEvent::Resize { cols, rows } = &mut line.event {
            (*cols, *rows) = terminal_size(*cols, *rows);
        }
        self.position.us = line.us;
        line
    }
}

fn terminal_size(cols: u16, rows: u16) -> (u16, u16) {
    (cols.clamp(1, MAX_COLS), rows.clamp(1, MAX_ROWS))
}

/// Parses a line; `None` if it is not an event.
fn parse_line(line: &[u8]) -> Option<RecordingLine> {
    // Nearly all lines have this form, and a long recording has a million of them.
    parse_output_line(line).or_else(|| serde_json::from_slice(line).ok())
}

/// Parses an output event in the form in which it is written.
fn parse_output_line(line: &[u8]) -> Option<RecordingLine> {
    let (us, rest) = number(line.strip_prefix(b"{\"us\":")?)?;
    let (offset, rest) = number(rest.strip_prefix(b",\"offset\":")?)?;
    let (bytes, rest) = number(rest.strip_prefix(b",\"type\":\"output\",\"bytes\":")?)?;
    (rest.trim_ascii_end() == b"}").then_some(RecordingLine {
        us,
        offset,
        event: RecordingEvent::Output { bytes },
    })
}

fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|b| !b.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

/// Finds the recording whose id contains `part`, such as the end that lists show.
///
/// # Errors
/// None has it, or several.
pub fn find(dir: &Path, part: &str) -> Result<PathBuf> {
    let hint = "see: aish-helper recording list";
    let all = list::directories(dir).context(|| format!("cannot list {}", dir.display()))?;
    let matches = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !part.is_empty() && name.contains(part)
    };
    let mut found = all.iter().filter(matches);
    match (found.next(), found.next()) {
        (Some(path), None) => Ok(path.clone()),
        (Some(_), Some(_)) => Err(Error::usage(format!(
            "several recordings have an id that contains '{part}'"
        ))
        .hint(format!("give more of the id; {hint}"))),
        _ => Err(Error::usage(format!("no recording has an id that contains '{part}'")).hint(hint)),
    }
}

#[cfg(test)]
mod tests;
