//! Stdio transport: a child process in its own process group that exchanges JSON lines.
//!
//! Replaces the child process transport of `rmcp`, which fails with misbehaving children: a line that is too long is
//! dropped and its call waits for the time limit; JSON that is not a message is answered with an error, which the
//! child may answer in turn; a child that does not read its input blocks the close; and only the group leader is
//! signalled. The message types are those of `rmcp`.
//! <https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio>

mod json_lines;
mod log;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use self::json_lines::{LineReader, ReadOutcome};
pub(super) use self::log::{ServerLog, environment_secrets};
use crate::child_group::ChildGroup;
use crate::config::mcp::{ServerSettings, ServerTransport as TransportConfig};
use crate::error::{Error, Result};
use crate::paths::CHILD_MARK;
use crate::safety::json_text;
use crate::secret::Secret;

/// Time for a server to exit after its stdin is closed.
const STDIN_CLOSE_GRACE: Duration = Duration::from_millis(500);

/// Time for a server to exit after SIGTERM.
const SIGTERM_GRACE: Duration = Duration::from_millis(350);

/// Time to read remaining output after the exit, and to wait for the exit after output was closed.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// Consecutive output without a message, in lines and bytes, after which the program is not considered an MCP server.
const MAX_NON_MESSAGE_LINES: u64 = 10_000;
const MAX_NON_MESSAGE_BYTES: u64 = 16 << 20;

/// Transport to a child process.
pub(super) struct StdioTransport {
    child: Child,
    group: ChildGroup,
    stdin: Arc<AsyncMutex<Option<ChildStdin>>>,
    /// Aborts a write that is blocked by a child that does not read.
    closing: CancellationToken,
    /// Set after a failed write.
    write_failed: CancellationToken,
    lines: LineReader<ChildStdout>,
    /// Messages parsed from the last line and not yet returned.
    received: VecDeque<RxJsonRpcMessage<RoleClient>>,
    non_messages: NonMessageCount,
    stage: TransportStage,
    stderr: JoinHandle<()>,
    log: Arc<ServerLog>,
    exit: ExitReason,
}

/// Progress of the shutdown of a child.
enum TransportStage {
    /// The child runs.
    Open,
    /// The child has exited with this reason; remaining output is read until the deadline.
    Exited(String, Instant),
    /// The child has closed stdin or stdout; its exit is awaited until the deadline.
    PipeClosed(&'static str, Instant),
    /// The reason is known; the rest of stderr is read until the deadline.
    CollectingStderr(String, Instant),
    /// The end was reported.
    Finished,
}

#[derive(Default)]
struct NonMessageCount {
    lines: u64,
    /// Since the last message.
    consecutive_lines: u64,
    consecutive_bytes: u64,
}

/// Exit reason of a child; stays readable after the transport is dropped.
#[derive(Clone)]
pub(super) struct ExitReason {
    reason: Arc<Mutex<Option<String>>>,
    log: Arc<ServerLog>,
}

impl ExitReason {
    /// Exit reason in one line: `exited with 3; last output: …`. `None` while the child runs, and after aish has ended
    /// it.
    pub(super) fn text(&self) -> Option<String> {
        self.reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Last relevant line of stderr, not cleaned for display.
    pub(super) fn last_error_line(&self) -> Option<String> {
        self.log.last_error_line()
    }
}

impl fmt::Debug for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ExitReason").field(&self.text()).finish()
    }
}

/// Starts the command of `server` in its `HOME`, with exactly the environment `env`. Stderr and stdout lines that are not
/// messages are appended to the file `log`.
///
/// # Errors
/// The command cannot be started, or `server` is not a stdio server.
pub(super) fn spawn(
    server: &ServerSettings,
    env: &[(String, Secret)],
    log: &Path,
) -> Result<StdioTransport> {
    let TransportConfig::Stdio { command, args, .. } = &server.transport else {
        return Err(Error::config(format!(
            "the MCP server {} has no command",
            server.alias
        )));
    };
    start_child(command, args, env, log).map_err(|e| {
        Error::runtime(format!("cannot start {command}: {e}")).hint(format!(
            "check command of [mcp.servers.{}], and that PATH leads to it",
            server.alias
        ))
    })
}

