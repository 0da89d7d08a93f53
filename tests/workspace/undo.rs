//! Turns are undone: every byte and mode, or nothing.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use aish::workspace::changes::{ChangeKind, CommitStep, FileSnapshot, PreparedChange, commit};
use aish::workspace::undo::{ConflictChoice, UndoResult, UndoStore};
use tempfile::TempDir;

use super::{Project, assert_tidy, tree};

struct Kept {
    project: Project,
    data: TempDir,
    store: UndoStore,
}

impl Kept {
    fn new() -> Kept {
        let data = TempDir::new().expect("a directory");
        Kept {
            project: Project::new(),
            store: UndoStore::new(data.path().join("undo")),
            data,
        }
    }

    fn commit(&self, turn: &str, changes: Vec<PreparedChange>) {
        let mut keeper = self.store.turn("s", turn).expect("a turn");
        commit(changes, Some(&mut keeper)).expect("a commit");
    }

    fn undo(&self, turn: &str, choice: ConflictChoice) -> aish::workspace::undo::UndoReport {
        self.store
            .undo("s", turn, &self.project.resolver(), choice)
            .expect("an undo")
    }
}

#[test]
fn a_turn_is_undone_to_the_byte() {
    let kept = Kept::new();
    let project = &kept.project;
    let bytes = b"\xEF\xBB\xBFa\r\nb\xFF\0c".to_vec();
    project.write("changed", &bytes).chmod("changed", 0o741);
    project
        .write("removed", "x")
        .chmod("removed", 0o755)
        .write("from", "m")
        .chmod("from", 0o700);
    project.write("linked", "l");
    fs::hard_link(project.path("linked"), project.path("linked2")).expect("a link");
    let before = project.tree();
    kept.commit(
        "1",
        vec![
            project.writing("changed", "first"),
            project.removing("removed"),
            project.writing("linked", "L"),
            project.writing("new/dir/file", "n"),
        ],
    );
    // A second commit of the same turn: the first old version counts.
    let moved =
        PreparedChange::with_mode(project.resolve("to"), None, b"m".as_slice(), Some(0o700))
            .expect("a change");
    kept.commit(
        "1",
        vec![
            project.writing("changed", "second"),
            project.writing("new/dir/file", "n2"),
            project.removing("from"),
            moved,
        ],
    );
    assert_eq!(kept.store.turns("s").expect("turns"), ["1"]);
    let report = kept.undo("1", ConflictChoice::Refuse);
    assert!(report.is_done);
    use ChangeKind::{Added, Changed, Removed};
    let results: Vec<_> = report
        .files
        .iter()
        .map(|(path, result)| {
            (
                path.strip_prefix(&project.path)
                    .expect("inside")
                    .to_str()
                    .expect("UTF-8"),
                result.clone(),
            )
        })
        .collect();
    assert_eq!(
        results,
        [
            ("changed", UndoResult::Restored(Changed)),
            ("removed", UndoResult::Restored(Added)),
            ("linked", UndoResult::Restored(Changed)),
            ("new/dir/file", UndoResult::Restored(Removed)),
            ("from", UndoResult::Restored(Added)),
            ("to", UndoResult::Restored(Removed)),
        ]
    );
    assert_eq!(project.tree(), before);
    // It is used up.
    let error = kept
        .store
        .undo("s", "1", &project.resolver(), ConflictChoice::Refuse)
        .expect_err("gone");
    assert_eq!(error.message, "no changes of files are kept for turn 1");
    assert!(tree(kept.data.path()).values().all(Option::is_none));
}

#[test]
fn a_conflict_stops_the_undo_unless_the_rest_is_wanted() {
    let kept = Kept::new();
    let project = &kept.project;
    project
        .write("mine", "old")
        .write("other", "old")
        .write("same", "old")
        .write("mode", "old")
        .write("gone", "old");
    let names = ["mine", "other", "same", "mode", "gone"];
    kept.commit(
        "1",
        names
            .iter()
            .map(|name| project.writing(name, "new"))
            .collect(),
    );
    project
        .write("other", "by the user")
        .write("same", "old")
        .chmod("mode", 0o755);
    fs::remove_file(project.path("gone")).expect("a file");
    let now = project.tree();
    let report = kept.undo("1", ConflictChoice::Refuse);
    assert!(!report.is_done && report.has_conflicts());
    assert_eq!(project.tree(), now);
    let results: Vec<UndoResult> = report
        .files
        .iter()
        .map(|(_, result)| result.clone())
        .collect();
    let changed = UndoResult::Conflict("was changed after the prompt".to_owned());
    let deleted = UndoResult::Conflict("was deleted after the prompt".to_owned());
    assert_eq!(
        results,
        [
            UndoResult::Restored(ChangeKind::Changed),
            changed.clone(),
            UndoResult::AlreadyAsBefore,
            changed,
            deleted
        ]
    );
    let report = kept.undo("1", ConflictChoice::Skip);
    assert!(report.is_done);
    assert_eq!(project.read("mine"), b"old");
    assert_eq!(project.read("other"), b"by the user");
    assert!(!project.path("gone").exists());
    // What was skipped can still be undone, after the other turns.
    kept.commit("0", vec![project.writing("mine", "newer")]);
    assert_eq!(kept.store.turns("s").expect("turns"), ["1", "0"]);
    assert!(kept.undo("0", ConflictChoice::Refuse).is_done);
    assert_eq!(kept.store.turns("s").expect("turns"), ["1"]);
    assert!(!kept.undo("1", ConflictChoice::Refuse).is_done);
    assert_eq!(kept.store.turns("s").expect("turns"), ["1"]);
    // Skipped twice, it is given up.
    assert!(kept.undo("1", ConflictChoice::Skip).is_done);
    assert!(kept.store.turns("s").expect("turns").is_empty());
    let root = kept.data.path().join("undo");
    assert!(root.join("s").exists());
    kept.store.forget("s").expect("forgotten");
    assert!(!root.join("s").exists());
}

