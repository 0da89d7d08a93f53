//! Output of an answer: rendered on a terminal, plain text on a pipe, or JSON Lines.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::json;

use super::answer_text::{attached_line, cost_line, footer, push_command};
use super::call_frames::CallFrames;
use super::new_tools_view;
pub use super::output_options::OutputFormat;
use super::output_options::OutputOptions;
use super::reasoning_view::ReasoningView;
use super::render::{MarkdownRenderer, RenderOptions};
use super::spinner::Spinner;
use super::styled_line::{StyledLine, continue_line, paint};
use super::terminal;
use crate::chat::{CallStatus, FinishReason};
use crate::error::Error;
use crate::protocol::tools::{NewTools, Reaction};
use crate::protocol::{AnswerSummary, Event, RequestFailure, ShownCost};
use crate::safety::text::{SafePiece, SinkMode, TextSink, one_line};

/// Writer of an answer. Collects the output of each protocol frame and writes it in one go.
pub struct AnswerOutput {
    mode: OutputMode,
    stdout: io::Stdout,
    out: Vec<u8>,
    /// stderr is a terminal with colours.
    stderr_color: bool,
    spinner: Spinner,
    /// Something was printed since [`AnswerOutput::take_printed`].
    printed: bool,
    /// Progress of a tool call, shown after the spinner.
    progress: String,
    frames: CallFrames,
    reasoning: ReasoningView,
    new_tools: Option<NewTools>,
    /// [`OutputFormat::ProgressOnly`].
    progress_only: bool,
    /// stdout is a terminal: show a spinner and a footer.
    terminal: bool,
    /// Part of the answer has arrived.
    has_content: bool,
    /// Readable after Ctrl-C, when a write must no longer wait for stdout.
    interrupt: Option<OwnedFd>,
}

enum OutputMode {
    Rendered(Box<MarkdownRenderer>, TextSink, RenderOptions),
    Plain {
        sink: TextSink,
        line_start: bool,
        any: bool,
    },
    Json,
}

impl AnswerOutput {
    /// Creates an output on stdout, with notices on stderr.
    pub fn new(options: OutputOptions) -> AnswerOutput {
        let format = options.format;
        let stdout = io::stdout();
        let terminal = stdout.is_terminal();
        let mode = match format {
            OutputFormat::Json => OutputMode::Json,
            OutputFormat::Auto if terminal => {
                let options = RenderOptions {
                    width: terminal::size(&stdout).0,
                    color: terminal::colors(&stdout),
                };
                OutputMode::Rendered(
                    Box::new(MarkdownRenderer::new(options)),
                    TextSink::new(SinkMode::Prose),
                    options,
                )
            }
            _ => OutputMode::Plain {
                sink: TextSink::new(SinkMode::Prose),
                line_start: true,
                any: false,
            },
        };
        AnswerOutput {
            mode,
            stdout,
            out: Vec::new(),
            stderr_color: terminal::colors(&io::stderr()),
            spinner: Spinner::default(),
            printed: false,
            progress: String::new(),
            frames: CallFrames::default(),
            reasoning: ReasoningView::new(options.reasoning),
            new_tools: None,
            progress_only: format == OutputFormat::ProgressOnly,
            terminal,
            has_content: false,
            interrupt: None,
        }
    }

    /// Makes a blocked write fail with [`io::ErrorKind::Interrupted`] once `interrupt` is readable.
    pub fn interruptible(&mut self, interrupt: OwnedFd) {
        self.interrupt = Some(interrupt);
    }

    /// Returns whether part of the answer has arrived.
    pub fn has_content(&self) -> bool {
        self.has_content
    }

    /// Returns whether a spinner may be shown: only on an empty line of a terminal.
    pub fn may_spin(&self) -> bool {
        let fresh = match &self.mode {
            OutputMode::Rendered(renderer, ..) => renderer.at_line_start(),
            OutputMode::Plain { line_start, .. } => *line_start,
            OutputMode::Json => false,
        };
        fresh && self.terminal && io::stderr().is_terminal()
    }

    /// Shows the next frame of the spinner, in the foreground.
    pub fn spin(&mut self) {
        let thinking = self.reasoning.progress();
        let text = match self.progress.as_str() {
            "" => thinking.as_deref().unwrap_or_default(),
            text => text,
        };
        self.spinner.spin(text, self.stderr_color);
    }

    /// Returns whether something was printed since the last call.
    pub fn take_printed(&mut self) -> bool {
        std::mem::take(&mut self.printed)
    }

    /// Removes the spinner, before something is printed.
    pub fn clear_spinner(&mut self) {
        self.printed = true;
        self.spinner.clear();
    }

