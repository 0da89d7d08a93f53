//! The cost of the plugin at the prompt: commands typed into a real zsh in a pty, compared with the same zsh with an
//! empty `.zshrc`.
//!
//! The two take turns, so that load on the machine affects both; medians are compared. Exits with 1 if a figure
//! exceeds its limit.
//!
//! `cargo bench --bench shell`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pty_process::blocking::{Command, Pty};
use support::http_api::{ApiClient, StreamingModel};
use support::{ENVIRONMENT, FigureReport, HELPER, Home, Samples, row};

/// Commands typed into each shell. More than the FIFO holds, so that a stopped daemon is also measured with a full
/// FIFO.
const COMMANDS: usize = 900;
/// Commands that start the daemon, load functions and fill caches, and do not count.
const WARM_COMMANDS: usize = 20;
/// Measurements of sourcing the plugin.
const SOURCE_RUNS: usize = 60;
const PROMPT: &[u8] = b"<ready>";
const TYPED_LINE: &[u8] = b"true\r";

const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/zsh/aish.plugin.zsh");

/// An interactive zsh at its prompt.
struct ZshSession {
    pty: Pty,
    child: Child,
}

impl ZshSession {
    /// Starts a zsh with this `.zshrc` and no other start files.
    fn new(home: &Path, helper: &str, name: &str, zshrc: &str) -> ZshSession {
        ZshSession::with_environment(home, helper, name, zshrc, None)
    }

    /// Starts a zsh whose hooks print marks, as in a relay.
    fn recorded(home: &Path, helper: &str, name: &str, zshrc: &str) -> ZshSession {
        let (read, write) = nix::unistd::pipe().unwrap();
        let nonce = format!("{:032x}\n", 7);
        std::fs::File::from(write)
            .write_all(nonce.as_bytes())
            .unwrap();
        let place = format!("{}:{}", read.as_raw_fd(), std::process::id());
        let marks = Some(("AISH_MARKS_FD", place.as_str()));
        ZshSession::with_environment(home, helper, name, zshrc, marks)
    }

    fn with_environment(
        home: &Path,
        helper: &str,
        name: &str,
        zshrc: &str,
        more: Option<(&str, &str)>,
    ) -> ZshSession {
        let dir = home.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(".zshrc"), zshrc).unwrap();
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(24, 80)).unwrap();
        let child = Command::new("zsh")
            .args(["-d", "-i"])
            .env_clear()
            .envs(ENVIRONMENT)
            .env("ZDOTDIR", &dir)
            .env("AISH_HOME", home)
            .env("AISH_HELPER", helper)
            .envs(more)
            .current_dir(home)
            .spawn(pts)
            .unwrap();
        let mut shell = ZshSession { pty, child };
        shell.wait_for_prompt();
        shell
    }

    /// Reads until the prompt appears.
    fn wait_for_prompt(&mut self) {
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !seen.windows(PROMPT.len()).any(|w| w == PROMPT) {
            let length = self.pty.read(&mut buffer).unwrap();
            seen.extend_from_slice(&buffer[..length]);
        }
    }

    /// Types a command. Returns the time until the next prompt.
    fn command(&mut self) -> Duration {
        let start = Instant::now();
        self.pty.write_all(TYPED_LINE).unwrap();
        self.wait_for_prompt();
        start.elapsed()
    }
}

