//! Prepares changes of files: computes the new versions, and the difference that the question shows.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Deserialize;

use super::prepared::{
    PrepareError, PreparedCall, PreparedWork, RUN_LATER, on_paths, place_reason, resolve,
    unresolved,
};
use super::scope::WorkScope;
use crate::chat::OperationClass;
use crate::safety::policy::BuiltinAction;
use crate::sandbox::place_of_write;
use crate::workspace::changes::{FileSnapshot, FileVersion, PreparedChange, check_distinct};
use crate::workspace::difference::difference;
use crate::workspace::edit::{self, EditRequest};
use crate::workspace::failure::WorkspaceError;
use crate::workspace::patch::{FinalLink, PatchOperation, parse_patch, plan_patch};
use crate::workspace::read::near_names;
use crate::workspace::text_file::TextFile;
use crate::workspace::{ResolvedPath, shown_path};

/// Maximum size of a difference, so that the question fits a frame with its escapes.
const MAX_DIFFERENCE: usize = 8 << 20;

/// Number of bytes that a line takes in a frame beside its text.
const LINE_COST: usize = 32;

/// Ends the preparation when nobody waits for it any more.
type TimeCheck<'a> = &'a dyn Fn() -> Result<(), WorkspaceError>;

/// The old path of each file that moves, by its new one.
type MovedFiles = BTreeMap<PathBuf, PathBuf>;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFileArguments {
    path: String,
    content: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EditFileArguments {
    path: String,
    old_text: String,
    new_text: String,
    #[serde(default)]
    replace_all: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PatchArguments {
    patch: String,
}

/// Returns the error for the model; lines of the file go only to a model that has read it.
fn failed(error: WorkspaceError, file: Option<PathBuf>) -> PrepareError {
    let message = match error.hint {
        Some(hint) => format!("{}; {hint}", error.message),
        None => error.message,
    };
    PrepareError {
        excerpt: error.excerpt,
        file,
        ..PrepareError::from(message)
    }
}

/// Reads a file that is to be changed, and checks that it is still as the model has read it.
fn read(scope: &WorkScope, path: &ResolvedPath) -> Result<Option<FileSnapshot>, PrepareError> {
    let snapshot = FileSnapshot::read(path).map_err(|e| failed(e, None))?;
    check_known(scope, path, snapshot)
}

/// Same as [`read`], but for a symbolic link, which is not followed.
fn read_entry(
    scope: &WorkScope,
    path: &ResolvedPath,
) -> Result<Option<FileSnapshot>, PrepareError> {
    let snapshot = FileSnapshot::read_entry(path).map_err(|e| failed(e, None))?;
    match snapshot {
        Some(link) if link.is_link => Ok(Some(link)),
        snapshot => check_known(scope, path, snapshot),
    }
}

fn check_known(
    scope: &WorkScope,
    path: &ResolvedPath,
    snapshot: Option<FileSnapshot>,
) -> Result<Option<FileSnapshot>, PrepareError> {
    let known = scope.read.digest(&path.absolute);
    match (&snapshot, known) {
        (Some(now), Some(known)) if now.digest.0 != known => Err(stale(path)),
        (None, Some(_)) => Err(stale(path)),
        _ => Ok(snapshot),
    }
}

fn stale(path: &ResolvedPath) -> PrepareError {
    let path = shown_path(&path.absolute);
    PrepareError::from(format!(
        "{path} has changed since you read it; read it again with read_file"
    ))
}

pub(super) fn write_file(
    scope: &WorkScope,
    call: WriteFileArguments,
) -> Result<PreparedCall, PrepareError> {
    let path = resolve(scope, &call.path)?;
    let paths = vec![path.clone()];
    written(scope, call, path).map_err(|e| PrepareError { paths, ..e })
}

fn written(
    scope: &WorkScope,
    call: WriteFileArguments,
    path: ResolvedPath,
) -> Result<PreparedCall, PrepareError> {
    if call.path.ends_with('/') {
        let path = shown_path(&path.absolute);
        return Err(PrepareError::from(format!(
            "{path}: the path is that of a directory"
        )));
    }
    let before = read(scope, &path)?;
    // The encoding and the line ends of the file stay.
    let old = before.as_ref().map_or(&[][..], |snapshot| &snapshot.bytes);
    let bytes = TextFile::parse(old)
        .and_then(|file| file.rewritten(&call.content))
        .map_err(|e| failed(e.of(shown_path(&path.absolute)), None))?;
    let change = PreparedChange::write(path.clone(), before, bytes);
    let change = change.map_err(|e| failed(e, None))?;
    if change.is_unchanged() {
        let path = shown_path(&path.absolute);
        return Err(PrepareError::from(format!(
            "{path} already has this content"
        )));
    }
    let known = BTreeSet::from([path.absolute]);
    change_call(scope, vec![change], known, &MovedFiles::new(), &[], &|| {
        Ok(())
    })
}

pub(super) fn edit_file(
    scope: &WorkScope,
    call: EditFileArguments,
) -> Result<PreparedCall, PrepareError> {
    let path = resolve(scope, &call.path)?;
    let paths = vec![path.clone()];
    edited(scope, call, path).map_err(|e| PrepareError { paths, ..e })
}

fn edited(
    scope: &WorkScope,
    call: EditFileArguments,
    path: ResolvedPath,
) -> Result<PreparedCall, PrepareError> {
    let shown = shown_path(&path.absolute);
    let Some(snapshot) = read(scope, &path)? else {
        // The names in a directory are shown only to a model that may read it.
        let near = near_names(&path);
        let near = near.trim_start_matches("; ");
        let mut dirs = path.absolute.ancestors().skip(1);
        return Err(PrepareError {
            excerpt: (!near.is_empty()).then(|| near.to_owned()),
            file: dirs.find(|dir| dir.is_dir()).map(Path::to_owned),
            ..PrepareError::from(format!("{shown}: no such file; write_file makes a new one"))
        });
    };
    let in_file = |e: WorkspaceError| failed(e.of(&shown), Some(path.absolute.clone()));
    let file = TextFile::parse(&snapshot.bytes).map_err(in_file)?;
    let request = EditRequest {
        old: &call.old_text,
        new: &call.new_text,
        replace_all: call.replace_all,
    };
    let edited = edit::edit(&file, &snapshot.bytes, request).map_err(in_file)?;
    let change = PreparedChange::write(path.clone(), Some(snapshot), edited.bytes);
    let change = change.map_err(|e| failed(e, None))?;
    let is_read = scope.read.is_read(&path.absolute);
    let known = is_read.then_some(path.absolute).into_iter().collect();
    change_call(scope, vec![change], known, &MovedFiles::new(), &[], &|| {
        Ok(())
    })
}

/// Prepares a patch; `deadline` is when nobody waits for it any more.
pub(super) fn patch(
    scope: &WorkScope,
    call: PatchArguments,
    deadline: Instant,
) -> Result<PreparedCall, PrepareError> {
    let check = || match Instant::now() < deadline {
        true => Ok(()),
        false => Err(WorkspaceError::new("the patch is too large")),
    };
    let mut operations = parse_patch(&call.patch).map_err(|e| failed(e, None))?;
    for operation in &mut operations {
        if let PatchOperation::Update { path, move_to, .. } = operation {
            move_to.take_if(|target| is_same_entry(scope, path, target));
        }
    }
    let named = operations.iter().flat_map(|operation| match operation {
        PatchOperation::Add { path, .. } | PatchOperation::Delete { path } => vec![path],
        PatchOperation::Update { path, move_to, .. } => {
            std::iter::once(path).chain(move_to).collect()
        }
    });
    let in_time = named.take_while(|_| check().is_ok());
    let resolved = in_time.flat_map(|path| match scope.workspace.resolve(path) {
        Ok(path) => vec![path],
        Err(e) => scope.workspace.places(&e),
    });
    let paths: Vec<ResolvedPath> = resolved.collect();
    patched(scope, &operations, &paths, &check).map_err(|e| {
        let deletes = operations.iter().any(|operation| match operation {
            PatchOperation::Delete { .. } => true,
            PatchOperation::Update { move_to, .. } => move_to.is_some(),
            PatchOperation::Add { .. } => false,
        });
        PrepareError {
            paths,
            operation: deletes.then_some(OperationClass::Destructive),
            ..e
        }
    })
}

/// Prepares the changes of a patch. `named` are the paths in it: also one that stays as it is counts, because whether it does reveals a part
/// of its text.
fn patched(
    scope: &WorkScope,
    operations: &[PatchOperation],
    named: &[ResolvedPath],
    check: TimeCheck<'_>,
) -> Result<PreparedCall, PrepareError> {
    // Text read from each file, by the path in the patch.
    let mut files: BTreeMap<(String, FinalLink), (ResolvedPath, Option<FileSnapshot>)> =
        BTreeMap::new();
    let mut read_file = |path: &str, link: FinalLink| -> Result<Option<Vec<u8>>, WorkspaceError> {
        let refused = |e: PrepareError| WorkspaceError::new(e.message);
        let found = find(scope, path, link).map_err(refused)?;
        let bytes = found.1.as_ref().map(|before| before.bytes.to_vec());
        files.insert((path.to_owned(), link), found);
        Ok(bytes)
    };
    let patched = plan_patch(operations, &mut read_file, check).map_err(|e| {
        // The message begins with the path in the patch; lines of the file may only be shown with it.
        let named = |path: &str| {
            let rest = e.message.strip_prefix(path);
            rest.is_some_and(|rest| rest.starts_with(": "))
        };
        let mut of_error = files.iter().filter(|((path, _), _)| named(path));
        let file = of_error
            .next_back()
            .map(|(_, (path, _))| path.absolute.clone());
        failed(e, file)
    })?;
    let mut changes: Vec<PreparedChange> = Vec::new();
    let (mut known, mut moves) = (BTreeSet::new(), MovedFiles::new());
    let mut changed = BTreeSet::new();
    for file in patched {
        check().map_err(|e| failed(e, None))?;
        let link = match file.is_unlinked {
            true => FinalLink::Meant,
            false => FinalLink::Followed,
        };
        let (target, before) = match files.get(&(file.path.clone(), link)) {
            Some(known) => known.clone(),
            None => find(scope, &file.path, link)?,
        };
        if changed.contains(&target.absolute) {
            let path = shown_path(&target.absolute);
            return Err(PrepareError::from(format!(
                "the patch names {path} twice, by different paths"
            )));
        }
        let source = file.moved_from;
        let source = source.and_then(|from| files.get(&(from, FinalLink::Followed)));
        if let Some((from, _)) = source {
            moves.insert(target.absolute.clone(), from.absolute.clone());
        }
        // What a move or a hunk leaves as it is comes from the file before.
        let read = source.map_or(&target, |(from, _)| from);
        if file.is_whole || scope.read.is_read(&read.absolute) {
            known.insert(target.absolute.clone());
        }
        let attributes = source.and_then(|(_, before)| Some(before.as_ref()?.attributes().clone()));
        if file.bytes.is_some() || before.is_some() {
            changed.insert(target.absolute.clone());
        }
        match (file.bytes, before) {
            (Some(bytes), before) => {
                let change = PreparedChange::with_attributes(target, before, bytes, attributes);
                changes.push(change.map_err(|e| failed(e, None))?);
            }
            (None, Some(before)) => changes.push(PreparedChange::remove(target, before)),
            (None, None) => {}
        }
    }
    changes.retain(|change| !change.is_unchanged());
    if changes.is_empty() {
        return Err(PrepareError::from("the patch changes nothing".to_owned()));
    }
    change_call(scope, changes, known, &moves, named, check)
}

/// Whether two paths name the same directory entry, such as `a` and `./a`.
fn is_same_entry(scope: &WorkScope, path: &str, other: &str) -> bool {
    let entry = |path| Some(scope.workspace.resolve_entry(path).ok()?.absolute);
    entry(path).is_some_and(|found| entry(other) == Some(found))
}

/// Resolves a path of a patch, and reads the file there.
fn find(
    scope: &WorkScope,
    path: &str,
    link: FinalLink,
) -> Result<(ResolvedPath, Option<FileSnapshot>), PrepareError> {
    let (target, before) = match link {
        FinalLink::Followed => {
            let target = resolve(scope, path)?;
            let before = read(scope, &target)?;
            (target, before)
        }
        FinalLink::Meant => {
            let target = scope.workspace.resolve_entry(path);
            let target = target.map_err(|e| unresolved(scope, e))?;
            let before = read_entry(scope, &target)?;
            (target, before)
        }
    };
    Ok((target, before))
}

/// Returns the call that makes these changes; `known` are the files whose whole new version the model knows. One that deletes a file counts
/// as destructive.
///
/// # Errors
/// The difference is too large for a question.
fn change_call(
    scope: &WorkScope,
    changes: Vec<PreparedChange>,
    known: BTreeSet<PathBuf>,
    moves: &MovedFiles,
    named: &[ResolvedPath],
    check: TimeCheck<'_>,
) -> Result<PreparedCall, PrepareError> {
    // Before a person is asked about a change that must fail.
    for change in &changes {
        change.check_access().map_err(|e| failed(e, None))?;
    }
    check_distinct(&changes).map_err(|e| failed(e, None))?;
    let shown = shown_changes(&changes, moves, scope.workspace.cwd(), check);
    let shown = shown.map_err(|e| failed(e, None))?;
    let size: usize = shown.iter().map(|(_, text)| text.len() + LINE_COST).sum();
    if size > MAX_DIFFERENCE {
        let limit = MAX_DIFFERENCE >> 20;
        return Err(PrepareError::from(format!(
            "the difference is larger than {limit} MB, too large to be shown; change less at once, or use a command of shell"
        )));
    }
    let deletes = changes
        .iter()
        .any(|change| *change.after() == FileVersion::Absent);
    let targets: Vec<ResolvedPath> = changes.iter().map(|change| change.target.clone()).collect();
    let changed: BTreeSet<&PathBuf> = targets.iter().map(|target| &target.absolute).collect();
    let unchanged = named
        .iter()
        .filter(|path| !changed.contains(&path.absolute));
    let paths: Vec<&ResolvedPath> = targets.iter().chain(unchanged).collect();
    let work = PreparedWork::Change { changes, known };
    let mut call = on_paths(scope, BuiltinAction::FsWrite, &paths, work);
    if call.reason.is_none() {
        call.reason = guarded_place(scope, &call.files).map(|place| place_reason(&place));
    }
    call.difference = shown;
    call.operation = deletes.then_some(OperationClass::Destructive);
    Ok(call)
}

/// Returns a description of a file that other programs run or obey because a setting of git names it, or a link leads to it.
fn guarded_place(scope: &WorkScope, files: &[PathBuf]) -> Option<String> {
    let roots: Vec<PathBuf> = scope.workspace.roots().map(Path::to_owned).collect();
    let programs = scope.shell.env.get("PATH").map(std::env::split_paths);
    let programs: Vec<PathBuf> = programs.into_iter().flatten().collect();
    let place = place_of_write(files, &roots, &scope.home, &programs)?;
    let path = shown_path(&place);
    Some(format!("{path} ({RUN_LATER})"))
}

/// Returns the differences that changes make, each below a heading with the path. A file that moves is shown as one.
fn shown_changes(
    changes: &[PreparedChange],
    moves: &MovedFiles,
    cwd: &Path,
    check: TimeCheck<'_>,
) -> Result<Vec<(char, String)>, WorkspaceError> {
    let gone = changes
        .iter()
        .filter(|change| *change.after() == FileVersion::Absent);
    let gone: BTreeMap<&PathBuf, &PreparedChange> =
        gone.map(|change| (change.path(), change)).collect();
    let source = |to: &PreparedChange| gone.get(moves.get(to.path())?).copied();
    let sources = changes.iter().filter_map(source).map(PreparedChange::path);
    let sources: BTreeSet<&PathBuf> = sources.collect();
    let mut shown = Vec::new();
    for change in changes {
        check()?;
        match source(change) {
            Some(source) => shown.extend(shown_move(source, change, cwd)),
            None if sources.contains(change.path()) => {}
            None => shown.extend(shown_change(change, cwd)),
        }
    }
    Ok(shown)
}

/// Returns the difference of a file that moves, below a heading with both paths.
fn shown_move(from: &PreparedChange, to: &PreparedChange, cwd: &Path) -> Vec<(char, String)> {
    let text = |version: Option<&FileSnapshot>| version.map(|file| file.bytes.to_vec());
    let (old, replaced) = (text(from.before()), text(to.before()));
    let FileVersion::Present { bytes, .. } = to.after() else {
        return shown_change(to, cwd);
    };
    let mut lines = shown_difference(to.path(), old.as_deref(), Some(bytes), cwd);
    if let Some((_, heading)) = lines.first_mut() {
        let name = |path: &Path| shown_path(path.strip_prefix(cwd).unwrap_or(path));
        *heading = format!("moved {} → {heading}", name(from.path()));
    }
    if let Some(replaced) = replaced {
        lines.extend(shown_difference(to.path(), Some(&replaced), None, cwd));
    }
    lines
}

/// Returns the difference that a change makes, below a heading with the path.
pub fn shown_change(change: &PreparedChange, cwd: &Path) -> Vec<(char, String)> {
    let old = change.before().map(|before| before.bytes.to_vec());
    let new = match change.after() {
        FileVersion::Present { bytes, .. } => Some(bytes.to_vec()),
        FileVersion::Link(text) => Some(text.as_bytes().to_vec()),
        FileVersion::Absent => None,
    };
    let mut lines = shown_difference(change.path(), old.as_deref(), new.as_deref(), cwd);
    if change.before().is_some_and(|before| before.is_link) {
        lines.push((
            ' ',
            "it is a symbolic link; the file to which it leads stays".to_owned(),
        ));
        return lines;
    }
    let mode = change.before().map(|before| before.mode);
    if let (Some(old), Some(new)) = (mode, change.mode_after())
        && old != new
    {
        lines.push((' ', format!("mode {old:o} becomes {new:o}")));
    }
    lines
}

/// Returns the difference between two versions of a file, below a heading with its path; without bytes there is no file.
pub fn shown_difference(
    path: &Path,
    old: Option<&[u8]>,
    new: Option<&[u8]>,
    cwd: &Path,
) -> Vec<(char, String)> {
    let compared = difference(old.unwrap_or_default(), new.unwrap_or_default());
    let what = match (old, new) {
        (None, Some(_)) => "new file ",
        (Some(_), None) => "deleted ",
        _ => "",
    };
    let name = shown_path(path.strip_prefix(cwd).unwrap_or(path));
    let counts = format!("+{} -{}", compared.added, compared.removed);
    let mut lines = vec![('@', format!("{what}{name}  {counts}"))];
    lines.extend(compared.lines.into_iter().map(|line| {
        let mut text = line.text;
        if let Some(note) = line.note {
            // Spaces at the end are counted where they are shown: those before the note are not to be counted with them.
            let end = match text.ends_with([' ', '\t']) {
                true => "⏎",
                false => " ",
            };
            text.push_str(&format!("{end} [{note}]"));
        }
        (line.sign.as_char(), text)
    }));
    lines
}
