//! The event channel of the hooks: a FIFO, since opening one for writing
//! neither blocks nor forks, is not inherited, and fails immediately when nobody
//! reads. This module decodes it without IO.
//!
//! A write of up to PIPE_BUF bytes is atomic, so the chunks of two shells never
//! mix. An event of several chunks is joined by shell and sequence number; it is
//! discarded if one of its chunks was dropped because the pipe was full.

use std::collections::HashMap;

use crate::context::align::{OpenLine, UnrecordedLine};
use crate::protocol::ShellId;
use crate::session::shell_registry::ShellEvent;

/// Maximum size of a chunk: that of an atomic write on every supported system.
const MAX_CHUNK: usize = 4096;
/// Maximum size of an event with all its parts.
const MAX_EVENT: usize = 64 << 10;
/// Maximum number of shells with an incomplete event.
const MAX_PARTIAL: usize = 256;

/// Joins chunks to events.
#[derive(Debug, Default)]
pub struct ShellEventDecoder {
    buffer: Vec<u8>,
    partial: HashMap<ShellId, PartialEvent>,
}

#[derive(Debug)]
struct PartialEvent {
    seq: u64,
    next: u32,
    data: Vec<u8>,
}

impl ShellEventDecoder {
    /// Decodes bytes and calls `emit` for each complete event.
    pub fn push(&mut self, bytes: &[u8], emit: &mut impl FnMut(&ShellId, ShellEvent)) {
        self.buffer.extend_from_slice(bytes);
        let buffer = std::mem::take(&mut self.buffer);
        let mut rest = &buffer[..];
        while !rest.is_empty() {
            match chunk(rest) {
                Ok(Some((chunk, length))) => {
                    self.join(chunk, emit);
                    rest = &rest[length..];
                }
                Ok(None) if rest.len() < 2 * MAX_CHUNK => break,
                // Not written by a hook: continue at the next header.
                _ => rest = &rest[next_header(rest)..],
            }
        }
        self.buffer = rest.to_vec();
    }

    fn join(&mut self, chunk: EventChunk<'_>, emit: &mut impl FnMut(&ShellId, ShellEvent)) {
        let whole = if chunk.part == 1 && chunk.parts == 1 {
            self.partial.remove(&chunk.shell);
            chunk.data.to_vec()
        } else {
            if chunk.part == 1 {
                if self.partial.len() >= MAX_PARTIAL {
                    self.partial.clear();
                }
                let fresh = PartialEvent {
                    seq: chunk.seq,
                    next: 1,
                    data: Vec::new(),
                };
                self.partial.insert(chunk.shell.clone(), fresh);
            }
            let Some(partial) = self.partial.get_mut(&chunk.shell) else {
                return;
            };
            let fits = partial.seq == chunk.seq
                && partial.next == chunk.part
                && partial.data.len() + chunk.data.len() <= MAX_EVENT;
            if !fits {
                self.partial.remove(&chunk.shell);
                return;
            }
            partial.next += 1;
            partial.data.extend_from_slice(chunk.data);
            if chunk.part < chunk.parts {
                return;
            }
            self.partial
                .remove(&chunk.shell)
                .map(|p| p.data)
                .unwrap_or_default()
        };
        if let Some(event) = event(&whole) {
            emit(&chunk.shell, event);
        }
    }
}

struct EventChunk<'a> {
    shell: ShellId,
    seq: u64,
    part: u32,
    parts: u32,
    data: &'a [u8],
}

const MAGIC: &[u8] = b"aish1 ";

/// Returns the chunk at the start of `bytes` and its length; `None` while it is incomplete.
fn chunk(bytes: &[u8]) -> Result<Option<(EventChunk<'_>, usize)>, ()> {
    let head = bytes.len().min(MAGIC.len());
    if bytes[..head] != MAGIC[..head] {
        return Err(());
    }
    let Some(end) = bytes.iter().take(MAX_CHUNK).position(|b| *b == b'\n') else {
        return if bytes.len() < MAX_CHUNK {
            Ok(None)
        } else {
            Err(())
        };
    };
    let header = std::str::from_utf8(&bytes[..end]).map_err(|_| ())?;
    let mut fields = header.split(' ').skip(1);
    let number = |shell: Option<&str>| shell.and_then(|f| f.parse::<u64>().ok()).ok_or(());
    let shell = fields
        .next()
        .and_then(|s| ShellId::parse(s).ok())
        .ok_or(())?;
    let seq = number(fields.next())?;
    let part = u32::try_from(number(fields.next())?).map_err(|_| ())?;
    let parts = u32::try_from(number(fields.next())?).map_err(|_| ())?;
    let length = usize::try_from(number(fields.next())?).map_err(|_| ())?;
    if part == 0 || part > parts || length > MAX_CHUNK {
        return Err(());
    }
    let start = end + 1;
    match bytes.get(start..start + length) {
        Some(data) => Ok(Some((
            EventChunk {
                shell,
                seq,
                part,
                parts,
                data,
            },
            start + length,
        ))),
        None => Ok(None),
    }
}