#[test]
fn what_is_left_of_an_undone_turn_is_removed_later() {
    let kept = Kept::new();
    kept.project.write("f", "old");
    kept.commit("1", vec![kept.project.writing("f", "new")]);
    let session = kept.data.path().join("undo/s");
    // As if its removal had failed.
    let left = session.join("undone-000000-0");
    fs::create_dir(&left).expect("a directory");
    fs::write(left.join("000001.kept"), "x").expect("a file");
    assert_eq!(kept.store.turns("s").expect("turns"), ["1"]);
    kept.undo("1", ConflictChoice::Refuse);
    assert!(kept.store.turns("s").expect("turns").is_empty());
    assert!(left.exists());
    let resolver = kept.project.resolver();
    kept.store.recover("s", &resolver).expect("a recovery");
    assert!(!left.exists());
}

#[test]
fn a_file_that_may_not_be_written_is_a_conflict() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("mine", "old");
    let fixed = PreparedChange::with_mode(
        project.resolve("fixed"),
        None,
        b"new".as_slice(),
        Some(0o444),
    );
    kept.commit(
        "1",
        vec![project.writing("mine", "new"), fixed.expect("a change")],
    );
    let report = kept.undo("1", ConflictChoice::Skip);
    assert!(report.is_done && report.has_conflicts(), "{report:?}");
    assert_eq!(project.read("mine"), b"old");
    assert_eq!(project.read("fixed"), b"new");
}

#[test]
fn links_are_restored_as_links() {
    let kept = Kept::new();
    let project = &kept.project;
    let link = |name: &str| {
        let path = project.workspace.resolve_entry(name).expect("a path");
        let link = FileSnapshot::read_entry(&path).expect("readable");
        (path, link.expect("a link"))
    };
    project.write("t", "text");
    for (name, target) in [("a", "t"), ("b", "missing"), ("c", "t"), ("d", "t")] {
        symlink(target, project.path(name)).expect("a link");
    }
    let before = project.tree();
    let removals = ["a", "b", "c", "d"].map(|name| {
        let (path, link) = link(name);
        PreparedChange::remove(path, link)
    });
    kept.commit("1", removals.into());
    assert_eq!(project.tree().len(), 1);
    // One of them becomes a file, and one is back already.
    kept.commit("1", vec![project.writing("c", "file")]);
    symlink("t", project.path("d")).expect("a link");
    let report = kept.undo("1", ConflictChoice::Refuse);
    assert!(report.is_done, "{report:?}");
    assert_eq!(report.files[3].1, UndoResult::AlreadyAsBefore);
    assert_eq!(project.tree(), before);
    // Another link in its place is a change.
    let (path, b) = link("b");
    kept.commit("2", vec![PreparedChange::remove(path, b)]);
    symlink("elsewhere", project.path("b")).expect("a link");
    assert!(kept.undo("2", ConflictChoice::Refuse).has_conflicts());
    assert_tidy(&project.tree());
}

