//! The fuzz targets of `tests/fuzz`, with as many inputs as there is time for.
//!
//! `cargo bench --bench fuzz -- [seed=N] [TARGET=RUNS…]`; without targets, 100,000 runs of each. Exits with 1 if a target
//! panics, after writing the input to a file, or if the memory of the process grows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation fails the run"
)]

#[path = "../tests/fuzz/mod.rs"]
mod fuzz;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use fuzz::{TARGETS, Target};

/// Accepted growth of the memory from a tenth of the runs to the end, in KiB: noise of the allocator.
const MAX_GROWTH: u64 = 8 << 10;

/// Returns the resident memory of this process in KiB.
fn resident() -> u64 {
    let pid = std::process::id().to_string();
    let ps = Command::new("ps").args(["-o", "rss=", "-p", &pid]).output();
    let text = String::from_utf8(ps.expect("ps").stdout).unwrap();
    text.trim().parse().expect("a number")
}

/// Runs a target; returns whether all is well.
fn run(target: &Target, runs: usize, seed: u64) -> bool {
    let start = Instant::now();
    let mut mutator = target.mutator(seed);
    let (mut passed, mut early, mut slowest) = (0, 0, Duration::ZERO);
    for n in 0..runs {
        if n == runs / 10 {
            early = resident();
        }
        let input = mutator.mutate();
        let begin = Instant::now();
        match target.try_run(&input) {
            Some(true) => {
                passed += 1;
                slowest = slowest.max(begin.elapsed());
                mutator.learn(input);
            }
            Some(false) => slowest = slowest.max(begin.elapsed()),
            None => {
                let input = target.shrink(input);
                let path = format!("{}/fuzz-{}", env!("CARGO_TARGET_TMPDIR"), target.name);
                std::fs::write(&path, input).expect("a file");
                println!("{} panics in run {n}; the input is {path}", target.name);
                return false;
            }
        }
    }
    let (time, late) = (start.elapsed().as_secs_f64(), resident());
    println!(
        "{:<9}{runs:>11}{:>9.0}{:>7.0} %{:>10.1}{:>10.1}{:>10.1}",
        target.name,
        runs as f64 / time,
        passed as f64 * 100.0 / runs as f64,
        slowest.as_secs_f64() * 1e3,
        early as f64 / 1024.0,
        late as f64 / 1024.0,
    );
    let is_flat = late <= early + MAX_GROWTH;
    if !is_flat {
        println!("{}: the memory grows", target.name);
    }
    is_flat
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| {
        let value = arguments
            .iter()
            .find_map(|a| a.strip_prefix(name)?.strip_prefix('='));
        value.map(|number| number.parse::<u64>().expect("NAME=NUMBER"))
    };
    // Another one each time, so that runs add up.
    let seed = number("seed").unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
    let all = TARGETS.iter().all(|target| number(target.name).is_none());
    println!("seed={seed}");
    println!("target          runs   runs/s   valid   slowest   MiB/10%   MiB/end");
    let mut is_good = true;
    for target in &TARGETS {
        match number(target.name) {
            None if !all => {}
            runs => is_good &= run(target, runs.unwrap_or(100_000) as usize, seed),
        }
    }
    match is_good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
