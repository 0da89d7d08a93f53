//! One prompt through the warm daemon, in units of what `curl -N` takes to
//! fetch the same answer from the same server. `curl` and `aish-helper` take
//! turns, so that both see the same machine; medians are compared.
//!
//! `cargo bench --bench hot_path`

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

#[expect(dead_code, reason = "tests use the rest of it")]
#[path = "../tests/fakes/provider.rs"]
mod provider;
#[expect(dead_code, reason = "each bench uses its part")]
mod support;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use provider::{Part, Provider, Script, finish_event, text_event};
use support::{ENVIRONMENT, Home, Samples, memory, row, table};

/// How long the rounds take together.
const BUDGET: Duration = Duration::from_secs(75);
/// No more than this many rounds.
const ROUNDS: usize = 60;
/// The first rounds warm everything up and do not count.
const WARM: usize = 2;
/// Short answers are measured so often in each round.
const OFTEN: usize = 4;

/// An answer as models write it; it is cut into tokens of about four bytes and repeated.
const TEXT: &str = "\
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

/// What is seen first on a terminal.
const FIRST: &[u8] = b"Hello";

/// The first `n` tokens.
fn tokens(n: usize) -> Vec<&'static str> {
    let mut tokens = Vec::new();
    let mut start = 0;
    for (at, _) in TEXT.char_indices().skip(1) {
        let long = at - start >= 6;
        if long || TEXT.as_bytes()[at] == b' ' && at - start >= 3 {
            tokens.push(&TEXT[start..at]);
            start = at;
        }
    }
    tokens.push(&TEXT[start..]);
    tokens.into_iter().cycle().take(n).collect()
}

/// Where stdout is, and until when the time is taken.
#[derive(Clone, Copy, PartialEq)]
enum Until {
    /// A pipe; to the end.
    Pipe,
    /// A terminal; to the first word.
    Word,
    /// A terminal; to the end.
    Terminal,
}

struct Case {
    name: &'static str,
    tokens: usize,
    until: Until,
    bar: f64,
}

const CASES: [Case; 5] = [
    Case {
        name: "1 token, pipe",
        tokens: 1,
        until: Until::Pipe,
        bar: 0.4,
    },
    Case {
        name: "first word, terminal",
        tokens: 1,
        until: Until::Word,
        bar: 0.45,
    },
    Case {
        name: "1,000 tokens, terminal",
        tokens: 1_000,
        until: Until::Terminal,
        bar: 0.7,
    },
    Case {
        name: "20,000 tokens, pipe",
        tokens: 20_000,
        until: Until::Pipe,
        bar: 1.2,
    },
    Case {
        name: "20,000 tokens, terminal",
        tokens: 20_000,
        until: Until::Terminal,
        bar: 2.0,
    },
];

