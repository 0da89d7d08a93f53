//! A daemon under a tracer, which stops at each write to a file of the journal, and can kill it there.

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

/// Where in a write the daemon is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// Nothing of it is in the file.
    Before,
    /// Half of it is.
    Half,
    /// All of it is, and nothing has come of it yet.
    After,
}

/// A daemon that is traced.
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
        // All requests of a tracer come from one thread, and it alone may wait for the process.
        let thread = std::thread::spawn(move || trace(command, &journal, at));
        aish.until("the daemon listens or has died", || {
            aish.listener().is_some() || thread.is_finished()
        });
        Traced(thread)
    }

    /// Waits for its end: which files of the journal were written, in order.
    pub fn end(self) -> Vec<PathBuf> {
        self.0.join().expect("the tracer")
    }
}

fn trace(mut command: Command, journal: &Path, at: Option<(usize, Kill)>) -> Vec<PathBuf> {
    let mut child = command.spawn().expect("the daemon starts");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
    // The first thread alone: it does all that the daemon does, but for what waits for the disk.
    ptrace::seize(pid, options).expect("a child may be traced");
    ptrace::interrupt(pid).expect("it stops");
    let mut writes = Vec::new();
    // The file of the write that it is in.
    let mut inside: Option<PathBuf> = None;
    loop {
        let go_on = match waitpid(pid, Some(WaitPidFlag::__WALL)).expect("the daemon") {
            WaitStatus::PtraceSyscall(_) => {
                let mut dies = None;
                if inside.take().is_some() {
                    dies = Some(Kill::After);
                } else if let Some((file, length)) = written(pid, journal) {
                    writes.push(file.clone());
                    if at == Some((writes.len(), Kill::Half)) {
                        limit(
                            pid,
                            file.metadata().expect("it is there").len() + length / 2,
                        );
                    }
                    inside = Some(file);
                    dies = Some(Kill::Before);
                }
                if dies.is_some_and(|how| at == Some((writes.len(), how))) {
                    kill(pid, Signal::SIGKILL).expect("it lives");
                }
                None
            }
            // The rest of a write that was cut short.
            WaitStatus::Stopped(_, Signal::SIGXFSZ) => {
                kill(pid, Signal::SIGKILL).expect("it lives");
                None
            }
            WaitStatus::Stopped(_, signal) => Some(signal),
            WaitStatus::PtraceEvent(..) => None,
            WaitStatus::Signaled(..) | WaitStatus::Exited(..) => break,
            other => panic!("{other:?}"),
        };
        // One that was just killed cannot be told to go on.
        let _ = ptrace::syscall(pid, go_on);
    }
    // It was waited for already.
    let _ = child.try_wait().map(|status| status.map(|s| s.into_raw()));
    writes
}

/// The file of the journal that is about to be written, and how much is. At the entry of a system call.
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

/// Lets its files grow so far.
fn limit(pid: Pid, bytes: u64) {
    let call = Command::new("prlimit")
        .args([format!("--pid={pid}"), format!("--fsize={bytes}:unlimited")])
        .status();
    assert!(call.expect("prlimit").success());
}
