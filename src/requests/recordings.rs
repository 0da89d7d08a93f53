//! The recordings of a session's terminals.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use crate::config::{Config, ProjectRules};
use crate::error::{ErrorContext, Result};
use crate::history::journal::Journal;
use crate::history::record::Record;
use crate::paths::Paths;
use crate::recording::commands::{RecordedCommand, commands};
use crate::recording::list::directories;
use crate::recording::part::RecordingPart;
use crate::recording::reader::{Recording, RecordingSummary};
use crate::safety::own_names::OwnNames;
use crate::safety::redact::global_redactor;
use crate::share::replay::SharedRecordings;

/// The shells that have used a session, each with the time of its first and its last record, in milliseconds since 1970.
#[derive(Debug, Default)]
pub struct SessionShells(HashMap<String, (u64, u64)>);

/// A recording with commands of a session's shells.
#[derive(Debug)]
pub struct SessionRecording {
    /// The recording.
    pub recording: Recording,
    /// The entry that a list shows for it.
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
            // A prompt is recorded after its command line has begun.
            let typed_at = record.ids.command.as_deref().and_then(started_ms);
            let first = typed_at.map_or(at, |typed_at| typed_at.min(at));
            let span = shells.entry(shell.clone()).or_insert((first, at));
            *span = (span.0.min(first), span.1.max(at));
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
        let next = found.commands.iter().skip(1).map(Some).chain([None]);
        let is_within = |(command, next): &(&RecordedCommand, Option<&RecordedCommand>)| {
            let (Some((first, last)), Some(start)) = (self.span(command), started_ms(&command.id))
            else {
                return false;
            };
            let duration_us = command
                .end_us
                .map(|end| end.saturating_sub(command.start_us));
            // A command whose end was lost has ended before the next one. The last one may still run.
            let end = duration_us
                .map(|us| start.saturating_add(us / 1000))
                .or_else(|| started_ms(&next.as_ref()?.id));
            start < last && (start >= first || end.is_none_or(|end| end > first))
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

/// Returns the place where the project of one of these directories says that nothing is shared.
pub(super) fn in_disabled_project(config: &Config, directories: BTreeSet<&str>) -> Option<String> {
    directories
        .into_iter()
        .find_map(|cwd| ProjectRules::around(config, Path::new(cwd)).sharing_disabled)
}

/// Returns the recordings of a session as they are shared. One with a command of a project that disables sharing is left out.
///
/// # Errors
/// A recording, or the journal, cannot be read.
pub(super) fn shared_recordings(
    config: &Config,
    (paths, journal): (&Paths, &Journal),
    records: &[Record],
    names: &OwnNames,
) -> Result<SharedRecordings> {
    let shells = SessionShells::of(records);
    let mut shared = SharedRecordings::default();
    let found = shells.recordings(paths)?;
    let mut parts = Vec::new();
    // Oldest first, as they are shown.
    for found in found.iter().rev() {
        let part = shells.part(found)?;
        parts.extend(part.map(|(part, commands)| (found, part, commands)));
    }
    // Also those of commands that belong to other sessions.
    let commands = parts.iter().flat_map(|(_, _, commands)| *commands);
    let ids = commands.map(|command| command.id.as_str()).collect();
    let directories = journal.directories_of(&ids)?;
    for (found, part, commands) in parts {
        let cwds = commands.iter().filter_map(|c| directories.get(&c.id));
        match in_disabled_project(config, cwds.map(String::as_str).collect()) {
            Some(_) => shared.left_out += 1,
            None => shared.add(&found.recording, &part, global_redactor(), names)?,
        }
    }
    Ok(shared)
}

/// Returns when the command of this id began, by the clock that the records of a session have too. The times of a recording are
/// those at which its output was read, milliseconds later or earlier.
fn started_ms(id: &str) -> Option<u64> {
    let (_, started_ms) = id.rsplit_once('@')?;
    started_ms.parse().ok()
}
