//! A prompt with tool calls through a daemon, as seen by its client: the frames and their times.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on has failed"
)]

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use aish::chat::CallStatus;
use aish::protocol::{self, AskRequest, Event, FrameDecoder, Hello, Request, ShellId, kind};

use super::provider::{self, Script, Shape};
use super::support::Home;

/// Text of the model before its calls.
const WORDS: &str = "So:\n\n";

/// A model for prompts of the form `ROUNDS CALLS TOOL ARGUMENT TEXT`: makes CALLS calls of the tool in each of ROUNDS
/// rounds, with a different text each time, and checks the results.
pub fn model(request: &provider::Request) -> Script {
    let messages = request.json["messages"].as_array().unwrap();
    let asked = messages.iter().rfind(|m| m["role"] == "user").unwrap();
    let asked = asked["content"].as_str().unwrap();
    let words: Vec<_> = asked.lines().last().unwrap().split(' ').collect();
    let [rounds, calls, tool, argument, text] = words[..] else {
        panic!("{asked}")
    };
    let [rounds, calls] = [rounds, calls].map(|n| n.parse::<usize>().unwrap());
    let told: Vec<_> = messages.iter().filter(|m| m["role"] == "tool").collect();
    for (n, told) in told.iter().enumerate() {
        let told = told["content"].as_str().unwrap().trim_end();
        assert!(told.ends_with(&format!("{text}/{n}")), "{told}");
    }
    if told.len() == rounds * calls {
        return Script::tokens(["Done."]);
    }
    let made: Vec<_> = (told.len()..told.len() + calls)
        .map(|n| {
            let arguments = serde_json::json!({ argument: format!("{text}/{n}") });
            (format!("call-{n}"), arguments.to_string())
        })
        .collect();
    let calls: Vec<_> = made
        .iter()
        .map(|(id, arguments)| (id.as_str(), tool, arguments.as_str()))
        .collect();
    Script::calls_in(Shape::Whole, WORDS, &calls)
}

/// Sends this prompt to the [`model`]. Returns the time of each round: from the model's text before its calls to the end
/// of the last call.
pub fn ask(home: &Home, shell: Option<&str>, cwd: &str, asked: [&str; 5]) -> Vec<Duration> {
    let [rounds, calls] = [asked[0], asked[1]].map(|n| n.parse::<usize>().unwrap());
    let ask = AskRequest {
        shell: shell.map(|s| ShellId::parse(s).unwrap()),
        text: asked.join(" "),
        cwd: cwd.to_owned(),
        ..AskRequest::default()
    };
    let mut socket = UnixStream::connect(home.path().join("run/sock")).unwrap();
    let hello = protocol::json_frame(kind::HELLO, &Hello::current()).unwrap();
    let request = protocol::json_frame(kind::REQUEST, &Request::Ask(Box::new(ask))).unwrap();
    socket.write_all(&[hello, request].concat()).unwrap();
    let mut decoder = FrameDecoder::default();
    let mut buffer = vec![0; 64 << 10];
    let (mut took, mut ended) = (Vec::new(), 0);
    let mut start = Instant::now();
    loop {
        let length = socket.read(&mut buffer).unwrap();
        let now = Instant::now();
        assert!(length > 0, "the daemon hung up");
        decoder.push(&buffer[..length]);
        while let Some((kind, body)) = decoder.next_frame().unwrap() {
            match kind {
                kind::HELLO => {}
                kind::TEXT => start = now,
                kind::EVENT => match protocol::parse(body).unwrap() {
                    Event::ToolCallFinished(end) => {
                        assert_eq!(end.status, CallStatus::Success, "{end:?}");
                        ended += 1;
                        if ended % calls == 0 {
                            took.push(now - start);
                        }
                    }
                    Event::TurnStarted { .. }
                    | Event::NewTools(_)
                    | Event::ToolCallStarted(_)
                    | Event::ToolCallProgress { .. }
                    // The fake model counts few tokens.
                    | Event::Notice { .. } => {}
                    other => panic!("{other:?}"),
                },
                kind::REPLY => {
                    assert_eq!(took.len(), rounds);
                    return took;
                }
                _ => panic!("{}", String::from_utf8_lossy(body)),
            }
        }
    }
}
