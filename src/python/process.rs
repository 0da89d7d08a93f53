//! One worker process: its start, the lines of its channel, and its end.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::call::HelperCall;
use super::command::{WorkerSpec, worker_command};
use super::output::{CallOutput, OutputPipe};
use crate::child_group::ChildGroup;
use crate::safety::json_text;
use crate::sandbox::{END_SIGNAL, END_TIME, kill_marked};

const RUNTIME: &str = include_str!("runtime.py");
const SCHEMA: &str = include_str!("schema.py");

/// Longest line on the channel. The runtime has the same limit.
pub(super) const MAX_LINE: usize = 8 << 20;
/// Maximum time from the start of a worker until it is ready; a cold disk needs most of it.
const START_TIME: Duration = Duration::from_secs(20);

/// Why a worker gave no answer. The worker must not be used again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkerFault {
    /// The call was cancelled.
    Cancelled,
    /// Everything else: a sentence whose subject is the worker.
    Broken(String),
}

fn broken<T>(what: impl Into<String>) -> Result<T, WorkerFault> {
    Err(WorkerFault::Broken(what.into()))
}

/// The data that accompanies a request.
pub(super) struct Exchange<'a> {
    /// Maximum time of the call.
    pub limit: Duration,
    /// Receives the lines that the worker prints.
    pub progress: &'a mpsc::Sender<String>,
    /// Cancels the call.
    pub cancel: &'a CancellationToken,
    /// Receives the calls that code makes; `None` where none are allowed.
    pub calls: Option<&'a mpsc::Sender<HelperCall>>,
}

/// The answer to a request, with what was printed on stdout.
#[derive(Debug)]
pub(super) struct WorkerAnswer {
    /// The message.
    pub message: Value,
    /// The printed text.
    pub printed: String,
}

/// A running worker. Its process group is ended when it is dropped.
#[derive(Debug)]
pub(super) struct WorkerProcess {
    child: Child,
    group: Option<ChildGroup>,
    /// Ends the group immediately.
    end_signal: Signal,
    mark: String,
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    received: Vec<u8>,
    stdout: OutputPipe,
    stderr: OutputPipe,
    requests: u64,
}

impl WorkerProcess {
    /// Starts a worker and waits until it is ready.
    pub(super) async fn start(spec: &WorkerSpec<'_>) -> Result<WorkerProcess, WorkerFault> {
        let mark = uuid::Uuid::new_v4().simple().to_string();
        let command = worker_command(spec, &mark).or_else(broken)?;
        let end_signal = match spec.limits.sandbox {
            Some(_) => END_SIGNAL,
            None => Signal::SIGKILL,
        };
        let mut worker = WorkerProcess::spawn(command, mark, end_signal).or_else(|e| {
            let python = spec.python.display();
            broken(format!("cannot be started: {python}: {e}"))
        })?;
        let mut runtime = b"SCHEMA_SOURCE = ".to_vec();
        // A string of JSON that is ASCII is a string of Python.
        runtime.extend(Value::from(SCHEMA).to_string().bytes());
        runtime.push(b'\n');
        runtime.extend(RUNTIME.bytes());
        let mut message = format!("{:08}", runtime.len()).into_bytes();
        message.append(&mut runtime);
        let (progress, _unused) = mpsc::channel(1);
        let cancel = CancellationToken::new();
        let exchange = Exchange {
            limit: START_TIME,
            progress: &progress,
            cancel: &cancel,
            calls: None,
        };
        let answer = worker.exchange(message, None, &exchange).await?;
        match answer.message.get("ready") {
            Some(Value::Bool(true)) => Ok(worker),
            _ => broken("sent something that is not an answer"),
        }
    }

