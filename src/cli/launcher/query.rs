//! Runs a program for its output, with a deadline.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Maximum size of an output; a longer one is cut.
const MAX_OUTPUT: u64 = 1 << 20;

/// Runs a program and returns its stdout.
///
/// # Errors
/// A predicate, such as "is not there": the program cannot run, fails, or does not end in time.
pub(super) fn output(mut command: Command, patience: Duration) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("cannot run: {e}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (send, answer) = channel();
    std::thread::spawn(move || {
        let (mut out, mut said) = (Vec::new(), Vec::new());
        // What cannot be read is missing in the answer; the exit code counts.
        let _ = stdout.map(|pipe| pipe.take(MAX_OUTPUT).read_to_end(&mut out));
        let _ = stderr.map(|pipe| pipe.take(MAX_OUTPUT).read_to_end(&mut said));
        // The receiver is gone after the deadline.
        let _ = send.send((out, said));
    });
    let Ok((out, said)) = answer.recv_timeout(patience) else {
        // Fails only if the program has just ended.
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("does not answer within {} s", patience.as_secs()));
    };
    match child.wait() {
        Ok(status) if status.success() => Ok(out),
        Ok(_) => {
            let said = String::from_utf8_lossy(&said);
            let line = said.lines().find(|line| !line.trim().is_empty());
            Err(format!(
                "failed: {}",
                line.unwrap_or("it said nothing").trim()
            ))
        }
        Err(e) => Err(failed(e)),
    }
}
