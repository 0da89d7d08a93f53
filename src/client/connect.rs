//! Connects to the daemon, and starts it if necessary; concurrent clients start a single daemon.

mod spawn;
mod try_query;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use interprocess::ConnectWaitMode;
use interprocess::local_socket::traits::StreamCommon;
use interprocess::local_socket::{ConnectOptions, GenericFilePath, Stream, ToFsName};
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::spawn::close_inherited;
use self::spawn::{not_started, spawn_daemon};
pub use self::try_query::try_query;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::{Paths, lock_file};
use crate::protocol::{self, FrameDecoder, Hello, PROTOCOL, Request, RequestFailure, kind};
use crate::safety::text::one_line;

/// Timeout of connect(2). It blocks only while the backlog is full because the daemon hangs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the daemon may take to say hello. Only a stopped or swapped-out daemon takes that long.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client waits for a leaving daemon to finish its turns.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(600);
/// How many times the daemon may leave just as this client connects.
const MAX_ATTEMPTS: usize = 5;
/// Waits longer than this are reported on stderr.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// A connection to the daemon after the exchange of hellos.
#[derive(Debug)]
pub struct DaemonConnection {
    stream: UnixStream,
    decoder: FrameDecoder,
    /// Process id of the daemon, from the peer credentials of the socket.
    pub pid: Option<i32>,
}

/// Result of connecting to the socket.
enum SocketProbe {
    Connected(UnixStream, Option<i32>),
    Absent,
}

fn probe(paths: &Paths) -> Result<SocketProbe> {
    if !paths.check_run()? {
        return Ok(SocketProbe::Absent);
    }
    let path = paths.socket();
    let name = path
        .as_path()
        .to_fs_name::<GenericFilePath>()
        .context(|| format!("bad path {}", path.display()))?;
    let options = ConnectOptions::new()
        .name(name)
        .wait_mode(ConnectWaitMode::Timeout(CONNECT_TIMEOUT));
    match options.connect_sync() {
        Ok(stream) => {
            let pid = stream.peer_creds().ok().and_then(|c| c.pid());
            let Stream::UdSocket(stream) = stream;
            Ok(SocketProbe::Connected(
                UnixStream::from(std::os::fd::OwnedFd::from(stream)),
                pid,
            ))
        }
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Ok(SocketProbe::Absent)
        }
        Err(e) if matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
            Err(hangs(None))
        }
        Err(e) => Err(Error::runtime(format!(
            "cannot connect to {}: {e}",
            path.display()
        ))),
    }
}

fn hangs(pid: Option<i32>) -> Error {
    let who = pid.map(|p| format!(" (process {p})")).unwrap_or_default();
    Error::runtime(format!("the aish daemon{who} does not answer")).hint("run: aish-helper restart")
}

/// State of the running daemon, if there is one.
#[derive(Debug)]
pub enum ExistingDaemon {
    /// The daemon accepted the request.
    Serves(DaemonConnection),
    /// A daemon of this version is finishing its turns and no longer accepts requests.
    Leaves(String),
    /// No daemon is running.
    Absent,
}

/// Sends a request to the running daemon without starting one, and without replacing an older one.
///
/// # Errors
/// The socket directory is not safe, or the daemon hangs.
pub fn existing(paths: &Paths, request: &Request) -> Result<ExistingDaemon> {
    let SocketProbe::Connected(stream, pid) = probe(paths)? else {
        return Ok(ExistingDaemon::Absent);
    };
    let hello = Hello {
        read_only: true,
        ..Hello::current()
    };
    Ok(
        match greet_as(&hello, stream, pid, Some(request), HELLO_TIMEOUT)? {
            HelloReply::Served(connection) => ExistingDaemon::Serves(connection),
            HelloReply::Leaving(Some(version)) => ExistingDaemon::Leaves(version),
            HelloReply::Leaving(None) => ExistingDaemon::Absent,
            HelloReply::Outdated(version) => {
                return Err(Error::runtime(format!(
                    "the daemon ({}) is older than this aish-helper ({})",
                    one_line(&version, 40),
                    env!("CARGO_PKG_VERSION")
                ))
                .hint("the next prompt replaces it"));
            }
        },
    )
}

