//! Performs approved calls of the built-in tools that work on files, commands and pages.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::helper_run;
use super::prepare_shell::DEFAULT_TIME_LIMIT;
use super::prepared::{PreparedCall, PreparedWork, ShellWork};
use super::scope::WorkScope;
use super::shell_run::{self, ShellCommand, ShellEnd};
use super::work_definitions::SHELL;
use crate::chat::ImageContent;
use crate::safety::text::one_line;
use crate::sandbox::{Denial, denials, works_outside};
use crate::tools::source::{
    CallError, CallEvent, CallResult, KnownFile, NestedRequest, NestedResult,
};
use crate::web::fetch::{PrivateHost, fetch_url};
use crate::web::searxng::searxng;
use crate::workspace::changes::{self, ChangeKind, FileDigest, FileVersion, PreparedChange};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::find::{find_files, search_files};
use crate::workspace::git::git;
use crate::workspace::grep::grep;
use crate::workspace::list::list_dir;
use crate::workspace::read::{FileContent, read_file};
use crate::workspace::read_context::{ListedText, OutputLimits, ReadContext};
use crate::workspace::{PathError, ResolvedPath, shown_path};

/// Tells a task on another thread that its call was cancelled. The task looks between files and lines.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Performs a prepared call, whose approval the caller has checked.
///
/// # Errors
/// The call was cancelled, or has no result.
pub async fn perform(
    scope: &Arc<WorkScope>,
    call: PreparedCall,
    events: &mpsc::Sender<CallEvent>,
    cancel: &CancellationToken,
) -> Result<CallResult, CallError> {
    // These end their processes themselves, or are done in one step and completely.
    let ends_itself = matches!(
        call.work,
        PreparedWork::Shell(_)
            | PreparedWork::Helper { .. }
            | PreparedWork::Python(_)
            | PreparedWork::Change { .. }
    );
    let work = async {
        match call.work {
            PreparedWork::Shell(work) => run_shell(scope, work, events, cancel).await,
            work @ (PreparedWork::Helper { .. } | PreparedWork::Python(_)) => {
                helper_run::run(scope, work, events, cancel).await
            }
            PreparedWork::FetchUrl(url) => page(&url).await,
            PreparedWork::SearchWeb { server, query } => search_web(&server, &query).await,
            PreparedWork::Change { .. } if cancel.is_cancelled() => Err(CallError::Interrupted),
            work => {
                let scope = scope.clone();
                let cancelled = Arc::new(AtomicBool::new(false));
                // Dropped with this future if the call is cancelled.
                let _guard = CancelOnDrop(cancelled.clone());
                let blocking = move || perform_blocking(&scope, work, &cancelled);
                match tokio::task::spawn_blocking(blocking).await {
                    Ok(result) => result,
                    Err(e) => Err(CallError::Failed(format!("the tool failed: {e}"))),
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled(), if !ends_itself => Err(CallError::Interrupted),
        result = work => result,
    }
}

/// Reads a web page. A name that leads to a private address is refused: the question did not show that.
async fn page(url: &str) -> Result<CallResult, CallError> {
    let read = fetch_url(url, PrivateHost::Refuse).await;
    text(read.map(|page| page.for_model()).map_err(|e| e.message))
}

/// Searches the web.
async fn search_web(server: &str, query: &str) -> Result<CallResult, CallError> {
    let hits = searxng(server, query).await;
    let told = |hits: Vec<crate::web::searxng::WebHit>| {
        let hits = hits.iter();
        let lines = hits.map(|hit| format!("{}\n{}\n{}\n", hit.title, hit.url, hit.snippet));
        match lines.collect::<Vec<_>>().join("\n") {
            none if none.is_empty() => "nothing was found".to_owned(),
            found => found,
        }
    };
    text(hits.map(told).map_err(|e| e.message))
}

fn text(result: Result<String, String>) -> Result<CallResult, CallError> {
    let is_error = result.is_err();
    let (Ok(text) | Err(text)) = result;
    Ok(CallResult {
        bytes: text.len() as u64,
        text,
        is_error,
        ..CallResult::default()
    })
}

/// Limits of searches and listings. Text that does not fit into the model's part of a result is read with `read_result`.
const SEARCH_LIMITS: OutputLimits = OutputLimits {
    lines: 50_000,
    bytes: 2 << 20,
};

fn perform_blocking(
    scope: &WorkScope,
    work: PreparedWork,
    cancelled: &AtomicBool,
) -> Result<CallResult, CallError> {
    let context = &ReadContext {
        workspace: &scope.workspace,
        variables: &scope.shell.variables(),
        limits: OutputLimits::default(),
        cancelled,
    };
    let search = &ReadContext {
        limits: SEARCH_LIMITS,
        ..*context
    };
    let listed = |listed: Result<ListedText, PathError>| {
        text(listed.map(|listed| listed.text).map_err(|e| e.message))
    };
    match work {
        PreparedWork::ReadFile {
            path,
            offset,
            limit,
        } => read(scope, context, &path, (offset, limit)),
        PreparedWork::ListDir { path, depth } => listed(list_dir(search, &path, depth)),
        PreparedWork::Grep(request) => listed(grep(search, &request, &scope.search_filter())),
        PreparedWork::FindFiles { pattern, dir } => listed(find_files(search, &pattern, &dir)),
        PreparedWork::SearchFiles(query) => {
            listed(search_files(search, &query, &scope.workspace.top()))
        }
        PreparedWork::SearchHistory(query) => text(scope.history.search(&query)),
        PreparedWork::Git(request) => {
            let answer = git(context, &request);
            text(answer.map(|answer| answer.text).map_err(|e| e.message))
        }
        PreparedWork::Refused(reason) => text(Err(reason)),
        PreparedWork::Change { changes, known } => {
            let mut files = Vec::new();
            let changed = commit(scope, changes, &known).map(|(told, changed)| {
                files = changed;
                told
            });
            Ok(CallResult {
                files,
                ..text(changed)?
            })
        }
        PreparedWork::Shell(_)
        | PreparedWork::FetchUrl(_)
        | PreparedWork::SearchWeb { .. }
        | PreparedWork::Helper { .. }
        | PreparedWork::Python(_) => {
            Err(CallError::Failed("not a task for this thread".to_owned()))
        }
    }
}

/// Reads a file, and remembers which content the model knows.
fn read(
    scope: &WorkScope,
    context: &ReadContext<'_>,
    path: &ResolvedPath,
    (offset, limit): (u64, usize),
) -> Result<CallResult, CallError> {
    let limits = OutputLimits {
        lines: context.limits.lines.min(limit),
        ..context.limits
    };
    let context = ReadContext { limits, ..*context };
    match read_file(&context, path, offset) {
        Ok(FileContent::Text(lines)) => {
            let read = text(Ok(lines.text))?;
            let file = KnownFile {
                path: path.absolute.clone(),
                digest: lines.sha256,
                is_read: true,
            };
            Ok(CallResult {
                files: remembered(scope, vec![file]),
                ..read
            })
        }
        Ok(FileContent::Image { media_type, bytes }) => {
            let note = format!("image: {media_type}, {} bytes", bytes.len());
            Ok(CallResult {
                text: format!("[{note}]"),
                bytes: bytes.len() as u64,
                notes: vec![note],
                images: vec![ImageContent {
                    mime: media_type.to_owned(),
                    data: BASE64.encode(&bytes).into(),
                }],
                ..CallResult::default()
            })
        }
        Err(e) => text(Err(e.message)),
    }
}

/// Remembers versions of files for the session, and returns them.
fn remembered(scope: &WorkScope, files: Vec<KnownFile>) -> Vec<KnownFile> {
    for file in &files {
        scope.read.set(&file.path, file.digest, file.is_read);
    }
    files
}

/// Makes prepared changes in files, and keeps the previous contents. `known` are the files whose whole new version the model knows.
fn commit(
    scope: &WorkScope,
    prepared: Vec<PreparedChange>,
    known: &BTreeSet<PathBuf>,
) -> Result<(String, Vec<KnownFile>), String> {
    let told = |e: WorkspaceError| match e.hint {
        Some(hint) => format!("{}; {hint}", e.message),
        None => e.message,
    };
    let new: Vec<KnownFile> = prepared
        .iter()
        .map(|change| {
            let digest = match change.after() {
                FileVersion::Present { bytes, .. } => Some(FileDigest::of(bytes).0),
                FileVersion::Link(_) | FileVersion::Absent => None,
            };
            KnownFile {
                path: change.path().clone(),
                digest,
                is_read: digest.is_some() && known.contains(change.path()),
            }
        })
        .collect();
    let kept = &scope.kept;
    let keeper = match &kept.prompt {
        Some((session, prompt)) => kept.store.turn(session, prompt),
        None => kept.store.call(),
    };
    let mut keeper = keeper.map_err(told)?;
    let done = changes::commit(prepared, Some(&mut keeper)).map_err(told)?;
    let new = remembered(scope, new);
    let mut text = String::new();
    for file in &done.files {
        let what = match file.kind {
            ChangeKind::Added => "added",
            ChangeKind::Changed => "changed",
            ChangeKind::Removed => "deleted",
        };
        text.push_str(&format!("{what} {}\n", shown_path(&file.path)));
    }
    Ok((text, new))
}

/// Runs a command, and returns its output with its exit code.
async fn run_shell(
    scope: &WorkScope,
    work: ShellWork,
    events: &mpsc::Sender<CallEvent>,
    cancel: &CancellationToken,
) -> Result<CallResult, CallError> {
    let started = Instant::now();
    // The directory may have been replaced by a link while the question waited.
    let fault = match work.dir.canonicalize() {
        Ok(real) if real != work.dir => Some("is no longer the directory that was shown"),
        Ok(real) if real.is_dir() => None,
        _ => Some("is not a directory"),
    };
    if let Some(fault) = fault {
        let dir = shown_path(&work.dir);
        return Err(CallError::Failed(format!("{dir} {fault}")));
    }
    let policy = match (work.outside, scope.shell.sandbox) {
        (false, Some(level)) => Some(scope.sandbox_policy(level, &work.dir, work.network)),
        _ => None,
    };
    let mut again = json!({"command": work.command, "outside_sandbox": true});
    if work.dir != scope.workspace.cwd() {
        again["dir"] = json!(work.dir);
    }
    if work.time_limit != DEFAULT_TIME_LIMIT {
        again["timeout"] = json!(work.time_limit.as_secs());
    }
    if work.network {
        again["network"] = json!(true);
    }
    let shell: [OsString; 4] = ["zsh".into(), "-f".into(), "-c".into(), work.command.into()];
    let helper = scope.shell.helper.clone().into_os_string();
    let dir = work.dir;
    let mut argv = Vec::new();
    argv.extend(match &policy {
        Some(policy) => [vec![helper], policy.arguments(&shell)].concat(),
        None => shell.to_vec(),
    });
    let command = ShellCommand {
        argv,
        dir: dir.clone(),
        env: scope.shell.env.clone(),
        time_limit: work.time_limit,
        is_supervised: policy.is_some(),
    };
    let result = match shell_run::run(command, events, cancel).await {
        Ok(result) => result,
        Err(reason) => return Err(CallError::Failed(reason)),
    };
    let own_time = started.elapsed();
    let seconds = own_time.as_secs_f64();
    let (mut heading, is_error) = match result.end {
        ShellEnd::Exited(code) => (format!("[exit {code} after {seconds:.1} s"), code != 0),
        ShellEnd::TimedOut => (
            format!(
                "[killed at its time limit of {} s",
                work.time_limit.as_secs()
            ),
            true,
        ),
        ShellEnd::Cancelled => return Err(CallError::Interrupted),
    };
    let output = String::from_utf8_lossy(&result.output).into_owned();
    let mut notes = Vec::new();
    if policy.is_some() && scope.shell.is_reduced {
        heading.push_str(READ_ONLY);
    }
    if let Some(policy) = &policy {
        let plain = strip_ansi_escapes::strip_str(&output);
        let policy = policy.clone();
        let find = move || denials(&plain, &policy, &dir, works_outside);
        let denials = unless_cancelled(find, cancel).await.into_iter().take(5);
        let blocked: Vec<String> = denials
            .map(|denial| shown_denial(&denial.to_string(), &scope.home))
            .collect();
        for denial in &blocked {
            let line = format!("blocked by the sandbox: {denial}");
            heading.push_str(&format!("; {line}"));
            notes.push(line);
        }
        // A command that has ended well is not run again: the model can ask for that.
        if is_error && !notes.is_empty() {
            // Shown below the output, because a question about it follows.
            for note in notes.drain(..) {
                let line = format!("[{note}]\r\n");
                let _ = events.send(CallEvent::Output(line)).await;
            }
            match run_outside(again, &blocked, events).await {
                Ok(answer) => {
                    heading.push_str("; run again outside of the sandbox, as the user allowed]");
                    return Ok(CallResult {
                        bytes: answer.text.len() as u64,
                        text: format!("{heading}\n{}", answer.text),
                        is_error: answer.is_error,
                        notes: vec!["run again outside of the sandbox".to_owned()],
                        own_time: Some(own_time),
                        ..CallResult::default()
                    });
                }
                Err(reason) => {
                    let reason = reason.trim_matches(['[', ']']);
                    heading.push_str(&format!("; not run outside of the sandbox: {reason}"));
                }
            }
        }
    }
    heading.push(']');
    notes.push(
        heading
            .trim_matches(['[', ']'])
            .split(';')
            .next()
            .unwrap_or_default()
            .to_owned(),
    );
    Ok(CallResult {
        bytes: result.output.len() as u64 + result.omitted,
        text: output,
        is_error,
        notes,
        terminal: Some(heading),
        own_time: Some(own_time),
        ..CallResult::default()
    })
}

/// Returns what the sandbox denied as far as `find` says so before the call is cancelled: the file system of a path that a command
/// prints may not answer.
async fn unless_cancelled(
    find: impl FnOnce() -> Vec<Denial> + Send + 'static,
    cancel: &CancellationToken,
) -> Vec<Denial> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Vec::new(),
        found = tokio::task::spawn_blocking(find) => found.unwrap_or_default(),
    }
}

/// Longest text of what the sandbox blocked in a question.
const BLOCKED_CHARS: usize = 300;

/// Says why a command could change nothing.
const READ_ONLY: &str = ", read-only: the workspace holds the home directory; work in a directory below it to change files";

/// Asks the user to run a command that the sandbox blocked outside of it.
async fn run_outside(
    arguments: Value,
    blocked: &[String],
    events: &mpsc::Sender<CallEvent>,
) -> NestedResult {
    let (reply, result) = oneshot::channel();
    let request = NestedRequest {
        name: SHELL.to_owned(),
        arguments: arguments.to_string(),
        blocked: Some(one_line(&blocked.join("; "), BLOCKED_CHARS)),
        reply,
    };
    let unasked = || "the user was not asked".to_owned();
    events
        .send(CallEvent::Nested(request))
        .await
        .map_err(|_| unasked())?;
    result.await.unwrap_or_else(|_| Err(unasked()))
}

/// Shortens the home directory in a line about a denial.
fn shown_denial(line: &str, home: &Path) -> String {
    match home.to_str().filter(|home| home.len() > 1) {
        Some(home) => line.replace(home, "~"),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_cancellation_does_not_wait_for_a_file_system() {
        let (asked, is_asked) = oneshot::channel();
        let (answers, answer) = mpsc::channel::<()>();
        let find = move || {
            let _ = asked.send(());
            let _ = answer.recv();
            Vec::new()
        };
        let cancel = CancellationToken::new();
        let waits = unless_cancelled(find, &cancel);
        let cancels = async {
            is_asked.await.expect("it is asked");
            cancel.cancel();
        };
        let (found, ()) = tokio::join!(waits, cancels);
        assert!(found.is_empty());
        drop(answers);
    }
}