    fn spawn(mut command: Command, mark: String, end_signal: Signal) -> io::Result<WorkerProcess> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let (stdout, stdout_writer) = io::pipe()?;
        let (stderr, stderr_writer) = io::pipe()?;
        command
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(stdout_writer)
            .stderr(stderr_writer)
            .process_group(0);
        let child = command.spawn()?;
        // The command holds copies of the descriptors, which would keep the end of file from coming.
        drop(command);
        ours.set_nonblocking(true)?;
        let (reader, writer) = UnixStream::from_std(ours)?.into_split();
        let group = ChildGroup::of(child.id());
        Ok(WorkerProcess {
            child,
            group: Some(group),
            end_signal,
            mark,
            reader,
            writer,
            received: Vec::new(),
            stdout: OutputPipe::new(stdout.into())?,
            stderr: OutputPipe::new(stderr.into())?,
            requests: 0,
        })
    }

    /// Sends a request, whose fields are those of an object from [`json_text::parse_object`] or of one without large integers,
    /// and waits for its answer.
    pub(super) async fn ask(
        &mut self,
        mut request: Value,
        exchange: &Exchange<'_>,
    ) -> Result<WorkerAnswer, WorkerFault> {
        self.requests += 1;
        let id = self.requests;
        if let Some(fields) = request.as_object_mut() {
            fields.insert("id".into(), id.into());
            fields.insert("seconds".into(), exchange.limit.as_secs().into());
        }
        let line = request.to_string();
        let line = json_text::with_numbers(&line).unwrap_or(line) + "\n";
        self.exchange(line.into_bytes(), Some(id), exchange).await
    }

    /// Whether the process has ended or has sent something that nobody asked for.
    pub(super) fn is_spent(&mut self) -> bool {
        let has_ended = self.group.is_none_or(|group| group.has_ended());
        let mut byte = [0; 1];
        has_ended || !self.received.is_empty() || self.reader.try_read(&mut byte).is_ok()
    }

    /// Writes bytes and returns the next message with this id; calls of helpers are answered meanwhile.
    async fn exchange(
        &mut self,
        bytes: Vec<u8>,
        id: Option<u64>,
        exchange: &Exchange<'_>,
    ) -> Result<WorkerAnswer, WorkerFault> {
        let mut output = CallOutput::new(exchange.progress);
        let mut deadline = Instant::now() + exchange.limit;
        let mut unsent = (bytes, 0);
        let mut pending: Option<AwaitedCall> = None;
        let mut exited: Option<ExitStatus> = None;
        loop {
            while let Some(line) = self.next_line()? {
                match received(&line, id, exchange.calls.is_some() && pending.is_none())? {
                    Received::Answer(message) => {
                        output.finish(&mut self.stdout, true);
                        output.finish(&mut self.stderr, false);
                        let printed = output.into_text();
                        return Ok(WorkerAnswer { message, printed });
                    }
                    Received::Call(call, name, arguments) => {
                        let (reply, result) = oneshot::channel();
                        let sent = HelperCall {
                            name,
                            arguments,
                            reply,
                        };
                        let since = Instant::now();
                        if let Some(calls) = exchange.calls {
                            tokio::select! {
                                () = exchange.cancel.cancelled() => {
                                    return Err(WorkerFault::Cancelled);
                                }
                                // A closed receiver drops the reply, which is reported below.
                                _ = calls.send(sent) => {}
                            }
                        }
                        pending = Some(AwaitedCall {
                            call,
                            result,
                            since,
                        });
                    }
                }
            }
            if let Some(status) = exited {
                output.finish(&mut self.stdout, true);
                output.finish(&mut self.stderr, false);
                // Before it is ready no code of a helper has run: what it printed says why it did not start.
                let printed = output.into_text();
                return match printed.lines().next().filter(|_| id.is_none()) {
                    Some(reason) => broken(format!(
                        "cannot be started: {}",
                        reason.strip_prefix("aish: ").unwrap_or(reason)
                    )),
                    None => broken(exit_text(status)),
                };
            }
            tokio::select! {
                () = exchange.cancel.cancelled() => return Err(WorkerFault::Cancelled),
                () = sleep_until(deadline), if pending.is_none() => {
                    let limit = exchange.limit.as_secs_f64();
                    return broken(format!("was killed after {limit} s without a result"));
                }
                written = self.writer.write(unsent.0.get(unsent.1..).unwrap_or_default()),
                    if unsent.1 < unsent.0.len() => match written {
                    Ok(length) => unsent.1 += length,
                    // The process has ended: its exit status is reported when it is reaped.
                    Err(_) => unsent = (Vec::new(), 0),
                },
                read = self.reader.read_buf(&mut self.received) => {
                    if read.unwrap_or(0) == 0 {
                        exited = Some(self.closed_channel().await?);
                    }
                }
                () = self.stdout.more() => output.take(&mut self.stdout, true),
                () = self.stderr.more() => output.take(&mut self.stderr, false),
                status = exit_of(&mut self.child, self.group) => {
                    // Messages that it sent before it ended count.
                    while let Ok(1..) = self.reader.try_read_buf(&mut self.received) {}
                    match status {
                        Ok(status) => exited = Some(status),
                        Err(e) => return broken(format!("cannot be waited for: {e}")),
                    }
                }
                result = reply_of(&mut pending), if pending.is_some() => {
                    if let Some(answered) = pending.take() {
                        deadline += answered.since.elapsed();
                        unsent = (reply_line(answered.call, result), 0);
                    }
                }
            }
        }
    }

    /// Waits a moment for the exit of a process whose channel is closed.
    async fn closed_channel(&mut self) -> Result<ExitStatus, WorkerFault> {
        let exit = exit_of(&mut self.child, self.group);
        match timeout(Duration::from_millis(500), exit).await {
            Ok(Ok(status)) => Ok(status),
            _ => broken("closed its channel"),
        }
    }

    /// Takes a complete line from the received bytes.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, WorkerFault> {
        let end = memchr::memchr(b'\n', &self.received);
        if end.unwrap_or(self.received.len()) > MAX_LINE {
            return broken(format!("sent a line of more than {} MB", MAX_LINE >> 20));
        }
        let Some(end) = end else {
            return Ok(None);
        };
        let rest = self.received.split_off(end + 1);
        Ok(Some(std::mem::replace(&mut self.received, rest)))
    }

    /// Ends the worker and its process group: SIGTERM, then the signal that ends it, at last SIGKILL.
    pub(super) async fn end(mut self, grace: Duration) {
        // A process in uninterruptible sleep survives for now; the runtime reaps it later.
        let steps = [
            (Signal::SIGTERM, grace),
            (self.end_signal, END_TIME),
            (Signal::SIGKILL, Duration::from_secs(1)),
        ];
        for (signal, within) in steps {
            self.signal(signal);
            if timeout(within, self.wait()).await.is_ok() {
                break;
            }
        }
        self.signal(Signal::SIGKILL);
        self.group = None;
        let mark = std::mem::take(&mut self.mark);
        // On another thread: reads many files.
        let _ = tokio::task::spawn_blocking(move || kill_marked(&mark)).await;
    }

    /// Waits for the end of the process, whatever it prints.
    async fn wait(&mut self) {
        loop {
            tokio::select! {
                _ = exit_of(&mut self.child, self.group) => return,
                () = self.stdout.more() => self.stdout.clear(),
                () = self.stderr.more() => self.stderr.clear(),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            group.signal(signal);
        }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        if self.group.is_none() {
            return;
        }
        self.signal(self.end_signal);
        // The supervisor finds all processes, and has the mark itself.
        if self.end_signal == Signal::SIGKILL {
            kill_marked(&self.mark);
        }
    }
}

