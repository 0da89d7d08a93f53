//! The text that a command left on the screen.

use std::time::{Duration, Instant};

use super::prompt_mark::without_prompt_mark;
use super::{ClearedLines, LineCollector, SLICE, ScreenEmulator};
use crate::error::Result;
use crate::recording::event::RecordingEvent;
use crate::recording::reader::Recording;

/// Output up to this size is rendered whole.
const WHOLE: u64 = 2 << 20;

/// Size of each end of longer output that is rendered.
const END: u64 = 512 << 10;

/// Maximum size of the text of each end.
const MAX_TEXT: usize = 128 << 10;

/// How long the emulator may work on one end. Ordinary output of this size takes 20 ms.
const TIME_LIMIT: Duration = Duration::from_millis(300);

/// How much of the end of the output zsh's mark is searched in.
const MARK: u64 = 8 << 10;

/// What a command left on the screen, as a person sees it: redrawn lines in their final form, wrapped rows joined, without
/// colours, and without what was on the alternate screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RenderedOutput {
    /// Lines, each with a line end. Where output was left out, a line says how much. Not redacted.
    pub text: String,
    /// Number of lines, those of left out output included.
    pub lines: u64,
    /// Bytes of output that were left out because there are too many, or because they were not recorded.
    pub omitted: u64,
    /// Whether the command has not ended.
    pub is_running: bool,
}

/// The bytes of a command.
struct CommandOutput {
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
    is_running: bool,
}

/// Maximum number of size changes and of changes of the screen that are kept.
const MAX_CHANGES: usize = 10_000;

/// Returns the text that a command left on the screen; `None` if the recording does not contain the command. Of long output
/// head and tail are rendered, so that time and memory are bounded.
///
/// # Errors
/// The recording cannot be read.
pub fn rendered_output(recording: &Recording, command_id: &str) -> Result<Option<RenderedOutput>> {
    let Some(mut output) = find_command(recording, command_id)? else {
        return Ok(None);
    };
    output.cut_prompt_mark(recording)?;
    let length = output.to - output.from;
    let mut rendered = RenderedOutput {
        omitted: output.gaps,
        is_running: output.is_running,
        ..RenderedOutput::default()
    };
    let (head_end, tail_start) = match length <= WHOLE {
        true => (output.to, output.to),
        false => {
            let (head, tail) = (output.from + END, output.to.saturating_sub(END));
            (
                output.line_start(recording, head)?,
                output.line_start(recording, tail)?,
            )
        }
    };
    let (mut head, rendered_to) = output.render(recording, output.from, head_end)?;
    let mut tail = Vec::new();
    if tail_start < output.to {
        tail = output.render(recording, tail_start, output.to)?.0;
    }
    let skipped = tail_start - rendered_to;
    if skipped == 0 {
        head.append(&mut tail);
    }
    trim(&mut head);
    trim(&mut tail);
    rendered.lines = (head.len() + tail.len()) as u64;
    rendered.omitted += skipped;
    if skipped > 0 {
        rendered.lines += output.count_lines(recording, rendered_to, tail_start)?;
        head.push(format!("[{skipped} bytes left out]"));
    }
    cut_lines(&mut head, &mut rendered.omitted);
    cut_lines(&mut tail, &mut rendered.omitted);
    for line in head.iter().chain(&tail) {
        rendered.text.push_str(line);
        rendered.text.push('\n');
    }
    Ok(Some(rendered))
}

/// Removes blank lines at both ends.
fn trim(lines: &mut Vec<String>) {
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    let blank = lines.iter().take_while(|line| line.is_empty()).count();
    lines.drain(..blank);
}

