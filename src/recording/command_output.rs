//! The output of one command of a recorded shell, as the lines that a person saw.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::event::{GapReason, RecordingEvent};
use super::list;
use super::prompt_mark::without_prompt_mark;
use super::reader::Recording;
use super::screen::{ClearedLines, LineCollector, SLICE};
use crate::error::Result;

/// Output up to this size is rendered whole.
const WHOLE: u64 = 2 << 20;

/// Size of each end of longer output that is rendered.
const END: u64 = 512 << 10;

/// Maximum size of the text of each end.
const MAX_TEXT: usize = 256 << 10;

/// How long the emulator may work on one end. Output of [`WHOLE`] bytes takes about 20 ms.
const TIME_LIMIT: Duration = Duration::from_millis(50);

/// How much of the end of the output zsh's mark is searched in.
const MARK: u64 = 8 << 10;

/// Maximum number of size changes and of changes of the screen that are kept.
const MAX_CHANGES: usize = 10_000;

/// Time limit for the events of a command that the shell has reported already, and interval of looking for them: the recorder
/// writes on its own thread.
const EVENT_PATIENCE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(5));

/// Output that a command left on the screen, as a person sees it: redrawn lines in their final form, wrapped rows joined, without
/// colours, and without the content of the alternate screen. Not redacted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenderedOutput {
    /// The first lines, or all of them.
    pub head: String,
    /// The last lines, where some between were left out.
    pub tail: String,
    /// Number of lines, those that were left out included.
    pub lines: usize,
    /// The width of the terminal at its end.
    pub columns: usize,
    /// Bytes of output that were left out because there are too many, or because they were not recorded. Answers to password
    /// prompts are not output.
    pub omitted: u64,
    /// Why the recording lacks some of the output, if it does; [`GapReason::NotInHistory`] before any other reason.
    pub lacking: Option<GapReason>,
}

impl RenderedOutput {
    /// Returns an output that was captured line by line, so that no width has folded it.
    pub fn captured(head: String, tail: String, omitted: u64) -> RenderedOutput {
        RenderedOutput {
            lines: head.lines().count() + tail.lines().count(),
            head,
            tail,
            columns: 0,
            omitted,
            lacking: None,
        }
    }

    /// Returns the first and the last of these lines, which a terminal of this width showed.
    pub fn of_lines(lines: &[String], columns: usize) -> RenderedOutput {
        let size: usize = lines.iter().map(|line| line.len() + 1).sum();
        let (head, tail, omitted) = match size <= 2 * MAX_TEXT {
            true => (lines.join("\n"), String::new(), 0),
            false => {
                let (head, tail) = (first_lines(lines), last_lines(lines));
                let omitted = size.saturating_sub(head.len() + tail.len() + 1);
                (head, tail, omitted)
            }
        };
        RenderedOutput {
            head,
            tail,
            lines: lines.len(),
            columns,
            omitted: omitted as u64,
            lacking: None,
        }
    }
}

/// Returns the first lines, at most [`MAX_TEXT`] bytes.
fn first_lines(lines: &[String]) -> String {
    let count = fitting(lines.iter());
    lines.get(..count).unwrap_or_default().join("\n")
}

/// Returns the last lines, at most [`MAX_TEXT`] bytes.
fn last_lines(lines: &[String]) -> String {
    let first = lines.len() - fitting(lines.iter().rev());
    lines.get(first..).unwrap_or_default().join("\n")
}

fn fitting<'l>(lines: impl Iterator<Item = &'l String>) -> usize {
    let mut left = MAX_TEXT;
    let fits = |line: &&String| match left.checked_sub(line.len() + 1) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };
    lines.take_while(fits).count()
}

/// Returns what a command, which started at `started_ms`, left on the terminal `tty`, `/dev/pts/3`, if that terminal is
/// recorded now and the recording has the command from its start to its end, or is full. `is_command` gets id and text of each command: with
/// type-ahead, two commands can start in the same millisecond and have the same id.
///
/// # Errors
/// The recording cannot be read.
pub fn of_command(
    recordings: &Path,
    tty: &str,
    started_ms: u64,
    is_command: impl Fn(&str, Option<&str>) -> bool,
) -> Result<Option<RenderedOutput>> {
    let Some(dir) = list::of_terminal(recordings, tty) else {
        return Ok(None);
    };
    let recording = Recording::open(&dir)?;
    let is_expected = started_ms >= recording.start.ms;
    let mut found = find(&recording, &is_command, None)?;
    if found.is_none() && is_expected {
        // A full recording gets no further events.
        if recording.summary()?.is_full {
            return Ok(Some(RenderedOutput {
                lacking: Some(GapReason::Limit),
                ..RenderedOutput::default()
            }));
        }
        found = find(&recording, &is_command, Some(EVENT_PATIENCE))?;
    }
    match found {
        Some(bytes) => bytes.rendered(&recording, TIME_LIMIT).map(Some),
        None => Ok(None),
    }
}

