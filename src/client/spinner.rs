//! The spinner on stderr while a person waits.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use super::terminal;
use super::text_format::cut;

/// Its frames; [`super::request_loop`] shows the next one at an interval.
const FRAMES: [&str; 8] = ["⠋", "⠙", "⠸", "⢰", "⣠", "⣄", "⡆", "⠇"];

/// A line of stderr with a frame and a text.
#[derive(Debug, Default)]
pub struct Spinner {
    /// Index of the frame that is shown.
    frame: Option<usize>,
    /// Width of the line.
    width: usize,
}

impl Spinner {
    /// Shows the next frame with a text after it, in the foreground.
    pub fn spin(&mut self, text: &str, color: bool) {
        // In the background the line belongs to the shell's line editor.
        if !terminal::foreground(&io::stderr()) {
            self.frame = None;
            return;
        }
        let frame = self.frame.map_or(0, |n| n + 1);
        self.frame = Some(frame);
        let sign = if color {
            FRAMES[frame % FRAMES.len()]
        } else {
            "."
        };
        let width = terminal::size(&io::stderr()).0.saturating_sub(2);
        let line = match text {
            "" => sign.to_string(),
            text => cut(&format!("{sign} {text}"), width),
        };
        let taken = line.width();
        let rest = " ".repeat(
            self.width
                .saturating_sub(taken)
                .min(width.saturating_sub(taken)),
        );
        self.width = taken;
        // Only decoration: a lost terminal is reported by the next write.
        let _ = write!(io::stderr(), "\r{line}{rest} \r");
    }

    /// Removes the line.
    pub fn clear(&mut self) {
        let taken = std::mem::take(&mut self.width);
        if self.frame.take().is_some() && terminal::foreground(&io::stderr()) {
            let width = terminal::size(&io::stderr()).0.saturating_sub(1);
            let _ = write!(io::stderr(), "\r{}\r", " ".repeat((taken + 1).min(width)));
        }
    }
}