impl Drop for ZshSession {
    fn drop(&mut self) {
        // Fails if the shell has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// State of the daemon while commands are typed.
#[derive(Clone, Copy, PartialEq)]
enum DaemonState {
    Runs,
    /// It sends an answer of 100 words a second to 100 clients of the HTTP API, half of which do not read.
    Streams,
    Absent,
    Killed,
    Stopped,
}

/// Types commands into two shells in turn. Returns their times without and with the plugin.
fn hooks(daemon: DaemonState) -> (Samples, Samples) {
    // Longer than the measurement.
    let model = StreamingModel::start(60_000, Duration::from_millis(10));
    let home = Home::new(&model.base_url());
    if daemon != DaemonState::Absent {
        home.start();
    }
    let _streams = (daemon == DaemonState::Streams).then(|| streams(&home));
    // Keeps the hooks from starting a daemon where none should run.
    let helper = match daemon {
        DaemonState::Runs | DaemonState::Streams => HELPER,
        _ => "/bin/true",
    };
    let mut empty = ZshSession::new(&home.path(), helper, "empty", "");
    let mut full = ZshSession::new(&home.path(), helper, "full", &format!("source {PLUGIN}\n"));
    let pid = match daemon {
        DaemonState::Absent => None,
        _ => Some(Pid::from_raw(i32::try_from(home.daemon()).unwrap())),
    };
    match (daemon, pid) {
        (DaemonState::Stopped, Some(pid)) => kill(pid, Signal::SIGSTOP).unwrap(),
        (DaemonState::Killed, Some(pid)) => kill(pid, Signal::SIGKILL).unwrap(),
        _ => {}
    }
    let (mut without, mut with) = (Samples::default(), Samples::default());
    for n in 0..WARM_COMMANDS + COMMANDS {
        let (a, b) = (empty.command(), full.command());
        if n >= WARM_COMMANDS {
            without.time(a);
            with.time(b);
        }
    }
    if let (DaemonState::Stopped, Some(pid)) = (daemon, pid) {
        kill(pid, Signal::SIGCONT).unwrap();
    }
    (without, with)
}

/// Has an answer sent to many clients. Returns those that do not read it.
fn streams(home: &Home) -> Vec<TcpStream> {
    let server = ApiClient::serve(home);
    let session = server.session();
    let mut streams: Vec<TcpStream> = (0..100).map(|_| server.follow(&session)).collect();
    for mut stream in streams.split_off(50) {
        std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
    }
    server.prompt(&session);
    streams
}

/// Types commands into two shells with the plugin in turn, of which the second one prints marks for a recorder. Returns their
/// times.
fn recorded_hooks() -> (Samples, Samples) {
    let home = Home::new("http://127.0.0.1:9/v1");
    home.start();
    let zshrc = format!("source {PLUGIN}\n");
    let mut plain = ZshSession::new(&home.path(), HELPER, "plain", &zshrc);
    let mut marking = ZshSession::recorded(&home.path(), HELPER, "recorded", &zshrc);
    let (mut without, mut with) = (Samples::default(), Samples::default());
    for n in 0..WARM_COMMANDS + COMMANDS {
        let (a, b) = (plain.command(), marking.command());
        if n >= WARM_COMMANDS {
            without.time(a);
            with.time(b);
        }
    }
    (without, with)
}

/// The time of sourcing the plugin, measured by the shell itself.
fn sourcing() -> Samples {
    let home = Home::new("http://127.0.0.1:9/v1");
    home.start();
    let took = home.path().join("took");
    let zshrc = format!(
        "zmodload zsh/datetime\nstart=$EPOCHREALTIME\nsource {PLUGIN}\nprint $(( EPOCHREALTIME - start )) > {}\n",
        took.display()
    );
    let mut samples = Samples::default();
    for _ in 0..SOURCE_RUNS {
        drop(ZshSession::new(&home.path(), HELPER, "sourcing", &zshrc));
        let seconds: f64 = std::fs::read_to_string(&took)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        samples.time(Duration::from_secs_f64(seconds));
    }
    samples
}

fn main() -> ExitCode {
    let mut report = FigureReport::new("shell");
    let mut rows = vec![row([
        "daemon",
        "empty .zshrc",
        "with the plugin",
        "hooks",
        "bar",
    ])];
    for (name, daemon, bar) in [
        ("runs", DaemonState::Runs, 200.0),
        ("streams", DaemonState::Streams, 200.0),
        ("absent", DaemonState::Absent, 200.0),
        ("killed", DaemonState::Killed, 200.0),
        ("stopped", DaemonState::Stopped, 200.0),
    ] {
        let (without, with) = hooks(daemon);
        let microseconds = (with.median() - without.median()) * 1e3;
        report.at_most(&format!("hooks_daemon_{name}"), microseconds, bar);
        rows.push(row([
            name,
            &without.shown(),
            &with.shown(),
            &format!("{microseconds:.0} µs"),
            &format!("{bar} µs"),
        ]));
    }
    report.text(&format!(
        "A command typed into a pty, from the return key to the next prompt: medians of {COMMANDS} (least–most) in \
         milliseconds."
    ));
    report.table(&rows);
    let (plain, marking) = recorded_hooks();
    let microseconds = (marking.median() - plain.median()) * 1e3;
    report.at_most("hooks_recorded", microseconds, 30.0);
    report.table(&[
        row(["hooks", "not recorded", "recorded", "more", "bar"]),
        row([
            "with the plugin",
            &plain.shown(),
            &marking.shown(),
            &format!("{microseconds:.0} µs"),
            "30 µs",
        ]),
    ]);
    let sourcing = sourcing();
    report.at_most("source_plugin", sourcing.median(), 5.0);
    report.table(&[
        row(["what", "figure", "bar"]),
        row([
            "sourcing the plugin",
            &format!("{} ms", sourcing.shown()),
            "5 ms",
        ]),
    ]);
    report.finish()
}
