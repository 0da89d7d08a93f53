//! How an answer is shown: rendered on a terminal, plain on a pipe, or as JSON Lines.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::frame::{Line, paint};
use super::news;
use super::render::{Options, Renderer};
use super::terminal;
use super::tools::{Frames, cut};
use crate::chat::{CallStatus, Finish};
use crate::error::Error;
use crate::protocol::tools::Reaction;
use crate::protocol::{AnswerSummary, Event, Failure};
use crate::safety::text::{Mode, Piece, Shown, TextSink, one_line, strict_pieces};

/// What the person asked the output to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Markdown rendered for the terminal; plain text where there is none.
    Auto,
    /// The text as it came, on a terminal too.
    Raw,
    /// Every event as a line of JSON.
    Json,
    /// What comes with the reply is printed by whoever gets it: no part of it is shown beside.
    Beside,
}

/// The frames of the spinner, one every [`super::serve`] tick.
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠸", "⢰", "⣠", "⣄", "⡆", "⠇"];

/// Where the answer goes. Everything is collected and written once a frame.
pub struct Output {
    way: Way,
    stdout: io::Stdout,
    out: Vec<u8>,
    /// Whether stderr is a terminal with colours.
    dim: bool,
    /// Frames of the spinner shown so far; it stands on the current line of stderr.
    spinner: Option<usize>,
    /// What stands behind the spinner: how far a call has got.
    progress: String,
    /// The columns that the spinner has taken.
    spun: usize,
    frames: Frames,
    /// [`Format::Beside`].
    beside_only: bool,
    /// stdout is a terminal, so that a spinner and a footer make sense.
    terminal: bool,
    /// Some of the answer has come.
    any: bool,
    /// Readable once the person has had enough: then nobody waits for a reader that does not read.
    enough: Option<OwnedFd>,
}

enum Way {
    Rendered(Box<Renderer>, TextSink, Options),
    Plain {
        sink: TextSink,
        line_start: bool,
        any: bool,
    },
    Json,
}

impl Output {
    /// Output to stdout, with notices on stderr.
    pub fn new(format: Format) -> Output {
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let way = match format {
            Format::Json => Way::Json,
            Format::Auto if terminal => {
                let options = Options {
                    width: terminal::size(&stdout).0,
                    color: terminal::colors(&stdout),
                };
                Way::Rendered(
                    Box::new(Renderer::new(options)),
                    TextSink::new(Mode::Prose),
                    options,
                )
            }
            _ => Way::Plain {
                sink: TextSink::new(Mode::Prose),
                line_start: true,
                any: false,
            },
        };
        Output {
            way,
            stdout,
            out: Vec::new(),
            dim: terminal::colors(&io::stderr()),
            spinner: None,
            progress: String::new(),
            spun: 0,
            frames: Frames::default(),
            beside_only: format == Format::Beside,
            terminal,
            any: false,
            enough: None,
        }
    }

    /// From now on a write that would wait fails with [`io::ErrorKind::Interrupted`] when `enough` is readable.
    pub fn interruptible(&mut self, enough: OwnedFd) {
        self.enough = Some(enough);
    }

    /// Whether some of the answer has come.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Whether a spinner may be shown while nothing comes: only on an empty line.
    pub fn may_spin(&self) -> bool {
        let fresh = match &self.way {
            Way::Rendered(renderer, ..) => renderer.at_line_start(),
            Way::Plain { line_start, .. } => *line_start,
            Way::Json => false,
        };
        fresh && self.terminal && io::stderr().is_terminal()
    }

    /// Shows the next frame of the spinner, in the foreground.
    pub fn spin(&mut self) {
        // In the background the line belongs to the shell and to whoever types in it.
        if !terminal::foreground(&io::stderr()) {
            self.spinner = None;
            return;
        }
        let frame = self.spinner.map_or(0, |n| n + 1);
        self.spinner = Some(frame);
        let sign = if self.dim {
            SPINNER[frame % SPINNER.len()]
        } else {
            "."
        };
        let width = terminal::size(&io::stderr()).0.saturating_sub(2);
        let line = match self.progress.as_str() {
            "" => sign.to_string(),
            text => cut(&format!("{sign} {text}"), width),
        };
        let taken = line.width();
        let rest = " ".repeat(
            self.spun
                .saturating_sub(taken)
                .min(width.saturating_sub(taken)),
        );
        self.spun = taken;
        // Only a decoration: a terminal that fails here fails at the next write too.
        let _ = write!(io::stderr(), "\r{line}{rest} \r");
    }

    /// Takes the spinner away.
    pub fn unspin(&mut self) {
        let spun = std::mem::take(&mut self.spun);
        if self.spinner.take().is_some() && terminal::foreground(&io::stderr()) {
            let width = terminal::size(&io::stderr()).0.saturating_sub(1);
            let _ = write!(io::stderr(), "\r{}\r", " ".repeat((spun + 1).min(width)));
        }
    }

