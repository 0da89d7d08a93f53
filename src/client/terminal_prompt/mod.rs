//! A question on the user's terminal: single keys, a line editor, a pager, and the events that end or redraw it.
//!
//! Tool approvals, elicitations and proposed commands share this module, so that they treat held-down keys, pastes,
//! Ctrl-C, Ctrl-Z, resizing and a lost terminal in the same way.

mod input;
pub mod key_events;
mod keys_line;
pub mod pager;
mod prompt_key;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::Write;
use std::time::Instant;

use unicode_width::UnicodeWidthStr;

use self::key_events::{EventTypes, KeyEvent};
pub use self::keys_line::{broken, end_column, key_fault};
pub use self::prompt_key::PromptKey;
use super::edit_line::{EditLine, EditStep};
use super::frame_queue::FrameQueue;
use super::signals::{SignalPipes, drain};
use super::styled_line::{StyledLine, column_after, continue_line, paint, wrapped};
use super::terminal::{self, ControllingTty, EchoGuard, RawKeyMode};
use crate::paths;
use crate::protocol::{Event, kind, parse};

const CTRL_Z: u8 = 26;
const ESCAPE: u8 = 0x1b;

const TERMINAL_LOST: PromptEnd = PromptEnd::NoTerminal("the terminal was closed");
const BACKGROUND_JOB: PromptEnd = PromptEnd::NoTerminal("this is a background job");

/// What the user did, or why the question must be drawn again.
#[derive(Debug, PartialEq, Eq)]
pub enum PromptInput {
    /// A key press.
    Key(PromptKey),
    /// The screen no longer shows the question as it was drawn (resize, stop and continue).
    Redraw,
}

/// Why a question ended without an answer from this terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptEnd {
    /// Ctrl-C, or a signal that ends the turn.
    Interrupted,
    /// The daemon closed the connection.
    DaemonGone,
    /// The daemon no longer needs the answer.
    Withdrawn,
    /// Another terminal answered; the text says where and what.
    AnsweredElsewhere(String),
    /// The question was closed before it was drawn.
    ClosedBefore,
    /// No terminal to ask on, with the reason.
    NoTerminal(&'static str),
}

/// Result of one step of a question.
pub type PromptResult<T> = Result<T, PromptEnd>;

/// Result of editing one line.
#[derive(Debug, PartialEq, Eq)]
pub enum EditedLine {
    /// Enter, with the text.
    Accepted(String),
    /// Ctrl-D on an empty line, or Esc.
    Cancelled,
}

/// Result of waiting for the terminal.
enum TtyInput {
    Bytes(usize),
    Redraw,
    Timeout,
}

/// The daemon request that waits for the answer. Its frames are read while the question is open.
pub struct PendingRequest<'a> {
    /// The connection of the request.
    pub frames: &'a mut FrameQueue,
    /// Echo mode outside of questions.
    pub echo: &'a mut EchoGuard,
    /// Returns how an event ends the question, if it does.
    pub ended_by: &'a dyn Fn(&Event) -> Option<PromptEnd>,
}

impl PendingRequest<'_> {
    /// Returns how a frame that was received already ends the question, as in the replay of a turn.
    pub fn end_in_waiting_frames(&mut self) -> Option<PromptEnd> {
        let ended_by = self.ended_by;
        let mut end = None;
        let inspected = self.frames.inspect_waiting(|kind, body| {
            end = end.take().or_else(|| end_by_frame(ended_by, kind, body));
        });
        match inspected {
            Ok(()) => end,
            Err(_) => Some(PromptEnd::DaemonGone),
        }
    }
}

/// Returns how a frame of the daemon ends the question.
fn end_by_frame(
    ended_by: &dyn Fn(&Event) -> Option<PromptEnd>,
    kind: u8,
    body: &[u8],
) -> Option<PromptEnd> {
    match kind {
        kind::REPLY | kind::FAILURE => Some(PromptEnd::Withdrawn),
        kind::EVENT => ended_by(&parse(body).ok()?),
        _ => None,
    }
}

/// A question on the controlling terminal. Keys arrive one by one and without echo while it exists.
pub struct TerminalPrompt<'a> {
    tty: ControllingTty,
    /// `None` while another program has the terminal.
    raw_mode: Option<RawKeyMode>,
    /// `None` where the terminal has no event types, and while [`TerminalPrompt::edit_line`] reads plain bytes.
    event_types: Option<EventTypes>,
    /// Events that were read together with an earlier one.
    events: VecDeque<KeyEvent>,
    /// The screen no longer shows the question as it was drawn.
    must_redraw: bool,
    /// When this question began to read single keys.
    since: Instant,
    signals: &'a SignalPipes,
    /// `None` where no request waits, as for proposed commands.
    request: Option<PendingRequest<'a>>,
    /// Columns and rows.
    pub size: (usize, usize),
    /// Use colours.
    pub color: bool,
    /// Cursor column after the last write.
    column: Cell<usize>,
    /// The row below the keys has a report.
    has_report: Cell<bool>,
    /// The widths of the lines that were written since the question began, but for the last one; `None` if something else may have
    /// been written.
    lines: RefCell<Option<Vec<usize>>>,
}

