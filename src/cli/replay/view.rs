//! Frames of a replay: the emulator's screen, drawn on the real terminal.
//!
//! Nothing of the recorded output reaches the terminal itself. A frame consists of cursor positions, styles and visible
//! characters, so that titles, clipboard writes, queries and everything else that output can do to a terminal stay in the
//! emulator.

use avt::{Cell, Color, Line, Pen};
use unicode_width::UnicodeWidthChar;

use crate::recording::screen::ScreenEmulator;
use crate::safety::text;

/// Placeholder for a character that is not shown.
const HIDDEN: char = '·';

/// The frame on the terminal, so that only what changed is drawn.
#[derive(Debug)]
pub struct FrameView {
    cols: usize,
    rows: usize,
    has_colors: bool,
    /// The rows as they were drawn; empty: unknown.
    drawn: Vec<String>,
}

impl FrameView {
    /// A view on a terminal of this size.
    pub fn new((cols, rows): (usize, usize), has_colors: bool) -> FrameView {
        FrameView {
            cols,
            rows,
            has_colors,
            drawn: Vec::new(),
        }
    }

    /// The terminal has another size, or something else has drawn on it.
    pub fn reset(&mut self, (cols, rows): (usize, usize)) {
        (self.cols, self.rows) = (cols, rows);
        self.drawn.clear();
    }

    /// Returns the number of rows for the screen; the last row of the terminal has the status line.
    fn height(&self) -> usize {
        match self.rows {
            0..=2 => self.rows,
            rows => rows - 1,
        }
    }

    /// Returns what brings the terminal to this frame. A larger screen is cropped around the cursor's row.
    pub fn frame(&mut self, screen: &ScreenEmulator, status: &str) -> String {
        let terminal = screen.terminal();
        let cursor = terminal.cursor();
        let height = self.height();
        let all = terminal.size().1;
        let top = (cursor.row + 1)
            .saturating_sub(height)
            .min(all.saturating_sub(height));
        let mut out = String::from("\x1b[?25l");
        if self.drawn.is_empty() {
            out.push_str("\x1b[0m\x1b[2J");
            self.drawn = vec![String::new(); self.rows];
        }
        let lines = terminal.screen().visible_lines().skip(top);
        let rows = lines.map(|line| self.row(line)).take(height);
        let mut rows: Vec<String> = rows.collect();
        rows.resize(height, String::new());
        if height < self.rows {
            rows.push(format!("\x1b[7m{status}"));
        }
        for (at, (row, drawn)) in rows.into_iter().zip(&mut self.drawn).enumerate() {
            if *drawn != row {
                // Erased first: after a full row the cursor is still on the last column.
                out.push_str(&format!("\x1b[{};1H\x1b[0m\x1b[K{row}\x1b[0m", at + 1));
                *drawn = row;
            }
        }
        if cursor.visible && cursor.row >= top && cursor.row - top < height {
            let col = cursor.col.min(self.cols.saturating_sub(1));
            out.push_str(&format!(
                "\x1b[{};{}H\x1b[?25h",
                cursor.row - top + 1,
                col + 1
            ));
        }
        out
    }

    /// Returns what leaves the frame on the terminal, without the status line, and puts the cursor below it.
    pub fn leave(&self, screen: Option<&ScreenEmulator>) -> String {
        let mut last = 0;
        if let Some(screen) = screen {
            let lines = screen.terminal().screen().visible_lines();
            let used = lines
                .enumerate()
                .filter(|(_, line)| line.chars().any(|c| c != ' '));
            last = used.last().map_or(0, |(at, _)| at + 1);
        }
        let row = last.clamp(1, self.height().max(1));
        format!(
            "\x1b[0m\x1b[{};1H\x1b[2K\x1b[{row};1H\x1b[?25h\r\n",
            self.rows.max(1)
        )
    }

    fn row(&self, line: &Line) -> String {
        let mut out = String::new();
        let mut pen = Pen::default();
        let cells = line.cells();
        // Trailing blanks are erased.
        let is_blank = |cell: &&Cell| cell.char() == ' ' && cell.pen().is_default();
        let blanks = cells.iter().rev().take_while(is_blank).count();
        let used = (cells.len() - blanks).min(self.cols);
        let mut base: Option<char> = None;
        for (col, cell) in cells.iter().take(used).enumerate() {
            if cell.width() == 0 {
                continue;
            }
            if *cell.pen() != pen {
                pen = *cell.pen();
                self.write_pen(&pen, &mut out);
            }
            let c = cell.char();
            if (' '..='~').contains(&c) {
                out.push(c);
                base = Some(c);
                continue;
            }
            match (c.width(), base) {
                // The emulator gives a mark a separate cell, the terminal draws it onto the character before.
                (Some(0), Some(base)) => {
                    let cluster: String = [base, c].into_iter().collect();
                    if text::prose(&cluster) == cluster {
                        out.push(c);
                    }
                    out.push_str(&format!("\x1b[{}G ", col + 1));
                }
                (Some(1 | 2), _) if col + usize::from(cell.width()) <= self.cols => {
                    let shown = text::prose(c.encode_utf8(&mut [0; 4]));
                    out.push(if shown.chars().eq([c]) { c } else { HIDDEN });
                    // Terminals disagree about the width of many characters.
                    out.push_str(&format!("\x1b[{}G", col + usize::from(cell.width()) + 1));
                }
                _ => out.push(' '),
            }
            base = Some(c);
        }
        out
    }

    fn write_pen(&self, pen: &Pen, out: &mut String) {
        out.push_str("\x1b[0");
        for (is_on, code) in [
            (pen.is_bold(), ";1"),
            (pen.is_faint(), ";2"),
            (pen.is_italic(), ";3"),
            (pen.is_underline(), ";4"),
            (pen.is_inverse(), ";7"),
            (pen.is_strikethrough(), ";9"),
        ] {
            if is_on {
                out.push_str(code);
            }
        }
        if self.has_colors {
            let colors = [(pen.foreground(), 30), (pen.background(), 40)];
            for (color, base) in colors {
                if let Some(color) = color {
                    write_color(color, base, out);
                }
            }
        }
        out.push('m');
    }
}

fn write_color(color: Color, base: u16, out: &mut String) {
    let code = match color {
        Color::Indexed(c @ 0..8) => format!(";{}", base + u16::from(c)),
        Color::Indexed(c @ 8..16) => format!(";{}", base + 52 + u16::from(c)),
        Color::Indexed(c) => format!(";{};5;{c}", base + 8),
        Color::RGB(c) => format!(";{};2;{};{};{}", base + 8, c.r, c.g, c.b),
    };
    out.push_str(&code);
}

#[cfg(test)]
mod tests;