fn start_child(
    command: &str,
    args: &[String],
    env: &[(String, Secret)],
    log: &Path,
) -> io::Result<StdioTransport> {
    let mut builder = Command::new(command);
    // The daemon's working directory is `/`.
    let home = env.iter().find(|(name, _)| name == "HOME");
    if let Some((_, home)) = home.filter(|(_, home)| Path::new(home.expose()).is_dir()) {
        builder.current_dir(home.expose());
    }
    let mut child = builder
        .args(args)
        .env_clear()
        // With PATH in `env`, the command is looked up there.
        .envs(env.iter().map(|(name, value)| (name, value.expose())))
        .env(CHILD_MARK, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = ChildGroup::of(child.id());
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("no pipes to the child"));
    };
    let log = Arc::new(ServerLog::open(log, env));
    Ok(StdioTransport {
        group,
        child,
        stdin: Arc::new(AsyncMutex::new(Some(stdin))),
        closing: CancellationToken::new(),
        write_failed: CancellationToken::new(),
        lines: LineReader::new(stdout),
        received: VecDeque::new(),
        non_messages: NonMessageCount::default(),
        stage: TransportStage::Open,
        stderr: tokio::spawn({
            let log = Arc::clone(&log);
            async move { log::copy_lines(stderr, &log).await }
        }),
        exit: ExitReason {
            reason: Arc::default(),
            log: Arc::clone(&log),
        },
        log,
    })
}

impl StdioTransport {
    /// Handle to the exit reason.
    pub(super) fn exit_reason(&self) -> ExitReason {
        self.exit.clone()
    }

    /// Advances to the next message or towards the end. Cancel safe.
    async fn step(&mut self) {
        match &mut self.stage {
            TransportStage::Open => tokio::select! {
                // Output before the exit is read before the exit is reported.
                biased;
                next = self.lines.next() => self.handle_line(next),
                status = self.group.exit_of(&mut self.child) => self.child_exited(status),
                () = self.write_failed.cancelled() => self.pipe_closed("closed its input"),
            },
            TransportStage::Exited(reason, until) => {
                let (reason, until) = (reason.clone(), *until);
                tokio::select! {
                    biased;
                    next = self.lines.next() => match next {
                        ReadOutcome::Line => self.handle_line(next),
                        _ => self.collect_stderr(reason),
                    },
                    () = sleep_until(until) => self.collect_stderr(reason),
                }
            }
            TransportStage::PipeClosed(what, until) => {
                let (what, until) = (*what, *until);
                tokio::select! {
                    status = self.group.exit_of(&mut self.child) => self.child_exited(status),
                    () = sleep_until(until) => self.collect_stderr(what.to_owned()),
                }
            }
            TransportStage::CollectingStderr(reason, until) => {
                let mut reason = reason.clone();
                // A completed `JoinHandle` must not be polled again.
                if !self.stderr.is_finished() {
                    tokio::select! {
                        _ = &mut self.stderr => {}
                        () = sleep_until(*until) => {}
                    }
                }
                if let Some(last_output) = self.log.last_error_line() {
                    reason = format!("{reason}; last output: {last_output}");
                }
                self.finish(reason);
            }
            TransportStage::Finished => {}
        }
    }

