//! The screen of a recorded terminal, and the text that a command left on it.
//!
//! The emulator gets hostile output. It interprets functions that draw and ignores everything else; a panic in it resets the
//! screen instead of ending the process.

mod captured;

use std::panic::{AssertUnwindSafe, catch_unwind};

use avt::parser::{EdScope, Function};
use avt::{Cell, Line, Observation, Observer, Operation, ScreenKind, Terminal};

use super::reader::{MAX_COLS, MAX_ROWS};
use crate::safety::utf8::Utf8Stream;

pub use captured::captured_text;

/// Number of characters that an emulator is given per call. Three bytes can fill a screen, so that a caller with a time
/// limit must look at the clock often.
pub const SLICE: usize = 1 << 10;

/// A terminal emulator that takes bytes and cannot fail.
pub struct ScreenEmulator {
    terminal: Terminal,
    decoder: Utf8Stream,
    /// Decoded text of the current call.
    text: String,
}

impl std::fmt::Debug for ScreenEmulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScreenEmulator")
            .field("size", &self.terminal.size())
            .finish_non_exhaustive()
    }
}

/// Returns an emulator of this size, or of a usual one if it is not possible.
fn terminal(cols: u16, rows: u16) -> Option<Terminal> {
    let cols = usize::from(cols.clamp(1, MAX_COLS));
    let rows = usize::from(rows.clamp(1, MAX_ROWS));
    Terminal::new(cols, rows).ok()
}

impl ScreenEmulator {
    /// Creates a blank screen. `None` never happens for a size within the limits.
    pub fn new(cols: u16, rows: u16) -> Option<ScreenEmulator> {
        Some(ScreenEmulator {
            terminal: terminal(cols, rows)?,
            decoder: Utf8Stream::new(),
            text: String::new(),
        })
    }

    /// Creates a screen in the state that [`ScreenEmulator::dump`] returned.
    pub fn restored(cols: u16, rows: u16, dump: &str) -> Option<ScreenEmulator> {
        let mut screen = ScreenEmulator::new(cols, rows)?;
        screen.guarded(|terminal| terminal.feed(dump));
        Some(screen)
    }

    /// Processes output.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.feed_observed(bytes, &mut ());
    }

    /// Processes output and lets `observer` see what happens.
    pub fn feed_observed<O: Observer>(&mut self, bytes: &[u8], observer: &mut O) {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        self.decoder.push(bytes, &mut text);
        self.guarded(|terminal| {
            terminal.feed_with(text.as_str(), &mut *observer);
        });
        self.text = text;
    }

    /// Executes one function of the emulator's parser.
    pub fn execute(&mut self, function: Function) {
        self.guarded(|terminal| terminal.execute(function));
    }

    /// Executes functions of the emulator's parser and lets `observer` see what happens.
    pub fn execute_observed<O: Observer, const N: usize>(
        &mut self,
        functions: [Function; N],
        observer: &mut O,
    ) {
        self.guarded(|terminal| {
            terminal.execute_with(functions, &mut *observer);
        });
    }

    /// Changes the size.
    pub fn resize_observed<O: Observer>(&mut self, cols: u16, rows: u16, observer: &mut O) {
        let cols = usize::from(cols.clamp(1, MAX_COLS));
        let rows = usize::from(rows.clamp(1, MAX_ROWS));
        self.guarded(|terminal| {
            terminal.resize_with(cols, rows, &mut *observer);
        });
    }

    /// Changes the size.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.resize_observed(cols, rows, &mut ());
    }

    /// Returns the emulator, to look at.
    pub fn terminal(&self) -> &Terminal {
        &self.terminal
    }

    /// Returns output that brings a blank screen of the same size into this state; `None` within a character, which the
    /// state would not contain.
    pub fn dump(&self) -> Option<String> {
        if !self.decoder.is_complete() {
            return None;
        }
        catch_unwind(AssertUnwindSafe(|| self.terminal.dump())).ok()
    }

    /// Runs `work` on the emulator. If it panics, the screen is blank afterwards.
    fn guarded(&mut self, work: impl FnOnce(&mut Terminal)) {
        let (cols, rows) = self.terminal.size();
        let target = &mut self.terminal;
        if catch_unwind(AssertUnwindSafe(|| work(target))).is_err()
            && let Ok(blank) = Terminal::new(cols, rows)
        {
            self.terminal = blank;
        }
    }
}

/// The treatment of lines that the program clears from the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClearedLines {
    /// They are text, like lines that scroll away.
    Keep,
    /// They are discarded, as on the screen.
    Drop,
}

/// Collects the text of the primary screen as rendered lines: those that scroll off the top, and at the end those that
/// are left. Rows that the terminal wrapped are one line. The alternate screen is left out.
#[derive(Debug)]
pub struct LineCollector {
    cleared: ClearedLines,
    is_clearing: bool,
    /// The last operation has placed the cursor.
    has_placed: bool,
    /// The beginning of a line whose last row has not come yet.
    pending: String,
    /// The row that was added last is full and ends with a blank.
    ends_blank: bool,
    /// Number of rows above the output, which are blank unless the output moves up.
    above: usize,
    lines: Vec<String>,
    /// Size of the lines.
    size: usize,
}

