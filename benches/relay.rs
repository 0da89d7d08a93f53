//! The relay of `aish-helper record`, compared with a bare pty: throughput, the echo of a key, and its memory.
//!
//! The two take turns, so that load on the machine affects both; medians are compared. Exits with 1 if a figure exceeds
//! its limit.
//!
//! `cargo bench --bench relay`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty};
use support::{ENVIRONMENT, FigureReport, HELPER, Home, Samples, memory, row};

/// Bursts through each pty.
const BURSTS: usize = 11;
/// Number of bytes of a burst, of which a busy disk may cost some.
const BURST_BYTES: u64 = 6_000_000;
/// Keys typed into each pty.
const KEYS: usize = 1000;
/// Keys that do not count.
const WARM_KEYS: usize = 50;
/// Waits for a line, prints a burst, and says that it is done. Without ICANON: what is printed while a line is read without echo is
/// not recorded.
const BURST: &str = "stty -echo -icanon; echo ready; while read x; do seq 1000000; echo done; done";

/// Says that it is ready, and leaves the keys to the pty.
const ECHO: &[&str] = &["sh", "-c", "echo ready; exec cat"];

/// A program in a pty.
struct Program {
    pty: Pty,
    child: Child,
    buffer: Vec<u8>,
}

impl Program {
    fn start(home: &Path, args: &[&str]) -> Program {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let child = Command::new(args[0])
            .args(&args[1..])
            .env_clear()
            .envs(ENVIRONMENT)
            .env("AISH_HOME", home)
            .spawn(pts)
            .unwrap();
        let buffer = vec![0; 65536];
        Program { pty, child, buffer }
    }

    /// Starts the program in a relay.
    fn recorded(home: &Path, args: &[&str]) -> Program {
        Program::start(home, &[&[HELPER, "record", "--"], args].concat())
    }

    /// Reads until the output ends with `end`.
    fn read_until(&mut self, end: &[u8]) {
        let mut tail: Vec<u8> = Vec::new();
        while !tail.ends_with(end) {
            let length = self.pty.read(&mut self.buffer).unwrap();
            tail.extend_from_slice(&self.buffer[..length]);
            tail.drain(..tail.len().saturating_sub(end.len()));
        }
    }

    fn burst(&mut self) -> Duration {
        let start = Instant::now();
        self.pty.write_all(b"\n").unwrap();
        self.read_until(b"done\r\n");
        start.elapsed()
    }

    /// Types a key, and returns the time until the terminal has its echo.
    fn key(&mut self) -> Duration {
        let start = Instant::now();
        self.pty.write_all(b"x").unwrap();
        self.read_until(b"x");
        start.elapsed()
    }
}

/// Number of bytes in the recordings of a home.
fn recorded_bytes(home: &Path) -> u64 {
    let dirs = std::fs::read_dir(home.join("data/recordings")).unwrap();
    let size = |dir: std::io::Result<std::fs::DirEntry>| {
        let output = dir.unwrap().path().join("output");
        output.metadata().unwrap().len()
    };
    dirs.map(size).sum()
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn main() -> ExitCode {
    let mut report = FigureReport::new("relay");
    let home = Home::new("http://127.0.0.1:9/v1");
    let path = home.path();

    let mut bare = Program::start(&path, &["sh", "-c", BURST]);
    let mut recorded = Program::recorded(&path, &["sh", "-c", BURST]);
    bare.read_until(b"ready\r\n");
    recorded.read_until(b"ready\r\n");
    let (mut without, mut with) = (Samples::default(), Samples::default());
    for _ in 0..BURSTS {
        without.time(bare.burst());
        with.time(recorded.burst());
    }
    let ratio = without.median() / with.median();
    report.at_least("relay_throughput", ratio, 0.8);
    let megabytes = memory(recorded.child.id(), "VmRSS");
    let peak = memory(recorded.child.id(), "VmHWM");
    let own = memory(recorded.child.id(), "RssAnon");
    if let Some(megabytes) = megabytes {
        report.at_most("relay_memory", megabytes, 6.0);
    }
    drop((bare, recorded));
    assert!(recorded_bytes(&path) > BURST_BYTES * BURSTS as u64);

    // Echoed by the pty itself.
    let mut bare = Program::start(&path, ECHO);
    let mut recorded = Program::recorded(&path, ECHO);
    bare.read_until(b"ready\r\n");
    recorded.read_until(b"ready\r\n");
    let (mut bare_keys, mut recorded_keys) = (Samples::default(), Samples::default());
    for n in 0..WARM_KEYS + KEYS {
        let (a, b) = (bare.key(), recorded.key());
        if n >= WARM_KEYS {
            bare_keys.time(a);
            recorded_keys.time(b);
        }
    }
    let echo = recorded_keys.median() - bare_keys.median();
    report.at_most("relay_echo", echo, 0.3);

    report.text(&format!(
        "`aish-helper record` against a bare pty: medians of {BURSTS} bursts and {KEYS} keys (least–most) in milliseconds. Memory \
         is what `/proc/PID/status` reports after the bursts: VmRSS, VmHWM, and RssAnon, which leaves out the pages of the binary and \
         of the C library; processes share those."
    ));
    let shown =
        |megabytes: Option<f64>| megabytes.map_or("unknown".to_owned(), |mb| format!("{mb:.1} MB"));
    report.table(&[
        row(["what", "bare", "recorded", "figure", "bar"]),
        row([
            "`seq 1000000`",
            &without.shown(),
            &with.shown(),
            &format!("{ratio:.2}"),
            "≥ 0.8",
        ]),
        row([
            "echo of a key",
            &bare_keys.shown(),
            &recorded_keys.shown(),
            &format!("+{echo:.3} ms"),
            "≤ +0.3 ms",
        ]),
        row(["memory, resident", "", "", &shown(megabytes), "≤ 6 MB"]),
        row(["memory, resident, peak", "", "", &shown(peak), ""]),
        row(["memory, without mapped files", "", "", &shown(own), ""]),
    ]);
    report.finish()
}
