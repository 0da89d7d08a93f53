//! Tables. Rows wait until the table ends, because the column widths depend on all of them. Past a limit, the widths are
//! computed from the rows so far, and each further row is shown immediately.

use super::inline::InlineRenderer;
use super::style::TextStyle;
use super::width::display_width;
use super::wrap::LineWrapper;
use std::borrow::Cow;

/// Maximum number of rows and bytes that wait.
const MAX_ROWS: usize = 500;
const MAX_BYTES: usize = 64 * 1024;
/// Maximum number of columns; a header with more is text.
const MAX_COLUMNS: usize = 64;
/// Minimum width of a column; a terminal too narrow for it gets a list instead.
const MIN_COLUMN: usize = 3;
/// Width used for measuring, wider than any cell, so that nothing wraps.
const UNWRAPPED: usize = usize::MAX / 4;

#[derive(Clone, Copy, PartialEq)]
enum ColumnAlignment {
    Left,
    Centre,
    Right,
}

/// A table being read.
pub(super) struct Table {
    head: Vec<String>,
    aligns: Vec<ColumnAlignment>,
    rows: Vec<Vec<String>>,
    bytes: usize,
    /// Column widths, once computed; empty if the table is shown as a list.
    widths: Option<Vec<usize>>,
}

impl Table {
    /// Creates a table if `delimiters` is a delimiter row with as many cells as `head`.
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

    /// Adds a row. Returns lines to show, if any.
    pub(super) fn row(&mut self, line: &str, available: usize, color: bool) -> Vec<u8> {
        let mut row = cells(line);
        row.resize(self.head.len(), String::new());
        self.bytes += line.len();
        self.rows.push(row);
        if self.widths.is_none() && self.rows.len() < MAX_ROWS && self.bytes < MAX_BYTES {
            return Vec::new();
        }
        self.flush(available, color)
    }

    /// Returns the waiting rows as complete lines, each with its LF.
    pub(super) fn flush(&mut self, available: usize, color: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let first = self.widths.is_none();
        let rows = std::mem::take(&mut self.rows);
        let head: Vec<TableCell> = self
            .head
            .iter()
            .map(|text| TableCell::new(text, TextStyle::BOLD, color))
            .collect();
        let cells: Vec<Vec<TableCell>> = rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|text| TableCell::new(text, TextStyle::PLAIN, color))
                    .collect()
            })
            .collect();
        let widths = self
            .widths
            .take()
            .unwrap_or_else(|| column_widths(&head, &cells, available));
        if widths.is_empty() {
            if first && rows.is_empty() {
                self.write_as_list(&vec![String::new(); head.len()], available, color, &mut out);
            }
            for (n, row) in rows.iter().enumerate() {
                if n > 0 || !first {
                    out.push(b'\n');
                }
                self.write_as_list(row, available, color, &mut out);
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

    fn line(&self, row: &[TableCell<'_>], widths: &[usize], color: bool, out: &mut Vec<u8>) {
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
                    ColumnAlignment::Left => 0,
                    ColumnAlignment::Centre => free / 2,
                    ColumnAlignment::Right => free,
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

    /// Writes a row as a list, one line per cell, for narrow terminals.
    fn write_as_list(&self, row: &[String], available: usize, color: bool, out: &mut Vec<u8>) {
        for (head, text) in self.head.iter().zip(row) {
            let mut wrap = LineWrapper::new(available, color, true);
            span(head, TextStyle::BOLD, &mut wrap, out);
            wrap.text(":", false, out);
            wrap.space(false);
            span(text, TextStyle::PLAIN, &mut wrap, out);
            wrap.end_line(out);
        }
    }
}

/// A cell, rendered on one line.
struct TableCell<'a> {
    source: &'a str,
    style: TextStyle,
    shown: String,
    cols: usize,
}

impl<'a> TableCell<'a> {
    fn new(source: &'a str, style: TextStyle, color: bool) -> Self {
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

    /// The lines of the cell at a width, with the columns each takes.
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

    fn render(source: &str, width: usize, style: TextStyle, color: bool) -> String {
        let mut out = Vec::new();
        let mut wrap = LineWrapper::new(width, color, true);
        span(source, style, &mut wrap, &mut out);
        wrap.end_line(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// Distributes the columns: each gets what it needs, up to a fair share of what is left.
fn column_widths(
    head: &[TableCell<'_>],
    rows: &[Vec<TableCell<'_>>],
    available: usize,
) -> Vec<usize> {
    let columns = head.len();
    let need: Vec<usize> = (0..columns)
        .map(|n| {
            rows.iter()
                .map(|row| row[n].cols)
                .fold(head[n].cols.max(MIN_COLUMN), usize::max)
        })
        .collect();
    let Some(mut left) = available.checked_sub(3 * (columns - 1)) else {
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
        TextStyle::DIM.write(out);
    }
    out.extend_from_slice(text.as_bytes());
    if color {
        TextStyle::PLAIN.write(out);
    }
}

fn span(text: &str, style: TextStyle, wrap: &mut LineWrapper, out: &mut Vec<u8>) {
    let mut inline = InlineRenderer::default();
    inline.start(style, false);
    inline.cell = true;
    inline.push(text, wrap, out);
    inline.end(wrap, out);
}

/// Splits a row at unescaped pipes.
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
    // The final pipe closes the last cell.
    if cells.len() > 1 && cells.last().is_some_and(|cell| cell.trim().is_empty()) {
        cells.pop();
    }
    for cell in &mut cells {
        *cell = cell.trim().to_owned();
    }
    cells
}

/// Alignment that a cell of the delimiter row requests.
fn align(cell: &str) -> Option<ColumnAlignment> {
    let left = cell.starts_with(':');
    let right = cell.len() > 1 && cell.ends_with(':');
    let dashes = cell.trim_matches(':');
    if dashes.is_empty() || dashes.bytes().any(|c| c != b'-') {
        return None;
    }
    Some(match (left, right) {
        (true, true) => ColumnAlignment::Centre,
        (false, true) => ColumnAlignment::Right,
        _ => ColumnAlignment::Left,
    })
}
