//! Kept copies of the files that the turns of a session changed, and their way back.
//!
//! Each commit of a turn is one file below `SESSION/NUMBER-TURN/`: a line of JSON that describes the change, then the old bytes. It
//! is written and synced as `.pending` before the first file is changed, and becomes `.kept` afterwards. A call outside of sessions has
//! one only until its commit is complete. Only the user can read it. The copies of a session are bounded: the oldest turns are dropped.

mod kept_file;
mod recovery;
mod turn_keeper;
mod undo_plan;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use kept_file::version_at;
pub use recovery::{HalfDoneCommit, Recovery};
pub use turn_keeper::TurnKeeper;
use undo_plan::{UndoPlan, brought_back, turn_files};

use super::changes::{ChangeKind, PreparedChange, StepObserver, commit, commit_observed};
use super::failure::WorkspaceError;
use super::{PathResult, ResolvedPath, shown_path};

/// Maximum number of bytes that are kept for a session.
pub const SESSION_LIMIT: u64 = 256 << 20;

/// Directory of the commits that undo a turn while they run.
const UNDOING: &str = "undoing";

/// Resolves the path of a kept file at the time of an undo.
pub type PathResolver<'a> = &'a dyn Fn(&Path) -> PathResult<ResolvedPath>;

/// The kept copies of all sessions.
#[derive(Debug, Clone)]
pub struct UndoStore {
    root: PathBuf,
    limit: u64,
}

/// Handling of files that were changed after the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConflictChoice {
    /// One such file, and nothing is undone.
    Refuse,
    /// They stay as they are, the others are undone.
    Skip,
}

/// Step of an undo for a file, planned or done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UndoResult {
    /// It is as it was before the turn; what happened to it by the undo.
    Restored(ChangeKind),
    /// It was so already.
    AlreadyAsBefore,
    /// It was changed after the turn, or may not be written, and stays: the reason.
    Conflict(String),
}

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndoReport {
    /// The files of the turn, in the order in which they were changed first.
    pub files: Vec<(PathBuf, UndoResult)>,
    /// Whether files were restored, or the rest given up. If not, because of a conflict, [`UndoResult::Restored`] says what would be
    /// done.
    pub is_done: bool,
    /// An earlier undo has skipped these files and restored the others of the turn.
    pub was_skipped: bool,
}

impl UndoReport {
    /// Whether a file was changed after the turn.
    pub fn has_conflicts(&self) -> bool {
        self.files
            .iter()
            .any(|(_, result)| matches!(result, UndoResult::Conflict(_)))
    }
}

/// The change of a file in a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnDifference {
    /// Path of the file.
    pub path: PathBuf,
    /// Bytes before the turn; `None` without the file.
    pub old: Option<Vec<u8>>,
    /// Bytes now; `None` without the file.
    pub new: Option<Vec<u8>>,
    /// The file was changed after the turn, so that `new` is not only the work of the turn.
    pub changed_since: bool,
}

/// Beginning of the names of directories whose turn is undone.
const RETIRED: &str = "undone-";

/// Marks a turn that was undone but for files that were changed after it, which can still be undone. Has the paths of the restored
/// files, with a NUL after each: other changes of these files are no longer compared with the turn.
const SKIPPED: &str = "skipped";

impl UndoStore {
    /// Creates the store below a directory, which need not exist yet.
    pub fn new(root: PathBuf) -> UndoStore {
        UndoStore {
            root,
            limit: SESSION_LIMIT,
        }
    }

    /// Keeps at most this number of bytes for a session.
    #[must_use]
    pub fn with_limit(mut self, bytes: u64) -> UndoStore {
        self.limit = bytes;
        self
    }

