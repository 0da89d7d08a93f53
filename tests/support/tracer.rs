//! Daemon under ptrace: stops at each write to a journal file or at each system call, and can be killed there.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// Where the daemon is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillPoint {
    /// Nowhere.
    Never,
    /// In the `n`th write to a file of the journal, from 1.
    Write(usize, Kill),
    /// At the `n`th beginning or end of a system call after [`Traced::arm`], from 1.
    SystemCall(usize),
}

/// A traced daemon.
pub struct Traced {
    thread: JoinHandle<Trace>,
    armed: Arc<AtomicBool>,
}

/// What a traced daemon did.
pub struct Trace {
    /// The written journal files, in order.
    pub writes: Vec<PathBuf>,
    /// Number of beginnings and ends of system calls after [`Traced::arm`].
    pub system_calls: usize,
}

impl Traced {
    /// Starts the daemon of this helper and kills it at this point.
    pub fn start(aish: &Helper, at: KillPoint) -> Traced {
        // Becomes the daemon when the tracer has seized it. Threads that already run when a process is seized are not traced,
        // and a daemon that starts before its tracer may already have a journal thread.
        let mut command = Command::new("sh");
        command
            .args(["-c", "read -r go && exec \"$@\" </dev/null", "sh"])
            .args([helper(), "daemon", "--foreground"])
            .env_clear()
            .envs(aish.home.env())
            .current_dir(aish.home.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let journal = aish.path("data/journal");
        // ptrace requests and waits must come from the thread that attached.
        let armed = Arc::new(AtomicBool::new(false));
        let count = armed.clone();
        let thread = std::thread::spawn(move || trace(command, &journal, at, &count));
        aish.until("the daemon listens or has died", || {
            aish.listener().is_some() || thread.is_finished()
        });
        Traced { thread, armed }
    }

    /// Counts system calls from now on.
    pub fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    /// Waits until the daemon has ended.
    pub fn end(self) -> Trace {
        self.thread.join().expect("the tracer")
    }
}

fn trace(mut command: Command, journal: &Path, at: KillPoint, armed: &AtomicBool) -> Trace {
    let mut child = command.spawn().expect("the daemon starts");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a pid"));
    // All threads are traced; one of them writes the journal.
    let options =
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL | Options::PTRACE_O_TRACECLONE;
    ptrace::seize(pid, options).expect("a child may be traced");
    ptrace::interrupt(pid).expect("it stops");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"go\n").expect("the shell reads");
    drop(stdin);
    let mut writes = Vec::new();
    let mut system_calls = 0;
    // Threads inside a write.
    let mut inside = HashSet::new();
    // Only children of this thread, not of other tests.
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
    loop {
        let status = waitpid(None, Some(flags)).expect("the daemon");
        let thread = status.pid().expect("a thread");
        let go_on = match status {
            WaitStatus::PtraceSyscall(_) => {
                system_calls += usize::from(armed.load(Ordering::Relaxed));
                let point = if inside.remove(&thread) {
                    Some(Kill::After)
                } else if let Some(write) = JournalWrite::at_entry(thread, journal) {
                    writes.push(write.file.clone());
                    inside.insert(thread);
                    if at == KillPoint::Write(writes.len(), Kill::Half) {
                        write.half();
                        Some(Kill::Half)
                    } else {
                        Some(Kill::Before)
                    }
                } else {
                    None
                };
                let is_write = point.is_some_and(|how| at == KillPoint::Write(writes.len(), how));
                if is_write || system_calls > 0 && at == KillPoint::SystemCall(system_calls) {
                    kill(pid, Signal::SIGKILL).expect("it lives");
                }
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
    Trace {
        writes,
        system_calls,
    }
}

/// A write to a journal file that a stopped thread is about to make.
struct JournalWrite {
    thread: Pid,
    file: PathBuf,
    /// Address of the bytes in the memory of the daemon.
    address: u64,
    length: u64,
}

impl JournalWrite {
    /// Returns the write of a thread that is stopped at the entry of a system call.
    fn at_entry(thread: Pid, journal: &Path) -> Option<JournalWrite> {
        let call = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
        let mut words = call.split_whitespace();
        if words.next()?.parse() != Ok(SYS_write) {
            return None;
        }
        let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
        let (descriptor, address, length) = (number()?, number()?, number()?);
        let file = std::fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).ok()?;
        file.starts_with(journal).then_some(JournalWrite {
            thread,
            file,
            address,
            length,
        })
    }

    /// Writes the first half in place of the daemon, which is then killed. A file size limit would make the daemon do it,
    /// but also applies to files that its other threads write meanwhile.
    fn half(&self) {
        let mut bytes = vec![0; usize::try_from(self.length / 2).expect("a length")];
        File::open(format!("/proc/{}/mem", self.thread))
            .and_then(|memory| memory.read_exact_at(&mut bytes, self.address))
            .expect("the memory of the daemon");
        OpenOptions::new()
            .append(true)
            .open(&self.file)
            .and_then(|mut file| file.write_all(&bytes))
            .expect("half a write");
    }
}
