//! One prompt through the warm daemon, relative to `curl -N` fetching the same answer from the same server.
//!
//! `curl` and `aish-helper` take turns, so that load on the machine affects both; medians are compared. The server
//! pads its events and sends one HTTP chunk per token. Exits with 1 if a figure exceeds its limit.
//!
//! `cargo bench --bench hot_path`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "tests use the rest of it")]
#[path = "../tests/fakes/provider.rs"]
mod provider;
#[path = "support/streams.rs"]
mod streams;
#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use provider::{Part, Provider, Script, finish_event, text_event};
use serde_json::Value;
use streams::{DIALECTS, DialectBench};
use support::{ENVIRONMENT, FigureReport, Home, Samples, memory, row};

/// Maximum time of all rounds together.
const TIME_BUDGET: Duration = Duration::from_secs(110);
/// Maximum number of rounds.
const MAX_ROUNDS: usize = 60;
/// Warm-up rounds, which are not measured.
const WARM_ROUNDS: usize = 2;
/// Measurements of a short answer in each round.
const SHORT_ANSWER_REPEATS: usize = 4;

/// An answer as models write it; repeated and cut into tokens of about four bytes.
const ANSWER: &str = "\
Hello! A **file descriptor** is a small number that stands for an open file, a pipe or a socket.

## What to look at

1. `lsof -p $$` shows what the shell has open, with *one line* a file;
2. `/proc/self/fd` shows the same to the program itself — see [the manual](https://man7.org/).

```sh
for fd in /proc/$$/fd/*; do
  print -r -- \"$fd -> $(readlink $fd)\"  # every one of them
done
```

| Number | Name   | What it is for         |
|--------|--------|------------------------|
| 0      | stdin  | what a program reads   |
| 1      | stdout | what it answers        |
| 2      | stderr | what it has to say     |

Each child gets copies of them, so a pipe ends only when the last copy is closed, naïve as it may seem.

";

/// First word that appears on a terminal.
const FIRST_WORD: &[u8] = b"Hello";

/// The first `n` tokens.
fn tokens(n: usize) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    let mut start = 0;
    for (at, _) in ANSWER.char_indices().skip(1) {
        let long = at - start >= 6;
        if long || ANSWER.as_bytes()[at] == b' ' && at - start >= 3 {
            tokens.push(&ANSWER[start..at]);
            start = at;
        }
    }
    tokens.push(&ANSWER[start..]);
    tokens.into_iter().cycle().take(n).collect()
}

/// Kind of stdout, and the event that ends the measured time.
#[derive(Clone, Copy, PartialEq)]
enum Measure {
    /// A pipe, to the end of the answer.
    PipeEnd,
    /// A terminal, to the first word.
    TerminalFirstWord,
    /// A terminal, to the end of the answer.
    TerminalEnd,
}

struct BenchCase {
    name: &'static str,
    /// Name in `target/figures`.
    id: &'static str,
    tokens: usize,
    /// The server sends the answer in few large writes instead of one write per token.
    buffered: bool,
    measure: Measure,
    bar: f64,
}

impl BenchCase {
    /// The prompt, by which the server selects the answer.
    fn prompt(&self) -> String {
        let buffered = if self.buffered { " buffered" } else { "" };
        format!("{}{buffered}", self.tokens)
    }
}

