//! Replay of a recording of 100 MB in a pty: the time to the first frame, and of seeks to far places.
//!
//! Each is measured without snapshots, as the first time that a recording is replayed, and with them. Exits with 1 if a
//! figure exceeds its limit.
//!
//! `cargo bench --bench replay`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use pty_process::blocking::{Command, Pty};
use support::{ENVIRONMENT, FigureReport, HELPER, Home, Samples, row};

const SIZE: usize = 100 << 20;
const ID: &str = "0193a000-0000-7000-8000-0000000000a1";
/// Number of commands in the recording, one per 36 seconds.
const COMMANDS: usize = 100;
const FIRST_RUNS: usize = 20;
/// Fresh replays without snapshots, each with a few seeks at once.
const COLD_RUNS: usize = 15;
const COLD_SEEKS: usize = 4;
const WARM_SEEKS: usize = 200;
/// Bars of the first frame and of a seek, in milliseconds.
const FIRST_BAR: f64 = 300.0;
const SEEK_BAR: f64 = 150.0;

/// Pseudo-random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// A piece of output as programs print it: builds, progress bars, long lines, full screens.
fn piece(random: &mut Random, out: &mut String) {
    match random.below(10) {
        0..=5 => {
            let (a, b) = (random.below(1000), random.below(20));
            let _ = write!(
                out,
                "\x1b[32m   Compiling\x1b[0m crate-{a} v1.{b} (/home/user/project)\r\n"
            );
        }
        6 => {
            for part in 0..10 {
                let _ = write!(out, "\r\x1b[K[{:<40}] {}%", "#".repeat(part * 4), part * 10);
            }
            out.push_str("\r\n");
        }
        7 => {
            out.push_str("warning: unused variable: 日本語のテキスト größe\r\n");
            out.push_str(&"lorem ipsum dolor sit amet ".repeat(6));
            out.push_str("\r\n");
        }
        8 => {
            out.push_str("\x1b[?1049h\x1b[H\x1b[2J");
            for row in 1..24 {
                let n = random.below(100_000);
                let _ = write!(out, "\x1b[{row};1H\x1b[7m{n:<60}\x1b[0m {row}");
            }
            out.push_str("\x1b[?1049l");
        }
        _ => {
            let _ = write!(
                out,
                "{} {}\r\n",
                random.below(1 << 40),
                random.below(1 << 30)
            );
        }
    }
}

/// Writes the recording: an hour, with reads of up to 4 kB.
fn record(home: &Home) -> PathBuf {
    let dir = home.path().join("data/recordings").join(ID);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&dir).unwrap();
    let mut random = Random(88_172_645_463_325_252);
    let mut output = String::with_capacity(SIZE + (1 << 20));
    let mut events = format!(
        "{{\"us\":0,\"offset\":0,\"type\":\"start\",\"version\":1,\"id\":\"{ID}\",\"ms\":1,\"cols\":80,\"rows\":24,\
         \"term\":\"xterm\",\"shell\":null,\"source\":\"relay\",\"tty\":\"\",\"command\":null}}\n"
    );
    let total_us: u64 = 3600 * 1_000_000;
    let mut commands = 0;
    while output.len() < SIZE {
        let us = output.len() as u64 * 36_000_000 / (SIZE as u64 / 100);
        let offset = output.len();
        if offset * COMMANDS >= commands * SIZE {
            let _ = writeln!(
                events,
                "{{\"us\":{us},\"offset\":{offset},\"type\":\"command_start\",\"command_id\":\"1-a@{commands}\",\"text\":\"run {commands}\"}}"
            );
            commands += 1;
        }
        let limit = offset + 1 + usize::try_from(random.below(4000)).unwrap();
        while output.len() < limit {
            piece(&mut random, &mut output);
        }
        let bytes = output.len() - offset;
        let _ = writeln!(
            events,
            "{{\"us\":{us},\"offset\":{offset},\"type\":\"output\",\"bytes\":{bytes}}}"
        );
    }
    let _ = writeln!(
        events,
        "{{\"us\":{total_us},\"offset\":{},\"type\":\"end\",\"exit\":0}}",
        output.len()
    );
    for (name, text) in [("output", output), ("events.jsonl", events)] {
        fs::write(dir.join(name), text).unwrap();
        fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    dir
}

/// A replay in a pty.
struct Replay {
    pty: Pty,
    child: Child,
    seen: Vec<u8>,
}

