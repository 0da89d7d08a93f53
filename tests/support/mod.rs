//! Test harness: isolated home, the real helper, a real zsh on a pty, and the reader of shell events.

pub mod events;
pub mod helper;
pub mod home;
pub mod multiplexer;
pub mod pty;
pub mod svg;
pub mod terminal;
#[cfg(target_os = "linux")]
pub mod tracer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use aish::protocol::ShellId;

/// Time limit of a wait; only a failing test reaches it.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Parses a shell id.
pub fn shell_id(id: &str) -> ShellId {
    ShellId::parse(id).expect("a shell id")
}

/// Unblocks programs that wait at a FIFO in `dir`, which would wait forever.
pub fn open_gates(dir: &Path) {
    use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_fifo()) {
            // Opens and closes a writer: a blocked open succeeds, and a read ends.
            let _ = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(nix::libc::O_NONBLOCK)
                .open(entry.path());
        }
    }
}

/// Path of a program in `examples/`, which is built with the tests.
pub fn example(name: &str) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_aish-helper"));
    let path = built.with_file_name("examples").join(name);
    assert!(
        path.exists(),
        "build it first: cargo build --example {name}"
    );
    path
}
