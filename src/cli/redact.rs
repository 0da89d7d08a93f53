//! `aish-helper redact`: shows which secrets would be removed from a text before it is stored or sent.

use std::collections::VecDeque;
use std::io::{ErrorKind, IsTerminal, Read, Write};

use serde::Serialize;

use super::args::RedactArgs;
use super::{json_line, write};
use crate::api;
use crate::config::{self, ConfigOverrides, key, server_tokens};
use crate::error::{Error, ErrorContext, Result};
use crate::paths::Paths;
use crate::safety::redact::{RedactStream, Redactor};
use crate::safety::text;
use crate::safety::utf8::Utf8Stream;

/// Maximum number of secrets listed; the rest are only counted.
const MAX_LISTED: usize = 1000;

/// Position and kind of a secret, as printed in JSON.
#[derive(Debug, Serialize)]
struct SecretFinding<'a> {
    line: usize,
    /// Byte column, from 1.
    column: usize,
    kind: &'a str,
    bytes: usize,
}

/// Copies stdin to stdout without secrets and lists their positions on stderr; with `json`, prints only the
/// positions.
///
/// # Errors
/// stdin or stdout failed, or the configuration, which holds known secrets, is invalid.
pub fn run(paths: &Paths, args: &RedactArgs) -> Result<()> {
    if args.file.is_some() {
        let error = Error::usage("redact reads stdin and takes no file argument");
        return Err(error.hint("run: aish-helper redact < FILE"));
    }
    let json = args.json;
    let redactor = known_redactor(paths)?;
    let mut stdin = std::io::stdin().lock();
    let mut screen = std::io::stdout().is_terminal().then(TerminalText::default);
    let mut stream = redactor.stream();
    let mut positions = LinePositions::default();
    let mut buffer = vec![0; 64 << 10];
    let (mut out, mut listing, mut count) = (Vec::new(), String::new(), 0);
    loop {
        let n = match stdin.read(&mut buffer) {
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            read => read.context(|| "cannot read stdin".into())?,
        };
        match n {
            0 => stream.finish(&mut out),
            _ => stream.push(&buffer[..n], &mut out),
        }
        positions.add(&buffer[..n]);
        for (finding, kind) in take_findings(&mut stream, &mut positions) {
            let finding = SecretFinding {
                kind: &kind,
                ..finding
            };
            count += 1;
            if json {
                write(&json_line(&finding)?)?;
            } else if count <= MAX_LISTED {
                let SecretFinding {
                    line, column, kind, ..
                } = finding;
                listing.push_str(&format!("{line}:{column} {kind}\n"));
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
        if count > MAX_LISTED {
            listing.push_str(&format!("and {} more\n", count - MAX_LISTED));
        }
        // A closed stderr cannot be reported anywhere.
        let _ = std::io::stderr().write_all(listing.as_bytes());
    }
    Ok(())
}

/// Returns a redactor with the secrets that are known without the daemon: those of the configuration, and the tokens of this server
/// and of other ones.
///
/// # Errors
/// The configuration is invalid.
pub(super) fn known_redactor(paths: &Paths) -> Result<Redactor> {
    let redactor = Redactor::default();
    let config = config::load(paths, &ConfigOverrides::default())?;
    for (kind, value) in key::configured_secrets(&config) {
        redactor.add_secret(kind, &value);
    }
    let tokens = server_tokens::all(paths).into_iter();
    for token in tokens.chain(api::kept_tokens(paths)) {
        redactor.add_secret("server-token", token.expose());
    }
    Ok(redactor)
}

fn take_findings(
    stream: &mut RedactStream,
    positions: &mut LinePositions,
) -> Vec<(SecretFinding<'static>, std::sync::Arc<str>)> {
    let found = stream.take_found().into_iter().map(|found| {
        let (line, column) = positions.locate(found.range.start);
        let bytes = found.range.len();
        (
            SecretFinding {
                line,
                column,
                kind: "",
                bytes,
            },
            found.kind,
        )
    });
    let found = found.collect();
    positions.locate(stream.searched_to());
    found
}

fn write_bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = std::io::stdout();
    match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context(|| "cannot write to stdout".into()),
    }
}

/// Assembles output into whole lines that are safe to show on a terminal.
#[derive(Debug, Default)]
struct TerminalText {
    decoder: Utf8Stream,
    line: String,
}

impl TerminalText {
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

/// Maps byte offsets to lines without keeping the text.
#[derive(Debug, Default)]
struct LinePositions {
    /// Bytes seen so far.
    seen: usize,
    /// Offsets of line ends that a later lookup may need.
    ends: VecDeque<usize>,
    /// Number of lines before the current one, and the offset at which it starts.
    line: usize,
    start: usize,
}

impl LinePositions {
    fn add(&mut self, bytes: &[u8]) {
        let ends = memchr::memchr_iter(b'\n', bytes).map(|at| self.seen + at);
        self.ends.extend(ends);
        self.seen += bytes.len();
    }

    /// Returns line and column, from 1. Offsets must be ascending.
    fn locate(&mut self, at: usize) -> (usize, usize) {
        while let Some(end) = self.ends.front().copied().filter(|end| *end < at) {
            self.ends.pop_front();
            self.line += 1;
            self.start = end + 1;
        }
        (self.line + 1, at - self.start + 1)
    }
}
