//! What the benches share: a scratch home with its daemon, and tables of medians.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The release binary.
pub const HELPER: &str = env!("CARGO_BIN_EXE_aish-helper");

/// A scratch `AISH_HOME`; its daemon ends with it.
pub struct Home {
    dir: TempDir,
}

impl Home {
    /// A home whose only model is at `base_url`.
    pub fn new(base_url: &str) -> Home {
        Home::under(&std::env::temp_dir(), base_url)
    }

    /// One that stands in this directory, which is on a disk where `/tmp` may not be.
    pub fn under(place: &Path, base_url: &str) -> Home {
        let dir = tempfile::tempdir_in(place).unwrap();
        let config = dir.path().join("config");
        std::fs::create_dir(&config).unwrap();
        let text = format!(
            "[models.bench]\nprovider = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"fake\"\n"
        );
        std::fs::write(config.join("config.toml"), text).unwrap();
        Home { dir }
    }

    /// Adds lines to its config.
    pub fn configure(&self, lines: &str) {
        let path = self.dir.path().join("config/config.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text + lines).unwrap();
    }

    /// The directory.
    pub fn path(&self) -> PathBuf {
        self.dir.path().to_path_buf()
    }

    /// `aish-helper` in this home, with the few variables that a shell would have.
    pub fn helper(&self, args: &[&str]) -> Command {
        let mut command = Command::new(HELPER);
        command.args(args).env_clear().envs(ENVIRONMENT);
        command.env("AISH_HOME", self.dir.path());
        command.stdin(Stdio::null());
        command
    }

    /// Starts the daemon; how long it takes until clients can connect.
    pub fn start(&self) -> Duration {
        let start = Instant::now();
        let mut child = self
            .helper(&["daemon", "--detach"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        let mut said = child.stdout.take().unwrap();
        said.read_exact(&mut ready).unwrap();
        assert_eq!(&ready, b"ready\n");
        let took = start.elapsed();
        // Its parent ends only with the measurement: without this it would stay a zombie.
        std::thread::spawn(move || child.wait());
        took
    }

    /// Stops the daemon.
    pub fn stop(&self) {
        let status = self
            .helper(&["stop"])
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// The process of the daemon.
    pub fn daemon(&self) -> u32 {
        let output = self.helper(&["status", "--json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        u32::try_from(status["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Also where the measurement has failed half-way; then there may be no daemon.
        let _ = self
            .helper(&["stop", "--now"])
            .stdout(Stdio::null())
            .status();
    }
}

/// The environment of everything that is measured.
pub const ENVIRONMENT: [(&str, &str); 5] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "/nonexistent"),
    ("LANG", "C.UTF-8"),
    ("TERM", "xterm-256color"),
    ("PS1", "<ready>"),
];

/// What was measured, in the order of its arrival.
#[derive(Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a time, kept in milliseconds.
    pub fn time(&mut self, took: Duration) {
        self.0.push(took.as_secs_f64() * 1e3);
    }

    /// Adds a number.
    pub fn number(&mut self, number: f64) {
        self.0.push(number);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The one in the middle.
    pub fn median(&self) -> f64 {
        self.sorted()[self.0.len() / 2]
    }

    /// Median, least and most, in milliseconds.
    pub fn shown(&self) -> String {
        let sorted = self.sorted();
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        format!("{:.2} ({least:.2}–{most:.2})", self.median())
    }
}

/// Megabytes of a line of `/proc/PID/status`; `None` where the system has no such file.
pub fn memory(pid: u32, line: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(line))?;
    let kib: f64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// Prints a Markdown table.
pub fn table(rows: &[Vec<String>]) {
    let columns = rows[0].len();
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<_> = (0..columns)
            .map(|c| format!("{:w$}", row[c], w = width(c)))
            .collect();
        println!("| {} |", cells.join(" | "));
        if at == 0 {
            let rule: Vec<_> = (0..columns).map(|c| "-".repeat(width(c))).collect();
            println!("|-{}-|", rule.join("-|-"));
        }
    }
    println!();
}

/// A row of words.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}
