//! What is old goes while the daemon runs; what is open stays, and a crash in the midst leaves the old or the new.

use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::{Signal, kill};

use crate::support::helper::{Helper, records};

/// How much is kept where the configuration says nothing.
const RECORDS: usize = 100_000;

/// So many lines of records of now, each with its number.
fn lines(many: usize) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("a clock");
    let now = now.as_millis();
    let line = |n| {
        format!("{{\"v\":1,\"id\":\"{n}\",\"at_ms\":{now},\"type\":\"model\",\"model\":\"m\"}}\n")
    };
    (0..many).map(line).collect()
}

impl Helper {
    fn journal(&self, name: &str) -> PathBuf {
        let dir = self.path("data/journal");
        std::fs::create_dir_all(&dir).expect("the journal");
        dir.join(name)
    }

    /// A conversation that was last written then, and the shell in it.
    fn old_session(&self, id: &str, days: u64, shell: Option<&str>) {
        let path = self.journal(&format!("{id}.jsonl"));
        std::fs::write(&path, lines(1)).expect("a session");
        let then = SystemTime::now() - Duration::from_secs(days * 86_400);
        let file = File::open(&path).expect("the session");
        file.set_modified(then).expect("its time");
        if let Some(shell) = shell {
            let shells = self.path("state/shells");
            std::fs::create_dir_all(&shells).expect("shells");
            std::fs::write(shells.join(shell), id).expect("a shell");
        }
    }
}

#[test]
fn old_sessions_go_and_open_ones_stay() {
    let helper = Helper::saying("ok");
    let id = |n: u8| format!("01900000-0000-7000-8000-00000000000{n}");
    let pid = std::process::id();
    // The name of a shell begins with its process, which lives or has ended.
    let mut ended = std::process::Command::new("true")
        .spawn()
        .expect("a process");
    let dead = ended.id();
    ended.wait().expect("its end");
    helper.old_session(&id(1), 91, None);
    helper.old_session(&id(2), 89, None);
    helper.old_session(&id(3), 91, Some(&format!("{pid}-17-1")));
    helper.old_session(&id(4), 91, Some(&format!("{dead}-17-1")));
    helper.call(["start"]).run().ok();
    let log = helper.path("state/daemon.log");
    helper.until("the old ones have gone", || {
        let log = std::fs::read_to_string(&log).unwrap_or_default();
        log.contains("retention removed 2 old sessions and 0 other records")
    });
    let left = [2, 3].map(|n| helper.journal(&format!("{}.jsonl", id(n))));
    assert_eq!(helper.sessions(), left);
}

#[test]
fn a_daemon_killed_while_it_shortens_a_file_leaves_the_old_or_the_new() {
    let helper = Helper::saying("ok");
    let all = lines(RECORDS + 5000);
    let file = helper.journal("shells.jsonl");
    let is_whole = || {
        let text = std::fs::read_to_string(&file).expect("the file");
        assert!(
            all.ends_with(&text) && text.ends_with('\n'),
            "{} bytes",
            text.len()
        );
        assert!(
            text.is_empty() || text.starts_with("{\"v\""),
            "cut in a record"
        );
        text.lines().count()
    };
    let (mut old, mut new) = (0, 0);
    for n in 0..10_u64 {
        std::fs::write(&file, &all).expect("the file");
        helper.call(["start"]).run().ok();
        // Anywhere between the first look and long after the end of it: the time is the random part.
        std::thread::sleep(Duration::from_millis(n * n * 4));
        let pid = helper.daemon();
        kill(pid, Signal::SIGKILL).expect("it lives");
        helper.until("it is dead", || {
            helper.listener().is_none_or(|now| now != pid)
        });
        match is_whole() {
            many if many == RECORDS + 5000 => old += 1,
            many if many < RECORDS => new += 1,
            many => panic!("{many} records"),
        }
    }
    assert!(old > 0, "{old} {new}");
    // One that is let be comes to an end, goes on in the new file, and leaves nothing behind.
    std::fs::write(&file, &all).expect("the file");
    helper.call(["start"]).run().ok();
    helper.until("the file is shorter", || is_whole() < RECORDS);
    helper.call(["stop"]).run().ok();
    assert!(!helper.journal("shells.new").exists());
    assert_eq!(records(&file).len(), RECORDS - RECORDS / 16);
}
