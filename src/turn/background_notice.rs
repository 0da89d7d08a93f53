//! Notices of background turns: a file per shell, whose lines the shell's prompt hook prints and removes.
//!
//! Each line is the id of a session, a tab and the text. The hook prints the text. The recorder of a pane adds a line with
//! `marks` and its nonce, which the hook keeps.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use crate::chat::FinishReason;
use crate::config::Config;
use crate::error::{ErrorContext, Result};
use crate::paths::{self, Paths};
use crate::protocol::ShellId;
use crate::safety::redact::global_redactor;
use crate::safety::text::one_line;
use crate::services::SharedServices;
use crate::session::feed::{HangUpPolicy, THE_API, TurnEnd, TurnFeed};
use crate::session::{lock, short_id};

/// Maximum length of a notice, in characters.
const LENGTH: usize = 200;
/// Maximum number of notices that wait for a shell.
const MAX_NOTICES: usize = 8;
/// Between the prompt and the command, in the notice of a question.
const WAITS: &str = " waits for your answer: ";
/// In its place once the daemon has ended.
const DID_NOT_END: &str = " did not end: ";
/// Held while a notice file is read and replaced.
static NOTICE_FILES: Mutex<()> = Mutex::new(());

/// Returns how long a question of a background turn waits for a client.
pub fn question_patience(config: &Config) -> Duration {
    config.approvals.wait
}

/// Formats a duration: `10m`, `90s`.
pub fn minutes(duration: Duration) -> String {
    match duration.as_secs() {
        seconds if seconds >= 60 && seconds % 60 == 0 => format!("{}m", seconds / 60),
        seconds => format!("{seconds}s"),
    }
}

/// Notifies the shell of a background turn that a question waits for an answer.
pub fn question_waits(services: &SharedServices, feed: &TurnFeed) {
    let prompt = feed.origin.words();
    let command = attach_command(services, feed);
    let line = format!("“{prompt}”{WAITS}{command} shows it");
    notify(services, feed, &line);
}

/// Notifies the shell of a background turn that its prompt or its answer could not be recorded.
pub fn not_recorded(services: &SharedServices, feed: &TurnFeed) {
    let prompt = feed.origin.words();
    let command = attach_command(services, feed);
    let line = format!(
        "“{prompt}” is not in the history, which cannot be written: {command} shows the answer until the daemon ends"
    );
    notify(services, feed, &line);
}

/// Notifies a shell that the answer of a background turn was recovered from an earlier daemon.
pub fn recovered(paths: &Paths, shell: &ShellId, session: &str) {
    let told = |line: &String| is_about(line, session) && line.contains(DID_NOT_END);
    // It waited for the answer to a question.
    if read(&path(paths, shell)).iter().any(told) {
        return;
    }
    let session_name = short_id(session);
    let line = format!(
        "a background answer did not finish: llm --attach {session_name} shows the part that arrived"
    );
    if let Err(e) = append(paths, shell, session, &line) {
        tracing::warn!("{}", e.message);
    }
}

/// Notifies a shell that its session is shared automatically.
pub fn shared(paths: &Paths, shell: &ShellId, session: &str, place: &str) {
    let line =
        format!("this session is shared after each answer; llm :unshare stops that: {place}");
    if let Err(e) = append(paths, shell, session, &line) {
        tracing::warn!("{}", e.message);
    }
}

/// Notifies the shell of a background turn that the turn has ended. [`shown`] removes the notice.
pub fn turn_ended(services: &SharedServices, feed: &TurnFeed, end: &TurnEnd) {
    // A client of the HTTP API that reads events sees the end there.
    if feed.origin.tty.as_deref() == Some(THE_API) && feed.is_read_live() {
        return;
    }
    let prompt = feed.origin.words();
    let command = attach_command(services, feed);
    let line = match end {
        Ok(answer) if answer.finish == FinishReason::Interrupted => {
            format!("the answer to “{prompt}” was interrupted: {command} shows it")
        }
        Ok(answer) => {
            let proposes = match answer.proposals {
                0 => String::new(),
                1 => ", with a proposed command".to_owned(),
                n => format!(", with {n} proposed commands"),
            };
            format!("the answer to “{prompt}” is done{proposes}: {command} shows it")
        }
        Err(failure) => format!("“{prompt}” failed: {}", failure.message),
    };
    notify(services, feed, &line);
}

/// Returns the command that shows the turn in its shell.
fn attach_command(services: &SharedServices, feed: &TurnFeed) -> String {
    let shell = feed.origin.shell.as_ref();
    let own = shell.and_then(|shell| services.sessions.session_for_shell(shell));
    match feed.session() {
        Some(id) if own.as_deref() != Some(id) => {
            format!("llm --attach {}", short_id(id))
        }
        _ => "llm :attach".to_owned(),
    }
}

fn notify(services: &SharedServices, feed: &TurnFeed, line: &str) {
    let Some(shell) = &feed.origin.shell else {
        return;
    };
    let session = feed.session().unwrap_or_default();
    if feed.origin.hang_up == HangUpPolicy::Continue
        && let Err(e) = append(&services.paths, shell, session, line)
    {
        tracing::warn!("{}", e.message);
    }
}

