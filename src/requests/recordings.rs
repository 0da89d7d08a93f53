//! The recordings of a session's terminals.

use std::collections::HashMap;

use crate::error::{ErrorContext, Result};
use crate::history::record::Record;
use crate::paths::Paths;
use crate::recording::commands::{RecordedCommand, commands};
use crate::recording::list::directories;
use crate::recording::part::RecordingPart;
use crate::recording::reader::{Recording, RecordingSummary};

/// The shells that have used a session, each with the time of its first and its last record, in milliseconds since 1970.
#[derive(Debug, Default)]
pub struct SessionShells(HashMap<String, (u64, u64)>);

/// A recording with commands of a session's shells.
#[derive(Debug)]
pub struct SessionRecording {
    /// The recording.
    pub recording: Recording,
    /// What a list shows of it.
    pub summary: RecordingSummary,
    /// Its commands.
    pub commands: Vec<RecordedCommand>,
}

impl SessionShells {
    /// Collects the shells from the records of a session.
    pub fn of(records: &[Record]) -> SessionShells {
        let mut shells: HashMap<String, (u64, u64)> = HashMap::new();
        for record in records {
            let Some(shell) = &record.ids.shell else {
                continue;
            };
            let at = record.timestamp_ms;
            let span = shells.entry(shell.clone()).or_insert((at, at));
            *span = (span.0.min(at), span.1.max(at));
        }
        SessionShells(shells)
    }

    /// Returns the recordings of these shells from the time of the session, newest first. A recording that cannot be read is
    /// left out, with a warning.
    ///
    /// # Errors
    /// The directory of recordings cannot be read.
    pub fn recordings(&self, paths: &Paths) -> Result<Vec<SessionRecording>> {
        let first = self.0.values().map(|span| span.0).min();
        let (Some(first), Some(last)) = (first, self.0.values().map(|span| span.1).max()) else {
            return Ok(Vec::new());
        };
        let dir = paths.recordings();
        let mut dirs = directories(&dir).context(|| format!("cannot list {}", dir.display()))?;
        dirs.reverse();
        let mut found = Vec::new();
        for dir in dirs {
            let opened = Recording::open(&dir).and_then(|recording| {
                let summary = recording.summary()?;
                let end_ms = summary.start.ms.saturating_add(summary.length_us / 1000);
                if summary.start.ms > last || end_ms < first {
                    return Ok(None);
                }
                let commands = commands(&recording)?;
                let is_own = commands.iter().any(|command| self.span(command).is_some());
                Ok(is_own.then_some(SessionRecording {
                    recording,
                    summary,
                    commands,
                }))
            });
            match opened {
                Ok(recording) => found.extend(recording),
                Err(e) => tracing::warn!("a recording is left out: {}", e.message),
            }
        }
        Ok(found)
    }

    /// Returns the time in which the shell of a command has used the session.
    fn span(&self, command: &RecordedCommand) -> Option<(u64, u64)> {
        let (shell, _) = command.id.rsplit_once('@')?;
        self.0.get(shell).copied()
    }

    /// Returns the part of a recording from the first to the last command that its shells ran while they used the session, and
    /// all commands in it; `None` if there is none.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn part<'r>(
        &self,
        found: &'r SessionRecording,
    ) -> Result<Option<(RecordingPart, &'r [RecordedCommand])>> {
        let start_ms = found.recording.start.ms;
        let at_ms = |us: u64| start_ms.saturating_add(us / 1000);
        let next = found.commands.iter().skip(1).map(Some).chain([None]);
        let is_within = |(command, next): &(&RecordedCommand, Option<&RecordedCommand>)| {
            // A command whose end was lost has ended before the next one. The last one may still run.
            let end_us = command.end_us.or(next.map(|next| next.start_us));
            self.span(command).is_some_and(|(first, last)| {
                started_ms(command).is_some_and(|start| start < last)
                    && end_us.is_none_or(|end| at_ms(end) >= first)
            })
        };
        let commands = found.commands.iter().zip(next).enumerate();
        let mut within = commands.filter(|(_, command)| is_within(command));
        let Some((first, _)) = within.next() else {
            return Ok(None);
        };
        let last = within.last().map_or(first, |(last, _)| last);
        let commands = &found.commands[first..=last];
        let part = RecordingPart::of_commands(
            &found.recording,
            &found.commands[first],
            &found.commands[last],
        )?;
        Ok(Some((part, commands)))
    }
}

/// Returns when a command began, by the clock that the records of a session have too. The times of a recording begin with its
/// recorder, which may be milliseconds away.
fn started_ms(command: &RecordedCommand) -> Option<u64> {
    let (_, started_ms) = command.id.rsplit_once('@')?;
    started_ms.parse().ok()
}
