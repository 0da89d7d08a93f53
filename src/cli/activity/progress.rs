//! Progress bar while the index is updated; a rebuild of a deleted index takes a while.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::client::terminal::size;
use crate::history::index::{IndexProgress, ProgressWatch};

/// Time after which the bar appears.
const SHOW_AFTER: Duration = Duration::from_millis(300);
/// Time between two updates of the bar.
const UPDATE_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum width of the bar.
const MAX_BAR_WIDTH: usize = 40;

/// Shows a bar if stderr is a terminal, and in any case the reason if the index is rebuilt.
pub fn watch() -> ProgressWatch {
    let start = Instant::now();
    let mut drawn: Option<Instant> = None;
    Box::new(move |step| {
        let stderr = std::io::stderr();
        let text = match step {
            IndexProgress::Anew(reason) => {
                format!("[aish] the index of the journal {reason}; rebuilding it\n")
            }
            IndexProgress::Read(done, all) if done >= all => match drawn.take() {
                Some(_) => "\r\x1b[K".to_string(),
                None => return,
            },
            IndexProgress::Read(done, all) => {
                let is_due = drawn.is_none_or(|at| at.elapsed() >= UPDATE_INTERVAL);
                if !is_due || start.elapsed() < SHOW_AFTER || !stderr.is_terminal() {
                    return;
                }
                drawn = Some(Instant::now());
                format!("\r{}\x1b[K", bar(done, all, size(&stderr).0))
            }
        };
        // A closed stderr cannot be reported anywhere.
        let _ = (&stderr).write_all(text.as_bytes());
    })
}

fn bar(done: u64, all: u64, width: usize) -> String {
    let part = done as f64 / all.max(1) as f64;
    let label = format!(
        "[aish] reading the journal {:3.0} % ",
        (part * 100.0).floor()
    );
    let available = width.saturating_sub(label.len() + 1).min(MAX_BAR_WIDTH);
    let full = (part * available as f64) as usize;
    format!(
        "{label}{}{}",
        "━".repeat(full),
        "┄".repeat(available - full.min(available))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_fits_and_fills() {
        assert_eq!(
            bar(0, 4, 46),
            format!("[aish] reading the journal   0 % {}", "┄".repeat(12))
        );
        assert_eq!(
            bar(1, 2, 46),
            format!(
                "[aish] reading the journal  50 % {}{}",
                "━".repeat(6),
                "┄".repeat(6)
            )
        );
        assert_eq!(
            bar(3, 3, 200).chars().filter(|c| *c == '━').count(),
            MAX_BAR_WIDTH
        );
        assert!(bar(1, 2, 10).ends_with("% "));
    }
}
