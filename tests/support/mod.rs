//! The harness: a home of its own, a real zsh on a real terminal, and the reading end of the event channel.

pub mod events;
pub mod helper;
pub mod home;
pub mod pty;
#[cfg(target_os = "linux")]
pub mod tracer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use aish::protocol::ShellId;

/// How long anything may take before a test gives up. Only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A shell id.
pub fn shell_id(id: &str) -> ShellId {
    ShellId::parse(id).expect("a shell id")
}

/// Lets go of programs that still wait at a FIFO of the test: they would wait for ever.
pub fn open_gates(dir: &Path) {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_fifo()) {
            // A writer that comes and goes: their open succeeds, and their read ends.
            let _ = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(nix::libc::O_NONBLOCK)
                .open(entry.path());
        }
    }
}

/// A program of `examples/`, which is built with the tests.
pub fn example(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_aish-helper"));
    let path = built.with_file_name("examples").join(name);
    assert!(
        path.exists(),
        "build it first: cargo build --example {name}"
    );
    path
}