#[test]
fn a_file_that_became_a_directory_and_the_reverse_are_restored() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("d/f", "file").write("e/g/h", "deep");
    let before = project.tree();
    kept.commit(
        "1",
        vec![project.removing("d/f"), project.removing("e/g/h")],
    );
    for dir in ["e/g", "e"] {
        fs::remove_dir(project.path(dir)).expect("empty");
    }
    kept.commit(
        "1",
        vec![
            project.writing("d/f/x/y", "new"),
            project.writing("e", "new"),
        ],
    );
    let after = project.tree();
    let differences = kept.store.diff("s", "1", &project.resolver());
    assert!(
        differences
            .expect("a difference")
            .iter()
            .all(|file| !file.changed_since)
    );
    // Not while the directory has a file of the user.
    project.write("d/f/mine", "");
    assert!(kept.undo("1", ConflictChoice::Refuse).has_conflicts());
    fs::remove_file(project.path("d/f/mine")).expect("removed");
    // A failure of the second commit takes the first one back.
    let mut cleaned = 0;
    let failed = kept.store.undo_observed(
        "s",
        "1",
        &project.resolver(),
        ConflictChoice::Refuse,
        &mut |step| {
            cleaned += usize::from(step == CommitStep::CleanUp);
            match cleaned {
                2 => Err(io::Error::from(io::ErrorKind::StorageFull)),
                _ => Ok(()),
            }
        },
    );
    failed.expect_err("a failure");
    assert_eq!(project.tree(), after);
    let report = kept.undo("1", ConflictChoice::Refuse);
    assert!(report.is_done, "{report:?}");
    assert_eq!(project.tree(), before);
}

#[test]
fn a_version_that_is_kept_nowhere_else_is_not_overwritten() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("a", "old");
    kept.commit("1", vec![project.writing("a", "by the model")]);
    project.write("a", "by the user");
    kept.commit("1", vec![project.writing("a", "by the model again")]);
    let report = kept.undo("1", ConflictChoice::Refuse);
    let conflict = "was also changed by something else during the answer".to_owned();
    assert_eq!(
        report.files,
        [(project.path("a"), UndoResult::Conflict(conflict))]
    );
    assert_eq!(project.read("a"), b"by the model again");
}

#[test]
fn a_pending_copy_of_another_version_is_not_removed() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("a", "old");
    kept.commit("1", vec![project.writing("a", "new")]);
    let root = kept.data.path().join("undo");
    let file = tree(&root)
        .into_keys()
        .find(|name| name.extension().is_some_and(|e| e == "kept"))
        .map(|name| root.join(name))
        .expect("a copy");
    let pending = file.with_extension("pending");
    let text = fs::read_to_string(&file).expect("a copy");
    fs::remove_file(&file).expect("removed");
    let other = text.replacen("\"version\":1", "\"version\":2", 1);
    assert_ne!(other, text);
    fs::write(&pending, &other).expect("written");
    let resolver = project.resolver();
    let recovery = kept.store.recover("s", &resolver).expect("recovered");
    assert_eq!(recovery.failures.len(), 1);
    assert!(pending.exists());
    // One whose writing was interrupted is of no use.
    fs::write(&pending, &text[..10]).expect("written");
    kept.store.recover("s", &resolver).expect("recovered");
    assert!(!pending.exists());
}

#[test]
fn an_undo_that_fails_half_way_changes_nothing_and_can_be_repeated() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("a", "old").write("b", "old");
    let before = project.tree();
    kept.commit(
        "1",
        vec![
            project.writing("a", "new"),
            project.writing("b", "new"),
            project.writing("c", "new"),
        ],
    );
    let after = project.tree();
    let mut replaced = 0;
    let result = kept.store.undo_observed(
        "s",
        "1",
        &project.resolver(),
        ConflictChoice::Refuse,
        &mut |step| {
            replaced += usize::from(step == CommitStep::Replace);
            if replaced == 2 {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            } else {
                Ok(())
            }
        },
    );
    result.expect_err("a failure");
    assert_eq!(project.tree(), after);
    assert!(kept.undo("1", ConflictChoice::Refuse).is_done);
    assert_eq!(project.tree(), before);
}

#[test]
fn an_undo_that_failed_is_about_the_same_turn_the_next_time() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("mine", "0").write("other", "0");
    for turn in ["1", "2"] {
        let names = ["mine", "other"];
        let writing = names.iter().map(|name| project.writing(name, turn));
        kept.commit(turn, writing.collect());
    }
    project.write("other", "by the user");
    let failed = kept.store.undo_observed(
        "s",
        "2",
        &project.resolver(),
        ConflictChoice::Skip,
        &mut |_| Err(io::Error::from(io::ErrorKind::StorageFull)),
    );
    failed.expect_err("a failure");
    assert_eq!(kept.store.turns("s").expect("turns"), ["1", "2"]);
    assert!(kept.undo("2", ConflictChoice::Skip).is_done);
    assert_eq!(project.read("mine"), b"1");
    assert_eq!(kept.store.turns("s").expect("turns"), ["2", "1"]);
}

#[test]
fn turns_are_undone_one_by_one_and_a_later_one_is_a_conflict() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("f", "0");
    for turn in ["1", "2"] {
        kept.commit(turn, vec![project.writing("f", turn)]);
    }
    assert_eq!(kept.store.turns("s").expect("turns"), ["1", "2"]);
    assert!(kept.undo("1", ConflictChoice::Refuse).has_conflicts());
    assert!(kept.undo("2", ConflictChoice::Refuse).is_done);
    assert_eq!(project.read("f"), b"1");
    assert!(kept.undo("1", ConflictChoice::Refuse).is_done);
    assert_eq!(project.read("f"), b"0");
}

