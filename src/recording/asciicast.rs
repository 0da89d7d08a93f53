//! Export as asciicast version 3, which asciinema plays.
//!
//! See <https://docs.asciinema.org/manual/asciicast/v3/>. The output is re-encoded from what the emulator understands, so
//! that a player gets nothing else, and secrets are replaced character by character, so that everything stays in its place.

use std::io::Write;

use avt::parser::Function;
use serde_json::json;
use unicode_width::UnicodeWidthChar;

use super::event::RecordingEvent;
use super::functions::{FunctionParser, write_function};
use super::part::RecordingPart;
use super::reader::Recording;
use super::secrets::RecordingSecrets;
use crate::error::{ErrorContext, Result};

/// Bytes of output per read.
const STEP: usize = 64 << 10;

/// Redacted output, re-encoded.
pub(super) struct ExportedOutput<'s> {
    secrets: &'s RecordingSecrets,
    parser: FunctionParser,
}

impl<'s> ExportedOutput<'s> {
    pub(super) fn new(secrets: &'s RecordingSecrets) -> ExportedOutput<'s> {
        ExportedOutput {
            secrets,
            parser: FunctionParser::new(),
        }
    }

    /// Appends the exported form of `bytes`, which are at `at` in the output.
    pub(super) fn push(&mut self, bytes: &[u8], at: u64, out: &mut String) {
        self.parser.push(bytes, at, &mut |place, function| {
            let secret = match function {
                Function::Print(c) => self.secrets.replacement(place).map(|mark| (c, mark)),
                _ => None,
            };
            match secret {
                // A character of two columns needs two.
                Some((c, _)) if c.width() == Some(2) => out.push_str("**"),
                Some((_, mark)) => out.push(mark),
                None => write_function(&function, out),
            }
        });
    }
}

/// Writes a part of a recording as asciicast.
///
/// # Errors
/// The recording cannot be read, or `out` not be written.
pub fn export(
    recording: &Recording,
    part: &RecordingPart,
    secrets: &RecordingSecrets,
    out: &mut dyn Write,
) -> Result<()> {
    let us = part.from.us;
    let mut cast = CastWriter { out, us };
    let start = &recording.start;
    let mut header = json!({
        "version": 3,
        "term": { "cols": part.cols, "rows": part.rows, "type": start.term },
        "timestamp": start.ms.saturating_add(us / 1000) / 1000,
    });
    if let Some(command) = start.command.as_ref().filter(|_| part.is_whole()) {
        header["command"] = secrets.redact(&command.join(" ")).into();
    }
    cast.line(&header.to_string())?;
    let mut output = ExportedOutput::new(secrets);
    let mut buffer = vec![0; STEP];
    let mut events = part.events(recording)?;
    while let Some(line) = events.next_event()? {
        match line.event {
            RecordingEvent::Output { bytes } => {
                let mut written = Ok(());
                let end = line.offset + bytes;
                recording.each_output(line.offset, end, &mut buffer, |at, piece| {
                    let mut text = String::new();
                    output.push(piece, at, &mut text);
                    if !text.is_empty() {
                        written = cast.event(line.us, "o", &text);
                    }
                    written.is_ok()
                })?;
                written?;
            }
            RecordingEvent::Resize { cols, rows } => {
                cast.event(line.us, "r", &format!("{cols}x{rows}"))?;
            }
            RecordingEvent::CommandStart { text, .. } => {
                let text = text.unwrap_or_default();
                cast.event(line.us, "m", &secrets.redact(&text))?;
            }
            RecordingEvent::End { exit: Some(exit) } => {
                cast.event(line.us, "x", &exit.to_string())?;
            }
            _ => {}
        }
    }
    Ok(())
}

struct CastWriter<'w> {
    out: &'w mut dyn Write,
    /// Time of the last event.
    us: u64,
}

impl CastWriter<'_> {
    fn event(&mut self, us: u64, code: &str, data: &str) -> Result<()> {
        let interval = us.saturating_sub(self.us);
        self.us = us;
        let (seconds, rest) = (interval / 1_000_000, interval % 1_000_000);
        let data = json!(data);
        self.line(&format!("[{seconds}.{rest:06}, \"{code}\", {data}]"))
    }

    fn line(&mut self, line: &str) -> Result<()> {
        let written = self.out.write_all(line.as_bytes());
        written
            .and_then(|()| self.out.write_all(b"\n"))
            .context(|| "cannot write the export".into())
    }
}
