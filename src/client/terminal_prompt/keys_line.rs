//! The line of keys below a question, broken where the terminal is narrow.

use unicode_width::UnicodeWidthStr;

/// Joins labels, each ending with a blank, and breaks the line where the next one does not fit.
pub fn broken(labels: &[String], width: usize) -> String {
    let mut out = String::new();
    let mut column = 1;
    for label in labels {
        if column > 2 && column + 1 + label.trim_end().width() > width.saturating_sub(2) {
            out.push_str("\n ");
            column = 1;
        }
        out.push(' ');
        out.push_str(label);
        column += 1 + label.width();
    }
    out
}

/// Returns the column where the last line of the keys ends.
pub fn end_column(line: &str) -> usize {
    let last = line.rsplit('\n').next().unwrap_or_default();
    match last.rsplit_once('└') {
        Some((_, keys)) => 1 + keys.trim_start_matches("\x1b[0m").width(),
        None => last.width(),
    }
}
