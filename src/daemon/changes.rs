//! The files that tools have changed for a prompt: showing the difference, and taking it back.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::error::{Error, ErrorContext, Result};
use crate::history::journal::Journal;
use crate::history::record::{RecordBody, RecordIds};
use crate::paths::{Paths, make_dir, open_own};
use crate::protocol::{
    ChangedFile, ChangesAction, ChangesReply, ChangesRequest, FileOutcome, SessionChoice,
};
use crate::requests;
use crate::safety::policy::BuiltinAction;
use crate::services::SharedServices;
use crate::tools::builtin::shown_difference;
use crate::workspace::changes::ChangeKind;
use crate::workspace::failure::WorkspaceError;
use crate::workspace::undo::{
    ConflictChoice, HalfDoneCommit, Recovery, UndoReport, UndoResult, UndoStore,
};
use crate::workspace::{Workspace, shown_path};

/// Serves a request about the last prompt of a session for which tools changed files.
///
/// # Errors
/// There is no such session or change, an answer of the session is running, or the files cannot be written.
pub async fn serve(
    services: &SharedServices,
    request: ChangesRequest,
    record_ids: &RecordIds,
) -> Result<ChangesReply> {
    let choice = match (&request.session, &request.shell) {
        (Some(id), _) => SessionChoice::Attach(id.clone()),
        (None, Some(shell)) if services.sessions.session_for_shell(shell).is_some() => {
            SessionChoice::Shell
        }
        _ => SessionChoice::Continue,
    };
    let session = services
        .sessions
        .choose(&choice, request.shell.as_ref(), record_ids);
    let session = session.await?;
    let lock = session.turn().try_lock_owned();
    let _lock = lock.map_err(|_| {
        Error::runtime("an answer of this session is running").hint("try again when it has ended")
    })?;
    let (store, id) = (UndoStore::new(services.paths.undo()), session.id.clone());
    let (action, cwd) = (request.action, PathBuf::from(request.cwd));
    // On another thread: reads and writes files.
    let work = tokio::task::spawn_blocking(move || perform(&store, &id, action, &cwd));
    let mut reply = work
        .await
        .map_err(|e| Error::runtime(format!("the files cannot be read: {e}")))??;
    reply.ran_commands = session.with_records(|records| {
        records.iter().any(|record| {
            let is_of_prompt = record.ids.prompt.as_ref() == Some(&reply.prompt);
            let name = match &record.body {
                RecordBody::Tool { name, .. } => name.as_str(),
                _ => return false,
            };
            is_of_prompt && name == BuiltinAction::Shell.as_str()
        })
    });
    if reply.is_done {
        let with = |wanted: fn(&FileOutcome) -> bool| -> Vec<String> {
            let files = reply.files.iter().filter(|file| wanted(&file.outcome));
            files.map(|file| file.path.clone()).collect()
        };
        let body = RecordBody::Undo {
            prompt: reply.prompt.clone(),
            restored: with(|outcome| {
                matches!(outcome, FileOutcome::Restored | FileOutcome::Removed)
            }),
            kept: with(|outcome| matches!(outcome, FileOutcome::Changed(_))),
        };
        for file in &reply.files {
            // The content of the file that the model knows is outdated.
            session.read_files.set(Path::new(&file.path), None, false);
        }
        let record_ids = match &request.shell {
            Some(shell) => &requests::of_shell(record_ids, shell),
            None => record_ids,
        };
        session.record_written(record_ids, body).await?;
    }
    Ok(reply)
}

/// An answer whose change of files a killed daemon has left half done.
pub(super) struct InterruptedChange {
    session: String,
    commit: HalfDoneCommit,
}

/// Restores files that a killed daemon was overwriting, unless another one uses the same data. Returns the lock by which
/// the next daemon knows that this one may be changing files, and the changes that are half done.
pub(super) fn restore_interrupted(paths: &Paths) -> (Option<Flock<File>>, Vec<InterruptedChange>) {
    match lock_data(paths) {
        Ok((lock, is_alone)) => {
            let mut interrupted = Vec::new();
            if is_alone {
                interrupted = restore(&UndoStore::new(paths.undo()));
                // The lock stays exclusive if this fails, and the next daemon waits.
                let _ = lock.relock(FlockArg::LockShared);
            }
            (Some(lock), interrupted)
        }
        Err(e) => {
            tracing::warn!("{}", e.message);
            (None, Vec::new())
        }
    }
}

