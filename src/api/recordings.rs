//! The recordings of a session's terminals: which there are, and their redacted form, of which any part can be sent.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::types::{RecordedCommandView, RecordingSourceWord, RecordingView};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::{self, Paths};
use crate::recording::commands::RecordedCommand;
use crate::recording::event::RecordingSource;
use crate::recording::part::RecordingPart;
use crate::recording::reader::{Recording, RecordingSummary};
use crate::recording::secrets::RecordingSecrets;
use crate::recording::{asciicast, reader};
use crate::requests::recordings::{SessionRecording, SessionShells};
use crate::safety::own_names::OwnNames;
use crate::safety::redact::global_redactor;
use crate::safety::utf8;

/// Maximum size of a command line, in bytes.
const MAX_LINE: usize = 4 << 10;
/// Maximum size of a redacted form, in bytes.
const MAX_CAST: u64 = 256 << 20;
/// How long a redacted form is kept: a secret that becomes known later must not stay in it.
const KEPT: Duration = Duration::from_secs(60);

/// Returns the recordings of a session's shells, newest first.
///
/// # Errors
/// The directory of recordings cannot be read.
pub fn views(shells: &SessionShells, paths: &Paths) -> Result<Vec<RecordingView>> {
    let found = shells.recordings(paths)?;
    let view =
        |found: &SessionRecording| view(found.recording.id(), &found.summary, &found.commands);
    Ok(found.iter().map(view).collect())
}

fn view(id: String, summary: &RecordingSummary, commands: &[RecordedCommand]) -> RecordingView {
    let start = &summary.start;
    let redactor = global_redactor();
    RecordingView {
        id,
        started_ms: start.ms,
        duration_ms: summary.length_us / 1000,
        cols: start.cols,
        rows: start.rows,
        source: match start.source {
            RecordingSource::Relay => RecordingSourceWord::Relay,
            RecordingSource::Tmux => RecordingSourceWord::Tmux,
            RecordingSource::Unknown => RecordingSourceWord::Unknown,
        },
        is_recording: summary.is_written,
        commands: commands
            .iter()
            .map(|command| RecordedCommandView {
                text: command.text.as_ref().map(|line| {
                    let line = redactor.redact(line);
                    utf8::prefix(&line, MAX_LINE).to_owned()
                }),
                start_ms: command.start_us / 1000,
                duration_ms: command
                    .end_us
                    .map(|end| end.saturating_sub(command.start_us) / 1000),
                exit: command.exit,
            })
            .collect(),
    }
}

/// The redacted form of a recording, as asciicast.
#[derive(Debug, Clone)]
pub struct Cast {
    /// The file, which has no name.
    pub file: Arc<File>,
    /// Length in bytes.
    pub length: u64,
    /// Changes with the content.
    pub etag: String,
}

/// The cast that was asked for last: its parts are usually asked for one after the other.
#[derive(Debug, Clone, Default)]
pub struct LastCast(Arc<Mutex<Option<KeptCast>>>);

#[derive(Debug)]
struct KeptCast {
    recording: String,
    /// Length of the recorded output.
    output: u64,
    made: Instant,
    cast: Cast,
}

impl LastCast {
    /// Returns the cast of a recording. One is made at a time.
    ///
    /// # Errors
    /// There is no such recording, it cannot be read, or its redacted form cannot be written.
    pub async fn of(&self, paths: &Paths, id: &str) -> Result<Cast> {
        let mut kept = self.0.clone().lock_owned().await;
        let (paths, id) = (paths.clone(), id.to_owned());
        // The lock moves into the task: it is held until the work is done, even if nobody waits for it.
        let work = tokio::task::spawn_blocking(move || {
            let recording = Recording::open(&reader::find(&paths.recordings(), &id)?)?;
            let output = recording.output_length();
            let is_same = |kept: &&KeptCast| {
                kept.recording == id && kept.output == output && kept.made.elapsed() < KEPT
            };
            if let Some(kept) = kept.as_ref().filter(is_same) {
                return Ok((kept.cast.clone(), false));
            }
            *kept = None;
            let cast = make(&recording, &paths.state)?;
            *kept = Some(KeptCast {
                recording: id,
                output,
                made: Instant::now(),
                cast: cast.clone(),
            });
            Ok((cast, true))
        });
        let done = work.await.unwrap_or_else(|e| {
            Err(Error::runtime(format!(
                "the recording cannot be redacted: {e}"
            )))
        });
        let (cast, is_new) = done?;
        if is_new {
            let last = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(KEPT).await;
                last.0
                    .lock()
                    .await
                    .take_if(|kept| kept.made.elapsed() >= KEPT);
            });
        }
        Ok(cast)
    }
}

fn make(recording: &Recording, dir: &Path) -> Result<Cast> {
    let secrets = RecordingSecrets::find(recording, global_redactor(), &OwnNames::default())?;
    let file = unnamed_file(dir)?;
    let mut out = HashingWriter {
        out: BufWriter::new(file),
        hash: Sha256::new(),
        length: 0,
    };
    let exported = asciicast::export(
        recording,
        &RecordingPart::whole(recording),
        &secrets,
        &mut out,
    );
    if out.length > MAX_CAST {
        return Err(Error::usage("the recording is too large to be sent")
            .hint("write it to a file: aish-helper recording export --format cast"));
    }
    exported?;
    let cannot = || "cannot write the redacted recording".to_owned();
    let file = out.out.into_inner().map_err(|e| e.into_error());
    let digest = out.hash.finalize();
    let digits = digest.iter().take(16).map(|b| format!("{b:02x}"));
    Ok(Cast {
        file: Arc::new(file.context(cannot)?),
        length: out.length,
        etag: format!("\"{}\"", digits.collect::<String>()),
    })
}

/// Returns a file without a name: nothing of it is left when it is closed.
fn unnamed_file(dir: &Path) -> Result<File> {
    paths::make_dir(dir)?;
    let path = dir.join(format!("cast-{}", uuid::Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options
        .open(&path)
        .context(|| format!("cannot write {}", path.display()))?;
    std::fs::remove_file(&path).context(|| format!("cannot remove {}", path.display()))?;
    Ok(file)
}

struct HashingWriter<W> {
    out: W,
    hash: Sha256,
    length: u64,
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.length += written as u64;
        if self.length > MAX_CAST {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
