//! Frames of the protocol, as the daemon reads them.

use std::collections::BTreeMap;
use std::fmt::Debug;

use aish::daemon::frames::Connection;
use aish::protocol::tools::Reaction;
use aish::protocol::{
    self, AskAccepted, CapturedOutput, FrameDecoder, HEADER, Hello, Request, kind,
};
use interprocess::local_socket::tokio::Stream;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use crate::fuzz::mutator::pieces;
use crate::fuzz::{Shape, Target};

pub const TARGET: Target = Target {
    name: "socket",
    run,
    shape: Shape::Bytes,
    usual_size: 4 << 10,
    tokens: &[
        "\u{2}\0\0\0C",
        "\u{1}\0\0\0C",
        "\0\0\0\0H",
        "\u{3}\0\0\0H{}",
        "{",
        "}",
        "[",
        "]",
        ",",
        "null",
        "true",
        "\"\"",
        "1e999",
        "18446744073709551616",
        "\"type\":",
        "\"ask\"",
        "\"attach\"",
        "\"shell\":\"1-a\"",
        "\"session\":",
        "\"new\"",
        "{\"attach\":\"x\"}",
        "\"overrides\":{\"AISH_MODEL\":\"m\"}",
        "\"protocol\":5",
        "\"version\":\"9.9.9\"",
        "\"stop\"",
        "\"now\":true",
        "\"cwd\":\"/\"",
        "\"limit\":1",
        "\"decide\"",
        "\"token\":\"t\"",
        "\"choice\":\"run\"",
        "\"policy\"",
        "\"mcp\"",
        "\"call\"",
        "\"capture\"",
        "\"request\":",
    ],
};

type Frames = (Vec<(u8, Vec<u8>)>, Option<String>);

fn decode(pieces: &[&[u8]]) -> Frames {
    let mut decoder = FrameDecoder::default();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some((kind, body))) => frames.push((kind, body.to_vec())),
                Ok(None) => break,
                Err(e) => return (frames, Some(e.message)),
            }
        }
    }
    (frames, None)
}

/// Reads frames as the daemon does: a hello, a request, then the others.
fn read(input: &[u8]) -> (Option<Hello>, Option<Request>, usize) {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    }
    let work = async {
        let (mut client, daemon) = UnixStream::pair().expect("a pair of sockets");
        let daemon = interprocess::os::unix::uds_local_socket::tokio::Stream::from(daemon);
        let mut connection = Connection::new(Stream::from(daemon));
        let write = async {
            // Fails if the daemon rejects the input before its end.
            let _ = client.write_all(input).await;
            drop(client);
        };
        let read = async {
            let reader = &mut connection.reader;
            let hello = reader.expect::<Hello>(kind::HELLO).await.ok();
            let request = match hello {
                Some(_) => reader.expect::<Request>(kind::REQUEST).await.ok(),
                None => None,
            };
            let mut count = 0;
            while request.is_some() && matches!(reader.read().await, Ok(Some(_))) {
                count += 1;
            }
            drop(connection);
            (hello, request, count)
        };
        tokio::join!(write, read).1
    };
    RUNTIME.with(|runtime| runtime.block_on(work))
}

/// Checks that a body that can be parsed can be written and parsed again.
fn again<T: DeserializeOwned + Serialize + Debug>(kind: u8, body: &[u8]) -> Option<T> {
    let value: T = protocol::parse(body).ok()?;
    let frame = protocol::json_frame(kind, &value).expect("a frame");
    let parsed: T = protocol::parse(&frame[HEADER..]).expect("the same value");
    assert_eq!(format!("{value:?}"), format!("{parsed:?}"));
    Some(value)
}

fn run(input: &[u8]) -> bool {
    let (frames, error) = decode(&[input]);
    assert_eq!(decode(&pieces(input)), (frames.clone(), error));
    let mut rest = input;
    for (kind, body) in &frames {
        let (frame, after) = rest.split_at(HEADER + body.len());
        assert_eq!((frame[4], &frame[HEADER..]), (*kind, &body[..]));
        rest = after;
        match *kind {
            kind::HELLO => {
                if let Some(hello) = again::<Hello>(*kind, body) {
                    assert!(!hello.is_newer(&hello.version));
                }
            }
            kind::REQUEST => drop(again::<Request>(*kind, body)),
            kind::ENV => drop(again::<BTreeMap<String, String>>(*kind, body)),
            kind::CAPTURED => drop(again::<CapturedOutput>(*kind, body)),
            kind::REACTION => drop(again::<Reaction>(*kind, body)),
            kind::REPLY => drop(again::<AskAccepted>(*kind, body)),
            _ => {}
        }
    }
    let (hello, request, count) = read(input);
    let first = frames.first().filter(|(kind, _)| *kind == kind::HELLO);
    let expected: Option<Hello> = first.and_then(|(_, body)| protocol::parse(body).ok());
    assert_eq!(hello, expected);
    if request.is_some() {
        assert_eq!(count, frames.len() - 2, "every frame is read");
    }
    request.is_some()
}
