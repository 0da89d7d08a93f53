//! `aish-helper start|stop|restart|daemon`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::print;
use crate::client::connect;
use crate::error::{Context, Error, Kind, Result};
use crate::paths::{Paths, make_dir};
use crate::protocol::{Failure, Request};
use crate::safety::redact::ours;

/// A log larger than this is put aside when the daemon starts.
const LOG_MAX: u64 = 1 << 20;
/// How long `restart` waits for a daemon that hangs before it kills it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Starts the daemon, unless it runs.
///
/// # Errors
/// It cannot be started.
pub fn start(paths: &Paths) -> Result<()> {
    connect::request::<Vec<serde_json::Value>>(paths, &Request::Sessions { limit: 0 }).map(|_| ())
}

/// Stops the daemon, and waits until it is gone.
///
/// # Errors
/// It hangs.
pub fn stop(paths: &Paths, now: bool) -> Result<()> {
    print(if connect::stop(paths, now)? {
        "the daemon has stopped\n"
    } else {
        "the daemon does not run\n"
    })
}

/// Stops the daemon, by force where it hangs, and starts it again.
///
/// # Errors
/// It cannot be started.
pub fn restart(paths: &Paths, now: bool) -> Result<()> {
    if let Err(e) = connect::stop(paths, now) {
        match connect::listener_pid(paths) {
            Some(pid) => end_by_force(pid)?,
            None => return Err(e),
        }
    }
    start(paths)?;
    print("the daemon runs\n")
}

/// Ends a daemon that hangs. The kernel has said that this process listens on our socket.
fn end_by_force(pid: i32) -> Result<()> {
    let pid = Pid::from_raw(pid);
    let gone = |deadline: Instant| {
        while Instant::now() < deadline {
            if kill(pid, None).is_err() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    };
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // A stopped process takes SIGTERM when it goes on; SIGKILL it takes at once.
        let _ = kill(pid, signal);
        let _ = kill(pid, Signal::SIGCONT);
        if gone(Instant::now() + PATIENCE) {
            return Ok(());
        }
    }
    Err(Error::runtime(format!(
        "the daemon (process {pid}) cannot be ended"
    )))
}

/// Is the daemon, until it is told to leave.
///
/// # Errors
/// It cannot listen.
pub fn run(paths: Paths, detach: bool) -> Result<()> {
    if !detach {
        log_to(Log::Stderr);
        return serve(paths, || tracing::info!("ready"));
    }
    connect::close_inherited();
    // Out of the session of the shell that happened to start us: its end is not ours.
    let _ = nix::unistd::setsid();
    let result = open_log(&paths).and_then(|log| {
        log_to(Log::File(log));
        serve(paths, || say("ready\n"))
    });
    if let Err(e) = &result {
        tracing::error!("{e}");
        // Where the client has had its "ready" already, nobody reads this.
        say(&serde_json::to_string(&Failure::from(e)).unwrap_or_default());
    }
    // The client prints the failure: a second one on a closed stderr helps nobody.
    result.or(Ok(()))
}

/// Tells the client that started us, once, and lets go of its pipe.
fn say(text: &str) {
    let mut stdout = std::io::stdout();
    // The client may have been killed; the daemon serves the next one.
    let _ = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    if let Ok(null) = OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(&null);
    }
}

fn serve(paths: Paths, ready: impl FnOnce()) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context(|| "cannot start the runtime".into())?;
    runtime.block_on(async {
        let right = crate::daemon::claim(&paths)?;
        let cancel = CancellationToken::new();
        let mut terminate = signal(tokio::signal::unix::SignalKind::terminate())?;
        let mut interrupt = signal(tokio::signal::unix::SignalKind::interrupt())?;
        // A daemon that outlives its terminal must not die of it.
        let _hangup = signal(tokio::signal::unix::SignalKind::hangup())?;
        // `ulimit -f` is to be an error of one write, like a full disk, and not the end.
        let _too_large = signal(tokio::signal::unix::SignalKind::from_raw(
            nix::libc::SIGXFSZ,
        ))?;
        let daemon = crate::daemon::run(paths, right, cancel.clone(), ready);
        tokio::pin!(daemon);
        loop {
            tokio::select! {
                result = &mut daemon => return result,
                _ = terminate.recv() => cancel.cancel(),
                _ = interrupt.recv() => cancel.cancel(),
            }
        }
    })
}

fn signal(kind: tokio::signal::unix::SignalKind) -> Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(kind).context(|| "cannot listen to signals".into())
}

enum Log {
    Stderr,
    File(File),
}

fn open_log(paths: &Paths) -> Result<File> {
    make_dir(&paths.state)?;
    let path = paths.log();
    if std::fs::metadata(&path).is_ok_and(|m| m.len() > LOG_MAX) {
        // If it cannot be put aside it grows; that is no reason not to start.
        let _ = std::fs::rename(&path, path.with_extension("log.old"));
    }
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .map_err(|e| {
            Error::new(
                Kind::Runtime,
                format!("cannot write the log {}: {e}", path.display()),
            )
            .hint("make it writable, or set AISH_HOME to a directory that is")
        })
}

/// Writes each line without secrets. A line comes in one piece.
struct Redacted<W>(W);

impl<W: Write> Write for Redacted<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(ours().redact(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn log_to(log: Log) {
    // Our own lines alone: what crates log of a conversation holds what servers say, and addresses.
    let ours = Targets::new().with_target("aish", tracing::Level::INFO);
    let builder = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_target(false);
    match log {
        Log::Stderr => builder
            .with_writer(|| Redacted(std::io::stderr()))
            .finish()
            .with(ours)
            .init(),
        Log::File(file) => builder
            .with_writer(Mutex::new(Redacted(file)))
            .finish()
            .with(ours)
            .init(),
    }
}
