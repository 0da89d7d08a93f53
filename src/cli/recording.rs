//! `aish-helper recording`: lists, shows, exports and deletes recordings, without the daemon.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, ErrorKind, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use chrono::{Local, TimeZone, Utc};
use serde_json::{Value, json};

use super::args::{RecordingCommand, RecordingFormat};
use super::redact;
use super::session_picker;
use super::table::{count, table};
use super::{columns, print, print_json};
use crate::client::text_format::{cut, grouped};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::recording::commands::{RecordedCommand, commands};
use crate::recording::event::RecordingSource;
use crate::recording::list::{directories, is_being_written};
use crate::recording::part::RecordingPart;
use crate::recording::reader::{self, Recording, RecordingSummary};
use crate::recording::secrets::RecordingSecrets;
use crate::recording::{asciicast, transcript};
use crate::safety::own_names::OwnNames;
use crate::safety::text::{self, one_line};

mod list;

/// Maximum number of characters shown of a command line.
const MAX_TEXT: usize = 500;

/// Runs a `recording` subcommand.
///
/// # Errors
/// No recording has the id, or it cannot be read or written.
pub fn run(paths: &Paths, command: RecordingCommand) -> Result<()> {
    match command {
        RecordingCommand::List { names: true, .. } => list::names(paths),
        RecordingCommand::List { json, .. } => list::list(paths, json),
        RecordingCommand::Show { id, json } => show(paths, &open(paths, &id)?, json),
        RecordingCommand::Export {
            id,
            format,
            output,
            force,
        } => {
            let output = output.as_deref().map(|path| ExportFile { path, force });
            export(paths, &open(paths, &id)?, format, output)
        }
        RecordingCommand::Delete { ids, yes } => delete(paths, &ids, yes),
    }
}

/// Opens the recording whose id contains `id`.
///
/// # Errors
/// There is none, there are several, or it cannot be read.
pub(super) fn open(paths: &Paths, id: &str) -> Result<Recording> {
    Recording::open(&reader::find(&paths.recordings(), id)?)
}

/// Returns the directories of the recordings, oldest first.
fn all(paths: &Paths) -> Result<Vec<PathBuf>> {
    let recordings = paths.recordings();
    directories(&recordings).context(|| format!("cannot list {}", recordings.display()))
}

fn source_name(source: RecordingSource) -> &'static str {
    match source {
        RecordingSource::Relay => "relay",
        RecordingSource::Tmux => "tmux",
        RecordingSource::Unknown => "unknown",
    }
}

fn state(summary: &RecordingSummary) -> String {
    let full = if summary.is_full { ", full" } else { "" };
    let state = match (summary.has_ended, summary.exit) {
        (true, Some(exit)) => format!("exit {exit}"),
        (true, None) => "complete".into(),
        (false, _) if summary.is_written => "recording".into(),
        (false, _) => "cut off".into(),
    };
    state + full
}

fn summary_json(id: &str, summary: &RecordingSummary) -> Value {
    let start = &summary.start;
    json!({
        "id": id,
        "started": rfc3339(start.ms),
        "length_ms": summary.length_us / 1000,
        "bytes": summary.bytes,
        "cols": start.cols,
        "rows": start.rows,
        "term": start.term,
        "source": source_name(start.source),
        "shell": start.shell,
        "tty": start.tty,
        "recording": summary.is_written,
        "ended": summary.has_ended,
        "full": summary.is_full,
        "exit": summary.exit,
    })
}

fn show(paths: &Paths, recording: &Recording, json: bool) -> Result<()> {
    // As an export: a value that the output shows to be secret may be a bare word of a command.
    let redactor = RecordingSecrets::find(
        recording,
        &redact::known_redactor(paths)?,
        &OwnNames::default(),
    )?;
    let summary = recording.summary()?;
    let commands = commands(recording)?;
    let id = recording.id();
    let start = &summary.start;
    let program = start.command.as_ref().map(|words| words.join(" "));
    let program = program.map(|line| redactor.redact(&line));
    if json {
        let mut value = summary_json(&id, &summary);
        value["command"] = json!(program);
        value["commands"] = commands
            .iter()
            .map(|command| command_json(command, start.ms, &redactor))
            .collect();
        return print_json(&value);
    }
    let mut out = format!(
        "recording {}\nstarted {}, {} long, {} bytes, {}\n{}×{} {}, {}, terminal {}, shell {}\n",
        one_line(&id, MAX_TEXT),
        local_time(start.ms),
        clock(summary.length_us),
        grouped(summary.bytes),
        state(&summary),
        start.cols,
        start.rows,
        one_line(&start.term, MAX_TEXT),
        source_name(start.source),
        one_line(&start.tty, MAX_TEXT),
        start.shell.as_ref().map_or("-", |shell| shell.as_str()),
    );
    if let Some(line) = program {
        out.push_str(&format!("command {}\n", one_line(&line, MAX_TEXT)));
    }
    out.push_str(&format!("\n{}\n", count(commands.len(), "command")));
    let rows: Vec<[String; 5]> = commands
        .iter()
        .enumerate()
        .map(|(at, command)| command_row(at + 1, command, &redactor))
        .collect();
    out.push_str(&table(rows.iter(), columns(), cut).concat());
    print(&out)
}

