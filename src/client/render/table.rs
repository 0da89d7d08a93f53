//! Tables: rows wait until the table ends, for only then the widths of the columns are known. Past a limit the
//! widths are settled with what has come, and every further row is shown at once.

use super::inline::Inline;
use super::style::Style;
use super::width::display_width;
use super::wrap::Wrap;
use std::borrow::Cow;

/// Rows and bytes that wait at most.
const MAX_ROWS: usize = 500;
const MAX_BYTES: usize = 64 * 1024;
/// A header with more columns is text.
const MAX_COLUMNS: usize = 64;
/// A column is not made narrower than this; a terminal too narrow for it gets a list instead.
const MIN_COLUMN: usize = 3;
/// A width that no cell reaches, so that nothing wraps while it is measured.
const UNWRAPPED: usize = usize::MAX / 4;

#[derive(Clone, Copy, PartialEq)]
enum Align {
    Left,
    Centre,
    Right,
}

/// A table that is being read.
pub(super) struct Table {
    head: Vec<String>,
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
    bytes: usize,
    /// The widths of the columns, once settled; empty: the table is shown as a list.
    widths: Option<Vec<usize>>,
}

impl Table {
    /// A table, if the second of its lines is a delimiter row that fits the first.
    pub(super) fn new(head: &str, delimiters: &str) -> Option<Self> {
        let head = cells(head);
        let aligns = cells(delimiters)
            .iter()
            .map(|cell| align(cell))
            .collect::<Option<Vec<_>>>()?;
        (head.len() == aligns.len() && head.len() <= MAX_COLUMNS).then(|| Self {
            head,
            aligns,
            rows: Vec::new(),
            bytes: 0,
            widths: None,
        })
    }

    /// Takes a row. Returns lines to show, when there are any to show yet.
    pub(super) fn row(&mut self, line: &str, room: usize, color: bool) -> Vec<u8> {
        let mut row = cells(line);
        row.resize(self.head.len(), String::new());
        self.bytes += line.len();
        self.rows.push(row);
        if self.widths.is_none() && self.rows.len() < MAX_ROWS && self.bytes < MAX_BYTES {
            return Vec::new();
        }
        self.flush(room, color)
    }

    /// Shows what has waited. Lines are complete and end with LF.
    pub(super) fn flush(&mut self, room: usize, color: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let first = self.widths.is_none();
        let rows = std::mem::take(&mut self.rows);
        let head: Vec<Cell> = self
            .head
            .iter()
            .map(|text| Cell::new(text, Style::BOLD, color))
            .collect();
        let cells: Vec<Vec<Cell>> = rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|text| Cell::new(text, Style::PLAIN, color))
                    .collect()
            })
            .collect();
        let widths = self
            .widths
            .take()
            .unwrap_or_else(|| settle(&head, &cells, room));
        if widths.is_empty() {
            if first && rows.is_empty() {
                self.list(&vec![String::new(); head.len()], room, color, &mut out);
            }
            for (n, row) in rows.iter().enumerate() {
                if n > 0 || !first {
                    out.push(b'\n');
                }
                self.list(row, room, color, &mut out);
            }
        } else {
            if first {
                self.line(&head, &widths, color, &mut out);
                rule(&widths, color, &mut out);
            }
            for row in &cells {
                self.line(row, &widths, color, &mut out);
            }
        }
        self.widths = Some(widths);
        out
    }

    fn line(&self, row: &[Cell<'_>], widths: &[usize], color: bool, out: &mut Vec<u8>) {
        let cells: Vec<Vec<(Cow<'_, str>, usize)>> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| cell.lines(*width, color))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for y in 0..height {
            for (x, width) in widths.iter().enumerate() {
                if x > 0 {
                    dim(" │ ", color, out);
                }
                let (text, cols) = cells[x]
                    .get(y)
                    .map_or(("", 0), |(text, cols)| (text, *cols));
                let free = width.saturating_sub(cols);
                let before = match self.aligns[x] {
                    Align::Left => 0,
                    Align::Centre => free / 2,
                    Align::Right => free,
                };
                out.resize(out.len() + before, b' ');
                out.extend_from_slice(text.as_bytes());
                if x + 1 < widths.len() {
                    out.resize(out.len() + free - before, b' ');
                }
            }
            out.push(b'\n');
        }
    }

    /// A row as one line for each cell, for want of room.
    fn list(&self, row: &[String], room: usize, color: bool, out: &mut Vec<u8>) {
        for (head, text) in self.head.iter().zip(row) {
            let mut wrap = Wrap::new(room, color, true);
            span(head, Style::BOLD, &mut wrap, out);
            wrap.text(":", false, out);
            wrap.space(false);
            span(text, Style::PLAIN, &mut wrap, out);
            wrap.end_line(out);
        }
    }
}

