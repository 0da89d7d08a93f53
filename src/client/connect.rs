//! Finds the daemon, or starts one: many clients at once get one daemon.

mod glance;

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use interprocess::ConnectWaitMode;
use interprocess::local_socket::traits::StreamCommon;
use interprocess::local_socket::{ConnectOptions, GenericFilePath, Stream, ToFsName};
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::glance::glance;
use crate::error::{Context, Error, Result};
use crate::paths::{Paths, lock_file};
use crate::protocol::{self, Decoder, Failure, Hello, Request, kind};

/// How long a connect may take: longer only when the backlog is full, since the daemon hangs.
const CONNECT: Duration = Duration::from_secs(2);
/// How long the daemon may take to say hello. It only hangs when it was stopped or is swapped out.
const HELLO: Duration = Duration::from_secs(5);
/// How long a fresh daemon may take until it is ready.
const READY: Duration = Duration::from_secs(10);
/// How long a client waits for an older daemon to end its turns.
const LEAVE: Duration = Duration::from_secs(600);
/// So often a daemon may leave just before it was to serve us.
const TRIES: usize = 5;
/// After this time it says what it waits for.
const TELL: Duration = Duration::from_secs(1);

/// A connection to the daemon that has said hello.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    decoder: Decoder,
    /// The daemon's process, as the kernel knows it.
    pub pid: Option<i32>,
}

/// What came of a try to connect.
enum Probe {
    Ready(UnixStream, Option<i32>),
    Absent,
}

