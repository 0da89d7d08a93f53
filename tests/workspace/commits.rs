//! Changes are made together or not at all.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;

use aish::workspace::changes::{
    ChangeKind, CommitStep, FileSnapshot, PreparedChange, commit, commit_observed,
};

use super::{Project, assert_tidy};

#[test]
fn files_are_added_changed_removed_and_moved_together() {
    let project = Project::new();
    project
        .write("changed", "old\n")
        .write("removed", "x")
        .write("from", "script")
        .chmod("from", 0o755);
    let source = project.snapshot("from").expect("a file");
    let moved = PreparedChange::with_mode(
        project.resolve("a/b/to"),
        None,
        source.bytes.clone(),
        Some(source.mode),
    );
    let changes = vec![
        project.writing("changed", "new\n"),
        project.removing("removed"),
        project.writing("a/new", "n"),
        project.removing("from"),
        moved.expect("a change"),
    ];
    let summary = commit(changes, None).expect("a commit");
    let kinds: Vec<ChangeKind> = summary.files.iter().map(|file| file.kind).collect();
    use ChangeKind::{Added, Changed, Removed};
    assert_eq!(kinds, [Changed, Removed, Added, Removed, Added]);
    assert_eq!(
        summary.created_directories,
        [project.path("a"), project.path("a/b")]
    );
    let tree = project.tree();
    let names: Vec<_> = tree.keys().filter_map(|path| path.to_str()).collect();
    assert_eq!(names, ["a", "a/b", "a/b/to", "a/new", "changed"]);
    assert_eq!(
        tree[std::path::Path::new("a/b/to")],
        Some((b"script".to_vec(), 0o755))
    );
    assert_eq!(project.read("changed"), b"new\n");
}