/// The cases of chat completions.
const CHAT_CASES: [BenchCase; 6] = [
    BenchCase {
        name: "1 token, pipe",
        id: "pipe_1",
        tokens: 1,
        buffered: false,
        measure: Measure::PipeEnd,
        bar: 0.4,
    },
    BenchCase {
        name: "first word, terminal",
        id: "terminal_first_word",
        tokens: 1,
        buffered: false,
        measure: Measure::TerminalFirstWord,
        bar: 0.45,
    },
    BenchCase {
        name: "1,000 tokens, terminal",
        id: "terminal_1000",
        tokens: 1_000,
        buffered: false,
        measure: Measure::TerminalEnd,
        bar: 0.7,
    },
    BenchCase {
        name: "20,000 tokens, pipe",
        id: "pipe_20000",
        tokens: 20_000,
        buffered: false,
        measure: Measure::PipeEnd,
        bar: 1.0,
    },
    BenchCase {
        name: "20,000 tokens in large writes, pipe",
        id: "pipe_20000_buffered",
        tokens: 20_000,
        buffered: true,
        measure: Measure::PipeEnd,
        bar: 1.0,
    },
    BenchCase {
        name: "20,000 tokens, terminal",
        id: "terminal_20000",
        tokens: 20_000,
        buffered: false,
        measure: Measure::TerminalEnd,
        bar: 1.0,
    },
];

/// The cases of every other dialect.
const OTHER_CASES: [BenchCase; 2] = [
    BenchCase {
        name: "1 token",
        id: "pipe_1",
        tokens: 1,
        buffered: false,
        measure: Measure::PipeEnd,
        bar: 0.4,
    },
    BenchCase {
        name: "20,000 tokens",
        id: "pipe_20000",
        tokens: 20_000,
        buffered: false,
        measure: Measure::PipeEnd,
        bar: 1.0,
    },
];

/// A case of a dialect, and the times of `curl` and of aish.
struct Measured<'a> {
    dialect: &'static DialectBench,
    case: &'static BenchCase,
    home: &'a Home,
    by_curl: Samples,
    by_aish: Samples,
}

impl Measured<'_> {
    /// Whether it is a case of chat completions.
    fn is_chat(&self) -> bool {
        self.dialect.provider == DIALECTS[0].provider
    }

    /// Checks the bar, and returns the row of the table.
    fn row(&self, report: &mut FigureReport) -> Vec<String> {
        let ratio = self.by_aish.median() / self.by_curl.median();
        let (id, name) = match self.is_chat() {
            true => (self.case.id.to_owned(), self.case.name.to_owned()),
            false => {
                let provider = self.dialect.provider;
                (
                    format!("{provider}_{}", self.case.id),
                    format!("{provider}, {}", self.case.name),
                )
            }
        };
        report.at_most(&id, ratio, self.case.bar);
        row([
            &name,
            &self.by_curl.shown(),
            &self.by_aish.shown(),
            &format!("{ratio:.2}"),
            &format!("{}", self.case.bar),
            &self.by_curl.len().to_string(),
        ])
    }
}

/// Whether a string of the request is the prompt.
fn asks(value: &Value, prompt: &str) -> bool {
    match value {
        Value::String(text) => text == prompt,
        Value::Array(values) => values.iter().any(|value| asks(value, prompt)),
        Value::Object(fields) => fields.values().any(|value| asks(value, prompt)),
        _ => false,
    }
}

/// Runs a program to its end. Returns the measured time and the output.
fn run(mut command: Command, measure: Measure) -> (Duration, Vec<u8>) {
    let start = Instant::now();
    let (mut child, mut reader) = if measure == Measure::PipeEnd {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = std::os::fd::OwnedFd::from(child.stdout.take().unwrap());
        (child, File::from(stdout))
    } else {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).unwrap();
        let end = || Stdio::from(pty.slave.as_fd().try_clone_to_owned().unwrap());
        command.stdin(end()).stdout(end()).stderr(end());
        (command.spawn().unwrap(), File::from(pty.master))
    };
    // The command holds copies of the write end, which would prevent the end of file.
    drop(command);
    let mut seen = Vec::new();
    let mut word = None;
    let mut buffer = vec![0; 64 << 10];
    // Reading from a terminal whose other end is closed fails on Linux and is the end of file elsewhere.
    while let Ok(length @ 1..) = reader.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..length]);
        if word.is_none() && measure == Measure::TerminalFirstWord && contains(&seen, FIRST_WORD) {
            word = Some(start.elapsed());
        }
    }
    let status = child.wait().unwrap();
    let took = start.elapsed();
    assert!(
        status.success(),
        "{status}: {}",
        String::from_utf8_lossy(&seen)
    );
    let took = match measure {
        Measure::TerminalFirstWord => word.unwrap(),
        _ => took,
    };
    (took, seen)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|w| w == word)
}