/// A cell rendered on one line.
struct Cell<'a> {
    source: &'a str,
    style: Style,
    shown: String,
    cols: usize,
}

impl<'a> Cell<'a> {
    fn new(source: &'a str, style: Style, color: bool) -> Self {
        let shown = Self::render(source, UNWRAPPED, style, color);
        let shown = shown.trim_end_matches('\n').to_owned();
        let cols = display_width(&shown);
        Self {
            source,
            style,
            shown,
            cols,
        }
    }

    /// The lines of the cell at a width, with their columns.
    fn lines(&self, width: usize, color: bool) -> Vec<(Cow<'_, str>, usize)> {
        if self.cols <= width {
            return vec![(Cow::Borrowed(&self.shown), self.cols)];
        }
        let shown = Self::render(self.source, width, self.style, color);
        shown
            .lines()
            .map(|line| (Cow::Owned(line.to_owned()), display_width(line)))
            .collect()
    }

    fn render(source: &str, width: usize, style: Style, color: bool) -> String {
        let mut out = Vec::new();
        let mut wrap = Wrap::new(width, color, true);
        span(source, style, &mut wrap, &mut out);
        wrap.end_line(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// Shares the room among the columns: each gets what it needs, as long as that is no more than a fair share of what
/// is left.
fn settle(head: &[Cell<'_>], rows: &[Vec<Cell<'_>>], room: usize) -> Vec<usize> {
    let columns = head.len();
    let need: Vec<usize> = (0..columns)
        .map(|n| {
            rows.iter()
                .map(|row| row[n].cols)
                .fold(head[n].cols.max(MIN_COLUMN), usize::max)
        })
        .collect();
    let Some(mut left) = room.checked_sub(3 * (columns - 1)) else {
        return Vec::new();
    };
    if left < MIN_COLUMN * columns {
        return Vec::new();
    }
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by_key(|n| need[*n]);
    let mut widths = vec![0; columns];
    for (done, n) in order.into_iter().enumerate() {
        widths[n] = need[n].min(left / (columns - done));
        left -= widths[n];
    }
    widths
}

fn rule(widths: &[usize], color: bool, out: &mut Vec<u8>) {
    let bars: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    dim(&bars.join("─┼─"), color, out);
    out.push(b'\n');
}

fn dim(text: &str, color: bool, out: &mut Vec<u8>) {
    if color {
        Style::DIM.write(out);
    }
    out.extend_from_slice(text.as_bytes());
    if color {
        Style::PLAIN.write(out);
    }
}

fn span(text: &str, style: Style, wrap: &mut Wrap, out: &mut Vec<u8>) {
    let mut inline = Inline::default();
    inline.start(style, false);
    inline.push(text, wrap, out);
    inline.end(wrap, out);
}

/// Splits a row at the pipes that are not escaped.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let mut cells = vec![String::new()];
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let last = cells.len() - 1;
        match c {
            '\\' if chars.peek() == Some(&'|') => {
                chars.next();
                cells[last].push('|');
            }
            '\\' => {
                cells[last].push(c);
                cells[last].extend(chars.next());
            }
            '|' => cells.push(String::new()),
            c => cells[last].push(c),
        }
    }
    // The pipe at the end closes the last cell.
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    for cell in &mut cells {
        *cell = cell.trim().to_owned();
    }
    cells
}

/// The alignment that a cell of the delimiter row asks for.
fn align(cell: &str) -> Option<Align> {
    let left = cell.starts_with(':');
    let right = cell.len() > 1 && cell.ends_with(':');
    let dashes = cell.trim_matches(':');
    if dashes.is_empty() || dashes.bytes().any(|c| c != b'-') {
        return None;
    }
    Some(match (left, right) {
        (true, true) => Align::Centre,
        (false, true) => Align::Right,
        _ => Align::Left,
    })
}