fn directory(paths: &Paths) -> PathBuf {
    paths.notices()
}

/// Returns the file of the notices for a shell.
pub fn path(paths: &Paths, shell: &ShellId) -> PathBuf {
    directory(paths).join(shell.as_str())
}

/// Returns the lines of a notice file; none if it does not exist.
fn read(path: &Path) -> Vec<String> {
    let mut text = String::new();
    // Usually there is no file.
    if let Ok(mut file) = paths::read_own(path) {
        let _ = file.read_to_string(&mut text);
    }
    text.lines().map(str::to_owned).collect()
}

/// Adds a notice for a shell.
fn append(paths: &Paths, shell: &ShellId, session: &str, line: &str) -> Result<()> {
    let _held = lock(&NOTICE_FILES);
    let path = path(paths, shell);
    paths::make_dir(&directory(paths))?;
    let mut lines = read(&path);
    let new = format!(
        "{session}\t{}",
        one_line(&global_redactor().redact(line), LENGTH)
    );
    lines.retain(|line| *line != new);
    lines.push(new);
    lines.drain(..lines.len().saturating_sub(MAX_NOTICES));
    replace(&path, &lines)
}

/// Replaces a notice file. Not synced: notices are worthless after a system crash.
fn replace(path: &Path, lines: &[String]) -> Result<()> {
    let temporary = path.with_extension("new");
    // Left by a daemon that was killed; a file in its place is not written to.
    let _ = fs::remove_file(&temporary);
    paths::open_own(
        fs::OpenOptions::new().write(true).create_new(true),
        &temporary,
    )
    .and_then(|mut file| writeln!(file, "{}", lines.join("\n")))
    .and_then(|()| fs::rename(&temporary, path))
    .context(|| format!("cannot write {}", path.display()))
}

/// Removes the notices about a session: a client of the shell has shown its turn.
pub fn shown(paths: &Paths, shell: &ShellId, session: &str) {
    let _held = lock(&NOTICE_FILES);
    retain(&path(paths, shell), |line| !is_about(line, session));
}

/// Removes the notice of a question that was answered elsewhere, or waits no longer.
pub fn question_closed(services: &SharedServices, feed: &TurnFeed) {
    let Some(shell) = &feed.origin.shell else {
        return;
    };
    // What a stopping daemon has not asked is told by the next one.
    let stays = feed.origin.hang_up != HangUpPolicy::Continue || services.leaving.is_cancelled();
    if stays || feed.has_open_question() {
        return;
    }
    let session = feed.session().unwrap_or_default();
    let _held = lock(&NOTICE_FILES);
    retain(&path(&services.paths, shell), |line| {
        !is_about(line, session) || !line.contains(WAITS)
    });
}

/// Removes the notices of all shells about a session that is deleted.
pub fn session_deleted(paths: &Paths, session: &str) {
    let _held = lock(&NOTICE_FILES);
    for path in all(paths) {
        retain(&path, |line| !is_about(line, session));
    }
}

fn is_about(line: &str, session: &str) -> bool {
    line.split('\t').next() == Some(session)
}

/// Removes the lines of a notice file that are not to be kept.
fn retain(path: &Path, keep: impl Fn(&str) -> bool) {
    let mut lines = read(path);
    let all = lines.len();
    lines.retain(|line| keep(line));
    if lines.is_empty() {
        // Usually there is no file.
        let _ = fs::remove_file(path);
    } else if lines.len() < all
        && let Err(e) = replace(path, &lines)
    {
        tracing::warn!("{}", e.message);
    }
}

/// Returns the notice files of all shells.
fn all(paths: &Paths) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory(paths)).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Removes all notices of a shell.
pub fn remove(paths: &Paths, shell: &ShellId) {
    // Usually there is no file.
    let _ = fs::remove_file(path(paths, shell));
}

/// Rewrites the notices of an earlier daemon: questions that waited for an answer ended with it. The others stay.
pub fn after_restart(paths: &Paths) {
    let _held = lock(&NOTICE_FILES);
    for path in all(paths) {
        let before = read(&path);
        let rewrite = |line: &String| line.replace(WAITS, DID_NOT_END);
        let after: Vec<String> = before.iter().map(rewrite).collect();
        if before != after
            && let Err(e) = replace(&path, &after)
        {
            tracing::warn!("{}", e.message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_ended_with_its_daemon_is_reported_once() {
        let home = tempfile::tempdir().unwrap();
        let paths = Paths::under(home.path(), 1).unwrap();
        let shell = ShellId::parse("1-2").unwrap();
        let lines = || read(&path(&paths, &shell));
        append(&paths, &shell, "s", &format!("“x”{WAITS}llm shows it")).unwrap();
        after_restart(&paths);
        let told = lines();
        recovered(&paths, &shell, "s");
        assert_eq!(lines(), told);
        recovered(&paths, &shell, "another");
        assert_eq!(lines().len(), 2);
    }
}
