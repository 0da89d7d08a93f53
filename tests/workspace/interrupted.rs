//! Commits that are killed at each step, or that find the disk full.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

use aish::workspace::changes::{CommitStep, OriginalKeeper, PreparedChange, commit_observed};
use aish::workspace::failure::WorkspaceError;
use aish::workspace::undo::{ConflictChoice, UndoStore};
use nix::sys::signal::{Signal, kill};
use nix::unistd::getpid;
use tempfile::TempDir;

use crate::support::helper::Helper;

use super::{Project, Tree, assert_tidy, tree};

/// More than one part of a write, so that a file can be overwritten half-way.
const LARGE: usize = 70_000;

/// Variable with the directory in which a child works; it has the files in `files` and the kept copies in `undo`.
const CHILD: &str = "AISH_TEST_COMMIT";

/// Variable with the step at which the child is killed, from 1.
const STEP: &str = "AISH_TEST_COMMIT_STEP";

/// Variable that makes the child commit without keeping the old versions.
const WITHOUT_KEEPER: &str = "AISH_TEST_COMMIT_WITHOUT_KEEPER";

fn prepare(root: &Path) -> Project {
    let files = root.join("files");
    fs::create_dir_all(&files).expect("a directory");
    let project = Project::at(&files);
    project.write("changed", "old\n").chmod("changed", 0o750);
    project
        .write("removed", "x")
        .write("from", "script")
        .chmod("from", 0o755);
    project
        .write("grows", "o".repeat(LARGE))
        .write("shrinks", "o".repeat(2 * LARGE));
    for name in ["grows", "shrinks"] {
        fs::hard_link(project.path(name), project.path(&format!("{name}2"))).expect("a link");
    }
    project
}

fn changes(project: &Project) -> Vec<PreparedChange> {
    let source = project.snapshot("from").expect("a file");
    let moved = PreparedChange::with_mode(
        project.resolve("a/b/to"),
        None,
        source.bytes.clone(),
        Some(source.mode),
    );
    vec![
        project.writing("changed", "new\n"),
        project.removing("removed"),
        moved.expect("a change"),
        project.removing("from"),
        project.writing("grows", "N".repeat(2 * LARGE)),
        project.writing("shrinks", "N".repeat(LARGE)),
    ]
}

/// Returns a directory in memory, where there is one: a commit syncs often, and many are made.
fn directory() -> TempDir {
    let memory = TempDir::new_in("/dev/shm");
    memory.or_else(|_| TempDir::new()).expect("a directory")
}

/// Commits in the directory that the variable names, and kills its own process at one step.
#[test]
#[ignore = "run by the other tests of this file as a process of its own"]
fn child_commits() {
    let Some(root) = std::env::var_os(CHILD) else {
        return;
    };
    let root = Path::new(&root);
    let step: usize = std::env::var(STEP)
        .expect("a step")
        .parse()
        .expect("a number");
    let project = Project::at(&root.join("files"));
    let mut keeper = UndoStore::new(root.join("undo"))
        .turn("session", "turn")
        .expect("a turn");
    let keeper = std::env::var_os(WITHOUT_KEEPER)
        .is_none()
        .then_some(&mut keeper as &mut dyn OriginalKeeper);
    let mut count = 0;
    commit_observed(changes(&project), keeper, &mut |_| {
        count += 1;
        if count == step {
            kill(getpid(), Signal::SIGKILL).expect("it dies");
        }
        Ok(())
    })
    .expect("a commit");
}