/// `curl -N` with this prompt.
fn curl(provider: &Provider, dialect: &DialectBench, prompt: &str) -> Command {
    let mut command = Command::new("curl");
    command.env_clear().envs(ENVIRONMENT).stdin(Stdio::null());
    command.args(["-q", "-sN"]);
    let headers = [
        "content-type: application/json",
        "accept-encoding: identity",
        "user-agent: aish/0",
    ];
    for header in headers.iter().chain(dialect.headers) {
        command.args(["-H", header]);
    }
    command.arg("-d").arg((dialect.body)(prompt).to_string());
    command.arg(format!("{}{}", provider.base_url(), dialect.path));
    command
}

/// The command that the function `llm` runs for the first prompt of a shell.
fn aish(home: &Home, shell: usize, prompt: &str) -> Command {
    let shell = format!("bench-{shell}");
    home.helper(&["ask", "--shell", &shell, "--offer", "--", prompt])
}

/// Peak memory of a client that has received 20,000 tokens, read while the server holds back the end of the answer.
fn client_memory(terminal: bool) -> Option<f64> {
    let text: String = tokens(20_000).iter().map(|t| text_event(t)).collect();
    let script = Script::events([
        Part::from(text.as_str()),
        Part::from(text_event("\n\nEnd.").as_str()),
        Part::Gate("end"),
        Part::from(finish_event("stop").as_str()),
        Part::from("data: [DONE]\n\n"),
    ]);
    let provider = Provider::start([script]);
    let home = Home::new(&provider.base_url());
    home.start();
    let mut command = aish(&home, 1, "20000");
    let pty = openpty(None, None).unwrap();
    let (ours, theirs) = if terminal {
        (pty.master, pty.slave)
    } else {
        nix::unistd::pipe().unwrap()
    };
    command.stdout(theirs).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    drop(command);
    let mut reader = File::from(ours);
    let mut tail = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while !contains(&tail, b"End.") {
        let length = reader.read(&mut buffer).unwrap();
        tail.drain(..tail.len().saturating_sub(16));
        tail.extend_from_slice(&buffer[..length]);
    }
    let most = memory(child.id(), "VmHWM");
    provider.open("end");
    while matches!(reader.read(&mut buffer), Ok(1..)) {}
    assert!(child.wait().unwrap().success());
    most
}

/// The cases of a dialect.
fn cases(dialect: &DialectBench) -> &'static [BenchCase] {
    match dialect.provider == DIALECTS[0].provider {
        true => &CHAT_CASES,
        false => &OTHER_CASES,
    }
}

/// A server that gives the answer of the case that the prompt names.
fn server(dialect: &'static DialectBench) -> Provider {
    let scripts: Vec<(String, Script)> = cases(dialect)
        .iter()
        .map(|case| {
            let script = (dialect.answer)(&tokens(case.tokens));
            let script = if case.buffered {
                script.buffered()
            } else {
                script
            };
            (case.prompt(), script)
        })
        .collect();
    Provider::answering(move |request| {
        let found = scripts
            .iter()
            .find(|(prompt, _)| asks(&request.json, prompt));
        found.unwrap().1.clone()
    })
}

