//! The progress of a download on stderr: one line that is redrawn on a terminal, otherwise a line per tenth.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::free_space::size;
use crate::client::terminal;

/// Minimum time between two drawings.
const REDRAW: Duration = Duration::from_millis(100);
/// Maximum width of the bar.
const MAX_BAR: usize = 30;

/// The progress of one download.
#[derive(Debug)]
pub struct DownloadProgress {
    name: String,
    is_terminal: bool,
    started: Instant,
    /// Bytes that were there at the start.
    kept: Option<u64>,
    last_drawn: Option<Instant>,
    /// The last tenth that was printed.
    tenth: u64,
}

impl DownloadProgress {
    /// The progress of the download of `name`.
    pub fn new(name: &str) -> DownloadProgress {
        DownloadProgress {
            name: name.to_owned(),
            is_terminal: std::io::stderr().is_terminal(),
            started: Instant::now(),
            kept: None,
            last_drawn: None,
            tenth: 0,
        }
    }

    /// Reports that `done` bytes of `total` are there.
    pub fn update(&mut self, done: u64, total: Option<u64>) {
        if self.kept.is_none() {
            (self.kept, self.started) = (Some(done), Instant::now());
            self.tenth = tenth(done, total);
        }
        if self.is_terminal {
            let is_due = self.last_drawn.is_none_or(|at| at.elapsed() >= REDRAW);
            if is_due || Some(done) == total {
                self.last_drawn = Some(Instant::now());
                let width = terminal::size(&std::io::stderr()).0;
                self.write(&format!("\r{}\x1b[K", self.line(done, total, width)));
            }
        } else if tenth(done, total) > self.tenth {
            self.tenth = tenth(done, total);
            let percent = self.tenth * 10;
            let total = total.map(size).unwrap_or_default();
            self.write(&format!("{}: {percent} % of {total}\n", self.name));
        }
    }

    /// Ends the line.
    pub fn finish(&mut self) {
        if self.last_drawn.take().is_some() {
            self.write("\n");
        }
    }

    fn line(&self, done: u64, total: Option<u64>, width: usize) -> String {
        let moved = done.saturating_sub(self.kept.unwrap_or_default());
        let seconds = self.started.elapsed().as_secs_f64();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is shown with three digits"
        )]
        let rate = match seconds > 0.5 {
            true => (moved as f64 / seconds) as u64,
            false => 0,
        };
        progress_line(&self.name, done, total, rate, width)
    }

    fn write(&self, text: &str) {
        // A closed stderr cannot be reported anywhere.
        let mut stderr = std::io::stderr();
        let _ = stderr
            .write_all(text.as_bytes())
            .and_then(|()| stderr.flush());
    }
}

fn tenth(done: u64, total: Option<u64>) -> u64 {
    match total {
        Some(total) if total > 0 => u64::try_from(u128::from(done) * 10 / u128::from(total))
            .unwrap_or(10)
            .min(10),
        _ => 0,
    }
}

/// Returns the line: name, bar, sizes, rate in bytes per second, and time left. Parts that do not fit are left out, the
/// bar first.
fn progress_line(name: &str, done: u64, total: Option<u64>, rate: u64, width: usize) -> String {
    let sizes = match total {
        Some(total) => format!("{}/{}", size(done), size(total)),
        None => size(done),
    };
    let mut tail = String::new();
    if rate > 0 {
        tail = format!("  {}/s", size(rate));
        if let Some(total) = total {
            let seconds = total.saturating_sub(done) / rate;
            tail.push_str(&format!("  {} left", time(seconds)));
        }
    }
    // The last column stays free, because some terminals wrap after it.
    let room = width.saturating_sub(1);
    let text = format!("{sizes}{tail}");
    let used = name.len() + 2 + text.len();
    if let Some(total) = total.filter(|total| *total > 0)
        && room >= used + 12
    {
        let columns = (room - used - 4).min(MAX_BAR);
        let filled = u128::from(done.min(total)) * columns as u128 / u128::from(total);
        let filled = usize::try_from(filled).unwrap_or(columns);
        let bar = "#".repeat(filled) + &"-".repeat(columns - filled);
        return format!("{name}  [{bar}]  {text}");
    }
    let line = match room >= used {
        true => format!("{name}  {text}"),
        false => text,
    };
    line.chars().take(room).collect()
}

fn time(seconds: u64) -> String {
    match seconds {
        0..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::progress_line;

    #[test]
    fn the_line_fits_every_width() {
        let total = Some(2_000_000_000);
        let line = progress_line("qwen3-4b", 500_000_000, total, 10_000_000, 100);
        assert_eq!(
            line,
            "qwen3-4b  [#######-----------------------]  500 MB/2.0 GB  10 MB/s  2:30 left"
        );
        for width in 0..120 {
            for (done, total, rate) in [(0, None, 0), (u64::MAX, Some(1), 1), (5, Some(0), 9)] {
                let line = progress_line("qwen3-4b", done, total, rate, width);
                assert!(line.len() <= width.saturating_sub(1), "{width}: {line}");
            }
        }
        assert_eq!(
            progress_line("qwen3-4b", 5, total, 0, 26),
            "qwen3-4b  5 B/2.0 GB"
        );
        assert_eq!(
            progress_line("x", 5, Some(7_200_000_005), 1_000_000, 40),
            "x  5 B/7.2 GB  1 MB/s  2:00 h left"
        );
    }
}
