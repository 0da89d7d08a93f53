//! Runs the command of the tool `shell`: in a pty, so that programs print immediately, with a time limit, and without anything that
//! outlives it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::child_group::ChildGroup;
use crate::sandbox::{END_SIGNAL, END_TIME, PROCESS_MARK, kill_marked};
use crate::tools::source::CallEvent;

/// Size of the terminal that the command sees, as columns and rows: wide, so that few lines are wrapped.
pub const SHELL_SIZE: (usize, usize) = (200, 50);
/// How long output of the command is awaited once it has ended: another process may still hold the pty.
const DRAIN: Duration = Duration::from_millis(200);
/// How long the processes have between SIGTERM and the signal that ends them.
const GRACE: Duration = Duration::from_millis(500);
/// Maximum time from a cancellation to the end of everything.
pub const SHELL_CANCEL_TIME: Duration = Duration::from_secs(END_TIME.as_secs() + 2);
/// Maximum size of the output that is kept: half from the beginning, half from the end.
const MAX_OUTPUT: usize = 8 << 20;
/// Maximum size of the output that is shown while the command runs.
const MAX_SHOWN: usize = 256 << 10;

/// A command to run.
#[derive(Debug)]
pub struct ShellCommand {
    /// The program with its arguments.
    pub argv: Vec<OsString>,
    /// The directory.
    pub dir: PathBuf,
    /// The whole environment.
    pub env: BTreeMap<String, OsString>,
    /// The time limit.
    pub time_limit: Duration,
    /// The program is the supervisor of the sandbox.
    pub is_supervised: bool,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellEnd {
    /// It exited with this code; 128 and the number of the signal that killed it.
    Exited(i32),
    /// It was killed at its time limit.
    TimedOut,
    /// It was killed because the call was cancelled.
    Cancelled,
}

/// The end and the output of a command.
#[derive(Debug)]
pub struct ShellResult {
    /// How it ended.
    pub end: ShellEnd,
    /// Its output, as it was printed.
    pub output: Vec<u8>,
    /// Number of bytes left out in the middle of the output.
    pub omitted: u64,
}

/// Runs a command, and sends its output as events.
///
/// # Errors
/// It cannot be started; one line.
pub async fn run(
    command: ShellCommand,
    events: &mpsc::Sender<CallEvent>,
    cancel: &CancellationToken,
) -> Result<ShellResult, String> {
    let (mut pty, pts) = pty_process::open().map_err(|e| format!("cannot open a pty: {e}"))?;
    let cells = |n: usize| u16::try_from(n).unwrap_or(u16::MAX);
    let size = pty_process::Size::new(cells(SHELL_SIZE.1), cells(SHELL_SIZE.0));
    pty.resize(size)
        .map_err(|e| format!("cannot set up a pty: {e}"))?;
    let Some((program, arguments)) = command.argv.split_first() else {
        return Err("there is no command".to_owned());
    };
    let mark = Uuid::new_v4().simple().to_string();
    let spawned = pty_process::Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&command.env)
        .env(PROCESS_MARK, &mark)
        .current_dir(&command.dir)
        // Nobody can answer its questions: it gets the end of the input immediately.
        .stdin(Stdio::null())
        .spawn(pts);
    let mut child = spawned
        .map_err(|e| format!("cannot start the command in {}: {e}", command.dir.display()))?;
    let end_signal = match command.is_supervised {
        true => END_SIGNAL,
        false => Signal::SIGKILL,
    };
    let group = ProcessGroup::of(child.id(), end_signal);
    let mut deadline = Instant::now() + command.time_limit;
    let mut output = KeptOutput::default();
    let mut buffer = vec![0; 16 << 10];
    let mut is_open = true;
    // A program that ignores SIGTERM is killed. The supervisor passes SIGTERM on, and then needs time for its own end.
    let mut signals = [
        (Signal::SIGTERM, GRACE),
        (end_signal, END_TIME),
        (Signal::SIGKILL, GRACE),
    ]
    .into_iter();
    let mut stopped = None;
    let has_ended = loop {
        let stop = tokio::select! {
            biased;
            () = cancel.cancelled(), if stopped.is_none() => ShellEnd::Cancelled,
            () = sleep_until(deadline) => ShellEnd::TimedOut,
            () = group.leader.ended() => break true,
            read = pty.read(&mut buffer), if is_open => {
                is_open = output.read(read, &buffer, events);
                continue;
            }
        };
        stopped.get_or_insert(stop);
        let Some((signal, within)) = signals.next() else {
            break false;
        };
        group.leader.signal(signal);
        deadline = Instant::now() + within;
    };
    let drain = sleep(DRAIN);
    tokio::pin!(drain);
    while is_open {
        tokio::select! {
            biased;
            // First: a process that is left may print without end.
            () = &mut drain => break,
            read = pty.read(&mut buffer) => is_open = output.read(read, &buffer, events),
        }
    }
    // Before the command is reaped.
    group.leader.signal(Signal::SIGKILL);
    let status = match has_ended {
        true => Some(child.wait().await),
        false => None,
    };
    let end = match (stopped, status) {
        (Some(end), _) => end,
        (None, Some(Ok(status))) => ShellEnd::Exited(exit_code(status)),
        (None, Some(Err(e))) => return Err(format!("cannot wait for the command: {e}")),
        (None, None) => ShellEnd::TimedOut,
    };
    // Without the sandbox, whose supervisor finds all, a process may have left the group. On another thread: reads many files.
    let _ = tokio::task::spawn_blocking(move || kill_marked(&mark)).await;
    let (output, omitted) = output.finish();
    Ok(ShellResult {
        end,
        output,
        omitted,
    })
}