fn main() -> ExitCode {
    // The fake provider keeps every connection that it has accepted.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();

    let servers: Vec<Provider> = DIALECTS.iter().map(server).collect();
    let homes: Vec<Home> = DIALECTS
        .iter()
        .zip(&servers)
        .map(|(dialect, server)| Home::of_provider(dialect.provider, &server.base_url()))
        .collect();
    // Outside of a git repository, whose state would be part of the prompt.
    std::env::set_current_dir("/").unwrap();
    let home = &homes[0];
    let mut ready = Samples::default();
    for _ in 0..10 {
        ready.time(home.start());
        home.stop();
    }
    for home in &homes {
        home.start();
    }
    let fresh = memory(home.daemon(), "VmRSS");

    let measured = DIALECTS.iter().zip(&homes).flat_map(|(dialect, home)| {
        cases(dialect).iter().map(move |case| Measured {
            dialect,
            case,
            home,
            by_curl: Samples::default(),
            by_aish: Samples::default(),
        })
    });
    let mut measured: Vec<Measured<'_>> = measured.collect();
    let server_of = |dialect: &DialectBench| {
        let at = DIALECTS
            .iter()
            .position(|other| other.provider == dialect.provider);
        &servers[at.unwrap()]
    };
    let mut shells = 0;
    let start = Instant::now();
    for round in 0..MAX_ROUNDS + WARM_ROUNDS {
        for one in &mut measured {
            let case = one.case;
            for _ in 0..if case.tokens == 1 {
                SHORT_ANSWER_REPEATS
            } else {
                1
            } {
                shells += 1;
                let prompt = case.prompt();
                let fetch = curl(server_of(one.dialect), one.dialect, &prompt);
                let (curl_took, seen) = run(fetch, Measure::PipeEnd);
                assert!(contains(&seen, one.dialect.last));
                let (aish_took, seen) = run(aish(one.home, shells, &prompt), case.measure);
                assert!(contains(&seen, FIRST_WORD) && seen.len() > 3 * case.tokens);
                if round >= WARM_ROUNDS {
                    one.by_curl.time(curl_took);
                    one.by_aish.time(aish_took);
                }
            }
        }
        if start.elapsed() > TIME_BUDGET && round >= WARM_ROUNDS {
            break;
        }
    }
    let used = memory(home.daemon(), "VmRSS");

    let mut report = FigureReport::new("hot_path");
    report.text("Medians (least–most) in milliseconds; curl is `curl -N` into a pipe.");
    let head = || row(["answer", "curl", "aish", "aish / curl", "bar", "runs"]);
    let mut rows = vec![head()];
    rows.extend(
        measured
            .iter()
            .filter(|one| one.is_chat())
            .map(|one| one.row(&mut report)),
    );
    report.table(&rows);
    report.text("The other formats, into a pipe, with the padding of their providers.");
    let mut rows = vec![head()];
    rows.extend(
        measured
            .iter()
            .filter(|one| !one.is_chat())
            .map(|one| one.row(&mut report)),
    );
    report.table(&rows);

    let size = std::fs::metadata(support::HELPER).unwrap().len() as f64 / 1e6;
    let mut rows = vec![row(["what", "figure", "bar"])];
    for (name, id, megabytes, bar) in [
        (
            "client memory, 20,000 tokens, pipe",
            "client_memory_pipe",
            client_memory(false),
            6.0,
        ),
        (
            "client memory, 20,000 tokens, terminal",
            "client_memory_terminal",
            client_memory(true),
            6.0,
        ),
        ("daemon memory, fresh", "daemon_memory_fresh", fresh, 10.0),
        (
            "daemon memory, idle after all of the above",
            "daemon_memory_used",
            used,
            15.0,
        ),
        ("binary", "binary", Some(size), 14.0),
    ] {
        if let Some(megabytes) = megabytes {
            report.at_most(id, megabytes, bar);
        }
        let shown = megabytes.map_or("unknown here".to_owned(), |m| format!("{m:.1} MB"));
        rows.push(row([name, &shown, &format!("{bar} MB")]));
    }
    report.at_most("daemon_ready", ready.median(), 50.0);
    rows.push(row([
        "daemon ready from cold",
        &format!("{} ms", ready.shown()),
        "50 ms",
    ]));
    report.table(&rows);
    report.finish()
}
