//! The shell of a pane. tmux starts it from its server, so the first shell of a session gets environment and umask of the
//! launcher through a FIFO: an argument would be visible to other users, and a file would stay.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::libc::mode_t;
use nix::sys::stat::{Mode, umask};
use nix::unistd::mkfifo;

use super::notice;
use super::shell::Shell;
use super::tmux::PANE_VARIABLES;
use crate::error::{Error, ErrorContext, Result};
use crate::paths::{Paths, process_environment};

/// How long each side waits for the other one.
const PATIENCE: Duration = Duration::from_secs(3);
/// Interval at which the launcher looks for the reader of the FIFO.
const INTERVAL: Duration = Duration::from_millis(5);
/// Maximum size of an environment; Linux allows less for a program.
const MAX_ENVIRONMENT: u64 = 16 << 20;

/// The program of the panes, which is this one.
pub(super) struct PaneProgram(PathBuf);

impl PaneProgram {
    /// Finds this program.
    ///
    /// # Errors
    /// Its path is unknown.
    pub(super) fn find() -> Result<PaneProgram> {
        let binary = std::env::current_exe().context(|| "cannot find aish itself".into())?;
        Ok(PaneProgram(binary))
    }

    /// Returns the program and arguments of the first pane of a session.
    pub(super) fn words(&self, shell: &Shell, handover: &Handover) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.0.clone().into()];
        words.extend(options(shell).map(OsString::from));
        words.extend(["--environment".into(), handover.fifo.clone().into()]);
        words
    }

    /// Returns a line for sh and fish that starts the shell of a later pane, also when aish has been removed.
    pub(super) fn line(&self, shell: &Shell) -> String {
        let quoted = |path: &Path| format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"));
        let (aish, options) = (
            quoted(&self.0),
            options(shell).collect::<Vec<_>>().join(" "),
        );
        let zsh = quoted(shell.program());
        format!("[ -x {aish} ] && exec {aish} {options}; exec {zsh}")
    }
}

fn options(shell: &Shell) -> impl Iterator<Item = &'static str> {
    let login = shell.is_login().then_some("--login");
    ["launch", "--pane"].into_iter().chain(login)
}

/// The umask and the environment of the launcher, for the first shell of a session.
pub(super) struct Handover {
    fifo: PathBuf,
    content: Vec<u8>,
}

impl Handover {
    /// Creates the FIFO.
    ///
    /// # Errors
    /// The run directory is not safe or not writable.
    pub(super) fn prepare(paths: &Paths, mask: Mode) -> Result<Handover> {
        paths.prepare_run()?;
        let fifo = paths.run.join(format!("pane-{}", std::process::id()));
        // Left by a launcher that was killed.
        let _ = fs::remove_file(&fifo);
        mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR)
            .map_err(|e| Error::runtime(format!("cannot create {}: {e}", fifo.display())))?;
        let mut content = format!("{:o}\0", mask.bits()).into_bytes();
        for (name, value) in process_environment() {
            content.extend_from_slice(name.as_bytes());
            content.push(b'=');
            content.extend_from_slice(value.as_bytes());
            content.push(0);
        }
        Ok(Handover { fifo, content })
    }

    /// Writes to the shell. A shell that does not read continues with the input that tmux has given it.
    pub(super) fn send(&self) {
        if let Some(mut fifo) = self.open() {
            // As above.
            let _ = fifo.write_all(&self.content);
        }
    }

    /// Opens the FIFO once the shell reads from it. Opening without O_NONBLOCK could wait forever.
    fn open(&self) -> Option<File> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let mut options = OpenOptions::new();
            options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
            if let Ok(fifo) = options.open(&self.fifo) {
                // An environment may be larger than a pipe.
                return fcntl(&fifo, FcntlArg::F_SETFL(OFlag::empty()))
                    .ok()
                    .map(|_| fifo);
            }
            std::thread::sleep(INTERVAL);
        }
        None
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        // The shell has it open, or never will.
        let _ = fs::remove_file(&self.fifo);
    }
}

/// Replaces this process by the shell of a pane; `fifo` has the environment of the launcher. Returns why that failed.
pub(super) fn run(shell: &Shell, fifo: Option<&Path>) -> Error {
    let Some(fifo) = fifo else {
        return shell.exec(None);
    };
    match receive(fifo) {
        Some((mask, environment)) => {
            umask(mask);
            shell.exec(Some(&environment))
        }
        None => {
            notice("the environment of the terminal did not arrive: zsh starts with that of tmux");
            shell.exec(None)
        }
    }
}

type Environment = Vec<(OsString, OsString)>;

/// Reads the umask and the environment; variables of the pane keep their values.
fn receive(fifo: &Path) -> Option<(Mode, Environment)> {
    let (send, received) = channel();
    let path = fifo.to_owned();
    // Opening waits for the launcher, which may have been killed; exec ends the thread.
    std::thread::spawn(move || {
        let mut content = Vec::new();
        let read =
            File::open(path).and_then(|fifo| fifo.take(MAX_ENVIRONMENT).read_to_end(&mut content));
        // The receiver is gone after the deadline.
        let _ = send.send(read.map(|_| content));
    });
    let content = received.recv_timeout(PATIENCE).ok()?.ok()?;
    let (mask, environment) = parse(&content)?;
    let is_of_pane = |name: &OsString| PANE_VARIABLES.iter().any(|own| name == own);
    let own = process_environment().filter(|(name, _)| is_of_pane(name));
    let given = environment
        .into_iter()
        .filter(|(name, _)| !is_of_pane(name));
    Some((mask, given.chain(own).collect()))
}

/// Parses the umask and the variables, each ended by NUL.
fn parse(content: &[u8]) -> Option<(Mode, Environment)> {
    let mut parts = content.strip_suffix(b"\0")?.split(|b| *b == 0);
    let mask = std::str::from_utf8(parts.next()?).ok()?;
    let mask = Mode::from_bits_truncate(mode_t::from_str_radix(mask, 8).ok()?);
    let variable = |part: &[u8]| {
        let at = part.iter().position(|b| *b == b'=')?;
        let (name, value) = part.split_at_checked(at)?;
        let own = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        Some((own(name), own(value.get(1..)?)))
    };
    Some((mask, parts.filter_map(variable).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_that_was_cut_off_is_not_used() {
        let (mask, environment) = parse(b"27\0A=b=c\0B=\0").expect("whole");
        assert_eq!(mask.bits(), 0o27);
        assert_eq!(
            environment,
            [("A".into(), "b=c".into()), ("B".into(), "".into())]
        );
        assert!(parse(b"").is_none());
        assert!(parse(b"27\0A=b").is_none());
        assert!(parse(b"x\0").is_none());
    }
}
