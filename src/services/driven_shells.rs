//! The shells that clients of the HTTP API drive: their users have typed `llm :tui`.
//!
//! Each has a FIFO in the runtime directory, which its line editor reads. A FIFO without a reader was left by a shell that has
//! ended. An action is `NUMBER DEADLINE ACTION LENGTH TEXT` between two NULs, so that one which was cut off in a full pipe does not
//! swallow the next, and is recognized by its length. The shell drops an action whose deadline is over, and reports the outcome of
//! the others through the FIFO of the hooks.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{OpenOptions, Sender};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};

use crate::history::journal::now_ms;
use crate::paths::{self, Paths};
use crate::protocol::ShellId;
use crate::session::{is_alive, lock};

/// Time for a shell to perform an action.
const DEADLINE: Duration = Duration::from_secs(2);
/// Time for its report after that.
const GRACE: Duration = Duration::from_millis(500);
/// Age of a FIFO that no shell has opened, before it is removed: a new one is opened in a moment.
const MAX_UNOPENED: Duration = Duration::from_secs(10);

/// An action for a driven shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellAction<'a> {
    /// Appends to the prompt in the edit buffer, or begins one.
    Append(&'a str),
    /// Submits this prompt.
    Submit,
    /// Shows a line.
    Notice(&'a str),
}

impl ShellAction<'_> {
    /// Returns the name of the action.
    pub fn name(&self) -> &'static str {
        match self {
            ShellAction::Append(_) => "append",
            ShellAction::Submit => "submit",
            ShellAction::Notice(_) => "notice",
        }
    }
}

/// Why an action was not performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionRefusal {
    /// The shell has ended, or its user has ended this.
    Gone,
    /// Another action for the shell is under way.
    Occupied,
    /// The shell did not report in time. The action is not performed later.
    Silent,
    /// The line editor does something other than waiting for keys.
    Busy,
    /// The plugin's hook for accepted lines was replaced.
    Unhooked,
    /// The edit buffer holds something other than a prompt.
    Other,
    /// There is no prompt to submit.
    Empty,
    /// The edit buffer would become too long.
    Full,
}

