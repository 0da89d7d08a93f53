//! Connections to the daemon from a process with a terminal, as a person's client has one.

use std::io::Read;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;

use aish::error::Error;
use aish::protocol::{self, FrameDecoder, Hello, Request, RequestFailure, kind};
use pty_process::blocking::{Command, Pty, open};
use serde::de::DeserializeOwned;

use super::example;

/// A connection through a process in the foreground of a new terminal.
pub struct TerminalSocket {
    pub stream: UnixStream,
    /// The terminal exists as long as this is open.
    _pty: Pty,
    child: std::process::Child,
}

/// Connects to a socket.
pub fn connect(socket: &Path) -> TerminalSocket {
    let (pty, pts) = open().expect("a pty");
    let (stream, other) = UnixStream::pair().expect("a pair of sockets");
    let fd = || OwnedFd::from(other.try_clone().expect("a descriptor"));
    let child = Command::new(example("terminal-relay"))
        .arg(socket)
        .env_clear()
        .stdin(fd())
        .stdout(fd())
        .spawn(pts)
        .expect("the relay");
    TerminalSocket {
        stream,
        _pty: pty,
        child,
    }
}

impl Drop for TerminalSocket {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request from a terminal and returns its reply.
pub fn request<T: DeserializeOwned>(socket: &Path, request: &Request) -> Result<T, Error> {
    use std::io::Write;
    let mut connection = connect(socket);
    let hello = protocol::json_frame(kind::HELLO, &Hello::current()).expect("a frame");
    let frame = protocol::json_frame(kind::REQUEST, request).expect("a frame");
    let stream = &mut connection.stream;
    stream
        .write_all(&[hello, frame].concat())
        .expect("the daemon listens");
    let mut decoder = FrameDecoder::default();
    let mut buffer = [0; 65536];
    loop {
        while let Some((kind, body)) = decoder.next_frame().expect("frames") {
            match kind {
                kind::REPLY => return protocol::parse(body),
                kind::FAILURE => {
                    let failure: RequestFailure = protocol::parse(body).expect("a failure");
                    return Err(failure.into());
                }
                _ => {}
            }
        }
        let n = stream.read(&mut buffer).expect("the daemon answers");
        assert!(n > 0, "the daemon hung up");
        decoder.push(&buffer[..n]);
    }
}
