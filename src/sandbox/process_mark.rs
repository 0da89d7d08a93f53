//! A mark in the environment of processes, so that those that left their process group are found.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Variable with the mark.
pub const PROCESS_MARK: &str = "AISH_PROCESS";

/// Kills the processes with this mark. A process that also replaced its environment is not found: only a process namespace
/// holds it. Reads the environment of all processes of the user, on Linux.
pub fn kill_marked(mark: &str) {
    if !cfg!(target_os = "linux") {
        return;
    }
    let wanted = format!("{PROCESS_MARK}={mark}").into_bytes();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Fails for processes of other users.
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        if environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted)
        {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}
