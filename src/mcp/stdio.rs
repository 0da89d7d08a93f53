//! A server that is a command of the user's: a child in a group of its own, spoken to in lines of JSON.
//!
//! `rmcp` has such a transport, and it does not hold up against a bad child: a line that is too long
//! vanishes, and the call it answers waits for its time limit; JSON that is no message is answered with
//! an error, which such a child may answer again; a child that does not read its input makes the close
//! wait for ever; and only the leader of the group is signalled. So the messages are its own, and the
//! way they travel is ours.

mod line;
mod log;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::line::{Lines, Next};
pub(super) use self::log::{Log, secrets};
use crate::config::mcp::{Server, Transport as Target};
use crate::error::{Error, Result};
use crate::secret::Secret;

/// How long a server may take to end when its input is closed.
const LEAVE: Duration = Duration::from_millis(500);

/// How long it may take after SIGTERM.
const TERM: Duration = Duration::from_millis(350);

/// How long to read on after its end, or to wait for its end after it has closed its output.
const DRAIN: Duration = Duration::from_millis(200);

/// So much in a row that is no message is the output of something that is no server.
const NOISE_LINES: u64 = 10_000;
const NOISE_BYTES: u64 = 16 << 20;

/// A child process, as a way for the protocol's messages.
pub(super) struct Transport {
    child: Child,
    /// None when nothing of the group is left for us to signal: its number may be another's by then.
    group: Option<Pid>,
    stdin: Arc<AsyncMutex<Option<ChildStdin>>>,
    /// Lets go of a write that waits for a child which does not read.
    closing: CancellationToken,
    /// A write has failed.
    deaf: CancellationToken,
    lines: Lines<ChildStdout>,
    /// What came together with what was received last.
    received: VecDeque<RxJsonRpcMessage<RoleClient>>,
    noise: Noise,
    stage: Stage,
    stderr: JoinHandle<()>,
    log: Arc<Log>,
    note: EndNote,
}

/// How far the end has come.
enum Stage {
    /// It has not.
    Talks,
    /// The child has ended; what it said before is read until then.
    Ended(String, Instant),
    /// The child has closed its input or output, and may still end until then.
    Closed(&'static str, Instant),
    /// All is known of the end but the last words, which may come until then.
    Known(String, Instant),
    /// All is said.
    Over,
}

#[derive(Default)]
struct Noise {
    lines: u64,
    /// Since the last message.
    row_lines: u64,
    row_bytes: u64,
}

/// Says why a server has ended, after [`Transport`] has gone its way.
#[derive(Clone)]
pub(super) struct EndNote {
    why: Arc<Mutex<Option<String>>>,
    log: Arc<Log>,
}

impl EndNote {
    /// Why it ended by itself, in a line: `exited with 3; its last words: …`. None while it runs, and when we
    /// have ended it.
    pub(super) fn text(&self) -> Option<String> {
        self.why
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The last line of its complaints, not yet fit to be shown.
    pub(super) fn last_words(&self) -> Option<String> {
        self.log.last_words()
    }
}

impl fmt::Debug for EndNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EndNote").field(&self.text()).finish()
    }
}

/// Starts the command of a server with exactly this environment, in its HOME. What it says on stderr, and what it says on
/// stdout that is no message, is added to the file `log`.
///
/// # Errors
/// It cannot be started, or the server is none of this kind.
pub(super) fn spawn(server: &Server, env: &[(String, Secret)], log: &Path) -> Result<Transport> {
    let Target::Stdio { command, args, .. } = &server.transport else {
        return Err(Error::config(format!(
            "the MCP server {} has no command",
            server.alias
        )));
    };
    start(command, args, env, log).map_err(|e| {
        Error::runtime(format!("cannot start {command}: {e}")).hint(format!(
            "check command of [mcp.servers.{}], and that PATH leads to it",
            server.alias
        ))
    })
}

fn start(
    command: &str,
    args: &[String],
    env: &[(String, Secret)],
    log: &Path,
) -> io::Result<Transport> {
    let mut builder = Command::new(command);
    // We are in `/`; a person's programs begin at home.
    let home = env.iter().find(|(name, _)| name == "HOME");
    if let Some((_, home)) = home.filter(|(_, home)| Path::new(home.expose()).is_dir()) {
        builder.current_dir(home.expose());
    }
    let mut child = builder
        .args(args)
        .env_clear()
        // With PATH among them, it is also the one that the command is looked up in.
        .envs(env.iter().map(|(name, value)| (name, value.expose())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("it has no pipes"));
    };
    let log = Arc::new(Log::open(log, env));
    Ok(Transport {
        group: pid.map(Pid::from_raw),
        child,
        stdin: Arc::new(AsyncMutex::new(Some(stdin))),
        closing: CancellationToken::new(),
        deaf: CancellationToken::new(),
        lines: Lines::new(stdout),
        received: VecDeque::new(),
        noise: Noise::default(),
        stage: Stage::Talks,
        stderr: tokio::spawn({
            let log = Arc::clone(&log);
            async move { log::copy(stderr, &log).await }
        }),
        note: EndNote {
            why: Arc::default(),
            log: Arc::clone(&log),
        },
        log,
    })
}

impl Transport {
    /// What will know why it ended.
    pub(super) fn end_note(&self) -> EndNote {
        self.note.clone()
    }