/// Returns the offset, at least 1, of the next possible header, to continue after invalid bytes.
fn next_header(bytes: &[u8]) -> usize {
    (1..bytes.len())
        .find(|at| bytes[*at..].starts_with(&MAGIC[..MAGIC.len().min(bytes.len() - at)]))
        .unwrap_or(bytes.len())
}

fn event(data: &[u8]) -> Option<ShellEvent> {
    let text = String::from_utf8_lossy(data);
    let mut fields = text.split('\0');
    let kind = fields.next()?;
    if kind == "unrecorded" {
        // An older plugin does not describe the line.
        let line = UnrecordedLine::parse(fields.next()?);
        return Some(ShellEvent::UnrecordedLine(line));
    }
    let pid = fields.next()?.parse().ok()?;
    match kind {
        "bye" => Some(ShellEvent::Bye),
        "tui" => Some(ShellEvent::ActionEnded {
            number: fields.next()?.parse().ok()?,
            outcome: fields.next()?.to_string(),
        }),
        "secrets" => Some(ShellEvent::SecretVariables(
            fields
                .filter_map(|field| field.split_once('='))
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        )),
        "hello" => Some(ShellEvent::Hello {
            pid,
            tty: fields.next()?.to_string(),
            zsh: fields.next()?.to_string(),
            // The directory, which is not kept, and the variables that identify the terminal; an older plugin sends none.
            terminal: fields
                .nth(1)
                .unwrap_or_default()
                .split('\x1f')
                .filter_map(|variable| variable.split_once('='))
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        }),
        "cmd" => {
            let tty = fields.next()?.to_string();
            let start: f64 = fields.next()?.parse().ok()?;
            let end: f64 = fields.next()?.parse().ok()?;
            let size = data.rsplit(|byte| *byte == 0).next().unwrap_or_default();
            let size = String::from_utf8_lossy(size);
            Some(ShellEvent::Command {
                pid,
                tty,
                // A float to integer cast saturates.
                start_ms: (start * 1000.0) as u64,
                duration_ms: ((end - start) * 1000.0) as u64,
                exit: fields.next()?.parse().ok()?,
                cwd: fields.next()?.to_string(),
                env: fields
                    .next()?
                    .split('\x1f')
                    .filter(|v| !v.is_empty())
                    .map(str::to_string)
                    .collect(),
                command: fields.next()?.to_string(),
                // An older plugin does not send it.
                size: size.split(' ').next().and_then(|size| {
                    let (columns, rows) = size.split_once('x')?;
                    Some((columns.parse().ok()?, rows.parse().ok()?))
                }),
                open_line: match size.split(' ').nth(1) {
                    Some("continues") => OpenLine::Continued,
                    Some("overdraws") => OpenLine::Overdrawn,
                    Some("marks") => OpenLine::Marked(size.splitn(3, ' ').nth(2).map(shown_mark)),
                    _ => OpenLine::default(),
                },
            })
        }
        _ => None,
    }
}

