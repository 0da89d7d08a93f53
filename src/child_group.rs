//! Process groups of children, signalled only while their number cannot belong to another group.
//!
//! The number of a group is the process id of its leader. Once the leader was reaped and the group is empty, the system may give
//! the number to another process, so the rest of a group must be ended before its leader is reaped.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use tokio::process::Child;
use tokio::signal::unix::{SignalKind, signal};

/// Time between two looks at a leader whose exit no signal tells: there is no file descriptor left for it.
const UNTOLD: Duration = Duration::from_millis(100);

/// The process group of a child that was started as its leader.
#[derive(Debug, Clone, Copy)]
pub struct ChildGroup {
    leader: Option<Pid>,
}

impl ChildGroup {
    /// Creates the group of the child with this process id.
    pub fn of(pid: Option<u32>) -> ChildGroup {
        let pid = pid.and_then(|pid| i32::try_from(pid).ok());
        ChildGroup {
            leader: pid.and_then(Pid::from_raw),
        }
    }

    /// Sends a signal to all processes of the group, unless its leader was reaped.
    pub fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader
            && self.leader_state() != LeaderState::Reaped
        {
            // Fails for a group that only has a zombie, on some systems.
            let _ = killpg(unistd::Pid::from_raw(leader.as_raw_pid()), signal);
        }
    }

    /// Whether the leader has exited. It is not reaped.
    pub fn has_ended(&self) -> bool {
        self.leader_state() != LeaderState::Running
    }

    /// Waits until the leader has exited, without reaping it. Must run in a runtime. Cancel-safe.
    pub async fn ended(&self) {
        // Before the state is read, so that no exit is missed.
        let mut exits = signal(SignalKind::child()).ok();
        while !self.has_ended() {
            let is_told = match &mut exits {
                Some(exits) => exits.recv().await.is_some(),
                None => false,
            };
            if !is_told {
                tokio::time::sleep(UNTOLD).await;
            }
        }
    }

    /// Waits until the leader has exited, kills the rest of the group, and reaps the leader. Cancel-safe.
    ///
    /// # Errors
    /// The exit status is not known.
    pub async fn exit_of(&self, leader: &mut Child) -> io::Result<ExitStatus> {
        self.ended().await;
        self.signal(Signal::SIGKILL);
        leader.wait().await
    }

    fn leader_state(&self) -> LeaderState {
        let Some(leader) = self.leader else {
            return LeaderState::Reaped;
        };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        loop {
            return match waitid(WaitId::Pid(leader), options) {
                Ok(None) => LeaderState::Running,
                Ok(Some(_)) => LeaderState::Exited,
                Err(rustix::io::Errno::INTR) => continue,
                // ECHILD: the number is not that of a child.
                Err(_) => LeaderState::Reaped,
            };
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaderState {
    Running,
    /// Not reaped: the number still means this group.
    Exited,
    Reaped,
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    /// Starts a leader that ends at once and leaves a process, which holds the pipe, in its group.
    fn started() -> (std::process::Child, ChildGroup) {
        let child = Command::new("/bin/sh")
            .args(["-c", "sleep 60 & echo $!"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let group = ChildGroup::of(Some(child.id()));
        (child, group)
    }

    #[tokio::test]
    async fn the_rest_of_a_group_is_ended_before_its_leader_is_reaped() {
        let (mut child, group) = started();
        group.ended().await;
        assert_eq!(group.leader_state(), LeaderState::Exited);
        group.signal(Signal::SIGKILL);
        let mut text = String::new();
        // The end of the pipe is the end of both processes.
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert!(child.wait().unwrap().success());
    }

    #[test]
    fn a_group_whose_leader_was_reaped_gets_no_signal() {
        let (mut child, group) = started();
        assert!(child.wait().unwrap().success());
        assert!(group.has_ended());
        group.signal(Signal::SIGKILL);
        let mut pid = [0; 16];
        let length = child.stdout.take().unwrap().read(&mut pid).unwrap();
        let pid = std::str::from_utf8(&pid[..length]).unwrap().trim();
        let pid = unistd::Pid::from_raw(pid.parse().unwrap());
        // Fails if the process was killed.
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    }
}