/// Connects to the daemon, starting one if necessary, and sends it a request.
///
/// # Errors
/// The socket directory is not safe, the daemon hangs, or none can be started.
pub fn to_daemon(paths: &Paths, request: &Request) -> Result<DaemonConnection> {
    // An older daemon leaves when a newer client connects; the next attempt starts a new one.
    for _ in 0..MAX_ATTEMPTS {
        let (stream, pid) = match probe(paths)? {
            SocketProbe::Connected(stream, pid) => (stream, pid),
            SocketProbe::Absent => start(paths)?,
        };
        match greet(stream, pid, Some(request))? {
            HelloReply::Served(connection) => return Ok(connection),
            HelloReply::Outdated(version) => {
                report_outdated(&version);
                dismiss(paths, &version)?;
            }
            HelloReply::Leaving(Some(version)) if Hello::current().is_newer(&version) => {
                report_outdated(&version);
            }
            HelloReply::Leaving(_) => {}
        }
        wait_until_gone(paths)?;
    }
    Err(
        Error::runtime("no daemon accepts this version of aish-helper")
            .hint("run: aish-helper restart"),
    )
}

/// Says that an older daemon is replaced.
fn report_outdated(version: &str) {
    let ours = env!("CARGO_PKG_VERSION");
    let version = one_line(version, 40);
    // A closed stderr cannot be reported anywhere.
    let _ = writeln!(
        std::io::stderr(),
        "[aish] the daemon ({version}) is older than this aish-helper ({ours}); it will be replaced when its running turns end"
    );
}

/// Makes a daemon with an older protocol leave after its turns, as for a client of a newer version. It refuses every
/// request of this protocol, a stop too.
fn dismiss(paths: &Paths, version: &str) -> Result<()> {
    let SocketProbe::Connected(stream, pid) = probe(paths)? else {
        return Ok(());
    };
    let hello = Hello {
        version: format!("{version}.1"),
        ..Hello::current()
    };
    match greet_as(&hello, stream, pid, None, HELLO_TIMEOUT)? {
        HelloReply::Leaving(_) => Ok(()),
        // It refused to be replaced, so waiting for it is useless.
        _ => Err(Error::runtime("the daemon is older than this aish-helper, and cannot be replaced by a program that aish has started")
            .hint("run: aish-helper restart")),
    }
}

/// The daemon's answer to the hello.
enum HelloReply {
    Served(DaemonConnection),
    /// The daemon has this version and an older protocol, and does not serve the request.
    Outdated(String),
    /// With the daemon's version, unless it closed the connection first.
    Leaving(Option<String>),
}

fn greet(stream: UnixStream, pid: Option<i32>, request: Option<&Request>) -> Result<HelloReply> {
    greet_as(&Hello::current(), stream, pid, request, HELLO_TIMEOUT)
}

/// Sends hello and request in one write, so that a running daemon costs one round trip.
fn greet_as(
    ours: &Hello,
    stream: UnixStream,
    pid: Option<i32>,
    request: Option<&Request>,
    patience: Duration,
) -> Result<HelloReply> {
    let mut frames = protocol::json_frame(kind::HELLO, ours)?;
    if let Some(request) = request {
        frames.extend(protocol::json_frame(kind::REQUEST, request)?);
    }
    stream
        .set_write_timeout(Some(patience))
        .context(|| "cannot set up the socket".into())?;
    stream
        .set_read_timeout(Some(patience))
        .context(|| "cannot set up the socket".into())?;
    let mut connection = DaemonConnection {
        stream,
        decoder: FrameDecoder::default(),
        pid,
    };
    // A daemon that rejects the hello may close before it has read the request, so the reply counts first.
    let sent = connection.stream.write_all(&frames);
    let hello: Hello = match connection.read() {
        Ok(Some((kind::HELLO, body))) => protocol::parse(&body)?,
        Ok(Some(_)) => {
            return Err(Error::runtime("the daemon uses an incompatible protocol")
                .hint("run: aish-helper restart"));
        }
        Ok(None) => return Ok(HelloReply::Leaving(None)),
        Err(e) if is_timeout(&e) => return Err(hangs(pid)),
        // The daemon ended with this connection in its backlog.
        Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(HelloReply::Leaving(None)),
        Err(e) => {
            return Err(Error::runtime(format!("cannot talk to the daemon: {e}"))
                .hint("run: aish-helper restart"));
        }
    };
    if hello.leaving {
        return Ok(HelloReply::Leaving(Some(hello.version)));
    }
    if hello.protocol < PROTOCOL {
        return Ok(HelloReply::Outdated(hello.version));
    }
    sent.context(|| "cannot send the request to the daemon".into())?;
    connection
        .stream
        .set_read_timeout(None)
        .context(|| "cannot set up the socket".into())?;
    Ok(HelloReply::Served(connection))
}

