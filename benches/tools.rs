//! A turn of 20 calls of `read_file` on 20 files, without the time of the model, compared with reading the same files: in 20 answers
//! of one call, and in one answer of 20.
//!
//! Turns and readings alternate, so that load on the machine affects both; medians are compared. Exits with 1 if a figure exceeds
//! its limit.
//!
//! `cargo bench --bench tools`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[path = "support/prompt.rs"]
mod prompt;
#[expect(dead_code, reason = "tests use the rest of it")]
#[path = "../tests/fakes/provider.rs"]
mod provider;
#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use provider::Provider;
use support::{FigureReport, Home, Samples, row};

/// Files, and calls of a turn.
const FILES: usize = 20;
/// Measured turns, and turns before them.
const TURNS: usize = 30;
const WARM_TURNS: usize = 3;
/// Maximum time of a turn beyond that of the readings, in milliseconds.
const MAX_MORE: f64 = 60.0;

fn main() -> ExitCode {
    let mut report = FigureReport::new("tools");
    report.text(&format!(
        "A turn of {FILES} calls of `read_file`, without the time of the model: medians (least–most) in milliseconds of {TURNS} turns. \
         The bar is {MAX_MORE} more than reading the files."
    ));
    let mut rows = vec![row(["answers", "reading the files", "aish", "more"])];
    for answers in [FILES, 1] {
        let (read, turn) = turns(answers);
        let more = turn.median() - read.median();
        report.at_most(
            &format!("turn_of_{answers}_answers_more_ms"),
            more,
            MAX_MORE,
        );
        let [answers, more] = [answers.to_string(), format!("{more:.1}")];
        rows.push(row([&answers, &read.shown(), &turn.shown(), &more]));
    }
    report.table(&rows);
    report.finish()
}

/// Returns the times of reading the files, and of turns of this many answers.
fn turns(answers: usize) -> (Samples, Samples) {
    let files = tempfile::tempdir().unwrap();
    let dir = files.path().canonicalize().unwrap();
    let dir = dir.to_str().unwrap();
    for n in 0..FILES {
        // The model checks the end of each result.
        let text = format!("{}{dir}/{n}\n", "a line of the file\n".repeat(100));
        std::fs::write(format!("{dir}/{n}"), text).unwrap();
    }
    let provider = Provider::answering(prompt::model);
    let home = Home::new(&provider.base_url());
    home.configure("[mcp]\nmax_tool_depth = 100\n[tools]\nbuiltin = true\n[policy.rules]\n\"fs.read\" = \"allow\"\n");
    home.start();
    let (mut read, mut turn) = <(Samples, Samples)>::default();
    let [rounds, calls] = [answers, FILES / answers].map(|n| n.to_string());
    for n in 0..TURNS + WARM_TURNS {
        let start = Instant::now();
        for file in 0..FILES {
            std::hint::black_box(std::fs::read(format!("{dir}/{file}")).unwrap());
        }
        let by_hand = start.elapsed();
        let took = prompt::ask(
            &home,
            None,
            dir,
            [&rounds, &calls, "read_file", "path", dir],
        );
        if n >= WARM_TURNS {
            read.time(by_hand);
            turn.time(took.iter().sum::<Duration>());
        }
    }
    home.stop();
    (read, turn)
}