    /// Returns the keeper for the commits of a turn.
    ///
    /// # Errors
    /// A name is not usable as one of a directory, or the directories cannot be read.
    pub fn turn(&self, session: &str, turn: &str) -> Result<TurnKeeper, WorkspaceError> {
        let session = self.session(session)?;
        check_name(turn)?;
        let turns = turn_directories(&session)?;
        let existing = turns.iter().find(|(_, name, _)| name == turn);
        let directory = match existing {
            Some((_, _, path)) => path.clone(),
            None => {
                let number = turns.last().map_or(1, |(number, _, _)| number + 1);
                session.join(format!("{number:06}-{turn}"))
            }
        };
        Ok(TurnKeeper::new(session, directory, self.limit))
    }

    /// Returns the turns of a session that can be undone, the oldest first, after those with files that an undo has skipped.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn turns(&self, session: &str) -> Result<Vec<String>, WorkspaceError> {
        let turns = turn_directories(&self.session(session)?)?;
        let (skipped, left): (Vec<_>, Vec<_>) = turns
            .into_iter()
            .partition(|(_, _, path)| path.join(SKIPPED).exists());
        let all = skipped.into_iter().chain(left);
        Ok(all.map(|(_, name, _)| name).collect())
    }

    /// Puts the files of a turn back as they were before it: all of them, or none. A turn of which an earlier undo has skipped all
    /// that is left is given up if nothing can be restored and they are skipped again.
    ///
    /// # Errors
    /// The turn has no kept copies, they are damaged, or the files cannot be written.
    pub fn undo(
        &self,
        session: &str,
        turn: &str,
        resolve: PathResolver<'_>,
        choice: ConflictChoice,
    ) -> Result<UndoReport, WorkspaceError> {
        self.undo_observed(session, turn, resolve, choice, &mut |_| Ok(()))
    }

    /// Same as [`Self::undo`], with an observer of the steps of the commit.
    ///
    /// # Errors
    /// Same as [`Self::undo`].
    pub fn undo_observed(
        &self,
        session: &str,
        turn: &str,
        resolve: PathResolver<'_>,
        choice: ConflictChoice,
        observer: StepObserver<'_>,
    ) -> Result<UndoReport, WorkspaceError> {
        let directory = self.turn_directory(session, turn)?;
        let (files, directories) = turn_files(&directory)?;
        let UndoPlan {
            results,
            in_the_way,
            changes,
        } = UndoPlan::new(&files, &directories, resolve);
        let paths = files.into_iter().map(|file| file.path);
        let mut report = UndoReport {
            files: paths.zip(results).collect(),
            is_done: false,
            was_skipped: directory.join(SKIPPED).exists(),
        };
        if report.has_conflicts() && choice == ConflictChoice::Refuse {
            return Ok(report);
        }
        let session = self.session(session)?;
        if in_the_way.is_empty() && changes.is_empty() && report.has_conflicts() {
            match report.was_skipped {
                true => retire(&session, &directory)?,
                false => mark_skipped(&directory, &report)?,
            }
            report.is_done = report.was_skipped;
            return Ok(report);
        }
        let mut keeper = TurnKeeper::temporary(session.clone(), session.join(UNDOING));
        if !in_the_way.is_empty() {
            let back: Vec<PreparedChange> = in_the_way.iter().filter_map(brought_back).collect();
            commit_observed(in_the_way, Some(&mut keeper), observer)?;
            remove_empty(&directories, resolve);
            if let Err(error) = commit_observed(changes, Some(&mut keeper), observer) {
                // All of them, or none.
                return Err(match commit(back, None) {
                    Ok(_) => error,
                    Err(left) => error.hint(format!("not restored: {}", left.message)),
                });
            }
        } else {
            commit_observed(changes, Some(&mut keeper), observer)?;
        }
        report.is_done = true;
        remove_empty(&directories, resolve);
        // Only now: after a failure, the next undo is about the same turn. Without a mark too, which then finds nothing to restore.
        match report.has_conflicts() {
            true => drop(mark_skipped(&directory, &report)),
            false => retire(&session, &directory)?,
        }
        Ok(report)
    }

    /// Drops the kept copies of a session.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn forget(&self, session: &str) -> Result<(), WorkspaceError> {
        remove_directory(&self.session(session)?)
    }

    /// Returns what a turn changed: the files before it and now.
    ///
    /// # Errors
    /// The turn has no kept copies, or they are damaged, or a file cannot be read.
    pub fn diff(
        &self,
        session: &str,
        turn: &str,
        resolve: PathResolver<'_>,
    ) -> Result<Vec<TurnDifference>, WorkspaceError> {
        let (files, _) = turn_files(&self.turn_directory(session, turn)?)?;
        let mut differences = Vec::new();
        for file in files {
            let now = version_at(&file.path, resolve)?;
            differences.push(TurnDifference {
                changed_since: !file.last.is_after(now.as_ref()),
                old: file.first.old_bytes(),
                new: now.map(|now| now.bytes.to_vec()),
                path: file.path,
            });
        }
        Ok(differences)
    }

    fn session(&self, session: &str) -> Result<PathBuf, WorkspaceError> {
        check_name(session)?;
        Ok(self.root.join(session))
    }

    fn turn_directory(&self, session: &str, turn: &str) -> Result<PathBuf, WorkspaceError> {
        let turns = turn_directories(&self.session(session)?)?;
        let found = turns.into_iter().find(|(_, name, _)| name == turn);
        let missing = || {
            WorkspaceError::new(format!("no changes of files are kept for turn {turn}"))
                .hint("the turn changed no file, was undone, or is too old")
        };
        found.map(|(_, _, path)| path).ok_or_else(missing)
    }
}

