//! A picture of a terminal as SVG, from its cells.

use std::fmt::Write;

use vt100::{Cell, Color};

/// Width and height of a cell, and the size of its letters.
const CELL: (f64, f64) = (8.4, 19.0);
const LETTERS: u32 = 14;

/// Space around the text; above it is the bar of the window.
const MARGIN: f64 = 16.0;
const BAR: f64 = 36.0;

/// The 16 colours of a terminal.
const PALETTE: [&str; 16] = [
    "#414868", "#f7768e", "#9ece6a", "#e0af68", "#7aa2f7", "#bb9af7", "#7dcfff", "#c0caf5",
    "#565f89", "#ff7a93", "#b9f27c", "#ff9e64", "#7da6ff", "#c79bff", "#6fd6ff", "#ffffff",
];
const FOREGROUND: &str = "#c0caf5";

/// Attributes of the text of these cells, as SVG.
fn style(cell: &Cell) -> String {
    let colour = match cell.fgcolor() {
        Color::Default => FOREGROUND.to_owned(),
        Color::Idx(n) => PALETTE
            .get(usize::from(n))
            .unwrap_or(&FOREGROUND)
            .to_string(),
        Color::Rgb(r, g, b) => format!("#{r:02x}{g:02x}{b:02x}"),
    };
    let mut style = format!("fill=\"{colour}\"");
    let flags = [
        (cell.bold(), " font-weight=\"bold\""),
        (cell.italic(), " font-style=\"italic\""),
        (cell.dim(), " opacity=\"0.65\""),
    ];
    style.extend(
        flags
            .iter()
            .filter(|(is_set, _)| *is_set)
            .map(|(_, text)| *text),
    );
    style
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Draws rows of cells in a window of `cols` columns. `title` is read aloud.
pub fn draw(title: &str, rows: &[Vec<Cell>], cols: u16) -> String {
    let width = f64::from(cols) * CELL.0 + 2.0 * MARGIN;
    let height = rows.len() as f64 * CELL.1 + BAR + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         role=\"img\" aria-labelledby=\"title\">\n<title id=\"title\">{}</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#1a1b26\"/>\n",
        escaped(title)
    );
    for (n, colour) in ["#f7768e", "#e0af68", "#9ece6a"].iter().enumerate() {
        let _ = writeln!(
            svg,
            "<circle cx=\"{}\" cy=\"18\" r=\"5.5\" fill=\"{colour}\"/>",
            22 + 18 * n
        );
    }
    let _ = writeln!(
        svg,
        "<g font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"{LETTERS}\" \
         style=\"white-space:pre\" xml:space=\"preserve\">"
    );
    for (n, row) in rows.iter().enumerate() {
        let y = BAR + (n as f64 + 0.75) * CELL.1;
        let mut runs: Vec<(usize, String, String)> = Vec::new();
        for (col, cell) in row.iter().enumerate() {
            let (style, text) = (style(cell), cell.contents());
            let text = if text.is_empty() { " " } else { text };
            match runs.last_mut() {
                Some((_, last, run)) if *last == style => run.push_str(text),
                _ => runs.push((col, style, text.to_owned())),
            }
        }
        for (col, style, run) in runs {
            let text = run.trim();
            if text.is_empty() {
                continue;
            }
            let blank = run.chars().take_while(|c| *c == ' ').count();
            let x = MARGIN + (col + blank) as f64 * CELL.0;
            // The same width in every font.
            let length = text.chars().count() as f64 * CELL.0;
            let _ = writeln!(
                svg,
                "<text x=\"{x:.1}\" y=\"{y:.2}\" textLength=\"{length:.1}\" {style}>{}</text>",
                escaped(text)
            );
        }
    }
    svg + "</g>\n</svg>\n"
}
