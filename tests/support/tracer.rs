//! Daemon under ptrace: stops at each write to a journal file, and can be killed there.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
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
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"go\n").expect("the shell reads");
    drop(stdin);
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
                let point = if inside.remove(&thread) {
                    Some(Kill::After)
                } else if let Some(write) = JournalWrite::at_entry(thread, journal) {
                    writes.push(write.file.clone());
                    inside.insert(thread);
                    if at == Some((writes.len(), Kill::Half)) {
                        write.half();
                        Some(Kill::Half)
                    } else {
                        Some(Kill::Before)
                    }
                } else {
                    None
                };
                if point.is_some_and(|point| at == Some((writes.len(), point))) {
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
    writes
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
