//! What is shown while the index is brought up to date, which may take a while after it was deleted.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::client::terminal::size;
use crate::history::index::{Step, Watch};

/// What takes no longer is not worth a word.
const MOMENT: Duration = Duration::from_millis(300);
/// How often the bar moves.
const PACE: Duration = Duration::from_millis(100);
/// The most columns of the bar.
const BAR: usize = 40;

/// Shows a bar on a terminal, and on anything why the index is made anew.
pub fn watch() -> Watch {
    let start = Instant::now();
    let mut drawn: Option<Instant> = None;
    Box::new(move |step| {
        let stderr = std::io::stderr();
        let text = match step {
            Step::Anew(why) => format!("[aish] the index of the record {why}; it is made anew\n"),
            Step::Read(done, all) if done >= all => match drawn.take() {
                Some(_) => "\r\x1b[K".to_string(),
                None => return,
            },
            Step::Read(done, all) => {
                let moves = drawn.is_none_or(|at| at.elapsed() >= PACE);
                if !moves || start.elapsed() < MOMENT || !stderr.is_terminal() {
                    return;
                }
                drawn = Some(Instant::now());
                format!("\r{}\x1b[K", bar(done, all, size(&stderr).0))
            }
        };
        // There is nowhere else to say that stderr is closed.
        let _ = (&stderr).write_all(text.as_bytes());
    })
}

fn bar(done: u64, all: u64, width: usize) -> String {
    let part = done as f64 / all.max(1) as f64;
    let head = format!(
        "[aish] reading the record {:3.0} % ",
        (part * 100.0).floor()
    );
    let room = width.saturating_sub(head.len() + 1).min(BAR);
    let full = (part * room as f64) as usize;
    format!(
        "{head}{}{}",
        "━".repeat(full),
        "┄".repeat(room - full.min(room))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fits_and_fills() {
        assert_eq!(
            bar(0, 4, 45),
            format!("[aish] reading the record   0 % {}", "┄".repeat(12))
        );
        assert_eq!(
            bar(1, 2, 45),
            format!(
                "[aish] reading the record  50 % {}{}",
                "━".repeat(6),
                "┄".repeat(6)
            )
        );
        assert_eq!(bar(3, 3, 200).chars().filter(|c| *c == '━').count(), BAR);
        assert!(bar(1, 2, 10).ends_with("% "));
    }
}