impl ActionRefusal {
    /// Returns the outcome for a word of the shell.
    fn of_word(word: &str) -> Result<(), ActionRefusal> {
        match word {
            "done" => Ok(()),
            "unhooked" => Err(ActionRefusal::Unhooked),
            "other" => Err(ActionRefusal::Other),
            "empty" => Err(ActionRefusal::Empty),
            "full" => Err(ActionRefusal::Full),
            _ => Err(ActionRefusal::Busy),
        }
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct DrivenShells {
    dir: PathBuf,
    /// Number of the next action. Begins with the time, so that a late report to an earlier daemon has no meaning.
    next: AtomicU64,
    /// The action that is under way in each shell.
    waiting: Mutex<HashMap<ShellId, WaitingAction>>,
}

#[derive(Debug)]
struct WaitingAction {
    number: u64,
    report: oneshot::Sender<Result<(), ActionRefusal>>,
}

impl DrivenShells {
    /// Knows the FIFOs in the runtime directory.
    pub fn new(paths: &Paths) -> DrivenShells {
        DrivenShells {
            dir: paths.driven_shells(),
            next: AtomicU64::new(now_ms()),
            waiting: Mutex::default(),
        }
    }

    /// Returns the shells that can be driven. Removes the FIFOs of shells that have ended.
    pub fn list(&self) -> Vec<ShellId> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let shells = entries.filter_map(|entry| ShellId::parse(entry.file_name().to_str()?).ok());
        shells.filter(|shell| self.open(shell).is_some()).collect()
    }

    /// Opens the FIFO of a shell; `None` if nobody reads it.
    fn open(&self, shell: &ShellId) -> Option<Sender> {
        let path = self.dir.join(shell.as_str());
        let meta = fs::symlink_metadata(&path).ok()?;
        if !paths::is_own_fifo(&meta) {
            return None;
        }
        // A subshell in the background may keep the FIFO of its shell open.
        let pid = shell.as_str().split('-').next();
        let is_over = pid
            .and_then(|pid| pid.parse().ok())
            .is_some_and(|pid| !is_alive(pid));
        let opened = OpenOptions::new().open_sender(&path);
        let is_unread = matches!(&opened, Err(e) if e.raw_os_error() == Some(Errno::ENXIO as i32));
        let age = meta.modified().ok().and_then(|time| time.elapsed().ok());
        if is_over || is_unread && age.is_some_and(|age| age > MAX_UNOPENED) {
            // Best effort: it is tried again.
            let _ = fs::remove_file(&path);
        }
        opened.ok().filter(|_| !is_over)
    }

    /// Makes a shell perform an action.
    ///
    /// # Errors
    /// The shell has not performed it, and will not.
    pub async fn perform(
        &self,
        shell: &ShellId,
        action: ShellAction<'_>,
    ) -> Result<(), ActionRefusal> {
        let mut fifo = self.open(shell).ok_or(ActionRefusal::Gone)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (report, reported) = oneshot::channel();
        {
            let mut waiting = lock(&self.waiting);
            // One that nobody waits for is of a client that has gone.
            if waiting
                .get(shell)
                .is_some_and(|action| !action.report.is_closed())
            {
                return Err(ActionRefusal::Occupied);
            }
            waiting.insert(shell.clone(), WaitingAction { number, report });
        }
        let record = record(number, now_ms().saturating_add(millis(DEADLINE)), action);
        let end = Instant::now() + DEADLINE;
        let outcome = async {
            // A full pipe: the shell has read nothing for a long time.
            let written = timeout_at(end, fifo.write_all(&record)).await;
            if !matches!(written, Ok(Ok(()))) {
                return Err(ActionRefusal::Silent);
            }
            match timeout_at(end + GRACE, reported).await {
                Ok(Ok(outcome)) => outcome,
                _ => Err(ActionRefusal::Silent),
            }
        };
        let outcome = outcome.await;
        let mut waiting = lock(&self.waiting);
        if waiting
            .get(shell)
            .is_some_and(|action| action.number == number)
        {
            waiting.remove(shell);
        }
        outcome
    }

    /// Takes the report of a shell about an action.
    pub fn ended(&self, shell: &ShellId, number: u64, word: &str) {
        let mut waiting = lock(&self.waiting);
        if waiting
            .get(shell)
            .is_none_or(|action| action.number != number)
        {
            return;
        }
        if let Some(action) = waiting.remove(shell) {
            // The client may have gone.
            let _ = action.report.send(ActionRefusal::of_word(word));
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns an action as the shell reads it.
fn record(number: u64, deadline_ms: u64, action: ShellAction<'_>) -> Vec<u8> {
    let (seconds, ms) = (deadline_ms / 1000, deadline_ms % 1000);
    let text = match action {
        ShellAction::Append(text) | ShellAction::Notice(text) => text.replace('\0', ""),
        ShellAction::Submit => String::new(),
    };
    let name = action.name();
    let length = text.len();
    format!("\0{number} {seconds}.{ms:03} {name} {length} {text}\0").into_bytes()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// Driven shells, this process as one of them, and its FIFO.
    fn driven(dir: &std::path::Path) -> (DrivenShells, ShellId, PathBuf) {
        let uid = nix::unistd::getuid().as_raw();
        let paths = Paths::under(dir, uid).unwrap();
        paths::make_dir(&paths.driven_shells()).unwrap();
        let here = shell(std::process::id());
        let path = paths.driven_shells().join(here.as_str());
        paths::make_fifo(&path).unwrap();
        (DrivenShells::new(&paths), here, path)
    }

    fn shell(pid: u32) -> ShellId {
        ShellId::parse(format!("{pid}-1-2")).unwrap()
    }

    #[tokio::test]
    async fn a_shell_without_a_reader_or_a_process_is_no_driven_shell() {
        let dir = tempfile::tempdir().unwrap();
        let (driven, here, path) = driven(dir.path());
        assert_eq!(driven.list(), []);
        let refused = driven.perform(&here, ShellAction::Submit).await;
        assert_eq!(refused, Err(ActionRefusal::Gone));
        // A new one is about to be opened.
        assert!(path.exists());
        let old = std::time::SystemTime::now() - MAX_UNOPENED - GRACE;
        let mut options = fs::File::options();
        let reader = options.read(true).write(true).open(&path).unwrap();
        reader.set_modified(old).unwrap();
        assert_eq!(driven.list(), std::slice::from_ref(&here));
        drop(reader);
        assert_eq!(driven.list(), []);
        assert!(!path.exists());
        // The process has ended, but a child has inherited the FIFO.
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let other = path.with_file_name(shell(child.id()).as_str());
        paths::make_fifo(&other).unwrap();
        let _reader = options.open(&other).unwrap();
        assert_eq!(driven.list(), []);
        assert!(!other.exists());
        // A file that is not a FIFO is left alone.
        fs::write(&path, "").unwrap();
        assert_eq!(driven.list(), []);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn the_report_of_another_action_or_shell_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let (driven, here, path) = driven(dir.path());
        let mut options = fs::File::options();
        let mut reader = options.read(true).write(true).open(&path).unwrap();
        let text = "é\n; rm x";
        let reports = async {
            while !lock(&driven.waiting).contains_key(&here) {
                tokio::task::yield_now().await;
            }
            let number = lock(&driven.waiting)[&here].number;
            let second = driven.perform(&here, ShellAction::Submit).await;
            assert_eq!(second, Err(ActionRefusal::Occupied));
            driven.ended(&here, number + 1, "done");
            driven.ended(&shell(1), number, "done");
            driven.ended(&here, number, "other");
            driven.ended(&here, number, "done");
            number
        };
        let append = driven.perform(&here, ShellAction::Append(text));
        let (outcome, number) = tokio::join!(append, reports);
        assert_eq!(outcome, Err(ActionRefusal::Other));
        let mut read = vec![0; 200];
        let length = reader.read(&mut read).unwrap();
        let read = String::from_utf8(read[..length].to_vec()).unwrap();
        let (head, rest) = read.split_once(" append ").unwrap();
        assert_eq!(rest, format!("{} {text}\0", text.len()));
        let (sent, deadline) = head.strip_prefix('\0').unwrap().split_once(' ').unwrap();
        assert_eq!(sent, number.to_string());
        let left = deadline.parse::<f64>().unwrap() - now_ms() as f64 / 1000.0;
        assert!((0.5..=2.0).contains(&left), "{left}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shell_that_reads_nothing_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let (driven, here, path) = driven(dir.path());
        let mut options = fs::File::options();
        let _reader = options.read(true).write(true).open(&path).unwrap();
        let text = "x".repeat(50_000);
        // The second one does not fit into the pipe.
        for _ in 0..3 {
            let start = Instant::now();
            let refused = driven.perform(&here, ShellAction::Append(&text)).await;
            assert_eq!(refused, Err(ActionRefusal::Silent));
            assert!(start.elapsed() <= DEADLINE + GRACE);
        }
        assert!(lock(&driven.waiting).is_empty());
    }
}
