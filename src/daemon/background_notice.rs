//! Notices of background turns: one line in a file per shell, which the shell's prompt hook prints and removes.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use super::Daemon;
use crate::config::Config;
use crate::error::{ErrorContext, Result};
use crate::paths::{self, Paths};
use crate::protocol::ShellId;
use crate::safety::text::one_line;
use crate::session::feed::{HangUpPolicy, TurnEnd, TurnFeed};

/// Maximum length of a notice, in characters.
const LENGTH: usize = 200;

/// Returns how long a question of a background turn waits for a client.
pub fn question_patience(config: &Config) -> Duration {
    config.approvals.wait
}

/// Returns a duration in words: `10m`, `90s`.
pub fn minutes(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 60 && seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// Tells the shell of a background turn that a question waits, unless a client is there to answer it.
pub fn question_waits(daemon: &Daemon, feed: &TurnFeed, question: &str) {
    if feed.is_answerable(question) {
        return;
    }
    let words = feed.origin.words();
    tell(
        daemon,
        feed,
        &format!("“{words}” waits for your answer: llm :attach shows it"),
    );
}

/// Tells the shell of a background turn that the turn has ended, unless a client has watched its end.
pub fn turn_ended(daemon: &Daemon, feed: &TurnFeed, end: &TurnEnd) {
    if feed.is_watched() {
        return;
    }
    let words = feed.origin.words();
    let line = match end {
        Ok(_) => format!("the answer to “{words}” is done: llm :attach shows it"),
        Err(failure) => format!("“{words}” failed: {}", failure.message),
    };
    tell(daemon, feed, &line);
}

fn tell(daemon: &Daemon, feed: &TurnFeed, line: &str) {
    let Some(shell) = &feed.origin.shell else {
        return;
    };
    if feed.origin.hang_up == HangUpPolicy::Continue
        && let Err(e) = write(&daemon.paths, shell, line)
    {
        tracing::warn!("{}", e.message);
    }
}

fn path(paths: &Paths, shell: &ShellId) -> PathBuf {
    paths.run.join("notices").join(shell.as_str())
}

/// Replaces the notice of a shell. Not synced: it means nothing after a crash of the system.
fn write(paths: &Paths, shell: &ShellId, line: &str) -> Result<()> {
    let path = path(paths, shell);
    let what = || format!("cannot write {}", path.display());
    paths::make_dir(&paths.run.join("notices"))?;
    let temporary = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options
        .open(&temporary)
        .and_then(|mut file| writeln!(file, "{}", one_line(line, LENGTH)))
        .and_then(|()| fs::rename(&temporary, &path))
        .context(what)
}

/// Removes the notice of a shell, if there is one.
pub fn remove(paths: &Paths, shell: &ShellId) {
    // There is none in the usual case.
    let _ = fs::remove_file(path(paths, shell));
}