/// Removes directories that a turn created, if they are empty.
fn remove_empty(directories: &[PathBuf], resolve: PathResolver<'_>) {
    for path in directories.iter().rev() {
        let Ok(target) = resolve(path) else { continue };
        if target.absolute == *path
            && let Ok((dir, name)) = target.open_parent()
        {
            let _ =
                nix::unistd::unlinkat(dir, name.as_os_str(), nix::unistd::UnlinkatFlags::RemoveDir);
        }
    }
}

/// Returns number, turn and path of each turn directory of a session, in order.
fn turn_directories(session: &Path) -> Result<Vec<(u64, String, PathBuf)>, WorkspaceError> {
    let entries = match fs::read_dir(session) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(session, &error)),
    };
    let mut turns = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(session, &error))?;
        let name = entry.file_name();
        let parts = name.to_str().and_then(|name| name.split_once('-'));
        if let Some((number, turn)) = parts
            && let Ok(number) = number.parse()
        {
            turns.push((number, turn.to_owned(), entry.path()));
        }
    }
    turns.sort();
    Ok(turns)
}

fn check_name(name: &str) -> Result<(), WorkspaceError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > 100 || name.starts_with('.') || !name.chars().all(is_plain) {
        return Err(WorkspaceError::new(
            "the name of a session or turn is not usable for kept copies",
        ));
    }
    Ok(())
}

fn create_private(directory: &Path) -> Result<(), WorkspaceError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
        .create(directory)
        .map_err(|error| failed(directory, &error))
}

fn remove_directory(directory: &Path) -> Result<(), WorkspaceError> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(directory, &error)),
        _ => Ok(()),
    }
}

/// Marks a turn of which files were skipped: the next undo is about the turn before. The copies of the files stay within the limit.
fn mark_skipped(directory: &Path, report: &UndoReport) -> Result<(), WorkspaceError> {
    let mut paths = restored_before(directory);
    let restored = report.files.iter().filter(|(_, result)| match result {
        UndoResult::Restored(_) => report.is_done,
        UndoResult::AlreadyAsBefore => true,
        UndoResult::Conflict(_) => false,
    });
    paths.extend(restored.map(|(path, _)| path.clone()));
    let text = paths
        .iter()
        .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"]);
    let mark = directory.join(SKIPPED);
    fs::write(&mark, text.collect::<Vec<_>>().concat()).map_err(|error| failed(&mark, &error))
}