    /// Writes a part of the answer.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.clear_spinner();
        self.end_reasoning();
        self.has_content |= !text.is_empty();
        self.frames.interrupted();
        match &mut self.mode {
            OutputMode::Rendered(renderer, sink, _) => {
                let out = &mut self.out;
                sink.push_with(text, &mut |piece| match piece {
                    SafePiece::Text(t) | SafePiece::Mark(t) => renderer.push(t, out),
                });
            }
            OutputMode::Plain {
                sink,
                line_start,
                any,
            } => {
                let out = &mut self.out;
                sink.push_with(text, &mut |piece| match piece {
                    SafePiece::Text(t) | SafePiece::Mark(t) => out.extend_from_slice(t.as_bytes()),
                });
                if let Some(last) = self.out.last() {
                    *line_start = *last == b'\n';
                    *any = true;
                }
            }
            OutputMode::Json => self.json(&json!({"type": "text", "text": text})),
        }
        self.flush()
    }

    /// Writes what an event means to the user.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.has_content |= matches!(event, Event::Proposal { .. });
        if matches!(self.mode, OutputMode::Json) {
            if !matches!(
                event,
                Event::EnvRequested { .. } | Event::CaptureFinish | Event::Unknown
            ) {
                self.json(event);
            }
            return self.flush();
        }
        if let Event::Reasoning { text } = event {
            if self.reasoning.is_shown() {
                self.clear_spinner();
                self.end_block(true);
                self.flush()?;
            }
            let lines = self.reasoning.push(text, self.width());
            self.write_lines(&lines);
            return Ok(());
        }
        self.end_reasoning();
        match event {
            Event::Notice { text } => {
                self.clear_spinner();
                self.end_block(true);
                self.flush()?;
                self.notice(text);
            }
            Event::Proposal { command } => {
                self.clear_spinner();
                self.proposal(command);
                self.flush()?;
            }
            Event::ToolCallStarted(begin) => {
                let lines = self.frames.begin(begin, self.width());
                self.write_progress(&lines)?;
            }
            Event::ToolCallProgress { text } => self.progress = one_line(text, 200),
            Event::ToolCallOutput { text } => {
                let lines = self.frames.output(text, self.width());
                if !lines.is_empty() {
                    self.write_progress(&lines)?;
                }
            }
            Event::ToolCallFinished(end) => {
                let mut end = end.clone();
                if self.progress_only {
                    // The error of the command says the same.
                    if matches!(end.status, CallStatus::Blocked | CallStatus::InvalidCall) {
                        return Ok(());
                    }
                    (end.head, end.more) = (String::new(), 0);
                }
                let lines = self.frames.end(&end, self.width());
                self.write_progress(&lines)?;
            }
            Event::NewTools(tools) => {
                let lines = new_tools_view::lines(tools, self.width());
                self.new_tools = Some(tools.clone());
                self.write_progress(&lines)?;
            }
            Event::Attached {
                session,
                prompt,
                running,
                ..
            } => {
                let line = attached_line(session, prompt, *running);
                self.notice(&line);
            }
            // The question begins on its own line.
            Event::ApprovalRequested(_) | Event::ElicitationRequested(_) => {
                self.write_progress(&[])?
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the new tools that were shown last.
    pub fn new_tools(&self) -> Option<&NewTools> {
        self.new_tools.as_ref()
    }

    /// Records that a question about a call was withdrawn.
    pub fn question_withdrawn(&mut self) {
        self.frames.withdrawn();
    }

    /// Returns the columns available on stderr.
    fn width(&self) -> usize {
        match io::stderr().is_terminal() {
            true => terminal::size(&io::stderr()).0.saturating_sub(1),
            false => 200,
        }
    }

    /// Writes lines to stderr, between parts of the answer.
    fn write_progress(&mut self, lines: &[StyledLine]) -> io::Result<()> {
        self.clear_spinner();
        self.progress.clear();
        self.end_block(true);
        self.flush()?;
        self.write_lines(lines);
        Ok(())
    }

    fn write_lines(&mut self, lines: &[StyledLine]) {
        let mut out = String::new();
        for line in lines {
            paint(line, self.stderr_color, &mut out);
            out.push('\n');
        }
        // A closed stderr cannot be reported anywhere.
        let _ = io::stderr().write_all(out.as_bytes());
    }

    /// Writes the end of reasoning that is shown.
    fn end_reasoning(&mut self) {
        let lines = self.reasoning.end(self.width());
        self.write_lines(&lines);
    }

    /// Writes the answer to a question, for readers of the JSON events.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn reacted(&mut self, reaction: &Reaction) -> io::Result<()> {
        if matches!(self.mode, OutputMode::Json) {
            let line = match reaction {
                Reaction::Call {
                    id,
                    verdict,
                    arguments,
                    ..
                } => {
                    json!({"type": "confirmed", "id": id, "verdict": verdict, "arguments": arguments})
                }
                // The content is not printed: it is meant for the server only.
                Reaction::Elicit { id, action, .. } => {
                    json!({"type": "elicited", "id": id, "action": action})
                }
            };
            self.json(&line);
        }
        self.flush()
    }

    /// Writes a notice to stderr.
    pub fn notice(&mut self, text: &str) {
        self.clear_spinner();
        self.frames.interrupted();
        print_notice(text);
    }

    /// Ends the current block, so that a line of aish can follow; `more` says whether the answer continues after it.
    fn end_block(&mut self, more: bool) {
        match &mut self.mode {
            OutputMode::Rendered(renderer, sink, _) => {
                let (mut rest, out) = (String::new(), &mut self.out);
                sink.finish(&mut rest);
                renderer.push(&rest, out);
                if more {
                    renderer.pause(out);
                } else {
                    renderer.finish(out);
                }
            }
            OutputMode::Plain {
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
            OutputMode::Json => {}
        }
    }

    fn proposal(&mut self, command: &str) {
        self.end_block(true);
        let color = matches!(&self.mode, OutputMode::Rendered(_, _, o) if o.color);
        let (sign, indent) = match &self.mode {
            OutputMode::Rendered(..) if color => ("\x1b[36m  $ \x1b[0m", "    "),
            OutputMode::Rendered(..) => ("  $ ", "    "),
            _ => ("CMD: ", ""),
        };
        self.out.extend_from_slice(sign.as_bytes());
        push_command(command, indent, color, &mut self.out);
        self.out.push(b'\n');
    }

    /// Writes the end of the answer.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn answer(&mut self, answer: &AnswerSummary) -> io::Result<()> {
        self.clear_spinner();
        if matches!(self.mode, OutputMode::Json) {
            let mut line = json!(answer);
            line["type"] = json!("answer");
            line.as_object_mut().map(|line| line.remove("show_cost"));
            self.json(&line);
            return self.flush();
        }
        self.end_reasoning();
        self.end_block(false);
        self.flush()?;
        match answer.finish {
            FinishReason::Length => self
                .notice("the answer reached the model's output limit; continue with: llm continue"),
            FinishReason::ContentFilter => {
                self.notice("the provider's content filter ended the answer")
            }
            _ => {}
        }
        if self.terminal && answer.finish != FinishReason::Interrupted {
            let (dim, plain) = if self.stderr_color {
                ("\x1b[2m", "\x1b[0m")
            } else {
                ("", "")
            };
            let footer = footer(answer, terminal::size(&io::stderr()).0);
            let _ = writeln!(io::stderr(), "{dim}{footer}{plain}");
        } else if answer.show_cost == ShownCost::Always {
            let _ = writeln!(io::stderr(), "{}", cost_line(answer));
        }
        Ok(())
    }

    /// Writes the end of a failed request.
    pub fn failed(&mut self, e: &Error) {
        self.clear_spinner();
        if matches!(self.mode, OutputMode::Json) {
            let mut line = json!(RequestFailure::from(e));
            line["type"] = json!("error");
            self.json(&line);
        } else {
            self.end_block(false);
        }
        // The caller prints the error itself; a closed stdout no longer matters.
        let _ = self.flush();
    }

    /// Adapts to a changed terminal size.
    pub fn resized(&mut self) {
        if let OutputMode::Rendered(renderer, _, options) = &mut self.mode {
            options.width = terminal::size(&self.stdout).0;
            renderer.resize(options.width);
        }
    }

    fn json<T: serde::Serialize>(&mut self, line: &T) {
        // Serialising plain data with text keys cannot fail.
        let _ = crate::safety::json::append_json_line(line, &mut self.out);
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        // Not through the line buffer of `Stdout`: one write per frame.
        let written = write_all(&self.stdout, &self.out, self.interrupt.as_ref());
        self.out.clear();
        written
    }
}