    /// Shows a part of the answer.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.unspin();
        self.any |= !text.is_empty();
        self.frames.interrupted();
        match &mut self.way {
            Way::Rendered(renderer, sink, _) => {
                let out = &mut self.out;
                sink.push_with(text, &mut |piece| match piece {
                    Piece::Text(t) | Piece::Mark(t) => renderer.push(t, out),
                });
            }
            Way::Plain {
                sink,
                line_start,
                any,
            } => {
                let out = &mut self.out;
                sink.push_with(text, &mut |piece| match piece {
                    Piece::Text(t) | Piece::Mark(t) => out.extend_from_slice(t.as_bytes()),
                });
                if let Some(last) = self.out.last() {
                    *line_start = *last == b'\n';
                    *any = true;
                }
            }
            Way::Json => self.json(&json!({"type": "text", "text": text})),
        }
        self.flush()
    }

    /// Shows an event.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.any |= matches!(event, Event::Proposal { .. });
        if matches!(self.way, Way::Json) {
            if !matches!(
                event,
                Event::EnvRequested { .. } | Event::CaptureFinish | Event::Unknown
            ) {
                self.json(event);
            }
            return self.flush();
        }
        match event {
            Event::Notice { text } => {
                self.unspin();
                self.end_block(true);
                self.flush()?;
                self.notice(text);
            }
            Event::Proposal { command } => {
                self.unspin();
                self.proposal(command);
                self.flush()?;
            }
            Event::ToolCallStarted(begin) => {
                let lines = self.frames.begin(begin, self.width());
                self.beside(&lines)?;
            }
            Event::ToolCallProgress { text } => self.progress = one_line(text, 200),
            Event::ToolCallFinished(end) => {
                let mut end = end.clone();
                if self.beside_only {
                    // An error says the same, in words for the command line.
                    if matches!(end.status, CallStatus::Blocked | CallStatus::InvalidCall) {
                        return Ok(());
                    }
                    (end.head, end.more) = (String::new(), 0);
                }
                let lines = self.frames.end(&end, self.width());
                self.beside(&lines)?;
            }
            Event::NewTools(tools) => {
                let lines = news::lines(tools, self.width());
                self.beside(&lines)?;
            }
            // The question stands on a line of its own.
            Event::ApprovalRequested(_) | Event::ElicitationRequested(_) => self.beside(&[])?,
            _ => {}
        }
        Ok(())
    }

    /// A question about a call ended without an answer.
    pub fn withdrawn(&mut self) {
        self.frames.withdrawn();
    }

    /// The columns for what goes beside the answer.
    fn width(&self) -> usize {
        match io::stderr().is_terminal() {
            true => terminal::size(&io::stderr()).0.saturating_sub(1),
            false => 200,
        }
    }

    /// Lines beside the answer, on stderr.
    fn beside(&mut self, lines: &[Line]) -> io::Result<()> {
        self.unspin();
        self.progress.clear();
        self.end_block(true);
        self.flush()?;
        let mut out = String::new();
        for line in lines {
            paint(line, self.dim, &mut out);
            out.push('\n');
        }
        // There is nowhere else to say that stderr is closed.
        let _ = io::stderr().write_all(out.as_bytes());
        Ok(())
    }

    /// What was said to a question, for whoever follows the events.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn reacted(&mut self, reaction: &Reaction) -> io::Result<()> {
        if matches!(self.way, Way::Json) {
            let line = match reaction {
                Reaction::Call {
                    id,
                    verdict,
                    arguments,
                    ..
                } => {
                    json!({"type": "confirmed", "id": id, "verdict": verdict, "arguments": arguments})
                }
                // What it says is between the person and the server.
                Reaction::Elicit { id, action, .. } => {
                    json!({"type": "elicited", "id": id, "action": action})
                }
            };
            self.json(&line);
        }
        self.flush()
    }

    /// A line in aish's own words, on stderr.
    pub fn notice(&mut self, text: &str) {
        self.unspin();
        self.frames.interrupted();
        let (dim, plain) = if self.dim {
            ("\x1b[2m", "\x1b[0m")
        } else {
            ("", "")
        };
        // There is nowhere else to say that stderr is closed.
        let _ = writeln!(io::stderr(), "{dim}[aish] {}{plain}", one_line(text, 500));
    }

    /// Ends what the renderer has open, so that a line of our own can follow, and more of the answer where `more`.
    fn end_block(&mut self, more: bool) {
        match &mut self.way {
            Way::Rendered(renderer, sink, _) => {
                let (mut rest, out) = (String::new(), &mut self.out);
                sink.finish(&mut rest);
                renderer.push(&rest, out);
                if more {
                    renderer.pause(out);
                } else {
                    renderer.finish(out);
                }
            }
            Way::Plain {
                sink,
                line_start,
                any,
            } => {
                let mut rest = String::new();
                sink.finish(&mut rest);
                self.out.extend_from_slice(rest.as_bytes());
                if *any && !(*line_start && rest.is_empty()) {
                    self.out.push(b'\n');
                }
                (*line_start, *any) = (true, false);
            }
            Way::Json => {}
        }
    }

    fn proposal(&mut self, command: &str) {
        self.end_block(true);
        let color = matches!(&self.way, Way::Rendered(_, _, o) if o.color);
        if matches!(self.way, Way::Rendered(..)) {
            self.out.extend_from_slice(if color {
                b"\x1b[36m  $ \x1b[0m"
            } else {
                b"  $ "
            });
        } else {
            self.out.extend_from_slice(b"CMD: ");
        }
        command_bytes(command, color, &mut self.out);
        self.out.push(b'\n');
    }

    /// The answer is complete.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn answer(&mut self, answer: &AnswerSummary) -> io::Result<()> {
        self.unspin();
        if matches!(self.way, Way::Json) {
            let mut line = json!(answer);
            line["type"] = json!("answer");
            self.json(&line);
            return self.flush();
        }
        self.end_block(false);
        self.flush()?;
        match answer.finish {
            Finish::Length => {
                self.notice("the answer was cut off by the model's limit; say: llm go on")
            }
            Finish::ContentFilter => self.notice("the provider has filtered the answer"),
            _ => {}
        }
        // That it was interrupted is said in a line of its own.
        if self.terminal && answer.finish != Finish::Interrupted {
            let (dim, plain) = if self.dim {
                ("\x1b[2m", "\x1b[0m")
            } else {
                ("", "")
            };
            let _ = writeln!(io::stderr(), "{dim}{}{plain}", footer(answer));
        }
        Ok(())
    }

    /// The prompt failed.
    pub fn failed(&mut self, e: &Error) {
        self.unspin();
        if matches!(self.way, Way::Json) {
            let mut line = json!(Failure::from(e));
            line["type"] = json!("error");
            self.json(&line);
        } else {
            self.end_block(false);
        }
        // The error itself is printed by whoever gets it; a closed stdout is no news then.
        let _ = self.flush();
    }

    /// The terminal has another size now.
    pub fn resized(&mut self) {
        if let Way::Rendered(renderer, _, options) = &mut self.way {
            options.width = terminal::size(&self.stdout).0;
            renderer.resize(options.width);
        }
    }

    fn json<T: serde::Serialize>(&mut self, line: &T) {
        // Plain data with text keys always serialises.
        let _ = crate::safety::json::line(line, &mut self.out);
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        // Not through the line buffer of `Stdout`: a frame is one write.
        let written = write_all(&self.stdout, &self.out, self.enough.as_ref());
        self.out.clear();
        written
    }
}

