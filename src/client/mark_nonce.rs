//! Hands the nonce of the marks to shells, through the files of their notices.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::error::{ErrorContext, Result};
use crate::paths;
use crate::protocol::ShellId;

/// Leaves the nonce of the marks to other shells of a recorded terminal.
#[derive(Debug)]
pub(super) struct NonceNotices {
    /// The directory of the notices.
    directory: Option<PathBuf>,
    nonce: String,
    /// The shells that have got it: output can forge a greeting, and each costs a file.
    served: BTreeSet<String>,
    /// The last one of each process that has got it.
    current: Vec<ShellId>,
}

/// Maximum number of shells that have the nonce at a time.
const MAX_SHELLS: usize = 32;

/// Maximum number of shells that get it in one recording. Each `exec zsh` is one more.
const MAX_SERVED: usize = 1000;

impl NonceNotices {
    pub(super) fn new(directory: Option<PathBuf>, nonce: String) -> NonceNotices {
        NonceNotices {
            directory,
            nonce,
            served: BTreeSet::new(),
            current: Vec::new(),
        }
    }

    /// Whether a shell of the same process has got the nonce, as before `exec zsh`.
    pub(super) fn knows_process(&self, shell: &ShellId) -> bool {
        self.current.iter().any(|known| known.pid() == shell.pid())
    }

    /// Makes the shells stop printing marks, as far as they can be reached.
    pub(super) fn withdraw(&self) {
        for shell in self.current.iter().filter(|shell| is_alive(shell)) {
            self.write(shell, "");
        }
    }

    fn write(&self, shell: &ShellId, nonce: &str) {
        if let Some(directory) = &self.directory {
            let _ = leave_nonce(&directory.join(shell.as_str()), nonce);
        }
    }

    /// Leaves the nonce to a shell. Without it, nothing that follows is recorded, so a failure is not reported.
    pub(super) fn leave(&mut self, shell: &ShellId) {
        if self.nonce.is_empty() || self.served.len() >= MAX_SERVED || !is_alive(shell) {
            return;
        }
        self.current
            .retain(|known| known.pid() != shell.pid() && is_alive(known));
        let is_new =
            self.current.len() < MAX_SHELLS && self.served.insert(shell.as_str().to_owned());
        if is_new {
            self.current.push(shell.clone());
            self.write(shell, &self.nonce);
        }
    }
}

fn is_alive(shell: &ShellId) -> bool {
    let exists = |pid| kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH);
    shell.pid().is_some_and(exists)
}

/// Leaves the nonce of the marks for the shell, whose prompt hook reads and removes the file (`_aish_notice`); with an empty one
/// the shell stops printing marks. Appended in one write, since the daemon may write to the file too.
pub(super) fn leave_nonce(notice: &Path, nonce: &str) -> Result<()> {
    if let Some(dir) = notice.parent() {
        paths::make_dir(dir)?;
    }
    paths::open_own(OpenOptions::new().append(true).create(true), notice)
        .and_then(|mut file| file.write_all(format!("marks\t{nonce}\n").as_bytes()))
        .context(|| format!("cannot write {}", notice.display()))
}