#[test]
fn a_file_that_is_not_what_was_read_refuses_everything() {
    type Disturbance = (&'static str, fn(&Project));
    let disturbances: [Disturbance; 4] = [
        ("one: was changed since it was read", |project| {
            project.write("one", "by another");
        }),
        ("one: was deleted since it was read", |project| {
            fs::remove_file(project.path("one")).expect("a file")
        }),
        ("new: was created since it was read", |project| {
            project.write("new", "by another");
        }),
        ("one: is a directory", |project| {
            fs::remove_file(project.path("one")).expect("a file");
            fs::create_dir(project.path("one")).expect("a directory");
        }),
    ];
    for (message, disturb) in disturbances {
        let project = Project::new();
        project.write("one", "1").write("two", "2");
        let changes = vec![
            project.writing("two", "changed"),
            project.writing("one", "changed"),
            project.writing("new", "n"),
        ];
        disturb(&project);
        let before = project.tree();
        let error = commit(changes, None).expect_err("refused");
        assert!(error.message.ends_with(message), "{}", error.message);
        assert_eq!(project.tree(), before);
    }
}

#[test]
fn a_change_while_the_commit_runs_is_noticed() {
    for name in ["one", "new"] {
        let project = Project::new();
        project.write("one", "1").write("two", "2");
        let changes = vec![
            project.writing("two", "changed"),
            project.writing("one", "changed"),
            project.writing("new", "n"),
        ];
        let path = project.path(name);
        let mut once = Some(path.clone());
        let error = commit_observed(changes, None, &mut |step| {
            if step == CommitStep::Replace
                && let Some(path) = once.take()
            {
                fs::write(path, "by another program")?;
            }
            Ok(())
        });
        let error = error.expect_err("refused");
        assert!(
            error.message.contains("since it was read"),
            "{}",
            error.message
        );
        assert_eq!(fs::read(&path).expect("a file"), b"by another program");
        assert_eq!(project.read("two"), b"2");
        assert_tidy(&project.tree());
    }
}

#[test]
fn a_failure_at_any_step_changes_nothing() {
    let mut failed = Vec::new();
    for step in 0.. {
        let project = Project::new();
        project
            .write("changed", "old\n")
            .chmod("changed", 0o755)
            .write("removed", "x")
            .write("linked", "l".repeat(200_000));
        fs::hard_link(project.path("linked"), project.path("linked2")).expect("a link");
        let before = project.tree();
        let changes = vec![
            project.writing("changed", "new\n"),
            project.removing("removed"),
            project.writing("a/b/new", "n"),
            project.writing("linked", "L".repeat(300_000)),
        ];
        let mut count = 0;
        let result = commit_observed(changes, None, &mut |at| {
            count += 1;
            if count == step + 1 {
                failed.push(at);
                return Err(io::Error::from(io::ErrorKind::StorageFull));
            }
            Ok(())
        });
        let Err(error) = result else { break };
        assert!(
            error.message.contains("no storage space"),
            "{}",
            error.message
        );
        assert_eq!(error.hint, None);
        assert_eq!(project.tree(), before, "step {step}");
    }
    use CommitStep::{CleanUp, CreateDirectory, Link, Overwrite, Replace, Stage, Sync, Write};
    for kind in [
        CreateDirectory,
        Stage,
        Write,
        Link,
        Replace,
        Overwrite,
        Sync,
        CleanUp,
    ] {
        assert!(failed.contains(&kind), "{kind:?} was never reached");
    }
}

#[test]
fn what_is_not_a_regular_file_is_refused_without_waiting() {
    let project = Project::new();
    nix::unistd::mkfifo(&project.path("fifo"), nix::sys::stat::Mode::S_IRWXU).expect("a FIFO");
    fs::create_dir(project.path("dir")).expect("a directory");
    let _socket = std::os::unix::net::UnixListener::bind(project.path("socket")).expect("a socket");
    let refusal = |path: &str| {
        let resolved = project.resolve(path);
        FileSnapshot::read(&resolved).expect_err("refused").message
    };
    assert!(refusal("fifo").ends_with("fifo: is a FIFO, not a regular file"));
    assert!(refusal("dir").ends_with("dir: is a directory"));
    assert!(refusal("socket").ends_with("socket: is a socket, not a regular file"));
    assert!(refusal("/dev/null").ends_with("/dev/null: is a device, not a regular file"));
    fs::File::create(project.path("huge"))
        .and_then(|file| file.set_len(1 << 30))
        .expect("a sparse file");
    assert!(refusal("huge").contains("larger than 32 MB"));
}

#[test]
fn a_read_only_file_is_refused() {
    let project = Project::new();
    project.write("f", "old").chmod("f", 0o444);
    let error = commit(vec![project.writing("f", "new")], None).expect_err("refused");
    assert!(
        error.message.ends_with("f: is read-only (mode 444)"),
        "{}",
        error.message
    );
    assert_eq!(project.read("f"), b"old");
}

#[test]
fn one_file_by_two_names_is_refused() {
    let project = Project::new();
    project.write("f", "old");
    fs::hard_link(project.path("f"), project.path("g")).expect("a link");
    let error = commit(
        vec![project.writing("f", "1"), project.writing("g", "2")],
        None,
    )
    .expect_err("refused");
    assert!(
        error
            .message
            .ends_with("g: is changed twice, perhaps under another name"),
        "{}",
        error.message
    );
    let error = commit(
        vec![project.writing("new", "1"), project.writing("./new", "2")],
        None,
    )
    .expect_err("refused");
    assert!(error.message.contains("is changed twice"));
    assert_eq!(project.read("f"), b"old");
}

#[test]
fn a_change_that_changes_nothing_touches_nothing() {
    let project = Project::new();
    project.write("f", "same");
    let before = fs::metadata(project.path("f"))
        .and_then(|found| found.modified())
        .expect("metadata");
    let summary = commit(vec![project.writing("f", "same")], None).expect("a commit");
    assert!(summary.files.is_empty());
    assert_eq!(
        fs::metadata(project.path("f"))
            .and_then(|found| found.modified())
            .expect("metadata"),
        before
    );
}

#[test]
fn a_directory_that_becomes_a_link_leads_nowhere() {
    let outside = Project::new();
    outside.write("f", "outside").write("sub/f", "outside");
    for step in 0..30 {
        let project = Project::new();
        project
            .write("dir/sub/f", "inside")
            .write("dir/other", "inside");
        let changes = vec![
            project.writing("dir/sub/f", "changed"),
            project.writing("dir/sub/new/file", "changed"),
            project.removing("dir/other"),
        ];
        let mut count = 0;
        // Succeeds or fails; nothing may happen outside.
        let _ = commit_observed(changes, None, &mut |_| {
            count += 1;
            if count == step {
                fs::rename(project.path("dir"), project.path("moved"))?;
                symlink(&outside.path, project.path("dir"))?;
            }
            Ok(())
        });
        let names: Vec<String> = outside
            .tree()
            .keys()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(names, ["f", "sub", "sub/f"], "step {step}");
        assert_eq!(
            (outside.read("f"), outside.read("sub/f")),
            (b"outside".to_vec(), b"outside".to_vec())
        );
    }
}
