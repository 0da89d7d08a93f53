//! Runs programs of the system for the tools that read: with a scrubbed environment, limits of time and output, and without
//! a terminal.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::read_context::ReadContext;

/// How often a waiting call looks at its cancellation flag.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// Maximum size of what a program writes to its standard error.
const MAX_ERROR_BYTES: u64 = 64 * 1024;

/// What a program wrote.
#[derive(Debug)]
pub(super) struct ProgramOutput {
    /// At most the number of bytes that the caller asked for.
    pub stdout: Vec<u8>,
    /// More was written.
    pub is_cut: bool,
    /// The start of the standard error.
    pub stderr: Vec<u8>,
    /// Exit status 0; also where the program was ended because its output was enough.
    pub success: bool,
}

/// Limits of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunLimits<'a> {
    /// Maximum duration.
    pub time: Duration,
    /// Maximum size of the output.
    pub bytes: usize,
    /// Ends the program when set.
    pub cancelled: &'a AtomicBool,
}

/// Finds a program in the absolute directories of `PATH`. Those in the workspace are skipped, because a project can put a
/// program of any name there.
pub(super) fn find_program(name: &str, context: &ReadContext<'_>) -> Option<PathBuf> {
    let mut variables = context.variables.iter();
    let (_, path) = variables.find(|(name, _)| name == "PATH")?;
    let dirs = path.as_bytes().split(|&b| b == b':');
    dirs.map(|dir| Path::new(OsStr::from_bytes(dir)))
        .filter(|dir| dir.is_absolute())
        .map(|dir| dir.join(name))
        .find(|file| {
            let Ok(real) = std::fs::canonicalize(file) else {
                return false;
            };
            let is_program = std::fs::metadata(&real)
                .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
            let mut roots = context.workspace.roots();
            let inside = roots.any(|root| {
                root.parent().is_some() && (file.starts_with(root) || real.starts_with(root))
            });
            is_program && !inside
        })
}

/// Returns a command with exactly these variables, in a process group of its own.
pub(super) fn scrubbed(program: &Path, variables: &[(OsString, OsString)]) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    command
}

/// Runs a command made by [`scrubbed`].
///
/// # Errors
/// The program cannot be started, takes too long, or the call was cancelled: the reason, to follow the program's name. All
/// processes of its group are killed then.
pub(super) fn run(mut command: Command, limits: RunLimits<'_>) -> Result<ProgramOutput, String> {
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let done = collect(&mut child, limits, Instant::now() + limits.time);
    if done.is_err() {
        // Not reaped yet, so the number still means this group.
        if let Ok(group) = i32::try_from(child.id()) {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        let _ = child.wait();
    }
    done
}

/// The end of one of the two outputs.
enum PipeEnd {
    Output(Vec<u8>),
    Errors(Vec<u8>),
}

fn collect(
    child: &mut Child,
    limits: RunLimits<'_>,
    deadline: Instant,
) -> Result<ProgramOutput, String> {
    let (sender, receiver) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let errors_sender = sender.clone();
    let max = limits.bytes as u64 + 1;
    // The threads end with the pipes, which the death of the program closes.
    std::thread::spawn(move || sender.send(PipeEnd::Output(read_up_to(stdout, max))));
    std::thread::spawn(move || {
        errors_sender.send(PipeEnd::Errors(read_up_to(stderr, MAX_ERROR_BYTES)))
    });
    let (mut output, mut errors) = (None, None);
    while output.is_none() || errors.is_none() {
        match receiver.recv_timeout(CANCEL_INTERVAL) {
            Ok(PipeEnd::Output(bytes)) => output = Some(bytes),
            Ok(PipeEnd::Errors(bytes)) => errors = Some(bytes),
            Err(mpsc::RecvTimeoutError::Timeout) => check(limits, deadline)?,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    let success = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) => check(limits, deadline)?,
            Err(error) => return Err(format!("failed: {error}")),
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mut stdout = output.unwrap_or_default();
    let is_cut = stdout.len() > limits.bytes;
    stdout.truncate(limits.bytes);
    Ok(ProgramOutput {
        stdout,
        is_cut,
        stderr: errors.unwrap_or_default(),
        success: success || is_cut,
    })
}

fn check(limits: RunLimits<'_>, deadline: Instant) -> Result<(), String> {
    if limits.cancelled.load(Ordering::Relaxed) {
        return Err("was cancelled".to_owned());
    }
    if Instant::now() >= deadline {
        return Err(format!("took longer than {} s", limits.time.as_secs()));
    }
    Ok(())
}

fn read_up_to(source: Option<impl Read>, max: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(source) = source {
        // What was read before an error is used.
        let _ = source.take(max).read_to_end(&mut bytes);
    }
    bytes
}