/// Returns what a terminal shows of a mark with its colours.
fn shown_mark(mark: &str) -> String {
    let mark = strip_ansi_escapes::strip_str(mark);
    mark.chars().filter(|c| !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::align::LineFingerprint;

    fn send(shell: &str, seq: u64, data: &[u8], size: usize) -> Vec<Vec<u8>> {
        let parts = data.chunks(size).count();
        data.chunks(size)
            .enumerate()
            .map(|(at, part)| {
                let mut chunk =
                    format!("aish1 {shell} {seq} {} {parts} {}\n", at + 1, part.len()).into_bytes();
                chunk.extend_from_slice(part);
                chunk
            })
            .collect()
    }

    fn decode(bytes: &[&[u8]]) -> Vec<(String, ShellEvent)> {
        let mut decoder = ShellEventDecoder::default();
        let mut events = Vec::new();
        for part in bytes {
            decoder.push(part, &mut |shell, event| {
                events.push((shell.to_string(), event))
            });
        }
        events
    }

    const COMMAND: &[u8] = b"cmd\x007\0/dev/pts/1\x001700000000.25\x001700000003.5\x002\0/src\0A=1\x1fB=2\0make \xc3\xa9\ntest\x0080x24 continues";

    #[test]
    fn of_an_unrecorded_line_only_its_fingerprint_is_told() {
        let fingerprint = LineFingerprint {
            count: 3,
            hash: 4_000_000_000,
        };
        for (told, line) in [
            ("0 0", UnrecordedLine::Blank),
            ("3 4000000000", UnrecordedLine::Text(fingerprint)),
            ("?", UnrecordedLine::Unknown),
            // From an older plugin, and out of bounds.
            ("4711", UnrecordedLine::Unknown),
            ("65 1", UnrecordedLine::Unknown),
            ("3 4294967296", UnrecordedLine::Unknown),
        ] {
            let stream = send("s-1", 1, format!("unrecorded\0{told}").as_bytes(), 100).concat();
            let wanted = ShellEvent::UnrecordedLine(line);
            assert_eq!(decode(&[&stream]), [("s-1".to_string(), wanted)], "{told}");
        }
    }

    #[test]
    fn secret_variables_are_split_at_the_first_sign() {
        let stream = send(
            "s-1",
            1,
            b"secrets\x007\0A_KEY=a=b\0B_TOKEN=\xc3\xa9\0none",
            9,
        )
        .concat();
        let variables = [("A_KEY", "a=b"), ("B_TOKEN", "é")]
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let want = ShellEvent::SecretVariables(variables.to_vec());
        assert_eq!(decode(&[&stream]), [("s-1".to_string(), want)]);
    }

    #[test]
    fn a_command_survives_any_split_of_the_pipe() {
        let stream = send("s-1", 4, COMMAND, 20).concat();
        let want = ShellEvent::Command {
            pid: 7,
            tty: "/dev/pts/1".into(),
            start_ms: 1_700_000_000_250,
            duration_ms: 3250,
            exit: 2,
            cwd: "/src".into(),
            env: vec!["A=1".into(), "B=2".into()],
            command: "make é\ntest".into(),
            size: Some((80, 24)),
            open_line: OpenLine::Continued,
        };
        for cut in 0..=stream.len() {
            assert_eq!(
                decode(&[&stream[..cut], &stream[cut..]]),
                [("s-1".to_string(), want.clone())],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn the_own_mark_of_an_open_line_is_told_without_its_colours() {
        for (told, mark) in [
            ("", None),
            (" marks \x1b[38;5;242m⏎\x1b[39m", Some("⏎")),
            (" marks < >", Some("< >")),
            (" marks ", Some("")),
        ] {
            let event = [
                COMMAND.strip_suffix(b" continues").unwrap(),
                told.as_bytes(),
            ]
            .concat();
            let decoded = decode(&[&send("s-1", 1, &event, 100).concat()]);
            let [(_, ShellEvent::Command { open_line, .. })] = &decoded[..] else {
                panic!("{decoded:?}");
            };
            assert_eq!(*open_line, OpenLine::Marked(mark.map(str::to_owned)));
        }
    }

    #[test]
    fn shells_may_interleave_their_chunks() {
        let a = send("a", 1, COMMAND, 30);
        let b = send("b", 1, COMMAND, 50);
        let stream = [&a[0][..], &b[0], &a[1], &b[1], &a[2]].concat();
        let shells: Vec<_> = decode(&[&stream]).into_iter().map(|(s, _)| s).collect();
        assert_eq!(shells, ["b", "a"]);
    }

    #[test]
    fn a_lost_chunk_loses_its_event_alone() {
        let torn = send("a", 1, COMMAND, 30);
        let stream = [
            &torn[0][..],
            &torn[2],
            &send("a", 2, b"bye\x007", 100).concat(),
        ]
        .concat();
        assert_eq!(decode(&[&stream]), [("a".to_string(), ShellEvent::Bye)]);
    }

    #[test]
    fn invalid_input_is_skipped() {
        let good = send("a", 2, b"bye\x007", 100).concat();
        for invalid in [
            &b"hello\n"[..],
            b"aish1 ../../x 1 1 1 3\nbye",
            b"aish1 a 1 1 1 99999999\n",
            b"aish1 a 1 1 1 0\n",
            &[0xff; 9000],
        ] {
            let mut stream = invalid.to_vec();
            stream.extend_from_slice(&good);
            assert_eq!(
                decode(&[&stream]),
                [("a".to_string(), ShellEvent::Bye)],
                "{:?}",
                &invalid[..5]
            );
        }
    }
}