impl<'a> TerminalPrompt<'a> {
    /// Opens the controlling terminal and switches it to single keys.
    ///
    /// # Errors
    /// [`PromptEnd::NoTerminal`] without a terminal or in a background job.
    pub fn open(
        signals: &'a SignalPipes,
        request: Option<PendingRequest<'a>>,
    ) -> PromptResult<TerminalPrompt<'a>> {
        let tty =
            ControllingTty::open().map_err(|_| PromptEnd::NoTerminal("no terminal to ask on"))?;
        let mut prompt = TerminalPrompt {
            size: terminal::size(&tty.file),
            color: terminal::colors(&tty.file),
            tty,
            column: Cell::new(0),
            has_report: Cell::new(false),
            lines: RefCell::new(None),
            raw_mode: None,
            event_types: None,
            events: VecDeque::new(),
            must_redraw: false,
            since: Instant::now(),
            signals,
            request,
        };
        prompt.acquire()?;
        Ok(prompt)
    }

    /// Switches the terminal to single keys if this process group is in the foreground.
    fn acquire(&mut self) -> PromptResult<()> {
        if !terminal::foreground(&self.tty.file) {
            return Err(BACKGROUND_JOB);
        }
        self.lines.replace(None);
        // First restore, so that the saved modes are those of the shell.
        self.release();
        self.raw_mode = Some(self.tty.raw_keys().map_err(|_| TERMINAL_LOST)?);
        self.event_types = EventTypes::enable(&self.tty.file);
        self.size = terminal::size(&self.tty.file);
        self.since = Instant::now();
        Ok(())
    }

    /// Gives the terminal back as it was.
    fn release(&mut self) {
        self.event_types = None;
        self.raw_mode = None;
    }

    /// Returns the columns available beside the frame sign.
    pub fn width(&self) -> usize {
        self.size.0.saturating_sub(2).max(1)
    }

    /// Writes trusted text.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn write(&self, text: &str) -> PromptResult<()> {
        for (n, line) in text.split('\n').enumerate() {
            if n > 0 {
                let width = self.column.take();
                self.lines
                    .borrow_mut()
                    .iter_mut()
                    .for_each(|lines| lines.push(width));
            }
            self.column.set(column_after(self.column.get(), line));
        }
        (&self.tty.file)
            .write_all(text.as_bytes())
            .map_err(|_| TERMINAL_LOST)
    }

    /// Makes room for the question, which is drawn again: after a change of the window's size in place of the question as it was. Returns
    /// whether that was erased.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn make_room(&self) -> PromptResult<bool> {
        // tmux wraps lines again. Of another terminal that is not known: too many rows would erase what is above.
        let width = match paths::variable("TMUX") {
            Some(_) => self.size.0.max(1),
            None => usize::MAX,
        };
        let rows = |width_of_line: usize| width_of_line.div_ceil(width).max(1);
        let lines = self.lines.take();
        let above = lines.map_or(0, |lines| {
            let last = rows(self.column.get()) - 1;
            lines.into_iter().map(rows).sum::<usize>() + last
        });
        let erases = above > 0 && above < self.size.1;
        match erases {
            true => self.write(&format!("\x1b[{above}A\r\x1b[J"))?,
            false => self.write("\n")?,
        }
        Ok(erases)
    }

    /// Whether the cursor is at the beginning of a line.
    pub fn at_line_start(&self) -> bool {
        self.column.get() == 0
    }

    /// Says why a key has no effect, in the row below `keys`, which the next key clears: the question stays in view. The keys follow again
    /// only where the text needs several rows.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn report(&self, text: &str, keys: &str) -> PromptResult<()> {
        let start = if self.at_line_start() { "" } else { "\n" };
        if text.width() < self.size.0 {
            self.write(&format!("{start}{} ", self.dim(text)))?;
            self.has_report.set(true);
            return Ok(());
        }
        let text = self.dim(wrapped(text, self.size.0, 0).trim_end());
        self.write(&format!("{start}{text}\n{keys}"))
    }

    /// Clears the row of the report.
    fn clear_report(&self) -> PromptResult<()> {
        match self.has_report.take() {
            true => self.write("\r\x1b[K"),
            false => Ok(()),
        }
    }

    /// Writes one line of the frame: `sign`, a space and the line.
    ///
    /// # Errors
    /// The terminal is lost.
    pub fn frame_line(&self, sign: &str, line: &StyledLine) -> PromptResult<()> {
        if sign == "┌" {
            self.lines.replace(Some(Vec::new()));
        }
        let mut out = self.dim(sign);
        out.push(' ');
        paint(line, self.color, &mut out);
        out.push('\n');
        self.write(&out)
    }

    /// Returns trusted text in a dim style.
    pub fn dim(&self, text: &str) -> String {
        match self.color {
            true => format!("\x1b[2m{text}\x1b[0m"),
            false => text.to_string(),
        }
    }

    /// Writes the line that follows a question without an answer, on a new line if it does not fit after the keys.
    pub fn write_end(&self, end: &PromptEnd) {
        let text = match end {
            PromptEnd::Interrupted => "stopped",
            PromptEnd::DaemonGone => "the daemon exited: not called",
            PromptEnd::Withdrawn => "the question was withdrawn",
            PromptEnd::AnsweredElsewhere(text) => text,
            // Nothing can be written, the terminal belongs to another job, or no question is on the screen.
            PromptEnd::NoTerminal(_) | PromptEnd::ClosedBefore => return,
        };
        // A lost terminal shows nothing.
        let _ = self.write(&continue_line(text, self.column.get(), self.size.0));
    }

    /// Writes the closing line of the frame with `keys` and waits for a key for which `meaning` returns a value and
    /// the word to echo. Returns `None` if the question must be redrawn.
    ///
    /// # Errors
    /// The question ended.
    pub fn choose<T>(
        &mut self,
        keys: &str,
        meaning: &dyn Fn(PromptKey) -> Option<(T, &'static str)>,
    ) -> PromptResult<Option<T>> {
        self.choose_or_report(keys, meaning, &|_| "not one of the keys")
    }

    /// As [`TerminalPrompt::choose`]; `fault` says why another key has no effect.
    ///
    /// # Errors
    /// The question ended.
    pub fn choose_or_report<T>(
        &mut self,
        keys: &str,
        meaning: &dyn Fn(PromptKey) -> Option<(T, &'static str)>,
        fault: &dyn Fn(PromptKey) -> &'static str,
    ) -> PromptResult<Option<T>> {
        let labels: Vec<String> = keys
            .trim_end()
            .split("  ")
            .map(|key| format!("{key} "))
            .collect();
        let line = format!("{}{}", self.dim("└"), broken(&labels, self.size.0));
        self.write(&line)?;
        loop {
            match self.answer_key()? {
                PromptInput::Redraw => {
                    self.make_room()?;
                    return Ok(None);
                }
                PromptInput::Key(key) => match meaning(key) {
                    Some((value, word)) => {
                        let has_room = end_column(&line) + word.width() <= self.size.0;
                        let start = match has_room || self.at_line_start() {
                            true => "",
                            false => "\n",
                        };
                        self.write(&format!("{start}{word}\n"))?;
                        return Ok(Some(value));
                    }
                    None => self.report(fault(key), &line)?,
                },
            }
        }
    }

    /// Edits one line after the `> ` that is already on the screen, starting with `text`.
    ///
    /// # Errors
    /// The question ended.
    pub fn edit_line(&mut self, text: &str) -> PromptResult<EditedLine> {
        // The line editor reads plain bytes.
        self.event_types = None;
        self.events.clear();
        let edited = self.edit_bytes(text)?;
        self.event_types = EventTypes::enable(&self.tty.file);
        self.since = Instant::now();
        Ok(edited)
    }

    fn edit_bytes(&mut self, text: &str) -> PromptResult<EditedLine> {
        let mut line = EditLine::with(text);
        let columns = |size: (usize, usize)| size.0.saturating_sub(2);
        self.write(&line.visible_part(columns(self.size)))?;
        let mut buffer = [0; 1024];
        loop {
            let length = match self.read(&mut buffer)? {
                Some(1) if buffer[0] == ESCAPE => {
                    self.write("\n")?;
                    return Ok(EditedLine::Cancelled);
                }
                Some(1) if buffer[0] == CTRL_Z && self.suspend()? => 0,
                Some(length) => length,
                None => 0,
            };
            if length == 0 {
                self.event_types = None;
                let visible = line.visible_part(columns(self.size));
                self.write(&format!("\n> {visible}"))?;
            }
            for byte in &buffer[..length] {
                match line.take(*byte) {
                    EditStep::Shown(_) => {
                        let visible = line.visible_part(columns(self.size));
                        self.write(&format!("\r\x1b[K> {visible}"))?;
                    }
                    EditStep::Hidden => {}
                    EditStep::Interrupt => return Err(PromptEnd::Interrupted),
                    EditStep::Leave => {
                        self.write("\n")?;
                        return Ok(EditedLine::Cancelled);
                    }
                    // The rest of the buffer belongs to a paste, and to no other question.
                    EditStep::Enter => {
                        self.write("\n")?;
                        return Ok(EditedLine::Accepted(line.text().to_string()));
                    }
                }
            }
        }
    }

    /// Runs `program` with the terminal in the modes it had before the question.
    ///
    /// # Errors
    /// The question ended.
    pub fn lend<T>(&mut self, program: impl FnOnce(&ControllingTty) -> T) -> PromptResult<T> {
        self.release();
        self.set_echo_off(false);
        let result = program(&self.tty);
        self.set_echo_off(true);
        // Ctrl-C and Ctrl-Z inside the program were meant for the program.
        drain(&self.signals.end);
        drain(&self.signals.stop);
        drain(&self.signals.resume);
        drain(&self.signals.resize);
        self.acquire()?;
        Ok(result)
    }

    /// Suppresses or restores the echo that applies outside of questions.
    fn set_echo_off(&mut self, off: bool) {
        match (&mut self.request, off) {
            (Some(request), true) => request.echo.suppress(),
            (Some(request), false) => request.echo.restore(),
            (None, _) => {}
        }
    }
}