fn command_row(
    number: usize,
    command: &RecordedCommand,
    redactor: &RecordingSecrets,
) -> [String; 5] {
    let took = command
        .end_us
        .map(|end| end.saturating_sub(command.start_us));
    let line = match &command.text {
        Some(line) => one_line(&redactor.redact(line), MAX_TEXT),
        None => "(not in the history)".into(),
    };
    [
        number.to_string(),
        clock(command.start_us),
        took.map_or("-".into(), |us| crate::client::text_format::time(us / 1000)),
        command
            .exit
            .map_or("-".into(), |exit| format!("exit {exit}")),
        line,
    ]
}

fn command_json(command: &RecordedCommand, start_ms: u64, redactor: &RecordingSecrets) -> Value {
    let took = command
        .end_us
        .map(|end| end.saturating_sub(command.start_us));
    json!({
        "id": command.id,
        "text": command.text.as_ref().map(|line| redactor.redact(line)),
        "started": rfc3339(start_ms.saturating_add(command.start_us / 1000)),
        "at_ms": command.start_us / 1000,
        "duration_ms": took.map(|us| us / 1000),
        "exit": command.exit,
    })
}

fn export(
    paths: &Paths,
    recording: &Recording,
    format: RecordingFormat,
    output: Option<ExportFile<'_>>,
) -> Result<()> {
    if let Some(file) = &output {
        file.check()?;
    }
    let is_terminal = output.is_none() && std::io::stdout().is_terminal();
    if is_terminal && format == RecordingFormat::Raw {
        return Err(Error::usage(
            "raw output is not written to a terminal, which would execute its control sequences",
        )
        .hint("give a file with --output, or use --format text"));
    }
    if format == RecordingFormat::Raw {
        let warning =
            "aish: a raw export is not redacted: it contains every secret that was shown\n";
        // A closed stderr cannot be reported anywhere.
        let _ = std::io::stderr().write_all(warning.as_bytes());
        return write_to(output, |out| raw(recording, out));
    }
    let secrets = RecordingSecrets::find(
        recording,
        &redact::known_redactor(paths)?,
        &OwnNames::default(),
    )?;
    if is_terminal {
        let mut shown = TerminalWriter::default();
        export_as(recording, &secrets, format, &mut shown)?;
        return shown.finish();
    }
    write_to(output, |out| export_as(recording, &secrets, format, out))
}

fn export_as(
    recording: &Recording,
    secrets: &RecordingSecrets,
    format: RecordingFormat,
    out: &mut dyn Write,
) -> Result<()> {
    let part = RecordingPart::whole(recording);
    match format {
        RecordingFormat::Cast => asciicast::export(recording, &part, secrets, out),
        RecordingFormat::Text => transcript::export(recording, &part, secrets, out),
        RecordingFormat::Raw => raw(recording, out),
    }
}

fn raw(recording: &Recording, out: &mut dyn Write) -> Result<()> {
    let mut written = Ok(());
    let mut buffer = vec![0; 64 << 10];
    recording.each_output(0, recording.output_length(), &mut buffer, |_, piece| {
        written = out.write_all(piece);
        written.is_ok()
    })?;
    written.context(|| "cannot write the export".into())
}

/// Lets `work` write to a file or to stdout. A reader that closes stdout early is not an error.
fn write_to(
    output: Option<ExportFile<'_>>,
    work: impl FnOnce(&mut dyn Write) -> Result<()>,
) -> Result<()> {
    let Some(file) = output else {
        let mut out = PipeWriter::default();
        let worked = work(&mut out);
        return match out.is_closed {
            true => Ok(()),
            false => worked,
        };
    };
    let mut out = BufWriter::new(file.create()?);
    work(&mut out)?;
    out.flush().context(|| file.cannot())
}

