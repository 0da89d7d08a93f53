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

use nix::sys::signal::Signal;

use super::read_context::ReadContext;
use crate::child_group::ChildGroup;

/// How often a waiting call looks at its cancellation flag.
const CANCEL_INTERVAL: Duration = Duration::from_millis(50);

/// How long output is awaited after the end of a program: another process may hold its pipes. Shorter than the time after which
/// the daemon reaps ended children that nobody has waited for.
const HELD_TIME: Duration = Duration::from_secs(1);

/// Maximum size of what a program writes to its standard error.
const MAX_ERROR_BYTES: u64 = 64 * 1024;

/// Output of a program.
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

/// Returns a command with exactly these variables, in its own process group.
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
/// The program cannot be started, takes too long, leaves a process that holds its output, or the call was cancelled: the reason, to
/// follow the program's name. All processes of its group are killed then.
pub(super) fn run(mut command: Command, limits: RunLimits<'_>) -> Result<ProgramOutput, String> {
    let mut child = command
        .spawn()
        .map_err(|error| format!("cannot be started: {error}"))?;
    let group = ChildGroup::of(Some(child.id()));
    let done = collect(&mut child, group, limits);
    if done.is_err() {
        group.signal(Signal::SIGKILL);
    }
    let status = child.wait();
    let mut output = done?;
    output.success |= status
        .map_err(|error| format!("failed: {error}"))?
        .success();
    Ok(output)
}

/// The end of one of the two outputs.
enum PipeEnd {
    Output(Vec<u8>),
    Errors(Vec<u8>),
}

/// Reads the output until the program has ended, without reaping it. A program whose output is cut counts as successful.
fn collect(
    child: &mut Child,
    group: ChildGroup,
    limits: RunLimits<'_>,
) -> Result<ProgramOutput, String> {
    let deadline = Instant::now() + limits.time;
    let (sender, receiver) = mpsc::channel();
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let errors_sender = sender.clone();
    let max = limits.bytes as u64 + 1;
    // The threads end with the pipes, which the end of the group closes.
    std::thread::spawn(move || sender.send(PipeEnd::Output(read_up_to(stdout, max))));
    std::thread::spawn(move || {
        errors_sender.send(PipeEnd::Errors(read_up_to(stderr, MAX_ERROR_BYTES)))
    });
    let (mut output, mut errors) = (None, None);
    let mut ended = None;
    while output.is_none() || errors.is_none() {
        match receiver.recv_timeout(CANCEL_INTERVAL) {
            Ok(PipeEnd::Output(bytes)) => output = Some(bytes),
            Ok(PipeEnd::Errors(bytes)) => errors = Some(bytes),
            Err(mpsc::RecvTimeoutError::Timeout) => check(limits, deadline)?,
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
        if group.has_ended() && ended.get_or_insert_with(Instant::now).elapsed() > HELD_TIME {
            return Err("has left a process that holds its output".to_owned());
        }
    }
    while !group.has_ended() {
        check(limits, deadline)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut stdout = output.unwrap_or_default();
    let is_cut = stdout.len() > limits.bytes;
    stdout.truncate(limits.bytes);
    Ok(ProgramOutput {
        stdout,
        is_cut,
        stderr: errors.unwrap_or_default(),
        success: is_cut,
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
        // Output that was read before an error is used.
        let _ = source.take(max).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_holds_the_output_is_not_awaited_and_is_killed() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let path = ("PATH".into(), "/usr/bin:/bin".into());
        let mut command = scrubbed(Path::new("/bin/sh"), &[path]);
        let script = format!("sleep 60 & echo $! > {}; echo done", pid.display());
        command.args(["-c", &script]);
        let limits = RunLimits {
            time: Duration::from_secs(60),
            bytes: 1000,
            cancelled: &AtomicBool::new(false),
        };
        let started = Instant::now();
        let held = run(command, limits).unwrap_err();
        assert_eq!(held, "has left a process that holds its output");
        assert!(started.elapsed() < Duration::from_secs(30));
        let pid = std::fs::read_to_string(pid).unwrap();
        let stat = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        // Gone, or a zombie that its new parent has not reaped.
        while stat().is_ok_and(|stat| !stat.contains(") Z")) {
            assert!(started.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
    }
}
