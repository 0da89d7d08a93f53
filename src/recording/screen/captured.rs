//! The text that captured output leaves on a terminal.

use std::time::{Duration, Instant};

use super::{ClearedLines, LineCollector, SLICE};

/// Maximum time for rendering an output; of an output that takes longer, the escape sequences are removed. Nine bytes can draw 65,535
/// characters, and the daemon does not wait long for an output.
const TIME_LIMIT: Duration = Duration::from_millis(250);

/// Returns the text as a screen of this size (columns, rows) shows it: without colours, and the last state of the text that was drawn
/// over, such as a progress bar.
pub fn captured_text(bytes: &[u8], (columns, rows): (usize, usize)) -> String {
    let cells = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let plain = || String::from_utf8_lossy(&strip_ansi_escapes::strip(bytes)).into_owned();
    let (columns, rows) = (cells(columns), cells(rows));
    let Some((mut screen, mut collector)) =
        LineCollector::at_bottom(columns, rows, ClearedLines::Drop)
    else {
        return plain();
    };
    let deadline = Instant::now() + TIME_LIMIT;
    let slices = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .flat_map(|line| line.chunks(SLICE));
    for line in slices {
        if Instant::now() > deadline {
            return plain();
        }
        // A pty may pass LF on as it is; the terminal makes CR LF of it.
        match line.strip_suffix(b"\n") {
            Some(text) => {
                screen.feed_observed(text, &mut collector);
                screen.feed_observed(b"\r\n", &mut collector);
            }
            None => screen.feed_observed(line, &mut collector),
        }
    }
    let mut lines = collector.take_lines();
    lines.extend(collector.finish(&screen));
    let mut text = lines.join("\n");
    if bytes.ends_with(b"\n") && !text.is_empty() {
        text.push('\n');
    }
    text
}