/// The file of `--output`.
#[derive(Clone, Copy)]
struct ExportFile<'a> {
    path: &'a Path,
    /// Overwrite an existing file.
    force: bool,
}

impl ExportFile<'_> {
    fn cannot(&self) -> String {
        format!("cannot write {}", self.path.display())
    }

    /// Checks that no file is overwritten, before a long recording is read.
    fn check(&self) -> Result<()> {
        match self.path.is_file() && !self.force {
            true => Err(self.exists()),
            false => Ok(()),
        }
    }

    fn exists(&self) -> Error {
        Error::usage(format!("{} exists already", self.path.display()))
            .hint("overwrite it with --force, or give another file with --output")
    }

    /// Creates the file.
    fn create(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        // A recording is private, and so is its export until the user decides otherwise.
        options.write(true).mode(0o600);
        // A pipe or a device, as in `--output >(gzip)`, is not overwritten.
        let is_special = fs::metadata(self.path).is_ok_and(|meta| !meta.is_file());
        match self.force || is_special {
            true => options.create(true).truncate(true),
            false => options.create_new(true),
        };
        match options.open(self.path) {
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Err(self.exists()),
            opened => opened.context(|| self.cannot()),
        }
    }
}

/// Stdout, which may be closed early.
#[derive(Default)]
struct PipeWriter {
    is_closed: bool,
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = std::io::stdout().write_all(bytes);
        self.is_closed |= written
            .as_ref()
            .is_err_and(|e| e.kind() == ErrorKind::BrokenPipe);
        written.map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stdout().flush()
    }
}

/// Stdout on a terminal: whole lines, through the text sink.
#[derive(Default)]
struct TerminalWriter {
    line: Vec<u8>,
}

impl TerminalWriter {
    fn finish(self) -> Result<()> {
        print(&String::from_utf8_lossy(&self.line))
    }
}

impl Write for TerminalWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.line.extend_from_slice(bytes);
        if let Some(end) = memchr::memrchr(b'\n', &self.line) {
            let rest = self.line.split_off(end + 1);
            let lines = std::mem::replace(&mut self.line, rest);
            let shown = text::prose(&String::from_utf8_lossy(&lines));
            std::io::stdout().write_all(shown.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn delete(paths: &Paths, ids: &[String], yes: bool) -> Result<()> {
    let mut dirs = Vec::new();
    for id in ids {
        let dir = reader::find(&paths.recordings(), id)?;
        if is_being_written(&dir) {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            return Err(Error::usage(format!("{name} is still recording"))
                .hint("end the shell or command that it records first"));
        }
        if !dirs.contains(&dir) {
            dirs.push(dir);
        }
    }
    let mut deleted = 0;
    for dir in &dirs {
        // One that cannot be read can be deleted as well.
        let summary = Recording::open(dir)
            .and_then(|recording| recording.summary())
            .ok();
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let mut what = one_line(&name, MAX_TEXT);
        if let Some(summary) = &summary {
            what.push_str(&format!(
                ": {}, {} long, {}",
                local_time(summary.start.ms),
                clock(summary.length_us),
                size_text(summary.bytes),
            ));
        }
        if !yes {
            let question = format!("recording {what}\nDelete it for good?");
            if !session_picker::confirms(&question)? {
                continue;
            }
        }
        fs::remove_dir_all(dir).context(|| format!("cannot delete {}", dir.display()))?;
        deleted += 1;
    }
    match deleted {
        0 => print("nothing was deleted\n"),
        n => print(&format!("deleted {}\n", count(n, "recording"))),
    }
}

fn local_time(ms: u64) -> String {
    let at = i64::try_from(ms).ok();
    let at = at.and_then(|ms| Local.timestamp_millis_opt(ms).single());
    at.map_or("-".into(), |at| at.format("%Y-%m-%d %H:%M").to_string())
}

fn rfc3339(ms: u64) -> Option<String> {
    let at = i64::try_from(ms).ok()?;
    let at = Utc.timestamp_millis_opt(at).single()?;
    Some(at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true))
}

/// Formats a time within a recording: `1:05`, `2:00:09`.
pub(super) fn clock(us: u64) -> String {
    let seconds = us / 1_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Formats a size: `640 B`, `12.4 kB`, `1.2 MB`.
fn size_text(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..999_950 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}