/// Runs a program to its end. How long it took until what is wanted was there, and what it wrote.
fn run(mut command: Command, until: Until) -> (Duration, Vec<u8>) {
    let start = Instant::now();
    let (mut child, mut reader) = if until == Until::Pipe {
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
    // It holds our copies of the other end, without which there would be no end of file.
    drop(command);
    let mut seen = Vec::new();
    let mut word = None;
    let mut buffer = vec![0; 64 << 10];
    // A terminal whose other end is closed is an error on Linux, the end of the file elsewhere.
    while let Ok(length @ 1..) = reader.read(&mut buffer) {
        seen.extend_from_slice(&buffer[..length]);
        if word.is_none() && until == Until::Word && contains(&seen, FIRST) {
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
    let took = match until {
        Until::Word => word.unwrap(),
        _ => took,
    };
    (took, seen)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|w| w == word)
}

/// `curl -N`, asking for so many tokens.
fn curl(provider: &Provider, tokens: usize) -> Command {
    let body = serde_json::json!({
        "model": "fake",
        "messages": [
            { "role": "system", "content": "You are measured." },
            { "role": "user", "content": tokens.to_string() },
        ],
        "stream": true,
        "stream_options": { "include_usage": true },
    });
    let mut command = Command::new("curl");
    command.env_clear().envs(ENVIRONMENT).stdin(Stdio::null());
    command.args(["-q", "-sN", "-H", "content-type: application/json"]);
    command.args([
        "-H",
        "accept-encoding: identity",
        "-H",
        "user-agent: aish/0",
    ]);
    command.arg("-d").arg(body.to_string());
    command.arg(format!("{}/chat/completions", provider.base_url()));
    command
}

/// What the function `llm` runs for the first prompt of a shell, asking for so many tokens.
fn aish(home: &Home, shell: usize, tokens: usize) -> Command {
    let (shell, tokens) = (format!("bench-{shell}"), tokens.to_string());
    home.helper(&["ask", "--shell", &shell, "--offer", "--", &tokens])
}

/// The most memory that a client takes for 20,000 tokens.
///
/// It is read while the server still holds back the end of the answer.
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
    let mut command = aish(&home, 1, 20_000);
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

fn main() {
    // The server keeps every connection that it was ever given.
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();

    let scripts: Vec<_> = CASES
        .iter()
        .map(|c| (c.tokens, Script::tokens(tokens(c.tokens))))
        .collect();
    let provider = Provider::answering(move |request| {
        let messages = request.json["messages"].as_array().unwrap();
        let asked = messages.last().unwrap()["content"].as_str().unwrap();
        let found = scripts.iter().find(|(n, _)| asked == n.to_string());
        found.unwrap().1.clone()
    });
    let home = Home::new(&provider.base_url());
    let mut ready = Samples::default();
    for _ in 0..10 {
        ready.time(home.start());
        home.stop();
    }
    home.start();
    let fresh = memory(home.daemon(), "VmRSS");

    let mut times: Vec<(Samples, Samples)> = CASES.iter().map(|_| Default::default()).collect();
    let mut shells = 0;
    let start = Instant::now();
    for round in 0..ROUNDS + WARM {
        for (case, (by_curl, by_aish)) in CASES.iter().zip(&mut times) {
            for _ in 0..if case.tokens == 1 { OFTEN } else { 1 } {
                shells += 1;
                let (curl_took, seen) = run(curl(&provider, case.tokens), Until::Pipe);
                assert!(contains(&seen, b"[DONE]"));
                let (aish_took, seen) = run(aish(&home, shells, case.tokens), case.until);
                assert!(contains(&seen, FIRST) && seen.len() > 3 * case.tokens);
                if round >= WARM {
                    by_curl.time(curl_took);
                    by_aish.time(aish_took);
                }
            }
        }
        if start.elapsed() > BUDGET {
            break;
        }
    }
    let used = memory(home.daemon(), "VmRSS");

    println!("Medians (least–most) in milliseconds; curl is `curl -N` into a pipe.\n");
    let mut rows = vec![row([
        "answer",
        "curl",
        "aish",
        "aish / curl",
        "bar",
        "runs",
    ])];
    for (case, (by_curl, by_aish)) in CASES.iter().zip(&times) {
        rows.push(row([
            case.name,
            &by_curl.shown(),
            &by_aish.shown(),
            &format!("{:.2}", by_aish.median() / by_curl.median()),
            &format!("< {}", case.bar),
            &by_curl.len().to_string(),
        ]));
    }
    table(&rows);

    let mb = |m: Option<f64>| m.map_or("unknown here".to_string(), |m| format!("{m:.1} MB"));
    let size = std::fs::metadata(support::HELPER).unwrap().len();
    table(&[
        row(["what", "figure", "bar"]),
        row([
            "client memory, 20,000 tokens, pipe",
            &mb(client_memory(false)),
            "< 6 MB",
        ]),
        row([
            "client memory, 20,000 tokens, terminal",
            &mb(client_memory(true)),
            "< 6 MB",
        ]),
        row([
            "daemon ready from cold",
            &format!("{} ms", ready.shown()),
            "< 50 ms",
        ]),
        row(["daemon memory, fresh", &mb(fresh), "< 15 MB"]),
        row([
            "daemon memory, idle after all of the above",
            &mb(used),
            "< 15 MB",
        ]),
        row(["binary", &format!("{:.1} MB", size as f64 / 1e6), "< 15 MB"]),
    ]);
    println!("cargo bench --bench hot_path");
}