fn probe(paths: &Paths) -> Result<Probe> {
    if !paths.check_run()? {
        return Ok(Probe::Absent);
    }
    let path = paths.socket();
    let name = path
        .as_path()
        .to_fs_name::<GenericFilePath>()
        .context(|| format!("bad path {}", path.display()))?;
    let options = ConnectOptions::new()
        .name(name)
        .wait_mode(ConnectWaitMode::Timeout(CONNECT));
    match options.connect_sync() {
        Ok(stream) => {
            let pid = stream.peer_creds().ok().and_then(|c| c.pid());
            let Stream::UdSocket(stream) = stream;
            Ok(Probe::Ready(
                UnixStream::from(std::os::fd::OwnedFd::from(stream)),
                pid,
            ))
        }
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
            Ok(Probe::Absent)
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

/// Who answers where no daemon is started.
#[derive(Debug)]
pub enum Existing {
    /// A daemon that has the request.
    Serves(Connection),
    /// One of this version that serves nobody any more; it ends when its turns have.
    Leaves(String),
    /// Nobody.
    Absent,
}

/// Looks at the running daemon, which this neither starts nor, when it is older, ends.
///
/// # Errors
/// The socket directory is not safe, or the daemon hangs.
pub fn existing(paths: &Paths, request: &Request) -> Result<Existing> {
    let Probe::Ready(stream, pid) = probe(paths)? else {
        return Ok(Existing::Absent);
    };
    let hello = Hello {
        read_only: true,
        ..Hello::ours()
    };
    Ok(match greet_as(&hello, stream, pid, Some(request), HELLO)? {
        Greeting::Served(connection) => Existing::Serves(connection),
        Greeting::Leaving(Some(version)) => Existing::Leaves(version),
        Greeting::Leaving(None) => Existing::Absent,
    })
}

/// Connects to the daemon, which is started if there is none, and sends it a request.
///
/// # Errors
/// The socket directory is not safe, the daemon hangs, or none can be started.
pub fn to_daemon(paths: &Paths, request: &Request) -> Result<Connection> {
    // An older daemon leaves when it hears a newer client; then the next try starts a new one.
    for _ in 0..TRIES {
        let (stream, pid) = match probe(paths)? {
            Probe::Ready(stream, pid) => (stream, pid),
            Probe::Absent => start(paths)?,
        };
        if let Greeting::Served(connection) = greet(stream, pid, Some(request))? {
            return Ok(connection);
        }
        wait_until_gone(paths)?;
    }
    Err(
        Error::runtime("no daemon would serve this version of aish-helper")
            .hint("run: aish-helper restart"),
    )
}

enum Greeting {
    Served(Connection),
    /// Its version, unless it ended without a word.
    Leaving(Option<String>),
}

fn greet(stream: UnixStream, pid: Option<i32>, request: Option<&Request>) -> Result<Greeting> {
    greet_as(&Hello::ours(), stream, pid, request, HELLO)
}

/// Hello and request go out in one write, so that a warm daemon costs one round trip.
fn greet_as(
    ours: &Hello,
    stream: UnixStream,
    pid: Option<i32>,
    request: Option<&Request>,
    patience: Duration,
) -> Result<Greeting> {
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
    let mut connection = Connection {
        stream,
        decoder: Decoder::default(),
        pid,
    };
    // A daemon that turns us away may close before it has read all.
    let sent = connection.stream.write_all(&frames);
    let hello: Hello = match connection.read() {
        Ok(Some((kind::HELLO, body))) => protocol::parse(&body)?,
        Ok(Some(_)) => {
            return Err(Error::runtime("the daemon speaks another language")
                .hint("run: aish-helper restart"));
        }
        Ok(None) => return Ok(Greeting::Leaving(None)),
        Err(e) if is_timeout(&e) => return Err(hangs(pid)),
        // It ended with us in its backlog.
        Err(e) if e.kind() == ErrorKind::ConnectionReset => return Ok(Greeting::Leaving(None)),
        Err(e) => {
            return Err(Error::runtime(format!("cannot talk to the daemon: {e}"))
                .hint("run: aish-helper restart"));
        }
    };
    if hello.leaving {
        return Ok(Greeting::Leaving(Some(hello.version)));
    }
    sent.context(|| "cannot send the request to the daemon".into())?;
    connection
        .stream
        .set_read_timeout(None)
        .context(|| "cannot set up the socket".into())?;
    Ok(Greeting::Served(connection))
}

fn is_timeout(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

/// Starts a daemon, unless another client is at it: then waits for that one.
fn start(paths: &Paths) -> Result<(UnixStream, Option<i32>)> {
    paths.prepare_run()?;
    let lock = lock_file(&paths.run.join("start.lock"))?;
    // Whoever held the lock before may have started one.
    if let Probe::Ready(stream, pid) = probe(paths)? {
        return Ok((stream, pid));
    }
    // One whose socket is gone may still be ending its turns.
    wait_until_gone(paths)?;
    if let Probe::Ready(stream, pid) = probe(paths)? {
        return Ok((stream, pid));
    }
    spawn_daemon()?;
    drop(lock);
    match probe(paths)? {
        Probe::Ready(stream, pid) => Ok((stream, pid)),
        Probe::Absent => Err(not_started("it ended at once")),
    }
}

fn not_started(why: &str) -> Error {
    Error::runtime(format!("the daemon could not be started: {why}"))
        .hint("see: aish-helper doctor")
}

/// Starts the daemon and waits until it says that it is ready, or why it is not.
fn spawn_daemon() -> Result<()> {
    let binary = std::env::current_exe().map_err(|e| not_started(&e.to_string()))?;
    let mut child = Command::new(binary)
        .args(["daemon", "--detach"])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| not_started(&e.to_string()))?;
    let Some(mut said) = child.stdout.take() else {
        return Err(not_started("no pipe"));
    };
    let mut line = Vec::new();
    let deadline = Instant::now() + READY;
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if !readable(&said, left)? {
            return Err(not_started("it was not ready in time"));
        }
        match said.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => line.extend_from_slice(&buffer[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(not_started(&e.to_string())),
        }
    }
    match &line[..] {
        b"ready\n" => Ok(()),
        b"" => Err(not_started("it ended without a word")),
        failure => match serde_json::from_slice::<Failure>(failure) {
            Ok(failure) => Err(failure.into()),
            Err(_) => Err(not_started(&String::from_utf8_lossy(failure))),
        },
    }
}

fn readable(fd: &impl AsFd, patience: Duration) -> Result<bool> {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    loop {
        let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(not_started(&e.to_string())),
            Ok(n) => return Ok(n > 0),
        }
    }
}

/// Closes every descriptor but stdin, stdout and stderr, first thing in a process that lives on: whoever
/// started it had locks and pipes open, which others wait for.
pub fn close_inherited() {
    // A snapshot: the listing itself has a descriptor open. Where there is no /dev/fd, nothing can be done.
    let open: Vec<i32> = std::fs::read_dir("/dev/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        // EBADF: it was the listing.
        let _ = nix::unistd::close(fd);
    }
}

/// The process that listens on our socket, as the kernel knows it; it need not answer.
pub fn listener_pid(paths: &Paths) -> Option<i32> {
    match probe(paths) {
        Ok(Probe::Ready(_, pid)) => pid,
        _ => None,
    }
}

/// Waits until the daemon that is leaving has let go of its lock, or the next one serves already.
///
/// # Errors
/// It does not in ten minutes.
fn wait_until_gone(paths: &Paths) -> Result<()> {
    let path = paths.lock();
    let mut file = match File::open(&path) {
        Ok(file) => file,
        // No daemon was ever here.
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e).context(|| format!("cannot open {}", path.display())),
    };
    let start = Instant::now();
    let mut told = false;
    loop {
        // A lock cannot be waited for with a deadline; this is done once after an update.
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => return Ok(()),
            Err(_) if next_serves(paths)? => return Ok(()),
            Err((again, _)) if start.elapsed() < LEAVE => file = again,
            Err(_) => {
                return Err(Error::runtime("the daemon does not end its turns")
                    .hint("run: aish-helper stop --now"));
            }
        }
        if !told && start.elapsed() > TELL {
            told = true;
            // There is nowhere else to say that stderr is closed.
            let _ = writeln!(
                std::io::stderr(),
                "[aish] waiting for the daemon to end its turns; in a hurry: aish-helper stop --now"
            );
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether the daemon that listens now is not about to leave.
fn next_serves(paths: &Paths) -> Result<bool> {
    Ok(match probe(paths)? {
        Probe::Ready(stream, pid) => matches!(greet(stream, pid, None)?, Greeting::Served(_)),
        Probe::Absent => false,
    })
}

/// Tells the daemon to end and waits until it has; `false` when there was none.
///
/// # Errors
/// The socket directory is not safe, or the daemon hangs.
pub fn stop(paths: &Paths, now: bool) -> Result<bool> {
    let Probe::Ready(stream, pid) = probe(paths)? else {
        return Ok(false);
    };
    // One that is leaving already serves nobody, but it hears this word.
    if let Greeting::Served(mut connection) = greet(stream, pid, Some(&Request::Stop { now }))? {
        connection.reply::<()>()?;
    }
    wait_until_gone(paths)?;
    Ok(true)
}

impl Connection {
    /// The next whole frame; `None` when the daemon has hung up.
    ///
    /// # Errors
    /// The socket failed or timed out, or what came is no frame.
    pub fn read(&mut self) -> std::io::Result<Option<(u8, Vec<u8>)>> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(Some(frame));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// The next whole frame of what was read already.
    ///
    /// # Errors
    /// It is no frame.
    pub fn buffered(&mut self) -> std::io::Result<Option<(u8, Vec<u8>)>> {
        let frame = self
            .decoder
            .next_frame()
            .map_err(|e| std::io::Error::other(e.message))?;
        Ok(frame.map(|(kind, body)| (kind, body.to_vec())))
    }

    /// Reads once; `false` at the end.
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

    /// Sends a whole frame.
    ///
    /// # Errors
    /// The daemon has gone.
    pub fn send(&mut self, frame: &[u8]) -> Result<()> {
        self.stream
            .write_all(frame)
            .context(|| "cannot talk to the daemon".into())
    }

    /// Answers the daemon's wish for environment variables.
    ///
    /// # Errors
    /// The daemon has gone.
    pub fn send_env(&mut self, names: &[String]) -> Result<()> {
        let mut values = crate::config::key::variables();
        // All is well: the values asked for. Else the names of all, so that the daemon can name the nearest.
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

    /// Waits for the reply; events that come before are left aside, but for wishes for variables.
    ///
    /// # Errors
    /// The request failed, or the daemon has gone.
    pub fn reply<T: DeserializeOwned>(&mut self) -> Result<T> {
        loop {
            match self.read().context(|| "cannot talk to the daemon".into())? {
                Some((kind::REPLY, body)) => return protocol::parse(&body),
                Some((kind::FAILURE, body)) => {
                    return Err(protocol::parse::<Failure>(&body)?.into());
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

    /// The socket, to wait on together with other things.
    pub fn fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

/// The daemon ended before it had replied.
pub fn daemon_gone() -> Error {
    Error::runtime("the aish daemon ended before it had answered")
        .hint("what had arrived is shown above; ask again, and see: aish-helper doctor")
}

/// Asks one thing of the daemon, which is started if there is none.
///
/// # Errors
/// As for [`to_daemon`] and [`Connection::reply`].
pub fn request<T: DeserializeOwned + Serialize>(paths: &Paths, request: &Request) -> Result<T> {
    to_daemon(paths, request)?.reply()
}