fn child(root: &Path, test: &str, step: usize) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    let name = format!(
        "{}::{test}",
        module_path!().split_once("::").expect("a crate").1
    );
    command
        .args(["--exact", &name, "--ignored", "--nocapture"])
        .env(CHILD, root)
        .env(STEP, step.to_string());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn a_commit_that_is_killed_at_any_step_leaves_whole_files_and_can_be_undone() {
    let mut restored_files = 0;
    let mut kills = 0;
    for step in 1.. {
        let dir = directory();
        let root = dir.path().canonicalize().expect("a path");
        let project = prepare(&root);
        let before = project.tree();
        let output = child(&root, "child_commits", step)
            .output()
            .expect("a process");
        let done = output.status.success();
        assert!(
            done || output.status.signal() == Some(9),
            "{}",
            text(&output)
        );
        let store = UndoStore::new(root.join("undo"));
        let resolver = project.resolver();
        restored_files += store
            .recover("session", &resolver)
            .expect("recovered")
            .restored
            .len();
        let after = project.tree();
        assert_tidy(&after);
        for (name, content) in &after {
            let Some((bytes, mode)) = content else {
                continue;
            };
            let name = name.to_str().expect("UTF-8");
            let is_old = before.get(Path::new(name)) == Some(content);
            let is_new = match name {
                "changed" => (bytes.as_slice(), *mode) == (b"new\n", 0o750),
                "a/b/to" => (bytes.as_slice(), *mode) == (b"script", 0o755),
                "grows" | "grows2" => *bytes == "N".repeat(2 * LARGE).into_bytes(),
                "shrinks" | "shrinks2" => *bytes == "N".repeat(LARGE).into_bytes(),
                _ => false,
            };
            assert!(is_old || is_new, "step {step}: {name}");
        }
        // A moved file is always in one of its places.
        let has = |tree: &Tree, name: &str| tree.contains_key(Path::new(name));
        assert!(has(&after, "from") || has(&after, "a/b/to"), "step {step}");
        if store.turns("session").expect("turns").is_empty() {
            // Directories that a killed commit has created stay, empty.
            let files = |tree: &Tree| tree.iter().filter(|(_, content)| content.is_some()).count();
            assert_eq!(files(&after), files(&before), "step {step}");
        } else {
            let report = store
                .undo("session", "turn", &resolver, ConflictChoice::Refuse)
                .expect("undone");
            assert!(report.is_done, "{report:?}");
            assert_eq!(project.tree(), before, "step {step}");
            assert!(store.turns("session").expect("turns").is_empty());
        }
        if done {
            break;
        }
        kills += 1;
    }
    assert!(kills > 20, "{kills} steps");
    assert!(restored_files > 0, "no file was overwritten half-way");
}

#[test]
fn the_next_daemon_restores_a_file_that_was_overwritten_half_way() {
    let helper = Helper::saying("fine");
    // Where the daemon keeps its copies, so that the child's are found.
    let root = helper.path("data");
    for step in 1.. {
        for name in ["files", "undo"] {
            let _ = fs::remove_dir_all(root.join(name));
        }
        let project = prepare(&root);
        let output = child(&root, "child_commits", step).output();
        let output = output.expect("a process");
        assert_eq!(output.status.signal(), Some(9), "{}", text(&output));
        let bytes = project.read("grows");
        if !(bytes.contains(&b'N') && bytes.contains(&b'o')) {
            continue;
        }
        helper.call(["start"]).run().ok();
        assert_eq!(project.read("grows"), "o".repeat(LARGE).into_bytes());
        break;
    }
}

/// Commits on a file system that is full, until it has space again.
#[test]
#[ignore = "run by the other tests of this file as a process of its own"]
fn child_on_a_full_disk() {
    let Some(root) = std::env::var_os(CHILD) else {
        return;
    };
    let root = Path::new(&root);
    let project = prepare(root);
    let filler = root.join("filler");
    let mut file = fs::File::create(&filler).expect("a file");
    let full = (0..100_000).find_map(|_| std::io::Write::write_all(&mut file, &[0; 1024]).err());
    assert_eq!(
        full.map(|error| error.kind()),
        Some(std::io::ErrorKind::StorageFull)
    );
    drop(file);
    let before = project.tree();
    let store = UndoStore::new(root.join("undo"));
    let commit = |with_keeper: bool| -> Result<(), WorkspaceError> {
        let mut keeper = store.turn("session", "turn").expect("a turn");
        let keeper = with_keeper.then_some(&mut keeper as &mut dyn OriginalKeeper);
        commit_observed(changes(&project), keeper, &mut |_| Ok(())).map(drop)
    };
    for with_keeper in [true, false] {
        let error = commit(with_keeper).expect_err("a full disk");
        assert!(
            error.message.contains("No space left on device"),
            "{}",
            error.message
        );
        assert_eq!(error.hint, None);
        assert_eq!(project.tree(), before);
        assert!(store.turns("session").expect("turns").is_empty());
    }
    fs::remove_file(&filler).expect("the filler");
    commit(true).expect("a commit");
    assert_eq!(project.read("grows2"), "N".repeat(2 * LARGE).into_bytes());
    println!("checked on a full disk");
}