/// So much a pipe that is ready takes without waiting (`PIPE_BUF`).
const READY: usize = 4096;

fn write_all(fd: &impl AsFd, mut bytes: &[u8], enough: Option<&OwnedFd>) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut fds = vec![PollFd::new(fd.as_fd(), PollFlags::POLLOUT)];
        fds.extend(enough.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) if fds[0].any() == Some(false) => return Err(io::ErrorKind::Interrupted.into()),
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(e) => return Err(e.into()),
        }
        match nix::unistd::write(fd, &bytes[..bytes.len().min(READY)]) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// A command, exactly: what is not plain to see is marked, in reverse where there is colour.
fn command_bytes(command: &str, color: bool, out: &mut Vec<u8>) {
    for piece in strict_pieces(command) {
        match piece {
            Shown::Text(t) => styled(&t, "\x1b[1m", color, out),
            Shown::Mark(t) => styled(&t, "\x1b[7m", color, out),
        }
    }
}

/// Text that was made safe, with an attribute of ours around it.
pub fn styled(text: &str, on: &str, color: bool, out: &mut Vec<u8>) {
    let (on, off) = if color { (on, "\x1b[0m") } else { ("", "") };
    for part in [on, text, off] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// `model · 12 + 345 tokens · 1.2 s · $0.0031`
fn footer(answer: &AnswerSummary) -> String {
    let mut parts = vec![one_line(&answer.model, 60)];
    if let (Some(prompt), Some(completion)) = (answer.prompt_tokens, answer.completion_tokens) {
        parts.push(format!("{prompt} + {completion} tokens"));
    }
    parts.push(format!("{:.1} s", answer.seconds));
    if let Some(cost) = answer.cost {
        parts.push(if cost < 0.01 {
            format!("${cost:.5}")
        } else {
            format!("${cost:.2}")
        });
    }
    parts.join(" · ")
}
