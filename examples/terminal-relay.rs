//! Connects its standard input and output with a unix socket, so that the client that a test plays is a process with a
//! terminal. With a second socket it connects the two, so that the client is a process that something else has started.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut buffer = [0; 65536];
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..n])?;
        to.flush()?;
    }
}

fn main() -> io::Result<()> {
    let mut paths = std::env::args_os().skip(1);
    let socket = UnixStream::connect(paths.next().unwrap_or_default())?;
    if let Some(path) = paths.next() {
        let other = UnixStream::connect(path)?;
        let (from, to) = (socket.try_clone()?, other.try_clone()?);
        let answers = std::thread::spawn(move || copy(from, to));
        // Without an error the client has closed its end; with one the socket has closed, and its last answer still
        // has to be passed on.
        if copy(other, &socket).is_ok() {
            socket.shutdown(Shutdown::Both)?;
        }
        let _ = answers.join();
        return Ok(());
    }
    let sending = socket.try_clone()?;
    std::thread::spawn(move || {
        let _ = copy(io::stdin().lock(), &sending);
        // The client has closed its end.
        let _ = sending.shutdown(Shutdown::Both);
    });
    let _ = copy(&socket, io::stdout().lock());
    // Not by returning: the other thread still reads.
    std::process::exit(0);
}
