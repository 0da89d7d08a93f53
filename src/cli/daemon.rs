//! `aish-helper start|stop|restart|daemon`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
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
use crate::error::{Error, ErrorContext, ErrorKind, Result};
use crate::paths::{Paths, make_dir, open_own};
use crate::protocol::{Request, RequestFailure};
use crate::safety::redact::global_redactor;

/// Size above which the log is rotated; one rotated file is kept.
const MAX_LOG_BYTES: u64 = 1 << 20;
/// How long `restart` waits for an unresponsive daemon after each signal.
const KILL_TIMEOUT: Duration = Duration::from_secs(3);

/// Time for which threads may continue after the daemon has ended.
const THREAD_GRACE: Duration = Duration::from_secs(2);

/// Starts the daemon unless it is running.
///
/// # Errors
/// The daemon cannot be started.
pub fn start(paths: &Paths) -> Result<()> {
    connect::request::<Vec<serde_json::Value>>(
        paths,
        &Request::Sessions {
            limit: 0,
            search: None,
        },
    )
    .map(|_| ())
}

/// Stops the daemon and waits until it has exited.
///
/// # Errors
/// The daemon does not exit.
pub fn stop(paths: &Paths, now: bool) -> Result<()> {
    print(if connect::stop(paths, now)? {
        "the daemon has stopped\n"
    } else {
        "the daemon is not running\n"
    })
}

/// Restarts the daemon, killing it if it does not respond.
///
/// # Errors
/// The daemon cannot be killed or started.
pub fn restart(paths: &Paths, now: bool) -> Result<()> {
    if let Err(e) = connect::stop(paths, now) {
        match connect::listener_pid(paths) {
            Some(pid) => kill_daemon(pid)?,
            None => return Err(e),
        }
    }
    start(paths)?;
    print("the daemon has restarted\n")
}

/// Kills an unresponsive daemon. The kernel reported `pid` as the process that listens on the socket.
fn kill_daemon(pid: i32) -> Result<()> {
    let pid = Pid::from_raw(pid);
    let exited_by = |deadline: Instant| {
        while Instant::now() < deadline {
            if kill(pid, None).is_err() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        false
    };
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        // A stopped process handles SIGTERM only after SIGCONT; SIGKILL acts immediately.
        let _ = kill(pid, signal);
        let _ = kill(pid, Signal::SIGCONT);
        if exited_by(Instant::now() + KILL_TIMEOUT) {
            return Ok(());
        }
    }
    Err(Error::runtime(format!(
        "cannot kill the daemon (process {pid})"
    )))
}

/// Runs the daemon until it is asked to stop.
///
/// # Errors
/// The daemon cannot listen on its socket.
pub fn run(paths: Paths, detach: bool) -> Result<()> {
    if !detach {
        init_logging(LogTarget::Stderr);
        return serve(paths, || tracing::info!("ready"));
    }
    connect::close_inherited();
    // A new session, so that the end of the starting shell does not end the daemon.
    let _ = nix::unistd::setsid();
    let result = open_log(&paths).and_then(|log| {
        // Messages of the allocator before an abort. The programs that the daemon starts do not inherit it.
        let _ = nix::unistd::dup2_stderr(&log.file);
        init_logging(LogTarget::File(log));
        // Through the log, which has no secrets: what a panic says may quote text.
        std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
        serve(paths, || notify_client("ready\n"))
    });
    if let Err(e) = &result {
        tracing::error!("{e}");
        // Nobody reads this if the client already received "ready".
        notify_client(&serde_json::to_string(&RequestFailure::from(e)).unwrap_or_default());
    }
    // The client prints the failure.
    result.or(Ok(()))
}

