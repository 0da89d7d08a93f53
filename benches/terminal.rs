//! The first word of an answer when the output of the last command goes along, compared with the same prompt without it: typed
//! into a zsh in a real tmux, where a command with 200 lines of output has failed.
//!
//! The two take turns, so that load on the machine affects both; medians are compared. Exits with 1 if a figure exceeds
//! its limit; without tmux nothing is measured.
//!
//! `cargo bench --bench terminal`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "tests use the rest of it")]
#[path = "../tests/fakes/provider.rs"]
mod provider;
#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use provider::{Provider, Request, Script};
use pty_process::blocking::{Command, Pty};
use support::{ENVIRONMENT, FigureReport, HELPER, Home, Samples, row};

const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/zsh/aish.plugin.zsh");
/// Prompts of each kind for each row of the table.
const ROUNDS: usize = 150;
/// Rounds that do not count.
const WARM_ROUNDS: usize = 5;
/// Fails after 200 lines as a compiler prints them.
const FAIL: &str =
    "fail() { seq -f 'src/main.rs:%.0f:17: error: expected a number, found a text' 200; return 1 }";
/// Shows the number of each prompt, by which its appearance is noticed.
const PROMPT: &str = "setopt prompt_subst\ntypeset -gi prompts=0\ncount_prompts() { (( ++prompts )); return 0 }\n\
     precmd_functions+=(count_prompts)\nPS1='<$prompts> '\n";
const ROWS: NonZeroU16 = NonZeroU16::new(24).unwrap();
const COLUMNS: NonZeroU16 = NonZeroU16::new(80).unwrap();

/// First word of the answer to a prompt with this number.
fn first_word(number: usize, has_output: bool) -> String {
    let kind = if has_output { "with" } else { "without" };
    format!("Word{number}{kind}")
}

/// Answers a prompt that ends with a number, and returns whether the output was sent with it.
fn answer(request: &Request) -> Script {
    let messages = request.json["messages"].as_array().unwrap();
    let prompt = messages.last().unwrap()["content"].as_str().unwrap();
    let number = prompt.trim_end().rsplit(' ').next().unwrap();
    let has_output = prompt.contains("<output command=\"fail\"");
    Script::tokens([
        &first_word(number.parse().unwrap(), has_output),
        " is ",
        "the answer.",
    ])
}

/// A zsh with the plugin in a tmux with its own server.
struct TmuxSession {
    socket: PathBuf,
    pty: Pty,
    child: Child,
    parser: vt100::Parser,
    prompts: usize,
}

impl TmuxSession {
    fn start(home: &Path) -> TmuxSession {
        let zshrc = format!("HISTSIZE=1000\nSAVEHIST=0\nsource {PLUGIN}\n{FAIL}\n{PROMPT}");
        std::fs::write(home.join(".zshrc"), zshrc).unwrap();
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(ROWS.get(), COLUMNS.get()))
            .unwrap();
        let socket = home.join("tmux");
        let child = Command::new("tmux")
            .arg("-S")
            .arg(&socket)
            .args(["-f", "/dev/null", "new-session", "zsh -d -i", ";"])
            .args(["set", "status", "off"])
            .env_clear()
            .envs(ENVIRONMENT)
            .env("ZDOTDIR", home)
            .env("AISH_HOME", home)
            .env("AISH_HELPER", HELPER)
            .current_dir(home)
            .spawn(pts)
            .unwrap();
        let parser = vt100::Parser::new(ROWS, COLUMNS, 0);
        let mut session = TmuxSession {
            socket,
            pty,
            child,
            parser,
            prompts: 0,
        };
        session.wait_prompt();
        session
    }

    /// Reads until the screen has this text.
    fn wait(&mut self, text: &str) {
        let mut buffer = [0; 65536];
        while !self.parser.screen().contents().contains(text) {
            let length = self.pty.read(&mut buffer).unwrap();
            self.parser.process(&buffer[..length]);
        }
    }

    fn wait_prompt(&mut self) {
        self.prompts += 1;
        self.wait(&format!("<{}>", self.prompts));
    }

    /// Runs a command up to the next prompt.
    fn run(&mut self, line: &str) {
        self.pty.write_all(format!("{line}\r").as_bytes()).unwrap();
        self.wait_prompt();
    }

    /// Runs the failing command and asks about it. Returns the time from the return key to the first word.
    fn ask(&mut self, number: usize, with_output: bool) -> Duration {
        self.run("fail");
        let option = if with_output {
            "--output"
        } else {
            "--no-output"
        };
        let line = format!("llm --new {option} why {number}");
        self.pty.write_all(line.as_bytes()).unwrap();
        self.wait(&line);
        let start = Instant::now();
        self.pty.write_all(b"\r").unwrap();
        self.wait(&first_word(number, with_output));
        let took = start.elapsed();
        self.wait_prompt();
        took
    }

    /// Removes the screen and its history.
    fn clear(&mut self) {
        self.run("clear");
        let mut clear = std::process::Command::new("tmux");
        let clear = clear.arg("-S").arg(&self.socket).arg("clear-history");
        assert!(
            clear
                .env_clear()
                .envs(ENVIRONMENT)
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for TmuxSession {
    fn drop(&mut self) {
        let mut kill = std::process::Command::new("tmux");
        let kill = kill.arg("-S").arg(&self.socket).arg("kill-server");
        // Fails if the server has ended.
        let _ = kill.env_clear().envs(ENVIRONMENT).output();
        let _ = self.child.wait();
    }
}

/// Whether tmux is installed.
fn has_tmux() -> bool {
    let version = std::process::Command::new("tmux").arg("-V").output();
    version.is_ok_and(|output| output.status.success())
}

fn main() -> ExitCode {
    let mut report = FigureReport::new("terminal");
    if !has_tmux() {
        report.text("Left out: tmux is not installed.");
        return report.finish();
    }
    // The fake provider keeps every connection that it has accepted.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
    let provider = Provider::answering(answer);
    let home = Home::new(&provider.base_url());
    home.start();
    let mut session = TmuxSession::start(&home.path());

    report.text(&format!(
        "A prompt about a failed command with 200 lines of output in tmux, typed with `--no-output` and with `--output`: from the \
         return key to the first word, medians of {ROUNDS} (least–most) in milliseconds."
    ));
    let mut rows = vec![row([
        "history of the pane",
        "without",
        "with",
        "more",
        "bar",
    ])];
    let mut number = 0;
    for (id, name, is_full) in [
        ("first_word_output", "200 lines", false),
        ("first_word_output_full", "full (2,000 lines)", true),
    ] {
        if is_full {
            session.run("seq 2500");
        }
        let (mut without, mut with) = (Samples::default(), Samples::default());
        for round in 0..WARM_ROUNDS + ROUNDS {
            for turn in 0..2 {
                number += 1;
                if !is_full {
                    session.clear();
                }
                let with_output = (round + turn) % 2 == 1;
                let took = session.ask(number, with_output);
                if round >= WARM_ROUNDS {
                    let samples = if with_output { &mut with } else { &mut without };
                    samples.time(took);
                }
            }
        }
        let more = with.median() - without.median();
        report.at_most(id, more, 10.0);
        rows.push(row([
            name,
            &without.shown(),
            &with.shown(),
            &format!("+{more:.2} ms"),
            "+10 ms",
        ]));
    }
    report.table(&rows);
    report.finish()
}
