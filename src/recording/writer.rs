//! Writes a recording. A disk that is full, or fails, costs the recording bytes, which are counted in a gap, and never
//! anything else.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use super::alternate_screen::AlternateScreen;
use super::commands::MAX_NESTED;
use super::event::{
    EVENTS_FILE, GapReason, OUTPUT_FILE, RecordingEvent, RecordingLine, RecordingStart,
};
use super::marks::Mark;
use crate::error::{ErrorContext, Result};
use crate::paths;

/// Maximum number of events that wait for a disk that cannot be written.
const MAX_WAITING: usize = 1000;

/// The state of a recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The next bytes of output of the batch.
    Output {
        /// Number of bytes.
        bytes: usize,
        /// Why the bytes are left out.
        left_out: Option<GapReason>,
    },
    /// Number of bytes of output that were dropped because the writer is too slow.
    Dropped(u64),
    /// A new size, as columns and rows.
    Resize(u16, u16),
    /// A mark of the shell.
    Mark(Mark),
    /// The end. With `hung_up` the terminal was closed.
    End {
        /// Exit code of the recorded command, if known.
        exit: Option<i32>,
        /// Whether the terminal was closed.
        hung_up: bool,
    },
}

/// A recording that is being written.
#[derive(Debug)]
pub struct RecordingWriter {
    dir: PathBuf,
    output: File,
    /// Locked: retention and readers see that the recording is still written.
    events: Flock<File>,
    output_length: u64,
    events_length: u64,
    max_bytes: u64,
    /// The recording has reached its maximum size.
    full: bool,
    /// The files could not be brought back to a known length.
    broken: bool,
    screen: AlternateScreen,
    /// The state of the alternate screen after the last event.
    announced: bool,
    size: (u16, u16),
    /// Bytes that have been left out since the last event of output.
    gap: Option<(GapReason, u64)>,
    /// A line has ended in the gap, which is one of [`GapReason::EchoOff`].
    gap_has_line_end: bool,
    /// The running command, while the history forgets it.
    hidden: bool,
    /// The commands that run, each in a shell that the one before it has started.
    commands: Vec<String>,
    /// Nothing has run in the innermost shell since its last prompt.
    at_prompt: bool,
    /// The innermost shell has ended with its command.
    has_left: bool,
    prompt: Option<PromptPlace>,
    /// Events to write, each with its time.
    plan: Vec<(u64, RecordingEvent)>,
    /// The bytes of the output events in the plan.
    data: Vec<u8>,
}

/// Where the last prompt begins.
#[derive(Debug, Clone, Copy)]
struct PromptPlace {
    output_length: u64,
    events_length: u64,
    announced: bool,
    size: (u16, u16),
    /// Bytes in gaps since.
    left_out: u64,
}

impl RecordingWriter {
    /// Creates the recording `start.id` in the directory of recordings.
    ///
    /// # Errors
    /// A directory or file cannot be created or written.
    pub fn create(
        recordings: &Path,
        start: &RecordingStart,
        max_bytes: u64,
    ) -> Result<RecordingWriter> {
        paths::make_dir(recordings)?;
        let dir = recordings.join(&start.id);
        // Under another name until the lock is held: what has the name of a recording and no lock is complete.
        let temporary = recordings.join(format!(".{}", start.id));
        let created = RecordingWriter::create_in(&temporary, start, max_bytes).and_then(|writer| {
            fs::rename(&temporary, &dir)?;
            Ok(writer)
        });
        match created {
            Ok(mut writer) => {
                writer.dir = dir;
                Ok(writer)
            }
            Err(e) => {
                // Best effort: the error of the creation is the one to report.
                let _ = fs::remove_dir_all(&temporary);
                Err(e).context(|| format!("cannot create the recording {}", dir.display()))
            }
        }
    }