/// Writes one message to the client that started the daemon, then closes its pipe.
fn notify_client(text: &str) {
    let mut stdout = std::io::stdout();
    // The client may have been killed; the daemon keeps running for others.
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
    // Before any program is started.
    crate::daemon::orphans::adopt();
    let result = runtime.block_on(async {
        let lock = crate::daemon::claim(&paths)?;
        tokio::task::spawn_blocking(crate::sandbox::remove_abandoned);
        let cancel = CancellationToken::new();
        let mut terminate = listen_for(tokio::signal::unix::SignalKind::terminate())?;
        let mut interrupt = listen_for(tokio::signal::unix::SignalKind::interrupt())?;
        // The daemon outlives its terminal, so it handles SIGHUP.
        let _hangup = listen_for(tokio::signal::unix::SignalKind::hangup())?;
        // Exceeding `ulimit -f` should fail one write, like a full disk, not kill the daemon.
        let _too_large = listen_for(tokio::signal::unix::SignalKind::from_raw(
            nix::libc::SIGXFSZ,
        ))?;
        let daemon = crate::daemon::run(paths, lock, cancel.clone(), ready);
        tokio::pin!(daemon);
        loop {
            tokio::select! {
                result = &mut daemon => return result,
                _ = terminate.recv() => cancel.cancel(),
                _ = interrupt.recv() => cancel.cancel(),
            }
        }
    });
    // Dropping the runtime would wait for each thread, also for one whose file system does not answer.
    runtime.shutdown_timeout(THREAD_GRACE);
    result
}

fn listen_for(kind: tokio::signal::unix::SignalKind) -> Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(kind).context(|| "cannot listen to signals".into())
}

enum LogTarget {
    Stderr,
    File(BoundedLog),
}

/// The log file, bounded while the daemon runs.
struct BoundedLog {
    file: File,
    path: PathBuf,
    length: u64,
}

impl Write for BoundedLog {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        if self.length > MAX_LOG_BYTES {
            // Both steps may fail; the daemon keeps running, and the next rotation tries again. The file is reopened in
            // any case: if it was removed, renaming fails and `file` no longer has a name.
            let _ = std::fs::rename(&self.path, self.path.with_extension("log.old"));
            if let Ok(file) = append_to(&self.path) {
                self.file = file;
            }
            self.length = 0;
        }
        let written = self.file.write(line)?;
        self.length += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

fn append_to(path: &Path) -> std::io::Result<File> {
    open_own(OpenOptions::new().append(true).create(true), path)
}

fn open_log(paths: &Paths) -> Result<BoundedLog> {
    make_dir(&paths.state)?;
    let path = paths.log();
    let file = append_to(&path).map_err(|e| {
        Error::new(
            ErrorKind::Runtime,
            format!("cannot write the log {}: {e}", path.display()),
        )
        .hint("make the file writable, or set AISH_HOME to a writable directory")
    })?;
    let length = file.metadata().map_or(0, |m| m.len());
    Ok(BoundedLog { file, path, length })
}

/// Removes secrets from each log line. The subscriber writes a line in one call.
struct RedactingWriter<W>(W);

impl<W: Write> Write for RedactingWriter<W> {
    fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0
            .write_all(global_redactor().redact(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

fn init_logging(target: LogTarget) {
    // Only lines of this crate: dependencies log server text and addresses.
    let own_lines = Targets::new().with_target("aish", tracing::Level::INFO);
    let builder = tracing_subscriber::fmt()
        .with_ansi(false)
        // What cannot be written to the log would be printed to stderr, which is the log, and that would panic.
        .log_internal_errors(false)
        .with_target(false);
    match target {
        LogTarget::Stderr => builder
            .with_writer(|| RedactingWriter(std::io::stderr()))
            .finish()
            .with(own_lines)
            .init(),
        LogTarget::File(file) => builder
            .with_writer(Mutex::new(RedactingWriter(file)))
            .finish()
            .with(own_lines)
            .init(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_rotated_while_the_daemon_runs() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let file = append_to(&path).unwrap();
        let mut log = BoundedLog {
            file,
            path: path.clone(),
            length: 0,
        };
        let line = [b'x'; 1024];
        for _ in 0..5000 {
            log.write_all(&line).unwrap();
        }
        let length = |path: &Path| std::fs::metadata(path).unwrap().len();
        assert!(length(&path) <= MAX_LOG_BYTES + 2048);
        assert!(length(&path.with_extension("log.old")) <= MAX_LOG_BYTES + 2048);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_removed_log_is_created_again_by_the_next_rotation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let file = append_to(&path).unwrap();
        let mut log = BoundedLog {
            file,
            path: path.clone(),
            length: MAX_LOG_BYTES + 1,
        };
        std::fs::remove_file(&path).unwrap();
        log.write_all(b"first\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first\n");
        log.length = MAX_LOG_BYTES + 1;
        log.write_all(b"second\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second\n");
        let old = std::fs::read_to_string(path.with_extension("log.old")).unwrap();
        assert_eq!(old, "first\n");
    }
}
