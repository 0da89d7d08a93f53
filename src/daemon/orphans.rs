//! Orphans: descendants of the programs that the daemon started. The daemon adopts them, so that their ancestors always lead
//! to it, and must reap them.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// Makes the daemon the parent of orphaned descendants. Where the system has no such thing, they become children of init.
pub fn adopt() {
    #[cfg(target_os = "linux")]
    if let Err(e) = nix::sys::prctl::set_child_subreaper(true) {
        tracing::warn!("orphaned programs are not recognized: {e}");
    }
}

/// Ended children that were found by the last call of [`Orphans::reap`].
#[derive(Debug, Default)]
pub struct Orphans(BTreeSet<i32>);

impl Orphans {
    /// Reaps the children that had ended at the last call already, some seconds ago. Programs that the daemon itself has started are
    /// reaped within a second by the tasks that wait for them.
    pub fn reap(&mut self) {
        let ended = ended_children();
        for pid in ended.intersection(&self.0) {
            // Fails if another task has reaped it meanwhile.
            let _ = waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG));
        }
        self.0 = ended;
    }
}

fn ended_children() -> BTreeSet<i32> {
    let threads = fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let children =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let pids: Vec<i32> = children
        .flat_map(|text| {
            text.split_whitespace()
                .filter_map(|pid| pid.parse().ok())
                .collect::<Vec<_>>()
        })
        .collect();
    pids.into_iter().filter(|pid| has_ended(*pid)).collect()
}

fn has_ended(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_whitespace().next());
    state == Some("Z")
}