/// Cuts the middle out of lines with more than [`MAX_TEXT`] bytes.
fn cut_lines(lines: &mut Vec<String>, omitted: &mut u64) {
    let size = |line: &String| line.len() + 1;
    let total: usize = lines.iter().map(size).sum();
    if total <= MAX_TEXT {
        return;
    }
    let fitting = |lines: &mut dyn Iterator<Item = &String>| {
        let mut left = MAX_TEXT / 2;
        lines
            .take_while(|line| {
                let fits = size(line) <= left;
                left = left.saturating_sub(size(line));
                fits
            })
            .count()
    };
    let first = fitting(&mut lines.iter());
    let last = fitting(&mut lines.iter().rev());
    let end = lines.len().saturating_sub(last).max(first);
    let cut: usize = lines.drain(first..end).map(|line| size(&line)).sum();
    *omitted += cut as u64;
    lines.insert(first, format!("[{cut} bytes left out]"));
}

fn find_command(recording: &Recording, command_id: &str) -> Result<Option<CommandOutput>> {
    let (mut cols, mut rows) = (recording.start.cols, recording.start.rows);
    let mut found: Option<CommandOutput> = None;
    let mut events = recording.events()?;
    while let Some(line) = events.next_event()? {
        match (line.event, &mut found) {
            (RecordingEvent::CommandStart { command_id: id, .. }, None) if id == command_id => {
                found = Some(CommandOutput {
                    from: line.offset,
                    to: line.offset,
                    cols,
                    rows,
                    resizes: Vec::new(),
                    alternate: Vec::new(),
                    gaps: 0,
                    is_running: true,
                });
            }
            // The end of this command; or of another one, before which the end of this one was lost.
            (
                RecordingEvent::CommandEnd { .. }
                | RecordingEvent::CommandStart { .. }
                | RecordingEvent::Prompt
                | RecordingEvent::End { .. },
                Some(output),
            ) => {
                output.is_running = false;
                break;
            }
            (RecordingEvent::Output { bytes }, Some(output)) => output.to = line.offset + bytes,
            (RecordingEvent::Gap { bytes, .. }, Some(output)) => {
                output.gaps = output.gaps.saturating_add(bytes);
            }
            (RecordingEvent::Resize { cols, rows }, Some(output))
                if output.resizes.len() < MAX_CHANGES =>
            {
                output.resizes.push((line.offset, cols, rows));
            }
            (RecordingEvent::Resize { cols: c, rows: r }, None) => (cols, rows) = (c, r),
            (RecordingEvent::AlternateScreen { on }, Some(output))
                if output.alternate.len() < MAX_CHANGES =>
            {
                output.alternate.push((line.offset, on));
            }
            _ => {}
        }
    }
    Ok(found)
}

impl CommandOutput {
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

    /// Returns the start of the first line behind `offset`, within reasonable distance: rendering begins there.
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

    fn count_lines(&self, recording: &Recording, from: u64, to: u64) -> Result<u64> {
        let mut lines = 0;
        let mut buffer = vec![0; 256 << 10];
        recording.each_output(from, to, &mut buffer, |_, piece| {
            lines += memchr::memchr_iter(b'\n', piece).count() as u64;
            true
        })?;
        Ok(lines)
    }

    /// Renders the output from `from` to `to` on a blank screen. Returns the lines, and where the time limit was reached.
    fn render(&self, recording: &Recording, from: u64, to: u64) -> Result<(Vec<String>, u64)> {
        let before = |offset: u64| self.resizes.partition_point(|change| change.0 <= offset);
        let mut next_resize = before(from);
        let size = next_resize
            .checked_sub(1)
            .and_then(|at| self.resizes.get(at));
        let (cols, rows) = size.map_or((self.cols, self.rows), |(_, cols, rows)| (*cols, *rows));
        let Some(mut screen) = ScreenEmulator::new(cols, rows) else {
            return Ok((Vec::new(), to));
        };
        let mut collector = LineCollector::new(ClearedLines::Drop);
        let changes = self.alternate.iter().take_while(|change| change.0 <= from);
        if changes.last().is_some_and(|(_, on)| *on) && from > self.from {
            screen.feed_observed(b"\x1b[?1049h", &mut collector);
        }
        let deadline = Instant::now() + TIME_LIMIT;
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