    fn handle_line(&mut self, next: ReadOutcome) {
        match next {
            ReadOutcome::Line => {
                let bytes = self.lines.line().len() as u64;
                self.received = json_lines::parse_messages(self.lines.line());
                if self.received.is_empty() {
                    self.non_messages(bytes);
                } else {
                    (
                        self.non_messages.consecutive_lines,
                        self.non_messages.consecutive_bytes,
                    ) = (0, 0);
                }
            }
            ReadOutcome::TooLong => {
                let most = json_lines::MAX_LINE_BYTES >> 20;
                self.finish(format!("sent a line of more than {most} MB"));
            }
            ReadOutcome::End => self.pipe_closed("closed its output"),
        }
    }

    /// Counts a line that is not a message. Many programs print a greeting on stdout.
    fn non_messages(&mut self, bytes: u64) {
        let line = self.lines.line();
        if line.trim_ascii().is_empty() {
            return;
        }
        self.log.append_line(line);
        let non_messages = &mut self.non_messages;
        non_messages.lines += 1;
        non_messages.consecutive_lines += 1;
        non_messages.consecutive_bytes += bytes;
        if non_messages.consecutive_lines > MAX_NON_MESSAGE_LINES
            || non_messages.consecutive_bytes > MAX_NON_MESSAGE_BYTES
        {
            self.finish("prints only lines that are not messages".to_owned());
        }
    }

    fn child_exited(&mut self, status: io::Result<ExitStatus>) {
        let reason = match status {
            Ok(status) => describe_exit(status),
            Err(e) => format!("ended, and its exit status is unavailable ({e})"),
        };
        self.stage = TransportStage::Exited(reason, Instant::now() + DRAIN_TIME);
    }

    fn pipe_closed(&mut self, what: &'static str) {
        self.stage = TransportStage::PipeClosed(what, Instant::now() + DRAIN_TIME);
    }

    fn collect_stderr(&mut self, reason: String) {
        self.stage = TransportStage::CollectingStderr(reason, Instant::now() + DRAIN_TIME);
    }

    fn finish(&mut self, reason: String) {
        *self
            .exit
            .reason
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(reason);
        self.stage = TransportStage::Finished;
    }
}

impl rmcp::transport::Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (stdin, closing) = (Arc::clone(&self.stdin), self.closing.clone());
        let write_failed = self.write_failed.clone();
        async move {
            let json = serde_json::to_string(&item)?;
            let mut bytes = json_text::with_numbers(&json).unwrap_or(json).into_bytes();
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
                // The child has exited or is unusable. `receive` still returns its last output and finds the exit reason; an
                // error returned here would hide both.
                write_failed.cancel();
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(message) = self.received.pop_front() {
                return Some(message);
            }
            if matches!(self.stage, TransportStage::Finished) {
                return None;
            }
            self.step().await;
        }
    }

    /// Closes stdin, then sends SIGTERM, then SIGKILL, as the specification requires.
    async fn close(&mut self) -> io::Result<()> {
        self.closing.cancel();
        drop(self.stdin.lock().await.take());
        if timeout(STDIN_CLOSE_GRACE, self.group.ended())
            .await
            .is_err()
        {
            self.group.signal(Signal::SIGTERM);
            let _ = timeout(SIGTERM_GRACE, self.group.ended()).await;
        }
        // Other processes of the group are killed even if the leader exited in time.
        self.group.signal(Signal::SIGKILL);
        // A process in uninterruptible sleep survives SIGKILL for now; the kernel ends it later.
        let reaped = timeout(DRAIN_TIME, self.child.wait()).await;
        if !self.stderr.is_finished() && timeout(DRAIN_TIME, &mut self.stderr).await.is_err() {
            self.stderr.abort();
        }
        if self.non_messages.lines > 0 {
            tracing::info!(
                lines = self.non_messages.lines,
                "an MCP server printed lines that are not messages"
            );
        }
        match reaped {
            Ok(result) => result.map(drop),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Drop for StdioTransport {
    /// Kills the group of an abandoned connection; the runtime reaps the child.
    fn drop(&mut self) {
        self.group.signal(Signal::SIGKILL);
        self.stderr.abort();
    }
}

fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests;