/// Maximum length of one line: a program can wrap without end.
const MAX_LINE_TEXT: usize = 256 << 10;

/// Maximum size of the lines that were not taken; further ones are lost. Eight bytes of output can repeat a character
/// 65,535 times.
const MAX_LINES_TEXT: usize = 8 << 20;

impl LineCollector {
    /// A collector for a new screen.
    pub fn new(cleared: ClearedLines) -> LineCollector {
        LineCollector {
            cleared,
            is_clearing: false,
            has_placed: false,
            pending: String::new(),
            ends_blank: false,
            above: 0,
            lines: Vec::new(),
            size: 0,
        }
    }

    /// Returns a screen whose cursor is in the last row, and a collector of the output from there on: output that moves up from
    /// its first row finds rows above it, as on a terminal that was used before.
    pub fn at_bottom(
        cols: u16,
        rows: u16,
        cleared: ClearedLines,
    ) -> Option<(ScreenEmulator, LineCollector)> {
        let mut screen = ScreenEmulator::new(cols, rows)?;
        let mut collector = LineCollector::new(cleared);
        let (_, rows) = screen.terminal().size();
        collector.above = rows.saturating_sub(1);
        screen.feed(&b"\r\n".repeat(collector.above));
        Some((screen, collector))
    }

    /// Returns the lines that are complete.
    pub fn take_lines(&mut self) -> Vec<String> {
        self.size = 0;
        std::mem::take(&mut self.lines)
    }

    /// Adds the text left on the primary screen, without the blank rows below, and returns the lines that
    /// [`LineCollector::take_lines`] has not returned.
    pub fn finish(mut self, screen: &ScreenEmulator) -> Vec<String> {
        self.collect_screen(screen.terminal());
        self.lines
    }

    fn collect_screen(&mut self, terminal: &Terminal) {
        let before = self.lines.len();
        for line in terminal.primary_screen().all_lines() {
            self.push(line);
        }
        if !self.pending.is_empty() {
            self.end_line();
        }
        while self.lines.len() > before && self.lines.last().is_some_and(String::is_empty) {
            self.lines.pop();
        }
    }

    fn push(&mut self, line: &Line) {
        // The second half of a wide character has a blank and no width.
        let is_blank =
            |cell: Option<&Cell>| cell.is_some_and(|cell| cell.char() == ' ' && cell.width() == 1);
        if self.above > 0 {
            self.above -= 1;
            if line.cells().iter().all(|cell| is_blank(Some(cell))) {
                return;
            }
            self.above = 0;
        }
        // A wide character that does not fit into the last column leaves it blank.
        let is_wide = line.cells().first().is_some_and(|cell| cell.width() == 2);
        if std::mem::take(&mut self.ends_blank) && is_wide {
            self.pending.pop();
        }
        self.ends_blank = line.is_wrapped() && is_blank(line.cells().last());
        // The emulator keeps DEL as a character; terminals ignore it.
        self.pending
            .extend(line.chars().filter(|c| !c.is_control()));
        if !line.is_wrapped() || self.pending.len() > MAX_LINE_TEXT {
            self.end_line();
        }
    }

    fn end_line(&mut self) {
        let end = self.pending.trim_end().len();
        self.pending.truncate(end);
        let line = std::mem::take(&mut self.pending);
        self.size += line.len() + 1;
        if self.size <= MAX_LINES_TEXT {
            self.lines.push(line);
        }
    }
}

impl Observer for LineCollector {
    type Output = ();

    fn before(&mut self, context: &mut Observation<'_>, operation: &Operation) {
        self.is_clearing = matches!(operation, Operation::Function(Function::Ed(EdScope::All)));
        if self.is_clearing {
            self.above = self.above.min(context.terminal().cursor().row);
        }
        // `clear` prints `ESC [H ESC [J` under tmux, screen, vt100 and linux; the emulator keeps nothing of what that erases. A shell that
        // redraws a prompt in the first row erases too, but has not placed the cursor just before.
        let cursor = context.terminal().cursor();
        let clears_below = self.has_placed
            && matches!(operation, Operation::Function(Function::Ed(EdScope::Below)))
            && (cursor.row, cursor.col) == (0, 0)
            && context.terminal().active_screen_kind() == ScreenKind::Primary;
        self.has_placed = matches!(operation, Operation::Function(Function::Cup(..)));
        if clears_below || matches!(operation, Operation::Function(Function::Ris)) {
            self.above = 0;
            match self.cleared {
                ClearedLines::Keep => self.collect_screen(context.terminal()),
                ClearedLines::Drop => self.pending.clear(),
            }
        }
    }

    fn evicted(&mut self, _: &mut Observation<'_>, line: &Line) {
        match self.is_clearing && self.cleared == ClearedLines::Drop {
            true => self.pending.clear(),
            false => self.push(line),
        }
    }

    fn end(&mut self, _: &mut Observation<'_>) {}
}

#[cfg(test)]
mod tests;