fn exit_code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let killed = || status.signal().map(|signal| 128 + signal);
    status.code().or_else(killed).unwrap_or(-1)
}

/// The process group of the command, which is also its session. Ended when dropped.
struct ProcessGroup {
    leader: ChildGroup,
    end_signal: Signal,
}

impl ProcessGroup {
    fn of(pid: Option<u32>, end_signal: Signal) -> ProcessGroup {
        ProcessGroup {
            leader: ChildGroup::of(pid),
            end_signal,
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.leader.signal(self.end_signal);
    }
}

/// The beginning and the end of the output.
#[derive(Debug, Default)]
struct KeptOutput {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    omitted: u64,
    shown: usize,
    /// The beginning of a character that is not complete yet.
    pending: Vec<u8>,
}

impl KeptOutput {
    /// Takes the bytes that were read; returns whether there can be more.
    fn read(
        &mut self,
        read: std::io::Result<usize>,
        buffer: &[u8],
        events: &mpsc::Sender<CallEvent>,
    ) -> bool {
        match read {
            Ok(read @ 1..) => {
                self.push(buffer.get(..read).unwrap_or_default(), events);
                true
            }
            // EIO: nobody holds the pty now.
            Ok(0) | Err(_) => false,
        }
    }

    fn push(&mut self, bytes: &[u8], events: &mpsc::Sender<CallEvent>) {
        self.show(bytes, events);
        let space = (MAX_OUTPUT / 2).saturating_sub(self.head.len());
        let (head, tail) = bytes.split_at(space.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(tail);
        let over = self.tail.len().saturating_sub(MAX_OUTPUT / 2);
        self.tail.drain(..over);
        self.omitted += over as u64;
    }

    /// Sends output to the watchers. A slow watcher loses text; it does not stop the command.
    fn show(&mut self, bytes: &[u8], events: &mpsc::Sender<CallEvent>) {
        if self.shown >= MAX_SHOWN {
            return;
        }
        self.pending.extend_from_slice(bytes);
        let whole = whole_characters(&self.pending);
        let text =
            String::from_utf8_lossy(self.pending.get(..whole).unwrap_or_default()).into_owned();
        self.pending.drain(..whole);
        self.shown += text.len();
        let text = match self.shown >= MAX_SHOWN {
            true => text + "\n[… the rest of the output is not shown]\n",
            false => text,
        };
        let _ = events.try_send(CallEvent::Output(text));
    }

    fn finish(self) -> (Vec<u8>, u64) {
        let mut output = self.head;
        if self.omitted > 0 {
            output.extend_from_slice(format!("\n[… {} bytes left out]\n", self.omitted).as_bytes());
        }
        output.extend(self.tail);
        (output, self.omitted)
    }
}

/// Returns the length of the bytes without an incomplete character at their end.
fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        Err(e) if e.error_len().is_none() => e.valid_up_to(),
        // Invalid before its end; an incomplete character at the end is shown as invalid too.
        Err(_) => bytes.len(),
    }
}
