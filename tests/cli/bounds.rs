//! Limits: what a provider or another process sends must not grow the daemon or the journal without bound.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use aish::protocol::{self, Hello, MAX_FRAME, kind};
use nix::unistd::Pid;

use crate::fakes::provider::{Part, Script, finish_event, text_event};
use crate::support::PATIENCE;
use crate::support::helper::Helper;

const MIB: usize = 1 << 20;

/// Returns a field of `/proc/PID/status` in bytes.
fn memory(pid: Pid, field: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
    let line = status.lines().find(|l| l.starts_with(field)).expect(field);
    let value = line.split_whitespace().nth(1).expect("a value");
    value.parse::<usize>().expect("a number") << 10
}

/// An answer with `count` times this text, and a last command.
fn repeated(text: &str, count: usize) -> Script {
    Script::events([
        Part::Repeat(text_event(text).into_bytes(), count),
        Part::from(&*text_event("\nCMD: the last command\n")),
        Part::from(&*finish_event("stop")),
        Part::from("data: [DONE]\n\n"),
    ])
}

#[test]
fn a_long_answer_is_cut_and_its_memory_given_back() {
    let piece = "some words of a very long answer, again and again, to no end at all\n".repeat(60);
    let answer = repeated(&piece, 64 * MIB / piece.len());
    let helper = Helper::new([Script::tokens(["hello"]), answer, Script::tokens(["short"])]);
    helper.ask("first");
    let daemon = helper.daemon();
    let before = memory(daemon, "VmRSS");
    let ask = helper.call(["ask", "--shell", "s1", "--", "much"]).run();
    assert_eq!(ask.stderr.lines().count(), 1, "{}", ask.stderr);
    let notice = "the answer is 64.0 MiB long; only its first 4 MiB are shown and recorded";
    assert!(ask.stderr.contains(notice), "{}", ask.stderr);
    assert_eq!(ask.stdout.trim_end().len(), 4 * MIB - 1);
    let answers = helper.records_of("assistant");
    assert_eq!(answers[1]["text"].as_str().map(str::len), Some(4 * MIB));
    assert!(answers[1]["omitted"].as_u64() > Some(59 * MIB as u64));
    let journal: u64 = helper
        .sessions()
        .iter()
        .map(|f| f.metadata().unwrap().len())
        .sum();
    assert!(journal < 5 * MIB as u64, "{journal}");
    // The session keeps the text, as context of the next prompt.
    helper.ask("after");
    let (after, peak) = (
        memory(daemon, "VmRSS") - before,
        memory(daemon, "VmHWM") - before,
    );
    assert!(peak < 40 * MIB, "{} MiB at most", peak / MIB);
    assert!(after < 24 * MIB, "{} MiB after", after / MIB);
    let shown = helper.call(["session", "show", "--shell", "s1"]).run().ok();
    assert!(
        shown.contains("[the rest was not recorded: 6"),
        "{}",
        shown.len()
    );
}

#[test]
fn at_most_fifty_commands_of_an_answer_are_offered() {
    let helper = Helper::new([repeated("CMD: true\n", 20_000)]);
    let ask = helper
        .call(["ask", "--json", "--shell", "s1", "--", "x"])
        .run();
    let events: Vec<serde_json::Value> = ask
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(events.last().expect("a summary")["proposals"], 50);
    let notice = "19951 more proposed commands are not offered: the limits are 50 commands";
    assert!(ask.stdout.contains(notice), "{}", ask.stderr);
}

/// Connects to the daemon and sends these bytes, as far as it accepts them.
fn connect(helper: &Helper, bytes: &[u8]) -> UnixStream {
    let mut socket = UnixStream::connect(helper.path("run/sock")).expect("the daemon");
    socket.set_nonblocking(true).expect("nonblocking");
    // The daemon reads no further than its limits.
    let _ = socket.write_all(bytes);
    socket.set_nonblocking(false).expect("blocking");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// A frame of this kind and size, filled with blanks.
fn blank_frame(kind: u8, size: usize) -> Vec<u8> {
    let mut frame = vec![b' '; size];
    frame[..4].copy_from_slice(&u32::try_from(size - 4).unwrap().to_le_bytes());
    frame[4] = kind;
    frame
}

#[test]
fn a_flood_of_connections_takes_no_memory_and_clients_are_still_served() {
    let helper = Helper::saying("ok");
    helper.ask("first");
    let daemon = helper.daemon();
    let before = memory(daemon, "VmRSS");
    // A large frame before the hello is refused immediately.
    let mut early = connect(&helper, &blank_frame(kind::HELLO, MAX_FRAME)[..1000]);
    assert_eq!(early.read(&mut [0; 1]).expect("the end"), 0);
    // After the hello, large frames are read one at a time.
    let mut request = protocol::json_frame(kind::HELLO, &Hello::current()).unwrap();
    request.extend(blank_frame(kind::REQUEST, 16 * MIB));
    request.pop();
    std::thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                let mut socket = UnixStream::connect(helper.path("run/sock")).expect("the daemon");
                socket
                    .set_write_timeout(Some(Duration::from_secs(2)))
                    .expect("a timeout");
                let _ = socket.write_all(&request);
            });
        }
        assert_eq!(helper.ask("meanwhile"), "ok\n");
    });
    // Silent clients: the oldest ones are closed.
    let mut silent: Vec<UnixStream> = (0..200).map(|_| connect(&helper, b"")).collect();
    assert_eq!(helper.ask("again"), "ok\n");
    assert_eq!(silent[0].read(&mut [0; 1]).expect("the end"), 0);
    let peak = memory(daemon, "VmHWM") - before;
    assert!(peak < 40 * MIB, "{} MiB at most", peak / MIB);
}

/// An MCP server that says which number it got, as it was written.
const COUNTS: &str = r#"#!/bin/sh
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case $line in
  *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}' ;;
  *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"count","inputSchema":{"type":"object"}}]}}' ;;
  *'"tools/call"'*) n=$(printf '%s' "$line" | sed -n 's/.*"n":\([^,}]*\).*/\1/p')
    echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"got '$n'"}]}}' ;;
  esac
done
"#;

#[test]
fn a_large_integer_reaches_the_tool_as_the_model_wrote_it() {
    let numbers = ["18446744073709551616", "-9223372036854775809"];
    let arguments: Vec<String> = numbers.iter().map(|n| format!("{{\"n\":{n}}}")).collect();
    let mut scripts: Vec<Script> = arguments
        .iter()
        .map(|arguments| Script::calls("", &[("c", "s.count", arguments)]))
        .collect();
    scripts.push(Script::tokens(["done"]));
    let helper = Helper::new(scripts);
    helper.home.program("counts", COUNTS);
    let program = helper.home.path("bin/counts");
    helper.config(&format!(
        "[mcp.servers.s]\ncommand = \"{}\"\n[policy.rules]\n\"s.count\" = \"allow\"\n",
        program.display()
    ));
    assert_eq!(helper.ask("count"), "done\n");
    let results = helper.records_of("tool");
    for ((result, number), arguments) in results.iter().zip(numbers).zip(&arguments) {
        assert_eq!(result["text"], format!("got {number}"));
        assert_eq!(result["arguments"], arguments.as_str());
    }
    assert_eq!(results.len(), numbers.len());
}