/// The bytes of a command.
pub(super) struct CommandBytes {
    command_id: String,
    from: u64,
    to: u64,
    cols: u16,
    rows: u16,
    /// Sizes that the terminal took on, with the offsets at which it did.
    resizes: Vec<(u64, u16, u16)>,
    /// Whether the alternate screen is shown, and from which offset on.
    alternate: Vec<(u64, bool)>,
    /// Bytes in gaps.
    gaps: u64,
    /// Why there are gaps, as in [`RenderedOutput::lacking`].
    lacking: Option<GapReason>,
}

/// Returns the bytes of a command from its start to its end. Without its end, what follows may be of another command.
///
/// # Errors
/// The recording cannot be read.
pub(super) fn find(
    recording: &Recording,
    is_command: impl Fn(&str, Option<&str>) -> bool,
    patience: Option<(Duration, Duration)>,
) -> Result<Option<CommandBytes>> {
    let (mut cols, mut rows) = (recording.start.cols, recording.start.rows);
    let mut found: Option<CommandBytes> = None;
    let mut events = recording.events()?.without_tail();
    let deadline = patience.map(|(limit, interval)| (Instant::now() + limit, interval));
    loop {
        let Some(line) = events.next_event()? else {
            match deadline {
                Some((deadline, interval)) if Instant::now() <= deadline => {
                    thread::sleep(interval);
                    continue;
                }
                _ => return Ok(None),
            }
        };
        match (line.event, &mut found) {
            (RecordingEvent::CommandStart { command_id, text }, None)
                if is_command(&command_id, text.as_deref()) =>
            {
                found = Some(CommandBytes {
                    command_id,
                    from: line.offset,
                    to: line.offset,
                    cols,
                    rows,
                    resizes: Vec::new(),
                    alternate: Vec::new(),
                    gaps: 0,
                    lacking: None,
                });
            }
            (RecordingEvent::CommandEnd { command_id, .. }, Some(bytes)) => {
                let is_end = command_id == bytes.command_id;
                return Ok(found.filter(|_| is_end));
            }
            // The end of the command was lost.
            (
                RecordingEvent::CommandStart { .. }
                | RecordingEvent::Prompt
                | RecordingEvent::End { .. },
                Some(_),
            ) => return Ok(None),
            (RecordingEvent::Output { bytes }, Some(found)) => {
                found.to = line.offset.saturating_add(bytes);
            }
            (RecordingEvent::Gap { bytes, reason }, Some(found))
                if reason != GapReason::EchoOff =>
            {
                found.gaps = found.gaps.saturating_add(bytes);
                found.lacking = match reason {
                    GapReason::NotInHistory => Some(reason),
                    _ => found.lacking.or(Some(reason)),
                };
            }
            (RecordingEvent::Resize { cols, rows }, Some(found))
                if found.resizes.len() < MAX_CHANGES =>
            {
                found.resizes.push((line.offset, cols, rows));
            }
            (RecordingEvent::Resize { cols: c, rows: r }, None) => (cols, rows) = (c, r),
            (RecordingEvent::AlternateScreen { on }, Some(found))
                if found.alternate.len() < MAX_CHANGES =>
            {
                found.alternate.push((line.offset, on));
            }
            _ => {}
        }
    }
}