/// Waits for the end of a worker, and ends the rest of its process group.
async fn exit_of(child: &mut Child, group: Option<ChildGroup>) -> io::Result<ExitStatus> {
    match group {
        Some(group) => group.exit_of(child).await,
        None => child.wait().await,
    }
}

/// The call of a helper that waits for its result.
struct AwaitedCall {
    /// Its number in the worker.
    call: u64,
    result: oneshot::Receiver<Result<String, String>>,
    since: Instant,
}

/// Waits for the result of a call of a helper.
async fn reply_of(pending: &mut Option<AwaitedCall>) -> Result<String, String> {
    match pending {
        Some(pending) => match (&mut pending.result).await {
            Ok(result) => result,
            Err(_) => Err("the call was not made".to_owned()),
        },
        None => std::future::pending().await,
    }
}

fn reply_line(call: u64, result: Result<String, String>) -> Vec<u8> {
    let reply = match result {
        Ok(text) => serde_json::json!({"reply": call, "result": text}),
        Err(text) => serde_json::json!({"reply": call, "error": text}),
    };
    format!("{reply}\n").into_bytes()
}

/// A message of a worker.
enum Received {
    /// The answer to the request.
    Answer(Value),
    /// A call of a helper: its number, name and arguments.
    Call(u64, String, String),
}

/// Reads a line. `takes_calls`: a call of a helper may come.
fn received(line: &[u8], id: Option<u64>, takes_calls: bool) -> Result<Received, WorkerFault> {
    let garbage = "sent something that is not an answer";
    let Ok(message) = serde_json::from_slice::<Value>(line) else {
        return broken(garbage);
    };
    let number = message.get("id").and_then(Value::as_u64);
    if let Some(name) = message.get("call").and_then(Value::as_str) {
        return match (number, exact_arguments(line)) {
            (Some(number), Some(arguments)) if takes_calls => {
                Ok(Received::Call(number, name.to_owned(), arguments))
            }
            _ => broken(garbage),
        };
    }
    // Code in the worker can write to the channel: what is not an answer must not count as an empty one.
    let has_end = |_| message.get("is_error").is_some_and(Value::is_boolean);
    match message.is_object() && number == id && id.is_none_or(has_end) {
        true => Ok(Received::Answer(message)),
        false => broken(garbage),
    }
}

/// Returns the arguments of a call with all digits of their integers.
fn exact_arguments(line: &[u8]) -> Option<String> {
    let message = json_text::parse_object(std::str::from_utf8(line).ok()?).ok()?;
    message
        .get("arguments")
        .and_then(Value::as_object)
        .map(json_text::text)
}

/// Says how a process ended.
fn exit_text(status: ExitStatus) -> String {
    // The supervisor of the sandbox reports a signal as a shell does.
    let supervised = status.code().filter(|code| *code > 128);
    let signal = supervised.map(|code| code - 128);
    let code = status.code().filter(|_| signal.is_none());
    match (code, signal.or(status.signal())) {
        (Some(code), _) => format!("exited with code {code} before it had a result"),
        (None, Some(signal)) => {
            let name = Signal::try_from(signal).map_or("?", Signal::as_str);
            let reason = match Signal::try_from(signal) {
                Ok(Signal::SIGXCPU) => ": it used more processor time than allowed",
                Ok(Signal::SIGXFSZ) => ": it wrote a file larger than allowed",
                _ => "",
            };
            format!("was killed by signal {signal} ({name}) before it had a result{reason}")
        }
        (None, None) => "ended before it had a result".to_owned(),
    }
}