    fn create_in(
        dir: &Path,
        start: &RecordingStart,
        max_bytes: u64,
    ) -> io::Result<RecordingWriter> {
        DirBuilder::new().mode(0o700).create(dir)?;
        let open = |name: &str| {
            let mut options = OpenOptions::new();
            let options = options.append(true).create_new(true).mode(0o600);
            options.open(dir.join(name))
        };
        let output = open(OUTPUT_FILE)?;
        let events = Flock::lock(open(EVENTS_FILE)?, FlockArg::LockExclusiveNonblock);
        let line = RecordingLine {
            us: 0,
            offset: 0,
            event: RecordingEvent::Start(start.clone()),
        };
        let mut writer = RecordingWriter {
            dir: dir.to_owned(),
            output,
            events: events.map_err(|(_, e)| io::Error::from(e))?,
            output_length: 0,
            events_length: 0,
            max_bytes,
            full: false,
            broken: false,
            screen: AlternateScreen::default(),
            announced: false,
            size: (start.cols, start.rows),
            gap: None,
            gap_has_line_end: false,
            hidden: false,
            commands: Vec::new(),
            at_prompt: false,
            has_left: false,
            prompt: None,
            plan: Vec::new(),
            data: Vec::new(),
        };
        let mut text = serde_json::to_vec(&line)?;
        text.push(b'\n');
        writer.events.write_all(&text)?;
        writer.events_length = text.len() as u64;
        Ok(writer)
    }

    /// Directory of the recording.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Records events, each with its time in microseconds; `bytes` holds the output.
    pub fn record(&mut self, seen: &[(u64, Seen)], bytes: &[u8]) {
        let mut rest = bytes;
        for (us, seen) in seen {
            match seen {
                Seen::Output { bytes, left_out } => {
                    let (now, later) = rest.split_at((*bytes).min(rest.len()));
                    rest = later;
                    self.output(*us, now, *left_out);
                }
                Seen::Dropped(bytes) => self.leave_out(*us, GapReason::Dropped, *bytes),
                Seen::Resize(cols, rows) => {
                    self.size = (*cols, *rows);
                    let (cols, rows) = self.size;
                    self.plan.push((*us, RecordingEvent::Resize { cols, rows }));
                }
                Seen::Mark(mark) => self.mark(*us, mark),
                Seen::End { exit, hung_up } => self.end(*us, *exit, *hung_up),
            }
        }
        self.commit();
    }

