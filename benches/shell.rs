//! What the plugin costs at the prompt: a real zsh in a real pty, typed into,
//! against the same zsh with an empty `.zshrc`. The two take turns, so that
//! both see the same machine; medians are compared.
//!
//! `cargo bench --bench shell`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::io::{Read, Write};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pty_process::blocking::{Command, Pty};
use support::{ENVIRONMENT, HELPER, Home, Samples, row, table};

/// Commands typed into each shell. More than the FIFO holds, so that a daemon that does not read
/// is measured with the FIFO full too.
const COMMANDS: usize = 900;
/// The first ones start the daemon, load functions, fill caches.
const WARM: usize = 20;
/// How often the plugin is sourced.
const SOURCED: usize = 60;
/// The prompt.
const PROMPT: &[u8] = b"<ready>";
/// What is typed.
const LINE: &[u8] = b"true\r";

const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/zsh/aish.plugin.zsh");

/// A zsh that waits at its prompt.
struct Shell {
    pty: Pty,
    child: Child,
}

impl Shell {
    /// An interactive zsh with this `.zshrc` and nothing else.
    fn new(home: &Path, helper: &str, name: &str, zshrc: &str) -> Shell {
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
            .current_dir(home)
            .spawn(pts)
            .unwrap();
        let mut shell = Shell { pty, child };
        shell.wait();
        shell
    }

    /// Reads until the prompt is there.
    fn wait(&mut self) {
        let mut seen = Vec::new();
        let mut buffer = [0; 4096];
        while !seen.windows(PROMPT.len()).any(|w| w == PROMPT) {
            let length = self.pty.read(&mut buffer).unwrap();
            seen.extend_from_slice(&buffer[..length]);
        }
    }

    /// Types a command; how long it takes until the next prompt is there.
    fn command(&mut self) -> Duration {
        let start = Instant::now();
        self.pty.write_all(LINE).unwrap();
        self.wait();
        start.elapsed()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The daemon as the hooks find it.
#[derive(Clone, Copy, PartialEq)]
enum Daemon {
    Runs,
    Absent,
    Killed,
    Stopped,
}

/// Types into both shells by turns: without the plugin, with it.
fn hooks(daemon: Daemon) -> (Samples, Samples) {
    let home = Home::new("http://127.0.0.1:9/v1");
    if daemon != Daemon::Absent {
        home.start();
    }
    // A daemon that is missed is to stay missing.
    let helper = if daemon == Daemon::Runs {
        HELPER
    } else {
        "/bin/true"
    };
    let mut empty = Shell::new(&home.path(), helper, "empty", "");
    let mut full = Shell::new(&home.path(), helper, "full", &format!("source {PLUGIN}\n"));
    let pid = match daemon {
        Daemon::Absent => None,
        _ => Some(Pid::from_raw(i32::try_from(home.daemon()).unwrap())),
    };
    match (daemon, pid) {
        (Daemon::Stopped, Some(pid)) => kill(pid, Signal::SIGSTOP).unwrap(),
        (Daemon::Killed, Some(pid)) => kill(pid, Signal::SIGKILL).unwrap(),
        _ => {}
    }
    let (mut without, mut with) = (Samples::default(), Samples::default());
    for n in 0..WARM + COMMANDS {
        let (a, b) = (empty.command(), full.command());
        if n >= WARM {
            without.time(a);
            with.time(b);
        }
    }
    if let (Daemon::Stopped, Some(pid)) = (daemon, pid) {
        kill(pid, Signal::SIGCONT).unwrap();
    }
    (without, with)
}

/// The time that sourcing the plugin takes, as the shell itself sees it.
fn sourcing() -> Samples {
    let home = Home::new("http://127.0.0.1:9/v1");
    home.start();
    let took = home.path().join("took");
    let zshrc = format!(
        "zmodload zsh/datetime\nstart=$EPOCHREALTIME\nsource {PLUGIN}\nprint $(( EPOCHREALTIME - start )) > {}\n",
        took.display()
    );
    let mut samples = Samples::default();
    for _ in 0..SOURCED {
        drop(Shell::new(&home.path(), HELPER, "sourcing", &zshrc));
        let seconds: f64 = std::fs::read_to_string(&took)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        samples.time(Duration::from_secs_f64(seconds));
    }
    samples
}

fn main() {
    let mut rows = vec![row([
        "daemon",
        "empty .zshrc",
        "with the plugin",
        "hooks",
        "bar",
    ])];
    for (name, daemon) in [
        ("runs", Daemon::Runs),
        ("absent", Daemon::Absent),
        ("killed", Daemon::Killed),
        ("stopped", Daemon::Stopped),
    ] {
        let (without, with) = hooks(daemon);
        rows.push(row([
            name,
            &without.shown(),
            &with.shown(),
            &format!("{:.0} µs", (with.median() - without.median()) * 1e3),
            "< 200 µs",
        ]));
    }
    println!(
        "A command typed into a pty, from the return key to the next prompt: medians of {COMMANDS} (least–most) in milliseconds.\n"
    );
    table(&rows);
    let sourcing = sourcing();
    table(&[
        row(["what", "figure", "bar"]),
        row([
            "sourcing the plugin",
            &format!("{} ms", sourcing.shown()),
            "< 5 ms",
        ]),
    ]);
    println!("cargo bench --bench shell");
}
