//! The file of snapshots.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::SnapshotPlace;
use crate::error::{ErrorContext, Result};
use crate::paths::read_own;
use crate::recording::event::EVENTS_FILE;
use crate::recording::reader::{EventPosition, Recording};
use crate::recording::screen::ScreenEmulator;

/// Name of the file in the directory of a recording.
const FILE: &str = "snapshots";

/// End of the name of a file that is not complete.
const TEMPORARY: &str = ".aish-new";

/// Version of the file; a file of another version is rebuilt.
const VERSION: u32 = 1;

/// Maximum length of a snapshot. The screen of a usual terminal has 20 kB.
const MAX_LENGTH: u64 = 1 << 20;

/// The first line: what the snapshots were made of. They count as long as it is unchanged.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
struct Header {
    version: u32,
    output: u64,
    events: u64,
}

/// A snapshot, or the last line.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Line {
    line: u64,
    us: u64,
    offset: u64,
    cols: u16,
    rows: u16,
    #[serde(skip_serializing_if = "String::is_empty")]
    dump: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    complete: bool,
}

impl Header {
    fn of(recording: &Recording) -> Header {
        let events = fs::metadata(recording.dir.join(EVENTS_FILE));
        Header {
            version: VERSION,
            output: recording.output_length(),
            events: events.map_or(0, |meta| meta.len()),
        }
    }
}

/// Reads snapshots.
#[derive(Debug)]
pub struct SnapshotReader {
    file: File,
}

impl SnapshotReader {
    /// Opens the file of a recording; `None` if there is none that fits.
    pub(super) fn open(recording: &Recording) -> Option<(SnapshotReader, Vec<SnapshotPlace>)> {
        let file = read_own(&recording.dir.join(FILE)).ok()?;
        let reader = SnapshotReader {
            file: file.try_clone().ok()?,
        };
        let mut file = BufReader::with_capacity(256 << 10, file);
        let mut text = Vec::new();
        let mut next = |text: &mut Vec<u8>| {
            text.clear();
            let read = (&mut file).take(MAX_LENGTH).read_until(b'\n', text).ok()?;
            (text.last() == Some(&b'\n')).then_some(read as u64)
        };
        let mut at = next(&mut text)?;
        if serde_json::from_slice::<Header>(&text).ok()? != Header::of(recording) {
            return None;
        }
        let mut places: Vec<SnapshotPlace> = Vec::new();
        loop {
            let length = next(&mut text)?;
            let line: Line = serde_json::from_slice(&text).ok()?;
            if line.complete {
                return Some((reader, places));
            }
            let position = EventPosition {
                line: line.line,
                us: line.us,
                offset: line.offset,
            };
            if places
                .last()
                .is_some_and(|last| last.position.us > position.us)
            {
                return None;
            }
            places.push(SnapshotPlace {
                position,
                at,
                length,
            });
            at += length;
        }
    }

    /// Returns the screen of a snapshot; `None` if it cannot be read.
    pub fn screen(&self, place: &SnapshotPlace) -> Option<ScreenEmulator> {
        let mut text = vec![0; usize::try_from(place.length.min(MAX_LENGTH)).ok()?];
        self.file.read_exact_at(&mut text, place.at).ok()?;
        let line: Line = serde_json::from_slice(&text).ok()?;
        ScreenEmulator::restored(line.cols, line.rows, &line.dump)
    }
}

/// Removes temporary files of processes that were killed. One that is in use can still be read, but is not kept.
fn remove_leftovers(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(FILE) && name.ends_with(TEMPORARY) {
            // Best effort.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Writes snapshots to a temporary file, which is removed unless it is kept.
pub(super) struct SnapshotWriter {
    file: File,
    path: PathBuf,
    header: Header,
    at: u64,
}

impl SnapshotWriter {
    pub(super) fn create(recording: &Recording) -> Result<SnapshotWriter> {
        remove_leftovers(&recording.dir);
        let name = format!("{FILE}.{}{TEMPORARY}", uuid::Uuid::now_v7());
        let path = recording.dir.join(name);
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&path);
        let mut writer = SnapshotWriter {
            file: file.context(|| format!("cannot create {}", path.display()))?,
            path,
            header: Header::of(recording),
            at: 0,
        };
        let header = serde_json::to_vec(&writer.header);
        writer.append(header.context(|| "cannot write a snapshot".into())?)?;
        Ok(writer)
    }

    pub(super) fn reader(&self) -> Result<SnapshotReader> {
        let file = self.file.try_clone();
        Ok(SnapshotReader {
            file: file.context(|| "cannot read the snapshots".into())?,
        })
    }

    /// Appends the state of the screen at `position`.
    pub(super) fn add(
        &mut self,
        position: EventPosition,
        (cols, rows): (usize, usize),
        dump: &str,
    ) -> Result<SnapshotPlace> {
        let line = Line {
            line: position.line,
            us: position.us,
            offset: position.offset,
            cols: u16::try_from(cols).unwrap_or(u16::MAX),
            rows: u16::try_from(rows).unwrap_or(u16::MAX),
            dump: dump.to_owned(),
            complete: false,
        };
        let at = self.at;
        let text = serde_json::to_vec(&line).context(|| "cannot write a snapshot".into())?;
        self.append(text)?;
        Ok(SnapshotPlace {
            position,
            at,
            length: self.at - at,
        })
    }

    fn append(&mut self, mut text: Vec<u8>) -> Result<()> {
        text.push(b'\n');
        let written = self.file.write_all(&text);
        written.context(|| format!("cannot write {}", self.path.display()))?;
        self.at += text.len() as u64;
        Ok(())
    }

    /// Keeps the file for the next replay, if the recording is complete and has not changed.
    pub(super) fn keep(mut self, recording: &Recording) -> Result<()> {
        if !recording.summary()?.has_ended || Header::of(recording) != self.header {
            return Ok(());
        }
        self.append(b"{\"complete\":true}".to_vec())?;
        let target = recording.dir.join(FILE);
        fs::rename(&self.path, &target).context(|| format!("cannot write {}", target.display()))
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        // Fails if the file was kept. An open reader can still read a removed one.
        let _ = fs::remove_file(&self.path);
    }
}
