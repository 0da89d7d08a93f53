//! The recordings of a share: what a terminal showed from the first to the last command of the session, without secrets and
//! without the names of the user.

use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::recording::part::RecordingPart;
use crate::recording::reader::Recording;
use crate::recording::secrets::RecordingSecrets;
use crate::recording::{asciicast, transcript};
use crate::safety::own_names::OwnNames;
use crate::safety::redact::Redactor;

/// Maximum number of recordings of a share.
pub const MAX_RECORDINGS: usize = 20;
/// Maximum size of the output of a recording, in bytes: all of it is searched for secrets, twice.
const MAX_OUTPUT: u64 = 32 << 20;
/// Maximum size of all casts of a share, in bytes.
const MAX_CASTS: usize = 32 << 20;
/// Maximum size of the text of a recording on the page, in bytes.
const MAX_TEXT: usize = 256 << 10;

/// A recording as it is shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SharedRecording {
    /// How long the part takes that is shared.
    pub duration_ms: u64,
    /// Its lines, as `recording export --format text` has them.
    pub text: String,
    /// The text is longer than what the page shows.
    pub is_cut: bool,
    /// SHA-256 of the cast, which is a part of what a person is shown.
    pub cast_sha256: String,
    /// The asciicast.
    #[serde(skip)]
    pub cast: Vec<u8>,
}

/// The recordings of a share, and the changes made to them.
#[derive(Debug, Default)]
pub struct SharedRecordings {
    /// Those that are shared, oldest first.
    pub shared: Vec<SharedRecording>,
    /// Number of those that are left out because there is too much of them.
    pub left_out: usize,
    /// Number of different secrets that were replaced, of each recording.
    pub secrets: usize,
    bytes: usize,
}

impl SharedRecordings {
    /// Adds a part of a recording, unless it is too large.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn add(
        &mut self,
        recording: &Recording,
        part: &RecordingPart,
        redactor: &Redactor,
        names: &OwnNames,
    ) -> Result<()> {
        if self.shared.len() >= MAX_RECORDINGS || recording.output_length() > MAX_OUTPUT {
            self.left_out += 1;
            return Ok(());
        }
        let secrets = RecordingSecrets::find(recording, redactor, names)?;
        let mut cast = LimitedWriter::new(MAX_CASTS.saturating_sub(self.bytes));
        let exported = asciicast::export(recording, part, &secrets, &mut cast);
        if cast.is_full {
            self.left_out += 1;
            return Ok(());
        }
        exported?;
        let mut text = LimitedWriter::new(MAX_TEXT);
        let exported = transcript::export(recording, part, &secrets, &mut text);
        if !text.is_full {
            exported?;
        }
        let shown = String::from_utf8_lossy(&text.bytes);
        let shown = match text.is_full {
            true => shown.rsplit_once('\n').map_or("", |(lines, _)| lines),
            false => shown.trim_end(),
        };
        let digest = Sha256::digest(&cast.bytes);
        let (shown, _) = names.replace(&redactor.redact(shown));
        self.secrets += secrets.count(part.from.offset, part.to.map_or(u64::MAX, |to| to.offset));
        self.bytes += cast.bytes.len();
        self.shared.push(SharedRecording {
            duration_ms: part.length_us(recording)? / 1000,
            text: shown,
            is_cut: text.is_full,
            cast_sha256: digest.iter().map(|b| format!("{b:02x}")).collect(),
            cast: cast.bytes,
        });
        Ok(())
    }
}

/// Keeps up to a number of bytes, and fails then.
struct LimitedWriter {
    bytes: Vec<u8>,
    limit: usize,
    is_full: bool,
}

impl LimitedWriter {
    fn new(limit: usize) -> LimitedWriter {
        LimitedWriter {
            bytes: Vec::new(),
            limit,
            is_full: false,
        }
    }
}

impl Write for LimitedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.limit - self.bytes.len();
        let taken = bytes.get(..left).unwrap_or(bytes);
        self.bytes.extend_from_slice(taken);
        if taken.len() < bytes.len() {
            self.is_full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
