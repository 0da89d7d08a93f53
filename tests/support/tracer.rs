//! Daemon under ptrace: stops at each write to a journal file, and can be killed there.

use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

use nix::libc::SYS_write;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::helper::Helper;
use super::home::helper;

/// Point of a write at which the daemon is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// Nothing is written.
    Before,
    /// Half is written.
    Half,
    /// Everything is written, but the daemon has not continued.
    After,
}

/// A traced daemon.
pub struct Traced(JoinHandle<Vec<PathBuf>>);

impl Traced {
    /// Starts the daemon of this helper and kills it in the `n`th write to a file of the journal, from 1.
    pub fn start(aish: &Helper, at: Option<(usize, Kill)>) -> Traced {
        let mut command = Command::new(helper());
        command
            .args(["daemon", "--foreground"])
            .env_clear()
            .envs(aish.home.env())
            .current_dir(aish.home.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let journal = aish.path("data/journal");
        // ptrace requests and waits must come from the thread that attached.
        let thread = std::thread::spawn(move || trace(command, &journal, at));
        aish.until("the daemon listens or has died", || {
            aish.listener().is_some() || thread.is_finished()
        });
        Traced(thread)
    }

    /// Waits until the daemon has ended; returns the written journal files, in order.
    pub fn end(self) -> Vec<PathBuf> {
        self.0.join().expect("the tracer")
    }
}

fn trace(mut command: Command, journal: &Path, at: Option<(usize, Kill)>) -> Vec<PathBuf> {
    let mut child = command.spawn().expect("the daemon starts");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    // All threads are traced; one of them writes the journal.
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACECLONE;
    ptrace::seize(pid, options).expect("a child may be traced");
    ptrace::interrupt(pid).expect("it stops");
    let mut writes = Vec::new();
    // Threads inside a write.
    let mut inside = HashSet::new();
    // Only children of this thread, not of other tests.
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
    loop {
        let status = waitpid(None, Some(flags)).expect("the daemon");
        let thread = status.pid().expect("a thread");
        let go_on = match status {
            WaitStatus::PtraceSyscall(_) => {
                let mut dies = None;
                if inside.remove(&thread) {
                    dies = Some(Kill::After);
                } else if let Some((file, length)) = written(thread, journal) {
                    writes.push(file.clone());
                    if at == Some((writes.len(), Kill::Half)) {
                        limit(
                            pid,
                            file.metadata().expect("it is there").len() + length / 2,
                        );
                    }
                    inside.insert(thread);
                    dies = Some(Kill::Before);
                }
                if dies.is_some_and(|how| at == Some((writes.len(), how))) {
                    kill(pid, Signal::SIGKILL).expect("it lives");
                }
                None
            }
            // The rest of a write beyond the file size limit.
            WaitStatus::Stopped(_, Signal::SIGXFSZ) => {
                kill(pid, Signal::SIGKILL).expect("it lives");
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            WaitStatus::PtraceEvent(..) => None,
            WaitStatus::Signaled(..) | WaitStatus::Exited(..) if thread == pid => break,
            WaitStatus::Signaled(..) | WaitStatus::Exited(..) => continue,
            other => panic!("{other:?}"),
        };
        // Fails if the thread was just killed.
        let _ = ptrace::syscall(thread, go_on);
    }
    // waitpid has reaped the process already.
    let _ = child.try_wait().map(|status| status.map(|s| s.into_raw()));
    writes
}

/// At a system call entry: the journal file about to be written, and the number of bytes.
fn written(pid: Pid, journal: &Path) -> Option<(PathBuf, u64)> {
    let call = std::fs::read_to_string(format!("/proc/{pid}/syscall")).ok()?;
    let mut words = call.split_whitespace();
    if words.next()?.parse() != Ok(SYS_write) {
        return None;
    }
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (descriptor, _, length) = (number()?, number()?, number()?);
    let file = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
    file.starts_with(journal).then_some((file, length))
}

/// Limits the size of the process's files.
fn limit(pid: Pid, bytes: u64) {
    let call = Command::new("prlimit")
        .args([format!("--pid={pid}"), format!("--fsize={bytes}:unlimited")])
        .status();
    assert!(call.expect("prlimit").success());
}