impl CommandBytes {
    /// Returns the text that the bytes left on the screen. Of long output, and of output that takes longer than `limit`, head
    /// and tail are rendered, so that time and memory are bounded.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub(super) fn rendered(
        mut self,
        recording: &Recording,
        limit: Duration,
    ) -> Result<RenderedOutput> {
        self.cut_prompt_mark(recording)?;
        let last = self.resizes.last();
        let columns = usize::from(last.map_or(self.cols, |(_, cols, _)| *cols));
        let head_end = match self.to.saturating_sub(self.from) <= WHOLE {
            true => self.to,
            false => self.line_start(recording, self.from + END)?,
        };
        let (mut head, head_end) = self.render(recording, self.from, head_end, limit)?;
        trim(&mut head);
        if head_end >= self.to {
            let mut rendered = RenderedOutput::of_lines(&head, columns);
            rendered.omitted = rendered.omitted.saturating_add(self.gaps);
            rendered.lacking = self.lacking;
            return Ok(rendered);
        }
        let tail_start = head_end.max(self.to.saturating_sub(END));
        let tail_start = self.line_start(recording, tail_start)?;
        let (mut tail, tail_end) = self.render(recording, tail_start, self.to, limit)?;
        trim(&mut tail);
        let mut lines = head.len() + tail.len();
        let size = |lines: &[String]| lines.iter().map(|line| line.len() + 1).sum::<usize>();
        let rendered_size = size(&head) + size(&tail);
        let (head, tail) = (first_lines(&head), last_lines(&tail));
        let cut = rendered_size.saturating_sub(head.len() + tail.len() + 2);
        let mut omitted = self.gaps.saturating_add(cut as u64);
        for (from, to) in [(head_end, tail_start), (tail_end, self.to)] {
            lines += self.count_lines(recording, from, to)?;
            omitted = omitted.saturating_add(to.saturating_sub(from));
        }
        Ok(RenderedOutput {
            head,
            tail,
            lines,
            columns,
            omitted,
            lacking: self.lacking,
        })
    }

    fn cut_prompt_mark(&mut self, recording: &Recording) -> Result<()> {
        let from = self.to.saturating_sub(MARK).max(self.from);
        let mut end = Vec::new();
        recording.each_output(from, self.to, &mut [0; MARK as usize], |_, piece| {
            end.extend_from_slice(piece);
            true
        })?;
        let cols = self.resizes.last().map_or(self.cols, |(_, cols, _)| *cols);
        let cut = end.len() - without_prompt_mark(&end, cols);
        self.to -= cut as u64;
        Ok(())
    }

    /// Returns the start of the first line after `offset`, within reasonable distance: rendering begins there.
    fn line_start(&self, recording: &Recording, offset: u64) -> Result<u64> {
        let mut found = offset;
        let limit = offset.saturating_add(64 << 10).min(self.to);
        recording.each_output(
            offset,
            limit,
            &mut [0; 4096],
            |at, piece| match memchr::memchr(b'\n', piece) {
                Some(end) => {
                    found = at + end as u64 + 1;
                    false
                }
                None => true,
            },
        )?;
        Ok(found)
    }

    fn count_lines(&self, recording: &Recording, from: u64, to: u64) -> Result<usize> {
        let mut lines = 0;
        let mut buffer = vec![0; 256 << 10];
        recording.each_output(from, to, &mut buffer, |_, piece| {
            lines += memchr::memchr_iter(b'\n', piece).count();
            true
        })?;
        Ok(lines)
    }

    /// Renders the output from `from` to `to` on a screen that is blank but for it. Returns the lines, and where the time limit was reached.
    fn render(
        &self,
        recording: &Recording,
        from: u64,
        to: u64,
        limit: Duration,
    ) -> Result<(Vec<String>, u64)> {
        let before = |offset: u64| self.resizes.partition_point(|change| change.0 <= offset);
        let mut next_resize = before(from);
        let size = next_resize
            .checked_sub(1)
            .and_then(|at| self.resizes.get(at));
        let (cols, rows) = size.map_or((self.cols, self.rows), |(_, cols, rows)| (*cols, *rows));
        let Some((mut screen, mut collector)) =
            LineCollector::at_bottom(cols, rows, ClearedLines::Drop)
        else {
            return Ok((Vec::new(), to));
        };
        let changes = self.alternate.iter().take_while(|change| change.0 <= from);
        if changes.last().is_some_and(|(_, on)| *on) && from > self.from {
            screen.feed_observed(b"\x1b[?1049h", &mut collector);
        }
        let deadline = Instant::now() + limit;
        let mut buffer = vec![0; SLICE];
        let mut at = from;
        while at < to && Instant::now() < deadline {
            let resize = self.resizes.get(next_resize);
            let until = resize.map_or(to, |(offset, ..)| (*offset).clamp(at, to));
            recording.each_output(at, until, &mut buffer, |offset, piece| {
                screen.feed_observed(piece, &mut collector);
                at = offset + piece.len() as u64;
                Instant::now() < deadline
            })?;
            match resize {
                Some((_, cols, rows)) if at >= until => {
                    screen.resize_observed(*cols, *rows, &mut collector);
                    next_resize += 1;
                }
                // The file is shorter than it was.
                _ if at < until && Instant::now() < deadline => break,
                _ => {}
            }
        }
        Ok((collector.finish(&screen), at.max(from)))
    }
}

/// Removes blank lines at the end.
fn trim(lines: &mut Vec<String>) {
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
}

#[cfg(test)]
mod tests;