    fn output(&mut self, us: u64, bytes: &[u8], left_out: Option<GapReason>) {
        let reason = match (self.full || self.broken, self.hidden) {
            (true, _) => Some(GapReason::Limit),
            (_, true) => Some(GapReason::NotInHistory),
            _ => left_out,
        };
        if let Some(reason) = reason {
            let mut rest = bytes;
            while !rest.is_empty() {
                let length = self.screen.advance(rest);
                rest = rest.get(length..).unwrap_or_default();
            }
            self.leave_out(us, reason, bytes.len() as u64);
            self.gap_has_line_end |= reason == GapReason::EchoOff && bytes.contains(&b'\n');
            return;
        }
        self.close_gap(us);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.screen.advance(rest).min(rest.len()));
            rest = later;
            let length = now.len() as u64;
            self.plan
                .push((us, RecordingEvent::Output { bytes: length }));
            self.data.extend_from_slice(now);
            self.announce(us);
        }
    }

    fn announce(&mut self, us: u64) {
        let on = self.screen.is_shown();
        if on != self.announced {
            self.announced = on;
            self.plan.push((us, RecordingEvent::AlternateScreen { on }));
        }
    }

    fn leave_out(&mut self, us: u64, reason: GapReason, more: u64) {
        match &mut self.gap {
            Some((open, bytes)) if *open == reason => *bytes += more,
            _ => {
                self.close_gap(us);
                self.gap = Some((reason, more));
            }
        }
    }

    fn close_gap(&mut self, us: u64) {
        let Some((reason, mut bytes)) = self.gap.take() else {
            return;
        };
        // One line end replaces all output that a program printed while nothing was echoed. Without it, what follows would go on in
        // the line of the password prompt.
        let line_end: &[u8] = match std::mem::take(&mut self.gap_has_line_end) {
            true => b"\r\n",
            false => b"",
        };
        bytes = bytes.saturating_sub(line_end.len() as u64);
        if bytes > 0 {
            self.plan.push((us, RecordingEvent::Gap { reason, bytes }));
        }
        if !line_end.is_empty() {
            let bytes = line_end.len() as u64;
            self.plan.push((us, RecordingEvent::Output { bytes }));
            self.data.extend_from_slice(line_end);
        }
        if let Some(prompt) = &mut self.prompt {
            prompt.left_out += bytes;
        }
        self.announce(us);
    }

    fn mark(&mut self, us: u64, mark: &Mark) {
        match mark {
            Mark::CommandStart { command_id, text } => {
                match text {
                    Some(_) => self.close_gap(us),
                    // The shell has shown the command line while it was typed.
                    None => self.forget_line(us),
                }
                self.hidden = text.is_none();
                self.prompt = None;
                self.begin(command_id);
                let start = RecordingEvent::CommandStart {
                    command_id: command_id.clone(),
                    text: text.clone(),
                };
                self.plan.push((us, start));
            }
            Mark::CommandEnd { exit } => {
                self.hidden = false;
                self.close_gap(us);
                // An empty line has an end too. A shell that ended with its command has reported neither, and both have its exit code.
                let ended = match self.at_prompt {
                    true => 0,
                    false => 1 + usize::from(std::mem::take(&mut self.has_left)),
                };
                let first = self.commands.len().saturating_sub(ended);
                for command_id in self.commands.drain(first..).rev() {
                    let end = RecordingEvent::CommandEnd {
                        command_id,
                        exit: *exit,
                    };
                    self.plan.push((us, end));
                }
            }
            Mark::Prompt => {
                self.hidden = false;
                self.at_prompt = true;
                self.close_gap(us);
                self.plan.push((us, RecordingEvent::Prompt));
                self.commit();
                self.prompt = Some(PromptPlace {
                    output_length: self.output_length,
                    events_length: self.events_length,
                    announced: self.announced,
                    size: self.size,
                    left_out: 0,
                });
            }
            // Until a shell has the nonce, and when it has ended, nobody reports which lines the history forgets.
            Mark::Hello(_) => (self.hidden, self.at_prompt) = (true, true),
            Mark::Bye => {
                self.hidden = true;
                self.has_left = !std::mem::take(&mut self.at_prompt);
            }
        }
    }

    /// Adds a command to those that run. One of the same shell, and those of the shells in it, have ended without a report.
    fn begin(&mut self, command_id: &str) {
        let shell = |id: &str| id.rsplit_once('@').map(|(shell, _)| shell.to_owned());
        let earlier = |id: &String| shell(id) == shell(command_id);
        if let Some(at) = self.commands.iter().position(earlier) {
            self.commands.truncate(at);
        }
        if self.commands.len() == MAX_NESTED {
            self.commands.remove(0);
        }
        self.commands.push(command_id.to_owned());
        (self.at_prompt, self.has_left) = (false, false);
    }

    /// Cuts off the events recorded since the last prompt, and counts them as a gap.
    fn forget_line(&mut self, us: u64) {
        self.close_gap(us);
        self.commit();
        let Some(place) = self.prompt.take() else {
            return;
        };
        let bytes = self.output_length.saturating_sub(place.output_length) + place.left_out;
        if !self.cut(place.output_length, place.events_length) {
            return;
        }
        self.announced = place.announced;
        if self.size != place.size {
            let (cols, rows) = self.size;
            self.plan.push((us, RecordingEvent::Resize { cols, rows }));
        }
        self.gap = Some((GapReason::NotInHistory, bytes));
    }

    fn end(&mut self, us: u64, exit: Option<i32>, hung_up: bool) {
        // Nobody knows what the line that was being typed would have become.
        if hung_up && self.prompt.is_some() {
            self.forget_line(us);
        }
        self.close_gap(us);
        self.plan.push((us, RecordingEvent::End { exit }));
        // The last events are written beyond the limit.
        self.max_bytes = u64::MAX;
        self.commit();
    }

    /// Writes the plan. If it cannot be written, its output becomes a gap, and the events wait.
    fn commit(&mut self) {
        if self.plan.is_empty() || self.broken {
            self.plan.clear();
            self.data.clear();
            return;
        }
        let mut text = Vec::new();
        let mut offset = self.output_length;
        for (us, event) in &self.plan {
            let line = RecordingLine {
                us: *us,
                offset,
                event: event.clone(),
            };
            if let RecordingEvent::Output { bytes } = event {
                offset += bytes;
            }
            if serde_json::to_writer(&mut text, &line).is_ok() {
                text.push(b'\n');
            }
        }
        let total = offset + self.events_length + text.len() as u64;
        if total > self.max_bytes {
            return self.reach_limit();
        }
        // The output first: an event never promises bytes that are not there.
        let written = self.output.write_all(&self.data);
        match written.and_then(|()| self.events.write_all(&text)) {
            Ok(()) => {
                self.output_length = offset;
                self.events_length += text.len() as u64;
                self.plan.clear();
            }
            Err(_) => {
                self.cut(self.output_length, self.events_length);
                self.lose_output(GapReason::DiskFull);
            }
        }
        self.data.clear();
    }

    /// Writes the size of the output that no longer fits. What follows is counted and written at the end.
    fn reach_limit(&mut self) {
        let us = self.plan.last().map_or(0, |(us, _)| *us);
        self.lose_output(GapReason::Limit);
        self.data.clear();
        let gaps = self.plan.iter().filter_map(|(_, event)| match event {
            RecordingEvent::Gap { bytes, .. } => Some(*bytes),
            _ => None,
        });
        let bytes = gaps.sum();
        self.plan.clear();
        if std::mem::replace(&mut self.full, true) {
            self.leave_out(us, GapReason::Limit, bytes);
            return;
        }
        let reason = GapReason::Limit;
        self.plan.push((us, RecordingEvent::Gap { reason, bytes }));
        let max_bytes = std::mem::replace(&mut self.max_bytes, u64::MAX);
        self.commit();
        self.max_bytes = max_bytes;
    }

    /// Turns the output of the plan into a gap.
    fn lose_output(&mut self, lost: GapReason) {
        let mut plan: Vec<(u64, RecordingEvent)> = Vec::new();
        for (us, event) in self.plan.drain(..) {
            let (reason, more) = match event {
                RecordingEvent::Output { bytes } => (lost, bytes),
                RecordingEvent::Gap { reason, bytes } => (reason, bytes),
                event if plan.len() < MAX_WAITING => {
                    plan.push((us, event));
                    continue;
                }
                _ => continue,
            };
            let is_long = plan.len() >= MAX_WAITING;
            match plan.last_mut() {
                Some((
                    _,
                    RecordingEvent::Gap {
                        reason: open,
                        bytes,
                    },
                )) if *open == reason || is_long => {
                    *bytes += more;
                }
                _ => {
                    let bytes = more;
                    plan.push((us, RecordingEvent::Gap { reason, bytes }));
                }
            }
        }
        self.plan = plan;
    }

    /// Cuts the files off at these lengths. Returns whether that worked.
    fn cut(&mut self, output_length: u64, events_length: u64) -> bool {
        let cut = self.output.set_len(output_length);
        self.broken |= cut
            .and_then(|()| self.events.set_len(events_length))
            .is_err();
        (self.output_length, self.events_length) = (output_length, events_length);
        !self.broken
    }
}

#[cfg(test)]
mod tests;