#[test]
fn the_difference_of_a_turn_has_the_first_and_the_present_version() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("f", "old\n").write("gone", "g");
    kept.commit(
        "1",
        vec![project.writing("f", "mid\n"), project.removing("gone")],
    );
    kept.commit(
        "1",
        vec![project.writing("f", "new\n"), project.writing("added", "a")],
    );
    project.write("added", "by the user");
    let differences = kept
        .store
        .diff("s", "1", &project.resolver())
        .expect("a difference");
    let [f, gone, added] = &differences[..] else {
        panic!("{differences:?}")
    };
    assert_eq!(f.path, project.path("f"));
    assert_eq!(
        (f.old.as_deref(), f.new.as_deref()),
        (Some(&b"old\n"[..]), Some(&b"new\n"[..]))
    );
    assert_eq!(
        (gone.old.as_deref(), gone.new.as_deref()),
        (Some(&b"g"[..]), None)
    );
    assert_eq!(
        (added.old.as_deref(), added.new.as_deref()),
        (None, Some(&b"by the user"[..]))
    );
    assert!(!f.changed_since && !gone.changed_since && added.changed_since);
}

#[test]
fn only_the_user_can_read_the_copies() {
    let kept = Kept::new();
    kept.project.write("f", "secret");
    kept.commit("turn", vec![kept.project.writing("f", "x")]);
    let root = kept.data.path().join("undo");
    let mut paths = vec![root.clone()];
    paths.extend(tree(&root).into_keys().map(|name| root.join(name)));
    assert_eq!(paths.len(), 4);
    for path in paths {
        let found = fs::metadata(&path).expect("metadata");
        let expected = if found.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(found.permissions().mode() & 0o777, expected, "{path:?}");
    }
}

#[test]
fn the_oldest_turns_are_dropped_past_the_limit() {
    let mut kept = Kept::new();
    kept.store = kept.store.with_limit(3_000);
    let project = &kept.project;
    project.write("f", "0".repeat(1_000));
    for turn in ["1", "2", "3", "4"] {
        kept.commit(turn, vec![project.writing("f", turn.repeat(1_000))]);
    }
    assert_eq!(kept.store.turns("s").expect("turns"), ["3", "4"]);
    // A turn that is too large by itself stays.
    kept.commit("5", vec![project.writing("f", "5".repeat(10_000))]);
    kept.commit("6", vec![project.writing("f", "6")]);
    assert_eq!(kept.store.turns("s").expect("turns"), ["6"]);
    assert!(kept.undo("6", ConflictChoice::Refuse).is_done);
    assert_eq!(project.read("f"), "5".repeat(10_000).into_bytes());
}

#[test]
fn damaged_copies_and_unusable_names_are_refused() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("f", "old");
    kept.commit("1", vec![project.writing("f", "new")]);
    let root = kept.data.path().join("undo");
    let file = tree(&root)
        .into_iter()
        .find(|(_, content)| content.is_some())
        .expect("a copy");
    let mut bytes = file.1.expect("a file").0;
    *bytes.last_mut().expect("a byte") ^= 1;
    fs::write(root.join(file.0), bytes).expect("a file");
    let error = kept
        .store
        .undo("s", "1", &project.resolver(), ConflictChoice::Refuse)
        .expect_err("damaged");
    assert!(error.message.ends_with("are damaged"), "{}", error.message);
    assert_eq!(project.read("f"), b"new");
    for name in ["", "..", "a/b", ".hidden", "a\nb", &"x".repeat(101)] {
        assert!(kept.store.turn("s", name).is_err(), "{name}");
        assert!(kept.store.turn(name, "t").is_err(), "{name}");
    }
}

#[test]
fn a_path_that_leads_elsewhere_now_is_a_conflict() {
    let kept = Kept::new();
    let project = &kept.project;
    project.write("dir/f", "old").write("elsewhere/f", "new");
    kept.commit("1", vec![project.writing("dir/f", "new")]);
    fs::rename(project.path("dir"), project.path("moved")).expect("moved");
    std::os::unix::fs::symlink("elsewhere", project.path("dir")).expect("a link");
    let report = kept.undo("1", ConflictChoice::Skip);
    assert!(
        matches!(&report.files[0].1, UndoResult::Conflict(reason) if reason.starts_with("now leads to")),
        "{report:?}"
    );
    assert_eq!(
        fs::read(Path::new(&project.path("elsewhere/f"))).expect("a file"),
        b"new"
    );
    assert_tidy(&project.tree());
}