#[test]
fn on_a_full_disk_nothing_changes() {
    let dir = TempDir::new().expect("a directory");
    let root = dir.path().canonicalize().expect("a path");
    let mount = "mount -t tmpfs -o size=4m,mode=700 none \"$0\"";
    let probe = Command::new("unshare")
        .args(["-rm", "sh", "-c", mount])
        .arg(&root)
        .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no user namespaces");
        return;
    }
    let run = child(&root, "child_on_a_full_disk", 0);
    let script = format!("{mount} && shift 0 && exec \"$@\"");
    let mut command = Command::new("unshare");
    command
        .args(["-rm", "sh", "-c", &script])
        .arg(&root)
        .arg(run.get_program())
        .args(run.get_args());
    command.envs(
        run.get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let output = command.output().expect("a process");
    assert!(
        text(&output).contains("checked on a full disk"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_file_size_limit_in_the_middle_of_a_write_changes_nothing() {
    // With kept copies they are the first to fail, without them a file that is overwritten and grows.
    for (limit, with_keeper) in [
        (0, true),
        (64, true),
        (300, true),
        (0, false),
        (64, false),
        (200, false),
    ] {
        let dir = TempDir::new().expect("a directory");
        let root = dir.path().canonicalize().expect("a path");
        let project = prepare(&root);
        let before = project.tree();
        let run = child(&root, "child_commits", 0);
        // dash counts in blocks of 512 bytes.
        let script = format!("trap '' XFSZ; ulimit -f {limit}; exec \"$@\"");
        let mut command = Command::new("sh");
        command
            .args(["-c", &script, "sh"])
            .arg(run.get_program())
            .args(run.get_args());
        command.envs(
            run.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        if !with_keeper {
            command.env(WITHOUT_KEEPER, "1");
        }
        let output = command.output().expect("a process");
        assert!(
            !output.status.success() && text(&output).contains("File too large"),
            "{}",
            text(&output)
        );
        assert_eq!(project.tree(), before, "limit {limit}");
        if !with_keeper {
            continue;
        }
        let left = tree(&root.join("undo"));
        assert!(left.values().all(Option::is_none), "{left:?}");
    }
}

#[test]
fn a_file_in_a_directory_that_may_not_be_written_is_written_in_place() {
    let dir = TempDir::new().expect("a directory");
    let root = dir.path().canonicalize().expect("a path");
    fs::create_dir(root.join("files")).expect("a directory");
    let project = Project::at(&root.join("files"));
    project.write("dir/f", "old\n").chmod("dir/f", 0o666);
    for (name, mode) in [("files/dir", 0o555), ("files", 0o755), ("", 0o755)] {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).expect("a mode");
    }
    let output = child(&root, "child_without_rights", 0)
        .output()
        .expect("a process");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(project.read("dir/f"), b"new and longer\n");
    assert_tidy(&project.tree());
}

/// Gives up root's rights, if it has them, and commits in place.
#[test]
#[ignore = "run by the other tests of this file as a process of its own"]
fn child_without_rights() {
    let Some(root) = std::env::var_os(CHILD) else {
        return;
    };
    if nix::unistd::geteuid().is_root() {
        nix::unistd::setgid(nix::unistd::Gid::from_raw(65_534)).expect("root may");
        nix::unistd::setuid(nix::unistd::Uid::from_raw(65_534)).expect("root may");
    }
    let project = Project::at(&Path::new(&root).join("files"));
    let mut steps = Vec::new();
    let observe = &mut |step| {
        steps.push(step);
        Ok(())
    };
    commit_observed(
        vec![project.writing("dir/f", "new and longer\n")],
        None,
        observe,
    )
    .expect("a commit");
    assert!(steps.contains(&CommitStep::Overwrite));
    // Without the right to write the file it is refused.
    let refused = project.workspace.resolve("/etc/hostname").expect("a path");
    let before = aish::workspace::changes::FileSnapshot::read(&refused)
        .expect("readable")
        .expect("a file");
    let change = PreparedChange::write(refused, Some(before), b"x".as_slice()).expect("a change");
    let error = commit_observed(vec![change], None, &mut |_| Ok(())).expect_err("refused");
    assert!(
        error.message.contains("permission denied"),
        "{}",
        error.message
    );
}
