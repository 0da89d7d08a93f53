//! Retention: the daemon deletes old records, keeps open sessions, and a crash during the deletion leaves either the old
//! or the new file.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};

use crate::support::helper::{Helper, records};

/// Default of `history.max_records`.
const RECORDS: usize = 100_000;

/// Returns `count` lines of records with the current time, numbered by their ids.
fn lines(count: usize) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock");
    let now = now.as_millis();
    let line = |n| {
        format!("{{\"v\":1,\"id\":\"{n}\",\"at_ms\":{now},\"type\":\"model\",\"model\":\"m\"}}\n")
    };
    (0..count).map(line).collect()
}

impl Helper {
    fn journal(&self, name: &str) -> PathBuf {
        let dir = self.path("data/journal");
        std::fs::create_dir_all(&dir).expect("the journal");
        dir.join(name)
    }

    /// Creates a session that was last written `days` ago, and binds `shell` to it.
    fn old_session(&self, id: &str, days: u64, shell: Option<&str>) {
        let path = self.journal(&format!("{id}.jsonl"));
        std::fs::write(&path, lines(1)).expect("a session");
        let modified = SystemTime::now() - Duration::from_secs(days * 86_400);
        let file = File::open(&path).expect("the session");
        file.set_modified(modified).expect("a modification time");
        if let Some(shell) = shell {
            let shells = self.path("state/shells");
            std::fs::create_dir_all(&shells).expect("shells");
            std::fs::write(shells.join(shell), id).expect("a shell");
        }
    }
}

#[test]
fn old_sessions_are_deleted_unless_a_shell_is_open() {
    let helper = Helper::saying("ok");
    let id = |n: u8| format!("01900000-0000-7000-8000-00000000000{n}");
    let pid = std::process::id();
    // The id of a shell begins with its process id, by which the daemon sees whether the shell is open.
    let mut exited = std::process::Command::new("true")
        .spawn()
        .expect("a process");
    let exited_pid = exited.id();
    exited.wait().expect("its end");
    helper.old_session(&id(1), 91, None);
    helper.old_session(&id(2), 89, None);
    helper.old_session(&id(3), 91, Some(&format!("{pid}-17-1")));
    helper.old_session(&id(4), 91, Some(&format!("{exited_pid}-17-1")));
    helper.call(["start"]).run().ok();
    let log = helper.path("state/daemon.log");
    helper.until("the old sessions are deleted", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.contains("retention removed 2 old sessions and 0 other records")
    });
    let kept = [2, 3].map(|n| helper.journal(&format!("{}.jsonl", id(n))));
    assert_eq!(helper.sessions(), kept);
}

#[test]
fn daemon_killed_during_retention_leaves_the_old_or_the_new_file() {
    let helper = Helper::saying("ok");
    let all = lines(RECORDS + 5000);
    let file = helper.journal("shells.jsonl");
    let complete_lines = || {
        let text = std::fs::read_to_string(&file).expect("the file");
        assert!(
            all.ends_with(&text) && text.ends_with('\n'),
            "{} bytes",
            text.len()
        );
        assert!(
            text.is_empty() || text.starts_with("{\"v\""),
            "the file begins within a record"
        );
        text.lines().count()
    };
    let (mut old, mut new) = (0, 0);
    for n in 0..10_u64 {
        std::fs::write(&file, &all).expect("the file");
        helper.call(["start"]).run().ok();
        // The kill hits anywhere from before the deletion to after it; the delay only spreads the kills.
        std::thread::sleep(Duration::from_millis(n * n * 4));
        let pid = helper.daemon();
        kill(pid, Signal::SIGKILL).expect("the daemon runs");
        helper.until("the daemon is dead", || {
            helper.listener().is_none_or(|current| current != pid)
        });
        match complete_lines() {
            count if count == RECORDS + 5000 => old += 1,
            count if count < RECORDS => new += 1,
            count => panic!("{count} records"),
        }
    }
    assert!(old > 0, "{old} {new}");
    // A daemon that is not killed finishes the deletion, writes on to the new file, and leaves no temporary file behind.
    std::fs::write(&file, &all).expect("the file");
    helper.call(["start"]).run().ok();
    helper.until("the file is shorter", || complete_lines() < RECORDS);
    helper.call(["stop"]).run().ok();
    assert!(!helper.journal("shells.new").exists());
    assert_eq!(records(&file).len(), RECORDS - RECORDS / 16);
}