/// Adds a half done change to the session, so that its next prompt tells the user and the model.
pub(super) fn record_interrupted(journal: &Journal, change: InterruptedChange) -> Result<()> {
    let InterruptedChange { session, commit } = change;
    let names = |paths: Vec<PathBuf>| paths.iter().map(|path| shown_path(path)).collect();
    let (log, _) = journal.open(&session)?;
    let ids = RecordIds {
        session: Some(session),
        prompt: Some(commit.turn.clone()),
        ..RecordIds::default()
    };
    let body = RecordBody::InterruptedChange {
        prompt: commit.turn,
        changed: names(commit.changed),
        unchanged: names(commit.unchanged),
    };
    log.append(ids, body)?;
    log.sync()
}

/// Locks the data of aish: exclusively if no other daemon uses them, which is the second value.
fn lock_data(paths: &Paths) -> Result<(Flock<File>, bool)> {
    make_dir(&paths.data)?;
    let path = paths.data.join("undo.lock");
    let mut options = OpenOptions::new();
    let file = open_own(options.write(true).create(true).truncate(false), &path)
        .context(|| format!("cannot open {}", path.display()))?;
    let failed = |e: Errno| Error::runtime(format!("cannot lock {}: {e}", path.display()));
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok((lock, true)),
        Err((file, _)) => match Flock::lock(file, FlockArg::LockShared) {
            Ok(lock) => Ok((lock, false)),
            Err((_, e)) => Err(failed(e)),
        },
    }
}

fn restore(undo: &UndoStore) -> Vec<InterruptedChange> {
    let recovered = Workspace::new(Path::new("/"), None, &[])
        .map_err(|error| error.message)
        .and_then(|whole| {
            let resolve = |path: &Path| whole.resolve_path(path);
            undo.recover_all(&resolve).map_err(|error| error.message)
        });
    let recovered = recovered.unwrap_or_else(|message| {
        tracing::warn!("cannot restore interrupted changes: {message}");
        Vec::new()
    });
    let mut interrupted = Vec::new();
    for (session, recovery) in recovered {
        let recovery = recovery.unwrap_or_else(|error| Recovery {
            failures: vec![error],
            ..Recovery::default()
        });
        for file in recovery.restored {
            tracing::warn!(
                "restored {}, whose change was interrupted",
                shown_path(&file)
            );
        }
        for error in recovery.failures {
            tracing::warn!("cannot restore an interrupted change: {}", error.message);
        }
        let half_done = recovery.half_done.into_iter();
        interrupted.extend(half_done.map(|commit| InterruptedChange {
            session: session.clone(),
            commit,
        }));
    }
    interrupted
}

fn perform(
    store: &UndoStore,
    session: &str,
    action: ChangesAction,
    cwd: &Path,
) -> Result<ChangesReply> {
    let failed = |e: WorkspaceError| Error {
        hint: e.hint,
        ..Error::runtime(e.message)
    };
    let whole = Workspace::new(Path::new("/"), None, &[]).map_err(|e| Error::runtime(e.message))?;
    let resolve = |path: &Path| whole.resolve_path(path);
    let Some(prompt) = store.turns(session).map_err(failed)?.pop() else {
        let none = Error::usage("no changes of files are kept for this session");
        return Err(
            none.hint("only changes made by the file tools are kept, until they are undone")
        );
    };
    let mut reply = ChangesReply {
        session: session.to_owned(),
        ..ChangesReply::default()
    };
    match action {
        ChangesAction::Undo { skip } => {
            let choice = match skip {
                true => ConflictChoice::Skip,
                false => ConflictChoice::Refuse,
            };
            let report = store.undo(session, &prompt, &resolve, choice);
            let UndoReport {
                files,
                is_done,
                was_skipped,
            } = report.map_err(failed)?;
            reply.is_done = is_done;
            reply.was_skipped = was_skipped;
            reply.files = files
                .into_iter()
                .map(|(path, result)| ChangedFile {
                    path: shown_path(&path),
                    outcome: match result {
                        UndoResult::Restored(ChangeKind::Removed) => FileOutcome::Removed,
                        UndoResult::Restored(_) => FileOutcome::Restored,
                        UndoResult::AlreadyAsBefore => FileOutcome::Same,
                        UndoResult::Conflict(reason) => FileOutcome::Changed(reason),
                    },
                })
                .collect();
        }
        ChangesAction::Diff => {
            for file in store.diff(session, &prompt, &resolve).map_err(failed)? {
                let (old, new) = (file.old.as_deref(), file.new.as_deref());
                let lines = shown_difference(&file.path, old, new, cwd).into_iter();
                reply.difference.extend(
                    lines.map(|(sign, text)| crate::protocol::tools::ToolDiffLine { sign, text }),
                );
                reply.files.push(ChangedFile {
                    path: shown_path(&file.path),
                    outcome: match file.changed_since {
                        true => FileOutcome::Changed("was changed after the answer".to_owned()),
                        false => FileOutcome::Restored,
                    },
                });
            }
        }
    }
    reply.prompt = prompt;
    Ok(reply)
}
