//! Shared by the benches: a temporary home with its daemon, samples, and a report of figures and their limits.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub mod http_api;

/// The release binary.
pub const HELPER: &str = env!("CARGO_BIN_EXE_aish-helper");

/// A temporary `AISH_HOME`; stops its daemon when dropped.
pub struct Home {
    dir: TempDir,
}

impl Home {
    /// Creates a home whose only model is at `base_url`.
    pub fn new(base_url: &str) -> Home {
        Home::under(&std::env::temp_dir(), base_url)
    }

    /// Creates a home whose only model is at `base_url` and has this `provider`.
    pub fn of_provider(provider: &str, base_url: &str) -> Home {
        let home = Home::new(base_url);
        let path = home.path().join("config/config.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, text.replace("\"chat\"", &format!("\"{provider}\""))).unwrap();
        home
    }

    /// Creates a home in this directory, because `/tmp` may not be on a disk.
    pub fn under(place: &Path, base_url: &str) -> Home {
        let dir = tempfile::tempdir_in(place).unwrap();
        let config = dir.path().join("config");
        std::fs::create_dir(&config).unwrap();
        let text = format!(
            "[models.bench]\nprovider = \"chat\"\nbase_url = \"{base_url}\"\nmodel = \"fake\"\n"
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

    /// Starts the daemon. Returns the time until clients can connect.
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
        // Its parent, the bench, keeps running: without a wait the daemon would remain a zombie.
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

    /// Process id of the daemon.
    pub fn daemon(&self) -> u32 {
        let output = self.helper(&["status", "--json"]).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        u32::try_from(status["pid"].as_u64().unwrap()).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Fails if there is no daemon, as after an aborted measurement.
        let _ = self
            .helper(&["stop", "--now"])
            .stdout(Stdio::null())
            .status();
    }
}

/// Environment of all measured programs.
pub const ENVIRONMENT: [(&str, &str); 5] = [
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("HOME", "/nonexistent"),
    ("LANG", "C.UTF-8"),
    ("TERM", "xterm-256color"),
    ("PS1", "<ready>"),
];

/// Measured values, in order.
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

    /// Number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// Median.
    pub fn median(&self) -> f64 {
        self.sorted()[self.0.len() / 2]
    }

    /// The value that 95 % of the values do not exceed.
    pub fn p95(&self) -> f64 {
        let sorted = self.sorted();
        sorted[(sorted.len() * 95).div_ceil(100) - 1]
    }

    /// Median, minimum and maximum, in milliseconds.
    pub fn shown(&self) -> String {
        let sorted = self.sorted();
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        format!("{:.2} ({least:.2}–{most:.2})", self.median())
    }
}

/// Value of a line of `/proc/PID/status`, in megabytes; `None` on systems without this file.
pub fn memory(pid: u32, line: &str) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix(line))?;
    let kib: f64 = line.trim_matches([':', ' ', '\t', 'k', 'B']).parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// The tables and measured figures of one bench, with the limits of the figures.
///
/// [`FigureReport::finish`] writes them to `target/figures` for `benches/figures.sh`.
pub struct FigureReport {
    bench: &'static str,
    markdown: String,
    /// Lines of `name`, `value`, `limit`, `held` or `missed`, separated by tabs.
    checks: String,
    missed: usize,
}

impl FigureReport {
    /// Creates the report of the bench with this name.
    pub fn new(bench: &'static str) -> FigureReport {
        FigureReport {
            bench,
            markdown: String::new(),
            checks: String::new(),
            missed: 0,
        }
    }

    /// Prints and records a paragraph.
    pub fn text(&mut self, text: &str) {
        println!("{text}\n");
        self.markdown.push_str(&format!("{text}\n\n"));
    }

    /// Prints and records a Markdown table.
    pub fn table(&mut self, rows: &[Vec<String>]) {
        let table = table_text(rows);
        println!("{table}");
        self.markdown.push_str(&format!("{table}\n"));
    }

    /// Records a figure that must not exceed `limit`.
    pub fn at_most(&mut self, name: &str, value: f64, limit: f64) {
        self.check(name, value, &format!("<= {limit}"), value <= limit);
    }

    /// Records a figure that must reach `limit`.
    pub fn at_least(&mut self, name: &str, value: f64, limit: f64) {
        self.check(name, value, &format!(">= {limit}"), value >= limit);
    }

    fn check(&mut self, name: &str, value: f64, limit: &str, held: bool) {
        let verdict = if held { "held" } else { "missed" };
        if !held {
            self.missed += 1;
            eprintln!("bar missed: {name} is {value:.2}, the bar is {limit}");
        }
        self.checks
            .push_str(&format!("{name}\t{value:.3}\t{limit}\t{verdict}\n"));
    }

    /// Writes `target/figures/BENCH.md` and `.tsv`. Fails if a figure exceeds its limit.
    pub fn finish(self) -> ExitCode {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("figures");
        std::fs::create_dir_all(&dir).unwrap();
        for (extension, text) in [("md", &self.markdown), ("tsv", &self.checks)] {
            std::fs::write(dir.join(self.bench).with_extension(extension), text).unwrap();
        }
        ExitCode::from(u8::from(self.missed > 0))
    }
}

/// Prints a Markdown table.
pub fn table(rows: &[Vec<String>]) {
    println!("{}", table_text(rows));
}

fn table_text(rows: &[Vec<String>]) -> String {
    let columns = rows[0].len();
    let width = |c: usize| rows.iter().map(|r| r[c].chars().count()).max().unwrap();
    let mut table = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<_> = (0..columns)
            .map(|c| format!("{:w$}", row[c], w = width(c)))
            .collect();
        table.push_str(&format!("| {} |\n", cells.join(" | ")));
        if at == 0 {
            let rule: Vec<_> = (0..columns).map(|c| "-".repeat(width(c))).collect();
            table.push_str(&format!("|-{}-|\n", rule.join("-|-")));
        }
    }
    table
}

/// A row of cells.
pub fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.iter().map(ToString::to_string).collect()
}