/// Returns the files of a turn that an undo has restored which skipped others.
fn restored_before(directory: &Path) -> BTreeSet<PathBuf> {
    let text = fs::read(directory.join(SKIPPED)).unwrap_or_default();
    let paths = text
        .split(|byte| *byte == 0)
        .filter(|path| !path.is_empty());
    paths.map(|path| OsStr::from_bytes(path).into()).collect()
}

/// Removes the directory of a turn that is undone. What cannot be removed now is no turn any more, and is removed later.
fn retire(session: &Path, directory: &Path) -> Result<(), WorkspaceError> {
    let name = directory.file_name().unwrap_or_default();
    let retired = session.join(format!("{RETIRED}{}", name.to_string_lossy()));
    fs::rename(directory, &retired).map_err(|error| failed(directory, &error))?;
    let _ = fs::remove_dir_all(&retired);
    Ok(())
}

/// Removes what is left of the directories of turns that are undone.
fn remove_retired(session: &Path) {
    let entries = fs::read_dir(session).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().as_bytes().starts_with(RETIRED.as_bytes()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> WorkspaceError {
    WorkspaceError::new(format!(
        "{}: the kept copies of changed files: {error}",
        shown_path(path)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::changes::{ChangePlan, CommitStep, FileSnapshot, OriginalKeeper};
    use super::*;
    use crate::workspace::Workspace;

    /// A directory with a file `a` and a file `b`, and a store.
    struct Files {
        root: tempfile::TempDir,
        store: UndoStore,
        workspace: Workspace,
    }

    impl Files {
        fn new() -> Files {
            let root = tempfile::tempdir().unwrap();
            let files = root.path().canonicalize().unwrap().join("files");
            fs::create_dir(&files).unwrap();
            let made = Files {
                store: UndoStore::new(root.path().join("undo")),
                workspace: Workspace::new(&files, None, &[]).unwrap(),
                root,
            };
            made.write(&[("a", "1"), ("b", "1")]);
            made
        }

        fn write(&self, files: &[(&str, &str)]) {
            for (name, text) in files {
                fs::write(self.root.path().join("files").join(name), text).unwrap();
            }
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.root.path().join("files").join(name)).unwrap()
        }

        fn turn(&self, turn: &str, files: &[(&str, &str)]) {
            let change = |(name, text): &(&str, &str)| {
                let target = self.workspace.resolve(name).unwrap();
                let before = FileSnapshot::read(&target).unwrap();
                PreparedChange::write(target, before, text.as_bytes().to_vec()).unwrap()
            };
            let mut keeper = self.store.turn("s", turn).unwrap();
            commit(files.iter().map(change).collect(), Some(&mut keeper)).unwrap();
        }

        /// Undoes the last turn and returns whether that was done.
        fn undo(&self, choice: ConflictChoice) -> UndoReport {
            let turn = self.store.turns("s").unwrap().pop().unwrap();
            let resolve = |path: &Path| self.workspace.resolve_path(path);
            self.store.undo("s", &turn, &resolve, choice).unwrap()
        }
    }

    #[test]
    fn files_that_an_undo_has_restored_are_not_judged_again() {
        let files = Files::new();
        files.turn("1", &[("a", "2")]);
        files.turn("2", &[("a", "3"), ("b", "3")]);
        files.write(&[("b", "user")]);
        assert!(files.undo(ConflictChoice::Skip).is_done);
        assert!(files.undo(ConflictChoice::Refuse).is_done);
        files.write(&[("b", "3")]);
        let report = files.undo(ConflictChoice::Refuse);
        assert!(report.is_done && report.was_skipped, "{report:?}");
        assert_eq!((files.read("a"), files.read("b")), ("1".into(), "1".into()));
        assert!(files.store.turns("s").unwrap().is_empty());
    }

    /// Stops like a killed process once all changes are made.
    struct Killed(TurnKeeper, PathBuf);

    impl OriginalKeeper for Killed {
        fn keep(&mut self, plan: &ChangePlan<'_>) -> Result<(), WorkspaceError> {
            self.0.keep(plan)
        }

        fn committed(&mut self) {
            let names = fs::read_dir(&self.1).unwrap().flatten();
            let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
            names.sort();
            assert_eq!(names, ["a", "b"], "temporary names are left");
        }

        fn rolled_back(&mut self, _: bool) {}
    }

    #[test]
    fn a_record_is_complete_only_when_no_temporary_name_is_left() {
        let files = Files::new();
        let target = |name| files.workspace.resolve(name).unwrap();
        let before = |name| FileSnapshot::read(&target(name)).unwrap();
        let changes = vec![
            PreparedChange::write(target("a"), before("a"), b"2".to_vec()).unwrap(),
            PreparedChange::write(target("b"), before("b"), b"2".to_vec()).unwrap(),
        ];
        let dir = files.root.path().join("files");
        let mut killed = Killed(files.store.turn("s", "1").unwrap(), dir);
        commit(changes, Some(&mut killed)).unwrap();
        let resolve = |path: &Path| files.workspace.resolve_path(path);
        let recovery = files.store.recover("s", &resolve).unwrap();
        assert!(recovery.restored.is_empty() && recovery.half_done.is_empty());
        assert!(files.undo(ConflictChoice::Refuse).is_done);
        assert_eq!(files.read("a"), "1");
    }

    #[test]
    fn a_commit_that_changed_nothing_leaves_no_directory() {
        let files = Files::new();
        let target = |name| files.workspace.resolve(name).unwrap();
        let made = |name| PreparedChange::write(target(name), None, b"2".to_vec()).unwrap();
        let keeper = files.store.turn("s", "1").unwrap();
        let mut killed = Killed(keeper, files.root.path().join("files"));
        // Killed after the first directories were made: nothing is rolled back.
        let mut made_dirs = 0;
        let mut observer = |step| match step {
            CommitStep::Stage => Err(io::Error::from(io::ErrorKind::StorageFull)),
            CommitStep::CreateDirectory => {
                made_dirs += 1;
                Ok(())
            }
            _ => Ok(()),
        };
        let changes = vec![made("g/h/x"), made("n/x")];
        commit_observed(changes, Some(&mut killed), &mut observer).unwrap_err();
        assert_eq!(made_dirs, 2);
        let dir = files.root.path().join("files");
        fs::create_dir_all(dir.join("g/h")).unwrap();
        fs::create_dir(dir.join("n")).unwrap();
        files.write(&[("n/mine", "1")]);
        let resolve = |path: &Path| files.workspace.resolve_path(path);
        files.store.recover("s", &resolve).unwrap();
        assert!(!dir.join("g").exists() && dir.join("n/mine").exists());
        assert!(files.store.turns("s").unwrap().is_empty());
    }

    /// Kills a commit of `a` and `b` after this number of steps of a kind. The keeper is dropped without a word.
    fn killed(
        files: &Files,
        keeper: TurnKeeper,
        new: [&str; 2],
        (kind, after): (CommitStep, usize),
    ) {
        let target = |name: &str| files.workspace.resolve(name).unwrap();
        let change = |(name, new): (&str, &str)| {
            let before = FileSnapshot::read(&target(name)).unwrap();
            PreparedChange::write(target(name), before, new.as_bytes()).unwrap()
        };
        let changes = ["a", "b"].into_iter().zip(new).map(change).collect();
        let mut killed = Killed(keeper, files.root.path().join("files"));
        let mut count = 0;
        let mut observer = |step: CommitStep| -> io::Result<()> {
            count += usize::from(step == kind);
            if count > after {
                std::panic::panic_any(());
            }
            Ok(())
        };
        let commit = || commit_observed(changes, Some(&mut killed), &mut observer);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(commit)).unwrap_err();
    }

    /// Text of several parts of a write.
    fn long(letter: &str) -> String {
        letter.repeat(200_000)
    }

    fn temporary_names(directory: &Path) -> usize {
        let names = fs::read_dir(directory).unwrap().flatten();
        let names = names.map(|entry| entry.file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with(".aish-"))
            .count()
    }

    #[test]
    fn a_half_written_file_is_restored_once_its_directory_is_back() {
        let files = Files::new();
        files.write(&[("a", &long("o"))]);
        let dir = files.root.path().canonicalize().unwrap().join("files");
        let away = dir.with_file_name("away");
        fs::hard_link(dir.join("a"), files.root.path().join("a2")).unwrap();
        let half_written = || {
            let keeper = files.store.turn("s", "1").unwrap();
            killed(
                &files,
                keeper,
                [&long("n"), "2"],
                (CommitStep::Overwrite, 2),
            );
            assert!(files.read("a").starts_with('n') && files.read("a").ends_with('o'));
        };
        let whole = Workspace::new(Path::new("/"), None, &[]).unwrap();
        let resolve = |path: &Path| whole.resolve_path(path);
        let recover = || files.store.recover("s", &resolve).unwrap();
        // Moved away, or an empty place where a file system was mounted.
        for is_mount in [false, true] {
            half_written();
            fs::rename(&dir, &away).unwrap();
            if is_mount {
                fs::create_dir(&dir).unwrap();
            }
            let recovery = recover();
            assert!(recovery.restored.is_empty() && recovery.half_done.is_empty());
            if is_mount {
                fs::remove_dir(&dir).unwrap();
            }
            fs::rename(&away, &dir).unwrap();
            assert_eq!(recover().restored, [dir.join("a")]);
            assert_eq!(files.read("a"), long("o"));
            assert_eq!(temporary_names(&dir), 0);
            assert!(files.store.turns("s").unwrap().is_empty());
        }
        // A link leads to the new place.
        half_written();
        fs::rename(&dir, &away).unwrap();
        std::os::unix::fs::symlink(&away, &dir).unwrap();
        recover();
        assert_eq!(files.read("a"), long("o"));
        assert_eq!(temporary_names(&away), 0);
        fs::remove_file(&dir).unwrap();
        fs::rename(&away, &dir).unwrap();
        recover();
        // An undo restores it too.
        half_written();
        assert!(files.undo(ConflictChoice::Refuse).is_done);
        assert_eq!(files.read("a"), long("o"));
    }

    #[test]
    fn hidden_copies_for_new_files_are_removed_once_their_directory_is_back() {
        let files = Files::new();
        let dir = files.root.path().canonicalize().unwrap().join("files");
        for name in ["a", "b"] {
            fs::remove_file(dir.join(name)).unwrap();
        }
        let keeper = files.store.turn("s", "1").unwrap();
        killed(&files, keeper, ["2", "2"], (CommitStep::Link, 0));
        assert!(temporary_names(&dir) > 0);
        let whole = Workspace::new(Path::new("/"), None, &[]).unwrap();
        let resolve = |path: &Path| whole.resolve_path(path);
        let away = dir.with_file_name("away");
        fs::rename(&dir, &away).unwrap();
        files.store.recover("s", &resolve).unwrap();
        fs::rename(&away, &dir).unwrap();
        files.store.recover("s", &resolve).unwrap();
        assert_eq!(temporary_names(&dir), 0);
        assert!(files.store.turns("s").unwrap().is_empty());
    }

    #[test]
    fn a_half_done_commit_is_reported_once() {
        let files = Files::new();
        let resolve = |path: &Path| files.workspace.resolve_path(path);
        let recover = || files.store.recover("s", &resolve).unwrap().half_done;
        let keeper = files.store.turn("s", "1").unwrap();
        killed(&files, keeper, ["2", "2"], (CommitStep::Replace, 1));
        let dir = files.root.path().canonicalize().unwrap().join("files");
        let expected = HalfDoneCommit {
            turn: "1".to_owned(),
            changed: vec![dir.join("a")],
            unchanged: vec![dir.join("b")],
        };
        assert_eq!(recover(), [expected]);
        assert!(recover().is_empty());
        assert!(files.undo(ConflictChoice::Refuse).is_done);
        assert_eq!(files.read("a"), "1");
        // One that changed nothing, although something else has since.
        let keeper = files.store.turn("s", "2").unwrap();
        killed(&files, keeper, ["2", "2"], (CommitStep::Replace, 0));
        files.write(&[("b", "mine")]);
        assert!(recover().is_empty());
    }

    #[test]
    fn an_interrupted_change_of_a_call_is_taken_back() {
        let files = Files::new();
        let whole = Workspace::new(Path::new("/"), None, &[]).unwrap();
        let resolve = |path: &Path| whole.resolve_path(path);
        let dir = files.root.path().canonicalize().unwrap().join("files");
        let recover = || {
            let mut recovered = files.store.recover_all(&resolve).unwrap();
            let recovery = recovered.pop().unwrap().1.unwrap();
            (recovery.restored, recovery.failures.len())
        };
        for (after, restored) in [(0, vec![]), (1, vec![dir.join("a")])] {
            let keeper = files.store.call().unwrap();
            killed(&files, keeper, ["2", "2"], (CommitStep::Replace, after));
            let away = dir.with_file_name("away");
            fs::rename(&dir, &away).unwrap();
            assert_eq!(recover(), (vec![], 0));
            fs::rename(&away, &dir).unwrap();
            assert_eq!(recover(), (restored, 0));
            assert_eq!((files.read("a"), files.read("b")), ("1".into(), "1".into()));
            assert_eq!(temporary_names(&dir), 0);
            assert!(files.store.turns("calls").unwrap().is_empty());
        }
        // A file that the user has changed since stays.
        let keeper = files.store.call().unwrap();
        killed(&files, keeper, ["2", "2"], (CommitStep::Sync, 0));
        files.write(&[("b", "mine")]);
        assert_eq!(recover(), (vec![dir.join("a")], 1));
        assert_eq!(
            (files.read("a"), files.read("b")),
            ("1".into(), "mine".into())
        );
        // A complete one leaves nothing.
        let change =
            PreparedChange::write(files.workspace.resolve("c").unwrap(), None, b"2".to_vec());
        let mut keeper = files.store.call().unwrap();
        commit(vec![change.unwrap()], Some(&mut keeper)).unwrap();
        recover();
        assert!(files.store.turns("calls").unwrap().is_empty());
        assert_eq!(files.read("c"), "2");
    }

    #[test]
    fn files_that_are_skipped_twice_are_given_up() {
        let files = Files::new();
        files.turn("1", &[("a", "2")]);
        files.turn("2", &[("b", "2")]);
        files.write(&[("b", "user")]);
        // The turns before it come first.
        assert!(!files.undo(ConflictChoice::Skip).is_done);
        assert!(files.undo(ConflictChoice::Skip).is_done);
        let report = files.undo(ConflictChoice::Refuse);
        assert!(!report.is_done && report.was_skipped, "{report:?}");
        assert!(files.undo(ConflictChoice::Skip).is_done);
        assert_eq!(
            (files.read("a"), files.read("b")),
            ("1".into(), "user".into())
        );
        assert!(files.store.turns("s").unwrap().is_empty());
    }

    #[test]
    fn a_reason_does_not_repeat_the_path() {
        let files = Files::new();
        files.turn("1", &[("a", "2")]);
        let path = files.root.path().join("files/a");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let report = files.undo(ConflictChoice::Refuse);
        let expected = UndoResult::Conflict("is a directory".to_owned());
        assert_eq!(report.files[0].1, expected);
    }
}