fn is_timeout(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Starts a daemon. If another client is starting one, waits for that client first.
fn start(paths: &Paths) -> Result<(UnixStream, Option<i32>)> {
    paths.prepare_run()?;
    let lock = report_wait(
        "another aish-helper, which is starting the daemon; Ctrl-C stops waiting",
        || lock_file(&paths.run.join("start.lock")),
    )?;
    // The previous holder of the lock may have started a daemon.
    if let SocketProbe::Connected(stream, pid) = probe(paths)? {
        return Ok((stream, pid));
    }
    // A daemon that has removed its socket may still be finishing its turns.
    wait_until_gone(paths)?;
    if let SocketProbe::Connected(stream, pid) = probe(paths)? {
        return Ok((stream, pid));
    }
    spawn_daemon()?;
    drop(lock);
    match probe(paths)? {
        SocketProbe::Connected(stream, pid) => Ok((stream, pid)),
        SocketProbe::Absent => Err(not_started("it ended at once")),
    }
}

/// Runs `wait` and prints the reason for waiting on stderr if it takes longer than [`REPORT_AFTER`]. The wait itself stays a
/// plain system call, which Ctrl-C ends.
fn report_wait<T>(waits_for: &'static str, wait: impl FnOnce() -> T) -> T {
    let (done, waiting) = channel::<()>();
    let reporter = std::thread::spawn(move || {
        if waiting.recv_timeout(REPORT_AFTER) == Err(RecvTimeoutError::Timeout) {
            // A closed stderr cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "[aish] waiting for {waits_for}");
        }
    });
    let result = wait();
    drop(done);
    // A panic of the reporter is impossible, and the result does not depend on it.
    let _ = reporter.join();
    result
}

/// Returns the process id of the listening daemon, even if it does not answer.
pub fn listener_pid(paths: &Paths) -> Option<i32> {
    match probe(paths) {
        Ok(SocketProbe::Connected(_, pid)) => pid,
        _ => None,
    }
}

/// Returns whether a daemon replies. The socket of one that was killed may accept connections for a moment after its others closed.
pub fn is_served(paths: &Paths) -> bool {
    let request = Request::Server(protocol::ServerRequest::Status);
    !matches!(existing(paths, &request), Ok(ExistingDaemon::Absent))
}

/// Waits until the leaving daemon releases its lock, or the next daemon serves.
///
/// # Errors
/// The daemon is still running after [`LEAVE_TIMEOUT`].
fn wait_until_gone(paths: &Paths) -> Result<()> {
    let path = paths.lock();
    let mut file = match File::open(&path) {
        Ok(file) => file,
        // No daemon has ever run.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).context(|| format!("cannot open {}", path.display())),
    };
    let start = Instant::now();
    let mut reported = false;
    loop {
        // flock(2) has no timeout; this loop runs once after an update.
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => return Ok(()),
            Err(_) if next_serves(paths)? => return Ok(()),
            Err((again, _)) if start.elapsed() < LEAVE_TIMEOUT => file = again,
            Err(_) => {
                return Err(Error::runtime("the daemon has not finished its turns")
                    .hint("run: aish-helper stop --now"));
            }
        }
        if !reported && start.elapsed() > REPORT_AFTER {
            reported = true;
            // A closed stderr cannot be reported anywhere.
            let _ = writeln!(
                std::io::stderr(),
                "[aish] waiting for the daemon to finish its turns; to stop it at once: aish-helper stop --now"
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns whether a daemon listens that is not about to leave.
fn next_serves(paths: &Paths) -> Result<bool> {
    Ok(match probe(paths)? {
        SocketProbe::Connected(stream, pid) => {
            matches!(greet(stream, pid, None)?, HelloReply::Served(_))
        }
        SocketProbe::Absent => false,
    })
}

/// Stops the daemon and waits until it has ended. Returns `false` if no daemon was running.
///
/// # Errors
/// The socket directory is not safe, or the daemon hangs.
pub fn stop(paths: &Paths, now: bool) -> Result<bool> {
    let SocketProbe::Connected(stream, pid) = probe(paths)? else {
        return Ok(false);
    };
    // A daemon that is leaving already accepts no requests, but it accepts this one.
    match greet(stream, pid, Some(&Request::Stop { now }))? {
        HelloReply::Served(mut connection) => connection.reply::<()>()?,
        HelloReply::Outdated(version) => dismiss(paths, &version)?,
        HelloReply::Leaving(_) => {}
    }
    wait_until_gone(paths)?;
    Ok(true)
}

impl DaemonConnection {
    /// Reads the next frame; `None` at end of file.
    ///
    /// # Errors
    /// The socket failed or timed out, or the bytes received are not a frame.
    pub fn read(&mut self) -> std::io::Result<Option<(u8, Vec<u8>)>> {
        loop {
            if let Some(frame) = self.buffered_frame()? {
                return Ok(Some(frame));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Returns the next complete frame without reading from the socket.
    ///
    /// # Errors
    /// The bytes received are not a frame.
    pub fn buffered_frame(&mut self) -> std::io::Result<Option<(u8, Vec<u8>)>> {
        let frame = self
            .decoder
            .next_frame()
            .map_err(|e| std::io::Error::other(e.message))?;
        Ok(frame.map(|(kind, body)| (kind, body.to_vec())))
    }

    /// Reads once from the socket. Returns `false` at end of file.
    ///
    /// # Errors
    /// The socket failed or timed out.
    pub fn fill(&mut self) -> std::io::Result<bool> {
        let mut buffer = [0; 32 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Ok(false),
                Ok(n) => {
                    self.decoder.push(&buffer[..n]);
                    return Ok(true);
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The daemon closed the connection.
    pub fn send(&mut self, frame: &[u8]) -> Result<()> {
        self.stream
            .write_all(frame)
            .context(|| "cannot talk to the daemon".into())
    }

    /// Sends the environment variables that the daemon asked for.
    ///
    /// # Errors
    /// The daemon closed the connection.
    pub fn send_env(&mut self, names: &[String]) -> Result<()> {
        let mut values = crate::config::key::process_variables();
        // If none of the variables is set, the names of all variables are sent without values, so that the daemon can
        // suggest the nearest one.
        let complete = names.iter().any(|n| values.contains_key(n));
        values.retain(|name, value| {
            if !names.contains(name) {
                value.clear();
            }
            !value.is_empty() || !complete
        });
        let frame = protocol::json_frame(kind::ENV, &values)?;
        self.send(&frame)
    }

    /// Waits for the reply. Earlier events are ignored, except requests for environment variables.
    ///
    /// # Errors
    /// The request failed, or the daemon exited.
    pub fn reply<T: DeserializeOwned>(&mut self) -> Result<T> {
        loop {
            match self.read().context(|| "cannot talk to the daemon".into())? {
                Some((kind::REPLY, body)) => return protocol::parse(&body),
                Some((kind::FAILURE, body)) => {
                    return Err(protocol::parse::<RequestFailure>(&body)?.into());
                }
                Some((kind::EVENT, body)) => {
                    if let protocol::Event::EnvRequested { names } = protocol::parse(&body)? {
                        self.send_env(&names)?;
                    }
                }
                Some(_) => {}
                None => return Err(daemon_gone()),
            }
        }
    }

    /// Returns the socket, for use with poll(2).
    pub fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// Error for a daemon that ended before it replied.
pub fn daemon_gone() -> Error {
    Error::runtime("the aish daemon exited before it answered")
        .hint("ask again; if it fails again, run: aish-helper doctor")
}

/// Sends a request to the daemon, starting one if necessary, and returns the reply.
///
/// # Errors
/// As for [`to_daemon`] and [`DaemonConnection::reply`].
pub fn request<T: DeserializeOwned + Serialize>(paths: &Paths, request: &Request) -> Result<T> {
    to_daemon(paths, request)?.reply()
}
