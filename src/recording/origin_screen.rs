//! A screen that knows for each cell which byte of the output drew it.
//!
//! The emulator has no such notion, but each of its cells has two colours of 24 bits. Here the recorded colours are ignored,
//! and each character is drawn in the colours that encode its place. So whatever moves cells about (scrolling, wrapping,
//! insertion, a resize) takes the place along.

use avt::parser::{Function, SgrOp, SgrOps};
use avt::{Cell, Color, Line, Observation, Observer, Rgb, ScreenKind};

use super::screen::ScreenEmulator;

/// Text, and for each of its characters the place in the output.
#[derive(Debug, Default)]
pub struct PlacedText {
    /// The text.
    pub text: String,
    /// For each character that was drawn: its offset in the text, and its place in the output. In order of the text.
    pub places: Vec<(usize, u64)>,
}

impl PlacedText {
    /// Appends a character that is at `place`.
    pub fn push(&mut self, c: char, place: u64) {
        self.places.push((self.text.len(), place));
        self.text.push(c);
    }

    /// Returns the places of the characters from `start` to `end`.
    pub fn places_of(&self, start: usize, end: usize) -> impl Iterator<Item = u64> {
        let from = self.places.partition_point(|(at, _)| *at < start);
        let places = self.places.get(from..).unwrap_or_default().iter();
        places
            .take_while(move |(at, _)| *at < end)
            .map(|(_, place)| *place)
    }
}

/// A row: its cells, and whether the terminal wrapped it.
type Row = (Vec<Cell>, bool);

/// The rows that scrolled off the primary screen.
#[derive(Debug, Default)]
struct EvictedRows(Vec<Row>);

/// Maximum number of cells that are kept until the next search. Output that scrolls away more in one go is hostile.
const MAX_EVICTED: usize = 1 << 20;

impl Observer for EvictedRows {
    type Output = ();

    fn evicted(&mut self, _: &mut Observation<'_>, line: &Line) {
        let cells: usize = self.0.iter().map(|(cells, _)| cells.len()).take(1).sum();
        if self.0.len().saturating_mul(cells) < MAX_EVICTED {
            self.0.push((line.cells().to_vec(), line.is_wrapped()));
        }
    }

    fn end(&mut self, _: &mut Observation<'_>) {}
}

/// See the module.
#[derive(Debug)]
pub struct OriginScreen {
    screen: ScreenEmulator,
    evicted: EvictedRows,
}

impl OriginScreen {
    /// Creates a blank screen. `None` never happens for a size within the limits.
    pub fn new(cols: u16, rows: u16) -> Option<OriginScreen> {
        Some(OriginScreen {
            screen: ScreenEmulator::new(cols, rows)?,
            evicted: EvictedRows::default(),
        })
    }

    /// Executes a function that is at `place` in the output.
    pub fn apply(&mut self, place: u64, function: Function) {
        match function {
            Function::Sgr(_) => {}
            Function::Print(_) => {
                let functions = [Function::Sgr(colors(place)), function];
                self.screen.execute_observed(functions, &mut self.evicted);
            }
            function => self.screen.execute_observed([function], &mut self.evicted),
        }
    }

    /// Changes the size.
    pub fn resize(&mut self, cols: u16, rows: u16) {
        self.screen.resize_observed(cols, rows, &mut self.evicted);
    }

    /// Returns whether enough rows have scrolled away that they should be searched.
    pub fn is_full(&self) -> bool {
        self.evicted.0.len() > 1000
    }

    /// Appends the text of the rows that have scrolled away since the last call to `transcript`, and returns what else has to
    /// be searched: these rows with the screen below them, with the rows joined that the terminal wrapped; the same with all
    /// full rows joined, if that differs; and the alternate screen.
    pub fn take_texts(&mut self, transcript: &mut PlacedText) -> Vec<PlacedText> {
        let mut rows = std::mem::take(&mut self.evicted.0);
        append(&rows, transcript, |(_, is_wrapped)| *is_wrapped);
        let terminal = self.screen.terminal();
        let row = |line: &Line| (line.cells().to_vec(), line.is_wrapped());
        rows.extend(terminal.primary_screen().all_lines().map(row));
        let mut texts = Vec::new();
        add_texts(&rows, &mut texts);
        if terminal.active_screen_kind() == ScreenKind::Alternate {
            let rows: Vec<Row> = terminal.screen().visible_lines().map(row).collect();
            add_texts(&rows, &mut texts);
        }
        texts
    }

    /// Appends the text of the primary screen, at the end.
    pub fn append_screen(&self, transcript: &mut PlacedText) {
        let lines = self.screen.terminal().primary_screen().all_lines();
        let rows: Vec<Row> = lines
            .map(|line| (line.cells().to_vec(), line.is_wrapped()))
            .collect();
        append(&rows, transcript, |(_, is_wrapped)| *is_wrapped);
    }
}

fn add_texts(rows: &[Row], texts: &mut Vec<PlacedText>) {
    texts.push(joined(rows, |(_, is_wrapped)| *is_wrapped));
    // A program that wraps by itself fills its rows.
    let is_full = |(cells, _): &Row| {
        cells
            .last()
            .is_some_and(|cell| cell.char() != ' ' || cell.width() == 0)
    };
    if rows.iter().any(|row| is_full(row) && !row.1) {
        texts.push(joined(rows, |row| row.1 || is_full(row)));
    }
}

fn joined(rows: &[Row], is_continued: impl Fn(&Row) -> bool) -> PlacedText {
    let mut out = PlacedText::default();
    append(rows, &mut out, is_continued);
    out
}

fn append(rows: &[Row], out: &mut PlacedText, is_continued: impl Fn(&Row) -> bool) {
    for row in rows {
        let (cells, _) = row;
        let continues = is_continued(row);
        let end = match continues {
            true => cells.len(),
            false => cells
                .iter()
                .rposition(|cell| cell.char() != ' ')
                .map_or(0, |at| at + 1),
        };
        for cell in cells.iter().take(end).filter(|cell| cell.width() > 0) {
            match place(cell) {
                // A space needs no redaction, and its place may be that of another character: erased cells have the last
                // colours.
                Some(place) if cell.char() != ' ' => out.push(cell.char(), place),
                _ => out.text.push(cell.char()),
            }
        }
        if !continues {
            out.text.push('\n');
        }
    }
}

fn colors(place: u64) -> SgrOps {
    // 0 marks cells that were not drawn.
    let code = place + 1;
    let color = |shift: u32| {
        let [r, g, b, ..] = (code >> shift).to_le_bytes();
        Color::rgb(r, g, b)
    };
    SgrOps::from(
        &[
            SgrOp::SetForegroundColor(color(0)),
            SgrOp::SetBackgroundColor(color(24)),
        ][..],
    )
}

fn place(cell: &Cell) -> Option<u64> {
    let value = |color: Option<Color>| match color {
        Some(Color::RGB(Rgb { r, g, b })) => Some(u64::from_le_bytes([r, g, b, 0, 0, 0, 0, 0])),
        _ => None,
    };
    let low = value(cell.pen().foreground())?;
    let high = value(cell.pen().background())?;
    (low | high << 24).checked_sub(1)
}