/// Bytes that a writable pipe accepts without blocking (`PIPE_BUF`).
const ATOMIC_WRITE: usize = 4096;

fn write_all(fd: &impl AsFd, mut bytes: &[u8], interrupt: Option<&OwnedFd>) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut fds = vec![PollFd::new(fd.as_fd(), PollFlags::POLLOUT)];
        fds.extend(interrupt.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) if fds[0].any() == Some(false) => return Err(io::ErrorKind::Interrupted.into()),
            Ok(_) => {}
            Err(Errno::EINTR) => continue,
            Err(e) => return Err(e.into()),
        }
        match nix::unistd::write(fd, &bytes[..bytes.len().min(ATOMIC_WRITE)]) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// Prints a line of aish on stderr; a terminal gets it wrapped at word ends.
pub fn print_notice(text: &str) {
    let stderr = io::stderr();
    let (dim, plain) = match terminal::colors(&stderr) {
        true => ("\x1b[2m", "\x1b[0m"),
        false => ("", ""),
    };
    let text = format!("[aish] {}", one_line(text, 500));
    let text = match stderr.is_terminal() {
        true => continue_line(&text, 0, terminal::size(&stderr).0),
        false => text,
    };
    let text = text.trim_end();
    // A closed stderr cannot be reported anywhere.
    let _ = writeln!(&stderr, "{dim}{text}{plain}");
}