    /// Takes one step towards the next message or the end. May be dropped and called again.
    async fn step(&mut self) {
        match &mut self.stage {
            Stage::Talks => tokio::select! {
                // What it said before its end comes before the end.
                biased;
                next = self.lines.next() => self.take(next),
                status = self.child.wait() => self.ended(status),
                () = self.deaf.cancelled() => self.closed("closed its input"),
            },
            Stage::Ended(why, until) => {
                let (why, until) = (why.clone(), *until);
                tokio::select! {
                    biased;
                    next = self.lines.next() => match next {
                        Next::Line => self.take(next),
                        _ => self.known(why),
                    },
                    () = sleep_until(until) => self.known(why),
                }
            }
            Stage::Closed(what, until) => {
                let (what, until) = (*what, *until);
                tokio::select! {
                    status = self.child.wait() => self.ended(status),
                    () = sleep_until(until) => self.known(what.to_owned()),
                }
            }
            Stage::Known(why, until) => {
                let mut why = why.clone();
                // One that is done must not be asked again.
                if !self.stderr.is_finished() {
                    tokio::select! {
                        _ = &mut self.stderr => {}
                        () = sleep_until(*until) => {}
                    }
                }
                if let Some(words) = self.log.last_words() {
                    why = format!("{why}; its last words: {words}");
                }
                self.over(why);
            }
            Stage::Over => {}
        }
    }

    fn take(&mut self, next: Next) {
        match next {
            Next::Line => {
                let bytes = self.lines.line().len() as u64;
                self.received = line::messages(self.lines.line());
                if self.received.is_empty() {
                    self.noise(bytes);
                } else {
                    (self.noise.row_lines, self.noise.row_bytes) = (0, 0);
                }
            }
            Next::TooLong => {
                let most = line::MAX_LINE >> 20;
                self.over(format!("sent a line of more than {most} MB"));
            }
            Next::End => self.closed("closed its output"),
        }
    }

    /// A line that is no message: many programs greet on stdout.
    fn noise(&mut self, bytes: u64) {
        let line = self.lines.line();
        if line.trim_ascii().is_empty() {
            return;
        }
        self.log.line(line);
        let noise = &mut self.noise;
        noise.lines += 1;
        noise.row_lines += 1;
        noise.row_bytes += bytes;
        if noise.row_lines > NOISE_LINES || noise.row_bytes > NOISE_BYTES {
            self.over("prints on its output what is no message, and nothing else".to_owned());
        }
    }

    fn ended(&mut self, status: io::Result<ExitStatus>) {
        // What it leaves behind in its group would hold our pipes, and nobody would end it.
        self.kill();
        let why = match status {
            Ok(status) => how(status),
            Err(e) => format!("ended, and cannot be waited for ({e})"),
        };
        self.stage = Stage::Ended(why, Instant::now() + DRAIN);
    }

    fn closed(&mut self, what: &'static str) {
        self.stage = Stage::Closed(what, Instant::now() + DRAIN);
    }

    fn known(&mut self, why: String) {
        self.stage = Stage::Known(why, Instant::now() + DRAIN);
    }

    fn over(&mut self, why: String) {
        *self.note.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.stage = Stage::Over;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It fails when the whole group has ended, which is the aim.
            let _ = killpg(group, signal);
        }
    }

    /// Ends the whole group, whatever it thinks of it.
    fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.group = None;
    }
}

impl rmcp::transport::Transport<RoleClient> for Transport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (stdin, closing) = (Arc::clone(&self.stdin), self.closing.clone());
        let deaf = self.deaf.clone();
        async move {
            let mut bytes = serde_json::to_vec(&item)?;
            bytes.push(b'\n');
            let write = async {
                match &mut *stdin.lock().await {
                    Some(stdin) => stdin.write_all(&bytes).await,
                    None => Err(io::ErrorKind::NotConnected.into()),
                }
            };
            let written = tokio::select! {
                () = closing.cancelled() => return Err(io::ErrorKind::NotConnected.into()),
                written = write => written,
            };
            if written.is_err() {
                // A child that does not read any more has ended or is of no use. What it says before, and why
                // it ended, is for `receive` to find out; as an error of this message it would be lost.
                deaf.cancel();
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.received.pop_front() {
                return Some(message);
            }
            if matches!(self.stage, Stage::Over) {
                return None;
            }
            self.step().await;
        }
    }

    /// As the specification wants it: its input is closed, then it gets SIGTERM, then SIGKILL.
    async fn close(&mut self) -> io::Result<()> {
        self.closing.cancel();
        drop(self.stdin.lock().await.take());
        if timeout(LEAVE, self.child.wait()).await.is_err() {
            self.signal(Signal::SIGTERM);
            let _ = timeout(TERM, self.child.wait()).await;
        }
        // Whether or not it ended in time, what is left of its group goes now.
        self.kill();
        // One that even SIGKILL does not move (it waits for a dead disk) is left to the system.
        let reaped = timeout(DRAIN, self.child.wait()).await;
        if !self.stderr.is_finished() && timeout(DRAIN, &mut self.stderr).await.is_err() {
            self.stderr.abort();
        }
        if self.noise.lines > 0 {
            tracing::info!(
                lines = self.noise.lines,
                "an MCP server printed what is no message"
            );
        }
        match reaped {
            Ok(result) => result.map(drop),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Drop for Transport {
    /// A connection that is let go of in the middle leaves no process: the child is reaped by the runtime.
    fn drop(&mut self) {
        self.kill();
        self.stderr.abort();
    }
}

fn how(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests;