impl Replay {
    fn start(home: &Home, options: &[&str]) -> Replay {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(25, 80)).unwrap();
        let child = Command::new(HELPER)
            .args(["replay", ID])
            .args(options)
            .env_clear()
            .envs(ENVIRONMENT)
            .env("AISH_HOME", home.path())
            .spawn(pts)
            .unwrap();
        Replay {
            pty,
            child,
            seen: Vec::new(),
        }
    }

    /// Reads until the terminal has got `text`.
    fn wait(&mut self, text: &str) {
        let mut buffer = [0; 65536];
        while !self
            .seen
            .windows(text.len())
            .any(|part| part == text.as_bytes())
        {
            let n = self.pty.read(&mut buffer).unwrap();
            assert!(n > 0);
            self.seen.extend_from_slice(&buffer[..n]);
        }
    }

    /// Presses a key, and returns the time until the frame with `text` is complete.
    fn press(&mut self, key: &str, text: &str) -> Duration {
        self.seen.clear();
        let start = Instant::now();
        self.pty.write_all(key.as_bytes()).unwrap();
        self.wait(text);
        start.elapsed()
    }

    fn quit(mut self) {
        self.pty.write_all(b"q").unwrap();
        let mut buffer = [0; 65536];
        while self.pty.read(&mut buffer).is_ok_and(|n| n > 0) {}
        assert!(self.child.wait().unwrap().success());
    }
}

/// Another tenth of the recording than `tenth`, and the time that the status line shows there.
fn other_tenth(random: &mut Random, tenth: u64) -> (u64, String) {
    let next = (tenth + 1 + random.below(9)) % 10;
    (next, format!(" {}:00 / 1:00:00", next * 6))
}

fn main() -> ExitCode {
    let home = Home::new("http://127.0.0.1:9/v1");
    let snapshots = record(&home).join("snapshots");
    let mut random = Random(7);
    let mut report = FigureReport::new("replay");
    let [mut first, mut at_command, mut cold, mut warm] = [(); 4].map(|()| Samples::default());
    for _ in 0..FIRST_RUNS {
        let _ = fs::remove_file(&snapshots);
        for (options, samples) in [
            (&[][..], &mut first),
            (&["--command", "90"], &mut at_command),
        ] {
            let start = Instant::now();
            let mut replay = Replay::start(&home, options);
            replay.wait(if options.is_empty() {
                "0:00 / 1:00:00"
            } else {
                "$ run 89"
            });
            samples.time(start.elapsed());
            replay.quit();
        }
    }
    for _ in 0..COLD_RUNS {
        let _ = fs::remove_file(&snapshots);
        let mut replay = Replay::start(&home, &[]);
        replay.wait(" / 1:00:00");
        replay.press(" ", "‖");
        let mut tenth = 0;
        for _ in 0..COLD_SEEKS {
            let (next, text) = other_tenth(&mut random, tenth);
            cold.time(replay.press(&next.to_string(), &text));
            tenth = next;
        }
        replay.quit();
    }
    let mut replay = Replay::start(&home, &[]);
    replay.wait(" / 1:00:00");
    let start = Instant::now();
    while !snapshots.exists() {
        assert!(start.elapsed() < Duration::from_secs(120));
        std::thread::sleep(Duration::from_millis(20));
    }
    let indexed = start.elapsed();
    replay.press(" ", "‖");
    let mut tenth = 0;
    for _ in 0..WARM_SEEKS {
        let (next, text) = other_tenth(&mut random, tenth);
        warm.time(replay.press(&next.to_string(), &text));
        tenth = next;
    }
    replay.quit();
    report.text(&format!(
        "A recording of {} MB in reads of up to 4 kB; times in milliseconds. All snapshots were made after {:.1} s and take {:.1} MB.",
        SIZE >> 20,
        indexed.as_secs_f64(),
        fs::metadata(&snapshots).unwrap().len() as f64 / 1e6,
    ));
    let mut rows = vec![row(["what", "median", "p95", "bar"])];
    for (name, samples, bar) in [
        ("first frame", &first, FIRST_BAR),
        ("first frame at command 90 of 100", &at_command, FIRST_BAR),
        ("seek, without snapshots", &cold, SEEK_BAR),
        ("seek, with snapshots", &warm, SEEK_BAR),
    ] {
        let (median, p95) = (samples.median(), samples.p95());
        rows.push(row([
            name,
            &format!("{median:.1}"),
            &format!("{p95:.1}"),
            &bar.to_string(),
        ]));
        report.at_most(name, p95, bar);
    }
    report.table(&rows);
    report.finish()
}
