//! Export as text: the lines that a person saw.

use std::io::Write;

use super::asciicast::ExportedOutput;
use super::event::RecordingEvent;
use super::part::RecordingPart;
use super::reader::Recording;
use super::screen::{ClearedLines, LineCollector, SLICE, ScreenEmulator};
use super::secrets::RecordingSecrets;
use crate::error::{ErrorContext, Result};
use crate::safety::redact::RedactStream;

/// Writes the rendered lines of a part of a recording. The alternate screen is left out.
///
/// # Errors
/// The recording cannot be read, or `out` not be written.
pub fn export(
    recording: &Recording,
    part: &RecordingPart,
    secrets: &RecordingSecrets,
    out: &mut dyn Write,
) -> Result<()> {
    let Some(mut screen) = ScreenEmulator::new(part.cols, part.rows) else {
        return Ok(());
    };
    let mut collector = LineCollector::new(ClearedLines::Keep);
    let mut lines = LineWriter {
        out,
        redaction: secrets.redactor().stream(),
        text: Vec::new(),
    };
    let mut output = ExportedOutput::new(secrets);
    let mut buffer = vec![0; SLICE];
    let mut events = part.events(recording)?;
    while let Some(line) = events.next_event()? {
        match line.event {
            RecordingEvent::Output { bytes } => {
                let mut written = Ok(());
                let end = line.offset + bytes;
                recording.each_output(line.offset, end, &mut buffer, |at, piece| {
                    let mut text = String::new();
                    output.push(piece, at, &mut text);
                    screen.feed_observed(text.as_bytes(), &mut collector);
                    written = lines.write(&collector.take_lines());
                    written.is_ok()
                })?;
                written?;
            }
            RecordingEvent::Resize { cols, rows } => {
                screen.resize_observed(cols, rows, &mut collector);
            }
            _ => {}
        }
    }
    lines.write(&collector.finish(&screen))?;
    lines.finish()
}

/// Writes lines through a redactor: the secrets are replaced already, this is the second net.
struct LineWriter<'w> {
    out: &'w mut dyn Write,
    redaction: RedactStream,
    text: Vec<u8>,
}

impl LineWriter<'_> {
    fn write(&mut self, lines: &[String]) -> Result<()> {
        for line in lines {
            self.redaction.push(line.as_bytes(), &mut self.text);
            self.redaction.push(b"\n", &mut self.text);
        }
        self.flush()
    }

    fn finish(mut self) -> Result<()> {
        self.redaction.finish(&mut self.text);
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let written = self.out.write_all(&self.text);
        self.text.clear();
        written.context(|| "cannot write the export".into())
    }
}
