//! `aish-helper redact`: shows what would be taken out of a text before it is kept or sent.

use std::collections::VecDeque;
use std::io::{ErrorKind, IsTerminal, Read, Write};

use serde::Serialize;

use super::args::Redact;
use super::{json_line, write};
use crate::config::{self, Overrides, key};
use crate::error::{Context, Error, Result};
use crate::paths::Paths;
use crate::safety::redact::{Redactor, Stream};
use crate::safety::text;
use crate::safety::utf8::Utf8Stream;

/// So many places are named; of a dump of keys the count says enough.
const NAMED: usize = 1000;

/// A secret, for a program.
#[derive(Debug, Serialize)]
struct Finding<'a> {
    line: usize,
    /// In bytes, from 1.
    column: usize,
    kind: &'a str,
    bytes: usize,
}

/// Copies stdin to stdout without secrets, and tells on stderr where they were; with `json` prints the places alone.
///
/// # Errors
/// stdin cannot be read, or stdout not written; the config is wrong, so that its values are unknown.
pub fn run(paths: &Paths, args: &Redact) -> Result<()> {
    if args.file.is_some() {
        let error = Error::usage("the text is read from stdin, and from no file");
        return Err(error.hint("run: aish-helper redact < FILE"));
    }
    let json = args.json;
    let redactor = Redactor::default();
    for (kind, value) in key::secrets(&config::load(paths, &Overrides::default())?) {
        redactor.know(kind, &value);
    }
    let mut stdin = std::io::stdin().lock();
    let mut screen = std::io::stdout().is_terminal().then(Screen::default);
    let mut stream = redactor.stream();
    let mut places = Places::default();
    let mut buffer = vec![0; 64 << 10];
    let (mut out, mut told, mut count) = (Vec::new(), String::new(), 0);
    loop {
        let n = match stdin.read(&mut buffer) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            read => read.context(|| "cannot read stdin".into())?,
        };
        match n {
            0 => stream.finish(&mut out),
            _ => stream.push(&buffer[..n], &mut out),
        }
        places.add(&buffer[..n]);
        for (finding, kind) in found(&mut stream, &mut places) {
            let finding = Finding {
                kind: &kind,
                ..finding
            };
            count += 1;
            if json {
                write(&json_line(&finding)?)?;
            } else if count <= NAMED {
                let Finding {
                    line, column, kind, ..
                } = finding;
                told.push_str(&format!("{line}:{column} {kind}\n"));
            }
        }
        if !json {
            match &mut screen {
                Some(screen) => write(&screen.show(&out, n == 0))?,
                None => write_bytes(&out)?,
            }
        }
        out.clear();
        if n == 0 {
            break;
        }
    }
    if !json {
        if count > NAMED {
            told.push_str(&format!("and {} more\n", count - NAMED));
        }
        // There is nowhere else to say that stderr is closed.
        let _ = std::io::stderr().write_all(told.as_bytes());
    }
    Ok(())
}

fn found(stream: &mut Stream, places: &mut Places) -> Vec<(Finding<'static>, std::sync::Arc<str>)> {
    let found = stream.take_found().into_iter().map(|found| {
        let (line, column) = places.of(found.range.start);
        let bytes = found.range.len();
        (
            Finding {
                line,
                column,
                kind: "",
                bytes,
            },
            found.kind,
        )
    });
    let found = found.collect();
    places.of(stream.passed());
    found
}

fn write_bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context(|| "cannot write to stdout".into()),
    }
}

/// Text for a terminal, which it may do no harm to, in whole lines.
#[derive(Debug, Default)]
struct Screen {
    decoder: Utf8Stream,
    line: String,
}

impl Screen {
    fn show(&mut self, bytes: &[u8], last: bool) -> String {
        self.decoder.push(bytes, &mut self.line);
        if last {
            self.decoder.finish(&mut self.line);
        }
        let end = match last {
            true => self.line.len(),
            false => self.line.rfind('\n').map_or(0, |at| at + 1),
        };
        let rest = self.line.split_off(end);
        text::prose(&std::mem::replace(&mut self.line, rest))
    }
}

/// Which line a place is in, of a text that is not kept.
#[derive(Debug, Default)]
struct Places {
    /// How much has come.
    came: usize,
    /// Line ends that may still be asked for.
    ends: VecDeque<usize>,
    /// How many lines have ended before, and where the present one begins.
    line: usize,
    start: usize,
}

impl Places {
    fn add(&mut self, bytes: &[u8]) {
        let ends = memchr::memchr_iter(b'\n', bytes).map(|at| self.came + at);
        self.ends.extend(ends);
        self.came += bytes.len();
    }

    /// Line and column, from 1. Places are asked for in order.
    fn of(&mut self, at: usize) -> (usize, usize) {
        while let Some(end) = self.ends.front().copied().filter(|end| *end < at) {
            self.ends.pop_front();
            self.line += 1;
            self.start = end + 1;
        }
        (self.line + 1, at - self.start + 1)
    }
}
